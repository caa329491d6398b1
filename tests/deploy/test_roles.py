"""The chart's roles allow what the control plane asks the API server for, and nothing else. kube-requests.json is the
recording (roles.py)."""

import functools
import json
import subprocess
import unittest

import yaml

import build
import roles

#: Why the translator's writes are there.
ALPHA = "what alpha objects mean, written where there are any: played against the sandbox, whose requests are not recorded"

#: Why the rules of capacity buffers are there.
BUFFERS = "capacity buffers, behind their feature gate: played against the sandbox, whose requests are not recorded"

#: Why the rules of requests are there.
REQUESTS = "ProvisioningRequests, behind their feature gate: played against the sandbox, whose requests are not recorded"

#: Why the rules of PodGroups are there.
GROUPS = "PodGroups, behind their feature gate: played against the sandbox, whose requests are not recorded"

#: Why the rules of overlays are there.
OVERLAYS = "NodeOverlays, behind their feature gate: played against the sandbox, whose requests are not recorded"

#: Why the rules of quotas are there.
QUOTAS = "quotas on capacity, behind their feature gate: played against the sandbox, whose requests are not recorded"

#: Why the kinds of default constraints are there.
SPREAD = "the selectors of pods that SCHEDULER_CONFIG spreads by default: watched with that setting alone"

#: Why the rules of devices are there.
DEVICES = "devices that pods claim, behind the setting IGNORE_DRA_REQUESTS: the recording is without it"

#: Why the rules of autoscalers are there.
AUTOSCALERS = "VerticalPodAutoscalers, behind their feature gate: played against the sandbox, whose requests are not recorded"

#: A rule's verb without a request in the recording, and why it is there.
UNRECORDED = {
    ("get", "", "persistentvolumeclaims", "*"): "the volume of a pod that is drained, before its node may go",
    ("create", "authorization.k8s.io", "subjectaccessreviews", "*"):
        "whether who renews a Lease like Karpenter's elsewhere is one: tests/live/run.rs has such a Lease",
    ("delete", "karpenter.k8s.aws", "ec2nodeclasses", "*"): ALPHA,
    ("update", "karpenter.k8s.aws", "ec2nodeclasses", "*"): ALPHA,
    ("update", "karpenter.sh", "nodepools", "*"): ALPHA,
    ("patch", "karpenter.k8s.aws", "awsnodetemplates/status", "*"): ALPHA,
    ("patch", "karpenter.sh", "machines/status", "*"): ALPHA,
    ("list", "autoscaling.x-k8s.io", "capacitybuffers", "*"): BUFFERS,
    ("watch", "autoscaling.x-k8s.io", "capacitybuffers", "*"): BUFFERS,
    ("patch", "autoscaling.x-k8s.io", "capacitybuffers/status", "*"): BUFFERS,
    ("list", "autoscaling.x-k8s.io", "capacityquotas", "*"): QUOTAS,
    ("watch", "autoscaling.x-k8s.io", "capacityquotas", "*"): QUOTAS,
    ("patch", "autoscaling.x-k8s.io", "capacityquotas/status", "*"): QUOTAS,
    ("list", "autoscaling.x-k8s.io", "provisioningrequests", "*"): REQUESTS,
    ("watch", "autoscaling.x-k8s.io", "provisioningrequests", "*"): REQUESTS,
    ("patch", "autoscaling.x-k8s.io", "provisioningrequests/status", "*"): REQUESTS,
    ("list", "karpenter.sh", "nodeoverlays", "*"): OVERLAYS,
    ("watch", "karpenter.sh", "nodeoverlays", "*"): OVERLAYS,
    ("patch", "karpenter.sh", "nodeoverlays/status", "*"): OVERLAYS,
    **{(verb, "resource.k8s.io", kind, "*"): DEVICES for verb in ("list", "watch") for kind in ("deviceclasses", "resourceclaims", "resourceslices")},
    **{(verb, "autoscaling.k8s.io", "verticalpodautoscalers", "*"): AUTOSCALERS for verb in ("list", "watch")},
    **{(verb, group, "podgroups", "*"): GROUPS for verb in ("list", "watch") for group in ("scheduling.k8s.io", "scheduling.x-k8s.io")},
    ("get", "", "podtemplates", "*"): BUFFERS,
    ("get", "", "replicationcontrollers", "*"): BUFFERS,
    ("get", "apps", "statefulsets", "*"): BUFFERS,
    **{(verb, group, resource, "*"): SPREAD for verb in ("list", "watch")
       for group, resource in (("", "services"), ("", "replicationcontrollers"), ("apps", "replicasets"))},
    ("get", "batch", "jobs", "*"): BUFFERS,
}


