//! The world beside the candidates: the API server with its Lease, its fence and its claims, and EC2; and what each of
//! them makes of a request. What must not be is noticed here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dovetail_core::lease::{LeaseSettings, LeaseView, LeaseWrite};
use dovetail_core::lifecycle::protocol::{Claimed, takes_instance, takes_token};
use dovetail_core::ownership::token::{LaunchPart, Place};

use super::replica::Candidate;

/// A tick: EC2's describes are consistent after one.
pub const TICK: Duration = Duration::from_secs(60);
/// A Lease lasts three ticks, a leader's deadline is two after it asked.
pub const SETTINGS: LeaseSettings =
    LeaseSettings { duration: ticks(3), renew_deadline: ticks(2), retry: Duration::from_secs(60) };
/// Claims of a history beside those that are needed.
pub const MORE_CLAIMS: usize = 2;

pub const fn ticks(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// EC2's answer to a ClientToken that it has seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cloud {
    /// It answers what it answered then.
    Heeds,
    /// It does within the tick; later it launches anew.
    Forgets,
    /// It launches anew, as moto does.
    Heedless,
}

/// The safeguard that is taken away at the seam between the decisions and the world.
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
    /// A successor gives instances of a call for several claims without having written its term on these.
    NoTakeOver,
    /// A successor does not know which instances claims have already.
    GivesAnew,
    /// The terminator ends whatever has the token of a claim that goes, though the call was for others too.
    EndsShared,
    /// A call for several claims goes out as soon as the token is on the first of them.
    CallsEarly,
    /// A call for several claims is made again as it was, though some of them have left it.
    RepeatsForAll,
}

/// Number of faults of each kind that may still come.
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
    /// The term that was written on it last.
    pub term: u64,
    /// Its place in the call of its last token.
    pub place: Option<Place>,
}

impl Claim {
    /// It has no instance, and one of a call with this token may be its own.
    pub fn awaits(&self, tag: &str) -> bool {
        !self.gone && self.instance.is_none() && self.tokens.last().is_some_and(|token| token == tag)
    }

    pub fn lives(&self) -> bool {
        !self.gone && self.deleting.is_none()
    }
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    pub tag: String,
    pub client: String,
    pub launched: u64,
    pub listed: u64,
    pub alive: bool,
}

/// A CreateFleet on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fleet {
    /// The claims that it is made for.
    pub claims: Vec<usize>,
    pub count: usize,
    pub client: String,
    pub tag: String,
    /// The candidate that waits for its answer.
    pub by: Option<usize>,
}

