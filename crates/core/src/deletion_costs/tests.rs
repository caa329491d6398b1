//! Values of pods in small clusters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::{NodeClaim, NodePool};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cluster_state::{ClusterState, WatchedKind};

/// A cluster of one pool.
struct World {
    state: ClusterState,
    version: u64,
    /// Pods as the API server has them, by name.
    pods: BTreeMap<String, Value>,
}

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const MARK: &str = "dovetail.dev/pod-deletion-cost";

fn start() -> Timestamp {
    "2026-03-10T12:00:00Z".parse().unwrap()
}

impl World {
    /// One pool with that disruption block, annotations and replicas.
    fn new(change: impl FnOnce(&mut Value)) -> Self {
        let mut pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "default", "uid": "uid-pool", "annotations": {}, "resourceVersion": "1"},
            "spec": {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
                "template": {"spec": {"requirements": [],
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
        });
        change(&mut pool);
        let mut state = ClusterState::new();
        state.list_begins(WatchedKind::Pod);
        state.list_ends(WatchedKind::Pod);
        state.apply_pool(serde_json::from_value::<NodePool>(pool).unwrap());
        Self { state, version: 10, pods: BTreeMap::new() }
    }

    fn node(&mut self, name: &str, instance_type: &str, change: impl FnOnce(&mut Value, &mut Value)) -> &mut Self {
        self.version += 1;
        let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": start()});
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("claim-{name}"), "uid": format!("uid-claim-{name}"),
                "resourceVersion": self.version.to_string(), "creationTimestamp": start(),
                "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {"expireAfter": "Never",
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"providerID": format!("aws:///a/{name}"), "nodeName": name,
                "conditions": [condition("Initialized"), condition("Launched"), condition("Registered")]},
        });
        let mut node = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": self.version.to_string(),
                "annotations": {}, "labels": {"node.kubernetes.io/instance-type": instance_type,
                    "topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": "spot",
                    "karpenter.sh/nodepool": "default"}},
            "spec": {"providerID": format!("aws:///a/{name}"), "taints": []},
            "status": {"capacity": {"cpu": "2", "pods": "110"}, "allocatable": {"cpu": "2", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}]},
        });
        change(&mut claim, &mut node);
        self.state.apply_claim(Arc::new(serde_json::from_value::<NodeClaim>(claim).unwrap()));
        self.state.apply_node(&serde_json::from_value::<Node>(node).unwrap());
        self
    }

    fn drifted(&mut self, name: &str, instance_type: &str) -> &mut Self {
        self.node(name, instance_type, |claim, _| {
            let drifted = json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "message": "", "lastTransitionTime": start()});
            claim["status"]["conditions"].as_array_mut().unwrap().push(drifted);
        })
    }

    /// A ReplicaSet's pod.
    fn pod(&mut self, name: &str, node: &str, change: impl FnOnce(&mut Value)) -> &mut Self {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {"app": "web"}, "annotations": {},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o", "controller": true}]},
            "spec": {"nodeName": node, "containers": []}, "status": {"phase": "Running"},
        });
        change(&mut pod);
        self.put(name, pod)
    }

    /// The API server has a pod so, in a version of its own.
    fn put(&mut self, name: &str, mut pod: Value) -> &mut Self {
        self.version += 1;
        pod["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.state.apply_pod(&serde_json::from_value::<Pod>(pod.clone()).unwrap()).unwrap();
        self.pods.insert(name.to_owned(), pod);
        self
    }

    fn plan(&self) -> CostPlan {
        self.plan_with(&[])
    }

    /// The plan once nothing is kept any more that is only kept for a while.
    fn plan_with(&self, default_spread: &[TopologySpreadConstraint]) -> CostPlan {
        let mut before = ValuedNodes::default();
        self.plan_at(&mut before, default_spread, 600 - KEPT_FOR.as_secs());
        self.plan_at(&mut before, default_spread, 600)
    }

    fn plan_at(&self, before: &mut ValuedNodes, default_spread: &[TopologySpreadConstraint], seconds: u64) -> CostPlan {
        plan_deletion_costs(&self.state.snapshot(), &offers(), default_spread, before, at(seconds))
    }

    /// Carries a plan's writes out, as the API server does: on the version that was seen, and nothing but annotations.
    fn write(&mut self, plan: &CostPlan) {
        for write in &plan.writes {
            let mut pod = self.pods[&write.name].clone();
            let version = write.version.map(|version| json!(version.to_string()));
            assert_eq!(version.as_ref(), Some(&pod["metadata"]["resourceVersion"]), "{write:?}");
            let (value, mark) = match write.change {
                CostChange::Set(value) => (Some(json!(value.to_string())), Some(json!(value.to_string()))),
                CostChange::Remove => (Some(Value::Null), Some(Value::Null)),
                CostChange::Unmark => (None, Some(Value::Null)),
            };
            let own = pod["metadata"]["annotations"].as_object_mut().unwrap();
            for (key, value) in [(COST, value), (MARK, mark)] {
                match value {
                    Some(Value::Null) => drop(own.remove(key)),
                    Some(value) => drop(own.insert(key.to_owned(), value)),
                    None => {}
                }
            }
            self.put(&write.name, pod);
        }
    }
}

