//! The event log: everything that happened, in order.
