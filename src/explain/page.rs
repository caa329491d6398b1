//! `/console/explain`: the answer of `dovetail explain` about the cluster as a replica has last seen it.
//!
//! A question is worked out on a thread of its own, so that neither the actors nor another page waits for it. There is one at a
//! time, each rests the next for as long as it took, and after a while it tries no more changes.

use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::ValueEnum as _;
use dovetail_actors::Settings;
use dovetail_actors::replica::ReplicaView;
use dovetail_core::Problem;
use dovetail_core::clock::Clock;
use dovetail_core::explain::{ExplainInput, explain_claim, explain_known_pod, explain_node, explain_pool};
use dovetail_core::pack::{Options, Packing};
use dovetail_telemetry::state::Latest;
use serde_json::{Value, json};

use super::{Answer, Explanation, Kind, is_name, text};
use crate::live::{consolidation_rules, devices_of, disruption_gates, packing_options, planning_input};
use crate::run::clock::SystemClock;
use crate::run::console::ExplainQueries;
use crate::survive;

/// Time after which no more changes are tried, and for which an answer is kept.
const TRIES_FOR: Duration = Duration::from_secs(10);
/// Age of the cluster's state above which nothing is answered from it.
const STALE_AFTER: Duration = Duration::from_secs(60);

/// A question of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    kind: Kind,
    namespace: String,
    name: String,
}

/// The question that is worked out, or was last. Times are monotonic.
#[derive(Default)]
enum Slot {
    #[default]
    Empty,
    Working {
        question: Question,
        since: Duration,
    },
    Done {
        question: Question,
        at: Duration,
        /// Time until which nothing else is begun.
        rests_until: Duration,
        answer: Value,
    },
}

/// Answers the page's questions. Clones share it.
#[derive(Clone)]
pub struct ExplainPage {
    settings: Arc<Settings>,
    latest: Latest,
    clock: Arc<dyn Clock>,
    /// Number of seconds of the clock in a second: more than one where a sandbox is sped up.
    speed: f64,
    slot: Arc<Mutex<Slot>>,
}

/// Answers for the console of `run`.
pub fn of_replica(settings: &Settings, latest: &Latest) -> ExplainQueries {
    let page = ExplainPage::new(settings.clone(), latest.clone(), Arc::new(SystemClock), 1.0);
    Arc::new(move |query| page.answer(query))
}

impl ExplainPage {
    /// Answers by these settings, from what `latest` knows.
    pub fn new(settings: Settings, latest: Latest, clock: Arc<dyn Clock>, speed: f64) -> Self {
        Self { settings: Arc::new(settings), latest, clock, speed, slot: Arc::default() }
    }

    /// The answer to the query of a request, `kind=pod&namespace=default&name=web-1`: done, on its way, or the reason why there
    /// is none.
    pub fn answer(&self, query: &str) -> Value {
        let question = match question_of(query) {
            Ok(question) => question,
            Err(why) => return failed(&why),
        };
        let now = self.clock.monotonic();
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Slot::Working { question: own, since } if *own == question => return on_its_way("computing", now, *since),
            Slot::Working { since, .. } => return on_its_way("busy", now, *since),
            Slot::Done { question: own, at, answer, .. }
                if *own == question && now.saturating_sub(*at) < self.paced(TRIES_FOR) =>
            {
                return answer.clone();
            }
            Slot::Done { rests_until, at, .. } if now < *rests_until => return on_its_way("busy", now, *at),
            Slot::Done { .. } | Slot::Empty => {}
        }
        let view = match self.view(now) {
            Ok(view) => view,
            Err(why) => return failed(&why),
        };
        let page = self.clone();
        let asked = question.clone();
        let begun =
            std::thread::Builder::new().name("explain".to_owned()).spawn(move || page.work_out(&asked, &view, now));
        match begun {
            Ok(_) => {
                *slot = Slot::Working { question, since: now };
                on_its_way("computing", now, now)
            }
            Err(why) => failed(&format!("there is no thread to work it out: {why}")),
        }
    }

    fn paced(&self, time: Duration) -> Duration {
        time.mul_f64(self.speed.max(1.0))
    }

    /// The cluster as it was seen last.
    fn view(&self, now: Duration) -> Result<ReplicaView, String> {
        self.latest.watched();
        let Some(view) = self.latest.known().0 else {
            return Err("the replica has not read the whole cluster yet".to_owned());
        };
        let age = now.saturating_sub(view.now.monotonic);
        if age > self.paced(STALE_AFTER) {
            let seconds = age.as_secs();
            return Err(format!(
                "the control plane has not shown its state for {seconds} s: an answer would be outdated"
            ));
        }
        Ok(view)
    }

    /// Works a question out, and keeps its answer for who asks again.
    fn work_out(&self, question: &Question, view: &ReplicaView, begun: Duration) {
        // A fault of the engine on this cluster must not end the process that runs it.
        let found = catch_unwind(AssertUnwindSafe(|| self.explain(question, view)));
        let answer = match found {
            Ok(Ok(lines)) => json!({"state": "done", "lines": lines, "at": view.now.wall}),
            Ok(Err(why)) => failed(&why),
            Err(_) => failed("working it out has failed: this is a fault of Dovetail's"),
        };
        let at = self.clock.monotonic();
        let rests_until = at + at.saturating_sub(begun);
        let done = Slot::Done { question: question.clone(), at, rests_until, answer };
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = done;
    }

    fn explain(&self, question: &Question, view: &ReplicaView) -> Result<Vec<String>, String> {
        let (settings, snapshot) = (&*self.settings, &view.snapshot);
        let planning = planning_input(settings, view.types.clone(), view.now);
        let (options, rules) = (packing_options(settings), consolidation_rules(settings, snapshot.claims.len()));
        let until = self.clock.monotonic() + self.paced(TRIES_FOR);
        let (solved, given_up) = (Cell::new(false), Cell::new(false));
        let devices = devices_of(settings, snapshot);
        let solve = |problem: &Arc<Problem>, options: &Options| {
            // The first packing is the answer itself.
            if solved.replace(true) && self.clock.monotonic() >= until {
                given_up.set(true);
                return Packing::default();
            }
            let solve = |problem: &Arc<Problem>| survive::solve(problem, options);
            match &devices {
                Some(devices) => devices.pack(problem, |uid| snapshot.is_bound(uid), solve).1,
                None => solve(problem),
            }
        };
        let gates = disruption_gates(settings);
        let input =
            ExplainInput { snapshot, planning: &planning, options: &options, rules: &rules, gates, solve: &solve };
        let name = question.name.as_str();
        let answer = match question.kind {
            Kind::Pod => explain_known_pod(&input, &question.namespace, name).map(|one| Answer::Pod(Box::new(one))),
            Kind::Node => explain_node(&input, name).map(|one| Answer::Node(Box::new(one))),
            Kind::Claim => explain_claim(&input, name).map(|one| Answer::NodeClaim(Box::new(one))),
            Kind::Pool => explain_pool(&input, name).map(|one| Answer::NodePool(Box::new(one))),
        };
        let answer = answer.ok_or("it is not there any more")?;
        let found = Explanation {
            answer,
            at: view.now.wall,
            server: String::new(),
            settings_from: "this replica's".to_owned(),
            offers_from: "those that this replica packs with".to_owned(),
            missing: vec![],
        };
        let mut lines: Vec<String> = text::render(&found).lines().map(str::to_owned).collect();
        if given_up.get() {
            lines.push(format!("No change was tried after {} s: there may be others.", TRIES_FOR.as_secs()));
        }
        Ok(lines)
    }
}

