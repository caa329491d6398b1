//! Requests that pods have once they are created anew, where a VerticalPodAutoscaler sets them (docs/recommendations.md).
//!
//! ```text
//! VerticalPodAutoscaler ──► Recommendation (of a workload, by container) ──┐
//! pod on a node ──► ContainerSizes ────────────────────────────────────────┴─► its requests after a move
//! ```
//!
//! Invariants: REC-1 a pod that stays, waits or is nobody's counts as it is; REC-2 no amount is less than nothing, and one that
//! cannot be read changes nothing; REC-3 without recommendations no plan is another one.

mod book;

pub use book::{MOST_RECOMMENDATIONS, Recommendation, Recommendations};
