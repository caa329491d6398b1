//! One launch, step by step: the claim is created; the token is written on it; then the cloud is called with the token;
//! then the instance is written on the claim. Each step can be found half done by a successor and be finished without a
//! second instance (design, "Safety" 3).

use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::annotations;
use dovetail_api::v1::{EC2NodeClass, NodeClaim};
use dovetail_cloud::{Instance, LaunchErrorKind, LaunchRequest, LaunchedInstance};
use dovetail_core::lifecycle::claim::from_quantities;
use dovetail_core::lifecycle::{self, launch::LaunchedInstance as Facts, token};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::backoff::Backoff;
use crate::calls::CallError;
use crate::claims::Claims;
use crate::desk::Desk;
use crate::fleet;
use crate::launch_facts::{self, Types, as_launched, named_types, pool_of};
use crate::launcher::LauncherLinks;
use crate::measure::Measure;
use crate::messages::{
    InstanceTypesFor, LaunchOrder, Record, Refused, TakeSnapshot, TookReserved, TraceContext, Wrote,
};
use crate::recorder::object;
use crate::span::{Open, names};
use crate::story::{Names, Story};
use crate::traces;

/// EC2's describes are consistent after this long.
const CONSISTENT: Duration = Duration::from_secs(60);
/// How long an own call without an answer is looked for before it is repeated with the same token and parameters.
const OWN_LOOK: Duration = Duration::from_secs(10);
/// Pause between two looks.
const LOOK: Duration = Duration::from_secs(2);
/// Longest wait for CreateFleet's answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many instance types the story of a claim names (core spec 8).
const NAMED: usize = 5;

/// What one launch has at hand.
#[derive(Clone)]
pub struct Launching {
    /// The launcher's.
    pub desk: Desk,
    /// The launcher's.
    pub links: LauncherLinks,
    /// Its own span.
    pub trace: TraceContext,
    /// The claim's span, in which that lies.
    pub inside: TraceContext,
    /// When it was ordered.
    pub since: Timestamp,
}

/// How a launch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The claim has its instance.
    Launched {
        /// The claim's uid.
        uid: String,
    },
    /// There is no claim (any more): its pods are free.
    Lost {
        /// Whether packing again at once can come out differently: what was refused is known to be unavailable.
        at_once: bool,
    },
    /// The claim is being deleted: its pods are free, and what may have been made for it is the terminator's.
    Leaving,
    /// The API server will not have what is to be written on the claim.
    Refused,
    /// The term ended first.
    Deposed,
}

impl End {
    /// For counting.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Launched { .. } => "launched",
            Self::Lost { .. } => "lost",
            Self::Leaving => "leaving",
            Self::Refused => "refused",
            Self::Deposed => "deposed",
        }
    }
}

/// The claim is gone for a reason that may well repeat itself.
const LOST: End = End::Lost { at_once: false };

impl From<CallError> for End {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Deposed => Self::Deposed,
            CallError::Refused(_) => Self::Refused,
            CallError::NotFound(_) | CallError::Conflict(_) | CallError::Exists(_) => LOST,
        }
    }
}

/// Launches a claim, from creation to the instance written on it.
pub async fn run(launching: Launching, order: LaunchOrder) -> End {
    let (name, ordered) = (order.claim.name_any(), order.claim.clone());
    let end = match launching.bring_up(order).await {
        // Refused before the cloud was called, or after the instance was ended: none belongs to the claim.
        Err(End::Refused) => match launching.claims().get(&name).await {
            Ok(claim) => launching.discard(&claim, "refused", false).await.unwrap_or_else(|end| end),
            Err(CallError::Deposed) => End::Deposed,
            Err(_) => LOST,
        },
        Ok(end) | Err(end) => end,
    };
    if matches!(end, End::Lost { .. } | End::Refused) {
        let span = launching.span().with_all(|| traces::attributes(&ordered));
        span.failed(end.label(), "the claim is given up").end();
        traces::claim_ended(&launching.desk, &ordered, Some((end.label(), "no instance was launched for it")));
    }
    end
}

/// What an attempt came to.
enum Attempt {
    Launched(LaunchedInstance),
    Found(Instance),
    GivenUp { reason: &'static str, at_once: bool },
    Again,
}

impl Launching {
    /// The launch as a span.
    fn span(&self) -> Open {
        self.desk.open(self.trace, Some(self.inside), "launch").since(self.since)
    }

    fn claims(&self) -> Claims {
        Claims::new(self.links.calls.clone())
    }

