//! The bill: what commitments cover of what runs, and what is left of them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{Commitment, Commitments, Coverage, family_of, size_factor};

/// An instance that is paid for on demand, or in a capacity reservation: what commitments apply to.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    pub instance_type: String,
    pub zone: String,
    /// Its on-demand price in dollars an hour.
    pub price: f64,
    /// True for an operating system that has no price of its own: Reserved Instances are bought for Linux.
    pub linux: bool,
}

impl Ord for Usage {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_name = self.instance_type.cmp(&other.instance_type).then_with(|| self.zone.cmp(&other.zone));
        by_name.then(self.linux.cmp(&other.linux)).then_with(|| self.price.total_cmp(&other.price))
    }
}

impl PartialOrd for Usage {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Usage {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Usage {}

impl Usage {
    /// Dollars an hour; 0 for what is no price.
    pub(super) fn dollars(&self) -> f64 {
        if self.price.is_finite() { self.price.max(0.0) } else { 0.0 }
    }
}

/// Numbers of instances that run, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses(BTreeMap<Usage, u32>);

impl Uses {
    pub fn add(&mut self, usage: Usage, count: u32) {
        if count > 0 {
            let known = self.0.entry(usage).or_default();
            *known = known.saturating_add(count);
        }
    }

    pub fn add_all(&mut self, others: &Self) {
        others.0.iter().for_each(|(usage, count)| self.add(usage.clone(), *count));
    }

    /// Takes one instance off, if there is one.
    pub fn remove_one(&mut self, usage: &Usage) {
        let Some(count) = self.0.get_mut(usage) else { return };
        *count -= 1;
        if *count == 0 {
            self.0.remove(usage);
        }
    }

    /// All but these.
    #[must_use]
    pub fn without<'u>(&self, others: impl IntoIterator<Item = &'u Usage>) -> Self {
        let mut rest = self.clone();
        others.into_iter().for_each(|usage| rest.remove_one(usage));
        rest
    }

    /// The larger number of each kind.
    pub fn raise_to(&mut self, others: &Self) {
        for (usage, count) in &others.0 {
            let known = self.0.entry(usage.clone()).or_default();
            *known = (*known).max(*count);
        }
    }

    /// The part of each kind that is beyond others.
    #[must_use]
    pub fn beyond(&self, others: &Self) -> Self {
        let mut beyond = Self::default();
        for (usage, count) in &self.0 {
            beyond.add(usage.clone(), count.saturating_sub(others.0.get(usage).copied().unwrap_or_default()));
        }
        beyond
    }

    /// The same at these prices by instance type; at none where one is not known, so that Savings Plans do not apply.
    #[must_use]
    pub fn priced(self, price: impl Fn(&str) -> Option<f64>) -> Self {
        let mut priced = Self::default();
        for (usage, count) in self.0 {
            let price = price(&usage.instance_type).unwrap_or_default();
            priced.add(Usage { price, ..usage }, count);
        }
        priced
    }

    /// Number of instances.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Usage> for Uses {
    fn from_iter<T: IntoIterator<Item = Usage>>(all: T) -> Self {
        let mut uses = Self::default();
        all.into_iter().for_each(|usage| uses.add(usage, 1));
        uses
    }
}

/// Commitments as they apply to uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    /// Number of instances of each kind that are covered, in the order of the kinds.
    pub covered: Vec<f64>,
    /// The amount of each commitment that is left, in its own measure and their order.
    pub left: Vec<f64>,
}

/// A commitment of which something is unused.
#[derive(Clone, Debug, PartialEq)]
pub struct UnusedCommitment {
    pub id: String,
    /// Dollars an hour that are paid for nothing.
    pub dollars: f64,
}

/// Amounts that are no more than this apart are one.
const EXACT: f64 = 1e-9;

impl Commitment {
    /// Everything that it covers, in its own measure.
    pub(super) fn amount(&self) -> f64 {
        match self.covers {
            Coverage::Zonal { count, .. } | Coverage::Regional { count, .. } => count,
            Coverage::Units { units, .. } => units,
            Coverage::Dollars { dollars, .. } => dollars,
        }
    }

