//! The translator: what alpha objects mean is kept in step, and neither a server that refuses nor anybody else is fought.

use actix::prelude::*;
use dovetail_actors::messages::{ActorState, TranslatorState};
use dovetail_actors::translator::Translator;
use dovetail_sandbox::apiserver::{CUSTOM_RESOURCE_DEFINITIONS, DeleteOptions, EC2_NODE_CLASSES, Gvr, NODE_POOLS};
use serde_json::{Value, json};

use crate::alone::wire::Act;
use crate::alone::{Alone, Fails, alone};

fn provisioners() -> Gvr {
    Gvr::new("karpenter.sh", "v1alpha5", "provisioners")
}

fn templates() -> Gvr {
    Gvr::new("karpenter.k8s.aws", "v1alpha1", "awsnodetemplates")
}

fn start(bench: &Alone) -> Addr<Translator> {
    let (cluster, recorder) = (bench.ear.clone().into(), bench.ear.clone().into());
    bench.start(Translator::new(&bench.env, bench.sky.clone(), bench.calls("translator"), cluster, recorder))
}

fn serve_alpha(bench: &Alone) {
    for crd in dovetail_api::crds::alpha_crds() {
        bench.api.create(&CUSTOM_RESOURCE_DEFINITIONS, "", serde_json::to_value(crd).unwrap()).unwrap();
    }
}

fn with_alpha(test: impl AsyncFnOnce(Alone, Addr<Translator>)) {
    alone(|bench| async move {
        serve_alpha(&bench);
        let actor = start(&bench);
        test(bench, actor).await;
    });
}

fn template(bench: &Alone, name: &str) {
    let object = json!({"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": {"name": name},
        "spec": {"subnetSelector": {"karpenter.sh/discovery": "demo"}, "securityGroupSelector": {"karpenter.sh/discovery": "demo"}}});
    bench.api.create(&templates(), "", object).unwrap();
}

fn provisioner(bench: &Alone, name: &str, template: &str) {
    let object = json!({"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": name},
        "spec": {"providerRef": {"name": template}, "ttlSecondsAfterEmpty": 30}});
    bench.api.create(&provisioners(), "", object).unwrap();
}

/// Time passes, and the watches of v1 show what was written.
async fn go_on(bench: &Alone, seconds: u32) {
    for _ in 0..seconds {
        bench.show();
        bench.pass(1.0).await;
    }
}

fn pool(bench: &Alone, name: &str) -> Option<Value> {
    bench.api.get(&NODE_POOLS, "", name).map(|pool| (*pool).clone())
}

