#!/usr/bin/env python3
"""What stands behind gates, on the real control plane: Nodes of the provider kwok, and two replicas.

    gated.py [quota] [overlay] [buffer] [gang] [device] [share] [size] [scale-in]      all of them unless some are said

quota: more pods than a CapacityQuota lets nodes be for. The leader is killed while claims are on their way, and the quota holds
whenever it is looked at; raised, the rest gets nodes; lowered, nothing goes.

overlay: a NodeOverlay makes a larger type the cheapest, and is forgotten when it goes; of two that say the same one is left out
and names the other; pods get a node for a resource that an overlay promises.

buffer: 50 pods come to a buffer that is ready: no claim is made for them. Then it is refilled, and deleted.

gang: a ProvisioningRequest for more than a quota allows gets no node; one that fits gets all of its own, through a killed leader,
and says so when the last is ready. Its pods find them, without another claim; one that nobody uses is given back when it is deleted.

device: this script is the driver, and publishes two devices on each node of one type. Pods that claim one each get nodes of that
type as they need them, a leader killed meanwhile; kube-scheduler allocates. One whose selector no device meets says so.

share: two replicas off spot and half of the rest on spot, through a leader that is killed, a rollout and a scale-in.

size: a pod that may not move shrinks while nodes are consolidated. As nobody is its kubelet, this script says what is allocated.
Its room is not used before; after that the pods of the other node move there, and none of them waits for a launch.

scale-in: half of the pods of a Deployment go, with the gate PodDeletionCostManagement and without: evictions beside each other.
"""

import argparse
import pathlib
import threading
import time

from handover import Leader
from kube import Refused
from kwok_provider import CHART, CRD, KWOK_CLASSES, POOL, SETTINGS
from load import Pods, deployment
from proof import CLAIMS, DEPLOYMENTS, Proof, condition, end, play, status_of

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
POOL_PATH = "/apis/karpenter.sh/v1/nodepools/default"
QUOTAS = "/apis/autoscaling.x-k8s.io/v1beta1/capacityquotas"
OVERLAYS = "/apis/karpenter.sh/v1alpha1/nodeoverlays"
BUFFERS = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers"
REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
RESOURCES = "/apis/resource.k8s.io/v1"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"
PODS = "/api/v1/namespaces/default/pods"
CPU, CAPACITY, TYPE = "karpenter.kwok.sh/instance-cpu", "karpenter.sh/capacity-type", "node.kubernetes.io/instance-type"
#: A node of four CPUs takes four of these.
ONE = ("900m", "1Gi")
COST, OURS = "controller.kubernetes.io/pod-deletion-cost", "dovetail.dev/pod-deletion-cost"
#: Long enough for what would be wrong to be done.
QUIET = 12


class Look(threading.Thread):
    """Asks something ten times a second, and keeps the most that was seen."""

    def __init__(self, ask):
        super().__init__(daemon=True)
        self.ask, self.most, self.ended = ask, 0, False
        self.start()

    def run(self):
        while not self.ended:
            try:
                self.most = max(self.most, self.ask())
            except (OSError, Refused):
                pass
            time.sleep(0.1)


def begin(proof, policy="WhenEmptyOrUnderutilized", after="0s", crds=()):
    """Class and pool of kwok's, the CRDs of others, and two replicas; who leads, and the pods."""
    for file in (CRD, *crds):
        proof.apply(file.read_text())
    proof.until("the class is served", lambda: proof.kube.list(KWOK_CLASSES) == [])
    pool = (POOL % "0s").replace("WhenEmptyOrUnderutilized", policy).replace("consolidateAfter: 0s", f"consolidateAfter: {after}")
    proof.apply(pool)
    proof.replicas_start("dovetail-0", "dovetail-1")
    proof.until("class and pool are Ready", lambda: proof.events("node_pool", ready=True))
    leader, pods = Leader(proof.cluster), Pods(proof.kube)
    proof.until("somebody leads", leader.replica)
    return leader, pods


