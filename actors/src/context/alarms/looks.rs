//! Looks of an actor that decides by all that it knows: one at a time, at the soonest time that was asked for. A change in the
//! middle of one is seen by the next.

use std::time::Duration;

use actix::prelude::*;

/// The actor's next look and the one under way.
#[derive(Default)]
pub struct Looks {
    /// Monotonic time of the next look, and what calls it off.
    next: Option<(Duration, SpawnHandle)>,
    under_way: bool,
    /// True if something has changed since the look under way began.
    changed: bool,
}

impl Looks {
    /// True while a look is under way.
    pub fn under_way(&self) -> bool {
        self.under_way
    }

    /// Marks that a look is under way; what changes from here on is for the next one.
    pub fn begin(&mut self) {
        (self.under_way, self.changed) = (true, false);
    }
}

/// An actor that looks.
pub trait Looking: Actor<Context = Context<Self>> {
    /// The actor's looks.
    fn looks(&mut self) -> &mut Looks;

    /// Monotonic time.
    fn look_clock(&self) -> Duration;

    /// Looks, if one is not under way already.
    fn begin_look(&mut self, ctx: &mut Context<Self>);

    /// Looks after that time, or sooner if that is planned already.
    fn look_in(&mut self, after: Duration, ctx: &mut Context<Self>) {
        let due = self.look_clock() + after;
        if let Some((planned, handle)) = self.looks().next {
            if planned <= due {
                return;
            }
            ctx.cancel_future(handle);
        }
        let handle = ctx.run_later(after, |actor, ctx| {
            actor.looks().next = None;
            actor.begin_look(ctx);
        });
        self.looks().next = Some((due, handle));
    }

    /// Looks after that time, as something has changed; after the look under way, if there is one.
    fn look_at_change(&mut self, after: Duration, ctx: &mut Context<Self>) {
        if self.looks().under_way {
            self.looks().changed = true;
        } else {
            self.look_in(after, ctx);
        }
    }

    /// Ends the look under way. The next comes after `again`, or after `changed` if something has changed meanwhile.
    fn end_look(&mut self, again: Duration, changed: Duration, ctx: &mut Context<Self>) {
        self.looks().under_way = false;
        self.look_in(again, ctx);
        if self.looks().changed {
            self.look_in(changed, ctx);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::task::LocalSet;

    use super::*;

    /// Looks for ten seconds each, and again after a minute, or after two seconds where something has changed.
    struct Watchman {
        looks: Looks,
        begun: tokio::time::Instant,
        looked: Vec<u64>,
    }

    impl Actor for Watchman {
        type Context = Context<Self>;
    }

    impl Looking for Watchman {
        fn looks(&mut self) -> &mut Looks {
            &mut self.looks
        }

        fn look_clock(&self) -> Duration {
            self.begun.elapsed()
        }

        fn begin_look(&mut self, ctx: &mut Context<Self>) {
            self.looks.begin();
            self.looked.push(self.begun.elapsed().as_secs());
            ctx.run_later(Duration::from_secs(10), |watchman, ctx| {
                watchman.end_look(Duration::from_secs(60), Duration::from_secs(2), ctx);
            });
        }
    }

    /// Something changes; the answer is the seconds of the looks so far.
    #[derive(Message)]
    #[rtype(result = "Vec<u64>")]
    struct Change;

    impl Handler<Change> for Watchman {
        type Result = Vec<u64>;

        fn handle(&mut self, _: Change, ctx: &mut Self::Context) -> Vec<u64> {
            self.look_at_change(Duration::from_secs(1), ctx);
            self.looked.clone()
        }
    }

    #[test]
    fn changes_in_the_middle_of_a_look_bring_one_look_after_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(LocalSet::new().run_until(async {
            let begun = tokio::time::Instant::now();
            let watchman = Watchman { looks: Looks::default(), begun, looked: Vec::new() }.start();
            for _ in 0..50 {
                watchman.send(Change).await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
            for _ in 0..50 {
                assert_eq!(watchman.send(Change).await.unwrap(), [1], "a look begins while one is under way");
            }
            tokio::time::sleep(Duration::from_secs(100)).await;
            // From 1 to 11, two seconds later as things changed, from 13 to 23, and a minute later.
            assert_eq!(watchman.send(Change).await.unwrap(), [1, 13, 83]);
        }));
    }
}
