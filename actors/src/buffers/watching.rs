//! The buffers of the cluster, as the watch shows them; the kind is watched where it is served, in the newest version that is.

use actix::prelude::*;
use dovetail_api::autoscaling::{CapacityBuffer, CapacityBufferAlpha, VERSIONS};
use dovetail_core::cluster_state::HeldRoom;
use kube::core::ObjectMeta;

use super::{Buffers, SETTLING_TIME};
use crate::context::looks::Looking;
use crate::kube::known::{Fieldless, KnownObject, KnownObjects, NewsEffect};
use crate::kube::served::{KindNews, OptionalKind, watch_where_served};
use crate::telemetry::log_event::LogEvent;

impl OptionalKind for CapacityBuffer {
    type Older = CapacityBufferAlpha;

    const KIND: &'static str = "CapacityBuffer";
    const RESOURCE: &'static str = "capacitybuffers";
    const VERSIONS: &'static [&'static str] = &VERSIONS;
}

impl Fieldless for CapacityBuffer {
    fn fieldless(metadata: ObjectMeta) -> Self {
        Self { metadata, spec: Default::default(), status: None }
    }
}

/// A buffer; with the reason where it cannot be read, which leaves its metadata.
pub(super) type KnownBuffer = KnownObject<CapacityBuffer>;

/// The buffers that the watch has shown, by namespace and name.
pub(super) type KnownBuffers = KnownObjects<CapacityBuffer>;

impl Handler<KindNews<CapacityBuffer>> for Buffers {
    type Result = ();

    fn handle(&mut self, news: KindNews<CapacityBuffer>, ctx: &mut Self::Context) {
        let was_listed = self.known.is_listed();
        match self.known.take_news(news) {
            NewsEffect::NotServed => {
                self.env.emit(LogEvent::BuffersNotServed {});
                return self.hold_room(HeldRoom::new());
            }
            NewsEffect::Nothing => return,
            NewsEffect::Changed => {}
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
