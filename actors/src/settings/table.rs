//! Every setting that is understood: its name, what it is for, and how its text is read. `run --help` and
//! docs/settings.md are made from this table.

use super::Settings;
use super::disruption::{factor, part, rebalance, time_from_zero, waves};
use super::parse::{
    ValueRefusal, above_zero, address, adopt_as, boolean, ca_bundle, cutoff, delay, duration, ec2_limits, filled,
    from_zero, gates, https_url, interruptions, kubernetes_version, log_format, min_values, minute_at_least,
    minute_at_least_or_never, number, object_name, one_of, outputs, percent, policy, port_or_none, preferences,
    provider, queue, queue_region, share, tenth_at_least, times, token, url, whole_seconds,
};
use super::scheduler_config::scheduler_config;

/// Topics of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// The cluster to manage.
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
    /// The topic as a heading.
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

/// A setting by its name.
pub struct KnownSetting {
    /// Topic of the setting.
    pub topic: Topic,
    /// Its name in the environment.
    pub name: &'static str,
    /// Kind of its value, in a word: `DURATION`.
    pub value: &'static str,
    /// Its default as text.
    pub default: &'static str,
    /// Purpose of the setting.
    pub what: &'static str,
    /// Parses a value and sets it.
    pub set: Setter,
}

impl KnownSetting {
    /// Its name as a flag, without the dashes in front.
    pub fn flag(&self) -> String {
        self.name.to_ascii_lowercase().replace('_', "-")
    }

    /// True for an on-off setting, whose flag alone means `true`.
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
    row(Cluster, "CLUSTER_CA_BUNDLE", "BASE64", "", "The cluster's certificate authority, for nodes; without it, the one of Dovetail's own connection",
        |own, text| Ok(own.cluster_ca_bundle = ca_bundle(text)?)),
    row(Cluster, "CLUSTER_ENDPOINT", "URL", "", "The API server's address, for nodes; without it, Dovetail asks EKS",
        |own, text| Ok(own.cluster_endpoint = url(text)?)),
    row(Cluster, "CLUSTER_NAME", "NAME", "", "The cluster's name, in the tags of what Dovetail creates. Required",
        |own, text| Ok(own.cluster_name = filled(text)?)),
    row(Cluster, "EKS_CONTROL_PLANE", BOOL, "false", "Ask EKS for the Kubernetes version, instead of the API server",
        |own, text| Ok(own.eks_control_plane = boolean(text)?)),
    row(Cluster, "INSTANCE_TYPES_FILE_PATH", "FILE", "", "With PROVIDER=kwok: the catalogue of instance types, a JSON file as Karpenter's kwok provider reads it; without it, a generic one that is built in",
        |own, text| Ok(own.instance_types_file = filled(text)?)),
    row(Cluster, "KUBECONFIG", "FILE", "", "The kubeconfig; without it, the service account inside a cluster, else ~/.kube/config",
        |own, text| Ok(own.kube_access.kubeconfig = filled(text)?)),
    row(Cluster, "KUBERNETES_MIN_VERSION", "VERSION", "1.19.0-0", "The oldest Kubernetes version that is allowed: run refuses to start on an older one",
        |own, text| Ok(own.kube_access.oldest = kubernetes_version(text)?)),
    row(Cluster, "KUBE_CLIENT_BURST", "COUNT", "300", "Requests to the API server that may be sent at once",
        |own, text| Ok(own.kube_access.burst = at_least_one(text)?)),
    row(Cluster, "KUBE_CLIENT_QPS", "RATE", "200", "Requests to the API server per second; the Lease has its own connection",
        |own, text| Ok(own.kube_access.qps = above_zero(text, "a number above zero")?)),
    row(Cluster, "KUBE_CONTEXT", "NAME", "", "The kubeconfig's context, instead of its current one",
        |own, text| Ok(own.kube_access.context = filled(text)?)),
    row(Cluster, "PROVIDER", "NAME", "ec2", "What makes the nodes: ec2, or kwok, with which no machine and no AWS account is needed (docs/guide/kwok.md)",
        |own, text| Ok(own.provider = provider(text)?)),
    row(Cluster, "STARTUP_TIMEOUT", "DURATION", "30s", "How long run waits for the API server, and for AWS, at the start",
        |own, text| Ok(own.kube_access.startup_timeout = duration(text)?)),

