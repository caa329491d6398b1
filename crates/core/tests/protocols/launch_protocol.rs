//! The next step of one launch, where something has changed under it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use dovetail_core::lifecycle::protocol::{
    ApiFailure, Claimed, Input, LaunchCallResult, LaunchEnd, LaunchStep, Pause, Protocol, takes_instance, takes_token,
};
use dovetail_core::ownership::token::{LaunchPart, share};

const NOW: Duration = Duration::from_secs(5);

fn claim(instance: Option<&str>, deleting: bool) -> Claimed {
    let instance = instance.map(str::to_owned);
    Claimed { uid: "a".into(), token: None, launched: instance.is_some(), instance, deleting }
}

/// A launch that has heard all this.
fn after(inputs: impl IntoIterator<Item = Input>) -> (Protocol, LaunchStep) {
    let mut protocol = Protocol::new(false);
    let mut step = protocol.step(Input::Begin, NOW, true);
    for input in inputs {
        step = protocol.step(input, NOW, true);
    }
    (protocol, step)
}

fn called() -> [Input; 4] {
    let joined = Input::Joined(LaunchPart::alone("a", 1));
    [Input::Claim(claim(None, false)), Input::Prepared(Ok(())), joined, Input::Claim(claim(None, false))]
}

#[test]
fn a_claim_that_has_got_an_instance_is_not_launched_for_again() {
    let (mut protocol, step) = after(called().into_iter().take(3));
    assert!(matches!(step, LaunchStep::WriteToken(_)));
    let step = protocol.step(Input::Claim(claim(Some("i-1"), false)), NOW, true);
    assert_eq!(step, LaunchStep::End(LaunchEnd::Launched { uid: "a".into() }));
    assert!(!takes_token(&claim(Some("i-1"), false)) && !takes_token(&claim(None, true)));
    assert!(takes_token(&claim(None, false)));
}

#[test]
fn instance_is_never_replaced_and_the_extra_is_left_to_janitor() {
    let (mut protocol, step) =
        after(called().into_iter().chain([Input::Called(LaunchCallResult::Launched("i-2".into()))]));
    assert_eq!(step, LaunchStep::WriteInstance { id: "i-2".into(), adopted: false });
    assert!(!takes_instance(&claim(Some("i-1"), false), "i-2") && takes_instance(&claim(Some("i-2"), false), "i-2"));
    let step = protocol.step(Input::Claim(claim(Some("i-1"), false)), NOW, true);
    assert_eq!(step, LaunchStep::End(LaunchEnd::Launched { uid: "a".into() }));
}

#[test]
fn unwritable_claim_that_may_have_an_instance_is_deleted() {
    let launched = called().into_iter().chain([Input::Called(LaunchCallResult::Launched("i-2".into()))]);
    for heard in [launched.collect::<Vec<_>>(), called().into_iter().take(3).collect()] {
        let (mut protocol, _) = after(heard);
        assert_eq!(protocol.step(Input::Failed(ApiFailure::Refused), NOW, true), LaunchStep::Read);
        assert_eq!(protocol.step(Input::Claim(claim(None, false)), NOW, true), LaunchStep::Remove("refused"));
        let mut refused = protocol.clone();
        assert_eq!(protocol.step(Input::Done, NOW, true), LaunchStep::End(LaunchEnd::Deleting));
        assert_eq!(refused.step(Input::Failed(ApiFailure::Refused), NOW, true), LaunchStep::End(LaunchEnd::Refused));
    }
}

#[test]
fn failed_claim_creation_ends_refused_lost_or_deposed() {
    for (why, end) in [
        (ApiFailure::Refused, LaunchEnd::Refused),
        (ApiFailure::Gone, LaunchEnd::Lost { at_once: false }),
        (ApiFailure::Deposed, LaunchEnd::Deposed),
    ] {
        let mut protocol = Protocol::new(true);
        assert_eq!(protocol.step(Input::Begin, NOW, true), LaunchStep::Create);
        assert_eq!(protocol.step(Input::Failed(why), NOW, true), LaunchStep::End(end));
    }
}

/// A launch whose first call came to nobody knows what, and is made again.
fn unsure() -> (Protocol, String) {
    let (mut protocol, first) = after(called());
    let LaunchStep::Call { token, .. } = first else { panic!("{first:?}") };
    protocol.step(Input::Called(LaunchCallResult::Unknown), NOW, true);
    let late = NOW + Duration::from_secs(10);
    assert_eq!(protocol.step(Input::Looked(late, Some(Vec::new())), late, true), LaunchStep::Rest(Pause::Call));
    protocol.step(Input::Done, late, true);
    let again = protocol.step(Input::Claim(claim(None, false)), late, true);
    assert_eq!(again, LaunchStep::Call { token: token.clone(), number: (1, 2) });
    (protocol, token)
}

