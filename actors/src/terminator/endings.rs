//! What the cloud is asked of instances on their way out: all of them together, at most once a second, and each again after
//! one second, two, four, then five (aws spec 4.5, 4.10). An instance is ended only for a claim just re-read as being deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::NodeClaim;
use dovetail_cloud::{CloudError, FoundInstances, Instance};
use dovetail_core::ownership::OwnershipMarks;
use dovetail_core::termination::InstanceObservation;
use dovetail_core::termination::instance::{Handle, handle};
use futures::StreamExt;
use jiff::Timestamp;

use super::TerminatorLinks;
use super::known::is_leaving;
use super::left::left_on;
use super::named::{have_no_node, shared};
use crate::cloud::end_once::{TOGETHER, end_once};
use crate::context::backoff::Backoff;
use crate::kube::claims::NodeClaimApi;
use crate::messages::InstanceKnown;

/// How long the first answer of its kind is good for, each further one twice as long, and the longest of all.
const AGAIN: (Duration, Duration) = (Duration::from_millis(900), Duration::from_secs(5));
/// Pause between two calls; a tick of a second that comes a little early counts.
const PAUSE: Duration = Duration::from_millis(900);
/// Longest that it may take to make sure: others wait with what they know by then.
pub const SURE_WITHIN: Duration = Duration::from_secs(5);
/// Launch tokens looked for in one go: each is a call of its own.
const MOST_TOKENS: usize = 20;

/// An instance that the cloud is to be asked of.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceQuery {
    /// Which.
    pub handle: Handle,
    /// What it is to end for; none when only its state is asked.
    pub end: Option<EndingObject>,
}

/// What an instance ends for.
#[derive(Clone, Debug, PartialEq)]
pub struct EndingObject {
    /// The claim that is being deleted.
    claim: NodeClaim,
    /// Its drained Node; none where it is thought to be gone. Either is made sure of, or pods would lose an undrained node.
    node: Option<String>,
}

impl EndingObject {
    /// For a claim whose Node is drained.
    pub fn drained(claim: &NodeClaim, node: &str) -> Self {
        Self { claim: claim.clone(), node: Some(node.to_owned()) }
    }

    /// For a claim whose Node is thought to be gone, or never came.
    pub fn without_node(claim: &NodeClaim) -> Self {
        Self { claim: claim.clone(), node: None }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceAnswer {
    /// Of which.
    pub handle: Handle,
    /// What is known now.
    pub seen: InstanceObservation,
    /// Instances whose end has just been accepted.
    pub ended: Vec<String>,
}

/// What was answered last, when that was asked, and for how long it is good.
#[derive(Clone, Copy, Debug)]
struct Known {
    seen: InstanceObservation,
    when: Duration,
    good: Duration,
    /// When it was asked, by the wall clock.
    asked: Timestamp,
}

/// Instances that are to end or have been asked to, and when each is looked at again.
pub struct Endings {
    wanted: BTreeMap<Handle, InstanceQuery>,
    answers: BTreeMap<Handle, Known>,
    /// Of which it has been told that they are refused.
    refused: BTreeSet<Handle>,
    /// Instances whose end was asked for and may have been accepted.
    unsure: BTreeSet<String>,
    asking: bool,
    begun: Option<Duration>,
    /// The same by the wall clock.
    asked: Timestamp,
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
            unsure: BTreeSet::new(),
            asking: false,
            begun: None,
            asked: Timestamp::default(),
            backoff,
            not_before: Duration::ZERO,
        }
    }

    /// What was last answered, and when that was asked.
    pub fn seen(&self, handle: Option<&Handle>) -> (InstanceObservation, Timestamp) {
        let known = handle.and_then(|handle| self.answers.get(handle));
        known.map_or((InstanceObservation::Unknown, Timestamp::default()), |known| (known.seen, known.asked))
    }

    /// The cloud is to be asked at the next occasion.
    pub fn want(&mut self, ask: InstanceQuery) {
        self.wanted.insert(ask.handle.clone(), ask);
    }

