//! What the cloud is asked of instances on their way out: all of them together, at most once a second, and each again
//! after one second, two, four, and from then on five (aws spec 4.5, 4.10). An instance is ended only for a claim just re-read as being deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dovetail_api::v1::NodeClaim;
use dovetail_cloud::{CloudError, Found, Instance};
use dovetail_core::termination::Seen;
use dovetail_core::termination::instance::{Handle, handle};
use futures::StreamExt;

use super::TerminatorLinks;
use super::known::{is_leaving, of_claim, of_node};
use crate::backoff::Backoff;
use crate::calls::CallError;
use crate::claims::Claims;
use crate::nodes::Nodes;

/// How long the first answer of its kind is good for, each further one twice as long, and the longest of all.
const AGAIN: (Duration, Duration) = (Duration::from_millis(900), Duration::from_secs(5));
/// Pause between two calls; a tick of a second that comes a little early counts.
const PAUSE: Duration = Duration::from_millis(900);
/// Claims re-read at the same time.
const READS: usize = 16;
/// Launch tokens looked for in one go: each is a call of its own.
const MOST_TOKENS: usize = 20;

/// An instance that the cloud is to be asked of.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Which.
    pub handle: Handle,
    /// The claim for which it is to end; none when only its state is asked.
    pub end_for: Option<NodeClaim>,
    /// Its Node is thought to be gone: to be made sure of, or pods would lose their node undrained.
    pub without_node: bool,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Of which.
    pub handle: Handle,
    /// What is known now.
    pub seen: Seen,
    /// Instances whose end has just been accepted.
    pub ended: Vec<String>,
}

/// What was answered last, when, and for how long it is good.
#[derive(Clone, Copy, Debug)]
struct Known {
    seen: Seen,
    when: Duration,
    good: Duration,
}

/// See the module.
pub struct Endings {
    wanted: BTreeMap<Handle, Ask>,
    answers: BTreeMap<Handle, Known>,
    /// Of which it has been told that they are refused.
    refused: BTreeSet<Handle>,
    asking: bool,
    begun: Option<Duration>,
    backoff: Backoff,
    not_before: Duration,
}

impl Endings {
    /// Nothing asked.
    pub fn new(backoff: Backoff) -> Self {
        Self {
            wanted: BTreeMap::new(),
            answers: BTreeMap::new(),
            refused: BTreeSet::new(),
            asking: false,
            begun: None,
            backoff,
            not_before: Duration::ZERO,
        }
    }

    /// What was last answered.
    pub fn seen(&self, handle: Option<&Handle>) -> Seen {
        handle.and_then(|handle| self.answers.get(handle)).map_or(Seen::Unknown, |known| known.seen)
    }

    /// The cloud is to be asked at the next occasion.
    pub fn want(&mut self, ask: Ask) {
        self.wanted.insert(ask.handle.clone(), ask);
    }

    /// What is to be asked now, if anything is.
    pub fn begin(&mut self, now: Duration) -> Vec<Ask> {
        let early = self.begun.is_some_and(|begun| now.saturating_sub(begun) < PAUSE);
        if self.asking || early || now < self.not_before {
            return Vec::new();
        }
        let fresh =
            |handle: &Handle| self.answers.get(handle).is_some_and(|known| now.saturating_sub(known.when) < known.good);
        let due: Vec<_> = self.wanted.keys().filter(|handle| !fresh(handle)).cloned().collect();
        let (mut tokens, mut asks) = (0, Vec::new());
        for handle in due {
            tokens += usize::from(matches!(handle, Handle::Token(_)));
            if !matches!(handle, Handle::Token(_)) || tokens <= MOST_TOKENS {
                asks.extend(self.wanted.remove(&handle));
            }
        }
        self.asking = !asks.is_empty();
        if self.asking {
            self.begun = Some(now);
        }
        asks
    }

    /// The cloud has answered, as far as it did. Answers what is to be told: the first failure in a row, and the first
    /// refusal of each.
    pub fn end(&mut self, answered: &Answered, now: Duration) -> Vec<CloudError> {
        self.asking = false;
        for one in &answered.answers {
            self.learn(&one.handle, one.seen, now);
            if !answered.refused.contains_key(&one.handle) {
                self.refused.remove(&one.handle);
            }
        }
        let mut told = Vec::new();
        for (handle, error) in &answered.refused {
            // It is asked again, at its own pace: it keeps no other waiting.
            if answered.answers.iter().all(|one| one.handle != *handle) {
                self.learn(handle, self.seen(Some(handle)), now);
            }
            if self.refused.insert(handle.clone()) {
                told.push(error.clone());
            }
        }
        let Some(error) = &answered.failed else {
            self.backoff.reset();
            return told;
        };
        self.not_before = now + self.backoff.pause();
        told.extend((self.backoff.failures() == 1).then(|| error.clone()));
        told
    }

    fn learn(&mut self, handle: &Handle, seen: Seen, now: Duration) {
        let before = self.answers.get(handle).filter(|known| known.seen == seen);
        let good = before.map_or(AGAIN.0, |known| AGAIN.1.min(known.good * 2));
        self.answers.insert(handle.clone(), Known { seen, when: now, good });
    }

    /// Nobody asks for it any more.
    pub fn forget(&mut self, handle: &Handle) {
        self.wanted.remove(handle);
        self.answers.remove(handle);
        self.refused.remove(handle);
    }

