//! FNV-1a: a hash that is the same on every machine, in every version, in every process. Not for keeping secrets.

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// Hash of one text.
pub(crate) fn fnv(text: &str) -> u64 {
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// Hash of several texts; where one ends counts.
pub(crate) fn fnv_parts(parts: &[&str]) -> u64 {
    parts.iter().fold(OFFSET, |hash, part| (hash ^ fnv(part)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a_and_knows_where_parts_end() {
        assert_eq!(fnv("a"), 0xaf63_dc4c_8601_ec8c);
        assert_ne!(fnv_parts(&["ab", "c"]), fnv_parts(&["a", "bc"]));
    }
}
