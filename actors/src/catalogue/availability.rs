//! Keeper of the unavailable offerings: the leader's launches show them, a ConfigMap beside the Lease hands them to a successor:
//! read when leading begins, written when it has changed, every ten seconds at most.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use actix::prelude::*;
use dovetail_cloud::unavailable::Unavailable;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{Catalogue, TYPES_NAMED};
use crate::kube::calls::{CallError, Calls};
use crate::messages::{FullSubnets, LaunchedOffering, Refused};
use crate::reading::LenientApi;
use crate::telemetry::log_event::{LogEvent, Names};

/// The ConfigMap, beside the Lease, in which what EC2 lately refused is kept for the next leader.
pub const UNAVAILABLE_OFFERINGS: &str = "dovetail-unavailable-offerings";
/// The key of the ConfigMap under which it stands.
pub const KEY: &str = "unavailable";
/// A write that has not succeeded by then is given up: the next says more.
const LONGEST_WRITE: Duration = Duration::from_secs(30);

/// Keep what is unavailable by these calls, as long as they may act. Order, from `control_plane` to `catalogue`.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Keep(pub Calls);

/// Handling of the ConfigMap that hands the unavailable offerings to the next leader.
#[derive(Default)]
pub struct Keeping {
    calls: Option<Calls>,
    /// Number of changes that are in the ConfigMap or that will not be written again.
    known: u64,
    /// True until the predecessor's ConfigMap has been read: it is not written to before.
    unread: bool,
    /// A read or a write is on its way.
    busy: bool,
    /// True once this term has reported that it cannot be written.
    said: bool,
}

impl Keeping {
    /// The term is over.
    pub fn stop(&mut self) {
        self.calls = None;
    }
}

impl Handler<Keep> for Catalogue {
    type Result = ();

    fn handle(&mut self, Keep(calls): Keep, ctx: &mut Self::Context) {
        self.keeping = Keeping { calls: Some(calls), unread: true, busy: self.keeping.busy, ..Keeping::default() };
        self.keep_availability(ctx);
    }
}

impl Handler<Refused> for Catalogue {
    type Result = ();

    fn handle(&mut self, refused: Refused, _: &mut Self::Context) {
        let now = self.env.now();
        let known = self.unavailable.as_of(now);
        let mut news: BTreeMap<(String, String, String, &str), BTreeSet<String>> = BTreeMap::new();
        for refusal in refused.refusals.iter().filter(|refusal| refusal.is_capacity()) {
            self.unavailable.note(now, refusal);
            let dovetail_cloud::launch::OfferingRefusal { instance_type, zone, capacity_type, code, .. } = refusal;
            if !known.refused(instance_type, zone, capacity_type) {
                // A quota is the whole region's.
                let zone = if refusal.is_account_wide() { String::new() } else { zone.clone() };
                let market = (zone, capacity_type.clone(), code.clone(), refusal.cause().unwrap_or_default());
                news.entry(market).or_default().extend(Some(instance_type.clone()).filter(|name| !name.is_empty()));
            }
        }
        self.unavailable.forget_expired(now);
        for ((zone, capacity_type, code, cause), all) in news {
            let (types, instance_types, cause) = (all.len(), Names::first(TYPES_NAMED, all), cause.to_owned());
            let log_event = LogEvent::OfferingRefused { zone, capacity_type, code, cause, types, instance_types };
            self.env.emit_in(log_event, refused.trace);
        }
    }
}

impl Handler<LaunchedOffering> for Catalogue {
    type Result = ();

    fn handle(&mut self, launched: LaunchedOffering, _: &mut Self::Context) {
        let now = self.env.now();
        if self.unavailable.launched(now, &launched.offering, &launched.subnet) {
            self.unavailable.forget_expired(now);
            self.world_changed();
        }
    }
}

impl Handler<FullSubnets> for Catalogue {
    type Result = MessageResult<FullSubnets>;

    fn handle(&mut self, query: FullSubnets, _: &mut Self::Context) -> Self::Result {
        let full: BTreeSet<String> = self.unavailable_now(query.last_resort).full_subnets().clone();
        MessageResult(full)
    }
}

