//! The Node that an EKS node's kubelet and cloud controller make of an instance.

use std::collections::BTreeMap;

use dovetail_api::hash::{OFFSET, fnv_from};
use dovetail_api::names::taints::NOT_READY;
use dovetail_core::Resources;
use serde_json::{Value, json};

use super::machine::quantities;
use super::user_data::NodeConfig;
use crate::cluster::cache::Key;
use crate::cluster::context::ClusterContext;
use crate::cluster::controllers::volumes::EBS;
use crate::cluster::kind::Kind;
use crate::region::{Region, RegionInstance};

/// Labels in Kubernetes' own domains that a kubelet may give itself (NodeRestriction).
const ALLOWED: [&str; 13] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.k8s.aws/zone-id",
];

/// The Node as it registers: not ready, with the taints of its user data.
pub(super) fn object(
    ctx: &mut ClusterContext,
    region: &Region,
    instance: &RegionInstance,
    config: &NodeConfig,
    capacity: &Resources,
    allocatable: &Resources,
) -> Value {
    let mut taints: Vec<Value> = config.taints.iter().filter_map(|t| serde_json::to_value(t).ok()).collect();
    taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    let mut annotations = json!({
        "alpha.kubernetes.io/provided-node-ip": instance.private_ip.to_string(),
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    });
    if ctx.settings.csi_node_plugin {
        annotations["csi.volume.kubernetes.io/nodeid"] = json!(json!({EBS: instance.id}).to_string());
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": instance.hostname, "labels": labels(ctx, region, instance, config), "annotations": annotations},
        "spec": {"providerID": instance.provider_id(), "taints": taints},
        "status": {
            "capacity": quantities(capacity), "allocatable": quantities(allocatable),
            "addresses": [
                {"type": "InternalIP", "address": instance.private_ip.to_string()},
                {"type": "InternalDNS", "address": instance.hostname},
                {"type": "Hostname", "address": instance.hostname},
            ],
            "conditions": conditions(&ctx.now()),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": info(ctx, instance, config),
        },
    })
}

fn labels(
    ctx: &ClusterContext,
    region: &Region,
    instance: &RegionInstance,
    config: &NodeConfig,
) -> BTreeMap<String, String> {
    let arch = if instance.architecture == "arm64" { "arm64" } else { "amd64" };
    let os = if config.family.is_windows() { "windows" } else { "linux" };
    let name = &region.config().region;
    let mut labels: BTreeMap<String, String> =
        config.labels.iter().filter(|(key, _)| may_give(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let known = [
        ("beta.kubernetes.io/arch", arch),
        ("beta.kubernetes.io/instance-type", &instance.instance_type),
        ("beta.kubernetes.io/os", os),
        ("failure-domain.beta.kubernetes.io/region", name),
        ("failure-domain.beta.kubernetes.io/zone", &instance.zone),
        ("k8s.io/cloud-provider-aws", &provider_hash(region)),
        ("kubernetes.io/arch", arch),
        ("kubernetes.io/hostname", &instance.hostname),
        ("kubernetes.io/os", os),
        ("node.kubernetes.io/instance-type", &instance.instance_type),
        ("topology.kubernetes.io/region", name),
        ("topology.kubernetes.io/zone", &instance.zone),
        ("topology.k8s.aws/zone-id", &instance.zone_id),
    ];
    labels.extend(known.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    if ctx.settings.csi_node_plugin {
        labels.insert("topology.ebs.csi.aws.com/zone".into(), instance.zone.clone());
    }
    labels
}

/// The mark of the cloud controller: a hash of the cluster's tag, the same on all nodes.
fn provider_hash(region: &Region) -> String {
    let name = region.config().cluster_name.bytes();
    let sum = |seed: u64| fnv_from(seed, name.clone());
    format!("{:016x}{:016x}", sum(OFFSET), sum(0x9ae1_6a3b_2f90_404f))
}

/// True if NodeRestriction lets a kubelet give itself the label.
fn may_give(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let within = |suffix: &str| domain == suffix || domain.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'));
    let kubernetes = within("kubernetes.io") || within("k8s.io");
    !kubernetes || within("kubelet.kubernetes.io") || within("node.kubernetes.io") || ALLOWED.contains(&key)
}

fn conditions(now: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    json!([
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition(
            "Ready",
            "False",
            "KubeletNotReady",
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"
        ),
    ])
}

/// A machine's boot ID, which is another after each start.
pub(super) fn draw_boot_id(ctx: &mut ClusterContext) -> String {
    format!("{:08x}-0000-4000-8000-{:012x}", ctx.rng.u32(..), ctx.rng.u64(..) >> 16)
}

fn info(ctx: &mut ClusterContext, instance: &RegionInstance, config: &NodeConfig) -> Value {
    use dovetail_cloud::family::AmiFamily;
    let (image, kernel) = match config.family {
        AmiFamily::Al2 => ("Amazon Linux 2", "5.10.240-238.966.amzn2"),
        AmiFamily::Bottlerocket => ("Bottlerocket OS 1.49.0 (aws-k8s-1.33)", "6.12.46"),
        family if family.is_windows() => ("Windows Server 2022 Datacenter", "10.0.20348.4171"),
        _ => ("Amazon Linux 2023.9.20251014", "6.12.46-66.121.amzn2023"),
    };
    let arch = if instance.architecture == "arm64" { "arm64" } else { "amd64" };
    let machine_id = format!("ec2{:029x}", ctx.rng.u128(..) >> 12);
    let boot = draw_boot_id(ctx);
    json!({
        "architecture": arch, "bootID": boot, "containerRuntimeVersion": "containerd://2.1.4",
        "kernelVersion": format!("{kernel}.{}", instance.architecture), "kubeProxyVersion": "",
        "kubeletVersion": ctx.settings.kubernetes_version, "machineID": machine_id,
        "operatingSystem": if config.family.is_windows() { "windows" } else { "linux" },
        "osImage": image, "systemUUID": machine_id,
    })
}

/// Registers a node's EBS CSI plugin, with its limit of volumes.
pub(super) fn add_csi(ctx: &mut ClusterContext, node: &str, instance: &str, limit: u64) {
    let Some(object) = ctx.kube.get(Kind::Node, &Key::new("", node)) else { return };
    let csi = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {"name": node, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": node, "uid": object["metadata"]["uid"]}
        ]},
        "spec": {"drivers": [{
            "name": EBS, "nodeID": instance, "allocatable": {"count": limit},
            "topologyKeys": ["kubernetes.io/os", "topology.ebs.csi.aws.com/zone", "topology.kubernetes.io/zone"],
        }]},
    });
    // One of that name may be left of an earlier node.
    let _ = ctx.kube.create(Kind::CSINode, csi);
}

/// Its end, should the garbage collector not have seen to it.
pub(super) fn remove_csi(ctx: &mut ClusterContext, node: &str) {
    let key = Key::new("", node);
    if ctx.kube.get(Kind::CSINode, &key).is_some() {
        ctx.kube.delete(Kind::CSINode, &key, None);
    }
}
