//! The cluster watcher: what it hands out and says is the cluster as it is, whatever its watches go through.

use actix::prelude::*;
use dovetail_actors::cluster_watcher::ClusterWatcher;
use dovetail_actors::messages::{
    ActorState, Attach, ClaimChanged, ClaimGone, ClaimRefused, ClassChanged, ClusterChanged, ClusterWatcherState,
    Detach, Forget, HoldClaims, MarkDeleting, NodeChanged, PlanClaims, PoolChanged, Record, TakeObserved, TakeSnapshot,
    TellNotSynced, WorldChanged, Wrote,
};
use dovetail_actors::pod_watcher::PodWatcher;
use dovetail_api::v1::NodeClaim;
use dovetail_core::Resources;
use dovetail_core::cluster_state::{NominationTarget, Snapshot};
use dovetail_sandbox::apiserver::{EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, NODES};
use serde_json::json;

use crate::alone::objects::node_name;
use crate::alone::{Alone, TERM, alone};

/// A watcher with the pods' watch, as only both know everything.
pub struct Watching {
    pub cluster: Addr<ClusterWatcher>,
    _pods: Addr<PodWatcher>,
}

pub fn start_by(bench: &Alone, client: &kube::Client) -> Watching {
    let recorder = bench.ear.clone().into();
    let cluster = bench.start(ClusterWatcher::new(&bench.env, client.clone()).with_recorder(recorder));
    let _pods = bench.start(PodWatcher::new(&bench.env, client.clone(), cluster.clone().into()));
    Watching { cluster, _pods }
}

fn start(bench: &Alone) -> Watching {
    start_by(bench, &bench.client())
}

pub fn attach(bench: &Alone, cluster: &Addr<ClusterWatcher>) {
    let ear = &bench.ear;
    cluster.do_send(Attach {
        claims: vec![ear.clone().recipient()],
        claims_gone: vec![ear.clone().recipient()],
        nodes: vec![ear.clone().recipient()],
        nodes_gone: vec![ear.clone().recipient()],
        devices: ear.clone().recipient(),
        pools: ear.clone().recipient(),
        classes: ear.clone().recipient(),
        unusable: ear.clone().recipient(),
        world: ear.clone().recipient(),
        disruption: vec![ear.clone().recipient()],
        unused: ear.clone().recipient(),
    });
}

/// One that knows everything and has a leader's actors to tell.
pub async fn leading(bench: &Alone) -> Watching {
    let watching = start(bench);
    attach(bench, &watching.cluster);
    bench.pass(2.0).await;
    bench.heard.forget();
    watching
}

pub async fn known(cluster: &Addr<ClusterWatcher>) -> Option<Snapshot> {
    cluster.send(TakeSnapshot).await.unwrap()
}

pub async fn is_shown(cluster: &Addr<ClusterWatcher>) -> bool {
    cluster.send(TakeObserved).await.unwrap().is_some()
}

pub async fn state(bench: &Alone, cluster: &Addr<ClusterWatcher>) -> ClusterWatcherState {
    match bench.state(cluster).await {
        ActorState::ClusterWatcher(state) => state,
        other => panic!("{other:?}"),
    }
}

pub fn names_gone(bench: &Alone) -> Vec<String> {
    bench.heard.all::<ClaimGone>().iter().map(|gone| gone.name.clone()).collect()
}

#[test]
fn nothing_is_handed_out_before_every_kind_is_listed() {
    alone(|bench| async move {
        bench.wire.refuse("GET", "/storageclasses", 5, 500);
        bench.pool("default");
        let watching = start(&bench);
        bench.pass(0.3).await;
        assert!(known(&watching.cluster).await.is_none());
        assert_eq!(state(&bench, &watching.cluster).await.not_listed, ["storageclasses"]);
        bench.pass(30.0).await;
        assert_eq!(known(&watching.cluster).await.unwrap().pools.len(), 1);
        assert_eq!(bench.told.count("synced"), 1);
    });
}

#[test]
fn who_waits_for_what_is_not_listed_is_told_which_and_why() {
    alone(|bench| async move {
        bench.wire.forbid("GET", "/nodepools", usize::MAX);
        let uid = bench.pod("web", None);
        let watching = start(&bench);
        bench.pass(5.0).await;
        watching.cluster.do_send(TellNotSynced);
        bench.pass(0.1).await;
        let line =
            bench.told.lines().into_iter().find(|line| line.contains("waits for the state of the cluster")).unwrap();
        assert!(line.contains("not listed yet: nodepools") && line.contains("forbidden"), "{line}");
        let told = bench.heard.all::<Record>();
        assert!(told.iter().any(|record| record.object.uid.as_ref() == Some(&uid)), "{told:?}");
    });
}

