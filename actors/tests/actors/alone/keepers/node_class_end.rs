//! The end of a node class: after its claims, after what was made for it, and never by half an answer.

use dovetail_sandbox::apiserver::EC2_NODE_CLASSES;

use super::node_class::{show_class, start};
use crate::alone::alone;

#[test]
fn a_claim_that_only_the_api_server_knows_keeps_its_class() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.bare_class("default");
        show_class(&bench, &actor, "default");
        bench.pass(1.0).await;
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
    for code in [403, 410, 422] {
        alone(|bench| async move {
            let actor = start(&bench);
            bench.bare_class("default");
            show_class(&bench, &actor, "default");
            bench.pass(1.0).await;
            bench.delete(&EC2_NODE_CLASSES, "default");
            bench.wire.refuse("GET", "/nodeclaims", usize::MAX, code);
            show_class(&bench, &actor, "default");
            bench.pass(120.0).await;
            assert_eq!(bench.sky.count("remove_node_class"), 0, "{code}");
            bench.wire.heal();
            bench.pass(20.0).await;
            assert!(!bench.is_there(&EC2_NODE_CLASSES, "default"), "{code}");
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
