//! The election, exhaustively: every order in which two or three candidates can look, write, be answered, wait, give up or be
//! forgotten, release the Lease, or be started again under their names, and in which the Lease can be deleted, and held by
//! other software that elects its leader client-go's way, over the same `step` that runs. Time is in ticks: a Lease lasts three, a
//! leader's deadline is two after it asked. All histories up to a horizon, with so many deletions and so many requests whose
//! answer comes late or never or that arrive after they were given up, are followed; states that are alike are followed once.
//! docs/decisions/011 has the reasoning that this checks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use dovetail_core::lease::{Election, LeaseInput, LeaseOutput, LeaseSettings, LeaseView, LeaseWrite, TermOrigin};
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
    /// The request that it waits for: sent, not yet there.
    sent: Option<Request>,
    /// Answered, not yet heard.
    answer: Option<LeaseInput>,
    /// Given up by the candidate, and it may still arrive.
    late: Option<Request>,
    looked: bool,
}

/// Defects that a world can have, so that the checks are seen to find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Broken {
    /// The API server takes a write whatever resourceVersion it rests on.
    Versions,
    /// A leader counts its deadline from the answer.
    Deadline,
    /// A Lease that other software has created is read as taken by a Dovetail.
    Origins,
}

/// Most faults of each kind that a history may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Faults {
    deletions: u32,
    losses: u32,
    /// A replica is started again under its name; a leader releases the Lease before.
    restarts: u32,
    /// Writes by other software.
    foreign: u32,
    /// Somebody writes a term into the Lease that no leader can have had.
    forgeries: u32,
}

#[derive(Clone, Debug, Hash)]
struct World {
    now: u64,
    lease: Option<LeaseView>,
    version: u64,
    newest: u64,
    left: Faults,
    /// Until when other software may lead.
    foreign_until: u64,
    all: Vec<Candidate>,
    broken: Option<Broken>,
    wrong: Option<&'static str>,
}

/// Bounds within which histories are followed.
#[derive(Clone, Copy, Default)]
struct Bounds {
    candidates: usize,
    horizon: u64,
    faults: Faults,
    /// Nobody has ever led; otherwise one leads from the start.
    empty: bool,
    broken: Option<Broken>,
}

const FOREIGN: &str = "karpenter";
/// The end of `leaseTransitions`.
const FORGED: u64 = i32::MAX as u64;

impl World {
    fn new(bounds: &Bounds) -> Self {
        let lease = LeaseView {
            holder: "c0".into(),
            term: 1,
            duration: SETTINGS.duration,
            resource_version: "1".into(),
            origin: TermOrigin::Led,
            stale: false,
        };
        let candidate = |number| {
            let mut election = Election::new(format!("c{number}"), SETTINGS);
            if !bounds.empty {
                election.saw_term(1);
            }
            if number == 0 && !bounds.empty {
                election.step(LeaseInput::Wrote { lease: lease.clone(), asked: ticks(0) }, ticks(0));
            }
            Candidate { election, sent: None, answer: None, late: None, looked: false }
        };
        let all = (0..bounds.candidates).map(candidate).collect();
        let newest = u64::from(!bounds.empty);
        let (lease, left, broken) = ((!bounds.empty).then_some(lease), bounds.faults, bounds.broken);
        Self { now: 0, lease, version: 1, newest, left, foreign_until: 0, all, broken, wrong: None }
    }

    fn time(&self) -> Duration {
        ticks(self.now)
    }

    fn is_broken(&self, how: Broken) -> bool {
        self.broken == Some(how)
    }

    /// Applies a write as the API server does, and returns its answer.
    fn apply(&mut self, request: &Request, by: usize) -> LeaseInput {
        let there = self.lease.as_ref().map(|lease| lease.resource_version.clone());
        if there != request.write.resource_version && !self.is_broken(Broken::Versions) {
            return LeaseInput::Failed;
        }
        if request.write.acquires {
            if request.write.term <= self.newest {
                self.wrong = Some("LE-2");
            }
            if self.now < self.foreign_until {
                self.wrong = Some("taken from other software that leads");
            }
            self.newest = request.write.term;
        }
        self.write(&format!("c{by}"), request.write.term, request.write.origin());
        let asked = request.asked;
        self.lease.clone().map_or(LeaseInput::Failed, |lease| LeaseInput::Wrote { lease, asked })
    }

