//! The catalogue: what the cloud offers is known however its calls fail, and what it refuses is not asked for again.

use std::collections::{BTreeMap, BTreeSet};

use actix::prelude::*;
use dovetail_actors::Settings;
use dovetail_actors::catalogue::{Catalogue, Keep};
use dovetail_actors::messages::{
    ActorState, CatalogueAttach, CatalogueState, Detach, FullSubnets, InstanceTypesFor, LaunchedOffering, Refused,
    WorldChanged,
};
use dovetail_cloud::launch::OfferingRefusal;
use dovetail_cloud::shipped;
use dovetail_cloud::unavailable::OfferingKey;
use dovetail_sandbox::apiserver::{CONFIG_MAPS, EC2_NODE_CLASSES};
use serde_json::json;

use crate::alone::{Alone, Fails, alone, alone_with, seconds, trace};
use dovetail_actors::messages::{FreedReserved, ReservationTakenBack, TookReserved};

const KEPT: &str = "dovetail-unavailable-offerings";

pub fn start(bench: &Alone) -> Addr<Catalogue> {
    let catalogue = bench.start(Catalogue::new(&bench.env, bench.sky.clone()));
    catalogue.do_send(CatalogueAttach(bench.ear.clone().recipient()));
    catalogue
}

async fn state(bench: &Alone, catalogue: &Addr<Catalogue>) -> CatalogueState {
    match bench.state(catalogue).await {
        ActorState::Catalogue(state) => state,
        other => panic!("{other:?}"),
    }
}

/// The zones in which a type can be had of a class now, with its price on demand.
async fn offered(bench: &Alone, catalogue: &Addr<Catalogue>, name: &str) -> Option<BTreeMap<String, f64>> {
    let class = bench.api.get(&EC2_NODE_CLASSES, "", "default").unwrap();
    let class = serde_json::from_value((*class).clone()).unwrap();
    let types = catalogue.send(InstanceTypesFor::new(vec![std::sync::Arc::new(class)])).await.unwrap()?;
    let all = types.get("default")?.iter().find(|one| one.name == name)?.clone();
    let can = all.offerings.iter().filter(|one| one.available && one.capacity_type == "on-demand");
    Some(can.map(|one| (one.zone.clone(), one.price)).collect())
}

fn refused(types: &[&str], code: &str) -> Refused {
    let refusal = |name: &&str| OfferingRefusal {
        instance_type: (*name).to_owned(),
        zone: "us-east-1a".into(),
        capacity_type: "on-demand".into(),
        code: code.into(),
        ..OfferingRefusal::default()
    };
    Refused { refusals: types.iter().map(refusal).collect(), trace: trace(1) }
}

fn with_class(test: impl AsyncFnOnce(Alone)) {
    alone(|bench| async move {
        bench.class("default");
        test(bench).await;
    });
}

#[test]
fn unread_catalogue_gives_no_answer_and_then_tells_the_packer() {
    with_class(async |bench| {
        bench.sky.next("instance_types", [Fails::Throttled; 4]);
        let catalogue = start(&bench);
        bench.pass(0.1).await;
        assert_eq!(offered(&bench, &catalogue, "m5.large").await, None);
        bench.pass(20.0).await;
        let zones: Vec<String> = offered(&bench, &catalogue, "m5.large").await.unwrap().into_keys().collect();
        assert_eq!(zones, ["us-east-1a", "us-east-1b"]);
        assert!(bench.heard.all::<WorldChanged>().iter().all(|one| **one == WorldChanged::Room));
        assert!(bench.heard.count::<WorldChanged>() > 0);
        assert_eq!(bench.told.count("retrying"), 1, "it is said once");
        assert_eq!(state(&bench, &catalogue).await.reads, 1);
    });
}

#[test]
fn prices_that_do_not_come_have_others_stand_in_until_they_do() {
    with_class(async |bench| {
        bench.sky.prices(Some([("m5.large".to_owned(), 1.25)].into()), None);
        bench.sky.always("on_demand_prices", Some(Fails::Never));
        let catalogue = start(&bench);
        bench.pass(5.0).await;
        let shipped = shipped::catalogue_once("us-east-1").on_demand["m5.large"];
        let price = |zones: BTreeMap<String, f64>| zones["us-east-1a"];
        assert_eq!(offered(&bench, &catalogue, "m5.large").await.map(price), Some(shipped));
        assert_eq!(state(&bench, &catalogue).await.on_demand_age_seconds, None, "those are not EC2's of now");
        bench.sky.always("on_demand_prices", None);
        bench.pass(20.0).await;
        assert_eq!(offered(&bench, &catalogue, "m5.large").await.map(price), Some(1.25));
        assert!(state(&bench, &catalogue).await.on_demand_age_seconds.is_some());
    });
}

