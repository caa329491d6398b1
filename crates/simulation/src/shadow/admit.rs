//! Copies keep what the API server of the cluster has given their originals: uid and time of creation. Whoever holds them by it
//! (owners, ages, launch tokens) finds them the same.

use dovetail_sandbox::apiserver::Result;
use dovetail_sandbox::apiserver::admission::{Admission, Review};
use serde_json::Value;

/// The original's uid, on its way into the copy.
pub const UID: &str = "shadow.dovetail.dev/uid";
/// Annotation for the original's creation time, on its way into the copy.
pub const CREATED: &str = "shadow.dovetail.dev/created";

/// Puts uid and time of creation where they belong.
#[derive(Debug)]
pub struct KeepsIdentity;

impl Admission for KeepsIdentity {
    fn admit(&self, review: &Review<'_>, object: &mut Value) -> Result<()> {
        if review.old.is_some() {
            return Ok(());
        }
        for (annotation, field) in [(UID, "uid"), (CREATED, "creationTimestamp")] {
            let all = object["metadata"]["annotations"].as_object_mut();
            if let Some(given) = all.and_then(|all| all.remove(annotation)) {
                object["metadata"][field] = given;
            }
        }
        Ok(())
    }
}
