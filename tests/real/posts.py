#!/usr/bin/env python3
"""The posts' own files, applied by kubectl to the real API server with the chart's CRDs, roles and webhook.

    posts.py [FILE…]      all unless said, by the beginning of their names: 000 001 002 003 printed

Each pool file is applied, has to become Ready, and its pods have to get nodes as the post describes. Applied a second time,
by the client and by the server, it changes nothing: generation and resourceVersion stay. What the posts misprint is refused,
with the fields named; but for 001's StatefulSet, where kubectl itself takes the last of two keys (`plan` refuses it). moto's region is eu-west-1, so zones of other regions are read as its own; `alpha`, the cluster of post
001, is `demo`. Nodes are seconds old when post 002 scales down, so CONSOLIDATION_LEAST_AGE=0s.
"""

import argparse
import json
import re
import time
import urllib.parse
import urllib.request

import conversion
from parts import REGION
from proof import CLASSES, POOLS, Proof, end, images, play, status_of
from cluster import ROOT

FILES = ROOT / "tests/fixtures/posts"
GATES = "FEATURE_GATES=SpotToSpotConsolidation=true"
KINDS = {
    "Provisioner": "provisioners.v1alpha5.karpenter.sh", "AWSNodeTemplate": "awsnodetemplates.v1alpha1.karpenter.k8s.aws",
    "NodePool": "nodepools.v1beta1.karpenter.sh", "EC2NodeClass": "ec2nodeclasses.v1beta1.karpenter.k8s.aws",
}


def text_of(proof, name):
    """A file of the posts, with its variables filled in and this region's zones."""
    amd, arm = images(proof.aws)[0], images(proof.aws, "arm64")[0]
    text = (FILES / f"{name}.yaml").read_text()
    for old, new in (("${CLUSTER_NAME}", "demo"), ("${AMD_AMI_ID}", amd), ("${ARM_AMI_ID}", arm), ("discovery: alpha", "discovery: demo")):
        text = text.replace(old, new)
    return re.sub(r"us-(east-1|west-2)([ab])", rf"{REGION}\2", text)


def objects_of(text):
    """Kind and name of each of Karpenter's objects in a file."""
    found = []
    for one in text.split("\n---\n"):
        kind, name = re.search(r"^kind: (\w+)", one, re.M), re.search(r"^metadata:\s*\{?\s*name: ([\w-]+)|^  name: ([\w-]+)", one, re.M)
        if kind and kind[1] in KINDS:
            found.append((kind[1], name[1] or name[2]))
    return found


def read(proof, kind, name):
    return json.loads(proof.cluster.kubectl("get", KINDS[kind], name, "-o", "json", "--show-managed-fields"))


def at_rest(proof, objects):
    """The objects, when nobody has written them for two seconds."""
    before, since = [read(proof, *one) for one in objects], time.monotonic()
    while time.monotonic() - since < 2:
        time.sleep(0.3)
        now = [read(proof, *one) for one in objects]
        if now != before:
            before, since = now, time.monotonic()
    return before


