//! The traces of simulations: one trace has one course, from a pod that waits until it is bound, from an announcement or a
//! decision until the instance is gone, also when the leader is killed in between.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use crate::played;
use std::collections::BTreeSet;

use common::spans::{Traces, the_way_up};
use common::{arg, dovetail, scratch, stderr, write};

/// Plays a scenario over manifests and reads its traces.
fn traced(name: &str, manifests: &str, scenario: &str) -> Traces {
    let text = std::fs::read_to_string(played_to_file(name, manifests, scenario)).unwrap();
    Traces::of_otlp(&serde_json::from_str(&text).unwrap())
}

fn played_to_file(name: &str, manifests: &str, scenario: &str) -> std::path::PathBuf {
    write(&format!("traces-{name}/workload.yaml"), manifests);
    let text = format!("region: ca-west-1\nseed: 1\napply: [workload.yaml]\n{scenario}");
    let path = write(&format!("traces-{name}/scenario.yaml"), &text);
    let traces = scratch(&format!("traces-{name}.json"));
    let output = dovetail(&["simulate", &path, "--json", "--traces", arg(&traces)]);
    assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
    traces
}

#[test]
fn pod_name_finds_one_trace_of_its_way_from_waiting_to_bound() {
    let all = traced("way", &played::manifests(5), "until: 5m\n");
    let pods: BTreeSet<&str> = all.named("pod").iter().map(|span| span.has("k8s.pod.name")).collect();
    assert_eq!(pods.len(), 5);
    for pod in all.named("pod") {
        let trace = all.whole(pod);
        the_way_up(&trace);
        trace.lies_in("batch", "pod");
        trace.lies_in("pack", "batch");
        assert_eq!(trace.parents("pod"), BTreeSet::from(["", "nodeclaim"]));
        for (name, count) in [("pod", 5), ("nodeclaim", 5), ("CreateFleet", 5), ("initialize", 5), ("batch", 1)] {
            assert_eq!(trace.named(name).len(), count, "{name}");
        }
        let claim =
            trace.named("nodeclaim").into_iter().find(|claim| claim.has("k8s.node.name") == pod.has("k8s.node.name"));
        let claim = claim.expect("the claim of the pod's node");
        assert!(claim.has("dovetail.instance.id").starts_with("i-"), "{claim:#?}");
        assert_eq!((claim.has("dovetail.nodepool"), claim.term() > 0), ("default", true));
        assert!(["m5.large", "m6i.large"].contains(&claim.has("dovetail.instance.type")), "{claim:#?}");
        let fleets = trace.named("CreateFleet");
        let fleet = fleets.iter().find(|fleet| fleet.has("dovetail.instance.id") == claim.has("dovetail.instance.id"));
        assert!(fleet.is_some_and(|fleet| fleet.begun < claim.ended && fleet.error.is_empty()), "{fleets:#?}");
    }
}

#[test]
fn every_offering_that_is_refused_is_an_error_inside_its_call() {
    let scenario = "until: 5m\nfaults: {ec2: {insufficientCapacity: ['m5.large/*/*', 'm6i.large/ca-west-1a/*']}}\n";
    let all = traced("refused", &played::manifests(2), scenario);
    let refused = all.named("refused");
    assert!(!refused.is_empty());
    for span in &refused {
        assert!(span.error.contains("InsufficientInstanceCapacity"), "{span:#?}");
        assert_eq!(span.has("dovetail.capacity_type"), "on-demand");
    }
    let trace = all.whole(refused[0]);
    trace.lies_in("refused", "CreateFleet");
    the_way_up(&trace);
}

