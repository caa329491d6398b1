//! Balance of a pool's nodes over zones (annotation `dovetail.dev/zone-balance`, docs/decisions/092), as a soft cost: a planned node
//! that may be in several zones is held to the one in which its pool has the fewest nodes, if it costs little more there.

use std::collections::{BTreeMap, BTreeSet};

use crate::instance_type::Offering;
use crate::labels::{NODE_POOL, RESERVED, ZONE};
use crate::pack::model::numbers::float_of_count;
use crate::pack::model::plan::{LaunchOption, Packing, PlannedClaim};
use crate::problem::Problem;
use crate::requirements::{Requirement, Requirements};

/// Numbers of nodes by pool and zone: those that are there or on their way, and those planned so far.
struct NodesByZone<'p>(BTreeMap<(usize, &'p str), usize>);

/// A zone for a planned node, and its options there.
struct InZone<'p> {
    zone: &'p str,
    options: Vec<LaunchOption>,
    /// The capacity type with which the cheapest option is cheapest.
    capacity_type: &'p str,
}

/// The plan with the nodes of pools that ask for balance held to zones. The plan of others is untouched.
pub(in crate::pack) fn balanced(problem: &Problem, mut packing: Packing) -> Packing {
    let asks = |pool: usize| problem.node_pools[pool].zone_balance > 0;
    if !packing.claims.iter().any(|claim| asks(claim.pool)) {
        return packing;
    }
    let mut nodes = NodesByZone::of_problem(problem);
    let zones = |claim: &PlannedClaim| zones_of(problem, claim);
    let fixed = packing.claims.iter().filter(|claim| asks(claim.pool)).map(|claim| (claim.pool, zones(claim)));
    for (pool, zones) in fixed.filter(|(_, zones)| zones.len() == 1) {
        zones.into_iter().for_each(|zone| nodes.add(pool, zone));
    }
    for claim in packing.claims.iter_mut().filter(|claim| asks(claim.pool)) {
        let zones = zones_of(problem, claim);
        if zones.len() > 1
            && let Some(best) = best_zone(problem, claim, zones, &nodes)
        {
            nodes.add(claim.pool, best.zone);
            hold(claim, best);
        }
    }
    packing.sum_prices();
    packing
}

impl<'p> NodesByZone<'p> {
    fn of_problem(problem: &'p Problem) -> Self {
        let by_name: BTreeMap<&str, usize> =
            problem.node_pools.iter().enumerate().map(|(at, pool)| (pool.name.as_str(), at)).collect();
        let mut nodes = Self(BTreeMap::new());
        for labels in problem.existing_nodes.iter().map(|node| &node.labels) {
            let pool = labels.get(NODE_POOL).and_then(|pool| by_name.get(pool.as_str()));
            if let (Some(pool), Some(zone)) = (pool, labels.get(ZONE)) {
                nodes.add(*pool, zone);
            }
        }
        nodes
    }

    fn add(&mut self, pool: usize, zone: &'p str) {
        *self.0.entry((pool, zone)).or_default() += 1;
    }

    fn number_in(&self, pool: usize, zone: &str) -> usize {
        self.0.get(&(pool, zone)).copied().unwrap_or_default()
    }
}

/// True if a claim's node may be bought so: the offering is there, and agrees with all that the claim asks for.
fn may_be_bought(offering: &Offering, wanted: &Requirements) -> bool {
    offering.available && offering.price.is_finite() && offering.agrees(wanted)
}

/// Zones in which a claim's node may be bought; none for one that takes capacity which is paid for already, wherever that is, and
/// for one that has to keep a number of zones open.
fn zones_of<'p>(problem: &'p Problem, claim: &PlannedClaim) -> BTreeSet<&'p str> {
    let Ok(wanted) = Requirements::from_written(&claim.requirements) else { return BTreeSet::new() };
    let bound = claim.requirements.iter().any(|one| one.min_values.is_some());
    let types = claim.options.iter().map(|option| &problem.instance_types[option.instance_type]);
    let offerings = types.flat_map(|one| &one.offerings).filter(|one| may_be_bought(one, &wanted));
    let offerings: Vec<&Offering> = offerings.collect();
    let paid = offerings.iter().any(|one| one.capacity_type == RESERVED || one.reservation().is_some());
    if bound || paid || claim.reservations().next().is_some() {
        return BTreeSet::new();
    }
    offerings.into_iter().map(|one| one.zone.as_str()).collect()
}

/// The zone with the fewest nodes of the claim's pool, of these the cheapest, among those that have all its types and cost no more
/// than the pool allows.
fn best_zone<'p>(
    problem: &'p Problem,
    claim: &PlannedClaim,
    zones: BTreeSet<&'p str>,
    nodes: &NodesByZone<'p>,
) -> Option<InZone<'p>> {
    let wanted = Requirements::from_written(&claim.requirements).ok()?;
    let most = 1.0 + f64::from(problem.node_pools[claim.pool].zone_balance) / 100.0;
    let found = zones.into_iter().filter_map(|zone| in_zone(problem, claim, &wanted, zone));
    let cheap = found.filter(|one| {
        let first = one.options.first().map_or(f64::INFINITY, |option| option.price);
        first <= claim.price * most && mean(&one.options) <= claim.expected_price() * most
    });
    cheap.min_by(|a, b| {
        let count = |one: &InZone<'_>| nodes.number_in(claim.pool, one.zone);
        count(a).cmp(&count(b)).then(mean(&a.options).total_cmp(&mean(&b.options))).then(a.zone.cmp(b.zone))
    })
}

