//! User data: what an instance is told so that it becomes a node of the cluster (karpenter-aws 4.8). Pure.

mod al2;
mod al2023;
mod bottlerocket;
mod judge;
mod kubelet_args;
mod mime;
mod windows;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dovetail_api::names::{labels, taints};
use dovetail_api::v1::{EC2NodeClassSpec, KubeletConfiguration};
use k8s_openapi::api::core::v1::Taint;

use crate::family::AmiFamily;
pub use judge::judge;

/// EC2 takes no more user data than this, before it is encoded.
pub const LIMIT: usize = 16_384;

/// Facts about its cluster that a node has to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// As EKS knows it; nodes join by it.
    pub name: String,
    /// Its ARN; empty where EKS does not say it.
    pub arn: String,
    /// URL of its API server.
    pub endpoint: String,
    /// Certificate of its authority, base64.
    pub certificate_authority: String,
    /// Addresses of its services, IPv4 or else IPv6.
    pub service_cidr: Option<String>,
    /// Address of its DNS service.
    pub dns_ip: Option<String>,
    /// Pods have IPv6 addresses.
    pub ipv6: bool,
    /// `1.33`.
    pub version: String,
}

/// Inputs for the user data of one kind of node.
#[derive(Debug, Clone)]
pub struct Inputs<'a> {
    /// Family of the image, which decides the form.
    pub family: AmiFamily,
    /// Cluster that the node is to join.
    pub cluster: &'a ClusterFacts,
    /// The node class.
    pub class: &'a EC2NodeClassSpec,
    /// Labels of the node, `karpenter.sh/capacity-type` among them.
    pub labels: &'a BTreeMap<String, String>,
    /// Taints of the claim, start-up taints among them.
    pub taints: &'a [Taint],
    /// Pods that the node may hold.
    pub max_pods: i64,
    /// Version of the image, where its name says it: `1.46`.
    pub image_version: Option<&'a str>,
}

/// User data that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    /// The node class's own user data is not what its family reads.
    #[error("spec.userData: {0}")]
    Custom(String),
    /// The node class's kubelet block cannot be read.
    #[error("spec.kubelet: {0}")]
    Kubelet(String),
    /// AL2023 needs to know the addresses of services.
    #[error("the cluster's service addresses are not known")]
    NoServiceCidr,
    /// It is longer than EC2 takes.
    #[error("user data of {0} bytes is longer than the {LIMIT} that EC2 takes")]
    TooLong(usize),
}

/// The user data, base64. Empty for a Custom image whose class has none.
///
/// # Errors
/// See [`UserDataError`].
pub fn render(inputs: &Inputs<'_>) -> Result<String, UserDataError> {
    let text = plain(inputs)?;
    match text.len() {
        length if length > LIMIT => return Err(UserDataError::TooLong(length)),
        length if length > LIMIT / 10 * 9 => tracing::warn!(length, limit = LIMIT, "user data is nearly too long"),
        _ => {}
    }
    Ok(STANDARD.encode(text))
}

/// The user data as the instance reads it.
///
/// # Errors
/// See [`UserDataError`].
pub fn plain(inputs: &Inputs<'_>) -> Result<String, UserDataError> {
    let kubelet = match &inputs.class.kubelet {
        Some(kubelet) => kubelet.understood().map_err(|e| UserDataError::Kubelet(e.to_string()))?,
        None => KubeletConfiguration::default(),
    };
    match inputs.family {
        AmiFamily::Al2 => al2::render(inputs, &kubelet),
        AmiFamily::Al2023 => al2023::render(inputs, &kubelet),
        AmiFamily::Bottlerocket => bottlerocket::render(inputs, &kubelet),
        AmiFamily::Custom => Ok(inputs.class.user_data.clone().unwrap_or_default()),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            Ok(windows::render(inputs, &kubelet))
        }
    }
}

