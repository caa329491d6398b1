//! `SCHEDULER_CONFIG`: the part of kube-scheduler's configuration that decides where pods can be, as Karpenter reads it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use serde::Deserialize;

use super::parse::ValueRefusal;

const ALLOWED: &str = "YAML or JSON: {podTopologySpread: {defaultConstraints: [{maxSkew, topologyKey, whenUnsatisfiable, \
                       minDomains, nodeAffinityPolicy, nodeTaintsPolicy}]}}";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SchedulerConfig {
    #[serde(default)]
    pod_topology_spread: PodTopologySpread,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodTopologySpread {
    #[serde(default)]
    default_constraints: Vec<Constraint>,
}

/// A constraint as kube-scheduler's configuration takes it: the selector is deduced for each pod.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Constraint {
    max_skew: i32,
    topology_key: String,
    when_unsatisfiable: String,
    min_domains: Option<i32>,
    node_affinity_policy: Option<String>,
    node_taints_policy: Option<String>,
}

/// The default constraints, without selectors; none for an empty text.
///
/// # Errors
/// The text is no such configuration; names the constraint that is wrong.
pub fn scheduler_config(text: &str) -> Result<Vec<TopologySpreadConstraint>, ValueRefusal> {
    if text.trim().is_empty() {
        return Ok(vec![]);
    }
    let refuse = |what: String| (what, ALLOWED.to_owned());
    let config: SchedulerConfig = serde_saphyr::from_str(text).map_err(|error| {
        let message = error.to_string();
        refuse(message.lines().next().unwrap_or("it cannot be read").to_owned())
    })?;
    let mut seen = BTreeSet::new();
    let all = config.pod_topology_spread.default_constraints.into_iter().enumerate();
    all.map(|(at, one)| {
        let place = format!("podTopologySpread.defaultConstraints[{at}]");
        if let Some(wrong) = wrong_with(&one) {
            return Err(refuse(format!("{place}.{wrong}")));
        }
        if !seen.insert((one.topology_key.clone(), one.when_unsatisfiable.clone())) {
            return Err(refuse(format!("{place}: the same topologyKey and whenUnsatisfiable stand there twice")));
        }
        Ok(TopologySpreadConstraint {
            max_skew: one.max_skew,
            topology_key: one.topology_key,
            when_unsatisfiable: one.when_unsatisfiable,
            min_domains: one.min_domains,
            node_affinity_policy: one.node_affinity_policy,
            node_taints_policy: one.node_taints_policy,
            ..TopologySpreadConstraint::default()
        })
    })
    .collect()
}

/// The field that makes no sense, and why.
fn wrong_with(one: &Constraint) -> Option<String> {
    const POLICIES: [&str; 2] = ["Honor", "Ignore"];
    let policy = |name: &str, value: &Option<String>| {
        let unknown = value.as_deref().filter(|value| !POLICIES.contains(value));
        unknown.map(|value| format!("{name}: {value:?} is neither Honor nor Ignore"))
    };
    if one.max_skew <= 0 {
        return Some(format!("maxSkew: {} is not above zero", one.max_skew));
    }
    if !is_qualified(&one.topology_key) {
        return Some(format!("topologyKey: {:?} is no label's key", one.topology_key));
    }
    if !["DoNotSchedule", "ScheduleAnyway"].contains(&one.when_unsatisfiable.as_str()) {
        let what =
            format!("whenUnsatisfiable: {:?} is neither DoNotSchedule nor ScheduleAnyway", one.when_unsatisfiable);
        return Some(what);
    }
    if let Some(least) = one.min_domains.filter(|least| *least <= 0 || one.when_unsatisfiable != "DoNotSchedule") {
        return Some(format!("minDomains: {least}: it goes with DoNotSchedule only, and is above zero"));
    }
    policy("nodeAffinityPolicy", &one.node_affinity_policy)
        .or_else(|| policy("nodeTaintsPolicy", &one.node_taints_policy))
}

/// True if a text is the key of a label: a name of 63 characters at most, after a DNS name and a slash if any.
fn is_qualified(key: &str) -> bool {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let edge = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let good_name =
        name.len() <= 63 && edge(name) && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let good_prefix = |prefix: &str| {
        let label =
            |part: &str| edge(part) && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        prefix.len() <= 253 && prefix.split('.').all(label)
    };
    good_name && prefix.is_none_or(good_prefix)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn constraints_are_read_from_yaml_and_json() {
        let yaml = "podTopologySpread:\n  defaultConstraints:\n    - maxSkew: 3\n      topologyKey: topology.kubernetes.io/zone\n      \
                    whenUnsatisfiable: DoNotSchedule\n      minDomains: 2\n";
        let json = "{\"podTopologySpread\": {\"defaultConstraints\": [{\"maxSkew\": 3, \"minDomains\": 2, \
                    \"topologyKey\": \"topology.kubernetes.io/zone\", \"whenUnsatisfiable\": \"DoNotSchedule\"}]}}";
        for text in [yaml, json] {
            let all = scheduler_config(text).unwrap();
            assert_eq!((all.len(), all[0].max_skew, all[0].min_domains), (1, 3, Some(2)));
            assert_eq!(all[0].label_selector, None);
        }
        assert_eq!(scheduler_config("").unwrap(), []);
        assert_eq!(scheduler_config("podTopologySpread: {}").unwrap(), []);
    }

    #[test]
    fn what_makes_no_sense_is_named_by_its_place() {
        let one = |fields: &str| format!("podTopologySpread: {{defaultConstraints: [{{{fields}}}]}}");
        let good = "maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway";
        assert!(scheduler_config(&one(good)).is_ok());
        for (fields, message) in [
            (good.replace("maxSkew: 1", "maxSkew: 0"), "defaultConstraints[0].maxSkew: 0 is not above zero"),
            (good.replace("zone", "\"a zone\""), "topologyKey: \"a zone\" is no label's key"),
            (good.replace("zone", "Zones.x/zone"), "topologyKey"),
            (good.replace("ScheduleAnyway", "Maybe"), "neither DoNotSchedule nor ScheduleAnyway"),
            (format!("{good}, minDomains: 2"), "minDomains"),
            (format!("{good}, nodeTaintsPolicy: Respect"), "neither Honor nor Ignore"),
            (format!("{good}, labelSelector: {{}}"), "labelSelector"),
            (format!("{good}, matchLabelKeys: [a]"), "matchLabelKeys"),
            (format!("{good}}}, {{{good}"), "stand there twice"),
        ] {
            let (what, allowed) = scheduler_config(&one(&fields)).unwrap_err();
            assert!(what.contains(message) && !allowed.is_empty(), "{fields}: {what}");
        }
        assert!(scheduler_config("profiles: []").is_err());
        assert!(scheduler_config("[").is_err());
    }
}
