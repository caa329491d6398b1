//! Writes of the disruptor: status of claims and pools, an annotation of Nodes. Each rests on what it changes and on nothing else
//! of the object, and is derived anew at the next look if it fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::annotations::{EMPTINESS_TIMESTAMP, OBSERVED_ALLOCATABLE, UNUSED_LAUNCHES};
use dovetail_api::names::taints;
use dovetail_api::v1::{EC2NodeClass, NodeClaim, NodePool};
use dovetail_core::disruption::commands::HeldClaim;
use dovetail_core::disruption::drift::{DriftMark, HashStamp};
use dovetail_core::disruption::repair::{RebootOrder, RepairMark};
use dovetail_core::disruption::succession::SuccessionMark;
use dovetail_core::disruption::{PoolNote, PoolUsage, StatusMark, TtlMark};
use dovetail_core::lifecycle::claim::to_quantities;
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{DisruptorLinks, reboot};
use crate::kube::calls::CallError;
use crate::kube::claims::NodeClaimApi;
use crate::kube::node_classes::NodeClassApi;
use crate::kube::nodes::Nodes;
use crate::messages::Wrote;
use crate::reading::LenientApi;

/// Claims of a command that are written at the same time.
const MOST_HELD: usize = 16;

/// Something to be written.
pub(super) enum Write {
    Ttl(TtlMark),
    /// A Node loses the taint of disruption.
    Untaint {
        /// The Node's `metadata.name`.
        node: String,
        /// The Node's uid: one of the same name that was made anew is not written to.
        uid: String,
    },
    /// A Node whose replacement is under way gets it: no new pod comes to be moved again.
    Taint {
        /// The Node's `metadata.name`.
        node: String,
        /// The Node's uid: one of the same name that was made anew is not written to.
        uid: String,
    },
    /// A claim's status.
    Mark {
        /// The claim as it stands.
        claim: Arc<NodeClaim>,
        /// Condition to set.
        mark: StatusMark,
    },
    /// A claim's condition Drifted.
    Drift {
        /// The claim as it stands.
        claim: Arc<NodeClaim>,
        /// Condition of drift to set.
        mark: DriftMark,
    },
    /// A claim's condition that its node is being repaired.
    Repair {
        /// The claim as it stands.
        claim: Arc<NodeClaim>,
        /// Repair to write on it.
        mark: RepairMark,
    },
    /// A claim's condition that it waits for its successor.
    Succession {
        /// The claim as it stands.
        claim: Arc<NodeClaim>,
        /// Condition to set, or to take off.
        mark: SuccessionMark,
    },
    /// A step of a reboot, on the claim or its Node.
    Reboot {
        /// The claim as it stands.
        claim: Arc<NodeClaim>,
        order: RebootOrder,
    },
    /// A claim's hashes.
    Stamp {
        /// The claim as it stands.
        claim: Arc<NodeClaim>,
        /// Hashes to write on it.
        stamp: HashStamp,
    },
    /// Writes the total resources of a pool's nodes.
    Usage {
        /// The pool as it stands.
        pool: Arc<NodePool>,
        /// Totals for the status.
        usage: PoolUsage,
    },
    /// Writes the outcome of a pool's launches.
    Unused {
        /// The pool as it stands.
        pool: Arc<NodePool>,
        /// New value of the annotation.
        text: String,
    },
    /// Writes or takes off an annotation of a pool for the next leader.
    Note {
        /// The pool as it stands.
        pool: Arc<NodePool>,
        note: PoolNote,
    },
    /// Writes the allocatable resources that a class's nodes really have.
    Observed {
        /// The class as it stands.
        class: Arc<EC2NodeClass>,
        /// New value of the annotation.
        text: String,
    },
}

impl Write {
    /// Name of the write, by which refusals are counted: a refusal says nothing of other objects or of other writes to this one.
    pub fn what(&self) -> String {
        let what = match self {
            Self::Ttl(_) => "writing the TTL of",
            Self::Untaint { .. } => "untainting",
            Self::Taint { .. } => "tainting",
            Self::Mark { .. } => "writing what disruption says of",
            Self::Drift { .. } => "writing the drift of",
            Self::Repair { .. } => "writing the repair of",
            Self::Succession { .. } => "writing the succession of",
            Self::Reboot { .. } => "writing the reboot of",
            Self::Stamp { .. } => "writing the hashes of",
            Self::Usage { .. } => "writing the resources of",
            Self::Unused { .. } => "writing the unused launches of",
            Self::Note { note: PoolNote { key, .. }, .. } => return format!("writing {key} of {}", self.object()),
            Self::Observed { .. } => "writing the observed allocatable of",
        };
        format!("{what} {}", self.object())
    }

