//! The labels that a quota selects nodes by: those of a Node, and those that a claim's node may get.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::labels::{INITIALIZED, REGISTERED};
use rustc_hash::FxHashMap;

use super::Quota;
use crate::instance_type::InstanceType;
use crate::labels::{self, stable};
use crate::requirements::{Requirement, Requirements};

/// The selector of a quota, read once for all nodes.
pub struct QuotaSelector<'t> {
    wanted: Requirements,
    /// Wanted labels that instance types have.
    of_types: Vec<String>,
    /// Types by name; true if their own labels, as far as they are wanted, may be those.
    types: FxHashMap<&'t str, bool>,
    /// True if a node of a type that is not among them may count.
    counts_unknown: bool,
}

/// True if a node of ours comes to have the label with a value that is wanted, or may: no type and no pool has it.
#[must_use]
pub fn comes_with_a_node(key: &str, wanted: &Requirement) -> bool {
    match key {
        labels::HOSTNAME => true,
        REGISTERED | INITIALIZED => wanted.has("true"),
        _ => wanted.allows_absence(),
    }
}

/// True if both leave a value, or both let the label be absent.
fn meet(own: &Requirement, wanted: &Requirement) -> bool {
    own.intersects(wanted) || (own.allows_absence() && wanted.allows_absence())
}

/// A type's own requirement on a label.
fn of_type(one: &InstanceType, key: &str) -> Option<Requirement> {
    let written = one.requirements.iter().find(|own| stable(&own.key) == key)?;
    Requirement::from_written(written).ok()
}

impl<'t> QuotaSelector<'t> {
    /// Reads a quota's selector, and compares it with the labels of types.
    #[must_use]
    pub fn new(quota: &Quota, types: &'t [Arc<InstanceType>]) -> Self {
        let wanted = quota.wanted();
        let has = |key: &str| types.iter().any(|one| one.requirements.iter().any(|own| stable(&own.key) == key));
        let keys = wanted.iter().map(|(key, _)| key);
        let of_types: Vec<String> = keys
            .filter(|key| !matches!(*key, labels::ZONE | labels::CAPACITY_TYPE) && has(key))
            .map(str::to_owned)
            .collect();
        let mut by_name: FxHashMap<&str, bool> = FxHashMap::default();
        for one in types.iter().filter(|_| !of_types.is_empty()) {
            let may_be = of_types.iter().all(|key| {
                let wanted = wanted.get(key);
                wanted.is_none_or(|wanted| of_type(one, key).map_or(wanted.allows_absence(), |own| meet(&own, wanted)))
            });
            // A type may be there twice, as overlays change it: its labels are the same.
            *by_name.entry(one.name.as_str()).or_default() |= may_be;
        }
        Self { wanted, of_types, types: by_name, counts_unknown: true }
    }

    /// The selector for somebody who knows only some of the types: others do not count.
    #[must_use]
    pub fn of_known_types(self) -> Self {
        Self { counts_unknown: self.of_types.is_empty(), ..self }
    }

    /// True if a node with these labels counts.
    #[must_use]
    pub fn counts(&self, labels: &BTreeMap<String, String>) -> bool {
        self.wanted.iter().all(|(key, wanted)| {
            let own = labels.get(key).or_else(|| labels.iter().find(|(own, _)| stable(own) == key).map(|(_, own)| own));
            own.map_or_else(|| wanted.allows_absence(), |own| wanted.has(own))
        })
    }

    /// True if a node that has to satisfy `own` may count, its instance type apart.
    #[must_use]
    pub fn may_count(&self, own: &Requirements) -> bool {
        self.wanted.iter().all(|(key, wanted)| match own.get(key) {
            Some(own) => meet(own, wanted),
            None => {
                matches!(key, labels::ZONE | labels::CAPACITY_TYPE)
                    || self.of_types.iter().any(|known| known == key)
                    || comes_with_a_node(key, wanted)
            }
        })
    }

    /// True if a node of the type with this name may count.
    #[must_use]
    pub fn may_count_type(&self, name: &str) -> bool {
        self.types.get(name).copied().unwrap_or(self.counts_unknown)
    }
}