    async fn bring_up(&self, order: LaunchOrder) -> Result<End, End> {
        let fresh = order.claim.metadata.uid.is_none();
        let mut claim = if fresh { self.create(order).await? } else { self.reread(&order.claim).await? };
        if lifecycle::is_leaving(&claim) {
            return Ok(End::Leaving);
        }
        if lifecycle::stage(&claim).is_some() {
            return Ok(launched(&claim));
        }
        let mut attempt = 1;
        // Somebody's earlier call may have made an instance: it is looked for, never repeated.
        if let Some(token) = claim.annotations().get(annotations::LAUNCH_TOKEN).cloned() {
            if let Some(instance) = self.find(&token, CONSISTENT).await {
                return self.finish(claim, Attempt::Found(instance)).await;
            }
            attempt = token::attempt_of(&token).unwrap_or(0) + 1;
        }
        let mut backoff = Backoff::cloud(self.desk.rng(&claim.name_any()));
        loop {
            claim = self.write_token(claim, attempt).await?;
            match self.attempt(&mut claim, attempt).await? {
                Attempt::Again => {
                    attempt += 1;
                    tokio::time::sleep(backoff.pause()).await;
                }
                outcome => return self.finish(claim, outcome).await,
            }
        }
    }

    async fn create(&self, mut order: LaunchOrder) -> Result<NodeClaim, End> {
        order.claim.annotations_mut().insert(annotations::TERM.into(), self.desk.term.0.to_string());
        let span = self.desk.span(self.trace, "create NodeClaim", "").remote();
        let claim = match self.claims().create(&order.claim).await {
            Ok(claim) => claim,
            Err(CallError::Deposed) => return Err(End::Deposed),
            Err(error) => {
                span.failed("CreateFailed", error.to_string()).end();
                let (node_claim, error) = (order.claim.name_any(), error.to_string());
                let story = Story::LaunchFailed { node_claim, error, reason: "CreateFailed".into(), retry: false };
                self.desk.tell_in(story, self.trace);
                return Err(LOST);
            }
        };
        self.wrote(&claim);
        span.with_all(|| traces::attributes(&claim)).with(names::PODS, order.pods).end();
        self.desk.measure(&Measure::ClaimCreated { pool: &pool_of(&claim), reason: "provisioned" });
        let story = Story::ClaimCreated {
            node_claim: claim.name_any(),
            node_pool: pool_of(&claim),
            pods: order.pods,
            requests: from_quantities(&claim.spec.resources.requests).to_string(),
            instance_types: Names::first(NAMED, named_types(&claim)),
        };
        self.desk.tell_in(story, self.trace);
        Ok(claim)
    }

    async fn reread(&self, claim: &NodeClaim) -> Result<NodeClaim, End> {
        let claim = self.claims().get(&claim.name_any()).await?;
        self.wrote(&claim);
        Ok(claim)
    }

    /// Writes the attempt's token, and the leader's term, on the claim before the cloud is called.
    async fn write_token(&self, claim: NodeClaim, attempt: u32) -> Result<NodeClaim, End> {
        let uid = claim.uid().unwrap_or_default();
        let token = token::launch_token([uid.as_str()], attempt);
        let term = self.desk.term.0.to_string();
        let written = |claim: &mut NodeClaim| {
            let own = claim.annotations_mut();
            own.insert(annotations::LAUNCH_TOKEN.into(), token.clone());
            own.insert(annotations::TERM.into(), term.clone());
        };
        let claim = self.claims().change_metadata(claim, written).await?;
        self.wrote(&claim);
        if lifecycle::is_leaving(&claim) { Err(End::Leaving) } else { Ok(claim) }
    }

