//! The status of a quota, with the event and the log line where it is not held, or exceeded.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::autoscaling::{CapacityQuota, CapacityQuotaAlpha, VERSIONS};
use dovetail_core::lifecycle::patch;
use dovetail_core::quotas::QuotaVerdict;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::Quotas;
use crate::context::looks::Looking;
use crate::kube::calls::{CallError, Calls};
use crate::messages::{Record, Wrote, reference};
use crate::reading::LenientApi;
use crate::telemetry::log_event::LogEvent;

/// Minimum time between two events that a quota is not held or exceeded.
const REPEAT_INTERVAL: Duration = Duration::from_secs(900);

/// Kinds of findings on a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Held,
    Exceeded,
    NotHeld,
}

/// The quota with its status.
fn judged(quota: &CapacityQuota, verdict: &QuotaVerdict, now: Timestamp) -> CapacityQuota {
    let mut quota = quota.clone();
    let generation = quota.metadata.generation;
    verdict.write_to(quota.status.get_or_insert_default(), generation, now);
    quota
}

/// Writes a status in the newest version that is served.
async fn write(calls: Calls, there: Arc<CapacityQuota>, wanted: CapacityQuota) -> Result<CapacityQuota, CallError> {
    let patch = json!({
        "metadata": {"resourceVersion": there.metadata.resource_version},
        "status": patch::map(there.status.as_ref(), wanted.status.as_ref()),
    });
    let (name, client) = (there.name_any(), calls.client.clone());
    let newest = calls.merge_status(&LenientApi::<CapacityQuota>::all(client.clone()), &name, patch.clone()).await;
    match newest {
        // A cluster that serves the older version alone has no such path.
        Err(CallError::NotFound(_)) => {
            let older = LenientApi::<CapacityQuotaAlpha>::all(client);
            calls.merge_status(&older, &name, patch).await.map(CapacityQuota::from)
        }
        written => written,
    }
}

impl Quotas {
    /// Writes the status of a quota, unless it says so; answers true if a write has begun.
    pub(super) fn say(&mut self, quota: &Arc<CapacityQuota>, verdict: &QuotaVerdict, ctx: &mut Context<Self>) -> bool {
        let wanted = judged(quota, verdict, self.env.wall());
        let (name, generation, now) = (quota.name_any(), quota.metadata.generation, self.env.now());
        let same = wanted.status == quota.status;
        if same || self.brakes.hold(&name, generation, now) || !self.writing.insert(name.clone()) {
            return false;
        }
        let writing = write(self.links.calls.clone(), quota.clone(), wanted).into_actor(self);
        ctx.spawn(writing.map(move |written, actor, ctx| {
            actor.writing.remove(&name);
            match written {
                Ok(quota) => {
                    actor.brakes.forget(&name);
                    actor.env.post(&actor.links.cluster, Wrote::Quota(Box::new(quota)));
                }
                // Somebody else has written meanwhile, or it is refused: it is judged anew at a later look.
                Err(_) => {
                    let (now, rng) = (actor.env.now(), actor.env.rng(&name));
                    let pause = actor.brakes.failed(&name, generation, now, || rng);
                    actor.look_in(pause, ctx);
                }
            }
        }));
        true
    }

    /// Reports a quota that is not held or exceeded, or that is held after all.
    pub(super) fn report_change(&mut self, quota: &CapacityQuota, verdict: &QuotaVerdict) {
        let finding = match verdict {
            QuotaVerdict { held: false, .. } => Finding::NotHeld,
            QuotaVerdict { exceeded: true, .. } => Finding::Exceeded,
            _ => Finding::Held,
        };
        let (name, why) = (quota.name_any(), verdict.message.clone());
        // The amount by which a quota is exceeded changes with each node, and is in its status.
        let said = if finding == Finding::NotHeld { why.clone() } else { String::new() };
        let before = self.reported.insert(name.clone(), (finding, said.clone()));
        let reason = match finding {
            Finding::Held => None,
            Finding::Exceeded => Some("QuotaExceeded"),
            Finding::NotHeld => Some("QuotaNotHeld"),
        };
        if let Some(reason) = reason {
            let uid = quota.metadata.uid.as_deref().unwrap_or_default();
            let object = reference(VERSIONS[0], "CapacityQuota", "", &name, uid);
            let event = Record::warning(object, reason, &*why);
            self.env.post(&self.links.recorder, event.quiet_for(REPEAT_INTERVAL));
        }
        if before == Some((finding, said)) {
            return;
        }
        let quota = name;
        self.env.emit(match finding {
            Finding::Held => LogEvent::QuotaHeld { quota, why },
            Finding::Exceeded => LogEvent::QuotaExceeded { quota, why },
            Finding::NotHeld => LogEvent::QuotaNotHeld { quota, why },
        });
    }
}
