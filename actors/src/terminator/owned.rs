//! Guard of ownership: nothing is drained, deleted or ended for a claim whose instance is not the claim's, nor is a Node whose
//! instance is not this cluster's. While `owner` has not reported yet, the step waits.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_api::names::TERMINATION_FINALIZER;
use dovetail_api::v1::NodeClaim;
use dovetail_core::lifecycle::initialization::is_ready;
use dovetail_core::ownership::{NotOwned, OwnershipVerdict, instance_of};
use dovetail_core::termination::RemovalPhase;
use dovetail_core::termination::guard::{self, InstanceTags, MayDrain, MayEnd};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::look::RELEASING;
use super::steps::StepEnv;
use super::{Key, Terminator};
use crate::context::book::provider_id_of_node;
use crate::messages::{InstanceKnown, LookUp, Record};
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;

impl Handler<InstanceKnown> for Terminator {
    type Result = ();

    fn handle(&mut self, known: InstanceKnown, ctx: &mut Self::Context) {
        if !self.instances.learn(&known.id, known.marks.clone()) {
            return;
        }
        for name in self.instances.naming(&known.id) {
            if let Some(claim) = self.known.claim(&name).cloned() {
                self.look_for_notice(&claim, ctx);
            }
        }
        let names_it = |key: &Key| match key {
            Key::Claim(name) => self.known.claim(name).is_some_and(|one| instance_of(one) == Some(known.id.as_str())),
            Key::Node(name) => {
                self.known.node(name).is_some_and(|one| instance_of_node(one) == Some(known.id.as_str()))
            }
        };
        let concerned: Vec<Key> = self.going_keys().into_iter().filter(names_it).collect();
        concerned.into_iter().for_each(|key| self.mark_if_going(key, ctx));
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
    pub(super) fn may_end(&self, claim: &NodeClaim, nodes: &[Arc<Node>]) -> MayEnd {
        let verdict = guard::may_end(self.instances.verdict(claim), nodes.iter().any(|node| is_ready(node)));
        if verdict == MayEnd::Ask {
            self.ask_owner(instance_of(claim));
        }
        verdict
    }

    /// Asks whose an instance is: an answer to an earlier question may have been forgotten with an earlier claim.
    fn ask_owner(&self, id: Option<&str>) {
        if let Some(id) = id {
            self.env.post(&self.links.owner, LookUp { id: id.to_owned() });
        }
    }

    /// Decides if a Node that is being deleted may be drained, and returns the claims that it is drained for.
    pub(super) fn may_drain(&self, node: &Node) -> (MayDrain, Vec<Arc<NodeClaim>>) {
        let mut own = self.own_claims(node);
        let verdicts =
            |claims: &[Arc<NodeClaim>]| claims.iter().map(|one| self.instances.verdict(one)).collect::<Vec<_>>();
        let id = instance_of_node(node);
        let tags = match id.map(|id| self.instances.marks(id)) {
            None => InstanceTags::NoInstance,
            Some(None) => InstanceTags::Unknown,
            Some(Some(None)) => InstanceTags::Missing,
            Some(Some(Some(marks))) if marks.maker.is_ok() => InstanceTags::ThisCluster,
            Some(Some(Some(_))) => InstanceTags::Others,
        };
        let of_own = verdicts(&own);
        let verdict = guard::may_drain(&of_own, &verdicts(&self.known.claims_of(node)), tags, is_ready(node));
        match verdict {
            MayDrain::ForOwners => own.retain(|claim| self.instances.verdict(claim) == OwnershipVerdict::Ours),
            MayDrain::ForItself | MayDrain::Never => own.clear(),
            MayDrain::AsSilent => {}
            MayDrain::Ask => {
                let unknown = own.iter().find(|claim| self.instances.verdict(claim) == OwnershipVerdict::Unknown);
                self.ask_owner(unknown.and_then(|claim| instance_of(claim)).or(id));
            }
        }
        (verdict, own)
    }

    /// Lets a claim go whose instance is not its own.
    pub(super) fn let_go(&mut self, claim: &Arc<NodeClaim>, why: &NotOwned, ctx: &mut Context<Self>) {
        let key = Key::Claim(claim.name_any());
        if !claim.finalizers().iter().any(|one| one == TERMINATION_FINALIZER) {
            return self.enter_phase(&key, None);
        }
        self.enter_phase(&key, Some(RemovalPhase::Releasing));
        let step_env = self.step_env(self.trace_of(claim));
        self.report_not_owned(&step_env, claim, why);
        let going = step_env.release_claim(claim.clone(), "instance_not_owned".to_owned());
        self.begin_step(key, RELEASING, going, ctx);
    }

    /// Says why a claim goes alone: once, and again where that has changed.
    fn report_not_owned(&mut self, step_env: &StepEnv, claim: &NodeClaim, why: &NotOwned) {
        let (name, instance) = (claim.name_any(), instance_of(claim).unwrap_or_default().to_owned());
        let message = format!("Instance {instance} is not this NodeClaim's and is left alone: {why}");
        let Some(removal) =
            self.known.get_mut(&Key::claim(&name)).filter(|one| one.not_owned.as_ref() != Some(&message))
        else {
            return;
        };
        removal.not_owned = Some(message.clone());
        step_env.record(Record::warning(object::claim(claim), "InstanceNotOwned", message));
        let (reason, error) = (why.reason().to_owned(), why.to_string());
        step_env.emit(LogEvent::InstanceNotOwned { node_claim: name, instance, reason, error });
        self.add_to_count("not_owned");
    }

    /// Lets a Node go that is being deleted and is not ours: our finalizer holds nothing there.
    pub(super) fn release_stranger(&mut self, node: &Arc<Node>, ctx: &mut Context<Self>) {
        let key = Key::Node(node.name_any());
        if !node.finalizers().iter().any(|one| one == TERMINATION_FINALIZER) {
            return self.enter_phase(&key, None);
        }
        self.enter_phase(&key, Some(RemovalPhase::Releasing));
        let step_env = self.step_env(None);
        self.begin_step(key, RELEASING, step_env.release_node(node.clone(), String::new()), ctx);
    }
}

/// The id of a Node's instance; the whole provider ID where it names none.
fn instance_of_node(node: &Node) -> Option<&str> {
    let provider_id = provider_id_of_node(node);
    (!provider_id.is_empty()).then(|| dovetail_api::names::instance_id(provider_id).unwrap_or(provider_id))
}
