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
