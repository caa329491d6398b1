//! Quotas on capacity: what counts, and what packing launches within them, over pools.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::instance_type::InstanceType;
use crate::overlays::WrittenOverlay;
use crate::ownership::token::LaunchPart;
use crate::pack::{Options, Packing, quotas_with_plan, solve};
use crate::problem::{Policy, Problem};
use crate::quotas::{MOST_QUOTAS, Quota, WrittenQuota, judge_quota};

const ZONE: &str = "topology.kubernetes.io/zone";
const ZONE_ID: &str = "topology.k8s.aws/zone-id";

fn written(name: &str, selector: &Value, resources: &Value) -> WrittenQuota {
    let object = json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityQuota",
        "metadata": {"name": name}, "spec": {"selector": selector, "limits": {"resources": resources}}});
    WrittenQuota::new(serde_json::from_value(object).unwrap())
}

/// Puts a quota named `q` in the place of the one before.
fn set(state: &mut ClusterState, selector: Value, resources: Value) {
    assert!(state.apply_quota(written("q", &selector, &resources)), "it is another one than before");
}

fn is_in(key: &str, value: &str) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]})
}

/// Types of two CPUs, and of four that cost four times as much, in two zones; zone `a` costs less.
fn types() -> PlanningInput {
    let one = |name: &str, cpus: u32| {
        let offering = |zone: &str, dearer: f64| json!({"zone": zone, "capacityType": "on-demand", "price": 0.02 * f64::from(cpus * cpus) + dearer, "available": true});
        let value = json!({"name": name, "capacity": {"cpu": cpus.to_string(), "memory": "16Gi", "pods": "29"},
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]},
                {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": [&name[..1]]}],
            "offerings": [offering("a", 0.0), offering("b", 0.01)]});
        Arc::new(serde_json::from_value(value).unwrap())
    };
    let all = Arc::new(vec![one("m5.large", 2), one("r5.xlarge", 4)]);
    PlanningInput { instance_types: [("default".to_owned(), all)].into(), ..input(0) }
}

/// Pods that each need a node, and two pools.
fn waiting(pods: usize) -> ClusterState {
    let mut state = ClusterState::new();
    for name in ["default", "other"] {
        let mut own = pool(name, true);
        own.spec.limits = None;
        state.apply_pool(own);
    }
    for pod in 0..pods {
        let own = kube_pod(&format!("p{pod}"), "", "1500m");
        let mut own = serde_json::to_value(own).unwrap();
        own["spec"]["nodeSelector"] = json!({"karpenter.sh/nodepool": if pod % 2 == 0 { "default" } else { "other" }});
        state.apply_pod(&serde_json::from_value(own).unwrap()).unwrap();
    }
    state
}

fn planned(state: &ClusterState) -> (Arc<Problem>, Packing) {
    let problem = state.snapshot().planning(&types()).problem;
    let packing = solve(&problem, &Options::default());
    (problem, packing)
}

/// Numbers of nodes that are launched, and the first reason of a pod that is left over.
fn launched(state: &ClusterState) -> (usize, String) {
    let (_, packing) = planned(state);
    let reason = packing.unscheduled.first().map(|(_, reason)| reason.to_string()).unwrap_or_default();
    (packing.claims.len(), reason)
}

/// Usage of the quota: CPUs in thousandths, and nodes.
fn usage(state: &ClusterState) -> (i64, i64) {
    let usage = state.snapshot().planning(&types()).problem.quotas[0].usage.clone();
    (usage.get("cpu"), usage.get("nodes"))
}

#[test]
fn quota_holds_over_pools_and_leaves_other_nodes_alone() {
    let mut state = waiting(8);
    assert_eq!(launched(&state).0, 8, "without quotas");
    set(&mut state, json!(null), json!({"cpu": "10"}));
    let (nodes, reason) = launched(&state);
    assert_eq!(nodes, 5, "two CPUs each, of both pools together");
    assert!(reason.contains("CapacityQuota q of 10 cpu reached: 0 left"), "{reason}");
    set(&mut state, json!({"matchLabels": {"karpenter.sh/nodepool": "other"}}), json!({"nodes": "1"}));
    assert_eq!(launched(&state).0, 5, "all of one pool, and one of the other");
    set(&mut state, json!({"matchLabels": {"team": "blue"}}), json!({"nodes": "0"}));
    assert_eq!(launched(&state).0, 8, "no node of ours has that label");
    set(&mut state, is_in("karpenter.sh/registered", "true"), json!({"nodes": "3"}));
    assert_eq!(launched(&state).0, 3, "each node of ours comes to have it");
    set(&mut state, is_in("karpenter.k8s.aws/instance-category", "m"), json!({"nodes": "3"}));
    let (_, packing) = planned(&state);
    let small = packing.claims.iter().filter(|claim| claim.options.iter().any(|one| one.instance_type == 0)).count();
    assert_eq!((packing.unscheduled.len(), small), (0, 3), "the rest is of types that do not count");
    assert!(state.delete_quota("q") && !state.delete_quota("q"));
    let (problem, _) = planned(&state);
    assert!(!serde_json::to_string(&*problem).unwrap().contains("quotas"), "without quotas the problem is as before");
}

