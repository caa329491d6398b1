//! The conditions of an overlay, with the event and the log line where it is left out.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::conditions::TRUE;
use dovetail_api::overlays::{API_VERSION, KIND, NodeOverlay};
use dovetail_core::lifecycle::patch;
use dovetail_core::overlays::OverlayVerdict;
use jiff::Timestamp;
use kube::ResourceExt;

use super::Overlays;
use crate::context::statuses::WritesStatuses;
use crate::kube::calls::{CallError, Calls};
use crate::messages::{Record, Wrote, reference};
use crate::reading::LenientApi;
use crate::telemetry::log_event::LogEvent;

/// Minimum time between two events that an overlay is left out.
const REPEAT_INTERVAL: Duration = Duration::from_secs(900);

/// The overlay with its conditions.
fn with_conditions(overlay: &NodeOverlay, verdict: &OverlayVerdict, now: Timestamp) -> NodeOverlay {
    let mut overlay = overlay.clone();
    let generation = overlay.metadata.generation;
    verdict.write_to(overlay.status.get_or_insert_default(), generation, now);
    overlay
}

async fn patch_status(calls: Calls, there: Arc<NodeOverlay>, wanted: NodeOverlay) -> Result<NodeOverlay, CallError> {
    let api = LenientApi::<NodeOverlay>::all(calls.client.clone());
    let patch = patch::status(&there.metadata, there.status.as_ref(), wanted.status.as_ref());
    calls.merge_status(&api, &there.name_any(), patch).await
}

impl Overlays {
    /// Writes the conditions of an overlay, unless they say so; answers true if a write has begun.
    pub(super) fn write_conditions(
        &mut self,
        overlay: &Arc<NodeOverlay>,
        verdict: &OverlayVerdict,
        ctx: &mut Context<Self>,
    ) -> bool {
        let wanted = with_conditions(overlay, verdict, self.env.wall());
        if wanted.status == overlay.status {
            return false;
        }
        let writing = patch_status(self.links.calls.clone(), overlay.clone(), wanted);
        let wrote = |actor: &mut Self, overlay| actor.env.post(&actor.links.cluster, Wrote::Overlay(Box::new(overlay)));
        self.write_status((&overlay.name_any(), overlay.metadata.generation), writing, wrote, ctx)
    }

    /// Reports an overlay that is left out, or that counts after all.
    pub(super) fn report_change(&mut self, overlay: &NodeOverlay, verdict: &OverlayVerdict) {
        let (name, counts) = (overlay.name_any(), verdict.status == TRUE);
        let before = self.reported.insert(name.clone(), (verdict.reason, verdict.message.clone()));
        if !counts {
            let uid = overlay.metadata.uid.as_deref().unwrap_or_default();
            let object = reference(API_VERSION, KIND, "", &name, uid);
            let event = Record::warning(object, verdict.reason, &*verdict.message);
            self.env.post(&self.links.recorder, event.quiet_for(REPEAT_INTERVAL));
        }
        let is_news = match &before {
            Some((reason, message)) => *reason != verdict.reason || (!counts && *message != verdict.message),
            None => true,
        };
        if is_news {
            let (overlay, why) = (name, verdict.message.clone());
            self.env.emit(match counts {
                true => LogEvent::OverlayApplied { overlay, why },
                false => LogEvent::OverlayRefused { overlay, why },
            });
        }
    }
}
