//! The end of a node class: after its claims, after what was made for it, and never by half an answer.

use dovetail_sandbox::apiserver::EC2_NODE_CLASSES;
use serde_json::json;

use super::node_class::{is_ready, resolved, show_class, start};
use crate::alone::wire::Refuses;
use crate::alone::{Alone, Fails, alone};

/// Somebody takes the finalizers off a class that is being deleted, and makes another of its name.
fn made_anew(bench: &Alone, name: &str) {
    bench.api.patch(&EC2_NODE_CLASSES, "", name, &json!({"metadata": {"finalizers": []}})).unwrap();
    assert!(!bench.is_there(&EC2_NODE_CLASSES, name));
    bench.bare_class(name);
}

#[test]
fn class_waiting_for_claims_is_looked_at_every_five_seconds() {
    alone(|bench| async move {
        let actor = resolved(&bench).await;
        bench.claim("default-a");
        bench.show();
        bench.delete(&EC2_NODE_CLASSES, "default");
        for _ in 0..200 {
            show_class(&bench, &actor, "default");
            bench.pass(0.1).await;
        }
        let before = bench.heard.snapshots();
        bench.pass(60.0).await;
        let looks = bench.heard.snapshots() - before;
        assert!((4..=20).contains(&looks), "{looks} looks in a minute");
        assert_eq!(bench.told.count("node_class_waits"), 1);
    });
}

#[test]
fn slow_end_of_class_takes_nothing_from_another_of_its_name() {
    alone(|bench| async move {
        let actor = resolved(&bench).await;
        bench.sky.always("remove_node_class", Some(Fails::Throttled));
        bench.delete(&EC2_NODE_CLASSES, "default");
        show_class(&bench, &actor, "default");
        bench.pass(20.0).await;
        let removed = bench.sky.count("remove_node_class");
        assert!(removed > 1);
        made_anew(&bench, "default");
        bench.sky.always("remove_node_class", None);
        // The watch says so a little later.
        bench.pass(20.0).await;
        show_class(&bench, &actor, "default");
        bench.pass(20.0).await;
        assert_eq!(bench.sky.count("remove_node_class"), removed, "instance profile and templates are the new one's");
        assert!(is_ready(&bench, &EC2_NODE_CLASSES, "default") && bench.told.count("node_class_deleted") == 0);
    });
}

#[test]
fn recreated_class_of_same_generation_is_resolved_at_once() {
    alone(|bench| async move {
        let actor = resolved(&bench).await;
        bench.delete(&EC2_NODE_CLASSES, "default");
        made_anew(&bench, "default");
        // An answer to somebody's write has shown it before the watch shows that the first is gone.
        show_class(&bench, &actor, "default");
        bench.pass(1.0).await;
        assert!(is_ready(&bench, &EC2_NODE_CLASSES, "default"));
    });
}

#[test]
fn a_claim_that_only_the_api_server_knows_keeps_its_class() {
    alone(|bench| async move {
        let actor = resolved(&bench).await;
        // The watch has not shown it.
        bench.claim("default-a");
        bench.delete(&EC2_NODE_CLASSES, "default");
        show_class(&bench, &actor, "default");
        bench.pass(30.0).await;
        assert!(bench.is_there(&EC2_NODE_CLASSES, "default"));
        assert_eq!(bench.sky.count("remove_node_class"), 0);
    });
}

#[test]
fn while_claims_cannot_be_listed_nothing_of_a_class_is_removed() {
    for refuses in Refuses::LISTS {
        alone(|bench| async move {
            let actor = resolved(&bench).await;
            bench.delete(&EC2_NODE_CLASSES, "default");
            refuses.begin(&bench.wire, "GET", "/nodeclaims");
            show_class(&bench, &actor, "default");
            bench.pass(120.0).await;
            assert_eq!(bench.sky.count("remove_node_class"), 0, "{refuses:?}");
            bench.wire.heal();
            bench.pass(20.0).await;
            assert!(!bench.is_there(&EC2_NODE_CLASSES, "default"), "{refuses:?}");
        });
    }
}

#[test]
fn after_the_term_nothing_is_written_or_removed() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        bench.bare_class("going");
        show_class(&bench, &actor, "going");
        bench.pass(1.0).await;
        bench.delete(&EC2_NODE_CLASSES, "going");
        bench.wire.forget();
        bench.term.end();
        show_class(&bench, &actor, "default");
        show_class(&bench, &actor, "going");
        bench.pass(60.0).await;
        assert_eq!((bench.wire.writes(), bench.sky.count("remove_node_class")), (vec![], 0));
    });
}
