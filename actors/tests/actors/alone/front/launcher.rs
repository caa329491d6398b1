//! The launcher: each order is one claim with one instance, whatever the API server and EC2 say on the way.

use actix::prelude::*;
use dovetail_actors::Settings;
use dovetail_actors::launcher::{Launcher, LauncherLinks};
use dovetail_actors::messages::{
    ActorState, ClaimChanged, ClaimSoldOut, InstanceKnown, LaunchClaims, LaunchOrder, LaunchedOffering, LauncherState,
    PackNow, Refused, Term, Wrote,
};
use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::NominationTarget;
use dovetail_sandbox::apiserver::NODE_CLAIMS;
use kube::ResourceExt as _;
use serde_json::json;

use crate::alone::wire::Act;
use crate::alone::{Alone, TERM, alone_with, seconds, trace};
use crate::world::Spoil;

pub fn start(bench: &Alone) -> Addr<Launcher> {
    let ear = &bench.ear;
    let links = LauncherLinks {
        cluster: ear.clone().into(),
        catalogue: ear.clone().into(),
        packer: ear.clone().into(),
        recorder: ear.clone().into(),
        owner: ear.clone().into(),
        cloud: bench.sky.clone(),
        calls: bench.calls("launcher"),
    };
    bench.start(Launcher::new(&bench.env, links))
}

pub fn with_pool_and(settings: Settings, test: impl AsyncFnOnce(Alone)) {
    alone_with(settings, |bench| async move {
        bench.pool("default");
        bench.offer("default");
        bench.show();
        test(bench).await;
    });
}

pub fn with_pool(test: impl AsyncFnOnce(Alone)) {
    with_pool_and(Settings::default(), test);
}

/// A claim as the packer plans it.
pub fn planned(name: &str) -> NodeClaim {
    serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}, "finalizers": ["karpenter.sh/termination"],
            "annotations": {"dovetail.dev/term": "3"}},
        "spec": {"requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge"]}],
            "resources": {"requests": {"cpu": "1"}}, "expireAfter": "Never",
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}))
    .unwrap()
}

fn order(name: &str) -> LaunchOrder {
    LaunchOrder { claim: planned(name), pods: 1, demand: None }
}

pub fn launch(names: &[&str]) -> LaunchClaims {
    LaunchClaims { term: TERM, orders: names.iter().map(|name| order(name)).collect(), trace: trace(1) }
}

pub async fn state(bench: &Alone, launcher: &Addr<Launcher>) -> LauncherState {
    match bench.state(launcher).await {
        ActorState::Launcher(state) => state,
        other => panic!("{other:?}"),
    }
}

pub fn claims(bench: &Alone) -> Vec<String> {
    bench.api.list(&NODE_CLAIMS).iter().map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn provider_id(bench: &Alone, name: &str) -> String {
    bench.claim_now(name).status.as_ref().map(|status| status.provider_id.clone()).unwrap_or_default()
}

pub fn not_made(bench: &Alone) -> usize {
    bench.heard.all::<Wrote>().iter().filter(|one| matches!(&***one, Wrote::NotMade(_))).count()
}

/// One living instance a claim.
pub fn one_to_one(bench: &Alone) {
    let mut of_claims: Vec<String> = claims(bench).iter().map(|name| provider_id(bench, name)).collect();
    let mut living: Vec<String> = bench.sky.inner.living().iter().map(|one| one.provider_id()).collect();
    of_claims.sort();
    living.sort();
    assert_eq!(of_claims, living, "{:?}", bench.told.lines());
}

#[test]
fn order_is_claim_with_token_before_launch_and_instance_after() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        launcher.do_send(launch(&["default-a"]));
        bench.pass(10.0).await;
        one_to_one(&bench);
        let claim = bench.claim_now("default-a");
        let token = claim.annotations()["dovetail.dev/launch-token"].clone();
        assert_eq!(bench.sky.inner.calls()[0].token, token);
        assert_eq!(claim.labels()["node.kubernetes.io/instance-type"], "m5.large");
        assert!(bench.heard.count::<LaunchedOffering>() == 1 && bench.heard.count::<InstanceKnown>() >= 1);
        assert_eq!(state(&bench, &launcher).await.ends["launched"], 1);
        assert!(bench.told.count("nodeclaim_created") == 1 && bench.told.count("launched") == 1);
    });
}

#[test]
fn the_same_order_twice_is_one_claim() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        launcher.do_send(launch(&["default-a", "default-a"]));
        launcher.do_send(launch(&["default-a"]));
        bench.pass(10.0).await;
        one_to_one(&bench);
        assert_eq!(claims(&bench), ["default-a"]);
    });
}