    row(Aws, "ADOPT_KARPENTER_INSTANCES", BOOL, "false", "true: Dovetail owns instances that Karpenter launched for this cluster, where their tags name the cluster and their NodeClaim; false: it neither drains nor terminates them",
        |own, text| Ok(own.adopt_karpenter_instances = boolean(text)?)),
    row(Aws, "AMI_REFRESH_INTERVAL", "DURATION", "1m", "How long Dovetail uses what a node class selects (images, subnets and all else) before it asks again. The shorter of this and SUBNET_REFRESH_INTERVAL counts; 1m at least",
        |own, text| Ok(own.ami_refresh = minute_at_least(text)?)),
    row(Aws, "AWS_FEATURE_GATES", "NAME=BOOL,…", "", "Karpenter's gates of the AWS provider. DRANVIDIAGPU: with IGNORE_DRA_REQUESTS=false, launch nodes for claims on NVIDIA's GPUs by what the catalogue knows of them. DRAEFA: the same for EFA interfaces. NodeClassCEL is not implemented",
        |own, text| Ok(own.aws_gates = gates(text)?.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect())),
    row(Aws, "AWS_REGION", "REGION", "", "The region; without it, the region of the profile or of the instance",
        |own, text| Ok(own.aws_region = filled(text)?)),
    row(Aws, "COMMITMENTS", "YAML", "", "Savings Plans and Reserved Instances that are paid for (docs/commitments.md): launches and consolidation are weighed by the bill of all nodes. account: those that AWS says of the account, alone or as an entry of the list. Empty: none count",
        |own, text| own.commitments.read_setting(text)),
    row(Aws, "COMMITMENTS_SHARE", "FRACTION", "1", "The part of each commitment that is this cluster's, where the commitment does not say: others of the account use the rest",
        |own, text| Ok(own.commitments.share = part(text)?)),
    row(Aws, "DEFAULT_INSTANCE_PROFILE", "NAME", "", "The nodes' instance profile where a Provisioner or AWSNodeTemplate names none; without it, Dovetail makes a profile of the role KarpenterNodeRole-CLUSTER_NAME",
        |own, text| Ok(own.default_instance_profile = filled(text)?)),
    row(Aws, "DISABLE_DRY_RUN", BOOL, "false", "true: do not check node classes by dry runs of launches. A missing permission then shows at the first launch",
        |own, text| Ok(own.disable_dry_run = boolean(text)?)),
    row(Aws, "EC2_LIMITS", "NAME=SIZE/RATE,…", "", "EC2's token buckets that are larger in this account than AWS publishes, such as InstancesLaunched=5000/20: what a bucket holds, and what comes back a second. Names: Describe, Mutate, RunInstances, TerminateInstances, Tags, InstancesLaunched, InstancesTerminated",
        |own, text| Ok(own.scale.ec2_limits = ec2_limits(text)?)),
    row(Aws, "ENABLE_ZONAL_SHIFT", BOOL, "false", "true: heed zonal shifts of Amazon Application Recovery Controller. While the EKS cluster is shifted away from a zone, nothing is launched there and no node there is disrupted",
        |own, text| Ok(own.zonal_shift = boolean(text)?)),
    row(Aws, "FEATURE_GATES", "NAME=BOOL,…", "Drift=true,ReservedCapacity=true", "Karpenter's feature gates. Drift: replace nodes that are no longer what their NodePool and EC2NodeClass ask for. ReservedCapacity: use capacity reservations where node classes select them, and only there. NodeRepair: replace nodes that are unhealthy for too long. RebootForRepair: with NodeRepair, reboot them first where that may mend them. SpotToSpotConsolidation: replace spot nodes by cheaper spot nodes. ManyToManyConsolidation (Dovetail's own): replace nodes by several new ones. StaticCapacity: hold the nodes of NodePools with replicas. TerminateFirstDrift, TerminateFirstRepair: let a node of such a pool at its limit go before its successor. CapacityBuffer: hold the room of CapacityBuffers. CapacityQuota (Dovetail's own): hold CapacityQuotas. ProvisioningRequest (Dovetail's own): give all pods of a ProvisioningRequest room, or none. GangScheduling (Dovetail's own): give pods of a PodGroup's gang nodes together, or none. NodeOverlay: go by the prices and resources of NodeOverlays. PodDeletionCostManagement: write deletion costs of pods, so that ReplicaSets that are scaled in empty the nodes that are to go. VerticalPodAutoscaler (Dovetail's own): pods that move count with the requests that VerticalPodAutoscalers recommend. run reports unknown names at the start",
        |own, text| Ok(own.set_gates(gates(text)?))),
    row(Aws, "INTERRUPTION", "WAY", "replace", "replace: new places for an interrupted node's pods come first; evict: the node is drained at once, Karpenter's way",
        |own, text| Ok(own.interruption = interruptions(text)?)),
    row(Aws, "INTERRUPTION_QUEUE", "NAME", "", "The SQS queue with interruption warnings, by name, URL or ARN; without it, Dovetail gets no warnings",
        |own, text| Ok((own.interruption_queue, own.interruption_queue_region) = (queue(text)?, queue_region(text).to_owned()))),
    row(Aws, "ISOLATED_VPC", BOOL, "false", "true: the VPC cannot reach the pricing API, so on-demand prices are those that ship with the binary",
        |own, text| Ok(own.isolated_vpc = boolean(text)?)),
    row(Aws, "OPEN_RESERVATIONS", BOOL, "false", "true: EC2NodeClasses without capacityReservationSelectorTerms use the open capacity reservations of their zones, in NodePools that allow capacity type reserved; false: they use none, and no launch takes of one by chance",
        |own, text| Ok(own.open_reservations = boolean(text)?)),
    row(Aws, "REBALANCE", "WAY", "event", "event: a rebalance recommendation of EC2 only emits an event; replace: the node is replaced as well, with new places for its pods first, within ten minutes at most",
        |own, text| Ok(own.rebalance = rebalance(text)?)),
    row(Aws, "RESERVED_ENIS", "COUNT", "0", "Network interfaces of each node that pods cannot use",
        |own, text| Ok(own.reserved_enis = number(text, "an integer from 0")?)),
    row(Aws, "SPOT_PRICE_REFRESH_INTERVAL", "DURATION", "1h", "How often Dovetail reads the spot prices of all zones; until new ones come, the known ones count. 1m at least; never: it reads them once, at the start",
        |own, text| Ok(own.spot_price_refresh = minute_at_least_or_never(text)?)),
    row(Aws, "SUBNET_REFRESH_INTERVAL", "DURATION", "1m", "Like AMI_REFRESH_INTERVAL: the shorter of the two counts; 1m at least",
        |own, text| Ok(own.subnet_refresh = minute_at_least(text)?)),
    row(Aws, "VM_MEMORY_OVERHEAD_PERCENT", "FRACTION", "0.075", "The share of an instance's memory that its hypervisor keeps",
        |own, text| Ok(own.vm_memory_overhead = share(text)?)),

