#!/usr/bin/env python3
"""Launches beyond plan: ten drawn mixes of pods, each played by `simulate` with both packing policies, for the table of
docs/performance.md.

All pods of a mix are there at once. The plan is what packing computes before the first node has registered. A launch
beyond it means that kube-scheduler gave a pod's place to others. Run after `cargo build --release`; prints Markdown.
`--binary FILE` measures another build, `--keep FOLDER` keeps the scenarios, numbers choose mixes."""

import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
POLICIES = ("cost", "fewest-nodes")
MIXES = range(1, 11)
ZONES = ("ca-west-1a", "ca-west-1b", "ca-west-1c")

POOL = """apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: default}}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{{alias: al2023@latest}}]
  subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]
  securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default, annotations: {{dovetail.dev/packing-policy: {policy}}}}}
spec:
  disruption: {{consolidationPolicy: WhenEmpty, consolidateAfter: Never}}
  template:
    spec:
      expireAfter: Never
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements:
        - {{key: karpenter.sh/capacity-type, operator: In, values: [{capacity_types}]}}
        - {{key: kubernetes.io/arch, operator: In, values: [amd64, arm64]}}
        - {{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}}
        - {{key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: ["{most_cpu}"]}}
"""

DEPLOYMENT = """---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 1
{more}      containers: [{{name: main, image: pause, resources: {{requests: {{cpu: {cpu}m, memory: {memory}Mi}}}}}}]
"""


def selector(rng):
    """What a few workloads ask of their nodes."""
    asked = rng.random()
    if asked < 0.12:
        return f"      nodeSelector: {{topology.kubernetes.io/zone: {rng.choice(ZONES)}}}\n"
    if asked < 0.27:
        return f"      nodeSelector: {{kubernetes.io/arch: {rng.choice(('amd64', 'arm64'))}}}\n"
    return ""


def workloads(rng):
    """Deployments, in the order in which they are created: small ones with many pods, large ones with few."""
    pods, made = rng.randint(60, 300), []
    large = rng.randint(2, 5)
    for at in range(large):
        cpu = rng.choice((3000, 3600, 5500, 7000, 7500, 11000, 15000))
        memory = int(cpu * rng.choice((1, 2, 4, 7)) * rng.uniform(0.7, 1.0))
        made.append((f"large-{at}", rng.randint(1, 5), cpu, memory))
    left = pods - sum(one[1] for one in made)
    while left > 0:
        count = min(left, rng.randint(5, 60))
        cpu = rng.choice((100, 200, 250, 400, 500, 750, 1000, 1300))
        memory = int(cpu * rng.choice((1, 2, 4, 8)) * rng.uniform(0.6, 1.0))
        made.append((f"small-{len(made)}", count, cpu, memory))
        left -= count
    rng.shuffle(made)
    return [(*one, selector(rng)) for one in made]


def manifests(mix, policy):
    rng = random.Random(mix)
    capacity_types = "on-demand" if mix % 2 else "spot, on-demand"
    text = POOL.format(policy=policy, capacity_types=capacity_types, most_cpu=rng.choice((17, 33, 97)))
    for name, replicas, cpu, memory, more in workloads(rng):
        text += DEPLOYMENT.format(name=name, replicas=replicas, cpu=cpu, memory=memory, more=more)
    return text


def play(binary, folder, mix, policy):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mix.yaml").write_text(manifests(mix, policy))
    (folder / "scenario.yaml").write_text(f"region: ca-west-1\nseed: {mix}\napply: [mix.yaml]\nuntil: 12m\n")
    command = [binary, "simulate", folder / "scenario.yaml", "--json", "--events", folder / "events.jsonl"]
    done = subprocess.run(command, capture_output=True)
    if done.returncode not in (0, 1):
        sys.exit(f"mix {mix}, {policy}: {done.stderr.decode()}")
    report = json.loads(done.stdout)
    for wrong in (report["pods"]["pending"], report["invariants"]["violations"]):
        if wrong:
            print(f"mix {mix}, {policy}: {wrong}", file=sys.stderr)
    return report, longest_wait(folder / "events.jsonl")


def longest_wait(events):
    """Seconds from a pod's creation to its binding, the longest."""
    created, longest = {}, 0.0
    for line in events.read_text().splitlines():
        event = json.loads(line)
        if event["kind"] != "pod":
            continue
        if event["change"] == "created":
            created[event["uid"]] = event["t"]
        elif event["change"] == "bound":
            longest = max(longest, event["t"] - created[event["uid"]])
    return longest


def planned(timeline):
    """Nodes that packing planned before the first of them had registered."""
    first = min((line["t"] for line in timeline if line["event"] == "registered"), default=0)
    return sum(line["nodes"] for line in timeline if line["event"] == "packing_computed" and line["t"] < first)


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("mixes", nargs="*", type=int)
    asked.add_argument("--binary", default=ROOT / "target/release/dovetail", type=pathlib.Path)
    asked.add_argument("--keep", type=pathlib.Path)
    asked = asked.parse_args()
    print("| mix | policy | pods | planned | launched | beyond | longest wait s | $/h |")
    print("|---|---|---|---|---|---|---|---|")
    sums = collections.defaultdict(lambda: [0, 0, 0.0, 0.0])
    for mix in asked.mixes or MIXES:
        for policy in POLICIES:
            with tempfile.TemporaryDirectory() as scratch:
                folder = (asked.keep or pathlib.Path(scratch)) / f"{mix}-{policy}"
                report, wait = play(asked.binary, folder, mix, policy)
            plan, launched = planned(report["timeline"]), report["launched"]
            pods, price = report["pods"]["total"], report["costPerHour"]
            row = f"| {mix} | {policy} | {pods} | {plan} | {launched} | {launched - plan} | {wait:.0f} | {price:.2f} |"
            print(row, flush=True)
            total = sums[policy]
            sums[policy] = [total[0] + plan, total[1] + launched, max(total[2], wait), total[3] + price]
    for policy, (plan, launched, wait, price) in sums.items():
        print(f"| all | {policy} | | {plan} | {launched} | {launched - plan} | {wait:.0f} | {price:.2f} |")


if __name__ == "__main__":
    main()
