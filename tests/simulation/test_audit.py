"""The audit agrees with a consistent pair of log and report, and catches every kind of lie told in either."""

import copy
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from audit import audit  # noqa: E402

LABELS = {"topology.kubernetes.io/zone": "us-east-1a", "karpenter.sh/nodepool": "default"}


class Log:
    """Builds an event log line by line."""

    def __init__(self):
        self.events = []

    def add(self, t, kind, replica=None, term=None, **fields):
        self.events.append({"t": t, "replica": replica, "term": term, "kind": kind, **fields})

    def pod(self, t, change, name, **fields):
        self.add(t, "pod", change=change, namespace="default", name=name, uid=f"uid-{name}", owner="Deployment/web", **fields)

    def instance(self, t, change, number, price, beforehand=False, token=None):
        self.add(t, "instance", change=change, id=f"i-{number}", instanceType="m5.large", zone="us-east-1a", capacityType="spot",
                 pricePerHour=price, beforehand=beforehand, token=token, synthetic=True)

    def node(self, t, change, number, **fields):
        self.add(t, "node", change=change, name=f"node-{number}", instance=f"i-{number}", **fields)

    def claim(self, t, verb, number, provider_id=None, token=None, **fields):
        claim = {"nodePool": "default", "token": token, "term": "4", "providerID": provider_id, "requests": {}}
        self.add(t, "api", replica=0, term=4, verb=verb, resource="nodeclaims", subresource=None, namespace=None,
                 name=f"default-{number}", uid=f"claim-{number}", code=200, claim=claim, **fields)

    def fleet(self, t, number, token, replica=0, term=4):
        self.add(t, "aws", replica=replica, term=term, service="ec2", action="CreateFleet", code="OK",
                 parameters={"token": token, "capacityType": "spot", "overrides": 15}, result={"instances": [f"i-{number}"], "errors": []})


def story():
    """A node that was there, one launched for two pods, a spot interruption with its replacement, one pod pending to the end."""
    log = Log()
    log.add(0, "start", scenario="s.yaml", seed=1, region="us-east-1", clusterName="demo", replicas=2)
    log.instance(0, "running", 1, 0.1, beforehand=True)
    log.node(0, "joined", 1, labels={"old": "yes"})
    for name in ("web-1", "web-2", "web-3"):
        log.pod(1, "created", name, requests={"cpu": "1"})
    log.pod(1.5, "unschedulable", "web-2", reason="0/1 nodes")
    log.pod(1.5, "bound", "web-1", node="node-1")
    log.pod(3, "ready", "web-1")
    log.add(3.25, "story", replica=0, term=4, actor="packer", event="packed", pods=2, nodes=1)
    log.claim(3.5, "create", 2)
    log.claim(3.6, "patch", 2, token="tok-2")
    log.fleet(4, 2, "tok-2")
    log.instance(4, "pending", 2, 0.05, token="tok-2")
    log.claim(5, "patch", 2, "aws:///us-east-1a/i-2", "tok-2")
    log.instance(14, "running", 2, 0.05, token="tok-2")
    log.node(40, "joined", 2, labels={"topology.kubernetes.io/zone": "us-east-1a"})
    log.node(41, "labelled", 2, labels=LABELS)
    log.node(42, "ready", 2)
    log.pod(43, "bound", "web-2", node="node-2")
    log.pod(45.5, "ready", "web-2")
    log.instance(600, "interrupted", 2, 0.05, token="tok-2")
    log.add(600.1, "story", replica=0, term=4, actor="interruption", event="interrupted", instance="i-2")
    log.claim(600.2, "create", 3, token="tok-3")
    log.fleet(600.5, 3, "tok-3")
    log.instance(600.5, "pending", 3, 0.06, token="tok-3")
    log.claim(601, "patch", 3, "aws:///us-east-1a/i-3", "tok-3")
    log.claim(602, "delete", 2, "aws:///us-east-1a/i-2", "tok-2")
    log.pod(610, "evicted", "web-2")
    log.pod(610, "deleting", "web-2")
    log.pod(610.1, "created", "web-4", requests={"cpu": "1"})
    log.pod(612, "deleted", "web-2")
    log.node(640, "joined", 3, labels=LABELS)
    log.pod(641, "bound", "web-4", node="node-3")
    log.pod(643, "ready", "web-4")
    log.instance(650, "shutting-down", 2, 0.05, token="tok-2")
    log.node(655, "deleted", 2)
    log.claim(656, "patch", 2, "aws:///us-east-1a/i-2", "tok-2", gone=True)
    log.instance(660, "terminated", 2, 0.05, token="tok-2")
    log.add(700, "rumour", about="a kind that does not exist yet")
    log.add(1800, "end")
    return log.events


