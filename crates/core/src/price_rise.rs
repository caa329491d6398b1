//! A launch that costs much more than the first plan for the same pods: under scarcity packing would take the last machine that
//! is left, whatever it costs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster_state::{Planning, Snapshot};
use crate::instance_type::is_marked;
use crate::overlays::list_price;
use crate::pack::{Packing, PoolReason, Reason, Rule};

/// Multiple of the first plan's price from which a rise is reported.
const SAID_FROM: f64 = 3.0;

/// $/h up to which a node is never held for its price: small pods' first plan may cost a cent, and the last machine left twenty.
const LEAST_HELD: f64 = 10.0;

/// A plan that costs much more than the first for the same pods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriceRise {
    /// $/h of the nodes that the first plans for the pods would have launched, all of them.
    pub first: f64,
    /// $/h of the node that is planned now.
    pub now: f64,
}

impl PriceRise {
    /// The multiple of the first price that it costs.
    #[must_use]
    pub fn times(&self) -> f64 {
        self.now / self.first
    }

    /// True if the node is dear in itself, and costs more than `most_times` times the first price.
    #[must_use]
    pub fn is_beyond(&self, most_times: f64) -> bool {
        self.now > LEAST_HELD && self.times() > most_times
    }

    /// Both prices and what follows, as a sentence.
    fn sentence(&self, most_times: f64) -> String {
        let (now, first, times) = (self.now, self.first, self.times());
        let follows = if self.is_beyond(most_times) {
            format!("it is not launched, as MAX_PRICE_RISE allows {most_times} times")
        } else {
            "it is launched".to_owned()
        };
        format!(
            "the cheapest node that can be had for it costs ${now:.2}/h, {times:.0} times the ${first:.2}/h of the first plan for the \
             same pods; {follows}"
        )
    }
}

/// A planned node that costs much more than the first plans for its pods.
#[derive(Clone, Debug, PartialEq)]
pub struct DearNode {
    /// Index of its pool in the problem.
    pub pool: usize,
    /// Indices of its pods in the problem.
    pub pods: Vec<usize>,
    /// The first price and the present one.
    pub rise: PriceRise,
    /// True if it is not launched for its price.
    pub held: bool,
    /// Both prices and what follows, as a sentence.
    pub message: String,
}

/// The price of the first plan for each pod that waits.
#[derive(Clone, Debug, Default)]
pub struct FirstPrices {
    plans: u64,
    /// By the pod's uid: the number of its first plan, and the $/h of that plan's node.
    known: BTreeMap<String, (u64, f64)>,
}

impl FirstPrices {
    /// A node is planned for these pods at `now` $/h. Answers the rise to report if it costs more than three times the nodes
    /// of their first plans. A pod that is planned for the first time has no price to compare with.
    pub fn planned(&mut self, pods: &[String], now: f64) -> Option<PriceRise> {
        self.plans += 1;
        let first: Option<BTreeMap<u64, f64>> = pods.iter().map(|uid| self.known.get(uid).copied()).collect();
        for uid in pods {
            self.known.entry(uid.clone()).or_insert((self.plans, now));
        }
        let first: f64 = first?.values().sum();
        let rise = PriceRise { first, now };
        (first > 0.0 && rise.times() > SAID_FROM).then_some(rise)
    }

    /// Takes nodes that cost more than so many times the first plans for their pods out of a packing: these pods wait with that
    /// reason. Answers these nodes, and those that stay although they cost much more.
    pub fn hold_dear_nodes(
        &mut self,
        snapshot: &Snapshot,
        planning: &mut Planning,
        packing: &mut Packing,
        most_times: f64,
    ) -> Vec<DearNode> {
        self.retain_waiting(|uid| snapshot.pods.get(uid).is_some_and(|entry| entry.node_name.is_empty()));
        let problem = planning.problem.clone();
        let mut dear = Vec::new();
        packing.claims.retain(|claim| {
            // Capacity that commitments cover has no price that another could be held against.
            if claim.reservations().any(is_marked) {
                return true;
            }
            let uids: Vec<String> = claim.pods.iter().map(|pod| problem.pods[*pod].uid.clone()).collect();
            // Money is meant: what overlays say holds no launch back.
            let price = list_price(&problem, claim).unwrap_or(claim.price);
            let Some(rise) = self.planned(&uids, price) else { return true };
            let (held, message) = (rise.is_beyond(most_times), rise.sentence(most_times));
            dear.push(DearNode { pool: claim.pool, pods: claim.pods.clone(), rise, held, message });
            !held
        });
        for node in dear.iter().filter(|node| node.held) {
            let pool = problem.node_pools[node.pool].name.clone();
            let (detail, instance_types, removed) = (node.message.clone(), 0, Vec::new());
            let pools = vec![PoolReason { pool, rule: Rule::Offerings, detail, instance_types, removed }];
            let reason = Arc::new(Reason::NoPoolFits { pools });
            for pod in node.pods.iter().filter(|pod| !problem.pods[**pod].to_come) {
                planning.held.insert(problem.pods[*pod].uid.clone(), node.message.clone());
                packing.unscheduled.push((*pod, Arc::clone(&reason)));
            }
        }
        if dear.iter().any(|node| node.held) {
            packing.sum_prices();
        }
        dear
    }

