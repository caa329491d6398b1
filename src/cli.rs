//! The command line.

mod habits;
mod record;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

use dovetail_api::names::provider::Provider;
use dovetail_core::MaxOptionPrice;

pub use crate::doctor::DoctorArgs;
pub use crate::explain::ExplainArgs;
use crate::live::what_if::LivePlanArgs;
use crate::node_budget::NodeBudget;
pub use crate::run::RunArgs;
pub use crate::top::TopArgs;
use crate::what_if::WhatIfArgs;
pub use habits::{CompletedShell, CompletionsArgs, ManArgs, VersionArgs};
pub use record::{CompareArgs, MetricsArgs, RecordArgs, ReplayArgs, SavingsArgs};

/// Nodes for pending pods on EC2, at the lowest price, and their removal.
#[derive(Parser)]
#[command(name = "dovetail", version)]
pub struct Cli {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of the contract (docs/commands.md).
#[derive(Subcommand)]
pub enum Command {
    /// Pack a workload file or manifests, or what waits on a live cluster: which nodes would come, at what price, what stays pending and why
    Plan(PlanArgs),
    /// Say why a pod waits, a node stays, a claim is not ready or a pool launches nothing, on a live cluster, without a write
    Explain(ExplainArgs),
    /// Look at everything that Dovetail needs, before and while it runs: rights, Lease, CRDs, AWS; 0 green, 1 yellow, 2 red
    Doctor(DoctorArgs),
    /// Show a live cluster's nodes, pools, pending pods and decisions on the terminal, read again and again, without a write
    Top(TopArgs),
    /// Record a live cluster's day as lines that can be played again, without a write
    Record(RecordArgs),
    /// Play a record again, under other settings where they are given
    Replay(ReplayArgs),
    /// Play a record under several settings, side by side: cost, waiting, evictions, launches
    Compare(CompareArgs),
    /// Say what was paid, against what the pods needed and against Karpenter's rules, by a record or by metrics
    Savings(SavingsArgs),
    /// Run a scenario: control plane, cluster and region in one process, on virtual time
    Simulate(SimulateArgs),
    /// Run the control plane and an embedded cluster, live
    Sandbox(SandboxArgs),
    /// Run the control plane on a cluster: from a kubeconfig, or in a pod
    ///
    /// Every setting has a flag and a variable in the environment, named as Karpenter names them; the flag wins. A file (--config)
    /// has what neither says. docs/settings.md has the same list.
    Run(RunArgs),
    /// Write manifests of older versions as v1, and say what changes
    Convert(ConvertArgs),
    /// Print the CRDs as YAML
    Crds(CrdsArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Print a man page, or write all of them
    Man(ManArgs),
    /// Print the version and the commit that it was made from
    Version(VersionArgs),
}

/// The command line, with the examples of each command.
pub fn command() -> clap::Command {
    crate::examples::add_to(Cli::command())
}

/// `dovetail crds`.
#[derive(Args)]
pub struct CrdsArgs {
    /// Provider of the nodes: ec2, or kwok, whose class is KWOKNodeClass
    #[arg(long, default_value = "ec2", env = "PROVIDER", value_parser = provider)]
    pub provider: Provider,
}

fn provider(name: &str) -> Result<Provider, String> {
    Provider::named(name).ok_or_else(|| format!("allowed: {}", Provider::ALL.map(Provider::name).join(", ")))
}

/// `dovetail convert`.
#[derive(Args)]
pub struct ConvertArgs {
    /// Manifests; may be given several times, a folder stands for its files, `-` is standard input
    #[arg(short = 'f', value_name = "FILE", required = true)]
    pub manifests: Vec<String>,
    /// The version to write
    #[arg(long, value_enum, default_value = "v1")]
    pub to: TargetVersion,
    /// The cluster's name: manifests that name no subnets, security groups or role mean this cluster's
    #[arg(long, default_value = "demo", env = "CLUSTER_NAME")]
    pub cluster_name: String,
    /// Print what changes instead, as `diff -u` does
    #[arg(long)]
    pub diff: bool,
    /// Values for ${VAR}; a variable without a value stays a variable.
    #[command(flatten)]
    pub environment: EnvArgs,
}

/// The versions that `convert` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TargetVersion {
    /// NodePool and NodeClaim of karpenter.sh/v1, EC2NodeClass of karpenter.k8s.aws/v1
    V1,
}

/// Sources of the values for `${VAR}` in manifests.
#[derive(Args, Clone, Default)]
pub struct EnvArgs {
    /// Fills ${NAME} in manifests; may be given several times
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// A file of NAME=VALUE lines
    #[arg(long, value_name = "FILE")]
    pub env_file: Vec<String>,
}

/// `dovetail plan`.
#[derive(Args)]
pub struct PlanArgs {
    /// A workload file, JSON, plain or gzipped
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "manifests",
        required_unless_present_any = ["manifests", "live", "kubeconfig"]
    )]
    pub workload: Option<String>,
    /// Manifests: pools, classes and workloads; may be given several times, a folder stands for its files, `-` is standard input
    #[arg(short = 'f', value_name = "FILE")]
    pub manifests: Vec<String>,
    /// The region whose catalogue and prices are used with -f; that of the Nodes among them, or us-east-1, unless given
    #[arg(long, env = "AWS_REGION")]
    pub region: Option<String>,
    /// The cluster's name, which names roles and discovery tags
    #[arg(long, default_value = "demo", env = "CLUSTER_NAME")]
    pub cluster_name: String,
    /// Policy for the choice of nodes
    #[arg(long, visible_alias = "policy", value_enum, env = "PACKING_POLICY")]
    pub packing_policy: Option<PackingPolicy>,
    /// Price of having a node more, in dollars an hour: weighed by the policy cost, not part of the price
    #[arg(long, value_name = "DOLLARS", default_value = "0.02", value_parser = dollars, env = "PRICE_PER_NODE")]
    pub price_per_node: f64,
    /// Karpenter's feature gates that a plan of manifests knows: StaticCapacity=true plans the nodes of static pools, CapacityBuffer=true the room of CapacityBuffers; CapacityQuota=true holds CapacityQuotas; GangScheduling=true plans pods of PodGroups together or not at all
    #[arg(long, value_name = "NAME=BOOL,…", env = "FEATURE_GATES")]
    pub feature_gates: Option<String>,
    /// false: pods of manifests with resourceClaims are planned for, by the devices that the catalogue and ResourceSlices among the manifests have; true: they get no node; unless given, false with a DeviceClass among the manifests
    #[arg(long, value_name = "BOOL", value_parser = clap::builder::BoolishValueParser::new(), env = "IGNORE_DRA_REQUESTS")]
    pub ignore_dra_requests: Option<bool>,
    /// Pods of manifests of a lower priority than this get no node
    #[arg(long, value_name = "PRIORITY", allow_negative_numbers = true, env = "EXPENDABLE_PODS_PRIORITY_CUTOFF")]
    pub expendable_pods_priority_cutoff: Option<i32>,
    /// Most that another type of a node may cost, in times the price of its cheapest type; 1.5, and 2 for GPUs, unless given
    #[arg(long, value_name = "TIMES", value_parser = times, env = "MAX_OPTION_PRICE")]
    pub max_option_price: Option<MaxOptionPrice>,
    /// Savings Plans and Reserved Instances that are paid for, YAML or JSON (docs/commitments.md)
    #[arg(long, value_name = "FILE")]
    pub commitments: Option<String>,
    /// Consolidate the workload file's nodes, each command done at once, until nothing more is worth it; pods that wait are left out
    #[arg(long, requires = "workload")]
    pub consolidate: bool,
    /// Most nodes of a pool that one command of --consolidate may take: a number, or a percentage of them, rounded up
    #[arg(long, value_name = "NODES", default_value = "100%", value_parser = NodeBudget::parse, requires = "consolidate")]
    pub budget: NodeBudget,
    /// Let --consolidate replace spot nodes by cheaper spot nodes
    #[arg(long, requires = "consolidate")]
    pub spot_to_spot: bool,
    /// Let --consolidate replace nodes by several new ones
    #[arg(long, requires = "consolidate")]
    pub many_to_many: bool,
    /// Write the cluster that --consolidate ends with as a plan of all its pods, JSON
    #[arg(long, value_name = "FILE", requires = "consolidate")]
    pub plan_out: Option<String>,
    /// The answer as JSON
    #[arg(long)]
    pub json: bool,
    /// Form of the answer
    #[arg(short = 'o', long, value_enum, value_name = "FORM", conflicts_with_all = ["json", "consolidate"])]
    pub output: Option<PlanForm>,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Values for ${VAR}.
    #[command(flatten)]
    pub environment: EnvArgs,
    /// A live cluster in place of files, and what-ifs about it.
    #[command(flatten)]
    pub live: LivePlanArgs,
    /// Other what-ifs.
    #[command(flatten)]
    pub what_if: WhatIfArgs,
}

