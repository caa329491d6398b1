//! Nodes that go by our own decision: never against a PodDisruptionBudget, never more at once than a pool's budgets allow.

use std::collections::BTreeMap;

use dovetail_sandbox::log::ActionEntry;

use super::Checker;
use super::commands::{ClaimHold, hold};
use super::history::{Claim, ClusterRecord, PodRecord, accepted, seconds};

/// From the decision to the deletion that the API server accepts: it is asked again where it fails.
const DECIDED_WITHIN: f64 = 60.0;
/// Most that a replica's clock may be off, in seconds.
pub(super) const CLOCK_OFF: f64 = 65.0;
/// The reason of removing a node that is unwell. With a deadline from the beginning it goes by force.
const REPAIRED: &str = "unhealthy";
/// The reason of removing a node whose time is over: the nodes of a capacity block go all at once, as the block ends.
const EXPIRED: &str = "expired";
/// The reason of removing a node that its static pool has too many of: the operator asks for fewer.
const SCALED_DOWN: &str = "overprovisioned";
/// The reasons that budgets know, but for the one of repair.
const REASONS: [&str; 3] = ["Empty", "Drifted", "Underutilized"];
/// The reason by which budgets bound repair.
const OF_REPAIR: [&str; 1] = ["Unhealthy"];

impl Checker {
    /// INV-15: no replica takes a ready pod away that its PodDisruptionBudget needs: by an eviction, by a deletion, or with its
    /// node. An eviction is the API server's to allow, by what it shows of the other pods. Nodes that the cloud takes away,
    /// whose time is up by force, or that no claim has are not drained by our own will.
    /// INV-17: nodes that replicas remove though nothing forces them to, and those that a command holds until their replacements
    /// stand, are never more at once than their pool's budgets allow.
    pub(super) fn disruption(&mut self, entries: &[ActionEntry]) {
        let mut state = ClusterRecord::default();
        let mut removed: BTreeMap<String, String> = BTreeMap::new();
        for entry in entries {
            match entry.kind.as_str() {
                // It is there again, and nobody removes it yet.
                "api" if entry.text("verb") == "restore" => drop(removed.remove(entry.text("uid"))),
                "api" if entry.replica.is_some() && accepted(entry) => {
                    let (verb, resource) = (entry.text("verb"), entry.text("resource"));
                    let evicts = verb == "create" && entry.text("subresource") == "eviction";
                    if resource == "pods" && (evicts || verb == "delete") {
                        let judged = if evicts { Judged::ByApiServer } else { Judged::AsTheyAre };
                        self.pod_by_name(&state, entry, judged);
                    }
                    if resource == "nodeclaims" && verb == "delete" && is_of_own_will(&state, entry) {
                        // The events say for certain only of repair what a node goes for: else it is the reason of which
                        // most may go.
                        let claim = state.claims.get(entry.text("uid"));
                        let repaired = claim.is_some_and(|claim| claim.goes_for == REPAIRED);
                        self.goes(&state, entry, if repaired { &OF_REPAIR } else { &REASONS }, &mut removed);
                    }
                }
                "pod" if entry.text("change") == "lost" => self.pod_lost(&state, entry),
                _ => {}
            }
            let held = hold(&state, entry);
            state.apply(entry);
            self.held(&state, entry, held.as_ref(), &mut removed);
        }
    }

    /// A command holds a claim from now on, or does no more.
    fn held(
        &mut self,
        state: &ClusterRecord,
        entry: &ActionEntry,
        before: Option<&ClaimHold>,
        removed: &mut BTreeMap<String, String>,
    ) {
        match (before, hold(state, entry)) {
            (None, Some(held)) if entry.replica.is_some() => self.goes(state, entry, &[held.reason.as_str()], removed),
            (Some(_), None) => {
                let stays = |claim: &Claim| claim.deleting.is_none() && claim.gone.is_none();
                if state.claims.get(entry.text("uid")).is_some_and(stays) {
                    removed.remove(entry.text("uid"));
                }
            }
            _ => {}
        }
    }

    fn pod_by_name(&mut self, state: &ClusterRecord, entry: &ActionEntry, judged: Judged) {
        let (namespace, name) = (entry.text("namespace"), entry.text("name"));
        if let Some(pod) = state.index.pods_named(namespace, name).find_map(|uid| state.pods.get(uid)) {
            self.pod_goes(state, pod, seconds(entry), judged);
        }
    }

    fn pod_lost(&mut self, state: &ClusterRecord, entry: &ActionEntry) {
        let Some(pod) = state.pods.get(entry.text("uid")) else { return };
        let Some(node) = state.nodes.get(&pod.node) else { return };
        // A backup shows it on a machine that had ended before: nobody took it away twice.
        let machine = state.machines.get(&node.instance);
        if machine.and_then(|machine| machine.to).is_some_and(|ended| ended <= pod.created) {
            return;
        }
        // An instance without owner is collected, and one that ended otherwise ended by nobody's will.
        let ended = self.ended_by_call.contains(&node.instance);
        if ended && state.claim_of(&node.instance).is_some() {
            self.pod_goes(state, pod, seconds(entry), Judged::AsTheyAre);
        }
    }

