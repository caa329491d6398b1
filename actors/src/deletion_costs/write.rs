//! One write of a pod's annotations, by way of its status: the API server lets annotations through there, and the account may
//! change no pod's spec.

use actix::prelude::*;
use dovetail_api::names::annotations::{DELETION_COST_WRITTEN, POD_DELETION_COST};
use dovetail_core::deletion_costs::{CostChange, CostWrite};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::DeletionCosts;
use super::refused::REPEAT_INTERVAL;
use crate::kube::calls::{CallError, Calls};
use crate::messages::{Record, reference};
use crate::reading::LenientApi;
use crate::telemetry::log_event::LogEvent;
use crate::telemetry::measure::Measure;

/// Most writes under way at a time.
const MOST_WRITES: usize = 16;

/// The patch, resting on the version of the pod that was decided on: a value that its user writes meanwhile stays.
fn patch_of(write: &CostWrite) -> Value {
    let annotations = match write.change {
        CostChange::Set(value) => {
            json!({POD_DELETION_COST: value.to_string(), DELETION_COST_WRITTEN: value.to_string()})
        }
        CostChange::Remove => json!({POD_DELETION_COST: null, DELETION_COST_WRITTEN: null}),
        CostChange::Unmark => json!({DELETION_COST_WRITTEN: null}),
    };
    let version = write.version.map(|version| version.to_string());
    json!({"metadata": {"uid": write.uid, "resourceVersion": version, "annotations": annotations}})
}

/// Writes it, once: a later look decides anew.
async fn write_annotations(calls: Calls, write: CostWrite) -> Result<(), CallError> {
    let api = LenientApi::<Pod>::namespaced(calls.client.clone(), &write.namespace);
    let patch = Patch::Merge(patch_of(&write));
    calls.once(api.patch_status(&write.name, &PatchParams::default(), &patch)).await.map(drop)
}

impl DeletionCosts {
    /// Begins what is to be written, as far as there is room and the pace allows; the others come with a later look.
    pub(super) fn write(&mut self, ctx: &mut Context<Self>) {
        while self.writing.len() < MOST_WRITES {
            let now = self.env.now();
            let Some(write) = self.queue.pop_front() else { return };
            if self.writing.contains(&write.uid) || self.refused.holds(&write.uid, now) {
                continue;
            }
            if !self.pace.take_write(now) {
                self.queue.push_front(write);
                return;
            }
            self.writing.insert(write.uid.clone());
            let writing = write_annotations(self.links.calls.clone(), write.clone()).into_actor(self);
            ctx.spawn(writing.map(move |written, actor, ctx| {
                actor.writing.remove(&write.uid);
                actor.written(&write, written);
                actor.write(ctx);
            }));
        }
    }

    /// Takes in the answer to a write, and says if it is refused.
    fn written(&mut self, write: &CostWrite, answer: Result<(), CallError>) {
        let result = match &answer {
            Ok(()) => "updated",
            Err(CallError::Conflict(_)) => "skipped_conflict",
            Err(CallError::NotFound(_)) => "skipped_notfound",
            Err(CallError::Deposed) => return,
            Err(_) => "error",
        };
        self.env.measure(&Measure::DeletionCostWritten { result });
        let (now, rng) = (self.env.now(), self.env.rng(&write.uid));
        match answer {
            Ok(()) => self.refused.done(&write.uid),
            Err(error) if error.is_refusal() => {
                let is_forbidden = matches!(error, CallError::Forbidden(_));
                if let Some(refusals) = self.refused.note(&write.uid, is_forbidden, now, rng) {
                    self.report(write, refusals, &error.to_string());
                }
            }
            // It has gone or changed, or the API server is away: the next look sees what is there.
            Err(_) => {}
        }
    }

    /// Says that writes are refused: by a line with their number, and by an event at one of them.
    fn report(&self, write: &CostWrite, refusals: usize, error: &str) {
        let object = reference("v1", "Pod", &write.namespace, &write.name, &write.uid);
        let message = format!("Its deletion cost cannot be written, and scale-in does not go by it: {error}");
        let event = Record::warning(object, "DeletionCostRefused", message);
        self.env.post(&self.links.recorder, event.quiet_for(REPEAT_INTERVAL).once_for_all_of("deletion costs"));
        let (pod, error) = (format!("{}/{}", write.namespace, write.name), error.to_owned());
        self.env.emit(LogEvent::DeletionCostsRefused { refusals, pod, error });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_and_mark_are_written_together_on_the_pod_that_was_seen() {
        let write = |change| CostWrite {
            uid: "u".into(),
            namespace: "n".into(),
            name: "p".into(),
            version: Some(7),
            node: "node".into(),
            pool: "pool".into(),
            change,
        };
        for (change, expected) in [
            (
                CostChange::Set(i32::MIN),
                json!({POD_DELETION_COST: "-2147483648", DELETION_COST_WRITTEN: "-2147483648"}),
            ),
            (CostChange::Remove, json!({POD_DELETION_COST: null, DELETION_COST_WRITTEN: null})),
            (CostChange::Unmark, json!({DELETION_COST_WRITTEN: null})),
        ] {
            let metadata = json!({"uid": "u", "resourceVersion": "7", "annotations": expected});
            assert_eq!(patch_of(&write(change)), json!({"metadata": metadata}));
        }
    }
}
