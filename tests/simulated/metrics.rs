//! Metrics at /metrics after a run, held against what the run implies; and what an operator loads, held against /metrics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use crate::played;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::OnceLock;

use common::{arg, dovetail, python, root, scratch, stderr, stdout, write};
use serde_json::Value;

type Labels = BTreeMap<String, String>;

/// Metrics of a run: its samples by name, and its report.
struct Shown {
    samples: BTreeMap<String, Vec<(Labels, f64)>>,
    types: BTreeMap<String, String>,
    report: Value,
    /// The Lease's, as it was written last.
    term: f64,
}

/// Six pods on spot nodes of their own. Before, a pool that weighs more and gets nothing; then two nodes are taken back, and
/// in the end nobody wants a pod any more.
fn shown() -> &'static Shown {
    static SHOWN: OnceLock<Shown> = OnceLock::new();
    SHOWN.get_or_init(|| {
        let base = played::manifests(6)
            .replace("values: [on-demand]", "values: [spot]")
            .replace("consolidateAfter: Never", "consolidateAfter: 30s")
            .replace("  template:\n    spec:\n      expireAfter", "  limits: {cpu: 100}\n  template:\n    spec:\n      expireAfter");
        let pool = base.split("---\n").nth(1).unwrap();
        let refused = pool
            .replace("metadata: {name: default}", "metadata: {name: refused}")
            .replace("spec:\n  limits", "spec:\n  weight: 10\n  limits")
            .replacen("spec:\n  disruption", "spec:\n  weight: 10\n  disruption", 1)
            .replace("[m5.large, m6i.large]", "[c5.large]");
        let daemon = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent, namespace: default}\nspec:\n  selector: {matchLabels: {app: agent}}\n  template:\n    metadata: {labels: {app: agent}}\n    spec: {containers: [{name: main, image: pause, resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {memory: 64Mi}}}]}\n";
        let huge = "apiVersion: v1\nkind: Pod\nmetadata: {name: huge, namespace: default}\nspec:\n  containers: [{name: main, image: pause, resources: {requests: {cpu: 500}}}]\n";
        write("metrics/workload.yaml", &format!("{base}---\n{refused}---\n{daemon}---\n{huge}"));
        let scenario = "region: ca-west-1\nseed: 1\napply: [workload.yaml]\nsettings: {PACKING_COMPARISON_INTERVAL: 1m}\nfaults: {ec2: {insufficientCapacity: ['c5.large/*/*']}}\nsteps:\n  - {at: 4m, interrupt: {spot: 33%}}\n  - {at: 9m, scale: {kind: Deployment, name: web, namespace: default, replicas: 2}}\nuntil: 15m\n";
        let path = write("metrics/scenario.yaml", scenario);
        let (metrics, events) = (scratch("metrics.txt"), scratch("metrics.jsonl"));
        let output = dovetail(&["simulate", &path, "--json", "--metrics", arg(&metrics), "--events", arg(&events)]);
        // One pod fits nowhere.
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let text = std::fs::read_to_string(&metrics).unwrap();
        let (samples, types) = parse(&text);
        let events = std::fs::read_to_string(&events).unwrap();
        let lease = events.lines().rfind(|line| line.contains("\"resource\":\"leases\"")).unwrap();
        let lease: Value = serde_json::from_str(lease).unwrap();
        let term = lease["sent"]["spec"]["leaseTransitions"].as_f64().unwrap();
        Shown { samples, types, report: serde_json::from_slice(&output.stdout).unwrap(), term }
    })
}

fn parse(text: &str) -> (BTreeMap<String, Vec<(Labels, f64)>>, BTreeMap<String, String>) {
    let (mut samples, mut types) = (BTreeMap::<String, Vec<_>>::new(), BTreeMap::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} is there twice");
        }
        if line.starts_with('#') {
            continue;
        }
        // An exemplar stands behind.
        let line = line.split(" # {").next().unwrap();
        let (head, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = head.split_once('{').unwrap_or((head, ""));
        let labels = labels.strip_suffix('}').unwrap_or(labels);
        let labels = labels.split("\",").filter(|one| !one.is_empty()).map(|one| {
            let (key, value) = one.split_once("=\"").unwrap();
            (key.to_owned(), value.trim_end_matches('"').to_owned())
        });
        samples.entry(name.to_owned()).or_default().push((labels.collect(), value.parse().unwrap()));
    }
    (samples, types)
}

