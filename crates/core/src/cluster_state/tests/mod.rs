//! The index by events, without a cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod kept_places;
mod nominations;
mod pod_groups;
mod pool_cost;
mod quotas;
mod recommended;
mod refused;
mod sold_out;
mod spot_share;
mod unused;

use serde_json::{Value, json};

use dovetail_api::names::annotations::{LAUNCH_TOKEN, TERM};
use dovetail_api::v1::NodeClaim;
use k8s_openapi::api::core::v1::{Node, Pod as KubePod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::*;
use crate::lifecycle::launch::{InstanceFacts, launched};
use crate::resources::Resources;

fn at(seconds: u64) -> Moment {
    let wall = Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap();
    Moment { monotonic: Duration::from_secs(seconds), wall }
}

fn kube_pod(name: &str, node: &str, cpu: &str) -> KubePod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "5"},
        "spec": {"nodeName": if node.is_empty() { Value::Null } else { json!(node) },
                 "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    }))
    .unwrap()
}

fn kube_node(name: &str, provider_id: &str, labels: Value) -> Node {
    let amounts = json!({"cpu": "2", "memory": "4Gi", "pods": "29"});
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": labels, "resourceVersion": "5"},
        "spec": {"providerID": provider_id},
        "status": {"capacity": amounts, "allocatable": amounts,
                   "conditions": [{"type": "Ready", "status": "True"}]},
    }))
    .unwrap()
}

fn kube_claim(name: &str, uid: Option<&str>, version: &str) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "uid": uid, "resourceVersion": version, "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                 "requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}],
                 "resources": {"requests": {"cpu": "1", "pods": "2"}}},
    }))
    .unwrap()
}

fn pool(name: &str, ready: bool) -> NodePool {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"limits": {"cpu": "100"}, "template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
        "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" },
            "reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    }))
    .unwrap()
}

fn input(now: u64) -> PlanningInput {
    let one: crate::InstanceType = serde_json::from_value(json!({
        "name": "m5.large", "capacity": {"cpu": "2"}, "offerings": [], "requirements": [],
    }))
    .unwrap();
    PlanningInput {
        instance_types: [("default".to_owned(), Arc::new(vec![Arc::new(one)]))].into(),
        now: at(now),
        ..PlanningInput::default()
    }
}

fn pending(state: &ClusterState, now: u64) -> Vec<String> {
    state.snapshot().pending(at(now)).iter().map(|entry| entry.pod.name.clone()).collect()
}

fn launched_with(claim: &NodeClaim, provider_id: &str) -> NodeClaim {
    let amounts = serde_json::from_value::<dovetail_api::v1::ResourceList>(json!({"cpu": "2", "pods": "29"})).unwrap();
    let instance = InstanceFacts {
        provider_id: provider_id.into(),
        image_id: "ami".into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        capacity: amounts.clone(),
        allocatable: amounts,
    };
    launched(claim, &instance, jiff::Timestamp::UNIX_EPOCH)
}

#[test]
fn a_snapshot_does_not_change_when_the_state_does() {
    let mut state = ClusterState::new();
    state.apply_pod(&kube_pod("a", "", "1")).unwrap();
    let before = state.snapshot();
    state.delete_pod("uid-a");
    assert_eq!((before.pods.len(), state.snapshot().pods.len()), (1, 0));
}

#[test]
fn a_bound_pod_loads_its_node_once_and_leaves_it_when_it_goes() {
    let mut state = ClusterState::new();
    state.apply_pod(&kube_pod("a", "n", "500m")).unwrap();
    state.apply_pod(&kube_pod("a", "n", "500m")).unwrap();
    state.apply_pod(&kube_pod("b", "n", "250m")).unwrap();
    let requests = state.snapshot().loads["n"].requests.clone();
    assert_eq!((requests.get("cpu"), requests.get("pods")), (750, 2));
    state.delete_pod("uid-a");
    state.delete_pod("uid-b");
    assert!(state.snapshot().loads.is_empty());
}

#[test]
fn list_forgets_what_it_lacks_and_keeps_what_was_written_since() {
    let mut state = ClusterState::new();
    state.apply_claim(Arc::new(kube_claim("gone", Some("1"), "1")));
    state.list_begins(WatchedKind::NodeClaim);
    state.apply_claim(Arc::new(kube_claim("listed", Some("2"), "2")));
    state.apply_claim(Arc::new(kube_claim("ours", Some("3"), "9")));
    state.plan_claim(kube_claim("planned", None, "0"), Resources::new());
    state.list_ends(WatchedKind::NodeClaim);
    let names: Vec<_> = state.snapshot().claims.keys().cloned().collect();
    assert_eq!(names, ["listed", "ours", "planned"]);
}

