#!/usr/bin/env python3
"""Nodes that go on the real control plane: half of 400 pods go and what is left settles, and 100 nodes are drained at once.

    scale_in.py [settle] [drain] [--nodes 100] [--quiet 45] [--settled 19.4]      both unless one is said

settle: 003's 400 pods of 250m and 256Mi, their nodes on demand (moto has no spot prices of today), a pool of the policy
WhenEmptyOrUnderutilized. Scaled to 200; from that order until the last change of nodes, claims or pods, after which
--quiet seconds nothing moves, is the span that took Karpenter 1.14 38.9 s on such a cluster. Half of it is asked for.
Nodes are minutes old here: CONSOLIDATION_LEAST_AGE=0s, as Karpenter has no such rule.

drain: so many nodes with a pod each, a Deployment and a StatefulSet with volumes, either under a PodDisruptionBudget. All
NodeClaims are deleted by name, at once: the API server works a call for the whole collection off one after another. Pods move by the real eviction API, whose refusals (429) the budgets make.
"""

import argparse
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from kube import Refused
from load import deployment
from proof import CLAIMS, DEPLOYMENTS, STATEFUL_SETS, Pods, Proof, end, play, pool_text

#: Half of the peer's 38.9 s.
SETTLED = 19.4
PEER = 38.9
#: A part of the drained pods has volumes.
WITH_VOLUMES = 0.2
ZONE = "eu-west-1a"
#: Calls at the same time when all NodeClaims are deleted.
AT_ONCE = 16


class Changes(threading.Thread):
    """When nodes, claims or pods last changed: which there are, where pods run, and whether they are Ready."""

    def __init__(self, proof, pods):
        super().__init__(daemon=True)
        self.proof, self.pods, self.ended = proof, pods, False
        self.seen, self.changed, self.history = None, time.monotonic(), []
        self.start()

    def run(self):
        while not self.ended:
            try:
                claims = frozenset(self.proof.claims())
                nodes = frozenset(self.proof.nodes())
                now = (claims, nodes, frozenset(self.pods.bound), frozenset(self.pods.ready))
            except OSError:
                continue
            if now != self.seen:
                self.seen, self.changed = now, time.monotonic()
                self.history.append((self.changed, len(claims), len(nodes), len(now[2]), len(now[3])))
            time.sleep(0.1)

    def quiet_for(self):
        return time.monotonic() - self.changed


def types(nodes):
    """How many nodes of each type."""
    counts = {}
    for node in nodes.values():
        name = node["metadata"]["labels"]["node.kubernetes.io/instance-type"]
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def settle(proof, given):
    """400 pods become 200, and the nodes settle."""
    proof.apply(pool_text(replaced=[("WhenEmpty", "WhenEmptyOrUnderutilized"), ("consolidateAfter: 5s", "consolidateAfter: 0s")]))
    proof.replicas_start("dovetail-0", "dovetail-1")
    # A leader that was elected a moment ago reads what EC2 offers; what is measured is one that has led for a while.
    time.sleep(15)
    pods = Pods(proof.kube)
    proof.kube.create(DEPLOYMENTS, deployment(0, "250m", "256Mi", 400))
    proof.until("400 pods are Ready", lambda: len(pods.ready) >= 400)
    changes = Changes(proof, pods)
    proof.until("the 400 have settled", lambda: changes.quiet_for() > given.quiet)
    before = proof.nodes()
    proof.row("nodes of 400 pods", f"{len(before)}: {types(before)}")
    begun = time.monotonic()
    proof.kube.patch(f"{DEPLOYMENTS}/load-0", {"spec": {"replicas": 200}})
    proof.until("200 pods are left and Ready", lambda: len(pods.exist) == 200 == len(pods.ready))
    gone = time.monotonic() - begun
    proof.until("consolidation takes nodes away", lambda: set(proof.nodes()) != set(before))
    proof.until("the 200 have settled", lambda: changes.quiet_for() > given.quiet)
    settled = changes.changed - begun
    changes.ended = pods.ended = True
    for when, claims, nodes, bound, ready in changes.history:
        if when >= begun:
            print(f"    {when - begun:5.1f} s: {claims} claims, {nodes} nodes, {bound} pods bound, {ready} Ready")
    after = proof.nodes()
    proof.row("nodes of 200 pods", f"{len(after)}: {types(after)}")
    proof.row("200 pods are gone after", f"{gone:.1f} s")
    proof.row("commands of consolidation", len(proof.events("disrupting")))
    proof.row(f"settled after (Karpenter {PEER} s)", f"{settled:.1f} s")
    proof.check("consolidation has taken nodes away", set(after) != set(before), f"{len(before)} to {len(after)}")
    proof.check("all 200 pods run", len(proof.ready_pods()) == 200)
    proof.check("NodeClaims, Nodes and instances are one to one", not proof.one_to_one(), proof.one_to_one())
    proof.check(f"settled within {given.settled} s of the order", settled <= given.settled, f"{settled:.1f} s")
    proof.kube.patch(f"{DEPLOYMENTS}/load-0", {"spec": {"replicas": 0}})
    proof.until("nothing is left in cluster and moto", proof.nothing_left)


