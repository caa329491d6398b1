//! A pool's limits while packing: amounts that are left, and the instance types that they still allow (spec core 3.11).

pub(in crate::pack) mod binding;
pub(in crate::pack) mod quota_use;
pub(in crate::pack) mod shared;
pub(in crate::pack) mod under_limits;

use std::collections::BTreeMap;
use std::rc::Rc;

use self::shared::{PoolTypes, is_of_quota};
use crate::pack::model::bits::Bits;
use crate::pack::model::columns::Columns;
use crate::pack::model::context::Context;
use crate::pack::model::ids::InstanceTypeId;
use crate::pack::model::numbers::part_of;
use crate::pack::model::offers::{Mask, Offers};
use crate::pack::place::planned_node::PlannedNode;
use crate::problem::Problem;
use crate::resources::{DOLLARS, NODES, Resources, amount_of_dollars};

/// The types and offering bits that a planned node may become.
#[derive(Clone)]
pub(crate) struct NodeOptions<I> {
    pub types: I,
    pub bits: Mask,
}

/// Amounts by type of a limit on what is no resource of an instance type.
#[derive(Debug)]
struct OfTypes {
    amounts: Vec<i64>,
    /// Offering bits by which a node takes of it; all unless a quota speaks of zones or the like.
    bits: Mask,
}

/// Amounts that are left of a pool's limits.
#[derive(Debug, Clone)]
pub(crate) struct LimitsLeft {
    left: Resources,
    nodes: Option<i64>,
    /// Largest amount that any type of the pool has of each limited resource.
    largest: Resources,
    /// Amounts by type of [`DOLLARS`], the most that the pool's node of it may cost, and of the resources of quotas
    /// ([`shared`]).
    by_type: Rc<BTreeMap<String, OfTypes>>,
}

impl LimitsLeft {
    /// A pool's limits less what its nodes have.
    pub fn new(limits: &Resources, usage: &Resources) -> Self {
        let mut left = Resources::new();
        // `nodes` is a count and no resource of an instance type, so it is kept apart.
        for (name, amount) in limits.iter().filter(|(name, _)| *name != NODES) {
            left.set(name, amount.saturating_sub(usage.get(name)));
        }
        let nodes = limits.find(NODES).map(|most| most.saturating_sub(usage.get(NODES)));
        Self { left, nodes, largest: Resources::new(), by_type: Rc::default() }
    }

