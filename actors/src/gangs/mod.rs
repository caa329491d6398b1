//! Fulfils ProvisioningRequests: finds places for all pods of a request or for none, orders the nodes that it needs, holds its
//! room for a time, and says at the request what is there. Decided in `dovetail_core::gangs`; started where the feature gate
//! ProvisioningRequest is open.
//!
//! ```text
//! watch (where the kind is served), PodTemplates (asked for) ──► look ─┬─► BookRoom: plans for other pods, disruption
//! cluster_watcher: the cluster has changed ────────────────────────────┤ ─► PlanClaims, LaunchClaims: all nodes of one request
//!                                                                      ├─► Remove: nodes of one that has come to nothing
//!                                                                      └─► conditions, events
//! ```
//!
//! The cluster state hears of a plan before anything is created and before the next look, and the claim's annotation has the
//! request that it is for: nobody plans it twice, no later leader either.
//!
//! At the mailbox's bound: what comes in only says that something has changed; there is one look at a time.

mod launching;
mod looking;
mod status;
mod templates;
mod watching;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::HeldRoom;
use dovetail_core::gangs::GangMemory;

use self::looking::{Asked, find_places};
use self::templates::KnownTemplates;
use self::watching::KnownRequests;
use crate::context::env::Env;
use crate::context::looks::{Looking, Looks};
use crate::context::solver::Solver;
use crate::context::statuses::{StatusWrites, WritesStatuses};
use crate::kube::calls::Calls;
use crate::links::{ToCatalogue, ToClusterWatcher, ToLauncher, ToRecorder, ToTerminator};
use crate::messages::{BookRoom, ClusterChanged, GangsState, Observe};

/// Pause after a change before a look, as changes come in bursts.
const SETTLING_TIME: Duration = Duration::from_millis(500);
/// Interval of the looks when nothing changes: bookings end, and templates are asked for again.
const POLL: Duration = Duration::from_secs(10);
/// Pause after a look that had no answer.
const NO_ANSWER: Duration = Duration::from_secs(1);
/// A look is followed by a pause of so many times the time that it took.
const REST_FACTOR: u32 = 4;
/// Longest time from the start for which disruption waits until requests have been listed.
const LISTED_WITHIN: Duration = Duration::from_secs(120);

/// Addresses that it sends to.
#[derive(Clone)]
pub struct GangsLinks {
    /// For snapshots, plans and the places of room.
    pub cluster: ToClusterWatcher,
    /// For instance types.
    pub catalogue: ToCatalogue,
    /// For claims that are to be launched.
    pub launcher: ToLauncher,
    /// For claims that are given back.
    pub terminator: ToTerminator,
    /// For events.
    pub recorder: ToRecorder,
    /// For the requests and their templates.
    pub calls: Calls,
}

/// The actor `gangs`.
pub struct Gangs {
    env: Env,
    links: GangsLinks,
    solver: Arc<dyn Solver>,
    rng: fastrand::Rng,
    known: KnownRequests,
    templates: KnownTemplates,
    memory: GangMemory,
    /// Time of the start. Monotonic.
    begun: Duration,
    looks: Looks,
    state: GangsState,
    /// Reasons as they were reported last, by request.
    reported: BTreeMap<String, &'static str>,
    /// Writes of statuses that are under way or have failed.
    writes: StatusWrites,
}

impl Gangs {
    /// At the start of a term.
    pub fn new(env: &Env, links: GangsLinks, solver: Arc<dyn Solver>) -> Self {
        let env = env.for_actor("gangs");
        let (rng, begun) = (env.rng("names"), env.now());
        Self {
            env,
            links,
            solver,
            rng,
            known: KnownRequests::default(),
            templates: KnownTemplates::default(),
            memory: GangMemory::default(),
            begun,
            looks: Looks::default(),
            state: GangsState::default(),
            reported: BTreeMap::new(),
            writes: StatusWrites::default(),
        }
    }
}

impl Looking for Gangs {
    fn looks(&mut self) -> &mut Looks {
        &mut self.looks
    }

    fn look_clock(&self) -> Duration {
        self.env.now()
    }

    fn begin_look(&mut self, ctx: &mut Context<Self>) {
        self.look_at_requests(ctx);
    }
}

impl WritesStatuses for Gangs {
    fn status_writes(&mut self) -> &mut StatusWrites {
        &mut self.writes
    }

    fn env(&self) -> &Env {
        &self.env
    }
}

impl Actor for Gangs {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.watch_requests(ctx);
        self.look_in(LISTED_WITHIN, ctx);
    }
}

impl Handler<ClusterChanged> for Gangs {
    type Result = ();

    fn handle(&mut self, _: ClusterChanged, ctx: &mut Self::Context) {
        if !self.known.is_empty() {
            self.look_at_change(SETTLING_TIME, ctx);
        }
    }
}

impl Handler<Observe> for Gangs {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.state.clone().into())
    }
}

impl Gangs {
    fn look_at_requests(&mut self, ctx: &mut Context<Self>) {
        if self.looks.under_way() || !self.links.calls.may_decide() {
            return self.look_in(POLL, ctx);
        }
        if !self.known.is_listed() {
            if self.env.now().saturating_sub(self.begun) >= LISTED_WITHIN {
                // Disruption has waited long enough: it goes on as if there were none.
                self.book_room(HeldRoom::new());
            }
            return self.look_in(POLL, ctx);
        }
        self.state.looks += 1;
        if self.known.is_empty() {
            self.state.requests.clear();
            // A request that comes brings the next look.
            return self.book_room(HeldRoom::new());
        }
        self.looks.begin();
        let begun = self.env.now();
        let asked = Asked {
            links: self.links.clone(),
            solver: self.solver.clone(),
            env: self.env.clone(),
            templates: self.templates.clone(),
            requests: self.known.all(),
            memory: self.memory.clone(),
        };
        ctx.spawn(find_places(asked).into_actor(self).map(move |planned, actor, ctx| {
            let again = match planned {
                Some(planned) => actor.act_on(planned, ctx),
                None => NO_ANSWER,
            };
            let took = actor.env.now().saturating_sub(begun);
            actor.end_look(again, SETTLING_TIME.max(took * REST_FACTOR), ctx);
        }));
    }

    fn book_room(&self, room: HeldRoom) {
        self.env.post(&self.links.cluster, BookRoom { room });
    }
}
