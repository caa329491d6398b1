//! What a plan teaches the next: which pods are not to be counted on, and where a pool gives less than was believed.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::draft::{Draft, Share, Spot};
use super::limits::Limits;
use super::solve::Plan;
use super::topology::domains::Placed;

/// What earlier rounds have shown.
#[derive(Debug, Clone, Default)]
pub(super) struct Lessons {
    /// How many pods of each class get no place.
    pub held_back: Vec<u32>,
    /// Whether these join no planned nodes either: most that mislead others do so only where they would have a node of their own.
    pub strictly: bool,
    /// What pool, by its weight, a class got in a place that a heavier one was believed to give it.
    pub lighter: BTreeMap<(u32, u32), i32>,
}

impl Plan<'_, '_> {
    /// The pods that have a place but no node, as far as others hang on them, as class and count.
    pub(super) fn leaned_on(&self) -> Vec<(u32, u32)> {
        let waiting = self.without_node();
        if waiting.is_empty() && self.forgotten.is_empty() {
            return vec![];
        }
        let by_class = summed(self.domains.leaned_on(&waiting, &self.forgotten));
        // Those that were forgotten may have found a place since.
        let left = by_class.into_iter().map(|(class, count)| (class, count.min(self.left[class as usize])));
        left.filter(|(_, count)| *count > 0).collect()
    }

    /// The pods that a rule forbids where they have their nodes, since pods that it means were moved, as class and count.
    pub(super) fn upset(&self) -> Vec<(u32, u32)> {
        if self.forgotten.is_empty() {
            return vec![];
        }
        let shares = self.drafts.iter().flat_map(|draft| &draft.shares);
        let on_nodes: Vec<Placed> = shares.map(|share| (share.class, share.spot.place, share.count)).collect();
        summed(self.domains.upset(&self.without_node(), &self.forgotten, &on_nodes)).into_iter().collect()
    }

    /// The pods on planned nodes that have to be beside others and that may not be bound there, as class and count.
    pub(super) fn unfounded(&self) -> Vec<(u32, u32)> {
        if self.context.topology.of_class.iter().all(|part| part.company.is_empty()) {
            return vec![];
        }
        let nodes: Vec<&[Share]> = self.drafts.iter().map(|draft| draft.shares.as_slice()).collect();
        let mut found = self.domains.unfounded(&self.without_node(), &nodes);
        found.extend(self.domains.outrun(&nodes));
        summed(found).into_iter().collect()
    }

    /// The places where a class got a lighter pool than it was believed to, limits having been reached, while another place
    /// promises a heavier one: by class and place, the weight that it got.
    pub(super) fn lighter_than_believed(&self) -> Vec<((u32, u32), i32)> {
        let context = self.context;
        let first = (0..context.pools.len()).map(|pool| context.weight(pool)).max();
        let light = |draft: &&Rc<Draft>| Some(context.weight(draft.pool)) < first;
        if self.limits.iter().all(Limits::are_far) || !self.drafts.iter().any(|draft| light(&draft)) {
            return vec![];
        }
        let mut got: BTreeMap<(u32, Spot), i32> = BTreeMap::new();
        for draft in self.drafts.iter().filter(light) {
            let wide = draft.shares.iter().filter(|share| share.spot != Spot::ANYWHERE);
            for share in wide {
                let least = got.entry((share.class, share.spot)).or_insert(i32::MAX);
                *least = context.weight(draft.pool).min(*least);
            }
        }
        let before = Plan::new(context, &self.lessons);
        let mut found = Vec::new();
        for ((class, spot), weight) in got {
            let chances = before.feasible_places(class as usize, spot.level as usize);
            let heavier = |own: bool| chances.iter().any(|one| (one.place == spot.place) == own && one.weight > weight);
            if heavier(true) && heavier(false) {
                found.push(((class, spot.place), weight));
            }
        }
        found
    }

    fn without_node(&self) -> Vec<Placed> {
        let waiting = self.pinned.iter().filter(|(_, count)| **count > 0);
        waiting.map(|((class, spot), count)| (*class, spot.place, *count)).collect()
    }
}

fn summed(counts: Vec<(u32, u32)>) -> BTreeMap<u32, u32> {
    let mut by_class = BTreeMap::new();
    counts.into_iter().for_each(|(class, count)| *by_class.entry(class).or_insert(0) += count);
    by_class
}
