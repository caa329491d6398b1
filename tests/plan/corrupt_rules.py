"""Corruptions of the rules between pods, of volumes, ports, nodes that are there, and of the cost policy."""

from corrupt import corruption, zone_of
from samples import ARCH, CT, FAMILY, ZONE, ZONES, _in, total


# Rules between pods

@corruption("PL-23")
def zone_spread_is_broken(c):
    first = zone_of(c, "zspread-0")
    c.apart(*[p for p in ("zspread-1", "zspread-2", "zspread-3", "zspread-4") if zone_of(c, p) != first], zone=first)


@corruption("PL-23")
def a_zone_is_left_empty(c):
    moved = [p for p in c.pods if p.startswith("zspread-") and zone_of(c, p) == "z-3"]
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
    c.apart("rollout-2", zone=zone_of(c, "rollout-0"))


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
    zone = next(z for z in ZONES if z != zone_of(c, "together-0"))
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
    c.apart("zapart-1", zone=zone_of(c, "zapart-0"))


@corruption("PL-25")
def anti_affinity_to_another_namespace_is_broken(c):
    term = {"labelSelector": {"matchLabels": {"app": "plain"}}, "topologyKey": ZONE, "namespaceSelector": {}}
    c.pods["demand-0"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    c.pods["plain-0"]["namespace"] = "elsewhere"
    c.req(c.of("demand-0"), ZONE)["values"] = [zone_of(c, "plain-0")]


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
    c.sweep()
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
    c.sweep()
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
def a_daemon_takes_a_port_on_a_node_that_is_there(c):
    c.pods["guest-0"]["hostPorts"] = [{"port": 80}]
    c.sample["existingNodes"][0]["labels"]["mine"] = "yes"
    c.sample["daemonPods"] = [{"name": "agent", "requests": {}, "nodeSelector": {"mine": "yes"}, "hostPorts": [{"port": 80}]}]


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
