#!/usr/bin/env python3
"""Node repair on the real control plane: Nodes of the provider kwok, and conditions that this script writes.

    repair.py [--nodes 10]

Each node has one pod, under a PodDisruptionBudget of one and a budget of one for `Unhealthy`.

two: two nodes fall sick. They go one after the other, each when its successor stands, and one pod is away at a time.

alarm: six of ten nodes report the same at the same moment, and the fifth of these something else as well. It goes first. When it
is about to, three of the others recover: none of those that are still sick follows, and the log says why. Then all have recovered,
and all stay.

The conditions are those that are repaired on kwok's nodes (docs/guide/kwok.md). They count from their lastTransitionTime, which
lies back here but for a moment. As none counts as older than its Node, the Nodes are made a day older first: in etcd, as no API
server does that.
"""

import argparse
import base64
import datetime
import json
import threading
import time
import urllib.request

from kube import Refused
from load import deployment
from proof import CLAIMS, DEPLOYMENTS, Proof, condition, end, play, status_of
from kwok_provider import CHART, CRD, KWOK_CLASSES, POOL, SETTINGS

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
#: Conditions that are unhealthy while they are True, and the time for which they are tolerated.
UNHEALTHY, REBOOT = "KWOKUnhealthy", "KWOKRebootRequired"
TOLERATED = datetime.timedelta(seconds=30)
#: All nodes of an alarm report it before the first of them is due.
AHEAD = datetime.timedelta(seconds=20)
#: A part of the nodes that is no coincidence: more than a fifth share a condition.
ALARM = 0.6


class Watch(threading.Thread):
    """Ready pods and initialized nodes, looked at ten times a second, and those at the moment each claim began to go."""

    def __init__(self, proof):
        super().__init__(daemon=True)
        self.proof, self.ended = proof, False
        self.least, self.going, self.begun = None, {}, []
        self.start()

    def run(self):
        while not self.ended:
            try:
                self.look()
            except (OSError, Refused):
                pass
            time.sleep(0.1)

    def look(self):
        claims = self.proof.claims()
        standing = sum(status_of(one, "Initialized") == "True" and "deletionTimestamp" not in one["metadata"] for one in claims.values())
        ready = len(self.proof.ready_pods())
        if self.least is not None:
            self.least = min(self.least, ready)
        for name, one in claims.items():
            reason = condition(one, "DisruptionReason")
            if reason and reason["status"] == "True" and name not in self.begun:
                self.begun.append(name)
            if "deletionTimestamp" in one["metadata"] and name not in self.going:
                self.going[name] = standing

    def judge_from_now(self):
        """From now on the least number of Ready pods counts."""
        self.least = len(self.proof.ready_pods())


def write_condition(proof, node, kind, status, due, reason="Scripted"):
    """Writes a condition that is tolerated until then."""
    since = text_of(due - TOLERATED)
    one = {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": since}
    path = f"/api/v1/nodes/{node}/status"
    proof.kube.call("PATCH", path, {"status": {"conditions": [one]}}, "application/strategic-merge-patch+json")


def text_of(time_of):
    """A time as Kubernetes writes it."""
    return time_of.strftime("%Y-%m-%dT%H:%M:%SZ")


def ask_etcd(proof, call, body):
    """An answer of etcd's gateway."""
    address = f"http://127.0.0.1:{proof.cluster.parts.port['etcd']}/v3/kv/{call}"
    request = urllib.request.Request(address, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def make_older(proof, node):
    """Writes a Node's creationTimestamp, a day earlier, unless something else is written meanwhile."""
    coded = lambda text: base64.b64encode(text.encode()).decode()
    key = coded(f"/registry/minions/{node}")
    there = ask_etcd(proof, "range", {"key": key})["kvs"][0]
    stored = json.loads(base64.b64decode(there["value"]))
    created = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
    stored["metadata"]["creationTimestamp"] = text_of(created)
    same = {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": there["mod_revision"]}
    put = {"requestPut": {"key": key, "value": coded(json.dumps(stored))}}
    return ask_etcd(proof, "txn", {"compare": [same], "success": [put]}).get("succeeded", False)


def in_a_moment():
    """The moment at which what is written now is due."""
    return datetime.datetime.now(datetime.timezone.utc) + AHEAD


def claim_of(proof, node):
    """The name of a node's claim."""
    return next(name for name, one in proof.claims().items() if one.get("status", {}).get("nodeName") == node)


def workload(count):
    """Pods of which no two share a node."""
    made = deployment(0, "900m", "1Gi", count)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "load-0"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made["spec"]["template"]["spec"]["affinity"] = apart
    return made


def begin(proof, given):
    """So many nodes with a pod each."""
    proof.apply(CRD.read_text())
    proof.until("the class is served", lambda: proof.kube.list(KWOK_CLASSES) == [])
    pool = (POOL % "0s").replace("WhenEmptyOrUnderutilized", "WhenEmpty").replace("consolidateAfter: 0s", "consolidateAfter: Never")
    proof.apply(pool.replace('budgets: [{nodes: "100%"}]', 'budgets: [{nodes: "1", reasons: [Unhealthy]}]'))
    proof.replicas_start("dovetail-0", "dovetail-1")
    proof.until("class and pool are Ready", lambda: proof.events("node_pool", ready=True))
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "load-0"}}}
    proof.kube.create(BUDGETS, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "load"}, "spec": budget})
    proof.kube.create(DEPLOYMENTS, workload(given.nodes))
    proof.until("every pod is Ready", lambda: len(proof.ready_pods()) == given.nodes)
    initialized = lambda: sum(status_of(one, "Initialized") == "True" for one in proof.claims().values())
    proof.until("every node is initialized", lambda: initialized() == given.nodes)
    for node in proof.nodes():
        proof.until(f"node {node} is made older", lambda node=node: make_older(proof, node))
    day_ago = text_of(datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=23))
    proof.until("the API server shows older nodes", lambda: all(one["metadata"]["creationTimestamp"] < day_ago for one in proof.nodes().values()))