/// Forms of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanForm {
    /// For a person
    Text,
    /// For a person, with every option and every pod that stays pending
    Wide,
    /// For a machine
    Json,
    /// For a machine, and a person
    Yaml,
}

impl PlanArgs {
    /// The form that is asked for.
    pub fn form(&self) -> PlanForm {
        if self.json { PlanForm::Json } else { self.output.unwrap_or(PlanForm::Text) }
    }
}

/// An amount of dollars, from zero.
fn dollars(text: &str) -> Result<f64, String> {
    let amount: Option<f64> = text.parse().ok();
    let amount = amount.filter(|amount| amount.is_finite() && *amount >= 0.0);
    amount.ok_or_else(|| "allowed: dollars an hour from zero, such as 0.05".to_owned())
}

/// A ceiling on prices, in parts of the cheapest.
fn times(text: &str) -> Result<MaxOptionPrice, String> {
    let times = text.parse().ok().and_then(MaxOptionPrice::times);
    times.ok_or_else(|| "allowed: a number from 1, such as 1.5".to_owned())
}

/// Policies for the choice of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PackingPolicy {
    /// The lowest price
    Cost,
    /// The fewest nodes, Karpenter's way
    FewestNodes,
    /// Groups of fixed types, Cluster Autoscaler's way, for comparison: pools, and the node groups of an eksctl ClusterConfig
    NodeGroups,
}

