//! From a selection to launch templates and overrides (karpenter-aws 4.3, 4.4). Pure.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::v1::Ami;
use dovetail_core::resources::PODS;
use dovetail_core::{Offering, Resources};

use super::filters::{LaunchCandidate, LaunchSelection};
use super::images::ResolvedImages;

/// Elastic Fabric Adapters, as a resource.
pub(super) const EFA: &str = "vpc.amazonaws.com/efa";

/// Properties that types share if one launch template serves them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// `ami-…`.
    pub image: String,
    /// Name of the image.
    pub image_name: String,
    /// Pods that the kubelet admits.
    pub max_pods: i64,
    /// EFA interfaces; 0 unless the claim asks for them.
    pub efa: i64,
    /// The capacity reservation that the instance is to be of.
    pub reservation: Option<String>,
}

/// Types under one launch template, cheapest first.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchGroup {
    /// Properties that its types share.
    pub key: GroupKey,
    /// Cheapest first.
    pub members: Vec<LaunchCandidate>,
}

/// A type in a zone, by the subnet that it would be launched in.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// `subnet-…`.
    pub subnet: String,
    /// $/h that is paid.
    pub price: f64,
    /// $/h by which it is ranked: another one where NodeOverlays say so.
    pub rank: f64,
    /// True if NodeOverlays say so.
    pub overlaid: bool,
}

/// The selection by launch template; a type without an image is left out.
pub fn groups(selection: &LaunchSelection, amis: &[Ami], requests: &Resources) -> Vec<LaunchGroup> {
    let (wants_efa, images) = (requests.get(EFA) > 0, ResolvedImages::from_amis(amis));
    let mut groups: BTreeMap<GroupKey, Vec<LaunchCandidate>> = BTreeMap::new();
    for candidate in &selection.candidates {
        let capacity = &candidate.instance_type.capacity;
        let Some(ami) = images.fitting(&candidate.instance_type) else { continue };
        // A template names one reservation at most.
        let mut apart: BTreeMap<Option<&str>, Vec<&Offering>> = BTreeMap::new();
        candidate.offerings.iter().for_each(|one| apart.entry(one.reservation()).or_default().push(one));
        for (reservation, offerings) in apart {
            let key = GroupKey {
                image: ami.id.clone(),
                image_name: ami.name.clone(),
                max_pods: capacity.get(PODS),
                efa: if wants_efa && !candidate.instance_type.overlaid_resources.contains(EFA) {
                    capacity.get(EFA)
                } else {
                    0
                },
                reservation: reservation.map(str::to_owned),
            };
            let offerings = offerings.into_iter().cloned().collect();
            let member = LaunchCandidate { instance_type: candidate.instance_type.clone(), offerings };
            groups.entry(key).or_default().push(member);
        }
    }
    groups.into_iter().map(|(key, members)| LaunchGroup { key, members }).collect()
}

impl LaunchGroup {
    /// One override for each type and zone that has a subnet.
    pub fn overrides(&self, subnet_of: &BTreeMap<String, String>) -> Vec<Override> {
        let mut seen = BTreeSet::new();
        let offered = self.members.iter().flat_map(|m| m.offerings.iter().map(move |o| (&m.instance_type.name, o)));
        let mut overrides = Vec::new();
        for (name, offering) in offered {
            let Some(subnet) = subnet_of.get(&offering.zone) else { continue };
            if seen.insert((name.clone(), offering.zone.clone())) {
                overrides.push(Override {
                    instance_type: name.clone(),
                    zone: offering.zone.clone(),
                    subnet: subnet.clone(),
                    price: offering.billed_price(),
                    rank: offering.price,
                    overlaid: offering.list_price.is_some(),
                });
            }
        }
        overrides
    }
}

/// By zone the fewest pods that any candidate there holds: as many addresses a launch takes at least.
pub fn fewest_pods_by_zone(selection: &LaunchSelection) -> BTreeMap<String, i64> {
    let mut fewest: BTreeMap<String, i64> = BTreeMap::new();
    for candidate in &selection.candidates {
        let pods = candidate.instance_type.capacity.get(PODS);
        for offering in &candidate.offerings {
            let own = fewest.entry(offering.zone.clone()).or_insert(pods);
            *own = (*own).min(pods);
        }
    }
    fewest
}
