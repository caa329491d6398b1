//! The run as the event log tells it, replayed: what stood where at each entry.

use std::collections::BTreeMap;

use dovetail_core::quantity;
use dovetail_sandbox::log::ActionEntry;
use serde_json::Value;

use super::index::{ClaimKey, RecordIndex};
pub(super) use super::records::{Claim, InstanceRecord, NodeRecord, PodRecord};
use super::rules::{self, RulesInForce};
use crate::world::{Action, step};

/// Amounts of resources by name: milliCPU, bytes, or plain numbers.
pub(crate) type AmountsByName = BTreeMap<String, i64>;

/// Everything as it stands after the entries so far.
#[derive(Default)]
pub(super) struct ClusterRecord {
    pub now: f64,
    /// By uid.
    pub claims: BTreeMap<String, Claim>,
    /// By id; those of ours, which have a token.
    pub machines: BTreeMap<String, InstanceRecord>,
    /// By name.
    pub nodes: BTreeMap<String, NodeRecord>,
    /// By uid; those that are there.
    pub pods: BTreeMap<String, PodRecord>,
    pub rules: RulesInForce,
    /// Look-ups of all these.
    pub index: RecordIndex,
    /// Claims by name that an operator has deleted.
    deleted: BTreeMap<String, f64>,
}

impl ClusterRecord {
    /// Applies an entry of the event log.
    pub fn apply(&mut self, entry: &ActionEntry) {
        self.now = seconds(entry);
        match entry.kind.as_str() {
            "api" if entry.text("resource") == "nodeclaims" && entry.text("subresource") != "eviction" => {
                let uid = entry.text("uid");
                let before = self.claim_key(uid);
                self.claim(entry);
                let after = self.claim_key(uid);
                self.index.claim_changed(uid, before.as_ref(), after.as_ref());
            }
            "aws" if entry.text("action") == "CreateFleet" => self.launch(entry),
            "instance" => self.machine(entry),
            "node" => self.node(entry),
            "pod" => self.pod(entry),
            "rules" => self.rules.apply(entry),
            "step" => step(entry).iter().for_each(|action| self.step(action)),
            _ => {}
        }
    }

    /// The key by which a claim is found now.
    pub fn claim_key(&self, uid: &str) -> Option<ClaimKey> {
        self.claims.get(uid).and_then(ClaimKey::of_claim)
    }

    #[allow(clippy::too_many_lines)] // one arm a change of a claim
    fn claim(&mut self, entry: &ActionEntry) {
        if !accepted(entry) {
            let refused = entry.text("verb") == "delete" && entry.replica.is_some();
            for uid in self.index.claims_named(entry.text("name")).filter(|_| refused) {
                if let Some(claim) = self.claims.get_mut(uid).filter(|claim| claim.name == entry.text("name")) {
                    claim.given_up |= claim.instance.is_empty();
                }
            }
            return;
        }
        let (uid, now) = (entry.text("uid").to_owned(), self.now);
        if uid.is_empty() {
            return;
        }
        let verb = entry.text("verb");
        let there = entry.field("claim").filter(|claim| claim.is_object());
        let known = self.claims.contains_key(&uid);
        let claim = self.claims.entry(uid).or_insert_with(|| Claim { created: now, ..Claim::default() });
        let Some(written) = there else {
            claim.gone.get_or_insert(now);
            return;
        };
        let text = |field: &str| written[field].as_str().unwrap_or_default().to_owned();
        // It may be there again: from a backup, and as it was then.
        claim.gone = None;
        if verb == "restore" {
            let goes = entry.field("deleting") == Some(&Value::Bool(true));
            (claim.deleting, claim.held) = (goes.then_some(now), None);
            self.deleted.remove(entry.text("name"));
        }
        if claim.name != entry.text("name") {
            entry.text("name").clone_into(&mut claim.name);
            self.index.claim_named(entry.text("uid"), &claim.name);
        }
        let by_replica = entry.replica.is_some();
        claim.unheard |= verb == "create" && entry.field("answerLost") == Some(&Value::Bool(true));
        claim.unheard &= verb == "create" || !by_replica;
        claim.given_up &= claim.token == text("token");
        (claim.pool, claim.token) = (text("nodePool"), text("token"));
        if !known {
            claim.term = text("term");
        }
        claim.instance = text("providerID").rsplit('/').next().unwrap_or_default().to_owned();
        claim.requests = amounts(&written["requests"]);
        if let Some(sent) = entry.field("sent") {
            claim.apply_sent(sent, known, now);
        }
        if verb == "delete" || self.deleted.contains_key(&claim.name) {
            claim.deleting.get_or_insert(now);
        }
    }

