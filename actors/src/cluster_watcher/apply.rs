//! Takes what the watches show into the cluster state and reports it to the actors concerned.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::autoscaling::CapacityQuota;
use dovetail_api::overlays::NodeOverlay;
use dovetail_api::resource::{DeviceClass, ResourceClaim, ResourceSlice};
use dovetail_api::scheduling::{CoschedulingGroup, PodGroup};
use dovetail_api::v1::{EC2NodeClass, NodeClaim, NodePool};
use dovetail_api::vertical::VerticalPodAutoscaler;
use dovetail_core::cluster_state::{ClusterState, UpdateEffect, WatchedKind};
use dovetail_core::lifecycle::{self, ClaimStage};
use dovetail_core::overlays::WrittenOverlay;
use dovetail_core::quotas::WrittenQuota;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;

use super::ClusterWatcher;
use crate::kube::served::{KindNews, OptionalKind, watch_where_served};
use crate::messages::{
    ClaimChanged, ClaimGone, ClassChanged, DevicesChanged, NodeChanged, NodeGone, PoolChanged, WatchFailed,
    WorldChanged,
};
use crate::telemetry::log_event::LogEvent;

impl ClusterWatcher {
    pub(super) fn listed(&mut self, kind: WatchedKind) {
        self.state.list_ends(kind);
        self.failures.listed(kind.resource_of(self.env.settings.provider));
        self.note_synced();
        self.world_changed();
    }

    /// The cluster is known once all kinds have been listed, those behind open feature gates too.
    pub(super) fn note_synced(&mut self) {
        if self.state.synced() && self.not_known.is_empty() && !self.synced {
            self.synced = true;
            let now = self.state.snapshot();
            let (pods, nodes, node_claims) = (now.pods.len(), now.nodes.len(), now.claims.len());
            self.env.emit(LogEvent::Synced { pods, nodes, node_claims });
        }
    }

    pub(super) fn apply_pod(&mut self, pod: &Pod) {
        let places_lost = self.state.places_lost();
        let applied = self.state.apply_pod(pod);
        self.post_places_lost(places_lost);
        if let Err(error) = applied {
            self.cannot_read_pod(pod, error.to_string());
        }
    }

    /// Tells that pods have lost the place where they were expected, if any have since.
    pub(super) fn post_places_lost(&self, before: u64) {
        if self.state.places_lost() != before {
            self.to_leader(|leader| self.env.post(&leader.world, WorldChanged::PlacesLost));
        }
    }

    pub(super) fn apply_node(&mut self, mut node: Arc<Node>) {
        let slim = Arc::make_mut(&mut node);
        slim.metadata.managed_fields = None;
        if let Some(status) = &mut slim.status {
            status.images = None;
        }
        if !self.state.apply_node(&node) {
            return;
        }
        self.nodes.insert(node.name_any(), node.clone());
        self.to_leader(|leader| leader.nodes.iter().for_each(|to| self.env.post(to, NodeChanged(node.clone()))));
        self.tell_departures();
        self.cluster_changed();
    }

    pub(super) fn node_gone(&mut self, name: &str, uid: Option<&str>) {
        self.state.delete_node(name, uid);
        if !self.state.snapshot().nodes.contains_key(name) && self.nodes.remove(name).is_some() {
            self.to_leader(|leader| {
                leader.nodes_gone.iter().for_each(|to| self.env.post(to, NodeGone { name: name.to_owned() }));
            });
            self.world_changed();
            self.cluster_changed();
        }
    }

    /// Takes a claim in, and tells of it. One of another kind of class is another provider's: nobody here hears of it.
    pub(super) fn apply_claim(&mut self, mut claim: Arc<NodeClaim>) {
        if !claim.spec.node_class_ref.is_of(self.env.settings.provider) {
            return;
        }
        if claim.metadata.managed_fields.is_some() {
            Arc::make_mut(&mut claim).metadata.managed_fields = None;
        }
        let name = claim.name_any();
        let stage_of =
            |state: &ClusterState| state.snapshot().claims.get(&name).and_then(|entry| lifecycle::stage(&entry.claim));
        let before = stage_of(&self.state);
        if !self.state.apply_claim(claim.clone()) {
            return;
        }
        if before != Some(ClaimStage::Initialized) && stage_of(&self.state) == Some(ClaimStage::Initialized) {
            let places_lost = self.state.places_lost();
            self.state.note_ready(&name, self.env.now());
            self.state.expect_until(&name, self.patience());
            self.post_places_lost(places_lost);
        }
        self.to_leader(|leader| leader.claims.iter().for_each(|to| self.env.post(to, ClaimChanged(claim.clone()))));
        if lifecycle::is_deleting(&claim) {
            self.world_changed();
        }
        self.tell_departures();
        self.cluster_changed();
    }

