#!/usr/bin/env python3
"""What stands in the way on the real control plane is named by `explain`, and ends by the change that it suggests; and what
`plan` says of the live cluster is what the control plane then creates, byte for byte.

    explained.py

Seven pods wait, each for another reason: an impossible request, a taint, the pool's limit, a volume in another zone, spot only, a
quota, a hopeless affinity. `explain` names each; its first suggestion is applied as it stands in the answer for programs, and the pod
runs. An eighth has a PodDisruptionBudget that blocks the drain of its node: that is named too, and after the remedy the node goes.
"""

import copy
import json

from cluster import ROOT
from load import deployment
from proof import DEPLOYMENTS, POOLS, Proof, end, play, pool_text, status_of

PODS = "/api/v1/namespaces/default/pods"
QUOTAS = "/apis/autoscaling.x-k8s.io/v1beta1/capacityquotas"
QUOTA_CRD = ROOT / "deploy/quotas/autoscaling.x-k8s.io_capacityquotas.yaml"
#: The gate, and the right to read the kind.
CHART = ("settings.featureGates.capacityQuota=true",)
ZONE = "topology.kubernetes.io/zone"
TYPE = "node.kubernetes.io/instance-type"
HOSTNAME = "kubernetes.io/hostname"
CAPACITY = "karpenter.sh/capacity-type"
#: A claim says it by nodeClassRef and by its label; the API refuses it as a requirement.
CLASS = "karpenter.k8s.aws/ec2nodeclass"


def pod(name, pool="default", cpu="1", **spec):
    """A pod of a pool."""
    selector = {"karpenter.sh/nodepool": pool} | spec.pop("nodeSelector", {})
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    own = {"terminationGracePeriodSeconds": 0, "nodeSelector": selector, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": own | spec}


def pool(name, change):
    """A pool like the manifest's, changed."""
    requirements = [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}, {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]}]
    template = {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": requirements}}
    own = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"template": template, "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}}}
    change(own["spec"])
    return own


def require(spec, key, *values):
    spec["template"]["spec"]["requirements"].append({"key": key, "operator": "In", "values": list(values)})


def pools():
    """Each has something that keeps its pod away."""
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    return [
        pool("tainted", lambda spec: (spec["template"]["spec"].update(taints=[taint]), require(spec, CAPACITY, "on-demand"))),
        pool("full", lambda spec: (spec.update(limits={"cpu": "500m"}), require(spec, CAPACITY, "on-demand"))),
        pool("zoned", lambda spec: (require(spec, ZONE, "eu-west-1a"), require(spec, CAPACITY, "on-demand"))),
        pool("spot-only", lambda spec: require(spec, CAPACITY, "spot")),
        pool("quota", lambda spec: require(spec, CAPACITY, "on-demand")),
    ]


def volume():
    """A volume that is in another zone than its pool, and its claim."""
    place = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["eu-west-1b"]}]}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"}, "spec": common | {
            "capacity": {"storage": "1Gi"}, "claimRef": {"name": "data", "namespace": "default"},
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [place]}}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
         "spec": common | {"volumeName": "data", "resources": {"requests": {"storage": "1Gi"}}}},
    ]


def cases():
    """Each pod with the pool that it is for and the rule in the way."""
    alone = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "nobody"}}}]}}
    mounted = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return [
        ("an impossible request", pod("big", cpu="4000"), "default", "resources"),
        ("a taint", pod("taint", "tainted"), "tainted", "taints"),
        ("the pool's limit", pod("limit", "full"), "full", "limits"),
        ("a volume in another zone", pod("db", "zoned", volumes=mounted), "zoned", "volumes"),
        ("spot only", pod("demand", "spot-only", nodeSelector={CAPACITY: "on-demand"}), "spot-only", "requirements"),
        ("a quota", pod("over", "quota"), "quota", "quota"),
        ("a hopeless affinity", pod("lonely", affinity=alone), "default", "topology"),
    ]


