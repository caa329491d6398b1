//! Steps of a write: patches, server-side apply, deletion, and what ends with it.

pub(super) mod apply;
pub(super) mod contents;
pub(super) mod delete;
pub(super) mod evict;
pub(super) mod fields;
pub(super) mod gc;
pub(super) mod managed;
pub(super) mod patch;
pub(super) mod shape;
pub(super) mod strategic;
pub(super) mod write;