def alone(template):
    """The pods of a template, and of all others like it, have a node each."""
    template["metadata"]["labels"]["crowd"] = "drained"
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"crowd": "drained"}}}
    template["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def stateful(count):
    """A StatefulSet whose pods have a volume each, all in one zone."""
    made = deployment("data", "500m", "256Mi", count)
    made["kind"], made["metadata"]["name"] = "StatefulSet", "data"
    spec = made["spec"]
    labels = {"app": "data"}
    spec |= {"serviceName": "data", "podManagementPolicy": "Parallel", "selector": {"matchLabels": labels}}
    spec["template"]["metadata"]["labels"] = dict(labels)
    pod = spec["template"]["spec"]
    pod["nodeSelector"] = {"topology.kubernetes.io/zone": ZONE}
    pod["containers"][0]["volumeMounts"] = [{"name": "disk", "mountPath": "/data"}]
    spec["volumeClaimTemplates"] = [{"metadata": {"name": "disk"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]
    alone(spec["template"])
    return made


STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "ebs.csi.aws.com",
    "metadata": {"name": "gp3", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
}


def budget(app, most):
    """A PodDisruptionBudget that lets so many pods of an app be missing."""
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app},
            "spec": {"maxUnavailable": most, "selector": {"matchLabels": {"app": app}}}}


class LeastReady(threading.Thread):
    """The least number of Ready pods of each app that was seen."""

    def __init__(self, proof, apps):
        super().__init__(daemon=True)
        self.proof, self.least, self.ended = proof, dict.fromkeys(apps, 10**9), False
        self.start()

    def run(self):
        while not self.ended:
            for app in self.least:
                try:
                    self.least[app] = min(self.least[app], len(self.proof.ready_pods(app)))
                except OSError:
                    pass
            time.sleep(0.1)


def volumes(proof):
    """The volume of each claim."""
    found = proof.kube.list("/api/v1/namespaces/default/persistentvolumeclaims")
    return {one["metadata"]["name"]: one["spec"].get("volumeName") for one in found}


def uids(objects):
    """The uids of objects: moto gives the names of nodes that are gone to others."""
    return {one["metadata"]["uid"] for one in objects.values()}


def attached(proof):
    """Where each volume is attached."""
    found = proof.kube.list("/apis/storage.k8s.io/v1/volumeattachments")
    live = [one for one in found if one.get("status", {}).get("attached")]
    return {one["spec"]["source"]["persistentVolumeName"]: one["spec"]["nodeName"] for one in live}


def delete(proof, claims):
    """NodeClaims are deleted by name, all at once; one that is gone by then is."""
    def one(name):
        try:
            proof.kube.call("DELETE", f"{CLAIMS}/{name}")
        except Refused as refused:
            if refused.status != 404:
                raise

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, claims))