#[test]
fn a_pricing_service_that_hangs_is_waited_for_ten_seconds() {
    with_class(async |bench| {
        bench.sky.always("spot_prices", Some(Fails::Hangs));
        bench.sky.always("on_demand_prices", Some(Fails::Hangs));
        let catalogue = start(&bench);
        bench.pass(9.0).await;
        assert_eq!(state(&bench, &catalogue).await.reads, 0);
        bench.pass(2.0).await;
        assert!(offered(&bench, &catalogue, "m5.large").await.is_some());
    });
}

#[test]
fn an_empty_answer_after_a_full_one_is_no_fact() {
    with_class(async |bench| {
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        let before = state(&bench, &catalogue).await.instance_types;
        assert!(before > 500);
        // At the next read, twelve hours later, EC2 shows nothing at all.
        bench.sky.types(Some(Vec::new()));
        bench.pass(12.0 * 3600.0 + 60.0).await;
        assert_eq!(state(&bench, &catalogue).await.instance_types, before);
        assert!(offered(&bench, &catalogue, "m5.large").await.is_some_and(|zones| zones.len() == 2));
        // It is asked again before long, and what it says then counts.
        bench.sky.types(Some(
            shipped::catalogue("us-east-1")
                .narrowed(|name| name == "m5.large")
                .types
                .iter()
                .map(|one| (**one).clone())
                .collect(),
        ));
        bench.pass(900.0).await;
        assert_eq!(state(&bench, &catalogue).await.instance_types, 1);
    });
}

#[test]
fn absurd_first_answer_leaves_shipped_types_for_a_minute() {
    let absurd = || {
        let all = shipped::catalogue("us-east-1").types;
        let of = |change: fn(&mut dovetail_cloud::info::InstanceTypeInfo)| {
            all.iter()
                .map(|one| {
                    let mut one = (**one).clone();
                    change(&mut one);
                    one
                })
                .collect::<Vec<_>>()
        };
        [Vec::new(), of(|one| one.vcpus = 0), of(|one| one.name.clear()), of(|one| one.memory_mib = 0)]
    };
    for types in absurd() {
        with_class(async |bench| {
            bench.sky.types(Some(types.clone()));
            let catalogue = start(&bench);
            bench.pass(12.0).await;
            assert!(state(&bench, &catalogue).await.instance_types > 500);
            assert!(offered(&bench, &catalogue, "m5.large").await.is_some_and(|zones| zones.len() == 2));
            assert_eq!(bench.told.count("retrying"), 1, "it is said");
            bench.sky.types(None);
            bench.pass(60.0).await;
            assert_eq!((bench.told.count("retrying"), bench.told.count("recovered")), (1, 1));
            assert_eq!(bench.sky.count("instance_types"), 2);
        });
    }
}

#[test]
fn no_prices_at_all_are_no_prices_of_now() {
    with_class(async |bench| {
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        let before = offered(&bench, &catalogue, "m5.large").await;
        assert!(before.as_ref().is_some_and(|zones| zones.len() == 2));
        bench.sky.prices(Some(BTreeMap::new()), Some(BTreeMap::new()));
        bench.pass(12.0 * 3600.0 + 60.0).await;
        assert_eq!(offered(&bench, &catalogue, "m5.large").await, before, "a type without a price cannot be had");
    });
}

#[test]
fn what_is_refused_is_not_offered_for_a_while() {
    with_class(async |bench| {
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        catalogue.do_send(refused(&["m5.large", "m5.xlarge"], "InsufficientInstanceCapacity"));
        bench.pass(0.1).await;
        let zones = offered(&bench, &catalogue, "m5.large").await.unwrap();
        assert_eq!(zones.into_keys().collect::<Vec<_>>(), ["us-east-1b"]);
        assert_eq!(offered(&bench, &catalogue, "m5.2xlarge").await.unwrap().len(), 2);
        assert_eq!(bench.told.count("offering_refused"), 1, "one line for both");
        // Said again it is no news.
        catalogue.do_send(refused(&["m5.large"], "InsufficientInstanceCapacity"));
        bench.pass(0.1).await;
        assert_eq!(bench.told.count("offering_refused"), 1);
        bench.heard.forget();
        bench.pass(1800.0).await;
        assert_eq!(offered(&bench, &catalogue, "m5.large").await.unwrap().len(), 2, "it is believed no longer");
        assert!(bench.heard.count::<WorldChanged>() > 0, "the packer is told when it may be asked for again");
    });
}

