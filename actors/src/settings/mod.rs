//! Settings by the names that Karpenter gives them (core spec 6, aws spec 9), and the few of our own.

mod commitments;
mod disruption;
mod effects;
mod gates;
mod groups;
mod parse;
mod provider;
mod scheduler_config;
mod secret;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use dovetail_api::names::provider::Provider;
use dovetail_core::adoption::AdoptAs;
use dovetail_core::daemons::DaemonShare;
use dovetail_core::expendable::ExpendableCutoff;
use dovetail_core::launch_limits::{Ceilings, FutileBound};
use dovetail_core::lease::LeaseSettings;
use dovetail_core::{MaxOptionPrice, MinValuesPolicy, Policy, PreferencePolicy};
use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use serde::Serialize;
use thiserror::Error;

pub use commitments::{CommitmentSettings, read_commitments};
pub use disruption::{Churn, Rebalance};
pub use effects::{feature_gates, without_effect};
pub use groups::{KubeAccess, LogFormat, LogSettings, ScaleSettings, WebhookSettings};
pub use parse::KubernetesVersion;
pub use secret::{SHORTEST_TOKEN, Secret};
pub use table::{KnownSetting, TABLE, Topic};

/// Settings of the control plane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// `PROVIDER`: the provider of the nodes.
    pub provider: Provider,
    /// `INSTANCE_TYPES_FILE_PATH`: the catalogue of kwok's instance types; empty: the one that is built in.
    pub instance_types_file: String,
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
    /// `BATCH_BY_PACE`: whether a burst's own pace ends its batch sooner.
    pub batch_by_pace: bool,
    /// `BATCH_MAX_PODS`.
    pub batch_most: usize,
    /// `UNSCHEDULED_POD_DELAY`; nothing: never.
    pub unscheduled_pod_delay: Option<Duration>,
    /// `LEADER_ELECTION_NAME`.
    pub lease_name: String,
    /// `SYSTEM_NAMESPACE`: where the control plane runs.
    pub system_namespace: String,
    /// `LEADER_ELECTION_NAMESPACE`; unless given the system namespace.
    pub lease_namespace: String,
    /// `LEADER_ELECTION_LEASE_DURATION`, `LEADER_ELECTION_RENEW_DEADLINE` and `LEADER_ELECTION_RETRY_PERIOD`.
    #[serde(skip)]
    pub lease: LeaseSettings,
    /// `CONSOLE_PORT`; nothing: no console.
    pub console_port: Option<u16>,
    /// `CONSOLE_TOKEN`.
    #[serde(skip)]
    pub console_token: Secret,
    /// `FENCE_NAME`: the binding by which the API server rejects writes of old leaders.
    pub fence_name: String,
    /// `DISABLE_LEADER_ELECTION`.
    pub disable_leader_election: bool,
    /// `PREFERENCE_POLICY`.
    #[serde(skip)]
    pub preferences: PreferencePolicy,
    /// `MIN_VALUES_POLICY`.
    pub min_values: MinValuesPolicy,
    /// `SCHEDULER_CONFIG`: what pods are spread by that do not say.
    pub default_spread: Vec<TopologySpreadConstraint>,
    /// `PACKING_POLICY`: for pools that do not say.
    #[serde(skip)]
    pub policy: Policy,
    /// `PACKING_COMPARISON_INTERVAL`: how often a packing is held against what `fewest-nodes` would cost; never when `None`.
    pub packing_comparison: Option<Duration>,
    /// `DAEMONSET_MAX_OVERHEAD_PERCENT`.
    pub daemon_share: DaemonShare,
    /// `EXPENDABLE_PODS_PRIORITY_CUTOFF`; unset unless given.
    pub expendable: ExpendableCutoff,
    /// `INTERRUPTION_PRICE_HALF_LIFE`; never when `None`.
    pub interruption_half_life: Option<Duration>,
    /// `PRICE_PER_NODE`, in dollars an hour.
    pub price_per_node: f64,
    /// `MAX_PRICE_RISE`, in parts of the first plan's price; infinite for no bound.
    pub max_price_rise: f64,
    /// `MAX_OPTION_PRICE`, in parts of a claim's cheapest type.
    pub max_option_price: MaxOptionPrice,
    /// `VM_MEMORY_OVERHEAD_PERCENT`, a fraction.
    pub vm_memory_overhead: f64,
    /// `RESERVED_ENIS`.
    pub reserved_enis: u32,
    /// `MAX_LAUNCHES_PER_HOUR` and `MAX_COST_PER_HOUR`; none unless given.
    #[serde(skip)]
    pub ceilings: Ceilings,
    /// `MAX_FUTILE_LAUNCHES` and `MAX_FUTILE_COST`.
    #[serde(skip)]
    pub futile: FutileBound,
    /// `ADOPT_KARPENTER_INSTANCES`: whether what Karpenter has launched for this cluster may be drained and ended.
    pub adopt_karpenter_instances: bool,
    /// `ADOPT_AS`: what is held back in NodePools that are taken over from Karpenter.
    pub adopt_as: AdoptAs,
    /// `INTERRUPTION_QUEUE`; empty: none.
    pub interruption_queue: String,
    /// The region of that queue, where its URL or its ARN says; empty: nobody knows.
    #[serde(skip)]
    pub interruption_queue_region: String,
    /// `INTERRUPTION`.
    pub interruption: Interruptions,
    /// `REBALANCE`.
    pub rebalance: Rebalance,
    /// `CONSOLIDATION_LEAST_AGE`, `CONSOLIDATION_LEAST_SAVING`, `CONSOLIDATION_PAYBACK`,
    /// `CONSOLIDATION_PRICE_MOVES`, `CONSOLIDATION_REST`, `LEGACY_NODE_REPAIR`.
    pub churn: Churn,
    /// `COMMITMENTS`, `COMMITMENTS_SHARE`.
    pub commitments: CommitmentSettings,
    /// `MOVES_ROLLOUT`: whether a Deployment that asks for it is restarted where its pods cannot be evicted.
    pub moves_rollout: bool,
    /// `DISABLE_DRY_RUN`.
    pub disable_dry_run: bool,
    /// `OPEN_RESERVATIONS`: true if EC2NodeClasses that select no capacity reservations use the open ones.
    pub open_reservations: bool,
    /// `ENABLE_ZONAL_SHIFT`.
    pub zonal_shift: bool,
    /// `ISOLATED_VPC`.
    pub isolated_vpc: bool,
    /// `DEFAULT_INSTANCE_PROFILE`; empty where none is given.
    pub default_instance_profile: String,
    /// `EKS_CONTROL_PLANE`.
    pub eks_control_plane: bool,
    pub log: LogSettings,
    /// `AMI_REFRESH_INTERVAL`.
    pub ami_refresh: Duration,
    /// `SUBNET_REFRESH_INTERVAL`.
    pub subnet_refresh: Duration,
    /// `SPOT_PRICE_REFRESH_INTERVAL`; nothing: never.
    pub spot_price_refresh: Option<Duration>,
    /// `INITIALIZATION_TIMEOUT`; nothing: never.
    pub initialization_timeout: Option<Duration>,
    /// Settings that depend on the cluster's size.
    pub scale: ScaleSettings,
    /// Access to the API server: address and rate.
    pub kube_access: KubeAccess,
    /// `AWS_REGION`; empty: from the SDK's chain.
    pub aws_region: String,
    /// `BIND_ADDRESS`; none: it depends on where we run.
    pub bind_address: Option<IpAddr>,
    /// `METRICS_PORT`.
    pub metrics_port: u16,
    /// `HEALTH_PROBE_PORT`.
    pub health_probe_port: u16,
    pub webhook: WebhookSettings,
    /// `SHADOW`: nothing is written; what would be done is done in a copy of the cluster.
    pub shadow: bool,
    /// `CPU_REQUESTS`, in thousandths of a core.
    pub cpu_requests: i64,
    /// `IGNORE_DRA_REQUESTS`: whether pods with claims for devices get no node.
    pub ignore_devices: bool,
    /// `AWS_FEATURE_GATES`: those that are on.
    pub aws_gates: BTreeSet<String>,
    /// `FEATURE_GATES`: those that are on.
    pub gates: BTreeSet<String>,
}