#[test]
fn a_late_event_neither_undoes_nor_revives_a_claim() {
    let mut state = ClusterState::new();
    assert!(state.apply_claim(Arc::new(launched_with(&kube_claim("a", Some("1"), "10"), "p"))));
    assert!(!state.apply_claim(Arc::new(kube_claim("a", Some("1"), "9"))));
    assert_eq!(state.snapshot().claims["a"].claim.status.as_ref().unwrap().provider_id, "p");
    state.delete_claim("a", Some("1"));
    assert!(!state.apply_claim(Arc::new(kube_claim("a", Some("1"), "11"))));
    assert!(state.snapshot().claims.is_empty());
    assert!(state.apply_claim(Arc::new(kube_claim("a", Some("2"), "12"))), "another claim of that name is another");
}

#[test]
fn claim_shown_by_a_fresh_list_is_there_whatever_was_known() {
    let mut state = ClusterState::new();
    let claim = Arc::new(kube_claim("a", Some("1"), "10"));
    state.apply_claim(claim.clone());
    state.delete_claim("a", Some("1"));
    assert!(!state.apply_claim(claim.clone()), "late");
    state.is_there(&claim.metadata);
    assert!(state.apply_claim(claim));
    assert!(state.snapshot().claims.contains_key("a"));
}

fn versioned(name: &str, uid: &str, version: &str) -> ObjectMeta {
    let text = |text: &str| Some(text.to_owned());
    ObjectMeta { name: text(name), uid: text(uid), resource_version: text(version), ..ObjectMeta::default() }
}

fn pool_at(ready: bool, uid: &str, version: &str) -> NodePool {
    NodePool { metadata: versioned("default", uid, version), ..pool("default", ready) }
}

fn class_at(role: &str, uid: &str, version: &str) -> EC2NodeClass {
    EC2NodeClass { metadata: versioned("default", uid, version), ..node_class(role) }
}

fn node_class(role: &str) -> EC2NodeClass {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {"role": role, "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]},
    }))
    .unwrap()
}

#[test]
fn late_answer_neither_undoes_nor_revives_pool_class_or_node() {
    let mut state = ClusterState::new();
    assert_eq!(state.apply_pool(pool_at(true, "1", "10")), UpdateEffect::News);
    assert_eq!(state.apply_pool(pool_at(false, "1", "9")), UpdateEffect::Stale);
    assert_eq!(state.apply_pool(pool_at(true, "1", "11")), UpdateEffect::Alike);
    assert_eq!(state.apply_class(class_at("new", "1", "10")), UpdateEffect::News);
    assert_eq!(state.apply_class(class_at("old", "1", "9")), UpdateEffect::Stale);
    let node = |version| Node { metadata: versioned("n", "1", version), ..kube_node("n", "p", json!({})) };
    assert!(state.apply_node(&node("10")) && !state.apply_node(&node("9")));
    state.delete_pool("default", Some("1"));
    state.delete_class("default", Some("1"));
    state.delete_node("n", Some("1"));
    assert_eq!(state.apply_pool(pool_at(true, "1", "12")), UpdateEffect::Stale);
    assert_eq!(state.apply_class(class_at("new", "1", "12")), UpdateEffect::Stale);
    assert!(!state.apply_node(&node("12")));
    let now = state.snapshot();
    assert!(now.pools.is_empty() && now.classes.is_empty() && now.nodes.is_empty());
    assert_eq!(state.apply_pool(pool_at(true, "2", "13")), UpdateEffect::News, "another of that name");
}

#[test]
fn the_end_of_a_pool_or_a_class_takes_no_other_of_its_name_away() {
    let mut state = ClusterState::new();
    state.apply_pool(pool_at(true, "1", "10"));
    state.apply_class(class_at("old", "1", "10"));
    // Those that were made anew are known before the watch says that the first ones are gone.
    state.apply_pool(pool_at(true, "2", "12"));
    state.apply_class(class_at("new", "2", "12"));
    state.delete_pool("default", Some("1"));
    state.delete_class("default", Some("1"));
    let now = state.snapshot();
    assert_eq!(now.pools["default"].metadata.uid.as_deref(), Some("2"));
    assert_eq!(now.classes["default"].metadata.uid.as_deref(), Some("2"));
    let unread = |uid| Unreadable { metadata: versioned("default", uid, "13"), ..Unreadable::default() };
    for kind in [WatchedKind::NodePool, WatchedKind::NodeClass] {
        state.apply_unreadable(kind, unread("3"));
        state.delete_unreadable(kind, &unread("2").metadata);
        assert!(state.snapshot().unreadable(kind, "default").is_some(), "{kind:?}");
    }
    state.delete_pool("default", None);
    assert!(state.snapshot().unreadable(WatchedKind::NodePool, "default").is_none(), "nothing of that name is left");
}

