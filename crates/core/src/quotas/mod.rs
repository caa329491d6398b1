//! Quotas on the capacity of nodes with certain labels, whichever pool makes them (CapacityQuota, docs/decisions/081).
//!
//! ```text
//! CapacityQuota ──► Quota (or a fault) ──┐
//! Nodes, and claims on their way ────────┴─► usage ──► packing: one more limit of each pool whose nodes may count
//! ```
//!
//! Invariants: QTA-1 nodes and claims on their way never have more than a quota allows by a launch of ours that was planned under
//! it; QTA-2 nothing is ended for a quota; QTA-3 each quota holds for itself, whatever others allow; QTA-4 without quotas nothing
//! is looked at.

mod book;
mod selector;
mod verdict;

use dovetail_api::autoscaling::CapacityQuota;
use serde::{Deserialize, Serialize};

pub use book::{MOST_QUOTAS, QuotaBook, WrittenQuota};
pub use selector::{QuotaSelector, comes_with_a_node, is_ruled_out};
pub use verdict::{QuotaVerdict, judge_quota};

use crate::requirements::{NodeSelectorRequirement, Operator, Requirements};
use crate::resources::{NODES, Resources, parse_amount};

/// Most resources of a quota, as in the CRD.
const MOST_RESOURCES: usize = 20;
/// Most labels that a selector names.
const MOST_LABELS: usize = 100;

/// A quota as packing sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Quota {
    /// `metadata.name`.
    pub name: String,
    /// Labels of the nodes that count; none for all nodes.
    #[serde(default)]
    pub selector: Vec<NodeSelectorRequirement>,
    /// Most that these nodes have together, `nodes` included.
    pub limits: Resources,
    /// Resources that they have now, or may get.
    #[serde(default)]
    pub usage: Resources,
}

impl Quota {
    /// Reads a quota. The API server checks the amounts; an older CRD, or operators of a selector, it does not.
    ///
    /// # Errors
    /// The part that cannot be read, as a sentence without its end.
    pub fn from_object(object: &CapacityQuota) -> Result<Self, String> {
        let selector = selector_of(object)?;
        Requirements::from_written(&selector).map_err(|why| format!("spec.selector: {why}"))?;
        let amounts = &object.spec.limits.resources;
        if amounts.len() > MOST_RESOURCES {
            return Err(format!("spec.limits.resources: more than {MOST_RESOURCES}"));
        }
        let mut limits = Resources::new();
        for (name, written) in amounts {
            let amount =
                parse_amount(name, &written.0).map_err(|why| format!("spec.limits.resources.{name}: {why}"))?;
            limits.set(name.clone(), amount);
        }
        let name = object.metadata.name.clone().unwrap_or_default();
        Ok(Self { name, selector, limits, usage: Resources::new() })
    }

    /// Requirements on the labels of nodes that count; [`Quota::from_object`] has read them.
    #[must_use]
    pub fn wanted(&self) -> Requirements {
        Requirements::from_written(&self.selector).unwrap_or_default()
    }

    /// Amounts that a node of this capacity takes of the quota.
    #[must_use]
    pub fn taken(&self, capacity: &Resources) -> Resources {
        self.limits.iter().map(|(name, _)| (name.to_owned(), self.amount(capacity, name))).collect()
    }

    /// Amount that a node of this capacity takes of one of its resources.
    #[must_use]
    pub fn amount(&self, capacity: &Resources, name: &str) -> i64 {
        if name == NODES { 1 } else { capacity.get(name) }
    }
}

/// The selector of a quota, its `matchLabels` first.
fn selector_of(object: &CapacityQuota) -> Result<Vec<NodeSelectorRequirement>, String> {
    let Some(written) = &object.spec.selector else { return Ok(vec![]) };
    let labels = written.match_labels.iter().flatten();
    let mut selector: Vec<_> =
        labels.map(|(key, value)| NodeSelectorRequirement::one_of(key.clone(), [value.clone()])).collect();
    for one in written.match_expressions.iter().flatten() {
        let operator = Operator::named(&one.operator).filter(|operator| {
            matches!(operator, Operator::In | Operator::NotIn | Operator::Exists | Operator::DoesNotExist)
        });
        let Some(operator) = operator else {
            return Err(format!(
                "spec.selector: operator {:?} of {} (allowed: In, NotIn, Exists, DoesNotExist)",
                one.operator, one.key
            ));
        };
        selector.push(NodeSelectorRequirement::new(&one.key, operator, one.values.clone().unwrap_or_default()));
    }
    if selector.len() > MOST_LABELS {
        return Err(format!("spec.selector: names more than {MOST_LABELS} labels"));
    }
    Ok(selector)
}