def kill_leader(proof, leader):
    """The leader ends at once, and comes back as a standby."""
    old = leader.replica()
    proof.cluster.kill(old)
    proof.cluster.start(old)


def scale(proof, name, replicas):
    """`kubectl scale deployment`."""
    proof.kube.patch(f"{DEPLOYMENTS}/{name}/scale", {"spec": {"replicas": replicas}})


def is_initialized(proof, count):
    """True if there are so many claims, all of them initialized."""
    claims = proof.claims().values()
    return len(claims) == count and all(status_of(one, "Initialized") == "True" for one in claims)


def put_away(proof, leader, pods, *names):
    """All pods go, and with them all nodes."""
    for name in names:
        scale(proof, name, 0)
    proof.until("nothing is left", lambda: not proof.kube.list(CLAIMS) and not proof.nodes())
    leader.ended = pods.ended = True


def cpus(proof):
    """CPUs of all claims that are launched, and of all nodes."""
    of = lambda one: int(one.get("status", {}).get("capacity", {}).get("cpu", "0"))
    return max(sum(of(one) for one in proof.claims().values()), sum(of(one) for one in proof.nodes().values()))


def quota(proof):
    """A CapacityQuota holds, whoever leads."""
    leader, pods = begin(proof, crds=[DEPLOY / "quotas/autoscaling.x-k8s.io_capacityquotas.yaml"])
    made = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityQuota", "metadata": {"name": "all"},
            "spec": {"selector": {"matchLabels": {"karpenter.sh/nodepool": "default"}}, "limits": {"resources": {"cpu": 8}}}}
    proof.until("the quota is taken", lambda: proof.kube.create(QUOTAS, made) or True)
    proof.until("the quota is held", lambda: status_of(proof.get(f"{QUOTAS}/all"), "Reconciled") == "True")
    most = Look(lambda: cpus(proof))
    proof.kube.create(DEPLOYMENTS, deployment(0, *ONE, 16))
    proof.until("NodeClaims are there", proof.claims)
    kill_leader(proof, leader)
    proof.until("what the quota allows is used", lambda: cpus(proof) == 8 and len(pods.ready) >= 7)
    time.sleep(QUIET)
    ready = len(pods.ready)
    proof.check("eight CPUs at most at any moment, a leader killed meanwhile", most.most == 8, most.most)
    said = [text for _, text in proof.kubernetes_events("FailedScheduling") if "CapacityQuota all" in text]
    proof.check("pods that wait say which quota", said, said[:1])
    used = (proof.get(f"{QUOTAS}/all") or {}).get("status", {}).get("used", {}).get("resources", {})
    proof.check("its status has what is used", str(used.get("cpu")) == "8", used)
    proof.kube.patch(f"{QUOTAS}/all", {"spec": {"limits": {"resources": {"cpu": 32}}}})
    took = proof.until("with more, the rest gets nodes", lambda: len(pods.ready) == 16)
    proof.row("pods Ready under 8 CPUs, and seconds to 16 under 32", f"{ready}, {took:.1f}")
    before = set(proof.nodes())
    proof.kube.patch(f"{QUOTAS}/all", {"spec": {"limits": {"resources": {"cpu": 4}}}})
    proof.until("that it is exceeded is said", lambda: proof.kubernetes_events("QuotaExceeded"))
    time.sleep(QUIET)
    proof.check("a quota that is lowered ends no node", before == set(proof.nodes()) and len(pods.ready) == 16)
    most.ended = True
    put_away(proof, leader, pods, "load-0")


def overlay_of(name, weight=1, types=(), **what):
    """A NodeOverlay for these instance types."""
    requirement = {"key": TYPE, "operator": "In", "values": list(types)}
    return {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name},
            "spec": {"weight": weight, "requirements": [requirement] if types else [], **what}}


