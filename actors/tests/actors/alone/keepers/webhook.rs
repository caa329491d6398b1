//! The conversion webhook: one writes its certificates, every replica serves them, and who undoes them is not fought.

use std::sync::{Arc, Mutex};

use actix::prelude::*;
use dovetail_actors::context::leader_term::Office;
use dovetail_actors::messages::{ActorState, WebhookState};
use dovetail_actors::webhook::Webhook;
use dovetail_sandbox::apiserver::{CUSTOM_RESOURCE_DEFINITIONS, SECRETS};
use serde_json::{Value, json};

use crate::alone::{Alone, alone};
use crate::webhook::Texts;

const SECRET: &str = "dovetail-webhook";
const POOLS: &str = "nodepools.karpenter.sh";

fn start(bench: &Alone, texts: &Arc<Texts>, leads: bool) -> Addr<Webhook> {
    let office = Office::default();
    office.set(leads.then(|| bench.term.clone()));
    bench.start(Webhook::new(&bench.env, bench.client(), texts.clone(), office))
}

fn secret(bench: &Alone) -> Option<Value> {
    bench.api.get(&SECRETS, "kube-system", SECRET).map(|secret| secret["data"].clone())
}

fn bundle(bench: &Alone, name: &str) -> String {
    let crd = bench.api.get(&CUSTOM_RESOURCE_DEFINITIONS, "", name).unwrap();
    crd["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"].as_str().unwrap_or_default().to_owned()
}

