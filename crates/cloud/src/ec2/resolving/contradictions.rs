//! Fields of a node class of which each makes sense and both together do not: EC2 would refuse every launch. Pure.

use dovetail_api::v1::{BlockDevice, EC2NodeClassSpec};

use crate::family::AmiFamily;

/// Types of volumes whose operations a second can be said.
const WITH_IOPS: [&str; 3] = ["gp3", "io1", "io2"];
/// Types of volumes that need to be told them.
const NEED_IOPS: [&str; 2] = ["io1", "io2"];

/// Each contradiction by its fields and their values.
pub(in crate::ec2) fn find_contradictions(spec: &EC2NodeClassSpec) -> Vec<String> {
    let mut all = Vec::new();
    if let (Some(role), Some(profile)) = (&spec.role, &spec.instance_profile) {
        all.push(format!("spec.role {role:?} and spec.instanceProfile {profile:?} (allowed: exactly one of them)"));
    }
    alias(spec, &mut all);
    if spec.associate_public_ip_address == Some(true) && spec.network_interfaces.len() > 1 {
        let count = spec.network_interfaces.len();
        all.push(format!(
            "spec.associatePublicIPAddress is true with {count} spec.networkInterfaces (allowed: one, or leave it to the subnet)"
        ));
    }
    for (at, mapping) in spec.block_device_mappings.iter().enumerate() {
        let Some(ebs) = &mapping.ebs else { continue };
        volume(&format!("spec.blockDeviceMappings[{at}].ebs"), ebs, &mut all);
    }
    all
}

fn alias(spec: &EC2NodeClassSpec, all: &mut Vec<String>) {
    let alias = spec.ami_selector_terms.iter().find_map(|one| one.alias.as_deref());
    let (Some(alias), Some(family)) = (alias, &spec.ami_family) else { return };
    let (of_alias, own) = (AmiFamily::parse(alias), AmiFamily::parse(family));
    if of_alias.is_some() && own.is_some() && own != of_alias && own != Some(AmiFamily::Custom) {
        all.push(format!(
            "spec.amiFamily {family} and spec.amiSelectorTerms with alias {alias:?} (allowed: the alias's family, or Custom)"
        ));
    }
}

fn volume(path: &str, ebs: &BlockDevice, all: &mut Vec<String>) {
    if let (Some(key), Some(false)) = (&ebs.kms_key_id, ebs.encrypted) {
        all.push(format!("{path}.kmsKeyID {key:?} with encrypted false (allowed: encrypted true)"));
    }
    let Some(kind) = ebs.volume_type.as_deref() else { return };
    if let Some(throughput) = ebs.throughput.filter(|_| kind != "gp3") {
        all.push(format!("{path}.throughput {throughput} with volumeType {kind} (allowed: gp3)"));
    }
    match ebs.iops {
        Some(iops) if !WITH_IOPS.contains(&kind) => {
            all.push(format!("{path}.iops {iops} with volumeType {kind} (allowed: {})", WITH_IOPS.join(", ")));
        }
        None if NEED_IOPS.contains(&kind) => all.push(format!("{path}.volumeType {kind} without iops")),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn told(own: Value) -> Vec<String> {
        let mut spec = json!({"subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "role": "r"});
        spec.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        find_contradictions(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn contradicting_fields_are_named_with_their_values() {
        let volume = |ebs: Value| json!({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ebs}]});
        let interface = |card: i32| json!({"networkCardIndex": card, "deviceIndex": 0, "interfaceType": "interface"});
        for (own, fields) in [
            (json!({"instanceProfile": "p"}), "spec.role \"r\" and spec.instanceProfile \"p\""),
            (
                json!({"amiFamily": "AL2", "amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}),
                "spec.amiFamily AL2 and spec.amiSelectorTerms with alias \"bottlerocket@latest\"",
            ),
            (
                json!({"associatePublicIPAddress": true, "networkInterfaces": [interface(0), interface(1)]}),
                "spec.associatePublicIPAddress is true with 2 spec.networkInterfaces",
            ),
            (volume(json!({"volumeType": "gp2", "throughput": 125})), "ebs.throughput 125 with volumeType gp2"),
            (volume(json!({"volumeType": "st1", "iops": 3000})), "ebs.iops 3000 with volumeType st1"),
            (volume(json!({"volumeType": "io2", "volumeSize": "20Gi"})), "ebs.volumeType io2 without iops"),
            (volume(json!({"kmsKeyID": "k", "encrypted": false})), "ebs.kmsKeyID \"k\" with encrypted false"),
        ] {
            let told = told(own.clone());
            assert!(told.len() == 1 && told[0].contains(fields), "{own}: {told:?}");
        }
    }

    #[test]
    fn what_agrees_is_not_told() {
        for own in [
            json!({}),
            json!({"amiFamily": "Custom", "amiSelectorTerms": [{"alias": "al2023@latest"}]}),
            json!({"blockDeviceMappings": [{"ebs": {"volumeType": "gp3", "iops": 4000, "throughput": 200}}]}),
            json!({"blockDeviceMappings": [{"ebs": {"iops": 4000}}]}),
        ] {
            assert_eq!(told(own.clone()), [""; 0], "{own}");
        }
    }
}