#[test]
fn who_attaches_hears_of_all_that_is_there_classes_first() {
    alone(|bench| async move {
        bench.pool("default");
        bench.launched("default-a", 1, &["Launched"]);
        bench.working(1);
        let watching = start(&bench);
        bench.pass(2.0).await;
        attach(&bench, &watching.cluster);
        bench.pass(0.1).await;
        let names = bench.heard.names();
        let at = |name| names.iter().position(|one| *one == name).unwrap_or_else(|| panic!("{name}: {names:?}"));
        assert!(at("ClassChanged") < at("PoolChanged") && at("NodeChanged") < at("ClaimChanged"), "{names:?}");
        assert_eq!(bench.heard.count::<ClaimChanged>(), 1);
    });
}

#[test]
fn after_a_detach_the_state_is_kept_and_nothing_said() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        watching.cluster.do_send(Detach);
        bench.pool("default");
        bench.claim("default-a");
        bench.pass(1.0).await;
        assert_eq!(bench.heard.names(), [""; 0]);
        assert_eq!(known(&watching.cluster).await.unwrap().claims.len(), 1);
    });
}

#[test]
fn an_older_state_that_comes_late_changes_nothing() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        let first = bench.claim("default-a");
        let patch = json!({"metadata": {"annotations": {"written": "later"}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-a", &patch).unwrap();
        bench.pass(1.0).await;
        bench.heard.forget();
        watching.cluster.do_send(Wrote::Claim(first));
        bench.pass(0.1).await;
        assert_eq!(bench.heard.count::<ClaimChanged>(), 0);
        let entry = known(&watching.cluster).await.unwrap().claims["default-a"].clone();
        assert!(entry.claim.metadata.annotations.as_ref().unwrap().contains_key("written"));
    });
}

#[test]
fn the_end_of_one_claim_says_nothing_of_another_of_its_name() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        let first = bench.claim("default-a");
        bench.api.patch(&NODE_CLAIMS, "", "default-a", &json!({"metadata": {"finalizers": []}})).unwrap();
        bench.delete(&NODE_CLAIMS, "default-a");
        bench.claim("default-a");
        bench.pass(1.0).await;
        bench.heard.forget();
        watching.cluster.do_send(Wrote::ClaimGone("default-a".into(), first.metadata.uid.clone()));
        bench.pass(0.1).await;
        assert_eq!(names_gone(&bench), [""; 0]);
        assert!(known(&watching.cluster).await.unwrap().claims.contains_key("default-a"));
    });
}

#[test]
fn end_of_pool_or_class_leaves_another_of_its_name_known() {
    alone(|bench| async move {
        bench.pool("default");
        let watching = leading(&bench).await;
        let again = |kind, version: &str| {
            let mut other = (*bench.api.get(kind, "", "default").unwrap()).clone();
            other["metadata"]["uid"] = json!("made-anew");
            other["metadata"]["resourceVersion"] = json!(version);
            other
        };
        let (pool, class) = (again(&NODE_POOLS, "90000"), again(&EC2_NODE_CLASSES, "90001"));
        // An answer shows what was made anew before the watch shows that the first is gone.
        watching.cluster.do_send(Wrote::Pool(Box::new(serde_json::from_value(pool).unwrap())));
        watching.cluster.do_send(Wrote::Class(Box::new(serde_json::from_value(class).unwrap())));
        bench.pass(0.1).await;
        bench.heard.forget();
        bench.delete(&NODE_POOLS, "default");
        bench.delete(&EC2_NODE_CLASSES, "default");
        bench.pass(1.0).await;
        let now = known(&watching.cluster).await.unwrap();
        assert!(now.pools.contains_key("default") && now.classes.contains_key("default"));
        assert!(bench.heard.all::<PoolChanged>().iter().all(|one| one.pool.is_some()));
        assert!(bench.heard.all::<ClassChanged>().iter().all(|one| one.class.is_some()));
    });
}

#[test]
fn a_planned_claim_is_capacity_until_it_is_not_made() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        let uid = bench.pod("web", None);
        bench.pass(1.0).await;
        let planned: NodeClaim = serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "default-a"}, "spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}))
        .unwrap();
        let expected = vec![(vec![uid.clone()], NominationTarget::Claim("default-a".into()))];
        watching.cluster.do_send(PlanClaims { term: TERM, claims: vec![(planned, Resources::new())], expected });
        let snapshot = known(&watching.cluster).await.unwrap();
        assert!(snapshot.claims["default-a"].is_planned() && snapshot.nominations.contains_key(&uid));
        watching.cluster.do_send(Wrote::NotMade("default-a".into()));
        let snapshot = known(&watching.cluster).await.unwrap();
        assert!(snapshot.claims.is_empty() && snapshot.nominations.is_empty());
        assert_eq!(names_gone(&bench), ["default-a"]);
    });
}

