//! Limits that pools share: the resources of quotas. What a node of one pool takes of them, it takes off all pools whose nodes
//! may count.

use std::collections::BTreeMap;

use super::{LimitsLeft, NodeOptions, OfTypes};
use crate::pack::model::bits::Bits;
use crate::pack::model::columns::Columns;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{IndexVec, InstanceTypeId, PoolId};
use crate::pack::model::item::Item;
use crate::pack::model::offers::{Mask, Offers};
use crate::pack::place::planned_node::PlannedNode;
use crate::problem::Problem;
use crate::quotas::{Quota, comes_with_a_node};
use crate::requirements::Requirements;

/// Number of quotas' resources that are looked at in one step of work.
const QUOTAS_A_STEP: usize = 8;

/// Beginning of the names of quotas' resources among a pool's limits; no resource of a node begins so.
const QUOTA: &str = "capacityquota/";

/// The name of a quota's resource among a pool's limits.
fn quota_key(quota: &str, resource: &str) -> String {
    format!("{QUOTA}{quota}/{resource}")
}

/// True for the name of a quota's resource.
pub(super) fn is_of_quota(name: &str) -> bool {
    name.starts_with(QUOTA)
}

/// The quota and its resource behind a name.
pub(super) fn quota_and_resource(name: &str) -> Option<(&str, &str)> {
    // A quota's name has no slash, a resource's may have one.
    name.strip_prefix(QUOTA)?.split_once('/')
}

/// The types, labels and ways of buying that a pool's nodes may have.
#[derive(Clone, Copy)]
pub(crate) struct PoolTypes<'p> {
    pub types: &'p Bits,
    pub requirements: &'p Requirements,
    pub offering_bits: Mask,
}

impl PoolTypes<'_> {
    /// The amounts of each type that the pool has.
    pub(super) fn amounts(self, problem: &Problem, amount: impl Fn(usize) -> i64, bits: Mask) -> OfTypes {
        let mut amounts = vec![0; problem.instance_types.len()];
        self.types.iter().for_each(|at| amounts[at.index()] = amount(at.index()));
        OfTypes { amounts, bits }
    }

    /// The types of which nodes may count against a quota, and the offering bits by which they do; `None` if no node does.
    fn counted(self, quota: &Quota, (columns, offers): (&Columns<'_>, &Offers)) -> Option<(Bits, Mask)> {
        let wanted = quota.wanted();
        let bits = self.offering_bits & offers.select(&wanted);
        let mut types = self.types.clone();
        for (key, wanted) in wanted.iter().filter(|(key, _)| !offers.keys.contains(*key)) {
            let own = self.requirements.get(key);
            if own.is_some_and(|own| !(own.intersects(wanted) || own.allows_absence() && wanted.allows_absence())) {
                return None;
            }
            match columns.get(key) {
                Some(column) => types.and(&column.select(wanted)),
                None if own.is_some() || comes_with_a_node(key, wanted) => {}
                None => return None,
            }
        }
        let bits = if bits == self.offering_bits { !0 } else { bits };
        (bits != 0 && !types.is_empty()).then_some((types, bits))
    }
}

/// The limits that are left of all pools.
pub(in crate::pack) trait PoolLimits {
    /// Takes a planned node of a pool off: the most that any of its types has of each limited resource.
    fn take_node(
        &mut self,
        pool: PoolId,
        context: &Context<'_>,
        node: NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone>,
    );

    /// Gives back what was taken for a planned node of a pool.
    fn return_node(
        &mut self,
        pool: PoolId,
        context: &Context<'_>,
        node: NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone>,
    );
}

impl PoolLimits for IndexVec<PoolId, LimitsLeft> {
    fn take_node(
        &mut self,
        pool: PoolId,
        context: &Context<'_>,
        node: NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone>,
    ) {
        let changes = self[pool].of_quotas(context.problem, &node, -1);
        change_shared(self, pool, context, &changes);
        self[pool].subtract(context.problem, node);
    }

    fn return_node(
        &mut self,
        pool: PoolId,
        context: &Context<'_>,
        node: NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone>,
    ) {
        let changes = self[pool].of_quotas(context.problem, &node, 1);
        change_shared(self, pool, context, &changes);
        self[pool].give_back(context.problem, node);
    }
}

/// Changes quotas' resources of all pools but one.
fn change_shared(
    limits: &mut IndexVec<PoolId, LimitsLeft>,
    pool: PoolId,
    context: &Context<'_>,
    changes: &[(String, i64)],
) {
    if changes.is_empty() {
        return;
    }
    // The node is planned whether or not there is work left.
    context.work(limits.len() * changes.len() / QUOTAS_A_STEP);
    for other in limits.ids().filter(|other| *other != pool) {
        for (name, by) in changes {
            if let Some(left) = limits[other].left.find(name) {
                limits[other].left.set(name.clone(), left.saturating_add(*by));
            }
        }
    }
}

