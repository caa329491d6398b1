//! Reasons why a pod is unschedulable, for people and for programs.

use std::fmt;

use serde::Serialize;

use crate::expendable::ExpendableCutoff;
use crate::pod::NOT_SUPPORTED;

/// The reason why a pod is unschedulable.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Reason {
    NoNodePool,
    /// The pod itself is invalid.
    Invalid {
        /// The error, as a sentence.
        problem: String,
    },
    /// A rule that packing does not know yet; the pod is never placed in breach of it.
    Unsupported {
        /// The pod's rule, in the words of its reason and without its ending.
        rule: String,
    },
    /// Its priority is below the cutoff of pods that are worth a node: it waits for room that is left.
    Expendable {
        /// The pod's priority.
        priority: i32,
        /// The setting `EXPENDABLE_PODS_PRIORITY_CUTOFF`.
        cutoff: ExpendableCutoff,
    },
    /// Packing itself fails where this pod takes part: it is left out, so that the others go on.
    PackingFailed {
        error: String,
    },
    /// No NodePool can give it a node.
    NoPoolFits {
        /// One entry a pool, the nearest first; of equally near ones in the order in which they are tried.
        pools: Vec<PoolReason>,
    },
}

/// The reason why one pool cannot give a pod a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolReason {
    /// The NodePool's name.
    pub pool: String,
    /// The rule that keeps the pod off the pool.
    pub rule: Rule,
    /// Details of the rule here, as a sentence.
    pub detail: String,
    /// Number of instance types of the pool.
    pub instance_types: usize,
    /// Number of them that each rule removes, one rule after the other.
    pub removed: Vec<Removed>,
}

/// Number of instance types that a rule removes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    pub rule: Rule,
    /// Number of instance types that it removes of those that the rules before it left.
    pub instance_types: usize,
}

/// A rule that can keep a pod from a pool's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// The pool itself is invalid, or may not be used now.
    Pool,
    /// A taint that the pod does not tolerate.
    Taints,
    /// A label that nodes of the pool do not have.
    UndefinedLabel,
    /// Node selector or node affinity against the pool's requirements.
    Requirements,
    /// Node selector or node affinity against the instance types.
    InstanceTypes,
    /// The places of the pod's volumes.
    Volumes,
    /// No offering is available in the zones and capacity types left.
    Offerings,
    /// The pod, with the daemons, is larger than the instance types.
    Resources,
    Limits,
    /// The dollars an hour that the pool's nodes may cost together.
    MaxCost,
    /// A CapacityQuota, over the nodes of several pools.
    Quota,
    /// The pool demands more distinct values than the instance types left offer.
    MinValues,
    /// Topology spread, pod affinity or pod anti-affinity.
    Topology,
    /// All rules together: each leaves instance types, but none is left by all.
    Together,
}

impl Rule {
    /// Advice on what can be done about it.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Pool => "mend what is named; kubectl describe of the NodePool and its EC2NodeClass says more",
            Self::Taints => "let the pod tolerate the taint, or have a NodePool without it",
            Self::UndefinedLabel | Self::Requirements | Self::InstanceTypes => {
                "change what the pod selects, or have a NodePool whose nodes are like that"
            }
            Self::Volumes => {
                "let the NodePool use the volumes' zone, with a subnet of its EC2NodeClass there, or restore the volumes in another zone"
            }
            Self::Offerings => "allow more instance types, zones or capacity types, or end the cause that is named",
            Self::Resources => "allow larger instance types in the NodePool, or request less",
            Self::Limits => "raise spec.limits of the NodePool",
            Self::MaxCost => {
                "raise the annotation dovetail.dev/max-cost-per-hour of the NodePool, or allow cheaper instance types"
            }
            Self::Quota => "raise spec.limits.resources of the CapacityQuota",
            Self::MinValues => "lower minValues, or allow more instance types in the NodePool",
            Self::Topology => "loosen the pod's topology rules, or allow more zones",
            Self::Together => "loosen what the pod asks for, or allow more in the NodePool",
        }
    }

    /// The rule in a word or two.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Taints => "taints",
            Self::UndefinedLabel => "undefined label",
            Self::Requirements => "requirements",
            Self::InstanceTypes => "instance types",
            Self::Volumes => "volumes",
            Self::Offerings => "offerings",
            Self::Resources => "resources",
            Self::Limits => "limits",
            Self::MaxCost => "max cost",
            Self::Quota => "quota",
            Self::MinValues => "minValues",
            Self::Topology => "topology",
            Self::Together => "all rules together",
        }
    }
}

impl Reason {
    /// Reasons of the pools, the nearest first; none where no pool is in the way.
    #[must_use]
    pub fn pools(&self) -> &[PoolReason] {
        match self {
            Self::NoPoolFits { pools } => pools,
            _ => &[],
        }
    }

    /// A remedy for the pool that comes nearest, which is the first. Empty where the reason says it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoNodePool => "create a NodePool",
            Self::Expendable { .. } => "give it a higher priority (priorityClassName), or lower the setting",
            Self::NoPoolFits { pools } => pools.first().map_or("", |pool| pool.rule.remedy()),
            Self::Invalid { .. } | Self::Unsupported { .. } | Self::PackingFailed { .. } => "",
        }
    }
}

/// One sentence; several pools are joined by semicolons.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodePool => f.write_str("no NodePool exists"),
            Self::Expendable { priority, cutoff } => write!(
                f,
                "no node is launched for it: its priority {priority} is below EXPENDABLE_PODS_PRIORITY_CUTOFF, {}; it runs where \
                 room is left",
                cutoff.text()
            ),
            Self::Invalid { problem } => f.write_str(problem),
            Self::Unsupported { rule } => write!(f, "{rule}{NOT_SUPPORTED}"),
            Self::PackingFailed { error } => write!(f, "it is left out, as with it {error}"),
            Self::NoPoolFits { pools } => {
                for (at, pool) in pools.iter().enumerate() {
                    write!(f, "{}{pool}", if at == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for PoolReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {}: {}", self.pool, self.detail)?;
        let removed: Vec<_> = self.removed.iter().filter(|removed| removed.instance_types > 0).collect();
        if removed.iter().any(|removed| removed.rule != self.rule) {
            let each: Vec<_> = removed
                .iter()
                .map(|removed| format!("{} by {}", removed.instance_types, removed.rule.name()))
                .collect();
            write!(f, " (of {} instance types: {})", self.instance_types, each.join(", "))?;
        }
        Ok(())
    }
}
