//! The part of a Pod that scheduling reads, as written.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::resources::{CPU, MEMORY, PODS, ResourceAmounts, ResourceColumns, WrittenQuantities};

/// The slim spec. Serialised, it is also the key by which equal pods find their class.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    pub scheduler_name: Option<String>,
    pub node_selector: Option<BTreeMap<String, String>>,
    pub affinity: Option<Affinity>,
    pub tolerations: Vec<Toleration>,
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    pub priority: Option<i32>,
    pub overhead: Option<WrittenQuantities>,
    pub resources: Option<ContainerResources>,
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub host_network: bool,
    pub volumes: Vec<SpecVolume>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_claims: Vec<Value>,
    pub scheduling_gates: Vec<Value>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub resources: ContainerResources,
    pub ports: Vec<Port>,
    pub restart_policy: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerResources {
    requests: WrittenQuantities,
    limits: WrittenQuantities,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Port {
    container_port: i64,
    host_port: i64,
    #[serde(rename = "hostIP")]
    host_ip: Option<String>,
    protocol: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SpecVolume {
    name: String,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<Value>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSource {
    claim_name: String,
}

/// A port of the node that a pod takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpecHostPort {
    ip: String,
    protocol: String,
    port: i64,
}

impl SpecHostPort {
    /// Same port and protocol, and the same address or either of them every address.
    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip == "0.0.0.0" || other.ip == "0.0.0.0")
    }
}

impl ContainerResources {
    /// A limit without a request is the request too (API defaulting).
    fn requests(&self) -> WrittenQuantities {
        let mut requests = self.limits.clone();
        requests.extend(self.requests.clone());
        requests
    }
}

impl PodSpec {
    /// Reads the spec of a Pod; an unreadable one counts as empty.
    pub(crate) fn from_pod(pod: &Value) -> Self {
        pod.get("spec").and_then(|spec| Self::deserialize(spec).ok()).unwrap_or_default()
    }

    /// Requests of the pod on a node: the larger of its containers with their sidecars and of each init container with the
    /// sidecars before it, plus overhead; pod-level requests replace the sum (KEP-753, KEP-2837).
    pub(crate) fn requests(&self, names: &mut ResourceColumns) -> ResourceAmounts {
        let mut total = self.sum(|c| names.parse_amounts(&c.resources.requests()));
        if let Some(level) = &self.resources {
            for (name, text) in level.requests() {
                let column = names.column(&name);
                total.set(column, crate::cluster::quantity::parse(&name, &text).unwrap_or(0));
            }
        }
        total.add(&names.parse_amounts(self.overhead.as_ref().unwrap_or(&WrittenQuantities::new())));
        total.set(PODS, 1);
        total
    }

    /// CPU and memory as scores count them: a container that asks for nothing counts as 100m and 200 MB
    /// (kube-scheduler's `GetNonzeroRequests`).
    pub(crate) fn nonzero_requests(&self, names: &mut ResourceColumns) -> [i64; 2] {
        let total = self.sum(|c| {
            let mut amounts = names.parse_amounts(&c.resources.requests());
            for (column, least) in [(CPU, 100), (MEMORY, 200 * 1024 * 1024)] {
                if amounts.get(column) == 0 {
                    amounts.set(column, least);
                }
            }
            amounts
        });
        [total.get(CPU), total.get(MEMORY)]
    }

    fn sum(&self, mut of: impl FnMut(&Container) -> ResourceAmounts) -> ResourceAmounts {
        let mut total = ResourceAmounts::default();
        self.containers.iter().for_each(|c| total.add(&of(c)));
        let (mut sidecars, mut peak) = (ResourceAmounts::default(), ResourceAmounts::default());
        for container in &self.init_containers {
            let mut now = of(container);
            if container.restart_policy.as_deref() == Some("Always") {
                total.add(&now);
                sidecars.add(&now);
                now = sidecars.clone();
            } else {
                now.add(&sidecars);
            }
            peak.raise_to(&now);
        }
        total.raise_to(&peak);
        total
    }

    pub(crate) fn host_ports(&self) -> Vec<SpecHostPort> {
        let ports = self.containers.iter().flat_map(|c| &c.ports);
        ports
            .map(|p| (p, if self.host_network && p.host_port == 0 { p.container_port } else { p.host_port }))
            .filter(|(_, port)| *port > 0)
            .map(|(p, port)| SpecHostPort {
                ip: p.host_ip.clone().filter(|ip| !ip.is_empty()).unwrap_or_else(|| "0.0.0.0".into()),
                protocol: p.protocol.clone().unwrap_or_else(|| "TCP".into()),
                port,
            })
            .collect()
    }

    /// The names of the claims that the pod mounts; a generic ephemeral volume's is made of both names.
    pub(crate) fn claims(&self, pod_name: &str) -> Vec<String> {
        let named = |v: &SpecVolume| match (&v.persistent_volume_claim, &v.ephemeral) {
            (Some(source), _) => Some(source.claim_name.clone()),
            (None, Some(_)) => Some(format!("{pod_name}-{}", v.name)),
            _ => None,
        };
        self.volumes.iter().filter_map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(value: Value) -> PodSpec {
        PodSpec::from_pod(&json!({ "spec": value }))
    }

    fn cpu(millis: i64) -> Value {
        json!({"resources": {"requests": {"cpu": format!("{millis}m")}}})
    }

    #[test]
    fn large_init_container_counts_with_sidecars_started_before_it() {
        let mut sidecar = cpu(200);
        sidecar["restartPolicy"] = json!("Always");
        let pod = spec(json!({"containers": [cpu(100)], "initContainers": [sidecar, cpu(1000)]}));
        assert_eq!(pod.requests(&mut ResourceColumns::new()).get(CPU), 1200);
    }

    #[test]
    fn sidecars_add_to_the_containers_and_overhead_to_all() {
        let mut sidecar = cpu(200);
        sidecar["restartPolicy"] = json!("Always");
        let pod = spec(json!({"containers": [cpu(100)], "initContainers": [sidecar], "overhead": {"cpu": "50m"}}));
        assert_eq!(pod.requests(&mut ResourceColumns::new()).get(CPU), 350);
    }

    #[test]
    fn a_limit_alone_is_the_request() {
        let pod = spec(json!({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}));
        assert_eq!(pod.requests(&mut ResourceColumns::new()).get(CPU), 2000);
    }

    #[test]
    fn host_ports_conflict_over_wildcard_only_for_the_same_protocol() {
        let port = |ip: &str, protocol: &str| SpecHostPort { ip: ip.into(), protocol: protocol.into(), port: 80 };
        assert!(port("0.0.0.0", "TCP").conflicts(&port("10.0.0.1", "TCP")));
        assert!(!port("0.0.0.0", "TCP").conflicts(&port("0.0.0.0", "UDP")));
        assert!(!port("10.0.0.2", "TCP").conflicts(&port("10.0.0.1", "TCP")));
    }
}
