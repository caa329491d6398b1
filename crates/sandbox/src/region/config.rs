//! Configuration of a region.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_cloud::shipped;

/// The account that everything belongs to: one that AWS's documentation uses for examples.
pub const ACCOUNT: &str = "111122223333";

/// A capacity reservation of the account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountCapacityReservation {
    /// `cr-…`.
    pub id: String,
    /// `m5.large`.
    pub instance_type: String,
    /// `us-east-1a`.
    pub zone: String,
    pub count: u32,
    /// Tags by which classes select it.
    pub tags: BTreeMap<String, String>,
    /// True if launches that name no reservation may get its instances.
    pub open: bool,
    /// A capacity block: bought for a while, and launched into by its own market type.
    pub block: bool,
    /// Lent by its owner, who may take it back.
    pub interruptible: bool,
    /// Time after the region's start at which it ends; never where it is not given. EC2 ends instances in a capacity block half
    /// an hour before that.
    pub ends_after: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountPlacementGroup {
    /// `pg-…`.
    pub id: String,
    /// Its name, by which classes select it.
    pub name: String,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
    /// Number of partitions, where it has such.
    pub partitions: u32,
}

/// Time for which the account has a commitment, from the region's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lasting {
    /// Time after which it begins, queued until then; the region's start where none is given.
    pub begins_after: Option<Duration>,
    /// Time after which it ends; a year where none is given.
    pub ends_after: Option<Duration>,
    /// Time after which AWS no longer names it, whatever its end is: it was sold, or returned.
    pub gone_after: Option<Duration>,
}

/// Reserved Instances of the account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountReservedInstances {
    pub id: String,
    /// `m5.large`.
    pub instance_type: String,
    /// `us-east-1a`; regional where there is none.
    pub zone: Option<String>,
    pub count: u32,
    /// Dollars an hour of each.
    pub price: f64,
    pub lasting: Lasting,
}

/// A Savings Plan of the account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountSavingsPlan {
    pub id: String,
    /// `m5`; a compute Savings Plan where there is none.
    pub family: Option<String>,
    pub dollars_per_hour: f64,
    /// Part by which its rates are below the on-demand prices.
    pub discount: f64,
    pub lasting: Lasting,
}

/// Commitments of the account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountCommitments {
    pub reserved_instances: Vec<AccountReservedInstances>,
    pub savings_plans: Vec<AccountSavingsPlan>,
}

/// State of a region at the start.
#[derive(Clone, Debug)]
pub struct RegionConfig {
    /// `us-east-1`.
    pub region: String,
    /// The EKS cluster, after which subnets, security groups, role, profile and queue are named and tagged.
    pub cluster_name: String,
    /// Seed of ids, delays and spot depths.
    pub seed: u64,
    /// The cluster's Kubernetes version, such as `1.33`.
    pub kubernetes_version: String,
    /// Zones that have subnets; `None`: the region's first three.
    pub zones: Option<Vec<String>>,
    /// The API server's address as DescribeCluster gives it; `None`: one in EKS's form.
    pub endpoint: Option<String>,
    /// The cluster's certificate authority, base64, as DescribeCluster gives it; `None`: a placeholder.
    pub certificate_authority: Option<String>,
    /// Types, offerings and prices; `None`: the shipped catalogue of the region, with synthetic spot prices.
    pub catalogue: Option<Arc<RegionCatalogue>>,
    pub reservations: Vec<AccountCapacityReservation>,
    pub placement_groups: Vec<AccountPlacementGroup>,
    pub commitments: AccountCommitments,
}

impl RegionConfig {
    /// A region with a cluster of that name, seed 1, Kubernetes 1.33, everything else by default.
    pub fn new(region: impl Into<String>, cluster_name: impl Into<String>) -> Self {
        Self {
            region: region.into(),
            cluster_name: cluster_name.into(),
            seed: 1,
            kubernetes_version: "1.33".to_owned(),
            zones: None,
            endpoint: None,
            certificate_authority: None,
            catalogue: None,
            reservations: vec![],
            placement_groups: vec![],
            commitments: AccountCommitments::default(),
        }
    }

    pub(crate) fn catalogue(&self) -> Arc<RegionCatalogue> {
        self.catalogue.clone().unwrap_or_else(|| Arc::new(shipped::catalogue(&self.region)))
    }

    /// The name of the nodes' role, as Karpenter's getting-started guide has it.
    pub fn node_role(&self) -> String {
        format!("KarpenterNodeRole-{}", self.cluster_name)
    }

    /// The name of the nodes' instance profile, as Karpenter's guides of the alpha API have it.
    pub fn node_instance_profile(&self) -> String {
        format!("KarpenterNodeInstanceProfile-{}", self.cluster_name)
    }

    /// The interruption queue's name: the cluster's.
    pub fn queue_name(&self) -> String {
        self.cluster_name.clone()
    }

    pub(crate) fn partition(&self) -> &'static str {
        match self.region.split('-').next() {
            Some("cn") => "aws-cn",
            Some("us") if self.region.starts_with("us-gov-") => "aws-us-gov",
            _ => "aws",
        }
    }

    /// ARN of the EKS cluster.
    pub(crate) fn cluster_arn(&self) -> String {
        format!("arn:{}:eks:{}:{ACCOUNT}:cluster/{}", self.partition(), self.region, self.cluster_name)
    }

    /// Currency of the region's prices.
    pub(crate) fn currency(&self) -> &'static str {
        if self.partition() == "aws-cn" { "CNY" } else { "USD" }
    }

    pub fn host_domain(&self) -> String {
        if self.region == "us-east-1" { "ec2.internal".to_owned() } else { format!("{}.compute.internal", self.region) }
    }
}
