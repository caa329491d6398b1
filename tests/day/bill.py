#!/usr/bin/env python3
"""A day's bill on a spot market (market.py), against what the pods cost at least where pools are finitely deep (pools.py).

    python3 tests/day/bill.py [SEED…] [--run LABEL[:WHAT,…]]… [--json FILE] [--read FILE]…

Beside the bill stands what a low one could be bought with: the largest zone's and the largest spot pool's share of the pods, the
pods that one pool's interruption would take at once, waiting, and evictions by cause. Each `--run` plays every seed with other
settings: `NAME=VALUE` is a setting, `+NAME` a feature gate, `@PATH` a binary (`DOVETAIL`, or target/release/dovetail). Without one
it is `shipped`. Runs after the first are compared with it seed by seed. `--read` takes the runs that `--json` has written, so that
a comparison can be made in pieces. `--until` cuts each day off after so many minutes. One simulation at a time; a seed is one
day.
"""

import argparse
import collections
import itertools
import json
import math
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import market  # noqa: E402
import pools  # noqa: E402
from day import BINARY, KINDS, quantity  # noqa: E402

# Not those that settings were chosen by.
SEEDS = tuple(range(101, 111))
MINUTE = 60.0
# Minutes between two solutions of the linear programs. Between them counts what the nearest have proven.
SOLVE_EVERY = 60
# Shares are looked at each minute from this one on: the first nodes come one after the other.
SETTLED = 15
# Pods of a workload whose loss is counted as a share of it.
MANY = 10
# (label, spread is kept, types a launch)
BOUNDS = (("bound", False, 1), ("spread", True, 1), ("choices", False, 3), ("both", True, 3))


class Ledger:
    """Account of a run, from its events in their order."""

    def __init__(self, offers, shapes, depths=None):
        self.offers, self.shapes, self.depths = offers, shapes, depths or {}
        self.index = {shape: s for s, shape in enumerate(shapes)}
        self.counts = [0] * len(shapes)
        self.pods, self.nodes, self.instances, self.reasons = {}, {}, {}, {}
        self.now, self.next, self.cost, self.pod_seconds = 0.0, 0.0, 0.0, 0.0
        self.waits, self.evicted, self.lost = [], collections.Counter(), 0
        self.minutes, self.exposed = [], []
        self.warned = collections.Counter()

    def take(self, event):
        self.until(event["t"])
        kind = event["kind"]
        if kind == "pod":
            self._pod(event)
        elif kind == "instance":
            self._instance(event)
        elif kind == "node":
            self._node(event)
        elif event.get("resource") == "nodeclaims":
            self._claim(event)

    def until(self, t):
        while self.next <= t:
            self._span(self.next)
            self.minutes.append(tuple(self.counts))
            if len(self.minutes) > SETTLED:
                self.exposed.append(self._exposed())
            self.next += MINUTE
        self._span(t)

    def _span(self, t):
        span = t - self.now
        if span > 0:
            self.pod_seconds += span * sum(pod["node"] is not None for pod in self.pods.values())
            self.cost += span / 3600 * sum(one["price"] for one in self.instances.values())
            self.now = t

    def _of_node(self, name):
        return self.instances.get((self.nodes.get(name) or {}).get("instance"))

    def _exposed(self):
        """Shares of the pods that run: of the largest zone, of the largest spot pool, its pods, and the most of one workload."""
        zones, of_pools, parts, whole = (collections.Counter() for _ in range(4))
        for pod in self.pods.values():
            one = self._of_node(pod["node"])
            if one is None:
                continue
            zones[one["zone"]] += 1
            whole[pod["owner"]] += 1
            if one["pool"]:
                of_pools[one["pool"]] += 1
                parts[pod["owner"], one["pool"]] += 1
        total = sum(zones.values())
        if not total:
            return (0.0, 0.0, 0, 0.0)
        most = max(of_pools.values(), default=0)
        share = max((many / whole[owner] for (owner, _), many in parts.items() if whole[owner] >= MANY), default=0.0)
        return (max(zones.values()) / total, most / total, most, share)

    def _pod(self, event):
        uid, change = event["uid"], event["change"]
        if change == "created" and not event["owner"].startswith("DaemonSet/"):
            asks, (kind, name) = event["requests"][0], event["owner"].split("/")
            kind = KINDS.get(kind, kind)
            shape = (quantity(asks["cpu"], True), quantity(asks["memory"], False), kind, name if kind == "Deployment" else "")
            self.pods[uid] = {"shape": self.index[shape], "owner": event["owner"], "node": None, "created": event["t"]}
            self.counts[self.index[shape]] += 1
        elif uid not in self.pods:
            return
        elif change == "bound":
            self.waits.append(event["t"] - self.pods[uid]["created"])
            self.pods[uid]["node"] = event["node"]
        elif change == "evicted":
            self.evicted[self._why(self.pods[uid]["node"])] += 1
        elif change in ("deleted", "lost", "succeeded", "failed"):
            pod = self.pods.pop(uid)
            self.lost += change == "lost"
            self.counts[pod["shape"]] -= 1
            if pod["node"] is None:
                self.waits.append(event["t"] - pod["created"])

    def _why(self, node):
        one = self._of_node(node) or {}
        return "interrupted" if one.get("warned") else self.reasons.get(one.get("id"), "other")

    def _instance(self, event):
        id, change = event["id"], event["change"]
        if change == "pending":
            self.offers.check(event)
            pool = f"{event['instanceType']}/{event['zone']}" if event["capacityType"] == "spot" else None
            self.instances[id] = {"id": id, "price": event["pricePerHour"], "zone": event["zone"], "pool": pool}
            there = sum(one["pool"] == pool for one in self.instances.values())
            if there > self.depths.get(pool, there):
                raise ValueError(f"{there} instances in {pool}, which has {self.depths[pool]}")
        elif change == "interrupted":
            one = self.instances[id]
            one["warned"] = True
            self.warned[event["t"], one["pool"]] += sum(self._of_node(pod["node"]) is one for pod in self.pods.values())
        elif change in ("shutting-down", "terminated"):
            self.instances.pop(id, None)

    def _node(self, event):
        if event["change"] == "joined":
            self.nodes[event["name"]] = {"instance": event["instance"]}
        elif event["change"] == "deleted":
            self.nodes.pop(event["name"], None)

    def _claim(self, event):
        written = ((event.get("sent") or {}).get("metadata") or {}).get("annotations") or {}
        reason, id = written.get("dovetail.dev/end-reason"), ((event.get("claim") or {}).get("providerID") or "").split("/")[-1]
        if reason and id:
            self.reasons.setdefault(id, reason.split(" ")[0])


