//! Launches that ask for the same, so that one CreateFleet does for several. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::labels::RESERVED;
use dovetail_api::v1::EC2NodeClass;
use dovetail_core::Resources;
use k8s_openapi::api::core::v1::Taint;

use super::filters::{LaunchSelection, select};
use super::{LaunchRequest, LaunchedInstance, OfferingRefusal};
use crate::launch::LaunchError;

/// Resources that a launch template depends on: Elastic Fabric Adapters, and enclaves.
const OF_TEMPLATES: [&str; 2] = [super::plan::EFA, super::ENCLAVE];

/// Everything that CreateFleet is asked for a launch, but for its token.
#[derive(Debug, Clone)]
pub struct FleetKey {
    node_pool: String,
    node_class: Arc<EC2NodeClass>,
    selection: LaunchSelection,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    startup_taints: Vec<Taint>,
    min_values_relaxed: bool,
    asks_for: [bool; OF_TEMPLATES.len()],
}

impl FleetKey {
    /// The key of a launch that may be made together with equal ones. `None` for one that is made alone: into reserved capacity,
    /// whose instances are counted one by one, into a placement group, where each has its partition, and one that leaves nothing
    /// to choose from.
    #[must_use]
    pub fn from_request(request: &LaunchRequest) -> Option<Self> {
        let selection = select(request).ok().filter(|selection| selection.capacity_type != RESERVED)?;
        if request.node_class.spec.placement_group_selector.is_some() {
            return None;
        }
        let asks = |requests: &Resources| OF_TEMPLATES.map(|name| requests.get(name) > 0);
        Some(Self {
            node_pool: request.node_pool.clone(),
            node_class: Arc::clone(&request.node_class),
            selection,
            labels: request.labels.clone(),
            taints: request.taints.clone(),
            startup_taints: request.startup_taints.clone(),
            min_values_relaxed: request.min_values_relaxed,
            asks_for: asks(&request.requests),
        })
    }

    /// True if one CreateFleet does for both.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let (class, others) = (&self.node_class, &other.node_class);
        let same_class = Arc::ptr_eq(class, others)
            || (class.metadata.uid == others.metadata.uid
                && class.spec == others.spec
                && class.status == others.status);
        same_class
            && self.node_pool == other.node_pool
            && self.labels == other.labels
            && self.taints == other.taints
            && self.startup_taints == other.startup_taints
            && self.min_values_relaxed == other.min_values_relaxed
            && self.asks_for == other.asks_for
            && self.selection == other.selection
    }
}

/// The outcome of a CreateFleet for several instances.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LaunchedFleet {
    /// Those that were launched.
    pub instances: Vec<LaunchedInstance>,
    /// Offerings that EC2 refused.
    pub refusals: Vec<OfferingRefusal>,
    /// The reason that fewer were launched than asked for, if they are fewer.
    pub missing: Option<LaunchError>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use dovetail_api::names::labels::{CAPACITY_TYPE, ON_DEMAND};
    use dovetail_api::v1::{EC2NodeClassSpec, PlacementGroupSelector};
    use dovetail_core::NodeSelectorRequirement;

    use super::*;
    use crate::family::AmiFamily;
    use crate::resolve::{NodeClassView, ResolveSettings, instance_types};
    use crate::shipped;

    fn request(cpu: &str) -> LaunchRequest {
        let shipped = shipped::catalogue("us-east-1");
        let view = NodeClassView::in_zones(AmiFamily::Al2023, shipped.first_zones(3));
        let types = instance_types(&shipped, &view, &ResolveSettings::default()).into_iter();
        let class = Arc::new(EC2NodeClass::new("default", EC2NodeClassSpec::default()));
        let named = ["m5.large", "m5.xlarge"];
        LaunchRequest {
            requirements: vec![NodeSelectorRequirement::one_of(CAPACITY_TYPE, [ON_DEMAND])],
            requests: Resources::parse([("cpu", cpu)]).unwrap(),
            candidates: types.filter(|one| named.contains(&one.name.as_str())).map(Arc::new).collect(),
            ..LaunchRequest::new("token", "default", class)
        }
    }

    fn same(a: &LaunchRequest, b: &LaunchRequest) -> bool {
        FleetKey::from_request(a).unwrap().is_same(&FleetKey::from_request(b).unwrap())
    }

    #[test]
    fn launches_merge_that_ask_ec2_for_the_same() {
        let one = request("1");
        assert!(same(&one, &LaunchRequest { token: "another".into(), ..request("1") }));
        assert!(same(&one, &request("1200m")), "the same types hold both");
        assert!(!same(&one, &request("3")), "m5.large does not hold that");
        let others = [
            LaunchRequest { node_pool: "other".into(), ..request("1") },
            LaunchRequest { labels: [("team".to_owned(), "a".to_owned())].into(), ..request("1") },
            LaunchRequest { taints: vec![Taint::default()], ..request("1") },
            LaunchRequest { startup_taints: vec![Taint::default()], ..request("1") },
            LaunchRequest { min_values_relaxed: true, ..request("1") },
            LaunchRequest {
                node_class: Arc::new(EC2NodeClass::new(
                    "default",
                    EC2NodeClassSpec { context: Some("a".into()), ..EC2NodeClassSpec::default() },
                )),
                ..request("1")
            },
        ];
        for other in others {
            assert!(!same(&one, &other), "{other:?}");
        }
    }

    #[test]
    fn launch_without_choice_or_in_placement_group_goes_alone() {
        assert!(FleetKey::from_request(&request("500")).is_none());
        let group = Some(PlacementGroupSelector::default());
        let spec = EC2NodeClassSpec { placement_group_selector: group, ..EC2NodeClassSpec::default() };
        let grouped = LaunchRequest { node_class: Arc::new(EC2NodeClass::new("default", spec)), ..request("1") };
        assert!(FleetKey::from_request(&grouped).is_none());
    }
}
