#!/usr/bin/env python3
"""A cluster of Karpenter's is taken over on the real control plane, released, and given back.

    adoption.py [1.14] [0.37] [--nodes 12] [--window 60]      both releases unless one is said

manifests/karpenter/ has the objects as a release leaves them: NodePool, EC2NodeClass, and NodeClaims with their Nodes and
running instances, with its finalizers, hashes, annotations and tags. Those of 0.37 are stored as v1beta1, and are read by
the webhook's conversion. Dovetail leads them for --window seconds (the issue speaks of an hour: nothing but these seconds
decides when it is looked at), in which no NodeClaim, Node, instance or pod may move. Then the pool is released, as
docs/guide/migrating.md says, and the bill has to fall. At last Dovetail stops, and what Karpenter finds is looked at; it
stamps its hashes and takes the Lease, and when Dovetail leads once more the pool is held back anew.

NodeClaims are minutes old here, so CONSOLIDATION_LEAST_AGE=0s.
"""

import argparse
import datetime
import socket
import string
import time

from load import deployment
from parts import HERE
from proof import CLAIMS, CLASSES, DEPLOYMENTS, POOLS, Proof, condition, ec2, end, images, play, status_of

#: $ an hour of what the pool may have, on demand in eu-west-1.
PRICES = {"m5.large": 0.107, "m5.xlarge": 0.214, "m5.2xlarge": 0.428, "m5.4xlarge": 0.856, "m5.8xlarge": 1.712}
VERSIONS = {"1.14": "v1", "0.37": "v1beta1"}
#: The version of a NodePool's hash, Karpenter's and ours.
HASHES = "v3"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election"
CRDS = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws")
FINALIZERS = {"karpenter.sh/termination", "karpenter.k8s.aws/termination"}
STAMPS = {"karpenter.sh/nodepool-hash": "7061396432467889021", "karpenter.sh/nodepool-hash-version": "v3"}
CLASS_STAMPS = {"karpenter.k8s.aws/ec2nodeclass-hash": "4950366118253097694", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v6"}


def parts_of(release):
    """The class, the pool, a NodeClaim and a Node, as text."""
    return (HERE / f"manifests/karpenter/{release}.yaml").read_text().split("\n---\n")


def launched_by_karpenter(aws, release, count):
    """Instances with the tags that it gives them."""
    subnets = sorted(one.findtext("subnetId") for one in ec2(aws, "DescribeSubnets").iterfind(".//subnetSet/item"))
    image, made = images(aws)[0], []
    cluster = {"1.14": "eks:eks-cluster-name", "0.37": "karpenter.sh/managed-by"}[release]
    for number in range(count):
        tags = {
            "kubernetes.io/cluster/demo": "owned", cluster: "demo", "karpenter.sh/nodepool": "default",
            "karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.sh/nodeclaim": f"default-k{number:04}",
        }
        asked = {"ImageId": image, "InstanceType": "m5.2xlarge", "MinCount": "1", "MaxCount": "1",
                 "SubnetId": subnets[number % len(subnets)], "TagSpecification.1.ResourceType": "instance"}
        for at, (key, value) in enumerate(tags.items(), 1):
            asked |= {f"TagSpecification.1.Tag.{at}.Key": key, f"TagSpecification.1.Tag.{at}.Value": value}
        one = ec2(aws, "RunInstances", **asked).find(".//instancesSet/item")
        made.append({"id": one.findtext("instanceId"), "zone": one.findtext("placement/availabilityZone"),
                     "node": one.findtext("privateDnsName"), "address": one.findtext("privateIpAddress"),
                     "claim": f"default-k{number:04}", "image": image})
    return made


def stages(*names):
    """Conditions that came true an hour ago."""
    when = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [{"type": one, "status": "True", "reason": one, "message": "", "lastTransitionTime": when} for one in names]


def karpenters_cluster(proof, release, count):
    """Everything that Karpenter has made; nobody leads it."""
    version = VERSIONS[release]
    at = lambda path: path.replace("/v1/", f"/{version}/")
    class_text, pool_text, claim_text, node_text = parts_of(release)
    create = lambda text: proof.cluster.kubectl("create", "-f", "-", text=text)
    if version != "v1":
        store_as(proof, version)
        proof.until("v1beta1 is taken", lambda: create(class_text))
    else:
        create(class_text)
    create(pool_text)
    uid = proof.kube.call("GET", f"{at(POOLS)}/default")["metadata"]["uid"]
    made = launched_by_karpenter(proof.aws, release, count)
    for one in made:
        values = one | {"pool_uid": uid, "provider_id": f"aws:///{one['zone']}/{one['id']}"}
        create(string.Template(claim_text).substitute(values))
        own = proof.kube.call("GET", f"{at(CLAIMS)}/{one['claim']}")["metadata"]["uid"]
        create(string.Template(node_text).substitute(values | {"claim_uid": own}))
        status = {
            "providerID": values["provider_id"], "imageID": one["image"], "nodeName": one["node"],
            "capacity": {"cpu": "8", "memory": "31Gi", "pods": "58", "ephemeral-storage": "20Gi"},
            "allocatable": {"cpu": "7910m", "memory": "30Gi", "pods": "58", "ephemeral-storage": "17Gi"},
            "conditions": stages("Launched", "Registered", "Initialized", "Ready", *(["ConsistentStateFound"] if version == "v1" else [])),
        }
        proof.kube.patch(f"{at(CLAIMS)}/{one['claim']}/status", {"status": status})
    for kind, names in ((POOLS, ("NodeClassReady", "ValidationSucceeded")), (CLASSES, ("SubnetsReady", "SecurityGroupsReady", "AMIsReady"))):
        path = f"{at(kind)}/default"
        seen = {"observedGeneration": proof.kube.call("GET", path)["metadata"]["generation"]}
        proof.kube.patch(f"{path}/status", {"status": {"conditions": [one | seen for one in stages("Ready", *names)]}})
    if version != "v1":
        store_as(proof, "v1")
    proof.kube.create(DEPLOYMENTS, deployment("web", "500m", "512Mi", 2 * count))
    proof.until(f"{2 * count} pods are Ready on Karpenter's nodes", lambda: len(proof.ready_pods()) == 2 * count)
    return made


def store_as(proof, version):
    """As a release leaves the definitions: this version is stored, and v1beta1 served where it is."""
    for name in CRDS:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        versions = proof.kube.call("GET", path)["spec"]["versions"]
        for one in versions:
            one["storage"] = one["name"] == version
            if one["name"] == "v1beta1":
                one["served"] = version == "v1beta1"
        proof.kube.patch(path, {"spec": {"versions": versions}})


def webhook():
    """Settings that let the replicas convert, as behind a control plane that reaches them from outside."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    url = f"https://127.0.0.1:{port}/conversion/karpenter.sh"
    return ["WEBHOOK_ENABLED=true", f"WEBHOOK_PORT={port}", f"WEBHOOK_URL={url}"]


def there(proof):
    """What may not change: uids of claims, Nodes and pods, and the instances."""
    of = lambda objects: frozenset(one["metadata"]["uid"] for one in objects)
    pods = of(proof.kube.list("/api/v1/namespaces/default/pods"))
    deleting = [name for name, one in {**proof.claims(), **proof.nodes()}.items() if "deletionTimestamp" in one["metadata"]]
    return of(proof.claims().values()), of(proof.nodes().values()), pods, frozenset(proof.running()), tuple(deleting)


def bill(proof):
    """$ an hour of the running instances."""
    return sum(PRICES[one["type"]] for one in proof.running().values())


def annotations(one):
    return one["metadata"].get("annotations", {})


def taken_over(proof, release, before, window):
    """In the window nothing moves, and the objects say whose they are."""
    proof.until("the pool is taken over", lambda: status_of(proof.get(f"{POOLS}/default"), "dovetail.dev/Adopted") == "True")
    begun, same = time.monotonic(), True
    while time.monotonic() - begun < window:
        now = there(proof)
        if now != before and same:
            same = proof.check("no NodeClaim, Node, pod or instance moves in the window", False, [len(a ^ b) for a, b in zip(before[:4], now[:4])])
        time.sleep(1)
    if same:
        proof.check("no NodeClaim, Node, pod or instance moves in the window", True, f"{window:.0f} s")
    pool, claims = proof.get(f"{POOLS}/default"), proof.claims().values()
    own = annotations(pool)
    proof.check("the pool is only observed, and packed onto the fewest nodes",
                (own.get("dovetail.dev/disruption"), own.get("dovetail.dev/packing-policy")) == ("observe", "fewest-nodes"))
    versions = {annotations(one).get("karpenter.sh/nodepool-hash-version", "") for one in (pool, *claims)}
    proof.check("pool and NodeClaims carry hashes of one version", versions == {HASHES}, versions)
    proof.check("the pool is Ready", status_of(pool, "Ready") == "True", "" if status_of(pool, "Ready") == "True" else condition(pool, "Ready"))
    drifted = [one["metadata"]["name"] for one in claims if status_of(one, "Drifted") == "True"]
    proof.check("nothing drifts by it", not drifted, drifted)
    proof.check("every instance is ours", not proof.events("instance_not_owned"), len(proof.events("instance_not_owned")))
    proof.check("nothing was launched or removed", not proof.events("launched") and not proof.events("removing"))
    proof.check("the event AdoptedFromKarpenter is at the pool", proof.kubernetes_events("AdoptedFromKarpenter"))
    if release == "0.37":
        spec = pool["spec"]["template"]["spec"]
        proof.check("v1 has what 0.37 had said of the end of nodes", spec.get("expireAfter") == "719h", spec.get("expireAfter"))
        beta = proof.kube.call("GET", POOLS.replace("/v1/", "/v1beta1/") + "/default")["spec"]["template"]["spec"]
        proof.check("v1beta1 still says the kubelet's configuration", beta.get("kubelet") == {"maxPods": 58}, beta.get("kubelet"))
        stored = {name: proof.kube.call("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")["status"]["storedVersions"]
                  for name in CRDS}
        proof.check("nothing is stored as v1beta1 any more", all(one == ["v1"] for one in stored.values()), stored)


def released(proof, count):
    """The two annotations are taken away, and the bill falls."""
    before, begun = bill(proof), time.monotonic()
    for key in ("dovetail.dev/disruption", "dovetail.dev/packing-policy"):
        proof.cluster.kubectl("annotate", "nodepool", "default", f"{key}-")
    proof.until("the bill is half", lambda: bill(proof) <= before / 2 and not proof.one_to_one())
    proof.until("every pod is Ready", lambda: len(proof.ready_pods()) == 2 * count)
    proof.row("$/h before the release, and after", f"{before:.2f}, {bill(proof):.2f} after {time.monotonic() - begun:.0f} s")
    proof.check("what was released is told", proof.events("pool_released"))
    proof.check("the pool is not Adopted any more", status_of(proof.get(f"{POOLS}/default"), "dovetail.dev/Adopted") != "True")


def back_again(proof):
    """What Karpenter finds when Dovetail has gone."""
    # It finds NodeClaims that Dovetail has made, too.
    proof.kube.patch(f"{DEPLOYMENTS}/load-web", {"spec": {"replicas": 60}})
    proof.until("60 pods are Ready", lambda: len(proof.ready_pods()) == 60)
    proof.until("all is one to one", lambda: not proof.one_to_one())
    for name in proof.replicas:
        process = proof.cluster.running.pop(name)
        process.terminate()
        proof.check(f"{name} ends well", process.wait(timeout=30) == 0)
    proof.check("the Lease is free", not proof.get(LEASE)["spec"].get("holderIdentity"))
    claims, nodes = proof.claims().values(), proof.nodes().values()
    pool, node_class = proof.get(f"{POOLS}/default"), proof.get(f"{CLASSES}/default")
    every = (pool, node_class, *claims, *nodes)
    strange = {one for it in every for one in it["metadata"].get("finalizers", [])} - FINALIZERS
    proof.check("finalizers are Karpenter's own", not strange, strange)
    bare = [one["metadata"]["name"] for one in (*claims, *nodes) if "karpenter.sh/termination" not in one["metadata"].get("finalizers", [])]
    proof.check("every NodeClaim and Node has its finalizer", not bare, bare)
    keys = {taint["key"] for one in nodes for taint in one["spec"].get("taints", [])} | {key for it in every for key in it["metadata"].get("labels", {})}
    proof.check("no label and no taint is Dovetail's", not [one for one in keys if "dovetail" in one], [one for one in keys if "dovetail" in one])
    hashes = {tuple(annotations(one)[key] for key in STAMPS) for one in (pool, *claims)}
    proof.check("the hash that Karpenter had written stays, on NodeClaims of ours too", hashes == {tuple(STAMPS.values())}, hashes)
    proof.check("every NodeClaim is Launched and Initialized", all(
        status_of(one, kind) == "True" for one in claims for kind in ("Launched", "Registered", "Initialized", "Ready")))
    tags = {"karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default", "kubernetes.io/cluster/demo": "owned"}
    names = {one["metadata"]["name"] for one in claims}
    wrong = [one["id"] for one in proof.running().values() if tags.items() - one["tags"].items()
             or one["tags"].get("karpenter.sh/nodeclaim") not in names
             or "demo" not in (one["tags"].get("eks:eks-cluster-name"), one["tags"].get("karpenter.sh/managed-by"))]
    proof.check("every instance has Karpenter's tags", not wrong, wrong)
    nominated = [one for one in proof.kube.list("/api/v1/namespaces/default/pods")
                 if not one["spec"].get("nodeName") and one.get("status", {}).get("nominatedNodeName")]
    proof.check("no pod that waits has a nominated node", not nominated, len(nominated))


def karpenter_leads(proof):
    """What a Karpenter does first: the Lease, and the hashes that it computes, which are those that it had written."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    proof.kube.patch(LEASE, {"spec": {"holderIdentity": "karpenter-7d9f5c6b8d-x2x4v", "leaseDurationSeconds": 15,
                                      "acquireTime": now, "renewTime": now}})
    proof.kube.patch(f"{POOLS}/default", {"metadata": {"annotations": STAMPS}})
    proof.kube.patch(f"{CLASSES}/default", {"metadata": {"annotations": CLASS_STAMPS}})
    for name in proof.claims():
        proof.kube.patch(f"{CLAIMS}/{name}", {"metadata": {"annotations": STAMPS | CLASS_STAMPS}})
    proof.kube.patch(LEASE, {"spec": {"holderIdentity": ""}})


