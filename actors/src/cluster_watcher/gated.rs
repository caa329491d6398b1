//! Kinds behind feature gates, whose CRDs may not be installed. The cluster counts as known only when those are whose gates are
//! open: a plan without them would be another one.

use dovetail_api::autoscaling::{CapacityQuota, CapacityQuotaAlpha, VERSIONS};
use dovetail_api::overlays::{API_VERSION, KIND, NodeOverlay};
use dovetail_api::vertical::{API_VERSION as VERTICAL_VERSION, VerticalPodAutoscaler};

use super::devices::is_of_devices;
use super::pod_groups::is_of_groups;
use crate::kube::served::OptionalKind;

/// True if this is the resource of a kind behind a feature gate.
pub(super) fn is_gated(resource: &str) -> bool {
    let other = is_of_devices(resource) || is_of_groups(resource);
    other || [NodeOverlay::RESOURCE, CapacityQuota::RESOURCE, VerticalPodAutoscaler::RESOURCE].contains(&resource)
}

impl OptionalKind for NodeOverlay {
    type Older = Self;

    const KIND: &'static str = KIND;
    const RESOURCE: &'static str = "nodeoverlays";
    const VERSIONS: &'static [&'static str] = &[API_VERSION];
}

impl OptionalKind for CapacityQuota {
    type Older = CapacityQuotaAlpha;

    const KIND: &'static str = "CapacityQuota";
    const RESOURCE: &'static str = "capacityquotas";
    const VERSIONS: &'static [&'static str] = &VERSIONS;
}

impl OptionalKind for VerticalPodAutoscaler {
    type Older = Self;

    const KIND: &'static str = "VerticalPodAutoscaler";
    const RESOURCE: &'static str = "verticalpodautoscalers";
    const VERSIONS: &'static [&'static str] = &[VERTICAL_VERSION];
}
