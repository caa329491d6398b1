//! A candidate: its election, and what its actors do while it leads. The decisions are those that run; here they are
//! carried out as the actors do it.

use std::time::Duration;

use dovetail_api::names::TERMINATION_FINALIZER;
use dovetail_api::names::annotations::{LAUNCH_PLACE, LAUNCH_TOKEN};
use dovetail_api::names::conditions::{LAUNCHED, TRUE};
use dovetail_api::v1::{NewCondition, NodeClaim, NodeClaimSpec, set_condition};
use dovetail_core::collection::{Collector, InstanceOwner, SeenClaim, SeenInstance, Survey};
use dovetail_core::lease::{Election, LeaseInput, LeaseOutput};
use dovetail_core::lifecycle::protocol::{ApiFailure, Input, LaunchCallResult, LaunchEnd, LaunchStep, Protocol};
use dovetail_core::lifecycle::shared_call::{CallStep, SharedCall};
use dovetail_core::ownership::token::{LaunchPart, is_shared, share};
use dovetail_core::termination::claim::{self, ClaimStep};
use dovetail_core::termination::instance::{Handle, InstanceObservation, handle_of};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::world::{Answer, Broken, Fleet, MORE_CLAIMS, Refusal, SETTINGS, TICK, World, Write};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    pub election: Election,
    pub looked: bool,
    /// Its actors run in this term.
    pub term: Option<u64>,
    /// It has listed the claims and plans.
    pub caught_up: bool,
    /// The API server has told it that a newer term has begun.
    pub ended: bool,
    /// Claims that it knows to be there.
    pub known: u8,
    /// Its launches, in the order in which they have begun.
    pub runs: Vec<Run>,
    /// Calls for several claims, or for one, that its launches are about.
    pub calls: Vec<Shared>,
    pub collector: Collector,
    pub swept: bool,
}

/// A launch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    protocol: Protocol,
    /// The step that is to be done next, or is under way.
    pub step: LaunchStep,
    /// The claim, once it is known.
    claim: Option<usize>,
    name: u8,
    /// Its part in a call that it is in, or looks for.
    part: Option<LaunchPart>,
    /// It knows that the claim is being deleted.
    goes: bool,
    /// Looks in this tick: ten seconds apart.
    pub looks: u8,
    /// Tick of its last look.
    looked: u64,
}

/// A call as its leader knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    token: String,
    call: SharedCall,
    sending: bool,
    /// No write of an earlier leader can give an instance of it to a claim any more.
    is_ours: bool,
}

fn number_of(part: &LaunchPart) -> u32 {
    part.place.as_ref().map_or(0, |place| place.number)
}

impl Candidate {
    /// The call of a launch.
    fn shared(&mut self, token: &str) -> &mut Shared {
        let at = self.calls.iter().position(|one| one.token == token).unwrap();
        &mut self.calls[at]
    }

    /// A launch is in its call no more.
    fn leave(&mut self, run: usize) {
        if let Some(part) = self.runs[run].part.take() {
            self.shared(&part.token).call.leaves(number_of(&part));
            self.calls.retain(|one| !one.call.is_over() || one.sending);
        }
    }

    pub fn new(number: usize) -> Self {
        let mut election = Election::new(format!("c{number}"), SETTINGS);
        election.saw_term(1);
        Self {
            election,
            looked: false,
            term: None,
            caught_up: false,
            ended: false,
            known: 0,
            runs: Vec::new(),
            calls: Vec::new(),
            collector: Collector::new(),
            swept: false,
        }
    }

    pub fn lead(&mut self, term: u64) {
        self.rest();
        self.term = Some(term);
    }

    /// The leader's actors are no more.
    fn rest(&mut self) {
        let (election, looked) = (self.election.clone(), self.looked);
        *self = Self { looked, ..Self::new(0) };
        self.election = election;
    }
}

impl World {
    pub fn time(&self) -> Duration {
        TICK * u32::try_from(self.now).unwrap()
    }

