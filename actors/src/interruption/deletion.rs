//! Messages that are done with are deleted ten a call, together with what else is done with within a moment. What SQS keeps of a
//! batch is tried again, a few times; after that it comes again and is known.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use actix::prelude::*;
use dovetail_cloud::CloudError;

use super::Interruption;
use super::queue::{FULL, RETRY_PAUSE};

/// Time that a deletion waits for others to share its call.
const GATHER: Duration = Duration::from_millis(100);
/// Calls at the same time: as many as receive.
const AT_ONCE: usize = 16;
/// Attempts to delete one message; a message that stays comes again and is recognised.
const ATTEMPTS: u32 = 3;

/// A message that is to be deleted.
#[derive(Clone, Debug)]
struct Deletion {
    receipt: String,
    attempts: u32,
}

/// Messages that are to be deleted from the queue, in batches.
#[derive(Default)]
pub(super) struct Deletions {
    waiting: VecDeque<Deletion>,
    queue_url: String,
    running: usize,
    scheduled: bool,
}

impl Deletions {
    /// Number of messages that wait to be deleted.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

impl Interruption {
    /// Deletes messages of the queue before long.
    pub(super) fn delete(&mut self, queue_url: &str, receipts: Vec<String>, ctx: &mut Context<Self>) {
        if receipts.is_empty() {
            return;
        }
        // There is one queue a term; its address may be found anew.
        queue_url.clone_into(&mut self.deletions.queue_url);
        self.deletions.waiting.extend(receipts.into_iter().map(|receipt| Deletion { receipt, attempts: 0 }));
        if self.deletions.waiting.len() >= FULL {
            return self.delete_some(ctx);
        }
        self.delete_in(GATHER, ctx);
    }

    fn delete_in(&mut self, time: Duration, ctx: &mut Context<Self>) {
        if !std::mem::replace(&mut self.deletions.scheduled, true) {
            ctx.run_later(time, |actor, ctx| {
                actor.deletions.scheduled = false;
                actor.delete_some(ctx);
            });
        }
    }

    fn delete_some(&mut self, ctx: &mut Context<Self>) {
        while self.deletions.running < AT_ONCE && !self.deletions.waiting.is_empty() {
            let most = FULL.min(self.deletions.waiting.len());
            let batch: Vec<Deletion> = self.deletions.waiting.drain(..most).collect();
            self.deletions.running += 1;
            let (cloud, url) = (self.links.cloud.clone(), self.deletions.queue_url.clone());
            let receipts: Vec<String> = batch.iter().map(|one| one.receipt.clone()).collect();
            let deleting = async move { cloud.delete_messages(&url, &receipts).await };
            ctx.spawn(deleting.into_actor(self).map(move |answer, actor, ctx| {
                actor.deletions.running -= 1;
                actor.after_deletion(batch, answer, ctx);
                actor.delete_some(ctx);
            }));
        }
    }

    fn after_deletion(
        &mut self,
        batch: Vec<Deletion>,
        answer: Result<BTreeMap<String, CloudError>, CloudError>,
        ctx: &mut Context<Self>,
    ) {
        let failed = |one: &Deletion| match &answer {
            Ok(failed) => failed.get(&one.receipt).map(CloudError::is_retryable),
            Err(error) => Some(error.is_retryable()),
        };
        let mut again: Vec<Deletion> = Vec::new();
        let mut failures = 0;
        for mut one in batch {
            let Some(retryable) = failed(&one) else { continue };
            failures += 1;
            one.attempts += 1;
            if retryable && one.attempts < ATTEMPTS && self.links.leader_term.holds() {
                again.push(one);
            }
        }
        // A call is one failure, however many messages it was for.
        self.failures += u64::from(failures > 0);
        let Some(attempts) = again.iter().map(|one| one.attempts).max() else { return };
        ctx.run_later(RETRY_PAUSE * attempts, move |actor, ctx| {
            actor.deletions.waiting.extend(again);
            actor.delete_some(ctx);
        });
    }
}
