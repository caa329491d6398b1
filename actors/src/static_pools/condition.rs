//! The condition ReplicasReady of a static pool, with the event and the log line where nodes are missing.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::conditions::{REPLICAS_READY, TRUE};
use dovetail_api::v1::{NewCondition, NodePool, set_condition};
use dovetail_core::lifecycle::patch;
use dovetail_core::static_pools::ReplicaVerdict;
use jiff::Timestamp;
use kube::ResourceExt;

use super::StaticPools;
use crate::context::statuses::WritesStatuses;
use crate::kube::calls::{CallError, Calls};
use crate::messages::{Record, Wrote, reference};
use crate::reading::LenientApi;
use crate::telemetry::log_event::LogEvent;

/// Minimum time between two events that nodes of one pool are missing.
const REPEAT_INTERVAL: Duration = Duration::from_secs(900);
/// Reasons that pass by themselves: nodes are on their way.
const PASSING: [&str; 2] = ["Launching", "Overprovisioned"];

/// The pool with the condition.
fn with_condition(pool: &NodePool, verdict: &ReplicaVerdict, now: Timestamp) -> NodePool {
    let mut pool = pool.clone();
    let (generation, status) = (pool.metadata.generation, pool.status.get_or_insert_default());
    let condition = NewCondition::new(REPLICAS_READY, verdict.status).because(verdict.reason, &verdict.message);
    set_condition(&mut status.conditions, condition, generation, now);
    pool
}

async fn patch_status(calls: Calls, there: Arc<NodePool>, wanted: NodePool) -> Result<NodePool, CallError> {
    let api = LenientApi::<NodePool>::all(calls.client.clone());
    let patch = patch::status(&there.metadata, there.status.as_ref(), wanted.status.as_ref());
    calls.merge_status(&api, &there.name_any(), patch).await
}

impl StaticPools {
    /// Reports what a pool has, and writes it as a condition.
    pub(super) fn report_pool(
        &mut self,
        name: &str,
        pool: &NodePool,
        verdict: ReplicaVerdict,
        ctx: &mut Context<Self>,
    ) {
        self.report_change(name, pool, &verdict);
        let wanted = with_condition(pool, &verdict, self.env.wall());
        if wanted.status == pool.status {
            return;
        }
        let writing = patch_status(self.links.calls.clone(), Arc::new(pool.clone()), wanted);
        let wrote = |actor: &mut Self, pool| actor.env.post(&actor.links.cluster, Wrote::Pool(Box::new(pool)));
        self.write_status((&format!("pool/{name}"), pool.metadata.generation), writing, wrote, ctx);
    }

    /// Reports that nodes of a pool are missing for another reason than before, or no more.
    fn report_change(&mut self, name: &str, pool: &NodePool, verdict: &ReplicaVerdict) {
        let held = verdict.status == TRUE;
        let before = self.reported.insert(name.to_owned(), verdict.reason);
        let lacks = !held && !PASSING.contains(&verdict.reason);
        if lacks {
            let uid = pool.metadata.uid.as_deref().unwrap_or_default();
            let object = reference("karpenter.sh/v1", "NodePool", "", name, uid);
            let event = Record::warning(object, "ReplicasMissing", &*verdict.message);
            self.env.post(&self.links.recorder, event.quiet_for(REPEAT_INTERVAL));
        }
        if before == Some(verdict.reason) {
            return;
        }
        let (node_pool, why) = (name.to_owned(), verdict.message.clone());
        if lacks {
            self.env.emit(LogEvent::ReplicasMissing { node_pool, why });
        } else if held {
            self.env.emit(LogEvent::ReplicasReady { node_pool, why });
        }
    }
}
