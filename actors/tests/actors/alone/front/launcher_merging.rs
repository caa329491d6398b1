//! Launches that ask for the same: one call, its token on each claim before, and an instance for each, whatever is lost.

use std::rc::Rc;
use std::time::Duration;

use dovetail_actors::messages::{ClaimChanged, InstanceKnown, Record};
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::LaunchPace;
use dovetail_core::ownership::part_on;
use dovetail_core::ownership::token::{is_shared, share};
use dovetail_sandbox::apiserver::NODE_CLAIMS;
use kube::ResourceExt as _;
use serde_json::json;

use super::launcher::{claims, launch, one_to_one, start, state, with_pool};
use crate::alone::Alone;
use crate::world::Spoil;

const TWO: [&str; 2] = ["default-a", "default-b"];

/// Claims of an earlier leader's call for two, whose token is on both.
fn left_by_another(bench: &Alone) -> String {
    let claims: Vec<_> = TWO.iter().map(|name| bench.claim_with(name, json!({"dovetail.dev/term": "2"}))).collect();
    let uids: Vec<String> = claims.iter().map(|claim| claim.metadata.uid.clone().unwrap()).collect();
    let parts = share(uids.iter().map(String::as_str), 1);
    for (name, part) in TWO.iter().zip(&parts) {
        let place = part.place.as_ref().unwrap().to_string();
        let written = json!({"dovetail.dev/launch-token": part.token, "dovetail.dev/launch-place": place});
        bench.api.patch(&NODE_CLAIMS, "", name, &json!({"metadata": {"annotations": written}})).unwrap();
    }
    bench.show();
    parts[0].token.clone()
}

fn instance(bench: &Alone, id: u64, token: &str) {
    let tags = [
        ("dovetail.dev/launch-token", token),
        ("dovetail.dev/cluster-uid", "uid-of-this-cluster"),
        ("karpenter.sh/nodepool", "default"),
    ];
    bench.sky.inner.strange(&format!("i-{id:017x}"), &tags);
}

fn instance_of(bench: &Alone, name: &str) -> String {
    bench.claim_now(name).status.as_ref().map(|status| status.provider_id.clone()).unwrap_or_default()
}

#[test]
fn equal_orders_are_one_call_with_its_token_on_each_claim() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        launcher.do_send(launch(&TWO));
        bench.pass(10.0).await;
        one_to_one(&bench);
        let calls = bench.sky.inner.calls();
        assert_eq!(calls.len(), 1, "{:?}", bench.told.lines());
        let parts = TWO.map(|name| part_on(&bench.claim_now(name)).unwrap());
        assert!(parts.iter().all(|part| part.token == calls[0].token && is_shared(&part.token)));
        assert_ne!(parts[0].place, parts[1].place);
        assert!(bench.heard.count::<InstanceKnown>() >= 2 && bench.told.count("launched") == 2);
        assert_eq!(state(&bench, &launcher).await.ends["launched"], 2);
    });
}

#[test]
fn call_is_made_when_its_tokens_are_there_and_that_is_said_once() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.sky.paces(LaunchPace { wait: Duration::from_secs(100), at_once: 1000.0, per_second: 2.0 });
        launcher.do_send(launch(&TWO));
        bench.pass(95.0).await;
        assert_eq!(bench.sky.count("launch"), 0, "no call waits for longer than it may take");
        bench.pass(10.0).await;
        one_to_one(&bench);
        assert_eq!(bench.sky.count("launch"), 1, "nothing is in doubt");
        assert_eq!(bench.told.count("launches_paced"), 1, "{:?}", bench.told.lines());
        let said = |record: &Rc<Record>| record.reason == "LaunchesPaced";
        let said: Vec<Rc<Record>> = bench.heard.all::<Record>().into_iter().filter(said).collect();
        assert_eq!(said.len(), 1);
        let words =
            "launching 2 for nodepool default: EC2 allows 2 a second after the first 1000; ask AWS for a higher limit";
        assert!(said[0].message.starts_with(words), "{}", said[0].message);
    });
}

#[test]
fn claim_deleted_before_its_tokens_are_there_is_not_launched() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        bench.sky.paces(LaunchPace { wait: Duration::from_secs(100), at_once: 1000.0, per_second: 2.0 });
        launcher.do_send(launch(&TWO));
        bench.pass(50.0).await;
        bench.delete(&NODE_CLAIMS, "default-b");
        bench.sky.paces(LaunchPace::default());
        bench.pass(60.0).await;
        assert_eq!((bench.sky.count("launch"), bench.sky.inner.living().len()), (1, 1));
        assert!(!instance_of(&bench, "default-a").is_empty());
    });
}

