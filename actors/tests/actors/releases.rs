//! Releases beside one another: what one wrote into the cluster, half done included, the next goes on with, and what
//! this one writes the earlier ones can read. `releases/VERSION.json` is what a release left when its leader was killed:
//! `UPDATE=1` writes that of a version that has none yet, and what is kept stays as it is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::world;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::annotations;
use dovetail_cloud::Instance;
use dovetail_core::clock::Clock as _;
use dovetail_core::ownership::is_token_of;
use dovetail_core::ownership::token::{attempt_of, launch_token};
use dovetail_sandbox::apiserver::{DeleteOptions, EC2_NODE_CLASSES, Gvr, LEASES, NODE_CLAIMS, NODE_POOLS, NODES, PODS};
use serde_json::{Value, json};
use tokio::task::LocalSet;
use world::cloud::{Launched, subnet_in};
use world::{Spoil, World, run, seconds};

/// Kinds kept of a release, in the order in which their objects are made again.
static KEPT: [Gvr; 6] = [NODE_POOLS, EC2_NODE_CLASSES, LEASES, NODE_CLAIMS, NODES, PODS];
/// Prefixes of our keys.
const OURS: [&str; 2] = ["karpenter", "dovetail.dev"];
const LAUNCH_TOKEN: &str = "dovetail.dev/launch-token";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/releases")
}

/// A node with its pods, a launch that was never answered, and a leader that is killed.
async fn left_behind(world: &World) -> Value {
    world.pool("default", json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]));
    world.pods(4, "500m");
    let leader = LocalSet::new();
    let before = world.clone();
    leader
        .run_until(async move {
            let replica = before.replica(0);
            before.until_bound(4, seconds(180)).await;
            tokio::time::sleep(seconds(30)).await;
            before.cloud.spoil([Spoil::Hangs]);
            let living = before.cloud.living().len();
            // One that has no room on the nodes there.
            before.pods_of("more", 1, "1800m");
            while before.cloud.living().len() == living {
                tokio::time::sleep(seconds(1)).await;
            }
            drop(replica);
        })
        .await;
    drop(leader);
    let instance = |launched: &Launched| {
        let Launched { instance: one, labels, cpu } = launched;
        json!({"id": one.id, "type": one.instance_type, "zone": one.zone, "capacityType": one.capacity_type,
            "token": one.tags[LAUNCH_TOKEN], "name": one.private_dns_name, "labels": labels, "cpu": cpu,
            "launchedAt": one.launched_at.map(|time| time.to_string())})
    };
    let instances: Vec<Value> = world.cloud.launched().iter().map(instance).collect();
    let objects: Vec<Value> = KEPT.iter().flat_map(|kind| world.api.list(kind)).map(without_managers).collect();
    json!({"seconds": world.clock.monotonic().as_secs(), "objects": objects, "instances": instances})
}

fn without_managers(object: Arc<Value>) -> Value {
    let mut object = Value::clone(&object);
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    object
}

