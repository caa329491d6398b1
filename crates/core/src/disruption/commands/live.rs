//! The cluster as it is now, as consolidation weighs it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::labels;
use jiff::{SignedDuration, Timestamp};
use rustc_hash::FxHashMap;

use super::policy::policy;
use super::question::Question;
use crate::clock::{self, CLOCKS_APART};
use crate::cluster_state::{JoinedNode, Planning, PodEntry, Snapshot, moved_as};
use crate::commitments::is_marked;
use crate::disruption::emptiness::PoolNodeTotals;
use crate::disruption::look::{DisruptedClaim, disrupted};
use crate::disruption::machines::{NodeAndClaim, machines};
use crate::disruption::methods::{ClusterView, NodeState, PodBudget, PodState, PoolState};
use crate::disruption::pools::{DisruptionPool, Observing, pools};
use crate::disruption::{RemovalReason, allowed, blocked, marks};
use crate::instance_type::subtract_reserved;
use crate::paid_machines::Running;
use crate::pod::Pod;

/// Longest time after a move of its workload at which a pod's arrival counts as by that move.
const ARRIVES_WITHIN: SignedDuration = SignedDuration::from_mins(30);
/// Least time for which a move into what is paid for has to last.
const WORTH_A_MOVE: SignedDuration = SignedDuration::from_hours(1);

/// The cluster, with the objects that its indices stand for.
pub(super) struct Live {
    /// The cluster as the methods see it.
    pub cluster: ClusterView,
    /// The planning it was made from; its problem is the cluster's.
    pub planning: Planning,
    /// The claim of each node, where it has one.
    pub claims: Vec<Option<DisruptedClaim>>,
    /// The note of each node for the case that it stays.
    pub said: Vec<StayNote>,
}

/// Note about a node that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StayNote {
    /// No note: what stands in the way passes by itself, or the node is empty.
    Nothing,
    /// A note that it may not be disrupted.
    Blocked,
    /// A note with the reason why it is not consolidated.
    Why,
}

/// Reads the cluster.
pub(super) fn live(question: &Question) -> Live {
    let snapshot = &question.snapshot;
    let machines = machines(snapshot, question.now);
    let may_move: Vec<&Arc<PodEntry>> = machines
        .iter()
        .filter(|machine| !machine.deleting)
        .flat_map(|machine| {
            machine
                .load
                .into_iter()
                .flat_map(|load| load.pods.values())
                .filter(|pod| pod.is_active() && pod.reschedulable())
        })
        .collect();
    let mut planning = snapshot.planning_for(&question.input, &may_move);
    let devices = question.input.devices;
    let devices = devices.and_then(|gates| snapshot.device_moves(&planning.problem, gates, question.now.wall));
    let mut problem = Arc::unwrap_or_clone(std::mem::take(&mut planning.problem));
    let mut reserved: BTreeMap<String, u32> = BTreeMap::new();
    let found = question.waiting.iter().flat_map(|command| &command.reserved).chain(&question.kept_slots);
    found.for_each(|id| *reserved.entry(id.clone()).or_default() += 1);
    reserved.extend(ending_soon(snapshot, question.now.wall).map(|id| (id, u32::MAX)));
    subtract_reserved(&mut problem.instance_types, &reserved);
    let packed: FxHashMap<String, Arc<Pod>> =
        problem.pods.drain(..).map(|pod| (pod.uid.clone(), Arc::new(pod))).collect();
    for node in &mut problem.existing_nodes {
        for pod in &mut node.pods {
            if let Some(as_packed) = packed.get(&pod.uid) {
                *pod = as_packed.clone();
            }
        }
    }
    let reader = Reader {
        question,
        views: pools(snapshot),
        pools: planning.pools.iter().enumerate().map(|(at, pool)| (name(pool), at)).collect(),
        machines: machines.iter().map(|machine| (machine.node.name.as_str(), machine)).collect(),
        pdbs: snapshot.budgets.keys().enumerate().map(|(at, key)| (key.as_str(), at)).collect(),
    };
    let leave = about_to_leave(snapshot, question.now.wall);
    let pdbs = snapshot.budgets.values().map(|budget| {
        let allowed = if budget.blocks_fully { 0 } else { u32::try_from(budget.allowed()).unwrap_or(0) };
        let name = budget.name();
        PodBudget { allowed: allowed.saturating_sub(leave.get(&name).copied().unwrap_or_default()), name }
    });
    let states = planning.existing.iter().zip(&problem.existing_nodes);
    let (states, said): (Vec<NodeState>, Vec<StayNote>) =
        states.map(|(joined, node)| reader.node(joined, &node.pods, &planning)).unzip();
    let claims = planning.existing.iter().map(|joined| reader.machine(joined).map(disrupted)).collect();
    let pools = planning.pools.iter().map(|pool| reader.pool(name(pool))).collect();
    let mut cluster = ClusterView::new(problem, states, pools, pdbs.collect()).with_devices(devices);
    let commitments = &question.input.commitments;
    if !commitments.is_empty() {
        let running = Running::from_snapshot(snapshot, &question.input.instance_types).beside(commitments.others());
        let mut own = commitments.in_force(question.now.wall);
        // One command at a time is for what is left: the next sees it launched.
        if question.waiting.iter().flat_map(|command| &command.reserved).any(|id| is_marked(id)) {
            own.offer_nothing();
        }
        cluster = cluster.with_commitments(&Arc::new(own), &running);
    }
    Live { cluster, planning, claims, said }
}

