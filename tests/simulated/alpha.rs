//! The posts' Provisioners applied to a cluster that runs, as they are written: the control plane translates them, and nodes
//! come as the posts say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use crate::common;
use crate::played;

use common::{arg, post, root, write};
use played::{Played, at, play_file, play_kept};
use serde_json::Value;

/// The text of a kept scenario, its line `apply`, and the files that are applied by it.
fn kept(name: &str) -> (String, String, Vec<String>) {
    let kept = root().join(format!("tests/simulation/scenarios/{name}.yaml"));
    let text = std::fs::read_to_string(&kept).unwrap();
    let apply = text.lines().find(|line| line.starts_with("apply: ")).unwrap().to_owned();
    let files = apply.trim_start_matches("apply: [").trim_end_matches(']').split(", ");
    let files = files.map(|file| arg(&post(file.rsplit('/').next().unwrap())).to_owned()).collect();
    (text, apply, files)
}

/// Number of Provisioners and AWSNodeTemplates that a kept scenario applies.
fn meant(name: &str) -> usize {
    let lines = |file: &String| {
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().filter(|line| matches!(*line, "kind: Provisioner" | "kind: AWSNodeTemplate")).count()
    };
    kept(name).2.iter().map(lines).sum()
}

/// A kept scenario with its manifests applied after a minute, the alpha kinds stored as they are.
fn applied_later(name: &str) -> Played {
    let (text, apply, files) = kept(name);
    let step = format!("  - {{at: 1m, apply: [{}]}}\n", files.join(", "));
    let mut later: String = text.lines().filter(|line| *line != apply).map(|line| format!("{line}\n")).collect();
    match later.contains("\nsteps:\n") {
        true => later = later.replace("\nsteps:\n", &format!("\nsteps:\n{step}")),
        false => later.push_str(&format!("steps:\n{step}")),
    }
    later.push_str("alphaAsWritten: true\n");
    play_file(&format!("alpha-{name}"), &write(&format!("alpha-{name}/scenario.yaml"), &later))
}

/// Number of new nodes, and their price an hour together.
fn came(played: &Played) -> (usize, f64) {
    let nodes = played.report["nodes"].as_array().unwrap();
    let new: Vec<&Value> = nodes.iter().filter(|node| node["beforehand"] == false).collect();
    (new.len(), new.iter().map(|node| node["pricePerHour"].as_f64().unwrap()).sum())
}

#[test]
fn posts_provisioners_bring_the_same_nodes_as_when_converted() {
    for name in ["000-existing-node-first", "001-affinity", "003-constrained", "003-inflate-100"] {
        let (stored, converted) = (applied_later(name), play_kept(name, &[]));
        stored.came_out_well();
        stored.violates_nothing();
        assert_eq!(stored.report["pods"]["bound"], converted.report["pods"]["bound"], "{name}");
        let ((nodes, price), (before, cost)) = (came(&stored), came(&converted));
        assert!(nodes > 0 && nodes <= before + 1, "{name}: {nodes} nodes, {before} where it is converted beforehand");
        assert!(price <= cost * 1.1, "{name}: {price} $/h, {cost} where it is converted beforehand");
        let translated: BTreeSet<String> =
            stored.log_events("translated").iter().map(|event| event["object"].as_str().unwrap().to_owned()).collect();
        assert!(meant(name) > 0 && translated.len() == meant(name), "{name}: {translated:?}");
        for node in stored.report["nodes"].as_array().unwrap().iter().filter(|node| node["beforehand"] == false) {
            assert_eq!(node["labels"]["karpenter.sh/provisioner-name"], "default", "{name}");
        }
    }
}

#[test]
fn an_empty_node_of_a_provisioner_goes_after_exactly_its_time() {
    let played = applied_later("ttl-deployment-deleted");
    played.came_out_well();
    played.violates_nothing();
    let reached = played.log_events("ttl_reached");
    assert!(!reached.is_empty());
    for event in reached {
        // The post's ttlSecondsAfterEmpty is 30; what is said of a node is looked at again within a second.
        let node = [("change", "deleted"), ("node", event["node"].as_str().unwrap())];
        let last = played.seen("pod", &node).into_iter().map(at).fold(0.0, f64::max);
        let empty = at(event) - last;
        assert!((30.0..31.0).contains(&empty), "{event}: it was empty for {empty} s");
    }
    assert_eq!(came(&played).0, 0, "the nodes made for the Deployment are gone");
}
