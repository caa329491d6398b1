//! The launch, exhaustively: every order in which two or three candidates can lead, stand still, crash, be deposed, list, create,
//! call, look, write and collect, in which requests to EC2 and to the API server can arrive, late or never, and answers
//! be lost, over the same decisions that run: the election, the launch's protocol, the terminator's and the janitor's.
//! All histories up to a horizon, with so many faults, are followed; states that are alike are followed once; and from
//! each that stands at the horizon on, nothing more goes wrong and all has to be well in the end.
//! docs/decisions/020 has what is modelled and what is not.
//!
//! LM-1 no call begins after the holder's deadline, nor with a token that is not on each of its claims; LM-2 a claim has one living
//! instance, or one more for each time that EC2 did not know its own token, but for those that were launched when the
//! claim had gone on without them; LM-3 each need has one claim; LM-4 an instance that is on a claim is never replaced nor
//! collected; LM-5 in the end every claim has its instance and every instance its claim; LM-6 no
//! instance is on two claims.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod calm;
mod replica;
mod world;

use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;

use dovetail_core::lease::{LeaseInput, LeaseView, TermOrigin};
use dovetail_core::lifecycle::protocol::LaunchCallResult;
use rustc_hash::{FxBuildHasher, FxHashSet};

use replica::Candidate;
use world::{Broken, Cloud, Faults, SETTINGS, World, ticks};

/// The next thing that happens in a history.
#[derive(Clone, Copy, Debug)]
enum Event {
    Tick,
    Look(usize),
    Alarm(usize),
    Crash(usize),
    Hear(usize),
    Plan(usize),
    Notice(usize, usize),
    /// The launches that have come so far are one call.
    Join(usize),
    Act(usize),
    /// The request of a launch's next step is given up and may still arrive.
    GivenUp(usize, usize),
    Terminate,
    Sweep(usize),
    /// A CreateFleet arrives.
    Fleet(usize, Fate),
    /// Whoever waits for its answer gives up.
    Unanswered(usize),
    Write(usize),
    Delete(usize),
}

/// Result of a CreateFleet in EC2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Launched {
        lags: bool,
        lost: bool,
    },
    /// One instance fewer than asked for.
    Fewer,
    NothingToBeHad,
    Later,
    Never,
}

const FATES: [Fate; 8] = [
    Fate::Launched { lags: false, lost: false },
    Fate::Launched { lags: true, lost: false },
    Fate::Launched { lags: false, lost: true },
    Fate::Launched { lags: true, lost: true },
    Fate::Fewer,
    Fate::NothingToBeHad,
    Fate::Later,
    Fate::Never,
];

/// Bounds within which histories are followed.
#[derive(Clone, Copy)]
struct Bounds {
    candidates: usize,
    /// Claims that are needed at the same time.
    needs: usize,
    horizon: u64,
    cloud: Cloud,
    broken: Option<Broken>,
    faults: Faults,
}

impl World {
    /// One leads from the start, and no claim is there yet.
    fn new(bounds: &Bounds) -> Self {
        let lease = LeaseView {
            holder: "c0".into(),
            term: 1,
            duration: SETTINGS.duration,
            resource_version: "1".into(),
            origin: TermOrigin::Led,
            stale: false,
        };
        let mut all: Vec<Candidate> = (0..bounds.candidates).map(Candidate::new).collect();
        all[0].election.step(LeaseInput::Wrote { lease: lease.clone(), asked: ticks(0) }, ticks(0));
        all[0].lead(1);
        for one in all.iter_mut().skip(1) {
            one.election.step(LeaseInput::Read(Some(lease.clone())), ticks(0));
        }
        Self {
            now: 0,
            cloud: bounds.cloud,
            broken: bounds.broken,
            faults: bounds.faults,
            lease,
            claims: Vec::new(),
            instances: Vec::new(),
            calls: Vec::new(),
            writes: Vec::new(),
            all,
            needs: bounds.needs,
            repeats: BTreeMap::new(),
            excused: BTreeMap::new(),
            orders: 0,
            sent: 0,
            slipped: 0,
            wrong: None,
        }
    }

