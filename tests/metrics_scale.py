#!/usr/bin/env python3
"""How many series 5,000 nodes make, and how long a scrape of them takes: metrics_scale.py [NODES]. A figure, no test."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "target/metrics-scale"


def main(nodes):
    PLACE.mkdir(parents=True, exist_ok=True)
    pools = (ROOT / "deploy/examples/spot.yaml").read_text()
    (PLACE / "workload.yaml").write_text(pools)
    fleet = "".join(f"  - {{instanceType: m5.large, zone: eu-west-1{zone}, count: {nodes // 3 + (nodes % 3 > number)}}}\n" for number, zone in enumerate("abc"))
    (PLACE / "scenario.yaml").write_text(f"region: eu-west-1\nseed: 1\napply: [workload.yaml]\nsettings: {{OBJECT_METRICS_MAX_NODES: never}}\nnodes:\n{fleet}until: 30s\n")
    command = [ROOT / "target/release/dovetail", "simulate", PLACE / "scenario.yaml", "--metrics", PLACE / "metrics.txt"]
    done = subprocess.run(command, capture_output=True, text=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("metrics: ")]
    if not told:
        raise SystemExit(f"{done.stdout[-2000:]}{done.stderr}")
    text = (PLACE / "metrics.txt").read_text()
    count = next(line.split()[-1] for line in text.splitlines() if line.startswith("karpenter_cluster_state_node_count"))
    print(f"{count} nodes: {told[0]}")
    by_name = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name = line.split("{")[0].split(" ")[0]
            by_name[name] = by_name.get(name, 0) + 1
    for name, series in sorted(by_name.items(), key=lambda one: -one[1])[:10]:
        print(f"{series:8} {name}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
