//! `explain` without a cluster: what it refuses, and how it is called.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::process::{Command, Output};

use dovetail_core::pack::Rule;

use crate::common::{root, scratch, stderr, stdout, write};

fn explain(program: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(root()).env_clear().env("HOME", "/nonexistent");
    command.output().expect("the binary starts")
}

fn refused(args: &[&str], code: i32, said: &[&str]) {
    let output = explain(env!("CARGO_BIN_EXE_dovetail"), args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
    assert!(stdout(&output).is_empty(), "{args:?}: {}", stdout(&output));
    for text in said {
        assert!(stderr(&output).contains(text), "{args:?}: {text:?} is not in {}", stderr(&output));
    }
}

#[test]
fn what_cannot_be_explained_is_refused_before_any_request() {
    refused(&["explain", "deployment", "web"], 2, &["deployment: is no kind", "pod, node, nodeclaim, nodepool"]);
    refused(&["explain", "pod"], 2, &["NAME: is not given", "explain pod NAME"]);
    refused(&["explain", "pod/a", "b"], 2, &["a name is given twice"]);
    refused(&["explain", "pod", "..%2fsecrets"], 2, &["is no name of an object"]);
    refused(&["explain", "node", "n", "-n", "default"], 2, &["--namespace: a node has none"]);
    refused(&["explain", "pod", "a\u{1b}[31m"], 2, &["a\\u{1b}[31m: is no name"]);
    refused(&["explain", "pod", "a", "-o", "wide"], 2, &["invalid value 'wide'", "text, json, yaml"]);
    refused(&["explain", "pod", "a", "--json", "-o", "json"], 2, &["cannot be used with"]);
}

#[test]
fn without_a_cluster_every_place_that_was_looked_at_is_named() {
    let places = ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "~/.kube/config", "the path of a kubeconfig"];
    refused(&["explain", "pod", "a"], 2, &places);
    refused(&["explain", "pod", "a", "--kubeconfig", "/nowhere/config"], 2, &["/nowhere/config: no such file"]);
    let broken = write("broken.yaml", "users: [{name: u, user: {token: sesame]\n");
    let output = explain(env!("CARGO_BIN_EXE_dovetail"), &["explain", "pod", "a", "--kubeconfig", &broken]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!stderr(&output).contains("sesame"), "{}", stderr(&output));
}

#[test]
fn as_a_plugin_it_is_called_kubectl_dovetail() {
    let link = scratch("kubectl-dovetail");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dovetail"), &link).unwrap();
    let output = explain(link.to_str().unwrap(), &["explain", "--help"]);
    assert!(stdout(&output).contains("Usage: kubectl dovetail explain"), "{}", stdout(&output));
    let own = explain(env!("CARGO_BIN_EXE_dovetail"), &["explain", "--help"]);
    assert!(stdout(&own).contains("Usage: dovetail explain"), "{}", stdout(&own));
}

#[test]
fn what_if_without_a_cluster_or_with_a_bad_workload_is_refused() {
    let plan = |args: &[&str]| explain(env!("CARGO_BIN_EXE_dovetail"), &[&["plan"], args].concat());
    let output = plan(&["-f", "deploy/examples/spot.yaml", "--scale", "deployment/web=3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("--scale: is for a live cluster"), "{}", stderr(&output));
    let output = plan(&["--live", "--scale", "job/x=1"]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("deployment/NAME=N"), "{}", stderr(&output));
    let output = plan(&["--live", "-f", "deploy/examples/spot.yaml"]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("cannot be used with"), "{}", stderr(&output));
    let output = plan(&["--live"]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("KUBECONFIG"), "{}", stderr(&output));
}

#[test]
fn documented_role_reads_every_kind_and_writes_none() {
    let page = std::fs::read_to_string(root().join("docs/guide/explain.md")).unwrap();
    let (_, role) = page.split_once("    apiVersion: rbac.authorization.k8s.io/v1\n").expect("a ClusterRole");
    let role: String =
        role.lines().take_while(|line| line.starts_with("    ")).map(|line| format!("{}\n", &line[4..])).collect();
    let role: serde_json::Value = serde_saphyr::from_str(&role).unwrap();
    let rules = role["rules"].as_array().unwrap();
    let texts = |rule: &serde_json::Value, field: &str| -> Vec<String> {
        rule[field].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
    };
    let reads = ["get", "list"];
    assert!(rules.iter().all(|rule| texts(rule, "verbs").iter().all(|verb| reads.contains(&verb.as_str()))));
    for kind in dovetail_core::cluster_state::WatchedKind::ALL {
        let listed = |rule: &&serde_json::Value| {
            texts(rule, "resources").iter().any(|one| one == kind.resource())
                && texts(rule, "verbs").contains(&"list".to_owned())
        };
        assert!(rules.iter().any(|rule| listed(&rule)), "{} may not be listed", kind.resource());
    }
}

#[test]
fn the_page_has_every_rule_with_the_remedy_of_the_event() {
    let page = std::fs::read_to_string(root().join("docs/guide/explain.md")).unwrap();
    let row = |line: &str| {
        let cells: Vec<String> = line.split('|').map(|cell| cell.trim().to_owned()).collect();
        Some((cells.get(1)?.clone(), cells.get(3)?.clone()))
    };
    let written: Vec<(String, String)> = page
        .lines()
        .skip_while(|line| !line.starts_with("| rule |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .filter_map(row)
        .collect();
    let all = [
        Rule::UndefinedLabel,
        Rule::Requirements,
        Rule::InstanceTypes,
        Rule::Taints,
        Rule::Pool,
        Rule::Volumes,
        Rule::Offerings,
        Rule::Resources,
        Rule::MinValues,
        Rule::Topology,
        Rule::Together,
        Rule::Limits,
        Rule::MaxCost,
        Rule::Quota,
    ];
    let known: Vec<_> = all.iter().map(|rule| (rule.name().to_owned(), rule.remedy().to_owned())).collect();
    assert_eq!(written, known);
}
