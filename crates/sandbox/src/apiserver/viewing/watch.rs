//! Watches: each is a cursor into its table's history that wakes when the table changes.
//!
//! Nothing is queued a watcher. One that reads too slowly finds its cursor older than the history and is told 410,
//! as from a real API server.
use crate::apiserver::error::{ApiError, Result, StatusCause};
use crate::apiserver::http::request::{Query, VersionMatch};
use crate::apiserver::registry::{FoundResource, Rid};
use crate::apiserver::store::{ChangeKind, StoreState, StoredObject, TableChange};
use crate::apiserver::viewing::list;
use crate::apiserver::viewing::select::ListSelector;
use crate::apiserver::viewing::view::ResourceView;
use crate::apiserver::{ApiServer, meta};
use crate::faults::FaultsInForce;
use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Longest silence of a watch, for clients that take bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Length of a watch that names no time.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(45 * 60);
/// The last bookmark comes this long before the end, so that the client resumes from a fresh version.
const BEFORE_THE_END: Duration = Duration::from_secs(2);
/// Changes that are looked at in one go.
const BATCH: usize = 256;

#[derive(Debug)]
pub struct Watch {
    server: ApiServer,
    rid: Rid,
    namespace: Option<String>,
    selector: ListSelector,
    view: ResourceView,
    wake: Arc<Notify>,
    cursor: u64,
    /// The cursor as the table sees it.
    read: Arc<AtomicU64>,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
    /// The life of the server in which it was opened.
    life: u64,
    /// Time at which the first change that is held back can be sent, where watches are slow.
    late: Option<Instant>,
    ready: VecDeque<Bytes>,
    over: bool,
}

