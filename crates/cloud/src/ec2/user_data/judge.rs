//! Judges before any launch that a node class's own user data and kubelet block can become an instance's user data.

use std::collections::BTreeMap;

use dovetail_api::v1::EC2NodeClassSpec;
use serde_json::Value;

use super::al2023::NODE_CONFIG;
use super::mime::{is_mime, parts_of};
use super::{ClusterFacts, Inputs, UserDataError, render};
use crate::family::AmiFamily;

/// Renders the class as for a node without labels and taints of its own: what fails here fails at every launch.
///
/// # Errors
/// See [`UserDataError`].
pub fn judge(class: &EC2NodeClassSpec, family: AmiFamily, cluster: &ClusterFacts) -> Result<(), UserDataError> {
    let labels = BTreeMap::new();
    render(&Inputs { family, cluster, class, labels: &labels, taints: &[], max_pods: 110, image_version: None })?;
    match class.user_data.as_deref() {
        Some(own) if family == AmiFamily::Al2023 && is_mime(own) => node_configs(own),
        _ => Ok(()),
    }
}

/// nodeadm does not start a node whose NodeConfig it cannot read.
fn node_configs(own: &str) -> Result<(), UserDataError> {
    for part in parts_of(own)?.iter().filter(|part| part.kind.starts_with(NODE_CONFIG)) {
        let read = serde_saphyr::from_str::<Value>(part.body.trim_start_matches("---\n"));
        if !read.as_ref().is_ok_and(Value::is_object) {
            let why = read.err().map_or_else(|| "it is no mapping".to_owned(), |error| error.to_string());
            let line = why.lines().next().unwrap_or_default();
            return Err(UserDataError::Custom(format!("a part {NODE_CONFIG} is no NodeConfig: {line}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::user_data::LIMIT;
    use crate::user_data::tests::fixture;

    fn judged(family: AmiFamily, user_data: &str) -> Result<(), String> {
        let fixture = fixture(json!({"userData": user_data}));
        judge(&fixture.class, family, &fixture.cluster).map_err(|error| error.to_string())
    }

    fn archive(kind: &str, body: &str) -> String {
        format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\nContent-Type: {kind}\n\n{body}\n--B--\n"
        )
    }

    #[test]
    fn what_an_image_can_read_passes() {
        for (family, own) in [
            (AmiFamily::Al2, "#!/bin/bash\ntrue".to_owned()),
            (AmiFamily::Al2023, archive("text/x-shellscript", "#!/bin/bash")),
            (
                AmiFamily::Al2023,
                archive("application/node.eks.aws", "---\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig"),
            ),
            (AmiFamily::Al2023, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig".to_owned()),
            (AmiFamily::Bottlerocket, "[settings.ntp]\ntime-servers = []".to_owned()),
            (AmiFamily::Custom, "anything {".to_owned()),
        ] {
            assert_eq!(judged(family, &own), Ok(()), "{family:?}: {own}");
        }
    }

    #[test]
    fn what_would_fail_at_every_launch_is_told_with_the_field() {
        let long = "#".repeat(LIMIT);
        for (family, own, told) in [
            (AmiFamily::Bottlerocket, "#!/bin/bash\necho", "spec.userData: "),
            (AmiFamily::Bottlerocket, "settings = 1", "not a table"),
            (AmiFamily::Al2023, "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nno boundary", "names no boundary"),
            (AmiFamily::Al2, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--C\n", "it has no part"),
            (AmiFamily::Al2023, &archive("application/node.eks.aws", "kind: [NodeConfig"), "is no NodeConfig"),
            (AmiFamily::Al2023, &archive("application/node.eks.aws", "- a list"), "is no NodeConfig"),
            (AmiFamily::Al2, &long, "longer than the 16384"),
        ] {
            let error = judged(family, own).unwrap_err();
            assert!(error.contains(told), "{family:?}: {error}");
        }
    }
}
