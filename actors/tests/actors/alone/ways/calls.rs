//! Calls to the API server: repeated where that helps, given up where it does not, and never after the term.

use std::cell::Cell;
use std::time::Duration;

use dovetail_actors::kube::calls::{CallError, Calls};
use dovetail_core::clock::Clock as _;
use kube::core::Status;
use proptest::prelude::*;

use crate::alone::{Alone, alone, seconds};

/// Fails so many times with this, and answers from then on; how often it was asked, and the answer.
async fn failing(calls: &Calls, times: u32, code: u16, reason: &str, message: &str) -> (u32, Result<(), CallError>) {
    let asked = Cell::new(0);
    let call = || async {
        asked.set(asked.get() + 1);
        if asked.get() > times {
            return Ok(());
        }
        Err(kube::Error::Api(Box::new(Status::failure(message, reason).with_code(code))))
    };
    let answer = calls.run("asking", call).await;
    (asked.get(), answer)
}

const RBAC: &str =
    "nodes is forbidden: User \"x\" cannot patch resource \"nodes\" in API group \"\" at the cluster scope";

#[test]
fn what_may_pass_is_asked_again_until_it_does() {
    for (code, reason, message) in [
        (401, "Unauthorized", "Unauthorized"),
        (408, "Timeout", "timed out"),
        (429, "TooManyRequests", "later"),
        (500, "InternalError", "etcdserver: leader changed"),
        (502, "", "bad gateway"),
        (503, "ServiceUnavailable", "apiserver is shutting down"),
        (504, "Timeout", "timed out"),
    ] {
        alone(|bench| async move {
            let (asked, answer) = failing(&bench.calls("launcher"), 12, code, reason, message).await;
            assert_eq!((asked, answer), (13, Ok(())), "{code}");
            assert_eq!((bench.told.count("retrying"), bench.told.count("recovered")), (1, 1), "{code}: said once each");
        });
    }
}

#[test]
fn what_cannot_pass_is_asked_once() {
    for (code, reason, message) in [
        (400, "BadRequest", "the body is no JSON"),
        (403, "Forbidden", "admission webhook \"x\" denied the request"),
        (404, "NotFound", "nodes \"a\" not found"),
        (405, "MethodNotAllowed", "no"),
        (409, "AlreadyExists", "nodes \"a\" already exists"),
        (409, "Conflict", "the object has been modified"),
        (410, "Expired", "too old resource version"),
        (413, "RequestEntityTooLarge", "too large"),
        (422, "Invalid", "spec: Required value"),
    ] {
        alone(|bench| async move {
            let (asked, answer) = failing(&bench.calls("launcher"), u32::MAX, code, reason, message).await;
            assert!(asked == 1 && answer.is_err(), "{code}: {asked} {answer:?}");
            assert_eq!(bench.told.lines(), [""; 0], "{code}: that is the caller's to tell");
        });
    }
}

#[test]
fn each_refusal_is_told_apart_by_what_can_be_done() {
    alone(|bench| async move {
        let calls = bench.calls("launcher");
        let kind = async |code, reason, message| failing(&calls, u32::MAX, code, reason, message).await.1.unwrap_err();
        assert!(matches!(kind(409, "AlreadyExists", "a").await, CallError::Exists(_)));
        assert!(matches!(kind(409, "Conflict", "a").await, CallError::Conflict(_)));
        assert!(matches!(kind(404, "NotFound", "nodes \"a\" not found").await, CallError::NotFound(_)));
        assert!(matches!(kind(422, "Invalid", "a").await, CallError::Refused(_)));
        assert!(matches!(kind(403, "Forbidden", RBAC).await, CallError::Forbidden(_)));
        assert!(matches!(
            kind(404, "NotFound", "the server could not find the requested resource").await,
            CallError::Refused(_)
        ));
    });
}

#[test]
fn a_server_that_never_answers_is_asked_every_ten_seconds_or_so() {
    alone(|bench| async move {
        let (calls, asked) = (bench.calls("launcher"), Cell::new(0));
        let call = || {
            asked.set(asked.get() + 1);
            std::future::pending::<kube::Result<()>>()
        };
        let waiting = tokio::time::timeout(seconds(120), calls.run("asking", call)).await;
        assert!(waiting.is_err() && (8..=12).contains(&asked.get()), "{}", asked.get());
        assert_eq!(bench.told.count("retrying"), 1);
    });
}

#[test]
fn pauses_grow_so_that_an_outage_of_an_hour_costs_few_calls() {
    alone(|bench| async move {
        let (calls, asked) = (bench.calls("launcher"), Cell::new(0));
        let call = || async {
            asked.set(asked.get() + 1);
            Err::<(), _>(kube::Error::Service("connection refused".into()))
        };
        let waiting = tokio::time::timeout(seconds(3600), calls.run("asking", call)).await;
        assert!(waiting.is_err() && asked.get() < 1500, "{}", asked.get());
    });
}

