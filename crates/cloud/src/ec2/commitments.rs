//! Savings Plans and Reserved Instances of the account (DescribeReservedInstances, DescribeSavingsPlans,
//! DescribeSavingsPlanRates), as far as they cover instances of this region.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_sdk_ec2::types as sdk;
use aws_smithy_types::DateTime;
use dovetail_core::commitments::{AccountAnswer, CommitmentKind, WrittenCommitment};
use jiff::{SignedDuration, Timestamp};

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use super::describe::filter;
use super::plan_rates::Rates;
use super::services::{PlanRate, SavingsPlan, next_page};
use crate::error::CloudError;

/// Most pages of plans, a hundred each, and of a plan's rates, a thousand each.
const MOST_PAGES: usize = 10;
/// Largest price of a Reserved Instance that is shown, in dollars an hour.
const MOST_DOLLARS: f64 = 1e6;

impl Ec2Cloud {
    pub(super) async fn describe_reserved_instances(&self) -> Result<AccountAnswer, CloudError> {
        let call = self.clients.ec2.describe_reserved_instances().filters(filter("state", ["active", "queued"]));
        let answer = call.send().await;
        let answer = answer.map_err(|e| classify("DescribeReservedInstances", Effect::Repeatable, e))?;
        let mut found = AccountAnswer::default();
        for one in answer.reserved_instances() {
            // Queued ones begin when others end, which is sooner than the account is asked again.
            let begins = one.start().is_some();
            let counts = one.state().is_none_or(|state| match state {
                sdk::ReservedInstanceState::Active => true,
                sdk::ReservedInstanceState::Queued => begins,
                _ => false,
            });
            if counts {
                let id = one.reserved_instances_id().unwrap_or_default();
                note(&mut found, id, instances_of(one, self.currency()));
            }
        }
        Ok(found)
    }

    pub(super) async fn describe_savings_plans(&self) -> Result<AccountAnswer, CloudError> {
        if self.settings.isolated_vpc {
            return Err(CloudError::isolated("DescribeSavingsPlans"));
        }
        let (mut found, mut token) = (AccountAnswer::default(), None);
        for _ in 0..MOST_PAGES {
            let page = self.clients.savingsplans.describe_savings_plans(token.as_deref()).await;
            let (plans, next) = page.map_err(|e| classify("DescribeSavingsPlans", Effect::Repeatable, e))?;
            for one in &plans {
                if let Some(plan) = plan_of(one, &self.region, self.currency()) {
                    note(&mut found, one.savings_plan_id.as_deref().unwrap_or_default(), plan);
                }
            }
            token = next_page(token.as_deref(), next);
            if token.is_none() {
                break;
            }
        }
        self.memory.plan_rates.add_to(&mut found, self.now(), |plan| self.rates_of(plan)).await;
        Ok(found)
    }

    async fn rates_of(&self, plan: String) -> Result<Rates, CloudError> {
        let (mut rates, mut token) = (BTreeMap::new(), None);
        for _ in 0..MOST_PAGES {
            let page = self.clients.savingsplans.describe_savings_plan_rates(&plan, &self.region, token.as_deref());
            let (page, next) = page.await.map_err(|e| classify("DescribeSavingsPlanRates", Effect::Repeatable, e))?;
            rates.extend(page.iter().filter_map(|rate| rate_of(rate, self.currency())));
            token = next_page(token.as_deref(), next);
            if token.is_none() {
                break;
            }
        }
        Ok(Arc::new(rates))
    }

    /// Currency of the region's prices.
    fn currency(&self) -> &'static str {
        if self.region.starts_with("cn-") { "CNY" } else { "USD" }
    }
}

fn note(answer: &mut AccountAnswer, id: &str, one: Result<WrittenCommitment, String>) {
    match one {
        Ok(commitment) => answer.found.push(commitment),
        Err(why) => _ = answer.left_out.insert(id.to_owned(), why),
    }
}

