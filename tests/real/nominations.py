#!/usr/bin/env python3
"""What kube-scheduler makes of nominations: the drawn mixes of tests/crowding.py on a real API server and scheduler.

    nominations.py [MIX…]

Nodes are those that `dovetail plan` plans; they come one after another, in a quarter of the time that they take elsewhere.
Each mix is played twice: left to kube-scheduler, and with the pods of each node nominated to it from its registration until it
is ready, as the registrar does it (docs/decisions/044). Prints how many pods find no room on the planned nodes: each of them,
or several together, would launch one more. Run after `cargo build --release`; prints Markdown."""

import concurrent.futures
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

import cluster
from kube import Kube, Refused

sys.path.insert(0, str(cluster.ROOT / "tests"))
import crowding  # noqa: E402
from places import amount  # noqa: E402

PARTS = ("etcd", "kube-apiserver", "kube-scheduler")
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
#: Boot times are those of the sandbox, 20 to 60 s, by this.
PACE = 0.25
REGISTERS, READY, LOOK, SETTLES = 0.3, 2.5, 0.1, 14.0
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def owner(pod):
    return "-".join(pod.split("-")[:2])


class Control(cluster.Cluster):
    """etcd, API server and scheduler alone."""

    def __init__(self, state):
        programs, cluster.NEEDED = cluster.NEEDED, (*PARTS, "certs", "kubectl")
        try:
            super().__init__(state, 0)
        finally:
            cluster.NEEDED = programs
        for name in PARTS:
            self.start(name)


