//! A cluster around an API server: controllers, the scheduler, and a kubelet for each instance of the region.
//!
//! One task does it all: it takes a change, lets everybody follow it, then does what is due, one piece of work after
//! another, and sleeps until the next change or the next due time. So the order of things is a function of the seed, on
//! tokio's paused clock as on the real one.
//!
//! - [`beforehand`]: nodes that are there at time 0; `karpenter`: those that a Karpenter has left.
//! - `controllers/`: workloads, budgets, volumes, nodes. `scheduler/`: kube-scheduler. `kubelet/`: nodes and their pods.
//! - `cache`, `work`, `context`: what they share.

pub mod beforehand;
mod cache;
mod context;
mod controllers;
mod daemons;
mod karpenter;
mod kind;
mod kube;
mod kubelet;
mod life_log;
mod pod;
mod quantity;
mod resized;
mod scheduler;
pub mod settings;
mod work;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use dovetail_core::clock::Clock;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

pub use self::beforehand::{BeforehandError, NodesBeforehand};
pub use self::karpenter::KarpenterOwnership;
pub use self::kubelet::MENDED_BY_REBOOT;
pub use self::life_log::needs;
pub use self::settings::ClusterSettings;

use self::cache::{ClusterCache, Key};
use self::context::{ClusterChange, ClusterContext};
use self::kind::Kind;
use self::kube::Kube;
use self::kubelet::Kubelets;
use self::life_log::LifeLog;
use self::scheduler::Scheduler;
use self::work::{Work, WorkQueue};
use crate::apiserver::{ApiServer, ChangeKind, Happened};
use crate::log::EventLog;
use crate::region::{InstanceEvent, Region};

/// Pieces of work after which other tasks get their turn.
const TURN: u32 = 64;
/// Time between two looks for zones that went down or came back: kubelets' heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The cluster's own parts. Made with [`SandboxCluster::new`], furnished with [`SandboxCluster::place`], and run with
/// [`SandboxCluster::run`] or [`SandboxCluster::start`].
pub struct SandboxCluster {
    ctx: ClusterContext,
    scheduler: Scheduler,
    kubelets: Kubelets,
    changes: UnboundedReceiver<Happened>,
    instances: UnboundedReceiver<InstanceEvent>,
    region: Region,
}

impl std::fmt::Debug for SandboxCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("settings", &self.ctx.settings).finish_non_exhaustive()
    }
}