    fn wall(&self, tick: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::try_from(TICK * u32::try_from(tick).unwrap()).unwrap()
    }

    /// True if a candidate may act: by its own deadline, on its own clock.
    pub fn acts(&self, number: usize) -> bool {
        let one = &self.all[number];
        let holds = |until| self.time() < until || self.is_broken(Broken::NoDeadline);
        one.term.is_some() && !one.ended && one.election.leads().is_some_and(|(_, until)| holds(until))
    }

    /// It looks at the Lease, and takes or renews it where that may be.
    pub fn look(&mut self, number: usize) {
        self.all[number].looked = true;
        let (now, lease) = (self.time(), self.lease.clone());
        let mut output = self.all[number].election.step(LeaseInput::Read(Some(lease)), now);
        if let LeaseOutput::Write(write) = &output {
            let wrote = self.write_lease(write, number);
            let input = wrote.map_or(LeaseInput::Failed, |lease| LeaseInput::Wrote { lease, asked: now });
            output = self.all[number].election.step(input, now);
        }
        self.heed(number, &output);
    }

    /// The alarm of its deadline.
    pub fn alarm(&mut self, number: usize) {
        let now = self.time();
        let output = self.all[number].election.step(LeaseInput::Time, now);
        self.heed(number, &output);
    }

    fn heed(&mut self, number: usize, output: &LeaseOutput) {
        match output {
            LeaseOutput::Elected { term } => self.all[number].lead(*term),
            LeaseOutput::Deposed { .. } => {
                self.all[number].rest();
                self.nobody_waits(number);
            }
            LeaseOutput::Write(_) | LeaseOutput::Wait => {}
        }
    }

    fn nobody_waits(&mut self, number: usize) {
        self.calls.iter_mut().filter(|call| call.by == Some(number)).for_each(|call| call.by = None);
    }

    pub fn crash(&mut self, number: usize) {
        self.nobody_waits(number);
        self.all[number] = Candidate::new(number);
    }

    fn live(&self) -> u8 {
        (0..self.claims.len()).filter(|at| self.claims[*at].lives()).map(|at| 1 << at).sum()
    }

    /// Its watches show what is there; the first time, a list does.
    pub fn can_hear(&self, number: usize) -> bool {
        let one = &self.all[number];
        self.acts(number) && (!one.caught_up || one.known != self.live())
    }

    pub fn hear_of_claims(&mut self, number: usize) {
        let live = self.live();
        let one = &mut self.all[number];
        (one.caught_up, one.known) = (true, live);
    }

    /// It knows of fewer claims than there are pods that wait.
    pub fn can_plan(&self, number: usize) -> bool {
        let one = &self.all[number];
        self.acts(number) && one.caught_up && one.runs.is_empty() && self.lacks(number) > 0
    }

    fn lacks(&self, number: usize) -> usize {
        let known = usize::try_from(self.all[number].known.count_ones()).unwrap();
        let lacks = self.needs.saturating_sub(known);
        if self.claims.len() + lacks <= self.needs + MORE_CLAIMS { lacks } else { 0 }
    }

    pub fn plan(&mut self, number: usize) {
        for _ in 0..self.lacks(number) {
            self.orders += 1;
            self.begin(number, None, self.orders);
        }
    }

    /// A claim that has no instance and that nobody here launches; one that goes where it may have a share of a call.
    pub fn can_notice(&self, number: usize, claim: usize) -> bool {
        let (one, there) = (&self.all[number], &self.claims[claim]);
        // A launch is known by its claim's name, before the claim is there too.
        let launched =
            one.runs.iter().any(|run| run.claim == Some(claim) || run.claim.is_none() && run.name == there.name);
        let known = there.lives() && one.known & (1 << claim) > 0;
        let goes = !there.gone && there.deleting.is_some() && there.place.is_some();
        self.acts(number) && one.caught_up && there.instance.is_none() && !launched && (known || goes)
    }