#[test]
fn orders_that_ask_for_something_else_are_calls_of_their_own() {
    with_pool(async |bench| {
        let launcher = start(&bench);
        let mut orders = launch(&["default-a", "default-b", "default-c"]);
        let small = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.xlarge"]}]);
        orders.orders[1].claim.spec.requirements = serde_json::from_value(small).unwrap();
        launcher.do_send(orders);
        bench.pass(10.0).await;
        one_to_one(&bench);
        let shared: Vec<bool> = bench.sky.inner.calls().iter().map(|call| is_shared(&call.token)).collect();
        assert_eq!((shared.len(), shared.iter().filter(|shared| **shared).count()), (2, 1));
        assert_eq!(bench.claim_now("default-b").labels()["node.kubernetes.io/instance-type"], "m5.xlarge");
    });
}

#[test]
fn whatever_ec2_answers_each_claim_of_a_call_has_one_instance() {
    for spoil in [Spoil::MadeAndLost, Spoil::LostBefore, Spoil::Hangs, Spoil::Throttled] {
        with_pool(async |bench| {
            let launcher = start(&bench);
            bench.sky.inner.spoil([spoil]);
            launcher.do_send(launch(&TWO));
            bench.pass(240.0).await;
            one_to_one(&bench);
            assert_eq!(bench.sky.inner.living().len(), 2, "{spoil:?}");
            assert_eq!(state(&bench, &launcher).await.running, 0, "{spoil:?}");
            let tokens: Vec<String> = bench.sky.inner.calls().iter().map(|call| call.token.clone()).collect();
            assert!(tokens.windows(2).all(|pair| pair[0] == pair[1]), "{spoil:?}: {tokens:?}");
        });
    }
}

#[test]
fn successor_divides_what_an_earlier_leader_launched_for_two() {
    with_pool(async |bench| {
        let token = left_by_another(&bench);
        instance(&bench, 1, &token);
        let launcher = start(&bench);
        TWO.iter().for_each(|name| launcher.do_send(ClaimChanged(bench.claim_now(name))));
        // The other is listed late.
        bench.pass(5.0).await;
        instance(&bench, 2, &token);
        bench.pass(30.0).await;
        one_to_one(&bench);
        assert_eq!((bench.sky.count("launch"), bench.told.count("adopted")), (0, 2), "{:?}", bench.told.lines());
        let term = |name: &str| bench.claim_now(name).annotations()["dovetail.dev/term"].clone();
        assert_eq!(TWO.map(term), ["3", "3"], "what the earlier leader still sends is refused");
    });
}

#[test]
fn instance_that_a_claim_has_is_given_to_no_other() {
    with_pool(async |bench| {
        let token = left_by_another(&bench);
        instance(&bench, 1, &token);
        let written = json!({"status": {"providerID": "aws:///us-east-1a/i-00000000000000001"}});
        bench.api.patch_status(&NODE_CLAIMS, "", "default-b", &written).unwrap();
        bench.show();
        let launcher = start(&bench);
        launcher.do_send(ClaimChanged(bench.claim_now("default-a")));
        bench.pass(240.0).await;
        let own = instance_of(&bench, "default-a");
        assert!(!own.is_empty() && own != instance_of(&bench, "default-b"), "{own}");
        assert_eq!(bench.sky.count("launch"), 1, "after a minute another attempt is made");
    });
}

#[test]
fn deleted_claim_of_a_call_for_two_is_given_its_instance() {
    with_pool(async |bench| {
        let token = left_by_another(&bench);
        instance(&bench, 1, &token);
        instance(&bench, 2, &token);
        bench.delete(&NODE_CLAIMS, "default-b");
        bench.show();
        let launcher = start(&bench);
        TWO.iter().for_each(|name| launcher.do_send(ClaimChanged(bench.claim_now(name))));
        bench.pass(10.0).await;
        one_to_one(&bench);
        let goes = |claim: NodeClaim| claim.metadata.deletion_timestamp.is_some();
        assert!(goes((*bench.claim_now("default-b")).clone()) && claims(&bench).len() == 2);
        assert_eq!(bench.sky.count("launch"), 0);
    });
}