class Mix:
    """One mix on its planned nodes."""

    def __init__(self, kube, threads, number, folder):
        self.kube, self.threads = kube, threads
        rng = random.Random(number)
        rng.choice((17, 33, 97))
        self.workloads = {one[0]: one for one in crowding.workloads(rng)}
        crowding.play(cluster.BINARY, folder, number, "cost")
        plan = [cluster.BINARY, "plan", "-f", folder / "mix.yaml", "--region", "ca-west-1", "--json"]
        self.claims = json.loads(subprocess.run(plan, capture_output=True, check=True).stdout)["nodeClaims"]
        self.rooms = self.rooms_in(folder / "events.jsonl")
        boot = random.Random(number + 100)
        self.boots = [PACE * boot.uniform(20, 60) for _ in self.claims]
        self.lock = threading.Lock()

    def rooms_in(self, events):
        """What nodes of each type have for pods, as the simulation tells it."""
        found = {}
        for event in map(json.loads, events.read_text().splitlines()):
            if event.get("event") == "launched":
                parts = dict(one.split(": ") for one in event["allocatable"].split(", "))
                found[event["instance_type"]] = [amount(parts[name]) for name in ("cpu", "memory", "pods")]
        return found

    def room(self, node):
        claim = self.claims[node]
        asked = [amount(claim["requests"][name]) for name in ("cpu", "memory", "pods")]
        return self.rooms.get(claim["cheapestType"], asked)

    def requests(self, pod):
        _, _, cpu, memory, _ = self.workloads[owner(pod)]
        return [cpu / 1e3, memory * 2**20, 1]

    def patch(self, path, body):
        return self.kube.call("PATCH", path, body, MERGE)

    def pods(self):
        return {one["metadata"]["name"]: one for one in self.kube.list(f"{PODS}?limit=1000")}

    def create(self, pod):
        name, _, cpu, memory, more = self.workloads[owner(pod)]
        asked = re.search(r"nodeSelector: \{(.*): (.*)\}", more)
        resources = {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}
        spec = {"automountServiceAccountToken": False, "nodeSelector": dict([asked.groups()]) if asked else {},
                "containers": [{"name": "main", "image": "pause", "resources": resources}]}
        meta = {"name": pod, "namespace": "default", "labels": {"app": name}}
        self.kube.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def join(self, node):
        claim, room = self.claims[node], self.room(node)
        arch = "arm64" if re.match(r"[a-z]+[0-9]+g", claim["cheapestType"]) else "amd64"
        labels = {"kubernetes.io/hostname": f"n{node}", "kubernetes.io/arch": arch,
                  "topology.kubernetes.io/zone": claim["cheapestZone"]}
        self.kube.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{node}", "labels": labels},
                                           "spec": {"taints": [UNREGISTERED, NOT_READY]}})
        has = {"cpu": f"{round(room[0] * 1000)}m", "memory": str(int(room[1])), "pods": str(int(room[2]))}
        self.patch(f"/api/v1/nodes/n{node}/status", {"status": {"allocatable": has, "capacity": has}})

    def keep(self, nodes):
        """Nominates the pods expected on nodes, as many as fit, the largest first."""
        with self.lock:
            there = self.pods()
            bound = {name: pod["spec"].get("nodeName") for name, pod in there.items()}
            self.swap(bound)
            wanted = []
            for node in nodes:
                room, name = self.room(node), f"n{node}"
                free = list(room)
                for pod in (pod for pod, at in bound.items() if at == name):
                    free = [a - b for a, b in zip(free, self.requests(pod))]
                here = [pod for pod, home in self.home.items() if home == name and not bound.get(pod)]
                for pod in sorted(here, key=lambda pod: -max(a / b for a, b in zip(self.requests(pod), room))):
                    if all(a <= b for a, b in zip(self.requests(pod), free)):
                        free = [a - b for a, b in zip(free, self.requests(pod))]
                        if there[pod]["status"].get("nominatedNodeName") != name:
                            wanted.append((pod, name))
            list(self.threads.map(self.nominate, wanted))

    def nominate(self, one):
        pod, node = one
        try:
            self.patch(f"{PODS}/{pod}/status", {"status": {"nominatedNodeName": node}})
            self.writes += 1
        except Refused:
            pass

    def swap(self, bound):
        """A pod that takes the place of one like it leaves it its own."""
        for pod in [pod for pod, at in bound.items() if at and pod in self.home]:
            own, at = self.home.pop(pod), bound[pod]
            like = (other for other, home in self.home.items() if home == at and not bound.get(other) and owner(other) == owner(pod))
            if own != at and (other := next(like, None)):
                self.home[other] = own

    def play(self, kept):
        """The pods that find no room, and how many nominations were written."""
        self.home = {pod: f"n{node}" for node, claim in enumerate(self.claims) for pod in claim["podNames"]}
        self.writes, coming, over = 0, set(), threading.Event()
        for name in self.workloads:
            list(self.threads.map(self.create, [pod for pod in self.home if owner(pod) == name]))
        time.sleep(3)

        def look():
            while not over.wait(LOOK):
                if coming:
                    self.keep(sorted(coming))

        looking = threading.Thread(target=look, daemon=True)
        if kept:
            looking.start()
        begun = time.monotonic()
        steps = [(boot + after, step, node) for node, boot in enumerate(self.boots)
                 for step, after in enumerate((0, REGISTERS, READY))]
        for at, step, node in sorted(steps):
            time.sleep(max(0, begun + at - time.monotonic()))
            if step == 0:
                self.join(node)
                continue
            if step == 1 and kept:
                self.keep([node])
            (coming.add if step == 1 else coming.discard)(node)
            self.patch(f"/api/v1/nodes/n{node}", {"spec": {"taints": [NOT_READY] if step == 1 else None}})
        time.sleep(SETTLES)
        over.set()
        if kept:
            looking.join()
        there = self.pods()
        list(self.threads.map(lambda pod: self.kube.call("DELETE", f"{PODS}/{pod}?gracePeriodSeconds=0"), there))
        for node in range(len(self.claims)):
            self.kube.call("DELETE", f"/api/v1/nodes/n{node}")
        return sum(1 for pod in there.values() if not pod["spec"].get("nodeName")), self.writes


def main():
    numbers = [int(word) for word in sys.argv[1:]] or list(crowding.MIXES)
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(16) as threads:
        control = Control(pathlib.Path(scratch) / "state")
        try:
            kube = Kube(control.parts.server, control.parts.pki, "admin")
            time.sleep(3)
            kube.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            print("| mix | pods | nodes | without room | nominated | writes |\n|---|---|---|---|---|---|")
            for number in numbers:
                mix = Mix(kube, threads, number, pathlib.Path(scratch) / str(number))
                (plain, _), (kept, writes) = mix.play(False), mix.play(True)
                pods = sum(len(claim["podNames"]) for claim in mix.claims)
                print(f"| {number} | {pods} | {len(mix.claims)} | {plain} | {kept} | {writes} |", flush=True)
        finally:
            control.end()


if __name__ == "__main__":
    main()
