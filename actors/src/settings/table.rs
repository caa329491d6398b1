//! Every setting that is understood: its name, what it is for, and how its text is read. `run --help` and
//! docs/settings.md are made from this table.

use super::Settings;
use super::disruption::{factor, part, rebalance, time_from_zero};
use super::parse::{
    ValueRefusal, above_zero, address, adopt_as, boolean, ca_bundle, delay, duration, filled, from_zero, gates,
    https_url, interruptions, kubernetes_version, log_format, min_values, minute_at_least, minute_at_least_or_never,
    number, object_name, one_of, outputs, policy, port_or_none, preferences, queue, queue_region, share,
    tenth_at_least, times, token, url, whole_seconds,
};
use super::scheduler_config::scheduler_config;

/// What a setting is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Which cluster.
    Cluster,
    /// AWS.
    Aws,
    /// Batching and packing.
    Packing,
    /// Nodes that go.
    Disruption,
    /// Leader election: the Lease and its times.
    Election,
    /// Ports, logs, limits.
    Process,
    /// Accepted, so that Karpenter's charts and scripts go on to work, and without effect.
    NoEffect,
}

impl Topic {
    /// As a heading.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Aws => "AWS",
            Self::Packing => "Batching and packing",
            Self::Disruption => "Disruption",
            Self::Election => "Election",
            Self::Process => "Process",
            Self::NoEffect => "Accepted, without effect",
        }
    }
}

/// Sets a setting from its text.
pub type Setter = fn(&mut Settings, &str) -> Result<(), ValueRefusal>;

/// A setting.
pub struct KnownSetting {
    /// What it is about.
    pub topic: Topic,
    /// Its name in the environment.
    pub name: &'static str,
    /// What its value is, in a word: `DURATION`.
    pub value: &'static str,
    /// Its default as text.
    pub default: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// Sets it.
    pub set: Setter,
}

impl KnownSetting {
    /// Its name as a flag, without the dashes in front.
    pub fn flag(&self) -> String {
        self.name.to_ascii_lowercase().replace('_', "-")
    }

    /// Whether it is on or off, so that the flag alone means `true`.
    pub fn is_boolean(&self) -> bool {
        self.value == BOOL
    }
}

/// The value of settings that nobody is shown.
pub const TOKEN: &str = "TOKEN";
/// The value of settings that are on or off.
const BOOL: &str = "true|false";

const fn row(
    topic: Topic,
    name: &'static str,
    value: &'static str,
    default: &'static str,
    what: &'static str,
    set: Setter,
) -> KnownSetting {
    KnownSetting { topic, name, value, default, what, set }
}

use Topic::{Aws, Cluster, Disruption, Election, NoEffect, Packing, Process};