    /// How many instances are known to be on their way.
    pub fn count(&self) -> usize {
        self.answers.len()
    }
}

/// What the cloud answered, as far as it did.
#[derive(Debug, Default)]
pub struct Answered {
    /// The answers; what is missing is asked again.
    pub answers: Vec<Answer>,
    /// The last call that failed.
    pub failed: Option<CloudError>,
    /// Of which the cloud says that asking again will not help, and why.
    pub refused: BTreeMap<Handle, CloudError>,
}

impl Answered {
    /// The outcome of a call; its failure keeps no other call from being made.
    fn take<T>(&mut self, outcome: Result<T, CloudError>) -> Option<T> {
        outcome.map_err(|error| self.failed = Some(error)).ok()
    }

    /// The answers for ids; `ended` when those alive were to be ended. What fails for some keeps nothing from the others.
    fn heard(&mut self, ids: &[String], found: Found, ended: bool) {
        for id in ids {
            let (handle, failed) = (Handle::Id(id.clone()), found.failed.get(id));
            let mut there = found.instances.iter().filter(|one| one.id == *id).peekable();
            if there.peek().is_some() || found.missing.contains(id) {
                self.answers.push(answer(handle.clone(), there, ended && failed.is_none()));
            }
            match failed {
                Some(error) if error.is_retryable() => self.failed = Some(error.clone()),
                Some(error) => drop(self.refused.insert(handle, error.clone())),
                None => {}
            }
        }
    }
}

/// Asks the cloud, and ends what may be ended.
pub async fn ask(links: TerminatorLinks, asks: Vec<Ask>) -> Answered {
    let confirmed = confirmed(&links, &asks).await;
    let mut answered = Answered::default();
    let (mut ending, mut asked) = (Vec::new(), Vec::new());
    for one in &asks {
        if let Handle::Id(id) = &one.handle {
            if confirmed.contains(&one.handle) { &mut ending } else { &mut asked }.push(id.clone());
        }
    }
    if !ending.is_empty() && links.calls.may_act() {
        match answered.take(links.cloud.terminate_all(&ending).await) {
            Some(before) => answered.heard(&ending, before, true),
            // That they cannot be ended is no reason not to know of them.
            None => asked.append(&mut ending),
        }
    }
    if !asked.is_empty()
        && let Some(there) = answered.take(links.cloud.instances_of(&asked).await)
    {
        answered.heard(&asked, there, false);
    }
    for one in &asks {
        if let Handle::Token(token) = &one.handle {
            let end = confirmed.contains(&one.handle) && links.calls.may_act();
            let answer = answered.take(by_token(&links, token, end).await);
            answered.answers.extend(answer);
        }
    }
    answered
}

/// Looks for the instances that carry a launch token, and ends them if that may be.
async fn by_token(links: &TerminatorLinks, token: &str, end: bool) -> Result<Answer, CloudError> {
    let there = links.cloud.instances_with_token(token).await?;
    let alive: Vec<_> = there.iter().filter(|one| !one.is_terminating()).map(|one| one.id.clone()).collect();
    if end && !alive.is_empty() {
        let before = links.cloud.terminate_all(&alive).await?;
        if let Some(error) = before.failed.into_values().next() {
            return Err(error);
        }
    }
    Ok(answer(Handle::Token(token.to_owned()), there.iter(), end))
}

fn answer<'a>(handle: Handle, found: impl Iterator<Item = &'a Instance>, end: bool) -> Answer {
    let (mut seen, mut ended) = (None, Vec::new());
    for instance in found {
        let one = match instance.state.as_str() {
            "terminated" => Seen::Terminated,
            "shutting-down" => Seen::Ending,
            _ if end => {
                ended.push(instance.id.clone());
                Seen::Ending
            }
            _ => Seen::Alive,
        };
        // Of several the one that lives longest.
        seen = Some(seen.map_or(one, |so_far: Seen| so_far.min(one)));
    }
    Answer { handle, seen: seen.unwrap_or(Seen::Missing), ended }
}

/// Those whose claim, read just now, is being deleted and still has this instance.
async fn confirmed(links: &TerminatorLinks, asks: &[Ask]) -> BTreeSet<Handle> {
    let claims = Claims::new(links.calls.clone());
    let nodes = Nodes::new(links.calls.clone());
    let reads = asks.iter().filter_map(|one| Some((one, one.end_for.clone()?))).map(|(one, claim)| {
        let (claims, nodes) = (claims.clone(), nodes.clone());
        async move {
            let there = claims.same(&claim).await.ok()?;
            let ends = is_leaving(&there) && handle(&there).as_ref() == Some(&one.handle);
            let alone = !one.without_node || has_no_node(&nodes, &there).await;
            (ends && alone).then(|| one.handle.clone())
        }
    });
    futures::stream::iter(reads).buffered(READS).filter_map(futures::future::ready).collect().await
}

/// Whether the Node that the claim registered is gone.
async fn has_no_node(nodes: &Nodes, claim: &NodeClaim) -> bool {
    let node = claim.status.as_ref().map_or("", |status| status.node_name.as_str());
    match node {
        "" => true,
        name => match nodes.get(name).await {
            Ok(node) => of_node(&node) != of_claim(claim),
            Err(error) => matches!(error, CallError::NotFound(_)),
        },
    }
}
