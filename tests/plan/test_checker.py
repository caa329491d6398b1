"""Valid plans that the checker must not refuse, and the fine print of the rules: one small catalogue, plans by hand."""

import unittest
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from checker import check  # noqa: E402
from pods import selects, tolerated  # noqa: E402
from requirements import Req, possibly, quantity, surely  # noqa: E402
from samples import ARCH, CT, FAMILY, TYPE, ZONE, _in  # noqa: E402
from worlds import HOST, keeping, needs, node, node_terms, plan, sized, spread, term, varied, world  # noqa: E402


RESERVATION = "karpenter.k8s.aws/capacity-reservation-id"


def reserving(left):
    """A workload of three pods, with a reservation of so many instances in zone a beside spot in zone b."""
    workload = world([{"app": "a"}] * 3, ("a", "b"))
    own = {"zone": "a", "capacityType": "reserved", "price": 1.0, "available": True,
           "requirements": [_in(CT, "reserved"), _in(ZONE, "a"), _in(RESERVATION, "cr-1")]}
    kind = workload["instanceTypes"][0]
    kind["requirements"] = [r for r in kind["requirements"] if r["key"] != CT]
    kind["offerings"][0] = own if left is None else own | {"reservationCapacity": left}
    return workload


class CheckerTest(unittest.TestCase):
    def assert_rules(self, rules, workload, *claims, left=(), there=None, **flags):
        self.assert_answer(rules, workload, plan(workload, *claims, left=left, there=there), **flags)

    def assert_answer(self, rules, workload, answer, **flags):
        found = check(workload, answer, **flags).violations
        self.assertEqual(sorted({v[0] for v in found}), sorted(rules), found)

    def assert_valid(self, workload, *claims, left=(), there=None, **flags):
        self.assert_rules([], workload, *claims, left=left, there=there, **flags)

    # Capacity reservations

    def test_a_reservation_gives_as_many_nodes_as_it_has_left_and_no_more(self):
        pin = [_in(CT, "reserved"), _in(RESERVATION, "cr-1")]

        def rules(left, *claims, over=()):
            workload = reserving(left)
            answer = plan(workload, *claims, left=over)
            for claim in answer["nodeClaims"]:
                claim["cheapestCapacityType"] = "reserved"
            return sorted({rule for rule, _, _ in check(workload, answer).violations})

        self.assertEqual(rules(2, ([0], "a", *pin), ([1, 2], "a", *pin)), [])
        self.assertEqual(rules(1, ([0], "a", *pin), ([1, 2], "a", *pin)), ["PL-50"])
        self.assertEqual(rules(None, ([0], "a", *pin), ([1], "a", *pin), ([2], "a", *pin)), [])
        self.assertEqual(rules(3, ([0, 1, 2], ("a", "b"))), ["PL-50"])
        self.assertEqual(rules(0, ([0, 1, 2], "a", *pin))[:1], ["PL-12"])

    # Node groups

    def test_a_node_group_may_be_at_its_least_without_pods_and_no_other_pool_may(self):
        group = {"policy": "node-groups", "minNodes": 2}
        self.assert_valid(world([{"app": "a"}], **group), ([0], None), ([], None))
        self.assert_rules(["PL-28"], world([{"app": "a"}], **dict(group, minNodes=1)), ([0], None), ([], None))
        self.assert_rules(["PL-28"], world([{"app": "a"}], policy="fewest-nodes"), ([0], None), ([], None))

    def test_a_node_of_a_group_may_become_each_of_its_types(self):
        two = world([{"app": "a"}], policy="node-groups")
        two["instanceTypes"].append(dict(two["instanceTypes"][0], name="m.9"))
        self.assert_rules(["PL-38"], two, ([0], None))

    # Volumes

    def test_one_place_of_a_volume_is_enough_and_attachments_without_a_bound_have_none(self):
        places = [[_in("topology.ebs.csi.aws.com/zone", "z")], [_in(ZONE, "a", "b")]]
        many = {"cpu": "100m", "attachable-volumes-csi-x": "99"}
        self.assert_valid(world([{"app": "a", "volumeTopology": places, "requests": many}]), ([0], ["a"]))
        self.assert_rules(["PL-33"], world([{"app": "a", "volumeTopology": places}]), ([0], ["c"]))

    def test_a_pod_that_may_be_on_no_spot_node(self):
        for offering, rules in (("spot", ["PL-33"]), ("on-demand", [])):
            workload = world([{"app": "a", "offSpot": True}])
            kind = workload["instanceTypes"][0]
            kind["requirements"] = [r for r in kind["requirements"] if r["key"] != CT] + [_in(CT, offering)]
            for one in kind["offerings"]:
                one |= {"capacityType": offering, "requirements": [_in(CT, offering), _in(ZONE, one["zone"])]}
            answer = plan(workload, ([0], "a"))
            for claim in answer["nodeClaims"]:
                claim["cheapestCapacityType"] = offering
            self.assert_answer(rules, workload, answer)

    def test_ports_of_other_protocols_and_addresses_do_not_clash(self):
        ports = [{"port": 53, "protocol": "UDP"}, {"port": 53}, {"port": 80, "ip": "10.0.0.1"}, {"port": 80, "ip": "10.0.0.2"}]
        self.assert_valid(world([{"app": "a", "hostPorts": [p]} for p in ports]), ([0, 1, 2, 3], None))

    # Node selection

    def test_not_in_holds_where_the_label_is_missing(self):
        self.assert_valid(world([{"app": "a", **node_terms([("disk", "NotIn", ["hdd"]), ("gpu", "DoesNotExist")])}]), ([0], None))

    def test_one_alternative_of_node_affinity_is_enough(self):
        self.assert_valid(world([{"app": "a", **node_terms([(ZONE, "In", ["z"])], [(ARCH, "In", ["amd64"])])}]), ([0], None))

    def test_an_open_operating_system_has_to_be_pinned(self):
        pods = [{"app": "a", "nodeSelector": {"kubernetes.io/os": "linux"}}]
        self.assert_rules(["PL-15"], world(pods), ([0], None))
        self.assert_valid(world(pods), ([0], None, _in("kubernetes.io/os", "linux")))

    def test_old_spellings_of_labels_are_understood(self):
        self.assert_valid(world([{"app": "a", "nodeSelector": {"failure-domain.beta.kubernetes.io/zone": "b"}}]), ([0], ["b"]))

    def test_a_custom_label_of_the_pool_reaches_its_nodes(self):
        pods = [{"app": "a", "nodeSelector": {"team": "red"}}]
        self.assert_valid(world(pods, labels={"team": "red"}), ([0], None))
        self.assert_rules(["PL-15"], world(pods, labels={"team": "blue"}), ([0], None))

    def test_a_soft_taint_keeps_nobody_away(self):
        self.assert_valid(world([{"app": "a"}], taints=[{"key": "x", "effect": "PreferNoSchedule"}]), ([0], None))

    # Topology spread

    def test_equal_zones_are_valid_and_an_empty_one_is_not(self):
        pods = [{"app": "a", **spread("a")}] * 4
        self.assert_valid(world(pods), ([0, 1], ["a"]), ([2], ["b"]), ([3], ["c"]))
        self.assert_rules(["PL-23"], world(pods), ([0, 1], ["a"]), ([2, 3], ["b"]))

    def test_a_zone_that_the_pods_cannot_use_does_not_count(self):
        pods = [{"app": "a", **spread("a"), **node_terms([(ZONE, "NotIn", ["c"])])}] * 4
        self.assert_valid(world(pods), ([0, 1], ["a"]), ([2, 3], ["b"]))

    def test_an_open_zone_is_valid_where_it_cannot_matter(self):
        pods = [{"app": "a", **spread("a", skew=5)}] * 3
        self.assert_valid(world(pods), ([0, 1, 2], None))
        self.assert_rules(["PL-26"], world([{"app": "a", **spread("a", skew=2)}] * 3), ([0, 1, 2], None))

    def test_soft_spread_is_not_held_against_a_plan(self):
        self.assert_valid(world([{"app": "a", **spread("a", whenUnsatisfiable="ScheduleAnyway")}] * 3), ([0, 1, 2], None))

    def test_a_host_may_hold_as_many_as_max_skew(self):
        pods = [{"app": "a", **spread("a", HOST, 2)}] * 3
        self.assert_valid(world(pods), ([0, 1], None), ([2], None))
        self.assert_rules(["PL-23"], world(pods), ([0, 1, 2], None))

    def test_min_domains_counts_only_when_there_are_fewer(self):
        pods = [{"app": "a", **spread("a", minDomains=3)}] * 6
        claims = ([0, 1], ["a"]), ([2, 3], ["b"]), ([4, 5], ["c"])
        self.assert_valid(world(pods), *claims)
        self.assert_rules(["PL-23"], world([dict(p, **spread("a", minDomains=4)) for p in pods]), *claims)

    def test_spread_over_another_apps_pods_in_the_final_state_and_in_some_order(self):
        pods = [{"app": "guard", **spread("a")}] + [{"app": "a"}] * 3
        claims = ([0], ["a"]), ([1, 2, 3], ["a"])
        self.assert_rules(["PL-23"], world(pods), *claims)
        self.assert_valid(world(pods), *claims, order=True)
        self.assert_valid(world(pods), ([0], ["b"]), claims[1])

    def test_own_pods_are_held_to_spread_in_any_order(self):
        pods = [{"app": "a", **spread("a")}] * 3
        self.assert_rules(["PL-23"], world(pods), ([0, 1, 2], ["a"]), order=True)

    def test_pods_of_another_namespace_do_not_count_for_spread(self):
        pods = [{"app": "a", **spread("a")}] + [{"app": "a", "namespace": "other"}] * 3
        self.assert_valid(world(pods), ([0, 1, 2, 3], ["a"]))

    def test_nodes_of_a_tainted_pool_count_unless_taints_are_honoured(self):
        taint = {"key": "x", "effect": "NoSchedule"}
        pods = [{"app": "a", "tolerations": [{"operator": "Exists"}], **spread("a", nodeTaintsPolicy="Honor")}] * 2
        self.assert_valid(world(pods, zones=("a", "b"), taints=[taint]), ([0], ["a"]), ([1], ["b"]))

    # Affinity

    def test_pods_with_affinity_to_themselves_start_one_domain_only(self):
        pods = [{"app": "a", **needs("podAffinity", term("a", ZONE))}] * 4
        self.assert_valid(world(pods), ([0, 1], ["a"]), ([2, 3], ["a"]))
        self.assert_rules(["PL-24"], world(pods), ([0, 1], ["a"]), ([2, 3], ["b"]))

    def test_a_chain_of_affinity_is_bound_in_its_order(self):
        pods = [{"app": "c", **needs("podAffinity", term("b", ZONE))}, {"app": "b", **needs("podAffinity", term("a", ZONE))}, {"app": "a"}]
        self.assert_valid(world(pods), ([0], ["a"]), ([1], ["a"]), ([2], ["a"]))

    def test_a_ring_of_affinity_is_never_bound(self):
        pods = [{"app": "a", **needs("podAffinity", term("b", ZONE))}, {"app": "b", **needs("podAffinity", term("a", ZONE))}]
        self.assert_rules(["PL-24"], world(pods), ([0, 1], ["a"]))

    def test_friends_on_one_node_need_no_pinned_zone(self):
        pods = [{"app": "a"}, {"app": "b", **needs("podAffinity", term("a", ZONE))}]
        self.assert_valid(world(pods), ([0, 1], None))
        self.assert_rules(["PL-26"], world(pods), ([0], None), ([1], ["a"]))

    def test_one_pod_alone_may_ask_for_its_own_kind(self):
        self.assert_valid(world([{"app": "a", **needs("podAffinity", term("a", HOST))}]), ([0], None))

    def test_a_namespace_selector_that_is_empty_selects_all(self):
        pods = [{"app": "a", "namespace": "other"}, {"app": "b", **needs("podAffinity", term("a", HOST, namespaceSelector={}))}]
        self.assert_valid(world(pods), ([0, 1], None))
        self.assert_rules(["PL-24"], world([pods[0], dict(pods[1], **needs("podAffinity", term("a", HOST)))]), ([0, 1], None))

    def test_anti_affinity_over_zones_needs_zones_that_cannot_meet(self):
        pods = [{"app": "a", **needs("podAntiAffinity", term("a", ZONE))}] * 2
        self.assert_valid(world(pods), ([0], ["a"]), ([1], ["b", "c"]))
        self.assert_rules(["PL-26"], world(pods), ([0], ["a"]), ([1], ["a", "b"]))
        self.assert_rules(["PL-25"], world(pods), ([0], ["a"]), ([1], ["a"]))

    def test_mismatch_label_keys_leave_a_pods_own_kind_alone(self):
        rule = {"labelSelector": {"matchExpressions": [{"key": "tenant", "operator": "Exists"}]}, "topologyKey": HOST, "mismatchLabelKeys": ["tenant"]}
        pods = [{"app": "a", "labels": {"tenant": t}, **needs("podAntiAffinity", rule)} for t in "xxy"]
        self.assert_valid(world(pods), ([0, 1], None), ([2], None))
        self.assert_rules(["PL-25"], world(pods), ([0, 1, 2], None))

    # Left over

    def test_a_pod_that_fits_nowhere_may_be_left_over(self):
        pods = [{"app": "a"}, {"app": "big", "requests": {"cpu": "100"}}, {"app": "arm", "nodeSelector": {ARCH: "arm64"}}]
        self.assert_valid(world(pods), ([0], None), left=["big-1", "arm-2"])

    def test_a_limit_may_leave_pods_over(self):
        pods = [{"app": "a"}] * 31  # of which a node holds thirty
        self.assert_valid(world(pods, limits={"cpu": "8"}), (range(30), None), left=["a-30"])
        self.assert_rules(["PL-27"], world(pods, limits={"cpu": "16"}), (range(30), None), left=["a-30"])
        self.assert_rules(["PL-27"], world(pods, limits={"cpu": "16"}, usage={"cpu": "8"}), (range(29), None), left=["a-29", "a-30"])
        self.assert_valid(world(pods, limits={"cpu": "16"}, usage={"cpu": "8"}), (range(30), None), left=["a-30"])

    def test_a_pod_may_be_left_over_where_it_would_break_what_another_pod_states(self):
        def full(zones, more, **guard):
            return world([{"app": "guard", **guard}, {"app": "a"}, {"app": "a", **more}], zones, limits={"nodes": "1"})

        for zone, key in ((["a"], HOST), (["a"], ZONE), (None, ZONE)):
            for skew, rules in ((1, []), (2, ["PL-27"])):
                self.assert_rules(rules, full(("a", "b"), {}, **spread("a", key, skew)), ([0, 1], zone), left=["a-2"])
            self.assert_rules(["PL-27"], full(("a", "b"), {"namespace": "other"}, **spread("a", key)), ([0, 1], zone), left=["a-2"])
        # What it would do to a zone in which nobody states the rule is no excuse.
        two = world([{"app": "guard", **spread("a")}, {"app": "a"}, {"app": "a"}, {"app": "b"}], ("a", "b"), limits={"nodes": "2"})
        self.assert_rules(["PL-27"], two, ([0, 1], ["a"]), ([3], ["b"]), left=["a-2"])

    def test_a_pod_may_be_left_over_where_a_daemon_takes_its_port(self):
        def port(number, pods=({"app": "a", "hostPorts": [{"port": 80}]},), **more):
            daemon = {"name": "d", "requests": {}, "hostPorts": [{"port": number}], **more}
            taint = {"key": "x", "effect": "NoSchedule"}
            tolerant = [dict(p, tolerations=[{"key": "x", "operator": "Exists"}]) for p in pods]
            return world(tolerant, limits={"nodes": "0"}) | {"existingNodes": [node("n", "a", taints=[taint])], "daemonPods": [daemon]}

        everywhere = {"tolerations": [{"operator": "Exists"}]}
        self.assert_valid(port(80, **everywhere), left=["a-0"])
        self.assert_rules(["PL-39"], port(80, **everywhere), there={"n": [0]})
        for other in (port(81, **everywhere), port(80), port(80, nodeSelector={ARCH: "arm64"}, **everywhere)):
            self.assert_rules(["PL-27"], other, left=["a-0"])
            self.assert_valid(other, there={"n": [0]})

    def test_a_place_that_would_break_what_another_pod_states_is_not_taken_from_a_lower_priority(self):
        pods = [{"app": "guard", "priority": 9, **spread("a", HOST)}, {"app": "a", "priority": 9}, {"app": "b"}, {"app": "a", "priority": 9}]
        held = dict(world(pods, limits={"nodes": "0"}), existingNodes=[node("n", "a", cpu="300m")])
        self.assert_valid(held, there={"n": [0, 1, 2]}, left=["a-3"])
        freed = dict(world([*pods[:1], dict(pods[1], priority=0), *pods[2:]], limits={"nodes": "0"}), existingNodes=held["existingNodes"])
        self.assert_rules(["PL-42"], freed, there={"n": [0, 1, 2]}, left=["a-3"])

    def test_a_new_node_may_be_opened_for_what_would_break_a_rule_on_one_that_is_there(self):
        for skew, rules in ((1, []), (2, ["PL-43"])):
            apart = dict(world([{"app": "guard", **spread("a", HOST, skew)}, {"app": "a"}, {"app": "a"}]), existingNodes=[node("n", "a")])
            self.assert_rules(rules, apart, ([2], None), there={"n": [0, 1]})
        for key, rules in ((HOST, []), (ZONE, ["PL-43"])):
            friends = [{"app": "a"}, {"app": "b", "nodeSelector": {CT: "spot"}, **needs("podAffinity", term("a", key))}]
            self.assert_rules(rules, dict(world(friends), existingNodes=[node("n", "a")]), ([0, 1], ["a"]))

    def test_a_left_over_pod_of_a_higher_priority_may_need_what_no_lower_one_has(self):
        pods = [{"app": "low"}, {"app": "high", "priority": 9, "nodeSelector": {ARCH: "arm64"}}, {"app": "top", "priority": 9, "requests": {"cpu": "8"}}]
        self.assert_rules(["PL-42"], world(pods, limits={"nodes": "1"}), ([0], None), left=["high-1", "top-2"])
        self.assert_valid(world(pods[:2], limits={"nodes": "1"}), ([0], None), left=["high-1"])

    def test_a_lighter_pool_may_hold_what_a_heavier_one_cannot_or_need_not(self):
        heavy = {"name": "heavy", "weight": 9, "requirements": [], "labels": {}}
        for more in ({"taints": [{"key": "x", "effect": "NoSchedule"}]}, {"taints": [{"key": "x", "effect": "PreferNoSchedule"}]}, {"limits": {"nodes": "0"}},
                     {"requirements": [_in(ARCH, "arm64")]}, {"policy": "node-groups"}):
            both = world([{"app": "a"}])
            both["nodePools"].append({**heavy, **more})
            self.assert_valid(both, ([0], None))
        both["nodePools"][1] = heavy
        self.assert_rules(["PL-41"], both, ([0], None))

    def test_alternatives_of_node_affinity_are_tried_in_their_order_whatever_a_pool_weighs(self):
        heavy = {"name": "heavy", "weight": 9, "requirements": [_in(ZONE, "a")], "labels": {}}
        for order, rules in (("bac", []), ("bca", []), ("abc", ["PL-41"]), ("acb", ["PL-41"])):
            both = world([{"app": "a", **node_terms(*([(ZONE, "In", [zone])] for zone in order))}])
            both["nodePools"].append(heavy)
            self.assert_rules(rules, both, ([0], ["b"]))

    # Pods that stand already

    def test_what_stands_already_is_no_fault_of_the_plan(self):
        keep = {"app": "b", **needs("podAntiAffinity", term("b", ZONE))}
        crowded = dict(world([{"app": "a", **spread("a")}]), existingNodes=[node("n", "a", [{"app": "a"}] * 5 + [keep, keep], cpu="0")])
        self.assert_valid(crowded, ([0], ["b"]))
        self.assert_rules(["PL-23"], crowded, ([0], ["a"]))

    def test_a_node_that_lacks_one_key_of_a_pod_takes_part_in_none_of_its_spreads(self):
        two = {"topologySpreadConstraints": [*spread("a")["topologySpreadConstraints"], *spread("a", "rack", 9)["topologySpreadConstraints"]]}
        there = [node("n", "a", [{"app": "a"}] * 3, cpu="0")]
        whole = dict(world([{"app": "a", **two}] * 2, zones=("a", "b"), labels={"rack": "1"}), existingNodes=there)
        self.assert_valid(whole, ([0], ["a"]), ([1], ["b"]))
        self.assert_rules(["PL-23"], whole, ([0, 1], ["b"]))

    def test_pods_that_select_themselves_may_come_first_only_if_any_order_will_do(self):
        pods = [{"app": "a", **needs("podAffinity", term("a", ZONE))}, {"app": "a"}]
        claims = ([0], ["a"]), ([1], ["b"])
        self.assert_rules(["PL-24"], world(pods), *claims)
        self.assert_valid(world(pods), *claims, order=True)
        both = [pods[0], {"app": "a", **needs("podAffinity", term("a", HOST))}]
        self.assert_rules(["PL-24"], world(both), *claims, order=True)

    # 15 types, 5 families

    def test_types_on_which_a_daemon_takes_a_port_are_none_that_a_claim_might_keep(self):
        kinds = [(f"f{i}", 1.0, "spot", "amd64") for i in range(13)] + [("f0", 1.45, "spot", "amd64")] + [("g", 1.35, "spot", "arm64")] * 5
        workload = varied(world([{"app": "a", "hostPorts": [{"port": 80}]}]), *kinds)
        daemon = {"name": "d", "requests": {}, "nodeSelector": {ARCH: "arm64"}, "hostPorts": [{"port": 80}]}
        for daemons, rules in (([daemon], []), ([], ["PL-30", "PL-32"]), ([dict(daemon, hostPorts=[{"port": 81}])], ["PL-30", "PL-32"])):
            whole = dict(workload, daemonPods=daemons)
            self.assert_answer(rules, whole, keeping(whole, plan(whole, ([0], None)), *range(14)), policy_cost=True)

    def test_what_has_no_spot_offering_counts_neither_towards_15_types_nor_needs_to_be_kept_for_them(self):
        kinds = [(f"f{i}", 1.0, "spot", "amd64") for i in range(14)] + [("od", 1.3, "on-demand", "amd64"), ("f0", 1.4, "spot", "amd64"), ("f1", 1.45, "spot", "amd64")]
        family = {"key": FAMILY, "operator": "Exists"}
        for least, rules in ((15, []), (None, ["PL-32"])):
            whole = varied(world([{"app": "a"}], requirements=[family | ({"minValues": least} if least else {})]), *kinds)
            answer = plan(whole, ([0], None, family))
            self.assert_answer(rules, whole, keeping(whole, answer, *range(16)), policy_cost=True)
            self.assert_answer(["PL-32"], whole, keeping(whole, answer, *range(17)), policy_cost=True)
            self.assert_answer(["PL-30", *rules], whole, keeping(whole, answer, *range(15)), policy_cost=True)

    def test_fifteen_types_need_none_that_costs_more_than_one_and_a_half_times_the_cheapest(self):
        kinds = [(f"f{i}", 1.0, "spot", "amd64") for i in range(14)] + [("f0", 1.6, "spot", "amd64")]
        whole = varied(world([{"app": "a"}]), *kinds)
        self.assert_answer([], whole, keeping(whole, plan(whole, ([0], None)), *range(14)), policy_cost=True)
        self.assert_answer(["PL-32"], whole, keeping(whole, plan(whole, ([0], None)), *range(15)), policy_cost=True)

    # Half of a workload

    def test_half_of_a_workload_matters_only_where_two_nodes_cost_no_more(self):
        pods = [{"app": "a"}] * 10
        self.assert_rules(["PL-40"], sized(world(pods), **{"m.8": 1.0, "m.4": 0.5}), (range(10), None), policy_cost=True)
        for dear in ({"m.8": 1.0}, {"m.8": 1.0, "m.4": 0.53}):
            self.assert_valid(sized(world(pods), **dear), (range(10), None), policy_cost=True)
        self.assert_valid(sized(world(pods[1:]), **{"m.8": 1.0, "m.4": 0.5}), (range(9), None), policy_cost=True)
        self.assert_valid(sized(world(pods, limits={"nodes": "1"}), **{"m.8": 1.0, "m.4": 0.5}), (range(10), None), policy_cost=True)
        together = [{"app": "a", **needs("podAffinity", term("a", HOST))}] * 10
        self.assert_valid(sized(world(together), **{"m.8": 1.0, "m.4": 0.5}), (range(10), None), policy_cost=True)

    def test_two_nodes_are_no_way_out_where_a_daemon_takes_a_port_on_them(self):
        pods = [{"app": "a"}] * 10 + [{"app": "b", "hostPorts": [{"port": 80}]}]
        small = sized(world(pods), **{"m.8": 1.0, "m.4": 0.5})
        daemon = {"name": "d", "requests": {}, "nodeSelector": {TYPE: "m.4"}, "hostPorts": [{"port": 80}]}
        for number, rules in ((80, []), (81, ["PL-40"])):
            whole = dict(small, daemonPods=[dict(daemon, hostPorts=[{"port": number}])])
            self.assert_answer(rules, whole, plan(whole, (range(11), None)), policy_cost=True)


