//! EKS: DescribeCluster, over REST and JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::region::Cx;
use crate::region::config::ACCOUNT;
use crate::region::ids;
use crate::region::wire::error::AwsError;

/// Creation time of the cluster: a month before virtual time starts.
const CREATED: i64 = 1_764_579_600;

/// Carries out an action of EKS.
pub(crate) fn act(cx: &mut Cx<'_>, action: &str, body: &Value) -> Result<Value, AwsError> {
    match action {
        "DescribeCluster" => describe(cx, body.get("name").and_then(Value::as_str).unwrap_or("")),
        "ListClusters" => Ok(json!({"clusters": [cx.config.cluster_name]})),
        _ => Err(AwsError::new("ResourceNotFoundException", "no such path").with_status(404)),
    }
}

fn describe(cx: &Cx<'_>, name: &str) -> Result<Value, AwsError> {
    let config = cx.config;
    if name != config.cluster_name {
        let message = format!("No cluster found for name: {name}.");
        return Err(AwsError::new("ResourceNotFoundException", message).with_status(404));
    }
    let (region, partition) = (&config.region, config.partition());
    let hash = format!("{:016X}{:016X}", ids::fnv(name), ids::fnv(region));
    let endpoint = config.endpoint.clone().unwrap_or_else(|| format!("https://{hash}.gr7.{region}.eks.amazonaws.com"));
    let authority = config
        .certificate_authority
        .clone()
        .unwrap_or_else(|| STANDARD.encode("-----BEGIN CERTIFICATE-----\n(none)\n-----END CERTIFICATE-----\n"));
    let network = &cx.state.network;
    let cluster_group = network.groups.values().find(|group| group.name.ends_with("-cluster")).map(|group| &group.id);
    Ok(json!({"cluster": {
        "name": name,
        "arn": config.cluster_arn(),
        "createdAt": CREATED,
        "version": config.kubernetes_version,
        "endpoint": endpoint,
        "roleArn": format!("arn:{partition}:iam::{ACCOUNT}:role/{name}-cluster"),
        "resourcesVpcConfig": {
            "subnetIds": network.subnets.keys().collect::<Vec<_>>(),
            "securityGroupIds": [],
            "clusterSecurityGroupId": cluster_group,
            "vpcId": network.vpc.id,
            "endpointPublicAccess": true,
            "endpointPrivateAccess": true,
            "publicAccessCidrs": ["0.0.0.0/0"],
        },
        "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"},
        "identity": {"oidc": {"issuer": format!("https://oidc.eks.{region}.amazonaws.com/id/{hash}")}},
        "status": "ACTIVE",
        "certificateAuthority": {"data": authority},
        "platformVersion": "eks.12",
        "tags": {},
        "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"},
        "upgradePolicy": {"supportType": "EXTENDED"},
    }}))
}
