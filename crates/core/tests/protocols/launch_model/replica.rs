//! A candidate: its election, and what its actors do while it leads. The decisions are those that run; here they are
//! carried out as the actors do it.

use std::time::Duration;

use dovetail_api::names::TERMINATION_FINALIZER;
use dovetail_api::names::annotations::LAUNCH_TOKEN;
use dovetail_api::names::conditions::{LAUNCHED, TRUE};
use dovetail_api::v1::{NewCondition, NodeClaim, NodeClaimSpec, set_condition};
use dovetail_core::collection::{Collector, InstanceOwner, SeenClaim, SeenInstance, Survey};
use dovetail_core::lease::{Election, LeaseInput, LeaseOutput};
use dovetail_core::lifecycle::protocol::{ApiFailure, Input, LaunchCallResult, LaunchEnd, LaunchStep, Protocol};
use dovetail_core::termination::claim::{self, ClaimStep};
use dovetail_core::termination::instance::{Handle, InstanceObservation, handle};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::world::{Answer, Broken, CLAIMS, Fleet, Refusal, SETTINGS, TICK, World, Write};

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
    pub run: Option<Run>,
    pub collector: Collector,
    pub swept: bool,
}

/// A launch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    protocol: Protocol,
    /// What is to be done next, or is under way.
    pub step: LaunchStep,
    /// The claim, once it is known.
    claim: Option<usize>,
    name: u8,
    /// Looks in this tick: ten seconds apart.
    pub looks: u8,
    /// When it last looked.
    looked: u64,
}

impl Candidate {
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
            run: None,
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

    /// Whether a candidate may act: its own deadline, on its own clock.
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

    /// It knows of no claim for the pod that waits.
    pub fn can_plan(&self, number: usize) -> bool {
        let one = &self.all[number];
        let room = self.claims.len() < CLAIMS;
        self.acts(number) && one.caught_up && one.known == 0 && one.run.is_none() && room
    }

    pub fn plan(&mut self, number: usize) {
        self.orders += 1;
        self.begin(number, None, self.orders);
    }

    /// A claim that has no instance and that nobody here launches.
    pub fn can_notice(&self, number: usize, claim: usize) -> bool {
        let (one, there) = (&self.all[number], &self.claims[claim]);
        let unlaunched = there.lives() && there.instance.is_none();
        self.acts(number) && one.caught_up && one.known & (1 << claim) > 0 && one.run.is_none() && unlaunched
    }

    pub fn begin(&mut self, number: usize, claim: Option<usize>, name: u8) {
        let mut protocol = Protocol::new(claim.is_none());
        let step = protocol.step(Input::Begin, self.time(), true);
        self.all[number].run = Some(Run { protocol, step, claim, name, looks: 0, looked: self.now });
    }

    /// Whether its launch has something to do.
    pub fn can_act(&self, number: usize) -> bool {
        self.all[number].run.as_ref().is_some_and(|run| match run.step {
            LaunchStep::Call { .. } => false,
            LaunchStep::Rest(_) => run.looks < 2,
            _ => true,
        })
    }

    /// Does the next step of its launch, and hears what came of it.
    pub fn act(&mut self, number: usize) {
        let Some(run) = self.all[number].run.clone() else { return };
        let (now, acts) = (self.now, self.acts(number));
        let claim = run.claim.unwrap_or(0);
        let term = self.all[number].term.unwrap_or(0);
        let deposed = Input::Failed(ApiFailure::Deposed);
        let input = match &run.step {
            LaunchStep::Prepare(_) => Input::Prepared(Ok(())),
            LaunchStep::Rest(_) => Input::Done,
            LaunchStep::Look(token) => {
                let found = self.listed(token).into_iter().map(|at| format!("i{at}")).collect();
                if let Some(run) = &mut self.all[number].run {
                    (run.looks, run.looked) = (run.looks + 1, now);
                }
                Input::Looked(self.time() + Duration::from_secs(10) * u32::from(run.looks), Some(found))
            }
            // The API server is asked for nothing after the deadline.
            _ if !acts => deposed,
            LaunchStep::Create => self.answer(number, |world| world.create(run.name, term, false)),
            LaunchStep::Read => {
                self.answer(number, |world| if world.claims[claim].gone { Err(Refusal::Gone) } else { Ok(claim) })
            }
            LaunchStep::WriteToken(token) => {
                self.answer(number, |world| world.write_token(claim, token, term, run.looked))
            }
            LaunchStep::WriteInstance { id, .. } => self.answer(number, |world| world.write_instance(claim, index(id))),
            LaunchStep::WriteFailure => self.answer(number, |world| world.touch(claim)),
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
            LaunchStep::Call { .. } | LaunchStep::End(_) => return,
        };
        self.hear(number, input);
    }

