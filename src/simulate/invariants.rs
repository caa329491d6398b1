//! What must hold at the end of every run, whatever went wrong in it. `tests/simulation/audit.py` checks the same from
//! the events alone.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_sandbox::region::Instance;
use serde::Serialize;

use super::seconds;
use crate::world::World;

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
    checker.terms_of_launches(world);
    checker.no_instance_without_a_claim(world, instances);
    checker.no_pod_bound_twice(world);
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

    /// INV-2: every launch is made under a term, and none under a term older than one that has launched before.
    fn terms_of_launches(&mut self, world: &World) {
        let launches: Vec<(u64, Option<i64>)> = world.log.with_entries(|entries| {
            let fleets = entries.iter().filter(|entry| {
                entry.replica.is_some()
                    && entry.field("action").and_then(|action| action.as_str()) == Some("CreateFleet")
            });
            fleets.map(|entry| (entry.micros, entry.term)).collect()
        });
        let mut latest = 0;
        for (micros, term) in launches {
            let t = micros as f64 / 1e6;
            self.expect("INV-2", term.is_some_and(|term| term >= latest), || {
                format!("a launch at {t} s under term {term:?} after {latest}")
            });
            latest = latest.max(term.unwrap_or(0));
        }
    }

    /// INV-4: a pod is bound once in its life.
    fn no_pod_bound_twice(&mut self, world: &World) {
        let bindings: Vec<(u64, String)> = world.log.with_entries(|entries| {
            let pods = entries.iter().filter(|entry| entry.kind == "pod");
            let bound = pods.filter(|entry| entry.field("change").and_then(|change| change.as_str()) == Some("bound"));
            bound.filter_map(|entry| Some((entry.micros, entry.field("uid")?.as_str()?.to_owned()))).collect()
        });
        let mut seen = BTreeSet::new();
        for (micros, uid) in bindings {
            let first = seen.insert(uid.clone());
            self.expect("INV-4", first, || format!("pod {uid} is bound again at {} s", micros as f64 / 1e6));
        }
    }
}
