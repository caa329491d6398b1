//! One launch, step by step: the claim is created; the token is written on it; then the cloud is called with the token;
//! then the instance is written on the claim. Each step can be found half done by a successor and be finished without a
//! second instance (docs/decisions/020). What comes next is decided by `dovetail_core::lifecycle::protocol`; here it is done.

mod calling;
mod calls;
mod fleet;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::Recipient;
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::{Instance, LaunchRequest, LaunchedInstance};
use dovetail_core::cluster_state::NO_CLASS;
use dovetail_core::launch_backoff::{BackoffCause, LaunchOutcome};
use dovetail_core::lifecycle::claim::class_stamps;
use dovetail_core::lifecycle::launch::launch_allowed;
pub use dovetail_core::lifecycle::protocol::LaunchEnd;
use dovetail_core::lifecycle::protocol::{ApiFailure, Claimed, Input, LaunchStep, Pause, Protocol, takes_instance};
use dovetail_core::ownership::OwnershipMarks;
use dovetail_core::say_once::SayOnce;
use jiff::Timestamp;
use kube::ResourceExt;
use tokio::sync::Notify;

use crate::context::backoff::Backoff;
use crate::context::brakes::repeats::Repeats;
use crate::context::env::Env;
use crate::context::traces;
use crate::kube::calls::CallError;
use crate::launcher::LauncherLinks;
use crate::launcher::facts;
use crate::launcher::shared::Membership;
use crate::launcher::shared::merging::{Merging, OnTheWay};
use crate::messages::{LaunchFails, LaunchOrder, TraceContext};
use crate::telemetry::log_event::LogEvent;

/// Pause between two looks.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Longest pause between two attempts of one claim.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Number of looks for a missing class: the watch of claims may be ahead of that of classes.
const CLASS_LOOKS: u32 = 5;
/// Most instance types in the log line of a claim (core spec 8).
const TYPES_NAMED: usize = 5;

/// Surroundings of one launch.
#[derive(Clone)]
pub struct Launching {
    /// Environment of the launcher.
    pub env: Env,
    /// Addresses of the launcher.
    pub links: LauncherLinks,
    /// Launcher to notify while the launch fails and is retried.
    pub own: Option<Recipient<LaunchFails>>,
    /// Its own span.
    pub trace: TraceContext,
    /// The claim's span, in which that lies.
    pub inside: TraceContext,
    /// Time of the order.
    pub since: Timestamp,
    /// Says that a claim of this name is gone.
    pub gone: Arc<Notify>,
    /// Failures that were reported lately, of all launches.
    pub reported: Arc<Mutex<Repeats>>,
    /// Launches that may be made by one call.
    pub merging: Arc<Merging>,
    /// Number of orders that waited behind it.
    pub behind: usize,
}

/// Cuts a foreign text to the length that is quoted.
pub fn short(words: &str) -> String {
    const MOST: usize = 300;
    let mut short: String = words.chars().take(MOST).collect();
    if short.len() < words.len() {
        short.push('…');
    }
    short
}

/// Launches a claim, from creation to the instance written on it. Answers how it ended, what that says about others, and what the
/// instance costs, or may cost at least, in $/h.
pub async fn run(launching: Launching, order: LaunchOrder, way: Option<OnTheWay>) -> (LaunchEnd, LaunchOutcome, f64) {
    // The protocol decides and does nothing, `Work` does and decides nothing: what a test explores is what runs here.
    let (ordered, mut input) = (order.claim.clone(), Input::Begin);
    let mut protocol = Protocol::new(ordered.metadata.uid.is_none());
    let mut work = Work { way, ..Work::new(&launching, order) };
    let end = loop {
        match protocol.step(input, launching.env.now(), launching.links.calls.may_act()) {
            LaunchStep::End(end) => break end,
            step => input = work.act(step).await.unwrap_or_else(|failure| work.failed(failure)),
        }
    };
    if matches!(end, LaunchEnd::Lost { .. } | LaunchEnd::Refused) {
        let span = launching.span().with_all(|| traces::attributes(&ordered));
        span.failed(end.label(), "the claim is given up").end();
        traces::claim_ended(&launching.env, &ordered, Some((end.label(), "no instance was launched for it")));
    }
    let outcome = if matches!(end, LaunchEnd::Launched { .. }) { LaunchOutcome::Launched } else { work.outcome };
    (end, outcome, work.price)
}

