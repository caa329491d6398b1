//! What instance types say of one label key, with equal statements interned: a requirement is then decided once for
//! each distinct statement instead of once for each type.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::bits::Bits;
use crate::instance_type::InstanceType;
use crate::requirements::{NodeSelectorRequirement, Operator, Requirement};

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
    pub fn read(types: &[Arc<InstanceType>], key: &str) -> Option<Self> {
        let mut column = Self { entries: Vec::with_capacity(types.len()), statements: vec![], open: false };
        let mut single: FxHashMap<&str, u32> = FxHashMap::default();
        for one in types {
            let mut said = one.requirements.iter().filter(|written| written.key == key);
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

    /// A number that is the same for types that say the same.
    pub fn entry(&self, at: usize) -> u32 {
        self.entries[at]
    }
}
