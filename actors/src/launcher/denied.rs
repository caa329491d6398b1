//! Denials of EC2 that somebody can do something about: reported where people look, and kept out of later requests.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::GROUP;
use dovetail_api::v1::{EC2NodeClass, NodeClaim};
use dovetail_cloud::LaunchError;
use dovetail_cloud::launch::OfferingRefusal;
use dovetail_cloud::launch::codes::{reason_of, remedy};
use dovetail_cloud::launch::unauthorized::without_decision;
use dovetail_core::cluster_state::NominationTarget;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;

use crate::launcher::facts::pool_of;
use crate::launcher::launch::{Launching, short};
use crate::messages::{Record, TakeSnapshot, reference};
use crate::recorder::object;

/// Command that creates spot's service-linked role, once for an account.
const CREATE_SPOT_ROLE: &str = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com";
/// Minimum time between two reports of one denial; it recurs when spot is tried again.
const SAID_ONCE: Duration = Duration::from_secs(3600);

/// Pods of a claim that are told why it is refused: its first.
const MOST_PODS: usize = 20;
/// Minimum time between two events at a pod about the same refusal, as for FailedScheduling.
const REFUSAL_QUIET: Duration = Duration::from_secs(300);

/// Says that the account has no role for spot, on the claim and on its NodePool, which is there longer.
pub fn record_denied(launching: &Launching, claim: &NodeClaim, refusals: &[OfferingRefusal]) {
    if !refusals.iter().any(OfferingRefusal::denies_spot) {
        return;
    }
    let message = format!(
        "EC2 gives no spot capacity, as the account has no service-linked role for it and Dovetail may not create one; create it with: \
         {CREATE_SPOT_ROLE}. Until then on-demand capacity is launched where NodePools allow it"
    );
    // Claims come and go: an hour is an hour for all of a pool.
    let claims = format!("nodeclaims of {}", pool_of(claim));
    let at_claim = Record::warning(object::claim(claim), "SpotSLRCreationFailed", &*message).once_for_all_of(claims);
    let at_pool = pool(claim).map(|pool| Record::warning(pool, "SpotSLRCreationFailed", &*message));
    for event in [Some(at_claim), at_pool].into_iter().flatten() {
        launching.env.post(&launching.links.recorder, event.quiet_for(SAID_ONCE));
    }
}

/// Says to the pods that are expected on a claim why EC2 does not launch it, and what can be done: at the first refusal, as nothing
/// else is said of them until they are packed anew. Who asks is not kept waiting by an answer that does not come.
pub async fn tell_pods(launching: &Launching, claim: &NodeClaim, error: &LaunchError) {
    let Ok(Some(snapshot)) = launching.links.cluster.send(TakeSnapshot).await else { return };
    let target = NominationTarget::Claim(claim.name_any());
    // For a lack of capacity the refusal's cause says more than the error.
    let caused = error.refusals.iter().find(|one| one.cause().is_some());
    let reason = caused.map_or(error.reason, |one| reason_of(&one.code, &one.message));
    let remedy = Some(remedy(reason)).filter(|remedy| !remedy.is_empty() && !error.message.contains(remedy));
    let remedy = remedy.map(|remedy| format!("; to end that, {remedy}")).unwrap_or_default();
    let words = short(without_decision(&error.message));
    // Without the claim's name, so that the same refusal of the next claim is the same event.
    let message = format!("EC2 does not launch a node for it: {words}{remedy}");
    for pod in snapshot.expected_at(&target).take(MOST_PODS) {
        let event = Record::warning(object::pod(&pod.pod), "LaunchRefused", &*message).quiet_for(REFUSAL_QUIET);
        launching.env.post(&launching.links.recorder, event);
    }
}

/// The claim's NodePool, which owns it.
pub(super) fn pool(claim: &NodeClaim) -> Option<ObjectReference> {
    let name = pool_of(claim);
    // A claim that was made by hand has no owner: the event is found by the pool's name alone.
    let owner = claim.owner_references().iter().find(|owner| owner.kind == "NodePool" && owner.name == name);
    let uid = owner.map(|owner| owner.uid.as_str()).unwrap_or_default();
    (!name.is_empty()).then(|| reference(&format!("{GROUP}/v1"), "NodePool", "", &name, uid))
}

/// The class without the subnets that EC2 had no address in; as it is where that would leave none.
pub fn with_free_subnets(class: Arc<EC2NodeClass>, full: &BTreeSet<String>) -> Arc<EC2NodeClass> {
    let subnets = class.status.as_ref().map(|status| status.subnets.as_slice()).unwrap_or_default();
    let is_full = |id: &str| full.contains(id);
    // If all are full, EC2 is asked in all of them: addresses may have become free since.
    if !subnets.iter().any(|subnet| is_full(&subnet.id)) || subnets.iter().all(|subnet| is_full(&subnet.id)) {
        return class;
    }
    let mut class = EC2NodeClass::clone(&class);
    class.status.iter_mut().for_each(|status| status.subnets.retain(|subnet| !is_full(&subnet.id)));
    Arc::new(class)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use dovetail_api::v1::{EC2NodeClassSpec, EC2NodeClassStatus, Subnet};

    use super::*;

    fn class() -> Arc<EC2NodeClass> {
        let mut class = EC2NodeClass::new("default", EC2NodeClassSpec::default());
        let subnet = |id: &str| Subnet { id: id.into(), zone: "a".into(), ..Subnet::default() };
        let subnets = vec![subnet("subnet-1"), subnet("subnet-2")];
        class.status = Some(EC2NodeClassStatus { subnets, ..EC2NodeClassStatus::default() });
        Arc::new(class)
    }

    #[test]
    fn subnets_without_addresses_are_left_out_one_by_one() {
        let left = |full: &[&str]| {
            let full = full.iter().map(|id| (*id).to_owned()).collect();
            let class = with_free_subnets(class(), &full);
            class.status.as_ref().unwrap().subnets.iter().map(|one| one.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(left(&[]), ["subnet-1", "subnet-2"]);
        assert_eq!(left(&["subnet-1", "subnet-of-others"]), ["subnet-2"]);
        // Nothing is planned for a zone in which all are full; what is asked for all the same may have them.
        assert_eq!(left(&["subnet-1", "subnet-2"]), ["subnet-1", "subnet-2"]);
    }
}
