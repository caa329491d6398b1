//! The order of things: existing nodes, then new nodes pool by pool, then the reasons for what is left.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::assigner::PodAssigner;
use super::memory::RoundMemory;
use crate::pack::explain::{self, LeftAtEnd};
use crate::pack::filter::topology::domains::{Chance, Domains, PodsInBin};
use crate::pack::limits::LimitsLeft;
use crate::pack::limits::shared::PoolLimits as _;
use crate::pack::limits::under_limits::options_of;
use crate::pack::model::classes::Class;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{BinId, ClassId, IndexVec, NodeId, PoolId, TierId};
use crate::pack::model::item::Item;
use crate::pack::model::plan::{Packing, PlannedClaim};
use crate::pack::model::reserved::{Reservations, Room};
use crate::pack::place::assign::{self, WaitingPods, assign};
use crate::pack::place::existing::{Existing, Stage};
use crate::pack::place::finish::Finisher;
use crate::pack::place::planned_node::{Candidate, PlannedNode};
use crate::pack::policy::policies::{nodes, policy_of};

/// The plan so far.
pub(in crate::pack) struct RoundPlan<'c, 'a> {
    pub(in crate::pack) context: &'c Context<'a>,
    pub(in crate::pack) memory: RoundMemory,
    /// Pods not placed yet, by class.
    pub(in crate::pack) left: IndexVec<ClassId, u32>,
    pub(in crate::pack) limits: IndexVec<PoolId, LimitsLeft>,
    pub(in crate::pack) reservations: Reservations,
    pub(super) existing: Existing<'a>,
    /// Domains of the pods that rules between pods speak of.
    pub(in crate::pack) domains: Domains<'c, 'a>,
    /// Pods whose bin such rules chose and that have no node yet, by class and candidate.
    pub(in crate::pack) pinned: BTreeMap<(ClassId, Candidate), u32>,
    /// Pods, as class, bin and count, that had such a bin and chose again.
    pub(in crate::pack) forgotten: Vec<PodsInBin>,
    pub(in crate::pack) finisher: Finisher<'c, 'a>,
    assigner: PodAssigner<'c>,
    pub(in crate::pack) on_existing: BTreeMap<NodeId, Vec<usize>>,
    pub(in crate::pack) claims: Vec<PlannedClaim>,
    /// The node for which each claim was written.
    pub(in crate::pack) planned_nodes: Vec<Rc<PlannedNode>>,
    /// True while limits bind so that nodes take as little of them as they can.
    pub(in crate::pack) under_limits: bool,
    /// True while pods left over keep off planned nodes that they would leave too few types.
    pub(in crate::pack) selective: bool,
}

impl<'c, 'a> RoundPlan<'c, 'a> {
    pub(in crate::pack) fn new(context: &'c Context<'a>, memory: &RoundMemory) -> Self {
        let left: IndexVec<ClassId, u32> = context.classes.iter().map(Class::count).collect();
        Self {
            context,
            memory: memory.clone(),
            limits: context.pools.iter().map(|pool| pool.limits.clone()).collect(),
            reservations: Reservations::new(&context.offers),
            existing: Existing::from_context(context),
            domains: Domains::new(context, &memory.counted),
            pinned: BTreeMap::new(),
            forgotten: vec![],
            finisher: Finisher::new(context),
            assigner: PodAssigner::new(&context.classes),
            left,
            on_existing: BTreeMap::new(),
            claims: vec![],
            planned_nodes: vec![],
            under_limits: false,
            selective: false,
        }
    }

    /// The classes chosen, but for those that can have no node.
    pub(in crate::pack) fn open(&self, chosen: &dyn Fn(&Class) -> bool) -> Vec<ClassId> {
        let classes = self.context.classes.enumerate();
        classes.filter(|(_, class)| class.can_be_placed() && chosen(class)).map(|(at, _)| at).collect()
    }

