//! Taking NodePools over from Karpenter, and giving them back.
//!
//! A NodePool that Karpenter has had carries a hash that is not the one in Dovetail's record of it. The leader takes it over in
//! one write: the record comes on it, and the annotations of `ADOPT_AS`, which hold back until an operator has looked.
//!
//! ```text
//! a foreign stamp ──► what ADOPT_AS names, where nobody has said otherwise ──► held back
//!       ▲                                                                        │ the operator changes the annotation,
//!       │ Karpenter stamps it again, as it does whenever it leads                │ or takes it out of ADOPT_AS
//!       └────────────────────────────────────────────────────────────────────── released
//! ```
//!
//! Invariants: AD-1 what an operator has written is never overwritten; AD-2 a pool is taken over once for each time that
//! Karpenter has had it, whoever leads and however often that changes, as the pool itself says so; AD-3 from the first look on
//! no node of it goes by our own decision before it is taken over; AD-4 what is released stays so.

use std::collections::BTreeMap;

use dovetail_api::names::annotations::{ADOPTED, ADOPTED_AS, DISRUPTION, NODE_POOL_HASH_VERSION, PACKING_POLICY};
use jiff::Timestamp;

use crate::lifecycle::hash;

/// Annotations of a NodePool.
pub type Annotations = BTreeMap<String, String>;

/// Word for [`AdoptAs`] that holds nothing back.
pub const AS_IS: &str = "as-is";
/// Value of [`DISRUPTION`] for a pool whose nodes are only watched.
pub const OBSERVE: &str = "observe";
/// Value of [`PACKING_POLICY`] for a pool that is packed Karpenter's way.
pub const FEWEST_NODES: &str = "fewest-nodes";
/// Allowed values of `ADOPT_AS`, in words.
pub const ALLOWED: &str = "as-is, or observe and fewest-nodes, comma separated";

/// Behaviour that is held back in pools that are taken over from Karpenter (`ADOPT_AS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct AdoptAs {
    /// Dovetail does not decide to remove their nodes; it reports which it would have removed.
    pub observe: bool,
    /// Their pods are packed onto the fewest nodes, as Karpenter does, and not at the lowest price.
    pub fewest_nodes: bool,
}

impl Default for AdoptAs {
    /// Both are held back: nothing moves before an operator has looked.
    fn default() -> Self {
        Self { observe: true, fewest_nodes: true }
    }
}

impl AdoptAs {
    /// The value `as-is`: it holds nothing back.
    pub const NOTHING: Self = Self { observe: false, fewest_nodes: false };

