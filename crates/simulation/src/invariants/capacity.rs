//! Bounds on launches: no more than pods need, and no more than pools may have.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_sandbox::log::ActionEntry;

use super::Checker;
use super::history::{AmountsByName, Claim, ClusterRecord, PodRecord, accepted, add, add_times, seconds};
use super::rules::PoolRules;
use super::windows;
use crate::world::{Action, step};

/// Name under which the number of pods is counted, beside the resources that they request.
const PODS: &str = "pods";
/// The number of nodes, among a pool's limits.
const NODES: &str = "nodes";
/// Most that NodeClaims on their way may request, as a multiple of the requests of pods that have waited since the oldest of
/// these claims was made (pods that a StatefulSet will make included). A half more, as a new leader does not know which pods a
/// claim was made for.
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
            let claim = state.claims.get(entry.text("uid")).filter(|_| of_claims);
            let was_unknown = claim.is_some_and(|before| before.capacity.is_empty());
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
            let became_known = was_unknown && !claim.capacity.is_empty();
            if by_replica && became_known {
                self.capacity_within_limits(&state, claim);
            }
        }
    }

    fn asked(&mut self, state: &ClusterRecord, waited: &Waited) {
        // Nodes of a static pool come whatever pods wait.
        let is_static = |claim: &Claim| {
            state.rules.buffers || state.rules.pools.get(&claim.pool).is_some_and(|pool| pool.replicas.is_some())
        };
        let comes = |claim: &&Claim| {
            !claim.initialized && !claim.given_up && heard(state, claim) && state.stays(claim) && !is_static(claim)
        };
        let coming: Vec<&Claim> = state.living_claims().filter(comes).collect();
        let Some(oldest) = coming.iter().map(|claim| claim.created).min_by(f64::total_cmp) else { return };
        let mut needed = waited.since(oldest - PLANNED_BEFORE, state);
        let mut asked = AmountsByName::new();
        coming.iter().for_each(|claim| add(&mut asked, &claim.requests));
        add_times(&mut needed, &state.rules.daemons(), i64::try_from(coming.len()).unwrap_or(i64::MAX));
        let terms: BTreeSet<&str> = coming.iter().map(|claim| claim.term.as_str()).collect();
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
        let limits: Vec<(&String, &i64)> = limits.iter().filter(|(name, _)| *name != NODES).collect();
        let own: Vec<&Claim> = if limits.is_empty() { Vec::new() } else { staying(state, &claim.pool).collect() };
        for (name, most) in limits {
            let all = own.iter().filter_map(|claim| claim.capacity.get(name));
            let has = all.fold(0_i64, |sum, one| sum.saturating_add(*one));
            self.expect("INV-16", state.now, has <= *most, || {
                format!("pool {} has {has} of {name} at {} s, its limit is {most}", claim.pool, state.now)
            });
        }
    }
}

/// True if the claim's leader knows of it, or has had half a minute to: a creation without an answer may be done late.
pub(super) fn heard(state: &ClusterRecord, claim: &Claim) -> bool {
    !claim.unheard || state.now - claim.created > PLANNED_BEFORE
}

/// A pool's NodeClaims that stay. One that is to be replaced does not: what replaces it comes first.
pub(super) fn staying<'a>(state: &'a ClusterRecord, pool: &'a str) -> impl Iterator<Item = &'a Claim> {
    state.living_claims().filter(move |claim| {
        claim.pool == pool && claim.moves.is_none_or(|until| until < state.now) && state.stays(claim)
    })
}

/// Pods that have waited for a node or had to leave theirs.
#[derive(Default)]
struct Waited {
    /// By uid, until when, and what they ask for.
    pods: BTreeMap<String, (f64, AmountsByName)>,
    /// Sum of the requests of those that wait still, and their number.
    waiting: (BTreeMap<String, i128>, i64),
    /// Those whose wait was over, in order.
    over: Vec<(f64, String)>,
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
                let before = self.pods.insert(uid.to_owned(), (f64::INFINITY, pod.requests.clone()));
                if before.is_none_or(|(until, _)| until.is_finite()) {
                    self.count_waiting(&pod.requests, 1);
                }
            }
            _ if over => {
                if let Some((until, requests)) = self.pods.get_mut(uid).filter(|(until, _)| until.is_infinite()) {
                    *until = state.now;
                    let requests = requests.clone();
                    self.count_waiting(&requests, -1);
                    self.over.push((state.now, uid.to_owned()));
                }
            }
            _ => {}
        }
    }

    fn count_waiting(&mut self, requests: &AmountsByName, by: i64) {
        for (name, amount) in requests {
            *self.waiting.0.entry(name.clone()).or_default() += i128::from(*amount) * i128::from(by);
        }
        self.waiting.1 += by;
    }

    /// Requests of the pods that have waited since `then`, and of those that have to leave their nodes now.
    fn since(&self, then: f64, state: &ClusterRecord) -> AmountsByName {
        let most = |amount: &i128| i64::try_from(*amount).unwrap_or(i64::MAX);
        let mut sum: AmountsByName = self.waiting.0.iter().map(|(name, all)| (name.clone(), most(all))).collect();
        let mut count = |requests: &AmountsByName, times: i64| {
            add_times(&mut sum, requests, times);
            let pods = sum.entry(PODS.to_owned()).or_default();
            *pods = pods.saturating_add(times);
        };
        count(&AmountsByName::new(), self.waiting.1);
        for (until, uid) in self.over.iter().rev().take_while(|(until, _)| *until >= then) {
            // One that waits again is counted already.
            if let Some((_, requests)) = self.pods.get(uid).filter(|(last, _)| last == until) {
                count(requests, 1);
            }
        }
        state.rules.ordered.values().for_each(|ordered| count(&ordered.requests, ordered.replicas.max(0)));
        let leaving = state.index.pods_by_node().iter().filter(|(node, _)| !stays(state, node, then));
        for uid in leaving.flat_map(|(_, uids)| uids) {
            let counted = self.pods.get(uid).is_some_and(|(until, _)| *until >= then);
            if let Some(pod) = state.pods.get(uid).filter(|_| !counted) {
                count(&pod.requests, 1);
            }
        }
        let lately = self.went.iter().rev().take_while(|(at, ..)| *at >= then);
        lately.filter(|(_, node, _)| !stays(state, node, then)).for_each(|(.., requests)| count(requests, 1));
        sum
    }
}

/// True if a node's pods may stay where they are, and could all the time since `then`.
fn stays(state: &ClusterRecord, name: &str, then: f64) -> bool {
    let Some(node) = state.nodes.get(name).filter(|node| node.ready && !node.deleting) else { return false };
    let machine = state.machines.get(&node.instance);
    let runs = machine.is_none_or(|machine| machine.to.is_none() && !machine.warned);
    runs && state
        .claim_of(&node.instance)
        .is_none_or(|claim| claim.deleting.is_none() && claim.moves.is_none_or(|until| until < then))
}
