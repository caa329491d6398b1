//! The watches of the cluster: while one fails nothing is decided by it, and what went meanwhile is told when it is back.

use dovetail_actors::messages::{CannotUse, NodeGone, Record};
use dovetail_sandbox::apiserver::{NODE_CLAIMS, NODE_POOLS, NODES};
use serde_json::json;

use super::cluster_watcher::{attach, is_shown, known, leading, names_gone, start_by, state};
use crate::alone::alone;
use crate::alone::objects::node_name;
use crate::alone::wire::{Act, status};
use crate::world::wire::{spoiling, spoilt};

#[test]
fn while_a_watch_that_decides_fails_nothing_is_decided_by_it() {
    for (path, hides) in [("/nodeclaims", true), ("/nodes", true), ("/nodepools", true), ("/daemonsets", false)] {
        alone(|bench| async move {
            let watching = leading(&bench).await;
            assert!(is_shown(&watching.cluster).await);
            // The server ends each watch in the end, and refuses this one from then on.
            bench.wire.refuse("GET", path, usize::MAX, 500);
            bench.pass(60.0).await;
            assert_eq!(is_shown(&watching.cluster).await, !hides, "{path}");
            assert!(known(&watching.cluster).await.is_some(), "{path}: it is known all the same");
            bench.wire.heal();
            bench.pass(20.0).await;
            assert!(is_shown(&watching.cluster).await, "{path}");
        });
    }
}

#[test]
fn a_watch_that_fails_for_a_minute_is_told_of_with_its_error() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        bench.wire.forbid("GET", "/nodepools", usize::MAX);
        bench.pass(200.0).await;
        let failing = state(&bench, &watching.cluster).await.watches_failing;
        assert!(failing["nodepools"].seconds >= 60 && failing["nodepools"].error.contains("cannot GET"), "{failing:?}");
        let told = bench.told.count("watch_failing");
        assert!((1..=3).contains(&told), "{told}");
        assert!(bench.wire.count("GET", "/nodepools") < 150);
    });
}

#[test]
fn watch_refused_for_ever_is_told_though_lists_are_answered() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        bench.wire.refuse("GET", "/nodepools?&watch=true", usize::MAX, 410);
        let mut failing = false;
        for _ in 0..40 {
            bench.pass(5.0).await;
            failing |= state(&bench, &watching.cluster).await.watches_failing.contains_key("nodepools");
        }
        assert!(failing, "{:?}", bench.wire.asked("GET", "/nodepools"));
    });
}

/// An API server that begins a kind's cache anew refuses the watch once; the list is answered, and nothing changes after it.
#[test]
fn what_has_been_listed_since_a_watch_failed_is_not_outdated() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        bench.wire.refuse("GET", "/nodeclaims", 1, 410);
        for _ in 0..20 {
            bench.pass(10.0).await;
            let failing = state(&bench, &watching.cluster).await.watches_failing;
            assert!(failing.is_empty(), "{failing:?}");
        }
        let asked = bench.wire.asked("GET", "/nodeclaims");
        assert!(
            asked.iter().filter(|one| !one.path.contains("watch=")).count() >= 2,
            "it was never refused: {asked:?}"
        );
    });
}

#[test]
fn an_outage_of_the_api_server_is_one_line_and_its_end() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        bench.wire.refuse("GET", "/", usize::MAX, 503);
        bench.pass(300.0).await;
        assert!(!state(&bench, &watching.cluster).await.watches_failing.is_empty());
        let counts = |names: [&str; 3]| names.map(|name| bench.told.count(name));
        let lines = ["retrying", "watch_failing", "recovered"];
        assert_eq!(counts(lines), [1, 0, 0], "{:?}", bench.told.lines());
        bench.wire.heal();
        bench.pass(200.0).await;
        assert_eq!(counts(lines), [1, 0, 1], "{:?}", bench.told.lines());
    });
}

#[test]
fn watch_that_is_refused_where_it_stands_lists_anew() {
    alone(|bench| async move {
        let _watching = leading(&bench).await;
        bench.wire.forget();
        let lists = || bench.wire.asked("GET", "/daemonsets").iter().filter(|one| !one.path.contains("watch=")).count();
        // As where a restored API server does not know the version from which it is to go on.
        bench.wire.refuse("GET", "/daemonsets", 3, 400);
        bench.pass(100.0).await;
        assert_eq!(lists(), 1, "{:?}", bench.wire.asked("GET", "/daemonsets"));
    });
}

#[test]
fn what_went_while_a_list_expired_is_told_gone() {
    alone(|bench| async move {
        let watching = leading(&bench).await;
        bench.launched("default-a", 1, &["Launched"]);
        bench.claim("default-b");
        bench.working(1);
        bench.pass(1.0).await;
        bench.wire.next("GET", "watch=true", 60, Act::Answer(410, status(410)));
        bench.pass(48.0).await;
        bench.api.patch(&NODE_CLAIMS, "", "default-a", &json!({"metadata": {"finalizers": []}})).unwrap();
        bench.delete(&NODE_CLAIMS, "default-a");
        bench.api.patch(&NODES, "", &node_name(1), &json!({"metadata": {"finalizers": []}})).unwrap();
        bench.delete(&NODES, &node_name(1));
        bench.pass(60.0).await;
        bench.wire.heal();
        bench.pass(60.0).await;
        assert!(
            names_gone(&bench).contains(&"default-a".to_owned())
                && !names_gone(&bench).contains(&"default-b".to_owned())
        );
        assert_eq!(bench.heard.last::<NodeGone>().name, node_name(1));
        let snapshot = known(&watching.cluster).await.unwrap();
        assert_eq!((snapshot.claims.len(), snapshot.nodes.len()), (1, 0));
    });
}

#[test]
fn unreadable_object_is_there_and_told_and_blocks_nothing() {
    alone(|bench| async move {
        let client = spoiling(bench.client());
        bench.pool("good");
        bench.pool("bad");
        bench.api.patch(&NODE_POOLS, "", "bad", &json!({"metadata": {"annotations": spoilt()}})).unwrap();
        let watching = start_by(&bench, &client);
        attach(&bench, &watching.cluster);
        bench.pass(2.0).await;
        let snapshot = known(&watching.cluster).await.unwrap();
        assert_eq!(snapshot.pools.keys().collect::<Vec<_>>(), ["good"]);
        let shown = state(&bench, &watching.cluster).await;
        assert_eq!((shown.unreadable["NodePool"], shown.unreadable_objects[0].object.as_str()), (1, "bad"));
        assert_eq!(bench.heard.last::<CannotUse>().object.metadata.name.as_deref(), Some("bad"));
        assert!(bench.heard.count::<Record>() > 0);
    });
}
