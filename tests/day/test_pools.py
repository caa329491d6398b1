"""The bound with finite pools is below whatever carries the pods, and as high as small cases have it by hand:
`python3 tests/day/test_pools.py`."""

import itertools
import random
import unittest

import pools

WEB = [(250, 512, "Deployment", "web")]
SET = [(250, 512, "StatefulSet", "")]
ZONES = ("a", "b", "c")


def pool(name, zone, kind, usd, units, depth=None, vcpus=4):
    """Of room for so many pods of 250m and 512 MiB."""
    return pools.Pool(name, zone, kind, usd, (units * 250, units * 512), vcpus, depth)


def price(shapes, all_of, counts, **wishes):
    return pools.FiniteBound(shapes, all_of, **wishes).price(counts)


class ByHandTest(unittest.TestCase):
    def near(self, found, by_hand):
        # Proven, so never above; and the search ends this near below.
        self.assertLessEqual(found, by_hand * (1 + 1e-6))
        self.assertGreaterEqual(found, by_hand * (1 - 2 * pools.NEAR))

    def test_what_a_pool_has_no_more_of_is_bought_elsewhere(self):
        # Two spot nodes of four pods, $2, then half an on-demand node, $1.
        all_of = [pool("cheap", "a", "spot", 1, 4, depth=2), pool("dear", "a", "on-demand", 2, 4)]
        self.near(price(WEB, all_of, [10]), 3)
        self.near(price(WEB, all_of, [4]), 1)
        self.near(price(WEB, all_of[1:], [10]), 5)

    def test_a_pool_without_depth_is_no_bound(self):
        all_of = [pool("cheap", "a", "spot", 1, 4), pool("dear", "a", "on-demand", 2, 4)]
        self.near(price(WEB, all_of, [100]), 25)

    def test_an_empty_pool_is_left_out(self):
        class Offers:
            prices = {("m5.large", "a", "spot"): 1.0, ("m5.large", "b", "spot"): 1.0, ("m5.large", "a", "on-demand"): 3.0}
            room, vcpus = {"m5.large": (1930, 7000, 29)}, {"m5.large": 2}

        found = pools.pools(Offers, (430, 600, 2), {"m5.large/a": 0, "m5.large/b": 5})
        self.assertEqual([(one.zone, one.kind, one.depth) for one in found], [("a", "on-demand", None), ("b", "spot", 5)])
        # 1,500m and 6,400 MiB beside the DaemonSets.
        self.assertEqual(found[0].cell, (6, 12))

    def test_whole_pods_on_small_nodes_and_parts_on_large_ones(self):
        big = [(750, 512, "Deployment", "web")]
        for vcpus, by_hand in ((16, 3), (32, 9 / 4)):
            all_of = [pool("one", "a", kind, usd, 4, vcpus=vcpus) for kind, usd in (("spot", 1), ("on-demand", 9))]
            self.near(price(big, all_of, [3]), by_hand)
        small = [pool(name, "a", "spot", 1, 4) for name in "mno"] + [pool("q", "a", "on-demand", 9, 4)]
        self.near(price(big, small, [3], choices=3), 3)

    def test_zones_that_are_alike_cost_what_their_prices_say(self):
        # A pod a node. Of four pods each zone has one, and the cheapest zone two.
        spot = [pool("one", zone, "spot", usd, 1) for zone, usd in zip(ZONES, (1, 2, 3))]
        all_of = spot + [pool("two", zone, "on-demand", 9, 1) for zone in ZONES]
        self.near(price(WEB, all_of, [4], spread=True), 7)
        self.near(price(WEB, all_of, [4]), 4)
        self.near(price(WEB, all_of, [2], spread=True), 2)
        # A Job has no wish.
        self.near(price([(250, 512, "Job", "")], all_of, [4], spread=True), 4)

    def test_three_types_a_launch_cost_their_mean(self):
        spot = [pool(name, "a", "spot", usd, 1) for name, usd in (("m", 1), ("n", 2), ("o", 3), ("p", 9))]
        all_of = spot + [pool("q", "a", "on-demand", 20, 1)]
        self.near(price(WEB, all_of, [10], choices=3), 20)
        # Two of the three have room for two pods; the third has not, so a launch is for one pod or names a dearer type.
        spot[0], spot[1] = pool("m", "a", "spot", 1, 2), pool("n", "a", "spot", 2, 2)
        self.near(price(WEB, spot + all_of[4:], [10], choices=3), 20)
        spot[3] = pool("p", "a", "spot", 4, 2)
        self.near(price(WEB, spot + all_of[4:], [10], choices=3), 5 * 7 / 3)

    def test_types_in_two_zones_are_one_type(self):
        spot = [pool("m", zone, "spot", 1, 1) for zone in ZONES] + [pool("n", "a", "spot", 4, 1), pool("o", "a", "spot", 7, 1)]
        self.near(price(WEB, spot + [pool("q", "a", "on-demand", 20, 1)], [1], choices=3), 4)

    def test_three_types_a_launch_share_the_depth_of_pools(self):
        # Each launch takes a third of each pool of two: six launches at $2, then four on demand.
        spot = [pool(name, "a", "spot", usd, 1, depth=2) for name, usd in (("m", 1), ("n", 2), ("o", 3))]
        self.near(price(WEB, spot + [pool("q", "a", "on-demand", 4, 1)], [10], choices=3), 28)

    def test_on_demand_launches_pay_the_cheapest_type(self):
        # A pod of three parts and one of one fill a node of four.
        all_of = [pool(name, "a", "on-demand", usd, 4) for name, usd in (("m", 1), ("n", 2), ("o", 3))]
        self.near(price(WEB + [(750, 512, "Job", "")], all_of, [4, 4], choices=3), 4)

    def test_a_stateful_set_runs_on_demand_alone(self):
        all_of = [pool("m", "a", "spot", 1, 4), pool("m", "a", "on-demand", 3, 4)]
        self.near(price(SET, all_of, [8]), 6)

    def test_what_is_proven_for_some_pods_bounds_others(self):
        spot = [pool(f"t{i}", zone, "spot", 1 + i / 7 + at / 9, 3 + i, depth=2) for i in range(4) for at, zone in enumerate(ZONES)]
        all_of = spot + [pool("q", zone, "on-demand", 6, 4) for zone in ZONES]
        solver = pools.FiniteBound(WEB + [(500, 512, "Job", "")], all_of, spread=True, choices=3)
        solver.price([30, 9])
        for counts in ([10, 0], [0, 40], [33, 8], [90, 30]):
            known = solver.known(counts)
            self.assertLessEqual(known, solver.price(counts) * (1 + 2 * pools.NEAR))