impl Catalogue {
    /// Offerings that must not be requested now; as a last resort fewer are excluded.
    pub(super) fn unavailable_now(&self, last_resort: bool) -> Unavailable {
        match last_resort {
            true => self.unavailable.as_last_resort(self.env.now()),
            false => self.unavailable.as_of(self.env.now()),
        }
    }

    /// Reads what a predecessor has kept, once; then writes what is unavailable, unless that is written or nobody leads here.
    pub(super) fn keep_availability(&mut self, ctx: &mut Context<Self>) {
        let changes = self.unavailable.changes();
        let Some(calls) = self.keeping.calls.clone().filter(|calls| calls.may_act()) else { return };
        if self.keeping.busy {
            return;
        }
        if self.keeping.unread {
            return self.take_over(calls, ctx);
        }
        if self.keeping.known == changes {
            return;
        }
        self.keeping.busy = true;
        let text = self.unavailable.kept(self.env.now(), self.env.wall());
        let writing = async move { write(&calls, &text).await }.into_actor(self);
        ctx.spawn(writing.map(move |written, catalogue, _| {
            catalogue.keeping.busy = false;
            // A refused write is not repeated until something changes; any other failure is repeated at the next check.
            if matches!(written, Ok(()) | Err(CallError::Refused(_) | CallError::Forbidden(_) | CallError::NotFound(_)))
            {
                catalogue.keeping.known = changes;
            }
            catalogue.tell_not_kept(written.err());
        }));
    }

    /// Reads what a predecessor has kept. One that was not answered is made again at the next look.
    fn take_over(&mut self, calls: Calls, ctx: &mut Context<Self>) {
        self.keeping.busy = true;
        let reading = async move { read_kept(&calls).await }.into_actor(self);
        ctx.spawn(reading.map(|text, catalogue, _| {
            catalogue.keeping.busy = false;
            catalogue.keeping.unread =
                matches!(text, Err(CallError::Unanswered(_) | CallError::Doubted(_) | CallError::Deposed));
            let (now, wall) = (catalogue.env.now(), catalogue.env.wall());
            match text {
                Ok(Some(text)) => {
                    let count = catalogue.unavailable.take_over(&text, now, wall);
                    if count > 0 {
                        catalogue.env.emit(LogEvent::UnavailableKnown { count });
                        catalogue.world_changed();
                    }
                }
                Ok(None) => {}
                Err(error) => catalogue.tell_not_kept(Some(error)),
            }
        }));
    }

    /// Says once a term that nothing can be kept for a successor, and why.
    fn tell_not_kept(&mut self, error: Option<CallError>) {
        let Some(CallError::Refused(why) | CallError::Forbidden(why) | CallError::NotFound(why)) = error else {
            return;
        };
        if !std::mem::replace(&mut self.keeping.said, true) {
            self.env.emit(LogEvent::UnavailableNotKept { why });
        }
    }
}

fn maps(calls: &Calls) -> LenientApi<ConfigMap> {
    LenientApi::namespaced(calls.client.clone(), &calls.env.settings.lease_namespace)
}

/// Returns the list that a predecessor left in the ConfigMap, if there is one.
async fn read_kept(calls: &Calls) -> Result<Option<String>, CallError> {
    let api = maps(calls);
    let map = calls.run_for(LONGEST_WRITE, "read what is unavailable", || api.get_opt(UNAVAILABLE_OFFERINGS)).await?;
    Ok(map.and_then(|map| map.data?.remove(KEY)))
}

/// Writes it into the ConfigMap, which is made where it is not there.
async fn write(calls: &Calls, text: &str) -> Result<(), CallError> {
    let api = maps(calls);
    let (params, patch) = (PatchParams::default(), Patch::Merge(json!({"data": {KEY: text}})));
    let what = "keep what is unavailable";
    let patched = calls.run_for(LONGEST_WRITE, what, || api.patch(UNAVAILABLE_OFFERINGS, &params, &patch)).await;
    match patched {
        Err(CallError::NotFound(_)) => {}
        other => return other.map(drop),
    }
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some(UNAVAILABLE_OFFERINGS.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([(KEY.to_owned(), text.to_owned())])),
        ..ConfigMap::default()
    };
    let params = PostParams::default();
    calls.run_for(LONGEST_WRITE, what, || api.create(&params, &map)).await.map(drop)
}
