#!/usr/bin/env python3
"""Recomputes the report of `simulate --json` from its event log alone: `audit.py EVENTS.jsonl REPORT.json`.

Exit 0 and `ok`, or 1 and one line a difference. What is compared is the table `COMPARED`; the invariants are checked anew:

INV-1 one instance a claim and a launch token at the end; no two claims with one providerID
INV-2 CreateFleet only under a term, and never after a newer term acted
INV-3 no instance without a claim at the end, those that were there beforehand excepted, nor beyond its grace before
INV-4 no pod is bound twice
INV-5 events stand in the order of t
INV-6 nothing is ended that is not ours
INV-7 a claim has two instances for a quarter of an hour at most
INV-8 no CreateFleet is sent after the holder's own deadline
INV-9 no NodeClaim is created, and no launch token written, under a term after a later one has begun, unless the Lease is gone or says it again
INV-10 terms of the Lease rise, each with one holder
INV-11 an instance's token stood on a claim before
INV-12 no claim gets another instance while one of its own has lived for a minute (unless EC2 showed none)
INV-13 the collection keeps its bound and its grace, but while an operator has released it
INV-14 what is launched asks for no more than the pods that have no place, with a stated slack
INV-15 no PodDisruptionBudget is broken by what goes of its own accord
INV-16 a NodePool's limits hold when the capacity of its claims becomes known
INV-17 no more nodes of a pool go at once of their own accord than its budgets allow
INV-18 no more nodes of a pool that are launched again are used by no pod than eight an hour for each workload that waits
INV-23 once ten launches of a pool have come to nothing within an hour, or thirty of all, no more than eight an hour follow
INV-24 no more instances live in a capacity reservation than it has
INV-25 a static pool has no more claims that stay than replicas, and no more at all than limits.nodes

replay.py has INV-1 to INV-5 and INV-9 to INV-11, launching.py INV-7, INV-8, INV-12 and INV-14, collecting.py INV-3, INV-6
and INV-13, bounds.py INV-15 to INV-17, unused.py INV-18, futile.py INV-23, reserved.py INV-24,
replicas.py INV-25.

The log does not carry nodes' allocatable, so that pods fit their nodes is not checked here.
"""

import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from replay import World  # noqa: E402

# Counted alike by the report and here; told by both or by neither; found here and told at least once, or told alone, where
# the report may count more narrowly.
COUNTED = ("INV-1", "INV-2", "INV-4", "INV-5", "INV-9", "INV-10", "INV-11", "INV-24")
BOTH = ("INV-3", "INV-6", "INV-8", "INV-12", "INV-13", "INV-18", "INV-23")
FOUND = ("INV-7", "INV-14", "INV-15", "INV-16", "INV-17", "INV-25")



def audit(lines, report):
    """All differences between a log and a report, as lines of text."""
    world = World().read(lines)
    out = [f"log: {fault}" for fault in world.faults]
    for compare in COMPARED:
        try:
            out += compare(world, report)
        except (KeyError, TypeError, AttributeError) as error:
            out.append(f"report: {compare.__name__}: missing or of the wrong type: {error!r}")
    return out


def times(world, report):
    return _same("virtualSeconds", report["virtualSeconds"], world.end)


def pods(world, report):
    told = report["pods"]
    bound = sum(p.bound for p in world.pods.values())
    pending = {p.key for p in world.pods.values() if p.pending}
    done = sum(p.succeeded and not p.gone for p in world.pods.values())
    out = _same("pods.bound", told["bound"], bound)
    if told["total"] not in (bound + len(pending), bound + len(pending) + done):
        out += _same("pods.total", told["total"], bound + len(pending))
    out += [f"pods.pending: {name} is told, the events do not have it pending" for name in sorted(told["pending"].keys() - pending)]
    out += [f"pods.pending: {name} is missing" for name in sorted(pending - told["pending"].keys())]
    return out + [f"pods.pending: {name} has no reason" for name, reason in sorted(told["pending"].items()) if not reason]


