//! Statuses that an actor writes on what it has looked at: one write of an object at a time, and none while its last failure is
//! waited out. A failed write is not repeated: the object is judged anew at the next look.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::prelude::*;

use super::{Brake, PAUSES};
use crate::context::env::Env;
use crate::context::looks::Looking;

/// Objects whose statuses are written, by a key of the actor's own.
#[derive(Default)]
pub struct StatusWrites(BTreeMap<String, StatusWrite>);

#[derive(Default)]
struct StatusWrite {
    under_way: bool,
    failed: Option<Brake>,
}

impl StatusWrites {
    /// True if the status of an object in this generation may be written now; the write then counts as under way.
    fn begin(&mut self, key: &str, generation: Option<i64>, now: Duration) -> bool {
        let known = self.0.get(key);
        if known
            .is_some_and(|one| one.under_way || one.failed.as_ref().is_some_and(|brake| brake.holds(generation, now)))
        {
            return false;
        }
        self.0.entry(key.to_owned()).or_default().under_way = true;
        true
    }

    /// A write has failed. Returns the time for which the object is left alone.
    fn note_failure(&mut self, key: &str, generation: Option<i64>, now: Duration, rng: fastrand::Rng) -> Duration {
        let one = self.0.entry(key.to_owned()).or_default();
        one.under_way = false;
        one.failed.get_or_insert_with(|| Brake::new(PAUSES.0, PAUSES.1, rng)).failed(generation, now)
    }

    /// An object has its status.
    fn note_success(&mut self, key: &str) {
        self.0.remove(key);
    }
}

/// An actor that writes statuses after its looks.
pub trait WritesStatuses: Looking {
    /// The actor's writes.
    fn status_writes(&mut self) -> &mut StatusWrites;

    /// The actor's surroundings.
    fn env(&self) -> &Env;

    /// Writes a status by `writing`, unless a write is under way or failed lately in the object's generation; `wrote` is given the
    /// object as it is then. Returns true if the write has begun. After a failure the actor looks again.
    fn write_status<T: 'static, E: 'static>(
        &mut self,
        (key, generation): (&str, Option<i64>),
        writing: impl Future<Output = Result<T, E>> + 'static,
        wrote: impl FnOnce(&mut Self, T) + 'static,
        ctx: &mut Context<Self>,
    ) -> bool {
        let now = self.env().now();
        if !self.status_writes().begin(key, generation, now) {
            return false;
        }
        let key = key.to_owned();
        ctx.spawn(writing.into_actor(self).map(move |written, actor, ctx| match written {
            Ok(object) => {
                actor.status_writes().note_success(&key);
                wrote(actor, object);
            }
            // Somebody else has written meanwhile, or it is refused.
            Err(_) => {
                let (now, rng) = (actor.env().now(), actor.env().rng(&key));
                let pause = actor.status_writes().note_failure(&key, generation, now, rng);
                actor.look_in(pause, ctx);
            }
        }));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn status_is_written_once_at_a_time_and_after_its_pause() {
        let mut writes = StatusWrites::default();
        assert!(writes.begin("a", Some(1), at(0)));
        assert!(!writes.begin("a", Some(2), at(0)) && writes.begin("b", Some(1), at(0)));
        let pause = writes.note_failure("a", Some(1), at(1), fastrand::Rng::with_seed(1));
        assert!(!writes.begin("a", Some(1), at(1)), "it is left alone");
        assert!(writes.begin("a", Some(2), at(1)), "its user has changed it");
        writes.note_failure("a", Some(1), at(2), fastrand::Rng::with_seed(1));
        assert!(writes.begin("a", Some(1), at(2) + pause * 4));
        writes.note_success("a");
        writes.note_success("b");
        assert!(writes.0.is_empty(), "nothing is kept of what was written");
    }
}
