//! A pod of the Kubernetes API to the pod that scheduling sees, with its effective requests.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod as KubePod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use thiserror::Error;

use super::{HostPort, NO_DEVICES, Pod, PodClaim};
use crate::quantity::QuantityError;
use crate::resources::{Resources, parse_amount};

/// The reason that a pod of the Kubernetes API cannot be packed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PodError {
    /// A quantity of a request, a limit or the overhead makes no sense.
    #[error("{place}: {resource}: {error}")]
    Quantity {
        /// The container, or the field of the spec.
        place: String,
        /// Name of the resource: `cpu`.
        resource: String,
        /// The fault in the quantity.
        error: QuantityError,
    },
}

impl Pod {
    /// Takes what scheduling needs out of a Kubernetes pod.
    ///
    /// # Errors
    /// [`PodError`] for a quantity that makes no sense.
    pub fn from_kube(pod: &KubePod) -> Result<Self, PodError> {
        let requests = pod.spec.as_ref().map(|spec| requests_on_node(pod, spec)).transpose()?.unwrap_or_default();
        Ok(Self { requests, ..Self::without_requests(pod) })
    }

    /// The pod without its requests.
    #[must_use]
    pub fn without_requests(pod: &KubePod) -> Self {
        let none = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&none);
        let meta = &pod.metadata;
        Self {
            name: meta.name.clone().unwrap_or_default(),
            namespace: meta.namespace.clone().unwrap_or_else(super::default_namespace),
            uid: meta.uid.clone().unwrap_or_default(),
            labels: meta.labels.clone().unwrap_or_default(),
            requests: Resources::new(),
            node_selector: spec.node_selector.clone().unwrap_or_default(),
            affinity: spec.affinity.clone(),
            topology_spread_constraints: spec.topology_spread_constraints.clone().unwrap_or_default(),
            tolerations: spec.tolerations.clone().unwrap_or_default(),
            priority: spec.priority.unwrap_or(0),
            // kube-scheduler counts the ports of sidecars too (Kubernetes 1.34, and 1.33 by a later patch).
            host_ports: spec
                .containers
                .iter()
                .chain(spec.init_containers.iter().flatten().filter(|one| is_sidecar(one)))
                .flat_map(host_ports)
                .collect(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            volume_topology: vec![],
            shared_volumes: BTreeMap::new(),
            blocked: unsupported(spec),
            to_come: false,
            relaxed: false,
            refused_nodes: Default::default(),
            refused_as_of: None,
            existing_only: false,
            devices: device_claims(pod, spec),
            off_spot: false,
            expendable_below: Default::default(),
        }
    }
}

/// The rule of a pod that packing does not know: the pod is never placed in breach of it.
fn unsupported(spec: &PodSpec) -> Option<String> {
    let claims = spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty());
    claims.then(|| NO_DEVICES.to_owned())
}

/// Claims for devices, by the names of their ResourceClaims. One for which the template makes none asks for nothing.
fn device_claims(pod: &KubePod, spec: &PodSpec) -> Vec<PodClaim> {
    let made = pod.status.as_ref().and_then(|status| status.resource_claim_statuses.as_deref()).unwrap_or_default();
    let each = spec.resource_claims.iter().flatten().filter_map(|one| {
        let (name, claim) = (one.name.clone(), one.resource_claim_name.clone());
        if claim.is_some() {
            return Some(PodClaim { name, claim });
        }
        match made.iter().find(|made| made.name == name) {
            Some(made) => made.resource_claim_name.clone().map(|claim| PodClaim { name, claim: Some(claim) }),
            None => Some(PodClaim { name, claim: None }),
        }
    });
    each.collect()
}

/// The resources that a pod takes from its node: the sum of its containers and sidecars, or the largest moment of its start
/// if that is more, plus its overhead; requests of the pod itself stand above those of its containers.
///
/// # Errors
/// [`PodError`] for a quantity that makes no sense.
pub fn effective_requests(spec: &PodSpec) -> Result<Resources, PodError> {
    effective(spec, container_requests)
}

