//! `dovetail simulate`: the control plane, a cluster and a region in one process, on virtual time.

mod beforehand;
mod check;
mod downtime;
mod invariants;
mod limited;
mod names;
mod node_faults;
mod random;
mod report;
pub mod scenario;
mod settled;
mod shrink;
mod steps;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::manifest::Manifest;
use dovetail_observability::Metrics;
use dovetail_sandbox::log::{Caller, EventLog};
use serde_json::json;
use tokio::task::LocalSet;

use crate::cli::SimulateArgs;
use crate::input::{Failure, Mistake, environment};
use crate::manifests::read_manifests;
use crate::stopwatch::Stopwatch;
use crate::story;
use crate::telemetry::state::Latest;
use crate::telemetry::{self, Spans};
use crate::world::{Broken, World, WorldConfig, forget_rules, virtual_clock};
use check::Checked;
use report::Report;
use scenario::Scenario;
use steps::Timed;

/// How often replicas are asked what they see, where metrics are wanted.
const WATCH: Duration = Duration::from_secs(10);

/// What is wanted beside the report.
#[derive(Clone, Copy, Default)]
struct Seen<'a> {
    spans: Option<&'a Spans>,
    metrics: Option<(&'a Metrics, &'a Latest)>,
}

/// Runs the command. [`Failure::Outcome`] when pods stay pending or an invariant is violated.
pub fn run(args: &SimulateArgs) -> Result<(), Failure> {
    let Some(path) = &args.scenario else { return random::run(args) };
    if args.shrink {
        return match shrink::shrink(Path::new(path), args)? {
            Some(shrunk) => print(&shrunk.to_string()).and(Err(Failure::Outcome)),
            None => print("it comes out well: there is nothing to shrink\n"),
        };
    }
    let report = play_file(Path::new(path), args, args.json)?;
    if args.json {
        let mut text = serde_json::to_string_pretty(&report).map_err(|why| Failure::System(why.to_string()))?;
        text.push('\n');
        print(&text)?;
    } else {
        print(&report.to_string())?;
    }
    if report.came_out_well() { Ok(()) } else { Err(Failure::Outcome) }
}

/// Plays a scenario file to its end; unless `quiet` the story is told as it happens.
fn play_file(path: &Path, args: &SimulateArgs, quiet: bool) -> Result<Report, Failure> {
    let path = &path.to_string_lossy();
    let mut scenario = scenario::read(path)?;
    if let Some(seed) = args.seed {
        scenario.seed = seed;
    }
    let mut checked = check::check(path, &scenario)?;
    if let Some(interruption) = args.interruption {
        checked.settings.insert("INTERRUPTION".to_owned(), interruption.setting().to_owned());
    }
    let mut env = environment(&args.environment.env, &args.environment.env_file)?;
    env.extend(scenario.env.clone());
    let reader = Reader { env, scenario: &scenario };
    let first = reader.read(&checked.apply)?;
    // Manifests of later steps are read before anything starts, too: bad input is said at once.
    names::check(path, &scenario, &first, |files| reader.read(files))?;
    let events = args.events.as_deref().map(create).transpose()?;
    let traces = args.traces.as_deref().map(|path| Ok::<_, Failure>((create(path)?, Spans::kept()))).transpose()?;

    let latest = Latest::default();
    let metrics = args.metrics.as_deref().map(|path| {
        let metrics = telemetry::metrics(&latest, None);
        Ok::<_, Failure>((create(path)?, metrics))
    });
    let metrics = metrics.transpose()?;
    let seen = Seen {
        spans: traces.as_ref().map(|(_, spans)| spans),
        metrics: metrics.as_ref().map(|(_, all)| (all, &latest)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|why| Failure::System(why.to_string()))?;
    let run = Run {
        path,
        quiet,
        scenario: &scenario,
        checked: &checked,
        reader: &reader,
        first: &first,
        broken: args.broken,
    };
    let report = LocalSet::new().block_on(&runtime, run.play(events, seen))?;
    if let Some((mut file, metrics)) = metrics {
        let watch = Stopwatch::start();
        let text = metrics.text();
        let (series, milliseconds) =
            (text.lines().filter(|line| !line.starts_with('#')).count(), watch.elapsed().as_millis());
        let written = file.write_all(text.as_bytes());
        written.map_err(|why| Failure::System(format!("--metrics: {why}")))?;
        if !args.json {
            println!("metrics: {series} series, {} KiB, made in {milliseconds} ms", text.len() / 1024);
        }
    }
    if let Some((mut file, spans)) = traces {
        let written = writeln!(file, "{}", spans.document());
        written.map_err(|why| Failure::System(format!("--traces: {why}")))?;
    }
    Ok(report)
}

fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::System(why.to_string())),
        _ => Ok(()),
    }
}

