//! One call for several claims, as their launches see it: the last that comes makes it, and each has its share of what came of it.

pub mod merging;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dovetail_api::names::instance_id;
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::{Instance, LaunchError, LaunchRoom, LaunchedFleet};
use dovetail_core::lifecycle::protocol::ApiFailure;
use dovetail_core::lifecycle::shared_call::{CallStep, SharedCall};
use dovetail_core::ownership::token::LaunchPart;
use dovetail_core::ownership::{OwnershipMarks, token_on};
use futures::{StreamExt, stream};
use kube::ResourceExt;
use tokio::sync::Notify;

use crate::kube::calls::CallError;
use crate::launcher::launch::Launching;
use crate::messages::TakeSnapshot;

/// Time for which claims whose token is written wait for the next of their call.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Claims on which a term is written at once.
const AT_ONCE: usize = 20;

/// The answer to a call.
#[derive(Clone)]
pub enum CallAnswer {
    Launched(Arc<LaunchedFleet>),
    Failed(Arc<LaunchError>),
    TimedOut,
    /// It was not made: the cloud has room for so many instances after that time only, and that room is reserved.
    TooEarly(Duration),
    /// The term ended first.
    Deposed,
}

/// The answer to a call, as one of its claims hears it.
#[derive(Clone)]
pub struct Heard {
    pub answer: CallAnswer,
    /// Number of claims that it was made for.
    pub count: u32,
    /// True for the claim whose launch has made the call.
    pub is_maker: bool,
}

/// A call for several claims; or for one.
pub struct SharedLaunch {
    token: String,
    state: Mutex<State>,
    changed: Notify,
    looked: tokio::sync::Mutex<Option<Look>>,
    /// Its instances as EC2 described them last, for their names.
    described: tokio::sync::Mutex<Option<Look>>,
    /// True if no write of an earlier leader can give an instance of it to a claim any more.
    is_ours: AtomicBool,
}

struct State {
    call: SharedCall,
    sending: bool,
    answers: u32,
    answer: Option<Heard>,
    /// Room for it in the cloud's pace, and the time from which it is there. Monotonic.
    room: Option<(Duration, LaunchRoom)>,
}

/// The answer to a look for its instances, and the time of the question.
struct Look {
    asked: Duration,
    found: Option<Vec<Instance>>,
}

impl SharedLaunch {
    /// A call that is to be made for so many.
    pub fn made_here(token: &str, count: usize) -> Arc<Self> {
        Self::with(token, SharedCall::new(0..u32::try_from(count).unwrap_or(u32::MAX)), true)
    }

    /// A call that somebody has made.
    pub fn of_another(token: &str) -> Arc<Self> {
        Self::with(token, SharedCall::default(), false)
    }

