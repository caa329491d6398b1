//! A pool's limits while packing: amounts that are left, and the instance types that they still allow (spec core 3.11).

pub(in crate::pack) mod under_limits;

use std::rc::Rc;
use std::sync::Arc;

use crate::instance_type::InstanceType;
use crate::pack::model::bits::Bits;
use crate::pack::model::ids::InstanceTypeId;
use crate::pack::model::numbers::part_of;
use crate::problem::{Pool, Problem};
use crate::requirements::Requirements;
use crate::resources::{DOLLARS, NODES, Resources, amount_of_dollars, format_amount};

/// Amounts that are left of a pool's limits.
#[derive(Debug, Clone)]
pub(crate) struct LimitsLeft {
    left: Resources,
    nodes: Option<i64>,
    /// Largest amount that any type of the pool has of each limited resource.
    largest: Resources,
    /// By type, the most that the pool's node of it may cost, in units of [`DOLLARS`]; empty where that is not limited.
    prices: Rc<[i64]>,
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
        Self { left, nodes, largest: Resources::new(), prices: Rc::default() }
    }

    /// Notes the largest amounts of the types of a pool with these requirements, and their prices where these are limited.
    pub fn know_types(&mut self, problem: &Problem, types: &Bits, requirements: &Requirements) {
        if self.left.find(DOLLARS).is_some() {
            let priced = |(at, one): (usize, &Arc<InstanceType>)| match types.has(InstanceTypeId::from(at)) {
                true => amount_of_dollars(one.dearest_price(requirements)),
                false => 0,
            };
            self.prices = problem.instance_types.iter().enumerate().map(priced).collect();
        }
        let names: Vec<String> = self.left.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            let most = types.iter().map(|at| self.amount(problem, at, &name)).max();
            self.largest.set(name, most.unwrap_or(0));
        }
    }

    /// The amount of a limited resource that a node of a type takes.
    fn amount(&self, problem: &Problem, at: InstanceTypeId, name: &str) -> i64 {
        match name {
            DOLLARS => self.prices.get(at.index()).copied().unwrap_or(0),
            _ => problem.instance_types[at].capacity.get(name),
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

    /// Removes the types that are too large for what is left.
    pub fn retain_within(&self, problem: &Problem, types: &mut Bits) {
        // Most pools are far from their limits, and then no type needs a look.
        if self.are_far() {
            return;
        }
        for at in types.clone().iter() {
            if !self.allow_type(problem, at) {
                types.remove(at);
            }
        }
    }

    /// True if one more node, of this type, is within what is left.
    pub fn allow_type(&self, problem: &Problem, at: InstanceTypeId) -> bool {
        let within = |(name, left): (&str, i64)| self.amount(problem, at, name) <= left;
        self.nodes.is_none_or(|nodes| nodes > 0) && self.left.iter().all(within)
    }

    /// True if one more node, of this capacity, is within what is left.
    pub fn allow(&self, capacity: &Resources) -> bool {
        self.nodes.is_none_or(|nodes| nodes > 0) && self.left.iter().all(|(name, left)| capacity.get(name) <= left)
    }

    /// Takes a planned node off: the most that any of its types has of each limited resource.
    pub fn subtract(&mut self, problem: &Problem, types: impl Iterator<Item = InstanceTypeId> + Clone) {
        self.change(problem, types, -1);
    }

    /// Gives back what was taken for a planned node.
    pub fn give_back(&mut self, problem: &Problem, types: impl Iterator<Item = InstanceTypeId> + Clone) {
        self.change(problem, types, 1);
    }

    /// Gives back what a node has that goes, but for its dollars: it costs them until its instance has ended.
    pub fn give_back_leaving(&mut self, problem: &Problem, types: impl Iterator<Item = InstanceTypeId> + Clone) {
        let dollars = self.left.find(DOLLARS);
        self.change(problem, types, 1);
        if let Some(dollars) = dollars {
            self.left.set(DOLLARS, dollars);
        }
    }

    fn change(&mut self, problem: &Problem, types: impl Iterator<Item = InstanceTypeId> + Clone, sign: i64) {
        if let Some(nodes) = &mut self.nodes {
            *nodes = nodes.saturating_add(sign);
        }
        // The names are copied, as the amounts are set while they are gone through.
        let names: Vec<String> = self.left.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            // A node with options of 8 and 16 cpu counts as 16: EC2 may launch either. Each resource has its own
            // largest option.
            let most = types.clone().map(|at| self.amount(problem, at, &name)).max().unwrap_or(0);
            let left = self.left.get(&name);
            self.left.set(name, left.saturating_add(most.saturating_mul(sign)));
        }
    }

    pub fn none() -> Self {
        Self { left: Resources::new(), nodes: None, largest: Resources::new(), prices: Rc::default() }
    }

    /// True if anything beside the number of nodes is limited.
    pub fn bound_resources(&self) -> bool {
        self.left.iter().next().is_some()
    }

    /// Share that a type takes of what is limited, as a part of the largest of the pool: the highest of all limited resources.
    pub fn share(&self, problem: &Problem, at: InstanceTypeId) -> f64 {
        let of = |(name, _): (&str, i64)| part_of(self.amount(problem, at, name), self.largest.get(name));
        self.left.iter().map(of).fold(0.0, f64::max)
    }

    /// True if dollars remove some of these types that all other limits leave.
    pub fn bind_by_dollars(&self, problem: &Problem, types: &Bits) -> bool {
        let mut others = self.clone();
        if others.left.find(DOLLARS).is_none() {
            return false;
        }
        others.left.remove(DOLLARS);
        let (mut by_all, mut by_others) = (types.clone(), types.clone());
        self.retain_within(problem, &mut by_all);
        others.retain_within(problem, &mut by_others);
        by_all.count() < by_others.count()
    }

    /// Describes the ceiling of dollars an hour and the cheapest of these types.
    fn describe_dollars(&self, problem: &Problem, types: &Bits, pool: &Pool) -> String {
        let least = types.iter().map(|at| self.amount(problem, at, DOLLARS)).min().unwrap_or(0);
        let shown = |amount: i64| format_amount(DOLLARS, amount);
        format!(
            "its nodes may cost ${} an hour together ({DOLLARS}): ${} is left, the cheapest instance type that would do may cost ${}",
            shown(pool.limits.get(DOLLARS)),
            shown(self.left.get(DOLLARS).max(0)),
            shown(least),
        )
    }

    /// Describes the first limit that the smallest of these types exceeds, with what is left of it.
    pub fn describe(&self, problem: &Problem, types: &Bits, pool: &Pool) -> String {
        if self.nodes.is_some_and(|nodes| nodes <= 0) {
            return format!("limit of {} nodes reached", pool.limits.get(NODES));
        }
        if self.bind_by_dollars(problem, types) {
            return self.describe_dollars(problem, types, pool);
        }
        for (name, left) in self.left.iter().filter(|(name, _)| *name != DOLLARS) {
            let least = types.iter().map(|at| problem.instance_types[at].capacity.get(name)).min();
            if least.is_some_and(|least| least > left) {
                let shown = |amount: i64| format_amount(name, amount);
                return format!(
                    "limit of {} {name} reached: {} left, the smallest instance type that would do has {}",
                    shown(pool.limits.get(name)),
                    shown(left.max(0)),
                    shown(least.unwrap_or(0)),
                );
            }
        }
        "its limits leave no instance type that would do".to_owned()
    }
}
