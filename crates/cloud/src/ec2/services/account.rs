//! EventBridge's rules and Service Quotas, in AWS JSON 1.1: facts about the account.

use aws_config::SdkConfig;
use aws_smithy_runtime::client::retries::RetryPartition;
use serde::Deserialize;
use serde_json::json;

use super::endpoints::{FipsHost, Host};
use super::json::{call, error_of, output_of};
use super::{Called, Service, ServiceClient};

static EVENTS: Service = Service {
    id: "EventBridge",
    signing_name: "events",
    host: Host::Regional { prefix: "events", fips: FipsHost::NeverInGov },
    error_of,
};
static QUOTAS: Service = Service {
    id: "Service Quotas",
    signing_name: "servicequotas",
    host: Host::Regional { prefix: "servicequotas", fips: FipsHost::NotInGov },
    error_of,
};
const EVENTS_SHAPE: &str = "AWSEvents";
const QUOTAS_SHAPE: &str = "ServiceQuotasV20190624";
/// The code of EC2 in Service Quotas.
const EC2: &str = "ec2";

/// Rules of EventBridge's default bus.
#[derive(Clone, Debug)]
pub(in crate::ec2) struct EventBridge(ServiceClient);

/// Names of rules, one page.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::ec2) struct RuleNames {
    #[serde(default)]
    pub rule_names: Vec<String>,
    /// The next page's name; absent or empty on the last.
    pub next_token: Option<String>,
}

/// A rule, as far as it says which events it sends.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::ec2) struct Rule {
    /// `ENABLED`, `DISABLED`, or `ENABLED_WITH_ALL_CLOUDTRAIL_MANAGEMENT_EVENTS`.
    pub state: Option<String>,
    /// JSON; none for a rule that goes by time.
    pub event_pattern: Option<String>,
}

impl EventBridge {
    pub fn new(config: &SdkConfig, partition: RetryPartition) -> Self {
        Self(ServiceClient::new(&EVENTS, config, partition))
    }

    /// A page of the rules that send to a target.
    pub async fn list_rule_names_by_target(&self, arn: &str, next_token: Option<&str>) -> Called<RuleNames> {
        let mut body = json!({"TargetArn": arn});
        if let Some(token) = next_token {
            body["NextToken"] = token.into();
        }
        self.0.send(call(EVENTS_SHAPE, "ListRuleNamesByTarget", &body), output_of).await
    }

    /// A rule by its name.
    pub async fn describe_rule(&self, name: &str) -> Called<Rule> {
        self.0.send(call(EVENTS_SHAPE, "DescribeRule", &json!({"Name": name})), output_of).await
    }
}

/// Quotas of the account in its region.
#[derive(Clone, Debug)]
pub(in crate::ec2) struct ServiceQuotas(ServiceClient);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GotQuota {
    quota: Option<Quota>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Quota {
    value: Option<f64>,
}

impl ServiceQuotas {
    pub fn new(config: &SdkConfig, partition: RetryPartition) -> Self {
        Self(ServiceClient::new(&QUOTAS, config, partition))
    }

    /// The value that counts for a quota of EC2, by its code.
    pub async fn get_service_quota(&self, code: &str) -> Called<Option<f64>> {
        self.value_of_quota("GetServiceQuota", code).await
    }

    /// The value that AWS gives to accounts that have asked for no other.
    pub async fn get_aws_default_service_quota(&self, code: &str) -> Called<Option<f64>> {
        self.value_of_quota("GetAWSDefaultServiceQuota", code).await
    }

    async fn value_of_quota(&self, operation: &'static str, code: &str) -> Called<Option<f64>> {
        let body = json!({"ServiceCode": EC2, "QuotaCode": code});
        let value_of = |body: &[u8]| Ok(output_of::<GotQuota>(body)?.quota.and_then(|quota| quota.value));
        self.0.send(call(QUOTAS_SHAPE, operation, &body), value_of).await
    }
}