    /// Everything that can happen next.
    fn events(&self, then: &mut impl FnMut(Event)) {
        let faults = &self.faults;
        then(Event::Tick);
        for number in 0..self.all.len() {
            self.events_of(number, then);
        }
        for at in 0..self.calls.len() {
            FATES.iter().filter(|fate| self.may_be(at, **fate)).for_each(|fate| then(Event::Fleet(at, *fate)));
            if self.calls[at].by.is_some() && faults.late > 0 {
                then(Event::Unanswered(at));
            }
        }
        (0..self.writes.len()).for_each(|at| then(Event::Write(at)));
        for at in (0..self.claims.len()).filter(|at| faults.deleted > 0 && self.claims[*at].lives()) {
            then(Event::Delete(at));
        }
        let leads = (0..self.all.len()).any(|number| self.acts(number));
        if leads && self.claims.iter().any(|one| !one.gone && one.deleting.is_some()) {
            then(Event::Terminate);
        }
    }

    fn events_of(&self, number: usize, then: &mut impl FnMut(Event)) {
        let one = &self.all[number];
        if !one.looked {
            then(Event::Look(number));
        }
        if one.election.leads().is_some_and(|(_, until)| self.time() >= until) {
            then(Event::Alarm(number));
        }
        if one.term.is_some() && self.faults.crashes > 0 {
            then(Event::Crash(number));
        }
        if self.can_hear(number) {
            then(Event::Hear(number));
        }
        if self.can_plan(number) {
            then(Event::Plan(number));
        }
        for claim in (0..self.claims.len()).filter(|claim| self.can_notice(number, *claim)) {
            then(Event::Notice(number, claim));
        }
        if self.can_join(number) {
            then(Event::Join(number));
        }
        if self.turn(number).is_some() {
            then(Event::Act(number));
        }
        // Writes to different claims are made side by side: any of them may be the one that comes late.
        for at in (0..one.runs.len()).filter(|at| self.faults.late > 0 && self.request(number, *at).is_some()) {
            then(Event::GivenUp(number, at));
        }
        // A pass that can see nothing but claims with their instances, and no orphan before, changes nothing.
        if self.acts(number) && one.caught_up && !one.swept && !self.instances.is_empty() {
            then(Event::Sweep(number));
        }
    }

    fn may_be(&self, at: usize, fate: Fate) -> bool {
        let (call, faults) = (&self.calls[at], &self.faults);
        let served = self.remembers(&call.client);
        match fate {
            Fate::Launched { lags, lost } => {
                (!lags || (faults.lags > 0 && !served)) && (!lost || (faults.lost > 0 && call.by.is_some()))
            }
            Fate::Fewer => faults.refused > 0 && !served && call.count > 1,
            Fate::NothingToBeHad => faults.refused > 0 && !served,
            Fate::Later | Fate::Never => faults.refused > 0 && !served && call.by.is_some(),
        }
    }

    fn after(&self, event: Event) -> World {
        let mut world = self.clone();
        match event {
            Event::Tick => world.tick(),
            Event::Look(number) => world.look(number),
            Event::Alarm(number) => world.alarm(number),
            Event::Crash(number) => {
                world.faults.crashes -= 1;
                world.crash(number);
            }
            Event::Hear(number) => world.hear_of_claims(number),
            Event::Plan(number) => world.plan(number),
            Event::Notice(number, claim) => world.begin(number, Some(claim), 0),
            Event::Join(number) => world.join(number),
            Event::Act(number) => world.act(number),
            Event::GivenUp(number, at) => {
                world.faults.late -= 1;
                let request = self.request(number, at);
                world.writes.extend(request);
            }
            Event::Terminate => {
                for at in (0..world.claims.len()).filter(|at| self.claims[*at].deleting.is_some()) {
                    if !world.claims[at].gone {
                        world.terminate(at);
                    }
                }
            }
            Event::Sweep(number) => world.sweep(number),
            Event::Fleet(at, fate) => world.arrives(at, fate),
            Event::Unanswered(at) => {
                world.faults.late -= 1;
                if let Some(number) = world.calls[at].by.take() {
                    let token = world.calls[at].tag.clone();
                    world.answered(number, &token, &[], &LaunchCallResult::Unknown);
                }
            }
            Event::Write(at) => {
                let write = world.writes.remove(at);
                world.arrive_late(&write);
            }
            Event::Delete(at) => {
                world.faults.deleted -= 1;
                world.delete(at);
            }
        }
        world
    }