def overlay(proof):
    """NodeOverlays price and equip types, and are forgotten with their removal."""
    leader, pods = begin(proof, policy="WhenEmpty")
    large = "m-8x-amd64-linux"
    proof.kube.create(OVERLAYS, overlay_of("cheap", types=[large], price="0.0001"))
    counts = lambda name: status_of(proof.get(f"{OVERLAYS}/{name}"), "ValidationSucceeded")
    proof.until("the overlay counts", lambda: counts("cheap") == "True")
    proof.kube.create(DEPLOYMENTS, deployment(0, *ONE, 1))
    proof.until("its pod is Ready", lambda: len(pods.ready) == 1)
    types = lambda: {one["metadata"]["labels"][TYPE] for one in proof.nodes().values()}
    proof.check("the node is of the type that the overlay makes the cheapest", types() == {large}, types())
    kill_leader(proof, leader)
    proof.kube.create(OVERLAYS, overlay_of("rival", types=[large], price="7"))
    proof.until("of two that price the same, one is left out", lambda: "False" in (counts("cheap"), counts("rival")))
    lost, other = ("cheap", "rival") if counts("cheap") == "False" else ("rival", "cheap")
    why = condition(proof.get(f"{OVERLAYS}/{lost}"), "ValidationSucceeded")
    proof.check("its condition names the other", why["reason"] == "Conflict" and other in why["message"], why["message"])
    for name in ("cheap", "rival"):
        proof.kube.call("DELETE", f"{OVERLAYS}/{name}")
    put_to_rest(proof, "load-0")
    scale(proof, "load-0", 1)
    proof.until("a pod is Ready again", lambda: len(pods.ready) == 1)
    proof.check("without the overlay the node is of a cheaper type", types() and large not in types(), types())
    proof.kube.create(OVERLAYS, overlay_of("dongles", capacity={"example.com/dongle": "2"}))
    proof.until("the overlay counts", lambda: counts("dongles") == "True")
    before, made = set(proof.nodes()), deployment(1, *ONE, 2)
    made["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"example.com/dongle": "1"}
    proof.kube.create(DEPLOYMENTS, made)
    proof.until("both pods are Ready", lambda: len(pods.ready) == 3)
    # Nodes of kwok have what their NodeClaims were promised: nobody else would bring it.
    new = [proof.nodes()[name]["status"]["allocatable"].get("example.com/dongle") for name in set(proof.nodes()) - before]
    proof.check("one node for both, which has what was promised", new == ["2"], new)
    put_away(proof, leader, pods, "load-0", "load-1")


def put_to_rest(proof, name):
    """A Deployment without pods, and no node."""
    scale(proof, name, 0)
    proof.until("its node is gone", lambda: not proof.claims() and not proof.nodes())


def buffer(proof):
    """Pods come to room that is there, and the room is made good."""
    leader, pods = begin(proof, policy="WhenEmpty", crds=[DEPLOY / "buffers/autoscaling.x-k8s.io_capacitybuffers.yaml"])
    made = deployment(0, *ONE, 50)
    template = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "load"}, "template": made["spec"]["template"]}
    proof.kube.create(TEMPLATES, template)
    wanted = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "load"},
              "spec": {"podTemplateRef": {"name": "load"}, "replicas": 50}}
    proof.until("the buffer is taken", lambda: proof.kube.create(BUFFERS, wanted) or True)
    proof.until("nodes are made for it", proof.claims)
    kill_leader(proof, leader)
    reason = lambda: (condition(proof.get(f"{BUFFERS}/load"), "Provisioning") or {}).get("reason")
    took = proof.until("all of it is on nodes that are ready", lambda: reason() == "FitsExistingCapacity")
    nodes, claims = set(proof.nodes()), set(proof.claims())
    proof.row("nodes of the room for 50 pods, and seconds until all was ready, a leader killed meanwhile", f"{len(nodes)}, {took:.1f}")
    begun = time.monotonic()
    proof.kube.create(DEPLOYMENTS, made)
    proof.until("50 pods are bound", lambda: len(pods.bound) == 50)
    proof.row("seconds until 50 pods were bound", f"{time.monotonic() - begun:.1f}")
    where = {one["spec"]["nodeName"] for one in proof.kube.list(PODS)}
    proof.check("on nodes that were there", where <= nodes, sorted(where - nodes))
    proof.until("the room is refilled", lambda: reason() == "FitsExistingCapacity" and set(proof.claims()) > claims)
    proof.check("beside the pods, not in their place", len(pods.ready) == 50 and nodes <= set(proof.nodes()))
    proof.kube.call("DELETE", f"{BUFFERS}/load")
    proof.until("without the buffer its nodes go", lambda: set(proof.nodes()) <= where)
    proof.check("all pods stay", len(pods.ready) == 50)
    put_away(proof, leader, pods, "load-0")


