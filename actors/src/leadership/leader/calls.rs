//! Calls about the Lease, and the terms that the cluster has seen.

use std::cell::Cell;

use dovetail_api::names::annotations;
use dovetail_core::cluster_state::WatchedKind;
use dovetail_core::lease::{self, LeaseInput, LeaseSettings, LeaseView, LeaseWrite};
use k8s_openapi::api::coordination::v1::Lease;

use super::{AFTER_FAILURE, NO_ANSWER, SHORTEST_WAIT};
use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::kube::failure::KubeFailure;
use crate::leadership::lease_object::{self, LeaseObject, holder};
use crate::links::ToClusterWatcher;
use crate::messages::TakeSnapshot;

/// Terms on claims.
#[derive(Default)]
pub(super) struct Terms {
    pub(super) highest: u64,
    /// A claim with one that no leader can have had.
    pub(super) absurd: Option<String>,
}

/// Reason why a call about the Lease failed.
pub(super) struct CallFailure {
    pub(super) words: String,
    /// The API server was not reached.
    pub(super) unreached: bool,
    /// No answer came in time: what else was asked for may hang as well.
    pub(super) unanswered: bool,
}

impl CallFailure {
    fn no_answer() -> Self {
        Self { words: NO_ANSWER.to_owned(), unreached: true, unanswered: true }
    }
}

impl From<kube::Error> for CallFailure {
    fn from(error: kube::Error) -> Self {
        let failure = KubeFailure::from(error);
        Self { words: failure.to_string(), unreached: failure.is_unreachable(), unanswered: false }
    }
}

/// The Lease as it stands; when it is gone, or of a term above all that it can have had by itself, also the highest term on
/// any claim: a new one starts above it. Or why nobody knows.
pub(super) async fn read_lease(
    lease: LeaseObject,
    env: Env,
    settings: LeaseSettings,
    cluster: ToClusterWatcher,
) -> Result<(LeaseInput, Terms), CallFailure> {
    let (patience, asked) = (settings.patience(), env.now());
    match tokio::time::timeout(patience, lease.get()).await {
        // An answer from before a sleep of the machine says nothing of the present Lease.
        Ok(Ok(_)) if env.now().saturating_sub(asked) > patience => Err(CallFailure::no_answer()),
        Ok(Ok(Some(lease))) => {
            let view = lease_object::view(&lease, &settings, env.wall());
            let terms = if is_ahead(&view) { known_terms(&cluster).await } else { Terms::default() };
            Ok((LeaseInput::Read(Some(view)), terms))
        }
        Ok(Ok(None)) => match tokio::time::timeout(patience, terms(&cluster)).await {
            Ok(Some(terms)) => Ok((LeaseInput::Read(None), terms)),
            Ok(None) | Err(_) => {
                let words = "the lease is gone, and the NodeClaims are not known yet".to_owned();
                Err(CallFailure { words, unreached: false, unanswered: false })
            }
        },
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(CallFailure::no_answer()),
    }
}

/// True if a Lease's term is above its own resourceVersion: somebody has written it by hand, or its claims are older than
/// this API server.
pub(super) fn is_ahead(lease: &LeaseView) -> bool {
    lease.resource_version.parse().is_ok_and(|version: u64| lease.term > version)
}

pub(super) async fn write(
    lease: LeaseObject,
    env: Env,
    settings: LeaseSettings,
    order: LeaseWrite,
) -> Result<LeaseView, CallFailure> {
    let body = lease_object::body(&order, &env.settings.lease_name, &env.identity, &settings, env.wall());
    match tokio::time::timeout(settings.patience(), lease.write(&order, &body)).await {
        Ok(Ok(lease)) => Ok(lease_object::view(&lease, &settings, env.wall())),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(CallFailure::no_answer()),
    }
}

/// Takes this replica's name off the Lease, however often that is refused, and until no write is under way that could put
/// it there again.
pub(super) async fn give_back(lease: &LeaseObject, env: &Env, busy: &Cell<bool>) {
    let mut backoff = Backoff::new(SHORTEST_WAIT, AFTER_FAILURE, env.rng("give back"));
    let mut unwritten = None;
    loop {
        // Before it is read: what is written after that is seen at the next look.
        let last = !busy.get();
        let found = match unwritten.take() {
            Some(found) => Ok(Some(found)),
            None => lease.get().await,
        };
        match found {
            Ok(Some(found)) if *holder(&found) == *env.identity => match lease.release(found.clone()).await {
                Ok(()) if last => return,
                Ok(()) => {}
                // It has changed, or its answer was lost: it is read anew.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                // The Lease as read serves for another try: a write over a newer one is refused.
                Err(_) => unwritten = Some(found),
            },
            Ok(_) if last => return,
            Ok(_) | Err(_) => {}
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

pub(super) fn held_by(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

/// The terms on claims, where those are known by now.
pub(super) async fn known_terms(cluster: &ToClusterWatcher) -> Terms {
    tokio::time::timeout(SHORTEST_WAIT, terms(cluster)).await.ok().flatten().unwrap_or_default()
}

/// The terms on claims, as soon as claims are known.
pub(super) async fn terms(cluster: &ToClusterWatcher) -> Option<Terms> {
    loop {
        if let Some(snapshot) = cluster.send(TakeSnapshot).await.ok()? {
            // Existing claims show that there was a leader, though not necessarily a Dovetail.
            let unread = snapshot.unreadable_of(WatchedKind::NodeClaim).map(|(_, claim)| &claim.metadata);
            let all: Vec<_> = snapshot.claims.values().map(|entry| &entry.claim.metadata).chain(unread).collect();
            let mut terms = Terms { highest: u64::from(!all.is_empty()), absurd: None };
            for meta in all {
                let own = meta.annotations.as_ref().and_then(|own| own.get(annotations::TERM));
                let written = own.and_then(|term| term.parse().ok());
                match written {
                    Some(term) if lease::is_plausible_term(term) => terms.highest = terms.highest.max(term),
                    Some(_) => terms.absurd = meta.name.clone(),
                    None => {}
                }
            }
            return Some(terms);
        }
        tokio::time::sleep(SHORTEST_WAIT).await;
    }
}
