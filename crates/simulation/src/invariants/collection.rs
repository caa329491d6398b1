//! Instances that nobody owns: the time that they live, and the number that is ended at once.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_sandbox::log::ActionEntry;

use super::Checker;
use super::events::tokens_of_claims;
use super::history::{Claim, ClusterRecord, InstanceRecord, seconds};
use super::index::ClaimKey;
use super::windows::{self, TEN_MINUTES, TimeSpan, lies_in, longest_outside};
use crate::world::Action;

/// Longest life of an instance that nobody owns, in seconds: two minutes of grace; two sightings at least two minutes apart, of
/// passes two to two and a quarter minutes apart; two passes that fail; a minute for the call itself.
pub(super) const COLLECTED_WITHIN: f64 = 120.0 + 2.0 * 135.0 + 2.0 * 135.0 + 60.0;
/// Seconds that EC2's describes may take to show a launch: it is looked for so long before another is begun.
const CONSISTENT: f64 = 60.0;
/// Youngest age of an instance that is collected, in seconds: a launch that was given up may be ended earlier by its maker.
const GRACE: f64 = 115.0;
/// The bound where a cluster is small.
const SMALL: usize = 5;
/// A release of the brakes ends by a replica's clock, and a call that was begun is not taken back.
const RELEASE_SLACK: f64 = 60.0;

impl Checker {
    /// INV-3: no instance lives without a claim for longer than it takes to collect it. INV-13: no more of them are ended in
    /// ten minutes than the bound allows, unless an operator has released it.
    pub(super) fn collection(&mut self, entries: &[ActionEntry], end: f64) {
        let hindered = windows::uncollected(entries, end);
        let released = windows::steps(entries, |action| matches!(action, Action::AllowCollection { .. }));
        let mut unclaimed: BTreeMap<String, f64> = BTreeMap::new();
        let mut ended: Vec<f64> = Vec::new();
        let mut state = ClusterRecord::default();
        for entry in entries {
            let before = state.claim_key(entry.text("uid"));
            if entry.kind == "instance" && entry.text("change") == "shutting-down" {
                let id = entry.text("id");
                let old =
                    state.machines.get(id).is_some_and(|one| one.to.is_none() && seconds(entry) - one.from > GRACE);
                if old && entry.text("reason") == "Client.UserInitiatedShutdown" && !state.is_claimed(id) {
                    self.one_collected(&mut ended, &state, seconds(entry), &released);
                }
            }
            state.apply(entry);
            self.unclaimed(&state, &machines_of(&state, entry, before), &mut unclaimed, &hindered);
        }
        for (id, since) in unclaimed {
            self.lived_without(&id, (since, end), &hindered);
        }
    }

    fn one_collected(&mut self, ended: &mut Vec<f64>, state: &ClusterRecord, at: f64, released: &[TimeSpan]) {
        ended.retain(|earlier| at - earlier < TEN_MINUTES);
        ended.push(at);
        let alive = state.machines.values().filter(|one| one.to.is_none()).count();
        let size = (alive + ended.len()).max(state.living_claims().count());
        let most = SMALL.max(size / 20);
        let holds = ended.len() <= most || lies_in(at, released, RELEASE_SLACK);
        self.expect("INV-13", at, holds, || {
            format!("{} instances were collected in the ten minutes before {at} s, {most} may be", ended.len())
        });
    }

    fn unclaimed(
        &mut self,
        state: &ClusterRecord,
        changed: &BTreeSet<String>,
        since: &mut BTreeMap<String, f64>,
        hindered: &[TimeSpan],
    ) {
        for (id, machine) in changed.iter().filter_map(|id| Some((id, state.machines.get(id)?))) {
            if machine.to.is_none() && !state.is_claimed(id) {
                since.entry(id.clone()).or_insert(state.now);
            } else if let Some(from) = since.remove(id) {
                self.lived_without(id, (from, state.now), hindered);
            }
        }
    }

    fn lived_without(&mut self, id: &str, life: TimeSpan, hindered: &[TimeSpan]) {
        let longest = longest_outside(life, hindered);
        self.expect("INV-3", life.1, longest <= COLLECTED_WITHIN, || {
            format!(
                "instance {id} lived without a claim from {} s to {} s, {longest:.0} s of it unhindered",
                life.0, life.1
            )
        });
    }