    pub fn begin(&mut self, number: usize, claim: Option<usize>, name: u8) {
        let mut protocol = Protocol::new(claim.is_none());
        let step = protocol.step(Input::Begin, self.time(), true);
        let run = Run { protocol, step, claim, name, part: None, goes: false, looks: 0, looked: self.now };
        self.all[number].runs.push(run);
    }

    /// The launch whose turn it is: those of a call are alike, so that one order of theirs stands for all.
    pub fn turn(&self, number: usize) -> Option<usize> {
        let one = &self.all[number];
        one.runs.iter().position(|run| match run.step {
            LaunchStep::Join(_) => false,
            LaunchStep::Call { .. } => {
                !one.calls
                    .iter()
                    .any(|call| call.sending && run.part.as_ref().is_some_and(|part| part.token == call.token))
                    && self.call_step(number, run) != CallStep::Wait
            }
            LaunchStep::Rest(_) => run.looks < 2,
            _ => true,
        })
    }

    fn call_step(&self, number: usize, run: &Run) -> CallStep {
        let token = run.part.as_ref().map(|part| part.token.as_str()).unwrap_or_default();
        let shared = self.all[number].calls.iter().find(|one| one.token == token).unwrap();
        match shared.call.next() {
            CallStep::Wait if self.is_broken(Broken::CallsEarly) => CallStep::Send(1),
            CallStep::Regroup if self.is_broken(Broken::RepeatsForAll) => CallStep::Send(1),
            step => step,
        }
    }

    /// Launches that wait for others to be in one call with them.
    pub fn can_join(&self, number: usize) -> bool {
        self.all[number].runs.iter().any(|run| matches!(run.step, LaunchStep::Join(_)))
    }

    /// The launches that have come so far are one call.
    pub fn join(&mut self, number: usize) {
        let runs = &self.all[number].runs;
        let joining: Vec<usize> = (0..runs.len()).filter(|at| matches!(runs[*at].step, LaunchStep::Join(_))).collect();
        let attempt = joining.iter().filter_map(|at| match runs[*at].step {
            LaunchStep::Join(attempt) => Some(attempt),
            _ => None,
        });
        let attempt = attempt.max().unwrap_or(1);
        let uids: Vec<String> = joining.iter().map(|at| format!("u{}", runs[*at].claim.unwrap())).collect();
        let parts = share(uids.iter().map(String::as_str), attempt);
        let call = SharedCall::new(0..u32::try_from(parts.len()).unwrap());
        let shared = Shared { token: parts[0].token.clone(), call, sending: false, is_ours: true };
        for (at, part) in joining.iter().zip(&parts) {
            self.all[number].leave(*at);
            self.all[number].runs[*at].part = Some(part.clone());
        }
        self.all[number].calls.push(shared);
        // By their places: a launch that ends takes its own from the list.
        let mut numbers: Vec<usize> = joining;
        while let Some(at) = numbers.pop() {
            let part = self.all[number].runs[at].part.clone().unwrap();
            self.hear(number, at, Input::Joined(part));
        }
    }

