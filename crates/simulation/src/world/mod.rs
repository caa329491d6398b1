//! The world that `simulate` and `sandbox` share: a cluster, a region, and replicas of the control plane in it.

pub mod actions;
mod broken;
mod broken_solver;
mod clock;
mod failing;
mod fence;
mod interruptions;
mod journal;
pub(crate) mod kinds;
mod logged;
mod objects;
mod operator_faults;
mod process;
mod replica;
mod spoil;
mod step_text;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_core::clock::Clock;
use dovetail_input::Failure;
use dovetail_input::manifests::KUBERNETES_MINOR;
use dovetail_sandbox::apiserver::{self, ApiServer, Gvr, StoreSnapshot};
use dovetail_sandbox::clock::VirtualClock;
use dovetail_sandbox::cluster::{ClusterSettings, NodesBeforehand, SandboxCluster};
use dovetail_sandbox::faults::{FaultSettings, FaultsInForce};
use dovetail_sandbox::log::EventLog;
use dovetail_sandbox::region::{
    AccountCapacityReservation, AccountCommitments, AccountPlacementGroup, Region, RegionConfig,
};
use dovetail_telemetry::state::Latest;
use serde_json::Value;

pub use actions::{Action, ReplicaRef};
pub use broken::{Broken, forget_rules};
pub use clock::Skew;
pub use journal::{JournalLine, Timeline, Watcher};
pub use kinds::DELETABLE;
pub(crate) use logged::step;
pub(crate) use objects::install_crds;
use operator_faults::delete_claims;
pub use operator_faults::{ClaimsDeleted, OTHER_CLUSTER};
use replica::Replica;
pub use spoil::{Odd, SPOILABLE};

#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// AWS's name of the region: `us-east-1`.
    pub region: String,
    /// Types, zones and prices of the region; without it all that the region of that name has.
    pub catalogue: Option<Arc<RegionCatalogue>>,
    pub cluster_name: String,
    /// The seed of all chance.
    pub seed: u64,
    /// Replicas of the control plane.
    pub replicas: u32,
    /// Their settings by environment name.
    pub settings: BTreeMap<String, String>,
    pub reservations: Vec<AccountCapacityReservation>,
    pub placement_groups: Vec<AccountPlacementGroup>,
    pub commitments: AccountCommitments,
    /// Nodes that are there beforehand.
    pub nodes: Vec<NodesBeforehand>,
    /// Faults from the start.
    pub faults: FaultSettings,
    /// Globs of the names of pods for which packing panics.
    pub panics_for: Vec<String>,
    /// NodeClaims are deleted by somebody.
    pub claims_deleted: Option<ClaimsDeleted>,
    /// The Kubernetes API's address as seen from outside, where it is served.
    pub endpoint: Option<String>,
    /// Error of each replica's clock; none for replicas that it does not name.
    pub clocks: Vec<Skew>,
    /// A safeguard that is taken out on purpose.
    pub broken: Option<Broken>,
    /// True to store objects of the alpha kinds as they are written.
    pub alpha_as_written: bool,
}

/// A cluster in a region, with a control plane. To be used inside a LocalSet.
pub struct World {
    config: WorldConfig,
    pub api: ApiServer,
    /// EC2, SQS and the rest of AWS, as far as the control plane asks for it.
    pub region: Region,
    /// All that happens.
    pub log: EventLog,
    /// The control plane's log events.
    pub timeline: Timeline,
    faults: FaultsInForce,
    clock: Arc<dyn Clock>,
    /// The world's beginning, by that clock.
    begun: Duration,
    replicas: Vec<Rc<Replica>>,
    latest: Option<(Latest, Duration)>,
    /// States of the API server's store, by time.
    snapshots: RefCell<Vec<(Duration, StoreSnapshot)>>,
    /// Uids of objects that replicas cannot read now.
    spoilt: Rc<RefCell<BTreeSet<String>>>,
}

