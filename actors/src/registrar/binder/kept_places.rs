//! Nominations of the pods that a node is for, before it lets pods in, so that kube-scheduler keeps their places. They are
//! written here; `dovetail_core::cluster_state::KeptPlace` decides which, and for how long.
//!
//! Nothing waits long for that: a nomination that is not written in time, or refused, is left as it is, and kube-scheduler puts
//! the pods where it likes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::conditions;
use dovetail_api::v1::{NodeClaim, condition};
use dovetail_core::cluster_state::{KeptPlace, WrittenPlaces};
use dovetail_core::lifecycle::{self, ClaimStage};
use futures::{StreamExt, stream};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::{Registrar, RegistrarLinks};
use crate::kube::calls::{BELIEVED, CallError, Calls};
use crate::messages::TakeSnapshot;
use crate::reading::LenientApi;
use crate::telemetry::log_event::LogEvent;

/// Number of pods written at once.
const AT_ONCE: usize = 16;
/// While nodes are about to be ready: how often it is checked whether kube-scheduler has removed nominations.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// A node that takes longer than this to be ready has no places kept any more.
const READY_WITHIN: SignedDuration = SignedDuration::from_secs(120);
/// Time after a node is ready in which nominations are still checked: one that kube-scheduler removed just before, when it tried the
/// pod, leaves the place to others for the ten seconds of the pod's back-off.
const READY_FOR: SignedDuration = SignedDuration::from_secs(2);
/// Longest wait of a node for the nomination of its pods, and the pause before another attempt.
const LONGEST: Duration = Duration::from_secs(2);
/// Time after it has joined in which a node may wait for others to be let in.
pub(in crate::registrar) const COMES_LAST: SignedDuration = SignedDuration::from_secs(60);
/// Pause after the API server forbids nominations.
const FORBIDDEN_FOR: Duration = Duration::from_secs(600);

/// Nominations that have been written.
#[derive(Debug, Default)]
pub(super) struct KeptPlaces {
    /// Pods that are nominated, and their nodes.
    written: Arc<WrittenPlaces>,
    /// Number of refusals in a row: an API server that has just started may not know all roles yet.
    forbidden: u32,
    /// Time until which nothing is written, as it is forbidden. Monotonic.
    forbidden_until: Duration,
    /// A check runs, or is scheduled.
    looking: bool,
}

/// Outcome of an attempt to write nominations.
#[derive(Debug, Default)]
pub(in crate::registrar) struct NominationWrite {
    /// Pods, by uid, and the node that each is nominated to now; none where it was taken back.
    done: Vec<(String, Option<String>)>,
    /// Pods, by uid, of whose nomination to that node nothing is left to be done.
    over: Vec<(String, String)>,
    /// The API server's words, where it forbids that.
    forbidden: Option<String>,
    /// Something was not written: it is not tried again at once.
    failed: bool,
    /// The node is not let in yet: its room is for pods that are still to come, and others would take it.
    pub(in crate::registrar) waits: bool,
}

/// Nominates the pods expected at a claim to its node, unless that one `may_wait` and is better let in after others.
pub(in crate::registrar) async fn nominate_pods(
    links: RegistrarLinks,
    claim: String,
    may_wait: bool,
) -> NominationWrite {
    let Ok(Some(known)) = links.cluster.send(TakeSnapshot).await else { return NominationWrite::default() };
    if may_wait && known.comes_last(&claim, links.calls.env.moment()) {
        return NominationWrite { waits: true, ..NominationWrite::default() };
    }
    let env = &links.calls.env;
    let places = known.places_to_keep(&[claim].into(), env.settings.daemon_share, env.moment());
    // Every table of a snapshot that is still held is copied by the next change.
    drop(known);
    write(&links.calls, places).await
}

/// Writes nominations, as many as there is time for.
async fn write(calls: &Calls, places: Vec<KeptPlace>) -> NominationWrite {
    let mut outcome = NominationWrite::default();
    let writing = async {
        let mut answers = stream::iter(places).map(|place| write_one(calls, place)).buffer_unordered(AT_ONCE);
        while let Some((place, answer)) = answers.next().await {
            match answer {
                Ok(()) => outcome.done.push((place.uid, place.node)),
                Err(CallError::Forbidden(why)) => (outcome.forbidden, outcome.failed) = (Some(why), true),
                // It has gone, has changed, or is not to be had now.
                Err(_) => outcome.failed = true,
            }
        }
    };
    // A nomination whose write was under way at the timeout counts as not written: it says no more than the plan.
    let late = tokio::time::timeout(LONGEST, writing).await.is_err();
    outcome.failed |= late;
    outcome
}

