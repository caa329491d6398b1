//! The images that AWS publishes for EKS nodes, computed for any Kubernetes version.
//!
//! Two releases of each are there, the latest and the one before it. An image's id follows from its name, so that it
//! is the same in every run. Names, owners and paths follow AWS's documentation of the EKS optimized, Bottlerocket and
//! Windows images.

use std::collections::BTreeMap;

use super::actions::filters::{Filterable, maybe, one};
use super::config::RegionConfig;
use super::ids;

/// A published image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub id: String,
    pub name: String,
    pub description: String,
    /// `x86_64` or `arm64`.
    pub architecture: &'static str,
    pub owner: &'static str,
    /// RFC 3339 with milliseconds, as DescribeImages has it.
    pub created: String,
    /// The devices and their sizes in GiB; the first is the root.
    pub devices: &'static [(&'static str, u32)],
    pub windows: bool,
}

impl Filterable for Image {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "image-id" => one(&self.id),
            "name" => one(&self.name),
            "description" => one(&self.description),
            "state" => one("available"),
            "architecture" => one(self.architecture),
            "owner-id" => one(self.owner),
            "owner-alias" => one("amazon"),
            "is-public" => one(true),
            "image-type" => one("machine"),
            "root-device-type" => one("ebs"),
            "root-device-name" => maybe(self.devices.first().map(|(name, _)| name)),
            "virtualization-type" => one("hvm"),
            "hypervisor" => one("xen"),
            "ena-support" => one(true),
            "creation-date" => one(&self.created),
            "platform" => maybe(self.windows.then_some("windows")),
            _ => None,
        }
    }
}

/// A published image together with the SSM parameters that name it.
struct Published {
    image: Image,
    /// Without the trailing `/image_id` or `/ami-id`.
    parameters: Vec<String>,
}

/// EKS's account for Amazon Linux images.
const EKS: &str = "602401143452";
const BOTTLEROCKET: &str = "092701018921";
const WINDOWS: &str = "801119661308";

/// Releases: their date as names have it, Bottlerocket's version and commit, latest first.
const RELEASES: [(&str, &str, &str, &str); 2] = [
    ("20251218", "2025-12-18T21:04:05.000Z", "1.52.0", "f6a8b2c1"),
    ("20251120", "2025-11-20T20:11:38.000Z", "1.51.0", "47438798"),
];

const ARCHITECTURES: [&str; 2] = ["x86_64", "arm64"];

/// The images known so far: those of the cluster's version and its neighbours, and whatever SSM was asked for.
#[derive(Clone, Debug)]
pub(crate) struct RegionImages {
    by_id: BTreeMap<String, Image>,
    /// Values by the name of the parameter.
    parameters: BTreeMap<String, String>,
    known: Vec<String>,
}

impl RegionImages {
    pub fn new(config: &RegionConfig) -> Self {
        let mut images = Self { by_id: BTreeMap::new(), parameters: BTreeMap::new(), known: Vec::new() };
        let minor = minor_of(&config.kubernetes_version).unwrap_or(33);
        for minor in minor.saturating_sub(1)..=minor + 1 {
            images.learn(minor);
        }
        images
    }

    pub fn get(&self, id: &str) -> Option<&Image> {
        self.by_id.get(id)
    }

    /// All images known so far, by id.
    pub fn all(&self) -> impl Iterator<Item = &Image> {
        self.by_id.values()
    }

    /// The value of an SSM parameter, computed for the Kubernetes version that its path names.
    pub fn parameter(&mut self, name: &str) -> Option<String> {
        if !self.parameters.contains_key(name)
            && let Some(minor) = version_in(name)
        {
            self.learn(minor);
        }
        self.parameters.get(name).cloned()
    }

