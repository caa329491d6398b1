//! Capacity reservations of a node class, and what is left of them (karpenter-aws 1.2, 3.4).

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{self as sdk, Filter};
use dovetail_api::names::labels::CAPACITY_BLOCK;
use dovetail_api::v1::{CapacityReservation, EC2NodeClassSpec};
use dovetail_core::disruption::expiring_from;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::ec2::Ec2Cloud;
use crate::ec2::classify::{Effect, classify};
use crate::ec2::describe::filter;
use crate::ec2::resolving::network::tag_filters;
use crate::error::CloudError;
use crate::resolve::family_of;

const CALL: &str = "DescribeCapacityReservations";
/// The state of a capacity block that is about to end: nothing more is launched into it.
const EXPIRING: &str = "expiring";

impl Ec2Cloud {
    /// The active reservations that the class selects, by id. None without the gate, and without a call where it selects
    /// none and does not use the open ones.
    pub(in crate::ec2) async fn reservations_of(
        &self,
        spec: &EC2NodeClassSpec,
    ) -> Result<Vec<CapacityReservation>, CloudError> {
        let (mut found, now) = (BTreeMap::new(), self.clock.wall());
        if !self.settings.reserved_capacity {
            return Ok(Vec::new());
        }
        for term in &spec.capacity_reservation_selector_terms {
            let mut filters = tag_filters(&term.tags);
            filters.extend(term.owner_id.as_deref().map(|owner| filter("owner-id", [owner])));
            let criteria = term.instance_match_criteria.as_deref();
            filters.extend(criteria.map(|criteria| filter("instance-match-criteria", [criteria])));
            for one in self.describe_reservations(filters).await? {
                let id = one.capacity_reservation_id().unwrap_or_default();
                if term.id.as_deref().is_some_and(|wanted| wanted != id) {
                    continue;
                }
                found.insert(id.to_owned(), reservation_of(&one, now));
            }
        }
        if self.uses_open(spec) {
            let open = self.describe_reservations(vec![filter("instance-match-criteria", ["open"])]).await?;
            found.extend(open.iter().filter(|one| fits_any_node(one)).map(|one| {
                let reservation = reservation_of(one, now);
                (reservation.id.clone(), reservation)
            }));
        }
        Ok(found.into_values().collect())
    }

    /// True if a class selects no reservations, and uses the open ones of its zones.
    pub(in crate::ec2) fn uses_open(&self, spec: &EC2NodeClassSpec) -> bool {
        self.settings.reserved_capacity && self.settings.open_reservations && fits_open(spec)
    }

    /// Number of unused instances of reservations, by id.
    pub(in crate::ec2) async fn left_of(&self, ids: &[String]) -> Result<BTreeMap<String, u32>, CloudError> {
        let mut left = BTreeMap::new();
        if ids.is_empty() {
            return Ok(left);
        }
        for one in self.describe_reservations(vec![]).await? {
            let id = one.capacity_reservation_id().unwrap_or_default();
            if ids.iter().any(|wanted| wanted == id) {
                left.insert(id.to_owned(), free_of(&one));
            }
        }
        Ok(left)
    }

    async fn describe_reservations(
        &self,
        mut filters: Vec<Filter>,
    ) -> Result<Vec<sdk::CapacityReservation>, CloudError> {
        filters.push(filter("state", ["active"]));
        let call = self.clients.ec2.describe_capacity_reservations().set_filters(Some(filters));
        let mut items = call.into_paginator().items().send();
        let mut all = Vec::new();
        while let Some(item) = items.next().await {
            all.push(item.map_err(|e| classify(CALL, Effect::Repeatable, e))?);
        }
        Ok(all)
    }
}

/// Number of unused instances of a reservation. No more can be unused than there are.
fn free_of(one: &sdk::CapacityReservation) -> u32 {
    let free = one.available_instance_count().unwrap_or(0);
    u32::try_from(free.min(one.total_instance_count().unwrap_or(free))).unwrap_or(0)
}

