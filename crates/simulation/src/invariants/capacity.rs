//! How much is launched: no more than pods need, and no more than pools may have.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_sandbox::log::ActionEntry;

use super::Checker;
use super::history::{AmountsByName, Claim, ClusterRecord, PodRecord, accepted, add, seconds};
use super::rules::PoolRules;
use super::windows;
use crate::world::{Action, step};

/// What is asked for besides the pods themselves: their number.
const PODS: &str = "pods";
/// The number of nodes, among a pool's limits.
const NODES: &str = "nodes";
/// What NodeClaims on their way may ask for of what the pods ask for that have waited since the oldest of them was made, those
/// that a StatefulSet will make among them: a half more, as a new leader does not know which pods a claim was made for.
const ASKED_AT_MOST: f64 = 1.5;
/// A quarter more for each further term in which they were made: each new leader has to find out anew where the pods are to go.
const ASKED_A_TERM: f64 = 0.25;
/// A claim may be made so long after it was planned for pods that have found room since, or whose room is seen late (`slowWatches`).
const PLANNED_BEFORE: f64 = 30.0;
/// So long after the API server was put back to an older state it is not asked: pods that were bound are not any more, and the
/// log does not show which. Nor after AWS has announced something, which a scenario writes as a message: whose pods have to
/// leave is in its text.
const UNCLEAR: f64 = 900.0;

impl Checker {
    /// INV-14: NodeClaims on their way ask for no more than a bound of what pods that have waited need. How large their
    /// instances are is not asked: it may be that EC2 has nothing smaller. INV-16: a pool's NodeClaims that stay never have more than its limits.
    pub(super) fn capacity(&mut self, entries: &[ActionEntry]) {
        let mut state = ClusterRecord::default();
        let (mut waited, mut unclear) = (Waited::default(), f64::NEG_INFINITY);
        for entry in entries {
            let announced = matches!(step(entry), Some(Action::Message { .. }));
            if announced || windows::restored_to(entry).is_some() {
                unclear = seconds(entry);
            }
            let of_claims = entry.kind == "api" && entry.text("resource") == "nodeclaims" && accepted(entry);
            let before = if of_claims { state.claims.get(entry.text("uid")).cloned() } else { None };
            waited.went(entry, &state);
            state.apply(entry);
            waited.apply(entry, &state);
            let Some(claim) = state.claims.get(entry.text("uid")).filter(|claim| of_claims && claim.gone.is_none())
            else {
                continue;
            };
            let by_replica = entry.replica.is_some();
            if by_replica && entry.text("verb") == "create" {
                if state.now - unclear > UNCLEAR {
                    self.asked(&state, &waited);
                }
                self.nodes_within_limits(&state, claim);
            }
            let became_known = before.is_some_and(|before| before.capacity.is_empty()) && !claim.capacity.is_empty();
            if by_replica && became_known {
                self.capacity_within_limits(&state, claim);
            }
        }
    }

    fn asked(&mut self, state: &ClusterRecord, waited: &Waited) {
        let comes = |claim: &&Claim| state.stays(claim) && !claim.initialized && !claim.given_up && heard(state, claim);
        let coming = || state.living_claims().filter(comes);
        let Some(oldest) = coming().map(|claim| claim.created).min_by(f64::total_cmp) else { return };
        let mut needed = waited.since(oldest - PLANNED_BEFORE, state);
        let mut asked = AmountsByName::new();
        let daemons = state.rules.daemons();
        for claim in coming() {
            add(&mut asked, &claim.requests);
            add(&mut needed, &daemons);
        }
        let terms: BTreeSet<&str> = coming().map(|claim| claim.term.as_str()).collect();
        let at_most = ASKED_AT_MOST + ASKED_A_TERM * terms.len().saturating_sub(1) as f64;
        for (name, asked) in asked.iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory" | PODS)) {
            let needed = needed.get(name).copied().unwrap_or(0);
            let most = (needed as f64 * at_most) as i64;
            self.expect("INV-14", state.now, *asked <= most, || {
                format!("NodeClaims on their way ask for {asked} of {name} at {} s, pods need {needed}", state.now)
            });
        }
    }

    fn nodes_within_limits(&mut self, state: &ClusterRecord, claim: &Claim) {
        let Some(most) = state.rules.pools.get(&claim.pool).and_then(|pool| pool.limits.get(NODES)) else { return };
        let nodes = staying(state, &claim.pool).filter(|claim| heard(state, claim)).count();
        self.expect("INV-16", state.now, i64::try_from(nodes).is_ok_and(|nodes| nodes <= *most), || {
            format!("pool {} has {nodes} NodeClaims at {} s, its limit is {most}", claim.pool, state.now)
        });
    }

    fn capacity_within_limits(&mut self, state: &ClusterRecord, claim: &Claim) {
        let Some(PoolRules { limits, .. }) = state.rules.pools.get(&claim.pool) else { return };
        let mut sum = AmountsByName::new();
        staying(state, &claim.pool).for_each(|claim| add(&mut sum, &claim.capacity));
        for (name, most) in limits.iter().filter(|(name, _)| *name != NODES) {
            let has = sum.get(name).copied().unwrap_or(0);
            self.expect("INV-16", state.now, has <= *most, || {
                format!("pool {} has {has} of {name} at {} s, its limit is {most}", claim.pool, state.now)
            });
        }
    }
}