    /// What is to be asked now, if anything is.
    pub fn begin(&mut self, now: Duration, wall: Timestamp) -> Vec<InstanceQuery> {
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
            (self.begun, self.asked) = (Some(now), wall);
        }
        asks
    }

    /// The cloud has answered, as far as it did. Answers what is to be told: the first failure in a row, and the first
    /// refusal of each. What is seen to end of which nobody knew whether it would has been ended by us.
    pub fn end(&mut self, answered: &mut InstanceAnswers, now: Duration) -> Vec<CloudError> {
        self.asking = false;
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
            self.learn(&one.handle, (one.seen, self.asked), now);
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

    fn learn(&mut self, handle: &Handle, (seen, asked): (InstanceObservation, Timestamp), now: Duration) {
        let before = self.answers.get(handle).filter(|known| known.seen == seen);
        let good = before.map_or(AGAIN.0, |known| AGAIN.1.min(known.good * 2));
        // From when it was asked: from the answer on, the tick of a second later would be a moment too early.
        let when = self.begun.unwrap_or(now);
        self.answers.insert(handle.clone(), Known { seen, when, good, asked });
    }

    /// Nobody asks for it any more.
    pub fn forget(&mut self, handle: &Handle) {
        self.wanted.remove(handle);
        self.answers.remove(handle);
        self.refused.remove(handle);
        if let Handle::Id(id) = handle {
            self.unsure.remove(id);
        }
    }

    /// How many instances are known to be on their way.
    pub fn count(&self) -> usize {
        self.answers.len()
    }
}

/// What the cloud answered, as far as it did.
#[derive(Debug, Default)]
pub struct InstanceAnswers {
    /// The answers; what is missing is asked again.
    pub answers: Vec<InstanceAnswer>,
    /// The last call that failed.
    pub failed: Option<CloudError>,
    /// Of which the cloud says that asking again will not help, and why.
    pub refused: BTreeMap<Handle, CloudError>,
    /// Instances whose end may have been accepted.
    pub unsure: BTreeSet<String>,
}

impl InstanceAnswers {
    /// The outcome of a call; its failure keeps no other call from being made.
    fn record<T>(&mut self, outcome: Result<T, CloudError>) -> Option<T> {
        outcome.map_err(|error| self.failed = Some(error)).ok()
    }

