//! Spot interruptions through the binary: a quarter of the nodes is taken back, with the leader killed meanwhile, with
//! a queue that fails, and with messages that nobody should act on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use crate::played;
use std::collections::{BTreeMap, BTreeSet};

use common::{arg, dovetail, root, stderr};
use played::{Played, play_kept};
use serde_json::Value;

/// Pods that the scenarios' Deployments want.
const PODS: usize = 120;

impl Played {
    fn happened(&self, kind: &str, change: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["kind"] == kind && event["change"] == change).collect()
    }

    fn pod_seconds(&self) -> f64 {
        self.report["downtime"]["podSeconds"].as_f64().unwrap()
    }

    /// Instances that were warned, and when they end.
    fn ends(&self) -> BTreeMap<String, f64> {
        let warned = self.happened("instance", "interrupted");
        warned.iter().map(|one| (text(one, "id"), one["t"].as_f64().unwrap() + 120.0)).collect()
    }

    /// Pods of the Deployments that are Ready at a time.
    fn ready_at(&self, seconds: f64) -> usize {
        let mut ready: BTreeSet<String> = BTreeSet::new();
        let mut counted: BTreeSet<String> = BTreeSet::new();
        for event in self.events.iter().take_while(|event| event["t"].as_f64().unwrap() <= seconds) {
            if event["kind"] != "pod" {
                continue;
            }
            let uid = text(event, "uid");
            match event["change"].as_str().unwrap() {
                "created" if text(event, "owner").starts_with("Deployment/") => drop(counted.insert(uid)),
                "ready" if counted.contains(&uid) => drop(ready.insert(uid)),
                "evicted" | "deleting" | "lost" | "deleted" => drop(ready.remove(&uid)),
                _ => {}
            }
        }
        ready.len()
    }

    /// Nothing of the Deployments was lost, and all of it was back when the first of the instances could have ended.
    fn is_back_in_time(&self) {
        let lost: Vec<_> =
            self.happened("pod", "lost").into_iter().filter(|pod| !text(pod, "name").starts_with("agent-")).collect();
        assert!(lost.is_empty(), "{}: {} lost, for one {}", self.name, lost.len(), lost[0]);
        for (instance, end) in self.ends() {
            assert_eq!(self.ready_at(end - 0.001), PODS, "{}: at the end of {instance}", self.name);
        }
        assert_eq!(self.report["pods"]["pending"].as_object().unwrap().len(), 0, "{}", self.name);
    }

    /// Each warned instance was ended by us before EC2 took it.
    fn nodes_went_before_they_were_taken(&self) {
        let ends = self.ends();
        let gone: BTreeMap<String, &Value> =
            self.happened("instance", "shutting-down").into_iter().map(|one| (text(one, "id"), one)).collect();
        for (instance, end) in &ends {
            let one = gone.get(instance).unwrap_or_else(|| panic!("{}: {instance} still runs", self.name));
            assert!(one["t"].as_f64().unwrap() < *end, "{}: {one}", self.name);
            assert_eq!(one["reason"], "Client.UserInitiatedShutdown", "{}: {one}", self.name);
        }
    }

    /// Instances launched after a time.
    fn launched_after(&self, seconds: f64) -> usize {
        self.happened("instance", "pending").iter().filter(|one| one["t"].as_f64().unwrap() > seconds).count()
    }
}

fn text(event: &Value, field: &str) -> String {
    event[field].as_str().unwrap_or_default().to_owned()
}

