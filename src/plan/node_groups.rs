//! The node groups of an eksctl ClusterConfig as pools under `node-groups`: what Cluster Autoscaler has to work with.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::manifest::Manifest;
use dovetail_cloud::catalogue::{RegionCatalogue, Zone};
use dovetail_cloud::family::AmiFamily;
use dovetail_cloud::resolve::{self, NodeClassView};
use dovetail_core::labels::{CAPACITY_TYPE, ON_DEMAND, SPOT};
use dovetail_core::resources::NODES;
use dovetail_core::{NodeSelectorRequirement, Policy, Pool, Problem};
use dovetail_input::Mistake;
use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;

/// Type that eksctl takes if a group names none.
const DEFAULT_TYPE: &str = "m5.large";
/// Number of nodes that eksctl makes if a group does not say.
const DEFAULT_SIZE: u32 = 2;
/// The label that EKS gives the nodes of a group.
const GROUP: &str = "eks.amazonaws.com/nodegroup";

/// A group, by eksctl's names.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeGroup {
    name: String,
    instance_type: Option<String>,
    #[serde(default)]
    instance_types: Vec<String>,
    instances_distribution: Option<Distribution>,
    #[serde(default)]
    spot: bool,
    min_size: Option<u32>,
    max_size: Option<u32>,
    desired_capacity: Option<u32>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    taints: Vec<Taint>,
    #[serde(default)]
    availability_zones: Vec<String>,
    ami_family: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Distribution {
    #[serde(default)]
    instance_types: Vec<String>,
}

impl NodeGroup {
    fn types(&self) -> Vec<String> {
        let mixed = self.instances_distribution.as_ref().map(|own| own.instance_types.clone());
        let listed =
            if self.instance_types.is_empty() { mixed.unwrap_or_default() } else { self.instance_types.clone() };
        match &self.instance_type {
            _ if !listed.is_empty() => listed,
            Some(one) => vec![one.clone()],
            None => vec![DEFAULT_TYPE.to_owned()],
        }
    }

    /// The least and the most nodes, as eksctl completes what is written.
    fn sizes(&self) -> (u32, u32) {
        let desired = self.desired_capacity.or(self.min_size).unwrap_or(DEFAULT_SIZE);
        let least = self.min_size.unwrap_or(desired);
        (least, self.max_size.unwrap_or(desired).max(least))
    }
}

/// Adds the groups of ClusterConfigs to a problem; without `--policy node-groups` they are left out, and that is said.
pub fn apply(
    problem: &mut Problem,
    manifests: &[Manifest],
    catalogue: &RegionCatalogue,
    wanted: bool,
    warnings: &mut Vec<String>,
) -> Result<(), Vec<Mistake>> {
    let mut mistakes = Vec::new();
    for config in manifests.iter().filter(|manifest| manifest.kind == "ClusterConfig") {
        if !wanted {
            warnings
                .push(format!("ClusterConfig {}: its node groups count under --policy node-groups only", config.name));
            continue;
        }
        let region = config.object["metadata"]["region"].as_str().unwrap_or(&catalogue.region);
        if region != catalogue.region {
            warnings.push(format!("ClusterConfig {} is of {region}, planned in {}", config.name, catalogue.region));
        }
        for field in ["managedNodeGroups", "nodeGroups"] {
            for (index, written) in config.object[field].as_array().into_iter().flatten().enumerate() {
                let mistake = |(rest, what, allowed): (&str, String, String)| Mistake {
                    file: config.file.clone(),
                    line: config.line,
                    field: format!("{field}[{index}]{rest}"),
                    what,
                    allowed,
                };
                let group = NodeGroup::deserialize(written).map_err(|error| ("", error.to_string(), String::new()));
                let added = group.and_then(|group| add(problem, &group, catalogue));
                mistakes.extend(added.err().map(mistake));
            }
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

fn add(
    problem: &mut Problem,
    group: &NodeGroup,
    catalogue: &RegionCatalogue,
) -> Result<(), (&'static str, String, String)> {
    let name = group.ami_family.as_deref().unwrap_or("AL2023");
    let eksctl = match name {
        "AmazonLinux2" => "AL2",
        "AmazonLinux2023" => "AL2023",
        other => other,
    };
    let family =
        AmiFamily::parse(eksctl).ok_or_else(|| (".amiFamily", format!("{name:?} is not known"), families()))?;
    let view = NodeClassView::in_zones(family, zones(group, catalogue)?);
    let mut all: BTreeMap<String, _> = resolve::instance_types(catalogue, &view, &resolve::ResolveSettings::default())
        .into_iter()
        .map(|one| (one.name.clone(), one))
        .collect();
    let first = problem.instance_types.len();
    // Pools that may use every type there is mean those of their class.
    problem.node_pools.iter_mut().filter(|pool| pool.instance_types.is_none()).for_each(|pool| {
        pool.instance_types = Some((0..first).collect());
    });
    for kind in group.types() {
        let known = all.remove(&kind).ok_or_else(|| {
            (
                ".instanceTypes",
                format!("{kind:?} is no instance type of {}", catalogue.region),
                "EC2's names".to_owned(),
            )
        })?;
        problem.instance_types.push(Arc::new(known));
    }
    let (least, most) = group.sizes();
    let mut pool = Pool {
        name: group.name.clone(),
        labels: group.labels.clone(),
        taints: group.taints.clone(),
        policy: Policy::NodeGroups,
        min_nodes: least,
        instance_types: Some((first..problem.instance_types.len()).collect()),
        requirements: vec![NodeSelectorRequirement::one_of(CAPACITY_TYPE, [if group.spot { SPOT } else { ON_DEMAND }])],
        ..Pool::default()
    };
    pool.labels.insert(GROUP.to_owned(), group.name.clone());
    pool.limits.set(NODES, i64::from(most));
    problem.node_pools.push(pool);
    Ok(())
}

fn zones(group: &NodeGroup, catalogue: &RegionCatalogue) -> Result<Vec<Zone>, (&'static str, String, String)> {
    if group.availability_zones.is_empty() {
        return Ok(catalogue.first_zones(super::manifests::ZONES));
    }
    let known = |name: &String| catalogue.zones.iter().find(|zone| zone.name == *name).cloned();
    let found = |name: &String| {
        let names = || catalogue.zones.iter().map(|zone| zone.name.clone()).collect::<Vec<_>>().join(", ");
        known(name)
            .ok_or_else(|| (".availabilityZones", format!("{name:?} is no zone of {}", catalogue.region), names()))
    };
    group.availability_zones.iter().map(found).collect()
}

fn families() -> String {
    let known: Vec<&str> = AmiFamily::ALL.iter().map(|family| family.as_str()).collect();
    format!("AmazonLinux2, AmazonLinux2023, {}", known.join(", "))
}
