//! PodGroups: pods of a gang get nodes only where enough of them have a place (`scheduling.k8s.io`, and `scheduling.x-k8s.io` of
//! the coscheduling plugin; feature gate GangScheduling; docs/decisions/094).
//!
//! ```text
//! PodGroup ──► book ──┐                       ┌─ all gangs have enough places ─► the packing stands
//! pods that wait ─────┴─► gangs of a problem ─┴─ some lack places ─► packed again without them; one at a time is tried anew
//! ```
//!
//! PGR-1: no packing that stands has a place for a pod of a gang without a node, unless `minCount` members have a place, are on
//! a node or are expected on one.
//! PGR-2: a gang that comes to nothing leaves other pods the packing that they have without it.
//! PGR-3: where no PodGroups are followed, nothing is looked at.

mod book;
mod gangs;
mod given_back;
mod read;
mod rounds;
#[cfg(test)]
mod tests;
mod trials;

pub use book::{PodGroupBook, PodGroupRule};
pub use gangs::{GangTable, WaitingGang};
pub(crate) use given_back::groups_of;
pub use given_back::write_groups;
pub use read::{MOST_MEMBERS, PodGroupApi, PodGroupRef, read_coscheduling_group, read_group};
pub use rounds::{GangRounds, pack_gangs, take_out_short};
pub use trials::GangTrials;