#[test]
fn what_ec2_gives_after_all_is_offered_again_at_once() {
    with_class(async |bench| {
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        // Twice, so that it is believed for longer than a launch may have been under way meanwhile.
        for _ in 0..2 {
            catalogue.do_send(refused(&["m5.large"], "InsufficientInstanceCapacity"));
            bench.pass(185.0).await;
        }
        assert_eq!(offered(&bench, &catalogue, "m5.large").await.unwrap().len(), 1);
        bench.heard.forget();
        let offering = OfferingKey {
            capacity_type: "on-demand".into(),
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
        };
        catalogue.do_send(LaunchedOffering { offering, subnet: "subnet-us-east-1a".into() });
        bench.pass(0.1).await;
        assert_eq!(offered(&bench, &catalogue, "m5.large").await.unwrap().len(), 2);
        assert_eq!(bench.heard.count::<WorldChanged>(), 1);
    });
}

#[test]
fn a_refusal_that_is_not_about_capacity_takes_no_offering_away() {
    with_class(async |bench| {
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        for code in ["UnauthorizedOperation", "InvalidParameterValue", "RequestLimitExceeded", ""] {
            catalogue.do_send(refused(&["m5.large"], code));
        }
        bench.pass(0.1).await;
        assert_eq!(offered(&bench, &catalogue, "m5.large").await.unwrap().len(), 2);
        assert_eq!(state(&bench, &catalogue).await.unavailable, 0);
    });
}

