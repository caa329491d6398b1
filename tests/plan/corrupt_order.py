"""Corruptions of what is served first, of pods that stand already, of reasons, and of half a workload on a node."""

import copy

from corrupt import corruption
from samples import ARCH, CT, HOST, TYPE, ZONE, _in, total

SPREAD = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "guard"}}}


def _stand(c, **pod):
    """A pod that stands on the node that is there, in z-1."""
    c.sample["existingNodes"][0]["pods"] = [{"name": "old", "namespace": "default", "labels": {"app": "guard"}, **pod}]


def _leave(c, *pods):
    """Takes pods off their nodes and leaves them over; nodes without pods go."""
    for pod in pods:
        c.of(pod)["podNames"].remove(pod)
        c.plan["unscheduled"][pod] = "no room"
    c.sweep()
    c.settle()


def _full(c):
    """No pool has room for one more node."""
    for pool in c.sample["nodePools"]:
        pool["limits"] = {"nodes": str(sum(one["nodePool"] == pool["name"] for one in c.claims))}


# Left over though there is room

@corruption("PL-27")
def a_planned_node_has_room_for_a_pod_left_over(c):
    _full(c)
    c.of("plain-3")["podNames"].remove("plain-3")
    c.plan["unscheduled"]["plain-3"] = "limit reached"
    c.settle()


@corruption("PL-27")
def a_node_that_is_there_has_room_for_a_pod_left_over(c):
    _full(c)
    c.pods["demand-1"].update(nodeSelector={"mine": "yes"}, requests={"cpu": "1m"})
    c.sample["existingNodes"][0]["labels"]["mine"] = "yes"
    _leave(c, "demand-1")


@corruption("PL-27")
def a_node_that_is_there_has_room_for_a_pod_that_another_pods_spread_counts(c):
    _full(c)
    c.pods["guest-0"]["topologySpreadConstraints"] = [dict(SPREAD, topologyKey=HOST, labelSelector={"matchLabels": {"app": "demand"}})]
    c.pods["demand-1"].update(nodeSelector={"mine": "yes"}, requests={"cpu": "1m"})
    c.sample["existingNodes"][0]["labels"]["mine"] = "yes"
    _leave(c, "demand-1")


@corruption("PL-27")
def a_pool_with_min_values_has_room_for_a_pod_left_over(c):
    _leave(c, *[n for n in c.pods if n.startswith("team-")])


# Limits

@corruption("PL-17")
def what_a_pool_uses_already_is_forgotten(c):
    c.sample["nodePools"][0]["usage"] = {"cpu": "3990"}


# Heavier pools, higher priorities, nodes that are there

@corruption("PL-41")
def a_lighter_pool_is_opened(c):
    c.sample["nodePools"].insert(0, dict(c.sample["nodePools"][0], name="heavy", weight=90))


@corruption("PL-42")
def a_lower_priority_has_the_last_node(c):
    pod = c.pods["gpu-0"]
    other = copy.deepcopy(pod) | {"name": "gpu-1", "uid": "gpu-1-uid", "priority": 7}
    c.sample["pods"].append(other)
    c.plan["unscheduled"]["gpu-1"] = "limit reached"
    c.plan["pods"] += 1
    _full(c)


@corruption("PL-42", also=("PL-14",))
def a_lower_priority_has_the_place_on_a_node_that_is_there(c):
    c.sample["existingNodes"][0]["labels"]["mine"] = "yes"
    c.sample["existingNodes"][0]["allocatable"]["cpu"] = "2500m"
    for pod in ("guest-0", "guest-1"):
        c.pods[pod]["requests"] = {"cpu": "1"}
    c.pods["demand-1"].update(nodeSelector={"mine": "yes"}, requests={"cpu": "1"}, priority=7)
    _leave(c, "demand-1")


@corruption("PL-43")
def a_node_is_opened_though_one_is_there(c):
    c.sample["pods"] = [p for p in c.sample["pods"] if not p.get("toCome")]  # for which room might be kept
    c.sample["existingNodes"][0]["allocatable"] |= {"cpu": "64", "memory": "64Gi", "pods": "64"}


# Pods that stand already

@corruption("PL-23")
def spread_counts_what_stands_already(c):
    _stand(c)
    pod = next(p for p in c.pods if p.startswith("plain-") and c.req(c.of(p), ZONE)["values"] == ["z-1"])
    c.pods[pod].update(labels={"app": "guard"}, topologySpreadConstraints=[dict(SPREAD, topologyKey=ZONE)])
    _alone(c, pod)


def _alone(c, pod):
    """On a node of its own, so that nothing else changes with its labels."""
    if len(c.of(pod)["podNames"]) > 1:
        c.apart(pod)


@corruption("PL-23", also=("PL-24",))
def a_node_of_spread_pods_lacks_the_key(c):
    c.pods["apart-1"]["topologySpreadConstraints"] = [dict(SPREAD, topologyKey="rack")]


@corruption("PL-24")
def own_kind_stands_in_another_zone(c):
    _stand(c, labels={"app": "together"})
    for pod in (p for p in c.pods if p.startswith("together-")):
        claim = c.apart(pod)
        c.req(claim, ZONE)["values"] = ["z-2"]
    c.sweep()
    c.bill()


