//! Watch of NodeOverlays, where their feature gate is open. The kind is watched where it is served; the cluster counts as known only
//! when the overlays are: a plan without them would buy by other prices.

use std::collections::BTreeSet;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::overlays::{API_VERSION, KIND, NodeOverlay};
use dovetail_core::cluster_state::Unreadable;
use kube::Client;
use kube_runtime::watcher::Event;

use super::ClusterWatcher;
use crate::context::env::Env;
use crate::kube::watch::{AfterWatchFailure, WatchNews, watch};
use crate::messages::{Came, WatchFailed, WatchRuns};
use crate::reading::{LenientApi, kinds_served};

/// Interval at which it is asked if the kind is served, until it is.
pub(super) const LOOK_FOR_KIND: Duration = Duration::from_secs(60);
/// The same while the API server does not say.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Longest wait for its answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// Name of the watch.
pub(super) const RESOURCE: &str = "nodeoverlays";

/// An event of the watch, as a message.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct SeenOverlay(pub Event<NodeOverlay>);

/// An overlay that cannot be read.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct SeenUnreadable(pub Box<Unreadable>, pub Came);

/// Progress of the watch.
#[derive(Default)]
pub(super) struct OverlayWatch {
    /// True if all are known, the kind is not served, or the gate is closed.
    pub known: bool,
    /// True once it has been reported that the kind is not served.
    pub reported: bool,
    /// While a list starts over: names that it has shown.
    pub listing: Option<BTreeSet<String>>,
}

/// True if the API server serves the kind; `None` while it does not say.
pub(super) async fn are_served(client: Client) -> Option<bool> {
    let answer = tokio::time::timeout(ANSWERED_WITHIN, kinds_served(&client, API_VERSION)).await;
    answer.ok()?.ok().map(|kinds| kinds.contains(KIND))
}

/// Watches overlays, and tells the watcher what comes.
pub(super) async fn watch_overlays(this: Addr<ClusterWatcher>, env: Env, client: Client) {
    let (api, posts) = (LenientApi::<NodeOverlay>::all(client), env.clone());
    let on = move |heard: WatchNews<NodeOverlay>| match heard {
        WatchNews::Event(event) => posts.post(&this, SeenOverlay(event)),
        WatchNews::NotRead(object, came) => posts.post(&this, SeenUnreadable(object, came)),
        WatchNews::Failed(pause, error) => posts.post(&this, WatchFailed { kind: RESOURCE, pause, error }),
        WatchNews::Runs => posts.post(&this, WatchRuns { kind: RESOURCE }),
    };
    watch(api, env, RESOURCE, AfterWatchFailure::GoOn, on).await;
}
