"""The account and the cluster around `hostile.py`: instances of others, those that are launched, and what is left at the end."""

import urllib.parse
import urllib.request
import xml.etree.ElementTree as xml

from hostile_acts import CLAIMS, NAMESPACE, NODES
from hostile_daemons import SETS
from hostile_kubelet import LAIR
from joiner import every_instance
from kube import Refused
from load import comes
from parts import REGION

#: Seconds that one waits for what has to go at the end.
GONE_WITHIN = 180


def ec2(aws, action, **parameters):
    """A call to moto; what it answers, as XML."""
    query = {"Action": action, "Version": "2016-11-15"} | {name.replace("__", "."): value for name, value in parameters.items()}
    scope = f"Credential=others/20200101/{REGION}/ec2/aws4_request"
    headers = {"authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0"}
    with urllib.request.urlopen(urllib.request.Request(aws, urllib.parse.urlencode(query).encode(), headers), timeout=30) as answer:
        return xml.parse(answer).getroot()


def others(cluster, image):
    """Instances that are not Dovetail's: without a tag, of another cluster's Karpenter, and of this cluster's node group."""
    tags = (
        {},
        {"kubernetes.io/cluster/other": "owned", "karpenter.sh/nodepool": "default", "karpenter.sh/nodeclaim": "default-x"},
        {"kubernetes.io/cluster/demo": "owned", "eks:cluster-name": "demo", "eks:nodegroup-name": "system"},
    )
    made = []
    for own in tags:
        parameters = {"ImageId": image, "MinCount": 1, "MaxCount": 1, "InstanceType": "m5.large"}
        if own:
            parameters["TagSpecification__1__ResourceType"] = "instance"
        for number, (key, value) in enumerate(own.items(), 1):
            parameters |= {f"TagSpecification__1__Tag__{number}__Key": key, f"TagSpecification__1__Tag__{number}__Value": value}
        answer = ec2(cluster.parts.aws, "RunInstances", **parameters)
        made += [item.text for item in answer.iter() if item.tag.rpartition("}")[2] == "instanceId"]
    return made


def launched(cluster, foreign):
    """All instances that were ever launched for the cluster."""
    return {one["id"] for one in every_instance(cluster.parts.aws, REGION)} - set(foreign)


def cleaned(cluster, kube, foreign):
    """Takes away what the users have made; what is left of it that should not be."""
    for path, ours in ((CLAIMS, "hostile"), (NODES, "hostile")):
        for one in kube.list(path):
            if one["metadata"].get("labels", {}).get(ours) == "yes":
                delete(kube, f"{path}/{one['metadata']['name']}")
    for path in (SETS, f"/api/v1/namespaces/{NAMESPACE}/pods", f"/api/v1/namespaces/default/pods/{LAIR}"):
        delete(kube, f"{path}?gracePeriodSeconds=0")
    last = []
    def settled():
        last[:] = leftovers(cluster, kube, foreign)
        return not last
    comes(settled, GONE_WITHIN)
    return last


def delete(kube, path):
    try:
        kube.call("DELETE", path)
    except Refused as refused:
        if refused.status != 404:
            raise


def leftovers(cluster, kube, foreign):
    """Claims and instances that are not one to one, and objects of the users' that do not go."""
    claims, nodes = kube.list(CLAIMS), kube.list(NODES)
    machine = lambda one: one.get("status", {}).get("providerID", "").rsplit("/", 1)[-1]
    running = {one["id"] for one in every_instance(cluster.parts.aws, REGION) if one["state"] == "running"} - set(foreign)
    of = {machine(one): one["metadata"]["name"] for one in claims}
    stay = [one["metadata"]["name"] for one in claims + nodes if one["metadata"].get("labels", {}).get("hostile") == "yes"]
    return ([f"{name} is still there" for name in stay] + [f"instance {one} runs without a NodeClaim" for one in running - of.keys()]
            + [f"NodeClaim {name} has no running instance" for one, name in of.items() if one not in running])
