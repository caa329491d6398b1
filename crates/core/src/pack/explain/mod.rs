//! Reasons why a class of pods is unschedulable: each pool's rules one after the other, with what each removes.

pub(in crate::pack) mod amounts;
pub(in crate::pack) mod reason;
mod size;
pub(in crate::pack) mod warnings;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Taint;

use super::limits::LimitsLeft;
use super::limits::binding::Binding;
use super::model::ids::{IndexVec, PoolId};
use crate::labels::{CAPACITY_TYPE, ZONE};
use crate::pack::explain::reason::{PoolReason, Reason, Removed, Rule};
use crate::pack::filter::alternatives::{GivenUp, alternatives};
use crate::pack::filter::taints;
use crate::pack::model::bits::Bits;
use crate::pack::model::classes::Class;
use crate::pack::model::context::Context;
use crate::pack::model::daemons::reach::full_name;
use crate::pack::model::kinds::NodeKind;
use crate::pack::model::pools::PoolView;
use crate::pack::model::reserved::Reservations;
use crate::pod::{NOT_SUPPORTED, Pod};
use crate::problem::{PreferencePolicy, UnusablePool};
use crate::requirements::{Incompatible, NodeSelectorRequirement, Requirements, describe};
use size::too_large;

/// Largest number of DaemonSets left out of the count that a reason names.
const MOST_DAEMONS_NAMED: usize = 3;

/// The pools' limits and the reservations that are left when packing ends.
#[derive(Clone, Copy)]
pub(crate) struct LeftAtEnd<'p> {
    pub limits: &'p IndexVec<PoolId, LimitsLeft>,
    pub reservations: &'p Reservations,
}

/// The reason of a class, by its least demanding alternative.
pub(crate) fn reason(context: &Context<'_>, class: &Class, left: LeftAtEnd<'_>, topology: Option<&str>) -> Reason {
    let example = class.example(context.problem);
    if !example.expendable_below.is_unset() {
        return Reason::Expendable { priority: example.priority, cutoff: example.expendable_below };
    }
    if let Some(wrong) = &class.refused {
        match wrong.strip_suffix(NOT_SUPPORTED) {
            Some(rule) => return Reason::Unsupported { rule: rule.to_owned() },
            None => return Reason::Invalid { problem: wrong.clone() },
        }
    }
    let waits = example.existing_only;
    let why = |at| if waits { not_yet(context, at) } else { why_not(context, class, at, left, topology) };
    let pools = context.pools.ids().map(why);
    let mut pools: Vec<PoolReason> = pools.chain(context.problem.left_out.iter().map(left_out)).collect();
    // The nearest first: of seven pools six may never have been meant for the pod.
    pools.sort_by_cached_key(|one| Reverse(nearness(context, class, one)));
    if pools.is_empty() { Reason::NoNodePool } else { Reason::NoPoolFits { pools } }
}

/// Rank of a pool by the rule that keeps the pod off it: the more rules it meets before, the higher.
fn nearness(context: &Context<'_>, class: &Class, one: &PoolReason) -> u32 {
    match one.rule {
        Rule::Taints if !is_meant(context, class, &one.pool) => 0,
        Rule::UndefinedLabel | Rule::Requirements => 1,
        Rule::InstanceTypes => 2,
        // It would do but for the taint, or for what is wrong with the pool itself.
        Rule::Taints => 3,
        Rule::Pool => 4,
        Rule::Volumes => 5,
        Rule::Offerings => 6,
        Rule::Resources => 7,
        Rule::MinValues | Rule::Topology | Rule::Together => 8,
        Rule::Limits | Rule::MaxCost | Rule::Quota => 9,
    }
}

/// True if the pool's requirements, taints apart, are compatible with what the class asks for.
fn is_meant(context: &Context<'_>, class: &Class, pool: &str) -> bool {
    let view = context.pools.iter().find(|view| context.problem.node_pools[view.index].name == pool);
    let Some((view, last)) = view.zip(class.alternatives.last()) else { return false };
    view.requirements.compatible(&context.sets[last.set], &context.allowed_undefined).is_ok()
}