#[test]
fn what_nobody_can_place_is_an_error_with_its_reason() {
    let huge = played::manifests(1).replace("cpu: 500m", "cpu: 500");
    write("traces-unplaced/workload.yaml", &huge);
    let path =
        write("traces-unplaced/scenario.yaml", "region: ca-west-1\nseed: 1\napply: [workload.yaml]\nuntil: 1m\n");
    let traces = scratch("traces-unplaced.json");
    let output = dovetail(&["simulate", &path, "--json", "--traces", arg(&traces)]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let document = std::fs::read_to_string(&traces).unwrap();
    assert!(document.contains("\"unplaced\"") && document.contains("Unschedulable"), "{document}");
}

#[test]
fn successor_continues_the_trace_of_the_killed_leader() {
    let steps = "replicas: 2\nsteps: [{at: 12s, kill: {replica: leader}}]\nuntil: 5m\n";
    let all = traced("killed", &played::manifests(5), steps);
    let fleet = all.named("CreateFleet")[0];
    let trace = all.whole(fleet);
    the_way_up(&trace);
    let (before, after) = (trace.told_by("CreateFleet"), trace.told_by("initialize"));
    assert_eq!((before.len(), after.len()), (1, 1));
    assert_ne!(before, after, "the one launches, the other brings up");
    assert_eq!(trace.told_by("pod"), after);
    assert_eq!(trace.named("pod").len(), 5);
    assert_eq!(trace.named("initialize")[0].term(), trace.named("CreateFleet")[0].term() + 1);
}

fn on_spot(pods: u32) -> String {
    played::manifests(pods).replace("values: [on-demand]", "values: [spot]")
}

#[test]
fn interruption_to_node_end_is_one_trace_despite_killed_leader() {
    for (name, kill) in [("interrupted", ""), ("interrupted-killed", ", {at: 190s, kill: {replica: leader}}")] {
        let steps = format!("replicas: 2\nsteps: [{{at: 3m, interrupt: {{spot: 100%}}}}{kill}]\nuntil: 12m\n");
        let all = traced(name, &on_spot(1), &steps);
        let interruptions = all.named("interruption");
        assert!(!interruptions.is_empty(), "{name}");
        let trace = all.whole(interruptions[0]);
        the_way_up(&trace);
        trace.lies_in("interruption", "");
        trace.lies_in("pack", "interruption");
        trace.lies_in("await places", "interruption");
        trace.lies_in("removal", "interruption");
        for step in ["drain", "evict", "terminate"] {
            trace.lies_in(step, "removal");
        }
        let (claims, removals) = (trace.named("nodeclaim"), trace.named("removal"));
        assert_ne!(claims[0].has("dovetail.nodeclaim"), removals[0].has("dovetail.nodeclaim"), "the new and the old");
        let other = trace.told_by("interruption") != trace.told_by("removal");
        assert_eq!(other, !kill.is_empty(), "{name}: who tells the end");
    }
}

#[test]
fn a_decision_to_remove_a_node_and_its_end_are_one_trace() {
    let manifests = played::manifests(2).replace("consolidateAfter: Never", "consolidateAfter: 30s");
    let steps =
        "steps: [{at: 3m, scale: {kind: Deployment, name: web, namespace: default, replicas: 0}}]\nuntil: 10m\n";
    let all = traced("empty", &manifests, steps);
    let decisions = all.named("disruption");
    assert_eq!(
        decisions.iter().map(|one| one.has("dovetail.reason")).collect::<BTreeSet<_>>(),
        BTreeSet::from(["empty"])
    );
    let ends: usize = decisions
        .iter()
        .map(|decision| {
            let trace = all.whole(decision);
            trace.lies_in("removal", "disruption");
            trace.lies_in("terminate", "removal");
            trace.named("removal").len()
        })
        .sum();
    assert_eq!(ends, 2);
}

#[test]
fn one_seed_is_the_same_traces_byte_for_byte() {
    let steps = "replicas: 2\nsteps: [{at: 12s, kill: {replica: leader, for: 30s}}, {at: 3m, interrupt: {spot: 50%}}]\nuntil: 8m\n";
    let read = |name: &str| std::fs::read(played_to_file(name, &on_spot(6), steps)).unwrap();
    assert!(read("once") == read("again"));
}

#[test]
fn packing_that_moves_pods_of_several_nodes_links_all_causes() {
    for (name, kill) in [("together", ""), ("together-killed", ", {at: 181s, kill: {replica: leader}}")] {
        let steps = format!("replicas: 2\nsteps: [{{at: 3m, interrupt: {{spot: 100%}}}}{kill}]\nuntil: 12m\n");
        let all = traced(name, &on_spot(3), &steps);
        let announced: BTreeSet<&str> = all.named("interruption").into_iter().map(|span| &*span.trace).collect();
        assert_eq!(announced.len(), 3, "{name}");
        let packings = all.named("pack");
        let moves = packings.iter().filter(|pack| announced.contains(&*pack.trace));
        let last = moves.max_by_key(|pack| pack.begun).expect("one that moves them");
        let led: BTreeSet<&str> = last.links.iter().map(String::as_str).chain([&*last.trace]).collect();
        assert_eq!(led, announced, "{name}");
    }
}