    fn write(&mut self, holder: &str, term: u64, origin: TermOrigin) {
        self.version += 1;
        let (duration, resource_version) = (SETTINGS.duration, self.version.to_string());
        self.lease = Some(LeaseView { holder: holder.into(), term, duration, resource_version, origin, stale: false });
    }

    fn hear(&mut self, number: usize, mut input: LeaseInput) {
        let now = self.time();
        if let (true, LeaseInput::Wrote { asked, .. }) = (self.is_broken(Broken::Deadline), &mut input) {
            *asked = now;
        }
        let one = &mut self.all[number];
        if let LeaseOutput::Write(write) = one.election.step(input, now) {
            one.sent = Some(Request { write, asked: now });
        }
    }

    /// LE-1.
    fn check(&mut self) {
        let leads = |one: &&Candidate| one.election.leads().is_some_and(|(_, until)| self.time() < until);
        if self.all.iter().filter(leads).count() > 1 {
            self.wrong = Some("LE-1");
        }
    }

    /// Everything that can happen next.
    fn next(&self, horizon: u64, then: &mut impl FnMut(World)) {
        if self.now < horizon {
            let mut world = self.clone();
            world.now += 1;
            world.all.iter_mut().for_each(|one| one.looked = false);
            then(world);
        }
        if self.left.deletions > 0 && self.lease.is_some() {
            let mut world = self.clone();
            (world.lease, world.version) = (None, world.version + 1);
            world.left.deletions -= 1;
            then(world);
        }
        if self.left.foreign > 0 {
            self.next_of_foreign(then);
        }
        if self.left.forgeries > 0 {
            self.next_of_forger(then);
        }
        for number in 0..self.all.len() {
            self.next_of(number, then);
            if self.left.restarts > 0 {
                self.restart(number, then);
            }
        }
    }

    /// Other software creates the Lease when there is none, leads at once, renews, and releases.
    fn next_of_foreign(&self, then: &mut impl FnMut(World)) {
        let mut world = self.clone();
        world.left.foreign -= 1;
        match &self.lease {
            None => world.write(FOREIGN, 0, TermOrigin::Foreign),
            Some(lease) if lease.holder == FOREIGN => {
                let (term, origin) = (lease.term, lease.origin);
                let mut released = world.clone();
                released.write("", term, origin);
                // As client-go does: to let others in soon.
                released.lease.iter_mut().for_each(|lease| lease.duration = ticks(1));
                released.foreign_until = 0;
                then(released);
                world.write(FOREIGN, term, origin);
            }
            // Released by us: it takes what it finds, and counts on.
            Some(lease) if lease.holder.is_empty() => {
                let origin = if lease.origin == TermOrigin::Led { TermOrigin::Led } else { TermOrigin::Foreign };
                world.write(FOREIGN, lease.term + 1, origin);
            }
            Some(_) => return,
        }
        // client-go stops at its renew deadline.
        world.foreign_until = self.now + 2;
        then(world);
    }

    /// Somebody who may write the Lease patches its term, or its holder too; what is marked as vacant is then read as led.
    fn next_of_forger(&self, then: &mut impl FnMut(World)) {
        let Some(lease) = &self.lease else { return };
        let origin = if lease.origin == TermOrigin::Foreign { TermOrigin::Foreign } else { TermOrigin::Led };
        for holder in [lease.holder.as_str(), "", "c1"] {
            let mut world = self.clone();
            world.left.forgeries -= 1;
            world.write(holder, FORGED, origin);
            then(world);
        }
    }

