//! Images of instance types, and the SSM parameters of an alias's images (karpenter-aws 1.2, 4.7). Pure.

use std::sync::Arc;

use dovetail_api::v1::Ami;
use dovetail_core::InstanceType;
pub use dovetail_core::images::ResolvedImages;

use crate::family::AmiFamily;

/// Hardware that an image of an alias is for.
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

/// Makes unavailable what no image is for: it cannot be launched, and would be planned again and again. Answers the names of
/// these types; none while no images are known, as the class is not ready then. A type that others hold is copied for it, and
/// no other.
pub fn withhold_without_image(amis: &[Ami], types: &mut [Arc<InstanceType>]) -> Vec<String> {
    if amis.is_empty() {
        return vec![];
    }
    let (images, mut withheld) = (ResolvedImages::from_amis(amis), Vec::new());
    for one in types.iter_mut().filter(|one| images.fitting(one).is_none()) {
        withheld.push(one.name.clone());
        if one.offerings.iter().any(|offering| offering.available) {
            Arc::make_mut(one).offerings.iter_mut().for_each(|offering| offering.available = false);
        }
    }
    withheld
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn paths(family: AmiFamily, version: &str) -> Vec<String> {
        alias_queries(family, "1.33", version).into_iter().map(|q| q.path).collect()
    }

    fn of_type(arch: &str, gpus: Option<&str>) -> InstanceType {
        let mut requirements = vec![json!({"key": "kubernetes.io/arch", "operator": "In", "values": [arch]})];
        requirements.push(json!({"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"]}));
        requirements.push(match gpus {
            Some(count) => json!({"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "In", "values": [count]}),
            None => json!({"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"}),
        });
        let one = json!({"name": "x", "capacity": {"cpu": "4"}, "offerings": [], "requirements": requirements});
        serde_json::from_value(one).unwrap()
    }

    fn image(id: &str, requirements: serde_json::Value) -> Ami {
        serde_json::from_value(json!({"id": id, "name": id, "requirements": requirements})).unwrap()
    }

    #[test]
    fn a_type_takes_the_first_image_that_is_for_it_or_none() {
        let arch = |name: &str| json!({"key": "kubernetes.io/arch", "operator": "In", "values": [name]});
        let no_gpu = json!({"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"});
        let nonsense = json!({"key": "kubernetes.io/arch", "operator": "Near", "values": ["amd64"]});
        let amis = [
            image("nonsense", json!([nonsense])),
            image("standard", json!([arch("amd64"), no_gpu])),
            image("amd64", json!([arch("amd64")])),
        ];
        let images = ResolvedImages::from_amis(&amis);
        let id = |one: &InstanceType| images.fitting(one).map(|ami| ami.id.as_str());
        assert_eq!(id(&of_type("amd64", None)), Some("standard"));
        assert_eq!(id(&of_type("amd64", Some("1"))), Some("amd64"));
        assert_eq!(id(&of_type("arm64", None)), None);
        let any = [image("any", json!([]))];
        assert_eq!(
            ResolvedImages::from_amis(&any).fitting(&of_type("arm64", Some("8"))).map(|ami| ami.id.as_str()),
            Some("any")
        );
        assert!(ResolvedImages::from_amis(&[]).fitting(&of_type("amd64", None)).is_none());
    }

    #[test]
    fn what_no_image_is_for_is_not_available_once_images_are_known() {
        let offering = json!({"zone": "a", "capacityType": "spot", "price": 1.0, "available": true});
        let offered = |arch: &str| {
            let offerings = vec![serde_json::from_value(offering.clone()).unwrap()];
            InstanceType { name: arch.into(), offerings, ..of_type(arch, None) }
        };
        let withheld = |amis: &[Ami]| {
            let whole = [offered("amd64"), offered("arm64")].map(Arc::new);
            let mut types = whole.clone();
            let names = withhold_without_image(amis, &mut types);
            let shared = [0, 1].map(|index| Arc::ptr_eq(&whole[index], &types[index]));
            assert!(whole.iter().all(|one| one.offerings[0].available), "what others hold stays as it is");
            assert_eq!(shared, [0, 1].map(|index| !names.contains(&whole[index].name)), "no other is copied");
            (names, types.map(|one| one.offerings[0].available))
        };
        let amd64 = image("x", json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]));
        assert_eq!(withheld(&[amd64]), (vec!["arm64".to_owned()], [true, false]));
        assert_eq!(withheld(&[]), (vec![], [true, true]));
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
