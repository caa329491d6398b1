//! Spot nodes whose interruptions nobody hears, as there is no queue: said once a term, to each pool that uses spot, and by a metric
//! for as long as it is so.

use std::collections::BTreeSet;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::interruption::unheard;

use super::Interruption;
use crate::messages::{Record, TakeSnapshot};
use crate::recorder::object;
use crate::telemetry::log_event::{LogEvent, Names};

/// How often the nodes are counted.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Until the cluster is known for the first time.
const SETTLING_TIME: Duration = Duration::from_secs(1);
/// How many names a log line gives.
const NAMES_LISTED: usize = 5;

const REMEDY: &str = "Spot nodes end without a warning to their pods: INTERRUPTION_QUEUE is not set";

impl Interruption {
    /// Counts the spot nodes of a cluster without a queue.
    pub(super) fn look_unheard(&mut self, ctx: &mut Context<Self>) {
        let snapshot = self.links.cluster.send(TakeSnapshot).into_actor(self);
        ctx.spawn(snapshot.map(|snapshot, actor, ctx| {
            let Ok(Some(snapshot)) = snapshot else {
                ctx.run_later(SETTLING_TIME, Self::look_unheard);
                return;
            };
            let found = unheard::unheard(
                snapshot.claims.values().map(|entry| &*entry.claim),
                snapshot.pools.values().map(|pool| &**pool),
            );
            actor.unheard = found.nodes;
            let news: BTreeSet<String> = found.pools.difference(&actor.reported_unheard).cloned().collect();
            for pool in news.iter().filter_map(|name| snapshot.pools.get(name)) {
                let one = object::pool(pool);
                actor.env.post(&actor.links.recorder, Record::warning(one, "InterruptionsNotHeard", REMEDY));
            }
            if actor.reported_unheard.is_empty() && !news.is_empty() {
                let pools = Names::first(NAMES_LISTED, news.iter().cloned());
                actor.env.emit(LogEvent::SpotUnheard { nodes: found.nodes, pools });
            }
            actor.reported_unheard.extend(news);
            ctx.run_later(CHECK_INTERVAL, Self::look_unheard);
        }));
    }
}