def report():
    """What `simulate --json` answers for `story()`, worked out by hand."""
    node = {"instanceType": "m5.large", "zone": "us-east-1a", "capacityType": "spot"}
    return {
        "virtualSeconds": 1800,
        "pods": {"total": 3, "bound": 2, "pending": {"default/web-3": "no node pool fits"}},
        "nodes": [{"name": "node-1", **node, "pricePerHour": 0.1, "pods": 1, "labels": {"old": "yes"}, "beforehand": True},
                  {"name": "node-3", **node, "pricePerHour": 0.06, "pods": 1, "labels": LABELS, "beforehand": False}],
        "costPerHour": 0.16, "costTotal": (0.1 * 1800 + 0.05 * 646 + 0.06 * 1199.5) / 3600, "launched": 2, "terminated": 1,
        "timeline": [{"t": 3.25, "replica": 0, "actor": "packer", "event": "packed", "pods": 2, "nodes": 1},
                     {"t": 600.1, "replica": 0, "actor": "interruption", "event": "interrupted", "instance": "i-2"}],
        "downtime": {"podSeconds": 33, "evicted": 1},
        "invariants": {"checked": 5, "violations": []},
    }


class AuditTest(unittest.TestCase):
    """One test a lie; `changed` is what the audit says after the lie is told."""

    def changed(self, lie, told_in="report"):
        events, told = story(), copy.deepcopy(report())
        lie(told if told_in == "report" else events)
        return audit([json.dumps(e) for e in events], told)

    def assert_caught(self, lie, *words, told_in="report"):
        found = self.changed(lie, told_in)
        self.assertTrue(any(all(w in line for w in words) for line in found), f"{words} not in {found}")

    def lie_in(self, *path, value):
        def lie(told):
            for step in path[:-1]:
                told = told[step]
            told[path[-1]] = value
        return lie

    def test_the_true_report_agrees(self):
        self.assertEqual(self.changed(lambda _: None), [])

    def test_each_false_figure_is_caught(self):
        for path, value in [(("virtualSeconds",), 1801), (("pods", "total"), 4), (("pods", "bound"), 3), (("costPerHour",), 0.15),
                            (("costTotal",), report()["costTotal"] * 1.00001), (("launched",), 3), (("terminated",), 0),
                            (("downtime", "podSeconds"), 30), (("downtime", "evicted"), 0)]:
            with self.subTest(path=path):
                self.assert_caught(self.lie_in(*path, value=value), path[-1])

    def test_each_false_fact_of_a_node_is_caught(self):
        for field, value in [("instanceType", "m5.xlarge"), ("zone", "us-east-1b"), ("capacityType", "on-demand"), ("pricePerHour", 0.05),
                             ("pods", 2), ("labels", {}), ("beforehand", True)]:
            with self.subTest(field=field):
                self.assert_caught(self.lie_in("nodes", 1, field, value=value), f"node-3.{field}")

    def test_a_node_left_out_is_caught(self):
        self.assert_caught(lambda r: r["nodes"].pop(), "node-3 is missing")

    def test_a_node_told_twice_is_caught(self):
        self.assert_caught(lambda r: r["nodes"].append(r["nodes"][0]), "stands twice")

    def test_a_node_that_went_is_caught(self):
        self.assert_caught(lambda r: r["nodes"].append(dict(r["nodes"][1], name="node-2")), "node-2 is told")

    def test_a_pending_pod_hidden_is_caught(self):
        self.assert_caught(self.lie_in("pods", "pending", value={}), "default/web-3 is missing")

    def test_a_pending_pod_invented_is_caught(self):
        self.assert_caught(self.lie_in("pods", "pending", "default/web-9", value="why"), "default/web-9 is told")

    def test_a_pending_pod_without_a_reason_is_caught(self):
        self.assert_caught(self.lie_in("pods", "pending", "default/web-3", value=""), "no reason")

    def test_a_line_left_out_of_the_timeline_is_caught(self):
        self.assert_caught(lambda r: r["timeline"].pop(), "timeline, length")

    def test_a_line_of_the_timeline_changed_is_caught(self):
        self.assert_caught(self.lie_in("timeline", 0, "nodes", value=2), "timeline[0]")

    def test_a_field_left_out_is_caught(self):
        for field in report():
            with self.subTest(field=field):
                self.assert_caught(lambda r, f=field: r.pop(f), field)

    def test_an_invented_violation_is_caught(self):
        lie = self.lie_in("invariants", "violations", value=[{"id": "INV-1", "t": 5, "what": "two"}])
        self.assert_caught(lie, "INV-1 told 1 times, found 0")

    def test_a_violation_that_both_have_to_tell_is_told_by_both_or_by_neither(self):
        for rule, words in (("INV-8", "INV-8 told 2 times, found 0"), ("INV-13", "INV-13 told 2 times, found 0")):
            self.assert_caught(self.lie_in("invariants", "violations", value=2 * [{"id": rule, "t": 5, "what": "late"}]), words)
        # The report may count more narrowly.
        self.assertEqual(self.changed(self.lie_in("invariants", "violations", value=[{"id": "INV-14", "t": 5, "what": "more"}])), [])

    # Logs in which something went wrong that the report does not tell

    def insert(self, build, before):
        """A lie that puts events into the log before the first event of time `before`."""
        def lie(events):
            log = Log()
            build(log)
            at = next(i for i, e in enumerate(events) if e["t"] >= before)
            events[at:at] = log.events
        return lie

    def assert_violation(self, rule, build, before):
        self.assert_caught(self.insert(build, before), f"{rule} told 0 times, found 1 times", told_in="events")

    def test_two_instances_for_one_token_are_caught(self):
        self.assert_violation("INV-1", lambda log: (log.instance(605, "pending", 9, 0.06, token="tok-3"),), 606)

    def test_two_attempts_that_both_landed_are_caught(self):
        self.assert_violation("INV-1", lambda log: (log.claim(603, "patch", 3, "aws:///us-east-1a/i-3", "tok-3b"),
                                                    log.instance(604, "pending", 9, 0.06, token="tok-3b")), 606)

    def test_two_claims_with_one_instance_are_caught(self):
        self.assert_violation("INV-1", lambda log: log.claim(605, "patch", 7, "aws:///us-east-1a/i-3", "tok-7"), 606)

    def test_a_token_of_two_claims_may_have_two_instances(self):
        def both(log):
            log.claim(20, "create", 5, "aws:///us-east-1a/i-5", "tok-5")
            log.claim(20, "create", 6, "aws:///us-east-1a/i-6", "tok-5")
            for number in (5, 6):
                log.instance(20, "pending", number, 0.0, token="tok-5")
        found = self.changed(self.insert(both, 21), "events")
        self.assertFalse([line for line in found if "INV" in line], found)

    def test_a_launch_without_a_term_is_caught(self):
        self.assert_violation("INV-2", lambda log: log.fleet(20, 9, "tok-9", term=None), 21)

    def test_a_launch_after_a_newer_term_acted_is_caught(self):
        def late(log):
            log.add(700, "aws", replica=1, term=5, service="ec2", action="DescribeInstances", parameters={}, code="OK", result={})
            log.fleet(701, 9, "tok-9", replica=0, term=4)
        self.assert_violation("INV-2", late, 702)

    def test_an_instance_without_a_claim_is_caught(self):
        self.assert_violation("INV-3", lambda log: log.instance(20, "pending", 9, 0.05, token="tok-9"), 21)

    def test_a_claim_gone_before_its_instance_is_caught(self):
        self.assert_violation("INV-3", lambda log: log.claim(1000, "patch", 3, "aws:///us-east-1a/i-3", "tok-3", gone=True), 1001)

    def test_a_pod_bound_twice_is_caught(self):
        self.assert_violation("INV-4", lambda log: log.pod(50, "bound", "web-2", node="node-1"), 51)

    def test_time_that_goes_back_is_caught(self):
        self.assert_violation("INV-5", lambda log: log.add(30, "fault", what="x"), 40.5)

    def lease(self, log, t, term, holder):
        log.add(t, "api", replica=int(holder[-1]), term=term, verb="patch", resource="leases", subresource=None, namespace="kube-system",
                name="karpenter-leader-election", uid="lease", code=200, sent={"spec": {"leaseTransitions": term, "holderIdentity": holder}})

    def test_a_claim_of_a_term_that_is_over_is_caught(self):
        def late(log):
            self.lease(log, 700, 9, "dovetail-1")
            log.claim(701, "create", 8)
        self.assert_violation("INV-9", late, 702)

    def test_a_claim_of_a_term_that_is_over_passes_where_no_lease_refuses_it(self):
        def late(verb, sent):
            def play(log):
                self.lease(log, 700, 9, "dovetail-1")
                log.add(700.5, "api", replica=None, term=None, verb=verb, resource="leases", subresource=None, namespace="kube-system",
                        name="karpenter-leader-election", uid="lease", code=200, sent=sent)
                log.claim(701, "create", 8)
            return play
        for verb, sent in (("lose", None), ("restore", {"spec": {"leaseTransitions": 4}})):
            found = self.changed(self.insert(late(verb, sent), 702), "events")
            self.assertFalse([line for line in found if "INV-9" in line], found)
        self.assert_violation("INV-9", late("restore", {"spec": {"leaseTransitions": 9}}), 702)

        def deleted(kind):
            def play(log):
                self.lease(log, 700, 9, "dovetail-1")
                action = {"type": "delete", "kind": kind, "namespace": "kube-system", "name": "karpenter-leader-election"}
                log.add(700.5, "step", by="operator", action=action)
                log.claim(701, "create", 8)
            return play
        found = self.changed(self.insert(deleted("Lease"), 702), "events")
        self.assertFalse([line for line in found if "INV-9" in line], found)
        self.assert_violation("INV-9", deleted("Service"), 702)

        def written_again(log):
            late("lose", None)(log)
            self.lease(log, 701.5, 10, "dovetail-1")
            log.claim(701.6, "create", 7)
        self.assert_violation("INV-9", written_again, 702)

    def test_a_term_with_two_holders_or_that_falls_is_caught(self):
        for term, holder in ((9, "dovetail-0"), (8, "dovetail-1")):
            def twice(log, term=term, holder=holder):
                self.lease(log, 700, 9, "dovetail-1")
                self.lease(log, 701, term, holder)
            self.assert_violation("INV-10", twice, 702)

    def test_what_was_under_way_when_a_backup_came_and_nobody_heard_of_begins_no_term(self):
        def played(*writes):
            def play(log):
                self.lease(log, 700, 9, "dovetail-1")
                log.add(700.5, "api", replica=None, term=None, verb="restore", resource="leases", subresource=None, namespace="kube-system",
                        name="karpenter-leader-election", uid="lease", code=200,
                        sent={"spec": {"leaseTransitions": 8, "holderIdentity": "dovetail-0"}})
                for at, (term, holder, asked, lost) in enumerate(writes):
                    log.add(701 + at / 10, "api", replica=0, term=term, verb="patch", resource="leases", subresource=None,
                            namespace="kube-system", name="karpenter-leader-election", uid="lease", code=200, asked=asked, answerLost=lost,
                            sent={"spec": {"leaseTransitions": term, "holderIdentity": holder}})
            return play
        for term in (8, 9):
            found = self.changed(self.insert(played((term, "dovetail-0", 690, True)), 702), "events")
            self.assertFalse([line for line in found if "INV-10" in line], found)
        late = (8, "dovetail-0", 690, True)
        for writes in ([(8, "dovetail-0", 690, False)], [(8, "dovetail-0", 700.6, True)], [late, late], [(0, "", 690, True), late],
                       [(9, "dovetail-1", 700.6, False), late]):
            self.assert_violation("INV-10", played(*writes), 702)

    def test_a_lease_that_is_vacant_is_nobody_s(self):
        def vacant(log):
            self.lease(log, 700, 9, "dovetail-1")
            self.lease(log, 701, 0, "dovetail-0")
        with self.assertRaises(AssertionError):
            self.assert_violation("INV-10", vacant, 702)

    def test_an_instance_whose_token_no_claim_had_is_caught(self):
        self.assert_violation("INV-11", lambda log: log.instance(20, "pending", 9, 0.05, token="tok-9"), 21)

    def test_a_second_instance_beside_one_that_could_be_found_is_caught(self):
        def doubled(log):
            log.claim(605, "patch", 3, "aws:///us-east-1a/i-3", "tok-3b")
            log.instance(690, "pending", 9, 0.06, token="tok-3b")
        self.assert_violation("INV-12", doubled, 691)

    def test_a_violation_told_truly_agrees(self):
        events, told = story(), report()
        self.insert(lambda log: log.pod(50, "bound", "web-2", node="node-1"), 51)(events)
        told["invariants"]["violations"] = [{"id": "INV-4", "t": 50, "what": "web-2 was bound twice"}]
        self.assertEqual(audit([json.dumps(e) for e in events], told), [])

    # The log itself

    def test_each_malformed_line_is_caught(self):
        for line in ("{", "[]", "", '{"t": 1}', '{"t": "1", "replica": null, "term": null, "kind": "x"}',
                     '{"t": 1.12345678, "replica": null, "term": null, "kind": "x"}', '{"t": 1, "term": null, "kind": "x"}'):
            with self.subTest(line=line):
                lines = [json.dumps(e) for e in story()]
                found = audit([lines[0], lines[1], line, *lines[2:]], report())
                self.assertTrue(any(f.startswith("log: line 3") for f in found), found)

    def test_a_log_cut_short_is_caught(self):
        self.assert_caught(lambda events: events.pop(), "does not end", told_in="events")

    def test_a_pod_bound_to_a_node_that_went_is_caught(self):
        self.assert_caught(self.insert(lambda log: log.pod(700, "bound", "web-3", node="node-2"), 701), "not there", told_in="events")

    def test_downtime_pairs_first_in_first_out_and_runs_to_the_end(self):
        events, told = story(), report()
        self.insert(lambda log: (log.pod(1000, "lost", "web-1"),), 1001)(events)
        told["pods"].update(total=2, bound=1)
        told["nodes"][0]["pods"] = 0
        told["downtime"]["podSeconds"] = 33 + 800
        self.assertEqual(audit([json.dumps(e) for e in events], told), [])

    def test_the_command_line_answers_with_its_exit_status(self):
        with tempfile.TemporaryDirectory() as folder:
            log, good, bad = (Path(folder, n) for n in ("events.jsonl", "good.json", "bad.json"))
            log.write_text("".join(json.dumps(e) + "\n" for e in story()))
            good.write_text(json.dumps(report()))
            bad.write_text(json.dumps(dict(report(), launched=9)))
            script = Path(__file__).with_name("audit.py")
            runs = [subprocess.run([sys.executable, script, log, r], capture_output=True, text=True) for r in (good, bad, Path(folder, "none"))]
        self.assertEqual([r.returncode for r in runs], [0, 1, 2])
        self.assertEqual(runs[0].stdout, "ok\n")
        self.assertEqual(runs[1].stdout, "launched: told 9, the events give 2\n")


if __name__ == "__main__":
    unittest.main()
