//! The labels that a quota selects nodes by: those of a Node, and those that a claim's node may get.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::labels::{INITIALIZED, REGISTERED};
use rustc_hash::FxHashMap;

use super::Quota;
use crate::instance_type::{InstanceType, Offering, is_marked};
use crate::labels::{self, CAPACITY_RESERVATION_ID, CAPACITY_TYPE, ZONE, stable};
use crate::requirements::{NodeSelectorRequirement, Requirement, Requirements};

/// The selector of a quota, read once for all nodes.
pub struct QuotaSelector<'t> {
    wanted: Requirements,
    /// Wanted labels that instance types have.
    of_types: Vec<String>,
    /// Wanted labels that depend on how a node is bought: zone, capacity type, and what offerings add.
    of_offerings: Vec<String>,
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

/// A requirement of an offering beside its zone and capacity type.
fn further<'o>(offering: &'o Offering, key: &str) -> Option<&'o NodeSelectorRequirement> {
    // A node that a commitment covers is bought on demand, and gets no label of a reservation.
    let is_label = |written: &NodeSelectorRequirement| {
        key != CAPACITY_RESERVATION_ID || !written.values.first().is_some_and(|id| is_marked(id))
    };
    offering.requirements.iter().find(|written| stable(&written.key) == key && is_label(written))
}

/// True if a node with this label of an offering is one that is wanted; also if it lacks a label that may be absent.
fn gives(offering: &Offering, key: &str, wanted: &Requirement) -> bool {
    match key {
        ZONE => wanted.has(&offering.zone),
        CAPACITY_TYPE => wanted.has(&offering.capacity_type),
        _ => match further(offering, key) {
            Some(written) => Requirement::from_written(written).is_ok_and(|own| meet(&own, wanted)),
            None => wanted.allows_absence(),
        },
    }
}

/// True if a claim that has to satisfy `own` may be bought by an offering.
fn agrees(offering: &Offering, own: &Requirements) -> bool {
    own.iter().all(|(key, own)| match key {
        ZONE | CAPACITY_TYPE => gives(offering, key, own),
        _ => further(offering, key).is_none() || gives(offering, key, own),
    })
}

impl<'t> QuotaSelector<'t> {
    /// Reads a quota's selector, and compares it with the labels of types.
    #[must_use]
    pub fn new(quota: &Quota, types: &'t [Arc<InstanceType>]) -> Self {
        let wanted = quota.wanted();
        let has = |key: &str| types.iter().any(|one| one.requirements.iter().any(|own| stable(&own.key) == key));
        let offered = |key: &str| types.iter().flat_map(|one| &one.offerings).any(|one| further(one, key).is_some());
        let keys = || wanted.iter().map(|(key, _)| key);
        let of_offerings = keys().filter(|key| matches!(*key, ZONE | CAPACITY_TYPE) || offered(key));
        let of_offerings: Vec<String> = of_offerings.map(str::to_owned).collect();
        let of_types: Vec<String> =
            keys().filter(|key| !matches!(*key, ZONE | CAPACITY_TYPE) && has(key)).map(str::to_owned).collect();
        let mut by_name: FxHashMap<&str, bool> = FxHashMap::default();
        for one in types.iter().filter(|_| !of_types.is_empty()) {
            let may_be = of_types.iter().all(|key| {
                let wanted = wanted.get(key);
                wanted.is_none_or(|wanted| of_type(one, key).map_or(wanted.allows_absence(), |own| meet(&own, wanted)))
            });
            // A type may be there twice, as overlays change it: its labels are the same.
            *by_name.entry(one.name.as_str()).or_default() |= may_be;
        }
        Self { wanted, of_types, of_offerings, types: by_name, counts_unknown: true }
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
                self.of_offerings.iter().chain(&self.of_types).any(|known| known == key)
                    || comes_with_a_node(key, wanted)
            }
        })
    }

    /// True if a node of the type with this name may count.
    #[must_use]
    pub fn may_count_type(&self, name: &str) -> bool {
        self.types.get(name).copied().unwrap_or(self.counts_unknown)
    }

    /// True if a node of this type counts in one of the ways in which a claim that has to satisfy `own` may be bought. Of the
    /// offerings those are looked at for which `looks` is true; a type that has none which agree may be bought anyhow.
    #[must_use]
    pub fn may_be_bought(&self, own: &Requirements, one: &InstanceType, looks: impl Fn(&Offering) -> bool) -> bool {
        if self.of_offerings.is_empty() {
            return true;
        }
        let mut ways = one.offerings.iter().filter(|offering| looks(offering) && agrees(offering, own)).peekable();
        ways.peek().is_none() || ways.any(|offering| self.counts_bought(offering))
    }

    /// The type without the ways of buying by which a node counts; `None` if a claim that has to satisfy `own` can be bought in
    /// none of the others now.
    #[must_use]
    pub fn without_counted(&self, own: &Requirements, one: Arc<InstanceType>) -> Option<Arc<InstanceType>> {
        let ways = one.offerings.iter().filter(|offering| offering.available && agrees(offering, own));
        let (counted, others): (Vec<&Offering>, Vec<&Offering>) = ways.partition(|one| self.counts_bought(one));
        match (counted.is_empty(), others.is_empty()) {
            (true, _) if !self.of_offerings.is_empty() => Some(one),
            (false, false) => {
                let mut one = InstanceType::clone(&one);
                one.offerings.retain(|offering| !self.counts_bought(offering));
                Some(Arc::new(one))
            }
            _ => None,
        }
    }

    fn counts_bought(&self, offering: &Offering) -> bool {
        self.of_offerings.iter().all(|key| self.wanted.get(key).is_none_or(|wanted| gives(offering, key, wanted)))
    }
}

/// True if a claim that has to satisfy `own` cannot count against a quota, whatever its type: a look without any type.
#[must_use]
pub fn is_ruled_out(quota: &Quota, own: &Requirements) -> bool {
    quota.wanted().iter().any(|(key, wanted)| own.get(key).is_some_and(|own| !meet(own, wanted)))
}
