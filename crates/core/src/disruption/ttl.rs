//! `ttlSecondsAfterEmpty` of pools that were Provisioners: a node on which nothing but DaemonSets' pods is left goes when
//! it has been so for exactly that long, whatever budgets say.
//!
//! ```text
//! occupied ── last pod gone ──► vacant since t ── t + TTL ──► removed
//!    ▲                              │
//!    └──── pod bound or expected ───┘  (the TTL is taken away)
//! ```
//!
//! `t` is written on the Node (`karpenter.sh/emptiness-timestamp`, as alpha did): a successor goes on counting.

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};

use super::machines::NodeAndClaim;

/// A change of a Node's TTL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TtlMark {
    /// The Node's name.
    pub node: String,
    /// The Node's uid: another Node may have had the name before.
    pub uid: String,
    /// Time since which it is vacant; `None` takes the TTL away.
    pub since: Option<Timestamp>,
    /// The TTL in seconds.
    pub seconds: i64,
    /// True if it has not been reported before.
    pub news: bool,
}

/// Time since which a vacant machine counts. `known` is the time that this term has counted so far, and `first` is true at its
/// first look: then the time that the predecessor wrote counts, and the pods that this replica's own watch has seen come and go
/// while nobody led.
pub fn since(machine: &NodeAndClaim<'_>, known: Option<Timestamp>, first: bool, now: Timestamp) -> Timestamp {
    match known {
        Some(since) => since,
        None if first => {
            let moved = machine.moves.map(|moves| written(moves.last));
            machine.node.emptied.max(moved).filter(|since| *since <= now).unwrap_or_else(|| written(now))
        }
        None => written(now),
    }
}

/// A time as it is written down; never earlier than it was.
fn written(time: Timestamp) -> Timestamp {
    time.round(TimestampRound::new().smallest(Unit::Millisecond).mode(RoundMode::Ceil)).unwrap_or(time)
}
