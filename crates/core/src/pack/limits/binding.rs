//! The limit that binds, and its description for people.

use super::LimitsLeft;
use super::shared::{is_of_quota, quota_and_resource};
use crate::pack::model::bits::Bits;
use crate::pack::model::offers::Mask;
use crate::problem::{Pool, Problem};
use crate::resources::{DOLLARS, NODES, format_amount};

/// Kinds of limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// `spec.limits` of the pool.
    Limits,
    /// The dollars an hour that the pool's nodes may cost together.
    Dollars,
    /// A quota on nodes of several pools.
    Quota,
}

impl LimitsLeft {
    /// The kind of limit that removes some of these types, bought by these offering bits, which all other limits leave.
    pub fn binding(&self, problem: &Problem, types: &Bits, bits: Mask) -> Binding {
        let binds = |is_meant: &dyn Fn(&str) -> bool| {
            let mut others = self.clone();
            let meant: Vec<String> =
                self.left.iter().map(|(name, _)| name.to_owned()).filter(|name| is_meant(name)).collect();
            meant.iter().for_each(|name| others.left.remove(name));
            let (mut by_all, mut by_others) = (types.clone(), types.clone());
            self.retain_within(problem, &mut by_all, bits);
            others.retain_within(problem, &mut by_others, bits);
            !meant.is_empty() && by_all.count() < by_others.count()
        };
        if binds(&|name| name == DOLLARS) {
            Binding::Dollars
        } else if binds(&is_of_quota) {
            Binding::Quota
        } else {
            Binding::Limits
        }
    }

    /// Describes the quota that the smallest of these types exceeds.
    fn describe_quota(&self, problem: &Problem, types: &Bits, bits: Mask) -> String {
        for (key, left) in self.left.iter() {
            let Some((name, resource)) = quota_and_resource(key) else { continue };
            let least = types.iter().map(|at| self.amount(problem, (at, bits), key)).min().unwrap_or(0);
            let quota = problem.quotas.iter().find(|one| one.name == name).filter(|_| least > left.max(0));
            if let Some(quota) = quota {
                let shown = |amount: i64| format_amount(resource, amount);
                return format!(
                    "CapacityQuota {name} of {} {resource} reached: {} left, the smallest instance type that would do has {}",
                    shown(quota.limits.get(resource)),
                    shown(left.max(0)),
                    shown(least),
                );
            }
        }
        "CapacityQuotas leave no instance type that would do".to_owned()
    }

    /// Describes the ceiling of dollars an hour and the cheapest of these types.
    fn describe_dollars(&self, problem: &Problem, types: &Bits, pool: &Pool) -> String {
        let least = types.iter().map(|at| self.amount(problem, (at, !0), DOLLARS)).min().unwrap_or(0);
        let shown = |amount: i64| format_amount(DOLLARS, amount);
        format!(
            "its nodes may cost ${} an hour together ({DOLLARS}): ${} is left, the cheapest instance type that would do may cost ${}",
            shown(pool.limits.get(DOLLARS)),
            shown(self.left.get(DOLLARS).max(0)),
            shown(least),
        )
    }

    /// Describes the first limit that the smallest of these types exceeds, bought by these offering bits, with what is left of it.
    pub fn describe(&self, problem: &Problem, (types, bits): (&Bits, Mask), pool: &Pool) -> String {
        if self.nodes.is_some_and(|nodes| nodes <= 0) {
            return format!("limit of {} nodes reached", pool.limits.get(NODES));
        }
        match self.binding(problem, types, bits) {
            Binding::Dollars => return self.describe_dollars(problem, types, pool),
            Binding::Quota => return self.describe_quota(problem, types, bits),
            Binding::Limits => {}
        }
        for (name, left) in self.left.iter().filter(|(name, _)| *name != DOLLARS && !is_of_quota(name)) {
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