/// `dovetail simulate`.
#[derive(Args, Clone)]
pub struct SimulateArgs {
    /// The scenario, YAML
    #[arg(required_unless_present = "random", conflicts_with = "random")]
    pub scenario: Option<String>,
    /// Play scenarios drawn from seeds
    #[arg(long)]
    pub random: bool,
    /// Seeds to play: 17, or 1..200; 1..20 unless given
    #[arg(long, requires = "random")]
    pub seeds: Option<String>,
    /// Folder for the scenarios; without it only those that fail are written, to the temporary folder
    #[arg(long, value_name = "FOLDER", requires = "random")]
    pub out: Option<String>,
    /// Cut a scenario that fails down to what it fails by; the rest is written beside it as shrunk.yaml
    #[arg(long, conflicts_with_all = ["json", "events", "traces", "metrics"])]
    pub shrink: bool,
    /// Print the report alone, as JSON
    #[arg(long)]
    pub json: bool,
    /// Write everything that happened, JSON Lines
    #[arg(long, value_name = "FILE")]
    pub events: Option<String>,
    /// Break something on purpose, so that the checks are seen to fail
    #[arg(long = "break", value_enum, hide = true)]
    pub broken: Option<dovetail_simulation::Broken>,
    /// Write the metrics as /metrics would show them at the end
    #[arg(long, value_name = "FILE", conflicts_with = "random")]
    pub metrics: Option<String>,
    /// Write the traces, one OTLP/JSON document, which Jaeger's page reads
    #[arg(long, value_name = "FILE", conflicts_with = "random")]
    pub traces: Option<String>,
    /// Write a record of the run, which replay, compare and savings read
    #[arg(long, value_name = "FILE", conflicts_with_all = ["random", "shrink"])]
    pub record: Option<String>,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Say on standard error what the run has cost before each step and at the end: CPU of the replicas and of all, memory
    #[arg(long, conflicts_with_all = ["random", "shrink"])]
    pub cost: bool,
    /// The seed, instead of the scenario's
    #[arg(long, conflicts_with = "random")]
    pub seed: Option<u64>,
    /// Handling of nodes whose instances are taken away, instead of the scenario's setting INTERRUPTION
    #[arg(long, value_enum, env = "INTERRUPTION")]
    pub interruption: Option<InterruptionHandling>,
    /// Values for ${VAR}, before the scenario's own.
    #[command(flatten)]
    pub environment: EnvArgs,
}

