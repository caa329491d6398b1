//! Whether a node class may be launched from (karpenter-aws 1.3). Pure.

use dovetail_api::names::conditions;
use dovetail_api::v1::{EC2NodeClass, EC2NodeClassStatus};

use super::{LaunchError, LaunchErrorKind};

/// The class's status, if it says that it is ready and has seen the class as it is now.
///
/// # Errors
/// Not ready: `Ready` is False, or speaks of another generation. Retryable with `NodeClassReadinessUnknown`: `Ready` is not
/// known, or nothing has been said of the class yet, as in the moment in which it is made.
pub fn ready_status(class: &EC2NodeClass) -> Result<&EC2NodeClassStatus, LaunchError> {
    let not_ready = |why: &str| Err(LaunchError::node_class_not_ready(why));
    let unknown = |why: String| {
        let (kind, reason) = (LaunchErrorKind::Retryable, "NodeClassReadinessUnknown");
        Err(LaunchError { kind, reason, message: why, refusals: Vec::new() })
    };
    let Some(status) = &class.status else { return unknown("the node class has no status yet".to_owned()) };
    let Some(ready) = status.conditions.iter().find(|c| c.type_ == conditions::READY) else {
        return unknown("the node class is not known to be ready".to_owned());
    };
    match ready.status.as_str() {
        conditions::FALSE => not_ready(&format!("the node class is not ready: {}", ready.message)),
        conditions::TRUE if ready.observed_generation.is_some_and(|g| Some(g) != class.metadata.generation) => {
            not_ready("the node class has changed and is being resolved")
        }
        conditions::TRUE => Ok(status),
        _ => unknown(format!("whether the node class is ready is not known: {}", ready.message)),
    }
}