    row(Packing, "BATCH_BY_PACE", BOOL, "true", "true: a burst of twenty pods or more may end its batch sooner than BATCH_IDLE_DURATION. It ends when no pod came for twenty times the burst's mean pause and three times its longest, a quarter of a second at least. false: Karpenter's way",
        |own, text| Ok(own.batch_by_pace = boolean(text)?)),
    row(Packing, "BATCH_IDLE_DURATION", "DURATION", "1s", "A batch of pods closes when no new pod came for this long",
        |own, text| Ok(own.batch_idle = duration(text)?)),
    row(Packing, "BATCH_MAX_DURATION", "DURATION", "10s", "A batch of pods closes after this long at the latest",
        |own, text| Ok(own.batch_max = duration(text)?)),
    row(Packing, "BATCH_MAX_PODS", "COUNT", "3000", "A batch with this many pods closes at once, even if more are coming",
        |own, text| Ok(own.batch_most = at_least_one(text)? as usize)),
    row(Packing, "DAEMONSET_MAX_OVERHEAD_PERCENT", "PERCENT", "80", "The share of a node, of each resource, that DaemonSets take at most in a plan, from 1 to 100. They count by priority. A DaemonSet that would go beyond the share on most of the instance types that it runs on does not count there, and gets the event DaemonSetNotCounted",
        |own, text| Ok(own.daemon_share = percent(text)?)),
    row(Packing, "EXPENDABLE_PODS_PRIORITY_CUTOFF", "PRIORITY", "", "Pods of a lower priority than this get no node: they run where room is left, a node that has no other pods counts as empty, and no places are made for them. Cluster Autoscaler's value is -10. Without it, every pod counts",
        |own, text| Ok(own.expendable = cutoff(text)?)),
    row(Packing, "IGNORE_DRA_REQUESTS", BOOL, "true", "true: pods with resourceClaims get no node. false: they get nodes with the devices that they claim (docs/dra.md); needs Kubernetes 1.34",
        |own, text| Ok(own.ignore_devices = boolean(text)?)),
    row(Packing, "INTERRUPTION_PRICE_HALF_LIFE", "DURATION", "never", "Each own spot interruption raises the price by which plans weigh its instance type and zone by a fifth, up to one and a half times; after this long by half as much. never: interruptions raise no price",
        |own, text| Ok(own.interruption_half_life = delay(text)?)),
    row(Packing, "MAX_COST_PER_HOUR", "DOLLARS", "", "A ceiling on what all instances cost per hour; without it, no ceiling",
        |own, text| Ok(own.ceilings.cost = Some(above_zero(text, "$ an hour above zero, such as 12.50")?))),
    row(Packing, "MAX_FUTILE_COST", "DOLLARS", "100", "The most that launches of one NodePool that came to nothing within an hour may cost together, in $ per hour; above it one launch at a time is tried. All NodePools together: three times as much. never: no such bound",
        |own, text| Ok(own.futile.cost = unless_never(text, f64::INFINITY, |text| above_zero(text, "$ an hour above zero, such as 12.50; or never"))?)),
    row(Packing, "MAX_FUTILE_LAUNCHES", "COUNT", "10", "The most launches of one NodePool that may come to nothing within an hour; above it one launch at a time is tried, until a node comes to be used. All NodePools together: three times as many. never: no such bound",
        |own, text| Ok(own.futile.launches = unless_never(text, u32::MAX, at_least_one).map_err(|(what, allowed)| (what, format!("{allowed}, or never")))?)),
    row(Packing, "MAX_LAUNCHES_PER_HOUR", "COUNT", "", "A ceiling on launches in any hour; without it, no ceiling",
        |own, text| Ok(own.ceilings.launches = Some(at_least_one(text)?))),
    row(Packing, "MAX_OPTION_PRICE", "TIMES", "", "The most that an instance type of a NodeClaim may cost, as a multiple of the price of the NodeClaim's cheapest type; 1 at least. Without it, 1.5, and 2 for types with GPUs or other accelerators. A type above it is left out even if fewer than 15 types remain. So are types that would raise the average above 1.25 times the cheapest. What minValues need stays in",
        |own, text| Ok(own.max_option_price = times(text)?)),
    row(Packing, "MAX_PRICE_RISE", "TIMES", "never", "The most that a node may cost, as a multiple of what the first plan for the same pods would have cost; their pods wait above it, as where only the largest machines are left. A node of up to 10 $ an hour is launched in any case. From 3 times on it is said, whatever this is",
        |own, text| Ok(own.max_price_rise = unless_never(text, f64::INFINITY, |text| above_zero(text, "a number above zero, such as 20; or never"))?)),
    row(Packing, "MIN_VALUES_POLICY", "POLICY", "Strict", "Strict: pods wait if minValues cannot be met; BestEffort: minValues are lowered, and the NodeClaim says so",
        |own, text| Ok(own.min_values = min_values(text)?)),
    row(Packing, "PACKING_COMPARISON_INTERVAL", "DURATION", "1m", "How often, at most, Dovetail compares its packing with what fewest-nodes would have cost, for the metrics; never: no comparison, as in sandbox and simulate",
        |own, text| Ok(own.packing_comparison = delay(text)?)),
    row(Packing, "PACKING_POLICY", "POLICY", "cost", "For pools that name no policy: cost, or fewest-nodes (Karpenter's way). simulate also has node-groups (Cluster Autoscaler's way), for comparison",
        |own, text| Ok(own.policy = policy(text)?)),
    row(Packing, "PREFERENCE_POLICY", "POLICY", "Respect", "Respect the preferences of pods, or Ignore them",
        |own, text| Ok(own.preferences = preferences(text)?)),
    row(Packing, "PRICE_PER_NODE", "DOLLARS", "0.02", "What it is worth per hour to avoid one more node. The policy cost weighs it; it is not part of the price",
        |own, text| Ok(own.price_per_node = from_zero(text)?)),
    row(Packing, "SCHEDULER_CONFIG", "YAML", "", "kube-scheduler's default topology spread, for pods that have none of their own: podTopologySpread.defaultConstraints, as in its configuration",
        |own, text| Ok(own.default_spread = scheduler_config(text)?)),
    row(Packing, "UNSCHEDULED_POD_DELAY", "DURATION", "500ms", "A pod counts as pending after this long without a word from kube-scheduler, or at once if twenty such pods wait together; never: only pods that kube-scheduler marks Unschedulable count, as in Karpenter",
        |own, text| Ok(own.unscheduled_pod_delay = delay(text)?)),

