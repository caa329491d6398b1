//! Launches that come to nothing.

use serde_json::json;

use super::{Run, assert_none, assert_only};

/// An instance of a pool that ends before its node is ready for pods.
fn lose(run: &mut Run, t: f64, id: u32, pool: &str) {
    let id = id.to_string();
    run.claim(t, &id, pool, 1);
    run.sent(t + 0.5, 0, 1);
    run.instance(t + 1.0, "pending", &id, &id);
    run.instance(t + 2.0, "shutting-down", &id, &id);
    run.gone(t + 3.0, &id);
}

/// Thirty of five pools, six each, then so many of another pool, one a minute.
fn thirty_and(run: &mut Run, more: u32) {
    run.pods(50.0, &["q"]);
    for nth in 0..30 {
        lose(run, 100.0 + 10.0 * f64::from(nth), 10 + nth, &format!("p{}", nth / 6));
    }
    for nth in 0..more {
        lose(run, 440.0 + 60.0 * f64::from(nth), 50 + nth, "later");
    }
}

#[test]
fn more_than_eight_after_ten_of_a_pool_are_inv_23() {
    let of_one = |run: &mut Run, count: u32| {
        run.pods(50.0, &["q"]);
        (0..count).for_each(|nth| lose(run, 100.0 + 50.0 * f64::from(nth), 10 + nth, "p"));
    };
    assert_none(|run| of_one(run, 18));
    assert_only("INV-23", |run| of_one(run, 19));
}

#[test]
fn more_than_eight_after_thirty_of_all_pools_are_inv_23() {
    assert_none(|run| thirty_and(run, 8));
    assert_only("INV-23", |run| thirty_and(run, 9));
}

#[test]
fn pool_that_works_is_not_held_to_the_losses_of_others() {
    assert_none(|run| {
        thirty_and(run, 9);
        run.claim(60.0, "9", "later", 1);
        run.sent(60.5, 0, 1);
        run.instance(61.0, "pending", "9", "9");
        let claim = json!({"nodePool": "later", "requests": {"cpu": "1", "memory": "1Gi", "pods": "1"}, "term": "1",
            "token": "tok-9", "providerID": super::provider("i-9")});
        let ready = json!({"status": {"conditions": [{"type": "Initialized", "status": "True"}]}});
        run.api(70.0, "patch", "9", claim, ready);
        run.instance(80.0, "shutting-down", "9", "9");
        run.gone(81.0, "9");
    });
}