fn at(seconds: u64) -> Moment {
    let wall = start() + jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap());
    Moment { monotonic: Duration::from_secs(seconds), wall }
}

fn offers() -> OffersByClass {
    let types = vec![Arc::new(typed("small", 0.03)), Arc::new(typed("large", 0.1))];
    [("default".to_owned(), Arc::new(types))].into()
}

fn ours(value: i32) -> Value {
    json!({COST: value.to_string(), MARK: value.to_string()})
}

fn typed(name: &str, price: f64) -> crate::InstanceType {
    serde_json::from_value(json!({"name": name, "capacity": {"cpu": "2"}, "requirements": [], "offerings": [
        {"zone": "a", "capacityType": "spot", "price": price, "available": true, "requirements": []}]}))
    .unwrap()
}

/// The nodes that have a value, those first that are to lose their pods first.
fn order(plan: &CostPlan) -> Vec<&str> {
    let mut all: Vec<_> = plan.values.iter().map(|(node, value)| (*value, node.as_str())).collect();
    all.sort_unstable();
    all.into_iter().map(|(_, node)| node).collect()
}

fn set_pods(plan: &CostPlan) -> Vec<(&str, i32)> {
    let set = plan.writes.iter().filter_map(|write| match write.change {
        CostChange::Set(value) => Some((write.name.as_str(), value)),
        _ => None,
    });
    set.collect()
}

#[test]
fn leaving_then_drifted_then_nodes_that_save_most() {
    let mut world = World::new(|_| ());
    world.node("small", "small", |_, _| ()).node("large", "large", |_, _| ()).drifted("drifted", "small");
    world.node("tainted", "small", |_, node| {
        node["spec"]["taints"] = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
    });
    world.node("going", "small", |claim, _| claim["metadata"]["deletionTimestamp"] = json!(start()));
    for node in ["small", "large", "drifted", "tainted", "going"] {
        world.pod(&format!("on-{node}"), node, |_| ());
    }
    let plan = world.plan();
    assert_eq!(order(&plan), ["going", "tainted", "drifted", "large", "small"]);
    let expected = [
        ("on-going", LEAVING),
        ("on-tainted", LEAVING),
        ("on-drifted", -3072),
        ("on-large", -2048),
        ("on-small", -1024),
    ];
    assert_eq!(set_pods(&plan), expected);
    world.write(&plan);
    assert_eq!(world.plan().writes, [], "they have it");
}

#[test]
fn more_pods_to_disturb_come_later_and_a_pod_says_what_it_costs() {
    let mut world = World::new(|_| ());
    for node in ["few", "many", "dear"] {
        world.node(node, "large", |_, _| ()).pod(&format!("{node}-0"), node, |pod| {
            let own = if node == "dear" { json!({"karpenter.sh/disruption-cost": "2147483647"}) } else { json!({}) };
            pod["metadata"]["annotations"] = own;
        });
    }
    world.pod("many-1", "many", |_| ());
    assert_eq!(order(&world.plan()), ["few", "many", "dear"]);
}