impl Shown {
    /// The sum of all series of a metric with these labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let all = self.samples.get(name).unwrap_or_else(|| panic!("{name} is not there"));
        let fits = |own: &Labels| labels.iter().all(|(key, value)| own.get(*key).is_some_and(|own| own == value));
        let found: Vec<f64> = all.iter().filter(|(own, _)| fits(own)).map(|(_, value)| *value).collect();
        assert!(!found.is_empty(), "{name} has no series with {labels:?}");
        found.iter().sum()
    }

    fn count(&self, what: &str) -> f64 {
        self.report[what].as_f64().unwrap()
    }
}

#[test]
#[allow(clippy::too_many_lines)] // one table, or one course from beginning to end
fn every_core_metric_has_the_value_that_the_run_implies() {
    let shown = shown();
    let nodes = shown.report["nodes"].as_array().unwrap();
    let (launched, terminated, left) = (shown.count("launched"), shown.count("terminated"), nodes.len() as f64);
    let cost: f64 = nodes.iter().map(|node| node["pricePerHour"].as_f64().unwrap()).sum();
    assert_eq!((launched - terminated, left), (2.0, 2.0), "the run itself");
    let refused = shown.sum("karpenter_cloudprovider_errors_total", &[("error", "InsufficientCapacityError")]);
    assert!(refused >= 1.0);
    let equal: &[(&str, &[(&str, &str)], f64)] = &[
        ("karpenter_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0),
        ("karpenter_nodeclaims_created_total", &[("reason", "provisioned"), ("nodepool", "default")], launched),
        ("karpenter_nodeclaims_created_total", &[("nodepool", "refused"), ("min_values_relaxed", "false")], refused),
        ("karpenter_nodeclaims_terminated_total", &[("nodepool", "default"), ("capacity_type", "spot")], terminated),
        (
            "karpenter_nodeclaims_disrupted_total",
            &[("nodepool", "default"), ("termination_mode", "graceful")],
            terminated,
        ),
        (
            "karpenter_pods_disruption_initiated_total",
            &[("nodepool", "default"), ("termination_mode", "graceful"), ("consolidation_policy", "when_empty")],
            0.0,
        ),
        (
            "karpenter_nodeclaims_disrupted_total",
            &[("reason", "empty"), ("consolidation_policy", "when_empty")],
            terminated - 2.0,
        ),
        (
            "karpenter_nodeclaims_disrupted_total",
            &[("reason", "spot_interrupted"), ("consolidation_policy", "none")],
            2.0,
        ),
        ("karpenter_nodepools_nodes_consuming_budgets", &[("nodepool", "default"), ("reason", "empty")], 0.0),
        ("karpenter_nodes_created_total", &[("nodepool", "default")], launched),
        ("karpenter_nodes_terminated_total", &[("nodepool", "default")], terminated),
        ("karpenter_nodes_allocatable", &[("resource_type", "pods"), ("capacity_type", "spot")], 29.0 * left),
        ("karpenter_nodes_total_pod_requests", &[("resource_type", "cpu")], 0.5 * left),
        ("karpenter_nodes_total_pod_requests", &[("resource_type", "pods")], left),
        ("karpenter_nodes_total_daemon_requests", &[("resource_type", "cpu")], 0.05 * left),
        ("karpenter_nodepools_limit", &[("resource_type", "cpu"), ("nodepool", "default")], 100.0),
        ("karpenter_nodepools_usage", &[("resource_type", "cpu"), ("nodepool", "default")], 2.0 * left),
        ("karpenter_nodepools_usage", &[("resource_type", "nodes"), ("nodepool", "default")], left),
        ("karpenter_nodepools_usage", &[("resource_type", "nodes"), ("nodepool", "refused")], 0.0),
        ("karpenter_nodepools_allowed_disruptions", &[("nodepool", "default"), ("reason", "empty")], 1.0),
        ("karpenter_nodepools_allowed_disruptions", &[("nodepool", "default"), ("reason", "unhealthy")], 1.0),
        ("karpenter_pods_state", &[("phase", "Running"), ("scheduled", "true"), ("nodepool", "default")], 2.0 * left),
        ("karpenter_pods_state", &[("name", "huge"), ("phase", "Pending"), ("scheduled", "false")], 1.0),
        ("karpenter_scheduler_unschedulable_pods_count", &[("controller", "provisioner")], 1.0),
        ("karpenter_scheduler_queue_depth", &[("controller", "provisioner")], 1.0),
        ("karpenter_cluster_state_synced", &[], 1.0),
        ("karpenter_cluster_state_node_count", &[], left),
        ("karpenter_voluntary_disruption_eligible_nodes", &[("reason", "empty")], 0.0),
        ("karpenter_interruption_received_messages_total", &[("message_type", "spot_interrupted")], 2.0),
        ("dovetail_leader", &[], 1.0),
        ("dovetail_term", &[], shown.term),
        ("dovetail_nodes", &[("nodepool", "default"), ("capacity_type", "spot")], left),
        ("dovetail_events_total", &[("event", "launched")], launched),
    ];
    for (name, labels, expected) in equal {
        let value = shown.sum(name, labels);
        assert!((value - expected).abs() < 1e-9, "{name}{labels:?} is {value}, the run implies {expected}");
    }
    for name in ["dovetail_cost_dollars_per_hour", "karpenter_nodepools_cost_total"] {
        let value = shown.sum(name, &[]);
        assert!((value - cost).abs() < 1e-4, "{name} is {value}, the nodes cost {cost}");
    }
    assert!(shown.sum("dovetail_cost_on_demand_dollars_per_hour", &[]) > cost, "spot is cheaper");
    let of_policy = |policy| shown.sum("dovetail_packing_compared_dollars_per_hour_total", &[("policy", policy)]);
    // Each pod needs a node of its own: both policies come to as many, and to the cheapest type.
    assert!(of_policy("cost") > 0.0 && of_policy("cost") <= of_policy("fewest-nodes") + 1e-9);
    let least: &[(&str, &[(&str, &str)], f64)] = &[
        ("karpenter_pods_startup_duration_seconds_count", &[], 8.0),
        ("karpenter_pods_startup_duration_seconds", &[("quantile", "0.9")], 20.0),
        ("karpenter_pods_bound_duration_seconds_count", &[], 6.0),
        ("karpenter_scheduler_scheduling_duration_seconds_count", &[("controller", "provisioner")], 2.0),
        ("karpenter_voluntary_disruption_decisions_total", &[("decision", "delete"), ("reason", "empty")], 1.0),
        ("karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count", &[], 10.0),
        (
            "karpenter_cloudprovider_duration_seconds_count",
            &[("method", "Create"), ("controller", "launcher")],
            launched,
        ),
        ("karpenter_cloudprovider_instance_launch_failures_total", &[("reason", "InsufficientInstanceCapacity")], 1.0),
        ("karpenter_nodes_system_overhead", &[("resource_type", "memory")], 1.0),
        ("karpenter_nodes_termination_duration_seconds_count", &[("nodepool", "default")], terminated),
        ("karpenter_interruption_deleted_messages_total", &[], 2.0),
        ("karpenter_pods_eviction_requests_total", &[("code", "201")], 2.0),
        ("dovetail_kubernetes_events_total", &[("reason", "Nominated"), ("outcome", "written")], 6.0),
        ("dovetail_actor_answer_seconds_count", &[("actor", "packer")], 10.0),
    ];
    for (name, labels, expected) in least {
        let value = shown.sum(name, labels);
        assert!(value >= *expected, "{name}{labels:?} is {value}, the run implies {expected} at least");
    }
}

#[test]
fn series_of_each_object_are_left_out_above_the_bound() {
    write("objects/workload.yaml", &played::manifests(3));
    let shown = |most: u32| {
        let settings = format!("settings: {{OBJECT_METRICS_MAX_NODES: '{most}'}}");
        let scenario = format!("region: ca-west-1\nseed: 1\napply: [workload.yaml]\n{settings}\nuntil: 3m\n");
        let path = write(&format!("objects/{most}.yaml"), &scenario);
        let metrics = scratch(&format!("objects-{most}.txt"));
        let output = dovetail(&["simulate", &path, "--json", "--metrics", arg(&metrics)]);
        assert!(output.status.success(), "{}", stderr(&output));
        let (samples, _) = parse(&std::fs::read_to_string(&metrics).unwrap());
        let count = |name: &str| samples.get(name).map_or(0, Vec::len);
        let of_objects = ["karpenter_nodes_allocatable", "karpenter_pods_state"].map(|name| count(name) > 0);
        (of_objects, samples["dovetail_object_metrics"][0].1, count("karpenter_cluster_utilization_percent"))
    };
    assert_eq!(shown(3), ([true, true], 1.0, 2));
    assert_eq!(shown(2), ([false, false], 0.0, 2));
}

#[test]
fn types_are_those_of_the_specification() {
    let types = &shown().types;
    for (name, kind) in [
        ("karpenter_build_info", "gauge"),
        ("karpenter_nodeclaims_created", "counter"),
        ("karpenter_nodes_allocatable", "gauge"),
        ("karpenter_pods_state", "gauge"),
        ("karpenter_pods_startup_duration_seconds", "summary"),
        ("karpenter_nodes_termination_duration_seconds", "summary"),
        ("karpenter_scheduler_scheduling_duration_seconds", "histogram"),
        ("karpenter_cloudprovider_duration_seconds", "histogram"),
        ("karpenter_voluntary_disruption_decisions", "counter"),
        ("karpenter_nodepools_cost_total", "gauge"),
    ] {
        assert_eq!(types.get(name).map(String::as_str), Some(kind), "{name}");
    }
}

/// An expression's names, each with the labels that are asked of it, and the labels of its groups.
fn names_of(expression: &str) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let (mut names, mut groups) = (Vec::new(), Vec::new());
    let mut rest = expression;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_alphabetic() || letter == '_') {
        rest = &rest[at..];
        let end = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        rest = after;
        let labels = |list: &str| -> Vec<String> {
            list.split(',').filter_map(|one| Some(one.split(['=', '!']).next()?.trim().to_owned())).collect()
        };
        if ["by", "without"].contains(&name) {
            let list = after.trim_start().strip_prefix('(').unwrap().split(')').next().unwrap();
            groups.extend(labels(list));
            rest = &after[after.find(')').unwrap()..];
        } else if ["karpenter_", "dovetail", "process_"].iter().any(|prefix| name.starts_with(prefix)) {
            let asked = after.strip_prefix('{').map(|list| list.split('}').next().unwrap());
            names.push((name.to_owned(), asked.map(labels).unwrap_or_default()));
            if asked.is_some() {
                rest = &after[after.find('}').unwrap()..];
            }
        } else if let Some(quoted) = after.strip_prefix('"') {
            rest = &quoted[quoted.find('"').map_or(quoted.len(), |end| end + 1)..];
        }
    }
    (names, groups)
}

