//! The cloud: each call measured and within the term, and the end of instances.

pub(crate) mod end_once;
pub mod metered;
pub(crate) mod paced;