/// State of one launch between its steps.
struct Work<'a> {
    launching: &'a Launching,
    pods: usize,
    /// True if the claim was made before this launch; plans made since may not include it.
    adopted: bool,
    /// The claim as ordered, then as last read or written.
    claim: NodeClaim,
    /// Until it comes to a call: others of its pool and class wait for it.
    way: Option<OnTheWay>,
    /// Its part in the call of this attempt.
    part: Option<Membership>,
    /// Request of this attempt.
    request: Option<LaunchRequest>,
    /// Launched instance, and its hostname if known.
    instance: Option<(LaunchedInstance, String)>,
    /// Instances found by the last look.
    found: Vec<Instance>,
    /// Failure that ended the attempt for good: reason and message.
    failure: (&'static str, String),
    /// Consequence for other claims if nothing is launched.
    outcome: LaunchOutcome,
    /// $/h of the instance, or of the cheapest that may have been launched.
    price: f64,
    /// Time until there is room for its call, which was not made.
    early: Option<Duration>,
    calls: Backoff,
    attempts: Backoff,
    /// Reports made about instances and tokens that are not the claim's.
    said: SayOnce<String>,
}

impl<'a> Work<'a> {
    fn new(launching: &'a Launching, order: LaunchOrder) -> Self {
        let rng = launching.env.rng(&order.claim.name_any());
        let attempts = Backoff::new(Duration::from_millis(500), LONGEST_PAUSE, rng.clone());
        Self {
            launching,
            pods: order.pods,
            adopted: order.claim.metadata.uid.is_some(),
            claim: order.claim,
            way: None,
            part: None,
            request: None,
            instance: None,
            found: Vec::new(),
            failure: ("", String::new()),
            outcome: LaunchOutcome::Other,
            price: 0.0,
            early: None,
            calls: Backoff::cloud(rng),
            attempts,
            said: SayOnce::default(),
        }
    }

    /// Does a step.
    async fn act(&mut self, step: LaunchStep) -> Result<Input, ApiFailure> {
        let launching = self.launching;
        let claim = match step {
            LaunchStep::Create => {
                let made = launching.create(&self.claim, self.pods).await;
                if let Err(CallError::Refused(words) | CallError::Forbidden(words)) = &made {
                    self.outcome = LaunchOutcome::Refused(BackoffCause::ClaimRefused, short(words));
                }
                made?
            }
            LaunchStep::Read => {
                let there = self.read_claim().await?;
                self.allow(there).await
            }
            LaunchStep::Prepare => return self.prepare().await.map(Input::Prepared),
            LaunchStep::Join(attempt) => return Ok(Input::Joined(self.join(attempt).await)),
            LaunchStep::WriteToken(part) => launching.write_part(self.claim.clone(), &part).await?,
            LaunchStep::Call { number, .. } => return self.call(number).await.map(Input::Called),
            LaunchStep::Look(token) => {
                let (asked, found) = self.find_instances(&token).await?;
                return Ok(Input::Looked(asked, found.map(|found| self.keep_own(found))));
            }
            LaunchStep::Rest(pause) => {
                let pause = match pause {
                    Pause::Look => CHECK_INTERVAL,
                    Pause::FailedLook => CHECK_INTERVAL * 2,
                    Pause::Call => self.early.take().unwrap_or_else(|| self.calls.pause()),
                    Pause::Attempt => self.attempts.pause(),
                };
                tokio::time::sleep(pause).await;
                return Ok(Input::Done);
            }
            LaunchStep::WriteInstance { id, adopted } => self.write_instance(&id, adopted).await?,
            LaunchStep::WriteFailure => {
                launching.write_failure(self.claim.clone(), self.failure.0, &self.failure.1).await?
            }
            LaunchStep::Discard(reason) => {
                launching.discard(&self.claim, reason).await?;
                return Ok(Input::Done);
            }
            LaunchStep::Remove(reason) => {
                launching.remove(&self.claim, reason).await?;
                return Ok(Input::Done);
            }
            LaunchStep::End(_) => return Ok(Input::Done),
        };
        self.claim = claim;
        Ok(Input::Claim(Claimed::from_claim(&self.claim)))
    }

    /// The claim as the API server has it; another of the same name is none of ours.
    async fn read_claim(&mut self) -> Result<NodeClaim, ApiFailure> {
        let there = self.launching.claims().get(&self.claim.name_any()).await?;
        if self.claim.metadata.uid.is_some() && there.metadata.uid != self.claim.metadata.uid {
            return Err(ApiFailure::Gone);
        }
        self.launching.wrote(&there);
        self.launching.tell_foreign_token(&there, &mut self.said);
        Ok(there)
    }

