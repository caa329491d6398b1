//! The steps of a node's end, each done and told; which one is next is decided by `dovetail_core::termination`.

use std::sync::Arc;

use dovetail_api::names::TERMINATION_FINALIZER;
use dovetail_api::names::annotations::{END_REASON, END_TRACEPARENT, TERMINATION_TIMESTAMP};
use dovetail_api::names::labels::CAPACITY_RESERVATION_ID;
use dovetail_api::v1::NodeClaim;
use dovetail_core::clock::later;
use dovetail_core::termination::instance::handle_of;
use dovetail_core::termination::reports::reason::end_reason;
use dovetail_core::termination::{ClaimCondition, node, with};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::TerminatorLinks;
use super::left::left_on;
use super::removal::is_deleting as goes;
use crate::context::env::Env;
use crate::context::{measures, traces};
use crate::kube::calls::CallError;
use crate::kube::claims::NodeClaimApi;
use crate::kube::nodes::Nodes;
use crate::launcher::facts::pool_of;
use crate::messages::{FreedReserved, Record, TraceContext, Wrote};
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;
use crate::telemetry::measure::Measure;
use crate::telemetry::span::names;

#[derive(Clone)]
pub struct StepEnv {
    pub env: Env,
    pub links: TerminatorLinks,
    /// Trace that led to the end.
    pub trace: Option<TraceContext>,
}

/// The reason of a deletion, as it is written on the claim, and the time that its drain may take.
#[derive(Clone, Copy)]
pub struct EndReason {
    /// The reason in metrics and logs.
    pub label: &'static str,
    /// `None` leaves the time to the claim.
    pub grace: Option<SignedDuration>,
}

/// Ground on which a claim is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// A fact that holds whatever the claim says meanwhile: its instance ends or is gone.
    Fact,
    /// A decision by the state of things, of our own accord or as its Node is being deleted: after a change it is decided anew.
    Decision,
}

/// Outcome of a step. A step that finds its object gone has succeeded.
///
/// All steps are built alike, so that each can be repeated and none rests on a stale watch:
/// 1. what the API server has is read or changed by `change`, whose closure looks again whether the object still goes;
/// 2. where it does not (a restored backup), nothing is done and the cluster state is told what is there instead;
/// 3. what was written is told to the cluster state, or the next look would take the same step again;
/// 4. log, metrics and spans come after the write: a step that failed has not happened.
pub type Done = Result<(), CallError>;

impl StepEnv {
    fn claim_api(&self) -> NodeClaimApi {
        NodeClaimApi::new(self.links.calls.clone())
    }

    fn node_api(&self) -> Nodes {
        Nodes::new(self.links.calls.clone())
    }

    fn post_claim(&self, claim: NodeClaim) {
        self.env.post(&self.links.cluster, Wrote::Claim(Arc::new(claim)));
    }

    /// Reports at once what is gone: until the watch shows it, the step would be repeated.
    fn post_gone(&self, what: Wrote) {
        self.env.post(&self.links.cluster, what);
    }

    /// Reports an object that is not being deleted any more and fails the step; it may be a while until the watch shows that.
    fn fail_as_it_stays(&self, there: Wrote) -> Done {
        self.env.post(&self.links.cluster, there);
        Err(CallError::Conflict("it is not being deleted any more".into()))
    }

    /// A step whose object is gone has come to what it is for.
    fn or_gone(&self, error: CallError, gone: Wrote) -> Done {
        match error {
            CallError::NotFound(_) => Ok(self.post_gone(gone)),
            error => Err(error),
        }
    }

    /// Tells a happening in the trace.
    pub fn emit(&self, log_event: LogEvent) {
        self.env.emit_in(log_event, self.trace);
    }

    pub fn record(&self, event: Record) {
        self.env.post(&self.links.recorder, event);
    }

