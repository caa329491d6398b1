//! Checks of a scenario's nodes that are there beforehand, its cluster's name, its gates, and its region's lack of capacity.

use std::collections::BTreeSet;

use dovetail_actors::settings::feature_gates;
use dovetail_api::names::syntax::is_label;
use dovetail_api::validation::{label_key, label_value};
use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_cloud::shipped;
use dovetail_sandbox::cluster::{KarpenterOwnership, NodesBeforehand};
use dovetail_sandbox::faults::glob_matches;
use k8s_openapi::api::core::v1::Taint;
use serde_saphyr::Spanned;

use super::check::{Checker, MOST_NODES, nearest};
use crate::scenario::{self, NodeGroup, Scenario};

/// Zones in which the sandbox's cluster has subnets: the region's first.
pub(super) const ZONES: usize = 3;
/// Effects that a taint may have.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const CAPACITY_TYPES: [&str; 2] = ["on-demand", "spot"];
/// Settings that a scenario has a key of its own for.
const OWN: [(&str, &str); 3] =
    [("CLUSTER_NAME", "clusterName"), ("AWS_REGION", "region"), ("FEATURE_GATES", "featureGates")];

/// Nodes beforehand as the sandbox takes them.
pub(super) fn group(group: &NodeGroup) -> NodesBeforehand {
    NodesBeforehand {
        instance_type: group.instance_type.value.clone(),
        zone: group.zone.as_ref().map(|zone| zone.value.clone()),
        count: count(group),
        capacity_type: group.capacity_type.as_ref().map_or_else(|| "on-demand".to_owned(), |kind| kind.value.clone()),
        labels: group.labels.iter().map(|(key, value)| (key.clone(), value.value.clone())).collect(),
        taints: group.taints.iter().map(taint).collect(),
        karpenter: group.karpenter.as_ref().map(|of| KarpenterOwnership {
            node_pool: of.node_pool.value.clone(),
            node_class: of.node_class.value.clone(),
        }),
    }
}

fn count(group: &NodeGroup) -> u32 {
    group.count.as_ref().map_or(1, |count| count.value)
}

fn taint(taint: &scenario::Taint) -> Taint {
    Taint {
        key: taint.key.value.clone(),
        value: taint.value.as_ref().map(|value| value.value.clone()),
        effect: taint.effect.value.clone(),
        time_added: None,
    }
}