/// Requests of a pod, given those of each container.
fn effective(
    spec: &PodSpec,
    of_container: impl Fn(&Container) -> Result<Resources, PodError>,
) -> Result<Resources, PodError> {
    let mut all = of_containers(spec, of_container)?;
    if let Some(resources) = &spec.resources {
        for (name, amount) in requests_or_limits("spec.resources", resources)?.iter() {
            all.set(name, amount);
        }
    }
    all.add(&amounts("spec.overhead", spec.overhead.as_ref())?);
    Ok(all)
}

/// The resources that a pod takes from its node while its containers are resized (Kubernetes 1.33): as kube-scheduler counts them,
/// of each container the larger of its request and what kubelet has given it. So one that shrinks holds its room until kubelet
/// has taken it back. A request that kubelet cannot meet on this node does not count.
fn requests_on_node(pod: &KubePod, spec: &PodSpec) -> Result<Resources, PodError> {
    let status = pod.status.as_ref().filter(|_| spec.node_name.as_ref().is_some_and(|node| !node.is_empty()));
    let own = status.into_iter().flat_map(|status| [&status.container_statuses, &status.init_container_statuses]);
    let given: BTreeMap<&str, Resources> =
        own.flatten().flatten().map(|one| (one.name.as_str(), given_to_container(one))).collect();
    let infeasible = status.is_some_and(|status| {
        let mut conditions = status.conditions.iter().flatten();
        conditions.any(|one| one.type_ == RESIZE_PENDING && one.reason.as_deref() == Some("Infeasible"))
    });
    effective(spec, |container| {
        let mut asked = container_requests(container)?;
        match given.get(container.name.as_str()).filter(|given| !given.is_empty()) {
            Some(given) if infeasible => Ok(given.clone()),
            Some(given) => {
                asked.max(given);
                Ok(asked)
            }
            None => Ok(asked),
        }
    })
}

/// Condition of a pod whose resize kubelet has put off or refused.
const RESIZE_PENDING: &str = "PodResizePending";

/// The requests that kubelet has set aside for a container, or runs it with, whichever is more. An amount that cannot be read
/// counts as nothing: the pod's own requests stand.
fn given_to_container(status: &ContainerStatus) -> Resources {
    let allocated = status.allocated_resources.as_ref();
    let mut given = amounts("", allocated).unwrap_or_default();
    let running = status.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    given.max(&amounts("", running).unwrap_or_default());
    given
}

/// The most that a pod may take, as a ResourceQuota counts it: limits of its containers, those of the pod itself above them,
/// plus its overhead for resources with a limit.
///
/// # Errors
/// [`PodError`] for a quantity that makes no sense.
pub fn effective_limits(spec: &PodSpec) -> Result<Resources, PodError> {
    let mut all = limits_of_containers(spec)?;
    if let Some(resources) = &spec.resources {
        for (name, amount) in amounts("spec.resources", resources.limits.as_ref())?.iter() {
            all.set(name, amount);
        }
    }
    for (name, amount) in amounts("spec.overhead", spec.overhead.as_ref())?.iter() {
        if let Some(limit) = all.find(name) {
            all.set(name, limit.saturating_add(amount));
        }
    }
    Ok(all)
}

/// Requests of a pod's containers: of those that run together, or the largest moment of the start.
///
/// # Errors
/// [`PodError`] for a quantity that makes no sense.
pub fn requests_of_containers(spec: &PodSpec) -> Result<Resources, PodError> {
    of_containers(spec, container_requests)
}

/// Limits of a pod's containers: of those that run together, or the largest moment of the start.
///
/// # Errors
/// [`PodError`] for a quantity that makes no sense.
pub fn limits_of_containers(spec: &PodSpec) -> Result<Resources, PodError> {
    of_containers(spec, |container| match &container.resources {
        Some(resources) => amounts(&format!("container {}", container.name), resources.limits.as_ref()),
        None => Ok(Resources::new()),
    })
}

fn of_containers(
    spec: &PodSpec,
    amounts: impl Fn(&Container) -> Result<Resources, PodError>,
) -> Result<Resources, PodError> {
    let mut peak = Peak::default();
    for container in &spec.containers {
        peak.run(&amounts(container)?);
    }
    for container in spec.init_containers.iter().flatten() {
        peak.start(&amounts(container)?, is_sidecar(container));
    }
    Ok(peak.amounts())
}

