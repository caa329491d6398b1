//! What must hold at the end of every run, whatever went wrong in it. `tests/simulation/audit.py` checks the same from
//! the events alone.

mod events;

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::names::tags;
use dovetail_sandbox::log::Entry;
use dovetail_sandbox::region::Instance;
use serde::Serialize;

use super::seconds;
use crate::world::{OTHER_CLUSTER, World};

/// What was checked and what was found.
#[derive(Serialize)]
pub struct Outcome {
    /// How many single checks were made.
    pub checked: usize,
    /// What does not hold.
    pub violations: Vec<Violation>,
}

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// The invariant.
    pub id: &'static str,
    /// When it was found, in seconds.
    pub t: f64,
    /// What is wrong.
    pub what: String,
}

/// Checks all of them.
pub fn check(world: &World, instances: &[Instance]) -> Outcome {
    let mut checker = Checker { t: seconds(world.now()), checked: 0, violations: Vec::new() };
    checker.one_instance_a_token(instances);
    checker.one_claim_an_instance(world, instances);
    checker.launches_within_terms(world);
    checker.no_claim_with_two_instances_for_long(world);
    checker.no_instance_without_a_claim(world, instances);
    checker.no_pod_bound_twice(world);
    checker.nothing_foreign_is_ended(world, instances);
    checker.events(world);
    Outcome { checked: checker.checked, violations: checker.violations }
}

struct Checker {
    t: f64,
    checked: usize,
    violations: Vec<Violation>,
}

impl Checker {
    fn expect(&mut self, id: &'static str, holds: bool, what: impl FnOnce() -> String) {
        self.checked += 1;
        if !holds {
            self.violations.push(Violation { id, t: self.t, what: what() });
        }
    }

    /// INV-1: a launch token never has two instances that live.
    fn one_instance_a_token(&mut self, instances: &[Instance]) {
        let mut alive: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for one in instances.iter().filter(|one| one.state.is_alive()) {
            if let Some(token) = &one.client_token {
                alive.entry(token).or_default().push(&one.id);
            }
        }
        for (token, ids) in alive {
            self.expect("INV-1", ids.len() == 1, || format!("token {token} has instances {}", ids.join(", ")));
        }
    }

    /// INV-1 as well: no two claims share an instance.
    fn one_claim_an_instance(&mut self, world: &World, instances: &[Instance]) {
        for one in instances {
            let provider_id = one.provider_id();
            let claims: Vec<String> = world
                .claims()
                .iter()
                .filter(|claim| claim["status"]["providerID"].as_str() == Some(&provider_id))
                .filter_map(|claim| claim["metadata"]["name"].as_str().map(str::to_owned))
                .collect();
            self.expect("INV-1", claims.len() <= 1, || format!("instance {} has claims {}", one.id, claims.join(", ")));
        }
    }

    /// INV-3: no instance of ours lives without a claim at the end.
    fn no_instance_without_a_claim(&mut self, world: &World, instances: &[Instance]) {
        let claimed: Vec<String> = world
            .claims()
            .iter()
            .filter_map(|claim| claim["status"]["providerID"].as_str().map(str::to_owned))
            .collect();
        for one in instances.iter().filter(|one| !one.beforehand && one.state.is_alive()) {
            let known = claimed.contains(&one.provider_id());
            self.expect("INV-3", known, || format!("instance {} lives and no claim knows it", one.id));
        }
    }

    /// INV-2: every launch is sent under a term, and none after a launch of a newer term was sent. INV-8: none is sent
    /// later than the holder's deadline, counted from the last write of the Lease that it may rest on.
    fn launches_within_terms(&mut self, world: &World) {
        let (mut launches, leases) = world.log.with_entries(|entries| {
            let launches: Vec<Launch> = entries.iter().filter_map(Launch::of).collect();
            (launches, entries.iter().filter_map(lease_write).collect::<Vec<_>>())
        });
        launches.sort_by(|a, b| a.t.total_cmp(&b.t));
        // By the holder's own clock, which may lose a thousandth.
        let deadline = world.renew_deadline().as_secs_f64() * 1.001;
        let mut latest = 0;
        for Launch { t, term, replica } in launches {
            self.expect("INV-2", term.is_some_and(|term| term >= latest), || {
                format!("a launch sent at {t} s under term {term:?} after {latest}")
            });
            latest = latest.max(term.unwrap_or(0));
            let renewed = leases.iter().rev().find(|(by, at)| *by == replica && *at <= t).map(|(_, at)| *at);
            self.expect("INV-8", renewed.is_some_and(|at| t <= at + deadline), || {
                format!("replica {replica} sent a launch at {t} s, its Lease was written last at {renewed:?} s")
            });
        }
    }