/// True if a class selects no reservations, and its instances can be in open ones: Linux, and in no placement group.
fn fits_open(spec: &EC2NodeClassSpec) -> bool {
    spec.capacity_reservation_selector_terms.is_empty()
        && spec.placement_group_selector.is_none()
        && family_of(spec).is_ok_and(|family| !family.is_windows())
}

/// True if any Linux node of the type can be launched into it. What is in a placement group or an outpost, or of another tenancy or
/// platform, has to be selected.
fn fits_any_node(one: &sdk::CapacityReservation) -> bool {
    let platform = one.instance_platform();
    let is_linux = platform.is_none_or(|platform| *platform == sdk::CapacityReservationInstancePlatform::LinuxUnix);
    let is_shared = one.tenancy().is_none_or(|tenancy| *tenancy == sdk::CapacityReservationTenancy::Default);
    let is_plain = one.reservation_type() != Some(&sdk::CapacityReservationType::CapacityBlock);
    let is_bound = [one.placement_group_arn(), one.outpost_arn()].iter().flatten().any(|arn| !arn.is_empty());
    is_linux && is_shared && is_plain && !is_bound && one.interruptible() != Some(true)
}

fn reservation_of(one: &sdk::CapacityReservation, now: Timestamp) -> CapacityReservation {
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    let end = one.end_date().and_then(|end| Timestamp::new(end.secs(), 0).ok());
    let block = one.reservation_type() == Some(&sdk::CapacityReservationType::CapacityBlock);
    let expires = end.filter(|_| block).is_some_and(|end| expiring_from(end) <= now);
    CapacityReservation {
        availability_zone: text(one.availability_zone()),
        end_time: end.map(Time),
        id: text(one.capacity_reservation_id()),
        instance_match_criteria: text(one.instance_match_criteria().map(|criteria| criteria.as_str())),
        instance_type: text(one.instance_type()),
        owner_id: text(one.owner_id()),
        reservation_type: if block { CAPACITY_BLOCK } else { "default" }.to_owned(),
        interruptible: one.interruptible() == Some(true),
        state: if expires { EXPIRING } else { "active" }.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use dovetail_api::v1::{CapacityReservationSelectorTerm, PlacementGroupSelector};
    use serde_json::json;

    use super::*;

    fn spec(alias: &str, change: impl FnOnce(&mut EC2NodeClassSpec)) -> EC2NodeClassSpec {
        let mut spec: EC2NodeClassSpec = serde_json::from_value(json!({"amiSelectorTerms": [{"alias": alias}],
            "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]}))
        .unwrap();
        change(&mut spec);
        spec
    }

    #[test]
    fn no_more_instances_are_free_than_there_are() {
        for (free, total, believed) in [
            (Some(2), Some(5), 2),
            (Some(i32::MAX), Some(5), 5),
            (Some(-3), Some(5), 0),
            (Some(2), Some(-1), 0),
            (Some(2), None, 2),
            (None, Some(5), 0),
        ] {
            let one = sdk::CapacityReservation::builder();
            let one = one.set_available_instance_count(free).set_total_instance_count(total).build();
            assert_eq!(free_of(&one), believed, "{free:?} {total:?}");
        }
    }

    #[test]
    fn linux_classes_of_no_placement_group_use_open_reservations() {
        let placed =
            |spec: &mut EC2NodeClassSpec| spec.placement_group_selector = Some(PlacementGroupSelector::default());
        let selecting = |spec: &mut EC2NodeClassSpec| {
            spec.capacity_reservation_selector_terms = vec![CapacityReservationSelectorTerm::default()];
        };
        assert!(fits_open(&spec("al2023@latest", |_| ())));
        assert!(!fits_open(&spec("windows2022@latest", |_| ())));
        assert!(!fits_open(&spec("al2023@latest", placed)));
        assert!(!fits_open(&spec("al2023@latest", selecting)));
    }
}
