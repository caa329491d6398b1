//! Guard of ownership: nothing is drained, deleted or ended for a claim whose instance is not the claim's, nor is a Node whose
//! instance is not this cluster's. While `owner` has not reported yet, the step waits.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_api::names::TERMINATION_FINALIZER;
use dovetail_api::v1::NodeClaim;
use dovetail_core::lifecycle::initialization::is_ready;
use dovetail_core::ownership::NotOwned;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::known::of_node;
use super::look::RELEASING;
use super::steps::StepEnv;
use super::{Key, Terminator};
use crate::messages::{InstanceKnown, LookUp, Record};
use crate::owner::owned::{OwnershipVerdict, instance_of};
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;

/// Verdict on a claim that is being deleted: what it may take with it.
pub(super) enum MayEnd {
    /// It may take these Nodes, and its instance.
    Yes(Vec<Arc<Node>>),
    /// The ownership of the instance is not known yet.
    NotYet,
    /// Its instance is not its own: the claim goes alone.
    Never(NotOwned),
}

/// Verdict on draining a Node that is being deleted.
pub(super) enum MayDrain {
    /// It may be drained for these claims; for none if its claim is gone and its instance is this cluster's.
    For(Vec<Arc<NodeClaim>>),
    /// The ownership of its instance is not known yet.
    NotYet,
    /// Its instance is not this cluster's, or another Node is that instance's: it goes as it is.
    Never,
}

impl Handler<InstanceKnown> for Terminator {
    type Result = ();

    fn handle(&mut self, known: InstanceKnown, ctx: &mut Self::Context) {
        if !self.instances.learn(&known) {
            return;
        }
        for name in self.instances.naming(&known.id) {
            if let Some(claim) = self.known.claims.get(&name).cloned() {
                self.look_for_notice(&claim, ctx);
            }
        }
        let concerns = |key: &&Key| match key {
            Key::Claim(name) => {
                self.known.claims.get(name).is_some_and(|one| instance_of(one) == Some(known.id.as_str()))
            }
            Key::Node(name) => {
                self.known.nodes.get(name).is_some_and(|one| instance_of_node(one) == Some(known.id.as_str()))
            }
        };
        for key in self.deleting.iter().filter(concerns).cloned().collect::<Vec<_>>() {
            self.touch(key, ctx);
        }
    }
}

impl Terminator {
    /// The Nodes of a claim's instance.
    pub(super) fn own_nodes(&self, claim: &NodeClaim) -> Vec<Arc<Node>> {
        match self.instances.verdict(claim) {
            OwnershipVerdict::NotOurs(_) => Vec::new(),
            _ => self.instances.own_nodes(claim, self.known.nodes_of(claim)),
        }
    }

    /// The claims whose instance a Node is.
    pub(super) fn own_claims(&self, node: &Node) -> Vec<Arc<NodeClaim>> {
        let name = node.name_any();
        let is_own = |claim: &Arc<NodeClaim>| self.own_nodes(claim).iter().any(|own| own.name_any() == name);
        self.known.claims_of(node).into_iter().filter(is_own).collect()
    }

    /// Decides if a claim that is being deleted may take its Nodes and its instance with it.
    pub(super) fn may_end(&self, claim: &NodeClaim) -> MayEnd {
        let nodes = || self.instances.own_nodes(claim, self.known.nodes_of(claim));
        match self.instances.verdict(claim) {
            // Nothing was launched for it, so nothing can be somebody else's.
            OwnershipVerdict::NoInstance => MayEnd::Yes(Vec::new()),
            OwnershipVerdict::Ours => MayEnd::Yes(nodes()),
            OwnershipVerdict::Unknown => {
                self.ask_whose(claim);
                MayEnd::NotYet
            }
            // Nothing shows that a Node is ours whose kubelet is at work: EC2 is asked again. One that is silent goes with it.
            OwnershipVerdict::Missing if nodes().iter().any(|node| is_ready(node)) => MayEnd::NotYet,
            OwnershipVerdict::Missing => MayEnd::Yes(nodes()),
            OwnershipVerdict::NotOurs(why) => MayEnd::Never(why),
        }
    }

