//! The shipped catalogue, resolved, against a file in which another program resolved the same types for us-east-1.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;

use dovetail_cloud::family::AmiFamily;
use dovetail_cloud::resolve::{NodeClassView, ResolveSettings, instance_types};
use dovetail_cloud::shipped;
use dovetail_core::{InstanceType, Operator};

/// The types as the other program resolved them.
fn reference() -> Vec<InstanceType> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/workloads/packed/types-ec2.json.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn ours() -> BTreeMap<String, InstanceType> {
    let catalogue = shipped::catalogue("us-east-1");
    let class = NodeClassView::in_zones(AmiFamily::Al2023, catalogue.zones.clone());
    instance_types(&catalogue, &class, &ResolveSettings::default()).into_iter().map(|t| (t.name.clone(), t)).collect()
}

fn labels(of: &InstanceType) -> BTreeMap<&str, BTreeSet<&str>> {
    let exist = of.requirements.iter().filter(|r| r.operator == Operator::In);
    exist.map(|r| (r.key.as_str(), r.values.iter().map(String::as_str).collect())).collect()
}

fn on_demand(of: &InstanceType) -> Option<f64> {
    of.offerings.iter().find(|o| o.capacity_type == "on-demand").map(|o| o.price)
}

/// Bytes of memory that the other program has less: of arm64 it takes the kernel's 64 MiB after the hypervisor's share, and
/// Karpenter's reference table has them taken before.
fn less_by_order(theirs: &InstanceType) -> i64 {
    let labels = labels(theirs);
    let only = |key: &str| labels.get(key).and_then(|values| values.iter().next().copied()).unwrap_or_default();
    let mib: f64 = only("karpenter.k8s.aws/instance-memory").parse().unwrap();
    let share = |mib: f64| (mib * 0.075).ceil();
    if only("kubernetes.io/arch") == "arm64" { ((share(mib) - share(mib - 64.0)) as i64) << 20 } else { 0 }
}

fn has_several_cards(name: &str) -> bool {
    shipped::instance_type(name).is_some_and(|info| info.network.cards.len() > 1)
}

/// Differences between the two, one line each.
fn differences(theirs: &InstanceType, ours: &InstanceType) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |what: &str, theirs: String, ours: String| {
        if theirs != ours {
            found.push(format!("{what}: {theirs} there, {ours} here"));
        }
    };
    for (name, amount) in theirs.allocatable().iter() {
        let less = if name == "memory" { less_by_order(theirs) } else { 0 };
        say(name, (amount + less).to_string(), ours.allocatable().get(name).to_string());
    }
    let here = labels(ours);
    for (key, values) in labels(theirs) {
        // The file lists three zones for every type, wherever AWS offers it, and has spaces in the names of some GPUs,
        // which a label's value cannot have. It adds up what is said of network cards, also where they share it.
        let values: BTreeSet<String> = values.into_iter().map(|v| v.replace(' ', "-")).collect();
        let differs = match key {
            "topology.kubernetes.io/zone" => true,
            "karpenter.k8s.aws/instance-network-bandwidth" => has_several_cards(&theirs.name),
            _ => false,
        };
        if !differs {
            say(key, format!("{values:?}"), format!("{:?}", here.get(key).cloned().unwrap_or_default()));
        }
    }
    match (on_demand(theirs), on_demand(ours)) {
        (Some(there), Some(here)) if (there / here - 1.0).abs() < 1e-4 => {}
        (there, here) => say("price", format!("{there:?}"), format!("{here:?}")),
    }
    found
}

#[test]
fn allocatable_labels_and_prices_are_those_of_the_reference() {
    let reference = reference();
    let ours = ours();
    let mut report = Vec::new();
    for theirs in &reference {
        match ours.get(&theirs.name) {
            Some(here) => report.extend(differences(theirs, here).into_iter().map(|d| format!("{}: {d}", theirs.name))),
            None => report.push(format!("{}: not here", theirs.name)),
        }
    }
    assert_eq!(reference.len(), 1190);
    assert!(report.is_empty(), "{} differences:\n{}", report.len(), report.join("\n"));
}

#[test]
fn a_label_that_a_type_lacks_is_said_not_to_exist() {
    let ours = ours();
    let gpu_of = |name: &str| {
        let gpu = ours[name].requirements.iter().find(|r| r.key.ends_with("instance-gpu-count"));
        gpu.map(|r| (r.operator, r.values.clone())).unwrap()
    };
    assert_eq!(gpu_of("m5.large"), (Operator::DoesNotExist, vec![]));
    assert_eq!(gpu_of("g5.12xlarge"), (Operator::In, vec!["4".to_owned()]));
}
