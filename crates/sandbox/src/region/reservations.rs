//! Capacity reservations: instances of a type in a zone that are kept for the account.

use std::collections::BTreeMap;

use super::config::ACCOUNT;
use super::discovery::choose;
use super::error::AwsError;
use super::filters::{Filterable, one};
use super::form::Form;
use super::paging::ResultPage;
use super::xml::Xml;
use super::{CapacityReservation, Cx};

impl Filterable for CapacityReservation {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "state" => one("active"),
            "instance-type" => one(&self.instance_type),
            "availability-zone" => one(&self.zone),
            "owner-id" => one(ACCOUNT),
            "instance-match-criteria" => one("targeted"),
            "tenancy" => one("default"),
            _ => None,
        }
    }
}

/// DescribeCapacityReservations.
pub(crate) fn describe(cx: &mut Cx<'_>, form: &Form) -> Result<Xml, AwsError> {
    let all: BTreeMap<String, CapacityReservation> =
        cx.config.reservations.iter().map(|one| (one.id.clone(), one.clone())).collect();
    let tags = all.iter().map(|(id, one)| (id.clone(), one.tags.clone())).collect();
    let ids = form.strings("CapacityReservationId");
    let chosen = choose(all.iter(), form, &ids, "InvalidCapacityReservationId.NotFound", &tags)?;
    let (page, next) = ResultPage::read(form, 1000)?.cut(chosen);
    let mut xml = Xml::new();
    xml.list("capacityReservationSet", page, |xml, one| {
        xml.text("capacityReservationId", &one.id)
            .text("ownerId", ACCOUNT)
            .text("capacityReservationArn", cx.arn("capacity-reservation", &one.id))
            .text("instanceType", &one.instance_type)
            .text("instancePlatform", "Linux/UNIX")
            .text("availabilityZone", &one.zone)
            .text("tenancy", "default")
            .text("totalInstanceCount", one.count)
            .text("availableInstanceCount", cx.left_of(one))
            .text("ebsOptimized", false)
            .text("ephemeralStorage", false)
            .text("state", "active")
            .text("endDateType", "unlimited")
            .text("instanceMatchCriteria", "targeted")
            .text("reservationType", "default")
            .tags(&one.tags);
    });
    xml.opt("nextToken", next);
    Ok(xml)
}

impl Cx<'_> {
    /// How many instances of a reservation nobody uses.
    fn left_of(&self, one: &CapacityReservation) -> u32 {
        let uses = |i: &&super::Instance| i.state.is_alive() && i.capacity_reservation.as_ref() == Some(&one.id);
        let used = self.state.instances.values().filter(uses).count();
        one.count.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
    }

    /// Whether a launch that is aimed at a reservation fits it, and it has an instance left.
    pub(crate) fn check_reservation(&self, id: &str, instance_type: &str, zone: &str) -> Result<(), AwsError> {
        let found = self.config.reservations.iter().find(|one| one.id == id).ok_or_else(|| {
            let message = format_args!("The capacity reservation '{id}' does not exist");
            AwsError::new("InvalidCapacityReservationId.NotFound", message)
        })?;
        if found.instance_type != instance_type || found.zone != zone {
            return Err(AwsError::invalid(format_args!(
                "The capacity reservation '{id}' is for {} in {}, not for {instance_type} in {zone}",
                found.instance_type, found.zone
            )));
        }
        match self.left_of(found) {
            0 => Err(AwsError::new(
                "ReservationCapacityExceeded",
                "The requested reservation does not have sufficient compatible and available capacity for this request.",
            )),
            _ => Ok(()),
        }
    }
}
