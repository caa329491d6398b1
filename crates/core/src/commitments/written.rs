//! Commitments as a person or the account writes them, checked before they are believed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Commitment, Commitments, Coverage, Discounts, MOST, MOST_DISCOUNT, family_of, size_factor};

/// Most instances of a Reserved Instance.
const MOST_INSTANCES: u32 = 100_000;
/// Most dollars an hour of a Savings Plan.
const MOST_DOLLARS: f64 = 1e6;
/// Most rates of a Savings Plan.
const MOST_RATES: usize = 5_000;
/// Discounts where none is written: those of a year without upfront payment, rounded down.
const DISCOUNT_OF_COMPUTE: f64 = 0.25;
const DISCOUNT_OF_FAMILY: f64 = 0.35;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CommitmentKind {
    ComputeSavingsPlan,
    /// A Savings Plan for one family of instance types in the region.
    Ec2InstanceSavingsPlan,
    /// Zonal if a zone is given, otherwise regional.
    ReservedInstances,
}

/// One entry of a commitments file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenCommitment {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: CommitmentKind,
    /// Hourly commitment of a Savings Plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dollars_per_hour: Option<f64>,
    /// Part by which it is below the on-demand price, 0 to 0.9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discount: Option<f64>,
    /// The same by family, where the rates of a compute Savings Plan differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub discounts: BTreeMap<String, f64>,
    /// Rates of a Savings Plan for Linux in dollars an hour, by instance type.
    #[serde(default, skip_serializing_if = "is_without")]
    pub rates: Arc<BTreeMap<String, f64>>,
    /// Family of an EC2 Instance Savings Plan: `m5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Instance type of Reserved Instances: `m5.large`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Number of Reserved Instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Dollars an hour that one Reserved Instance costs in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// Part of it that is this cluster's, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Timestamp>,
}

fn is_without(rates: &BTreeMap<String, f64>) -> bool {
    rates.is_empty()
}

impl Commitments {
    /// Checks commitments; `share` is the part of each that is this cluster's where it does not say itself.
    ///
    /// # Errors
    /// Every mistake, in words.
    pub fn from_written(written: &[WrittenCommitment], share: f64) -> Result<Self, Vec<String>> {
        let mut mistakes = Vec::new();
        if written.len() > MOST {
            mistakes.push(format!("there are {} commitments, {MOST} at most", written.len()));
        }
        let (mut ids, mut all) = (BTreeSet::new(), Vec::new());
        for one in written.iter().take(MOST) {
            if one.id.is_empty() || !ids.insert(&one.id) {
                mistakes.push(format!("{:?}: each needs an id of its own", one.id));
            }
            match one.read_checked(share) {
                Ok(commitment) => all.push(commitment),
                Err(what) => mistakes.push(format!("{:?}: {what}", one.id)),
            }
        }
        if mistakes.is_empty() { Ok(Self::new(all)) } else { Err(mistakes) }
    }
}

impl WrittenCommitment {
    /// The commitment; `share` is the part of it that is this cluster's where it does not say itself.
    ///
    /// # Errors
    /// The first mistake, in words.
    pub(super) fn read_checked(&self, share: f64) -> Result<Commitment, String> {
        let share = within("share", self.share.unwrap_or(share), 0.0, 1.0)?;
        let (covers, cost) = match self.kind {
            CommitmentKind::ReservedInstances => self.read_instances(share)?,
            CommitmentKind::ComputeSavingsPlan => self.read_plan(None, DISCOUNT_OF_COMPUTE, share)?,
            CommitmentKind::Ec2InstanceSavingsPlan => {
                let family = self.family.as_ref().filter(|family| !family.is_empty() && !family.contains('.'));
                let family = family.ok_or("family has to be one such as m5")?;
                self.read_plan(Some(family.clone()), DISCOUNT_OF_FAMILY, share)?
            }
        };
        let (begins, ends) = (self.begins, self.ends);
        if begins.zip(ends).is_some_and(|(begin, end)| begin >= end) {
            return Err("ends has to be after begins".to_owned());
        }
        Ok(Commitment { id: self.id.clone(), covers, cost, begins, ends, offered: true })
    }

    fn read_plan(&self, family: Option<String>, usual: f64, share: f64) -> Result<(Coverage, f64), String> {
        self.lacks(&[("instanceType", self.instance_type.is_some()), ("zone", self.zone.is_some())])?;
        self.lacks(&[("count", self.count.is_some()), ("price", self.price.is_some())])?;
        self.lacks(&[("family", family.is_none() && self.family.is_some())])?;
        let dollars = self.dollars_per_hour.ok_or("dollarsPerHour is missing")?;
        let dollars = within("dollarsPerHour", dollars, 0.0, MOST_DOLLARS)? * share;
        let usual = within("discount", self.discount.unwrap_or(usual), 0.0, MOST_DISCOUNT)?;
        self.lacks(&[("discounts", family.is_some() && !self.discounts.is_empty())])?;
        for (of, discount) in &self.discounts {
            within(&format!("discounts.{of}"), *discount, 0.0, MOST_DISCOUNT)?;
        }
        if self.rates.len() > MOST_RATES {
            return Err(format!("there are {} rates, {MOST_RATES} at most", self.rates.len()));
        }
        for (of, rate) in self.rates.iter() {
            within(&format!("rates.{of}"), *rate, 0.0, MOST_DOLLARS)?;
        }
        let discounts = Discounts { usual, by_family: self.discounts.clone(), rates: self.rates.clone() };
        Ok((Coverage::Dollars { family, dollars, discounts }, dollars))
    }

    fn read_instances(&self, share: f64) -> Result<(Coverage, f64), String> {
        self.lacks(&[("dollarsPerHour", self.dollars_per_hour.is_some()), ("family", self.family.is_some())])?;
        self.lacks(&[("discount", self.discount.is_some()), ("discounts", !self.discounts.is_empty())])?;
        self.lacks(&[("rates", !self.rates.is_empty())])?;
        let named = self
            .instance_type
            .as_ref()
            .filter(|name| name.split_once('.').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty()));
        let instance_type = named.ok_or("instanceType has to be one such as m5.large")?.clone();
        let count = self.count.filter(|count| (1..=MOST_INSTANCES).contains(count));
        let count = f64::from(count.ok_or(format!("count has to be 1 to {MOST_INSTANCES}"))?) * share;
        let cost = within("price", self.price.unwrap_or(0.0), 0.0, MOST_DOLLARS)? * count;
        let covers = match (&self.zone, size_factor(&instance_type)) {
            (Some(zone), _) if zone.is_empty() => return Err("zone is empty".to_owned()),
            // A part of an instance covers nothing in a zone.
            (Some(zone), _) => Coverage::Zonal { instance_type, zone: zone.clone(), count: count.floor() },
            (None, Some(factor)) => {
                Coverage::Units { family: family_of(&instance_type).to_owned(), units: count * factor }
            }
            (None, None) => Coverage::Regional { instance_type, count: count.floor() },
        };
        Ok((covers, cost))
    }

    /// # Errors
    /// The first of these fields that is given, as it says nothing for this kind.
    fn lacks(&self, fields: &[(&str, bool)]) -> Result<(), String> {
        match fields.iter().find(|(_, given)| *given) {
            Some((field, _)) => Err(format!("{field} says nothing of this type")),
            None => Ok(()),
        }
    }
}

fn within(field: &str, value: f64, least: f64, most: f64) -> Result<f64, String> {
    if value.is_finite() && value >= least && value <= most {
        return Ok(value);
    }
    Err(format!("{field} is {value}, and has to be {least} to {most}"))
}
