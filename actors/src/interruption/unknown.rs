//! Messages about instances that no claim has yet: they are kept for a while, and acted on when a claim has the instance
//! (`dovetail_core::interruption::KeptMessages`).

use std::time::Duration;

use actix::prelude::*;
use dovetail_cloud::QueueMessage;
use dovetail_core::cluster_state::Snapshot;
use dovetail_core::interruption::{Announcement, KeptMessages};

use super::claims::ClaimsByInstance;
use super::{Interruption, Received};
use crate::messages::TakeSnapshot;

/// Interval at which these messages' instances are looked up again.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A message that waits, and the instances that it is about.
pub(super) struct Unknown {
    id: String,
    message: QueueMessage,
    queue_url: String,
    instances: Vec<String>,
}

/// Messages about instances that no claim is known for yet, until one is or their time is up.
#[derive(Default)]
pub(super) struct UnknownInstances {
    kept: KeptMessages<Unknown>,
    looking: bool,
}

impl UnknownInstances {
    /// Number of messages kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// A message of that id is acted on.
    pub fn forget(&mut self, id: &str) {
        self.kept.remove(id);
    }
}

impl Interruption {
    /// Keeps a message of which no instance is known. Answers whether it is kept: it is not for ever.
    pub(super) fn keep_unknown(
        &mut self,
        announced: &Announcement,
        message: &QueueMessage,
        queue_url: &str,
        ctx: &mut Context<Self>,
    ) -> bool {
        // An instance that is ending already needs nothing, and a message without an id cannot be told from its copies.
        if announced.id.is_empty() || announced.kind.is_over() {
            return false;
        }
        let (message, queue_url) = (message.clone(), queue_url.to_owned());
        let unknown = Unknown { id: announced.id.clone(), message, queue_url, instances: announced.instances.clone() };
        let kept = self.unknown.kept.insert(&announced.id, unknown, self.env.wall()).is_none();
        if kept && !std::mem::replace(&mut self.unknown.looking, true) {
            ctx.run_later(CHECK_INTERVAL, Self::look_for_unknown);
        }
        kept
    }

    fn look_for_unknown(&mut self, ctx: &mut Context<Self>) {
        let snapshot = self.links.cluster.send(TakeSnapshot).into_actor(self);
        ctx.spawn(snapshot.map(|snapshot, actor, ctx| {
            if let (Ok(Some(snapshot)), true) = (snapshot, actor.links.leader_term.holds()) {
                actor.act_on_known(&snapshot, ctx);
            }
            actor.unknown.looking = !actor.unknown.kept.is_empty();
            if actor.unknown.looking {
                ctx.run_later(CHECK_INTERVAL, Self::look_for_unknown);
            }
        }));
    }

    fn act_on_known(&mut self, snapshot: &Snapshot, ctx: &mut Context<Self>) {
        let claims = ClaimsByInstance::from_snapshot(snapshot);
        let is_known = |unknown: &Unknown| unknown.instances.iter().any(|id| claims.on(id).is_some());
        let known: Vec<String> =
            self.unknown.kept.iter().filter(|(_, one)| is_known(one)).map(|(id, _)| id.to_owned()).collect();
        let mut found: Vec<Unknown> = known.iter().filter_map(|id| self.unknown.kept.remove(id)).collect();
        let over = self.unknown.kept.over(self.env.wall());
        let ids: Vec<String> = over.iter().map(|unknown| unknown.id.clone()).collect();
        found.extend(over);
        for Unknown { message, queue_url, .. } in found {
            self.act_on(Received { queue_url, messages: vec![message] }, &claims, false, ctx);
        }
        // A copy that is on its way is not waited for once more.
        ids.iter().for_each(|id| self.events.remember(id));
    }
}
