//! Decides which nodes go by our own will: empty ones, those whose time is over, and those whose pods have cheaper places. Also
//! keeps what claims, Nodes and pools say of it: Consolidatable and lastPodEventTime, the TTL of empty nodes, and what a
//! pool's nodes have together. What to do is decided by `dovetail_core::disruption`; here it is asked for and written.
//!
//! At the mailbox's bound: what comes in only says that something has changed; however much comes, there is one look at
//! a time and the next no sooner than [`SETTLING_TIME`] after.

mod commands;
mod consolidation;
mod contention;
mod drift;
mod reboot;
mod report;
mod succession;
mod unused;
mod writes;
mod zones;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_cloud::CloudInstances;
use dovetail_core::Offering;
use dovetail_core::cluster_state::{Moment, Snapshot};
use dovetail_core::commitments::Commitments;
use dovetail_core::disruption::{self, DisruptionDecision, Memory, OffersByClass, Removal};
use dovetail_core::zonal_shift::ShiftedZones;
use jiff::Timestamp;

use self::consolidation::ConsolidationState;
use self::contention::Contention;
use self::reboot::Reboots;
use self::writes::Write;
use crate::context::env::Env;
use crate::context::looks::{Looking, Looks};
use crate::context::refusals::Refusals;
use crate::context::solver::Solver;
use crate::kube::calls::Calls;
use crate::kube::woken::when_woken;
use crate::links::ToLauncher;
use crate::links::{ToCatalogue, ToClusterWatcher, ToRecorder, ToTerminator};
use crate::messages::{
    ClusterChanged, CommitmentsKnown, CountedCommitments, DisruptorState, InstanceTypesFor, Observe, Remove,
    TakeObserved, TraceContext,
};
use crate::telemetry::measure::Measure;

/// Pause after a change before the disruptor looks, as changes come in bursts.
const SETTLING_TIME: Duration = Duration::from_millis(200);
/// Interval of the looks when nothing changes (core spec 5.1).
const POLL: Duration = Duration::from_secs(10);
/// Minimum time between two counts of the pools' nodes (core spec 0.2).
const COUNT: Duration = Duration::from_secs(5);
/// Writes under way at a time; what is left over comes up again at the next look.
const MOST_WRITES: usize = 16;

/// Addresses that the disruptor sends to.
#[derive(Clone)]
pub struct DisruptorLinks {
    /// For snapshots and read-your-writes.
    pub cluster: ToClusterWatcher,
    /// For instance types and prices.
    pub catalogue: ToCatalogue,
    pub launcher: ToLauncher,
    /// For claims that are to go.
    pub terminator: ToTerminator,
    pub recorder: ToRecorder,
    /// For reboots.
    pub cloud: Arc<dyn CloudInstances>,
    /// For the API server.
    pub calls: Calls,
}

/// The actor `disruptor`: takes nodes away that are empty, drifted, expired or dearer than need be, within budgets.
pub struct Disruptor {
    env: Env,
    links: DisruptorLinks,
    rng: fastrand::Rng,
    memory: Memory,
    consolidation: ConsolidationState,
    /// Instance types, and when they were asked for.
    offers: OffersByClass,
    /// Savings Plans and Reserved Instances.
    commitments: Arc<Commitments>,
    asked: Option<Duration>,
    looks: Looks,
    /// Time of the last count of the pools' nodes. Monotonic.
    counted: Option<Duration>,
    contention: Contention,
    queue: VecDeque<Write>,
    /// Objects that are being written.
    busy: BTreeSet<String>,
    refused: Refusals,
    reboots: Reboots,
    looked: u64,
    /// Claims, by uid, whose removal has been ordered and told: one that does not come to pass is ordered again.
    ordered: BTreeSet<String>,
    /// Claims of static pools, by name, that wait for their successors.
    succeeded: BTreeSet<String>,
    /// Claims of static pools, by uid, of which it has been reported that they wait for their successors.
    reported_successions: BTreeSet<String>,
    removed: BTreeMap<&'static str, usize>,
    /// Zones that the cluster was shifted away from at the last look.
    shifted: ShiftedZones,
}

impl Disruptor {
    /// At the start of a term.
    pub fn new(env: &Env, links: DisruptorLinks, solver: Arc<dyn Solver>) -> Self {
        let env = env.for_actor("disruptor");
        let rest = env.settings.churn.rules(0.0, false).rest;
        let (rng, commitments) = (env.rng("trace"), env.settings.commitments.declared());
        let mut memory = Memory::new();
        memory.set_gates(drift::gates(&env.settings));
        Self {
            env,
            links,
            rng,
            memory,
            consolidation: ConsolidationState::new(solver, rest),
            offers: OffersByClass::new(),
            commitments,
            asked: None,
            looks: Looks::default(),
            counted: None,
            contention: Contention::default(),
            queue: VecDeque::new(),
            busy: BTreeSet::new(),
            refused: Refusals::default(),
            reboots: Reboots::default(),
            looked: 0,
            ordered: BTreeSet::new(),
            succeeded: BTreeSet::new(),
            reported_successions: BTreeSet::new(),
            removed: BTreeMap::new(),
            shifted: ShiftedZones::default(),
        }
    }
}