    row(Disruption, "ADOPT_AS", "MODES", "observe,fewest-nodes", "What Dovetail holds back in NodePools that it takes over from Karpenter, until their annotations say otherwise. observe: it removes no node by its own decision; fewest-nodes: it packs pods Karpenter's way; as-is: it holds nothing back. A word that is taken out is released in pools that were taken over before",
        |own, text| Ok(own.adopt_as = adopt_as(text)?)),
    row(Disruption, "CONSOLIDATION_LEAST_AGE", "DURATION", "10m", "Consolidation leaves nodes younger than this alone, unless they are empty; 0s: nodes of any age may be consolidated",
        |own, text| Ok(own.churn.least_age = time_from_zero(text)?)),
    row(Disruption, "CONSOLIDATION_LEAST_PER_POD", "FACTOR", "1.5", "In pools of the policy cost: what deleting a node has to save for each pod that moves, as a multiple of what a mean pod of the pool costs; 0: any saving will do",
        |own, text| Ok(own.churn.least_per_pod = factor(text)?)),
    row(Disruption, "CONSOLIDATION_LEAST_SAVING", "FRACTION", "0.15", "In pools of the policy cost: the part of the replaced price that a move has to save",
        |own, text| Ok(own.churn.least_saving = part(text)?)),
    row(Disruption, "CONSOLIDATION_PAYBACK", "DURATION", "30m", "In pools of the policy cost: for each pod that moves, what a mean pod costs in this time has to be saved first, counted from when the node could go; three times as much while pods ask for more than an hour ago; 0s: nothing waits",
        |own, text| Ok(own.churn.payback = time_from_zero(text)?)),
    row(Disruption, "CONSOLIDATION_PRICE_MOVES", "FRACTION", "0.01", "The part of all nodes, rounded up, that may be replaced per hour by nodes that are no smaller, because prices differ alone; 0: none",
        |own, text| Ok(own.churn.price_moves = part(text)?)),
    row(Disruption, "CONSOLIDATION_REST", "DURATION", "1h", "A pod that was moved to save money is not moved for that again within this time; 0s: at any time",
        |own, text| Ok(own.churn.rest = time_from_zero(text)?)),
    row(Disruption, "CONSOLIDATION_WAVES", "COUNT", "1", "How many times as many pods as their PodDisruptionBudget allows at once one command of consolidation may move; they go in waves, as the budget allows",
        |own, text| Ok(own.churn.waves = waves(text)?)),
    row(Disruption, "INITIALIZATION_TIMEOUT", "DURATION", "30m", "Dovetail deletes a registered node that is not ready for pods after this long (a startup taint stays, a requested resource does not come). An event says what it lacks; never: the node stays, as in Karpenter",
        |own, text| Ok(own.initialization_timeout = delay(text)?)),
    row(Disruption, "LEGACY_NODE_REPAIR", BOOL, "false", "true: with the gate NodeRepair, remove nodes that are unhealthy for too long by force, before replacements are ready and whatever budgets and PodDisruptionBudgets say, and none where more than a fifth of a NodePool is unhealthy, as Karpenter did before 1.15; false: replace them first, within the budgets for Unhealthy",
        |own, text| Ok(own.churn.legacy_node_repair = boolean(text)?)),
    row(Disruption, "MOVES_ROLLOUT", BOOL, "false", "true: restart a Deployment whose pods have the annotation dovetail.dev/move: rollout, where their eviction would be refused or would leave none; needs patch on deployments (the chart's moves.rollout)",
        |own, text| Ok(own.moves_rollout = boolean(text)?)),

