//! Instance types that have at least an amount of a resource: by rank, without looking at the types.

use super::bits::Bits;
use super::ids::InstanceTypeId;

/// The types in order of one resource. Sets of "this much or more" are kept at every `stride` ranks, so that memory stays
/// linear in the number of types.
#[derive(Debug)]
pub(crate) struct Ranks {
    /// Types with their amounts, ascending.
    order: Vec<(i64, InstanceTypeId)>,
    stride: usize,
    /// Sets of types by rank: the one at `i` has those at rank `i * stride` and above.
    suffixes: Vec<Bits>,
}

/// Largest number of sets that are kept for a resource.
const MOST_SETS: usize = 64;

impl Ranks {
    /// Ranks the types of `among`.
    pub fn new(among: &Bits, len: usize, amount: impl Fn(InstanceTypeId) -> i64) -> Self {
        let mut order: Vec<(i64, InstanceTypeId)> = among.iter().map(|at| (amount(at), at)).collect();
        order.sort_unstable();
        let stride = order.len().div_ceil(MOST_SETS).max(1);
        let sets = order.len().div_ceil(stride) + 1;
        let mut suffixes = vec![Bits::empty(len); sets];
        let mut bits = Bits::empty(len);
        for (rank, (_, at)) in order.iter().enumerate().rev() {
            bits.insert(*at);
            if rank.is_multiple_of(stride) {
                suffixes[rank / stride] = bits.clone();
            }
        }
        Self { order, stride, suffixes }
    }

    /// Keeps the types that have at least `amount`.
    pub fn retain_at_least(&self, amount: i64, types: &mut Bits) {
        let rank = self.order.partition_point(|(have, _)| *have < amount);
        let set = rank / self.stride;
        types.and(&self.suffixes[set]);
        for (_, at) in &self.order[set * self.stride..rank] {
            types.remove(*at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_keep_what_a_scan_keeps(amounts in prop::collection::vec(-3i64..40, 1..1200), asked in -5i64..45) {
            let all = Bits::full(amounts.len());
            let ranks = Ranks::new(&all, amounts.len(), |at| amounts[at.index()]);
            let mut kept = all.clone();
            ranks.retain_at_least(asked, &mut kept);
            let scanned = InstanceTypeId::all(amounts.len()).filter(|at| amounts[at.index()] >= asked);
            prop_assert_eq!(kept.iter().collect::<Vec<_>>(), scanned.collect::<Vec<_>>());
        }
    }
}
