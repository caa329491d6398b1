//! The console at `/`, what it shows, and the metrics.

use std::rc::Rc;
use std::sync::Arc;

use dovetail_sandbox::apiserver::{ActionsByPath, PagesByPath, ServedPage};
use dovetail_simulation::World;
use dovetail_telemetry::console::{self, LogLine, PageFacts};
use dovetail_telemetry::state::Latest;
use futures::FutureExt as _;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::{ec2, state};
use crate::cli::SandboxArgs;
use crate::explain::page::ExplainPage;
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
    /// Answers why things are as they are.
    pub explain: ExplainPage,
}

/// Requests that only the world's own thread can answer.
enum Wanted {
    Console(oneshot::Sender<Vec<u8>>),
    State(oneshot::Sender<Vec<u8>>),
    /// EC2's part, as the query of a request has it.
    Ec2(String, oneshot::Sender<Result<String, String>>),
}

/// The pages by path, and the changes that the console may ask for. The world's own thread answers for the world; metrics and
/// explanations are made elsewhere.
pub fn pages(world: Rc<World>, args: &SandboxArgs, shown: Shown) -> (PagesByPath, ActionsByPath) {
    let (ask, mut asked) = mpsc::channel::<Wanted>(MOST_ASKERS);
    let (args, metrics, explain) = (args.clone(), shown.metrics.clone(), shown.explain.clone());
    tokio::task::spawn_local(async move {
        while let Some(wanted) = asked.recv().await {
            // An asker that has gone away is no matter.
            let _ = match wanted {
                Wanted::Console(asker) => asker.send(console(&world, &args, &shown).into_bytes()).is_ok(),
                Wanted::State(asker) => asker.send(state::page_state(&world, &args).to_string().into_bytes()).is_ok(),
                Wanted::Ec2(query, asker) => asker.send(ec2::act(&world, &query)).is_ok(),
            };
        }
    });
    let acts = ask.clone();
    let actions: ActionsByPath = Arc::new(move |asked: &str| {
        let (path, query) = asked.split_once('?').unwrap_or((asked, ""));
        (path == ec2::PATH).then(|| act(acts.clone(), query.to_owned()).boxed())
    });
    let pages: PagesByPath =
        Arc::new(move |asked: &str, accepted: &str| match asked.split_once('?').unwrap_or((asked, "")) {
            ("/", _) => {
                let page = console::page("Dovetail sandbox").into_bytes().into();
                std::future::ready(Some(("text/html; charset=utf-8", page))).boxed()
            }
            ("/console/state", _) => answer(ask.clone(), Wanted::Console).boxed(),
            ("/console/explain", query) => {
                let page = explain.answer(query).to_string().into_bytes().into();
                std::future::ready(Some(("application/json", page))).boxed()
            }
            ("/sandbox/state", _) => answer(ask.clone(), Wanted::State).boxed(),
            ("/metrics", _) => {
                let open = metrics.text();
                let page = if asks_open_metrics(accepted) {
                    (OPEN_METRICS, open.into_bytes().into())
                } else {
                    (TEXT_FORMAT, text_format(&open).into_bytes().into())
                };
                std::future::ready(Some(page)).boxed()
            }
            _ => std::future::ready(None).boxed(),
        });
    (pages, actions)
}

async fn answer(
    ask: mpsc::Sender<Wanted>,
    wanted: impl FnOnce(oneshot::Sender<Vec<u8>>) -> Wanted,
) -> Option<ServedPage> {
    let (asker, answer) = oneshot::channel();
    ask.send(wanted(asker)).await.ok()?;
    Some(("application/json", answer.await.ok()?.into()))
}

async fn act(ask: mpsc::Sender<Wanted>, query: String) -> Result<Vec<u8>, String> {
    let gone = || "the sandbox is ending".to_owned();
    let (asker, answer) = oneshot::channel();
    ask.send(Wanted::Ec2(query, asker)).await.map_err(|_| gone())?;
    let said = answer.await.map_err(|_| gone())??;
    Ok(json!({"said": said}).to_string().into_bytes())
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
    let facts =
        PageFacts { cluster: &args.cluster_name, about: &about, traces: &shown.traces, ec2: Some(ec2::state(world)) };
    console::state(&shown.latest, &facts, lines)
}