    /// INV-7: a claim never has two instances for longer than it takes to notice and collect one. One that the API server
    /// has lost has none any more: what it had is braked until an operator releases it, and then INV-3 speaks of it.
    fn no_claim_with_two_instances_for_long(&mut self, world: &World) {
        let told = |entries: &[Entry]| (tokens_of_claims(entries), lost_claims(entries), lives(entries));
        let (claims, lost, lives) = world.log.with_entries(told);
        let mut by_token: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for life in lives.values() {
            by_token.entry(&life.token).or_default().push((life.from, life.to.unwrap_or(self.t)));
        }
        for (claim, tokens) in claims {
            let mut own: Vec<(f64, f64)> =
                tokens.iter().filter_map(|token| by_token.get(token.as_str())).flatten().copied().collect();
            own.sort_by(|a, b| a.0.total_cmp(&b.0));
            let gone = lost.get(&claim).copied().unwrap_or(self.t);
            own.iter_mut().for_each(|(_, to)| *to = to.min(gone));
            let mut longest: f64 = 0.0;
            for (index, (from, to)) in own.iter().enumerate() {
                let others = own[..index].iter().map(|(_, end)| end.min(*to) - from);
                longest = others.fold(longest, f64::max);
            }
            self.expect("INV-7", longest <= TWICE_AT_MOST, || {
                format!("claim {claim} had two instances for {longest} s")
            });
        }
    }

    /// INV-6: what another cluster made is never ended, whatever its name.
    fn nothing_foreign_is_ended(&mut self, world: &World, instances: &[Instance]) {
        let foreign = |one: &&Instance| one.tags.get(tags::CLUSTER_UID).is_some_and(|uid| uid == OTHER_CLUSTER);
        let foreign: BTreeSet<&str> = instances.iter().filter(foreign).map(|one| one.id.as_str()).collect();
        if foreign.is_empty() {
            return;
        }
        let ended: BTreeSet<String> = world.log.with_entries(|entries| {
            let calls = entries.iter().filter(|entry| entry.replica.is_some() && entry.kind == "aws");
            let ids = calls.filter_map(|entry| entry.field("result")?.get("instances")?.as_array());
            let action = |id: &serde_json::Value| id.as_str().map(str::to_owned);
            ids.flatten().filter_map(action).collect()
        });
        for id in foreign {
            self.expect("INV-6", !ended.contains(id), || format!("instance {id} of another cluster was ended"));
        }
    }

    /// INV-4: a pod is bound once in its life.
    fn no_pod_bound_twice(&mut self, world: &World) {
        let bindings: Vec<(u64, String)> = world.log.with_entries(|entries| {
            let pods = entries.iter().filter(|entry| entry.kind == "pod");
            let bound = pods.filter(|entry| entry.text("change") == "bound");
            bound.map(|entry| (entry.micros, entry.text("uid").to_owned())).collect()
        });
        let mut seen = BTreeSet::new();
        for (micros, uid) in bindings {
            let first = seen.insert(uid.clone());
            self.expect("INV-4", first, || format!("pod {uid} is bound again at {} s", micros as f64 / 1e6));
        }
    }
}

/// How long a second instance of a claim may live: its launch is looked for, then the janitor needs two sightings.
const TWICE_AT_MOST: f64 = 900.0;

/// A launch as a replica sent it.
struct Launch {
    t: f64,
    term: Option<i64>,
    replica: u32,
}

impl Launch {
    fn of(entry: &Entry) -> Option<Self> {
        let sent = entry.field("result")?.get("sent")?;
        Some(Self { t: sent["t"].as_f64()?, term: sent["term"].as_i64(), replica: entry.replica? })
    }
}

/// A write of a Lease that was accepted: by whom and when.
fn lease_write(entry: &Entry) -> Option<(u32, f64)> {
    let of_lease = entry.kind == "api" && entry.field("resource")? == "leases";
    // A vacant one is nobody's.
    let accepted = entry.field("code")?.as_u64()? < 300 && events::lease_term(entry).is_some();
    (of_lease && accepted).then_some((entry.replica?, entry.micros as f64 / 1e6))
}

/// The launch tokens that each claim has had, by uid.
fn tokens_of_claims(entries: &[Entry]) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.kind == "api") {
        let token = entry.field("claim").and_then(|claim| claim["token"].as_str());
        let uid = entry.field("uid").and_then(|uid| uid.as_str());
        if let (Some(uid), Some(token)) = (uid, token) {
            all.entry(uid.to_owned()).or_default().insert(token.to_owned());
        }
    }
    all
}

/// When the API server lost claims, by uid.
fn lost_claims(entries: &[Entry]) -> BTreeMap<String, f64> {
    let lost = |entry: &&Entry| entry.kind == "api" && entry.text("verb") == "lose" && !entry.text("uid").is_empty();
    let lost = entries.iter().filter(lost);
    lost.map(|entry| (entry.text("uid").to_owned(), entry.micros as f64 / 1e6)).collect()
}

/// When an instance was there.
struct Life {
    token: String,
    from: f64,
    to: Option<f64>,
}

fn lives(entries: &[Entry]) -> BTreeMap<String, Life> {
    let mut all: BTreeMap<String, Life> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.kind == "instance") {
        let t = entry.micros as f64 / 1e6;
        // A launch that is made again with a new template has the token with a suffix.
        let token = || entry.text("token").trim_end_matches("-r").to_owned();
        let life = all.entry(entry.text("id").to_owned()).or_insert_with(|| Life { token: token(), from: t, to: None });
        if matches!(entry.text("change"), "shutting-down" | "terminated") {
            life.to.get_or_insert(t);
        }
    }
    all
}
