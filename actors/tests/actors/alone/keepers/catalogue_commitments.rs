//! Savings Plans and Reserved Instances of the account: asked for once an hour, believed within bounds, and said once.

use actix::prelude::*;
use dovetail_actors::Settings;
use dovetail_actors::catalogue::Catalogue;
use dovetail_actors::messages::{CommitmentsKnown, CountedCommitments, Detach, WorldChanged};
use dovetail_core::commitments::{AccountAnswer, OtherUses, Usage, Uses};
use serde_json::{Value, json};

use super::catalogue::start;
use crate::alone::{Alone, Fails, alone_with};

fn with_account(test: impl AsyncFnOnce(Alone)) {
    let mut settings = Settings::default();
    settings.commitments.read_setting("account").unwrap();
    alone_with(settings, |bench| async move { test(bench).await });
}

fn answer(all: Value) -> AccountAnswer {
    AccountAnswer { found: serde_json::from_value(all).unwrap(), ..AccountAnswer::default() }
}

fn instances(count: u32) -> AccountAnswer {
    answer(json!([{"id": "r", "type": "reservedInstances", "instanceType": "m5.large", "count": count}]))
}

fn plan(id: &str, ends: Option<String>) -> AccountAnswer {
    answer(json!([{"id": id, "type": "computeSavingsPlan", "dollarsPerHour": 1.0, "ends": ends}]))
}

async fn counted(catalogue: &Addr<Catalogue>) -> Option<CountedCommitments> {
    catalogue.send(CommitmentsKnown).await.unwrap()
}

async fn known(catalogue: &Addr<Catalogue>) -> Option<Vec<String>> {
    counted(catalogue).await.map(|known| known.all.iter().map(|one| one.id.clone()).collect())
}

/// True if consolidation may go by what is known.
async fn are_certain(catalogue: &Addr<Catalogue>) -> bool {
    counted(catalogue).await.is_some_and(|known| known.are_certain)
}

#[test]
fn what_may_not_be_asked_is_said_once_and_the_rest_counts() {
    with_account(async |bench| {
        bench.sky.commits(instances(2), plan("s", None));
        bench.sky.always("reserved_instances", Some(Fails::Never));
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        assert_eq!(known(&catalogue).await.unwrap(), ["s"]);
        bench.pass(3.0 * 3600.0).await;
        assert_eq!(bench.sky.count("reserved_instances"), 4, "at the start and once an hour");
        assert_eq!((bench.told.count("commitments_unread"), bench.told.count("commitments_read")), (1, 1));
        let said = bench.told.lines().join("\n");
        assert!(said.contains("ec2:DescribeReservedInstances"), "{said}");
        bench.heard.forget();
        bench.sky.always("reserved_instances", None);
        bench.pass(3600.0).await;
        assert_eq!(known(&catalogue).await.unwrap(), ["r", "s"]);
        assert!(bench.heard.count::<WorldChanged>() > 0);
    });
}

/// So many instances of others.
fn others(count: u32) -> Uses {
    let mut uses = Uses::default();
    uses.add(Usage { instance_type: "m5.large".into(), zone: "us-east-1a".into(), price: 0.0, linux: true }, count);
    uses
}

/// Numbers of the instances of others that count, and of those that did lately, and their price.
async fn theirs(catalogue: &Addr<Catalogue>) -> (u32, u32, bool) {
    let known = counted(catalogue).await.unwrap().all;
    let OtherUses { now, lately } = known.others();
    (now.count(), lately.count(), known.bill(now) > 0.0)
}

