#!/usr/bin/env python3
"""Shows that the checker catches what it should: valid plans of small workloads, each corrupted in one way at a time.

Every corruption names the rule that has to fire; `also` names rules that may fire besides, and no other rule may.
"""

import copy
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from checker import check  # noqa: E402
from samples import ARCH, CPU, CT, FAMILY, ZONE, ZONES, Node, Packer, _in, bill, total, workload  # noqa: E402

SEEDS = (1, 2, 3, 4, 5)
CASES = []


class Case:
    """A workload and a valid plan of it, with the handles that corruptions need."""

    def __init__(self, sample, plan):
        self.sample, self.plan, self.claims = copy.deepcopy(sample), copy.deepcopy(plan), None
        self.claims = self.plan["nodeClaims"]
        self.pods = {p["name"]: p for p in self.sample["pods"]}
        self.types = {t["name"]: t for t in self.sample["instanceTypes"]}

    def of(self, pod):
        """The claim of a pod."""
        return next(c for c in self.claims if pod in c["podNames"])

    def without(self, app, **labels):
        """A claim without pods of an app, on which other requirements have the values given."""
        keys = {"zone": ZONE, "ct": CT}
        return next(c for c in self.claims if not any(p.startswith(app + "-") for p in c["podNames"])
                    and "gpu-0" not in c["podNames"] and c["nodePool"] == "default"
                    and all(self.req(c, keys[k])["values"] == [v] for k, v in labels.items()))

    @staticmethod
    def req(claim, key):
        return next(r for r in claim["requirements"] if r["key"] == key)

    @staticmethod
    def drop(claim, key):
        claim["requirements"] = [r for r in claim["requirements"] if r["key"] != key]

    def move(self, pod, claim):
        """Moves a pod to a claim and sets the books right."""
        self.of(pod)["podNames"].remove(pod)
        claim["podNames"].append(pod)
        return self.settle()

    def apart(self, *pods, zone=None):
        """Moves pods to a claim of their own, a copy of the first one's."""
        claim = copy.deepcopy(self.of(pods[0]))
        for pod in pods:
            self.of(pod)["podNames"].remove(pod)
        claim["podNames"] = list(pods)
        if zone:
            self.req(claim, ZONE)["values"] = [zone]
        self.claims.append(claim)
        self.settle()
        return claim

    def settle(self):
        """Requests, options and prices that agree with the pods, so that only the corruption itself is wrong."""
        for claim in self.claims:
            pods = [self.pods[n] for n in claim["podNames"] if n in self.pods]
            claim["requests"] = total(pods)
            node = Node(None, {}, 0, [self.types[n] for n in claim["instanceTypeOptions"]])
            claim["instanceTypeOptions"] = [t["name"] for t in node.fitting(pods)]
        return self.bill()

    def bill(self):
        return bill(self.sample, self.plan)


def corruption(rule, also=(), **flags):
    """Registers a function as a corruption that has to be caught by `rule`."""
    def register(function):
        CASES.append((function.__name__.replace("_", " "), rule, set(also), flags, function))
        return function
    return register


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


@corruption("PL-7", also=("PL-21",))
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


@corruption("PL-9", also=("PL-11", "PL-21"))
def a_label_of_the_pool_is_contradicted(c):
    c.req(c.of("plain-0"), "tier")["values"] = ["dedicated"]


@corruption("PL-9", also=("PL-11", "PL-21"))
def the_node_pool_label_is_another(c):
    c.claims[0]["requirements"].append(_in("karpenter.sh/nodepool", "dedicated"))


@corruption("PL-10")
def an_operator_is_unknown(c):
    c.claims[0]["requirements"].append({"key": ARCH, "operator": "Near", "values": ["amd64"]})


@corruption("PL-10", also=("PL-11", "PL-21"))
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
    c.sample["daemonSets"] = [{"name": "agent", "requests": {"cpu": "15"}, "tolerations": [{"operator": "Exists"}]}]


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