def request(proof, name, count):
    """A ProvisioningRequest of the atomic class, for pods like those of the PodTemplate `load`."""
    made = {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": {"name": name},
            "spec": {"provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
                     "podSets": [{"podTemplateRef": {"name": "load"}, "count": count}]}}
    proof.until("the request is taken", lambda: proof.kube.create(REQUESTS, made) or True)


def gang(proof):
    """Nodes for all pods of a request, or for none."""
    crds = [DEPLOY / "requests/autoscaling.x-k8s.io_provisioningrequests.yaml", DEPLOY / "quotas/autoscaling.x-k8s.io_capacityquotas.yaml"]
    leader, pods = begin(proof, crds=crds)
    made = deployment(0, *ONE, 20)
    proof.kube.create(TEMPLATES, {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "load"}, "template": made["spec"]["template"]})
    limit = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityQuota", "metadata": {"name": "all"},
             "spec": {"limits": {"resources": {"cpu": 40}}}}
    proof.until("the quota is taken", lambda: proof.kube.create(QUOTAS, limit) or True)
    proof.until("the quota is held", lambda: status_of(proof.get(f"{QUOTAS}/all"), "Reconciled") == "True")
    most = Look(lambda: len(proof.claims()))
    provisioned = lambda name: condition(proof.get(f"{REQUESTS}/{name}"), "Provisioned") or {}
    request(proof, "large", 60)
    proof.until("that the large one has no room is said", lambda: provisioned("large").get("reason") == "CapacityIsNotFound")
    time.sleep(QUIET)
    proof.check("a gang of which a part would fit gets no node", most.most == 0, f"{most.most}; {provisioned('large').get('message')}")
    proof.kube.call("DELETE", f"{REQUESTS}/large")
    request(proof, "fits", 20)
    proof.until("NodeClaims are there", proof.claims)
    kill_leader(proof, leader)
    took = proof.until("the one that fits is provisioned", lambda: provisioned("fits").get("status") == "True")
    nodes, claims = proof.nodes(), set(proof.claims())
    ready = [one for one in nodes.values() if status_of(one, "Ready") == "True"]
    proof.check("all its nodes are ready when it says so", len(ready) == len(nodes) == len(claims) > 0, f"{len(ready)} of {len(nodes)}")
    proof.row("nodes of a gang of 20, and seconds until all were ready, a leader killed meanwhile", f"{len(nodes)}, {took:.1f}")
    time.sleep(QUIET)
    proof.check("they are not given up while they are booked", set(proof.nodes()) == set(nodes))
    made["spec"]["template"]["metadata"]["annotations"] = {"autoscaling.x-k8s.io/consume-provisioning-request": "fits"}
    proof.kube.create(DEPLOYMENTS, made)
    proof.until("its pods are Ready", lambda: len(pods.ready) == 20)
    where = {one["spec"]["nodeName"] for one in proof.kube.list(PODS)}
    proof.check("its pods are on its nodes, without another claim", where <= set(nodes) and set(proof.claims()) <= claims)
    scale(proof, "load-0", 0)
    proof.until("its nodes go after its pods", lambda: not proof.claims() and not proof.nodes())
    request(proof, "unused", 8)
    proof.until("another is provisioned", lambda: provisioned("unused").get("status") == "True")
    proof.kube.call("DELETE", f"{REQUESTS}/unused")
    proof.until("deleted, it leaves nothing", lambda: not proof.claims() and not proof.nodes())
    most.ended = True
    put_away(proof, leader, pods, "load-0")