class RulesTest(unittest.TestCase):
    def test_quantities_are_exact(self):
        for text, value in [("100m", "1/10"), ("1.5Gi", 1610612736), ("1e3", 1000), ("2k", 2000), (".5", "1/2"), ("10M", 10**7), ("1E", 10**18)]:
            self.assertEqual(str(quantity(text)), str(value))
        for text in ("", "1GB", "m", "1 Gi", "0x10", "ten"):
            self.assertRaises(ValueError, quantity, text)

    def test_intersections_and_bounds(self):
        between = Req.of("Gt", ["2"]).meet(Req.of("Lte", ["4"]))
        self.assertEqual((between.has("2"), between.has("3"), between.has("4"), between.has("5"), between.has("x")), (False, True, True, False, False))
        self.assertTrue(Req.of("Gt", ["4"]).meet(Req.of("Lt", ["5"])).empty())
        self.assertTrue(Req.of("In", ["1", "3", "x"]).meet(Req.of("Gte", ["2"])) == Req.of("In", ["3"]))
        self.assertTrue(Req.of("NotIn", ["a", "b"]).within(Req.of("NotIn", ["a"])))
        self.assertFalse(Req.of("NotIn", ["a"]).within(Req.of("NotIn", ["a", "b"])))
        self.assertTrue(between.meet(Req.of("NotIn", ["3", "4"])).empty())
        for bad in (("Near", ["a"]), ("Gt", ["x"]), ("Gt", []), ("Lt", ["1", "2"])):
            self.assertRaises(ValueError, Req.of, *bad)

    def test_expressions_on_a_label_that_is_missing(self):
        held = [op for op in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte") if surely(op, ["1"], None)]
        self.assertEqual(held, ["NotIn", "DoesNotExist"])
        self.assertTrue(possibly("In", ["a"], Req.of("In", ["a", "b"])) and not surely("In", ["a"], Req.of("In", ["a", "b"])))

    def test_tolerations(self):
        taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
        yes = [{"operator": "Exists"}, {"key": "k", "operator": "Exists"}, {"key": "k", "value": "v"}, {"key": "k", "value": "v", "effect": "NoSchedule"}]
        no = [{"key": "k"}, {"key": "j", "operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoExecute"}, {"value": "v"}]
        self.assertEqual([tolerated(taint, t) for t in yes + no], [True] * 4 + [False] * 4)

    def test_selectors(self):
        self.assertFalse(selects(None, {"a": "1"}))
        self.assertTrue(selects({}, {}))
        self.assertTrue(selects({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}))
        self.assertFalse(selects({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}, {"a": "1"}))


if __name__ == "__main__":
    unittest.main()
