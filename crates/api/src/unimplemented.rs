//! Fields of a NodePool or an EC2NodeClass that the schema allows and that have no effect yet: said on the object, by the
//! condition [`NOT_IMPLEMENTED`](crate::names::conditions::NOT_IMPLEMENTED), and by `plan` as a warning. The object is used all
//! the same. Who brings the effect takes the entry out of here; tests/commands/effects.rs holds fields and entries together.

use crate::v1::{ConsolidationPolicy, EC2NodeClass, NodePool};

/// Fields of a pool without effect, each with what is so instead.
#[must_use]
pub fn of_pool(pool: &NodePool) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(of_static_pool(pool));
    all.extend(limits_of_nothing(pool));
    all
}

/// The reason that a static pool has no nodes while its feature gate is off.
pub const STATIC_GATE_OFF: &str = "spec.replicas has no effect while the feature gate StaticCapacity is off";

/// Fields of a static pool without effect. Values that the API server fills in by itself are not told from those of a user, and
/// left out.
#[must_use]
pub fn of_static_pool(pool: &NodePool) -> Vec<String> {
    let (mut all, disruption) = (Vec::new(), &pool.spec.disruption);
    if pool.spec.replicas.is_none() {
        return all;
    }
    if disruption.consolidate_after.get().is_some_and(|after| !after.is_zero()) {
        all.push("spec.disruption.consolidateAfter (nodes of a static pool are not consolidated)".to_owned());
    }
    if disruption.consolidation_policy != ConsolidationPolicy::default() {
        all.push("spec.disruption.consolidationPolicy (nodes of a static pool are not consolidated)".to_owned());
    }
    let idle = |reason: &String| ["Empty", "Underutilized"].contains(&reason.as_str());
    for (at, budget) in disruption.budgets.iter().enumerate() {
        if !budget.reasons.is_empty() && budget.reasons.iter().all(idle) {
            all.push(format!("spec.disruption.budgets[{at}] (nodes of a static pool go for no such reason)"));
        }
    }
    all
}

/// Limits of what no node has, such as `cpus`.
#[must_use]
pub fn limits_of_nothing(pool: &NodePool) -> Vec<String> {
    let limits = pool.spec.limits.iter().flat_map(|limits| limits.keys());
    let unknown = limits.filter(|name| !is_counted(name));
    unknown.map(|name| format!("spec.limits.{name} (no node has such a resource: it limits nothing)")).collect()
}

/// True if nodes may have a resource of that name: Kubernetes' own, or one of a domain, which devices have.
fn is_counted(name: &str) -> bool {
    let own = ["cpu", "memory", "ephemeral-storage", "pods", "nodes"];
    own.contains(&name) || name.starts_with("hugepages-") || name.contains('/')
}

/// Fields of a class without effect, each with what is so instead.
#[must_use]
pub fn of_class(class: &EC2NodeClass) -> Vec<String> {
    let mut all = Vec::new();
    if class.spec.kubelet.is_some() && class.spec.ami_family.as_deref() == Some("Custom") {
        all.push("spec.kubelet (images of family Custom do not get it; it only counts for capacity)".to_owned());
    }
    let own = class.spec.user_data.as_deref().unwrap_or_default();
    if own.contains("node.eks.aws") && own.contains("maxPods") {
        all.push("spec.userData with maxPods in a NodeConfig (the control plane's own comes last and says it: spec.kubelet.maxPods)".to_owned());
    }
    all.extend(set_by_user_data(own).map(|(word, field)| {
        format!("spec.userData with {word} (packing does not count it: nodes have less for pods than it plans with; {field} counts)")
    }));
    all
}

/// Words of user data that change what a node has for pods, each with the field that packing counts: Bottlerocket's TOML, the
/// kubelet's configuration in a NodeConfig, and its flags.
const OF_ALLOCATABLE: [(&str, &str); 10] = [
    ("eviction-hard", "spec.kubelet.evictionHard"),
    ("evictionHard", "spec.kubelet.evictionHard"),
    ("eviction-soft", "spec.kubelet.evictionSoft"),
    ("evictionSoft", "spec.kubelet.evictionSoft"),
    ("kube-reserved", "spec.kubelet.kubeReserved"),
    ("kubeReserved", "spec.kubelet.kubeReserved"),
    ("system-reserved", "spec.kubelet.systemReserved"),
    ("systemReserved", "spec.kubelet.systemReserved"),
    ("max-pods", "spec.kubelet.maxPods"),
    ("podsPerCore", "spec.kubelet.podsPerCore"),
];

