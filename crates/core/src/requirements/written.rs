//! Requirements as people write them: a key, an operator, values.

use std::fmt;

pub use dovetail_api::v1::NodeSelectorOperator as Operator;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One requirement as written in a NodePool, a NodeClaim, a pod's node affinity or an instance type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSelectorRequirement {
    /// The label's key.
    pub key: String,
    /// The relation of the values to the label's value.
    pub operator: Operator,
    /// The values: at least one for `In` and `NotIn`, one integer for the bounds, none for the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Number of distinct values that the remaining instance types must offer for the key (NodePools and NodeClaims only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<u32>,
}

impl NodeSelectorRequirement {
    /// A requirement without `minValues`.
    #[must_use]
    pub fn new<V: Into<String>>(
        key: impl Into<String>,
        operator: Operator,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        Self { key: key.into(), operator, values, min_values: None }
    }

    /// `key In [values]`.
    #[must_use]
    pub fn one_of<V: Into<String>>(key: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self::new(key, Operator::In, values)
    }

    /// A pod's requirement, whose operator is a plain string in the Kubernetes API.
    ///
    /// # Errors
    /// [`RequirementError::UnknownOperator`].
    pub fn from_kube(written: &k8s_openapi::api::core::v1::NodeSelectorRequirement) -> Result<Self, RequirementError> {
        let operator = Operator::named(&written.operator).ok_or_else(|| RequirementError::UnknownOperator {
            key: written.key.clone(),
            operator: written.operator.clone(),
        })?;
        Ok(Self::new(written.key.clone(), operator, written.values.iter().flatten().cloned()))
    }
}

/// `kubernetes.io/arch In [amd64, arm64]`.
impl fmt::Display for NodeSelectorRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operator {
            Operator::Exists | Operator::DoesNotExist => {
                write!(f, "{} {}", self.key, self.operator)
            }
            Operator::In | Operator::NotIn => {
                write!(f, "{} {} [{}]", self.key, self.operator, self.values.join(", "))
            }
            _ => write!(f, "{} {} {}", self.key, self.operator, self.values.join(", ")),
        }
    }
}

/// The reason that a requirement makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequirementError {
    /// The operator is not one of the eight.
    #[error(
        "requirement on {key}: unknown operator {operator:?} (allowed: In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte)"
    )]
    UnknownOperator {
        /// The key it was written for.
        key: String,
        /// The operator as written.
        operator: String,
    },
    /// `In` or `NotIn` without a value.
    #[error("requirement on {key}: operator {operator} needs at least one value")]
    NoValues {
        /// The key it was written for.
        key: String,
        /// `In` or `NotIn`.
        operator: Operator,
    },
    /// A value where none is allowed.
    #[error("requirement on {key}: operator {operator} takes no values")]
    NeedsNoValues {
        /// The key it was written for.
        key: String,
        /// `Exists` or `DoesNotExist`.
        operator: Operator,
    },
    /// A bound that is not one integer.
    #[error("requirement on {key}: operator {operator} needs one integer value, not [{}]", values.join(", "))]
    NotAnInteger {
        /// The key it was written for.
        key: String,
        /// `Gt`, `Lt` or one like them.
        operator: Operator,
        /// The values as written.
        values: Vec<String>,
    },
    /// `minValues` of zero, or above the number of values written.
    #[error("requirement on {key}: minValues {min_values} {problem}")]
    MinValues {
        /// The key it was written for.
        key: String,
        /// `minValues` as written.
        min_values: u32,
        /// The fault in it, and the allowed values.
        problem: &'static str,
    },
    /// A requirement without a key.
    #[error("requirement without a key (allowed: a label key such as kubernetes.io/arch)")]
    NoKey,
}