#[test]
fn api_server_restored_to_an_earlier_state_is_believed() {
    let mut state = ClusterState::new();
    state.apply_pool(pool_at(false, "1", "100"));
    state.apply_class(class_at("new", "1", "100"));
    state.delete_class("default", Some("1"));
    state.list_begins(WatchedKind::NodePool);
    state.list_begins(WatchedKind::NodeClass);
    assert_eq!(state.apply_pool(pool_at(true, "1", "50")), UpdateEffect::News);
    assert_eq!(state.apply_class(class_at("old", "1", "50")), UpdateEffect::News);
    state.list_ends(WatchedKind::NodePool);
    state.list_ends(WatchedKind::NodeClass);
    assert_eq!((state.snapshot().pools.len(), state.snapshot().classes.len()), (1, 1));
    assert_eq!(state.apply_pool(pool_at(false, "1", "49")), UpdateEffect::Stale);

    // An object that was there all the time, and is as it was.
    let mut state = ClusterState::new();
    let node_at = |version: &str| {
        let mut node = kube_node("n", "p", json!({}));
        node.metadata.uid = Some("1".into());
        node.metadata.resource_version = Some(version.into());
        node
    };
    state.apply_class(class_at("new", "1", "100"));
    state.apply_node(&node_at("100"));
    assert_eq!(state.apply_class(class_at("old", "1", "50")), UpdateEffect::Stale);
    assert!(!state.apply_node(&node_at("50")));
    state.list_begins(WatchedKind::NodeClass);
    state.list_begins(WatchedKind::Node);
    assert_eq!(state.apply_class(class_at("old", "1", "50")), UpdateEffect::News);
    assert!(state.apply_node(&node_at("50")));
}

#[test]
fn claims_are_as_restored_server_lists_unless_written_since() {
    let mut state = ClusterState::new();
    for name in ["back", "gone", "written"] {
        state.apply_claim(Arc::new(launched_with(&kube_claim(name, Some(name), "100"), "p")));
    }
    state.delete_claim("gone", Some("gone"));
    assert!(!state.apply_claim(Arc::new(kube_claim("back", Some("back"), "50"))), "late, as long as nothing is listed");
    state.list_begins(WatchedKind::NodeClaim);
    state.apply_claim(Arc::new(kube_claim("written", Some("written"), "1000")));
    for name in ["back", "gone", "written"] {
        state.apply_claim(Arc::new(kube_claim(name, Some(name), "50")));
    }
    state.list_ends(WatchedKind::NodeClaim);
    let version = |name: &str| state.snapshot().claims[name].claim.metadata.resource_version.clone().unwrap();
    assert_eq!(["back", "gone", "written"].map(version), ["50", "50", "1000"]);
    assert!(!state.apply_claim(Arc::new(kube_claim("back", Some("back"), "49"))), "late again");
}

#[test]
fn pod_listed_without_node_by_restored_api_server_waits_again() {
    let mut state = ClusterState::new();
    state.apply_pod(&pod_at("n", "100")).unwrap();
    state.list_begins(WatchedKind::Pod);
    state.apply_pod(&pod_at("", "50")).unwrap();
    state.list_ends(WatchedKind::Pod);
    let now = state.snapshot();
    assert_eq!((now.pods["uid-a"].node_name.as_str(), now.loads.len()), ("", 0));
    assert_eq!(pending(&state, 0).len(), 1, "it waits for a node");
    state.apply_pod(&pod_at("n", "49")).unwrap();
    assert_eq!(state.snapshot().pods["uid-a"].node_name, "", "late again");
}

fn pod_at(node: &str, version: &str) -> KubePod {
    let mut pod = kube_pod("a", node, "500m");
    pod.metadata.resource_version = Some(version.into());
    pod
}

#[test]
fn a_new_leader_counts_claims_on_their_way_as_room() {
    let mut state = ClusterState::new();
    let by_term = |name: &str, uid: &str| {
        let mut claim = kube_claim(name, Some(uid), "1");
        claim.metadata.annotations.get_or_insert_default().insert(TERM.to_owned(), "1".to_owned());
        claim
    };
    let mut copied = by_term("copied", "3");
    copied.metadata.annotations.get_or_insert_default().insert(LAUNCH_TOKEN.to_owned(), "another's".to_owned());
    state.apply_claim(Arc::new(by_term("unlaunched", "1")));
    state.apply_claim(Arc::new(launched_with(&kube_claim("launched", Some("2"), "1"), "p")));
    state.apply_claim(Arc::new(copied));
    state.apply_claim(Arc::new(kube_claim("made-by-hand", Some("4"), "1")));
    let problem = state.snapshot().planning(&input(0)).problem;
    let rooms: Vec<_> =
        problem.existing_nodes.iter().map(|node| (node.name.as_str(), node.allocatable.get("cpu"))).collect();
    assert_eq!(rooms, [("launched", 2000), ("unlaunched", 1000)], "nobody knows what comes of the others");
    assert_eq!(problem.existing_nodes[0].labels["topology.kubernetes.io/zone"], "a");
}

#[test]
fn claim_of_earlier_leader_counts_its_most_against_limits() {
    let mut state = ClusterState::new();
    state.apply_pool(pool("default", true));
    let mut claim = kube_claim("c", Some("1"), "1");
    let types = json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "other"]});
    claim.spec.requirements.push(serde_json::from_value(types).unwrap());
    state.apply_claim(Arc::new(claim.clone()));
    let usage = |state: &ClusterState| {
        let usage = state.snapshot().planning(&input(0)).problem.node_pools[0].usage.clone();
        (usage.get("cpu"), usage.get("nodes"))
    };
    assert_eq!(usage(&state), (2000, 1), "it asks for 1000");
    let mut known = ClusterState::new();
    known.apply_pool(pool("default", true));
    known.plan_claim(claim, Resources::parse([("cpu", "3")]).unwrap());
    assert_eq!(usage(&known).0, 3000, "who has planned it knows");
}

