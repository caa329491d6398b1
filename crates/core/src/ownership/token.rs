//! Launch tokens: the same claims and the same attempt give the same token, so that a launch repeated by mistake is one.
//!
//! A call for one claim has a token that is a hash of the claim's uid. A call for several has one that is the root of a hash tree
//! over their uids: each claim carries its number and the hashes beside its path, which prove that its uid is in the token and
//! which nobody can make up for another uid. Only whether a claim is in a call is proven so; which of the call's instances is
//! its own is decided by [`crate::lifecycle::shared_call`] and written on it.

use std::fmt;
use std::str::FromStr;

use dovetail_api::hash::fnv_128;
use sha2::{Digest, Sha256};

/// Bytes of a hash of the tree.
const HASH: usize = 16;
type Hash = [u8; HASH];
/// First bytes of what is hashed, so that no hash of one kind is one of another.
const LEAF: u8 = 0;
const INNER: u8 = 1;
const ROOT: u8 = 2;
/// Most hashes of a proof: a tree of four billion claims.
const LONGEST_PROOF: usize = 32;

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
    Some(parts(token)?.attempt)
}

/// Number of claims that a call with this token is made for; 1 for a token that is not ours.
#[must_use]
pub fn claims_of(token: &str) -> u32 {
    parts(token).map_or(1, |parts| parts.claims)
}

/// True if a call with this token is made for several claims.
#[must_use]
pub fn is_shared(token: &str) -> bool {
    claims_of(token) > 1
}

struct TokenParts<'a> {
    claims: u32,
    hash: &'a str,
    attempt: u32,
}

fn parts(token: &str) -> Option<TokenParts<'_>> {
    let (claims, rest) = token.strip_prefix("dt")?.split_once('-')?;
    let claims = if claims.is_empty() { 1 } else { claims.parse().ok().filter(|claims| *claims > 1)? };
    let (hash, attempt) = rest.rsplit_once('-')?;
    Some(TokenParts { claims, hash, attempt: attempt.parse().ok()? })
}

/// The part of a claim in a call: the call's token and, in a call for several claims, its place there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LaunchPart {
    pub token: String,
    pub place: Option<Place>,
}

/// The place of a claim in a call for several, as its annotation says it: `2/` and the proof in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Number of the claim in the call, from 0.
    pub number: u32,
    /// Hashes beside the path from its uid to the root.
    proof: Vec<Hash>,
}

impl LaunchPart {
    /// The part of a claim that is launched for alone.
    #[must_use]
    pub fn alone(uid: &str, attempt: u32) -> Self {
        Self { token: launch_token([uid], attempt), place: None }
    }
}

/// The parts of claims in one call, in the order of their uids here, which is that of their numbers.
#[must_use]
pub fn share<'a>(uids: impl IntoIterator<Item = &'a str>, attempt: u32) -> Vec<LaunchPart> {
    let uids: Vec<&str> = uids.into_iter().collect();
    if let [uid] = uids[..] {
        return vec![LaunchPart::alone(uid, attempt)];
    }
    let claims = u32::try_from(uids.len()).unwrap_or(u32::MAX);
    let mut proofs = vec![Vec::new(); uids.len()];
    let mut level: Vec<Hash> = uids.iter().map(|uid| leaf(uid)).collect();
    let mut below = 0;
    while level.len() > 1 {
        for (number, proof) in proofs.iter_mut().enumerate() {
            proof.extend(level.get((number >> below) ^ 1));
        }
        // The last one of an odd number goes up as it is.
        level = level.chunks(2).filter_map(above).collect();
        below += 1;
    }
    let token = level.first().map(|root| token_with(root, claims, attempt)).unwrap_or_default();
    let parts = (0..claims).zip(proofs);
    parts.map(|(number, proof)| LaunchPart { token: token.clone(), place: Some(Place { number, proof }) }).collect()
}

fn above(two: &[Hash]) -> Option<Hash> {
    match two {
        [left, right] => Some(inner(left, right)),
        [last] => Some(*last),
        _ => None,
    }
}

/// True if a claim with this uid is the one at a place of the call with this token.
#[must_use]
pub fn is_at(token: &str, place: &Place, uid: &str) -> bool {
    let Some(TokenParts { claims, hash, attempt }) = parts(token).filter(|parts| parts.claims > 1) else {
        return false;
    };
    if place.number >= claims {
        return false;
    }
    let (mut number, mut width, mut own) = (place.number, claims, leaf(uid));
    let mut proof = place.proof.iter();
    while width > 1 {
        // The last one of an odd number has nothing beside it.
        if number ^ 1 < width {
            let Some(beside) = proof.next() else { return false };
            own = if number % 2 == 0 { inner(&own, beside) } else { inner(beside, &own) };
        }
        (number, width) = (number / 2, width.div_ceil(2));
    }
    proof.next().is_none() && token == token_with(&own, claims, attempt) && !hash.is_empty()
}

