//! After registration: the tags that an instance gets once its Node is known (aws spec 4.6), and the labels of one whose
//! reservation has ended (aws spec 6).

use std::collections::BTreeMap;

use dovetail_api::names::{annotations, labels, tags};
use dovetail_api::v1::NodeClaim;

use super::{ClaimStage, stage};

/// Annotations by which a claim says that its instance is tagged.
pub const SAID: [&str; 2] = [annotations::TAGGED, annotations::CLUSTER_NAME_TAGGED];

/// Message about an instance that is bought now.
pub const RESERVATION_ENDED: &str =
    "its capacity reservation has ended, was cancelled or has fewer instances: it is paid for on demand";

/// True if the claim does not say that its instance has been tagged.
#[must_use]
pub fn is_untagged(claim: &NodeClaim) -> bool {
    let own = claim.metadata.annotations.as_ref();
    let says = |key: &str| own.and_then(|own| own.get(key)).is_some_and(|value| value == "true");
    let named = claim.status.as_ref().is_some_and(|status| !status.node_name.is_empty());
    named && !SAID.into_iter().all(says)
}

#[must_use]
pub fn is_initialized(claim: &NodeClaim) -> bool {
    stage(claim) == Some(ClaimStage::Initialized)
}

#[must_use]
pub fn is_reserved(claim: &NodeClaim) -> bool {
    let bought = claim.metadata.labels.as_ref().and_then(|labels| labels.get(labels::CAPACITY_TYPE));
    bought.is_some_and(|bought| bought == labels::RESERVED)
}

/// The tags that the instance of a claim lacks; what is there stays, a `Name` of the class's own among them.
#[must_use]
pub fn missing_tags(claim: &NodeClaim, cluster: &str, there: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
    let wanted = [
        (tags::NAME, node),
        (tags::NODE_CLAIM, claim.metadata.name.clone().unwrap_or_default()),
        (tags::CLUSTER_NAME, cluster.to_owned()),
    ];
    let lacks = |(key, _): &(&str, String)| !there.contains_key(*key);
    wanted.into_iter().filter(lacks).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Names of a claim's Node, of the claim, and of the capacity reservation that its instance is in; empty where there is none.
#[must_use]
pub fn reservation_of(claim: &NodeClaim) -> (String, String, String) {
    let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
    let label = claim.metadata.labels.as_ref().and_then(|labels| labels.get(labels::CAPACITY_RESERVATION_ID));
    (node, claim.metadata.name.clone().unwrap_or_default(), label.cloned().unwrap_or_default())
}

/// Labels of an instance that is bought in this way, and is of no reservation.
pub fn relabel(own: &mut BTreeMap<String, String>, bought: &str) {
    own.insert(labels::CAPACITY_TYPE.to_owned(), bought.to_owned());
    labels::OF_RESERVATIONS.iter().for_each(|key| drop(own.remove(*key)));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn claim() -> NodeClaim {
        let mut claim = NodeClaim::new("default-a", dovetail_api::v1::NodeClaimSpec::default());
        claim.status.get_or_insert_default().node_name = "ip-10-0-0-1".into();
        claim
    }

    #[test]
    fn instance_gets_missing_tags_and_keeps_name_of_its_class() {
        let of = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let lacks = |there: &[(&str, &str)]| missing_tags(&claim(), "demo", &of(there));
        assert_eq!(
            lacks(&[]),
            of(&[("Name", "ip-10-0-0-1"), ("karpenter.sh/nodeclaim", "default-a"), ("eks:eks-cluster-name", "demo")])
        );
        let named = [("Name", "mine"), ("eks:eks-cluster-name", "demo")];
        assert_eq!(lacks(&named), of(&[("karpenter.sh/nodeclaim", "default-a")]));
        let all = [("Name", "mine"), ("karpenter.sh/nodeclaim", "x"), ("eks:eks-cluster-name", "demo")];
        assert_eq!(lacks(&all), of(&[]));
    }

    #[test]
    fn a_claim_is_tagged_once_both_annotations_say_so() {
        let mut claim = claim();
        assert!(is_untagged(&claim));
        let say = |claim: &mut NodeClaim, key: &str| {
            claim.metadata.annotations.get_or_insert_default().insert(key.into(), "true".into());
        };
        say(&mut claim, annotations::TAGGED);
        assert!(is_untagged(&claim), "Karpenter before 1.0 did not tag the cluster's name");
        say(&mut claim, annotations::CLUSTER_NAME_TAGGED);
        assert!(!is_untagged(&claim));
        claim.metadata.annotations = None;
        claim.status = None;
        assert!(!is_untagged(&claim), "it has no node yet");
    }

    #[test]
    fn what_is_not_reserved_any_more_loses_its_reservation() {
        let mut own = BTreeMap::from(
            [
                (labels::CAPACITY_TYPE, labels::RESERVED),
                (labels::CAPACITY_RESERVATION_ID, "cr-1"),
                (labels::CAPACITY_RESERVATION_TYPE, "default"),
                ("team", "a"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        relabel(&mut own, labels::ON_DEMAND);
        let left = [(labels::CAPACITY_TYPE, labels::ON_DEMAND), ("team", "a")];
        assert_eq!(own, BTreeMap::from(left.map(|(key, value)| (key.to_owned(), value.to_owned()))));
    }
}
