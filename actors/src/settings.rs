//! Settings by the names that Karpenter gives them (core spec 6, aws spec 9), and the few of our own.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;

use dovetail_api::v1::parse_go_duration;
use dovetail_core::{Policy, PreferencePolicy};
use serde::Serialize;
use thiserror::Error;

/// How the control plane is to behave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// `CLUSTER_NAME`.
    pub cluster_name: String,
    /// `CLUSTER_ENDPOINT`; empty: asked of EKS.
    pub cluster_endpoint: String,
    /// `CLUSTER_CA_BUNDLE`, base64; empty: the control plane's own.
    pub cluster_ca_bundle: String,
    /// `BATCH_IDLE_DURATION`.
    pub batch_idle: Duration,
    /// `BATCH_MAX_DURATION`.
    pub batch_max: Duration,
    /// `LEADER_ELECTION_NAME`.
    pub lease_name: String,
    /// `SYSTEM_NAMESPACE`: where the control plane runs.
    pub system_namespace: String,
    /// `LEADER_ELECTION_NAMESPACE`; unless given the system namespace.
    pub lease_namespace: String,
    /// `DISABLE_LEADER_ELECTION`.
    pub disable_leader_election: bool,
    /// `PREFERENCE_POLICY`.
    #[serde(skip)]
    pub preferences: PreferencePolicy,
    /// `MIN_VALUES_POLICY`.
    pub min_values: MinValues,
    /// `PACKING_POLICY`: for pools that do not say.
    #[serde(skip)]
    pub policy: Policy,
    /// `VM_MEMORY_OVERHEAD_PERCENT`, a fraction.
    pub vm_memory_overhead: f64,
    /// `RESERVED_ENIS`.
    pub reserved_enis: u32,
    /// `INTERRUPTION_QUEUE`; empty: none.
    pub interruption_queue: String,
    /// `ISOLATED_VPC`.
    pub isolated_vpc: bool,
    /// `EKS_CONTROL_PLANE`.
    pub eks_control_plane: bool,
    /// `LOG_LEVEL`.
    pub log_level: String,
    /// `FEATURE_GATES`: those that are on.
    pub gates: BTreeSet<String>,
}

/// What becomes of minValues that cannot be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum MinValues {
    /// The pods wait.
    #[default]
    Strict,
    /// It is lowered to what can be.
    BestEffort,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster_name: String::new(),
            cluster_endpoint: String::new(),
            cluster_ca_bundle: String::new(),
            batch_idle: Duration::from_secs(1),
            batch_max: Duration::from_secs(10),
            lease_name: dovetail_api::names::LEASE_NAME.into(),
            system_namespace: "kube-system".into(),
            lease_namespace: "kube-system".into(),
            disable_leader_election: false,
            preferences: PreferencePolicy::Respect,
            min_values: MinValues::Strict,
            policy: Policy::Cost,
            vm_memory_overhead: 0.075,
            reserved_enis: 0,
            interruption_queue: String::new(),
            isolated_vpc: false,
            eks_control_plane: false,
            log_level: "info".into(),
            gates: BTreeSet::from([RESERVED_CAPACITY.into()]),
        }
    }
}

/// The gate that is on unless switched off.
const RESERVED_CAPACITY: &str = "ReservedCapacity";

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name}: {what} (given {value:?}; allowed: {allowed})")]
pub struct SettingError {
    /// The setting's name.
    pub name: String,
    /// What was given.
    pub value: String,
    /// What is wrong.
    pub what: String,
    /// What is allowed.
    pub allowed: String,
}

/// Why a value is refused: the problem and what is allowed.
type Refusal = (String, String);

/// Sets a setting from its text.
type Setter = fn(&mut Settings, &str) -> Result<(), Refusal>;

