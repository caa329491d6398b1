"""A user of `hostile.py` who has one node, and with it its kubelet's certificate: whatever the Node authorizer and
NodeRestriction let a kubelet write of itself, it writes. Its word once closed a pool for everybody (docs/decisions/056)."""

import json
import subprocess

from hostile_acts import CLAIMS, END_OF_TIME, NODES, User
from load import until
from places import CONTROL, amount

NAME = "mallory-kubelet"
CLASS = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default"
OBSERVED = "dovetail.dev/observed-allocatable"
TYPE = "node.kubernetes.io/instance-type"
#: The pod out of which the node was taken over. It keeps the node.
LAIR = "lair"
#: The types that it says it is, one after the other.
TYPES = ("c6a.large", "m5.large", "r5.large", "c5.4xlarge", "m6i.8xlarge", "none.such")
#: So much of what was planned one node alone may take from later plans, with a hair for what is rounded.
BELIEVED = 0.2 + 1e-3


def take_over(cluster, kube):
    """A pod that stays, and a certificate of the kubelet on whose node it is; that node's name."""
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    kube.create("/api/v1/namespaces/default/pods", {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": LAIR, "annotations": {"karpenter.sh/do-not-disrupt": "true"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    })
    where = lambda: kube.call("GET", f"/api/v1/namespaces/default/pods/{LAIR}")["spec"].get("nodeName")
    until("the lair is bound", where)
    node = where()
    client = [cluster.parts.pki, "client", NAME, f"system:node:{node}", "system:nodes"]
    subprocess.run([cluster.programs["certs"], "-valid", "2h", *client], check=True)
    return node


class Kubelet(User):
    """Is one node's kubelet."""

    def __init__(self, cluster, node):
        self.node, self.path = node, f"{NODES}/{node}"
        super().__init__(cluster, NAME)

    def says(self, what, status):
        return self.patches(what, f"{self.path}/status", {"status": status})

    def round(self, number):
        little = {"cpu": "100m", "memory": "100Mi", "ephemeral-storage": "1Gi", "pods": "1"}
        self.says("allocatable of 100m", {"allocatable": little})
        self.patches("walks its instance type", self.path, {"metadata": {"labels": {TYPE: TYPES[number % len(TYPES)]}}})
        self.says("allocatable of 100m", {"allocatable": little | {"cpu": f"{100 - number % 100}m"}})
        bought = {"karpenter.sh/capacity-type": "spot", "karpenter.sh/nodepool": "elsewhere"}
        self.patches("is spot, and of another pool", self.path, {"metadata": {"labels": bought}})
        if number % 2:
            nothing = {name: "0" for name in little}
            self.says("capacity of nothing", {"capacity": nothing, "allocatable": nothing})
        if number % 3 == 0:
            self.says("conditions that nobody knows, and twice", {"conditions": conditions()})
        self.reaches_out()

    def reaches_out(self):
        """What no kubelet may do."""
        self.patches("another's Node", f"{NODES}/{CONTROL}/status", {"status": {"allocatable": {"cpu": "0"}}})
        self.patches("a taint of its own", self.path, {"spec": {"taints": [{"key": "mine", "effect": "NoExecute"}]}})
        self.does("its own end", "DELETE", self.path)
        self.does("reads the claims", "GET", CLAIMS)


def conditions():
    """Ready, and what does not go with it."""
    said = lambda kind, status: {"type": kind, "status": status, "reason": "x", "message": "y" * 2000,
                                 "lastHeartbeatTime": END_OF_TIME, "lastTransitionTime": END_OF_TIME}
    return [said("Ready", "True"), said("Ready", "False"), said("NetworkUnavailable", "Maybe"), said("Kernel" * 20, "True")]


def overruled(observed, claim):
    """What plans believe of a kubelet and should not, by the class's annotation and the claim of its node."""
    own, planned = claim["metadata"]["labels"][TYPE], claim["status"]["allocatable"]
    wrong = []
    for one in json.loads(observed or "{}").get("types", []):
        if one["instanceType"] != own:
            wrong.append(f"{one['instanceType']} has {one['has']}, which its node is not")
            continue
        for name, has in one["has"].items():
            if amount(has) < (1 - BELIEVED) * amount(planned.get(name, "0")):
                wrong.append(f"{own} has {name} {has}, {planned.get(name)} was planned")
    return wrong


def believed(kube, node):
    """The same, of the real class; a reason too where nothing is left to compare it with."""
    found = [one for one in kube.list(CLAIMS) if one.get("status", {}).get("nodeName") == node]
    own = next((one for one in found if one["metadata"].get("labels", {}).get("hostile") != "yes"), None)
    if own is None:
        return [f"the NodeClaim of {node} is gone"]
    return overruled(kube.call("GET", CLASS)["metadata"].get("annotations", {}).get(OBSERVED), own)


def is_doubted(kube, node):
    """Whether the class has the event that names this node."""
    events = kube.list("/api/v1/namespaces/default/events?fieldSelector=reason%3DAllocatableDoubted")
    return any(node in one["message"] for one in events)
