//! Reason for an object's end: what an earlier leader has written on the claim, or the deletion that somebody asked for.

use dovetail_api::names::annotations::END_REASON;
use dovetail_api::names::labels;
use dovetail_api::v1::NodeClaim;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::clock::CLOCKS_APART;
use crate::cluster_state::Snapshot;

/// Text of a claim's annotation for the reason of its deletion.
#[must_use]
pub fn end_reason(reason: &str, now: Timestamp) -> String {
    format!("{reason} {now}")
}

/// Reason for which an earlier leader has deleted a claim. That leader may have written it without deleting, and somebody else
/// may have deleted later: then it counts for nothing.
#[must_use]
pub fn written_reason(claim: &NodeClaim) -> Option<String> {
    let (reason, when) = claim.metadata.annotations.as_ref()?.get(END_REASON)?.split_once(' ')?;
    let (when, deleted) = (when.parse::<Timestamp>().ok()?, deleted_at(&claim.metadata)?);
    // Two clocks are compared: the leader's, which wrote the reason, and the API server's, which dates the deletion.
    let apart = SignedDuration::try_from(CLOCKS_APART).ok()?;
    (deleted.duration_since(when).abs() <= apart).then(|| reason.to_owned())
}

/// Sentence on the deletion that takes a Node along without a decision of ours.
#[must_use]
pub fn asked_deletion(node: &Node, claim: Option<&NodeClaim>, snapshot: &Snapshot) -> String {
    let name = |meta: &ObjectMeta| meta.name.clone().unwrap_or_default();
    let of_node = || format!("the deletion of node {} was asked for", name(&node.metadata));
    let Some(claim) = claim else { return of_node() };
    let pool = claim.metadata.labels.as_ref().and_then(|labels| labels.get(labels::NODE_POOL));
    if let Some(pool) = pool.filter(|pool| !pool.is_empty()) {
        let there = snapshot.pools.get(pool).is_some_and(|pool| pool.metadata.deletion_timestamp.is_none());
        if !there {
            return format!("its nodepool {pool} is deleted");
        }
    }
    // Deleting either deletes the other a moment later: the earlier one is what somebody asked for.
    match (deleted_at(&node.metadata), deleted_at(&claim.metadata)) {
        (Some(_), None) => of_node(),
        (Some(node_since), Some(claim_since)) if node_since < claim_since => of_node(),
        _ => format!("the deletion of nodeclaim {} was asked for", name(&claim.metadata)),
    }
}

fn deleted_at(meta: &ObjectMeta) -> Option<Timestamp> {
    meta.deletion_timestamp.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::lifecycle::fixtures::{launched_claim, node, second};

    fn claim(reason: &str, deleted: &str) -> NodeClaim {
        let mut claim = launched_claim("a");
        claim.metadata.annotations.get_or_insert_default().insert(END_REASON.into(), reason.into());
        claim.metadata.deletion_timestamp = Some(Time(deleted.parse().unwrap()));
        claim
    }

    #[test]
    fn written_end_reason_holds_for_next_deletion_and_no_later_one() {
        let said = end_reason("expired", "2026-03-02T10:17:00.25Z".parse().unwrap());
        assert_eq!(written_reason(&claim(&said, "2026-03-02T10:17:01Z")).as_deref(), Some("expired"));
        assert_eq!(
            written_reason(&claim(&said, "2026-03-02T10:16:30Z")).as_deref(),
            Some("expired"),
            "clocks are apart"
        );
        assert_eq!(written_reason(&claim(&said, "2026-03-02T10:27:01Z")), None);
        assert_eq!(written_reason(&claim("expired", "2026-03-02T10:17:01Z")), None);
    }

    #[test]
    fn the_earlier_deletion_is_what_somebody_asked_for() {
        let at =
            |when: Option<i64>, meta: &mut ObjectMeta| meta.deletion_timestamp = when.map(|when| Time(second(when)));
        let (mut node, mut claim) = (node("n"), launched_claim("a"));
        claim.metadata.labels = None;
        let mut said = |of_node, of_claim| {
            at(of_node, &mut node.metadata);
            at(of_claim, &mut claim.metadata);
            asked_deletion(&node, Some(&claim), &Snapshot::default())
        };
        let (of_node, of_claim) = ("the deletion of node n was asked for", "the deletion of nodeclaim a was asked for");
        assert_eq!([said(Some(1), None), said(Some(1), Some(2))], [of_node, of_node]);
        assert_eq!([said(None, Some(1)), said(Some(2), Some(2))], [of_claim, of_claim]);
        claim.metadata.labels = Some([(labels::NODE_POOL.to_owned(), "web".to_owned())].into());
        assert_eq!(asked_deletion(&node, Some(&claim), &Snapshot::default()), "its nodepool web is deleted");
        assert_eq!(asked_deletion(&node, None, &Snapshot::default()), of_node);
    }
}
