//! Creates NodeClaims and launches their instances, a bounded number at a time; adopts claims that an earlier leader, or
//! a person, left without an instance. What one launch does step by step is in `launch`.
//!
//! At the mailbox's bound: an order is queued inside, and no more than [`AT_ONCE`] launches run; a claim is in the queue
//! or running at most once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::Cloud;
use dovetail_core::lifecycle;
use kube::ResourceExt;
use serde_json::json;

use crate::backoff::Backoff;
use crate::calls::Calls;
use crate::catalogue::Catalogue;
use crate::cluster_watcher::ClusterWatcher;
use crate::desk::Desk;
use crate::launch::{self, End, Launching};
use crate::messages::{ClaimChanged, ClaimGone, Launch, LaunchOrder, Observe, PackNow, TraceContext, Wrote};
use crate::packer::Packer;
use crate::recorder::Recorder;

/// Launches that run at the same time: EC2 refills about five mutating calls a second after a burst of fifty.
const AT_ONCE: usize = 20;

/// Whom the launcher speaks to.
#[derive(Clone)]
pub struct LauncherLinks {
    /// For read-your-writes and snapshots.
    pub cluster: Addr<ClusterWatcher>,
    /// For instance types and refusals.
    pub catalogue: Addr<Catalogue>,
    /// For pods whose claim is lost.
    pub packer: Addr<Packer>,
    /// For events.
    pub recorder: Addr<Recorder>,
    /// For instances.
    pub cloud: Arc<dyn Cloud>,
    /// For claims.
    pub calls: Calls,
}

/// See the module.
pub struct Launcher {
    desk: Desk,
    links: LauncherLinks,
    queue: VecDeque<(LaunchOrder, TraceContext)>,
    /// Claims queued or being launched, by name.
    busy: BTreeSet<String>,
    running: usize,
    /// Claims whose launch has ended, uids by name: a watch that lags shows them unlaunched for a while.
    done: BTreeMap<String, String>,
    ends: BTreeMap<&'static str, u64>,
    /// Grows while claims are lost for reasons that repeat themselves.
    losses: Backoff,
    rng: fastrand::Rng,
}

impl Launcher {
    /// A launcher with nothing to do.
    pub fn new(desk: &Desk, links: LauncherLinks) -> Self {
        let desk = desk.of("launcher");
        let rng = desk.rng("trace");
        let losses = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), desk.rng("losses"));
        Self {
            desk,
            links,
            queue: VecDeque::new(),
            busy: BTreeSet::new(),
            running: 0,
            done: BTreeMap::new(),
            ends: BTreeMap::new(),
            losses,
            rng,
        }
    }
}

impl Actor for Launcher {
    type Context = Context<Self>;
}

impl Handler<Launch> for Launcher {
    type Result = ();

    fn handle(&mut self, launch: Launch, ctx: &mut Self::Context) {
        if launch.term < self.desk.term {
            return;
        }
        for order in launch.orders {
            self.enqueue(order, launch.trace);
        }
        self.run(ctx);
    }
}

impl Handler<ClaimChanged> for Launcher {
    type Result = ();

    /// A claim without an instance that nobody here launches is adopted.
    fn handle(&mut self, ClaimChanged(claim): ClaimChanged, ctx: &mut Self::Context) {
        let name = claim.name_any();
        let ours = self.busy.contains(&name) || self.done.get(&name) == claim.metadata.uid.as_ref();
        if ours || lifecycle::is_leaving(&claim) || lifecycle::stage(&claim).is_some() {
            return;
        }
        let written = claim.annotations().get(dovetail_api::names::annotations::TRACEPARENT);
        let trace =
            written.and_then(|text| TraceContext::parse(text)).unwrap_or_else(|| TraceContext::root(&mut self.rng));
        self.enqueue(LaunchOrder { claim: NodeClaim::clone(&claim), pods: 0 }, trace);
        self.run(ctx);
    }
}

impl Handler<ClaimGone> for Launcher {
    type Result = ();

    fn handle(&mut self, gone: ClaimGone, _: &mut Self::Context) {
        self.done.remove(&gone.name);
        self.queue.retain(|(order, _)| order.claim.metadata.uid.is_none() || order.claim.name_any() != gone.name);
    }
}

impl Handler<Observe> for Launcher {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(json!({"queued": self.queue.len(), "running": self.running, "ends": self.ends}))
    }
}

impl Launcher {
    fn enqueue(&mut self, order: LaunchOrder, trace: TraceContext) {
        if self.busy.insert(order.claim.name_any()) {
            self.queue.push_back((order, trace));
        }
    }

    fn run(&mut self, ctx: &mut Context<Self>) {
        while self.running < AT_ONCE {
            let Some((order, trace)) = self.queue.pop_front() else { return };
            self.running += 1;
            let name = order.claim.name_any();
            let launching = Launching { desk: self.desk.clone(), links: self.links.clone(), trace };
            let run = launch::run(launching, order).into_actor(self);
            ctx.spawn(run.map(move |end, launcher, ctx| {
                launcher.ended(&name, end, trace, ctx);
                launcher.run(ctx);
            }));
        }
    }

    fn ended(&mut self, name: &str, end: End, trace: TraceContext, ctx: &mut Context<Self>) {
        self.running -= 1;
        self.busy.remove(name);
        *self.ends.entry(end.label()).or_default() += 1;
        match &end {
            End::Launched { uid } => {
                self.losses.reset();
                self.done.insert(name.to_owned(), uid.clone());
            }
            End::Lost { .. } | End::Refused | End::Leaving => {
                if end != End::Leaving {
                    self.links.cluster.do_send(Wrote::ClaimGone(name.to_owned()));
                }
                let again = PackNow { term: self.desk.term, trace };
                if end == (End::Lost { at_once: true }) {
                    self.links.packer.do_send(again);
                } else {
                    let pause = self.losses.pause();
                    ctx.run_later(pause, move |launcher, _| launcher.links.packer.do_send(again));
                }
            }
            End::Deposed => {}
        }
    }
}
