//! A call to the cloud that is made for several claims: who is in it, when it goes out, and who gets which instance.
//!
//! ```text
//! coming ──its token is written──► here ──all are here or have left──► the call ──► answered: each has an instance, or the reason
//!    └──────deleted, or refused──► left                                  ▲   └──► looked for by the token: each has one, or none
//!                                                                        └──────── coming again, all of them ◄──┘
//! ```
//!
//! Instances are given in the order of their ids to claims in the order of their numbers, and none that a claim has or was given.
//! All that are in the call are equal, so that any of the instances does for any of the claims; what has to hold is that no
//! instance is given twice. Whoever leads gives them in one place, and a successor writes its term on each claim that waits before
//! it gives any: a write of an earlier leader that comes later rests on an older version of the claim, and is refused.
//!
//! Invariants: SC-1 the call goes out when the token is on each claim that it is made for, and for as many instances; SC-2 it is
//! repeated for the same claims only: with one of them gone, the others begin another attempt; SC-3 no instance is given to two
//! claims, nor two to one claim.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Pause without another claim after which a call is made, while others are on their way: Karpenter's.
const IDLE: Duration = Duration::from_millis(35);
/// Number of the longest pauses between claims so far that end a burst too.
const PAUSES: u32 = 3;
/// Longest time that the first claim of a call waits for others: Karpenter's.
const LONGEST: Duration = Duration::from_secs(1);

/// The time in which claims join in one call. Times are monotonic.
#[derive(Clone, Copy, Debug)]
pub struct JoinWindow {
    opened: Duration,
    last: Duration,
    longest: Duration,
}

impl JoinWindow {
    /// A claim is the first.
    #[must_use]
    pub fn opened(now: Duration) -> Self {
        Self { opened: now, last: now, longest: Duration::ZERO }
    }

    /// Another claim joins.
    pub fn joins(&mut self, now: Duration) {
        self.longest = self.longest.max(now.saturating_sub(self.last));
        self.last = now;
    }

    /// The time at which it closes if nobody joins before; at once if nobody is on the way.
    #[must_use]
    pub fn closes_at(&self, others_come: bool, now: Duration) -> Duration {
        if !others_come {
            return now;
        }
        (self.last + IDLE.max(self.longest * PAUSES)).min(self.opened + LONGEST)
    }
}

/// Standing of a claim in the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Standing {
    /// It will be in the next call, once it is here.
    Coming,
    Here,
    /// It waits for an instance of calls that were made, and is in none that is to come.
    Waiting,
    Left,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Member {
    standing: Standing,
    /// Its instance's id.
    given: Option<String>,
}

/// The step that the call waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallStep {
    /// Some are coming.
    Wait,
    /// The call goes out for so many instances.
    Send(u32),
    /// Some that the call was made for have left: it is not made again.
    Regroup,
}

/// A call for several claims, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct SharedCall {
    members: BTreeMap<u32, Member>,
    /// Claims that the call was made for.
    sent: Option<BTreeSet<u32>>,
    /// Instances of claims that have theirs already.
    taken: BTreeSet<String>,
}

impl SharedCall {
    /// A call that is to be made for these.
    #[must_use]
    pub fn new(numbers: impl IntoIterator<Item = u32>) -> Self {
        let member = |number| (number, Member { standing: Standing::Coming, given: None });
        Self { members: numbers.into_iter().map(member).collect(), ..Self::default() }
    }

    /// A claim waits for an instance of a call that was made by somebody else, or before it was left alone.
    pub fn waits(&mut self, number: u32) {
        let member = self.members.entry(number).or_insert(Member { standing: Standing::Waiting, given: None });
        member.standing = Standing::Waiting;
    }

    /// The token is on a claim, and nothing else keeps the call from being made for it. Answers false if the call has gone out
    /// without it.
    pub fn arrives(&mut self, number: u32) -> bool {
        let is_in = self.sent.as_ref().is_none_or(|sent| sent.contains(&number));
        if let Some(member) = self.members.get_mut(&number).filter(|_| is_in) {
            member.standing = Standing::Here;
        }
        is_in
    }

    /// Those that are still coming are waited for no longer.
    pub fn goes_on(&mut self) {
        self.members.values_mut().filter(|one| one.standing == Standing::Coming).for_each(|one| {
            one.standing = Standing::Left;
        });
    }

    /// A claim is out of it: it is going, is refused, or has its instance.
    pub fn leaves(&mut self, number: u32) {
        if let Some(member) = self.members.get_mut(&number) {
            member.standing = Standing::Left;
        }
    }

    /// The next step.
    #[must_use]
    pub fn next(&self) -> CallStep {
        if self.members.values().any(|one| one.standing == Standing::Coming) {
            return CallStep::Wait;
        }
        let here = self.here();
        match &self.sent {
            _ if here.is_empty() => CallStep::Wait,
            Some(sent) if *sent != here => CallStep::Regroup,
            _ => CallStep::Send(u32::try_from(here.len()).unwrap_or(u32::MAX)),
        }
    }

    fn here(&self) -> BTreeSet<u32> {
        let here = self.members.iter().filter(|(_, one)| one.standing == Standing::Here);
        here.map(|(number, _)| *number).collect()
    }

    /// The call goes out.
    pub fn sends(&mut self) {
        self.sent = Some(self.here());
    }

