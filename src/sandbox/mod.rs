//! `dovetail sandbox`: the world of a simulation, live: on real time or a multiple of it, its API served to kubectl.

mod address;
mod ec2;
mod events;
mod page;
mod pods;
mod serving;
mod speed;
mod state;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_cloud::shipped;
use dovetail_core::clock::Clock;
use dovetail_input::manifests::read_manifests;
use dovetail_input::{Failure, Mistake, environment};
use dovetail_sandbox::clock::RealClock;
use dovetail_sandbox::faults::FaultSettings;
use dovetail_sandbox::region;
use dovetail_simulation::{JournalLine, Watcher, World, WorldConfig};
use dovetail_telemetry::state::Latest;
use dovetail_telemetry::{self as telemetry, Spans};
use tokio::net::TcpListener;
use tokio::task::LocalSet;

use crate::cli::SandboxArgs;
use crate::explain::page::ExplainPage;
use crate::terminal::Screen;
use address::Address;
use page::Shown;
use pods::ControlPlanePods;

/// Longest wait at the end for the last spans to be sent.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// Runs until Ctrl-C.
pub fn run(args: &SandboxArgs) -> Result<(), Failure> {
    if !shipped::regions().any(|known| known == args.region) {
        let what = format!("unknown region {:?}", args.region);
        return Err(Mistake::of_file("--region", what)
            .allowing(shipped::regions().collect::<Vec<_>>().join(", "))
            .into());
    }
    let address = Address::from_args(args)?;
    let env = environment(&args.environment.env, &args.environment.env_file)?;
    let manifests = read_manifests(&args.manifests, &env, &args.cluster_name)?;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(speed::differs(args.speed)).build();
    let runtime = runtime.map_err(|why| Failure::System(why.to_string()))?;
    let ended = LocalSet::new().block_on(&runtime, live(args, &address, &manifests));
    // Nothing of what still runs has anything to save.
    runtime.shutdown_background();
    ended
}

async fn live(
    args: &SandboxArgs,
    address: &Address,
    manifests: &[dovetail_api::manifest::Manifest],
) -> Result<(), Failure> {
    let clock: Arc<dyn Clock> = match speed::differs(args.speed) {
        true => speed::start(args.speed),
        false => Arc::new(RealClock::new()),
    };
    let screen = Arc::new(Screen::new(args.log_format, args.quiet));
    let control_plane = ControlPlanePods::new(args);
    let watcher = watcher(screen.clone(), &control_plane, clock.clone());
    // No events are kept: a sandbox may run for days.
    let config = config(args);
    let settings = Settings::from_map(&config.settings).map_err(|all| {
        all.into_iter()
            .map(|one| Mistake::of_file("--feature-gates", one.what).allowing(one.allowed))
            .collect::<Vec<_>>()
    })?;
    let latest = Latest::default();
    let explain = ExplainPage::new(settings, latest.clone(), clock.clone(), args.speed);
    let mut world = World::new(config, clock, Some(watcher), |log| log.write_to(Box::new(std::io::sink()), false))?;
    world.timeline.keep_latest(state::LINES);
    let spans = Spans::of_environment(telemetry::resource("", &args.cluster_name))?;
    if let Some(spans) = &spans {
        world.timeline.trace_to(spans.clone());
    }
    let shown = Shown {
        latest: latest.clone(),
        metrics: telemetry::metrics(&latest, spans.clone()),
        traces: dovetail_telemetry::console::trace_pages(),
        explain,
    };
    world.timeline.count_in(shown.metrics.clone());
    world.watch(latest, Duration::from_secs(1).mul_f64(args.speed));
    let world = Rc::new(world);
    let serving = address.serve(&world, args, shown).await?;
    let kubeconfig = address.write_kubeconfig(args, &serving)?;
    let open = address.page(&serving);
    screen.say(&format!("kubeconfig: {kubeconfig}   (kubectl --kubeconfig {kubeconfig} get nodes)"));
    screen.say(&format!("page: {open}"));
    screen.say("prices of spot capacity are synthetic: they come from a model, not from AWS");
    events::start(&world);
    if let Some(port) = args.serve_aws {
        serve_aws(args, &screen, &world, port).await?;
    }
    world.apply(manifests)?;
    control_plane.start(&world)?;
    world.start_replicas()?;
    tokio::task::spawn_local(progress(screen.clone(), world.clone(), args.speed));
    tokio::select! {
        biased;
        asked = asked_to_end() => asked.map_err(|why| Failure::System(format!("cannot listen for Ctrl-C: {why}")))?,
        () = serving.ended() => return Err(Failure::System("the API is no longer served: its thread has ended".to_owned())),
    }
    if let Some(traces) = spans.as_ref().and_then(Spans::sent) {
        traces.flush(LAST_SPANS.mul_f64(args.speed)).await;
    }
    screen.say("stopped: cluster and region were in this process and are gone");
    Ok(())
}

