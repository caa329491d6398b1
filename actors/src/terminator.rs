//! Takes nodes away: deletes the claims that it is told to, and brings what is being deleted, by whomever, to its end:
//! taint, drain, volumes, instance, finalizers. What comes next is decided by `dovetail_core::termination`.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_cloud::Cloud;
use serde_json::json;

use crate::calls::Calls;
use crate::cluster_watcher::ClusterWatcher;
use crate::desk::Desk;
use crate::messages::{ClaimChanged, ClaimGone, Interrupted, NodeChanged, NodeGone, Observe, Remove};
use crate::packer::Packer;
use crate::recorder::Recorder;

/// Whom the terminator speaks to.
#[derive(Clone)]
pub struct TerminatorLinks {
    /// For snapshots and read-your-writes.
    pub cluster: Addr<ClusterWatcher>,
    /// For pods that lose their node.
    pub packer: Addr<Packer>,
    /// For events.
    pub recorder: Addr<Recorder>,
    /// For instances.
    pub cloud: Arc<dyn Cloud>,
    /// For claims, Nodes, pods.
    pub calls: Calls,
}

/// See the module.
pub struct Terminator {
    desk: Desk,
    links: TerminatorLinks,
}

impl Terminator {
    /// A terminator with nothing to do.
    pub fn new(desk: &Desk, links: TerminatorLinks) -> Self {
        Self { desk: desk.of("terminator"), links }
    }
}

impl Actor for Terminator {
    type Context = Context<Self>;
}

impl Handler<Remove> for Terminator {
    type Result = ();

    fn handle(&mut self, _: Remove, _: &mut Self::Context) {}
}

impl Handler<Interrupted> for Terminator {
    type Result = ();

    fn handle(&mut self, _: Interrupted, _: &mut Self::Context) {}
}

impl Handler<ClaimChanged> for Terminator {
    type Result = ();

    fn handle(&mut self, _: ClaimChanged, _: &mut Self::Context) {}
}

impl Handler<ClaimGone> for Terminator {
    type Result = ();

    fn handle(&mut self, _: ClaimGone, _: &mut Self::Context) {}
}

impl Handler<NodeChanged> for Terminator {
    type Result = ();

    fn handle(&mut self, _: NodeChanged, _: &mut Self::Context) {}
}

impl Handler<NodeGone> for Terminator {
    type Result = ();

    fn handle(&mut self, _: NodeGone, _: &mut Self::Context) {}
}

impl Handler<Observe> for Terminator {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(json!({"term": self.desk.term, "mayAct": self.links.calls.may_act()}))
    }
}