def bounds(shapes, minutes, all_of):
    """$ of a day at least, by label; each proven."""
    found = {}
    for label, spread, choices in BOUNDS:
        solver = pools.FiniteBound(shapes, all_of, spread, choices)
        for counts in minutes[::SOLVE_EVERY]:
            solver.price(counts)
        found[label] = sum(max(solver.known(counts), 0.0) for counts in minutes) / 60
    return found


def share_of(values, part):
    """The value that this part of them is not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)] if ordered else 0.0


def figures(ledger, told):
    pod_days = ledger.pod_seconds / 86400
    zone, pool, pods, part = zip(*ledger.exposed)
    mean = lambda values: sum(values) / len(values)  # noqa: E731
    return {
        "bill": ledger.cost,
        "podDays": pod_days,
        "largestZone": mean(zone),
        "largestPool": mean(pool),
        "poolPods": mean(pods),
        "poolPodsMost": max(pods),
        "workloadPart": mean(part),
        "workloadPartMost": max(part),
        "hitAtOnce": max(ledger.warned.values(), default=0),
        "poolsHit": sum(many > 0 for many in ledger.warned.values()),
        "waitP50": share_of(ledger.waits, 0.5),
        "waitP99": share_of(ledger.waits, 0.99),
        "waitMean": mean(ledger.waits),
        "evicted": {why: many / pod_days for why, many in sorted(ledger.evicted.items())},
        "evictedAll": sum(ledger.evicted.values()) / pod_days,
        "lost": ledger.lost,
        "launched": told["launched"],
        "violations": told["invariants"]["violations"],
        "pending": len(told["pods"]["pending"]),
    }


def heard(ledger, running, reads):
    with os.fdopen(reads) as events:
        for line in events:
            head = line[:200]
            if '"kind":"api"' in head and '"nodeclaims"' not in head or '"kind":"aws"' in head or '"kind":"story"' in head:
                continue
            ledger.take(json.loads(line))
    running.wait()


def played(seed, what, until=market.DAY):
    """One run of so many minutes; its figures."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dovetail-bill-") as folder:
        scenario = market.make_day(seed, folder, what["settings"], what["gates"], until=until)
        drawn, shapes = market.pools(seed), market.shapes(folder)
        offers, depths = market.offers(drawn), {key: depth for key, (_, depth, _) in drawn.items()}
        ledger, report = Ledger(offers, shapes, depths), pathlib.Path(folder) / "report.json"
        before, (reads, writes) = resource.getrusage(resource.RUSAGE_CHILDREN), os.pipe()
        with report.open("w") as out:
            args = [what["binary"], "simulate", str(scenario), "--json", "--events", f"/dev/fd/{writes}"]
            running = subprocess.Popen(args, stdout=out, pass_fds=[writes])
            os.close(writes)
            heard(ledger, running, reads)
        after, told = resource.getrusage(resource.RUSAGE_CHILDREN), json.loads(report.read_text())
    ledger.until(told["virtualSeconds"])
    if abs(ledger.cost - told["costTotal"]) > 0.001 * told["costTotal"]:
        raise ValueError(f"the events cost {ledger.cost}, the report says {told['costTotal']}")
    daemons = (*(sum(asks[r] for asks in market.DAEMONS.values()) for r in (0, 1)), len(market.DAEMONS))
    all_of = pools.pools(offers, daemons, depths)
    least = bounds(shapes, ledger.minutes[: round(told["virtualSeconds"] / MINUTE)], all_of)
    return {
        "seed": seed,
        "label": what["label"],
        **figures(ledger, told),
        "least": least,
        "times": {label: ledger.cost / usd for label, usd in least.items()},
        "cpuSeconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "wallSeconds": time.monotonic() - begun,
    }