    pub(super) fn claim_gone(&mut self, name: &str, uid: Option<&str>) {
        self.state.delete_claim(name, uid);
        // Another has come under its name, of which this says nothing.
        if self.state.snapshot().claims.contains_key(name) {
            return;
        }
        self.to_leader(|leader| {
            leader.claims_gone.iter().for_each(|to| self.env.post(to, ClaimGone { name: name.to_owned() }));
        });
        self.world_changed();
        self.cluster_changed();
    }

    pub(super) fn apply_pool(&mut self, mut pool: NodePool) {
        pool.metadata.managed_fields = None;
        let name = pool.name_any();
        let changed = Arc::new(pool.clone());
        match self.state.apply_pool(pool) {
            UpdateEffect::Stale => return,
            UpdateEffect::Alike => {}
            UpdateEffect::News => self.world_changed(),
        }
        self.to_leader(|leader| {
            self.env.post(&leader.pools, PoolChanged { name: name.clone(), pool: Some(changed.clone()) })
        });
        self.cluster_changed();
    }

    /// A pool is gone, unless another has come under its name, of which this says nothing.
    pub(super) fn pool_gone(&mut self, name: String) {
        let now = self.state.snapshot();
        if now.pools.contains_key(&name) || now.unreadable(WatchedKind::NodePool, &name).is_some() {
            return;
        }
        self.to_leader(|leader| self.env.post(&leader.pools, PoolChanged { name: name.clone(), pool: None }));
    }

    /// Tells the leader's actors that a class is gone, unless the state still has it.
    pub(super) fn class_gone(&mut self, name: String) {
        let now = self.state.snapshot();
        if now.classes.contains_key(&name) || now.unreadable(WatchedKind::NodeClass, &name).is_some() {
            return;
        }
        self.to_leader(|leader| self.env.post(&leader.classes, ClassChanged { name: name.clone(), class: None }));
    }

    pub(super) fn apply_class(&mut self, mut class: EC2NodeClass) {
        class.metadata.managed_fields = None;
        let name = class.name_any();
        let changed = Arc::new(class.clone());
        match self.state.apply_class(class) {
            UpdateEffect::Stale => return,
            UpdateEffect::Alike => {}
            UpdateEffect::News => self.world_changed(),
        }
        self.to_leader(|leader| {
            self.env.post(&leader.classes, ClassChanged { name: name.clone(), class: Some(changed.clone()) })
        });
    }
}

impl ClusterWatcher {
    /// Begins to watch the kinds whose gates are open.
    pub(super) fn begin_gated(&mut self, ctx: &mut Context<Self>) {
        if self.env.settings.node_overlays() {
            self.watch_kind::<NodeOverlay>(ctx);
        }
        if self.env.settings.capacity_quotas() {
            self.watch_kind::<CapacityQuota>(ctx);
        }
        if self.env.settings.recommendations() {
            self.watch_kind::<VerticalPodAutoscaler>(ctx);
        }
        if self.env.settings.devices().is_some() {
            self.watch_kind::<ResourceClaim>(ctx);
            self.watch_kind::<DeviceClass>(ctx);
            self.watch_kind::<ResourceSlice>(ctx);
        }
        if self.env.settings.gang_scheduling() {
            self.watch_kind::<PodGroup>(ctx);
            self.watch_kind::<CoschedulingGroup>(ctx);
        }
    }

    /// Pods of a gang may have places now, or have to wait for others of it.
    pub(super) fn groups_changed(&self, news: bool) {
        if news {
            self.world_changed();
        }
    }

    /// A pod that waits may have its devices now.
    pub(super) fn claims_changed(&self, news: bool) {
        if news {
            self.world_changed();
        }
    }

    /// A node may have published all of its devices. The first list is reported as a whole.
    pub(super) fn slices_changed(&self, news: bool) {
        self.claims_changed(news);
        if news && !self.not_known.contains(ResourceSlice::RESOURCE) {
            let devices = self.state.snapshot().devices;
            self.to_leader(|leader| self.env.post(&leader.devices, DevicesChanged(devices.clone())));
        }
    }

    fn watch_kind<K: OptionalKind>(&mut self, ctx: &mut Context<Self>)
    where
        Self: Handler<KindNews<K>>,
    {
        self.not_known.insert(K::RESOURCE);
        let (posts, to) = (self.env.clone(), ctx.address());
        let watching =
            watch_where_served::<K>(self.env.clone(), self.client.clone(), move |news| posts.post(&to, news));
        ctx.spawn(watching.into_actor(self));
    }

    /// All objects of a kind are known, or it is not served.
    pub(super) fn kind_known<K: OptionalKind>(&mut self) {
        self.not_known.remove(K::RESOURCE);
        self.failures.listed(K::RESOURCE);
        self.note_synced();
        self.world_changed();
    }

    /// The watch of a kind has failed.
    pub(super) fn kind_failed<K: OptionalKind>(&mut self, pause: Duration, error: String) {
        self.watch_failed(WatchFailed { kind: K::RESOURCE, pause, error });
    }

    /// Everything that is planned by prices may come out differently.
    fn overlays_changed(&self, news: bool) {
        if news {
            self.world_changed();
        }
        // New conditions of an overlay are judged too.
        self.cluster_changed();
    }

