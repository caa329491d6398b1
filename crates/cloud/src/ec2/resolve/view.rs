//! The fields of an EC2NodeClass that shape its instance types, parsed once.

use std::collections::BTreeMap;

use dovetail_api::v1::{EC2NodeClassSpec, NetworkInterface, PlacementGroup, Subnet};
use dovetail_core::Resources;
use dovetail_core::resources::{EPHEMERAL_STORAGE, MEMORY, parse_amount};

use crate::catalogue::Zone;
use crate::family::AmiFamily;
use crate::launch::reserved::ReservationKind;

/// The node class as instance types depend on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeClassView {
    /// AMI family, from `amiFamily` or the alias; otherwise Custom.
    pub family: AmiFamily,
    /// The subnets that it resolved to.
    pub subnets: Vec<SubnetView>,
    /// The capacity reservations that it resolved to.
    pub reservations: Vec<ReservationView>,
    /// The placement group that it resolved to.
    pub placement_group: Option<PlacementGroup>,
    /// `kubelet.maxPods`.
    pub max_pods: Option<i64>,
    /// `kubelet.podsPerCore`.
    pub pods_per_core: Option<i64>,
    /// `kubelet.kubeReserved`: replaces the computed amounts, resource by resource.
    pub kube_reserved: Resources,
    /// `kubelet.systemReserved`.
    pub system_reserved: Resources,
    /// `kubelet.evictionHard["memory.available"]`.
    pub eviction_memory: Option<Threshold>,
    /// `kubelet.evictionHard["nodefs.available"]`.
    pub eviction_disk: Option<Threshold>,
    /// `blockDeviceMappings`.
    pub volumes: Vec<BlockDeviceVolume>,
    /// `instanceStorePolicy: RAID0`.
    pub instance_store_raid0: bool,
    /// `networkInterfaces`.
    pub network_interfaces: Vec<NetworkInterface>,
    /// `connectionTracking` is set: only Nitro types can do that.
    pub connection_tracking: bool,
    /// `cpuOptions.nestedVirtualization: enabled`.
    pub nested_virtualization: bool,
    /// `enclaveOptions.enabled`.
    pub enclaves: bool,
}

/// A subnet that instances may be in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubnetView {
    /// Zone of the subnet.
    pub zone: Zone,
    /// `subnet-…`; empty where nothing but the zone is known.
    pub id: String,
}

/// A capacity reservation whose instances may be nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReservationView {
    /// `cr-…`.
    pub id: String,
    /// Its instance type.
    pub instance_type: String,
    /// Its zone's name.
    pub zone: String,
    /// Kind of the reservation.
    pub kind: ReservationKind,
    /// True while it can be used.
    pub active: bool,
    /// Number of its instances that nobody uses.
    pub left: u32,
}

/// A limit as an amount or as a share of the capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// Percent of the capacity; 100 means that the limit is off.
    Percent(f64),
    /// Bytes.
    Bytes(i64),
}

/// A volume of `blockDeviceMappings`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockDeviceVolume {
    /// `/dev/xvda`.
    pub device: String,
    /// Pods' local storage lies on it.
    pub root: bool,
    /// Size in bytes, if it is given.
    pub bytes: Option<i64>,
}

/// A field of a node class that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct NodeClassError {
    /// Path of the field, `spec.kubelet.kubeReserved.memory`.
    pub field: String,
    /// A sentence that says what is wrong and what is allowed.
    pub problem: String,
}

impl NodeClassView {
    /// A node class of a family in some zones, everything else as the family has it.
    pub fn in_zones(family: AmiFamily, zones: Vec<Zone>) -> Self {
        let subnets = zones.into_iter().map(|zone| SubnetView { zone, id: String::new() }).collect();
        Self { family, subnets, ..Self::default() }
    }

    /// The view of a node class whose subnets are resolved.
    ///
    /// # Errors
    /// A quantity, a percentage or a kubelet field that cannot be read, by its path.
    pub fn from_spec(spec: &EC2NodeClassSpec, subnets: Vec<SubnetView>) -> Result<Self, NodeClassError> {
        let kubelet = match &spec.kubelet {
            Some(kubelet) => kubelet.understood().map_err(|e| error("spec.kubelet", e.to_string()))?,
            None => Default::default(),
        };
        Ok(Self {
            family: family_of(spec)?,
            subnets,
            reservations: vec![],
            placement_group: None,
            max_pods: kubelet.max_pods.as_ref().map(max_pods).transpose()?,
            pods_per_core: kubelet.pods_per_core.filter(|n| *n > 0),
            kube_reserved: reserved("kubeReserved", &kubelet.kube_reserved)?,
            system_reserved: reserved("systemReserved", &kubelet.system_reserved)?,
            eviction_memory: threshold(&kubelet.eviction_hard, "memory.available")?,
            eviction_disk: threshold(&kubelet.eviction_hard, "nodefs.available")?,
            volumes: volumes(spec)?,
            instance_store_raid0: spec.instance_store_policy.as_deref() == Some("RAID0"),
            network_interfaces: spec.network_interfaces.clone(),
            connection_tracking: spec.connection_tracking.is_some(),
            enclaves: spec.enables_enclaves(),
            nested_virtualization: spec.cpu_options.as_ref().and_then(|o| o.nested_virtualization.as_deref())
                == Some("enabled"),
        })
    }

    /// The zone with this name, if the class has a subnet there.
    pub fn zone(&self, name: &str) -> Option<&Zone> {
        self.subnets.iter().map(|s| &s.zone).find(|z| z.name == name)
    }

    /// Ids of the subnets in a zone.
    pub fn subnets_in<'a>(&'a self, zone: &'a str) -> impl Iterator<Item = &'a str> {
        self.subnets.iter().filter(move |s| s.zone.name == zone).map(|s| s.id.as_str())
    }
}

