#!/usr/bin/env python3
"""One provisioner after another on the real control plane: what becomes of launches when the leader goes in mid-burst.

    handover.py [ROUNDS] [KIND…]      rounds of each kind, 5 unless said; kinds: SIGTERM SIGKILL zombie away deleted, all unless said

In each round new pods ask for nodes, and as soon as launching has begun (and up to a second and a half more) the leader
ends by SIGTERM or by SIGKILL, or stands still beyond its Lease and goes on as a zombie, or the API server stands still for
twice the Lease, or the Lease is deleted. Then every pod has to become Ready, every NodeClaim has to have its one running instance, every instance
its claim, and no claim may ever have had two (moto does not heed client tokens: a launch that is sent twice is seen).
Prints the distributions of docs/performance.md; ends with 1 when anything was doubled or lost.
"""

import collections
import os
import random
import statistics
import sys
import threading
import time

import build
from cluster import Cluster
from joiner import every_instance
from kube import Kube, Refused
from load import REPLICAS, Pods, comes, deployment, provisioned, until
from parts import REGION

KINDS = ("SIGTERM", "SIGKILL", "zombie", "away", "deleted")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election"
LEASE_SECONDS = 15
# A dozen of nodes a round: pods of a size of which few share a node.
PODS, CPU, MEMORY = 24, "1700m", "3Gi"
# What is in flight when a leader ends is settled by the next within so long.
SETTLE = 120


class Leader(threading.Thread):
    """Who leads, from the Lease, looked at fifty times a second."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.kube = Kube(cluster.parts.server, cluster.parts.pki, "admin")
        self.holder, self.since, self.ended = "", time.monotonic(), False
        self.start()

    def run(self):
        while not self.ended:
            try:
                holder = self.kube.call("GET", LEASE)["spec"].get("holderIdentity") or ""
                if holder != self.holder:
                    self.holder, self.since = holder, time.monotonic()
            except (OSError, Refused):
                pass
            time.sleep(0.02)

    def replica(self):
        """Its process's name; empty while nobody leads."""
        return next((name for name in REPLICAS if self.holder.startswith(name)), "")


class Round:
    """One burst, one mishap."""

    def __init__(self, cluster, kube, pods, leader, number, kind):
        self.cluster, self.kube, self.pods, self.leader = cluster, kube, pods, leader
        self.number, self.kind, self.chance = number, kind, random.Random(number)

    def claims(self):
        return self.kube.list("/apis/karpenter.sh/v1/nodeclaims")

    def play(self):
        """Seconds until another led (`None` where that is not the question), and until all was Ready."""
        before = {one["metadata"]["name"] for one in self.claims()}
        wanted = (self.number + 1) * PODS
        begun = time.monotonic()
        self.kube.create("/apis/apps/v1/namespaces/default/deployments", deployment(self.number, CPU, MEMORY, PODS))
        until("launching has begun", lambda: {one["metadata"]["name"] for one in self.claims()} - before)
        time.sleep(self.chance.uniform(0, 1.5))
        taken = self.mishap(self.leader.replica())
        until("every pod is Ready", lambda: len(self.pods.ready) >= wanted)
        ready = time.monotonic() - begun
        for name in REPLICAS:
            if name not in self.cluster.running:
                self.cluster.start(name)
        return taken, ready

    def mishap(self, old):
        process, at = self.cluster.running[old], time.monotonic()
        if self.kind == "away":
            self.cluster.order("stop kube-apiserver")
            time.sleep(2 * LEASE_SECONDS)
            self.cluster.order("cont kube-apiserver")
            return None
        if self.kind == "deleted":
            self.kube.call("DELETE", LEASE)
            until("somebody leads by a new Lease", self.leads_anew)
            return None
        if self.kind == "zombie":
            self.cluster.order(f"stop {old}")
        elif self.kind == "SIGKILL":
            self.cluster.kill(old)
        else:
            process.terminate()
        until("another leads", lambda: self.leader.replica() not in ("", old))
        taken = self.leader.since - at
        if self.kind == "zombie":
            # It goes on when another has begun in earnest.
            time.sleep(self.chance.uniform(0, 3))
            self.cluster.order(f"cont {old}")
        if self.kind == "SIGTERM":
            if process.wait(timeout=60):
                raise SystemExit(f"handover.py: {old} ended with {process.returncode} after SIGTERM")
            del self.cluster.running[old]
        return taken

    def leads_anew(self):
        """Whether there is a Lease again, and held."""
        try:
            return self.kube.call("GET", LEASE)["spec"].get("holderIdentity")
        except Refused:
            return False

    def wrong(self):
        """What is doubled or lost, once all has settled."""
        last = []
        def settled():
            last[:] = self.differences()
            return not last
        comes(settled, SETTLE)
        return last

    def differences(self):
        """Where claims and instances are not one to one."""
        claims = {one["status"].get("providerID", "").rsplit("/", 1)[-1]: one["metadata"]["name"] for one in self.claims()}
        every = list(every_instance(self.cluster.parts.aws, REGION))
        running = {one["id"] for one in every if one["state"] == "running"}
        told = [f"{name} has no running instance ({machine or 'none'})" for machine, name in claims.items() if machine not in running]
        told += [f"{machine} runs and has no claim" for machine in running - set(claims)]
        # A claim's launches have one token up to the number of the attempt.
        tokens = [one["tags"].get("dovetail.dev/launch-token", one["id"]).rsplit("-", 1)[0] for one in every]
        return told + [f"{token} launched {times} times" for token, times in collections.Counter(tokens).items() if times > 1]


def told(values):
    """A distribution in a table's cells."""
    if not values:
        return "| | | |"
    return f"| {min(values):.2f} | {statistics.median(values):.2f} | {max(values):.2f} |"


def play(rounds, kinds):
    cluster = Cluster(build.TARGET / "run" / "handover", boot=0)
    taken, ready, wrong = collections.defaultdict(list), collections.defaultdict(list), []
    try:
        kube = provisioned(cluster)
        leader, pods = Leader(cluster), Pods(kube)
        until("the leader is known", leader.replica)
        for number in range(rounds * len(kinds)):
            one = Round(cluster, kube, pods, leader, number, kinds[number % len(kinds)])
            seconds, all_ready = one.play()
            if seconds is not None:
                taken[one.kind].append(seconds)
            ready[one.kind].append(all_ready)
            found = one.wrong()
            wrong += [f"round {number} ({one.kind}): {what}" for what in found]
            after = "" if seconds is None else f"another led after {seconds:.2f} s, "
            print(f"round {number:2} {one.kind}: {after}all Ready after {all_ready:.1f} s; {len(one.claims())} claims"
                  + "".join(f"\n  WRONG: {what}" for what in found), flush=True)
            # The other replica has to stand ready before its leader goes.
            time.sleep(3)
        leader.ended = pods.ended = True
    finally:
        cluster.end()
    print(f"\n{rounds * len(kinds) - len({line.split(':')[0] for line in wrong})} of {rounds * len(kinds)} rounds without a"
          f" doubled or lost instance (load average {os.getloadavg()[0]:.0f})")
    print("\n| the leader's end | rounds | another leads: least | median | most | all Ready: least | median | most |")
    print("|---|---|---|---|---|---|---|---|")
    for kind in kinds:
        print(f"| {kind} | {len(ready[kind])} {told(taken[kind])[:-2]} {told(ready[kind])}")
    return wrong


if __name__ == "__main__":
    found = play(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2:] or KINDS)
    sys.exit(1 if found else 0)