    fn learn(&mut self, minor: u32) {
        let version = format!("1.{minor}");
        // EKS has had no lower version since before AL2023 images, and none above is promised.
        if self.known.contains(&version) || !(23..=60).contains(&minor) {
            return;
        }
        for published in releases_of(&version, minor) {
            for name in published.parameters {
                self.parameters.entry(name).or_insert_with(|| published.image.id.clone());
            }
            self.by_id.insert(published.image.id.clone(), published.image);
        }
        self.known.push(version);
    }
}

/// The minor number of `1.33` or of `v1.33.2`.
fn minor_of(version: &str) -> Option<u32> {
    version.trim_start_matches('v').strip_prefix("1.")?.split('.').next()?.parse().ok()
}

/// The Kubernetes version that a path names, as in `/aws-k8s-1.33/`, `/1.33/` or `EKS_Optimized-1.33`.
fn version_in(path: &str) -> Option<u32> {
    path.split('/').find_map(|part| {
        let part = part.strip_suffix("-nvidia").unwrap_or(part);
        let version = part.rsplit_once('-').map_or(part, |(_, version)| version);
        minor_of(version)
    })
}

fn releases_of(version: &str, minor: u32) -> Vec<Published> {
    let mut all = Vec::new();
    for (index, release) in RELEASES.iter().enumerate() {
        let latest = index == 0;
        all.extend(amazon_linux_2023(version, release, latest));
        // AWS publishes no AL2 images for Kubernetes 1.33 and above.
        if minor < 33 {
            all.extend(amazon_linux_2(version, release, latest));
        }
        all.extend(bottlerocket(version, release, latest));
        all.extend(windows(version, minor, release, latest));
    }
    all
}

type Release = (&'static str, &'static str, &'static str, &'static str);

fn amazon_linux_2023(version: &str, &(date, created, ..): &Release, latest: bool) -> Vec<Published> {
    let variants = [("standard", &ARCHITECTURES[..]), ("nvidia", &ARCHITECTURES), ("neuron", &ARCHITECTURES[..1])];
    let each = variants.into_iter().flat_map(|(variant, archs)| archs.iter().map(move |arch| (variant, *arch)));
    each.map(|(variant, arch)| {
        let name = format!("amazon-eks-node-al2023-{arch}-{variant}-{version}-v{date}");
        let base = format!("/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{arch}/{variant}");
        let description = format!("EKS-optimized Kubernetes node based on Amazon Linux 2023, (k8s: {version})");
        published(name, description, arch, EKS, created, &[("/dev/xvda", 20)], &base, latest)
    })
    .collect()
}

fn amazon_linux_2(version: &str, &(date, created, ..): &Release, latest: bool) -> Vec<Published> {
    [("", "x86_64"), ("-arm64", "arm64"), ("-gpu", "x86_64")]
        .into_iter()
        .map(|(suffix, arch)| {
            let name = format!("amazon-eks{suffix}-node-{version}-v{date}");
            let base = format!("/aws/service/eks/optimized-ami/{version}/amazon-linux-2{suffix}");
            let description = format!("EKS Kubernetes Worker AMI with AmazonLinux2 image, (k8s: {version})");
            published(name, description, arch, EKS, created, &[("/dev/xvda", 20)], &base, latest)
        })
        .collect()
}

fn bottlerocket(version: &str, &(_, created, release, commit): &Release, latest: bool) -> Vec<Published> {
    let variants = ["", "-nvidia"].into_iter().flat_map(|variant| ARCHITECTURES.map(|arch| (variant, arch)));
    variants
        .map(|(variant, arch)| {
            let name = format!("bottlerocket-aws-k8s-{version}{variant}-{arch}-v{release}-{commit}");
            let base = format!("/aws/service/bottlerocket/aws-k8s-{version}{variant}/{arch}");
            let mut parameters =
                vec![format!("{base}/{release}/image_id"), format!("{base}/{release}-{commit}/image_id")];
            if latest {
                parameters.push(format!("{base}/latest/image_id"));
            }
            let image = image(name.clone(), name, arch, BOTTLEROCKET, created, &[("/dev/xvda", 2), ("/dev/xvdb", 20)]);
            Published { image, parameters }
        })
        .collect()
}