#[test]
fn with_a_time_of_its_own_a_call_is_given_up_after_it() {
    alone(|bench| async move {
        let (calls, begun) = (bench.calls("launcher"), bench.clock.monotonic());
        let call = || async { Err::<(), _>(kube::Error::Service("connection refused".into())) };
        let answer = calls.run_for(seconds(3), "asking", call).await;
        assert!(matches!(answer, Err(CallError::Unanswered(_))), "{answer:?}");
        let took = bench.clock.monotonic() - begun;
        assert!(took > seconds(1) && took <= seconds(3), "{took:?}");
        // A refusal is retried while it may come from a server that is away.
        let call = || async { Err::<(), _>(kube::Error::Api(Box::new(Status::failure(RBAC, "").with_code(403)))) };
        let answer = calls.run_for(seconds(1), "asking", call).await;
        assert!(matches!(&answer, Err(error @ CallError::Doubted(_)) if error.is_refusal()), "{answer:?}");
    });
}

#[test]
fn a_call_that_is_made_once_is_made_once() {
    alone(|bench| async move {
        let (calls, asked) = (bench.calls("launcher"), Cell::new(0));
        let call = |code: u16, message: &'static str| {
            asked.set(asked.get() + 1);
            async move { Err::<(), _>(kube::Error::Api(Box::new(Status::failure(message, "").with_code(code)))) }
        };
        assert!(matches!(calls.once(call(500, "later")).await, Err(CallError::Unanswered(_))));
        assert!(matches!(calls.once(call(403, RBAC)).await, Err(CallError::Forbidden(_))));
        assert!(matches!(calls.once(call(404, "404 page not found")).await, Err(CallError::Unanswered(_))));
        assert_eq!(asked.get(), 3);
        let hangs = calls.once(std::future::pending::<kube::Result<()>>()).await;
        assert!(matches!(hangs, Err(CallError::Unanswered(_))));
    });
}

#[test]
fn a_refusal_by_a_newer_term_ends_this_one() {
    alone(|bench| async move {
        let calls = bench.calls("launcher");
        let (asked, answer) =
            failing(&calls, u32::MAX, 403, "Forbidden", "dovetail.dev/term is 3, the Lease's is 4").await;
        assert_eq!((asked, answer), (1, Err(CallError::Deposed)));
        assert!(!bench.term.holds() && !calls.may_act());
        // From then on nothing is sent at all.
        let (asked, answer) = failing(&calls, 0, 0, "", "").await;
        assert_eq!((asked, answer), (0, Err(CallError::Deposed)));
    });
}

#[test]
fn a_server_that_lags_behind_the_lease_is_asked_again() {
    alone(|bench| async move {
        let calls = bench.calls("launcher");
        let (asked, answer) = failing(&calls, 3, 403, "Forbidden", "dovetail.dev/term is 3, the Lease's is 2").await;
        assert_eq!((asked, answer), (4, Ok(())));
        assert!(bench.term.holds());
    });
}

#[test]
fn a_term_that_ends_between_two_attempts_ends_the_call() {
    alone(|bench| async move {
        let calls = bench.calls("launcher");
        let term = bench.term.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(seconds(20)).await;
            term.end();
        });
        let begun = bench.clock.monotonic();
        let call = || async { Err::<(), _>(kube::Error::Service("connection refused".into())) };
        assert_eq!(calls.run("asking", call).await, Err(CallError::Deposed));
        let took = bench.clock.monotonic() - begun;
        assert!(took < seconds(27), "{took:?}");
    });
}

#[test]
fn who_acts_for_no_leader_is_bound_to_no_term() {
    alone(|bench| async move {
        let calls = Calls::new(bench.client(), bench.env.for_actor("webhook"), None);
        bench.term.end();
        assert!(calls.may_act());
        assert_eq!(failing(&calls, 0, 0, "", "").await, (1, Ok(())));
    });
}

fn bench_with(test: impl AsyncFnOnce(Alone)) {
    alone(|bench| async move { test(bench).await });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever an API server says with whatever code: a call ends or waits, and never spins.
    #[test]
    fn no_answer_of_any_code_makes_a_call_spin(code in 100_u16..1000, message in "[ -~]{0,80}", reason in "[A-Za-z]{0,12}") {
        bench_with(async |bench| {
            let (calls, asked) = (bench.calls("launcher"), Cell::new(0_u32));
            let call = || async {
                asked.set(asked.get() + 1);
                Err::<(), _>(kube::Error::Api(Box::new(Status::failure(&message, &reason).with_code(code))))
            };
            let outcome = tokio::time::timeout(Duration::from_secs(60), calls.run("asking", call)).await;
            assert!(!matches!(outcome, Ok(Ok(()))), "nothing was answered");
            assert!(asked.get() <= 40, "{code} {reason} {message}: {} calls in a minute", asked.get());
        });
    }
}