#[test]
fn claim_of_earlier_leader_gets_what_pool_limits_leave_it() {
    let types = input(0).instance_types["default"].to_vec();
    let fits =
        |state: &ClusterState, claim: &NodeClaim| !state.snapshot().within_limits(claim, &types, &types).is_empty();
    let limited = |cpu: &str, nodes: &str| {
        let mut state = ClusterState::new();
        let mut pool = pool("default", true);
        pool.spec.limits = Some(serde_json::from_value(json!({"cpu": cpu, "nodes": nodes})).unwrap());
        state.apply_pool(pool);
        state
    };
    let made = |name: &str, second: i64| {
        let mut claim = kube_claim(name, Some(name), "1");
        let types = json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]});
        claim.spec.requirements.push(serde_json::from_value(types).unwrap());
        claim.metadata.creation_timestamp =
            serde_json::from_value(json!(Timestamp::from_second(second).unwrap())).unwrap();
        claim
    };
    let (early, late) = (made("z", 1), made("a", 2));
    let mut state = limited("3", "9");
    for claim in [&early, &late] {
        state.apply_claim(Arc::new(claim.clone()));
    }
    assert!(fits(&state, &early) && !fits(&state, &late), "two CPU each, of three");
    let mut by_count = limited("100", "1");
    for claim in [&early, &late] {
        by_count.apply_claim(Arc::new(claim.clone()));
    }
    assert!(fits(&by_count, &early) && !fits(&by_count, &late), "one node");
    let mut other = kube_claim("b", Some("b"), "1");
    other.metadata.labels = Some([("karpenter.sh/nodepool".to_owned(), "other".to_owned())].into());
    state.apply_claim(Arc::new(launched_with(&other, "q")));
    assert!(fits(&state, &early), "of another pool");
    state.plan_claim(kube_claim("planned", None, ""), Resources::parse([("cpu", "2")]).unwrap());
    assert!(!fits(&state, &early), "planned without it");
    let mut launched = limited("3", "9");
    launched.apply_claim(Arc::new(launched_with(&kube_claim("l", Some("l"), "1"), "p")));
    assert!(!fits(&launched, &early), "launched without it");
    launched.delete_claim("l", Some("l"));
    assert!(fits(&launched, &early));
    assert!(fits(&ClusterState::new(), &early), "its pool is gone");
}

#[test]
fn deleting_claim_is_not_planned_on_and_frees_pods_and_limits() {
    let mut state = ClusterState::new();
    state.apply_pool(pool("default", true));
    state.apply_pod(&kube_pod("a", "", "1")).unwrap();
    let mut claim = launched_with(&kube_claim("c", Some("1"), "1"), "p");
    state.apply_claim(Arc::new(claim.clone()));
    state.nominate(["uid-a"], &NominationTarget::Claim("c".into()), Duration::from_secs(20));
    let usage = |state: &ClusterState| state.snapshot().planning(&input(1)).problem.node_pools[0].usage.get("cpu");
    assert_eq!(usage(&state), 2000);
    claim.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    claim.metadata.resource_version = Some("2".into());
    state.apply_claim(Arc::new(claim));
    let planning = state.snapshot().planning(&input(1));
    assert!(planning.existing.is_empty());
    assert_eq!((planning.problem.pods.len(), usage(&state)), (1, 0));
}

#[test]
fn node_and_claim_are_one_machine_seen_by_claim_till_registered() {
    let mut state = ClusterState::new();
    state.apply_claim(Arc::new(launched_with(&kube_claim("c", Some("1"), "1"), "p")));
    let mut node = kube_node("n", "p", json!({"own": "label"}));
    node.spec.as_mut().unwrap().taints = Some(vec![dovetail_api::names::taints::unregistered()]);
    state.apply_node(&node);
    let joined = state.snapshot().joined();
    assert_eq!(joined.len(), 1);
    assert_eq!((joined[0].node_name(), joined[0].claim_name()), (Some("n"), Some("c")));
    assert!(joined[0].taints.is_empty() && !joined[0].initialized && !joined[0].labels.contains_key("own"));

    let labels = json!({"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true", "own": "label"});
    state.apply_node(&kube_node("n", "p", labels));
    let joined = state.snapshot().joined();
    assert!(joined[0].initialized && joined[0].labels.contains_key("own"));
}

#[test]
fn pods_may_ask_for_the_labels_of_their_provider() {
    use dovetail_api::names::labels::{INSTANCE_CPU, KWOK_INSTANCE_CPU, ZONE};
    let known = |provider| {
        let state = ClusterState::new().for_provider(provider);
        let problem = state.snapshot().planning(&PlanningInput::default()).problem;
        [ZONE, INSTANCE_CPU, KWOK_INSTANCE_CPU].map(|key| problem.well_known_labels.iter().any(|own| own == key))
    };
    assert_eq!(known(Provider::Ec2), [true, true, false]);
    assert_eq!(known(Provider::Kwok), [true, false, true]);
}