/// Reserved Instances for Linux on shared hardware; an error for others, which have no place here.
fn instances_of(one: &sdk::ReservedInstances, currency: &str) -> Result<WrittenCommitment, String> {
    let system = one.product_description().map_or("", sdk::RiProductDescription::as_str);
    if !system.starts_with("Linux/UNIX") {
        return Err(format!("it is for {system:?}, not for Linux/UNIX"));
    }
    if let Some(tenancy) = one.instance_tenancy().filter(|tenancy| **tenancy != sdk::Tenancy::Default) {
        return Err(format!("it is of tenancy {tenancy:?}"));
    }
    let is_zonal = one.scope().is_none_or(|scope| *scope != sdk::Scope::Regional);
    let zone = one.availability_zone().filter(|zone| is_zonal && !zone.is_empty());
    if zone.is_none() && is_zonal && one.scope().is_some() {
        return Err("it is for a zone that is not named".to_owned());
    }
    let seconds = one.duration().filter(|seconds| *seconds > 0);
    let begins = one.start().map(time_of).transpose()?;
    let ends = one.end().map(time_of).transpose()?;
    let lasts = begins.zip(seconds);
    let ends =
        ends.or_else(|| lasts.and_then(|(begin, seconds)| begin.checked_add(SignedDuration::from_secs(seconds)).ok()));
    let hourly = one.recurring_charges().iter().filter_map(sdk::RecurringCharge::amount).sum::<f64>();
    let fixed = one.fixed_price().map_or(0.0, f64::from);
    let price = hourly + seconds.map_or(0.0, |seconds| fixed * 3600.0 / seconds as f64);
    let in_currency = one.currency_code().is_none_or(|code| code.as_str() == currency);
    // A price is only shown: instances whose price makes no sense cover no less.
    let price = Some((price * 1e6).round() / 1e6).filter(|price| in_currency && (0.0..=MOST_DOLLARS).contains(price));
    let count = one.instance_count().unwrap_or_default();
    let count = u32::try_from(count).map_err(|_| format!("it has {count} instances"))?;
    Ok(WrittenCommitment {
        instance_type: Some(one.instance_type().map_or("", sdk::InstanceType::as_str).to_owned()),
        zone: zone.map(str::to_owned),
        count: Some(count),
        price,
        begins,
        ends,
        ..written(one.reserved_instances_id(), CommitmentKind::ReservedInstances)
    })
}

/// A plan that covers instances of this region; `None` for one that covers none of them.
fn plan_of(one: &SavingsPlan, region: &str, currency: &str) -> Option<Result<WrittenCommitment, String>> {
    let is_of_ec2 = one.product_types.as_ref().is_none_or(|all| all.iter().any(|product| product == "EC2"));
    let kind = match one.savings_plan_type.as_deref().unwrap_or_default() {
        "Compute" if is_of_ec2 => CommitmentKind::ComputeSavingsPlan,
        "EC2Instance" if one.region.as_deref() == Some(region) => CommitmentKind::Ec2InstanceSavingsPlan,
        "Compute" | "EC2Instance" | "SageMaker" | "Database" => return None,
        other => return Some(Err(format!("its type {other:?} is not known"))),
    };
    let counts = match one.state.as_deref() {
        None | Some("active") => true,
        // A renewal begins when the plan before it ends, which is sooner than the account is asked again.
        Some("queued") => one.start.is_some(),
        Some(_) => false,
    };
    if !counts {
        return None;
    }
    Some(read_plan(one, kind, currency))
}

fn read_plan(one: &SavingsPlan, kind: CommitmentKind, currency: &str) -> Result<WrittenCommitment, String> {
    if let Some(other) = one.currency.as_deref().filter(|other| *other != currency) {
        return Err(format!("its currency is {other}, and that of prices is {currency}"));
    }
    let amount = one.commitment.as_deref().unwrap_or_default();
    let dollars: f64 = amount.parse().map_err(|_| format!("its commitment {amount:?} is no number"))?;
    let family = one.ec2_instance_family.clone().filter(|_| kind == CommitmentKind::Ec2InstanceSavingsPlan);
    Ok(WrittenCommitment {
        dollars_per_hour: Some(dollars),
        family,
        begins: one.start.as_deref().map(time_in).transpose()?,
        ends: one.end.as_deref().map(time_in).transpose()?,
        ..written(one.savings_plan_id.as_deref(), kind)
    })
}

