//! The domains that there are, and the places in which a node can be: what rules over zones and other labels tell apart.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{KeySet, Topology};
use crate::labels;
use crate::pack::model::classes::{Class, RequirementSets};
use crate::pack::model::columns::{Column, Columns};
use crate::pack::model::ids::{BinId, ClassId, DomainId, IndexVec, KeyId, PoolId, SetId};
use crate::pack::model::offers::{Mask, Offers};
use crate::pack::model::pools::PoolView;
use crate::pack::rounds::steps::Steps;
use crate::problem::{ExistingNode, Problem};
use crate::requirements::{Requirement, Requirements};

/// For each wide key the domain that something is in, where it is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Domain(SmallVec<[Option<DomainId>; 2]>);

impl Index<KeyId> for Domain {
    type Output = Option<DomainId>;

    fn index(&self, key: KeyId) -> &Option<DomainId> {
        &self.0[key.index()]
    }
}

impl IndexMut<KeyId> for Domain {
    fn index_mut(&mut self, key: KeyId) -> &mut Option<DomainId> {
        &mut self.0[key.index()]
    }
}

/// Where a new node can be.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The ways of buying it there.
    pub mask: Mask,
    pub domain: Domain,
    /// Keys that buying does not decide, with the value that the node has to have, or `None` where it must lack the key.
    pins: SmallVec<[(KeyId, Option<DomainId>); 1]>,
}

/// What the places of nodes are found in: the problem, and what is compiled of it before them.
#[derive(Clone, Copy)]
pub(crate) struct Compiled<'c> {
    pub problem: &'c Problem,
    pub pools: &'c IndexVec<PoolId, PoolView>,
    pub columns: &'c Columns<'c>,
    pub offers: &'c Offers,
}

/// Places that no more than so many keys' values make; more are not looked at.
const MOST_PLACES: usize = 4096;

/// All domains, and the places by the keys that they tell apart.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The values of each wide key.
    pub values: IndexVec<KeyId, IndexVec<DomainId, String>>,
    /// For each key and value the pools whose nodes may have it.
    pub pools: IndexVec<KeyId, IndexVec<DomainId, Vec<PoolId>>>,
    /// For each key the pools whose new nodes may be without it.
    lacking: IndexVec<KeyId, Vec<PoolId>>,
    by_keys: FxHashMap<KeySet, IndexVec<BinId, Place>>,
    /// Requirement sets narrowed to a place, where that takes more than a way of buying: by set, keys and place.
    narrowed: FxHashMap<(SetId, KeySet, BinId), SetId>,
    /// Where no keys are told apart.
    none: IndexVec<BinId, Place>,
}

impl Places {
    /// Finds them, for the keys that classes ask for; narrowed requirement sets are added to `sets`.
    pub fn find(
        found: &Compiled<'_>,
        topology: &Topology,
        classes: &IndexVec<ClassId, Class>,
        sets: &mut RequirementSets,
        steps: &Steps,
    ) -> Self {
        let Compiled { pools, columns, offers, .. } = *found;
        let mut places = Self::default();
        for key in topology.keys.iter() {
            let (values, reached): (Vec<String>, Vec<Vec<PoolId>>) = universe(found, key).into_iter().unzip();
            places.values.push(values.into());
            places.pools.push(reached.into());
            let lacking = pools.enumerate().filter(|(_, pool)| may_lack(pool, columns, key));
            places.lacking.push(lacking.map(|(at, _)| at).collect());
        }
        for (part, class) in topology.of_class.iter().zip(classes).filter(|(part, _)| part.is_zonal()) {
            if !places.by_keys.contains_key(&part.keys) {
                let all = places.of_keys(part.keys, topology, offers);
                places.by_keys.insert(part.keys, all);
            }
            let all = &places.by_keys[&part.keys];
            for (place, one) in all.ids().zip(all).filter(|(_, one)| !one.pins.is_empty()) {
                for set in class.alternatives.iter().map(|one| one.set) {
                    if !steps.take(8 + sets[set].len()) {
                        return places;
                    }
                    places.narrowed.entry((set, part.keys, place)).or_insert_with(|| {
                        let mut narrow = sets[set].clone();
                        for (key, value) in &one.pins {
                            let value = value.map(|value| places.values[*key][value].as_str());
                            let pin = value.map_or_else(Requirement::does_not_exist, |one| Requirement::one_of([one]));
                            narrow.add(&topology.keys[*key], pin);
                        }
                        sets.insert(narrow)
                    });
                }
            }
        }
        places
    }

    /// The places that a class's keys tell apart.
    pub fn of(&self, keys: KeySet) -> &IndexVec<BinId, Place> {
        self.by_keys.get(&keys).unwrap_or(&self.none)
    }