#[test]
fn failure_after_a_call_of_unknown_outcome_still_looks_by_token() {
    for failure in [LaunchCallResult::Never, LaunchCallResult::TokenUsed] {
        let (mut protocol, token) = unsure();
        assert_eq!(protocol.step(Input::Called(failure.clone()), NOW, true), LaunchStep::Look(token));
        let soon = NOW + Duration::from_secs(59);
        assert_eq!(protocol.step(Input::Looked(soon, Some(Vec::new())), soon, true), LaunchStep::Rest(Pause::Look));
        protocol.step(Input::Done, soon, true);
        let late = NOW + Duration::from_secs(60);
        let mut found = protocol.clone();
        let step = found.step(Input::Looked(late, Some(vec!["i-1".into()])), late, true);
        assert_eq!(step, LaunchStep::WriteInstance { id: "i-1".into(), adopted: true });
        assert_eq!(protocol.step(Input::Looked(late, Some(Vec::new())), late, true), LaunchStep::WriteFailure);
        assert_eq!(protocol.step(Input::Claim(claim(None, false)), late, true), LaunchStep::Rest(Pause::Attempt));
        assert_eq!(protocol.step(Input::Done, late, true), LaunchStep::Prepare, "{failure:?}");
        // The next attempt is sure of its own calls.
        assert_eq!(protocol.step(Input::Prepared(Ok(())), late, true), LaunchStep::Join(2));
        let part = LaunchPart::alone("a", 2);
        assert_eq!(protocol.step(Input::Joined(part.clone()), late, true), LaunchStep::WriteToken(part));
        protocol.step(Input::Claim(claim(None, false)), late, true);
        assert_eq!(protocol.step(Input::Called(LaunchCallResult::Never), late, true), LaunchStep::WriteFailure);
    }
    let (mut protocol, _) = unsure();
    let nothing = LaunchCallResult::NothingToBeHad { reason: "insufficient_capacity", at_once: true };
    assert_eq!(protocol.step(Input::Called(nothing), NOW, true), LaunchStep::Remove("insufficient_capacity"));
}

#[test]
fn a_token_that_was_used_for_something_else_is_looked_for() {
    let (mut protocol, first) = after(called());
    let LaunchStep::Call { token, .. } = first else { panic!("{first:?}") };
    assert_eq!(protocol.step(Input::Called(LaunchCallResult::TokenUsed), NOW, true), LaunchStep::Look(token));
}

#[test]
fn answer_that_says_nothing_is_looked_for_then_claim_goes() {
    let (mut protocol, first) = after(called());
    let LaunchStep::Call { token, .. } = first else { panic!("{first:?}") };
    assert_eq!(protocol.step(Input::Called(LaunchCallResult::Unsaid), NOW, true), LaunchStep::Look(token));
    let late = NOW + Duration::from_secs(60);
    let mut found = protocol.clone();
    let step = found.step(Input::Looked(NOW, Some(vec!["i-1".into()])), NOW, true);
    assert_eq!(step, LaunchStep::WriteInstance { id: "i-1".into(), adopted: true });
    assert_eq!(
        protocol.step(Input::Looked(late, Some(Vec::new())), late, true),
        LaunchStep::Remove("launch_unknown"),
        "its pods may find something else meanwhile"
    );
    assert_eq!(protocol.step(Input::Done, late, true), LaunchStep::End(LaunchEnd::Deleting));
}

#[test]
fn unanswered_call_is_looked_for_then_repeated_with_its_token() {
    let (mut protocol, first) = after(called());
    let LaunchStep::Call { token, number: (1, 1) } = first else { panic!("{first:?}") };
    assert_eq!(protocol.step(Input::Called(LaunchCallResult::Unknown), NOW, true), LaunchStep::Look(token.clone()));
    let late = NOW + Duration::from_secs(10);
    assert_eq!(protocol.step(Input::Looked(late, Some(Vec::new())), late, true), LaunchStep::Rest(Pause::Call));
    assert_eq!(protocol.step(Input::Done, late, true), LaunchStep::Read);
    let mut deleted = protocol.clone();
    assert_eq!(deleted.step(Input::Claim(claim(None, true)), late, true), LaunchStep::End(LaunchEnd::Deleting));
    let again = protocol.step(Input::Claim(claim(None, false)), late, true);
    assert_eq!(again, LaunchStep::Call { token, number: (1, 2) });
}