fn create(path: &str) -> Result<File, Failure> {
    File::create(path).map_err(|why| Failure::System(format!("{path}: {}", crate::input::describe(&why))))
}

/// Reads manifests with the scenario's variables.
struct Reader<'a> {
    env: BTreeMap<String, String>,
    scenario: &'a Scenario,
}

impl Reader<'_> {
    fn read(&self, files: &[String]) -> Result<Vec<Manifest>, Vec<Mistake>> {
        read_manifests(files, &self.env, &self.scenario.cluster_name.value)
    }
}

struct Run<'a> {
    path: &'a str,
    quiet: bool,
    scenario: &'a Scenario,
    checked: &'a Checked,
    reader: &'a Reader<'a>,
    first: &'a [Manifest],
    broken: Option<Broken>,
}

impl Run<'_> {
    async fn play(&self, events: Option<File>, seen: Seen<'_>) -> Result<Report, Failure> {
        let mut world = self.world(events)?;
        if let Some(spans) = seen.spans {
            world.timeline.trace_to(spans.clone());
        }
        if let Some((metrics, latest)) = seen.metrics {
            world.timeline.count_in(metrics.clone());
            world.watch(latest.clone(), WATCH);
        }
        let world = Rc::new(world);
        world.apply(self.first)?;
        invariants::note_rules(&world);
        let forgotten = forget_rules(&world.api, self.broken);
        forgotten.map_err(|why| Failure::System(format!("what is broken on purpose: {why}")))?;
        world.start_replicas()?;
        let started = tokio::time::Instant::now();
        for Timed { at, action, step } in &self.checked.steps {
            tokio::time::sleep_until(started + *at).await;
            let done = world.act(action, &|files| self.reader.read(files));
            done.map_err(|why| self.refused(*step, why))?;
            if matches!(action, crate::world::Action::Apply { .. }) {
                invariants::note_rules(&world);
            }
        }
        settled::wait(&world, self.checked.settled, started + self.checked.until).await;
        let report = report::of(&world);
        world.log.append("end", &Caller::named("simulation"), [("violations", json!(report.violations()))]);
        world.log.flush().map_err(|why| Failure::System(format!("--events: {why}")))?;
        Ok(report)
    }

    /// What the world has refused, with the place of the step.
    fn refused(&self, step: usize, why: Failure) -> Failure {
        let (Failure::System(what), Some(own)) = (&why, self.scenario.steps.get(step)) else { return why };
        let field = format!("steps[{step}]");
        let (file, line) = (self.path.to_owned(), scenario::line(&own.at));
        Failure::System(Mistake { line, field, ..Mistake::of_file(file, what) }.to_string())
    }

    fn world(&self, events: Option<File>) -> Result<World, Failure> {
        let config = WorldConfig {
            region: self.scenario.region.value.clone(),
            catalogue: self.checked.catalogue.clone(),
            cluster_name: self.scenario.cluster_name.value.clone(),
            seed: self.scenario.seed,
            replicas: self.checked.replicas,
            settings: self.checked.settings.clone(),
            reservations: self.checked.reservations.clone(),
            nodes: self.checked.nodes.clone(),
            faults: self.checked.faults.clone(),
            panics_for: self.checked.panics_for.clone(),
            endpoint: None,
            clocks: self.checked.clocks.clone(),
            broken: self.broken,
        };
        let watcher: Option<crate::world::Watcher> =
            (!self.quiet).then(|| Arc::new(|line: &crate::world::Line| story::print_plain(line)) as _);
        World::new(config, virtual_clock(), watcher, |log| {
            if let Some(file) = events {
                log.write_to(Box::new(BufWriter::new(file)), true);
            }
            self.note_start(log);
        })
    }

    fn note_start(&self, log: &EventLog) {
        let fields = [
            ("scenario", json!(self.path)),
            ("seed", json!(self.scenario.seed)),
            ("region", json!(self.scenario.region.value)),
            ("clusterName", json!(self.scenario.cluster_name.value)),
            ("replicas", json!(self.checked.replicas)),
        ];
        log.append("start", &Caller::named("simulation"), fields);
    }
}

/// A duration in seconds, as the report has it.
fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e6
}
