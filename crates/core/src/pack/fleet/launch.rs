//! The one new node that takes pods off others.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::limits::{allow_all, bits_of};
use super::node::node_of_claim;
use super::{Fleet, Free, member};
use crate::pack::explain::warnings::overlap;
use crate::pack::limits::shared::PoolLimits as _;
use crate::pack::limits::under_limits::types_of;
use crate::pack::limits::{LimitsLeft, NodeOptions};
use crate::pack::model::bits::Bits;
use crate::pack::model::context::Context;
use crate::pack::model::daemons::runs_on;
use crate::pack::model::ids::{BinId, ClassId, IndexVec, InstanceTypeId, NodeId, PodId, PoolId};
use crate::pack::model::item::Item;
use crate::pack::model::offers::Mask;
use crate::pack::model::options::common;
use crate::pack::model::plan::PlannedClaim;
use crate::pack::model::reserved::Room;
use crate::pack::place::assign::{self, WaitingPods};
use crate::pack::place::finish::Finisher;
use crate::pack::place::planned_node::{Candidate, PlannedNode};
use crate::pack::policy::policies::policy_of;
use crate::problem::{ExistingNode, Policy};
use crate::requirements::{Operator, Requirements};
use crate::resources::Resources;

/// Cache of what classes ask of pools, computed once each; limits apart, which a planned node's types are held to.
pub(super) struct Items<'c> {
    known: RefCell<FxHashMap<(ClassId, Candidate, PoolId, Mask), Option<Item<'c>>>>,
    unlimited: IndexVec<PoolId, LimitsLeft>,
}

impl Items<'_> {
    pub fn new(context: &Context<'_>) -> Self {
        Self { known: RefCell::default(), unlimited: IndexVec::from_elem(LimitsLeft::none(), context.pools.len()) }
    }
}

pub(crate) struct TrialNode {
    planned: PlannedNode,
    /// The offering bits that its pods choose from.
    open: Mask,
    /// Pods that zonal rules speak of, by class and bin.
    placed: Vec<(ClassId, BinId)>,
    pub pods: Vec<PodId>,
}

/// State of a trial node that [`Fleet::unload`] restores.
pub(crate) struct Saved {
    planned: PlannedNode,
    pods: usize,
    placed: usize,
}

/// A free instance of a capacity reservation, for a pool that may use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeSlot {
    pub pool: PoolId,
    pub offering_bits: Mask,
}

/// Bounds for the launch options of a replacement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// Dollars an hour that no option may reach, in the dearest zone that is left.
    pub price: f64,
    pub spot: bool,
    /// Number of options that a spot node has to have, and has at most; any number if `None`.
    pub types: Option<usize>,
}

impl<'c, 'a> Fleet<'c, 'a> {
    /// The pool, by its place here, of an index in the problem.
    pub fn pool_at(&self, index: usize) -> Option<PoolId> {
        self.context.pools.position(|pool| pool.index == index)
    }

    /// Other pools of the same weight that look for the lowest price and can take the same pods, as indices in the problem.
    pub fn equals_of(&self, index: usize) -> Vec<usize> {
        let pools = &self.context.problem.node_pools;
        let is_equal = |at: &usize| {
            *at != index
                && pools[*at].weight == pools[index].weight
                && pools[*at].policy == Policy::Cost
                && overlap(&pools[*at], &pools[index])
        };
        (0..pools.len()).filter(is_equal).collect()
    }

    /// Reservations with a free instance, each with the pools that may use it; `taken` are instances of them, by id, that are
    /// spoken for.
    pub fn free_slots(&self, taken: &BTreeMap<String, u32>) -> Vec<FreeSlot> {
        let context = self.context;
        let taken = |id: &str| taken.get(id).copied().unwrap_or_default();
        let free = context.offers.reservations.iter().filter(|one| one.left.is_none_or(|left| left > taken(&one.id)));
        let slots = free.flat_map(|one| {
            let offering_bits = one.offering_bits;
            let usable =
                context.pools.ids().filter(move |pool| context.pools[*pool].offering_bits & offering_bits != 0);
            usable.map(move |pool| FreeSlot { pool, offering_bits })
        });
        slots.collect()
    }

    /// Begins a new node of a pool; of one type only, if given. `None` where the pool's limits leave no type.
    pub fn launch(&self, pool: PoolId, only: Option<InstanceTypeId>) -> Option<TrialNode> {
        let context = self.context;
        let mut types = context.pools[pool].types.clone();
        // One type only: the trial is how well that type is filled. Which other types would do as well is asked
        // when its claim is written.
        if let Some(only) = only {
            types = Bits::empty(context.problem.instance_types.len());
            types.insert(only);
        }
        self.begin(pool, types, self.open())
    }

