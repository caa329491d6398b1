//! `dovetail run`: the control plane on a real cluster, from a kubeconfig or in a pod.

pub(crate) mod clock;
pub(crate) mod connect;
pub mod console;
mod file;
mod global;
mod health_loop;
mod limit;
mod options;
mod pool;
pub(crate) mod preflight;
mod process;
mod provider;
mod shadow;
mod webhook;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::{ClusterClock, ReplicaParts, Settings};
use dovetail_core::clock::Clock;
use dovetail_input::Failure;
use dovetail_observability::Health;
use dovetail_telemetry::latest_entries::LatestEntries;
use dovetail_telemetry::state::Latest;
use dovetail_telemetry::{self as telemetry, Spans};
use futures::future::LocalBoxFuture;
use tokio::task::LocalSet;

pub use options::RunArgs;

use clock::SystemClock;
use connect::ApiTarget;
use console::MakeExplain;
use health_loop::{CountedJournal, TelemetrySinks};
use pool::PoolSolver;
use preflight::ask::Asker;
use preflight::older_crds;
use process::{Signals, VERSION};

/// Longest wait at the end for the last spans to be sent.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// Runs until a signal, or until the replica cannot go on.
pub fn run(args: &RunArgs, explain: MakeExplain) -> Result<(), Failure> {
    let given = args.settings(|name| std::env::var_os(name))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Failure::System(why.to_string()))?;
    let ended = LocalSet::new().block_on(&runtime, async {
        let target = connect::find(&given.settings, &given.place("KUBECONFIG")).await?;
        let (without_effect, names) = (given.without_effect.clone(), given.names.clone());
        let settings = given.placed(target.namespace());
        process::log(&settings, target.in_cluster)?;
        for what in without_effect {
            tracing::warn!(logger = "run", "without effect: {what}");
        }
        if settings.shadow {
            return shadow::live(settings, &target).await;
        }
        live(settings, names, target, explain).await
    });
    // A look-up of a name may hang for a while: nobody waits for it.
    runtime.shutdown_background();
    ended
}

async fn live(
    settings: Settings,
    given: BTreeSet<String>,
    target: ApiTarget,
    explain: MakeExplain,
) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let rng_seed = fastrand::u64(..);
    let identity = process::identity(rng_seed);
    let spans = Spans::of_environment(telemetry::resource_of(&settings, &identity))?;
    let latest = Latest::default();
    latest.limit_objects(&settings);
    let metrics = telemetry::metrics(&latest, spans.clone());
    let health = Health::new(Arc::new(|| SystemClock.monotonic()), health_loop::DEAD_AFTER);
    process::serve(&settings, target.in_cluster, &health, &metrics, None)?;
    let identities = webhook::serve(&settings, target.in_cluster)?;
    let entries = LatestEntries::default();
    console::serve(&settings, target.in_cluster, &identity, (&latest, &entries), explain);
    let heard = TelemetrySinks { metrics: metrics.clone(), spans: spans.clone(), entries };
    let starting = async {
        tokio::select! {
            biased;
            parts = parts(settings, given, &target, identity.clone(), rng_seed, heard) => parts,
            () = health_loop::beat_before(health.clone()) => Err(Failure::System("the health loop stopped".into())),
        }
    };
    let parts = tokio::select! {
        biased;
        signal = signals.next() => {
            tracing::info!(logger = "run", "{signal} before the start: ending");
            return Ok(());
        }
        started = starting => started?,
    };
    let (parts, follows) = parts;
    let replica = dovetail_actors::start(ReplicaParts { identities, ..parts });
    let mut exit = replica.exit();
    let ended = tokio::select! {
        biased;
        signal = signals.next() => Ok(signal),
        why = exit.wait() => Err(why),
        () = health_loop::beat(&replica, &identity, &latest, health, metrics) => Err("the health loop stopped".into()),
        () = follows => Err("the provider's background work has ended".into()),
    };
    if let Ok(signal) = &ended {
        tracing::info!(logger = "run", "{signal}: giving the lease back, a second signal ends at once");
    }
    tokio::select! {
        biased;
        signal = signals.next() => return Err(Failure::System(format!("ended at once by a second signal, {signal}"))),
        () = replica.shutdown() => {}
    }
    if let Some(traces) = spans.as_ref().and_then(Spans::sent) {
        traces.flush(LAST_SPANS).await;
    }
    match ended {
        Ok(_) => {
            tracing::info!(logger = "run", "ended");
            Ok(())
        }
        Err(why) => Err(Failure::System(why)),
    }
}

/// Looks at everything that has to be so, and puts a replica together.
async fn parts(
    settings: Settings,
    given: BTreeSet<String>,
    target: &ApiTarget,
    identity: String,
    rng_seed: u64,
    heard: TelemetrySinks,
) -> Result<(ReplicaParts, LocalBoxFuture<'static, ()>), Failure> {
    let counted = heard.metrics.clone();
    let clock = ClusterClock::over(Arc::new(SystemClock));
    let kube = target.client(&settings, &clock, move |time| counted.waited(time.as_secs_f64()))?;
    let lease_kube = target.lease_client(&clock)?;
    let asker = Asker::new(format!("the API server {}", target.server()), settings.kube_access.startup_timeout);
    let facts = preflight::facts(&asker, &kube).await?;
    preflight::new_enough(&facts.version, settings.kube_access.oldest)?;
    preflight::crds_of(&asker, &kube, settings.provider).await?;
    let warn = |text: &str| tracing::warn!(logger = "run", "{text}");
    older_crds::warn_of(&asker, &kube, warn).await;
    let settings = global::with_config_map(&asker, &kube, settings, &given, warn).await;
    preflight::older_kinds(&asker, &kube, settings.webhook.enabled, warn).await?;
    let suspects = preflight::find_rivals(&asker, &kube, &settings, clock.wall(), warn).await;
    let reached = provider::reach(&asker, &kube, &settings, &facts, target, rng_seed, warn).await?;
    let settings = provider::with_authority(settings, target);
    let provider::Reached { cloud, endpoint, follows } = reached;
    let (server, region) = (target.server(), cloud.region().to_owned());
    tracing::info!(
        logger = "run",
        version = VERSION,
        server,
        kubernetes = facts.version,
        region,
        endpoint,
        namespace = settings.system_namespace,
        "everything that is needed is there"
    );
    preflight::stand_by(&kube, suspects, warn).await?;
    let solver = PoolSolver::start(settings.cores()).map_err(|why| Failure::System(format!("threads: {why}")))?;
    let parts = ReplicaParts {
        kube,
        lease_kube,
        cloud,
        clock,
        rng_seed,
        streams_lists: preflight::streams_lists(&facts.version),
        settings,
        identities: None,
        solver: Arc::new(solver),
        journal: CountedJournal::shared(heard, &identity),
        identity,
    };
    Ok((parts, follows))
}