    /// Makes sure that a claim is being deleted yet. A restored API server may have it as it was before, and the watch of one
    /// kind shows that before the other's: what is done to one object for the sake of another is not to rest on what is over.
    ///
    /// # Errors
    /// [`CallError::Conflict`] or [`CallError::NotFound`] when it is not.
    pub async fn still_goes(&self, claim: &NodeClaim) -> Done {
        match self.claim_api().same(claim).await {
            Ok(there) if goes(&there) => Ok(()),
            Ok(there) => self.fail_as_it_stays(Wrote::Claim(Arc::new(there))),
            Err(CallError::NotFound(name)) => {
                self.post_gone(Wrote::ClaimGone(claim.name_any(), claim.uid()));
                Err(CallError::NotFound(name))
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes the claim of a Node that is being deleted yet: both go as that was asked for.
    ///
    /// # Errors
    /// As [`StepEnv::still_goes`], of the Node.
    pub async fn delete_claim_of(self, node: Arc<Node>, claim: Arc<NodeClaim>) -> Done {
        match self.node_api().same(&node).await {
            Ok(there) if goes(&there) => self.delete_claim(&claim, For::Decision, None).await.map(drop),
            Ok(there) => self.fail_as_it_stays(Wrote::Node(Arc::new(there))),
            Err(error) => self.or_gone(error, Wrote::NodeGone(node.name_any(), node.uid())),
        }
    }

    /// Deletes a claim, on which is written for what reason; answers whether it was there to be deleted.
    pub async fn delete_claim(
        &self,
        claim: &NodeClaim,
        why: For,
        reason: Option<EndReason>,
    ) -> Result<bool, CallError> {
        let removed = match why {
            // Whatever the claim has become meanwhile, its instance ends: the write is repeated on conflicts.
            For::Fact => match self.claim_api().change_metadata(claim.clone(), self.left_on(claim, reason)).await {
                Ok(claim) => self.claim_api().remove(claim).await,
                Err(error) => Err(error),
            },
            // Both writes carry the version that was judged: a claim that has changed since is judged again.
            For::Decision => match self.claim_api().change_as_seen(claim, self.left_on(claim, reason)).await {
                Ok(claim) => self.claim_api().remove_as_seen(&claim).await,
                Err(error) => Err(error),
            },
        };
        match removed {
            Ok(claim) => {
                self.post_claim(claim);
                Ok(true)
            }
            Err(CallError::NotFound(_)) => {
                self.post_gone(Wrote::ClaimGone(claim.name_any(), claim.uid()));
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes on a claim what leads to its end, so that a successor goes on in the same trace and says the same.
    fn left_on(&self, claim: &NodeClaim, reason: Option<EndReason>) -> impl Fn(&mut NodeClaim) + use<> {
        let known = traces::of_end(claim).or_else(|| traces::of_packing(claim));
        let now = self.env.wall();
        // Nothing is written where the claim names that trace already, and what was written first stays.
        let trace = self.trace.filter(|trace| known.is_none_or(|known| known.trace() != trace.trace()));
        move |claim: &mut NodeClaim| {
            if let Some(trace) = &trace {
                claim.annotations_mut().entry(END_TRACEPARENT.into()).or_insert_with(|| trace.to_string());
            }
            if let Some(EndReason { label, grace }) = reason {
                claim.annotations_mut().insert(END_REASON.into(), end_reason(label, now));
                if let Some(grace) = grace {
                    // A bound that was decided before is replaced.
                    claim.annotations_mut().insert(TERMINATION_TIMESTAMP.into(), later(now, grace).to_string());
                }
            }
        }
    }

    /// The span of a claim's end.
    fn removal_span(&self, claim: &NodeClaim) -> Option<TraceContext> {
        self.trace.map(|cause| traces::of_removal(cause, &claim.name_any()))
    }

    /// Deletes the Nodes of a claim that is being deleted yet.
    ///
    /// # Errors
    /// As [`StepEnv::still_goes`].
    pub async fn delete_nodes(self, claim: Arc<NodeClaim>, nodes: Vec<Arc<Node>>) -> Done {
        // The claim first: its Nodes go for its sake alone.
        self.still_goes(&claim).await?;
        for node in nodes {
            match self.node_api().delete_as_seen(&node).await {
                // Before the watch tells it the Node would be deleted once more.
                Ok(there) => self.env.post(&self.links.cluster, Wrote::Node(Arc::new(there))),
                Err(error) => self.or_gone(error, Wrote::NodeGone(node.name_any(), node.uid()))?,
            }
        }
        Ok(())
    }

    /// Writes until when a claim's node may take.
    pub async fn set_deadline(self, claim: Arc<NodeClaim>, nodes: Vec<Arc<Node>>, deadline: Timestamp) -> Done {
        let written = |claim: &mut NodeClaim| {
            if goes(claim) {
                // One that is written stays: no successor's clock and no new grace period moves it.
                claim.annotations_mut().entry(TERMINATION_TIMESTAMP.into()).or_insert_with(|| deadline.to_string());
            }
        };
        let written = self.claim_api().change_metadata(NodeClaim::clone(&claim), written).await;
        let claim = match written {
            Ok(claim) => claim,
            Err(error) => return self.or_gone(error, Wrote::ClaimGone(claim.name_any(), claim.uid())),
        };
        if !goes(&claim) {
            return self.fail_as_it_stays(Wrote::Claim(Arc::new(claim)));
        }
        let (node_claim, at) = (claim.name_any(), deadline.to_string());
        let message = format!("All pods will be deleted by {at}");
        let nodes = nodes.iter().map(|node| object::node(node));
        for object in nodes.chain([object::claim(&claim)]) {
            self.record(Record::warning(object, "TerminationGracePeriodExpiring", &*message));
        }
        self.emit(LogEvent::Deadline { node_claim, at });
        self.post_claim(claim);
        Ok(())
    }

    /// Taints a Node, and takes it out of the load balancers.
    pub async fn cordon_node(self, there: Arc<Node>, node_claim: String, reason: String) -> Done {
        let written =
            match self.node_api().change(Node::clone(&there), |node| goes(node).then(|| node::cordoned(node))?).await {
                Ok(written) => written,
                Err(error) => return self.or_gone(error, Wrote::NodeGone(there.name_any(), there.uid())),
            };
        if !goes(&written) {
            return self.fail_as_it_stays(Wrote::Node(Arc::new(written)));
        }
        self.emit(LogEvent::Cordoned { node: written.name_any(), node_claim, reason });
        self.env.post(&self.links.cluster, Wrote::Node(Arc::new(written)));
        Ok(())
    }

    /// Writes conditions on a claim, of which one is that its node is drained.
    ///
    /// # Errors
    /// As [`StepEnv::nobody_left`].
    pub async fn write_drained(self, claim: Arc<NodeClaim>, said: Vec<ClaimCondition>, node: Arc<Node>) -> Done {
        self.nobody_left(&node).await?;
        self.write_conditions(claim, said, node.name_any()).await
    }

    /// Lets a Node go that no claim speaks for, once it is drained.
    ///
    /// # Errors
    /// As [`StepEnv::nobody_left`].
    pub async fn release_drained(self, node: Arc<Node>) -> Done {
        self.nobody_left(&node).await?;
        self.release_node(node, String::new()).await
    }

    /// Asks the API server who is on a node.
    ///
    /// # Errors
    /// [`CallError::Conflict`] when pods are on it that have to leave it, and as [`left_on`].
    async fn nobody_left(&self, node: &Node) -> Done {
        let name = node.name_any();
        match left_on(&self.links.calls, &name, going_since(node)).await? {
            0 => Ok(()),
            waiting => {
                let message = format!("{waiting} pods are on node {name} that the watch has not shown yet");
                self.record(Record::warning(object::node(node), "FailedDraining", &*message));
                Err(CallError::Conflict(message))
            }
        }
    }

    /// Writes conditions on a claim.
    pub async fn write_conditions(self, claim: Arc<NodeClaim>, said: Vec<ClaimCondition>, node: String) -> Done {
        let now = self.env.wall();
        let say = |claim: &NodeClaim| if goes(claim) { with(claim, &said, now) } else { claim.clone() };
        let written = self.claim_api().change_status(NodeClaim::clone(&claim), say).await;
        let written = match written {
            Ok(written) => written,
            Err(error) => return self.or_gone(error, Wrote::ClaimGone(claim.name_any(), claim.uid())),
        };
        if !goes(&written) {
            return self.fail_as_it_stays(Wrote::Claim(Arc::new(written)));
        }
        if node::is_drained(&said) {
            if let Some(removal) = self.removal_span(&claim) {
                let span = self.env.span(removal, "drain", "").since_some(deleted_at(&claim));
                span.with_all(|| traces::attributes(&claim)).end();
            }
            self.env.measure(&Measure::NodeDrained { pool: &pool_of(&claim) });
            self.emit(LogEvent::Drained { node, node_claim: claim.name_any() });
        }
        self.post_claim(written);
        Ok(())
    }

    /// Lets a Node go.
    pub async fn release_node(self, there: Arc<Node>, node_claim: String) -> Done {
        let held = |node: &Node| goes(node) && node.finalizers().iter().any(|one| one == TERMINATION_FINALIZER);
        let free = |node: &Node| held(node).then(|| node::released(node));
        let wrote = match self.node_api().change(Node::clone(&there), free).await {
            Ok(node) if !goes(&node) => return self.fail_as_it_stays(Wrote::Node(Arc::new(node))),
            // Others hold it yet: the watch shows when it is gone.
            Ok(node) if !node.finalizers().is_empty() => Wrote::Node(Arc::new(node)),
            Ok(_) | Err(CallError::NotFound(_)) => Wrote::NodeGone(there.name_any(), there.uid()),
            Err(error) => return Err(error),
        };
        // Before the watch tells it the Node would be released, and told of, once more.
        let gone = matches!(wrote, Wrote::NodeGone(..));
        self.env.post(&self.links.cluster, wrote);
        measures::node_gone(&self.env, &there);
        if gone {
            self.emit(LogEvent::NodeDeleted { node: there.name_any(), node_claim });
        }
        Ok(())
    }

    /// Lets a claim go, unless by now an instance may belong to it that nobody has looked for.
    pub async fn release_claim(self, claim: Arc<NodeClaim>, reason: String) -> Done {
        // A launch may have written an instance on it since it was judged: then the finalizer stays, and that one is ended too.
        let judged = handle_of(&claim);
        let free = |claim: &mut NodeClaim| {
            if goes(claim) && handle_of(claim) == judged {
                claim.finalizers_mut().retain(|one| one != TERMINATION_FINALIZER);
            }
        };
        let written = self.claim_api().change_metadata(NodeClaim::clone(&claim), free).await;
        let gone = Wrote::ClaimGone(claim.name_any(), claim.uid());
        match written {
            Ok(claim) if !goes(&claim) => self.fail_as_it_stays(Wrote::Claim(Arc::new(claim))),
            Ok(claim) if claim.finalizers().iter().any(|one| one == TERMINATION_FINALIZER) => {
                self.post_claim(claim);
                Ok(())
            }
            Ok(claim) => {
                if let (Some(removal), Some(cause)) = (self.removal_span(&claim), self.trace) {
                    let begun = measures::instance_ends(&claim);
                    let span = self.env.span(removal, "terminate", "").since_some(begun);
                    span.with_all(|| traces::attributes(&claim)).end();
                    let span = self.env.open(removal, Some(cause), "removal").since_some(deleted_at(&claim));
                    span.with_all(|| traces::attributes(&claim)).with(names::REASON, &*reason).end();
                }
                measures::claim_gone(&self.env, &claim);
                if let Some(id) = reservation_of(&claim) {
                    self.env.post(&self.links.catalogue, FreedReserved { id });
                }
                self.emit(LogEvent::ClaimDeleted { node_claim: claim.name_any(), reason });
                // Others may hold it yet.
                let wrote = if claim.finalizers().is_empty() { gone } else { Wrote::Claim(Arc::new(claim)) };
                self.env.post(&self.links.cluster, wrote);
                Ok(())
            }
            Err(error) => self.or_gone(error, gone),
        }
    }
}

/// The capacity reservation that a claim had an instance of.
fn reservation_of(claim: &NodeClaim) -> Option<String> {
    handle_of(claim)?;
    claim.labels().get(CAPACITY_RESERVATION_ID).cloned()
}

/// Time of a Node's deletion by the API server's clock; the end of time for one that is not deleted, so that no pod has come
/// since.
pub fn going_since(node: &Node) -> Timestamp {
    node.metadata.deletion_timestamp.as_ref().map_or(Timestamp::MAX, |time| time.0)
}

fn deleted_at(claim: &NodeClaim) -> Option<Timestamp> {
    claim.metadata.deletion_timestamp.as_ref().map(|time| time.0)
}