#[test]
fn an_order_of_an_older_term_is_not_carried_out() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        launcher.do_send(LaunchClaims { term: Term(TERM.0 - 1), ..launch(&["default-a"]) });
        bench.pass(10.0).await;
        assert_eq!(claims(&bench), [""; 0]);
    });
}

#[test]
fn no_more_than_twenty_are_launched_at_once_and_all_in_the_end() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        let names: Vec<String> = (0..60).map(|n| format!("default-{n:02}")).collect();
        bench.pass(1.0).await;
        launcher.do_send(launch(&names.iter().map(String::as_str).collect::<Vec<_>>()));
        bench.pass(0.5).await;
        let now = state(&bench, &launcher).await;
        assert_eq!((now.running, now.queued), (20, 40));
        bench.pass(30.0).await;
        one_to_one(&bench);
        assert_eq!(claims(&bench).len(), 60);
    });
}

#[test]
fn lost_answers_of_the_api_server_make_nothing_twice() {
    for (method, path) in
        [("POST", "/nodeclaims"), ("PATCH", "/nodeclaims/default-a"), ("PATCH", "/nodeclaims/default-a/status")]
    {
        with_pool(async |bench| {
            let launcher = start(&bench);
            bench.wire.next(method, path, 1, Act::Lose);
            launcher.do_send(launch(&["default-a"]));
            bench.pass(30.0).await;
            one_to_one(&bench);
            assert_eq!(bench.sky.count("launch"), 1, "{method} {path}");
        });
    }
}

#[test]
fn whatever_ec2_answers_one_claim_has_one_instance() {
    for spoil in [Spoil::MadeAndLost, Spoil::LostBefore, Spoil::Hangs, Spoil::Throttled] {
        with_pool(async |bench| {
            let launcher = start(&bench);
            bench.sky.inner.spoil([spoil]);
            launcher.do_send(launch(&["default-a"]));
            bench.pass(240.0).await;
            one_to_one(&bench);
            assert_eq!(bench.sky.inner.living().len(), 1, "{spoil:?}");
            assert_eq!(state(&bench, &launcher).await.running, 0, "{spoil:?}");
        });
    }
}

#[test]
fn sold_out_is_said_before_the_claim_goes_and_packed_anew() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.sky.inner.spoil([Spoil::SoldOut]);
        launcher.do_send(launch(&["default-a"]));
        bench.pass(10.0).await;
        assert_eq!((claims(&bench).len(), bench.sky.inner.living().len()), (0, 0));
        assert!(!bench.heard.last::<Refused>().refusals.is_empty());
        let names = bench.heard.names();
        let at = |name| names.iter().rposition(|one| *one == name).unwrap_or_else(|| panic!("{name}: {names:?}"));
        assert!(at("ClaimSoldOut") < at("PackNow"), "{names:?}");
        assert_eq!((bench.heard.count::<ClaimSoldOut>(), bench.heard.count::<PackNow>(), not_made(&bench)), (1, 1, 1));
    });
}

#[test]
fn refused_creation_is_given_up_and_not_retried_at_once() {
    for code in [403, 422] {
        with_pool(async |bench| {
            let launcher = start(&bench);
            bench.wire.refuse("POST", "/nodeclaims", usize::MAX, code);
            launcher.do_send(launch(&["default-a"]));
            bench.pass(30.0).await;
            assert_eq!((not_made(&bench), bench.sky.count("launch")), (1, 0), "{code}");
            assert_eq!(bench.wire.count("POST", "/nodeclaims"), 1, "{code}");
            assert_eq!(bench.told.count("launch_failed"), 1, "{code}");
            assert_eq!(state(&bench, &launcher).await.ends["refused"], 1, "{code}");
        });
    }
}

#[test]
fn absent_api_server_voids_plans_and_launches_nothing_late() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.pass(1.0).await;
        bench.wire.refuse("POST", "/nodeclaims", usize::MAX, 503);
        launcher.do_send(launch(&["default-a", "default-b"]));
        bench.pass(30.0).await;
        bench.wire.heal();
        bench.pass(60.0).await;
        assert_eq!((claims(&bench).len(), bench.sky.count("launch")), (0, 0), "what was planned then is planned anew");
        assert_eq!(not_made(&bench), 2);
        assert!(bench.heard.count::<PackNow>() >= 1);
    });
}

#[test]
fn a_term_that_ends_before_the_call_calls_nothing() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.wire.next("PATCH", "/nodeclaims/default-a", 1, Act::Late(seconds(3)));
        launcher.do_send(launch(&["default-a"]));
        bench.pass(2.0).await;
        bench.term.end();
        bench.pass(120.0).await;
        assert_eq!(bench.sky.count("launch"), 0);
        assert_eq!(claims(&bench), ["default-a"], "a successor goes on with it");
    });
}

