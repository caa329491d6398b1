//! Collects what nobody owns: instances without a claim, claims without an instance, launch templates; with brakes.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_cloud::Cloud;
use serde_json::json;

use crate::calls::Calls;
use crate::cluster_watcher::ClusterWatcher;
use crate::desk::Desk;
use crate::messages::Observe;
use crate::recorder::Recorder;
use crate::terminator::Terminator;

/// Whom the janitor speaks to.
#[derive(Clone)]
pub struct JanitorLinks {
    /// For snapshots and marks.
    pub cluster: Addr<ClusterWatcher>,
    /// For claims that are to go.
    pub terminator: Addr<Terminator>,
    /// For events.
    pub recorder: Addr<Recorder>,
    /// The cloud.
    pub cloud: Arc<dyn Cloud>,
    /// For the API server.
    pub calls: Calls,
}

/// See the module.
pub struct Janitor {
    desk: Desk,
    links: JanitorLinks,
}

impl Janitor {
    /// At the start of a term.
    pub fn new(desk: &Desk, links: JanitorLinks) -> Self {
        Self { desk: desk.of("janitor"), links }
    }
}

impl Actor for Janitor {
    type Context = Context<Self>;
}

impl Handler<Observe> for Janitor {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(json!({"term": self.desk.term, "terminator": self.links.terminator.connected()}))
    }
}
