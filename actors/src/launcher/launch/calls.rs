//! Writes and calls of one launch: to the API server and the cloud, and their reports.

use std::sync::{Arc, PoisonError};

use dovetail_api::names::{annotations, instance_id};
use dovetail_api::v1::{EC2NodeClass, NodeClaim};
use dovetail_cloud::launch::filters;
use dovetail_cloud::launch::readiness::ready_status;
use dovetail_cloud::launch::unauthorized::without_decision;
use dovetail_cloud::unavailable::OfferingKey;
use dovetail_cloud::{LaunchRequest, LaunchedInstance};
use dovetail_core::cluster_state::{NO_CLASS, NoRequest, Snapshot};
use dovetail_core::lifecycle;
use dovetail_core::lifecycle::claim::{from_quantities, has_relaxed_min_values, lowered_min_values, named_types};
use dovetail_core::lifecycle::launch::InstanceFacts as Facts;
use dovetail_core::lifecycle::protocol::{ApiFailure, Claimed, put_part, put_term, takes_instance, takes_token};
use dovetail_core::ownership::token::{LaunchPart, is_shared};
use kube::ResourceExt;

use super::{CHECK_INTERVAL, Launching, TYPES_NAMED, short};
use crate::context::traces;
use crate::kube::calls::CallError;
use crate::kube::claims::NodeClaimApi;
use crate::launcher::denied::with_free_subnets;
use crate::launcher::facts::{self, ClassTypes, pool_of};
use crate::launcher::shared::Membership;
use crate::messages::{
    FullSubnets, InstanceTypesFor, LaunchFails, LaunchedOffering, Record, Refused, TakeSnapshot, Wrote,
};
use crate::recorder::object;
use crate::telemetry::log_event::{LogEvent, Names};
use crate::telemetry::measure::Measure;
use crate::telemetry::span::{OpenSpan, names};

/// Number of questions for the name of a new instance.
const HOSTNAME_LOOKS: u32 = 3;

impl From<CallError> for ApiFailure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Deposed => Self::Deposed,
            CallError::Refused(_) | CallError::Forbidden(_) | CallError::Doubted(_) | CallError::Unanswered(_) => {
                Self::Refused
            }
            // Under the name stands another claim, or none: what was ordered is not there.
            CallError::NotFound(_) | CallError::Conflict(_) | CallError::Exists(_) => Self::Gone,
        }
    }
}

impl super::Work<'_> {
    /// Request for the cloud. It is made anew while its class is not known to be ready: then nothing has been requested by it.
    pub(super) async fn current_request(&mut self) -> Result<Option<LaunchRequest>, ApiFailure> {
        let stale = self.request.as_ref().filter(|request| ready_status(&request.node_class).is_err());
        if let Some(token) = stale.map(|request| request.token.clone())
            && let Ok(request) = self.launching.request(&self.claim, &token, self.adopted).await?
        {
            self.request = Some(request);
        }
        Ok(self.request.clone())
    }
}

impl Launching {
    pub(super) fn span(&self) -> OpenSpan {
        self.env.open(self.trace, Some(self.inside), "launch").since(self.since)
    }

    pub(super) fn claims(&self) -> NodeClaimApi {
        NodeClaimApi::new(self.links.calls.clone())
    }

