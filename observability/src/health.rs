//! Liveness and readiness of a replica. Whoever drives the actors reports them again and again; when it falls silent, the replica
//! no longer lives, whatever thread looks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Monotonic time, from wherever it comes.
pub type Now = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The health of a replica. Clones share it.
#[derive(Clone)]
pub struct Health {
    now: Now,
    patience: Duration,
    state: Arc<Mutex<State>>,
}

struct State {
    /// Time at which the actors were last seen to move.
    moved: Duration,
    /// Actors that did not answer when last asked.
    silent: Vec<String>,
    /// Reason why it is not ready; empty when it is.
    not_ready: String,
}

impl Health {
    /// Alive now, not ready; dead when nothing has moved for longer than `patience`.
    pub fn new(now: Now, patience: Duration) -> Self {
        let state = State { moved: now(), silent: Vec::new(), not_ready: "it is starting".into() };
        Self { now, patience, state: Arc::new(Mutex::new(state)) }
    }

    /// Everything moves; and why it is not ready, or an empty text.
    pub fn moves(&self, not_ready: impl Into<String>) {
        let now = (self.now)();
        let mut state = self.lock();
        state.moved = now;
        state.silent.clear();
        state.not_ready = not_ready.into();
    }

    /// Some did not answer: if that stays so, the replica is dead.
    pub fn silent(&self, who: Vec<String>) {
        self.lock().silent = who;
    }

    /// Succeeds if the replica lives.
    ///
    /// # Errors
    /// The reason why it does not.
    pub fn live(&self) -> Result<(), String> {
        let now = (self.now)();
        let state = self.lock();
        let still = now.saturating_sub(state.moved);
        if still <= self.patience {
            return Ok(());
        }
        let who = if state.silent.is_empty() { "the actors".to_owned() } else { state.silent.join(", ") };
        Err(format!("no answer from {who} for {} s", still.as_secs()))
    }

    /// Succeeds if the replica is ready.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn ready(&self) -> Result<(), String> {
        self.live()?;
        let state = self.lock();
        if state.not_ready.is_empty() { Ok(()) } else { Err(state.not_ready.clone()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn health() -> (Arc<AtomicU64>, Health) {
        let seconds = Arc::new(AtomicU64::new(100));
        let shown = seconds.clone();
        let now: Now = Arc::new(move || Duration::from_secs(shown.load(Ordering::Relaxed)));
        (seconds, Health::new(now, Duration::from_secs(30)))
    }

    #[test]
    fn a_replica_is_alive_before_it_is_ready() {
        let (_, health) = health();
        assert_eq!((health.live(), health.ready()), (Ok(()), Err("it is starting".into())));
        health.moves("");
        assert_eq!(health.ready(), Ok(()));
    }

    #[test]
    fn health_fails_when_nothing_moves_too_long_and_names_the_actor() {
        let (seconds, health) = health();
        health.moves("");
        seconds.store(130, Ordering::Relaxed);
        assert_eq!(health.live(), Ok(()));
        health.silent(vec!["launcher".into()]);
        seconds.store(131, Ordering::Relaxed);
        assert_eq!(health.live(), Err("no answer from launcher for 31 s".into()));
        assert!(health.ready().is_err());
        health.moves("");
        assert_eq!((health.live(), health.ready()), (Ok(()), Ok(())));
    }
}
