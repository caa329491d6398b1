//! FNV-1a: a hash that is the same on every machine, in every version, in every process. Not for keeping secrets.

/// Start value of a hash.
pub const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// Hash of bytes, 64 bits.
pub fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    fnv_from(OFFSET, bytes)
}

/// Hash of bytes, 64 bits, that begins with `seed`: another hash to go on from, or a seed of its own.
pub fn fnv_from(seed: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(seed, |hash, byte| fold(hash, byte.into()))
}

/// Hash of bytes by FNV-1, which is not FNV-1a: Karpenter's hashes are of it.
pub fn fnv_1(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(byte))
}

/// Hash of bytes, 32 bits.
pub fn fnv_32(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Hash of bytes, 128 bits.
pub fn fnv_128(bytes: impl IntoIterator<Item = u8>) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.into_iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
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
        assert_eq!(fnv_from(fnv(*b"foo"), *b"bar"), fnv(*b"foobar"));
        assert_eq!(fnv_1(*b"foobar"), 0x340d_8765_a4dd_a9c2);
        assert_eq!(fnv_32(*b"foobar"), 0xbf9c_f968);
        assert_eq!(fnv_128(*b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