#[test]
fn ten_thousand_refusals_at_once_are_one_line_a_market() {
    with_class(async |bench| {
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        let names: Vec<String> = (0..10_000).map(|n| format!("x{n}.large")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        catalogue.do_send(refused(&names, "InsufficientInstanceCapacity"));
        bench.pass(0.1).await;
        assert_eq!(bench.told.count("offering_refused"), 1);
        let lines = bench.told.lines();
        assert!(lines.iter().any(|line| line.starts_with("10000 instance type(s)") && line.len() < 300), "{lines:?}");
    });
}

#[test]
fn what_is_refused_is_kept_for_the_next_leader_and_taken_over() {
    with_class(async |bench| {
        let first = start(&bench);
        first.do_send(Keep(bench.calls("catalogue")));
        bench.pass(1.0).await;
        first.do_send(refused(&["m5.large"], "InsufficientInstanceCapacity"));
        bench.pass(15.0).await;
        assert!(bench.api.get(&CONFIG_MAPS, "kube-system", KEPT).is_some());
        first.do_send(Detach);
        let second = start(&bench);
        second.do_send(Keep(bench.calls("catalogue")));
        bench.pass(1.0).await;
        assert_eq!(offered(&bench, &second, "m5.large").await.unwrap().len(), 1);
        assert_eq!(bench.told.count("unavailable_known"), 1);
        // A replica that no longer leads writes nothing over it.
        let written = bench.wire.writes().len();
        first.do_send(refused(&["m5.4xlarge"], "InsufficientInstanceCapacity"));
        bench.pass(30.0).await;
        assert_eq!(bench.wire.writes().len(), written);
    });
}

#[test]
fn nonsense_in_what_was_kept_is_not_heeded() {
    for text in ["", "nonsense", "{}", "[[[", "{\"a\": 1e999}"] {
        with_class(async |bench| {
            let map = json!({"metadata": {"name": KEPT, "namespace": "kube-system"}, "data": {"unavailable": text}});
            bench.api.create(&CONFIG_MAPS, "kube-system", map).unwrap();
            let catalogue = start(&bench);
            catalogue.do_send(Keep(bench.calls("catalogue")));
            bench.pass(2.0).await;
            assert_eq!(offered(&bench, &catalogue, "m5.large").await.unwrap().len(), 2, "{text}");
            catalogue.do_send(refused(&["m5.large"], "InsufficientInstanceCapacity"));
            bench.pass(15.0).await;
            let kept = bench.api.get(&CONFIG_MAPS, "kube-system", KEPT).unwrap()["data"].to_string();
            assert!(kept.contains("m5.large"), "{text}: it is written over: {kept}");
        });
    }
}

#[test]
fn forbidden_keeping_is_told_once_and_not_asked_again() {
    with_class(async |bench| {
        bench.wire.forbid("PATCH", KEPT, usize::MAX);
        let catalogue = start(&bench);
        catalogue.do_send(Keep(bench.calls("catalogue")));
        bench.pass(2.0).await;
        catalogue.do_send(refused(&["m5.large"], "InsufficientInstanceCapacity"));
        bench.pass(120.0).await;
        assert_eq!(bench.told.count("unavailable_not_kept"), 1);
        assert!(bench.wire.count("PATCH", KEPT) <= 7, "{}", bench.wire.count("PATCH", KEPT));
        assert_eq!(offered(&bench, &catalogue, "m5.large").await.unwrap().len(), 1, "here it is known all the same");
    });
}

#[test]
fn subnets_without_addresses_are_known_and_forgotten() {
    with_class(async |bench| {
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        let full = async |last_resort| catalogue.send(FullSubnets { last_resort }).await.unwrap();
        assert_eq!(full(false).await, BTreeSet::new());
        let mut none = refused(&["m5.large"], "InsufficientFreeAddressesInSubnet");
        none.refusals[0].subnet = "subnet-us-east-1a".into();
        catalogue.do_send(none);
        bench.pass(0.1).await;
        assert_eq!(full(false).await, BTreeSet::from(["subnet-us-east-1a".to_owned()]));
        bench.pass(1800.0).await;
        assert_eq!(full(false).await, BTreeSet::new());
    });
}

#[test]
fn spot_prices_are_read_again_and_those_not_named_stay() {
    let hourly = Settings { spot_price_refresh: Some(seconds(600)), ..Settings::default() };
    alone_with(hourly, |bench| async move {
        bench.class("default");
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        let reads = state(&bench, &catalogue).await.reads;
        bench.pass(650.0).await;
        assert_eq!(state(&bench, &catalogue).await.reads, reads, "the same prices are no news");
        bench.sky.prices(None, Some([(("m5.large".to_owned(), "us-east-1a".to_owned()), 0.001)].into()));
        bench.pass(600.0).await;
        assert_eq!(state(&bench, &catalogue).await.reads, reads + 1);
        assert!(state(&bench, &catalogue).await.spot_age_seconds.is_some_and(|age| age < 600));
    });
}

#[test]
fn a_spot_price_service_that_hangs_is_asked_once_at_a_time() {
    let often = Settings { spot_price_refresh: Some(seconds(60)), ..Settings::default() };
    alone_with(often, |bench| async move {
        bench.class("default");
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        bench.sky.always("spot_prices", Some(Fails::Hangs));
        bench.pass(3600.0).await;
        assert_eq!(bench.sky.count("spot_prices"), 2);
        assert!(offered(&bench, &catalogue, "m5.large").await.is_some());
    });
}

/// A class of two reservations.
fn reserve(bench: &Alone) {
    let of = |id: &str| {
        json!({"id": id, "instanceType": "m5.large", "availabilityZone": "us-east-1a", "ownerID": "123456789012",
        "instanceMatchCriteria": "targeted", "reservationType": "default", "state": "active"})
    };
    let status = json!({"status": {"capacityReservations": [of("cr-1"), of("cr-2")]}});
    bench.api.patch_status(&EC2_NODE_CLASSES, "", "default", &status).unwrap();
}

/// Reservations offered, each with true if instances are available.
async fn reserved(bench: &Alone, catalogue: &Addr<Catalogue>) -> Vec<(String, bool)> {
    let class = bench.api.get(&EC2_NODE_CLASSES, "", "default").unwrap();
    let class = serde_json::from_value((*class).clone()).unwrap();
    let types = catalogue.send(InstanceTypesFor::new(vec![std::sync::Arc::new(class)])).await.unwrap();
    let Some(types) = types.as_ref().and_then(|types| types.get("default")) else { return Vec::new() };
    let all = types.iter().flat_map(|one| one.offerings.iter().filter(|one| one.capacity_type == "reserved"));
    all.map(|one| (one.reservation().unwrap_or_default().to_owned(), one.available)).collect()
}

#[test]
fn a_reservation_counts_what_is_left_less_what_was_taken() {
    with_class(async |bench| {
        reserve(&bench);
        bench.sky.reserves(&[("cr-1", 1), ("cr-2", 5)]);
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        assert_eq!(reserved(&bench, &catalogue).await, [], "what is left is not known yet");
        bench.pass(1.0).await;
        assert_eq!(reserved(&bench, &catalogue).await, [("cr-1".into(), true), ("cr-2".into(), true)]);
        catalogue.do_send(TookReserved { id: "cr-1".into() });
        bench.pass(0.1).await;
        let left =
            |all: Vec<(String, bool)>| all.into_iter().filter(|(_, can)| *can).map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(left(reserved(&bench, &catalogue).await), ["cr-2"]);
        bench.heard.forget();
        catalogue.do_send(ReservationTakenBack { id: "cr-2".into() });
        bench.pass(0.1).await;
        assert_eq!(left(reserved(&bench, &catalogue).await), [""; 0]);
        assert_eq!(bench.heard.count::<WorldChanged>(), 1);
    });
}

#[test]
fn unknown_reservations_count_as_used_up_and_delay_nothing() {
    with_class(async |bench| {
        reserve(&bench);
        bench.sky.always("reserved_left", Some(Fails::Throttled));
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        assert_eq!(reserved(&bench, &catalogue).await, [], "it is being asked for");
        bench.pass(1.0).await;
        assert!(reserved(&bench, &catalogue).await.iter().all(|(_, can)| !can));
        assert!(offered(&bench, &catalogue, "m5.large").await.is_some(), "on demand there is");
        for _ in 0..200 {
            reserved(&bench, &catalogue).await;
            bench.pass(1.0).await;
        }
        let asked = bench.sky.count("reserved_left");
        assert!((2..=6).contains(&asked), "{asked} calls in three minutes, however often packing asks");
        bench.sky.reserves(&[("cr-1", 1), ("cr-2", 5)]);
        bench.sky.always("reserved_left", None);
        bench.heard.forget();
        bench.pass(61.0).await;
        assert_eq!(bench.heard.count::<WorldChanged>(), 1);
        assert_eq!(reserved(&bench, &catalogue).await, [("cr-1".into(), true), ("cr-2".into(), true)]);
    });
}

#[test]
fn a_class_without_a_status_or_with_a_bad_spec_has_no_types() {
    with_class(async |bench| {
        bench.bare_class("bare");
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        let class = bench.api.get(&EC2_NODE_CLASSES, "", "bare").unwrap();
        let class: dovetail_api::v1::EC2NodeClass = serde_json::from_value((*class).clone()).unwrap();
        let types = catalogue.send(InstanceTypesFor::new(vec![std::sync::Arc::new(class)])).await.unwrap().unwrap();
        assert!(types["bare"].is_empty());
        assert_eq!(catalogue.send(InstanceTypesFor::new(vec![])).await.unwrap(), Some(BTreeMap::new()));
    });
}

#[test]
fn freed_reserved_instances_are_asked_for_at_once_and_again() {
    with_class(async |bench| {
        reserve(&bench);
        bench.sky.reserves(&[("cr-1", 0), ("cr-2", 0)]);
        let catalogue = start(&bench);
        bench.pass(1.0).await;
        reserved(&bench, &catalogue).await;
        bench.pass(1.0).await;
        let free = async || reserved(&bench, &catalogue).await.into_iter().filter(|(_, can)| *can).count();
        assert_eq!(free().await, 0);
        bench.sky.reserves(&[("cr-1", 1), ("cr-2", 0)]);
        bench.heard.forget();
        catalogue.do_send(FreedReserved { id: "cr-other".into() });
        bench.pass(0.5).await;
        assert_eq!(free().await, 0, "no class has that one");
        catalogue.do_send(FreedReserved { id: "cr-1".into() });
        bench.pass(0.5).await;
        assert_eq!((free().await, bench.heard.count::<WorldChanged>()), (1, 1));
        // EC2's count may lag behind.
        catalogue.do_send(FreedReserved { id: "cr-2".into() });
        bench.pass(5.0).await;
        assert_eq!(free().await, 1);
        bench.sky.reserves(&[("cr-1", 1), ("cr-2", 1)]);
        bench.pass(6.0).await;
        assert_eq!(free().await, 2);
    });
}
