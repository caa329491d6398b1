//! One look at the cluster: everything that disruption decides, in one pass over the nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::names::taints;
use jiff::Timestamp;

use super::blocked::{self, Blocked};
use super::cause::DisruptionCause;
use super::drift::{self, DriftedNode};
use super::emptiness::{self, PoolCandidates, PoolNodeTotals};
use super::machines::{NodeAndClaim, machines};
use super::marks::{self, StatusMark};
use super::memory::Memory;
use super::own_slot::follow_ended_first;
use super::pool_notes::{take_notes, write_notes};
use super::pools::{DisruptionPool, Observing, pools};
use super::repair::{Ward, go_on_with_reboots, repair_by_force};
use super::succession::{Successions, WaitingNode, follow_successions, waiting_node};
use super::ttl::{self, TtlMark};
use super::{RemovalReason, expiry, repair};
use crate::cluster_state::{ClaimFacts, Moment, Snapshot};
use crate::instance_type::InstanceType;

/// Instance types by the name of the node class.
pub type OffersByClass = BTreeMap<String, Arc<Vec<Arc<InstanceType>>>>;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DisruptionDecision {
    /// Marks to be written on claims.
    pub marks: Vec<StatusMark>,
    /// Marks to be written on Nodes.
    pub ttl: Vec<TtlMark>,
    /// Nodes, by name and uid, that nobody disrupts and that are tainted as if somebody did.
    pub untaint: Vec<(String, String)>,
    /// Nodes, by name and uid, whose replacement is under way and that take new pods still.
    pub taint: Vec<(String, String)>,
    /// Claims to be removed.
    pub removals: Vec<Removal>,
    /// Claims that would have been removed, were it not for their pool, which is only observed. Each is reported once.
    pub observed: Vec<Removal>,
    /// Nodes that could go and may not.
    pub blocked: Vec<Blocked>,
    /// Pools with nodes that could go and budgets that allow none.
    pub exhausted: Vec<Exhausted>,
    /// Invalid settings of pools: the pool's name, and the error. Each is reported once.
    pub mistakes: Vec<(String, String)>,
    /// Pods whose annotation cannot be read.
    pub nonsense: Vec<Nonsense>,
    /// Orders about nodes that are no longer what is asked for.
    pub drift: drift::Orders,
    /// Orders about nodes of static pools.
    pub successions: Successions,
    /// Nodes that are unwell and stay, as others come first or too many of their pool are.
    pub not_repaired: Vec<repair::NotRepaired>,
    /// Time at which something is due, if nothing changes before.
    pub again: Option<Timestamp>,
}

/// Claims that go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub cause: DisruptionCause,
    /// The claims that go.
    pub claims: Vec<DisruptedClaim>,
}

/// A claim that goes, and its Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptedClaim {
    /// The claim's name.
    pub claim: String,
    /// The claim's uid: another claim may have had the name before.
    pub uid: String,
    /// The name of the NodePool that it is of.
    pub pool: String,
    /// Its Node's name, empty while it has none.
    pub node: String,
    pub node_uid: String,
    /// Number of pods on it that are neither a DaemonSet's nor the kubelet's own.
    pub pods: usize,
}

impl DisruptedClaim {
    /// A claim with its Node, as far as that is known.
    pub(crate) fn from_facts(claim: &ClaimFacts, snapshot: &Snapshot) -> Self {
        let node = snapshot.nodes.get(&claim.node);
        Self {
            claim: claim.name.clone(),
            uid: claim.uid.clone(),
            pool: claim.pool.clone(),
            node: claim.node.clone(),
            node_uid: node.map(|node| node.uid.clone()).unwrap_or_default(),
            pods: snapshot.loads.get(&claim.node).map_or(0, |load| load.visitors),
        }
    }
}

/// A pool whose budgets allow nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// The pool's name.
    pub pool: String,
    /// The pool's uid: another pool may have had the name before.
    pub uid: String,
    /// The reason for which nodes could go.
    pub reason: RemovalReason,
    /// Number of nodes that could go.
    pub nodes: usize,
    /// True if the budgets allowed some at the look before.
    pub news: bool,
}

