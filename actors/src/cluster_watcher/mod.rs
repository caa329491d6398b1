//! Keeps the cluster state on every replica: watches Nodes, NodeClaims, NodePools, EC2NodeClasses, DaemonSets,
//! PodDisruptionBudgets, and what is kept of volumes, Namespaces and StatefulSets, hears of Pods from `pod_watcher` and of our own writes from whoever made them, hands out
//! snapshots, and tells the leader's actors what has changed and that nodes have begun to leave.
//!
//! At the mailbox's bound: nothing here waits, so the mailbox is empty whenever the replica is idle; facts are never
//! dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::{ClusterState, Snapshot};
use k8s_openapi::api::core::v1::Node;
use kube::{Client, ResourceExt};

use crate::cluster_watcher::unobserved::Unobserved;
use crate::context::env::Env;
use crate::links::ToRecorder;
use crate::messages::{
    Attach, BookRoom, ClaimChanged, ClaimRefused, ClaimSoldOut, ClassChanged, ClosedPools, ClusterChanged, Detach,
    DevicesChanged, Forget, HoldClaims, HoldRoom, MarkDeleting, NodeChanged, NodeUnused, Observe, PlanClaims,
    PoolChanged, Roll, TakeObserved, TakeSnapshot, WorldChanged, Wrote, ZonesShifted,
};
use crate::reading::report::Reports;

mod apply;
mod devices;
mod gated;
mod lag;
mod pod_groups;
mod unobserved;
mod unread;
mod watches;

use lag::Lag;

/// Watches that are later than this say too little of what kube-scheduler has not done.
const LATE: Duration = Duration::from_secs(5);
/// Watches that are less late than this delay no decision.
const NOTABLE: Duration = Duration::from_secs(1);
const LONGEST_LATE: Duration = Duration::from_secs(60);

/// Keeps the cluster state by the watches, and hands out its snapshots.
pub struct ClusterWatcher {
    env: Env,
    client: Client,
    state: ClusterState,
    /// Nodes whole, for the registrar.
    nodes: BTreeMap<String, Arc<Node>>,
    leader: Option<Attach>,
    synced: bool,
    unobserved: Unobserved,
    /// Departures that the leader has been told of.
    reported_departures: u64,
    /// Recorder of Kubernetes events, if there is one.
    recorder: Option<ToRecorder>,
    reports: Reports,
    failures: unread::WatchFailures,
    /// Time of the last request that was not answered as the watches did not show the cluster. Monotonic.
    hidden: Duration,
    lag: Lag,
    /// Kinds behind open feature gates that are not known yet, as their watches are called.
    not_known: BTreeSet<&'static str>,
}

impl ClusterWatcher {
    /// A watcher that knows nothing yet.
    pub fn new(env: &Env, client: Client) -> Self {
        let env = env.for_actor("cluster_watcher");
        let now = env.now();
        let mut state = ClusterState::new().for_provider(env.settings.provider);
        state.allow_rollouts(env.settings.moves_rollout);
        state.set_expendable(env.settings.expendable);
        state.follow_bookings(env.settings.provisioning_requests());
        state.follow_recommendations(env.settings.recommendations());
        state.set_interruption_half_life(env.settings.interruption_half_life.map(dovetail_core::clock::signed));
        Self {
            env,
            client,
            state,
            nodes: BTreeMap::new(),
            leader: None,
            synced: false,
            unobserved: Unobserved::default(),
            reported_departures: 0,
            recorder: None,
            reports: Reports::default(),
            failures: unread::WatchFailures::default(),
            hidden: now,
            lag: Lag::default(),
            not_known: BTreeSet::new(),
        }
    }

    /// A watcher like this one that also writes events.
    pub fn with_recorder(self, recorder: ToRecorder) -> Self {
        Self { recorder: Some(recorder), ..self }
    }
}

impl Handler<MarkDeleting> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, mark: MarkDeleting, _: &mut Self::Context) {
        self.state.mark_deleting(mark.claims.iter().map(String::as_str), mark.deleting);
        self.tell_departures();
        self.cluster_changed();
    }
}

