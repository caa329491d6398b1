#!/usr/bin/env python3
"""Drift by each cause on the real control plane, all at the same time, each in a pool of its own.

    drift.py [CAUSE…] [--nodes 3]      all causes unless said: template requirements class ami subnets groups

Each pool has three nodes with a pod each, a class of its own, and a budget of one node. What a cause is about is changed in
all of them at once. Then each old NodeClaim has to name its cause in the condition Drifted, no old node may be tainted or
deleted before a new one of its pool is initialized in its stead, and no pool may have two nodes on their way out whose
instances run. moto has no capacity reservations: what it answers is printed.
"""

import argparse
import json
import threading
import time

from load import deployment
from proof import (
    CLAIMS, CLASSES, DEPLOYMENTS, POOLS, Ec2Refused, Proof, condition, ec2, end, images, play, status_of,
)

REASONS = {
    "template": "NodePoolDrifted", "requirements": "RequirementsDrifted", "class": "NodeClassDrift", "ami": "AMIDrift",
    "subnets": "SubnetDrift", "groups": "SecurityGroupDrift",
}
DISRUPTED = "karpenter.sh/disrupted"


class Account:
    """What moto's account has: two images, two subnets, two security groups."""

    def __init__(self, aws):
        self.images = images(aws)[:2]
        found = ec2(aws, "DescribeSubnets").iterfind(".//subnetSet/item")
        zones = sorted((one.findtext("availabilityZone"), one.findtext("subnetId"), one.findtext("vpcId")) for one in found)
        self.subnets = [subnet for _, subnet, _ in zones]
        vpc = zones[0][2]
        group = lambda name: ec2(aws, "CreateSecurityGroup", GroupName=name, GroupDescription=name, VpcId=vpc).findtext("groupId")
        self.groups = [group("first"), group("second")]


def terms(ids):
    return [{"id": one} for one in ids]


def node_class(cause, account):
    """The class of a cause: of the subnets, it selects one where they are what changes."""
    subnets = account.subnets[:1] if cause == "subnets" else account.subnets
    return {
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": cause},
        "spec": {
            "amiFamily": "AL2023", "role": "KarpenterNodeRole-demo", "amiSelectorTerms": terms(account.images[:1]),
            "subnetSelectorTerms": terms(subnets), "securityGroupSelectorTerms": terms(account.groups[:1]),
        },
    }


def requirements(*more):
    given = {"kubernetes.io/arch": ["amd64"], "karpenter.sh/capacity-type": ["on-demand"],
             "karpenter.k8s.aws/instance-category": ["c", "m", "r"]}
    made = [{"key": key, "operator": "In", "values": values} for key, values in given.items()]
    return [*made, {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]}, *more]


def pool(cause):
    """The pool of a cause: one node at a time."""
    return {
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": cause},
        "spec": {
            "template": {
                "metadata": {"labels": {"cause": cause}},
                "spec": {"requirements": requirements(), "nodeClassRef": {
                    "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": cause}},
            },
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "1"}]},
        },
    }


def workload(cause, count):
    """Pods with a node of the cause's pool each."""
    made = deployment(cause, "500m", "256Mi", count)
    spec = made["spec"]["template"]["spec"]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": made["spec"]["selector"]}
    spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec["nodeSelector"] = {"cause": cause}
    return made


def change(proof, cause, account, types):
    """The change that the nodes of this pool do not satisfy."""
    spec = {
        "template": {"template": {"metadata": {"labels": {"cause": cause, "wave": "second"}}}},
        "requirements": {"template": {"spec": {"requirements": requirements(
            {"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": sorted(types)})}}},
        "class": {"tags": {"wave": "second"}},
        "ami": {"amiSelectorTerms": terms(account.images[1:2])},
        "subnets": {"subnetSelectorTerms": terms(account.subnets[1:2])},
        "groups": {"securityGroupSelectorTerms": terms(account.groups[1:2])},
    }[cause]
    path = POOLS if cause in ("template", "requirements") else CLASSES
    proof.kube.patch(f"{path}/{cause}", {"spec": spec})


