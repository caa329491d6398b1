//! Capacity reservations are never used beyond what they have.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_sandbox::log::ActionEntry;

use super::Checker;
use super::history::seconds;
use crate::world::{Action, step};

impl Checker {
    /// INV-24: nothing is launched into a capacity reservation that all its instances live in. Whoever makes it smaller may leave
    /// more in it than it has.
    pub(super) fn reserved(&mut self, entries: &[ActionEntry]) {
        let start = entries.iter().find(|entry| entry.kind == "start");
        let counts = start.and_then(|entry| entry.field("capacityReservations")?.as_object().cloned());
        let counts = counts.unwrap_or_default();
        let number = |(id, count): (String, serde_json::Value)| (id, count.as_u64().unwrap_or(0));
        let mut counts: BTreeMap<String, u64> = counts.into_iter().map(number).collect();
        let mut alive: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| matches!(entry.kind.as_str(), "instance" | "step")) {
            if let Some(Action::ResizeReserved { id, count }) = step(entry) {
                counts.insert(id, u64::from(count));
            }
            let (id, reservation) = (entry.text("id"), entry.text("reservation"));
            if reservation.is_empty() {
                continue;
            }
            let living = alive.entry(reservation).or_default();
            let is_new = match entry.text("change") {
                "pending" | "running" => living.insert(id),
                "shutting-down" | "terminated" => {
                    living.remove(id);
                    false
                }
                _ => false,
            };
            if !is_new {
                continue;
            }
            let (has, count) = (counts.get(reservation).copied().unwrap_or(0), living.len());
            self.expect("INV-24", seconds(entry), u64::try_from(count).is_ok_and(|count| count <= has), || {
                format!("{count} instances live in capacity reservation {reservation}, which has {has}")
            });
        }
    }
}