/// A pod whose `karpenter.sh/do-not-disrupt` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nonsense {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The annotation's text.
    pub says: String,
}

/// Looks at the cluster. `memory` is this term's.
pub fn decide_disruption(
    snapshot: &Snapshot,
    offers: &OffersByClass,
    memory: &mut Memory,
    now: Moment,
) -> DisruptionDecision {
    memory.forget(snapshot, now.wall);
    memory.drift.begin(snapshot, offers, now.wall);
    let mut look = Look {
        snapshot,
        offers,
        now: now.wall,
        moment: now,
        pools: pools(snapshot),
        first: !memory.begin(),
        memory,
        out: DisruptionDecision::default(),
        going: BTreeMap::new(),
    };
    take_notes(&mut look);
    look.mistakes();
    let machines = machines(snapshot, now);
    follow_ended_first(&mut look);
    go_on_with_reboots(&mut look, &machines);
    repair_by_force(&mut look, &machines);
    look.machines(&machines);
    look.expire();
    write_notes(&mut look);
    look.finish()
}

/// A look that is being taken.
pub(super) struct Look<'a> {
    pub snapshot: &'a Snapshot,
    pub offers: &'a OffersByClass,
    pub now: Timestamp,
    /// Time of the look, on both clocks.
    pub moment: Moment,
    pub pools: BTreeMap<&'a str, DisruptionPool<'a>>,
    pub memory: &'a mut Memory,
    /// True if it is the term's first.
    pub first: bool,
    pub out: DisruptionDecision,
    going: BTreeMap<(bool, DisruptionCause), Vec<DisruptedClaim>>,
}

impl<'a> Look<'a> {
    fn mistakes(&mut self) {
        for (name, view) in &self.pools {
            let version = view.pool.metadata.resource_version.as_deref().unwrap_or_default();
            if !self.memory.has_judged(name, version) {
                let news = self.memory.judge(name, version, view.mistakes(self.now));
                self.out.mistakes.extend(news.into_iter().map(|what| ((*name).to_owned(), what)));
            }
        }
    }

