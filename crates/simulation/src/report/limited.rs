//! Pods that cannot run yet: every pool that could take them has reached its limits; or their node's time was over just now,
//! where nodes expire. Of drawn scenarios: their pools want x86-64 types of the categories c, m and r, and whatever is sold out,
//! something on demand is not.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_api::names::annotations;
use dovetail_cloud::info::InstanceTypeInfo;
use dovetail_core::ownership::token::is_shared;
use dovetail_sandbox::apiserver::Gvr;
use dovetail_sandbox::cluster::needs;
use dovetail_sandbox::region::RegionInstance;
use serde_json::Value;

use crate::invariants::{AmountsByName, amounts};
use crate::world::World;

/// Share of an instance type that a pod can surely have: all but what kubelet, system and eviction threshold keep.
const KEPT_CPU: i64 = 300;
const USABLE_MEMORY: f64 = 0.75;
const KEPT_MEMORY: i64 = 700 << 20;

/// Seconds for which the room of an expired node is its successor's.
const MOVING: f64 = 180.0;
/// Longest wait of a pod of an expired node, in seconds: a launch may take five minutes, and a registration two.
const WAITING: f64 = 420.0;

/// Names (`namespace/name`) of those of the pods without a node that cannot run.
pub fn limited(world: &World) -> BTreeSet<String> {
    let pools = world.api.list(&Gvr::new("karpenter.sh", "v1", "nodepools"));
    let expire = pools.iter().any(|pool| expires(pool));
    let now = world.wall();
    let young = |pod: &Arc<Value>| {
        let created =
            pod["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
        expire && created.is_some_and(|at| now.duration_since(at).as_secs_f64() < WAITING)
    };
    let (claims, instances) = (world.claims(), world.region.instances_ever());
    let catalogue = world.region.catalogue();
    let launched = |claim: &Value| launched_for(claim, &instances, &catalogue.types);
    let rooms: Vec<Room> = pools.iter().map(|pool| Room::left_in(pool, &claims, launched, now)).collect();
    let free = rooms.iter().any(|room| room.on_demand && room.left.is_empty());
    let types: Vec<&InstanceTypeInfo> = catalogue.types.iter().map(AsRef::as_ref).filter(|one| is_drawn(one)).collect();
    let waits = |pod: &&Arc<Value>| pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty);
    let cannot = |pod: &&Arc<Value>| {
        let requests = amounts(&needs(&pod["spec"]));
        let fitting = || types.iter().filter(|one| surely_fits(&requests, one));
        young(pod) || (!free && !rooms.iter().any(|room| room.on_demand && fitting().any(|one| room.takes(one))))
    };
    let name = |pod: &Arc<Value>| {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        format!("{}/{}", text("namespace"), text("name"))
    };
    world.pods().iter().filter(waits).filter(cannot).map(name).collect()
}

fn expires(pool: &Value) -> bool {
    pool["spec"]["template"]["spec"]["expireAfter"].as_str().is_some_and(|text| text != "Never")
}

/// The rest of a pool's limits.
struct Room {
    on_demand: bool,
    left: AmountsByName,
}

impl Room {
    /// The rest for a pool with these claims. `launched` answers the capacity of a claim that has none written yet. The capacity
    /// of a claim that has just expired is its successor's and nobody else's, until that is launched.
    fn left_in(
        pool: &Value,
        claims: &[Arc<Value>],
        launched: impl Fn(&Value) -> AmountsByName,
        now: jiff::Timestamp,
    ) -> Self {
        let expires = expires(pool);
        let stays = |claim: &Value| match claim["metadata"]["deletionTimestamp"].as_str().map(str::parse) {
            None => true,
            Some(Ok(since)) => expires && now.duration_since(since).as_secs_f64() < MOVING,
            Some(Err(_)) => false,
        };
        let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array();
        let spot_only = requirements.into_iter().flatten().any(|one| {
            one["key"] == "karpenter.sh/capacity-type"
                && one["values"].as_array().is_some_and(|all| all.iter().all(|v| v == "spot"))
        });
        let mut left = amounts(&pool["spec"]["limits"]);
        let of_pool = |claim: &&Arc<Value>| {
            claim["metadata"]["labels"]["karpenter.sh/nodepool"] == pool["metadata"]["name"] && stays(claim)
        };
        for claim in claims.iter().filter(of_pool) {
            let written = amounts(&claim["status"]["capacity"]);
            let capacity = if written.is_empty() { launched(claim) } else { written };
            left.iter_mut().for_each(|(name, left)| {
                *left -= if name == "nodes" { 1 } else { capacity.get(name).copied().unwrap_or(0) }
            });
        }
        Self { on_demand: !spot_only, left }
    }

