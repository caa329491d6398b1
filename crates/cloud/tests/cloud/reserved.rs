//! Capacity blocks and interruptible reservations: how they are found, launched into, and left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use dovetail_api::v1::{CapacityReservationSelectorTerm, EC2NodeClass};
use dovetail_cloud::LaunchErrorKind;
use dovetail_cloud::ec2::Ec2Cloud;
use dovetail_cloud::prelude::*;
use dovetail_sandbox::region::{AccountCapacityReservation, InstanceState, Region, RegionConfig};

use crate::region::{class, request, resolved, sandbox_of, sandbox_with};

const HOUR: Duration = Duration::from_secs(3600);

fn sandbox() -> (Region, Ec2Cloud) {
    let one = |id: &str| AccountCapacityReservation {
        id: id.into(),
        instance_type: "m5.large".into(),
        zone: "us-east-1b".into(),
        count: 1,
        ..AccountCapacityReservation::default()
    };
    let mut config = RegionConfig::new("us-east-1", "demo");
    config.reservations = vec![
        one("cr-0d"),
        AccountCapacityReservation { block: true, ends_after: Some(3 * HOUR), count: 2, ..one("cr-0b") },
        AccountCapacityReservation { interruptible: true, ..one("cr-01") },
    ];
    sandbox_of(config)
}

fn selecting(ids: &[&str]) -> EC2NodeClass {
    let mut class = class("al2023@latest");
    let term = |id: &&str| CapacityReservationSelectorTerm { id: Some((*id).to_owned()), ..Default::default() };
    class.spec.capacity_reservation_selector_terms = ids.iter().map(term).collect();
    class
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_reservation_is_found_with_what_it_is() {
    let (_region, cloud) = sandbox();
    let class = resolved(&cloud, selecting(&["cr-0d", "cr-0b", "cr-01"])).await;
    let found = class.status.unwrap().capacity_reservations;
    let told: Vec<_> =
        found.iter().map(|one| (&*one.id, &*one.reservation_type, one.interruptible, &*one.state)).collect();
    let expected = [
        ("cr-01", "default", true, "active"),
        ("cr-0b", "capacity-block", false, "active"),
        ("cr-0d", "default", false, "active"),
    ];
    assert_eq!(told, expected);
    let end = found[1].end_time.as_ref().unwrap().0.to_string();
    assert_eq!((end.as_str(), &found[0].end_time), ("2026-01-01T03:00:00Z", &None));
}

#[tokio::test(start_paused = true)]
async fn each_kind_is_launched_into_as_ec2_wants_it() {
    for (id, capacity_type) in [("cr-0d", "reserved"), ("cr-0b", "reserved"), ("cr-01", "reserved")] {
        let (region, cloud) = sandbox();
        let class = resolved(&cloud, selecting(&[id])).await;
        let launched = cloud.launch(request("token", class)).await.unwrap();
        assert_eq!((launched.capacity_type.as_str(), launched.reservation_id.as_deref()), (capacity_type, Some(id)));
        assert_eq!(region.instance(&launched.id).unwrap().capacity_reservation.as_deref(), Some(id));
        let found = cloud.instances_with_token("token").await.unwrap();
        assert_eq!((found[0].capacity_type.as_str(), found[0].reservation_id.as_deref()), (capacity_type, Some(id)));
    }
}

#[tokio::test(start_paused = true)]
async fn capacity_block_comes_after_default_and_before_interruptible() {
    let (_region, cloud) = sandbox();
    let class = resolved(&cloud, selecting(&["cr-0d", "cr-0b", "cr-01"])).await;
    let first = cloud.launch(request("token-1", class.clone())).await.unwrap();
    assert_eq!(first.reservation_id.as_deref(), Some("cr-0d"));
    let class = resolved(&cloud, selecting(&["cr-0b", "cr-01"])).await;
    let next = cloud.launch(request("token-2", class)).await.unwrap();
    assert_eq!(next.reservation_id.as_deref(), Some("cr-0b"));
}

#[tokio::test(start_paused = true)]
async fn used_up_reservation_lacks_capacity_and_on_demand_is_left() {
    let (_region, cloud) = sandbox();
    let class = resolved(&cloud, selecting(&["cr-01"])).await;
    cloud.launch(request("token-1", class.clone())).await.unwrap();
    let error = cloud.launch(request("token-2", class.clone())).await.unwrap_err();
    assert_eq!(error.kind, LaunchErrorKind::InsufficientCapacity);
    assert_eq!(
        (error.refusals[0].code.as_str(), error.refusals[0].capacity_type.as_str()),
        ("ReservationCapacityExceeded", "reserved")
    );
    let mut bought = request("token-3", class);
    for one in &mut bought.candidates {
        // As the catalogue has it once nothing is left of the reservation.
        std::sync::Arc::make_mut(one).offerings.retain(|offering| offering.capacity_type != "reserved");
    }
    assert_eq!(cloud.launch(bought).await.unwrap().reservation_id, None);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_launched_into_a_block_that_is_about_to_end() {
    let (region, cloud) = sandbox();
    let class = resolved(&cloud, selecting(&["cr-0b"])).await;
    let launched = cloud.launch(request("token-1", class)).await.unwrap();
    tokio::time::sleep(2 * HOUR + 19 * HOUR / 60).await;
    let state = |class: EC2NodeClass| class.status.unwrap().capacity_reservations[0].state.clone();
    assert_eq!(state(resolved(&cloud, selecting(&["cr-0b"])).await), "active");
    tokio::time::sleep(HOUR / 60).await;
    let class = resolved(&cloud, selecting(&["cr-0b"])).await;
    assert_eq!(state(class.clone()), "expiring");
    let bought = cloud.launch(request("token-2", class)).await.unwrap();
    assert_ne!(bought.capacity_type, "reserved");
    // Half an hour before the end EC2 ends what is still there.
    assert!(region.instance(&launched.id).unwrap().state.is_alive());
    tokio::time::sleep(HOUR / 6).await;
    assert_eq!(region.instance(&launched.id).unwrap().state, InstanceState::ShuttingDown);
}

/// The sandbox's account with an open reservation besides a targeted one, and the setting.
fn with_open(open_reservations: bool) -> Ec2Cloud {
    let one = |id: &str, open: bool| AccountCapacityReservation {
        id: id.into(),
        instance_type: "m5.large".into(),
        zone: "us-east-1b".into(),
        count: 1,
        open,
        ..AccountCapacityReservation::default()
    };
    let mut config = RegionConfig::new("us-east-1", "demo");
    config.reservations = vec![
        one("cr-0a", true),
        one("cr-0b", false),
        AccountCapacityReservation { block: true, ends_after: Some(30 * HOUR), ..one("cr-0c", true) },
        AccountCapacityReservation { interruptible: true, ..one("cr-0d", true) },
    ];
    sandbox_with(config, |settings| settings.open_reservations = open_reservations).1
}

#[tokio::test(start_paused = true)]
async fn open_reservations_are_used_where_the_setting_says_so() {
    for (setting, ids, family, found) in [
        (true, &[][..], "al2023@latest", &["cr-0a"][..]),
        (false, &[], "al2023@latest", &[]),
        (true, &["cr-0b"], "al2023@latest", &["cr-0b"]),
        (true, &[], "windows2022@latest", &[]),
    ] {
        let mut class = selecting(ids);
        class.spec.ami_selector_terms = crate::region::class(family).spec.ami_selector_terms;
        let status = resolved(&with_open(setting), class).await.status.unwrap();
        let all: Vec<&str> = status.capacity_reservations.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(all, found, "{setting} {ids:?} {family}");
    }
}