class Watched(threading.Thread):
    """What is seen of each pool ten times a second."""

    def __init__(self, proof, old):
        super().__init__(daemon=True)
        self.proof, self.old, self.ended = proof, old, False
        self.reasons = {cause: {} for cause in old}
        self.early, self.crowded, self.drifted_new = [], [], []
        self.most_going = dict.fromkeys(old, 0)
        self.start()

    def run(self):
        while not self.ended:
            try:
                # Claims last: what stands in them then stood when the nodes were looked at, or came later.
                nodes = self.proof.kube.list("/api/v1/nodes")
                claims = self.proof.kube.list(CLAIMS)
            except OSError:
                continue
            tainted = {one["spec"].get("providerID") for one in nodes
                       if any(taint["key"] == DISRUPTED for taint in one["spec"].get("taints", []))}
            for cause, uids in self.old.items():
                own = [one for one in claims if one["metadata"]["labels"]["karpenter.sh/nodepool"] == cause]
                self.see(cause, uids, own, tainted)
            time.sleep(0.1)

    def see(self, cause, uids, own, tainted):
        left = [one for one in own if one["metadata"]["uid"] in uids]
        stands = sum(status_of(one, "Initialized") == "True" for one in own if one["metadata"]["uid"] not in uids)
        going = [one for one in left if "deletionTimestamp" in one["metadata"] or one["status"].get("providerID") in tainted]
        for one in left:
            found = condition(one, "Drifted")
            if found and found["status"] == "True":
                self.reasons[cause].setdefault(found["reason"], found.get("message", ""))
        # By Karpenter's own count (core spec 5.3) a node whose instance ends is not of its pool any more: for the second that its
        # objects are still there, the next may be on its way out.
        busy = [one for one in going if status_of(one, "InstanceTerminating") != "True"]
        gone = len(uids) - len(left) + len(going)
        if gone > stands:
            self.early.append(f"{cause}: {gone} old nodes go or are gone, {stands} new ones stand")
        self.most_going[cause] = max(self.most_going[cause], len(busy))
        for one in own:
            if one["metadata"]["uid"] not in uids and status_of(one, "Drifted") == "True":
                self.drifted_new.append(f"{cause}: {condition(one, 'Drifted')['reason']} {condition(one, 'Drifted').get('message', '')}")


def of_pool(proof, cause):
    return [one for one in proof.claims().values() if one["metadata"]["labels"]["karpenter.sh/nodepool"] == cause]


def drift(proof, given):
    """Each cause drifts its pool, and the replacements stand before the old nodes go."""
    causes, count = given.causes or list(REASONS), given.nodes
    account = Account(proof.aws)
    for cause in causes:
        proof.apply(json.dumps(node_class(cause, account)))
        proof.apply(json.dumps(pool(cause)))
    proof.replicas_start("dovetail-0", "dovetail-1")
    proof.until("every pool is Ready", lambda: all(status_of(proof.get(f"{POOLS}/{cause}"), "Ready") == "True" for cause in causes))
    for cause in causes:
        proof.kube.create(DEPLOYMENTS, workload(cause, count))
    every = len(causes) * count
    proof.until(f"{every} pods are Ready", lambda: len(proof.ready_pods()) == every)
    proof.until("all is one to one", lambda: not proof.one_to_one())
    old = {cause: {one["metadata"]["uid"] for one in of_pool(proof, cause)} for cause in causes}
    proof.check("each pod has a node of its pool", all(len(uids) == count for uids in old.values()), len(proof.nodes()))
    time.sleep(10)
    calm = [name for name, one in proof.claims().items() if status_of(one, "Drifted") == "True"]
    proof.check("nothing drifts before anything is changed", not calm, calm)
    watched, begun = Watched(proof, old), time.monotonic()
    for cause in causes:
        types = {one["metadata"]["labels"]["node.kubernetes.io/instance-type"] for one in of_pool(proof, cause)}
        change(proof, cause, account, types)
    for cause in causes:
        replaced = lambda: not {one["metadata"]["uid"] for one in of_pool(proof, cause)} & old[cause]
        proof.until(f"the nodes of {cause} are replaced", replaced, patience=400)
        proof.row(f"{cause}: {REASONS[cause]}, {count} nodes replaced, at the latest after", f"{time.monotonic() - begun:.0f} s")
    proof.until("every pod is Ready", lambda: len(proof.ready_pods()) == every)
    proof.until("all is one to one", lambda: not proof.one_to_one())
    watched.ended = True
    for cause in causes:
        seen = watched.reasons[cause]
        proof.check(f"{cause} is named {REASONS[cause]}, and nothing else", set(seen) == {REASONS[cause]}, seen)
    proof.check("no old node went before a new one stood in its stead", not watched.early, watched.early[:3])
    proof.check("no pool had more than its budget's one node on its way out", max(watched.most_going.values()) <= 1, watched.most_going)
    proof.check("what came new does not drift", not watched.drifted_new, watched.drifted_new[:3])
    told = {name for name, _ in proof.kubernetes_events("Drifted")}
    proof.check("each drift is an event at its NodeClaim", len(told) == every, f"{len(told)} of {every}")
    proof.check("as many launches as replacements", len(proof.events("launched")) == 2 * every, len(proof.events("launched")))
    try:
        ec2(proof.aws, "CreateCapacityReservation", InstanceType="m5.large", InstanceCount="1", InstancePlatform="Linux/UNIX",
            AvailabilityZone="eu-west-1a")
        proof.check("capacity reservations of moto's are played", False, "moto has them now: add the cause")
    except Ec2Refused as why:
        proof.row("not shown here: CapacityReservationDrift, as moto has no reservations", str(why)[:60])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("causes", nargs="*", choices=[*REASONS, []], help="all unless said")
    parser.add_argument("--nodes", type=int, default=3, help="nodes of each pool")
    end(play(drift, Proof("drift"), parser.parse_args()))


if __name__ == "__main__":
    main()
