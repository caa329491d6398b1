//! The status of a buffer, with the event and the log line where room is missing.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::autoscaling::{CapacityBuffer, CapacityBufferAlpha, VERSIONS};
use dovetail_api::names::conditions::TRUE;
use dovetail_core::buffers::{BufferVerdict, judge_buffer};
use dovetail_core::lifecycle::patch;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

use super::{Buffers, Planned};
use crate::context::statuses::WritesStatuses;
use crate::kube::calls::{CallError, Calls};
use crate::messages::{BufferState, Record, reference};
use crate::reading::LenientApi;
use crate::telemetry::log_event::LogEvent;

/// Minimum time between two events that a buffer lacks room.
const REPEAT_INTERVAL: Duration = Duration::from_secs(900);

/// A buffer, as events name it.
pub(super) fn object(buffer: &CapacityBuffer) -> ObjectReference {
    let (namespace, uid) = (buffer.namespace().unwrap_or_default(), buffer.uid().unwrap_or_default());
    reference(VERSIONS[0], "CapacityBuffer", &namespace, &buffer.name_any(), &uid)
}

/// The buffer with its status.
fn with_status(buffer: &CapacityBuffer, verdict: &BufferVerdict, now: Timestamp) -> CapacityBuffer {
    let mut buffer = buffer.clone();
    let generation = buffer.metadata.generation;
    verdict.write_to(buffer.status.get_or_insert_default(), generation, now);
    buffer
}

async fn patch_status(
    calls: Calls,
    version: &'static str,
    there: Arc<CapacityBuffer>,
    wanted: CapacityBuffer,
) -> Result<CapacityBuffer, CallError> {
    let (namespace, name) = (there.namespace().unwrap_or_default(), there.name_any());
    let patch = patch::status(&there.metadata, there.status.as_ref(), wanted.status.as_ref());
    if version == VERSIONS[0] {
        let api = LenientApi::<CapacityBuffer>::namespaced(calls.client.clone(), &namespace);
        return calls.merge_status(&api, &name, patch).await;
    }
    let api = LenientApi::<CapacityBufferAlpha>::namespaced(calls.client.clone(), &namespace);
    calls.merge_status(&api, &name, patch).await.map(CapacityBuffer::from)
}

impl Buffers {
    /// Says of each buffer what it has: in the actor's state and by its status.
    pub(super) fn report(&mut self, planned: &Planned, ctx: &mut Context<Self>) {
        let now = self.env.now();
        let there = |key: &String| planned.demands.contains_key(key);
        self.state.buffers.retain(|key, _| there(key));
        self.reported.retain(|key, _| there(key));
        for (key, (buffer, demand)) in &planned.demands {
            let chunks = planned.plan.buffers.get(key);
            let paused = self.memory.paused(key, now);
            let Some(mut verdict) = judge_buffer(demand, chunks, paused) else { continue };
            verdict.template = self.sources.source_of(buffer).ok().and_then(|source| source.template_ref.clone());
            let (_, reason, message) = &verdict.provisioning;
            let chunks = chunks.cloned().unwrap_or_default();
            let state = BufferState {
                wanted: demand.as_ref().map(dovetail_core::buffers::Buffer::wanted).unwrap_or_default(),
                ready: chunks.ready,
                coming: chunks.coming + chunks.new,
                left_over: chunks.left_over,
                dollars_per_hour: chunks.dollars,
                says: format!("{reason}: {message}"),
            };
            self.state.buffers.insert(key.clone(), state);
            self.report_change(key, buffer, &verdict, chunks.left_over > 0);
            self.write_status_of(key, buffer, &verdict, ctx);
        }
    }

    fn write_status_of(
        &mut self,
        key: &str,
        buffer: &Arc<CapacityBuffer>,
        verdict: &BufferVerdict,
        ctx: &mut Context<Self>,
    ) {
        let wanted = with_status(buffer, verdict, self.env.wall());
        let Some(version) = self.known.version() else { return };
        if wanted.status == buffer.status {
            return;
        }
        let writing = patch_status(self.links.calls.clone(), version, buffer.clone(), wanted);
        let wrote = |actor: &mut Self, buffer| actor.known.wrote(buffer);
        self.write_status((key, buffer.metadata.generation), writing, wrote, ctx);
    }

    /// Reports that a buffer cannot be held or lacks room that is not on its way, or that all of it is there again.
    fn report_change(&mut self, key: &str, buffer: &CapacityBuffer, verdict: &BufferVerdict, lacks_room: bool) {
        let held = verdict.provisioning.0 == TRUE;
        let lacks = verdict.ready.0 != TRUE || lacks_room;
        let (word, why) = match lacks {
            true => ("lacks", verdict.provisioning.2.clone()),
            false if held => ("held", verdict.provisioning.2.clone()),
            // Its room is on its way.
            false => return,
        };
        if lacks {
            let event = Record::warning(object(buffer), "NotTriggerScaleUp", &*why);
            self.env.post(&self.links.recorder, event.quiet_for(REPEAT_INTERVAL));
        }
        if self.reported.insert(key.to_owned(), word) == Some(word) {
            return;
        }
        let buffer = key.to_owned();
        self.env.emit(match lacks {
            true => LogEvent::BufferShort { buffer, why },
            false => LogEvent::BufferHeld { buffer, why },
        });
    }
}
