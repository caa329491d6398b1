//! The results of launches: sold out, unused, or with less room than planned; and the pools' limits that count them.

pub(super) mod observed;
pub(super) mod pool_cost;
pub(super) mod quota_use;
pub(super) mod room;
pub(super) mod sold_out;
pub(super) mod tainted;
pub(super) mod unused;
