//! The domains that there are, and the bins in which a node can be, as rules over zones and other labels need them.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Topology;
use super::combinations::{Combination, KeyValues, evenly, product, together};
use super::keys::KeySet;
use crate::labels;
use crate::pack::model::classes::{Class, RequirementSets};
use crate::pack::model::columns::{Column, Columns};
use crate::pack::model::ids::{BinId, ClassId, DomainId, IndexVec, KeyId, PoolId, SetId};
use crate::pack::model::offers::{Mask, Offers};
use crate::pack::model::pools::PoolView;
use crate::pack::rounds::steps::Steps;
use crate::problem::{ExistingNode, Problem};
use crate::requirements::{Requirement, Requirements};

/// Domains of a node or a bin by zonal key, where they are known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DomainOfKeys(SmallVec<[Option<DomainId>; 2]>);

impl Index<KeyId> for DomainOfKeys {
    type Output = Option<DomainId>;

    fn index(&self, key: KeyId) -> &Option<DomainId> {
        &self.0[key.index()]
    }
}

impl IndexMut<KeyId> for DomainOfKeys {
    fn index_mut(&mut self, key: KeyId) -> &mut Option<DomainId> {
        &mut self.0[key.index()]
    }
}

/// A combination of domains in which a new node can be: with three zones and two capacity types told apart there are six.
#[derive(Debug, Clone)]
pub(crate) struct Bin {
    /// The offerings by which a node there can be bought.
    pub mask: Mask,
    pub domain: DomainOfKeys,
    /// Keys that buying does not decide, with the value that the node has to have, or `None` where it must lack the key.
    pins: SmallVec<[(KeyId, Option<DomainId>); 1]>,
}

/// Sources of the bins: the problem, and what is compiled of it before them.
#[derive(Clone, Copy)]
pub(crate) struct BinSources<'c> {
    pub problem: &'c Problem,
    pub pools: &'c IndexVec<PoolId, PoolView>,
    pub columns: &'c Columns<'c>,
    pub offers: &'c Offers,
}

/// Largest number of bins for one set of keys: every instance type of a large region in three zones, spot and on demand, has
/// room.
const MOST_PLACES: usize = 8192;

/// All domains, and the bins by the keys that they tell apart.
#[derive(Debug, Default)]
pub(crate) struct Bins {
    /// The values of each zonal key.
    pub values: IndexVec<KeyId, IndexVec<DomainId, String>>,
    /// Pools whose nodes may have a value, by key and value.
    pub pools: IndexVec<KeyId, IndexVec<DomainId, Vec<PoolId>>>,
    /// Pools whose new nodes may be without a key, by key.
    lacking: IndexVec<KeyId, Vec<PoolId>>,
    by_keys: FxHashMap<KeySet, IndexVec<BinId, Bin>>,
    /// Requirement sets narrowed to a bin, where that takes more than a way of buying: by set, keys and bin.
    narrowed: FxHashMap<(SetId, KeySet, BinId), SetId>,
    /// The bins of a set of keys that was not compiled: none.
    none: IndexVec<BinId, Bin>,
}

impl Bins {
    /// Finds the bins for the keys that classes ask for; narrowed requirement sets are added to `sets`.
    pub fn find(
        found: &BinSources<'_>,
        topology: &Topology,
        classes: &IndexVec<ClassId, Class>,
        sets: &mut RequirementSets,
        steps: &Steps,
    ) -> Self {
        let BinSources { pools, columns, .. } = *found;
        let mut bins = Self::default();
        // The values of each key first: bins are made of them.
        for key in topology.keys.iter() {
            let (values, reached): (Vec<String>, Vec<Vec<PoolId>>) = universe(found, key).into_iter().unzip();
            bins.values.push(values.into());
            bins.pools.push(reached.into());
            let lacking = pools.enumerate().filter(|(_, pool)| may_lack(pool, columns, key));
            bins.lacking.push(lacking.map(|(at, _)| at).collect());
        }
        for (part, class) in topology.of_class.iter().zip(classes).filter(|(part, _)| part.is_zonal()) {
            // Most classes ask for the same keys, mostly the zone alone: three zones are three bins for all of
            // them.
            if !bins.by_keys.contains_key(&part.keys) {
                let all = bins.of_keys(part.keys, topology, found, steps);
                bins.by_keys.insert(part.keys, all);
            }
            let all = &bins.by_keys[&part.keys];
            // Buying decides the zone. A label such as a rack is decided by what the pod requires, so its sets are
            // narrowed to the value.
            for (bin, one) in all.ids().zip(all).filter(|(_, one)| !one.pins.is_empty()) {
                for set in class.alternatives.iter().map(|one| one.set) {
                    if !steps.spend(8 + sets[set].len()) {
                        return bins;
                    }
                    bins.narrowed.entry((set, part.keys, bin)).or_insert_with(|| {
                        let mut narrow = sets[set].clone();
                        for (key, value) in &one.pins {
                            let value = value.map(|value| bins.values[*key][value].as_str());
                            let pin = value.map_or_else(Requirement::does_not_exist, |one| Requirement::one_of([one]));
                            narrow.add(&topology.keys[*key], pin);
                        }
                        sets.insert(narrow)
                    });
                }
            }
        }
        bins
    }

