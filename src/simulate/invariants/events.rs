//! Invariants of the whole run, checked event by event.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_sandbox::log::Entry;

use super::{Checker, lives, tokens_of_claims};
use crate::world::World;

/// EC2's describes are consistent after this long: what was launched earlier is found.
const CONSISTENT: f64 = 60.0;
/// The window of the collection's bound, and the bound itself where a cluster is small.
const WINDOW: f64 = 600.0;
const SMALL: usize = 5;

impl Checker {
    /// INV-9 to INV-13.
    pub(super) fn events(&mut self, world: &World) {
        world.log.with_entries(|entries| {
            self.terms(entries);
            self.tokens_are_on_claims(entries);
            self.what_lives_is_adopted(entries);
            self.brakes_hold(entries);
        });
    }

    /// INV-9: once a term has begun, no NodeClaim is created, and no launch token written, under an earlier one. INV-10:
    /// terms rise, each with one holder.
    fn terms(&mut self, entries: &[Entry]) {
        let (mut newest, mut holder) = (0, String::new());
        let mut tokens: BTreeMap<String, String> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.kind == "api" && accepted(entry)) {
            let at = seconds(entry);
            if let Some((term, who)) = lease_term(entry) {
                let same = term == newest && (who == holder || who.is_empty());
                self.expect("INV-10", term > newest || same, || {
                    format!("term {term} of {who:?} is written at {at} s after term {newest} of {holder:?}")
                });
                if term > newest {
                    (newest, holder) = (term, who);
                }
            }
            let Some(claim) = entry.field("claim").filter(|claim| claim.is_object()) else { continue };
            let Some(term) = claim["term"].as_str().and_then(|text| text.parse::<u64>().ok()) else { continue };
            let (uid, token) = (entry.text("uid").to_owned(), claim["token"].as_str().unwrap_or_default().to_owned());
            let created = entry.text("verb") == "create";
            let launched = tokens.insert(uid, token.clone()).unwrap_or_default() != token;
            if created || launched {
                let name = entry.text("name").to_owned();
                self.expect("INV-9", term >= newest, || {
                    format!("claim {name} is written at {at} s under term {term}, {newest} has begun")
                });
            }
        }
    }

    /// INV-11: every instance of ours has a token that was written on a claim before.
    fn tokens_are_on_claims(&mut self, entries: &[Entry]) {
        let (mut written, mut seen) = (BTreeSet::new(), BTreeSet::new());
        for entry in entries {
            if let Some(token) = entry.field("claim").and_then(|claim| claim["token"].as_str()) {
                written.insert(token.to_owned());
            }
            let token = if entry.kind == "instance" { entry.text("token") } else { "" };
            if !token.is_empty() && seen.insert(entry.text("id").to_owned()) {
                let token = token.trim_end_matches("-r");
                self.expect("INV-11", written.contains(token), || {
                    format!("instance {} was launched with token {token}, which no claim had", entry.text("id"))
                });
            }
        }
    }

    /// INV-12: no claim gets another instance while one that was launched for it long enough ago to be found lives. Where
    /// EC2 has shown no instances at all, it could not be found.
    fn what_lives_is_adopted(&mut self, entries: &[Entry]) {
        let blind = step(entries, "EmptyLists").unwrap_or(f64::INFINITY);
        let lives = lives(entries);
        for (claim, tokens) in tokens_of_claims(entries) {
            let own: Vec<_> = lives.iter().filter(|(_, life)| tokens.contains(&life.token)).collect();
            for (id, life) in own.iter().filter(|(_, life)| life.from < blind) {
                let found = |(_, other): &&(&String, &super::Life)| {
                    other.from + CONSISTENT < life.from && other.to.is_none_or(|end| end > life.from)
                };
                let other = own.iter().find(found);
                self.expect("INV-12", other.is_none(), || {
                    let earlier = other.map(|(id, _)| id.as_str()).unwrap_or_default();
                    format!("claim {claim} got instance {id} at {} s though {earlier} lived", life.from)
                });
            }
        }
    }

    /// INV-13: the janitor ends no more than its bound in any ten minutes, unless an operator has released it.
    fn brakes_hold(&mut self, entries: &[Entry]) {
        let released = step(entries, "AllowCollection").unwrap_or(f64::INFINITY);
        let (mut alive, mut ended): (BTreeSet<String>, Vec<f64>) = (BTreeSet::new(), Vec::new());
        for entry in entries {
            if entry.kind == "instance" {
                match entry.text("change") {
                    "shutting-down" | "terminated" => alive.remove(entry.text("id")),
                    _ => alive.insert(entry.text("id").to_owned()),
                };
            }
            let at = seconds(entry);
            if entry.kind == "story" && entry.text("event") == "collected" && at < released {
                ended.retain(|earlier| at - earlier < WINDOW);
                ended.push(at);
                let most = SMALL.max((alive.len() + ended.len()).div_ceil(20));
                self.expect("INV-13", ended.len() <= most, || {
                    format!("{} instances were collected in the ten minutes before {at} s, {most} may be", ended.len())
                });
            }
        }
    }
}

fn seconds(entry: &Entry) -> f64 {
    entry.micros as f64 / 1e6
}

fn accepted(entry: &Entry) -> bool {
    entry.field("code").and_then(serde_json::Value::as_u64).is_some_and(|code| code < 300)
}

/// The term of a Lease as a replica wrote it, and its holder, empty when it was given back; nothing for a vacant one.
pub(super) fn lease_term(entry: &Entry) -> Option<(u64, String)> {
    if entry.field("resource")?.as_str()? != "leases" {
        return None;
    }
    entry.replica?;
    let spec = &entry.field("sent")?["spec"];
    let term = spec["leaseTransitions"].as_u64().filter(|term| *term > 0)?;
    Some((term, spec["holderIdentity"].as_str().unwrap_or_default().to_owned()))
}

/// When the operator first did something.
fn step(entries: &[Entry], what: &str) -> Option<f64> {
    let steps = entries.iter().filter(|entry| entry.kind == "step");
    steps.filter(|entry| entry.text("what").starts_with(what)).map(seconds).next()
}
