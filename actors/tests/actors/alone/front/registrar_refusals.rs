//! The registrar and writes that fail: what is refused is asked for ever more seldom, and a claim has one alarm at a time, however
//! much happens around it.

use actix::prelude::*;
use dovetail_actors::Settings;
use dovetail_actors::messages::NodeChanged;
use dovetail_actors::registrar::Registrar;
use dovetail_sandbox::apiserver::NODE_CLAIMS;

use super::registrar::{joins, show, start};
use crate::alone::wire::Refuses;
use crate::alone::{Alone, alone, alone_with, seconds};

/// A kubelet writes the status of its Node so often, and the watch shows it.
async fn heartbeats(bench: &Alone, actor: &Addr<Registrar>, count: u32, apart: f64) {
    for _ in 0..count {
        actor.do_send(NodeChanged(bench.node_now(1)));
        bench.pass(apart).await;
    }
}

#[test]
fn refused_deletion_of_given_up_claim_is_asked_less_often() {
    for refuses in Refuses::WRITES {
        let short = Settings { initialization_timeout: Some(seconds(300)), ..Settings::default() };
        alone_with(short, |bench| async move {
            let actor = start(&bench);
            joins(&bench, &actor, 1);
            bench.pass(2.0).await;
            show(&bench, &actor, 1);
            refuses.begin(&bench.wire, "DELETE", "/nodeclaims/");
            bench.pass(300.0).await;
            heartbeats(&bench, &actor, 900, 1.0).await;
            let asked = bench.wire.count("DELETE", "/nodeclaims/default-1");
            assert!((8..=refuses.most(35, 25)).contains(&asked), "{refuses:?}: {asked} times in a quarter of an hour");
            assert_eq!((bench.told.count("gave_up"), bench.records("InitializationTimeout").len()), (1, 1));
            bench.wire.heal();
            bench.pass(70.0).await;
            assert!(bench.claim_now("default-1").metadata.deletion_timestamp.is_some(), "{refuses:?}");
        });
    }
}

#[test]
fn claim_with_failing_writes_is_looked_at_once_a_second() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.wire.refuse("PATCH", "/nodeclaims/default-1/status", usize::MAX, 409);
        joins(&bench, &actor, 1);
        // Each time it is tried again, and fails.
        heartbeats(&bench, &actor, 300, 0.2).await;
        let before = bench.wire.count("PATCH", "/nodeclaims/default-1/status");
        bench.pass(60.0).await;
        let asked = bench.wire.count("PATCH", "/nodeclaims/default-1/status") - before;
        assert!((50..=70).contains(&asked), "{asked} times in a minute");
        bench.wire.heal();
        bench.pass(3.0).await;
        let claim = bench.api.get(&NODE_CLAIMS, "", "default-1").unwrap();
        assert!(claim["status"]["conditions"].to_string().contains("Registered"), "{}", claim["status"]);
    });
}