    fn machines(&mut self, machines: &[NodeAndClaim<'a>]) {
        let mut totals: BTreeMap<&str, PoolNodeTotals> = BTreeMap::new();
        let mut candidates: BTreeMap<&str, PoolCandidates<'a>> = BTreeMap::new();
        let mut drifted: BTreeMap<&str, (Vec<DriftedNode<'a>>, Vec<NodeAndClaim<'a>>)> = BTreeMap::new();
        let mut wards: BTreeMap<&str, Ward<'a>> = BTreeMap::new();
        let mut succeeded: BTreeMap<&str, Vec<WaitingNode<'a>>> = BTreeMap::new();
        for machine in machines {
            let Some(view) = self.pools.get(machine.claim.pool.as_str()).cloned() else { continue };
            let asked = self.memory.is_asked(&machine.claim.uid);
            let replacing = self.memory.replacing.has(&machine.claim.uid);
            let deleting = asked || machine.deleting || replacing || machine.reboots();
            let repairing = replacing && self.memory.replacing.is_repair(&machine.claim.uid);
            if let Some(waiting) = waiting_node(self, machine, &view) {
                self.drift(machine);
                wards.entry(machine.claim.pool.as_str()).or_default().take_in(machine, false, true);
                totals.entry(machine.claim.pool.as_str()).or_default().count(machine, true);
                succeeded.entry(machine.claim.pool.as_str()).or_default().push(waiting);
                continue;
            }
            let ward = wards.entry(machine.claim.pool.as_str()).or_default();
            ward.take_in(machine, repairing, deleting);
            if (replacing && !repairing) || !deleting {
                let judged = self.drift(machine);
                let (of_pool, running) = drifted.entry(machine.claim.pool.as_str()).or_default();
                match replacing {
                    true => running.push(*machine),
                    false => of_pool.extend(judged),
                }
            }
            totals.entry(machine.claim.pool.as_str()).or_default().count(machine, deleting);
            if deleting {
                // A removal that was asked for may not come to pass: the time since when its node is vacant stays known.
                if let Some(since) = self.memory.vacant.get(&machine.node.name).copied() {
                    self.memory.vacant.say(&machine.node.name, since);
                }
                continue;
            }
            if self.mark(machine, &view) {
                candidates.entry(machine.claim.pool.as_str()).or_default().push(*machine);
            }
        }
        self.memory.vacant.turn();
        for (pool, waiting) in succeeded {
            follow_successions(self, pool, waiting, totals.get(pool).copied().unwrap_or_default());
        }
        for (pool, ward) in wards {
            self.repair(pool, ward, totals.get(pool).copied().unwrap_or_default());
        }
        self.memory.not_repaired.turn();
        for (pool, candidates) in candidates {
            self.empty(pool, candidates, totals.get(pool).copied().unwrap_or_default());
        }
        for (pool, (candidates, running)) in drifted {
            self.replace(pool, candidates, &running, totals.get(pool).copied().unwrap_or_default());
        }
        self.memory.planned.turn();
        self.memory.exhausted.turn();
    }

    /// Marks a machine that stays for now; true if it may go for being empty.
    fn mark(&mut self, machine: &NodeAndClaim<'a>, view: &DisruptionPool<'a>) -> bool {
        let (mark, again) = marks::mark(machine, view, self.now);
        self.out.marks.extend(mark);
        if machine.node.taints.iter().any(|taint| taints::is_of_disruption(&taint.key)) {
            self.out.untaint.push((machine.node.name.clone(), machine.node.uid.clone()));
        }
        self.look_again(again);
        if view.ttl.is_some() {
            self.ttl(machine, view);
            return false;
        }
        emptiness::could_go(machine, view, self.now)
    }

    /// Looks at a machine of a pool with a TTL.
    fn ttl(&mut self, machine: &NodeAndClaim<'a>, view: &DisruptionPool<'a>) {
        let Some(ttl) = view.ttl else { return };
        let name = &machine.node.name;
        let known = self.memory.vacant.get(name).copied();
        let mark = |since, news| TtlMark {
            node: name.clone(),
            uid: machine.node.uid.clone(),
            since,
            seconds: ttl.as_secs(),
            news,
        };
        if !machine.initialized() || !machine.vacant() || machine.nominated {
            if machine.node.emptied.is_some() {
                let news = self.memory.cleared.insert(name.clone());
                self.out.ttl.push(mark(None, news));
            } else {
                self.memory.cleared.remove(name);
            }
            return;
        }
        let since = ttl::since(machine, known, self.first, self.now);
        self.memory.vacant.say(name, since);
        self.memory.cleared.remove(name);
        if machine.node.emptied != Some(since) {
            self.out.ttl.push(mark(Some(since), known.is_none()));
        }
        let due = since.checked_add(ttl).unwrap_or(Timestamp::MAX);
        if due > self.now {
            self.look_again(Some(due));
        } else if let Some((why, until)) = blocked::held(machine, self.now) {
            self.block(machine, why, until);
        } else {
            self.go(DisruptionCause::Ttl(ttl.as_secs()), disrupted(machine));
        }
    }

    fn expire(&mut self) {
        let (memory, pools) = (&*self.memory, &self.pools);
        let is_reported = |claim: &ClaimFacts| {
            pools.get(claim.pool.as_str()).is_some_and(|view| view.observing != Observing::No)
                && memory.has_observed(&claim.uid, RemovalReason::Expired)
        };
        let (expired, again) =
            expiry::expired(self.snapshot, |claim| memory.is_asked(&claim.uid), is_reported, self.now);
        self.look_again(again);
        for claim in expired {
            self.go(DisruptionCause::Expired, DisruptedClaim::from_facts(claim, self.snapshot));
        }
    }

    /// Removes a claim; or only reports it, if its pool is only observed.
    pub fn go(&mut self, cause: DisruptionCause, disrupted: DisruptedClaim) {
        let observing = self.pools.get(disrupted.pool.as_str()).is_some_and(|view| view.observing != Observing::No);
        if observing {
            if !self.memory.observe(&disrupted, cause.reason()) {
                return;
            }
        } else if !self.memory.ask(&disrupted, self.now) {
            return;
        }
        self.going.entry((observing, cause)).or_default().push(disrupted);
    }

    /// Number of a pool's claims that go at this look.
    pub fn going_now(&self, pool: &str) -> usize {
        let commanded = self.going.iter().filter(|((observing, _), _)| !observing).flat_map(|(_, claims)| claims);
        commanded.filter(|one| one.pool == pool).count()
    }

    /// Number of a pool's claims of which this look has decided that they leave, at once or after their pods have places.
    pub fn leaving_now(&self, pool: &str) -> usize {
        let rebooted = repair::begun_now(&self.out.drift.reboots, pool);
        self.going_now(pool) + self.memory.replacing.begun_at(pool, self.now) + rebooted
    }

    /// True if a claim is about to go by a decision of this look or an earlier one.
    pub fn is_leaving_now(&self, uid: &str) -> bool {
        self.memory.is_asked(uid) || self.memory.replacing.has(uid)
    }

    /// True if no replacement of a pool's nodes begins for a reason now: some have failed, or its launches are refused.
    pub fn replacing_is_paused(&mut self, pool: &str, reason: RemovalReason) -> bool {
        let (until, _) = self.memory.replacing.pause(pool, reason);
        let closed = self.snapshot.closed_pools.get(pool).is_some_and(|closed| closed.until > self.moment.monotonic);
        self.look_again(Some(until).filter(|until| *until > self.now));
        until > self.now || closed
    }

    /// Reports a machine that could go and may not.
    pub fn block(&mut self, machine: &NodeAndClaim<'a>, why: String, until: Option<Timestamp>) {
        self.look_again(until);
        for (pod, says) in blocked::nonsense(machine) {
            let pod = &pod.pod;
            self.out.nonsense.push(Nonsense {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                uid: pod.uid.clone(),
                says: says.to_owned(),
            });
        }
        let DisruptedClaim { claim, uid, node, node_uid, .. } = disrupted(machine);
        let news = self.memory.blocked.say(&uid, why.clone());
        self.out.blocked.push(Blocked { claim, uid, node, node_uid, why, news });
    }

    pub fn look_again(&mut self, at: Option<Timestamp>) {
        self.out.again = match (self.out.again, at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    fn finish(mut self) -> DisruptionDecision {
        self.memory.blocked.turn();
        self.memory.observed_now.turn();
        for ((observing, cause), claims) in std::mem::take(&mut self.going) {
            let list = if observing { &mut self.out.observed } else { &mut self.out.removals };
            list.push(Removal { cause, claims });
        }
        // Marks are not written on claims that go: of the two writes one would find the claim changed, and the removal wait for
        // long. Nor on claims under repair, which get a mark of their own.
        let removed: BTreeSet<&String> =
            self.out.removals.iter().flat_map(|removal| &removal.claims).map(|disrupted| &disrupted.claim).collect();
        let repairing = |uid: &str| self.memory.replacing.is_repair(uid);
        self.out.marks.retain(|mark| !removed.contains(&mark.claim) && !repairing(&mark.uid));
        self.out.drift.marks.retain(|mark| !removed.contains(&mark.claim));
        self.out.drift.stamps.retain(|stamp| !removed.contains(&stamp.claim));
        self.out
    }
}

pub(super) fn disrupted(machine: &NodeAndClaim<'_>) -> DisruptedClaim {
    DisruptedClaim {
        claim: machine.claim.name.clone(),
        uid: machine.claim.uid.clone(),
        pool: machine.claim.pool.clone(),
        node: machine.node.name.clone(),
        node_uid: machine.node.uid.clone(),
        pods: machine.load.map_or(0, |load| load.visitors),
    }
}
