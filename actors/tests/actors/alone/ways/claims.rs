//! Writes to NodeClaims and Nodes: each rests on the version read, is the same when its answer was lost, and touches no
//! other of the name.

use std::sync::Arc;

use dovetail_actors::kube::calls::CallError;
use dovetail_actors::kube::claims::NodeClaimApi;
use dovetail_actors::kube::nodes::Nodes;
use dovetail_api::v1::NodeClaim;
use dovetail_sandbox::apiserver::{NODE_CLAIMS, NODES};
use kube::ResourceExt as _;
use serde_json::json;

use crate::alone::objects::node_name;
use crate::alone::wire::{Act, status};
use crate::alone::{Alone, alone};

fn claims(bench: &Alone) -> NodeClaimApi {
    NodeClaimApi::new(bench.calls("launcher"))
}

/// A claim as it is planned.
fn planned(name: &str) -> NodeClaim {
    serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "finalizers": ["karpenter.sh/termination"],
            "annotations": {"dovetail.dev/term": "3", "dovetail.dev/traceparent": "00-1-2-01"}},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}))
    .unwrap()
}

fn annotate(claim: &mut NodeClaim) {
    claim.annotations_mut().insert("ours".into(), "true".into());
}

fn another_of_that_name(bench: &Alone, name: &str) {
    bench.api.patch(&NODE_CLAIMS, "", name, &json!({"metadata": {"finalizers": []}})).unwrap();
    bench.delete(&NODE_CLAIMS, name);
    bench.claim(name);
}

#[test]
fn a_creation_whose_answer_is_lost_makes_one_claim() {
    alone(|bench| async move {
        bench.wire.next("POST", "/nodeclaims", 1, Act::Lose);
        let made = claims(&bench).create(&planned("default-a")).await.unwrap();
        assert!(made.uid().is_some());
        assert_eq!((bench.api.list(&NODE_CLAIMS).len(), bench.wire.count("POST", "/nodeclaims")), (1, 2));
    });
}

#[test]
fn a_creation_under_a_name_that_is_anothers_takes_nothing_over() {
    alone(|bench| async move {
        bench.claim("default-a");
        let made = claims(&bench).create(&planned("default-a")).await;
        assert!(matches!(made, Err(CallError::Exists(_))), "{made:?}");
    });
}

#[test]
fn a_creation_that_nobody_answers_is_given_up_soon() {
    for act in [Act::Answer(500, status(500)), Act::Answer(429, status(429)), Act::Hang] {
        alone(|bench| async move {
            bench.wire.next("POST", "/nodeclaims", usize::MAX, act.clone());
            let begun = tokio::time::Instant::now();
            let made = claims(&bench).create(&planned("default-a")).await;
            assert!(matches!(made, Err(CallError::Unanswered(_))), "{act:?}: {made:?}");
            assert!(begun.elapsed().as_secs() <= 11, "{act:?}: {:?}", begun.elapsed());
        });
    }
}

#[test]
fn a_change_is_made_anew_on_what_somebody_has_written_meanwhile() {
    alone(|bench| async move {
        let claim = bench.claim("default-a");
        bench.api.patch(&NODE_CLAIMS, "", "default-a", &json!({"metadata": {"labels": {"theirs": "true"}}})).unwrap();
        let written = claims(&bench).change_metadata((*claim).clone(), annotate).await.unwrap();
        assert_eq!((written.annotations()["ours"].as_str(), written.labels()["theirs"].as_str()), ("true", "true"));
        assert_eq!(bench.wire.count("PATCH", "/nodeclaims/default-a"), 2);
    });
}

#[test]
fn a_change_that_rests_on_what_was_seen_is_not_made_anew() {
    alone(|bench| async move {
        let claim = bench.claim("default-a");
        bench.api.patch(&NODE_CLAIMS, "", "default-a", &json!({"metadata": {"labels": {"theirs": "true"}}})).unwrap();
        let written = claims(&bench).change_as_seen(&claim, annotate).await;
        assert!(matches!(written, Err(CallError::Conflict(_))), "{written:?}");
        let removed = claims(&bench).remove_as_seen(&claim).await;
        assert!(matches!(removed, Err(CallError::Conflict(_))), "{removed:?}");
        assert!(bench.claim_now("default-a").metadata.deletion_timestamp.is_none());
    });
}

#[test]
fn a_change_that_changes_nothing_is_not_written() {
    alone(|bench| async move {
        let claim = bench.claim("default-a");
        claims(&bench).change_metadata((*claim).clone(), |_| {}).await.unwrap();
        claims(&bench).change_status((*claim).clone(), Clone::clone).await.unwrap();
        claims(&bench).change_as_seen(&claim, |_| {}).await.unwrap();
        assert_eq!(bench.wire.writes(), [""; 0]);
    });
}

#[test]
fn no_write_and_no_deletion_reaches_another_of_the_name() {
    alone(|bench| async move {
        let first = bench.claim("default-a");
        another_of_that_name(&bench, "default-a");
        let own = claims(&bench);
        let outcomes = [
            own.change_metadata((*first).clone(), annotate).await.map(drop),
            own.change_status((*first).clone(), |claim| {
                let mut claim = claim.clone();
                claim.status.get_or_insert_default().node_name = "node".into();
                claim
            })
            .await
            .map(drop),
            own.remove((*first).clone()).await.map(drop),
            own.now(&first).await.map(drop),
        ];
        assert!(outcomes.iter().all(|one| matches!(one, Err(CallError::NotFound(_)))), "{outcomes:?}");
        assert_eq!(own.delete_without_instance(&first).await, Ok(true), "the first is gone");
        let second = bench.claim_now("default-a");
        assert!(second.metadata.deletion_timestamp.is_none() && !second.annotations().contains_key("ours"));
    });
}

