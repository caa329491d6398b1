//! The control plane, a cluster and a region in one process, on virtual time.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_api::manifest::Manifest;
use dovetail_input::manifests::read_manifests;
use dovetail_input::{Failure, Mistake, describe, environment};
use dovetail_observability::Metrics;
use dovetail_sandbox::apiserver::NODE_POOLS;
use dovetail_sandbox::cpu;
use dovetail_sandbox::log::{Caller, EventLog};
use dovetail_telemetry::state::Latest;
use dovetail_telemetry::stopwatch::{Stopwatch, rss_kib};
use dovetail_telemetry::{self as telemetry, Spans};
use serde_json::json;
use tokio::task::LocalSet;

use crate::record::{RecordKeeper, Series};
use crate::report::{self, Report};
use crate::scenario::check::{self, Checked};
use crate::scenario::idle::idle_settings;
use crate::scenario::steps::Timed;
use crate::scenario::{self, Scenario, names};
use crate::world::{Action, Broken, Watcher, World, WorldConfig, forget_rules, virtual_clock};

/// Time between two looks at the replicas' state, where metrics are wanted.
const WATCH: Duration = Duration::from_secs(10);
/// Time between two looks for a record.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Outputs that are wanted beside the report.
#[derive(Clone, Copy, Default)]
struct Seen<'a> {
    spans: Option<&'a Spans>,
    metrics: Option<(&'a Metrics, &'a Latest)>,
}

/// Options of playing a scenario, beside what it says itself.
#[derive(Clone, Default)]
pub struct PlayOptions {
    /// The seed, instead of the scenario's.
    pub seed: Option<u64>,
    /// The setting `INTERRUPTION`, instead of the scenario's.
    pub interruption: Option<&'static str>,
    /// `NAME=VALUE` that fill `${NAME}` in manifests, before the scenario's own.
    pub env: Vec<String>,
    /// Files of such lines; `env` wins over them.
    pub env_file: Vec<String>,
    /// A safeguard that is taken out on purpose.
    pub broken: Option<Broken>,
    /// File for everything that happens, JSON Lines.
    pub events: Option<String>,
    /// File for the metrics as they are at the end.
    pub metrics: Option<String>,
    /// File for the traces, one OTLP/JSON document.
    pub traces: Option<String>,
    /// Hears log events as they happen.
    pub watcher: Option<Watcher>,
    /// File for the record of the run ([`crate::record`]).
    pub record: Option<String>,
    /// Time between two looks at the world; half a minute where a record is wanted, and no looks otherwise.
    pub look_every: Option<Duration>,
    /// Hears how far the run is.
    pub progress: Option<Progress>,
    /// Called with what the run has cost so far, before each step and at the end.
    pub cost: Option<fn(&CostSoFar)>,
    /// True if the process ends after it: the world is left to the operating system, which frees it in less time.
    pub last: bool,
}

/// CPU and memory that a run has taken so far. Real figures: no two runs have the same.
pub struct CostSoFar {
    at: Duration,
    replicas: Duration,
    all: Duration,
    peak_kib: u64,
    resident_kib: u64,
}

impl fmt::Display for CostSoFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [at, replicas, all] = [self.at, self.replicas, self.all].map(|time| time.as_secs_f64());
        let (peak, resident) = (self.peak_kib / 1024, self.resident_kib / 1024);
        write!(
            f,
            "cost at {at:.0} s: {replicas:.3} CPU seconds of replicas, {all:.3} of all; {resident} MiB, {peak} at most"
        )
    }
}

impl CostSoFar {
    fn of_world(world: &World) -> Self {
        let (resident_kib, peak_kib) = rss_kib();
        let (at, replicas) = (world.now(), world.cpu_of_replicas());
        Self { at, replicas, all: cpu::of_thread(), peak_kib, resident_kib }
    }
}

/// Hears how far a run is: virtual time since its beginning, and its end.
pub type Progress = Arc<dyn Fn(Duration, Duration) + Send + Sync>;

/// The outcome of a scenario that was played.
pub struct Played {
    pub report: Report,
    /// The world as it was seen, if it was looked at.
    pub series: Series,
    /// The metrics that were written, where they are wanted.
    pub metrics: Option<MetricsWritten>,
}

/// Size of the metrics that were written, and the time that it took.
pub struct MetricsWritten {
    series: usize,
    bytes: usize,
    milliseconds: u128,
}

impl fmt::Display for MetricsWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { series, bytes, milliseconds } = self;
        write!(f, "metrics: {series} series, {} KiB, made in {milliseconds} ms", bytes / 1024)
    }
}

