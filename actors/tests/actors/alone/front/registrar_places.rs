//! The registrar and places that are kept: pods that are planned for a node are nominated to it while it starts; nothing waits
//! long for that.

use actix::prelude::*;
use dovetail_actors::messages::ClaimChanged;
use dovetail_actors::registrar::Registrar;
use dovetail_core::cluster_state::NominationTarget;
use dovetail_sandbox::apiserver::{NODE_CLAIMS, PODS};
use serde_json::{Value, json};

use super::registrar::{show, start};
use crate::alone::objects::node_name;
use crate::alone::{Alone, alone, seconds};

/// Two pods that differ wait; the larger is expected on a claim whose Node joins now.
fn expected(bench: &Alone, actor: &Addr<Registrar>) {
    let claim = bench.launched("default-1", 1, &["Launched"]);
    actor.do_send(ClaimChanged(claim.clone()));
    actor.do_send(bench.marks(&claim, 1));
    let uid = bench.pod_of("large", None, "1");
    bench.pod_of("small", None, "100m");
    bench.joined(1);
    bench.show();
    let target = NominationTarget::Claim("default-1".into());
    bench.heard.cluster(|state| state.nominate([uid.as_str()], &target, seconds(1_000_000_000)));
    show(bench, actor, 1);
}

fn nominated(bench: &Alone, pod: &str) -> Value {
    bench.api.get(&PODS, "default", pod).unwrap()["status"]["nominatedNodeName"].clone()
}

fn is_registered(bench: &Alone) -> bool {
    let claim = bench.api.get(&NODE_CLAIMS, "", "default-1").unwrap();
    claim["status"]["conditions"].to_string().contains("\"Registered\"")
}

/// Time passes, and the watches show what there is.
async fn go_on(bench: &Alone, actor: &Addr<Registrar>, seconds: u32) {
    for _ in 0..2 * seconds {
        show(bench, actor, 1);
        bench.pass(0.5).await;
    }
}

#[test]
fn pod_is_nominated_to_the_node_that_was_planned_for_it() {
    alone(|bench| async move {
        let actor = start(&bench);
        expected(&bench, &actor);
        go_on(&bench, &actor, 5).await;
        assert!(is_registered(&bench), "{:?}", bench.told.lines());
        assert_eq!((nominated(&bench, "large"), nominated(&bench, "small")), (node_name(1).into(), Value::Null));
    });
}

#[test]
fn withdrawn_nomination_is_repeated_until_the_node_is_ready() {
    alone(|bench| async move {
        let actor = start(&bench);
        expected(&bench, &actor);
        go_on(&bench, &actor, 5).await;
        bench.pod_status("large", json!({"nominatedNodeName": null}));
        go_on(&bench, &actor, 5).await;
        assert_eq!(nominated(&bench, "large"), node_name(1));
        // kube-scheduler may have tried the pod just before the node was ready.
        bench.kubelet(1, "True");
        show(&bench, &actor, 1);
        bench.pass(0.5).await;
        bench.pod_status("large", json!({"nominatedNodeName": null}));
        go_on(&bench, &actor, 1).await;
        assert_eq!(nominated(&bench, "large"), node_name(1));
        // A moment later that is kube-scheduler's again.
        go_on(&bench, &actor, 5).await;
        bench.pod_status("large", json!({"nominatedNodeName": null}));
        go_on(&bench, &actor, 30).await;
        assert_eq!(nominated(&bench, "large"), Value::Null);
    });
}

#[test]
fn forbidden_nominations_open_nodes_all_the_same() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.wire.forbid("PATCH", "/pods/", usize::MAX);
        expected(&bench, &actor);
        go_on(&bench, &actor, 60).await;
        assert!(is_registered(&bench), "{:?}", bench.told.lines());
        let asked = bench.wire.count("PATCH", "/pods/");
        assert!((6..=8).contains(&asked), "{asked}: a server that has just started may not know all roles");
        assert_eq!(bench.told.count("places_not_kept"), 1);
        go_on(&bench, &actor, 500).await;
        assert_eq!(bench.wire.count("PATCH", "/pods/"), asked);
    });
}