    /// The call was answered, or nobody knows: whoever was in it goes on by itself, and comes again if it is to be repeated.
    pub fn answered(&mut self, launched: &[String]) {
        let here = self.here();
        self.members.values_mut().filter(|one| one.standing == Standing::Here).for_each(|one| {
            one.standing = Standing::Coming;
        });
        self.give_to(launched, |number| here.contains(number));
    }

    /// Claims have these instances.
    pub fn takes(&mut self, ids: impl IntoIterator<Item = String>) {
        self.taken.extend(ids);
    }

    /// Gives instances that were found.
    pub fn give(&mut self, ids: &[String]) {
        self.give_to(ids, |_| true);
    }

    fn give_to(&mut self, ids: &[String], is_meant: impl Fn(&u32) -> bool) {
        let given: BTreeSet<&String> = self.members.values().filter_map(|one| one.given.as_ref()).collect();
        let free: BTreeSet<&String> =
            ids.iter().filter(|id| !given.contains(id) && !self.taken.contains(*id)).collect();
        let free: Vec<String> = free.into_iter().cloned().collect();
        let waits = |(number, one): &(&u32, &mut Member)| {
            one.given.is_none() && one.standing != Standing::Left && is_meant(number)
        };
        for ((_, member), id) in self.members.iter_mut().filter(waits).zip(free) {
            member.given = Some(id);
        }
    }

    /// The instance that a claim was given.
    #[must_use]
    pub fn given(&self, number: u32) -> Option<&str> {
        self.members.get(&number)?.given.as_deref()
    }

    /// True if no claim is in it any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.members.values().all(|one| one.standing == Standing::Left)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    fn given(call: &SharedCall, count: u32) -> Vec<Option<&str>> {
        (0..count).map(|number| call.given(number)).collect()
    }

    #[test]
    fn call_waits_for_all_and_is_made_for_those_that_came() {
        let mut call = SharedCall::new(0..3);
        call.arrives(0);
        call.arrives(2);
        assert_eq!(call.next(), CallStep::Wait);
        call.leaves(1);
        assert_eq!(call.next(), CallStep::Send(2));
        call.sends();
        call.answered(&ids(&["i-2", "i-1"]));
        assert_eq!(given(&call, 3), [Some("i-1"), None, Some("i-2")]);
    }

    #[test]
    fn call_goes_out_without_a_claim_that_does_not_come() {
        let mut call = SharedCall::new(0..3);
        call.arrives(0);
        call.arrives(1);
        call.goes_on();
        assert_eq!(call.next(), CallStep::Send(2));
        call.sends();
        assert!(!call.arrives(2), "it was not made for this one");
        call.answered(&ids(&["i-1"]));
        assert_eq!(given(&call, 3), [Some("i-1"), None, None]);
        assert!(call.arrives(0) && call.arrives(1));
        assert_eq!(call.next(), CallStep::Send(2));
    }

    #[test]
    fn claim_alone_never_waits_and_a_burst_ends_by_its_own_pace() {
        let at = Duration::from_millis;
        let mut window = JoinWindow::opened(at(100));
        assert_eq!(window.closes_at(false, at(100)), at(100));
        assert_eq!(window.closes_at(true, at(100)), at(135));
        window.joins(at(120));
        assert_eq!(window.closes_at(true, at(120)), at(180), "three pauses of twenty");
        window.joins(at(170));
        assert_eq!(window.closes_at(true, at(170)), at(320));
        window.joins(at(900));
        assert_eq!(window.closes_at(true, at(900)), at(1100), "a second after the first");
        assert_eq!(window.closes_at(false, at(900)), at(900), "all are there");
    }

    #[test]
    fn call_is_repeated_for_the_same_claims_only() {
        let mut call = SharedCall::new(0..2);
        call.arrives(0);
        call.arrives(1);
        call.sends();
        call.answered(&[]);
        call.arrives(1);
        assert_eq!(call.next(), CallStep::Wait, "the other is still to come");
        call.arrives(0);
        assert_eq!(call.next(), CallStep::Send(2));
        call.sends();
        call.answered(&[]);
        call.leaves(0);
        call.arrives(1);
        assert_eq!(call.next(), CallStep::Regroup);
        call.leaves(1);
        assert!(call.is_over() && call.next() == CallStep::Wait);
    }

    #[test]
    fn no_instance_is_given_twice_and_none_that_a_claim_has() {
        let mut call = SharedCall::new(0..3);
        call.takes(ids(&["i-3"]));
        call.give(&ids(&["i-5", "i-3"]));
        assert_eq!(given(&call, 3), [Some("i-5"), None, None]);
        // One that is listed late comes to the next, though its id is lower.
        call.give(&ids(&["i-1", "i-3", "i-5"]));
        assert_eq!(given(&call, 3), [Some("i-5"), Some("i-1"), None]);
        call.give(&ids(&["i-1", "i-3", "i-5"]));
        assert_eq!(given(&call, 3), [Some("i-5"), Some("i-1"), None]);
        call.leaves(2);
        call.give(&ids(&["i-7"]));
        assert_eq!(call.given(2), None, "it waits for nothing any more");
        call.waits(2);
        call.give(&ids(&["i-7"]));
        assert_eq!(call.given(2), Some("i-7"));
    }
}
