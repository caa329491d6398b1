//! The console of a replica: its pages, and where they are served.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;

use dovetail_actors::Settings;
use dovetail_observability::access::HttpAccess;
use dovetail_observability::serve::{self, Pages};
use dovetail_telemetry::console::{self, PageFacts};
use dovetail_telemetry::latest_entries::LatestEntries;
use dovetail_telemetry::state::Latest;
use serde_json::Value;

use super::process::bind;

/// Answers to the queries of `/console/explain`.
pub type ExplainQueries = Arc<dyn Fn(&str) -> Value + Send + Sync>;
/// Maker of these answers, by a replica's settings and what it knows. It is handed in, as answers are made above this room.
pub type MakeExplain = fn(&Settings, &Latest) -> ExplainQueries;

/// Serves the console. What stands in its way is told, and no reason not to provision.
pub fn serve(
    settings: &Settings,
    in_cluster: bool,
    identity: &str,
    (latest, entries): (&Latest, &LatestEntries),
    explain: MakeExplain,
) {
    let Some(port) = settings.console_port else { return };
    let token = settings.console_token.revealed();
    // Whoever is not asked for a token has to sit at this machine, or come by `kubectl port-forward`.
    let asked = if token.is_none() { Some(IpAddr::from(Ipv4Addr::LOCALHOST)) } else { settings.bind_address };
    let pages = pages(settings, identity, latest.clone(), entries.clone(), explain(settings, latest));
    let served = bind(asked, in_cluster, port, "CONSOLE_PORT (--console-port)").and_then(|listener| {
        let address = address(&listener);
        serve::console(listener, HttpAccess::new(token.map(str::to_owned)), pages)
            .map(|()| address)
            .map_err(|why| why.to_string())
    });
    match served {
        Ok(address) => tracing::info!(logger = "run", console = address, "serving the console"),
        Err(why) => tracing::warn!(logger = "run", "there is no console: {why}"),
    }
}

fn address(listener: &TcpListener) -> String {
    listener.local_addr().map(|address| address.to_string()).unwrap_or_default()
}

fn pages(
    settings: &Settings,
    identity: &str,
    latest: Latest,
    entries: LatestEntries,
    explain: ExplainQueries,
) -> Pages {
    let cluster = settings.cluster_name.clone();
    let about = format!("Cluster {cluster}, as replica {identity} sees it.");
    let traces = console::trace_pages();
    Arc::new(move |asked| match asked.split_once('?').unwrap_or((asked, "")) {
        ("/", _) => Some(("text/html; charset=utf-8", console::page("Dovetail").into_bytes())),
        ("/console/explain", query) => Some(("application/json", explain(query).to_string().into_bytes())),
        ("/console/state", _) => {
            latest.watched();
            let facts = PageFacts { cluster: &cluster, about: &about, traces: &traces, ec2: None };
            let state = console::state(&latest, &facts, entries.lines().into_iter());
            Some(("application/json", state.into_bytes()))
        }
        _ => None,
    })
}
