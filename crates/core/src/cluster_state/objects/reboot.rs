//! A reboot for repair as it stands on a claim and on its Node.

use dovetail_api::names::annotations::{REBOOT_GRACE, REBOOT_ISSUED, REBOOT_PRE_BOOT_ID};
use dovetail_api::names::conditions;
use dovetail_api::v1::{condition, parse_go_duration};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::clock::signed;

/// Time after a reboot of our own in which failed checks are those of the reboot: EC2 makes them once a minute.
const AFTER_REBOOT: SignedDuration = SignedDuration::from_mins(5);

/// State of a claim's reboot by its condition Rebooting, with the time of its last change between True and False.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebootState {
    /// Its node is drained.
    Requested(Timestamp),
    /// EC2 has been asked.
    Issued(Timestamp),
    /// It has come back.
    Succeeded(Timestamp),
    /// It has not come back in time.
    Failed(Timestamp),
}

impl RebootState {
    /// Reads it off a claim's conditions.
    #[must_use]
    pub fn from_conditions(conditions: &[Condition]) -> Option<Self> {
        let own = condition(conditions, conditions::REBOOTING)?;
        let at = own.last_transition_time.0;
        match (own.status.as_str(), own.reason.as_str()) {
            (conditions::TRUE, conditions::REBOOT_ISSUED) => Some(Self::Issued(at)),
            (conditions::TRUE, _) => Some(Self::Requested(at)),
            (conditions::FALSE, conditions::REBOOT_FAILED) => Some(Self::Failed(at)),
            (conditions::FALSE, _) => Some(Self::Succeeded(at)),
            _ => None,
        }
    }

    /// True until it has come to an end.
    #[must_use]
    pub fn is_running(self) -> bool {
        matches!(self, Self::Requested(_) | Self::Issued(_))
    }

    /// True while EC2's status checks fail for the reboot, which has a bound of its own, and say nothing of the instance.
    #[must_use]
    pub fn fails_checks(self, now: Timestamp) -> bool {
        match self {
            Self::Issued(_) => true,
            Self::Succeeded(at) => now.duration_since(at) < AFTER_REBOOT,
            Self::Requested(_) | Self::Failed(_) => false,
        }
    }

    /// Time of its last change between True and False.
    #[must_use]
    pub fn since(self) -> Timestamp {
        match self {
            Self::Requested(at) | Self::Issued(at) | Self::Succeeded(at) | Self::Failed(at) => at,
        }
    }

    /// Time of a reboot that has brought the node back.
    #[must_use]
    pub fn succeeded(self) -> Option<Timestamp> {
        match self {
            Self::Succeeded(at) => Some(at),
            _ => None,
        }
    }
}

/// A reboot as it stands on a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebootNote {
    /// `status.nodeInfo.bootID` before it.
    pub pre_boot_id: String,
    /// Bound of the drain; zero forces it.
    pub grace: Option<SignedDuration>,
    /// Time from which EC2 is asked, once the node is drained.
    pub issued: Option<Timestamp>,
}

impl RebootNote {
    /// Reads it off a Node's annotations.
    #[must_use]
    pub fn from_node(node: &Node) -> Option<Self> {
        let own = node.metadata.annotations.as_ref()?;
        let pre_boot_id = own.get(REBOOT_PRE_BOOT_ID)?.clone();
        let grace = own.get(REBOOT_GRACE).and_then(|text| parse_go_duration(text).ok()).map(signed);
        let issued = own.get(REBOOT_ISSUED).and_then(|text| text.parse().ok());
        Some(Self { pre_boot_id, grace, issued })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn checks_that_fail_in_a_reboot_are_those_of_the_reboot() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let ago = |minutes| now - SignedDuration::from_mins(minutes);
        for (reboot, fails) in [
            (RebootState::Requested(ago(1)), false),
            (RebootState::Issued(ago(19)), true),
            (RebootState::Succeeded(ago(4)), true),
            (RebootState::Succeeded(ago(5)), false),
            (RebootState::Failed(ago(1)), false),
        ] {
            assert_eq!(reboot.fails_checks(now), fails, "{reboot:?}");
        }
    }
}
