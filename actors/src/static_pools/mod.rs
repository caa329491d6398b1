//! Holds static pools (`spec.replicas`): orders the claims that one lacks and removes those that it has too many of. The count
//! and the choice are `dovetail_core::static_pools`'; started where the feature gate StaticCapacity is open.
//!
//! One actor makes all claims of static pools, those too that succeed a drifted node: so `limits.nodes` is kept without anybody
//! waiting for anybody. The cluster state hears of a plan before anything is created and before the next look.
//!
//! At the mailbox's bound: what comes in only says that something has changed; there is one look at a time.

mod condition;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::{Planning, PlanningInput, Snapshot};
use dovetail_core::disruption::{DisruptedClaim, RemovalReason};
use dovetail_core::pack::Packing;
use dovetail_core::static_pools::{
    ReplicaVerdict, Shortfall, StaticDecision, StaticMemory, decide_replicas, judge_replicas, plan_replicas, unplaced,
};
use kube::ResourceExt;

use crate::context::env::Env;
use crate::context::looks::{Looking, Looks};
use crate::context::plan::Plans;
use crate::context::solver::{Solver, attempt};
use crate::context::statuses::{StatusWrites, WritesStatuses};
use crate::kube::calls::Calls;
use crate::links::{ToCatalogue, ToClusterWatcher, ToLauncher, ToRecorder, ToTerminator};
use crate::messages::{
    ClaimRef, ClusterChanged, InstanceTypesFor, LaunchClaims, Observe, PlanClaims, Remove, StaticPoolState,
    StaticPoolsState, TakeObserved, TraceContext,
};
use crate::telemetry::log_event::{LogEvent, Names};

/// Pause after a change before a look, as changes come in bursts.
const SETTLING_TIME: Duration = Duration::from_millis(200);
/// Interval of the looks when nothing changes: an offering may be available again.
const POLL: Duration = Duration::from_secs(30);
/// Pause after a look that had no answer.
const NO_ANSWER: Duration = Duration::from_secs(1);
/// Most names that a log line gives.
const NAMES_LISTED: usize = 20;

/// Addresses that it sends to.
#[derive(Clone)]
pub struct StaticPoolsLinks {
    /// For snapshots and plans.
    pub cluster: ToClusterWatcher,
    /// For instance types.
    pub catalogue: ToCatalogue,
    /// For claims that are to be launched.
    pub launcher: ToLauncher,
    /// For claims that are to go.
    pub terminator: ToTerminator,
    /// For events.
    pub recorder: ToRecorder,
    /// For the pools' conditions.
    pub calls: Calls,
}

/// The actor `static_pools`.
pub struct StaticPools {
    env: Env,
    links: StaticPoolsLinks,
    solver: Arc<dyn Solver>,
    rng: fastrand::Rng,
    memory: StaticMemory,
    looks: Looks,
    /// True if the last plan left something out: offerings that EC2 has refused are worth another call.
    left_out: bool,
    state: StaticPoolsState,
    /// Conditions as they were reported last, by pool: reason.
    reported: BTreeMap<String, &'static str>,
    /// Writes of conditions that are under way or have failed.
    writes: StatusWrites,
}

/// Outcome of a look.
struct Planned {
    snapshot: Snapshot,
    decision: StaticDecision,
    planning: Planning,
    packing: Packing,
}

impl StaticPools {
    /// At the start of a term.
    pub fn new(env: &Env, links: StaticPoolsLinks, solver: Arc<dyn Solver>) -> Self {
        let env = env.for_actor("static_pools");
        let rng = env.rng("names");
        Self {
            env,
            links,
            solver,
            rng,
            memory: StaticMemory::default(),
            looks: Looks::default(),
            left_out: false,
            state: StaticPoolsState::default(),
            reported: BTreeMap::new(),
            writes: StatusWrites::default(),
        }
    }
}

impl Looking for StaticPools {
    fn looks(&mut self) -> &mut Looks {
        &mut self.looks
    }

    fn look_clock(&self) -> Duration {
        self.env.now()
    }

    fn begin_look(&mut self, ctx: &mut Context<Self>) {
        self.look_at_pools(ctx);
    }
}

impl WritesStatuses for StaticPools {
    fn status_writes(&mut self) -> &mut StatusWrites {
        &mut self.writes
    }

    fn env(&self) -> &Env {
        &self.env
    }
}

impl Actor for StaticPools {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.look_in(SETTLING_TIME, ctx);
    }
}

impl Handler<ClusterChanged> for StaticPools {
    type Result = ();

    fn handle(&mut self, _: ClusterChanged, ctx: &mut Self::Context) {
        self.look_at_change(SETTLING_TIME, ctx);
    }
}

impl Handler<Observe> for StaticPools {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.state.clone().into())
    }
}

impl StaticPools {
    fn look_at_pools(&mut self, ctx: &mut Context<Self>) {
        if self.looks.under_way() || !self.links.calls.may_decide() {
            return self.look_in(POLL, ctx);
        }
        self.looks.begin();
        let taking = self.links.cluster.send(TakeObserved).into_actor(self);
        ctx.spawn(taking.map(|known, actor, ctx| match known.ok().flatten() {
            Some(snapshot) => actor.decide(snapshot, ctx),
            None => actor.end_look(NO_ANSWER, SETTLING_TIME, ctx),
        }));
    }