impl SandboxCluster {
    /// A cluster over an API server and a region, which are followed from now on. To be made within a tokio runtime.
    pub fn new(
        api: ApiServer,
        region: Region,
        clock: Arc<dyn Clock>,
        log: EventLog,
        settings: ClusterSettings,
        seed: u64,
    ) -> Self {
        let kube = Kube::new(api);
        let changes = kube.subscribe();
        let instances = region.subscribe();
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x636c_7573_7465_7231);
        let scheduler = Scheduler::new(rng.fork(), region.faults().clone());
        let ctx = ClusterContext {
            kube,
            cache: ClusterCache::default(),
            queue: WorkQueue::default(),
            life_log: LifeLog::new(log),
            settings,
            clock,
            rng,
        };
        let kubelets = Kubelets::new(region.clone());
        let mut cluster = Self { ctx, scheduler, kubelets, changes, instances, region };
        cluster.take_stock();
        daemons::furnish(&mut cluster.ctx);
        cluster
    }

    /// Runs on the current LocalSet, for as long as it lives.
    pub fn start(self) -> tokio::task::JoinHandle<()> {
        tokio::task::spawn_local(self.run())
    }

    /// Runs for ever.
    pub async fn run(mut self) {
        self.ctx.queue.push_after(HEARTBEAT, Work::Heartbeat);
        let mut done = 0u32;
        loop {
            if let Some(until) = self.region.faults().down() {
                tokio::time::sleep_until(until).await;
                continue;
            }
            self.catch_up();
            if let Some(work) = self.ctx.queue.pop(Instant::now()) {
                self.perform(work);
                done += 1;
                if done.is_multiple_of(TURN) {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            let next = self.ctx.queue.next().unwrap_or_else(|| Instant::now() + HEARTBEAT);
            tokio::select! {
                biased;
                change = self.changes.recv() => match change {
                    Some(happened) => self.follow(happened),
                    None => return,
                },
                event = self.instances.recv() => match event {
                    Some(event) => self.kubelets.instance_changed(&mut self.ctx, &event),
                    None => return,
                },
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Takes in what was there before the cluster.
    fn take_stock(&mut self) {
        for kind in Kind::ALL {
            for object in self.ctx.kube.list(*kind) {
                let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
                let key = Key::new(&meta("namespace"), &meta("name"));
                self.apply(ClusterChange { kind: *kind, key, old: None, new: Some(object) });
            }
        }
    }

    /// Follows all changes that there are.
    fn catch_up(&mut self) {
        while let Ok(happened) = self.changes.try_recv() {
            self.follow(happened);
        }
        while let Ok(event) = self.instances.try_recv() {
            self.kubelets.instance_changed(&mut self.ctx, &event);
        }
    }

    fn follow(&mut self, happened: Happened) {
        let Some(kind) = Kind::from_gvr(&happened.gvr) else { return };
        let new = (happened.kind != ChangeKind::Deleted).then_some(happened.new);
        self.apply(ClusterChange { kind, key: happened.key, old: happened.old, new });
    }

    fn apply(&mut self, change: ClusterChange) {
        let ctx = &mut self.ctx;
        ctx.cache.put(change.kind, &change.key, change.new.as_ref());
        ctx.life_log.report(&change);
        controllers::observe(ctx, &change);
        self.scheduler.observe(ctx, &change);
        self.kubelets.observe(ctx, &change);
    }

    fn perform(&mut self, work: Work) {
        let ctx = &mut self.ctx;
        match work {
            Work::Sync(kind, key) => controllers::sync(ctx, kind, &key),
            Work::Schedule => self.scheduler.run(ctx),
            Work::FlushUnschedulable => self.scheduler.flush(ctx),
            Work::Join(instance) => self.kubelets.join(ctx, &instance),
            Work::Booted(instance) => self.kubelets.booted(ctx, &instance),
            Work::NodeReady(node) => self.kubelets.ready(ctx, &node),
            Work::PublishDevices(node) => self.kubelets.publish_devices(ctx, &node),
            Work::StartPod(key, uid) => self.kubelets.start_pod(ctx, &key, &uid),
            Work::ResizePod(key, uid) => self.kubelets.resize_pod(ctx, &key, &uid),
            Work::FinishPod(key, uid) => self.kubelets.finish_pod(ctx, &key, &uid),
            Work::EndPod(key, uid) => self.kubelets.end_pod(ctx, &key, &uid),
            Work::Silent(node) => {
                if self.kubelets.is_silent(&node) {
                    controllers::nodes::silent(ctx, &node);
                }
            }
            Work::CheckInstance(node) => {
                let gone = self.kubelets.instance_gone(ctx, &node);
                controllers::nodes::check_instance(ctx, &node, gone);
            }
            Work::TakeTaintOff(node) => self.kubelets.take_taint_off(ctx, &node),
            Work::CollectPods(node) => controllers::nodes::collect_pods(ctx, &node),
            Work::Provision(key) => controllers::volumes::provision(ctx, &key),
            Work::Attach(name) => controllers::attachments::attached(ctx, &name),
            Work::Detach(name) => controllers::attachments::detached(ctx, &name),
            Work::Evict(key, uid) => controllers::nodes::evict(ctx, &key, &uid),
            Work::Heartbeat => {
                self.kubelets.look_at_zones(ctx);
                ctx.queue.push_after(HEARTBEAT, Work::Heartbeat);
            }
        }
    }
}
