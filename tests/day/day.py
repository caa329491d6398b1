#!/usr/bin/env python3
"""A day's bill: one virtual day of a diurnal web tier, jobs, rollouts, StatefulSets and spot waves (make.py), played by
`dovetail simulate` as it ships, with the policy `fewest-nodes` and Karpenter's rules, and without consolidation.

    python3 tests/day/day.py [SEED…] [--variant NAME] [--gap]

Each is held against what the pods that are there cost at least, minute by minute (bound.py). Prints the table of
docs/performance.md; `--gap` says besides what each run pays for beyond that, and why pods were evicted. The binary is
`DOVETAIL`, target/release/dovetail unless given. Wants `cargo build --release`.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import bound  # noqa: E402
import make  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("DOVETAIL", str(ROOT / "target/release/dovetail"))
SEEDS = (1, 2, 3)
MINUTE = 60.0
# Every so many minutes it is worked out what the pods would cost that keep the spread over zones that they ask for.
SPREAD_EVERY = 20
KINDS = {"ReplicaSet": "Deployment"}


def quantity(text, cpu):
    if cpu:
        return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)
    return int(text[:-2]) * {"Mi": 1, "Gi": 1024}[text[-2:]]


class Day:
    """What a run's events tell, in their order."""

    def __init__(self, offers, shapes):
        self.offers, self.solver = offers, bound.Bound(shapes, offers)
        self.spread, self.wished, self.looked = bound.Bound(shapes, offers, ("Deployment",)), 0.0, 0.0
        self.counts = [0] * len(shapes)
        self.pods, self.nodes, self.instances, self.reasons = {}, {}, {}, {}
        self.now, self.next, self.least = 0.0, 0.0, 0.0
        self.pod_seconds, self.pending, self.cost = 0.0, 0.0, 0.0
        self.evicted, self.minutes, self.spent = collections.Counter(), [], collections.Counter()

    def take(self, event):
        self._until(event["t"])
        kind = event["kind"]
        if kind == "pod":
            self._pod(event)
        elif kind == "instance":
            self._instance(event)
        elif kind == "node":
            self._node(event)
        elif event.get("resource") == "nodeclaims":
            self._claim(event)

    def close(self, end):
        self._until(end)

    def _until(self, t):
        while self.next <= t:
            self._span(self.next)
            price = self.solver.price(self.counts)
            self.least += price / 60
            if len(self.minutes) % SPREAD_EVERY == 0:
                self.wished += self.spread.price(self.counts)
                self.looked += price
            paid = sum(one["price"] for one in self.instances.values())
            self.minutes.append((self.next, paid, price, len(self.instances)))
            self.next += MINUTE
        self._span(t)

    def _span(self, t):
        """What a stretch without events has cost, by what each instance was doing."""
        time = t - self.now
        if time <= 0:
            return
        waiting = sum(pod["node"] is None for pod in self.pods.values())
        self.pending += waiting * time
        self.pod_seconds += (len(self.pods) - waiting) * time
        for one in self.instances.values():
            self.cost += one["price"] * time / 3600
            self.spent[self._does(one)] += one["price"] * time / 3600
        self.now = t

    def _does(self, one):
        """What an instance is doing: coming, going, empty, or how full it is."""
        node = self.nodes.get(one["node"])
        if node is None or not node["ready"]:
            return "coming or ending"
        if node["going"]:
            return "held or draining"
        if not node["pods"]:
            return "empty"
        room = self.offers.room[one["type"]]
        full = max(sum(self.pods[uid]["asks"][r] for uid in node["pods"]) / room[r] for r in (0, 1))
        return "less than half full" if full < 0.5 else "half to nine tenths full" if full < 0.9 else "full"

    def _pod(self, event):
        uid, change = event["uid"], event["change"]
        if change == "created" and not event["owner"].startswith("DaemonSet/"):
            asks = event["requests"][0]
            asks = (quantity(asks["cpu"], True), quantity(asks["memory"], False))
            kind = event["owner"].split("/")[0]
            shape = self.solver.shapes.index((*asks, KINDS.get(kind, kind)))
            self.pods[uid] = {"asks": asks, "shape": shape, "node": None}
            self.counts[shape] += 1
        elif uid not in self.pods:
            return
        elif change == "bound":
            self.pods[uid]["node"] = event["node"]
            self.nodes[event["node"]]["pods"].add(uid)
        elif change == "evicted":
            self.evicted[self._why(self.pods[uid]["node"])] += 1
        elif change in ("deleted", "succeeded", "failed"):
            pod = self.pods.pop(uid)
            self.counts[pod["shape"]] -= 1
            if pod["node"] in self.nodes:
                self.nodes[pod["node"]]["pods"].discard(uid)

    def _why(self, node):
        one = self.instances.get(self.nodes.get(node, {}).get("instance"), {})
        return "interrupted" if one.get("warned") else self.reasons.get(one.get("id"), "other")

    def _instance(self, event):
        if event["change"] == "pending":
            self.offers.check(event)
            own = {"id": event["id"], "type": event["instanceType"], "price": event["pricePerHour"], "node": event["hostname"]}
            self.instances[event["id"]] = own
        elif event["change"] == "interrupted":
            self.instances[event["id"]]["warned"] = True
        elif event["change"] in ("shutting-down", "terminated"):
            self.instances.pop(event["id"], None)

    def _node(self, event):
        change = event["change"]
        if change == "joined":
            self.nodes[event["name"]] = {"instance": event["instance"], "ready": False, "going": False, "pods": set()}
        elif change in ("ready", "not-ready"):
            self.nodes[event["name"]]["ready"] = change == "ready"
        elif change in ("cordoned", "deleting"):
            self.nodes[event["name"]]["going"] = True
        elif change == "deleted":
            self.nodes.pop(event["name"], None)

    def _claim(self, event):
        written = ((event.get("sent") or {}).get("metadata") or {}).get("annotations") or {}
        reason, id = written.get("dovetail.dev/end-reason"), ((event.get("claim") or {}).get("providerID") or "").split("/")[-1]
        if reason and id:
            self.reasons.setdefault(id, reason.split(" ")[0])


