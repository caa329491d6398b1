//! Packing that fails: a solver that panics or meets its bound. The batch is packed without the pods that break it; they are named,
//! counted, and tried again with a back-off. Whoever else waits goes on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dovetail_core::cluster_state::PodEntry;
use dovetail_core::pack::{
    Isolated, Isolation, LeftOut, MOST_SOFT_TERMS, Options, PackingError, alike, ignored_soft_terms,
};
use dovetail_core::{Pod, PreferencePolicy, Problem};

use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::context::solver::{Solver, attempt};
use crate::links::ToRecorder;
use crate::messages::{Record, TraceContext};
use crate::recorder::object;
use crate::telemetry::log_event::{LogEvent, Names};
use crate::telemetry::measure::Measure;

/// A class of pods that packing fails with is tried again after this long, then after twice as long, and so on.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
/// Up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);
/// Time after which a class that was due again, and of which no pod was seen, is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60 * 60);
/// Most classes that are remembered.
const MOST_CLASSES: usize = 1000;
/// Most names that a log line gives.
const NAMES_LISTED: usize = 20;
/// Minimum time between two reports that some of a pod's preferences do not count.
const SAID_ONCE: Duration = Duration::from_secs(24 * 3600);

/// Packs a problem without the pods that break it, and without those of the classes that are held.
pub async fn pack(solver: Arc<dyn Solver>, problem: Arc<Problem>, options: Options, held: &LeftOutPods) -> Isolated {
    let mut isolation = Isolation::new(problem, options, |pod| held.error_of(pod));
    loop {
        let asked = isolation.asked();
        let answer = attempt(solver.clone(), asked.problem, asked.options).await;
        if let Some(isolated) = isolation.answered(answer) {
            return isolated;
        }
    }
}

/// True if the last packing left over all of the pods: nothing else remains for them, and offerings that EC2 has refused again
/// and again are worth another call.
pub fn are_left_over(to_pack: &[&Arc<PodEntry>], left_over: &BTreeSet<String>) -> bool {
    // Nothing is bought for those that are expendable, now or later.
    let mut counting = to_pack.iter().filter(|entry| !entry.expendable).peekable();
    counting.peek().is_some() && counting.all(|entry| left_over.contains(&entry.pod.uid))
}

/// Classes of pods that are left out for now, each by an example, and how packing fails with it.
#[derive(Clone, Debug, Default)]
pub struct LeftOutPods(Vec<(Arc<Pod>, PackingError)>);

impl LeftOutPods {
    fn error_of(&self, pod: &Pod) -> Option<PackingError> {
        self.0.iter().find(|(example, _)| alike(example, pod)).map(|(_, error)| error.clone())
    }
}

/// A class that packing has failed with.
struct Broken {
    example: Arc<Pod>,
    error: PackingError,
    backoff: Backoff,
    /// Time at which it is tried again. Monotonic.
    due: Duration,
}

/// State of packing failures: held back, reported and counted.
pub struct PackerFailures {
    env: Env,
    recorder: ToRecorder,
    broken: Vec<Broken>,
    /// Pods, by uid, some of whose preferences do not count, in the last packing.
    heavy: BTreeSet<String>,
}

impl PackerFailures {
    /// No failures.
    pub fn new(env: &Env, recorder: ToRecorder) -> Self {
        Self { env: env.clone(), recorder, broken: vec![], heavy: BTreeSet::new() }
    }

    /// The classes that are left out of a packing that begins now.
    pub fn held(&mut self) -> LeftOutPods {
        let now = self.env.now();
        self.broken.retain(|one| now < one.due + FORGOTTEN);
        let held = self.broken.iter().filter(|one| now < one.due);
        LeftOutPods(held.map(|one| (one.example.clone(), one.error.clone())).collect())
    }

    /// Number of classes that are left out or on trial, for the actor's state.
    pub fn classes(&self) -> usize {
        self.broken.len()
    }

