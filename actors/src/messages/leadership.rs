//! From `leader` to `control_plane`, and back.

use actix::Message;

use crate::tenure::Tenure;

/// This replica leads. Fact.
#[derive(Clone, Message)]
#[rtype(result = "()")]
pub struct Elected {
    /// The term and its moving deadline.
    pub tenure: Tenure,
}

/// It no longer does. Fact.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Deposed {
    /// Why.
    pub why: String,
}

/// Give the Lease back, so that another need not wait for it to run out. Order, to `leader`; the answer comes when it
/// is done.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Release;
