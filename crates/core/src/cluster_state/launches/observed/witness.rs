//! The part of a kubelet's word about its Node that is believed. A fifth less than was foreseen is what an image or a setting
//! takes: one node is enough to believe it. More takes two nodes, launched apart, that agree; until then a fifth counts. Less
//! than half of what was foreseen is never believed.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::clock::later;
use crate::resources::{Resources, format_amount};

/// Most nodes remembered for one instance type.
const MOST_WITNESSES: usize = 8;
/// Minimum time between two launches that count as apart: nodes of one packing may all belong to one user.
const APART: SignedDuration = SignedDuration::from_secs(60);
/// Most changes of a node's word that are taken in.
const MOST_CHANGES: u8 = 8;
/// Time that a node's word is remembered.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(7 * 24);

/// A node that has less than was foreseen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Witness {
    /// The uid of its NodeClaim.
    pub claim: String,
    /// Name of the Node.
    pub node: String,
    /// Creation time of its NodeClaim, as the API server says.
    pub launched: Timestamp,
    /// The resources of which it has less than was foreseen: the amounts that it has.
    pub has: Resources,
    /// Time at which it was heard first.
    pub seen: Timestamp,
    /// Number of times that it has said less since.
    #[serde(default)]
    pub changes: u8,
}

/// A node whose kubelet reports so much less than was foreseen that it is not believed alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoubtedNode {
    /// Name of the Node.
    pub node: String,
    /// The instance type of its NodeClaim.
    pub instance_type: String,
    /// The amounts that it says it has.
    pub has: Resources,
    /// The amounts that plans count for now.
    pub counted: Resources,
}

impl fmt::Display for DoubtedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said: Vec<String> = self
            .has
            .iter()
            .filter(|(name, has)| self.counted.find(name).is_some_and(|counted| counted > *has))
            .map(|(name, has)| {
                let counted = self.counted.get(name);
                format!("{name} {}, and {} is counted", format_amount(name, has), format_amount(name, counted))
            })
            .collect();
        let (node, instance_type) = (&self.node, &self.instance_type);
        if said.is_empty() {
            return write!(
                f,
                "nodes of {instance_type} have far less for pods than was foreseen ({node}: {})",
                self.has
            );
        }
        write!(
            f,
            "node {node} says that it has far less for pods than {instance_type} should have: {}; more is believed when \
             another node, launched apart, says so too",
            said.join(", "),
        )
    }
}

/// The least that one node alone is believed to have: four fifths of the foreseen amount.
fn of_one(foreseen: i64) -> i64 {
    foreseen.saturating_sub(foreseen / 5)
}

/// The amount that a node has, and at least half of the foreseen amount.
pub(super) fn at_least(foreseen: i64, has: i64) -> i64 {
    has.max(foreseen.saturating_sub(foreseen / 2))
}

/// Remembers a node that has far less than was foreseen, unless others have reported as little. Its least amounts count; it is
/// heard `MOST_CHANGES` times at most, as each is written down.
pub(super) fn remember(witnesses: &mut Vec<Witness>, witness: &Witness, foreseen: &Resources, now: Timestamp) {
    witnesses.retain(|one| later(one.seen, REMEMBERED) > now);
    let far: Resources = witness
        .has
        .iter()
        .filter(|(name, has)| *has < of_one(foreseen.get(name)))
        .map(|(name, has)| (name.to_owned(), has))
        .collect();
    let known = far.iter().all(|(name, has)| agreed(witnesses, name).is_some_and(|agreed| agreed <= has));
    match witnesses.iter_mut().find(|one| one.claim == witness.claim) {
        Some(before) if before.changes < MOST_CHANGES => {
            let less = far.iter().filter(|(name, has)| before.has.find(name).is_none_or(|known| known > *has));
            let less: Vec<(String, i64)> = less.map(|(name, has)| (name.to_owned(), has)).collect();
            before.changes += u8::from(!less.is_empty());
            less.into_iter().for_each(|(name, has)| before.has.set(name, has));
        }
        Some(_) => {}
        // None of its amounts is far less than foreseen, or others say as much.
        None if known => {}
        None => witnesses.push(Witness { has: far, ..witness.clone() }),
    }
    let over = witnesses.len().saturating_sub(MOST_WITNESSES);
    witnesses.drain(..over);
}

/// The amounts that are believed of a node, given the word of others of its type.
pub(super) fn believed(witnesses: &[Witness], has: &Resources, foreseen: &Resources) -> Resources {
    let mut believed = Resources::new();
    for (name, has) in has.iter() {
        let foreseen = foreseen.get(name);
        let agreed = agreed(witnesses, name).unwrap_or(i64::MAX);
        let least = at_least(foreseen, agreed.min(of_one(foreseen)));
        believed.set(name.to_owned(), has.max(least));
    }
    believed
}