#[test]
fn budgets_of_each_reason_bound_the_nodes_that_are_ranked() {
    let budgets = json!([{"nodes": "1", "reasons": ["Drifted"]}, {"nodes": "2", "reasons": ["Underutilized"]}]);
    let mut world = World::new(|pool| pool["spec"]["disruption"]["budgets"] = budgets);
    for node in ["a", "b", "c", "d"] {
        world.node(node, "small", |_, _| ()).drifted(&format!("drifted-{node}"), "small");
    }
    assert_eq!(order(&world.plan()), ["drifted-a", "a", "b"]);
    let leaves = |claim: &mut Value, _: &mut Value| claim["metadata"]["deletionTimestamp"] = json!(start());
    world.node("a", "small", leaves);
    assert_eq!(order(&world.plan()), ["a", "b"], "the one that leaves uses them up");
}

/// Nodes that may not go, or that scale-in cannot empty, have no value.
#[test]
fn node_that_may_not_be_disrupted_has_no_value() {
    let pod = |change: fn(&mut Value)| {
        move |world: &mut World| {
            world.pod("other", "n", change);
        }
    };
    let cases: Vec<(&str, Box<dyn Fn(&mut World)>)> = vec![
        (
            "it asks to be left alone",
            Box::new(|world| {
                world.node("n", "small", |_, node| {
                    node["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true")
                });
            }),
        ),
        (
            "it is not initialized",
            Box::new(|world| {
                world.node("n", "small", |claim, _| claim["status"]["conditions"] = json!([]));
            }),
        ),
        (
            "its price is not known",
            Box::new(|world| {
                world.node("n", "unknown", |_, _| ());
            }),
        ),
        (
            "a pod asks to be left alone",
            Box::new(pod(|pod| {
                pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true");
            })),
        ),
        (
            "a StatefulSet's pod is on it",
            Box::new(pod(|pod| {
                pod["metadata"]["ownerReferences"][0]["kind"] = json!("StatefulSet");
            })),
        ),
        ("a pod of nobody is on it", Box::new(pod(|pod| pod["metadata"]["ownerReferences"] = json!([])))),
    ];
    for (why, change) in cases {
        let mut world = World::new(|_| ());
        world.node("n", "small", |_, _| ()).pod("web", "n", |pod| pod["metadata"]["annotations"] = ours(-1024));
        change(&mut world);
        let plan = world.plan();
        assert!(plan.values.is_empty(), "{why}");
        assert_eq!(plan.writes.iter().map(|one| one.change).collect::<Vec<_>>(), [CostChange::Remove], "{why}");
    }
    let of_job = |pod: &mut Value| {
        pod["metadata"]["ownerReferences"][0] =
            json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true})
    };
    let mut world = World::new(|_| ());
    world.node("n", "small", |_, _| ()).pod("web", "n", |_| ()).pod("job", "n", of_job);
    assert_eq!(set_pods(&world.plan()), [("web", -1024)], "a Job's pod pins no node, and has no value");
}

#[test]
fn pool_that_keeps_its_nodes_has_no_values() {
    for (why, change) in [
        ("Never", (|pool| pool["spec"]["disruption"]["consolidateAfter"] = json!("Never")) as fn(&mut Value)),
        ("static", |pool| pool["spec"]["replicas"] = json!(3)),
        ("observed", |pool| pool["metadata"]["annotations"]["dovetail.dev/disruption"] = json!("observe")),
        ("no budget", |pool| pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "0"}])),
    ] {
        let mut world = World::new(change);
        world.node("n", "small", |_, _| ()).pod("web", "n", |_| ());
        assert_eq!(world.plan(), CostPlan::default(), "{why}");
    }
    let mut world = World::new(|pool| pool["spec"]["disruption"]["consolidateAfter"] = json!("Never"));
    world.drifted("n", "small").pod("web", "n", |_| ());
    assert_eq!(set_pods(&world.plan()), [("web", -1024)], "a drifted node goes all the same");
}

