"""The bound is below whatever carries the pods: `python3 tests/day/test_bound.py`."""

import random
import unittest

import bound
import make

SHAPES = [(250, 512, "Deployment"), (1000, 8192, "Deployment"), (2000, 4000, "Job"), (1000, 4096, "StatefulSet")]


def greedy(offers, counts, rng):
    """What some plan of whole nodes costs: each of a random type that holds the next pod, filled as far as pods fit."""
    left, paid = list(counts), 0.0
    while any(left):
        need = next(s for s, count in enumerate(left) if count)
        cpu, mib, kind = SHAPES[need]
        fits = [
            (name, zone, how)
            for name, zone, how in offers.prices
            if offers.room[name][0] >= cpu and offers.room[name][1] >= mib and (kind != "StatefulSet" or how == "on-demand")
        ]
        # The cheap and small ones mostly: others are far above the bound anyway.
        key = min(rng.sample(fits, 40), key=lambda one: offers.prices[one])
        paid += offers.prices[key]
        room = list(offers.room[key[0]])
        for s, (cpu, mib, kind) in enumerate(SHAPES):
            while left[s] and room[0] >= cpu and room[1] >= mib and room[2] >= 1 and (kind != "StatefulSet" or key[2] == "on-demand"):
                room = [room[0] - cpu, room[1] - mib, room[2] - 1]
                left[s] -= 1
    return paid


class BoundTest(unittest.TestCase):
    def setUp(self):
        self.offers = bound.Offers(make.FAMILIES)
        self.bound = bound.Bound(SHAPES, self.offers)

    def test_no_plan_of_whole_nodes_costs_less(self):
        rng = random.Random(1)
        for _ in range(12):
            counts = [rng.randint(0, 40) for _ in SHAPES]
            least = self.bound.price(counts)
            for _ in range(5):
                paid = greedy(self.offers, counts, rng)
                self.assertLessEqual(least, paid * (1 + 1e-6), counts)

    def test_a_node_holds_whole_pods_only(self):
        # One CPU of 1,930: parts of pods would fill what is left.
        types = {name: room for name, room in self.offers.room.items() if name == "r7g.large"}
        offers = bound.Offers(make.FAMILIES)
        offers.prices = {key: usd for key, usd in offers.prices.items() if key[0] in types}
        one = bound.Bound([(1000, 2048, "Deployment")], offers)
        cheapest = min(usd for (_, _, how), usd in offers.prices.items() if how == "spot")
        self.assertAlmostEqual(one.price([10]), 10 * cheapest, places=6)

    def test_the_spread_that_pods_ask_for_costs_no_less_than_without(self):
        spread = bound.Bound(SHAPES, self.offers, ("Deployment",))
        for counts in ([30, 10, 0, 0], [60, 0, 20, 5], [3, 3, 3, 3]):
            self.assertGreaterEqual(spread.price(counts), self.bound.price(counts) * (1 - 1e-9))

    def test_who_is_on_demand_alone_pays_for_that(self):
        spot, fixed = self.bound.price([0, 0, 20, 0]), self.bound.price([0, 0, 0, 20])
        self.assertGreater(fixed, spot)


if __name__ == "__main__":
    unittest.main()