    /// Places the classes chosen: on existing nodes, then on new ones as long as any pool takes any.
    pub(in crate::pack) fn place(&mut self, chosen: &dyn Fn(&Class) -> bool) {
        let context = self.context;
        let chosen = self.open(chosen);
        let (mut zonal, narrow): (Vec<ClassId>, Vec<ClassId>) =
            // Zonal classes need a domain before they need a node; all others only need room.
            chosen.iter().partition(|at| context.topology.of_class[**at].is_zonal());
        // One that is its own pod affinity on a node can only come first of all, so it says where others of its kind begin.
        // Those that are counted by a spread which binds others go before those: where they go nobody would ask later.
        zonal.sort_by_key(|at| (!context.is_own_pod_affinity(*at), context.topology.is_spread(*at)));
        self.domains.gathering = self.gathering(&zonal);
        // Pods without zonal rules fill what is ready first: kube-scheduler binds them there at once, whatever is
        // planned here.
        narrow.iter().for_each(|at| {
            self.fill_existing(*at, Stage::Initialized);
        });
        self.fill_coming(&chosen, &zonal);
        // Only classes that need another pod on their node are tried again: the others found no room, and none
        // appears.
        let pod_affinity: Vec<ClassId> =
            narrow.into_iter().filter(|at| !context.topology.of_class[*at].pod_affinity.is_empty()).collect();
        // A pod may wait for another one to be placed: go round until nothing moves.
        loop {
            let moved = zonal.iter().filter(|at| self.place_zonal(**at)).count() > 0;
            if !pod_affinity.iter().fold(moved, |moved, at| self.fill_existing(*at, Stage::Any) || moved) {
                break;
            }
        }
        // `|` and not `||`: both go on in each round, as a node that one opens gives the other pods to join.
        while self.plan_together(&chosen) | self.new_nodes(&chosen) {}
        // Limits come last: only now is it known which pods they leave over.
        self.place_under_limits(&chosen);
    }

    /// Places pods on nodes that are on their way: those were planned for pods largest first, whatever rules they have, and in
    /// that order the pods find their places again, as far as the order of zonal classes among themselves allows. Otherwise small
    /// pods without rules take what large ones with rules were to have, and a new leader launches for these once more.
    fn fill_coming(&mut self, chosen: &[ClassId], zonal: &[ClassId]) {
        if !self.existing.any_coming() {
            return;
        }
        let mut zonal = zonal.iter().copied();
        for at in chosen {
            if !self.context.topology.of_class[*at].is_zonal() {
                self.fill_existing(*at, Stage::Coming);
            // A zonal class stands here only for its turn: the next zonal class in their own order takes it.
            } else if let Some(at) = zonal.next() {
                let mut waiting = self.without_place(at).saturating_sub(self.memory.held_back[at]);
                while waiting > 0 && self.take_existing(at) {
                    waiting -= 1;
                }
            }
        }
    }

    /// Gives a pod of a class that zonal rules speak of an existing node; true if it got one.
    fn take_existing(&mut self, at: ClassId) -> bool {
        let Some(node) = self.existing.take_one(self.context, at, &mut self.domains) else { return false };
        self.left[at] -= 1;
        self.on_existing.entry(node).or_default().extend(self.assigner.next_pods(at, 1));
        true
    }

    /// Gives pods of a class existing nodes; true if any got one.
    fn fill_existing(&mut self, at: ClassId, stage: Stage) -> bool {
        let before = self.left[at];
        for (node, count) in self.existing.fill(self.context, at, stage, &mut self.left[at]) {
            self.on_existing.entry(node).or_default().extend(self.assigner.next_pods(at, count));
        }
        self.left[at] < before
    }

    /// Gives pods of a class that zonal rules speak of their existing node, or at least their bin; true if any got one.
    pub(in crate::pack) fn place_zonal(&mut self, at: ClassId) -> bool {
        let context = self.context;
        let mut waiting = self.without_place(at).saturating_sub(self.memory.held_back[at]);
        let before = waiting;
        let alternatives = &context.classes[at].alternatives;
        // Alternatives come in runs of `ways`: one alternative with each of the ways in which its volumes can be had.
        let ways = context.volume_ways(at);
        let own_pod_affinity = context.is_own_pod_affinity(at);
        // Filled when a tier is first asked for: most pods never look beyond the first.
        let mut feasible = IndexVec::from_elem(None, alternatives.len());
        let mut worth_relaxing = context.classes[at].hard.is_empty();
        while waiting > 0 {
            // A node that is there costs nothing. Without one the pod is pinned to a bin, and gets its node with
            // the others of the bin when nodes are planned.
            if !self.take_existing(at) {
                // A pod that has no place without its soft rules has none with them.
                if !worth_relaxing && !self.has_place_without_soft_rules(at, &mut feasible) {
                    break;
                }
                worth_relaxing = true;
                let mut found: Option<(TierId, Chance)> = None;
                for (tier, feasible) in alternatives.ids().zip(&mut feasible) {
                    // The pool comes first if volumes can be had in several ways.
                    if tier.index() % ways == 0 && found.is_some() {
                        break;
                    }
                    let feasible = feasible.get_or_insert_with(|| self.feasible_places(at, tier));
                    let bins = context.bins.for_keys(context.topology.of_class[at].keys);
                    feasible.retain(|one| self.domains.gathers(at, &bins[one.bin].domain));
                    // Only one node can be where the first of those is that have to be together.
                    if own_pod_affinity && let Some(first) = self.pinned.range(of_class(at)).next() {
                        let first = first.0.1.bin;
                        feasible.retain(|one| one.bin == first);
                    }
                    // Only a pod that gives up what it prefers goes where its like are.
                    let candidates = |bin| alternatives.ids().map(move |tier| Candidate { tier, bin });
                    let pinned = &self.pinned;
                    let chosen = |bin| {
                        tier > TierId::FIRST && candidates(bin).any(|candidate| pinned.contains_key(&(at, candidate)))
                    };
                    let best = self.domains.best(at, tier, feasible, chosen);
                    // A later tier wins by a heavier pool only: of equal pools the pod keeps more of what it
                    // prefers.
                    if best.is_some_and(|best| found.is_none_or(|(_, found)| best.weight > found.weight)) {
                        found = best.map(|best| (tier, best));
                    }
                }
                // The pods of a class are alike, so where one finds no bin none of the rest does.
                let Some((tier, Chance { bin, .. })) = found else { break };
                self.domains.put(at, bin);
                *self.pinned.entry((at, Candidate { tier, bin })).or_insert(0) += 1;
            }
            waiting -= 1;
        }
        waiting < before
    }