def differences(before, now, path=""):
    """Where two objects differ, and how."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            yield from differences(before.get(key), now.get(key), f"{path}.{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for at, (one, other) in enumerate(zip(before, now)):
            yield from differences(one, other, f"{path}[{at}]")
    elif before != now:
        yield f"{path}: {json.dumps(before)[:300]} became {json.dumps(now)[:300]}"


def applied(proof, name):
    """Applies a file: accepted, Ready, and nothing changes when it is applied again."""
    text = text_of(proof, name)
    objects = objects_of(text)
    said = proof.refused(text)
    if not proof.check(f"{name} is accepted", not said, said):
        return objects
    ready = lambda: all(status_of(read(proof, *one), "Ready") == "True" for one in objects)
    took = proof.until(f"{name} is Ready", ready)
    proof.row(f"{name}: Ready after", f"{took:.1f} s")
    # Of server-side apply the first takes the fields over.
    for how in ((), ("--server-side", "--force-conflicts")):
        if how:
            proof.apply(text, *how)
        before = at_rest(proof, objects)
        proof.apply(text, *how)
        changed = list(differences(before, [read(proof, *one) for one in objects]))
        proof.check(f"{name} applied again {how[0] if how else 'by the client'} changes nothing", not changed, "; ".join(changed))
    return objects


def workload(proof, name, ready, changed=()):
    """Applies pods; waits until so many are Ready; their nodes."""
    text = text_of(proof, name)
    for old, new in changed:
        assert old in text, (name, old)
        text = text.replace(old, new)
    proof.apply(text)
    took = proof.until(f"{ready} pods of {name} are Ready", lambda: len(proof.ready_pods()) == ready, patience=300)
    nodes = used(proof)
    proof.row(f"{name}: {ready} pods Ready after", f"{took:.1f} s on {', '.join(sorted(type_of(one) for one in nodes))}")
    return nodes


def used(proof):
    """The nodes that have pods."""
    names = {pod["spec"].get("nodeName") for pod in proof.kube.list("/api/v1/namespaces/default/pods")}
    return [one for name, one in proof.nodes().items() if name in names]


def label(node, name):
    return node["metadata"]["labels"].get(name, "")


def type_of(node):
    return label(node, "node.kubernetes.io/instance-type")


def gone(proof, name, objects):
    """The pods go, then the pools; nothing is left."""
    proof.cluster.kubectl("delete", "deployments,statefulsets,pods", "--all", "--wait=false")
    for kind, one in objects:
        if kind in ("Provisioner", "NodePool"):
            proof.cluster.kubectl("delete", KINDS[kind], one, "--wait=false")
    proof.until(f"nothing is left of {name}", lambda: proof.nothing_left() and not proof.kube.list(POOLS))
    for kind, one in objects:
        if kind in ("EC2NodeClass", "AWSNodeTemplate"):
            proof.cluster.kubectl("delete", KINDS[kind], one, "--timeout=60s")
    # A class that is still going would take the next file's class of its name with it.
    proof.until(f"no class is left of {name}", lambda: not proof.kube.list(CLASSES))


def post_000(proof):
    """m5.large and m5.2xlarge, and the TTL of thirty seconds."""
    objects = applied(proof, "000-provisioner")
    nodes = workload(proof, "000-provisioner", 10)
    proof.check("000: nodes are m5.large or m5.2xlarge, of this Provisioner", all(
        type_of(one) in ("m5.large", "m5.2xlarge") and label(one, "karpenter.sh/provisioner-name") == "default" for one in nodes))
    count = len(proof.events("ttl_reached"))
    proof.cluster.kubectl("delete", "deployment", "inflate")
    took = proof.until("the empty nodes go", lambda: not proof.nodes())
    proof.row("000: the nodes of the deleted Deployment are gone after (30 s are asked for)", f"{took:.1f} s")
    proof.check("000: not before thirty seconds have passed", took >= 30 and len(proof.events("ttl_reached")) > count, f"{took:.1f} s")
    gone(proof, "000-provisioner", objects)


def post_001(proof):
    """Pods that gather in a zone, pods that would rather not, and a StatefulSet with volumes in one zone."""
    objects = applied(proof, "001-provisioner")
    zone = lambda one: label(one, "topology.kubernetes.io/zone")
    nodes = workload(proof, "001-pod-affinity", 8)
    proof.check("001: pods with affinity are all in one zone", len({zone(one) for one in nodes}) == 1)
    proof.cluster.kubectl("delete", "deployment", "inflate")
    workload(proof, "001-pod-anti-affinity", 8)
    proof.cluster.kubectl("delete", "deployment", "inflate")
    proof.until("the pods are gone", lambda: not proof.ready_pods())
    nodes = workload(proof, "001-volume-topology", 20)
    claims = proof.kube.list("/api/v1/namespaces/default/persistentvolumeclaims")
    bound = sum(one["status"]["phase"] == "Bound" for one in claims)
    proof.check("001: twenty volumes are bound, every node of theirs is in eu-west-1a",
                bound == 20 and {zone(one) for one in nodes} == {"eu-west-1a"}, f"{bound}, {sorted({zone(one) for one in nodes})}")
    proof.cluster.kubectl("delete", "statefulset", "express-nodejs")
    proof.cluster.kubectl("delete", "pvc", "--all", "--wait=false")
    gone(proof, "001-provisioner", objects)


def post_002(proof):
    """v1beta1: a NodePool and its class; spot to spot, five pods up and one left."""
    objects = applied(proof, "002-nodepool")
    nodes = workload(proof, "003-inflate-10", 10, changed=(('cpu: "10"', "cpu: 500m"), ("10Gi", "1Gi")))
    proof.check("002: nodes are spot, of c, m or r", all(
        label(one, "karpenter.sh/capacity-type") == "spot" and type_of(one)[0] in "cmr" for one in nodes))
    gone(proof, "002-nodepool", objects)
    objects = applied(proof, "002-spot-to-spot")
    before = workload(proof, "002-inflate", 5)
    proof.check("002: five pods are on one node", len(before) == 1, [type_of(one) for one in before])
    proof.cluster.kubectl("scale", "deployment/inflate", "--replicas=1")
    replaced = lambda: len(proof.nodes()) == 1 and not set(proof.nodes()) & {one["metadata"]["name"] for one in before}
    took = proof.until("the node is replaced", replaced)
    after = used(proof)
    proof.row(f"002: 5 pods to 1, {type_of(before[0])} is replaced by {', '.join(type_of(one) for one in after)} after", f"{took:.1f} s")
    claim = next(iter(proof.claims().values()))
    options = next(one["values"] for one in claim["spec"]["requirements"] if one["key"] == "node.kubernetes.io/instance-type")
    proof.check("002: by a large one, from at least fifteen types", type_of(after[0]).endswith(".large") and len(options) >= 15, f"{type_of(after[0])} of {len(options)}")
    proof.until("the pod is Ready", lambda: len(proof.ready_pods()) == 1)
    gone(proof, "002-spot-to-spot", objects)


def post_003(proof):
    """100 vCPU as 400, 100 and 10 pods on spot; a pool with a taint; two pools that exclude each other."""
    objects = applied(proof, "003-provisioner-spot")
    for name, count in (("003-inflate-400", 400), ("003-inflate-10", 10)):
        nodes = workload(proof, name, count)
        proof.check(f"003: {name} is on spot nodes alone", {label(one, "karpenter.sh/capacity-type") for one in nodes} == {"spot"})
        proof.cluster.kubectl("delete", "deployment", "inflate")
        proof.until("the pods are gone", lambda: not proof.ready_pods())
    gone(proof, "003-provisioner-spot", objects)
    objects = applied(proof, "003-provisioner-consolidating")
    workload(proof, "003-inflate-100", 100)
    proof.cluster.kubectl("delete", "deployment", "inflate")
    workload(proof, "003-inflate-400-spread", 400)
    gone(proof, "003-provisioner-consolidating", objects)
    objects = applied(proof, "003-provisioner-constrained")
    nodes = workload(proof, "003-inflate-tolerating", 6)
    tainted = [taint["key"] for one in nodes for taint in one["spec"].get("taints", [])]
    proof.check("003: constrained nodes have taint and label, and one of the two types", all(
        label(one, "billing-team") == "my-team" and type_of(one) in ("m5.large", "m5.2xlarge") for one in nodes)
        and tainted.count("example.com/special-taint") == len(nodes), tainted)
    gone(proof, "003-provisioner-constrained", objects)
    objects = applied(proof, "003-two-pools")
    proof.until("two of the three pods are Ready", lambda: proof.ready_pods() == {"batch", "web"})
    pools = {one["metadata"]["name"]: label(proof.nodes()[one["spec"]["nodeName"]], "karpenter.sh/provisioner-name")
             for one in proof.kube.list("/api/v1/namespaces/default/pods") if one["spec"].get("nodeName")}
    proof.check("003: each pod is on a node of its pool, the third waits", pools == {"batch": "spot-only", "web": "on-demand-only"}, pools)
    gone(proof, "003-two-pools", objects)


def printed(proof):
    """What the posts misprint is refused, and the fields are named."""
    text = text_of(proof, "000-provisioner-as-printed")
    said = proof.refused(text)
    proof.check("000 as printed is refused for its name", "name" in said, said[-200:])
    said = proof.refused(text.replace("metadata:\nname: default", "metadata:\n  name: default"))
    named = ("spec.requirements[2].operator", "spec.requirements[3].key")
    proof.check("000 as printed, with a name, is refused by its two fields", all(one in said for one in named), said[-400:])
    said = proof.refused(text_of(proof, "004-provisioner-as-printed"))
    proof.check("004 as printed is refused by its field", "spec.requirements[3].key" in said, said[-300:])
    said = proof.refused(text_of(proof, "002-spot-to-spot-as-printed"))
    proof.check("002 as printed is refused by its role", "spec.role" in said, said[-300:])
    proof.cluster.kubectl("delete", "nodepools,ec2nodeclasses,provisioners", "--all", "--timeout=60s")


COURSES = {"printed": printed, "000": post_000, "001": post_001, "002": post_002, "003": post_003}


def profile(aws):
    """The instance profile of post 000, which its reader has."""
    own = {"Version": "2010-05-08", "InstanceProfileName": "KarpenterNodeInstanceProfile-eks-karpenter-demo"}
    scope = "Credential=proof/20200101/us-east-1/iam/aws4_request"
    headers = {"authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0"}
    for query in ({"Action": "CreateInstanceProfile"}, {"Action": "AddRoleToInstanceProfile", "RoleName": "KarpenterNodeRole-demo"}):
        text = urllib.parse.urlencode(own | query).encode()
        urllib.request.urlopen(urllib.request.Request(aws, text, headers), timeout=30).close()


def posts(proof, courses):
    """The posts' files by kubectl: accepted, Ready, nodes as described, and unchanged when applied again."""
    profile(proof.aws)
    ports = {name: conversion.free_port() for name in ("dovetail-0", "dovetail-1")}
    way = conversion.Way(list(ports.values()))
    conversion.begin(proof, ports, way, "CONSOLIDATION_LEAST_AGE=0s", GATES)
    proof.until("v1beta1 is served", lambda: proof.cluster.kubectl("get", KINDS["NodePool"]) is not None)
    proof.until("v1beta1 is served", lambda: proof.cluster.kubectl("get", KINDS["EC2NodeClass"]) is not None)
    for name in courses:
        print(f"  {name}: {COURSES[name].__doc__}", flush=True)
        COURSES[name](proof)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", choices=[*COURSES, []], help="all unless said")
    given = parser.parse_args()
    end(play(posts, Proof("posts"), given.files or list(COURSES)))


if __name__ == "__main__":
    main()