    /// A launch that brought nothing.
    fn launch(&mut self, entry: &ActionEntry) {
        let token = entry.field("parameters").and_then(|all| all["token"].as_str()).map(base).unwrap_or_default();
        let brought =
            entry.field("result").and_then(|result| result["instances"].as_array()).is_some_and(|all| !all.is_empty());
        if entry.text("code") == "OK" && !brought {
            // Those that are gone too: one may be there again.
            let own = self.claims.values_mut().filter(|claim| claim.token == token && claim.instance.is_empty());
            own.for_each(|claim| claim.given_up = true);
        }
    }

    fn machine(&mut self, entry: &ActionEntry) {
        let (id, token) = (entry.text("id"), entry.text("token"));
        if token.is_empty() {
            return;
        }
        let (now, index) = (self.now, &mut self.index);
        let machine = self.machines.entry(id.to_owned()).or_insert_with(|| {
            let token = base(token).to_owned();
            index.machine_came(id, &token);
            InstanceRecord { token, from: now, ..InstanceRecord::default() }
        });
        match entry.text("change") {
            "shutting-down" | "terminated" => {
                machine.to.get_or_insert(now);
            }
            "interrupted" => machine.warned = true,
            _ => {}
        }
    }

    fn node(&mut self, entry: &ActionEntry) {
        let name = entry.text("name");
        if entry.text("change") == "deleted" {
            if let Some(node) = self.nodes.remove(name) {
                self.index.node_leaves(name, &node);
            }
            return;
        }
        let node = self.nodes.entry(name.to_owned()).or_default();
        self.index.node_leaves(name, node);
        match entry.text("change") {
            "joined" => entry.text("instance").clone_into(&mut node.instance),
            "ready" => node.ready = true,
            "not-ready" => node.ready = false,
            "deleting" => node.deleting = true,
            "staying" => node.deleting = false,
            _ => {}
        }
        self.index.node_is(name, node);
    }

    fn pod(&mut self, entry: &ActionEntry) {
        let uid = entry.text("uid");
        if entry.text("change") == "deleted" {
            if let Some(pod) = self.pods.remove(uid) {
                self.index.pod_leaves(uid, &pod);
            }
            return;
        }
        let known = self.pods.contains_key(uid);
        let pod = self.pods.entry(uid.to_owned()).or_default();
        // The other changes are none of what it is found by.
        let moves = !known || matches!(entry.text("change"), "created" | "bound");
        if known && moves {
            self.index.pod_leaves(uid, pod);
        }
        match entry.text("change") {
            "created" => {
                pod.created = self.now;
                entry.text("namespace").clone_into(&mut pod.namespace);
                entry.text("name").clone_into(&mut pod.name);
                entry.text("owner").clone_into(&mut pod.owner);
                pod.requests = entry.field("requests").map(rules::sum).unwrap_or_default();
            }
            "bound" => entry.text("node").clone_into(&mut pod.node),
            "ready" => (pod.ready, pod.shown_ready) = (true, f64::INFINITY),
            "lost" => pod.ready = false,
            change @ ("not-ready" | "succeeded" | "failed") => {
                pod.ended |= change != "not-ready";
                (pod.ready, pod.shown_ready) = (false, pod.shown_ready.min(self.now))
            }
            "deleting" if !pod.deleting => (pod.deleting, pod.removed) = (true, Some(self.now)),
            "evicted" => pod.deleting = true,
            _ => {}
        }
        if moves {
            self.index.pod_is(uid, pod);
        }
    }