#[test]
fn no_call_is_begun_after_the_deadline() {
    let (mut protocol, _) = after(called().into_iter().take(3));
    let written = Input::Claim(claim(None, false));
    assert_eq!(protocol.step(written, NOW, false), LaunchStep::End(LaunchEnd::Deposed));
}

/// A launch in a call for two claims, which is about to be made.
fn in_shared_call() -> (Protocol, String) {
    let part = share(["a", "b"], 1).remove(0);
    let joined = Input::Joined(part.clone());
    let written = Input::Claim(claim(None, false));
    let (protocol, step) = after([Input::Claim(claim(None, false)), Input::Prepared(Ok(())), joined, written]);
    assert_eq!(step, LaunchStep::Call { token: part.token.clone(), number: (1, 1) });
    (protocol, part.token)
}

#[test]
fn call_that_others_have_left_is_another_attempt() {
    let (mut protocol, token) = in_shared_call();
    let mut sure = protocol.clone();
    // Nothing can have been launched: at once.
    assert_eq!(sure.step(Input::Called(LaunchCallResult::Regroup), NOW, true), LaunchStep::Prepare);
    assert_eq!(sure.step(Input::Prepared(Ok(())), NOW, true), LaunchStep::Join(2));
    protocol.step(Input::Called(LaunchCallResult::Unknown), NOW, true);
    let late = NOW + Duration::from_secs(10);
    protocol.step(Input::Looked(late, Some(Vec::new())), late, true);
    protocol.step(Input::Done, late, true);
    protocol.step(Input::Claim(claim(None, false)), late, true);
    // Something may have been: EC2's describes are waited for.
    assert_eq!(protocol.step(Input::Called(LaunchCallResult::Regroup), late, true), LaunchStep::Look(token));
    let sure = late + Duration::from_secs(60);
    assert_eq!(protocol.step(Input::Looked(sure, Some(Vec::new())), sure, true), LaunchStep::Prepare);
    assert_eq!(protocol.step(Input::Prepared(Ok(())), sure, true), LaunchStep::Join(2));
}

#[test]
fn attempt_of_a_call_is_later_than_those_of_its_claims() {
    let (mut protocol, _) = after(called().into_iter().take(2));
    let part = share(["a", "b"], 5).remove(0);
    assert_eq!(protocol.step(Input::Joined(part.clone()), NOW, true), LaunchStep::WriteToken(part));
    protocol.step(Input::Claim(claim(None, false)), NOW, true);
    assert_eq!(protocol.step(Input::Called(LaunchCallResult::Never), NOW, true), LaunchStep::WriteFailure);
    protocol.step(Input::Claim(claim(None, false)), NOW, true);
    protocol.step(Input::Done, NOW, true);
    assert_eq!(protocol.step(Input::Prepared(Ok(())), NOW, true), LaunchStep::Join(6));
}

#[test]
fn deleted_claim_gets_its_share_of_a_call_for_several() {
    let token = share(["a", "b"], 1).remove(0).token;
    let going = |token: &str| Claimed { token: Some(token.to_owned()), ..claim(None, true) };
    let (mut protocol, step) = after([Input::Claim(going(&token))]);
    assert_eq!(step, LaunchStep::Look(token.clone()));
    let mut found = protocol.clone();
    let step = found.step(Input::Looked(NOW, Some(vec!["i-1".into()])), NOW, true);
    assert_eq!(step, LaunchStep::WriteInstance { id: "i-1".into(), adopted: true });
    let late = NOW + Duration::from_secs(60);
    let step = protocol.step(Input::Looked(late, Some(Vec::new())), late, true);
    assert_eq!(step, LaunchStep::End(LaunchEnd::Deleting));
    let alone = LaunchPart::alone("a", 1).token;
    assert_eq!(after([Input::Claim(going(&alone))]).1, LaunchStep::End(LaunchEnd::Deleting), "the terminator finds it");
    let (mut own, token) = in_shared_call();
    own.step(Input::Called(LaunchCallResult::Unknown), NOW, true);
    own.step(Input::Looked(late, Some(Vec::new())), late, true);
    own.step(Input::Done, late, true);
    assert_eq!(own.step(Input::Claim(claim(None, true)), late, true), LaunchStep::Look(token));
}
