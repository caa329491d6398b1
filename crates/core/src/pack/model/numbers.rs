//! Conversions between kinds of numbers that can lose something, each with the reason why that does no harm. Whatever is
//! lossless is `From`, and ids are no numbers ([`super::ids`]).
//!
//! All are inlined: the program for the cheapest nodes calls them for each shape of each filling.

/// An amount of a resource, as a number for proportions and worth. Beyond 2^53, which is nine million gigabytes of memory,
/// the last digits go: whether something fits is never decided by it.
#[inline]
pub(crate) fn float(amount: i64) -> f64 {
    amount as f64
}

/// An amount as a part of a whole. A whole of nothing counts as one: the part is then the amount itself, and zero for an amount
/// of nothing.
#[inline]
pub(crate) fn part_of(amount: i64, whole: i64) -> f64 {
    float(amount) / float(whole.max(1))
}

/// A count, as a number for means. No list is so long that digits are lost.
#[inline]
pub(crate) fn float_of_count(count: usize) -> f64 {
    count as f64
}

/// A sum of counts, as a number for means.
#[inline]
pub(crate) fn float_of_total(count: u64) -> f64 {
    count as f64
}

/// A part of an amount, rounded down: what is planned for it fits into it all the more.
#[inline]
pub(crate) fn scaled(amount: i64, part: f64) -> i64 {
    if part >= 1.0 { amount } else { (float(amount) * part) as i64 }
}

/// A count, rounded down; 0 for one below zero or not a number, and the largest for one beyond that: a count is a wish or a
/// bound, and its user looks at the number of pods that there are.
#[inline]
pub(crate) fn rounded_down(count: f64) -> u32 {
    count as u32
}

/// The length of a list as a count of pods. No list has more than 2^32.
#[inline]
pub(crate) fn count_of(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// A count that was computed from amounts; none where these are below zero, and the most where they leave room for more than
/// there can be pods.
#[inline]
pub(crate) fn count_of_amount(count: i64) -> u32 {
    u32::try_from(count.max(0)).unwrap_or(u32::MAX)
}

/// A count as slices have it: no platform that Dovetail runs on has a `usize` of less than 32 bits.
#[inline]
pub(crate) fn len_of(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_the_nearest_count() {
        assert_eq!([-1.5, f64::NAN, 2.9, 1e12].map(rounded_down), [0, 0, 2, u32::MAX]);
        assert_eq!([-7, 12, i64::MAX].map(count_of_amount), [0, 12, u32::MAX]);
    }

    #[test]
    fn a_part_is_rounded_down_and_the_whole_is_exact() {
        assert_eq!((scaled(i64::MAX, 1.0), scaled(7, 0.5)), (i64::MAX, 3));
        assert!((part_of(3, 0) - 3.0).abs() < f64::EPSILON && (part_of(3, 4) - 0.75).abs() < f64::EPSILON);
    }
}