/// By topic, then by name.
#[rustfmt::skip]
pub const TABLE: &[KnownSetting] = &[
    row(Cluster, "CLUSTER_CA_BUNDLE", "BASE64", "", "The cluster's certificate authority, for nodes; without it, that of our own connection",
        |own, text| Ok(own.cluster_ca_bundle = ca_bundle(text)?)),
    row(Cluster, "CLUSTER_ENDPOINT", "URL", "", "The API server's address, for nodes; without it EKS is asked",
        |own, text| Ok(own.cluster_endpoint = url(text)?)),
    row(Cluster, "CLUSTER_NAME", "NAME", "", "The cluster's name: tags and instances go by it. Required",
        |own, text| Ok(own.cluster_name = filled(text)?)),
    row(Cluster, "EKS_CONTROL_PLANE", BOOL, "false", "Ask EKS for the Kubernetes version, instead of the API server",
        |own, text| Ok(own.eks_control_plane = boolean(text)?)),
    row(Cluster, "KUBECONFIG", "FILE", "", "The kubeconfig; without it the service account, where run in a cluster, else ~/.kube/config",
        |own, text| Ok(own.kube_access.kubeconfig = filled(text)?)),
    row(Cluster, "KUBERNETES_MIN_VERSION", "VERSION", "1.19.0-0", "The oldest Kubernetes that is run on: with an older one run ends at its start",
        |own, text| Ok(own.kubernetes_min = kubernetes_version(text)?)),
    row(Cluster, "KUBE_CLIENT_BURST", "COUNT", "300", "Requests to the API server that may go at once",
        |own, text| Ok(own.kube_access.burst = at_least_one(text)?)),
    row(Cluster, "KUBE_CLIENT_QPS", "RATE", "200", "Requests to the API server a second; the Lease has a connection of its own",
        |own, text| Ok(own.kube_access.qps = above_zero(text, "a number above zero")?)),
    row(Cluster, "KUBE_CONTEXT", "NAME", "", "The kubeconfig's context, instead of its current one",
        |own, text| Ok(own.kube_access.context = filled(text)?)),
    row(Cluster, "STARTUP_TIMEOUT", "DURATION", "30s", "How long the API server, and AWS, are waited for at the start",
        |own, text| Ok(own.startup_timeout = duration(text)?)),

    row(Aws, "ADOPT_KARPENTER_INSTANCES", BOOL, "false", "Instances that Karpenter launched for this cluster count as ours where their tags name the cluster and their NodeClaim; false: they are neither drained nor ended",
        |own, text| Ok(own.adopt_karpenter_instances = boolean(text)?)),
    row(Aws, "AMI_REFRESH_INTERVAL", "DURATION", "1m", "How long what a node class selects counts before it is asked for anew, images, subnets and all: the shorter of this and SUBNET_REFRESH_INTERVAL; 1m at least",
        |own, text| Ok(own.ami_refresh = minute_at_least(text)?)),
    row(Aws, "AWS_REGION", "REGION", "", "The region; without it that of the profile or of the instance",
        |own, text| Ok(own.aws_region = filled(text)?)),
    row(Aws, "DEFAULT_INSTANCE_PROFILE", "NAME", "", "The nodes' instance profile where a Provisioner or AWSNodeTemplate names none; without it a profile of the role KarpenterNodeRole-CLUSTER_NAME is made",
        |own, text| Ok(own.default_instance_profile = filled(text)?)),
    row(Aws, "DISABLE_DRY_RUN", BOOL, "false", "Do not judge node classes by dry runs of launches: a permission that is missing shows at the first launch",
        |own, text| Ok(own.disable_dry_run = boolean(text)?)),
    row(Aws, "FEATURE_GATES", "NAME=BOOL,…", "ReservedCapacity=true", "Karpenter's feature gates. ReservedCapacity: capacity reservations are used where node classes select them, and only there; NodeRepair: nodes that are unhealthy for too long are replaced; SpotToSpotConsolidation: spot nodes are replaced by cheaper spot nodes; ManyToManyConsolidation (Dovetail's own): nodes are replaced by several new ones; NodeOverlay, StaticCapacity and CapacityBuffer are not implemented, which is said at the start, as is an unknown name",
        |own, text| Ok(own.set_gates(gates(text)?))),
    row(Aws, "INTERRUPTION", "WAY", "replace", "replace: an interrupted node's pods get their places first; evict: it is drained at once, Karpenter's way",
        |own, text| Ok(own.interruption = interruptions(text)?)),
    row(Aws, "INTERRUPTION_QUEUE", "NAME", "", "The SQS queue with interruption warnings, by name, URL or ARN; without it none is heard",
        |own, text| Ok((own.interruption_queue, own.interruption_queue_region) = (queue(text)?, queue_region(text).to_owned()))),
    row(Aws, "ISOLATED_VPC", BOOL, "false", "The VPC has no way to the pricing API: on-demand prices are those that ship with the binary",
        |own, text| Ok(own.isolated_vpc = boolean(text)?)),
    row(Aws, "REBALANCE", "WAY", "event", "event: that EC2 recommends to rebalance an instance is said by an event; replace: its node is replaced as well, the places of its pods first and within ten minutes at most",
        |own, text| Ok(own.rebalance = rebalance(text)?)),
    row(Aws, "RESERVED_ENIS", "COUNT", "0", "Network interfaces that pods cannot have",
        |own, text| Ok(own.reserved_enis = number(text, "an integer from 0")?)),
    row(Aws, "SPOT_PRICE_REFRESH_INTERVAL", "DURATION", "1h", "How often spot prices are read anew, all zones at once; those known count until others have come. 1m at least; never: they are read once, at the start",
        |own, text| Ok(own.spot_price_refresh = minute_at_least_or_never(text)?)),
    row(Aws, "SUBNET_REFRESH_INTERVAL", "DURATION", "1m", "As AMI_REFRESH_INTERVAL: the shorter of the two counts; 1m at least",
        |own, text| Ok(own.subnet_refresh = minute_at_least(text)?)),
    row(Aws, "VM_MEMORY_OVERHEAD_PERCENT", "FRACTION", "0.075", "Share of an instance's memory that its hypervisor keeps",
        |own, text| Ok(own.vm_memory_overhead = share(text)?)),

    row(Packing, "BATCH_BY_PACE", BOOL, "true", "A burst of twenty pods and more ends its batch after twenty of its mean pauses and three of its longest without a pod, a quarter of a second at least, where that is sooner than BATCH_IDLE_DURATION; false: Karpenter's way",
        |own, text| Ok(own.batch_by_pace = boolean(text)?)),
    row(Packing, "BATCH_IDLE_DURATION", "DURATION", "1s", "A batch of pods is closed when none has come for so long",
        |own, text| Ok(own.batch_idle = duration(text)?)),
    row(Packing, "BATCH_MAX_DURATION", "DURATION", "10s", "A batch of pods is closed after so long at the latest",
        |own, text| Ok(own.batch_max = duration(text)?)),
    row(Packing, "BATCH_MAX_PODS", "COUNT", "3000", "A batch of so many pods is closed at once, though more come",
        |own, text| Ok(own.batch_most = at_least_one(text)? as usize)),
    row(Packing, "MAX_COST_PER_HOUR", "DOLLARS", "", "A ceiling on what all instances cost an hour; none without it",
        |own, text| Ok(own.ceilings.cost = Some(above_zero(text, "$ an hour above zero, such as 12.50")?))),
    row(Packing, "MAX_LAUNCHES_PER_HOUR", "COUNT", "", "A ceiling on launches in any hour; none without it",
        |own, text| Ok(own.ceilings.launches = Some(at_least_one(text)?))),
    row(Packing, "MAX_OPTION_PRICE", "TIMES", "", "How many times the price of its cheapest instance type another type of a NodeClaim may cost, from 1; without it 1.5, and 2 for types with GPUs or other accelerators. A NodeClaim rather names fewer than 15 types than one above it, or than types that cost more than 1.25 times the cheapest on average, but for what minValues need",
        |own, text| Ok(own.max_option_price = times(text)?)),
    row(Packing, "MIN_VALUES_POLICY", "POLICY", "Strict", "Strict: pods wait where minValues cannot be kept; BestEffort: minValues are lowered, and the NodeClaim says so",
        |own, text| Ok(own.min_values = min_values(text)?)),
    row(Packing, "PACKING_COMPARISON_INTERVAL", "DURATION", "1m", "At most so often what was packed is held against what fewest-nodes would have cost, for the metrics; never: not at all, as in sandbox and simulate",
        |own, text| Ok(own.packing_comparison = delay(text)?)),
    row(Packing, "PACKING_POLICY", "POLICY", "cost", "cost, or fewest-nodes, Karpenter's way; for pools that do not say. In simulate also node-groups, Cluster Autoscaler's way, for comparison",
        |own, text| Ok(own.policy = policy(text)?)),
    row(Packing, "PREFERENCE_POLICY", "POLICY", "Respect", "Respect, or Ignore what pods merely prefer",
        |own, text| Ok(own.preferences = preferences(text)?)),
    row(Packing, "PRICE_PER_NODE", "DOLLARS", "0.02", "What a node more is worth avoiding an hour: weighed by the policy cost, not part of the price",
        |own, text| Ok(own.price_per_node = from_zero(text)?)),
    row(Packing, "SCHEDULER_CONFIG", "YAML", "", "What kube-scheduler is configured to spread pods by that do not say: podTopologySpread.defaultConstraints, as in its configuration",
        |own, text| Ok(own.default_spread = scheduler_config(text)?)),
    row(Packing, "UNSCHEDULED_POD_DELAY", "DURATION", "500ms", "A pod of which kube-scheduler has not said anything for so long, or that waits together with twenty, counts as pending all the same; never: only those that it has marked Unschedulable, as in Karpenter",
        |own, text| Ok(own.unscheduled_pod_delay = delay(text)?)),

    row(Disruption, "ADOPT_AS", "MODES", "observe,fewest-nodes", "What is held back in NodePools that are taken over from Karpenter, until their annotations say otherwise: observe: no node goes by our own decision; fewest-nodes: pods are packed Karpenter's way; as-is: nothing. What is no longer named is released in pools that were taken over before",
        |own, text| Ok(own.adopt_as = adopt_as(text)?)),
    row(Disruption, "CONSOLIDATION_LEAST_AGE", "DURATION", "10m", "A node that is younger is not consolidated, unless it is empty; 0s: any may be",
        |own, text| Ok(own.churn.least_age = time_from_zero(text)?)),
    row(Disruption, "CONSOLIDATION_LEAST_PER_POD", "FACTOR", "1.5", "What deleting a node saves at least for each pod that then moves, in parts of what a mean pod of its pool costs, in pools of the policy cost; 0: anything",
        |own, text| Ok(own.churn.least_per_pod = factor(text)?)),
    row(Disruption, "CONSOLIDATION_LEAST_SAVING", "FRACTION", "0.15", "What part of the price that it replaces a move saves at least, in pools of the policy cost",
        |own, text| Ok(own.churn.least_saving = part(text)?)),
    row(Disruption, "CONSOLIDATION_PRICE_MOVES", "FRACTION", "0.01", "Of all nodes so many, rounded up, are replaced an hour because prices differ alone, by a node that is no smaller; 0: none is",
        |own, text| Ok(own.churn.price_moves = part(text)?)),
    row(Disruption, "CONSOLIDATION_REST", "DURATION", "1h", "A pod that was moved to save money is not moved for that again before so long; 0s: at any time",
        |own, text| Ok(own.churn.rest = time_from_zero(text)?)),
    row(Disruption, "INITIALIZATION_TIMEOUT", "DURATION", "30m", "A node that has registered and is not ready for pods after so long (a startup taint stays, a requested resource does not come) is deleted, with an event that says what it lacks; never: it stays, as in Karpenter",
        |own, text| Ok(own.initialization_timeout = delay(text)?)),
    row(Disruption, "MOVES_ROLLOUT", BOOL, "false", "A Deployment whose pods have the annotation dovetail.dev/move: rollout is restarted where their eviction would be refused or would leave none; needs patch on deployments (the chart's moves.rollout)",
        |own, text| Ok(own.moves_rollout = boolean(text)?)),

    row(Election, "DISABLE_LEADER_ELECTION", BOOL, "false", "Lead without a Lease: for a single replica",
        |own, text| Ok(own.disable_leader_election = boolean(text)?)),
    row(Election, "FENCE_NAME", "NAME", "dovetail-fence", "The ValidatingAdmissionPolicyBinding by which the API server refuses leaders that have been succeeded: who is elected looks at it, and does not lead where it goes by another Lease",
        |own, text| Ok(own.fence_name = object_name(text)?)),
    row(Election, "LEADER_ELECTION_LEASE_DURATION", "DURATION", "15s", "How long the other replicas wait for a leader that does not renew its Lease",
        |own, text| Ok(own.lease.duration = whole_seconds(text)?)),
    row(Election, "LEADER_ELECTION_NAME", "NAME", "karpenter-leader-election", "The Lease; the default is Karpenter's, so that the two never both provision in one namespace",
        |own, text| Ok(own.lease_name = object_name(text)?)),
    row(Election, "LEADER_ELECTION_NAMESPACE", "NAME", "", "The Lease's namespace; without it SYSTEM_NAMESPACE",
        |own, text| Ok(own.lease_namespace = object_name(text)?)),
    row(Election, "LEADER_ELECTION_RENEW_DEADLINE", "DURATION", "10s", "A leader that could not renew its Lease for so long stops; well below the Lease's duration",
        |own, text| Ok(own.lease.renew_deadline = duration(text)?)),
    row(Election, "LEADER_ELECTION_RETRY_PERIOD", "DURATION", "2s", "Pause between two renewals, and between a standby's looks where it hears of no change; 100ms at least",
        |own, text| Ok(own.lease.retry = tenth_at_least(text)?)),
    row(Election, "SYSTEM_NAMESPACE", "NAME", "kube-system", "Where the control plane runs; in a cluster the service account's namespace",
        |own, text| Ok(own.system_namespace = object_name(text)?)),

    row(Process, "BIND_ADDRESS", "IP", "", "Where metrics and health are served; without it all addresses in a cluster, loopback elsewhere",
        |own, text| Ok(own.bind_address = address(text)?)),
    row(Process, "CONSOLE_PORT", "PORT", "8082", "The port of the console, on loopback (kubectl port-forward reaches it) unless CONSOLE_TOKEN is set; 0 takes a free one, none serves none",
        |own, text| Ok(own.console_port = port_or_none(text)?)),
    row(Process, "CONSOLE_TOKEN", TOKEN, "", "What the console asks for as a bearer's token or a password; with it the console is served where metrics are. Best from a Secret by the environment",
        |own, text| Ok(own.console_token = token(text)?)),
    row(Process, "CPU_REQUESTS", "MILLICORES", "1000", "The container's CPU request: as many packings are computed side by side as it has cores",
        |own, text| Ok(own.cpu_requests = number(text, "an integer of millicores")?)),
    row(Process, "DISABLE_CLUSTER_STATE_OBSERVABILITY", BOOL, "false", "Without the metrics that have a series for each node and each pod",
        |own, text| Ok(own.without_object_metrics = boolean(text)?)),
    row(Process, "HEALTH_PROBE_PORT", "PORT", "8081", "The port of /healthz and /readyz; 0 takes a free one",
        |own, text| Ok(own.health_probe_port = number(text, PORT)?)),
    row(Process, "LOG_FORMAT", "FORMAT", "auto", "auto, text or json; auto is text on a terminal, else json",
        |own, text| Ok(own.log.format = log_format(text)?)),
    row(Process, "LOG_LEVEL", "LEVEL", "info", "debug, info or error",
        |own, text| Ok(own.log.level = one_of(text, &["debug", "info", "error"])?)),
    row(Process, "LOG_OUTPUT_PATHS", "PATHS", "stdout", "Where the log goes: stdout, stderr or absolute paths, comma separated",
        |own, text| Ok(own.log.outputs = outputs(text)?)),
    row(Process, "METRICS_PORT", "PORT", "8080", "The port of /metrics; 0 takes a free one",
        |own, text| Ok(own.metrics_port = number(text, PORT)?)),
    row(Process, "SHADOW", BOOL, "false", "Only watch: nothing is written and no Lease taken; what would be launched and removed is reported beside what another provisioner does, at METRICS_PORT under /shadow",
        |own, text| Ok(own.shadow = boolean(text)?)),
    row(Process, "WEBHOOK_ENABLED", BOOL, "false", "Convert v1beta1 for the API server: in every replica a webhook answers, and the leader keeps its certificates and has the CRDs serve v1beta1; the chart switches it on",
        |own, text| Ok(own.webhook.enabled = boolean(text)?)),
    row(Process, "WEBHOOK_PORT", "PORT", "8443", "The port of the conversion webhook; 0 takes a free one",
        |own, text| Ok(own.webhook.port = number(text, PORT)?)),
    row(Process, "WEBHOOK_SECRET", "NAME", "dovetail-webhook", "The Secret in SYSTEM_NAMESPACE that holds the webhook's certificates",
        |own, text| Ok(own.webhook.secret = object_name(text)?)),
    row(Process, "WEBHOOK_SERVICE", "NAME", "dovetail-webhook", "The Service in SYSTEM_NAMESPACE by which the API server reaches the webhook, on port 443",
        |own, text| Ok(own.webhook.service = object_name(text)?)),
    row(Process, "WEBHOOK_URL", "URL", "", "Where the API server reaches the webhook instead of by its Service: a control plane outside of the cluster's network",
        |own, text| Ok(own.webhook.url = https_url(text)?)),

    row(NoEffect, "AWS_FEATURE_GATES", "NAME=BOOL,…", "", "Karpenter's gates of the AWS provider: NodeClassCEL is not implemented", |_, text| gates(text).map(drop)),
    row(NoEffect, "DISABLE_CONTROLLER_WARMUP", BOOL, "true", "Standbys here are always warm", |_, text| boolean(text).map(drop)),
    row(NoEffect, "ENABLE_PROFILING", BOOL, "false", "Go's profiler: there is none", |_, text| boolean(text).map(drop)),
    row(NoEffect, "ENABLE_ZONAL_SHIFT", BOOL, "false", "Zonal shifts are not implemented: zones are used whatever is shifted away", |_, text| boolean(text).map(drop)),
    row(NoEffect, "IGNORE_DRA_REQUESTS", BOOL, "true", "Dynamic resource allocation is not implemented: pods with resourceClaims get no node", |_, text| boolean(text).map(drop)),
    row(NoEffect, "KARPENTER_SERVICE", "NAME", "", "The service of Karpenter's old webhooks: there are none", |_, _| Ok(())),
    row(NoEffect, "LOG_ERROR_OUTPUT_PATHS", "PATHS", "stderr", "Where Karpenter's logger reports its own errors: ours are in the log", |_, text| outputs(text).map(drop)),
    row(NoEffect, "MEMORY_LIMIT", "BYTES", "-1", "The soft limit of Go's garbage collector: there is none here", |_, text| number::<i64>(text, "an integer of bytes, or -1").map(drop)),
];

const PORT: &str = "a port, 0 to 65535";

fn at_least_one(text: &str) -> Result<u32, ValueRefusal> {
    const ALLOWED: &str = "an integer from 1";
    let count: u32 = number(text, ALLOWED)?;
    if count > 0 { Ok(count) } else { super::parse::refuse("it must be above zero", ALLOWED) }
}