    fn touch(&mut self, claim: usize) -> Answer {
        if self.claims[claim].gone {
            return Err(Refusal::Gone);
        }
        self.claims[claim].version += 1;
        Ok(claim)
    }

    fn answer(&mut self, number: usize, call: impl FnOnce(&mut Self) -> Answer) -> Input {
        match call(self) {
            Ok(claim) => {
                if let Some(run) = &mut self.all[number].run {
                    run.claim = Some(claim);
                }
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

    /// The write that its launch is about to make, as a request that may arrive at any time.
    pub fn request(&self, number: usize) -> Option<Write> {
        let run = self.all[number].run.as_ref().filter(|_| self.acts(number))?;
        let version = |claim: usize| self.claims[claim].version;
        match (&run.step, run.claim, self.all[number].term?) {
            (LaunchStep::Create, _, term) => Some(Write::Create { name: run.name, term }),
            (LaunchStep::WriteToken(token), Some(claim), term) => {
                Some(Write::Token { claim, version: version(claim), token: token.clone(), term, looked: run.looked })
            }
            (LaunchStep::WriteInstance { id, .. }, Some(claim), _) => {
                Some(Write::Instance { claim, version: version(claim), instance: index(id) })
            }
            _ => None,
        }
    }

    /// Its launch hears what came of the last step.
    pub fn hear(&mut self, number: usize, input: Input) {
        let (now, acts) = (self.time(), self.acts(number));
        let poorly = matches!(input, Input::Called(LaunchCallResult::Unknown | LaunchCallResult::Later));
        let Some(run) = &mut self.all[number].run else { return };
        if let (true, Some(claim)) = (poorly && self.broken == Some(Broken::DoubleResend), run.claim) {
            let token = format!("{}-again", self.claims[claim].tokens.last().cloned().unwrap_or_default());
            self.calls.push(Fleet { claim, client: token.clone(), tag: token, by: None });
        }
        run.step = run.protocol.step(input, now, acts);
        match (run.step.clone(), run.claim) {
            (LaunchStep::Call { token, .. }, Some(claim)) => self.send(number, claim, token),
            (LaunchStep::End(end), claim) => self.ended(number, &end, claim),
            _ => {}
        }
    }

    fn send(&mut self, number: usize, claim: usize, token: String) {
        let until = self.all[number].election.leads().map(|(_, until)| until);
        if until.is_none_or(|until| self.time() >= until) {
            self.fail(format!("c{number} begins a call at {:?}, its deadline was {until:?}", self.time()));
        }
        if self.claims[claim].tokens.last() != Some(&token) {
            self.fail(format!("c{number} begins a call whose token is not on claim {claim}"));
        }
        self.sent += u8::from(self.is_broken(Broken::NoToken));
        let client = match self.is_broken(Broken::NoToken) {
            true => format!("{token}-{}", self.sent),
            false => token.clone(),
        };
        self.calls.push(Fleet { claim, client, tag: token, by: Some(number) });
    }

    fn ended(&mut self, number: usize, end: &LaunchEnd, claim: Option<usize>) {
        self.all[number].run = None;
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
        if let Some(handle) = handle(&there) {
            let found = match &handle {
                Handle::Id(id) => vec![index(id)],
                Handle::Token(token) => self.listed(token),
            };
            seen = if found.is_empty() { InstanceObservation::Missing } else { InstanceObservation::Terminated };
            found.into_iter().for_each(|instance| self.end(instance, "the terminator"));
        }
        if claim::next(&there, &[], seen, self.wall(self.now)) == ClaimStep::Release {
            self.claims[claim].gone = true;
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
        there.metadata.annotations = Some(token.into_iter().collect());
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
