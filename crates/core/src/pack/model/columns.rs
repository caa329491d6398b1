//! Statements of instance types on one label key, with equal ones interned: a requirement is then decided once for each
//! distinct statement instead of once for each type.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::bits::Bits;
use super::ids::{IndexVec, InstanceTypeId, StatementId};
use crate::instance_type::InstanceType;
use crate::requirements::{NodeSelectorRequirement, Operator, Requirement};

/// Columns by key, read when first asked for, over the types that some pool's nodes may be.
pub(crate) struct Columns<'a> {
    types: &'a [Arc<InstanceType>],
    among: Bits,
    /// The keys that some type defines: pods may name others without end.
    keys: FxHashSet<&'a str>,
    by_key: RefCell<FxHashMap<String, Option<Rc<Column>>>>,
}

impl<'a> Columns<'a> {
    pub fn new(types: &'a [Arc<InstanceType>], among: Bits) -> Self {
        let of_types = among.iter().flat_map(|at| &types[at.index()].requirements);
        let keys = of_types.map(|said| said.key.as_str()).collect();
        Self { types, among, keys, by_key: RefCell::default() }
    }

    /// The column of a key; `None` when no instance type defines it.
    pub fn get(&self, key: &str) -> Option<Rc<Column>> {
        if !self.keys.contains(key) {
            return None;
        }
        if let Some(known) = self.by_key.borrow().get(key) {
            return known.clone();
        }
        let column = Column::from_types(self.types, &self.among, key).map(Rc::new);
        self.by_key.borrow_mut().insert(key.to_owned(), column.clone());
        column
    }
}

/// Keeps of `among` the types that can be what all of `wanted` ask, a key that no type defines apart: that is for
/// the nodes' labels to say. One pass over the types, and nothing kept: most types are never looked at again.
pub(crate) fn keep_satisfying(types: &[Arc<InstanceType>], wanted: &[(&str, &Requirement)], among: &mut Bits) {
    let mut defined = vec![false; wanted.len()];
    let mut lacking: Vec<Bits> = wanted.iter().map(|_| Bits::empty(types.len())).collect();
    let mut refused = Bits::empty(types.len());
    for at in among.iter() {
        for (nth, (key, requirement)) in wanted.iter().enumerate() {
            let mut said = said(&types[at.index()], key);
            let good = match (said.next(), said.next()) {
                (None, _) => {
                    lacking[nth].insert(at);
                    continue;
                }
                (Some(NodeSelectorRequirement { operator: Operator::In, values, .. }), None) if !values.is_empty() => {
                    values.iter().any(|value| requirement.has(value))
                }
                _ => satisfiable(&statement(&types[at.index()], key), requirement),
            };
            defined[nth] = true;
            if !good {
                refused.insert(at);
                // A type is read to the end until every key is known to be defined.
                if defined.iter().all(|key| *key) {
                    break;
                }
            }
        }
    }
    for (nth, (_, requirement)) in wanted.iter().enumerate() {
        if defined[nth] && !requirement.allows_absence() {
            refused.or(&lacking[nth]);
        }
    }
    among.without(&refused);
}

/// The statements of a type on a key.
fn said<'t>(one: &'t InstanceType, key: &str) -> impl Iterator<Item = &'t NodeSelectorRequirement> {
    one.requirements.iter().filter(move |written| written.key == key)
}

/// All statements of a type on a key as one requirement. An invalid one allows nothing.
fn statement(one: &InstanceType, key: &str) -> Requirement {
    let mut all = Requirement::exists();
    for written in said(one, key) {
        let read = Requirement::from_written(written).unwrap_or_else(|_| Requirement::does_not_exist());
        all = all.intersect(&read);
    }
    all
}

fn satisfiable(statement: &Requirement, requirement: &Requirement) -> bool {
    statement.intersects(requirement) || (requirement.allows_absence() && statement.allows_absence())
}

/// Statements of all instance types on one key.
#[derive(Debug)]
pub(crate) struct Column {
    /// Statement of each type, or [`UNDEFINED`].
    entries: IndexVec<InstanceTypeId, StatementId>,
    statements: IndexVec<StatementId, Requirement>,
    /// True if some type leaves its value open, so that two pods may each be satisfied but not both together.
    pub open: bool,
}

/// The statement of a type that does not define the key.
const UNDEFINED: StatementId = StatementId::LAST;

impl Column {
    /// Reads the key off every type of `among`; `None` when none defines it.
    fn from_types(types: &[Arc<InstanceType>], among: &Bits, key: &str) -> Option<Self> {
        let entries = IndexVec::from_elem(UNDEFINED, types.len());
        let mut column = Self { entries, statements: IndexVec::new(), open: false };
        let mut single: FxHashMap<&str, StatementId> = FxHashMap::default();
        for at in among.iter() {
            let mut said = said(&types[at.index()], key);
            column.entries[at] = match (said.next(), said.next()) {
                (None, _) => UNDEFINED,
                (Some(NodeSelectorRequirement { operator: Operator::In, values, .. }), None) if values.len() == 1 => {
                    let new = || column.statements.push(Requirement::one_of([values[0].as_str()]));
                    *single.entry(&values[0]).or_insert_with(new)
                }
                _ => column.intern(statement(&types[at.index()], key)),
            };
        }
        (!column.statements.is_empty()).then_some(column)
    }

    /// The id of a statement that is not just one value.
    fn intern(&mut self, all: Requirement) -> StatementId {
        self.open |= all.single().is_none() && !all.is_empty();
        let known = self.statements.position(|statement| *statement == all);
        known.unwrap_or_else(|| self.statements.push(all))
    }

    /// The types that can satisfy a requirement on this key.
    pub fn select(&self, requirement: &Requirement) -> Bits {
        let absent = requirement.allows_absence();
        let good: IndexVec<StatementId, bool> =
            self.statements.iter().map(|statement| satisfiable(statement, requirement)).collect();
        let mut bits = Bits::empty(self.entries.len());
        for (at, entry) in self.entries.enumerate() {
            if if *entry == UNDEFINED { absent } else { good[*entry] } {
                bits.insert(at);
            }
        }
        bits
    }

    /// Number of distinct statements: the work of [`Column::select`].
    pub fn len(&self) -> usize {
        self.statements.len()
    }

    /// A type's statement; `None` when it does not define the key.
    pub fn statement(&self, at: InstanceTypeId) -> Option<&Requirement> {
        self.statements.get(self.entries[at])
    }

    /// Id of a type's statement: the same for types that say the same.
    pub fn entry(&self, at: InstanceTypeId) -> StatementId {
        self.entries[at]
    }
}