/// Serves the region on loopback. Whoever asks is taken for the one account that there is.
async fn serve_aws(args: &SandboxArgs, screen: &Screen, world: &World, port: u16) -> Result<(), Failure> {
    let refused = |why: std::io::Error| Failure::System(format!("--serve-aws {port}: {why}"));
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    screen.say(&format!("aws: AWS_ENDPOINT_URL=http://{address} AWS_REGION={}, with any credentials", args.region));
    let serving = region::serve(world.region.clone(), listener);
    tokio::task::spawn_local(async move {
        let Err(why) = serving.await;
        eprintln!("dovetail: the region is no longer served: {why}");
    });
    Ok(())
}

/// Waits for Ctrl-C, or for the signal that a service manager sends.
async fn asked_to_end() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            biased;
            pressed = tokio::signal::ctrl_c() => pressed,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

fn config(args: &SandboxArgs) -> WorldConfig {
    WorldConfig {
        region: args.region.clone(),
        catalogue: None,
        cluster_name: args.cluster_name.clone(),
        seed: args.seed,
        replicas: args.replicas,
        settings: settings(args),
        faults: FaultSettings::default(),
        panics_for: vec![],
        claims_deleted: None,
        reservations: vec![],
        placement_groups: vec![],
        commitments: Default::default(),
        nodes: Vec::new(),
        endpoint: None,
        clocks: Vec::new(),
        broken: None,
        alpha_as_written: true,
    }
}

/// Settings of the replicas.
fn settings(args: &SandboxArgs) -> BTreeMap<String, String> {
    let gates = args.feature_gates.iter().map(|gates| ("FEATURE_GATES".to_owned(), gates.clone()));
    gates.chain([("SPOT_PRICE_REFRESH_INTERVAL".to_owned(), price_refresh(args.speed))]).collect()
}

/// Interval at which replicas read spot prices: a minute of whoever watches, so that a change by the console is soon seen.
fn price_refresh(speed: f64) -> String {
    format!("{:.0}s", (60.0 * speed).max(60.0))
}

/// Each line goes onto the screen and into the log of its replica's pod.
fn watcher(screen: Arc<Screen>, control_plane: &ControlPlanePods, clock: Arc<dyn Clock>) -> Watcher {
    let books = control_plane.books();
    Arc::new(move |line: &JournalLine| {
        screen.emit(line);
        if let Some(book) = line.replica.and_then(|replica| books.get(replica as usize)) {
            book.write(clock.wall(), &screen.logged(line, clock.wall()));
        }
    })
}

/// Keeps the line of what is on its way up to date, where somebody sees it.
async fn progress(screen: Arc<Screen>, world: Rc<World>, speed: f64) {
    if !screen.has_progress() {
        return;
    }
    let every = Duration::from_millis(250).mul_f64(speed);
    loop {
        tokio::time::sleep(every).await;
        screen.progress(&state::on_the_way(&world));
    }
}