/// Makes a world what a release left.
async fn restore(world: &World, left: &Value) {
    let since = seconds(left["seconds"].as_u64().unwrap()).saturating_sub(world.clock.monotonic());
    tokio::time::sleep(since).await;
    let text = |of: &Value, key: &str| of[key].as_str().unwrap().to_owned();
    let joined: BTreeSet<&str> =
        left["objects"].as_array().unwrap().iter().filter_map(|one| one["spec"]["providerID"].as_str()).collect();
    // The server gives out UIDs of its own; what refers to an object refers to it by those.
    let (mut uids, mut tokens): (BTreeMap<String, String>, BTreeMap<String, String>) = Default::default();
    for object in left["objects"].as_array().unwrap() {
        let recorded = text(&object["metadata"], "uid");
        let known = uids.iter().chain(&tokens).fold(object.to_string(), |text, (old, new)| text.replace(old, new));
        let mut object: Value = serde_json::from_str(&known).unwrap();
        let old = text(&object["metadata"], "uid");
        let kind = KEPT.iter().find(|kind| kind_of(kind) == object["kind"]).unwrap();
        let meta = object["metadata"].as_object_mut().unwrap();
        ["uid", "resourceVersion", "creationTimestamp", "generation"].iter().for_each(|key| drop(meta.remove(*key)));
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let status = object["status"].take();
        let made = world.api.create(kind, &namespace, object).unwrap();
        let name = text(&made["metadata"], "name");
        if !status.is_null() {
            world.api.patch_status(kind, &namespace, &name, &json!({"status": status})).unwrap();
        }
        let new = text(&made["metadata"], "uid");
        // So do launch tokens, which are made of them: each release's are known again by theirs.
        if let Some(token) =
            made["metadata"]["annotations"][LAUNCH_TOKEN].as_str().filter(|_| made["kind"] == "NodeClaim")
        {
            assert!(is_token_of(token, &recorded), "{token} is not made of {recorded}");
            let ours = launch_token([new.as_str()], attempt_of(token).unwrap());
            let patch = json!({"metadata": {"annotations": {LAUNCH_TOKEN: ours}}});
            world.api.patch(kind, &namespace, &name, &patch).unwrap();
            tokens.insert(token.to_owned(), ours);
        }
        uids.insert(old, new);
    }
    for one in left["instances"].as_array().unwrap() {
        let instance = Instance {
            id: text(one, "id"),
            state: "running".into(),
            instance_type: text(one, "type"),
            zone: text(one, "zone"),
            capacity_type: text(one, "capacityType"),
            image_id: "ami-1".into(),
            subnet_id: subnet_in(&text(one, "zone")),
            private_dns_name: text(one, "name"),
            launched_at: one["launchedAt"].as_str().map(|time| time.parse().unwrap()),
            tags: [
                (LAUNCH_TOKEN.to_owned(), tokens[one["token"].as_str().unwrap()].clone()),
                ("dovetail.dev/cluster-uid".to_owned(), "uid-of-this-cluster".to_owned()),
            ]
            .into(),
            ..Instance::default()
        };
        let joins = !joined.contains(instance.provider_id().as_str());
        let labels = serde_json::from_value(one["labels"].clone()).unwrap();
        world.cloud.restore(Launched { instance, labels, cpu: text(one, "cpu") }, joins);
    }
}

fn kind_of(kind: &Gvr) -> &'static str {
    match kind.resource.as_ref() {
        "nodepools" => "NodePool",
        "ec2nodeclasses" => "EC2NodeClass",
        "leases" => "Lease",
        "nodeclaims" => "NodeClaim",
        "nodes" => "Node",
        _ => "Pod",
    }
}

/// Claim whose launch 0.1.0 left without an answer, and the instance that it had got.
const CLAIM_OF_0_1_0: (&str, &str) = ("default-5bxrh", "i-00000000000000003");
const WRITTEN_BY_0_1_0: [(&str, &str); 7] = [
    ("dovetail.dev/launch-token", "dt-8bacff3991b304378c6476e257627d8f-1"),
    ("dovetail.dev/term", "27"),
    ("dovetail.dev/traceparent", "00-ead4073b99ae48a1ae60012f81ea190a-1a01ddb05bf7b038-01"),
    ("karpenter.k8s.aws/ec2nodeclass-hash", "9379170157516162852"),
    ("karpenter.k8s.aws/ec2nodeclass-hash-version", "dovetail-v1"),
    ("karpenter.sh/nodepool-hash", "17863442917012138986"),
    ("karpenter.sh/nodepool-hash-version", "dovetail-v1"),
];