DRIVER = "gpu.example.com"


class Driver(threading.Thread):
    """Publishes two devices on each node of a type, a second after it is there."""

    def __init__(self, proof, kind):
        super().__init__(daemon=True)
        self.proof, self.kind, self.ended = proof, kind, False
        self.start()

    def run(self):
        while not self.ended:
            try:
                for name, node in self.proof.nodes().items():
                    if node["metadata"]["labels"].get(TYPE) == self.kind:
                        self.publish(name, node["metadata"]["uid"])
            except (OSError, Refused):
                pass
            time.sleep(1)

    def publish(self, name, uid):
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        devices = [{"name": f"gpu-{number}", "attributes": {"model": {"string": "small"}}} for number in range(2)]
        self.proof.kube.create(f"{RESOURCES}/resourceslices", {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"{name}-gpu", "ownerReferences": [owner]},
            "spec": {"driver": DRIVER, "nodeName": name, "devices": devices,
                     "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}})


def claiming(proof, number, model, count):
    """A Deployment whose pods claim one device of a model each."""
    selector = {"cel": {"expression": f"device.attributes['{DRIVER}'].model == '{model}'"}}
    wanted = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "selectors": [selector]}}
    proof.kube.create(f"{RESOURCES}/namespaces/default/resourceclaimtemplates", {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": model},
        "spec": {"spec": {"devices": {"requests": [wanted]}}}})
    made = deployment(number, *ONE, count)
    pod = made["spec"]["template"]["spec"]
    pod["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": model}]
    pod["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    proof.kube.create(DEPLOYMENTS, made)


def device(proof):
    """Pods get nodes with the devices that they claim."""
    leader, pods = begin(proof, policy="WhenEmpty")
    kind = "m-8x-amd64-linux"
    driver = Driver(proof, kind)
    proof.kube.create(f"{RESOURCES}/deviceclasses", {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}})
    first = deployment(0, *ONE, 1)
    first["spec"]["template"]["spec"]["nodeSelector"] = {TYPE: kind}
    proof.kube.create(DEPLOYMENTS, first)
    slices = lambda: len(proof.kube.list(f"{RESOURCES}/resourceslices"))
    proof.until("a node of the type has published its devices", lambda: len(pods.ready) == 1 == slices())
    claiming(proof, 1, "small", 6)
    proof.until("more nodes are on their way", lambda: len(proof.claims()) > 1)
    kill_leader(proof, leader)
    took = proof.until("six pods have their devices", lambda: len(pods.ready) == 7)
    types = [one["metadata"]["labels"][TYPE] for one in proof.nodes().values()]
    proof.check("on three nodes of the type that has them", types == [kind] * 3, types)
    proof.row("seconds until six pods with a device each were Ready on three nodes, a leader killed meanwhile", f"{took:.1f}")
    allocated = [one for one in proof.kube.list(f"{RESOURCES}/namespaces/default/resourceclaims") if one.get("status", {}).get("allocation")]
    proof.check("kube-scheduler has allocated six", len(allocated) == 6, len(allocated))
    claiming(proof, 2, "huge", 1)
    says = lambda: [text for _, text in proof.kubernetes_events("FailedScheduling") if "'huge'" in text]
    proof.until("the pod that no device suits is told the selector", says)
    time.sleep(QUIET)
    proof.check("nothing is launched for it", len(proof.claims()) == 3, says()[:1])
    driver.ended = True
    put_away(proof, leader, pods, "load-0", "load-1", "load-2")


def on_spot(proof):
    """How many pods are on spot nodes, and how many not."""
    nodes = {name: one["metadata"]["labels"].get(CAPACITY) for name, one in proof.nodes().items()}
    where = [nodes.get(one["spec"].get("nodeName")) for one in proof.kube.list(PODS) if "deletionTimestamp" not in one["metadata"]]
    return where.count("spot"), len([one for one in where if one not in ("spot", None)])


