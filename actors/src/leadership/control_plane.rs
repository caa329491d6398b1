//! Starts the leader's actors when this replica is elected, once it knows what an earlier leader has left, and ends them when it is deposed, wherever they stand; starts
//! them again, all together, when one of them dies, with back-off, and gives the replica up when that happens too often.
//! The leader's actors live in a LocalSet of their own: to end them is to drop it.

use std::collections::VecDeque;
use std::time::Duration;

use actix::prelude::*;
use futures::future::join_all;
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet};

use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::context::leader_term::LeaderTerm;
use crate::leadership::catch_up;
use crate::leadership::converted::until_converted;
use crate::leadership::fence;
use crate::leadership::messages::{Deposed, Elected, ObserveReplica, ReleaseLease, WatchLeader};
use crate::messages::{ActorState, ControlPlaneState, Observe, ReplicaState, Term};
use crate::telemetry::log_event::LogEvent;
use crate::telemetry::measure::Measure;
use crate::wiring::{self, ActorParts, Leading, Warm};

/// No replica has led before, so there is nothing to take over.
const FIRST_TERM: Term = Term(1);
/// Interval at which it is checked that all actors are alive.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of restarts within [`BUDGET_TIME`] that ends the replica.
const BUDGET: usize = 5;
/// An actor that takes longer to say how it is has fallen silent.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Longest wait for calls under way when the replica ends.
const LAST_EFFECTS: Duration = Duration::from_secs(5);
/// Pause between two looks at whether it has ended.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
/// Period in which restarts are counted against [`BUDGET`].
const BUDGET_TIME: Duration = Duration::from_secs(600);

/// Starts the leader's actors when elected, ends them when deposed, and asks all of them how they are.
pub struct ControlPlane {
    env: Env,
    means: ActorParts,
    warm: Warm,
    leader: Option<Recipient<Observe>>,
    running: Option<Running>,
    leader_term: Option<LeaderTerm>,
    backoff: Backoff,
    /// Times of recent restarts of the leader's actors. Monotonic.
    restarts: VecDeque<Duration>,
    exit: watch::Sender<Option<String>>,
}

/// The leader's actors and the task that drives them.
struct Running {
    leading: Leading,
    driver: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl ControlPlane {
    /// A control plane that does not lead; `exit` gets the reason when the replica has to end.
    pub fn new(env: &Env, means: ActorParts, warm: Warm, exit: watch::Sender<Option<String>>) -> Self {
        let env = env.for_actor("control_plane");
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30), env.rng("restart"));
        Self {
            env,
            means,
            warm,
            leader: None,
            running: None,
            leader_term: None,
            backoff,
            restarts: VecDeque::new(),
            exit,
        }
    }
}

impl Actor for ControlPlane {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(CHECK_INTERVAL, |plane, ctx| plane.check_actors(ctx));
    }
}

impl Handler<Elected> for ControlPlane {
    type Result = ();

    fn handle(&mut self, elected: Elected, ctx: &mut Self::Context) {
        self.stop();
        let leader_term = elected.leader_term;
        self.means.office.set(Some(leader_term.clone()));
        self.leader_term = Some(leader_term.clone());
        let nothing_left = leader_term.term() == FIRST_TERM;
        self.begin(leader_term, nothing_left, ctx);
    }
}

impl Handler<WatchLeader> for ControlPlane {
    type Result = ();

    fn handle(&mut self, watched: WatchLeader, _: &mut Self::Context) {
        self.leader = Some(watched.leader);
    }
}

impl Handler<Deposed> for ControlPlane {
    type Result = ();

    fn handle(&mut self, _: Deposed, _: &mut Self::Context) {
        self.means.office.set(None);
        self.leader_term = None;
        self.stop();
    }
}

impl Handler<ObserveReplica> for ControlPlane {
    type Result = ResponseFuture<ReplicaState>;

    /// The states of all actors that run.
    fn handle(&mut self, _: ObserveReplica, _: &mut Self::Context) -> Self::Result {
        let mut asked = self.always();
        asked.extend(self.running.iter().flat_map(|running| running.leading.observed()));
        let (leads, restarts) = (self.running.is_some(), self.restarts.len());
        let env = self.env.clone();
        Box::pin(async move {
            let (states, silent) = states(asked, &env).await;
            let control_plane = ControlPlaneState { leads, restarts, silent };
            let mut all = ReplicaState { control_plane, ..ReplicaState::default() };
            states.into_iter().for_each(|(_, state)| all.insert(state));
            all
        })
    }
}

