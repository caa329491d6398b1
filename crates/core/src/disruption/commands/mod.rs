//! Commands: nodes that go by our own decision, with what is launched in their stead first (core spec 5.8).
//!
//! ```text
//! a method ──► Wanted (reason, claims) ──► places for the pods ──► Command ──► Running ──► claims are removed
//!                                                                                └► undone: untainted, unmarked, said
//! ```
//!
//! Any method may ask by [`Wanted`]. What is done about it is the same for each reason: the claims are marked as leaving, so that
//! nothing new comes to them; replacements are launched; the claims are removed when these are initialized.

use super::Reason;
use super::look::Doomed;

/// Claims that are to go together, once the pods on them have places elsewhere.
///
/// A method puts them into [`Decision::wanted`](super::Decision::wanted) in the order in which they are to be tried. One that cannot
/// be done now, as a pod would have no place, is said to be blocked, and the next is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Why.
    pub reason: Reason,
    /// By which method, as the label `consolidation_type` of metrics says it.
    pub method: &'static str,
    /// Which.
    pub claims: Vec<Doomed>,
}
