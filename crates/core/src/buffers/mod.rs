//! Capacity buffers: room for pods that do not exist yet (CapacityBuffer of `autoscaling.x-k8s.io`, feature gate CapacityBuffer;
//! docs/decisions/072).
//!
//! ```text
//! CapacityBuffer, its template or workload ──► demand: so many chunks of this shape ──► placing: after all real pods,
//!                                                                                       on nodes that are there
//!             conditions ◄── verdict ◄──────────────────────────────────────────────────┤
//!                                                                                       └──► what does not fit: new nodes
//! ```
//!
//! A chunk is the room of one pod. It is never an object: real pods find its room free and take it, and the next look finds
//! another place for the chunk. Disruption sees chunks as pods ([`crate::cluster_state::HeldRoom`]); packing of real pods does
//! not see them at all.

mod demand;
mod memory;
mod placing;
mod schedule;
#[cfg(test)]
pub(crate) mod tests;
mod verdict;

pub use demand::{Buffer, BufferFault, BufferSource, MOST_CHUNKS, MOST_CHUNKS_OF_ALL, buffer_demand, cap_all};
pub use memory::BufferMemory;
pub use placing::{BufferPlan, ChunkProblem, ChunksNow, NewRoom, plan_chunks, promised_room, with_chunks, write_room};
pub use schedule::{BufferSchedule, FindZone};
pub use verdict::{BufferVerdict, judge_buffer};
