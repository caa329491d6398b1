//! Every setting that is understood: its name, what it is for, and how its text is read. `run --help` and
//! docs/settings.md are made from this table.

use super::Settings;
use super::disruption::{factor, part, rebalance, time_from_zero};
use super::parse::{
    ValueRefusal, above_zero, address, adopt_as, boolean, ca_bundle, delay, duration, filled, from_zero, gates,
    https_url, interruptions, kubernetes_version, log_format, min_values, minute_at_least, number, object_name, one_of,
    outputs, policy, port_or_none, preferences, queue, queue_region, share, times, token, url, whole_seconds,
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
    row(Cluster, "CLUSTER_ENDPOINT", "URL", "", "The API server's address, for nodes; without it Dovetail asks EKS",
        |own, text| Ok(own.cluster_endpoint = url(text)?)),
    row(Cluster, "CLUSTER_NAME", "NAME", "", "The cluster's name, which tags and instances carry. Required",
        |own, text| Ok(own.cluster_name = filled(text)?)),
    row(Cluster, "EKS_CONTROL_PLANE", BOOL, "false", "Ask EKS for the Kubernetes version, instead of the API server",
        |own, text| Ok(own.eks_control_plane = boolean(text)?)),
    row(Cluster, "KUBECONFIG", "FILE", "", "The kubeconfig. Without it: the service account in a cluster, else ~/.kube/config",
        |own, text| Ok(own.kube_access.kubeconfig = filled(text)?)),
    row(Cluster, "KUBERNETES_MIN_VERSION", "VERSION", "1.19.0-0", "The oldest Kubernetes version allowed; with an older one run ends at its start",
        |own, text| Ok(own.kubernetes_min = kubernetes_version(text)?)),
    row(Cluster, "KUBE_CLIENT_BURST", "COUNT", "300", "Requests to the API server that may be sent at once",
        |own, text| Ok(own.kube_access.burst = at_least_one(text)?)),
    row(Cluster, "KUBE_CLIENT_QPS", "RATE", "200", "Requests to the API server per second; the Lease has a connection of its own",
        |own, text| Ok(own.kube_access.qps = above_zero(text, "a number above zero")?)),
    row(Cluster, "KUBE_CONTEXT", "NAME", "", "The kubeconfig's context, instead of its current one",
        |own, text| Ok(own.kube_access.context = filled(text)?)),
    row(Cluster, "STARTUP_TIMEOUT", "DURATION", "30s", "How long run waits at its start for the API server, and for AWS",
        |own, text| Ok(own.startup_timeout = duration(text)?)),

    row(Aws, "ADOPT_KARPENTER_INSTANCES", BOOL, "false", "Treat instances that Karpenter launched for this cluster as Dovetail's own, if their tags name the cluster and their NodeClaim; false: Dovetail neither drains nor ends them",
        |own, text| Ok(own.adopt_karpenter_instances = boolean(text)?)),
    row(Aws, "AMI_REFRESH_INTERVAL", "DURATION", "1m", "How often Dovetail looks up what a node class selects (images, subnets and all); the shorter of this and SUBNET_REFRESH_INTERVAL counts; 1m at least",
        |own, text| Ok(own.ami_refresh = minute_at_least(text)?)),
    row(Aws, "AWS_REGION", "REGION", "", "The region; without it that of the profile or of the instance",
        |own, text| Ok(own.aws_region = filled(text)?)),
    row(Aws, "DEFAULT_INSTANCE_PROFILE", "NAME", "", "The nodes' instance profile if a Provisioner or AWSNodeTemplate names none; without it Dovetail makes a profile for the role KarpenterNodeRole-CLUSTER_NAME",
        |own, text| Ok(own.default_instance_profile = filled(text)?)),
    row(Aws, "DISABLE_DRY_RUN", BOOL, "false", "Do not check node classes by dry runs of launches: a missing permission then shows at the first launch",
        |own, text| Ok(own.disable_dry_run = boolean(text)?)),
    row(Aws, "FEATURE_GATES", "NAME=BOOL,…", "ReservedCapacity=true", "Karpenter's feature gates. ReservedCapacity: use capacity reservations where node classes select them, and only there; NodeRepair: replace nodes that are unhealthy for too long; SpotToSpotConsolidation: replace spot nodes by cheaper spot nodes; ManyToManyConsolidation (Dovetail's own): replace nodes by several new ones. NodeOverlay, StaticCapacity and CapacityBuffer are not implemented: the log says so at the start, and names unknown gates",
        |own, text| Ok(own.set_gates(gates(text)?))),
    row(Aws, "INTERRUPTION", "WAY", "replace", "replace: an interrupted node's pods get their places first; evict: the node is drained at once, as Karpenter does it",
        |own, text| Ok(own.interruption = interruptions(text)?)),
    row(Aws, "INTERRUPTION_QUEUE", "NAME", "", "The SQS queue with interruption warnings, by name, URL or ARN; without it Dovetail receives none",
        |own, text| Ok((own.interruption_queue, own.interruption_queue_region) = (queue(text)?, queue_region(text).to_owned()))),
    row(Aws, "ISOLATED_VPC", BOOL, "false", "The VPC cannot reach the pricing API: use the on-demand prices that ship with the binary",
        |own, text| Ok(own.isolated_vpc = boolean(text)?)),
    row(Aws, "REBALANCE", "WAY", "event", "What a rebalance recommendation of EC2 causes. event: only an event; replace: the node is replaced as well, with places for its pods first, within ten minutes at most",
        |own, text| Ok(own.rebalance = rebalance(text)?)),
    row(Aws, "RESERVED_ENIS", "COUNT", "0", "Network interfaces that pods cannot have",
        |own, text| Ok(own.reserved_enis = number(text, "an integer from 0")?)),
    row(Aws, "SPOT_PRICE_REFRESH_INTERVAL", "DURATION", "1h", "How often spot prices are read anew, all zones at once; those known count until others have come. never: they are read once, at the start",
        |own, text| Ok(own.spot_price_refresh = delay(text)?)),
    row(Aws, "SUBNET_REFRESH_INTERVAL", "DURATION", "1m", "As AMI_REFRESH_INTERVAL: the shorter of the two counts; 1m at least",
        |own, text| Ok(own.subnet_refresh = minute_at_least(text)?)),
    row(Aws, "VM_MEMORY_OVERHEAD_PERCENT", "FRACTION", "0.075", "Share of an instance's memory that its hypervisor keeps",
        |own, text| Ok(own.vm_memory_overhead = share(text)?)),

    row(Packing, "BATCH_BY_PACE", BOOL, "true", "End the batch of a burst of twenty or more pods early, if that is sooner than BATCH_IDLE_DURATION: when no pod has come for twenty mean pauses between its pods, three of the longest pauses, and a quarter of a second. false: as Karpenter does it",
        |own, text| Ok(own.batch_by_pace = boolean(text)?)),
    row(Packing, "BATCH_IDLE_DURATION", "DURATION", "1s", "Close a batch when no pod has come for this long",
        |own, text| Ok(own.batch_idle = duration(text)?)),
    row(Packing, "BATCH_MAX_DURATION", "DURATION", "10s", "Close a batch after this long at the latest",
        |own, text| Ok(own.batch_max = duration(text)?)),
    row(Packing, "BATCH_MAX_PODS", "COUNT", "3000", "Close a batch at once when it has this many pods, even if more come",
        |own, text| Ok(own.batch_most = at_least_one(text)? as usize)),
    row(Packing, "MAX_COST_PER_HOUR", "DOLLARS", "", "A ceiling on the price of all instances per hour; without it there is none",
        |own, text| Ok(own.ceilings.cost = Some(above_zero(text, "$ an hour above zero, such as 12.50")?))),
    row(Packing, "MAX_LAUNCHES_PER_HOUR", "COUNT", "", "A ceiling on launches in any hour; without it there is none",
        |own, text| Ok(own.ceilings.launches = Some(at_least_one(text)?))),
    row(Packing, "MAX_OPTION_PRICE", "TIMES", "", "How many times the price of its cheapest instance type another type of a NodeClaim may cost, from 1. Without it 1.5, and 2 for types with GPUs or other accelerators. To keep to this, and to a mean of 1.25 times the cheapest, a NodeClaim names fewer than 15 types, unless minValues need more",
        |own, text| Ok(own.max_option_price = times(text)?)),
    row(Packing, "MIN_VALUES_POLICY", "POLICY", "Strict", "Strict: pods wait if minValues cannot be met; BestEffort: minValues are lowered, and the NodeClaim says so",
        |own, text| Ok(own.min_values = min_values(text)?)),
    row(Packing, "PACKING_COMPARISON_INTERVAL", "DURATION", "1m", "How often at most a packing is compared with the price of fewest-nodes, for the metrics; never: no comparison, as in sandbox and simulate",
        |own, text| Ok(own.packing_comparison = delay(text)?)),
    row(Packing, "PACKING_POLICY", "POLICY", "cost", "For pools that do not specify one: cost, or fewest-nodes, which packs as Karpenter does. simulate also takes node-groups, which packs as Cluster Autoscaler does, for comparison",
        |own, text| Ok(own.policy = policy(text)?)),
    row(Packing, "PREFERENCE_POLICY", "POLICY", "Respect", "Respect or Ignore the soft scheduling terms of pods (preferred, ScheduleAnyway)",
        |own, text| Ok(own.preferences = preferences(text)?)),
    row(Packing, "PRICE_PER_NODE", "DOLLARS", "0.02", "What it is worth per hour to avoid one more node; the policy cost weighs it, and it is not part of the price",
        |own, text| Ok(own.price_per_node = from_zero(text)?)),
    row(Packing, "SCHEDULER_CONFIG", "YAML", "", "kube-scheduler's default topology spread: podTopologySpread.defaultConstraints, as in its configuration",
        |own, text| Ok(own.default_spread = scheduler_config(text)?)),
    row(Packing, "UNSCHEDULED_POD_DELAY", "DURATION", "500ms", "When a pod counts as pending although kube-scheduler has not marked it: after this long, or at once if twenty or more such pods wait together; never: only pods that it has marked Unschedulable, as in Karpenter",
        |own, text| Ok(own.unscheduled_pod_delay = delay(text)?)),

    row(Disruption, "ADOPT_AS", "MODES", "observe,fewest-nodes", "What is held back in NodePools that are taken over from Karpenter, until their annotations say otherwise. observe: Dovetail removes no node by its own decision; fewest-nodes: pods are packed as Karpenter does it; as-is: nothing. A mode that is taken out of this list is released in pools that were taken over before",
        |own, text| Ok(own.adopt_as = adopt_as(text)?)),
    row(Disruption, "CONSOLIDATION_LEAST_AGE", "DURATION", "10m", "The age below which a node is not consolidated, unless it is empty; 0s: no limit",
        |own, text| Ok(own.churn.least_age = time_from_zero(text)?)),
    row(Disruption, "CONSOLIDATION_LEAST_PER_POD", "FACTOR", "1.5", "What deleting a node has to save for each pod that moves, as a multiple of what a mean pod of its pool costs, in pools of the policy cost; 0: any saving",
        |own, text| Ok(own.churn.least_per_pod = factor(text)?)),
    row(Disruption, "CONSOLIDATION_LEAST_SAVING", "FRACTION", "0.15", "The share of the replaced price that a move has to save, in pools of the policy cost",
        |own, text| Ok(own.churn.least_saving = part(text)?)),
    row(Disruption, "CONSOLIDATION_PRICE_MOVES", "FRACTION", "0.01", "The share of all nodes, rounded up, that may be replaced per hour by a node that is no smaller, only because prices differ; 0: none",
        |own, text| Ok(own.churn.price_moves = part(text)?)),
    row(Disruption, "CONSOLIDATION_REST", "DURATION", "1h", "How long a pod that was moved to save money is not moved for that again; 0s: no limit",
        |own, text| Ok(own.churn.rest = time_from_zero(text)?)),
    row(Disruption, "INITIALIZATION_TIMEOUT", "DURATION", "30m", "Delete a registered node that is not ready for pods after this long (a startup taint stays, a requested resource does not come); an event says what it lacks. never: it stays, as in Karpenter",
        |own, text| Ok(own.initialization_timeout = delay(text)?)),
    row(Disruption, "MOVES_ROLLOUT", BOOL, "false", "Restart a Deployment whose pods have the annotation dovetail.dev/move: rollout if their eviction would be refused or would leave no replica; needs patch on deployments (the chart's moves.rollout)",
        |own, text| Ok(own.moves_rollout = boolean(text)?)),

    row(Election, "DISABLE_LEADER_ELECTION", BOOL, "false", "Lead without a Lease: for a single replica",
        |own, text| Ok(own.disable_leader_election = boolean(text)?)),
    row(Election, "FENCE_NAME", "NAME", "dovetail-fence", "The ValidatingAdmissionPolicyBinding by which the API server refuses leaders that have a successor; an elected replica reads it, and does not lead if it names another Lease",
        |own, text| Ok(own.fence_name = object_name(text)?)),
    row(Election, "LEADER_ELECTION_LEASE_DURATION", "DURATION", "15s", "How long the other replicas wait for a leader that does not renew its Lease",
        |own, text| Ok(own.lease.duration = whole_seconds(text)?)),
    row(Election, "LEADER_ELECTION_NAME", "NAME", "karpenter-leader-election", "The Lease; the default is Karpenter's, so that the two never both provision in one namespace",
        |own, text| Ok(own.lease_name = object_name(text)?)),
    row(Election, "LEADER_ELECTION_NAMESPACE", "NAME", "", "The Lease's namespace; without it SYSTEM_NAMESPACE",
        |own, text| Ok(own.lease_namespace = object_name(text)?)),
    row(Election, "LEADER_ELECTION_RENEW_DEADLINE", "DURATION", "10s", "A leader that could not renew its Lease for so long stops; well below the Lease's duration",
        |own, text| Ok(own.lease.renew_deadline = duration(text)?)),
    row(Election, "LEADER_ELECTION_RETRY_PERIOD", "DURATION", "2s", "Pause between two renewals, and between a standby's looks where it hears of no change",
        |own, text| Ok(own.lease.retry = duration(text)?)),
    row(Election, "SYSTEM_NAMESPACE", "NAME", "kube-system", "Where the control plane runs; in a cluster the service account's namespace",
        |own, text| Ok(own.system_namespace = object_name(text)?)),

    row(Process, "BIND_ADDRESS", "IP", "", "The address of metrics and health; without it all addresses in a cluster, loopback elsewhere",
        |own, text| Ok(own.bind_address = address(text)?)),
    row(Process, "CONSOLE_PORT", "PORT", "8082", "The port of the console, on loopback (kubectl port-forward reaches it) unless CONSOLE_TOKEN is set; 0 takes a free one, none switches the console off",
        |own, text| Ok(own.console_port = port_or_none(text)?)),
    row(Process, "CONSOLE_TOKEN", TOKEN, "", "The bearer token or password that the console asks for; with it the console is served at the address of the metrics. Best set from a Secret in the environment",
        |own, text| Ok(own.console_token = token(text)?)),
    row(Process, "CPU_REQUESTS", "MILLICORES", "1000", "The container's CPU request: Dovetail computes as many packings in parallel as it has cores",
        |own, text| Ok(own.cpu_requests = number(text, "an integer of millicores")?)),
    row(Process, "DISABLE_CLUSTER_STATE_OBSERVABILITY", BOOL, "false", "Leave out the metrics that have a series for each node and each pod",
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
    row(Process, "SHADOW", BOOL, "false", "Only watch: write nothing and take no Lease. METRICS_PORT serves a report under /shadow: what Dovetail would launch and remove, beside what another provisioner does",
        |own, text| Ok(own.shadow = boolean(text)?)),
    row(Process, "WEBHOOK_ENABLED", BOOL, "false", "Convert v1beta1 for the API server: every replica serves the webhook, and the leader maintains its certificates and makes the CRDs serve v1beta1; the chart switches it on",
        |own, text| Ok(own.webhook.enabled = boolean(text)?)),
    row(Process, "WEBHOOK_PORT", "PORT", "8443", "The port of the conversion webhook; 0 takes a free one",
        |own, text| Ok(own.webhook.port = number(text, PORT)?)),
    row(Process, "WEBHOOK_SECRET", "NAME", "dovetail-webhook", "The Secret in SYSTEM_NAMESPACE that holds the webhook's certificates",
        |own, text| Ok(own.webhook.secret = object_name(text)?)),
    row(Process, "WEBHOOK_SERVICE", "NAME", "dovetail-webhook", "The Service in SYSTEM_NAMESPACE by which the API server reaches the webhook, on port 443",
        |own, text| Ok(own.webhook.service = object_name(text)?)),
    row(Process, "WEBHOOK_URL", "URL", "", "The webhook's address if the API server does not reach it by its Service: for a control plane outside of the cluster's network",
        |own, text| Ok(own.webhook.url = https_url(text)?)),

    row(NoEffect, "AWS_FEATURE_GATES", "NAME=BOOL,…", "", "Karpenter's gates of the AWS provider: NodeClassCEL is not implemented", |_, text| gates(text).map(drop)),
    row(NoEffect, "DISABLE_CONTROLLER_WARMUP", BOOL, "true", "Standbys here are always warm", |_, text| boolean(text).map(drop)),
    row(NoEffect, "ENABLE_PROFILING", BOOL, "false", "Go's profiler: there is none", |_, text| boolean(text).map(drop)),
    row(NoEffect, "ENABLE_ZONAL_SHIFT", BOOL, "false", "Zonal shifts are not implemented: Dovetail also uses zones that traffic is shifted away from", |_, text| boolean(text).map(drop)),
    row(NoEffect, "IGNORE_DRA_REQUESTS", BOOL, "true", "Dynamic resource allocation is not implemented: pods with resourceClaims get no node", |_, text| boolean(text).map(drop)),
    row(NoEffect, "KARPENTER_SERVICE", "NAME", "", "The service of Karpenter's old webhooks: there are none", |_, _| Ok(())),
    row(NoEffect, "LOG_ERROR_OUTPUT_PATHS", "PATHS", "stderr", "Where Karpenter's logger reports its own errors; Dovetail's are in the log", |_, text| outputs(text).map(drop)),
    row(NoEffect, "MEMORY_LIMIT", "BYTES", "-1", "The soft limit of Go's garbage collector: Dovetail has none", |_, text| number::<i64>(text, "an integer of bytes, or -1").map(drop)),
];

const PORT: &str = "a port, 0 to 65535";

fn at_least_one(text: &str) -> Result<u32, ValueRefusal> {
    const ALLOWED: &str = "an integer from 1";
    let count: u32 = number(text, ALLOWED)?;
    if count > 0 { Ok(count) } else { super::parse::refuse("it must be above zero", ALLOWED) }
}
