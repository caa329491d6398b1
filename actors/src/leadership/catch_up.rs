//! A new leader waits here until its watches have shown it every claim that there is. An earlier leader may have made
//! some that a watch which lags has not; planned without them, their pods would get a second node. What the watches do not
//! show for long it tells itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::{Snapshot, Unreadable, WatchedKind, is_older};
use kube::{Client, ResourceExt};

use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::kube::calls::Calls;
use crate::kube::claims::NodeClaimApi;
use crate::links::ToClusterWatcher;
use crate::messages::{Came, NotRead, TakeSnapshot, TellNotSynced, Wrote};
use crate::telemetry::log_event::LogEvent;

/// Pause between two looks.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Looks at one list, before another is made: a claim in it may be gone by now.
const LOOKS: u32 = 10;
/// The number of lists after which it is reported, once.
const WORTH_TELLING: u32 = 3;

/// Comes back when the cluster state has every claim of a list made now, in that version or a later one.
pub async fn catch_up(client: Client, cluster: ToClusterWatcher, env: Env) {
    let claims = NodeClaimApi::new(Calls::new(client, env.clone(), None));
    // Claims of the list that the watches had not shown, by uid.
    let mut missing: BTreeSet<String> = BTreeSet::new();
    let mut backoff = Backoff::api(env.rng("catching up"));
    let mut refused = None;
    for attempt in 0_u32.. {
        let error = refused.take().unwrap_or_else(|| "the watches have not shown every nodeclaim yet".to_owned());
        if attempt == WORTH_TELLING {
            env.post(&cluster, TellNotSynced);
            env.emit(LogEvent::Retrying { what: "catching up with the last leader".to_owned(), error });
        }
        // No resourceVersion: the list is of what is stored now.
        let listed = match claims.list().await {
            Ok(listed) => listed,
            Err(why) => {
                refused = Some(why.to_string());
                tokio::time::sleep(backoff.pause()).await;
                continue;
            }
        };
        // Nobody is to wait for ever for what the watch does not tell; what is still there is told here.
        for claim in listed.items.iter().filter(|claim| claim.uid().is_some_and(|uid| missing.contains(&uid))) {
            env.post(&cluster, Wrote::Listed(Arc::new(claim.clone())));
        }
        for claim in &listed.unreadable {
            let (object, came) = (Box::new(claim.clone()), Came::Listed);
            env.post(&cluster, NotRead { kind: WatchedKind::NodeClaim, watch: "nodeclaims", object, came });
        }
        for _ in 0..LOOKS {
            let Ok(known) = cluster.send(TakeSnapshot).await else { return };
            if let Some(known) = known {
                let read = listed.items.iter().filter(|claim| !knows(&known, claim)).filter_map(ResourceExt::uid);
                let unread = listed.unreadable.iter().filter(|one| !knows_of(&known, one));
                missing = read.chain(unread.filter_map(|one| one.metadata.uid.clone())).collect();
                if missing.is_empty() {
                    return;
                }
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

/// True if the claim is known in the listed version or a later one.
fn knows(known: &Snapshot, listed: &NodeClaim) -> bool {
    let Some(entry) = known.claims.get(&listed.name_any()) else { return false };
    entry.claim.uid() == listed.uid() && !is_older(&entry.claim.metadata, &listed.metadata)
}

/// True if a claim that cannot be read is known by its name.
fn knows_of(known: &Snapshot, listed: &Unreadable) -> bool {
    let name = listed.metadata.name.as_deref().unwrap_or_default();
    let unread =
        known.unreadable(WatchedKind::NodeClaim, name).is_some_and(|one| one.metadata.uid == listed.metadata.uid);
    // A claim that was made readable since the list is known as well.
    unread || known.claims.get(name).is_some_and(|entry| entry.claim.uid() == listed.metadata.uid)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use actix::Actor as _;
    use dovetail_sandbox::clock::{DEFAULT_START, VirtualClock};
    use kube::client::Body;
    use serde_json::json;
    use tokio::task::LocalSet;

    use super::*;
    use crate::cluster_watcher::ClusterWatcher;
    use crate::settings::Settings;
    use crate::telemetry::journal::MemoryJournal;

    #[test]
    fn unreadable_list_is_told_with_what_is_wrong() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(LocalSet::new().run_until(async {
            let service = tower::service_fn(|_: http::Request<Body>| async {
                let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": 5});
                Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(list.to_string().into_bytes())))
            });
            let client = Client::new(service, "default");
            let journal = Arc::new(MemoryJournal::default());
            let clock = Arc::new(VirtualClock::new(DEFAULT_START));
            let env = Env::new("r", Settings::default(), clock, journal.clone(), 1).for_actor("control_plane");
            let cluster = ClusterWatcher::new(&env, client.clone()).start();
            let waited = tokio::time::timeout(Duration::from_secs(60), catch_up(client, cluster.into(), env)).await;
            assert!(waited.is_err(), "nothing begins by a list that nobody could read");
            let told: Vec<_> = journal.entries().iter().map(|entry| entry.log_event.to_string()).collect();
            let told: Vec<_> = told.iter().filter(|line| line.contains("catching up with the last leader")).collect();
            assert!(told.len() == 1 && told[0].contains("invalid type"), "{told:?}");
        }));
    }
}
