//! Launch tokens: the same claims and the same attempt give the same token, so that a launch repeated by mistake is one.

/// The token of an attempt to launch for claims: a hash of their UIDs, sorted, and the attempt's number. 38 characters,
/// within the 64 of EC2's ClientToken.
#[must_use]
pub fn launch_token<'a>(uids: impl IntoIterator<Item = &'a str>, attempt: u32) -> String {
    let mut uids: Vec<_> = uids.into_iter().collect();
    uids.sort_unstable();
    let mut hash = Fnv128::default();
    for uid in uids {
        hash.write(uid.as_bytes());
        hash.write(&[0]);
    }
    hash.write(&attempt.to_be_bytes());
    format!("dt-{:032x}-{attempt}", hash.0)
}

/// The attempt's number in a token of ours.
#[must_use]
pub fn attempt_of(token: &str) -> Option<u32> {
    token.strip_prefix("dt-")?.rsplit_once('-')?.1.parse().ok()
}

/// FNV-1a, 128 bits: no secret is kept, only chance collisions are to be kept out.
struct Fnv128(u128);

impl Default for Fnv128 {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Fnv128 {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn launch_token_depends_only_on_claims_and_attempt() {
        assert_eq!(launch_token(["a", "b"], 1), launch_token(["b", "a"], 1));
        assert_ne!(launch_token(["a"], 1), launch_token(["a"], 2));
        assert_ne!(launch_token(["a", "b"], 1), launch_token(["ab"], 1));
        assert!(launch_token(["a"], u32::MAX).len() <= 64);
        assert_eq!(attempt_of(&launch_token(["a"], 7)), Some(7));
        assert_eq!(attempt_of("somebody's"), None);
    }
}
