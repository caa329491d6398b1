//! Writes Kubernetes events, each once in its quiet time, one after the other (core spec 7.2). Events are for people: one
//! that cannot be written soon is dropped and counted.
//!
//! At the mailbox's bound: beyond [`MOST_WAITING`] events waiting the newest is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use kube::api::PostParams;

use crate::context::env::Env;
use crate::messages::{Observe, Record, RecordedEvent, RecorderState};
use crate::reading::LenientApi;
use crate::telemetry::measure::Measure;

/// Events that may wait.
const MOST_WAITING: usize = 1000;
/// Quiet times remembered before those that are over are forgotten. While more than half stay, it is looked again when there are
/// twice as many, so that a burst of new events does not go through all of them for each.
const REPEATS_REMEMBERED: usize = 20_000;
/// Most Nominated events per second, after a burst of twice as many (core spec 7.2).
const NOMINATED_RATE: f64 = 5.0;
/// Latest events that are kept for the console, and most characters of their messages.
const MOST_LATEST: usize = 50;
const MOST_CHARACTERS: usize = 1000;
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Quiet time of an event that could not be written, if its own is longer.
const UNWRITTEN_QUIET: Duration = Duration::from_secs(120);

/// Identity of an event: its object, reason and message.
type EventKey = (String, &'static str, String);

/// Writes Kubernetes' Events: the same one seldom, and no more of them than its rates allow.
pub struct Recorder {
    env: Env,
    client: Client,
    rng: fastrand::Rng,
    waiting: VecDeque<(EventKey, Event)>,
    writing: bool,
    /// Time until which an event is not repeated. Monotonic.
    quiet: BTreeMap<EventKey, Duration>,
    /// Number of quiet times above which those that are over are forgotten.
    most_quiet: usize,
    /// Tokens of the bucket for Nominated, and when it was last filled.
    nominated: (f64, Duration),
    written: u64,
    dropped: u64,
    latest: VecDeque<Arc<RecordedEvent>>,
}

impl Recorder {
    /// A recorder that has said nothing.
    pub fn new(env: &Env, client: Client) -> Self {
        let env = env.for_actor("recorder");
        let (rng, now) = (env.rng("names"), env.now());
        Self {
            env,
            client,
            rng,
            waiting: VecDeque::new(),
            writing: false,
            quiet: BTreeMap::new(),
            most_quiet: REPEATS_REMEMBERED,
            nominated: (2.0 * NOMINATED_RATE, now),
            written: 0,
            dropped: 0,
            latest: VecDeque::new(),
        }
    }
}

impl Actor for Recorder {
    type Context = Context<Self>;
}

impl Handler<Record> for Recorder {
    type Result = ();

    fn handle(&mut self, record: Record, ctx: &mut Self::Context) {
        let whose = record.quiet_for_all_of.clone().unwrap_or_else(|| identity(&record.object));
        let key = (whose, record.reason, record.message.clone());
        if self.is_quiet(&key, record.quiet) || !self.within_rate(record.reason) {
            return;
        }
        let event = self.event(record);
        if self.waiting.len() >= MOST_WAITING {
            return self.ended(&key, &event, false);
        }
        self.waiting.push_back((key, event));
        self.write(ctx);
    }
}

impl Handler<Observe> for Recorder {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let (waiting, written, dropped) = (self.waiting.len(), self.written, self.dropped);
        let latest = self.latest.iter().cloned().collect();
        MessageResult(RecorderState { waiting, written, dropped, latest }.into())
    }
}

impl Recorder {
    fn is_quiet(&mut self, key: &EventKey, quiet: Duration) -> bool {
        let now = self.env.now();
        if self.quiet.len() >= self.most_quiet {
            self.quiet.retain(|_, until| *until > now);
            self.most_quiet = REPEATS_REMEMBERED.max(2 * self.quiet.len());
        }
        if self.quiet.get(key).is_some_and(|until| *until > now) {
            return true;
        }
        self.quiet.insert(key.clone(), now + quiet);
        false
    }

    fn within_rate(&mut self, reason: &str) -> bool {
        if reason != "Nominated" {
            return true;
        }
        let now = self.env.now();
        let (tokens, filled) = self.nominated;
        let refilled = now.saturating_sub(filled).as_secs_f64() * NOMINATED_RATE;
        let tokens = (tokens + refilled).min(2.0 * NOMINATED_RATE);
        let within = tokens >= 1.0;
        self.nominated = (if within { tokens - 1.0 } else { tokens }, now);
        within
    }

    fn event(&mut self, record: Record) -> Event {
        let namespace = record.object.namespace.clone().unwrap_or_else(|| "default".into());
        let name = event_name(record.object.name.as_deref().unwrap_or_default(), self.rng.u64(..));
        let now = Some(Time(self.env.wall()));
        Event {
            metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
            involved_object: record.object,
            type_: Some(if record.warning { "Warning" } else { "Normal" }.into()),
            reason: Some(record.reason.into()),
            message: Some(record.message),
            source: Some(EventSource { component: Some("karpenter".into()), host: None }),
            reporting_component: Some("karpenter".into()),
            reporting_instance: Some(self.env.identity.to_string()),
            first_timestamp: now.clone(),
            last_timestamp: now,
            count: Some(1),
            ..Event::default()
        }
    }