    /// INV-7: a claim never has two instances for longer than it takes to notice and collect one. One that the API server has
    /// lost has none any more: INV-3 speaks of what it had. INV-12: no claim gets another instance while one that was launched
    /// for it long enough ago to be found lives, unless EC2 listed none when it was looked for.
    pub(super) fn instances_of_claims(&mut self, entries: &[ActionEntry], end: f64) {
        let mut state = ClusterRecord::default();
        let mut gone: BTreeMap<String, f64> = BTreeMap::new();
        for entry in entries {
            state.apply(entry);
            if entry.text("verb") == "lose" && !entry.text("uid").is_empty() {
                gone.insert(entry.text("uid").to_owned(), seconds(entry));
            }
        }
        let hindered = windows::uncollected(entries, end);
        let blind = windows::steps(entries, |action| matches!(action, Action::EmptyLists { .. }));
        // Each claim of a call for several has its own instance, which is written on it.
        let tokens_of = tokens_of_claims(entries);
        let has = |(uid, claim): (&String, &Claim)| (claim.instance.clone(), uid.clone());
        let owners: BTreeSet<(String, String)> = state.claims.iter().map(has).collect();
        let is_anothers = |id: &String, token: &String, claim: &String| {
            let of_instance = owners.range((id.clone(), String::new())..).take_while(|(of, _)| of == id);
            let of_call = of_instance.filter(|(_, owner)| tokens_of.get(owner).is_some_and(|own| own.contains(token)));
            let mut of_call = of_call.peekable();
            of_call.peek().is_some() && of_call.all(|(_, owner)| owner != claim)
        };
        for (claim, tokens) in &tokens_of {
            let of_token = |token: &String| {
                let ids = state.index.machines_with(token);
                ids.filter(|id| !is_anothers(id, token, claim)).collect::<Vec<_>>()
            };
            let ids: BTreeSet<&String> = tokens.iter().flat_map(of_token).collect();
            let own: Vec<(&String, &InstanceRecord)> =
                ids.into_iter().filter_map(|id| Some((id, state.machines.get(id)?))).collect();
            let last = gone.get(claim).copied().unwrap_or(end);
            self.two_at_a_time(claim, &own, last, &hindered);
            for (id, machine) in &own {
                let found = |(_, other): &&(&String, &InstanceRecord)| {
                    other.from + CONSISTENT < machine.from && other.to.is_none_or(|end| end > machine.from)
                };
                let other = own.iter().find(found).filter(|_| !lies_in(machine.from, &blind, 2.0 * CONSISTENT));
                self.expect("INV-12", machine.from, other.is_none(), || {
                    let earlier = other.map(|(id, _)| id.as_str()).unwrap_or_default();
                    format!("claim {claim} got instance {id} at {} s though {earlier} lived", machine.from)
                });
            }
        }
    }

    fn two_at_a_time(&mut self, claim: &str, own: &[(&String, &InstanceRecord)], last: f64, hindered: &[TimeSpan]) {
        for (at, (id, one)) in own.iter().enumerate() {
            for (other_id, other) in &own[..at] {
                let until = |machine: &InstanceRecord| machine.to.unwrap_or(f64::INFINITY).min(last);
                let both = (one.from.max(other.from), until(one).min(until(other)));
                let longest = if both.1 > both.0 { longest_outside(both, hindered) } else { 0.0 };
                self.expect("INV-7", both.1.min(last), longest <= CONSISTENT + COLLECTED_WITHIN, || {
                    format!(
                        "claim {claim} had {other_id} and {id} from {} s to {} s, {longest:.0} s of it unhindered",
                        both.0, both.1
                    )
                });
            }
        }
    }
}

/// The instances that may have another claim by an entry, or none: by what its claim was found `before` it, and is now.
fn machines_of(state: &ClusterRecord, entry: &ActionEntry, before: Option<ClaimKey>) -> BTreeSet<String> {
    if entry.kind == "instance" {
        return BTreeSet::from([entry.text("id").to_owned()]);
    }
    if entry.kind != "api" || entry.text("resource") != "nodeclaims" {
        return BTreeSet::new();
    }
    let mut ids = BTreeSet::new();
    for key in before.into_iter().chain(state.claim_key(entry.text("uid"))) {
        match key {
            ClaimKey::Instance(id) => drop(ids.insert(id)),
            ClaimKey::Token(token) => ids.extend(state.index.machines_with(&token).cloned()),
        }
    }
    ids
}
