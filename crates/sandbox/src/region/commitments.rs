//! Reserved Instances and Savings Plans of the account: they are paid for, and no instance is another for them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::actions::discovery::choose;
use super::actions::filters::{Filterable, Tags, one};
use super::wire::error::AwsError;
use super::wire::form::FormNode;
use super::wire::xml::Xml;
use super::{AccountReservedInstances, Cx, Lasting, stamp};

/// Length of a term where none is given, in seconds: a year.
const YEAR: i64 = 365 * 24 * 3600;

/// Reserved Instances with their state by now.
struct Listed<'a> {
    own: &'a AccountReservedInstances,
    state: &'static str,
}

impl Filterable for Listed<'_> {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "state" => one(self.state),
            "instance-type" => one(&self.own.instance_type),
            "availability-zone" => self.own.zone.as_deref().map_or(Some(vec![]), one),
            "scope" => one(self.own.scope()),
            "reserved-instances-id" => one(&self.own.id),
            _ => None,
        }
    }
}

impl AccountReservedInstances {
    fn scope(&self) -> &'static str {
        if self.zone.is_some() { "Availability Zone" } else { "Region" }
    }
}

/// DescribeReservedInstances. Those that have ended are no longer listed.
pub(crate) fn reserved_instances(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let all = cx.config.commitments.reserved_instances.iter().filter(|one| cx.lasts(one.lasting));
    let all = all.map(|own| (&own.id, Listed { own, state: cx.state_of(own.lasting) }));
    let all: BTreeMap<&String, Listed<'_>> = all.collect();
    let (none, ids) = (BTreeMap::<String, Tags>::new(), form.strings("ReservedInstancesId"));
    let each = all.iter().map(|(id, one)| (*id, one));
    let chosen = choose(each, form, &ids, "InvalidReservedInstancesId.NotFound", &none)?;
    let mut xml = Xml::new();
    xml.list("reservedInstancesSet", chosen, |xml, (_, Listed { own: one, state })| {
        let (start, end) = cx.term(one.lasting);
        xml.text("reservedInstancesId", &one.id)
            .text("instanceType", &one.instance_type)
            .opt("availabilityZone", one.zone.as_ref())
            .text("start", stamp(start))
            .text("end", stamp(end))
            .text("duration", end.duration_since(start).as_secs())
            .text("fixedPrice", "0.0")
            .text("usagePrice", "0.0")
            .text("instanceCount", one.count)
            .text("productDescription", "Linux/UNIX")
            .text("state", state)
            .text("instanceTenancy", "default")
            .text("currencyCode", cx.config.currency())
            .text("offeringClass", "standard")
            .text("offeringType", "No Upfront")
            .text("scope", one.scope());
        xml.list("recurringCharges", [one.price], |xml, price| {
            xml.text("frequency", "Hourly").text("amount", price);
        });
    });
    Ok(xml)
}

impl Cx<'_> {
    /// True if the account still has it.
    pub(crate) fn lasts(&self, lasting: Lasting) -> bool {
        let since = |after: Option<Duration>| after.is_some_and(|after| self.since_start(after) <= self.wall);
        !since(lasting.ends_after) && !since(lasting.gone_after)
    }

    /// Its state: `queued` until it begins.
    pub(crate) fn state_of(&self, lasting: Lasting) -> &'static str {
        if self.term(lasting).0 > self.wall { "queued" } else { "active" }
    }

    /// Its beginning and its end.
    pub(crate) fn term(&self, lasting: Lasting) -> (Timestamp, Timestamp) {
        let start = self.since_start(lasting.begins_after.unwrap_or_default());
        let year = SignedDuration::from_secs(YEAR);
        let end = lasting.ends_after.map(|after| self.since_start(after));
        (start, end.unwrap_or_else(|| start.saturating_add(year).unwrap_or(Timestamp::MAX)))
    }

    fn since_start(&self, after: Duration) -> Timestamp {
        let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
        self.state.started.1.saturating_add(after).unwrap_or(Timestamp::MAX)
    }
}