/// Whether its leader knows of a claim, or has had half a minute to: a creation that nobody was told of may be done late.
fn heard(state: &ClusterRecord, claim: &Claim) -> bool {
    !claim.unheard || state.now - claim.created > PLANNED_BEFORE
}

/// A pool's NodeClaims that stay. One that is to be replaced does not: what replaces it comes first.
fn staying<'a>(state: &'a ClusterRecord, pool: &'a str) -> impl Iterator<Item = &'a Claim> {
    state.living_claims().filter(move |claim| {
        claim.pool == pool && state.stays(claim) && claim.moves.is_none_or(|until| until < state.now)
    })
}

/// Pods that have waited for a node or had to leave theirs.
#[derive(Default)]
struct Waited {
    /// By uid, until when, and what they ask for.
    pods: BTreeMap<String, (f64, AmountsByName)>,
    /// Those that went from nodes that stayed, or were not sent away from those that did not: when, the node, and what they
    /// asked for.
    went: Vec<(f64, String, AmountsByName)>,
    /// Those that replicas have sent away, or that went with their machine, by uid: their successors are counted.
    evicted: BTreeSet<String>,
}

impl Waited {
    /// A pod that is about to be gone: when its node has to go soon before or afterwards, who hears of that may not have heard
    /// of the pod's end.
    fn went(&mut self, entry: &ActionEntry, before: &ClusterRecord) {
        let uid = entry.text("uid");
        match (entry.kind.as_str(), entry.text("change")) {
            ("pod", "evicted" | "lost") => drop(self.evicted.insert(uid.to_owned())),
            ("api", _)
                if entry.replica.is_some() && entry.text("resource") == "pods" && entry.text("verb") == "delete" =>
            {
                self.evicted.insert(uid.to_owned());
            }
            ("pod", "deleted") => {
                let evicted = self.evicted.remove(uid);
                let unheard = |pod: &&PodRecord| {
                    let daemon = pod.owner.starts_with("DaemonSet/");
                    !pod.node.is_empty() && !daemon && (!evicted || stays(before, &pod.node, seconds(entry)))
                };
                if let Some(pod) = before.pods.get(uid).filter(unheard) {
                    self.went.push((seconds(entry), pod.node.clone(), pod.requests.clone()));
                }
            }
            _ => {}
        }
    }

    fn apply(&mut self, entry: &ActionEntry, state: &ClusterRecord) {
        let uid = entry.text("uid");
        if entry.kind != "pod" {
            return;
        }
        let over = matches!(entry.text("change"), "bound" | "deleted" | "deleting" | "evicted");
        match state.pods.get(uid) {
            Some(pod) if pod.node.is_empty() && entry.text("change") == "created" => {
                self.pods.insert(uid.to_owned(), (f64::INFINITY, pod.requests.clone()));
            }
            _ if over => {
                if let Some((until, _)) = self.pods.get_mut(uid).filter(|(until, _)| until.is_infinite()) {
                    *until = state.now;
                }
            }
            _ => {}
        }
    }

    /// What those ask for that have waited since then, and those that have to leave now.
    fn since(&self, then: f64, state: &ClusterRecord) -> AmountsByName {
        let mut sum = AmountsByName::new();
        let mut count = |requests: &AmountsByName| {
            add(&mut sum, requests);
            *sum.entry(PODS.to_owned()).or_default() += 1;
        };
        self.pods.values().filter(|(until, _)| *until >= then).for_each(|(_, requests)| count(requests));
        for ordered in state.rules.ordered.values() {
            (0..ordered.replicas).for_each(|_| count(&ordered.requests));
        }
        for (uid, pod) in state.pods.iter().filter(|(_, pod)| !pod.node.is_empty()) {
            let counted = self.pods.get(uid).is_some_and(|(until, _)| *until >= then);
            if !counted && !stays(state, &pod.node, then) {
                count(&pod.requests);
            }
        }
        let unheard = |(at, node, _): &&(f64, String, AmountsByName)| *at >= then && !stays(state, node, then);
        self.went.iter().filter(unheard).for_each(|(.., requests)| count(requests));
        sum
    }
}

/// Whether a node's pods may stay where they are, and might since then.
fn stays(state: &ClusterRecord, name: &str, then: f64) -> bool {
    let Some(node) = state.nodes.get(name).filter(|node| node.ready && !node.deleting) else { return false };
    let machine = state.machines.get(&node.instance);
    let runs = machine.is_none_or(|machine| machine.to.is_none() && !machine.warned);
    runs && state
        .claim_of(&node.instance)
        .is_none_or(|claim| claim.deleting.is_none() && claim.moves.is_none_or(|until| until < then))
}
