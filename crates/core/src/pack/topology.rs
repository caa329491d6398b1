//! Rules between pods. Hard ones are not packed yet: a pod that has one is left over and says so.

use k8s_openapi::api::core::v1::{Affinity, TopologySpreadConstraint};

use crate::pod::Pod;
use crate::problem::Problem;

/// The first rule of a pod that packing would have to keep and cannot.
pub(crate) fn unsupported(pod: &Pod) -> Option<String> {
    if pod.topology_spread_constraints.iter().any(is_hard) {
        return Some("topology spread with whenUnsatisfiable DoNotSchedule".to_owned());
    }
    let affinity = pod.affinity.as_ref()?;
    if requires_company(affinity) {
        return Some("required pod affinity".to_owned());
    }
    if requires_distance(affinity) {
        return Some("required pod anti-affinity".to_owned());
    }
    if !pod.host_ports.is_empty() {
        return Some("a host port".to_owned());
    }
    None
}

/// Whether any rule looks at other pods' labels.
pub(crate) fn labels_matter(problem: &Problem) -> bool {
    let selects = |pod: &Pod| {
        !pod.topology_spread_constraints.is_empty()
            || pod
                .affinity
                .as_ref()
                .is_some_and(|affinity| affinity.pod_affinity.is_some() || affinity.pod_anti_affinity.is_some())
    };
    problem.pods.iter().any(selects) || problem.existing_nodes.iter().any(|node| node.pods.iter().any(selects))
}

fn is_hard(spread: &TopologySpreadConstraint) -> bool {
    spread.when_unsatisfiable != "ScheduleAnyway"
}

fn requires_company(affinity: &Affinity) -> bool {
    let terms = affinity.pod_affinity.as_ref();
    let terms = terms.and_then(|terms| terms.required_during_scheduling_ignored_during_execution.as_ref());
    terms.is_some_and(|terms| !terms.is_empty())
}

fn requires_distance(affinity: &Affinity) -> bool {
    let terms = affinity.pod_anti_affinity.as_ref();
    let terms = terms.and_then(|terms| terms.required_during_scheduling_ignored_during_execution.as_ref());
    terms.is_some_and(|terms| !terms.is_empty())
}
