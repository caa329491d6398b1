//! Manifests as users write them: YAML with lines, variables filled, every object checked and, if it is one of Karpenter's,
//! converted to v1. All mistakes of all files are told at once, each once, with file, line, field and what is allowed.

mod check;
mod error;
mod fill;
mod objects;
mod parse;
mod pods;
mod read;
pub mod rewrite;
mod scalar;
mod tree;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::convert::{ConversionContext, Converted};

pub use error::InputError;
pub use objects::Objects;
pub use pods::{MAX_PODS, workload_pods};
pub use read::read_manifests;

/// Options of reading, besides the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Values of `${NAME}`.
    pub env: BTreeMap<String, String>,
    /// Name of the cluster: older manifests that name no selectors or role mean this cluster's.
    pub cluster_name: String,
    /// Minor version of Kubernetes 1.x, if known; AL2 images end at 1.32.
    pub kubernetes_minor: Option<u32>,
}

impl ReadOptions {
    fn context(&self) -> ConversionContext {
        ConversionContext { kubernetes_minor: self.kubernetes_minor, ..ConversionContext::new(&*self.cluster_name) }
    }
}

/// One object of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// As written.
    pub api_version: String,
    /// As written.
    pub kind: String,
    /// `default` unless written; `None` for kinds that live in no namespace.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// The file that it is in, as the user named it.
    pub file: String,
    /// The line that it starts on, from 1.
    pub line: usize,
    /// The object as written, variables filled, no defaults.
    pub object: Value,
    /// True if its kind is somebody else's, unknown here: it is not looked into.
    pub foreign: bool,
    /// Its meaning in v1, if it is one of Karpenter's kinds.
    pub v1: Option<Converted>,
}