#[test]
fn nodes_are_planned_elsewhere_once_a_zones_quota_is_used_up() {
    let mut state = waiting(8);
    set(&mut state, is_in(ZONE, "a"), json!({"nodes": "3"}));
    let (_, packing) = planned(&state);
    let zones = |zone: &str| {
        let may_be = |claim: &&crate::pack::PlannedClaim| {
            let named = claim.requirements.iter().find(|one| one.key == ZONE);
            named.is_none_or(|one| one.values.iter().any(|value| value == zone))
        };
        packing.claims.iter().filter(may_be).count()
    };
    assert_eq!((packing.claims.len(), zones("a")), (8, 3), "the others are pinned to the other zone");
    set(&mut state, is_in(ZONE, "a"), json!({"nodes": "0"}));
    let mut pinned = serde_json::to_value(kube_pod("pinned", "", "1500m")).unwrap();
    pinned["spec"]["nodeSelector"] = json!({ZONE: "a"});
    state.apply_pod(&serde_json::from_value(pinned).unwrap()).unwrap();
    let (nodes, reason) = launched(&state);
    assert_eq!(nodes, 8, "all that may be in the other zone");
    assert!(reason.contains("CapacityQuota q of 0 nodes reached: 0 left"), "{reason}");
}

/// A quota of a zone closes it for pods whose node it has no room for, though a smaller node, or one that does not count, has.
#[test]
fn zone_is_closed_by_the_types_that_the_pods_need() {
    for (selector, resources) in [
        (is_in(ZONE, "a"), json!({"cpu": "3"})),
        (json!({"matchLabels": {ZONE: "a", "karpenter.k8s.aws/instance-category": "r"}}), json!({"nodes": "0"})),
    ] {
        let mut state = waiting(0);
        for pod in 0..3 {
            state.apply_pod(&kube_pod(&format!("large{pod}"), "", "3500m")).unwrap();
        }
        set(&mut state, selector, resources);
        for policy in [Policy::Cost, Policy::FewestNodes] {
            let mut problem = Problem::clone(&state.snapshot().planning(&types()).problem);
            problem.node_pools.iter_mut().for_each(|pool| pool.policy = policy);
            let packing = solve(&problem, &Options::default());
            assert_eq!(
                (packing.claims.len(), packing.unscheduled.len()),
                (3, 0),
                "{policy:?} {:?}",
                packing.unscheduled
            );
            assert!(packing.claims.iter().all(|claim| claim.cheapest_zone == "b"), "{policy:?}");
            assert_held(&problem.quotas, &quotas_with_plan(&problem, &packing));
        }
        let mut pinned = serde_json::to_value(kube_pod("pinned", "", "3500m")).unwrap();
        pinned["spec"]["nodeSelector"] = json!({ZONE: "a"});
        state.apply_pod(&serde_json::from_value(pinned).unwrap()).unwrap();
        let (nodes, reason) = launched(&state);
        assert!(nodes == 3 && reason.contains("CapacityQuota q of "), "{nodes} {reason}");
    }
}

