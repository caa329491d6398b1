//! Limits of an account: quotas, addresses, permissions, a role; and refusals by their codes.

use serde::{Deserialize, Serialize};

use super::FaultsInForce;
use super::settings::Ec2Faults;
use crate::globs::offering_matches;

/// An error of EC2 that is answered so many times: to a call, or to what a fleet asks of some offerings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct InjectedError {
    /// The code, `InsufficientInstanceCapacity`.
    pub code: String,
    /// The message; one of the sandbox's own where it is empty.
    pub message: String,
    /// The action that fails as a whole, `CreateFleet`; empty where offerings are refused.
    pub action: String,
    /// Glob of `type/zone/capacityType`: a fleet that asks for such offerings gets none of them.
    pub offerings: String,
    /// Number of calls that fail; `None`: all.
    pub times: Option<u32>,
}

impl InjectedError {
    /// Code and message.
    fn said(&self) -> (String, String) {
        let message = if self.message.is_empty() { "As the scenario has it." } else { &self.message };
        (self.code.clone(), message.to_owned())
    }

    /// True if it still happens; counts each time.
    fn happens(&mut self) -> bool {
        match &mut self.times {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

impl FaultsInForce {
    /// Reads something of EC2's faults.
    pub fn of_ec2<T>(&self, read: impl FnOnce(&Ec2Faults) -> T) -> T {
        read(&self.lock().settings.ec2)
    }

    /// The error that this call ends with, if any: code and message.
    pub fn error_of_call(&self, action: &str) -> Option<(String, String)> {
        let mut state = self.lock();
        let errors = &mut state.settings.ec2.errors;
        errors.iter_mut().find_map(|one| (one.action == action && one.happens()).then(|| one.said()))
    }

    /// The offerings that a fleet which is asked for now does not get, by glob, with code and message.
    pub fn errors_of_fleet(&self) -> Vec<(String, String, String)> {
        let mut state = self.lock();
        let mut found = Vec::new();
        for one in state.settings.ec2.errors.iter_mut().filter(|one| one.action.is_empty()) {
            if one.happens() {
                let (code, message) = one.said();
                found.push((one.offerings.clone(), code, message));
            }
        }
        found
    }
}

/// The first of such errors that concerns an offering.
pub fn error_of_offering<'a>(
    errors: &'a [(String, String, String)],
    instance_type: &str,
    zone: &str,
    capacity_type: &str,
) -> Option<(&'a str, &'a str)> {
    let concerns = |glob: &str| offering_matches(glob, instance_type, zone, capacity_type);
    errors.iter().find(|(glob, ..)| concerns(glob)).map(|(_, code, message)| (code.as_str(), message.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_befalls_as_many_calls_as_it_says_and_those_alone() {
        let faults = FaultsInForce::new(1);
        let of_call = InjectedError {
            code: "Denied".into(),
            action: "CreateFleet".into(),
            times: Some(2),
            ..InjectedError::default()
        };
        let of_offerings = InjectedError {
            code: "VcpuLimitExceeded".into(),
            offerings: "m5.*/*/spot".into(),
            times: Some(1),
            ..InjectedError::default()
        };
        faults.change(|settings| settings.ec2.errors = vec![of_call, of_offerings]);
        assert_eq!(faults.error_of_call("DescribeSubnets"), None);
        let ends = (0..3).filter_map(|_| faults.error_of_call("CreateFleet")).count();
        assert_eq!(ends, 2);
        let first = faults.errors_of_fleet();
        let code = |kind, market| error_of_offering(&first, kind, "us-east-1a", market).map(|(code, _)| code);
        assert_eq!(code("m5.large", "spot"), Some("VcpuLimitExceeded"));
        assert_eq!((code("m5.large", "on-demand"), code("c5.large", "spot")), (None, None));
        assert!(faults.errors_of_fleet().is_empty());
    }
}