    /// Reads `as-is`, or words separated by commas; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.trim() == AS_IS {
            return Some(Self::NOTHING);
        }
        text.split(',').map(str::trim).try_fold(Self::NOTHING, |all, word| match word {
            OBSERVE => Some(Self { observe: true, ..all }),
            FEWEST_NODES => Some(Self { fewest_nodes: true, ..all }),
            _ => None,
        })
    }

    /// Its value in `ADOPT_AS` and in the annotation.
    #[must_use]
    pub fn name(self) -> String {
        let words = [(self.observe, OBSERVE), (self.fewest_nodes, FEWEST_NODES)];
        let words: Vec<&str> = words.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect();
        if words.is_empty() { AS_IS.to_owned() } else { words.join(",") }
    }

    /// True if nothing is held back.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self == Self::NOTHING
    }

    /// The annotations that it writes on a pool: keys and values.
    fn written(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let all = [(self.observe, DISRUPTION, OBSERVE), (self.fewest_nodes, PACKING_POLICY, FEWEST_NODES)];
        all.into_iter().filter(|(on, ..)| *on).map(|(_, key, value)| (key, value))
    }

    fn both(self, other: Self) -> Self {
        Self { observe: self.observe && other.observe, fewest_nodes: self.fewest_nodes && other.fewest_nodes }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdoptionChange {
    /// It is taken over from Karpenter.
    TakenOver {
        /// Karpenter's hash version, empty where it had written none.
        version: String,
        /// The behaviour that is held back.
        held: AdoptAs,
    },
    /// Less is held back than before.
    Released {
        /// The behaviour that is still held back.
        held: AdoptAs,
    },
}

/// True if Karpenter has written the pool's hash since we last did. One that led in between and found the pool as it was has not.
#[must_use]
pub fn is_foreign(own: &Annotations) -> bool {
    hash::OF_POOL.is_foreign(own)
}

/// The behaviour that is held back in a pool because it was taken over: the annotations that were written then and are unchanged.
#[must_use]
pub fn held(own: &Annotations) -> AdoptAs {
    let recorded = own.get(ADOPTED_AS).and_then(|text| AdoptAs::parse(text)).unwrap_or(AdoptAs::NOTHING);
    let says = |key: &str, value: &str| own.get(key).is_some_and(|there| there == value);
    recorded.both(AdoptAs { observe: says(DISRUPTION, OBSERVE), fewest_nodes: says(PACKING_POLICY, FEWEST_NODES) })
}

/// Writes the due changes into a pool's annotations, except the hashes: none on a pool that Karpenter never had.
///
/// A pool that is taken over gets the annotations of `wanted` that the operator has not set. A pool that was taken over
/// before loses those that `wanted` no longer names or that the operator has changed.
pub fn settle(own: &mut Annotations, wanted: AdoptAs, now: Timestamp) -> Option<AdoptionChange> {
    if is_foreign(own) {
        return Some(take_over(own, wanted, now));
    }
    let recorded = own.get(ADOPTED_AS).cloned()?;
    let held_before = held(own);
    let held_now = held_before.both(wanted);
    for (key, _) in held_before.written().filter(|(key, _)| held_now.written().all(|(kept, _)| kept != *key)) {
        own.remove(key);
    }
    if recorded == held_now.name() {
        return None;
    }
    own.insert(ADOPTED_AS.to_owned(), held_now.name());
    Some(AdoptionChange::Released { held: held_now })
}

fn take_over(own: &mut Annotations, wanted: AdoptAs, now: Timestamp) -> AdoptionChange {
    let version = own.get(NODE_POOL_HASH_VERSION).cloned().unwrap_or_default();
    // Annotations that an earlier adoption has left and nobody has changed are still ours.
    let left = held(own);
    for (key, _) in left.written() {
        own.remove(key);
    }
    let mut held = AdoptAs::NOTHING;
    for (key, value) in wanted.written().filter(|(key, _)| !own.contains_key(*key)).collect::<Vec<_>>() {
        own.insert(key.to_owned(), value.to_owned());
        held.observe |= value == OBSERVE;
        held.fewest_nodes |= value == FEWEST_NODES;
    }
    own.insert(ADOPTED.to_owned(), format!("{now:.0} {version}").trim_end().to_owned());
    own.insert(ADOPTED_AS.to_owned(), held.name());
    AdoptionChange::TakenOver { version, held }
}

/// The message about a pool in which something is held back; `None` if nothing is.
#[must_use]
pub fn sentence(pool: &str, own: &Annotations) -> Option<String> {
    let held = held(own);
    let what = match (held.observe, held.fewest_nodes) {
        (false, false) => return None,
        (true, false) => "its nodes are only observed",
        (false, true) => "its pods are packed onto the fewest nodes",
        (true, true) => "its nodes are only observed and its pods are packed onto the fewest nodes",
    };
    let keys: Vec<String> = held.written().map(|(key, _)| format!("{key}-")).collect();
    let when = own.get(ADOPTED).and_then(|text| text.split(' ').next()).unwrap_or_default();
    Some(format!(
        "taken over from Karpenter at {when}: {what} until somebody releases it (kubectl annotate nodepool {pool} {})",
        keys.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use dovetail_api::names::annotations::NODE_POOL_HASH;

    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> Annotations {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn karpenters() -> Annotations {
        annotations(&[(NODE_POOL_HASH, "123"), (NODE_POOL_HASH_VERSION, "v3"), ("team", "a")])
    }

    fn now() -> Timestamp {
        "2026-03-02T10:17:00Z".parse().unwrap()
    }

    /// The leader writes its hash on what is settled.
    fn settled(own: &mut Annotations, wanted: AdoptAs) -> Option<AdoptionChange> {
        let change = settle(own, wanted, now());
        let computed = hash::Computed { same: "9".into(), fresh: "9".into(), of: String::new() };
        hash::OF_POOL.settle(own, &computed, hash::Generations::default());
        change
    }

    fn value<'a>(own: &'a Annotations, key: &str) -> Option<&'a str> {
        own.get(key).map(String::as_str)
    }

    #[test]
    fn the_setting_names_what_is_held_back_or_nothing() {
        for (text, observe, fewest_nodes) in [
            ("observe,fewest-nodes", true, true),
            ("fewest-nodes , observe", true, true),
            ("observe", true, false),
            ("fewest-nodes", false, true),
            ("as-is", false, false),
        ] {
            assert_eq!(AdoptAs::parse(text), Some(AdoptAs { observe, fewest_nodes }), "{text}");
        }
        for wrong in ["", "obsrve", "observe,as-is", "as-is,observe", "cost", "observe,", "true"] {
            assert_eq!(AdoptAs::parse(wrong), None, "{wrong}");
        }
        assert_eq!(AdoptAs::parse(&AdoptAs::default().name()), Some(AdoptAs::default()));
    }

    #[test]
    fn pool_is_foreign_only_by_a_hash_that_is_not_ours() {
        assert!(is_foreign(&karpenters()));
        assert!(is_foreign(&annotations(&[(NODE_POOL_HASH, "1")])), "Karpenter 0.32 wrote no version");
        for ours in ["dovetail-v1", "dovetail-v2"] {
            assert!(!is_foreign(&annotations(&[(NODE_POOL_HASH, "1"), (NODE_POOL_HASH_VERSION, ours)])), "{ours}");
        }
        assert!(!is_foreign(&annotations(&[])) && !is_foreign(&annotations(&[("team", "a")])), "a new pool");
    }

    #[test]
    fn a_pool_of_karpenters_is_taken_over_once_and_held_back() {
        let mut own = karpenters();
        let change = settled(&mut own, AdoptAs::default()).unwrap();
        assert_eq!(change, AdoptionChange::TakenOver { version: "v3".into(), held: AdoptAs::default() });
        assert_eq!(value(&own, DISRUPTION), Some("observe"));
        assert_eq!(value(&own, PACKING_POLICY), Some("fewest-nodes"));
        assert_eq!(value(&own, ADOPTED), Some("2026-03-02T10:17:00Z v3"));
        let before = own.clone();
        assert_eq!(settled(&mut own, AdoptAs::default()), None, "a successor finds it so");
        assert_eq!(own, before);
    }

    #[test]
    fn a_pool_of_ours_or_of_nobodys_is_left_alone() {
        let mut own = annotations(&[("team", "a")]);
        assert_eq!(settle(&mut own, AdoptAs::default(), now()), None);
        assert_eq!(own, annotations(&[("team", "a")]));
    }

    #[test]
    fn what_an_operator_has_written_beforehand_is_not_overwritten() {
        for (key, says) in [(DISRUPTION, ""), (DISRUPTION, "observe"), (PACKING_POLICY, "cost")] {
            let mut own = karpenters();
            own.insert(key.into(), says.into());
            settled(&mut own, AdoptAs::default());
            assert_eq!(value(&own, key), Some(says));
            // Nor is it taken off later.
            settled(&mut own, AdoptAs::NOTHING);
            assert_eq!(value(&own, key), Some(says), "{key} is the operator's");
        }
    }

    #[test]
    fn operator_releases_a_pool_by_annotation_and_it_stays_so() {
        for released in [None, Some("")] {
            let mut own = karpenters();
            settled(&mut own, AdoptAs::default());
            match released {
                None => drop(own.remove(DISRUPTION)),
                Some(text) => drop(own.insert(DISRUPTION.into(), text.into())),
            }
            let left = AdoptAs { observe: false, fewest_nodes: true };
            assert_eq!(settled(&mut own, AdoptAs::default()), Some(AdoptionChange::Released { held: left }));
            assert_eq!(held(&own), left);
            let before = own.clone();
            assert_eq!(settled(&mut own, AdoptAs::default()), None);
            assert_eq!(own, before, "the setting does not bring it back");
        }
    }

    #[test]
    fn the_setting_releases_what_it_had_held_back() {
        let mut own = karpenters();
        settled(&mut own, AdoptAs::default());
        let change = settled(&mut own, AdoptAs::parse("fewest-nodes").unwrap());
        assert_eq!(change, Some(AdoptionChange::Released { held: AdoptAs { observe: false, fewest_nodes: true } }));
        assert_eq!((value(&own, DISRUPTION), value(&own, PACKING_POLICY)), (None, Some("fewest-nodes")));
        settled(&mut own, AdoptAs::NOTHING);
        assert_eq!((value(&own, PACKING_POLICY), value(&own, ADOPTED_AS)), (None, Some("as-is")));
        assert_eq!(sentence("default", &own), None);
    }

    #[test]
    fn a_pool_that_karpenter_has_had_in_between_is_taken_over_anew() {
        let mut own = karpenters();
        settled(&mut own, AdoptAs::default());
        own.remove(DISRUPTION);
        settled(&mut own, AdoptAs::default());
        own.extend(karpenters());
        assert!(is_foreign(&own), "Karpenter stamps it again");
        let change = settled(&mut own, AdoptAs::default());
        assert_eq!(change, Some(AdoptionChange::TakenOver { version: "v3".into(), held: AdoptAs::default() }));
        // With another setting than at the first time, what the first has left goes.
        own.extend(karpenters());
        settled(&mut own, AdoptAs::NOTHING);
        assert_eq!((value(&own, DISRUPTION), value(&own, PACKING_POLICY)), (None, None));
    }

    #[test]
    fn what_is_held_back_is_said_with_how_to_release_it() {
        let mut own = karpenters();
        settled(&mut own, AdoptAs::default());
        let said = sentence("default", &own).unwrap();
        assert!(said.contains("nodepool default dovetail.dev/disruption- dovetail.dev/packing-policy-"), "{said}");
        own.insert(DISRUPTION.into(), String::new());
        let said = sentence("default", &own).unwrap();
        assert!(said.ends_with("(kubectl annotate nodepool default dovetail.dev/packing-policy-)"), "{said}");
    }

    fn some_annotations() -> impl Strategy<Value = Annotations> {
        let keys = [NODE_POOL_HASH, NODE_POOL_HASH_VERSION, DISRUPTION, PACKING_POLICY, ADOPTED, ADOPTED_AS, "team"];
        let values = ["", "1", "v3", "observe", "fewest-nodes", "cost", "as-is", "observe,fewest-nodes"];
        let key = prop::sample::select(keys.to_vec()).prop_map(str::to_owned);
        let value = prop::sample::select(values.to_vec()).prop_map(str::to_owned);
        prop::collection::btree_map(key, value, 0..7)
    }

    proptest! {
        #[test]
        fn settling_twice_is_settling_once(mut own in some_annotations(), observe: bool, fewest_nodes: bool) {
            let wanted = AdoptAs { observe, fewest_nodes };
            settled(&mut own, wanted);
            let once = own.clone();
            prop_assert_eq!(settled(&mut own, wanted), None);
            prop_assert_eq!(own, once);
        }

        #[test]
        fn what_does_not_say_what_we_wrote_is_never_changed(mut own in some_annotations(), wanted: bool) {
            let before = own.clone();
            settled(&mut own, if wanted { AdoptAs::default() } else { AdoptAs::NOTHING });
            for (key, ours) in [(DISRUPTION, OBSERVE), (PACKING_POLICY, FEWEST_NODES)] {
                if let Some(there) = before.get(key).filter(|there| *there != ours) {
                    prop_assert_eq!(own.get(key), Some(there));
                }
            }
            prop_assert_eq!(own.get("team"), before.get("team"));
        }
    }
}