# One pod, one node

@corruption("PL-15")
def an_arm_pod_is_on_amd(c):
    c.move("arm-0", c.without("arm", zone=_zone(c, "arm-0")))


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


# Rules between pods

def _zone(c, pod):
    return c.req(c.of(pod), ZONE)["values"][0]


@corruption("PL-23")
def zone_spread_is_broken(c):
    first = _zone(c, "zspread-0")
    c.apart(*[p for p in ("zspread-1", "zspread-2", "zspread-3", "zspread-4") if _zone(c, p) != first], zone=first)


@corruption("PL-23")
def a_zone_is_left_empty(c):
    moved = [p for p in c.pods if p.startswith("zspread-") and _zone(c, p) == "z-3"]
    c.apart(moved[0], zone="z-1")
    c.apart(*moved[1:], zone="z-2")


@corruption("PL-23")
def host_spread_is_broken(c):
    claim = c.of("hspread-0")
    c.move(next(p for p in c.pods if p.startswith("hspread-") and p not in claim["podNames"]), claim)


@corruption("PL-23")
def too_few_domains_for_min_domains(c):
    for pod in c.pods.values():
        if pod["labels"]["app"] == "zspread":
            pod["topologySpreadConstraints"] = [dict(pod["topologySpreadConstraints"][0], minDomains=4)]


@corruption("PL-23")
def spread_within_a_revision_is_broken(c):
    c.apart("rollout-2", zone=_zone(c, "rollout-0"))


