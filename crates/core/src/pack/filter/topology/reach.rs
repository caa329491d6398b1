//! The domains in which the pods of a spread could get a new node. One that they can never have is not counted: kube-scheduler
//! counts nodes that there are, and none will ever be there for these pods.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::domains::Domains;
use super::groups::RuleKind;
use crate::labels;
use crate::pack::filter::alternatives::{GivenUp, alternatives};
use crate::pack::filter::taints::{Tolerated, untolerated};
use crate::pack::model::context::{Context, Selection};
use crate::pack::model::ids::{ClassId, DomainId, GroupId, IndexVec, KeyId, PoolId, SetId, TierId};
use crate::pack::place::planned_node::PlannedNode;
use crate::problem::PreferencePolicy;
use crate::requirements::{Requirement, Requirements};

/// Number of instance types that are compared in one step of work.
const TYPES_A_STEP: usize = 64;

/// Largest number of a key's values for which the search ends when all that can be had are found.
const FEW_VALUES: usize = 64;

/// The classes that state each group, softly or not, in their order.
pub(super) fn stating(context: &Context<'_>) -> IndexVec<GroupId, Vec<ClassId>> {
    let topology = &context.topology;
    let mut all = IndexVec::from_elem(vec![], topology.groups.len());
    for (class, part) in topology.of_class.enumerate() {
        let stated: BTreeSet<GroupId> = part.tiers.iter().flat_map(|tier| &tier.states).copied().collect();
        stated.into_iter().for_each(|group| all[group].push(class));
    }
    all
}

/// The domains of a group, by their place among its key's values, in which some pool could make a node for a pod of one of
/// the classes: by what the pod requires of a node, its tolerations and what it requests. Where its volumes are is no part
/// of it (spec core 3.8).
pub(super) fn reached(context: &Context<'_>, group: GroupId, classes: &[ClassId]) -> BTreeSet<DomainId> {
    let key = context.topology.key_of(group);
    let mut found = BTreeSet::new();
    for class in classes.iter().copied() {
        let pools: Vec<PoolId> = context.pools.ids().filter(|pool| is_open(context, group, class, *pool)).collect();
        // The reach of one class is enough: a spread counts a domain if any of its pods could be there.
        for selected in selections(context, class, &pools) {
            add(context, class, key, &selected, &mut found);
        }
        // Most groups are stated by one class, and most reach everything.
        if found.len() == context.bins.values[key].len() {
            break;
        }
    }
    found
}

/// True if the pods of a class tolerate a pool's taints, and its nodes may have all labels over which they are spread.
fn is_open(context: &Context<'_>, group: GroupId, class: ClassId, pool: PoolId) -> bool {
    let topology = &context.topology;
    let RuleKind::Spread { labels, .. } = &topology.groups[group].kind else { return true };
    let taints = &context.problem.node_pools[context.pools[pool].index].taints;
    let tolerations = &context.classes[class].example(context.problem).tolerations;
    untolerated(taints, tolerations, true).is_none()
        && labels.iter().all(|label| context.bins.may_have(topology, label, pool))
}

/// The part of a pool that requirements leave.
struct Selected<'c> {
    selection: Cow<'c, Selection>,
    pool: PoolId,
    wanted: Cow<'c, Requirements>,
}

/// The parts that a class's requirements leave of these pools, preferences and volumes apart.
fn selections<'c>(context: &'c Context<'_>, class: ClassId, pools: &[PoolId]) -> Vec<Selected<'c>> {
    let own = &context.classes[class];
    let pod = own.example(context.problem);
    let mut all = Vec::new();
    if pod.volume_topology.is_empty() {
        let hard = |tier: &TierId| own.hard.is_empty() || own.hard.contains(tier);
        let sets: BTreeSet<SetId> =
            own.alternatives.ids().filter(hard).map(|tier| own.alternatives[tier].set).collect();
        for set in sets {
            let found = pools.iter().filter_map(|pool| Some((context.selection(set, *pool)?, *pool)));
            let wanted = &context.sets[set];
            all.extend(found.map(|(one, pool)| Selected {
                selection: Cow::Borrowed(one),
                pool,
                wanted: Cow::Borrowed(wanted),
            }));
        }
        return all;
    }
    // Volumes are out of it, and the compiled sets have them: they are read again without.
    let strict = alternatives(pod, PreferencePolicy::Ignore, false, GivenUp::default()).unwrap_or_default();
    for wanted in strict.into_iter().map(|one| one.requirements) {
        let found = pools.iter().filter_map(|pool| Some((context.select(&wanted, &context.pools[*pool])?, *pool)));
        all.extend(found.map(|(one, pool)| Selected {
            selection: Cow::Owned(one),
            pool,
            wanted: Cow::Owned(wanted.clone()),
        }));
    }
    all
}

