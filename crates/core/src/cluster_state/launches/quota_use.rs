//! Capacity that counts against quotas (docs/decisions/081): of Nodes by their labels, and of claims on their way by those that
//! they may get.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::labels::REGISTERED;
use dovetail_api::v1::NodeClaim;
use rustc_hash::FxHashMap;

use super::pool_cost;
use super::room::age;
use crate::cluster_state::{ClaimEntry, ClusterState, JoinedNode, NodeSource, Snapshot};
use crate::instance_type::InstanceType;
use crate::labels::INSTANCE_TYPE;
use crate::lifecycle::claim::from_quantities;
use crate::lifecycle::protocol::Claimed;
use crate::quotas::{Quota, QuotaSelector, WrittenQuota, is_ruled_out};
use crate::requirements::Requirements;
use crate::resources::Resources;

impl ClusterState {
    /// A quota is there or has changed. Answers true if it means something else than before.
    pub fn apply_quota(&mut self, quota: WrittenQuota) -> bool {
        self.now.quotas.insert(quota)
    }

    /// Our own write of a quota was answered. Answers false if the quota is gone, or a later state of it is known.
    pub fn quota_written(&mut self, quota: WrittenQuota) -> bool {
        let name = quota.object.metadata.name.as_deref().unwrap_or_default();
        let Some(known) = self.now.quotas.all().get(name) else { return false };
        let (there, new) = (&known.object.metadata, &quota.object.metadata);
        if there.uid != new.uid || crate::cluster_state::is_older(new, there) {
            return false;
        }
        self.now.quotas.insert(quota);
        true
    }

    /// A quota is gone. Answers true if it was known.
    pub fn delete_quota(&mut self, name: &str) -> bool {
        self.now.quotas.remove(name)
    }

    /// A list of quotas is complete: those for whose name `seen` is false are gone. Answers true if there are any.
    pub fn quotas_listed(&mut self, seen: impl Fn(&str) -> bool) -> bool {
        self.now.quotas.retain(seen)
    }
}

impl Snapshot {
    /// The quotas that are held, each with what counts against it.
    pub(in crate::cluster_state) fn quotas_used<'a>(
        &self,
        joined: &'a [JoinedNode],
        types: &[Arc<InstanceType>],
    ) -> Vec<Quota> {
        if self.quotas.is_empty() {
            return vec![];
        }
        let machine =
            |node: &'a JoinedNode| Machine::new(&node.source, Cow::Borrowed(&node.labels), node.capacity.clone());
        let (machines, by_name) = (joined.iter().map(machine).collect::<Vec<_>>(), ByName::new(types));
        let with_usage = |quota: &Quota| {
            let selector = QuotaSelector::new(quota, types);
            Quota { usage: usage(quota, &selector, &machines, &by_name), ..quota.clone() }
        };
        self.quotas.held().map(with_usage).collect()
    }

    /// Capacity of the Nodes that are there, for a quota's status.
    #[must_use]
    pub fn quota_status(&self, quota: &Quota) -> Resources {
        let selector = QuotaSelector::new(quota, &[]);
        let mut used: Resources = quota.limits.iter().map(|(name, _)| (name.to_owned(), 0)).collect();
        let counted = self.nodes.values().filter(|node| selector.counts(&node.labels));
        counted.for_each(|node| used.add(&quota.taken(&node.capacity)));
        used
    }

    /// The `candidates` that a claim may still get under the quotas, beside all that is there, and the most that claims made
    /// before it, or whose launch has begun before its own, may get. Packing has held it to the quotas of its time, others may
    /// have planned beside it or a quota may be lower since. A candidate for which there is no room loses the offerings by
    /// which it would count, and goes when no other is left. `types` are all types of the claim's class.
    #[must_use]
    pub fn within_quotas(
        &self,
        claim: &NodeClaim,
        candidates: Vec<Arc<InstanceType>>,
        types: &[Arc<InstanceType>],
    ) -> Vec<Arc<InstanceType>> {
        if self.quotas.is_empty() {
            return candidates;
        }
        let own = pool_cost::requirements_with_labels(claim);
        // Packing has counted claims of other classes: here their types may be unknown.
        let read = |quota| (quota, QuotaSelector::new(quota, types).of_known_types());
        let may_count = |(_, selector): &(&Quota, QuotaSelector<'_>)| selector.may_count(&own);
        let concerned = self.quotas.held().filter(|quota| !is_ruled_out(quota, &own));
        let concerned: Vec<(&Quota, QuotaSelector<'_>)> = concerned.map(read).filter(may_count).collect();
        if concerned.is_empty() {
            return candidates;
        }
        let goes_first = |entry: &ClaimEntry| {
            // The older by name of two made in one second may come later, when the other has asked EC2.
            let begun = |claim: &NodeClaim| Claimed::from_claim(claim).token.is_some();
            !entry.is_planned() && (age(&entry.claim) < age(claim) || (begun(&entry.claim) && !begun(claim)))
        };
        let counts = |source: &NodeSource| match source {
            NodeSource::Claim(entry) if entry.claim.metadata.name == claim.metadata.name => false,
            NodeSource::Claim(entry) if entry.provider_id().is_empty() => goes_first(entry),
            NodeSource::Claim(_) => true,
            // Most are registered, and have the labels that decide.
            NodeSource::Node(node) => concerned.iter().any(|(_, selector)| selector.counts(&node.labels)),
            NodeSource::Both(node, _) => {
                !node.is_labelled(REGISTERED) || concerned.iter().any(|(_, selector)| selector.counts(&node.labels))
            }
        };
        let others: Vec<NodeSource> = self.machines().into_iter().filter(counts).collect();
        let machines = others.iter().map(|source| Machine::new(source, source.labels(), source.capacity()));
        let (machines, by_name) = (machines.collect::<Vec<_>>(), ByName::new(types));
        let mut left = candidates;
        for (quota, selector) in concerned {
            let used = usage(quota, &selector, &machines, &by_name);
            let fits = |one: &InstanceType| {
                let taken = quota.taken(&one.capacity);
                taken.iter().all(|(name, amount)| {
                    amount == 0 || used.get(name).saturating_add(amount) <= quota.limits.get(name)
                })
            };
            let within = |one: Arc<InstanceType>| match selector.may_count_type(&one.name) && !fits(&one) {
                true => selector.without_counted(&own, one),
                false => Some(one),
            };
            left = left.into_iter().filter_map(within).collect();
        }
        left
    }
}

/// Types by name; several of one name where overlays change them for some pools.
struct ByName<'t> {
    types: &'t [Arc<InstanceType>],
    at: FxHashMap<&'t str, Vec<usize>>,
}

