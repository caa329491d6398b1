//! Claims whose time is over.

use super::*;

fn expiring(world: &mut World, name: &str, after: &str) {
    world.machine(name, |claim, _| claim["spec"]["expireAfter"] = json!(after));
}

#[test]
fn expired_claim_goes_whatever_is_on_it_and_budgets_say() {
    let mut world = World::new(json!({"budgets": [{"nodes": "0"}]}));
    expiring(&mut world, "a", "1h");
    expiring(&mut world, "b", "Never");
    world.pod("one", "a", |pod| pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true"));
    world.pod("two", "b", |_| ());
    assert_eq!(gone(&world.look(3600.9)), Vec::<&str>::new(), "it may have been created at 0.99 s");
    let decision = world.look(3601.0);
    assert_eq!((gone(&decision), decision.removals[0].cause), (vec!["a"], DisruptionCause::Expired));
    assert_eq!(decision.removals[0].claims[0].pods, 1);
    assert_eq!(gone(&world.look(3602.0)), Vec::<&str>::new());
}

#[test]
fn a_claim_expires_also_before_it_has_a_node() {
    let mut world = World::new(json!({}));
    world.machine("a", |claim, _| {
        claim["spec"]["expireAfter"] = json!("5m");
        claim["status"] = json!({});
    });
    assert_eq!(world.look(301.0).removals[0].claims[0].claim, "claim-a");
}

#[test]
fn of_many_expiring_a_tenth_goes_at_a_time_the_oldest_first() {
    let mut world = World::new(json!({"consolidateAfter": "Never"}));
    for n in 0..200 {
        expiring(&mut world, &format!("n{n:03}"), "1h");
    }
    world.machine("n150", |claim, _| {
        claim["spec"]["expireAfter"] = json!("1h");
        claim["metadata"]["creationTimestamp"] = json!(at(-10.0));
    });
    let decision = world.look(3601.0);
    assert_eq!(gone(&decision).len(), 20);
    assert_eq!(gone(&decision)[0], "n150");
    assert_eq!(gone(&world.look(3610.0)), Vec::<&str>::new());
    for name in gone(&decision) {
        world.machine(name, |claim, _| {
            claim["spec"]["expireAfter"] = json!("1h");
            claim["metadata"]["deletionTimestamp"] = json!(at(3601.0));
        });
    }
    assert_eq!(gone(&world.look(3601.0 + 1800.0)).len(), 180, "nothing waits longer than half an hour");
}

#[test]
fn an_observed_pool_says_which_claims_would_expire() {
    let mut world = World::new(json!({"consolidateAfter": "Never"}));
    (0..30).for_each(|n| expiring(&mut world, &format!("n{n:02}"), "1h"));
    world.annotate("dovetail.dev/disruption", "observe");
    let told: Vec<usize> = (0..4)
        .map(|step| {
            let decision = world.look(3601.0 + f64::from(step));
            assert_eq!(decision.removals, []);
            decision.observed.iter().map(|removal| removal.claims.len()).sum()
        })
        .collect();
    assert_eq!(told, [10, 10, 10, 0]);
}

/// A class that has a capacity block which ends at `end` seconds.
fn with_block(world: &mut World, end: f64) {
    let version = world.next().to_string();
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default", "uid": "uid-class", "generation": 1, "resourceVersion": version},
        "spec": {"subnetSelectorTerms": [], "securityGroupSelectorTerms": []},
        "status": {"capacityReservations": [{"id": "cr-1", "reservationType": "capacity-block", "endTime": at(end),
            "availabilityZone": "a", "instanceMatchCriteria": "targeted", "instanceType": "p5.48xlarge", "ownerID": "1"}]},
    });
    world.state.apply_class(serde_json::from_value::<dovetail_api::v1::EC2NodeClass>(class).unwrap());
}

fn reserved(world: &mut World, name: &str, id: &str) {
    world
        .machine(name, |claim, _| claim["metadata"]["labels"]["karpenter.k8s.aws/capacity-reservation-id"] = json!(id));
}

#[test]
fn capacity_block_nodes_go_at_once_forty_minutes_before_end() {
    let mut world = World::new(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}));
    with_block(&mut world, 4.0 * 3600.0);
    (0..30).for_each(|n| reserved(&mut world, &format!("n{n:02}"), "cr-1"));
    reserved(&mut world, "other", "cr-2");
    world.machine("bought", |_, _| ());
    let due = 4.0 * 3600.0 - 40.0 * 60.0;
    let before = world.look(due - 1.0);
    assert_eq!(gone(&before), Vec::<&str>::new());
    let decision = world.look(due);
    assert_eq!((gone(&decision).len(), decision.removals[0].cause), (30, DisruptionCause::Expired));
    assert!(gone(&decision).iter().all(|name| name.starts_with('n')));
}

#[test]
fn block_claim_expiring_before_its_block_goes_at_its_own_time() {
    let mut world = World::new(json!({"consolidateAfter": "Never"}));
    with_block(&mut world, 4.0 * 3600.0);
    world.machine("a", |claim, _| {
        claim["metadata"]["labels"]["karpenter.k8s.aws/capacity-reservation-id"] = json!("cr-1");
        claim["spec"]["expireAfter"] = json!("1h");
    });
    assert_eq!(gone(&world.look(3601.0)), vec!["a"]);
}