/// Ways to handle a node whose instance the cloud takes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Interruptions {
    /// Its pods get places first; it is drained when those are ready or the time requires it.
    #[default]
    Replace,
    /// Its node is drained at once, as Karpenter does.
    Evict,
}

impl Default for Settings {
    #[expect(clippy::too_many_lines, reason = "a line for each setting")]
    fn default() -> Self {
        Self {
            provider: Provider::default(),
            instance_types_file: String::new(),
            cluster_name: String::new(),
            cluster_endpoint: String::new(),
            cluster_ca_bundle: String::new(),
            batch_idle: Duration::from_secs(1),
            unscheduled_pod_delay: Some(Duration::from_millis(500)),
            batch_max: Duration::from_secs(10),
            batch_by_pace: true,
            batch_most: 3000,
            lease_name: dovetail_api::names::LEASE_NAME.into(),
            system_namespace: "kube-system".into(),
            lease_namespace: "kube-system".into(),
            lease: LeaseSettings::default(),
            console_port: Some(8082),
            console_token: Secret::default(),
            fence_name: "dovetail-fence".into(),
            disable_leader_election: false,
            preferences: PreferencePolicy::Respect,
            min_values: MinValuesPolicy::Strict,
            default_spread: vec![],
            policy: Policy::Cost,
            packing_comparison: Some(Duration::from_secs(60)),
            daemon_share: DaemonShare::default(),
            expendable: ExpendableCutoff::default(),
            interruption_half_life: None,
            price_per_node: dovetail_core::pack::Options::default().price_per_node,
            spot_price_refresh: Some(Duration::from_secs(3600)),
            initialization_timeout: Some(dovetail_core::lifecycle::liveness::INITIALIZATION),
            max_price_rise: f64::INFINITY,
            max_option_price: MaxOptionPrice::default(),
            vm_memory_overhead: 0.075,
            reserved_enis: 0,
            ceilings: Ceilings::default(),
            futile: FutileBound::default(),
            adopt_karpenter_instances: false,
            adopt_as: AdoptAs::default(),
            interruption_queue: String::new(),
            interruption_queue_region: String::new(),
            interruption: Interruptions::Replace,
            rebalance: Rebalance::Event,
            churn: Churn::default(),
            moves_rollout: false,
            disable_dry_run: false,
            open_reservations: false,
            commitments: CommitmentSettings::default(),
            zonal_shift: false,
            isolated_vpc: false,
            default_instance_profile: String::new(),
            eks_control_plane: false,
            log: LogSettings::default(),
            ami_refresh: Duration::from_secs(60),
            subnet_refresh: Duration::from_secs(60),
            scale: ScaleSettings::default(),
            kube_access: KubeAccess::default(),
            aws_region: String::new(),
            bind_address: None,
            metrics_port: 8080,
            health_probe_port: 8081,
            webhook: WebhookSettings::default(),
            shadow: false,
            cpu_requests: 1000,
            ignore_devices: true,
            aws_gates: BTreeSet::new(),
            gates: BTreeSet::from([gates::DRIFT.into(), gates::RESERVED_CAPACITY.into()]),
        }
    }
}

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name}: {what} (given {value:?}; allowed: {allowed})")]
pub struct SettingError {
    pub name: String,
    /// Value as given.
    pub value: String,
    /// Fault of the value.
    pub what: String,
    /// Allowed values.
    pub allowed: String,
}

