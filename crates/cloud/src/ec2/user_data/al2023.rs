//! Amazon Linux 2023: nodeadm reads a NodeConfig. Ours comes last, so that it wins.

use dovetail_api::v1::KubeletConfiguration;
use serde_json::{Map, Value, json};

use super::mime::{MimePart, archive, is_mime, parts_of};
use super::{Inputs, UserDataError, kubelet_args};

/// Content type of the parts of an archive that nodeadm reads.
pub(super) const NODE_CONFIG: &str = "application/node.eks.aws";

pub(super) fn render(inputs: &Inputs<'_>, kubelet: &KubeletConfiguration) -> Result<String, UserDataError> {
    let mut parts = match inputs.class.user_data.as_deref() {
        None | Some("") => Vec::new(),
        Some(own) if is_mime(own) => parts_of(own)?,
        Some(own) if is_mapping(own) => vec![MimePart { kind: NODE_CONFIG.into(), body: own.into() }],
        Some(own) => vec![MimePart::shell(own)],
    };
    let config = node_config(inputs, kubelet)?;
    let yaml = serde_saphyr::to_string(&config).map_err(|e| UserDataError::Kubelet(e.to_string()))?;
    parts.push(MimePart { kind: NODE_CONFIG.into(), body: yaml });
    Ok(archive(&parts))
}

fn is_mapping(text: &str) -> bool {
    serde_saphyr::from_str::<Value>(text).is_ok_and(|v| v.is_object())
}

fn node_config(inputs: &Inputs<'_>, kubelet: &KubeletConfiguration) -> Result<Value, UserDataError> {
    let cluster = inputs.cluster;
    let cidr = cluster.service_cidr.as_deref().ok_or(UserDataError::NoServiceCidr)?;
    let mut spec = json!({
        "cluster": {
            "name": cluster.name,
            "apiServerEndpoint": cluster.endpoint,
            "certificateAuthority": cluster.certificate_authority,
            "cidr": cidr,
        },
        "kubelet": {
            "config": kubelet_config(inputs, kubelet),
            "flags": [kubelet_args::labels(inputs)],
        },
    });
    if inputs.raid0() {
        spec["instance"] = json!({"localStorage": {"strategy": "RAID0"}});
    }
    Ok(json!({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}))
}

/// The class's kubelet block as written, with what we decide on top.
fn kubelet_config(inputs: &Inputs<'_>, kubelet: &KubeletConfiguration) -> Value {
    let mut config = inputs.class.kubelet.as_ref().map_or_else(Map::new, |k| k.0.clone());
    config.insert("maxPods".into(), json!(inputs.max_pods));
    let dns = inputs.dns(kubelet);
    if !dns.is_empty() {
        config.insert("clusterDNS".into(), json!(dns));
    }
    let taints: Vec<Value> = inputs
        .node_taints()
        .iter()
        .map(|t| match t.value.as_deref() {
            Some(value) if !value.is_empty() => json!({"key": t.key, "value": value, "effect": t.effect}),
            _ => json!({"key": t.key, "effect": t.effect}),
        })
        .collect();
    config.insert("registerWithTaints".into(), json!(taints));
    Value::Object(config)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use crate::family::AmiFamily;
    use crate::user_data::tests::fixture;
    use crate::user_data::{UserDataError, plain};

    fn parts(text: &str) -> Vec<super::MimePart> {
        super::parts_of(text).unwrap()
    }

    #[test]
    fn the_node_config_comes_last_and_has_all_that_nodeadm_needs() {
        let class = fixture(json!({
            "userData": "#!/bin/bash\necho hi",
            "instanceStorePolicy": "RAID0",
            "kubelet": {"podPidsLimit": 4096, "evictionHard": {"memory.available": "5%"}},
        }));
        let parts = parts(&plain(&class.inputs(AmiFamily::Al2023)).unwrap());
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0].kind, "text/x-shellscript; charset=\"us-ascii\"");
        assert_eq!(parts[1].kind, "application/node.eks.aws");
        let config: Value = serde_saphyr::from_str(&parts[1].body).unwrap();
        let expected = json!({
            "apiVersion": "node.eks.aws/v1alpha1",
            "kind": "NodeConfig",
            "spec": {
                "cluster": {
                    "name": "demo",
                    "apiServerEndpoint": "https://demo.example",
                    "certificateAuthority": "Y2E=",
                    "cidr": "10.100.0.0/16",
                },
                "kubelet": {
                    "config": {
                        "podPidsLimit": 4096,
                        "evictionHard": {"memory.available": "5%"},
                        "maxPods": 29,
                        "clusterDNS": ["10.100.0.10"],
                        "registerWithTaints": [
                            {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
                            {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
                        ],
                    },
                    "flags": ["--node-labels=\"karpenter.sh/capacity-type=spot,karpenter.sh/do-not-sync-taints=true,team=blue\""],
                },
                "instance": {"localStorage": {"strategy": "RAID0"}},
            },
        });
        assert_eq!(config, expected);
    }

    #[test]
    fn the_users_own_node_config_stays_one() {
        let class = fixture(json!({"userData": "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"}));
        let parts = parts(&plain(&class.inputs(AmiFamily::Al2023)).unwrap());
        assert!(parts.iter().all(|p| p.kind == "application/node.eks.aws") && parts.len() == 2);
    }

    #[test]
    fn without_service_addresses_there_is_no_node_config() {
        let mut class = fixture(json!({}));
        class.cluster.service_cidr = None;
        assert_eq!(plain(&class.inputs(AmiFamily::Al2023)), Err(UserDataError::NoServiceCidr));
    }
}
