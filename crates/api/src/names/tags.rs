//! Tags of EC2 resources.

/// Value `<cluster>`: the cluster that owns the instance.
pub const CLUSTER_NAME: &str = "eks:eks-cluster-name";
/// Prefix of the ownership tag; the cluster's name follows, the value is [`OWNED`].
pub const CLUSTER_PREFIX: &str = "kubernetes.io/cluster/";
/// Value of [`CLUSTER_PREFIX`].
pub const OWNED: &str = "owned";
/// Name of the NodePool.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// Name of the NodeClaim; set after registration.
pub const NODE_CLAIM: &str = "karpenter.sh/nodeclaim";
/// Name of the EC2NodeClass.
pub const NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
/// Name of the Node; set after registration.
pub const NAME: &str = "Name";
/// The usual tag for selecting subnets and security groups; the value is the cluster's name.
pub const DISCOVERY: &str = "karpenter.sh/discovery";
/// Written by Karpenter before 1.0 instead of [`CLUSTER_NAME`].
pub const MANAGED_BY: &str = "karpenter.sh/managed-by";
/// Value: the token of the launch that made the instance.
pub const LAUNCH_TOKEN: &str = "dovetail.dev/launch-token";
/// Value: UID of the cluster (its kube-system namespace). Dovetail never touches an instance with another UID.
pub const CLUSTER_UID: &str = "dovetail.dev/cluster-uid";

/// The ownership tag's key for a cluster.
pub fn owned_by(cluster: &str) -> String {
    format!("{CLUSTER_PREFIX}{cluster}")
}
