//! Speeds of the cluster's parts. The defaults are a managed cluster's.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Delays and switches of the cluster's controllers, scheduler and kubelets. A range is drawn from by the seed.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// The cluster's name, as in the tags of its instances.
    pub cluster_name: String,
    pub kubernetes_version: String,
    /// From an instance's launch to its Node.
    pub join: RangeInclusive<Duration>,
    /// From a Node's registration to its being ready.
    pub node_ready: RangeInclusive<Duration>,
    /// From a pod's binding (on a ready Node) to its being ready.
    pub pod_ready: RangeInclusive<Duration>,
    /// From a pod's deletion to its end, never more than its grace period.
    pub pod_end: RangeInclusive<Duration>,
    /// Run time of a pod that ends by itself (of a Job), unless its annotation `sandbox.dovetail.dev/runs-for` names another.
    pub job_run: Duration,
    /// Time that kube-scheduler spends on one pod.
    pub scheduling_cost: Duration,
    /// Time for which a controller gathers changes before it writes a status again.
    pub status_window: Duration,
    /// From a claim's selected node to its volume.
    pub provision: RangeInclusive<Duration>,
    /// To attach a volume.
    pub attach: RangeInclusive<Duration>,
    /// To unmount and detach a volume.
    pub detach: RangeInclusive<Duration>,
    /// Time after which a volume is detached from a Node that does not answer.
    pub force_detach: Duration,
    /// Time after which a silent kubelet's Node is not ready (`--node-monitor-grace-period`).
    pub node_monitor_grace: Duration,
    /// Time between two looks of the cloud controller for instances of Nodes that are not ready.
    pub node_monitor_period: Duration,
    /// Time for which a Node must be gone before its pods are collected.
    pub pod_collection: Duration,
    /// The EBS CSI node plugin runs on every Node: its zone label and a CSINode are there.
    pub csi_node_plugin: bool,
    /// The system's DaemonSets (aws-node, kube-proxy) run, as on EKS.
    pub system_daemons: bool,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        let (s, ms) = (Duration::from_secs, Duration::from_millis);
        Self {
            cluster_name: "demo".into(),
            kubernetes_version: "v1.33.5-eks-113cf36".into(),
            join: s(20)..=s(60),
            node_ready: s(2)..=s(5),
            pod_ready: s(1)..=s(3),
            pod_end: ms(50)..=ms(300),
            job_run: s(30),
            scheduling_cost: ms(1) + Duration::from_micros(500),
            status_window: ms(100),
            provision: s(1)..=s(3),
            attach: s(2)..=s(4),
            detach: s(5)..=s(12),
            force_detach: s(360),
            node_monitor_grace: s(40),
            node_monitor_period: s(5),
            pod_collection: s(40),
            csi_node_plugin: true,
            system_daemons: false,
        }
    }
}