impl Inputs<'_> {
    /// Labels that a kubelet may give itself: those of Kubernetes' own domains are set by the controller later.
    fn node_labels(&self) -> BTreeMap<&str, &str> {
        let own = self.labels.iter().filter(|(key, _)| !is_restricted(key));
        let mut all: BTreeMap<&str, &str> = own.map(|(k, v)| (k.as_str(), v.as_str())).collect();
        all.insert(labels::DO_NOT_SYNC_TAINTS, "true");
        all
    }

    /// The node's taints, the one that says that it has not registered last.
    fn node_taints(&self) -> Vec<Taint> {
        let mut all = self.taints.to_vec();
        if !all.iter().any(|t| t.key == taints::UNREGISTERED) {
            all.push(taints::unregistered());
        }
        all
    }

    /// Addresses of the cluster's DNS: the class's, otherwise the service's.
    fn dns<'s>(&'s self, kubelet: &'s KubeletConfiguration) -> Vec<&'s str> {
        if kubelet.cluster_dns.is_empty() {
            return self.cluster.dns_ip.as_deref().into_iter().collect();
        }
        kubelet.cluster_dns.iter().map(String::as_str).collect()
    }

    fn raid0(&self) -> bool {
        self.class.instance_store_policy.as_deref() == Some("RAID0")
    }
}

/// In a domain that NodeRestriction keeps kubelets from.
fn is_restricted(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    ["kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"]
        .iter()
        .any(|d| domain == *d || domain.strip_suffix(d).is_some_and(|rest| rest.ends_with('.')))
}

/// `key=value:Effect`, or `key:Effect` without a value.
fn taint_text(taint: &Taint) -> String {
    match taint.value.as_deref() {
        Some(value) if !value.is_empty() => format!("{}={value}:{}", taint.key, taint.effect),
        _ => format!("{}=:{}", taint.key, taint.effect),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    pub(crate) struct Fixture {
        pub cluster: ClusterFacts,
        pub class: EC2NodeClassSpec,
        pub labels: BTreeMap<String, String>,
        pub taints: Vec<Taint>,
    }

    pub(crate) fn fixture(class: Value) -> Fixture {
        let mut spec = json!({"subnetSelectorTerms": [], "securityGroupSelectorTerms": []});
        spec.as_object_mut().unwrap().extend(class.as_object().unwrap().clone());
        let labels = [("karpenter.sh/capacity-type", "spot"), ("kubernetes.io/arch", "amd64"), ("team", "blue")];
        Fixture {
            cluster: ClusterFacts {
                name: "demo".into(),
                arn: String::new(),
                endpoint: "https://demo.example".into(),
                certificate_authority: "Y2E=".into(),
                service_cidr: Some("10.100.0.0/16".into()),
                dns_ip: Some("10.100.0.10".into()),
                ipv6: false,
                version: "1.33".into(),
            },
            class: serde_json::from_value(spec).unwrap(),
            labels: labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            taints: vec![Taint {
                key: "dedicated".into(),
                value: Some("gpu".into()),
                effect: "NoSchedule".into(),
                ..Taint::default()
            }],
        }
    }

    impl Fixture {
        pub(crate) fn inputs(&self, family: AmiFamily) -> Inputs<'_> {
            Inputs {
                family,
                cluster: &self.cluster,
                class: &self.class,
                labels: &self.labels,
                taints: &self.taints,
                max_pods: 29,
                image_version: None,
            }
        }
    }

    #[test]
    fn a_custom_image_gets_the_users_data_as_it_is() {
        let custom = fixture(json!({"userData": "#!/bin/sh\ntrue\n"}));
        assert_eq!(plain(&custom.inputs(AmiFamily::Custom)).unwrap(), "#!/bin/sh\ntrue\n");
        assert_eq!(render(&fixture(json!({})).inputs(AmiFamily::Custom)).unwrap(), "");
    }

    #[test]
    fn too_much_user_data_is_refused_before_ec2_refuses_it() {
        let long = fixture(json!({"userData": "#".repeat(LIMIT + 1)}));
        assert_eq!(render(&long.inputs(AmiFamily::Custom)), Err(UserDataError::TooLong(LIMIT + 1)));
    }

    #[test]
    fn labels_of_kubernetes_own_domains_are_left_to_the_controller() {
        assert!(is_restricted("kubernetes.io/arch"));
        assert!(is_restricted("topology.kubernetes.io/zone"));
        assert!(is_restricted("foo.k8s.io/bar"));
        assert!(!is_restricted("team") && !is_restricted("karpenter.k8s.aws/instance-cpu"));
        assert!(!is_restricted("notkubernetes.io/x"));
    }
}
