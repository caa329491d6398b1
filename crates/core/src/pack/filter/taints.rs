//! Taints and tolerations.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::pod::covers;

const PREFER: &str = "PreferNoSchedule";

/// The first taint that keeps a pod away; those that only prefer do so unless `forgiving`.
pub(crate) fn untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration], forgiving: bool) -> Option<&'a Taint> {
    taints
        .iter()
        .filter(|taint| !(forgiving && taint.effect == PREFER))
        .find(|taint| !tolerations.iter().any(|toleration| covers(toleration, taint)))
}

pub(crate) fn any_preferring(taints: &[Taint]) -> bool {
    taints.iter().any(|taint| taint.effect == PREFER)
}

/// A toleration that can be compared and hashed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Tolerated {
    key: Option<String>,
    operator: Option<String>,
    value: Option<String>,
    effect: Option<String>,
}

impl Tolerated {
    /// A pod's tolerations, sorted.
    pub fn all(tolerations: &[Toleration]) -> Vec<Self> {
        let one = |one: &Toleration| Self {
            key: one.key.clone(),
            operator: one.operator.clone(),
            value: one.value.clone(),
            effect: one.effect.clone(),
        };
        let mut all: Vec<Self> = tolerations.iter().map(one).collect();
        all.sort_unstable();
        all
    }

    /// True if every taint that keeps pods away is tolerated.
    pub fn cover(all: &[Self], taints: &[Taint]) -> bool {
        let back = |one: &Self| Toleration {
            key: one.key.clone(),
            operator: one.operator.clone(),
            value: one.value.clone(),
            effect: one.effect.clone(),
            toleration_seconds: None,
        };
        taints.is_empty() || untolerated(taints, &all.iter().map(back).collect::<Vec<_>>(), true).is_none()
    }
}

/// Formats a taint as `key=value:Effect`.
pub(crate) fn describe(taint: &Taint) -> String {
    match taint.value.as_deref() {
        Some(value) if !value.is_empty() => format!("{}={value}:{}", taint.key, taint.effect),
        _ => format!("{}:{}", taint.key, taint.effect),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: &str) -> Taint {
        Taint { key: key.into(), value: Some(value.into()), effect: effect.into(), time_added: None }
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Toleration {
            key: some(key),
            operator: some(operator),
            value: some(value),
            effect: some(effect),
            toleration_seconds: None,
        }
    }

    #[test]
    fn toleration_matches_key_value_and_effect_where_it_names_them() {
        let gpu = taint("gpu", "yes", "NoSchedule");
        assert!(covers(&toleration("gpu", "", "yes", ""), &gpu));
        assert!(covers(&toleration("gpu", "Equal", "yes", "NoSchedule"), &gpu));
        assert!(covers(&toleration("gpu", "Exists", "", ""), &gpu));
        assert!(covers(&toleration("", "Exists", "", ""), &gpu));
        assert!(!covers(&toleration("gpu", "", "no", ""), &gpu));
        assert!(!covers(&toleration("gpu", "", "yes", "NoExecute"), &gpu));
        assert!(!covers(&toleration("", "", "", ""), &gpu));
    }

    #[test]
    fn a_preference_is_kept_until_it_is_forgiven() {
        let taints = [taint("slow", "", "PreferNoSchedule")];
        assert!(untolerated(&taints, &[], false).is_some());
        assert!(untolerated(&taints, &[], true).is_none());
    }
}
