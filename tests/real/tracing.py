#!/usr/bin/env python3
"""What tracing costs the replicas on the real control plane: the table of docs/performance.md, as Markdown.

    tracing.py [ROUNDS] [KIND…]      rounds of each kind, 5 unless said; kinds: off jaeger refused silent, all unless said

In each round two replicas start, 400 pods get nodes and go again, and the replicas end. Of one kind have no collector, of
the next Jaeger, of the next a port where nobody listens, of the last a Jaeger that stands still and answers nothing. The
kinds take turns, so that what else the machine does meets all of them alike. Before, the same is simulated with and without
spans.
"""

import collections
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import build
from cluster import Cluster
from joiner import instances
from kube import Kube
from load import REPLICAS, SHAPES, Pods, consumed, deployment, until
from parts import HERE, JAEGER, REGION

KINDS = ("off", "jaeger", "refused", "silent")
COUNT = 400
#: Of the simulation, with spans and without.
RUNS = 12
ROOT = HERE.parent.parent


def settings(cluster, kind):
    """The variables of a replica."""
    address = {"jaeger": cluster.parts.jaeger["grpc"], "silent": cluster.parts.jaeger["grpc"], "refused": "http://127.0.0.1:1"}
    return [f"OTEL_EXPORTER_OTLP_ENDPOINT={address[kind]}"] if kind in address else []


def play(cluster, kube, pods, number, kind):
    """CPU seconds, peak MiB of the larger replica, and seconds until all are Ready."""
    if kind == "silent":
        cluster.order(f"stop {JAEGER}")
    begun = {name: (cluster.state / "log" / f"{name}.log").stat().st_size if number else 0 for name in REPLICAS}
    for name in REPLICAS:
        cluster.start(name, settings(cluster, kind))
    said = lambda name: (cluster.state / "log" / f"{name}.log").read_bytes()[begun[name]:]
    until("a replica is elected", lambda: any(b'"elected"' in said(name) for name in REPLICAS))
    time.sleep(5)
    before, at = consumed(cluster)[0], time.monotonic()
    path = "/apis/apps/v1/namespaces/default/deployments"
    kube.create(path, deployment(number, *SHAPES[COUNT][0]))
    until("all are Ready", lambda: len(pods.ready) >= COUNT)
    ready = time.monotonic() - at
    kube.patch(f"{path}/load-{number}", {"spec": {"replicas": 0}})
    until("nothing is left", lambda: not pods.exist and not kube.list("/api/v1/nodes"))
    until("no instance is left", lambda: not list(instances(cluster.parts.aws, REGION)))
    cpu, peak = consumed(cluster)
    for name in REPLICAS:
        process = cluster.running.pop(name)
        process.terminate()
        process.wait()
    if kind == "silent":
        cluster.order(f"cont {JAEGER}")
    return cpu - before, max(peak), ready


def simulated():
    """The least CPU seconds of the simulated 400 pods without and with their spans, and how many spans these are: of the
    same run on virtual time, where nothing else moves."""
    scenario, kept = str(ROOT / "tests/simulation/scenarios/003-inflate-400.yaml"), build.TARGET / "run" / "traces.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    least = [float("inf"), float("inf")]
    for number in range(2 * RUNS):
        more = ["--traces", str(kept)] if number % 2 else []
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([ROOT / "target/release/dovetail", "simulate", scenario, "--json", *more], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        least[number % 2] = min(least[number % 2], spent)
    document = json.loads(kept.read_text())
    return least, sum(len(scope["spans"]) for one in document["resourceSpans"] for scope in one["scopeSpans"])


def main(rounds, kinds):
    (off, on), spans = simulated()
    print(f"simulated, the least of {RUNS} runs: {off:.3f} s of CPU without spans, {on:.3f} s with {spans} ({on / off:.3f})", flush=True)
    cluster = Cluster(build.TARGET / "run" / "tracing", boot=0, jaeger=True)
    rows = collections.defaultdict(list)
    try:
        cluster.begin()
        cluster.environment.pop("OTEL_EXPORTER_OTLP_ENDPOINT")
        kube = Kube(cluster.parts.server, cluster.parts.pki, "admin")
        cluster.kubectl("apply", "-f", str(HERE / "manifests/pool.yaml"))
        pods = Pods(kube)
        for number in range(rounds * len(kinds)):
            kind = kinds[number % len(kinds)]
            row = play(cluster, kube, pods, number, kind)
            rows[kind].append(row)
            print(f"round {number:2} {kind}: {row[0]:.2f} s of CPU, at most {row[1]} MiB, all Ready after {row[2]:.1f} s", flush=True)
        pods.ended = True
    finally:
        cluster.end()
    off = statistics.median(cpu for cpu, _, _ in rows["off"])
    print(f"\n{rounds} rounds of each kind, load average {os.getloadavg()[0]:.0f}\n")
    print("| collector | CPU seconds: least | median | most | to off | peak MiB | all Ready, median |")
    print("|---|---|---|---|---|---|---|")
    for kind in kinds:
        cpu, peak, ready = zip(*rows[kind])
        middle = statistics.median(cpu)
        print(f"| {kind} | {min(cpu):.2f} | {middle:.2f} | {max(cpu):.2f} | {middle / off:.3f} | {max(peak)} | {statistics.median(ready):.1f} s |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, sys.argv[2:] or KINDS)