class PlansTest(unittest.TestCase):
    """Plans of whole nodes that keep to the depths, and to the wishes where there are some."""

    SHAPES = [(250, 1024, "Deployment", "web"), (500, 512, "Deployment", "api"), (750, 1536, "Job", ""), (500, 1024, "StatefulSet", "")]

    def setUp(self):
        rng = random.Random(7)
        self.pools = []
        for zone, (number, units) in itertools.product(ZONES, enumerate((4, 8, 16, 6, 12))):
            for kind, times, depth in (("spot", rng.uniform(0.3, 0.5), rng.randint(1, 3)), ("on-demand", 1, None)):
                self.pools.append(pool(f"t{number}", zone, kind, units * times, units, depth, vcpus=units if number < 4 else 32))

    def plan(self, rng, counts, spread, choices):
        """$ of one; each node is filled with what comes first and has room, whatever that leaves."""
        left = [(s, zone) for s, many in enumerate(counts) for zone in self.zones_of(rng, s, many, spread)]
        rng.shuffle(left)
        taken, paid = {}, 0.0
        while left:
            s, zone = left[0]
            mates = []
            one = self.node(rng, s, zone, taken, choices)
            room = [min(own.cell[r] for own in one) for r in (0, 1)]
            for pod in left:
                cpu, mib, kind, _ = self.SHAPES[pod[0]]
                fits = room[0] * 250 >= cpu and room[1] * 512 >= mib and pod[1] in (None, one[0].zone)
                if fits and (kind != "StatefulSet" or one[0].kind == "on-demand"):
                    room = [room[0] - cpu / 250, room[1] - mib / 512]
                    mates.append(pod)
            for pod in mates:
                left.remove(pod)
            for own in one:
                taken[own] = taken.get(own, 0) + 1 / len(one)
                paid += own.usd / len(one)
        return paid

    def zones_of(self, rng, s, many, spread):
        if not spread or self.SHAPES[s][2] != "Deployment":
            return [None] * many
        more = rng.sample(ZONES, many % 3)
        return list(ZONES) * (many // 3) + more

    def node(self, rng, s, zone, taken, choices):
        """One pool that has room for the pod, or as many types as a launch names."""
        cpu, mib, kind, _ = self.SHAPES[s]
        fit = [one for one in self.pools if one.cell[0] * 250 >= cpu and one.cell[1] * 512 >= mib and zone in (None, one.zone)]
        free = [one for one in fit if one.kind == "spot" and one.depth - taken.get(one, 0) >= 1 - 1e-9 and kind != "StatefulSet"]
        free = [one for one in free if one.zone == (zone or free[0].zone)]
        if len(free) >= choices and rng.random() < 0.9:
            return rng.sample(free, choices)
        return [min((one for one in fit if one.kind == "on-demand"), key=lambda one: (one.usd, rng.random()))]

    def test_no_plan_of_whole_nodes_costs_less(self):
        rng = random.Random(1)
        for spread, choices in itertools.product((False, True), (1, 3)):
            solver = pools.FiniteBound(self.SHAPES, self.pools, spread, choices)
            for _ in range(4):
                counts = [rng.randint(0, 24) for _ in self.SHAPES]
                least = solver.price(counts)
                self.assertGreater(least, 0)
                for _ in range(6):
                    self.assertLessEqual(least, self.plan(rng, counts, spread, choices) * (1 + 1e-9), (counts, spread, choices))

    def test_each_wish_costs_something_or_nothing(self):
        counts = [31, 17, 5, 4]
        least = {
            (spread, choices): price(self.SHAPES, self.pools, counts, spread=spread, choices=choices)
            for spread, choices in itertools.product((False, True), (1, 3))
        }
        slack = 1 + 2 * pools.NEAR
        for spread in (False, True):
            self.assertGreater(least[spread, 3], least[spread, 1])
        for choices in (1, 3):
            self.assertLessEqual(least[False, choices], least[True, choices] * slack)


if __name__ == "__main__":
    unittest.main()