/// The least that two nodes, launched apart, both say that they have no more than.
fn agreed(witnesses: &[Witness], name: &str) -> Option<i64> {
    let mut said: Vec<(i64, Timestamp)> =
        witnesses.iter().filter_map(|one| Some((one.has.find(name)?, one.launched))).collect();
    said.sort_unstable();
    let apart = |a: Timestamp, b: Timestamp| later(a.min(b), APART) <= a.max(b);
    let second =
        |(at, (_, launched)): (usize, &(i64, Timestamp))| said[..at].iter().any(|(_, other)| apart(*other, *launched));
    said.iter().enumerate().find(|(at, one)| second((*at, one))).map(|(_, (has, _))| *has)
}

/// Witnesses that are not in `before` with the same word, each with the amounts that are counted now.
pub(super) fn news(
    instance_type: &str,
    witnesses: &[Witness],
    before: &[Witness],
    counted: &Resources,
) -> Vec<DoubtedNode> {
    let known = |one: &Witness| before.iter().any(|old| old.claim == one.claim && old.has == one.has);
    let doubted = witnesses.iter().filter(|one| !known(one));
    doubted
        .map(|one| DoubtedNode {
            node: one.node.clone(),
            instance_type: instance_type.to_owned(),
            has: one.has.clone(),
            counted: counted.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn cpu(amount: i64) -> Resources {
        [("cpu".to_owned(), amount)].into_iter().collect()
    }

    fn says(claim: &str, launched: i64, amount: i64) -> Witness {
        let launched = Timestamp::from_second(launched).unwrap();
        Witness { claim: claim.into(), node: claim.into(), launched, has: cpu(amount), seen: launched, changes: 0 }
    }

    fn counted(witnesses: &[Witness], has: i64) -> i64 {
        believed(witnesses, &cpu(has), &cpu(4000)).get("cpu")
    }

    #[test]
    fn fifth_is_believed_of_one_and_more_of_two_launched_apart() {
        assert_eq!(counted(&[says("a", 0, 3500)], 3500), 3500);
        assert_eq!(counted(&[says("a", 0, 100)], 100), 3200, "a fifth");
        assert_eq!(counted(&[says("a", 0, 100), says("b", 59, 100)], 100), 3200, "of one packing");
        assert_eq!(counted(&[says("a", 0, 2500), says("b", 60, 2600)], 2500), 2600, "as far as they agree");
        assert_eq!(counted(&[says("a", 0, 2500), says("b", 60, 3900)], 2500), 3200);
        assert_eq!(counted(&[says("a", 0, 100), says("b", 60, 100)], 100), 2000, "half is the floor");
        assert_eq!(counted(&[says("a", 0, 100), says("b", 1, 100), says("c", 90, 2500)], 100), 2500);
    }

    #[test]
    fn one_node_is_one_witness_however_often_and_whatever_it_says() {
        let mut all = Vec::new();
        for second in 0..100 {
            remember(&mut all, &says("a", 0, second), &cpu(4000), Timestamp::from_second(second).unwrap());
        }
        assert_eq!((all.len(), counted(&all, 99)), (1, 3200));
        for second in 0..100 {
            remember(&mut all, &says("b", 0, 200 - second), &cpu(4000), Timestamp::from_second(second).unwrap());
        }
        assert_eq!(all.iter().find(|one| one.claim == "b").map(|one| one.changes), Some(MOST_CHANGES));
        for second in 100..120 {
            // All of one packing, each saying less than the one before.
            let one = says(&format!("c{second}"), 100, 200 - second);
            remember(&mut all, &one, &cpu(4000), Timestamp::from_second(second).unwrap());
        }
        assert_eq!(all.len(), MOST_WITNESSES);
        remember(&mut all, &says("z", 800_000, 5), &cpu(4000), Timestamp::from_second(800_000).unwrap());
        assert_eq!(all.len(), 1, "after a week it is forgotten");
    }

    #[test]
    fn what_two_have_said_is_not_written_for_each_that_follows() {
        let mut all = vec![says("a", 0, 2500), says("b", 60, 2500)];
        let later = Timestamp::from_second(100).unwrap();
        remember(&mut all, &says("c", 90, 2500), &cpu(4000), later);
        remember(&mut all, &says("d", 95, 3900), &cpu(4000), later);
        assert_eq!(all.len(), 2);
        remember(&mut all, &says("e", 99, 2400), &cpu(4000), later);
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn amounts_of_no_sense_are_no_arithmetic() {
        for foreseen in [0, 1, i64::MAX, i64::MIN, -5] {
            for has in [0, i64::MAX, i64::MIN, -5] {
                let found = believed(&[says("a", 0, has), says("b", 60, has)], &cpu(has), &cpu(foreseen)).get("cpu");
                assert!(found >= has, "{foreseen} {has} {found}");
            }
        }
    }
}
