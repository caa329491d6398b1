"""What `places.py` says of times that are known."""

import unittest

from places import CONTROL, Scheduler, Timeline, Waited, amount

TAINT = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}


def node(ready="True", taints=(), cpu="4", **spec):
    return {"metadata": {"name": "n"}, "spec": {"taints": list(taints), **spec}, "status": {
        "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}, "conditions": [{"type": "Ready", "status": ready}]}}


def pod(cpu="1", on=None, marked=False, **spec):
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}] if marked else []
    requests = {"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {"metadata": {"name": "p"}, "spec": {"nodeName": on, "containers": [requests], **spec}, "status": {"conditions": conditions}}


class Places(unittest.TestCase):
    def test_amounts(self):
        for text, value in (("1", 1), ("900m", 0.9), ("1Gi", 2**30), ("2k", 2000), ("1e3", 1000), ("7910m", 7.91)):
            self.assertAlmostEqual(amount(text), value)

    def test_a_place_is_there_when_its_node_is_ready_untainted_and_to_stay(self):
        times = Timeline()
        times.pod("p", pod(), 0)
        times.node("n", node(ready="False"), 1)
        times.node("n", node(taints=[TAINT]), 2)
        times.node("n", node(unschedulable=True), 3)
        self.assertEqual(times.places(), {})
        times.node("n", node(taints=[{"key": "a", "effect": "PreferNoSchedule"}]), 4)
        times.node("n", None, 5)
        self.assertEqual(times.places(), {"p": 4})

    def test_room_is_for_those_first_that_waited_first(self):
        times = Timeline()
        for at in range(6):
            times.pod(f"p{at}", pod(), at)
        times.node("n", node(), 10)
        self.assertEqual(times.places(), {f"p{at}": 10 for at in range(4)})
        # A later one is bound: the room of an earlier one is gone, yet it was there.
        times.pod("p5", pod(on="n"), 11)
        times.node("m", node(cpu="2"), 12)
        self.assertEqual(times.places(), {f"p{at}": 10 for at in range(4)} | {"p5": 11, "p4": 12})

    def test_room_comes_back_when_pods_go(self):
        times = Timeline()
        times.node("n", node(cpu="1"), 0)
        times.pod("old", pod(on="n"), 1)
        times.pod("new", pod(), 2)
        self.assertEqual(times.places(), {})
        times.pod("old", None, 7)
        self.assertEqual(times.places(), {"new": 7})

    def test_controls_take_no_place(self):
        times = Timeline()
        times.node("n", node(cpu="1"), 0)
        times.pod(CONTROL, pod(tolerations=[{"key": CONTROL}]), 1)
        times.pod("p", pod(), 2)
        self.assertEqual(times.places(), {"p": 2})

    def test_only_what_is_kube_schedulers_is_taken_off(self):
        scheduler = Scheduler({"a": 0.0, "b": 10.0, "late": 20.0}, {"a": 3.0, "b": 15.0})
        self.assertEqual([scheduler.at(when) for when in (1, 6, 99)], [3.0, 5.0, 5.0])
        had_room = Waited(0.0, None, 0.0, 8.0, scheduler)
        self.assertEqual((had_room.whole, had_room.to_place, had_room.own), (8.0, None, 5.0))
        had_none = Waited(0.0, 2.0, 9.0, 16.0, scheduler)
        self.assertEqual((had_none.whole, had_none.to_place, had_none.own), (16.0, 7.0, 9.0))
        # Whoever makes places late has all of that.
        slow = Waited(0.0, 2.0, 90.0, 95.0, scheduler)
        self.assertEqual((slow.to_place, slow.own), (88.0, 88.0))
        # A place that was made and taken by others is his as well.
        robbed = Waited(0.0, 2.0, 4.0, 60.0, scheduler)
        self.assertEqual(robbed.own, 55.0)


if __name__ == "__main__":
    unittest.main()