/// Resolved subnets (of a class's status) as instance types depend on them.
pub fn subnet_views_of(subnets: &[Subnet]) -> Vec<SubnetView> {
    let view = |s: &Subnet| SubnetView { zone: Zone { name: s.zone.clone(), id: s.zone_id.clone() }, id: s.id.clone() };
    subnets.iter().map(view).collect()
}

/// The effective family: `amiFamily`, otherwise the alias's, otherwise Custom (karpenter-aws 1.1).
///
/// # Errors
/// A family that does not exist, by the field that names it.
pub fn family_of(spec: &EC2NodeClassSpec) -> Result<AmiFamily, NodeClassError> {
    if let Some(name) = &spec.ami_family {
        return AmiFamily::parse(name).ok_or_else(|| unknown_family("spec.amiFamily", name));
    }
    match spec.ami_selector_terms.iter().find_map(|t| t.alias.as_deref()) {
        Some(alias) => AmiFamily::parse(alias).ok_or_else(|| unknown_family("spec.amiSelectorTerms.alias", alias)),
        None => Ok(AmiFamily::Custom),
    }
}

fn unknown_family(field: &str, name: &str) -> NodeClassError {
    let known: Vec<_> = AmiFamily::ALL.iter().map(|f| f.as_str()).collect();
    error(field, format!("unknown AMI family {name:?}; known are {}", known.join(", ")))
}

fn error(field: impl Into<String>, problem: impl Into<String>) -> NodeClassError {
    NodeClassError { field: field.into(), problem: problem.into() }
}

fn max_pods(value: &serde_json::Value) -> Result<i64, NodeClassError> {
    value
        .as_i64()
        .filter(|n| *n >= 0)
        .ok_or_else(|| error("spec.kubelet.maxPods", format!("{value} is no integer of 0 or more")))
}

fn reserved(field: &str, amounts: &BTreeMap<String, String>) -> Result<Resources, NodeClassError> {
    let mut resources = Resources::new();
    for (name, text) in amounts {
        let amount =
            parse_amount(name, text).map_err(|e| error(format!("spec.kubelet.{field}.{name}"), e.to_string()))?;
        resources.set(name.as_str(), amount);
    }
    Ok(resources)
}

fn threshold(eviction: &BTreeMap<String, String>, signal: &str) -> Result<Option<Threshold>, NodeClassError> {
    let Some(text) = eviction.get(signal) else { return Ok(None) };
    let field = || format!("spec.kubelet.evictionHard[{signal:?}]");
    let parsed = match text.strip_suffix('%') {
        Some(percent) => percent
            .parse()
            .ok()
            .filter(|p| (0.0..=100.0).contains(p))
            .map(Threshold::Percent)
            .ok_or_else(|| error(field(), format!("{text:?} is no percentage from 0% to 100%")))?,
        None => Threshold::Bytes(parse_amount(MEMORY, text).map_err(|e| error(field(), e.to_string()))?),
    };
    Ok(Some(parsed))
}

fn volumes(spec: &EC2NodeClassSpec) -> Result<Vec<BlockDeviceVolume>, NodeClassError> {
    let mappings = spec.block_device_mappings.iter().enumerate();
    mappings
        .map(|(i, mapping)| {
            let size = mapping.ebs.as_ref().and_then(|ebs| ebs.volume_size.as_ref());
            let bytes = size
                .map(|q| parse_amount(EPHEMERAL_STORAGE, &q.0))
                .transpose()
                .map_err(|e| error(format!("spec.blockDeviceMappings[{i}].ebs.volumeSize"), e.to_string()))?;
            let device = mapping.device_name.clone().unwrap_or_default();
            Ok(BlockDeviceVolume { device, root: mapping.root_volume == Some(true), bytes })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn spec(yaml: serde_json::Value) -> EC2NodeClassSpec {
        let mut base = serde_json::json!({"subnetSelectorTerms": [], "securityGroupSelectorTerms": []});
        base.as_object_mut().unwrap().extend(yaml.as_object().unwrap().clone());
        serde_json::from_value(base).unwrap()
    }

    #[test]
    fn the_family_comes_from_the_field_then_the_alias_then_custom() {
        let alias = serde_json::json!([{"alias": "bottlerocket@latest"}]);
        assert_eq!(family_of(&spec(serde_json::json!({"amiSelectorTerms": alias}))), Ok(AmiFamily::Bottlerocket));
        let both = serde_json::json!({"amiFamily": "Custom", "amiSelectorTerms": alias});
        assert_eq!(family_of(&spec(both)), Ok(AmiFamily::Custom));
        assert_eq!(family_of(&spec(serde_json::json!({}))), Ok(AmiFamily::Custom));
    }

    #[test]
    fn what_cannot_be_read_is_named_by_its_path() {
        let bad = spec(serde_json::json!({"kubelet": {"kubeReserved": {"memory": "lots"}}}));
        assert_eq!(NodeClassView::from_spec(&bad, vec![]).unwrap_err().field, "spec.kubelet.kubeReserved.memory");
        let bad = spec(serde_json::json!({"kubelet": {"evictionHard": {"memory.available": "120%"}}}));
        assert!(NodeClassView::from_spec(&bad, vec![]).unwrap_err().to_string().contains("0% to 100%"));
        let bad = spec(serde_json::json!({"blockDeviceMappings": [{"ebs": {"volumeSize": "big"}}]}));
        assert_eq!(
            NodeClassView::from_spec(&bad, vec![]).unwrap_err().field,
            "spec.blockDeviceMappings[0].ebs.volumeSize"
        );
    }
}