#[test]
fn a_pool_that_is_not_ready_is_left_out_and_said_so() {
    let mut state = ClusterState::new();
    state.apply_pool(pool("good", true));
    state.apply_pool(pool("bad", false));
    let planning = state.snapshot().planning(&input(0));
    assert_eq!(planning.problem.node_pools.len(), 1);
    assert_eq!(planning.skipped[0].pool, "bad");
    let none = state.snapshot().planning(&PlanningInput::default());
    assert!(none.skipped.iter().any(|skipped| skipped.pool == "good" && skipped.why.contains("no instance types")));
}

#[test]
fn pod_without_usable_pool_is_told_each_pool_class_and_reason() {
    let mut waits = pool("bad", false);
    let class_ready = json!({"type": "NodeClassReady", "status": "False", "reason": "NodeClassNotFound",
        "message": "the EC2NodeClass is not there", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    waits.status.as_mut().unwrap().conditions.push(serde_json::from_value(class_ready).unwrap());
    let mut state = ClusterState::new();
    state.apply_pool(waits);
    let mut problem = crate::Problem::clone(&state.snapshot().planning(&input(0)).problem);
    problem.pods = vec![serde_json::from_value(json!({"name": "a", "uid": "a", "requests": {"cpu": "1"}})).unwrap()];
    let said = crate::pack::solve(&problem, &crate::pack::Options::default()).unscheduled[0].1.to_string();
    assert_eq!(
        said,
        "pool bad: it is not Ready: EC2NodeClass default: NodeClassNotFound: the EC2NodeClass is not there"
    );
}

#[test]
fn room_is_kept_for_daemons_to_land_and_none_counts_twice() {
    let mut state = ClusterState::new();
    let set = |name: &str, selector: Value| -> DaemonSet {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "kube-system", "uid": name},
            "spec": {"selector": {}, "template": {"spec": {"nodeSelector": selector,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}}},
        }))
        .unwrap()
    };
    state.apply_daemon_set(set("everywhere", json!({})));
    state.apply_daemon_set(set("elsewhere", json!({"os": "other"})));
    state.apply_node(&kube_node("n", "p", json!({})));
    let daemon_cpu = |state: &ClusterState| {
        state.snapshot().planning(&input(0)).problem.existing_nodes[0].daemon_requests.get("cpu")
    };
    assert_eq!(daemon_cpu(&state), 100);
    let mut pod = kube_pod("d", "n", "100m");
    pod.metadata.namespace = Some("kube-system".into());
    pod.metadata.owner_references = Some(vec![
        serde_json::from_value(
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "everywhere", "uid": "everywhere"}),
        )
        .unwrap(),
    ]);
    state.apply_pod(&pod).unwrap();
    assert_eq!(daemon_cpu(&state), 0);
}

/// A DaemonSet whose pods request so much CPU, with more of a container.
fn daemon_set(name: &str, cpu: &str, more: Value) -> DaemonSet {
    let mut container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    more.as_object().into_iter().flatten().for_each(|(key, value)| container[key] = value.clone());
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "kube-system", "uid": name},
        "spec": {"selector": {}, "template": {"spec": {"containers": [container]}}},
    }))
    .unwrap()
}

#[test]
fn daemonsets_with_one_port_count_as_one_on_nodes_there() {
    let mut state = ClusterState::new();
    for (name, cpu) in [("a", "300m"), ("b", "400m")] {
        state.apply_daemon_set(daemon_set(name, cpu, json!({"ports": [{"containerPort": 80, "hostPort": 9100}]})));
    }
    state.apply_daemon_set(daemon_set("other", "50m", json!({})));
    state.apply_node(&kube_node("n", "p", json!({})));
    let daemon_cpu = |state: &ClusterState| {
        state.snapshot().planning(&input(0)).problem.existing_nodes[0].daemon_requests.get("cpu")
    };
    assert_eq!(daemon_cpu(&state), 350, "as on a node to come: the smaller of the two comes first");
    let mut pod = kube_pod("d", "n", "400m");
    pod.metadata.namespace = Some("kube-system".into());
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "b", "uid": "b"}]);
    pod.metadata.owner_references = Some(serde_json::from_value(owner).unwrap());
    state.apply_pod(&pod).unwrap();
    assert_eq!(daemon_cpu(&state), 50, "the other of the two is there");
}

