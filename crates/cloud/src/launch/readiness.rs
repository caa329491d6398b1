//! Whether a node class may be launched from (karpenter-aws 1.3). Pure.

use dovetail_api::names::conditions;
use dovetail_api::v1::{EC2NodeClass, EC2NodeClassStatus};

use super::{LaunchError, LaunchErrorKind};

/// The class's status, if it says that it is ready and has seen the class as it is now.
///
/// # Errors
/// Not ready: there is no status, `Ready` is False, or speaks of another generation. Retryable with
/// `NodeClassReadinessUnknown`: `Ready` is not known.
pub fn ready_status(class: &EC2NodeClass) -> Result<&EC2NodeClassStatus, LaunchError> {
    let not_ready = |why: &str| Err(LaunchError::node_class_not_ready(why));
    let Some(status) = &class.status else { return not_ready("the node class has no status yet") };
    let Some(ready) = status.conditions.iter().find(|c| c.type_ == conditions::READY) else {
        return not_ready("the node class is not known to be ready");
    };
    match ready.status.as_str() {
        conditions::FALSE => not_ready(&format!("the node class is not ready: {}", ready.message)),
        conditions::TRUE if ready.observed_generation.is_some_and(|g| Some(g) != class.metadata.generation) => {
            not_ready("the node class has changed and is being resolved")
        }
        conditions::TRUE => Ok(status),
        _ => Err(LaunchError {
            kind: LaunchErrorKind::Retryable,
            reason: "NodeClassReadinessUnknown",
            message: format!("whether the node class is ready is not known: {}", ready.message),
            refusals: Vec::new(),
        }),
    }
}