/// Labels that Prometheus adds to what it scrapes, and those of histograms and summaries.
const ADDED: [&str; 6] = ["cluster", "pod", "job", "instance", "le", "quantile"];

fn holds(place: &str, expression: &str, recorded: &BTreeSet<String>) {
    let shown = shown();
    let (names, groups) = names_of(expression);
    assert!(!names.is_empty(), "{place}: {expression} names no metric");
    let mut known: BTreeSet<&str> = ADDED.into_iter().collect();
    for (name, labels) in &names {
        if recorded.contains(name) {
            continue;
        }
        let series = shown.samples.get(name).unwrap_or_else(|| panic!("{place}: there is no {name}"));
        let own: BTreeSet<&str> = series.iter().flat_map(|(labels, _)| labels.keys().map(String::as_str)).collect();
        for label in labels {
            let there = own.contains(label.as_str()) || ADDED.contains(&label.as_str());
            assert!(there, "{place}: {name} has no label {label}, but {own:?}");
        }
        known.extend(own);
    }
    for label in groups {
        assert!(known.contains(label.as_str()), "{place}: no metric of {expression} has a label {label}");
    }
}

fn rules() -> Vec<Value> {
    let text = std::fs::read_to_string(root().join("observability/prometheus/rules.yaml")).unwrap();
    let rules: Value = serde_saphyr::from_str(&text).unwrap();
    rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn recorded() -> BTreeSet<String> {
    rules().iter().filter_map(|rule| rule["record"].as_str().map(str::to_owned)).collect()
}

#[test]
fn rules_name_existing_metrics_and_each_alert_has_a_run_book() {
    let (recorded, docs) = (recorded(), std::fs::read_to_string(root().join("docs/observability.md")).unwrap());
    assert!(recorded.len() >= 5);
    for rule in rules() {
        let name = rule["alert"].as_str().or(rule["record"].as_str()).unwrap();
        holds(name, rule["expr"].as_str().unwrap(), &recorded);
        let Some(alert) = rule["alert"].as_str() else { continue };
        let book = format!("docs/observability.md#{}", alert.to_lowercase());
        assert_eq!(rule["annotations"]["runbook_url"].as_str(), Some(book.as_str()), "{alert}");
        assert!(docs.contains(&format!("### {alert}\n")), "docs/observability.md has no section {alert}");
    }
}

#[test]
fn dashboards_name_only_metrics_and_labels_that_there_are() {
    let recorded = recorded();
    let (mut boards, mut panels) = (0, 0);
    for file in std::fs::read_dir(root().join("observability/grafana")).unwrap() {
        let path = file.unwrap().path();
        let board: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        boards += 1;
        for panel in board["panels"].as_array().unwrap() {
            let title = format!("{}, {}", path.display(), panel["title"].as_str().unwrap());
            panels += 1;
            // Words for somebody who sees the figure for the first time.
            let words = panel["description"].as_str().unwrap_or_default();
            assert!(words.len() > 15 && words.ends_with('.'), "{title} has no description");
            for target in panel["targets"].as_array().unwrap() {
                let expression = target["expr"].as_str().unwrap();
                holds(&title, expression, &recorded);
                for (name, labels) in names_of(expression).0 {
                    assert!(labels.iter().any(|label| label == "cluster"), "{title}: {name} is of every cluster");
                }
            }
        }
        let variables = board["templating"]["list"].as_array().unwrap();
        assert!(variables.iter().any(|one| one["name"] == "cluster"), "{}", path.display());
    }
    assert!(boards == 6 && panels >= 40, "{boards} dashboards with {panels} panels");
}

/// With Debian's promtool: the rules are sound, and each alert fires when it should and not before.
#[test]
fn every_alert_fires_when_it_should_and_not_before() {
    let there = python(&["tests/real/build.py", "promtool"]);
    assert!(there.status.success(), "{}", stderr(&there));
    let promtool = |args: &[&str]| {
        let output = Command::new(stdout(&there).trim()).args(args).current_dir(root()).output().unwrap();
        assert!(output.status.success(), "promtool {args:?}: {}{}", stdout(&output), stderr(&output));
    };
    promtool(&["check", "rules", "observability/prometheus/rules.yaml"]);
    promtool(&["test", "rules", "observability/prometheus/rules.test.yaml"]);

    let text = std::fs::read_to_string(root().join("observability/prometheus/rules.test.yaml")).unwrap();
    let cases: Value = serde_saphyr::from_str(&text).unwrap();
    let cases = cases["tests"].as_array().unwrap().iter().flat_map(|test| test["alert_rule_test"].as_array().unwrap());
    let (mut fires, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for case in cases {
        let alerts = case["exp_alerts"].as_array().unwrap();
        let kind = if alerts.is_empty() { &mut silent } else { &mut fires };
        kind.insert(case["alertname"].as_str().unwrap().to_owned());
    }
    let alerts: BTreeSet<String> =
        rules().iter().filter_map(|rule| rule["alert"].as_str().map(str::to_owned)).collect();
    assert_eq!(fires, alerts);
    // NodesDoNotRegister is silent about a second pool in the same case.
    let both: BTreeSet<String> = alerts.into_iter().filter(|alert| alert != "DovetailNodesDoNotRegister").collect();
    assert_eq!(silent, both);
}