#[test]
fn value_of_a_user_stays_and_so_does_a_pod_with_a_hard_spread() {
    let spread =
        |when: &str| json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": when}]);
    let mut world = World::new(|_| ());
    world.node("n", "small", |_, _| ());
    world.pod("plain", "n", |_| ());
    world.pod("soft", "n", |pod| pod["spec"]["topologySpreadConstraints"] = spread("ScheduleAnyway"));
    world.pod("hard", "n", |pod| pod["spec"]["topologySpreadConstraints"] = spread("DoNotSchedule"));
    world.pod("spread-later", "n", |pod| {
        pod["spec"]["topologySpreadConstraints"] = spread("DoNotSchedule");
        pod["metadata"]["annotations"] = ours(-7);
    });
    world.pod("users", "n", |pod| pod["metadata"]["annotations"] = json!({COST: "5"}));
    world.pod("overwritten", "n", |pod| {
        pod["metadata"]["annotations"] = ours(-7);
        pod["metadata"]["annotations"][COST] = json!("5");
    });
    let changes = |plan: &CostPlan| -> BTreeSet<(String, String)> {
        plan.writes.iter().map(|one| (one.name.clone(), format!("{:?}", one.change))).collect()
    };
    let pairs =
        |all: &[(&str, &str)]| all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<BTreeSet<_>>();
    let expected =
        [("plain", "Set(-1024)"), ("soft", "Set(-1024)"), ("spread-later", "Remove"), ("overwritten", "Unmark")];
    assert_eq!(changes(&world.plan()), pairs(&expected));
    let hard = serde_json::from_value(spread("DoNotSchedule")[0].clone()).unwrap();
    let expected = [("soft", "Set(-1024)"), ("spread-later", "Remove"), ("overwritten", "Unmark")];
    assert_eq!(changes(&world.plan_with(&[hard])), pairs(&expected), "kube-scheduler spreads those without a rule");
    let removed = remove_deletion_costs(&world.state.snapshot());
    let removed: BTreeSet<_> = removed
        .iter()
        .map(|one| (one.name.as_str(), one.change))
        .map(|(name, change)| (name, format!("{change:?}")))
        .collect();
    assert_eq!(removed, [("overwritten", "Unmark".to_owned()), ("spread-later", "Remove".to_owned())].into());
}

#[test]
fn new_node_changes_no_value_of_another() {
    let mut world = World::new(|_| ());
    for node in ["a", "c"] {
        world.node(node, "small", |_, _| ()).pod(&format!("on-{node}"), node, |_| ());
    }
    let plan = world.plan();
    world.write(&plan);
    world.node("b", "small", |_, _| ()).pod("on-b", "b", |_| ());
    assert_eq!(set_pods(&world.plan()), [("on-b", -1536)]);
}

/// The changes of pods, in their order.
fn changes(plan: &CostPlan) -> Vec<(&str, CostChange)> {
    plan.writes.iter().map(|one| (one.name.as_str(), one.change)).collect()
}

#[test]
fn pod_that_asks_to_be_left_alone_is_not_taken_first() {
    let mut world = World::new(|_| ());
    world.node("n", "small", |claim, _| claim["metadata"]["deletionTimestamp"] = json!(start()));
    let protect = |pod: &mut Value| pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true");
    world.pod("plain", "n", |_| ()).pod("protected", "n", protect).pod("later", "n", |pod| {
        pod["metadata"]["annotations"] = ours(LEAVING);
        protect(pod);
    });
    world.pod("until", "n", |pod| {
        pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("11m");
        pod["status"]["startTime"] = json!(start());
    });
    assert_eq!(changes(&world.plan()), [("later", CostChange::Remove), ("plain", CostChange::Set(LEAVING))]);
    let later = world.plan_at(&mut ValuedNodes::default(), &[], 662);
    assert!(set_pods(&later).contains(&("until", LEAVING)), "its time is over: {later:?}");
}

#[test]
fn leaving_nodes_have_values_unless_their_pool_is_only_observed() {
    for (why, expected, change) in [
        ("static", true, (|pool| pool["spec"]["replicas"] = json!(3)) as fn(&mut Value)),
        ("Never", true, |pool| pool["spec"]["disruption"]["consolidateAfter"] = json!("Never")),
        ("observed", false, |pool| pool["metadata"]["annotations"]["dovetail.dev/disruption"] = json!("observe")),
        ("unclear", false, |pool| pool["metadata"]["annotations"]["dovetail.dev/disruption"] = json!("perhaps")),
    ] {
        let mut world = World::new(change);
        world.node("n", "unknown", |claim, _| claim["metadata"]["deletionTimestamp"] = json!(start()));
        world.pod("web", "n", |_| ());
        assert_eq!(set_pods(&world.plan()) == [("web", LEAVING)], expected, "{why}");
    }
}

