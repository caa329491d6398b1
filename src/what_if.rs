//! Changes to any plan for trial (what-ifs), and forms of its answer.

use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use dovetail_api::names::labels::{ON_DEMAND, SPOT};
use dovetail_core::{InstanceType, Problem};
use dovetail_input::Mistake;

use crate::near::did_you_mean;

/// Flags of what-ifs that need no cluster, and forms of the answer.
#[derive(Args, Clone, Default)]
pub struct WhatIfArgs {
    /// Plan as if an instance type cost this on demand, in dollars an hour, and on spot in proportion; TYPE/spot=DOLLARS is for spot alone
    #[arg(long, value_name = "TYPE=DOLLARS", help_heading = "What if", conflicts_with = "consolidate")]
    pub price: Vec<PriceOf>,
    /// Plan as if there were no spot capacity
    #[arg(long, help_heading = "What if", conflicts_with = "consolidate")]
    pub without_spot: bool,
    /// Say what the same pods would cost by other policies, and without spot capacity
    #[arg(long, help_heading = "What if", conflicts_with = "consolidate")]
    pub otherwise: bool,
    /// Compare with the plan in a file, an answer of plan --json; without a file with the plan without what-ifs
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        help_heading = "What if",
        conflicts_with = "consolidate"
    )]
    pub diff: Option<String>,
    /// Write the answer as a page too, one file that works offline
    #[arg(long, value_name = "FILE", help_heading = "What if", conflicts_with = "consolidate")]
    pub html: Option<String>,
}

/// An instance type, and its price.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceOf {
    pub instance_type: String,
    /// True for the price on spot alone.
    pub spot: bool,
    /// Dollars an hour, above zero.
    pub dollars: f64,
}

impl FromStr for PriceOf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let no = || "allowed: TYPE=DOLLARS or TYPE/spot=DOLLARS, such as m5.large=0.05".to_owned();
        let (name, dollars) = text.split_once('=').ok_or_else(no)?;
        let dollars = dollars.parse().ok().filter(|dollars: &f64| dollars.is_finite() && *dollars > 0.0);
        let dollars = dollars.ok_or_else(no)?;
        let (instance_type, spot) = match name.split_once('/') {
            None => (name, false),
            Some((name, kind)) if kind == SPOT => (name, true),
            Some((name, kind)) if kind == ON_DEMAND => (name, false),
            Some(_) => return Err(no()),
        };
        if instance_type.is_empty() {
            return Err(no());
        }
        Ok(Self { instance_type: instance_type.to_owned(), spot, dollars })
    }
}

impl WhatIfArgs {
    /// True if the plan is compared with the one without what-ifs.
    pub(super) fn is_against_now(&self) -> bool {
        self.diff.as_deref() == Some("")
    }

    /// Changes the problem as asked for.
    ///
    /// # Errors
    /// An instance type that the problem does not have.
    pub(super) fn change(&self, problem: &mut Arc<Problem>) -> Result<(), Vec<Mistake>> {
        if self.price.is_empty() && !self.without_spot {
            return Ok(());
        }
        let problem = Arc::make_mut(problem);
        let unknown: Vec<Mistake> = self.price.iter().filter_map(|one| set_price(problem, one)).collect();
        if self.without_spot {
            forbid_spot(problem);
        }
        if unknown.is_empty() { Ok(()) } else { Err(unknown) }
    }
}

/// Gives a type its price. The mistake if there is no such type, or it is not sold that way.
fn set_price(problem: &mut Problem, wanted: &PriceOf) -> Option<Mistake> {
    let PriceOf { instance_type, spot, dollars } = wanted;
    let mut known = false;
    let mut sold = false;
    for one in problem.instance_types.iter_mut().filter(|one| one.name == *instance_type) {
        known = true;
        sold |= reprice(Arc::make_mut(one), *spot, *dollars);
    }
    if sold {
        return None;
    }
    let place = format!("--price {instance_type}");
    if known {
        let way = if *spot { SPOT } else { ON_DEMAND };
        return Some(Mistake::of_file(place, format!("the type has no {way} offering here")));
    }
    let names = problem.instance_types.iter().map(|one| one.name.as_str());
    let what = format!("no pool has this instance type{}", did_you_mean(instance_type, names));
    Some(Mistake::of_file(place, what).allowing("instance types that the plan may choose"))
}

/// Sets a type's price on demand, with spot in proportion, or its spot price alone. False if it is not sold that way.
fn reprice(one: &mut InstanceType, spot: bool, dollars: f64) -> bool {
    let before = one.offerings.iter().filter(|offering| offering.capacity_type == ON_DEMAND).map(|one| one.price);
    let before = before.filter(|price| *price > 0.0).reduce(f64::min);
    let mut sold = false;
    for offering in &mut one.offerings {
        match (offering.capacity_type.as_str(), spot) {
            (SPOT, true) | (ON_DEMAND, false) => {
                (offering.price, offering.list_price, sold) = (dollars, None, true);
            }
            (SPOT, false) => offering.price *= before.map_or(1.0, |before| dollars / before),
            _ => {}
        }
    }
    sold
}

/// Takes spot capacity out of all instance types.
pub(super) fn forbid_spot(problem: &mut Problem) {
    for one in &mut problem.instance_types {
        if one.offerings.iter().any(|offering| offering.capacity_type == SPOT) {
            Arc::make_mut(one).offerings.retain(|offering| offering.capacity_type != SPOT);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn problem() -> Arc<Problem> {
        let text = r#"{"nodePools": [{"name": "p"}], "pods": [],
            "instanceTypes": [{"name": "m5.large", "capacity": {"cpu": "2"}, "offerings": [
                {"zone": "a", "capacityType": "on-demand", "price": 0.1, "available": true},
                {"zone": "a", "capacityType": "spot", "price": 0.04, "available": true}]}]}"#;
        Arc::new(serde_json::from_str(text).unwrap())
    }

    fn prices(args: &WhatIfArgs) -> Vec<f64> {
        let mut changed = problem();
        args.change(&mut changed).unwrap();
        changed.instance_types[0].offerings.iter().map(|one| one.price).collect()
    }

    #[test]
    fn price_on_demand_moves_spot_in_proportion() {
        let of = |text: &str| WhatIfArgs { price: vec![text.parse().unwrap()], ..WhatIfArgs::default() };
        assert_eq!(prices(&of("m5.large=0.05")), [0.05, 0.02]);
        assert_eq!(prices(&of("m5.large/spot=0.01")), [0.1, 0.01]);
        assert_eq!(prices(&WhatIfArgs { without_spot: true, ..WhatIfArgs::default() }), [0.1]);
    }

    #[test]
    fn price_of_a_type_that_is_not_there_names_the_nearest() {
        let args = WhatIfArgs { price: vec!["m5.larg=1".parse().unwrap()], ..WhatIfArgs::default() };
        let said = args.change(&mut problem()).unwrap_err()[0].to_string();
        assert!(said.starts_with("--price m5.larg: ") && said.contains("did you mean m5.large?"), "{said}");
        for wrong in ["m5.large", "=1", "m5.large=-1", "m5.large=0", "m5.large=nan", "m5.large/reserved=1"] {
            assert!(wrong.parse::<PriceOf>().is_err(), "{wrong}");
        }
    }
}
