#!/usr/bin/env python3
"""One provisioner after another on the real control plane: what becomes of launches when the leader goes in mid-burst.

    handover.py [ROUNDS] [KIND…]      rounds of each kind, 5 unless said; kinds: SIGTERM SIGKILL zombie away deleted, all unless said

In each round new pods ask for a node each, and while NodeClaims are there without an instance (none launched yet, or a few)
the leader ends by SIGTERM or by SIGKILL, or stands still beyond its Lease and goes on as a zombie, or the API server stands
still for twice the Lease, or the Lease is deleted. Then every pod has to become Ready, every NodeClaim has to have its one
running instance, every instance its claim, and no claim may ever have had two (moto does not heed client tokens: a launch
that is sent twice is seen). Another has to lead within a second of a SIGTERM, and within the Lease's duration and a second of
a SIGKILL; and some rounds have to have had launches under way.
Prints the distributions of docs/performance.md; ends with 1 when anything was otherwise.
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
from load import PATIENCE, REPLICAS, Pods, comes, deployment, provisioned, until
from parts import REGION

KINDS = ("SIGTERM", "SIGKILL", "zombie", "away", "deleted")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election"
LEASE_SECONDS = 15
# Longest until another leads.
SOON = {"SIGTERM": 1, "SIGKILL": LEASE_SECONDS + 1}
# A dozen of nodes a round: no two pods share one. Launches merge: the leader ends during the first call, or when that has been
# answered for so many claims and the next is under way.
PODS, CPU, MEMORY, LAUNCHED = 12, "1700m", "3Gi", 2
TOKEN = "dovetail.dev/launch-token"
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
    """One burst, one fault."""

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
        self.kube.create("/apis/apps/v1/namespaces/default/deployments", alone(self.number))
        self.in_mid_burst(before)
        taken = self.fault(self.leader.replica())
        until("every pod is Ready", lambda: len(self.pods.ready) >= wanted)
        ready = time.monotonic() - begun
        for name in REPLICAS:
            if name not in self.cluster.running:
                self.cluster.start(name)
        return taken, ready

    def in_mid_burst(self, before):
        """Waits for claims without an instance, of which a few may have got theirs; looks without a pause between."""
        launched, until_then = self.chance.randrange(LAUNCHED), time.monotonic() + PATIENCE
        while time.monotonic() < until_then:
            own = [one for one in self.claims() if one["metadata"]["name"] not in before]
            self.look(own)
            if own and (self.waiting == 0 or self.flying and len(own) - self.waiting >= launched):
                self.before = before
                return
        raise SystemExit("handover.py: never came to pass: launching has begun")

    def look(self, own):
        """How many claims have no instance, and for how many of them a launch is under way: their token is written before it is sent."""
        bare = [one for one in own if not one.get("status", {}).get("providerID")]
        self.waiting = len(bare)
        self.flying = sum(TOKEN in one["metadata"].get("annotations", {}) for one in bare)

    def fault(self, old):
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
            self.look_again()
        elif self.kind == "SIGKILL":
            self.cluster.kill(old)
            self.look_again()
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

    def look_again(self):
        """What it has left behind: nobody leads now."""
        self.look([one for one in self.claims() if one["metadata"]["name"] not in self.before])

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
        # The launches of a claim, or of the claims of one call, have one token up to the number of the attempt.
        call = lambda token: token.rsplit("-", 1)[0]
        asked = collections.Counter(call(one["metadata"].get("annotations", {}).get(TOKEN, "")) for one in self.claims())
        launched = collections.Counter(call(one["tags"].get(TOKEN, one["id"])) for one in every)
        more = {token: times for token, times in launched.items() if times > max(1, asked[token])}
        return told + [f"{token} launched {times} for {asked[token]} claim(s)" for token, times in more.items()]


def alone(number):
    """A Deployment whose pods have a node each."""
    made = deployment(number, CPU, MEMORY, PODS)
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": made["spec"]["selector"]}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    made["spec"]["template"]["spec"]["affinity"] = affinity
    return made


def told(values, digits=2):
    """A distribution in a table's cells."""
    if not values:
        return "| | | |"
    return "".join(f"| {value:.{digits}f} " for value in (min(values), statistics.median(values), max(values))) + "|"


def play(rounds, kinds):
    cluster = Cluster(build.TARGET / "run" / "handover", boot=0)
    taken, ready, flying = (collections.defaultdict(list) for _ in range(3))
    wrong = []
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
            flying[one.kind].append(one.flying)
            found = one.wrong()
            if seconds is not None and seconds >= SOON.get(one.kind, float("inf")):
                found.append(f"another led after {seconds:.2f} s, asked for within {SOON[one.kind]} s")
            wrong += [f"round {number} ({one.kind}): {what}" for what in found]
            after = "" if seconds is None else f"another led after {seconds:.2f} s, "
            print(f"round {number:2} {one.kind}: {after}all Ready after {all_ready:.1f} s; {len(one.claims())} claims,"
                  f" {one.waiting} of them without an instance and {one.flying} launches under way at the leader's end"
                  + "".join(f"\n  WRONG: {what}" for what in found), flush=True)
            # The other replica has to stand ready before its leader goes.
            time.sleep(3)
        leader.ended = pods.ended = True
    finally:
        cluster.end()
    every = [count for counts in flying.values() for count in counts]
    print(f"\n{rounds * len(kinds) - len({line.split(':')[0] for line in wrong})} of {rounds * len(kinds)} rounds without a"
          f" doubled or lost instance, or a slow hand-over; in {sum(count > 0 for count in every)} of them launches were under way,"
          f" {sum(every)} in all (load average {os.getloadavg()[0]:.0f})")
    print("\n| the leader's end | rounds | launches under way: least | median | most | another leads: least | median | most | all Ready: least | median | most |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for kind in kinds:
        print(f"| {kind} | {len(ready[kind])} {told(flying[kind], 0)[:-2]} {told(taken[kind])[:-2]} {told(ready[kind])}")
    if 2 * sum(count > 0 for count in every) < len(every):
        wrong.append(f"in {sum(count > 0 for count in every)} of {len(every)} rounds alone launches were under way: that is not mid-burst")
        print(f"WRONG: {wrong[-1]}")
    return wrong


if __name__ == "__main__":
    found = play(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2:] or KINDS)
    sys.exit(1 if found else 0)
