//! Meaning of `faults.sqs` in a scenario, and refusal of what changes nothing as no replica reads the queue.

use std::time::Duration;

use dovetail_sandbox::faults::{QueueLoss, QueueLost, SqsFaults};
use serde_saphyr::Spanned;

use super::check::Checker;
use super::faults::{ScenarioQueueLost, ScenarioSqsFaults};
use crate::scenario::duration;

/// Actions that a replica calls to read its queue.
const OF_THE_QUEUE: [&str; 3] = ["DeleteMessageBatch", "GetQueueUrl", "ReceiveMessage"];

impl Checker<'_> {
    pub(super) fn queue_faults(&mut self, written: &ScenarioSqsFaults, until: Duration) -> SqsFaults {
        let rates = [("duplicateRate", &written.duplicate_rate), ("errorRate", &written.error_rate)];
        for (name, rate) in rates {
            if let Some(rate) = rate {
                self.reads_queue(&format!("faults.sqs.{name}"), rate);
            }
        }
        SqsFaults {
            duplicate_rate: self.rate("faults.sqs.duplicateRate", written.duplicate_rate.as_ref()),
            error_rate: self.rate("faults.sqs.errorRate", written.error_rate.as_ref()),
            lost: written.lost.as_ref().and_then(|lost| self.queue_lost(lost, until)),
        }
    }

    fn queue_lost(&mut self, written: &ScenarioQueueLost, until: Duration) -> Option<QueueLost> {
        let field = |name: &str| format!("faults.sqs.lost.{name}");
        let how = &written.how;
        if self.reads_queue(&field("how"), how) && self.queue != self.cluster {
            let what = format!("replicas read the queue {:?}, which is not there: it changes nothing", self.queue);
            self.mistake(field("how"), how, what, "no INTERRUPTION_QUEUE in settings, or the cluster's name");
        }
        let known = QueueLoss::ALL.into_iter().find(|one| one.name() == how.value);
        if known.is_none() {
            let what = format!("{:?} is no way to lose a queue", how.value);
            self.mistake(field("how"), how, what, QueueLoss::ALL.map(QueueLoss::name).join(", "));
        }
        let after = self.span(&field("after"), written.after.as_ref());
        if let Some(text) = written.after.as_ref().filter(|_| after >= until) {
            self.mistake(field("after"), text, "is not before the end: it changes nothing", "less than `until`");
        }
        let path = self.path;
        let lasts = written.lasts.as_ref().and_then(|text| self.collect(duration(path, &field("for"), text)));
        if let Some(text) = written.lasts.as_ref().filter(|_| lasts == Some(Duration::ZERO)) {
            self.mistake(field("for"), text, "is no time: it changes nothing", "more than 0, or nothing");
        }
        known.map(|how| QueueLost { how, after, lasts })
    }

    /// Notes a mistake where an action is one of a queue that no replica reads. Answers false then.
    pub(super) fn calls_for_queue(&mut self, field: &str, action: &Spanned<String>) -> bool {
        !OF_THE_QUEUE.contains(&action.value.as_str()) || self.reads_queue(field, action)
    }

    /// Notes a mistake where replicas read no queue. Answers false then.
    fn reads_queue<T>(&mut self, field: &str, at: &Spanned<T>) -> bool {
        if self.queue.is_empty() {
            let what = "no replica reads a queue, as INTERRUPTION_QUEUE is empty: it changes nothing";
            self.mistake(field, at, what, "an INTERRUPTION_QUEUE, or no such fault");
        }
        !self.queue.is_empty()
    }
}
