//! Refusals of EC2 within a CreateFleet, and the offerings that are then believed to be unavailable (karpenter-aws 3.6).

use std::time::Duration;

use dovetail_api::names::labels::{ON_DEMAND, RESERVED, SPOT};

use super::codes::Closes;
use crate::unavailable::{OfferingKey, QuotaGroup, UnavailableOfferings};

/// That spot is closed to the account, for people.
pub const NO_SPOT: &str = "the account has no service-linked role for spot, and Dovetail may not create it (aws iam create-service-linked-role \
     --aws-service-name spot.amazonaws.com)";
/// That the quota of fleets is used up, for people.
pub const NO_FLEETS: &str = "quota of EC2 fleets used up (MaxFleetCountExceeded)";
/// That subnets are full, for people.
pub const NO_ADDRESSES: &str = "the class's subnets have no free address (InsufficientFreeAddressesInSubnet)";
/// That EC2 has nothing, for people.
pub const NO_CAPACITY: &str = "EC2 has no capacity (InsufficientInstanceCapacity)";

/// One offering that EC2 did not give.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingRefusal {
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

impl OfferingRefusal {
    fn closes(&self) -> Closes {
        Closes::from_refusal(&self.code, &self.message)
    }

    /// There was no capacity or no quota: another offering, or a later moment, may have it.
    pub fn is_capacity(&self) -> bool {
        self.closes() != Closes::Nothing
    }

    /// Spot is closed to the account.
    pub fn denies_spot(&self) -> bool {
        self.closes() == Closes::Spot
    }

    /// It is of more than an offering: a quota, or all of a capacity type.
    pub fn is_account_wide(&self) -> bool {
        match self.closes() {
            Closes::VcpuQuota | Closes::Fleets | Closes::Spot => true,
            Closes::Nothing | Closes::Offering | Closes::Subnet => false,
        }
    }

    /// The cause, where it is another than that there is no capacity: what is used up or missing, by the name that its owner knows.
    #[must_use]
    pub fn cause(&self) -> Option<&'static str> {
        match self.closes() {
            Closes::Spot => Some(NO_SPOT),
            Closes::Fleets => Some(NO_FLEETS),
            Closes::VcpuQuota => Some(QuotaGroup::from_instance_type(&self.instance_type).used_up(&self.capacity_type)),
            Closes::Subnet => Some(NO_ADDRESSES),
            Closes::Nothing | Closes::Offering => None,
        }
    }

    /// The subnet ran out of addresses.
    pub fn fills_subnet(&self) -> bool {
        self.closes() == Closes::Subnet
    }
}