    pub fn object(&self) -> String {
        match self {
            Self::Ttl(TtlMark { node, .. }) | Self::Untaint { node, .. } | Self::Taint { node, .. } => {
                format!("node/{node}")
            }
            Self::Mark { mark, .. } => format!("nodeclaim/{}", mark.claim),
            Self::Drift { mark, .. } => format!("nodeclaim/{}", mark.claim),
            Self::Repair { mark, .. } => format!("nodeclaim/{}", mark.disrupted.claim),
            Self::Reboot { order, .. } => format!("nodeclaim/{}", order.disrupted.claim),
            Self::Succession { mark, .. } => format!("nodeclaim/{}", mark.disrupted.claim),
            Self::Stamp { stamp, .. } => format!("nodeclaim/{}", stamp.claim),
            Self::Usage { pool, .. } | Self::Unused { pool, .. } | Self::Note { pool, .. } => {
                format!("nodepool/{}", pool.name_any())
            }
            Self::Observed { class, .. } => format!("nodeclass/{}", class.name_any()),
        }
    }
}

/// Writes it, and tells the cluster state the answer. What fails is seen again at a later look.
///
/// # Errors
/// As [`Calls::run`](crate::kube::calls::Calls::run).
pub(super) async fn write(links: DisruptorLinks, write: Write, now: Timestamp) -> Result<(), CallError> {
    let wrote = match write {
        Write::Ttl(mark) => {
            let api = LenientApi::<Node>::all(links.calls.client.clone());
            let since = mark.since.map(|since| since.to_string());
            let patch = json!({"metadata": {"uid": mark.uid, "annotations": {EMPTINESS_TIMESTAMP: since}}});
            links.calls.merge(&api, &mark.node, patch).await.map(|node| Wrote::Node(Arc::new(node)))
        }
        Write::Untaint { node, uid } => untaint(&links, &node, &uid).await.map(|node| Wrote::Node(Arc::new(node))),
        Write::Taint { node, uid } => taint(&links, &node, &uid).await.map(|node| Wrote::Node(Arc::new(node))),
        Write::Mark { claim, mark } => change_status(&links, &claim, |claim| mark.on(claim, now)).await,
        Write::Drift { claim, mark } => change_status(&links, &claim, |claim| mark.on(claim, now)).await,
        Write::Repair { claim, mark } => change_status(&links, &claim, |claim| mark.on(claim, now)).await,
        Write::Succession { claim, mark } => change_status(&links, &claim, |claim| mark.on(claim, now)).await,
        Write::Reboot { claim, order } => return reboot::write_step(&links, &claim, &order, now).await,
        Write::Stamp { claim, stamp } => {
            // A refused write is tried again ever later (`dovetail_core::disruption::drift`).
            let written = NodeClaimApi::new(links.calls.clone())
                .change_metadata((*claim).clone(), |claim| stamp.put_on(claim))
                .await;
            written.map(|claim| Wrote::Claim(Arc::new(claim)))
        }
        Write::Usage { pool, usage } => {
            let api = LenientApi::<NodePool>::all(links.calls.client.clone());
            let written = links.calls.merge_status(&api, &pool.name_any(), of_status(&pool, &usage)).await;
            written.map(|pool| Wrote::Pool(Box::new(pool)))
        }
        Write::Unused { pool, text } => {
            let api = LenientApi::<NodePool>::all(links.calls.client.clone());
            let patch = json!({"metadata": {"uid": pool.uid(), "annotations": {UNUSED_LAUNCHES: text}}});
            links.calls.merge(&api, &pool.name_any(), patch).await.map(|pool| Wrote::Pool(Box::new(pool)))
        }
        Write::Note { pool, note } => {
            let api = LenientApi::<NodePool>::all(links.calls.client.clone());
            let patch = json!({"metadata": {"uid": pool.uid(), "annotations": {note.key: note.text}}});
            links.calls.merge(&api, &note.pool, patch).await.map(|pool| Wrote::Pool(Box::new(pool)))
        }
        Write::Observed { class, text } => {
            let api = NodeClassApi::new(&links.calls);
            let patch = json!({"metadata": {"uid": class.uid(), "annotations": {OBSERVED_ALLOCATABLE: text}}});
            api.merge(&class.name_any(), patch).await.map(|class| Wrote::Class(Box::new(class)))
        }
    };
    links.calls.env.post(&links.cluster, wrote?);
    Ok(())
}

