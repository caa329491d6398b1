//! A node being planned: what it holds and what it may still be.

use smallvec::SmallVec;

use super::bits::Bits;
use super::classes::Amounts;
use super::context::{Context, Selection};
use super::joint::JointId;
use super::offers::Mask;

/// So many pods of a class, placed by one of its requirement sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Share {
    pub class: u32,
    pub set: u32,
    pub count: u32,
}

/// A node being planned.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// Its pool, by place in the context.
    pub pool: usize,
    pub shares: SmallVec<[Share; 4]>,
    /// What its pods request.
    pub requests: Amounts,
    /// The types that it may be.
    pub types: Bits,
    /// The ways of buying it.
    pub cells: Mask,
    pub joint: JointId,
}

impl Draft {
    /// An empty node of a pool that may be any of `types`.
    pub fn new(context: &Context<'_>, pool: usize, types: Bits) -> Self {
        Self {
            pool,
            shares: SmallVec::new(),
            requests: context.nothing(),
            types,
            cells: context.pools[pool].cells,
            joint: JointId::NONE,
        }
    }

    /// Adds pods if the node can still be something afterwards; says whether it could.
    pub fn add(&mut self, context: &Context<'_>, share: Share, requests: &[i64], selection: &Selection) -> bool {
        let Some(joint) = context.meet(self.joint, selection.joint) else { return false };
        let cells = self.cells & selection.cells;
        let mut total = self.requests.clone();
        for (sum, amount) in total.iter_mut().zip(requests) {
            *sum = sum.saturating_add(amount.saturating_mul(i64::from(share.count)));
        }
        let mut types = self.types.clone();
        types.and(&selection.types);
        context.fitting(self.pool, &total, &mut types);
        if cells != self.cells {
            types.and(&context.bought(cells).types);
        }
        if joint != self.joint {
            context.keep_joint(joint, &mut types);
        }
        if types.is_empty() || !super::options::enough_values(context, self.pool, &types, cells) {
            return false;
        }
        (self.requests, self.types, self.cells, self.joint) = (total, types, cells, joint);
        match self.shares.iter_mut().find(|own| own.class == share.class && own.set == share.set) {
            Some(own) => own.count += share.count,
            None => self.shares.push(share),
        }
        true
    }

    /// How many pods it holds.
    pub fn pods(&self) -> u32 {
        self.shares.iter().map(|share| share.count).sum()
    }
}
