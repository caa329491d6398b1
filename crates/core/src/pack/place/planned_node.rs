//! A node being planned: the pods on it and the types that it may still be.

use smallvec::SmallVec;

use crate::pack::filter::shared::Attached;
use crate::pack::filter::topology::domains::PodsInBin;
use crate::pack::filter::topology::node_rules::Tally;
use crate::pack::limits::NodeOptions;
use crate::pack::model::bits::Bits;
use crate::pack::model::classes::Amounts;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{BinId, ClassId, InstanceTypeId, JointId, PoolId, SetId, TierId};
use crate::pack::model::item::Item;
use crate::pack::model::kinds::NodeKind;
use crate::pack::model::numbers::count_of;
use crate::pack::model::offers::Mask;
use crate::pack::model::options::{Least, enough_of, least_of};

/// Work to put pods on a planned node, in steps.
const PUT: usize = 4;
/// Number of shares of a node, or of resources, that one step of work handles.
const SHARES_A_STEP: usize = 16;
const RESOURCES_A_STEP: usize = 8;

/// The choice of rules between pods for a pod: one of its class's alternatives, and a bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Candidate {
    pub tier: TierId,
    pub bin: BinId,
}

impl Candidate {
    /// Any alternative, no particular bin.
    pub const ANYWHERE: Self = Self { tier: TierId::LAST, bin: BinId::LAST };
}

/// A number of pods of a class, placed by one of its requirement sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Share {
    pub class: ClassId,
    pub set: SetId,
    /// The choice of rules between pods, or [`Candidate::ANYWHERE`].
    pub candidate: Candidate,
    pub count: u32,
}

