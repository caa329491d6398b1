"""What turns an EC2 instance into a Node: the kubelet's part, since nothing boots in moto.

    joiner.py SERVER PKI EC2 REGION BOOT

Every running instance becomes, BOOT seconds after it was first seen, a Node that kwok keeps Ready. How much a node holds
is taken from the NodeClaim, for no kubelet is there to count it; labels are those that a kubelet and the cloud controller
manager set, and nothing of Karpenter's.
"""

import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as xml

from kube import Kube, Refused

LOOK = 0.5


def instances(ec2, region):
    """The running instances."""
    return described(ec2, region, {"Filter.1.Name": "instance-state-name", "Filter.1.Value.1": "running"})


def every_instance(ec2, region):
    """All instances that moto remembers, also those that have ended."""
    return described(ec2, region, {})


def described(ec2, region, filters):
    """What DescribeInstances answers, page after page."""
    token = {}
    while token is not None:
        token = yield from page(ec2, region, filters | token)


def page(ec2, region, filters):
    """One page; returns what the next is asked by, `None` after the last."""
    query = {"Action": "DescribeInstances", "Version": "2016-11-15"} | filters
    scope = f"Credential=joiner/20200101/{region}/ec2/aws4_request"
    headers = {"authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0"}
    request = urllib.request.Request(ec2, urllib.parse.urlencode(query).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        tree = xml.parse(answer).getroot()
    space = tree.tag.split("}")[0] + "}" if tree.tag.startswith("{") else ""
    text = lambda item, *path: item.findtext("/".join(space + name for name in path), "")
    for item in tree.iterfind(f".//{space}instancesSet/{space}item"):
        yield {
            "id": text(item, "instanceId"),
            "state": text(item, "instanceState", "name"),
            "tags": {text(tag, "key"): text(tag, "value") for tag in item.iterfind(f"{space}tagSet/{space}item")},
            "type": text(item, "instanceType"),
            "name": text(item, "privateDnsName"),
            "address": text(item, "privateIpAddress"),
            "zone": text(item, "placement", "availabilityZone"),
            "arch": {"arm64": "arm64"}.get(text(item, "architecture"), "amd64"),
        }
    more = text(tree, "nextToken")
    return {"NextToken": more} if more else None


def node(instance, region, claim):
    """The Node as its kubelet registers it."""
    labels = {
        "kubernetes.io/hostname": instance["name"],
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": instance["arch"],
        "node.kubernetes.io/instance-type": instance["type"],
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": instance["zone"],
        "topology.k8s.aws/zone-id": "",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": instance["name"],
            "labels": {key: value for key, value in labels.items() if value},
            # The second is a kubelet's own: without it the controller manager attaches no volumes to the node.
            "annotations": {"kwok.x-k8s.io/node": "fake", "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {
            "providerID": f"aws:///{instance['zone']}/{instance['id']}",
            "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
        },
        "status": {
            "capacity": claim["status"]["capacity"],
            "allocatable": claim["status"]["allocatable"],
            "addresses": [{"type": "InternalIP", "address": instance["address"]}],
            "nodeInfo": {
                "kubeletVersion": "v1.36.3", "osImage": "kwok", "kernelVersion": "", "containerRuntimeVersion": "",
                "machineID": "", "systemUUID": "", "bootID": "", "operatingSystem": "linux",
                "kubeProxyVersion": "", "architecture": instance["arch"],
            },
        },
    }


def look(kube, ec2, region, boot, seen, joined):
    """One look at what runs."""
    now = time.monotonic()
    running = [one for one in instances(ec2, region) if one["id"] not in joined]
    due = [one for one in running if now - seen.setdefault(one["id"], now) >= boot]
    if not due:
        return
    claims = {claim.get("status", {}).get("providerID"): claim for claim in kube.list("/apis/karpenter.sh/v1/nodeclaims")}
    for instance in due:
        claim = claims.get(f"aws:///{instance['zone']}/{instance['id']}")
        if claim and claim["status"].get("allocatable"):
            kube.create("/api/v1/nodes", node(instance, region, claim))
            joined.add(instance["id"])
            print(f"{instance['id']} {instance['type']} is {instance['name']}", flush=True)


def main(server, pki, ec2, region, boot):
    kube, seen, joined = Kube(server, pki, "admin"), {}, set()
    while True:
        try:
            look(kube, ec2, region, float(boot), seen, joined)
        except (OSError, Refused, xml.ParseError, urllib.error.URLError) as error:
            # The one or the other is away: that is part of what is tested.
            print(f"not now: {error}", flush=True)
        time.sleep(LOOK)


if __name__ == "__main__":
    main(*sys.argv[1:])
