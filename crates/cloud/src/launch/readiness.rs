//! Readiness of a node class for launches (karpenter-aws 1.3). Pure.

use dovetail_api::names::conditions;
use dovetail_api::v1::{EC2NodeClass, EC2NodeClassStatus};

use super::{LaunchError, LaunchErrorKind};

/// Reason of a launch that waits until its class is resolved.
pub const READINESS_UNKNOWN: &str = "NodeClassReadinessUnknown";

/// The class's status, if it says that it is ready and has seen the class as it is now.
///
/// # Errors
/// Not ready: `Ready` is False. Retryable with [`READINESS_UNKNOWN`]: `Ready` is not known, not there, or speaks of another
/// generation. Whoever makes a NodeClaim together with its class waits for the class.
pub fn ready_status(class: &EC2NodeClass) -> Result<&EC2NodeClassStatus, LaunchError> {
    let unknown = |message: String| {
        let kind = LaunchErrorKind::Retryable;
        Err(LaunchError { kind, reason: READINESS_UNKNOWN, message, refusals: Vec::new() })
    };
    let Some(status) = &class.status else { return unknown("the node class has no status yet".to_owned()) };
    let Some(ready) = status.conditions.iter().find(|c| c.type_ == conditions::READY) else {
        return unknown("the node class is not known to be ready".to_owned());
    };
    let of_another = ready.observed_generation.is_some_and(|g| Some(g) != class.metadata.generation);
    match ready.status.as_str() {
        conditions::TRUE | conditions::FALSE if of_another => {
            unknown("the node class has changed and is being resolved".to_owned())
        }
        conditions::FALSE => {
            Err(LaunchError::node_class_not_ready(format!("the node class is not ready: {}", ready.message)))
        }
        conditions::TRUE => Ok(status),
        _ => unknown(format!("whether the node class is ready is not known: {}", ready.message)),
    }
}