    /// The bins that a class's keys tell apart.
    pub fn for_keys(&self, keys: KeySet) -> &IndexVec<BinId, Bin> {
        self.by_keys.get(&keys).unwrap_or(&self.none)
    }

    /// A requirement set within a bin.
    pub fn narrowed(&self, set: SetId, keys: KeySet, bin: BinId) -> SetId {
        self.narrowed.get(&(set, keys, bin)).copied().unwrap_or(set)
    }

    /// True if a pool's nodes may have a label over which pods are spread.
    pub fn may_have(&self, topology: &Topology, label: &str, pool: PoolId) -> bool {
        let key = topology.keys.id_of(label);
        key.is_some_and(|key| self.pools[key].iter().any(|reached| reached.contains(&pool)))
    }

    /// True if a pool's nodes may be without a key.
    pub fn may_lack(&self, key: KeyId, pool: PoolId) -> bool {
        self.lacking[key].contains(&pool)
    }

    /// The domains of an existing node.
    pub fn of_node(&self, topology: &Topology, node: &ExistingNode) -> DomainOfKeys {
        let value = |key: &String| {
            let own = node.labels.iter().find(|(own, _)| labels::stable(own) == key);
            own.map(|(_, value)| value)
        };
        let all = topology.keys.iter().zip(&self.values);
        DomainOfKeys(all.map(|(key, values)| value(key).and_then(|value| position(values, value))).collect())
    }

    fn of_keys(
        &self,
        keys: KeySet,
        topology: &Topology,
        found: &BinSources<'_>,
        steps: &Steps,
    ) -> IndexVec<BinId, Bin> {
        let bought = self.bought(keys, topology, found.offers);
        let is_bought = |key: &KeyId| matches!(topology.keys[*key].as_str(), labels::ZONE | labels::CAPACITY_TYPE);
        let mut known = Vec::new();
        for key in topology.keys.ids().filter(|key| keys.has(*key) && !is_bought(key)) {
            let values = self.pools[key].enumerate().filter(|(_, pools)| !pools.is_empty());
            let values: Vec<Option<DomainId>> = values.map(|(value, _)| Some(value)).collect();
            // No node has the key: there is nothing to tell apart, since rules over it hold or fail alike everywhere. It makes
            // no bins.
            if values.is_empty() {
                continue;
            }
            let possible = values.into_iter().chain((!self.lacking[key].is_empty()).then_some(None)).collect();
            known.push(KeyValues { key, name: &topology.keys[key], all: &self.values[key], possible });
        }
        let count = known.iter().fold(bought.len(), |count, key| count.saturating_mul(key.possible.len()));
        let combinations: Vec<Combination> = if count > MOST_PLACES {
            let types: usize = found.pools.iter().map(|pool| pool.types.iter().count()).sum();
            if !steps.spend(types * known.len()) {
                return IndexVec::new();
            }
            evenly(together(found, &known), MOST_PLACES / bought.len().max(1))
        } else {
            // Every value with every other: 3 zones and 4 racks make 12 bins.
            known.iter().fold(vec![Combination::new()], |all, key| product(&all, &key.possible, MOST_PLACES))
        };
        let pinned = |bin: &Bin, values: &Combination| {
            let mut bin = bin.clone();
            for (key, value) in known.iter().zip(values) {
                bin.domain[key.key] = *value;
                bin.pins.push((key.key, *value));
            }
            bin
        };
        let pinned = &pinned;
        let mut all: Vec<Bin> =
            bought.iter().flat_map(|bin| combinations.iter().map(move |values| pinned(bin, values))).collect();
        // By domain, so that ids do not depend on the order of offerings.
        all.sort_by(|a, b| a.domain.cmp(&b.domain));
        all.into()
    }