def drain(proof, given):
    """Every NodeClaim of a cluster is deleted at once."""
    count = given.nodes
    with_volumes = max(1, int(count * WITH_VOLUMES))
    plain = count - with_volumes
    bounds = {"load-0": max(1, plain // 10), "data": max(1, with_volumes // 10)}
    proof.apply(pool_text())
    proof.kube.create("/apis/storage.k8s.io/v1/storageclasses", STORAGE_CLASS)
    proof.replicas_start("dovetail-0", "dovetail-1")
    made = deployment(0, "500m", "256Mi", plain)
    alone(made["spec"]["template"])
    proof.kube.create(DEPLOYMENTS, made)
    proof.kube.create(STATEFUL_SETS, stateful(with_volumes))
    for app, most in bounds.items():
        proof.kube.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget(app, most))
    took = proof.until(f"{count} pods are Ready, on a node each", lambda: len(proof.ready_pods()) == count, patience=400)
    proof.row(f"{count} pods Ready on {len(proof.nodes())} nodes after", f"{took:.1f} s")
    proof.until("all is one to one", lambda: not proof.one_to_one())
    there = proof.claims()
    old_nodes, old_claims, old_volumes = uids(proof.nodes()), uids(there), volumes(proof)
    old_instances = set(proof.running())
    least, begun = LeastReady(proof, bounds), time.monotonic()
    delete(proof, there)
    proof.row(f"{len(there)} NodeClaims deleted within", f"{time.monotonic() - begun:.1f} s")
    moved = proof.until("no drained node is left", lambda: not uids(proof.nodes()) & old_nodes, patience=400)
    gone = proof.until("no drained NodeClaim or instance is left",
                       lambda: not uids(proof.claims()) & old_claims and not set(proof.running()) & old_instances)
    back = proof.until("every pod is Ready", lambda: len(proof.ready_pods()) == count)
    proof.until("every volume is attached", lambda: len(attached(proof)) >= with_volumes)
    least.ended = True
    evictions = [status for verb, what, status in proof.audited() if (verb, what) == ("create", "pods/eviction")]
    let, held = evictions.count(201), evictions.count(429)
    proof.row(f"{len(old_nodes)} nodes drained and gone after", f"{moved:.1f} s")
    proof.row("their claims and instances gone, every pod Ready after", f"{time.monotonic() - begun:.1f} s ({moved + gone + back:.1f} s)")
    proof.row("evictions, refused ones (429), others", f"{let}, {held}, {len(evictions) - let - held}")
    proof.row("least Ready pods seen: " + ", ".join(f"{app} of {plain if app == 'load-0' else with_volumes}" for app in bounds),
              ", ".join(str(one) for one in least.least.values()))
    for app, most in bounds.items():
        every = plain if app == "load-0" else with_volumes
        proof.check(f"the budget of {app} held: at most {most} missing", least.least[app] >= every - most, least.least[app])
    proof.check("every pod was evicted", let >= count, let)
    proof.check("evictions were answered with 201 or 429 alone", let + held == len(evictions), sorted(set(evictions)))
    proof.check("refused evictions are few: ten a pod at most", held <= 10 * count, held)
    proof.check("pods kept their volumes", volumes(proof) == old_volumes)
    where, nodes = attached(proof), proof.nodes()
    proof.check("volumes are attached to new nodes of their zone", all(
        nodes.get(node, {}).get("metadata", {}).get("labels", {}).get("topology.kubernetes.io/zone") == ZONE
        and nodes[node]["metadata"]["uid"] not in old_nodes for volume, node in where.items() if volume in old_volumes.values()))
    proof.check("NodeClaims, Nodes and instances are one to one", not proof.one_to_one(), proof.one_to_one())
    for path in (f"{DEPLOYMENTS}/load-0", f"{STATEFUL_SETS}/data"):
        proof.kube.patch(path, {"spec": {"replicas": 0}})
    took = proof.until("nothing is left in cluster and moto", proof.nothing_left)
    proof.row("scaled to nothing, nothing left after", f"{took:.1f} s")
    proof.check("no volume is attached", not attached(proof) or proof.until("detached", lambda: not attached(proof)) >= 0)


COURSES = {
    "settle": (settle, ["CONSOLIDATION_LEAST_AGE=0s"]),
    "drain": (drain, []),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("courses", nargs="*", choices=[*COURSES, []], help="both unless one is said")
    parser.add_argument("--nodes", type=int, default=100, help="nodes of the drain")
    parser.add_argument("--quiet", type=float, default=45, help="seconds without a change that count as settled")
    parser.add_argument("--settled", type=float, default=SETTLED, help="seconds within which the 200 have to settle")
    given, found = parser.parse_args(), []
    for name in given.courses or COURSES:
        course, settings = COURSES[name]
        found += play(course, Proof(f"scale-in-{name}", settings), given)
    end(found)


if __name__ == "__main__":
    main()