/// Plays a scenario file to its end.
///
/// # Errors
/// It or what it names is not understood, or something outside fails: a file cannot be written, the world refuses a step.
pub fn play_file(path: &Path, options: &PlayOptions) -> Result<Played, Failure> {
    let path = &path.to_string_lossy();
    let mut scenario = scenario::read_scenario(path)?;
    if let Some(seed) = options.seed {
        scenario.seed = seed;
    }
    let mut checked = check::check(path, &scenario)?;
    if let Some(interruption) = options.interruption {
        checked.settings.insert("INTERRUPTION".to_owned(), interruption.to_owned());
    }
    let mut env = environment(&options.env, &options.env_file)?;
    env.extend(scenario.env.clone());
    let reader = Reader { env, scenario: &scenario };
    let first = reader.read_files(&checked.apply)?;
    // Manifests of later steps are read before anything starts, too: bad input is said at once.
    names::check(path, &scenario, &first, |files| reader.read_files(files))?;
    idle_settings(&checked.settings).iter().for_each(|line| eprintln!("{line}"));
    let events = options.events.as_deref().map(create).transpose()?;
    let traces = options.traces.as_deref().map(|path| Ok::<_, Failure>((create(path)?, Spans::kept()))).transpose()?;

    let latest = Latest::default();
    // Those that make no sense are refused above.
    latest.limit_objects(&Settings::from_map(&checked.settings).unwrap_or_default());
    let metrics = options.metrics.as_deref().map(|path| {
        let metrics = telemetry::metrics(&latest, None);
        Ok::<_, Failure>((create(path)?, metrics))
    });
    let metrics = metrics.transpose()?;
    let seen = Seen {
        spans: traces.as_ref().map(|(_, spans)| spans),
        metrics: metrics.as_ref().map(|(_, all)| (all, &latest)),
    };
    let every = options.look_every.or(options.record.is_some().then_some(LOOK_EVERY));
    let keeper = every.map(|every| RecordKeeper::new(path, every, options.record.as_deref(), scenario.seed));
    let run = Run {
        path,
        keeper: keeper.transpose()?,
        progress: options.progress.as_ref(),
        watcher: options.watcher.as_ref(),
        scenario: &scenario,
        checked: &checked,
        reader: &reader,
        first: &first,
        broken: options.broken,
        cost: options.cost,
    };
    if options.cost.is_some() {
        cpu::measure();
    }
    let (report, series) = run.play_to_end(events, seen, options.last)?;
    let metrics = metrics.map(|(file, metrics)| write_metrics(file, &metrics)).transpose()?;
    if let Some((mut file, spans)) = traces {
        let written = writeln!(file, "{}", spans.document());
        written.map_err(|why| Failure::System(format!("--traces: {why}")))?;
    }
    Ok(Played { report, series, metrics })
}

fn write_metrics(mut file: File, metrics: &Metrics) -> Result<MetricsWritten, Failure> {
    let watch = Stopwatch::start();
    let text = metrics.text();
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    let milliseconds = watch.elapsed().as_millis();
    file.write_all(text.as_bytes()).map_err(|why| Failure::System(format!("--metrics: {why}")))?;
    Ok(MetricsWritten { series, bytes: text.len(), milliseconds })
}

/// True for a step that may change the rules of pools, which the invariants hold from then on.
fn changes_rules(action: &Action) -> bool {
    match action {
        Action::Apply { .. } => true,
        Action::Scale { kind, .. } => kind == "NodePool",
        _ => false,
    }
}

fn create(path: &str) -> Result<File, Failure> {
    File::create(path).map_err(|why| Failure::System(format!("{path}: {}", describe(&why))))
}

/// Reads manifests with the scenario's variables.
struct Reader<'a> {
    env: BTreeMap<String, String>,
    scenario: &'a Scenario,
}

impl Reader<'_> {
    fn read_files(&self, files: &[String]) -> Result<Vec<Manifest>, Vec<Mistake>> {
        read_manifests(files, &self.env, &self.scenario.cluster_name.value)
    }
}

struct Run<'a> {
    path: &'a str,
    keeper: Option<RecordKeeper>,
    progress: Option<&'a Progress>,
    watcher: Option<&'a Watcher>,
    scenario: &'a Scenario,
    checked: &'a Checked,
    reader: &'a Reader<'a>,
    first: &'a [Manifest],
    broken: Option<Broken>,
    cost: Option<fn(&CostSoFar)>,
}

/// Notes the rules anew whenever the NodePools have become others: those of Provisioners are made by the control plane.
async fn note_translated(world: Rc<World>) {
    let of = |pool: &serde_json::Value| (pool["metadata"]["name"].clone(), pool["metadata"]["generation"].clone());
    let pools = || world.api.list(&NODE_POOLS).iter().map(|pool| of(pool)).collect::<Vec<_>>();
    let mut known = pools();
    loop {
        tokio::time::sleep(NOTE_AGAIN).await;
        let there = pools();
        if there != known {
            crate::invariants::note_rules(&world);
            known = there;
        }
    }
}