class Suggested:
    """Changes of an answer, applied to a pod and to pools as a program would."""

    def __init__(self, proof, own):
        self.proof, self.pod, self.is_pods = proof, copy.deepcopy(own), False

    def apply(self, changes):
        for change in changes:
            getattr(self, change["kind"])(**{name: value for name, value in change.items() if name != "kind"})
        if self.is_pods:
            name = self.pod["metadata"]["name"]
            self.proof.kube.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
            self.proof.until(f"{name} is gone", lambda: self.proof.get(f"{PODS}/{name}") is None)
            self.proof.kube.create(PODS, self.pod)

    def of_pod(self):
        self.is_pods = True
        return self.pod["spec"]

    def of_pool(self, name, spec):
        self.proof.kube.patch(f"{POOLS}/{name}", {"spec": spec})

    def requirements(self, name):
        return self.proof.get(f"{POOLS}/{name}")["spec"]["template"]["spec"]["requirements"]

    def tolerate(self, key, value, effect):
        toleration = {"key": key, "effect": effect} | ({"operator": "Equal", "value": value} if value else {"operator": "Exists"})
        self.of_pod().setdefault("tolerations", []).append(toleration)

    def dropNodeSelector(self, key):
        del self.of_pod()["nodeSelector"][key]

    def lowerRequest(self, resource, to):
        self.of_pod()["containers"][0]["resources"]["requests"][resource] = f"{to}m" if resource == "cpu" else str(to)

    def dropPodAffinity(self, topologyKey):
        terms = self.of_pod()["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        terms[:] = [one for one in terms if one["topologyKey"] != topologyKey]

    def raiseLimit(self, pool, resource, to):
        self.of_pool(pool, {"limits": {resource: f"{to}m" if resource == "cpu" else str(to)}})

    def allowInPool(self, pool, key, values):
        changed = [one | {"values": sorted({*one["values"], *values})} if one["key"] == key else one for one in self.requirements(pool)]
        self.of_pool(pool, {"template": {"spec": {"requirements": changed}}})

    def dropFromPool(self, pool, key):
        changed = [one for one in self.requirements(pool) if one["key"] != key]
        self.of_pool(pool, {"template": {"spec": {"requirements": changed}}})


def is_ready(proof, name):
    found = proof.get(f"{PODS}/{name}")
    return found and status_of(found, "Ready") == "True"


def in_the_way(proof, own, of_pool, rule):
    """The answer about a pod that gets no node, once it names that rule for its pool."""
    name, seen = own["metadata"]["name"], {}

    def named():
        seen["answer"] = proof.asked("explain", "pod", name, "--json")["pod"]
        rules = {one["pool"]: one["rule"] for one in seen["answer"]["pools"]}
        return seen["answer"]["verdict"]["kind"] == "unschedulable" and rules.get(of_pool) == rule

    try:
        proof.until(f"explain names {rule} for {name}", named)
    except Exception:
        print(json.dumps(seen, indent=1)[:4000], flush=True)
        raise
    return seen["answer"]


def suggestions(proof):
    """The seven pods."""
    proof.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*pools(), *volume()]}))
    all_cases = cases()
    for _, own, _, _ in all_cases:
        proof.kube.create(PODS, own)
    for what, own, of_pool, rule in all_cases:
        name, answer = own["metadata"]["name"], in_the_way(proof, own, of_pool, rule)
        detail = next(one["detail"] for one in answer["pools"] if one["pool"] == of_pool)
        proof.check(f"explain names {what}", not is_ready(proof, name), detail)
        if rule == "quota":
            proof.check("its remedy is the quota's limit", "spec.limits.resources of the CapacityQuota" in answer["remedy"], answer["remedy"])
            proof.kube.patch(f"{QUOTAS}/small", {"spec": {"limits": {"resources": {"cpu": 64}}}})
            sentence = answer["remedy"]
        else:
            first = answer["changes"][0]
            Suggested(proof, own).apply(first["changes"])
            sentence = first["sentence"]
        took = proof.until(f"{name} runs after: {sentence}", lambda: is_ready(proof, name))
        proof.check("after the change that it suggests the pod runs", True, f"{sentence}, {took:.0f} s")


def drain(proof):
    """A PodDisruptionBudget keeps a node that is to go; the remedy lets it."""
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}}
    proof.apply(json.dumps(budget))
    proof.kube.create(PODS, pod("kept"))
    proof.until("the pod that is kept runs", lambda: is_ready(proof, "kept"))
    node = proof.get(f"{PODS}/kept")["spec"]["nodeName"]
    proof.kube.call("DELETE", f"/api/v1/nodes/{node}")
    proof.until("the node is to go", lambda: proof.asked("explain", "node", node, "--json")["node"]["going"])
    found = proof.asked("explain", "node", node, "--json")["node"]["drain"]
    blocks = [one for one in found if one["why"] == "pod default/kept is kept by pdb default/keep"]
    proof.check("explain names the PodDisruptionBudget that blocks a drain", blocks and "lower the pdb" in blocks[0]["remedy"], json.dumps(found))
    proof.check("the node stays until then", node in proof.nodes())
    proof.kube.patch("/apis/policy/v1/namespaces/default/poddisruptionbudgets/keep", {"spec": {"minAvailable": 0}})
    took = proof.until("the node goes after the pdb is lowered", lambda: node not in proof.nodes())
    proof.check("after the remedy the node goes", True, f"{took:.0f} s")