/// The actors' states by name, and who has not said within [`ANSWER_WITHIN`].
async fn states(
    asked: Vec<(&'static str, Recipient<Observe>)>,
    env: &Env,
) -> (Vec<(&'static str, ActorState)>, Vec<&'static str>) {
    let answers = asked.into_iter().map(|(name, actor)| async move {
        let begun = env.now();
        let answer = tokio::time::timeout(ANSWER_WITHIN, actor.send(Observe)).await;
        let seconds = env.now().saturating_sub(begun).as_secs_f64();
        env.measure(&Measure::ActorAnswered { actor: name, seconds });
        (name, answer)
    });
    let (mut all, mut silent) = (Vec::new(), Vec::new());
    for (name, answer) in join_all(answers).await {
        match answer {
            Ok(Ok(state)) => all.push((name, state)),
            Ok(Err(_)) => {} // it has died, which is seen to elsewhere
            Err(_) => silent.push(name),
        }
    }
    (all, silent)
}

impl Handler<ReleaseLease> for ControlPlane {
    type Result = ResponseFuture<()>;

    /// The term has ended already, so nothing new begins.
    fn handle(&mut self, _: ReleaseLease, _: &mut Self::Context) -> Self::Result {
        self.leader_term = None;
        let Some(running) = self.running.take() else { return Box::pin(async {}) };
        wiring::detach(&self.warm);
        Box::pin(async move {
            let _ = tokio::time::timeout(LAST_EFFECTS, idle(&running.leading)).await;
        })
    }
}

/// Waits until no launch is under way.
async fn idle(leading: &Leading) {
    while let Ok(ActorState::Launcher(launcher)) = leading.launcher.send(Observe).await {
        if launcher.running == 0 {
            return;
        }
        tokio::time::sleep(SHORTEST_WAIT).await;
    }
}

impl ControlPlane {
    /// Starts the leader's actors in a term as soon as they may: first the API server shuts out earlier terms and converts
    /// what is stored as v1beta1, then what they have left is read, as is what this term's own actors have left when they died. Nothing comes after that.
    fn begin(&mut self, leader_term: LeaderTerm, nothing_left: bool, ctx: &mut Context<Self>) {
        let (kube, cluster) = (self.means.kube.clone(), self.warm.cluster_watcher.clone());
        let (env, ours) = (self.env.clone(), leader_term.clone());
        let caught_up = async move {
            if !env.settings.disable_leader_election {
                fence::look_at_binding(&kube, &ours, &env).await?;
                if !fence::stand_behind(&kube, &ours, &env).await {
                    return Ok(false);
                }
            }
            if ours.while_holds(until_converted(&kube, &env)).await.is_none() {
                return Ok(false);
            }
            if !nothing_left {
                return Ok(ours.while_holds(catch_up::catch_up(kube, cluster.into(), env)).await.is_some());
            }
            Ok(true)
        };
        ctx.spawn(caught_up.into_actor(self).map(move |begins: Result<bool, String>, plane, _| match begins {
            Ok(true) if plane.is_in(leader_term.term()) && plane.running.is_none() => plane.start(leader_term),
            Ok(_) => {}
            Err(why) => plane.give_up(why),
        }));
    }

    fn is_in(&self, term: Term) -> bool {
        self.leader_term.as_ref().is_some_and(|leader_term| leader_term.term() == term)
    }

    fn start(&mut self, leader_term: LeaderTerm) {
        let set = LocalSet::new();
        let leading = {
            let _inside = set.enter();
            wiring::start_leading(&self.env, &self.means, &self.warm, &leader_term)
        };
        let driver = tokio::task::spawn_local(async move {
            set.await;
        });
        self.running = Some(Running { leading, driver });
    }

    fn stop(&mut self) {
        if self.running.take().is_some() {
            wiring::detach(&self.warm);
        }
    }

    fn check_actors(&mut self, ctx: &mut Context<Self>) {
        if let Some((name, _)) = self.always().into_iter().find(|(_, actor)| !actor.connected()) {
            return self.give_up(format!("{name} has died"));
        }
        let (Some(running), Some(leader_term)) = (&self.running, self.leader_term.clone()) else { return };
        let Some((name, _)) = running.leading.observed().into_iter().find(|(_, actor)| !actor.connected()) else {
            return;
        };
        self.stop();
        let now = self.env.now();
        self.restarts.retain(|when| now.saturating_sub(*when) < BUDGET_TIME);
        if self.restarts.len() >= BUDGET {
            return self.give_up(format!("{name} has died, after {BUDGET} restarts in {BUDGET_TIME:?}"));
        }
        if self.restarts.is_empty() {
            self.backoff.reset();
        }
        self.restarts.push_back(now);
        let pause = self.backoff.pause();
        self.env.emit(LogEvent::Restarting { why: format!("{name} has died"), seconds: pause.as_secs_f64() });
        // If another term has begun meanwhile, its own election starts them.
        ctx.run_later(pause, move |plane, ctx| {
            if plane.running.is_none() && plane.is_in(leader_term.term()) {
                plane.begin(leader_term, false, ctx);
            }
        });
    }

    /// The actors that every replica has, but for this one.
    fn always(&self) -> Vec<(&'static str, Recipient<Observe>)> {
        let leader = self.leader.iter().map(|leader| ("leader", leader.clone()));
        self.warm.observed().into_iter().chain(leader).collect()
    }

    /// Ends the term, as far as it is this replica's to end, and the replica.
    fn give_up(&mut self, why: String) {
        if let Some(leader_term) = self.leader_term.take() {
            leader_term.end();
        }
        self.stop();
        if self.exit.borrow().is_none() {
            self.env.emit(LogEvent::Exiting { why: why.clone() });
            self.exit.send_replace(Some(why));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use actix::fut::ready;
    use dovetail_core::clock::Clock;

    use super::*;
    use crate::context::mailbox;
    use crate::messages::RecorderState;
    use crate::settings::Settings;
    use crate::telemetry::journal::{Journal, JournalEntry};

    struct Stopped;

    impl Clock for Stopped {
        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }

        fn wall(&self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }
    }

    /// Counts what is put into full mailboxes.
    #[derive(Default)]
    struct Full(AtomicUsize);

    impl Journal for Full {
        fn record(&self, _: &JournalEntry) {}

        fn measure(&self, measure: &Measure<'_>) {
            if matches!(measure, Measure::MailboxFull { sender: "test", message: "Number" }) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Takes numbers; with 0 it waits until it is let go on.
    #[derive(Default)]
    struct Counts {
        taken: Vec<usize>,
        goes_on: Arc<tokio::sync::Notify>,
    }

    impl Actor for Counts {
        type Context = Context<Self>;
    }

    #[derive(Message)]
    #[rtype(result = "()")]
    struct Number(usize);

    impl Handler<Number> for Counts {
        type Result = ();

        fn handle(&mut self, number: Number, ctx: &mut Self::Context) {
            self.taken.push(number.0);
            if number.0 == 0 {
                let goes_on = self.goes_on.clone();
                ctx.wait(async move { goes_on.notified().await }.into_actor(self).then(|(), _, _| ready(())));
            }
        }
    }

    impl Handler<Observe> for Counts {
        type Result = MessageResult<Observe>;

        fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
            MessageResult(RecorderState { waiting: self.taken.len(), ..RecorderState::default() }.into())
        }
    }

    #[derive(Message)]
    #[rtype(result = "Vec<usize>")]
    struct Taken;

    impl Handler<Taken> for Counts {
        type Result = Vec<usize>;

        fn handle(&mut self, _: Taken, _: &mut Self::Context) -> Self::Result {
            self.taken.clone()
        }
    }

    /// An environment, what is counted, an actor that moves no further, and what lets it go on.
    fn stuck() -> (Env, Arc<Full>, Addr<Counts>, Arc<tokio::sync::Notify>) {
        let (journal, goes_on) = (Arc::new(Full::default()), Arc::new(tokio::sync::Notify::new()));
        let env = Env::new("r", Settings::default(), Arc::new(Stopped), journal.clone(), 1).for_actor("test");
        let actor = Counts { goes_on: goes_on.clone(), ..Counts::default() };
        let to = Counts::create(|ctx| {
            ctx.set_mailbox_capacity(mailbox::BOUND);
            actor
        });
        env.post(&to, Number(0));
        (env, journal, to, goes_on)
    }

    fn on_paused_time(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(LocalSet::new().run_until(test));
    }

    #[test]
    fn actor_with_stuck_mailbox_is_named_silent_and_others_answer() {
        on_paused_time(async {
            let (env, _, stuck, goes_on) = stuck();
            let moves = Counts::default().start();
            let asked = || vec![("stuck", stuck.clone().recipient()), ("moves", moves.clone().recipient())];
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (said, silent) = states(asked(), &env).await;
            assert_eq!((silent, said[0].0, said.len()), (vec!["stuck"], "moves", 1));
            goes_on.notify_one();
            let (said, silent) = states(asked(), &env).await;
            let stuck = RecorderState { waiting: 1, ..RecorderState::default() };
            assert_eq!((silent.len(), &said[0]), (0, &("stuck", stuck.into())));
        });
    }

    #[test]
    fn messages_beyond_mailbox_bound_are_counted_and_stay_in_order() {
        on_paused_time(async {
            let (env, full, stuck, goes_on) = stuck();
            let beyond = 500;
            (1..=mailbox::BOUND + beyond).for_each(|number| env.post(&stuck, Number(number)));
            let counted = full.0.load(Ordering::Relaxed);
            // A sender notices with its second message beyond the bound.
            assert!(counted.abs_diff(beyond) <= 2, "{counted}");
            goes_on.notify_one();
            tokio::time::sleep(Duration::from_secs(1)).await;
            let taken = stuck.send(Taken).await.unwrap();
            assert_eq!(taken, (0..=mailbox::BOUND + beyond).collect::<Vec<_>>());
            let now = full.0.load(Ordering::Relaxed);
            env.post(&stuck, Number(1));
            assert_eq!(full.0.load(Ordering::Relaxed), now, "it is full no longer");
        });
    }
}