    fn arrives(&mut self, at: usize, fate: Fate) {
        let call = self.calls.remove(at);
        let nothing = LaunchCallResult::NothingToBeHad { reason: "insufficient_capacity", at_once: true };
        let (launched, rest) = match fate {
            Fate::Launched { lags, lost } => {
                self.faults.lags -= u8::from(lags);
                self.faults.lost -= u8::from(lost);
                let launched = self.launch(&call, lags, call.count);
                (if lost { Vec::new() } else { launched }, LaunchCallResult::Unknown)
            }
            refused => {
                self.faults.refused -= 1;
                match refused {
                    Fate::Fewer => (self.launch(&call, false, call.count - 1), nothing),
                    Fate::Later => (Vec::new(), LaunchCallResult::Later),
                    Fate::Never => (Vec::new(), LaunchCallResult::Never),
                    _ => (Vec::new(), nothing),
                }
            }
        };
        if let Some(number) = call.by {
            self.answered(number, &call.tag, &launched, &rest);
        }
    }
}

/// Counts of a walk over all histories.
#[derive(Debug, Default)]
struct Walk {
    states: usize,
    /// States at the horizon, each followed until all is calm.
    ends: usize,
    launched: usize,
    taken_over: usize,
    doubled: usize,
}

/// A violation, and the history that leads to it.
#[derive(Debug)]
struct Counterexample {
    what: String,
    history: Vec<String>,
}

/// Follows everything, the shortest histories first.
fn walk(bounds: &Bounds) -> Result<Walk, Counterexample> {
    let mut seen = FxHashSet::default();
    let mut came: Vec<(u32, Event)> = vec![(0, Event::Tick)];
    let mut open = VecDeque::from([(World::new(bounds), 0_u32)]);
    let mut calm = FxHashSet::default();
    let mut walked = Walk::default();
    while let Some((world, place)) = open.pop_front() {
        let calms = || if world.now == bounds.horizon { world.calms_down(&mut calm) } else { Ok(()) };
        if let Err(what) = world.wrong.clone().map_or_else(calms, Err) {
            return Err(Counterexample { what, history: history(&came, place) });
        }
        walked.states += 1;
        walked.ends += usize::from(world.now == bounds.horizon);
        walked.launched += usize::from(world.claims.iter().any(|one| one.instance.is_some()));
        walked.taken_over += usize::from(world.lease.term > 1);
        walked.doubled += usize::from(world.instances.iter().filter(|one| one.alive).count() > 1);
        if world.now == bounds.horizon {
            continue;
        }
        world.events(&mut |event| {
            let next = world.after(event);
            if seen.insert(FxBuildHasher.hash_one(&next)) {
                came.push((place, event));
                open.push_back((next, u32::try_from(came.len() - 1).unwrap()));
            }
        });
    }
    Ok(walked)
}

fn history(came: &[(u32, Event)], mut place: u32) -> Vec<String> {
    let mut events = Vec::new();
    while place > 0 {
        let (before, event) = came[usize::try_from(place).unwrap()];
        events.push(format!("{event:?}"));
        place = before;
    }
    events.reverse();
    events
}

const NONE: Faults = Faults { crashes: 0, lost: 0, late: 0, refused: 0, lags: 0, deleted: 0 };
const TWO: Bounds = Bounds { candidates: 2, needs: 1, horizon: 4, cloud: Cloud::Heeds, broken: None, faults: NONE };

fn holds(what: &str, bounds: &Bounds) {
    let walked = walk(bounds).unwrap_or_else(|found| panic!("{what}: {}: {:#?}", found.what, found.history));
    println!("{what}: {walked:?}");
    let Walk { states, ends, launched, taken_over, .. } = walked;
    assert!(states > 10_000 && ends > 1_000 && launched > 1_000 && taken_over > 1_000, "{walked:?}");
}

#[test]
fn paused_leaders_past_deadline_leave_nothing_twice_or_behind() {
    holds("two, pauses", &Bounds { horizon: 5, ..TWO });
}

