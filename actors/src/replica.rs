//! One replica of the control plane, started inside the current LocalSet; to drop the LocalSet is to end it.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_cloud::Cloud;
use dovetail_core::clock::Clock;
use serde_json::Value;
use tokio::sync::watch;

use crate::control_plane::ControlPlane;
use crate::desk::Desk;
use crate::journal::Journal;
use crate::leader::Leader;
use crate::messages::{Observe, Release};
use crate::settings::Settings;
use crate::solver::Solver;
use crate::story::Story;
use crate::wiring::{self, Means};

/// What a replica is made of.
pub struct ReplicaParts {
    /// Who it is in the election.
    pub identity: String,
    /// The API server.
    pub kube: kube::Client,
    /// The API server, for the Lease alone: renewals do not queue behind the rest.
    pub lease_kube: kube::Client,
    /// The cloud.
    pub cloud: Arc<dyn Cloud>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// All randomness comes from it.
    pub rng_seed: u64,
    /// The settings.
    pub settings: Settings,
    /// The packing.
    pub solver: Arc<dyn Solver>,
    /// Where happenings are told.
    pub journal: Arc<dyn Journal>,
}

/// A replica that runs.
pub struct ReplicaHandle {
    control_plane: Addr<ControlPlane>,
    leader: Addr<Leader>,
    exit: watch::Receiver<Option<String>>,
}

/// Starts every actor of a replica. To be called inside a LocalSet.
pub fn start(parts: ReplicaParts) -> ReplicaHandle {
    let desk = Desk::new(&parts.identity, parts.settings, parts.clock, parts.journal, parts.rng_seed);
    let cluster = desk.settings.cluster_name.clone();
    desk.tell(Story::Starting { identity: parts.identity, cluster });
    let means = Means { kube: parts.kube, cloud: parts.cloud, solver: parts.solver };
    let (exits, exit) = watch::channel(None);
    let warm = wiring::start_warm(&desk, &means);
    let control_plane = ControlPlane::new(&desk, means, warm.clone(), exits).start();
    let leader = Leader::new(&desk, parts.lease_kube, warm.cluster_watcher, control_plane.clone()).start();
    ReplicaHandle { control_plane, leader, exit }
}

impl ReplicaHandle {
    /// The state of every actor that runs, by name.
    pub async fn state(&self) -> Value {
        let mut all = self.control_plane.send(Observe).await.unwrap_or_default();
        if let (Some(all), Ok(leader)) = (all.as_object_mut(), self.leader.send(Observe).await) {
            all.insert("leader".into(), leader);
        }
        all
    }

    /// Stops leading, gives the Lease back, so that another replica need not wait for it to run out, and lets what is
    /// under way come to its end, for a moment.
    pub async fn shutdown(&self) {
        let _ = self.leader.send(Release).await;
        let _ = self.control_plane.send(Release).await;
    }

    /// Tells when the replica cannot go on.
    pub fn exit(&self) -> Exit {
        Exit(self.exit.clone())
    }
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