#[test]
fn daemonsets_have_one_share_of_new_nodes_and_of_those_there() {
    let a_type = |name: &str, cpu: &str| -> Arc<crate::InstanceType> {
        let capacity = json!({"cpu": cpu, "memory": "16Gi", "pods": "29"});
        let offering = json!({"zone": "a", "capacityType": "on-demand", "price": 0.1, "available": true});
        let one = json!({"name": name, "capacity": capacity, "offerings": [offering], "requirements": []});
        Arc::new(serde_json::from_value(one).unwrap())
    };
    let mut state = ClusterState::new();
    state.apply_pool(pool("default", true));
    state.apply_daemon_set(daemon_set("a", "900m", json!({})));
    state.apply_daemon_set(daemon_set("b", "1", json!({})));
    for (name, kind) in [("known", "m5.large"), ("odd", "of-nobody")] {
        let labels = json!({"karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": kind});
        state.apply_node(&kube_node(name, name, labels));
    }
    state.apply_pod(&kube_pod("large", "", "2")).unwrap();
    let daemon_cpu = |types: Vec<Arc<crate::InstanceType>>| -> Vec<i64> {
        let input = PlanningInput { instance_types: [("default".to_owned(), Arc::new(types))].into(), ..input(0) };
        let problem = state.snapshot().planning(&input).problem;
        problem.existing_nodes.iter().map(|node| node.daemon_requests.get("cpu")).collect()
    };
    let small = a_type("m5.large", "2");
    assert_eq!(daemon_cpu(vec![small.clone()]), [900, 1900], "95 percent are beyond the share");
    let all = vec![small, a_type("m5.2xlarge", "8"), a_type("m5.4xlarge", "16")];
    assert_eq!(daemon_cpu(all), [1900, 1900], "most types have room: it counts on the small one too");
}

#[test]
fn the_state_is_synced_when_every_kind_has_been_listed() {
    let mut state = ClusterState::new();
    for kind in WatchedKind::ALL {
        assert!(!state.synced());
        state.list_begins(kind);
        state.list_ends(kind);
    }
    assert!(state.synced());
}

/// A node with a claim, initialized, and its pods.
fn machine(state: &mut ClusterState, name: &str, pods: &[&str]) -> NodeClaim {
    let claim = launched_with(&kube_claim(name, Some(name), "1"), name);
    state.apply_claim(Arc::new(claim.clone()));
    let labels = json!({"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        "karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.sh/nodepool": "default"});
    state.apply_node(&kube_node(&format!("node-{name}"), name, labels));
    for pod in pods {
        state.apply_pod(&kube_pod(pod, &format!("node-{name}"), "500m")).unwrap();
    }
    claim
}

fn owned(pod: &str, node: &str, api: &str, kind: &str) -> KubePod {
    let mut pod = kube_pod(pod, node, "500m");
    let owner = json!([{"apiVersion": api, "kind": kind, "name": "x", "uid": "o"}]);
    pod.metadata.owner_references = Some(serde_json::from_value(owner).unwrap());
    pod
}

fn ends(mut pod: KubePod) -> KubePod {
    pod.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    pod
}

fn annotated(mut claim: NodeClaim, value: &str) -> NodeClaim {
    claim.metadata.annotations = Some([("dovetail.dev/interruption".to_owned(), value.to_owned())].into());
    claim.metadata.resource_version = Some("9".into());
    claim
}

fn budget(spec: Value) -> PodDisruptionBudget {
    let name = spec.to_string();
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})).unwrap()
}

#[test]
fn pods_on_a_leaving_node_need_a_place_whoever_says_so() {
    let says: [(&str, fn(&mut ClusterState, NodeClaim)); 4] = [
        ("a mark", |state, _| state.mark_deleting(["m"], true)),
        ("the annotation", |state, claim| {
            state.apply_claim(Arc::new(annotated(claim, "spot_interrupted 2026-03-02T10:17:00Z")));
        }),
        ("the claim's deletion", |state, mut claim| {
            claim.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
            claim.metadata.resource_version = Some("9".into());
            state.apply_claim(Arc::new(claim));
        }),
        ("the Node's deletion", |state, _| {
            let mut node = kube_node("node-m", "m", json!({}));
            node.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
            state.apply_node(&node);
        }),
    ];
    for (who, say) in says {
        let mut state = ClusterState::new();
        let claim = machine(&mut state, "m", &["a", "b"]);
        let stays = machine(&mut state, "stays", &["c"]);
        assert_eq!((pending(&state, 0).len(), state.departures()), (0, 0), "{who}");
        say(&mut state, claim);
        assert_eq!((pending(&state, 0), state.departures()), (vec!["a".into(), "b".into()], 1), "{who}");
        let planning = state.snapshot().planning(&input(0));
        let existing: Vec<_> = planning.existing.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(existing, ["node-stays"], "{who}: nothing is planned on it");
        state.apply_claim(Arc::new(stays));
        assert_eq!(state.departures(), 1, "{who}: it is news once");
    }
}

#[test]
fn a_mark_taken_back_is_as_if_it_had_never_been() {
    let mut state = ClusterState::new();
    machine(&mut state, "m", &["a"]);
    machine(&mut state, "n", &[]);
    state.mark_deleting(["m"], true);
    state.nominate(["uid-a"], &NominationTarget::Node("node-n".into()), Duration::from_secs(20));
    state.mark_deleting(["m"], false);
    assert!(pending(&state, 0).is_empty());
    assert_eq!(state.snapshot().expected_on("uid-a", at(0)), None, "its place elsewhere is free again");
    assert!(state.snapshot().deleting.is_empty());
}

