//! The buffers of the cluster, as the watch shows them; the kind is watched where it is served, in the newest version that is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::autoscaling::{CapacityBuffer, CapacityBufferAlpha, VERSIONS};
use dovetail_core::cluster_state::{HeldRoom, Unreadable};
use kube::core::ObjectMeta;
use kube_runtime::watcher::Event;

use super::{Buffers, SETTLING_TIME};
use crate::context::looks::Looking;
use crate::kube::watch::{AfterWatchFailure, WatchNews, watch};
use crate::messages::Came;
use crate::reading::{LenientApi, kinds_served};
use crate::telemetry::log_event::LogEvent;

/// Interval at which it is asked if the kind is served, until it is.
const LOOK_FOR_KIND: Duration = Duration::from_secs(60);
/// The same while the API server does not say.
const ASK_AGAIN: Duration = Duration::from_secs(5);
const KIND: &str = "CapacityBuffer";
/// Name of the watch.
const RESOURCE: &str = "capacitybuffers";

/// An event of the watch, as a message.
#[derive(Message)]
#[rtype(result = "()")]
struct SeenBuffer(Event<CapacityBuffer>);

/// A buffer that cannot be read.
#[derive(Message)]
#[rtype(result = "()")]
struct SeenUnreadable(Box<Unreadable>, Came);

/// A buffer; with the reason where it cannot be read, which leaves its metadata.
pub(super) type KnownBuffer = Result<Arc<CapacityBuffer>, (Arc<CapacityBuffer>, String)>;

/// The buffers that the watch has shown, by namespace and name.
#[derive(Default)]
pub(super) struct KnownBuffers {
    all: BTreeMap<String, KnownBuffer>,
    /// While a list starts over: what it has shown.
    listing: Option<BTreeSet<String>>,
    listed: bool,
    version: Option<&'static str>,
}

fn key_of(metadata: &ObjectMeta) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
}

impl KnownBuffers {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// True if all are known, or the kind is not served.
    pub(super) fn is_listed(&self) -> bool {
        self.listed
    }

    /// The API version that is watched.
    pub(super) fn version(&self) -> Option<&'static str> {
        self.version
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = String> + '_ {
        self.all.keys().cloned()
    }

    pub(super) fn all(&self) -> BTreeMap<String, KnownBuffer> {
        self.all.clone()
    }

    /// Takes in our own write, unless the buffer is gone or another one by now.
    pub(super) fn wrote(&mut self, buffer: CapacityBuffer) {
        let known = self.all.get_mut(&key_of(&buffer.metadata));
        if let Some(Ok(known)) =
            known.filter(|one| matches!(one, Ok(known) if known.metadata.uid == buffer.metadata.uid))
        {
            *known = Arc::new(buffer);
        }
    }

    fn insert(&mut self, metadata: &ObjectMeta, buffer: KnownBuffer) {
        let key = key_of(metadata);
        if let Some(listing) = &mut self.listing {
            listing.insert(key.clone());
        }
        self.all.insert(key, buffer);
    }

    fn apply(&mut self, event: Event<CapacityBuffer>) {
        match event {
            Event::Init => self.listing = Some(BTreeSet::new()),
            Event::InitApply(buffer) | Event::Apply(buffer) => {
                self.insert(&buffer.metadata.clone(), Ok(Arc::new(buffer)));
            }
            Event::Delete(buffer) => drop(self.all.remove(&key_of(&buffer.metadata))),
            Event::InitDone => {
                let listed = self.listing.take().unwrap_or_default();
                self.all.retain(|key, _| listed.contains(key));
                self.listed = true;
            }
        }
    }

    fn cannot_read(&mut self, object: &Unreadable) {
        let metadata = object.metadata.clone();
        let buffer = CapacityBuffer { metadata, spec: Default::default(), status: None };
        self.insert(&object.metadata, Err((Arc::new(buffer), format!("it cannot be read: {}", object.why))));
    }
}

impl Handler<SeenBuffer> for Buffers {
    type Result = ();

    fn handle(&mut self, SeenBuffer(event): SeenBuffer, ctx: &mut Self::Context) {
        let was_listed = self.known.is_listed();
        self.known.apply(event);
        if !was_listed && self.known.is_listed() && self.known.is_empty() {
            // Disruption waits for it.
            self.hold_room(HeldRoom::new());
        } else if self.known.is_listed() {
            self.look_at_change(SETTLING_TIME, ctx);
        }
    }
}

impl Handler<SeenUnreadable> for Buffers {
    type Result = ();

    fn handle(&mut self, SeenUnreadable(object, came): SeenUnreadable, ctx: &mut Self::Context) {
        match came {
            Came::Gone => drop(self.known.all.remove(&key_of(&object.metadata))),
            Came::Listed | Came::Changed => self.known.cannot_read(&object),
        }
        if self.known.is_listed() {
            self.look_at_change(SETTLING_TIME, ctx);
        }
    }
}

impl Buffers {
    /// Watches the kind if it is served; asks again later while it is not, which is said once.
    pub(super) fn look_for_kind(&mut self, ctx: &mut Context<Self>) {
        let calls = self.links.calls.clone();
        let asking = async move {
            for version in VERSIONS {
                let kinds = calls.once(kinds_served(&calls.client, version)).await.ok()?;
                if kinds.contains(KIND) {
                    return Some(Some(version));
                }
            }
            Some(None)
        };
        ctx.spawn(asking.into_actor(self).map(|served, actor, ctx| match served {
            Some(Some(version)) => {
                actor.known.version = Some(version);
                actor.known.listed = false;
                match version == VERSIONS[0] {
                    true => actor.watch::<CapacityBuffer>(ctx),
                    false => actor.watch::<CapacityBufferAlpha>(ctx),
                }
            }
            Some(None) => {
                if !std::mem::replace(&mut actor.known.listed, true) {
                    actor.env.emit(LogEvent::BuffersNotServed {});
                    actor.hold_room(HeldRoom::new());
                }
                ctx.run_later(LOOK_FOR_KIND, |actor, ctx| actor.look_for_kind(ctx));
            }
            None => drop(ctx.run_later(ASK_AGAIN, |actor, ctx| actor.look_for_kind(ctx))),
        }));
    }

    fn watch<K>(&self, ctx: &mut Context<Self>)
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug
            + Into<CapacityBuffer>
            + Send
            + Sync
            + 'static,
    {
        let (this, env) = (ctx.address(), self.env.clone());
        let api = LenientApi::<K>::all(self.env.outage.for_watches(self.links.calls.client.clone()));
        let on = move |heard: WatchNews<K>| match heard {
            WatchNews::Event(event) => env.post(&this, SeenBuffer(converted(event))),
            WatchNews::NotRead(object, came) => env.post(&this, SeenUnreadable(object, came)),
            WatchNews::Failed(..) | WatchNews::Runs => {}
        };
        ctx.spawn(watch(api, self.env.clone(), RESOURCE, AfterWatchFailure::GoOn, on).into_actor(self));
    }
}

fn converted<K: Into<CapacityBuffer>>(event: Event<K>) -> Event<CapacityBuffer> {
    match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(buffer) => Event::InitApply(buffer.into()),
        Event::Apply(buffer) => Event::Apply(buffer.into()),
        Event::Delete(buffer) => Event::Delete(buffer.into()),
    }
}
