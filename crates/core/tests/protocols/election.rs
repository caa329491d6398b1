//! The election over random histories: two to five candidates, each with a clock of its own, pauses, requests that are
//! slow, lost, or done without an answer, and a Lease that somebody deletes. LE-1 to LE-3 hold in every one, and once
//! all is calm somebody leads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::time::Duration;

use dovetail_core::lease::{Election, LeaseInput, LeaseOutput, LeaseSettings, LeaseView, LeaseWrite, TermOrigin};
use proptest::prelude::*;

/// One tick of the history.
const TICK: u64 = 100;
/// Length of a run in ticks; nothing goes wrong in its last part.
const LENGTH: u64 = 3000;
const CALM: u64 = 900;
/// A Lease is stale when it was written so many ticks ago.
const STALE: u64 = 150;
/// Restores that take fifteen seconds, of backups from before.
const OLD: (u64, u64) = (STALE, STALE);
/// Restores that take seven seconds or more, of any backup.
const YOUNG: (u64, u64) = (70, 0);
/// Ticks that a candidate waits for an answer.
const PATIENCE: u64 = 40;

/// The API server's one Lease.
#[derive(Default)]
struct Server {
    lease: Option<LeaseView>,
    version: u64,
    terms: Vec<u64>,
    now: u64,
    written: u64,
    /// It is being restored until then.
    down: u64,
    /// Shortest time that a restore takes, and least age of a backup, in ticks.
    restores: (u64, u64),
    /// Every Lease that there was, and when it was written.
    copies: Vec<(LeaseView, u64)>,
}

#[derive(Clone, Debug)]
enum Call {
    Read,
    Write { write: LeaseWrite, asked: Duration },
}

/// A request under way: done at one tick, answered at another.
#[derive(Clone, Debug)]
struct Request {
    call: Call,
    arrives: u64,
    answered: u64,
    lost: bool,
    given_up: u64,
    answer: Option<LeaseInput>,
}

struct Candidate {
    name: String,
    election: Election,
    /// Its clock: where it began, and how fast it goes in thousandths.
    origin: u64,
    speed: u64,
    paused_until: u64,
    next_look: u64,
    /// Requests that may still arrive, the last one being waited for.
    requests: Vec<Request>,
    waiting: bool,
}

impl Server {
    fn act(&mut self, call: &Call, by: &str) -> LeaseInput {
        let Call::Write { write, asked } = call else {
            let stale = self.now > self.written + STALE;
            return LeaseInput::Read(self.lease.clone().map(|lease| LeaseView { stale, ..lease }));
        };
        let there = self.lease.as_ref().map(|lease| lease.resource_version.clone());
        if there != write.resource_version {
            return LeaseInput::Failed;
        }
        self.version += 1;
        if write.acquires {
            self.terms.push(write.term);
        }
        let lease = LeaseView {
            holder: by.into(),
            term: write.term,
            duration: LeaseSettings::default().duration,
            resource_version: self.version.to_string(),
            origin: write.origin(),
            stale: false,
        };
        self.lease = Some(lease.clone());
        self.written = self.now;
        self.copies.push((lease.clone(), self.now));
        LeaseInput::Wrote { lease, asked: *asked }
    }
}

impl Server {
    /// An earlier Lease is there again.
    fn restore(&mut self, chance: &mut Chance) {
        let (least, age) = self.restores;
        let old = |(lease, written): &&(LeaseView, u64)| self.now > written + age && lease.term > 0;
        let copies: Vec<_> = self.copies.iter().filter(old).cloned().collect();
        if let Some((lease, written)) = chance.rng.choice(copies) {
            (self.lease, self.written) = (Some(lease), written);
            self.version += 1_000;
            self.down = self.now + chance.rng.u64(least..=STALE);
        }
    }
}

impl Server {
    /// Somebody who may write the Lease puts numbers there that no leader writes.
    fn forge(&mut self, chance: &mut Chance) {
        let Some(lease) = &mut self.lease else { return };
        self.version += 1;
        let terms = [i32::MAX as u64, i32::MAX as u64 - 1, (1 << 31) - (1 << 20), 2_000_000_000];
        lease.term = chance.rng.choice(terms).unwrap_or_default();
        if lease.origin == TermOrigin::Vacant {
            lease.origin = TermOrigin::Led;
        }
        lease.duration = Duration::from_secs(chance.rng.choice([1, 15, i32::MAX as u64]).unwrap_or(15));
        if chance.rng.bool() {
            lease.holder = chance.rng.choice(["", "c0", "c1"]).unwrap_or_default().into();
        }
        lease.resource_version = self.version.to_string();
    }
}

