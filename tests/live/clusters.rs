//! Clusters that are no good, asked by every command that reads one: none there, half the permissions, no CRDs of ours, 5,000 nodes,
//! names and messages that would take over a terminal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::{common, stub};

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::live::LONGEST_WAIT;
use common::{arg, scratch, stderr, stdout};
use serde_json::{Value, json};
use stub::{Reply, api_server, list, not_found, reply, status};

/// Objects of a page at most.
const PAGE: usize = 500;
/// A name that would turn, hide or colour text.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}evil\u{200b}";

/// A command without a cluster to ask, and nothing of the tests' environment.
fn bare(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
    command.args(words).env_clear().env("HOME", "/nonexistent").env("AWS_REGION", "us-east-1");
    command.env("AWS_EC2_METADATA_DISABLED", "true").output().unwrap()
}

/// A command on a server.
fn on(name: &str, server: SocketAddr, words: &[&str]) -> Output {
    let kubeconfig = stub::kubeconfig(&format!("clusters-{name}"), &format!("http://{server}"));
    let offers = if words[0] == "doctor" { &[][..] } else { &["--offers", "shipped"] };
    let output = bare(&[words, &["--kubeconfig", &kubeconfig], offers].concat());
    assert!(!stderr(&output).contains(stub::TOKEN) && !stdout(&output).contains(stub::TOKEN), "a secret is written");
    output
}

/// The commands that read a cluster, each in its form for people.
fn readers(record: &str) -> [Vec<&str>; 6] {
    [
        vec!["explain", "nodepool", "default"],
        vec!["explain", "node", "n7"],
        vec!["plan", "--live"],
        vec!["top", "--once"],
        vec!["record", record, "--for", "1s", "--every", "1s"],
        vec!["doctor", "--check-timeout", "120"],
    ]
}