    /// Notes the largest amounts of a pool's types, their prices where these are limited, and the quotas that its nodes may count
    /// against.
    pub fn know_types(&mut self, problem: &Problem, pool: PoolTypes<'_>, found: (&Columns<'_>, &Offers)) {
        let mut by_type = BTreeMap::new();
        if self.left.find(DOLLARS).is_some() {
            let dearest = |at: usize| amount_of_dollars(problem.instance_types[at].dearest_price(pool.requirements));
            by_type.insert(DOLLARS.to_owned(), pool.amounts(problem, dearest, !0));
        }
        self.know_quotas(problem, pool, found, &mut by_type);
        self.by_type = Rc::new(by_type);
        let names: Vec<String> = self.left.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            let most = pool.types.iter().map(|at| self.amount(problem, (at, !0), &name)).max();
            self.largest.set(name, most.unwrap_or(0));
        }
    }

    /// The amount of a limited resource that a node of a type takes that is bought by one of these offering bits.
    fn amount(&self, problem: &Problem, (at, bits): (InstanceTypeId, Mask), name: &str) -> i64 {
        match self.by_type.get(name) {
            Some(own) if own.bits & bits == 0 => 0,
            Some(own) => own.amounts.get(at.index()).copied().unwrap_or(0),
            None => problem.instance_types[at].capacity.get(name),
        }
    }

    /// True if no type is too large for what is left.
    pub fn are_far(&self) -> bool {
        self.nodes.is_none_or(|nodes| nodes > 0) && self.left.iter().all(|(name, left)| self.largest.get(name) <= left)
    }

    /// Number of further nodes that are allowed, where that is limited.
    pub fn nodes(&self) -> Option<u64> {
        self.nodes.map(|left| u64::try_from(left).unwrap_or(0))
    }

    /// Removes the types of which a node that is bought by one of these offering bits is too large for what is left.
    pub fn retain_within(&self, problem: &Problem, types: &mut Bits, bits: Mask) {
        // Most pools are far from their limits, and then no type needs a look.
        if self.are_far() {
            return;
        }
        for at in types.clone().iter() {
            if !self.allow_type(problem, at, bits) {
                types.remove(at);
            }
        }
    }

    /// Removes from a planned node the ways of buying, and the types, that are too much for what is left.
    pub fn narrow(&self, context: &Context<'_>, planned: &mut PlannedNode) {
        planned.offering_bits = self.close(context, &mut planned.types, planned.offering_bits);
        self.retain_within(context.problem, &mut planned.types, planned.offering_bits);
    }

    /// True if one more node, of this type and bought by one of these offering bits, is within what is left.
    pub fn allow_type(&self, problem: &Problem, at: InstanceTypeId, bits: Mask) -> bool {
        let within = |(name, left): (&str, i64)| {
            let amount = self.amount(problem, (at, bits), name);
            // A node that has nothing of what a quota limits is none of its business, even if it is exceeded.
            amount <= left || (amount == 0 && is_of_quota(name))
        };
        self.nodes.is_none_or(|nodes| nodes > 0) && self.left.iter().all(within)
    }

    /// True if one more node, of this capacity, is within what is left.
    pub fn allow(&self, capacity: &Resources) -> bool {
        self.nodes.is_none_or(|nodes| nodes > 0) && self.left.iter().all(|(name, left)| capacity.get(name) <= left)
    }

    /// Takes a planned node off: the most that any of its types has of each limited resource.
    pub fn subtract(&mut self, problem: &Problem, node: NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone>) {
        self.change(problem, node, -1);
    }

    /// Gives back what was taken for a planned node.
    pub fn give_back(&mut self, problem: &Problem, node: NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone>) {
        self.change(problem, node, 1);
    }

    /// Gives back what a node has that goes, but for its dollars and quotas: those count it until it has gone.
    pub fn give_back_leaving(&mut self, problem: &Problem, at: InstanceTypeId) {
        let kept = self.left.iter().filter(|(name, _)| *name == DOLLARS || is_of_quota(name));
        let kept: Vec<(String, i64)> = kept.map(|(name, left)| (name.to_owned(), left)).collect();
        self.change(problem, NodeOptions { types: std::iter::once(at), bits: !0 }, 1);
        kept.into_iter().for_each(|(name, left)| self.left.set(name, left));
    }

    fn change(
        &mut self,
        problem: &Problem,
        node: NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone>,
        sign: i64,
    ) {
        if let Some(nodes) = &mut self.nodes {
            *nodes = nodes.saturating_add(sign);
        }
        // The names are copied, as the amounts are set while they are gone through.
        let names: Vec<String> = self.left.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            // A node with options of 8 and 16 cpu counts as 16: EC2 may launch either. Each resource has its own
            // largest option.
            let most = self.most(problem, &node, &name);
            let left = self.left.get(&name);
            self.left.set(name, left.saturating_add(most.saturating_mul(sign)));
        }
    }

    /// The most that a planned node may take of a limited resource.
    fn most(
        &self,
        problem: &Problem,
        node: &NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone>,
        name: &str,
    ) -> i64 {
        node.types.clone().map(|at| self.amount(problem, (at, node.bits), name)).max().unwrap_or(0)
    }

    pub fn none() -> Self {
        Self { left: Resources::new(), nodes: None, largest: Resources::new(), by_type: Rc::default() }
    }

    /// True if anything beside the number of nodes is limited.
    pub fn bound_resources(&self) -> bool {
        self.left.iter().next().is_some()
    }

    /// Share that a type takes of what is limited, as a part of the largest of the pool: the highest of all limited resources.
    pub fn share(&self, problem: &Problem, at: InstanceTypeId, bits: Mask) -> f64 {
        let of = |(name, _): (&str, i64)| part_of(self.amount(problem, (at, bits), name), self.largest.get(name));
        self.left.iter().map(of).fold(0.0, f64::max)
    }
}