/// Ways to handle a node whose instance is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InterruptionHandling {
    /// Its pods get places first; it is drained when those are ready or the time requires it
    Replace,
    /// It is drained at once, Karpenter's way
    Evict,
}

impl InterruptionHandling {
    /// Value of the setting.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Evict => "evict",
        }
    }
}

/// `dovetail sandbox`.
#[derive(Args, Clone)]
pub struct SandboxArgs {
    /// Manifests applied at the start; may be given several times, a folder stands for its files, `-` is standard input
    #[arg(short = 'f', value_name = "FILE")]
    pub manifests: Vec<String>,
    /// The region
    #[arg(long, default_value = "us-east-1", env = "AWS_REGION")]
    pub region: String,
    /// The cluster's name
    #[arg(long, default_value = "demo", env = "CLUSTER_NAME")]
    pub cluster_name: String,
    /// Number of replicas of the control plane; 0 leaves the cluster to a `dovetail run`
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=5))]
    pub replicas: u32,
    /// The seed of all chance
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Speed of the sandbox's time, in times yours
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// The address that the Kubernetes API listens on; elsewhere than on this machine only with --token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub listen: std::net::IpAddr,
    /// Token that clients have to carry; the kubeconfig has it, and TLS is served
    #[arg(long, env = "DOVETAIL_SANDBOX_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Serve TLS, under a certificate that the kubeconfig has
    #[arg(long)]
    pub tls: bool,
    /// The port of the Kubernetes API; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Serve the region, too, as AWS_ENDPOINT_URL, on this port of 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT")]
    pub serve_aws: Option<u16>,
    /// File for the kubeconfig
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<String>,
    /// Show neither the log nor progress, the addresses alone
    #[arg(long, short)]
    pub quiet: bool,
    /// Format of the log
    #[arg(long, value_enum, default_value_t = SandboxLogFormat::Text)]
    pub log_format: SandboxLogFormat,
    /// Feature gates of the control plane, as `run` takes them
    #[arg(long, value_name = "NAME=BOOL,…")]
    pub feature_gates: Option<String>,
    /// Values for ${VAR}.
    #[command(flatten)]
    pub environment: EnvArgs,
}

/// `--speed`: much slower tells nothing, and much faster no machine keeps up with.
fn speed(text: &str) -> Result<f64, String> {
    let allowed = "a number from 0.1 to 100";
    let factor: f64 = text.parse().map_err(|_| format!("is no number (allowed: {allowed})"))?;
    if (0.1..=100.0).contains(&factor) { Ok(factor) } else { Err(format!("is out of range (allowed: {allowed})")) }
}

/// Formats of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SandboxLogFormat {
    /// For a person
    Text,
    /// For a machine
    Json,
}