/// The reason of a pool that may not be used now, whatever the pod asks for.
fn left_out(one: &UnusablePool) -> PoolReason {
    PoolReason {
        pool: one.pool.clone(),
        rule: Rule::Pool,
        detail: one.why.clone(),
        instance_types: 0,
        removed: Vec::new(),
    }
}

/// The reason of a pool that makes no node for a pod as long as another like it tries one.
fn not_yet(context: &Context<'_>, pool: PoolId) -> PoolReason {
    let view = &context.pools[pool];
    PoolReason {
        pool: context.problem.node_pools[view.index].name.clone(),
        rule: Rule::Pool,
        detail: "it makes no node for it until another pod like it runs on a new one".to_owned(),
        instance_types: view.types.count(),
        removed: Vec::new(),
    }
}

/// The trial of one pool: rules remove instance types until none is left.
struct Trial<'c, 'a> {
    context: &'c Context<'a>,
    view: &'c PoolView,
    types: Bits,
    removed: Vec<Removed>,
    /// Instance types of which no offering is available in the zones and capacity types that are asked for.
    sold_out: Bits,
}

impl Trial<'_, '_> {
    /// Applies a rule; true if an instance type is left.
    fn retain(&mut self, rule: Rule, types: Bits) -> bool {
        let lost = self.types.count() - types.count();
        if lost > 0 {
            self.removed.push(Removed { rule, instance_types: lost });
        }
        self.types = types;
        !self.types.is_empty()
    }

    /// Keeps the instance types that can be where the pod's volumes are; true if any is left.
    fn keep_where_volumes_are(&mut self, class: &Class, pool: PoolId) -> bool {
        let mut there = Bits::empty(self.context.problem.instance_types.len());
        let selections = class.alternatives.iter().filter_map(|one| self.context.selection(one.set, pool));
        selections.for_each(|selection| there.or(&selection.types));
        there.and(&self.types);
        self.retain(Rule::Volumes, there)
    }

    fn end(self, rule: Rule, detail: String) -> PoolReason {
        let pool = self.context.problem.node_pools[self.view.index].name.clone();
        PoolReason { pool, rule, detail, instance_types: self.view.types.count(), removed: self.removed }
    }
}

fn why_not(
    context: &Context<'_>,
    class: &Class,
    pool: PoolId,
    LeftAtEnd { limits, reservations }: LeftAtEnd<'_>,
    topology: Option<&str>,
) -> PoolReason {
    let view = &context.pools[pool];
    let sold_out = Bits::empty(context.problem.instance_types.len());
    let mut trial = Trial { context, view, types: view.types.clone(), removed: vec![], sold_out };
    if let Some(broken) = &view.broken {
        return trial.end(Rule::Pool, broken.clone());
    }
    if trial.types.is_empty() {
        return trial.end(Rule::Pool, format!("no instance type is what it requires ({})", view.requirements));
    }
    let example = class.example(context.problem);
    if let Some(detail) = not_tolerated(class, example, &context.problem.node_pools[view.index].taints) {
        return trial.end(Rule::Taints, detail);
    }
    let Some(last) = class.alternatives.last() else {
        return trial.end(Rule::Requirements, "no alternative".to_owned());
    };
    let without_volumes = own_requirements(example);
    let wanted = without_volumes.as_ref().unwrap_or(&context.sets[last.set]);
    if let Err(conflict) = view.requirements.compatible(wanted, &context.allowed_undefined) {
        return refused_label(trial, conflict);
    }
    let left = types_left(&mut trial, wanted);
    let refused = refusals(&trial, class, pool, wanted);
    if let Err((rule, detail)) = left {
        return trial.end(rule, format!("{detail}{refused}"));
    }
    let offering_bits = view.offering_bits & context.offers.select(wanted);
    if let Some(text) = reservations.describe(offering_bits) {
        let mut open = trial.types.clone();
        open.and(&context.bought(offering_bits & reservations.open()).types);
        if !trial.retain(Rule::Offerings, open) {
            return trial.end(Rule::Offerings, text);
        }
    }
    if without_volumes.is_some() && !trial.keep_where_volumes_are(class, pool) {
        let detail = format!("its volumes can only be where {}", places(&example.volume_topology));
        return trial.end(Rule::Volumes, detail);
    }
    let mut fitting = trial.types.clone();
    let kind = context.kind(pool, view.daemons.absent(view, wanted, offering_bits), offering_bits);
    context.fitting(kind, &class.first, &mut fitting);
    let before = trial.types.clone();
    if !trial.retain(Rule::Resources, fitting) {
        let detail = format!("{}{}", too_large(context, class, kind, &before), not_counted(context, pool));
        return trial.end(Rule::Resources, format!("{detail}{refused}"));
    }
    let before = trial.types.clone();
    let mut allowed = before.clone();
    let bits = limits[pool].open_of(context, &before, offering_bits);
    limits[pool].retain_within(context.problem, &mut allowed, bits);
    let rule = match limits[pool].binding(context.problem, &before, bits) {
        Binding::Dollars => Rule::MaxCost,
        Binding::Quota => Rule::Quota,
        Binding::Limits => Rule::Limits,
    };
    if !trial.retain(rule, allowed) {
        let detail = limits[pool].describe(context.problem, (&before, bits), &context.problem.node_pools[view.index]);
        return trial.end(rule, detail);
    }
    only_together(trial, topology)
}

