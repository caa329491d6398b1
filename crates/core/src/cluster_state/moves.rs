//! Times at which pods came to a node or went from it. Every replica keeps these by its own watch, so that one that takes
//! over
//! need not start to count anew. DaemonSets' pods, mirror pods and expendable pods do not count: they keep no node.

use std::sync::Arc;

use jiff::Timestamp;

use super::{ClusterState, PodEntry, WatchedKind};

/// The last comings and goings on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodMoves {
    /// Time at which a pod was last bound, ended or began to end: the pod event of core spec 4.
    pub event: Option<Timestamp>,
    /// Time at which a pod last came or was gone for good.
    pub last: Timestamp,
}

impl ClusterState {
    /// Dates the moves since the last call. Answers true if there were any.
    pub fn date_moves(&mut self, now: Timestamp) -> bool {
        if self.moved.is_empty() {
            return false;
        }
        let moves = Arc::make_mut(&mut self.now.moves);
        for (node, is_event) in std::mem::take(&mut self.moved) {
            let dated = moves.entry(node).or_insert(PodMoves { event: None, last: now });
            dated.last = now;
            if is_event {
                dated.event = Some(now);
            }
        }
        true
    }

    /// Notes the move that a change of a pod means for its node. While pods are listed for the first time nothing has moved.
    pub(super) fn note_move(&mut self, before: Option<&PodEntry>, after: &PodEntry) {
        let first = before.is_none() && !self.listed.contains(&WatchedKind::Pod);
        if first || after.keeps_no_node() || after.node_name.is_empty() {
            return;
        }
        let was = |what: fn(&PodEntry) -> bool| before.is_some_and(what);
        let bound = !was(|pod| !pod.node_name.is_empty());
        let ended = after.terminal && !was(|pod| pod.terminal);
        let ending = after.deleting && !was(|pod| pod.deleting);
        if bound || ended || ending {
            self.moved.insert(after.node_name.clone(), true);
        }
    }

    /// Notes the move that the disappearance of a pod means for its node.
    pub(super) fn note_end(&mut self, pod: &PodEntry) {
        if pod.takes_room() && !pod.keeps_no_node() {
            *self.moved.entry(pod.node_name.clone()).or_default() |= !pod.deleting;
        }
    }

    pub(super) fn forget_moves(&mut self, gone: impl Fn(&str) -> bool) {
        if self.now.moves.keys().any(|node| gone(node)) {
            Arc::make_mut(&mut self.now.moves).retain(|node, _| !gone(node));
        }
        self.moved.retain(|node, _| !gone(node));
    }
}
