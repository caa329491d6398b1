//! Empty nodes of pools without a TTL (core spec 5.5): as many as the budgets allow, dearest first, each after it has
//! been looked at for a while (docs/decisions/016). The wait is one of each node's own: nothing else waits for it.

use jiff::{SignedDuration, Timestamp};

use super::cause::DisruptionCause;
use super::look::{Exhausted, Look, disrupted};
use super::machines::NodeAndClaim;
use super::pools::{DisruptionPool, Observing};
use super::{RemovalReason, allowed, blocked, marks, price};

/// Minimum time for which a node has to stay a candidate before it goes.
const VALIDATION: SignedDuration = SignedDuration::from_secs(5);
/// Minimum time from its last pod until it goes, however short `consolidateAfter` is.
const LEAST_EMPTY_TIME: SignedDuration = SignedDuration::from_secs(10);

/// Machines of one pool that are empty and could go.
pub(super) type PoolCandidates<'a> = Vec<NodeAndClaim<'a>>;

/// Numbers of a pool's nodes for its budgets, and of those that are being disrupted already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolNodeTotals {
    pub nodes: usize,
    pub disrupting: usize,
    /// The part of these that leave: a node that is not Ready and stays uses no budget for `Unhealthy` up.
    pub leaving: usize,
}

impl PoolNodeTotals {
    /// Counts a machine (core spec 5.3): initialized or rebooted, and its instance not ending; one that is not Ready or is
    /// leaving is being disrupted.
    pub fn count(&mut self, machine: &NodeAndClaim<'_>, deleting: bool) {
        if (machine.initialized() || machine.reboots()) && !machine.claim.terminating {
            let deleting = deleting || machine.reboots();
            self.nodes += 1;
            self.disrupting += usize::from(deleting || !machine.node.ready);
            self.leaving += usize::from(deleting);
        }
    }

    /// Number of nodes that use the budget of a reason up.
    pub fn used_for(self, reason: RemovalReason) -> usize {
        if reason == RemovalReason::Unhealthy { self.leaving } else { self.disrupting }
    }
}

pub(super) fn could_go(machine: &NodeAndClaim<'_>, view: &DisruptionPool<'_>, now: Timestamp) -> bool {
    machine.empty() && !machine.nominated && marks::consolidatable_from(machine, view).is_some_and(|from| from <= now)
}

/// Time at which a machine's last pod has been gone for long enough.
fn quiet_from(machine: &NodeAndClaim<'_>) -> Timestamp {
    let last = machine.last_pod_event().or(machine.claim.initialized).unwrap_or(Timestamp::MAX);
    last.checked_add(LEAST_EMPTY_TIME).unwrap_or(Timestamp::MAX)
}

impl<'a> Look<'a> {
    /// Looks at the empty machines of a pool: those that are due go, as budgets allow.
    pub(super) fn empty(&mut self, pool: &'a str, machines: PoolCandidates<'a>, totals: PoolNodeTotals) {
        let Some(view) = self.pools.get(pool).cloned() else { return };
        let class = view.pool.spec.template.spec.node_class_ref.known_name();
        if class.and_then(|class| self.offers.get(class)).is_none_or(|types| types.is_empty()) {
            return;
        }
        let mut candidates = self.free(machines, &view);
        // Those that are repaired go already.
        candidates.retain(|machine| !self.is_leaving_now(&machine.claim.uid));
        if candidates.is_empty() {
            return;
        }
        let allowed = allowed(view.pool, RemovalReason::Empty, totals.nodes, self.now);
        if allowed.is_none() {
            self.exhausted(&view, pool, RemovalReason::Empty, candidates.len());
        }
        let mut room = allowed.after(totals.disrupting + self.leaving_now(pool));
        let (mut waiting, mut new) = (Vec::new(), Vec::new());
        for machine in candidates {
            match self.memory.planned.get(&machine.claim.uid).copied() {
                // A node that was reported in an observed pool stays reported, and takes nobody's place.
                _ if view.observing != Observing::No
                    && self.memory.has_observed(&machine.claim.uid, RemovalReason::Empty) =>
                {
                    self.go(DisruptionCause::Empty, disrupted(&machine));
                }
                Some(since) => waiting.push((machine, since)),
                None => new.push((machine, self.now)),
            }
        }
        for (machine, since) in waiting.into_iter().chain(new) {
            if room == 0 {
                break;
            }
            room -= 1;
            let due = since.checked_add(VALIDATION).unwrap_or(Timestamp::MAX).max(quiet_from(&machine));
            if due <= self.now {
                self.go(DisruptionCause::Empty, disrupted(&machine));
            } else {
                self.memory.planned.say(&machine.claim.uid, since);
                self.look_again(Some(due));
            }
        }
    }

    /// The machines that nothing holds, dearest first.
    fn free(&mut self, machines: PoolCandidates<'a>, view: &DisruptionPool<'a>) -> PoolCandidates<'a> {
        let mut priced = Vec::with_capacity(machines.len());
        for machine in machines {
            match blocked::why(&machine, self.snapshot, self.now) {
                Some((why, until)) => self.block(&machine, why, until),
                None => priced.push((price::node_price(machine.node, view.pool, self.offers), machine)),
            }
        }
        priced.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.node.name.cmp(&other.node.name)));
        priced.into_iter().map(|(_, machine)| machine).collect()
    }

    /// Reports that a pool's budgets allow nothing for a reason.
    pub(super) fn exhausted(&mut self, view: &DisruptionPool<'a>, pool: &str, reason: RemovalReason, nodes: usize) {
        let news = self.memory.exhausted.say(&format!("{pool}/{}", reason.label()), ());
        let uid = view.pool.metadata.uid.clone().unwrap_or_default();
        self.out.exhausted.push(Exhausted { pool: pool.to_owned(), uid, reason, nodes, news });
    }
}
