//! Capacity reservations: instances of a type in a zone that are kept for the account.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::actions::discovery::choose;
use super::actions::filters::{Filterable, one};
use super::actions::paging::ResultPage;
use super::config::ACCOUNT;
use super::launch::Spec;
use super::state::Due;
use super::wire::error::AwsError;
use super::wire::form::FormNode;
use super::wire::xml::Xml;
use super::{AccountCapacityReservation, Cx, RegionInstance, stamp};

/// So long before the end of a capacity block EC2 ends what runs in it.
const BEFORE_END: Duration = Duration::from_secs(30 * 60);

impl AccountCapacityReservation {
    fn kind(&self) -> &'static str {
        if self.block { "capacity-block" } else { "default" }
    }

    fn criteria(&self) -> &'static str {
        if self.open { "open" } else { "targeted" }
    }

    /// The market type that a launch into it has to name.
    fn market(&self) -> Option<&'static str> {
        match (self.block, self.interruptible) {
            (true, _) => Some("capacity-block"),
            (false, true) => Some("interruptible-capacity-reservation"),
            (false, false) => None,
        }
    }
}

impl Filterable for AccountCapacityReservation {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "state" => one("active"),
            "instance-type" => one(&self.instance_type),
            "availability-zone" => one(&self.zone),
            "owner-id" => one(ACCOUNT),
            "instance-match-criteria" => one(self.criteria()),
            "tenancy" => one("default"),
            "reservation-type" => one(self.kind()),
            _ => None,
        }
    }
}

/// DescribeCapacityReservations.
pub(crate) fn describe(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let all: BTreeMap<String, AccountCapacityReservation> = cx
        .config
        .reservations
        .iter()
        .filter(|one| !cx.has_ended(one))
        .map(|one| (one.id.clone(), one.clone()))
        .collect();
    let tags = all.iter().map(|(id, one)| (id.clone(), one.tags.clone())).collect();
    let ids = form.strings("CapacityReservationId");
    let chosen = choose(all.iter(), form, &ids, "InvalidCapacityReservationId.NotFound", &tags)?;
    let (page, next) = ResultPage::from_form(form, 1000)?.cut(chosen);
    let mut xml = Xml::new();
    xml.list("capacityReservationSet", page, |xml, one| {
        xml.text("capacityReservationId", &one.id)
            .text("ownerId", ACCOUNT)
            .text("capacityReservationArn", cx.arn("capacity-reservation", &one.id))
            .text("instanceType", &one.instance_type)
            .text("instancePlatform", "Linux/UNIX")
            .text("availabilityZone", &one.zone)
            .text("tenancy", "default")
            .text("totalInstanceCount", cx.total_of(one))
            .text("availableInstanceCount", cx.left_of(one))
            .text("ebsOptimized", false)
            .text("ephemeralStorage", false)
            .text("state", "active")
            .text("endDateType", if one.ends_after.is_some() { "limited" } else { "unlimited" })
            .opt("endDate", cx.end_of(one).map(stamp))
            .text("instanceMatchCriteria", one.criteria())
            .text("reservationType", one.kind())
            .text("interruptible", one.interruptible)
            .tags(&one.tags);
    });
    xml.opt("nextToken", next);
    Ok(xml)
}

impl Cx<'_> {
    fn end_of(&self, one: &AccountCapacityReservation) -> Option<Timestamp> {
        let after = SignedDuration::try_from(one.ends_after?).unwrap_or(SignedDuration::MAX);
        Some(self.state.started.1.saturating_add(after).unwrap_or(Timestamp::MAX))
    }

    fn has_ended(&self, one: &AccountCapacityReservation) -> bool {
        self.end_of(one).is_some_and(|end| end <= self.wall) || self.total_of(one) == 0
    }

    /// Number of a reservation's instances, as it is now.
    fn total_of(&self, one: &AccountCapacityReservation) -> u32 {
        self.state.resized_reservations.get(&one.id).copied().unwrap_or(one.count)
    }

    /// The capacity reservation that an instance is in. One that was launched into a reservation runs on, on demand, once that has
    /// ended or has no place for it.
    pub(crate) fn reservation_of<'i>(&self, instance: &'i RegionInstance) -> Option<&'i String> {
        let id = instance.capacity_reservation.as_ref()?;
        let Some(own) = self.config.reservations.iter().find(|one| one.id == *id) else { return Some(id) };
        let before = |one: &&RegionInstance| {
            let is_earlier = (one.launched, &one.id) < (instance.launched, &instance.id);
            is_earlier && one.state.is_alive() && one.capacity_reservation.as_ref() == Some(id)
        };
        let place = self.state.instances.values().filter(before).count();
        let has_place = u32::try_from(place).is_ok_and(|place| place < self.total_of(own));
        (has_place && !self.has_ended(own)).then_some(id)
    }

    /// Plans the end of an instance in a capacity block, before the block ends.
    pub(crate) fn plan_end_of_block(&mut self, reservation: Option<&String>, instance: &str) {
        let found = self.config.reservations.iter().find(|one| Some(&one.id) == reservation && one.block);
        if let Some(after) = found.and_then(|one| one.ends_after) {
            let at = self.state.started.0 + after.saturating_sub(BEFORE_END);
            self.state.plan(at.max(self.now), Due::BlockEnds(instance.to_owned()));
        }
    }

    /// Number of a reservation's instances that nobody uses.
    fn left_of(&self, one: &AccountCapacityReservation) -> u32 {
        let uses = |i: &&RegionInstance| i.state.is_alive() && i.capacity_reservation.as_ref() == Some(&one.id);
        let used = self.state.instances.values().filter(uses).count();
        let others = self.state.reserved_by_others.get(&one.id).copied().unwrap_or_default();
        self.total_of(one).saturating_sub(u32::try_from(used).unwrap_or(u32::MAX).saturating_add(others))
    }

    /// Refuses a launch that is aimed at a reservation and does not fit it, or finds no instance left.
    pub(crate) fn check_reservation(&self, id: &str, spec: &Spec, zone: &str) -> Result<(), AwsError> {
        let (instance_type, market) = (&spec.instance_type, spec.market.as_deref());
        let found = self.config.reservations.iter().find(|one| one.id == id).ok_or_else(|| {
            let message = format_args!("The capacity reservation '{id}' does not exist");
            AwsError::new("InvalidCapacityReservationId.NotFound", message)
        })?;
        if found.instance_type != *instance_type || found.zone != zone {
            return Err(AwsError::invalid(format_args!(
                "The capacity reservation '{id}' is for {} in {}, not for {instance_type} in {zone}",
                found.instance_type, found.zone
            )));
        }
        if found.market() != market {
            return Err(AwsError::invalid(format_args!(
                "The capacity reservation '{id}' takes instances of market type {}, not {}",
                found.market().unwrap_or("on-demand"),
                market.unwrap_or("on-demand")
            )));
        }
        match self.left_of(found) {
            _ if self.has_ended(found) => Err(AwsError::new(
                "ReservationCapacityExceeded",
                format_args!("The capacity reservation '{id}' has ended."),
            )),
            0 => Err(AwsError::new(
                "ReservationCapacityExceeded",
                "The requested reservation does not have sufficient compatible and available capacity for this request.",
            )),
            _ => Ok(()),
        }
    }
}