@corruption("PL-25")
def a_pod_that_stands_keeps_another_away(c):
    term = {"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": ZONE}
    _stand(c, affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    c.req(c.apart("apart-1"), ZONE)["values"] = ["z-1"]
    c.sweep()
    c.bill()


@corruption("PL-25")
def a_pod_keeps_away_from_one_that_stands(c):
    _stand(c)
    term = {"labelSelector": {"matchLabels": {"app": "guard"}}, "topologyKey": HOST}
    c.pods["guest-0"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


# Reasons

def _reasons(c):
    pools = [{"pool": p["name"], "rule": "resources", "detail": "too large", "instanceTypes": 3, "removed": [{"rule": "resources", "instanceTypes": 3}]}
             for p in c.sample["nodePools"]]
    c.plan["unscheduled"]["huge-0"] = "; ".join(f"pool {p['pool']}: too large" for p in pools)
    c.plan["reasons"] = [{"podNames": ["huge-0"], "reason": {"kind": "noPoolFits", "pools": pools}},
                         {"podNames": ["blocked-0"], "reason": {"kind": "invalid", "problem": "a claim is missing"}}]
    return c.plan["reasons"]


@corruption("PL-44")
def a_pod_left_over_has_no_reason(c):
    _reasons(c).pop()


@corruption("PL-44")
def a_placed_pod_has_a_reason(c):
    _reasons(c)[1]["podNames"].append("plain-0")


@corruption("PL-44")
def a_reason_is_silent_about_a_pool(c):
    _reasons(c)[0]["reason"]["pools"].pop()


@corruption("PL-44")
def a_reason_names_a_taint_that_no_pool_has(c):
    _reasons(c)[0]["reason"]["pools"][0]["rule"] = "taints"


@corruption("PL-44")
def a_reason_removes_more_types_than_there_are(c):
    _reasons(c)[0]["reason"]["pools"][0]["removed"].append({"rule": "limits", "instanceTypes": 1})


@corruption("PL-44")
def a_reason_says_that_there_is_no_pool(c):
    _reasons(c)[0]["reason"] = {"kind": "noNodePool"}


@corruption("PL-44")
def the_sentence_does_not_name_the_pool(c):
    _reasons(c)
    c.plan["unscheduled"]["huge-0"] = "too large"


# The cost policy: half of a workload, and nodes that are filled too far

def _crowd(c, cpu, count=10):
    """A workload of its own on one spot node in z-1: every other type is there, and the cheapest that hold it are its options."""
    pods = [{"name": f"crowd-{i}", "namespace": "default", "uid": f"crowd-{i}", "labels": {"app": "crowd"}, "nodeSelector": {ARCH: "amd64"},
             "requests": {"cpu": cpu, "memory": "64Mi"}} for i in range(count)]
    c.sample["pods"] += pods
    c.plan["pods"] += count
    c.pods.update((p["name"], p) for p in pods)
    claim = copy.deepcopy(c.of("apart-1"))
    claim["podNames"] = [p["name"] for p in pods]
    c.req(claim, CT)["values"], c.req(claim, ZONE)["values"] = ["on-demand"], ["z-1"]
    claim["requirements"] = [*(r for r in claim["requirements"] if r["key"] not in (ARCH, TYPE)), _in(ARCH, "amd64")]
    claim["requests"] = total(pods)
    c.claims.append(claim)
    return claim


@corruption("PL-40", policy_cost=True)
def all_of_a_workload_is_on_one_node(c):
    claim = _crowd(c, "1")
    claim["instanceTypeOptions"] = ["c6.16", "c7.16", "m6.16", "m7.16"]
    c.bill()


@corruption("PL-40", policy_cost=True)
def more_than_half_of_a_workload_is_on_one_node(c):
    claim = _crowd(c, "1")
    claim["instanceTypeOptions"] = ["c6.16", "c7.16"]
    rest = copy.deepcopy(claim)
    rest["podNames"], claim["podNames"] = claim["podNames"][:1], claim["podNames"][1:]
    rest["instanceTypeOptions"] = ["c6.2", "c7.2"]
    for one in (claim, rest):
        one["requests"] = total([c.pods[n] for n in one["podNames"]])
    c.claims.append(rest)
    c.bill()


@corruption("PL-30", also=("PL-31",), policy_cost=True)
def a_spot_node_is_filled_so_far_that_few_types_hold_it(c):
    claim = _crowd(c, "1500m", 9)
    claim["requirements"] = [r for r in claim["requirements"] if r["key"] != ARCH]
    for pod in claim["podNames"]:
        c.pods[pod]["nodeSelector"] = {}
    c.req(claim, CT)["values"] = ["spot"]
    claim["instanceTypeOptions"] = [t["name"] for t in c.sample["instanceTypes"] if t["name"].endswith(".16") and any(
        o["available"] and (o["zone"], o["capacityType"]) == ("z-1", "spot") for o in t["offerings"])]
    c.bill()