/// A cluster of three equal nodes with a pod each, whose budget allows one, and the node `a` has values.
fn one_of_three() -> (World, ValuedNodes) {
    let mut world = World::new(|pool| pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "1"}]));
    for node in ["a", "b", "c"] {
        world.node(node, "small", |_, _| ()).pod(&format!("on-{node}"), node, |pod| {
            pod["metadata"]["labels"] = json!({"app": node});
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        });
    }
    let mut before = ValuedNodes::default();
    let plan = world.plan_at(&mut before, &[], 600);
    assert_eq!(set_pods(&plan), [("on-a", -1024)]);
    world.write(&plan);
    (world, before)
}

fn budget(world: &mut World, app: &str, allowed: u32) {
    let budget = json!({"metadata": {"name": "pdb", "namespace": "default", "uid": "pdb", "generation": 1},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
            "expectedPods": 1}});
    world.state.apply_budget(serde_json::from_value(budget).unwrap());
}

/// Both by a PodDisruptionBudget that allows nothing, and by a pod that is expected on the node.
#[test]
fn node_that_may_not_go_for_a_short_time_keeps_its_values() {
    for expected in [false, true] {
        let (mut world, mut before) = one_of_three();
        if expected {
            world.pod("waits", "", |pod| pod["status"]["phase"] = json!("Pending"));
            let target = crate::cluster_state::NominationTarget::Node("a".into());
            world.state.nominate(["uid-waits"], &target, Duration::from_secs(5000));
        } else {
            budget(&mut world, "a", 0);
        }
        for seconds in [610, 700, 899] {
            let plan = world.plan_at(&mut before, &[], seconds);
            assert_eq!((order(&plan), &plan.writes[..]), (vec!["a"], &[][..]), "{seconds} {expected}");
        }
        let plan = world.plan_at(&mut before, &[], 900);
        assert_eq!(changes(&plan), [("on-b", CostChange::Set(-1024)), ("on-a", CostChange::Remove)], "{expected}");
        world.write(&plan);
        budget(&mut world, "a", 1);
        let plan = world.plan_at(&mut before, &[], 6000);
        assert_eq!((order(&plan), &plan.writes[..]), (vec!["b"], &[][..]), "it does not go back");
    }
}

#[test]
fn better_node_takes_no_value_of_another_where_the_budget_binds() {
    let (mut world, mut before) = one_of_three();
    world.node("best", "large", |_, _| ()).pod("on-best", "best", |_| ());
    for before in [&mut before, &mut ValuedNodes::default()] {
        let plan = world.plan_at(before, &[], 4000);
        assert_eq!((order(&plan), &plan.writes[..]), (vec!["a"], &[][..]), "also for a leader that begins");
    }
    world.node("a", "small", |_, node| {
        node["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true");
    });
    let expected = [("on-best", CostChange::Set(-1024)), ("on-a", CostChange::Remove)];
    assert_eq!(changes(&world.plan_at(&mut before, &[], 4010)), expected, "one that is protected loses them at once");
}

#[test]
fn values_are_kept_for_a_while_when_the_budget_shrinks() {
    let (mut world, mut before) = one_of_three();
    world.node("c", "small", |claim, _| claim["metadata"]["deletionTimestamp"] = json!(start()));
    let plan = world.plan_at(&mut before, &[], 610);
    assert_eq!(changes(&plan), [("on-c", CostChange::Set(LEAVING))], "c leaves, and uses the budget up");
    assert_eq!(order(&plan), ["c", "a"]);
    let plan = world.plan_at(&mut before, &[], 900);
    assert!(changes(&plan).contains(&("on-a", CostChange::Remove)), "{plan:?}");
}

/// Wrong values go first, and removals have a quarter of the pace.
#[test]
fn removals_do_not_wait_for_all_values() {
    let mut world = World::new(|pool| pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "1"}]));
    world.node("best", "large", |_, _| ()).node("beyond", "small", |_, _| ()).node("undone", "small", |_, _| ());
    for at in 0..9 {
        world.pod(&format!("set-{at}"), "best", |_| ());
    }
    for at in 0..2 {
        world.pod(&format!("undone-{at}"), "undone", |pod| pod["metadata"]["annotations"] = ours(LEAVING));
        world.pod(&format!("off-{at}"), "beyond", |pod| {
            pod["metadata"]["annotations"] = ours(-7);
            pod["metadata"]["ownerReferences"][0]["kind"] = json!("StatefulSet");
        });
    }
    let plan = world.plan();
    let kinds: String = plan.writes.iter().map(|one| one.name.chars().next().unwrap()).collect();
    assert_eq!(kinds, "uusssosssosss");
}