impl UnavailableOfferings {
    /// Remembers what a refusal says about the next minutes: about as much as it covers, and no more.
    pub fn note(&mut self, now: Duration, refusal: &OfferingRefusal) {
        let OfferingRefusal { capacity_type, instance_type, zone, subnet, .. } = refusal;
        match refusal.closes() {
            Closes::Nothing => {}
            Closes::Spot => self.mark_capacity_type(now, SPOT, NO_SPOT),
            Closes::Fleets => {
                [ON_DEMAND, SPOT, RESERVED].into_iter().for_each(|all| self.mark_capacity_type(now, all, NO_FLEETS));
            }
            // The zone's other subnets may have addresses.
            Closes::Subnet if !subnet.is_empty() => self.mark_subnet(now, subnet),
            Closes::VcpuQuota if instance_type.is_empty() => {
                self.mark_capacity_type(now, capacity_type, QuotaGroup::Other.used_up(capacity_type));
            }
            Closes::VcpuQuota if capacity_type != RESERVED => {
                self.mark_quota(now, capacity_type, QuotaGroup::from_instance_type(instance_type));
            }
            Closes::Offering | Closes::Subnet | Closes::VcpuQuota => {
                if !instance_type.is_empty() && !zone.is_empty() {
                    let (capacity_type, instance_type) = (capacity_type.clone(), instance_type.clone());
                    self.mark(now, OfferingKey { capacity_type, instance_type, zone: zone.clone() });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::codes::codes_that_close;

    const NO_SPOT_ROLE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
    const FLEET_QUOTA: &str = "MaxFleetCountExceeded";
    const FULL_SUBNET: &str = "InsufficientFreeAddressesInSubnet";
    const QUOTAS: [&str; 2] = ["VcpuLimitExceeded", "MaxSpotInstanceCountExceeded"];

    fn refusal(code: &str) -> OfferingRefusal {
        OfferingRefusal {
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
        cache.as_of(Duration::ZERO)
    }

    #[test]
    fn what_is_not_available_says_why_in_ec2s_names() {
        let why = |code: &str, kind: &str, capacity_type: &str| {
            let capacity_type = capacity_type.to_owned();
            let refusal = OfferingRefusal { instance_type: kind.into(), capacity_type, ..refusal(code) };
            let mut cache = UnavailableOfferings::default();
            cache.note(Duration::ZERO, &refusal);
            let named = if kind.is_empty() { "g5.xlarge" } else { kind };
            cache.as_of(Duration::ZERO).why(named, "us-east-1a", &refusal.capacity_type).unwrap_or_default()
        };
        assert!(why("VcpuLimitExceeded", "g5.xlarge", "on-demand").contains("L-DB2E81BA"));
        assert!(why("MaxSpotInstanceCountExceeded", "m5.large", "spot").contains("L-34B43A08"));
        assert_eq!(why("VcpuLimitExceeded", "", "on-demand"), "a vCPU quota of on-demand instances used up");
        assert_eq!(why(NO_SPOT_ROLE, "m5.large", "spot"), NO_SPOT);
        assert_eq!(why(FLEET_QUOTA, "", "on-demand"), NO_FLEETS);
        assert_eq!(why("InsufficientInstanceCapacity", "m5.large", "on-demand"), NO_CAPACITY);
        assert_eq!(why("InvalidParameterValue", "m5.large", "on-demand"), "");
    }

    #[test]
    fn only_capacity_codes_block_the_offering() {
        for code in [Closes::Offering, Closes::VcpuQuota, Closes::Fleets].into_iter().flat_map(codes_that_close) {
            assert!(after(code).refused("m5.large", "us-east-1a", "on-demand"), "{code}");
        }
        assert!(!after("InvalidParameterValue").refused("m5.large", "us-east-1a", "on-demand"));
    }

    #[test]
    fn refusal_of_a_whole_capacity_type_closes_reserved_as_well() {
        for code in [FLEET_QUOTA].into_iter().chain(QUOTAS) {
            let mut cache = UnavailableOfferings::default();
            let all = OfferingRefusal { capacity_type: RESERVED.into(), instance_type: String::new(), ..refusal(code) };
            cache.note(Duration::ZERO, &all);
            assert!(cache.as_of(Duration::ZERO).refused("m5.large", "us-east-1a", RESERVED), "{code}");
        }
    }

    #[test]
    fn full_spread_group_in_a_zone_is_lack_of_capacity_there() {
        let message = "You have reached the limit of instances in this spread placement group in this zone.";
        let full = OfferingRefusal { message: message.into(), ..refusal("InvalidRequest") };
        let mut cache = UnavailableOfferings::default();
        cache.note(Duration::ZERO, &full);
        assert!(full.is_capacity() && cache.as_of(Duration::ZERO).refused("m5.large", "us-east-1a", "on-demand"));
    }

    #[test]
    fn full_subnet_leaves_out_the_subnet_and_not_the_offering() {
        let full = after(FULL_SUBNET);
        assert!(full.all_full(["subnet-1"].into_iter()) && !full.all_full(["subnet-1", "subnet-2"].into_iter()));
        assert!(!full.refused("m5.large", "us-east-1a", "on-demand"));
        let mut unnamed = UnavailableOfferings::default();
        unnamed.note(Duration::ZERO, &OfferingRefusal { subnet: String::new(), ..refusal(FULL_SUBNET) });
        assert!(unnamed.as_of(Duration::ZERO).refused("m5.large", "us-east-1a", "on-demand"), "where EC2 names none");
        assert!(!after("InsufficientInstanceCapacity").all_full(["subnet-1"].into_iter()));
    }

    #[test]
    fn without_the_spot_role_all_of_spot_is_closed() {
        assert!(after(NO_SPOT_ROLE).refused("c5.large", "us-east-1b", "spot"));
    }

    #[test]
    fn a_quota_closes_what_it_covers_and_not_one_offering() {
        for code in QUOTAS {
            let closed = after(code);
            assert!(closed.refused("c5.large", "us-east-1b", "on-demand"), "{code}");
            assert!(!closed.refused("g5.xlarge", "us-east-1a", "on-demand"), "{code}: another quota");
            assert!(!closed.refused("m5.large", "us-east-1a", "spot"), "{code}: another quota");
        }
        let mut spot = UnavailableOfferings::default();
        let nameless =
            OfferingRefusal { instance_type: String::new(), capacity_type: SPOT.into(), ..refusal(QUOTAS[1]) };
        spot.note(Duration::ZERO, &nameless);
        assert!(spot.as_of(Duration::ZERO).refused("g5.xlarge", "us-east-1b", "spot"), "where EC2 names no type");
        let mut reserved = UnavailableOfferings::default();
        reserved.note(Duration::ZERO, &OfferingRefusal { capacity_type: RESERVED.into(), ..refusal(QUOTAS[0]) });
        let reserved = reserved.as_of(Duration::ZERO);
        assert!(
            reserved.refused("m5.large", "us-east-1a", RESERVED)
                && !reserved.refused("c5.large", "us-east-1a", RESERVED)
        );
    }

    #[test]
    fn without_fleets_nothing_can_be_launched() {
        let closed = after(FLEET_QUOTA);
        assert!(closed.refused("g5.xlarge", "us-east-1b", SPOT) && closed.refused("c5.large", "us-east-1b", ON_DEMAND));
    }
}
