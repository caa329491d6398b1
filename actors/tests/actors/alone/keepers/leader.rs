//! The leader: at most one replica leads at a time, its term ends by itself, and whatever stands in the Lease is got over.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_actors::Settings;
use dovetail_actors::context::env::Env;
use dovetail_actors::context::leader_term::LeaderTerm;
use dovetail_actors::leadership::leader::Leader;
use dovetail_actors::leadership::messages::{Deposed, Elected, ReleaseLease};
use dovetail_actors::messages::{ActorState, LeaderState};
use dovetail_core::clock::Clock as _;
use dovetail_sandbox::Caller;
use dovetail_sandbox::apiserver::{DeleteOptions, LEASES};
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::alone::wire::Act;
use crate::alone::{Alone, Ear, Heard, Wire, alone, alone_with, seconds};

const NAME: &str = "karpenter-leader-election";

/// A replica's leader, and what it has said.
struct One {
    leader: Addr<Leader>,
    heard: Heard,
    wire: Wire,
}

fn start(bench: &Alone, number: u32, drift_ppm: i64) -> One {
    let (heard, wire) = (Heard::default(), Wire::default());
    let ear = Ear::new(heard.clone()).start();
    let client = wire.before(bench.api.client(Caller::replica(number, "lease")));
    let clock = bench.clock.skewed(SignedDuration::from_mins(i64::from(number)), drift_ppm);
    let settings = (*bench.env.settings).clone();
    let identity = format!("replica-{number}");
    let env = Env::new(&identity, settings, Arc::new(clock), bench.told.clone(), u64::from(number));
    let leader = Leader::new(&env, client, ear.clone().into(), ear.clone().recipient(), ear.recipient());
    One { leader: bench.start(leader), heard, wire }
}

impl One {
    /// The term in which it leads by its own clock.
    fn term(&self) -> Option<LeaderTerm> {
        let last = self.heard.all::<Elected>().pop()?.leader_term.clone();
        last.holds().then_some(last)
    }

    fn leads(&self) -> bool {
        self.term().is_some()
    }

    fn terms(&self) -> Vec<u64> {
        self.heard.all::<Elected>().iter().map(|one| one.leader_term.term().0).collect()
    }

    async fn state(&self, bench: &Alone) -> LeaderState {
        match bench.state(&self.leader).await {
            ActorState::Leader(state) => state,
            other => panic!("{other:?}"),
        }
    }
}

fn lease(bench: &Alone) -> Value {
    bench.api.get(&LEASES, "kube-system", NAME).map(|lease| lease["spec"].clone()).unwrap_or_default()
}

#[test]
fn who_is_alone_leads_and_renews() {
    alone(|bench| async move {
        let one = start(&bench, 0, 0);
        bench.until(60, || one.leads()).await;
        assert_eq!(lease(&bench)["holderIdentity"], "replica-0");
        assert_eq!(lease(&bench)["leaseTransitions"], one.terms()[0]);
        bench.pass(600.0).await;
        assert_eq!((one.terms().len(), one.heard.count::<Deposed>()), (1, 0));
        let renewals = one.wire.count("PATCH", NAME);
        assert!((200..=400).contains(&renewals), "{renewals} in ten minutes");
    });
}

#[test]
fn of_three_one_leads_and_the_others_say_who() {
    alone(|bench| async move {
        let all = [start(&bench, 0, 0), start(&bench, 1, 0), start(&bench, 2, 0)];
        bench.pass(120.0).await;
        let leading: Vec<_> = all.iter().filter(|one| one.leads()).collect();
        assert_eq!(leading.len(), 1);
        let holder = lease(&bench)["holderIdentity"].as_str().unwrap().to_owned();
        for one in &all {
            let state = one.state(&bench).await;
            assert_eq!((state.leads, state.holder), (one.leads(), holder.clone()));
        }
    });
}

