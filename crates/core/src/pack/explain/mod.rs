//! Why a class of pods is left over: each pool's rules one after the other, with what each removes.

pub(in crate::pack) mod reason;
pub(in crate::pack) mod warnings;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Taint;

use super::limits::LimitsLeft;
use super::model::ids::{IndexVec, PoolId};
use crate::labels::{CAPACITY_TYPE, ZONE};
use crate::pack::explain::reason::{PoolReason, Reason, Removed, Rule};
use crate::pack::filter::alternatives::{GivenUp, alternatives};
use crate::pack::filter::taints;
use crate::pack::model::bits::Bits;
use crate::pack::model::classes::Class;
use crate::pack::model::context::Context;
use crate::pack::model::daemons::Clash;
use crate::pack::model::pools::PoolView;
use crate::pack::model::reserved::Reservations;
use crate::pod::{NOT_SUPPORTED, Pod};
use crate::problem::{PreferencePolicy, UnusablePool};
use crate::requirements::{Incompatible, NodeSelectorRequirement, Requirements, describe};
use crate::resources::format_amount;

/// What is left when packing ends.
#[derive(Clone, Copy)]
pub(crate) struct LeftAtEnd<'p> {
    pub limits: &'p IndexVec<PoolId, LimitsLeft>,
    pub reservations: &'p Reservations,
}

