//! Observable facts about a side: nodes that come and go, pods that wait and get their places.

use serde::Serialize;

/// One of the two provisioners that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// The provisioner that runs in the cluster.
    Active,
    /// Dovetail, as if it had run there.
    Shadow,
}

impl Side {
    /// Its name, as a label of metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Shadow => "shadow",
        }
    }
}

/// A node of a NodePool, from its launch on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowNode {
    /// Name of its NodeClaim.
    pub claim: String,
    /// Name of its NodePool.
    pub node_pool: String,
    /// Instance type, such as `m5.large`.
    pub instance_type: String,
    /// Zone, such as `us-east-1a`.
    pub zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: String,
    /// Price in $/h; `None` if no price is known.
    pub price_per_hour: Option<f64>,
    /// Number of pods that it was launched for, those of DaemonSets among them; `None` if its NodeClaim does not say.
    pub pods: Option<u64>,
    /// Number of instance types that it could have been.
    pub options: usize,
    /// True if it was there when the shadow began: launched by neither side.
    pub before: bool,
}

/// One fact about a side.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// A node was launched, or is there from before.
    Launched(ShadowNode),
    /// A node is about to go, with the reason.
    Leaves {
        /// Name of its NodeClaim.
        claim: String,
        /// The reason in Karpenter's words: `Empty`, `Underutilized`, …
        reason: String,
    },
    /// A node is gone, and no longer paid for.
    Gone {
        /// Name of its NodeClaim.
        claim: String,
    },
    /// A pod has no node.
    Waits {
        /// The pod, as `namespace/name`.
        pod: String,
    },
    /// A pod has got a node.
    Placed {
        /// The pod, as `namespace/name`.
        pod: String,
        /// The node's NodeClaim; none where the node is of no NodePool.
        claim: Option<String>,
    },
    /// A pod has ended, or is gone.
    Ended {
        /// The pod, as `namespace/name`.
        pod: String,
    },
    Evicted {
        /// The pod, as `namespace/name`.
        pod: String,
    },
}

/// A decision of a side, as a fact shows it for the first time.
#[derive(Clone, Debug, PartialEq)]
pub enum SideDecision {
    Launch(ShadowNode),
    Remove { machine: ShadowNode, reason: String },
}
