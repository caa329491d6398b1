//! The batcher: each pod that waits is in one batch, and who waits no longer is in none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_actors::Settings;
use dovetail_actors::batcher::Batcher;
use dovetail_actors::context::env::Env;
use dovetail_actors::messages::{ActorState, Batch, BatcherState, PodBound, PodGone, PodPending, WaitingPod};
use dovetail_sandbox::clock::VirtualClock;
use jiff::SignedDuration;
use proptest::prelude::*;

use crate::alone::{Alone, TERM, alone, alone_with, seconds, trace};

fn start(bench: &Alone) -> Addr<Batcher> {
    bench.start(Batcher::new(&bench.env, bench.ear.clone().recipient()))
}

fn pending(uid: &str, namespace: &str) -> PodPending {
    let trace = trace(uid.bytes().map(u64::from).sum());
    PodPending { uid: uid.into(), namespace: namespace.into(), trace, waited: None }
}

fn gone(uid: &str) -> PodGone {
    PodGone { uid: uid.into() }
}

fn bound(uid: &str) -> PodBound {
    let since = jiff::Timestamp::UNIX_EPOCH;
    let waited = WaitingPod { name: uid.into(), namespace: "shop".into(), since, created: None, trace: trace(1) };
    PodBound { uid: uid.into(), node: "node-1".into(), waited: Arc::new(waited) }
}

/// The pods of each batch so far.
fn batches(bench: &Alone) -> Vec<Vec<String>> {
    bench.heard.all::<Batch>().iter().map(|batch| batch.pods.clone()).collect()
}

#[test]
fn a_burst_is_one_batch_of_its_term_and_its_first_pods_trace() {
    alone(|bench| async move {
        let batcher = start(&bench);
        for uid in ["a", "b", "c"] {
            batcher.do_send(pending(uid, "shop"));
            bench.pass(0.4).await;
        }
        assert_eq!(bench.heard.count::<Batch>(), 0, "the last came less than a second ago");
        bench.pass(1.0).await;
        assert_eq!(batches(&bench), [["a", "b", "c"]]);
        let batch = bench.heard.last::<Batch>();
        assert_eq!((batch.term, batch.trace.trace()), (TERM, pending("a", "").trace.trace()));
        assert!(
            (Duration::from_millis(1700)..Duration::from_millis(1900)).contains(&batch.waited),
            "{:?}",
            batch.waited
        );
    });
}

#[test]
fn a_pod_that_is_said_again_is_in_a_batch_once() {
    alone(|bench| async move {
        let batcher = start(&bench);
        for uid in ["a", "b", "a", "a", "b"] {
            batcher.do_send(pending(uid, "shop"));
        }
        bench.pass(3.0).await;
        assert_eq!(batches(&bench), [["a", "b"]]);
        let state = bench.state(&batcher).await;
        assert_eq!(state, ActorState::Batcher(BatcherState { in_window: 0, batches: 1 }));
    });
}

#[test]
fn who_is_bound_or_gone_in_time_is_in_no_batch() {
    alone(|bench| async move {
        let batcher = start(&bench);
        for uid in ["a", "b", "c"] {
            batcher.do_send(pending(uid, "shop"));
        }
        batcher.do_send(bound("a"));
        batcher.do_send(gone("c"));
        bench.pass(3.0).await;
        assert_eq!(batches(&bench), [["b"]]);
    });
}

#[test]
fn a_window_that_everybody_has_left_makes_no_batch() {
    alone(|bench| async move {
        let batcher = start(&bench);
        batcher.do_send(pending("a", "shop"));
        bench.pass(0.5).await;
        batcher.do_send(gone("a"));
        // Another begins a window of its own, in a trace of its own.
        batcher.do_send(pending("b", "shop"));
        bench.pass(3.0).await;
        assert_eq!(batches(&bench), [["b"]]);
        assert_eq!(bench.heard.last::<Batch>().trace.trace(), pending("b", "").trace.trace());
    });
}

#[test]
fn nobody_who_left_first_and_came_later_is_forgotten() {
    alone(|bench| async move {
        let batcher = start(&bench);
        // Out of order: what a watch says of the end of a pod may be about an earlier one of its uid.
        batcher.do_send(gone("a"));
        batcher.do_send(bound("a"));
        batcher.do_send(pending("a", "shop"));
        bench.pass(2.0).await;
        assert_eq!(batches(&bench), [["a"]]);
    });
}

#[test]
fn pods_that_keep_coming_wait_no_longer_than_the_max() {
    alone(|bench| async move {
        let batcher = start(&bench);
        for n in 0..30 {
            batcher.do_send(pending(&format!("pod-{n:02}"), "shop"));
            bench.pass(0.5).await;
        }
        let first = bench.heard.all::<Batch>()[0].clone();
        assert!(first.waited <= seconds(10) && first.pods.len() >= 19, "{first:?}");
        bench.pass(12.0).await;
        assert_eq!(batches(&bench).iter().map(Vec::len).sum::<usize>(), 30);
    });
}