impl Checker<'_> {
    pub(super) fn nodes(&mut self, nodes: &[NodeGroup], catalogue: &RegionCatalogue) {
        let mut all = 0_u32;
        for (index, group) in nodes.iter().enumerate() {
            let field = |name: &str| format!("nodes[{index}].{name}");
            let before = all;
            all = all.saturating_add(count(group));
            if let Some(count) = group.count.as_ref().filter(|_| before <= MOST_NODES && all > MOST_NODES) {
                let (what, most) = (format!("makes {all} nodes"), format!("{MOST_NODES} in all at most"));
                self.mistake(field("count"), count, what, most);
            }
            self.place_of(&field("instanceType"), &field("zone"), group, catalogue);
            if let Some(kind) =
                group.capacity_type.as_ref().filter(|kind| !CAPACITY_TYPES.contains(&kind.value.as_str()))
            {
                let what = format!("unknown capacity type {:?}", kind.value);
                self.mistake(field("capacityType"), kind, what, CAPACITY_TYPES.join(", "));
            }
            for (key, value) in &group.labels {
                if let Some(wrong) = label_key(key).or_else(|| label_value(&value.value)) {
                    self.mistake(field(&format!("labels.{key}")), value, wrong.what, wrong.allowed);
                }
            }
            self.taints(&field("taints"), &group.taints);
            let of = group.karpenter.as_ref();
            let named = of.map(|of| [("nodePool", &of.node_pool), ("nodeClass", &of.node_class)]).into_iter().flatten();
            for (key, name) in named.filter(|(_, name)| !is_label(&name.value)) {
                let what = format!("{:?} is no name of an object", name.value);
                self.mistake(field(&format!("karpenter.{key}")), name, what, "lower-case letters, digits and -");
            }
        }
    }

    /// Checks that an instance type can be had in the zone of the nodes.
    fn place_of(&mut self, of_type: &str, of_zone: &str, group: &NodeGroup, catalogue: &RegionCatalogue) {
        let name = &group.instance_type;
        if catalogue.instance_type(&name.value).is_none() {
            let what = format!("unknown instance type {:?}", name.value);
            self.mistake(of_type, name, what, nearest(&name.value, catalogue));
            return;
        }
        let zones: Vec<String> = catalogue.first_zones(ZONES).into_iter().map(|zone| zone.name).collect();
        let offered: BTreeSet<&str> =
            catalogue.offered.get(&name.value).into_iter().flatten().map(String::as_str).collect();
        let can: Vec<&str> = zones.iter().map(String::as_str).filter(|zone| offered.contains(zone)).collect();
        let Some(zone) = &group.zone else {
            // They take the zones in turn.
            if can.len() < zones.len() {
                let what = format!("{} is not offered in every zone of the cluster", name.value);
                self.mistake(of_zone, name, what, format!("one of {}", can.join(", ")));
            }
            return;
        };
        if !can.contains(&zone.value.as_str()) {
            let why = if zones.contains(&zone.value) { "does not offer" } else { "has no subnet of the cluster, for" };
            let what = format!("{:?} {why} {}", zone.value, name.value);
            self.mistake(of_zone, zone, what, can.join(", "));
        }
    }

    fn taints(&mut self, field: &str, taints: &[scenario::Taint]) {
        for (index, taint) in taints.iter().enumerate() {
            let field = |name: &str| format!("{field}[{index}].{name}");
            if let Some(wrong) = label_key(&taint.key.value) {
                self.mistake(field("key"), &taint.key, wrong.what, wrong.allowed);
            }
            if let Some((value, wrong)) =
                taint.value.as_ref().and_then(|value| Some((value, label_value(&value.value)?)))
            {
                self.mistake(field("value"), value, wrong.what, wrong.allowed);
            }
            if !EFFECTS.contains(&taint.effect.value.as_str()) {
                let what = format!("unknown effect {:?}", taint.effect.value);
                self.mistake(field("effect"), &taint.effect, what, EFFECTS.join(", "));
            }
            let same = |other: &scenario::Taint| {
                (&other.key.value, &other.effect.value) == (&taint.key.value, &taint.effect.value)
            };
            if taints[..index].iter().any(same) {
                let what = format!("{}:{} is there twice", taint.key.value, taint.effect.value);
                self.mistake(field("key"), &taint.key, what, "a key once with each effect");
            }
        }
    }

    /// The cluster's name as EKS takes it, and the names of gates and settings.
    pub(super) fn names_of_settings(&mut self, scenario: &Scenario) {
        let name = &scenario.cluster_name;
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let bytes = name.value.as_bytes();
        let good = bytes.first().is_some_and(u8::is_ascii_alphanumeric) && bytes.iter().all(|byte| inner(*byte));
        if !good || bytes.len() > 100 {
            let allowed = "1 to 100 letters, digits, - and _, a letter or digit first";
            self.mistake("clusterName", name, format!("{:?} is no name of an EKS cluster", name.value), allowed);
        }
        let known = feature_gates();
        for (gate, on) in scenario.feature_gates.iter().filter(|(gate, _)| !known.contains(&gate.as_str())) {
            self.mistake(format!("featureGates.{gate}"), on, "there is no such feature gate", known.join(", "));
        }
        for (setting, key) in OWN {
            if let Some(value) = scenario.settings.get(setting) {
                let what = format!("a scenario says it as `{key}`");
                self.mistake(format!("settings.{setting}"), value, what, format!("`{key}`"));
            }
        }
    }

    /// Globs of offerings, `type/zone/capacityType`; each part has to mean something in the region.
    pub(super) fn offerings(&mut self, globs: &[Spanned<String>], narrowed: Option<&RegionCatalogue>) -> Vec<String> {
        for (index, glob) in globs.iter().enumerate() {
            self.offering(&format!("faults.ec2.insufficientCapacity[{index}]"), glob, narrowed);
        }
        globs.iter().map(|glob| glob.value.clone()).collect()
    }

    pub(super) fn offering(&mut self, field: &str, glob: &Spanned<String>, narrowed: Option<&RegionCatalogue>) {
        let parts: Vec<&str> = glob.value.split('/').collect();
        let &[of_type, zone, capacity_type] = parts.as_slice() else {
            let what = format!("{:?} is no type/zone/capacityType", glob.value);
            self.mistake(field, glob, what, "three globs, such as m5.*/us-east-1a/spot");
            return;
        };
        let Some(catalogue) = narrowed.map(|narrowed| shipped::catalogue_once(&narrowed.region)) else { return };
        let wrong = |part: &str| format!("{part:?} is none of {}'s", catalogue.region);
        if !catalogue.types.iter().any(|one| glob_matches(of_type, &one.name)) {
            self.mistake(field, glob, wrong(of_type), nearest(of_type, &catalogue));
        } else if !catalogue.zones.iter().any(|one| glob_matches(zone, &one.name)) {
            let zones: Vec<&str> = catalogue.zones.iter().map(|zone| zone.name.as_str()).collect();
            self.mistake(field, glob, wrong(zone), zones.join(", "));
        } else if !["on-demand", "spot", "reserved"].iter().any(|kind| glob_matches(capacity_type, kind)) {
            let what = format!("unknown capacity type {capacity_type:?}");
            self.mistake(field, glob, what, "on-demand, spot, reserved");
        }
    }
}
