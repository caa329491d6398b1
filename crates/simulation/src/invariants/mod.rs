//! Invariants that hold in every run, whatever goes wrong in it. They are checked when the run is over, over everything that has
//! happened in it: a violation is found even if it was mended later. `tests/simulation/audit.py` checks the same from the events
//! alone.

mod capacity;
mod collection;
mod commands;
mod disruption;
mod events;
mod futile;
mod history;
mod index;
mod records;
mod replicas;
mod reserved;
mod rules;
mod slots;
#[cfg(test)]
mod tests;
mod unused;
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::names::{annotations, tags};
use dovetail_core::ownership::token::claims_of;
use dovetail_sandbox::log::ActionEntry;
use dovetail_sandbox::region::RegionInstance;
use serde::Serialize;

pub(super) use history::{AmountsByName, amounts};
pub(super) use rules::note as note_rules;

use crate::rounding::seconds;
use crate::world::{OTHER_CLUSTER, World};

/// The number of checks made, and the violations found.
#[derive(Serialize)]
pub struct CheckOutcome {
    /// Number of single checks.
    pub checked: usize,
    pub violations: Vec<Violation>,
}

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// The invariant's number as in docs/invariants.md: `INV-1`.
    pub id: &'static str,
    /// Seconds of the run at which it was violated.
    pub t: f64,
    /// A sentence that says what is wrong.
    pub what: String,
}

pub fn check(world: &World, instances: &[RegionInstance]) -> CheckOutcome {
    let foreign = |one: &&RegionInstance| one.tags.get(tags::CLUSTER_UID).is_some_and(|uid| uid == OTHER_CLUSTER);
    let end = End {
        t: seconds(world.now()),
        alive: instances.iter().filter(|one| one.state.is_alive()).map(Living::from_instance).collect(),
        foreign: instances.iter().filter(foreign).map(|one| one.id.clone()).collect(),
        claimed: world
            .claims()
            .iter()
            .filter_map(|claim| Some((text(&claim["status"]["providerID"])?, text(&claim["metadata"]["name"])?)))
            .collect(),
        awaited: world
            .claims()
            .iter()
            .filter(|claim| text(&claim["status"]["providerID"]).is_none())
            .filter_map(|claim| text(&claim["metadata"]["annotations"][annotations::LAUNCH_TOKEN]))
            .collect(),
        renew_deadline: world.renew_deadline().as_secs_f64(),
    };
    world.log.with_entries(|entries| judge(entries, &end))
}

fn text(value: &serde_json::Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The end of the run, as the region and the API server themselves show it.
struct End {
    t: f64,
    alive: Vec<Living>,
    /// Ids of what another cluster has made.
    foreign: BTreeSet<String>,
    /// NodeClaims' providerIDs and names.
    claimed: Vec<(String, String)>,
    /// Launch tokens of NodeClaims that have no instance yet.
    awaited: BTreeSet<String>,
    renew_deadline: f64,
}

/// An instance that lives at the end.
struct Living {
    id: String,
    provider_id: String,
    token: Option<String>,
    beforehand: bool,
}

impl Living {
    fn from_instance(instance: &RegionInstance) -> Self {
        Self {
            id: instance.id.clone(),
            provider_id: instance.provider_id(),
            token: instance.client_token.clone(),
            beforehand: instance.beforehand,
        }
    }
}

/// Judges a run by its events and its end.
fn judge(entries: &[ActionEntry], end: &End) -> CheckOutcome {
    let ended_by_call = entries.iter().filter(|entry| {
        entry.kind == "instance"
            && entry.text("change") == "shutting-down"
            && entry.text("reason") == "Client.UserInitiatedShutdown"
    });
    let mut checker = Checker {
        renew_deadline: end.renew_deadline,
        ended_by_call: ended_by_call.map(|entry| entry.text("id").to_owned()).collect(),
        checked: 0,
        violations: Vec::new(),
    };
    checker.at_the_end(end);
    checker.launches_within_terms(entries);
    checker.bindings_and_order(entries);
    checker.nothing_foreign_is_ended(entries, end);
    checker.terms(entries);
    checker.tokens_are_on_claims(entries);
    checker.collection(entries, end.t);
    checker.instances_of_claims(entries, end.t);
    checker.capacity(entries);
    checker.disruption(entries);
    checker.commands(entries);
    checker.unused_launches(entries);
    checker.futile_launches(entries);
    checker.reserved(entries);
    checker.paid_slots(entries, end.t);
    checker.replicas(entries);
    CheckOutcome { checked: checker.checked, violations: checker.violations }
}

struct Checker {
    renew_deadline: f64,
    /// Instances that a call has ended.
    ended_by_call: BTreeSet<String>,
    checked: usize,
    violations: Vec<Violation>,
}

impl Checker {
    fn expect(&mut self, id: &'static str, t: f64, holds: bool, what: impl FnOnce() -> String) {
        self.checked += 1;
        if !holds {
            self.violations.push(Violation { id, t, what: what() });
        }
    }

    /// INV-1: a launch token never has more instances that live than it was made for claims, and no two claims share an instance. INV-3: no instance of
    /// ours lives without a claim at the end that has it, or waits for it.
    fn at_the_end(&mut self, end: &End) {
        let mut alive: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for one in &end.alive {
            if let Some(token) = &one.token {
                alive.entry(token).or_default().push(&one.id);
            }
        }
        for (token, ids) in alive {
            let most = usize::try_from(claims_of(history::base(token))).unwrap_or(usize::MAX);
            self.expect("INV-1", end.t, ids.len() <= most, || {
                format!("token {token} has instances {}", ids.join(", "))
            });
        }
        let mut sharing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (provider_id, claim) in &end.claimed {
            sharing.entry(provider_id).or_default().push(claim);
        }
        for (instance, claims) in &sharing {
            self.expect("INV-1", end.t, claims.len() == 1, || {
                format!("instance {instance} has claims {}", claims.join(", "))
            });
        }
        for one in end.alive.iter().filter(|one| !one.beforehand) {
            let awaited = one.token.as_deref().is_some_and(|token| end.awaited.contains(history::base(token)));
            let known = awaited || sharing.contains_key(one.provider_id.as_str());
            self.expect("INV-3", end.t, known, || format!("instance {} lives and no claim knows it", one.id));
        }
    }

    /// INV-6: what another cluster made is never ended, whatever its name.
    fn nothing_foreign_is_ended(&mut self, entries: &[ActionEntry], end: &End) {
        if end.foreign.is_empty() {
            return;
        }
        let calls = entries.iter().filter(|entry| entry.replica.is_some() && entry.kind == "aws");
        let ids = calls.filter_map(|entry| entry.field("result")?.get("instances")?.as_array()).flatten();
        let ended: BTreeSet<&str> = ids.filter_map(serde_json::Value::as_str).collect();
        for id in &end.foreign {
            self.expect("INV-6", end.t, !ended.contains(id.as_str()), || {
                format!("instance {id} of another cluster was ended")
            });
        }
    }
}
