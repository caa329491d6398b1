#!/usr/bin/env python3
"""Packing with very many shapes: the table of docs/performance.md. Prices of generated workloads over the bound from the
assignment relaxation (pods of a shape to types on which one fits, nodes in fractions, rules between pods ignored).

Wants scipy (`pip install scipy`), and `cargo build --release -p dovetail-core --examples` beforehand. Arguments: workloads as
KIND:SIZES:PODS:SHAPES:SEED, or none for those of the table. `half:NODES` consolidates that many nodes at 40 % until nothing
more is gained, and holds what is left against the bound for the same pods. Prints Markdown."""

import collections
import itertools
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import numpy
import scipy.optimize
import scipy.sparse

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/examples"
TABLE = [
    f"{kind}:any:{pods}:{shapes}:1"
    for kind in ("services", "batch", "stateful")
    for pods in (3000, 10000, 30000, 100000)
    for shapes in (200, 1000, 5000, 20000)
    if shapes < pods
]
UNITS = {"m": 1e-3, "": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 1e3, "M": 1e6}
RESOURCES = ("cpu", "memory", "pods")
# With more shapes than this those that differ by less than this factor are solved as one, and all are priced by that.
MANY, GRID = 1500, 1.25


def quantity(text):
    digits = text.rstrip("kKMGim")
    return float(digits) * UNITS[text[len(digits) :]]


def bought(problem):
    """What can be bought: architecture, capacity type, price, room; none that another beats in all."""
    wanted = {one["key"]: one for one in problem["nodePools"][0].get("requirements", ())}
    kinds = wanted.pop("karpenter.sh/capacity-type", {"values": ["spot", "on-demand"]})["values"]
    found = []
    for machine in problem["instanceTypes"]:
        labels = {one["key"]: one["values"][0] for one in machine["requirements"] if one["operator"] == "In"}

        def good(one):
            own = labels.get(one["key"])
            if one["operator"] == "Gt":
                return own is not None and int(own) > int(one["values"][0])
            return own in one["values"]

        if not all(good(one) for one in wanted.values()):
            continue
        taken = machine["overhead"].values()
        room = [
            quantity(machine["capacity"][name]) - sum(quantity(one[name]) for one in taken if name in one)
            for name in RESOURCES
        ]
        for kind in kinds:
            prices = [one["price"] for one in machine["offerings"] if one["available"] and one["capacityType"] == kind]
            if prices:
                found.append((labels["kubernetes.io/arch"], kind, min(prices), room))

    def beats(one, other):
        more = all(a >= b and a / one[2] >= b / other[2] for a, b in zip(one[3], other[3]))
        return one[:2] == other[:2] and more and (one[2] < other[2] or one[3] != other[3])

    return [one for one in found if not any(beats(other, one) for other in found)]


def wanted(problem):
    """How many pods there are of each shape: architecture, capacity type, cpu, memory in GiB."""
    shapes = collections.Counter()
    there = (pod for node in problem.get("existingNodes", ()) for pod in node["pods"])
    for pod in itertools.chain(problem.get("pods", ()), there):
        chosen = pod.get("nodeSelector", {})
        asked = (quantity(pod["requests"]["cpu"]), quantity(pod["requests"]["memory"]) / 2**30)
        shapes[(chosen.get("kubernetes.io/arch"), chosen.get("karpenter.sh/capacity-type"), *asked)] += 1
    return shapes


def carries(one, shape):
    """Whether pods of a shape may be on a type, and one fits."""
    (own_arch, own_kind, _, room), (arch, kind, cpu, memory) = one, shape
    return arch in (None, own_arch) and kind in (None, own_kind) and cpu <= room[0] + 1e-9 and memory <= room[1] / 2**30


def merged(shapes):
    """Shapes that are almost alike become one that asks for their mean."""
    cells = collections.defaultdict(list)
    for (arch, kind, cpu, memory), count in shapes.items():
        place = (math.floor(math.log(cpu, GRID)), math.floor(math.log(memory, GRID)))
        cells[(arch, kind, *place)].append((cpu, memory, count))
    coarse = collections.Counter()
    for (arch, kind, _, _), alike in cells.items():
        count = sum(one[2] for one in alike)
        mean = [sum(one[at] * one[2] for one in alike) / count for at in (0, 1)]
        coarse[(arch, kind, *mean)] += count
    return coarse