    fn put_overlay(&mut self, overlay: WrittenOverlay) {
        let news = self.state.apply_overlay(overlay);
        self.overlays_changed(news);
    }

    /// Takes in a status that we wrote, unless the overlay is gone or another one by now.
    pub(super) fn overlay_written(&mut self, overlay: NodeOverlay) {
        if self.state.overlay_written(WrittenOverlay::new(overlay)) {
            self.overlays_changed(false);
        }
    }

    /// A pod that waits may have room under a quota that is another one now, or gone.
    fn quotas_changed(&self, news: bool) {
        if news {
            self.world_changed();
        }
        // New statuses of a quota are judged too.
        self.cluster_changed();
    }

    fn put_quota(&mut self, quota: WrittenQuota) {
        let news = self.state.apply_quota(quota);
        self.quotas_changed(news);
    }

    /// Takes in a status that we wrote, unless the quota is gone or another one by now.
    pub(super) fn quota_written(&mut self, quota: CapacityQuota) {
        if self.state.quota_written(WrittenQuota::new(quota)) {
            self.quotas_changed(false);
        }
    }
}

impl Handler<KindNews<NodeOverlay>> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, news: KindNews<NodeOverlay>, _: &mut Self::Context) {
        match news {
            KindNews::NotServed => {
                self.env.emit(LogEvent::OverlaysNotServed {});
                self.kind_known::<NodeOverlay>();
            }
            KindNews::Served(_) => {}
            KindNews::Seen(overlay) => self.put_overlay(WrittenOverlay::new(*overlay)),
            KindNews::Unreadable(object) => {
                let overlay = NodeOverlay { metadata: object.metadata, spec: Default::default(), status: None };
                self.put_overlay(WrittenOverlay::unreadable(overlay, &object.why));
            }
            KindNews::Gone(name) => {
                let news = self.state.delete_overlay(&name);
                self.overlays_changed(news);
            }
            KindNews::Listed(names) => {
                let news = self.state.overlays_listed(|name| names.contains(name));
                self.overlays_changed(news);
                self.kind_known::<NodeOverlay>();
            }
            KindNews::Failed(pause, error) => self.kind_failed::<NodeOverlay>(pause, error),
            KindNews::Runs => self.watch_runs(NodeOverlay::RESOURCE),
        }
    }
}

impl Handler<KindNews<CapacityQuota>> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, news: KindNews<CapacityQuota>, _: &mut Self::Context) {
        match news {
            KindNews::NotServed => {
                self.env.emit(LogEvent::QuotasNotServed {});
                self.kind_known::<CapacityQuota>();
            }
            // The writer of statuses asks for the version itself.
            KindNews::Served(_) => {}
            KindNews::Seen(quota) => self.put_quota(WrittenQuota::new(*quota)),
            KindNews::Unreadable(object) => {
                let quota = CapacityQuota { metadata: object.metadata, spec: Default::default(), status: None };
                self.put_quota(WrittenQuota::unreadable(quota, &object.why));
            }
            KindNews::Gone(name) => {
                let news = self.state.delete_quota(&name);
                self.quotas_changed(news);
            }
            KindNews::Listed(names) => {
                let news = self.state.quotas_listed(|name| names.contains(name));
                self.quotas_changed(news);
                self.kind_known::<CapacityQuota>();
            }
            KindNews::Failed(pause, error) => self.kind_failed::<CapacityQuota>(pause, error),
            KindNews::Runs => self.watch_runs(CapacityQuota::RESOURCE),
        }
    }
}

impl Handler<KindNews<VerticalPodAutoscaler>> for ClusterWatcher {
    type Result = ();

    /// A change is reported to nobody: recommendations change all the time, and no pod waits for one. The next plan has them.
    fn handle(&mut self, news: KindNews<VerticalPodAutoscaler>, _: &mut Self::Context) {
        let known = self.state.recommendations_mut();
        match news {
            KindNews::Seen(vpa) => {
                known.apply(&vpa);
            }
            // Its recommendation is not known: pods of its workload count as they are.
            KindNews::Unreadable(object) => {
                let meta = &object.metadata;
                let namespace = meta.namespace.as_deref().unwrap_or_default();
                known.remove(&format!("{namespace}/{}", meta.name.as_deref().unwrap_or_default()));
            }
            KindNews::Gone(key) => {
                known.remove(&key);
            }
            KindNews::Listed(keys) => {
                known.retain_keys(|key| keys.contains(key));
                self.kind_known::<VerticalPodAutoscaler>();
            }
            KindNews::NotServed => {
                self.env.emit(LogEvent::AutoscalersNotServed {});
                self.kind_known::<VerticalPodAutoscaler>();
            }
            KindNews::Failed(pause, error) => self.kind_failed::<VerticalPodAutoscaler>(pause, error),
            KindNews::Runs => self.watch_runs(VerticalPodAutoscaler::RESOURCE),
            KindNews::Served(_) => {}
        }
    }
}
