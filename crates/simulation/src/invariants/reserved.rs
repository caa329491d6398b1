//! Capacity reservations are never used beyond what they have.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_sandbox::log::ActionEntry;

use super::Checker;
use super::history::seconds;

impl Checker {
    /// INV-24: no more instances live in a capacity reservation than it has.
    pub(super) fn reserved(&mut self, entries: &[ActionEntry]) {
        let start = entries.iter().find(|entry| entry.kind == "start");
        let counts = start.and_then(|entry| entry.field("capacityReservations")?.as_object().cloned());
        let counts = counts.unwrap_or_default();
        let mut alive: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.kind == "instance") {
            let (id, reservation) = (entry.text("id"), entry.text("reservation"));
            if reservation.is_empty() {
                continue;
            }
            let living = alive.entry(reservation).or_default();
            match entry.text("change") {
                "pending" | "running" => _ = living.insert(id),
                "shutting-down" | "terminated" => _ = living.remove(id),
                _ => continue,
            }
            let (has, count) = (counts.get(reservation).and_then(serde_json::Value::as_u64).unwrap_or(0), living.len());
            self.expect("INV-24", seconds(entry), u64::try_from(count).is_ok_and(|count| count <= has), || {
                format!("{count} instances live in capacity reservation {reservation}, which has {has}")
            });
        }
    }
}
