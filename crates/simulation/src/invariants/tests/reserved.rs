//! Instances in capacity reservations.

use super::*;

fn uses(run: &mut Run, has: u32, ended: Option<f64>) {
    run.world(0.0, "start", json!({"capacityReservations": {"cr-1": has}}));
    let mut instance = |t: f64, change: &str, id: &str| {
        run.world(t, "instance", json!({"change": change, "id": id, "beforehand": true, "reservation": "cr-1"}));
    };
    instance(50.0, "pending", "i-8");
    if let Some(ended) = ended {
        instance(ended, "shutting-down", "i-8");
    }
    instance(60.0, "pending", "i-9");
}

#[test]
fn more_instances_than_a_reservation_has_are_inv_24() {
    assert_none(|run| uses(run, 2, None));
    assert_only("INV-24", |run| uses(run, 1, None));
    assert_none(|run| uses(run, 1, Some(55.0)));
}

#[test]
fn inv_24_follows_the_size_of_a_reservation() {
    let resized = |count: u32| Action::ResizeReserved { id: "cr-1".into(), count };
    assert_none(|run| {
        uses(run, 1, None);
        run.step(55.0, &resized(2));
    });
    assert_only("INV-24", |run| {
        uses(run, 2, None);
        run.step(55.0, &resized(1));
    });
    assert_none(|run| {
        uses(run, 2, None);
        run.step(65.0, &resized(1));
    });
}

/// A bought machine of this zone, and a reservation of one instance in zone a, for so long.
fn beside(run: &mut Run, zone: &str, end: f64) {
    let slots = json!([{"id": "cr-1", "instanceType": "m5.large", "zone": "a", "count": 1}]);
    let limits = json!({"cpu": "4", "nodes": "3"});
    run.world(
        0.5,
        "rules",
        json!({"resource": "nodepools", "name": "default", "limits": limits, "budgets": [{"nodes": "1"}],
            "paidSlots": slots}),
    );
    run.world(
        5.0,
        "instance",
        json!({"change": "running", "id": "i-1", "token": "tok-1", "instanceType": "m5.large", "zone": zone}),
    );
    run.leads(0, 1, END + 5.0, end);
    run.end.t = end;
}

#[test]
fn a_free_instance_beside_its_like_is_inv_26() {
    assert_only("INV-26", |run| beside(run, "a", 1500.0));
    assert_none(|run| beside(run, "a", 1400.0));
    assert_none(|run| beside(run, "b", 9000.0));
}

#[test]
fn what_is_used_shared_or_disturbed_is_not_inv_26() {
    assert_none(|run| {
        uses(run, 1, Some(55.0));
        beside(run, "a", 9000.0);
    });
    assert_none(|run| {
        beside(run, "a", 9000.0);
        run.step(50.0, &Action::TakeReserved { id: "cr-1".into(), count: 1 });
    });
    assert_none(|run| {
        beside(run, "a", 1700.0);
        run.world(1000.0, "fault", json!({}));
    });
    // The pools and classes that are there from then on are not noted.
    for step in [
        Action::Lose { kind: "EC2NodeClass".into(), count: None },
        Action::DeleteSome { kind: "NodePool".into(), count: Some(1) },
    ] {
        assert_none(|run| {
            beside(run, "a", 9000.0);
            run.step(1000.0, &step);
        });
    }
    let held = |run: &mut Run, at: f64| {
        let claim = json!({"nodePool": "default", "requests": {"cpu": "2", "memory": "2Gi", "pods": "2"}, "term": "1",
            "token": "tok-1", "providerID": provider("i-1")});
        let tried =
            json!({"type": "DisruptionReason", "status": "True", "reason": "Underutilized", "message": "x: n1"});
        let initialized = json!({"type": "Initialized", "status": "True"});
        run.api(at, "patch", "1", claim.clone(), json!({"status": {"conditions": [initialized, tried]}}));
        run.api(at + 600.0, "patch", "1", claim, json!({"status": {"conditions": [initialized]}}));
    };
    let rests = |run: &mut Run, end: f64| {
        beside(run, "a", end);
        held(run, 700.0);
    };
    let violated = |end: f64| {
        let mut run = Run::new();
        rests(&mut run, end);
        run.violated().contains("INV-26")
    };
    // Nobody moves what was to move within the hour.
    assert!(!violated(700.0 + 3600.0 + 750.0));
    assert!(violated(1300.0 + 3665.0 + 800.0));
}