def of_plan(plan):
    """The NodeClaims that a plan means, each as one line: what it requests, its requirements, and its types, the cheapest first."""
    def line(claim):
        open_ones = [one for one in claim["requirements"] if one["key"] not in (HOSTNAME, TYPE, CLASS)]
        types = {"key": TYPE, "operator": "In", "values": claim["instanceTypeOptions"]}
        least = [one["minValues"] for one in claim["requirements"] if one["key"] == TYPE and "minValues" in one]
        return as_line(claim["nodePool"], claim["requests"], [*open_ones, types | ({"minValues": least[0]} if least else {})])
    return sorted(line(claim) for claim in plan["nodeClaims"])


def of_cluster(claims):
    """The NodeClaims that are there, in the same way."""
    spec = lambda claim: claim["spec"]
    return sorted(as_line(one["metadata"]["labels"]["karpenter.sh/nodepool"], spec(one)["resources"]["requests"], spec(one)["requirements"]) for one in claims)


def as_line(of_pool, requests, requirements):
    ordered = sorted(json.dumps(one, sort_keys=True) for one in requirements)
    return f"{of_pool} {json.dumps(requests, sort_keys=True)} {' '.join(ordered)}"


def planned(proof):
    """While no replica runs, pods come and are planned; the next leader creates just that."""
    before = set(proof.claims())
    proof.cluster.kill("dovetail-0")
    shapes = [("250m", "512Mi", 60), ("1500m", "1Gi", 20), ("500m", "6Gi", 12)]
    for number, (cpu, memory, count) in enumerate(shapes):
        proof.kube.create(DEPLOYMENTS, deployment(number, cpu, memory, count))
    total = sum(count for _, _, count in shapes)

    def unschedulable():
        conditions = [one for it in proof.kube.list(PODS) for one in it["status"].get("conditions", [])]
        return sum(one.get("reason") == "Unschedulable" for one in conditions)

    bound = lambda: sum(bool(it["spec"].get("nodeName")) for it in proof.kube.list(PODS) if it["metadata"]["labels"].get("app", "").startswith("load-"))
    proof.until("kube-scheduler has looked at all of them", lambda: unschedulable() + bound() == total)
    plan = proof.asked("plan", "--live", "--json")
    expected = of_plan(plan)
    proof.row("NodeClaims planned", len(expected))
    proof.check("the plan has NodeClaims, and nobody has created one", expected and set(proof.claims()) == before, plan["live"]["offersFrom"])
    proof.replicas_start("dovetail-0")
    new = lambda: [one for name, one in proof.claims().items() if name not in before]
    proof.until("as many NodeClaims come", lambda: len(new()) >= len(expected))
    found = of_cluster(new())
    apart = [f"\n  planned {one}\n  created {other}" for one, other in zip(expected, found) if one != other]
    proof.check("requirements and options are the plan's, byte for byte", found == expected, "".join(apart) or f"{len(found)} NodeClaims, {sum(map(len, found))} bytes")
    proof.until("the pods run", lambda: sum(len(proof.ready_pods(f"load-{number}")) for number in range(len(shapes))) == total)


def explained(proof):
    """What keeps pods pending and a node up is named, and ends by what is suggested; a plan is what is created then."""
    proof.apply(pool_text())
    # A replica looks for a kind that is not served only now and then: it is there before.
    proof.apply(QUOTA_CRD.read_text())
    proof.until("quotas are served", lambda: proof.kube.list(QUOTAS) == [])
    quota = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityQuota", "metadata": {"name": "small"},
             "spec": {"selector": {"matchLabels": {"karpenter.sh/nodepool": "quota"}}, "limits": {"resources": {"cpu": 1}}}}
    proof.apply(json.dumps(quota))
    proof.pod_of("dovetail-0")
    proof.replicas_start("dovetail-0")
    proof.until("class and pool are Ready", lambda: status_of(proof.get(f"{POOLS}/default"), "Ready") == "True")
    suggestions(proof)
    drain(proof)
    planned(proof)


def main():
    end(play(explained, Proof("explained", chart=CHART)))


if __name__ == "__main__":
    main()