/// Settings in user data that change what a node has for pods. A comment sets nothing.
fn set_by_user_data(text: &str) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
    let says = |word: &str| {
        let mut lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        lines.any(|line| {
            line.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '-')
                .any(|own| own.trim_start_matches('-') == word)
        })
    };
    OF_ALLOCATABLE.into_iter().filter(move |(word, _)| says(word))
}

/// All of them as one sentence; nothing where there are none.
#[must_use]
pub fn sentence(all: &[String]) -> Option<String> {
    (!all.is_empty()).then(|| format!("not implemented: {}", all.join("; ")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn pool(spec: Value) -> NodePool {
        let mut all = json!({"template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "d"}}}});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": all})).unwrap()
    }

    #[test]
    fn a_pool_that_consolidates_asks_for_nothing_that_is_not_there() {
        for disruption in [
            json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}),
            json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "Never"}),
            json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"}),
            json!({"consolidationPolicy": "Balanced", "budgets": [{"nodes": "1", "reasons": ["Underutilized"]}]}),
            json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m", "budgets": [{"nodes": "1", "reasons": ["Empty"]}]}),
        ] {
            assert_eq!(of_pool(&pool(json!({"disruption": disruption}))), [""; 0], "{disruption}");
        }
        assert_eq!(sentence(&[]), None);
    }

    #[test]
    fn user_data_that_changes_what_nodes_have_is_named() {
        let named = |text: &str| -> Vec<&str> { set_by_user_data(text).map(|(word, _)| word).collect() };
        assert_eq!(named("[settings.kubernetes.eviction-hard]\n\"memory.available\" = \"25%\""), ["eviction-hard"]);
        assert_eq!(named("spec:\n  kubelet:\n    config:\n      kubeReserved: {cpu: 1}"), ["kubeReserved"]);
        assert_eq!(
            named("/etc/eks/bootstrap.sh x --kubelet-extra-args '--system-reserved=cpu=1'"),
            ["system-reserved"]
        );
        assert_eq!(named("# max-pods = 5\n[settings.kubernetes]\nmax-pods = 20"), ["max-pods"]);
        assert_eq!(named("# kube-reserved is spec.kubelet's\n[settings.host-containers]\nx = 1"), [""; 0]);
    }

    #[test]
    fn a_limit_of_what_no_node_has_is_named() {
        let of = |limits: Value| {
            of_pool(&pool(
                json!({"limits": limits, "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m"}}),
            ))
        };
        assert_eq!(of(json!({"cpu": "9", "memory": "1Gi", "nodes": "3", "nvidia.com/gpu": "1"})), [""; 0]);
        assert_eq!(of(json!({"cpus": "9"})), ["spec.limits.cpus (no node has such a resource: it limits nothing)"]);
    }

    #[test]
    fn fields_that_mean_nothing_for_a_static_pool_are_named() {
        let budgets = json!([{"nodes": "0", "reasons": ["Empty", "Underutilized"]}, {"nodes": "1", "reasons": ["Drifted", "Empty"]}]);
        let asked = json!({"consolidateAfter": "1m", "consolidationPolicy": "WhenEmpty", "budgets": budgets});
        let named = of_pool(&pool(json!({"replicas": 2, "disruption": asked})));
        let fields: Vec<&str> = named.iter().filter_map(|one| one.split(' ').next()).collect();
        let wanted =
            ["spec.disruption.consolidateAfter", "spec.disruption.consolidationPolicy", "spec.disruption.budgets[0]"];
        assert_eq!(fields, wanted);
        assert_eq!(of_pool(&pool(json!({"disruption": asked}))), [""; 0]);
        let defaults = json!({"consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized"});
        assert_eq!(
            of_pool(&pool(json!({"replicas": 2, "disruption": defaults}))),
            [""; 0],
            "the API server fills them in"
        );
    }
}
