//! The buffers of the cluster, as the watch shows them; the kind is watched where it is served, in the newest version that is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::prelude::*;
use dovetail_api::autoscaling::{CapacityBuffer, CapacityBufferAlpha, VERSIONS};
use dovetail_core::cluster_state::{HeldRoom, Unreadable};
use kube::core::ObjectMeta;

use super::{Buffers, SETTLING_TIME};
use crate::context::looks::Looking;
use crate::kube::served::{KindNews, OptionalKind, key_of, watch_where_served};
use crate::telemetry::log_event::LogEvent;

impl OptionalKind for CapacityBuffer {
    type Older = CapacityBufferAlpha;

    const KIND: &'static str = "CapacityBuffer";
    const RESOURCE: &'static str = "capacitybuffers";
    const VERSIONS: &'static [&'static str] = &VERSIONS;
}

/// A buffer; with the reason where it cannot be read, which leaves its metadata.
pub(super) type KnownBuffer = Result<Arc<CapacityBuffer>, (Arc<CapacityBuffer>, String)>;

/// The buffers that the watch has shown, by namespace and name.
#[derive(Default)]
pub(super) struct KnownBuffers {
    all: BTreeMap<String, KnownBuffer>,
    listed: bool,
    version: Option<&'static str>,
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
        self.all.insert(key_of(metadata), buffer);
    }

    fn cannot_read(&mut self, object: &Unreadable) {
        let metadata = object.metadata.clone();
        let buffer = CapacityBuffer { metadata, spec: Default::default(), status: None };
        self.insert(&object.metadata, Err((Arc::new(buffer), format!("it cannot be read: {}", object.why))));
    }

    /// A list is complete, with the buffers of these keys.
    fn complete(&mut self, keys: &BTreeSet<String>) {
        self.all.retain(|key, _| keys.contains(key));
        self.listed = true;
    }
}

impl Handler<KindNews<CapacityBuffer>> for Buffers {
    type Result = ();

    fn handle(&mut self, news: KindNews<CapacityBuffer>, ctx: &mut Self::Context) {
        let was_listed = self.known.is_listed();
        match news {
            KindNews::NotServed => {
                self.known.listed = true;
                self.env.emit(LogEvent::BuffersNotServed {});
                return self.hold_room(HeldRoom::new());
            }
            KindNews::Served(version) => {
                (self.known.version, self.known.listed) = (Some(version), false);
                return;
            }
            KindNews::Seen(buffer) => self.known.insert(&buffer.metadata.clone(), Ok(Arc::new(*buffer))),
            KindNews::Unreadable(object) => self.known.cannot_read(&object),
            KindNews::Gone(key) => drop(self.known.all.remove(&key)),
            KindNews::Listed(keys) => self.known.complete(&keys),
            KindNews::Failed(..) | KindNews::Runs => return,
        }
        if !was_listed && self.known.is_listed() && self.known.is_empty() {
            // Disruption waits for it.
            self.hold_room(HeldRoom::new());
        } else if self.known.is_listed() {
            self.look_at_change(SETTLING_TIME, ctx);
        }
    }
}

impl Buffers {
    /// Watches the kind once it is served.
    pub(super) fn watch_buffers(&self, ctx: &mut Context<Self>) {
        let client = self.env.outage.for_watches(self.links.calls.client.clone());
        let (posts, to) = (self.env.clone(), ctx.address());
        let watching =
            watch_where_served::<CapacityBuffer>(self.env.clone(), client, move |news| posts.post(&to, news));
        ctx.spawn(watching.into_actor(self));
    }
}
