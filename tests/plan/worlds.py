"""Workloads of one small catalogue, written by hand: one type of 8 CPU at $1 in some zones, one pool; and plans of them."""

from samples import ARCH, CT, FAMILY, ZONE, _in

HOST = "kubernetes.io/hostname"


def offering(zone, price, ct="spot"):
    return {"zone": zone, "capacityType": ct, "price": price, "available": True, "requirements": [_in(CT, ct), _in(ZONE, zone)]}


def world(pods, zones=("a", "b", "c"), **pool):
    """A workload with one type of 8 CPU in some zones and one pool."""
    kind = {"name": "m.8", "capacity": {"cpu": "8", "memory": "32Gi", "pods": "30"}, "overhead": {},
            "requirements": [_in(ARCH, "amd64"), _in("kubernetes.io/os", "linux", "windows"), _in(ZONE, *zones), _in(CT, "spot")],
            "offerings": [offering(z, 1.0) for z in zones]}
    pods = [{"name": f"{p['app']}-{i}", "namespace": "default", "uid": str(i), "requests": {"cpu": "100m"}, "labels": {"app": p["app"]},
             **{k: v for k, v in p.items() if k != "app"}} for i, p in enumerate(pods)]
    return {"name": "w", "wellKnownLabels": [ARCH, CT, ZONE], "instanceTypes": [kind], "pods": pods,
            "nodePools": [{"name": "default", "requirements": [], "labels": {}, **pool}]}


def plan(workload, *claims, left=(), there=None):
    """A plan: each claim a list of indices of pods, with its zones (None: open) and further requirements; `there`: {node: indices}."""
    out, put = [], [{"name": node, "podNames": [workload["pods"][i]["name"] for i in indices]} for node, indices in (there or {}).items()]
    for indices, zones, *more in claims:
        names = [workload["pods"][i]["name"] for i in indices]
        zone = zones[0] if zones else workload["instanceTypes"][0]["offerings"][0]["zone"]
        out.append({"nodePool": "default", "podNames": names, "requirements": [*([_in(ZONE, *zones)] if zones else []), *more],
                    "requests": {"cpu": f"{100 * len(names)}m", "pods": str(len(names))}, "instanceTypeOptions": ["m.8"], "cheapestType": "m.8",
                    "cheapestZone": zone, "cheapestCapacityType": "spot", "price": 1.0})
    return {"workload": "w", "pods": len(workload["pods"]), "solveMs": 0.1, "loadMs": 0.1, "wallMs": 0.2, "unscheduled": {n: "why" for n in left},
            "scheduledPods": sum(len(c["podNames"]) for c in out + put), "existingNodes": put, "numNodeClaims": len(out), "totalCheapestHourlyPrice": float(len(out)),
            "expectedHourlyPrice": float(len(out)), "peakRssKiB": 1, "nodeClaims": out}


def term(app, key, **more):
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def needs(kind, *terms):
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def spread(app, key=ZONE, skew=1, **more):
    return {"topologySpreadConstraints": [term(app, key, maxSkew=skew, whenUnsatisfiable="DoNotSchedule") | more]}


def node_terms(*terms):
    required = {"nodeSelectorTerms": [{"matchExpressions": [dict(zip(("key", "operator", "values"), e)) for e in t]} for t in terms]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def node(name, zone, pods=(), cpu="2", **more):
    """An existing node; `pods` are {app, ...} that stand on it."""
    stand = [{"name": f"{name}-{i}", "namespace": "default", "labels": {"app": p["app"]}, **{k: v for k, v in p.items() if k != "app"}}
             for i, p in enumerate(pods)]
    labels = {ZONE: zone, HOST: name, ARCH: "amd64", **more.pop("labels", {})}
    return {"name": name, "labels": labels, "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
            "used": {"pods": str(len(stand))}, "pods": stand, **more}


def varied(workload, *kinds):
    """The same with types of 8 CPU given as (family, price, capacity type, architecture), named by family and number."""
    first, *_ = workload["instanceTypes"]
    types = []
    for number, (family, price, ct, arch) in enumerate(kinds):
        others = [r for r in first["requirements"] if r["key"] not in (ARCH, CT)]
        types.append(dict(first, name=f"{family}.{number}", requirements=[*others, _in(ARCH, arch), _in(CT, ct), _in(FAMILY, family)],
                          offerings=[offering(o["zone"], price, ct) for o in first["offerings"]]))
    return dict(workload, instanceTypes=types, wellKnownLabels=[*workload["wellKnownLabels"], FAMILY])


def keeping(workload, answer, *numbers):
    """A plan of one claim with these types as its options, and the bill set right."""
    types = sorted((workload["instanceTypes"][i] for i in numbers), key=lambda t: t["offerings"][0]["price"])
    prices, (claim,) = [t["offerings"][0]["price"] for t in types], answer["nodeClaims"]
    first = types[0]["offerings"][0]
    claim.update(instanceTypeOptions=[t["name"] for t in types], cheapestType=types[0]["name"], cheapestCapacityType=first["capacityType"], price=prices[0])
    return dict(answer, totalCheapestHourlyPrice=prices[0], expectedHourlyPrice=sum(prices) / len(prices))


def sized(workload, **prices):
    """The same with types of other sizes at other prices: `m2=0.25` is a type of 2 CPU and 32 GiB."""
    first, *_ = workload["instanceTypes"]
    kinds = [dict(first, name=name, capacity={"cpu": name.lstrip("m."), "memory": "32Gi", "pods": "30"},
                  offerings=[dict(o, price=price) for o in first["offerings"]]) for name, price in prices.items()]
    return dict(workload, instanceTypes=kinds)