    row(Election, "DISABLE_LEADER_ELECTION", BOOL, "false", "Lead without a Lease: for a single replica",
        |own, text| Ok(own.disable_leader_election = boolean(text)?)),
    row(Election, "FENCE_NAME", "NAME", "dovetail-fence", "The ValidatingAdmissionPolicyBinding by which the API server refuses writes of former leaders. A new leader checks it, and does not lead if it belongs to another Lease",
        |own, text| Ok(own.fence_name = object_name(text)?)),
    row(Election, "LEADER_ELECTION_LEASE_DURATION", "DURATION", "15s", "How long the other replicas wait for a leader that does not renew its Lease",
        |own, text| Ok(own.lease.duration = whole_seconds(text)?)),
    row(Election, "LEADER_ELECTION_NAME", "NAME", "karpenter-leader-election", "The Lease; the default is Karpenter's, so that the two never both provision in one namespace",
        |own, text| Ok(own.lease_name = object_name(text)?)),
    row(Election, "LEADER_ELECTION_NAMESPACE", "NAME", "", "The Lease's namespace; without it, SYSTEM_NAMESPACE",
        |own, text| Ok(own.lease_namespace = object_name(text)?)),
    row(Election, "LEADER_ELECTION_RENEW_DEADLINE", "DURATION", "10s", "A leader that could not renew its Lease for this long stops; keep it well below the Lease's duration",
        |own, text| Ok(own.lease.renew_deadline = duration(text)?)),
    row(Election, "LEADER_ELECTION_RETRY_PERIOD", "DURATION", "2s", "The pause between two renewals; also how often a standby reads the Lease when it receives no change; 100ms at least",
        |own, text| Ok(own.lease.retry = tenth_at_least(text)?)),
    row(Election, "SYSTEM_NAMESPACE", "NAME", "kube-system", "The control plane's namespace; inside a cluster, the namespace of the service account",
        |own, text| Ok(own.system_namespace = object_name(text)?)),

