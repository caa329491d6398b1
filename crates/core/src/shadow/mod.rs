//! Shadow mode: the actions of another provisioner in a cluster, beside those that ours would have taken there.
//!
//! ```text
//! objects of the cluster ──► Observer ─┐            ┌─► Decision: one line of the log
//!                                      ├─► Ledger ──┤
//! objects of the copy ─────► Observer ─┘            └─► Report
//! ```
//!
//! Both sides are read by the same [`Observer`] and reckoned by the same book, so that a difference in the report is one of
//! actions, never one of counting.
//!
//! Invariants: SHD-1 two sides with the same facts have no difference; SHD-2 a fact that is told twice counts once;
//! SHD-3 what the rounds say of launches and removals adds up to the totals; SHD-4 what a side costs never falls.

mod fact;
mod ledger;
mod observer;
mod report;
mod rounds;

#[cfg(test)]
mod tests;

pub use fact::{Fact, ShadowNode, Side, SideDecision};
pub use ledger::Ledger;
pub use observer::{Observer, PriceLookup, goes_with_its_node};
pub use report::{Difference, ShadowReport, SideTotals};
pub use rounds::{Round, RoundMoves, RoundVerdict};
