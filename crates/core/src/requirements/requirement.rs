//! The requirement on one label key: a set of values or all but a set, within bounds.

use std::collections::BTreeSet;

use dovetail_api::names::syntax::is_label_value;

use crate::labels::NODE_NAME_FIELD;

use super::written::{NodeSelectorRequirement, Operator, RequirementError};

/// True if a label can have the value; nodes' own names, to which `matchFields` refer, may be longer.
fn is_possible(key: &str, value: &str) -> bool {
    key == NODE_NAME_FIELD || is_label_value(value)
}

/// The values that one key may take (spec core 3.5). Either exactly `values`, or, as a complement, everything but `values`,
/// within the inclusive bounds. The empty set means that the label must not be there, or, if something else asked for it to
/// be there (`present`), that no node will do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    complement: bool,
    values: BTreeSet<String>,
    gte: Option<i64>,
    lte: Option<i64>,
    /// True if a node without the label is out: any operator but `NotIn` and `DoesNotExist` has been applied.
    present: bool,
    min_values: Option<u32>,
}

impl Requirement {
    /// Everything: the label exists, whatever its value.
    #[must_use]
    pub fn exists() -> Self {
        Self { complement: true, values: BTreeSet::new(), gte: None, lte: None, present: true, min_values: None }
    }

    /// The label must not be there.
    #[must_use]
    pub fn does_not_exist() -> Self {
        Self { complement: false, present: false, ..Self::exists() }
    }

    /// Exactly one of these values.
    #[must_use]
    pub fn one_of<V: Into<String>>(values: impl IntoIterator<Item = V>) -> Self {
        Self { complement: false, values: values.into_iter().map(Into::into).collect(), ..Self::exists() }
    }

