//! Requirements as they are written, and the reference to a node class.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::provider::Provider;

/// Operator of a requirement: the sense in which its values are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeSelectorOperator {
    /// One of the values.
    In,
    /// None of the values.
    NotIn,
    /// Any value.
    Exists,
    /// No such label.
    DoesNotExist,
    /// An integer above the one value.
    Gt,
    /// An integer below the one value.
    Lt,
    /// An integer not below the one value.
    Gte,
    /// An integer not above the one value.
    Lte,
}

impl NodeSelectorOperator {
    /// All operators, in the order in which messages list them.
    pub const ALL: [Self; 8] =
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::Gt, Self::Lt, Self::Gte, Self::Lte];

    /// As written in a manifest.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }

    /// The operator that is written so.
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.as_str() == text)
    }

    /// True if it compares integers.
    pub fn is_numeric(self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }
}

impl fmt::Display for NodeSelectorOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One requirement on a node's labels, as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorRequirementWithMinValues {
    /// Key of the label that a node has to have, or not to have.
    pub key: String,
    /// The sense in which the values are meant.
    pub operator: NodeSelectorOperator,
    /// The values; none for Exists and DoesNotExist, one integer for the numeric operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// At least so many of the values must stay possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<i32>,
}

impl NodeSelectorRequirementWithMinValues {
    /// A requirement without minValues.
    pub fn new<V: Into<String>>(
        key: &str,
        operator: NodeSelectorOperator,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        Self { key: key.into(), operator, values, min_values: None }
    }
}

/// The node class of a pool or a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeClassRef {
    /// API group, `karpenter.k8s.aws`.
    pub group: String,
    /// Kind, `EC2NodeClass`.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl NodeClassRef {
    /// A reference to the EC2NodeClass of that name.
    pub fn ec2(name: impl Into<String>) -> Self {
        Self::for_provider(Provider::Ec2, name)
    }

    /// A reference to a provider's class of that name.
    pub fn for_provider(provider: Provider, name: impl Into<String>) -> Self {
        let class = provider.class();
        Self { group: class.group.into(), kind: class.kind.into(), name: name.into() }
    }

    /// True for a class of this provider: the group and the kind say so, never the name alone.
    pub fn is_of(&self, provider: Provider) -> bool {
        let class = provider.class();
        self.group == class.group && self.kind == class.kind
    }

    /// The name of this provider's class that is meant; `None` where another kind is.
    pub fn name_for(&self, provider: Provider) -> Option<&str> {
        self.is_of(provider).then_some(self.name.as_str())
    }

    /// The name of the class that is meant, of whatever provider there is here.
    pub fn known_name(&self) -> Option<&str> {
        Provider::ALL.into_iter().find_map(|provider| self.name_for(provider))
    }

    /// The provider whose class is meant.
    pub fn provider(&self) -> Option<Provider> {
        Provider::ALL.into_iter().find(|provider| self.is_of(*provider))
    }

    /// True if `key` is a well-known label of the class's nodes; of a class of no known kind, of EC2's.
    pub fn is_well_known(&self, key: &str) -> bool {
        self.provider().unwrap_or_default().is_well_known(key)
    }

    /// True for an EC2NodeClass.
    pub fn is_ec2(&self) -> bool {
        self.is_of(Provider::Ec2)
    }

    /// The name of the EC2NodeClass that is meant; `None` where another kind is.
    pub fn ec2_name(&self) -> Option<&str> {
        self.name_for(Provider::Ec2)
    }

    /// The label that carries the class's name: `<group>/<lowercase kind>`.
    pub fn label(&self) -> String {
        format!("{}/{}", self.group, self.kind.to_ascii_lowercase())
    }
}
