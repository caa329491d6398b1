//! What there is beside the candidates: the API server with its Lease, its fence and its claims, and EC2; and what each of
//! them makes of a request. What must not be is noticed here.

use std::time::Duration;

use dovetail_core::lease::{LeaseSettings, LeaseView, LeaseWrite};
use dovetail_core::lifecycle::protocol::{Claimed, takes_instance, takes_token};

use super::replica::Candidate;

/// A tick: EC2's describes are consistent after one.
pub const TICK: Duration = Duration::from_secs(60);
/// A Lease lasts three ticks, a leader's deadline is two after it asked.
pub const SETTINGS: LeaseSettings =
    LeaseSettings { duration: ticks(3), renew_deadline: ticks(2), retry: Duration::from_secs(60) };
/// Most claims of a history.
pub const CLAIMS: usize = 3;

pub const fn ticks(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// How EC2 takes a ClientToken that it has seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cloud {
    /// It answers what it answered then.
    Heeds,
    /// It does within the tick; later it launches anew.
    Forgets,
    /// It launches anew, as moto does.
    Heedless,
}

/// What is taken away at the seam between the decisions and the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// The API server lets any term write.
    NoFence,
    /// The leader's clock stands still while it does: its deadline does not pass.
    NoDeadline,
    /// Each CreateFleet goes out under a ClientToken of its own.
    NoToken,
    /// EC2 never knows of an instance by its token.
    ForgottenAdoption,
    /// A call that did not come out well is sent again at once, under another token.
    DoubleResend,
}

/// How much may still go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Leaders that crash and start again.
    pub crashes: u8,
    /// Answers of EC2 that are lost.
    pub lost: u8,
    /// Requests that are given up and may still arrive, at any later time.
    pub late: u8,
    /// Launches that EC2 refuses: nothing to be had, not now, or never.
    pub refused: u8,
    /// Instances that are listed a tick after their launch.
    pub lags: u8,
    /// Claims that a person, or a time-out, deletes.
    pub deleted: u8,
}

/// A NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    pub name: u8,
    pub made: u64,
    /// All that were written on it; the last one is there.
    pub tokens: Vec<String>,
    pub instance: Option<usize>,
    pub deleting: Option<u64>,
    pub gone: bool,
    pub version: u16,
    /// Instances that EC2 made for a token that it had served before.
    pub repeats: usize,
}

impl Claim {
    pub fn lives(&self) -> bool {
        !self.gone && self.deleting.is_none()
    }
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    pub claim: usize,
    pub tag: String,
    pub client: String,
    pub launched: u64,
    pub listed: u64,
    pub alive: bool,
    /// Nobody could know of it when its claim went on, or went: the janitor's.
    pub excused: bool,
}

/// A CreateFleet on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fleet {
    pub claim: usize,
    pub client: String,
    pub tag: String,
    /// Who waits for its answer.
    pub by: Option<usize>,
}

/// A write to the API server that was given up and may still arrive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    Create { name: u8, term: u64 },
    Token { claim: usize, version: u16, token: String, term: u64, looked: u64 },
    Instance { claim: usize, version: u16, instance: usize },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub now: u64,
    pub cloud: Cloud,
    pub broken: Option<Broken>,
    pub faults: Faults,
    pub lease: LeaseView,
    pub claims: Vec<Claim>,
    pub instances: Vec<Instance>,
    pub calls: Vec<Fleet>,
    pub writes: Vec<Write>,
    pub all: Vec<Candidate>,
    pub orders: u8,
    pub sent: u8,
    /// Claims of the present term that were created after their sender had given them up.
    pub slipped: usize,
    /// What must not be, and is.
    pub wrong: Option<String>,
}

/// The API server's word.
pub type Answer = Result<usize, Refusal>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// By the fence.
    Fenced,
    /// There is no such claim.
    Gone,
}

impl World {
    pub fn is_broken(&self, how: Broken) -> bool {
        self.broken == Some(how)
    }