#[test]
fn who_waited_under_an_earlier_leader_does_not_wait_again() {
    alone(|bench| async move {
        let batcher = start(&bench);
        for uid in ["a", "b", "c"] {
            batcher.do_send(PodPending { waited: Some(seconds(60)), ..pending(uid, "shop") });
        }
        bench.pass(0.1).await;
        assert_eq!(batches(&bench), [["a", "b", "c"]], "all of them in one");
    });
}

#[test]
fn enough_pods_close_a_window_at_once() {
    alone_with(Settings { batch_most: 5, ..Settings::default() }, |bench| async move {
        let batcher = start(&bench);
        for n in 0..12 {
            batcher.do_send(pending(&format!("pod-{n:02}"), "shop"));
        }
        bench.pass(0.01).await;
        assert_eq!(batches(&bench).iter().map(Vec::len).collect::<Vec<_>>(), [5, 5]);
        bench.pass(2.0).await;
        assert_eq!(batches(&bench)[2].len(), 2);
    });
}

#[test]
fn more_than_a_mailbox_holds_comes_through_and_is_counted() {
    alone(|bench| async move {
        let batcher = start(&bench);
        for n in 0..5000 {
            bench.env.post(&batcher, pending(&format!("pod-{n:04}"), "shop"));
        }
        bench.pass(5.0).await;
        let all: Vec<String> = batches(&bench).concat();
        assert_eq!((all.len(), bench.heard.count::<Batch>()), (5000, 2), "3,000 close a window");
        assert!(bench.told.measured("MailboxFull") > 3000);
    });
}

#[test]
fn a_namespace_that_never_rests_holds_up_no_other() {
    alone(|bench| async move {
        let batcher = start(&bench);
        batcher.do_send(pending("quiet", "shop"));
        for n in 0..8 {
            batcher.do_send(pending(&format!("loud-{n}"), "test"));
            bench.pass(0.2).await;
        }
        assert!(batches(&bench)[0].contains(&"quiet".to_owned()));
    });
}

#[test]
fn clocks_that_are_wrong_delay_a_batch_and_lose_none() {
    // Ours loses a fifth against the alarms', or gains one.
    for drift in [-200_000, 200_000] {
        alone(|bench| async move {
            let clock: VirtualClock = bench.clock.skewed(SignedDuration::from_hours(-3), drift);
            let env = Env::new("r", Settings::default(), Arc::new(clock), bench.told.clone(), 1).in_term(TERM);
            let batcher = bench.start(Batcher::new(&env, bench.ear.clone().recipient()));
            batcher.do_send(pending("a", "shop"));
            bench.pass(1.5).await;
            assert_eq!(batches(&bench), [["a"]], "drift {drift}");
        });
    }
}

/// Lets every actor do what is due at this instant, and hear what comes of it: what a test sees is then not half of it.
async fn all_rest() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[derive(Clone, Debug)]
enum Step {
    Waits(u8),
    Bound(u8),
    Gone(u8),
    Passes(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..8_u8).prop_map(Step::Waits),
        1 => (0..8_u8).prop_map(Step::Bound),
        1 => (0..8_u8).prop_map(Step::Gone),
        2 => (1..1500_u16).prop_map(Step::Passes),
    ]
}

/// Plays it: who begins to wait and does not leave is in exactly one batch after that.
fn play(steps: Vec<Step>) {
    alone(|bench| async move {
        let batcher = start(&bench);
        // Number of batches before each waiting pod's wait began.
        let mut waits: BTreeMap<String, usize> = BTreeMap::new();
        let times = |uid: &str| batches(&bench).iter().filter(|pods| pods.iter().any(|pod| pod == uid)).count();
        for step in steps {
            match step {
                Step::Waits(pod) => {
                    let uid = format!("pod-{pod}");
                    // A pod stays in its namespace.
                    let namespace = format!("ns-{}", pod % 3);
                    batcher.send(pending(&uid, &namespace)).await.unwrap();
                    let seen = times(&uid);
                    let known = waits.get(&uid).is_some_and(|before| *before == seen);
                    if !known {
                        waits.insert(uid, seen);
                    }
                }
                Step::Bound(pod) => {
                    batcher.send(bound(&format!("pod-{pod}"))).await.unwrap();
                    waits.remove(&format!("pod-{pod}"));
                }
                Step::Gone(pod) => {
                    batcher.send(gone(&format!("pod-{pod}"))).await.unwrap();
                    waits.remove(&format!("pod-{pod}"));
                }
                Step::Passes(millis) => {
                    tokio::time::sleep(Duration::from_millis(millis.into())).await;
                    all_rest().await;
                }
            }
        }
        bench.pass(30.0).await;
        for (uid, before) in &waits {
            assert_eq!(times(uid), before + 1, "{uid} of {:?}", batches(&bench));
        }
        let state = bench.state(&batcher).await;
        assert!(matches!(state, ActorState::Batcher(BatcherState { in_window: 0, .. })), "{state:?}");
    });
}

#[test]
fn pod_repeated_as_its_window_closes_joins_another_batch() {
    play(vec![Step::Waits(3), Step::Passes(1000), Step::Waits(3)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever comes in whatever order.
    #[test]
    fn every_pod_that_waits_gets_into_one_batch(steps in prop::collection::vec(step(), 1..40)) {
        play(steps);
    }
}
