"""PL-40: no node holds more than half of a workload of ten pods or more where avoiding it costs less than 5 %.

What avoiding costs is shown by a witness: the node's pods on two nodes of the same pool and pins, neither with more than half of any
such workload, at the price of the cheapest types that hold them, with what a node weighs added. A plan is refused only where the
witnesses of all the workloads that claims share come to less than 5 % of what these claims cost. So a plan that a cleverer split would mend may
pass; no plan is refused for a split that is not there.
"""

import json

from catalogue import HOST, TYPE, largest
from pods import matching_types
from requirements import add, norm

LEAST, FACTOR, PER_NODE, EPSILON = 10, 1.05, 0.02, 1e-9


def check(run, claims):
    """Adds the claims that hold too much of a workload."""
    whole = _workloads(run, claims)
    for group in _connected([c for c in claims if c.pool.policy == "cost" and c.shape.least is not None]):
        crowded = [c for c in group if any(2 * n > whole.get(cls, float("inf")) for cls, n in c.counts.items())]
        run.report.checked(len(group))
        costs = [_witness(run, claim, whole) for claim in crowded]
        if not crowded or None in costs:
            continue
        price = sum(c.shape.least for c in group)
        weighed = price + PER_NODE * len(group)
        # Dearer by less than 5 % whether or not what a node weighs is counted.
        if price + sum(costs) + PER_NODE * len(costs) < FACTOR * price * (1 - EPSILON) and weighed + sum(costs) + PER_NODE * len(costs) < FACTOR * weighed:
            for claim, cost in zip(crowded, costs):
                cls, count = max(claim.counts.items(), key=lambda i: i[1] / whole.get(i[0], float("inf")))
                run.report.add("PL-40", claim.name, f"{count} of the {whole[cls]} pods of a workload; on two nodes they cost {cost:+.4f} of {claim.shape.least:.4f}")


def _workloads(run, claims):
    """{class: pods} of the workloads of ten and more that are planned whole, and that only names tell apart from no other class."""
    alike = {}
    for raw in run.workload["pods"]:
        key = json.dumps({k: v for k, v in raw.items() if k not in ("name", "uid", "labels", "namespace", "created")}, sort_keys=True)
        alike.setdefault(key, set()).add(run.class_of[raw["name"]])
    sizes, placed = {}, {}
    for cls in run.class_of.values():
        sizes[cls] = sizes.get(cls, 0) + 1
    for claim in claims:
        for cls, count in claim.counts.items():
            placed[cls] = placed.get(cls, 0) + count
    alone = {cls for group in alike.values() if len(group) == 1 for cls in group}
    return {cls: n for cls, n in sizes.items() if n >= LEAST and cls in alone and placed.get(cls) == n and not cls.to_come}


def _connected(claims):
    """Claims that share a class, directly or through others: what is planned together at the least."""
    groups = []
    for claim in claims:
        mine = [g for g in groups if any(not claim.counts.keys().isdisjoint(c.counts) for c in g)]
        groups = [g for g in groups if g not in mine] + [[claim, *(c for g in mine for c in g)]]
    return groups


def _witness(run, claim, whole):
    """What two nodes cost more than this one, or None where nothing shows that two would do."""
    if any(norm(t["topologyKey"]) == HOST for cls in claim.counts for t in cls.affinity):
        return None
    reqs = {k: r for k, r in claim.reqs.items() if k not in (TYPE, HOST)}
    view, asked = run.catalogue.view(claim.pool, reqs), claim.pool.reqs.get(TYPE)
    kinds = [k for k in run.catalogue.types.values() if view.nodes(k) and (asked is None or asked.has(k.name))]
    if not _within_limits(run, claim, kinds):
        return None
    best = None
    for split in _splits(claim.counts, whole):
        prices = [_cheapest(run, claim, view, kinds, part) for part in split]
        if None not in prices and (best is None or sum(prices) < best):
            best = sum(prices)
    return None if best is None else best - claim.shape.least


def _splits(counts, whole):
    """Ways to put a node's pods on two: each workload halved, or all that need not be halved on one side."""
    for keep in (True, False):
        left, right = {}, {}
        for cls, n in counts.items():
            crowd = 2 * n > whole.get(cls, float("inf"))
            first = whole[cls] // 2 if crowd and not keep else n if keep and not crowd else (n + 1) // 2
            left[cls], right[cls] = first, n - first
        if all(2 * part[cls] <= whole.get(cls, float("inf")) for part in (left, right) for cls in counts):
            yield left, right


def _cheapest(run, claim, view, kinds, part):
    needs = {}
    for cls, count in part.items():
        add(needs, cls.requests, count)
    whole = run.catalogue.view(claim.pool, {})
    holding = (k for k in kinds if all(k.name in _holding(view, cls) and not run.daemon_clash(cls, whole, k) for cls in part))
    return min((view.price(k) for k in holding if not run.too_small(claim.pool, k, needs)), default=None)


def _holding(view, cls):
    names = matching_types(cls.filter, view)
    return names & matching_types(cls.volumes, view) if cls.volumes else names


def _within_limits(run, claim, kinds):
    """Whether two more of the largest would still be within the pool's limits."""
    used, most = run.used[claim.pool.name], largest(kinds)
    return all(used.get(r, 0) + 2 * most.get(r, 0) <= limit for r, limit in claim.pool.limits.items())