#[test]
fn quarter_of_spot_nodes_is_taken_back_after_all_pods_are_back() {
    for seed in ["1", "2", "3"] {
        let run = play_kept("interruption", &["--seed", seed]);
        let taken = run.ends().len();
        assert!(taken >= 5, "{}: {taken} nodes", run.name);
        run.is_back_in_time();
        run.nodes_went_before_they_were_taken();
        assert_eq!(run.log_events("interrupted").len(), taken);
        assert_eq!(run.log_events("retreating").len(), taken);
        let packed = run.log_events("packing_computed").into_iter().map(|line| line["t"].as_f64().unwrap());
        assert!(packed.into_iter().any(|t| (300.0..301.0).contains(&t)), "{}: packed at once", run.name);
        let moved = run.report["downtime"]["evicted"].as_u64().unwrap();
        let after = run.launched_after(300.0);
        assert!(after <= taken + 2, "{}: {after} nodes for {taken}, {moved} pods moved", run.name);
    }
}

/// Pods of `interruption-many.yaml`.
const MANY: usize = 600;

#[test]
fn fifty_of_two_hundred_spot_nodes_warned_have_all_pods_back() {
    let ours = play_kept("interruption-many", &[]);
    let ends = ours.ends();
    assert!((45..=60).contains(&ends.len()), "{} of {} nodes", ends.len(), ours.number("launched"));
    let (first, last) = (ends.values().copied().fold(f64::MAX, f64::min), ends.values().copied().fold(0.0, f64::max));
    assert!(last - first <= 1.0, "warned within {} s", last - first);
    assert!(ours.happened("pod", "lost").iter().all(|pod| text(pod, "name").starts_with("agent-")));
    for (instance, end) in &ends {
        assert_eq!(ours.ready_at(end - 0.001), MANY, "at the end of {instance}");
    }
    ours.nodes_went_before_they_were_taken();
    let theirs = play_kept("interruption-many", &["--interruption=evict"]);
    assert_eq!(ends, theirs.ends(), "the same instances are taken");
    let (moved, at_once) = (ours.report["downtime"]["evicted"].clone(), theirs.pod_seconds());
    println!(
        "{} nodes, {moved} pods: {:.1} pod-seconds replacing, {at_once:.1} evicting",
        ends.len(),
        ours.pod_seconds()
    );
    assert!(ours.pod_seconds() * 4.0 < at_once, "{} pod-seconds against {at_once}", ours.pod_seconds());
}

#[test]
fn replacing_first_costs_less_downtime_than_evicting_first() {
    for seed in ["1", "2", "3"] {
        let ours = play_kept("interruption", &["--seed", seed]);
        let theirs = play_kept("interruption", &["--seed", seed, "--interruption=evict"]);
        assert_eq!(ours.ends(), theirs.ends(), "the same instances are taken");
        assert!(theirs.log_events("retreating").is_empty() && !theirs.log_events("interrupted").is_empty());
        let (ours, theirs) = (ours.pod_seconds(), theirs.pod_seconds());
        assert!(ours > 0.0 && ours * 2.0 < theirs, "seed {seed}: {ours} pod-seconds against {theirs}");
        println!("seed {seed}: {ours:.1} pod-seconds replacing, {theirs:.1} evicting");
    }
}

/// The instance types of a line that says what is unavailable, each with the zone.
fn types(line: &Value) -> Vec<(String, String)> {
    let named = line["instance_types"]["named"].as_array().unwrap();
    named.iter().map(|name| (name.as_str().unwrap().to_owned(), text(line, "zone"))).collect()
}

#[test]
fn interrupted_offering_is_not_asked_for_again_at_once() {
    let run = play_kept("interruption", &[]);
    let refused: BTreeSet<(String, String)> = run.log_events("offering_refused").into_iter().flat_map(types).collect();
    assert!(!refused.is_empty());
    for one in run
        .happened("instance", "pending")
        .into_iter()
        .filter(|one| (300.0..480.0).contains(&one["t"].as_f64().unwrap()))
    {
        assert!(!refused.contains(&(text(one, "instanceType"), text(one, "zone"))), "{one}");
    }
}

