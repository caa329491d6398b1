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
use serde_json::json;

use super::StaticPools;
use crate::context::looks::Looking;
use crate::kube::calls::{CallError, Calls};
use crate::messages::{Record, Wrote, reference};
use crate::reading::LenientApi;
use crate::telemetry::log_event::LogEvent;

/// Minimum time between two events that nodes of one pool are missing.
const REPEAT_INTERVAL: Duration = Duration::from_secs(900);
/// Reasons that pass by themselves: nodes are on their way.
const PASSING: [&str; 2] = ["Launching", "Overprovisioned"];

/// The pool with the condition.
fn judged(pool: &NodePool, verdict: &ReplicaVerdict, now: Timestamp) -> NodePool {
    let mut pool = pool.clone();
    let (generation, status) = (pool.metadata.generation, pool.status.get_or_insert_default());
    let condition = NewCondition::new(REPLICAS_READY, verdict.status).because(verdict.reason, &verdict.message);
    set_condition(&mut status.conditions, condition, generation, now);
    pool
}

async fn write(calls: Calls, there: Arc<NodePool>, wanted: NodePool) -> Result<NodePool, CallError> {
    let api = LenientApi::<NodePool>::all(calls.client.clone());
    let patch = json!({
        "metadata": {"resourceVersion": there.metadata.resource_version},
        "status": patch::map(there.status.as_ref(), wanted.status.as_ref()),
    });
    calls.merge_status(&api, &there.name_any(), patch).await
}

impl StaticPools {
    /// Says what a pool has.
    pub(super) fn say(&mut self, name: &str, pool: &NodePool, verdict: ReplicaVerdict, ctx: &mut Context<Self>) {
        self.report_change(name, pool, &verdict);
        let wanted = judged(pool, &verdict, self.env.wall());
        let (key, now) = (format!("pool/{name}"), self.env.now());
        let same = wanted.status == pool.status;
        if same || self.brakes.hold(&key, pool.metadata.generation, now) || !self.writing.insert(name.to_owned()) {
            return;
        }
        let writing = write(self.links.calls.clone(), Arc::new(pool.clone()), wanted).into_actor(self);
        let (name, generation) = (name.to_owned(), pool.metadata.generation);
        ctx.spawn(writing.map(move |written, actor, ctx| {
            actor.writing.remove(&name);
            match written {
                Ok(pool) => {
                    actor.brakes.forget(&key);
                    actor.env.post(&actor.links.cluster, Wrote::Pool(Box::new(pool)));
                }
                // Somebody else has written meanwhile, or it is refused: it is judged anew at a later look.
                Err(_) => {
                    let (now, rng) = (actor.env.now(), actor.env.rng(&key));
                    let pause = actor.brakes.failed(&key, generation, now, || rng);
                    actor.look_in(pause, ctx);
                }
            }
        }));
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