    fn decide(&mut self, snapshot: Snapshot, ctx: &mut Context<Self>) {
        self.state.looks += 1;
        let decision = decide_replicas(&snapshot, &mut self.memory, self.env.moment());
        for (pool, claims) in &decision.removals {
            self.remove(pool, claims);
        }
        if decision.wanted.is_empty() {
            let again = decision.again.unwrap_or(POLL).min(POLL);
            self.report(&snapshot, &decision.waiting, ctx);
            return self.end_look(again, SETTLING_TIME, ctx);
        }
        let planning =
            plan(self.links.clone(), self.solver.clone(), self.env.clone(), snapshot, decision, self.left_out);
        ctx.spawn(planning.into_actor(self).map(|planned, actor, ctx| {
            let Some(planned) = planned else { return actor.end_look(NO_ANSWER, SETTLING_TIME, ctx) };
            actor.order(planned, ctx);
            actor.end_look(POLL, SETTLING_TIME, ctx);
        }));
    }

    /// Orders what is planned. The cluster state hears of it first: the next look counts it.
    fn order(&mut self, planned: Planned, ctx: &mut Context<Self>) {
        let Planned { snapshot, decision, planning, packing } = planned;
        let lacks = unplaced(&planning, &packing, &decision.wanted);
        self.left_out = !lacks.is_empty();
        let trace = TraceContext::root(&mut self.rng);
        let plans = Plans::new(&snapshot, &planning, self.env.term);
        let (mut claims, mut orders) = (Vec::new(), Vec::new());
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for one in &packing.claims {
            let Some(order) = plans.order(one, &trace.to_string(), &mut self.rng) else { continue };
            let pool = planning.pools[one.pool].name_any();
            names.entry(pool).or_default().push(order.claim.name_any());
            claims.push((order.claim.clone(), plans.most_capacity(one)));
            orders.push(order);
        }
        for (pool, names) in names {
            self.memory.note_ordered(&pool, names.iter().cloned());
            let (nodes, node_claims) = (names.len(), Names::first(NAMES_LISTED, names));
            let replicas = snapshot.pools.get(&pool).and_then(|pool| pool.spec.replicas).unwrap_or_default();
            self.env.emit_in(LogEvent::ReplicasLaunched { node_pool: pool, replicas, nodes, node_claims }, trace);
        }
        let now = self.env.now();
        lacks.iter().for_each(|(pool, why)| self.memory.note_unplaced(pool, why.clone(), now));
        let term = self.env.term;
        if !orders.is_empty() {
            self.env.post(&self.links.cluster, PlanClaims { term, claims, expected: Vec::new() });
            self.env.post(&self.links.launcher, LaunchClaims { term, orders, trace });
        }
        let waiting = decision.waiting.into_iter().chain(lacks).collect();
        self.report(&snapshot, &waiting, ctx);
    }

    fn remove(&mut self, pool: &str, claims: &[DisruptedClaim]) {
        let (term, trace) = (self.env.term, TraceContext::root(&mut self.rng));
        let reason = RemovalReason::Overprovisioned;
        let names = Names::first(NAMES_LISTED, claims.iter().map(|one| one.claim.clone()));
        let log_event =
            LogEvent::ReplicasRemoved { node_pool: pool.to_owned(), nodes: claims.len(), node_claims: names };
        self.env.emit_in(log_event, trace);
        let claims = claims.iter().map(|one| ClaimRef { name: one.claim.clone(), uid: one.uid.clone() }).collect();
        self.env.post(
            &self.links.terminator,
            Remove { term, claims, reason, grace: None, disrupted: BTreeMap::new(), trace },
        );
    }

    /// Says of each pool what it has: in the actor's state and by its condition.
    fn report(&mut self, snapshot: &Snapshot, waiting: &BTreeMap<String, Shortfall>, ctx: &mut Context<Self>) {
        let counts = snapshot.replica_counts(|_| false);
        self.state.pools.retain(|pool, _| counts.contains_key(pool.as_str()));
        self.reported.retain(|pool, _| counts.contains_key(pool.as_str()));
        for (name, count) in counts {
            let ReplicaVerdict { status, reason, message } = judge_replicas(snapshot, &count, waiting.get(name));
            let ready = count.ready(snapshot);
            let state = StaticPoolState {
                desired: count.desired,
                ready,
                launching: count.standing() - ready,
                deleting: count.outgoing.len() + count.going,
                says: format!("{reason}: {message}"),
            };
            self.state.pools.insert(name.to_owned(), state);
            if count.pool.metadata.deletion_timestamp.is_none() {
                let verdict = ReplicaVerdict { status, reason, message };
                self.report_pool(name, count.pool, verdict, ctx);
            }
        }
    }
}

/// Plans what a decision wants.
async fn plan(
    links: StaticPoolsLinks,
    solver: Arc<dyn Solver>,
    env: Env,
    snapshot: Snapshot,
    decision: StaticDecision,
    last_resort: bool,
) -> Option<Planned> {
    let classes = snapshot.used_classes();
    let instance_types = links.catalogue.send(InstanceTypesFor { last_resort, classes }).await.ok()??;
    let input = PlanningInput {
        instance_types,
        min_values: env.settings.min_values,
        policy: env.settings.policy,
        daemon_share: env.settings.daemon_share,
        now: env.moment(),
        ..PlanningInput::default()
    };
    let planning = plan_replicas(&snapshot, &input, &decision.wanted);
    let packing = match planning.problem.pods.is_empty() {
        true => Packing::default(),
        false => attempt(solver, planning.problem.clone(), env.pack_options()).await.ok()?,
    };
    Some(Planned { snapshot, decision, planning, packing })
}