#[test]
fn end_of_a_term_forgets_marks_and_keeps_claim_annotations() {
    let mut state = ClusterState::new();
    machine(&mut state, "m", &["a"]);
    let claim = machine(&mut state, "n", &["b"]);
    state.mark_deleting(["m"], true);
    state.apply_claim(Arc::new(annotated(claim, "spot_interrupted 2026-03-02T10:17:00Z")));
    state.forget_plans();
    assert_eq!(pending(&state, 0), ["b"]);
}

#[test]
fn only_pods_that_can_and_will_be_moved_need_a_place() {
    let mut state = ClusterState::new();
    machine(&mut state, "m", &["moves"]);
    let mut stays = kube_pod("asks-to-stay", "node-m", "1");
    stays.metadata.annotations = Some([("karpenter.sh/do-not-disrupt".to_owned(), "true".to_owned())].into());
    let mut for_now = kube_pod("asks-for-a-while", "node-m", "1");
    for_now.metadata.annotations = Some([("karpenter.sh/do-not-disrupt".to_owned(), "100s".to_owned())].into());
    for_now.status.as_mut().unwrap().start_time = Some(serde_json::from_value(json!("1970-01-01T00:01:00Z")).unwrap());
    let mut done = kube_pod("done", "node-m", "1");
    done.status.as_mut().unwrap().phase = Some("Succeeded".into());
    for pod in [
        stays,
        for_now,
        done,
        owned("daemon", "node-m", "apps/v1", "DaemonSet"),
        owned("mirror", "node-m", "v1", "Node"),
        ends(kube_pod("ends", "node-m", "1")),
        ends(owned("comes-again-later", "node-m", "apps/v1", "StatefulSet")),
    ] {
        state.apply_pod(&pod).unwrap();
    }
    state.mark_deleting(["m"], true);
    assert_eq!(pending(&state, 0), ["comes-again-later", "moves"]);
    assert_eq!(pending(&state, 161), ["asks-for-a-while", "comes-again-later", "moves"]);
}

#[test]
fn a_pod_that_its_budgets_never_let_go_needs_no_place() {
    let all = json!({});
    let blocking = [
        vec![json!({"selector": all, "maxUnavailable": 0})],
        vec![json!({"selector": all, "maxUnavailable": "0%"})],
        vec![json!({"selector": all, "minAvailable": "100%"})],
        vec![json!({"selector": all, "maxUnavailable": 1}), json!({"selector": all, "maxUnavailable": 2})],
    ];
    let passing = [
        vec![json!({"selector": all, "maxUnavailable": 1})],
        vec![json!({"selector": all, "minAvailable": "50%"})],
        vec![json!({"selector": {"matchLabels": {"app": "other"}}, "maxUnavailable": 0})],
        vec![json!({"maxUnavailable": 0})],
    ];
    for (budgets, moves) in blocking.iter().map(|one| (one, 0)).chain(passing.iter().map(|one| (one, 1))) {
        let mut state = ClusterState::new();
        machine(&mut state, "m", &["a"]);
        state.mark_deleting(["m"], true);
        budgets.iter().for_each(|spec| state.apply_budget(budget(spec.clone())));
        assert_eq!(pending(&state, 0).len(), moves, "{budgets:?}");
        budgets.iter().for_each(|spec| state.delete_budget(&budget(spec.clone())));
        assert_eq!(pending(&state, 0).len(), 1, "{budgets:?}");
    }
}

#[test]
fn a_place_is_kept_until_the_pod_has_gone_and_is_its_successors() {
    let mut state = ClusterState::new();
    machine(&mut state, "m", &["old"]);
    state.mark_deleting(["m"], true);
    state.plan_claim(kube_claim("new", None, "0"), Resources::new());
    state.nominate(["uid-old"], &NominationTarget::Claim("new".into()), Duration::from_secs(20));
    assert!(pending(&state, 0).is_empty());
    let used = |state: &ClusterState, now| {
        let problem = state.snapshot().planning(&input(now)).problem;
        let node = problem.existing_nodes.iter().find(|node| node.name == "new").unwrap();
        node.used.get("cpu")
    };
    assert_eq!(used(&state, 0), 500);
    assert!(!state.snapshot().place_is_ready("uid-old", at(0)));

    // An event of the old pod's changes nothing, nor does time, also when the node is ready.
    state.apply_pod(&kube_pod("old", "node-m", "500m")).unwrap();
    let mut ready = launched_with(&kube_claim("new", Some("u"), "1"), "p");
    for name in ["Registered", "Initialized"] {
        let conditions = &mut ready.status.as_mut().unwrap().conditions;
        dovetail_api::v1::set_condition(
            conditions,
            dovetail_api::v1::NewCondition::new(name, "True"),
            None,
            Timestamp::UNIX_EPOCH,
        );
    }
    state.apply_claim(Arc::new(ready));
    assert_eq!((pending(&state, 9999).len(), used(&state, 9999)), (0, 500));
    assert!(state.snapshot().place_is_ready("uid-old", at(9999)));

    // It is evicted: nobody else gets its room before its successor comes, which needs no second node.
    state.apply_pod(&ends(kube_pod("old", "node-m", "500m"))).unwrap();
    assert_eq!((pending(&state, 10).len(), used(&state, 10)), (0, 500));
    state.apply_pod(&kube_pod("another", "", "400m")).unwrap();
    assert_eq!((pending(&state, 10), used(&state, 10)), (vec!["another".into()], 500));
    state.apply_pod(&kube_pod("successor", "", "500m")).unwrap();
    assert_eq!((pending(&state, 10), used(&state, 10)), (vec!["another".into()], 500));
    assert!(!state.snapshot().nominations.contains_key("uid-old"));
    state.delete_pod("uid-old");
    assert_eq!((pending(&state, 10), used(&state, 10)), (vec!["another".into()], 500));
    assert_eq!(pending(&state, 9999), ["another", "successor"], "as any other that kube-scheduler does not bind");
}