impl Looking for Disruptor {
    fn looks(&mut self) -> &mut Looks {
        &mut self.looks
    }

    fn look_clock(&self) -> Duration {
        self.env.now()
    }

    fn begin_look(&mut self, ctx: &mut Context<Self>) {
        self.decide_now(ctx);
    }
}

impl Actor for Disruptor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.look_in(SETTLING_TIME, ctx);
    }
}

impl Handler<ClusterChanged> for Disruptor {
    type Result = ();

    fn handle(&mut self, _: ClusterChanged, ctx: &mut Self::Context) {
        self.consolidation.changed(self.env.moment());
        self.look_at_change(SETTLING_TIME, ctx);
    }
}

impl Handler<Observe> for Disruptor {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let (validating, asked) = self.memory.counts();
        let state = DisruptorState {
            looks: self.looked,
            validating,
            asked,
            removed: self.removed.clone(),
            replacing: self.memory.replacing(),
            writing: self.busy.len(),
            queued: self.queue.len(),
            commands: self.consolidation.running(),
        };
        MessageResult(state.into())
    }
}

/// Facts that one look decides by.
struct View {
    snapshot: Snapshot,
    offers: Option<OffersByClass>,
    /// Commitments, the account's too; `None` where they are those that are declared.
    commitments: Option<CountedCommitments>,
}

impl Disruptor {
    fn decide_now(&mut self, ctx: &mut Context<Self>) {
        if self.looks.under_way() || !self.links.calls.may_act() {
            return;
        }
        self.looks.begin();
        let old = self.asked.is_none_or(|asked| self.env.now().saturating_sub(asked) >= POLL)
            || any_slot_changes(&self.offers, &self.memory);
        let viewing = view(self.links.clone(), old, self.env.settings.commitments.account).into_actor(self);
        ctx.spawn(viewing.map(|view, disruptor, ctx| {
            let again = view.map(|view| disruptor.decide(&view, ctx));
            disruptor.end_look(again.unwrap_or(SETTLING_TIME * 5), SETTLING_TIME, ctx);
        }));
    }

    /// Decides and acts; answers when to look again. The snapshot is let go of before anything else changes it.
    fn decide(&mut self, view: &View, ctx: &mut Context<Self>) -> Duration {
        if !self.env.skew().is_borne() {
            return POLL;
        }
        // Until it is known where room is held, a node that holds some looks empty.
        let (settings, snapshot) = (&self.env.settings, &view.snapshot);
        if settings.capacity_buffers() && snapshot.room.is_none()
            || settings.provisioning_requests() && snapshot.booked.is_none()
        {
            return SETTLING_TIME * 5;
        }
        if let Some(offers) = &view.offers {
            (self.offers, self.asked) = (offers.clone(), Some(self.env.now()));
        }
        if let Some(counted) = &view.commitments {
            self.commitments = counted.all.clone();
            self.consolidation.held = !counted.are_certain;
            self.tell_contention(&view.snapshot);
        }
        self.looked += 1;
        self.carry_on(&view.snapshot);
        self.memory.hold(self.consolidation.queue.held());
        let planning = self.planning_input();
        self.memory.set_planning(planning);
        let now = Moment { monotonic: self.env.now(), wall: self.env.wall() };
        let decision = disruption::decide_disruption(&view.snapshot, &self.offers, &mut self.memory, now);
        let seconds = self.env.now().saturating_sub(now.monotonic).as_secs_f64();
        self.env.measure(&Measure::DisruptionLooked { seconds });
        let due = decision.again.map_or(POLL, |at| until(now.wall, at).min(POLL));
        let count = self.count(&view.snapshot);
        self.act(decision, &view.snapshot, ctx);
        let weigh = self.weigh(&view.snapshot, ctx);
        due.min(count).min(weigh)
    }

    /// Does what is decided.
    fn act(&mut self, decision: DisruptionDecision, snapshot: &Snapshot, ctx: &mut Context<Self>) {
        self.emit(&decision, snapshot);
        self.report_shifts(snapshot);
        self.order(&decision, snapshot);
        self.forget_ordered(snapshot);
        self.hold_for_successors(&decision.successions, snapshot);
        for removal in &decision.removals {
            self.remove(removal, snapshot);
        }
        let decided = drift::Decided::by(&decision);
        self.queue.retain(|write| matches!(write, Write::Usage { .. }) || decided.leaves(write));
        unused::doubts(snapshot).into_iter().for_each(|record| self.env.post(&self.links.recorder, record));
        self.queue.extend(unused::writes(snapshot));
        self.queue.extend(decision.ttl.into_iter().map(Write::Ttl));
        self.queue.extend(decision.untaint.into_iter().map(|(node, uid)| Write::Untaint { node, uid }));
        self.queue.extend(decision.taint.into_iter().map(|(node, uid)| Write::Taint { node, uid }));
        self.reboot(&decision.drift.reboots, snapshot, ctx);
        self.queue.extend(succession::writes(&decision.successions, snapshot));
        self.queue.extend(drift::writes(decision.drift, snapshot));
        self.queue.extend(decision.marks.into_iter().filter_map(|mark| {
            let claim = snapshot.claims.get(&mark.claim)?.claim.clone();
            Some(Write::Mark { claim, mark })
        }));
        self.write(ctx);
    }

