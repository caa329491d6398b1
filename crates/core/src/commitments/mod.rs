//! Commitments: Savings Plans and Reserved Instances of the account. They are paid for in any case, so a node costs what the bill
//! rises by with it, and saves what the bill falls by without it.
//!
//! ```text
//! written (a file), account ──► Commitments ──► bill of what runs ──► left of each
//! instances of others ────────────┘                │                     │
//!             consolidation: prices of sets   ◄──┘                     └──► packing: more offerings, as many instances as are left
//! ```
//!
//! Invariants: COM-1 what covers a use is at most its price; COM-2 no commitment covers more than it has; COM-3 of two plans the
//! one with the lower bill is taken; COM-4 one use more never lowers the bill; COM-5 without commitments a problem, and all that
//! consolidation does, is left as it is; COM-6 nothing is offered of what others of the account have used lately.

mod account;
mod bill;
mod offers;
mod others;
#[cfg(test)]
mod tests;
mod written;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

pub use crate::instance_type::is_marked;
pub use account::{AccountAnswer, AccountList, Learned};
pub use bill::{Allocation, UnusedCommitment, Usage, Uses};
pub use offers::{ChosenPlan, PlanBill, as_bought, choose, offer, offered, plan_bill, takes_any, without};
pub(crate) use offers::{is_linux, usage_of_claim};
pub use others::{OtherUses, OthersSeen};
pub use written::{CommitmentKind, WrittenCommitment};

/// Most commitments that count.
const MOST: usize = 500;
/// Largest discount that is believed.
const MOST_DISCOUNT: f64 = 0.9;
/// Minimum time that a commitment has left for something to be moved or launched for it.
const OFFERED_FOR: SignedDuration = SignedDuration::from_hours(1);

/// One commitment, as far as it is this cluster's.
#[derive(Clone, Debug, PartialEq)]
pub struct Commitment {
    pub id: String,
    pub covers: Coverage,
    /// Dollars an hour that are paid for it in any case, this cluster's share.
    pub cost: f64,
    /// Time from which it counts; `None` where it has begun long since.
    pub begins: Option<Timestamp>,
    /// Time at which it ends; `None` where that is not known.
    pub ends: Option<Timestamp>,
    /// False if it ends too soon for anything to be moved or launched for it.
    pub offered: bool,
}

/// The uses that a commitment covers, and how much of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Coverage {
    /// Instances of a type in a zone: zonal Reserved Instances.
    Zonal { instance_type: String, zone: String, count: f64 },
    /// Instances of a type in any zone: regional Reserved Instances of a type whose size is fixed.
    Regional { instance_type: String, count: f64 },
    /// Units of a family in any zone and size, by normalisation factors: regional Reserved Instances.
    Units { family: String, units: f64 },
    /// Dollars an hour at the plan's own rates, for one family or for any: Savings Plans.
    Dollars { family: Option<String>, dollars: f64, discounts: Discounts },
}

/// Parts by which the rates of a Savings Plan are below the on-demand prices, 0 to 0.9.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Discounts {
    pub usual: f64,
    pub by_family: BTreeMap<String, f64>,
    /// Rates for Linux in dollars an hour, by instance type: they go before the discounts.
    pub rates: Arc<BTreeMap<String, f64>>,
}

impl Discounts {
    fn discount_of(&self, one: &Usage) -> f64 {
        let rate = self.rates.get(&one.instance_type).filter(|_| one.linux && one.dollars() > 0.0);
        if let Some(rate) = rate {
            return (1.0 - rate / one.dollars()).clamp(0.0, MOST_DISCOUNT);
        }
        self.by_family.get(family_of(&one.instance_type)).copied().unwrap_or(self.usual)
    }
}

/// All commitments that count, and the instances of others that take of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Commitments {
    all: Vec<Commitment>,
    others: Arc<OtherUses>,
}

impl Commitments {
    /// Sorted in the order in which AWS applies them: zonal and regional Reserved Instances, then the Savings Plans of a family,
    /// then those of any.
    #[must_use]
    pub fn new(mut all: Vec<Commitment>) -> Self {
        let turn = |one: &Commitment| match &one.covers {
            Coverage::Zonal { .. } => 0,
            Coverage::Regional { .. } | Coverage::Units { .. } => 1,
            Coverage::Dollars { family: Some(_), .. } => 2,
            Coverage::Dollars { family: None, .. } => 3,
        };
        all.sort_by(|a, b| (turn(a), &a.id).cmp(&(turn(b), &b.id)));
        Self { all, others: Arc::default() }
    }

    /// The same, of which others of the account take as well.
    #[must_use]
    pub fn beside(self, others: OtherUses) -> Self {
        Self { others: Arc::new(others), ..self }
    }

    /// Instances of others that take of them.
    #[must_use]
    pub fn others(&self) -> &OtherUses {
        &self.others
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Commitment> {
        self.all.iter()
    }

    /// Those that ended after one time, and at another at the latest.
    pub fn ended_between(&self, after: Timestamp, until: Timestamp) -> impl Iterator<Item = &Commitment> {
        self.all.iter().filter(move |one| one.ends.is_some_and(|end| after < end && end <= until))
    }

    /// Holds back what is left: nothing is moved or launched for it.
    pub fn offer_nothing(&mut self) {
        self.all.iter_mut().for_each(|one| one.offered = false);
    }

    /// Those that count at that time. One that ends within the hour covers what it covers, and nothing is moved for it any more.
    #[must_use]
    pub fn in_force(&self, now: Timestamp) -> Self {
        let counts =
            |one: &&Commitment| one.begins.is_none_or(|begin| begin <= now) && one.ends.is_none_or(|end| end > now);
        let as_of_now = |one: &Commitment| {
            let lasts = one.ends.is_none_or(|end| end.duration_since(now) > OFFERED_FOR);
            Commitment { offered: lasts, ..one.clone() }
        };
        Self { all: self.all.iter().filter(counts).map(as_of_now).collect(), others: self.others.clone() }
    }
}

/// Family of an instance type: `m5` of `m5.large`.
#[must_use]
pub fn family_of(instance_type: &str) -> &str {
    instance_type.split_once('.').map_or(instance_type, |(family, _)| family)
}

/// Families whose Reserved Instances cover one size only.
const FIXED_SIZES: [&str; 14] =
    ["g4ad", "g4dn", "g5", "g5g", "g6", "g6e", "gr6", "hpc7a", "inf1", "inf2", "p5", "p5e", "p5en", "trn1"];

/// Normalisation factor of an instance type's size; `None` where Reserved Instances of it cover no other size.
#[must_use]
pub fn size_factor(instance_type: &str) -> Option<f64> {
    let (family, size) = instance_type.split_once('.')?;
    if FIXED_SIZES.contains(&family) || family.starts_with("u-") || family.starts_with("u7") {
        return None;
    }
    match size {
        "nano" => Some(0.25),
        "micro" => Some(0.5),
        "small" => Some(1.0),
        "medium" => Some(2.0),
        "large" => Some(4.0),
        "xlarge" => Some(8.0),
        other => {
            let times = other.strip_suffix("xlarge").or_else(|| other.strip_prefix("metal-")?.strip_suffix("xl"))?;
            let count = times.parse::<u32>().ok().filter(|count| (2..=512).contains(count))?;
            Some(8.0 * f64::from(count))
        }
    }
}
