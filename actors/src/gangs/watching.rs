//! The requests of the cluster, as the watch shows them; the kind is watched where it is served, in the newest version that is.

use actix::prelude::*;
use dovetail_api::provisioning::{KIND, ProvisioningRequest, ProvisioningRequestBeta, VERSIONS};
use dovetail_core::cluster_state::HeldRoom;
use kube::core::ObjectMeta;

use super::{Gangs, SETTLING_TIME};
use crate::context::looks::Looking;
use crate::kube::known::{Fieldless, KnownObject, KnownObjects, NewsEffect};
use crate::kube::served::{KindNews, OptionalKind, watch_where_served};
use crate::telemetry::log_event::LogEvent;

impl OptionalKind for ProvisioningRequest {
    type Older = ProvisioningRequestBeta;

    const KIND: &'static str = KIND;
    const RESOURCE: &'static str = "provisioningrequests";
    const VERSIONS: &'static [&'static str] = &VERSIONS;
}

impl Fieldless for ProvisioningRequest {
    fn fieldless(metadata: ObjectMeta) -> Self {
        Self { metadata, spec: Default::default(), status: None }
    }
}

/// A request; with the reason where it cannot be read, which leaves its metadata.
pub(super) type KnownRequest = KnownObject<ProvisioningRequest>;

/// The requests that the watch has shown, by namespace and name.
pub(super) type KnownRequests = KnownObjects<ProvisioningRequest>;

impl Handler<KindNews<ProvisioningRequest>> for Gangs {
    type Result = ();

    fn handle(&mut self, news: KindNews<ProvisioningRequest>, ctx: &mut Self::Context) {
        let was_listed = self.known.is_listed();
        match self.known.take_news(news) {
            NewsEffect::NotServed => {
                self.env.emit(LogEvent::RequestsNotServed {});
                return self.book_room(HeldRoom::new());
            }
            NewsEffect::Nothing => return,
            NewsEffect::Changed => {}
        }
        if !was_listed && self.known.is_listed() && self.known.is_empty() {
            // Disruption waits for it.
            self.book_room(HeldRoom::new());
        } else if self.known.is_listed() {
            self.look_at_change(SETTLING_TIME, ctx);
        }
    }
}

impl Gangs {
    /// Watches the kind once it is served.
    pub(super) fn watch_requests(&self, ctx: &mut Context<Self>) {
        let client = self.env.outage.for_watches(self.links.calls.client.clone());
        let (posts, to) = (self.env.clone(), ctx.address());
        let watching =
            watch_where_served::<ProvisioningRequest>(self.env.clone(), client, move |news| posts.post(&to, news));
        ctx.spawn(watching.into_actor(self));
    }
}