impl Share {
    /// The share as pods in a bin.
    pub fn placed(&self) -> PodsInBin {
        PodsInBin { class: self.class, bin: self.candidate.bin, count: self.count }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct PlannedNode {
    /// Its pool, by place in the context.
    pub pool: PoolId,
    pub shares: SmallVec<[Share; 4]>,
    /// Requests of its pods together.
    pub requests: Amounts,
    pub types: Bits,
    /// The offerings by which it can be bought.
    pub offering_bits: Mask,
    /// The DaemonSets of its pool, as bits, that have no pod on it.
    absent: u64,
    pub joint: JointId,
    /// Pods on it as counted by rules whose domain is the node.
    pub tally: Tally,
    volumes: Attached,
    /// Numbers of distinct values that its types have to offer (`minValues`), once its first pod has decided them.
    least: Option<Least>,
}

impl PlannedNode {
    /// An empty node of a pool that may be any of `types`.
    pub fn new(context: &Context<'_>, pool: PoolId, types: Bits) -> Self {
        Self {
            pool,
            shares: SmallVec::new(),
            requests: context.nothing(),
            types,
            offering_bits: context.pools[pool].offering_bits,
            absent: 0,
            joint: JointId::NONE,
            tally: Tally::default(),
            volumes: Attached::default(),
            least: None,
        }
    }

    /// The same node with these types and offering bits, which are fewer.
    pub fn narrowed(&self, types: Bits, offering_bits: Mask) -> Self {
        Self { types, offering_bits, ..self.clone() }
    }

    /// The types and offering bits that it may become.
    pub fn options(&self) -> NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone + '_> {
        NodeOptions { types: self.types.iter(), bits: self.offering_bits }
    }

    /// Its kind, by the DaemonSets that run on it.
    pub fn kind(&self, context: &Context<'_>) -> NodeKind {
        context.kind(self.pool, self.absent, self.offering_bits)
    }

    /// Adds pods if some type still holds them and all rules allow it; true if it did.
    pub fn add(&mut self, context: &Context<'_>, item: &Item<'_>, count: u32) -> bool {
        let rules = context.node_rules(item.class);
        context.work(self.tally.work(rules))
            && self.tally.allows(rules, count) == count
            && self.put(context, item, count)
    }

    /// Adds `count` pods, or fewer where volumes that they share take what is left; returns their number, which is never more.
    pub fn add_most(&mut self, context: &Context<'_>, item: &Item<'_>, count: u32) -> u32 {
        let shared = count_of(context.classes[item.class].shared.len());
        let tries = if shared > 0 { 4 } else { 1 };
        // Say 8 pods fit by themselves, and the two volumes that they share take what they would have. Tried are 8, 6, 4 and 1, as a count that fits exactly is not worth a longer search.
        let mut tries = [count, count.saturating_sub(shared), count / 2, count.min(1)].into_iter().take(tries);
        tries.find(|count| *count > 0 && self.add(context, item, *count)).unwrap_or(0)
    }

    /// Adds the first pod of its group, which needs no other there.
    pub fn open(&mut self, context: &Context<'_>, item: &Item<'_>) -> bool {
        let rules = context.node_rules(item.class);
        context.work(self.tally.work(rules)) && self.tally.opens(rules, 1) == 1 && self.put(context, item, 1)
    }

    fn put(&mut self, context: &Context<'_>, item: &Item<'_>, count: u32) -> bool {
        let class = &context.classes[item.class];
        let (selection, requests) = (item.selection, &class.requests);
        let share = Share { class: item.class, set: item.set, candidate: item.candidate, count };
        let rules = context.node_rules(item.class);
        if !context.work(PUT + self.shares.len() / SHARES_A_STEP + requests.len() / RESOURCES_A_STEP) {
            return false;
        }
        // Nothing of the node changes until every rule has agreed: a refusal leaves it as it was.
        let Some(joint) = context.meet(self.joint, selection.joint) else { return false };
        let offering_bits = self.offering_bits & item.offering_bits;
        let mut total = self.requests.clone();
        for (sum, amount) in total.iter_mut().zip(requests) {
            *sum = sum.saturating_add(amount.saturating_mul(i64::from(share.count)));
        }
        self.volumes.add_missing(&class.shared, &mut total);
        let mut types = self.types.clone();
        types.and(&selection.types);
        let absent = self.absent | selection.absent;
        // All pods together and not this one alone: a type that holds each of them may not hold both.
        context.fitting(context.kind(self.pool, absent, offering_bits), &total, &mut types);
        if offering_bits != self.offering_bits {
            types.and(&context.bought(offering_bits).types);
        }
        if joint != self.joint {
            // One pod asks for a value, another for a different one, and a type leaves it open: each has it, both together do not.
            context.keep_joint(joint, &mut types);
        }
        if types.is_empty() {
            return false;
        }
        // With best effort `minValues` come to what the first pod leaves: later pods may not lower them.
        let least = self.least.clone().unwrap_or_else(|| self.least_with(context, item));
        if !enough_of(context, self.pool, &types, offering_bits, &least) {
            return false;
        }
        self.least = Some(least);
        (self.requests, self.types, self.offering_bits, self.joint) = (total, types, offering_bits, joint);
        self.absent = absent;
        self.tally.add(rules, count);
        self.volumes.attach(&class.shared);
        let same = |own: &&mut Share| (own.class, own.set, own.candidate) == (share.class, share.set, share.candidate);
        // One share for equal pods, so that a node with hundreds of them stays as small as one with two.
        match self.shares.iter_mut().find(same) {
            Some(own) => own.count += share.count,
            None => self.shares.push(share),
        }
        true
    }

    /// Numbers of `minValues` for a node that is opened with one pod of an item.
    fn least_with(&self, context: &Context<'_>, item: &Item<'_>) -> Least {
        if context.pools[self.pool].min_values.is_empty() {
            return Least::new();
        }
        let offering_bits = self.offering_bits & item.offering_bits;
        let mut types = self.types.clone();
        types.and(&item.selection.types);
        types.and(&context.bought(offering_bits).types);
        let kind = context.kind(self.pool, self.absent | item.selection.absent, offering_bits);
        context.fitting(kind, &context.classes[item.class].first, &mut types);
        least_of(context, self.pool, &types, offering_bits)
    }

    /// True if it may be these types as far as `minValues` go.
    pub fn may_be(&self, context: &Context<'_>, types: &Bits) -> bool {
        let least = self.least.as_ref();
        !types.is_empty() && least.is_none_or(|least| enough_of(context, self.pool, types, self.offering_bits, least))
    }

    pub fn pods(&self) -> u32 {
        self.shares.iter().map(|share| share.count).sum()
    }
}
