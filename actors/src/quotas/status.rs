//! The status of a quota, with the event and the log line where it is not held, or exceeded.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_api::autoscaling::{CapacityQuota, CapacityQuotaAlpha, VERSIONS};
use dovetail_core::lifecycle::patch;
use dovetail_core::quotas::{MOST_QUOTAS, QuotaVerdict};
use jiff::Timestamp;
use kube::ResourceExt;

use super::Quotas;
use super::said::{BEYOND, Finding, REPEAT_INTERVAL};
use crate::context::statuses::WritesStatuses;
use crate::kube::calls::{CallError, Calls};
use crate::messages::{Record, Wrote, reference};
use crate::reading::LenientApi;
use crate::telemetry::log_event::LogEvent;

/// The quota with its status.
fn with_status(quota: &CapacityQuota, verdict: &QuotaVerdict, now: Timestamp) -> CapacityQuota {
    let mut quota = quota.clone();
    let generation = quota.metadata.generation;
    verdict.write_to(quota.status.get_or_insert_default(), generation, now);
    quota
}

/// Writes a status in the newest version that is served.
async fn patch_status(
    calls: Calls,
    there: Arc<CapacityQuota>,
    wanted: CapacityQuota,
) -> Result<CapacityQuota, CallError> {
    let patch = patch::status(&there.metadata, there.status.as_ref(), wanted.status.as_ref());
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
    pub(super) fn write_status_of(
        &mut self,
        quota: &Arc<CapacityQuota>,
        verdict: &QuotaVerdict,
        ctx: &mut Context<Self>,
    ) -> bool {
        let wanted = with_status(quota, verdict, self.env.wall());
        let (name, generation) = (quota.name_any(), quota.metadata.generation);
        if wanted.status == quota.status || self.written.has_lately(&name, verdict, generation, self.env.now()) {
            return false;
        }
        let (of, verdict) = (name.clone(), verdict.clone());
        let writing = patch_status(self.links.calls.clone(), quota.clone(), wanted);
        let wrote = move |actor: &mut Self, quota| {
            actor.written.note_write(&of, verdict, generation, actor.env.now());
            actor.env.post(&actor.links.cluster, Wrote::Quota(Box::new(quota)));
        };
        self.write_status((&name, generation), writing, wrote, ctx)
    }

    /// Reports a quota that is not held or exceeded, or that is held after all.
    pub(super) fn report_change(&mut self, quota: &CapacityQuota, verdict: &QuotaVerdict) {
        self.report_as(&quota.name_any(), quota, Finding::from_verdict(verdict), verdict.message.clone());
    }

    /// Reports the quotas beyond those that are held: all by one line, and by one event at the first.
    pub(super) fn report_beyond(&mut self, quotas: &[&CapacityQuota]) {
        let Some(first) = quotas.first() else { return self.reported.forget_key(BEYOND) };
        let why = format!("it is not held, nor is any after it by name: only the first {MOST_QUOTAS} quotas are");
        self.report_as(BEYOND, first, Finding::NotHeld, why);
    }

    /// Says by an event and a line what is new under a key.
    fn report_as(&mut self, key: &str, quota: &CapacityQuota, finding: Finding, why: String) {
        let say = self.reported.note_finding(key, finding, &why, self.env.now());
        let quota_name = quota.name_any();
        let reason = match finding {
            Finding::Held => None,
            Finding::Exceeded => Some("QuotaExceeded"),
            Finding::NotHeld => Some("QuotaNotHeld"),
        };
        if let Some(reason) = reason.filter(|_| say.event) {
            let uid = quota.metadata.uid.as_deref().unwrap_or_default();
            let object = reference(VERSIONS[0], "CapacityQuota", "", &quota_name, uid);
            let event = Record::warning(object, reason, &*why);
            self.env.post(&self.links.recorder, event.quiet_for(REPEAT_INTERVAL));
        }
        if say.line {
            let quota = quota_name;
            self.env.emit(match finding {
                Finding::Held => LogEvent::QuotaHeld { quota, why },
                Finding::Exceeded => LogEvent::QuotaExceeded { quota, why },
                Finding::NotHeld => LogEvent::QuotaNotHeld { quota, why },
            });
        }
    }
}
