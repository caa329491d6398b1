//! Taints that Karpenter sets, and those it knows to pass.

use k8s_openapi::api::core::v1::Taint;

/// Key of the taint on a node that is being disrupted, effect NoSchedule.
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// The v1beta1 name of [`DISRUPTED`]: nodes of an earlier Karpenter may have it, and pods may tolerate it.
pub const DISRUPTION: &str = "karpenter.sh/disruption";
/// Key of the taint on a node that has not registered, effect NoExecute.
pub const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// Key of the taint on a node whose instance is rebooted as a repair, effect NoSchedule.
pub const REBOOTING: &str = "karpenter.sh/rebooting";
/// Set by the node controller.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Set by the node controller.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Set by a kubelet that waits for its cloud provider.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Set by `kubectl cordon`.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Prefix of readiness gates on nodes.
pub const READINESS_PREFIX: &str = "readiness.k8s.io/";

/// Effect.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Effect.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// Effect.
pub const NO_EXECUTE: &str = "NoExecute";
/// The three effects.
pub const EFFECTS: [&str; 3] = [NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE];

/// The taint of a node that is being disrupted.
pub fn disrupted() -> Taint {
    Taint { key: DISRUPTED.into(), effect: NO_SCHEDULE.into(), ..Taint::default() }
}

/// The taint of a node that is being disrupted, as v1beta1 wrote it.
pub fn disruption() -> Taint {
    Taint { key: DISRUPTION.into(), value: Some("disrupting".into()), effect: NO_SCHEDULE.into(), ..Taint::default() }
}

/// The taint of a node whose instance is rebooted.
pub fn rebooting() -> Taint {
    Taint { key: REBOOTING.into(), effect: NO_SCHEDULE.into(), ..Taint::default() }
}

/// True if a taint of that key says that its node is being disrupted, whichever version wrote it.
pub fn is_of_disruption(key: &str) -> bool {
    key == DISRUPTED || key == DISRUPTION
}

/// The taint of a node that has not registered.
pub fn unregistered() -> Taint {
    Taint { key: UNREGISTERED.into(), effect: NO_EXECUTE.into(), ..Taint::default() }
}

/// True if a taint passes by itself: ignored until the node is initialized, and blocking that (core spec 2).
pub fn is_ephemeral(key: &str, effect: &str) -> bool {
    matches!(
        (key, effect),
        (NOT_READY, NO_SCHEDULE | NO_EXECUTE)
            | (UNREACHABLE, NO_SCHEDULE)
            | (UNINITIALIZED, NO_SCHEDULE)
            | (UNREGISTERED, NO_EXECUTE)
            | (REBOOTING, NO_SCHEDULE)
    ) || key.starts_with(READINESS_PREFIX)
}
