//! Queues of SQS, standard ones: at least once, in no promised order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;
use jiff::Timestamp;

use crate::region::config::RegionConfig;
use crate::region::ids;

/// SQS's default, and what a new queue gets.
const DEFAULT_VISIBILITY: Duration = Duration::from_secs(30);
const DEFAULT_RETENTION: Duration = Duration::from_secs(4 * 24 * 3600);
/// Retention that Karpenter's CloudFormation template sets for the interruption queue.
const INTERRUPTION_RETENTION: Duration = Duration::from_secs(300);

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub id: String,
    pub body: String,
    pub sent: Timestamp,
    sent_at: Duration,
    visible_at: Duration,
    pub receipt: String,
    pub received: u32,
    pub first_received: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub(crate) struct SqsQueue {
    pub name: String,
    pub visibility: Duration,
    retention: Duration,
    messages: BTreeMap<u64, Message>,
    sent: u64,
    rng: Rng,
    /// Receipts of deleted messages: deleting twice is no error.
    deleted: BTreeSet<String>,
    arrived: bool,
}

impl SqsQueue {
    fn new(name: &str, retention: Duration, rng: Rng) -> Self {
        Self {
            name: name.to_owned(),
            visibility: DEFAULT_VISIBILITY,
            retention,
            messages: BTreeMap::new(),
            sent: 0,
            rng,
            deleted: BTreeSet::new(),
            arrived: false,
        }
    }

    /// Adds a message and gives its id.
    pub fn send(&mut self, body: String, now: Duration, wall: Timestamp) -> String {
        let id = ids::uuid(&mut self.rng);
        let message = Message {
            id: id.clone(),
            body,
            sent: wall,
            sent_at: now,
            visible_at: now,
            receipt: String::new(),
            received: 0,
            first_received: None,
        };
        self.sent += 1;
        self.messages.insert(self.sent, message);
        self.arrived = true;
        id
    }

    /// Takes up to `most` visible messages and hides them for `hide`.
    pub fn receive(&mut self, most: usize, hide: Duration, now: Duration, wall: Timestamp) -> Vec<Message> {
        let retention = self.retention;
        self.messages.retain(|_, message| message.sent_at + retention > now);
        let mut received = Vec::new();
        for message in self.messages.values_mut().filter(|m| m.visible_at <= now).take(most) {
            message.visible_at = now + hide;
            message.received += 1;
            message.first_received.get_or_insert(wall);
            message.receipt = ids::hex(&mut self.rng, 48);
            received.push(message.clone());
        }
        received
    }

    /// Time at which the next hidden message becomes visible.
    pub fn next_visible(&self) -> Option<Duration> {
        self.messages.values().map(|message| message.visible_at).min()
    }

    /// Deletes the message that was received with this receipt; a receipt that never was is `false`.
    pub fn delete(&mut self, receipt: &str) -> bool {
        let found = self.by_receipt(receipt);
        if let Some(number) = found {
            self.messages.remove(&number);
            self.deleted.insert(receipt.to_owned());
        }
        found.is_some() || self.deleted.contains(receipt)
    }

    /// Hides a received message until `until`; a receipt that is not there is `false`.
    pub fn hide_until(&mut self, receipt: &str, until: Duration, now: Duration) -> bool {
        let Some(message) = self.by_receipt(receipt).and_then(|number| self.messages.get_mut(&number)) else {
            return false;
        };
        message.visible_at = until;
        self.arrived |= until <= now;
        true
    }

    fn by_receipt(&self, receipt: &str) -> Option<u64> {
        let known = |message: &Message| !receipt.is_empty() && message.receipt == receipt;
        self.messages.iter().find(|(_, message)| known(message)).map(|(number, _)| *number)
    }

    /// Number of visible messages, and of those received and not deleted.
    pub fn counts(&self, now: Duration) -> (usize, usize) {
        let visible = self.messages.values().filter(|m| m.visible_at <= now).count();
        (visible, self.messages.len() - visible)
    }
}

#[derive(Debug)]
pub(crate) struct Queues {
    /// For ids of events and queues.
    pub ids: Rng,
    by_name: BTreeMap<String, SqsQueue>,
}

impl Queues {
    /// The cluster's interruption queue.
    pub fn new(config: &RegionConfig, ids: Rng) -> Self {
        let mut queues = Self { ids, by_name: BTreeMap::new() };
        queues.insert(&config.queue_name(), INTERRUPTION_RETENTION);
        queues
    }

    fn insert(&mut self, name: &str, retention: Duration) {
        let rng = self.ids.fork();
        self.by_name.insert(name.to_owned(), SqsQueue::new(name, retention, rng));
    }

    /// Creates a queue unless it is there.
    pub fn create(&mut self, name: &str) {
        if !self.by_name.contains_key(name) {
            self.insert(name, DEFAULT_RETENTION);
        }
    }

    /// Drops the messages of a queue: it was deleted.
    pub fn empty(&mut self, name: &str) {
        if let Some(queue) = self.by_name.get_mut(name) {
            queue.messages.clear();
        }
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut SqsQueue> {
        self.by_name.get_mut(name)
    }

    /// True if something became visible since the last call.
    pub fn take_arrived(&mut self) -> bool {
        // Every queue's mark is taken, also after one was found.
        let marks = self.by_name.values_mut().map(|queue| std::mem::take(&mut queue.arrived));
        marks.filter(|arrived| *arrived).count() > 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::clock::DEFAULT_START as WALL;

    fn queue() -> SqsQueue {
        SqsQueue::new("q", INTERRUPTION_RETENTION, Rng::with_seed(1))
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_received_message_is_hidden_and_comes_back_unless_deleted() {
        let mut queue = queue();
        queue.send("a".into(), s(0), WALL);
        let first = queue.receive(10, s(20), s(1), WALL);
        assert_eq!(first.len(), 1);
        assert!(queue.receive(10, s(20), s(20), WALL).is_empty());
        let again = queue.receive(10, s(20), s(21), WALL);
        assert_eq!(again[0].received, 2);
        assert_ne!(again[0].receipt, first[0].receipt);
        assert!(queue.delete(&again[0].receipt) && queue.delete(&again[0].receipt) && !queue.delete("never"));
        assert!(queue.receive(10, s(20), s(100), WALL).is_empty());
    }

    #[test]
    fn what_nobody_fetches_within_the_retention_is_gone() {
        let mut queue = queue();
        queue.send("a".into(), s(0), WALL);
        assert!(queue.receive(10, s(20), s(301), WALL).is_empty());
    }

    #[test]
    fn hiding_for_no_time_gives_a_message_back_at_once() {
        let mut queue = queue();
        queue.send("a".into(), s(0), WALL);
        let message = queue.receive(1, s(20), s(1), WALL).remove(0);
        assert!(queue.hide_until(&message.receipt, s(2), s(2)));
        assert_eq!((queue.counts(s(2)), queue.counts(s(1))), ((1, 0), (0, 1)));
    }
}