#[test]
fn leader_that_cannot_renew_stops_before_another_begins() {
    for act in [
        Act::Hang,
        Act::Answer(500, crate::alone::wire::status(500)),
        Act::Answer(403, crate::alone::wire::status(403)),
    ] {
        alone(|bench| async move {
            let (first, second) = (start(&bench, 0, 0), start(&bench, 1, 0));
            bench.until(60, || first.leads() || second.leads()).await;
            let (leads, waits) = if first.leads() { (&first, &second) } else { (&second, &first) };
            for method in ["PATCH", "GET", "PUT", "POST"] {
                leads.wire.next(method, NAME, usize::MAX, act.clone());
            }
            let took = bench.until(30, || !leads.leads()).await;
            assert!(took <= seconds(11), "{act:?}: {took:?}");
            assert!(!waits.leads(), "{act:?}");
            bench.until(60, || waits.leads()).await;
            assert!(waits.terms()[0] > leads.terms()[0], "{act:?}");
            bench.pass(1.0).await;
            assert_eq!(leads.heard.count::<Deposed>(), 1, "{act:?}");
            assert!(leads.heard.last::<Deposed>().why.contains("could not be renewed"), "{act:?}");
        });
    }
}

#[test]
fn a_lease_that_another_takes_by_force_ends_the_term_at_once() {
    alone(|bench| async move {
        let one = start(&bench, 0, 0);
        bench.until(60, || one.leads()).await;
        let now = format!("{:.6}", bench.clock.wall());
        let taken = json!({"spec": {"holderIdentity": "karpenter-7d4", "leaseTransitions": 900, "renewTime": now, "acquireTime": now}});
        bench.api.patch(&LEASES, "kube-system", NAME, &taken).unwrap();
        let took = bench.until(10, || !one.leads()).await;
        assert!(took <= seconds(3), "{took:?}");
        assert!(one.heard.last::<Deposed>().why.contains("another's"));
    });
}

#[test]
fn deleted_lease_ends_the_term_and_next_term_is_above_it() {
    alone(|bench| async move {
        let one = start(&bench, 0, 0);
        bench.until(60, || one.leads()).await;
        bench.api.delete(&LEASES, "kube-system", NAME, &DeleteOptions::default()).unwrap();
        bench.until(10, || !one.leads()).await;
        assert!(one.heard.last::<Deposed>().why.contains("gone"));
        bench.until(90, || one.leads()).await;
        let terms = one.terms();
        assert!(terms[1] > terms[0], "{terms:?}");
    });
}

#[test]
fn who_gives_the_lease_back_is_followed_at_once() {
    alone(|bench| async move {
        let (first, second) = (start(&bench, 0, 0), start(&bench, 1, 0));
        bench.until(60, || first.leads() || second.leads()).await;
        let (leads, waits) = if first.leads() { (&first, &second) } else { (&second, &first) };
        leads.leader.send(ReleaseLease).await.unwrap();
        assert!(!leads.leads());
        let took = bench.until(30, || waits.leads()).await;
        assert!(took <= seconds(3), "{took:?}");
        bench.pass(120.0).await;
        assert!(!leads.leads(), "who has ended does not lead again");
    });
}

#[test]
fn a_release_whose_answers_are_lost_leaves_no_name_on_the_lease() {
    alone(|bench| async move {
        let one = start(&bench, 0, 0);
        bench.until(60, || one.leads()).await;
        one.wire.next("PUT", NAME, 2, Act::Lose);
        one.leader.send(ReleaseLease).await.unwrap();
        assert_eq!(lease(&bench)["holderIdentity"], "");
    });
}

#[test]
fn released_lease_is_reported_once() {
    alone(|bench| async move {
        let one = start(&bench, 0, 0);
        bench.until(60, || one.leads()).await;
        one.leader.send(ReleaseLease).await.unwrap();
        // A launch that is under way is waited for.
        bench.pass(60.0).await;
        let said: Vec<String> = bench.told.lines().into_iter().filter(|line| line.starts_with("deposed")).collect();
        assert_eq!(said, ["deposed: shutting down"]);
        assert_eq!(one.heard.count::<Deposed>(), 0, "the control plane is told by who ends the replica");
    });
}

#[test]
fn who_may_not_write_the_lease_never_leads_and_asks_seldom() {
    for code in [403, 409, 422] {
        alone(|bench| async move {
            let one = start(&bench, 0, 0);
            one.wire.refuse("POST", "/leases", usize::MAX, code);
            one.wire.refuse("PATCH", NAME, usize::MAX, code);
            bench.pass(600.0).await;
            assert!(one.terms().is_empty(), "{code}");
            let calls = one.wire.count("POST", "/leases") + one.wire.count("GET", NAME);
            assert!(calls < 2500, "{code}: {calls} in ten minutes");
            let told = bench.told.count("retrying");
            assert_eq!(told, 1, "{code}: it is said why it never leads, once: {:?}", bench.told.lines());
        });
    }
}