def nodes(world, report):
    here, told, out = world.present(), {}, []
    for node in report["nodes"]:
        out += [f"nodes: {node['name']} stands twice"] if node["name"] in told else []
        told[node["name"]] = node
    out += [f"nodes: {n} is told, the events do not have it at the end" for n in sorted(told.keys() - here.keys())]
    out += [f"nodes: {n} is missing" for n in sorted(here.keys() - told.keys())]
    load = Counter(p.node for p in world.pods.values() if p.bound)
    for name in sorted(told.keys() & here.keys()):
        instance = world.instances.get(here[name]["instance"])
        if instance is None:
            out.append(f"nodes: {name}: the events do not tell its instance {here[name]['instance']}")
            continue
        facts = instance.facts
        truth = {f: facts.get(f) for f in ("instanceType", "zone", "capacityType", "pricePerHour")}
        truth |= {"pods": load[name], "labels": here[name]["labels"], "beforehand": bool(facts.get("beforehand"))}
        for field, value in truth.items():
            out += _same(f"nodes: {name}.{field}", told[name][field], value)
    return out


def costs(world, report):
    prices = [world.instances[n["instance"]].facts["pricePerHour"] for n in world.present().values() if n["instance"] in world.instances]
    paid = sum(i.facts["pricePerHour"] * i.seconds(world.end) / 3600 for i in world.instances.values())
    out = _same("costPerHour", report["costPerHour"], sum(prices))
    out += _same("costPerHour against its own nodes", report["costPerHour"], sum(n["pricePerHour"] for n in report["nodes"]))
    return out + _same("costTotal", report["costTotal"], paid)


def counts(world, report):
    ours = [i for i in world.instances.values() if not i.facts.get("beforehand")]
    return _same("launched", report["launched"], len(ours)) + _same("terminated", report["terminated"], sum(i.ended is not None for i in ours))


def downtime(world, report):
    told = report["downtime"]
    return _same("downtime.podSeconds", told["podSeconds"], world.down_seconds) + _same("downtime.evicted", told["evicted"], len(world.evicted))


def timeline(world, report):
    told = report["timeline"]
    out = _same("timeline, length", len(told), len(world.story))
    for i, (line, event) in enumerate(zip(told, world.story)):
        truth = {k: v for k, v in event.items() if k != "kind" and (k != "term" or "term" in line)}
        line = {k: v for k, v in line.items() if k != "kind"}
        if line != truth:
            return [*out, f"timeline[{i}]: {json.dumps(line, sort_keys=True)}, the event is {json.dumps(truth, sort_keys=True)}"]
    return out


def invariants(world, report):
    told = report["invariants"]
    out = [] if "checked" in told else ["invariants.checked is missing"]
    said = Counter(v["id"] for v in told["violations"])
    found = Counter(v[0] for v in world.violations)
    for rule in COUNTED + BOTH + FOUND:
        counted = said[rule] != found[rule]
        differs = counted if rule in COUNTED else not found[rule] and rule in BOTH and said[rule] or found[rule] and not said[rule]
        if differs:
            first = next((f", e.g. at {t}: {what}" for r, t, what in world.violations if r == rule), "")
            out.append(f"invariants: {rule} told {said[rule]} times, found {found[rule]} times{first}")
    return out


COMPARED = (times, pods, nodes, costs, counts, downtime, timeline, invariants)


def _same(field, told, truth):
    number = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (told, truth))
    equal = abs(told - truth) <= 1e-6 * max(abs(told), abs(truth), 1e-3) if number else told == truth and type(told) is type(truth)
    return [] if equal else [f"{field}: told {json.dumps(told, sort_keys=True)}, the events give {json.dumps(truth, sort_keys=True)}"]


def main(args):
    if len(args) != 2:
        print("usage: audit.py EVENTS.jsonl REPORT.json", file=sys.stderr)
        return 2
    try:
        lines = Path(args[0]).read_text(encoding="utf-8").removesuffix("\n").split("\n")
        report = json.loads(Path(args[1]).read_text(encoding="utf-8"))
        if not isinstance(report, dict):
            raise ValueError("the report is not an object")
    except (OSError, ValueError) as error:
        print(f"bad input: {error}", file=sys.stderr)
        return 2
    differences = audit(lines, report)
    print(*differences or ["ok"], sep="\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