    /// The bins by the labels that buying decides, as far as these are asked for.
    fn bought(&self, keys: KeySet, topology: &Topology, offers: &Offers) -> Vec<Bin> {
        let nowhere = DomainOfKeys(self.values.iter().map(|_| None).collect());
        let asked = |key: &str| topology.keys.id_of(key).filter(|key| keys.has(*key));
        let (zone, capacity_type) = (asked(labels::ZONE), asked(labels::CAPACITY_TYPE));
        let mut all: Vec<Bin> = Vec::new();
        for (at, offering_bit) in offers.offering_bits.enumerate() {
            let mut domain = nowhere.clone();
            // Keys that are not asked for stay open: offering bits that differ only in these are one bin.
            for (key, value) in [(zone, &offering_bit.zone), (capacity_type, &offering_bit.capacity_type)] {
                if let Some(key) = key {
                    domain[key] = position(&self.values[key], value);
                }
            }
            match all.iter_mut().find(|bin| bin.domain == domain) {
                Some(bin) => bin.mask |= at.bit(),
                None => all.push(Bin { mask: at.bit(), domain, pins: SmallVec::new() }),
            }
        }
        all
    }
}

fn position(values: &IndexVec<DomainId, String>, value: &str) -> Option<DomainId> {
    values.position(|own| own == value)
}

/// All domains of a key, with the pools whose nodes can be there: those of pools, and those of existing nodes.
fn universe(found: &BinSources<'_>, key: &str) -> BTreeMap<String, Vec<PoolId>> {
    let BinSources { problem, pools, columns, offers } = *found;
    let mut all: BTreeMap<String, Vec<PoolId>> = BTreeMap::new();
    for (at, pool) in pools.enumerate() {
        let mut add = |value: &str| {
            let reached = all.entry(value.to_owned()).or_default();
            // Pools come in order, so the last is the only one that it may be already.
            if reached.last() != Some(&at) {
                reached.push(at);
            }
        };
        if matches!(key, labels::ZONE | labels::CAPACITY_TYPE) {
            offers.within(pool.offering_bits).for_each(|(_, offering_bit)| {
                add(offering_bit.label(key));
            });
        }
        if key == labels::CAPACITY_TYPE {
            continue;
        }
        let own = pool.requirements.get(key).filter(|own| !own.is_empty());
        let concrete = own.filter(|own| !own.is_complement());
        match columns.get(key).filter(|_| !pool.labels.contains(key)) {
            Some(column) => {
                for at in pool.types.iter() {
                    let said = column.statement(at).filter(|said| !said.is_complement());
                    let values = said.into_iter().flat_map(Requirement::values);
                    values.filter(|value| own.is_none_or(|own| own.has(value))).for_each(&mut add);
                }
            }
            None if key != labels::ZONE => concrete.into_iter().flat_map(Requirement::values).for_each(&mut add),
            None => {}
        }
    }
    for node in &problem.existing_nodes {
        for (_, value) in node.labels.iter().filter(|(own, _)| labels::stable(own) == key) {
            all.entry(value.clone()).or_default();
        }
    }
    all
}

/// True if a pool's node may be without a key.
fn may_lack(pool: &PoolView, columns: &Columns<'_>, key: &str) -> bool {
    let lacks = |column: &Column| pool.types.iter().any(|at| column.statement(at).is_none());
    !pool.labels.contains(key)
        && pool.requirements.get(key).is_none_or(Requirement::allows_absence)
        && columns.get(key).is_none_or(|column| lacks(&column))
}

/// A node's labels and its name as requirements.
pub(super) fn labels_of(node: &ExistingNode) -> Requirements {
    let mut own = Requirements::from_labels(&node.labels);
    own.add(labels::NODE_NAME_FIELD, Requirement::one_of([node.name.as_str()]));
    own
}
