//! The embedded EC2 region, on the AWS wire protocols.
//!
//! One [`Region`] answers EC2, SQS, SSM, Pricing, IAM, EKS, Savings Plans and STS as AWS documents them, for the AWS SDK for Rust
//! ([`Region::http_client`], in process) and for whoever speaks HTTP ([`serve`]). A request goes through [`wire::call`]
//! (which service and action), the faults, one module a family of actions, and back through [`wire::answer`].
//!
//! Time comes from the clock that it was made with; what happens by itself (instances that come up, spot
//! interruptions) stands on an agenda, which [`Region::run`] works off.

mod account;
mod actions;
mod commitments;
mod config;
mod direct;
mod ids;
mod images;
mod instance;
mod launch;
mod lifecycle;
mod network;
mod placement;
mod prices;
mod reservations;
mod services;
mod state;
mod taken_over;
mod wire;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dovetail_cloud::catalogue::{RegionCatalogue, Zone};
use dovetail_core::clock::Clock;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub use actions::names::ACTIONS;
pub use config::{
    ACCOUNT, AccountCapacityReservation, AccountCommitments, AccountPlacementGroup, AccountReservedInstances,
    AccountSavingsPlan, Lasting, RegionConfig,
};
pub use direct::ReceivedMessage;
pub use instance::{CapacityType, InstanceEvent, InstanceState, RegionInstance};
pub use launch::Placement;
pub use taken_over::TakenOver;
pub use wire::answer::ConnectionLost;
pub use wire::serve::serve;

use crate::faults::FaultsInForce;
use crate::log::{Caller, EventLog};
use state::RegionState;

/// A failure when the sandbox itself acts on the region.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The id belongs to no instance that is there.
    #[error("no instance {0} is pending or running")]
    NoSuchInstance(String),
    /// Only spot instances are interrupted.
    #[error("instance {0} is not a spot instance")]
    NotSpot(String),
    /// The instance cannot be had there; with the reason as EC2 would give it.
    #[error("cannot place {instance_type} in {zone}: {reason}")]
    CannotPlace {
        instance_type: String,
        zone: String,
        /// EC2's code and message.
        reason: String,
    },
}

/// A region of EC2. Clones are the same region.
#[derive(Clone)]
pub struct Region {
    shared: Arc<Shared>,
}

struct Shared {
    config: RegionConfig,
    catalogue: Arc<RegionCatalogue>,
    clock: Arc<dyn Clock>,
    log: EventLog,
    faults: FaultsInForce,
    state: Mutex<RegionState>,
    /// The agenda's first entry has changed.
    replanned: Notify,
    /// A message may have become visible in a queue.
    arrived: Notify,
}

