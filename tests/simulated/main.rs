//! `dovetail simulate`: scenarios on virtual time, what must come of them, and what is counted and traced in them. The folder
//! `ends` has those in which nodes end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../played/mod.rs"]
mod played;

#[path = "ends/adopting.rs"]
mod adopting;
#[path = "cloud/after.rs"]
mod after;
mod alpha;
mod backups;
mod brakes;
mod broken;
mod buffers;
mod cases_simulate;
#[path = "cloud/commitments.rs"]
mod commitments;
#[path = "ends/consolidation.rs"]
mod consolidation;
mod deletion_costs;
mod device_moves;
mod devices;
#[path = "ends/disruption.rs"]
mod disruption;
#[path = "ends/drift.rs"]
mod drift;
mod ec2_says_no;
mod expendable;
mod fields;
mod gangs;
mod incidents;
#[path = "ends/interruption.rs"]
mod interruption;
#[path = "cloud/last_place.rs"]
mod last_place;
mod metrics;
#[path = "ends/moves.rs"]
mod moves;
mod overlays;
mod packing;
mod pod_groups;
mod pools;
#[path = "cloud/prices.rs"]
mod prices;
mod quotas;
mod refused;
#[path = "ends/repair.rs"]
mod repair;
#[path = "cloud/reserved.rs"]
mod reserved;
mod shadow;
mod simulate;
mod sizes;
mod sold_out;
#[path = "ends/spot_share.rs"]
mod spot_share;
#[path = "ends/static_pools.rs"]
mod static_pools;
mod takeover;
#[path = "ends/termination.rs"]
mod termination;
mod traces;
mod unreadable;
#[path = "ends/unused.rs"]
mod unused;
mod writes;
mod wrong_world;
#[path = "cloud/zonal_shift.rs"]
mod zonal_shift;