fn token_with(root: &Hash, claims: u32, attempt: u32) -> String {
    let whole = hashed(&[&[ROOT], root, &claims.to_be_bytes(), &attempt.to_be_bytes()]);
    format!("dt{claims}-{}-{attempt}", hex(&whole))
}

fn leaf(uid: &str) -> Hash {
    hashed(&[&[LEAF], uid.as_bytes()])
}

fn inner(left: &Hash, right: &Hash) -> Hash {
    hashed(&[&[INNER], left, right])
}

fn hashed(parts: &[&[u8]]) -> Hash {
    let mut digest = Sha256::new();
    parts.iter().for_each(|part| digest.update(part));
    let mut hash = [0; HASH];
    hash.iter_mut().zip(digest.finalize()).for_each(|(own, byte)| *own = byte);
    hash
}

fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.number)?;
        self.proof.iter().try_for_each(|hash| f.write_str(&hex(hash)))
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(written: &str) -> Result<Self, ()> {
        let (number, digits) = written.split_once('/').ok_or(())?;
        if !digits.is_ascii() || digits.len() % (2 * HASH) != 0 || digits.len() > LONGEST_PROOF * 2 * HASH {
            return Err(());
        }
        let mut bytes = Vec::with_capacity(digits.len() / 2);
        for two in digits.as_bytes().chunks(2) {
            let two = std::str::from_utf8(two).map_err(|_| ())?;
            bytes.push(u8::from_str_radix(two, 16).map_err(|_| ())?);
        }
        let proof = bytes.chunks(HASH).filter_map(|hash| hash.try_into().ok()).collect();
        Ok(Self { number: number.parse().map_err(|_| ())?, proof })
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
        assert_eq!((claims_of(&launch_token(["a"], 7)), claims_of("somebody's")), (1, 1));
    }

    fn uids(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("uid-{number}")).collect()
    }

    #[test]
    fn each_claim_of_a_call_proves_its_own_place_and_no_other() {
        for count in [2, 3, 4, 5, 7, 8, 13, 100] {
            let uids = uids(count);
            let all = share(uids.iter().map(String::as_str), 3);
            assert_eq!(all.len(), count);
            for (number, (uid, part)) in uids.iter().zip(&all).enumerate() {
                let place = part.place.clone().unwrap();
                assert_eq!((part.token.as_str(), place.number as usize), (all[0].token.as_str(), number));
                assert!(is_at(&part.token, &place, uid), "{number} of {count}");
                assert_eq!(place.to_string().parse(), Ok(place.clone()));
                assert!(!is_at(&part.token, &place, "uid-of-another"));
                let next = all[(number + 1) % count].place.clone().unwrap();
                assert!(!is_at(&part.token, &next, uid), "another's place");
                let elsewhere = Place { number: (place.number + 1) % all.len() as u32, ..place };
                assert!(!is_at(&part.token, &elsewhere, uid), "another number");
            }
        }
    }

    #[test]
    fn shared_token_has_claims_and_attempt_and_fits_ec2s_token() {
        let three = &share(["a", "b", "c"], 7)[0].token;
        assert_eq!((claims_of(three), attempt_of(three), is_shared(three)), (3, Some(7), true));
        assert_ne!(share(["a", "b", "c"], 8)[0].token, *three, "another attempt");
        assert_ne!(share(["a", "b"], 7)[0].token, *three, "other claims");
        let thousand = uids(1000);
        let longest = share(thousand.iter().map(String::as_str), u32::MAX)[999].clone();
        assert!(longest.token.len() <= 62, "with its ending for a template made anew: {}", longest.token);
        assert!(longest.place.unwrap().to_string().len() < 400);
        assert_eq!(share(["a"], 2), [LaunchPart::alone("a", 2)]);
        assert!(share([], 1).is_empty());
    }

    #[test]
    fn place_that_is_written_by_hand_proves_nothing() {
        let token = &share(["a", "b"], 1)[0].token;
        for written in ["", "0", "0/", "x/00", "0/zz", "4294967296/", "0/00112233445566778899aabbccddeeff", "0/ä"] {
            let placed = written.parse::<Place>().is_ok_and(|place| is_at(token, &place, "a"));
            assert!(!placed, "{written}");
        }
        let place = share(["a", "b"], 1)[0].place.clone().unwrap();
        assert!(!is_at(&launch_token(["a"], 1), &place, "a"), "a token of one claim has no places");
    }
}
