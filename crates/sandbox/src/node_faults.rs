//! Faults of nodes as they join: the cluster is not what a plan took it for.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::globs::glob_matches;

/// `faults.nodes` of a scenario. Nodes that are there beforehand have none of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeFaults {
    /// Nodes have less for pods than their instance types promise.
    pub allocatable: Option<LessAllocatable>,
    /// Nodes get a taint that their pool does not know of.
    pub taint_on_join: Option<TaintOnJoin>,
    /// Nodes are cordoned.
    pub cordon_on_join: Option<OnTypes>,
    /// A label is taken off nodes once they have registered.
    pub label_taken_off: Option<LabelOfNodes>,
    /// Nodes get a label that their pool does not know of.
    pub label_put_on: Option<LabelOfNodes>,
    /// Nodes take longer to join.
    pub joins_late: Option<JoinsLate>,
    /// Kubelets do not let pods run that kube-scheduler has bound.
    pub kubelet_refuses: Option<KubeletRefuses>,
    /// From the beginning for so long; for ever where it does not say.
    pub lasts: Option<Duration>,
}

/// Instance types, by globs; all of them where there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TypeGlobs(pub Vec<String>);

impl TypeGlobs {
    pub fn matches(&self, instance_type: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|glob| glob_matches(glob, instance_type))
    }
}

/// A fault without particulars.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OnTypes {
    /// Instance types that it concerns.
    pub types: TypeGlobs,
}

/// See [`NodeFaults::allocatable`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LessAllocatable {
    /// Instance types that it concerns.
    pub types: TypeGlobs,
    /// Share of CPU, memory and disk that is missing, 0 to 1.
    pub less: f64,
}

/// See [`NodeFaults::taint_on_join`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TaintOnJoin {
    /// Instance types that it concerns.
    pub types: TypeGlobs,
    pub key: String,
    /// The taint's value; may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// Time from a node's readiness until the taint is taken off, as by an agent that has started; never by default.
    pub taken_off: Option<Duration>,
}

/// See [`NodeFaults::label_taken_off`] and [`NodeFaults::label_put_on`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LabelOfNodes {
    /// Instance types that it concerns.
    pub types: TypeGlobs,
    pub key: String,
    /// Its value, where it is put on.
    pub value: String,
}

/// See [`NodeFaults::joins_late`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct JoinsLate {
    /// Instance types that it concerns.
    pub types: TypeGlobs,
    /// Delay of the node's joining.
    pub by: Duration,
}

/// See [`NodeFaults::kubelet_refuses`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KubeletRefuses {
    /// Instance types that it concerns.
    pub types: TypeGlobs,
    /// Labels of the pods; all pods but DaemonSets' where there are none.
    pub pods: BTreeMap<String, String>,
}
