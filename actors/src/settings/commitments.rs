//! `COMMITMENTS`, `COMMITMENTS_SHARE`: Savings Plans and Reserved Instances that are paid for, declared or asked of the account.

use std::sync::Arc;

use dovetail_core::commitments::{Commitments, WrittenCommitment};
use serde::Serialize;
use serde_json::Value;

use super::parse::ValueRefusal;

const ALLOWED: &str = "YAML or JSON, a list: {id, type: computeSavingsPlan|ec2InstanceSavingsPlan|reservedInstances, \
                       dollarsPerHour, discount, discounts, rates, family, instanceType, zone, count, price, share, begins, ends}";
/// The word for what AWS says of the account, alone or in the list.
const ACCOUNT: &str = "account";

/// Commitments as they are declared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommitmentSettings {
    /// `COMMITMENTS`.
    pub written: Vec<WrittenCommitment>,
    /// True if it has `account`: those that AWS says of the account count as well.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub account: bool,
    /// `COMMITMENTS_SHARE`: the part of each that is this cluster's.
    pub share: f64,
}

impl Default for CommitmentSettings {
    fn default() -> Self {
        Self { written: Vec::new(), account: false, share: 1.0 }
    }
}

impl CommitmentSettings {
    /// Takes `COMMITMENTS`: a list, `account`, or a list that has `account`.
    ///
    /// # Errors
    /// The text is neither, or a commitment makes no sense.
    pub fn read_setting(&mut self, text: &str) -> Result<(), ValueRefusal> {
        if text.trim() == ACCOUNT {
            (self.account, self.written) = (true, vec![]);
            return Ok(());
        }
        let entries = serde_saphyr::from_str::<Vec<Value>>(text).unwrap_or_default();
        let is_account = |entry: &Value| entry.as_str() == Some(ACCOUNT);
        self.account = entries.iter().any(is_account);
        self.written = if self.account {
            let others: Vec<Value> = entries.into_iter().filter(|entry| !is_account(entry)).collect();
            read_commitments(&Value::from(others).to_string())?
        } else {
            read_commitments(text)?
        };
        Ok(())
    }

    /// True if instances of others count: the account is asked, and all of what it has is this cluster's to use.
    pub fn counts_others(&self) -> bool {
        self.account && self.share >= 1.0
    }

    /// The declared commitments, checked when they were read.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> Result<(bool, Vec<String>), String> {
        let mut settings = CommitmentSettings::default();
        settings.read_setting(text).map_err(|(what, _)| what)?;
        Ok((settings.account, settings.written.into_iter().map(|one| one.id).collect()))
    }

    #[test]
    fn account_stands_alone_or_in_the_list() {
        let one = "{id: a, type: computeSavingsPlan, dollarsPerHour: 1}";
        let declared = vec!["a".to_owned()];
        assert_eq!(read(""), Ok((false, vec![])));
        assert_eq!(read(" account\n"), Ok((true, vec![])));
        assert_eq!(read(&format!("[{one}]")), Ok((false, declared.clone())));
        assert_eq!(read(&format!("[account, {one}]")), Ok((true, declared.clone())));
        assert_eq!(read(&format!("- account\n- {one}\n")), Ok((true, declared)));
        for wrong in ["accounts", "[acount]", "{account: true}", "[account, {id: a}]", "[account, b]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mistakes_are_named_beside_account() {
        let text = "[account, {id: a, type: computeSavingsPlan, dollarsPerHour: -1}]";
        assert!(read(text).unwrap_err().contains("dollarsPerHour"));
    }

    #[test]
    fn settings_without_account_are_written_as_before() {
        let text = serde_json::to_string(&CommitmentSettings::default()).unwrap();
        assert_eq!(text, r#"{"written":[],"share":1.0}"#);
    }
}
