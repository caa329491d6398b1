//! The claims of a static pool that go where there are too many: Karpenter's order, and within equals the zone with most of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::planning::zone_of;
use crate::cluster_state::{ClaimEntry, Load, ReplicaCount, Snapshot, WatchedKind};
use crate::disruption::DisruptedClaim;
use crate::disruption::pools::{DisruptionPool, Observing};

/// Place of a claim in the order, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    /// It has no instance.
    Unlaunched,
    /// Nothing but DaemonSets' pods is on its node.
    Empty,
    Used,
    /// A pod on its node asks to be left alone.
    Protected,
}

/// The claims beyond `replicas`. None of a pool that is only observed, and none that cannot be read.
pub fn claims_to_remove(snapshot: &Snapshot, count: &ReplicaCount<'_>, now: Timestamp) -> Vec<DisruptedClaim> {
    if DisruptionPool::from_pool(count.pool).observing != Observing::No {
        return Vec::new();
    }
    let readable = |entry: &&&Arc<ClaimEntry>| {
        !entry.is_planned() && snapshot.unreadable(WatchedKind::NodeClaim, &entry.facts.name).is_none()
    };
    let mut left: Vec<&Arc<ClaimEntry>> = count.active.iter().filter(readable).copied().collect();
    let mut zones: BTreeMap<String, usize> = BTreeMap::new();
    for entry in &left {
        *zones.entry(zone_of(entry)).or_default() += 1;
    }
    let mut all = Vec::new();
    while all.len() < count.surplus() && !left.is_empty() {
        let key = |entry: &Arc<ClaimEntry>| {
            let (tier, cost) = weigh(snapshot, entry, now);
            let in_zone = zones.get(&zone_of(entry)).copied().unwrap_or_default();
            (tier, cost, entry.facts.drifted.is_none(), Reverse(in_zone), entry.facts.name.clone())
        };
        let Some((at, _)) = left.iter().enumerate().min_by_key(|(_, entry)| key(entry)) else { break };
        let entry = left.remove(at);
        if let Some(number) = zones.get_mut(&zone_of(entry)) {
            *number = number.saturating_sub(1);
        }
        all.push(DisruptedClaim::from_facts(&entry.facts, snapshot));
    }
    all
}

/// Tier of a claim, and in it the cost of its pods' evictions for the part of its life that it has before it, in thousandths.
fn weigh(snapshot: &Snapshot, entry: &ClaimEntry, now: Timestamp) -> (Tier, i64) {
    if entry.provider_id().is_empty() {
        return (Tier::Unlaunched, 0);
    }
    let load = snapshot.loads.get(&entry.facts.node).map(AsRef::as_ref);
    let protected =
        load.is_some_and(|load| load.pods.values().any(|pod| pod.is_active() && pod.do_not_disrupt.holds(now)));
    let tier = match (protected, load.is_none_or(|load| load.visitors == 0)) {
        (true, _) => Tier::Protected,
        (false, true) => Tier::Empty,
        (false, false) => Tier::Used,
    };
    let cost = load.map_or(0.0, cost_of_pods) * remaining(entry, now);
    (tier, (cost * 1000.0) as i64)
}

fn cost_of_pods(load: &Load) -> f64 {
    load.pods.values().filter(|pod| pod.reschedulable()).map(|pod| pod.eviction_cost).sum()
}

/// Part of its life that a claim has before it, from 0 to 1.
fn remaining(entry: &ClaimEntry, now: Timestamp) -> f64 {
    let (Some(from), Some(until)) = (entry.facts.created, entry.facts.expires) else { return 1.0 };
    let (whole, left) = (until.duration_since(from).as_secs_f64(), until.duration_since(now).as_secs_f64());
    if whole > 0.0 { (left / whole).clamp(0.0, 1.0) } else { 0.0 }
}