    /// Asks whose the instance of a claim is: an answer to an earlier question may have been forgotten with an earlier claim.
    fn ask_whose(&self, claim: &NodeClaim) {
        if let Some(id) = instance_of(claim) {
            self.env.post(&self.links.owner, LookUp { id: id.to_owned() });
        }
    }

    /// Decides if a Node that is being deleted may be drained.
    pub(super) fn may_drain(&self, node: &Node) -> MayDrain {
        let claims = self.own_claims(node);
        // From the surest to the least: a claim of ours; one that may be; the instance's own tags; a silent Node of none.
        let ours: Vec<_> =
            claims.iter().filter(|claim| self.instances.verdict(claim) == OwnershipVerdict::Ours).cloned().collect();
        if !ours.is_empty() {
            return MayDrain::For(ours);
        }
        if let Some(claim) = claims.iter().find(|claim| self.instances.verdict(claim) == OwnershipVerdict::Unknown) {
            self.ask_whose(claim);
            return MayDrain::NotYet;
        }
        // The instance is a claim's, and its Node is another.
        if self.known.claims_of(node).iter().any(|claim| self.instances.verdict(claim) == OwnershipVerdict::Ours) {
            return MayDrain::Never;
        }
        let Some(id) = instance_of_node(node) else { return MayDrain::Never };
        match self.instances.marks(id) {
            // Launched for this cluster, and its claim is gone: its Node is drained for its own sake.
            Some(Some(marks)) if marks.maker.is_ok() => MayDrain::For(Vec::new()),
            // Somebody else's tags: a machine of another cluster, or one that was joined by hand.
            Some(Some(_)) => MayDrain::Never,
            // It is silent, and EC2 does not know it: it goes as soon as that is certain.
            Some(None) if !is_ready(node) => MayDrain::For(claims),
            Some(None) | None => {
                self.env.post(&self.links.owner, LookUp { id: id.to_owned() });
                MayDrain::NotYet
            }
        }
    }

    /// Lets a claim go whose instance is not its own.
    pub(super) fn let_go(&mut self, claim: &Arc<NodeClaim>, why: &NotOwned, ctx: &mut Context<Self>) {
        let name = claim.name_any();
        if !claim.finalizers().iter().any(|one| one == TERMINATION_FINALIZER) {
            self.deleting.remove(&Key::Claim(name));
            return;
        }
        let step_env = self.step_env(self.trace_of(claim));
        self.tell_not_owned(&step_env, claim, why);
        let going = step_env.release_claim(claim.clone(), "instance_not_owned".to_owned());
        self.begin(Key::Claim(name), RELEASING, going, ctx);
    }

    /// Says why a claim goes alone: once, and again where that has changed.
    fn tell_not_owned(&mut self, step_env: &StepEnv, claim: &NodeClaim, why: &NotOwned) {
        let (name, instance) = (claim.name_any(), instance_of(claim).unwrap_or_default().to_owned());
        let message = format!("Instance {instance} is not this NodeClaim's and is left alone: {why}");
        if !self.not_owned.is_news(name.clone(), message.clone()) {
            return;
        }
        step_env.record(Record::warning(object::claim(claim), "InstanceNotOwned", message));
        let (reason, error) = (why.reason().to_owned(), why.to_string());
        step_env.emit(LogEvent::InstanceNotOwned { node_claim: name, instance, reason, error });
        self.count("not_owned");
    }

    /// Lets a Node go that is being deleted and is not ours: our finalizer holds nothing there.
    pub(super) fn release_stranger(&mut self, node: &Arc<Node>, ctx: &mut Context<Self>) {
        let key = Key::Node(node.name_any());
        if !node.finalizers().iter().any(|one| one == TERMINATION_FINALIZER) {
            self.deleting.remove(&key);
            return;
        }
        let step_env = self.step_env(None);
        self.begin(key, RELEASING, step_env.release_node(node.clone(), String::new()), ctx);
    }
}

/// The id of a Node's instance; the whole provider ID where it names none.
fn instance_of_node(node: &Node) -> Option<&str> {
    let provider_id = of_node(node);
    (!provider_id.is_empty()).then(|| dovetail_api::names::instance_id(provider_id).unwrap_or(provider_id))
}
