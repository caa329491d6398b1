#!/usr/bin/env python3
"""What two replicas do under load on the real control plane: the figures of docs/performance.md, as Markdown.

    load.py [400] [5000]      which of the two; both unless said

400 pods are one Deployment of 250m CPU and 256Mi, 5,000 are five Deployments of five shapes. Instances join in no time, as
with the peer's figures. Pods are watched, so that what is measured costs the API server little.
"""

import http.client
import json
import os
import pathlib
import sys
import threading
import time

import build
from cluster import Cluster
from joiner import instances
from kube import Kube
from parts import HERE, REGION

SHAPES = {
    400: [("250m", "256Mi", 400)],
    5000: [("100m", "128Mi", 1000), ("250m", "512Mi", 1000), ("500m", "1Gi", 1000), ("1", "1Gi", 1000), ("1500m", "4Gi", 1000)],
}
REPLICAS = ("dovetail-0", "dovetail-1")
PATIENCE = 900


class Expired(Exception):
    """The API server no longer knows what came since."""


class Pods:
    """Every pod as the API server tells of it, from a watch in a thread; one that was too slow and is ended goes on."""

    def __init__(self, kube):
        self.kube, self.exist, self.bound, self.ready, self.ended = kube, set(), set(), set(), False
        self.list()
        threading.Thread(target=self.follow, daemon=True).start()

    def list(self):
        """All of them at once: at the start, and when the API server no longer knows what came since."""
        found = self.kube.call("GET", "/api/v1/namespaces/default/pods")
        for known in (self.exist, self.bound, self.ready):
            known.clear()
        self.version = found["metadata"]["resourceVersion"]
        for pod in found["items"]:
            self.hear({"type": "ADDED", "object": pod})
        self.version = found["metadata"]["resourceVersion"]

    def follow(self):
        while not self.ended:
            # A watch that hears nothing may be one that nobody serves any more.
            connection = http.client.HTTPSConnection(self.kube.address, context=self.kube.tls, timeout=60)
            try:
                connection.request("GET", f"/api/v1/namespaces/default/pods?watch=1&resourceVersion={self.version}")
                stream, text = connection.getresponse(), b""
                while more := stream.read1(1 << 16):
                    *lines, text = (text + more).split(b"\n")
                    for line in lines:
                        self.hear(json.loads(line))
            except Expired:
                self.list()
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
            connection.close()

    def hear(self, event):
        if event["type"] == "ERROR":
            raise Expired(event["object"])
        if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
            pod = event["object"]
            self.version = pod["metadata"]["resourceVersion"]
            name, there = pod["metadata"]["name"], event["type"] != "DELETED"
            conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", [])}
            for known, holds in (
                (self.exist, True), (self.bound, pod["spec"].get("nodeName")), (self.ready, conditions.get("Ready") == "True"),
            ):
                known.add(name) if there and holds else known.discard(name)


def deployment(number, cpu, memory, count):
    """A Deployment of pods that ask for so much."""
    name = f"load-{number}"
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}},
    }


def planned_price(cluster):
    """What the replicas planned, in $ an hour: what EC2 sells first, the cheapest option of each claim. moto draws lots among a claim's options."""
    logs = [(cluster.state / "log" / f"{name}.log").read_text().splitlines() for name in REPLICAS]
    lines = [json.loads(line) for log in logs for line in log if '"packing_computed"' in line]
    return sum(line["price"] for line in lines if line["event"] == "packing_computed")


