//! Steps after a launch: tags of the instance, and the end of a node that never gets ready for pods.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::played;
use played::{Played, manifests, play, play_over};

/// The tags that calls have put on each instance after its launch.
fn tags_by_instance(played: &Played) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut found = BTreeMap::<String, BTreeMap<String, String>>::new();
    for call in played.calls("CreateTags") {
        let text = |name: &str| call["parameters"][name].as_str().map(str::to_owned);
        let tags: Vec<_> = (1..)
            .map_while(|n| Some((text(&format!("Tag.{n}.Key"))?, text(&format!("Tag.{n}.Value")).unwrap_or_default())))
            .collect();
        for id in call["parameters"]["ResourceId"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            found.entry(id.to_owned()).or_default().extend(tags.clone());
        }
    }
    found
}

/// The same as the log has it: each instance's Node and claim when it registered.
fn registered(played: &Played) -> BTreeMap<String, BTreeMap<String, String>> {
    let of = |event: &Value| {
        let text = |field: &str| event[field].as_str().unwrap().to_owned();
        let tags = [("Name", text("node")), ("karpenter.sh/nodeclaim", text("node_claim"))];
        let id = text("provider_id").rsplit('/').next().unwrap().to_owned();
        (id, tags.map(|(key, value)| (key.to_owned(), value)).into())
    };
    played.log_events("registered").into_iter().map(of).collect()
}

#[test]
fn instance_is_tagged_with_node_and_claim_after_registration() {
    let played = play("tagged", 3, "until: 10m\n");
    played.came_out_well();
    let tagged = played.calls("CreateTags");
    assert_eq!(tagged.len(), 3, "one call an instance, and none again");
    assert_eq!((registered(&played).len(), tags_by_instance(&played)), (3, registered(&played)));
    let registered = played.times("registered");
    let last = tagged.iter().filter_map(|call| call["t"].as_f64()).fold(0.0, f64::max);
    assert!(last <= registered.iter().fold(0.0, |a: f64, b| a.max(*b)) + 25.0, "tagged at {last}: {registered:?}");
}

#[test]
fn node_with_a_lasting_startup_taint_goes_after_half_an_hour() {
    let taint = "expireAfter: Never\n      startupTaints: [{key: cni, effect: NoSchedule}]";
    let manifests = manifests(1).replacen("expireAfter: Never", taint, 1);
    let played = play_over("never-ready", &manifests, "until: 50m\n");
    let given_up = played.log_events("gave_up");
    assert!(
        !given_up.is_empty() && given_up.iter().all(|one| one["reason"] == "initialization_timeout"),
        "{given_up:?}"
    );
    let (registered, gave_up) = (played.times("registered")[0], played.times("gave_up")[0]);
    assert!((1800.0..1815.0).contains(&(gave_up - registered)), "registered at {registered}, given up at {gave_up}");
    assert!(played.events_of("InitializationTimeout") >= 1);
    let long = play_over("never-ready-never", &manifests, "settings: {INITIALIZATION_TIMEOUT: never}\nuntil: 50m\n");
    assert!(long.log_events("gave_up").is_empty(), "as in Karpenter");
}
