"""What users have bounded is kept by a log in which all goes well, and is seen to be broken with one thing changed."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from story import POOL, RuleTest, Story  # noqa: E402


class BoundsTest(RuleTest):
    """INV-15, INV-16, INV-17."""

    def test_an_eviction_below_the_budget_is_caught(self):
        log = Story()
        log.leave(1000, 1)
        self.assert_found(log)
        log.leave(1001, 2, code=429)
        self.assert_found(log)
        log.leave(1002, 2)
        self.assert_found(log, "INV-15")

    def test_an_eviction_is_allowed_by_what_the_api_server_shows(self):
        for told, rules in (((), []), (("not-ready",), ["INV-15"])):
            log = Story()
            log.pod(1000, "lost", "web-1")
            for change in told:
                log.pod(1000.5, change, "web-1")
            log.leave(1001, 2)
            self.assert_found(log, *rules)

    def test_a_budget_is_a_share_of_what_a_workload_has_been_scaled_to(self):
        for replicas, rules in ((2, []), (3, ["INV-15"])):
            log = Story()
            log.object(500, "poddisruptionbudgets", "default", "web", {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}})
            log.step(600, "scale", kind="Deployment", namespace="default", name="web", replicas=replicas)
            log.leave(1001, 2)
            self.assert_found(log, *rules)

    def test_a_deletion_below_the_budget_is_caught_unless_ec2_takes_the_node(self):
        for interrupted, rules in ((False, ["INV-15"]), (True, [])):
            log = Story()
            log.leave(1000, 1)
            if interrupted:
                log.instance(1001, "interrupted", 2, 0.1, token="dt-2-1")
            log.leave(1002, 2, how=None)
            self.assert_found(log, *rules)

    def test_the_end_of_an_instance_with_its_pods_is_caught(self):
        log = Story()
        log.leave(1000, 1)
        log.claim(1001, "delete", 2, "aws:///us-east-1a/i-2", "dt-2-1")
        log.terminate(1002, 2)
        self.assert_found(log, "INV-15")

    def test_budgets_are_read_as_kubernetes_reads_them(self):
        for spec, rules in (({"maxUnavailable": 1}, []), ({"maxUnavailable": "34%"}, []), ({"maxUnavailable": 0}, ["INV-15"]),
                            ({"minAvailable": "100%"}, ["INV-15"]), ({"minAvailable": 3, "selector": {"matchLabels": {"app": "db"}}}, [])):
            log = Story()
            log.object(500, "poddisruptionbudgets", "default", "web", {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, **spec})
            log.leave(1000, 1)
            self.assert_found(log, *rules)

    def rules(self, log):
        """The same objects as lines of another kind."""
        told = {"poddisruptionbudgets": {"minAvailable": 2, "maxUnavailable": None, "covers": ["Deployment/web"]},
                "nodepools": {"limits": POOL["limits"], "budgets": [{"nodes": "1"}], "ttl": False}}
        for event in log.events:
            if "object" in event:
                del event["object"]
                event.update(kind="rules", **told[event["resource"]])
        return log

    def test_lines_of_the_rules_in_force_say_the_same_as_objects(self):
        self.assert_found(self.rules(Story(nodes=4)))
        self.assert_found(self.rules(Story(nodes=5)), "INV-16")
        log = self.rules(Story())
        for number in (1, 2):
            log.leave(1000, number)
            self.gone(log, 1010, number)
        self.assert_found(log, "INV-15", "INV-17")

    def test_what_the_operator_has_deleted_binds_no_longer(self):
        log = Story()
        log.step(999, "delete", kind="PodDisruptionBudget", namespace="default", name="web")
        log.step(999, "delete", kind="NodePool", namespace="", name="default")
        for number in (1, 2):
            log.leave(1000, number)
            self.gone(log, 1010, number)
        self.assert_found(log)

    def test_claims_and_nodes_that_the_operator_deletes_are_not_held_against_us(self):
        log = Story(nodes=4)
        log.step(900, "delete", kind="NodeClaim", namespace="", name="default-1")
        log.node_for(1000, 5)
        log.node(1100, "deleting", 2)
        self.gone(log, 1101, 2)
        self.gone(log, 1102, 3)
        self.assert_found(log)

    def test_what_a_restored_api_server_has_again_is_no_write_of_an_old_term(self):
        log = Story()
        log.lease(1000.5, 5, replica=1)
        log.events = [e for e in log.events if e.get("resource") != "leases" or e["t"] < 1001]
        log.step(1100, "restore", of=50, duration=10)
        log.lose(1101, 2)
        log.claim(1101, "restore", 2, "aws:///us-east-1a/i-2", "dt-2-0")
        log.events[-1].update(replica=None, term=None, by="restore")
        self.assert_found(log)

    def test_capacity_beyond_a_pool_s_limits_is_caught(self):
        self.assert_found(Story(nodes=4))
        self.assert_found(Story(nodes=5), "INV-16")

    def test_capacity_that_ec2_takes_is_not_held_against_a_limit(self):
        log = Story(nodes=5)
        log.instance(4, "interrupted", 1, 0.1, token="dt-1-1")
        self.assert_found(log)

    def test_a_limit_that_was_lowered_afterwards_is_no_violation(self):
        log = Story()
        log.object(1000, "nodepools", None, "default", dict(POOL, limits={"cpu": "1"}))
        log.claim(1010, "patch", 1, "aws:///us-east-1a/i-1", "dt-1-1", sent={"status": {"capacity": {"cpu": "2"}}})
        self.assert_found(log)

    def gone(self, log, t, number):
        log.claim(t, "delete", number, f"aws:///us-east-1a/i-{number}", f"dt-{number}-1")

    def test_more_nodes_at_once_than_a_disruption_budget_allows_are_caught(self):
        log = Story()
        self.gone(log, 1000, 1)
        self.assert_found(log)
        self.gone(log, 1001, 2)
        self.assert_found(log, "INV-17")

    def test_what_has_to_go_is_not_held_against_a_disruption_budget(self):
        log = Story()
        self.gone(log, 1000, 1)
        log.instance(1000.5, "interrupted", 2, 0.1, token="dt-2-1")
        self.gone(log, 1001, 2)
        self.assert_found(log)

    def test_a_capacity_block_s_end_takes_all_its_nodes_and_nothing_else_does(self):
        for reason, kind, found in (("expired", "capacity-block", ()), ("expired", "default", ("INV-17",)), ("drifted", "capacity-block", ("INV-17",))):
            log = Story()
            for number in (1, 2):
                sent = {"metadata": {"labels": {"karpenter.k8s.aws/capacity-reservation-type": kind},
                                     "annotations": {"dovetail.dev/end-reason": f"{reason} 2026-01-01T00:00:00Z"}}}
                log.claim(999, "patch", number, f"aws:///us-east-1a/i-{number}", f"dt-{number}-1", sent=sent)
            self.gone(log, 1000, 1)
            self.gone(log, 1001, 2)
            self.assert_found(log, *found)

    def test_repaired_nodes_go_within_budgets_unless_by_force(self):
        for budgets, deadline, found in (
            ([{"nodes": "1"}], False, ("INV-17",)), ([{"nodes": "1"}], True, ()),
            ([{"nodes": "1", "reasons": ["Unhealthy"]}], False, ("INV-17",)), ([{"nodes": "1", "reasons": ["Drifted"]}], False, ()),
            ([{"nodes": "9"}, {"nodes": "1", "reasons": ["Unhealthy"]}], False, ("INV-17",)),
        ):
            log = Story()
            log.object(500, "nodepools", None, "default", dict(POOL, disruption={"budgets": budgets}))
            for number in (1, 2):
                annotations = {"dovetail.dev/end-reason": "unhealthy 2026-01-01T00:00:00Z"}
                if deadline:
                    annotations["karpenter.sh/nodeclaim-termination-timestamp"] = "2026-01-01T00:00:00Z"
                log.claim(999, "patch", number, f"aws:///us-east-1a/i-{number}", f"dt-{number}-1", sent={"metadata": {"annotations": annotations}})
                self.gone(log, 1000 + number, number)
            self.assert_found(log, *found)


if __name__ == "__main__":
    unittest.main()