fn written(id: Option<&str>, kind: CommitmentKind) -> WrittenCommitment {
    WrittenCommitment {
        id: id.unwrap_or_default().to_owned(),
        kind,
        dollars_per_hour: None,
        discount: None,
        discounts: BTreeMap::new(),
        rates: Rates::default(),
        family: None,
        instance_type: None,
        zone: None,
        count: None,
        price: None,
        share: None,
        begins: None,
        ends: None,
    }
}

/// Instance type and rate, where it is an hour of an instance on shared hardware.
fn rate_of(one: &PlanRate, currency: &str) -> Option<(String, f64)> {
    let is_hour = one.unit.as_deref().is_none_or(|unit| unit == "Hrs");
    let is_shared = one.property("tenancy").is_none_or(|tenancy| matches!(tenancy, "shared" | "default"));
    let is_usage = one.usage_type.as_deref().is_none_or(|usage| usage.contains("BoxUsage"));
    let is_linux = one.property("productDescription").is_none_or(|system| system.starts_with("Linux/UNIX"));
    let in_currency = one.currency.as_deref().is_none_or(|other| other == currency);
    let rate: f64 = one.rate.as_deref()?.parse().ok()?;
    let is_price = rate > 0.0 && rate <= MOST_DOLLARS;
    let counts = is_hour && is_shared && is_usage && is_linux && in_currency && is_price;
    counts.then(|| Some((one.property("instanceType")?.to_owned(), rate)))?
}

fn time_of(time: &DateTime) -> Result<Timestamp, String> {
    Timestamp::from_second(time.secs()).map_err(|error| error.to_string())
}