def played(seed, variant):
    """One run; its figures."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dovetail-day-") as folder:
        scenario = make.make(seed, variant, folder)
        offers = bound.Offers(make.FAMILIES)
        day = Day(offers, make.shapes(folder))
        report = pathlib.Path(folder) / "report.json"
        reads, writes = os.pipe()
        with report.open("w") as out:
            args = [BINARY, "simulate", str(scenario), "--json", "--events", f"/dev/fd/{writes}"]
            running = subprocess.Popen(args, stdout=out, pass_fds=[writes])
            os.close(writes)
            with os.fdopen(reads) as events:
                for line in events:
                    head = line[:200]
                    if '"kind":"api"' in head and '"nodeclaims"' not in head or '"kind":"aws"' in head or '"kind":"story"' in head:
                        continue
                    day.take(json.loads(line))
            running.wait()
        told = json.loads(report.read_text())
    day.close(told["virtualSeconds"])
    if abs(day.cost - told["costTotal"]) > 0.001 * told["costTotal"]:
        raise ValueError(f"the events cost {day.cost}, the report says {told['costTotal']}")
    pod_days = day.pod_seconds / 86400
    return {
        "seed": seed,
        "variant": variant,
        "cost": day.cost,
        "bound": day.least,
        "times": day.cost / day.least,
        # Over what they cost at least that keep the spread they ask for, by the minutes that were looked at.
        "timesSpread": day.cost / (day.least * day.wished / day.looked),
        "evictions": sum(day.evicted.values()),
        "evictionsAPodDay": sum(day.evicted.values()) / pod_days,
        "evictedFor": dict(day.evicted),
        "podDays": pod_days,
        "pendingPodSeconds": day.pending,
        "launched": told["launched"],
        "spentOn": dict(day.spent),
        "violations": told["invariants"]["violations"],
        "pending": len(told["pods"]["pending"]),
        "wallSeconds": time.monotonic() - begun,
        "minutes": day.minutes,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("seeds", nargs="*", type=int, default=SEEDS)
    parser.add_argument("--variant", action="append", choices=list(make.VARIANTS))
    parser.add_argument("--gap", action="store_true")
    args = parser.parse_args()
    wanted = [(seed, variant) for seed in args.seeds for variant in args.variant or make.VARIANTS]
    print("| seed | variant | $ a day | bound | x bound | x spread | evictions | a pod-day | pending pod-seconds | launched |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    wrong, begun = [], time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(one, seed, variant) for seed, variant in wanted]
        for run in runs:
            told(run.result())
    all_of = [run.result() for run in runs]
    for run in all_of:
        wrong += [f"seed {run['seed']} {run['variant']}: {run['violations'][:3]}"] if run["violations"] else []
        wrong += [f"seed {run['seed']} {run['variant']}: {run['pending']} pods are pending"] if run["pending"] else []
    if args.gap:
        for run in all_of:
            gap(run)
    print(f"\n{time.monotonic() - begun:.0f} s", file=sys.stderr)
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


def one(seed, variant):
    """A run in a process of its own, as reading its events takes a core."""
    code = f"import json, day; print(json.dumps(day.played({seed}, {variant!r})))"
    here = pathlib.Path(__file__).resolve().parent
    done = subprocess.run([sys.executable, "-c", code], cwd=here, env={**os.environ, "DOVETAIL": BINARY}, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def told(run):
    print(
        f"| {run['seed']} | {run['variant']} | {run['cost']:.2f} | {run['bound']:.2f} | {run['times']:.3f} | {run['timesSpread']:.3f} | {run['evictions']} "
        f"| {run['evictionsAPodDay']:.2f} | {run['pendingPodSeconds']:,.0f} | {run['launched']} |",
        flush=True,
    )


def gap(run):
    print(f"\nseed {run['seed']} {run['variant']}: {run['wallSeconds']:.0f} s")
    print("  evicted as their nodes were:", ", ".join(f"{why} {count}" for why, count in sorted(run["evictedFor"].items())))
    for what, usd in sorted(run["spentOn"].items(), key=lambda one: -one[1]):
        print(f"  $ {usd:7.2f} on nodes that were {what}")
    for hour in range(24):
        own = [minute for minute in run["minutes"] if hour * 3600 <= minute[0] < hour * 3600 + 3600]
        paid, least = sum(m[1] for m in own) / len(own), sum(m[2] for m in own) / len(own)
        nodes = sum(m[3] for m in own) / len(own)
        print(f"  {hour:02}h  paid {paid:6.3f}  bound {least:6.3f}  x {paid / least:5.3f}  nodes {nodes:5.1f}")


if __name__ == "__main__":
    sys.exit(main())