    fn takes(&self, one: &InstanceTypeInfo) -> bool {
        self.left.iter().all(|(name, left)| match name.as_str() {
            "cpu" => i64::from(one.vcpus) * 1000 <= *left,
            "memory" => bytes(one) <= *left,
            _ => *left > 0,
        })
    }
}

/// Capacity of a claim's living instance, though the answer of EC2 may be lost: it takes its place within the limits.
fn launched_for(claim: &Value, instances: &[RegionInstance], types: &[Arc<InstanceTypeInfo>]) -> AmountsByName {
    let Some(token) = claim["metadata"]["annotations"][annotations::LAUNCH_TOKEN].as_str() else {
        return AmountsByName::new();
    };
    let mut sum = AmountsByName::new();
    let of_claim = |one: &&RegionInstance| one.state.is_alive() && one.client_token.as_deref() == Some(token);
    // One instance of a call for several claims is this one's.
    let most = if is_shared(token) { 1 } else { usize::MAX };
    for one in instances.iter().filter(of_claim).take(most) {
        for it in types.iter().filter(|it| it.name == one.instance_type) {
            *sum.entry("cpu".to_owned()).or_default() += i64::from(it.vcpus) * 1000;
            *sum.entry("memory".to_owned()).or_default() += bytes(it);
        }
    }
    sum
}

fn bytes(one: &InstanceTypeInfo) -> i64 {
    i64::try_from(one.memory_mib << 20).unwrap_or(i64::MAX)
}

fn is_drawn(one: &InstanceTypeInfo) -> bool {
    one.name.starts_with(['c', 'm', 'r']) && one.architectures.iter().any(|name| name == "x86_64")
}

fn surely_fits(requests: &AmountsByName, one: &InstanceTypeInfo) -> bool {
    let of = |name: &str| requests.get(name).copied().unwrap_or(0);
    of("cpu") <= i64::from(one.vcpus) * 1000 - KEPT_CPU
        && of("memory") <= (bytes(one) as f64 * USABLE_MEMORY) as i64 - KEPT_MEMORY
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pool of eight CPUs and two claims: one that is written to have six, and one that nothing is written on.
    fn left(launched: &AmountsByName) -> Option<i64> {
        let pool = json!({"metadata": {"name": "pool-0"}, "spec": {"limits": {"cpu": "8"}}});
        let claim = |status: Value| {
            Arc::new(json!({"metadata": {"labels": {"karpenter.sh/nodepool": "pool-0"}}, "status": status}))
        };
        let claims = [claim(json!({"capacity": {"cpu": "6"}})), claim(json!({}))];
        Room::left_in(&pool, &claims, |_| launched.clone(), jiff::Timestamp::default()).left.get("cpu").copied()
    }

    #[test]
    fn what_a_claim_that_has_just_expired_had_is_its_successors() {
        let left = |expire_after: &str, seconds: i64| {
            let pool = json!({"metadata": {"name": "pool-0"}, "spec": {"limits": {"cpu": "8"},
                "template": {"spec": {"expireAfter": expire_after}}}});
            let claim = json!({"metadata": {"labels": {"karpenter.sh/nodepool": "pool-0"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"capacity": {"cpu": "6"}}});
            let now = "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap_or_default();
            let now = now + jiff::SignedDuration::from_secs(seconds);
            Room::left_in(&pool, &[Arc::new(claim)], |_| AmountsByName::new(), now).left.get("cpu").copied()
        };
        assert_eq!([left("7m", 170), left("7m", 190), left("Never", 170)], [Some(2000), Some(8000), Some(8000)]);
    }

    #[test]
    fn instance_of_an_unheard_launch_takes_room_of_pool_limits() {
        assert_eq!(left(&AmountsByName::from([("cpu".to_owned(), 2000)])), Some(0), "seed 8458");
    }

    #[test]
    fn claim_without_an_instance_leaves_pool_limits_as_they_are() {
        assert_eq!(left(&AmountsByName::new()), Some(2000));
    }
}