#[test]
fn given_up_claim_that_exists_stays_known() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        bench.claim("default-a");
        bench.pass(1.0).await;
        watching.cluster.do_send(Wrote::NotMade("default-a".into()));
        assert!(known(&watching.cluster).await.unwrap().claims.contains_key("default-a"));
        assert_eq!(names_gone(&bench), [""; 0]);
    });
}

#[test]
fn plans_are_void_with_the_term_but_existing_claims_stay() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        let uid = bench.pod("web", None);
        bench.claim("default-a");
        bench.pass(1.0).await;
        let expected = vec![(vec![uid], NominationTarget::Claim("default-a".into()))];
        watching.cluster.do_send(PlanClaims { term: TERM, claims: vec![], expected });
        watching.cluster.do_send(Forget);
        let snapshot = known(&watching.cluster).await.unwrap();
        assert!(snapshot.nominations.is_empty() && snapshot.claims.contains_key("default-a"));
    });
}

#[test]
fn claims_of_another_providers_class_are_nobodys_here() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "azure-a"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "x"}}});
        bench.api.create(&NODE_CLAIMS, "", claim).unwrap();
        bench.pass(1.0).await;
        assert_eq!((bench.heard.count::<ClaimChanged>(), state(&bench, &watching.cluster).await.node_claims), (0, 0));
    });
}

#[test]
fn who_is_about_to_leave_is_told_to_the_packer_once() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        bench.launched("default-a", 1, &["Launched", "Registered", "Initialized"]);
        bench.working(1);
        bench.pass(1.0).await;
        bench.heard.forget();
        let mark = |deleting| MarkDeleting { term: TERM, claims: vec!["default-a".into()], deleting };
        watching.cluster.do_send(mark(true));
        watching.cluster.do_send(mark(true));
        bench.pass(0.1).await;
        let told = |what| bench.heard.all::<WorldChanged>().iter().filter(|one| ***one == what).count();
        assert_eq!(told(WorldChanged::Deleting), 1);
        assert!(known(&watching.cluster).await.unwrap().deleting.claims.contains("default-a"));
        watching.cluster.do_send(mark(false));
        assert!(!known(&watching.cluster).await.unwrap().deleting.claims.contains("default-a"));
        // A command of ours holds it: that is leaving too, and another reason.
        watching.cluster.do_send(HoldClaims { term: TERM, claims: vec!["default-a".into()], held: true });
        assert!(known(&watching.cluster).await.unwrap().deleting.claims.contains("default-a"));
        assert!(bench.heard.count::<ClusterChanged>() >= 3);
    });
}

#[test]
fn a_refused_claim_is_no_room_and_its_end_ends_that() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        bench.claim("default-a");
        bench.pass(1.0).await;
        let refuse = |claim: &str, refused| ClaimRefused { claim: claim.into(), refused };
        watching.cluster.do_send(refuse("default-a", true));
        watching.cluster.do_send(refuse("no-such", true));
        let snapshot = known(&watching.cluster).await.unwrap();
        assert!(snapshot.is_refused("default-a") && !snapshot.is_refused("no-such"));
        watching.cluster.do_send(Forget);
        assert!(!known(&watching.cluster).await.unwrap().is_refused("default-a"));
    });
}

#[test]
fn a_node_is_told_without_what_nobody_here_reads() {
    alone(|bench| async move {
        let _watching = leading(&bench).await;
        bench.working(1);
        let images: Vec<_> = (0..50).map(|n| json!({"names": [format!("image-{n}")], "sizeBytes": 1})).collect();
        bench.api.patch_status(&NODES, "", &node_name(1), &json!({"status": {"images": images}})).unwrap();
        bench.pass(1.0).await;
        let told = bench.heard.last::<NodeChanged>();
        let status = told.0.status.clone().unwrap();
        assert!(status.images.is_none() && told.0.metadata.managed_fields.is_none());
    });
}

#[test]
fn a_thousand_claims_at_once_are_all_said_and_in_the_state() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        for n in 0..1200 {
            bench.claim(&format!("default-{n:04}"));
        }
        bench.pass(5.0).await;
        assert_eq!(bench.heard.count::<ClaimChanged>(), 1200);
        assert_eq!(known(&watching.cluster).await.unwrap().claims.len(), 1200);
    });
}
