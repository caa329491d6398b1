//! The status of a request, with the event and the log line where it has no room.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::provisioning::{KIND, ProvisioningRequest, ProvisioningRequestBeta, VERSIONS};
use dovetail_core::gangs::{GangOutcome, PodsNow};
use dovetail_core::lifecycle::patch;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

use super::Gangs;
use super::looking::{Planned, ReadRequest};
use crate::context::statuses::WritesStatuses;
use crate::kube::calls::{CallError, Calls};
use crate::messages::{Record, reference};
use crate::reading::LenientApi;
use crate::telemetry::log_event::LogEvent;

/// Minimum time between two events that a request has no room.
const REPEAT_INTERVAL: Duration = Duration::from_secs(900);

/// A request, as events name it.
pub(super) fn object(request: &ProvisioningRequest) -> ObjectReference {
    let (namespace, uid) = (request.namespace().unwrap_or_default(), request.uid().unwrap_or_default());
    reference(VERSIONS[0], KIND, &namespace, &request.name_any(), &uid)
}

/// The request with its status.
fn with_status(
    request: &ProvisioningRequest,
    outcome: &GangOutcome,
    pods: Option<&PodsNow>,
    now: Timestamp,
) -> ProvisioningRequest {
    let mut request = request.clone();
    let generation = request.metadata.generation;
    outcome.write_to(request.status.get_or_insert_default(), pods, generation, now);
    request
}

async fn patch_status(
    calls: Calls,
    version: &'static str,
    there: Arc<ProvisioningRequest>,
    wanted: ProvisioningRequest,
) -> Result<ProvisioningRequest, CallError> {
    let (namespace, name) = (there.namespace().unwrap_or_default(), there.name_any());
    let patch = patch::status(&there.metadata, there.status.as_ref(), wanted.status.as_ref());
    if version == VERSIONS[0] {
        let api = LenientApi::<ProvisioningRequest>::namespaced(calls.client.clone(), &namespace);
        return calls.merge_status(&api, &name, patch).await;
    }
    let api = LenientApi::<ProvisioningRequestBeta>::namespaced(calls.client.clone(), &namespace);
    calls.merge_status(&api, &name, patch).await.map(ProvisioningRequest::from)
}

impl Gangs {
    /// Says of each request what it has: in the actor's state and by its status.
    pub(super) fn report(
        &mut self,
        planned: &Planned,
        outcomes: &BTreeMap<String, GangOutcome>,
        ctx: &mut Context<Self>,
    ) {
        let there = |key: &String| planned.requests.contains_key(key);
        self.state.requests.retain(|key, _| there(key));
        self.reported.retain(|key, _| there(key));
        for (key, one) in &planned.requests {
            let Some(outcome) = outcomes.get(key) else { continue };
            let pods = planned.plan.gangs.get(key);
            self.note_state(key, one, outcome, pods);
            self.report_change(key, one, outcome);
            if one.readable {
                self.write_status_of(key, &one.request, outcome, pods, ctx);
            }
        }
    }

    fn note_state(&mut self, key: &str, one: &ReadRequest, outcome: &GangOutcome, pods: Option<&PodsNow>) {
        let state = self.state.requests.entry(key.to_owned()).or_default();
        let kept = pods.filter(|_| outcome.keeps_room());
        state.pods = one.gang.as_ref().map(|gang| gang.pods()).unwrap_or_default();
        state.ready = kept.map(|pods| pods.ready).unwrap_or_default();
        state.coming = kept.map(|pods| pods.coming + pods.new).unwrap_or_default();
        if let Some((reason, message)) = outcome.sentence() {
            state.says = format!("{reason}: {message}");
        }
    }

    fn write_status_of(
        &mut self,
        key: &str,
        request: &Arc<ProvisioningRequest>,
        outcome: &GangOutcome,
        pods: Option<&PodsNow>,
        ctx: &mut Context<Self>,
    ) {
        let wanted = with_status(request, outcome, pods, self.env.wall());
        let Some(version) = self.known.version() else { return };
        let before = request.status.clone().unwrap_or_default();
        if wanted.status.as_ref() == Some(&before) {
            return;
        }
        let writing = patch_status(self.links.calls.clone(), version, request.clone(), wanted);
        let wrote = |actor: &mut Self, request| actor.known.wrote(request);
        self.write_status((key, request.metadata.generation), writing, wrote, ctx);
    }

    /// Reports that a request has no room, or that all of it is there.
    fn report_change(&mut self, key: &str, one: &ReadRequest, outcome: &GangOutcome) {
        let Some((reason, why)) = outcome.sentence() else { return };
        let bad = outcome.is_bad();
        if bad {
            let event = Record::warning(object(&one.request), "NotTriggerScaleUp", &*why);
            self.env.post(&self.links.recorder, event.quiet_for(REPEAT_INTERVAL));
        }
        if self.reported.insert(key.to_owned(), reason) == Some(reason) {
            return;
        }
        let request = key.to_owned();
        match outcome {
            _ if bad => self.env.emit(LogEvent::RequestWithoutRoom { request, why }),
            GangOutcome::Coming(..) => {}
            _ => self.env.emit(LogEvent::RequestSays { request, why: format!("{reason}: {why}") }),
        }
    }
}
