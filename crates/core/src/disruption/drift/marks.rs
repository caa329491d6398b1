//! Marks of drift on claims: the condition Drifted, and hashes of this version.

use dovetail_api::names::conditions::{DRIFTED, TRUE};
use dovetail_api::v1::{NewCondition, NodeClaim, condition, is_true, set_condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Drift, DriftReason};
use crate::disruption::claim_status::with_status;
use crate::lifecycle::hash::{HashKeys, OF_CLASS, OF_POOL, Standing};

/// The condition Drifted that a claim should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftMark {
    /// The claim's name.
    pub claim: String,
    /// The claim's uid: another claim may have had the name before.
    pub uid: String,
    /// Its Node's name.
    pub node: String,
    /// Its pool's name.
    pub pool: String,
    /// The reason why it drifts, with the difference; `None` removes the condition.
    pub drifted: Option<(DriftReason, String)>,
}

impl DriftMark {
    /// The mark to be written on a claim, if it differs from the one there. A reason that could not be checked leaves its
    /// condition as it is.
    pub(super) fn from_drift(claim: &NodeClaim, node: &str, pool: &str, drift: &Drift) -> Option<Self> {
        let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let there = condition(conditions, DRIFTED);
        let drifted = match drift {
            Drift::Is(reason, what) => {
                let same = |one: &&_| is_true(conditions, DRIFTED) && says(one, *reason, what);
                if there.filter(same).is_some() {
                    return None;
                }
                Some((*reason, what.clone()))
            }
            Drift::IsNot(unknown) => {
                let doubted = |name: &str| DriftReason::named(name).is_some_and(|reason| unknown.contains(&reason));
                there.filter(|one| !doubted(&one.reason))?;
                None
            }
        };
        let (name, uid) = named(claim)?;
        Some(Self { claim: name, uid, node: node.to_owned(), pool: pool.to_owned(), drifted })
    }

    /// The claim with the mark on it. Another claim of its name is left alone.
    #[must_use]
    pub fn on(&self, claim: &NodeClaim, now: Timestamp) -> NodeClaim {
        with_status(claim, &self.uid, |status, generation| {
            let conditions = &mut status.conditions;
            match &self.drifted {
                Some((reason, what)) => {
                    set_condition(
                        conditions,
                        NewCondition::new(DRIFTED, TRUE).because(reason.name(), what),
                        generation,
                        now,
                    );
                }
                None => conditions.retain(|one| one.type_ != DRIFTED),
            }
        })
    }
}

/// A claim's name and uid; none while it is only planned.
fn named(claim: &NodeClaim) -> Option<(String, String)> {
    claim.metadata.name.clone().zip(claim.metadata.uid.clone())
}

/// True if a claim is marked as Drifted for this reason.
pub(super) fn is_marked(claim: &NodeClaim, reason: DriftReason) -> bool {
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition(conditions, DRIFTED).is_some_and(|one| one.status == TRUE && one.reason == reason.name())
}

fn says(one: &Condition, reason: DriftReason, what: &str) -> bool {
    one.reason == reason.name() && one.message == what
}

/// Hashes to be written on a claim that carries those of another version, of an older Karpenter or of Dovetail up to 0.1.0. One
/// that is Drifted because of its pool or its class keeps the hash of that, and only the version is written: it goes on drifting
/// (core spec 5.6). One that is Drifted for another reason keeps none: it would never be current again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashStamp {
    /// The claim's name.
    pub claim: String,
    /// The claim's uid: another claim may have had the name before.
    pub uid: String,
    /// The pool's hash, where the claim has none of this version.
    pub pool: Option<String>,
    /// The class's hash, where the claim has none of this version.
    pub class: Option<String>,
}

impl HashStamp {
    /// The stamp to be written on a claim, if any, given the hashes of the pool and the class that are there and can be read.
    pub(super) fn from_claim(claim: &NodeClaim, pool: Option<&Standing>, class: Option<&Standing>) -> Option<Self> {
        let own = claim.metadata.annotations.as_ref();
        let old = |keys: HashKeys| own.is_none_or(|own| !keys.is_current(own));
        let (name, uid) = named(claim)?;
        let stamp = Self {
            claim: name,
            uid,
            pool: pool.filter(|_| old(OF_POOL)).map(|standing| standing.hash.clone()),
            class: class.filter(|_| old(OF_CLASS)).map(|standing| standing.hash.clone()),
        };
        (stamp.pool.is_some() || stamp.class.is_some()).then_some(stamp)
    }

    /// Stamps the claim as it stands now; one that has been stamped meanwhile, and another of its name, is left alone.
    pub fn put_on(&self, claim: &mut NodeClaim) {
        if claim.metadata.uid.as_ref() != Some(&self.uid) {
            return;
        }
        let drifts = [DriftReason::NodePool, DriftReason::NodeClass].map(|reason| is_marked(claim, reason));
        let own = claim.metadata.annotations.get_or_insert_default();
        for ((hash, keys), drifts) in [(&self.pool, OF_POOL), (&self.class, OF_CLASS)].into_iter().zip(drifts) {
            let Some(hash) = hash.as_ref().filter(|_| !keys.is_current(own)) else { continue };
            let kept = own.get(keys.hash).filter(|_| drifts).unwrap_or(hash).clone();
            own.extend(keys.stamp(&kept));
        }
    }
}