/// A write to the API server that was given up and may still arrive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    Create { name: u8, term: u64 },
    Token { claim: usize, version: u16, part: LaunchPart, term: u64, looked: u64 },
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
    /// Pods that wait, each of which needs a claim of its own.
    pub needs: usize,
    /// Instances that EC2 made for tokens that it had served before, by token.
    pub repeats: BTreeMap<String, usize>,
    /// Instances that nobody could know of when a claim went on without them, or went, by token: the janitor's. All that a call
    /// has launched are alike, so that they are counted and not named.
    pub excused: BTreeMap<String, usize>,
    pub orders: u8,
    pub sent: u8,
    /// Claims of the present term that were created after their sender had given them up.
    pub slipped: usize,
    /// The violation that was noticed.
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
        let (tokens, instance, deleting, place) = (Vec::new(), None, None, None);
        self.claims.push(Claim { name, made: term, tokens, instance, deleting, gone: false, version: 0, term, place });
        let live = self.claims.iter().filter(|one| one.lives()).count();
        if live > self.needs + self.slipped {
            self.fail(format!("{} need has {live} claims", if self.needs == 1 { "one" } else { "each" }));
        }
        Ok(self.claims.len() - 1)
    }

    /// As the launcher writes it: resting on what is there, made anew on a conflict. `looked` is when it last looked for
    /// an instance of the token before.
    pub fn write_token(&mut self, claim: usize, part: &LaunchPart, term: u64, looked: u64) -> Answer {
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
        (one.version, one.term) = (one.version + 1, term);
        let before = one.tokens.last().cloned();
        if before.as_ref().is_none_or(|there| *there != part.token) {
            one.tokens.push(part.token.clone());
            one.place.clone_from(&part.place);
            // An instance that was launched in the tick of that look may not have been there yet.
            before.iter().for_each(|tag| self.excuse(tag, |one| one.launched >= looked));
        }
        Ok(claim)
    }

    /// A successor writes its term on a claim that waits for an instance.
    pub fn write_term(&mut self, claim: usize, term: u64) -> Answer {
        if self.fenced(term) {
            return Err(Refusal::Fenced);
        }
        let one = &mut self.claims[claim];
        if one.term != term {
            (one.version, one.term) = (one.version + 1, term);
        }
        Ok(claim)
    }

    /// Instances of a call that are more than the claims that wait for them are the janitor's, if they are such.
    fn excuse(&mut self, tag: &str, such: impl Fn(&Instance) -> bool) {
        let open = (0..self.instances.len()).filter(|at| self.is_open(*at, tag) && such(&self.instances[*at])).count();
        let more = self.surplus(tag).min(open);
        if more > 0 {
            *self.excused.entry(tag.to_owned()).or_default() += more;
        }
    }

    /// It lives, and no claim has it.
    fn is_open(&self, at: usize, tag: &str) -> bool {
        let one = &self.instances[at];
        one.tag == tag && one.alive && !self.is_named(at)
    }

    pub fn is_named(&self, instance: usize) -> bool {
        self.claims.iter().any(|one| !one.gone && one.instance == Some(instance))
    }

    /// Number of a call's open instances for which no claim waits, and that are not excused.
    fn surplus(&self, tag: &str) -> usize {
        let open = (0..self.instances.len()).filter(|at| self.is_open(*at, tag)).count();
        let awaited = self.claims.iter().filter(|one| one.awaits(tag)).count();
        open.saturating_sub(awaited + self.excused.get(tag).copied().unwrap_or(0))
    }

    pub fn write_instance(&mut self, claim: usize, instance: usize) -> Answer {
        if self.claims[claim].gone {
            return Err(Refusal::Gone);
        }
        if !takes_instance(&self.claimed(claim), &format!("i{instance}")) {
            return Ok(claim);
        }
        if let Some(other) = self.claims.iter().position(|one| !one.gone && one.instance == Some(instance))
            && other != claim
        {
            self.fail(format!("instance {instance} is on claims {other} and {claim}"));
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
            Write::Token { claim, version, part, term, looked } if same(*claim, *version) => {
                self.write_token(*claim, part, *term, *looked)
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
        self.claims[claim].deleting.get_or_insert(self.now);
        self.claims[claim].gone = true;
        let tag = self.claims[claim].tokens.last().cloned();
        if self.cloud == Cloud::Heeds && tag.is_some_and(|tag| self.surplus(&tag) > 0) {
            self.fail(format!("claim {claim} is discarded and has an instance"));
        }
    }

    /// The claim is let go by the terminator, which has found no instance of its own.
    pub fn release(&mut self, claim: usize) {
        self.claims[claim].gone = true;
        let tag = self.claims[claim].tokens.last().cloned();
        tag.iter().for_each(|tag| self.excuse(tag, |_| true));
    }

    /// EC2's answer to CreateFleet that launches so many, of which the first may be listed late; or what it answered before.
    pub fn launch(&mut self, call: &Fleet, lags: bool, count: usize) -> Vec<usize> {
        let (now, cloud) = (self.now, self.cloud);
        let served: Vec<usize> =
            (0..self.instances.len()).filter(|at| self.instances[*at].client == call.client).collect();
        if let Some(before) = served.first() {
            let remembered = match cloud {
                Cloud::Heeds => true,
                Cloud::Forgets => self.instances[*before].launched == now,
                Cloud::Heedless => false,
            };
            if remembered {
                return served;
            }
            *self.repeats.entry(call.tag.clone()).or_default() += count;
        }
        let first = self.instances.len();
        self.instances.extend((0..count).map(|number| Instance {
            tag: call.tag.clone(),
            client: call.client.clone(),
            launched: now,
            listed: now + u64::from(lags && number == 0),
            alive: true,
        }));
        // Claims that have gone on, or go, wait for nothing of it.
        let tags = |one: &Claim| one.lives() && one.tokens.contains(&call.tag) && one.tokens.last() == Some(&call.tag);
        let known = call.claims.iter().filter(|at| self.claims[**at].tokens.contains(&call.tag)).count();
        let waiting = call.claims.iter().filter(|at| tags(&self.claims[**at])).count();
        let excused = (known - waiting).min(count);
        if excused > 0 {
            *self.excused.entry(call.tag.clone()).or_default() += excused;
        }
        self.judge(call);
        (first..self.instances.len()).collect()
    }

    /// LM-2.
    fn judge(&mut self, call: &Fleet) {
        let tags: BTreeSet<String> = self.instances.iter().map(|one| one.tag.clone()).collect();
        let all: usize = tags.iter().map(|tag| self.surplus(tag)).sum();
        let allowed: usize = self.repeats.values().sum();
        let lives = call.claims.iter().any(|at| self.claims[*at].lives());
        if lives && all > allowed {
            let claims: Vec<String> = call.claims.iter().map(|at| format!("claim {at}")).collect();
            let (has, own) = (call.claims.len() + all, call.claims.len() + allowed);
            self.fail(format!("{} has {has} instances, {own} allowed", claims.join(" and ")));
        }
    }

    /// EC2's list of living instances with a tag, the oldest first.
    pub fn listed(&self, tag: &str) -> Vec<usize> {
        if self.is_broken(Broken::ForgottenAdoption) {
            return Vec::new();
        }
        let found = |one: &Instance| one.alive && one.listed <= self.now && one.tag == tag;
        (0..self.instances.len()).filter(|at| found(&self.instances[*at])).collect()
    }

    /// True if EC2 has launched for the ClientToken and would say so.
    pub fn remembers(&self, client: &str) -> bool {
        self.cloud == Cloud::Heeds && self.instances.iter().any(|one| one.client == client)
    }
}
