//! `simulate` on the posts' scenarios: the report by the contract, checked against the events by an audit that does not
//! know the engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{arg, dovetail, json, python, root, scratch, stderr, stdout};
use serde_json::Value;

/// The report of a scenario, after the audit has agreed with it.
fn simulate(name: &str, status: i32, more: &[&str]) -> Value {
    played(name, status, more).0
}

/// The same, with the file of the events that it tells of.
fn played(name: &str, status: i32, more: &[&str]) -> (Value, PathBuf) {
    let scenario = root().join(format!("tests/simulation/scenarios/{name}.yaml"));
    // Two tests may play the same scenario at the same time.
    static PLAYED: AtomicU32 = AtomicU32::new(0);
    let nth = PLAYED.fetch_add(1, Ordering::Relaxed);
    let events = scratch(&format!("{name}-{nth}.jsonl"));
    let mut args = vec!["simulate", arg(&scenario), "--json", "--events", arg(&events)];
    args.extend(more);
    let output = dovetail(&args);
    let report = json(&output, status);
    let saved = scratch(&format!("{name}-{nth}.report.json"));
    std::fs::write(&saved, &output.stdout).unwrap();
    let audit = python(&["tests/simulation/audit.py", arg(&events), arg(&saved)]);
    assert!(audit.status.success(), "{name}: {}{}", stdout(&audit), stderr(&audit));
    (report, events)
}

fn violations(report: &Value) -> usize {
    report["invariants"]["violations"].as_array().unwrap().len()
}

fn first<'a>(report: &'a Value, event: &str) -> &'a Value {
    let timeline = report["timeline"].as_array().unwrap();
    timeline.iter().find(|line| line["event"] == event).unwrap_or_else(|| panic!("no {event} in the timeline"))
}