    /// Begins a new node in a free instance of a capacity reservation. `None` where the pool's limits leave no type.
    pub fn launch_reserved(&self, slot: &FreeSlot) -> Option<TrialNode> {
        let context = self.context;
        let mut types = context.pools[slot.pool].types.clone();
        types.and(&context.bought(slot.offering_bits).types);
        let launch = self.begin(slot.pool, types, context.offers.reserved)?;
        let offering_bits = launch.planned.offering_bits & slot.offering_bits;
        let planned = launch.planned.narrowed(launch.planned.types.clone(), offering_bits);
        (offering_bits != 0).then_some(TrialNode { planned, ..launch })
    }

    fn begin(&self, pool: PoolId, mut types: Bits, open: Mask) -> Option<TrialNode> {
        let context = self.context;
        let bits = context.pools[pool].offering_bits & open;
        let left = self.limits[pool].close(context, &mut types, bits);
        self.limits[pool].retain_within(context.problem, &mut types, left);
        let planned = PlannedNode::new(context, pool, types.clone()).narrowed(types, left);
        (!planned.types.is_empty()).then_some(TrialNode { planned, open, placed: vec![], pods: vec![] })
    }

    /// Begins a new node instead of a planned one: of any type of its pool, where that one may be.
    pub fn launch_as(&self, claim: &PlannedClaim) -> Option<TrialNode> {
        let launch = self.launch(self.pool_at(claim.pool)?, None)?;
        let Some(zones) = zones_of(claim) else {
            return Some(launch);
        };
        let offering_bits =
            self.context.offers.with(|offering_bit| zones.contains(&offering_bit.zone)) & launch.planned.offering_bits;
        let planned = launch.planned.narrowed(launch.planned.types.clone(), offering_bits);
        (!planned.types.is_empty()).then_some(TrialNode { planned, ..launch })
    }

    /// True if the pools' limits allow all of these together, whichever of its types each gets.
    pub fn within_limits(&self, claims: &[PlannedClaim]) -> bool {
        allow_all(self, claims)
    }

    /// Puts a pod on the new node; true if it has room and the rules allow it.
    pub fn load(&mut self, launch: &mut TrialNode, pod: PodId) -> bool {
        let class = self.class_of(pod);
        if self.context.classes[class].refused.is_some() {
            return false;
        }
        // Zonal rules need a bin to count the pod in; without them any offering bit of the node will do.
        let done = match self.context.topology.of_class[class].is_zonal() {
            false => {
                let item = self.item(class, Candidate::ANYWHERE, launch);
                item.is_some_and(|item| launch.planned.add(self.context, &item, 1))
            }
            true => self.load_zonal(launch, class),
        };
        if done {
            launch.pods.push(pod);
        }
        done
    }

    fn load_zonal(&mut self, launch: &mut TrialNode, class: ClassId) -> bool {
        let context = self.context;
        let bins = context.bins.for_keys(context.topology.of_class[class].keys);
        for tier in context.classes[class].alternatives.ids() {
            for (at, bin) in bins.enumerate() {
                if bin.mask & launch.planned.offering_bits == 0 || !self.domains.may_join(class, tier, &bin.domain) {
                    continue;
                }
                let candidate = Candidate { tier, bin: at };
                let Some(item) = self.item(class, candidate, launch) else { continue };
                if launch.planned.add(context, &item, 1) {
                    self.domains.put(class, at);
                    launch.placed.push((class, at));
                    return true;
                }
            }
        }
        false
    }

    /// Takes pods off the new node again until it is as it was when it was saved.
    pub fn unload(&mut self, launch: &mut TrialNode, saved: Saved) {
        // In the reverse order, as they were counted.
        while launch.placed.len() > saved.placed {
            if let Some((class, bin)) = launch.placed.pop() {
                self.domains.forget(class, bin);
            }
        }
        launch.pods.truncate(saved.pods);
        launch.planned = saved.planned;
    }

    /// Saves the state for [`Fleet::unload`].
    pub fn saved(launch: &TrialNode) -> Saved {
        Saved { planned: launch.planned.clone(), pods: launch.pods.len(), placed: launch.placed.len() }
    }

