"""The account of a run, by hand; and a day that is the same whatever the settings: `python3 tests/day/test_bill.py`."""

import json
import pathlib
import tempfile
import unittest

import bill
import market

SHAPE = (250, 512, "Deployment", "web")


class Offers:
    def check(self, event):
        pass


class Log:
    """Events of a run, as `dovetail simulate` writes them."""

    def __init__(self):
        self.ledger = bill.Ledger(Offers(), [SHAPE, (1000, 4096, "StatefulSet", "")])

    def instance(self, t, id, change, kind="spot", zone="a", usd=1.0):
        event = {"id": id, "instanceType": "m5.large", "zone": zone, "capacityType": kind, "pricePerHour": usd}
        self.ledger.take({"t": t, "kind": "instance", "change": change, **event})

    def node(self, t, name, change, instance=""):
        self.ledger.take({"t": t, "kind": "node", "change": change, "name": name, "instance": instance})

    def pod(self, t, uid, change, node=None, owner="Deployment/web", asks=("250m", "512Mi")):
        requests = [{"cpu": asks[0], "memory": asks[1]}]
        self.ledger.take({"t": t, "kind": "pod", "change": change, "uid": uid, "owner": owner, "node": node, "requests": requests})

    def figures(self, end):
        self.ledger.until(end)
        return bill.figures(self.ledger, {"launched": 3, "invariants": {"violations": []}, "pods": {"pending": []}})


class LedgerTest(unittest.TestCase):
    def setUp(self):
        """Twelve pods of a Deployment, six in one spot pool, two in another and four on demand, and one of a StatefulSet."""
        self.log = log = Log()
        nodes = ("i-1",) * 4 + ("i-2",) * 2 + ("i-3",) * 2 + ("i-4",) * 4
        for id, zone, kind in (("i-1", "a", "spot"), ("i-2", "a", "spot"), ("i-3", "b", "spot"), ("i-4", "a", "on-demand")):
            log.instance(0, id, "pending", kind, zone)
            log.node(0, f"n{id}", "joined", id)
        for number in range(len(nodes)):
            log.pod(0, f"w{number}", "created")
        log.pod(0, "s0", "created", owner="StatefulSet/store", asks=("1", "4Gi"))
        log.pod(0, "d0", "created", owner="DaemonSet/agent")
        log.pod(40, "s0", "bound", "ni-4")
        for number, node in reversed(list(enumerate(nodes))):
            log.pod(40 if number else 100, f"w{number}", "bound", f"n{node}")

    def test_shares_are_those_of_the_pods_that_run(self):
        found = self.log.figures(3600)
        self.assertAlmostEqual(found["bill"], 4.0)
        self.assertAlmostEqual(found["largestZone"], 11 / 13)
        self.assertAlmostEqual(found["largestPool"], 6 / 13)
        self.assertEqual((found["poolPods"], found["poolPodsMost"]), (6, 6))
        self.assertAlmostEqual(found["workloadPart"], 0.5)
        self.assertAlmostEqual(found["waitMean"], (100 + 12 * 40) / 13)
        self.assertEqual((found["waitP50"], found["waitP99"]), (40, 100))
        self.assertEqual(self.log.ledger.minutes[1], (12, 1))

    def test_a_small_workload_is_no_share(self):
        for number in range(3):
            self.log.pod(200, f"w{number}", "deleted")
        # Nine are left, three of them of one pool.
        self.assertEqual(self.log.figures(3600)["workloadPartMost"], 0.0)

    def test_the_pods_of_a_pool_that_is_warned_are_hit_at_once(self):
        for id in ("i-1", "i-2"):
            self.log.instance(1800, id, "interrupted")
        self.log.instance(1900, "i-3", "interrupted", zone="b")
        for number in range(5):
            self.log.pod(1850, f"w{number}", "evicted")
        self.log.pod(1850, "w8", "evicted")
        found = self.log.figures(86400)
        self.assertEqual((found["hitAtOnce"], found["poolsHit"]), (6, 2))
        self.assertEqual(self.log.ledger.evicted, {"interrupted": 5, "other": 1})
        self.assertAlmostEqual(found["evictedAll"], 6 / found["podDays"])

    def test_a_pod_that_never_ran_has_waited_until_its_end(self):
        self.log.pod(200, "late", "created")
        self.log.pod(1200, "late", "deleted")
        self.assertEqual(self.log.figures(3600)["waitP99"], 1000)

    def test_instances_cost_until_they_shut_down(self):
        self.log.instance(1800, "i-3", "shutting-down", zone="b")
        self.assertAlmostEqual(self.log.figures(3600)["bill"], 3.5)


    def test_a_pool_that_is_fuller_than_it_is_deep_is_an_error(self):
        self.log.ledger.depths = {"m5.large/a": 3, "m5.large/b": 3}
        self.log.instance(200, "i-5", "pending")
        self.log.instance(200, "i-6", "pending", kind="on-demand")
        with self.assertRaises(ValueError):
            self.log.instance(200, "i-7", "pending")