#[test]
fn nonsense_in_the_lease_is_got_over() {
    for spec in [
        json!({}),
        json!({"holderIdentity": "x", "leaseTransitions": -5, "leaseDurationSeconds": 15}),
        json!({"holderIdentity": "x", "leaseTransitions": 3, "leaseDurationSeconds": 15, "renewTime": "9999-12-31T23:59:59.000000Z"}),
        json!({"holderIdentity": "replica-0", "leaseTransitions": 7, "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"}),
        json!({"holderIdentity": "x".repeat(5000), "leaseTransitions": 2, "leaseDurationSeconds": 15}),
    ] {
        alone(|bench| async move {
            let made = json!({"metadata": {"name": NAME, "namespace": "kube-system"}, "spec": spec});
            if bench.api.create(&LEASES, "kube-system", made).is_err() {
                return;
            }
            let one = start(&bench, 0, 0);
            bench.until(900, || one.leads()).await;
            bench.pass(60.0).await;
            assert!(one.leads() && one.terms().len() == 1, "{spec}");
        });
    }
}

#[test]
fn without_an_election_it_leads_at_once_and_asks_for_no_lease() {
    alone_with(Settings { disable_leader_election: true, ..Settings::default() }, |bench| async move {
        let one = start(&bench, 0, 0);
        bench.pass(60.0).await;
        assert!(one.leads() && lease(&bench) == Value::Null);
        assert_eq!(one.wire.count("GET", "/leases"), 0);
    });
}

#[derive(Clone, Debug)]
enum Trouble {
    /// A replica's calls hang, for so many seconds.
    Hangs(usize, u8),
    /// They are refused.
    Fails(usize, u8, u16),
    /// Somebody deletes the Lease.
    Deleted,
    Passes(u8),
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        (0..2_usize, 1..40_u8).prop_map(|(who, time)| Trouble::Hangs(who, time)),
        (0..2_usize, 1..40_u8, prop::sample::select(vec![403_u16, 409, 429, 500]))
            .prop_map(|(who, time, code)| Trouble::Fails(who, time, code)),
        Just(Trouble::Deleted),
        (1..40_u8).prop_map(Trouble::Passes),
    ]
}

/// Time passes; at no moment do both lead. Answers nothing but by panicking.
async fn watched(bench: &Alone, both: &[One; 2], time: Duration) {
    let end = bench.clock.monotonic() + time;
    while bench.clock.monotonic() < end {
        let terms: Vec<_> = both.iter().filter_map(One::term).map(|term| term.term()).collect();
        assert!(terms.len() < 2, "both lead: {terms:?}\n{}", bench.told.lines().join("\n"));
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Whatever the way to the API server does to either, and with clocks that differ: never two at a time, terms only rise,
    /// and somebody leads when it is over.
    #[test]
    fn two_never_lead_at_a_time(troubles in prop::collection::vec(trouble(), 1..7), drift in -3000_i64..3000) {
        alone(|bench| async move {
            let both = [start(&bench, 0, drift), start(&bench, 1, -drift)];
            watched(&bench, &both, seconds(40)).await;
            for trouble in troubles {
                let time = match trouble {
                    Trouble::Hangs(who, time) => {
                        for method in ["GET", "PATCH", "POST", "PUT"] {
                            both[who].wire.next(method, "/leases", usize::MAX, Act::Hang);
                        }
                        time
                    }
                    Trouble::Fails(who, time, code) => {
                        for method in ["PATCH", "POST", "PUT"] {
                            both[who].wire.refuse(method, "/leases", usize::MAX, code);
                        }
                        time
                    }
                    Trouble::Deleted => {
                        let _ = bench.api.delete(&LEASES, "kube-system", NAME, &DeleteOptions::default());
                        5
                    }
                    Trouble::Passes(time) => time,
                };
                watched(&bench, &both, seconds(time.into())).await;
                both.iter().for_each(|one| one.wire.heal());
            }
            watched(&bench, &both, seconds(120)).await;
            assert!(both.iter().any(One::leads), "{}", bench.told.lines().join("\n"));
            let mut terms: Vec<u64> = both.iter().flat_map(One::terms).collect();
            let count = terms.len();
            terms.sort_unstable();
            terms.dedup();
            assert_eq!(terms.len(), count, "no term twice");
        });
    }
}
