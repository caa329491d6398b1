//! Hashes of texts, for names, tokens and seeds (FNV-1a, see `dovetail_api::hash`).

use dovetail_api::hash::{self, OFFSET, fold};

/// Hash of one text.
pub(crate) fn fnv(text: &str) -> u64 {
    hash::fnv(text.bytes())
}

/// Hash of several texts; where one ends counts.
pub(crate) fn fnv_parts(parts: &[&str]) -> u64 {
    parts.iter().fold(OFFSET, |hash, part| fold(hash, fnv(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_end_elsewhere_have_another_hash() {
        assert_eq!(fnv("a"), 0xaf63_dc4c_8601_ec8c);
        assert_ne!(fnv_parts(&["ab", "c"]), fnv_parts(&["a", "bc"]));
    }
}
