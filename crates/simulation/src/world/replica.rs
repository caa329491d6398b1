//! A replica of the control plane in its sandboxed process, with the sandbox in place of the outside world.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dovetail_actors::ClusterClock;
use dovetail_actors::replica::{self, ReplicaParts};
use dovetail_actors::settings::Settings;
use dovetail_cloud::ec2::{Ec2Cloud, Ec2Settings, SdkParts};
use dovetail_core::clock::Clock;
use dovetail_input::{Failure, Mistake};
use dovetail_sandbox::apiserver::{ApiServer, Gvr};
use dovetail_sandbox::log::Caller;
use dovetail_sandbox::region::Region;
use dovetail_telemetry::state::{self, Latest};

use super::WorldConfig;
use super::broken::{Broken, BrokenCloud, claim_twice, forget_holds, forget_purposes, initialize_early};
use super::broken_solver::solver_instead_of;
use super::clock::OwnClock;
use super::failing::FailingSolver;
use super::journal::Timeline;
use super::process::ReplicaProcess;

pub struct ReplicaSurroundings<'a> {
    pub config: &'a WorldConfig,
    pub api: &'a ApiServer,
    pub region: &'a Region,
    /// The clock it goes by, wrong by its own skew.
    pub clock: &'a Arc<dyn Clock>,
    /// The world's beginning, by that clock.
    pub begun: Duration,
    /// Timeline that log events go to.
    pub timeline: &'a Timeline,
    /// Receiver of the replica's state now and then, and the time between two.
    pub latest: Option<(Latest, Duration)>,
}

pub struct Replica {
    number: u32,
    process: ReplicaProcess,
    /// Number of starts so far, so that a restart draws other numbers.
    starts: std::cell::Cell<u64>,
    /// Time that its clock has stood still with it, where that is broken.
    stood: Arc<AtomicU64>,
}

impl Replica {
    /// A replica that does not run yet.
    pub fn new(number: u32) -> Self {
        Self { number, process: ReplicaProcess::default(), starts: std::cell::Cell::new(0), stood: Arc::default() }
    }

    /// Its identity in the Lease.
    pub fn identity(&self) -> String {
        format!("dovetail-{}", self.number)
    }

    /// Its process, to be paused or killed.
    pub fn process(&self) -> &ReplicaProcess {
        &self.process
    }

