//! Own spot interruptions by offering (setting `INTERRUPTION_PRICE_HALF_LIFE`, docs/decisions/092): each raises the price by which
//! plans weigh its offering, less with its age, within a bound. What is paid stays the catalogue's price.
//!
//! A claim that EC2 takes back says so itself, and is gone minutes later. So each NodePool keeps a short list of its own as an
//! annotation, and a new leader needs nothing else.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::InstanceType;
use crate::clock::later;
use crate::labels::SPOT;

/// Most interruptions that a NodePool keeps, the latest: about 5 KiB of its annotation.
pub const MOST_KEPT: usize = 64;
/// Number of half-lives after which an interruption is forgotten: a 64th of it is left.
const FORGOTTEN_AFTER: i32 = 6;
/// Part of an offering's price that a fresh interruption adds.
const ADDED: f64 = 0.2;
/// Largest multiple of an offering's price: most spot prices are below half of those on demand.
const MOST_TIMES: f64 = 1.5;
/// Longest time before the end of an instance at which it is announced, with some for clocks that differ.
const AHEAD: SignedDuration = SignedDuration::from_mins(10);
/// Longest text that is read: whoever may write the annotation may write a megabyte.
const LONGEST_TEXT: usize = 32 * 1024;

/// An instance that EC2 has taken back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Interrupted {
    /// End of the instance, as it was announced.
    pub at: Timestamp,
    /// Name of its claim: it counts once.
    pub claim: String,
    pub instance_type: String,
    pub zone: String,
}

/// Interruptions of a NodePool, the latest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interruptions(Vec<Interrupted>);

impl Interruptions {
    /// Reads a NodePool's annotation; text that cannot be read counts as none.
    #[must_use]
    pub fn from_text(text: &str, now: Timestamp) -> Self {
        let read = Some(text).filter(|text| text.len() <= LONGEST_TEXT);
        let mut all: Vec<Interrupted> = read.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        // A later end than one that can be announced was written by somebody else.
        all.iter_mut().for_each(|one| one.at = one.at.min(later(now, AHEAD)));
        let mut own = Self(all);
        own.bound();
        own
    }

    /// Adds an interruption, unless it is known by its claim.
    pub fn add(&mut self, one: Interrupted) {
        if !self.0.iter().any(|known| known.claim == one.claim) {
            self.0.push(one);
            self.bound();
        }
    }

    /// Drops those that weigh nothing any more.
    pub fn forget_old(&mut self, half_life: SignedDuration, now: Timestamp) {
        let longest = half_life.saturating_mul(FORGOTTEN_AFTER);
        self.0.retain(|one| now.duration_since(one.at) <= longest);
    }

    fn bound(&mut self) {
        self.0.sort();
        let beyond = self.0.len().saturating_sub(MOST_KEPT);
        self.0.drain(..beyond);
    }

    /// The annotation; `None` where there is nothing to keep.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        if self.0.is_empty() { None } else { serde_json::to_string(&self.0).ok() }
    }
}

/// Multiples of the price of spot offerings, by instance type and zone. Those that are not named cost what they cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceMultiples(BTreeMap<(String, String), f64>);

impl PriceMultiples {
    /// The multiples by the interruptions of all pools: an offering is the account's, whichever pool's node it was.
    #[must_use]
    pub fn of_all<'a>(
        all: impl IntoIterator<Item = &'a Interruptions>,
        half_life: SignedDuration,
        now: Timestamp,
    ) -> Self {
        let mut sums: BTreeMap<(String, String), f64> = BTreeMap::new();
        let half_life = half_life.as_secs_f64().max(1.0);
        for one in all.into_iter().flat_map(|one| &one.0) {
            let age = now.duration_since(one.at).as_secs_f64().max(0.0);
            let weight = 0.5_f64.powf(age / half_life);
            *sums.entry((one.instance_type.clone(), one.zone.clone())).or_default() += weight;
        }
        let times = |sum: f64| (1.0 + ADDED * sum).min(MOST_TIMES);
        Self(sums.into_iter().map(|(offering, sum)| (offering, times(sum))).collect())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Raises the prices by which plans weigh spot offerings. Types without any of these offerings stay the same objects.
    pub fn apply(&self, types: &mut [Arc<InstanceType>]) {
        for one in types {
            let times = |zone: &str, name: &str| self.0.get(&(name.to_owned(), zone.to_owned())).copied();
            let concerned =
                one.offerings.iter().any(|at| at.capacity_type == SPOT && times(&at.zone, &one.name).is_some());
            if !concerned {
                continue;
            }
            let one = Arc::make_mut(one);
            let name = one.name.clone();
            for offering in one.offerings.iter_mut().filter(|at| at.capacity_type == SPOT) {
                if let Some(times) = times(&offering.zone, &name) {
                    offering.list_price = Some(offering.billed_price());
                    offering.price *= times;
                }
            }
        }
    }
}
