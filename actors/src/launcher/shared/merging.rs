//! Launches that ask EC2 for the same at the same time become one call (`dovetail_core::lifecycle::shared_call`, docs/decisions/059).
//!
//! ```text
//! started ─ on the way ─► join ─► gathering of equal launches ─► closed: token and places ─► written on each claim ─► call
//!                                  first of them waits                                        last to come makes it
//! ```
//!
//! A launch that comes while no other of its pool and class is on the way waits for nothing. The first of a gathering waits for the
//! others, and says to them what the call is; whichever claim is the last to have the token written makes the call, and its answer
//! is for all of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use dovetail_cloud::FleetKey;
use dovetail_core::launch_limits::PoolAndClass;
use dovetail_core::lifecycle::shared_call::JoinWindow;
use dovetail_core::ownership::token::{LaunchPart, share};
use tokio::sync::Notify;

use super::{Membership, SharedLaunch};
use crate::context::env::Env;

/// Most instances of one call: EC2's bucket of instances has room for two of them.
const MOST: usize = 450;

/// All launches of a launcher that may merge.
#[derive(Default)]
pub struct Merging(Mutex<State>);

#[derive(Default)]
struct State {
    /// Those that others may still join.
    open: Vec<Arc<Gathering>>,
    /// Calls for several claims that some launch is still about, by token.
    calls: BTreeMap<String, Weak<SharedLaunch>>,
    /// Launches that have begun and have not come to a call yet.
    on_the_way: BTreeMap<PoolAndClass, usize>,
}

/// Launches that wait for others to join them.
struct Gathering {
    origin: PoolAndClass,
    key: FleetKey,
    joined: Mutex<Joined>,
    /// For the first: another has joined, or none is on the way any more.
    changed: Notify,
    /// For the others: the call is known.
    closed: Notify,
}

struct Joined {
    uids: Vec<String>,
    /// Highest number of an attempt: no claim has had the token before.
    attempt: u32,
    window: JoinWindow,
    call: Option<(Vec<LaunchPart>, Arc<SharedLaunch>)>,
}

/// A launch that has begun and may come to a call.
pub struct OnTheWay {
    merging: Arc<Merging>,
    origin: PoolAndClass,
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        let mut state = self.merging.state();
        let left = state.on_the_way.get_mut(&self.origin).map(|count| {
            *count = count.saturating_sub(1);
            *count
        });
        if left == Some(0) {
            state.on_the_way.remove(&self.origin);
            state.open.iter().filter(|one| one.origin == self.origin).for_each(|one| one.changed.notify_one());
        }
    }
}

/// A launch that is to be in a call.
pub struct Joining {
    pub uid: String,
    pub attempt: u32,
    pub origin: PoolAndClass,
    /// `None` for one that is launched alone.
    pub key: Option<FleetKey>,
    pub way: Option<OnTheWay>,
}

impl Merging {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A launch begins.
    pub fn begin(self: &Arc<Self>, origin: PoolAndClass) -> OnTheWay {
        *self.state().on_the_way.entry(origin.clone()).or_default() += 1;
        OnTheWay { merging: self.clone(), origin }
    }

    /// Finds the call that a launch is in.
    pub async fn join(&self, env: &Env, joining: Joining) -> Membership {
        let Joining { uid, attempt, origin, key, way } = joining;
        let Some(key) = key else {
            let part = LaunchPart::alone(&uid, attempt);
            return Membership::new(SharedLaunch::made_here(&part.token, 1), part);
        };
        let (gathering, number) = self.enter(env, origin, key, (uid, attempt));
        // Only now: the first of a gathering waits for those that are on the way.
        drop(way);
        if number == 0 {
            self.gather(env, &gathering).await;
        }
        loop {
            let closed = gathering.closed.notified();
            tokio::pin!(closed);
            closed.as_mut().enable();
            let known = gathering
                .joined()
                .call
                .as_ref()
                .and_then(|(parts, call)| Some(Membership::new(call.clone(), parts.get(number)?.clone())));
            if let Some(membership) = known {
                return membership;
            }
            closed.await;
        }
    }

    /// Joins an open gathering of equal launches, or opens one. Answers its number there.
    fn enter(
        &self,
        env: &Env,
        origin: PoolAndClass,
        key: FleetKey,
        (uid, attempt): (String, u32),
    ) -> (Arc<Gathering>, usize) {
        let (mut state, now) = (self.state(), env.now());
        let same = |one: &&Arc<Gathering>| one.origin == origin && one.key.is_same(&key);
        if let Some(there) = state.open.iter().find(same).cloned() {
            let number = {
                let mut joined = there.joined();
                joined.uids.push(uid);
                joined.attempt = joined.attempt.max(attempt);
                joined.window.joins(now);
                joined.uids.len() - 1
            };
            if number + 1 == MOST {
                state.open.retain(|one| !Arc::ptr_eq(one, &there));
            }
            there.changed.notify_one();
            return (there, number);
        }
        let joined = Joined { uids: vec![uid], attempt, window: JoinWindow::opened(now), call: None };
        let (changed, closed) = (Notify::new(), Notify::new());
        let gathering = Arc::new(Gathering { origin, key, joined: Mutex::new(joined), changed, closed });
        state.open.push(gathering.clone());
        (gathering, 0)
    }

    /// Waits until nobody else is to be expected, and closes the gathering.
    async fn gather(&self, env: &Env, gathering: &Arc<Gathering>) {
        loop {
            let now = env.now();
            let closes = {
                let state = self.state();
                let is_open = state.open.iter().any(|one| Arc::ptr_eq(one, gathering));
                let others_come = is_open && state.on_the_way.contains_key(&gathering.origin);
                gathering.joined().window.closes_at(others_come, now)
            };
            if closes <= now {
                break;
            }
            tokio::select! {
                biased;
                () = gathering.changed.notified() => {}
                () = tokio::time::sleep(closes - now) => {}
            }
        }
        let mut state = self.state();
        state.open.retain(|one| !Arc::ptr_eq(one, gathering));
        let mut joined = gathering.joined();
        let parts = share(joined.uids.iter().map(String::as_str), joined.attempt);
        let token = parts.first().map(|part| part.token.clone()).unwrap_or_default();
        let call = SharedLaunch::made_here(&token, parts.len());
        state.calls.retain(|_, call| call.strong_count() > 0);
        state.calls.insert(token, Arc::downgrade(&call));
        joined.call = Some((parts, call));
        gathering.closed.notify_waiters();
    }

    /// The call that a claim says that it is in, made by an earlier leader or in an earlier launch of the claim.
    pub fn adopt(&self, part: &LaunchPart) -> Membership {
        let mut state = self.state();
        state.calls.retain(|_, call| call.strong_count() > 0);
        let call = state.calls.get(&part.token).and_then(Weak::upgrade).unwrap_or_else(|| {
            let call = SharedLaunch::of_another(&part.token);
            state.calls.insert(part.token.clone(), Arc::downgrade(&call));
            call
        });
        call.waits(part);
        Membership::new(call, part.clone())
    }
}

impl Gathering {
    fn joined(&self) -> MutexGuard<'_, Joined> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
