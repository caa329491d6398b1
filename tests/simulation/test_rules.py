"""Each rule that spans time is kept by a log in which all goes well, and is seen to fail on the same log with one thing changed."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from story import RuleTest, Story  # noqa: E402
from windows import Windows, number, total  # noqa: E402


class RulesTest(RuleTest):
    """One test a rule, and one each that nothing is asked beyond what is promised."""

    def test_a_run_in_which_all_goes_well_keeps_every_rule(self):
        self.assert_found(Story())

    # INV-8

    def renewed_last(self, t, **fields):
        """The holder's last write of the Lease."""
        log = Story()
        log.events = [e for e in log.events if e.get("resource") != "leases" or e["t"] < 990]
        log.lease(t, 4, **fields)
        log.pod(t, "created", "web-4", requests=[{"cpu": "1"}])
        return log

    def test_a_launch_after_the_holder_s_deadline_is_caught(self):
        log = Story()
        log.events = [e for e in log.events if e.get("resource") != "leases" or e["t"] < 1000]
        log.pod(1010.5, "created", "web-4", requests=[{"cpu": "1"}])
        log.launch(1011.5, 4)  # the last write was asked for at 991.9
        self.assert_found(log, "INV-8")

    def test_a_deadline_counts_from_when_the_write_was_asked_for(self):
        for asked, launched, rules in ((999.9, 1005, []), (993, 1002.7, []), (993, 1003, ["INV-8"]), (993, 1005, ["INV-8"])):
            log = self.renewed_last(1000, asked=asked)
            log.launch(launched, 4)
            self.assert_found(log, *rules)

    def test_a_write_without_an_answer_or_without_a_holder_extends_no_deadline(self):
        for how in ("answerLost", "vacant", "refused"):
            log = self.renewed_last(1000, **({"answerLost": True} if how == "answerLost" else {}))
            if how == "vacant":
                log.events[-2]["sent"]["spec"]["holderIdentity"] = ""
            if how == "refused":
                log.events[-2]["code"] = 409
            log.launch(1005, 4)
            self.assert_found(log, "INV-8")

    def test_a_launch_that_never_arrived_was_sent_all_the_same(self):
        log = Story()
        log.events = [e for e in log.events if e.get("resource") != "leases" or e["t"] < 990]
        log.add(1020, "fault", replica=0, term=4, what="unreachable", service="ec2", action="CreateFleet")
        self.assert_found(log, "INV-8")

    def test_a_replica_that_was_restarted_does_not_lead_by_its_last_life(self):
        log = Story()
        log.add(1001, "story", replica=0, actor="replica", event="starting")
        log.pod(1000, "created", "web-4", requests=[{"cpu": "1"}])
        log.launch(1002, 4)
        self.assert_found(log, "INV-8")

    # INV-7, INV-12, INV-14: twice for a claim

    def doubled(self, after):
        """The first claim gets another instance so long after its first."""
        log = Story()
        log.claim(1.9 + after, "patch", 1, "aws:///us-east-1a/i-1", "dt-1-2")
        log.instance(2 + after, "pending", 9, 0.1, token="dt-1-2")
        return log

    def test_what_is_launched_twice_at_once_is_more_than_the_pods_need(self):
        log = self.doubled(1)
        log.instance(500, "terminated", 9, 0.1, token="dt-1-2")
        self.assertIn("INV-14", self.found(log))

    def test_another_instance_beside_one_that_could_be_found_is_caught(self):
        self.assertIn("INV-12", self.found(self.doubled(200)))

    def test_another_instance_is_allowed_only_where_the_look_for_the_first_was_blind(self):
        for begins, found in ((150, False), (1000, True), (2, True)):
            log = self.doubled(200)
            log.step(begins, "emptyLists", duration=30)
            self.assertEqual("INV-12" in self.found(log), found, begins)

    def test_two_instances_of_a_claim_for_more_than_a_quarter_of_an_hour_are_caught(self):
        for ends, found in ((850, False), (1000, True)):
            log = self.doubled(1)
            log.instance(ends, "terminated", 9, 0.1, token="dt-1-2")
            self.assertEqual("INV-7" in self.found(log), found, ends)

    def test_a_claim_for_pods_that_have_a_place_is_caught(self):
        log = Story()
        log.launch(1000, 4)
        self.assert_found(log, "INV-14")

    def test_a_pod_that_went_just_before_its_node_had_to_may_not_be_known_to_be_gone(self):
        for gone, rules in ((995, []), (960, ["INV-14"])):
            log = Story()
            log.pod(gone, "deleted", "web-1")
            log.instance(1000, "interrupted", 1, 0.1, token="dt-1-1")
            log.launch(1001, 4)
            self.assert_found(log, *rules)

    def test_a_node_that_was_shaky_for_a_while_needs_no_other_for_ever(self):
        for again, rules in ((1000, []), (310, ["INV-14"])):
            log = Story()
            log.node(300, "not-ready", 1)
            log.node(again, "ready", 1)
            log.launch(1000, 4)
            self.assert_found(log, *rules)

    def test_a_node_that_no_longer_drifts_needs_no_other_for_ever(self):
        for until, rules in ((990, []), (310, ["INV-14"])):
            log = Story()
            for at, status in ((300, "True"), (until, "False")):
                log.claim(at, "patch", 1, "aws:///us-east-1a/i-1", "dt-1-1")
                log.events[-1]["sent"] = {"status": {"conditions": [{"type": "Drifted", "status": status}]}}
            log.launch(1000, 4)
            self.assert_found(log, *rules)

    def test_ten_nodes_one_after_the_other_for_one_pod_are_caught(self):
        log = Story(nodes=0)
        log.object(0.1, "nodepools", None, "default", {})
        log.pod(1, "created", "web-1", requests=[{"cpu": "1"}])
        for number in range(1, 6):
            log.launch(number * 60, number)
            log.node(number * 60 + 20, "joined", number, labels={})
            log.node(number * 60 + 21, "ready", number)
        self.assert_found(log, "INV-14")

    def test_twenty_ordinals_to_come_of_a_stateful_set_count(self):
        for cpu, rules in (("21", []), ("22", ["INV-14"])):
            log = Story(nodes=0)
            log.object(0.1, "nodepools", None, "default", {})
            log.pod(1, "created", "web-0", requests=[{"cpu": "1"}])
            log.events[-1]["owner"] = "StatefulSet/web"
            log.launch(2, 1)
            for event in log.events:
                if event.get("claim"):
                    event["claim"]["requests"]["cpu"] = cpu
            self.assert_found(log, *rules)

    def test_who_takes_over_may_pack_a_little_more_and_not_all_of_it_again(self):
        for again, rules in ((1, []), (4, ["INV-14"])):
            log = Story(nodes=0)
            log.object(0.1, "nodepools", None, "default", {})
            for number in range(1, 5):
                log.pod(1, "created", f"web-{number}", requests=[{"cpu": "1"}])
                log.launch(2, number)
            log.lease(6, 5)
            for number in range(5, 5 + again):
                log.launch(6.5, number)
            log.events = [e for e in log.events if e.get("resource") != "leases" or e["t"] <= 6]
            for event in log.events:
                if event["t"] > 6 and event.get("claim"):
                    event["claim"]["term"] = "5"
                if event["t"] > 6 and event["term"] == 4:
                    event["term"] = 5
                if event["t"] > 6 and event.get("result"):
                    event["result"]["sent"]["term"] = 5
            self.assert_found(log, *rules)

    # INV-3 while it runs, INV-6, INV-13

    def orphaned(self, ended, until=None):
        """The claim of a node goes without a trace, and its instance lives on for so long."""
        log = Story()
        log.lose(1000, 1)
        log.terminate(1000 + ended, 1)
        return log

    def test_an_instance_without_a_claim_that_lives_beyond_its_grace_is_caught(self):
        self.assert_found(self.orphaned(400))
        self.assert_found(self.orphaned(600), "INV-3")

    def test_the_grace_waits_for_what_stands_in_the_way(self):
        cut = {"replica": "leader", "direction": "in"}
        for what, more in (("kill", {"replica": "leader"}), ("partition", {**cut, "from": ["ec2"]}), ("emptyLists", {})):
            log = self.orphaned(600)
            log.step(1250, what, duration=100, **more)
            self.assert_found(log)
        for what, more in (("zoneDown", {"zone": "a"}), ("partition", {**cut, "from": ["sqs"]})):
            log = self.orphaned(600)
            log.step(1250, what, duration=100, **more)
            self.assert_found(log, "INV-3")

    def test_a_brake_counts_where_the_log_bears_it_out(self):
        for reason, rules in (("claims_lost", []), ("no_instances", ["INV-3"]), ("over_bound", ["INV-3"]), ("foreign", ["INV-3"])):
            log = self.orphaned(600)
            log.events = [e for e in log.events if e.get("verb") != "lose"]
            log.claim(1000, "patch", 1, claim=None)
            if reason == "claims_lost":
                log.step(999, "lose", kind="NodeClaim", count=1)
            log.add(1100, "story", replica=0, actor="janitor", event="collection_braked", reason=reason)
            self.assert_found(log, *rules)

    def collected(self, count, after=300, replica=0):
        log = Story(nodes=0)
        for number in range(1, count + 1):
            log.launch(900 + number, number)
            log.lose(1000, number)
            log.terminate(1000 + after + number, number, replica)
            log.pod(900, "created", f"web-{number}", requests=[{"cpu": "1"}])
        log.object(0.1, "nodepools", None, "default", {})
        return log

    def test_more_that_is_ended_without_a_claim_than_the_bound_is_caught(self):
        self.assert_found(self.collected(5))
        self.assert_found(self.collected(6), "INV-13")

    def test_the_bound_is_off_only_while_the_operator_has_released_it(self):
        for begins, rules in ((1200, []), (600, ["INV-13"]), (1400, ["INV-13"])):
            log = self.collected(6)
            log.step(begins, "allowCollection", duration=600)
            self.assert_found(log, *rules)

    def test_what_is_ended_before_its_grace_is_caught_unless_who_launched_it_ends_it(self):
        self.assert_found(self.collected(1, after=50, replica=0))
        self.assert_found(self.collected(1, after=50, replica=1), "INV-13")

    def test_ending_what_is_not_ours_is_caught(self):
        log = Story()
        log.instance(10, "running", 8, 0.1, beforehand=True)
        log.instance(1000, "shutting-down", 8, 0.1, beforehand=True)
        log.add(1000, "aws", replica=0, term=4, service="ec2", action="TerminateInstances", parameters={}, code="OK", result={"instances": ["i-8"]})
        self.assert_found(log, "INV-6")

    def test_what_another_control_plane_left_is_ended_with_its_claim_and_no_sooner(self):
        def log(deleted):
            log = Story()
            log.instance(0, "running", 8, 0.1, beforehand=True)
            for verb, provider in (("create", None), ("patch", "aws:///us-east-1a/i-8")):
                log.claim(0, verb, 8, provider)
                log.events[-1] |= {"replica": None, "term": None}
            if deleted:
                log.claim(900, "delete", 8, "aws:///us-east-1a/i-8")
            log.instance(1000, "shutting-down", 8, 0.1, beforehand=True)
            log.add(1000, "aws", replica=0, term=4, service="ec2", action="TerminateInstances", parameters={}, code="OK", result={"instances": ["i-8"]})
            return log

        self.assert_found(log(True))
        self.assert_found(log(False), "INV-6")

    # What the rules stand on

    def test_quantities_and_windows_are_read(self):
        self.assertEqual([number(q) for q in ("250m", "2", "1Gi", "1.5", "3k")], [0.25, 2.0, 2.0**30, 1.5, 3000.0])
        self.assertEqual(total([{"cpu": "1"}, None, {"cpu": "500m", "memory": "1Ki"}]), {"cpu": 1.5, "memory": 1024.0})
        windows = Windows()
        windows.step(100, {"type": "pause", "replica": "leader", "duration": 4.5})
        cut = {"replica": {"number": 0}, "from": ["apiServer", "ec2", "sqs"], "direction": "out"}
        windows.step(300, {"type": "partition", **cut, "duration": None})
        self.assertEqual(windows.undisturbed(0, 400), 300 - 164.5)
        self.assertEqual(windows.undisturbed(164.5, 300, cuts=[200]), 100)


if __name__ == "__main__":
    unittest.main()
