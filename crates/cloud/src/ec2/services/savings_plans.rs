//! Savings Plans, whose protocol is JSON over REST.

use aws_config::SdkConfig;
use aws_smithy_runtime::client::retries::RetryPartition;
use serde::Deserialize;
use serde_json::{Value, json};

use super::endpoints::Host;
use super::json::{error_of, output_of};
use super::{Call, Called, Service, ServiceClient};

/// Plans and rates of a page.
const PLANS_PAGE: u32 = 100;
const RATES_PAGE: u32 = 1000;

static SAVINGS_PLANS: Service =
    Service { id: "savingsplans", signing_name: "savingsplans", host: Host::SavingsPlans, error_of };

/// The account's Savings Plans.
#[derive(Clone, Debug)]
pub(in crate::ec2) struct SavingsPlans(ServiceClient);

/// A Savings Plan, as far as it says what it covers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::ec2) struct SavingsPlan {
    pub savings_plan_id: Option<String>,
    /// `active`, `queued`, `retired`, …
    pub state: Option<String>,
    /// `Compute`, `EC2Instance`, `SageMaker`, `Database`.
    pub savings_plan_type: Option<String>,
    pub product_types: Option<Vec<String>>,
    /// `m5`, of an EC2 Instance Savings Plan.
    pub ec2_instance_family: Option<String>,
    pub region: Option<String>,
    /// Dollars an hour.
    pub commitment: Option<String>,
    pub currency: Option<String>,
    /// RFC 3339.
    pub start: Option<String>,
    pub end: Option<String>,
}

/// A rate of a Savings Plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::ec2) struct PlanRate {
    /// Dollars an hour.
    pub rate: Option<String>,
    pub currency: Option<String>,
    /// `Hrs`.
    pub unit: Option<String>,
    /// `EU-BoxUsage:m5.large`.
    pub usage_type: Option<String>,
    properties: Option<Vec<Property>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Property {
    name: String,
    value: String,
}

impl PlanRate {
    /// A property by its name: `instanceType`, `tenancy`.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().flatten().find(|one| one.name == name).map(|one| one.value.as_str())
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PlansPage {
    savings_plans: Option<Vec<SavingsPlan>>,
    next_token: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RatesPage {
    search_results: Option<Vec<PlanRate>>,
    next_token: Option<String>,
}

impl SavingsPlans {
    pub fn new(config: &SdkConfig, partition: RetryPartition) -> Self {
        Self(ServiceClient::new(&SAVINGS_PLANS, config, partition))
    }

    /// A page of the plans that are active or queued, and the next page's name.
    pub async fn describe_savings_plans(&self, next_token: Option<&str>) -> Called<(Vec<SavingsPlan>, Option<String>)> {
        let body = paged(json!({"states": ["active", "queued"], "maxResults": PLANS_PAGE}), next_token);
        self.0
            .send(call("DescribeSavingsPlans", "/DescribeSavingsPlans", &body), |body| {
                let page = output_of::<PlansPage>(body)?;
                Ok((page.savings_plans.unwrap_or_default(), page.next_token))
            })
            .await
    }

    /// A page of a plan's rates for instances with Linux in a region, and the next page's name.
    pub async fn describe_savings_plan_rates(
        &self,
        plan: &str,
        region: &str,
        next_token: Option<&str>,
    ) -> Called<(Vec<PlanRate>, Option<String>)> {
        let filter = |name: &str, value: &str| json!({"name": name, "values": [value]});
        let filters = [
            filter("region", region),
            filter("productType", "EC2"),
            filter("serviceCode", "AmazonEC2"),
            filter("productDescription", "Linux/UNIX"),
        ];
        let body = json!({"savingsPlanId": plan, "filters": filters, "maxResults": RATES_PAGE});
        self.0
            .send(call("DescribeSavingsPlanRates", "/DescribeSavingsPlanRates", &paged(body, next_token)), |body| {
                let page = output_of::<RatesPage>(body)?;
                Ok((page.search_results.unwrap_or_default(), page.next_token))
            })
            .await
    }
}

fn paged(mut body: Value, next_token: Option<&str>) -> Value {
    if let Some(token) = next_token {
        body["nextToken"] = token.into();
    }
    body
}

fn call(operation: &'static str, path: &str, body: &Value) -> Call {
    let headers = vec![("content-type", "application/json".to_owned())];
    Call { operation, method: http::Method::POST, path: path.to_owned(), headers, body: body.to_string() }
}
