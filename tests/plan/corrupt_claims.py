"""Corruptions of what a plan and its claims say: pods, counts, options, requirements, resources."""

import copy

from corrupt import corruption
from samples import ARCH, CPU, FAMILY, ZONE, _in, total


# Pods and counts

@corruption("PL-2")
def a_pod_is_lost(c):
    c.of("plain-3")["podNames"].remove("plain-3")
    c.settle()


@corruption("PL-1")
def a_pod_is_in_two_claims(c):
    c.without("plain")["podNames"].append("plain-3")
    c.settle()


@corruption("PL-1")
def a_pod_is_twice_in_one_claim(c):
    c.of("plain-3")["podNames"].append("plain-3")
    c.settle()


@corruption("PL-1", also=("PL-27",))
def a_pod_is_placed_and_unscheduled(c):
    c.plan["unscheduled"]["apart-1"] = "no room"


@corruption("PL-3")
def a_pod_is_invented(c):
    c.claims[0]["podNames"].append("nobody-0")
    c.bill()


@corruption("PL-3")
def an_unknown_pod_is_unscheduled(c):
    c.plan["unscheduled"]["nobody-0"] = "no room"


@corruption("PL-4")
def scheduled_pods_are_miscounted(c):
    c.plan["scheduledPods"] += 1


@corruption("PL-4")
def claims_are_miscounted(c):
    c.plan["numNodeClaims"] -= 1


@corruption("PL-4")
def pods_are_miscounted(c):
    c.plan["pods"] -= 1


@corruption("PL-27")
def a_pod_is_left_over_without_need(c):
    c.of("zspread-8")["podNames"].remove("zspread-8")  # topology: no say
    c.of("plain-3")["podNames"].remove("plain-3")
    c.plan["unscheduled"] |= {"plain-3": "no room", "zspread-8": "no room"}
    c.sweep()
    c.settle()


@corruption("PL-28")
def a_claim_has_no_pods(c):
    empty = copy.deepcopy(c.claims[0])
    empty["podNames"] = []
    c.claims.append(empty)
    c.settle()


# Shape

@corruption("PL-5")
def a_field_is_missing(c):
    del c.plan["peakRssKiB"]


@corruption("PL-5")
def a_price_is_a_string(c):
    c.claims[0]["price"] = str(c.claims[0]["price"])


@corruption("PL-5")
def a_reason_is_empty(c):
    c.plan["unscheduled"]["huge-0"] = ""


@corruption("PL-5")
def the_workload_is_another(c):
    c.plan["workload"] = "other"


# Pools, options, requirements

@corruption("PL-6", also=("PL-21",))
def the_pool_is_unknown(c):
    c.claims[0]["nodePool"] = "nowhere"


@corruption("PL-7")
def an_option_is_unknown(c):
    c.claims[0]["instanceTypeOptions"].append("z9.huge")


@corruption("PL-7", also=("PL-21",))
def an_option_stands_twice(c):
    options = c.claims[0]["instanceTypeOptions"]
    options.insert(1, options[0])


@corruption("PL-7", also=("PL-21", "PL-24"))
def a_claim_has_no_options(c):
    c.claims[0]["instanceTypeOptions"] = []


@corruption("PL-8")
def options_are_unsorted(c):
    c.claims[0]["instanceTypeOptions"].reverse()


@corruption("PL-9")
def a_requirement_of_the_pool_is_dropped(c):
    c.drop(c.of("plain-0"), CPU)


@corruption("PL-9")
def a_requirement_with_min_values_is_dropped(c):
    c.drop(c.of("team-0"), FAMILY)


@corruption("PL-9")
def a_requirement_is_wider_than_the_pool(c):
    claim = c.of("plain-0")
    c.drop(claim, CPU)
    claim["requirements"].append({"key": CPU, "operator": "Gt", "values": ["0"]})


@corruption("PL-9", also=("PL-11", "PL-21", "PL-24"))
def a_label_of_the_pool_is_contradicted(c):
    c.req(c.of("plain-0"), "tier")["values"] = ["dedicated"]