#[test]
fn lost_answer_and_late_listing_make_no_second_instance() {
    holds("two, lost and lagging", &Bounds { faults: Faults { lost: 1, lags: 1, ..NONE }, ..TWO });
}

#[test]
fn late_request_is_adopted_or_its_instance_collected() {
    holds("two, late", &Bounds { faults: Faults { late: 1, ..NONE }, ..TWO });
}

#[test]
fn leader_crash_at_any_point_leaves_nothing_twice_or_behind() {
    holds("two, crash", &Bounds { horizon: 3, faults: Faults { crashes: 1, lost: 1, ..NONE }, ..TWO });
}

#[test]
fn refused_launch_and_deleted_claim_leave_nothing_behind() {
    let bounds =
        Bounds { horizon: 3, candidates: 1, faults: Faults { refused: 1, deleted: 1, lost: 1, ..NONE }, ..TWO };
    let walked = walk(&bounds).unwrap_or_else(|found| panic!("{found:#?}"));
    println!("one, refused and deleted: {walked:?}");
    assert!(walked.launched > 1_000 && walked.ends > 1_000, "{walked:?}");
}

#[test]
fn cloud_ignoring_tokens_makes_extra_instances_to_be_collected() {
    let faults = Faults { lost: 1, lags: 1, ..NONE };
    holds("two, tokens not heeded", &Bounds { cloud: Cloud::Heedless, faults, ..TWO });
}

#[test]
fn three_candidates_leave_nothing_twice_and_nothing_behind() {
    holds("three, pauses", &Bounds { candidates: 3, ..TWO });
}

/// Two claims that are needed at the same time, and may be in one call; who leads may crash and lead again. The horizon is near: all
/// goes wrong within a tick, and what becomes of each state is followed to the end.
const MERGED: Bounds = Bounds { candidates: 1, needs: 2, horizon: 1, ..TWO };

fn holds_merged(what: &str, bounds: &Bounds) {
    let walked = walk(bounds).unwrap_or_else(|found| panic!("{what}: {}: {:#?}", found.what, found.history));
    println!("{what}: {walked:?}");
    assert!(walked.ends > 100 && walked.launched > 100 && walked.doubled > 100, "{walked:?}");
    assert!(bounds.horizon == 1 || walked.taken_over > 100 || bounds.faults.crashes == 0, "{walked:?}");
}

#[test]
fn paused_leaders_leave_nothing_twice_of_a_call_for_two() {
    holds_merged("two for two claims, pauses", &Bounds { candidates: 2, horizon: 3, ..MERGED });
}

#[test]
fn lost_answer_and_late_listing_divide_a_call_once() {
    let faults = Faults { lost: 1, lags: 1, crashes: 1, ..NONE };
    holds_merged("one for two claims, lost, lagging, crash", &Bounds { faults, ..MERGED });
}

#[test]
fn late_write_of_an_old_leader_gives_no_instance_twice() {
    let faults = Faults { late: 1, lags: 1, crashes: 1, ..NONE };
    // Two ticks of it take minutes (`further`); the walk without the take-over goes as far.
    holds_merged("one for two claims, late, lagging, crash", &Bounds { faults, ..MERGED });
}

#[test]
fn fewer_instances_and_a_deleted_claim_leave_nothing_behind() {
    let faults = Faults { refused: 1, deleted: 1, lost: 1, ..NONE };
    holds_merged("one for two claims, refused, deleted, lost", &Bounds { faults, ..MERGED });
}

#[test]
fn claim_deleted_before_or_after_a_crash_costs_no_other_its_own() {
    let faults = Faults { deleted: 1, crashes: 1, ..NONE };
    holds_merged("one for two claims, deleted, crash", &Bounds { faults, ..MERGED });
}

#[test]
fn call_for_three_claims_is_divided_once() {
    let faults = Faults { crashes: 1, ..NONE };
    holds_merged("one for three claims, crash", &Bounds { needs: 3, faults, ..MERGED });
}

/// Checks that the walk finds `what` of a call for two claims where something is taken away.
fn finds_merged(broken: Broken, faults: Faults, what: &str) {
    let found = walk(&Bounds { broken: Some(broken), faults, horizon: 2, ..MERGED }).expect_err("nothing is found");
    println!("{broken:?}: {}: {:?}", found.what, found.history);
    assert!(found.what.contains(what), "{found:#?}");
}