fn failed(why: &str) -> Value {
    json!({"state": "failed", "why": why})
}

fn on_its_way(state: &str, now: Duration, since: Duration) -> Value {
    json!({"state": state, "seconds": now.saturating_sub(since).as_secs()})
}

/// The question of a query.
fn question_of(query: &str) -> Result<Question, String> {
    let all: Vec<(Cow<'_, str>, Cow<'_, str>)> = form_urlencoded::parse(query.as_bytes()).collect();
    let field = |key: &str| all.iter().find(|(name, _)| name == key).map_or("", |(_, value)| &**value);
    let kind =
        Kind::from_str(field("kind"), true).map_err(|_| "only pod, node, nodeclaim and nodepool are explained")?;
    let (namespace, name) = (field("namespace"), field("name"));
    if name.is_empty() || !is_name(name) || !is_name(namespace) {
        return Err("that is no name of an object".to_owned());
    }
    Ok(Question { kind, namespace: namespace.to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use dovetail_core::cluster_state::{ClusterState, Moment};

    use super::*;

    fn page() -> ExplainPage {
        ExplainPage::new(Settings::default(), Latest::default(), Arc::new(SystemClock), 1.0)
    }

    /// A cluster with a pod that no pool has a place for, seen at this time.
    fn seen(page: &ExplainPage, monotonic: Duration) {
        let mut state = ClusterState::default();
        let pod = json!({"metadata": {"name": "big", "namespace": "default", "uid": "u"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "400"}}}]},
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
        state.apply_pod(&serde_json::from_value(pod).unwrap()).unwrap();
        let now = Moment { monotonic, wall: page.clock.wall() };
        page.latest.saw(ReplicaView {
            snapshot: state.snapshot(),
            types: BTreeMap::new(),
            commitments: Default::default(),
            now,
        });
    }

    fn asked(page: &ExplainPage, query: &str) -> Value {
        for _ in 0..500 {
            let answer = page.answer(query);
            if !matches!(answer["state"].as_str(), Some("computing" | "busy")) {
                return answer;
            }
            #[allow(clippy::disallowed_methods)]
            std::thread::sleep(Duration::from_millis(10));
        }
        Value::Null
    }

    #[test]
    fn pod_is_explained_in_the_words_of_the_command() {
        let page = page();
        seen(&page, page.clock.monotonic());
        let query = "kind=pod&namespace=default&name=big";
        assert_eq!(page.answer(query)["state"], "computing");
        let answer = asked(&page, query);
        let lines: Vec<&str> = answer["lines"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(lines.first(), Some(&"Pod default/big gets no node"), "{answer}");
        assert!(lines.iter().any(|line| line.starts_with("Settings: this replica's")), "{answer}");
        assert_eq!(asked(&page, "kind=node&name=none")["why"], "it is not there any more");
    }

    #[test]
    fn unread_or_outdated_cluster_is_said_instead_of_answered() {
        let page = page();
        let ask = || page.answer("kind=nodepool&name=default")["why"].as_str().unwrap_or_default().to_owned();
        assert!(ask().contains("not read the whole cluster"), "{}", ask());
        seen(&page, page.clock.monotonic().saturating_sub(STALE_AFTER + Duration::from_secs(2)));
        assert!(ask().contains("has not shown its state for"), "{}", ask());
    }

    #[test]
    fn hostile_question_is_refused_before_anything_is_asked() {
        for query in [
            "",
            "kind=secret&name=a",
            "kind=pod&name=",
            "kind=pod&name=a%2Fb",
            "kind=pod&name=%1b[31m",
            "kind=pod&name=a&namespace=%3Cb%3E",
        ] {
            assert_eq!(page().answer(query)["state"], "failed", "{query}");
        }
    }
}
