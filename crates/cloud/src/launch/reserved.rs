//! Reserved capacity of three kinds, of which one launch takes one (karpenter-aws 4.1, 4.3, 4.4). Pure.

use dovetail_api::names::labels::{
    CAPACITY_BLOCK, CAPACITY_RESERVATION_INTERRUPTIBLE, CAPACITY_RESERVATION_TYPE, RESERVED,
};
use dovetail_core::Offering;

use super::filters::LaunchCandidate;

/// Kind of a reservation, which decides how an instance is launched into it. In the order in which equals are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReservationKind {
    /// Instances that are kept for the account, at the price on demand.
    #[default]
    Default,
    /// Instances that are bought for a while, paid for in advance.
    CapacityBlock,
    /// Instances that their owner lends, and takes back with a warning.
    Interruptible,
}

impl ReservationKind {
    /// The kind of a reservation, from its type and `interruptible` in a class's status.
    pub fn from_status(reservation_type: &str, interruptible: bool) -> Self {
        match (reservation_type, interruptible) {
            (CAPACITY_BLOCK, _) => Self::CapacityBlock,
            (_, true) => Self::Interruptible,
            (_, false) => Self::Default,
        }
    }

    /// Value of the label `karpenter.k8s.aws/capacity-reservation-type`.
    pub fn type_label(self) -> &'static str {
        if self == Self::CapacityBlock { CAPACITY_BLOCK } else { "default" }
    }

    /// Value of the label `karpenter.k8s.aws/capacity-reservation-interruptible`.
    pub fn interruptible_label(self) -> &'static str {
        if self == Self::Interruptible { "true" } else { "false" }
    }

    /// The kind of reservation that a reserved offering is of.
    pub fn of_offering(offering: &Offering) -> Self {
        let value = |key: &str| {
            let own = offering.requirements.iter().find(|one| one.key == key);
            own.and_then(|own| own.values.first()).map(String::as_str).unwrap_or_default()
        };
        Self::from_status(value(CAPACITY_RESERVATION_TYPE), value(CAPACITY_RESERVATION_INTERRUPTIBLE) == "true")
    }
}

/// Keeps reserved offerings of one kind, that of the cheapest; of capacity blocks the one cheapest offering. Answers the kind.
/// Other offerings stay as they were.
pub(super) fn keep_one_kind(candidates: &mut Vec<LaunchCandidate>) -> ReservationKind {
    let reserved = |one: &&Offering| one.capacity_type == RESERVED;
    let rank = |one: &Offering| (one.price, ReservationKind::of_offering(one));
    let all = candidates.iter().flat_map(|one| &one.offerings).filter(reserved).map(rank);
    let best = all.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let Some((_, kind)) = best else { return ReservationKind::Default };
    let stays = |one: &Offering| one.capacity_type != RESERVED || ReservationKind::of_offering(one) == kind;
    candidates.retain_mut(|one| one.retain(stays));
    kind
}

/// The one cheapest type and offering: a fleet for a capacity block takes no choice.
pub(super) fn keep_cheapest_alone(candidates: &mut Vec<LaunchCandidate>) {
    candidates.truncate(1);
    for one in candidates {
        one.offerings.sort_by(|a, b| a.price.total_cmp(&b.price).then_with(|| a.zone.cmp(&b.zone)));
        one.offerings.truncate(1);
    }
}