#[test]
fn the_three_workloads_of_100_vcpus_are_bound() {
    for (name, pods) in [("003-inflate-400", 400), ("003-inflate-100", 100), ("003-inflate-10", 10)] {
        let report = simulate(name, 0, &[]);
        assert_eq!(report["pods"]["total"], pods, "{name}");
        assert_eq!(report["pods"]["bound"], pods, "{name}");
        assert_eq!(violations(&report), 0, "{name}");
        let nodes = report["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), usize::try_from(report["launched"].as_u64().unwrap()).unwrap(), "{name}");
        assert!(nodes.iter().all(|node| node["capacityType"] == "spot" && node["beforehand"] == false), "{name}");
    }
}

/// 003's table against Cluster Autoscaler, with a control plane that packs its way.
#[test]
fn node_groups_grow_as_the_post_tells_of_cluster_autoscaler() {
    let report = simulate("node-groups-400", 0, &[]);
    assert_eq!((&report["pods"]["bound"], report["nodes"].as_array().unwrap().len()), (&400.into(), 27));
    let report = simulate("node-groups-100", 0, &[]);
    assert_eq!((&report["pods"]["bound"], report["nodes"].as_array().unwrap().len()), (&100.into(), 34));
    let kinds = ["m5.xlarge", "m5d.xlarge", "m5a.xlarge", "m5n.xlarge"];
    for node in report["nodes"].as_array().unwrap() {
        assert!(kinds.contains(&node["instanceType"].as_str().unwrap()) && node["capacityType"] == "spot", "{node}");
    }
    let report = simulate("node-groups-10", 1, &[]);
    assert_eq!((&report["pods"]["bound"], &report["launched"]), (&0.into(), &0.into()));
    let reason = report["pods"]["pending"].as_object().unwrap().values().next().unwrap().as_str().unwrap();
    assert!(reason.contains("a node of the group has 3.92 CPU for certain"), "{reason}");
}

/// A node class that selects capacity reservations: what is reserved comes first, and no instance of it twice.
#[test]
fn reserved_instances_are_used_up_first_and_never_asked_twice() {
    let (report, events) = played("reserved", 0, &[]);
    assert_eq!((&report["pods"]["bound"], violations(&report)), (&20.into(), 0));
    let nodes = report["nodes"].as_array().unwrap();
    let (reserved, bought): (Vec<&Value>, Vec<&Value>) =
        nodes.iter().partition(|node| node["capacityType"] == "reserved");
    assert_eq!(reserved.len(), 2);
    for node in reserved {
        let labels = &node["labels"];
        assert_eq!((&node["instanceType"], &node["zone"]), (&"c5.xlarge".into(), &"us-east-1b".into()));
        assert_eq!(labels["karpenter.sh/capacity-type"], "reserved");
        assert_eq!(labels["karpenter.k8s.aws/capacity-reservation-id"], "cr-0a");
    }
    assert!(!bought.is_empty());
    for node in bought {
        assert_eq!(node["labels"]["karpenter.sh/capacity-type"], "on-demand");
        assert_eq!(node["labels"].get("karpenter.k8s.aws/capacity-reservation-id"), None);
    }
    let events = std::fs::read_to_string(events).unwrap();
    assert!(!events.contains("ReservationCapacityExceeded"), "more was asked for than there is");
    let ready = events.lines().any(|line| line.contains("CapacityReservationsReady") && line.contains("cr-0a"));
    assert!(ready, "the class says which reservations it has");
}

/// Pods of a ReplicaSet that state nothing, with `SCHEDULER_CONFIG` and without.
#[test]
fn default_spread_constraints_bring_nodes_in_every_zone() {
    let zones = |report: &Value| {
        let nodes = report["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["zone"].as_str().unwrap().to_owned()).collect::<std::collections::BTreeSet<_>>().len()
    };
    let report = simulate("default-spread", 0, &[]);
    assert_eq!((&report["pods"]["bound"], violations(&report), zones(&report)), (&12.into(), 0, 3));
    let report = simulate("web", 0, &[]);
    assert!(zones(&report) < 3, "without the setting nothing asks for three zones");
}

#[test]
fn the_story_is_the_posts() {
    let report = simulate("003-inflate-400", 0, &[]);
    let order = ["batched", "packing_computed", "nodeclaim_created", "launched", "registered", "initialized", "bound"];
    let times: Vec<f64> = order.iter().map(|event| first(&report, event)["t"].as_f64().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{order:?} at {times:?}");
    let launched = first(&report, "launched");
    for field in ["instance", "instance_type", "zone", "capacity_type", "hostname"] {
        assert!(launched[field].is_string(), "{field} of {launched}");
    }
}

#[test]
fn a_node_that_is_there_is_filled_first() {
    let report = simulate("000-existing-node-first", 0, &[]);
    assert_eq!(report["pods"]["bound"], 10);
    let nodes = report["nodes"].as_array().unwrap();
    let old = nodes.iter().find(|node| node["beforehand"] == true).unwrap();
    assert_eq!(old["pods"], 1, "an m5.large holds one pod of one CPU beside what the kubelet keeps");
    for node in nodes.iter().filter(|node| node["beforehand"] == false) {
        assert!(["m5.large", "m5.2xlarge"].contains(&node["instanceType"].as_str().unwrap()));
    }
}

#[test]
fn a_constrained_pool_keeps_its_word() {
    let report = simulate("003-constrained", 0, &[]);
    assert_eq!(report["pods"]["bound"], 6);
    for node in report["nodes"].as_array().unwrap() {
        assert!(["m5.large", "m5.2xlarge"].contains(&node["instanceType"].as_str().unwrap()));
        assert!(["us-west-2a", "us-west-2b"].contains(&node["zone"].as_str().unwrap()));
        assert_eq!(node["labels"]["billing-team"], "my-team");
    }
}

#[test]
fn the_pod_that_fits_neither_pool_is_named_with_its_reason() {
    let report = simulate("003-two-pools", 1, &[]);
    assert_eq!(report["pods"]["bound"], 2);
    let reason = report["pods"]["pending"]["default/web-on-spot"].as_str().expect("the third pod is pending");
    assert!(reason.contains("on-demand-only") && reason.contains("spot-only"), "{reason}");
}

/// The nodes that a run has made, and those of them and of the others that hold a pod.
fn nodes_of(report: &Value) -> (Vec<&Value>, Vec<&Value>) {
    let nodes = report["nodes"].as_array().unwrap().iter();
    let new = nodes.clone().filter(|node| node["beforehand"] == false).collect();
    (new, nodes.filter(|node| node["pods"] != 0).collect())
}

#[test]
fn required_zone_affinity_lands_pods_on_existing_nodes_first() {
    let report = simulate("001-affinity", 0, &[]);
    assert_eq!(report["pods"]["bound"], 8);
    let (new, used) = nodes_of(&report);
    let zones: std::collections::BTreeSet<&str> = used.iter().map(|node| node["zone"].as_str().unwrap()).collect();
    assert_eq!(zones.len(), 1, "{zones:?}");
    assert!((1..=2).contains(&new.len()), "{} new nodes, whichever are the cheapest", new.len());
    assert_eq!(used.len() - new.len(), 3, "the three nodes of that zone are used");
}

#[test]
fn preferred_anti_affinity_opens_at_most_one_new_node() {
    let report = simulate("001-anti-affinity", 0, &[]);
    assert_eq!(report["pods"]["bound"], 8);
    let (new, used) = nodes_of(&report);
    assert!(new.len() <= 1, "{} new nodes", new.len());
    assert_eq!(used.len() - new.len(), 6, "all six nodes that are there are used");
}

#[test]
fn stateful_set_stays_in_its_volumes_zone_on_few_nodes() {
    let report = simulate("001-stateful", 0, &[]);
    assert_eq!(report["pods"]["bound"], 20);
    let (new, used) = nodes_of(&report);
    assert!(used.iter().all(|node| node["zone"] == "eu-west-1a"), "in other zones too");
    // One after the other they cost the post four new nodes; the ordinals to come count when the first is chosen.
    assert!((1..=2).contains(&new.len()), "{}", new.len());
}

#[test]
fn a_spread_of_thirty_over_hosts_gives_about_fifteen_nodes() {
    let report = simulate("003-spread", 0, &[]);
    assert_eq!(report["pods"]["bound"], 400);
    let (new, _) = nodes_of(&report);
    assert!((13..=17).contains(&new.len()), "{}", new.len());
    // The plan gives each node at most thirty pods: which of them gets one pod more is kube-scheduler's choice, as they come one
    // by one.
    let timeline = report["timeline"].as_array().unwrap().iter();
    let packings: Vec<&Value> = timeline.filter(|line| line["event"] == "packing_computed").collect();
    assert!(!packings.is_empty());
    for packing in packings {
        let (pods, nodes) = (packing["pods"].as_u64().unwrap(), packing["nodes"].as_u64().unwrap());
        assert!(pods <= 30 * nodes, "{pods} pods on {nodes} nodes");
    }
}

#[test]
fn faults_delay_but_nothing_is_lost_or_launched_twice() {
    for seed in ["7", "8", "9", "10", "11"] {
        let report = simulate("faults", 0, &["--seed", seed]);
        assert_eq!(report["pods"]["bound"], 400, "seed {seed}");
        assert_eq!(violations(&report), 0, "seed {seed}");
    }
}

/// Launches for more pods than came would be launches for the same pods again.
fn all_run_and_nothing_is_launched_twice(name: &str) -> (Value, PathBuf) {
    let (report, events) = played(name, 0, &[]);
    assert_eq!((&report["pods"]["bound"], violations(&report)), (&report["pods"]["total"], 0), "{name}");
    (report, events)
}

fn lines(events: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(events).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// kube-scheduler puts pods elsewhere than they are planned: a line counts what its node got.
#[test]
fn the_lines_of_what_is_bound_come_to_what_each_node_got() {
    for name in ["003-spread", "web", "default-spread", "ttl"] {
        let (report, events) = played(name, 0, &[]);
        let (mut said, mut were) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
        for line in report["timeline"].as_array().unwrap().iter().filter(|line| line["event"] == "bound") {
            *said.entry(line["node"].to_string()).or_default() += line["pods"].as_u64().unwrap();
        }
        let lines = lines(&events);
        let of_a_daemon = |pod: &Value| pod["owner"].as_str().is_some_and(|owner| owner.starts_with("DaemonSet/"));
        for pod in lines.iter().filter(|line| line["change"] == "bound" && !of_a_daemon(line)) {
            *were.entry(pod["node"].to_string()).or_default() += 1;
        }
        assert_eq!(said, were, "{name}");
    }
}

#[test]
fn an_api_server_that_restarts_delays_and_loses_nothing() {
    let (_, events) = all_run_and_nothing_is_launched_twice("api-restart");
    let down = |t: f64| (2.0..10.0).contains(&t) || (242.0..282.0).contains(&t);
    let written = lines(&events).into_iter().filter(|line| line["kind"] == "api" && line["code"].as_u64() < Some(300));
    for line in written.filter(|line| !line["replica"].is_null()) {
        assert!(!down(line["t"].as_f64().unwrap()), "written while nobody listened: {line}");
    }
}

#[test]
fn restored_api_server_loses_no_pod_and_leaves_no_instance() {
    let (_, events) = all_run_and_nothing_is_launched_twice("api-restore");
    let lines = lines(&events);
    let of = |verb: &str| lines.iter().filter(|line| line["kind"] == "api" && line["verb"] == verb).count();
    assert!(of("lose") > 0 && of("restore") > 0, "{} lost, {} restored", of("lose"), of("restore"));
}

#[test]
fn watches_that_tell_late_launch_nothing_again() {
    let (report, _) = all_run_and_nothing_is_launched_twice("slow-watches");
    let (launched, terminated) = (report["launched"].as_u64().unwrap(), report["terminated"].as_u64().unwrap());
    assert_eq!(terminated, 0, "{launched} launched");
}

/// Codes of the API server's answers to the first leader's creations that were held until nobody heard the answer.
fn codes_of_late_claims(events: &PathBuf) -> Vec<Value> {
    let late = |line: &&Value| {
        line["resource"] == "nodeclaims"
            && line["verb"] == "create"
            && line["replica"] == 0
            && line["answerLost"] == true
    };
    lines(events).iter().filter(late).map(|line| line["code"].clone()).collect()
}

#[test]
fn claims_arriving_when_another_leads_are_refused_and_pods_run() {
    let (_, events) = all_run_and_nothing_is_launched_twice("held-writes");
    let codes = codes_of_late_claims(&events);
    assert!(codes.len() > 3 && codes.iter().all(|code| code == 403), "{codes:?}");
}

#[test]
fn unneeded_claims_arriving_without_a_lease_are_taken_back() {
    let (report, events) = all_run_and_nothing_is_launched_twice("late-claims");
    let codes = codes_of_late_claims(&events);
    assert!(codes.len() == 3 && codes.iter().all(|code| code == 201), "{codes:?}");
    assert_eq!(report["launched"], 4, "one, and three for the pods that came");
}

#[test]
fn claim_of_unanswered_creation_is_taken_back_and_its_pods_run() {
    let (report, events) = all_run_and_nothing_is_launched_twice("created-unheard");
    let taken_back = |line: &&Value| line["event"] == "nodeclaim_deleted" && line["reason"] == "created_late";
    assert_eq!(report["timeline"].as_array().unwrap().iter().filter(taken_back).count(), 1);
    let at = |change: &str, kind: &str| {
        let of = |line: &&Value| line["kind"] == kind && line["change"] == change;
        lines(&events).iter().filter(of).map(|line| line["t"].as_f64().unwrap()).fold(0.0, f64::max)
    };
    assert!(at("bound", "pod") < at("created", "pod") + 120.0);
}

#[test]
fn queued_launches_are_dropped_for_pods_that_have_gone() {
    let (report, _) = all_run_and_nothing_is_launched_twice("stale-orders");
    assert_eq!(report["launched"], 21, "one, and the twenty that had begun of thirty");
}

#[test]
fn a_node_that_its_claim_does_not_tell_of_yet_is_drained() {
    all_run_and_nothing_is_launched_twice("let-in-not-registered");
}

#[test]
fn time_outs_that_did_happen_launch_nothing_again() {
    let (_, events) = all_run_and_nothing_is_launched_twice("time-outs");
    let lines = lines(&events);
    let lost = |line: &&Value| line["answerLost"] == true || line["what"] == "answerLost";
    let swallowed = lines.iter().filter(|line| line["what"] == "answerSwallowed").count();
    assert!(lines.iter().filter(lost).count() > 5 && swallowed > 0);
}

#[test]
fn what_is_not_listed_yet_is_not_launched_again() {
    let (report, _) = all_run_and_nothing_is_launched_twice("consistency-lag");
    assert_eq!(report["terminated"], 0, "{} launched", report["launched"]);
}

#[test]
fn one_seed_in_two_processes_gives_identical_event_bytes() {
    let logs = ["a", "b"].map(|run| {
        let events = scratch(&format!("twice-{run}.jsonl"));
        let output =
            dovetail(&["simulate", "tests/simulation/scenarios/faults.yaml", "--json", "--events", arg(&events)]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        (std::fs::read(events).unwrap(), output.stdout)
    });
    assert!(logs[0].0.len() > 10_000, "the log has something in it");
    assert!(logs[0] == logs[1], "two runs of one seed differ");
}

#[test]
fn a_report_that_lies_is_caught() {
    let (report, events) = played("003-inflate-10", 0, &[]);
    let lies: [(&str, fn(&mut Value)); 4] = [
        ("bound", |report| report["pods"]["bound"] = 9.into()),
        ("launched", |report| report["launched"] = 99.into()),
        ("cost", |report| report["costTotal"] = 0.into()),
        ("node", |report| report["nodes"][0]["zone"] = "eu-west-1z".into()),
    ];
    for (name, lie) in lies {
        let mut lying = report.clone();
        lie(&mut lying);
        let path = common::write(&format!("lie-{name}.json"), &lying.to_string());
        let audit = python(&["tests/simulation/audit.py", arg(&events), &path]);
        assert_eq!(audit.status.code(), Some(1), "{name}: {}", stdout(&audit));
    }
}
