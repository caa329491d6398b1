//! Place of a launched instance: placement group, partition and tenancy (karpenter-aws 2, 3.4). Pure.

use std::collections::BTreeSet;

use dovetail_api::names::labels::{INSTANCE_TENANCY, PLACEMENT_GROUP_PARTITION, TENANCY_DEDICATED, TENANCY_DEFAULT};
use dovetail_api::v1::PlacementGroup;
use dovetail_core::{Offering, Requirements};

use super::LaunchError;
use super::filters::LaunchSelection;
use crate::hash::fnv;

/// Place of an instance, as its launch template says it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placing {
    /// `pg-…`, where the instance belongs into a group.
    pub group: Option<String>,
    /// Its partition, where the group has such.
    pub partition: Option<u32>,
    /// No other account has an instance on its hardware.
    pub dedicated: bool,
}

impl Placing {
    /// Value of the node's label [`INSTANCE_TENANCY`].
    pub fn tenancy(&self) -> &'static str {
        if self.dedicated { TENANCY_DEDICATED } else { TENANCY_DEFAULT }
    }
}

/// True if requirements leave dedicated hardware only: where both will do, shared hardware is taken, which costs less.
pub(super) fn wants_dedicated(wanted: &Requirements) -> bool {
    wanted.get(INSTANCE_TENANCY).is_some_and(|one| !one.has(TENANCY_DEFAULT) && one.has(TENANCY_DEDICATED))
}

/// The partition that an offering is of.
pub fn partition_of(offering: &Offering) -> Option<u32> {
    let own = offering.requirements.iter().find(|one| one.key == PLACEMENT_GROUP_PARTITION)?;
    own.values.first()?.parse().ok()
}

/// Puts a selection into a group. Of its partitions one is settled on, spread over launches by their tokens: its number is
/// in the launch template, so that it is known as a label before the instance is there.
///
/// # Errors
/// No offering is left: the group is bound to a zone that the launch may not go to.
pub fn place(selection: &mut LaunchSelection, group: &PlacementGroup, token: &str) -> Result<(), LaunchError> {
    if let Some(zone) = &group.zone {
        selection.retain(|one| one.zone == *zone);
        if selection.candidates.is_empty() {
            let why = format!("cluster placement group {} is in {zone}, where nothing else will do", group.name);
            return Err(LaunchError::insufficient_capacity(why, Vec::new()));
        }
    }
    let offered = selection.candidates.iter().flat_map(|one| &one.offerings).filter_map(partition_of);
    let offered: BTreeSet<u32> = offered.collect();
    let open: Vec<u32> = if offered.is_empty() { group.partitions().collect() } else { offered.into_iter().collect() };
    let partition = (!open.is_empty()).then(|| open[(fnv(token) % open.len() as u64) as usize]);
    selection.retain(|one| partition_of(one).is_none_or(|own| Some(own) == partition));
    selection.placing.group = Some(group.id.clone());
    selection.placing.partition = partition;
    Ok(())
}

/// The zone of the cheapest offering, to which a cluster group without instances is bound.
pub fn first_zone(selection: &LaunchSelection) -> Option<String> {
    let cheapest = selection.candidates.first()?.offerings.iter();
    cheapest.min_by(|a, b| a.price.total_cmp(&b.price)).map(|one| one.zone.clone())
}
