//! `COMMITMENTS`, `COMMITMENTS_SHARE`: Savings Plans and Reserved Instances that are paid for.

use std::sync::Arc;

use dovetail_core::commitments::{Commitments, WrittenCommitment};
use serde::Serialize;

use super::parse::ValueRefusal;

const ALLOWED: &str = "YAML or JSON, a list: {id, type: computeSavingsPlan|ec2InstanceSavingsPlan|reservedInstances, \
                       dollarsPerHour, discount, discounts, family, instanceType, zone, count, price, share, begins, ends}";

/// Commitments as they are declared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommitmentSettings {
    /// `COMMITMENTS`.
    pub written: Vec<WrittenCommitment>,
    /// `COMMITMENTS_SHARE`: the part of each that is this cluster's.
    pub share: f64,
}

impl Default for CommitmentSettings {
    fn default() -> Self {
        Self { written: Vec::new(), share: 1.0 }
    }
}

impl CommitmentSettings {
    /// The commitments, checked when they were read.
    pub fn declared(&self) -> Arc<Commitments> {
        Arc::new(Commitments::from_written(&self.written, self.share).unwrap_or_default())
    }
}

/// Reads declared commitments; none for an empty text.
///
/// # Errors
/// The text is no such list, or a commitment makes no sense.
pub fn read_commitments(text: &str) -> Result<Vec<WrittenCommitment>, ValueRefusal> {
    if text.trim().is_empty() {
        return Ok(vec![]);
    }
    let refuse = |what: String| (what, ALLOWED.to_owned());
    let written: Vec<WrittenCommitment> = serde_saphyr::from_str(text).map_err(|error| {
        let message = error.to_string();
        refuse(message.lines().next().unwrap_or("it cannot be read").to_owned())
    })?;
    match Commitments::from_written(&written, 1.0) {
        Ok(_) => Ok(written),
        Err(mistakes) => Err(refuse(mistakes.join("; "))),
    }
}