    /// A requirement set within a place.
    pub fn narrowed(&self, set: SetId, keys: KeySet, place: BinId) -> SetId {
        self.narrowed.get(&(set, keys, place)).copied().unwrap_or(set)
    }

    /// Whether a pool's nodes may have a label over which pods are spread.
    pub fn may_have(&self, topology: &Topology, label: &str, pool: PoolId) -> bool {
        let key = topology.keys.id_of(label);
        key.is_some_and(|key| self.pools[key].iter().any(|reached| reached.contains(&pool)))
    }

    /// Whether a pool's nodes may be without a key.
    pub fn may_lack(&self, key: KeyId, pool: PoolId) -> bool {
        self.lacking[key].contains(&pool)
    }

    /// The domains of an existing node.
    pub fn of_node(&self, topology: &Topology, node: &ExistingNode) -> Domain {
        let value = |key: &String| {
            let own = node.labels.iter().find(|(own, _)| labels::stable(own) == key);
            own.map(|(_, value)| value)
        };
        let all = topology.keys.iter().zip(&self.values);
        Domain(all.map(|(key, values)| value(key).and_then(|value| position(values, value))).collect())
    }

    fn of_keys(&self, keys: KeySet, topology: &Topology, offers: &Offers) -> IndexVec<BinId, Place> {
        let nowhere = Domain(self.values.iter().map(|_| None).collect());
        let bought = |key: &str| topology.keys.id_of(key).filter(|key| keys.has(*key));
        let (zone, capacity_type) = (bought(labels::ZONE), bought(labels::CAPACITY_TYPE));
        let mut all: Vec<Place> = Vec::new();
        for (at, offering_bit) in offers.offering_bits.enumerate() {
            let mut domain = nowhere.clone();
            for (key, value) in [(zone, &offering_bit.zone), (capacity_type, &offering_bit.capacity_type)] {
                if let Some(key) = key {
                    domain[key] = position(&self.values[key], value);
                }
            }
            match all.iter_mut().find(|place| place.domain == domain) {
                Some(place) => place.mask |= at.bit(),
                None => all.push(Place { mask: at.bit(), domain, pins: SmallVec::new() }),
            }
        }
        let others =
            topology.keys.ids().filter(|key| keys.has(*key) && Some(*key) != zone && Some(*key) != capacity_type);
        for key in others {
            let values = self.pools[key].enumerate().filter(|(_, pools)| !pools.is_empty());
            let values: Vec<Option<DomainId>> = values.map(|(value, _)| Some(value)).collect();
            // Where no node has the key there is nothing to tell apart: rules over it hold or fail alike everywhere.
            if values.is_empty() {
                continue;
            }
            let values: Vec<Option<DomainId>> =
                values.into_iter().chain((!self.lacking[key].is_empty()).then_some(None)).collect();
            let with = |place: &Place, value: &Option<DomainId>| {
                let mut place = place.clone();
                place.domain[key] = *value;
                place.pins.push((key, *value));
                place
            };
            let both = all.iter().flat_map(|place| values.iter().map(move |value| with(place, value)));
            all = both.take(MOST_PLACES).collect();
        }
        all.sort_by(|a, b| a.domain.cmp(&b.domain));
        all.into()
    }
}

fn position(values: &IndexVec<DomainId, String>, value: &str) -> Option<DomainId> {
    values.position(|own| own == value)
}

/// All domains of a key, with the pools whose nodes can be there: those of pools, and those of existing nodes.
fn universe(found: &Compiled<'_>, key: &str) -> BTreeMap<String, Vec<PoolId>> {
    let Compiled { problem, pools, columns, offers } = *found;
    let mut all: BTreeMap<String, Vec<PoolId>> = BTreeMap::new();
    for (at, pool) in pools.enumerate() {
        let mut add = |value: &str| {
            let reached = all.entry(value.to_owned()).or_default();
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

/// Whether a pool's node may be without a key.
fn may_lack(pool: &PoolView, columns: &Columns<'_>, key: &str) -> bool {
    let lacks = |column: &Column| pool.types.iter().any(|at| column.statement(at).is_none());
    !pool.labels.contains(key)
        && pool.requirements.get(key).is_none_or(Requirement::allows_absence)
        && columns.get(key).is_none_or(|column| lacks(&column))
}

/// What the labels of a node are.
pub(super) fn labels_of(node: &ExistingNode) -> Requirements {
    let mut own = Requirements::from_labels(&node.labels);
    own.add(labels::NODE_NAME_FIELD, Requirement::one_of([node.name.as_str()]));
    own
}