@corruption("PL-23")
def spread_over_capacity_types_is_broken(c):
    for pod in c.pods.values():
        if pod["labels"]["app"] == "plain":
            pod["topologySpreadConstraints"] = [{"maxSkew": 1, "topologyKey": CT, "whenUnsatisfiable": "DoNotSchedule",
                                                 "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["plain"]}]}}]


@corruption("PL-26")
def the_zone_of_spread_pods_is_open(c):
    c.drop(c.of("zspread-0"), ZONE)
    c.bill()


@corruption("PL-24")
def a_pod_is_in_another_zone_than_its_friends(c):
    zone = next(z for z in ZONES if z != _zone(c, "together-0"))
    c.apart("together-1", zone=zone)


@corruption("PL-24")
def a_pod_is_beside_no_friend(c):
    c.apart("beside-0")


@corruption("PL-24")
def a_friend_is_in_another_namespace(c):
    for i in range(8):
        c.pods[f"plain-{i}"]["namespace"] = "elsewhere"


@corruption("PL-26")
def the_zone_of_friends_is_open(c):
    c.drop(c.apart("together-1"), ZONE)
    c.bill()


@corruption("PL-25")
def anti_affinity_is_broken(c):
    c.move("apart-1", c.of("apart-0"))


@corruption("PL-25")
def anti_affinity_is_broken_by_the_pod_kept_away(c):
    c.move("arm-0", c.of("keepoff-0"))


@corruption("PL-25")
def anti_affinity_over_zones_is_broken(c):
    c.apart("zapart-1", zone=_zone(c, "zapart-0"))


@corruption("PL-25")
def anti_affinity_to_another_namespace_is_broken(c):
    term = {"labelSelector": {"matchLabels": {"app": "plain"}}, "topologyKey": ZONE, "namespaceSelector": {}}
    c.pods["demand-0"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    c.pods["plain-0"]["namespace"] = "elsewhere"
    c.req(c.of("demand-0"), ZONE)["values"] = [_zone(c, "plain-0")]


@corruption("PL-26", also=("PL-23",))
def the_zone_of_enemies_is_open(c):
    c.drop(c.apart("zapart-1"), ZONE)
    c.bill()


# Volumes, ports, what cannot be placed and what is there already

@corruption("PL-33")
def a_pod_is_not_where_its_volume_is(c):
    c.req(c.apart("disk-0"), ZONE)["values"] = ["z-1"]
    c.bill()


@corruption("PL-33")
def the_zone_of_a_volume_is_open(c):
    c.drop(c.apart("disk-1"), ZONE)
    c.bill()


@corruption("PL-34")
def a_node_attaches_too_many_volumes(c):
    claim = c.of("many-0")
    for pod in ("many-1", "many-2", "many-3", "many-4"):
        if pod not in claim["podNames"]:
            c.of(pod)["podNames"].remove(pod)
            claim["podNames"].append(pod)
        c.pods[pod]["requests"] = dict(c.pods[pod]["requests"], cpu="1m", memory="1Mi")
    c.claims[:] = [one for one in c.claims if one["podNames"]]
    for one in c.claims:
        one["requests"] = total([c.pods[name] for name in one["podNames"]])
    c.bill()


@corruption("PL-14")
def attachments_are_told_as_a_resource_of_the_node(c):
    c.of("many-0")["requests"]["attachable-volumes-csi-ebs.csi.aws.com"] = "1"


@corruption("PL-35")
def a_pod_is_placed_whose_claim_is_missing(c):
    del c.plan["unscheduled"]["blocked-0"]
    c.of("plain-0")["podNames"].append("blocked-0")
    c.settle()


@corruption("PL-36")
def two_pods_take_one_host_port(c):
    c.move("proxy-1", c.of("proxy-0"))


@corruption("PL-36")
def a_port_is_taken_on_every_address_and_on_one(c):
    c.pods["proxy-1"]["hostPorts"] = [{"port": 80, "protocol": "TCP", "ip": "10.0.0.1"}]
    c.move("proxy-1", c.of("proxy-0"))


@corruption("PL-36")
def a_daemon_has_the_port(c):
    c.sample["daemonPods"] = [{"name": "agent", "requests": {}, "hostPorts": [{"port": 80}]}]


@corruption("PL-37")
def a_claim_demands_more_values_than_it_keeps(c):
    next(r for r in c.of("team-0")["requirements"] if r["key"] == FAMILY)["minValues"] = 40


@corruption("PL-3", also=("PL-14",))
def a_pod_that_is_still_to_come_is_placed(c):
    c.of("plain-0")["podNames"].append("later-0")
    c.settle()


@corruption("PL-3")
def a_pod_that_is_still_to_come_is_put_on_a_node_there(c):
    c.plan["existingNodes"][0]["podNames"].append("later-0")
    c.bill()


@corruption("PL-39")
def a_node_that_is_there_is_overfull(c):
    for pod in ("plain-0", "plain-1"):
        c.of(pod)["podNames"].remove(pod)
        c.plan["existingNodes"][0]["podNames"].append(pod)
    c.claims[:] = [one for one in c.claims if one["podNames"]]
    c.settle()


@corruption("PL-39")
def a_node_that_is_there_has_a_taint(c):
    c.sample["existingNodes"][0]["taints"] = [{"key": "dedicated", "effect": "NoSchedule"}]


@corruption("PL-39")
def a_node_that_is_there_is_not_what_its_pod_selects(c):
    c.pods["guest-0"]["nodeSelector"] = {ARCH: "arm64"}


@corruption("PL-39")
def a_node_that_is_there_is_not_where_the_volume_is(c):
    c.pods["guest-1"]["volumeTopology"] = [[_in("topology.ebs.csi.aws.com/zone", "z-3")]]


@corruption("PL-39")
def a_node_that_is_there_attaches_too_many_volumes(c):
    for pod in ("guest-0", "guest-1"):
        c.pods[pod]["requests"]["attachable-volumes-csi-ebs.csi.aws.com"] = "1"


@corruption("PL-39")
def a_pod_is_put_on_fargate(c):
    c.plan["existingNodes"][0]["name"] = "fargate"


@corruption("PL-39")
def a_pod_is_put_on_a_node_that_is_not_there(c):
    c.plan["existingNodes"][0]["name"] = "nowhere"


@corruption("PL-1")
def a_pod_is_on_a_node_there_and_on_a_new_one(c):
    c.of("plain-0")["podNames"].append("guest-0")
    c.settle()


# The cost policy

@corruption("PL-30", also=("PL-31",), policy_cost=True)
def too_few_types_may_be_spot(c):
    claim = c.of("apart-4")
    claim["instanceTypeOptions"] = claim["instanceTypeOptions"][:4]
    c.bill()


@corruption("PL-31", policy_cost=True, also=("PL-30", "PL-32"))
def too_few_families_may_be_spot(c):
    claim = c.of("apart-4")
    claim["instanceTypeOptions"] = [n for n in claim["instanceTypeOptions"] if n[:2] in ("c6", "c7", "m6", "m7") and "g" not in n]
    c.bill()


@corruption("PL-32", policy_cost=True)
def a_dear_option_is_kept(c):
    claim = c.of("apart-4")
    claim["instanceTypeOptions"] = list(dict.fromkeys([*claim["instanceTypeOptions"], "r6.16"]))
    c.bill()


@corruption("PL-32", policy_cost=True)
def a_cheaper_option_is_passed_over(c):
    claim = c.of("apart-4")
    del claim["instanceTypeOptions"][5]
    claim["instanceTypeOptions"].append("r6.16")
    claim["instanceTypeOptions"] = list(dict.fromkeys(claim["instanceTypeOptions"]))
    c.bill()


def run_one(sample, plan, rule, also, flags, function):
    """None when the corruption is caught as it should be, else what happened."""
    case = Case(sample, plan)
    try:
        function(case)
    except (IndexError, StopIteration, ValueError) as error:
        return f"cannot be made: {error!r}"
    found = {v[0] for v in check(case.sample, case.plan, **flags).violations}
    if rule not in found:
        return f"not caught: found {sorted(found) or 'nothing'}, expected {rule}"
    return f"more than {rule}: {sorted(found - also - {rule})}" if found - also - {rule} else None


def command_line(sample, plan):
    """The exit status of check.py for a valid plan, an invalid one, and no plan at all."""
    script = Path(__file__).with_name("check.py")
    with tempfile.TemporaryDirectory() as folder:
        files = {n: Path(folder, n) for n in ("workload.json", "good.json", "bad.json", "broken.json")}
        for name, content in (("workload.json", sample), ("good.json", plan), ("bad.json", dict(plan, pods=0))):
            files[name].write_text(json.dumps(content))
        files["broken.json"].write_text("{")
        runs = [subprocess.run([sys.executable, script, files["workload.json"], files[n]], capture_output=True, text=True)
                for n in ("good.json", "bad.json", "broken.json")]
    return [r.returncode for r in runs] == [0, 1, 2] and runs[0].stdout.startswith("ok: ") and runs[1].stdout.startswith("PL-4 ")


def main():
    passed, failed = 0, []
    base = [(s, Packer(s).pack()) for s in map(workload, SEEDS)]
    for sample, plan in base:
        wrong = check(sample, plan, policy_cost=True).violations + check(sample, plan, order=True).violations
        wrong += [("left over", n, r) for n, r in plan["unscheduled"].items() if n not in ("huge-0", "blocked-0")]
        passed, failed = passed + (not wrong), failed + [f"{sample['name']} is not valid: {wrong[:3]}"] * bool(wrong)
    for name, rule, also, flags, function in CASES:
        results = [run_one(sample, plan, rule, also, flags, function) for sample, plan in base]
        bad = [f"{name} (seed {s}): {r}" for s, r in zip(SEEDS, results) if r]
        passed, failed = passed + (not bad), failed + bad[:2]
    good = command_line(*base[0])
    passed, failed = passed + good, failed + ["check.py's exit status"] * (not good)
    print(*failed, sep="\n" if failed else "", end="\n" if failed else "")
    print(f"{passed} passed, {len(failed)} failed ({len(CASES)} corruptions of {len(base)} plans)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
