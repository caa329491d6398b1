//! Rates of cpu, memory and the rest at the best mix of nodes, as if pods could be cut at will: where there are many shapes of
//! few pods each, a pod's worth follows from what it asks.

use super::NodePrice;
use super::candidates::TypeCandidates;
use super::lp::Master;
use super::shapes::{Shape, Shapes};
use crate::pack::filter::topology::node_rules::NodeRules;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{IndexVec, ShapeId};
use crate::pack::model::kinds::NodeKind;
use crate::pack::model::numbers::{float, rounded_down};

/// Number of kinds of shapes, by what they may be bought as, above which each asks for too little to be priced alone.
const MOST_KINDS: usize = 6;

/// Number of parts in which all that is asked of a resource is counted.
const PARTS: f64 = 1e9;

/// Largest number of steps of a linear program of a few rows.
const MOST_STEPS: usize = 40;

/// Worth of a pod of each shape without a linear program over shapes: what it asks at going rates, or what it costs with its
/// like alone, where a node holds no more of these, whatever room it has, or where going rates say nothing.
pub(super) fn worth(
    context: &Context<'_>,
    kind: NodeKind,
    shapes: &Shapes<'_>,
    candidates: &TypeCandidates,
    singles: &IndexVec<ShapeId, (u32, f64)>,
) -> IndexVec<ShapeId, f64> {
    let alone = |(held, price): &(u32, f64)| candidates.aims.node_price.with(*price) / f64::from(*held);
    let Some(rates) = values(context, kind, shapes, candidates) else {
        return singles.iter().map(alone).collect();
    };
    // A shape that a rule caps at one a node needs a node for each pod, whatever amounts say it is worth.
    let capped = |shape: &Shape<'_>, held| held == shape.cap && shape.rules.is_some_and(NodeRules::caps_itself);
    let known = rates.into_iter().zip(singles).zip(&shapes.all);
    known.map(|((rate, single), shape)| if capped(shape, single.0) { rate.max(alone(single)) } else { rate }).collect()
}

/// Worth of a pod of each shape; `None` where shapes are of many kinds.
fn values(
    context: &Context<'_>,
    node_kind: NodeKind,
    shapes: &Shapes<'_>,
    candidates: &TypeCandidates,
) -> Option<IndexVec<ShapeId, f64>> {
    let same = |a: &Shape<'_>, b: &Shape<'_>| a.offering_bits == b.offering_bits && a.types == b.types;
    let mut kinds: Vec<ShapeId> = Vec::new();
    let mut kind_of: IndexVec<ShapeId, usize> = IndexVec::from_elem(0, shapes.all.len());
    for (at, shape) in shapes.all.enumerate() {
        let known = kinds.iter().position(|first| same(&shapes.all[*first], shape));
        kind_of[at] = known.unwrap_or_else(|| {
            kinds.push(at);
            kinds.len() - 1
        });
        // Each kind has a program of its own, and knows nothing of what the others fill: with many kinds the values
        // would be too far off.
        if kinds.len() > MOST_KINDS {
            return None;
        }
    }
    let mut value = IndexVec::from_elem(0.0, shapes.all.len());
    for kind in 0..kinds.len() {
        let of_kind = || shapes.all.ids().filter(|at| kind_of[*at] == kind);
        let mut carried: IndexVec<ShapeId, bool> = IndexVec::from_elem(false, shapes.all.len());
        of_kind().for_each(|at| carried[at] = true);
        let mut all = vec![0.0; context.names.0.len()];
        for at in of_kind() {
            let shape = &shapes.all[at];
            all.iter_mut().zip(&shape.requests).for_each(|(sum, asked)| *sum += float(*asked) * f64::from(shape.count));
        }
        // Types that carry any of these, by the parts that each has of all that is asked.
        let some = candidates.all.iter().filter(|one| one.shapes.iter().any(|shape| carried[*shape]));
        // Say 100 cpu and 200 Gi are asked for in all. A node of 4 cpu and 16 Gi has 0.04 and 0.08 of it.
        let have: Vec<(Vec<f64>, f64)> = some
            .map(|one| {
                let room = context.room(node_kind, one.at).iter().zip(&all);
                (room.map(|(have, all)| if *all > 0.0 { float(*have) / all } else { 1.0 }).collect(), one.cost)
            })
            .collect();
        let rates = rates(&have, all.len());
        for at in of_kind() {
            let asked = shapes.all[at].requests.iter().zip(&all).zip(&rates);
            value[at] =
                asked.map(|((asked, all), rate)| if *all > 0.0 { float(*asked) / all * rate } else { 0.0 }).sum();
        }
    }
    Some(value)
}

/// Worth of all of each resource, where each node has parts of it at a cost.
pub(in crate::pack) fn rates(nodes: &[(Vec<f64>, f64)], resources: usize) -> Vec<f64> {
    let units = |part: f64| rounded_down(part * PARTS);
    let alone = |resource: usize| {
        let held = nodes.iter().map(|(parts, cost)| (units(parts[resource]), *cost)).filter(|(held, _)| *held > 0);
        held.min_by(|a, b| (a.1 / f64::from(a.0)).total_cmp(&(b.1 / f64::from(b.0))))
    };
    // A resource that no node has cannot be priced: then each counts alike.
    let Some(singles) = (0..resources).map(alone).collect::<Option<Vec<_>>>() else { return vec![1.0; resources] };
    let mut master = Master::new(&vec![units(1.0); resources], &singles, NodePrice::default());
    for _ in 0..MOST_STEPS {
        let worth = |parts: &[f64]| -> f64 {
            parts.iter().zip(master.duals()).map(|(part, dual)| f64::from(units(*part)) * dual).sum()
        };
        let best = nodes.iter().max_by(|a, b| (worth(&a.0) / a.1).total_cmp(&(worth(&b.0) / b.1)));
        let Some((parts, cost)) = best.filter(|(parts, cost)| worth(parts) > cost * 1.0001) else { break };
        // A node is a pattern whose shapes are resources, and each resource is asked for in a thousand million
        // units.
        let pattern = parts.iter().enumerate().map(|(at, part)| (ShapeId::from(at), units(*part))).collect();
        if !master.enter(pattern, *cost) {
            break;
        }
    }
    master.duals().iter().map(|dual| dual.max(0.0) * PARTS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plentiful_resource_costs_nothing_and_scarce_one_whole_node() {
        let rates = rates(&[(vec![0.1, 0.5], 2.0)], 2);
        assert!((rates[0] - 20.0).abs() < 1e-3 && rates[1].abs() < 1e-3, "{rates:?}");
    }

    #[test]
    fn two_kinds_of_nodes_price_both() {
        // All of the one costs ten nodes of either kind; mixed, two thirds of that for both.
        let rates = rates(&[(vec![0.1, 0.05], 1.0), (vec![0.05, 0.1], 1.0)], 2);
        assert!((rates[0] - 20.0 / 3.0).abs() < 1e-3 && (rates[1] - 20.0 / 3.0).abs() < 1e-3, "{rates:?}");
    }
}
