//! The cluster as nodes have to know it: from settings, and from EKS for what they leave out.

use std::sync::PoisonError;

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use super::services::Cluster;
use crate::error::CloudError;
use crate::user_data::ClusterFacts;

impl Ec2Cloud {
    pub(super) async fn cluster_facts(&self) -> Result<ClusterFacts, CloudError> {
        let describe = || {
            let this = self.clone();
            async move { this.described_cluster().await }
        };
        self.memory.cluster.get_or_ask(|| self.now(), (), describe).await
    }

    async fn described_cluster(&self) -> Result<ClusterFacts, CloudError> {
        match self.clients.eks.describe_cluster(&self.settings.cluster_name).await {
            Ok(cluster) => Ok(self.facts_of(cluster.as_ref())),
            Err(error) => match classify("DescribeCluster", Effect::Repeatable, error) {
                // Not a cluster of EKS, or one that we may not look at: then the settings have to say everything.
                CloudError::Final { .. } if self.settings.knows_cluster() => Ok(self.facts_of(None)),
                error => Err(error),
            },
        }
    }

    fn facts_of(&self, cluster: Option<&Cluster>) -> ClusterFacts {
        let settings = &self.settings;
        let version = self.memory.version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let network = cluster.and_then(|c| c.kubernetes_network_config.as_ref());
        let authority = cluster.and_then(|c| c.certificate_authority.as_ref()?.data.as_deref());
        let own = |setting: &Option<String>, answer: Option<&str>| {
            setting.clone().or_else(|| answer.map(str::to_owned)).unwrap_or_default()
        };
        ClusterFacts {
            name: settings.cluster_name.clone(),
            arn: cluster.and_then(|c| c.arn.clone()).unwrap_or_default(),
            endpoint: own(&settings.cluster_endpoint, cluster.and_then(|c| c.endpoint.as_deref())),
            certificate_authority: own(&settings.cluster_ca_bundle, authority),
            service_cidr: network
                .and_then(|n| n.service_ipv4_cidr.clone().or_else(|| n.service_ipv6_cidr.clone()))
                .or_else(|| settings.service_cidr.clone()),
            dns_ip: settings.cluster_dns.clone(),
            ipv6: network.and_then(|n| n.ip_family.as_deref()) == Some("ipv6"),
            version: own(&version, cluster.and_then(|c| c.version.as_deref())),
        }
    }
}

impl super::Ec2Settings {
    fn knows_cluster(&self) -> bool {
        self.cluster_endpoint.is_some() && self.kubernetes_version.is_some()
    }
}
