#!/usr/bin/env python3
"""The live sandbox's figures (docs/performance.md): python3 tests/live_figures.py, after cargo build --release.

Start to kubeconfig and first batch, memory, CPU while idle; then 5,000 pods applied at once: seconds until all are
bound, and how long the API takes to answer meanwhile.
"""

import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOVETAIL = ROOT / "target/release/dovetail"
TICKS = os.sysconf("SC_CLK_TCK")
WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: flood}
spec:
  replicas: 0
  selector: {matchLabels: {app: flood}}
  template:
    metadata: {labels: {app: flood}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: main, image: "pause:3", resources: {requests: {cpu: 250m, memory: 256Mi}}}
"""


class Live:
    """A sandbox, and when it said what."""

    def __init__(self, folder, *manifests):
        self.kubeconfig = os.path.join(folder, "kubeconfig")
        self.began = time.monotonic()
        arguments = [part for manifest in manifests for part in ("-f", str(manifest))]
        self.process = subprocess.Popen(
            [DOVETAIL, "sandbox", "--kubeconfig", self.kubeconfig, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        self.lines = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic() - self.began, line))

    def when(self, pattern):
        """Seconds after the start at which it first said this."""
        while True:
            for at, line in list(self.lines):
                if re.search(pattern, line):
                    return at
            if self.process.poll() is not None:
                sys.exit(f"the sandbox ended before it said {pattern!r}")
            time.sleep(0.02)

    def address(self):
        text = pathlib.Path(self.kubeconfig).read_text()
        return re.search(r'server: "http://([^"]+)"', text).group(1)

    def ask(self, method, path, body=None, kind="application/json"):
        connection = http.client.HTTPConnection(self.address(), timeout=120)
        began = time.monotonic()
        connection.request(method, path, body, {"Content-Type": kind, "Host": "localhost"})
        answer = connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            sys.exit(f"{method} {path}: {answer.status} {data[:300]}")
        return time.monotonic() - began, json.loads(data)

    def memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return {name: int(re.search(rf"{name}:\s+(\d+)", status).group(1)) // 1024 for name in ("VmRSS", "VmHWM")}

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def bound(self):
        _, pods = self.ask("GET", "/api/v1/namespaces/default/pods")
        return sum(1 for pod in pods["items"] if pod["spec"].get("nodeName")), len(pods["items"])

    def end(self):
        self.process.terminate()
        self.process.wait()


def small(folder):
    live = Live(folder, "deploy/examples/spot.yaml", "deploy/examples/inflate-400.yaml")
    print(f"kubeconfig after {live.when('kubeconfig: '):.2f} s, first batch after {live.when('batched 400 pods'):.2f} s")
    while True:
        _, deployment = live.ask("GET", "/apis/apps/v1/namespaces/default/deployments/inflate")
        if deployment["status"].get("readyReplicas") == 400:
            break
        time.sleep(0.2)
    print(f"400 pods running after {time.monotonic() - live.began:.1f} s")
    time.sleep(30)
    before, began = live.cpu(), time.monotonic()
    time.sleep(60)
    share = 100 * (live.cpu() - before) / (time.monotonic() - began)
    print(f"idle, 400 pods: {share:.2f} % of a core, {live.memory()['VmRSS']} MiB")
    live.end()


def flood(folder, count):
    pool = (ROOT / "deploy/examples/spot.yaml").read_text().replace("cpu: 1000", "cpu: 10000")
    (pathlib.Path(folder) / "pool.yaml").write_text(pool)
    live = Live(folder, os.path.join(folder, "pool.yaml"))
    live.when("elected")
    live.ask("POST", "/apis/apps/v1/namespaces/default/deployments", WORKLOAD, "application/yaml")
    waits, over = [], threading.Event()

    def probe():
        while not over.is_set():
            waits.append(live.ask("GET", "/api/v1/namespaces/kube-system")[0])
            time.sleep(0.05)

    prober = threading.Thread(target=probe)
    prober.start()
    began = time.monotonic()
    scale = json.dumps({"spec": {"replicas": count}})
    live.ask("PATCH", "/apis/apps/v1/namespaces/default/deployments/flood/scale", scale, "application/merge-patch+json")
    while True:
        bound, there = live.bound()
        if bound == count:
            break
        time.sleep(1)
    took = time.monotonic() - began
    over.set()
    prober.join()
    waits.sort()
    rank = lambda share: 1000 * waits[min(len(waits) - 1, int(share * len(waits)))]
    print(f"{count} pods bound after {took:.1f} s; the API answered in {rank(.5):.1f} ms (median), {rank(.99):.0f} ms (p99), {1000 * waits[-1]:.0f} ms (worst of {len(waits)})")
    print(f"memory at most {live.memory()['VmHWM']} MiB, {live.cpu():.1f} s of CPU")
    live.end()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        small(scratch)
        flood(scratch, 5000)