    row(Process, "BIND_ADDRESS", "IP", "", "The address that serves metrics and health; without it, all addresses inside a cluster, loopback elsewhere",
        |own, text| Ok(own.bind_address = address(text)?)),
    row(Process, "CONSOLE_PORT", "PORT", "8082", "The port of the console, on loopback (kubectl port-forward reaches it) unless CONSOLE_TOKEN is set; 0 takes a free port, none switches the console off",
        |own, text| Ok(own.console_port = port_or_none(text)?)),
    row(Process, "CONSOLE_TOKEN", TOKEN, "", "The console asks for this as a bearer token or a password. With it, the console has the same address as metrics. Best set in the environment from a Secret",
        |own, text| Ok(own.console_token = token(text)?)),
    row(Process, "CPU_REQUESTS", "MILLICORES", "1000", "The container's CPU request: Dovetail computes as many packings in parallel as it has cores",
        |own, text| Ok(own.cpu_requests = number(text, "an integer of millicores")?)),
    row(Process, "DISABLE_CLUSTER_STATE_OBSERVABILITY", BOOL, "false", "true: leave out the metrics that have a series for each node and each pod",
        |own, text| Ok(own.scale.without_object_metrics = boolean(text)?)),
    row(Process, "HEALTH_PROBE_PORT", "PORT", "8081", "The port of /healthz and /readyz; 0 takes a free port",
        |own, text| Ok(own.health_probe_port = number(text, PORT)?)),
    row(Process, "LOG_FORMAT", "FORMAT", "auto", "auto, text or json; auto is text on a terminal, else json",
        |own, text| Ok(own.log.format = log_format(text)?)),
    row(Process, "LOG_LEVEL", "LEVEL", "info", "debug, info or error",
        |own, text| Ok(own.log.level = one_of(text, &["debug", "info", "error"])?)),
    row(Process, "LOG_OUTPUT_PATHS", "PATHS", "stdout", "Where the log goes: stdout, stderr or absolute paths, separated by commas",
        |own, text| Ok(own.log.outputs = outputs(text)?)),
    row(Process, "METRICS_PORT", "PORT", "8080", "The port of /metrics; 0 takes a free port",
        |own, text| Ok(own.metrics_port = number(text, PORT)?)),
    row(Process, "OBJECT_METRICS_MAX_NODES", "COUNT", "2000", "With more nodes than this, leave out the metrics that have a series for each node and each pod; dovetail_object_metrics is 0 then. never: never leave them out for that",
        |own, text| Ok(own.scale.object_metrics_most = unless_never(text, usize::MAX, |text| Ok(at_least_one(text)? as usize)).map_err(|(what, allowed)| (what, format!("{allowed}, or never")))?)),
    row(Process, "SHADOW", BOOL, "false", "true: only watch. Dovetail writes nothing and takes no Lease; at METRICS_PORT under /shadow it compares what it would have launched and removed with what another provisioner does",
        |own, text| Ok(own.shadow = boolean(text)?)),
    row(Process, "WEBHOOK_ENABLED", BOOL, "false", "true: convert v1beta1 for the API server. Every replica serves the webhook; the leader keeps its certificates and makes the CRDs serve v1beta1. The chart switches it on",
        |own, text| Ok(own.webhook.enabled = boolean(text)?)),
    row(Process, "WEBHOOK_PORT", "PORT", "8443", "The port of the conversion webhook; 0 takes a free port",
        |own, text| Ok(own.webhook.port = number(text, PORT)?)),
    row(Process, "WEBHOOK_SECRET", "NAME", "dovetail-webhook", "The Secret in SYSTEM_NAMESPACE that holds the webhook's certificates",
        |own, text| Ok(own.webhook.secret = object_name(text)?)),
    row(Process, "WEBHOOK_SERVICE", "NAME", "dovetail-webhook", "The Service in SYSTEM_NAMESPACE through which the API server reaches the webhook, on port 443",
        |own, text| Ok(own.webhook.service = object_name(text)?)),
    row(Process, "WEBHOOK_URL", "URL", "", "Where the API server reaches the webhook instead of its Service: for a control plane outside the cluster's network",
        |own, text| Ok(own.webhook.url = https_url(text)?)),

