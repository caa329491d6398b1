//! `karpenter-global-settings`, the ConfigMap that Karpenter had its settings in before 0.33 (aws spec 10.6): what the environment
//! and the flags do not say is taken from it, and that is said.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_actors::Settings;
use dovetail_actors::reading::LenientApi;
use dovetail_actors::settings::{KnownSetting, TABLE};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;

use super::preflight::ask::Asker;

/// The ConfigMap's name.
const NAME: &str = "karpenter-global-settings";

/// Its keys, and the settings that they became.
const KEYS: [(&str, &str); 9] = [
    ("batchMaxDuration", "BATCH_MAX_DURATION"),
    ("batchIdleDuration", "BATCH_IDLE_DURATION"),
    ("aws.clusterEndpoint", "CLUSTER_ENDPOINT"),
    ("aws.clusterCABundle", "CLUSTER_CA_BUNDLE"),
    ("aws.defaultInstanceProfile", "DEFAULT_INSTANCE_PROFILE"),
    ("aws.isolatedVPC", "ISOLATED_VPC"),
    ("aws.vmMemoryOverheadPercent", "VM_MEMORY_OVERHEAD_PERCENT"),
    ("aws.interruptionQueueName", "INTERRUPTION_QUEUE"),
    ("aws.reservedENIs", "RESERVED_ENIS"),
];

/// The settings with what the ConfigMap says in `lease_namespace`, where it is. What is taken, and what of it has no effect, is
/// told by `warn`.
pub async fn with_config_map(
    asker: &Asker,
    client: &Client,
    mut settings: Settings,
    given: &BTreeSet<String>,
    warn: impl Fn(&str),
) -> Settings {
    let maps: LenientApi<ConfigMap> = LenientApi::namespaced(client.clone(), &settings.lease_namespace);
    match asker.api(&format!("configmap {NAME}"), || maps.get_opt(NAME)).await {
        Ok(Some(map)) => {
            apply_config_map(&mut settings, &map.data.unwrap_or_default(), given).iter().for_each(|line| warn(line));
            settings
        }
        Ok(None) => settings,
        Err(why) => {
            warn(&format!("whether there is a ConfigMap {NAME} of an earlier Karpenter cannot be seen: {why}"));
            settings
        }
    }
}

/// Sets what the ConfigMap says and nobody else has said. Answers a line for each key that is not empty.
fn apply_config_map(settings: &mut Settings, data: &BTreeMap<String, String>, given: &BTreeSet<String>) -> Vec<String> {
    let without = contradicting(settings, data, given);
    let mut lines = Vec::new();
    for (key, text) in data.iter().filter(|(_, text)| !text.is_empty()) {
        let line = match successor(key) {
            Some(row) if given.contains(row.name) => format!("{key} is ignored, as {} is given", row.name),
            Some(_) if without.contains_key(key.as_str()) => format!("{key} is ignored: {}", without[key.as_str()]),
            Some(row) => match (row.set)(settings, text) {
                Ok(()) => format!("{key} is taken: {} is {text}; set it, and delete the ConfigMap", row.name),
                Err((what, allowed)) => format!("{key} is ignored: {text:?} {what} (allowed: {allowed})"),
            },
            None if key == "aws.clusterName" && *text == settings.cluster_name => continue,
            None => format!("{key} has no effect: {}", instead(key)),
        };
        lines.push(format!("ConfigMap {NAME}: {line}"));
    }
    lines
}

/// The setting that a key became.
fn successor(key: &str) -> Option<&'static KnownSetting> {
    let (_, name) = KEYS.iter().find(|(old, _)| *old == key)?;
    TABLE.iter().find(|row| row.name == *name)
}

/// Keys whose values make no sense beside the other settings, and why. They are left out one by one until the rest does.
fn contradicting<'d>(
    settings: &Settings,
    data: &'d BTreeMap<String, String>,
    given: &BTreeSet<String>,
) -> BTreeMap<&'d str, String> {
    let mut without = BTreeMap::new();
    let after = |left_out: &dyn Fn(&str) -> bool| {
        let mut settings = settings.clone();
        for (key, text) in data.iter().filter(|(key, text)| !text.is_empty() && !left_out(key.as_str())) {
            if let Some(row) = successor(key).filter(|row| !given.contains(row.name)) {
                // An invalid value is ignored by itself.
                let _ = (row.set)(&mut settings, text);
            }
        }
        settings.contradictions()
    };
    loop {
        let wrong = after(&|key| without.contains_key(key));
        let Some(first) = wrong.first() else { return without };
        let better = |key: &&str| {
            let left = after(&|other| other == *key || without.contains_key(other));
            !without.contains_key(*key) && left.len() < wrong.len()
        };
        let Some(culprit) = data.keys().map(String::as_str).find(better) else { return without };
        without.insert(culprit, first.to_string());
    }
}

