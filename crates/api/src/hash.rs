//! FNV-1a: a hash that is the same on every machine, in every version, in every process. Not for keeping secrets.

/// What a hash begins with.
pub const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// Hash of bytes, 64 bits.
pub fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(OFFSET, |hash, byte| fold(hash, byte.into()))
}

/// A hash with one more value in it.
#[must_use]
pub const fn fold(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(PRIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(fnv([]), OFFSET);
        assert_eq!(fnv(*b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv(*b"foobar"), 0x8594_4171_f739_67e8);
    }
}
