//! The event log: everything that happened, in order.
//!
//! One log a run. The API server writes each request, the region each request, answer and change of an instance.
//! A line is one JSON object whose first keys are always `t` (seconds since the start, six decimals), `replica`,
//! `term`, `kind`, `by`, in this order, followed by the fields of its kind in the order in which the writer gave
//! them: two runs of one seed write the same bytes.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dovetail_core::clock::Clock;
use serde_json::Value;

/// The sender of a request: a replica of the control plane, or somebody else (a user, a kubelet, a controller).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller {
    /// The number of the replica, from 0; `None` for everybody who is not a replica.
    pub replica: Option<u32>,
    /// A name for the log, such as `controller`, `kubelet/ip-10-0-1-7.ec2.internal` or `kubectl`.
    pub name: String,
}

impl Caller {
    /// A replica of the control plane.
    pub fn replica(number: u32, name: impl Into<String>) -> Self {
        Self { replica: Some(number), name: name.into() }
    }

    /// Somebody who is not a replica.
    pub fn named(name: impl Into<String>) -> Self {
        Self { replica: None, name: name.into() }
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionEntry {
    /// Microseconds since the log was opened.
    pub micros: u64,
    /// The replica that did it, if one did.
    pub replica: Option<u32>,
    /// The term of that replica at the time, if it has led.
    pub term: Option<i64>,
    /// Kind of the entry, such as `ec2`, `instance` or `api`.
    pub kind: String,
    /// The caller's name.
    pub by: String,
    /// Further fields, in order.
    pub fields: Vec<(String, Value)>,
}

impl ActionEntry {
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The text of a field; empty where there is none.
    pub fn text(&self, name: &str) -> &str {
        self.field(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The entry as one line of JSON, without the line's end.
    pub fn line(&self) -> String {
        // The written bytes are JSON, which is UTF-8.
        String::from_utf8(self.bytes()).unwrap_or_default()
    }

    fn bytes(&self) -> Vec<u8> {
        let (replica, term) = (self.replica, self.term);
        let mut line = format!("{{\"t\":{}.{:06}", self.micros / 1_000_000, self.micros % 1_000_000).into_bytes();
        write_json(b",\"replica\":", &replica, &mut line);
        write_json(b",\"term\":", &term, &mut line);
        write_json(b",\"kind\":", &self.kind, &mut line);
        if !self.by.is_empty() {
            write_json(b",\"by\":", &self.by, &mut line);
        }
        for (key, value) in &self.fields {
            write_json(b",", key, &mut line);
            write_json(b":", value, &mut line);
        }
        line.push(b'}');
        line
    }
}

/// Appends something, and a value as JSON. Strings, numbers and what is read from JSON can always be written.
fn write_json(before: &[u8], value: &impl serde::Serialize, into: &mut Vec<u8>) {
    into.extend_from_slice(before);
    let _ = serde_json::to_writer(into, value);
}

/// The log. Clones write to the same one.
#[derive(Clone)]
pub struct EventLog {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    origin: Duration,
    state: Mutex<State>,
}

struct State {
    terms: BTreeMap<u32, i64>,
    entries: Vec<ActionEntry>,
    keep: bool,
    writer: Option<Box<dyn Write + Send>>,
    failure: Option<std::io::Error>,
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLog").field("entries", &self.len()).finish_non_exhaustive()
    }
}

impl EventLog {
    /// An empty log in memory, whose time 0 is now by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let origin = clock.monotonic();
        let state = State { terms: BTreeMap::new(), entries: Vec::new(), keep: true, writer: None, failure: None };
        Self { shared: Arc::new(Shared { clock, origin, state: Mutex::new(state) }) }
    }

    /// From now on each entry is written as a line to `writer` as well. With `keep` off it is no longer kept in
    /// memory, for runs that last.
    pub fn write_to(&self, writer: Box<dyn Write + Send>, keep: bool) {
        let mut state = self.lock();
        state.writer = Some(writer);
        state.keep = keep;
    }

    /// Notes the term in which a replica acts from now on; entries of that replica carry it.
    pub fn set_term(&self, replica: u32, term: i64) {
        self.lock().terms.insert(replica, term);
    }

    /// The term in which a replica acts now, if it has ever led.
    pub fn term_of(&self, replica: u32) -> Option<i64> {
        self.lock().terms.get(&replica).copied()
    }

    /// Appends an entry, at the present time.
    pub fn append<K: Into<String>>(&self, kind: &str, who: &Caller, fields: impl IntoIterator<Item = (K, Value)>) {
        let micros = self.micros();
        let mut state = self.lock();
        let entry = ActionEntry {
            micros,
            replica: who.replica,
            term: who.replica.and_then(|replica| state.terms.get(&replica).copied()),
            kind: kind.to_owned(),
            by: who.name.clone(),
            fields: fields.into_iter().map(|(key, value)| (key.into(), value)).collect(),
        };
        if let Some(writer) = &mut state.writer {
            let mut line = entry.bytes();
            line.push(b'\n');
            let result = writer.write_all(&line);
            if let Err(error) = result {
                state.failure.get_or_insert(error);
            }
        }
        if state.keep {
            state.entries.push(entry);
        }
    }

    /// Seconds since the log was opened.
    pub fn seconds(&self) -> f64 {
        self.shared.clock.monotonic().saturating_sub(self.shared.origin).as_secs_f64()
    }

    /// Number of entries that are kept in memory.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// True if nothing is kept in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs `read` over the entries in memory, in order, without copying them.
    pub fn with_entries<R>(&self, read: impl FnOnce(&[ActionEntry]) -> R) -> R {
        read(&self.lock().entries)
    }

    /// A copy of the entries in memory, in order.
    pub fn entries(&self) -> Vec<ActionEntry> {
        self.lock().entries.clone()
    }

    /// All entries in memory as JSON lines.
    pub fn to_jsonl(&self) -> String {
        self.with_entries(|entries| entries.iter().map(|entry| entry.line() + "\n").collect())
    }

    /// Flushes the writer and reports its first error, if it had one.
    ///
    /// # Errors
    /// What the writer said when an earlier entry, or this flush, could not be written.
    pub fn flush(&self) -> std::io::Result<()> {
        let mut state = self.lock();
        if let Some(error) = state.failure.take() {
            return Err(error);
        }
        state.writer.as_mut().map_or(Ok(()), |writer| writer.flush())
    }

    fn micros(&self) -> u64 {
        let since = self.shared.clock.monotonic().saturating_sub(self.shared.origin);
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::clock::{DEFAULT_START, VirtualClock};

    #[tokio::test(start_paused = true)]
    async fn a_line_has_its_keys_in_a_fixed_order_and_six_decimals() {
        let log = EventLog::new(Arc::new(VirtualClock::new(DEFAULT_START)));
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        log.append("ec2", &Caller::named("test"), [("zeta", Value::from(1)), ("alpha", Value::from("x\"y"))]);
        assert_eq!(
            log.to_jsonl(),
            "{\"t\":1.500000,\"replica\":null,\"term\":null,\"kind\":\"ec2\",\"by\":\"test\",\"zeta\":1,\"alpha\":\"x\\\"y\"}\n"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_s_entries_carry_its_term_from_the_moment_it_is_set() {
        let log = EventLog::new(Arc::new(VirtualClock::new(DEFAULT_START)));
        let who = Caller::replica(1, "controller");
        log.append("api", &who, [("verb", Value::from("create"))]);
        log.set_term(1, 7);
        log.append("api", &who, [("verb", Value::from("update"))]);
        assert_eq!(log.entries().iter().map(|e| e.term).collect::<Vec<_>>(), [None, Some(7)]);
        assert_eq!(log.entries()[1].field("verb"), Some(&Value::from("update")));
    }
}