/// The most that a pod's containers take at any moment. Init containers start one after the other; one that restarts always is a
/// sidecar and stays.
#[derive(Default)]
pub(super) struct Peak {
    running: Resources,
    sidecars: Resources,
    starting: Resources,
}

impl Peak {
    /// Adds a container that runs beside the others.
    pub(super) fn run(&mut self, own: &Resources) {
        self.running.add(own);
    }

    /// Adds the next init container.
    pub(super) fn start(&mut self, own: &Resources, is_sidecar: bool) {
        if is_sidecar {
            self.sidecars.add(own);
            self.starting.max(&self.sidecars);
        } else {
            let mut moment = self.sidecars.clone();
            moment.add(own);
            self.starting.max(&moment);
        }
    }

    pub(super) fn amounts(mut self) -> Resources {
        self.running.add(&self.sidecars);
        self.running.max(&self.starting);
        self.running
    }
}

/// True if an init container keeps running beside the others.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

pub(super) fn container_requests(container: &Container) -> Result<Resources, PodError> {
    match &container.resources {
        Some(resources) => requests_or_limits(&format!("container {}", container.name), resources),
        None => Ok(Resources::new()),
    }
}

/// Requests; a resource with only a limit requests that, as the API server's defaulting has it.
pub(super) fn requests_or_limits(place: &str, resources: &ResourceRequirements) -> Result<Resources, PodError> {
    let mut requests = amounts(place, resources.requests.as_ref())?;
    for (name, amount) in amounts(place, resources.limits.as_ref())?.iter() {
        if requests.find(name).is_none() {
            requests.set(name, amount);
        }
    }
    Ok(requests)
}

pub(super) fn amounts(place: &str, quantities: Option<&BTreeMap<String, Quantity>>) -> Result<Resources, PodError> {
    let read = |(name, quantity): (&String, &Quantity)| match parse_amount(name, &quantity.0) {
        Ok(amount) => Ok((name.clone(), amount)),
        Err(error) => Err(PodError::Quantity { place: place.to_owned(), resource: name.clone(), error }),
    };
    quantities.into_iter().flatten().map(read).collect()
}

