//! A live cluster as the commands for people read it: from a kubeconfig or in a pod, page by page, without a write.
//!
//! ```text
//! kubeconfig ──► ApiTarget ──► lists by pages ──► ClusterState ──┐
//!                   └► Lease ──► the leading pod's settings ─────┼──► LiveCluster ──► explain, plan
//!                   ├► EC2, or the shipped catalogue ──► offers ─┤
//!                   └► the account ──► commitments ──────────────┘
//! ```
//!
//! What may not be read is named, and the rest is shown.

mod account;
pub mod args;
pub mod escape;
mod leader;
mod lists;
mod offers;
pub mod price;
pub mod what_if;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::{ClusterClock, Settings};
use dovetail_core::clock::Clock as _;
use dovetail_core::cluster_state::{ClusterState, Moment, PlanningInput, Snapshot};
use dovetail_core::disruption::OffersByClass;
use dovetail_core::disruption::drift::Gates;
use dovetail_core::disruption::methods::ConsolidationSettings;
use dovetail_core::pack::Options;
use dovetail_input::Failure;
use kube::Client;
use serde::Serialize;

use account::read_commitments;
pub use args::{ClusterArgs, OutputArgs, as_json, as_yaml};
pub use leader::{Leader, find_leader as leader, find_lease};
pub use lists::{MOST_RESTARTS, is_forgotten, why_unread};
pub use offers::{describe, reach_ec2};

use crate::devices::Devices;
use crate::run::clock::SystemClock;
use crate::run::connect::{self, ApiTarget};
use crate::run::preflight::ask::Asker;
use crate::run::preflight::{self, PreflightFacts};

/// Longest wait for the API server's first answers.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Requests a second, and at once: a person waits, and the API server has its own bounds.
const RATE: (f64, u32) = (100.0, 200);

/// Time for which types and prices are used before they are read again.
const PRICES_FOR: Duration = Duration::from_secs(600);

/// Something that could not be read, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The kind, as the API server names it, or what else was to be read.
    pub what: String,
    pub why: String,
}

/// A connection to the API server.
pub struct Connection {
    pub target: ApiTarget,
    pub client: Client,
    pub clock: ClusterClock,
    pub asker: Asker,
    pub facts: PreflightFacts,
}

/// The cluster, with all that an answer needs.
pub struct LiveCluster {
    pub connection: Connection,
    pub settings: Settings,
    /// Source of the settings.
    pub settings_from: String,
    /// The settings that the leader was given, by their environment names.
    pub given: BTreeMap<String, String>,
    pub snapshot: Snapshot,
    /// The state behind the snapshot, for what-ifs.
    pub state: ClusterState,
    pub planning: PlanningInput,
    /// Source of instance types and prices.
    pub offers_from: String,
    pub missing: Vec<Missing>,
    offers_read: OffersRead,
}

/// A reading of types and prices.
struct OffersRead {
    /// Monotonic time of it.
    at: Duration,
    /// Classes that were there, and true for those that had a status.
    classes: BTreeMap<String, bool>,
    /// The part of it that could not be read.
    missing: Vec<Missing>,
}

fn classes_of(snapshot: &Snapshot) -> BTreeMap<String, bool> {
    snapshot.classes.iter().map(|(name, class)| (name.clone(), class.status.is_some())).collect()
}

/// Connects, and makes sure that it is a Kubernetes API server.
///
/// # Errors
/// No kubeconfig, no answer, credentials that are not taken.
pub async fn connect(args: &ClusterArgs) -> Result<Connection, Failure> {
    let mut settings = args.settings();
    (settings.kube_access.qps, settings.kube_access.burst) = RATE;
    let target = connect::find(&settings, "--kubeconfig or KUBECONFIG").await?;
    let clock = ClusterClock::over(Arc::new(SystemClock));
    let client = target.client(&settings, &clock, |_| {})?;
    let asker = Asker::new(format!("the API server {}", target.server()), ANSWER_WITHIN);
    let version = asker.ask("GET /version", || preflight::version_now(&client)).await?;
    // Only EC2's tags need the uid; a reader may not be allowed to see it.
    let facts = match preflight::identity(&asker.afresh(), &client).await {
        Ok(facts) => facts,
        Err(_) => PreflightFacts { version, ..PreflightFacts::default() },
    };
    Ok(Connection { target, client, clock, asker, facts })
}

impl Connection {
    pub fn moment(&self) -> Moment {
        Moment { monotonic: self.clock.monotonic(), wall: self.clock.wall() }
    }
}