    fn remove(&mut self, removal: &Removal, snapshot: &Snapshot) {
        let reason = removal.cause.reason();
        let trace = TraceContext::root(&mut self.rng);
        let news = removal.claims.iter().filter(|one| self.ordered.insert(one.uid.clone())).count();
        if news > 0 {
            *self.removed.entry(reason.label()).or_default() += news;
            self.tell_removal(removal, trace);
        }
        let claims = commands::refs(&removal.claims);
        let disrupted = commands::facts(&removal.claims, reason, snapshot);
        let (term, grace) = (self.env.term, removal.cause.grace());
        self.env.post(&self.links.terminator, Remove { term, claims, reason, grace, disrupted, trace });
    }

    /// Forgets claims that are gone.
    fn forget_ordered(&mut self, snapshot: &Snapshot) {
        if !self.ordered.is_empty() {
            let there: BTreeSet<&str> = snapshot.claims.values().map(|entry| entry.facts.uid.as_str()).collect();
            self.ordered.retain(|uid| there.contains(uid.as_str()));
        }
    }

    /// Counts what pools' nodes have together, now and then; answers when it is due again.
    fn count(&mut self, snapshot: &Snapshot) -> Duration {
        let now = self.env.now();
        if let Some(left) =
            self.counted.and_then(|counted| (counted + COUNT).checked_sub(now)).filter(|left| !left.is_zero())
        {
            return left;
        }
        self.counted = Some(now);
        self.queue.retain(|write| !matches!(write, Write::Usage { .. }));
        for (name, usage) in disruption::usage(snapshot) {
            let pool = snapshot.pools.get(&name).filter(|pool| !usage.is_said_by(pool)).cloned();
            self.queue.extend(pool.map(|pool| Write::Usage { pool, usage }));
        }
        POLL
    }

    /// Begins what is to be written and not being written, as far as there is room.
    fn write(&mut self, ctx: &mut Context<Self>) {
        let mut later = VecDeque::new();
        while self.busy.len() < MOST_WRITES {
            let Some(write) = self.queue.pop_front() else { break };
            let (object, what) = (write.object(), write.what());
            // It is derived anew later; of what is decided once it is decided anew what is refused (`dovetail_core`).
            if !drift::is_decided_once(&write) && self.refused.hold(&what, self.env.now()) {
                continue;
            }
            if !self.busy.insert(object.clone()) {
                // A write that is decided once waits until the object is free; any other is derived anew.
                later.extend(drift::is_decided_once(&write).then_some(write));
                continue;
            }
            let writing = when_woken(writes::write(self.links.clone(), write, self.env.wall())).into_actor(self);
            ctx.spawn(writing.map(move |written, disruptor, ctx| {
                disruptor.busy.remove(&object);
                match written {
                    Ok(()) => disruptor.refused.done(&what, &disruptor.env),
                    Err(error) if error.is_refusal() => {
                        disruptor.refused.refused(&what, &error.to_string(), &disruptor.env);
                    }
                    Err(_) => {}
                }
                disruptor.write(ctx);
            }));
        }
        self.queue.append(&mut later);
    }
}

/// The cluster, and on request what the cloud offers. Nothing while the cluster is not known, or not shown.
async fn view(links: DisruptorLinks, with_offers: bool, with_account: bool) -> Option<View> {
    let (mut offers, mut commitments) = (None, None);
    if with_offers {
        let snapshot = links.cluster.send(TakeObserved).await.ok()??;
        let classes = snapshot.used_classes();
        drop(snapshot);
        offers = links.catalogue.send(InstanceTypesFor::new(classes)).await.ok()?;
        if with_account {
            commitments = links.catalogue.send(CommitmentsKnown).await.ok()?;
            // Until they are known, prices alone would move pods away from what is paid for.
            offers = offers.filter(|_| commitments.is_some());
        }
    }
    let snapshot = links.cluster.send(TakeObserved).await.ok()??;
    Some(View { snapshot: snapshot.with_room(), offers, commitments })
}

/// True if free instances of capacity reservations matter now: their number changes within seconds.
fn any_slot_changes(offers: &OffersByClass, memory: &Memory) -> bool {
    let is_free = |one: &Offering| one.available && one.reservation_capacity.is_some_and(|left| left > 0);
    !memory.kept_slots().is_empty()
        || offers.values().flat_map(|types| types.iter()).any(|one| one.offerings.iter().any(is_free))
}

/// Time until then, rounded up: waking early would mean waking twice. What is due already is looked at like a change, after
/// [`SETTLING_TIME`].
fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).map_or(SETTLING_TIME, |left| left + Duration::from_millis(1))
}