fn host_ports(container: &Container) -> impl Iterator<Item = HostPort> + '_ {
    container.ports.iter().flatten().filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        Some(HostPort {
            port: number,
            protocol: port.protocol.clone().unwrap_or_else(super::default_protocol),
            ip: port.host_ip.clone().unwrap_or_default(),
        })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn requests(spec: serde_json::Value) -> String {
        effective_requests(&serde_json::from_value(spec).unwrap()).unwrap().to_string()
    }

    #[test]
    fn init_container_peak_includes_sidecars_already_running() {
        let told = requests(serde_json::json!({
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
            "initContainers": [
                {"name": "early", "resources": {"requests": {"cpu": "2"}}},
                {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
                {"name": "late", "resources": {"requests": {"cpu": "2", "memory": "100Mi"}}},
            ],
            "overhead": {"cpu": "10m"},
        }));
        assert_eq!(told, "cpu: 2510m, memory: 1Gi");
    }

    #[test]
    fn a_pod_with_resource_claims_is_never_placed_as_if_it_had_none() {
        let pod = |spec: serde_json::Value| {
            let pod = serde_json::json!({"metadata": {"name": "a"}, "spec": spec});
            Pod::from_kube(&serde_json::from_value(pod).unwrap()).unwrap()
        };
        let containers = serde_json::json!([{"name": "app"}]);
        let asks = pod(serde_json::json!({"containers": containers, "resourceClaims": [{"name": "gpu"}]}));
        assert_eq!(asks.blocked.unwrap(), "dynamic resource allocation (spec.resourceClaims) is not supported yet");
        assert_eq!(pod(serde_json::json!({"containers": containers})).blocked, None);
    }

    #[test]
    fn requests_of_the_pod_stand_above_those_of_its_containers() {
        let told = requests(serde_json::json!({
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}],
            "resources": {"requests": {"cpu": "3"}},
        }));
        assert_eq!(told, "cpu: 3, nvidia.com/gpu: 1");
    }

    #[test]
    fn a_limit_without_a_request_is_requested() {
        let told = requests(serde_json::json!({
            "containers": [{"name": "app", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
        }));
        assert_eq!(told, "nvidia.com/gpu: 2");
    }

    /// Requests of a pod of one container of `asked` CPUs, with that status.
    fn resized(asked: &str, node: &str, status: serde_json::Value) -> String {
        let containers =
            serde_json::json!([{"name": "app", "resources": {"requests": {"cpu": asked, "memory": "1Gi"}}}]);
        let pod = serde_json::json!({"metadata": {"name": "a"}, "spec": {"nodeName": node, "containers": containers}, "status": status});
        Pod::from_kube(&serde_json::from_value(pod).unwrap()).unwrap().requests.to_string()
    }

    /// A container that kubelet has given `allocated` CPUs and runs with `running`.
    fn given(allocated: &str, running: &str) -> serde_json::Value {
        serde_json::json!({"name": "app", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "allocatedResources": {"cpu": allocated, "memory": "1Gi"},
            "resources": {"requests": {"cpu": running, "memory": "1Gi"}}})
    }

    /// A resize under way, as kube-scheduler counts it: what a node has given a container holds its room until kubelet has taken it
    /// back, and what it can never give does not count.
    #[test]
    fn resized_pod_counts_as_the_most_that_it_asks_for_or_has() {
        let pending =
            |reason: &str| serde_json::json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
        let (none, running) =
            (serde_json::json!([]), serde_json::json!([{"type": "PodResizeInProgress", "status": "True"}]));
        for (asked, allocated, actual, conditions, expected, why) in [
            ("1", "4", "4", &none, "4", "kubelet has not seen it"),
            ("1", "1", "4", &running, "4", "the container still has it"),
            ("1", "1", "1", &none, "1", "it is over"),
            ("4", "1", "1", &none, "4", "one that grows has its room at once"),
            ("4", "4", "1", &running, "4", "it is growing"),
            ("9", "2", "2", &pending("Deferred"), "9", "it waits for room"),
            ("1", "2", "2", &pending("Deferred"), "2", "a deferred one is never smaller"),
            ("9", "2", "2", &pending("Infeasible"), "2", "it never gets that here"),
            ("1", "2", "2", &pending("Infeasible"), "2", "an infeasible one is never smaller"),
            ("9", "2", "3", &pending("Infeasible"), "3", "it runs with more than is allocated"),
            ("1", "lots", "lots", &none, "1", "nothing that can be read"),
        ] {
            let status = serde_json::json!({"containerStatuses": [given(allocated, actual)], "conditions": conditions});
            assert_eq!(resized(asked, "n", status.clone()), format!("cpu: {expected}, memory: 1Gi"), "{why}");
            assert_eq!(resized(asked, "", status), format!("cpu: {asked}, memory: 1Gi"), "on no node: {why}");
        }
        assert_eq!(resized("1", "n", serde_json::json!({})), "cpu: 1, memory: 1Gi", "it was never resized");
    }

    #[test]
    fn resized_sidecar_counts_in_the_start_and_beside_the_others() {
        let requests = |cpu: &str| serde_json::json!({"requests": {"cpu": cpu}});
        let proxy = serde_json::json!({"name": "proxy", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "allocatedResources": {"cpu": "3"}, "resources": requests("3")});
        for (start, expected) in [("1", "4"), ("5", "8")] {
            let spec = serde_json::json!({"nodeName": "n",
                "containers": [{"name": "app", "resources": requests("1")}],
                "initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": requests("1")},
                    {"name": "start", "resources": requests(start)}]});
            let pod = serde_json::json!({"metadata": {"name": "a"}, "spec": spec, "status": {"initContainerStatuses": [proxy]}});
            let pod = Pod::from_kube(&serde_json::from_value(pod).unwrap()).unwrap();
            assert_eq!(pod.requests.to_string(), format!("cpu: {expected}"));
        }
    }

    #[test]
    fn a_bad_quantity_names_its_container() {
        let spec: PodSpec = serde_json::from_value(serde_json::json!({
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "lots"}}}],
        }))
        .unwrap();
        let error = effective_requests(&spec).unwrap_err().to_string();
        assert!(error.starts_with("container app: cpu: bad quantity"), "{error}");
    }
}
