//! A look at a claim: whether its Node is there, whether its time is over, and what is written next.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::{Unreadable, WatchedKind};
use dovetail_core::lifecycle::nodeless::NodelessVerdict;
use dovetail_core::lifecycle::{self, ClaimStage, LifecycleStep, Timeout};
use dovetail_core::ownership::OwnershipVerdict;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::Registrar;
use crate::context::book::{Key, provider_id_of, provider_id_of_node};
use crate::kube::calls::CallError;
use crate::kube::nodes::Nodes;
use crate::messages::{TakeSnapshot, Wrote};
use crate::telemetry::log_event::LogEvent;

impl Registrar {
    /// Decides a claim's next step and does it.
    pub(super) fn take_next_step(&mut self, name: &str, ctx: &mut Context<Self>) {
        let key = Key::Claim(name.to_owned());
        if self.known.busy.contains(&key) {
            self.known.marked.insert(key);
            return;
        }
        let Some(claim) = self.known.claim(name).cloned() else { return };
        let brake = self.known.get(&key).and_then(|registration| registration.brake.as_ref());
        if brake.is_some_and(|brake| brake.holds(None, self.env.now())) {
            return;
        }
        let nodes = self.nodes_of(&claim);
        let refs: Vec<&Node> = nodes.iter().map(AsRef::as_ref).collect();
        let nodeless = self.nodeless_for(&claim, nodes.is_empty());
        // Nothing is written on a Node whose instance is not known to be the claim's.
        let verdict = self.instances.verdict(&claim);
        if !nodes.is_empty() && verdict != OwnershipVerdict::Ours {
            // Before EC2 has been heard it may well be, and register however late nobody was there to see it.
            let heard = verdict != OwnershipVerdict::Unknown;
            if let Some(timeout) = self.expired(&claim, nodeless).filter(|_| heard) {
                self.give_up(&claim, timeout, ctx);
            }
            return;
        }
        let step = lifecycle::next(&claim, &refs, nodeless, self.env.wall());
        let unpublished = |drivers: &str, node: &str| self.awaited.devices.as_ref()?.unpublished_driver(drivers, node);
        match lifecycle::initialization::after_devices(&claim, step, unpublished, self.env.wall()) {
            LifecycleStep::Write(writes) => self.write_when_due(name, *writes, ctx),
            LifecycleStep::GiveUp(Timeout::NodeGone) => self.look_for_node(&claim, ctx),
            LifecycleStep::GiveUp(timeout) => self.give_up_unless_unread(&claim, timeout, ctx),
            LifecycleStep::Wait(_) if !nodes.is_empty() && self.uninitialized(&claim).is_some() => {
                self.give_up_unless_unread(&claim, Timeout::InitializationTimeout, ctx);
            }
            LifecycleStep::Wait(_) | LifecycleStep::Deleting | LifecycleStep::Settled => {}
        }
    }

    /// The time that a claim has had, if it is not being deleted.
    pub(super) fn expired(&self, claim: &NodeClaim, nodeless: Duration) -> Option<Timeout> {
        let stays = claim.metadata.deletion_timestamp.is_none();
        stays.then(|| lifecycle::liveness::expired(claim, nodeless, self.env.wall())).flatten()
    }

    /// Requirement that a claim lacks after its Node has had its time to get ready for pods.
    pub(super) fn uninitialized(&self, claim: &NodeClaim) -> Option<String> {
        let limit = self.env.settings.initialization_timeout?;
        lifecycle::liveness::uninitialized(claim, limit, self.env.wall())
    }

    /// Time for which a claim that has registered, and is not being deleted, has had no Node.
    pub(super) fn nodeless_for(&mut self, claim: &NodeClaim, none: bool) -> Duration {
        let name = claim.name_any();
        let goes = claim.metadata.deletion_timestamp.is_some();
        if !none || goes || lifecycle::stage(claim) < Some(ClaimStage::Registered) {
            self.awaited.nodeless.ends(&name);
            return Duration::ZERO;
        }
        self.awaited.nodeless.lasts(&name, self.env.now())
    }

    /// Gives a claim up whose Node is gone, once the API server says so itself.
    pub(super) fn look_for_node(&mut self, claim: &Arc<NodeClaim>, ctx: &mut Context<Self>) {
        let name = claim.name_any();
        match self.awaited.nodeless.judge(&name, self.known.count().0, self.env.now()) {
            NodelessVerdict::GiveUp => {}
            NodelessVerdict::Wait => return,
            NodelessVerdict::TooMany { claims, bound } => {
                return self.env.emit(LogEvent::NodesGone { node_claims: claims, bound });
            }
        }
        let key = Key::Claim(name.clone());
        self.known.busy.insert(key.clone());
        let (nodes, claim) = (Nodes::new(self.links.calls.clone()), claim.clone());
        let status = claim.status.clone().unwrap_or_default();
        let looking = async move { nodes.get(&status.node_name).await }.into_actor(self);
        ctx.spawn(looking.map(move |found, registrar, ctx| {
            registrar.known.busy.remove(&key);
            let gone = match found {
                Err(CallError::NotFound(_)) => true,
                // Without one it may be this machine's yet.
                Ok(node) if !["", &*status.provider_id].contains(&provider_id_of_node(&node)) => true,
                Ok(node) => {
                    registrar.env.post(&registrar.links.cluster, Wrote::Node(Arc::new(node)));
                    false
                }
                Err(error) => {
                    registrar.pause_after(&error, &claim);
                    false
                }
            };
            let changed = registrar.known.marked.remove(&key);
            if gone && !changed {
                return registrar.give_up(&claim, Timeout::NodeGone, ctx);
            }
            registrar.awaited.nodeless.kept(&name);
            if changed {
                registrar.take_next_step(&name, ctx);
            }
        }));
    }

    /// Gives a claim up, unless its Node is there and cannot be read: pods may be on it.
    pub(super) fn give_up_unless_unread(&mut self, claim: &Arc<NodeClaim>, timeout: Timeout, ctx: &mut Context<Self>) {
        let name = claim.name_any();
        let key = Key::Claim(name.clone());
        self.known.busy.insert(key.clone());
        let claim = claim.clone();
        let asked = self.links.cluster.send(TakeSnapshot).into_actor(self);
        ctx.spawn(asked.map(move |known, registrar, ctx| {
            registrar.known.busy.remove(&key);
            let changed = registrar.known.marked.remove(&key);
            let provider_id = provider_id_of(&claim);
            let its = |node: &Unreadable| !provider_id.is_empty() && node.facts.provider_id == provider_id;
            match known {
                Ok(Some(known)) if known.unreadable_of(WatchedKind::Node).any(|(_, node)| its(node)) => {}
                Ok(Some(_)) if !changed => registrar.give_up(&claim, timeout, ctx),
                _ if changed => registrar.take_next_step(&name, ctx),
                _ => {}
            }
        }));
    }

    pub(super) fn nodes_of(&self, claim: &NodeClaim) -> Vec<Arc<Node>> {
        self.instances.own_nodes(claim, self.known.nodes_of(claim))
    }
}