#[test]
fn nodes_and_claims_on_their_way_count_against_quotas() {
    let mut state = waiting(8);
    set(&mut state, json!({}), json!({"cpu": "10", "nodes": "9"}));
    assert_eq!(usage(&state), (0, 0));
    state.apply_node(&kube_node("others", "elsewhere", json!({})));
    assert_eq!(usage(&state), (2000, 1), "whoever has made it");
    let mut claim = kube_claim("planned", None, "0");
    let named =
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "r5.xlarge"]}]);
    claim.spec.requirements.extend(serde_json::from_value::<Vec<_>>(named).unwrap());
    state.plan_claim(claim.clone(), Resources::new());
    assert_eq!(usage(&state), (6000, 2), "it may be the largest");
    assert_eq!(launched(&state).0, 2);
    set(&mut state, is_in("karpenter.k8s.aws/instance-category", "m"), json!({"cpu": "10", "nodes": "9"}));
    assert_eq!(usage(&state), (2000, 1), "it may be of that category, with two CPUs");
    set(&mut state, is_in(ZONE, "b"), json!({"cpu": "10", "nodes": "9"}));
    assert_eq!(usage(&state), (0, 0), "it is of the other zone");
    set(&mut state, json!({}), json!({"cpu": "10", "nodes": "9"}));
    let read = state.snapshot().quotas.held().next().unwrap().clone();
    let shown = state.snapshot().quota_status(&read);
    assert_eq!((shown.get("cpu"), shown.get("nodes")), (2000, 1), "its status has what is there");
}

/// A device plugin that is late takes nothing off what its claim was promised, and an overlay's resource counts on types.
#[test]
fn promised_devices_and_resources_of_overlays_count() {
    let mut state = waiting(8);
    let fuse = json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "fuse"},
        "spec": {"requirements": [], "capacity": {"example.com/fuse": "2"}}});
    state.apply_overlay(WrittenOverlay::new(serde_json::from_value(fuse).unwrap()));
    set(&mut state, json!({}), json!({"example.com/fuse": "5"}));
    assert_eq!(launched(&state).0, 2, "two each");
    let mut claim = launched_with(&kube_claim("n", Some("n"), "1"), "aws:///a/n");
    let amount = serde_json::from_value(json!({"example.com/fuse": "2", "cpu": "2"})).unwrap();
    claim.status.as_mut().unwrap().capacity = amount;
    state.apply_claim(Arc::new(claim));
    let labels = json!({"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"});
    state.apply_node(&kube_node("n", "aws:///a/n", labels));
    let quota = &state.snapshot().planning(&types()).problem.quotas[0];
    assert_eq!(quota.usage.get("example.com/fuse"), 2, "the Node does not report it yet");
    assert_eq!(launched(&state).0, 1);
}

#[test]
fn overlapping_quotas_hold_and_an_exceeded_one_ends_nothing() {
    let mut state = waiting(8);
    state.apply_quota(written("all", &json!({}), &json!({"nodes": "6"})));
    state.apply_quota(written("other", &is_in("karpenter.sh/nodepool", "other"), &json!({"nodes": "1"})));
    assert_eq!(launched(&state).0, 5, "four of one pool and one of the other");
    state.apply_quota(written("all", &json!({}), &json!({"nodes": "3"})));
    assert_eq!(launched(&state).0, 3);
    for name in ["x", "y", "z", "w"] {
        state.apply_node(&kube_node(name, name, json!({})));
    }
    let (nodes, reason) = launched(&state);
    assert_eq!(nodes, 0);
    assert!(reason.contains("CapacityQuota all of 3 nodes reached: 0 left"), "{reason}");
    let snapshot = state.snapshot();
    let all = &snapshot.quotas.all()["all"];
    let verdict = judge_quota(all, true, snapshot.quota_status(all.read.as_ref().unwrap()));
    assert!(verdict.held && verdict.exceeded && verdict.message.contains("4 of 3 nodes"), "{verdict:?}");
    // A node that has nothing of a resource is none of its quota's business, exceeded or not.
    state.apply_quota(written("all", &json!({}), &json!({"nvidia.com/gpu": "0"})));
    assert_eq!(launched(&state).0, 5);
}