fn condition(message: &str) -> Value {
    json!({"type": "Ready", "status": "True", "reason": "Ready", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn pool(message: &str) -> Value {
    let stuck = json!({"type": "NodeClassReady", "status": "False", "reason": "Stuck", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default", "uid": "u"}, "spec": {"template": {"spec": {
        "requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
        "status": {"conditions": [condition(message), stuck]}})
}

fn node(nth: usize) -> Value {
    json!({"metadata": {"name": format!("n{nth}"), "uid": format!("u{nth}"), "labels": {"karpenter.sh/nodepool": "default",
        "node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-east-1a"}},
        "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "29"}, "conditions": [condition("")]}})
}

/// A good cluster with a few nodes, but for what `changed` answers.
fn cluster(changed: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static) -> SocketAddr {
    api_server(move |path| {
        let place = path.split('?').next().unwrap_or_default();
        changed(path).or_else(|| match place {
            "/apis/karpenter.sh/v1/nodepools" => Some(list(&[pool("")])),
            "/api/v1/nodes" => Some(list(&(0..9).map(node).collect::<Vec<_>>())),
            place if place.ends_with("accessreviews") => {
                Some(reply(201, &json!({"metadata": {}, "spec": {}, "status": {"allowed": true}})))
            }
            place if place.starts_with("/apis/karpenter") && place.ends_with('s') => Some(list(&[])),
            place if place.starts_with("/api/v1/") || place.starts_with("/apis/") => {
                let kind = place.rsplit('/').next().unwrap_or_default();
                let is_list = kind.ends_with('s') && !place.contains("/namespaces/") && kind != "apis";
                is_list.then(|| list(&[]))
            }
            _ => None,
        })
    })
}

#[test]
fn without_a_cluster_every_reader_names_where_it_looked() {
    let record = arg(&scratch("clusters-none.jsonl")).to_owned();
    for words in readers(&record) {
        let output = bare(&words);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{words:?}");
        for place in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "~/.kube/config"] {
            assert!(stderr(&output).contains(place), "{words:?}: {}", stderr(&output));
        }
        let output = bare(&[&words[..], &["--kubeconfig", "/nowhere"]].concat());
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{words:?}");
        assert!(stderr(&output).contains("/nowhere: no such file"), "{words:?}: {}", stderr(&output));
    }
    assert!(!std::path::Path::new(&record).exists(), "no record of nothing");
}

#[test]
fn without_our_crds_every_reader_says_how_they_are_installed() {
    let record = arg(&scratch("clusters-bare.jsonl")).to_owned();
    for words in readers(&record) {
        let server = cluster(|path| path.starts_with("/apis/karpenter").then(not_found));
        let output = on("bare", server, &words);
        let (said, code) = (format!("{}{}", stdout(&output), stderr(&output)), output.status.code());
        assert!(said.contains("dovetail crds | kubectl apply"), "{words:?} ({code:?}): {said}");
        assert_ne!(code, Some(0), "{words:?}: {said}");
    }
}

#[test]
fn every_reader_shows_what_it_may_read_and_names_the_rest() {
    let record = arg(&scratch("clusters-half.jsonl")).to_owned();
    let kinds = ["daemonsets", "poddisruptionbudgets", "deployments", "leases"];
    for words in readers(&record) {
        let server = cluster(move |path| {
            let place = path.split('?').next().unwrap_or_default();
            kinds.iter().any(|kind| place.contains(kind)).then(|| status(403, "Forbidden", "not you"))
        });
        let output = on("half", server, &words);
        let said = format!("{}{}", stdout(&output), stderr(&output));
        let is_doctor = words[0] == "doctor";
        assert!(is_doctor || output.status.success(), "{words:?}: {said}");
        let missing = match words[0] {
            "doctor" => vec!["allow list on deployments and leases", "it cannot be found"],
            "record" => vec!["daemonsets", "deployments"],
            _ => vec!["daemonsets", "allow the verb list on daemonsets", "poddisruptionbudgets"],
        };
        assert!(missing.iter().any(|part| said.contains(part)), "{words:?}: {missing:?} {said}");
        let shown = match words[0] {
            "explain" if words[1] == "node" => "Node n7",
            "explain" => "NodePool default",
            "plan" => "9 node(s) of NodePools",
            "top" => "9 nodes",
            "doctor" => "all 1 are Ready",
            _ => "",
        };
        assert!(stdout(&output).contains(shown), "{words:?}: {said}");
    }
    let lines = std::fs::read_to_string(&record).unwrap();
    assert!(lines.contains("\"line\":\"end\"") && lines.contains("NodePool"), "the rest is recorded: {lines}");
}

/// Pages of 5,000 nodes; what was asked for is noted.
fn many(path: &str, seen: &Mutex<BTreeMap<String, usize>>) -> Option<Reply> {
    let (place, query) = path.split_once('?').unwrap_or((path, ""));
    let number = |name: &str| {
        let value = query.split('&').find_map(|part| part.strip_prefix(name));
        value.and_then(|text| text.parse::<usize>().ok())
    };
    if place != "/api/v1/nodes" {
        return None;
    }
    let (from, limit) = (number("continue=").unwrap_or(0), number("limit=").unwrap_or(usize::MAX).min(5_000));
    let until = (from + limit).min(5_000);
    let mut seen = seen.lock().unwrap();
    *seen.entry("pages".to_owned()).or_default() += 1;
    let largest = seen.entry("largest".to_owned()).or_default();
    *largest = limit.max(*largest);
    let metadata = if until < 5_000 { json!({"continue": until.to_string()}) } else { json!({}) };
    let items: Vec<Value> = (from..until).map(node).collect();
    Some(reply(200, &json!({"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": items})))
}

#[test]
fn every_reader_takes_five_thousand_nodes_by_pages() {
    let record = arg(&scratch("clusters-many.jsonl")).to_owned();
    for words in readers(&record).into_iter().filter(|words| words[0] != "doctor") {
        let seen = Arc::new(Mutex::new(BTreeMap::new()));
        let noted = seen.clone();
        let output = on("many", cluster(move |path| many(path, &noted)), &words);
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        let seen = seen.lock().unwrap().clone();
        assert!(seen["largest"] <= PAGE && seen["pages"] % 10 == 0 && seen["pages"] >= 10, "{words:?}: {seen:?}");
        let shown = match words[0] {
            "explain" if words[1] == "node" => "Node n7",
            "explain" => "NodePool default",
            "plan" => "5000 node(s) of NodePools",
            "top" => "5000 nodes, 5000 Ready",
            _ => "",
        };
        assert!(stdout(&output).contains(shown), "{words:?}: {:.2000}", stdout(&output));
    }
    let lines = std::fs::read_to_string(&record).unwrap();
    assert!(lines.contains("\"count\":5000"), "{:.3000}", lines);
}

#[test]
fn no_reader_lets_a_name_or_a_message_take_over_the_terminal() {
    let record = arg(&scratch("clusters-hostile.jsonl")).to_owned();
    for words in readers(&record) {
        let server = cluster(|path| match path.split('?').next().unwrap_or_default() {
            "/apis/karpenter.sh/v1/nodepools" => {
                let mut other = pool(HOSTILE);
                other["metadata"] = json!({"name": HOSTILE, "uid": "v"});
                other["status"]["conditions"][0]["status"] = json!("False");
                Some(list(&[pool(HOSTILE), other]))
            }
            "/api/v1/nodes" => {
                let mut other = node(8);
                other["metadata"]["name"] = json!(HOSTILE);
                other["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!(HOSTILE);
                let mut own = node(7);
                own["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(HOSTILE);
                Some(list(&[own, other]))
            }
            "/api/v1/pods" => Some(list(&[json!({"metadata": {"name": HOSTILE, "namespace": HOSTILE, "uid": "p"},
                "spec": {"nodeSelector": {"team": HOSTILE}, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
                "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": HOSTILE}]}})])),
            "/apis/policy/v1/poddisruptionbudgets" => Some(status(403, "Forbidden", HOSTILE)),
            "/apis/apps/v1/daemonsets" => Some(status(500, "InternalError", HOSTILE)),
            "/api/v1/events" => Some(list(&[
                json!({"metadata": {"name": "e", "namespace": "default"}, "reason": HOSTILE, "message": HOSTILE,
                "type": "Warning", "lastTimestamp": "2026-01-01T00:00:00Z", "source": {"component": "karpenter"},
                "involvedObject": {"kind": "Pod", "namespace": HOSTILE, "name": HOSTILE}}),
            ])),
            _ => None,
        });
        let output = on("hostile", server, &words);
        let said = format!("{}{}", stdout(&output), stderr(&output));
        let harmful = |one: char| one != '\n' && one.is_control() || matches!(one, '\u{202e}' | '\u{200b}');
        assert!(!said.contains(harmful), "{words:?}: {said:?}");
        assert!(words[0] == "record" || said.contains("\\u{1b}[2J"), "{words:?} shows it as what it is: {said:?}");
    }
}

/// A Deployment with so many replicas.
fn web(replicas: u32) -> Value {
    json!({"metadata": {"name": "web", "namespace": "shop", "uid": "w"}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}}})
}

/// The list of Deployments is there, cannot be had twice, is forgotten in its middle, and is there with more replicas.
fn flaky(path: &str, asked: &Mutex<usize>) -> Option<Reply> {
    if !path.starts_with("/apis/apps/v1/deployments") {
        return None;
    }
    if path.contains("continue=") {
        return Some(status(410, "Expired", "the continue parameter is too old"));
    }
    let mut asked = asked.lock().unwrap();
    *asked += 1;
    Some(match *asked {
        1 => list(&[web(2)]),
        2 | 3 => status(500, "InternalError", HOSTILE),
        4 => reply(200, &json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": "more"}, "items": []})),
        _ => list(&[web(5)]),
    })
}

#[test]
fn objects_that_cannot_be_read_for_a_while_are_kept_in_a_record() {
    let record = arg(&scratch("clusters-flaky.jsonl")).to_owned();
    let asked = Mutex::new(0);
    let server = cluster(move |path| flaky(path, &asked));
    let kubeconfig = stub::kubeconfig("clusters-flaky", &format!("http://{server}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
    command.args([
        "record",
        &record,
        "--for",
        "1h",
        "--every",
        "1s",
        "--offers",
        "shipped",
        "--kubeconfig",
        &kubeconfig,
    ]);
    command.env_clear().env("HOME", "/nonexistent").env("AWS_REGION", "us-east-1").stderr(Stdio::piped());
    let recording = command.spawn().unwrap();
    let begun = Instant::now();
    let text = || std::fs::read_to_string(&record).unwrap_or_default();
    while !text().contains("\"scale\"") {
        assert!(begun.elapsed() < LONGEST_WAIT, "{}", text());
        std::thread::sleep(Duration::from_millis(100));
    }
    let interrupted = Command::new("kill").args(["-INT", &recording.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let output = recording.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let lines: Vec<Value> = text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps: Vec<&Value> = lines.iter().filter(|line| line["line"] == "step").map(|line| &line["step"]).collect();
    assert_eq!(steps, [&json!({"scale": {"kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 5}})]);
    let said = stderr(&output);
    assert_eq!(said.matches("Deployment not read at ").count(), 1, "{said}");
}
