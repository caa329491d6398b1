//! NodeClaims of static pools.

use super::*;

/// Two claims of a static pool of so many replicas, before that of others.
fn asks(run: &mut Run, before: Option<i64>, replicas: i64, limit: &str) {
    let rules = |replicas: i64| json!({"resource": "nodepools", "name": "base", "limits": {"nodes": limit}, "replicas": replicas});
    if let Some(before) = before {
        run.world(0.1, "rules", rules(before));
    }
    run.world(50.0, "rules", rules(replicas));
    run.claim(60.0, "2", "base", 1);
    run.claim(61.0, "3", "base", 1);
}

#[test]
fn more_claims_than_a_static_pool_asks_for_are_inv_25() {
    assert_none(|run| asks(run, None, 2, "2"));
    assert_only("INV-25", |run| asks(run, None, 1, "2"));
    assert_none(|run| asks(run, Some(2), 1, "2"));
}

#[test]
fn claims_that_go_count_for_the_limit_of_a_static_pool() {
    let goes = |run: &mut Run, limit: &str| {
        run.world(
            50.0,
            "rules",
            json!({"resource": "nodepools", "name": "base", "limits": {"nodes": limit}, "replicas": 1}),
        );
        run.claim(60.0, "2", "base", 1);
        run.api(61.0, "delete", "2", json!({"nodePool": "base", "term": "1"}), json!({}));
        run.claim(62.0, "3", "base", 1);
    };
    assert_none(|run| goes(run, "2"));
    assert_only("INV-25", |run| goes(run, "1"));
}