fn windows(version: &str, minor: u32, &(date, created, ..): &Release, latest: bool) -> Vec<Published> {
    let date = format!("{}.{}.{}", &date[..4], &date[4..6], &date[6..]);
    // Windows Server 2025 came to EKS with Kubernetes 1.35.
    let years = [("2019", 23), ("2022", 23), ("2025", 35)].into_iter().filter(|(_, since)| minor >= *since);
    years
        .map(|(year, _)| {
            let stem = format!("Windows_Server-{year}-English-Core-EKS_Optimized-{version}");
            let parameters =
                if latest { vec![format!("/aws/service/ami-windows-latest/{stem}/image_id")] } else { Vec::new() };
            let description = format!("Microsoft Windows Server {year} Core, EKS optimized (k8s: {version})");
            let name = format!("{stem}-{date}");
            let mut image = image(name, description, "x86_64", WINDOWS, created, &[("/dev/sda1", 50)]);
            image.windows = true;
            Published { image, parameters }
        })
        .collect()
}

#[allow(clippy::too_many_arguments, reason = "the row of a table")]
fn published(
    name: String,
    description: String,
    arch: &'static str,
    owner: &'static str,
    created: &str,
    devices: &'static [(&'static str, u32)],
    base: &str,
    latest: bool,
) -> Published {
    let mut parameters = vec![format!("{base}/{name}/image_id")];
    if latest {
        parameters.push(format!("{base}/recommended/image_id"));
    }
    Published { image: image(name, description, arch, owner, created, devices), parameters }
}

fn image(
    name: String,
    description: String,
    architecture: &'static str,
    owner: &'static str,
    created: &str,
    devices: &'static [(&'static str, u32)],
) -> Image {
    let id = ids::named("ami", &name);
    Image { id, name, description, architecture, owner, created: created.to_owned(), devices, windows: false }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn images() -> RegionImages {
        RegionImages::new(&RegionConfig::new("us-east-1", "demo"))
    }

    #[test]
    fn recommended_and_pinned_image_parameters_fit_architecture() {
        let mut images = images();
        let base = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/arm64/standard";
        let recommended = images.parameter(&format!("{base}/recommended/image_id")).unwrap();
        let pinned = format!("{base}/amazon-eks-node-al2023-arm64-standard-1.33-v20251218/image_id");
        assert_eq!(images.parameter(&pinned).as_ref(), Some(&recommended));
        assert_eq!(images.get(&recommended).unwrap().architecture, "arm64");
        let before = format!("{base}/amazon-eks-node-al2023-arm64-standard-1.33-v20251120/image_id");
        assert_ne!(images.parameter(&before).unwrap(), recommended);
    }

    #[test]
    fn parameters_of_any_version_name_images_that_can_be_described() {
        let mut images = images();
        for path in [
            "/aws/service/eks/optimized-ami/1.27/amazon-linux-2-gpu/recommended/image_id",
            "/aws/service/bottlerocket/aws-k8s-1.30-nvidia/x86_64/latest/image_id",
            "/aws/service/bottlerocket/aws-k8s-1.33/arm64/1.51.0/image_id",
            "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.29/image_id",
        ] {
            let id = images.parameter(path).unwrap_or_else(|| panic!("{path}"));
            assert!(images.get(&id).is_some(), "{path}");
        }
    }

    #[test]
    fn what_aws_does_not_publish_is_not_there() {
        let mut images = images();
        for path in [
            "/aws/service/eks/optimized-ami/1.33/amazon-linux-2/recommended/image_id",
            "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/arm64/neuron/recommended/image_id",
            "/aws/service/ami-windows-latest/Windows_Server-2025-English-Core-EKS_Optimized-1.34/image_id",
            "/aws/service/eks/optimized-ami/1.99/amazon-linux-2023/arm64/standard/recommended/image_id",
        ] {
            assert_eq!(images.parameter(path), None, "{path}");
        }
    }
}