impl LimitsLeft {
    /// Notes what is left of the quotas that nodes of a pool may count against.
    pub(super) fn know_quotas(
        &mut self,
        problem: &Problem,
        pool: PoolTypes<'_>,
        found: (&Columns<'_>, &Offers),
        by_type: &mut BTreeMap<String, OfTypes>,
    ) {
        for quota in &problem.quotas {
            let Some((types, bits)) = pool.counted(quota, found) else { continue };
            for (name, limit) in quota.limits.iter() {
                let taken = |at: usize| match types.has(InstanceTypeId::from(at)) {
                    true => quota.amount(&problem.instance_types[at].capacity, name),
                    false => 0,
                };
                let own = pool.amounts(problem, taken, bits);
                if own.amounts.iter().any(|amount| *amount > 0) {
                    let key = quota_key(&quota.name, name);
                    self.left.set(key.clone(), limit.saturating_sub(quota.usage.get(name)));
                    by_type.insert(key, own);
                }
            }
        }
    }

    /// Those quotas' resources of which something is taken by some of these offering bits alone, as far as they are near.
    fn of_ways(&self, bits: Mask) -> impl Iterator<Item = (&OfTypes, i64)> {
        let near = self.by_type.iter().filter(move |(_, own)| own.bits != !0 && own.bits & bits != 0);
        let near = near.map(|(name, own)| (own, self.left.get(name).max(0), self.largest.get(name)));
        near.filter(|(_, left, largest)| largest > left).map(|(own, left, _)| (own, left))
    }

    /// Those of the offering bits by which none of the types is within the quotas that speak of them.
    pub fn closed(&self, types: &Bits, bits: Mask) -> Mask {
        let least = |own: &OfTypes| types.iter().map(|at| own.amounts[at.index()]).min().unwrap_or(0);
        let reached = self.of_ways(bits).filter(|(own, left)| least(own) > *left);
        bits & reached.fold(0, |closed, (own, _)| closed | own.bits)
    }

    /// Closes offering bits for these types, and removes those that can be bought by no other; answers the rest of the bits.
    pub fn close(&self, context: &Context<'_>, types: &mut Bits, bits: Mask) -> Mask {
        let mut open = bits;
        loop {
            // Without the types that only one zone has, another may be closed too.
            let closed = self.closed(types, open);
            if closed == 0 {
                return open;
            }
            open &= !closed;
            types.and(&context.bought(open).types);
        }
    }

    /// Those of the offering bits that no quota closes for these types; all of them if it closes all.
    pub fn open_of(&self, context: &Context<'_>, types: &Bits, bits: Mask) -> Mask {
        let open = self.close(context, &mut types.clone(), bits);
        if open == 0 { bits } else { open }
    }

    /// As [`LimitsLeft::narrow`], for a node without pods that gets one of an item: what is closed for its types is closed.
    pub fn narrow_for(&self, context: &Context<'_>, item: &Item<'_>, planned: &mut PlannedNode) {
        if self.by_type.values().any(|own| own.bits != !0) {
            planned.offering_bits &= item.offering_bits;
            planned.types.and(&context.bought(planned.offering_bits).types);
        }
        self.narrow(context, planned);
    }

    /// Removes the types of which a node is too large for what is left, in whichever of the offering bits it is bought.
    pub fn retain_anywhere(&self, context: &Context<'_>, types: &mut Bits, bits: Mask) {
        if self.are_far() {
            return;
        }
        for at in types.clone().iter() {
            let reached = self.of_ways(bits).filter(|(own, left)| own.amounts[at.index()] > *left);
            let closed = reached.fold(0, |closed, (own, _)| closed | own.bits);
            let open = bits & !closed;
            let is_sold = closed == 0 || context.offers.available(at) & open != 0;
            if !is_sold || !self.allow_type(context.problem, at, open) {
                types.remove(at);
            }
        }
    }

    /// Changes of quotas' resources by a planned node.
    fn of_quotas(
        &self,
        problem: &Problem,
        node: &NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone>,
        sign: i64,
    ) -> Vec<(String, i64)> {
        let names = self.left.iter().map(|(name, _)| name).filter(|name| is_of_quota(name));
        names.map(|name| (name.to_owned(), self.most(problem, node, name).saturating_mul(sign))).collect()
    }

    /// Work to compare an item with the quotas, in steps; none without quotas.
    pub fn steps(&self) -> usize {
        self.by_type.len() / QUOTAS_A_STEP
    }

    /// True if it shares any limit with other pools.
    pub fn shares_any(&self) -> bool {
        self.left.iter().any(|(name, _)| is_of_quota(name))
    }
}
