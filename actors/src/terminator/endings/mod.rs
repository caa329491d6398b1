//! Instances on their way out, as the cloud is asked about them: all of them together, at most once a second, and each again
//! after one second, two, four, then five (aws spec 4.5, 4.10). An instance is ended only for a claim just re-read as being
//! deleted; an end that EC2 refuses is asked for again after pauses that grow to a quarter of a minute, and its state as often as
//! any.
//!
//! ```text
//! add_query ─► take_due ─► ask_and_end ─► one call for all ids ─► alive and to end? ─► confirm_ends ─► ended, once ─┐
//!  ▲                           └──► a call for each token ─────────────────────────────────────────────────────────────┤
//!  └────── a look at the claim or its Node, with what `last_answer` says ◄───────────────────────── take_answers ◄──────┘
//! ```
//!
//! The order within [`ask_and_end`] matters. EC2 is asked first, as only an instance that is alive need be made sure of. Then comes the
//! API server, and the call that ends follows at once: between the two nothing else is waited for.

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_api::v1::NodeClaim;
use dovetail_cloud::CloudError;
use dovetail_core::termination::instance::Handle;
use dovetail_core::termination::{InstanceObservation, LastAnswer};
use jiff::Timestamp;

pub use ask::{InstanceAnswers, ask_and_end};

use crate::context::backoff::Backoff;
use crate::context::brakes::Brake;
use crate::context::refusals::is_said;

mod ask;

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
    pub fn after_drain(claim: &NodeClaim, node: &str, since: Timestamp) -> Self {
        Self { claim: claim.clone(), node: Some((node.to_owned(), since)) }
    }

    /// For a claim whose Node is thought to be gone, or never came.
    pub fn without_node(claim: &NodeClaim) -> Self {
        Self { claim: claim.clone(), node: None }
    }
}

/// Answer about one instance, or its refusal.
#[derive(Clone, Debug)]
pub struct InstanceAnswer {
    /// Instance answered about.
    pub handle: Handle,
    /// State of the instance; `None` if the cloud refuses to say.
    pub seen: Option<InstanceObservation>,
    /// Instances whose end has just been accepted.
    pub ended: Vec<String>,
    /// True if its end was asked for, and nobody knows whether that was accepted.
    pub unsure: bool,
    /// Error of the cloud that another attempt will not help.
    pub refused: Option<CloudError>,
}

/// An instance that is to end or has been asked about.
#[derive(Default)]
struct EndingInstance {
    /// The question that is to be asked at the next occasion.
    wanted: Option<InstanceQuery>,
    answer: Option<LastAnswer>,
    /// Pauses between requests for its end that EC2 refuses.
    refused: Option<Brake>,
    /// True if its end was asked for and may have been accepted.
    unsure: bool,
}

impl EndingInstance {
    /// True if its question is to be asked now.
    fn is_due(&self, now: Duration) -> bool {
        self.wanted.is_some() && !self.answer.is_some_and(|answer| answer.is_fresh(now))
    }
}

