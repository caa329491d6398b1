//! Prices and resources of the types of one group of pools, each with the overlay that it is by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::index::{Set, TypeIndex};
use super::overlay::Overlay;
use super::{ClassTypes, OverlayConflict};
use crate::instance_type::InstanceType;

/// Number that stands for no overlay.
const NOBODY: u32 = u32::MAX;

/// Types of an overlay in a group, with the kinds of its offerings.
pub(super) struct Selection {
    pub(super) types: Vec<usize>,
    kinds: Set,
}

/// Pools that are alike for all overlays, and the overlays that speak of their types, by their numbers in order.
pub(super) struct Group<'a> {
    pub(super) pools: BTreeSet<&'a str>,
    pub(super) types: &'a ClassTypes,
    pub(super) index: std::rc::Rc<TypeIndex<'a>>,
    pub(super) labels: &'a BTreeMap<String, String>,
    /// The overlay whose price an offering has, and below the last one that selects it, by slot.
    priced: Vec<u32>,
    price_said: Vec<u32>,
    /// The overlay by which a type has a resource, and the last one that names it.
    resources: FxHashMap<(usize, &'a str), (u32, u32)>,
}

impl<'a> Group<'a> {
    pub(super) fn new(
        types: &'a ClassTypes,
        index: std::rc::Rc<TypeIndex<'a>>,
        labels: &'a BTreeMap<String, String>,
    ) -> Self {
        let slots = index.slots();
        Self {
            pools: BTreeSet::new(),
            types,
            index,
            labels,
            priced: vec![NOBODY; slots],
            price_said: vec![NOBODY; slots],
            resources: FxHashMap::default(),
        }
    }

    /// Types with an offering that the overlay selects.
    pub(super) fn select(&self, overlay: &Overlay) -> Selection {
        let kinds = self.index.kinds_of(overlay);
        let found = self.index.types_of(overlay, self.labels);
        let bought = |at: &usize| self.index.slots_of(*at).any(|slot| self.index.is_of(slot, &kinds));
        let types = found.map(|found| found.iter().filter(bought).collect()).unwrap_or_default();
        Selection { types, kinds }
    }

    /// The overlay of the same weight that speaks of the same, if there is one.
    pub(super) fn conflict(
        &self,
        overlay: &Overlay,
        selection: &Selection,
        all: &[&'a Overlay],
    ) -> Option<OverlayConflict> {
        let same = |last: u32| all.get(last as usize).filter(|other| other.weight == overlay.weight);
        let found = |other: &Overlay, both_say| {
            Some(OverlayConflict { other: other.name.clone(), weight: overlay.weight, both_say })
        };
        let pool = self.pools.first().copied().unwrap_or_default();
        for at in &selection.types {
            let one = &self.types[*at];
            for (slot, offering) in self.index.slots_of(*at).zip(&one.offerings) {
                if overlay.price.is_some()
                    && self.index.is_of(slot, &selection.kinds)
                    && let Some(other) = same(self.price_said[slot])
                {
                    let (kind, zone) = (&offering.capacity_type, &offering.zone);
                    return found(other, format!("the price of {} {kind} in {zone} in nodepool {pool}", one.name));
                }
            }
            for (name, _) in overlay.capacity.iter() {
                let last = self.resources.get(&(*at, name)).map_or(NOBODY, |(_, last)| *last);
                if let Some(other) = same(last) {
                    return found(other, format!("{name} of {} in nodepool {pool}", one.name));
                }
            }
        }
        None
    }

    /// Notes what the overlay with that number says; answers the number of offerings that have its price. `shares`: others have its
    /// weight, and are compared with it.
    pub(super) fn note(&mut self, nth: usize, overlay: &'a Overlay, selection: &Selection, shares: bool) -> usize {
        let nth = u32::try_from(nth).unwrap_or(NOBODY);
        let mut priced = 0;
        for at in &selection.types {
            if overlay.price.is_some() {
                for slot in self.index.slots_of(*at).filter(|slot| self.index.is_of(*slot, &selection.kinds)) {
                    if self.priced[slot] == NOBODY {
                        self.priced[slot] = nth;
                        priced += 1;
                    }
                    if shares {
                        self.price_said[slot] = nth;
                    }
                }
            }
            for (name, _) in overlay.capacity.iter() {
                self.resources.entry((*at, name)).or_insert((nth, nth)).1 = nth;
            }
        }
        priced
    }

    /// The types with what the overlays say of them; `None` where they say nothing.
    pub(super) fn overlaid(&self, all: &[&'a Overlay]) -> Option<ClassTypes> {
        let mut added: BTreeMap<usize, Vec<(&str, i64)>> = BTreeMap::new();
        for ((at, name), (nth, _)) in &self.resources {
            let amount = all.get(*nth as usize).map_or(0, |one| one.capacity.get(name));
            added.entry(*at).or_default().push((name, amount));
        }
        let is_priced = |at: usize| self.index.slots_of(at).any(|slot| self.priced[slot] != NOBODY);
        if added.is_empty() && !(0..self.types.len()).any(is_priced) {
            return None;
        }
        let types = self.types.iter().enumerate().map(|(at, one)| {
            let resources = added.get(&at);
            if resources.is_none() && !is_priced(at) {
                return one.clone();
            }
            let mut own = InstanceType::clone(one);
            for (slot, offering) in self.index.slots_of(at).zip(&mut own.offerings) {
                if let Some(rule) = all.get(self.priced[slot] as usize).and_then(|overlay| overlay.price) {
                    offering.list_price = Some(offering.billed_price());
                    offering.price = rule.apply(offering.billed_price());
                }
            }
            for (name, amount) in resources.into_iter().flatten() {
                own.capacity.set((*name).to_owned(), *amount);
                own.overlaid_resources.insert((*name).to_owned());
            }
            Arc::new(own)
        });
        Some(Arc::new(types.collect()))
    }
}
