"""Logs in which all goes well, one thing of which a test changes."""

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from replay import World  # noqa: E402
from test_audit import Log  # noqa: E402

BUDGET = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 2}
POOL = {"limits": {"cpu": "8"}, "disruption": {"budgets": [{"nodes": "1"}]}}


class Story(Log):
    """A leader, three pods of one CPU each on a node each, claims that are kept to the end."""

    def __init__(self, nodes=3):
        super().__init__()
        self.add(0, "start", scenario="s.yaml", seed=1, region="us-east-1", clusterName="demo", replicas=2)
        self.object(0, "poddisruptionbudgets", "default", "web", BUDGET)
        self.object(0, "nodepools", None, "default", POOL)
        self.lease(0.5, 4, asked=0.4)
        for number in range(1, nodes + 1):
            self.node_for(number, number)
        for t in range(8, 3600, 8):
            self.lease(t, 4)
        self.add(3600, "end")

    def lines(self):
        order = sorted(enumerate(self.events), key=lambda e: (e[1]["kind"] == "end", e[1]["t"], e[0]))
        return [json.dumps(event) for _, event in order]

    def object(self, t, resource, namespace, name, spec):
        self.add(t, "api", by="operator", verb="update", resource=resource, subresource=None, namespace=namespace, name=name, uid=name,
                 code=200, object=spec and {"metadata": {"name": name}, "spec": spec})

    def lease(self, t, term, replica=0, **fields):
        self.add(t, "api", replica=replica, term=term, by=f"dovetail-{replica}", verb="patch", resource="leases", subresource=None,
                 namespace="kube-system", name="karpenter-leader-election", uid="lease", code=200, **{"asked": t - 0.1, **fields},
                 sent={"spec": {"leaseTransitions": term, "holderIdentity": f"dovetail-{replica}"}})

    def pod(self, t, change, name, **fields):
        super().pod(t, change, name, **{"labels": {"app": "web"}, **fields})

    def claim(self, t, verb, number, provider_id=None, token=None, term=4, replica=0, **fields):
        claim = {"nodePool": "default", "token": token, "term": str(term), "providerID": provider_id, "requests": {"cpu": "1", "pods": "1"}}
        self.add(t, "api", replica=replica, term=term, verb=verb, resource="nodeclaims", subresource=None, namespace=None,
                 name=f"default-{number}", uid=f"claim-{number}", code=200, **{"claim": claim, **fields})

    def launch(self, t, number, token=None, claim=None):
        """A claim and its instance; of another claim where that is said."""
        claim, token = claim or number, token or f"dt-{number}-1"
        self.claim(t, "create" if claim == number else "patch", claim)
        self.claim(t + 0.1, "patch", claim, token=token)
        self.instance(t + 0.5, "pending", number, 0.1, token=token)
        self.fleet(t + 0.5, number, token)
        self.events[-1]["result"]["sent"] = {"t": t + 0.2, "term": 4}
        self.claim(t + 0.8, "patch", claim, f"aws:///us-east-1a/i-{number}", token, sent={"status": {"capacity": {"cpu": "2"}}})

    def node_for(self, t, number):
        """A pod, its claim and its node."""
        self.pod(t, "created", f"web-{number}", requests=[{"cpu": "1"}])
        self.pod(t, "unschedulable", f"web-{number}", reason="0/0 nodes")
        self.launch(t + 0.1, number)
        self.node(t + 30, "joined", number, labels={})
        self.node(t + 31, "ready", number)
        self.pod(t + 32, "bound", f"web-{number}", node=f"node-{number}")
        self.pod(t + 34, "ready", f"web-{number}")

    def leave(self, t, number, code=201, how="eviction"):
        """A pod is asked to go, and goes."""
        self.add(t, "api", replica=0, term=4, verb="create" if how else "delete", resource="pods", subresource=how, namespace="default",
                 name=f"web-{number}", uid=f"uid-web-{number}", code=code)
        if code < 300:
            self.pod(t, "deleting", f"web-{number}")

    def lose(self, t, number):
        self.add(t, "api", by="restore", verb="lose", resource="nodeclaims", subresource=None, namespace=None, name=f"default-{number}",
                 uid=f"claim-{number}", code=200, claim=None)

    def terminate(self, t, number, replica=0):
        self.instance(t, "shutting-down", number, 0.1, token=f"dt-{number}-1")
        self.add(t, "aws", replica=replica, term=4, service="ec2", action="TerminateInstances", parameters={}, code="OK",
                 result={"instances": [f"i-{number}"]})

    def step(self, t, type, **particulars):
        self.add(t, "step", by="operator", action={"type": type, **particulars})


class RuleTest(unittest.TestCase):
    """What tests of rules have in common."""

    def found(self, log):
        world = World().read(log.lines())
        self.assertEqual(world.faults, [])
        return sorted({rule for rule, _, _ in world.violations})

    def assert_found(self, log, *rules):
        self.assertEqual(self.found(log), sorted(rules))
