//! Hears from the SQS queue which instances the cloud takes away, and says so at once.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_cloud::Cloud;
use serde_json::json;

use crate::cluster_watcher::ClusterWatcher;
use crate::desk::Desk;
use crate::messages::Observe;
use crate::packer::Packer;
use crate::recorder::Recorder;
use crate::terminator::Terminator;

/// Whom the interruption speaks to.
#[derive(Clone)]
pub struct InterruptionLinks {
    /// For snapshots and marks.
    pub cluster: Addr<ClusterWatcher>,
    /// For pods that lose their node.
    pub packer: Addr<Packer>,
    /// For claims that are to go.
    pub terminator: Addr<Terminator>,
    /// For events.
    pub recorder: Addr<Recorder>,
    /// The cloud.
    pub cloud: Arc<dyn Cloud>,
}

/// See the module.
pub struct Interruption {
    desk: Desk,
    links: InterruptionLinks,
}

impl Interruption {
    /// At the start of a term.
    pub fn new(desk: &Desk, links: InterruptionLinks) -> Self {
        Self { desk: desk.of("interruption"), links }
    }
}

impl Actor for Interruption {
    type Context = Context<Self>;
}

impl Handler<Observe> for Interruption {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(json!({"term": self.desk.term, "terminator": self.links.terminator.connected()}))
    }
}