    /// Calls the cloud, and again with the same parameters while nothing else is known to have happened.
    async fn attempt(&self, claim: &mut NodeClaim, attempt: u32) -> Result<Attempt, End> {
        let token = token::launch_token([claim.uid().unwrap_or_default().as_str()], attempt);
        let Some(request) = self.request(claim, &token).await? else {
            self.tell_failure(claim, "NodeClassNotReady", "its EC2NodeClass is not there or not resolved", false);
            return Ok(Attempt::GivenUp { reason: "nodeclass_not_ready", at_once: false });
        };
        let mut backoff = Backoff::cloud(self.desk.rng(&token));
        let mut calls = 0;
        loop {
            if !self.links.calls.may_act() {
                return Err(End::Deposed);
            }
            calls += 1;
            let span = self.desk.span(self.trace, "CreateFleet", &format!("{attempt}/{calls}")).remote();
            let call = self.links.cloud.launch(request.clone());
            let error = match tokio::time::timeout(PATIENCE, call).await {
                Ok(Ok(instance)) => {
                    fleet::called(&self.desk, span, &instance.refusals, Ok(&instance));
                    self.refused(instance.refusals.clone());
                    // Before the claim is written, which until then holds its place in the reservation.
                    if let Some(id) = instance.reservation_id.clone() {
                        self.links.catalogue.do_send(TookReserved { id });
                    }
                    return Ok(Attempt::Launched(instance));
                }
                Ok(Err(error)) => error,
                Err(_) => {
                    span.failed("TimedOut", format!("no answer within {PATIENCE:?}")).end();
                    if let Some(instance) = self.find(&token, OWN_LOOK).await {
                        return Ok(Attempt::Found(instance));
                    }
                    continue;
                }
            };
            fleet::called(&self.desk, span, &error.refusals, Err(&error));
            let at_once = error.refusals.iter().any(|refusal| refusal.is_capacity());
            self.refused(error.refusals.clone());
            match error.kind {
                LaunchErrorKind::InsufficientCapacity => {
                    let event = Record::warning(object::claim(claim), "InsufficientCapacityError", &*error.message);
                    self.links.recorder.do_send(event);
                    self.tell_failure(claim, error.reason, &error.message, false);
                    return Ok(Attempt::GivenUp { reason: "insufficient_capacity", at_once });
                }
                LaunchErrorKind::NodeClassNotReady => {
                    self.tell_failure(claim, error.reason, &error.message, false);
                    return Ok(Attempt::GivenUp { reason: "nodeclass_not_ready", at_once: false });
                }
                LaunchErrorKind::Retryable => {
                    let pause = backoff.pause();
                    if backoff.failures() == 1 {
                        let what = format!("launching {}", claim.name_any());
                        self.desk.tell_in(Story::Retrying { what, error: error.to_string() }, self.trace);
                    }
                    tokio::time::sleep(pause).await;
                }
                LaunchErrorKind::Final => {
                    self.tell_failure(claim, error.reason, &error.message, true);
                    let now = self.desk.wall();
                    let failed =
                        |claim: &NodeClaim| lifecycle::launch::launch_failed(claim, error.reason, &error.message, now);
                    *claim = self.claims().change_status(claim.clone(), failed).await?;
                    self.wrote(claim);
                    return Ok(Attempt::Again);
                }
                LaunchErrorKind::MayHaveHappened => {
                    if let Some(instance) = self.find(&token, OWN_LOOK).await {
                        return Ok(Attempt::Found(instance));
                    }
                }
            }
            if !self.still_wanted(claim).await? {
                return Err(End::Leaving);
            }
        }
    }

    /// Between two calls: whether the claim is still to be launched.
    async fn still_wanted(&self, claim: &NodeClaim) -> Result<bool, End> {
        Ok(!lifecycle::is_leaving(&self.claims().get(&claim.name_any()).await?))
    }