    /// A claim that waited for a ceiling has its time to launch from now on. If that cannot be written, it is launched all the same.
    async fn allow(&self, there: NodeClaim) -> NodeClaim {
        let now = self.launching.env.wall();
        let allowed = |claim: &NodeClaim| launch_allowed(claim, now);
        match self.launching.claims().change_status(there.clone(), allowed).await {
            Ok(claim) if claim.status != there.status => {
                self.launching.wrote(&claim);
                claim
            }
            _ => there,
        }
    }

    /// Makes what the cloud is asked for; answers why there is nothing to ask for, as it is counted.
    async fn prepare(&mut self) -> Result<Result<(), &'static str>, ApiFailure> {
        let mut prepared = self.launching.request(&self.claim, "", self.adopted).await?;
        for _ in 0..CLASS_LOOKS {
            if !prepared.as_ref().is_err_and(|no| no.label == NO_CLASS.label) {
                break;
            }
            // Nobody waits for a launch that waits itself.
            self.way = None;
            tokio::time::sleep(CHECK_INTERVAL).await;
            prepared = self.launching.request(&self.claim, "", self.adopted).await?;
        }
        if let Err(no) = &prepared {
            self.launching.tell_failure(&self.claim, no.reason, no.why, false);
            if no.label == NO_CLASS.label {
                self.outcome = LaunchOutcome::Refused(BackoffCause::ClassNotReady, no.why.to_owned());
            }
        }
        let outcome = prepared.as_ref().map(|_| ()).map_err(|no| no.label);
        self.request = prepared.ok();
        Ok(outcome)
    }

    /// A call to the API server has no answer to work with.
    fn failed(&mut self, failure: ApiFailure) -> Input {
        if failure == ApiFailure::Gone && self.outcome == LaunchOutcome::Other {
            self.outcome = LaunchOutcome::Vanished;
        }
        // Refusals before the claim existed have been reported in the API server's words.
        if failure == ApiFailure::Refused && self.outcome == LaunchOutcome::Other && self.claim.metadata.uid.is_some() {
            let words = "it refuses what is to be written on them".to_owned();
            self.outcome = LaunchOutcome::Refused(BackoffCause::ClaimRefused, words);
        }
        Input::Failed(failure)
    }

    /// Keeps the living instances that are the claim's, the oldest first, and answers their ids.
    fn keep_own(&mut self, mut found: Vec<Instance>) -> Vec<String> {
        let (launching, claim, said) = (self.launching, &self.claim, &mut self.said);
        found.retain(|instance| !instance.is_terminating() && launching.is_own(claim, instance, said));
        // Every leader takes the same one, and the others are collected.
        found.sort_by(|a, b| (a.launched_at, &a.id).cmp(&(b.launched_at, &b.id)));
        self.found = found;
        self.found.iter().map(|instance| instance.id.clone()).collect()
    }

    async fn write_instance(&mut self, id: &str, adopted: bool) -> Result<NodeClaim, ApiFailure> {
        let launching = self.launching;
        if let Some(found) = self.found.iter().find(|instance| adopted && instance.id == id) {
            let (node_claim, instance) = (self.claim.name_any(), found.id.clone());
            launching.env.emit_in(LogEvent::Adopted { node_claim, instance }, launching.trace);
            self.instance = Some((LaunchedInstance::from_found(found), found.private_dns_name.clone()));
        }
        let Some((instance, hostname)) = self.instance.take() else { return Err(ApiFailure::Gone) };
        let types = launching.types(&self.claim).await?.unwrap_or_default();
        let mut facts = facts::facts(&instance, &types);
        self.price = instance.price_among(&types).unwrap_or(self.price);
        if let Some(request) = self.request.as_ref().filter(|_| !adopted) {
            // The class may have changed since the claim was planned.
            facts.annotations.extend(class_stamps(&request.node_class, &launching.env.settings.cluster_ca_bundle));
        }
        let claim = launching.write_instance(self.claim.clone(), &facts).await?;
        // It has got another meanwhile: nothing was written.
        if !takes_instance(&Claimed::from_claim(&claim), &instance.id) {
            return Ok(claim);
        }
        let hostname = match hostname.is_empty() {
            true => launching.hostname(&instance.id, self.part.as_ref()).await,
            false => hostname,
        };
        if let Some(request) = self.request.as_ref().filter(|_| !adopted) {
            // Its Node is told from others by that name.
            launching.known_to_be(&instance.id, OwnershipMarks::launched_with(&request.token, &hostname));
        }
        launching.tell_launched(&claim, &instance, hostname, &facts);
        Ok(claim)
    }
}
