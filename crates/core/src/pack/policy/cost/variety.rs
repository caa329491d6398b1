//! Choice among instance types that a pattern leaves a node that may be spot.

use rustc_hash::FxHashMap;

use super::shapes::Shapes;
use super::{Aims, Pattern};
use crate::pack::model::bits::Bits;
use crate::pack::model::context::Context;
use crate::pack::model::kinds::NodeKind;
use crate::pack::model::options::{enough_of, least_of, varied_enough};

/// Decides if a pattern leaves enough choice, and remembers.
pub(super) struct Variety<'c, 'a> {
    context: &'c Context<'a>,
    shapes: &'c Shapes<'c>,
    kind: NodeKind,
    aims: Aims,
    known: FxHashMap<Pattern, bool>,
}

impl<'c, 'a> Variety<'c, 'a> {
    pub fn new(context: &'c Context<'a>, kind: NodeKind, shapes: &'c Shapes<'c>, aims: Aims) -> Self {
        Self { context, shapes, kind, aims, known: FxHashMap::default() }
    }

    /// True if the pattern's node keeps enough types in enough families, or cannot be spot, and as many values as the pool's
    /// `minValues` demand; or its pods have no such choice even one by one. One pod alone always does: its node cannot be any
    /// smaller.
    pub fn enough(&mut self, pattern: &Pattern) -> bool {
        // The knowledge of thousands of patterns is kept, but these two need none.
        if matches!(pattern.as_slice(), [] | [(_, 1)]) {
            return true;
        }
        if let Some(known) = self.known.get(pattern) {
            return *known;
        }
        let answer = self.decide(pattern);
        self.known.insert(pattern.clone(), answer);
        answer
    }

    fn decide(&self, pattern: &Pattern) -> bool {
        let context = self.context;
        let mut total = context.nothing();
        let mut largest = context.nothing();
        let mut offering_bits = context.pools[self.kind.pool].offering_bits;
        let mut types = context.pools[self.kind.pool].types.clone();
        for (shape, count) in pattern {
            let one = &self.shapes.all[*shape];
            offering_bits &= one.offering_bits;
            types.and(&one.types);
            for (sum, asked) in total.iter_mut().zip(&one.requests) {
                *sum = sum.saturating_add(asked.saturating_mul(i64::from(*count)));
            }
            largest.iter_mut().zip(&one.requests).for_each(|(most, asked)| *most = (*most).max(*asked));
        }
        let fitting = |requests: &[i64]| {
            let mut types = types.clone();
            context.fitting(self.kind, requests, &mut types);
            types
        };
        // Say the pods together fit 9 types and the largest alone fits 40. With 15 wanted the pattern takes choice
        // away. If it fitted 12 alone, there was none to take.
        let (together, alone) = (fitting(&total), fitting(&largest));
        let least = least_of(context, self.kind.pool, &alone, offering_bits);
        let offers = |types: &Bits| enough_of(context, self.kind.pool, types, offering_bits, &least);
        let varied = |types: &Bits| varied_enough(context, types, offering_bits);
        (!self.aims.varied || varied(&together) || !varied(&alone)) && (offers(&together) || !offers(&alone))
    }
}