#[test]
fn the_next_leader_goes_on_where_a_killed_one_stopped() {
    for (scenario, seed) in
        [("leader-killed", "2"), ("leader-killed", "3"), ("leader-killed-later", "2"), ("leader-killed-later", "3")]
    {
        let run = play_kept(&format!("interruption-{scenario}"), &["--seed", seed]);
        assert!(run.log_events("elected").len() >= 2, "{}", run.name);
        run.is_back_in_time();
        run.nodes_went_before_they_were_taken();
    }
}

#[test]
fn a_queue_that_fails_and_says_everything_twice_changes_nothing() {
    for seed in ["3", "4", "5"] {
        let run = play_kept("interruption-faults", &["--seed", seed]);
        run.is_back_in_time();
        run.nodes_went_before_they_were_taken();
        assert_eq!(run.log_events("retreating").len(), run.ends().len(), "{}: each node is drained once", run.name);
    }
}

#[test]
fn invalid_queue_messages_are_ignored_counted_and_deleted() {
    let run = play_kept("interruption-bad-messages", &[]);
    let reasons: BTreeSet<String> =
        run.log_events("messages_ignored").iter().map(|line| text(line, "reason")).collect();
    let expected = ["empty", "late", "malformed", "not_json", "unknown_instance", "unknown_kind"];
    assert_eq!(reasons, expected.map(str::to_owned).into());
    assert_eq!(run.log_events("rebalance_recommended").len(), 1);
    assert_eq!(
        (run.log_events("interrupted").len(), run.log_events("retreating").len()),
        (0, 0),
        "nothing is done to any node"
    );
    assert_eq!(run.report["terminated"], 0);
    assert_eq!(run.ready_at(480.0), PODS);
    let received = |event: &&Value| event["action"] == "ReceiveMessage" && event["t"].as_f64().unwrap() > 365.0;
    for event in run.events.iter().filter(received) {
        assert!(event["result"]["messages"].as_array().is_none_or(Vec::is_empty), "it came again: {event}");
    }
}

#[test]
fn missing_queue_is_told_of_once_and_nothing_else_suffers() {
    let run = play_kept("interruption-no-queue", &[]);
    let about = |line: &&&Value| text(line, "what").contains("interruption queue absent");
    assert_eq!(run.log_events("retrying").iter().filter(about).count(), 1);
    let asked: Vec<f64> = run
        .events
        .iter()
        .filter(|event| event["action"] == "GetQueueUrl")
        .map(|event| event["t"].as_f64().unwrap())
        .collect();
    assert!(asked.len() > 20, "asked {} times", asked.len());
    assert!(asked.windows(2).all(|pair| pair[1] - pair[0] > 0.4), "with pauses: {asked:?}");
    assert!(run.log_events("interrupted").is_empty());
    assert!(!run.happened("pod", "lost").is_empty(), "the warning is not heard");
    assert_eq!(run.ready_at(900.0), PODS, "and the pods come back when their nodes are gone");
}

#[test]
fn scheduled_change_and_instance_stop_drain_only_their_nodes() {
    let run = play_kept("interruption-scheduled", &[]);
    let kinds: Vec<String> = run.log_events("interrupted").iter().map(|line| text(line, "reason")).collect();
    assert_eq!(kinds, ["scheduled_change", "instance_stopped"]);
    assert_eq!(run.log_events("retreating").len(), 2);
    assert_eq!(run.report["terminated"], 2);
    assert_eq!(run.ready_at(840.0), PODS);
}

#[test]
fn a_way_to_interrupt_that_there_is_not_is_bad_input() {
    let scenario = root().join("tests/simulation/scenarios/interruption.yaml");
    let output = dovetail(&["simulate", arg(&scenario), "--interruption=later"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("replace") && stderr(&output).contains("evict"), "{}", stderr(&output));
    let path = common::write("interruption-setting.yaml", "settings: {INTERRUPTION: later}\n");
    let output = dovetail(&["simulate", &path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("INTERRUPTION") && stderr(&output).contains("replace, evict"),
        "{}",
        stderr(&output)
    );
}
