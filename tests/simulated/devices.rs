//! Devices by dynamic resource allocation, played through: claims of templates and claims that pods share, over a leader that is
//! killed, slices that lie, drivers that are silent or publish something else, and the setting at its default.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::common::write;
use crate::played::{Played, manifests, play_file};

/// Class of NVIDIA's GPUs, with annotations by which the sandbox's driver publishes something else.
pub fn class(annotations: &str) -> String {
    format!(
        "---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: gpu.nvidia.com, annotations: {{{annotations}}}}}
spec: {{selectors: [{{cel: {{expression: 'device.driver == \"gpu.nvidia.com\"'}}}}]}}
"
    )
}

fn request(count: u32, product: &str) -> String {
    let selector = format!("device.attributes[\"gpu.nvidia.com\"].productName == \"{product}\"");
    format!(
        "{{devices: {{requests: [{{name: gpus, exactly: {{deviceClassName: gpu.nvidia.com, count: {count}, selectors: [{{cel: {{expression: '{selector}'}}}}]}}}}]}}}}"
    )
}

pub fn template(name: &str, count: u32, product: &str) -> String {
    let spec = request(count, product);
    format!(
        "---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: {name}, namespace: default}}
spec: {{spec: {spec}}}
"
    )
}

/// A claim that pods share.
pub fn shared(name: &str, count: u32) -> String {
    let spec = request(count, "Tesla T4");
    format!(
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: {name}, namespace: default}}\nspec: {spec}\n"
    )
}

/// A Deployment whose pods have this claim, such as `resourceClaimTemplateName: one`.
pub fn deployment(name: &str, replicas: u32, claim: &str) -> String {
    let (claims, uses) = match claim {
        "" => (String::new(), String::new()),
        claim => (format!("      resourceClaims: [{{name: gpu, {claim}}}]\n"), ", claims: [{name: gpu}]".to_owned()),
    };
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 1
{claims}      containers: [{{name: main, image: pause, resources: {{requests: {{cpu: 200m, memory: 256Mi}}{uses}}}}}]
"
    )
}

/// A class of nodes and a pool of machines with and without GPUs; empty ones go after a minute.
pub fn pools() -> String {
    let all = manifests(0);
    let (pools, _) = all.rsplit_once("---\n").unwrap();
    let types = "[m5.large, g4dn.xlarge, g4dn.12xlarge, g5.xlarge]";
    let pools = pools.replace("[m5.large, m6i.large]", types);
    pools.replace("consolidateAfter: Never", "consolidateAfter: 60s")
}

pub const OPEN: &str = "  IGNORE_DRA_REQUESTS: 'false'\n  AWS_FEATURE_GATES: DRANVIDIAGPU=true\n";

#[track_caller]
pub fn play(name: &str, objects: &[String], settings: &str, scenario: &str) -> Played {
    play_in(&pools(), name, objects, settings, scenario)
}

/// Plays it in these pools.
#[track_caller]
pub fn play_in(pools: &str, name: &str, objects: &[String], settings: &str, scenario: &str) -> Played {
    write(&format!("{name}/workload.yaml"), &[pools, &objects.concat()].concat());
    let settings = if settings.is_empty() { String::new() } else { format!("settings:\n{settings}") };
    let text = format!(
        "region: us-east-1\ninstanceTypes: [m5.large, 'g4dn.*', g5.xlarge]\nseed: 1\napply: [workload.yaml]\n{settings}{scenario}"
    );
    play_file(name, &write(&format!("{name}/scenario.yaml"), &text))
}