def share(proof):
    """A base off spot and a share on it, kept through what comes."""
    leader, pods = begin(proof)
    made = deployment(0, *ONE, 20)
    made["spec"]["template"]["metadata"]["annotations"] = {"dovetail.dev/on-demand-base": "2", "dovetail.dev/spot-share": "50%"}
    # Nodes are shared by few, so that there are several of each kind.
    made["spec"]["template"]["spec"]["nodeSelector"] = {CPU: "4"}
    proof.kube.create(DEPLOYMENTS, made)
    proof.until("NodeClaims are there", proof.claims)
    kill_leader(proof, leader)
    holds = lambda most: (lambda seen: sum(seen) == len(pods.ready) and 0 < seen[0] <= most)(on_spot(proof))
    proof.until("20 pods are Ready, nine of them on spot at most", lambda: len(pods.ready) == 20 and holds(9))
    proof.check("of 20 pods nine at most are on spot, and some are", holds(9), on_spot(proof))
    template = {"template": {"metadata": {"annotations": {"rolled": "out"}}}}
    proof.kube.patch(f"{DEPLOYMENTS}/load-0", {"spec": template})
    rolled = lambda: (lambda one: one["status"].get("updatedReplicas") == 20 == one["status"].get("availableReplicas") == one["status"].get("replicas"))(proof.get(f"{DEPLOYMENTS}/load-0"))
    proof.until("all pods are of the new template", rolled)
    proof.until("the same holds after a rollout", lambda: len(pods.exist) == 20 == len(pods.ready) and holds(9))
    proof.row("pods on spot and off it after the rollout, of 20", "%d, %d" % on_spot(proof))
    scale(proof, "load-0", 10)
    proof.until("ten pods are left", lambda: len(pods.exist) == 10 == len(pods.ready))
    seen = on_spot(proof)
    # More than four are taken back one node at a time, once the youngest replica is ten minutes old: that is not waited for.
    time.sleep(QUIET)
    after = on_spot(proof)
    proof.check("consolidation after a scale-in puts none on spot beyond the split", after[0] <= max(4, seen[0]), f"{seen}, then {after}")
    put_away(proof, leader, pods, "load-0")


def allocate(proof, name, cpu):
    """The word of a kubelet: what is allocated to the one container of a pod."""
    size = {"cpu": cpu, "memory": "1Gi"}
    pod = proof.get(f"{PODS}/{name}")
    status = dict(pod["status"]["containerStatuses"][0], allocatedResources=size, resources={"requests": size})
    kind = "application/strategic-merge-patch+json"
    proof.kube.call("PATCH", f"{PODS}/{name}/status", {"status": {"containerStatuses": [status]}}, kind)


