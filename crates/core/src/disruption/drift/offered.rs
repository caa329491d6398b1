//! Offers of the cloud for a node: its instance type, and the image that this type takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::labels;
use dovetail_api::v1::{EC2NodeClassStatus, NodeClaim};
use jiff::{SignedDuration, Timestamp};

use super::checks::Check;
use crate::InstanceType;
use crate::cluster_state::ClaimFacts;
use crate::disruption::look::OffersByClass;
use crate::images;

/// Age of a claim up to which its type is not checked, as it has just been bought (core spec 5.6).
const YOUNG: SignedDuration = SignedDuration::from_hours(1);
/// Time for which a type has to be missed before that is believed: an answer of the cloud may be short.
const MISSED: SignedDuration = SignedDuration::from_mins(30);

/// Time for which a class has to lack a node's reservation before that is believed: where the reservation has ended, the node's
/// labels say so by then, and it stays.
const LACKED: SignedDuration = SignedDuration::from_mins(2);

/// Times since which types of claims, or their reservations, are missed, by uid: a term's own knowledge.
pub(super) type Missed = BTreeMap<String, Timestamp>;

/// Image that a type takes, by class and type: computed once, as long as neither offers nor classes change.
pub(super) type ImagesByType = BTreeMap<String, BTreeMap<String, Option<String>>>;

pub(super) struct OffersAtLook<'a> {
    pub offers: &'a OffersByClass,
    pub now: Timestamp,
    pub missed: &'a mut Missed,
    /// Reservations that classes lack.
    pub lacked: &'a mut Missed,
    pub images: &'a mut ImagesByType,
}

impl<'a> OffersAtLook<'a> {
    fn types(&self, claim: &NodeClaim) -> Option<&'a Arc<Vec<Arc<InstanceType>>>> {
        self.offers.get(&claim.spec.node_class_ref.name).filter(|types| !types.is_empty())
    }

    fn own(&self, claim: &NodeClaim) -> Option<&'a InstanceType> {
        let name = label(claim, labels::INSTANCE_TYPE)?;
        self.types(claim)?.iter().find(|one| one.name == name).map(AsRef::as_ref)
    }

    /// Checks that the claim's type is listed, and offered where the claim is, be it sold out or not.
    pub fn instance_type(&mut self, claim: &NodeClaim, facts: &ClaimFacts) -> Check {
        let old = facts.created.is_some_and(|created| self.now.duration_since(created) > YOUNG);
        let (Some(_), Some(name), true) = (self.types(claim), label(claim, labels::INSTANCE_TYPE), old) else {
            return Check::Unknown;
        };
        if self.own(claim).is_some_and(|own| is_offered(own, claim)) {
            self.missed.remove(&facts.uid);
            return Check::Agrees;
        }
        let since = *self.missed.entry(facts.uid.clone()).or_insert(self.now);
        if self.now.duration_since(since) < MISSED {
            return Check::Unknown;
        }
        Check::Differs(format!("instance type {name} is not offered any more where the node is"))
    }

    /// A check of the reservation, where a difference is believed only once it has lasted.
    pub fn reservation(&mut self, check: Check, facts: &ClaimFacts) -> Check {
        match check {
            Check::Agrees => drop(self.lacked.remove(&facts.uid)),
            Check::Unknown => {}
            Check::Differs(_) => {
                let since = *self.lacked.entry(facts.uid.clone()).or_insert(self.now);
                if self.now.duration_since(since) < LACKED {
                    return Check::Unknown;
                }
            }
        }
        check
    }

    /// Checks that the class still has the claim's image for its type. No drift where it has none for it.
    pub fn image(&mut self, claim: &NodeClaim, status: &EC2NodeClassStatus) -> Check {
        let image = claim.status.as_ref().map_or("", |status| status.image_id.as_str());
        let Some(own) = self.own(claim).filter(|_| !image.is_empty() && !status.amis.is_empty()) else {
            return Check::Unknown;
        };
        let class = &claim.spec.node_class_ref.name;
        let known = self.images.get(class).and_then(|of_class| of_class.get(&own.name));
        let wanted = match known {
            Some(known) => known.clone(),
            None => {
                let wanted = images::ResolvedImages::from_amis(&status.amis).fitting(own).map(|ami| ami.id.clone());
                self.images.entry(class.clone()).or_default().insert(own.name.clone(), wanted.clone());
                wanted
            }
        };
        match wanted {
            None => Check::Unknown,
            Some(wanted) if wanted == image => Check::Agrees,
            Some(wanted) => Check::Differs(format!("the node has image {image}, its class now {wanted}")),
        }
    }
}

fn label<'a>(claim: &'a NodeClaim, key: &str) -> Option<&'a str> {
    claim.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// A reserved instance may have been bought on demand as well.
fn is_offered(own: &InstanceType, claim: &NodeClaim) -> bool {
    let (zone, kind) = (label(claim, labels::ZONE), label(claim, labels::CAPACITY_TYPE));
    own.offerings.iter().any(|one| {
        let same = kind.is_none_or(|kind| {
            one.capacity_type == kind || (kind == labels::RESERVED && one.capacity_type == labels::ON_DEMAND)
        });
        same && zone.is_none_or(|zone| zone == one.zone)
    })
}