    /// An operator's deletion is no call of a replica; nor is what is scaled.
    fn step(&mut self, action: &Action) {
        match action {
            Action::Scale { kind, namespace, name, replicas } => self.rules.scale(kind, namespace, name, *replicas),
            Action::Restore { .. } => self.rules.restored(),
            Action::Delete { kind, namespace, name } => match kind.as_str() {
                "NodeClaim" => self.deleted_by_hand(name),
                "NodePool" => {
                    self.rules.pools.remove(name);
                    self.ends(|claim| claim.pool == *name);
                }
                "PodDisruptionBudget" => drop(self.rules.budgets.remove(&(namespace.clone(), name.clone()))),
                _ => {}
            },
            _ => {}
        }
    }

    fn deleted_by_hand(&mut self, name: &str) {
        self.deleted.insert(name.to_owned(), self.now);
        self.ends(|claim| claim.name == name);
    }

    /// Claims that are there go, though their own deletion may come later.
    fn ends(&mut self, which: impl Fn(&Claim) -> bool) {
        let now = self.now;
        let found = self.claims.values_mut().filter(|claim| which(claim) && claim.gone.is_none());
        found.for_each(|claim| claim.deleting = claim.deleting.or(Some(now)));
    }

    pub fn living_claims(&self) -> impl Iterator<Item = &Claim> {
        self.claims.values().filter(|claim| claim.gone.is_none())
    }

    /// True if a claim has the instance, or waits for the one that its token brings.
    pub fn is_claimed(&self, id: &str) -> bool {
        let token = self.machines.get(id).map_or("", |machine| machine.token.as_str());
        self.index.claims_of(id).next().is_some() || self.index.is_awaited(token)
    }

    /// The claim that has an instance.
    pub fn claim_of(&self, id: &str) -> Option<&Claim> {
        self.index.claims_of(id).next().and_then(|uid| self.claims.get(uid))
    }

    /// All claims that there were under a name.
    pub fn claims_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Claim> {
        self.index.claims_named(name).filter_map(|uid| self.claims.get(uid)).filter(move |claim| claim.name == name)
    }

    pub fn nodes_of(&self, instance: &str) -> impl Iterator<Item = &NodeRecord> {
        self.index.nodes_of(instance).filter_map(|name| self.nodes.get(name))
    }

    /// True if a claim's machine stays: nothing of it is being deleted, and the cloud lets its instance run on.
    pub fn stays(&self, claim: &Claim) -> bool {
        let ends = || self.machines.get(&claim.instance).is_some_and(|machine| machine.warned || machine.to.is_some());
        let goes = || self.nodes_of(&claim.instance).any(|node| node.deleting) || ends();
        claim.deleting.is_none() && (claim.instance.is_empty() || !goes())
    }
}

/// The time at which an entry was written, in seconds.
pub(super) fn seconds(entry: &ActionEntry) -> f64 {
    entry.micros as f64 / 1e6
}

pub(super) fn accepted(entry: &ActionEntry) -> bool {
    entry.field("code").and_then(Value::as_u64).is_some_and(|code| code < 300)
}

/// A launch that is made again with a new template has the token with a suffix.
pub(super) fn base(token: &str) -> &str {
    token.trim_end_matches("-r")
}

/// Quantities by name: CPU in thousandths, all else whole.
pub(crate) fn amounts(list: &Value) -> AmountsByName {
    let read = |(name, value): (&String, &Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let scale = if name == "cpu" { 1000 } else { 1 };
        Some((name.clone(), quantity::parse(&text, scale).ok()?))
    };
    list.as_object().into_iter().flatten().filter_map(read).collect()
}

pub(super) fn add(sum: &mut AmountsByName, more: &AmountsByName) {
    add_times(sum, more, 1);
}

/// Adds so many times as much.
pub(super) fn add_times(sum: &mut AmountsByName, more: &AmountsByName, times: i64) {
    for (name, amount) in more {
        // One that asks for more than there is stands at the largest number already.
        let more = amount.saturating_mul(times);
        match sum.get_mut(name) {
            Some(one) => *one = one.saturating_add(more),
            None => drop(sum.insert(name.clone(), more)),
        }
    }
}