#[test]
fn others_are_asked_for_while_there_are_commitments() {
    with_account(async |bench| {
        bench.sky.others(others(5));
        let catalogue = start(&bench);
        bench.pass(1800.0).await;
        assert_eq!(bench.sky.count("others_on_demand"), 0, "there is nothing of which they could take");
        bench.sky.commits(instances(2), AccountAnswer::default());
        bench.pass(3700.0).await;
        assert_eq!(theirs(&catalogue).await, (5, 0, true), "two of them are covered, and three cost their price");
        let asked = bench.sky.count("others_on_demand");
        bench.heard.forget();
        bench.sky.others(others(1));
        bench.pass(601.0).await;
        assert_eq!((bench.sky.count("others_on_demand") - asked, theirs(&catalogue).await), (1, (1, 4, false)));
        assert!(bench.heard.count::<WorldChanged>() > 0);
        bench.pass(3.0 * 3600.0 + 600.0).await;
        assert_eq!(theirs(&catalogue).await, (1, 0, false), "what they have left for hours is free");
        assert_eq!(bench.told.count("commitments_unread"), 0);
    });
}

#[test]
fn with_a_share_others_are_not_asked_for() {
    let mut settings = Settings::default();
    settings.commitments.read_setting("account").unwrap();
    settings.commitments.share = 0.5;
    alone_with(settings, |bench| async move {
        bench.sky.commits(instances(2), AccountAnswer::default());
        bench.sky.others(others(5));
        let catalogue = start(&bench);
        bench.pass(3600.0).await;
        assert_eq!((bench.sky.count("others_on_demand"), theirs(&catalogue).await), (0, (0, 0, false)));
        assert!(are_certain(&catalogue).await);
    });
}

#[test]
fn others_that_cannot_be_asked_for_are_said_once() {
    with_account(async |bench| {
        bench.sky.commits(instances(2), AccountAnswer::default());
        bench.sky.always("others_on_demand", Some(Fails::Throttled));
        let catalogue = start(&bench);
        bench.pass(30.0).await;
        assert_eq!((known(&catalogue).await.unwrap(), are_certain(&catalogue).await), (vec!["r".into()], false));
        bench.pass(600.0).await;
        assert_eq!(bench.told.count("commitments_unread"), 1);
        assert!(bench.told.lines().join("\n").contains("ec2:DescribeInstances"));
        bench.pass(300.0).await;
        assert!(are_certain(&catalogue).await, "for 15 minutes at most");
        bench.sky.always("others_on_demand", None);
        bench.sky.others(others(3));
        bench.pass(3600.0).await;
        assert_eq!(theirs(&catalogue).await, (3, 0, true));
    });
}

#[test]
fn answers_that_never_come_are_awaited_for_a_moment() {
    with_account(async |bench| {
        bench.sky.always("savings_plans", Some(Fails::Hangs));
        let catalogue = start(&bench);
        bench.pass(19.0).await;
        assert_eq!(known(&catalogue).await, None);
        bench.pass(2.0).await;
        assert_eq!(known(&catalogue).await, Some(vec![]));
    });
}

#[test]
fn a_call_that_hangs_does_not_hide_the_other_kind() {
    with_account(async |bench| {
        bench.sky.commits(instances(2), plan("s", None));
        bench.sky.always("savings_plans", Some(Fails::Hangs));
        let catalogue = start(&bench);
        bench.pass(21.0).await;
        assert_eq!(known(&catalogue).await.unwrap(), ["r"]);
        assert_eq!((bench.told.count("commitments_read"), bench.told.count("commitments_unread")), (1, 1));
        bench.pass(3600.0).await;
        assert_eq!((bench.sky.count("reserved_instances"), bench.sky.count("savings_plans")), (2, 1));
    });
}

#[test]
fn consolidation_waits_for_a_kind_that_is_not_known() {
    with_account(async |bench| {
        bench.sky.commits(instances(2), plan("s", None));
        bench.sky.always("reserved_instances", Some(Fails::Throttled));
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        assert_eq!((known(&catalogue).await.unwrap(), are_certain(&catalogue).await), (vec!["s".into()], false));
        bench.pass(890.0).await;
        assert!(!are_certain(&catalogue).await);
        assert_eq!(bench.told.count("commitments_unread"), 1);
        bench.pass(10.0).await;
        assert!(are_certain(&catalogue).await, "for 15 minutes at most");
        assert_eq!(bench.told.count("commitments_unread"), 2);
        let later = start(&bench);
        bench.sky.always("reserved_instances", None);
        bench.pass(1.0).await;
        assert!(are_certain(&later).await, "once all have answered");
    });
}

