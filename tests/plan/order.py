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
    _there_first(run, claims, there, free)
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
        joined = next((c.name for c in claims if free[cls] and _could_join(run, c, cls)), None)
        empty = next((n.name for n in there if free[cls] and n.could_take(cls, n.room())), None)
        if pools:
            run.report.add("PL-27", name, f"left over, yet pool {pools[0].name} could open {run.fresh(cls, pools[0])[0].name} for it")
        elif joined or empty:
            run.report.add("PL-27", name, f"left over, yet {joined or empty} has room for it")
        else:
            _outranks(run, claims, there, cls, name, free[cls])


def _outranks(run, claims, there, cls, name, free):
    for claim in claims:
        lower = all(other.priority < cls.priority for other in claim.counts)
        if claim.counts and lower and run.fresh(cls, claim.pool, freed=claim.shape.largest):
            run.report.add("PL-42", name, f"left over with priority {cls.priority}, yet {claim.name} was opened for lower ones")
            return
    for node in there:
        room = node.room()
        for other, count in node.counts.items():
            add(room, {} if other.standing or other.priority >= cls.priority else other.requests, count)
        if free and node.could_take(cls, room):
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


def _there_first(run, claims, there, free):
    """PL-43: what room a node has in the end it had all along. Ordinals to come may have been kept room for."""
    if run.to_come:
        return
    rooms = [(node, node.room()) for node in there]
    for claim in claims:
        run.report.checked(len(rooms))
        for cls in claim.counts:
            node = next((n for n, room in rooms if free[cls] and n.could_take(cls, room)), None)
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
            for cls in claim.counts:
                if (cls, pool) not in best:
                    best[cls, pool] = not cls.preferred and not topology.bound_to_others(cls) and not _softly_kept(cls, pool) and bool(run.fresh(cls, pool))
            if all(best[cls, pool] for cls in claim.counts):
                run.report.add("PL-41", claim.name, f"pool {claim.pool.name} of weight {claim.pool.weight}, yet {pool.name} of weight {pool.weight} would do")
                break


def _softly_kept(cls, pool):
    """Whether a soft taint speaks against a pool, which may then come later."""
    return bool(cls.tolerates([dict(t, effect="NoSchedule") for t in pool.taints if t.get("effect") == "PreferNoSchedule"]))
