//! Limits that pools share: the resources of quotas. What a node of one pool takes of them, it takes off all pools whose nodes
//! may count.

use std::collections::BTreeMap;

use super::{LimitsLeft, NodeOptions, OfTypes};
use crate::pack::model::bits::Bits;
use crate::pack::model::columns::Columns;
use crate::pack::model::ids::{IndexVec, InstanceTypeId, PoolId};
use crate::pack::model::offers::{Mask, Offers};
use crate::problem::Problem;
use crate::quotas::{Quota, comes_with_a_node};
use crate::requirements::Requirements;

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
        let least = self.types.iter().map(|at| amounts[at.index()]).min().unwrap_or(0);
        OfTypes { amounts, least, bits }
    }

    /// The types of which nodes may count against a quota, and the offering bits by which they do; `None` if no node does.
    fn counted(self, quota: &Quota, (columns, offers): (&Columns<'_>, &Offers)) -> Option<(Bits, Mask)> {
        let wanted = quota.wanted();
        let bits = self.offering_bits & offers.select(&wanted);
        let mut types = self.types.clone();
        for (key, wanted) in wanted.iter().filter(|(key, _)| !offers.keys.contains(*key)) {
            let own = self.requirements.get(key);
            if own.is_some_and(|own| !own.intersects(wanted) && !(own.allows_absence() && wanted.allows_absence())) {
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
        problem: &Problem,
        node: NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone>,
    );

    /// Gives back what was taken for a planned node of a pool.
    fn return_node(
        &mut self,
        pool: PoolId,
        problem: &Problem,
        node: NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone>,
    );
}

impl PoolLimits for IndexVec<PoolId, LimitsLeft> {
    fn take_node(
        &mut self,
        pool: PoolId,
        problem: &Problem,
        node: NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone>,
    ) {
        let changes = self[pool].of_quotas(problem, &node, -1);
        change_shared(self, pool, &changes);
        self[pool].subtract(problem, node);
    }

    fn return_node(
        &mut self,
        pool: PoolId,
        problem: &Problem,
        node: NodeOptions<impl Iterator<Item = InstanceTypeId> + Clone>,
    ) {
        let changes = self[pool].of_quotas(problem, &node, 1);
        change_shared(self, pool, &changes);
        self[pool].give_back(problem, node);
    }
}

/// Changes quotas' resources of all pools but one.
fn change_shared(limits: &mut IndexVec<PoolId, LimitsLeft>, pool: PoolId, changes: &[(String, i64)]) {
    if changes.is_empty() {
        return;
    }
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

    /// Offering bits by which no type of the pool is within the quotas that speak of them.
    pub fn closed(&self) -> Mask {
        let reached = |(name, own): &(&String, &OfTypes)| own.bits != !0 && own.least > self.left.get(name).max(0);
        self.by_type.iter().filter(reached).fold(0, |closed, (_, own)| closed | own.bits)
    }

    /// Those of the offering bits that no quota closes; all of them if it closes all.
    pub fn open_of(&self, bits: Mask) -> Mask {
        let open = bits & !self.closed();
        if open == 0 { bits } else { open }
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

    /// True if it shares any limit with other pools.
    pub fn shares_any(&self) -> bool {
        self.left.iter().any(|(name, _)| is_of_quota(name))
    }
}
