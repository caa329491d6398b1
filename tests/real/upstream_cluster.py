"""What Karpenter's end-to-end suites expect of a cluster, made of the parts here.

The suites look for a Deployment `karpenter` in kube-system, change its environment to change settings, and wait for its new
pods and for one of these in the Lease. No kubelet is here: kwok says that a pod runs, and the stand-in in this file lets
the binary run for as long as the pod is there, with the pod's name and environment. kube-scheduler's pod is one of kwok's too,
by which the suites see that the scheduler has the configuration of theirs, which it has.
"""

import re
import signal
import subprocess
import threading
import time

from proof import CLAIMS, POOLS, Refused
from parts import HERE, NAMESPACE

ROOT = HERE.parent.parent
CRDS = ("deploy/crds", "deploy/buffers", "deploy/kwok")
#: The gates that the suites' own installation opens, those that they open in between, and reboots, which have no gate there.
GATES = ("nodeRepair", "rebootForRepair", "capacityBuffer", "staticCapacity", "nodeOverlay")
CHART = ("settings.provider=kwok", "settings.interruptionQueue=", *(f"settings.featureGates.{gate}=true" for gate in GATES))
#: The suites count nodes as Karpenter packs them. An address of AWS that nobody answers at.
SETTINGS = (
    "AWS_ENDPOINT_URL=http://127.0.0.1:9", "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_REGION=", "PACKING_POLICY=fewest-nodes",
)
INSTANCE = {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}
SYSTEM = {"metadata": {"name": "system", "labels": {"kubernetes.io/os": "linux", "system-node": "true"},
                       "annotations": {"kwok.x-k8s.io/node": "fake"}},
          "spec": {"taints": [{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]},
          "status": {"capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"}, "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}}}
#: Where the suites' kube-scheduler has its configuration, by which they know it.
SCHEDULERS = "/etc/kubernetes/karpenter-scheduler-config/kube-scheduler-config.yaml"
STAGES, PROFILES = "hack/kwok/stages", "test/suites/regression/testdata/kube-scheduler-config.yaml"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
LABEL = "testing/cluster"
#: What specs leave behind, in the order in which it is taken away.
LEFT = (
    "apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", "apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers", "apis/apps/v1/deployments", "apis/apps/v1/daemonsets", "apis/policy/v1/poddisruptionbudgets",
    "apis/karpenter.sh/v1/nodepools", "api/v1/pods", "apis/karpenter.sh/v1/nodeclaims", "api/v1/nodes",
    "apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", "api/v1/services", "api/v1/podtemplates", "api/v1/limitranges",
    "apis/scheduling.k8s.io/v1/priorityclasses",
)


def expects(proof, source):
    """The cluster's kwok and kube-scheduler get what the suites' installation gives them, before they start."""
    parts = proof.cluster.parts
    parts.more_stages = sorted((source / STAGES).glob("*.yaml"))
    parts.scheduler_profiles = source / PROFILES


def container(environment):
    """Karpenter's container, of which the environment alone counts."""
    return {"name": "controller", "image": "dovetail", "env": [{"name": name, "value": value} for name, value in environment.items()]}


def prepare(proof, given):
    """The definitions, a node for the system, kube-scheduler's pod and the Deployment `karpenter`."""
    for folder in CRDS:
        for path in sorted((ROOT / folder).glob("*.yaml")):
            proof.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(path))
    proof.kube.create("/api/v1/nodes", SYSTEM)
    proof.until("the node of the system is Ready", lambda: is_ready(proof.get("/api/v1/nodes/system")))
    command = ["kube-scheduler", f"--config={SCHEDULERS}"]
    runs = {"nodeName": "system", "tolerations": [{"operator": "Exists"}]}
    proof.kube.create(PODS, {"metadata": {"name": "kube-scheduler", "labels": {"component": "kube-scheduler"}},
                             "spec": {**runs, "containers": [{"name": "kube-scheduler", "image": "kube-scheduler", "command": command}]}})
    spec = {"containers": [container(proof.cluster.environment)], "terminationGracePeriodSeconds": 5,
            "nodeSelector": {"system-node": "true"}, "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}]}
    proof.kube.create(DEPLOYMENTS, {"metadata": {"name": "karpenter", "labels": INSTANCE}, "spec": {
        "replicas": 1, "selector": {"matchLabels": INSTANCE}, "template": {"metadata": {"labels": INSTANCE}, "spec": spec}}})


def is_ready(node):
    """True if a Node says so."""
    found = (node or {}).get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in found)


class Kubelet(threading.Thread):
    """Lets a replica of the binary run for each pod of the Deployment that kwok says runs, and ends it with its pod."""

    def __init__(self, proof):
        super().__init__(daemon=True)
        self.proof, self.ended, self.lost = proof, False, []
        self.ours = set()

    def run(self):
        while not self.ended:
            try:
                self.look()
            except (OSError, Refused, KeyError) as why:
                print(f"kubelet: {why}", flush=True)
            time.sleep(0.3)

    def look(self):
        """Starts and ends replicas, as pods have come and gone."""
        cluster = self.proof.cluster
        pods = {one["metadata"]["name"]: one for one in self.proof.kube.list(f"{PODS}?labelSelector=app.kubernetes.io%2Finstance%3Dkarpenter")}
        alive = {name: one for name, one in pods.items() if "deletionTimestamp" not in one["metadata"] and one["status"].get("phase") == "Running"}
        for name in sorted(self.ours - set(alive)):
            self.ours.discard(name)
            self.stop(name)
        for name, pod in alive.items():
            if name in self.ours and cluster.running[name].poll() is not None:
                self.lost.append(f"{name} ended with {cluster.running[name].returncode}: {cluster.tail(name)[-300:]}")
                self.ours.discard(name)
            if name not in self.ours:
                self.proof.replicas = (*self.proof.replicas, name)
                cluster.start(name, [f"{one['name']}={one.get('value', '')}" for one in pod["spec"]["containers"][0]["env"]])
                self.ours.add(name)

    def stop(self, name):
        """Ends a replica as a kubelet does."""
        process = self.proof.cluster.running.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def is_clear(proof):
    """True if the spec has left nothing behind."""
    nodes = set(proof.nodes()) - {"system"}
    pools = proof.kube.list(POOLS) + proof.kube.list("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses")
    return not nodes and not proof.claims() and not pools and not proof.kube.list("/api/v1/namespaces/default/pods")


def clear(proof):
    """Takes away what a spec that failed has left, and lets go by force what does not go in a minute."""
    for forced in (False, True):
        begun = time.monotonic()
        while time.monotonic() - begun < 60 and not is_clear(proof):
            for path in LEFT:
                remove_all(proof, path, forced)
            time.sleep(2)
    if not is_clear(proof):
        raise Refused(0, f"claims {sorted(proof.claims())[:3]}, nodes {sorted(proof.nodes())[:3]} do not go")


def remove_all(proof, path, forced):
    """Deletes the objects of a kind that a spec made; the finalizers of others are theirs to take off, unless it is by force."""
    for one in proof.kube.list(f"/{path}"):
        meta = one["metadata"]
        of_default = meta.get("namespace") == "default" and path.endswith("/pods")
        if LABEL not in meta.get("labels", {}) and not of_default and not path.endswith(("nodeclaims", "nodepools")):
            continue
        space, _, kind = path.rpartition("/")
        own = f"/{space}/namespaces/{meta['namespace']}/{kind}" if "namespace" in meta else f"/{path}"
        kept = [] if forced else [name for name in meta.get("finalizers", []) if not re.match(r"testing/", name)]
        try:
            if kept != meta.get("finalizers", []):
                proof.kube.patch(f"{own}/{meta['name']}", {"metadata": {"finalizers": kept}})
            if "deletionTimestamp" not in meta:
                proof.kube.call("DELETE", f"{own}/{meta['name']}", {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        except Refused as refused:
            if refused.status not in (404, 409):
                raise
