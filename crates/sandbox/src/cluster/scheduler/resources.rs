//! Amounts of resources as dense rows: a resource's name is interned once, and a fit is a few integer comparisons.

use std::collections::BTreeMap;

use indexmap::IndexSet;

use crate::cluster::quantity;

/// The column of `cpu` (millicores).
pub(crate) const CPU: usize = 0;
/// The column of `memory` (bytes).
pub(crate) const MEMORY: usize = 1;
/// The column of `pods`.
pub(crate) const PODS: usize = 3;

/// The names of the resources seen so far; a name's index is its column.
#[derive(Debug)]
pub(crate) struct ResourceColumns(IndexSet<String>);

/// Quantities as written in an object.
pub(crate) type WrittenQuantities = BTreeMap<String, String>;

/// Amounts by column. A column beyond the end is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceAmounts(Vec<i64>);

impl ResourceColumns {
    pub(crate) fn new() -> Self {
        Self(["cpu", "memory", "ephemeral-storage", "pods"].map(str::to_owned).into_iter().collect())
    }

    pub(crate) fn column(&mut self, name: &str) -> usize {
        self.0.get_index_of(name).unwrap_or_else(|| self.0.insert_full(name.to_owned()).0)
    }

    pub(crate) fn name(&self, column: usize) -> &str {
        self.0.get_index(column).map_or("", String::as_str)
    }

    /// Reads quantities; what cannot be read counts as zero (the API server has refused it before).
    pub(crate) fn parse_amounts(&mut self, written: &WrittenQuantities) -> ResourceAmounts {
        let mut amounts = ResourceAmounts::default();
        for (name, text) in written {
            let column = self.column(name);
            amounts.set(column, quantity::parse(name, text).unwrap_or(0));
        }
        amounts
    }
}

impl ResourceAmounts {
    pub(crate) fn get(&self, column: usize) -> i64 {
        self.0.get(column).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, column: usize, amount: i64) {
        if self.0.len() <= column {
            self.0.resize(column + 1, 0);
        }
        self.0[column] = amount;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.add_times(other, 1);
    }

    /// Adds the amounts so many times.
    pub(crate) fn add_times(&mut self, other: &Self, times: i64) {
        for (column, amount) in other.0.iter().enumerate() {
            self.set(column, self.get(column).saturating_add(amount.saturating_mul(times)));
        }
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        for (column, amount) in other.0.iter().enumerate() {
            self.set(column, self.get(column) - amount);
        }
    }

    /// The larger of both, column by column.
    pub(crate) fn raise_to(&mut self, other: &Self) {
        for (column, amount) in other.0.iter().enumerate() {
            self.set(column, self.get(column).max(*amount));
        }
    }

    /// The columns asked for that `used` leaves too little of in `allocatable`.
    pub(crate) fn lacking<'a>(&'a self, used: &'a Self, allocatable: &'a Self) -> impl Iterator<Item = usize> + 'a {
        self.0
            .iter()
            .enumerate()
            .filter(move |(column, asked)| **asked > 0 && **asked > allocatable.get(*column) - used.get(*column))
            .map(|(column, _)| column)
    }

    /// True if all requested amounts are left.
    pub(crate) fn fits(&self, used: &Self, allocatable: &Self) -> bool {
        self.lacking(used, allocatable).next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_the_node_lacks_fits_only_as_zero() {
        let mut names = ResourceColumns::new();
        let node = names.parse_amounts(&WrittenQuantities::from([("cpu".into(), "2".into())]));
        let gpu = names.parse_amounts(&WrittenQuantities::from([("nvidia.com/gpu".into(), "1".into())]));
        let none = names.parse_amounts(&WrittenQuantities::from([("nvidia.com/gpu".into(), "0".into())]));
        assert!(!gpu.fits(&ResourceAmounts::default(), &node));
        assert!(none.fits(&ResourceAmounts::default(), &node));
    }
}
