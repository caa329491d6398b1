//! A pod's requests container by container, so that those of some can be replaced.

use k8s_openapi::api::core::v1::PodSpec;

use super::from_kube::{Peak, PodError, amounts, container_requests, is_sidecar, requests_or_limits};
use crate::resources::Resources;

/// Requests that a pod's spec has, container by container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerSizes {
    /// Containers by name.
    running: Vec<(String, Resources)>,
    /// Init containers in their order; true for sidecars.
    starting: Vec<(bool, Resources)>,
    /// Requests of the pod itself, which stand above those of its containers.
    pod: Resources,
    overhead: Resources,
}

impl ContainerSizes {
    /// Reads a pod's spec.
    ///
    /// # Errors
    /// [`PodError`] for a quantity that makes no sense.
    pub fn from_spec(spec: &PodSpec) -> Result<Self, PodError> {
        let running = spec.containers.iter().map(|one| Ok((one.name.clone(), container_requests(one)?)));
        let starting = spec.init_containers.iter().flatten();
        let starting = starting.map(|one| Ok((is_sidecar(one), container_requests(one)?)));
        Ok(Self {
            running: running.collect::<Result<_, PodError>>()?,
            starting: starting.collect::<Result<_, PodError>>()?,
            pod: match &spec.resources {
                Some(resources) => requests_or_limits("spec.resources", resources)?,
                None => Resources::new(),
            },
            overhead: amounts("spec.overhead", spec.overhead.as_ref())?,
        })
    }

    /// The pod's effective requests if its containers ask for what `replaced` says of them, by name, and for what they ask for
    /// now where it says nothing of a resource. Init containers stay as they are.
    #[must_use]
    pub fn requests_with<'r>(&self, replaced: impl Fn(&str) -> Option<&'r Resources>) -> Resources {
        let mut peak = Peak::default();
        for (name, own) in &self.running {
            match replaced(name) {
                Some(other) => {
                    let mut own = own.clone();
                    other.iter().for_each(|(resource, amount)| own.set(resource, amount));
                    peak.run(&own);
                }
                None => peak.run(own),
            }
        }
        self.starting.iter().for_each(|(is_sidecar, own)| peak.start(own, *is_sidecar));
        let mut all = peak.amounts();
        self.pod.iter().for_each(|(resource, amount)| all.set(resource, amount));
        all.add(&self.overhead);
        all
    }
}
