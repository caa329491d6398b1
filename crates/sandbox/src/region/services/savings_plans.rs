//! Savings Plans: DescribeSavingsPlans and DescribeSavingsPlanRates, over REST and JSON.

use serde_json::{Value, json};

use crate::region::actions::paging::ResultPage;
use crate::region::config::ACCOUNT;
use crate::region::wire::error::AwsError;
use crate::region::{AccountSavingsPlan, Cx, stamp};

/// Carries out an action of Savings Plans.
pub(crate) fn act(cx: &mut Cx<'_>, action: &str, body: &Value) -> Result<Value, AwsError> {
    match action {
        "DescribeSavingsPlans" => plans(cx, body),
        "DescribeSavingsPlanRates" => rates(cx, body),
        _ => Err(AwsError::new("UnknownOperationException", format_args!("unknown operation {action}"))),
    }
}

fn page_of(body: &Value, size: usize) -> Result<ResultPage, AwsError> {
    let token = body.get("nextToken").and_then(Value::as_str);
    ResultPage::new(body.get("maxResults").and_then(Value::as_i64), token, size)
        .map_err(|error| AwsError::new("ValidationException", error.message))
}

fn plans(cx: &mut Cx<'_>, body: &Value) -> Result<Value, AwsError> {
    let states = body.get("states").and_then(Value::as_array);
    let is_asked = |state: &str| states.is_none_or(|states| states.iter().any(|one| one == state));
    let all = cx.config.commitments.savings_plans.iter();
    let all = all.filter(|one| cx.lasts(one.lasting) && is_asked(cx.state_of(one.lasting)));
    let (page, next) = page_of(body, 100)?.cut(all.map(|one| (one.id.clone(), one)));
    let plans: Vec<Value> = page.into_iter().map(|one| plan(cx, one)).collect();
    Ok(with_next(json!({"savingsPlans": plans}), next))
}

fn plan(cx: &Cx<'_>, one: &AccountSavingsPlan) -> Value {
    let ((start, end), partition) = (cx.term(one.lasting), cx.config.partition());
    let of_family = one.family.is_some();
    json!({
        "savingsPlanId": one.id,
        "savingsPlanArn": format!("arn:{partition}:savingsplans::{ACCOUNT}:savingsplan/{}", one.id),
        "start": stamp(start),
        "end": stamp(end),
        "state": cx.state_of(one.lasting),
        "region": of_family.then_some(&cx.config.region),
        "ec2InstanceFamily": one.family,
        "savingsPlanType": if of_family { "EC2Instance" } else { "Compute" },
        "paymentOption": "No Upfront",
        "productTypes": if of_family { json!(["EC2"]) } else { json!(["EC2", "Fargate", "Lambda"]) },
        "currency": cx.config.currency(),
        "commitment": one.dollars_per_hour.to_string(),
        "upfrontPaymentAmount": "0.0",
        "recurringPaymentAmount": one.dollars_per_hour.to_string(),
        "termDurationInSeconds": end.duration_since(start).as_secs(),
    })
}

/// Rates of all types of the plan, by its discount.
fn rates(cx: &mut Cx<'_>, body: &Value) -> Result<Value, AwsError> {
    let id = body.get("savingsPlanId").and_then(Value::as_str).unwrap_or_default();
    let found = cx.config.commitments.savings_plans.iter().find(|one| one.id == id && cx.lasts(one.lasting));
    let plan = found.ok_or_else(|| AwsError::new("ResourceNotFoundException", format_args!("no Savings Plan {id}")))?;
    let is_of = |name: &str| plan.family.as_deref().is_none_or(|family| name.split('.').next() == Some(family));
    let all = cx.catalogue.on_demand.iter().filter(|(name, _)| is_of(name));
    let (page, next) = page_of(body, 1000)?.cut(all.map(|(name, price)| (name.clone(), (name, price))));
    let rate = |(name, price): (&String, &f64)| {
        let property = |name: &str, value: &str| json!({"name": name, "value": value});
        json!({
            "rate": format!("{:.6}", price * (1.0 - plan.discount)),
            "currency": cx.config.currency(),
            "unit": "Hrs",
            "productType": "EC2",
            "serviceCode": "AmazonEC2",
            "usageType": format!("BoxUsage:{name}"),
            "operation": "RunInstances",
            "properties": [
                property("region", &cx.config.region),
                property("instanceType", name),
                property("productDescription", "Linux/UNIX"),
                property("tenancy", "shared"),
            ],
        })
    };
    let rates: Vec<Value> = page.into_iter().map(rate).collect();
    Ok(with_next(json!({"savingsPlanId": id, "searchResults": rates}), next))
}

fn with_next(mut answer: Value, next: Option<String>) -> Value {
    if let Some(next) = next {
        answer["nextToken"] = Value::from(next);
    }
    answer
}
