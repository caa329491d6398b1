//! EKS, whose protocol is JSON over REST.

use aws_config::SdkConfig;
use aws_smithy_http::label::{EncodingStrategy, fmt_string};
use aws_smithy_runtime::client::retries::RetryPartition;
use aws_smithy_runtime_api::client::result::SdkError;
use serde::Deserialize;

use super::endpoints::{FipsHost, Host};
use super::json::{error_of, output_of};
use super::{Call, Called, Service, ServiceClient};

static EKS: Service = Service {
    id: "EKS",
    signing_name: "eks",
    host: Host::Regional { prefix: "eks", fips: FipsHost::Before },
    error_of,
};

/// Clusters of EKS.
#[derive(Clone, Debug)]
pub(in crate::ec2) struct Eks(ServiceClient);

/// A cluster, as far as nodes have to know it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::ec2) struct Cluster {
    pub arn: Option<String>,
    pub version: Option<String>,
    pub endpoint: Option<String>,
    pub certificate_authority: Option<CertificateAuthority>,
    pub kubernetes_network_config: Option<NetworkConfig>,
}

#[derive(Debug, Deserialize)]
pub(in crate::ec2) struct CertificateAuthority {
    /// Base64.
    pub data: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::ec2) struct NetworkConfig {
    pub service_ipv4_cidr: Option<String>,
    pub service_ipv6_cidr: Option<String>,
    /// `ipv4` or `ipv6`.
    pub ip_family: Option<String>,
}

#[derive(Deserialize)]
struct Described {
    cluster: Option<Cluster>,
}

impl Eks {
    pub fn new(config: &SdkConfig, partition: RetryPartition) -> Self {
        Self(ServiceClient::new(&EKS, config, partition))
    }

    /// A cluster by its name.
    pub async fn describe_cluster(&self, name: &str) -> Called<Option<Cluster>> {
        if name.is_empty() {
            // Its path would be that of a listing.
            return Err(SdkError::construction_failure("the cluster has no name"));
        }
        let path = format!("/clusters/{}", fmt_string(name, EncodingStrategy::Default));
        let (method, headers, body) = (http::Method::GET, Vec::new(), String::new());
        let call = Call { operation: "DescribeCluster", method, path, headers, body };
        self.0.send(call, |body| Ok(output_of::<Described>(body)?.cluster)).await
    }
}
