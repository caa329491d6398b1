//! What can be seen of a side: nodes that come and go, pods that wait and get their places.

use serde::Serialize;

/// Who did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// The provisioner that runs in the cluster.
    Active,
    /// We, had we run there.
    Shadow,
}

impl Side {
    /// As a label of metrics.
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
    /// `m5.large`.
    pub instance_type: String,
    /// `us-east-1a`.
    pub zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: String,
    /// $/h; none where no price is known.
    pub price_per_hour: Option<f64>,
    /// How many pods it was launched for, those of DaemonSets among them; none where its NodeClaim does not say.
    pub pods: Option<u64>,
    /// How many instance types it could have been.
    pub options: usize,
    /// There when the shadow began: launched by neither side.
    pub before: bool,
}

/// One thing that was seen of a side.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// A node was launched, or is there from before.
    Launched(ShadowNode),
    /// A node is about to go, and why.
    Leaves {
        /// Name of its NodeClaim.
        claim: String,
        /// As Karpenter words it: `Empty`, `Underutilized`, …
        reason: String,
    },
    /// A node is gone, and no longer paid for.
    Gone {
        /// Name of its NodeClaim.
        claim: String,
    },
    /// A pod has no node.
    Waits {
        /// `namespace/name`.
        pod: String,
    },
    /// A pod has got a node.
    Placed {
        /// `namespace/name`.
        pod: String,
        /// The node's NodeClaim; none where the node is of no NodePool.
        claim: Option<String>,
    },
    /// A pod has ended, or is gone.
    Ended {
        /// `namespace/name`.
        pod: String,
    },
    /// A pod has been evicted.
    Evicted {
        /// `namespace/name`.
        pod: String,
    },
}

/// What a side has decided, as a fact shows it for the first time.
#[derive(Clone, Debug, PartialEq)]
pub enum SideDecision {
    /// To launch a node.
    Launch(ShadowNode),
    /// To remove a node.
    Remove {
        /// Which.
        machine: ShadowNode,
        /// Why.
        reason: String,
    },
}
