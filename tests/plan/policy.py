"""The rules of the `cost` policy for claims that may be spot: PL-30 (15 types), PL-31 (5 families), PL-32 (1.25 times).

They bind wherever the catalogue has such types for the claim's pods: compatible with the pods, the pool and the claim's own
pins, large enough, with an available spot offering, and within the pool's limits.
"""

from catalogue import TYPE, largest

TYPES, FAMILIES, FACTOR, EPSILON = 15, 5, 1.25, 1e-9


def check(report, catalogue, claims, run):
    """Adds what the claims of pools with policy `cost` break."""
    for claim in claims:
        if claim.pool.policy == "cost" and claim.kinds:
            _claim(report, catalogue, claim, run)


def _claim(report, catalogue, claim, run):
    view = claim.view
    spot = [k for k in claim.kinds if _spot(view, k)]
    if not spot:
        return
    exist = list(_possible(catalogue, claim, run))
    families = {k.family for k in exist}
    kept = {k.family for k in spot}
    if len(exist) >= TYPES:
        report.expect(len(spot) >= TYPES, "PL-30", claim.name, f"{len(spot)} types may be spot, the catalogue has {len(exist)} for its pods")
    if len(families) >= FAMILIES:
        report.expect(len(kept) >= FAMILIES, "PL-31", claim.name, f"{len(kept)} families may be spot, the catalogue has {len(families)}")
    _factor(report, claim, exist)


def _spot(view, kind):
    return any(o.capacity_type == "spot" for o in view.nodes(kind))


def _possible(catalogue, claim, run):
    """Every type that could stand in the claim."""
    pool, view = claim.pool, claim.view
    used, now = run.used[pool.name], largest(claim.kinds)
    asked = pool.reqs.get(TYPE)
    for kind in catalogue.types.values():
        if asked is not None and not asked.has(kind.name):
            continue
        if not _spot(view, kind) or run.too_small(pool, kind, claim.needs):
            continue
        if not all(cls.filter.types(view, kind) for cls in claim.counts):
            continue
        if all(used.get(r, 0) - now.get(r, 0) + max(now.get(r, 0), kind.capacity.get(r, 0)) <= limit for r, limit in pool.limits.items()):
            yield kind


def _factor(report, claim, exist):
    """An option above 1.25 times the cheapest is kept only where 15 types of 5 families need it, and the next cheapest first."""
    view = claim.view
    cap = FACTOR * min(view.price(k) for k in claim.kinds) * (1 + EPSILON)
    kept = {k.name for k in claim.kinds}
    skipped = sorted((view.price(k), k.family) for k in exist if k.name not in kept)
    before = []
    for kind in sorted(claim.kinds, key=view.price):
        price = view.price(kind)
        report.checked()
        if price > cap:
            families = {k.family for k in before}
            passed = [f for p, f in skipped if p < price * (1 - EPSILON)]
            by_count = len(before) < TYPES and not passed
            by_family = len(families) < FAMILIES and kind.family not in families and not any(f not in families for f in passed)
            if not (by_count or by_family):
                report.add("PL-32", claim.name, f"{kind.name} at {price:.6g} is above 1.25 times the cheapest ({cap / FACTOR:.6g}) "
                           + ("and cheaper types were passed over" if passed else "and 15 types of 5 families stand without it"))
        before.append(kind)
