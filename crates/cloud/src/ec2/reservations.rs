//! Capacity reservations of a node class, and what is left of them (karpenter-aws 1.2, 3.4).

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types::{self as sdk, Filter};
use dovetail_api::v1::{CapacityReservation, EC2NodeClassSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use super::describe::filter;
use super::network::tag_filters;
use crate::error::CloudError;

const CALL: &str = "DescribeCapacityReservations";

impl Ec2Cloud {
    /// The active reservations that the class selects. None without the gate, and without a call where it selects none.
    pub(super) async fn reservations_of(&self, spec: &EC2NodeClassSpec) -> Result<Selected, CloudError> {
        let (mut found, mut passed_over) = (BTreeMap::new(), BTreeSet::new());
        if !self.settings.reserved_capacity {
            return Ok(Selected::default());
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
                if let Some(what) = not_plain(&one) {
                    passed_over.insert(format!("{id} ({what})"));
                } else {
                    found.insert(id.to_owned(), reservation_of(&one));
                }
            }
        }
        Ok(Selected { used: found.into_values().collect(), passed_over: passed_over.into_iter().collect() })
    }

    /// What is left of reservations, by id.
    pub(super) async fn left_of(&self, ids: &[String]) -> Result<BTreeMap<String, u32>, CloudError> {
        let mut left = BTreeMap::new();
        if ids.is_empty() {
            return Ok(left);
        }
        for one in self.describe_reservations(vec![]).await? {
            let id = one.capacity_reservation_id().unwrap_or_default();
            if ids.iter().any(|wanted| wanted == id) {
                let count = one.available_instance_count().and_then(|count| u32::try_from(count).ok());
                left.insert(id.to_owned(), count.unwrap_or(0));
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

/// What a class selects.
#[derive(Debug, Default)]
pub(super) struct Selected {
    /// Those that instances are launched into, by id.
    pub used: Vec<CapacityReservation>,
    /// Those that are not, each with its id and what it is.
    pub passed_over: Vec<String>,
}

/// What a reservation is that is bought in another way, or taken back.
fn not_plain(one: &sdk::CapacityReservation) -> Option<&'static str> {
    if one.reservation_type().is_some_and(|kind| *kind != sdk::CapacityReservationType::Default) {
        return Some("a capacity block");
    }
    (one.interruptible() == Some(true)).then_some("an interruptible reservation")
}

fn reservation_of(one: &sdk::CapacityReservation) -> CapacityReservation {
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    let end = one.end_date().and_then(|end| jiff::Timestamp::new(end.secs(), 0).ok());
    CapacityReservation {
        availability_zone: text(one.availability_zone()),
        end_time: end.map(Time),
        id: text(one.capacity_reservation_id()),
        instance_match_criteria: text(one.instance_match_criteria().map(|criteria| criteria.as_str())),
        instance_type: text(one.instance_type()),
        owner_id: text(one.owner_id()),
        reservation_type: "default".to_owned(),
        interruptible: false,
        state: "active".to_owned(),
    }
}
