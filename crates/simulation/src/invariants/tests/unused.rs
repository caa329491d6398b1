//! Launches that no pod uses.

use super::{Run, assert_none, assert_only};

/// So many nodes one after the other, made for two pods that wait, each ready for so long.
fn one_after_the_other(run: &mut Run, count: u32, ready: f64, waits: bool) {
    run.pods(50.0, &["q1", "q2"]);
    for number in 0..count {
        let (id, t) = ((number + 10).to_string(), 100.0 + 60.0 * f64::from(number));
        run.claim(t, &id, "default", 2);
        run.launched(t + 1.0, &id, &id);
        run.serves(t + 10.0, &id);
        run.instance(t + 11.0 + ready, "shutting-down", &id, &id);
        run.gone(t + 12.0 + ready, &id);
        if !waits {
            ["q1", "q2"].into_iter().for_each(|pod| run.pod(t + 13.0, "deleted", pod));
            run.pods(t + 50.0, &["q1", "q2"]);
        }
    }
}

#[test]
fn more_than_eight_launches_an_hour_that_no_pod_uses_are_inv_18() {
    assert_only("INV-18", |run| one_after_the_other(run, 10, 20.0, true));
    assert_none(|run| one_after_the_other(run, 9, 20.0, true));
}

#[test]
fn nodes_whose_pods_have_gone_or_that_had_no_time_are_none() {
    assert_none(|run| one_after_the_other(run, 14, 20.0, false));
    assert_none(|run| one_after_the_other(run, 14, 10.0, true));
}

#[test]
fn a_node_on_which_a_pod_was_ready_is_none() {
    assert_none(|run| {
        one_after_the_other(run, 10, 20.0, true);
        run.add(
            180.0,
            None,
            "pod",
            serde_json::json!({"change": "bound", "namespace": "default", "name": "q1", "uid": "q1", "node": "node-11"}),
        );
        run.pod(181.0, "ready", "q1");
        run.pod(189.0, "deleted", "q1");
        run.pods(189.5, &["q1"]);
    });
}
