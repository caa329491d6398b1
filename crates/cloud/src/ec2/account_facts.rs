//! Facts about the account that `dovetail doctor` asks for, with the credentials of who runs it. The control plane asks for none of
//! them, and its policies allow none of them (tests/deploy/source.py).

use std::collections::BTreeSet;

use serde_json::Value;

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use super::services::next_page;
use crate::error::CloudError;

/// Most rules of a queue that are read; our stack has five.
const MOST_RULES: usize = 20;
/// Most pages of their names.
const MOST_PAGES: usize = 5;
/// Code of Service Quotas for a quota of which it has the default value alone.
const DEFAULT_ALONE: &str = "NoSuchResourceException";

/// Events that rules send to a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentEvents {
    /// Sources and detail-types of each rule, as far as it names any.
    rules: Vec<[Option<BTreeSet<String>>; 2]>,
}

impl SentEvents {
    /// True if a rule sends events of this source and detail-type. The details by which a rule takes some of them alone do not count.
    #[must_use]
    pub fn has(&self, source: &str, detail_type: &str) -> bool {
        let names = |all: &Option<BTreeSet<String>>, one: &str| all.as_ref().is_none_or(|all| all.contains(one));
        self.rules.iter().any(|[sources, types]| names(sources, source) && names(types, detail_type))
    }

    /// Number of rules that are on.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rules.len()
    }

    fn add(&mut self, pattern: &str) {
        let Ok(Value::Object(pattern)) = serde_json::from_str::<Value>(pattern) else { return };
        let texts = |field: &str| {
            let all = pattern.get(field)?.as_array()?;
            Some(all.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        };
        self.rules.push([texts("source"), texts("detail-type")]);
    }
}

impl Ec2Cloud {
    /// Asks IAM for a role; false if there is none of that name (GetRole).
    ///
    /// # Errors
    /// IAM does not answer, or does not let us.
    pub async fn has_role(&self, name: &str) -> Result<bool, CloudError> {
        const CALL: &str = "GetRole";
        if self.settings.isolated_vpc {
            return Err(CloudError::isolated(CALL));
        }
        match self.clients.iam.get_role(name).await.map_err(|error| classify(CALL, Effect::Repeatable, error)) {
            Err(error) if error.is_not_found() => Ok(false),
            answer => answer.map(|()| true),
        }
    }

    /// The events that EventBridge's rules send to the queue at this URL (ListRuleNamesByTarget, DescribeRule).
    ///
    /// # Errors
    /// The URL is none of SQS, or EventBridge does not answer, or does not let us.
    pub async fn events_sent_to(&self, queue_url: &str) -> Result<SentEvents, CloudError> {
        const CALL: &str = "ListRuleNamesByTarget";
        let arn = queue_arn(&self.region, queue_url)
            .ok_or_else(|| CloudError::invalid(CALL, "NotSent", format!("{queue_url:?} is no URL of a queue")))?;
        let (mut names, mut token) = (BTreeSet::new(), None);
        for _ in 0..MOST_PAGES {
            let page = self.clients.events.list_rule_names_by_target(&arn, token.as_deref()).await;
            let page = page.map_err(|error| classify(CALL, Effect::Repeatable, error))?;
            names.extend(page.rule_names);
            token = next_page(token.as_deref(), page.next_token);
            if token.is_none() {
                break;
            }
        }
        let mut sent = SentEvents::default();
        for name in names.iter().take(MOST_RULES) {
            let rule = self.clients.events.describe_rule(name).await;
            let rule = rule.map_err(|error| classify("DescribeRule", Effect::Repeatable, error))?;
            if rule.state.as_deref() != Some("DISABLED") {
                sent.add(rule.event_pattern.as_deref().unwrap_or_default());
            }
        }
        Ok(sent)
    }

    /// A quota of EC2 in Service Quotas, by its code (GetServiceQuota, else GetAWSDefaultServiceQuota); `None` where the answer has no
    /// number.
    ///
    /// # Errors
    /// Service Quotas does not answer, or does not let us.
    pub async fn vcpu_quota(&self, code: &str) -> Result<Option<f64>, CloudError> {
        let answer = self.clients.service_quotas.get_service_quota(code).await;
        match answer.map_err(|error| classify("GetServiceQuota", Effect::Repeatable, error)) {
            Err(error) if error.code() == DEFAULT_ALONE => {
                let answer = self.clients.service_quotas.get_aws_default_service_quota(code).await;
                answer.map_err(|error| classify("GetAWSDefaultServiceQuota", Effect::Repeatable, error))
            }
            answer => answer,
        }
        .map(|value| value.filter(|value| value.is_finite() && *value >= 0.0))
    }
}

/// `arn:aws:sqs:us-east-1:111122223333:demo` of `https://sqs.us-east-1.amazonaws.com/111122223333/demo`.
fn queue_arn(region: &str, url: &str) -> Option<String> {
    let (rest, name) = url.rsplit_once('/')?;
    let (_, account) = rest.rsplit_once('/')?;
    let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    let partition = match region.split('-').next()? {
        "cn" => "aws-cn",
        "us" if region.starts_with("us-gov-") => "aws-us-gov",
        "us" if region.starts_with("us-isob-") => "aws-iso-b",
        "us" if region.starts_with("us-isof-") => "aws-iso-f",
        "us" if region.starts_with("us-iso-") => "aws-iso",
        "eu" if region.starts_with("eu-isoe-") => "aws-iso-e",
        "eusc" => "aws-eusc",
        _ => "aws",
    };
    (is_account && !name.is_empty()).then(|| format!("arn:{partition}:sqs:{region}:{account}:{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_send_what_their_patterns_name() {
        let mut sent = SentEvents::default();
        sent.add(r#"{"source": ["aws.ec2"], "detail-type": ["A", {"prefix": "B"}], "detail": {"state": ["stopped"]}}"#);
        sent.add("no JSON");
        sent.add("[]");
        assert_eq!(sent.count(), 1);
        assert!(sent.has("aws.ec2", "A") && !sent.has("aws.ec2", "B") && !sent.has("aws.health", "A"));
        sent.add(r#"{"source": ["aws.health"]}"#);
        assert!(sent.has("aws.health", "B") && !sent.has("aws.s3", "A"));
        sent.add(r#"{"detail-type": []}"#);
        assert!(!sent.has("aws.s3", "A"));
    }

    #[test]
    fn arn_of_a_queue_is_in_its_partition() {
        let of = |region, url| queue_arn(region, url).unwrap_or_default();
        let url = "https://sqs.eu-west-1.amazonaws.com/111122223333/demo";
        assert_eq!(of("eu-west-1", url), "arn:aws:sqs:eu-west-1:111122223333:demo");
        assert_eq!(of("cn-north-1", "http://x/111122223333/q"), "arn:aws-cn:sqs:cn-north-1:111122223333:q");
        assert_eq!(of("us-gov-east-1", "http://x/111122223333/q"), "arn:aws-us-gov:sqs:us-gov-east-1:111122223333:q");
        for none in ["", "demo", "http://sqs/demo", "http://x/111122223333/", "http://x/11112222333x/q"] {
            assert_eq!(queue_arn("us-east-1", none), None, "{none}");
        }
    }
}