    /// The amount that one whole use takes of it; `None` where it does not apply.
    pub(super) fn taken_by(&self, one: &Usage) -> Option<f64> {
        let is_of = |family: &String| family_of(&one.instance_type) == family;
        let taken = match &self.covers {
            Coverage::Zonal { instance_type, zone, .. } => {
                let applies = one.linux && *instance_type == one.instance_type && *zone == one.zone;
                applies.then_some(1.0)
            }
            Coverage::Regional { instance_type, .. } => {
                (one.linux && *instance_type == one.instance_type).then_some(1.0)
            }
            Coverage::Units { family, .. } => size_factor(&one.instance_type).filter(|_| one.linux && is_of(family)),
            Coverage::Dollars { family, discounts, .. } => {
                let applies = family.as_ref().is_none_or(is_of);
                applies.then(|| one.dollars() * (1.0 - discounts.discount_of(one)))
            }
        };
        taken.filter(|taken| *taken > 0.0)
    }

    /// Rank of a use: those with the lower one are covered first. Reserved Instances begin with the smaller sizes, Savings Plans
    /// with the highest discount and then with the lowest rate.
    fn rank(&self, one: &Usage) -> (f64, f64) {
        match &self.covers {
            Coverage::Dollars { discounts, .. } => {
                let discount = discounts.discount_of(one);
                (-discount, one.dollars() * (1.0 - discount))
            }
            _ => (size_factor(&one.instance_type).unwrap_or(f64::MAX), 0.0),
        }
    }
}

impl Commitments {
    /// Applies them to uses, each in its turn.
    #[must_use]
    pub fn allocate(&self, uses: &Uses) -> Allocation {
        let kinds: Vec<(&Usage, f64)> = uses.0.iter().map(|(usage, count)| (usage, f64::from(*count))).collect();
        let mut covered = vec![0.0; kinds.len()];
        let mut left = Vec::with_capacity(self.all.len());
        for commitment in &self.all {
            let mut rest = commitment.amount();
            let applies = |at: usize| Some((at, commitment.taken_by(kinds[at].0)?, commitment.rank(kinds[at].0)));
            let mut order: Vec<_> = (0..kinds.len()).filter_map(applies).collect();
            order.sort_by(|(_, _, a), (_, _, b)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            for (at, whole, _) in order {
                let open = kinds[at].1 - covered[at];
                if rest > EXACT && open > EXACT {
                    let taken = rest.min(whole * open);
                    covered[at] += taken / whole;
                    rest -= taken;
                }
            }
            left.push(if rest > EXACT { rest } else { 0.0 });
        }
        for (part, (_, count)) in covered.iter_mut().zip(&kinds) {
            *part = part.clamp(0.0, *count);
        }
        Allocation { covered, left }
    }

    /// Dollars an hour for these uses beside what the commitments cost in any case.
    #[must_use]
    pub fn bill(&self, uses: &Uses) -> f64 {
        let covered = self.allocate(uses).covered;
        let each = uses.0.iter().zip(covered);
        each.map(|((usage, count), covered)| usage.dollars() * (f64::from(*count) - covered)).fold(0.0, |a, b| a + b)
    }

    /// Dollars an hour by which the bill falls if one of these uses ends.
    #[must_use]
    pub fn drop_without(&self, uses: &Uses, one: &Usage) -> f64 {
        (self.bill(uses) - self.bill(&uses.without([one]))).max(0.0)
    }

    /// Dollars an hour that two users of the same commitments pay beyond what each of them would pay alone.
    #[must_use]
    pub fn contention(&self, own: &Uses, others: &Uses) -> f64 {
        if own.is_empty() || others.is_empty() {
            return 0.0;
        }
        let mut all = own.clone();
        all.add_all(others);
        (self.bill(&all) - self.bill(own) - self.bill(others)).max(0.0)
    }

    /// Dollars an hour that they cost in any case.
    #[must_use]
    pub fn cost(&self) -> f64 {
        self.all.iter().map(|one| one.cost).fold(0.0, |a, b| a + b)
    }

    /// Those of which something is unused.
    #[must_use]
    pub fn unused(&self, uses: &Uses) -> Vec<UnusedCommitment> {
        let left = self.allocate(uses).left;
        let part = |(one, left): (&Commitment, f64)| {
            let dollars = if one.amount() > 0.0 { one.cost * (left / one.amount()).clamp(0.0, 1.0) } else { 0.0 };
            (left > 0.0).then(|| UnusedCommitment { id: one.id.clone(), dollars })
        };
        self.all.iter().zip(left).filter_map(part).collect()
    }
}