async fn change_status(
    links: &DisruptorLinks,
    claim: &NodeClaim,
    change: impl Fn(&NodeClaim) -> NodeClaim,
) -> Result<Wrote, CallError> {
    let written = NodeClaimApi::new(links.calls.clone()).change_status(claim.clone(), change).await;
    written.map(|claim| Wrote::Claim(Arc::new(claim)))
}

/// Writes a command on the claims that it holds, and taints their Nodes so that nothing new comes to them.
///
/// # Errors
/// The first that cannot be written; what is written then is taken back at a later look, as nobody holds it.
pub(super) async fn hold(
    links: DisruptorLinks,
    held: Vec<(Arc<NodeClaim>, HeldClaim, String, String)>,
    now: Timestamp,
) -> Result<(), CallError> {
    let writing = held.into_iter().map(|(claim, held, node, uid)| {
        let links = links.clone();
        async move {
            let node = taint(&links, &node, &uid).await?;
            links.calls.env.post(&links.cluster, Wrote::Node(Arc::new(node)));
            let claims = NodeClaimApi::new(links.calls.clone());
            let written = claims.change_status(NodeClaim::clone(&claim), |claim| held.on(claim, now)).await?;
            links.calls.env.post(&links.cluster, Wrote::Claim(Arc::new(written)));
            Ok(())
        }
    });
    futures::stream::iter(writing).buffered(MOST_HELD).try_for_each(|()| futures::future::ready(Ok(()))).await
}

/// Taints a Node, unless another has its name by now.
async fn taint(links: &DisruptorLinks, name: &str, uid: &str) -> Result<Node, CallError> {
    let nodes = Nodes::new(links.calls.clone());
    let there = nodes.get(name).await?;
    if there.uid().as_deref() != Some(uid) {
        return Err(CallError::NotFound(name.to_owned()));
    }
    nodes.change(there, tainted).await
}

/// The Node with the taint; `None` where it has it.
fn tainted(node: &Node) -> Option<Node> {
    let taint = taints::disrupted();
    let has =
        |node: &Node| node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(|one| one.key == taint.key);
    if has(node) || node.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut wanted = node.clone();
    wanted.spec.get_or_insert_default().taints.get_or_insert_default().push(taints::disrupted());
    Some(wanted)
}

/// The Node without the taint, resting on the version read.
async fn untaint(links: &DisruptorLinks, name: &str, uid: &str) -> Result<Node, CallError> {
    let nodes = Nodes::new(links.calls.clone());
    let node = nodes.get(name).await?;
    if node.uid().as_deref() != Some(uid) || node.metadata.deletion_timestamp.is_some() {
        return Err(CallError::NotFound(name.to_owned()));
    }
    let mut wanted = node.clone();
    if let Some(all) = wanted.spec.as_mut().and_then(|spec| spec.taints.as_mut()) {
        all.retain(|taint| !taints::is_of_disruption(&taint.key));
    }
    nodes.write(&node, &wanted).await
}

/// The usage as a patch of the pool's status: resources that nobody has any more are taken out.
fn of_status(pool: &NodePool, usage: &PoolUsage) -> Value {
    let written = pool.status.as_ref().map(|status| &status.resources);
    let mut resources: BTreeMap<String, Value> =
        written.into_iter().flatten().map(|(name, _)| (name.clone(), Value::Null)).collect();
    resources.extend(to_quantities(&usage.resources).into_iter().map(|(name, amount)| (name, json!(amount))));
    json!({"metadata": {"uid": pool.uid()}, "status": {"resources": resources, "nodes": usage.nodes()}})
}