#[test]
fn launch_looks_at_quotas_again_and_the_oldest_claim_goes_on() {
    let mut state = ClusterState::new();
    state.apply_pool(pool("default", true));
    state.apply_quota(written("q", &json!({}), &json!({"nodes": "2", "cpu": "6"})));
    let claim = |name: &str, second: i64| {
        let mut claim = kube_claim(name, Some(name), "1");
        let named =
            json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "r5.xlarge"]}]);
        claim.spec.requirements.extend(serde_json::from_value::<Vec<_>>(named).unwrap());
        let at = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::from_second(second).unwrap());
        claim.metadata.creation_timestamp = Some(at);
        claim
    };
    let types = types().instance_types["default"].clone();
    let left = |state: &ClusterState, claim: &NodeClaim| {
        let left = state.snapshot().within_quotas(claim, types.to_vec(), &types);
        left.iter().map(|one| one.name.clone()).collect::<Vec<_>>()
    };
    let (first, second, third) = (claim("a", 1), claim("b", 2), claim("c", 2));
    for one in [&first, &second, &third] {
        state.apply_claim(Arc::new(one.clone()));
    }
    assert_eq!(left(&state, &first), ["m5.large", "r5.xlarge"]);
    assert_eq!(left(&state, &second), ["m5.large"], "the first may take four CPUs");
    assert!(left(&state, &third).is_empty(), "two were created before it");
    state.apply_quota(written("q", &json!({}), &json!({"nodes": "1"})));
    assert!(left(&state, &second).is_empty(), "it is lower by now");
    assert_eq!(left(&state, &first).len(), 2);
    state.apply_quota(written("q", &is_in("karpenter.k8s.aws/instance-category", "r"), &json!({"nodes": "0"})));
    assert_eq!(left(&state, &first), ["m5.large"]);
    state.delete_quota("q");
    assert_eq!(left(&state, &third).len(), 2);
}

/// Types of two CPUs and of four in zones `a` and `b`, on demand and as spot, as the cloud describes them: each offering has the
/// id of its zone, and a type the ids of all zones.
fn with_zone_ids(offered: impl Fn(&str, &str) -> bool) -> Vec<Arc<InstanceType>> {
    let one = |name: &str, cpus: u32| {
        let ways = [("a", "spot"), ("a", "on-demand"), ("b", "spot"), ("b", "on-demand")].into_iter();
        let offering = |(zone, capacity_type): (&str, &str)| {
            let id = json!([{"key": ZONE_ID, "operator": "In", "values": [format!("id-{zone}")]}]);
            json!({"zone": zone, "capacityType": capacity_type, "price": 0.1, "available": offered(zone, capacity_type),
                "requirements": id})
        };
        let value = json!({"name": name, "capacity": {"cpu": cpus.to_string(), "memory": "16Gi", "pods": "29"},
            "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]},
                {"key": ZONE_ID, "operator": "In", "values": ["id-a", "id-b"]}],
            "offerings": ways.map(offering).collect::<Vec<_>>()});
        Arc::new(serde_json::from_value(value).unwrap())
    };
    vec![one("m5.large", 2), one("r5.xlarge", 4)]
}

/// A claim of both types, with more requirements.
fn claim_with(name: &str, second: i64, more: &Value) -> NodeClaim {
    let mut claim = kube_claim(name, Some(name), "1");
    claim.spec.requirements.retain(|one| one.key != ZONE);
    let named =
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "r5.xlarge"]}]);
    for one in [&named, more] {
        claim.spec.requirements.extend(serde_json::from_value::<Vec<_>>(one.clone()).unwrap());
    }
    let at = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::from_second(second).unwrap());
    claim.metadata.creation_timestamp = Some(at);
    claim
}

/// The ways in which a claim may still be bought, by type: `zone/capacity type`, those that are available.
fn ways(state: &ClusterState, claim: &NodeClaim, types: &[Arc<InstanceType>]) -> BTreeMap<String, Vec<String>> {
    let left = state.snapshot().within_quotas(claim, types.to_vec(), types);
    let of = |one: &Arc<InstanceType>| {
        let there = one.offerings.iter().filter(|one| one.available);
        (one.name.clone(), there.map(|one| format!("{}/{}", one.zone, one.capacity_type)).collect())
    };
    left.iter().map(of).collect()
}