    /// Looks for a living instance with the token until an answer that came after `within` has none; the oldest of
    /// several. A look that failed has shown nothing.
    async fn find(&self, token: &str, within: Duration) -> Option<Instance> {
        let begin = self.desk.now();
        loop {
            let asked = self.desk.now();
            match self.links.cloud.instances_with_token(token).await {
                Ok(mut found) => {
                    found.retain(|instance| !instance.is_terminating());
                    found.sort_by(|a, b| (a.launched_at, &a.id).cmp(&(b.launched_at, &b.id)));
                    if !found.is_empty() {
                        return Some(found.remove(0));
                    }
                    if asked.saturating_sub(begin) >= within {
                        return None;
                    }
                }
                Err(_) => tokio::time::sleep(LOOK).await,
            }
            if !self.links.calls.may_act() {
                return None;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn finish(&self, claim: NodeClaim, outcome: Attempt) -> Result<End, End> {
        let (instance, hostname) = match outcome {
            Attempt::Launched(instance) => (instance, String::new()),
            Attempt::Found(found) => {
                let (node_claim, instance) = (claim.name_any(), found.id.clone());
                self.desk.tell_in(Story::Adopted { node_claim, instance }, self.trace);
                (as_launched(&found), found.private_dns_name)
            }
            Attempt::GivenUp { reason, at_once } => return self.discard(&claim, reason, at_once).await,
            Attempt::Again => return Err(LOST),
        };
        let types = self.types(&claim).await?.unwrap_or_default();
        let facts = launch_facts::facts(&instance, &types);
        match self.write_instance(claim, &facts).await {
            Ok(claim) => {
                let hostname = if hostname.is_empty() { self.hostname(&instance.id).await } else { hostname };
                self.tell_launched(&claim, &instance, hostname, &facts);
                Ok(launched(&claim))
            }
            Err(CallError::Deposed) => Err(End::Deposed),
            Err(error) => {
                // Nobody waits for the instance any more; it is known to be ours, so it need not wait for the janitor.
                let _ = self.links.cloud.terminate(&instance.id).await;
                Err(error.into())
            }
        }
    }

    /// The name that the instance's node will have; empty when the cloud does not say soon.
    async fn hostname(&self, id: &str) -> String {
        for _ in 0..3 {
            match self.links.cloud.instance(id).await {
                Ok(Some(known)) if !known.private_dns_name.is_empty() => return known.private_dns_name,
                _ => tokio::time::sleep(LOOK).await,
            }
        }
        String::new()
    }

    async fn write_instance(&self, claim: NodeClaim, facts: &Facts) -> Result<NodeClaim, CallError> {
        let now = self.desk.wall();
        let done = |claim: &NodeClaim| lifecycle::launch::launched(claim, facts, now);
        let claim = self.claims().change_metadata(claim, |claim| claim.metadata = done(claim).metadata).await?;
        let claim = self.claims().change_status(claim, done).await?;
        self.wrote(&claim);
        Ok(claim)
    }

    /// Deletes a claim that has no instance.
    async fn discard(&self, claim: &NodeClaim, reason: &'static str, at_once: bool) -> Result<End, End> {
        self.claims().delete_without_instance(claim).await?;
        let (node_claim, reason) = (claim.name_any(), reason.to_owned());
        self.desk.tell_in(Story::ClaimDeleted { node_claim, reason }, self.trace);
        Ok(End::Lost { at_once })
    }

    async fn class_and_types(&self, claim: &NodeClaim) -> Result<Option<(Arc<EC2NodeClass>, Types)>, End> {
        let snapshot = self.links.cluster.send(TakeSnapshot).await.map_err(|_| End::Deposed)?;
        let class = snapshot.and_then(|now| now.classes.get(&claim.spec.node_class_ref.name).cloned());
        let Some(class) = class else { return Ok(None) };
        let query = InstanceTypesFor { classes: vec![class.clone()] };
        let types = self.links.catalogue.send(query).await.map_err(|_| End::Deposed)?;
        let types = types.and_then(|mut all| all.remove(&class.name_any())).unwrap_or_default();
        Ok(Some((class, types)))
    }

    async fn types(&self, claim: &NodeClaim) -> Result<Option<Types>, End> {
        Ok(self.class_and_types(claim).await?.map(|(_, types)| types))
    }

    async fn request(&self, claim: &NodeClaim, token: &str) -> Result<Option<LaunchRequest>, End> {
        let found = self.class_and_types(claim).await?;
        Ok(found.map(|(class, types)| launch_facts::request(claim, token, class, &types)))
    }

    fn refused(&self, refusals: Vec<dovetail_cloud::launch::Refusal>) {
        if !refusals.is_empty() {
            self.links.catalogue.do_send(Refused { refusals, trace: self.trace });
        }
    }

    fn wrote(&self, claim: &NodeClaim) {
        self.links.cluster.do_send(Wrote::Claim(Arc::new(claim.clone())));
    }

    fn tell_failure(&self, claim: &NodeClaim, reason: &str, error: &str, retry: bool) {
        let (node_claim, error, reason) = (claim.name_any(), error.to_owned(), reason.to_owned());
        self.desk.tell_in(Story::LaunchFailed { node_claim, error, reason, retry }, self.trace);
    }

    fn tell_launched(&self, claim: &NodeClaim, instance: &LaunchedInstance, hostname: String, facts: &Facts) {
        let story = Story::Launched {
            node_claim: claim.name_any(),
            instance: instance.id.clone(),
            provider_id: facts.provider_id.clone(),
            instance_type: instance.instance_type.clone(),
            zone: instance.zone.clone(),
            capacity_type: instance.capacity_type.clone(),
            hostname,
            allocatable: from_quantities(&facts.allocatable).to_string(),
        };
        self.desk.tell_in(story, self.trace);
        self.span().with_all(|| traces::attributes(claim)).end();
    }
}

fn launched(claim: &NodeClaim) -> End {
    End::Launched { uid: claim.uid().unwrap_or_default() }
}
