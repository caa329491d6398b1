"""The rules of the `cost` policy for claims that may be spot: PL-30 (15 types), PL-31 (5 families), PL-32 (1.25 times, and 1.5
at most for variety, 2 where the cheapest has GPUs, as long as the mean stays at 1.25 times).

They bind wherever the catalogue has such types for the claim's pods: compatible with the pods, the pool and the claim's own
pins, no dearer than that, large enough, with an available spot offering, within the pool's limits, and with the pods' host ports left free by
DaemonSets. A node that is filled so far that fewer are large enough breaks them too, where one pod at a time would leave so many.
"""

from catalogue import CAPACITY_TYPE, HOST, TYPE, ZONE
from pods import matching_types
from requirements import norm, possibly

TYPES, FAMILIES, FACTOR, EPSILON = 15, 5, 1.25, 1e-9
CEILING, CEILING_WITH_DEVICES = 1.5, 2.0
DEVICES = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore")
# What is kept only where all that is kept is such.
RARE = (lambda k: any(k.capacity.get(d, 0) > 0 for d in DEVICES), lambda k: "metal" in k.name.partition(".")[2], lambda k: k.uncommon)


def check(report, catalogue, claims, run):
    """Adds what the claims of pools with policy `cost` break."""
    for claim in claims:
        if claim.pool.policy == "cost" and claim.shape.kinds:
            _claim(report, catalogue, claim, run)


def _claim(report, catalogue, claim, run):
    view = claim.shape.view
    spot = [k for k in claim.shape.kinds if _spot(view, k)]
    if not spot:
        return
    possible = list(_possible(catalogue, claim, run, claim.needs))
    exist = list(_worthy(claim, possible))
    kept = {k.family for k in spot}
    families = {k.family for k, _ in exist}
    affordable = _affordable(claim, exist)
    if len(exist) >= TYPES and affordable(lambda kind: True):
        report.expect(len(spot) >= TYPES, "PL-30", claim.name, f"{len(spot)} types may be spot, the catalogue has {len(exist)} for its pods")
    if len(families) >= FAMILIES and affordable(lambda kind: kind.family not in kept):
        report.expect(len(kept) >= FAMILIES, "PL-31", claim.name, f"{len(kept)} families may be spot, the catalogue has {len(families)}")
    # How far a node is filled is not a matter of prices.
    families = {k.family for k, _ in possible}
    singly = list(_possible(catalogue, claim, run, _singly(run, claim))) if len(possible) < TYPES or len(families) < FAMILIES else ()
    if len(singly) >= TYPES and len({k.family for k, _ in singly}) >= FAMILIES:
        rule, what = ("PL-30", "types") if len(possible) < TYPES else ("PL-31", "families")
        report.add(rule, claim.name, f"filled so far that {len(possible)} types of {len(families)} families could carry it; one pod at a time leaves {TYPES} of {FAMILIES}")
    _factor(report, claim, exist)


def _ceiling(claim):
    """What an option of a claim costs at most."""
    cheapest = min(claim.shape.kinds, key=claim.shape.view.price)
    return claim.shape.least * (CEILING_WITH_DEVICES if RARE[0](cheapest) else CEILING) * (1 + EPSILON)


def _affordable(claim, exist):
    """Whether one more of the types that are not kept would leave the mean at 1.25 times the cheapest."""
    prices, names = [claim.shape.view.price(k) for k in claim.shape.kinds], {k.name for k in claim.shape.kinds}
    most = FACTOR * claim.shape.least * (len(prices) + 1) * (1 + EPSILON)
    others = [(kind, price) for kind, price in exist if kind.name not in names]
    return lambda wanted: not any(map(lambda o: wanted(o[0]), others)) or sum(prices) + min(p for k, p in others if wanted(k)) <= most


def _worthy(claim, kinds):
    """Of types that could stand in a claim those that are not too dear and not too rare for it."""
    most, rare = _ceiling(claim), [] if claim.pool.min_values else [is_rare for is_rare in RARE if not all(map(is_rare, claim.shape.kinds))]
    return ((kind, price) for kind, price in kinds if price <= most and not any(is_rare(kind) for is_rare in rare))