@corruption("PL-9", also=("PL-11", "PL-21", "PL-24"))
def the_node_pool_label_is_another(c):
    c.claims[0]["requirements"].append(_in("karpenter.sh/nodepool", "dedicated"))


@corruption("PL-10")
def an_operator_is_unknown(c):
    c.claims[0]["requirements"].append({"key": ARCH, "operator": "Near", "values": ["amd64"]})


@corruption("PL-10", also=("PL-11", "PL-21", "PL-24"))
def a_label_comes_from_nowhere(c):
    c.claims[0]["requirements"].append(_in("example.com/moon", "full"))


@corruption("PL-11")
def an_option_has_another_architecture(c):
    c.of("arm-0")["instanceTypeOptions"].append("r7.16")


@corruption("PL-11", also=("PL-19", "PL-20", "PL-21"))
def an_option_breaks_a_numeric_bound(c):
    claim = c.of("plain-0")
    c.drop(claim, CPU)
    claim["requirements"].append({"key": CPU, "operator": "Gte", "values": ["16"]})
    claim["instanceTypeOptions"] = ["c6.16", "c6.8"]
    c.bill()
    small = [n for n in claim["podNames"] if n != "plain-0"]
    for pod in small:
        c.pods[pod]["requests"] = {"cpu": "1m", "memory": "1Mi"}
    c.settle()


@corruption("PL-11", also=("PL-21",))
def an_option_is_not_among_the_types_required(c):
    claim = c.of("apart-1")
    claim["requirements"].append({"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": claim["instanceTypeOptions"][-1:]})


@corruption("PL-12", also=("PL-19", "PL-20", "PL-21"))
def an_option_has_no_available_offering(c):
    claim = c.of("apart-1")
    for offer in c.types[claim["instanceTypeOptions"][-1]]["offerings"]:
        offer["available"] = offer["available"] and offer["zone"] != c.req(claim, ZONE)["values"][0]


# Resources

@corruption("PL-13")
def an_option_is_too_small(c):
    claim = c.of("plain-0")
    c.pods["plain-0"]["requests"] = {"cpu": "4", "memory": "1Gi"}
    c.settle()
    claim["instanceTypeOptions"].append("c6.4")
    c.bill()


@corruption("PL-13")
def an_option_allows_too_few_pods(c):
    for name in c.of("plain-0")["instanceTypeOptions"][:1]:
        c.types[name]["capacity"]["pods"] = "3"


@corruption("PL-13")
def overhead_is_forgotten(c):
    kind = c.types[c.of("plain-0")["instanceTypeOptions"][0]]
    kind["overhead"]["systemReserved"] = {"cpu": "12"}


@corruption("PL-13")
def huge_pages_are_counted_as_memory(c):
    kind = c.types[c.of("plain-0")["instanceTypeOptions"][0]]
    kind["capacity"]["hugepages-2Mi"] = kind["capacity"]["memory"]


@corruption("PL-13", also=("PL-14",))
def daemons_are_forgotten(c):
    # As large as all pods of a node that is more than half full: it would run there alone, which makes it count.
    requests = {"cpu": c.of("plain-0")["requests"]["cpu"]}
    c.sample["daemonSets"] = [{"name": "agent", "requests": requests, "tolerations": [{"operator": "Exists"}]}]


@corruption("PL-13")
def a_gpu_is_not_there(c):
    claim = c.of("plain-0")
    c.claims.remove(c.of("gpu-0"))
    claim["podNames"].append("gpu-0")
    claim["requests"] = total([c.pods[n] for n in claim["podNames"]])
    c.bill()


@corruption("PL-14")
def requests_are_understated(c):
    c.claims[0]["requests"]["cpu"] = "1m"


@corruption("PL-14")
def requests_lack_a_resource(c):
    del c.claims[0]["requests"]["memory"]


@corruption("PL-14")
def requests_are_no_quantity(c):
    c.claims[0]["requests"]["cpu"] = "many"
