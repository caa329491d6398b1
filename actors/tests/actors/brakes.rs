//! Work that is done once rather than often: a burst of pods is one batch, a message one event.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use dovetail_sandbox::apiserver::{DeleteOptions, PODS};
use serde_json::{Value, json};
use world::{minutes, on_demand_m5, run, seconds};

#[test]
fn pods_coming_together_are_one_batch_and_later_ones_another() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let replica = world.replica(0);
        tokio::time::sleep(seconds(30)).await;
        world.pods_of("first", 4, "500m");
        world.until_bound(4, minutes(3)).await;
        let batches = |state: &Value| state["batcher"]["batches"].clone();
        assert_eq!(batches(&replica.state().await), 1, "{}", world.log_events().join("\n"));
        world.pods_of("later", 3, "1800m");
        world.until_bound(7, minutes(3)).await;
        let state = replica.state().await;
        assert_eq!((batches(&state), &state["batcher"]["inWindow"]), (json!(2), &json!(0)), "{state}");
    });
}

#[test]
fn a_pod_that_is_gone_before_its_window_closes_is_in_no_batch() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let replica = world.replica(0);
        tokio::time::sleep(seconds(30)).await;
        world.pods(1, "500m");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let at_once = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        world.api.delete(&PODS, "default", "pod-0000", &at_once).unwrap();
        tokio::time::sleep(minutes(1)).await;
        let state = replica.state().await;
        assert_eq!(state["batcher"]["batches"], 0, "{state}\n{}", world.log_events().join("\n"));
        assert!(world.claims().is_empty() && world.cloud.calls().is_empty());
    });
}

#[test]
fn why_a_pod_waits_is_said_once_while_the_reason_stays_the_same() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let _replica = world.replica(0);
        tokio::time::sleep(seconds(30)).await;
        // No m5 has so much.
        world.pods(1, "500");
        world.until(minutes(1), || !world.messages("FailedScheduling", "pod-0000").is_empty()).await;
        tokio::time::sleep(minutes(1)).await;
        let said = world.messages("FailedScheduling", "pod-0000");
        tokio::time::sleep(minutes(6)).await;
        assert_eq!(world.messages("FailedScheduling", "pod-0000"), said);
    });
}
