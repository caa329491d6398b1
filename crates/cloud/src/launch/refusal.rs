//! What EC2 refuses within a CreateFleet, and what is then believed to be unavailable (karpenter-aws 3.6).

use std::time::Duration;

use dovetail_api::names::labels::SPOT;

use crate::unavailable::{OfferingKey, UnavailableOfferings};

/// Codes after which an offering is held to be unavailable for a while.
const MARKING: [&str; 9] = [
    "InsufficientInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    "InsufficientFreeAddressesInSubnet",
    "MaxFleetCountExceeded",
    "ReservationCapacityExceeded",
    // Not a refusal of a launch: EC2 takes back what it gave (karpenter-aws 5).
    "SpotInterrupted",
];
/// The subnet has no address left.
const FULL_SUBNET: &str = "InsufficientFreeAddressesInSubnet";
/// The account may not use spot at all.
const NO_SPOT_ROLE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";

/// What EC2 says where a spread placement group has as many instances in a zone as it may have (seven).
const SPREAD_LIMIT: &str = "limit of instances in this spread placement group";

/// One offering that EC2 did not give.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// Instance type; empty when EC2 does not say.
    pub instance_type: String,
    /// Zone name; empty when EC2 does not say.
    pub zone: String,
    /// `spot` or `on-demand`.
    pub capacity_type: String,
    /// `subnet-…`; empty when EC2 does not say.
    pub subnet: String,
    /// EC2's code.
    pub code: String,
    /// EC2's words.
    pub message: String,
}

impl Refusal {
    /// There was no capacity or no quota: another offering, or a later moment, may have it.
    pub fn is_capacity(&self) -> bool {
        MARKING.contains(&self.code.as_str()) || self.denies_spot() || self.message.contains(SPREAD_LIMIT)
    }

    /// Spot is closed to the account.
    pub fn denies_spot(&self) -> bool {
        self.code == NO_SPOT_ROLE
    }

    /// The subnet ran out of addresses.
    pub fn fills_subnet(&self) -> bool {
        self.code == FULL_SUBNET
    }
}

impl UnavailableOfferings {
    /// Remembers what a refusal says about the next three minutes.
    pub fn note(&mut self, now: Duration, refusal: &Refusal) {
        if refusal.denies_spot() {
            return self.mark_capacity_type(now, SPOT);
        }
        if !refusal.is_capacity() {
            return;
        }
        if refusal.fills_subnet() && !refusal.subnet.is_empty() {
            self.mark_subnet(now, &refusal.subnet);
        }
        if !refusal.instance_type.is_empty() && !refusal.zone.is_empty() {
            let Refusal { capacity_type, instance_type, zone, .. } = refusal.clone();
            self.mark(now, OfferingKey { capacity_type, instance_type, zone });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: &str) -> Refusal {
        Refusal {
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            capacity_type: "on-demand".into(),
            subnet: "subnet-1".into(),
            code: code.into(),
            message: String::new(),
        }
    }

    fn after(code: &str) -> crate::unavailable::Unavailable {
        let mut cache = UnavailableOfferings::default();
        cache.note(Duration::ZERO, &refusal(code));
        cache.at(Duration::ZERO)
    }

    #[test]
    fn every_capacity_code_blocks_the_offering_and_no_other_code_does() {
        for code in MARKING {
            assert!(after(code).refused("m5.large", "us-east-1a", "on-demand"), "{code}");
        }
        assert!(!after("InvalidParameterValue").refused("m5.large", "us-east-1a", "on-demand"));
    }

    #[test]
    fn a_spread_group_that_is_full_in_a_zone_is_a_want_of_capacity_there() {
        let message = "You have reached the limit of instances in this spread placement group in this zone.";
        let full = Refusal { message: message.into(), ..refusal("InvalidRequest") };
        let mut cache = UnavailableOfferings::default();
        cache.note(Duration::ZERO, &full);
        assert!(full.is_capacity() && cache.at(Duration::ZERO).refused("m5.large", "us-east-1a", "on-demand"));
    }

    #[test]
    fn a_full_subnet_is_remembered_too() {
        assert!(after(FULL_SUBNET).all_full(["subnet-1"].into_iter()));
        assert!(!after("InsufficientInstanceCapacity").all_full(["subnet-1"].into_iter()));
    }

    #[test]
    fn without_the_spot_role_all_of_spot_is_closed() {
        assert!(after(NO_SPOT_ROLE).refused("c5.large", "us-east-1b", "spot"));
    }
}
