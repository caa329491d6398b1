//! The console at `/`, what it shows, and the metrics.

use std::rc::Rc;
use std::sync::Arc;

use dovetail_sandbox::apiserver::{PagesByPath, ServedPage};
use dovetail_simulation::World;
use dovetail_telemetry::console::{self, LogLine};
use dovetail_telemetry::state::Latest;
use futures::FutureExt as _;
use tokio::sync::{mpsc, oneshot};

use super::state;
use crate::cli::SandboxArgs;
use dovetail_observability::Metrics;
use dovetail_observability::metrics::{OPEN_METRICS, TEXT_FORMAT, asks_open_metrics, text_format};

/// Askers that wait for the state at once; those beyond wait to ask.
const MOST_ASKERS: usize = 64;

/// Contents of the pages beside the world.
#[derive(Clone)]
pub struct Shown {
    /// Latest states of the replicas.
    pub latest: Latest,
    /// Counters of events.
    pub metrics: Metrics,
    /// Address of a trace's page, up to its id; empty if there is none.
    pub traces: String,
}

/// Pages that only the world's own thread can make.
enum Wanted {
    Console,
    State,
}

type Asker = (Wanted, oneshot::Sender<Vec<u8>>);

/// The pages by path. What the world is like is asked of its own thread; metrics are written here.
pub fn pages(world: Rc<World>, args: &SandboxArgs, shown: Shown) -> PagesByPath {
    let (ask, mut asked) = mpsc::channel::<Asker>(MOST_ASKERS);
    let (args, metrics) = (args.clone(), shown.metrics.clone());
    tokio::task::spawn_local(async move {
        while let Some((wanted, asker)) = asked.recv().await {
            let text = match wanted {
                Wanted::Console => console(&world, &args, &shown),
                Wanted::State => state::page_state(&world, &args).to_string(),
            };
            // An asker that has gone away is no matter.
            let _ = asker.send(text.into_bytes());
        }
    });
    Arc::new(move |path: &str, accepted: &str| match path {
        "/" => {
            let page = console::page("Dovetail sandbox").into_bytes().into();
            std::future::ready(Some(("text/html; charset=utf-8", page))).boxed()
        }
        "/console/state" => answer(ask.clone(), Wanted::Console).boxed(),
        "/sandbox/state" => answer(ask.clone(), Wanted::State).boxed(),
        "/metrics" => {
            let open = metrics.text();
            let page = if asks_open_metrics(accepted) {
                (OPEN_METRICS, open.into_bytes().into())
            } else {
                (TEXT_FORMAT, text_format(&open).into_bytes().into())
            };
            std::future::ready(Some(page)).boxed()
        }
        _ => std::future::ready(None).boxed(),
    })
}

async fn answer(ask: mpsc::Sender<Asker>, wanted: Wanted) -> Option<ServedPage> {
    let (asker, answer) = oneshot::channel();
    ask.send((wanted, asker)).await.ok()?;
    Some(("application/json", answer.await.ok()?.into()))
}

fn console(world: &World, args: &SandboxArgs, shown: &Shown) -> String {
    let speed = if args.speed == 1.0 { String::new() } else { format!(", time runs {} times as fast", args.speed) };
    let nobody = match args.replicas {
        0 => {
            "No replica runs in this process, so the page shows nothing of the cluster: a control plane that you start beside it has a page of its own (--console-port). The nodes are at /sandbox/state. "
        }
        _ => "",
    };
    let about = format!(
        "{nobody}Sandbox: cluster {} in {}, {} replicas, {:.0} s old{speed}. Prices of spot capacity are synthetic: they come from a model, not from AWS.",
        args.cluster_name,
        args.region,
        args.replicas,
        world.now().as_secs_f64(),
    );
    let lines = world.timeline.lines().into_iter().map(|line| LogLine {
        when: format!("{:.1}s {}", line.seconds, line.replica.unwrap_or_default()),
        seconds: line.seconds,
        actor: line.actor.to_owned(),
        event: line.event.to_owned(),
        text: line.text,
        level: format!("{:?}", line.level),
        trace: line.trace_id,
        fields: line.fields.into(),
    });
    console::state(&shown.latest, &args.cluster_name, &about, &shown.traces, lines)
}
