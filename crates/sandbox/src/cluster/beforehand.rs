//! Nodes that are there before anything happens: a managed node group's, ready at time 0.

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_cloud::family::AmiFamily;
use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::SandboxCluster;
use super::cache::Key;
use super::karpenter::KarpenterOwnership;
use super::kind::Kind;
use super::kubelet::user_data::NodeConfig;
use crate::apiserver::ApiError;
use crate::region::{CapacityType, Placement, RegionError, RegionInstance};

/// Equal nodes that are to be there beforehand (`nodes` of a scenario).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodesBeforehand {
    /// `m5.large`.
    pub instance_type: String,
    /// `us-east-1a`; absent: the cluster's zones in turn.
    #[serde(default)]
    pub zone: Option<String>,
    /// Number of such nodes; 1 by default.
    #[serde(default = "one")]
    pub count: u32,
    /// `on-demand` (unless given) or `spot`.
    #[serde(default = "on_demand")]
    pub capacity_type: String,
    /// Labels besides those that every node has.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// A Karpenter has launched them; absent: they are a managed node group's.
    #[serde(default)]
    pub karpenter: Option<KarpenterOwnership>,
}

fn one() -> u32 {
    1
}

fn on_demand() -> String {
    "on-demand".to_owned()
}

/// A reason for which a node cannot be there beforehand.
#[derive(Debug, thiserror::Error)]
pub enum BeforehandError {
    /// The instance type or zone is not to be had in the region.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A capacity type that does not exist for them.
    #[error("unknown capacity type {0:?} (allowed: on-demand, spot)")]
    CapacityType(String),
    /// The NodeClaim of a node that Karpenter has launched cannot be written: the CRDs have to be there first.
    #[error("its NodeClaim: {0}")]
    NodeClaim(#[from] ApiError),
    /// The region has no zone with a subnet.
    #[error("the cluster has no zone")]
    NoZone,
}

impl SandboxCluster {
    /// Puts nodes there: instances of the managed node group, or of a Karpenter, that run, and Nodes that are ready. Answers their
    /// names.
    ///
    /// # Errors
    /// When a type, a zone or a capacity type is not to be had; the nodes before it are there then.
    pub fn place(&mut self, groups: &[NodesBeforehand]) -> Result<Vec<String>, BeforehandError> {
        let zones: Vec<String> = self.region.zones().into_iter().map(|zone| zone.name).collect();
        let mut turn = zones.iter().cycle();
        let mut names = Vec::new();
        for group in groups {
            for _ in 0..group.count {
                let zone = match &group.zone {
                    Some(zone) => zone.clone(),
                    None => turn.next().ok_or(BeforehandError::NoZone)?.clone(),
                };
                names.push(self.place_one(group, zone, names.len())?);
            }
        }
        self.catch_up();
        Ok(names)
    }

    fn place_one(&mut self, group: &NodesBeforehand, zone: String, number: usize) -> Result<String, BeforehandError> {
        let capacity_type = match group.capacity_type.as_str() {
            "on-demand" => CapacityType::OnDemand,
            "spot" => CapacityType::Spot,
            other => return Err(BeforehandError::CapacityType(other.to_owned())),
        };
        let cluster = self.ctx.settings.cluster_name.clone();
        let claim = group.karpenter.as_ref().map(|of| (of, of.claim(number)));
        let tags = match &claim {
            Some((of, name)) => of.tags(&cluster, name),
            None => node_group_tags(&cluster),
        };
        let placement = Placement {
            instance_type: group.instance_type.clone(),
            zone,
            capacity_type,
            tags,
            user_data: String::new(),
        };
        let instance = self.region.place(&placement)?;
        let more = match &claim {
            Some((of, _)) => of.labels(&instance, self.region.catalogue()),
            None => node_group_labels(&cluster, &instance),
        };
        let mut labels = group.labels.clone();
        for (key, value) in more {
            labels.entry(key).or_insert(value);
        }
        let config = NodeConfig {
            family: AmiFamily::Al2023,
            cluster: Some(cluster),
            labels: labels.clone(),
            taints: group.taints.clone(),
            ..NodeConfig::default()
        };
        self.kubelets.register(&mut self.ctx, &instance, &config, Duration::ZERO);
        // Whoever writes a scenario may give labels that a kubelet may not give itself.
        self.ctx.kube.modify(Kind::Node, &Key::new("", &instance.hostname), |node| {
            for (key, value) in &labels {
                node["metadata"]["labels"][key] = json!(value);
            }
        });
        if let Some((of, name)) = claim {
            self.claimed(of, &name, &instance, &labels)?;
        }
        Ok(instance.hostname)
    }
}

fn node_group(cluster: &str) -> String {
    format!("{cluster}-ng")
}

fn node_group_tags(cluster: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (format!("kubernetes.io/cluster/{cluster}"), "owned".to_owned()),
        ("eks:cluster-name".to_owned(), cluster.to_owned()),
        ("eks:nodegroup-name".to_owned(), node_group(cluster)),
        ("Name".to_owned(), format!("{}-Node", node_group(cluster))),
    ])
}

fn node_group_labels(cluster: &str, instance: &RegionInstance) -> BTreeMap<String, String> {
    let spot = instance.capacity_type == CapacityType::Spot;
    BTreeMap::from([
        ("eks.amazonaws.com/nodegroup".to_owned(), node_group(cluster)),
        ("eks.amazonaws.com/capacityType".to_owned(), if spot { "SPOT" } else { "ON_DEMAND" }.to_owned()),
        ("eks.amazonaws.com/nodegroup-image".to_owned(), instance.image_id.clone()),
    ])
}