impl Watch {
    /// Opens a watch as a query asks for it.
    ///
    /// # Errors
    /// 422 when the parameters contradict each other.
    pub fn open(
        server: &ApiServer,
        state: &mut StoreState,
        found: &FoundResource,
        namespace: Option<&str>,
        query: &Query,
        view: ResourceView,
    ) -> Result<Self> {
        let mut unfit = Vec::new();
        let mut forbid = |why| unfit.push(StatusCause::forbidden("resourceVersionMatch", why));
        match (query.initial_events, query.version_match) {
            (true, None | Some(VersionMatch::Exact)) => {
                forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
            }
            (false, Some(_)) => {
                forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            }
            _ => {}
        }
        if query.version_match == Some(VersionMatch::Exact) {
            let message = "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
            unfit.push(StatusCause::new("FieldValueNotSupported", "resourceVersionMatch", message));
        }
        if !unfit.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", unfit));
        }
        let now = Instant::now();
        let lasts = query.timeout_seconds.filter(|s| *s > 0).map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        let mut watch = Watch {
            server: server.clone(),
            rid: found.rid,
            namespace: namespace.map(str::to_owned),
            selector: query.selector.clone(),
            view,
            wake: state.table(found.rid).wake.clone(),
            cursor: query.version.unwrap_or_default(),
            read: Arc::default(),
            bookmarks: query.bookmarks,
            next_bookmark: now,
            ends: now + lasts,
            life: state.life,
            late: None,
            ready: VecDeque::new(),
            over: false,
        };
        watch.plan_bookmark(now);
        if watch.cursor == 0 || query.initial_events {
            for object in list::current(state, found, namespace, query) {
                watch.ready.extend(event("ADDED", watch.view.json(&object)));
            }
            watch.cursor = state.rv;
            if query.initial_events {
                watch.ready.push_back(watch.bookmark(true));
            }
        }
        watch.read.store(watch.cursor, Relaxed);
        state.table_mut(found.rid).follow(&watch.read);
        Ok(watch)
    }

    /// The body of the answer.
    pub fn stream(self) -> impl Stream<Item = Bytes> + Send {
        futures::stream::unfold(self, |mut watch| async move { watch.next().await.map(|bytes| (bytes, watch)) })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.server.lock().life != self.life {
                return None;
            }
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            let now = Instant::now();
            if self.over || now >= self.ends {
                return None;
            }
            // Registered before looking, so that no change falls between looking and waiting.
            let wake = self.wake.clone();
            let woken = wake.notified();
            self.take_up_changes();
            if !self.ready.is_empty() {
                self.plan_bookmark(now);
                continue;
            }
            tokio::select! {
                biased;
                () = woken => {}
                () = tokio::time::sleep_until(self.late.unwrap_or(self.ends).min(self.ends)) => {}
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.take_up_changes();
                    if !self.over {
                        self.ready.push_back(self.bookmark(false));
                    }
                    self.plan_bookmark(Instant::now());
                }
            }
        }
    }

    fn plan_bookmark(&mut self, now: Instant) {
        let last = self.ends - BEFORE_THE_END;
        let regular = now + BOOKMARK_EVERY;
        self.next_bookmark = if now < last { regular.min(last) } else { self.ends };
    }

    /// Takes up the changes since the cursor.
    fn take_up_changes(&mut self) {
        let server = self.server.clone();
        let state = server.lock();
        self.view.set_now(state.now);
        let table = state.table(self.rid);
        if state.registry.def(self.rid).is_none() {
            self.over = true;
        }
        if self.cursor < table.floor {
            let error = ApiError::expired(format!("too old resource version: {} ({})", self.cursor, table.floor));
            self.ready.push_back(Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": error.status()}))));
            self.over = true;
            return;
        }
        let from = table.history.partition_point(|c| c.object.rv <= self.cursor);
        let late_by = server.settings().faults.as_ref().map_or(Duration::ZERO, FaultsInForce::watches_late);
        let now = Instant::now();
        self.late = None;
        for change in table.history.range(from..).take(BATCH) {
            // Times are compared only where watches are slow, in a simulation: the API of a live sandbox has a clock of its own.
            if !late_by.is_zero() && change.at + late_by > now {
                self.late = Some(change.at + late_by);
                break;
            }
            self.take_up(change);
            self.cursor = change.object.rv;
        }
        if self.late.is_none() && table.history.len() <= from + BATCH {
            self.cursor = self.cursor.max(state.rv);
        }
        self.read.store(self.cursor, Relaxed);
    }

    fn take_up(&mut self, change: &TableChange) {
        if self.namespace.as_ref().is_some_and(|ns| *ns != change.object.key.namespace) {
            return;
        }
        let selected = |object: &StoredObject| self.selector.is_empty() || self.selector.matches(&object.value);
        let before = change.old.as_deref().is_some_and(selected);
        let after = change.kind != ChangeKind::Deleted && selected(&change.object);
        let object = match (before, after) {
            (false, false) => return,
            (true, false) if change.kind == ChangeKind::Modified => {
                // It left the selection: the last state that was selected, with the version of the change.
                let old = change.old.as_ref().map(|old| Value::clone(&old.value)).unwrap_or_default();
                self.left(old, change.object.rv)
            }
            _ => self.view.json(&change.object),
        };
        let kind = match (before, after) {
            (false, _) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        self.ready.extend(event(kind, object));
    }

    fn left(&self, mut old: Value, version: u64) -> Bytes {
        meta::set(&mut old, "resourceVersion", Some(json!(version.to_string())));
        Bytes::from(self.view.convert(&old).to_string())
    }

    fn bookmark(&self, initial_end: bool) -> Bytes {
        let (version, kind) = self.view.type_meta();
        let mut metadata = json!({"resourceVersion": self.cursor.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({"kind": kind, "apiVersion": version, "metadata": metadata});
        Bytes::from(format!("{}\n", json!({"type": "BOOKMARK", "object": object})))
    }
}

/// A watch event in three pieces, so that the object's bytes are shared by all watches.
fn event(kind: &'static str, object: Bytes) -> [Bytes; 3] {
    let head = match kind {
        "ADDED" => "{\"type\":\"ADDED\",\"object\":",
        "MODIFIED" => "{\"type\":\"MODIFIED\",\"object\":",
        _ => "{\"type\":\"DELETED\",\"object\":",
    };
    [Bytes::from_static(head.as_bytes()), object, Bytes::from_static(b"}\n")]
}
