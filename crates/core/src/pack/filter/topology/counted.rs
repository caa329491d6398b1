//! Counts of pods for a spread on nodes that are still to be made: it may count only nodes with some labels, or whose taints
//! its own pods tolerate.
//!
//! Say a spread counts nodes of architecture arm64 alone, and its selector matches pods of `web` that may run on either. A node
//! of a pool for arm64 counts them, one of a pool for amd64 never does, and where both pools are left it is not known yet. Such
//! pods are in `most` and not in `sure`. No domain may have too many even if they count, and none is thought to be filled up by
//! them: both bounds are the safe one.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::bins::Bin;
use super::groups::{Group, RuleKind};
use super::keys::KeySet;
use crate::pack::filter::taints::{Tolerated, untolerated};
use crate::pack::model::context::Context;
use crate::pack::model::ids::{BinId, ClassId, GroupId, PoolId, SetId};
use crate::requirements::Requirements;

/// Answer to whether pods count for a spread before they have a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Surely,
    /// They count on one node that may be launched, and not on another.
    Maybe,
    Never,
}

impl Counted {
    /// The answer for several parts that are all possible: theirs if they agree, otherwise maybe.
    fn combined(parts: impl Iterator<Item = Self>) -> Self {
        parts.reduce(|a, b| if a == b { a } else { Self::Maybe }).unwrap_or(Self::Maybe)
    }
}

/// Number of pods of a group in a domain, as two bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct GroupCount {
    /// Lower bound: pods that count for sure. The least of a spread is taken of it.
    pub sure: u32,
    /// Upper bound: these and the pods that may count. No domain may have too many of them.
    pub most: u32,
}

impl GroupCount {
    /// Adds `count` pods.
    pub fn add(&mut self, counted: Counted, count: u32) {
        if counted != Counted::Never {
            self.most += count;
        }
        if counted == Counted::Surely {
            self.sure += count;
        }
    }

    /// Takes `count` pods back.
    pub fn subtract(&mut self, counted: Counted, count: u32) {
        if counted != Counted::Never {
            self.most = self.most.saturating_sub(count);
        }
        if counted == Counted::Surely {
            self.sure = self.sure.saturating_sub(count);
        }
    }
}

/// Tells how pods count for a class, a bin and a group, computed once each.
pub(super) struct Counting<'c, 'a> {
    context: &'c Context<'a>,
    known: RefCell<FxHashMap<(ClassId, BinId, GroupId), Counted>>,
}

impl<'c, 'a> Counting<'c, 'a> {
    pub fn new(context: &'c Context<'a>) -> Self {
        Self { context, known: RefCell::default() }
    }

    /// Says if a class's pods on a new node in a bin count for a group.
    pub fn counted(&self, class: ClassId, bin: BinId, group: GroupId) -> Counted {
        let topology = &self.context.topology;
        let of = &topology.groups[group];
        // Most rules count all nodes. And where the rule's own pods can be, they are counted by it.
        if !is_particular(of) || topology.of_class[class].hard().states.contains(&group) {
            return Counted::Surely;
        }
        let key = (class, bin, group);
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let found = self.compute(class, bin, of);
        self.known.borrow_mut().insert(key, found);
        found
    }

    fn compute(&self, class: ClassId, at: BinId, group: &Group) -> Counted {
        let context = self.context;
        let keys = context.topology.of_class[class].keys;
        let Some(bin) = context.bins.for_keys(keys).get(at) else { return Counted::Maybe };
        let tolerations = &context.classes[class].example(context.problem).tolerations;
        let reachable = |pool: &PoolId| {
            let taints = &context.problem.node_pools[context.pools[*pool].index].taints;
            untolerated(taints, tolerations, true).is_none()
        };
        let pools: Vec<PoolId> = context.pools.ids().filter(reachable).collect();
        let sets = context.classes[class].alternatives.iter().map(|one| context.bins.narrowed(one.set, keys, at));
        // The alternative and the pool are not known yet: where they differ, the answer is maybe.
        let parts = sets.flat_map(|set| {
            let pools = pools.iter().filter(move |pool| context.selection(set, **pool).is_some());
            pools.map(move |pool| self.in_pool(set, *pool, bin, keys, group))
        });
        Counted::combined(parts)
    }

    /// The answer for the nodes of one pool that suit a requirement set.
    fn in_pool(&self, set: SetId, pool: PoolId, bin: &Bin, keys: KeySet, group: &Group) -> Counted {
        let RuleKind::Spread { nodes, tolerated, labels, .. } = &group.kind else { return Counted::Surely };
        let (context, topology) = (self.context, &self.context.topology);
        let taints = &context.problem.node_pools[context.pools[pool].index].taints;
        if tolerated.as_ref().is_some_and(|all| !Tolerated::cover(all, taints)) {
            return Counted::Never;
        }
        let mut found = self.suits(set, pool, bin, nodes);
        for label in labels {
            let Some(key) = topology.keys.id_of(label) else { return Counted::Never };
            let asked = keys.has(key);
            match bin.domain[key] {
                Some(_) => {}
                None if asked || !context.bins.may_have(topology, label, pool) => return Counted::Never,
                None if context.bins.may_lack(key, pool) => {
                    found = Counted::combined([found, Counted::Maybe].into_iter())
                }
                None => {}
            }
        }
        found
    }

    /// Says if the nodes have the labels that one of several requirements asks for.
    fn suits(&self, set: SetId, pool: PoolId, bin: &Bin, nodes: &[Requirements]) -> Counted {
        let context = self.context;
        let Some(own) = context.selection(set, pool).filter(|_| !nodes.is_empty()) else { return Counted::Surely };
        let bought = |offering_bits| {
            let mut types = own.types.clone();
            types.and(&context.bought(offering_bits).types);
            types
        };
        let (offering_bits, mut possible) = (own.offering_bits & bin.mask, false);
        let types = bought(offering_bits);
        for one in nodes {
            let mut both = context.sets[set].clone();
            both.intersect(one);
            let Some(met) = context.select(&both, &context.pools[pool]) else { continue };
            let left = bought(met.offering_bits & bin.mask);
            // If the node has the labels for all types that it may be, its pods count; if for some, they may.
            let mut narrowed = left.clone();
            narrowed.and(&met.types);
            possible |= !narrowed.is_empty();
            if met.offering_bits & bin.mask == offering_bits && met.joint == own.joint && narrowed == types {
                return Counted::Surely;
            }
        }
        if possible { Counted::Maybe } else { Counted::Never }
    }
}

/// True if a rule does not count all nodes.
fn is_particular(group: &Group) -> bool {
    match &group.kind {
        RuleKind::Spread { nodes, tolerated, labels, .. } => {
            !nodes.is_empty() || tolerated.is_some() || !labels.is_empty()
        }
        _ => false,
    }
}