    pub(super) async fn create(&self, claim: &NodeClaim, pods: usize) -> Result<NodeClaim, CallError> {
        let mut wanted = claim.clone();
        wanted.annotations_mut().insert(annotations::TERM.into(), self.env.term.0.to_string());
        let span = self.env.span(self.trace, "create NodeClaim", "").remote();
        let claims = self.claims();
        let made = tokio::select! {
            biased;
            made = claims.create(&wanted) => made,
            // It was made, though nobody answered, and is gone since: its pods are packed anew, to make it again is one too many.
            () = self.gone.notified() => Err(CallError::NotFound(wanted.name_any())),
        };
        let claim = match made {
            Ok(claim) => claim,
            Err(CallError::Deposed) => return Err(CallError::Deposed),
            Err(error) => {
                span.failed("CreateFailed", error.to_string()).end();
                let (node_claim, why) = (wanted.name_any(), error.to_string());
                let log_event =
                    LogEvent::LaunchFailed { node_claim, error: why, reason: "CreateFailed".into(), retry: false };
                self.env.emit_in(log_event, self.trace);
                return Err(error);
            }
        };
        self.wrote(&claim);
        span.with_all(|| traces::attributes(&claim)).with(names::PODS, pods).end();
        let min_values_relaxed = has_relaxed_min_values(&claim);
        self.env.measure(&Measure::ClaimCreated { pool: &pool_of(&claim), reason: "provisioned", min_values_relaxed });
        if let Some(lowered) = lowered_min_values(&claim) {
            let message = format!(
                "Launched with fewer values than its NodePool's minValues, as no more are available: {lowered}"
            );
            let record = Record::normal(object::claim(&claim), "MinValuesRelaxed", message);
            self.env.post(&self.links.recorder, record);
        }
        let log_event = LogEvent::ClaimCreated {
            node_claim: claim.name_any(),
            node_pool: pool_of(&claim),
            pods,
            requests: from_quantities(&claim.spec.resources.requests).to_string(),
            instance_types: Names::first(TYPES_NAMED, named_types(&claim)),
        };
        self.env.emit_in(log_event, self.trace);
        Ok(claim)
    }

    /// Writes the attempt's token and the claim's place, and the leader's term, on the claim before the cloud is called.
    pub(super) async fn write_part(&self, claim: NodeClaim, part: &LaunchPart) -> Result<NodeClaim, CallError> {
        let term = self.env.term.0;
        let put = |claim: &mut NodeClaim| {
            // A conflict repeats the write, and its cause may be that the claim goes or has its instance.
            if takes_token(&Claimed::from_claim(claim)) {
                put_part(claim, part, term);
            }
        };
        let claim = self.claims().change_metadata(claim, put).await?;
        self.wrote(&claim);
        Ok(claim)
    }

    /// Writes the leader's term on a claim without an instance, whose launch an earlier leader has begun.
    pub async fn write_term(&self, claim: NodeClaim) -> Result<NodeClaim, CallError> {
        let term = self.env.term.0;
        let put = |claim: &mut NodeClaim| {
            if Claimed::from_claim(claim).instance.is_none() {
                put_term(claim, term);
            }
        };
        let claim = self.claims().change_metadata(claim, put).await?;
        self.wrote(&claim);
        Ok(claim)
    }

    pub(super) async fn write_failure(
        &self,
        claim: NodeClaim,
        reason: &str,
        message: &str,
    ) -> Result<NodeClaim, CallError> {
        let now = self.env.wall();
        let failed = |claim: &NodeClaim| lifecycle::launch::launch_failed(claim, reason, message, now);
        let claim = self.claims().change_status(claim, failed).await?;
        self.wrote(&claim);
        Ok(claim)
    }