impl Handler<HoldClaims> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, hold: HoldClaims, _: &mut Self::Context) {
        self.state.hold(hold.claims.iter().map(String::as_str), hold.held);
        self.tell_departures();
        self.cluster_changed();
    }
}

impl Handler<HoldRoom> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, HoldRoom { room }: HoldRoom, _: &mut Self::Context) {
        self.state.hold_room(room);
    }
}

impl Handler<BookRoom> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, BookRoom { room }: BookRoom, _: &mut Self::Context) {
        self.state.book_room(room);
    }
}

impl Handler<Roll> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, roll: Roll, _: &mut Self::Context) {
        self.state.roll(roll.pods.iter().map(String::as_str), roll.rolls);
    }
}

impl Handler<ClaimRefused> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, refused: ClaimRefused, _: &mut Self::Context) {
        let there = self.state.snapshot().claims.contains_key(&refused.claim);
        if self.state.refuse(&refused.claim, refused.refused && there) {
            self.tell_departures();
            self.world_changed();
            self.cluster_changed();
        }
    }
}

impl Handler<Wrote> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, wrote: Wrote, _: &mut Self::Context) {
        match wrote {
            Wrote::Claim(claim) => {
                self.lag.wrote(&claim.metadata, self.env.now());
                self.apply_claim(claim);
            }
            Wrote::Listed(claim) => {
                self.state.is_there(&claim.metadata);
                self.apply_claim(claim);
            }
            Wrote::Node(node) => self.apply_node(node),
            Wrote::ClaimGone(name, uid) => self.claim_gone(&name, uid.as_deref()),
            Wrote::NotMade(name) => {
                if self.state.snapshot().claims.get(&name).is_none_or(|entry| entry.is_planned()) {
                    self.claim_gone(&name, None);
                }
            }
            Wrote::NodeGone(name, uid) => self.node_gone(&name, uid.as_deref()),
            Wrote::Pool(pool) => self.apply_pool(*pool),
            Wrote::Class(class) => self.apply_class(*class),
            Wrote::Overlay(overlay) => self.overlay_written(*overlay),
            Wrote::Quota(quota) => self.quota_written(*quota),
        }
    }
}

impl Handler<ClaimSoldOut> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, sold_out: ClaimSoldOut, _: &mut Self::Context) {
        self.state.sold_out(&sold_out.claim, self.env.now());
    }
}

impl Handler<ClosedPools> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, pools: ClosedPools, _: &mut Self::Context) {
        self.state.close_pools(pools.closed);
    }
}

impl Handler<ZonesShifted> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, shifted: ZonesShifted, _: &mut Self::Context) {
        self.state.shift_zones(shifted.0);
        self.to_leader(|leader| self.env.post(&leader.world, WorldChanged::Room));
    }
}

impl Handler<PlanClaims> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, plan: PlanClaims, _: &mut Self::Context) {
        for (claim, capacity) in plan.claims {
            self.state.plan_claim(claim, capacity);
        }
        let (until, places_lost) = (self.patience(), self.state.places_lost());
        for (pods, target) in plan.expected {
            self.state.nominate(pods.iter().map(String::as_str), &target, until);
        }
        self.post_places_lost(places_lost);
        self.cluster_changed();
    }
}

impl Handler<Forget> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, _: Forget, _: &mut Self::Context) {
        self.state.forget_plans();
        self.state.refuse_none();
    }
}

impl Handler<TakeSnapshot> for ClusterWatcher {
    type Result = Option<Snapshot>;

    fn handle(&mut self, _: TakeSnapshot, _: &mut Self::Context) -> Self::Result {
        self.synced.then(|| self.state.snapshot())
    }
}

impl Handler<TakeObserved> for ClusterWatcher {
    type Result = Option<Snapshot>;