    /// Reads a written requirement.
    ///
    /// # Errors
    /// [`RequirementError`] when the values do not suit the operator.
    pub fn from_written(written: &NodeSelectorRequirement) -> Result<Self, RequirementError> {
        let NodeSelectorRequirement { key, operator, values, min_values } = written;
        if key.is_empty() {
            return Err(RequirementError::NoKey);
        }
        let mut requirement = match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                return Err(RequirementError::NoValues { key: key.clone(), operator: *operator });
            }
            // Kubernetes lets a pod's affinity ask for values that no label can have: no node has them, and no claim could
            // carry them as labels.
            Operator::In => Self::one_of(values.iter().filter(|value| is_possible(key, value)).cloned()),
            Operator::NotIn => Self { complement: true, present: false, ..Self::one_of(values.iter().cloned()) },
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                return Err(RequirementError::NeedsNoValues { key: key.clone(), operator: *operator });
            }
            Operator::Exists => Self::exists(),
            Operator::DoesNotExist => Self::does_not_exist(),
            Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => Self::bounded(key, *operator, values)?,
        };
        if let Some(least) = *min_values {
            let problem = match operator {
                _ if least == 0 => Some("is too small (allowed: 1 and more)"),
                Operator::In if (least as usize) > requirement.values.len() => {
                    Some("is more than the values listed (allowed: at most their number)")
                }
                _ => None,
            };
            if let Some(problem) = problem {
                return Err(RequirementError::MinValues { key: key.clone(), min_values: least, problem });
            }
            requirement.min_values = Some(least);
        }
        Ok(requirement)
    }

    fn bounded(key: &str, operator: Operator, values: &[String]) -> Result<Self, RequirementError> {
        let bound = match values {
            [value] => value.parse::<i64>().ok(),
            _ => None,
        };
        let bound = bound.ok_or_else(|| RequirementError::NotAnInteger {
            key: key.to_owned(),
            operator,
            values: values.to_vec(),
        })?;
        let (gte, lte) = match operator {
            Operator::Gt => (bound.checked_add(1), None),
            Operator::Lt => (None, bound.checked_sub(1)),
            Operator::Gte => (Some(bound), None),
            _ => (None, Some(bound)),
        };
        // Nothing is above the largest integer or below the smallest.
        if gte.is_none() && lte.is_none() {
            return Ok(Self { present: true, ..Self::does_not_exist() });
        }
        Ok(Self { gte, lte, ..Self::exists() })
    }

    /// True if a label with this value satisfies the requirement.
    #[must_use]
    pub fn has(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && self.within(value)
    }

    /// True if no value satisfies it: the label must not be there, if [`Self::allows_absence`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.complement && self.values.is_empty()
    }

    /// True if a node without the label satisfies it: only `NotIn` and `DoesNotExist` have been applied.
    #[must_use]
    pub fn allows_absence(&self) -> bool {
        !self.present
    }

    /// The values that both allow. `minValues` becomes the larger one.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let gte = self.gte.max(other.gte);
        let lte = match (self.lte, other.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let min_values = self.min_values.max(other.min_values);
        let present = self.present || other.present;
        if let (Some(least), Some(most)) = (gte, lte)
            && least > most
        {
            return Self { present, min_values, ..Self::does_not_exist() };
        }
        let values: BTreeSet<String> = match (self.complement, other.complement) {
            (true, true) => self.values.union(&other.values).cloned().collect(),
            (true, false) => other.values.difference(&self.values).cloned().collect(),
            (false, true) => self.values.difference(&other.values).cloned().collect(),
            (false, false) => self.values.intersection(&other.values).cloned().collect(),
        };
        let complement = self.complement && other.complement;
        let bounds = Self { complement: true, values: BTreeSet::new(), gte, lte, present, min_values };
        // Values outside the bounds have no effect; a concrete set needs no bounds any more.
        let values = values.into_iter().filter(|value| bounds.within(value)).collect();
        if complement {
            Self { values, ..bounds }
        } else {
            Self { values, present, min_values, ..Self::does_not_exist() }
        }
    }

    /// True if any value satisfies both.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        match (self.complement, other.complement) {
            (false, _) => self.values.iter().any(|value| self.within(value) && other.has(value)),
            (_, false) => other.values.iter().any(|value| other.within(value) && self.has(value)),
            // Both leave all but finitely many values, unless bounds close the gap between them.
            (true, true) => {
                let both = self.intersect(other);
                !both.is_empty() && both.within_gap()
            }
        }
    }

    /// True if the bounds of a complement leave an integer that is not excluded.
    fn within_gap(&self) -> bool {
        let (Some(least), Some(most)) = (self.gte, self.lte) else {
            return true;
        };
        let width = i128::from(most) - i128::from(least) + 1;
        width > self.values.len() as i128 || (least..=most).any(|value| !self.values.contains(&value.to_string()))
    }

    fn within(&self, value: &str) -> bool {
        if self.gte.is_none() && self.lte.is_none() {
            return true;
        }
        value
            .parse::<i64>()
            .is_ok_and(|value| self.gte.is_none_or(|least| value >= least) && self.lte.is_none_or(|most| value <= most))
    }

    /// The operator that describes it best; a bounded requirement is `Gte` or `Lte`.
    #[must_use]
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (false, true) => Operator::DoesNotExist,
            (false, false) => Operator::In,
            (true, _) if self.gte.is_some() => Operator::Gte,
            (true, _) if self.lte.is_some() => Operator::Lte,
            (true, true) => Operator::Exists,
            (true, false) => Operator::NotIn,
        }
    }

    /// The values of the set, or those that a complement excludes, in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.iter().map(String::as_str)
    }

    /// The only value allowed, if there is exactly one.
    #[must_use]
    pub fn single(&self) -> Option<&str> {
        if self.complement || self.values.len() != 1 { None } else { self.values.first().map(String::as_str) }
    }

    /// True if everything but `values` is meant.
    #[must_use]
    pub fn is_complement(&self) -> bool {
        self.complement
    }

    /// The smallest integer allowed, the largest integer allowed.
    #[must_use]
    pub fn bounds(&self) -> (Option<i64>, Option<i64>) {
        (self.gte, self.lte)
    }

    /// Number of distinct values that the remaining instance types must offer.
    #[must_use]
    pub fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// The requirement without a demand for distinct values.
    #[must_use]
    pub fn without_min_values(mut self) -> Self {
        self.min_values = None;
        self
    }

    /// The requirement with another demand for distinct values.
    #[must_use]
    pub fn with_min_values(mut self, least: u32) -> Self {
        self.min_values = Some(least);
        self
    }

    /// Writes the requirement: both bounds give `Gte` and `Lte`, and excluded values within them a `NotIn` besides.
    pub fn to_written(&self, key: &str, out: &mut Vec<NodeSelectorRequirement>) {
        let first = out.len();
        let mut push = |operator, values: Vec<String>| {
            out.push(NodeSelectorRequirement { key: key.to_owned(), operator, values, min_values: None });
        };
        let listed = || self.values.iter().cloned().collect::<Vec<_>>();
        match (self.complement, self.values.is_empty()) {
            (false, true) => push(Operator::DoesNotExist, vec![]),
            (false, false) => push(Operator::In, listed()),
            (true, false) => {
                push(Operator::NotIn, listed());
                if self.present && self.gte.is_none() && self.lte.is_none() {
                    push(Operator::Exists, vec![]);
                }
            }
            (true, true) if self.gte.is_none() && self.lte.is_none() => push(Operator::Exists, vec![]),
            (true, true) => {}
        }
        if let Some(least) = self.gte {
            push(Operator::Gte, vec![least.to_string()]);
        }
        if let Some(most) = self.lte {
            push(Operator::Lte, vec![most.to_string()]);
        }
        out[first].min_values = self.min_values;
    }
}