def _singly(run, claim):
    """What the claim needs if it holds one pod at a time, or all it holds where its pods cannot be had on more nodes than one."""
    together = any(norm(t["topologyKey"]) == HOST for cls in claim.counts for t in cls.affinity)
    used, pods = run.used[claim.pool.name], run.placed[claim.pool.name]
    if together or any(used.get(r, 0) + pods * claim.shape.largest.get(r, 0) > limit for r, limit in claim.pool.limits.items()):
        return claim.needs
    most = {}
    for cls in claim.counts:
        for resource, need in cls.requests.items():
            most[resource] = max(most.get(resource, 0), need)
    return most


def _spot(view, kind):
    return any(o.capacity_type == "spot" for o in view.nodes(kind))


def _possible(catalogue, claim, run, needs):
    """Every type that could stand in the claim: of its own requirements only the pins of zone and capacity type bind here."""
    pool, used, now = claim.pool, run.used[claim.pool.name], claim.shape.largest
    # Of alternatives of node affinity the claim may have pinned any.
    pins = {key for cls in claim.counts if len(cls.filter.terms) > 1 for term in cls.filter.terms for key, _, _ in term} | {ZONE, CAPACITY_TYPE}
    view = catalogue.view(pool, {k: r for k, r in claim.reqs.items() if k in pins})
    asked = pool.reqs.get(TYPE)
    names = {k.name for k in catalogue.types.values() if _spot(view, k) and (asked is None or asked.has(k.name))}
    for cls in claim.counts:
        names &= matching_types(cls.filter, view, possibly)
    whole, ported = catalogue.view(pool, {}), [cls for cls in claim.counts if cls.ports]
    for kind in map(catalogue.types.get, sorted(names)):
        if run.too_small(pool, kind, needs) or any(run.daemon_clash(cls, whole, kind) for cls in ported):
            continue
        if all(used.get(r, 0) + max(0, kind.capacity.get(r, 0) - now.get(r, 0)) <= limit for r, limit in pool.limits.items()):
            yield kind, view.price(kind)


def _values(kind, key):
    """The values that a type gives a key of minValues."""
    told = kind.labels.get(key)
    return told.vals if told is not None and not told.comp else frozenset()


def _factor(report, claim, exist):
    """An option above 1.25 times the cheapest is kept only where 15 types of 5 families or minValues need it, the next cheapest first."""
    view = claim.shape.view
    least = claim.shape.least
    kept = {k.name for k in claim.shape.kinds}
    skipped = sorted(((p, k.family) for k, p in exist if k.name not in kept), reverse=True)
    families, passed, bad, spots = set(), set(), [], 0
    valued = {key: set() for key, _ in claim.pool.min_values}
    report.checked(len(kept))
    for kind in sorted(claim.shape.kinds, key=view.price):
        price, spot = view.price(kind), _spot(view, kind)
        while skipped and skipped[-1][0] < price * (1 - EPSILON):
            passed.add(skipped.pop()[1])
        # What has no spot offering counts towards neither number.
        by_count = spot and spots < TYPES and not passed
        by_family = spot and len(families) < FAMILIES and kind.family not in families and passed <= families
        needed = any(not _values(kind, key) <= values for key, values in valued.items())
        for key, values in valued.items():
            values |= _values(kind, key)
        if price > FACTOR * least * (1 + EPSILON) and not ((by_count or by_family) and price <= _ceiling(claim) or needed):
            bad.append(f"{kind.name} at {price:.6g}" + (" where cheaper types were passed over" if passed else ""))
        spots += spot
        families |= {kind.family} if spot else set()
    if bad:
        report.add("PL-32", claim.name, f"{len(bad)} options above 1.25 times the cheapest ({least:.6g}) that 15 types of 5 families do not need: {bad[0]}")