/// Reservations, by id, that end within the hour: nobody is moved for so little.
fn ending_soon(snapshot: &Snapshot, now: Timestamp) -> impl Iterator<Item = String> {
    let all = snapshot.classes.values().filter_map(|class| class.status.as_ref());
    let all = all.flat_map(|status| &status.capacity_reservations);
    let ends = move |end: Timestamp| end.duration_since(now) <= WORTH_A_MOVE;
    all.filter(move |one| one.end_time.as_ref().is_some_and(|end| ends(end.0))).map(|one| one.id.clone())
}

/// Numbers of pods, by PodDisruptionBudget, on nodes that go and not evicted yet: as many evictions that it allows are theirs.
fn about_to_leave(snapshot: &Snapshot, now: Timestamp) -> BTreeMap<String, u32> {
    let mut all: BTreeMap<String, u32> = BTreeMap::new();
    if snapshot.budgets.is_empty() {
        return all;
    }
    let loads = snapshot.deleting.nodes.iter().filter_map(|node| snapshot.loads.get(node));
    let pods = loads.flat_map(|load| load.pods.values());
    for entry in pods.filter(|entry| entry.ready && entry.is_active() && snapshot.must_move(entry, now)) {
        let covering = snapshot.budgets_of(&entry.pod).next().filter(|_| !snapshot.moves_by_rollout(entry));
        covering.into_iter().for_each(|budget| *all.entry(budget.name()).or_default() += 1);
    }
    all
}

fn name(pool: &dovetail_api::v1::NodePool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}

struct Reader<'a> {
    question: &'a Question,
    views: BTreeMap<&'a str, DisruptionPool<'a>>,
    /// Pools that packing may use, by name.
    pools: BTreeMap<&'a str, usize>,
    machines: FxHashMap<&'a str, &'a NodeAndClaim<'a>>,
    /// PodDisruptionBudgets by namespace and name.
    pdbs: BTreeMap<&'a str, usize>,
}

impl<'a> Reader<'a> {
    fn machine(&self, joined: &JoinedNode) -> Option<&'a NodeAndClaim<'a>> {
        self.machines.get(joined.node_name()?).copied()
    }

    fn now(&self) -> Timestamp {
        self.question.now.wall
    }

    /// The state of a node, and its note for the case that it stays.
    fn node(&self, joined: &JoinedNode, pods: &[Arc<Pod>], planning: &Planning) -> (NodeState, StayNote) {
        let Some(machine) = self.machine(joined) else {
            let pods = pods.iter().map(|_| PodState { moves: false, ..PodState::default() }).collect();
            // A node of no pool of ours takes pods in; one that is on its way does not, as it is not initialized.
            return (NodeState { consolidatable: true, pods, ..NodeState::default() }, StayNote::Nothing);
        };
        let view = self.views.get(machine.claim.pool.as_str());
        let consolidatable = view.is_none_or(|view| {
            view.after.is_none() || marks::consolidatable_from(machine, view).is_some_and(|from| from <= self.now())
        });
        let held = self.held(machine, view, planning);
        let blocked = held.is_none().then(|| self.blocked(machine, view)).flatten();
        let young = machine
            .claim
            .initialized
            .is_none_or(|since| self.now().duration_since(since) < self.question.settings.least_age);
        let said = match &blocked {
            _ if young || !consolidatable || machine.nominated || machine.empty() => StayNote::Nothing,
            Some(_) => StayNote::Blocked,
            None => StayNote::Why,
        };
        let state = NodeState {
            pool: self.pools.get(machine.claim.pool.as_str()).copied(),
            held: held.or(blocked),
            consolidatable,
            initialized: machine.claim.initialized,
            spare: self.spare_for(machine),
            reserved_lately: self.question.reserved_lately.contains(&machine.claim.uid),
            expires: machine.claim.expires,
            pods: pods.iter().map(|pod| self.pod(machine, pod)).collect(),
        };
        (state, said)
    }