def settled(proof, watch, gone, given):
    """Whether these claims have gone, and all pods are Ready on as many nodes as before."""
    claims = proof.claims()
    return not gone & set(claims) and len(claims) == given.nodes == len(proof.ready_pods()) and gone <= set(watch.going)


def two(proof, watch, given):
    """Two of ten fall sick at the same time, of different things."""
    first, second = sorted(proof.nodes())[:2]
    gone = {claim_of(proof, first), claim_of(proof, second)}
    due = in_a_moment()
    write_condition(proof, first, UNHEALTHY, "True", due, "StorageIsGone")
    write_condition(proof, second, UNHEALTHY, "True", due, "KernelHangs")
    took = proof.until("two sick nodes are replaced", lambda: settled(proof, watch, gone, given))
    proof.row("seconds until two sick nodes are replaced, one after the other", f"{took:.1f}")
    proof.check("they alone went", set(watch.going) == gone, sorted(watch.going))
    standing = [watch.going[name] for name in gone]
    # The node itself stands no more when its claim is seen to go.
    proof.check("a successor stood before each went", min(standing) >= given.nodes, f"{standing} others were initialized")
    proof.check("one pod was away at a time", watch.least >= given.nodes - 1, f"{watch.least} Ready at least")
    return gone


def alarm(proof, watch, before, given):
    """One is broken among six with a false alarm, which ends."""
    created = {name: one["metadata"]["creationTimestamp"] for name, one in proof.nodes().items()}
    # Successors of those that have gone are the youngest.
    shared = sorted(created, key=lambda name: (created[name], name))[: int(given.nodes * ALARM)]
    broken = shared[4]
    claim, due, begun = claim_of(proof, broken), in_a_moment(), len(watch.begun)
    for node in shared:
        write_condition(proof, node, UNHEALTHY, "True", due)
    # No gate is open for reboots: it is replaced.
    write_condition(proof, broken, REBOOT, "True", due)
    proof.until("a repair begins", lambda: len(watch.begun) > begun)
    proof.check("the broken one is repaired first", watch.begun[begun:] == [claim], f"{watch.begun[begun:]}, broken is {claim}")
    rest = [one for one in shared if one != broken]
    for node in rest[:3]:
        write_condition(proof, node, UNHEALTHY, "False", due)
    said = lambda: [one for one in proof.events("node_repair_blocked") if "recover" in one.get("why", "")]
    proof.until("the log says that others wait, as nodes recover", said)
    took = proof.until("the broken node is replaced", lambda: settled(proof, watch, {claim}, given))
    proof.row("seconds until the broken one of six is replaced", f"{took:.1f}")
    told = proof.kubernetes_events("NodeRepairBlocked")
    proof.check("nodes have the event NodeRepairBlocked", told, f"{len(told)} events")
    for node in rest[3:]:
        write_condition(proof, node, UNHEALTHY, "False", due)
    # Everything that would be due is looked at many times in this minute.
    time.sleep(60)
    proof.check("none of the others went when the alarm had ended", set(watch.going) == before | {claim}, sorted(watch.going))
    proof.check("a successor stood before the broken one went", watch.going[claim] >= given.nodes, watch.going[claim])
    proof.check("one pod was away at a time", watch.least >= given.nodes - 1, f"{watch.least} Ready at least")


def course(proof, given):
    """Sick nodes are repaired places first, one by one, and an alarm is no verdict."""
    begin(proof, given)
    watch = Watch(proof)
    watch.judge_from_now()
    alarm(proof, watch, two(proof, watch, given), given)
    watch.ended = True
    proof.kube.patch(f"{DEPLOYMENTS}/load-0/scale", {"spec": {"replicas": 0}})
    proof.kube.call("DELETE", "/apis/karpenter.sh/v1/nodepools/default")
    proof.until("nothing is left", lambda: not proof.kube.list(CLAIMS) and not proof.nodes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10)
    given = parser.parse_args()
    proof = Proof("repair", SETTINGS, chart=(*CHART, "settings.featureGates.nodeRepair=true"))
    # What is stored has to be readable.
    proof.cluster.parts.api_flags = ("--storage-media-type=application/json",)
    end(play(course, proof, given))


if __name__ == "__main__":
    main()