    /// Does the next step of a launch, and hears what came of it.
    pub fn act(&mut self, number: usize) {
        let Some(at) = self.turn(number) else { return };
        let run = self.all[number].runs[at].clone();
        let (now, acts) = (self.now, self.acts(number));
        let claim = run.claim.unwrap_or(0);
        let term = self.all[number].term.unwrap_or(0);
        let deposed = Input::Failed(ApiFailure::Deposed);
        let input = match &run.step {
            LaunchStep::Prepare => Input::Prepared(Ok(())),
            LaunchStep::Rest(_) => Input::Done,
            LaunchStep::Look(token) => {
                let found =
                    if is_shared(token) { self.look_together(number, at, token) } else { Ok(self.listed(token)) };
                let run = &mut self.all[number].runs[at];
                (run.looks, run.looked) = (run.looks + 1, now);
                let looks = run.looks;
                match found {
                    Ok(found) => {
                        let found = found.into_iter().map(|at| format!("i{at}")).collect();
                        Input::Looked(self.time() + Duration::from_secs(10) * u32::from(looks), Some(found))
                    }
                    Err(Refusal::Fenced) => {
                        self.all[number].ended = true;
                        deposed
                    }
                    Err(Refusal::Gone) => Input::Failed(ApiFailure::Gone),
                }
            }
            LaunchStep::Call { token, .. } => return self.send(number, at, token),
            // The API server is asked for nothing after the deadline.
            _ if !acts => deposed,
            LaunchStep::Create => self.answer(number, at, |world| world.create(run.name, term, false)),
            LaunchStep::Read => {
                self.answer(number, at, |world| if world.claims[claim].gone { Err(Refusal::Gone) } else { Ok(claim) })
            }
            LaunchStep::WriteToken(part) => {
                self.answer(number, at, |world| world.write_token(claim, part, term, run.looked))
            }
            LaunchStep::WriteInstance { id, .. } => {
                self.answer(number, at, |world| world.write_instance(claim, index(id)))
            }
            LaunchStep::WriteFailure => self.answer(number, at, |world| world.touch(claim)),
            LaunchStep::Discard(_) => {
                self.discard(claim);
                self.all[number].known &= !(1 << claim);
                Input::Done
            }
            LaunchStep::Remove(_) => {
                self.delete(claim);
                self.all[number].known &= !(1 << claim);
                Input::Done
            }
            LaunchStep::Join(_) | LaunchStep::End(_) => return,
        };
        self.hear(number, at, input);
    }

    /// The share that a launch has of what is found of a call for several claims, as the launcher finds it.
    fn look_together(&mut self, number: usize, at: usize, token: &str) -> Result<Vec<usize>, Refusal> {
        let term = self.all[number].term.unwrap_or(0);
        let claim = self.all[number].runs[at].claim.unwrap();
        if self.all[number].runs[at].part.as_ref().is_none_or(|part| part.token != token) {
            self.all[number].leave(at);
            let part = LaunchPart { token: token.to_owned(), place: self.claims[claim].place.clone() };
            if !self.all[number].calls.iter().any(|one| one.token == token) {
                let call = SharedCall::default();
                let shared = Shared { token: token.to_owned(), call, sending: false, is_ours: false };
                self.all[number].calls.push(shared);
            }
            self.all[number].shared(token).call.waits(number_of(&part));
            self.all[number].runs[at].part = Some(part);
        }
        if !self.all[number].shared(token).is_ours && !self.is_broken(Broken::NoTakeOver) {
            if !self.acts(number) {
                return Err(Refusal::Fenced);
            }
            for claim in (0..self.claims.len()).filter(|at| self.claims[*at].awaits(token)).collect::<Vec<_>>() {
                self.write_term(claim, term)?;
            }
        }
        if self.all[number].runs[at].goes {
            let place = self.all[number].runs[at].part.as_ref().map_or(0, number_of);
            self.all[number].shared(token).call.waits(place);
        }
        let named = (0..self.instances.len()).filter(|at| self.is_named(*at) && !self.is_broken(Broken::GivesAnew));
        let named: Vec<String> = named.map(|at| format!("i{at}")).collect();
        let found: Vec<String> = self.listed(token).into_iter().map(|at| format!("i{at}")).collect();
        let shared = self.all[number].shared(token);
        shared.is_ours = true;
        shared.call.takes(named);
        shared.call.give(&found);
        let place = self.all[number].runs[at].part.as_ref().map_or(0, number_of);
        let given = self.all[number].shared(token).call.given(place).map(index);
        Ok(given.filter(|one| found.contains(&format!("i{one}"))).into_iter().collect())
    }

    fn touch(&mut self, claim: usize) -> Answer {
        if self.claims[claim].gone {
            return Err(Refusal::Gone);
        }
        self.claims[claim].version += 1;
        Ok(claim)
    }