def size(proof):
    """A pod that shrinks is as large as its node still has it."""
    leader, pods = begin(proof)
    big = deployment(0, "2500m", "1Gi", 1)
    big["spec"]["template"]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    small = deployment(1, *ONE, 3)
    for made in (big, small):
        made["spec"]["template"]["spec"]["nodeSelector"] = {CPU: "4"}
        proof.kube.create(DEPLOYMENTS, made)
    proof.until("four pods are Ready on two nodes", lambda: len(pods.ready) == 4 and is_initialized(proof, 2))
    name = next(name for name in pods.ready if name.startswith("load-0"))
    allocate(proof, name, "2500m")
    before, claims = set(proof.nodes()), set(proof.claims())
    smaller = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "300m", "memory": "1Gi"}}}]}}
    proof.kube.call("PATCH", f"{PODS}/{name}/resize", smaller, "application/strategic-merge-patch+json")
    spec = proof.get(f"{PODS}/{name}")["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    proof.check("the API server has taken the resize", spec == "300m", spec)
    kill_leader(proof, leader)
    proof.until("somebody leads", lambda: leader.replica())
    time.sleep(3 * QUIET)
    proof.check("while its node has allocated more, no node goes", before == set(proof.nodes()))
    begun = time.monotonic()
    allocate(proof, name, "300m")
    proof.until("one node is enough", lambda: len(proof.nodes()) == 1 and len(pods.ready) == 4)
    proof.row("seconds from the kubelet's word to one node", f"{time.monotonic() - begun:.1f}")
    proof.check("nothing was launched for the pods that moved", set(proof.claims()) < claims, sorted(set(proof.claims()) - claims))
    proof.check("the pod that may not move has stayed", name in pods.ready)
    put_away(proof, leader, pods, "load-0", "load-1")


def scale_in(proof, seen):
    """Half of a Deployment's pods go, and its nodes after them."""
    leader, pods = begin(proof, after="5s")
    made = deployment(0, *ONE, 40)
    made["spec"]["template"]["spec"]["nodeSelector"] = {CPU: "4"}
    proof.kube.create(DEPLOYMENTS, made)
    proof.until("40 pods are Ready", lambda: len(pods.ready) == 40)
    proof.until("ten nodes are initialized", lambda: is_initialized(proof, 10))
    gate = "costs" in proof.name
    ours = lambda: [one for one in proof.kube.list(PODS) if OURS in one["metadata"].get("annotations", {})]
    if gate:
        proof.until("pods have values", lambda: len(ours()) >= 20)
        users = next(iter(sorted(pods.ready)))
        proof.kube.patch(f"{PODS}/{users}", {"metadata": {"annotations": {COST: "2147483647", OURS: None}}})
        kill_leader(proof, leader)
        proof.until("somebody leads", leader.replica)
    time.sleep(QUIET)
    scale(proof, "load-0", 20)
    proof.until("20 pods are left", lambda: len(pods.exist) == 20)
    took = proof.until("five nodes are left", lambda: len(proof.nodes()) == 5 and len(pods.ready) == 20)
    evictions = [status for verb, what, status in proof.audited() if (verb, what) == ("create", "pods/eviction")].count(201)
    seen["with" if gate else "without"] = evictions
    proof.row(f"{'with' if gate else 'without'} the gate: evictions, and seconds until five of ten nodes are left", f"{evictions}, {took:.1f}")
    if gate:
        pod = proof.get(f"{PODS}/{users}")
        kept = pod is not None and pod["metadata"]["annotations"].get(COST) == "2147483647"
        proof.check("a user's own value stays, and its pod with it", kept, pod is not None)
        proof.check("the gate saves evictions", evictions < seen["without"], seen)
    else:
        proof.check("without the gate no pod has a value", not ours(), len(ours()))
    put_away(proof, leader, pods, "load-0")


#: The values of the chart that open each one's gate.
GATES = {"quota": ["capacityQuota"], "overlay": ["nodeOverlay"], "buffer": ["capacityBuffer"],
         "gang": ["provisioningRequest", "capacityQuota"]}
#: Other values of the chart.
VALUES = {"device": ["settings.ignoreDRARequests=false"]}
COURSES = {"quota": quota, "overlay": overlay, "buffer": buffer, "gang": gang, "device": device, "share": share, "size": size}
LAST = "scale-in"


def proof_of(name, gates):
    """A cluster of its own, with gates open."""
    opened = [f"settings.featureGates.{gate}=true" for gate in gates]
    return Proof(f"gated-{name}", SETTINGS, chart=(*CHART, *opened, *VALUES.get(name, [])))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("courses", nargs="*", choices=[*COURSES, LAST, []], help="all unless some are said")
    given, found, seen = parser.parse_args(), [], {}
    wanted = given.courses or [*COURSES, LAST]
    for name, course in COURSES.items():
        if name in wanted:
            found += play(course, proof_of(name, GATES.get(name, [])))
    if LAST in wanted:
        found += play(scale_in, proof_of("plain", []), seen)
        found += play(scale_in, proof_of("costs", ["podDeletionCostManagement"]), seen)
    end(found)


if __name__ == "__main__":
    main()