def run_of(text):
    label, _, rest = text.partition(":")
    what = {"label": label, "settings": {}, "gates": {}, "binary": BINARY}
    for one in filter(None, rest.split(",")):
        if one[0] == "+":
            what["gates"][one[1:]] = True
        elif one[0] == "@":
            what["binary"] = one[1:]
        else:
            name, _, value = one.partition("=")
            what["settings"][name] = value
    return what


COLUMNS = (
    ("run", lambda r: r["label"]),
    ("seed", lambda r: r["seed"]),
    ("x bound", lambda r: f"{r['times']['bound']:.3f}"),
    ("x spread", lambda r: f"{r['times']['spread']:.3f}"),
    ("x three types", lambda r: f"{r['times']['choices']:.3f}"),
    ("x both", lambda r: f"{r['times']['both']:.3f}"),
    ("largest zone", lambda r: f"{r['largestZone'] * 100:.0f} %"),
    ("largest pool", lambda r: f"{r['largestPool'] * 100:.0f} %"),
    ("pods of a pool, mean / most", lambda r: f"{r['poolPods']:.0f} / {r['poolPodsMost']:.0f}"),
    ("of a workload, mean / most", lambda r: f"{r['workloadPart'] * 100:.0f} / {r['workloadPartMost'] * 100:.0f} %"),
    ("hit at once", lambda r: f"{r['hitAtOnce']:.0f}"),
    ("wait p50 / p99 / mean s", lambda r: f"{r['waitP50']:.1f} / {r['waitP99']:.0f} / {r['waitMean']:.1f}"),
    ("evictions a pod-day", lambda r: f"{r['evictedAll']:.2f}"),
    ("by cause", lambda r: ", ".join(f"{why} {many:.2f}" for why, many in sorted(r["evicted"].items()))),
)
# The worst of the seeds; others are means.
WORST = ("poolPodsMost", "workloadPartMost", "hitAtOnce")


def heading():
    print("|" + "|".join(f" {name} " for name, _ in COLUMNS) + "|")
    print("|" + "---|" * len(COLUMNS), flush=True)


def row(run):
    print("|" + "|".join(f" {cell(run)} " for _, cell in COLUMNS) + "|", flush=True)