    /// Its number, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its clock has not counted the time for which it stood still.
    pub fn sleeps(&self, time: Duration) {
        self.stood.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn clock(&self, around: &ReplicaSurroundings<'_>) -> Arc<dyn Clock> {
        let number = usize::try_from(self.number).unwrap_or(usize::MAX);
        let skew = around.config.clocks.get(number).cloned().unwrap_or_default();
        Arc::new(OwnClock::new(around.clock.clone(), around.begun, skew, self.stood.clone()))
    }

    /// Starts it, or starts it anew.
    pub fn start(&self, around: &ReplicaSurroundings<'_>) -> Result<(), Failure> {
        let parts = self.parts(around)?;
        let (latest, identity, clock) = (around.latest.clone(), self.identity(), around.clock.clone());
        let timeline = around.timeline.clone();
        let twice = (around.config.broken == Some(Broken::TwiceClaimed) && self.number == 0)
            .then(|| claim_twice(around.api.clone(), parts.kube.clone()));
        let forgets = (around.config.broken == Some(Broken::NoUnusedBrake) && self.number == 0)
            .then(|| forget_purposes(around.api.clone()));
        let unholds = (around.config.broken == Some(Broken::NoHolds)).then(|| forget_holds(around.api.clone()));
        let early =
            (around.config.broken == Some(Broken::EarlyReplacements)).then(|| initialize_early(around.api.clone()));
        self.process.run(async move {
            let handle = replica::start(parts);
            if let Some(forgets) = forgets {
                tokio::task::spawn_local(forgets);
            }
            if let Some(unholds) = unholds {
                tokio::task::spawn_local(unholds);
            }
            if let Some(early) = early {
                tokio::task::spawn_local(early);
            }
            if let Some(twice) = twice {
                tokio::task::spawn_local(twice);
            }
            let Some((latest, every)) = latest else { return std::future::pending::<()>().await };
            loop {
                tokio::time::sleep(every).await;
                let state = handle.observe().await.unwrap_or_default();
                let leads = state::leads(&state);
                latest.heard(&identity, &state, clock.wall());
                if leads {
                    timeline.saw(&state);
                }
                if leads && let Some(view) = handle.view().await {
                    latest.saw(view);
                }
            }
        });
        Ok(())
    }

    fn parts(&self, around: &ReplicaSurroundings<'_>) -> Result<ReplicaParts, Failure> {
        let mut settings = around.config.settings.clone();
        // As Karpenter's CloudFormation template sets a cluster up: its queue has its name.
        for name in ["CLUSTER_NAME", "INTERRUPTION_QUEUE"] {
            settings.entry(name.to_owned()).or_insert_with(|| around.config.cluster_name.clone());
        }
        if around.config.broken == Some(Broken::NoFutileBrake) {
            for name in ["MAX_FUTILE_LAUNCHES", "MAX_FUTILE_COST"] {
                settings.insert(name.to_owned(), "never".to_owned());
            }
        }
        // A second solver's work for one packing in some: what is simulated is what is decided.
        settings.entry("PACKING_COMPARISON_INTERVAL".to_owned()).or_insert_with(|| "never".to_owned());
        let settings = Settings::from_map(&settings).map_err(|errors| {
            let mistakes = errors.into_iter().map(|error| {
                Mistake::of_file(error.name, format!("{} (given {:?})", error.what, error.value))
                    .allowing(error.allowed)
            });
            Failure::Input(mistakes.collect())
        })?;
        self.starts.set(self.starts.get() + 1);
        let caller = Caller::replica(self.number, self.identity());
        let rng_seed = around.config.seed.wrapping_mul(1009) ^ u64::from(self.number) ^ (self.starts.get() << 32);
        let http_client = around.region.http_client(caller.clone());
        let clock = self.clock(around);
        let sdk = SdkParts::in_process(http_client, &around.config.region, clock.clone());
        let cloud = Arc::new(Ec2Cloud::new(sdk, cloud_settings(around, &settings)));
        let clock = ClusterClock::over(clock);
        let client = |caller| kube::Client::new(clock.set_by(around.api.service(caller)), "default");
        Ok(ReplicaParts {
            identity: self.identity(),
            kube: client(caller.clone()),
            lease_kube: client(caller),
            cloud: BrokenCloud::instead_of(cloud, around.config.broken),
            clock,
            streams_lists: false,
            rng_seed,
            settings,
            identities: None,
            solver: solver_instead_of(FailingSolver::with(&around.config.panics_for), around.config.broken),
            journal: around.timeline.journal(self.number),
        })
    }
}

/// Settings of the cloud: the cluster's identity; the rest the cloud asks of EKS.
fn cloud_settings(around: &ReplicaSurroundings<'_>, settings: &Settings) -> Ec2Settings {
    let namespace = around.api.get(&Gvr::new("", "v1", "namespaces"), "", "kube-system");
    let uid = namespace.as_ref().and_then(|one| one["metadata"]["uid"].as_str()).unwrap_or_default();
    // A call more is another run of every seed: only where a scenario says so.
    let asks_for_dry_runs = around.config.settings.contains_key("DISABLE_DRY_RUN");
    Ec2Settings {
        cluster_name: around.config.cluster_name.clone(),
        cluster_uid: uid.to_owned(),
        adopt_karpenter_instances: settings.adopt_karpenter_instances,
        cluster_dns: Some("172.20.0.10".to_owned()),
        reserved_capacity: settings.reserved_capacity(),
        open_reservations: settings.open_reservations,
        dry_runs: asks_for_dry_runs && !settings.disable_dry_run,
        limits: settings.scale.ec2_limits.clone(),
        ..Ec2Settings::default()
    }
}