def adoption(proof, release, given):
    """A cluster of Karpenter's is taken over, released and given back."""
    karpenters_cluster(proof, release, given.nodes)
    before, paid = there(proof), bill(proof)
    proof.row(f"nodes of Karpenter {release}, $/h", f"{len(before[1])}, {paid:.2f}")
    own = webhook() if release == "0.37" else []
    proof.replicas_start("dovetail-0", settings=own)
    proof.replicas_start("dovetail-1")
    taken_over(proof, release, before, given.window)
    released(proof, given.nodes)
    if release == "0.37":
        # It does not read v1: there is no way back (docs/guide/migrating.md).
        return
    back_again(proof)
    karpenter_leads(proof)
    before = set(proof.claims())
    proof.replicas_start("dovetail-0", "dovetail-1")
    time.sleep(min(given.window, 30))
    own = annotations(proof.get(f"{POOLS}/default"))
    proof.check("a pool that Karpenter has found as it was is not taken over again", "dovetail.dev/disruption" not in own)
    # The pool was released: consolidation goes on where it was.
    drifted = [name for name, one in proof.claims().items() if status_of(one, "Drifted") == "True"]
    reasons = {one.get("reason") for one in proof.events("removing")} - {"underutilized", "empty"}
    proof.check("nothing drifts and nothing is launched when Dovetail leads once more",
                not drifted and not reasons and set(proof.claims()) <= before, f"{drifted} {sorted(reasons)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="*", choices=[*VERSIONS, []], help="both unless said")
    parser.add_argument("--nodes", type=int, default=12, help="nodes of Karpenter's")
    parser.add_argument("--window", type=float, default=60, help="seconds in which nothing may move; the issue says an hour")
    given, found = parser.parse_args(), []
    for release in given.releases or VERSIONS:
        proof = Proof(f"adoption-{release}", ["CONSOLIDATION_LEAST_AGE=0s"], chart=["settings.adoptKarpenterInstances=true"])
        found += play(adoption, proof, release, given)
    end(found)


if __name__ == "__main__":
    main()
