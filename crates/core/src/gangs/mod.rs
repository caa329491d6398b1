//! Gangs: room for all pods of a group, or for none (ProvisioningRequest of `autoscaling.x-k8s.io`, feature gate
//! ProvisioningRequest; docs/decisions/093).
//!
//! ```text
//!                    ┌──────────────── no room, or its launches fail: its nodes are given back, a pause ────────────────┐
//!                    ▼                                                                                                  │
//! request, templates ─► Gang ─► Waiting ─► placing: all pods have places ─► nodes are ordered, if any ─► all are ready ─┤
//!                                 │                                                                          │
//!                                 └─► Over: refused, expired                              Booked: room is held for a time
//!                                                                                          └─► Over: consumed, expired, lost
//! ```
//!
//! GANG-1: nodes are ordered for a request only by a plan in which every pod of it has a place.
//! GANG-2: a request of the class check-capacity orders none.
//! GANG-3: room is booked from the condition Provisioned on, for its time at most, and once: pods that consume it take of it.
//! GANG-4: of a request that comes to nothing all nodes go that hold neither a pod nor other room.

mod booking;
mod give_back;
mod memory;
mod outcome;
mod placing;
mod request;
#[cfg(test)]
mod tests;

pub use booking::{Consumers, GangPhase, booking_time, phase_of};
pub use give_back::claims_to_give_back;
pub use memory::GangMemory;
pub use outcome::{GangOutcome, decide_gang, judge_fault};
pub use placing::{
    GangPlaces, GangPlan, GangProblem, HeldGang, PodsNow, plan_gangs, promised_to_requests, write_request,
};
pub use request::{
    Gang, GangClass, GangFault, MOST_PODS, MOST_PODS_OF_ALL, PodSetShape, TemplateFault, Templates, is_ours,
    read_request,
};