/// Time between two looks of [`note_translated`].
const NOTE_AGAIN: Duration = Duration::from_millis(100);

impl Run<'_> {
    fn play_to_end(&self, events: Option<File>, seen: Seen<'_>, last: bool) -> Result<(Report, Series), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.map_err(|why| Failure::System(why.to_string()))?;
        let tasks = LocalSet::new();
        let played = tasks.block_on(&runtime, self.play(events, seen))?;
        if last {
            std::mem::forget((tasks, runtime));
        }
        Ok(played)
    }

    async fn play(&self, events: Option<File>, seen: Seen<'_>) -> Result<(Report, Series), Failure> {
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
        crate::invariants::note_rules(&world);
        let forgotten = forget_rules(&world.api, self.broken);
        forgotten.map_err(|why| Failure::System(format!("what is broken on purpose: {why}")))?;
        world.start_replicas()?;
        if self.scenario.alpha_as_written {
            tokio::task::spawn_local(note_translated(world.clone()));
        }
        let started = tokio::time::Instant::now();
        self.look_on(&world, started);
        for Timed { at, action, step } in &self.checked.steps {
            tokio::time::sleep_until(started + *at).await;
            self.record_step(*at, action, *step)?;
            self.tell_cost(&world);
            let done = world.act(action, &|files| self.reader.read_files(files));
            done.map_err(|why| self.refused(*step, why))?;
            if changes_rules(action) {
                crate::invariants::note_rules(&world);
            }
        }
        crate::settled::wait(&world, self.checked.settled, started + self.checked.until).await;
        self.tell_cost(&world);
        let report = report::build_report(&world);
        self.tell_cost(&world);
        world.log.append("end", &Caller::named("simulation"), [("violations", json!(report.violations()))]);
        world.log.flush().map_err(|why| Failure::System(format!("--events: {why}")))?;
        let series = self.keeper.as_ref().map(|keeper| keeper.end(&world, started.elapsed())).transpose()?;
        Ok((report, series.unwrap_or_default()))
    }

    /// Starts what looks at the world: for the record, and for who waits for the end.
    fn look_on(&self, world: &Rc<World>, started: tokio::time::Instant) {
        if let Some(keeper) = &self.keeper {
            keeper.applied(Duration::ZERO, self.first);
            tokio::task::spawn_local(keeper.clone().look_on(world.clone(), started));
        }
        if let Some(progress) = self.progress.cloned() {
            let until = self.checked.until;
            tokio::task::spawn_local(async move {
                loop {
                    progress(started.elapsed(), until);
                    tokio::time::sleep(WATCH).await;
                }
            });
        }
    }

    fn record_step(&self, at: Duration, action: &Action, step: usize) -> Result<(), Failure> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        match action {
            Action::Apply { files } => keeper.applied(at, &self.reader.read_files(files)?),
            // The step of a restored state is written when that is put back.
            Action::Snapshot => {}
            _ => keeper.stepped(at, step),
        }
        Ok(())
    }

    fn tell_cost(&self, world: &World) {
        if let Some(cost) = self.cost {
            cost(&CostSoFar::of_world(world));
        }
    }

    /// A refusal of the world, with the place of the step that it refused.
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
            placement_groups: self.checked.placement_groups.clone(),
            commitments: self.checked.commitments.clone(),
            nodes: self.checked.nodes.clone(),
            faults: self.checked.faults.clone(),
            panics_for: self.checked.panics_for.clone(),
            claims_deleted: self.checked.claims_deleted,
            endpoint: None,
            clocks: self.checked.clocks.clone(),
            broken: self.broken,
            alpha_as_written: self.scenario.alpha_as_written,
        };
        World::new(config, virtual_clock(), self.watcher.cloned(), |log| {
            if let Some(file) = events {
                log.write_to(Box::new(BufWriter::new(file)), true);
            }
            self.note_start(log);
        })
    }

    fn note_start(&self, log: &EventLog) {
        let mut fields = vec![
            ("scenario", json!(self.path)),
            ("seed", json!(self.scenario.seed)),
            ("region", json!(self.scenario.region.value)),
            ("clusterName", json!(self.scenario.cluster_name.value)),
            ("replicas", json!(self.checked.replicas)),
        ];
        let reservations = &self.checked.reservations;
        if !reservations.is_empty() {
            let counts: BTreeMap<&str, u32> = reservations.iter().map(|one| (one.id.as_str(), one.count)).collect();
            fields.push(("capacityReservations", json!(counts)));
        }
        log.append("start", &Caller::named("simulation"), fields);
    }
}
