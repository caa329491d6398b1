//! Label keys of a class's rules, and the bound on keys that are told apart.

use std::cell::OnceCell;

use rustc_hash::FxHashSet;

use crate::labels::{CAPACITY_TYPE, REGION, WELL_KNOWN, ZONE};
use crate::pack::model::ids::KeyId;
use crate::problem::Problem;

/// Largest number of distinct keys of zonal rules that are told apart.
pub(super) const MOST_KEYS: usize = u64::BITS as usize;

/// Number of keys for whatever pods name. Anybody who may create pods can name keys without end; those of nodes, which others'
/// rules go by, are not to be taken by them.
const OF_ANYBODY: usize = MOST_KEYS / 2;

/// Keys of most rules, which have their place even where a pod has named all the labels that nodes have.
const ALWAYS: [&str; 3] = [ZONE, CAPACITY_TYPE, REGION];

pub(super) fn too_many_keys() -> String {
    format!("more than {MOST_KEYS} topology keys are not supported yet")
}

/// Decides which keys are told apart.
#[derive(Debug)]
pub(super) struct KeyRoom<'a> {
    problem: &'a Problem,
    /// Label keys of nodes, collected when keys get many.
    of_nodes: OnceCell<FxHashSet<&'a str>>,
}

impl<'a> KeyRoom<'a> {
    pub fn new(problem: &'a Problem) -> Self {
        Self { problem, of_nodes: OnceCell::new() }
    }

    /// True if a key can be told apart where `taken` keys are already.
    pub fn has_room(&self, taken: usize, key: &str) -> bool {
        taken < OF_ANYBODY
            || taken < MOST_KEYS - ALWAYS.len() && self.is_of_nodes(key)
            || taken < MOST_KEYS && ALWAYS.contains(&key)
    }

    /// True if a node may have a label of this key: one that is there, or a new one.
    pub fn is_of_nodes(&self, key: &str) -> bool {
        self.of_nodes.get_or_init(|| of_nodes(self.problem)).contains(key)
    }
}

fn of_nodes(problem: &Problem) -> FxHashSet<&str> {
    let required = problem.node_pools.iter().flat_map(|pool| &pool.requirements);
    let pools = problem.node_pools.iter().flat_map(|pool| pool.labels.keys());
    let types = problem
        .instance_types
        .iter()
        .flat_map(|one| one.offerings.iter().flat_map(|offering| &offering.requirements).chain(&one.requirements));
    let there = problem.existing_nodes.iter().flat_map(|node| node.labels.keys());
    let known = problem.well_known_labels.iter().map(String::as_str).chain(WELL_KNOWN);
    let named = required
        .chain(types)
        .map(|one| one.key.as_str())
        .chain(pools.map(String::as_str))
        .chain(there.map(String::as_str));
    named.chain(known).collect()
}

/// A set of zonal keys; there are at most [`MOST_KEYS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KeySet(u64);

impl KeySet {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn has(self, key: KeyId) -> bool {
        self.0 >> key.index() & 1 == 1
    }

    pub fn insert(&mut self, key: KeyId) {
        self.0 |= 1 << key.index();
    }
}
