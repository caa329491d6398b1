//! Holds the room of capacity buffers: finds places for it after all real pods, orders nodes for what has none, and says at each
//! buffer what is there. Decided in `dovetail_core::buffers`; started where the feature gate CapacityBuffer is open.
//!
//! ```text
//! watch (where the kind is served), templates and workloads (asked for every ten seconds) ──► look ─┬─► HeldRoom: disruption
//! cluster_watcher: the cluster has changed ───────────────────────────────────────────────────────┘ ├─► PlanClaims, LaunchClaims
//!                                                                                                    └─► conditions, events
//! ```
//!
//! The cluster state hears of a plan before anything is created and before the next look, and the claim's annotation has the
//! room that it is for: nobody plans it twice, no later leader either.
//!
//! At the mailbox's bound: what comes in only says that something has changed; there is one look at a time.

mod condition;
mod launching;
mod sources;
mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::autoscaling::CapacityBuffer;
use dovetail_core::buffers::{
    Buffer, BufferFault, BufferMemory, BufferPlan, ChunkProblem, buffer_demand, cap_all, plan_chunks,
};
use dovetail_core::cluster_state::{HeldRoom, PlanningInput, Snapshot};
use dovetail_core::pack::Packing;
use jiff::tz::TimeZone;

use self::sources::Sources;
use self::watching::{KnownBuffer, KnownBuffers};
use crate::context::env::Env;
use crate::context::looks::{Looking, Looks};
use crate::context::solver::{Solver, attempt};
use crate::context::statuses::{StatusWrites, WritesStatuses};
use crate::kube::calls::Calls;
use crate::links::{ToCatalogue, ToClusterWatcher, ToLauncher, ToRecorder};
use crate::messages::{BuffersState, ClusterChanged, HoldRoom, InstanceTypesFor, Observe, TakeObserved};

/// Pause after a change before a look, as changes come in bursts.
const SETTLING_TIME: Duration = Duration::from_millis(500);
/// Interval of the looks when nothing changes: templates and workloads are asked for again.
const POLL: Duration = Duration::from_secs(10);
/// Pause after a look that had no answer.
const NO_ANSWER: Duration = Duration::from_secs(1);
/// A look is followed by a pause of so many times the time that it took.
const REST_FACTOR: u32 = 4;
/// Longest time from the start for which disruption waits until buffers have been listed.
const LISTED_WITHIN: Duration = Duration::from_secs(120);

/// Addresses that it sends to.
#[derive(Clone)]
pub struct BuffersLinks {
    /// For snapshots, plans and the places of room.
    pub cluster: ToClusterWatcher,
    /// For instance types.
    pub catalogue: ToCatalogue,
    /// For claims that are to be launched.
    pub launcher: ToLauncher,
    /// For events.
    pub recorder: ToRecorder,
    /// For the buffers, their templates and workloads.
    pub calls: Calls,
}

/// The actor `buffers`.
pub struct Buffers {
    env: Env,
    links: BuffersLinks,
    solver: Arc<dyn Solver>,
    rng: fastrand::Rng,
    known: KnownBuffers,
    sources: Sources,
    memory: BufferMemory,
    /// Time of the start. Monotonic.
    begun: Duration,
    looks: Looks,
    state: BuffersState,
    /// Reasons of the condition Provisioning as they were reported last, by buffer.
    reported: BTreeMap<String, &'static str>,
    /// Writes of statuses that are under way or have failed.
    writes: StatusWrites,
}

/// A buffer with what it asks for.
pub(super) type Demand = (Arc<CapacityBuffer>, Result<Buffer, BufferFault>);

/// Outcome of a look.
struct Planned {
    sources: Sources,
    snapshot: Snapshot,
    demands: BTreeMap<String, Demand>,
    asked: ChunkProblem,
    packing: Packing,
    plan: BufferPlan,
}

impl Buffers {
    /// At the start of a term.
    pub fn new(env: &Env, links: BuffersLinks, solver: Arc<dyn Solver>) -> Self {
        let env = env.for_actor("buffers");
        let (rng, begun) = (env.rng("names"), env.now());
        Self {
            env,
            links,
            solver,
            rng,
            known: KnownBuffers::default(),
            sources: Sources::default(),
            memory: BufferMemory::default(),
            begun,
            looks: Looks::default(),
            state: BuffersState::default(),
            reported: BTreeMap::new(),
            writes: StatusWrites::default(),
        }
    }
}

impl Looking for Buffers {
    fn looks(&mut self) -> &mut Looks {
        &mut self.looks
    }

    fn look_clock(&self) -> Duration {
        self.env.now()
    }

    fn begin_look(&mut self, ctx: &mut Context<Self>) {
        self.look_at_buffers(ctx);
    }
}

