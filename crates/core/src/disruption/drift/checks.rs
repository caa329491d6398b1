//! Checks of a node against its pool and class, one for each reason to drift.

use std::collections::BTreeSet;

use dovetail_api::names::conditions::{CAPACITY_RESERVATIONS_READY, OPEN_RESERVATIONS_UNKNOWN, READY, TRUE};
use dovetail_api::names::{instance_id, labels};
use dovetail_api::v1::{EC2NodeClass, EC2NodeClassStatus, NodeClaim, condition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::known::{OfClass, OfPool};
use super::marks::is_marked;
use super::offered::OffersAtLook;
use super::{Drift, DriftReason, Gates, InstanceNetwork};
use crate::Requirements;
use crate::cluster_state::{ClaimFacts, NodeEntry};
use crate::lifecycle::hash::{self, Agreement};

pub(super) enum Check {
    /// The node is as it is asked for.
    Agrees,
    /// The node differs: the difference, as a sentence.
    Differs(String),
    /// The result is not known.
    Unknown,
}

impl Check {
    fn from_agreement(agrees: bool, differs: impl FnOnce() -> String) -> Self {
        if agrees { Self::Agrees } else { Self::Differs(differs()) }
    }
}

/// A node, with the pool, class and instance that it is compared with.
pub(super) struct Subject<'a> {
    pub claim: &'a NodeClaim,
    pub facts: &'a ClaimFacts,
    pub node: &'a NodeEntry,
    pub pool: &'a OfPool,
    /// The class, where it is settled.
    pub class: Option<(&'a EC2NodeClass, &'a OfClass)>,
    pub network: Option<&'a InstanceNetwork>,
    pub gates: Gates,
    /// The reason why it goes for a workload that has too many replicas on spot nodes.
    pub over_spot_share: Option<&'a String>,
}

/// The status of a class that is there, Ready and resolved as it stands now: anything else drifts nothing.
pub(super) fn settled(class: &EC2NodeClass) -> Option<&EC2NodeClassStatus> {
    let status = class.status.as_ref().filter(|_| class.metadata.deletion_timestamp.is_none())?;
    let ready = condition(&status.conditions, READY).filter(|ready| ready.status == TRUE)?;
    let seen = ready.observed_generation.is_none_or(|seen| Some(seen) == class.metadata.generation);
    seen.then_some(status)
}