/// Instances that are to end or have been asked to, and when each is looked at again.
pub struct Endings {
    known: BTreeMap<Handle, EndingInstance>,
    /// Source of the jitter in pauses after refusals.
    rng: fastrand::Rng,
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
            known: BTreeMap::new(),
            asking: false,
            begun: None,
            asked: Timestamp::default(),
            backoff: Backoff::cloud(rng.clone()),
            rng,
            not_before: Duration::ZERO,
        }
    }

    /// Last answer, and the time of its question.
    pub fn last_answer(&self, handle: Option<&Handle>) -> (InstanceObservation, Timestamp) {
        let answer = handle.and_then(|handle| self.known.get(handle)?.answer);
        answer.map_or((InstanceObservation::Unknown, Timestamp::default()), |answer| (answer.seen, answer.asked))
    }

    /// The cloud is to be asked at the next occasion.
    pub fn add_query(&mut self, ask: InstanceQuery) {
        let known = self.known.entry(ask.handle.clone()).or_default();
        known.wanted = Some(ask);
    }

    /// Questions to ask now.
    pub fn take_due(&mut self, now: Duration, wall: Timestamp) -> Vec<InstanceQuery> {
        let early = self.begun.is_some_and(|begun| now.saturating_sub(begun) < PAUSE);
        if self.asking || early || now < self.not_before {
            return Vec::new();
        }
        // A question over the bound stays wanted, and is due the next time.
        let (mut tokens, mut asks) = (0, Vec::new());
        for (handle, known) in self.known.iter_mut().filter(|(_, known)| known.is_due(now)) {
            tokens += usize::from(matches!(handle, Handle::Token(_)));
            if matches!(handle, Handle::Token(_)) && tokens > MOST_TOKENS {
                continue;
            }
            let Some(mut ask) = known.wanted.take() else { continue };
            if known.refused.as_ref().is_some_and(|brake| brake.holds(None, now)) {
                // Its state is asked all the same: somebody else may end it meanwhile.
                ask.end = None;
            }
            asks.push(ask);
        }
        self.asking = !asks.is_empty();
        if self.asking {
            (self.begun, self.asked) = (Some(now), wall);
        }
        asks
    }

    /// Takes what the cloud has answered. Returns what is to be reported: the first failure in a row, and refusals of each with
    /// their number, ever more seldom. What is seen to end of which nobody knew whether it would has been ended by us.
    pub fn take_answers(&mut self, answered: &mut InstanceAnswers, now: Duration) -> Vec<(CloudError, u32)> {
        self.asking = false;
        let mut reports = Vec::new();
        for answer in &mut answered.answers {
            reports.extend(self.take_answer(answer, now));
        }
        let Some(error) = &answered.failed else {
            self.backoff.reset();
            return reports;
        };
        self.not_before = now + self.backoff.pause();
        reports.extend((self.backoff.failures() == 1).then(|| (error.clone(), 1)));
        reports
    }

    /// Takes an answer. Returns a refusal that is to be reported, with its number.
    fn take_answer(&mut self, answer: &mut InstanceAnswer, now: Duration) -> Option<(CloudError, u32)> {
        // Its claim has gone meanwhile: nobody asks any more.
        let known = self.known.get_mut(&answer.handle)?;
        if let (Handle::Id(id), Some(seen)) = (&answer.handle, answer.seen)
            && seen != InstanceObservation::Alive
            && std::mem::take(&mut known.unsure)
            && answer.ended.is_empty()
        {
            // The call that ended it got no answer, and now it is seen to end: it was us.
            answer.ended.push(id.clone());
        }
        known.unsure |= answer.unsure;
        // Without an answer it counts as the same again: it is asked at its own pace, and keeps no other waiting.
        let before =
            known.answer.map_or((InstanceObservation::Unknown, Timestamp::default()), |one| (one.seen, one.asked));
        let (seen, asked) = answer.seen.map_or(before, |seen| (seen, self.asked));
        // From when it was asked: from the answer on, the tick of a second later would be a moment too early.
        known.answer = Some(LastAnswer::after(known.answer, seen, asked, self.begun.unwrap_or(now)));
        let Some(error) = &answer.refused else {
            // Alive is also what was only asked about, in between.
            if seen != InstanceObservation::Alive {
                known.refused = None;
            }
            return None;
        };
        let new = || Brake::new(REFUSED_AGAIN.0, REFUSED_AGAIN.1, self.rng.fork());
        let brake = known.refused.get_or_insert_with(new);
        brake.failed(None, now);
        is_said(brake.failures()).then(|| (error.clone(), brake.failures()))
    }

    /// Forgets an instance that nothing asks about any more.
    pub fn forget_instance(&mut self, handle: &Handle) {
        self.known.remove(handle);
    }

    /// Number of instances known to be on their way out.
    pub fn known_count(&self) -> usize {
        self.known.values().filter(|known| known.answer.is_some()).count()
    }
}

#[cfg(test)]
mod tests;