    fn handle(&mut self, _: TakeObserved, _: &mut Self::Context) -> Self::Result {
        let now = self.env.now();
        let observed = self.unobserved.is_empty(now) && !self.env.outage.hides(now);
        if !observed || !self.synced {
            self.hidden = now;
            return None;
        }
        // A pod may be bound though a late watch does not show it yet.
        if self.lag.most(now) < LATE {
            self.state.look_at_refused_places(self.env.moment());
        }
        self.judge_launches();
        Some(self.state.snapshot())
    }
}

impl Handler<Attach> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, leader: Attach, _: &mut Self::Context) {
        let now = self.state.snapshot();
        for class in now.classes.values() {
            let (name, class) = (class.name_any(), Some(class.clone()));
            self.env.post(&leader.classes, ClassChanged { name, class });
        }
        for pool in now.pools.values() {
            self.env.post(&leader.pools, PoolChanged { name: pool.name_any(), pool: Some(pool.clone()) });
        }
        for node in self.nodes.values() {
            leader.nodes.iter().for_each(|to| self.env.post(to, NodeChanged(node.clone())));
        }
        for entry in now.claims.values().filter(|entry| !entry.is_planned()) {
            leader.claims.iter().for_each(|to| self.env.post(to, ClaimChanged(entry.claim.clone())));
        }
        if self.env.settings.devices().is_some() {
            self.env.post(&leader.devices, DevicesChanged(now.devices.clone()));
        }
        if !now.deleting.is_empty() {
            self.env.post(&leader.world, WorldChanged::Deleting);
        }
        self.reported_departures = self.state.departures();
        self.leader = Some(leader);
        self.tell_unread();
    }
}

impl Handler<Detach> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, _: Detach, _: &mut Self::Context) {
        self.leader = None;
    }
}

impl Handler<Observe> for ClusterWatcher {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.observed().into())
    }
}

impl ClusterWatcher {
    fn to_leader(&self, say: impl Fn(&Attach)) {
        if let Some(leader) = &self.leader {
            say(leader);
        }
    }

    /// Time until which kube-scheduler may bind a pod to a node that is ready (core spec 0.4, "nominated"). Monotonic.
    ///
    /// Where the watches are late, as much longer: a pod that is not shown to be bound is judged before it is planned anew.
    fn patience(&self) -> Duration {
        let now = self.env.now();
        let late = Some(self.lag.most(now)).filter(|late| *late >= NOTABLE).unwrap_or_default();
        now + self.turn() + late.min(LONGEST_LATE)
    }

    /// Time that kube-scheduler has to bind a pod, see `patience`.
    fn turn(&self) -> Duration {
        (self.env.settings.batch_max * 2).max(Duration::from_secs(10))
    }

    /// Whoever asks for the cluster to decide by it leads: what launches have come to is judged before.
    fn judge_launches(&mut self) {
        let now = self.env.moment();
        let turn = self.turn() + self.lag.most(now.monotonic);
        let seen = now.monotonic.saturating_sub(self.hidden) >= turn;
        let before = self.state.held_back();
        for not_used in self.state.judge_launches(turn, seen, now) {
            self.to_leader(|leader| self.env.post(&leader.unused, NodeUnused::NotUsed(not_used.clone())));
        }
        for awaited in self.state.taints_awaited(turn, now) {
            self.to_leader(|leader| self.env.post(&leader.unused, NodeUnused::AwaitsTaint(awaited.clone())));
        }
        // Launches that are no longer held back may begin at once.
        if self.state.held_back() < before {
            self.world_changed();
        }
    }

    fn world_changed(&self) {
        self.to_leader(|leader| self.env.post(&leader.world, WorldChanged::Room));
    }

    /// Reports nodes whose removal has begun, whatever the cause.
    fn tell_departures(&mut self) {
        if self.reported_departures != self.state.departures() {
            self.reported_departures = self.state.departures();
            self.to_leader(|leader| self.env.post(&leader.world, WorldChanged::Deleting));
        }
    }

    fn cluster_changed(&self) {
        self.to_leader(|leader| leader.disruption.iter().for_each(|one| self.env.post(one, ClusterChanged)));
    }
}
