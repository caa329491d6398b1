//! Facts on a claim about its launch, and the writes that it takes.

use dovetail_api::names::annotations::{LAUNCH_PLACE, LAUNCH_TOKEN, TERM};
use dovetail_api::names::{TERMINATION_FINALIZER, instance_id};
use dovetail_api::v1::NodeClaim;

use super::super::{is_deleting, stage};
use crate::ownership::{self, token::LaunchPart};

/// The part of a claim that decides about its launch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claimed {
    /// `metadata.uid`; empty before it is created.
    pub uid: String,
    /// The token of its latest launch; its own, even if another is written on it.
    pub token: Option<String>,
    /// Its instance's id, where one is written on it.
    pub instance: Option<String>,
    /// True if its launch is over.
    pub launched: bool,
    pub deleting: bool,
}

impl Claimed {
    /// Reads the facts about its launch off a claim.
    #[must_use]
    pub fn from_claim(claim: &NodeClaim) -> Self {
        Self {
            uid: claim.metadata.uid.clone().unwrap_or_default(),
            token: ownership::token_on(claim),
            instance: claim.status.as_ref().and_then(|status| instance_id(&status.provider_id)).map(str::to_owned),
            launched: stage(claim).is_some(),
            deleting: is_deleting(claim),
        }
    }
}

/// True if an attempt's token may be put on a claim: not if it has got an instance meanwhile, or is being deleted.
#[must_use]
pub fn takes_token(claim: &Claimed) -> bool {
    !claim.launched && claim.instance.is_none() && !claim.deleting
}

/// True if an instance may be written on a claim: not in the place of another.
#[must_use]
pub fn takes_instance(claim: &Claimed, id: &str) -> bool {
    claim.instance.as_ref().is_none_or(|there| there == id)
}

/// Puts an attempt's token and the claim's place, and the leader's term, on a claim; and the finalizer on one that somebody made
/// without it, so that it does not go before its instance.
pub fn put_part(claim: &mut NodeClaim, part: &LaunchPart, term: u64) {
    let finalizers = claim.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|one| one == TERMINATION_FINALIZER) {
        finalizers.push(TERMINATION_FINALIZER.into());
    }
    let own = claim.metadata.annotations.get_or_insert_default();
    own.insert(LAUNCH_TOKEN.into(), part.token.clone());
    match &part.place {
        Some(place) => own.insert(LAUNCH_PLACE.into(), place.to_string()),
        None => own.remove(LAUNCH_PLACE),
    };
    put_term(claim, term);
}

/// Puts the leader's term on a claim: what an earlier leader sends later rests on an older version, and is refused.
pub fn put_term(claim: &mut NodeClaim, term: u64) {
    claim.metadata.annotations.get_or_insert_default().insert(TERM.into(), term.to_string());
}