/// Every setting that is understood, by name, with its setter; accepted and unused ones have an empty one.
const TABLE: &[(&str, Setter)] = &[
    ("AMI_REFRESH_INTERVAL", |_, text| duration(text).map(|_| ())),
    ("AWS_FEATURE_GATES", |_, text| gates(text).map(|_| ())),
    ("BATCH_IDLE_DURATION", |own, text| Ok(own.batch_idle = duration(text)?)),
    ("BATCH_MAX_DURATION", |own, text| Ok(own.batch_max = duration(text)?)),
    ("CLUSTER_CA_BUNDLE", |own, text| Ok(own.cluster_ca_bundle = text.into())),
    ("CLUSTER_ENDPOINT", |own, text| Ok(own.cluster_endpoint = url(text)?)),
    ("CLUSTER_NAME", |own, text| Ok(own.cluster_name = filled(text)?)),
    ("CPU_REQUESTS", |_, text| number::<i64>(text, "an integer of millicores").map(|_| ())),
    ("DISABLE_CLUSTER_STATE_OBSERVABILITY", |_, text| boolean(text).map(|_| ())),
    ("DISABLE_CONTROLLER_WARMUP", |_, text| boolean(text).map(|_| ())),
    ("DISABLE_DRY_RUN", |_, text| boolean(text).map(|_| ())),
    ("DISABLE_LEADER_ELECTION", |own, text| Ok(own.disable_leader_election = boolean(text)?)),
    ("EKS_CONTROL_PLANE", |own, text| Ok(own.eks_control_plane = boolean(text)?)),
    ("ENABLE_PROFILING", |_, text| boolean(text).map(|_| ())),
    ("ENABLE_ZONAL_SHIFT", |_, text| boolean(text).map(|_| ())),
    ("FEATURE_GATES", |own, text| Ok(own.set_gates(gates(text)?))),
    ("HEALTH_PROBE_PORT", |_, text| number::<u16>(text, "a port").map(|_| ())),
    ("IGNORE_DRA_REQUESTS", |_, text| boolean(text).map(|_| ())),
    ("INTERRUPTION_QUEUE", |own, text| Ok(own.interruption_queue = text.into())),
    ("ISOLATED_VPC", |own, text| Ok(own.isolated_vpc = boolean(text)?)),
    ("KARPENTER_SERVICE", |_, _| Ok(())),
    ("KUBE_CLIENT_BURST", |_, text| number::<u32>(text, "an integer from 0").map(|_| ())),
    ("KUBE_CLIENT_QPS", |_, text| number::<f64>(text, "a number").map(|_| ())),
    ("KUBERNETES_MIN_VERSION", |_, _| Ok(())),
    ("LEADER_ELECTION_NAME", |own, text| Ok(own.lease_name = filled(text)?)),
    ("LEADER_ELECTION_NAMESPACE", |own, text| Ok(own.lease_namespace = filled(text)?)),
    ("LOG_ERROR_OUTPUT_PATHS", |_, _| Ok(())),
    ("LOG_LEVEL", |own, text| Ok(own.log_level = one_of(text, &["debug", "info", "error"])?)),
    ("LOG_OUTPUT_PATHS", |_, _| Ok(())),
    ("MEMORY_LIMIT", |_, text| number::<i64>(text, "an integer of bytes, or -1").map(|_| ())),
    ("METRICS_PORT", |_, text| number::<u16>(text, "a port").map(|_| ())),
    ("MIN_VALUES_POLICY", |own, text| Ok(own.min_values = min_values(text)?)),
    ("PACKING_POLICY", |own, text| Ok(own.policy = policy(text)?)),
    ("PREFERENCE_POLICY", |own, text| Ok(own.preferences = preferences(text)?)),
    ("RESERVED_ENIS", |own, text| Ok(own.reserved_enis = number(text, "an integer from 0")?)),
    ("SUBNET_REFRESH_INTERVAL", |_, text| duration(text).map(|_| ())),
    ("SYSTEM_NAMESPACE", |own, text| Ok(own.system_namespace = filled(text)?)),
    ("VM_MEMORY_OVERHEAD_PERCENT", |own, text| Ok(own.vm_memory_overhead = share(text)?)),
];

impl Settings {
    /// The names of all settings.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|(name, _)| *name)
    }

    /// Settings by name, the rest at their defaults.
    ///
    /// # Errors
    /// One [`SettingError`] a mistake: an unknown name, or a value that makes no sense.
    pub fn from_map(map: &BTreeMap<String, String>) -> Result<Self, Vec<SettingError>> {
        let mut settings = Self::default();
        let mut errors = Vec::new();
        for (name, value) in map {
            let found = TABLE.iter().find(|(known, _)| known == name);
            let result = match found {
                Some((_, set)) => set(&mut settings, value),
                None => Err(("there is no such setting".into(), Self::names().collect::<Vec<_>>().join(", "))),
            };
            if let Err((what, allowed)) = result {
                errors.push(SettingError { name: name.clone(), value: value.clone(), what, allowed });
            }
        }
        if !map.contains_key("LEADER_ELECTION_NAMESPACE") {
            settings.lease_namespace.clone_from(&settings.system_namespace);
        }
        if settings.batch_idle > settings.batch_max {
            errors.push(SettingError {
                name: "BATCH_IDLE_DURATION".into(),
                value: format!("{:?}", settings.batch_idle),
                what: "it is longer than BATCH_MAX_DURATION".into(),
                allowed: format!("at most {:?}", settings.batch_max),
            });
        }
        if errors.is_empty() { Ok(settings) } else { Err(errors) }
    }

    fn set_gates(&mut self, written: BTreeMap<String, bool>) {
        for (gate, on) in written {
            if on {
                self.gates.insert(gate);
            } else {
                self.gates.remove(&gate);
            }
        }
    }
}

fn refuse<T>(problem: &str, allowed: &str) -> Result<T, Refusal> {
    Err((problem.into(), allowed.into()))
}

fn duration(text: &str) -> Result<Duration, Refusal> {
    const ALLOWED: &str = "a Go duration above zero, such as 500ms, 1s or 1m30s";
    match parse_go_duration(text) {
        Ok(duration) if duration > Duration::ZERO => Ok(duration),
        Ok(_) => refuse("it must be above zero", ALLOWED),
        Err(error) => refuse(&error.to_string(), ALLOWED),
    }
}