/// Every release that is kept, by version.
fn releases() -> Vec<(String, Value)> {
    let mut all: Vec<(String, Value)> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let version = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (version, serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(!all.is_empty(), "no release is kept in {}", folder().display());
    all
}

/// Our keys on the objects, and the form of what stands under those that we alone write.
fn written(left: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for object in left["objects"].as_array().unwrap() {
        let (kind, meta) = (object["kind"].as_str().unwrap(), &object["metadata"]);
        for part in ["annotations", "labels"] {
            for (key, value) in meta[part].as_object().into_iter().flatten() {
                if OURS.iter().any(|own| key.contains(own)) {
                    let form = if key.starts_with("dovetail.dev/") || key.ends_with("-version") {
                        form(value.as_str().unwrap())
                    } else {
                        "…".into()
                    };
                    found.insert(format!("{kind} {part} {key}: {form}"));
                }
            }
        }
        let finalizers = meta["finalizers"].as_array().into_iter().flatten();
        found.extend(finalizers.map(|one| format!("{kind} finalizer {}", one.as_str().unwrap())));
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        if kind != "Node" && kind != "Pod" {
            found.extend(conditions.map(|one| format!("{kind} condition {}", one["type"].as_str().unwrap())));
        }
        if kind == "Lease" {
            let spec = object["spec"].as_object().unwrap();
            found.extend(
                spec.iter().map(|(key, value)| format!("Lease {key}: {}", if value.is_i64() { "9" } else { "…" })),
            );
        }
    }
    found
}

/// The hashes of pools and classes, by kind and key, of one version each.
fn hashes(left: &Value) -> BTreeMap<(String, String), (String, String)> {
    let mut found = BTreeMap::new();
    for object in left["objects"].as_array().unwrap() {
        let kind = object["kind"].as_str().unwrap();
        let written = object["metadata"]["annotations"].as_object().into_iter().flatten();
        // The record of a hash has none of its own.
        let hashes = written.filter(|(key, _)| key.ends_with("-hash") && *key != annotations::COMPUTED_HASH);
        for (key, hash) in hashes {
            let version = &object["metadata"]["annotations"][format!("{key}-version")];
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            found.insert((kind.to_owned(), key.clone()), (text(version), text(hash)));
        }
    }
    found
}

/// `deadbeef01-12` is `h-9`.
fn form(value: &str) -> String {
    let mut form = String::new();
    let mut run = String::new();
    for letter in value.chars().map(Some).chain([None]) {
        match letter {
            Some(letter) if letter.is_ascii_hexdigit() => run.push(letter),
            other => {
                form.push_str(match () {
                    () if run.len() >= 8 => "h",
                    () if !run.is_empty() && run.chars().all(|one| one.is_ascii_digit()) => "9",
                    () => &run,
                });
                run.clear();
                form.extend(other);
            }
        }
    }
    form
}

/// Lines that each release writes anew as soon as it leads. Claims of nodes with pods are no longer Consolidatable if nothing
/// consolidates them; versions of hashes are Karpenter's (docs/decisions/083), and a claim of another is stamped and does not drift.
const ANEW: [&str; 7] = [
    "EC2NodeClass annotations karpenter.k8s.aws/ec2nodeclass-hash-version: dovetail-v9",
    "NodeClaim annotations karpenter.k8s.aws/ec2nodeclass-hash-version: dovetail-v9",
    "NodeClaim annotations karpenter.sh/nodepool-hash-version: dovetail-v9",
    "NodeClaim condition Consolidatable",
    "Node annotations karpenter.k8s.aws/ec2nodeclass-hash-version: dovetail-v9",
    "Node annotations karpenter.sh/nodepool-hash-version: dovetail-v9",
    "NodePool annotations karpenter.sh/nodepool-hash-version: dovetail-v9",
];

#[test]
fn what_this_release_writes_those_before_it_can_read() {
    run(|world| async move {
        let left = left_behind(&world).await;
        let own = folder().join(format!("{}.json", env!("CARGO_PKG_VERSION")));
        if std::env::var_os("UPDATE").is_some() && !own.exists() {
            fs::write(&own, format!("{left:#}\n")).unwrap();
        }
        assert!(own.exists(), "{} is made by UPDATE=1", own.display());
        let now = written(&left);
        assert!(now.contains("NodeClaim annotations dovetail.dev/term: 9"), "{now:#?}");
        for (version, left) in releases() {
            let missing: Vec<_> =
                written(&left).difference(&now).filter(|one| !ANEW.contains(&one.as_str())).cloned().collect();
            assert!(missing.is_empty(), "{version} looks for {missing:#?}");
        }
        // A leader of an earlier release would replace every node.
        let now = hashes(&left);
        for (version, left) in releases() {
            for (of, (scheme, hash)) in hashes(&left) {
                let (scheme_now, hash_now) = &now[&of];
                assert!(scheme_now != &scheme || hash_now == &hash, "{version} takes {of:?} for drifted: {scheme}");
            }
        }
    });
}

#[test]
fn what_0_1_0_left_is_kept_as_it_was() {
    let releases: BTreeMap<String, Value> = releases().into_iter().collect();
    let left = &releases["0.1.0"];
    let found = |list: &Value, key: &str, wanted: &str| {
        let list = list.as_array().unwrap();
        list.iter().find(|one| one.pointer(key).is_some_and(|value| value == wanted)).unwrap().clone()
    };
    let claim = found(&left["objects"], "/metadata/name", CLAIM_OF_0_1_0.0);
    let written: BTreeMap<String, String> = serde_json::from_value(claim["metadata"]["annotations"].clone()).unwrap();
    assert_eq!(written, WRITTEN_BY_0_1_0.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    assert_eq!(found(&left["instances"], "/id", CLAIM_OF_0_1_0.1)["token"], written["dovetail.dev/launch-token"]);
    // It knew no marks.
    let lease = found(&left["objects"], "/kind", "Lease");
    assert_eq!((&lease["metadata"]["annotations"], &lease["spec"]["leaseTransitions"]), (&Value::Null, &json!(27)));
}

/// The Lease as 0.1.0 writes it, by its rules: a merge of these fields, the mark of later releases left as it is.
fn written_by_0_1_0(world: &World, holder: &str, term: i64) {
    let now = world.clock.wall().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let spec =
        json!({"holderIdentity": holder, "leaseTransitions": term, "leaseDurationSeconds": 15, "renewTime": now});
    world.api.patch(&LEASES, "kube-system", LEASE, &json!({"spec": spec})).unwrap();
}

const LEASE: &str = "karpenter-leader-election";

/// Holder and term of the Lease, as 0.1.0 reads it.
fn read_by_0_1_0(world: &World) -> (String, i64) {
    let lease = world.api.get(&LEASES, "kube-system", LEASE).unwrap();
    let spec = &lease["spec"];
    assert!(spec["leaseDurationSeconds"].as_i64().unwrap() >= 1, "{spec}");
    (spec["holderIdentity"].as_str().unwrap().to_owned(), spec["leaseTransitions"].as_i64().unwrap())
}

/// A leader of 0.1.0 renews for so long.
async fn renewed_by_0_1_0(world: &World, holder: &str, term: i64, time: Duration) {
    let until = world.clock.monotonic() + time;
    while world.clock.monotonic() < until {
        written_by_0_1_0(world, holder, term);
        tokio::time::sleep(seconds(2)).await;
        assert_eq!(read_by_0_1_0(world), (holder.to_owned(), term), "{}", world.log_events().join("\n"));
    }
}

#[test]
fn replicas_of_0_1_0_and_this_release_lead_in_turn_by_one_lease() {
    let releases: BTreeMap<String, Value> = releases().into_iter().collect();
    run(|world| async move {
        restore(&world, &releases["0.1.0"]).await;
        let before = read_by_0_1_0(&world).1;
        written_by_0_1_0(&world, "earlier-0", before);
        let replica = world.replica(7);
        renewed_by_0_1_0(&world, "earlier-0", before, seconds(60)).await;
        assert!(
            !world.log_events().iter().any(|line| line.contains("elected by")),
            "{}",
            world.log_events().join("\n")
        );

        // It gives the Lease back, as on SIGTERM; without a mark that is only known to be so after its duration.
        written_by_0_1_0(&world, "", before);
        tokio::time::sleep(seconds(20)).await;
        let (holder, ours) = read_by_0_1_0(&world);
        assert!(holder.starts_with("replica-7") && ours > before, "{holder} {ours}\n{}", world.log_events().join("\n"));
        world.until_bound(5, seconds(300)).await;
        assert_eq!(world.cloud.calls().len(), 0, "{}", world.log_events().join("\n"));

        // And the other way about: what it takes after us is a term above ours, and we wait for it.
        replica.shutdown().await;
        drop(replica);
        assert_eq!(read_by_0_1_0(&world), (String::new(), ours));
        written_by_0_1_0(&world, "earlier-0", ours + 1);
        let _next = world.replica(8);
        renewed_by_0_1_0(&world, "earlier-0", ours + 1, seconds(60)).await;
        // Killed: nobody gives anything back.
        tokio::time::sleep(seconds(30)).await;
        let (holder, last) = read_by_0_1_0(&world);
        assert!(
            holder.starts_with("replica-8") && last > ours + 1,
            "{holder} {last}\n{}",
            world.log_events().join("\n")
        );
    });
}

#[test]
fn half_done_work_of_every_release_goes_on_and_replaces_nothing() {
    for (version, left) in releases() {
        run(|world| async move {
            let under_way = |one: &&Value| one["kind"] == "NodeClaim" && one["status"]["providerID"].is_null();
            let claims = left["objects"].as_array().unwrap().iter().filter(under_way);
            assert_eq!(claims.count(), 1, "{version} has left one launch without an answer");
            restore(&world, &left).await;
            let _replica = world.replica(7);
            world.until_bound(5, seconds(300)).await;
            let log_events = || format!("{version}:\n{}", world.log_events().join("\n"));
            // The launch is known by its token: the instance that it had got is its claim's.
            for claim in left["objects"].as_array().unwrap().iter().filter(under_way) {
                let (name, token) = (&claim["metadata"]["name"], &claim["metadata"]["annotations"][LAUNCH_TOKEN]);
                let got = left["instances"].as_array().unwrap().iter().find(|one| &one["token"] == token).unwrap();
                let now = world.claims().into_iter().find(|one| &one["metadata"]["name"] == name).unwrap();
                let provider = now["status"]["providerID"].as_str().unwrap();
                assert!(provider.ends_with(got["id"].as_str().unwrap()), "{provider}: {}", log_events());
            }
            let names = || world.claims().iter().map(|one| one["metadata"]["name"].clone()).collect::<Vec<_>>();
            let before = names();
            tokio::time::sleep(seconds(900)).await;
            assert_eq!((names(), world.cloud.calls().len()), (before.clone(), 0), "{}", log_events());
            let of = |list: &[Value], key: &str| list.iter().filter(|one| one["kind"] == key).count();
            assert_eq!(before.len(), of(left["objects"].as_array().unwrap(), "NodeClaim"), "{}", log_events());
            for claim in world.claims() {
                let conditions = claim["status"]["conditions"].as_array().unwrap();
                let drifted = conditions.iter().any(|one| one["type"] == "Drifted" && one["status"] == "True");
                assert!(!drifted && claim["status"]["nodeName"].is_string(), "{claim:#}");
            }
            let term = |objects: &[Value]| {
                let lease = objects.iter().find(|one| one["kind"] == "Lease").unwrap();
                lease["spec"]["leaseTransitions"].as_i64().unwrap()
            };
            let leases: Vec<Value> = world.api.list(&LEASES).iter().map(|one| Value::clone(one)).collect();
            assert!(term(&leases) > term(left["objects"].as_array().unwrap()), "{leases:?}");

            // Its finalizers, tokens and labels are ours: all of it can be taken away again.
            for pod in world.api.list(&PODS) {
                let name = pod["metadata"]["name"].as_str().unwrap();
                let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
                world.api.delete(&PODS, "default", name, &now).unwrap();
            }
            let begun = world.clock.monotonic();
            while !(world.claims().is_empty() && world.api.list(&NODES).is_empty()) {
                assert!(world.clock.monotonic() - begun < seconds(900), "{}", log_events());
                tokio::time::sleep(seconds(1)).await;
            }
            assert!(world.cloud.living().is_empty());
        });
    }
}

#[test]
fn the_forms_of_values_are_told_apart() {
    assert_eq!(form("17"), "9");
    assert_eq!(form("0123abcdef-3"), "h-9");
    assert_eq!(form("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), "9-h-h-9");
    assert_ne!(form("true"), form("no"));
}
