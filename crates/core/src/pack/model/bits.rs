//! Sets of instance types as bits.

use smallvec::SmallVec;

use super::ids::InstanceTypeId;
use super::numbers::len_of;

/// A set of instance types of the problem.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Bits(SmallVec<[u64; 20]>);

impl Bits {
    /// The empty set of `len` types.
    pub fn empty(len: usize) -> Self {
        Self(SmallVec::from_elem(0, len.div_ceil(64)))
    }

    /// The set of all of `len` types.
    pub fn full(len: usize) -> Self {
        let mut bits = Self(SmallVec::from_elem(!0, len.div_ceil(64)));
        if !len.is_multiple_of(64)
            && let Some(last) = bits.0.last_mut()
        {
            *last = (1 << (len % 64)) - 1;
        }
        bits
    }

    pub fn insert(&mut self, id: InstanceTypeId) {
        let at = id.index();
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub fn remove(&mut self, id: InstanceTypeId) {
        let at = id.index();
        self.0[at / 64] &= !(1 << (at % 64));
    }

    pub fn has(&self, id: InstanceTypeId) -> bool {
        let at = id.index();
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    pub fn and(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= b);
    }

    pub fn or(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }

    pub fn without(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= !b);
    }

    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(|word| *word = 0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub fn count(&self) -> usize {
        self.0.iter().map(|word| len_of(word.count_ones())).sum()
    }

    /// The types of the set in order.
    pub fn iter(&self) -> impl Iterator<Item = InstanceTypeId> + Clone + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = len_of(left.trailing_zeros());
                    left &= left - 1;
                    InstanceTypeId::from(at * 64 + bit)
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_iterate_in_order_and_full_set_has_exact_count() {
        let mut bits = Bits::empty(130);
        for at in [129, 0, 64, 63] {
            bits.insert(InstanceTypeId::from(at));
        }
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 63, 64, 129].map(InstanceTypeId::from));
        assert_eq!(Bits::full(130).count(), 130);
        assert_eq!(Bits::full(128).count(), 128);
    }
}
