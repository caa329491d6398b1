//! Nodes that nothing of ours holds any more and that are still there: who holds them is said, as
//! `dovetail_core::termination::reports::others` decides.

use std::sync::Arc;

use dovetail_core::termination::reports::others::{LET_GO_TIMEOUT, OthersWait, finalizers_of_others, holds_our_node};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::Terminator;
use super::removal::HeldByOthers;
use crate::context::book::Key;
use crate::messages::Record;
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;

impl Terminator {
    /// A Node has been let go, here or by an earlier leader, and others hold it: that it is deleted is said when it is gone.
    pub(super) fn note_held_by_others(&mut self, node: &Arc<Node>) {
        let name = node.name_any();
        if !holds_our_node(node) || self.known.get(&Key::node(&name)).is_none_or(|removal| removal.held.is_some()) {
            return;
        }
        let claim = self.known.claims_of(node).first().cloned();
        let trace = claim.as_ref().and_then(|claim| self.trace_of(claim));
        let node_claim = claim.map(|claim| claim.name_any()).unwrap_or_default();
        let held = HeldByOthers { node_claim, trace, wait: OthersWait::new(self.env.now()) };
        if let Some(removal) = self.known.get_mut(&Key::node(&name)) {
            removal.held = Some(held);
        }
    }

    /// A Node is gone that others were waited for to let go.
    pub(super) fn others_let_go(&self, node: String, held: HeldByOthers) {
        self.env.emit_in(LogEvent::NodeDeleted { node, node_claim: held.node_claim }, held.trace);
    }

    /// Names those that have been held for long.
    pub(super) fn report_held_by_others(&mut self) {
        let now = self.env.now();
        let mut due = Vec::new();
        for (node, removal) in self.known.nodes_mut() {
            let Some(held) = &mut removal.held else { continue };
            // A backup may show it as it was before.
            let Some(finalizers) = finalizers_of_others(node) else {
                removal.held = None;
                continue;
            };
            if let Some(first) = held.wait.report(&finalizers, now) {
                due.push((node.clone(), finalizers, held.node_claim.clone(), held.trace, first));
            }
        }
        for (node, finalizers, node_claim, trace, first) in due {
            let name = node.name_any();
            let remedy = format!(
                "see to the controller that put it there; if that is gone: kubectl patch node {name} --type=merge -p \
                 '{{\"metadata\":{{\"finalizers\":null}}}}'"
            );
            let message = format!("Dovetail has let the node go, and its finalizers keep it: {finalizers}; {remedy}");
            let event = Record::warning(object::node(&node), "HeldByFinalizer", message).quiet_for(LET_GO_TIMEOUT);
            self.env.post(&self.links.recorder, event);
            if first {
                self.env.emit_in(LogEvent::HeldByFinalizer { node: name, node_claim, finalizers, remedy }, trace);
            }
        }
    }
}