impl<'t> ByName<'t> {
    fn new(types: &'t [Arc<InstanceType>]) -> Self {
        let mut at: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
        types.iter().enumerate().for_each(|(index, one)| at.entry(one.name.as_str()).or_default().push(index));
        Self { types, at }
    }
}

/// A machine with what its labels may become.
struct Machine<'j> {
    source: &'j NodeSource,
    labels: Cow<'j, BTreeMap<String, String>>,
    /// Its requirements and labels, if it is not registered: its labels are not all there.
    own: Option<Requirements>,
    /// The names of its types, of one that is not launched and names some.
    named: Option<Vec<String>>,
    /// The capacity that it has, or that its claim was promised: a device that a plugin has not reported yet counts.
    capacity: Resources,
}

impl<'j> Machine<'j> {
    fn new(source: &'j NodeSource, labels: Cow<'j, BTreeMap<String, String>>, mut capacity: Resources) -> Self {
        let (claim, node_is_there) = match source {
            NodeSource::Node(_) => (None, true),
            NodeSource::Both(_, entry) => (Some(entry), true),
            NodeSource::Claim(entry) => (Some(entry), false),
        };
        let is_registered = node_is_there && (claim.is_none() || labels.contains_key(REGISTERED));
        let mut own = None;
        let mut named = None;
        if let Some(entry) = claim {
            let status = entry.claim.status.as_ref();
            capacity.max(&status.map(|status| from_quantities(&status.capacity)).unwrap_or_default());
            if !is_registered {
                let mut wanted = pool_cost::requirements(&entry.claim);
                wanted.intersect(&Requirements::from_labels(&labels));
                let types = wanted.get(INSTANCE_TYPE).filter(|types| !types.is_complement());
                named = types.map(|types| types.values().map(str::to_owned).collect());
                own = Some(wanted);
            }
        }
        Self { source, labels, own, named, capacity }
    }

    fn is_launched(&self) -> bool {
        match self.source {
            NodeSource::Claim(entry) => !entry.provider_id().is_empty(),
            NodeSource::Node(_) | NodeSource::Both(..) => true,
        }
    }
}

/// Resources of a quota that machines take together.
fn usage(quota: &Quota, selector: &QuotaSelector<'_>, machines: &[Machine<'_>], types: &ByName<'_>) -> Resources {
    let mut sum = Resources::new();
    machines.iter().for_each(|machine| sum.add(&taken(quota, selector, machine, types)));
    sum
}

/// Resources of a quota that a machine takes; of one that is not launched the most that it may.
fn taken(quota: &Quota, selector: &QuotaSelector<'_>, machine: &Machine<'_>, types: &ByName<'_>) -> Resources {
    let nothing = Resources::new();
    let Some(own) = &machine.own else {
        return if selector.counts(&machine.labels) { quota.taken(&machine.capacity) } else { nothing };
    };
    if !selector.may_count(own) {
        return nothing;
    }
    let Some(named) = &machine.named else { return quota.taken(&machine.capacity) };
    let may_be_bought = |name: &str| match types.at.get(name) {
        // An offering that is sold out now may be there again at its launch.
        Some(at) => at.iter().any(|at| selector.may_be_bought(own, &types.types[*at], |_| true)),
        None => true,
    };
    let mut counted = named.iter().filter(|name| selector.may_count_type(name) && may_be_bought(name)).peekable();
    if counted.peek().is_none() {
        return nothing;
    }
    if machine.is_launched() {
        return quota.taken(&machine.capacity);
    }
    let mut most = Resources::new();
    for name in counted {
        match types.at.get(name.as_str()) {
            Some(at) => at.iter().for_each(|at| most.max(&quota.taken(&types.types[*at].capacity))),
            // A type that is not known now: no more than the claim was planned with.
            None => most.max(&quota.taken(&machine.capacity)),
        }
    }
    most
}
