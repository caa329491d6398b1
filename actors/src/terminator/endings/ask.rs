//! Questions to the cloud: one call for all ids, a call for each token, and the checks before an instance is ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::v1::NodeClaim;
use dovetail_cloud::{CloudError, FoundInstances, Instance};
use dovetail_core::ownership::OwnershipMarks;
use dovetail_core::ownership::token::is_shared;
use dovetail_core::termination::InstanceObservation;
use dovetail_core::termination::instance::{Handle, handle_of};
use futures::StreamExt;

use super::super::TerminatorLinks;
use super::super::left::left_on;
use super::super::named::{have_no_node, named_by_claims, shared_instances};
use super::super::removal::is_deleting;
use super::{EndingObject, InstanceAnswer, InstanceQuery, SURE_WITHIN};
use crate::cloud::end_once::{TOGETHER, end_once};
use crate::kube::claims::NodeClaimApi;
use crate::messages::InstanceKnown;

/// Answers of the cloud, as far as there are any.
#[derive(Debug, Default)]
pub struct InstanceAnswers {
    /// The answers; what is missing is asked again.
    pub answers: Vec<InstanceAnswer>,
    /// The last call that failed.
    pub failed: Option<CloudError>,
}

/// Outcome of the calls that were to end instances, by their ids.
#[derive(Default)]
struct EndCalls {
    accepted: BTreeSet<String>,
    /// Ends that may have been accepted: the call has failed.
    unsure: BTreeSet<String>,
}

impl InstanceAnswers {
    /// The outcome of a call; its failure keeps no other call from being made.
    fn note_outcome<T>(&mut self, outcome: Result<T, CloudError>) -> Option<T> {
        outcome.map_err(|error| self.failed = Some(error)).ok()
    }

    /// Adds the answers for ids. What fails for some keeps nothing from the others.
    fn add_found(&mut self, ids: &[String], found: &FoundInstances, ends: &EndCalls) {
        for id in ids {
            let mut there = found.instances.iter().filter(|one| one.id == *id).peekable();
            let is_answered = there.peek().is_some() || found.missing.contains(id);
            let refused = found.failed.get(id).and_then(|error| self.note_error(error.clone()));
            let handle = Handle::Id(id.clone());
            let answer = match is_answered {
                true => InstanceAnswer { refused, ..answer_about(handle, there, &ends.accepted) },
                false if refused.is_some() => refused_answer(handle, refused),
                false => continue,
            };
            self.answers.push(InstanceAnswer { unsure: ends.unsure.contains(id), ..answer });
        }
    }

    /// The error of one instance if the cloud will say the same again. After any other a later call may work: it counts as a
    /// failure of the whole, and all that is left waits for the back-off.
    fn note_error(&mut self, error: CloudError) -> Option<CloudError> {
        if error.is_retryable() {
            self.failed = Some(error);
            return None;
        }
        Some(error)
    }
}

/// The answer about an instance of which the cloud says nothing.
fn refused_answer(handle: Handle, refused: Option<CloudError>) -> InstanceAnswer {
    InstanceAnswer { handle, seen: None, ended: Vec::new(), unsure: false, refused }
}

/// Asks the cloud, and ends what may be ended.
pub async fn ask_and_end(links: TerminatorLinks, asks: Vec<InstanceQuery>) -> InstanceAnswers {
    let mut answered = InstanceAnswers::default();
    let by_id = |one: &InstanceQuery| match &one.handle {
        Handle::Id(id) => Some(id.clone()),
        Handle::Token(_) => None,
    };
    let ids: Vec<String> = asks.iter().filter_map(by_id).collect();
    if !ids.is_empty()
        && let Some(mut found) = answered.note_outcome(links.cloud.instances_of(&ids).await)
    {
        let alive: BTreeMap<Handle, Instance> =
            found.instances.iter().filter(|one| is_alive(one)).map(|one| (id_of(one), one.clone())).collect();
        let due: Vec<_> = asks.iter().filter(|one| one.end.is_some() && alive.contains_key(&one.handle)).collect();
        let mut ends = EndCalls::default();
        // Each batch is ended as soon as it is confirmed: a confirmation does not hold for long.
        for some in due.chunks(TOGETHER) {
            let machine = |ask: &InstanceQuery| alive.get(&ask.handle).map(std::slice::from_ref).unwrap_or_default();
            let confirmed = confirm_ends(&links, some.iter().map(|ask| (*ask, machine(ask)))).await;
            let ending: Vec<_> = confirmed.iter().filter_map(|one| alive.get(one).cloned()).collect();
            let Some(failed) = end_once(&*links.cloud, &links.calls, &ending).await else { break };
            ends.accepted.extend(ending.into_iter().map(|one| one.id).filter(|id| !failed.contains_key(id)));
            ends.unsure.extend(failed.iter().filter(|(_, error)| error.is_retryable()).map(|(id, _)| id.clone()));
            found.failed.extend(failed);
        }
        answered.add_found(&ids, &found, &ends);
    }
    for one in &asks {
        if let Handle::Token(token) = &one.handle {
            match by_token(&links, one, token).await {
                Ok(answer) => answered.answers.push(answer),
                Err(error) => {
                    let refused = answered.note_error(error);
                    answered.answers.extend(refused.map(|error| refused_answer(one.handle.clone(), Some(error))));
                }
            }
        }
    }
    answered
}