async fn state(bench: &Alone, webhook: &Addr<Webhook>) -> WebhookState {
    match bench.state(webhook).await {
        ActorState::Webhook(state) => state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_leader_makes_keeps_serves_and_has_it_trusted() {
    alone(|bench| async move {
        let texts = Arc::new(Texts::default());
        let webhook = start(&bench, &texts, true);
        bench.pass(60.0).await;
        assert_eq!((texts.made(), texts.served()), (1, 1));
        assert!(secret(&bench).is_some() && !bundle(&bench, POOLS).is_empty());
        assert!(state(&bench, &webhook).await.serves_until.is_some());
        bench.wire.forget();
        bench.pass(3600.0).await;
        assert_eq!(bench.wire.writes(), [""; 0], "what stands is not written again");
    });
}

#[test]
fn a_standby_serves_what_the_leader_keeps_and_writes_nothing() {
    alone(|bench| async move {
        let (first, second) = (Arc::new(Texts::default()), Arc::new(Texts::default()));
        let standby = start(&bench, &second, false);
        bench.pass(60.0).await;
        assert_eq!((second.served(), bench.wire.writes().len()), (0, 0), "there is none to serve yet");
        let _leader = start(&bench, &first, true);
        bench.pass(60.0).await;
        assert_eq!((second.served(), second.made()), (1, 0));
        assert_eq!(*first.served.lock().unwrap(), *second.served.lock().unwrap());
        assert!(state(&bench, &standby).await.serves_until.is_some());
    });
}

#[test]
fn unwritable_secret_is_told_once_and_asked_with_pauses() {
    for code in [403, 422, 500] {
        alone(|bench| async move {
            bench.wire.refuse("POST", "/secrets", usize::MAX, code);
            let texts = Arc::new(Texts::default());
            let _webhook = start(&bench, &texts, true);
            bench.pass(600.0).await;
            let tries = bench.wire.count("POST", "/secrets");
            assert!((10..=60).contains(&tries), "{code}: {tries} in ten minutes");
            assert_eq!((bench.told.count("retrying"), texts.served()), (1, 0), "{code}");
            bench.wire.heal();
            bench.pass(60.0).await;
            assert_eq!((bench.told.count("recovered"), texts.served()), (1, 1), "{code}");
        });
    }
}

#[test]
fn nonsense_in_the_secret_is_replaced_and_nothing_else_of_it() {
    alone(|bench| async move {
        let odd = json!({"metadata": {"name": SECRET, "namespace": "kube-system", "labels": {"team": "platform"}},
            "data": {"tls.crt": "bm9uc2Vuc2U=", "other": "eA=="}});
        bench.api.create(&SECRETS, "kube-system", odd).unwrap();
        let texts = Arc::new(Texts::default());
        let _webhook = start(&bench, &texts, true);
        bench.pass(60.0).await;
        assert_eq!((texts.made(), texts.served()), (1, 1));
        let now = bench.api.get(&SECRETS, "kube-system", SECRET).unwrap();
        assert_eq!(now["metadata"]["labels"]["team"], "platform");
    });
}

#[test]
fn a_certificate_for_other_names_is_not_served() {
    alone(|bench| async move {
        let texts = Arc::new(Texts::default());
        let _webhook = start(&bench, &texts, true);
        bench.pass(60.0).await;
        // A replica of a chart whose Service is called otherwise.
        let others = Arc::new(Texts::default());
        let mut settings = (*bench.env.settings).clone();
        settings.webhook.service = "renamed".into();
        use dovetail_actors::context::env::Env;
        let env = Env::new("replica-9", settings, bench.clock.clone(), bench.told.clone(), 9);
        let _other = bench.start(Webhook::new(&env, bench.client(), others.clone(), Office::default()));
        bench.pass(120.0).await;
        assert_eq!(others.served(), 0);
    });
}

#[test]
fn a_port_that_cannot_be_served_on_is_tried_again() {
    alone(|bench| async move {
        let texts = Arc::new(Texts { fails: Mutex::new(4), ..Texts::default() });
        let _webhook = start(&bench, &texts, true);
        bench.pass(300.0).await;
        assert_eq!((texts.made(), texts.served()), (1, 1), "{:?}", bench.told.lines());
        assert!(bench.told.lines().iter().any(|line| line.contains("the port is taken")));
    });
}

#[test]
fn who_undoes_the_definition_is_not_fought_without_end() {
    alone(|bench| async move {
        let texts = Arc::new(Texts::default());
        let webhook = start(&bench, &texts, true);
        bench.pass(60.0).await;
        bench.wire.forget();
        for _ in 0..300 {
            let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
            bench.api.patch(&CUSTOM_RESOURCE_DEFINITIONS, "", POOLS, &none).unwrap();
            bench.pass(2.0).await;
        }
        let patches = bench.wire.count("PATCH", POOLS);
        assert!((1..=8).contains(&patches), "{patches} in ten minutes");
        let wrong = state(&bench, &webhook).await.definitions;
        assert!(wrong[POOLS].contains("somebody else undoes"), "{wrong:?}");
    });
}

#[test]
fn one_definition_that_is_refused_stops_no_other() {
    alone(|bench| async move {
        bench.wire.refuse("PATCH", POOLS, usize::MAX, 403);
        let texts = Arc::new(Texts::default());
        let _webhook = start(&bench, &texts, true);
        bench.pass(120.0).await;
        assert!(bundle(&bench, POOLS).is_empty() && !bundle(&bench, "nodeclaims.karpenter.sh").is_empty());
        bench.wire.heal();
        bench.pass(1800.0).await;
        assert!(!bundle(&bench, POOLS).is_empty());
    });
}

#[test]
fn a_definition_that_is_not_there_is_told_of_once() {
    alone(|bench| async move {
        bench.delete(&CUSTOM_RESOURCE_DEFINITIONS, POOLS);
        let texts = Arc::new(Texts::default());
        let webhook = start(&bench, &texts, true);
        bench.pass(600.0).await;
        assert_eq!((bench.told.count("webhook_not_defined"), texts.served()), (1, 1), "{:?}", bench.told.lines());
        assert!(state(&bench, &webhook).await.definitions[POOLS].contains("no such definition"));
    });
}

#[test]
fn a_leader_whose_term_ends_in_the_middle_writes_no_more() {
    alone(|bench| async move {
        let texts = Arc::new(Texts::default());
        let _webhook = start(&bench, &texts, true);
        bench.term.end();
        bench.pass(300.0).await;
        assert_eq!((bench.wire.writes().len(), secret(&bench)), (0, None));
    });
}
