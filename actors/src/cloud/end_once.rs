//! The end of instances, asked for at once and not repeated: what an end rests on does not stand for long (docs/decisions/028).

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_cloud::{CloudError, CloudInstances, Instance};

use crate::kube::calls::Calls;

/// Instances that are made sure of together, and ended in one call.
pub const TOGETHER: usize = 32;
/// Longest wait for the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Ends instances. Answers what failed, by id; `None` when the term is over or the clock too wrong, and nothing was asked.
pub async fn end_once(
    cloud: &dyn CloudInstances,
    calls: &Calls,
    ending: &[Instance],
) -> Option<BTreeMap<String, CloudError>> {
    // With a clock that nobody can reckon by nothing is ended: `None` is asked again later.
    if !calls.may_decide() {
        return None;
    }
    if ending.is_empty() {
        return Some(BTreeMap::new());
    }
    let all = |error: CloudError| ending.iter().map(|one| (one.id.clone(), error.clone())).collect();
    Some(match tokio::time::timeout(ANSWER_TIMEOUT, cloud.terminate_all(ending)).await {
        Ok(Ok(failed)) => failed,
        Ok(Err(error)) => all(error),
        Err(_) => {
            let message = format!("no answer within {ANSWER_TIMEOUT:?}");
            all(CloudError::MayHaveHappened { call: "TerminateInstances", code: "TimedOut".into(), message })
        }
    })
}
