//! The call of a launch: with whom it is made, what comes of it for the claim, and the look for its instance.

use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::NodeClaim;
use dovetail_cloud::{
    FleetKey, Instance, LaunchError, LaunchErrorKind, LaunchPace, LaunchRequest, LaunchedFleet, LaunchedInstance,
};
use dovetail_core::launch_backoff::{BackoffCause, LaunchOutcome};
use dovetail_core::lifecycle::is_deleting;
use dovetail_core::lifecycle::protocol::{ApiFailure, LaunchCallResult};
use dovetail_core::ownership::token::{LaunchPart, is_shared};
use dovetail_core::ownership::{OwnershipMarks, part_on};
use kube::ResourceExt;

use super::{Launching, Work, fleet, short};
use crate::cloud::paced::launches_paced;
use crate::context::backoff::Backoff;
use crate::launcher::facts::{origin, pool_of};
use crate::launcher::shared::{CallAnswer, Heard, Membership, merging::Joining};
use crate::launcher::{REPEAT_INTERVAL, denied};
use crate::messages::{ClaimSoldOut, Record, TookReserved};
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;

/// Longest wait for CreateFleet's answer: a claim that is deleted is let go a minute later, and no call for it may go out after
/// that. So the call is not made, and its claims are read again, before there is room for its instances in EC2's pace.
const FLEET_TIMEOUT: Duration = Duration::from_secs(60);

impl Work<'_> {
    /// Finds the claims that ask for the same at the same time.
    pub(super) async fn join(&mut self, attempt: u32) -> LaunchPart {
        // An earlier call is over for this claim.
        self.part = None;
        let joining = Joining {
            uid: self.claim.metadata.uid.clone().unwrap_or_default(),
            attempt,
            origin: origin(&self.claim),
            key: self.request.as_ref().and_then(FleetKey::from_request),
            way: self.way.take(),
        };
        let membership = self.launching.merging.join(&self.launching.env, joining).await;
        let part = membership.part.clone();
        // All claims of a call pause alike, as they repeat it together.
        self.calls = Backoff::cloud(self.launching.env.rng(&part.token));
        self.request.iter_mut().for_each(|request| request.token.clone_from(&part.token));
        self.part = Some(membership);
        part
    }

    /// Makes the call, or hears what came of it where another claim's launch makes it.
    pub(super) async fn call(&mut self, number: (u32, u32)) -> Result<LaunchCallResult, ApiFailure> {
        let launching = self.launching;
        let Some(request) = self.current_request().await? else { return Ok(LaunchCallResult::Never) };
        // Until it is known what was launched, if something was.
        self.price = request.cheapest_price();
        let Some(membership) = &self.part else { return Ok(LaunchCallResult::Never) };
        let token = request.token.clone();
        // A span for each claim of the call, in the claim's own trace.
        let span = launching.env.span(launching.trace, "CreateFleet", &format!("{}/{}", number.0, number.1)).remote();
        let heard = membership.call(|count| launching.create_fleet(&self.claim, request, (count, membership))).await;
        let Some(Heard { answer, count, is_maker }) = heard else { return Ok(LaunchCallResult::Regroup) };
        let (outcome, refusals) = match answer {
            CallAnswer::Deposed => return Err(ApiFailure::Deposed),
            CallAnswer::TooEarly(wait) => {
                self.early = Some(wait);
                return Ok(LaunchCallResult::Later);
            }
            CallAnswer::TimedOut => {
                // It may have launched all the same: only a look by the token says so.
                span.failed("TimedOut", format!("no answer within {FLEET_TIMEOUT:?}")).end();
                return Ok(LaunchCallResult::Unknown);
            }
            CallAnswer::Launched(fleet) => (self.share_of(&fleet), fleet.refusals.clone()),
            CallAnswer::Failed(error) => (Err(LaunchError::clone(&error)), error.refusals.clone()),
        };
        let refusals = if is_maker { refusals } else { Vec::new() };
        fleet::end_span(&launching.env, span, count, &refusals, outcome.as_ref());
        let error = match outcome {
            Ok(instance) => {
                self.price = instance.price;
                let id = instance.id.clone();
                launching.known_to_be(&id, OwnershipMarks::launched_with(&token, ""));
                self.instance = Some((instance, String::new()));
                return Ok(LaunchCallResult::Launched(id));
            }
            Err(error) => error,
        };
        denied::record_denied(launching, &self.claim, &error.refusals);
        let at_once = error.refusals.iter().any(|refusal| refusal.is_capacity());
        if error.is_reported_to_pods(self.calls.failures()) {
            denied::tell_pods(launching, &self.claim, &error).await;
        }
        Ok(self.called_in_vain(error, at_once))
    }

    /// The claim's instance of a fleet, or the reason that there is none for it.
    fn share_of(&self, fleet: &LaunchedFleet) -> Result<LaunchedInstance, LaunchError> {
        let given = self.part.as_ref().and_then(|part| part.given());
        let own = fleet.instances.iter().find(|one| Some(&one.id) == given.as_ref());
        own.cloned().ok_or_else(|| fleet.missing.clone().unwrap_or_else(LaunchError::unsaid))
    }

    /// Handles an error of the cloud. `at_once`: the cloud has said that there is no capacity.
    fn called_in_vain(&mut self, error: LaunchError, at_once: bool) -> LaunchCallResult {
        let (launching, claim) = (self.launching, &self.claim);
        match error.kind {
            LaunchErrorKind::InsufficientCapacity => {
                let event = Record::warning(object::claim(claim), "InsufficientCapacityError", &*error.message);
                launching.env.post(&launching.links.recorder, event);
                launching.tell_failure(claim, error.reason, &error.message, false);
                // Before the claim goes, and with it who was expected on it.
                launching.env.post(&launching.links.cluster, ClaimSoldOut { claim: claim.name_any() });
                self.outcome = LaunchOutcome::SoldOut;
                LaunchCallResult::NothingToBeHad { reason: "insufficient_capacity", at_once }
            }
            LaunchErrorKind::NodeClassNotReady => {
                launching.tell_failure(claim, error.reason, &error.message, false);
                self.outcome = LaunchOutcome::Refused(BackoffCause::ClassNotReady, short(&error.message));
                LaunchCallResult::NothingToBeHad { reason: "nodeclass_not_ready", at_once: false }
            }
            LaunchErrorKind::Retryable => {
                if self.calls.failures() == 0 {
                    let what = format!("launching {}", claim.name_any());
                    launching.env.emit_in(LogEvent::Retrying { what, error: error.to_string() }, launching.trace);
                }
                LaunchCallResult::Later
            }
            LaunchErrorKind::Final => {
                launching.tell_failure(claim, error.reason, &error.message, true);
                launching.fails(claim, error.reason, &error.message);
                self.failure = (error.reason, error.message);
                LaunchCallResult::Never
            }
            LaunchErrorKind::MayHaveHappened => LaunchCallResult::Unknown,
            LaunchErrorKind::Unsaid => {
                // Not with this claim again.
                launching.tell_failure(claim, error.reason, &error.message, false);
                launching.fails(claim, error.reason, &error.message);
                LaunchCallResult::Unsaid
            }
            LaunchErrorKind::TokenUsed => {
                launching.tell_failure(claim, error.reason, &error.message, true);
                self.failure = (error.reason, error.message);
                LaunchCallResult::TokenUsed
            }
        }
    }

    /// Looks for the claim's living instances, at that moment or later.
    pub(super) async fn find_instances(
        &mut self,
        token: &str,
    ) -> Result<(Duration, Option<Vec<Instance>>), ApiFailure> {
        let launching = self.launching;
        if !is_shared(token) {
            let asked = launching.env.now();
            // The time is of before the question: what is launched after it cannot be in the answer.
            let found = launching.links.cloud.instances_with_token(token).await;
            return Ok((asked, found.ok()));
        }
        if self.part.as_ref().is_none_or(|one| one.part.token != token) {
            let Some(part) = part_on(&self.claim).filter(|part| part.token == token) else {
                return Ok((launching.env.now(), Some(Vec::new())));
            };
            self.part = Some(launching.merging.adopt(&part));
        }
        let Some(membership) = &self.part else { return Err(ApiFailure::Gone) };
        if is_deleting(&self.claim) {
            membership.waits();
        }
        membership.find_instances(launching, &self.claim).await
    }
}

