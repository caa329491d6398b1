//! Logs of pods (`kubectl logs`): books that somebody in the process writes; every other running pod says nothing.
use crate::apiserver::error::{ApiError, Result};
use crate::apiserver::gvr::Key;
use crate::apiserver::http::handler::{Reply, RoutedRequest};
use crate::apiserver::store::StoreState;
use crate::apiserver::subresource::there;
use crate::apiserver::{ApiServer, meta};
use bytes::Bytes;
use futures::Stream;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Lines that a book keeps.
const KEPT: usize = 10_000;

/// The log of one pod. Keeps its latest lines.
#[derive(Debug, Default)]
pub struct LogBook {
    pages: Mutex<Pages>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Pages {
    lines: VecDeque<(Timestamp, Arc<str>)>,
    /// Number of lines before the first that is kept.
    before: usize,
    closed: bool,
}

impl LogBook {
    pub fn write(&self, at: Timestamp, line: &str) {
        let mut pages = self.pages();
        pages.lines.push_back((at, Arc::from(line)));
        if pages.lines.len() > KEPT {
            pages.lines.pop_front();
            pages.before += 1;
        }
        drop(pages);
        self.wake.notify_waiters();
    }

    /// Nothing more will be written: who follows it is at its end.
    pub fn close(&self) {
        self.pages().closed = true;
        self.wake.notify_waiters();
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parameters of a request for a log.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    /// `follow`
    pub follow: bool,
    /// `timestamps`
    pub timestamps: bool,
    /// `previous`
    pub previous: bool,
    /// `container`
    pub container: Option<String>,
    /// `tailLines`
    pub tail: Option<usize>,
    /// `sinceSeconds`
    pub since_seconds: Option<i64>,
    /// `sinceTime`
    pub since: Option<Timestamp>,
    /// `limitBytes`
    pub limit: Option<usize>,
}

/// A log on its way to a client.
#[derive(Debug)]
pub struct Reading {
    book: Arc<LogBook>,
    query: LogQuery,
    next: usize,
    sent: usize,
}

impl Reading {
    /// The body of the answer.
    pub fn stream(self) -> impl Stream<Item = Bytes> + Send {
        futures::stream::unfold(self, |mut reading| async move { reading.next().await.map(|bytes| (bytes, reading)) })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // Registered before looking, so that no line falls between looking and waiting.
            let book = self.book.clone();
            let mut woken = std::pin::pin!(book.wake.notified());
            woken.as_mut().enable();
            let (text, closed) = self.next_lines();
            if !text.is_empty() {
                return Some(Bytes::from(text));
            }
            let full = self.query.limit.is_some_and(|limit| self.sent >= limit);
            if closed || full || !self.query.follow {
                return None;
            }
            woken.await;
        }
    }

    fn next_lines(&mut self) -> (String, bool) {
        let pages = self.book.pages();
        let mut text = String::new();
        for (at, line) in pages.lines.iter().skip(self.next.saturating_sub(pages.before)) {
            if self.query.since.is_some_and(|since| *at < since) {
                continue;
            }
            if self.query.timestamps {
                text.push_str(&format!("{at:.9} "));
            }
            text.push_str(line);
            text.push('\n');
        }
        self.next = pages.before + pages.lines.len();
        if let Some(limit) = self.query.limit {
            let left = limit.saturating_sub(self.sent);
            let cut = (0..=left.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
            text.truncate(cut);
        }
        self.sent += text.len();
        (text, pages.closed)
    }
}

impl ApiServer {
    /// From now on this is the log of a pod, also of one that is made anew under the same name.
    pub fn keep_log(&self, namespace: &str, pod: &str, book: Arc<LogBook>) {
        self.lock().logs.insert(Key::new(namespace, pod), book);
    }
}

/// Answers a request for a pod's log.
///
/// # Errors
/// 404 for the pod, 400 for a container that it does not have, for a pod without a node, and for earlier logs.
pub(in crate::apiserver) fn answer(state: &mut StoreState, call: &RoutedRequest<'_>) -> Result<Reply> {
    let key = call.key()?;
    let pod = there(state, call.found, &key)?.clone();
    let mut query = call.query.log.clone();
    let name = meta::text(&pod.value, "name");
    container(&pod.value, query.container.as_deref())?;
    if query.previous {
        return Err(ApiError::bad_request(format!("previous terminated container in pod {name:?} not found")));
    }
    let book = state.logs.get(&key).cloned();
    let node = pod.value["spec"]["nodeName"].as_str().unwrap_or_default();
    if book.is_none() && node.is_empty() {
        return Err(ApiError::bad_request(format!("pod {name} does not have a host assigned")));
    }
    if let Some(seconds) = query.since_seconds {
        query.since = state.now.checked_sub(SignedDuration::from_secs(seconds)).ok();
    }
    let book = book.unwrap_or_else(|| {
        // Containers of the sandbox do nothing, so they log nothing.
        let silent = LogBook::default();
        silent.close();
        Arc::new(silent)
    });
    let next = {
        let pages = book.pages();
        let all = pages.lines.len();
        pages.before + query.tail.map_or(0, |tail| all.saturating_sub(tail))
    };
    Ok(Reply::Log(Box::new(Reading { book, query, next, sent: 0 })))
}

fn container(pod: &Value, asked: Option<&str>) -> Result<()> {
    let names: Vec<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten())
        .filter_map(|container| container["name"].as_str())
        .collect();
    let name = meta::text(pod, "name");
    match asked {
        Some(asked) if !names.contains(&asked) => {
            Err(ApiError::bad_request(format!("container {asked} is not valid for pod {name}")))
        }
        None if pod["spec"]["containers"].as_array().is_some_and(|list| list.len() > 1) => {
            let why =
                format!("a container name must be specified for pod {name}, choose one of: [{}]", names.join(" "));
            Err(ApiError::bad_request(why))
        }
        _ => Ok(()),
    }
}