impl Settings {
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|known| known.name)
    }

    /// Settings by name, the rest at their defaults.
    ///
    /// # Errors
    /// One [`SettingError`] a mistake: an unknown name, or a value that makes no sense.
    pub fn from_map(map: &BTreeMap<String, String>) -> Result<Self, Vec<SettingError>> {
        let mut settings = Self::default();
        let mut errors = Vec::new();
        for (name, value) in map {
            let found = TABLE.iter().find(|known| known.name == name);
            let result = match found {
                Some(known) => (known.set)(&mut settings, value),
                None => Err(("there is no such setting".into(), Self::names().collect::<Vec<_>>().join(", "))),
            };
            if let Err((what, allowed)) = result {
                let secret = found.is_some_and(|known| known.value == table::TOKEN);
                let value = if secret { "hidden".to_owned() } else { value.clone() };
                errors.push(SettingError { name: name.clone(), value, what, allowed });
            }
        }
        if !map.contains_key("LEADER_ELECTION_NAMESPACE") {
            settings.lease_namespace.clone_from(&settings.system_namespace);
        }
        errors.extend(settings.contradictions());
        if errors.is_empty() { Ok(settings) } else { Err(errors) }
    }

    /// Settings that make sense each by itself and not together, wherever they come from.
    pub fn contradictions(&self) -> Vec<SettingError> {
        let idle = (self.batch_idle > self.batch_max).then(|| SettingError {
            name: "BATCH_IDLE_DURATION".into(),
            value: format!("{:?}", self.batch_idle),
            what: "it is longer than BATCH_MAX_DURATION".into(),
            allowed: format!("at most {:?}", self.batch_max),
        });
        let own = self.refused_by_provider();
        idle.into_iter().chain(self.lease_that_cannot_be()).chain(self.port_twice()).chain(own).collect()
    }

    /// Durations of the election that do not go together: a leader has to end before others may begin, by clocks that
    /// differ a little, and to have two tries at a renewal.
    fn lease_that_cannot_be(&self) -> Option<SettingError> {
        let LeaseSettings { duration, renew_deadline, retry } = self.lease;
        let (name, value, what, most) = if renew_deadline > duration * 9 / 10 {
            let what =
                "a leader would act until others may follow it: it is not well below LEADER_ELECTION_LEASE_DURATION";
            ("LEADER_ELECTION_RENEW_DEADLINE", renew_deadline, what, duration * 9 / 10)
        } else if retry > renew_deadline / 2 {
            let what = "one renewal that fails would end the term: it is above half of LEADER_ELECTION_RENEW_DEADLINE";
            ("LEADER_ELECTION_RETRY_PERIOD", retry, what, renew_deadline / 2)
        } else {
            return None;
        };
        Some(SettingError {
            name: name.into(),
            value: format!("{value:?}"),
            what: what.into(),
            allowed: format!("at most {most:?}"),
        })
    }

    /// Metrics and health are served side by side.
    fn port_twice(&self) -> Option<SettingError> {
        let port = self.metrics_port;
        (port != 0 && port == self.health_probe_port).then(|| SettingError {
            name: "HEALTH_PROBE_PORT".into(),
            value: port.to_string(),
            what: "METRICS_PORT is the same".into(),
            allowed: "another port than METRICS_PORT, or 0 for a free one".into(),
        })
    }

    /// Time after which the objects that a node class selects are asked for anew.
    pub fn class_refresh(&self) -> Duration {
        self.ami_refresh.min(self.subnet_refresh)
    }

    /// Cores that `CPU_REQUESTS` comes to, rounded up; at least one.
    pub fn cores(&self) -> usize {
        let millicores = if self.cpu_requests > 0 { self.cpu_requests } else { 1000 };
        usize::try_from(millicores.div_euclid(1000) + i64::from(millicores % 1000 > 0)).unwrap_or(1)
    }
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
        assert_eq!(settings.gates, BTreeSet::from(["Drift".to_owned(), "NodeRepair".to_owned()]));
        assert_eq!(
            (settings.policy, settings.cluster_endpoint.as_str()),
            (Policy::FewestNodes, "https://x.eks.amazonaws.com")
        );
    }

    #[test]
    fn a_queue_is_named_by_its_name_its_url_or_its_arn() {
        let queue = |text| read(&[("INTERRUPTION_QUEUE", text)]).unwrap().interruption_queue;
        for text in [
            "demo_q-1",
            "\"demo_q-1\"",
            "https://sqs.us-east-1.amazonaws.com/111122223333/demo_q-1",
            "arn:aws-us-gov:sqs:us-gov-west-1:111122223333:demo_q-1",
        ] {
            assert_eq!(queue(text), "demo_q-1", "{text}");
        }
        assert_eq!(queue(""), "");
    }

    #[test]
    fn class_is_asked_anew_after_the_shorter_of_both_intervals() {
        let settings = read(&[("AMI_REFRESH_INTERVAL", "10m"), ("SUBNET_REFRESH_INTERVAL", "5m")]).unwrap();
        assert_eq!(settings.class_refresh(), Duration::from_secs(300));
        assert_eq!(Settings::default().class_refresh(), Duration::from_secs(60));
        assert_eq!(read(&[("KUBERNETES_MIN_VERSION", "v1.31.2-eks")]).unwrap().kube_access.oldest.to_string(), "1.31");
    }

    #[test]
    fn ceilings_are_numbers_above_zero() {
        let ceilings = read(&[("MAX_LAUNCHES_PER_HOUR", "40"), ("MAX_COST_PER_HOUR", "12.5")]).unwrap().ceilings;
        assert_eq!((ceilings.launches, ceilings.cost), (Some(40), Some(12.5)));
        for name in ["MAX_LAUNCHES_PER_HOUR", "MAX_COST_PER_HOUR"] {
            for bad in ["0", "-1", "NaN", "inf", "many"] {
                let errors = read(&[(name, bad)]).unwrap_err();
                assert!(errors.len() == 1 && errors[0].to_string().contains(name), "{name}={bad}: {errors:?}");
            }
        }
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
    fn every_default_in_the_table_is_the_settings_default() {
        let given = TABLE.iter().filter(|known| !known.default.is_empty());
        let settings = Settings::from_map(&given.map(|known| (known.name.into(), known.default.into())).collect());
        assert_eq!(settings.unwrap(), Settings::default());
    }

    #[test]
    fn names_in_the_table_are_unique_and_sorted_within_their_topic() {
        let names: Vec<_> = TABLE.iter().map(|known| (known.topic, known.name)).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup_by_key(|(_, name)| *name);
        assert_eq!(names, sorted);
    }

    #[test]
    fn cpu_requests_round_up_to_cores_and_nonsense_is_one() {
        let cores = |text| read(&[("CPU_REQUESTS", text)]).unwrap().cores();
        assert_eq!((cores("1000"), cores("1001"), cores("250"), cores("0"), cores("-5")), (1, 2, 1, 1, 1));
    }

    #[test]
    fn what_cannot_be_is_refused_where_it_is_given() {
        let wrong = [
            ("METRICS_PORT", "80800"),
            ("KUBE_CLIENT_QPS", "0"),
            ("KUBE_CLIENT_BURST", "-1"),
            ("BIND_ADDRESS", "localhost"),
            ("LEADER_ELECTION_NAME", "My Lease"),
            ("CLUSTER_ENDPOINT", "https://"),
            ("CLUSTER_CA_BUNDLE", "-----BEGIN CERTIFICATE-----"),
            ("LOG_OUTPUT_PATHS", "stdout,log.txt"),
            ("SCHEDULER_CONFIG", "podTopologySpread: []"),
            ("LOG_LEVEL", "verbose"),
            ("INTERRUPTION_QUEUE", "arn:aws:sns:us-east-1:111122223333:topic"),
            ("INTERRUPTION_QUEUE", "a queue"),
            ("AMI_REFRESH_INTERVAL", "30s"),
            ("KUBERNETES_MIN_VERSION", "newest"),
            ("SPOT_PRICE_REFRESH_INTERVAL", "1s"),
            ("LEADER_ELECTION_RETRY_PERIOD", "1ms"),
            ("LEADER_ELECTION_LEASE_DURATION", "600000h"),
            ("FEATURE_GATES", "NodeRepair=true,NodeRepair=false"),
            ("HEALTH_PROBE_PORT", "8080"),
        ];
        for (name, value) in wrong {
            let errors = read(&[(name, value)]).unwrap_err();
            assert_eq!((errors.len(), errors[0].name.as_str(), errors[0].value.as_str()), (1, name, value));
            assert!(!errors[0].what.is_empty() && !errors[0].allowed.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_token_is_long_enough_and_written_nowhere() {
        let (short, long) = ("fifteen letters", "sixteen letters!");
        let refused = read(&[("CONSOLE_TOKEN", short)]).unwrap_err();
        assert!(!format!("{refused:?} {}", refused[0]).contains(short), "{refused:?}");
        let settings = read(&[("CONSOLE_TOKEN", long), ("CONSOLE_PORT", "none")]).unwrap();
        assert_eq!((settings.console_token.revealed(), settings.console_port), (Some(long), None));
        let written = format!("{settings:?}{}", serde_json::to_string(&settings).unwrap());
        assert!(!written.contains(long), "{written}");
        assert_eq!(read(&[("CONSOLE_PORT", "80800")]).unwrap_err()[0].value, "80800");
    }

    #[test]
    fn durations_of_the_election_have_to_go_together() {
        let of = |duration, deadline, retry| {
            let names =
                ["LEASE_DURATION", "RENEW_DEADLINE", "RETRY_PERIOD"].map(|name| format!("LEADER_ELECTION_{name}"));
            let pairs = [(names[0].as_str(), duration), (&names[1], deadline), (&names[2], retry)];
            read(&pairs).map(|settings| settings.lease).map_err(|errors| {
                errors.into_iter().map(|error| error.name.replace("LEADER_ELECTION_", "")).collect::<Vec<_>>()
            })
        };
        let three = of("3s", "2s", "500ms").unwrap();
        assert_eq!((three.duration, three.patience()), (Duration::from_secs(3), Duration::from_millis(750)));
        assert_eq!(of("10s", "10s", "2s").unwrap_err(), ["RENEW_DEADLINE"]);
        assert_eq!(of("15s", "10s", "6s").unwrap_err(), ["RETRY_PERIOD"]);
        assert_eq!(of("1500ms", "1s", "200ms").unwrap_err(), ["LEASE_DURATION"], "the Lease has whole seconds");
    }

    #[test]
    fn an_idle_time_beyond_the_maximum_is_a_mistake() {
        assert_eq!(read(&[("BATCH_IDLE_DURATION", "20s")]).unwrap_err().len(), 1);
    }
}
