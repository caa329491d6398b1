//! `doctor` without a cluster, and its list of rights against the chart.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::chart::rendered;
use crate::common::{root, stderr, stdout};

#[test]
fn without_a_cluster_doctor_names_every_place_that_it_looked_at() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
    let output = command.arg("doctor").env_clear().env("HOME", "/nonexistent").output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""));
    assert!(
        stderr(&output).contains("KUBECONFIG") && stderr(&output).contains("~/.kube/config"),
        "{}",
        stderr(&output)
    );
    let late = Command::new(env!("CARGO_BIN_EXE_dovetail")).args(["doctor", "--check-timeout", "0"]).output().unwrap();
    assert_eq!(late.status.code(), Some(2));
}

#[test]
fn rights_that_doctor_asks_for_are_those_of_the_charts_role() {
    let listed = std::fs::read_to_string(root().join("src/doctor/role.txt")).unwrap();
    let listed: BTreeSet<String> =
        listed.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect();
    let mut given = BTreeSet::new();
    let all = rendered(&["settings.clusterName=demo"]);
    for role in all.iter().filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "Role") {
        if role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"] == "true" {
            continue;
        }
        let name = role["metadata"]["name"].as_str().unwrap();
        let place = match (role["kind"].as_str().unwrap(), name.ends_with("-dns")) {
            ("ClusterRole", _) => "",
            // Its Secret has a name of the release's.
            _ if name.contains("webhook") => continue,
            (_, true) => " dns",
            _ => " lease",
        };
        for rule in role["rules"].as_array().unwrap() {
            let texts = |field: &str| -> Vec<String> {
                rule[field].as_array().unwrap().iter().filter_map(Value::as_str).map(str::to_owned).collect()
            };
            for (group, resource) in texts("apiGroups")
                .iter()
                .flat_map(|group| texts("resources").into_iter().map(move |one| (group.clone(), one)))
            {
                let group = if group.is_empty() { "core".to_owned() } else { group };
                let named = rule["resourceNames"].as_array().filter(|_| !place.is_empty()).into_iter().flatten();
                let mut names: Vec<String> = named.map(|name| format!(" {}", name.as_str().unwrap())).collect();
                if names.is_empty() {
                    names.push(String::new());
                }
                for name in names {
                    given.extend(texts("verbs").iter().map(|verb| format!("{group} {resource} {verb}{place}{name}")));
                }
            }
        }
    }
    assert_eq!(listed, given);
}
