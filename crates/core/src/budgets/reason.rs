//! Reasons for the removal of a NodeClaim, and the subset that budgets know.

use serde::Serialize;

/// The reason that a claim goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovalReason {
    /// No pod that would have to be moved is on it.
    Empty,
    /// It has reached its pool's `expireAfter`.
    Expired,
    /// It no longer matches its pool or class.
    Drifted,
    /// Its pods fit elsewhere, or on something cheaper.
    Underutilized,
    /// The cloud takes its instance away.
    Interrupted,
    /// Its instance is gone.
    GarbageCollected,
    /// Its Node has been unwell for too long.
    Unhealthy,
    /// Its static pool has more nodes than `spec.replicas`, or the request that it was launched for has come to nothing.
    Overprovisioned,
}

impl RemovalReason {
    /// The reasons that budgets know.
    pub const OF_BUDGETS: [Self; 4] = [Self::Underutilized, Self::Empty, Self::Drifted, Self::Unhealthy];

    /// Its name in metrics and logs (core spec 7.1, `nodeclaims_disrupted_total`).
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Expired => "expired",
            Self::Drifted => "drifted",
            Self::Underutilized => "underutilized",
            Self::Interrupted => "interrupted",
            Self::GarbageCollected => "garbage_collected",
            Self::Unhealthy => "unhealthy",
            Self::Overprovisioned => "overprovisioned",
        }
    }

    /// The reason of this name in budgets.
    #[must_use]
    pub fn from_budget_key(key: &str) -> Option<Self> {
        Self::OF_BUDGETS.into_iter().find(|reason| reason.budget_key() == Some(key))
    }

    /// Its name in budgets; `None` for reasons that budgets do not know.
    #[must_use]
    pub fn budget_key(self) -> Option<&'static str> {
        match self {
            Self::Empty => Some("Empty"),
            Self::Drifted => Some("Drifted"),
            Self::Underutilized => Some("Underutilized"),
            Self::Unhealthy => Some("Unhealthy"),
            Self::Expired | Self::Interrupted | Self::GarbageCollected | Self::Overprovisioned => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use dovetail_api::crds::crds;

    use super::*;

    #[test]
    fn crd_takes_the_reasons_that_budgets_know() {
        let pool = crds().into_iter().find(|crd| crd.spec.names.kind == "NodePool").unwrap();
        let version = pool.spec.versions.iter().find(|one| one.name == "v1").unwrap();
        let schema = serde_json::to_value(version.schema.as_ref().unwrap()).unwrap();
        let budget = "/openAPIV3Schema/properties/spec/properties/disruption/properties/budgets/items";
        let taken = schema.pointer(&format!("{budget}/properties/reasons/items/enum")).unwrap();
        let known: Vec<&str> = RemovalReason::OF_BUDGETS.into_iter().filter_map(RemovalReason::budget_key).collect();
        assert_eq!(*taken, serde_json::json!(known));
        assert!(known.iter().all(|key| RemovalReason::from_budget_key(key).unwrap().budget_key() == Some(key)));
        assert_eq!(RemovalReason::from_budget_key("Expired"), None);
    }
}
