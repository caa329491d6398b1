//! The API server's own guard against leaders that have been succeeded (deploy/helm/dovetail/files/fence.yaml): what its
//! refusals mean, and how a new leader makes sure that it stands behind the guard before it begins.

use std::time::Duration;

use dovetail_api::names::annotations;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::json;

use crate::backoff::Backoff;
use crate::desk::Desk;
use crate::messages::Term;

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pauses between two attempts: an API server learns of a Lease within milliseconds; one that is away is not made worse.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How long it is tried; then the actors' own calls will find out.
const WITHIN: Duration = Duration::from_secs(30);

/// What a refusal by the fence means for who wrote in a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A newer term has begun.
    Succeeded,
    /// The API server that was asked does not know of this term yet.
    NotKnownYet,
}

/// Whether the fence has refused it, and why.
pub fn refusal(message: &str) -> Option<Refusal> {
    if message.contains("no params found for policy binding") && message.contains("nodeclaims.karpenter.sh") {
        return Some(Refusal::NotKnownYet);
    }
    let (_, terms) = message.split_once("dovetail.dev/term is ")?;
    let (own, lease) = terms.split_once(", the Lease's is ")?;
    let digits: String = lease.chars().take_while(char::is_ascii_digit).collect();
    let (own, lease) = (own.parse::<u64>().ok()?, digits.parse::<u64>().ok()?);
    Some(if lease > own { Refusal::Succeeded } else { Refusal::NotKnownYet })
}

/// Comes back when the API server lets this term create a NodeClaim: from then on it lets no earlier one. A dry run.
pub async fn stand_behind(client: &Client, term: Term, desk: &Desk) {
    let kind = GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut probe = DynamicObject::new(&format!("dovetail-term-{}", term.0), &resource).data(json!({
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "none"},
            "requirements": [],
            "expireAfter": "Never",
        },
    }));
    probe.metadata.annotations = Some([(annotations::TERM.to_owned(), term.0.to_string())].into());
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let (mut backoff, begun) = (Backoff::new(PAUSES.0, PAUSES.1, desk.rng("fence")), desk.now());
    let error = loop {
        let error = match tokio::time::timeout(PATIENCE, api.create(&params, &probe)).await {
            Ok(Ok(_)) => return,
            Ok(Err(kube::Error::Api(status))) if status.code < 500 && status.code != 429 => {
                if refusal(&status.message) != Some(Refusal::NotKnownYet) {
                    // Succeeded already, which the leader will find out; or it cannot be tried here.
                    return;
                }
                "the API server goes on refusing nodeclaims of this term".to_owned()
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
        };
        if desk.now().saturating_sub(begun) >= WITHIN {
            break error;
        }
        tokio::time::sleep(backoff.pause()).await;
    };
    desk.tell(crate::story::Story::Retrying { what: "standing behind the fence".to_owned(), error });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(why: &str) -> Option<Refusal> {
        refusal(&format!(
            "nodeclaims.karpenter.sh \"default-x\" is forbidden: ValidatingAdmissionPolicy 'dovetail-fence' with binding \
             'dovetail-fence-create' denied request: {why}"
        ))
    }

    #[test]
    fn a_refusal_by_a_newer_term_is_told_from_one_by_a_server_that_lags() {
        assert_eq!(denied("dovetail.dev/term is 3, the Lease's is 4"), Some(Refusal::Succeeded));
        assert_eq!(denied("dovetail.dev/term is 10, the Lease's is 9"), Some(Refusal::NotKnownYet));
        assert_eq!(denied("dovetail.dev/term is 10, the Lease's is 0"), Some(Refusal::NotKnownYet));
        let missing =
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
        assert_eq!(denied(missing), Some(Refusal::NotKnownYet));
        assert_eq!(denied("spec.requirements: too many"), None);
        assert_eq!(refusal("no params found for policy binding, for pods"), None);
    }
}
