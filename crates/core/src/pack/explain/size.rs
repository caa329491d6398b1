//! Reasons for a pod that is too large for a pool's instance types, with the DaemonSets that take the room.

use super::amounts::{grouped, person};
use crate::pack::model::bits::Bits;
use crate::pack::model::classes::Class;
use crate::pack::model::context::Context;
use crate::pack::model::daemons::reach::full_name;
use crate::pack::model::daemons::rules::Clash;
use crate::pack::model::ids::InstanceTypeId;
use crate::pack::model::kinds::NodeKind;

/// Largest number of DaemonSets that a reason names.
const MOST_NAMED: usize = 3;

/// Names the first resource that is short on every type, or all of them if only together they are too much.
pub(super) fn too_large(context: &Context<'_>, class: &Class, kind: NodeKind, types: &Bits) -> String {
    let count = types.count();
    let noun = if count == 1 { "instance type" } else { "instance types" };
    if context.pools[kind.pool].is_group {
        return too_large_for_a_group(context, class, kind);
    }
    for (resource, name) in context.names.0.iter().enumerate() {
        let asked = class.first[resource];
        let room = |at: &InstanceTypeId| context.room(kind, *at)[resource];
        let largest = types.iter().max_by_key(|at| room(at));
        let most = largest.map_or(0, |at| room(&at)).max(0);
        if asked > most {
            if let Some(text) = kept_off(context, class, resource) {
                return text;
            }
            let beside = largest.and_then(|at| beside_daemons(context, kind, at, resource, asked)).unwrap_or_default();
            let (asked, most) = (person(name, asked), person(name, most));
            return format!("needs {asked}, the largest of {} {noun} allows {most}{beside}", grouped(count));
        }
    }
    if let Some(text) = kept_off_where_it_fits(context, class, kind, types) {
        return text;
    }
    let named = context.names.named().iter().zip(&class.first);
    let asked: Vec<String> = named.filter(|(_, a)| **a > 0).map(|(n, a)| person(n, *a)).collect();
    format!("needs {} at once, none of {} {noun} has all of it free", asked.join(" and "), grouped(count))
}

/// A reason if a DaemonSet keeps the pod off all types that are large enough: it may not run itself on the others.
fn kept_off_where_it_fits(context: &Context<'_>, class: &Class, kind: NodeKind, types: &Bits) -> Option<String> {
    let named = context.names.named().len();
    let short = |at: InstanceTypeId, resource: usize| class.first[resource] > context.room(kind, at)[resource];
    let large: Vec<InstanceTypeId> = types.iter().filter(|at| !(0..named).any(|name| short(*at, name))).collect();
    let everywhere = |resource: &usize| large.iter().all(|at| short(*at, *resource));
    let kept_off_by = (named..context.names.0.len()).find(everywhere).filter(|_| !large.is_empty());
    kept_off_by.and_then(|resource| kept_off(context, class, resource))
}

/// A reason if this resource is a pseudo-resource: one that nobody has, or a DaemonSet that keeps the pod off or is missing.
fn kept_off(context: &Context<'_>, class: &Class, resource: usize) -> Option<String> {
    if context.names.lacking() == Some(resource) {
        let (name, amount) = context.names.first_lacking(class.example(context.problem))?;
        return Some(format!("needs {}, which no instance type and no node has", person(name, amount)));
    }
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

/// Names the DaemonSets without which the pod would fit, with the amount of a resource that they take.
fn beside_daemons(
    context: &Context<'_>,
    kind: NodeKind,
    at: InstanceTypeId,
    resource: usize,
    asked: i64,
) -> Option<String> {
    let view = &context.pools[kind.pool];
    let name = context.names.named().get(resource)?;
    if asked > view.whole(at, context.names.0.len())[resource] {
        return None;
    }
    let mut takers: Vec<(i64, usize)> = view
        .daemons
        .on_type(0, at)
        .map(|(daemon, requests)| (requests[resource], daemon))
        .filter(|(amount, _)| *amount > 0)
        .collect();
    takers.sort_by_key(|(amount, daemon)| (-amount, *daemon));
    let all = takers.iter().map(|(amount, _)| *amount).fold(0, i64::saturating_add);
    let named: Vec<String> =
        takers.iter().take(MOST_NAMED).map(|(_, daemon)| full_name(&context.problem.daemon_pods[*daemon])).collect();
    let more = if takers.len() > named.len() { " and others" } else { "" };
    let noun = if takers.len() == 1 { "DaemonSet" } else { "DaemonSets" };
    (all > 0).then(|| format!(" beside the {} of {noun} {}{more}", person(name, all), named.join(", ")))
}

/// A node of a group may become the smallest of its types.
fn too_large_for_a_group(context: &Context<'_>, class: &Class, kind: NodeKind) -> String {
    for (resource, name) in context.names.0.iter().enumerate() {
        let asked = class.first[resource];
        let least =
            context.pools[kind.pool].types.iter().map(|at| context.room(kind, at)[resource]).min().unwrap_or(0).max(0);
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