#[test]
fn claim_without_instance_goes_with_finalizer_unless_held() {
    alone(|bench| async move {
        let claim = bench.claim("default-a");
        assert_eq!(claims(&bench).delete_without_instance(&claim).await, Ok(true));
        assert!(!bench.is_there(&NODE_CLAIMS, "default-a"));
        bench.claim("default-b");
        let held = json!({"metadata": {"finalizers": ["karpenter.sh/termination", "example.com/audit"]}});
        bench.api.patch(&NODE_CLAIMS, "", "default-b", &held).unwrap();
        assert_eq!(claims(&bench).delete_without_instance(&bench.claim_now("default-b")).await, Ok(false));
        assert_eq!(bench.claim_now("default-b").finalizers(), ["example.com/audit"]);
    });
}

#[test]
fn a_deletion_whose_answer_is_lost_is_no_failure() {
    alone(|bench| async move {
        let claim = bench.claim("default-a");
        bench.wire.next("DELETE", "/nodeclaims", 1, Act::Lose);
        let removed = claims(&bench).remove((*claim).clone()).await.unwrap();
        assert!(removed.metadata.deletion_timestamp.is_some());
    });
}

#[test]
fn a_list_is_taken_page_by_page_and_one_that_expires_is_no_list() {
    alone(|bench| async move {
        for n in 0..1100 {
            bench.claim(&format!("default-{n:04}"));
        }
        let all = claims(&bench).list().await.unwrap();
        assert_eq!((all.items.len(), bench.wire.count("GET", "/nodeclaims?")), (1100, 3));
        bench.wire.next("GET", "continue=", 1, Act::Answer(410, status(410)));
        let half = claims(&bench).list().await;
        assert!(matches!(half, Err(CallError::NotFound(_))), "a part of a list is none");
    });
}

#[test]
fn a_node_is_changed_on_what_its_kubelet_has_written_meanwhile() {
    alone(|bench| async move {
        let node = bench.joined(1);
        bench.kubelet(1, "True");
        let label = |node: &k8s_openapi::api::core::v1::Node| {
            (!node.labels().contains_key("ours")).then(|| {
                let mut node = node.clone();
                node.labels_mut().insert("ours".into(), "true".into());
                node
            })
        };
        let nodes = Nodes::new(bench.calls("registrar"));
        let written = nodes.change((*node).clone(), label).await.unwrap();
        assert_eq!(written.labels()["ours"], "true");
        assert!(written.status.unwrap().conditions.is_some_and(|all| !all.is_empty()), "what it says stays");
    });
}

#[test]
fn a_node_that_came_anew_under_its_name_is_another() {
    alone(|bench| async move {
        let first = bench.joined(1);
        bench.delete(&NODES, &node_name(1));
        bench.joined(1);
        let nodes = Nodes::new(bench.calls("registrar"));
        let deleted = nodes.delete_as_seen(&first).await;
        assert!(matches!(deleted, Err(CallError::Conflict(_))), "{deleted:?}");
        assert!(matches!(nodes.same(&first).await, Err(CallError::NotFound(_))));
        assert!(bench.is_there(&NODES, &node_name(1)));
        let _ = Arc::clone(&first);
    });
}

#[test]
fn endlessly_conflicting_writes_pause_and_succeed_in_the_end() {
    alone(|bench| async move {
        let claim = bench.claim("default-a");
        let (api, now) = (claims(&bench), tokio::time::Instant::now);
        let failing = |method, path| bench.wire.refuse(method, path, 40, 409);
        // The first conflict is somebody's write in between; so many are an admission webhook that answers so.
        let slow = |begun: tokio::time::Instant| assert!(begun.elapsed().as_secs() > 60, "{:?}", begun.elapsed());
        failing("PATCH", "/nodeclaims/default-a");
        let begun = now();
        api.change_metadata((*claim).clone(), annotate).await.unwrap();
        slow(begun);
        failing("PATCH", "/nodeclaims/default-a/status");
        let begun = now();
        let named = |claim: &NodeClaim| {
            let mut claim = claim.clone();
            claim.status.get_or_insert_default().node_name = "node".into();
            claim
        };
        api.change_status((*bench.claim_now("default-a")).clone(), named).await.unwrap();
        slow(begun);
        failing("DELETE", "/nodeclaims/default-a");
        let begun = now();
        api.remove((*bench.claim_now("default-a")).clone()).await.unwrap();
        slow(begun);
        bench.working(1);
        failing("PATCH", "/nodes/");
        let begun = now();
        let labelled = |node: &k8s_openapi::api::core::v1::Node| {
            let mut wanted = node.clone();
            let news = wanted.labels_mut().insert("ours".into(), "true".into()).is_none();
            news.then_some(wanted)
        };
        Nodes::new(bench.calls("terminator")).change((*bench.node_now(1)).clone(), labelled).await.unwrap();
        slow(begun);
    });
}