    /// A packing is done that began with these classes held: what it failed with is told, counted and held from now on, and
    /// what it no longer fails with is forgotten.
    pub fn took(&mut self, problem: &Problem, held: &LeftOutPods, isolated: &Isolated, trace: TraceContext) {
        self.tell_ignored_terms(problem, trace);
        let fails =
            |pod: &Pod| isolated.left_out.iter().any(|one| one.pods.iter().any(|at| alike(&problem.pods[*at], pod)));
        self.broken.retain(|one| {
            let tried = held.error_of(&one.example).is_none();
            !tried || fails(&one.example) || !problem.pods.iter().any(|pod| alike(pod, &one.example))
        });
        for one in &isolated.left_out {
            self.leave_out(problem, one, trace);
        }
        let Some(error) = isolated.error.as_ref().filter(|_| isolated.left_out.is_empty()) else { return };
        self.env.measure(&Measure::PackingFailed { cause: error.cause(), outcome: "fewest_nodes" });
        let pods = problem.pods.iter().filter(|pod| !pod.to_come).count();
        self.env.emit_in(LogEvent::PackedByFewestNodes { pods, error: error.to_string() }, trace);
    }

    fn leave_out(&mut self, problem: &Problem, one: &LeftOut, trace: TraceContext) {
        self.env.measure(&Measure::PackingFailed { cause: one.error.cause(), outcome: "left_out" });
        let pods = one.pods.iter().map(|at| &problem.pods[*at]);
        // Pods that could not be told apart take part in the next packing again, without those that could. Pods of one namespace
        // that take too many steps wait for a while, as each packing with them delays others.
        let together = one.of_one_namespace && matches!(one.error, PackingError::Bound { .. });
        let mut pause = Duration::ZERO;
        let mut examples: Vec<&Pod> = Vec::new();
        for pod in pods.clone().filter(|_| one.alone || together) {
            if examples.len() < MOST_CLASSES && !examples.iter().any(|known| alike(known, pod)) {
                examples.push(pod);
                pause = pause.max(self.hold(pod, &one.error, one.alone));
            }
        }
        let names: Vec<String> = pods.map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
        let (pods, seconds, error) = (names.len(), pause.as_secs_f64(), one.error.to_string());
        let log_event = LogEvent::PackingFailed { pods, names: Names::first(NAMES_LISTED, names), error, seconds };
        self.env.emit_in(log_event, trace);
    }

    /// Holds a class, longer each time where it is known to be the cause, and says how long.
    fn hold(&mut self, example: &Pod, error: &PackingError, known: bool) -> Duration {
        let now = self.env.now();
        let at = self.broken.iter().position(|one| alike(&one.example, example)).unwrap_or_else(|| {
            if self.broken.len() >= MOST_CLASSES {
                self.broken.remove(0);
            }
            let key = format!("{}/{}", example.namespace, example.name);
            let backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, self.env.rng(&key));
            self.broken.push(Broken { example: Arc::new(example.clone()), error: error.clone(), backoff, due: now });
            self.broken.len() - 1
        });
        let one = &mut self.broken[at];
        let pause = if known { one.backoff.pause() } else { FIRST_PAUSE };
        (one.error, one.due) = (error.clone(), now + pause);
        pause
    }

    /// Tells a pod once that only the heaviest of its preferences count.
    fn tell_ignored_terms(&mut self, problem: &Problem, trace: TraceContext) {
        let respected = |pod: &&Pod| problem.preferences_of(pod) == PreferencePolicy::Respect && !pod.to_come;
        let heavy = problem.pods.iter().filter(respected).filter(|pod| ignored_soft_terms(pod) > 0);
        let mut now = BTreeSet::new();
        for pod in heavy {
            if !self.heavy.contains(&pod.uid) {
                let all = MOST_SOFT_TERMS + ignored_soft_terms(pod);
                let message = format!("Only the {MOST_SOFT_TERMS} heaviest of its {all} soft scheduling terms count");
                let event = Record::normal(object::pod(pod), "SoftTermsIgnored", message).quiet_for(SAID_ONCE);
                self.env.post(&self.recorder, event);
                let name = format!("{}/{}", pod.namespace, pod.name);
                self.env.emit_in(LogEvent::SoftTermsIgnored { pod: name, terms: all, counted: MOST_SOFT_TERMS }, trace);
            }
            now.insert(pod.uid.clone());
        }
        self.heavy = now;
    }
}