impl Launching {
    /// Calls the cloud for so many instances, for all claims of the call; what it says of offerings is told once.
    async fn create_fleet(
        &self,
        claim: &NodeClaim,
        request: LaunchRequest,
        (count, membership): (u32, &Membership),
    ) -> CallAnswer {
        // Others may have been waited for since the launch was allowed to go on.
        if !self.links.calls.may_act() {
            return CallAnswer::Deposed;
        }
        let class = request.node_class.clone();
        let wait = membership.wait_for_room(self, count);
        let pace = LaunchPace { wait, ..self.links.cloud.launch_pace(count) };
        let all = usize::try_from(count).unwrap_or(usize::MAX).saturating_add(self.behind);
        if let Some(said) = launches_paced(&self.reported, pool_of(claim), all, pace, self.env.now()) {
            let event = |pool| Record::warning(pool, "LaunchesPaced", said.to_string()).quiet_for(REPEAT_INTERVAL);
            denied::pool(claim).map(event).into_iter().for_each(|event| self.env.post(&self.links.recorder, event));
            self.env.emit_in(said, self.trace);
        }
        if !wait.is_zero() {
            return CallAnswer::TooEarly(wait);
        }
        match tokio::time::timeout(FLEET_TIMEOUT, self.links.cloud.launch_several(request, count)).await {
            Ok(Ok(launched)) => {
                fleet::count_refusals(&self.env, &class, &launched.refusals);
                launched.instances.iter().for_each(|instance| {
                    self.launched(instance);
                    // Before the claim is written, which until then holds its place in the reservation.
                    if let Some(id) = instance.reservation_id.clone() {
                        self.env.post(&self.links.catalogue, TookReserved { id });
                    }
                });
                // An offering that was used up by this call is refused from here on, though some of it was launched.
                let missing = launched.missing.as_ref().map(|error| error.refusals.clone());
                self.refused(missing.filter(|all| !all.is_empty()).unwrap_or_else(|| launched.refusals.clone()));
                CallAnswer::Launched(Arc::new(launched))
            }
            // A call that ends with the term says nothing of the pool; a successor asks by the same token.
            Ok(Err(_)) if !self.links.calls.may_act() => CallAnswer::Deposed,
            Ok(Err(error)) => {
                fleet::count_refusals(&self.env, &class, &error.refusals);
                // Before the claims go: the packing that follows is not to choose the same again.
                self.refused(error.refusals.clone());
                CallAnswer::Failed(Arc::new(error))
            }
            Err(_) => CallAnswer::TimedOut,
        }
    }
}