async fn state(bench: &Alone, actor: &Addr<Translator>) -> TranslatorState {
    match bench.state(actor).await {
        ActorState::Translator(state) => state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_alpha_pair_becomes_a_pool_and_a_class_once() {
    with_alpha(async |bench, actor| {
        template(&bench, "mine");
        provisioner(&bench, "blue", "mine");
        go_on(&bench, 30).await;
        assert!(bench.is_there(&EC2_NODE_CLASSES, "mine"), "{:?}", bench.told.lines());
        assert_eq!(pool(&bench, "blue").unwrap()["spec"]["template"]["spec"]["nodeClassRef"]["name"], "mine");
        assert_eq!(state(&bench, &actor).await.watched.len(), 3);
        bench.wire.forget();
        go_on(&bench, 120).await;
        assert_eq!(bench.wire.writes(), [""; 0], "what is in step is not written again");
        assert_eq!(bench.told.count("translated"), 2);
    });
}

#[test]
fn where_alpha_is_not_served_it_is_looked_for_once_a_minute() {
    alone(|bench| async move {
        let actor = start(&bench);
        go_on(&bench, 300).await;
        let asked = bench.wire.count("GET", "/apis/karpenter.sh/v1alpha5");
        assert!((4..=8).contains(&asked), "{asked} in five minutes");
        serve_alpha(&bench);
        template(&bench, "mine");
        provisioner(&bench, "blue", "mine");
        go_on(&bench, 90).await;
        assert!(pool(&bench, "blue").is_some(), "{:?}", state(&bench, &actor).await);
    });
}

#[test]
fn a_pool_whose_creation_is_refused_is_tried_ever_less_often() {
    for code in [403, 422] {
        with_alpha(async |bench, _actor| {
            bench.wire.refuse("POST", "/nodepools", usize::MAX, code);
            template(&bench, "mine");
            provisioner(&bench, "blue", "mine");
            go_on(&bench, 600).await;
            let tries = bench.wire.count("POST", "/nodepools");
            assert!((3..=15).contains(&tries), "{code}: {tries} in ten minutes");
            assert!(bench.is_there(&EC2_NODE_CLASSES, "mine"), "{code}: one object keeps no other");
            bench.wire.heal();
            go_on(&bench, 320).await;
            assert!(pool(&bench, "blue").is_some(), "{code}");
        });
    }
}

#[test]
fn recreated_object_does_not_inherit_wait_of_its_namesake() {
    with_alpha(async |bench, _actor| {
        template(&bench, "mine");
        bench.wire.refuse("POST", "/nodepools", usize::MAX, 422);
        provisioner(&bench, "blue", "mine");
        go_on(&bench, 600).await;
        assert!(pool(&bench, "blue").is_none());
        for (kind, name) in [(provisioners(), "blue"), (templates(), "mine")] {
            bench.api.delete(&kind, "", name, &DeleteOptions::default()).unwrap();
        }
        go_on(&bench, 5).await;
        bench.wire.heal();
        template(&bench, "mine");
        provisioner(&bench, "blue", "mine");
        go_on(&bench, 20).await;
        assert!(pool(&bench, "blue").is_some(), "{:?}", bench.told.lines());
    });
}

#[test]
fn who_writes_the_same_pool_is_not_fought_in_a_loop() {
    with_alpha(async |bench, _actor| {
        template(&bench, "mine");
        provisioner(&bench, "blue", "mine");
        go_on(&bench, 20).await;
        bench.wire.forget();
        for _ in 0..300 {
            let theirs = json!({"spec": {"weight": 77}});
            bench.api.patch(&NODE_POOLS, "", "blue", &theirs).unwrap();
            go_on(&bench, 2).await;
        }
        let writes = bench.wire.writes().iter().filter(|one| one.contains("/nodepools/blue")).count();
        assert!(writes <= 20, "{writes} in ten minutes");
    });
}

#[test]
fn a_change_of_the_alpha_object_is_taken_over_at_once() {
    with_alpha(async |bench, _actor| {
        template(&bench, "mine");
        provisioner(&bench, "blue", "mine");
        go_on(&bench, 20).await;
        bench.api.patch(&provisioners(), "", "blue", &json!({"spec": {"weight": 7}})).unwrap();
        go_on(&bench, 3).await;
        assert_eq!(pool(&bench, "blue").unwrap()["spec"]["weight"], 7);
    });
}

#[test]
fn pool_of_that_name_that_is_no_translation_is_left_as_it_is() {
    with_alpha(async |bench, actor| {
        bench.class("mine");
        bench.pool_of("blue", json!({"weight": 50}));
        let before = pool(&bench, "blue").unwrap()["spec"].clone();
        template(&bench, "other");
        provisioner(&bench, "blue", "other");
        go_on(&bench, 60).await;
        assert_eq!(pool(&bench, "blue").unwrap()["spec"], before);
        assert!(bench.told.count("not_translated") == 1, "{:?} {:?}", bench.told.lines(), state(&bench, &actor).await);
    });
}

#[test]
fn while_the_cluster_is_not_known_nothing_is_made() {
    with_alpha(async |bench, _actor| {
        bench.heard.knows(false, false);
        template(&bench, "mine");
        provisioner(&bench, "blue", "mine");
        go_on(&bench, 60).await;
        assert!(pool(&bench, "blue").is_none() && bench.wire.writes().is_empty(), "{:?}", bench.wire.writes());
        bench.heard.knows(true, true);
        go_on(&bench, 40).await;
        assert!(pool(&bench, "blue").is_some());
    });
}

#[test]
fn unknown_meaning_makes_nothing_and_is_logged_once() {
    with_alpha(async |bench, _actor| {
        bench.sky.always("subnet_has_tag", Some(Fails::Never));
        template(&bench, "mine");
        provisioner(&bench, "blue", "mine");
        go_on(&bench, 120).await;
        assert!(pool(&bench, "blue").is_none() && bench.wire.writes().is_empty(), "{:?}", bench.wire.writes());
        let said = bench.told.lines();
        let waits: Vec<_> =
            said.iter().filter(|line| line.contains("what Provisioners and AWSNodeTemplates mean")).collect();
        assert!(waits.len() == 1, "{said:?}");
        bench.sky.always("subnet_has_tag", None);
        go_on(&bench, 40).await;
        assert!(pool(&bench, "blue").is_some(), "{:?}", bench.told.lines());
    });
}

#[test]
fn after_the_term_nothing_is_made() {
    with_alpha(async |bench, _actor| {
        go_on(&bench, 5).await;
        bench.term.end();
        template(&bench, "mine");
        provisioner(&bench, "blue", "mine");
        go_on(&bench, 60).await;
        assert!(bench.wire.writes().is_empty(), "{:?}", bench.wire.writes());
    });
}

#[test]
fn an_alpha_object_that_goes_is_forgotten() {
    with_alpha(async |bench, actor| {
        template(&bench, "mine");
        go_on(&bench, 20).await;
        assert_eq!(state(&bench, &actor).await.told.len(), 1);
        bench.api.delete(&templates(), "", "mine", &DeleteOptions::default()).unwrap();
        template(&bench, "other");
        go_on(&bench, 20).await;
        let told = state(&bench, &actor).await.told;
        assert!(told.len() == 1 && told.keys().all(|name| name.contains("other")), "{told:?}");
    });
}

#[test]
fn refused_pool_leaves_its_class_and_names_provisioner_field() {
    with_alpha(async |bench, _actor| {
        let spec = json!({"provider": {"subnetSelector": {"a": "b"}}, "weight": 7});
        let object = json!({"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "own"}, "spec": spec});
        bench.api.create(&provisioners(), "", object).unwrap();
        go_on(&bench, 20).await;
        let before = bench.api.get(&EC2_NODE_CLASSES, "", "own").unwrap()["spec"].clone();

        let refusal = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422,
            "message": "NodePool.karpenter.sh \"own\" is invalid: spec.template.spec.requirements[0].key: Invalid value"});
        bench.wire.next("PUT", "/nodepools/own", usize::MAX, Act::Answer(422, refusal));
        let change = json!({"spec": {"provider": {"subnetSelector": {"a": "c"}}, "weight": 9}});
        bench.api.patch(&provisioners(), "", "own", &change).unwrap();
        go_on(&bench, 60).await;
        assert_eq!(bench.api.get(&EC2_NODE_CLASSES, "", "own").unwrap()["spec"], before);
        assert_eq!(pool(&bench, "own").unwrap()["spec"]["weight"], 7);
        let all = bench.api.get(&provisioners(), "", "own").unwrap()["status"]["conditions"].clone();
        let said = all.as_array().unwrap().iter().find(|one| one["type"] == "dovetail.dev/Translated").unwrap();
        let message = said["message"].as_str().unwrap();
        assert!(message.contains(" spec.requirements[0].key: Invalid value"), "{message}");

        bench.wire.heal();
        go_on(&bench, 320).await;
        assert_ne!(bench.api.get(&EC2_NODE_CLASSES, "", "own").unwrap()["spec"], before);
        assert_eq!(pool(&bench, "own").unwrap()["spec"]["weight"], 9);
    });
}