def solved(types, shapes):
    """The least price of any mix of nodes, in $/h, and what each type's cpu, memory and places are worth at it."""
    rows, columns, values, shape_rows, shape_columns = [], [], [], [], []
    variables = len(types)
    for row, shape in enumerate(shapes):
        for at, one in enumerate(types):
            if carries(one, shape):
                for resource, amount in enumerate((*shape[2:], 1)):
                    rows.append(at * 3 + resource)
                    columns.append(variables)
                    values.append(amount)
                shape_rows.append(row)
                shape_columns.append(variables)
                variables += 1
    for at, (_, _, _, room) in enumerate(types):
        for resource, amount in enumerate((room[0], room[1] / 2**30, room[2])):
            rows.append(at * 3 + resource)
            columns.append(at)
            values.append(-amount)
    price = numpy.zeros(variables)
    price[: len(types)] = [one[2] for one in types]
    room = scipy.sparse.csr_matrix((values, (rows, columns)), shape=(3 * len(types), variables))
    carried = scipy.sparse.csr_matrix(
        (numpy.ones(len(shape_rows)), (shape_rows, shape_columns)), shape=(len(shapes), variables)
    )
    # The interior point method: the simplex takes minutes where shapes are very many.
    answer = scipy.optimize.linprog(
        price,
        A_ub=room,
        b_ub=numpy.zeros(room.shape[0]),
        A_eq=carried,
        b_eq=list(shapes.values()),
        method="highs-ipm" if len(shapes) > 1000 else "highs",
    )
    return answer.fun, -answer.ineqlin.marginals.reshape(len(types), 3)


def worth(types, shapes, rates):
    """What all pods cost at least where a type's room is worth so much: no more than any mix of nodes, whatever the rates
    are, as long as no type's room is worth more than its price."""
    least = {shape: math.inf for shape in shapes}
    for one, rate in zip(types, numpy.maximum(rates, 0)):
        whole = rate @ (one[3][0], one[3][1] / 2**30, one[3][2])
        rate = rate * (one[2] / whole) if whole > 0 else numpy.array((one[2] / one[3][0], 0, 0))
        for shape in shapes:
            if carries(one, shape):
                least[shape] = min(least[shape], rate @ (*shape[2:], 1))
    return sum(count * least[shape] for shape, count in shapes.items())


def bound(problem):
    """The least price of any mix of nodes, in $/h; a little less where shapes are too many for one program."""
    types, shapes = bought(problem), wanted(problem)
    if len(shapes) <= MANY:
        return solved(types, shapes)[0]
    return worth(types, shapes, solved(types, merged(shapes))[1])


SETTLED = re.compile(
    r"(\d+) nodes [\d.]+ \$/h -> (\d+) nodes ([\d.]+) \$/h.*; (\d+) moves, (\d+) commands, .* decide ([\d.]+) ms, settle ([\d.]+) ms"
)


def consolidated(names):
    """What consolidation makes of half-empty clusters, against the bound for their pods."""
    print("| cluster | nodes | $/h | bound | x bound | pods moved | commands | one pass, ms | settled, ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names:
        made = subprocess.run([EXAMPLES / "generate", name], capture_output=True, check=True).stdout
        least = bound(json.loads(made))
        told = subprocess.run([EXAMPLES / "consolidate", name], capture_output=True, check=True, text=True).stdout
        before, after, price, moves, commands, decide, settle = SETTLED.search(told).groups()
        print(
            f"| {name} | {before} -> {after} | {float(price):,.2f} | {least:,.2f} | {float(price) / least:.3f} "
            f"| {int(moves):,} | {commands} | {float(decide):.0f} | {float(settle):,.0f} |",
            flush=True,
        )


def main():
    halves = [name for name in sys.argv[1:] if name.startswith("half:")]
    if halves:
        consolidated(halves)
        return
    print("| workload | $/h | bound | x bound | nodes | left over | solve ms |")
    print("|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or TABLE:
        made = subprocess.run([EXAMPLES / "generate", name], capture_output=True, check=True).stdout
        least = bound(json.loads(made))
        told = subprocess.run([EXAMPLES / "measure", name], capture_output=True, check=True, text=True).stdout
        _, _, _, solve, nodes, left, price, _ = told.splitlines()[1].split()
        print(
            f"| {name} | {float(price):,.2f} | {least:,.2f} | {float(price) / least:.3f} | {nodes} | {left} "
            f"| {float(solve):.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
