//! The meaning of single rules of a pod, by the Kubernetes documentation. Packing has the same meaning from here.

use k8s_openapi::api::core::v1::{Taint, Toleration, TopologySpreadConstraint};

/// True if a toleration covers a taint, as the Kubernetes documentation has it.
pub(crate) fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or("");
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    let key = toleration.key.as_deref().unwrap_or("");
    let exists = toleration.operator.as_deref() == Some("Exists");
    if key.is_empty() {
        return exists;
    }
    key == taint.key && (exists || toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or(""))
}

/// True if a spread constraint may be broken.
pub(crate) fn is_soft(spread: &TopologySpreadConstraint) -> bool {
    spread.when_unsatisfiable == "ScheduleAnyway"
}
