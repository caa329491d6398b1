//! Custom kinds: served by their CustomResourceDefinition, held against their schema.

pub(super) mod crd;
pub(super) mod schema;
pub(super) mod versions;