async fn write_one(calls: &Calls, place: KeptPlace) -> (KeptPlace, Result<(), CallError>) {
    let api = LenientApi::<Pod>::namespaced(calls.client.clone(), &place.namespace);
    // Another pod of that name is another.
    let patch = Patch::Merge(json!({"metadata": {"uid": place.uid}, "status": {"nominatedNodeName": place.node}}));
    let answer = calls.once(api.patch_status(&place.name, &PatchParams::default(), &patch)).await;
    (place, answer.map(drop))
}

impl KeptPlaces {
    /// Takes note of what was written. Returns the API server's words if it forbids that, and has done so more than once.
    fn note(&mut self, outcome: NominationWrite, now: Duration) -> Option<String> {
        let written = Arc::make_mut(&mut self.written);
        // Another place may have been kept for the pod since it was looked.
        outcome.over.iter().for_each(|(uid, node)| written.forget_place(uid, node));
        if !outcome.done.is_empty() {
            self.forbidden = 0;
        }
        outcome.done.into_iter().for_each(|(uid, node)| written.note(uid, node));
        let why = outcome.forbidden.filter(|_| self.forbidden_until <= now)?;
        self.forbidden += 1;
        if self.forbidden < BELIEVED {
            return None;
        }
        self.forbidden = 0;
        self.forbidden_until = now + FORBIDDEN_FOR;
        Some(why)
    }
}

impl Registrar {
    /// True if nominations may be written now.
    pub(in crate::registrar) fn keeps_places(&self) -> bool {
        self.binder.kept.forbidden_until <= self.env.now()
    }

    /// Takes note of what was written.
    pub(in crate::registrar) fn note_kept(&mut self, outcome: NominationWrite) {
        if let Some(why) = self.binder.kept.note(outcome, self.env.now()) {
            self.env.emit(LogEvent::PlacesNotKept { why });
        }
    }

    /// True while the places of a node are kept: it is about to be ready, or has just become so.
    fn keeps_places_of(&self, claim: &NodeClaim) -> bool {
        let own = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let (entered, longest) = match lifecycle::stage(claim) {
            Some(ClaimStage::Registered) => (conditions::REGISTERED, READY_WITHIN),
            Some(ClaimStage::Initialized) => (conditions::INITIALIZED, READY_FOR),
            Some(ClaimStage::Launched) | None => return false,
        };
        let since = condition(own, entered).map(|one| one.last_transition_time.0);
        since.is_some_and(|since| self.env.wall().duration_since(since) < longest)
    }

    /// Nominates pods, once more where kube-scheduler has taken it back, until their nodes are ready and a moment longer; takes
    /// back what is over.
    pub(in crate::registrar) fn look_at_kept_places(&mut self, ctx: &mut Context<Self>) {
        let coming = self.known.claims().filter(|claim| self.keeps_places_of(claim));
        let coming: BTreeSet<String> = coming.map(|claim| claim.name_any()).collect();
        let nothing = coming.is_empty() && self.binder.kept.written.is_empty();
        if self.binder.kept.looking || nothing || !self.keeps_places() {
            return;
        }
        self.binder.kept.looking = true;
        let (links, env, written) = (self.links.clone(), self.env.clone(), self.binder.kept.written.clone());
        let looking = async move {
            let Ok(Some(known)) = links.cluster.send(TakeSnapshot).await else { return NominationWrite::default() };
            let (mut places, over) = known.places_over(&written, env.moment());
            let keep = known.places_to_keep(&coming, env.settings.daemon_share, env.moment());
            // Two writes of one pod would race: its new node is all that is left to be said.
            let kept: BTreeSet<&String> = keep.iter().map(|one| &one.uid).collect();
            places.retain(|place| !kept.contains(&place.uid));
            places.extend(keep);
            drop((known, written));
            NominationWrite { over, ..write(&links.calls, places).await }
        };
        ctx.spawn(looking.into_actor(self).map(|outcome, registrar, ctx| {
            let pause = if outcome.failed { LONGEST } else { CHECK_INTERVAL };
            registrar.note_kept(outcome);
            ctx.run_later(pause, |registrar, ctx| {
                registrar.binder.kept.looking = false;
                registrar.look_at_kept_places(ctx);
            });
        }));
    }
}
