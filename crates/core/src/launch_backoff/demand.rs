//! The demand of a launch, as far as one refusal says something about another.

use std::collections::BTreeSet;

use dovetail_api::names::labels::{ON_DEMAND, RESERVED, SPOT};

use crate::cluster_state::Planning;
use crate::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use crate::pack::PlannedClaim;
use crate::requirements::{Operator, Requirements};
use crate::resources::Resources;

/// Pool, zones, capacity type and requests of a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demand {
    /// Name of the NodePool.
    pub pool: String,
    /// The pool's `metadata.generation`.
    pub generation: Option<i64>,
    /// Its requirements beside instance types, zones and capacity types: those of its pods and of its pool.
    pub shape: String,
    /// The zones in which any of its instance types is believed to be available.
    pub zones: BTreeSet<String>,
    /// The capacity type that is tried: the first of reserved, spot and on-demand of which any is believed to be available.
    pub capacity_type: String,
    /// Requests of its pods and daemons.
    pub requests: Resources,
}

impl Demand {
    /// The demand of a planned claim; `None` if its pool is not there.
    #[must_use]
    pub fn from_planned(planned: &PlannedClaim, planning: &Planning) -> Option<Self> {
        let pool = planning.pools.get(planned.pool)?;
        let open = |key: &str| [INSTANCE_TYPE, ZONE, CAPACITY_TYPE].contains(&key);
        let shape = planned.requirements.iter().filter(|one| !open(&one.key)).map(|one| {
            let operator = if one.operator == Operator::In { "In".to_owned() } else { format!("{:?}", one.operator) };
            format!("{} {operator} {:?}", one.key, one.values)
        });
        let mut shape: Vec<String> = shape.collect();
        shape.sort();
        let (zones, capacity_type) = market(planned, planning);
        Some(Self {
            pool: pool.metadata.name.clone().unwrap_or_default(),
            generation: pool.metadata.generation,
            shape: shape.join(", "),
            zones,
            capacity_type,
            requests: planned.requests.clone(),
        })
    }

    /// True if a lack of capacity for this demand means the same for the other: one that asks for as much, or more, in no
    /// other place.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.has_the_market_of(other) && self.shape == other.shape && self.requests.fits_in(&other.requests)
    }

    /// True if the other would be served only in these zones, at this capacity type.
    pub(super) fn has_the_market_of(&self, other: &Self) -> bool {
        self.is_in_the_same_market(other) && other.zones.is_subset(&self.zones)
    }

    /// True if both would be served in some of the same zones, at the same capacity type.
    pub(super) fn is_in_the_same_market(&self, other: &Self) -> bool {
        let anywhere = self.zones.is_empty() && other.zones.is_empty();
        self.pool == other.pool
            && self.capacity_type == other.capacity_type
            && (anywhere || !self.zones.is_disjoint(&other.zones))
    }
}

/// The zones and the capacity type in which a planned claim would be served.
fn market(planned: &PlannedClaim, planning: &Planning) -> (BTreeSet<String>, String) {
    let wanted = Requirements::from_written(&planned.requirements).unwrap_or_default();
    let allows = |key: &str, value: &str| wanted.get(key).is_none_or(|one| one.has(value));
    let types = planned.options.iter().filter_map(|option| planning.problem.instance_types.get(option.instance_type));
    let available = types
        .flat_map(|one| &one.offerings)
        .filter(|one| one.available && allows(ZONE, &one.zone) && allows(CAPACITY_TYPE, &one.capacity_type));
    let available: BTreeSet<(&str, &str)> =
        available.map(|one| (one.capacity_type.as_str(), one.zone.as_str())).collect();
    let tried = [RESERVED, SPOT, ON_DEMAND].into_iter().find(|name| available.iter().any(|(found, _)| found == name));
    let tried = tried.unwrap_or(&planned.cheapest_capacity_type);
    let zones = available.iter().filter(|(found, _)| *found == tried).map(|(_, zone)| (*zone).to_owned()).collect();
    (zones, tried.to_owned())
}