    row(NoEffect, "DISABLE_CONTROLLER_WARMUP", BOOL, "true", "Standbys of Dovetail are always warm", |_, text| boolean(text).map(drop)),
    row(NoEffect, "ENABLE_PROFILING", BOOL, "false", "Go's profiler: Dovetail has none", |_, text| boolean(text).map(drop)),
    row(NoEffect, "KARPENTER_SERVICE", "NAME", "", "The service of Karpenter's old webhooks: Dovetail has none", |_, _| Ok(())),
    row(NoEffect, "LOG_ERROR_OUTPUT_PATHS", "PATHS", "stderr", "Where Karpenter's logger reports its own errors: Dovetail's are in the log", |_, text| outputs(text).map(drop)),
    row(NoEffect, "MEMORY_LIMIT", "BYTES", "-1", "The soft limit of Go's garbage collector: Dovetail has none", |_, text| number::<i64>(text, "an integer of bytes, or -1").map(drop)),
];

const PORT: &str = "a port, 0 to 65535";

/// A value, or `never` for the one that bounds nothing.
fn unless_never<T>(
    text: &str,
    unbounded: T,
    read: impl Fn(&str) -> Result<T, ValueRefusal>,
) -> Result<T, ValueRefusal> {
    if text == "never" { Ok(unbounded) } else { read(text) }
}

fn at_least_one(text: &str) -> Result<u32, ValueRefusal> {
    const ALLOWED: &str = "an integer from 1";
    let count: u32 = number(text, ALLOWED)?;
    if count > 0 { Ok(count) } else { super::parse::refuse("it must be above zero", ALLOWED) }
}