impl WritesStatuses for Buffers {
    fn status_writes(&mut self) -> &mut StatusWrites {
        &mut self.writes
    }

    fn env(&self) -> &Env {
        &self.env
    }
}

impl Actor for Buffers {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.watch_buffers(ctx);
        self.look_in(LISTED_WITHIN, ctx);
    }
}

impl Handler<ClusterChanged> for Buffers {
    type Result = ();

    fn handle(&mut self, _: ClusterChanged, ctx: &mut Self::Context) {
        if !self.known.is_empty() {
            self.look_at_change(SETTLING_TIME, ctx);
        }
    }
}

impl Handler<Observe> for Buffers {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.state.clone().into())
    }
}

impl Buffers {
    fn look_at_buffers(&mut self, ctx: &mut Context<Self>) {
        if self.looks.under_way() || !self.links.calls.may_decide() {
            return self.look_in(POLL, ctx);
        }
        if !self.known.is_listed() {
            if self.env.now().saturating_sub(self.begun) >= LISTED_WITHIN {
                // Disruption has waited long enough: it goes on as if there were none.
                self.hold_room(HeldRoom::new());
            }
            return self.look_in(POLL, ctx);
        }
        self.state.looks += 1;
        if self.known.is_empty() {
            self.state.buffers.clear();
            // A buffer that comes brings the next look.
            return self.hold_room(HeldRoom::new());
        }
        self.looks.begin();
        let begun = self.env.now();
        let paused: BTreeSet<String> =
            self.known.keys().filter(|key| self.memory.paused(key, begun).is_some()).collect();
        let looking = find_room(
            self.links.clone(),
            self.solver.clone(),
            self.env.clone(),
            self.sources.clone(),
            self.known.all(),
            paused,
        );
        ctx.spawn(looking.into_actor(self).map(move |planned, actor, ctx| {
            let again = match planned {
                Some(planned) => actor.act_on(planned, ctx),
                None => NO_ANSWER,
            };
            let took = actor.env.now().saturating_sub(begun);
            actor.end_look(again, SETTLING_TIME.max(took * REST_FACTOR), ctx);
        }));
    }

    fn hold_room(&self, room: HeldRoom) {
        self.env.post(&self.links.cluster, HoldRoom { room });
    }
}

/// Finds places for the room of all buffers.
async fn find_room(
    links: BuffersLinks,
    solver: Arc<dyn Solver>,
    env: Env,
    mut sources: Sources,
    buffers: BTreeMap<String, KnownBuffer>,
    paused: BTreeSet<String>,
) -> Option<Planned> {
    let readable = buffers.values().filter_map(|one| one.as_ref().ok());
    sources.refresh(&links.calls, readable, env.now()).await;
    let snapshot = links.cluster.send(TakeObserved).await.ok()??;
    let now = env.moment();
    let demands = demands_of(buffers, &sources, now.wall);
    let held: Vec<Buffer> = demands.values().filter_map(|(_, demand)| demand.as_ref().ok()).cloned().collect();
    let mut planned = Planned {
        sources,
        snapshot,
        demands,
        asked: ChunkProblem::default(),
        packing: Packing::default(),
        plan: BufferPlan::default(),
    };
    if held.iter().all(|buffer| buffer.wanted() == 0) {
        return Some(planned);
    }
    let classes = planned.snapshot.used_classes();
    let instance_types = links.catalogue.send(InstanceTypesFor::new(classes)).await.ok()??;
    let input = PlanningInput { instance_types, now, ..env.planning_input() };
    planned.asked = plan_chunks(&planned.snapshot, &input, &held, |key| paused.contains(key));
    if !planned.asked.is_empty() {
        planned.packing = attempt(solver, planned.asked.planning.problem.clone(), env.pack_options()).await.ok()?;
    }
    planned.plan = BufferPlan::from_packing(&held, &planned.asked, &planned.packing);
    Some(planned)
}

/// The chunks that each buffer asks for.
fn demands_of(
    buffers: BTreeMap<String, KnownBuffer>,
    sources: &Sources,
    now: jiff::Timestamp,
) -> BTreeMap<String, Demand> {
    let find_zone = |name: &str| TimeZone::get(name).ok();
    let mut demands = BTreeMap::new();
    for (key, buffer) in buffers {
        let demand: Demand = match buffer {
            Ok(buffer) => {
                let source = sources.source_of(&buffer);
                let demand = source.and_then(|source| buffer_demand(&buffer, source, &find_zone, now));
                (buffer, demand)
            }
            Err((buffer, why)) => (buffer, Err(BufferFault::unresolved(why))),
        };
        demands.insert(key, demand);
    }
    cap_all(demands.values_mut().filter_map(|(_, demand)| demand.as_mut().ok()));
    demands
}