/// Looks for the instances that carry a launch token, and ends them if that may be.
async fn by_token(links: &TerminatorLinks, ask: &InstanceQuery, token: &str) -> Result<InstanceAnswer, CloudError> {
    let mut there = links.cloud.instances_with_token(token).await?;
    if is_shared(token) {
        return Ok(answer_about(
            ask.handle.clone(),
            unassigned_instances(links, token, &there).await.into_iter(),
            &BTreeSet::new(),
        ));
    }
    if let Some(end) = &ask.end {
        let cluster = links.calls.env.cluster(&*links.cloud);
        there.retain(|one| OwnershipMarks::new(&cluster, &one.tags, &one.private_dns_name).is_of(&end.claim).is_ok());
    }
    // A token may find several: all that are the claim's end with it.
    let mut alive: Vec<_> = there.iter().filter(|one| is_alive(one)).cloned().collect();
    if alive.is_empty() || confirm_ends(links, [(ask, &*alive)]).await.is_empty() {
        alive.clear();
    }
    match end_once(&*links.cloud, &links.calls, &alive).await.map(|failed| failed.into_values().next()) {
        Some(Some(error)) => return Err(error),
        Some(None) => {}
        None => alive.clear(),
    }
    let ended = alive.iter().map(|one| one.id.clone()).collect();
    Ok(answer_about(ask.handle.clone(), there.iter(), &ended))
}

/// The living instances of a call for several claims that no claim has yet: any may come to be the one of a claim that waits. None
/// is ended here, as it may be another's; the launcher writes on the claim which is its own, and by its id it is ended.
async fn unassigned_instances<'a>(links: &TerminatorLinks, token: &str, there: &'a [Instance]) -> Vec<&'a Instance> {
    let cluster = links.calls.env.cluster(&*links.cloud);
    let is_open = |one: &&Instance| {
        is_alive(one) && OwnershipMarks::new(&cluster, &one.tags, &one.private_dns_name).is_unassigned(token)
    };
    let open: Vec<&Instance> = there.iter().filter(is_open).collect();
    let named = named_by_claims(links, open.iter().map(|one| one.id.as_str())).await;
    open.into_iter().filter(|one| !named.contains(one.id.as_str())).collect()
}

fn is_alive(instance: &Instance) -> bool {
    !instance.is_terminating()
}

fn id_of(instance: &Instance) -> Handle {
    Handle::Id(instance.id.clone())
}

/// Answer about the instances of a handle, some of which have just been ended.
fn answer_about<'a>(
    handle: Handle,
    found: impl Iterator<Item = &'a Instance>,
    ended_now: &BTreeSet<String>,
) -> InstanceAnswer {
    let (mut seen, mut ended) = (None, Vec::new());
    for instance in found {
        let one = match instance.state.as_str() {
            "terminated" => InstanceObservation::Terminated,
            "shutting-down" => InstanceObservation::Ending,
            _ if ended_now.contains(&instance.id) => {
                ended.push(instance.id.clone());
                InstanceObservation::Ending
            }
            _ => InstanceObservation::Alive,
        };
        // If there are several, the one that lives longest counts.
        seen = Some(seen.map_or(one, |so_far: InstanceObservation| so_far.min(one)));
    }
    let seen = Some(seen.unwrap_or(InstanceObservation::Missing));
    InstanceAnswer { handle, seen, ended, unsure: false, refused: None }
}

/// Returns the instances whose claim, read just now, is being deleted and still has this instance, by its tags too or because no
/// other claim names it, and which have no Node, or nobody is on it.
async fn confirm_ends<'a>(
    links: &TerminatorLinks,
    asks: impl IntoIterator<Item = (&'a InstanceQuery, &'a [Instance])>,
) -> BTreeSet<Handle> {
    let asks = asks.into_iter().filter_map(|(one, machines)| Some((&one.handle, one.end.as_ref()?, machines)));
    let asks: Vec<_> = asks.collect();
    let reads = asks
        .iter()
        .map(|(of, end, machines)| async move { may_end(links, of, end, machines).await.then_some((*of, *machines)) });
    let reads: Vec<_> = reads.collect();
    // Both kinds of reads run at once: an answer that waits for another is older when it is acted on.
    let reads = futures::stream::iter(reads).buffered(TOGETHER).filter_map(futures::future::ready).collect();
    let (confirmed, shared): (Vec<_>, _) =
        futures::join!(reads, shared_instances(links, asks.iter().flat_map(|(_, _, machines)| *machines)));
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
            Some((node, since)) => left_on(&links.calls, node, *since).await == Ok(0),
            None => have_no_node(links, claim, machines).await,
        }
    };
    let looks = async { futures::join!(claims.now(claim), undrained) };
    // No answer in time is no: the instance is asked for again, and an end cannot be taken back.
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
    // Four things at once: no Node left to drain, the claim on its way out, the same instance as judged, and its own.
    alone && there.is_ok_and(|there| is_deleting(&there) && handle_of(&there).as_ref() == Some(of) && own(&there))
}
