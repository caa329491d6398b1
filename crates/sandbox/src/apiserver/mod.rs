//! The Kubernetes API server: a store on one lock, and around it what `kube`'s clients and controllers expect.
//!
//! A request goes `service` (faults, event log) -> `handler` (path and verb) -> `write`, `delete`, `list`, `watch` (what
//! each means) -> `store` (versions, history). The sandbox's own controllers use [`ApiServer`]'s methods (`direct`)
//! and skip the first two.
pub mod admission;
mod columns;
mod custom;
mod direct;
mod error;
mod gvr;
mod http;
mod kinds;
mod meta;
mod openapi;
mod policy;
mod protobuf;
mod registry;
mod resize;
mod restore;
mod scale;
mod serve;
mod store;
mod subresource;
mod table;
mod viewing;
mod writing;

pub use error::{ApiError, Result, StatusCause};
pub use gvr::*;
pub use http::audit::claim_summary;
pub use http::service::{Body, KubeService};
pub use restore::{Restored, StoreSnapshot};
pub use serve::{ActionsByPath, Listener, PagesByPath, ServedPage, TlsError, TlsIdentity};
pub use store::{ChangeKind, Happened};
pub use viewing::podlog::LogBook;
pub use viewing::select::ListSelector;
pub use writing::delete::{DeleteOptions, Deleted, Propagation};

#[cfg(test)]
mod tests;

use crate::faults::FaultsInForce;
use crate::log::EventLog;
use dovetail_core::clock::Clock;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::StoreState;

#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Seed of uids and name suffixes.
    pub seed: u64,
    /// Changes that a resource remembers for watches that resume; older ones answer 410.
    pub history: usize,
    /// Changes that it remembers for open watches that have not read them yet; one that falls back further is cut.
    pub lag: usize,
    /// Faults of its answers; none without faults.
    pub faults: Option<FaultsInForce>,
    /// Log of writes; none to note nothing.
    pub log: Option<EventLog>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings { seed: 0, history: 1024, lag: 32_768, faults: None, log: None }
    }
}

/// The server. Clones are the same one. Handlers are synchronous; the lock is never held over an await.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    settings: ServerSettings,
    state: Mutex<StoreState>,
    /// Draws for faults, apart from uids so that faults do not change names.
    chance: Mutex<fastrand::Rng>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// An empty cluster without faults or log: the four namespaces and the two system priority classes.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        ApiServer::with(clock, ServerSettings::default())
    }

    /// An empty cluster.
    pub fn with(clock: Arc<dyn Clock>, settings: ServerSettings) -> Self {
        let state = Mutex::new(StoreState::new(
            settings.seed,
            table::TableLimits { kept: settings.history, lag: settings.lag },
        ));
        let chance = Mutex::new(fastrand::Rng::with_seed(settings.seed ^ 0x6661_756c_7473));
        let server = ApiServer { shared: Arc::new(Shared { clock, settings, state, chance }) };
        server.furnish();
        server
    }

    /// Creates the objects that every cluster has from the start.
    fn furnish(&self) {
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            // A new store refuses none of these.
            let _ = self.create(&NAMESPACES, "", serde_json::json!({"metadata": {"name": name}}));
            let _ = self.create(&SERVICE_ACCOUNTS, name, serde_json::json!({"metadata": {"name": "default"}}));
        }
        for (name, value) in [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)] {
            let _ = self.create(&PRIORITY_CLASSES, "", serde_json::json!({"metadata": {"name": name}, "value": value}));
        }
    }

    /// Adds a hook that sees every create and update before it is stored.
    pub fn add_admission(&self, hook: Box<dyn admission::Admission>) {
        self.lock().admission.push(hook);
    }

    pub fn settings(&self) -> &ServerSettings {
        &self.shared.settings
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = self.shared.clock.wall();
        state
    }

    fn chance<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.shared.chance.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
