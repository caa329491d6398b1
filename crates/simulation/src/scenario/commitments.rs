//! Reserved Instances and Savings Plans of a scenario's account.

use std::time::Duration;

use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_sandbox::region::{AccountCommitments, AccountReservedInstances, AccountSavingsPlan, Lasting};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::check::{Checker, nearest};
use super::{Scenario, duration};

/// Largest discount of a plan, as the control plane believes it.
const MOST_DISCOUNT: f64 = 0.9;
/// Discount where none is given.
const DISCOUNT: f64 = 0.3;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScenarioReservedInstances {
    pub id: Spanned<String>,
    /// Such as `m5.large`.
    pub instance_type: Spanned<String>,
    /// Such as `us-east-1a`; regional without.
    pub zone: Option<Spanned<String>>,
    pub count: u32,
    /// Dollars an hour of each.
    #[serde(default)]
    pub price: f64,
    /// Time after the start at which they begin, `24h`, queued until then; at the start without.
    pub begins_after: Option<Spanned<String>>,
    /// Time after the start at which they end, `2h`; a year from their beginning without.
    pub ends_after: Option<Spanned<String>>,
    /// Time after the start from which AWS no longer names them, whatever their end is.
    pub gone_after: Option<Spanned<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScenarioSavingsPlan {
    pub id: Spanned<String>,
    /// Dollars an hour.
    pub dollars_per_hour: Spanned<f64>,
    /// Such as `m5`; a compute Savings Plan without.
    pub family: Option<String>,
    /// Part by which its rates are below the on-demand prices, 0 to 0.9.
    pub discount: Option<Spanned<f64>>,
    /// As of Reserved Instances.
    pub begins_after: Option<Spanned<String>>,
    pub ends_after: Option<Spanned<String>>,
    pub gone_after: Option<Spanned<String>>,
}

/// Commitments as the region takes them.
pub(super) fn of_account(path: &str, scenario: &Scenario) -> AccountCommitments {
    let lasting = |times: [&Option<Spanned<String>>; 3]| {
        let read = |text: &Option<Spanned<String>>| -> Option<Duration> {
            text.as_ref().and_then(|text| duration(path, "endsAfter", text).ok())
        };
        let [begins_after, ends_after, gone_after] = times.map(read);
        Lasting { begins_after, ends_after, gone_after }
    };
    let instances = scenario.reserved_instances.iter().map(|one| AccountReservedInstances {
        id: one.id.value.clone(),
        instance_type: one.instance_type.value.clone(),
        zone: one.zone.as_ref().map(|zone| zone.value.clone()),
        count: one.count,
        price: one.price,
        lasting: lasting([&one.begins_after, &one.ends_after, &one.gone_after]),
    });
    let plans = scenario.savings_plans.iter().map(|one| AccountSavingsPlan {
        id: one.id.value.clone(),
        family: one.family.clone(),
        dollars_per_hour: one.dollars_per_hour.value,
        discount: one.discount.as_ref().map_or(DISCOUNT, |discount| discount.value),
        lasting: lasting([&one.begins_after, &one.ends_after, &one.gone_after]),
    });
    AccountCommitments { reserved_instances: instances.collect(), savings_plans: plans.collect() }
}

impl Checker<'_> {
    pub(super) fn commitments(&mut self, scenario: &Scenario, catalogue: &RegionCatalogue) {
        for (index, one) in scenario.reserved_instances.iter().enumerate() {
            let field = |name: &str| format!("reservedInstances[{index}].{name}");
            let name = &one.instance_type;
            if catalogue.instance_type(&name.value).is_none() {
                let what = format!("unknown instance type {:?}", name.value);
                self.mistake(field("instanceType"), name, what, nearest(&name.value, catalogue));
            }
            if let Some(zone) = &one.zone {
                self.zone(&field("zone"), zone, catalogue);
            }
            self.own_id(&field("id"), &one.id, scenario.reserved_instances[..index].iter().map(|other| &other.id));
            self.times(&field("beginsAfter"), one.begins_after.as_ref());
            self.times(&field("endsAfter"), one.ends_after.as_ref());
            self.times(&field("goneAfter"), one.gone_after.as_ref());
        }
        for (index, one) in scenario.savings_plans.iter().enumerate() {
            let field = |name: &str| format!("savingsPlans[{index}].{name}");
            let dollars = &one.dollars_per_hour;
            if !(dollars.value >= 0.0 && dollars.value.is_finite()) {
                let what = format!("{} dollars", dollars.value);
                self.mistake(field("dollarsPerHour"), dollars, what, "0 or more");
            }
            if let Some(discount) =
                one.discount.as_ref().filter(|discount| !(0.0..=MOST_DISCOUNT).contains(&discount.value))
            {
                let what = format!("a discount of {}", discount.value);
                self.mistake(field("discount"), discount, what, format!("0 to {MOST_DISCOUNT}"));
            }
            self.own_id(&field("id"), &one.id, scenario.savings_plans[..index].iter().map(|other| &other.id));
            self.times(&field("beginsAfter"), one.begins_after.as_ref());
            self.times(&field("endsAfter"), one.ends_after.as_ref());
            self.times(&field("goneAfter"), one.gone_after.as_ref());
        }
    }

    fn own_id<'s>(&mut self, field: &str, id: &Spanned<String>, mut before: impl Iterator<Item = &'s Spanned<String>>) {
        if before.any(|other| other.value == id.value) {
            self.mistake(field, id, "there is another of that id", "each id once");
        }
    }

    fn times(&mut self, field: &str, text: Option<&Spanned<String>>) {
        if let Some(text) = text {
            let read = duration(self.path, field, text);
            self.collect(read);
        }
    }
}