/// Reads the cluster.
///
/// # Errors
/// As [`connect`], and CRDs that are not there.
pub async fn read_cluster(args: &ClusterArgs) -> Result<LiveCluster, Failure> {
    let connection = connect(args).await?;
    preflight::crds(&connection.asker.afresh(), &connection.client).await?;
    let mut missing = Vec::new();
    let (settings, settings_from, given) = leader::settings(&connection, args, &mut missing).await;
    let state = lists::read_state(&connection, &settings, &mut missing).await?;
    let snapshot = state.snapshot();
    let (at, classes) = (connection.clock.monotonic(), classes_of(&snapshot));
    let mut offers_read = OffersRead { at, classes, missing: Vec::new() };
    let offers = offers::read_offers(&connection, args, &settings, &snapshot, &mut offers_read.missing).await?;
    let mut planning = planning_input(&settings, offers.by_class, connection.moment());
    let (of, types) = ((&settings, &snapshot), &planning.instance_types);
    planning.commitments = read_commitments((&connection, args), of, types, &mut offers_read.missing).await;
    missing.extend(offers_read.missing.iter().cloned());
    Ok(LiveCluster {
        connection,
        settings,
        settings_from,
        given,
        snapshot,
        state,
        planning,
        offers_from: offers.from,
        missing,
        offers_read,
    })
}

impl LiveCluster {
    /// Reads the cluster anew. Types and prices are read again when they are [`PRICES_FOR`] old, or when a class is new
    /// or has got its status.
    ///
    /// # Errors
    /// The API server is gone, or does not take the credentials any more.
    pub async fn read_again(&mut self, args: &ClusterArgs) -> Result<(), Failure> {
        let mut missing = Vec::new();
        let (settings, settings_from, given) = leader::settings(&self.connection, args, &mut missing).await;
        (self.settings, self.settings_from, self.given) = (settings, settings_from, given);
        self.state = lists::read_state(&self.connection, &self.settings, &mut missing).await?;
        self.snapshot = self.state.snapshot();
        let known = std::mem::take(&mut self.planning);
        self.planning = planning_input(&self.settings, known.instance_types, self.connection.moment());
        if self.settings.commitments.account {
            self.planning.commitments = known.commitments;
        }
        let now = self.planning.now.monotonic;
        let classes = classes_of(&self.snapshot);
        if now.saturating_sub(self.offers_read.at) > PRICES_FOR || self.offers_read.classes != classes {
            let mut unread = Vec::new();
            let offers =
                offers::read_offers(&self.connection, args, &self.settings, &self.snapshot, &mut unread).await?;
            (self.planning.instance_types, self.offers_from) = (offers.by_class, offers.from);
            let (of, types) = ((&self.settings, &self.snapshot), &self.planning.instance_types);
            self.planning.commitments = read_commitments((&self.connection, args), of, types, &mut unread).await;
            self.offers_read = OffersRead { at: now, classes, missing: unread };
        }
        missing.extend(self.offers_read.missing.iter().cloned());
        self.missing = missing;
        Ok(())
    }

    /// Devices that pods claim, where the settings ask for them.
    pub fn devices(&self) -> Option<Devices> {
        devices_of(&self.settings, &self.snapshot)
    }

    /// Settings of packing.
    pub fn options(&self) -> Options {
        packing_options(&self.settings)
    }

    /// Rules of consolidation.
    pub fn rules(&self) -> ConsolidationSettings {
        consolidation_rules(&self.settings, self.snapshot.claims.len())
    }

    /// Feature gates of disruption.
    pub fn gates(&self) -> Gates {
        disruption_gates(&self.settings)
    }
}

/// Input of packing at this moment, with these instance types.
pub fn planning_input(settings: &Settings, instance_types: OffersByClass, now: Moment) -> PlanningInput {
    PlanningInput {
        whole_gangs: false,
        of_static: false,
        into_sick_zones: false,
        instance_types,
        preferences: settings.preferences,
        min_values: settings.min_values,
        policy: settings.policy,
        daemon_share: settings.daemon_share,
        default_spread: settings.default_spread.clone(),
        devices: settings.devices(),
        commitments: settings.commitments.declared(),
        now,
        only: None,
    }
}

/// Devices of a snapshot, where the settings ask for them.
pub fn devices_of(settings: &Settings, snapshot: &Snapshot) -> Option<Devices> {
    settings.devices().map(|gates| Devices { book: snapshot.devices.clone(), gates })
}

/// Settings of packing.
pub fn packing_options(settings: &Settings) -> Options {
    Options {
        price_per_node: settings.price_per_node,
        max_option_price: settings.max_option_price,
        ..Options::default()
    }
}

/// Rules of consolidation in a cluster with so many claims.
pub fn consolidation_rules(settings: &Settings, claims: usize) -> ConsolidationSettings {
    ConsolidationSettings {
        many_to_many: settings.many_to_many(),
        max_option_price: settings.max_option_price,
        price_moves: ConsolidationSettings::price_moves_within(claims, settings.churn.price_moves),
        ..settings.churn.rules(settings.price_per_node, settings.spot_to_spot())
    }
}

/// Feature gates of disruption.
pub fn disruption_gates(settings: &Settings) -> Gates {
    Gates {
        node_repair: settings.node_repair(),
        reserved_capacity: settings.reserved_capacity(),
        drift_off: !settings.drift(),
        legacy_repair: settings.churn.legacy_node_repair,
        reboot_for_repair: settings.reboot_for_repair(),
        static_capacity: settings.static_capacity(),
        terminate_first_drift: settings.terminate_first_drift(),
        terminate_first_repair: settings.terminate_first_repair(),
    }
}
