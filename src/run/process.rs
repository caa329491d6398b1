//! Properties of the process itself: a name, a log, sockets, signals.

use std::io::IsTerminal as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use dovetail_actors::Settings;
use dovetail_actors::settings::LogFormat;
use dovetail_core::clock::Clock as _;
use dovetail_input::Failure;
use dovetail_observability::log::{self, LogOptions};
use dovetail_observability::{Health, Metrics, Pages, serve};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::clock::SystemClock;
pub use dovetail_telemetry::{COMMIT, VERSION};

/// Begins the log; a panic stands in it too.
pub fn log(settings: &Settings, in_cluster: bool) -> Result<(), Failure> {
    let json = match settings.log.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => in_cluster || !std::io::stdout().is_terminal(),
    };
    let options = LogOptions {
        level: settings.log.level.clone(),
        json,
        outputs: settings.log.outputs.clone(),
        commit: COMMIT,
        stamp: Arc::new(|| format!("{:.3}", SystemClock.wall())),
    };
    log::start(options).map_err(|why| Failure::System(format!("LOG_OUTPUT_PATHS: {why}")))?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let what = panic.payload_as_str().unwrap_or("a panic");
        tracing::error!(logger = "panic", place, "{what}");
    }));
    Ok(())
}

/// Name of the replica in the election: another one at every start.
pub fn identity(seed: u64) -> String {
    let host = std::env::var("POD_NAME").ok().or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let host = host.unwrap_or_default();
    let host = if host.trim().is_empty() { "dovetail" } else { host.trim() };
    format!("{host}_{:08x}", seed >> 32)
}

/// Serves health, and metrics with pages beside them; a port that is taken is refused.
pub fn serve(
    settings: &Settings,
    in_cluster: bool,
    health: &Health,
    metrics: &Metrics,
    pages: Option<Pages>,
) -> Result<(), Failure> {
    let bind = |port, name| bind(settings.bind_address, in_cluster, port, name).map_err(Failure::System);
    let probes = bind(settings.health_probe_port, "HEALTH_PROBE_PORT (--health-probe-port)")?;
    let scrapes = bind(settings.metrics_port, "METRICS_PORT (--metrics-port)")?;
    let address = |socket: &TcpListener| socket.local_addr().map(|address| address.to_string()).unwrap_or_default();
    let (health_address, metrics_address) = (address(&probes), address(&scrapes));
    tracing::info!(logger = "run", health = health_address, metrics = metrics_address, "serving health and metrics");
    // The node's address, from which its kubelet probes: the chart gives it.
    let node = std::env::var("HOST_IP").ok().and_then(|text| text.parse().ok());
    serve::start_with(probes, health.clone(), scrapes, metrics.clone(), pages, node)
        .map_err(|why| Failure::System(format!("health and metrics cannot be served: {why}")))
}

/// The addresses that are tried, in turn: in a cluster all, IPv6 and IPv4, or where there is no IPv6 those of IPv4.
pub fn bind(asked: Option<IpAddr>, in_cluster: bool, port: u16, name: &str) -> Result<TcpListener, String> {
    let all = [IpAddr::from(Ipv6Addr::UNSPECIFIED), Ipv4Addr::UNSPECIFIED.into()];
    let own = [IpAddr::from(Ipv4Addr::LOCALHOST)];
    let tried: Vec<IpAddr> = match (asked, in_cluster) {
        (Some(address), _) => vec![address],
        (None, true) => all.to_vec(),
        (None, false) => own.to_vec(),
    };
    let mut refused = String::new();
    for address in tried {
        let address = SocketAddr::new(address, port);
        match TcpListener::bind(address) {
            Ok(socket) => return Ok(socket),
            Err(why) if why.kind() == std::io::ErrorKind::AddrInUse => {
                refused = format!("{address} is taken by another process");
                break;
            }
            Err(why) => refused = format!("{address} (BIND_ADDRESS, --bind-address) cannot be had: {why}"),
        }
    }
    Err(format!("{name}: {refused}"))
}

/// SIGTERM and SIGINT.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on they do not end the process by themselves.
    pub fn listen() -> Result<Self, Failure> {
        let heard = |kind| signal(kind).map_err(|why| Failure::System(format!("signals cannot be heard: {why}")));
        Ok(Self { terminate: heard(SignalKind::terminate())?, interrupt: heard(SignalKind::interrupt())? })
    }

    /// The next one, by name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
