//! Launches and losses of earlier leaders, as EC2 and the claims still show them: the brakes on launches continue from there.
//! `dovetail_core::launch_limits` decides by them.

use std::collections::BTreeSet;
use std::time::Duration;

use dovetail_api::names::conditions::{LAUNCHED, REGISTERED};
use dovetail_api::names::{instance_id, tags};
use dovetail_api::v1::{NodeClaim, condition, is_true};
use dovetail_cloud::Instance;
use dovetail_core::launch_limits::{Past, Present};
use dovetail_core::lifecycle;
use dovetail_core::ownership::{AskingCluster, Maker, maker, token_on};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::launcher::LauncherLinks;
use crate::launcher::facts::origin;
use crate::messages::TakeSnapshot;
use crate::telemetry::log_event::LogEvent;

/// An instance that was launched longer ago is no launch that came to nothing of late.
const COUNTS_FOR: Duration = Duration::from_secs(3600);

/// Launches made before the term.
pub struct Before {
    /// Launches whose claim is gone or on its way out.
    pub past: Vec<Past>,
    pub present: Vec<Present>,
    /// Living instances that no claim has or waits for and that never joined: ids and pools.
    pub orphans: Vec<(String, String)>,
}

/// Lists the cloud, ended instances too, and then the claims; as often as it takes. Nothing when the term is over.
pub async fn list_past(links: LauncherLinks, env: Env) -> Option<Before> {
    // Instances first: one whose claim is made between the two is then counted by its claim alone, never twice.
    let mut backoff = Backoff::cloud(env.rng("past"));
    let instances = loop {
        match links.cloud.instances_by_name(true).await {
            Ok(instances) => break instances,
            Err(error) if links.calls.may_act() => {
                let pause = backoff.pause();
                if backoff.failures() == 1 {
                    let what = "listing what was launched before".to_owned();
                    env.emit(LogEvent::Retrying { what, error: error.to_string() });
                }
                tokio::time::sleep(pause).await;
            }
            Err(_) => return None,
        }
    };
    let snapshot = loop {
        match links.cluster.send(TakeSnapshot).await.ok()? {
            Some(snapshot) => break snapshot,
            None => tokio::time::sleep(backoff.pause()).await,
        }
    };
    let claims = snapshot.claims.values().map(|entry| &*entry.claim);
    let claims: Vec<&NodeClaim> = claims.filter(|claim| claim.metadata.uid.is_some()).collect();
    let (own, now) = (env.cluster(&*links.cloud), env.wall());
    let ours = || without_claim(&instances, &claims).filter(|one| is_ours(one, &own));
    let joined: BTreeSet<&str> = snapshot.nodes.values().filter_map(|node| instance_id(&node.provider_id)).collect();
    let orphans = ours().filter(|one| is_orphan(one, now) && !joined.contains(one.id.as_str()));
    let past = ours().filter_map(|one| past(one, now)).chain(claims.iter().filter_map(|claim| deleting(claim, now)));
    Some(Before {
        past: past.collect(),
        present: claims.iter().filter_map(|claim| present(claim, now)).collect(),
        orphans: orphans.map(|one| (one.id.clone(), tag(one, tags::NODE_POOL))).collect(),
    })
}

/// Launched by us, for this cluster.
fn is_ours(one: &Instance, cluster: &AskingCluster) -> bool {
    one.tags.contains_key(tags::LAUNCH_TOKEN) && maker(cluster, &one.tags) == Ok(Maker::Dovetail)
}

/// Instances that are no claim's; a claim that is there counts by itself.
fn without_claim<'a>(instances: &'a [Instance], claims: &[&NodeClaim]) -> impl Iterator<Item = &'a Instance> {
    let has = |claim: &&NodeClaim| Some(instance_id(&claim.status.as_ref()?.provider_id)?.to_owned());
    let had: BTreeSet<String> = claims.iter().filter_map(has).collect();
    let awaited: BTreeSet<String> = claims.iter().filter_map(|claim| token_on(claim)).collect();
    instances.iter().filter(move |one| {
        !had.contains(&one.id) && one.tags.get(tags::LAUNCH_TOKEN).is_none_or(|token| !awaited.contains(token))
    })
}

/// Lives, and was launched within the hour in which launches that came to nothing count.
fn is_orphan(one: &Instance, now: Timestamp) -> bool {
    !one.is_terminating() && one.launched_at.is_some_and(|at| ago(at, now) < COUNTS_FOR)
}

fn tag(one: &Instance, key: &str) -> String {
    one.tags.get(key).cloned().unwrap_or_default()
}