impl Request {
    fn cut(&mut self) {
        if self.answer.is_none() {
            (self.arrives, self.lost) = (u64::MAX, true);
        }
    }
}

impl Candidate {
    fn now(&self, tick: u64) -> Duration {
        Duration::from_millis(self.origin + tick * TICK * self.speed / 1000)
    }

    /// True if it may act: it runs, and its own clock is before its deadline.
    fn acts(&self, tick: u64) -> bool {
        let before = self.election.leads().is_some_and(|(_, until)| self.now(tick) < until);
        before && tick >= self.paused_until
    }

    fn send(&mut self, call: Call, tick: u64, chance: &mut Chance) {
        let (there, back) = (chance.delay(tick), chance.delay(tick));
        let lost = chance.loses(tick);
        let (arrives, answered) = (tick + there, tick + there + back);
        self.requests.push(Request { call, arrives, answered, lost, given_up: tick + PATIENCE, answer: None });
        self.waiting = true;
    }

    fn deliver(&mut self, tick: u64, chance: &mut Chance) -> Result<(), TestCaseError> {
        let Some(last) = self.requests.last().filter(|_| self.waiting) else { return Ok(()) };
        let input = match &last.answer {
            // An answer that was read before a sleep says nothing of the Lease as it is now.
            Some(LeaseInput::Read(_)) if tick >= last.given_up => LeaseInput::Failed,
            Some(answer) if tick >= last.answered && !last.lost => answer.clone(),
            _ if tick >= last.given_up => LeaseInput::Failed,
            _ => return Ok(()),
        };
        self.waiting = false;
        self.step(input, tick, chance)
    }

    fn step(&mut self, input: LeaseInput, tick: u64, chance: &mut Chance) -> Result<(), TestCaseError> {
        let read = match &input {
            LeaseInput::Read(lease) => Some(lease.as_ref().map(|lease| lease.resource_version.clone())),
            // The first Lease of a cluster is taken on what came back from its creation.
            LeaseInput::Wrote { lease, .. } => Some(Some(lease.resource_version.clone())),
            _ => None,
        };
        match self.election.step(input, self.now(tick)) {
            LeaseOutput::Write(write) => {
                prop_assert_eq!(Some(write.resource_version.clone()), read, "LE-3");
                let asked = self.now(tick);
                self.send(Call::Write { write, asked }, tick, chance);
            }
            _ => self.next_look = tick + 20,
        }
        Ok(())
    }
}

/// All chance of a history.
struct Chance {
    rng: fastrand::Rng,
    slow: u64,
    losses: u64,
}

impl Chance {
    fn delay(&mut self, tick: u64) -> u64 {
        let most = if tick + CALM < LENGTH { self.slow } else { 1 };
        self.rng.u64(0..=most)
    }

    fn loses(&mut self, tick: u64) -> bool {
        tick + CALM < LENGTH && self.rng.u64(0..100) < self.losses
    }
}