/// A claim's options in a zone, cheapest first; `None` if one of its types is not to be had there.
fn in_zone<'p>(problem: &'p Problem, claim: &PlannedClaim, wanted: &Requirements, zone: &'p str) -> Option<InZone<'p>> {
    let cheapest = |at: usize| {
        let here = problem.instance_types[at].offerings.iter().filter(|one| one.zone == zone);
        here.filter(|one| may_be_bought(one, wanted)).min_by(|a, b| a.price.total_cmp(&b.price))
    };
    let found: Option<Vec<(LaunchOption, &Offering)>> = claim
        .options
        .iter()
        .map(|option| {
            let offering = cheapest(option.instance_type)?;
            Some((LaunchOption { price: offering.price, ..*option }, offering))
        })
        .collect();
    let mut found = found?;
    // Stable: of equal prices the order is that of the claim.
    found.sort_by(|(a, _), (b, _)| a.price.total_cmp(&b.price));
    let capacity_type = found.first()?.1.capacity_type.as_str();
    Some(InZone { zone, options: found.into_iter().map(|(option, _)| option).collect(), capacity_type })
}

fn mean(options: &[LaunchOption]) -> f64 {
    options.iter().map(|option| option.price).sum::<f64>() / float_of_count(options.len().max(1))
}

fn hold(claim: &mut PlannedClaim, best: InZone<'_>) {
    let Ok(mut all) = Requirements::from_written(&claim.requirements) else { return };
    all.add(ZONE, Requirement::one_of([best.zone]));
    claim.requirements = all.to_written();
    claim.price = best.options.first().map_or(claim.price, |option| option.price);
    claim.options = best.options;
    best.zone.clone_into(&mut claim.cheapest_zone);
    best.capacity_type.clone_into(&mut claim.cheapest_capacity_type);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::pack::{Options, solve};

    /// So many pods that need a node each, in three zones with these prices, beside nodes in zones.
    fn problem(pods: usize, prices: [f64; 3], balance: u8, there: &[&str]) -> Problem {
        let offering = |at: usize| json!({"zone": (["a", "b", "c"][at]), "capacityType": "on-demand", "price": prices[at], "available": true});
        let pod = |at: usize| json!({"name": format!("p{at}"), "uid": format!("p{at}"), "requests": {"cpu": "1500m"}});
        let node = |(at, zone): (usize, &&str)| {
            json!({"name": format!("n{at}"), "allocatable": {"cpu": "0"},
            "labels": {"karpenter.sh/nodepool": "p", "topology.kubernetes.io/zone": zone}})
        };
        serde_json::from_value(json!({
            "nodePools": [{"name": "p", "zoneBalance": balance}],
            "pods": (0..pods).map(pod).collect::<Vec<_>>(),
            "existingNodes": there.iter().enumerate().map(node).collect::<Vec<_>>(),
            "instanceTypes": [{"name": "t", "capacity": {"cpu": "2", "memory": "8Gi", "pods": "9"}, "requirements": [],
                "offerings": [offering(0), offering(1), offering(2)]}],
        }))
        .unwrap()
    }

    /// Numbers of planned nodes that are held to zones a, b and c, and of those that are open.
    fn zones(packing: &Packing) -> [usize; 4] {
        let mut all = [0; 4];
        for claim in &packing.claims {
            let zone = claim.requirements.iter().find(|one| one.key == ZONE && one.values.len() == 1);
            let at = zone.and_then(|one| ["a", "b", "c"].iter().position(|zone| one.values[0] == *zone));
            all[at.unwrap_or(3)] += 1;
        }
        all
    }

    #[test]
    fn nodes_go_where_the_pool_has_fewest_at_little_more() {
        let plan = |problem: &Problem| solve(problem, &Options::default());
        assert_eq!(zones(&plan(&problem(6, [1.0, 1.02, 1.04], 5, &[]))), [2, 2, 2, 0]);
        assert_eq!(zones(&plan(&problem(3, [1.0, 1.02, 1.04], 5, &["a", "a", "b"]))), [0, 1, 2, 0]);
        assert_eq!(zones(&plan(&problem(4, [1.0, 1.02, 2.0], 5, &[]))), [2, 2, 0, 0], "one zone is too dear");
        assert_eq!(zones(&plan(&problem(4, [1.0, 1.02, 1.04], 0, &[]))), [0, 0, 0, 4], "nobody asks");
    }

    #[test]
    fn prices_and_reservations_are_those_of_the_plan() {
        let packing = solve(&problem(3, [1.0, 1.02, 1.04], 5, &[]), &Options::default());
        assert!((packing.total_price - 3.06).abs() < 1e-9, "{}", packing.total_price);
        for claim in &packing.claims {
            assert!(
                claim.requirements.iter().any(|one| one.key == ZONE && one.values == [claim.cheapest_zone.clone()])
            );
        }
        let mut reserved = problem(2, [1.0, 1.02, 1.04], 5, &[]);
        let own = std::sync::Arc::make_mut(&mut reserved.instance_types[0]);
        own.offerings[0].capacity_type = RESERVED.to_owned();
        own.offerings[0].price = 0.0;
        assert_eq!(zones(&solve(&reserved, &Options::default()))[1..3], [0, 0], "what is paid for is used where it is");
    }

    proptest! {
        #[test]
        fn balance_costs_at_most_what_is_allowed_and_leaves_no_pod(
            pods in 1_usize..9, prices in prop::array::uniform3(0.5_f64..2.0), balance in 0_u8..60,
            there in prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 0..5),
        ) {
            let without = solve(&problem(pods, prices, 0, &there), &Options::default());
            let with = solve(&problem(pods, prices, balance, &there), &Options::default());
            prop_assert!(with.unscheduled.is_empty() && with.claims.len() == without.claims.len());
            prop_assert!(with.total_price <= without.total_price * (1.0 + f64::from(balance) / 100.0) + 1e-9);
            if balance == 0 {
                prop_assert_eq!(with, without);
            }
        }
    }
}