/// Context that an action works in.
pub(crate) struct Cx<'a> {
    pub config: &'a RegionConfig,
    pub catalogue: &'a RegionCatalogue,
    pub log: &'a EventLog,
    pub faults: &'a FaultsInForce,
    pub state: &'a mut RegionState,
    pub now: Duration,
    pub wall: Timestamp,
    /// Notes for the log on the request's result.
    pub notes: Vec<(&'static str, Value)>,
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl Region {
    pub fn new(config: RegionConfig, clock: Arc<dyn Clock>, log: EventLog, faults: FaultsInForce) -> Self {
        let catalogue = config.catalogue();
        let zones = cluster_zones(&config, &catalogue);
        let mut state = RegionState::new(&config, &zones);
        state.started = (clock.monotonic(), clock.wall());
        let state = Mutex::new(state);
        let (replanned, arrived) = (Notify::new(), Notify::new());
        Self { shared: Arc::new(Shared { config, catalogue, clock, log, faults, state, replanned, arrived }) }
    }

    /// Configuration that the region was made from.
    pub fn config(&self) -> &RegionConfig {
        &self.shared.config
    }

    pub fn faults(&self) -> &FaultsInForce {
        &self.shared.faults
    }

    /// The zones in which the cluster has subnets, with their ids.
    pub fn zones(&self) -> Vec<Zone> {
        cluster_zones(&self.shared.config, &self.shared.catalogue)
    }

    /// Types, offerings and prices.
    pub fn catalogue(&self) -> &Arc<RegionCatalogue> {
        &self.shared.catalogue
    }

    /// Each change of an instance's state from now on, in order.
    pub fn subscribe(&self) -> UnboundedReceiver<InstanceEvent> {
        let (sender, receiver) = unbounded_channel();
        self.with(|cx| cx.state.subscribers.push(sender));
        receiver
    }

    /// One instance, whatever its state, as long as EC2 describes it.
    pub fn instance(&self, id: &str) -> Option<RegionInstance> {
        self.with(|cx| cx.state.instances.get(id).cloned())
    }

    /// All instances by id, the terminated of the last hour among them.
    pub fn instances(&self) -> Vec<RegionInstance> {
        self.with(|cx| cx.state.instances.values().cloned().collect())
    }

    /// Every instance that there ever was, by id.
    pub fn instances_ever(&self) -> Vec<RegionInstance> {
        self.with(|cx| {
            let mut all = cx.state.forgotten.clone();
            all.extend(cx.state.instances.clone());
            all.into_values().collect()
        })
    }

    /// The value of an SSM parameter, for what `ssm:PATH` in an environment asks for.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.with(|cx| cx.state.images.parameter(name))
    }

    /// $/h now; `None` where it cannot be had. Spot prices of the shipped catalogue are synthetic.
    pub fn price(&self, instance_type: &str, zone: &str, capacity_type: CapacityType) -> Option<f64> {
        self.with(|cx| cx.price(instance_type, zone, capacity_type))
    }

    /// Works off the agenda for ever: to be spawned on the sandbox's LocalSet. Without it the region still answers
    /// truthfully, but no event is emitted of a change before the next request.
    pub fn run(&self) -> impl Future<Output = ()> + 'static + use<> {
        let region = self.clone();
        async move {
            loop {
                let replanned = region.shared.replanned.notified();
                let next = region.with(|cx| cx.state.next_time());
                let now = region.shared.clock.monotonic();
                match next {
                    None => replanned.await,
                    Some(at) => tokio::select! {
                        biased;
                        () = replanned => {}
                        () = tokio::time::sleep(at.saturating_sub(now)) => {}
                    },
                }
            }
        }
    }

    /// Runs `act` on the state as it is now: what is due has happened.
    fn with<R>(&self, act: impl FnOnce(&mut Cx<'_>) -> R) -> R {
        let shared = &*self.shared;
        let mut state = self.lock();
        let before = state.next_time();
        let mut cx = Cx {
            config: &shared.config,
            catalogue: &shared.catalogue,
            log: &shared.log,
            faults: &shared.faults,
            state: &mut state,
            now: shared.clock.monotonic(),
            wall: shared.clock.wall(),
            notes: Vec::new(),
        };
        cx.settle();
        let result = act(&mut cx);
        if state.next_time() != before {
            shared.replanned.notify_one();
        }
        if state.queues.take_arrived() {
            shared.arrived.notify_waiters();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, RegionState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The zones of the configuration that the region has, or its first three.
fn cluster_zones(config: &RegionConfig, catalogue: &RegionCatalogue) -> Vec<Zone> {
    match &config.zones {
        None => catalogue.first_zones(3),
        Some(names) => catalogue.zones.iter().filter(|zone| names.contains(&zone.name)).cloned().collect(),
    }
}

/// A time as AWS's XML has it: RFC 3339 with milliseconds.
pub(crate) fn stamp(time: Timestamp) -> String {
    format!("{time:.3}")
}

/// The sandbox itself, in the log.
pub(crate) fn ec2_itself() -> Caller {
    Caller::named("ec2")
}
