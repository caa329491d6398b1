//! The end of a run that need not wait for its time: everything has settled, and has stayed so.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::world::World;

/// Pause between two looks.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Comes back at `end`, or when nothing has been under way for as long as `settled` says.
pub async fn wait(world: &World, settled: Option<Duration>, end: Instant) {
    let Some(settled) = settled else { return tokio::time::sleep_until(end).await };
    let mut since = None;
    loop {
        let now = Instant::now();
        if now >= end {
            return;
        }
        if is_settled(world) {
            if now - *since.get_or_insert(now) >= settled {
                return;
            }
        } else {
            since = None;
        }
        tokio::time::sleep_until(end.min(now + CHECK_INTERVAL)).await;
    }
}

/// True if every pod has its place, every NodeClaim its node, every instance its NodeClaim, and nothing is going.
fn is_settled(world: &World) -> bool {
    let going = |object: &serde_json::Value| !object["metadata"]["deletionTimestamp"].is_null();
    let placed = |pod: &serde_json::Value| pod["spec"]["nodeName"].is_string() && !going(pod);
    let initialized = |claim: &serde_json::Value| {
        let conditions = claim["status"]["conditions"].as_array();
        !going(claim)
            && conditions.into_iter().flatten().any(|one| one["type"] == "Initialized" && one["status"] == "True")
    };
    let claims = world.claims();
    let claimed: BTreeSet<&str> = claims.iter().filter_map(|claim| claim["status"]["providerID"].as_str()).collect();
    world.pods().iter().all(|pod| placed(pod))
        && claims.iter().all(|claim| initialized(claim))
        && world.nodes().iter().all(|node| !going(node))
        && world
            .region
            .instances()
            .iter()
            .all(|one| one.beforehand || !one.state.is_alive() || claimed.contains(one.provider_id().as_str()))
}
