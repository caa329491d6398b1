//! Which image an instance type takes, and where SSM says what the images of an alias are (karpenter-aws 1.2, 4.7). Pure.

use dovetail_api::v1::Ami;
use dovetail_core::{InstanceType, NodeSelectorRequirement, Requirements};

use crate::family::AmiFamily;

/// What hardware an image of an alias is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// No GPU and no accelerator.
    Standard,
    /// NVIDIA GPUs.
    Nvidia,
    /// Inferentia and Trainium.
    Neuron,
    /// Whatever there is (Windows).
    Any,
}

/// An SSM parameter that holds an image id, and what that image serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageQuery {
    /// Path of the parameter.
    pub path: String,
    /// The variants that the image serves.
    pub variants: Vec<Variant>,
}

/// The parameters of an alias for a version of Kubernetes (`1.33`) and of the image (`latest`, `v20240807`).
pub fn alias_queries(family: AmiFamily, kubernetes: &str, version: &str) -> Vec<ImageQuery> {
    use Variant::{Any, Neuron, Nvidia, Standard};
    let query = |path: String, variants: &[Variant]| ImageQuery { path, variants: variants.to_vec() };
    match family {
        AmiFamily::Al2 => [("", &[Standard][..]), ("-arm64", &[Standard]), ("-gpu", &[Nvidia, Neuron])]
            .into_iter()
            .map(|(suffix, variants)| query(al2_path(kubernetes, suffix, version), variants))
            .collect(),
        AmiFamily::Al2023 => [
            ("x86_64", "standard", Standard),
            ("x86_64", "nvidia", Nvidia),
            ("x86_64", "neuron", Neuron),
            ("arm64", "standard", Standard),
            ("arm64", "nvidia", Nvidia),
        ]
        .into_iter()
        .map(|(arch, name, variant)| query(al2023_path(kubernetes, arch, name, version), &[variant]))
        .collect(),
        AmiFamily::Bottlerocket => [
            ("x86_64", "", &[Standard, Neuron][..]),
            ("x86_64", "-nvidia", &[Nvidia]),
            ("arm64", "", &[Standard]),
            ("arm64", "-nvidia", &[Nvidia]),
        ]
        .into_iter()
        .map(|(arch, suffix, variants)| {
            let version = version.trim_start_matches('v');
            query(format!("/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{arch}/{version}/image_id"), variants)
        })
        .collect(),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            let year = family.as_str().trim_start_matches("Windows");
            let name = format!("Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}");
            vec![query(format!("/aws/service/ami-windows-latest/{name}/image_id"), &[Any])]
        }
        AmiFamily::Custom => Vec::new(),
    }
}

fn al2_path(kubernetes: &str, suffix: &str, version: &str) -> String {
    let image = match version {
        "latest" => "recommended".to_owned(),
        version => format!("amazon-eks{suffix}-node-{kubernetes}-{version}"),
    };
    format!("/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2{suffix}/{image}/image_id")
}

fn al2023_path(kubernetes: &str, arch: &str, variant: &str, version: &str) -> String {
    let image = match version {
        "latest" => "recommended".to_owned(),
        version => format!("amazon-eks-node-al2023-{arch}-{variant}-{kubernetes}-{version}"),
    };
    format!("/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{arch}/{variant}/{image}/image_id")
}

/// The first image whose requirements agree with the type.
pub fn image_for<'a>(amis: &'a [Ami], instance_type: &InstanceType) -> Option<&'a Ami> {
    let own = Requirements::from_written(&instance_type.requirements).ok()?;
    amis.iter().find(|ami| {
        let wanted: Result<Vec<_>, _> = ami.requirements.iter().map(NodeSelectorRequirement::from_kube).collect();
        wanted
            .ok()
            .and_then(|wanted| Requirements::from_written(&wanted).ok())
            .is_some_and(|wanted| own.intersects(&wanted).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(family: AmiFamily, version: &str) -> Vec<String> {
        alias_queries(family, "1.33", version).into_iter().map(|q| q.path).collect()
    }

    #[test]
    fn paths_are_those_that_aws_publishes() {
        let al2023 = paths(AmiFamily::Al2023, "latest");
        assert_eq!(al2023.len(), 5);
        assert_eq!(
            al2023[0],
            "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
        );
        assert_eq!(
            paths(AmiFamily::Al2023, "v20260101")[3],
            "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/arm64/standard/amazon-eks-node-al2023-arm64-standard-1.33-v20260101/image_id"
        );
        assert_eq!(
            paths(AmiFamily::Bottlerocket, "v1.20.0")[1],
            "/aws/service/bottlerocket/aws-k8s-1.33-nvidia/x86_64/1.20.0/image_id"
        );
        assert_eq!(
            paths(AmiFamily::Windows2022, "latest")[0],
            "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.33/image_id"
        );
        assert!(paths(AmiFamily::Custom, "latest").is_empty());
    }
}