    /// The answers for ids; `ended` when those alive were to be ended. What fails for some keeps nothing from the others.
    fn heard(&mut self, ids: &[String], found: &FoundInstances, ended: &BTreeSet<&str>) {
        for id in ids {
            let (handle, failed) = (Handle::Id(id.clone()), found.failed.get(id));
            let mut there = found.instances.iter().filter(|one| one.id == *id).peekable();
            if there.peek().is_some() || found.missing.contains(id) {
                self.answers.push(answer(handle.clone(), there, ended));
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
pub async fn ask(links: TerminatorLinks, asks: Vec<InstanceQuery>) -> InstanceAnswers {
    let mut answered = InstanceAnswers::default();
    let by_id = |one: &InstanceQuery| match &one.handle {
        Handle::Id(id) => Some(id.clone()),
        Handle::Token(_) => None,
    };
    let ids: Vec<String> = asks.iter().filter_map(by_id).collect();
    if !ids.is_empty()
        && let Some(mut found) = answered.record(links.cloud.instances_of(&ids).await)
    {
        let alive: BTreeMap<Handle, Instance> =
            found.instances.iter().filter(|one| is_alive(one)).map(|one| (id_of(one), one.clone())).collect();
        let due: Vec<_> = asks.iter().filter(|one| one.end.is_some() && alive.contains_key(&one.handle)).collect();
        let mut ended = BTreeSet::new();
        // What was made sure of is acted on before more is: it does not stand for long.
        for some in due.chunks(TOGETHER) {
            let machine = |ask: &InstanceQuery| alive.get(&ask.handle).map(std::slice::from_ref).unwrap_or_default();
            let confirmed = confirmed(&links, some.iter().map(|ask| (*ask, machine(ask)))).await;
            let ending: Vec<_> = confirmed.iter().filter_map(|one| alive.get(one).cloned()).collect();
            let Some(failed) = end_once(&*links.cloud, &links.calls, &ending).await else { break };
            ended.extend(ending.into_iter().map(|one| one.id).filter(|id| !failed.contains_key(id)));
            answered.unsure.extend(failed.iter().filter(|(_, error)| error.is_retryable()).map(|(id, _)| id.clone()));
            found.failed.extend(failed);
        }
        answered.heard(&ids, &found, &ended.iter().map(String::as_str).collect());
    }
    for one in &asks {
        if let Handle::Token(token) = &one.handle {
            let answer = answered.record(by_token(&links, one, token).await);
            answered.answers.extend(answer);
        }
    }
    answered
}

/// Looks for the instances that carry a launch token, and ends them if that may be.
async fn by_token(links: &TerminatorLinks, ask: &InstanceQuery, token: &str) -> Result<InstanceAnswer, CloudError> {
    let mut there = links.cloud.instances_with_token(token).await?;
    if let Some(end) = &ask.end {
        let cluster = links.calls.env.cluster(&*links.cloud);
        there.retain(|one| OwnershipMarks::new(&cluster, &one.tags, &one.private_dns_name).is_of(&end.claim).is_ok());
    }
    let mut alive: Vec<_> = there.iter().filter(|one| is_alive(one)).cloned().collect();
    if alive.is_empty() || confirmed(links, [(ask, &*alive)]).await.is_empty() {
        alive.clear();
    }
    match end_once(&*links.cloud, &links.calls, &alive).await.map(|failed| failed.into_values().next()) {
        Some(Some(error)) => return Err(error),
        Some(None) => {}
        None => alive.clear(),
    }
    let ended = alive.iter().map(|one| one.id.as_str()).collect();
    Ok(answer(ask.handle.clone(), there.iter(), &ended))
}

fn is_alive(instance: &Instance) -> bool {
    !instance.is_terminating()
}

fn id_of(instance: &Instance) -> Handle {
    Handle::Id(instance.id.clone())
}

/// What is seen of the instances of a handle, of which these have just been ended.
fn answer<'a>(handle: Handle, found: impl Iterator<Item = &'a Instance>, ended_now: &BTreeSet<&str>) -> InstanceAnswer {
    let (mut seen, mut ended) = (None, Vec::new());
    for instance in found {
        let one = match instance.state.as_str() {
            "terminated" => InstanceObservation::Terminated,
            "shutting-down" => InstanceObservation::Ending,
            _ if ended_now.contains(instance.id.as_str()) => {
                ended.push(instance.id.clone());
                InstanceObservation::Ending
            }
            _ => InstanceObservation::Alive,
        };
        // Of several the one that lives longest.
        seen = Some(seen.map_or(one, |so_far: InstanceObservation| so_far.min(one)));
    }
    InstanceAnswer { handle, seen: seen.unwrap_or(InstanceObservation::Missing), ended }
}

/// Those whose claim, read just now, is being deleted and still has this instance, by its tags too or because no other claim
/// names it, and which have no Node, or nobody is on it.
async fn confirmed<'a>(
    links: &TerminatorLinks,
    asks: impl IntoIterator<Item = (&'a InstanceQuery, &'a [Instance])>,
) -> BTreeSet<Handle> {
    let asks = asks.into_iter().filter_map(|(one, machines)| Some((&one.handle, one.end.as_ref()?, machines)));
    let asks: Vec<_> = asks.collect();
    let reads = asks
        .iter()
        .map(|(of, end, machines)| async move { may_end(links, of, end, machines).await.then_some((*of, *machines)) });
    let reads: Vec<_> = reads.collect();
    let reads = futures::stream::iter(reads).buffered(TOGETHER).filter_map(futures::future::ready).collect();
    let (confirmed, shared): (Vec<_>, _) =
        futures::join!(reads, shared(links, asks.iter().flat_map(|(_, _, machines)| *machines)));
    let alone = |machines: &[Instance]| machines.iter().all(|one| !shared.contains(one.id.as_str()));
    confirmed.into_iter().filter(|(_, machines)| alone(machines)).map(|(of, _)| of.clone()).collect()
}

/// Everything is asked once and at the same time: between two answers, or while one is waited for, an API server may have been
/// put back to where nothing was being deleted.
async fn may_end(links: &TerminatorLinks, of: &Handle, end: &EndingObject, machines: &[Instance]) -> bool {
    let EndingObject { claim, node } = end;
    let claims = NodeClaimApi::new(links.calls.clone());
    let undrained = async {
        match node {
            Some(node) => left_on(&links.calls, node).await == Ok(0),
            None => have_no_node(links, claim, machines).await,
        }
    };
    let looks = async { futures::join!(claims.now(claim), undrained) };
    let Ok((there, alone)) = tokio::time::timeout(SURE_WITHIN, looks).await else { return false };
    let cluster = links.calls.env.cluster(&*links.cloud);
    let own = |there: &NodeClaim| {
        machines.iter().all(|one| {
            let marks = OwnershipMarks::new(&cluster, &one.tags, &one.private_dns_name);
            let is_own = marks.is_of(there).is_ok();
            if !is_own {
                // Its tags have changed since somebody looked.
                let (id, marks) = (one.id.clone(), Some(Arc::new(marks)));
                links.calls.env.post(&links.owner, InstanceKnown { id, marks });
            }
            is_own
        })
    };
    alone && there.is_ok_and(|there| is_leaving(&there) && handle(&there).as_ref() == Some(of) && own(&there))
}
