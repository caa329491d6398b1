//! Items that ask for the same are one shape, whatever class they come from.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Pattern;
use crate::pack::filter::topology::node_rules::{NodeRules, Tally};
use crate::pack::model::bits::Bits;
use crate::pack::model::classes::Amounts;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{ClassId, IndexVec, JointId, NodeRulesId, ShapeId};
use crate::pack::model::item::Item;
use crate::pack::model::offers::Mask;

/// Number of shapes above which telling them apart is more work than it is worth.
pub(super) const MANY: usize = 1000;

/// Number of shapes up to which they are told apart by all rules for nodes.
const FEW: usize = 200;

/// Share of the pods, as one in this many, from which rules that cap their own pods are told apart beyond that.
const COMMON: u64 = 16;

/// Number of pods from which a workload is not to hang on one node.
const WORTH_SPLITTING: u32 = 10;

/// Largest number of pods of a class that one node should hold: half of a workload worth splitting.
pub(super) fn half_of(context: &Context<'_>, class: ClassId) -> u32 {
    let all = context.classes[class].count();
    // A workload of a few pods is on one node anyway, and splitting it would cost a node.
    if all >= WORTH_SPLITTING { all / 2 } else { u32::MAX }
}

/// Pods that ask for the same.
#[derive(Debug, Clone)]
pub(super) struct Shape<'c> {
    pub requests: Amounts,
    pub types: Bits,
    pub offering_bits: Mask,
    pub joint: JointId,
    pub count: u32,
    /// Number of them that one node may hold by their own rules.
    pub cap: u32,
    /// Number of them that one node may hold without more than half of a workload worth splitting.
    pub half: u32,
    /// Their rules for nodes, if all have the same.
    pub rules: Option<&'c NodeRules>,
    /// Their items, in order.
    pub items: Vec<usize>,
}

/// Ids of rules that cap their own pods on a node, where at least one pod in [`COMMON`] has them.
fn common_caps(context: &Context<'_>, items: &[Item<'_>], which: &[usize]) -> Vec<NodeRulesId> {
    let mut pods: BTreeMap<NodeRulesId, u64> = BTreeMap::new();
    for item in which.iter().map(|at| &items[*at]).filter(|item| context.node_rules(item.class).caps_itself()) {
        let id = context.topology.of_class[item.class].node_rules;
        *pods.entry(id).or_insert(0) += u64::from(item.left.count());
    }
    let all: u64 = which.iter().map(|at| u64::from(items[*at].left.count())).sum();
    pods.into_iter().filter(|(_, pods)| pods * COMMON >= all).map(|(id, _)| id).collect()
}

/// All shapes, in the order of their first item.
#[derive(Debug)]
pub(super) struct Shapes<'c> {
    pub all: IndexVec<ShapeId, Shape<'c>>,
}

/// Properties that make two items one shape: requests, types, offering bits, joint requirement, rules for nodes.
type Key<'k> = (&'k Amounts, &'k Bits, Mask, JointId, RuleKey);

/// Part of the key for rules for nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RuleKey {
    /// The number of a class's pods that a node may hold, where each class is for itself.
    Alone(u32),
    /// All rules.
    Rules(NodeRulesId),
    /// Rough rules: true if they only count.
    Roughly(bool),
}

impl<'c> Shapes<'c> {
    /// The shapes of the items. Where rules for nodes tell too many apart, those with any rule become one shape
    /// whose cap is only a bound; planning again what does not fit as hoped makes up for that.
    pub fn from_items(context: &'c Context<'_>, open: &Bits, items: &[Item<'_>], which: &[usize]) -> Self {
        let exact = Self::merged(context, open, items, which, true);
        // Two hundred rows are what the program is good at. With more shapes, rules that few pods have are told
        // apart by their kind only.
        if exact.all.len() <= FEW { exact } else { Self::merged(context, open, items, which, false) }
    }

    fn merged(context: &'c Context<'_>, open: &Bits, items: &[Item<'_>], which: &[usize], exact: bool) -> Self {
        let mut all: IndexVec<ShapeId, Shape<'c>> = IndexVec::new();
        let mut known: FxHashMap<Key<'_>, ShapeId> = FxHashMap::default();
        let mut seen: IndexVec<ShapeId, Vec<NodeRulesId>> = IndexVec::new();
        let common = if exact { vec![] } else { common_caps(context, items, which) };
        for at in which.iter().copied() {
            let item = &items[at];
            let requests = &context.classes[item.class].requests;
            let selection = item.selection;
            let part = &context.topology.of_class[item.class];
            let (id, rules) = (part.node_rules, context.node_rules(item.class));
            // Classes with anti-affinity to themselves alone are alike: a node takes some of each. Where too many are told apart:
            // no rule, one that caps, or one that only counts.
            // Equal requests do not make a shape: a pod that may be on a node once fills it in another way than one
            // that may be there ten times.
            let rule_key = match part.most_on_a_node {
                Some(cap) => RuleKey::Alone(cap),
                None if exact || id == NodeRulesId::NONE || common.contains(&id) => RuleKey::Rules(id),
                None => RuleKey::Roughly(rules.caps.is_empty()),
            };
            let new = || {
                let mut types = selection.types.clone();
                types.and(open);
                // Its bin or a spread left it fewer zones than its requirements: types that are nowhere in these
                // are out.
                if item.offering_bits != selection.offering_bits {
                    types.and(&context.bought(item.offering_bits).types);
                }
                let rules = (matches!(rule_key, RuleKey::Rules(_)) && !rules.is_empty()).then_some(rules);
                let (requests, offering_bits, joint) = (requests.clone(), item.offering_bits, selection.joint);
                Shape { requests, types, offering_bits, joint, count: 0, cap: 0, half: 0, rules, items: vec![] }
            };
            let key = (requests, &selection.types, item.offering_bits, selection.joint, rule_key);
            let shape = *known.entry(key).or_insert_with(|| {
                seen.push(vec![]);
                all.push(new())
            });
            // Equal rules cap their classes together, unless each class has its own.
            if !seen[shape].contains(&id) {
                seen[shape].push(id);
                all[shape].cap = all[shape].cap.saturating_add(Tally::default().allows(rules, u32::MAX));
            }
            // The count is what the program has to place, whichever items the pods are of.
            all[shape].count += item.left.count();
            all[shape].half = all[shape].half.saturating_add(item.left.count().min(half_of(context, item.class)));
            all[shape].items.push(at);
        }
        Self { all }
    }

    /// True if a pattern puts more than half of a workload on one node.
    pub fn hang_on_one_node(&self, patterns: &[(Pattern, u32)]) -> bool {
        let mut held = patterns.iter().flat_map(|(pattern, _)| pattern);
        held.any(|(shape, count)| *count > self.all[*shape].half)
    }

    /// The same shapes, of which no node may hold more than half of a workload.
    pub fn split(&self) -> Self {
        let mut all = self.all.clone();
        all.iter_mut().for_each(|shape| shape.cap = shape.cap.min(shape.half));
        Self { all }
    }

    pub fn counts(&self) -> IndexVec<ShapeId, u32> {
        self.all.iter().map(|shape| shape.count).collect()
    }
}
