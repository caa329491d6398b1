//! Launch tokens: the same claims and the same attempt give the same token, so that a launch repeated by mistake is one.

use dovetail_api::hash::fnv_128;

/// The token of an attempt to launch for claims: a hash of their UIDs, sorted, and the attempt's number. 38 characters,
/// within the 64 of EC2's ClientToken.
#[must_use]
pub fn launch_token<'a>(uids: impl IntoIterator<Item = &'a str>, attempt: u32) -> String {
    let mut uids: Vec<_> = uids.into_iter().collect();
    uids.sort_unstable();
    let ended = uids.into_iter().flat_map(|uid| uid.bytes().chain([0]));
    // The token is no secret: the hash only has to avoid chance collisions.
    format!("dt-{:032x}-{attempt}", fnv_128(ended.chain(attempt.to_be_bytes())))
}

/// The attempt's number in a token of ours.
#[must_use]
pub fn attempt_of(token: &str) -> Option<u32> {
    token.strip_prefix("dt-")?.rsplit_once('-')?.1.parse().ok()
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