    /// True if a pod of a class could have a place by what it requires; notes the places in which it could have a node.
    fn has_place_without_soft_rules(&self, at: ClassId, feasible: &mut IndexVec<TierId, Option<Vec<Chance>>>) -> bool {
        self.context.classes[at].hard.iter().any(|tier| {
            let tier = *tier;
            let feasible = feasible[tier].get_or_insert_with(|| self.feasible_places(at, tier));
            self.domains.best(at, tier, feasible, |_| false).is_some()
        })
    }

    /// Number of pods of a class that have neither a node nor a place.
    pub(in crate::pack) fn without_place(&self, at: ClassId) -> u32 {
        let pinned: u32 = self.pinned.range(of_class(at)).map(|(_, count)| *count).sum();
        // Pinned pods are among those left: they have a bin and no node yet.
        self.left[at] - pinned
    }

    /// The bins in which a class by one of its alternatives could get a new node, with the cheapest that holds its pod.
    pub(in crate::pack) fn feasible_places(&self, at: ClassId, tier: TierId) -> Vec<Chance> {
        let context = self.context;
        let bins = context.bins.for_keys(context.topology.of_class[at].keys);
        let chance = |bin: BinId| {
            let waiting = WaitingPods::one(at, Candidate { tier, bin });
            let (pool, item, types) = assign::first(context, waiting, self.room(), None)?;
            let bought = context.bought(item.offering_bits);
            let first = bought.order.iter().find(|at| types.has(**at))?;
            // An earlier round got a lighter pool here than this look promises: what it got counts.
            let known = self.memory.lighter.get(&(at, bin));
            let weight = known.map_or(context.weight(pool), |known| context.weight(pool).min(*known));
            Some(Chance { bin, weight, price: bought.price[*first] })
        };
        bins.ids().filter_map(chance).collect()
    }

    /// Number of pods that have no node.
    pub(in crate::pack) fn left_over(&self) -> u32 {
        self.left.iter().sum()
    }

