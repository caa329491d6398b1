#!/usr/bin/env python3
"""The provider kwok on the real control plane: Nodes without machines, and without any AWS.

    kwok_provider.py [--pods 60] [--boot 0s]

Pending pods become NodeClaims, these become Nodes of the KWOKNodeClass, which kwok makes Ready, and pods run on them. While
NodeClaims are launched the leader is killed. Then three quarters of the pods go, and consolidation leaves fewer nodes;
then all go, and nothing is left. The replicas have no credentials, and an address of AWS that nobody answers at.
"""

import argparse
import re
import time

from handover import Leader
from load import deployment
from proof import DEPLOYMENTS, Pods, Proof, end, play, status_of
from parts import HERE

KWOK_CLASSES = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
CRD = HERE.parent.parent / "deploy/kwok/karpenter.kwok.sh_kwoknodeclasses.yaml"
POOL = """
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {nodeRegistrationDelay: %s}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.kwok.sh/instance-cpu, operator: In, values: ["4", "8"]}
  disruption:
    consolidationPolicy: WhenEmptyOrUnderutilized
    consolidateAfter: 0s
    budgets: [{nodes: "100%%"}]
"""
#: Of these the first is the chart's own for this provider; a queue it has not.
CHART = ("settings.provider=kwok", "settings.interruptionQueue=")
SETTINGS = ("AWS_ENDPOINT_URL=http://127.0.0.1:9", "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_REGION=", "CONSOLIDATION_LEAST_AGE=0s")


def pair_up(proof):
    """NodeClaims without a Node, and Nodes without a NodeClaim, by provider ID."""
    claims = {one.get("status", {}).get("providerID", "") for one in proof.claims().values()}
    nodes = {one["spec"].get("providerID", "") for one in proof.nodes().values()}
    return sorted(claims ^ nodes)


def course(proof, given):
    """Pods get Nodes of kwok, through the end of a leader, and the Nodes go with them."""
    proof.apply(CRD.read_text())
    proof.until("the class is served", lambda: proof.kube.list(KWOK_CLASSES) == [])
    proof.apply(POOL % given.boot)
    proof.replicas_start("dovetail-0", "dovetail-1")
    ready = proof.until("class and pool are Ready", lambda: proof.events("node_pool", ready=True))
    proof.row("seconds until class and pool are Ready", f"{ready:.1f}")
    leader, pods = Leader(proof.cluster), Pods(proof.kube)
    begun = time.monotonic()
    proof.kube.create(DEPLOYMENTS, deployment(0, "900m", "1Gi", given.pods))
    proof.until("somebody leads", leader.replica)
    old = leader.replica()
    proof.until("NodeClaims are there", proof.claims)
    proof.cluster.kill(old)
    early = [one for one in proof.claims().values() if status_of(one, "Initialized") != "True"]
    proof.check("the leader ends before its NodeClaims are initialized", early, f"{len(early)} are not")
    proof.cluster.start(old)
    proof.until("every pod is Ready", lambda: len(pods.ready) >= given.pods)
    proof.row("seconds until every pod is Ready, a killed leader in between", f"{time.monotonic() - begun:.1f}")
    proof.until("NodeClaims and Nodes are pairs", lambda: not pair_up(proof))
    nodes = proof.nodes()
    good = [one for one in nodes.values() if re.match(r"kwok://", one["spec"].get("providerID", ""))]
    proof.check("all Nodes are kwok's", len(good) == len(nodes) > 0, f"{len(nodes)} nodes")
    labels = {one["metadata"]["labels"].get("karpenter.kwok.sh/instance-cpu") for one in nodes.values()}
    proof.check("Nodes have their type's labels, of those that the pool allows", labels <= {"4", "8"}, labels)
    before = len(nodes)
    proof.kube.patch(f"{DEPLOYMENTS}/load-0/scale", {"spec": {"replicas": given.pods // 4}})
    fewer = proof.until("consolidation leaves half of the nodes or fewer", lambda: len(proof.nodes()) * 2 <= before and not pair_up(proof))
    proof.row("seconds until half of the nodes are gone, after three quarters of the pods", f"{fewer:.1f}")
    proof.until("the pods that stay are Ready", lambda: len(pods.ready) == given.pods // 4)
    proof.kube.patch(f"{DEPLOYMENTS}/load-0/scale", {"spec": {"replicas": 0}})
    empty = proof.until("nothing is left", lambda: not proof.claims() and not proof.nodes())
    proof.row("seconds until nothing is left, after the last pods", f"{empty:.1f}")
    asked = [one for one in proof.log() if "aws" in str(one.get("message", "")).lower() and one.get("level") in ("WARN", "ERROR")]
    asked = [one for one in asked if "without effect" not in one["message"]]
    proof.check("nothing was asked of AWS", not asked, "; ".join(one["message"] for one in asked[:3]))
    leader.ended = pods.ended = True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=60)
    parser.add_argument("--boot", default="0s", help="nodeRegistrationDelay")
    given = parser.parse_args()
    end(play(course, Proof("kwok", SETTINGS, chart=CHART), given))


if __name__ == "__main__":
    main()
