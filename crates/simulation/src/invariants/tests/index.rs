//! Look-ups find what reading everything finds.

use std::collections::BTreeSet;

use fastrand::Rng;
use serde_json::{Value, json};

use super::super::history::ClusterRecord;
use super::ActionEntry;

/// A few of each, so that they come, go and come again.
const MOST: u8 = 5;

fn drawn_entry(at: u64, rng: &mut Rng) -> ActionEntry {
    let (a, b) = (rng.u8(..MOST), rng.u8(..MOST));
    let (kind, fields) = match rng.u8(..4) {
        0 => ("api", claim(a, b, rng)),
        1 => {
            let change = ["pending", "running", "shutting-down"][rng.usize(..3)];
            ("instance", json!({"change": change, "id": format!("i-{a}"), "token": format!("tok-{b}")}))
        }
        2 => {
            let change = ["joined", "deleting", "staying", "deleted"][rng.usize(..4)];
            ("node", json!({"change": change, "name": format!("node-{a}"), "instance": format!("i-{b}")}))
        }
        _ => {
            let change = ["created", "bound", "ready", "deleted"][rng.usize(..4)];
            let (uid, owner) = (format!("p{a}"), format!("Deployment/web-{}", a % 2));
            (
                "pod",
                json!({"change": change, "namespace": "default", "name": uid, "uid": uid, "owner": owner, "node": format!("node-{b}")}),
            )
        }
    };
    let fields = fields.as_object().cloned().unwrap_or_default().into_iter().collect();
    ActionEntry { micros: at, replica: Some(0), term: None, kind: kind.into(), by: String::new(), fields }
}

fn claim(a: u8, b: u8, rng: &mut Rng) -> Value {
    let provider_id = if rng.bool() { json!(format!("aws:///zone/i-{b}")) } else { Value::Null };
    let written = json!({"nodePool": "default", "token": format!("tok-{b}"), "providerID": provider_id});
    let (verb, claim) = if rng.u8(..4) == 0 { ("delete", Value::Null) } else { ("patch", written) };
    json!({"verb": verb, "resource": "nodeclaims", "name": format!("n{a}"), "uid": format!("c{a}"), "code": 200, "claim": claim})
}

fn assert_alike(state: &ClusterRecord) {
    for id in (0..MOST).map(|number| format!("i-{number}")) {
        let token = state.machines.get(&id).map_or("", |machine| machine.token.as_str());
        let living = || state.claims.values().filter(|claim| claim.gone.is_none());
        let own = |instance: &str| *instance == *id;
        let claimed = living().any(|one| own(&one.instance) || one.instance.is_empty() && one.token == token);
        assert_eq!(state.is_claimed(&id), claimed);
        let of_it = living().find(|one| own(&one.instance)).map(|one| &one.name);
        assert_eq!(state.claim_of(&id).map(|one| &one.name), of_it);
        let deleting = state.nodes.values().filter(|node| own(&node.instance)).map(|node| node.deleting);
        assert_eq!(state.nodes_of(&id).map(|node| node.deleting).collect::<Vec<_>>(), deleting.collect::<Vec<_>>());
        let machines = state.machines.iter().filter(|(_, one)| one.token == token).map(|(id, _)| id);
        let found = state.index.machines_with(token).collect::<Vec<_>>();
        assert_eq!(found, machines.collect::<Vec<_>>());
    }
    for name in (0..MOST).map(|number| format!("node-{number}")) {
        let on_it = state.pods.iter().filter(|(_, pod)| pod.node == name).map(|(uid, _)| uid.clone());
        let found = state.index.pods_by_node().get(&name).cloned().unwrap_or_default();
        assert_eq!(found, on_it.collect::<BTreeSet<_>>());
    }
    for owner in ["Deployment/web-0", "Deployment/web-1"] {
        let own = state.pods.iter().filter(|(_, pod)| pod.owner == owner).map(|(uid, _)| uid);
        assert_eq!(state.index.pods_of("default", owner).collect::<Vec<_>>(), own.collect::<Vec<_>>());
    }
}

#[test]
fn look_ups_find_what_reading_everything_finds() {
    for seed in 0..20 {
        let (mut rng, mut state) = (Rng::with_seed(seed), ClusterRecord::default());
        for at in 0..200 {
            state.apply(&drawn_entry(at, &mut rng));
            assert_alike(&state);
        }
    }
}
