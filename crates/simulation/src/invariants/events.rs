//! Terms, launches and tokens, event by event.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_sandbox::log::ActionEntry;
use serde_json::Value;

use super::Checker;
use super::history::{accepted, base, seconds};
use super::windows;
use crate::world::{Action, step};

/// A launch as a replica sent it.
struct Launch {
    t: f64,
    term: Option<i64>,
    replica: u32,
}

impl Launch {
    fn from_entry(entry: &ActionEntry) -> Option<Self> {
        let sent = entry.field("result")?.get("sent")?;
        Some(Self { t: sent["t"].as_f64()?, term: sent["term"].as_i64(), replica: entry.replica? })
    }
}

/// A write of the Lease by a replica which knows that it was accepted.
struct LeaseWrite {
    replica: u32,
    /// Seconds at which the request came in: its sender counts from before that.
    asked: f64,
    held: bool,
}

impl LeaseWrite {
    fn from_entry(entry: &ActionEntry) -> Option<Self> {
        // A replica that never learns that the write was accepted may not rest on it.
        let known = entry.kind == "api" && accepted(entry) && entry.field("answerLost") != Some(&Value::Bool(true));
        let (_, holder) = lease_term(entry).filter(|_| known)?;
        let asked = entry.field("asked").and_then(Value::as_f64).unwrap_or_else(|| seconds(entry));
        Some(Self { replica: entry.replica?, asked, held: !holder.is_empty() })
    }
}

impl Checker {
    /// INV-2: every launch is sent under a term, and none after a launch of a newer term was sent. INV-8: none is sent later
    /// than the holder's deadline, counted from when the API server heard the last renewal that it may rest on; none at all
    /// after the Lease was given back.
    pub(super) fn launches_within_terms(&mut self, entries: &[ActionEntry]) {
        let mut launches: Vec<Launch> = entries.iter().filter_map(Launch::from_entry).collect();
        let leases: Vec<LeaseWrite> = entries.iter().filter_map(LeaseWrite::from_entry).collect();
        launches.sort_by(|a, b| a.t.total_cmp(&b.t));
        // By the holder's own clock, which may lose a thousandth.
        let deadline = self.renew_deadline * 1.001;
        let mut latest = 0;
        for Launch { t, term, replica } in launches {
            self.expect("INV-2", t, term.is_some_and(|term| term >= latest), || {
                format!("a launch sent at {t} s under term {term:?} after {latest}")
            });
            latest = latest.max(term.unwrap_or(0));
            let last = leases.iter().rev().find(|write| write.replica == replica && write.asked <= t);
            let renewed = last.filter(|write| write.held).map(|write| write.asked);
            self.expect("INV-8", t, renewed.is_some_and(|at| t <= at + deadline), || {
                format!("replica {replica} sent a launch at {t} s, its Lease was renewed last at {renewed:?} s")
            });
        }
    }

    /// INV-9: once a term has begun, no NodeClaim is created, and no launch token written, under an earlier one, while there is
    /// a Lease that says so: where it was deleted, or put back, the API server has nothing to refuse by. INV-10: terms rise,
    /// each with one holder. The first write of a Lease that was put back begins none where it was sent before and nobody was told of
    /// it: a request that was under way for long may rest on just that version.
    pub(super) fn terms(&mut self, entries: &[ActionEntry]) {
        let (mut newest, mut holder) = (0, String::new());
        // The Lease's, as it stands.
        let mut says: Option<u64> = None;
        // Seconds at which the Lease was put back from a backup, until somebody writes it.
        let mut put_back: Option<f64> = None;
        let mut tokens: BTreeMap<String, String> = BTreeMap::new();
        for entry in entries {
            // An operator's deletion is recorded as a step alone.
            if matches!(step(entry), Some(Action::Delete { kind, .. }) if kind == "Lease") {
                says = None;
            }
            if entry.kind != "api" || !accepted(entry) {
                continue;
            }
            let at = seconds(entry);
            let mut late = false;
            if entry.text("resource") == "leases" {
                late = put_back.take().is_some_and(|back| is_unheard_from_before(entry, back));
                if entry.text("verb") == "restore" {
                    put_back = Some(at);
                }
                let term = entry.field("sent").and_then(|sent| sent["spec"]["leaseTransitions"].as_u64());
                says = (entry.text("verb") != "lose").then(|| term.unwrap_or(0));
            }
            if let Some((term, who)) = lease_term(entry) {
                let same = term == newest && (who == holder || who.is_empty());
                self.expect("INV-10", at, term > newest || same || late, || {
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
            // No replica writes an object that is put back from a backup.
            if entry.replica.is_some() && (created || launched) {
                let name = entry.text("name").to_owned();
                self.expect("INV-9", at, term >= newest || says.is_none_or(|says| says == term), || {
                    format!("claim {name} is written at {at} s under term {term}, {newest} has begun")
                });
            }
        }
    }

    /// INV-11: every instance of ours has a token that was written on a claim before.
    pub(super) fn tokens_are_on_claims(&mut self, entries: &[ActionEntry]) {
        let (mut written, mut seen) = (BTreeSet::new(), BTreeSet::new());
        for entry in entries {
            if let Some(token) = entry.field("claim").and_then(|claim| claim["token"].as_str()) {
                written.insert(token.to_owned());
            }
            let token = if entry.kind == "instance" { entry.text("token") } else { "" };
            if !token.is_empty() && seen.insert(entry.text("id").to_owned()) {
                let token = base(token);
                self.expect("INV-11", seconds(entry), written.contains(token), || {
                    format!("instance {} was launched with token {token}, which no claim had", entry.text("id"))
                });
            }
        }
    }

    /// INV-4: a pod is bound once in its life, and once more after the API server was put back to an older state. INV-5:
    /// entries stand in the order of their times.
    pub(super) fn bindings_and_order(&mut self, entries: &[ActionEntry]) {
        let (mut seen, mut last) = (BTreeSet::new(), 0);
        for entry in entries {
            let at = seconds(entry);
            if windows::restored_to(entry).is_some() {
                seen.clear();
            }
            if entry.kind == "pod" && entry.text("change") == "bound" {
                let uid = entry.text("uid");
                let first = seen.insert(uid.to_owned());
                self.expect("INV-4", at, first, || format!("pod {uid} is bound again at {at} s"));
            }
            if entry.micros < last {
                self.expect("INV-5", at, false, || {
                    format!("an entry of {at} s stands after one of {} s", last as f64 / 1e6)
                });
            }
            last = last.max(entry.micros);
        }
    }
}

/// The term of a Lease as a replica wrote it, and its holder, empty when it was given back; nothing for a vacant one.
pub(super) fn lease_term(entry: &ActionEntry) -> Option<(u64, String)> {
    if entry.field("resource")?.as_str()? != "leases" {
        return None;
    }
    entry.replica?;
    let spec = &entry.field("sent")?["spec"];
    let term = spec["leaseTransitions"].as_u64().filter(|term| *term > 0)?;
    Some((term, spec["holderIdentity"].as_str().unwrap_or_default().to_owned()))
}

/// True if a replica sent the request before `time`, and has not heard its answer.
fn is_unheard_from_before(entry: &ActionEntry, time: f64) -> bool {
    let asked = entry.field("asked").and_then(Value::as_f64);
    entry.replica.is_some()
        && entry.field("answerLost") == Some(&Value::Bool(true))
        && asked.is_some_and(|at| at < time)
}

/// The launch tokens that each claim has had, by uid.
pub(super) fn tokens_of_claims(entries: &[ActionEntry]) -> BTreeMap<String, BTreeSet<String>> {
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