#[allow(clippy::too_many_lines)] // one history, step by step
fn history(
    seed: u64,
    count: usize,
    slow: u64,
    losses: u64,
    (deletions, restores, backups): (u64, u64, (u64, u64)),
    (pauses, forgeries): (u64, u64),
) -> Result<(), TestCaseError> {
    let mut chance = Chance { rng: fastrand::Rng::with_seed(seed), slow, losses };
    let mut server = Server { restores: backups, ..Server::default() };
    let mut all: Vec<Candidate> = (0..count)
        .map(|n| Candidate {
            name: format!("c{n}"),
            election: Election::new(format!("c{n}"), LeaseSettings::default()),
            origin: chance.rng.u64(0..1_000_000),
            speed: chance.rng.u64(990..=1010),
            paused_until: 0,
            next_look: chance.rng.u64(0..30),
            requests: Vec::new(),
            waiting: false,
        })
        .collect();
    let mut led = BTreeSet::new();
    for tick in 0..LENGTH {
        let wild = tick + CALM < LENGTH;
        if wild && deletions > 0 && tick > 300 && chance.rng.u64(0..3000) < deletions {
            server.lease = None;
        }
        server.now = tick;
        if wild && restores > 0 && tick > 600 && chance.rng.u64(0..3000) < restores {
            server.restore(&mut chance);
        }
        if wild && forgeries > 0 && chance.rng.u64(0..3000) < forgeries {
            server.forge(&mut chance);
        }
        for one in &mut all {
            // Claims that somebody has led to are known to all by now.
            if deletions > 0 && tick == 250 {
                one.election.saw_term(1);
            }
            if wild && chance.rng.u64(0..10_000) < pauses {
                one.paused_until = tick + chance.rng.u64(1..400).min(LENGTH - CALM - tick);
            }
            // Requests on their way end with the API server that they were sent to.
            if tick < server.down {
                one.requests.iter_mut().for_each(Request::cut);
            }
            // Requests on their way arrive even if their sender does not run.
            for request in one.requests.iter_mut().filter(|request| request.answer.is_none() && tick >= request.arrives)
            {
                request.answer = Some(server.act(&request.call, &one.name));
            }
            if tick < one.paused_until {
                continue;
            }
            one.election.step(LeaseInput::Time, one.now(tick));
            one.deliver(tick, &mut chance)?;
            if !one.waiting && tick >= one.next_look {
                one.send(Call::Read, tick, &mut chance);
            }
            if one.waiting {
                one.requests.retain(|request| request.answer.is_none() || tick < request.given_up + 1);
            }
        }
        let acting: Vec<_> =
            all.iter().filter(|one| one.acts(tick)).map(|one| (&one.name, one.election.leads())).collect();
        prop_assert!(acting.len() <= 1, "LE-1: at tick {tick} {acting:?} act");
        led.extend(acting.iter().filter_map(|(_, leads)| leads.map(|(term, _)| term)));
    }
    prop_assert!(server.terms.windows(2).all(|pair| pair[0] < pair[1]), "LE-2: {:?}", server.terms);
    prop_assert!(all.iter().any(|one| one.acts(LENGTH - 1)), "nobody leads once all is calm");
    prop_assert!(!led.is_empty());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn whatever_goes_wrong_one_leads_at_a_time_and_terms_rise(
        seed in any::<u64>(), count in 1..=5_usize, slow in 0..30_u64, losses in 0..40_u64, pauses in 0..40_u64,
    ) {
        history(seed, count, slow, losses, (0, 0, OLD), (pauses, 0))?;
    }

    #[test]
    fn a_lease_that_is_deleted_makes_no_second_leader(
        seed in any::<u64>(), count in 2..=5_usize, slow in 0..20_u64, losses in 0..20_u64, deletions in 1..10_u64,
        pauses in 0..20_u64,
    ) {
        history(seed, count, slow, losses, (deletions, 0, OLD), (pauses, 0))?;
    }

    #[test]
    fn a_lease_out_of_a_backup_makes_no_second_leader(
        seed in any::<u64>(), count in 2..=5_usize, slow in 0..10_u64, losses in 0..10_u64, restores in 1..6_u64,
        pauses in 0..40_u64,
    ) {
        history(seed, count, slow, losses, (0, restores, OLD), (pauses, 0))?;
    }

    #[test]
    fn lease_from_young_backup_makes_no_second_leader_after_outage(
        seed in any::<u64>(), count in 2..=5_usize, slow in 0..10_u64, losses in 0..10_u64, restores in 1..6_u64,
        pauses in 0..40_u64,
    ) {
        history(seed, count, slow, losses, (0, restores, YOUNG), (pauses, 0))?;
    }

    #[test]
    fn forged_lease_numbers_make_no_second_leader_and_block_none(
        seed in any::<u64>(), count in 1..=5_usize, slow in 0..20_u64, losses in 0..20_u64, forgeries in 1..20_u64,
        pauses in 0..20_u64,
    ) {
        history(seed, count, slow, losses, (0, 0, OLD), (pauses, forgeries))?;
    }
}