    fn write(&mut self, ctx: &mut Context<Self>) {
        if self.writing {
            return;
        }
        let Some((key, event)) = self.waiting.pop_front() else { return };
        self.writing = true;
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api = LenientApi::<Event>::namespaced(self.client.clone(), &namespace);
        let writing = async move {
            let create = tokio::time::timeout(WRITE_TIMEOUT, api.create(&PostParams::default(), &event)).await;
            (create.is_ok_and(|answer| answer.is_ok()), event)
        };
        ctx.spawn(writing.into_actor(self).map(move |(written, event), recorder, ctx| {
            recorder.writing = false;
            recorder.ended(&key, &event, written);
            recorder.write(ctx);
        }));
    }

    /// An event was written, or is dropped.
    fn ended(&mut self, key: &EventKey, event: &Event, written: bool) {
        self.latest.push_back(Arc::new(recorded(event, written)));
        if self.latest.len() > MOST_LATEST {
            self.latest.pop_front();
        }
        self.env.measure(&Measure::EventWritten { reason: key.1, written });
        *(if written { &mut self.written } else { &mut self.dropped }) += 1;
        // Nobody has read it: where it still holds it is said again, and not at once, as what refuses it may go on to.
        if !written && let Some(until) = self.quiet.get_mut(key) {
            *until = (*until).min(self.env.now() + UNWRITTEN_QUIET);
        }
    }
}

/// An event as the console shows it.
fn recorded(event: &Event, written: bool) -> RecordedEvent {
    let (object, text) = (&event.involved_object, |part: &Option<String>| part.clone().unwrap_or_default());
    RecordedEvent {
        at: event.last_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
        kind: text(&object.kind),
        namespace: text(&object.namespace),
        name: text(&object.name),
        warning: event.type_.as_deref() == Some("Warning"),
        reason: text(&event.reason),
        message: event.message.iter().flat_map(|message| message.chars()).take(MOST_CHARACTERS).collect(),
        written,
    }
}

/// The key of an object: its uid, or its kind and name if that is unknown.
fn identity(object: &ObjectReference) -> String {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    match &object.uid {
        Some(uid) => uid.clone(),
        None => format!("{}/{}/{}", text(&object.kind), text(&object.namespace), text(&object.name)),
    }
}

/// Longest name of an object, bytes: a DNS subdomain (RFC 1123).
const LONGEST_NAME: usize = 253;

/// An event's name: its object's, as much of it as the API server takes, and a number that tells it apart.
fn event_name(object: &str, number: u64) -> String {
    let number = format!(".{number:016x}");
    let mut end = object.len().min(LONGEST_NAME - number.len());
    while !object.is_char_boundary(end) {
        end -= 1;
    }
    // A name's part before a dot ends in a letter or a digit.
    let name = object[..end].trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
    format!("{}{number}", if name.is_empty() { "event" } else { name })
}

#[cfg(test)]
mod tests {
    use super::event_name;

    #[test]
    fn event_name_is_valid_however_long_its_object_name_is() {
        let label = |letters: &str| {
            let inner = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
            !letters.is_empty() && letters.chars().all(inner) && !letters.starts_with('-') && !letters.ends_with('-')
        };
        let long = ["a".repeat(253), format!("{}-b", "a".repeat(251)), "a.".repeat(126) + "b", "ä".repeat(200)];
        let dashes = format!("{}{}z", "a".repeat(230), "-".repeat(22));
        for object in long.iter().map(String::as_str).chain([dashes.as_str(), "a", "", "web-0.shop"]) {
            let name = event_name(object, 7);
            assert!(name.len() <= 253 && name.ends_with(".0000000000000007"), "{name}");
            assert!(!name.is_ascii() || name.split('.').all(label), "{name}");
        }
        assert_eq!(event_name("web-0", 1), "web-0.0000000000000001");
        assert_ne!(event_name(&long[0], 1), event_name(&long[0], 2));
    }
}

/// References to objects, as events carry them.
pub mod object {
    use dovetail_api::names::provider::Provider;
    use dovetail_api::v1::{EC2NodeClass, NodeClaim, NodePool};
    use dovetail_core::Pod;
    use k8s_openapi::api::core::v1::{Node, ObjectReference};
    use kube::ResourceExt;

    use crate::messages::reference;

    /// The namespace kube-system, which stands for the cluster.
    pub fn kube_system() -> ObjectReference {
        reference("v1", "Namespace", "", "kube-system", "")
    }

    pub fn pod(pod: &Pod) -> ObjectReference {
        reference("v1", "Pod", &pod.namespace, &pod.name, &pod.uid)
    }

    /// The DaemonSet of a pod that stands for it.
    pub fn daemon_set(pod: &Pod) -> ObjectReference {
        let uid = pod.uid.strip_prefix("daemon-").unwrap_or(&pod.uid);
        reference("apps/v1", "DaemonSet", &pod.namespace, &pod.name, uid)
    }

    /// A Node; as kubelets do, by its name where a uid would be.
    pub fn node_named(name: &str) -> ObjectReference {
        reference("v1", "Node", "", name, name)
    }

    pub fn node(node: &Node) -> ObjectReference {
        of("v1", "Node", node)
    }

    pub fn class(class: &EC2NodeClass, provider: Provider) -> ObjectReference {
        of(&provider.class().api_version(), provider.class().kind, class)
    }

    pub fn pool(pool: &NodePool) -> ObjectReference {
        of("karpenter.sh/v1", "NodePool", pool)
    }

    pub fn claim(claim: &NodeClaim) -> ObjectReference {
        of("karpenter.sh/v1", "NodeClaim", claim)
    }

    fn of<K: ResourceExt>(api_version: &str, kind: &str, object: &K) -> ObjectReference {
        reference(api_version, kind, "", &object.name_any(), &object.uid().unwrap_or_default())
    }
}