    /// A replica ends, and another begins under its name that knows nothing. What it has sent may still arrive.
    fn restart(&self, number: usize, then: &mut impl FnMut(World)) {
        let mut world = self.clone();
        world.left.restarts -= 1;
        let name = format!("c{number}");
        let one = &mut world.all[number];
        let led = one.election.leads().map(|(term, _)| term);
        let late = one.sent.take().or_else(|| one.late.take());
        *one = Candidate { election: Election::new(&name, SETTINGS), sent: None, answer: None, late, looked: false };
        if let Some(lease) = self.lease.as_ref().filter(|lease| led == Some(lease.term) && lease.holder == name) {
            let mut released = world.clone();
            released.write("", lease.term, lease.origin);
            then(released);
        }
        then(world);
    }

    fn read(&self) -> LeaseInput {
        let mut lease = self.lease.clone();
        if let Some(lease) = lease.as_mut().filter(|lease| lease.term == 0 && self.is_broken(Broken::Origins)) {
            lease.origin = TermOrigin::Led;
        }
        LeaseInput::Read(lease)
    }

    fn next_of(&self, number: usize, then: &mut impl FnMut(World)) {
        let one = &self.all[number];
        if one.sent.is_none() && one.answer.is_none() && !one.looked {
            let mut world = self.clone();
            world.all[number].looked = true;
            if self.lease.is_none() {
                // The claims know the newest term.
                world.all[number].election.saw_term(self.newest);
            }
            world.hear(number, self.read());
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
            if self.left.losses > 0 {
                let mut world = self.clone();
                world.left.losses -= 1;
                world.all[number].sent = None;
                world.all[number].answer = Some(world.apply(request, number));
                then(world);
            }
            // It is given up, and may arrive later or never.
            if one.late.is_none() && self.left.losses > 0 {
                let mut world = self.clone();
                world.left.losses -= 1;
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

/// Follows everything; answers how many states there are, and in how many somebody leads, or the first that is wrong.
fn explore(bounds: &Bounds) -> Result<(usize, usize), Box<(&'static str, World)>> {
    let (mut seen, mut led) = (FxHashSet::default(), 0);
    let mut open = vec![World::new(bounds)];
    while let Some(mut world) = open.pop() {
        world.check();
        if let Some(wrong) = world.wrong {
            return Err(Box::new((wrong, world)));
        }
        led += usize::from(world.all.iter().any(|one| one.election.leads().is_some()));
        world.next(bounds.horizon, &mut |next| {
            if seen.insert(FxBuildHasher.hash_one(&next)) {
                open.push(next);
            }
        });
    }
    Ok((seen.len(), led))
}

fn holds(bounds: &Bounds) {
    let (states, led) = explore(bounds).unwrap_or_else(|found| panic!("{}: {:#?}", found.0, found.1));
    println!("{} candidates: {states} states, somebody leads in {led}", bounds.candidates);
    assert!(states > 90_000 && led > states / 20, "{states} states, {led} led");
}

fn finds(bounds: &Bounds) -> &'static str {
    explore(bounds).map_err(|found| found.0).expect_err("something is wrong")
}

const NONE: Faults = Faults { deletions: 0, losses: 0, restarts: 0, foreign: 0, forgeries: 0 };

#[test]
fn two_candidates_with_lease_deleted_twice_keep_one_leader() {
    let faults = Faults { deletions: 2, ..NONE };
    holds(&Bounds { candidates: 2, horizon: 7, faults, ..Bounds::default() });
}

#[test]
fn two_candidates_with_a_lost_answer_keep_one_leader() {
    let faults = Faults { deletions: 1, losses: 1, ..NONE };
    holds(&Bounds { candidates: 2, horizon: 5, faults, ..Bounds::default() });
}

#[test]
fn three_candidates_with_a_deleted_lease_keep_one_leader() {
    let faults = Faults { deletions: 1, ..NONE };
    holds(&Bounds { candidates: 3, horizon: 4, faults, ..Bounds::default() });
}

#[test]
fn two_candidates_that_release_and_restart_keep_one_leader() {
    let faults = Faults { deletions: 1, restarts: 2, ..NONE };
    holds(&Bounds { candidates: 2, horizon: 4, faults, ..Bounds::default() });
}

#[test]
fn first_lease_of_a_cluster_keeps_one_leader_and_unique_terms() {
    // Without deletions: decision 011 says what is left open where the very first Lease is deleted.
    let faults = Faults { losses: 2, restarts: 1, ..NONE };
    holds(&Bounds { candidates: 2, horizon: 3, faults, empty: true, ..Bounds::default() });
}

#[test]
fn lease_held_by_other_software_is_not_taken_before_it_stops() {
    let faults = Faults { deletions: 1, foreign: 3, ..NONE };
    holds(&Bounds { candidates: 2, horizon: 6, faults, ..Bounds::default() });
    // Also where that has created it between two deletions of which nobody has heard.
    let faults = Faults { deletions: 2, foreign: 1, ..NONE };
    holds(&Bounds { candidates: 2, horizon: 6, faults, ..Bounds::default() });
}

#[test]
fn forged_term_keeps_one_leader_and_unique_terms() {
    let faults = Faults { forgeries: 2, ..NONE };
    holds(&Bounds { candidates: 2, horizon: 7, faults, ..Bounds::default() });
    let faults = Faults { forgeries: 1, deletions: 1, losses: 1, ..NONE };
    holds(&Bounds { candidates: 2, horizon: 4, faults, ..Bounds::default() });
    // Also where other software takes what is left by it.
    let faults = Faults { forgeries: 1, foreign: 2, ..NONE };
    holds(&Bounds { candidates: 2, horizon: 6, faults, ..Bounds::default() });
}

#[test]
fn an_api_server_that_heeds_no_resource_version_is_found() {
    let bounds = Bounds { candidates: 2, horizon: 6, broken: Some(Broken::Versions), ..Bounds::default() };
    assert!(matches!(finds(&bounds), "LE-1" | "LE-2"));
}

#[test]
fn a_deadline_that_is_counted_from_the_answer_is_found() {
    let (faults, broken) = (Faults { losses: 2, ..NONE }, Some(Broken::Deadline));
    assert_eq!(finds(&Bounds { candidates: 2, horizon: 7, faults, broken, ..Bounds::default() }), "LE-1");
}

#[test]
fn other_software_s_lease_that_is_read_as_led_is_found() {
    let faults = Faults { deletions: 1, foreign: 3, ..NONE };
    let bounds = Bounds { candidates: 2, horizon: 6, faults, broken: Some(Broken::Origins), ..Bounds::default() };
    // It has released it, of which who led before its creation has not heard.
    assert_eq!(finds(&bounds), "LE-1");
}

/// `cargo xtask proof model`.
#[test]
#[ignore = "minutes and gigabytes"]
fn further() {
    let bounds = |candidates, horizon, faults| Bounds { candidates, horizon, faults, ..Bounds::default() };
    holds(&bounds(2, 9, Faults { deletions: 3, ..NONE }));
    holds(&bounds(2, 10, Faults { deletions: 2, ..NONE }));
    holds(&bounds(2, 7, Faults { deletions: 1, losses: 2, ..NONE }));
    holds(&bounds(2, 5, Faults { deletions: 1, losses: 1, restarts: 2, ..NONE }));
    holds(&bounds(2, 6, Faults { deletions: 2, foreign: 4, ..NONE }));
    holds(&bounds(2, 7, Faults { deletions: 2, foreign: 3, ..NONE }));
    holds(&bounds(3, 5, Faults { deletions: 1, losses: 1, ..NONE }));
    holds(&bounds(2, 8, Faults { forgeries: 2, deletions: 1, ..NONE }));
    holds(&Bounds { empty: true, ..bounds(2, 4, Faults { losses: 2, restarts: 1, ..NONE }) });
    holds(&Bounds { empty: true, ..bounds(3, 3, Faults { losses: 1, restarts: 1, ..NONE }) });
}