impl Subject<'_> {
    /// Makes the checks in the order of their reasons; the first difference decides.
    pub fn drift(&self, offered: &mut OffersAtLook<'_>) -> Drift {
        let mut unknown = BTreeSet::new();
        if self.gates.drift_off {
            return Drift::IsNot(unknown);
        }
        for reason in DriftReason::ALL {
            match self.check(reason, offered) {
                Check::Agrees => {}
                Check::Differs(what) => return Drift::Is(reason, what),
                Check::Unknown => drop(unknown.insert(reason)),
            }
        }
        Drift::IsNot(unknown)
    }

    fn check(&self, reason: DriftReason, offered: &mut OffersAtLook<'_>) -> Check {
        let status = self.class.and_then(|(class, _)| class.status.as_ref());
        let Some(status) = status else {
            return match reason {
                DriftReason::NodePool => self.node_pool(),
                DriftReason::Requirements => self.requirements(),
                DriftReason::SpotShare => self.spot_share(),
                _ => Check::Unknown,
            };
        };
        match reason {
            DriftReason::NodePool => self.node_pool(),
            DriftReason::Requirements => self.requirements(),
            DriftReason::InstanceTypeNotFound => offered.instance_type(self.claim, self.facts),
            DriftReason::NodeClass => self.node_class(),
            DriftReason::Ami => offered.image(self.claim, status),
            DriftReason::SecurityGroup => self.security_groups(status),
            DriftReason::Subnet => self.subnet(status),
            DriftReason::CapacityReservation => offered.reservation(self.reservation(status), self.facts),
            DriftReason::PlacementGroup => self.placement_group(status),
            DriftReason::SpotShare => self.spot_share(),
        }
    }

    fn spot_share(&self) -> Check {
        self.over_spot_share.map_or(Check::Agrees, |why| Check::Differs(why.clone()))
    }

    fn node_pool(&self) -> Check {
        match same_hash(self.claim, hash::OF_POOL, self.pool.hash.as_ref(), DriftReason::NodePool) {
            Some(same) => {
                Check::from_agreement(same, || format!("the template of nodepool {} has changed", self.facts.pool))
            }
            None => Check::Unknown,
        }
    }

    fn node_class(&self) -> Check {
        let known = self.class.and_then(|(_, known)| known.hash.as_ref());
        match same_hash(self.claim, hash::OF_CLASS, known, DriftReason::NodeClass) {
            Some(same) => Check::from_agreement(same, || {
                format!("the spec of ec2nodeclass {} has changed", self.claim.spec.node_class_ref.name)
            }),
            None => Check::Unknown,
        }
    }

    /// Compares the claim's labels with the pool's present requirements; a label that the claim does not have may stand on its
    /// Node. One that no new node of the pool would have unless a pod asks for it is missed on none.
    fn requirements(&self) -> Check {
        let Some(wanted) = &self.pool.requirements else { return Check::Unknown };
        let of_claim = self.claim.metadata.labels.as_ref();
        let label = |key: &str| of_claim.and_then(|own| own.get(key)).or_else(|| self.node.labels.get(key));
        let keys = wanted.iter().map(|(key, _)| key);
        let own = keys.filter_map(|key| Some((key.to_owned(), label(key)?.clone()))).collect();
        let own = Requirements::from_labels(&own);
        let only_if_asked = |key: &str| {
            let open = wanted.get(key).is_some_and(crate::Requirement::is_complement);
            own.get(key).is_none() && open && !self.claim.spec.node_class_ref.is_well_known(key)
        };
        let undefined: BTreeSet<String> =
            wanted.iter().map(|(key, _)| key).filter(|key| only_if_asked(key)).map(ToOwned::to_owned).collect();
        match own.compatible(wanted, &undefined) {
            Ok(()) => Check::Agrees,
            Err(why) => Check::Differs(format!("the requirements of nodepool {}: {why}", self.facts.pool)),
        }
    }

    fn security_groups(&self, status: &EC2NodeClassStatus) -> Check {
        let own = self.network.map(|network| &network.security_groups).filter(|own| !own.is_empty());
        let Some(own) = own.filter(|_| !status.security_groups.is_empty()) else { return Check::Unknown };
        let wanted: BTreeSet<&String> = status.security_groups.iter().map(|group| &group.id).collect();
        Check::from_agreement(own.iter().eq(wanted.iter().copied()), || {
            format!("the instance has {}, the class {}", listed(own), listed(wanted))
        })
    }

    fn subnet(&self, status: &EC2NodeClassStatus) -> Check {
        let own = self.network.map(|network| &network.subnet).filter(|own| !own.is_empty());
        let Some(own) = own.filter(|_| !status.subnets.is_empty()) else { return Check::Unknown };
        Check::from_agreement(status.subnets.iter().any(|subnet| subnet.id == *own), || {
            format!("the instance is in {own}, which is none of the class's subnets")
        })
    }

    fn reservation(&self, status: &EC2NodeClassStatus) -> Check {
        let Some(own) = &self.claim.metadata.labels else { return Check::Unknown };
        let reserved = own.get(labels::CAPACITY_TYPE).is_some_and(|kind| kind == labels::RESERVED);
        let Some(id) = own.get(labels::CAPACITY_RESERVATION_ID).filter(|_| reserved) else { return Check::Agrees };
        let selects = self.class.is_some_and(|(class, _)| !class.spec.capacity_reservation_selector_terms.is_empty());
        let finding = condition(&status.conditions, CAPACITY_RESERVATIONS_READY);
        // It selects none and does not use open ones: a reservation that is paid for is no reason to buy another instance.
        if self.gates.reserved_capacity && finding.is_none() && !selects {
            return Check::Agrees;
        }
        if !self.gates.reserved_capacity || !finding.is_some_and(is_looked_up) {
            return Check::Unknown;
        }
        Check::from_agreement(status.capacity_reservations.iter().any(|one| one.id == *id), || {
            format!("{id} is none of the class's capacity reservations")
        })
    }
}

impl Subject<'_> {
    /// Checks the label that the claim got at its launch; one without it may be of a time when there were none.
    fn placement_group(&self, status: &EC2NodeClassStatus) -> Check {
        let own = self.claim.metadata.labels.as_ref().and_then(|own| own.get(labels::PLACEMENT_GROUP_ID));
        let selects = self.class.is_some_and(|(class, _)| class.spec.placement_group_selector.is_some());
        match (own, &status.placement_group) {
            // That nothing is selected any more is a change of the spec.
            _ if !selects => Check::Agrees,
            (Some(own), Some(group)) => Check::from_agreement(*own == group.id, || {
                format!("the instance is in placement group {own}, the class in {}", group.id)
            }),
            _ => Check::Unknown,
        }
    }
}

/// True if a class's condition says that its reservations are known.
pub(super) fn is_looked_up(one: &Condition) -> bool {
    one.status == TRUE && one.reason != OPEN_RESERVATIONS_UNKNOWN
}

/// True if a claim carries the hash of its pool or class; `None` where it carries none of this version, and where the leader has
/// not written theirs yet. Where it may be of the same object, the claim's mark decides: nothing begins to drift by that.
fn same_hash(
    claim: &NodeClaim,
    keys: hash::HashKeys,
    wanted: Option<&hash::Standing>,
    reason: DriftReason,
) -> Option<bool> {
    let own = keys.found(claim.metadata.annotations.as_ref()?)?;
    Some(match wanted?.agrees(own) {
        Agreement::Same => true,
        Agreement::Unsure => !is_marked(claim, reason),
        Agreement::Differs => false,
    })
}

fn listed<'a>(ids: impl IntoIterator<Item = &'a String>) -> String {
    ids.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

pub(super) fn instance_of(claim: &NodeClaim) -> Option<&str> {
    instance_id(&claim.status.as_ref()?.provider_id)
}
