//! The watches, and what each kind's says.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::prelude::*;
use dovetail_api::kwok::KWOKNodeClass;
use dovetail_api::names::provider::Provider;
use dovetail_api::v1::{EC2NodeClass, NodeClaim, NodePool};
use dovetail_core::cluster_state::{KeptFacts, WatchedKind};
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, ReplicationController, Service,
};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kube::ResourceExt;
use kube_runtime::watcher::Event;

use super::ClusterWatcher;
use crate::kube::watch::{AfterWatchFailure, WatchNews, watch};
use crate::messages::{NotRead, PODS, PodSeen, WatchFailed, WatchRuns};
use crate::reading::LenientApi;

/// An event of a watch, as a message.
#[derive(Message)]
#[rtype(result = "()")]
struct Seen<K: 'static>(Event<K>);

/// The kinds that what is launched and removed is decided by, as their watches are called.
const NODES: &str = "nodes";
const CLAIMS: &str = "nodeclaims";
const POOLS: &str = "nodepools";

macro_rules! watches {
    ($self:ident, $ctx:ident, $after:expr, $($kind:ty: $of:ident => $name:expr),* $(,)?) => {$(
        let (this, env, api) = ($ctx.address(), $self.env.clone(), LenientApi::<$kind>::all($self.client.clone()));
        let on = move |heard| match heard {
            WatchNews::Event(event) => env.post(&this, Seen(event)),
            WatchNews::NotRead(object, came) => env.post(&this, NotRead { kind: WatchedKind::$of, watch: $name, object, came }),
            WatchNews::Failed(pause, error) => env.post(&this, WatchFailed { kind: $name, pause, error }),
            WatchNews::Runs => env.post(&this, WatchRuns { kind: $name }),
        };
        $ctx.spawn(watch(api, $self.env.clone(), $name, $after, on).into_actor($self));
    )*};
}

impl Actor for ClusterWatcher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        watches!(self, ctx, AfterWatchFailure::ListAnew, Node: Node => NODES,
            NodeClaim: NodeClaim => CLAIMS, NodePool: NodePool => POOLS);
        let classes = self.env.settings.provider.class().plural;
        match self.env.settings.provider {
            Provider::Ec2 => {
                watches!(self, ctx, AfterWatchFailure::GoOn, EC2NodeClass: NodeClass => classes);
            }
            Provider::Kwok => {
                watches!(self, ctx, AfterWatchFailure::GoOn, KWOKNodeClass: NodeClass => classes);
            }
        }
        watches!(self, ctx, AfterWatchFailure::GoOn, DaemonSet: DaemonSet => "daemonsets",
            PodDisruptionBudget: PodDisruptionBudget => "poddisruptionbudgets", Namespace: Namespace => "namespaces",
            PersistentVolumeClaim: PersistentVolumeClaim => "persistentvolumeclaims",
            PersistentVolume: PersistentVolume => "persistentvolumes",
            StorageClass: StorageClass => "storageclasses", CSINode: CsiNode => "csinodes",
            StatefulSet: StatefulSet => "statefulsets", LimitRange: LimitRange => "limitranges",
            RuntimeClass: RuntimeClass => "runtimeclasses");
        self.begin_gated(ctx);
        if self.env.settings.default_spread.is_empty() {
            // Nothing is asked of them, and there may be very many.
            for kind in WatchedKind::OF_DEFAULT_SPREAD {
                self.state.list_begins(kind);
                self.state.list_ends(kind);
            }
        } else {
            watches!(self, ctx, AfterWatchFailure::GoOn, Service: Service => "services", ReplicaSet: ReplicaSet => "replicasets",
                ReplicationController: ReplicationController => "replicationcontrollers");
        }
    }
}

impl Handler<WatchFailed> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, failed: WatchFailed, _: &mut Self::Context) {
        match failed.kind {
            NODES | CLAIMS | POOLS => self.unobserved.lists_anew(failed.kind),
            PODS => self.unobserved.goes_on(PODS, failed.pause, self.env.now()),
            _ => {}
        }
        self.watch_failed(failed);
    }
}

impl Handler<PodSeen> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, PodSeen(event): PodSeen, _: &mut Self::Context) {
        self.unobserved.said(PODS, &*event);
        match &*event {
            Event::Init => self.state.list_begins(WatchedKind::Pod),
            Event::InitApply(pod) | Event::Apply(pod) => self.apply_pod(pod),
            Event::Delete(pod) => self.state.delete_pod(pod.metadata.uid.as_deref().unwrap_or_default()),
            Event::InitDone => self.listed(WatchedKind::Pod),
        }
        if self.state.date_moves(self.env.wall()) {
            self.cluster_changed();
        }
    }
}

impl Handler<Seen<Node>> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, Seen(event): Seen<Node>, _: &mut Self::Context) {
        self.unobserved.said(NODES, &event);
        match event {
            Event::Init => self.state.list_begins(WatchedKind::Node),
            Event::InitApply(node) | Event::Apply(node) => self.apply_node(Arc::new(node)),
            Event::Delete(node) => self.node_gone(&node.name_any(), node.metadata.uid.as_deref()),
            Event::InitDone => {
                self.listed(WatchedKind::Node);
                let known = self.state.snapshot().nodes;
                let gone: Vec<_> = self.nodes.keys().filter(|name| !known.contains_key(*name)).cloned().collect();
                gone.iter().for_each(|name| self.node_gone(name, None));
            }
        }
    }
}

