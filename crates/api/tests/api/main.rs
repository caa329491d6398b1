//! Reading, writing and checking of Kubernetes' objects: manifests, the CRDs, and schemas held against types.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

mod crds;
mod manifests;
mod overlays;
mod quotas;
mod rewrite;
mod schemas;
