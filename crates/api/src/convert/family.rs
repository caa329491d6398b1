//! The image family of a converted class.

use std::collections::BTreeMap;

use super::{ConversionContext, Converted};
use crate::{
    names::annotations,
    quantity::billionths,
    v1::{AmiSelectorTerm, BlockDevice, BlockDeviceMapping, EC2NodeClassSpec},
};

/// Placeholder for an image that has to be named and cannot be.
pub(super) const NO_IMAGE: &str = "ami-placeholder";
/// The version of an alias that moves with its family's images.
pub(super) const LATEST: &str = "latest";

/// The disk of Ubuntu's images.
pub(super) fn ubuntu_disk() -> BlockDeviceMapping {
    BlockDeviceMapping {
        device_name: Some("/dev/sda1".into()),
        root_volume: Some(true),
        ebs: Some(BlockDevice {
            encrypted: Some(true),
            volume_type: Some("gp3".into()),
            volume_size: Some(k8s_openapi::apimachinery::pkg::api::resource::Quantity("20Gi".into())),
            ..Default::default()
        }),
    }
}

/// Disks of an older version: their sizes could be any quantity, and v1 has whole gibibytes (and G, Ti, T). Less than one is
/// left as it is, as it cannot be meant, and v1 refuses it.
pub(super) fn disks(old: &[BlockDeviceMapping]) -> Vec<BlockDeviceMapping> {
    let mut disks = old.to_vec();
    for size in disks.iter_mut().filter_map(|disk| disk.ebs.as_mut()?.volume_size.as_mut()) {
        let has_unit = ["Gi", "G", "Ti", "T"]
            .iter()
            .any(|unit| size.0.strip_suffix(unit).is_some_and(|count| count.bytes().all(|byte| byte.is_ascii_digit())));
        let gibibytes = billionths(&size.0).map_or(0, |bytes| bytes / 1_000_000_000).div_euclid(1 << 30);
        if !has_unit && gibibytes > 0 {
            let exact = billionths(&size.0) == Some(gibibytes * (1 << 30) * 1_000_000_000);
            size.0 = format!("{}Gi", gibibytes + i128::from(!exact));
        }
    }
    disks
}

/// The alias that takes a family's place.
pub(super) fn alias(family: &str, version: Option<&str>) -> String {
    format!("{}@{}", family.to_ascii_lowercase(), version.unwrap_or(LATEST))
}

/// The first minor version of Kubernetes without AL2 images.
const WITHOUT_AL2: u32 = 33;

/// Sets family and image terms of `class` from what the older version said. AL2 is what the alpha kinds meant when no
/// family was named; where it has no images any more, AL2023 takes its place.
pub(super) fn settle(
    class: &mut EC2NodeClassSpec,
    said: Option<&str>,
    notes: &mut BTreeMap<String, String>,
    context: &ConversionContext,
    to: &mut Converted,
) {
    let family = said.unwrap_or("AL2");
    let al2_ends = context.kubernetes_minor.is_none_or(|minor| minor >= WITHOUT_AL2);
    if family == "Ubuntu" {
        return ubuntu(class, notes, to);
    }
    if !class.ami_selector_terms.is_empty() || family == "Custom" {
        class.ami_family = Some(family.into());
        return;
    }
    let family = match (said, family) {
        (None, "AL2") if al2_ends => {
            to.warnings
                .push("no amiFamily is named; AL2023 is used, since AL2 has no images from Kubernetes 1.33 on".into());
            "AL2023"
        }
        (Some("AL2"), _) if al2_ends => {
            to.warnings.push("amiFamily AL2 has no images from Kubernetes 1.33 on; name AL2023 or Bottlerocket".into());
            "AL2"
        }
        (_, other) => other,
    };
    if said.is_none() {
        to.defaults.push(format!("spec.amiFamily: {family}"));
    }
    let alias = alias(family, notes.get(annotations::ALIAS_VERSION).map(String::as_str));
    class.ami_selector_terms = vec![AmiSelectorTerm { alias: Some(alias), ..Default::default() }];
}

/// Ubuntu has no family of its own any more: AL2's user data on Ubuntu's disk, the image by the user's own terms.
fn ubuntu(class: &mut EC2NodeClassSpec, notes: &mut BTreeMap<String, String>, to: &mut Converted) {
    let incompatible = class.ami_selector_terms.is_empty();
    let mut fields = vec!["amiFamily"];
    class.ami_family = Some("AL2".into());
    if class.block_device_mappings.is_empty() {
        fields.push("blockDeviceMappings");
        class.block_device_mappings = vec![ubuntu_disk()];
    }
    if incompatible {
        fields.push("incompatible");
        class.ami_selector_terms = vec![AmiSelectorTerm { id: Some(NO_IMAGE.into()), ..Default::default() }];
        to.left_out.push("spec.amiFamily: Ubuntu's images cannot be looked up; name them in amiSelectorTerms".into());
        to.warnings.push("amiFamily Ubuntu is no longer known; name the images in amiSelectorTerms".into());
    }
    notes.insert(annotations::V1BETA1_UBUNTU.into(), fields.join(","));
}