fn time_in(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| format!("{text:?} is no time"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::float_cmp)]
    use aws_sdk_ec2::types::builders::ReservedInstancesBuilder;

    use super::*;

    fn instances() -> ReservedInstancesBuilder {
        let hourly = sdk::RecurringCharge::builder().amount(0.04).build();
        sdk::ReservedInstances::builder()
            .reserved_instances_id("ri-1")
            .instance_type(sdk::InstanceType::from("m5.large"))
            .scope(sdk::Scope::Regional)
            .instance_count(3)
            .product_description(sdk::RiProductDescription::from("Linux/UNIX"))
            .currency_code(sdk::CurrencyCodeValues::Usd)
            .start(DateTime::from_secs(0))
            .duration(31_536_000)
            .fixed_price(175.2)
            .recurring_charges(hourly)
    }

    fn read(one: ReservedInstancesBuilder) -> Result<WrittenCommitment, String> {
        instances_of(&one.build(), "USD")
    }

    #[test]
    fn reserved_instances_are_read_with_price_and_end() {
        let one = read(instances()).unwrap();
        assert_eq!((one.id.as_str(), one.instance_type.as_deref(), one.count), ("ri-1", Some("m5.large"), Some(3)));
        assert_eq!(one.price, Some(0.06), "0.04 an hour, and 175.20 for a year");
        assert_eq!((one.zone, one.ends.unwrap().as_second()), (None, 31_536_000));
        let zonal = instances().scope(sdk::Scope::AvailabilityZone).availability_zone("us-east-1a");
        assert_eq!(read(zonal).unwrap().zone.as_deref(), Some("us-east-1a"));
        let regional = instances().availability_zone("us-east-1a");
        assert_eq!(read(regional).unwrap().zone, None, "the scope goes before the zone");
    }

    #[test]
    fn other_systems_and_tenancies_have_no_place() {
        let windows = instances().product_description(sdk::RiProductDescription::from("Windows"));
        assert!(read(windows).unwrap_err().contains("Windows"));
        assert!(read(instances().instance_tenancy(sdk::Tenancy::Dedicated)).is_err());
        assert!(read(instances().scope(sdk::Scope::AvailabilityZone)).is_err());
        assert!(read(instances().instance_count(-2)).is_err());
    }

    #[test]
    fn prices_that_make_no_sense_are_left_out_alone() {
        for one in [
            instances().fixed_price(f32::NAN),
            instances().fixed_price(-1e9),
            instances().currency_code(sdk::CurrencyCodeValues::from("EUR")),
        ] {
            let one = read(one).unwrap();
            assert_eq!((one.price, one.count), (None, Some(3)));
        }
        // An offering that nobody knows yet covers like any.
        let one = instances().offering_type(sdk::OfferingTypeValues::from("Half Upfront"));
        assert_eq!(read(one).unwrap().count, Some(3));
    }

    fn plan(text: &str) -> Option<Result<WrittenCommitment, String>> {
        plan_of(&serde_json::from_str(text).unwrap(), "us-east-1", "USD")
    }

    #[test]
    fn plans_of_ec2_in_this_region_are_read() {
        let text = r#"{"savingsPlanId": "s", "savingsPlanType": "Compute", "commitment": "4.5", "currency": "USD",
            "productTypes": ["EC2", "Fargate"], "state": "active", "start": "2026-01-01T00:00:00.000Z",
            "end": "2027-01-01T00:00:00.000Z"}"#;
        let one = plan(text).unwrap().unwrap();
        assert_eq!((one.kind, one.dollars_per_hour), (CommitmentKind::ComputeSavingsPlan, Some(4.5)));
        assert_eq!(one.ends.unwrap().to_string(), "2027-01-01T00:00:00Z");
        let of_family = r#"{"savingsPlanType": "EC2Instance", "ec2InstanceFamily": "m5", "region": "us-east-1", "commitment": "1"}"#;
        assert_eq!(plan(of_family).unwrap().unwrap().family.as_deref(), Some("m5"));
        let queued = plan(&text.replace("\"active\"", "\"queued\"")).unwrap().unwrap();
        assert_eq!(queued.begins.unwrap().to_string(), "2026-01-01T00:00:00Z", "a renewal is known before it begins");
        for none in [
            &of_family.replace("us-east-1", "eu-west-1"),
            &text.replace("Compute", "SageMaker"),
            &text.replace("\"active\"", "\"retired\""),
            &text.replace("\"active\"", "\"queued\"").replace("start", "began"),
            &text.replace("\"EC2\"", "\"Lambda\""),
        ] {
            assert!(plan(none).is_none(), "{none}");
        }
        for mistake in [
            &text.replace("Compute", "Quantum"),
            &text.replace("4.5", "lots"),
            &text.replace("USD", "EUR"),
            &text.replace("2027-01-01T00:00:00.000Z", "never"),
        ] {
            assert!(plan(mistake).unwrap().is_err(), "{mistake}");
        }
    }

    #[test]
    fn rates_are_those_of_shared_linux_instances() {
        let text = r#"{"rate": "0.06", "currency": "USD", "unit": "Hrs", "usageType": "EU-BoxUsage:m5.large", "properties":
            [{"name": "instanceType", "value": "m5.large"}, {"name": "tenancy", "value": "shared"}]}"#;
        let rate = |text: &str| rate_of(&serde_json::from_str(text).unwrap(), "USD");
        assert_eq!(rate(text), Some(("m5.large".into(), 0.06)));
        for (from, to) in [
            ("\"shared\"", "\"dedicated\""),
            ("BoxUsage", "UnusedBox"),
            ("Hrs", "Request"),
            ("0.06", "-1"),
            ("0.06", "NaN"),
            ("USD", "CNY"),
            ("\"instanceType\"", "\"region\""),
        ] {
            assert_eq!(rate(&text.replace(from, to)), None, "{from} {to}");
        }
    }
}
