"""Corruptions of what binds a pod to its node, a claim to its pool, and of prices."""

from corrupt import corruption, zone_of
from samples import CT, ZONE, ZONES


# One pod, one node

@corruption("PL-15")
def an_arm_pod_is_on_amd(c):
    c.move("arm-0", c.without("arm", zone=zone_of(c, "arm-0")))


@corruption("PL-15")
def an_on_demand_pod_is_on_spot(c):
    c.move("demand-0", c.without("demand", ct="spot"))


@corruption("PL-15")
def a_claim_with_an_on_demand_pod_is_open_to_spot(c):
    c.req(c.of("demand-0"), CT)["values"] = ["on-demand", "spot"]
    c.bill()


@corruption("PL-15")
def a_custom_label_is_left_open(c):
    c.req(c.of("team-0"), "team")["values"] = ["red", "blue"]


@corruption("PL-15")
def no_alternative_of_node_affinity_holds(c):
    c.apart("either-0", zone="z-1")


@corruption("PL-15")
def a_pod_that_wants_no_gpu_is_on_one(c):
    claim = c.of("gpu-0")
    c.req(claim, ZONE)["values"] = ["z-2"]
    c.move("nogpu-0", claim)


@corruption("PL-15")
def a_zone_excluded_by_not_in_is_open(c):
    claim = c.apart("nogpu-1", zone="z-2")
    c.drop(claim, ZONE)
    c.bill()


@corruption("PL-15")
def an_alternative_that_matches_nothing(c):
    c.pods["demand-1"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}


@corruption("PL-15")
def a_bound_on_a_label_that_types_lack(c):
    rule = {"matchExpressions": [{"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Lt", "values": ["2"]}]}
    c.pods["demand-1"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [rule]}}}


@corruption("PL-16")
def a_taint_is_ignored(c):
    c.move("plain-3", c.of("team-0"))


@corruption("PL-16")
def a_toleration_has_another_value(c):
    c.pods["team-1"]["tolerations"] = [{"key": "dedicated", "value": "no", "effect": "NoSchedule"}]


@corruption("PL-16")
def a_toleration_is_for_another_effect(c):
    c.sample["nodePools"][0]["taints"] = [{"key": "dedicated", "value": "yes", "effect": "NoExecute"}]
    for pod in c.pods.values():
        pod["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    c.pods["plain-0"]["tolerations"][0] = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}


# Pools

@corruption("PL-17")
def a_limit_is_passed(c):
    c.sample["nodePools"][0]["limits"]["cpu"] = "16"


@corruption("PL-17")
def a_limit_holds_only_for_the_smallest_options(c):
    claim = c.of("team-0")
    claim["instanceTypeOptions"] = list(dict.fromkeys([*claim["instanceTypeOptions"], "c6.16"]))
    c.bill()
    c.sample["nodePools"][1]["limits"]["cpu"] = "15"


@corruption("PL-17")
def there_are_too_many_nodes(c):
    c.sample["nodePools"][0]["limits"]["nodes"] = "2"


@corruption("PL-18")
def min_values_is_broken(c):
    claim = c.of("team-0")
    claim["instanceTypeOptions"] = claim["instanceTypeOptions"][:1]
    c.bill()


# Prices

@corruption("PL-19", also=("PL-22",))
def a_claim_is_too_cheap(c):
    c.claims[0]["price"] *= 0.9


@corruption("PL-19")
def the_price_is_of_an_offering_that_does_not_agree(c):
    claim = c.of("demand-0")
    kind = c.types[claim["instanceTypeOptions"][0]]
    claim["price"] = min(o["price"] for o in kind["offerings"])
    c.plan["totalCheapestHourlyPrice"] = sum(k["price"] for k in c.claims)


@corruption("PL-20")
def the_cheapest_zone_is_wrong(c):
    claim = c.claims[0]
    claim["cheapestZone"] = next(z for z in ZONES if z != claim["cheapestZone"])


@corruption("PL-20")
def the_cheapest_type_is_wrong(c):
    claim = c.of("plain-0")
    claim["cheapestType"] = "g5.4"


@corruption("PL-20")
def the_cheapest_capacity_type_is_wrong(c):
    c.claims[0]["cheapestCapacityType"] = "reserved"


@corruption("PL-21")
def the_expected_price_is_wrong(c):
    c.plan["expectedHourlyPrice"] *= 1.001


@corruption("PL-22")
def the_total_is_wrong(c):
    c.plan["totalCheapestHourlyPrice"] *= 0.999
