//! Nodes that nothing of ours holds any more and that are still there: a finalizer of somebody else keeps them. Each is named once it
//! has been so for a minute, as nothing else would say why it stays.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::{TERMINATION_FINALIZER, labels};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::Terminator;
use super::known::is_deleting;
use crate::messages::{Record, TraceContext};
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;

/// Time that other controllers may take to let a Node go.
const LET_GO_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the event is repeated.
const REPEATED: Duration = Duration::from_secs(1800);

/// Nodes that were released here and are still there.
#[derive(Default)]
pub struct HeldByOthers(BTreeMap<String, Held>);

struct Held {
    node_claim: String,
    trace: Option<TraceContext>,
    since: Duration,
    /// Time and finalizers of the last report.
    reported: Option<(Duration, String)>,
}

impl Held {
    /// True if it is to be reported now that these finalizers hold it.
    fn is_due(&self, finalizers: &str, now: Duration) -> bool {
        now.saturating_sub(self.since) >= LET_GO_TIMEOUT
            && self
                .reported
                .as_ref()
                .is_none_or(|(when, what)| now.saturating_sub(*when) >= REPEATED || what != finalizers)
    }
}

/// The finalizers of others on a Node that is being deleted and that ours does not hold.
fn finalizers_of_others(node: &Node) -> Option<String> {
    let own = node.finalizers().iter().any(|one| one == TERMINATION_FINALIZER);
    let held = is_deleting(node) && !own && !node.finalizers().is_empty();
    held.then(|| node.finalizers().join(", "))
}

impl Terminator {
    /// A Node has been let go, here or by an earlier leader, and others hold it: that it is deleted is said when it is gone.
    pub(super) fn note_held_by_others(&mut self, node: &Arc<Node>) {
        let (ours, name) = (node.labels().contains_key(labels::NODE_POOL), node.name_any());
        if !ours || finalizers_of_others(node).is_none() || self.held_by_others.0.contains_key(&name) {
            return;
        }
        let claim = self.known.claims_of(node).first().cloned();
        let trace = claim.as_ref().and_then(|claim| self.trace_of(claim));
        let node_claim = claim.map(|claim| claim.name_any()).unwrap_or_default();
        self.held_by_others.0.insert(name, Held { node_claim, trace, since: self.env.now(), reported: None });
    }

    /// A Node is gone: others have let it go, if they were waited for.
    pub(super) fn others_let_go(&mut self, node: &str) {
        if let Some(Held { node_claim, trace, .. }) = self.held_by_others.0.remove(node) {
            self.env.emit_in(LogEvent::NodeDeleted { node: node.to_owned(), node_claim }, trace);
        }
    }

    /// Names those that have been held for long.
    pub(super) fn tell_held_by_others(&mut self) {
        let now = self.env.now();
        let mut due = Vec::new();
        let known = &self.known;
        self.held_by_others.0.retain(|name, held| {
            // A backup may show it as it was before.
            let Some(node) = known.nodes.get(name) else { return false };
            let Some(finalizers) = finalizers_of_others(node) else { return false };
            if held.is_due(&finalizers, now) {
                let first = held.reported.replace((now, finalizers.clone())).is_none();
                due.push((node.clone(), finalizers, held.node_claim.clone(), held.trace, first));
            }
            true
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_held_by_others_is_said_after_minute_then_each_half_hour() {
        let at = Duration::from_secs;
        let mut held = Held { node_claim: String::new(), trace: None, since: at(100), reported: None };
        assert!(!held.is_due("a", at(159)) && held.is_due("a", at(160)));
        held.reported = Some((at(160), "a".to_owned()));
        assert!(!held.is_due("a", at(161)) && !held.is_due("a", at(1959)) && held.is_due("a", at(1960)));
        assert!(held.is_due("b", at(161)), "others hold it");
    }
}
