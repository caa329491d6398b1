#!/usr/bin/env python3
"""What a thousand nodes take, and what grows faster than the cluster: `cargo xtask proof scale`.

    python3 tests/growth.py [PART…] [--minutes 20]

Parts: burst (pods of a node each, by EC2's published buckets), killed (the leader is killed at ten moments of a burst, over as many
seeds as fit into a quarter of the time), simulate (what `simulate` itself takes, by size), sizes (CPU of the control plane and memory,
by size and by what happens), day (hours of churn, and memory). All of them unless named. Prints the tables of docs/performance.md, and
ends with 1 if something is missed. The binary is `DOVETAIL`, target/release/dovetail unless given.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("DOVETAIL", str(ROOT / "target/release/dovetail"))
FOLDER = ROOT / "target/growth"
PARTS = ("burst", "killed", "simulate", "sizes", "day")
REGION = "ca-west-1"

CLASS = """apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
---
"""
POOL = """apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  disruption: {disruption}
  template:
    spec:
      expireAfter: Never
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements:
        - {{key: karpenter.sh/capacity-type, operator: In, values: [{bought}]}}
        - {{key: {key}, operator: In, values: [{types}]}}
---
"""
WORKLOAD = """apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}, of: burst}}, annotations: {{example.com/release: "{release}"}}}}
    spec:
      terminationGracePeriodSeconds: 1
{rules}      containers: [{{name: main, image: pause, resources: {{requests: {{cpu: {cpu}m, memory: {memory}Mi}}}}}}]
---
"""
A_NODE_EACH = """      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {of: burst}}}
"""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
CATEGORY = "karpenter.k8s.aws/instance-category"
MISSED = []


def asked(what, reached, most):
    """Notes what is missed; returns the figure as the table has it."""
    if reached > most:
        MISSED.append(f"{what}: {reached:.4g}, asked for are {most} at most")
    return f"{reached:.4g}"


def pool(types, key=INSTANCE_TYPE, bought="on-demand", disruption="{consolidationPolicy: WhenEmpty, consolidateAfter: Never}"):
    return CLASS + POOL.format(types=types, key=key, bought=bought, disruption=disruption)


class Run:
    """A scenario that was played: its report, its events, and what it took."""

    def __init__(self, name, manifests, scenario, seed=1, events=True, cost=False, more=None):
        folder = FOLDER / f"{name}-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "workload.yaml").write_text(manifests)
        for file, text in (more or {}).items():
            (folder / file).write_text(text)
        (folder / "scenario.yaml").write_text(f"region: {REGION}\napply: [workload.yaml]\n{scenario}")
        self.log = folder / "events.jsonl"
        command = [BINARY, "simulate", str(folder / "scenario.yaml"), "--json", "--seed", str(seed)]
        command += ["--events", str(self.log)] if events else []
        command += ["--cost"] if cost else []
        begun = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = child.communicate()
        self.seconds, self.said = time.monotonic() - begun, err
        self.costs = [tuple(map(float, one)) for one in COST.findall(err)]
        if child.returncode not in (0, 1) or not out:
            raise SystemExit(f"{name}: {err[-2000:]}")
        self.report = json.loads(out)
        self.violations = self.report["invariants"]["violations"]
        self.pending = self.report["pods"]["pending"]

    def entries(self):
        with self.log.open() as lines:
            for line in lines:
                yield json.loads(line)

    def holds(self, what, pods):
        """Everything is bound and no invariant is violated."""
        for violation in self.violations[:3]:
            MISSED.append(f"{what}: {violation['id']} {violation['what']}")
        if self.pending or self.report["pods"]["bound"] != pods:
            MISSED.append(f"{what}: {self.report['pods']['bound']} of {pods} pods bound, {len(self.pending)} pending")
        self.log.unlink(missing_ok=True)


COST = re.compile(r"cost at (\d+) s: ([\d.]+) CPU seconds of replicas, ([\d.]+) of all; (\d+) MiB, (\d+) at most")


# -- Bursts


def burst_manifests(pods, shapes):
    if shapes == 1:
        return pool("m5.large, m6i.large") + workload("web", pods, 500, 256, A_NODE_EACH)
    text = pool("c, m, r", CATEGORY)
    for shape in range(shapes):
        share = pods // shapes + (shape < pods % shapes)
        text += workload(f"web-{shape}", share, 300 + 290 * shape, 256 + 640 * (shape % 7), A_NODE_EACH)
    return text


def workload(name, replicas, cpu, memory, rules="", release=1):
    return WORKLOAD.format(name=name, replicas=replicas, cpu=cpu, memory=memory, rules=rules, release=release)


def burst(name, pods, shapes, goals):
    """Plays a burst; a row of its table."""
    run = Run(f"burst-{name}", burst_manifests(pods, shapes), "faults: {ec2: {requestLimits: true}}\nsettled: 1m\nuntil: 40m\n")
    calls, first, bound, begun, ready, writes, throttled = [], None, 0.0, {}, {}, collections.Counter(), 0
    for event in run.entries():
        kind, at = event["kind"], event["t"]
        if kind == "aws" and event.get("action") == "CreateFleet" and event["replica"] is not None:
            calls.append(event.get("sent", {}).get("t", at))
        if kind == "aws" and event.get("code") == "RequestLimitExceeded":
            throttled += 1
        if kind == "api" and event["replica"] is not None and event.get("resource") == "nodeclaims":
            if event["verb"] == "create" and first is None:
                first = at
            writes[event["verb"]] += 1
        if kind == "pod" and event.get("change") == "bound":
            bound = at
        if kind == "instance" and event.get("change") in ("pending", "launched") and event["id"] not in begun:
            begun[event["id"]] = at
        if kind == "node" and event.get("change") == "joined":
            ready.setdefault(event["name"], [event["instance"], None])
        if kind == "node" and event.get("change") == "ready" and event["name"] in ready:
            ready[event["name"]][1] = ready[event["name"]][1] or at
    boots = [at - begun[instance] for instance, at in ready.values() if at and instance in begun]
    slowest = max(boots, default=0.0)
    sent, most = max(calls) - first, goals.get("calls")
    row = [name, f"{pods:,}", str(len(calls)), f"{sent:.1f}", f"{bound - first:.1f}", f"{slowest:.1f}"]
    row += [f"{sum(writes.values()) / pods:.1f}", str(throttled), f"{run.seconds:.1f}"]
    if most:
        asked(f"{name}: CreateFleet calls", len(calls), most)
        asked(f"{name}: seconds to the last call", sent, goals["seconds"])
    if "bound" in goals:
        asked(f"{name}: seconds to the last bound pod, less the slowest boot", bound - first - slowest, goals["bound"])
    run.holds(name, pods)
    return row


def bursts(_):
    print("| burst | pods | CreateFleet calls | last sent, s | all bound, s | slowest boot, s | writes of claims a node | throttled | real s |")
    print("|---|---|---|---|---|---|---|---|---|")
    all_bursts = [
        ("one shape", 1000, 1, {"calls": 20, "seconds": 15, "bound": 15}),
        ("50 shapes", 1000, 50, {"calls": 120, "seconds": 40, "bound": 40}),
        ("hundred", 100, 1, {"calls": 6, "seconds": 3}),
        ("one", 1, 1, {"calls": 1, "seconds": 0.5}),
        ("beyond EC2's thousand", 1300, 1, {}),
    ]
    for one in all_bursts:
        print("| " + " | ".join(burst(*one)) + " |", flush=True)


# -- The leader's end


def killed_once(job):
    pods, seed, moment = job
    steps = f"replicas: 2\nsteps:\n  - {{at: {moment:.2f}s, kill: {{replica: leader, for: 1m}}}}\n"
    run = Run(f"killed-{pods}", burst_manifests(pods, 1), f"{steps}settled: 3m\nuntil: 40m\n", seed, events=False)
    what = f"{pods} pods, killed at {moment:.2f} s, seed {seed}"
    wrong = [f"{what}: {one['id']} {one['what']}" for one in run.violations[:3]]
    nodes, bound = len(run.report["nodes"]), run.report["pods"]["bound"]
    if run.pending or bound != pods or nodes != pods:
        wrong.append(f"{what}: {bound} pods bound on {nodes} nodes")
    return run.report["launched"] - pods, wrong


def killed(minutes):
    """As many seeds as the time allows, each with its ten moments."""
    rng, until = random.Random(1), time.monotonic() + minutes * 60 / 4
    runs, more, seed = 0, collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        while time.monotonic() < until:
            seed += 1
            pods = 1000 if seed == 1 else 60
            jobs = [(pods, 10 * seed + number, 1.0 + number * 0.45 + rng.uniform(0, 0.45)) for number in range(10)]
            for launched, wrong in threads.map(killed_once, jobs):
                runs += 1
                more[launched] += 1
                MISSED.extend(wrong)
    launched = ", ".join(f"{extra} more in {count}" for extra, count in sorted(more.items()))
    print(f"\nThe leader killed at ten moments of a burst, {runs} runs: launched beyond one a pod, and ended by the janitor: {launched}.")


# -- What simulate itself takes


def cpu_of(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def simulated(_):
    print("\n| `simulate` | CPU s | to 100 nodes | asked |")
    print("|---|---|---|---|")
    taken = {}
    for nodes in (100, 300, 1000):
        folder = FOLDER / f"simulate-{nodes}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "workload.yaml").write_text(burst_manifests(nodes, 1))
        (folder / "scenario.yaml").write_text(f"region: {REGION}\nseed: 1\napply: [workload.yaml]\nuntil: 20m\n")
        taken[nodes] = cpu_of([BINARY, "simulate", str(folder / "scenario.yaml"), "--json"])
        times = taken[nodes] / taken[100]
        goal = "13 times, 40 s" if nodes == 1000 else ""
        print(f"| {nodes} nodes, 20 virtual minutes | {taken[nodes]:.2f} | {times:.1f} | {goal} |", flush=True)
    asked("simulate: CPU of 1,000 nodes to that of 100", taken[1000] / taken[100], 13)
    asked("simulate: CPU seconds of 1,000 nodes", taken[1000], 40)
    least = min(cpu_of([BINARY, "simulate", str(ROOT / "deploy/examples/scenario.yaml"), "--json"]) for _ in range(3))
    print(f"| README's scenario, a virtual minute | {least / 10:.3f} | | 0.1 s |", flush=True)
    asked("simulate: CPU seconds a virtual minute of README's scenario", least / 10, 0.1)


# -- The control plane by size


def sizes(_):
    print("\n| nodes | pods | phase | CPU s of the control plane | of all | MiB of all, at most |")
    print("|---|---|---|---|---|---|")
    taken = {}
    for nodes, pods in ((100, 1000), (1000, 20000)):
        for phase, own, everything, peak in by_phase(nodes, pods):
            taken[nodes, phase] = own
            print(f"| {nodes:,} | {pods:,} | {phase} | {own:.2f} | {everything:.2f} | {peak:.0f} |", flush=True)
    for phase in dict.fromkeys(phase for _, phase in taken):
        small, large = taken[100, phase], taken[1000, phase]
        # Twenty times the pods: a bound for ten times of both.
        asked(f"control plane: {phase}, CPU of 1,000 nodes and 20,000 pods to that of 100 and 1,000", large / max(small, 0.01), 26)


PHASES = ("launch", "an hour at rest", "rolling restart", "a tenth interrupted", "hand-over")


def by_phase(nodes, pods):
    """CPU seconds of the replicas and of all, by phase, and memory."""
    a_node, groups = pods // nodes, max(1, nodes // 50)
    vcpus = {10: ("m5.xlarge", 4), 20: ("m5.2xlarge", 8)}[a_node]
    each = int((vcpus[1] * 1000 - 200) / a_node)

    def manifests(release):
        text = pool(vcpus[0], bought="spot")
        share = pods // groups
        return text + "".join(workload(f"web-{n}", share, each, 128, "", release) for n in range(groups))

    # Beyond EC2's thousand instances a launch lasts.
    begin = 10 + max(0, nodes - 1000) // 100
    at = [begin, begin + 60, begin + 75, begin + 90]
    steps = [
        f"  - {{at: {at[0]}m, scale: {{kind: Deployment, name: web-0, replicas: {pods // groups}}}}}",
        f"  - {{at: {at[1]}m, apply: [second.yaml]}}",
        f"  - {{at: {at[2]}m, interrupt: {{spot: 10%}}}}",
        f"  - {{at: {at[3]}m, kill: {{replica: leader, for: 1m}}}}",
    ]
    scenario = "replicas: 2\nsteps:\n" + "\n".join(steps) + f"\nuntil: {at[3] + 5}m\n"
    run = Run(f"sizes-{nodes}", manifests(1), scenario, events=False, cost=True, more={"second.yaml": manifests(2)})
    before = (0, 0.0, 0.0, 0, 0)
    for phase, cost in zip(PHASES, run.costs):
        yield phase, cost[1] - before[1], cost[2] - before[2], cost[4]
        before = cost
    run.holds(f"sizes: {nodes} nodes", pods)


# -- A long time


def day(_):
    """Hours of churn: half of the pods' workloads scale up and down, memory at the second hour and at the end."""
    hours, nodes = 6, 200
    text = pool("m5.large, m6i.large", disruption="{consolidateAfter: 30s}")
    text += "".join(workload(f"web-{n}", nodes * 3 // 10, 500, 256) for n in range(10))
    steps, rng = [], random.Random(1)
    for minute in range(20, hours * 60, 20):
        for n in rng.sample(range(10), 3):
            steps.append(f"  - {{at: {minute}m, scale: {{kind: Deployment, name: web-{n}, replicas: {rng.randint(nodes // 10, nodes * 3 // 10)}}}}}")
    run = Run("day", text, "steps:\n" + "\n".join(steps) + f"\nuntil: {hours}h\n", events=False, cost=True)
    second = next(cost for cost in run.costs if cost[0] >= 7200)
    last = run.costs[-2]
    print(f"\n{hours} virtual hours, {nodes} nodes with churn: {second[3]:.0f} MiB after the second hour, {last[3]:.0f} at the end,")
    print("of which the record of all that happened, which `simulate` keeps for its checks, is the largest part.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--minutes", type=float, default=20)
    args = parser.parse_args()
    wrong = [part for part in args.parts if part not in PARTS]
    if wrong:
        sys.exit(f"no such part: {', '.join(wrong)} (there are: {', '.join(PARTS)})")
    FOLDER.mkdir(parents=True, exist_ok=True)
    steps = dict(zip(PARTS, (bursts, killed, simulated, sizes, day)))
    for part in args.parts or PARTS:
        steps[part](args.minutes)
    if MISSED:
        sys.exit("\nMissed:\n" + "\n".join(f"- {one}" for one in MISSED))


if __name__ == "__main__":
    main()