    /// Begins another node for the pods of a planned one, which counts nowhere from now on: of any type of its pool, in the
    /// places where that one may be, as what went elsewhere since has been held to these.
    pub fn instead_of(&mut self, launch: &mut TrialNode) -> Option<TrialNode> {
        while let Some((class, bin)) = launch.placed.pop() {
            self.domains.forget(class, bin);
        }
        let other = self.launch(launch.planned.pool, None)?;
        let planned = other
            .planned
            .narrowed(other.planned.types.clone(), other.planned.offering_bits & launch.planned.offering_bits);
        Some(TrialNode { planned, ..other })
    }

    /// Takes all pods off the new node.
    pub fn abandon(&mut self, launch: &mut TrialNode) {
        let saved = Saved { planned: launch.planned.clone(), pods: 0, placed: 0 };
        self.unload(launch, saved);
    }

    fn item(&self, class: ClassId, candidate: Candidate, launch: &TrialNode) -> Option<Item<'c>> {
        let (pool, open) = (launch.planned.pool, launch.open);
        let key = (class, candidate, pool, open);
        if let Some(known) = self.items.known.borrow().get(&key) {
            return known.clone();
        }
        let context: &'c Context<'a> = self.context;
        let room = Room { limits: &self.items.unlimited, open };
        let waiting = WaitingPods::one(class, candidate);
        let found = match context.topology.of_class[class].is_zonal() {
            false => assign::assign(context, waiting, room, Some(pool)).map(|(_, item)| item),
            true => {
                let alternative = context.classes[class].alternatives[candidate.tier];
                assign::item(context, waiting, alternative, pool, room).map(|(item, _)| item)
            }
        };
        self.items.known.borrow_mut().insert(key, found.clone());
        found
    }

    /// The claim for the new node, all of whose options keep to the bound; `None` where none is left. A type keeps to it where
    /// it does in the dearest zone that the node may be in (core spec 5.7).
    pub fn claim(&self, launch: &TrialNode, bound: Bound) -> Option<PlannedClaim> {
        self.claim_in(launch, bound, launch.planned.offering_bits)
    }

    /// The claim for a node of spot capacity that is held to one zone, the one in which it is cheapest: spot prices of a type
    /// differ by zone, and too few types may keep to the bound in all of them. Karpenter has no such rule.
    pub fn claim_in_one_zone(&self, launch: &TrialNode, bound: Bound) -> Option<PlannedClaim> {
        let (offers, offering_bits) = (&self.context.offers, launch.planned.offering_bits);
        let spot = offering_bits & self.context.spot_bits();
        let zones: BTreeSet<&str> =
            offers.offering_bits.iter().map(|offering_bit| offering_bit.zone.as_str()).collect();
        let each = zones.into_iter().map(|zone| offering_bits & offers.with(|offering_bit| offering_bit.zone == zone));
        let parts = each.filter(|part| part & spot != 0);
        let found = parts.filter_map(|part| self.claim_in(launch, bound, part));
        found.min_by(|a, b| a.price.total_cmp(&b.price))
    }

    fn claim_in(&self, launch: &TrialNode, bound: Bound, offering_bits: Mask) -> Option<PlannedClaim> {
        let (context, planned) = (self.context, &launch.planned);
        let spot = context.spot_bits();
        let mut offering_bits = if bound.spot { offering_bits } else { offering_bits & !spot };
        let mut types = common(context, &planned.narrowed(planned.types.clone(), offering_bits));
        for at in types.clone().iter() {
            // A launch may land in the dearest zone that is left, and must save there too.
            if self.worst_price(at, offering_bits) >= bound.price {
                types.remove(at);
            }
        }
        // A spot launch that fails must not become a dearer one on demand.
        let any_spot = types.iter().any(|at| context.offers.available(at) & offering_bits & spot != 0);
        // EC2 takes spot first where both are allowed, so the claim is of spot alone.
        if any_spot {
            offering_bits &= spot;
            types.and(&context.bought(offering_bits).types);
        }
        let fixed = bound.types.filter(|_| any_spot);
        // Karpenter keeps the 15 cheapest for a spot node that replaces one: with fewer it would be taken back
        // soon, with more it might be no cheaper.
        if let Some(least) = fixed {
            types = self.cheapest(planned, &types, offering_bits, least)?;
        }
        if !planned.may_be(context, &types) {
            return None;
        }
        let (narrow, policy) = (planned.narrowed(types, offering_bits), policy_of(context, planned.pool));
        let mut finisher = Finisher::new(context);
        // Each of the cheapest types costs less than the node that it replaces: no other ceiling cuts the list below its
        // number.
        let claim = match fixed {
            Some(_) => finisher.claim_of_all(&narrow, policy),
            None => finisher.claim(&narrow, policy),
        };
        let mut claim = claim?;
        claim.pods = launch.pods.iter().map(|pod| pod.index()).collect();
        Some(claim)
    }

    /// The `least` cheapest of the types, more where `minValues` ask for it; `None` where there are fewer.
    fn cheapest(&self, planned: &PlannedNode, types: &Bits, offering_bits: Mask, least: usize) -> Option<Bits> {
        let bought = self.context.bought(offering_bits);
        let mut kept = Bits::empty(self.context.problem.instance_types.len());
        let mut count = 0;
        for at in bought.order.iter().copied().filter(|at| types.has(*at)) {
            if count >= least && planned.may_be(self.context, &kept) {
                break;
            }
            kept.insert(at);
            count += 1;
        }
        (count >= least).then_some(kept)
    }

    /// The pool of a new node, as its index in the problem.
    pub fn pool_of(&self, launch: &TrialNode) -> usize {
        self.context.pools[launch.planned.pool].index
    }

    pub fn may_be_spot(&self, launch: &TrialNode) -> bool {
        launch.planned.offering_bits & self.context.spot_bits() != 0
    }

    /// Amounts of a type that are left for more pods on the new node.
    pub fn left(&self, launch: &TrialNode, at: InstanceTypeId) -> Vec<i64> {
        let room = self.context.room(launch.planned.kind(self.context), at).iter().zip(&launch.planned.requests);
        room.map(|(have, taken)| have.saturating_sub(*taken)).collect()
    }

    /// Worst price of a type: that of the dearest offering of the kind of capacity that is launched first.
    fn worst_price(&self, at: InstanceTypeId, offering_bits: Mask) -> f64 {
        let offers = &self.context.offers;
        let open = offers.available(at) & offering_bits;
        let spot = open & self.context.spot_bits();
        // EC2 launches spot first where both are open.
        let open = if spot == 0 { open } else { spot };
        offers.within(open).map(|(one, _)| offers.cheapest(at, one.bit()).0).fold(0.0, f64::max)
    }

    /// The pool's cheapest price of every type for new nodes, infinite where it has none.
    pub fn prices(&self, pool: PoolId) -> Vec<(InstanceTypeId, f64)> {
        let view = &self.context.pools[pool];
        let bought = self.context.bought(view.offering_bits & self.open());
        let all = view.types.iter().map(|at| (at, bought.price[at]));
        all.filter(|(_, price)| price.is_finite()).collect()
    }

    /// Requests of DaemonSets on a new node of a type with this node's labels.
    fn daemons_of(&self, pool: PoolId, at: InstanceTypeId, node: &ExistingNode) -> Resources {
        let (context, own) = (self.context, Requirements::from_labels(&node.labels));
        let mut all = context.nothing();
        for (daemon, requests) in context.pools[pool].daemons.on_type(0, at) {
            if runs_on(&context.problem.daemon_pods[daemon], &node.taints, &own) {
                all.iter_mut().zip(requests).for_each(|(sum, amount)| *sum = sum.saturating_add(*amount));
            }
        }
        context.names.resources(&all)
    }

    /// Adds the node that a claim becomes at its cheapest, and moves the claim's pods there; returns its index.
    pub fn launched(&mut self, claim: &PlannedClaim, name: String) -> Option<NodeId> {
        let mut node = node_of_claim(self.context.problem, claim, name)?;
        let pool = self.pool_at(claim.pool)?;
        node.daemon_requests = self.daemons_of(pool, InstanceTypeId::from(claim.cheapest_type()?), &node);
        // At its cheapest, as this trial assumes; a plan for launching counts the largest.
        let cheapest = NodeOptions { types: types_of(claim).take(1), bits: bits_of(self.context, claim) };
        self.limits.take_node(pool, self.context, cheapest);
        let free = Free::from_node(self.context, NodeId::from(self.nodes.len()), Cow::Owned(node));
        self.heads.push(super::head(&free.room));
        let at = self.nodes.push(member(&self.domains, free));
        claim.pods.iter().for_each(|pod| self.move_to(PodId::from(*pod), at));
        Some(at)
    }
}

fn zones_of(claim: &PlannedClaim) -> Option<&Vec<String>> {
    let mut named = claim.requirements.iter().filter(|said| said.operator == Operator::In);
    named.find(|said| said.key == crate::labels::ZONE).map(|said| &said.values)
}
