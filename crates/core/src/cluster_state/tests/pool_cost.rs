//! The ceiling of a pool's dollars an hour: what counts against it, and what packing launches within it.

use serde_json::{Value, json};

use super::*;
use crate::overlays::WrittenOverlay;
use crate::pack::{Options, solve};
use crate::resources::DOLLARS;

/// A pool, with its ceiling if it has one.
fn ceiling(name: &str, dollars: Option<&str>) -> NodePool {
    let mut own = pool(name, true);
    own.spec.limits = None;
    let annotations = dollars.map(|dollars| ("dovetail.dev/max-cost-per-hour".to_owned(), dollars.to_owned()));
    own.metadata.annotations = annotations.map(|one| [one].into());
    own
}

/// One type: 0.10 $ on demand, 0.03 $ as spot, and more in a zone that is sold out.
fn priced(now: u64) -> PlanningInput {
    let offering = |zone: &str, kind: &str, price: f64, available: bool| json!({"zone": zone, "capacityType": kind, "price": price, "available": available});
    let one: crate::InstanceType = serde_json::from_value(json!({
        "name": "m5.large", "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}],
        "offerings": [offering("a", "on-demand", 0.1, true), offering("a", "spot", 0.03, true),
            offering("b", "on-demand", 0.12, false)],
    }))
    .unwrap();
    PlanningInput { instance_types: [("default".to_owned(), Arc::new(vec![Arc::new(one)]))].into(), ..input(now) }
}

/// A claim whose instance is there as spot.
fn spot_claim(name: &str, change: impl FnOnce(&mut Value)) -> NodeClaim {
    let mut claim = launched_with(&kube_claim(name, Some(name), "1"), &format!("aws:///a/{name}"));
    let labels = claim.metadata.labels.get_or_insert_default();
    for (key, value) in [
        ("node.kubernetes.io/instance-type", "m5.large"),
        ("topology.kubernetes.io/zone", "a"),
        ("karpenter.sh/capacity-type", "spot"),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    let mut claim = serde_json::to_value(claim).unwrap();
    change(&mut claim);
    serde_json::from_value(claim).unwrap()
}

fn used(state: &ClusterState) -> i64 {
    state.snapshot().planning(&priced(0)).problem.node_pools[0].usage.get(DOLLARS)
}

#[test]
fn claim_on_its_way_costs_its_dearest_and_node_its_offering() {
    let mut state = ClusterState::new();
    state.apply_pool(ceiling("default", Some("5")));
    state.plan_claim(kube_claim("planned", None, "0"), Resources::new());
    assert_eq!(used(&state), 100_000, "zone a is all that it requires");
    state.apply_claim(Arc::new(kube_claim("planned", Some("planned"), "1")));
    assert_eq!(used(&state), 100_000, "created, and not launched");
    state.apply_claim(Arc::new(spot_claim("there", |_| ())));
    assert_eq!(used(&state), 130_000);
    state.apply_claim(Arc::new(spot_claim("leaves", |claim| {
        claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    })));
    assert_eq!(used(&state), 160_000, "it is paid for until it has ended");
    state.apply_claim(Arc::new(spot_claim("ends", |claim| {
        let ending = json!({"type": "InstanceTerminating", "status": "True", "reason": "x", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        claim["status"]["conditions"].as_array_mut().unwrap().push(ending);
    })));
    assert_eq!(used(&state), 160_000);
    let mut other = kube_claim("other", Some("other"), "1");
    other.metadata.labels = Some([("karpenter.sh/nodepool".to_owned(), "other".to_owned())].into());
    state.apply_claim(Arc::new(other));
    assert_eq!(used(&state), 160_000, "it is of another pool");
}

/// Plans are launched as spot, one after the other: at no time may the nodes cost more, whatever EC2 would have launched.
#[test]
fn packing_launches_up_to_the_ceiling_and_uses_what_is_left() {
    let mut state = ClusterState::new();
    state.apply_pool(ceiling("default", Some("0.40")));
    for pod in 0..20 {
        state.apply_pod(&kube_pod(&format!("p{pod}"), "", "1500m")).unwrap();
    }
    let (mut rounds, mut bound) = (Vec::new(), 0);
    loop {
        let problem = state.snapshot().planning(&priced(0)).problem;
        let packing = solve(&problem, &Options::default());
        if packing.claims.is_empty() {
            let reason = packing.unscheduled[0].1.to_string();
            assert!(reason.contains("its nodes may cost $0.4000 an hour together"), "{reason}");
            assert!(reason.contains("$0.1000 is left") && reason.contains("may cost $0.1200"), "{reason}");
            break;
        }
        let launched = packing.claims.len();
        let most = used(&state) + 120_000 * i64::try_from(launched).unwrap();
        assert!(most <= 400_000, "{most} after {rounds:?}");
        for _ in 0..launched {
            let (name, pod) = (format!("n{bound}"), format!("p{bound}"));
            state.apply_claim(Arc::new(spot_claim(&name, |_| ())));
            state.apply_node(&kube_node(&name, &format!("aws:///a/{name}"), json!({})));
            state.apply_pod(&kube_pod(&pod, &name, "1500m")).unwrap();
            bound += 1;
        }
        rounds.push(launched);
    }
    assert_eq!(rounds, [3, 2, 2, 1, 1, 1], "each counts 0.12 $, the dearest, until it is there for 0.03 $");
}

#[test]
fn unreadable_ceiling_stops_launches_of_its_pool_alone() {
    let mut state = ClusterState::new();
    state.apply_pool(ceiling("default", None));
    state.apply_pool(ceiling("typo", Some("$5")));
    let planning = state.snapshot().planning(&priced(0));
    let pools: Vec<&str> = planning.problem.node_pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(pools, ["default"]);
    assert!(planning.skipped[0].why.contains("\"$5\""), "{:?}", planning.skipped);
    state.delete_pool("typo", None);
    let written = serde_json::to_string(&*state.snapshot().planning(&priced(0)).problem).unwrap();
    assert!(!written.contains(DOLLARS), "without the annotation the problem is as before: {written}");
}

/// An overlay ranks offerings: a ceiling counts what is paid, of nodes that are there and of those that packing launches.
#[test]
fn overlays_move_no_dollars_of_a_ceiling() {
    let mut state = ClusterState::new();
    state.apply_pool(ceiling("default", Some("0.20")));
    let overlay = json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "cheap"},
        "spec": {"requirements": [], "priceAdjustment": "-90%"}});
    state.apply_overlay(WrittenOverlay::new(serde_json::from_value(overlay).unwrap()));
    for pod in 0..3 {
        state.apply_pod(&kube_pod(&format!("p{pod}"), "", "1500m")).unwrap();
    }
    let problem = state.snapshot().planning(&priced(0)).problem;
    let spot = problem.instance_types[0].offering("a", "spot").unwrap();
    assert!((spot.price - 0.003).abs() < 1e-9 && spot.billed_price() == 0.03, "{spot:?}");
    assert_eq!(solve(&problem, &Options::default()).claims.len(), 1, "each may cost 0.12 $");
    state.apply_claim(Arc::new(spot_claim("there", |_| ())));
    assert_eq!(used(&state), 30_000);
}
