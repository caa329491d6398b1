//! Instances on their way out, as the cloud is asked about them: all of them together, at most once a second, and each again
//! after one second, two, four, then five (aws spec 4.5, 4.10). An instance is ended only for a claim just re-read as being
//! deleted; an end that EC2 refuses is asked for again after pauses that grow to a quarter of a minute, and its state as often as
//! any.
//!
//! ```text
//! want ─► begin: what is due ─► ask ─► instances_of (one call for all ids) ─► alive and to end? ─► confirmed ─► end_once ─┐
//!  ▲                             └──► by_token, a call each ───────────────────────────────────────────────────────────────┤
//!  └─────────── a look at the claim or its Node, with what `seen` answers ◄───────────────────────────── end: learn ◄──────┘
//! ```
//!
//! The order within [`ask`] matters. EC2 is asked first, as only an instance that is alive need be made sure of. Then comes the
//! API server, and the call that ends follows at once: between the two nothing else is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dovetail_api::v1::NodeClaim;
use dovetail_cloud::CloudError;
use dovetail_core::pause::DoublingPause;
use dovetail_core::termination::InstanceObservation;
use dovetail_core::termination::instance::Handle;
use jiff::Timestamp;

pub use ask::{InstanceAnswers, ask};

use crate::context::backoff::Backoff;
use crate::context::brakes::Brakes;
use crate::context::refusals::is_said;

mod ask;

/// Time that an answer is good for: the first of its kind, and those that repeat it.
const GOOD_FOR: DoublingPause = DoublingPause { first: Duration::from_millis(900), longest: Duration::from_secs(5) };
/// Pause between two calls; a tick of a second that comes a little early counts.
const PAUSE: Duration = Duration::from_millis(900);
/// First and longest pause before an end that EC2 refuses is asked for again. What has become of the instance is asked meanwhile.
pub const REFUSED_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// Longest that it may take to make sure: others wait with what they know by then.
pub const SURE_WITHIN: Duration = Duration::from_secs(5);
/// Launch tokens looked for in one go: each is a call of its own.
const MOST_TOKENS: usize = 20;

/// An instance that the cloud is to be asked of.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceQuery {
    /// Instance asked about.
    pub handle: Handle,
    /// Objects that it is to end for; `None` when only its state is asked.
    pub end: Option<EndingObject>,
}

/// Objects that an instance ends for.
#[derive(Clone, Debug, PartialEq)]
pub struct EndingObject {
    /// The claim that is being deleted.
    claim: NodeClaim,
    /// Its drained Node, and since when that is being deleted; none where it is thought to be gone. Either is made sure of, or pods
    /// would lose an undrained node.
    node: Option<(String, Timestamp)>,
}

impl EndingObject {
    /// For a claim whose Node is drained.
    pub fn drained(claim: &NodeClaim, node: &str, since: Timestamp) -> Self {
        Self { claim: claim.clone(), node: Some((node.to_owned(), since)) }
    }

    /// For a claim whose Node is thought to be gone, or never came.
    pub fn without_node(claim: &NodeClaim) -> Self {
        Self { claim: claim.clone(), node: None }
    }
}

/// Answer about one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceAnswer {
    /// Instance answered about.
    pub handle: Handle,
    /// State of the instance.
    pub seen: InstanceObservation,
    /// Instances whose end has just been accepted.
    pub ended: Vec<String>,
}

/// The last answer of one instance.
#[derive(Clone, Copy, Debug)]
struct Known {
    seen: InstanceObservation,
    when: Duration,
    /// Answers in a row before it that were the same.
    repeats: u32,
    /// Time of the question by the wall clock.
    asked: Timestamp,
}

/// Instances that are to end or have been asked to, and when each is looked at again.
pub struct Endings {
    wanted: BTreeMap<Handle, InstanceQuery>,
    answers: BTreeMap<Handle, Known>,
    /// Ends that EC2 refuses, by what the instance is known by.
    refused: Brakes,
    /// For their pauses.
    rng: fastrand::Rng,
    /// Instances whose end was asked for and may have been accepted.
    unsure: BTreeSet<String>,
    asking: bool,
    begun: Option<Duration>,
    /// Time of the last question by the wall clock.
    asked: Timestamp,
    backoff: Backoff,
    not_before: Duration,
}

impl Endings {
    /// No instances asked about.
    pub fn new(rng: fastrand::Rng) -> Self {
        Self {
            wanted: BTreeMap::new(),
            answers: BTreeMap::new(),
            refused: Brakes::new(REFUSED_AGAIN.0, REFUSED_AGAIN.1),
            unsure: BTreeSet::new(),
            asking: false,
            begun: None,
            asked: Timestamp::default(),
            backoff: Backoff::cloud(rng.clone()),
            rng,
            not_before: Duration::ZERO,
        }
    }

