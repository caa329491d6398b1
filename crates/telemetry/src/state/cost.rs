//! EC2 instances that run for us and their cost an hour: nodes, instances that have not joined, and instances without a
//! NodeClaim (as the janitor last listed them).

use std::collections::{BTreeMap, VecDeque};

use dovetail_actors::replica::ReplicaView;
use dovetail_api::names::labels;
use dovetail_core::cluster_state::ClaimEntry;
use dovetail_observability::metrics::MetricsPage;
use serde_json::Value;

use super::TypesByClass;
use super::nodes::label_of;

/// Most points of the cost that are kept: an hour at one every five seconds.
const MOST_POINTS: usize = 720;
/// Seconds between two points that are kept, about: somebody who looks makes more of them.
const POINT_SECONDS: f64 = 5.0;

/// Seconds since 1970, $/h, and $/h of the same machines on demand.
pub type CostPoint = (f64, f64, f64);

/// Adds a point; the last one moves with the time until it is far enough from the one before it.
pub(super) fn keep_point(all: &mut VecDeque<CostPoint>, point: CostPoint) {
    if all.iter().rev().nth(1).is_some_and(|before| point.0 - before.0 <= POINT_SECONDS) {
        all.pop_back();
    }
    all.push_back(point);
    if all.len() > MOST_POINTS {
        all.pop_front();
    }
}

/// Instances that are alike.
struct Running<'a> {
    pool: &'a str,
    capacity_type: &'a str,
    zone: &'a str,
    count: u64,
    /// True if they are nodes.
    joined: bool,
    /// $/h of one, and of the same machine on demand, if the catalogue knows it.
    price: Option<(f64, f64)>,
}

/// Everything that runs, by the cluster's state and the leader's actors.
fn running<'a>(view: &'a ReplicaView, actors: &'a Value) -> Vec<Running<'a>> {
    let (snapshot, prices) = (&view.snapshot, TypesByClass::from_view(view));
    let nodes = || snapshot.nodes.values().filter(|node| node.managed());
    let mut all: Vec<Running<'_>> = nodes()
        .map(|node| {
            let of = |key| label_of(&node.labels, key);
            let (pool, capacity_type, zone) = (of(labels::NODE_POOL), of(labels::CAPACITY_TYPE), of(labels::ZONE));
            Running { pool, capacity_type, zone, count: 1, joined: true, price: prices.node(node) }
        })
        .collect();
    let is_managed = |name: &String| snapshot.nodes.get(name).is_some_and(|node| node.managed());
    let waits = |(name, claim): &(&String, &std::sync::Arc<ClaimEntry>)| {
        let id = claim.provider_id();
        !id.is_empty() && !snapshot.node_names_on(id).any(is_managed) && !snapshot.is_refused(name)
    };
    all.extend(snapshot.claims.iter().filter(waits).map(|(_, entry)| {
        let of = |key| entry.claim.metadata.labels.as_ref().map_or("", |own| label_of(own, key));
        let (pool, capacity_type, zone) = (of(labels::NODE_POOL), of(labels::CAPACITY_TYPE), of(labels::ZONE));
        let class = entry.claim.spec.node_class_ref.name.as_str();
        let price = prices.price(class, of(labels::INSTANCE_TYPE), zone, capacity_type);
        Running { pool, capacity_type, zone, count: 1, joined: false, price }
    }));
    all.extend(actors["janitor"]["unclaimed"].as_array().into_iter().flatten().map(|one| {
        let of = |key: &str| one[key].as_str().unwrap_or_default();
        let (pool, capacity_type, zone) = (of("nodePool"), of("capacityType"), of("zone"));
        let price = prices.price(of("nodeClass"), of("instanceType"), zone, capacity_type);
        Running { pool, capacity_type, zone, count: one["count"].as_u64().unwrap_or(0), joined: false, price }
    }));
    all
}

/// $/h of everything that runs, and of the same machines on demand.
pub fn dollars(view: &ReplicaView, actors: &Value) -> (f64, f64) {
    let all = running(view, actors);
    let each = all.iter().filter_map(|one| Some((one.count as f64, one.price?)));
    each.fold((0.0, 0.0), |(own, demand), (count, price)| (own + count * price.0, demand + count * price.1))
}

pub(super) fn cost(page: &mut MetricsPage, view: &ReplicaView, actors: &Value) {
    /// Nodes, instances, $/h, $/h on demand, $/h of that in capacity reservations.
    type Sum = (u64, u64, f64, f64, f64);
    let all = running(view, actors);
    let mut by: BTreeMap<[&str; 3], Sum> = BTreeMap::new();
    let mut by_pool: BTreeMap<&str, f64> = view.snapshot.pools.keys().map(|name| (name.as_str(), 0.0)).collect();
    for one in &all {
        let sum = by.entry([one.pool, one.capacity_type, one.zone]).or_default();
        sum.0 += if one.joined { one.count } else { 0 };
        sum.1 += one.count;
        if let Some((own, on_demand)) = one.price {
            let count = one.count as f64;
            (sum.2, sum.3) = (sum.2 + count * own, sum.3 + count * on_demand);
            sum.4 += if one.capacity_type == labels::RESERVED { count * on_demand } else { 0.0 };
            *by_pool.entry(one.pool).or_default() += count * own;
        }
    }
    let mut gauge = |name: &str, help: &str, of: &dyn Fn(&Sum) -> f64| {
        page.gauge(name, help);
        for ([pool, capacity_type, zone], sum) in &by {
            page.sample(name, &[("nodepool", pool), ("capacity_type", capacity_type), ("zone", zone)], of(sum));
        }
    };
    gauge("dovetail_nodes", "Nodes of pools", &|sum| sum.0 as f64);
    gauge("dovetail_instances", "Instances that EC2 runs for pools, joined or not", &|sum| sum.1 as f64);
    gauge("dovetail_cost_dollars_per_hour", "What instances of pools cost an hour, joined or not", &|sum| sum.2);
    gauge("dovetail_cost_on_demand_dollars_per_hour", "What they would cost an hour on demand", &|sum| sum.3);
    let paid_for = "What instances in capacity reservations cost an hour on demand: paid for, whether they run or not";
    gauge("dovetail_cost_paid_for_dollars_per_hour", paid_for, &|sum| sum.4);
    page.gauge("karpenter_nodepools_cost_total", "What a pool's nodes cost an hour");
    for (pool, dollars) in by_pool {
        page.sample("karpenter_nodepools_cost_total", &[("nodepool", pool)], dollars);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_lasts_an_hour_however_often_somebody_looks() {
        let mut all = VecDeque::new();
        (0..4000).for_each(|second| keep_point(&mut all, (f64::from(second), 1.0, 2.0)));
        let (first, last) = (all.front().map_or(0.0, |one| one.0), all.back().map_or(0.0, |one| one.0));
        assert!(all.len() <= MOST_POINTS && last >= 3999.0 && last - first >= 3580.0, "{} from {first}", all.len());
    }
}