/// The reason of a class, by its least demanding alternative.
pub(crate) fn reason(context: &Context<'_>, class: &Class, left: LeftAtEnd<'_>, topology: Option<&str>) -> Reason {
    if let Some(wrong) = &class.refused {
        match wrong.strip_suffix(NOT_SUPPORTED) {
            Some(rule) => return Reason::Unsupported { rule: rule.to_owned() },
            None => return Reason::Invalid { problem: wrong.clone() },
        }
    }
    let pools = context.pools.ids().map(|at| why_not(context, class, at, left, topology));
    let pools: Vec<PoolReason> = pools.chain(context.problem.left_out.iter().map(left_out)).collect();
    if pools.is_empty() { Reason::NoNodePool } else { Reason::NoPoolFits { pools } }
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

/// The trial of one pool: rules remove instance types until none is left.
struct Trial<'c, 'a> {
    context: &'c Context<'a>,
    view: &'c PoolView,
    types: Bits,
    removed: Vec<Removed>,
    /// Those that are not available anywhere that is asked for.
    sold_out: Bits,
}

impl Trial<'_, '_> {
    /// Applies a rule; says whether anything is left.
    fn retain(&mut self, rule: Rule, types: Bits) -> bool {
        let lost = self.types.count() - types.count();
        if lost > 0 {
            self.removed.push(Removed { rule, instance_types: lost });
        }
        self.types = types;
        !self.types.is_empty()
    }

    /// Applies where the pod's volumes are; says whether anything is left.
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
    context.fitting(pool, &class.first, &mut fitting);
    let before = trial.types.clone();
    if !trial.retain(Rule::Resources, fitting) {
        let detail = too_large(context, class, pool, &before);
        return trial.end(Rule::Resources, format!("{detail}{refused}"));
    }
    let before = trial.types.clone();
    let mut allowed = before.clone();
    limits[pool].retain_within(context.problem, &mut allowed);
    if !trial.retain(Rule::Limits, allowed) {
        let of = &context.problem.node_pools[view.index];
        let detail = limits[pool].describe(context.problem, &before, of);
        return trial.end(Rule::Limits, detail);
    }
    only_together(trial, topology)
}

/// Which of a pool's taints the pods of a class do not tolerate.
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

/// What a pod with volumes asks for apart from these; `None` for one without.
fn own_requirements(pod: &Pod) -> Option<Requirements> {
    if pod.volume_topology.is_empty() {
        return None;
    }
    let own = alternatives(pod, PreferencePolicy::Ignore, false, GivenUp::default()).ok()?;
    own.into_iter().next_back().map(|one| one.requirements)
}

/// `zone In [a], or zone In [b]`.
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

/// `In [on-demand]` of `karpenter.sh/capacity-type In [on-demand]`.
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

/// What the cloud has said of instance types that would do and are not available, as the end of a reason; empty where it has
/// said nothing.
fn refusals(trial: &Trial<'_, '_>, class: &Class, pool: PoolId, wanted: &Requirements) -> String {
    const MOST: usize = 3;
    let mut fitting = trial.sold_out.clone();
    trial.context.fitting(pool, &class.first, &mut fitting);
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

/// The resource that is short everywhere, or all of them together.
fn too_large(context: &Context<'_>, class: &Class, pool: PoolId, types: &Bits) -> String {
    let count = types.count();
    let noun = if count == 1 { "instance type" } else { "instance types" };
    if context.pools[pool].is_group {
        return too_large_for_a_group(context, class, pool);
    }
    for (resource, name) in context.names.0.iter().enumerate() {
        let asked = class.first[resource];
        let most = types.iter().map(|at| context.room(pool, at)[resource]).max().unwrap_or(0).max(0);
        if asked > most {
            if let Some(text) = kept_off(context, class, resource) {
                return text;
            }
            let (asked, most) = (person(name, asked), person(name, most));
            return format!("needs {asked}, the largest of {} {noun} allows {most}", grouped(count));
        }
    }
    let named = context.names.named().iter().zip(&class.first);
    let asked: Vec<String> = named.filter(|(_, a)| **a > 0).map(|(n, a)| person(n, *a)).collect();
    format!("needs {} at once, none of {} {noun} has all of it free", asked.join(" and "), grouped(count))
}

/// That a DaemonSet keeps the pod off, or is not there to be joined, if this resource stands for its nodes.
fn kept_off(context: &Context<'_>, class: &Class, resource: usize) -> Option<String> {
    if let Some((_, pod_affinity)) = context.names.daemon_affinities().find(|(at, _)| *at == resource) {
        let name = &pod_affinity.name;
        return Some(format!(
            "required pod affinity to the pods of DaemonSet {name}, which does not run on such a node"
        ));
    }
    let (_, conflict) = context.names.conflicts().find(|(at, _)| *at == resource)?;
    let name = &conflict.name;
    Some(match conflict.clash(context.problem, class.example(context.problem))? {
        Clash::Port(port) => format!("host port {port} is taken by DaemonSet {name}"),
        Clash::AntiAffinity => {
            format!("anti-affinity keeps it off the pods of DaemonSet {name}, which runs on every such node")
        }
    })
}

/// A node of a group may become the smallest of its types.
fn too_large_for_a_group(context: &Context<'_>, class: &Class, pool: PoolId) -> String {
    for (resource, name) in context.names.0.iter().enumerate() {
        let asked = class.first[resource];
        let least =
            context.pools[pool].types.iter().map(|at| context.room(pool, at)[resource]).min().unwrap_or(0).max(0);
        if asked > least {
            if let Some(text) = kept_off(context, class, resource) {
                return text;
            }
            return format!(
                "needs {}, a node of the group has {} for certain",
                person(name, asked),
                person(name, least)
            );
        }
    }
    "not every instance type of the group is what it asks for".to_owned()
}

/// An amount as a person says it: `400 CPU`, `3Gi of memory`.
fn person(name: &str, amount: i64) -> String {
    match name {
        crate::resources::CPU => {
            let text = format!("{}.{:03}", amount / 1000, amount % 1000);
            format!("{} CPU", text.trim_end_matches('0').trim_end_matches('.'))
        }
        crate::resources::MEMORY | crate::resources::EPHEMERAL_STORAGE => {
            format!("{} of {name}", rounded_binary(amount))
        }
        _ => format!("{} {name}", format_amount(name, amount)),
    }
}

/// Bytes in the largest unit that leaves at least ten, rounded down.
fn rounded_binary(bytes: i64) -> String {
    let mut shown = (bytes, "");
    for suffix in ["Ki", "Mi", "Gi", "Ti", "Pi"] {
        let exact = shown.0 % 1024 == 0 && shown.0 > 0;
        if shown.0 < 10 * 1024 && !exact {
            break;
        }
        shown = (shown.0 / 1024, suffix);
    }
    format!("{}{}", shown.0, shown.1)
}

/// `1,190`.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
