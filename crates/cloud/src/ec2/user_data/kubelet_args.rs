//! The kubelet's command line, for images that are told by one.

use std::collections::BTreeMap;

use dovetail_api::v1::KubeletConfiguration;

use super::{Inputs, taint_text};

/// All arguments, each `--name=value`, in a fixed order.
pub(super) fn all(inputs: &Inputs<'_>, kubelet: &KubeletConfiguration) -> Vec<String> {
    let mut args = Vec::new();
    args.push(labels(inputs));
    let taints: Vec<String> = inputs.node_taints().iter().map(taint_text).collect();
    args.push(format!("--register-with-taints=\"{}\"", taints.join(",")));
    args.push(format!("--max-pods={}", inputs.max_pods));
    let mut number = |name: &str, value: Option<i64>| {
        if let Some(value) = value {
            args.push(format!("--{name}={value}"));
        }
    };
    number("pods-per-core", kubelet.pods_per_core);
    number("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period);
    number("image-gc-high-threshold", kubelet.image_gc_high_threshold_percent);
    number("image-gc-low-threshold", kubelet.image_gc_low_threshold_percent);
    let mut map = |name: &str, between: &str, values: &BTreeMap<String, String>| {
        if !values.is_empty() {
            let pairs: Vec<String> = values.iter().map(|(k, v)| format!("{k}{between}{v}")).collect();
            args.push(format!("--{name}=\"{}\"", pairs.join(",")));
        }
    };
    map("system-reserved", "=", &kubelet.system_reserved);
    map("kube-reserved", "=", &kubelet.kube_reserved);
    map("eviction-hard", "<", &kubelet.eviction_hard);
    map("eviction-soft", "<", &kubelet.eviction_soft);
    map("eviction-soft-grace-period", "=", &kubelet.eviction_soft_grace_period);
    if let Some(quota) = kubelet.cpu_cfs_quota {
        args.push(format!("--cpu-cfs-quota={quota}"));
    }
    args
}

/// `--node-labels="a=b,c=d"`, sorted by key.
pub(super) fn labels(inputs: &Inputs<'_>) -> String {
    let pairs: Vec<String> = inputs.node_labels().iter().map(|(k, v)| format!("{k}={v}")).collect();
    format!("--node-labels=\"{}\"", pairs.join(","))
}
