//! EC2's status checks, and spot nodes without a queue: who is unwell goes once, and many that are say that something else is.

use dovetail_actors::Settings;
use dovetail_actors::messages::{Interrupted, Remove};
use dovetail_core::clock::Clock as _;
use dovetail_core::disruption::RemovalReason;
use dovetail_core::interruption::InterruptionKind;
use dovetail_core::interruption::status::Trouble;
use dovetail_sandbox::apiserver::NODE_CLAIMS;
use jiff::SignedDuration;
use serde_json::json;

use super::interruption::{node, spot, start, state, trouble, with_queue};
use crate::alone::{Fails, alone_with};

#[test]
fn a_status_check_that_fails_for_long_removes_the_node_once() {
    with_queue(async |bench| {
        (1..=10).for_each(|number| node(&bench, number));
        bench.sky.inner.trouble(vec![
            trouble(&bench, 1, InterruptionKind::InstanceStatus),
            trouble(&bench, 99, InterruptionKind::SystemStatus),
        ]);
        let _actor = start(&bench);
        bench.pass(500.0).await;
        let removals = bench.heard.all::<Remove>();
        assert_eq!(removals.len(), 1, "{:?}", bench.told.lines());
        assert_eq!((removals[0].claims[0].name.as_str(), removals[0].reason), ("default-1", RemovalReason::Unhealthy));
        assert_eq!(removals[0].grace.map(|grace| grace.is_zero()), Some(true), "by force");
        assert_eq!(bench.told.count("status_failed"), 1);
        // It has not gone: that is asked for again, without haste.
        bench.pass(700.0).await;
        assert_eq!(bench.heard.count::<Remove>(), 2);
    });
}

#[test]
fn checks_that_fail_on_many_nodes_take_none_away() {
    with_queue(async |bench| {
        (1..=10).for_each(|number| node(&bench, number));
        bench
            .sky
            .inner
            .trouble((1..=8).map(|number| trouble(&bench, number, InterruptionKind::SystemStatus)).collect());
        let _actor = start(&bench);
        bench.pass(900.0).await;
        assert!(bench.heard.count::<Remove>() <= 2, "{}", bench.heard.count::<Remove>());
        assert!(!bench.records("NodeRepairBlocked").is_empty());
    });
}

#[test]
fn status_check_failing_for_a_minute_costs_nothing() {
    with_queue(async |bench| {
        (1..=10).for_each(|number| node(&bench, number));
        let now = Some(bench.clock.wall());
        bench.sky.inner.trouble(vec![Trouble { time: now, ..trouble(&bench, 1, InterruptionKind::InstanceStatus) }]);
        let _actor = start(&bench);
        bench.pass(90.0).await;
        bench.sky.inner.trouble(vec![]);
        bench.pass(600.0).await;
        assert_eq!((bench.heard.count::<Remove>(), bench.told.count("status_failed")), (0, 0));
    });
}

#[test]
fn scheduled_ec2_event_interrupts_until_it_is_written() {
    with_queue(async |bench| {
        (1..=10).for_each(|number| node(&bench, number));
        let begins = Some(bench.clock.wall() + SignedDuration::from_hours(30));
        let scheduled = trouble(&bench, 1, InterruptionKind::EventStatus);
        bench.sky.inner.trouble(vec![Trouble { what: "system-reboot".into(), time: begins, ..scheduled }]);
        bench.heard.writes_ends(false);
        let _actor = start(&bench);
        bench.pass(200.0).await;
        let asked = bench.heard.count::<Interrupted>();
        assert!((2..=3).contains(&asked), "{asked}: what is not written is asked for at each look");
        assert_eq!(bench.told.count("interrupted"), 1, "and said once: {:?}", bench.told.lines());
        // It is written.
        let notice = bench.heard.last::<Interrupted>().notice.to_string();
        let written = json!({"metadata": {"annotations": {"dovetail.dev/interruption": notice}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-1", &written).unwrap();
        bench.show();
        bench.pass(600.0).await;
        assert_eq!((bench.heard.count::<Interrupted>(), bench.heard.count::<Remove>()), (asked, 0));
    });
}

#[test]
fn missing_status_is_asked_for_with_pauses_and_acted_on_later() {
    with_queue(async |bench| {
        (1..=10).for_each(|number| node(&bench, number));
        bench.sky.inner.trouble(vec![trouble(&bench, 1, InterruptionKind::InstanceStatus)]);
        bench.sky.always("instance_troubles", Some(Fails::Throttled));
        let _actor = start(&bench);
        bench.pass(3600.0).await;
        let asked = bench.sky.count("instance_troubles");
        assert!((7..=15).contains(&asked), "{asked} calls in an hour");
        assert_eq!((bench.told.count("retrying"), bench.heard.count::<Remove>()), (1, 0));
        bench.sky.always("instance_troubles", None);
        bench.pass(700.0).await;
        assert!(bench.told.count("recovered") == 1 && bench.heard.count::<Remove>() >= 1, "{:?}", bench.told.lines());
    });
}

#[test]
fn no_status_check_acts_before_sync_or_after_the_term() {
    for ends in [false, true] {
        with_queue(async |bench| {
            (1..=10).for_each(|number| node(&bench, number));
            bench.sky.inner.trouble(vec![trouble(&bench, 1, InterruptionKind::SystemStatus)]);
            bench.heard.knows(ends, ends);
            let _actor = start(&bench);
            if ends {
                bench.term.end();
            }
            bench.pass(600.0).await;
            assert_eq!(bench.heard.count::<Remove>(), 0);
            bench.heard.knows(true, true);
            bench.pass(120.0).await;
            assert_eq!(bench.heard.count::<Remove>(), usize::from(!ends), "{ends}");
        });
    }
}

#[test]
fn an_account_that_may_not_ask_for_status_is_asked_no_more() {
    with_queue(async |bench| {
        node(&bench, 1);
        bench.sky.always("instance_troubles", Some(Fails::Never));
        let _actor = start(&bench);
        bench.pass(3600.0).await;
        assert_eq!(bench.told.count("status_forbidden"), 1);
        assert!(bench.sky.count("instance_troubles") <= 2, "{}", bench.sky.count("instance_troubles"));
    });
}

#[test]
fn spot_nodes_without_queue_are_counted_and_pools_told_once() {
    alone_with(Settings::default(), |bench| async move {
        bench.class("default");
        bench.pool_of("default", json!({}));
        spot(&bench, 1);
        let actor = start(&bench);
        bench.pass(600.0).await;
        assert_eq!(state(&bench, &actor).await.unheard, 1);
        assert_eq!(bench.sky.count("receive"), 0);
        assert!(bench.told.count("spot_unheard") <= 1 && bench.records("InterruptionsNotHeard").len() <= 1);
    });
}
