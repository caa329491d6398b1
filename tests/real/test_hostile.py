"""What `hostile.py` and the files beside it say of things that are known, without a cluster."""

import json
import pathlib
import sys
import tempfile
import types
import unittest

import hostile
import hostile_daemons
import hostile_kubelet
import hostile_webhook
from places import amount

sys.path.insert(0, str(hostile_webhook.REVIEWS.parent))
import hostile_reviews  # noqa: E402

MIB = 1 << 20


def pods_of(sets):
    return [one["spec"]["template"]["spec"] for one in sets]


class Daemons(unittest.TestCase):
    def all(self):
        groups = [*hostile_daemons.unfit().values(), *hostile_daemons.others().values()]
        return [one for sets in groups for one in sets] + [hostile_daemons.fitting(at) for at in range(hostile_daemons.FITTING)]

    def test_each_has_a_name_of_its_own_and_selects_its_own_pods(self):
        names = [one["metadata"]["name"] for one in self.all()]
        self.assertEqual(len(names), len(set(names)))
        for one in self.all():
            template = one["spec"]["template"]["metadata"]["labels"]
            self.assertEqual(template, one["spec"]["selector"]["matchLabels"])

    def test_the_api_server_takes_what_they_request(self):
        for pod in pods_of(self.all()):
            for container in pod["containers"] + pod.get("initContainers", []):
                requests, limits = (container["resources"].get(kind, {}) for kind in ("requests", "limits"))
                strict = {name for name in requests if "/" in name or name.startswith("hugepages-")}
                self.assertEqual({name: requests[name] for name in strict}, limits)
                if any(name.startswith("hugepages-") for name in requests):
                    self.assertIn("cpu", requests)
        self.assertGreater(amount(hostile_daemons.CPUS), 999)

    def test_those_that_fit_leave_room_for_others(self):
        fitting = pods_of([hostile_daemons.fitting(at) for at in range(hostile_daemons.FITTING)])
        requests = [pod["containers"][0]["resources"]["requests"] for pod in fitting]
        self.assertLessEqual(sum(amount(one["cpu"]) for one in requests), 0.11)

    def test_only_what_fits_nowhere_was_created_and_has_no_event_is_not_named(self):
        events = [{"involvedObject": {"kind": "DaemonSet", "name": "gpus"}}, {"involvedObject": {"kind": "Pod", "name": "cpus"}}]
        there = [{"metadata": {"name": name}} for name in ("gpus", "cpus", "disk", "fits-0", "port-b")]
        kube = types.SimpleNamespace(list=lambda path: events if "/events" in path else there)
        self.assertEqual(hostile_daemons.not_named(kube), ["cpus", "disk"])


class Kubelet(unittest.TestCase):
    CLAIM = {"metadata": {"labels": {hostile_kubelet.TYPE: "c6a.large"}},
             "status": {"allocatable": {"cpu": "1930m", "pods": "29"}}}

    def overruled(self, **types_):
        observed = [{"instanceType": name.replace("_", "."), "has": has} for name, has in types_.items()]
        return hostile_kubelet.overruled(json.dumps({"types": observed}), self.CLAIM)

    def test_a_fifth_may_be_believed_of_its_own_type_and_no_more(self):
        self.assertEqual(hostile_kubelet.overruled(None, self.CLAIM), [])
        self.assertEqual(self.overruled(c6a_large={"cpu": "1544m", "pods": "24"}), [])
        self.assertEqual(len(self.overruled(c6a_large={"cpu": "100m", "pods": "24"})), 1)
        self.assertEqual(len(self.overruled(c6a_large={"cpu": "965m", "pods": "1"})), 2)
        self.assertEqual(len(self.overruled(c6a_large={}, m5_large={"cpu": "1544m"})), 1)

    def test_the_node_is_found_by_its_claim_and_not_by_what_others_say(self):
        own = self.CLAIM | {"status": self.CLAIM["status"] | {"nodeName": "n"}}
        false = {"metadata": {"labels": {"hostile": "yes"}}, "status": {"nodeName": "n", "allocatable": {}}}
        kube = lambda claims: types.SimpleNamespace(list=lambda _: claims, call=lambda *_: {"metadata": {}})
        self.assertEqual(hostile_kubelet.believed(kube([false, own]), "n"), [])
        self.assertEqual(hostile_kubelet.believed(kube([false]), "n"), ["the NodeClaim of n is gone"])


