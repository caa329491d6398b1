//! Time in which pods were missed: from a Ready pod's eviction, deletion by a drain or loss until its owner's next pod is Ready.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dovetail_sandbox::log::ActionEntry;
use serde::Serialize;
use serde_json::Value;

/// Downtime over a run.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Downtime {
    /// Seconds without the pod, summed over the pods.
    pub pod_seconds: f64,
    pub evicted: usize,
}

/// Reads it off the events (docs/events.md). A pod that becomes Ready closes the latest gap of its owner's that had begun
/// when it was created: so each gap is left to a pod that can have been made for it.
pub fn measure_downtime(entries: &[ActionEntry], end: Duration) -> Downtime {
    let mut reader = Reader::default();
    for (number, entry) in entries.iter().enumerate() {
        match entry.kind.as_str() {
            "pod" => reader.hear_of_pod(number, entry),
            "api" if entry.replica.is_some() => reader.hear_of_write(entry),
            _ => {}
        }
    }
    let end = u64::try_from(end.as_micros()).unwrap_or(u64::MAX);
    let open: u64 = reader.gaps.values().flatten().map(|(_, start)| end.saturating_sub(*start)).sum();
    Downtime { pod_seconds: (reader.closed + open) as f64 / 1e6, evicted: reader.evicted.len() }
}

#[derive(Default)]
struct Reader {
    /// By pod: what its gap is known by, its owner or else itself.
    owners: BTreeMap<String, String>,
    /// By pod: the number of the event of its creation.
    created: BTreeMap<String, usize>,
    /// Pods that were Ready once.
    came: BTreeSet<String>,
    /// Those that are missed should they go.
    ready: BTreeSet<String>,
    /// Pods that a replica has deleted.
    drained: BTreeSet<String>,
    /// By owner: the numbers and times of the events that began them.
    gaps: BTreeMap<String, Vec<(usize, u64)>>,
    closed: u64,
    evicted: BTreeSet<String>,
}

impl Reader {
    fn hear_of_write(&mut self, entry: &ActionEntry) {
        let done = entry.field("code").and_then(Value::as_u64).is_some_and(|code| code < 300);
        if done && entry.text("resource") == "pods" && entry.text("verb") == "delete" {
            self.drained.insert(entry.text("uid").to_owned());
        }
    }

    fn hear_of_pod(&mut self, number: usize, entry: &ActionEntry) {
        let uid = entry.text("uid").to_owned();
        match entry.text("change") {
            "created" => {
                let (owner, namespace) = (entry.text("owner"), entry.text("namespace"));
                // A DaemonSet's pod comes and goes with its node: nobody waits for another.
                if owner.starts_with("DaemonSet/") {
                    return;
                }
                let known_by = if owner.is_empty() { format!("uid {uid}") } else { format!("{namespace}/{owner}") };
                // One that is there again, from a backup, comes anew.
                self.came.remove(&uid);
                self.ready.remove(&uid);
                self.created.insert(uid.clone(), number);
                self.owners.insert(uid, known_by);
            }
            // One that is ready again after a silence has not come for another.
            "ready" if self.came.insert(uid.clone()) => {
                self.close(&uid, entry.micros);
                self.ready.insert(uid);
            }
            "evicted" => {
                self.open(&uid, number, entry.micros);
                self.evicted.insert(uid);
            }
            "lost" => self.open(&uid, number, entry.micros),
            "deleting" if self.drained.contains(&uid) => self.open(&uid, number, entry.micros),
            "deleted" | "succeeded" => drop(self.ready.remove(&uid)),
            _ => {}
        }
    }

    fn open(&mut self, uid: &str, number: usize, at: u64) {
        if self.ready.remove(uid)
            && let Some(owner) = self.owners.get(uid)
        {
            self.gaps.entry(owner.clone()).or_default().push((number, at));
        }
    }

