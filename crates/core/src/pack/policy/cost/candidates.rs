//! Instance types worth filling: none that another one beats in room and price for the same shapes.

use rustc_hash::FxHashMap;

use super::shapes::Shapes;
use super::{Aims, NodePrice};
use crate::pack::model::bits::Bits;
use crate::pack::model::classes::Amounts;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{InstanceTypeId, PoolId, ShapeId};
use crate::pack::model::kinds::NodeKind;
use crate::pack::model::numbers::float;
use crate::pack::model::offers::Mask;

/// Number of shapes above which types that are almost alike are not told apart: a node gets the cheapest type that holds what
/// is planned on it anyway.
const MANY_SHAPES: usize = 48;

/// Smallest ratio of a dearer type's room to a cheaper one's at which it is kept, with that many shapes.
const MORE_ROOM: f64 = 1.08;

/// Number of pods of shapes, not many, above which types are told apart even by room that all these together do not ask for: it
/// makes other patterns.
const FEW_PODS: u32 = 100;

/// Number of candidates that are compared in one step of work.
const CANDIDATES_A_STEP: usize = 8;

/// Number of sets and shapes that are compared for a type in the time of one candidate.
const SHAPES_OF_A_CANDIDATE: usize = 4;

/// A type bought in one of some offering bits that all shapes see alike.
#[derive(Debug)]
pub(super) struct TypeCandidate {
    pub at: InstanceTypeId,
    /// Dollars an hour.
    pub price: f64,
    /// The price with `node_price`, what a node costs beside it.
    pub cost: f64,
    /// The offerings by which it is bought.
    pub offering_bits: Mask,
    /// The shapes that it may carry.
    pub shapes: Vec<ShapeId>,
}

/// Types that are in the same sets: the shapes that these allow, what all their pods ask for together, which is as much room as
/// is of use, and the candidates kept, cheapest first, so that the first to have room wins.
struct Kept {
    allowed: Vec<ShapeId>,
    asked: Amounts,
    candidates: Vec<usize>,
}

impl Kept {
    fn for_shapes(shapes: &Shapes<'_>, allowed: Vec<ShapeId>, nothing: Amounts) -> Self {
        let mut asked = nothing;
        let pods: u32 = allowed.iter().map(|shape| shapes.all[*shape].count).sum();
        // With many pods there is always something to fill a node with, so any room may be of use.
        if pods > FEW_PODS && shapes.all.len() <= MANY_SHAPES {
            asked.fill(i64::MAX);
            return Self { allowed, asked, candidates: vec![] };
        }
        for shape in allowed.iter().map(|shape| &shapes.all[*shape]) {
            for (sum, one) in asked.iter_mut().zip(&shape.requests) {
                *sum = sum.saturating_add(one.saturating_mul(i64::from(shape.count)));
            }
        }
        Self { allowed, asked, candidates: vec![] }
    }
}

#[derive(Debug)]
pub(super) struct TypeCandidates {
    pub all: Vec<TypeCandidate>,
    pub aims: Aims,
}

impl TypeCandidates {
    pub fn for_kind(context: &Context<'_>, kind: NodeKind, shapes: &Shapes<'_>, aims: Aims) -> Self {
        let mut open = Bits::empty(context.problem.instance_types.len());
        shapes.all.iter().for_each(|shape| open.or(&shape.types));
        let sets = distinct_sets(shapes);
        let mut all: Vec<TypeCandidate> = Vec::new();
        // Say half the shapes are held to zone a: then zone a and the other zones are two groups, in which a type
        // has two prices and carries two sets of shapes.
        for offering_bits in offering_groups(context, kind.pool, shapes) {
            let bought = context.bought(offering_bits);
            // Candidates kept, by the sets that a type is in.
            let mut kept: FxHashMap<Vec<bool>, Kept> = FxHashMap::default();
            for at in bought.order.iter().copied().filter(|at| open.has(*at)) {
                // Only types that the same shapes may be on can be compared with each other.
                let signature: Vec<bool> = sets.iter().map(|set| set.has(at)).collect();
                let room = context.room(kind, at);
                let may = |shape: &ShapeId| {
                    let shape = &shapes.all[*shape];
                    shape.offering_bits & offering_bits != 0 && shape.types.has(at)
                };
                let same = kept.entry(signature).or_insert_with(|| {
                    Kept::for_shapes(shapes, shapes.all.ids().filter(may).collect(), context.nothing())
                });
                let looked_at = same.candidates.len() + (sets.len() + same.allowed.len()) / SHAPES_OF_A_CANDIDATE;
                if !context.work(1 + looked_at / CANDIDATES_A_STEP) {
                    break;
                }
                let more = if shapes.all.len() > MANY_SHAPES { MORE_ROOM } else { 1.0 };
                // They come by price, so whatever is kept is no dearer. A type that has no more room than one of
                // these of anything that is asked for makes no better pattern.
                let beaten = same.candidates.iter().any(|other| {
                    let (room_of, shapes) = (context.room(kind, all[*other].at), &all[*other].shapes);
                    let rooms = room_of.iter().zip(room).zip(&same.asked);
                    let mut rooms = rooms.map(|((other, own), asked)| (float(*other), float(*own.min(asked))));
                    let all_carried = shapes.len() == same.allowed.len();
                    rooms.all(|(other, own)| other * if all_carried { more } else { 1.0 } >= own)
                });
                if beaten {
                    continue;
                }
                let holds = |shape: &ShapeId| {
                    let requests = &shapes.all[*shape].requests;
                    requests.iter().zip(room).all(|(asked, have)| asked <= have)
                };
                let carried: Vec<ShapeId> = same.allowed.iter().copied().filter(holds).collect();
                if !carried.is_empty() {
                    same.candidates.push(all.len());
                    let price = bought.price[at];
                    all.push(TypeCandidate {
                        at,
                        price,
                        cost: aims.node_price.with(price),
                        offering_bits,
                        shapes: carried,
                    });
                }
            }
        }
        Self { all, aims }
    }

    /// Sets the costs anew, with another price of a node beside its own.
    pub fn set_node_price(&mut self, node: NodePrice) {
        self.all.iter_mut().for_each(|candidate| candidate.cost = node.with(candidate.price));
    }
}

fn distinct_sets<'s>(shapes: &'s Shapes<'_>) -> Vec<&'s Bits> {
    let mut sets: Vec<&Bits> = Vec::new();
    for shape in &shapes.all {
        if !sets.contains(&&shape.types) {
            sets.push(&shape.types);
        }
    }
    sets
}

/// Offering bits that every shape allows or forbids together.
fn offering_groups(context: &Context<'_>, pool: PoolId, shapes: &Shapes<'_>) -> Vec<Mask> {
    let mut masks: Vec<Mask> = shapes.all.iter().map(|shape| shape.offering_bits).collect();
    masks.sort_unstable();
    masks.dedup();
    let mut groups = vec![context.pools[pool].offering_bits];
    for mask in masks {
        // Each mask cuts every group in two: what it has of it, and what it has not.
        groups = groups.iter().flat_map(|group| [group & mask, group & !mask]).filter(|group| *group != 0).collect();
    }
    groups.sort_unstable();
    groups
}
