"""What is served first: nodes that are there, heavier pools, higher priorities; and nobody left over for whom there is room.

Judged only of pods that no rule binds to others, so that an answer to "could it stand there?" needs no order of binding.
PL-27 a pod left over that has room, PL-41 heavier pools first, PL-42 higher priorities first, PL-43 nodes that are there first.
"""

from pods import ports_clash
from requirements import add


def check(run, topology, claims):
    """Adds what is served in the wrong order."""
    free = {cls: not topology.entangled(cls) for cls in run.classes}
    there = list(run.existing.there.values())
    _left_over(run, topology, claims, there, free)
    _there_first(run, topology, claims, there, free)
    _heavier_first(run, topology, claims)


def _waiting(run, topology):
    """{class: name of one of its pods} of the pods left over that nothing but room, selection and limits could keep waiting."""
    names = {run.class_of[n]: n for n in run.plan["unscheduled"] if n in run.class_of}
    return {c: n for c, n in names.items() if not c.blocked and not topology.bound_to_others(c)}


def _left_over(run, topology, claims, there, free):
    """PL-27 and PL-42: a fresh node, a planned one or one that is there; as things are, or were it not for lower priorities."""
    for cls, name in _waiting(run, topology).items():
        run.report.checked(1 + len(claims) + len(there))
        pools = [p for p in run.catalogue.pools.values() if run.fresh(cls, p)]
        joined = next((c.name for c in claims if free[cls] and _could_join(run, c, cls) and not topology.breaks(cls, c)), None)
        empty = next((n.name for n in there if free[cls] and n.could_take(cls, n.room()) and not topology.breaks(cls, n)), None)
        if pools:
            run.report.add("PL-27", name, f"left over, yet pool {pools[0].name} could open {run.fresh(cls, pools[0])[0].name} for it")
        elif joined or empty:
            run.report.add("PL-27", name, f"left over, yet {joined or empty} has room for it")
        else:
            _outranks(run, topology, claims, there, cls, name, free[cls])


def _outranks(run, topology, claims, there, cls, name, free):
    for claim in claims:
        lower = all(other.priority < cls.priority for other in claim.counts)
        if claim.counts and lower and run.fresh(cls, claim.pool, freed=claim.shape.largest):
            run.report.add("PL-42", name, f"left over with priority {cls.priority}, yet {claim.name} was opened for lower ones")
            return
    for node in there:
        room = node.room()
        lower = [(node, other, count) for other, count in node.counts.items() if not other.standing and other.priority < cls.priority]
        for _, other, count in lower:
            add(room, other.requests, count)
        if free and node.could_take(cls, room) and not topology.breaks(cls, node, lower):
            run.report.add("PL-42", name, f"left over with priority {cls.priority}, yet node {node.name} took lower ones")
            return


def _could_join(run, claim, cls):
    """Whether a planned node would hold one more pod, at the price of some of its options."""
    shape, needs = claim.shape, dict(claim.needs)
    add(needs, cls.requests)
    kinds = [k for k in shape.kinds if not run.too_small(claim.pool, k, needs)]
    every = claim.pool.policy != "node-groups" or len(kinds) == len(shape.kinds)
    taken = [p for other in (*claim.counts, *run.daemons) for p in other.ports]
    return (kinds and every and not claim.pool.min_values and not cls.tolerates(claim.pool.taints) and shape.admits(cls.filter)[0]
            and (not cls.volumes or shape.admits(cls.volumes)[0]) and not any(ports_clash(p, q) for p in cls.ports for q in taken))


def _there_first(run, topology, claims, there, free):
    """PL-43: what room a node has in the end it had all along. Ordinals to come may have been kept room for."""
    if run.to_come:
        return
    rooms = [(node, node.room()) for node in there]
    for claim in claims:
        run.report.checked(len(rooms))
        for cls in list(claim.counts):
            node = next((n for n, room in rooms if free[cls] and n.could_take(cls, room) and not topology.breaks(cls, n, [(claim, cls, 1)])), None)
            if node:
                run.report.add("PL-43", claim.name, f"has a pod that node {node.name} has room for")


def _heavier_first(run, topology, claims):
    """PL-41: a new node is opened from the heaviest pool that would do, so one of its pods has to need this pool."""
    best = {}
    for claim in claims:
        run.report.checked()
        if not claim.counts or claim.pool.policy == "node-groups":
            continue
        heavier = [p for p in run.catalogue.pools.values() if p.weight > claim.pool.weight and p.policy != "node-groups"]
        for pool in heavier:
            asked = [(cls, pool, _tried(claim, cls)) for cls in claim.counts]
            for key in (k for k in asked if k not in best):
                cls = key[0]
                best[key] = (not cls.preferred and not topology.bound_to_others(cls) and not _softly_kept(cls, pool)
                             and bool(run.fresh(cls, pool, alternatives=key[2])))
            if all(best[key] for key in asked):
                run.report.add("PL-41", claim.name, f"pool {claim.pool.name} of weight {claim.pool.weight}, yet {pool.name} of weight {pool.weight} would do")
                break


def _tried(claim, cls):
    """How many alternatives of a pod's node affinity were tried until this claim would do: a later one is for when no pool will do for those before."""
    terms = len(cls.filter.terms)
    return next((n for n in range(1, terms) if claim.shape.admits(cls.filter.first(n))[0]), terms)


def _softly_kept(cls, pool):
    """Whether a soft taint speaks against a pool, which may then come later."""
    return bool(cls.tolerates([dict(t, effect="NoSchedule") for t in pool.taints if t.get("effect") == "PreferNoSchedule"]))
