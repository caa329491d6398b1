//! Bottlerocket: settings in TOML. The user's stay where ours say nothing.

use std::collections::BTreeMap;

use dovetail_api::v1::KubeletConfiguration;
use toml::{Table, Value};

use super::{Inputs, UserDataError};

pub(super) fn render(inputs: &Inputs<'_>, kubelet: &KubeletConfiguration) -> Result<String, UserDataError> {
    let own = inputs.class.user_data.as_deref().unwrap_or_default();
    let mut document: Table = own.parse().map_err(|e: toml::de::Error| UserDataError::Custom(e.to_string()))?;
    let settings = table(&mut document, "settings")?;
    kubernetes(table(settings, "kubernetes")?, inputs, kubelet)?;
    if inputs.raid0() {
        let commands = table(settings, "bootstrap-commands")?;
        commands.insert("000-mount-instance-storage".into(), mount_instance_storage(inputs.image_version));
    }
    Ok(document.to_string())
}

fn kubernetes(settings: &mut Table, inputs: &Inputs<'_>, kubelet: &KubeletConfiguration) -> Result<(), UserDataError> {
    let cluster = inputs.cluster;
    settings.insert("cluster-name".into(), cluster.name.clone().into());
    settings.insert("api-server".into(), cluster.endpoint.clone().into());
    settings.insert("cluster-certificate".into(), cluster.certificate_authority.clone().into());
    settings.insert("max-pods".into(), Value::Integer(inputs.max_pods));
    if let Some(dns) = inputs.dns(kubelet).first() {
        settings.insert("cluster-dns-ip".into(), (*dns).into());
    }
    for (key, value) in inputs.node_labels() {
        table(settings, "node-labels")?.insert(key.to_owned(), value.into());
    }
    settings.insert("node-taints".into(), taints(inputs));
    for (name, values) in [
        ("system-reserved", &kubelet.system_reserved),
        ("kube-reserved", &kubelet.kube_reserved),
        ("eviction-hard", &kubelet.eviction_hard),
        ("eviction-soft", &kubelet.eviction_soft),
        ("eviction-soft-grace-period", &kubelet.eviction_soft_grace_period),
    ] {
        if !values.is_empty() {
            settings.insert(name.into(), strings(values));
        }
    }
    if let Some(seconds) = kubelet.eviction_max_pod_grace_period {
        settings.insert("eviction-max-pod-grace-period".into(), Value::Integer(seconds));
    }
    for (name, percent) in [
        ("image-gc-high-threshold-percent", kubelet.image_gc_high_threshold_percent),
        ("image-gc-low-threshold-percent", kubelet.image_gc_low_threshold_percent),
    ] {
        if let Some(percent) = percent {
            settings.insert(name.into(), percent.to_string().into());
        }
    }
    if let Some(quota) = kubelet.cpu_cfs_quota {
        settings.insert("cpu-cfs-quota-enforced".into(), quota.into());
    }
    Ok(())
}

/// By key the list of `value:Effect`.
fn taints(inputs: &Inputs<'_>) -> Value {
    let mut by_key: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for taint in inputs.node_taints() {
        let text = format!("{}:{}", taint.value.unwrap_or_default(), taint.effect);
        by_key.entry(taint.key).or_default().push(text.into());
    }
    Value::Table(by_key.into_iter().map(|(key, all)| (key, Value::Array(all))).collect())
}

fn strings(values: &BTreeMap<String, String>) -> Value {
    Value::Table(values.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect())
}

/// Puts pods' storage on the host's disks; before 1.46 the directories have to be named.
fn mount_instance_storage(version: Option<&str>) -> Value {
    let command = |words: &[&str]| Value::Array(words.iter().map(|w| Value::from(*w)).collect());
    let mut bind = vec!["apiclient", "ephemeral-storage", "bind"];
    if version.and_then(minor_of).is_none_or(|v| v < (1, 46)) {
        bind.extend(["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]);
    }
    let commands = vec![command(&["apiclient", "ephemeral-storage", "init"]), command(&bind)];
    let mut step = Table::new();
    step.insert("commands".into(), Value::Array(commands));
    step.insert("mode".into(), "always".into());
    step.insert("essential".into(), true.into());
    Value::Table(step)
}

fn minor_of(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim_start_matches('v').split('.').map(|n| n.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

fn table<'a>(parent: &'a mut Table, key: &str) -> Result<&'a mut Table, UserDataError> {
    match parent.entry(key).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(table) => Ok(table),
        other => Err(UserDataError::Custom(format!("{key} is a {}, not a table", other.type_str()))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::family::AmiFamily;
    use crate::user_data::plain;
    use crate::user_data::tests::fixture;

    fn rendered(class: serde_json::Value) -> Table {
        plain(&fixture(class).inputs(AmiFamily::Bottlerocket)).unwrap().parse().unwrap()
    }

    #[test]
    fn our_settings_win_and_the_users_others_stay() {
        let own = "[settings.host-containers.admin]\nenabled = true\n[settings.kubernetes]\nmax-pods = 5\n\
                   [settings.kubernetes.node-labels]\nmine = \"yes\"\nteam = \"red\"\n";
        let document = rendered(json!({"userData": own}));
        let settings = &document["settings"];
        assert_eq!(settings["host-containers"]["admin"]["enabled"].as_bool(), Some(true));
        let kubernetes = &settings["kubernetes"];
        assert_eq!(kubernetes["max-pods"].as_integer(), Some(29));
        assert_eq!(kubernetes["node-labels"]["mine"].as_str(), Some("yes"));
        assert_eq!(kubernetes["node-labels"]["team"].as_str(), Some("blue"));
        assert_eq!(kubernetes["node-taints"]["dedicated"][0].as_str(), Some("gpu:NoSchedule"));
        assert_eq!(kubernetes["node-taints"]["karpenter.sh/unregistered"][0].as_str(), Some(":NoExecute"));
        assert_eq!(kubernetes["cluster-dns-ip"].as_str(), Some("10.100.0.10"));
    }

    #[test]
    fn percentages_are_strings_as_bottlerocket_wants_them() {
        let document = rendered(json!({"kubelet": {"imageGCHighThresholdPercent": 85, "cpuCFSQuota": false}}));
        let kubernetes = &document["settings"]["kubernetes"];
        assert_eq!(kubernetes["image-gc-high-threshold-percent"].as_str(), Some("85"));
        assert_eq!(kubernetes["cpu-cfs-quota-enforced"].as_bool(), Some(false));
    }

    #[test]
    fn instance_storage_names_its_directories_only_before_1_46() {
        let words = |version| mount_instance_storage(version)["commands"][1].as_array().map(Vec::len);
        assert_eq!((words(None), words(Some("v1.45.2")), words(Some("1.46.0"))), (Some(7), Some(7), Some(3)));
    }

    #[test]
    fn what_is_no_toml_is_an_error_of_the_users_data() {
        let class = fixture(json!({"userData": "#!/bin/bash\necho"}));
        let error = plain(&class.inputs(AmiFamily::Bottlerocket)).unwrap_err();
        assert!(error.to_string().starts_with("spec.userData: "), "{error}");
    }
}