#[test]
fn launch_leaves_out_the_ways_of_buying_that_count() {
    let mut state = ClusterState::new();
    state.apply_pool(pool("default", true));
    let (all, none) = (with_zone_ids(|_, _| true), json!([]));
    let in_b = json!([{"key": ZONE, "operator": "In", "values": ["b"]}]);
    let both = |ways: &[&str]| {
        let ways: Vec<String> = ways.iter().map(|way| (*way).to_owned()).collect();
        BTreeMap::from([("m5.large".to_owned(), ways.clone()), ("r5.xlarge".to_owned(), ways)])
    };
    for selector in [is_in(ZONE_ID, "id-a"), is_in(ZONE, "a")] {
        set(&mut state, selector, json!({"nodes": "0"}));
        assert_eq!(ways(&state, &claim_with("n", 1, &none), &all), both(&["b/spot", "b/on-demand"]));
        let pinned = ways(&state, &claim_with("n", 1, &in_b), &all);
        assert!(pinned.values().all(|ways| ways.contains(&"b/spot".to_owned())), "it is not of that zone: {pinned:?}");
        let sold_out = with_zone_ids(|zone, _| zone != "a");
        assert_eq!(ways(&state, &claim_with("n", 1, &none), &sold_out), both(&["b/spot", "b/on-demand"]));
    }
    let of_spot = json!({"matchLabels": {ZONE: "a", "karpenter.sh/capacity-type": "spot"}});
    set(&mut state, of_spot, json!({"cpu": "3"}));
    let some = BTreeMap::from([
        ("m5.large".to_owned(), vec!["a/spot".to_owned(), "a/on-demand".into(), "b/spot".into(), "b/on-demand".into()]),
        ("r5.xlarge".to_owned(), vec!["a/on-demand".to_owned(), "b/spot".into(), "b/on-demand".into()]),
    ]);
    assert_eq!(ways(&state, &claim_with("n", 1, &none), &all), some, "the larger one is too large for one way only");
    set(&mut state, is_in(ZONE_ID, "id-a"), json!({"nodes": "0"}));
    let in_a = json!([{"key": ZONE, "operator": "In", "values": ["a"]}]);
    assert!(ways(&state, &claim_with("n", 1, &in_a), &all).is_empty(), "it can be of no other");
    // An older claim counts where one of its offerings does.
    set(&mut state, is_in(ZONE_ID, "id-a"), json!({"nodes": "1"}));
    state.apply_claim(Arc::new(claim_with("older", 1, &in_b)));
    assert_eq!(ways(&state, &claim_with("n", 2, &in_a), &all).len(), 2, "the older one goes to the other zone");
    state.apply_claim(Arc::new(claim_with("other", 1, &in_a)));
    assert!(ways(&state, &claim_with("n", 2, &in_a), &all).is_empty());
}

/// Creation has whole seconds: the one that comes later may be the older by name, when the other's launch has begun.
#[test]
fn claim_whose_launch_has_begun_goes_before_an_older_one() {
    let mut state = ClusterState::new();
    state.apply_pool(pool("default", true));
    set(&mut state, json!({}), json!({"nodes": "1"}));
    let (types, none) = (with_zone_ids(|_, _| true), json!([]));
    let (first, mut second) = (claim_with("a", 1, &none), claim_with("b", 1, &none));
    for one in [&first, &second] {
        state.apply_claim(Arc::new(one.clone()));
    }
    assert_eq!((ways(&state, &first, &types).len(), ways(&state, &second, &types).len()), (2, 0));
    crate::lifecycle::protocol::put_part(&mut second, &LaunchPart::alone("b", 0), 1);
    second.metadata.resource_version = Some("2".into());
    state.apply_claim(Arc::new(second.clone()));
    assert_eq!(ways(&state, &first, &types).len(), 0, "EC2 may have been asked for the other");
    let mut begun = first.clone();
    crate::lifecycle::protocol::put_part(&mut begun, &LaunchPart::alone("a", 0), 1);
    assert_eq!(
        (ways(&state, &begun, &types).len(), ways(&state, &second, &types).len()),
        (2, 0),
        "of two begun the older"
    );
}

#[test]
fn quota_that_makes_no_sense_is_named_and_not_held() {
    let of = |selector: Value, resources: Value| written("bad", &selector, &resources).read.unwrap_err();
    let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]});
    assert!(of(expression("Gt", &["1"]), json!({})).starts_with("spec.selector: operator \"Gt\" of a"));
    assert!(of(expression("In", &[]), json!({})).starts_with("spec.selector"));
    assert!(of(json!(null), json!({"cpu": "lots"})).starts_with("spec.limits.resources.cpu"));
    assert!(of(json!(null), json!({"nodes": "-1"})).contains("\"-1\": negative"));
    let many: BTreeMap<String, &str> = (0..21).map(|at| (format!("r{at}"), "1")).collect();
    assert_eq!(of(json!(null), json!(many)), "spec.limits.resources: more than 20");
    let mut state = waiting(4);
    state.apply_quota(written("bad", &json!(null), &json!({"nodes": "-1"})));
    assert_eq!(launched(&state).0, 4);
    state.apply_quota(written("huge", &json!(null), &json!({"memory": "9E", "cpu": "9000000000"})));
    assert_eq!(launched(&state).0, 4);
    let snapshot = state.snapshot();
    let verdict = judge_quota(&snapshot.quotas.all()["bad"], false, Resources::new());
    assert!(!verdict.held && verdict.message.starts_with("it is not held: spec.limits"), "{verdict:?}");
}