    pub(in crate::pack) fn room(&self) -> Room<'_> {
        Room { limits: &self.limits, open: self.reservations.open() }
    }

    /// The pods of a class without a node, by candidate.
    pub(in crate::pack) fn waiting(&self, at: ClassId) -> Vec<WaitingPods> {
        let waiting = |candidate, count| WaitingPods { class: at, candidate, count };
        let mut all: Vec<WaitingPods> = match self.context.topology.of_class[at].is_zonal() {
            false => {
                vec![waiting(Candidate::ANYWHERE, self.left[at].saturating_sub(self.memory.held_back[at]))]
            }
            true => self.pinned.range(of_class(at)).map(|((_, candidate), left)| waiting(*candidate, *left)).collect(),
        };
        all.retain(|one| one.count > 0);
        all
    }

    pub(in crate::pack) fn answer(mut self) -> Packing {
        let mut unscheduled = Vec::new();
        for (class, count) in self.left.enumerate().filter(|(_, count)| **count > 0) {
            let part = &self.context.topology.of_class[class];
            let described = (part.is_zonal() || !part.pod_affinity.is_empty()).then(|| self.domains.describe(class));
            let left = LeftAtEnd { limits: &self.limits, reservations: &self.reservations };
            let reason = explain::reason(self.context, &self.context.classes[class], left, described.as_deref());
            let reason = Arc::new(reason);
            unscheduled.extend(self.assigner.next_pods(class, *count).map(|pod| (pod, Arc::clone(&reason))));
        }
        let mut packing = Packing {
            daemons_not_counted: self.context.daemons_not_counted(),
            claims: self.claims,
            on_existing: self.on_existing.into_iter().map(|(node, pods)| (node.index(), pods)).collect(),
            unscheduled,
            ..Packing::default()
        };
        packing.sum_prices();
        packing
    }

    /// One pass over the pools; true if anything was placed, so that pods that one cannot take come to the next.
    pub(in crate::pack) fn new_nodes(&mut self, chosen: &[ClassId]) -> bool {
        let context = self.context;
        // All classes choose their pool before any pool is packed, so that a pool sees all pods that share its
        // nodes.
        let mut by_pool: IndexVec<PoolId, Vec<Item<'c>>> = context.pools.iter().map(|_| vec![]).collect();
        for at in
            chosen.iter().filter(|at| self.left[**at] > 0 && context.topology.of_class[**at].pod_affinity.is_empty())
        {
            for waiting in self.waiting(*at) {
                if let Some((pool, item)) = assign(context, waiting, self.room(), None) {
                    by_pool[pool].push(item);
                }
            }
        }
        // Reserved capacity goes first and alone. It is paid for already, and what it cannot hold has to choose
        // again among what is bought.
        if let Some(pool) = by_pool.position(|items| items.iter().any(|item| self.is_reserved(item))) {
            by_pool[pool].retain(|item| self.is_reserved(item));
            self.use_reserved(pool, &mut by_pool[pool]);
            return true;
        }
        let mut progress = false;
        // The limits are copied: a policy tries them out, and only admitted nodes use them up.
        for (pool, mut items) in context.pools.ids().zip(by_pool).filter(|(_, items)| !items.is_empty()) {
            for (planned, times) in nodes(context, pool, &mut items, &mut self.limits[pool].clone()) {
                progress |= self.admit(planned, times);
            }
        }
        progress
    }

    fn is_reserved(&self, item: &Item<'_>) -> bool {
        item.offering_bits & self.context.offers.reserved != 0
    }

    /// Plans a pool's nodes of reserved capacity, as many as there are; whatever pods are left go round again.
    fn use_reserved(&mut self, pool: PoolId, items: &mut [Item<'c>]) {
        let context = self.context;
        self.reservations.bound(context, pool, items);
        let mut used = false;
        for (planned, times) in nodes(context, pool, items, &mut self.limits[pool].clone()) {
            used |= self.admit(planned, times);
        }
        if !used {
            let offering_bits = items.iter().fold(0, |offering_bits, item| offering_bits | item.offering_bits);
            // Nothing fits on what is left of it: without this the same pods would come back in each round.
            self.reservations.close(offering_bits & context.offers.reserved);
        }
    }

    /// Turns a planned node into claims as far as limits and reservations allow; true if there was any.
    pub(in crate::pack) fn admit(&mut self, mut planned: PlannedNode, times: u32) -> bool {
        let policy = policy_of(self.context, planned.pool);
        let reserved = planned.offering_bits & self.context.offers.reserved != 0;
        let mut known: Option<(PlannedClaim, Rc<PlannedNode>)> = None;
        for time in 0..times {
            let limits = &self.limits[planned.pool];
            // Near its limits a pool loses types from one node to the next, so each node is written by itself.
            if !limits.are_far() {
                limits.narrow(self.context, &mut planned);
                if !planned.may_be(self.context, &planned.types) {
                    return time > 0;
                }
                known = None;
            }
            // Each node holds an instance of its reservation, so no two are written alike.
            if reserved {
                let held = self.reservations.hold(self.context, &planned);
                known = held.and_then(|held| self.claim(&held, policy).map(|claim| (claim, Rc::new(held))));
            } else if known.is_none() {
                known = self.claim(&planned, policy).map(|claim| (claim, Rc::new(planned.clone())));
            }
            let Some((claim, shared)) = &known else { return time > 0 };
            // A planned node counts at its largest option: any of them may be launched.
            self.limits.take_node(planned.pool, self.context, options_of(claim, shared));
            let mut claim = claim.clone();
            self.planned_nodes.push(Rc::clone(shared));
            for share in &planned.shares {
                self.assign_class(share.class, share.candidate, share.count, &mut claim);
            }
            self.claims.push(claim);
        }
        times > 0
    }

    /// Puts `count` pods of a class on a claim.
    pub(in crate::pack) fn assign_class(
        &mut self,
        class: ClassId,
        candidate: Candidate,
        count: u32,
        claim: &mut PlannedClaim,
    ) {
        self.left[class] -= count;
        // The pod has its node, so it no longer waits in its bin.
        if let Some(pinned) = self.pinned.get_mut(&(class, candidate)) {
            *pinned -= count;
        }
        claim.pods.extend(self.assigner.next_pods(class, count));
    }
}

fn of_class(class: ClassId) -> std::ops::RangeInclusive<(ClassId, Candidate)> {
    (class, Candidate { tier: TierId::FIRST, bin: BinId::FIRST })..=(class, Candidate::ANYWHERE)
}
