//! A PodGroup as it is read, and the way in which a pod names its own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use dovetail_api::names::annotations::POD_GROUP;
use dovetail_api::scheduling::{COSCHEDULING_LABEL, CoschedulingGroupSpec, PodGroupSpec};

/// Most members that a gang may have to have: a larger one gets no nodes.
pub const MOST_MEMBERS: i64 = 5_000;

/// The API that a PodGroup is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodGroupApi {
    /// Kubernetes' own, `scheduling.k8s.io`.
    Native,
    /// That of the coscheduling plugin, `scheduling.x-k8s.io`.
    Coscheduling,
}

/// The group that a pod says it is in, of its own namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodGroupRef {
    pub api: PodGroupApi,
    pub name: Arc<str>,
}

impl PodGroupRef {
    /// Reads it off a pod's metadata. The field of Kubernetes 1.36 is among the annotations by then, and stands above the label.
    #[must_use]
    pub fn from_metadata(
        labels: Option<&BTreeMap<String, String>>,
        annotations: Option<&BTreeMap<String, String>>,
    ) -> Option<Self> {
        let written = |all: Option<&BTreeMap<String, String>>, key: &str| {
            all.and_then(|all| all.get(key)).filter(|name| !name.is_empty()).map(|name| Arc::from(name.as_str()))
        };
        let native = written(annotations, POD_GROUP).map(|name| Self { api: PodGroupApi::Native, name });
        let other = || written(labels, COSCHEDULING_LABEL).map(|name| Self { api: PodGroupApi::Coscheduling, name });
        native.or_else(other)
    }
}

impl fmt::Display for PodGroupApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "scheduling.k8s.io",
            Self::Coscheduling => "scheduling.x-k8s.io",
        })
    }
}

/// Number of members that have to have a place together; `None` if each pod is placed for itself.
///
/// # Errors
/// The part of it that makes no sense, as a sentence without its end.
pub fn read_group(spec: &PodGroupSpec) -> Result<Option<usize>, String> {
    let policy = &spec.scheduling_policy;
    match (&policy.basic, &policy.gang) {
        (Some(_), None) => Ok(None),
        (None, Some(gang)) => within_bounds("spec.schedulingPolicy.gang.minCount", gang.min_count).map(Some),
        _ => Err("spec.schedulingPolicy: one of basic and gang has to be set".to_owned()),
    }
}

/// The same of a group of the coscheduling plugin.
///
/// # Errors
/// The part of it that makes no sense, as a sentence without its end.
pub fn read_coscheduling_group(spec: &CoschedulingGroupSpec) -> Result<Option<usize>, String> {
    within_bounds("spec.minMember", spec.min_member).map(Some)
}

fn within_bounds(field: &str, written: i64) -> Result<usize, String> {
    let count = usize::try_from(written).ok().filter(|_| (1..=MOST_MEMBERS).contains(&written));
    count.ok_or_else(|| format!("{field} is {written}: 1 to {MOST_MEMBERS} is allowed"))
}
