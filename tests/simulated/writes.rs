//! Writes to the API server for one node, from the creation of its NodeClaim until it is initialized: few, and apart.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::played::{Played, at, play};

/// Patches of one NodeClaim, patches of its Node, and events about both, at most.
const PATCHES: usize = 5;
const OF_NODE: usize = 2;
const EVENTS: usize = 2;
/// Seconds between two patches of a NodeClaim.
const APART: f64 = 1.0;

/// Patches that follow each other as soon as they can. The token is on the claim before CreateFleet, and the instance as soon as EC2
/// has answered: a successor would have to look for it. That takes two requests, as the API has none for labels and status both: the
/// labels come first, so that a launched claim has them.
const AT_ONCE: [(&str, &str); 2] = [("token", "labels"), ("labels", "launched")];

/// The reason of a patch of a NodeClaim, by what it sends.
fn kind(patch: &Value) -> &'static str {
    let sent = &patch["sent"];
    let conditions = sent["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is = |type_: &str| conditions.iter().any(|one| one["type"] == type_ && one["status"] == "True");
    let (labels, annotations) = (&sent["metadata"]["labels"], &sent["metadata"]["annotations"]);
    if sent["status"].get("lastPodEventTime").is_some() {
        return "pods";
    }
    if patch["subresource"] == "status" {
        let stages = [("Initialized", "initialized"), ("Registered", "registered"), ("Launched", "launched")];
        return stages.into_iter().find(|(type_, _)| is(type_)).map_or("status", |(_, kind)| kind);
    }
    let has = |of: &Value, key: &str| of.get(key).is_some();
    match () {
        () if has(annotations, "karpenter.k8s.aws/tagged") => "tagged",
        () if has(labels, "node.kubernetes.io/instance-type") => "labels",
        () if has(annotations, "dovetail.dev/launch-token") => "token",
        () => "metadata",
    }
}

/// Patches of replicas, accepted or not, by the names of the objects.
fn patches<'p>(played: &'p Played, resource: &str) -> BTreeMap<&'p str, Vec<&'p Value>> {
    let mut all: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for patch in played.seen("api", &[("resource", resource), ("verb", "patch")]) {
        if !patch["replica"].is_null() {
            all.entry(patch["name"].as_str().unwrap()).or_default().push(patch);
        }
    }
    all
}

/// The writes of a run in which nothing failed are few, and none is refused for another of ours.
#[track_caller]
pub fn are_few(played: &Played) {
    let refused = |one: &&Value| one["code"] == 409 && !one["replica"].is_null();
    let refused: Vec<&Value> = played.events.iter().filter(|one| one["kind"] == "api").filter(refused).collect();
    assert!(refused.is_empty(), "{} conflicts, such as {}", refused.len(), refused[0]);
    let claims = patches(played, "nodeclaims");
    for (name, all) in &claims {
        let kinds: Vec<(f64, &str)> = all.iter().map(|one| (at(one), kind(one))).collect();
        let until = kinds.iter().position(|(_, kind)| *kind == "initialized");
        let until = until.unwrap_or_else(|| panic!("{name} is never initialized: {kinds:?}"));
        assert!(until < PATCHES, "{name}: {kinds:?}");
        let near = kinds[..=until].windows(2).filter(|two| two[1].0 - two[0].0 < APART);
        let near: Vec<_> = near.filter(|two| !AT_ONCE.contains(&(two[0].1, two[1].1))).collect();
        assert!(near.is_empty(), "{name}: {near:?}");
    }
    let most = patches(played, "nodes").values().map(Vec::len).max().unwrap_or(0);
    assert!(most <= OF_NODE, "{most} patches of one Node");
    let mut events: BTreeMap<&str, usize> = BTreeMap::new();
    for event in played.seen("api", &[("resource", "events"), ("verb", "create")]) {
        let about = &event["sent"]["involvedObject"];
        if ["NodeClaim", "Node"].iter().any(|kind| about["kind"] == *kind) && !event["replica"].is_null() {
            *events.entry(about["name"].as_str().unwrap()).or_default() += 1;
        }
    }
    assert!(events.values().all(|count| *count <= EVENTS), "{events:?}");
}

#[test]
fn node_takes_five_patches_of_its_claim_and_two_of_its_own() {
    let played = play("writes-of-one", 1, "until: 10m\n");
    played.came_out_well();
    are_few(&played);
    let claims = patches(&played, "nodeclaims");
    let kinds: Vec<&str> = claims.values().next().unwrap().iter().map(|one| kind(one)).collect();
    assert_eq!(kinds, ["token", "labels", "launched", "registered", "initialized", "pods", "tagged"]);
}
