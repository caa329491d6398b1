"""PL-44: whether the reasons of pods left over are reasons: one a pod, naming a rule that this pod and this pool do have."""

KINDS = ("noNodePool", "expendable", "invalid", "unsupported", "packingFailed", "noPoolFits")

# What a rule presupposes: of the pod's class, of the pool.
PRESUPPOSED = {
    "taints": lambda cls, pool: cls.tolerates(pool.taints),
    "limits": lambda cls, pool: pool.limits,
    "maxCost": lambda cls, pool: pool.limits,
    "quota": lambda cls, pool: True,
    "volumes": lambda cls, pool: cls.volumes,
    "minValues": lambda cls, pool: pool.min_values,
}


def check(report, plan, pools, class_of):
    """Adds what is wrong with `reasons`, where a plan has them."""
    told = plan.get("reasons")
    if told is None:
        return
    named = [name for entry in told for name in entry["podNames"]]
    for name in plan["unscheduled"]:
        report.expect(named.count(name) == 1, "PL-44", name, lambda: f"{named.count(name)} reasons")
    for name in set(named) - set(plan["unscheduled"]):
        report.add("PL-44", name, "a reason, though it is not left over")
    for entry in told:
        _entry(report, plan, pools, class_of, entry)


def _entry(report, plan, pools, class_of, entry):
    reason, expect = entry["reason"], report.expect
    name = next(iter(entry["podNames"]), "reasons")
    expect(reason["kind"] in KINDS, "PL-44", name, f"kind {reason['kind']!r}, not one of {KINDS}")
    expect(reason["kind"] != "noNodePool" or not pools, "PL-44", name, "there are pools")
    if reason["kind"] != "noPoolFits":
        return
    listed = sorted(p["pool"] for p in reason["pools"])
    expect(listed == sorted(pools), "PL-44", name, f"speaks of pools {listed}, there are {sorted(pools)}")
    for pool in (p for p in reason["pools"] if p["pool"] in pools):
        expect(pool["rule"] and pool["detail"], "PL-44", name, f"no rule or no detail for pool {pool['pool']}")
        gone = sum(one["instanceTypes"] for one in pool["removed"])
        expect(gone <= pool["instanceTypes"], "PL-44", name, f"{gone} types removed of {pool['instanceTypes']}")
        holds = PRESUPPOSED.get(pool["rule"], lambda cls, pool: True)
        for pod in entry["podNames"]:
            if pod in class_of and not holds(class_of[pod], pools[pool["pool"]]):
                report.add("PL-44", pod, f"rule {pool['rule']}, which says nothing of it in pool {pool['pool']}")
            if pod in plan["unscheduled"]:
                expect(pool["pool"] in plan["unscheduled"][pod], "PL-44", pod, f"the sentence does not name pool {pool['pool']}")
