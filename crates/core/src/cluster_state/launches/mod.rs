//! The results of launches: sold out, unused, or with less room than planned.

pub(super) mod observed;
pub(super) mod room;
pub(super) mod sold_out;
pub(super) mod tainted;
pub(super) mod unused;