def seconds_of_cpu(pid):
    """What a process has consumed so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shares(cluster):
    """CPU seconds so far of every part, and of this program that watches."""
    parts = {name: seconds_of_cpu(process.pid) for name, process in cluster.running.items()}
    return parts | {"load.py": time.process_time()}


def consumed(cluster):
    """CPU seconds and peak resident MiB of the replicas."""
    cpu, peak = 0.0, []
    for name in REPLICAS:
        process = pathlib.Path(f"/proc/{cluster.running[name].pid}")
        cpu += seconds_of_cpu(process.name)
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        peak.append(int(status["VmHWM"].split()[0]) // 1024)
    return cpu, peak


def comes(holds, patience):
    """Waits; whether it came to pass in time."""
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > patience:
            return False
        time.sleep(0.1)
    return True


def until(what, holds):
    """Waits; ends everything when it takes too long."""
    if not comes(holds, PATIENCE):
        raise SystemExit(f"{pathlib.Path(sys.argv[0]).name}: never came to pass: {what}")


def provisioned(cluster, settings=lambda replica: ()):
    """Begins a cluster with a pool and two replicas; comes back with a client when one has led for a while. `settings` answers
    what a replica is started with besides."""
    cluster.begin()
    kube = Kube(cluster.parts.server, cluster.parts.pki, "admin")
    cluster.kubectl("apply", "-f", str(HERE / "manifests/pool.yaml"))
    for name in REPLICAS:
        cluster.start(name, settings(name))
    # A leader that was elected a moment ago reads what EC2 offers; what is measured is one that has led for a while.
    elected = lambda: any("elected" in (cluster.state / "log" / f"{name}.log").read_text() for name in REPLICAS)
    until("a replica is elected", elected)
    time.sleep(15)
    return kube


def measure(count):
    """One cluster, one load, one row."""
    cluster = Cluster(build.TARGET / "run" / f"load-{count}", boot=0)
    try:
        kube = provisioned(cluster)
        pods, before, had, begun = Pods(kube), consumed(cluster)[0], shares(cluster), time.monotonic()
        for number, shape in enumerate(SHAPES[count]):
            kube.create("/apis/apps/v1/namespaces/default/deployments", deployment(number, *shape))
        seconds = {}
        def step(name, holds):
            until(name, holds)
            seconds[name] = time.monotonic() - begun
        claims = lambda: kube.list("/apis/karpenter.sh/v1/nodeclaims")
        first = threading.Thread(target=step, args=("first claim", claims))
        first.start()
        step("pods exist", lambda: len(pods.exist) >= count)
        step("all bound", lambda: len(pods.bound) >= count)
        spent = {name: now - had[name] for name, now in shares(cluster).items()}
        step("all Ready", lambda: len(pods.ready) >= count)
        first.join()
        found = kube.list("/api/v1/nodes")
        cpu, peak = consumed(cluster)
        types = {}
        for node in found:
            name = node["metadata"]["labels"]["node.kubernetes.io/instance-type"]
            types[name] = types.get(name, 0) + 1
        begun = time.monotonic()
        for number, _ in enumerate(SHAPES[count]):
            kube.patch(f"/apis/apps/v1/namespaces/default/deployments/load-{number}", {"spec": {"replicas": 0}})
        step("scale-in to nothing", lambda: not pods.exist and not kube.list("/api/v1/nodes"))
        until("no instance is left", lambda: not list(instances(cluster.parts.aws, REGION)))
        pods.ended = True
        total, peak = consumed(cluster)
        return {**seconds, "nodes": len(found), "price": planned_price(cluster), "types": types, "spent": spent, "cpu": cpu - before, "cpu with scale-in": total - before, "peak": peak}
    finally:
        cluster.end()


def main(counts):
    for count in counts:
        row = measure(count)
        load = os.getloadavg()[0]
        print(f"\n{count} pods (load average {load:.0f}):")
        for name in ("pods exist", "first claim", "all bound", "all Ready", "scale-in to nothing"):
            print(f"| {name} | {row[name]:.1f} s |")
        print(f"| nodes | {row['nodes']}: {', '.join(f'{n} {t}' for t, n in sorted(row['types'].items()))} |")
        print(f"| price, the cheapest option of each claim | {row['price']:.2f} $/h |")
        print(f"| CPU seconds, both replicas, until all are Ready; with the scale-in | {row['cpu']:.1f}; {row['cpu with scale-in']:.1f} |")
        spent = ", ".join(f"{name} {cpu:.0f}" for name, cpu in sorted(row["spent"].items(), key=lambda one: -one[1]) if cpu >= 0.5)
        print(f"| CPU seconds of all parts until all are bound | {sum(row['spent'].values()):.0f}: {spent} |")
        print(f"| peak RSS, the one and the other | {row['peak'][0]} and {row['peak'][1]} MiB |", flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [400, 5000])