#[test]
fn walk_finds_one_instance_on_two_claims_without_take_over() {
    finds_merged(Broken::NoTakeOver, Faults { late: 1, lags: 1, crashes: 1, ..NONE }, "is on claims");
}

#[test]
fn walk_finds_one_instance_on_two_claims_if_given_anew() {
    finds_merged(Broken::GivesAnew, Faults { crashes: 1, ..NONE }, "is on claims");
}

#[test]
fn walk_finds_an_end_of_anothers_instance_by_a_shared_token() {
    finds_merged(Broken::EndsShared, Faults { deleted: 1, ..NONE }, "the terminator ends instance");
}

#[test]
fn walk_finds_a_call_before_its_token_is_on_each_claim() {
    finds_merged(Broken::CallsEarly, NONE, "token is not on claim");
}

#[test]
fn walk_finds_a_call_made_again_for_a_claim_that_left() {
    finds_merged(Broken::RepeatsForAll, Faults { late: 1, deleted: 1, ..NONE }, "which has left it");
}

/// Checks that the walk finds `what` where something is taken away.
fn finds(broken: Broken, faults: Faults, what: &str) {
    let bounds = Bounds { horizon: 5, broken: Some(broken), faults, ..TWO };
    let found = walk(&bounds).expect_err("nothing is found");
    println!("{broken:?}: {}: {:?}", found.what, found.history);
    assert!(found.what.contains(what), "{found:#?}");
}

#[test]
fn the_walk_finds_two_claims_for_one_need_without_the_fence() {
    finds(Broken::NoFence, Faults { late: 1, ..NONE }, "one need has 2 claims");
}

#[test]
fn walk_finds_a_call_after_the_deadline_if_none_is_kept() {
    finds(Broken::NoDeadline, NONE, "its deadline was");
}

#[test]
fn the_walk_finds_two_instances_of_a_claim_without_the_token() {
    finds(Broken::NoToken, Faults { lost: 1, lags: 1, ..NONE }, "claim 0 has 2 instances");
}

#[test]
fn walk_finds_two_instances_where_adoption_is_forgotten() {
    finds(Broken::ForgottenAdoption, Faults { crashes: 1, ..NONE }, "claim 0 has 2 instances");
}

#[test]
fn walk_finds_two_instances_where_a_resend_changes_its_token() {
    finds(Broken::DoubleResend, Faults { lost: 1, ..NONE }, "claim 0 has 2 instances");
}

/// `cargo xtask proof model`.
#[test]
#[ignore = "minutes and gigabytes"]
fn further() {
    let late = Faults { late: 1, ..NONE };
    let crash = Faults { crashes: 1, ..NONE };
    holds("two, pauses", &Bounds { horizon: 8, ..TWO });
    holds("two, late", &Bounds { horizon: 6, faults: late, ..TWO });
    holds("two, late and lost", &Bounds { horizon: 5, faults: Faults { lost: 1, ..late }, ..TWO });
    holds("two, crash", &Bounds { horizon: 6, faults: crash, ..TWO });
    holds("two, late, tokens forgotten", &Bounds { horizon: 5, cloud: Cloud::Forgets, faults: late, ..TWO });
    holds("three, pauses", &Bounds { candidates: 3, horizon: 6, ..TWO });
    holds("three, late", &Bounds { candidates: 3, faults: late, ..TWO });
    holds("three, crash", &Bounds { candidates: 3, faults: crash, ..TWO });
    holds("two for two claims, pauses", &Bounds { horizon: 4, candidates: 2, ..MERGED });
    let late = Faults { lags: 1, ..late };
    let crashed = Faults { crashes: 1, ..late };
    holds_merged("one for two claims, late, lagging, crash", &Bounds { faults: crashed, horizon: 2, ..MERGED });
    holds_merged("one for two claims, late, lagging", &Bounds { faults: late, horizon: 3, ..MERGED });
    let deleted = Faults { deleted: 1, ..crash };
    holds_merged("one for two claims, deleted, crash", &Bounds { faults: deleted, horizon: 2, ..MERGED });
    holds_merged("one for three claims, crash", &Bounds { needs: 3, horizon: 2, faults: crash, ..MERGED });
}