impl World {
    /// API server, region and cluster, with our CRDs; no replicas yet. Spawns what runs by itself on the current LocalSet.
    /// `begin` gets the event log before anything has happened.
    pub fn new(
        config: WorldConfig,
        clock: Arc<dyn Clock>,
        watch: Option<Watcher>,
        begin: impl FnOnce(&EventLog),
    ) -> Result<Self, Failure> {
        // Libraries that draw (retries' jitter, request ids) use this thread's generator.
        fastrand::seed(config.seed);
        let log = EventLog::new(clock.clone());
        begin(&log);
        let faults = FaultsInForce::new(config.seed);
        faults.set(config.faults.clone());
        let settings = apiserver::ServerSettings {
            seed: config.seed,
            faults: Some(faults.clone()),
            log: Some(log.clone()),
            ..apiserver::ServerSettings::default()
        };
        let api = ApiServer::with(clock.clone(), settings);
        let mut of_region = RegionConfig::new(&config.region, &config.cluster_name);
        of_region.seed = config.seed;
        of_region.catalogue = config.catalogue.clone();
        of_region.kubernetes_version = format!("1.{KUBERNETES_MINOR}");
        of_region.reservations.clone_from(&config.reservations);
        of_region.placement_groups.clone_from(&config.placement_groups);
        of_region.commitments.clone_from(&config.commitments);
        of_region.endpoint = config.endpoint.clone();
        let region = Region::new(of_region, clock.clone(), log.clone(), faults.clone());
        tokio::task::spawn_local(region.run());
        let timeline = Timeline::new(log.clone(), watch);
        // As behind our webhook; who is run against the sandbox brings its own.
        let settings = Settings::from_map(&config.settings).unwrap_or_default();
        objects::install_crds(&api, config.replicas > 0, &settings)?;
        // Without replicas of ours it is a cluster into which nobody has installed us.
        if config.replicas > 0 && config.broken != Some(Broken::NoFence) {
            fence::install(&api, &config.settings)?;
        }
        let settings = ClusterSettings { cluster_name: config.cluster_name.clone(), ..ClusterSettings::default() };
        let mut cluster =
            SandboxCluster::new(api.clone(), region.clone(), clock.clone(), log.clone(), settings, config.seed);
        cluster.place(&config.nodes).map_err(|why| Failure::System(format!("nodes beforehand: {why}")))?;
        cluster.start();
        let replicas = (0..config.replicas).map(|number| Rc::new(Replica::new(number))).collect();
        let world = Self {
            config,
            api,
            region,
            log,
            timeline,
            faults,
            begun: clock.monotonic(),
            clock,
            replicas,
            latest: None,
            snapshots: RefCell::default(),
            spoilt: Rc::default(),
        };
        if let Some(deleted) = world.config.claims_deleted {
            tokio::task::spawn_local(delete_claims(world.api.clone(), world.log.clone(), deleted));
        }
        if world.config.broken == Some(Broken::NoBrakes) {
            world.allow_collection(Duration::from_secs(23 * 3600))?;
        }
        Ok(world)
    }

    /// Region, faults and settings that the world was made with.
    pub fn config(&self) -> &WorldConfig {
        &self.config
    }

    /// Has replicas say now and then what they see; to be called before they start.
    pub fn watch(&mut self, latest: Latest, every: Duration) {
        self.latest = Some((latest, every));
    }

    pub fn start_replicas(&self) -> Result<(), Failure> {
        self.replicas.iter().try_for_each(|replica| self.start_replica(replica))
    }

    /// Time since the world began, as the event log counts it.
    pub fn now(&self) -> Duration {
        Duration::from_micros((self.log.seconds() * 1e6).round() as u64)
    }

    /// Time for which a leader acts without renewing its Lease.
    pub fn renew_deadline(&self) -> Duration {
        // Settings that make no sense are refused before a world begins.
        Settings::from_map(&self.config.settings).unwrap_or_default().lease.renew_deadline
    }

    /// Wall time.
    pub fn wall(&self) -> jiff::Timestamp {
        self.clock.wall()
    }

    /// CPU time that the replicas have taken, answers to them left out; zero unless it is measured.
    pub fn cpu_of_replicas(&self) -> Duration {
        self.replicas.iter().map(|replica| replica.process().cpu()).sum()
    }

    pub fn pods(&self) -> Vec<Arc<Value>> {
        self.api.list(&Gvr::new("", "v1", "pods"))
    }

    pub fn nodes(&self) -> Vec<Arc<Value>> {
        self.api.list(&Gvr::new("", "v1", "nodes"))
    }

    pub fn claims(&self) -> Vec<Arc<Value>> {
        self.api.list(&Gvr::new("karpenter.sh", "v1", "nodeclaims"))
    }

    fn start_replica(&self, replica: &Replica) -> Result<(), Failure> {
        replica.start(&replica::ReplicaSurroundings {
            config: &self.config,
            api: &self.api,
            region: &self.region,
            clock: &self.clock,
            begun: self.begun,
            timeline: &self.timeline,
            latest: self.latest.clone(),
        })
    }
}

/// The clock of a simulation: tokio's, paused.
pub fn virtual_clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(dovetail_sandbox::clock::DEFAULT_START))
}