/// Words on the setting that takes the place of a key without a successor.
fn instead(key: &str) -> &'static str {
    match key {
        "aws.clusterName" => "the cluster's name is that of CLUSTER_NAME",
        "aws.enableENILimitedPodDensity" => "how many pods nodes take is spec.kubelet.maxPods of the EC2NodeClass",
        "aws.enablePodENI" => "pods' network interfaces are counted where nodes have them",
        "aws.tags" => "tags belong in spec.tags of the EC2NodeClass",
        "aws.assumeRoleARN" | "aws.assumeRoleDuration" => "the role is that of the service account or the instance",
        "featureGates.driftEnabled" => "drift is always detected",
        _ => "it is unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_else_says_is_taken_from_it_and_each_key_is_said() {
        let data: BTreeMap<String, String> = [
            ("aws.clusterName", "demo"),
            ("aws.defaultInstanceProfile", "nodes"),
            ("aws.interruptionQueueName", "queue"),
            ("aws.vmMemoryOverheadPercent", "much"),
            ("aws.tags", "{}"),
            ("batchMaxDuration", ""),
        ]
        .map(|(key, text)| (key.to_owned(), text.to_owned()))
        .into();
        let mut settings = Settings { cluster_name: "demo".into(), ..Settings::default() };
        let lines = apply_config_map(&mut settings, &data, &["INTERRUPTION_QUEUE".to_owned()].into());
        assert_eq!(settings.default_instance_profile, "nodes");
        assert_eq!(settings.interruption_queue, "");
        assert_eq!(settings.vm_memory_overhead, Settings::default().vm_memory_overhead);
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(
            lines[0].contains("aws.defaultInstanceProfile is taken: DEFAULT_INSTANCE_PROFILE is nodes"),
            "{lines:?}"
        );
        assert!(lines[1].contains("aws.interruptionQueueName is ignored, as INTERRUPTION_QUEUE is given"), "{lines:?}");
        assert!(lines[2].contains("aws.tags has no effect: tags belong in spec.tags"), "{lines:?}");
        assert!(lines[3].contains("aws.vmMemoryOverheadPercent is ignored: \"much\""), "{lines:?}");
    }
    fn taken(data: &[(&str, &str)], given: &[&str]) -> (Settings, Vec<String>) {
        let data = data.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        let given = given.iter().map(|name| (*name).to_owned()).collect();
        let mut settings = Settings::default();
        let lines = apply_config_map(&mut settings, &data, &given);
        (settings, lines)
    }

    #[test]
    fn every_key_became_a_setting_that_there_is() {
        for (key, name) in KEYS {
            assert!(successor(key).is_some(), "{key}: there is no setting {name}");
        }
    }

    #[test]
    fn global_settings_that_contradict_others_are_ignored() {
        let seconds = std::time::Duration::from_secs;
        let both = taken(&[("batchIdleDuration", "20s"), ("batchMaxDuration", "30s")], &[]);
        assert_eq!((both.0.batch_idle, both.0.batch_max), (seconds(20), seconds(30)), "{:?}", both.1);
        let default = Settings::default();
        let idle = taken(&[("batchIdleDuration", "20s"), ("aws.defaultInstanceProfile", "nodes")], &[]);
        assert_eq!(idle.0.batch_idle, default.batch_idle);
        assert_eq!(idle.0.default_instance_profile, "nodes", "the rest is taken");
        assert!(idle.1[1].contains("batchIdleDuration is ignored: BATCH_IDLE_DURATION: it is longer"), "{:?}", idle.1);
        let max = taken(&[("batchMaxDuration", "500ms")], &["BATCH_IDLE_DURATION"]);
        assert_eq!(max.0.batch_max, default.batch_max);
        assert!(max.1[0].contains("batchMaxDuration is ignored: BATCH_IDLE_DURATION"), "{:?}", max.1);
        let neither = taken(&[("batchIdleDuration", "20s"), ("batchMaxDuration", "5s")], &[]);
        assert!(neither.0.contradictions().is_empty() && neither.0.batch_max == seconds(5), "{:?}", neither.1);
    }
}