class PairsTest(unittest.TestCase):
    def test_runs_are_compared_on_the_same_seeds(self):
        def run(label, seed, usd, wait):
            rest = ("evictedAll", "waitP99", "largestZone", "largestPool", "poolPods", "workloadPart")
            return {"label": label, "seed": seed, "bill": usd, "waitMean": wait, **dict.fromkeys(rest, 0.0)}

        first = [run("a", 1, 10.0, 5.0), run("a", 2, 20.0, 5.0), run("a", 3, 99.0, 5.0)]
        other = [run("b", 2, 18.0, 6.0), run("b", 1, 10.5, 6.0)]
        usd, _, wait, *_ = bill.paired(first, other)
        self.assertAlmostEqual(usd["mean"], (0.9 + 1.05) / 2)
        self.assertEqual((usd["less"], usd["of"], usd["ratio"]), (1, 2, True))
        self.assertAlmostEqual(wait["mean"], 1.0)
        self.assertAlmostEqual(wait["error"], 0.0)

    def test_a_run_says_settings_gates_and_a_binary(self):
        what = bill.run_of("dear:MAX_OPTION_PRICE=1.1,+SpotToSpotConsolidation,@/bin/other")
        self.assertEqual(what["settings"], {"MAX_OPTION_PRICE": "1.1"})
        self.assertEqual((what["gates"], what["binary"]), ({"SpotToSpotConsolidation": True}, "/bin/other"))


class DayTest(unittest.TestCase):
    def test_a_day_is_the_same_whatever_the_settings(self):
        with tempfile.TemporaryDirectory() as folder:
            texts = []
            for name, settings in (("one", {}), ("other", {"MAX_OPTION_PRICE": "1.1"})):
                market.make_day(5, pathlib.Path(folder) / name, settings)
                files = sorted((pathlib.Path(folder) / name).iterdir())
                texts.append({file.name: file.read_text() for file in files})
            one, other = (text.pop("scenario.yaml").splitlines() for text in texts)
            self.assertEqual(texts[0], texts[1])
            self.assertEqual([line for line in one if line not in other], ["settings: {}"])

    def test_a_day_that_is_cut_off_is_the_beginning_of_the_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            whole, cut = (market.make_day(5, pathlib.Path(folder) / str(until), until=until) for until in (market.DAY, 300))
            steps = [[line for line in path.read_text().splitlines() if line.startswith("  - {at: ")] for path in (whole, cut)]
            early = [line for line in steps[0] if int(line.split()[2].removesuffix("m,")) < 300]
            self.assertEqual(steps[1], early)
            self.assertLess(len(early), len(steps[0]))
            self.assertEqual(cut.read_text().splitlines()[-1], "until: 300m")

    def test_pools_that_the_model_has_interrupted_more_are_taken_more(self):
        taken = {"m7g": 0, "m6a": 0}
        for seed in range(8):
            for key, (times, depth, minutes) in market.pools(seed).items():
                self.assertTrue(times > 0 and depth >= 0, key)
                family = key.split(".")[0]
                if family in taken:
                    taken[family] += len(minutes)
        # The model has 0.000130 and 0.000391 an hour.
        self.assertGreater(taken["m6a"], 1.5 * taken["m7g"])
        self.assertGreater(taken["m7g"], 0)


if __name__ == "__main__":
    unittest.main()