    /// The name that the instance's node will have; empty when the cloud does not say soon.
    pub(super) async fn hostname(&self, id: &str, part: Option<&Membership>) -> String {
        for _ in 0..HOSTNAME_LOOKS {
            // EC2 may not know a new instance for some seconds; its claim is written by now, and waits for nothing.
            let name = match part.filter(|one| is_shared(&one.part.token)) {
                Some(part) => part.hostname(self, id).await,
                None => {
                    let known = self.links.cloud.instance(id).await.ok().flatten();
                    known.map(|known| known.private_dns_name).unwrap_or_default()
                }
            };
            if !name.is_empty() {
                return name;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        String::new()
    }

    pub(super) async fn write_instance(&self, claim: NodeClaim, facts: &Facts) -> Result<NodeClaim, CallError> {
        let now = self.env.wall();
        let id = instance_id(&facts.provider_id).unwrap_or_default();
        let done = |claim: &NodeClaim| match takes_instance(&Claimed::from_claim(claim), id) {
            true => lifecycle::launch::launched(claim, facts, now),
            false => claim.clone(),
        };
        // The status last: it names the instance, and where a crash leaves it out the token finds the instance.
        let claim = self.claims().change_metadata(claim, |claim| claim.metadata = done(claim).metadata).await?;
        let claim = self.claims().change_status(claim, done).await?;
        self.wrote(&claim);
        Ok(claim)
    }

    /// Deletes a claim that has no instance.
    pub async fn discard(&self, claim: &NodeClaim, reason: &'static str) -> Result<(), CallError> {
        if self.claims().delete_without_instance(claim).await? {
            self.env.post(&self.links.cluster, Wrote::ClaimGone(claim.name_any(), claim.uid()));
        }
        let (node_claim, reason) = (claim.name_any(), reason.to_owned());
        self.env.emit_in(LogEvent::ClaimDeleted { node_claim, reason }, self.trace);
        Ok(())
    }

    /// Deletes a claim of which nobody can say whether it has an instance: that is the terminator's to find out.
    pub(super) async fn remove(&self, claim: &NodeClaim, reason: &'static str) -> Result<(), CallError> {
        let claim = self.claims().remove(claim.clone()).await?;
        self.removed(&claim, reason);
        Ok(())
    }

    /// Deletes a claim that nobody is expected on and nobody has launched for, as it is here: a token written meanwhile is a conflict.
    pub async fn remove_as_seen(&self, claim: &NodeClaim, reason: &'static str) -> Result<(), CallError> {
        let claim = self.claims().remove_as_seen(claim).await?;
        self.removed(&claim, reason);
        Ok(())
    }

    pub(super) fn removed(&self, claim: &NodeClaim, reason: &'static str) {
        self.wrote(claim);
        let (node_claim, reason) = (claim.name_any(), reason.to_owned());
        self.env.emit_in(LogEvent::ClaimDeleted { node_claim, reason }, self.trace);
    }

    pub(super) async fn class_and_types(
        &self,
        claim: &NodeClaim,
    ) -> Result<Option<(Arc<EC2NodeClass>, ClassTypes, Snapshot)>, ApiFailure> {
        // A cluster that is not known yet has no classes: the launch ends as for a class that is not resolved.
        let known = self.links.cluster.send(TakeSnapshot).await.map_err(|_| ApiFailure::Deposed)?.unwrap_or_default();
        let named = claim.spec.node_class_ref.name_for(self.env.settings.provider);
        let Some(class) = named.and_then(|name| known.classes.get(name)).cloned() else { return Ok(None) };
        let types = self.types_of(claim, &class, &known, false).await?;
        Ok(Some((class, types, known)))
    }

    /// Types of a claim's class, with what overlays say of them in its pool.
    async fn types_of(
        &self,
        claim: &NodeClaim,
        class: &Arc<EC2NodeClass>,
        known: &Snapshot,
        last_resort: bool,
    ) -> Result<ClassTypes, ApiFailure> {
        // Without the types of other classes overlays are judged by its own.
        for classes in known.classes_with(class) {
            let query = InstanceTypesFor { classes, last_resort };
            if let Some(types) = self.links.catalogue.send(query).await.map_err(|_| ApiFailure::Deposed)? {
                return Ok(known.types_of_pool(&pool_of(claim), &class.name_any(), &types).unwrap_or_default());
            }
        }
        Ok(ClassTypes::default())
    }

    pub(super) async fn types(&self, claim: &NodeClaim) -> Result<Option<ClassTypes>, ApiFailure> {
        Ok(self.class_and_types(claim).await?.map(|(_, types, _)| types))
    }

    /// Request for the cloud; for a claim that is not planned here limited to the room that its pool still has.
    pub(super) async fn request(
        &self,
        claim: &NodeClaim,
        token: &str,
        adopted: bool,
    ) -> Result<Result<LaunchRequest, NoRequest>, ApiFailure> {
        let Some((class, types, known)) = self.class_and_types(claim).await? else { return Ok(Err(NO_CLASS)) };
        let most = self.env.settings.max_option_price;
        let asked = |class, types: &ClassTypes| {
            let request = facts::request(claim, token, class, types);
            LaunchRequest { max_option_price: most, ..request }
        };
        let mut request = asked(self.without_full_subnets(&class, false).await?, &types);
        // It may have been planned for what is asked for as a last resort only.
        if filters::select(&request).is_err() {
            let types = self.types_of(claim, &class, &known, true).await?;
            request = asked(self.without_full_subnets(&class, true).await?, &types);
        }
        match known.still_allowed(claim, request.candidates, &types, adopted) {
            Ok(candidates) => Ok(Ok(LaunchRequest { candidates, ..request })),
            Err(none) => Ok(Err(none)),
        }
    }

    async fn without_full_subnets(
        &self,
        class: &Arc<EC2NodeClass>,
        last_resort: bool,
    ) -> Result<Arc<EC2NodeClass>, ApiFailure> {
        let full = self.links.catalogue.send(FullSubnets { last_resort }).await.map_err(|_| ApiFailure::Deposed)?;
        Ok(with_free_subnets(class.clone(), &full))
    }

    /// EC2 will not launch it, nor others of its pool as long as nothing changes; it goes on trying.
    pub(super) fn fails(&self, claim: &NodeClaim, reason: &'static str, error: &str) {
        if let Some(own) = &self.own {
            let (claim, words, trace) = (claim.name_any(), short(without_decision(error)), self.trace);
            self.env.post(own, LaunchFails { claim, reason, words, trace });
        }
    }

    pub(super) fn refused(&self, refusals: Vec<dovetail_cloud::launch::OfferingRefusal>) {
        if !refusals.is_empty() {
            self.env.post(&self.links.catalogue, Refused { refusals, trace: self.trace });
        }
    }

    /// EC2 has it after all, if it was refused before.
    pub(super) fn launched(&self, instance: &LaunchedInstance) {
        let LaunchedInstance { capacity_type, instance_type, zone, subnet_id, .. } = instance.clone();
        let offering = OfferingKey { capacity_type, instance_type, zone };
        self.env.post(&self.links.catalogue, LaunchedOffering { offering, subnet: subnet_id });
    }

    pub(super) fn wrote(&self, claim: &NodeClaim) {
        self.env.post(&self.links.cluster, Wrote::Claim(Arc::new(claim.clone())));
    }

    /// Reports a failed launch; the same failure of a pool's claims is one line, and then ever more seldom one.
    pub(super) fn tell_failure(&self, claim: &NodeClaim, reason: &str, error: &str, retry: bool) {
        let cause = format!("{}: {reason}: {}", pool_of(claim), without_decision(error));
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if !reported.are_reported([cause], self.env.now()) {
            return;
        }
        let (node_claim, error, reason) = (claim.name_any(), error.to_owned(), reason.to_owned());
        self.env.emit_in(LogEvent::LaunchFailed { node_claim, error, reason, retry }, self.trace);
    }

    pub(super) fn tell_launched(
        &self,
        claim: &NodeClaim,
        instance: &LaunchedInstance,
        hostname: String,
        facts: &Facts,
    ) {
        let log_event = LogEvent::Launched {
            node_claim: claim.name_any(),
            instance: instance.id.clone(),
            provider_id: facts.provider_id.clone(),
            instance_type: instance.instance_type.clone(),
            zone: instance.zone.clone(),
            capacity_type: instance.capacity_type.clone(),
            hostname,
            allocatable: from_quantities(&facts.allocatable).to_string(),
        };
        self.env.emit_in(log_event, self.trace);
        self.span().with_all(|| traces::attributes(claim)).end();
    }
}