    fn answer(&mut self, number: usize, at: usize, call: impl FnOnce(&mut Self) -> Answer) -> Input {
        match call(self) {
            Ok(claim) => {
                self.all[number].runs[at].claim = Some(claim);
                self.all[number].known |= u8::from(self.claims[claim].lives()) << claim;
                Input::Claim(self.claimed(claim))
            }
            Err(Refusal::Fenced) => {
                self.all[number].ended = true;
                Input::Failed(ApiFailure::Deposed)
            }
            Err(Refusal::Gone) => Input::Failed(ApiFailure::Gone),
        }
    }

    /// The write that a launch of its is about to make, as a request that may arrive at any time.
    pub fn request(&self, number: usize, at: usize) -> Option<Write> {
        let run = self.all[number].runs.get(at).filter(|_| self.acts(number))?;
        let version = |claim: usize| self.claims[claim].version;
        match (&run.step, run.claim, self.all[number].term?) {
            (LaunchStep::Create, _, term) => Some(Write::Create { name: run.name, term }),
            (LaunchStep::WriteToken(part), Some(claim), term) => {
                let (version, looked) = (version(claim), run.looked);
                Some(Write::Token { claim, version, part: part.clone(), term, looked })
            }
            (LaunchStep::WriteInstance { id, .. }, Some(claim), _) => {
                Some(Write::Instance { claim, version: version(claim), instance: index(id) })
            }
            _ => None,
        }
    }

    /// A launch hears what came of the last step.
    pub fn hear(&mut self, number: usize, at: usize, input: Input) {
        let (now, acts) = (self.time(), self.acts(number));
        let poorly = matches!(input, Input::Called(LaunchCallResult::Unknown | LaunchCallResult::Later));
        if let (true, Some(claim)) =
            (poorly && self.broken == Some(Broken::DoubleResend), self.all[number].runs[at].claim)
        {
            let token = format!("{}-again", self.claims[claim].tokens.last().cloned().unwrap_or_default());
            let (claims, client, tag) = (vec![claim], token.clone(), token);
            self.calls.push(Fleet { claims, count: 1, client, tag, by: None });
        }
        let run = &mut self.all[number].runs[at];
        run.goes |= matches!(&input, Input::Claim(claim) if claim.deleting);
        run.step = run.protocol.step(input, now, acts);
        match run.step.clone() {
            LaunchStep::Call { token, .. } => {
                let place = run.part.as_ref().map_or(0, number_of);
                if !self.all[number].shared(&token).call.arrives(place) {
                    self.hear(number, at, Input::Called(LaunchCallResult::Regroup));
                }
            }
            LaunchStep::Join(_) => self.all[number].leave(at),
            LaunchStep::End(end) => self.ended(number, at, &end),
            // Nothing comes between a claim that is written and what is put together for it.
            LaunchStep::Prepare => self.hear(number, at, Input::Prepared(Ok(()))),
            _ => {}
        }
    }