#[test]
fn claim_begun_by_earlier_leader_is_looked_for_before_launch() {
    with_pool(async |bench| {
        let claim = bench.launched("default-1", 1, &[]);
        bench.api.patch_status(&NODE_CLAIMS, "", "default-1", &json!({"status": {"providerID": ""}})).unwrap();
        let term = json!({"metadata": {"annotations": {"dovetail.dev/term": "2"}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-1", &term).unwrap();
        bench.show();
        let launcher = start(&bench);
        launcher.do_send(ClaimChanged(bench.claim_now("default-1")));
        bench.pass(30.0).await;
        one_to_one(&bench);
        assert_eq!((bench.sky.count("launch"), bench.told.count("adopted")), (0, 1), "{:?}", claim.uid());
    });
}

#[test]
fn unneeded_claim_of_earlier_leader_goes_unlaunched() {
    with_pool(async |bench| {
        bench.claim_with("left", json!({"dovetail.dev/term": "2"}));
        bench.show();
        let launcher = start(&bench);
        launcher.do_send(ClaimChanged(bench.claim_now("left")));
        bench.pass(60.0).await;
        assert_eq!(bench.sky.count("launch"), 0);
        let goes = claims(&bench).is_empty() || bench.claim_now("left").metadata.deletion_timestamp.is_some();
        assert!(goes, "{:?}", bench.told.lines());
    });
}

#[test]
fn claim_of_earlier_leader_with_expected_pod_is_launched() {
    with_pool(async |bench| {
        bench.claim_with("left", json!({"dovetail.dev/term": "2"}));
        let uid = bench.pod("web", None);
        bench.show();
        bench
            .heard
            .cluster(|state| state.nominate([uid.as_str()], &NominationTarget::Claim("left".into()), seconds(100_000)));
        let launcher = start(&bench);
        launcher.do_send(ClaimChanged(bench.claim_now("left")));
        bench.pass(60.0).await;
        one_to_one(&bench);
        assert_eq!(claims(&bench), ["left"]);
    });
}

#[test]
fn missing_or_unresolved_class_launches_nothing_and_says_so() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        let mut of_nothing = order("default-a");
        of_nothing.claim.spec.node_class_ref.name = "no-such".into();
        launcher.do_send(LaunchClaims { term: TERM, orders: vec![of_nothing], trace: trace(1) });
        bench.pass(15.0).await;
        assert_eq!((bench.sky.count("launch"), claims(&bench).len()), (0, 0));
        let told = bench.told.lines();
        assert!(told.iter().any(|line| line.contains("its EC2NodeClass is not there or not resolved")), "{told:?}");
    });
}

#[test]
fn a_name_that_is_taken_by_somebody_else_is_not_taken_over() {
    with_pool(async |bench| {
        bench.claim_with("default-a", json!({"dovetail.dev/traceparent": "00-9-9-01"}));
        let launcher = start(&bench);
        launcher.do_send(launch(&["default-a"]));
        bench.pass(30.0).await;
        assert_eq!(bench.sky.count("launch"), 0);
        assert_eq!(provider_id(&bench, "default-a"), "");
    });
}

#[test]
fn claim_with_cleared_status_is_looked_for_less_and_less_often() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        launcher.do_send(launch(&["default-a"]));
        bench.pass(10.0).await;
        for _ in 0..300 {
            bench
                .api
                .patch_status(&NODE_CLAIMS, "", "default-a", &json!({"status": {"providerID": "", "conditions": []}}))
                .unwrap();
            launcher.do_send(ClaimChanged(bench.claim_now("default-a")));
            bench.pass(1.0).await;
        }
        bench.pass(120.0).await;
        one_to_one(&bench);
        assert_eq!(bench.sky.count("launch"), 1, "its instance is found by its token");
        let looks = bench.sky.count("instances_with_token");
        assert!(looks <= 60, "{looks} looks in five minutes");
    });
}

#[test]
fn subnet_without_addresses_is_skipped_where_another_has_some() {
    with_pool(async |bench| {
        bench.heard.full_subnets(&["subnet-us-east-1a", "subnet-of-nobody"]);
        let launcher = start(&bench);
        launcher.do_send(launch(&["default-a"]));
        bench.pass(10.0).await;
        let asked = bench.sky.inner.calls()[0].node_class.status.clone().unwrap();
        assert_eq!(asked.subnets.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["subnet-us-east-1b"]);
        // In none there is any: it is for EC2 to say so.
        bench.heard.full_subnets(&["subnet-us-east-1a", "subnet-us-east-1b"]);
        launcher.do_send(launch(&["default-b"]));
        bench.pass(10.0).await;
        assert_eq!(bench.sky.inner.calls()[1].node_class.status.as_ref().unwrap().subnets.len(), 2);
    });
}
