//! Capacity reservations and placement groups of a scenario's account.

use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_sandbox::region::{AccountCapacityReservation, AccountPlacementGroup};

use serde_saphyr::Spanned;

use super::check::{Checker, MOST_NODES, nearest};
use crate::scenario::{self, duration};
use crate::world::Action;

const KINDS: [&str; 3] = ["default", "capacity-block", "interruptible"];
/// The strategies of placement groups.
const STRATEGIES: [&str; 3] = ["cluster", "partition", "spread"];
/// Partitions that a group has at most in a zone.
const MOST_PARTITIONS: u32 = 7;

/// A capacity reservation as the region takes it.
pub(super) fn reservation(path: &str, one: &scenario::ScenarioCapacityReservation) -> AccountCapacityReservation {
    let kind = one.kind.as_ref().map(|kind| kind.value.as_str());
    AccountCapacityReservation {
        id: one.id.value.clone(),
        instance_type: one.instance_type.value.clone(),
        zone: one.zone.value.clone(),
        count: one.count,
        tags: one.tags.clone(),
        open: one.open,
        block: kind == Some("capacity-block"),
        interruptible: kind == Some("interruptible"),
        ends_after: one.ends_after.as_ref().and_then(|text| duration(path, "endsAfter", text).ok()),
    }
}

/// A placement group as the region takes it.
pub(super) fn placement_group(one: &scenario::ScenarioPlacementGroup) -> AccountPlacementGroup {
    AccountPlacementGroup {
        id: one.id.value.clone(),
        name: one.name.value.clone(),
        strategy: one.strategy.value.clone(),
        partitions: one.partitions.as_ref().map_or(1, |count| count.value),
    }
}

impl Checker<'_> {
    pub(super) fn reservations(&mut self, all: &[scenario::ScenarioCapacityReservation], catalogue: &RegionCatalogue) {
        for (index, one) in all.iter().enumerate() {
            let field = |name: &str| format!("capacityReservations[{index}].{name}");
            let name = &one.instance_type;
            if catalogue.instance_type(&name.value).is_none() {
                let what = format!("unknown instance type {:?}", name.value);
                self.mistake(field("instanceType"), name, what, nearest(&name.value, catalogue));
            }
            self.zone(&field("zone"), &one.zone, catalogue);
            if !one.id.value.starts_with("cr-") {
                self.mistake(field("id"), &one.id, format!("{:?} is no reservation's id", one.id.value), "cr-…");
            }
            if all[..index].iter().any(|other| other.id.value == one.id.value) {
                self.mistake(field("id"), &one.id, "there is another of that id", "each id once");
            }
            if let Some(kind) = one.kind.as_ref().filter(|kind| !KINDS.contains(&kind.value.as_str())) {
                let what = format!("{:?} is no type of reservation", kind.value);
                self.mistake(field("type"), kind, what, KINDS.join(", "));
            }
            if let Some(text) = &one.ends_after {
                let read = duration(self.path, &field("endsAfter"), text);
                self.collect(read);
            }
        }
    }

    /// Actions of a step that are about the account.
    pub(super) fn account_steps(
        &mut self,
        field: &str,
        step: &scenario::Step,
        catalogue: Option<&RegionCatalogue>,
    ) -> Vec<Action> {
        let mut found = Vec::new();
        if let Some(take) = &step.take_reserved {
            self.reservation_id(format!("{field}.takeReserved.id"), &take.id);
            found.push(Action::TakeReserved { id: take.id.value.clone(), count: take.count });
        }
        if let Some(resized) = &step.resize_reserved {
            self.reservation_id(format!("{field}.resizeReserved.id"), &resized.id);
            found.push(Action::ResizeReserved { id: resized.id.value.clone(), count: resized.count });
        }
        if let Some(others) = &step.others {
            found.push(self.others(field, others, catalogue));
        }
        found
    }

    fn reservation_id(&mut self, field: String, id: &Spanned<String>) {
        if !self.reservation_ids.contains(&id.value) {
            let what = format!("there is no capacity reservation {:?}", id.value);
            self.mistake(field, id, what, self.reservation_ids.join(", "));
        }
    }

    fn others(
        &mut self,
        field: &str,
        others: &scenario::OtherInstances,
        catalogue: Option<&RegionCatalogue>,
    ) -> Action {
        let name = &others.instance_type;
        if let Some(catalogue) = catalogue {
            if catalogue.instance_type(&name.value).is_none() {
                let what = format!("unknown instance type {:?}", name.value);
                self.mistake(format!("{field}.others.instanceType"), name, what, nearest(&name.value, catalogue));
            }
            self.zone_of_cluster(&format!("{field}.others.zone"), &others.zone, catalogue);
        }
        if others.count > MOST_NODES {
            let (what, most) = (format!("{} instances", others.count), format!("{MOST_NODES} at most"));
            self.mistake(format!("{field}.others.count"), name, what, most);
        }
        Action::Others { instance_type: name.value.clone(), zone: others.zone.value.clone(), count: others.count }
    }

    pub(super) fn placement_groups(&mut self, all: &[scenario::ScenarioPlacementGroup]) {
        for (index, one) in all.iter().enumerate() {
            let field = |name: &str| format!("placementGroups[{index}].{name}");
            if !one.id.value.starts_with("pg-") {
                self.mistake(field("id"), &one.id, format!("{:?} is no group's id", one.id.value), "pg-…");
            }
            if all[..index].iter().any(|other| other.id.value == one.id.value) {
                self.mistake(field("id"), &one.id, "there is another of that id", "each id once");
            }
            if all[..index].iter().any(|other| other.name.value == one.name.value) {
                self.mistake(field("name"), &one.name, "there is another of that name", "each name once");
            }
            if !STRATEGIES.contains(&one.strategy.value.as_str()) {
                let what = format!("{:?} is no strategy", one.strategy.value);
                self.mistake(field("strategy"), &one.strategy, what, STRATEGIES.join(", "));
            }
            let strategy = one.strategy.value.as_str();
            if let Some(count) =
                one.partitions.as_ref().filter(|_| STRATEGIES.contains(&strategy) && strategy != "partition")
            {
                let what = format!("a group of strategy {strategy:?} has no partitions");
                self.mistake(field("partitions"), count, what, "nothing, or strategy: partition");
            } else if let Some(count) =
                one.partitions.as_ref().filter(|count| !(1..=MOST_PARTITIONS).contains(&count.value))
            {
                let what = format!("a group has no {} partitions", count.value);
                self.mistake(field("partitions"), count, what, format!("1 to {MOST_PARTITIONS}"));
            }
        }
    }
}
