//! Settings that not every provider takes: what kwok has not is refused, or said once at the start.

use std::collections::BTreeMap;

use dovetail_api::names::provider::Provider;

use super::table::{KnownSetting, TABLE, Topic};
use super::{SettingError, Settings};

/// Settings of the topic AWS that every provider goes by, and those that are refused with kwok.
const NOT_AWS_ALONE: [&str; 2] = ["FEATURE_GATES", "INTERRUPTION_QUEUE"];
/// Settings of the topic Cluster that are for instances of EC2 alone.
const FOR_INSTANCES: [&str; 3] = ["CLUSTER_CA_BUNDLE", "CLUSTER_ENDPOINT", "EKS_CONTROL_PLANE"];

/// The given settings that the provider has no use for, each with the reason.
pub(super) fn without_effect(given: &BTreeMap<String, String>) -> Vec<String> {
    let provider = given.get("PROVIDER").and_then(|name| Provider::named(name)).unwrap_or_default();
    let of_ec2 = |known: &KnownSetting| {
        let of_aws = known.topic == Topic::Aws && !NOT_AWS_ALONE.contains(&known.name);
        of_aws || FOR_INSTANCES.contains(&known.name)
    };
    let why = |known: &KnownSetting| match provider {
        Provider::Ec2 => (known.name == "INSTANCE_TYPES_FILE_PATH").then_some("EC2 says its instance types itself"),
        Provider::Kwok => of_ec2(known).then_some("the provider kwok asks nothing of AWS"),
    };
    // The chart gives many as they are by default.
    let others = TABLE.iter().filter_map(|known| Some((known, given.get(known.name)?)));
    let others = others.filter(|(known, value)| *value != known.default);
    others.filter_map(|(known, value)| Some(format!("{}={value}: {}", known.name, why(known)?))).collect()
}

impl Settings {
    /// Settings that the provider cannot go by.
    pub(super) fn refused_by_provider(&self) -> Vec<SettingError> {
        if self.provider == Provider::Ec2 {
            return Vec::new();
        }
        let refuse = |wrong: bool, name: &str, value: &str, what: &str, allowed: &str| {
            let (name, value) = (name.to_owned(), value.to_owned());
            wrong.then(|| SettingError { name, value, what: what.to_owned(), allowed: allowed.to_owned() })
        };
        let queue = &self.interruption_queue;
        let refused = [
            refuse(!queue.is_empty(), "INTERRUPTION_QUEUE", queue, "nodes of kwok are not interrupted", "nothing"),
            refuse(
                self.webhook.enabled,
                "WEBHOOK_ENABLED",
                "true",
                "the webhook converts older objects of the EC2 provider",
                "false with PROVIDER=kwok",
            ),
            refuse(
                self.shadow,
                "SHADOW",
                "true",
                "a shadow compares with a provisioner on EC2",
                "false with PROVIDER=kwok",
            ),
        ];
        refused.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_kwok_has_not_is_refused() {
        for (name, value) in [("INTERRUPTION_QUEUE", "demo"), ("WEBHOOK_ENABLED", "true"), ("SHADOW", "true")] {
            let refused = Settings::from_map(&given(&[("PROVIDER", "kwok"), (name, value)])).unwrap_err();
            assert_eq!(refused.iter().map(|error| error.name.as_str()).collect::<Vec<_>>(), [name]);
            assert!(Settings::from_map(&given(&[(name, value)])).is_ok(), "{name}");
        }
        assert!(Settings::from_map(&given(&[("PROVIDER", "gke")])).is_err());
    }

    #[test]
    fn settings_of_another_provider_are_said_to_have_no_effect() {
        for (name, value) in [("AWS_REGION", "us-east-1"), ("EKS_CONTROL_PLANE", "true"), ("RESERVED_ENIS", "1")] {
            assert_eq!(without_effect(&given(&[("PROVIDER", "kwok"), (name, value)])).len(), 1, "{name}");
            assert_eq!(without_effect(&given(&[(name, value)])), [""; 0], "{name}");
        }
        let file = ("INSTANCE_TYPES_FILE_PATH", "/types.json");
        assert_eq!(without_effect(&given(&[file])).len(), 1);
        assert_eq!(without_effect(&given(&[("PROVIDER", "kwok"), file, ("FEATURE_GATES", "Drift=false")])), [""; 0]);
    }
}