class Webhook(unittest.TestCase):
    def test_the_peak_of_a_process_is_read_and_forgotten(self):
        with tempfile.TemporaryDirectory() as proc:
            place = pathlib.Path(proc, "7")
            place.mkdir()
            (place / "status").write_text("Name:\tdovetail\nVmPeak:\t 9 kB\nVmHWM:\t  204800 kB\nVmRSS:\t   51200 kB\n")
            self.assertEqual(hostile_webhook.memory(7, proc), (50, 200))
            hostile_webhook.forget_peak(7, proc)
            self.assertEqual((place / "clear_refs").read_text(), "5")

    def test_acts_are_counted_by_their_statuses(self):
        told = [{"others": {"maps": {"200": 3, "413": 2}, "silent": {"-1": 9}}}, {"others": {"maps": {"0": 1, "413": 1}}}]
        acts = hostile_webhook.acts(told)
        self.assertEqual(acts["reviews: maps"], [3, 4, "1 times 0, 3 times 413"])
        self.assertEqual(acts["reviews: silent"], [9, 0, ""])

    def asserted(self, peak=240, leader=None, met=None, slowest=1.0):
        caller = hostile_webhook.Caller.__new__(hostile_webhook.Caller)
        caller.before = dict.fromkeys(hostile_webhook.REPLICAS, 100)
        caller.peak = dict(zip(hostile_webhook.REPLICAS, (peak, leader or peak)))
        caller.told = {"a": {"slowest": slowest, "met": met or {hostile_webhook.WELL_MET: 5}}}
        return [holds for _, holds, _ in caller.asserted()]

    def test_memory_and_answers_are_held_to_their_bounds(self):
        self.assertEqual(self.asserted(), [True, True])
        self.assertEqual(self.asserted(leader=640), [True, True])
        self.assertEqual([self.asserted(peak=340), self.asserted(leader=1100)], [[False, True]] * 2)
        self.assertEqual(self.asserted(met={hostile_webhook.WELL_MET: 5, "503 0 False": 1}), [True, False])
        self.assertEqual(self.asserted(slowest=30.0), [True, False])
        caller = hostile_webhook.Caller.__new__(hostile_webhook.Caller)
        caller.before, caller.peak, caller.told = {}, {}, {}
        self.assertEqual([holds for _, holds, _ in caller.asserted()], [False, False], "nothing measured is nothing shown")

    def test_reviews_are_as_large_as_they_are_meant_to_be(self):
        sizes = {name: len(body) for name, body in hostile_reviews.attacks().items()}
        self.assertTrue(30 * MIB < sizes["maps-31"] < 32 * MIB)
        self.assertTrue(6 * MIB < sizes["maps-7"] < 8 * MIB)
        self.assertLess(sizes["deep-fields"], 2 * MIB)
        pool = json.loads(hostile_reviews.deep_pool())
        self.assertEqual((pool["metadata"]["name"], pool["spec"]), ("a", {"weight": 1}))
        asked = json.loads(hostile_reviews.review([hostile_reviews.deep_pool()]))
        self.assertEqual(asked["request"]["objects"][0]["kind"], "NodePool")


class Judged(unittest.TestCase):
    def phase(self, name, seconds, slower, launches, lost=0):
        times = [1.0 + slower] * 10
        return types.SimpleNamespace(name=name, seconds=seconds, failed=[], made=dict.fromkeys(range(10 + lost)), whole=times,
                                     own=times, to_place=times, scheduler=times, launches=launches)

    def judged(self, slower=0.5, launches=5, lost=0, **state):
        one = lambda name: types.SimpleNamespace(name=name, broken=None, acts={"a": [2, 1, "no"]})
        users = [one("mallory-pods"), one("mallory-ports")]
        users.append(types.SimpleNamespace(name="mallory-claims", broken=None, acts={}, by_hand=1))
        held = types.SimpleNamespace(asserted=lambda: [("is small", True, "")])
        state = {"event": True, "ended": [], "not_named": [], "believed": [], "doubted": True, "restarts": [], "left": [],
                 "probes": types.SimpleNamespace(failed=[], asked=3), "caller": held, "reader": held} | state
        quiet, hostile_ = self.phase("quiet", 60, 0, 4), self.phase("hostile", 120, slower, launches, lost)
        asserted, _ = hostile.judged(quiet, hostile_, users, state)
        return users, asserted

    def wrong(self, **given):
        return [(one.of, one.text) for one in self.judged(**given)[1] if not one.holds]

    def test_a_calm_cluster_is_right(self):
        self.assertEqual(self.wrong(), [])

    def test_a_few_seconds_are_borne_and_more_are_not(self):
        self.assertEqual((hostile.most(1.0), hostile.most(10.0)), (1.0 + hostile.FEW, 20.0))
        self.assertEqual(self.wrong(slower=hostile.FEW), [])
        self.assertEqual(len(self.wrong(slower=hostile.FEW + 0.1)), 4)

    def test_what_is_not_measured_is_wrong(self):
        nothing = self.phase("quiet", 60, 0, 4)
        nothing.own, nothing.to_place = [], []
        asserted = [*hostile.of_ordinary_pods(nothing, self.phase("hostile", 60, 0, 4))]
        self.assertEqual(sum(not one.holds for one in asserted), 4)

    def test_each_fault_is_named_beside_its_user(self):
        self.assertEqual(self.wrong(launches=26), [(hostile.EVERYBODY, "launches are bounded")])
        self.assertEqual(self.wrong(lost=1), [(hostile.EVERYBODY, "ordinary pods are bound, hostile")])
        self.assertEqual([of for of, _ in self.wrong(not_named=["gpus"])], ["mallory-daemons"])
        self.assertEqual([of for of, _ in self.wrong(doubted=False)], ["mallory-kubelet"])
        self.assertEqual([of for of, _ in self.wrong(believed=["m5.large has 1"])], ["mallory-kubelet"])
        self.assertEqual([of for of, _ in self.wrong(ended=["i-1"])], ["mallory-claims", "mallory-nodes"])

    def test_a_user_has_one_line(self):
        users, asserted = self.judged(not_named=["gpus"], event=False)
        said = hostile.line(users[0], asserted)
        self.assertEqual(said, "mallory-pods: 1 kinds of acts, 2 taken, 1 refused; asserted: the pod with a name of 253 letters "
                               "has an event that says why it waits: WRONG")
        self.assertIn("(without: gpus): WRONG", hostile.sentence("mallory-daemons", asserted))


if __name__ == "__main__":
    unittest.main()