    fn close(&mut self, uid: &str, at: u64) {
        let created = self.created.get(uid).copied().unwrap_or_default();
        let Some(gaps) = self.owners.get(uid).and_then(|owner| self.gaps.get_mut(owner)) else { return };
        if let Some(latest) = gaps.iter().rposition(|(number, _)| *number < created) {
            self.closed += at - gaps.remove(latest).1;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::json;

    use super::*;

    fn event(seconds: u64, replica: Option<u32>, kind: &str, fields: Value) -> ActionEntry {
        let fields = fields.as_object().unwrap().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        ActionEntry { micros: seconds * 1_000_000, replica, term: None, kind: kind.into(), by: String::new(), fields }
    }

    fn pod(seconds: u64, change: &str, name: &str) -> ActionEntry {
        let fields =
            json!({"change": change, "namespace": "default", "name": name, "uid": name, "owner": "Deployment/web"});
        event(seconds, None, "pod", fields)
    }

    fn seconds(entries: &[ActionEntry]) -> f64 {
        measure_downtime(entries, Duration::from_secs(100)).pod_seconds
    }

    #[test]
    fn downtime_lasts_from_eviction_until_a_later_pod_is_ready() {
        let run = [
            pod(0, "created", "a"),
            pod(1, "ready", "a"),
            pod(2, "created", "early"),
            pod(10, "evicted", "a"),
            pod(10, "deleting", "a"),
            pod(11, "created", "b"),
            pod(12, "ready", "early"),
            pod(40, "ready", "b"),
        ];
        assert_eq!(measure_downtime(&run, Duration::from_secs(100)), Downtime { pod_seconds: 30.0, evicted: 1 });
        assert_eq!(seconds(&run[..6]), 90.0, "to the end where nobody comes");
    }

    #[test]
    fn two_successors_that_overtake_each_other_close_both_gaps() {
        let run = [
            pod(0, "created", "a"),
            pod(0, "created", "b"),
            pod(1, "ready", "a"),
            pod(1, "ready", "b"),
            pod(10, "evicted", "a"),
            pod(10, "created", "a2"),
            pod(11, "evicted", "b"),
            pod(11, "created", "b2"),
            pod(13, "ready", "b2"),
            pod(15, "ready", "a2"),
        ];
        assert_eq!(seconds(&run), 2.0 + 5.0);
    }

    #[test]
    fn pod_deletion_is_downtime_when_drained_not_when_scaled_down() {
        let life = [pod(0, "created", "a"), pod(1, "ready", "a")];
        let deleted = event(9, Some(0), "api", json!({"resource": "pods", "verb": "delete", "uid": "a", "code": 200}));
        let refused = event(9, Some(0), "api", json!({"resource": "pods", "verb": "delete", "uid": "a", "code": 409}));
        let with = |write: Option<ActionEntry>| {
            [life.to_vec(), write.into_iter().collect(), vec![pod(10, "deleting", "a")]].concat()
        };
        assert_eq!(
            (seconds(&with(None)), seconds(&with(Some(refused))), seconds(&with(Some(deleted)))),
            (0.0, 0.0, 90.0)
        );
    }

    #[test]
    fn a_pod_that_belongs_to_its_node_is_not_missed() {
        let of_daemon = |seconds, change: &str| {
            let fields = json!({"change": change, "namespace": "a", "name": "d", "uid": "d", "owner": "DaemonSet/d"});
            event(seconds, None, "pod", fields)
        };
        assert_eq!(seconds(&[of_daemon(0, "created"), of_daemon(1, "ready"), of_daemon(2, "lost")]), 0.0);
    }

    #[test]
    fn a_pod_out_of_a_backup_comes_anew_and_is_missed_again() {
        let run = [
            pod(0, "created", "a"),
            pod(1, "ready", "a"),
            pod(10, "evicted", "a"),
            pod(11, "deleted", "a"),
            pod(20, "created", "a"),
            pod(30, "ready", "a"),
            pod(40, "evicted", "a"),
        ];
        assert_eq!(measure_downtime(&run, Duration::from_secs(100)), Downtime { pod_seconds: 20.0 + 60.0, evicted: 1 });
    }

    #[test]
    fn what_was_never_ready_or_had_ended_is_not_missed() {
        let run = [
            pod(0, "created", "a"),
            pod(1, "lost", "a"),
            pod(2, "created", "b"),
            pod(3, "ready", "b"),
            pod(4, "succeeded", "b"),
            pod(5, "lost", "b"),
        ];
        assert_eq!(seconds(&run), 0.0);
    }
}
