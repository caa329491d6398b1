//! Looks that are planned for later, one for each object: however often one is asked for meanwhile, it rings once. An alarm that
//! is added for every failure, each of which ends in the next failure, would multiply without bound.

pub(crate) mod looks;

use std::collections::BTreeMap;
use std::time::Duration;

use actix::prelude::*;

/// Alarms by a key of the actor's own, such as `pool/NAME`: when each rings, monotonic, and how it is called off.
#[derive(Default)]
pub struct Alarms(BTreeMap<String, (Duration, SpawnHandle)>);

impl Alarms {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if no alarm is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub trait Alarmed: Actor<Context = Context<Self>> {
    /// The actor's table of set alarms.
    fn alarms(&mut self) -> &mut Alarms;

    /// Sets the alarm of a key, unless it rings by then already; one that would ring later is called off.
    fn ring_in(
        &mut self,
        key: String,
        now: Duration,
        after: Duration,
        ctx: &mut Context<Self>,
        ring: impl FnOnce(&mut Self, &mut Context<Self>) + 'static,
    ) {
        let due = now + after;
        if let Some((planned, handle)) = self.alarms().0.get(&key).copied() {
            if planned <= due {
                return;
            }
            ctx.cancel_future(handle);
        }
        let own = key.clone();
        let handle = ctx.run_later(after, move |actor, ctx| {
            actor.alarms().0.remove(&own);
            ring(actor, ctx);
        });
        self.alarms().0.insert(key, (due, handle));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::task::LocalSet;

    use super::*;

    #[derive(Default)]
    struct Sleeper {
        alarms: Alarms,
        rang: Vec<(String, u64)>,
        begun: Option<tokio::time::Instant>,
    }

    impl Actor for Sleeper {
        type Context = Context<Self>;

        fn started(&mut self, _: &mut Self::Context) {
            self.begun = Some(tokio::time::Instant::now());
        }
    }

    impl Alarmed for Sleeper {
        fn alarms(&mut self) -> &mut Alarms {
            &mut self.alarms
        }
    }

    /// Sets the alarm of a key, with its delay in seconds.
    #[derive(Message)]
    #[rtype(result = "()")]
    struct Set(&'static str, u64);

    impl Handler<Set> for Sleeper {
        type Result = ();

        fn handle(&mut self, Set(key, seconds): Set, ctx: &mut Self::Context) {
            let now = self.begun.unwrap().elapsed();
            self.ring_in(key.to_owned(), now, Duration::from_secs(seconds), ctx, move |sleeper, _| {
                let at = sleeper.begun.unwrap().elapsed().as_secs();
                sleeper.rang.push((key.to_owned(), at));
            });
        }
    }

    /// Asks for the alarms that rang, each with its second, and for the number still set.
    #[derive(Message)]
    #[rtype(result = "(Vec<(String, u64)>, usize)")]
    struct Rang;

    impl Handler<Rang> for Sleeper {
        type Result = MessageResult<Rang>;

        fn handle(&mut self, _: Rang, _: &mut Self::Context) -> Self::Result {
            MessageResult((self.rang.clone(), self.alarms.len()))
        }
    }

    #[test]
    fn alarm_rings_once_at_its_soonest_time_however_often_set() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(LocalSet::new().run_until(async {
            let sleeper = Sleeper::default().start();
            for _ in 0..100 {
                sleeper.send(Set("a", 60)).await.unwrap();
                sleeper.send(Set("b", 30)).await.unwrap();
            }
            sleeper.send(Set("a", 10)).await.unwrap();
            assert_eq!(sleeper.send(Rang).await.unwrap(), (vec![], 2));
            tokio::time::sleep(Duration::from_secs(300)).await;
            assert_eq!(sleeper.send(Rang).await.unwrap(), (vec![("a".to_owned(), 10), ("b".to_owned(), 30)], 0));
            sleeper.send(Set("a", 5)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(sleeper.send(Rang).await.unwrap().0.len(), 3, "one that has rung may be set again");
        }));
    }
}