fn past(one: &Instance, now: Timestamp) -> Option<Past> {
    Some(Past {
        id: one.id.clone(),
        origin: (tag(one, tags::NODE_POOL), tag(one, tags::NODE_CLASS)),
        launched: ago(one.launched_at?, now),
        ended: one.ended_at.filter(|_| one.is_terminating()).map(|at| ago(at, now)),
    })
}

/// A claim on its way out whose node never registered, as the instance that it had.
fn deleting(claim: &NodeClaim, now: Timestamp) -> Option<Past> {
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let launched = condition(conditions, LAUNCHED).filter(|_| is_true(conditions, LAUNCHED))?;
    let never = !is_true(conditions, REGISTERED);
    let left = claim.metadata.deletion_timestamp.as_ref().filter(|_| never)?;
    Some(Past {
        id: claim.name_any(),
        origin: origin(claim),
        launched: ago(launched.last_transition_time.0, now),
        ended: Some(ago(left.0, now)),
    })
}

fn present(claim: &NodeClaim, now: Timestamp) -> Option<Present> {
    let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let registered = condition(conditions, REGISTERED).filter(|_| is_true(conditions, REGISTERED));
    // It counts in `deleting`, and would count twice.
    if registered.is_none() && lifecycle::is_deleting(claim) {
        return None;
    }
    Some(Present {
        name: claim.name_any(),
        origin: origin(claim),
        made: ago(claim.metadata.creation_timestamp.as_ref()?.0, now),
        registered: registered.map(|one| ago(one.last_transition_time.0, now)),
    })
}

fn ago(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(at)).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use dovetail_core::ownership::token::launch_token;
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    fn claim(instance: &str, registered: &str, deleted: Option<&str>) -> NodeClaim {
        let condition = |name: &str, status: &str, at: &str| json!({"type": name, "status": status, "reason": name, "message": "", "lastTransitionTime": at});
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "a", "uid": "1", "creationTimestamp": "2026-01-01T00:40:00Z", "deletionTimestamp": deleted,
                "labels": {"karpenter.sh/nodepool": "pool"}, "annotations": {"dovetail.dev/launch-token": launch_token(["1"], 1)}},
            "spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "class"}},
            "status": {"providerID": format!("aws:///zone/{instance}"), "conditions": [
                condition("Launched", "True", "2026-01-01T00:40:05Z"),
                condition("Registered", registered, "2026-01-01T00:41:00Z")]},
        }))
        .unwrap()
    }

    fn instance(id: &str, token: &str, cluster: &str) -> Instance {
        let tags = [
            (tags::LAUNCH_TOKEN, token),
            (tags::CLUSTER_UID, cluster),
            (tags::NODE_POOL, "pool"),
            (tags::NODE_CLASS, "class"),
        ];
        Instance {
            id: id.into(),
            state: "terminated".into(),
            launched_at: Some("2026-01-01T00:30:00Z".parse().unwrap()),
            ended_at: Some("2026-01-01T00:45:01Z".parse().unwrap()),
            tags: tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..Instance::default()
        }
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn an_instance_counts_by_its_claim_where_that_is_there() {
        let claim = claim("i-1", "True", None);
        let all = [
            instance("i-1", "other", "us"),
            instance("i-2", &launch_token(["1"], 1), "us"),
            instance("i-3", "token-b", "us"),
        ];
        let left: Vec<&str> = without_claim(&all, &[&claim]).map(|one| one.id.as_str()).collect();
        assert_eq!(left, ["i-3"]);
        let found = past(&all[2], now()).unwrap();
        let origin = ("pool".to_owned(), "class".to_owned());
        assert_eq!((&found.origin, found.launched, found.ended), (&origin, seconds(1800), Some(seconds(899))));
        let there = present(&claim, now()).unwrap();
        assert_eq!((&there.origin, there.made, there.registered), (&origin, seconds(1200), Some(seconds(1140))));
        let named = |uid: &str| AskingCluster { uid: uid.into(), ..AskingCluster::default() };
        assert!(is_ours(&all[2], &named("us")) && !is_ours(&all[2], &named("them")));
        let unmarked = Instance { tags: [(tags::LAUNCH_TOKEN.to_owned(), "t".to_owned())].into(), ..all[2].clone() };
        assert!(!is_ours(&unmarked, &named("us")));
    }

    #[test]
    fn a_claim_that_is_being_given_up_is_past() {
        let gives_up = claim("i-1", "Unknown", Some("2026-01-01T00:55:05Z"));
        let found = deleting(&gives_up, now()).unwrap();
        assert_eq!((found.id.as_str(), found.launched, found.ended), ("a", seconds(1195), Some(seconds(295))));
        assert_eq!(present(&gives_up, now()), None);
        assert_eq!(deleting(&claim("i-1", "True", Some("2026-01-01T00:55:05Z")), now()), None);
        assert_eq!(deleting(&claim("i-1", "Unknown", None), now()), None);
    }
}
