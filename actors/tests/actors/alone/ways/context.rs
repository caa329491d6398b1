//! Surroundings of every actor: randomness that replays, and a term that ends for everybody at once.

use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_actors::context::env::Env;
use dovetail_actors::context::leader_term::{LeaderTerm, Office};
use dovetail_actors::messages::{PodGone, Term};
use dovetail_core::clock::Clock as _;
use jiff::SignedDuration;

use crate::alone::{Alone, alone, seconds};

fn drawn(env: &Env, purpose: &str) -> u64 {
    env.rng(purpose).u64(..)
}

#[test]
fn the_same_seed_actor_term_and_purpose_draw_the_same() {
    alone(|bench| async move {
        let make = |identity: &str, seed| {
            Env::new(identity, Settings::default(), bench.clock.clone(), bench.told.clone(), seed)
        };
        let env = make("a", 1).for_actor("packer").in_term(Term(3));
        assert_eq!(drawn(&env, "names"), drawn(&make("a", 1).for_actor("packer").in_term(Term(3)), "names"));
        let others = [
            drawn(&env, "trace"),
            drawn(&env.for_actor("launcher"), "names"),
            drawn(&env.in_term(Term(4)), "names"),
            drawn(&make("b", 1).for_actor("packer").in_term(Term(3)), "names"),
            drawn(&make("a", 2).for_actor("packer").in_term(Term(3)), "names"),
        ];
        assert!(others.iter().all(|other| *other != drawn(&env, "names")), "{others:?}");
    });
}

#[test]
fn a_term_ends_for_all_who_have_it_and_for_good() {
    alone(|bench| async move {
        let (term, copy) = (bench.term.clone(), bench.calls("launcher"));
        assert!(term.holds() && copy.may_act());
        bench.term.end();
        bench.term.extend(Duration::MAX);
        assert!(!term.holds() && !copy.may_act() && term.has_ended());
    });
}

#[test]
fn a_term_that_is_not_renewed_ends_by_the_clock_alone() {
    alone(|bench| async move {
        let term = LeaderTerm::new(Term(1), bench.clock.monotonic() + seconds(10), bench.clock.clone());
        let waiting = term.clone();
        let over = tokio::task::spawn_local(async move { waiting.over().await });
        bench.pass(9.0).await;
        assert!(term.holds() && !over.is_finished());
        term.extend(bench.clock.monotonic() + seconds(10));
        bench.pass(9.0).await;
        assert!(term.holds() && !over.is_finished(), "it was renewed");
        bench.pass(2.0).await;
        assert!(!term.holds() && over.is_finished());
    });
}

#[test]
fn a_clock_that_runs_fast_ends_a_term_early_and_never_late() {
    alone(|bench| async move {
        let fast = Arc::new(bench.clock.skewed(SignedDuration::ZERO, 100_000));
        let term = LeaderTerm::new(Term(1), fast.monotonic() + seconds(11), fast);
        bench.pass(10.5).await;
        assert!(!term.holds());
    });
}

#[test]
fn an_office_shows_a_term_only_while_it_holds() {
    alone(|bench| async move {
        let office = Office::default();
        assert!(office.held().is_none());
        let known = office.clone();
        office.set(Some(bench.term.clone()));
        assert!(known.held().is_some_and(|term| term.term() == bench.term.term()));
        bench.term.end();
        assert!(known.held().is_none(), "though nobody has taken it away");
    });
}

fn gone(number: usize) -> PodGone {
    PodGone { uid: number.to_string() }
}

#[test]
fn what_is_posted_to_a_full_mailbox_arrives_in_its_order() {
    alone(|bench: Alone| async move {
        let to = bench.ear.clone().recipient::<PodGone>();
        for number in 0..3000 {
            bench.env.post(&to, gone(number));
        }
        bench.pass(0.1).await;
        let heard: Vec<String> = bench.heard.all::<PodGone>().iter().map(|one| one.uid.clone()).collect();
        assert_eq!(heard, (0..3000).map(|number| number.to_string()).collect::<Vec<_>>());
    });
}