#[test]
fn a_pod_whose_place_leaves_too_needs_another() {
    let mut state = ClusterState::new();
    machine(&mut state, "m", &["a"]);
    machine(&mut state, "n", &[]);
    state.mark_deleting(["m"], true);
    state.nominate(["uid-a"], &NominationTarget::Node("node-n".into()), Duration::from_secs(20));
    assert!(pending(&state, 0).is_empty());
    state.mark_deleting(["n"], true);
    assert_eq!(pending(&state, 0), ["a"]);
}

#[test]
fn parts_of_the_pods_follow_each_of_their_changes() {
    let mut state = ClusterState::new();
    let unbound = |state: &ClusterState| {
        assert!(state.holds_parts(), "{:?}", state.now.parts);
        state.snapshot().unbound().map(|entry| entry.pod.name.clone()).collect::<Vec<_>>()
    };
    let mut shares = kube_pod("shares", "", "1");
    let asks = (dovetail_api::names::annotations::SPOT_SHARE.to_owned(), "50%".to_owned());
    shares.metadata.annotations = Some([asks].into());
    state.apply_pod(&shares).unwrap();
    state.apply_pod(&owned("agent", "n", "apps/v1", "DaemonSet")).unwrap();
    state.apply_pod(&kube_pod("a", "", "1")).unwrap();
    assert_eq!(unbound(&state), ["a", "shares"]);
    let before = state.snapshot();
    let (daemons, sharing) = (before.pods_of_daemons().count(), before.sharing_pods().count());
    assert_eq!((daemons, sharing), (1, 1));
    state.apply_pod(&kube_pod("a", "n", "1")).unwrap();
    state.apply_pod(&kube_pod("shares", "", "1")).unwrap();
    state.delete_pod("uid-agent");
    assert_eq!((unbound(&state), state.snapshot().sharing_pods().count()), (vec!["shares".to_owned()], 0));
    state.delete_pod("uid-shares");
    assert!(unbound(&state).is_empty());
    assert_eq!((before.pods.len(), before.unbound().count()), (3, 2), "a snapshot stays as it was");
}

#[test]
fn pods_that_move_are_packed_with_whatever_batch_is_asked_for() {
    let mut state = ClusterState::new();
    machine(&mut state, "m", &["moves"]);
    state.apply_pod(&kube_pod("waits", "", "1")).unwrap();
    state.mark_deleting(["m"], true);
    let asked = |only: &[&str]| {
        let only: BTreeSet<String> = only.iter().map(|uid| (*uid).to_owned()).collect();
        let input = PlanningInput { only: Some(only.into()), ..input(0) };
        state.snapshot().to_pack(&input).iter().map(|entry| entry.pod.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(asked(&[]), ["moves"]);
    assert_eq!(asked(&["uid-waits"]), ["moves", "waits"]);
}

#[test]
fn unlaunched_claim_holds_its_reservation_and_launched_does_not() {
    let id = json!([{"key": "karpenter.k8s.aws/capacity-reservation-id", "operator": "In", "values": ["cr-1"]}]);
    let one: crate::InstanceType = serde_json::from_value(json!({
        "name": "m5.large", "capacity": {"cpu": "2"}, "requirements": [], "offerings": [{"zone": "a", "capacityType": "reserved",
            "price": 0.0, "available": true, "reservationCapacity": 2, "requirements": id}],
    }))
    .unwrap();
    let mut input = input(1);
    input.instance_types = [("default".to_owned(), Arc::new(vec![Arc::new(one)]))].into();
    let mut state = ClusterState::new();
    state.apply_pool(pool("default", true));
    let mut claim = kube_claim("a", Some("1"), "1");
    claim.spec.requirements = serde_json::from_value(id).unwrap();
    let left = |state: &ClusterState| {
        let problem = state.snapshot().planning(&input).problem;
        problem.instance_types[0].offerings[0].reservation_capacity
    };
    assert_eq!(left(&state), Some(2));
    state.apply_claim(Arc::new(claim.clone()));
    assert_eq!(left(&state), Some(1));
    claim.metadata.resource_version = Some("2".into());
    state.apply_claim(Arc::new(launched_with(&claim, "p")));
    assert_eq!(left(&state), Some(2), "the cloud has counted it");
}