    pub fn fail(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    pub fn write_lease(&mut self, write: &LeaseWrite, by: usize) -> Option<LeaseView> {
        if write.resource_version.as_ref() != Some(&self.lease.resource_version) {
            return None;
        }
        self.lease = LeaseView {
            holder: format!("c{by}"),
            term: write.term,
            duration: SETTINGS.duration,
            // A candidate writes once a tick at most.
            resource_version: format!("{}-{by}", self.now),
            origin: write.origin(),
            stale: false,
        };
        Some(self.lease.clone())
    }

    fn fenced(&self, term: u64) -> bool {
        term != self.lease.term && !self.is_broken(Broken::NoFence)
    }

    pub fn claimed(&self, claim: usize) -> Claimed {
        let one = &self.claims[claim];
        Claimed {
            uid: format!("u{claim}"),
            token: one.tokens.last().cloned(),
            instance: one.instance.map(|id| format!("i{id}")),
            launched: one.instance.is_some(),
            deleting: one.deleting.is_some(),
        }
    }

    /// A claim of that name that its own term made already is the same.
    pub fn create(&mut self, name: u8, term: u64, late: bool) -> Answer {
        if self.fenced(term) {
            return Err(Refusal::Fenced);
        }
        if let Some(there) = self.claims.iter().position(|one| one.name == name && !one.gone) {
            return if self.claims[there].made == term { Ok(there) } else { Err(Refusal::Gone) };
        }
        if late && term == self.lease.term {
            self.slipped += 1;
        }
        let (tokens, instance, deleting) = (Vec::new(), None, None);
        self.claims.push(Claim { name, made: term, tokens, instance, deleting, gone: false, version: 0, repeats: 0 });
        let live = self.claims.iter().filter(|one| one.lives()).count();
        if live > 1 + self.slipped {
            self.fail(format!("one need has {live} claims"));
        }
        Ok(self.claims.len() - 1)
    }

    /// As the launcher writes it: resting on what is there, made anew on a conflict. `looked` is when it last looked for
    /// an instance of the token before.
    pub fn write_token(&mut self, claim: usize, token: &str, term: u64, looked: u64) -> Answer {
        if self.claims[claim].gone {
            return Err(Refusal::Gone);
        }
        if !takes_token(&self.claimed(claim)) {
            return Ok(claim);
        }
        if self.fenced(term) {
            return Err(Refusal::Fenced);
        }
        let one = &mut self.claims[claim];
        one.version += 1;
        if one.tokens.last().is_none_or(|there| there != token) {
            one.tokens.push(token.to_owned());
            // What was launched in the tick of that look may not have been there yet.
            let late = self.instances.iter_mut().filter(|one| one.claim == claim && one.launched >= looked);
            late.for_each(|one| one.excused = true);
        }
        Ok(claim)
    }

    pub fn write_instance(&mut self, claim: usize, instance: usize) -> Answer {
        if self.claims[claim].gone {
            return Err(Refusal::Gone);
        }
        if !takes_instance(&self.claimed(claim), &format!("i{instance}")) {
            return Ok(claim);
        }
        let one = &mut self.claims[claim];
        one.version += 1;
        if let Some(there) = one.instance.replace(instance).filter(|there| *there != instance) {
            self.fail(format!("claim {claim} had instance {there} and is given {instance}"));
        }
        Ok(claim)
    }

    /// A write that was given up arrives: it rests on the version that it was sent with.
    pub fn arrive_late(&mut self, write: &Write) {
        let same = |claim: usize, version: u16| self.claims[claim].version == version;
        let _ = match write {
            Write::Create { name, term } => self.create(*name, *term, true),
            Write::Token { claim, version, token, term, looked } if same(*claim, *version) => {
                self.write_token(*claim, token, *term, *looked)
            }
            Write::Instance { claim, version, instance } if same(*claim, *version) => {
                self.write_instance(*claim, *instance)
            }
            Write::Token { .. } | Write::Instance { .. } => Err(Refusal::Gone),
        };
    }

    pub fn delete(&mut self, claim: usize) {
        let (now, one) = (self.now, &mut self.claims[claim]);
        if one.lives() {
            one.deleting = Some(now);
            one.version += 1;
        }
    }

    /// The claim is taken away as one without an instance.
    pub fn discard(&mut self, claim: usize) {
        if self.cloud == Cloud::Heeds && self.waiting(claim) > 0 {
            self.fail(format!("claim {claim} is discarded and has an instance"));
        }
        self.claims[claim].deleting.get_or_insert(self.now);
        self.claims[claim].gone = true;
    }

    /// EC2's answer to CreateFleet that launches; or what it answered before.
    pub fn launch(&mut self, call: &Fleet, lags: bool) -> usize {
        let (now, cloud) = (self.now, self.cloud);
        let served = self.instances.iter().position(|one| one.client == call.client);
        if let Some(before) = served {
            let remembered = match cloud {
                Cloud::Heeds => true,
                Cloud::Forgets => self.instances[before].launched == now,
                Cloud::Heedless => false,
            };
            if remembered {
                return before;
            }
            self.claims[call.claim].repeats += 1;
        }
        let claim = &self.claims[call.claim];
        let superseded = claim.tokens.contains(&call.tag) && claim.tokens.last() != Some(&call.tag);
        self.instances.push(Instance {
            claim: call.claim,
            tag: call.tag.clone(),
            client: call.client.clone(),
            launched: now,
            listed: now + u64::from(lags),
            alive: true,
            excused: superseded || !claim.lives(),
        });
        let (wanted, allowed) = (self.waiting(call.claim), 1 + self.claims[call.claim].repeats);
        if self.claims[call.claim].lives() && wanted > allowed {
            self.fail(format!("claim {} has {wanted} instances, {allowed} allowed", call.claim));
        }
        self.instances.len() - 1
    }

    /// Living instances that a claim is answerable for.
    fn waiting(&self, claim: usize) -> usize {
        self.instances.iter().filter(|one| one.claim == claim && one.alive && !one.excused).count()
    }

    /// EC2's list of living instances with a tag, the oldest first.
    pub fn listed(&self, tag: &str) -> Vec<usize> {
        if self.is_broken(Broken::ForgottenAdoption) {
            return Vec::new();
        }
        let found = |one: &Instance| one.alive && one.listed <= self.now && one.tag == tag;
        (0..self.instances.len()).filter(|at| found(&self.instances[*at])).collect()
    }

    /// Whether EC2 has launched for the ClientToken and would say so.
    pub fn remembers(&self, client: &str) -> bool {
        self.cloud == Cloud::Heeds && self.instances.iter().any(|one| one.client == client)
    }
}