    /// All that the call waited for are there: it goes out, or is not made again.
    fn send(&mut self, number: usize, at: usize, token: &str) {
        let run = self.all[number].runs[at].clone();
        let own = |one: &Run| {
            one.part.as_ref().is_some_and(|part| part.token == token) && matches!(one.step, LaunchStep::Call { .. })
        };
        if self.call_step(number, &run) == CallStep::Regroup {
            return self.hear(number, at, Input::Called(LaunchCallResult::Regroup));
        }
        let mut here: Vec<usize> =
            self.all[number].runs.iter().filter(|one| own(one)).filter_map(|one| one.claim).collect();
        if self.is_broken(Broken::CallsEarly) || self.is_broken(Broken::RepeatsForAll) {
            let of_token = |at: &usize| self.claims[*at].awaits(token);
            let runs = self.all[number].runs.iter().filter(|one| one.part.as_ref().is_some_and(|p| p.token == token));
            here = runs.filter_map(|one| one.claim).chain((0..self.claims.len()).filter(of_token)).collect();
            here.sort_unstable();
            here.dedup();
        }
        let until = self.all[number].election.leads().map(|(_, until)| until);
        if !self.acts(number) {
            // The launcher looks at the deadline again when all are there.
            return self.heard_by_all(number, token, |_| Input::Failed(ApiFailure::Deposed));
        }
        if until.is_none_or(|until| self.time() >= until) {
            self.fail(format!("c{number} begins a call at {:?}, its deadline was {until:?}", self.time()));
        }
        for claim in &here {
            if self.claims[*claim].tokens.last().is_none_or(|there| there != token) {
                self.fail(format!("c{number} begins a call whose token is not on claim {claim}"));
            }
            if self.claims[*claim].deleting.is_some() && self.is_broken(Broken::RepeatsForAll) {
                self.fail(format!("c{number} makes a call again for claim {claim}, which has left it"));
            }
        }
        let shared = self.all[number].shared(token);
        shared.sending = true;
        shared.call.sends();
        self.sent += u8::from(self.is_broken(Broken::NoToken));
        let client = match self.is_broken(Broken::NoToken) {
            true => format!("{token}-{}", self.sent),
            false => token.to_owned(),
        };
        let count = here.len();
        self.calls.push(Fleet { claims: here, count, client, tag: token.to_owned(), by: Some(number) });
    }

    /// The answer to a call is for all that were in it.
    pub fn answered(&mut self, number: usize, token: &str, launched: &[usize], rest: &LaunchCallResult) {
        if !self.all[number].calls.iter().any(|one| one.token == token) {
            return;
        }
        let shared = self.all[number].shared(token);
        shared.sending = false;
        shared.call.answered(&launched.iter().map(|at| format!("i{at}")).collect::<Vec<_>>());
        self.heard_by_all(number, token, |given| match given {
            Some(id) if !launched.is_empty() => Input::Called(LaunchCallResult::Launched(id)),
            _ => Input::Called(rest.clone()),
        });
    }

    fn heard_by_all(&mut self, number: usize, token: &str, input: impl Fn(Option<String>) -> Input) {
        let waits = |one: &Run| {
            let own = one.part.as_ref().is_some_and(|part| part.token == token);
            own && matches!(one.step, LaunchStep::Call { .. })
        };
        let those: Vec<Option<usize>> =
            self.all[number].runs.iter().filter(|one| waits(one)).map(|one| one.claim).collect();
        for claim in those {
            let Some(at) = self.all[number].runs.iter().position(|one| one.claim == claim && waits(one)) else {
                continue;
            };
            let place = self.all[number].runs[at].part.as_ref().map_or(0, number_of);
            let given = self.all[number].shared(token).call.given(place).map(str::to_owned);
            self.hear(number, at, input(given));
        }
    }

    fn ended(&mut self, number: usize, at: usize, end: &LaunchEnd) {
        self.all[number].leave(at);
        let claim = self.all[number].runs.remove(at).claim;
        if let (LaunchEnd::Lost { .. } | LaunchEnd::Deleting | LaunchEnd::Refused, Some(claim)) = (end, claim) {
            self.all[number].known &= !(1 << claim);
        }
    }

    pub fn end(&mut self, instance: usize, by: &str) {
        let has = |claim: &super::world::Claim| claim.lives() && claim.instance == Some(instance);
        if let Some(claim) = self.claims.iter().position(has) {
            self.fail(format!("{by} ends instance {instance}, which claim {claim} has"));
        }
        self.instances[instance].alive = false;
    }