/// Adds the domains that nodes have which a class's requirements leave of a pool.
fn add(
    context: &Context<'_>,
    class: ClassId,
    key: KeyId,
    Selected { selection, pool, wanted }: &Selected<'_>,
    found: &mut BTreeSet<DomainId>,
) {
    let pool = *pool;
    let mut types = selection.types.clone();
    // A type that is too small for the pod makes no node for it, in whatever zone.
    let kind = context.kind(pool, selection.absent, selection.offering_bits);
    context.fitting(kind, &context.classes[class].first, &mut types);
    if types.is_empty() || !context.work(1 + types.count() / TYPES_A_STEP) {
        return;
    }
    let (values, name) = (&context.bins.values[key], context.topology.keys[key].as_str());
    let domain = |value: &str| domain_named(values, value);
    if matches!(name, labels::ZONE | labels::CAPACITY_TYPE) {
        let offers = &context.offers;
        let bought =
            types.iter().fold(0, |offering_bits, at| offering_bits | offers.available(at)) & selection.offering_bits;
        let names = offers.within(bought).map(|(_, offering_bit)| offering_bit.label(name));
        found.extend(names.filter_map(domain));
        // A zone that is sold out for some minutes counts all the same, by what the types say: a spread is not broken for that.
        if name == labels::CAPACITY_TYPE {
            return;
        }
    }
    let view = &context.pools[pool];
    let asked = [view.requirements.get(name), wanted.get(name)];
    let allowed = |value: &&str| asked.iter().flatten().all(|one| one.has(value));
    match context.columns.get(name).filter(|_| !view.labels.contains(name)) {
        Some(column) => {
            let said = types.iter().filter_map(|at| column.statement(at)).filter(|said| !said.is_complement());
            // Mostly the first type has all that can be had: with very many groups it counts that no other is read.
            let few = values.len() <= FEW_VALUES;
            let mut missing =
                if few { values.iter().filter(|value| allowed(&value.as_str())).count() } else { usize::MAX };
            let mut seen = 0u64;
            for value in said.flat_map(Requirement::values).filter(allowed) {
                let Some(at) = domain(value) else { continue };
                found.insert(at);
                if few && seen >> at.index() & 1 == 0 {
                    seen |= 1 << at.index();
                    missing -= 1;
                }
                if missing == 0 {
                    break;
                }
            }
        }
        None => {
            let own = asked[0].filter(|own| !own.is_empty() && !own.is_complement());
            let own = own.into_iter().flat_map(Requirement::values).filter(allowed);
            found.extend(own.filter_map(domain));
        }
    }
}

/// The domain of a value of a key. Values are sorted.
fn domain_named(values: &IndexVec<DomainId, String>, value: &str) -> Option<DomainId> {
    values.as_slice().binary_search_by(|own| own.as_str().cmp(value)).ok().map(DomainId::from)
}

impl Domains<'_, '_> {
    /// The domain of a planned node by a group's key, if it can only be in one.
    pub fn domain_of(&self, group: GroupId, planned: &PlannedNode) -> Option<DomainId> {
        let context = self.context;
        let key = context.topology.key_of(group);
        let (values, name) = (&context.bins.values[key], context.topology.keys[key].as_str());
        let at = |value: &str| domain_named(values, value);
        if matches!(name, labels::ZONE | labels::CAPACITY_TYPE) {
            let offers = &context.offers;
            let bought = planned.types.iter().fold(0, |offering_bits, at| offering_bits | offers.available(at))
                & planned.offering_bits;
            let found: BTreeSet<&str> =
                offers.within(bought).map(|(_, offering_bit)| offering_bit.label(name)).collect();
            return found.first().filter(|_| found.len() == 1).and_then(|value| at(value));
        }
        let view = &context.pools[planned.pool];
        if let Some(value) = view.requirements.get(name).and_then(Requirement::single) {
            return at(value);
        }
        let bins = planned.shares.iter().filter_map(|share| {
            let keys = context.topology.of_class[share.class].keys;
            context.bins.for_keys(keys).get(share.candidate.bin)?.domain[key]
        });
        let of_sets = planned.shares.iter().filter_map(|share| context.sets[share.set].get(name));
        // In order: what its pods require, what rules chose for them, and what all its types say.
        let asked = of_sets.filter_map(Requirement::single).filter_map(at).chain(bins).next();
        asked.or_else(|| {
            let column = context.columns.get(name)?;
            let said: BTreeSet<Option<&str>> =
                planned.types.iter().map(|at| column.statement(at).and_then(Requirement::single)).collect();
            said.first().copied().flatten().filter(|_| said.len() == 1).and_then(at)
        })
    }

    /// True if a planned node takes part in a spread, by the policies of that.
    pub fn counts_node(&self, group: GroupId, planned: &PlannedNode) -> bool {
        let (context, topology) = (self.context, &self.context.topology);
        let RuleKind::Spread { nodes, tolerated, labels, .. } = &topology.groups[group].kind else { return false };
        let view = &context.pools[planned.pool];
        let taints = &context.problem.node_pools[view.index].taints;
        let suits = |one: &Requirements| {
            let Some(met) = context.select(one, view) else { return false };
            let mut others = planned.types.clone();
            others.without(&met.types);
            others.is_empty() && planned.offering_bits & view.offering_bits & !met.offering_bits == 0
        };
        tolerated.as_ref().is_none_or(|all| Tolerated::cover(all, taints))
            && labels.iter().all(|label| context.bins.may_have(topology, label, planned.pool))
            && (nodes.is_empty() || nodes.iter().any(suits))
    }
}