#[test]
fn an_isolated_vpc_is_said_once_and_asked_hourly() {
    with_account(async |bench| {
        bench.sky.commits(instances(2), AccountAnswer::default());
        bench.sky.always("savings_plans", Some(Fails::Isolated));
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        assert!(are_certain(&catalogue).await);
        bench.pass(3.0 * 3600.0).await;
        assert_eq!((bench.sky.count("savings_plans"), bench.told.count("commitments_unread")), (4, 1));
        let said = bench.told.lines().join("\n");
        assert!(said.contains("isolated VPC") && !said.contains("role"), "{said}");
    });
}

#[test]
fn failures_are_asked_again_ever_more_seldom_and_said_once() {
    with_account(async |bench| {
        bench.sky.commits(instances(2), plan("s", None));
        let catalogue = start(&bench);
        bench.pass(3000.0).await;
        bench.sky.always("savings_plans", Some(Fails::Throttled));
        bench.pass(24.0 * 3600.0).await;
        let asked = bench.sky.count("savings_plans");
        assert!((25..=32).contains(&asked), "{asked} calls in a day");
        assert_eq!(bench.told.count("commitments_unread"), 1);
        bench.pass(2.0 * 3600.0).await;
        assert_eq!(known(&catalogue).await.unwrap(), ["r"], "an answer counts for a day");
        bench.sky.always("savings_plans", None);
        bench.pass(3600.0).await;
        assert_eq!(known(&catalogue).await.unwrap(), ["r", "s"]);
    });
}

#[test]
fn an_answer_that_all_are_gone_is_asked_for_twice() {
    with_account(async |bench| {
        bench.sky.commits(instances(2), AccountAnswer::default());
        let catalogue = start(&bench);
        bench.pass(3000.0).await;
        bench.sky.commits(AccountAnswer::default(), AccountAnswer::default());
        bench.pass(700.0).await;
        assert_eq!(known(&catalogue).await.unwrap(), ["r"]);
        assert_eq!(bench.told.count("commitments_unread"), 1);
        bench.pass(600.0).await;
        assert_eq!(known(&catalogue).await.unwrap(), [""; 0]);
        assert!(bench.told.lines().iter().any(|line| line.contains("gone before their ends: r")));
    });
}

#[test]
fn the_leader_alone_says_an_end_and_once() {
    with_account(async |bench| {
        let end = |seconds: i64| (bench.env.wall() + jiff::SignedDuration::from_secs(seconds)).to_string();
        bench.sky.commits(instances(2), plan("s", Some(end(100))));
        start(&bench);
        bench.pass(600.0).await;
        bench.sky.commits(instances(2), AccountAnswer::default());
        bench.pass(7200.0).await;
        assert_eq!(bench.told.count("commitment_ended"), 1);
        assert_eq!(bench.told.count("commitments_unread"), 0, "its end was known");
        bench.sky.commits(instances(2), plan("t", Some(end(100))));
        let standby = start(&bench);
        standby.do_send(Detach);
        bench.pass(600.0).await;
        assert_eq!(bench.told.count("commitment_ended"), 1, "the first does not know of it, the second does not lead");
    });
}

#[test]
fn without_the_word_nothing_is_asked() {
    alone_with(Settings::default(), |bench| async move {
        let catalogue = start(&bench);
        bench.pass(7200.0).await;
        assert_eq!((bench.sky.count("reserved_instances"), bench.sky.count("savings_plans")), (0, 0));
        assert_eq!(known(&catalogue).await, Some(vec![]));
    });
}
