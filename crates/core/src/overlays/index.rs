//! Instance types by the values of their labels: a requirement is compared with each distinct value once, and not with each type.

use std::collections::BTreeMap;

use dovetail_api::names::labels::OF_RESERVATIONS;
use rustc_hash::FxHashMap;

use super::overlay::Overlay;
use crate::instance_type::{InstanceType, Offering};
use crate::labels::{CAPACITY_TYPE, ZONE, stable};
use crate::requirements::{NodeSelectorRequirement, Operator, Requirement};

/// A set of numbers below a bound, as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set(Vec<u64>);

impl Set {
    pub(super) fn empty(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    pub(super) fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn unite(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }

    fn intersect(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= other);
    }

    fn invert(&mut self, len: usize) {
        self.0.iter_mut().for_each(|word| *word = !*word);
        if let Some(last) = self.0.last_mut().filter(|_| !len.is_multiple_of(64)) {
            *last &= (1 << (len % 64)) - 1;
        }
    }

    /// Its members, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = left.trailing_zeros() as usize;
                    left &= left - 1;
                    at * 64 + bit
                })
            })
        })
    }
}

/// Types by the values of one label.
struct OfKey {
    by_value: BTreeMap<String, Set>,
    /// Types that have the label, or say that they have not.
    defined: Set,
    /// Types whose requirement is no list of values.
    others: Vec<(usize, Requirement)>,
}

/// The types of a class.
pub(super) struct TypeIndex<'a> {
    types: &'a [std::sync::Arc<InstanceType>],
    keys: FxHashMap<String, OfKey>,
    /// First slot of each type's offerings.
    first: Vec<usize>,
    /// The kind of the offering in each slot.
    kind_of: Vec<usize>,
    /// Offerings that differ in zone, capacity type or labels.
    kinds: Vec<&'a Offering>,
}

impl<'a> TypeIndex<'a> {
    /// Indexes types by the labels that overlays name.
    pub(super) fn new(types: &'a [std::sync::Arc<InstanceType>], overlays: &[&Overlay]) -> Self {
        let mut keys: FxHashMap<String, OfKey> = FxHashMap::default();
        for key in overlays.iter().flat_map(|one| one.requirements.iter().map(|(key, _)| key)) {
            if !keys.contains_key(key) {
                keys.insert(key.to_owned(), OfKey::new(key, types));
            }
        }
        let (mut first, mut kind_of, mut kinds) = (Vec::with_capacity(types.len()), Vec::new(), Vec::new());
        let mut known: FxHashMap<(&str, &str, &[NodeSelectorRequirement]), usize> = FxHashMap::default();
        for one in types {
            first.push(kind_of.len());
            for offering in &one.offerings {
                let kind = (&*offering.zone, &*offering.capacity_type, offering.requirements.as_slice());
                let at = *known.entry(kind).or_insert_with(|| {
                    kinds.push(offering);
                    kinds.len() - 1
                });
                kind_of.push(at);
            }
        }
        Self { types, keys, first, kind_of, kinds }
    }

    /// Number of all offerings.
    pub(super) fn slots(&self) -> usize {
        self.kind_of.len()
    }

    /// The slots of a type's offerings.
    pub(super) fn slots_of(&self, at: usize) -> std::ops::Range<usize> {
        let end = self.first.get(at + 1).copied().unwrap_or(self.kind_of.len());
        self.first[at]..end
    }

    /// Types that the overlay selects in a pool with these labels.
    pub(super) fn types_of(&self, overlay: &Overlay, labels: &BTreeMap<String, String>) -> Option<Set> {
        let len = self.types.len();
        let mut found = Set::empty(len);
        found.invert(len);
        for (key, wanted) in overlay.requirements.iter() {
            let label = labels.get(key);
            if label.is_some_and(|value| !wanted.has(value)) {
                return None;
            }
            let Some(own) = self.keys.get(key) else { continue };
            found.intersect(&match label {
                Some(value) => own.with_label(value, len),
                None => own.matching(wanted, len),
            });
        }
        Some(found)
    }

    /// Kinds of offerings that the overlay selects.
    pub(super) fn kinds_of(&self, overlay: &Overlay) -> Set {
        let mut found = Set::empty(self.kinds.len());
        for (at, kind) in self.kinds.iter().enumerate() {
            if overlay.requirements.iter().all(|(key, wanted)| offers(kind, key, wanted)) {
                found.insert(at);
            }
        }
        found
    }

    /// True if the offering in that slot is of one of these kinds.
    pub(super) fn is_of(&self, slot: usize, kinds: &Set) -> bool {
        kinds.has(self.kind_of[slot])
    }
}

/// True if an offering agrees with a requirement. A label that offerings have nothing to do with is the type's.
fn offers(offering: &Offering, key: &str, wanted: &Requirement) -> bool {
    if key == ZONE {
        return wanted.has(&offering.zone);
    }
    if key == CAPACITY_TYPE {
        return wanted.has(&offering.capacity_type);
    }
    let own = offering.requirements.iter().find(|one| stable(&one.key) == key);
    match own.map(Requirement::from_written) {
        Some(Ok(own)) => own.intersects(wanted) || (own.allows_absence() && wanted.allows_absence()),
        Some(Err(_)) => false,
        // An offering of no reservation has no label of one.
        None => !OF_RESERVATIONS.contains(&key) || wanted.allows_absence(),
    }
}

impl OfKey {
    fn new(key: &str, types: &[std::sync::Arc<InstanceType>]) -> Self {
        let len = types.len();
        let mut all = Self { by_value: BTreeMap::new(), defined: Set::empty(len), others: Vec::new() };
        for (at, one) in types.iter().enumerate() {
            let Some(written) = one.requirements.iter().find(|own| stable(&own.key) == key) else { continue };
            all.defined.insert(at);
            if written.operator == Operator::In {
                for value in &written.values {
                    all.by_value.entry(value.clone()).or_insert_with(|| Set::empty(len)).insert(at);
                }
            } else if let Ok(own) = Requirement::from_written(written) {
                all.others.push((at, own));
            }
        }
        all
    }

    /// Types that may satisfy the requirement.
    fn matching(&self, wanted: &Requirement, len: usize) -> Set {
        let mut found = Set::empty(len);
        if wanted.allows_absence() {
            found.unite(&self.defined);
            found.invert(len);
        }
        self.join_values(wanted, &mut found);
        for (at, own) in &self.others {
            if own.intersects(wanted) || (own.allows_absence() && wanted.allows_absence()) {
                found.insert(*at);
            }
        }
        found
    }

    fn join_values(&self, wanted: &Requirement, found: &mut Set) {
        if !wanted.is_complement() && wanted.bounds() == (None, None) {
            wanted.values().filter_map(|value| self.by_value.get(value)).for_each(|own| found.unite(own));
            return;
        }
        self.by_value.iter().filter(|(value, _)| wanted.has(value)).for_each(|(_, own)| found.unite(own));
    }

    /// Types that may have the label that a pool gives its nodes.
    fn with_label(&self, value: &str, len: usize) -> Set {
        let mut found = self.defined.clone();
        found.invert(len);
        if let Some(own) = self.by_value.get(value) {
            found.unite(own);
        }
        self.others.iter().filter(|(_, own)| own.has(value)).for_each(|(at, _)| found.insert(*at));
        found
    }
}