    /// Forgets pods that do not wait any more.
    pub fn retain_waiting(&mut self, waits: impl Fn(&str) -> bool) {
        self.known.retain(|uid, _| waits(uid));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn pods(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn node_that_costs_more_than_three_first_plans_is_a_rise() {
        let mut prices = FirstPrices::default();
        assert_eq!(prices.planned(&pods(&["a", "b"]), 0.1), None, "the first plan");
        assert_eq!(prices.planned(&pods(&["a", "b"]), 0.3), None, "three times");
        let rise = prices.planned(&pods(&["a", "b"]), 42.0).unwrap();
        assert_eq!((rise.first, rise.times().round()), (0.1, 420.0), "the first plan stays what it was");
    }

    #[test]
    fn packing_without_a_dear_node_says_so_of_its_pods() {
        let mut state = crate::cluster_state::ClusterState::new();
        let pod = serde_json::json!({"metadata": {"name": "a", "namespace": "default", "uid": "a"}, "spec": {"containers": []}});
        state.apply_pod(&serde_json::from_value(pod).unwrap()).unwrap();
        let snapshot = state.snapshot();
        let mut prices = FirstPrices::default();
        let mut planned = |price: f64, most: f64| {
            let offering =
                serde_json::json!({"zone": "z", "capacityType": "on-demand", "price": price, "available": true});
            let problem: crate::Problem = serde_json::from_value(serde_json::json!({
                "nodePools": [{"name": "p"}], "pods": [{"name": "a", "uid": "a", "requests": {"cpu": "1"}}],
                "instanceTypes": [{"name": "t", "capacity": {"cpu": "4", "memory": "8Gi", "pods": "9"}, "requirements": [],
                    "offerings": [offering]}]}))
            .unwrap();
            let mut packing = crate::pack::solve(&problem, &crate::pack::Options::default());
            let mut planning = Planning { problem: Arc::new(problem), ..Planning::default() };
            let dear = prices.hold_dear_nodes(&snapshot, &mut planning, &mut packing, most);
            (dear, planning, packing)
        };
        let (dear, _, packing) = planned(0.1, 20.0);
        assert_eq!((dear.len(), packing.claims.len()), (0, 1));
        let (dear, planning, packing) = planned(42.0, 20.0);
        assert!(dear[0].held && packing.claims.is_empty() && packing.total_price == 0.0);
        let why = packing.unscheduled[0].1.to_string();
        assert!(
            why.starts_with("pool p: ") && why.ends_with(&planning.held["a"]) && why.contains("420 times"),
            "{why}"
        );
        let (dear, planning, packing) = planned(42.0, f64::INFINITY);
        assert!(!dear[0].held && planning.held.is_empty() && packing.unscheduled.is_empty());
        assert!(dear[0].message.ends_with("it is launched") && packing.total_price == 42.0);
    }

    #[test]
    fn cheap_node_is_never_held_for_its_price() {
        let rise = |first, now| PriceRise { first, now };
        assert!(!rise(0.01, 9.0).is_beyond(20.0) && !rise(1.0, 15.0).is_beyond(20.0));
        assert!(rise(0.2, 42.0).is_beyond(20.0) && !rise(0.2, 42.0).is_beyond(f64::INFINITY));
    }

    #[test]
    fn first_plans_of_all_pods_count_together_and_each_once() {
        let mut prices = FirstPrices::default();
        prices.planned(&pods(&["a", "b"]), 1.0);
        prices.planned(&pods(&["c"]), 2.0);
        assert_eq!(prices.planned(&pods(&["a", "b", "c"]), 9.0), None);
        assert_eq!(prices.planned(&pods(&["a", "b", "c"]), 9.5).unwrap().first, 3.0);
        assert_eq!(prices.planned(&pods(&["a", "new"]), 99.0), None, "of one of them nothing is known");
        prices.retain_waiting(|uid| uid == "b");
        assert_eq!(prices.planned(&pods(&["a"]), 99.0), None, "forgotten");
    }
}
