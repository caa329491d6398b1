//! One replica of the control plane, started inside the current LocalSet; to drop the LocalSet is to end it.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::prelude::*;
use dovetail_cloud::Cloud;
use dovetail_core::InstanceType;
use dovetail_core::cluster_state::{Moment, Snapshot};
use dovetail_core::commitments::Commitments;
use serde_json::Value;
use tokio::sync::watch;

use crate::context::cluster_clock::ClusterClock;
use crate::context::env::Env;
use crate::context::identities::Identities;
use crate::context::leader_term::Office;
use crate::context::solver::Solver;
use crate::leadership::control_plane::ControlPlane;
use crate::leadership::leader::Leader;
use crate::leadership::messages::{ObserveReplica, ReleaseLease, WatchLeader};
use crate::messages::{CommitmentsKnown, InstanceTypesFor, ReplicaState, TakeSnapshot};
use crate::settings::Settings;
use crate::telemetry::journal::Journal;
use crate::telemetry::log_event::LogEvent;
use crate::wiring::{self, ActorParts, Warm};

pub struct ReplicaParts {
    /// Name of the replica in the election.
    pub identity: String,
    /// The API server.
    pub kube: kube::Client,
    /// The API server, for the Lease alone: renewals do not queue behind the rest.
    pub lease_kube: kube::Client,
    /// EC2, or the region of a simulation.
    pub cloud: Arc<dyn Cloud>,
    /// Wall clock and monotonic clock; of a simulation, those that are wrong on purpose among them. Answers on both ways to the
    /// API server set it.
    pub clock: ClusterClock,
    /// All randomness comes from it.
    pub rng_seed: u64,
    /// True if the API server makes streams of lists, as Kubernetes does from 1.32 on.
    pub streams_lists: bool,
    /// Valid settings, as they were given.
    pub settings: Settings,
    /// Solver of packings: in place, or on threads.
    pub solver: Arc<dyn Solver>,
    /// Certificates of the conversion webhook; without them there is none.
    pub identities: Option<Arc<dyn Identities>>,
    /// Recipient of log events.
    pub journal: Arc<dyn Journal>,
}

pub struct ReplicaHandle {
    control_plane: Addr<ControlPlane>,
    leader: Addr<Leader>,
    warm: Warm,
    env: Env,
    exit: watch::Receiver<Option<String>>,
}

/// Starts every actor of a replica. To be called inside a LocalSet.
pub fn start(parts: ReplicaParts) -> ReplicaHandle {
    let env = Env::on(parts.clock, &parts.identity, parts.settings, parts.journal, parts.rng_seed);
    env.outage.stream_lists(parts.streams_lists);
    let cluster = env.settings.cluster_name.clone();
    env.emit(LogEvent::Starting { identity: parts.identity, cluster });
    let (identities, office) = (parts.identities, Office::default());
    let means = ActorParts { kube: parts.kube, cloud: parts.cloud, solver: parts.solver, identities, office };
    let (exits, exit) = watch::channel(None);
    let warm = wiring::start_warm(&env, &means);
    let control_plane = ControlPlane::new(&env, means, warm.clone(), exits).start();
    let (elected, deposed) = (control_plane.clone().recipient(), control_plane.clone().recipient());
    let leader = Leader::new(&env, parts.lease_kube, warm.cluster_watcher.clone().into(), elected, deposed).start();
    control_plane.do_send(WatchLeader { leader: leader.clone().recipient() });
    ReplicaHandle { control_plane, leader, warm, env, exit }
}

impl ReplicaHandle {
    /// The state of every actor that runs. Nothing when `control_plane` has ended.
    pub async fn observe(&self) -> Option<ReplicaState> {
        self.control_plane.send(ObserveReplica).await.ok()
    }

    /// The state as JSON, by the actors' names; null when `control_plane` has ended.
    pub async fn state(&self) -> Value {
        self.observe().await.and_then(|state| serde_json::to_value(state).ok()).unwrap_or_default()
    }

    /// The cluster as it is known, with what can be bought for it. Nothing until everything has been listed once.
    pub async fn view(&self) -> Option<ReplicaView> {
        let snapshot = self.warm.cluster_watcher.send(TakeSnapshot).await.ok()??;
        let classes = snapshot.used_classes();
        let types = self.warm.catalogue.send(InstanceTypesFor::new(classes)).await.ok()?.unwrap_or_default();
        let now = self.env.moment();
        let known = self.commitments().await?;
        let commitments = Arc::new(known.in_force(now.wall));
        Some(ReplicaView { snapshot, types, commitments, now })
    }

    /// Commitments that are declared, and those of the account once its first answers have come.
    async fn commitments(&self) -> Option<Arc<Commitments>> {
        let settings = &self.env.settings.commitments;
        if !settings.account {
            return Some(settings.declared());
        }
        let known = self.warm.catalogue.send(CommitmentsKnown).await.ok()?;
        Some(known.map_or_else(|| settings.declared(), |known| known.all))
    }

    /// Stops leading, gives the Lease back, so that another replica need not wait for it to run out, and lets what is
    /// under way come to its end, for a moment.
    pub async fn shutdown(&self) {
        let _ = self.leader.send(ReleaseLease).await;
        let _ = self.control_plane.send(ReleaseLease).await;
    }

    /// Tells when the replica cannot go on.
    pub fn exit(&self) -> Exit {
        Exit(self.exit.clone())
    }
}

#[derive(Clone, Debug)]
pub struct ReplicaView {
    /// Cluster as the watches have seen it, at one moment.
    pub snapshot: Snapshot,
    /// Instance types of node classes in use, by the class's name.
    pub types: BTreeMap<String, Arc<Vec<Arc<InstanceType>>>>,
    /// Savings Plans and Reserved Instances that are in force.
    pub commitments: Arc<Commitments>,
    pub now: Moment,
}

/// Tells when a replica cannot go on.
pub struct Exit(watch::Receiver<Option<String>>);

impl Exit {
    /// Waits until the replica cannot go on; answers why.
    pub async fn wait(&mut self) -> String {
        match self.0.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "its actors have ended".into(),
        }
    }
}