/// The DaemonSets that do not count on a pool's nodes, as the end of a reason: the reader sees that they take no room.
fn not_counted(context: &Context<'_>, pool: PoolId) -> String {
    let here = context.daemons_left_out.iter().filter(|one| one.pool.is_none_or(|own| own == pool));
    let mut named: Vec<String> = here.map(|one| full_name(&context.problem.daemon_pods[one.daemon])).collect();
    let more = named.len().saturating_sub(MOST_DAEMONS_NAMED);
    named.truncate(MOST_DAEMONS_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match named.as_slice() {
        [] => String::new(),
        [one] => format!("; DaemonSet {one} is not counted"),
        all => format!("; DaemonSets {}{more} are not counted", all.join(", ")),
    }
}

/// Names the taints of a pool that the pods of a class do not tolerate.
fn not_tolerated(class: &Class, example: &Pod, taints: &[Taint]) -> Option<String> {
    let forgiving = class.alternatives.iter().any(|one| one.forgiving);
    let named: Vec<String> = taints
        .iter()
        .filter(|taint| taints::untolerated(std::slice::from_ref(taint), &example.tolerations, forgiving).is_some())
        .map(taints::describe)
        .collect();
    let noun = if named.len() == 1 { "taint" } else { "taints" };
    (!named.is_empty()).then(|| format!("{noun} {} not tolerated", named.join(", ")))
}

/// Each rule by itself leaves something: it is other pods, `minValues` or all rules together that leave nothing.
fn only_together(trial: Trial<'_, '_>, topology: Option<&str>) -> PoolReason {
    let view = trial.view;
    if let Some(text) = topology.filter(|_| view.min_values.is_empty()) {
        return trial.end(Rule::Topology, text.to_owned());
    }
    let count = trial.types.count();
    if view.min_values.is_empty() {
        let detail = format!("the {count} instance types left go together with no node of this packing");
        return trial.end(Rule::Together, detail);
    }
    let demands: Vec<String> = view.min_values.iter().map(|(key, least)| format!("{least} of {key}")).collect();
    let detail = format!("the {count} instance types left do not offer minValues {}", demands.join(", "));
    trial.end(Rule::MinValues, detail)
}

/// Requirements of a pod with volumes apart from those of the volumes; `None` for one without.
fn own_requirements(pod: &Pod) -> Option<Requirements> {
    if pod.volume_topology.is_empty() {
        return None;
    }
    let own = alternatives(pod, PreferencePolicy::Ignore, false, GivenUp::default()).ok()?;
    own.into_iter().next_back().map(|one| one.requirements)
}

/// Describes the places of volumes: `zone In [a], or zone In [b]`.
fn places(all: &[Vec<NodeSelectorRequirement>]) -> String {
    const MOST: usize = 4;
    let text = all.iter().take(MOST).map(|place| match Requirements::from_written(place) {
        Ok(read) => read.to_string(),
        Err(error) => error.to_string(),
    });
    let rest = if all.len() > MOST { format!(", or {} other places", all.len() - MOST) } else { String::new() };
    format!("{}{rest}", text.collect::<Vec<_>>().join(", or "))
}

fn refused_label(trial: Trial<'_, '_>, conflict: Incompatible) -> PoolReason {
    match conflict {
        Incompatible::Undefined { .. } => trial.end(Rule::UndefinedLabel, conflict.to_string()),
        Incompatible::Conflict { wanted, offered, .. } => trial.end(
            Rule::Requirements,
            format!("node selector {wanted} conflicts with the pool's {}", strip_key(&offered)),
        ),
    }
}

/// A requirement's text without its key: `In [on-demand]` of `karpenter.sh/capacity-type In [on-demand]`.
fn strip_key(described: &str) -> &str {
    described.split_once(' ').map_or(described, |(_, rest)| rest)
}

/// Applies the pod's keys one after the other, then the offerings.
fn types_left(trial: &mut Trial<'_, '_>, wanted: &Requirements) -> Result<(), (Rule, String)> {
    let (context, view) = (trial.context, trial.view);
    for (key, requirement) in wanted.iter() {
        if context.offers.keys.contains(key) || view.labels.contains(key) {
            continue;
        }
        let mut types = trial.types.clone();
        match context.columns.get(key) {
            Some(column) => types.and(&column.select(requirement)),
            None if view.requirements.get(key).is_none() && !requirement.allows_absence() => types.clear(),
            None => continue,
        }
        if !trial.retain(Rule::InstanceTypes, types) {
            let text = describe(key, requirement);
            return Err((Rule::InstanceTypes, format!("no instance type of the pool that is left has {text}")));
        }
    }
    let offering_bits = view.offering_bits & context.offers.select(wanted);
    let mut types = trial.types.clone();
    types.and(&context.bought(offering_bits).types);
    trial.sold_out = trial.types.clone();
    trial.sold_out.without(&types);
    if !trial.retain(Rule::Offerings, types) {
        let keys = context.offers.keys.iter();
        let asked: Vec<String> = keys
            .filter_map(|key| {
                let own = view.requirements.get(key);
                let both = match (own, wanted.get(key)) {
                    (Some(own), Some(wanted)) => own.intersect(wanted),
                    (one, other) => one.or(other)?.clone(),
                };
                Some(describe(key, &both))
            })
            .collect();
        let text = if asked.is_empty() { "anywhere".to_owned() } else { format!("with {}", asked.join(", ")) };
        return Err((Rule::Offerings, format!("nothing is available {text}")));
    }
    Ok(())
}

/// Errors that the cloud gave for offerings of sold-out types which the pod fits, as the end of a reason; empty if there are
/// none.
fn refusals(trial: &Trial<'_, '_>, class: &Class, pool: PoolId, wanted: &Requirements) -> String {
    const MOST: usize = 3;
    let mut fitting = trial.sold_out.clone();
    trial.context.fitting(NodeKind::any(pool), &class.first, &mut fitting);
    let asked = |key: &str, value: &str| {
        let allows = |all: &Requirements| all.get(key).is_none_or(|one| one.has(value));
        allows(wanted) && allows(&trial.view.requirements)
    };
    let offerings = fitting.iter().flat_map(|at| &trial.context.problem.instance_types[at].offerings);
    let offerings = offerings.filter(|one| asked(ZONE, &one.zone) && asked(CAPACITY_TYPE, &one.capacity_type));
    let causes: BTreeSet<&str> = offerings.filter_map(|one| one.refused).collect();
    let mut text = causes.iter().take(MOST).copied().collect::<Vec<_>>().join("; ");
    if causes.len() > MOST {
        text.push_str(&format!("; and {} more causes", causes.len() - MOST));
    }
    if text.is_empty() { text } else { format!(": {text}") }
}
