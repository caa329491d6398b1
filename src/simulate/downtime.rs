//! How long pods were missed: from a Ready pod's end until its owner's next pod is Ready.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use dovetail_sandbox::log::Entry;
use serde::Serialize;

/// Downtime over a run.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Downtime {
    /// Seconds without the pod, summed over the pods.
    pub pod_seconds: f64,
    /// Pods evicted.
    pub evicted: usize,
}

/// Reads it off the events (docs/events.md). Gaps of one owner close first in, first out.
pub fn of(entries: &[Entry], end: Duration) -> Downtime {
    let mut reader = Reader::default();
    for entry in entries.iter().filter(|entry| entry.kind == "pod") {
        reader.hear(entry);
    }
    let end = u64::try_from(end.as_micros()).unwrap_or(u64::MAX);
    let open: u64 = reader.gaps.values().flatten().map(|start| end.saturating_sub(*start)).sum();
    Downtime { pod_seconds: (reader.closed + open) as f64 / 1e6, evicted: reader.evicted }
}

#[derive(Default)]
struct Reader {
    owners: BTreeMap<String, String>,
    created: BTreeMap<String, u64>,
    ready: BTreeSet<String>,
    gaps: BTreeMap<String, VecDeque<u64>>,
    closed: u64,
    evicted: usize,
}

impl Reader {
    fn hear(&mut self, entry: &Entry) {
        let text = |name: &str| entry.field(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        let uid = text("uid");
        match text("change").as_str() {
            "created" => {
                self.created.insert(uid.clone(), entry.micros);
                let owner = text("owner");
                if !owner.is_empty() {
                    self.owners.insert(uid, format!("{}/{owner}", text("namespace")));
                }
            }
            "ready" => {
                self.close(&uid, entry.micros);
                self.ready.insert(uid);
            }
            "evicted" => {
                self.evicted += 1;
                self.open(&uid, entry.micros);
            }
            "lost" => self.open(&uid, entry.micros),
            "deleting" | "deleted" | "succeeded" => drop(self.ready.remove(&uid)),
            _ => {}
        }
    }

    fn open(&mut self, uid: &str, at: u64) {
        if self.ready.remove(uid)
            && let Some(owner) = self.owners.get(uid)
        {
            self.gaps.entry(owner.clone()).or_default().push_back(at);
        }
    }

    fn close(&mut self, uid: &str, at: u64) {
        let created = self.created.get(uid).copied().unwrap_or(at);
        let Some(gaps) = self.owners.get(uid).and_then(|owner| self.gaps.get_mut(owner)) else { return };
        if gaps.front().is_some_and(|start| *start <= created)
            && let Some(start) = gaps.pop_front()
        {
            self.closed += at - start;
        }
    }
}
