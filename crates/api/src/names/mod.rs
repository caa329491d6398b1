//! Every name that Kubernetes or AWS sees: labels, annotations, taints, finalizers, tags, conditions, with the rules on
//! which of them a user may write. Karpenter's own names are kept to the letter; ours begin with `dovetail.dev/`.

pub mod alias;
pub mod annotations;
pub mod conditions;
pub mod labels;
pub mod provider;
pub mod syntax;
pub mod tags;
pub mod taints;

/// API group of NodePool and NodeClaim.
pub const GROUP: &str = "karpenter.sh";
/// API group of EC2NodeClass.
pub const AWS_GROUP: &str = "karpenter.k8s.aws";
/// API group of KWOKNodeClass.
pub const KWOK_GROUP: &str = "karpenter.kwok.sh";
/// Prefix of what Karpenter does not know.
pub const OWN_DOMAIN: &str = "dovetail.dev";

/// Finalizer of NodeClaims (set before launch) and Nodes (set at registration).
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";

/// The cloud's name as Karpenter's metrics say it.
pub const PROVIDER: &str = "aws";

/// Default name of the Lease: Karpenter's own, so that the two never both provision in one namespace.
pub const LEASE_NAME: &str = "karpenter-leader-election";

/// An instance's provider id, as in `spec.providerID` of its Node: `aws:///<zone>/<instance id>`, or kwok's id as it is.
pub fn provider_id(zone: &str, instance_id: &str) -> String {
    match instance_id.starts_with(provider::KWOK_SCHEME) {
        true => instance_id.to_owned(),
        false => format!("aws:///{zone}/{instance_id}"),
    }
}

/// The instance's id in a provider id, `None` when it is of no provider that there is here.
pub fn instance_id(provider_id: &str) -> Option<&str> {
    if provider::kwok_node(provider_id).is_some() {
        return Some(provider_id);
    }
    let (_, rest) = provider_id.split_once(":///")?;
    let (_, id) = rest.rsplit_once('/')?;
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_id_names_its_instance() {
        assert_eq!(instance_id(&provider_id("us-east-1a", "i-0abc")), Some("i-0abc"));
        assert_eq!(instance_id("kind://docker/x"), None);
        assert_eq!(instance_id("aws:///us-east-1a/"), None);
        assert_eq!(instance_id(&provider_id("test-zone-a", "kwok://default-abcde")), Some("kwok://default-abcde"));
    }
}
