//! Says of each NodeOverlay what it acts on, or why it does not: by its conditions, an event and a log line. Decided in
//! `dovetail_core::overlays`; started where the feature gate NodeOverlay is open. Plans go by overlays whether or not anything
//! has been said of them: nobody waits for this actor.
//!
//! At the mailbox's bound: what comes in only says that something has changed; there is one look at a time.

mod condition;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::Snapshot;
use dovetail_core::overlays::{Overlaid, judge_overlay};

use crate::context::env::Env;
use crate::context::looks::{Looking, Looks};
use crate::context::statuses::{StatusWrites, WritesStatuses};
use crate::kube::calls::Calls;
use crate::links::{ToCatalogue, ToClusterWatcher, ToRecorder};
use crate::messages::{ClusterChanged, InstanceTypesFor, Observe, OverlaysState, TakeSnapshot};

/// Pause after a change before a look, as changes come in bursts.
const SETTLING_TIME: Duration = Duration::from_millis(500);
/// Minimum time between two looks: pods and nodes change the cluster all the time, and overlays hardly ever.
const REST: Duration = Duration::from_secs(5);
/// Interval of the looks when nothing changes: a class's types may be others.
const POLL: Duration = Duration::from_secs(60);
/// Most conditions that are written at a time; the others come with the next look.
const MOST_WRITES: usize = 20;
/// Pause before the next look while there are more to be written, or there was no answer.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Addresses that it sends to.
#[derive(Clone)]
pub struct OverlaysLinks {
    /// For snapshots and read-your-writes.
    pub cluster: ToClusterWatcher,
    /// For instance types.
    pub catalogue: ToCatalogue,
    /// For events.
    pub recorder: ToRecorder,
    /// For the conditions.
    pub calls: Calls,
}

/// The actor `overlays`.
pub struct Overlays {
    env: Env,
    links: OverlaysLinks,
    looks: Looks,
    /// Time of the last look. Monotonic.
    looked: Option<Duration>,
    state: OverlaysState,
    /// Reasons of the condition ValidationSucceeded as they were reported last, with the message, by overlay.
    reported: BTreeMap<String, (&'static str, String)>,
    /// Writes of conditions that are under way or have failed.
    writes: StatusWrites,
}

impl Overlays {
    /// At the start of a term.
    pub fn new(env: &Env, links: OverlaysLinks) -> Self {
        Self {
            env: env.for_actor("overlays"),
            links,
            looks: Looks::default(),
            looked: None,
            state: OverlaysState::default(),
            reported: BTreeMap::new(),
            writes: StatusWrites::default(),
        }
    }
}

impl Looking for Overlays {
    fn looks(&mut self) -> &mut Looks {
        &mut self.looks
    }

    fn look_clock(&self) -> Duration {
        self.env.now()
    }

    fn begin_look(&mut self, ctx: &mut Context<Self>) {
        if self.looks.under_way() || !self.links.calls.may_decide() {
            return self.look_in(POLL, ctx);
        }
        self.looks.begin();
        self.looked = Some(self.env.now());
        let looking = evaluate_overlays(self.links.clone()).into_actor(self);
        ctx.spawn(looking.map(|found, actor, ctx| {
            let again = match found {
                Some((snapshot, overlaid)) => actor.report_overlays(&snapshot, &overlaid, ctx),
                None => RETRY_DELAY,
            };
            actor.end_look(again, actor.time_to_rest(), ctx);
        }));
    }
}

impl WritesStatuses for Overlays {
    fn status_writes(&mut self) -> &mut StatusWrites {
        &mut self.writes
    }

    fn env(&self) -> &Env {
        &self.env
    }
}

impl Actor for Overlays {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.look_in(SETTLING_TIME, ctx);
    }
}

impl Handler<ClusterChanged> for Overlays {
    type Result = ();

    fn handle(&mut self, _: ClusterChanged, ctx: &mut Self::Context) {
        self.look_at_change(self.time_to_rest(), ctx);
    }
}

impl Handler<Observe> for Overlays {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.state.clone().into())
    }
}

impl Overlays {
    /// Time after which a change is looked at: not more often than it may.
    fn time_to_rest(&self) -> Duration {
        let rested = self.looked.map_or(Duration::ZERO, |last| (last + REST).saturating_sub(self.env.now()));
        rested.max(SETTLING_TIME)
    }

    /// Says of each overlay what has been found; answers when to look again.
    fn report_overlays(&mut self, snapshot: &Snapshot, overlaid: &Overlaid, ctx: &mut Context<Self>) -> Duration {
        self.state.looks += 1;
        let all = snapshot.overlays.all();
        self.state.overlays.retain(|name, _| all.contains_key(name));
        self.reported.retain(|name, _| all.contains_key(name));
        let mut left = MOST_WRITES;
        for (name, written) in all {
            let Some(verdict) = overlaid.effects.get(name).map(judge_overlay) else { continue };
            self.state.overlays.insert(name.clone(), format!("{}: {}", verdict.reason, verdict.message));
            self.report_change(&written.object, &verdict);
            if left > 0 && self.write_conditions(&written.object, &verdict, ctx) {
                left -= 1;
            }
        }
        if left == 0 { RETRY_DELAY } else { POLL }
    }
}

/// The cluster, and what its overlays make of the types of all classes in use.
async fn evaluate_overlays(links: OverlaysLinks) -> Option<(Snapshot, Arc<Overlaid>)> {
    let snapshot = links.cluster.send(TakeSnapshot).await.ok()??;
    if snapshot.overlays.is_empty() {
        return Some((snapshot, Arc::default()));
    }
    let classes = snapshot.used_classes();
    let types = links.catalogue.send(InstanceTypesFor::new(classes)).await.ok()??;
    let overlaid = snapshot.overlaid(&types);
    Some((snapshot, overlaid))
}