    fn pod_goes(&mut self, state: &ClusterRecord, pod: &PodRecord, at: f64, judged: Judged) {
        if !pod.ready || pod.deleting || is_forced(state, &pod.node) {
            return;
        }
        for ((namespace, name), budget) in &state.rules.budgets {
            if *namespace != pod.namespace || !budget.covers(&pod.owner) {
                continue;
            }
            let own = budget.owners().iter().flat_map(|owner| state.index.pods_of(namespace, owner));
            let (mut all, mut ready) = (BTreeMap::<&str, usize>::new(), 0);
            for one in own.filter_map(|uid| state.pods.get(uid)).filter(|one| judged.counts(one, at)) {
                *all.entry(&one.owner).or_default() += 1;
                ready += usize::from(judged.is_ready(one, at));
            }
            // A budget is a share of the replicas that workloads want, though some pods above that are still to go.
            let wanted = |(owner, there): (&&str, &usize)| {
                state.rules.wanted(namespace, owner).map_or(*there, |all| all.min(*there))
            };
            let least = budget.least(all.iter().map(wanted).sum());
            self.expect("INV-15", at, ready > least, || {
                format!(
                    "pod {}/{} was taken away at {at} s, {ready} were ready and budget {name} asks for {least}",
                    pod.namespace, pod.name
                )
            });
        }
    }

    fn goes(
        &mut self,
        state: &ClusterRecord,
        entry: &ActionEntry,
        reasons: &[&str],
        removed: &mut BTreeMap<String, String>,
    ) {
        let Some(claim) = state.claims.get(entry.text("uid")) else { return };
        let Some(pool) = state.rules.pools.get(&claim.pool).filter(|pool| !pool.ttl) else { return };
        let now = seconds(entry);
        removed.insert(entry.text("uid").to_owned(), claim.pool.clone());
        let still_going = |(uid, of): &(&String, &String)| {
            **of == claim.pool
                && state.claims.get(*uid).is_some_and(|one| one.gone.is_none() && runs(state, one, now, 0.0))
        };
        let going = removed.iter().filter(still_going).count();
        let counts = |one: &&Claim| {
            let known = || runs(state, one, now, DECIDED_WITHIN) || one.gone.is_none() && is_shown_ready(state, one);
            one.pool == claim.pool && one.initialized && known()
        };
        let total = state.claims.values().filter(counts).count();
        let (since, until) = (now - DECIDED_WITHIN - CLOCK_OFF, now + CLOCK_OFF);
        let of_reason = |reason: &&str| {
            let all = pool.budgets.iter().filter_map(|budget| budget.allows(reason, total, since, until));
            all.min().unwrap_or(usize::MAX)
        };
        let allowed = reasons.iter().map(of_reason).max().filter(|allowed| *allowed < usize::MAX);
        self.expect("INV-17", now, allowed.is_none_or(|allowed| going <= allowed), || {
            let allowed = allowed.unwrap_or_default();
            format!(
                "{going} of {total} nodes of pool {} are being removed at {now} s, its budgets allow {allowed}",
                claim.pool
            )
        });
    }
}

/// So long after pods have changed the API server's figures of their budgets are worked out anew. What is evicted they know
/// at once.
const WORKED_OUT: f64 = 0.5;

/// Facts by which the other pods of a budget are judged.
#[derive(Clone, Copy)]
enum Judged {
    /// The pods as they are.
    AsTheyAre,
    /// The pods as the API server shows them, a moment late.
    ByApiServer,
}

impl Judged {
    /// True if a budget counts the pod at `at` seconds.
    fn counts(self, pod: &PodRecord, at: f64) -> bool {
        let known = match self {
            Self::AsTheyAre => at,
            Self::ByApiServer => at - WORKED_OUT,
        };
        let goes = pod.deleting && pod.removed.is_none_or(|removed| removed <= known);
        // A pod that has ended does not count: its workload has another by now.
        pod.created <= known && !goes && !pod.ended
    }

    fn is_ready(self, pod: &PodRecord, at: f64) -> bool {
        match self {
            Self::AsTheyAre => pod.ready,
            Self::ByApiServer => pod.shown_ready > at - WORKED_OUT,
        }
    }
}

/// True if a claim's instance runs, or ran less than `ago` seconds ago.
fn runs(state: &ClusterRecord, claim: &Claim, now: f64, ago: f64) -> bool {
    let since = |at: Option<f64>| at.is_none_or(|at| now - at < ago);
    since(claim.gone) && state.machines.get(&claim.instance).is_some_and(|machine| since(machine.to))
}

/// True if the API server shows a claim's Node as Ready: one out of a backup is for a while, though its instance has ended.
fn is_shown_ready(state: &ClusterRecord, claim: &Claim) -> bool {
    !claim.instance.is_empty() && state.nodes_of(&claim.instance).any(|node| node.ready)
}

/// True if a node's pods have to go whatever their budgets say.
pub(super) fn is_forced(state: &ClusterRecord, node: &str) -> bool {
    let instance = state.nodes.get(node).map_or("", |node| node.instance.as_str());
    let warned = state.machines.get(instance).is_some_and(|machine| machine.warned);
    warned || state.claim_of(instance).is_some_and(|claim| claim.forced || is_repaired_by_force(claim))
}

fn is_repaired_by_force(claim: &Claim) -> bool {
    claim.goes_for == REPAIRED && claim.has_deadline
}

/// True if a claim is removed though nothing forces it: its node works, and is not removed by somebody else already; its time is
/// not over, and the cloud lets it run.
pub(super) fn is_of_own_will(state: &ClusterRecord, entry: &ActionEntry) -> bool {
    let Some(claim) = state.claims.get(entry.text("uid")) else { return false };
    let works = state.nodes_of(&claim.instance).any(|node| node.ready && !node.deleting);
    let runs = state.machines.get(&claim.instance).is_some_and(|machine| machine.to.is_none() && !machine.warned);
    let over = claim.expires.is_some_and(|at| at <= seconds(entry) + CLOCK_OFF);
    let asked_for = claim.goes_for == SCALED_DOWN || claim.in_block && claim.goes_for == EXPIRED;
    let forced = is_repaired_by_force(claim) || asked_for;
    claim.initialized && claim.deleting.is_none() && !forced && works && runs && !over
}