    /// The next step of a deleted claim's end: its instance, then its finalizer.
    pub fn terminate(&mut self, claim: usize) {
        let there = self.object(claim);
        let mut seen = InstanceObservation::Unknown;
        if let Some(handle) = handle_of(&there) {
            let found = match &handle {
                Handle::Id(id) => vec![index(id)],
                Handle::Token(token) => self.listed(token),
            };
            seen = if found.is_empty() { InstanceObservation::Missing } else { InstanceObservation::Terminated };
            if matches!(&handle, Handle::Token(token) if is_shared(token)) && !self.is_broken(Broken::EndsShared) {
                // Any of them may be another's: the launcher says which is its own.
                let open = found.iter().any(|at| !self.is_named(*at));
                seen = if open { InstanceObservation::Alive } else { InstanceObservation::Missing };
            } else {
                found.into_iter().for_each(|instance| self.end(instance, "the terminator"));
            }
        }
        if claim::next_step(&there, &[], seen, self.wall(self.now)) == ClaimStep::Release {
            self.release(claim);
        }
    }

    /// The claim as the terminator reads it.
    fn object(&self, claim: usize) -> NodeClaim {
        let one = &self.claims[claim];
        let mut there = NodeClaim::new(&format!("claim-{claim}"), NodeClaimSpec::default());
        there.metadata.finalizers = Some(vec![TERMINATION_FINALIZER.to_owned()]);
        there.metadata.deletion_timestamp = one.deleting.map(|at| Time(self.wall(at)));
        there.metadata.uid = Some(format!("u{claim}"));
        let token = one.tokens.last().map(|token| (LAUNCH_TOKEN.to_owned(), token.clone()));
        let place = one.place.as_ref().map(|place| (LAUNCH_PLACE.to_owned(), place.to_string()));
        there.metadata.annotations = Some(token.into_iter().chain(place).collect());
        if let Some(instance) = one.instance {
            let launched = self.wall(self.instances[instance].launched);
            let status = there.status.get_or_insert_default();
            status.provider_id = format!("aws:///zone/i{instance}");
            set_condition(&mut status.conditions, NewCondition::new(LAUNCHED, TRUE), None, launched);
        }
        there
    }

    /// A pass of the janitor. A claim with its instance stands beside those of the history, so that no list is empty.
    pub fn sweep(&mut self, number: usize) {
        self.all[number].swept = true;
        let survey = self.survey();
        let mut collector = std::mem::take(&mut self.all[number].collector);
        for (at, _) in self.claims.iter().enumerate().filter(|(_, one)| !one.lives()) {
            collector.leaves(&format!("u{at}"));
        }
        let verdict = collector.pass(&survey);
        self.all[number].collector = collector;
        verdict.terminate.iter().for_each(|id| self.end(index(id), "the janitor"));
        verdict.remove.iter().for_each(|(_, uid)| self.delete(index(uid)));
    }

    fn survey(&self) -> Survey {
        let seen = |id: String, age: u64, token: Option<String>| SeenInstance {
            id,
            owner: InstanceOwner::Ours,
            age: Some(TICK * u32::try_from(age).unwrap()),
            token,
        };
        let listed = self.instances.iter().enumerate().filter(|(_, one)| one.alive && one.listed <= self.now);
        let listed = listed.map(|(at, one)| seen(format!("i{at}"), self.now - one.launched, Some(one.tag.clone())));
        let there = self.claims.iter().enumerate().filter(|(_, one)| !one.gone).map(|(at, one)| SeenClaim {
            name: format!("claim-{at}"),
            uid: format!("u{at}"),
            instance: one.instance.map(|id| format!("i{id}")),
            token: one.tokens.last().cloned(),
            deleting: one.deleting.is_some(),
        });
        let beside = SeenClaim {
            name: "beside".into(),
            uid: "u99".into(),
            instance: Some("i99".into()),
            token: None,
            deleting: false,
        };
        let ended = self.instances.iter().enumerate().filter(|(_, one)| !one.alive);
        Survey {
            at: self.time(),
            instances: listed.chain([seen("i99".into(), 99, None)]).collect(),
            claims: there.chain([beside]).collect(),
            nodes: Vec::new(),
            ended: ended.map(|(at, _)| (format!("i{at}"), Duration::ZERO)).collect(),
            released: false,
        }
    }
}

/// The number in an id.
pub fn index(id: &str) -> usize {
    id.trim_start_matches(char::is_alphabetic).parse().unwrap()
}