/// Numbers of pods of a workload on each node to which they were bound.
pub fn bound(played: &Played, workload: &str) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for event in played.seen("pod", &[("change", "bound")]) {
        if event["name"].as_str().unwrap().starts_with(&format!("{workload}-")) {
            *all.entry(event["node"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
    }
    all
}

/// Bodies of NodeClaims that were created.
pub fn claims(played: &Played) -> Vec<&Value> {
    let created = played.seen("api", &[("resource", "nodeclaims"), ("verb", "create")]);
    created.into_iter().filter(|event| event["code"] == 201).map(|event| &event["sent"]).collect()
}

pub fn types(played: &Played) -> Vec<String> {
    let mut all: Vec<String> = played
        .log_events("launched")
        .iter()
        .map(|line| line["instance_type"].as_str().unwrap_or_default().to_owned())
        .collect();
    all.sort();
    all
}

pub fn unschedulable(played: &Played) -> String {
    played.log_events("unschedulable").iter().map(|line| line.to_string()).collect::<Vec<_>>().join("\n")
}

/// Three pods with a GPU each, two that share one, and one that needs four on one node; the leader is killed in the middle.
#[test]
fn pods_with_claims_get_nodes_with_their_devices() {
    for at in [1500, 4000, 40_000] {
        let objects = [
            class(""),
            template("one", 1, "Tesla T4"),
            template("four", 4, "Tesla T4"),
            shared("both", 1),
            deployment("single", 3, "resourceClaimTemplateName: one"),
            deployment("large", 1, "resourceClaimTemplateName: four"),
            deployment("pair", 2, "resourceClaimName: both"),
            deployment("plain", 1, ""),
        ];
        let steps = format!("replicas: 2\nsteps: [{{at: {at}ms, kill: {{replica: leader, for: 60s}}}}]\nuntil: 15m\n");
        let played = play(&format!("devices-{at}"), &objects, OPEN, &steps);
        played.came_out_well();
        assert_eq!(played.report["pods"]["bound"], 7, "{}", unschedulable(&played));
        assert_eq!(bound(&played, "pair").len(), 1, "those that share a device share its node");
        let single = bound(&played, "single");
        let large = bound(&played, "large");
        assert!(single.keys().all(|node| !large.contains_key(node)), "four of four are taken: {single:?} {large:?}");
        let with_gpus = claims(&played);
        let drivers: BTreeSet<_> = with_gpus
            .iter()
            .map(|claim| claim["metadata"]["annotations"]["karpenter.sh/requested-dra-drivers"].as_str())
            .collect();
        assert_eq!(drivers, [Some("gpu.nvidia.com")].into_iter().collect(), "the plain pod has room on one of them");
    }
}

#[test]
fn pod_whose_claim_no_type_satisfies_waits_and_says_why() {
    let objects = [
        class(""),
        template("none", 1, "NVIDIA H100 80GB HBM3"),
        template("one", 1, "Tesla T4"),
        deployment("vain", 2, "resourceClaimTemplateName: none"),
        deployment("single", 1, "resourceClaimTemplateName: one"),
        deployment("lost", 1, "resourceClaimName: nowhere"),
    ];
    let played = play("devices-none", &objects, OPEN, "until: 5m\n");
    assert_eq!(bound(&played, "single").len(), 1, "the others wait for nothing");
    assert_eq!((bound(&played, "vain").len(), bound(&played, "lost").len()), (0, 0));
    assert_eq!(played.number("launched"), 1, "{:?}", types(&played));
    let said = unschedulable(&played);
    assert!(said.contains("productName == \\\\\\\"NVIDIA H100 80GB HBM3"), "the selector is named: {said}");
    assert!(said.contains("is met by 0 of"), "{said}");
    assert!(said.contains("ResourceClaim default/nowhere is not there"), "{said}");
}

/// A slice of absurd numbers, one of a pool whose other slices never come, and one with two devices of one name.
#[test]
fn slices_that_lie_stop_nobody_else() {
    let lie = |name: &str, spec: &str| {
        format!(
            "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {{name: {name}}}\nspec: {{driver: gpu.nvidia.com, {spec}}}\n"
        )
    };
    let most = (0..5000).map(|at| format!("{{name: d{at}}}")).collect::<Vec<_>>().join(", ");
    let objects = [
        class(""),
        lie(
            "absurd",
            &format!(
                "allNodes: true, pool: {{name: absurd, generation: 9223372036854775807, resourceSliceCount: 1}}, devices: [{most}]"
            ),
        ),
        lie(
            "parts",
            "allNodes: true, pool: {name: parts, generation: 1, resourceSliceCount: 100000}, devices: [{name: a}]",
        ),
        lie(
            "twins",
            "allNodes: true, pool: {name: twins, generation: 1, resourceSliceCount: 1}, devices: [{name: a}, {name: a}]",
        ),
        lie(
            "ghost",
            "nodeName: nobody, pool: {name: ghost, generation: 1, resourceSliceCount: 1}, devices: [{name: a, capacity: {memory: {value: much}}}]",
        ),
        template("one", 1, "Tesla T4"),
        deployment("single", 3, "resourceClaimTemplateName: one"),
    ];
    let played = play("devices-lies", &objects, OPEN, "until: 10m\n");
    played.came_out_well();
    assert_eq!(played.report["pods"]["bound"], 3, "{}", unschedulable(&played));
}

/// Nodes publish another product than the template says: the launches are braked, and the reason names the selector.
#[test]
fn nodes_without_the_promised_devices_are_braked() {
    let objects = [
        class("sandbox.dovetail.dev/product-name: NVIDIA A10G-4Q"),
        template("one", 1, "Tesla T4"),
        deployment("single", 1, "resourceClaimTemplateName: one"),
        deployment("plain", 1, ""),
    ];
    let played = play("devices-wrong", &objects, OPEN, "until: 60m\n");
    let launched = types(&played).into_iter().filter(|name| name.starts_with('g')).count();
    assert!((2..=8).contains(&launched), "{launched}");
    assert_eq!(bound(&played, "plain").len(), 1);
    let lines = played.log_events("node_not_used");
    assert!(!lines.is_empty());
    for line in lines {
        let message = line["message"].as_str().unwrap();
        assert!(message.contains("productName == \\\"Tesla T4\\\"\" is met by 0 of"), "{message}");
    }
}

/// A driver that never publishes: the node is not initialized, its claim says what it waits for, and one after another is tried.
#[test]
fn node_waits_for_its_driver_and_is_given_up() {
    let silent = [
        class("sandbox.dovetail.dev/published-after: never"),
        template("one", 1, "Tesla T4"),
        deployment("single", 1, "resourceClaimTemplateName: one"),
    ];
    let played = play("devices-silent", &silent, OPEN, "until: 60m\n");
    let statuses = played.seen("api", &[("resource", "nodeclaims")]);
    let waits = |event: &&&Value| event["sent"].to_string().contains("DRADriverPoolsNotPublished");
    assert!(statuses.iter().any(|event| waits(&event)), "the condition has the reason");
    assert!(played.times("initialized").is_empty());
    assert!((1..=3).contains(&played.number("launched")), "{:?}", types(&played));
    assert!(played.events_of("InitializationTimeout") >= 1);
    let late = [
        class("sandbox.dovetail.dev/published-after: '120'"),
        template("one", 1, "Tesla T4"),
        deployment("single", 1, "resourceClaimTemplateName: one"),
    ];
    let played = play("devices-late", &late, OPEN, "until: 10m\n");
    played.came_out_well();
    assert_eq!(played.number("launched"), 1);
    let (registered, initialized) = (played.times("registered")[0], played.times("initialized")[0]);
    assert!(initialized - registered > 110.0, "{registered} {initialized}");
}

/// With the setting at its default nothing of devices is asked for, and what is launched is the same, byte for byte.
#[test]
fn without_the_setting_nothing_changes() {
    let workload = [deployment("single", 2, "resourceClaimTemplateName: one"), deployment("plain", 3, "")];
    let devices = [class(""), template("one", 1, "Tesla T4"), shared("both", 1)];
    let without = play("devices-off-without", &workload, "", "until: 5m\n");
    let with = play("devices-off-with", &[devices.to_vec(), workload.to_vec()].concat(), "", "until: 5m\n");
    let asked = |played: &Played| {
        let events = played.seen("api", &[]).into_iter();
        events.filter(|event| event.to_string().contains("resource.k8s.io")).cloned().collect::<Vec<_>>()
    };
    assert_eq!((asked(&without), asked(&with)), (vec![], vec![]));
    let sent = |played: &Played| claims(played).into_iter().map(|claim| claim["spec"].to_string()).collect::<Vec<_>>();
    assert_eq!(sent(&without), sent(&with));
    assert!(!sent(&with).is_empty());
    let lines = |played: &Played| {
        let said = played.log_events("unschedulable").into_iter();
        said.map(|line| line["error"].to_string()).collect::<Vec<_>>()
    };
    let unsupported = "\"dynamic resource allocation (spec.resourceClaims) is not supported yet\"";
    assert_eq!(lines(&with), [unsupported]);
}