@functools.cache
def rendered():
    """The roles of the control plane's own account."""
    command = [build.build("helm"), "template", "dovetail", roles.ROOT / "deploy/helm/dovetail", "--namespace", "kube-system"]
    sets = ["--set", "settings.clusterName=demo,moves.rollout=true,settings.featureGates.capacityBuffer=true,settings.featureGates.capacityQuota=true,settings.featureGates.nodeOverlay=true,settings.featureGates.provisioningRequest=true,settings.featureGates.verticalPodAutoscaler=true,settings.featureGates.gangScheduling=true,settings.ignoreDRARequests=false", "--kube-version", "1.33.0", "--skip-tests"]
    said = subprocess.run([*command, *sets], capture_output=True, text=True, check=True).stdout
    objects = [one for one in yaml.safe_load_all(said) if one]
    account = next(one for one in objects if one["kind"] == "ServiceAccount")["metadata"]["name"]
    bound = set()
    for one in objects:
        if one["kind"].endswith("RoleBinding") and any(subject["name"] == account for subject in one["subjects"]):
            bound.add((one["roleRef"]["kind"], one["roleRef"]["name"], one["metadata"].get("namespace", "*")))
    return [
        (one["metadata"].get("namespace", "*"), rule)
        for one in objects if (one["kind"], one["metadata"]["name"], one["metadata"].get("namespace", "*")) in bound
        for rule in one["rules"]
    ]


def verbs(rules):
    """Each verb on each resource that rules allow, with the namespace."""
    return {
        (verb, group, resource, namespace)
        for namespace, rule in rules for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]
    }


def allowed(request, granted):
    return request in granted or (*request[:3], "*") in granted


def idle(granted, requests):
    """Verbs that no request has used. One in a namespace uses a role there before a cluster-wide one."""
    anywhere = {request[:3] for request in requests if request[3] == "*" or request not in granted}
    return {one for one in granted if (one[:3] not in anywhere if one[3] == "*" else one not in requests)}


class Roles(unittest.TestCase):
    def test_every_request_is_allowed(self):
        granted = verbs(rendered())
        self.assertEqual([one for one in sorted(roles.kept()) if not allowed(one, granted)], [])

    def test_no_verb_is_allowed_that_no_request_of_the_tests_uses(self):
        self.assertEqual(sorted(idle(verbs(rendered()), roles.kept()) - set(UNRECORDED)), [])

    def test_what_is_named_as_unrecorded_is_allowed_and_unrecorded(self):
        self.assertEqual(set(UNRECORDED) - idle(verbs(rendered()), roles.kept()), set())

    def test_nothing_stands_for_everything(self):
        for _, rule in rendered():
            self.assertNotIn("*", rule["apiGroups"] + rule["resources"] + rule["verbs"])

    def test_a_request_more_and_a_verb_more_are_noticed(self):
        granted, requests = verbs(rendered()), roles.kept()
        self.assertFalse(allowed(("get", "", "secrets", "*"), granted))
        more = granted | {("list", "", "secrets", "*")}
        self.assertIn(("list", "", "secrets", "*"), idle(more, requests))
        fewer = {one for one in granted if one[:3] != ("create", "karpenter.sh", "nodeclaims")}
        self.assertFalse(all(allowed(one, fewer) for one in requests))

    def test_a_line_that_an_api_server_did_not_end_is_passed_over_and_a_refusal_is_no_request(self):
        import pathlib
        import tempfile

        event = lambda decision, verb: json.dumps({
            "verb": verb, "objectRef": {"resource": "nodes", "subresource": "status", "apiVersion": "v1"},
            "annotations": {"authorization.k8s.io/decision": decision}})
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "audit.jsonl")
            log.write_text("\n".join([event("allow", "get"), event("forbid", "patch"), event("allow", "list")[:40]]))
            self.assertEqual(roles.recorded(log), {("get", "", "nodes/status", "*")})

    def test_a_request_in_a_strange_namespace_needs_a_role_everywhere(self):
        self.assertEqual(roles.placed("leases", "karpenter"), "*")
        self.assertEqual(roles.placed("leases", "kube-system"), "kube-system")
        self.assertEqual(roles.placed("pods", "kube-system"), "*")
        self.assertFalse(allowed(("get", "", "secrets", roles.placed("secrets", "team-a")), verbs(rendered())))


if __name__ == "__main__":
    unittest.main()