#[test]
fn value_copied_by_a_template_revalues_no_node() {
    let mut world = World::new(|_| ());
    world.node("a", "small", |_, _| ()).node("b", "small", |_, _| ());
    for node in ["a", "b"] {
        for at in 0..3 {
            world.pod(&format!("{node}-{at}"), node, |_| ());
        }
    }
    let plan = world.plan();
    world.write(&plan);
    world.pod("a-copy", "a", |pod| pod["metadata"]["annotations"] = ours(-500_000));
    world.pod("b-copy", "b", |pod| pod["metadata"]["annotations"] = ours(-500_000));
    assert_eq!(set_pods(&world.plan()), [("a-copy", -2048), ("b-copy", -1024)]);
}

#[test]
fn nodes_are_asked_in_order_until_the_budget_is_full() {
    let mut world = World::new(|pool| pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "2"}]));
    for at in 0..50 {
        world.node(&format!("n{at:02}"), if at == 40 { "large" } else { "small" }, |_, _| ());
    }
    world.node("unpriced", "unknown", |_, _| ());
    let snapshot = world.state.snapshot();
    let machines = machines(&snapshot, at(600));
    let mut asked = Vec::new();
    let before = ValuedNodes::default();
    let ranked = rank::rank_nodes(&snapshot, &machines, &offers(), &before, at(600), |machine| {
        asked.push(machine.node.name.clone());
        if machine.node.name == "n00" { rank::Goes::NotNow } else { rank::Goes::Now }
    });
    assert_eq!(ranked.in_order.len(), 2);
    assert_eq!(asked, ["n40", "n00", "n01"]);
}

/// A drawn node: its type, if it drifts, leaves or is protected, and the annotations of its pods.
fn drawn() -> impl Strategy<Value = (bool, u8, Vec<u8>)> {
    (any::<bool>(), 0u8..6, proptest::collection::vec(0u8..7, 0..5))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Written once, nothing is left to write; a user's value never changes; and taken off, nothing of ours is left.
    #[test]
    fn plan_is_settled_by_its_writes_and_touches_no_user(nodes in proptest::collection::vec(drawn(), 0..8), budget in 0usize..9) {
        let mut world = World::new(|pool| pool["spec"]["disruption"]["budgets"] = json!([{"nodes": budget.to_string()}]));
        for (at, (large, state, pods)) in nodes.iter().enumerate() {
            let (name, kind) = (format!("n{at}"), if *large { "large" } else { "small" });
            match state {
                0 => world.drifted(&name, kind),
                1 => world.node(&name, kind, |claim, _| claim["metadata"]["deletionTimestamp"] = json!(start())),
                2 => world.node(&name, kind, |_, node| node["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true")),
                _ => world.node(&name, kind, |_, _| ()),
            };
            for (which, own) in pods.iter().enumerate() {
                world.pod(&format!("p{at}-{which}"), &name, |pod| match own {
                    0 => pod["metadata"]["annotations"] = ours(-3000 + i32::try_from(at).unwrap()),
                    1 => pod["metadata"]["annotations"] = ours(LEAVING),
                    2 => pod["metadata"]["annotations"] = json!({COST: "7"}),
                    4 => pod["metadata"]["annotations"] = json!({COST: "7", MARK: "-9"}),
                    3 => pod["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
                    _ => (),
                });
            }
        }
        let users = |world: &World| world.pods.values().filter(|pod| pod["metadata"]["annotations"][COST] == "7").count();
        let (plan, before) = (world.plan(), users(&world));
        prop_assert!(plan.values.values().filter(|value| **value != LEAVING).count() <= 2 * budget);
        prop_assert!(plan.values.values().all(|value| *value < 0));
        world.write(&plan);
        let again = world.plan();
        prop_assert_eq!(again.writes, vec![]);
        prop_assert!(again.values.keys().eq(plan.values.keys()), "a node without pods may have another value by rounding");
        prop_assert_eq!(users(&world), before);
        let removed = remove_deletion_costs(&world.state.snapshot());
        world.write(&CostPlan { values: BTreeMap::new(), writes: removed });
        prop_assert_eq!(remove_deletion_costs(&world.state.snapshot()), vec![]);
        prop_assert_eq!(users(&world), before);
    }
}