    fn pod(&self, machine: &NodeAndClaim<'_>, pod: &Pod) -> PodState {
        let own = machine.load.and_then(|load| load.pods.get(&pod.uid));
        let Some(entry) = own.filter(|entry| entry.is_active() && entry.reschedulable()) else {
            return PodState { moves: false, ..PodState::default() };
        };
        let covering = self.question.snapshot.budgets_of(pod).find(|budget| {
            let spec = budget.budget.spec.as_ref();
            entry.ready || spec.and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref()) != Some("AlwaysAllow")
        });
        // The rollout that moves a pod keeps its budget.
        let covering = covering.filter(|_| !self.question.snapshot.moves_by_rollout(entry));
        PodState {
            moves: true,
            cost: entry.eviction_cost,
            moved: self.moved(entry),
            begun: entry.since.filter(|_| entry.ends),
            pdb: covering.and_then(|budget| self.pdbs.get(budget.name().as_str()).copied()),
        }
    }

    /// Time for which a node could have gone.
    fn spare_for(&self, machine: &NodeAndClaim<'_>) -> Duration {
        let since = self.question.spare.get(&machine.claim.uid);
        since.map_or(Duration::ZERO, |since| self.question.now.monotonic.saturating_sub(*since))
    }

    /// Time of the move to save money by which a pod has come to its node. A pod that is moved comes anew: it is known by its
    /// workload, and by when it came.
    fn moved(&self, entry: &PodEntry) -> Option<Timestamp> {
        if self.question.moved.is_empty() {
            return None;
        }
        let (moves, since) = (self.question.moved.get(moved_as(entry).as_ref())?, entry.since?);
        let by = |moved: &&Timestamp| {
            // Kubernetes cuts the fractions of seconds off.
            let came = crate::clock::at_the_latest(since).duration_since(**moved);
            came >= -clock::signed(CLOCKS_APART) && came <= ARRIVES_WITHIN
        };
        moves.iter().rev().find(by).copied()
    }

    /// The reason that keeps a node whatever is found for its pods, beside its pool's policy.
    fn held(
        &self,
        machine: &NodeAndClaim<'_>,
        view: Option<&DisruptionPool<'_>>,
        planning: &Planning,
    ) -> Option<String> {
        let (pool, claim) = (machine.claim.pool.as_str(), machine.claim);
        if self.question.only.as_ref().is_some_and(|only| !only.contains(&claim.uid)) {
            return Some("it is not of the command that is validated".into());
        }
        if self.question.asked.contains(&claim.uid) {
            return Some("it goes for another reason".into());
        }
        if !machine.initialized() {
            return Some("it is not initialized".into());
        }
        if machine.nominated {
            return Some("pods are expected on it".into());
        }
        if machine.empty() {
            // Emptiness sees to it.
            return Some("it is empty".into());
        }
        if let Some(why) = self.question.refused.get(&claim.uid) {
            return Some(why.clone());
        }
        let Some(view) = view.filter(|_| self.pools.contains_key(pool)) else {
            let skipped = planning.skipped.iter().find(|skipped| skipped.pool == pool);
            let why = skipped.map_or_else(|| "it is not there".to_owned(), |skipped| skipped.why.clone());
            return Some(format!("nodepool {pool} is left out: {why}"));
        };
        if view.ttl.is_some() {
            return policy(view);
        }
        if view.observing != Observing::No {
            return Some(format!("nodepool {pool} is only observed"));
        }
        let says = |key: &str| machine.node.labels.get(key).is_some_and(|value| !value.is_empty());
        let missing = [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE].into_iter().find(|key| !says(key));
        if let Some(key) = missing {
            return Some(format!("it has no label {key}, so nobody knows what it costs"));
        }
        None
    }

    /// The reason that forbids to disrupt a node. The pool's policy comes first where it says no, as it is what there is to
    /// change.
    fn blocked(&self, machine: &NodeAndClaim<'_>, view: Option<&DisruptionPool<'_>>) -> Option<String> {
        let view = view?;
        let moves = view.after.is_some() && view.moves_pods();
        moves.then(|| blocked::why(machine, &self.question.snapshot, self.now()).map(|(why, _)| why)).flatten()
    }

    fn pool(&self, pool: &str) -> PoolState {
        let Some(view) = self.views.get(pool) else { return PoolState::default() };
        let (mut totals, asked) = (PoolNodeTotals::default(), &self.question.asked);
        let own = self.machines.values().filter(|machine| machine.claim.pool == pool);
        own.for_each(|machine| totals.count(machine, machine.deleting || asked.contains(&machine.claim.uid)));
        let left = |reason: RemovalReason| {
            let allowed = allowed(view.pool, reason, totals.nodes, self.now());
            allowed.nodes.map(|_| allowed.after(totals.disrupting))
        };
        PoolState {
            policy: view.pool.spec.disruption.consolidation_policy,
            consolidates: view.after.is_some() && view.ttl.is_none(),
            empty: left(RemovalReason::Empty),
            underutilized: left(RemovalReason::Underutilized),
        }
    }
}

/// Uids of claims that go for other reasons, or wait for that, though the snapshot may not show it.
pub type ClaimsGoingAnyway = BTreeSet<String>;