    /// Last answer, and the time of its question.
    pub fn seen(&self, handle: Option<&Handle>) -> (InstanceObservation, Timestamp) {
        let known = handle.and_then(|handle| self.answers.get(handle));
        known.map_or((InstanceObservation::Unknown, Timestamp::default()), |known| (known.seen, known.asked))
    }

    /// The cloud is to be asked at the next occasion.
    pub fn want(&mut self, ask: InstanceQuery) {
        self.wanted.insert(ask.handle.clone(), ask);
    }

    /// Questions to ask now.
    pub fn begin(&mut self, now: Duration, wall: Timestamp) -> Vec<InstanceQuery> {
        let early = self.begun.is_some_and(|begun| now.saturating_sub(begun) < PAUSE);
        if self.asking || early || now < self.not_before {
            return Vec::new();
        }
        let good = |known: &Known| now.saturating_sub(known.when) < GOOD_FOR.length_after(known.repeats);
        let fresh = |handle: &Handle| self.answers.get(handle).is_some_and(good);
        let due: Vec<_> = self.wanted.keys().filter(|handle| !fresh(handle)).cloned().collect();
        // A question over the bound stays in `wanted`, and is due the next time.
        let (mut tokens, mut asks) = (0, Vec::new());
        for handle in due {
            tokens += usize::from(matches!(handle, Handle::Token(_)));
            if !matches!(handle, Handle::Token(_)) || tokens <= MOST_TOKENS {
                asks.extend(self.wanted.remove(&handle));
            }
        }
        for ask in &mut asks {
            if self.refused.hold(key(&ask.handle), None, now) {
                // Its state is asked all the same: somebody else may end it meanwhile.
                ask.end = None;
            }
        }
        self.asking = !asks.is_empty();
        if self.asking {
            (self.begun, self.asked) = (Some(now), wall);
        }
        asks
    }

    /// The cloud has answered, as far as it did. Answers what is to be told: the first failure in a row, and refusals of each with
    /// their number, ever more seldom. What is seen to end of which nobody knew whether it would has been ended by us.
    pub fn end(&mut self, answered: &mut InstanceAnswers, now: Duration) -> Vec<(CloudError, u32)> {
        self.asking = false;
        // The call that ended it got no answer, and now it is seen to end: it was us.
        for one in &mut answered.answers {
            if let Handle::Id(id) = &one.handle
                && one.seen != InstanceObservation::Alive
                && self.unsure.remove(id)
                && one.ended.is_empty()
            {
                one.ended.push(id.clone());
            }
        }
        self.unsure.append(&mut answered.unsure);
        for one in &answered.answers {
            self.learn(&one.handle, one.seen, self.asked, now);
            // Alive is also what was only asked about, in between.
            if one.seen != InstanceObservation::Alive && !answered.refused.contains_key(&one.handle) {
                self.refused.forget(key(&one.handle));
            }
        }
        let mut reports = Vec::new();
        for (handle, error) in &answered.refused {
            // It is asked again, at its own pace: it keeps no other waiting.
            if answered.answers.iter().all(|one| one.handle != *handle) {
                let (seen, asked) = self.seen(Some(handle));
                self.learn(handle, seen, asked, now);
            }
            self.refused.failed(key(handle), None, now, || self.rng.fork());
            let times = self.refused.failures(key(handle));
            reports.extend(is_said(times).then(|| (error.clone(), times)));
        }
        let Some(error) = &answered.failed else {
            self.backoff.reset();
            return reports;
        };
        self.not_before = now + self.backoff.pause();
        reports.extend((self.backoff.failures() == 1).then(|| (error.clone(), 1)));
        reports
    }

    fn learn(&mut self, handle: &Handle, seen: InstanceObservation, asked: Timestamp, now: Duration) {
        // The same answer again is good for twice as long: 0.9 s, 1.8 s, 3.6 s, then 5 s. A new one is looked at soon.
        let before = self.answers.get(handle).filter(|known| known.seen == seen);
        let repeats = before.map_or(0, |known| known.repeats.saturating_add(1));
        // From when it was asked: from the answer on, the tick of a second later would be a moment too early.
        let when = self.begun.unwrap_or(now);
        self.answers.insert(handle.clone(), Known { seen, when, repeats, asked });
    }

    /// Forgets an instance that nothing asks about any more.
    pub fn forget(&mut self, handle: &Handle) {
        self.wanted.remove(handle);
        self.answers.remove(handle);
        self.refused.forget(key(handle));
        if let Handle::Id(id) = handle {
            self.unsure.remove(id);
        }
    }

    /// Number of instances known to be on their way out.
    pub fn count(&self) -> usize {
        self.answers.len()
    }
}

/// Ids and tokens are never alike, so that one map has both.
fn key(handle: &Handle) -> &str {
    match handle {
        Handle::Id(key) | Handle::Token(key) => key,
    }
}

#[cfg(test)]
mod tests;
