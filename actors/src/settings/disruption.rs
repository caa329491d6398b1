//! Settings about nodes that go: what consolidation keeps to against churn, what follows from a rebalance recommendation, and
//! whether Deployments may be restarted.

use std::time::Duration;

use dovetail_api::v1::parse_go_duration;
use dovetail_core::disruption::methods;
use jiff::SignedDuration;
use serde::Serialize;

use super::parse::{ValueRefusal, number, one_of, refuse};

/// Least saving of deleting a node for each pod that moves, in parts of a mean pod's price. A saving does not last, as load comes
/// back. `plan --consolidate`, which looks at one moment, takes less.
const LEAST_PER_POD: f64 = 1.5;
/// Time in which a command has to pay for its moves, while demand does not rise (decision 050).
const PAYBACK: Duration = Duration::from_secs(30 * 60);

/// Limits that consolidation keeps to, so that a cluster comes to rest (docs/consolidation.md).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Churn {
    /// `CONSOLIDATION_LEAST_SAVING`: what part of the price that it replaces a move saves at least.
    pub least_saving: f64,
    /// `CONSOLIDATION_LEAST_PER_POD`: what deleting a node saves at least for each of its pods, in parts of a mean pod's price.
    pub least_per_pod: f64,
    /// `CONSOLIDATION_LEAST_AGE`: a younger node stays, unless it is empty.
    pub least_age: Duration,
    /// `CONSOLIDATION_REST`: a pod that was moved to save money stays for so long.
    pub rest: Duration,
    /// `CONSOLIDATION_PAYBACK`: what a mean pod costs in this time has to be saved for each pod before it moves.
    pub payback: Duration,
    /// `CONSOLIDATION_PRICE_MOVES`: the part of all nodes that an hour's changes of prices alone may replace.
    pub price_moves: f64,
    /// `CONSOLIDATION_WAVES`: in how many waves a command's pods may go.
    pub waves: u32,
    /// `LEGACY_NODE_REPAIR`: true if unhealthy nodes are removed by force.
    pub legacy_node_repair: bool,
}

impl Default for Churn {
    fn default() -> Self {
        let own = methods::ConsolidationSettings::default();
        Self {
            least_saving: own.least_saving,
            least_per_pod: LEAST_PER_POD,
            least_age: own.least_age.unsigned_abs(),
            rest: own.rest.unsigned_abs(),
            payback: PAYBACK,
            price_moves: methods::PRICE_MOVES,
            waves: own.waves,
            legacy_node_repair: false,
        }
    }
}

impl Churn {
    /// The rules of consolidation with these; `price_per_node` and `spot_to_spot` as in them.
    #[must_use]
    pub fn rules(&self, price_per_node: f64, spot_to_spot: bool) -> methods::ConsolidationSettings {
        let signed = |time: Duration| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        methods::ConsolidationSettings {
            least_saving: self.least_saving,
            least_per_pod: self.least_per_pod,
            least_age: signed(self.least_age),
            rest: signed(self.rest),
            payback: signed(self.payback),
            price_per_node,
            spot_to_spot,
            waves: self.waves,
            ..methods::ConsolidationSettings::default()
        }
    }
}

/// Ways to handle an instance that is likely to be interrupted, by EC2's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rebalance {
    /// An event reports it.
    #[default]
    Event,
    /// Its node is replaced, without haste.
    Replace,
}

/// `REBALANCE`.
pub fn rebalance(text: &str) -> Result<Rebalance, ValueRefusal> {
    match one_of(text, &["event", "replace"])?.as_str() {
        "replace" => Ok(Rebalance::Replace),
        _ => Ok(Rebalance::Event),
    }
}

/// A Go duration from zero.
pub fn time_from_zero(text: &str) -> Result<Duration, ValueRefusal> {
    parse_go_duration(text).or_else(|error| refuse(&error.to_string(), "a Go duration from 0s, such as 10m or 1h30m"))
}

/// Parses a factor from 0.
pub fn factor(text: &str) -> Result<f64, ValueRefusal> {
    const ALLOWED: &str = "a number from 0, such as 1.5";
    let factor: f64 = number(text, ALLOWED)?;
    if factor.is_finite() && factor >= 0.0 { Ok(factor) } else { refuse("it is out of range", ALLOWED) }
}

/// A number of waves.
pub fn waves(text: &str) -> Result<u32, ValueRefusal> {
    const ALLOWED: &str = "an integer from 1 to 20";
    let count: u32 = number(text, ALLOWED)?;
    if (1..=20).contains(&count) { Ok(count) } else { refuse("it is out of range", ALLOWED) }
}

/// A part of something, all of it included.
pub fn part(text: &str) -> Result<f64, ValueRefusal> {
    const ALLOWED: &str = "a fraction from 0 to 1, such as 0.15";
    let part: f64 = number(text, ALLOWED)?;
    if (0.0..=1.0).contains(&part) { Ok(part) } else { refuse("it is out of range", ALLOWED) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::collections::BTreeMap;

    use super::*;
    use crate::Settings;

    fn read(name: &str, value: &str) -> Result<Settings, String> {
        let map = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        Settings::from_map(&map).map_err(|all| all[0].to_string())
    }

    #[test]
    fn what_is_said_against_churn_is_what_consolidation_keeps_to() {
        let rules = |name, value| read(name, value).unwrap().churn.rules(0.02, false);
        let usual = methods::ConsolidationSettings {
            least_per_pod: LEAST_PER_POD,
            payback: SignedDuration::from_mins(30),
            ..methods::ConsolidationSettings::default()
        };
        assert_eq!(Churn::default().rules(0.02, false), usual);
        assert!((rules("CONSOLIDATION_LEAST_SAVING", "0.3").least_saving - 0.3).abs() < f64::EPSILON);
        assert!((rules("CONSOLIDATION_LEAST_PER_POD", "2.5").least_per_pod - 2.5).abs() < f64::EPSILON);
        assert_eq!(rules("CONSOLIDATION_LEAST_AGE", "0s").least_age, SignedDuration::ZERO);
        assert_eq!(rules("CONSOLIDATION_REST", "3h").rest, SignedDuration::from_hours(3));
        assert_eq!(rules("CONSOLIDATION_PAYBACK", "0s").payback, SignedDuration::ZERO);
        assert_eq!(rules("CONSOLIDATION_WAVES", "4").waves, 4);
        for (name, value) in [
            ("CONSOLIDATION_PAYBACK", "-1m"),
            ("CONSOLIDATION_LEAST_PER_POD", "-1"),
            ("CONSOLIDATION_LEAST_PER_POD", "inf"),
            ("CONSOLIDATION_LEAST_SAVING", "1.5"),
            ("CONSOLIDATION_LEAST_SAVING", "NaN"),
            ("CONSOLIDATION_LEAST_AGE", "-1m"),
            ("CONSOLIDATION_REST", "soon"),
            ("CONSOLIDATION_PRICE_MOVES", "-0.1"),
            ("CONSOLIDATION_WAVES", "0"),
            ("CONSOLIDATION_WAVES", "21"),
            ("REBALANCE", "drain"),
        ] {
            assert!(read(name, value).unwrap_err().starts_with(name), "{name}={value}");
        }
    }
}