#[test]
fn of_very_many_quotas_the_first_are_held() {
    let mut state = waiting(4);
    for at in 0..2000 {
        state.apply_quota(written(
            &format!("q{at:04}"),
            &json!(null),
            &json!({"nodes": if at == 99 { "2" } else { "9" }}),
        ));
    }
    state.apply_quota(written("q1999", &json!(null), &json!({"nodes": "0"})));
    let (problem, packing) = planned(&state);
    assert_eq!((problem.quotas.len(), packing.claims.len()), (MOST_QUOTAS, 2));
    let beyond = judge_quota(&state.snapshot().quotas.all()["q1999"], false, Resources::new());
    assert_eq!(beyond.message, "it is not held: only the first 100 quotas by name are");
    assert_eq!(beyond.used, None, "nobody has looked");
    assert!(state.quotas_listed(|name| name == "q0000"));
    assert_eq!(launched(&state).0, 4);
}

/// Selectors of drawn quotas, by the small cluster's labels.
fn selectors() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(is_in("karpenter.sh/nodepool", "other")),
        Just(is_in(ZONE, "a")),
        Just(is_in("karpenter.k8s.aws/instance-category", "m")),
        Just(
            json!({"matchExpressions": [{"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": ["m5.large"]}]})
        ),
        Just(json!({"matchLabels": {ZONE: "a", "karpenter.sh/nodepool": "default"}})),
    ]
}

/// Every resource of every quota is within its limit, or no more than before.
fn assert_held(before: &[Quota], after: &[Quota]) {
    for (was, is) in before.iter().zip(after) {
        for (name, limit) in is.limits.iter() {
            let (was, is_now) = (was.usage.get(name), is.usage.get(name));
            assert!(is_now <= limit.max(was), "{} {name}: {is_now} of {limit}, {was} before", is.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Over drawn quotas and pods, with others' nodes and in two batches: neither what packing plans nor what is on its way then
    /// is more than any quota allows; and quotas that are far change no byte of the plan.
    #[test]
    fn plans_and_claims_on_their_way_are_within_all_quotas(
        drawn in prop::collection::vec((selectors(), 0..16_i64, 0..7_i64), 1..4),
        pods in 1..10_usize,
        others in 0..3_usize,
    ) {
        let mut state = waiting(pods);
        for other in 0..others {
            let labels = json!({ZONE: "a", "karpenter.k8s.aws/instance-category": "m"});
            state.apply_node(&kube_node(&format!("o{other}"), &format!("o{other}"), labels));
        }
        let free = planned(&state).1;
        state.apply_quota(written("far", &json!(null), &json!({"cpu": "1000", "nodes": "1000"})));
        prop_assert_eq!(format!("{:?}", planned(&state).1), format!("{free:?}"));
        for (at, (selector, cpus, nodes)) in drawn.iter().enumerate() {
            state.apply_quota(written(&format!("q{at}"), selector, &json!({"cpu": cpus.to_string(), "nodes": nodes.to_string()})));
        }
        let (problem, packing) = planned(&state);
        assert_held(&problem.quotas, &quotas_with_plan(&problem, &packing));
        // The claims as they are created: the next plan counts them by their requirements, and has nothing for these pods.
        for (at, claim) in packing.claims.iter().enumerate() {
            let pool = &problem.node_pools[claim.pool].name;
            let mut made = kube_claim(&format!("n{at}"), None, "0");
            made.metadata.labels = Some([("karpenter.sh/nodepool".to_owned(), pool.clone())].into());
            let names: Vec<&String> = claim.options.iter().map(|one| &problem.instance_types[one.instance_type].name).collect();
            let zones = claim.requirements.iter().find(|one| one.key == ZONE).map(|one| one.values.clone());
            let zones = zones.unwrap_or_else(|| vec!["a".to_owned(), "b".to_owned()]);
            let all = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": names},
                {"key": ZONE, "operator": "In", "values": zones}]);
            made.spec.requirements = serde_json::from_value(all).unwrap();
            state.plan_claim(made, Resources::new());
        }
        let (after, again) = planned(&state);
        assert_held(&problem.quotas, &after.quotas);
        assert_held(&problem.quotas, &quotas_with_plan(&after, &again));
    }
}
