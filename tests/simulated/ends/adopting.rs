//! A cluster of Karpenter's is taken over: nothing moves before an operator lets it, and then the bill falls.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::played;

use played::{Played, at, play_kept};

/// $ an hour of all instances that are paid at a time.
fn bill(run: &Played, when: f64) -> f64 {
    let mut running = std::collections::BTreeMap::new();
    for event in run.seen("instance", &[]).into_iter().filter(|event| at(event) <= when) {
        let id = event["id"].as_str().unwrap();
        match event["change"].as_str().unwrap() {
            "pending" | "running" => drop(running.insert(id, event["pricePerHour"].as_f64().unwrap())),
            "shutting-down" | "terminated" => drop(running.remove(id)),
            _ => {}
        }
    }
    running.values().sum()
}

#[test]
fn adopted_karpenter_cluster_rests_and_release_lowers_the_bill() {
    const RELEASED: f64 = 60.0 * 60.0;
    let run = play_kept("adopting", &[]);
    run.came_out_well();
    let moved = run.removed().into_values().filter(|when| *when < RELEASED).count();
    assert_eq!(moved, 0, "{:?}", run.removed());
    assert!(run.times("launched").iter().all(|when| *when >= RELEASED), "{:?}", run.log_events("launched"));
    assert_eq!(run.log_events("instance_not_owned").len(), 0);
    assert!(run.log_events("drifted").is_empty(), "{:?}", run.log_events("drifted"));
    // Once, though two have led before the release.
    assert_eq!(run.log_events("elected").len(), 2);
    assert_eq!((run.log_events("pool_adopted").len(), run.events_of("AdoptedFromKarpenter")), (1, 1));
    assert_eq!(run.log_events("pool_released").len(), 1);
    let (before, after) = (bill(&run, RELEASED - 1.0), bill(&run, 2.5 * 3600.0 - 1.0));
    assert!(before > 12.0 * 0.38, "twelve m5.2xlarge: {before}");
    assert!(after < before * 0.6, "{before} before the release, {after} after it");
}
