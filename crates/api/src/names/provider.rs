//! Providers of nodes: the names by which Kubernetes knows what is a provider's own. A further provider is a row here, a module
//! of `dovetail_cloud`, and its connection in `run`.

use serde::Serialize;

use super::labels::{self, EC2_NODE_CLASS, KWOK_NODE_CLASS};
use super::{AWS_GROUP, KWOK_GROUP};

/// A provider of nodes, `PROVIDER`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Instances of Amazon EC2.
    #[default]
    Ec2,
    /// Nodes that kwok pretends to run: no machine is behind them.
    Kwok,
}

/// The kind of a provider's node classes.
#[derive(Debug, PartialEq, Eq)]
pub struct ClassKind {
    /// API group, `karpenter.k8s.aws`.
    pub group: &'static str,
    /// Version that is read and written, `v1`.
    pub version: &'static str,
    /// Kind, `EC2NodeClass`.
    pub kind: &'static str,
    /// Resource, `ec2nodeclasses`.
    pub plural: &'static str,
    /// Finalizer of a class that waits for its claims.
    pub finalizer: &'static str,
    /// Label that carries a class's name: `<group>/<lowercase kind>`.
    pub label: &'static str,
}

const EC2_CLASS: ClassKind = ClassKind {
    group: AWS_GROUP,
    version: "v1",
    kind: "EC2NodeClass",
    plural: "ec2nodeclasses",
    finalizer: "karpenter.k8s.aws/termination",
    label: EC2_NODE_CLASS,
};

const KWOK_CLASS: ClassKind = ClassKind {
    group: KWOK_GROUP,
    version: "v1alpha1",
    kind: "KWOKNodeClass",
    plural: "kwoknodeclasses",
    finalizer: "karpenter.kwok.sh/termination",
    label: KWOK_NODE_CLASS,
};

impl ClassKind {
    /// API version as objects carry it, `karpenter.k8s.aws/v1`.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

impl Provider {
    /// Every provider.
    pub const ALL: [Self; 2] = [Self::Ec2, Self::Kwok];

    /// Its name, as the setting says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Kwok => "kwok",
        }
    }

    /// The provider of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// The kind of its node classes.
    pub const fn class(self) -> &'static ClassKind {
        match self {
            Self::Ec2 => &EC2_CLASS,
            Self::Kwok => &KWOK_CLASS,
        }
    }

    /// The labels that its nodes have whatever their pool names: the core's, and its own.
    pub fn well_known_labels(self) -> Vec<&'static str> {
        match self {
            Self::Ec2 => labels::well_known().collect(),
            Self::Kwok => [labels::CORE_WELL_KNOWN, labels::KWOK_WELL_KNOWN].concat(),
        }
    }

    /// True if `key` is one of them (after alias normalisation by the caller).
    pub fn is_well_known(self, key: &str) -> bool {
        match self {
            Self::Ec2 => labels::is_well_known(key),
            Self::Kwok => labels::CORE_WELL_KNOWN.contains(&key) || labels::KWOK_WELL_KNOWN.contains(&key),
        }
    }

    /// True if it takes instances back, with a warning to who hears of it.
    pub fn interrupts(self) -> bool {
        match self {
            Self::Ec2 => true,
            Self::Kwok => false,
        }
    }

    /// True for an id that may be asked for: of EC2 eight hexadecimal digits, or seventeen; of kwok the whole provider ID.
    pub fn is_instance_id(self, id: &str) -> bool {
        match self {
            Self::Ec2 => {
                let digits = id.strip_prefix("i-").unwrap_or_default();
                [8, 17].contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            }
            Self::Kwok => kwok_node(id).is_some(),
        }
    }
}

/// Beginning of the provider ID of kwok's nodes; the Node's name follows. Such an instance's id is the whole of it.
pub const KWOK_SCHEME: &str = "kwok://";
/// Length of the longest name of a Node.
const LONGEST_NAME: usize = 253;

/// Name of the Node in a provider ID of kwok's; `None` where it is none.
pub fn kwok_node(provider_id: &str) -> Option<&str> {
    let name = provider_id.strip_prefix(KWOK_SCHEME)?;
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    (!name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(good)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::NodeClassRef;

    #[test]
    fn only_an_instances_id_is_asked_for() {
        let ec2 = |id: &str| Provider::Ec2.is_instance_id(id);
        assert!(ec2("i-0b32fbbf4d115a5bc") && ec2("i-1a2b3c4d"));
        for other in [
            "",
            "i-1",
            "i-0b32fbbf4d115a5bcd",
            "i-",
            "fargate-ip-10-0-0-1.ec2.internal",
            "i-x",
            "mi-0b32",
            "i-1,i-2",
            "kind://docker/x",
            "kwok://default-abcde",
        ] {
            assert!(!ec2(other), "{other}");
        }
        let kwok = |id: &str| Provider::Kwok.is_instance_id(id);
        assert!(kwok("kwok://default-abcde"));
        for other in ["kwok://", "kwok://a/../b", "kwok:///zone/a", "default-abcde", "i-1a2b3c4d"] {
            assert!(!kwok(other), "{other}");
        }
    }

    #[test]
    fn a_label_is_well_known_of_the_provider_whose_nodes_have_it() {
        for (key, ec2, kwok) in [
            (labels::ZONE, true, true),
            (labels::INSTANCE_CPU, true, false),
            (labels::ZONE_ID, true, false),
            (labels::KWOK_INSTANCE_CPU, false, true),
            (labels::KWOK_NODE_CLASS, false, false),
            ("team", false, false),
        ] {
            assert_eq!((Provider::Ec2.is_well_known(key), Provider::Kwok.is_well_known(key)), (ec2, kwok), "{key}");
            assert_eq!(labels::is_well_known(key), ec2, "{key}");
        }
        for provider in Provider::ALL {
            assert!(provider.well_known_labels().into_iter().all(|key| provider.is_well_known(key)));
        }
    }

    #[test]
    fn a_reference_of_no_known_class_is_taken_for_ec2s() {
        let foreign = NodeClassRef { group: "example.com".into(), kind: "NodeClass".into(), name: "default".into() };
        let of = |provider| NodeClassRef::for_provider(provider, "default").provider();
        assert_eq!((of(Provider::Ec2), of(Provider::Kwok)), (Some(Provider::Ec2), Some(Provider::Kwok)));
        assert_eq!(foreign.provider(), None);
        assert!(foreign.is_well_known(labels::INSTANCE_CPU) && !foreign.is_well_known(labels::KWOK_INSTANCE_CPU));
    }

    #[test]
    fn a_reference_means_one_providers_class() {
        for provider in Provider::ALL {
            assert_eq!(Provider::named(provider.name()), Some(provider));
            let reference = NodeClassRef::for_provider(provider, "default");
            assert_eq!(reference.label(), provider.class().label);
            for other in Provider::ALL {
                assert_eq!(reference.name_for(other), (other == provider).then_some("default"));
            }
        }
        let foreign = NodeClassRef { group: KWOK_GROUP.into(), kind: "EC2NodeClass".into(), name: "default".into() };
        assert_eq!(foreign.known_name(), None);
    }
}
