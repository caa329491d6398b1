//! What instance types say of one label key, with equal statements interned: a requirement is then decided once for
//! each distinct statement instead of once for each type.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::bits::Bits;
use crate::instance_type::InstanceType;
use crate::requirements::{NodeSelectorRequirement, Operator, Requirement};

/// The keys of all instance types' requirements as numbers, read in one pass.
#[derive(Debug)]
pub(crate) struct Keys<'a> {
    by_name: FxHashMap<&'a str, u32>,
    ids: Vec<u32>,
    /// Where each type's ids start.
    starts: Vec<u32>,
}

impl<'a> Keys<'a> {
    pub fn read(types: &'a [Arc<InstanceType>]) -> Self {
        let mut keys = Self { by_name: FxHashMap::default(), ids: vec![], starts: vec![0] };
        let mut names: Vec<&'a str> = Vec::new();
        // Types list their keys in the same order as a rule: the id follows from the neighbour's.
        let mut before: Vec<u32> = Vec::new();
        for one in types {
            let mut hint = 0;
            let first = keys.ids.len();
            for written in &one.requirements {
                let key = written.key.as_str();
                let guess = before.iter().skip(hint).take(2).position(|id| names[*id as usize] == key);
                let id = match guess {
                    Some(step) => before[hint + step],
                    None => *keys.by_name.entry(key).or_insert_with(|| {
                        names.push(key);
                        names.len() as u32 - 1
                    }),
                };
                hint += guess.map_or(0, |step| step + 1);
                keys.ids.push(id);
            }
            keys.starts.push(keys.ids.len() as u32);
            before.clear();
            before.extend_from_slice(&keys.ids[first..]);
        }
        keys
    }

    fn of_type(&self, at: usize) -> &[u32] {
        &self.ids[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

/// One key's statements over all instance types of the problem.
#[derive(Debug)]
pub(crate) struct Column {
    /// For each type the index of its statement, or `UNDEFINED`.
    entries: Vec<u32>,
    statements: Vec<Requirement>,
    /// Whether some type leaves its value open, so that two pods may each be satisfied but not both together.
    pub open: bool,
}

const UNDEFINED: u32 = u32::MAX;

impl Column {
    /// Reads the key off every type; `None` when no type defines it.
    pub fn read(types: &[Arc<InstanceType>], keys: &Keys<'_>, key: &str) -> Option<Self> {
        let id = *keys.by_name.get(key)?;
        let mut column = Self { entries: Vec::with_capacity(types.len()), statements: vec![], open: false };
        let mut single: FxHashMap<&str, u32> = FxHashMap::default();
        for (at, one) in types.iter().enumerate() {
            let of_type = keys.of_type(at).iter().zip(&one.requirements);
            let mut said = of_type.filter(|(own, _)| **own == id).map(|(_, written)| written);
            let entry = match (said.next(), said.next()) {
                (None, _) => UNDEFINED,
                (Some(NodeSelectorRequirement { operator: Operator::In, values, .. }), None) if values.len() == 1 => {
                    let next = column.statements.len() as u32;
                    let entry = *single.entry(&values[0]).or_insert(next);
                    if entry == next {
                        column.statements.push(Requirement::one_of([values[0].as_str()]));
                    }
                    entry
                }
                _ => column.intern(one, key),
            };
            column.entries.push(entry);
        }
        (!column.statements.is_empty()).then_some(column)
    }

    /// A statement that is not just one value. What makes no sense allows nothing.
    fn intern(&mut self, one: &InstanceType, key: &str) -> u32 {
        let mut all = Requirement::exists();
        for written in one.requirements.iter().filter(|written| written.key == key) {
            let read = Requirement::from_written(written).unwrap_or_else(|_| Requirement::does_not_exist());
            all = all.intersect(&read);
        }
        self.open |= all.single().is_none() && !all.is_empty();
        let known = self.statements.iter().position(|statement| *statement == all);
        known.unwrap_or_else(|| {
            self.statements.push(all);
            self.statements.len() - 1
        }) as u32
    }

    /// The types that can satisfy a requirement on this key.
    pub fn select(&self, requirement: &Requirement) -> Bits {
        let absent = requirement.allows_absence();
        let good: Vec<bool> = self
            .statements
            .iter()
            .map(|statement| statement.intersects(requirement) || (absent && statement.allows_absence()))
            .collect();
        let mut bits = Bits::empty(self.entries.len());
        for (at, entry) in self.entries.iter().enumerate() {
            if if *entry == UNDEFINED { absent } else { good[*entry as usize] } {
                bits.insert(at);
            }
        }
        bits
    }

    /// What a type says; `None` when it does not define the key.
    pub fn statement(&self, at: usize) -> Option<&Requirement> {
        self.statements.get(self.entries[at] as usize)
    }

    /// All that types say of the key.
    pub fn statements(&self) -> impl Iterator<Item = &Requirement> {
        self.statements.iter()
    }

    /// A number that is the same for types that say the same.
    pub fn entry(&self, at: usize) -> u32 {
        self.entries[at]
    }
}
