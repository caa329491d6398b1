//! Decides by a tick which nodes go by our own will: empty ones, those whose time is over; later drift and consolidation.

use actix::prelude::*;
use serde_json::json;

use crate::calls::Calls;
use crate::catalogue::Catalogue;
use crate::cluster_watcher::ClusterWatcher;
use crate::desk::Desk;
use crate::messages::Observe;
use crate::recorder::Recorder;
use crate::terminator::Terminator;

/// Whom the disruptor speaks to.
#[derive(Clone)]
pub struct DisruptorLinks {
    /// For snapshots and marks.
    pub cluster: Addr<ClusterWatcher>,
    /// For instance types and prices.
    pub catalogue: Addr<Catalogue>,
    /// For claims that are to go.
    pub terminator: Addr<Terminator>,
    /// For events.
    pub recorder: Addr<Recorder>,
    /// For the API server.
    pub calls: Calls,
}

/// See the module.
pub struct Disruptor {
    desk: Desk,
    links: DisruptorLinks,
}

impl Disruptor {
    /// At the start of a term.
    pub fn new(desk: &Desk, links: DisruptorLinks) -> Self {
        Self { desk: desk.of("disruptor"), links }
    }
}

impl Actor for Disruptor {
    type Context = Context<Self>;
}

impl Handler<Observe> for Disruptor {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(json!({"term": self.desk.term, "terminator": self.links.terminator.connected()}))
    }
}
