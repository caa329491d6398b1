//! `dovetail run --shadow`: beside another provisioner, without a Lease and without a write. The cluster is listed and watched, of
//! AWS types and prices are read, and our control plane runs in a copy of the cluster in memory
//! ([`dovetail_simulation::shadow`]).

mod published;
mod said;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::{ClusterClock, Settings};
use dovetail_core::clock::Clock as _;
use dovetail_input::Failure;
use dovetail_observability::{Health, Metrics};
use dovetail_simulation::shadow::{Shadow, ShadowParts};
use dovetail_telemetry::COMMIT;
use tokio::time::{sleep, timeout};

use super::clock::SystemClock;
use super::connect::ApiTarget;
use super::health_loop;
use super::pool::PoolSolver;
use super::preflight::ask::Asker;
use super::preflight::{self, aws};
use super::process::{self, Signals, VERSION};
use published::Published;
use said::QuietJournal;

/// Interval at which the served report is made anew, and the replica in the copy is asked for its state.
const EVERY: Duration = Duration::from_secs(2);
/// Longest wait for its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Settings given without effect in a shadow, each with the reason.
pub fn without_effect(given: &BTreeMap<String, String>) -> Vec<String> {
    let because = |name: &str| match name {
        "INTERRUPTION_QUEUE" => Some("a message that a shadow receives is hidden from the provisioner that runs"),
        "MOVES_ROLLOUT" => Some("a shadow restarts no Deployment, not in its copy either"),
        "DISABLE_LEADER_ELECTION" => Some("a shadow takes no Lease"),
        "CONSOLE_TOKEN" => Some("a shadow has no console"),
        name if name.starts_with("LEADER_ELECTION_") => Some("a shadow takes no Lease"),
        _ => None,
    };
    let shown =
        |name: &str, value: &str| if name.ends_with("TOKEN") { name.to_owned() } else { format!("{name}={value}") };
    // A variable that says what is so anyway is nobody's mistake.
    let says = |value: &str| value != "false";
    let all = given.iter().filter(|(_, value)| says(value));
    all.filter_map(|(name, value)| Some(format!("{}: {}", shown(name, value), because(name)?))).collect()
}

/// Runs until a signal, or until the replica in the copy cannot go on.
pub async fn live(settings: Settings, target: &ApiTarget) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let (published, metrics) = (Published::default(), Metrics::new(VERSION, COMMIT));
    metrics.show(published.series());
    let health = Health::new(Arc::new(|| SystemClock.monotonic()), health_loop::DEAD_AFTER);
    process::serve(&settings, target.in_cluster, &health, &metrics, Some(published.pages()))?;
    let starting = async {
        tokio::select! {
            biased;
            shadow = start(settings, target) => shadow,
            () = health_loop::beat_before(health.clone()) => Err(Failure::System("the health loop stopped".into())),
        }
    };
    let shadow = tokio::select! {
        biased;
        signal = signals.next() => {
            tracing::info!(logger = "shadow", "{signal} before the start: ending");
            return Ok(());
        }
        shadow = starting => shadow?,
    };
    let mut exit = shadow.replica().exit();
    let ended = tokio::select! {
        biased;
        signal = signals.next() => Ok(signal),
        why = exit.wait() => Err(why),
        () = beat(&shadow, &published, &health) => Err("the health loop stopped".into()),
    };
    said::report(&shadow.report());
    match ended {
        Ok(signal) => {
            tracing::info!(logger = "shadow", "{signal}: ended");
            Ok(())
        }
        Err(why) => Err(Failure::System(why)),
    }
}

/// Looks at what has to be so, then makes the copy. Nothing of it writes.
async fn start(settings: Settings, target: &ApiTarget) -> Result<Shadow, Failure> {
    let clock = ClusterClock::over(Arc::new(SystemClock));
    let kube = target.client(&settings, &clock, |_| {})?;
    let asker = Asker::new(format!("the API server {}", target.server()), settings.kube_access.startup_timeout);
    let facts = preflight::identity(&asker, &kube).await?;
    preflight::new_enough(&facts.version, settings.kube_access.oldest)?;
    preflight::crds(&asker, &kube).await?;
    let seed = fastrand::u64(..);
    // Nodes are told no address here: EKS need not be asked for it.
    let known = Settings { cluster_endpoint: target.server(), ..settings.clone() };
    let (cloud, _) = aws::reach(&known, Arc::new(SystemClock), &facts, target.authority(), seed).await?;
    let (server, cluster) = (target.server(), settings.cluster_name.clone());
    tracing::info!(logger = "shadow", version = VERSION, server, kubernetes = facts.version, cluster, "only watching");
    let solver = PoolSolver::start(settings.cores()).map_err(|why| Failure::System(format!("threads: {why}")))?;
    Shadow::start(ShadowParts {
        kube,
        cloud: Arc::new(cloud),
        settings,
        clock: Arc::new(clock),
        seed,
        solver: Arc::new(solver),
        journal: Arc::new(QuietJournal),
        listener: Rc::new(said::print_event),
    })
    .await
}

/// Keeps what is served up to date, while the replica in the copy moves.
async fn beat(shadow: &Shadow, published: &Published, health: &Health) {
    loop {
        published.put(shadow.report());
        match timeout(ANSWER_WITHIN, shadow.replica().observe()).await {
            Ok(state) => health_loop::heard(health, &state.unwrap_or_default()),
            Err(_) => health.silent(vec!["control_plane".into()]),
        }
        sleep(EVERY).await;
    }
}
