//! Combinations of values of several labels that a new node can have. Most labels are those of an instance type: a family and a
//! size that no type has together are no bin, and 1,300 types with twelve labels each make 1,300 combinations, not 10^12.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::bins::BinSources;
use crate::pack::model::columns::Column;
use crate::pack::model::ids::{DomainId, IndexVec, InstanceTypeId, KeyId};
use crate::pack::model::pools::PoolView;
use crate::requirements::Requirement;

/// Largest number of combinations, shared by the types, and of each type of a pool in any case: pools may leave labels open to
/// values without end.
const MOST: usize = 65_536;
const MOST_OF_A_TYPE: usize = 8;

/// A value of each key, in the order of the keys; `None` where the node lacks it.
pub(super) type Combination = SmallVec<[Option<DomainId>; 4]>;

/// A key with its values while combinations are made.
pub(super) struct KeyValues<'k> {
    pub key: KeyId,
    pub name: &'k str,
    pub all: &'k IndexVec<DomainId, String>,
    /// Values that a new node may have, `None` among them if it may lack the key.
    pub possible: Vec<Option<DomainId>>,
}

/// The combinations that the instance types of some pool can have, in order.
pub(super) fn together(found: &BinSources<'_>, keys: &[KeyValues<'_>]) -> BTreeSet<Combination> {
    let ids: Vec<FxHashMap<&str, DomainId>> =
        keys.iter().map(|key| key.all.enumerate().map(|(at, value)| (value.as_str(), at)).collect()).collect();
    let columns: Vec<_> = keys.iter().map(|key| found.columns.get(key.name)).collect();
    let types: usize = found.pools.iter().map(|pool| pool.types.iter().count()).sum();
    let most = (MOST / types.max(1)).max(MOST_OF_A_TYPE);
    let mut all = BTreeSet::new();
    for pool in found.pools {
        for at in pool.types.iter() {
            let mut own: Vec<Combination> = vec![SmallVec::new()];
            for ((key, ids), column) in keys.iter().zip(&ids).zip(&columns) {
                let column = column.as_deref().filter(|_| !pool.labels.contains(key.name));
                let values = of_type(pool, at, key, ids, column);
                own = product(&own, &values, most);
            }
            all.extend(own);
        }
    }
    all
}

/// The values of a key that a type's nodes may have in a pool.
fn of_type(
    pool: &PoolView,
    at: InstanceTypeId,
    key: &KeyValues<'_>,
    ids: &FxHashMap<&str, DomainId>,
    column: Option<&Column>,
) -> SmallVec<[Option<DomainId>; 2]> {
    let wanted = pool.requirements.get(key.name);
    let said = column.and_then(|column| column.statement(at));
    let lacks = said.is_none() && !pool.labels.contains(key.name) && wanted.is_none_or(Requirement::allows_absence);
    if let Some(said) = said.filter(|said| !said.is_complement()) {
        let own = said.values().filter(|value| wanted.is_none_or(|wanted| wanted.has(value)));
        return own.filter_map(|value| ids.get(value).copied().map(Some)).collect();
    }
    let may_be = |value: DomainId| {
        let value = key.all[value].as_str();
        // A type that does not state a label of types lacks it.
        (column.is_none() || said.is_some_and(|said| said.has(value))) && wanted.is_some_and(|wanted| wanted.has(value))
    };
    key.possible.iter().copied().filter(|value| value.map_or(lacks, may_be)).collect()
}

/// Every combination with every value of the next key; at most `most` of them, evenly chosen.
pub(super) fn product(all: &[Combination], values: &[Option<DomainId>], most: usize) -> Vec<Combination> {
    let count = all.len().saturating_mul(values.len());
    let step = count.div_ceil(most.max(1)).max(1);
    let with = |at: usize| {
        let (one, value) = (&all[at / values.len()], values[at % values.len()]);
        one.iter().copied().chain([value]).collect()
    };
    (0..count).step_by(step).map(with).collect()
}

/// At most `most` of the combinations, evenly chosen.
pub(super) fn evenly(all: BTreeSet<Combination>, most: usize) -> Vec<Combination> {
    let step = all.len().div_ceil(most.max(1)).max(1);
    all.into_iter().step_by(step).collect()
}