fn boolean(text: &str) -> Result<bool, Refusal> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => refuse("it is not a boolean", "true, false"),
    }
}

fn filled(text: &str) -> Result<String, Refusal> {
    if text.is_empty() { refuse("it is empty", "any text") } else { Ok(text.into()) }
}

fn url(text: &str) -> Result<String, Refusal> {
    let bare = text.trim_matches('"');
    if bare.is_empty() || bare.starts_with("https://") || bare.starts_with("http://") {
        return Ok(bare.into());
    }
    refuse("it is not an absolute URL", "https://HOST[:PORT]")
}

fn number<T: FromStr>(text: &str, allowed: &str) -> Result<T, Refusal> {
    text.parse().or_else(|_| refuse("it is not a number that fits", allowed))
}

fn share(text: &str) -> Result<f64, Refusal> {
    const ALLOWED: &str = "a fraction from 0 and below 1, such as 0.075";
    let share: f64 = number(text, ALLOWED)?;
    if (0.0..1.0).contains(&share) { Ok(share) } else { refuse("it is out of range", ALLOWED) }
}

fn one_of(text: &str, allowed: &[&str]) -> Result<String, Refusal> {
    if allowed.contains(&text) {
        Ok(text.into())
    } else {
        refuse("it is not one of those allowed", &allowed.join(", "))
    }
}

fn preferences(text: &str) -> Result<PreferencePolicy, Refusal> {
    match one_of(text, &["Respect", "Ignore"])?.as_str() {
        "Ignore" => Ok(PreferencePolicy::Ignore),
        _ => Ok(PreferencePolicy::Respect),
    }
}

fn min_values(text: &str) -> Result<MinValues, Refusal> {
    match one_of(text, &["Strict", "BestEffort"])?.as_str() {
        "BestEffort" => Ok(MinValues::BestEffort),
        _ => Ok(MinValues::Strict),
    }
}

fn policy(text: &str) -> Result<Policy, Refusal> {
    Policy::named(text).ok_or_else(|| ("there is no such policy".into(), "cost, fewest-nodes".into()))
}

/// `Name=true,Other=false`; unknown gates are Karpenter's business and pass.
fn gates(text: &str) -> Result<BTreeMap<String, bool>, Refusal> {
    const ALLOWED: &str = "Name=true or Name=false, comma separated";
    let mut gates = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((name, value)) = part.split_once('=') else {
            return refuse(&format!("{part:?} has no value"), ALLOWED);
        };
        let on = boolean(value).or_else(|_| refuse(&format!("{value:?} is not a boolean"), ALLOWED))?;
        gates.insert(name.into(), on);
    }
    Ok(gates)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, Vec<SettingError>> {
        Settings::from_map(&pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn nothing_given_is_karpenters_defaults() {
        let settings = read(&[]).unwrap();
        assert_eq!((settings.batch_idle, settings.batch_max), (Duration::from_secs(1), Duration::from_secs(10)));
        assert_eq!(settings.lease_name, "karpenter-leader-election");
        assert!(settings.gates.contains("ReservedCapacity"));
    }

    #[test]
    fn values_are_read_as_go_reads_them() {
        let settings = read(&[
            ("BATCH_IDLE_DURATION", "500ms"),
            ("BATCH_MAX_DURATION", "1m30s"),
            ("FEATURE_GATES", "ReservedCapacity=false,NodeRepair=true"),
            ("PACKING_POLICY", "fewest-nodes"),
            ("CLUSTER_ENDPOINT", "\"https://x.eks.amazonaws.com\""),
        ])
        .unwrap();
        assert_eq!((settings.batch_idle.as_millis(), settings.batch_max.as_secs()), (500, 90));
        assert_eq!(settings.gates, BTreeSet::from(["NodeRepair".to_owned()]));
        assert_eq!(
            (settings.policy, settings.cluster_endpoint.as_str()),
            (Policy::FewestNodes, "https://x.eks.amazonaws.com")
        );
    }

    #[test]
    fn every_mistake_is_named_with_what_is_allowed() {
        let errors = read(&[
            ("BATCH_IDLE_DURATION", "soon"),
            ("BATCH_WAIT", "1s"),
            ("PREFERENCE_POLICY", "respect"),
            ("ISOLATED_VPC", "yes"),
            ("VM_MEMORY_OVERHEAD_PERCENT", "7.5"),
        ])
        .unwrap_err();
        let names: Vec<_> = errors.iter().map(|error| error.name.as_str()).collect();
        assert_eq!(
            names,
            ["BATCH_IDLE_DURATION", "BATCH_WAIT", "ISOLATED_VPC", "PREFERENCE_POLICY", "VM_MEMORY_OVERHEAD_PERCENT"]
        );
        assert!(errors[3].to_string().contains("Respect, Ignore"), "{}", errors[3]);
        assert!(errors[1].allowed.contains("BATCH_IDLE_DURATION"));
    }

    #[test]
    fn an_idle_time_beyond_the_maximum_is_a_mistake() {
        assert_eq!(read(&[("BATCH_IDLE_DURATION", "20s")]).unwrap_err().len(), 1);
    }
}
