#!/usr/bin/env python3
"""Verdicts on drawn pods held against the real kube-scheduler's, on the same nodes; and nothing that only reads writes.

    verdicts.py [--pods 1000] [--seed 1] [--nodes 40]

Nodes of many labels and taints hold pods of many rules. Pods are drawn one after another: kube-scheduler binds each, or finds it
unschedulable, and `dovetail plan -f` says of the same nodes if it has room there. Of some that are refused, `dovetail explain` has
to say that they wait. In all this there is no NodePool, so that existing nodes alone count. Then a pool has nodes, and each command
that only reads is run by an account with the ClusterRole of docs/guide/explain.md: the audit log has none of its writes.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import time

from cluster import BINARY, ROOT
from parts import NAMESPACE, READERS_ACCOUNT, REGION
from proof import DEPLOYMENTS, Proof, end, play, pool_text
from load import deployment

PODS = "/api/v1/namespaces/default/pods"
ZONES = ("zone-a", "zone-b", "zone-c")
TIERS = ("web", "cache", "batch")
#: A pod that is neither bound nor refused by then is a fault of the proof.
VERDICT_TIMEOUT = 30
#: What may have a part in a verdict, as `kubectl get … -o json` lists it.
KINDS = "nodes,namespaces,pods,persistentvolumes,persistentvolumeclaims,storageclasses,csinodes"
#: A review of one's own rights is a create that stores nothing.
REVIEWS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews")


def draw_node(draw, number):
    """A Node that kwok keeps Ready."""
    name, zone = f"drawn-{number}", draw.choice(ZONES)
    labels = {
        "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "kubernetes.io/os": "linux",
        "kubernetes.io/arch": draw.choice(("amd64", "amd64", "arm64")), "example.com/rack": f"r{draw.randrange(6)}",
        "example.com/size": str(draw.choice((1, 2, 8, 16))),
    }
    if draw.random() < 0.3:
        labels["example.com/disk"] = draw.choice(("ssd", "hdd"))
    if draw.random() < 0.1:
        # A spread by zones leaves out what has none.
        del labels["topology.kubernetes.io/zone"]
    taints = [{"key": "example.com/for", "value": draw.choice(TIERS), "effect": draw.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))}
              for _ in range(draw.choice((0, 0, 0, 1)))]
    size = {"cpu": str(draw.choice((2, 4, 8))), "memory": draw.choice(("4Gi", "8Gi")), "pods": str(draw.choice((6, 20))), "ephemeral-storage": "20Gi"}
    if draw.random() < 0.2:
        size["example.com/fpga"] = "2"
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": taints, "unschedulable": draw.random() < 0.05},
        "status": {"allocatable": size, "capacity": size},
    }


def draw_term(draw):
    """A term of a selector of nodes."""
    key = draw.choice(("topology.kubernetes.io/zone", "example.com/rack", "example.com/size", "example.com/disk", "kubernetes.io/arch"))
    operator = draw.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    values = {
        "topology.kubernetes.io/zone": ZONES, "example.com/rack": [f"r{n}" for n in range(6)], "example.com/size": ("1", "2", "8", "16"),
        "example.com/disk": ("ssd", "hdd"), "kubernetes.io/arch": ("amd64", "arm64"),
    }[key]
    if operator in ("Gt", "Lt"):
        return {"key": "example.com/size", "operator": operator, "values": [str(draw.choice((1, 4, 8)))]}
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": draw.sample(list(values), draw.randint(1, min(3, len(values))))}


def draw_selector(draw):
    """A selector of pods by their tier."""
    if draw.random() < 0.5:
        return {"matchLabels": {"tier": draw.choice(TIERS)}}
    return {"matchExpressions": [{"key": "tier", "operator": draw.choice(("In", "NotIn")), "values": [draw.choice(TIERS)]}]}


def draw_pod_term(draw):
    """A term of an affinity to pods."""
    term = {"topologyKey": draw.choice(("kubernetes.io/hostname", "topology.kubernetes.io/zone", "example.com/rack")), "labelSelector": draw_selector(draw)}
    more = draw.choice(({}, {}, {"namespaces": ["other"]}, {"namespaceSelector": {"matchLabels": {"team": "blue"}}}, {"matchLabelKeys": ["release"]},
                        {"mismatchLabelKeys": ["release"]}))
    return term | more


def draw_spread(draw):
    """A hard topology spread constraint."""
    spread = {
        "maxSkew": draw.choice((1, 2, 3)), "topologyKey": draw.choice(("kubernetes.io/hostname", "topology.kubernetes.io/zone", "example.com/rack")),
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": draw_selector(draw),
    }
    if draw.random() < 0.2:
        spread["minDomains"] = draw.choice((2, 4))
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if draw.random() < 0.3:
            spread[policy] = draw.choice(("Honor", "Ignore"))
    if draw.random() < 0.2:
        spread["matchLabelKeys"] = ["release"]
    return spread


def draw_container(draw, name):
    """A container with requests, and seldom a port of the host."""
    asked = {"cpu": f"{draw.choice((50, 250, 1000, 2500))}m", "memory": draw.choice(("64Mi", "512Mi", "3Gi"))}
    if draw.random() < 0.1:
        asked["ephemeral-storage"] = draw.choice(("1Gi", "15Gi"))
    container = {"name": name, "image": "pause", "resources": {"requests": asked}}
    if draw.random() < 0.05:
        container["resources"] = {"requests": asked | {"example.com/fpga": "1"}, "limits": {"example.com/fpga": "1"}}
    if draw.random() < 0.15:
        port = {"containerPort": 80, "hostPort": draw.choice((8080, 8081)), "protocol": draw.choice(("TCP", "UDP"))}
        container["ports"] = [port | ({"hostIP": "127.0.0.1"} if draw.random() < 0.3 else {})]
    return container


def draw_pod(draw, name, bound_to=None):
    """A pod with some of the rules that keep pods off nodes; one that is bound has few."""
    few = 0.5 if bound_to else 1.0
    affinity, spec = {}, {"containers": [draw_container(draw, f"c{n}") for n in range(draw.choice((1, 1, 2)))], "terminationGracePeriodSeconds": 0}
    for one in spec["containers"][1:]:
        # The API server refuses a port that two containers ask for.
        one.pop("ports", None)
    if draw.random() < 0.2:
        spec["initContainers"] = [draw_container(draw, "first") | ({"restartPolicy": "Always"} if draw.random() < 0.5 else {})]
        spec["initContainers"][0].pop("ports", None)
    if draw.random() < 0.25 and not bound_to:
        spec["nodeSelector"] = {"topology.kubernetes.io/zone": draw.choice(ZONES)}
    if draw.random() < 0.35 and not bound_to:
        terms = [{"matchExpressions": [draw_term(draw) for _ in range(draw.randint(1, 2))]} for _ in range(draw.randint(1, 2))]
        if draw.random() < 0.1:
            terms[0]["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": [f"drawn-{draw.randrange(40)}"]}]
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    for kind, chance in (("podAffinity", 0.12), ("podAntiAffinity", 0.25)):
        if draw.random() < chance * few:
            affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": [draw_pod_term(draw) for _ in range(draw.choice((1, 1, 2)))]}
    if affinity:
        spec["affinity"] = affinity
    if draw.random() < 0.3 and not bound_to:
        spec["topologySpreadConstraints"] = list({one["topologyKey"]: one for one in (draw_spread(draw) for _ in range(draw.choice((1, 1, 2))))}.values())
    if draw.random() < 0.35:
        exists = {"operator": "Exists"} | ({} if draw.random() < 0.4 else {"key": "example.com/for", "effect": draw.choice(("NoSchedule", "NoExecute"))})
        spec["tolerations"] = [draw.choice((exists, {"key": "example.com/for", "operator": "Equal", "value": draw.choice(TIERS)}))]
    if bound_to:
        spec["nodeName"] = bound_to
    labels = {"tier": draw.choice(TIERS), "release": draw.choice(("one", "two"))}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def lay_out(proof, draw, count):
    """Namespaces, nodes, and pods that are bound to them, as far as these have room."""
    for name, labels in (("other", {"team": "red"}), ("third", {"team": "blue"})):
        proof.kube.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    for number in range(count):
        proof.kube.create("/api/v1/nodes", draw_node(draw, number))
    ready = lambda: sum(any(it["type"] == "Ready" and it["status"] == "True" for it in one["status"].get("conditions", [])) for one in proof.nodes().values())
    proof.until("the nodes are Ready", lambda: ready() == count)
    for name in ("default", "other", "third"):
        proof.until(f"namespace {name} has its account", lambda: proof.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    for number in range(count * 2):
        pod = draw_pod(draw, f"held-{number}", f"drawn-{draw.randrange(count)}")
        # Together they have to fit: kubelet would refuse what does not, and kwok does not look.
        for one in pod["spec"]["containers"] + pod["spec"].get("initContainers", []):
            one["resources"] = {"requests": {"cpu": draw.choice(("100m", "300m")), "memory": "128Mi"}}
            one.pop("ports", None)
        # A bound pod that does not tolerate NoExecute would be evicted.
        pod["spec"]["tolerations"] = [{"operator": "Exists"}]
        proof.kube.create(f"/api/v1/namespaces/{draw.choice(('default', 'default', 'other', 'third'))}/pods", pod)


def decide(proof, name):
    """kube-scheduler's verdict: the node's name, or None and its message; and the pod as it is then."""
    until = time.monotonic() + VERDICT_TIMEOUT
    while time.monotonic() < until:
        pod = proof.kube.call("GET", f"{PODS}/{name}")
        if pod["spec"].get("nodeName"):
            return pod["spec"]["nodeName"], "", pod
        found = [one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled" and one["status"] == "False"]
        if found and found[0].get("reason") == "Unschedulable":
            return None, found[0].get("message", ""), pod
        time.sleep(0.01)
    return None, "no verdict", None


def plan(objects, pod):
    """What `dovetail plan -f` says of this pod on these objects: the node that has room, or None and the reason."""
    pod = json.loads(json.dumps(pod))
    pod["spec"].pop("nodeName", None)
    pod["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects, pod]})
    said = subprocess.run([BINARY, "plan", "-f", "-", "-o", "json"], input=text, capture_output=True, text=True)
    if said.returncode not in (0, 1) or not said.stdout.startswith("{"):
        return None, f"plan ended with {said.returncode}: {said.stderr[-300:]}"
    answer = json.loads(said.stdout)
    name = pod["metadata"]["name"]
    fits = [one["name"] for one in answer.get("existingNodes", []) if any(it.rsplit("/", 1)[-1] == name for it in one["podNames"])]
    return (fits[0], "") if fits else (None, "; ".join(answer.get("unscheduled", {}).values()))


def compare(proof, draw, given):
    """Draws pods one after another, and holds both verdicts against each other."""
    listed = json.loads(proof.cluster.kubectl("get", KINDS, "-A", "-o", "json"))["items"]
    bound, refused, apart, explained, silent = 0, 0, [], 0, []
    for number in range(given.pods):
        name = f"pod-{number}"
        proof.kube.create(PODS, draw_pod(draw, name))
        node, message, pod = decide(proof, name)
        ours, why = plan(listed, pod) if pod else (None, "")
        if pod is None or bool(node) != bool(ours):
            apart.append(f"{name}: kube-scheduler {node or message}; plan {ours or why}")
            print(f"    apart: {apart[-1]}\n      {json.dumps(pod and pod['spec'])}", flush=True)
        bound, refused = bound + bool(node), refused + (node is None)
        if node is None and explained < 30:
            explained += 1
            said = subprocess.run([BINARY, "explain", "pod", name, "--kubeconfig", proof.cluster.admin, "--offers", "shipped"], capture_output=True, text=True,
                                  env=os.environ | {"AWS_REGION": REGION})
            if said.returncode or "gets no node" not in said.stdout:
                silent.append(f"{name}: {said.returncode} {said.stdout[:200]} {said.stderr[-200:]}")
        proof.kube.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
        proof.until(f"{name} is gone", lambda: proof.get(f"{PODS}/{name}") is None)
    proof.row("pods bound / refused by kube-scheduler", f"{bound} / {refused}")
    proof.check("both sides of the verdict are drawn", min(bound, refused) * 5 >= given.pods)
    proof.check(f"the verdict on {given.pods} drawn pods is kube-scheduler's", not apart, "; ".join(apart[:5]))
    proof.check(f"of {explained} that are refused, explain says that they get no node", explained and not silent, "; ".join(silent[:3]))


def read_role():
    """The ClusterRole that docs/guide/explain.md gives to those who ask."""
    page = (ROOT / "docs/guide/explain.md").read_text()
    lines = re.search(r"^    apiVersion: rbac\.authorization\.k8s\.io/v1\n(?:(?:    .*)?\n)+", page, re.MULTILINE).group().splitlines()
    return "\n".join(line[4:] for line in lines)


def kubeconfig_of_reader(proof):
    """An account with that role, and its kubeconfig."""
    name = READERS_ACCOUNT.rsplit(":", 1)[-1]
    proof.apply(read_role())
    proof.cluster.kubectl("create", "serviceaccount", name, "-n", NAMESPACE)
    proof.cluster.kubectl("create", "clusterrolebinding", name, "--clusterrole=dovetail-explain", f"--serviceaccount={NAMESPACE}:{name}")
    token = proof.cluster.kubectl("create", "token", name, "--namespace", NAMESPACE, "--duration=1h").strip()
    return str(proof.cluster.parts.kubeconfig("reader", {"token": token}))


def requests_of_reader(proof):
    """What the reader has asked of the API server: (verb, resource)."""
    with open(proof.cluster.state / "log/audit-api.jsonl", encoding="utf-8") as lines:
        for line in lines:
            if READERS_ACCOUNT in line:
                one = json.loads(line)
                yield one["verb"], one.get("objectRef", {}).get("resource", "")


def read_everything(proof):
    """Each command that only reads, on a cluster with a pool, nodes and a pod that nothing can run; the audit log after it."""
    proof.apply(pool_text())
    proof.replicas_start("dovetail-0")
    proof.kube.create(DEPLOYMENTS, deployment(0, "900m", "1Gi", 6))
    proof.until("the pods are Ready", lambda: len(proof.ready_pods("load-0")) == 6)
    hopeless = draw_pod(random.Random(1), "hopeless")
    hopeless["spec"] = {"containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "4000"}}}]}
    proof.kube.create(PODS, hopeless)
    claim = next(iter(proof.claims().values()))
    node, record = claim["status"]["nodeName"], str(proof.cluster.state / "day.jsonl")
    asks = [
        ["explain", "pod", "hopeless", "-n", "default"], ["explain", "node", node], ["explain", "nodeclaim", claim["metadata"]["name"]],
        ["explain", "nodepool", "default"], ["plan", "--live", "--scale", "deployment/load-0=40", "--without-spot"], ["plan", "--live"],
        ["top", "--once", "-o", "json"], ["record", "--for", "8s", "--every", "2s", record], ["doctor"],
    ]
    config = kubeconfig_of_reader(proof)
    for ask in asks:
        said = subprocess.run([BINARY, *ask], capture_output=True, text=True, env={"KUBECONFIG": config, "PATH": "/usr/bin:/bin", "HOME": str(proof.cluster.state)})
        good = (0, 1, 2) if ask[0] == "doctor" else (0, 1) if ask[0] == "plan" else (0,)
        answered = pathlib.Path(record).stat().st_size if ask[0] == "record" else len(said.stdout.strip())
        proof.check(f"dovetail {' '.join(ask[:2])} answers", said.returncode in good and answered > 0, f"exit status {said.returncode}")
    asked = list(requests_of_reader(proof))
    writes = sorted({f"{verb} {what}" for verb, what in asked if verb not in ("get", "list", "watch") and what not in REVIEWS})
    proof.row("requests of the commands that only read", len(asked))
    proof.check("the audit log has what they asked, and not one write", asked and not writes, "; ".join(writes))
    proof.cluster.kubectl("delete", "deployment/load-0", "pod/hopeless", "--timeout=60s")


def verdicts(proof, given):
    """Drawn pods by kube-scheduler and by plan, and commands that only read."""
    draw = random.Random(given.seed)
    lay_out(proof, draw, given.nodes)
    compare(proof, draw, given)
    proof.cluster.kubectl("delete", "node", "--all", "--timeout=60s")
    read_everything(proof)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=40)
    end(play(verdicts, Proof("verdicts"), parser.parse_args()))


if __name__ == "__main__":
    main()
