//! The election, exhaustively: every order in which two or three candidates can look, write, be answered, wait, give up or be
//! forgotten, and in which the Lease can be deleted, over the same `step` that runs. Time is in ticks: a Lease lasts three, a
//! leader's deadline is two after it asked. All histories up to a horizon, with so many deletions and so many requests whose
//! answer comes late or never or that arrive after they were given up, are followed; states that are alike are followed once.
//! docs/decisions/011 has the reasoning that this checks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use dovetail_core::lease::{Election, LeaseInput, LeaseOutput, LeaseSettings, LeaseView, LeaseWrite};
use rustc_hash::{FxBuildHasher, FxHashSet};

const SETTINGS: LeaseSettings = LeaseSettings { duration: ticks(3), renew_deadline: ticks(2), retry: ticks(1) };

const fn ticks(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A write on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Request {
    write: LeaseWrite,
    asked: Duration,
}

#[derive(Clone, Debug, Hash)]
struct Candidate {
    election: Election,
    /// What it waits for: sent, not yet there.
    sent: Option<Request>,
    /// Answered, not yet heard.
    answer: Option<LeaseInput>,
    /// Given up by the candidate, and it may still arrive.
    late: Option<Request>,
    looked: bool,
}

#[derive(Clone, Debug, Hash)]
struct World {
    now: u64,
    lease: Option<LeaseView>,
    version: u64,
    newest: u64,
    deletions: u32,
    losses: u32,
    all: Vec<Candidate>,
}

/// How far histories are followed.
struct Bounds {
    candidates: usize,
    horizon: u64,
    deletions: u32,
    losses: u32,
}

impl World {
    fn new(bounds: &Bounds) -> Self {
        // One leads from the start; the others have heard of it. The first Lease of a cluster is another story.
        let lease =
            LeaseView { holder: "c0".into(), term: 1, duration: SETTINGS.duration, resource_version: "1".into() };
        let candidate = |number| {
            let mut election = Election::new(format!("c{number}"), SETTINGS);
            election.saw_term(1);
            if number == 0 {
                election.step(LeaseInput::Wrote { lease: lease.clone(), asked: ticks(0) }, ticks(0));
            }
            Candidate { election, sent: None, answer: None, late: None, looked: false }
        };
        let all = (0..bounds.candidates).map(candidate).collect();
        let (deletions, losses) = (bounds.deletions, bounds.losses);
        Self { now: 0, lease: Some(lease), version: 1, newest: 1, deletions, losses, all }
    }

    fn time(&self) -> Duration {
        ticks(self.now)
    }

    /// What the API server makes of a write.
    fn apply(&mut self, request: &Request, by: usize) -> LeaseInput {
        let there = self.lease.as_ref().map(|lease| lease.resource_version.clone());
        if there != request.write.resource_version {
            return LeaseInput::Failed;
        }
        self.version += 1;
        if request.write.acquires {
            assert!(request.write.term > self.newest, "LE-2: term {} after {}", request.write.term, self.newest);
            self.newest = request.write.term;
        }
        let lease = LeaseView {
            holder: format!("c{by}"),
            term: request.write.term,
            duration: SETTINGS.duration,
            resource_version: self.version.to_string(),
        };
        self.lease = Some(lease.clone());
        LeaseInput::Wrote { lease, asked: request.asked }
    }

    fn hear(&mut self, number: usize, input: LeaseInput) {
        let now = self.time();
        let one = &mut self.all[number];
        if let LeaseOutput::Write(write) = one.election.step(input, now) {
            one.sent = Some(Request { write, asked: now });
        }
    }

    /// LE-1.
    fn check(&self) {
        let leads = |one: &&Candidate| one.election.leads().is_some_and(|(_, until)| self.time() < until);
        assert!(self.all.iter().filter(leads).count() <= 1, "LE-1: {self:#?}");
    }

    /// Everything that can happen next.
    fn next(&self, horizon: u64, then: &mut impl FnMut(World)) {
        if self.now < horizon {
            let mut world = self.clone();
            world.now += 1;
            world.all.iter_mut().for_each(|one| one.looked = false);
            then(world);
        }
        if self.deletions > 0 && self.lease.is_some() {
            let mut world = self.clone();
            (world.lease, world.deletions, world.version) = (None, world.deletions - 1, world.version + 1);
            then(world);
        }
        for number in 0..self.all.len() {
            self.next_of(number, then);
        }
    }

    fn next_of(&self, number: usize, then: &mut impl FnMut(World)) {
        let one = &self.all[number];
        if one.sent.is_none() && one.answer.is_none() && !one.looked {
            let mut world = self.clone();
            world.all[number].looked = true;
            world.hear(number, LeaseInput::Read(self.lease.clone()));
            then(world);
        }
        if let Some(request) = &one.sent {
            // It arrives, and is answered at once.
            let mut world = self.clone();
            world.all[number].sent = None;
            let answer = world.apply(request, number);
            world.hear(number, answer);
            then(world);
            // Or its answer takes long.
            if self.losses > 0 {
                let mut world = self.clone();
                world.losses -= 1;
                world.all[number].sent = None;
                world.all[number].answer = Some(world.apply(request, number));
                then(world);
            }
            // It is given up, and may arrive later or never.
            if one.late.is_none() && self.losses > 0 {
                let mut world = self.clone();
                world.losses -= 1;
                world.all[number].late = world.all[number].sent.take();
                world.hear(number, LeaseInput::Failed);
                then(world);
            }
        }
        if let Some(answer) = &one.answer {
            // It is heard, or lost.
            for input in [answer.clone(), LeaseInput::Failed] {
                let mut world = self.clone();
                world.all[number].answer = None;
                world.hear(number, input);
                then(world);
            }
        }
        if let Some(request) = &one.late {
            let mut world = self.clone();
            world.all[number].late = None;
            let _ = world.apply(request, number);
            then(world);
        }
    }
}

/// Follows everything; answers how many states there are, and in how many somebody leads.
fn explore(bounds: &Bounds) -> (usize, usize) {
    let (mut seen, mut led) = (FxHashSet::default(), 0);
    let mut open = vec![World::new(bounds)];
    while let Some(world) = open.pop() {
        world.check();
        led += usize::from(world.all.iter().any(|one| one.election.leads().is_some()));
        world.next(bounds.horizon, &mut |next| {
            if seen.insert(FxBuildHasher.hash_one(&next)) {
                open.push(next);
            }
        });
    }
    (seen.len(), led)
}

fn holds(bounds: &Bounds) {
    let (states, led) = explore(bounds);
    println!("{} candidates: {states} states, somebody leads in {led}", bounds.candidates);
    assert!(states > 90_000 && led > states / 20, "{states} states, {led} led");
}

#[test]
fn two_candidates_and_a_lease_deleted_twice_never_make_two_leaders_or_a_term_twice() {
    holds(&Bounds { candidates: 2, horizon: 7, deletions: 2, losses: 0 });
}

#[test]
fn two_candidates_of_whom_one_is_not_answered_never_make_two_leaders_or_a_term_twice() {
    holds(&Bounds { candidates: 2, horizon: 5, deletions: 1, losses: 1 });
}

#[test]
fn three_candidates_and_a_lease_that_is_deleted_never_make_two_leaders_or_a_term_twice() {
    holds(&Bounds { candidates: 3, horizon: 4, deletions: 1, losses: 0 });
}

/// `cargo xtask proof model`.
#[test]
#[ignore = "minutes and gigabytes"]
fn further() {
    holds(&Bounds { candidates: 2, horizon: 10, deletions: 3, losses: 0 });
    holds(&Bounds { candidates: 2, horizon: 7, deletions: 1, losses: 2 });
    holds(&Bounds { candidates: 3, horizon: 5, deletions: 1, losses: 1 });
}
