"""A user of `hostile.py` who may create DaemonSets in one namespace. Each has a pod on every node that it is meant for, so one
that no node has room for once kept every other pod from every node (docs/decisions/053)."""

from hostile_acts import AGENTS, User

SETS = f"/apis/apps/v1/namespaces/{AGENTS}/daemonsets"
#: The reason of the event that names a DaemonSet which plans do not count.
NOT_COUNTED = "DaemonSetNotCounted"
#: DaemonSets that fit on every node, and how many of them are created in one round. Together they take a tenth of a core.
FITTING, IN_ONE_ROUND = 20, 5
#: More than any type of the pool has.
CPUS = "1k"


def daemon_set(name, requests=None, **spec):
    """A DaemonSet whose pod requests that, with more fields of its pod's spec."""
    # What is not CPU, memory or disk cannot be requested without the same limit.
    strict = {key: amount for key, amount in (requests or {}).items() if "/" in key or key.startswith("hugepages-")}
    container = {"name": "c", "image": "pause", "resources": {"requests": requests or {}, "limits": strict}}
    container |= spec.pop("container", {})
    pod = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return {
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}, "spec": pod}},
    }


def with_port(name):
    """Of two with the same host port a node has one."""
    return daemon_set(name, {"cpu": "5m"}, container={"ports": [{"containerPort": 80, "hostPort": 19999}]})


def unfit():
    """What is done: DaemonSets, none of which may count on any node of the pool. Each has to be named."""
    large = [{"name": "i", "image": "pause", "resources": {"requests": {"cpu": CPUS}}}]
    return {
        "DaemonSet of 8 GPUs": [daemon_set("gpus", {"nvidia.com/gpu": "8"})],
        "DaemonSet of 1,000 CPUs": [daemon_set("cpus", {"cpu": CPUS})],
        "the same, critical for nodes": [daemon_set("critical", {"cpu": CPUS}, priorityClassName="system-node-critical")],
        "DaemonSet of a resource that nobody has": [daemon_set("extended", {"example.com/none": "1"})],
        "DaemonSet of huge pages": [daemon_set("hugepages", {"hugepages-2Mi": "4Gi", "cpu": "5m"})],
        "DaemonSet of 100 Ti of disk": [daemon_set("disk", {"ephemeral-storage": "100Ti"})],
        "DaemonSet of 900 Ti of memory": [daemon_set("memory", {"memory": "900Ti"})],
        "DaemonSet with a large init container": [daemon_set("init", {"cpu": "5m"}, initContainers=large)],
    }


def others():
    """DaemonSets of which some nodes have a pod, or none is meant to."""
    return {
        "two DaemonSets with one host port": [with_port("port-a"), with_port("port-b")],
        "DaemonSet that fits the largest types alone": [daemon_set("largest", {"cpu": "90"})],
        "DaemonSet of one zone": [daemon_set("zone", {"cpu": "5m"}, nodeSelector={"topology.kubernetes.io/zone": "eu-west-1a"})],
        "DaemonSet of a label that no node has": [daemon_set("store", {"cpu": "900m"}, nodeSelector={"role": "store"})],
    }


def fitting(number):
    return daemon_set(f"fits-{number}", {"cpu": "5m", "memory": "8Mi"})


class Daemons(User):
    """May create DaemonSets; those that fit come first."""

    def __init__(self, cluster):
        super().__init__(cluster, "mallory-daemons")

    def round(self, number):
        for at in range(number * IN_ONE_ROUND, min(FITTING, (number + 1) * IN_ONE_ROUND)):
            self.creates("DaemonSets that fit everywhere", fitting(at))
        for what, sets in {1: unfit(), 2: others()}.get(number, {}).items():
            for one in sets:
                self.creates(what, one)
        if number > 2:
            # What is there stays: whoever may create alone can neither change nor delete.
            self.creates("DaemonSet of a name that is taken", daemon_set("cpus", {"cpu": "1"}))
        self.does("a pod of its own", "POST", f"/api/v1/namespaces/{AGENTS}/pods", {"kind": "Pod", "metadata": {"name": "own"}})

    def creates(self, what, body):
        return self.does(what, "POST", SETS, body)


def named(kube):
    """The DaemonSets of which an event says that they do not count."""
    events = kube.list(f"/api/v1/namespaces/{AGENTS}/events?fieldSelector=reason%3D{NOT_COUNTED}")
    return {one["involvedObject"]["name"] for one in events if one["involvedObject"]["kind"] == "DaemonSet"}


def not_named(kube):
    """The DaemonSets that fit nowhere, were created, and have no such event."""
    there = {one["metadata"]["name"] for one in kube.list(SETS)}
    return sorted({one["metadata"]["name"] for sets in unfit().values() for one in sets} & there - named(kube))
