#!/usr/bin/env python3
"""The figures of docs/performance.md: `plan` on the workloads of tests/workloads, the best of three runs, next to
the peer's (Karpenter 1.14's scheduler on two cores). Run after `cargo build --release`; prints Markdown."""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "target/release/dovetail"
MAKER = ROOT / "tests/workloads/make.py"

# file: (peer's solve in ms, peer's nodes, peer's $/h, lower bound in $/h or None)
PEER = {
    "seeds-400-1": (412, 1, 1.773, 1.301),
    "seeds-100-1": (104, 1, 1.773, 1.298),
    "seeds-10-1": (13, 1, 1.773, 1.298),
    "batch-1-5000": (4483, 61, 691.58, 260.46),
    "shapes-40000": (20151, 110, 13791.96, 10426.17),
    "zonespread-20000": (13636, 51, 6311.02, 6296.54),
    "antiaffinity-5000": (5758, 100, 1605.22, 1574.14),
    "services-1-3000": (6903, 81, 178.17, 47.04),
    "stateful-1-1500": (1356, 18, 601.55, 266.53),
    "preference-4000-respect": (52811, 4000, 3776.98, None),
    "preference-4000-ignore": (1426, 21, 2524.60, None),
    "diverse-500": (942, 100, 164.61, None),
    "diverse-2000": (3726, 400, 678.91, None),
    "diverse-5000": (9781, 1000, 1735.52, None),
    "diverse-10000": (24946, 2000, 3492.45, None),
    "diverse-20000": (67395, 4000, 7100.09, None),
}


def run(name, folder):
    """The fastest of three answers."""
    file = pathlib.Path(folder) / f"{name}.json.gz"
    subprocess.run([sys.executable, MAKER, name, file], check=True)
    answers = []
    for _ in range(3):
        done = subprocess.run([BINARY, "plan", "--workload", file, "--json"], capture_output=True)
        if done.returncode not in (0, 1):
            sys.exit(f"{name}: {done.stderr.decode()}")
        answers.append(json.loads(done.stdout))
    return min(answers, key=lambda answer: answer["solveMs"])


def main():
    names = sys.argv[1:] or list(PEER)
    print("| file | solve ms | peer | ratio | load ms | nodes | peer | $/h | peer | x bound | left over | peak MiB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name in names:
        solve, nodes, price, bound = PEER[name]
        with tempfile.TemporaryDirectory() as folder:
            a = run(name, folder)
        over = f"{a['totalCheapestHourlyPrice'] / bound:.3f}" if bound else ""
        print(
            f"| {name} | {a['solveMs']:.1f} | {solve:,} | {solve / a['solveMs']:,.0f} | {a['loadMs']:.0f} | {a['numNodeClaims']} | {nodes} "
            f"| {a['totalCheapestHourlyPrice']:,.2f} | {price:,.2f} | {over} | {len(a['unscheduled'])} | {a['peakRssKiB'] // 1024} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
