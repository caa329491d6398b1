//! NodeOverlays, played through: they decide what is bought, are forgotten when they go, and move nothing that does not pay.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;

use crate::common::write;
use crate::played::{Played, at, manifests, play_over};

const GATE: &str = "featureGates: {NodeOverlay: true}\n";

/// An overlay with this spec.
fn overlay(name: &str, spec: &str) -> String {
    format!("---\napiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n")
}

/// An overlay on m6i.large, by its spec's other fields.
fn of_m6i(name: &str, more: &str) -> String {
    let requirements = "requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m6i.large]}]";
    overlay(name, &format!("{requirements}, {more}"))
}

/// Status, reason and message of ValidationSucceeded, as they were written on an overlay one after the other.
fn said(played: &Played, name: &str) -> Vec<(String, String, String)> {
    let written = played.seen("api", &[("resource", "nodeoverlays"), ("name", name)]).into_iter();
    let each = written.filter(|event| event["sent"]["status"]["conditions"].is_array()).map(|event| {
        let all = event["sent"]["status"]["conditions"].as_array().unwrap();
        let own = all.iter().find(|one| one["type"] == "ValidationSucceeded").unwrap();
        let ready = all.iter().find(|one| one["type"] == "Ready").unwrap();
        assert_eq!(own["status"], ready["status"]);
        let text = |field: &str| own[field].as_str().unwrap().to_owned();
        (text("status"), text("reason"), text("message"))
    });
    each.collect()
}

/// Launched instance types, in order.
fn launched(played: &Played) -> Vec<(f64, String)> {
    let all = played.log_events("launched").into_iter();
    all.map(|line| (at(line), line["instance_type"].as_str().unwrap_or_default().to_owned())).collect()
}

fn types(played: &Played) -> Vec<String> {
    launched(played).into_iter().map(|(_, name)| name).collect()
}

/// Two overlays of one weight: the one counts until it goes, at once, and then the other, whichever leader looks.
#[test]
fn overlay_decides_until_it_goes_though_leaders_are_killed() {
    let cheap = of_m6i("cheap", "priceAdjustment: \"-90%\"");
    let rival = of_m6i("a-rival", "price: \"5\", capacity: {example.com/fuse: \"1\"}");
    let scenario = format!(
        "{GATE}replicas: 2\nsteps:\n  - {{at: 8s, kill: {{replica: leader, for: 40s}}}}\n  - {{at: 4m, delete: {{kind: NodeOverlay, name: cheap}}}}\n  - {{at: 4m1s, scale: {{kind: Deployment, name: web, replicas: 4}}}}\nuntil: 7m\n"
    );
    let played = play_over("overlay-decides", &format!("{}{cheap}{rival}", manifests(2)), &scenario);
    played.came_out_well();
    assert_eq!(types(&played), ["m6i.large", "m6i.large", "m5.large", "m5.large"]);
    let of_rival = said(&played, "a-rival");
    let (status, reason, message) = &of_rival[0];
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Conflict"));
    assert!(message.starts_with("conflict with another overlay: cheap,"), "{message}");
    assert_eq!(of_rival.last().unwrap().0, "True", "it counts once the other is gone");
    let (status, _, message) = &said(&played, "cheap")[0];
    assert!(status == "True" && message.contains("1 instance type(s)") && message.contains("default"), "{message}");
    assert!(of_rival.len() <= 3, "said once, and not at each look: {of_rival:?}");
    assert!(played.log_events("overlay_refused").iter().any(|line| line["overlay"] == "a-rival"));
    let claims = played.seen("api", &[("resource", "nodeclaims"), ("verb", "create")]);
    let marked =
        |event: &&&Value| event["sent"]["metadata"]["annotations"]["karpenter.sh/price-overlay-applied"] == "true";
    assert_eq!(claims.iter().filter(marked).count(), 2, "{claims:?}");
}

/// A fuse comes with an overlay, as the sandbox's nodes have a device plugin by their label.
#[test]
fn pod_with_an_extended_resource_gets_its_node() {
    let device = "  template:\n    metadata: {labels: {sandbox.dovetail.dev/device: example.com_fuse_1}}\n    spec:\n      expireAfter";
    let all = manifests(2).replace("  template:\n    spec:\n      expireAfter", device).replace(
        "{cpu: 500m, memory: 256Mi}}",
        "{cpu: 500m, memory: 256Mi, example.com/fuse: 1}, limits: {example.com/fuse: 1}}",
    );
    let fuse = of_m6i("fuse", "capacity: {example.com/fuse: \"1\"}");
    let scenario = format!("{GATE}until: 5m\n");
    let played = play_over("overlay-fuse", &format!("{all}{fuse}"), &scenario);
    played.came_out_well();
    assert_eq!(types(&played), ["m6i.large", "m6i.large"]);
    assert_eq!(played.report["pods"]["bound"], 2);
    // With the gate closed no type has the resource: nothing of the overlay is read, and nothing is launched.
    let closed = play_over("overlay-closed", &all, "until: 2m\n");
    assert_eq!((closed.number("launched"), closed.report["pods"]["bound"].as_u64()), (0, Some(0)));
    assert!(closed.seen("api", &[("resource", "nodeoverlays")]).is_empty());
}

/// A price that goes up and down by a few percent, and once by much: only that pays for moves, and once.
#[test]
fn swinging_price_moves_no_node_and_a_lasting_one_moves_it_once() {
    let name = "overlay-swings";
    let quick = "{consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 30s}";
    let all = manifests(2).replace("{consolidationPolicy: WhenEmpty, consolidateAfter: Never}", quick);
    for (file, by) in [("up", "+6%"), ("down", "-6%"), ("far", "+400%")] {
        let both = |kind: &str, sign: &str| {
            overlay(
                &format!("swing-{}", kind.replace('.', "-")),
                &format!(
                    "requirements: [{{key: node.kubernetes.io/instance-type, operator: In, values: [{kind}]}}], priceAdjustment: \"{sign}\""
                ),
            )
        };
        write(&format!("{name}/{file}.yaml"), &both("m5.large", by));
    }
    let swings: Vec<String> = (0..12)
        .map(|nth| format!("  - {{at: {}m, apply: [{}.yaml]}}\n", 5 + 2 * nth, ["up", "down"][nth % 2]))
        .collect();
    let scenario = format!("{GATE}steps:\n{}  - {{at: 40m, apply: [far.yaml]}}\nuntil: 75m\n", swings.concat());
    let played = play_over(name, &format!("{all}{}", of_m6i("m6i", "price: \"0.107\"")), &scenario);
    played.came_out_well();
    let removed = played.removed();
    assert!(removed.values().all(|t| *t > 2400.0), "{removed:?}");
    assert!((1..=2).contains(&removed.len()), "each node moves once: {removed:?}, {:?}", launched(&played));
}