def all_of_them(runs):
    """All seeds of one run as one: bills over bounds in sum, otherwise means."""
    count = len(runs)
    total = {"label": runs[0]["label"], "seed": "all"}
    for key, value in runs[0].items():
        if isinstance(value, float) or key in ("poolPodsMost", "hitAtOnce"):
            values = [run[key] for run in runs]
            total[key] = max(values) if key in WORST else sum(values) / count
    bill = sum(run["bill"] for run in runs)
    total["times"] = {label: bill / sum(run["least"][label] for run in runs) for label in runs[0]["least"]}
    total["evicted"] = collections.Counter()
    for run in runs:
        for why, many in run["evicted"].items():
            total["evicted"][why] += many / count
    return total


def middle(values):
    """Mean and its standard error."""
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1) / len(values))
    return mean, spread


# (name, what of a run, as a ratio or as a difference, in this unit)
PAIRED = (
    ("bill", lambda r: r["bill"], True, 1),
    ("evictions a pod-day", lambda r: r["evictedAll"], False, 1),
    ("mean wait, s", lambda r: r["waitMean"], False, 1),
    ("p99 of waits, s", lambda r: r["waitP99"], False, 1),
    ("largest zone, points", lambda r: r["largestZone"], False, 100),
    ("largest pool, points", lambda r: r["largestPool"], False, 100),
    ("pods of a pool", lambda r: r["poolPods"], False, 1),
    ("of a workload, points", lambda r: r["workloadPart"], False, 100),
)


def paired(first, other):
    """How a run differs from the first on the same seeds."""
    mates = {run["seed"]: run for run in first}
    pairs = [(mates[run["seed"]], run) for run in other if run["seed"] in mates]
    if not pairs:
        return []
    found = []
    for name, value, ratio, unit in PAIRED:
        own = [value(b) / value(a) if ratio else (value(b) - value(a)) * unit for a, b in pairs]
        mean, error = middle(own)
        less = sum(one < (1 if ratio else 0) for one in own)
        found.append({"what": name, "ratio": ratio, "mean": mean, "error": error, "less": less, "of": len(own)})
    return found


def compare(runs):
    by_label = collections.defaultdict(list)
    for run in runs:
        by_label[run["label"]].append(run)
    first, *others = by_label
    answers = {}
    for label in others:
        answers[label] = paired(by_label[first], by_label[label])
        print(f"\n{label} against {first}, seed by seed:")
        for one in answers[label]:
            sign = "x" if one["ratio"] else ""
            print(f"  {one['what']}: {sign}{one['mean']:.3f} +- {one['error']:.3f}, less in {one['less']} of {one['of']}")
    return answers


def write(name, runs, answers):
    if name:
        pathlib.Path(name).write_text(json.dumps({"runs": runs, "paired": answers}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("seeds", nargs="*", type=int, default=SEEDS)
    parser.add_argument("--run", action="append", default=[])
    parser.add_argument("--until", type=int, default=market.DAY)
    parser.add_argument("--json")
    parser.add_argument("--read", action="append", default=[])
    args = parser.parse_args()
    runs = [run for name in args.read for run in json.loads(pathlib.Path(name).read_text())["runs"]]
    heading()
    for run in runs:
        row(run)
    wanted = args.run if args.run or args.read else ["shipped"]
    for seed, what in itertools.product(args.seeds, [run_of(text) for text in wanted]):
        if not any((run["seed"], run["label"]) == (seed, what["label"]) for run in runs):
            runs.append(played(seed, what, args.until))
            row(runs[-1])
            # So that what was played is there if the rest is not.
            write(args.json, runs, {})
    for label in dict.fromkeys(run["label"] for run in runs):
        row(all_of_them([run for run in runs if run["label"] == label]))
    answers = compare(runs)
    write(args.json, runs, answers)
    own = lambda run: f"seed {run['seed']} {run['label']}"  # noqa: E731
    wrong = [f"{own(run)}: {run['violations'][:3]}" for run in runs if run["violations"]]
    wrong += [f"{own(run)}: {run['pending']} pods are pending" for run in runs if run["pending"]]
    wrong += [f"{own(run)}: {run['cpuSeconds']:.0f} s of CPU" for run in runs if run["cpuSeconds"] > 60]
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if any(run["violations"] or run["pending"] for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
