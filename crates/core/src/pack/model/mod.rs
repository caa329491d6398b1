//! The problem compiled for packing: everything that is decided once and looked up afterwards.

pub(in crate::pack) mod bits;
pub(in crate::pack) mod classes;
pub(in crate::pack) mod columns;
pub(crate) mod context;
pub(in crate::pack) mod daemons;
pub(crate) mod ids;
pub(in crate::pack) mod item;
pub(crate) mod kinds;
pub(in crate::pack) mod names;
pub(in crate::pack) mod numbers;
pub(in crate::pack) mod offers;
pub(in crate::pack) mod options;
pub(in crate::pack) mod plan;
pub(in crate::pack) mod pools;
pub(in crate::pack) mod ranks;
pub(in crate::pack) mod reserved;
