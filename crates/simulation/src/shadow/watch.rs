//! The real cluster, listed and watched: the one place that speaks to its API server, and the two verbs that it asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_actors::context::backoff::Backoff;
use dovetail_sandbox::apiserver::Gvr;
use futures::StreamExt;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{Config, Event, watcher};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::kinds::{CopiedKind, KINDS, text};
use super::{FIRST_PAUSE, LONGEST_PAUSE, ShadowEvent, ShadowListener};

/// A server ends a watch after so many seconds; what passes connections on often forgets those that are idle for a minute.
const WATCHED_FOR: u32 = 50;

/// News from the watches on the cluster.
pub enum CopiedNews {
    /// An object is there, or has changed.
    There(Gvr, Arc<Value>),
    Gone(Gvr, Arc<Value>),
    /// A list is over: these are all, by namespace and name.
    All(Gvr, BTreeSet<(String, String)>),
}

/// Message of a watch: news, or that its list has failed.
enum Said {
    Heard(CopiedNews),
    Failed(Gvr),
}

/// Watches on every kind.
pub struct ClusterWatches {
    said: UnboundedReceiver<Said>,
}

impl ClusterWatches {
    /// Begins, and answers what there is, in the order of [`KINDS`], when all has been listed that can be. What is needed is waited for.
    pub async fn start(client: &kube::Client, seed: u64, listener: &ShadowListener) -> (Self, Vec<(Gvr, Arc<Value>)>) {
        let (sender, mut said) = unbounded_channel();
        for (number, kind) in (0..).zip(&KINDS) {
            let rng = fastrand::Rng::with_seed(seed ^ 0x0077_6174_6368 ^ (number << 40));
            tokio::task::spawn_local(watch(client.clone(), kind, rng, sender.clone(), listener.clone()));
        }
        let mut waiting: BTreeSet<Gvr> = KINDS.iter().map(|kind| kind.gvr.clone()).collect();
        let needed = |gvr: &Gvr| KINDS.iter().any(|kind| kind.needed && kind.gvr == *gvr);
        let mut there: BTreeMap<Gvr, BTreeMap<(String, String), Arc<Value>>> = BTreeMap::new();
        while !waiting.is_empty() {
            let Some(next) = said.recv().await else { break };
            match next {
                Said::Heard(CopiedNews::There(gvr, object)) => {
                    there.entry(gvr).or_default().insert(key(&object), object);
                }
                Said::Heard(CopiedNews::Gone(gvr, object)) => {
                    there.entry(gvr).or_default().remove(&key(&object));
                }
                Said::Heard(CopiedNews::All(gvr, all)) => {
                    there.entry(gvr.clone()).or_default().retain(|key, _| all.contains(key));
                    waiting.remove(&gvr);
                }
                Said::Failed(gvr) => {
                    if !needed(&gvr) {
                        waiting.remove(&gvr);
                    }
                }
            }
        }
        let in_order = KINDS.iter().flat_map(|kind| {
            let all = there.remove(&kind.gvr).unwrap_or_default();
            all.into_values().map(|object| (kind.gvr.clone(), object))
        });
        let first = in_order.collect();
        (Self { said }, first)
    }

    /// The next news; none once the watches have ended.
    pub async fn next(&mut self) -> Option<CopiedNews> {
        loop {
            match self.said.recv().await? {
                Said::Heard(heard) => return Some(heard),
                Said::Failed(_) => {}
            }
        }
    }
}

fn key(object: &Value) -> (String, String) {
    let name = |field: &str| text(object, &["metadata", field]).to_owned();
    (name("namespace"), name("name"))
}

/// A kind as `kube` names it: the core group has no name, and its `apiVersion` is the version alone.
fn api_resource(kind: &CopiedKind) -> ApiResource {
    let gvr = &kind.gvr;
    let of_group = if gvr.group.is_empty() { String::new() } else { format!("{}/", gvr.group) };
    ApiResource {
        group: gvr.group.to_string(),
        version: gvr.version.to_string(),
        api_version: format!("{of_group}{}", gvr.version),
        kind: kind.kind.to_owned(),
        plural: gvr.resource.to_string(),
    }
}

/// Watches a kind for ever. That it cannot be read is said once until it can be again.
async fn watch(
    client: kube::Client,
    kind: &'static CopiedKind,
    rng: fastrand::Rng,
    to: UnboundedSender<Said>,
    listener: ShadowListener,
) {
    let gvr = &kind.gvr;
    let api: Api<DynamicObject> = Api::all_with(client, &api_resource(kind));
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, rng);
    let mut said = false;
    let mut events = std::pin::pin!(watcher(api, Config::default().timeout(WATCHED_FOR)));
    let mut listing = BTreeSet::new();
    while let Some(event) = events.next().await {
        let heard = match event {
            // Each list begins so, one that fails as well.
            Ok(Event::Init) => {
                listing.clear();
                continue;
            }
            Ok(event) => {
                backoff.reset();
                match event {
                    Event::Init => continue,
                    Event::InitApply(object) => {
                        let object = value(object);
                        listing.insert(key(&object));
                        CopiedNews::There(gvr.clone(), object)
                    }
                    Event::Apply(object) => CopiedNews::There(gvr.clone(), value(object)),
                    Event::Delete(object) => CopiedNews::Gone(gvr.clone(), value(object)),
                    Event::InitDone => {
                        said = false;
                        CopiedNews::All(gvr.clone(), std::mem::take(&mut listing))
                    }
                }
            }
            Err(error) => {
                let pause = backoff.pause();
                // Once may be a connection that was lost.
                if backoff.failures() > 1 && !std::mem::replace(&mut said, true) {
                    listener(&ShadowEvent::Note(cannot_read(kind, &error.to_string())));
                    let _ = to.send(Said::Failed(gvr.clone()));
                }
                tokio::time::sleep(pause).await;
                continue;
            }
        };
        if to.send(Said::Heard(heard)).is_err() {
            return;
        }
    }
}

fn cannot_read(kind: &CopiedKind, why: &str) -> String {
    let then = if kind.needed { "it is waited for" } else { "the shadow goes on as if there were none" };
    format!("{} cannot be listed and watched: {why}; {then}", kind.gvr.resource)
}

/// An object without what nobody asks for.
fn value(object: DynamicObject) -> Arc<Value> {
    let mut object = object;
    object.metadata.managed_fields = None;
    Arc::new(serde_json::to_value(object).unwrap_or_else(|_| json!({})))
}
