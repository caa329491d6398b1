//! A launch that costs much more than the first plan for the same pods: under scarcity packing would take the last machine that
//! is left, whatever it costs.

use std::collections::{BTreeMap, BTreeSet};

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

    /// Forgets pods that do not wait any more.
    pub fn retain_waiting(&mut self, waiting: &BTreeSet<&str>) {
        self.known.retain(|uid, _| waiting.contains(uid.as_str()));
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
        prices.retain_waiting(&["b"].into());
        assert_eq!(prices.planned(&pods(&["a"]), 99.0), None, "forgotten");
    }
}
