//! The requirement algebra: the values that a node's labels may take (spec core 3.5).

mod requirement;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use requirement::Requirement;
use thiserror::Error;
pub use written::{NodeSelectorRequirement, Operator, RequirementError};

use crate::labels;

/// Requirements by label key; several on one key are one, their intersection. Keys are in their stable spelling.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirements(BTreeMap<String, Requirement>);

/// The reason that two sets of requirements exclude each other.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Incompatible {
    /// A key that the node will not have.
    #[error("label {key} is not defined{}", hint.as_ref().map(|hint| format!(" (did you mean {hint}?)")).unwrap_or_default())]
    Undefined {
        key: String,
        /// A defined key that looks like it.
        hint: Option<String>,
    },
    /// No value satisfies both.
    #[error("{wanted} conflicts with {offered}")]
    Conflict {
        /// The key on which they differ.
        key: String,
        /// The requirement that is asked for.
        wanted: String,
        /// The requirement that the node offers.
        offered: String,
    },
}

impl Requirements {
    /// A set without requirements.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads written requirements.
    ///
    /// # Errors
    /// [`RequirementError`] for the first requirement that makes no sense.
    pub fn from_written<'a>(
        written: impl IntoIterator<Item = &'a NodeSelectorRequirement>,
    ) -> Result<Self, RequirementError> {
        let mut all = Self::new();
        for one in written {
            all.add(&one.key, Requirement::from_written(one)?);
        }
        Ok(all)
    }

    /// Exact values: the labels of a node, or the demands of a node selector.
    #[must_use]
    pub fn from_labels(labels: &BTreeMap<String, String>) -> Self {
        let mut all = Self::new();
        for (key, value) in labels {
            all.add(key, Requirement::one_of([value.as_str()]));
        }
        all
    }

    pub fn add(&mut self, key: &str, requirement: Requirement) {
        let key = labels::stable(key);
        match self.0.get_mut(key) {
            Some(own) => *own = own.intersect(&requirement),
            None => {
                self.0.insert(key.to_owned(), requirement);
            }
        }
    }

    /// Narrows every key of `other`.
    pub fn intersect(&mut self, other: &Self) {
        for (key, requirement) in &other.0 {
            self.add(key, requirement.clone());
        }
    }

    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.0.get(key)
    }

    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Keys and requirements in order of key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Requirement)> {
        self.0.iter().map(|(key, requirement)| (key.as_str(), requirement))
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if nothing is required.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that keys that both have can be satisfied together; two that may be absent always can.
    ///
    /// # Errors
    /// [`Incompatible::Conflict`] on the first key in order that cannot.
    pub fn intersects(&self, other: &Self) -> Result<(), Incompatible> {
        for (key, wanted) in &other.0 {
            let Some(own) = self.0.get(key) else { continue };
            if own.intersects(wanted) || (own.allows_absence() && wanted.allows_absence()) {
                continue;
            }
            return Err(Incompatible::Conflict {
                key: key.clone(),
                wanted: describe(key, wanted),
                offered: describe(key, own),
            });
        }
        Ok(())
    }

    /// Checks that a node with the requirements `self` may satisfy `wanted`: its keys are defined here, allowed to be
    /// undefined, or may be absent, and [`Self::intersects`] holds.
    ///
    /// # Errors
    /// [`Incompatible`] on the first key that stands in the way.
    pub fn compatible(&self, wanted: &Self, allowed_undefined: &BTreeSet<String>) -> Result<(), Incompatible> {
        for (key, requirement) in &wanted.0 {
            if self.0.contains_key(key) || allowed_undefined.contains(key) || requirement.allows_absence() {
                continue;
            }
            let known = self.0.keys().chain(allowed_undefined).map(String::as_str);
            return Err(Incompatible::Undefined { key: key.clone(), hint: likely_typo(key, known) });
        }
        self.intersects(wanted)
    }

    /// Writes all requirements, in order of key.
    #[must_use]
    pub fn to_written(&self) -> Vec<NodeSelectorRequirement> {
        let mut out = Vec::with_capacity(self.0.len());
        for (key, requirement) in &self.0 {
            requirement.to_written(key, &mut out);
        }
        out
    }
}

impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, written) in self.to_written().iter().enumerate() {
            write!(f, "{}{written}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// One requirement as a person writes it.
#[must_use]
pub fn describe(key: &str, requirement: &Requirement) -> String {
    let mut written = Vec::new();
    requirement.to_written(key, &mut written);
    written.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// The known key that `key` was probably meant to be: the same name in another domain, or one within a few edits.
#[must_use]
pub fn likely_typo<'a>(key: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let name = |key: &'a str| key.rsplit('/').next().unwrap_or(key);
    let own = key.rsplit('/').next().unwrap_or(key);
    known
        .into_iter()
        .filter(|other| *other != key)
        .filter_map(|other| {
            let pod_anti_affinity = edits(key, other).min(if name(other) == own { 1 } else { usize::MAX });
            (pod_anti_affinity <= (key.len() / 6).clamp(1, 3)).then_some((pod_anti_affinity, other))
        })
        .min()
        .map(|(_, other)| other.to_owned())
}

/// Levenshtein distance; `usize::MAX` for texts of very different or absurd length.
fn edits(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > 3 || a.len() > 253 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