    fn with(token: &str, call: SharedCall, is_ours: bool) -> Arc<Self> {
        Arc::new(Self {
            token: token.to_owned(),
            state: Mutex::new(State { call, sending: false, answers: 0, answer: None, room: None }),
            changed: Notify::new(),
            looked: tokio::sync::Mutex::new(None),
            described: tokio::sync::Mutex::new(None),
            is_ours: AtomicBool::new(is_ours),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim waits for an instance of it.
    pub fn waits(&self, part: &LaunchPart) {
        self.state().call.waits(number_of(part));
    }

    /// Writes the term on each claim that waits for an instance of the call: what an earlier leader still sends is refused then.
    /// Answers false where that is not known of one.
    async fn take_over(&self, launching: &Launching, claims: Vec<Arc<NodeClaim>>) -> Result<bool, ApiFailure> {
        let touches =
            claims.into_iter().map(|claim| async move { launching.write_term(NodeClaim::clone(&claim)).await });
        let mut touches = stream::iter(touches).buffered(AT_ONCE);
        while let Some(touched) = touches.next().await {
            match touched {
                Ok(claim) => self.state().call.takes(instance_of(&claim).map(str::to_owned)),
                // No other write to it is accepted either.
                Err(CallError::Refused(_) | CallError::Forbidden(_)) => {}
                Err(error) => match ApiFailure::from(error) {
                    ApiFailure::Gone => {}
                    ApiFailure::Deposed => return Err(ApiFailure::Deposed),
                    ApiFailure::Refused => return Ok(false),
                },
            }
        }
        Ok(true)
    }

    /// Looks for the call's instances, and gives them to claims that wait.
    async fn find_and_give(&self, launching: &Launching) -> Result<Option<Vec<Instance>>, ApiFailure> {
        let snapshot = || async { launching.links.cluster.send(TakeSnapshot).await.map_err(|_| ApiFailure::Deposed) };
        if !self.is_ours.load(Ordering::Relaxed) {
            let Some(known) = snapshot().await? else { return Ok(None) };
            let claims = known.claims.values().map(|entry| &entry.claim).filter(|claim| {
                instance_of(claim).is_none() && token_on(claim).as_deref() == Some(self.token.as_str())
            });
            if !self.take_over(launching, claims.cloned().collect()).await? {
                return Ok(None);
            }
            self.is_ours.store(true, Ordering::Relaxed);
        }
        let Ok(found) = launching.links.cloud.instances_with_token(&self.token).await else { return Ok(None) };
        // After EC2 has answered: what a claim has by then is given to no other.
        let Some(known) = snapshot().await? else { return Ok(None) };
        let named = known.claims.values().filter_map(|entry| instance_id(entry.provider_id()));
        let named: BTreeSet<String> = named.map(str::to_owned).collect();
        let cluster = launching.env.cluster(&*launching.links.cloud);
        let living: Vec<Instance> = found.into_iter().filter(|one| !one.is_terminating()).collect();
        let is_free = |one: &&Instance| {
            OwnershipMarks::new(&cluster, &one.tags, &one.private_dns_name).is_unassigned(&self.token)
        };
        let free: Vec<String> = living.iter().filter(is_free).map(|one| one.id.clone()).collect();
        let mut state = self.state();
        state.call.takes(named);
        state.call.give(&free);
        Ok(Some(living))
    }
}

/// A claim's place in a call; it leaves with it.
pub struct Membership {
    pub part: LaunchPart,
    shared: Arc<SharedLaunch>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.shared.state().call.leaves(self.number());
        self.shared.changed.notify_waiters();
    }
}

impl Membership {
    pub fn new(shared: Arc<SharedLaunch>, part: LaunchPart) -> Self {
        Self { part, shared }
    }

    fn number(&self) -> u32 {
        number_of(&self.part)
    }

    /// The claim goes: it is in no call that is to come, and waits for an instance of those that were made.
    pub fn waits(&self) {
        self.shared.waits(&self.part);
        self.shared.changed.notify_waiters();
    }

    /// Makes the call as soon as all are there, or hears what came of it where another makes it. `None` where it is not made (again)
    /// for this claim, as others that it was for are out of it.
    pub async fn call<F: Future<Output = CallAnswer>>(&self, send: impl FnOnce(u32) -> F) -> Option<Heard> {
        let heard = {
            let mut state = self.shared.state();
            if !state.call.arrives(self.number()) {
                return None;
            }
            state.answers
        };
        self.shared.changed.notify_waiters();
        let timeout = tokio::time::sleep(JOIN_TIMEOUT);
        tokio::pin!(timeout);
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let step = {
                let mut state = self.shared.state();
                if state.answers != heard {
                    return state.answer.clone();
                }
                let step = if state.sending { CallStep::Wait } else { state.call.next() };
                if let CallStep::Send(_) = step {
                    state.sending = true;
                    state.call.sends();
                }
                step
            };
            match step {
                CallStep::Send(count) => {
                    let answer = send(count).await;
                    self.shared.answered(Heard { answer: answer.clone(), count, is_maker: false });
                    return Some(Heard { answer, count, is_maker: true });
                }
                CallStep::Regroup => return None,
                CallStep::Wait => tokio::select! {
                    biased;
                    // As long as others come they are waited for: an API server may be slow.
                    () = changed => timeout.set(tokio::time::sleep(JOIN_TIMEOUT)),
                    () = &mut timeout, if !timeout.is_elapsed() => self.shared.goes_on(),
                },
            }
        }
    }

    /// Reserves room for the call's instances in the cloud's pace, once; answers the time until it is there.
    pub fn wait_for_room(&self, launching: &Launching, count: u32) -> Duration {
        let now = launching.env.now();
        let reserve = || {
            let room = launching.links.cloud.reserve_launch(&self.shared.token, count);
            (now.saturating_add(room.wait), room)
        };
        self.shared.state().room.get_or_insert_with(reserve).0.saturating_sub(now)
    }

    /// The id of the instance that the claim was given.
    pub fn given(&self) -> Option<String> {
        self.shared.state().call.given(self.number()).map(str::to_owned)
    }

    /// Looks for the claim's instance: one look for all that ask at the same time. `None` where nobody answered.
    pub async fn find_instances(
        &self,
        launching: &Launching,
        claim: &NodeClaim,
    ) -> Result<(Duration, Option<Vec<Instance>>), ApiFailure> {
        let wanted = launching.env.now();
        let mut looked = self.shared.looked.lock().await;
        if looked.as_ref().is_none_or(|look| look.asked < wanted) {
            let asked = launching.env.now();
            *looked = Some(Look { asked, found: self.shared.find_and_give(launching).await? });
        }
        let Some(Look { asked, found }) = &*looked else { return Ok((wanted, None)) };
        let Some(found) = found else { return Ok((*asked, None)) };
        let (given, name) = (self.given(), claim.name_any());
        let cluster = launching.env.cluster(&*launching.links.cloud);
        let is_own = |one: &&Instance| {
            let marks = OwnershipMarks::new(&cluster, &one.tags, &one.private_dns_name);
            Some(&one.id) == given.as_ref() || marks.is_tagged_with(&name)
        };
        Ok((*asked, Some(found.iter().filter(is_own).cloned().collect())))
    }
}

impl Membership {
    /// The name that an instance's node will have; empty while EC2 does not say. One question is for all that ask at the time.
    pub async fn hostname(&self, launching: &Launching, id: &str) -> String {
        let name = |look: &Look| {
            let found = look.found.iter().flatten().find(|one| one.id == id);
            found.map(|one| one.private_dns_name.clone()).filter(|name| !name.is_empty())
        };
        let wanted = launching.env.now();
        let mut described = self.shared.described.lock().await;
        if let Some(known) = described.as_ref().and_then(name) {
            return known;
        }
        if described.as_ref().is_none_or(|look| look.asked < wanted) {
            let asked = launching.env.now();
            let found = launching.links.cloud.instances_with_token(&self.part.token).await.ok();
            *described = Some(Look { asked, found });
        }
        described.as_ref().and_then(name).unwrap_or_default()
    }
}

impl SharedLaunch {
    fn answered(&self, heard: Heard) {
        let mut state = self.state();
        // Unused room goes back: another attempt comes after those that have reserved theirs meanwhile.
        state.room = state.room.take().filter(|_| matches!(heard.answer, CallAnswer::TooEarly(_)));
        let launched = match &heard.answer {
            CallAnswer::Launched(fleet) => fleet.instances.iter().map(|one| one.id.clone()).collect(),
            _ => Vec::new(),
        };
        state.call.answered(&launched);
        (state.sending, state.answer) = (false, Some(heard));
        state.answers = state.answers.wrapping_add(1);
        self.changed.notify_waiters();
    }

    fn goes_on(&self) {
        let mut state = self.state();
        if !state.sending {
            state.call.goes_on();
        }
        self.changed.notify_waiters();
    }
}

/// The number of a claim in its call; one that is alone in it is the first.
fn number_of(part: &LaunchPart) -> u32 {
    part.place.as_ref().map_or(0, |place| place.number)
}

fn instance_of(claim: &NodeClaim) -> Option<&str> {
    instance_id(&claim.status.as_ref()?.provider_id)
}