impl Handler<Seen<NodeClaim>> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, Seen(event): Seen<NodeClaim>, _: &mut Self::Context) {
        self.unobserved.said(CLAIMS, &event);
        match event {
            Event::Init => self.state.list_begins(WatchedKind::NodeClaim),
            Event::InitApply(claim) | Event::Apply(claim) => {
                self.lag.shows(&claim.metadata, self.env.now());
                self.apply_claim(Arc::new(claim));
            }
            Event::Delete(claim) => {
                self.lag.shows(&claim.metadata, self.env.now());
                self.claim_gone(&claim.name_any(), claim.metadata.uid.as_deref());
            }
            Event::InitDone => {
                let before = self.state.snapshot().claims;
                self.listed(WatchedKind::NodeClaim);
                let after = self.state.snapshot().claims;
                lost(&before, &after).for_each(|name| self.claim_gone(&name, None));
            }
        }
    }
}

impl Handler<Seen<NodePool>> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, Seen(event): Seen<NodePool>, _: &mut Self::Context) {
        self.unobserved.said(POOLS, &event);
        match event {
            Event::Init => self.state.list_begins(WatchedKind::NodePool),
            Event::InitApply(pool) | Event::Apply(pool) => self.apply_pool(pool),
            Event::Delete(pool) => {
                self.state.delete_pool(&pool.name_any(), pool.metadata.uid.as_deref());
                self.pool_gone(pool.name_any());
            }
            Event::InitDone => {
                let before = self.names(WatchedKind::NodePool);
                self.listed(WatchedKind::NodePool);
                let after = self.names(WatchedKind::NodePool);
                before.difference(&after).for_each(|name| self.pool_gone(name.clone()));
            }
        }
    }
}

impl Handler<Seen<EC2NodeClass>> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, Seen(event): Seen<EC2NodeClass>, _: &mut Self::Context) {
        match event {
            Event::Init => self.state.list_begins(WatchedKind::NodeClass),
            Event::InitApply(class) | Event::Apply(class) => self.apply_class(class),
            Event::Delete(class) => {
                self.state.delete_class(&class.name_any(), class.metadata.uid.as_deref());
                self.class_gone(class.name_any());
            }
            Event::InitDone => {
                let before = self.names(WatchedKind::NodeClass);
                self.listed(WatchedKind::NodeClass);
                let after = self.names(WatchedKind::NodeClass);
                before.difference(&after).for_each(|name| self.class_gone(name.clone()));
            }
        }
    }
}

impl Handler<Seen<KWOKNodeClass>> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, Seen(event): Seen<KWOKNodeClass>, ctx: &mut Self::Context) {
        let event = match event {
            Event::Init => Event::Init,
            Event::InitApply(class) => Event::InitApply(class.into_record()),
            Event::InitDone => Event::InitDone,
            Event::Apply(class) => Event::Apply(class.into_record()),
            Event::Delete(class) => Event::Delete(class.into_record()),
        };
        Handler::<Seen<EC2NodeClass>>::handle(self, Seen(event), ctx);
    }
}

impl Handler<Seen<DaemonSet>> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, Seen(event): Seen<DaemonSet>, _: &mut Self::Context) {
        match event {
            Event::Init => self.state.list_begins(WatchedKind::DaemonSet),
            Event::InitApply(set) | Event::Apply(set) => self.state.apply_daemon_set(set),
            Event::Delete(set) => self.state.delete_daemon_set(&set),
            Event::InitDone => self.listed(WatchedKind::DaemonSet),
        }
    }
}

impl Handler<Seen<PodDisruptionBudget>> for ClusterWatcher {
    type Result = ();

    fn handle(&mut self, Seen(event): Seen<PodDisruptionBudget>, _: &mut Self::Context) {
        match event {
            Event::Init => self.state.list_begins(WatchedKind::PodDisruptionBudget),
            Event::InitApply(budget) | Event::Apply(budget) => self.state.apply_budget(budget),
            Event::Delete(budget) => self.state.delete_budget(&budget),
            Event::InitDone => self.listed(WatchedKind::PodDisruptionBudget),
        }
        self.cluster_changed();
    }
}

/// Names that a new list no longer has.
fn lost<V>(before: &BTreeMap<String, V>, after: &BTreeMap<String, V>) -> impl Iterator<Item = String> {
    before.keys().filter(|name| !after.contains_key(*name)).cloned()
}

/// Kinds of which only facts are kept: what a pod left over waits for may have come with them.
macro_rules! facts {
    ($($kind:ty),*) => {$(
        impl Handler<Seen<$kind>> for ClusterWatcher {
            type Result = ();

            fn handle(&mut self, Seen(event): Seen<$kind>, _: &mut Self::Context) {
                let news = match event {
                    Event::Init => {
                        self.state.list_begins(<$kind as KeptFacts>::KIND);
                        false
                    }
                    Event::InitApply(one) | Event::Apply(one) => self.state.apply(&one),
                    Event::Delete(one) => self.state.delete(&one),
                    Event::InitDone => {
                        self.listed(<$kind as KeptFacts>::KIND);
                        false
                    }
                };
                if news {
                    self.world_changed();
                }
            }
        }
    )*};
}

facts!(
    Namespace,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CSINode,
    StatefulSet,
    LimitRange,
    RuntimeClass,
    Service,
    ReplicaSet,
    ReplicationController
);
