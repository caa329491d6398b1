//! Kubelet settings in an instance's user data, in the forms of EKS's images: `bootstrap.sh` arguments (AL2), a NodeConfig
//! (AL2023), TOML settings (Bottlerocket). Of several MIME parts the later ones win.

use std::collections::BTreeMap;

use dovetail_cloud::family::AmiFamily;
use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize;
use serde_json::Value;

/// The kubelet's configuration, as far as a Node shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeConfig {
    pub family: AmiFamily,
    /// The cluster to join; without one the node never joins.
    pub cluster: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub max_pods: Option<i64>,
    pub pods_per_core: Option<i64>,
    pub kube_reserved: BTreeMap<String, String>,
    pub system_reserved: BTreeMap<String, String>,
    pub eviction_hard: BTreeMap<String, String>,
    /// The local disks are one volume for the pods.
    pub raid0: bool,
}

impl NodeConfig {
    /// Reads user data.
    pub(crate) fn from_user_data(user_data: &str) -> Self {
        let mut config = Self { family: AmiFamily::Custom, ..Self::default() };
        for part in parts(user_data) {
            if part.contains("node.eks.aws/") {
                config.apply_node_config(part);
            } else if part.contains("/etc/eks/bootstrap.sh") {
                config.apply_bootstrap(part);
            } else if part.contains("[settings") || part.contains("settings.kubernetes") {
                config.apply_settings(part);
            }
        }
        config
    }

    fn apply_node_config(&mut self, text: &str) {
        for document in text.split("\n---").filter(|d| d.contains("node.eks.aws/")) {
            let Ok(object) = serde_saphyr::from_str::<Value>(document) else { continue };
            self.family = AmiFamily::Al2023;
            let spec = &object["spec"];
            if let Some(name) = spec["cluster"]["name"].as_str() {
                self.cluster = Some(name.to_owned());
            }
            self.apply_kubelet_config(&spec["kubelet"]["config"]);
            for flag in spec["kubelet"]["flags"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                self.apply_flags(flag);
            }
            self.raid0 |= spec["instance"]["localStorage"]["strategy"] == "RAID0";
        }
    }

    fn apply_kubelet_config(&mut self, config: &Value) {
        if let Ok(taints) = Vec::<Taint>::deserialize(&config["registerWithTaints"]) {
            taints.into_iter().for_each(|t| self.add_taint(t));
        }
        self.max_pods = config["maxPods"].as_i64().or(self.max_pods);
        self.pods_per_core = config["podsPerCore"].as_i64().or(self.pods_per_core);
        for (field, to) in [
            ("kubeReserved", &mut self.kube_reserved),
            ("systemReserved", &mut self.system_reserved),
            ("evictionHard", &mut self.eviction_hard),
        ] {
            for (name, value) in config[field].as_object().into_iter().flatten() {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                to.insert(name.clone(), text);
            }
        }
    }

    fn apply_bootstrap(&mut self, script: &str) {
        self.family = AmiFamily::Al2;
        let script = script.replace("\\\n", " ");
        let Some((_, arguments)) = script.split_once("/etc/eks/bootstrap.sh") else { return };
        let words = words(arguments);
        let mut words = words.iter().map(String::as_str);
        // The cluster's name comes first.
        let mut name = words.next();
        while let Some(word) = words.next() {
            match word {
                "--kubelet-extra-args" => self.apply_flags(words.next().unwrap_or_default()),
                "--local-disks" => self.raid0 |= words.next() == Some("raid0"),
                "--apiserver-endpoint" | "--b64-cluster-ca" | "--dns-cluster-ip" | "--ip-family" | "--use-max-pods" => {
                    words.next();
                }
                other if !other.starts_with('-') && name.is_none() => name = Some(other),
                _ => {}
            }
        }
        self.cluster = name.filter(|n| !n.starts_with('-')).map(str::to_owned).or(self.cluster.take());
    }

    /// The kubelet's command line.
    fn apply_flags(&mut self, line: &str) {
        let words = words(line);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (flag, value) = match word.split_once('=') {
                Some((flag, value)) => (flag, value.trim_matches(['"', '\'']).to_owned()),
                None => (word.as_str(), words.as_slice().first().cloned().unwrap_or_default()),
            };
            match flag {
                "--node-labels" => self.labels.extend(pairs(&value, '=')),
                "--register-with-taints" => value.split(',').filter_map(taint).for_each(|t| self.add_taint(t)),
                "--max-pods" => self.max_pods = value.parse().ok().or(self.max_pods),
                "--pods-per-core" => self.pods_per_core = value.parse().ok().or(self.pods_per_core),
                "--kube-reserved" => self.kube_reserved.extend(pairs(&value, '=')),
                "--system-reserved" => self.system_reserved.extend(pairs(&value, '=')),
                "--eviction-hard" => self.eviction_hard.extend(pairs(&value, '<')),
                _ => {}
            }
        }
    }

    fn apply_settings(&mut self, text: &str) {
        let Ok(settings) = text.parse::<toml::Table>() else { return };
        let Some(kubernetes) = settings.get("settings").and_then(|s| s.get("kubernetes")) else { return };
        self.family = AmiFamily::Bottlerocket;
        let table = |name: &str| kubernetes.get(name).and_then(toml::Value::as_table).into_iter().flatten();
        let pairs = |name: &str| -> BTreeMap<String, String> {
            table(name).filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
        };
        self.cluster = kubernetes.get("cluster-name").and_then(toml::Value::as_str).map(str::to_owned);
        self.max_pods = kubernetes.get("max-pods").and_then(toml::Value::as_integer);
        self.labels.extend(pairs("node-labels"));
        self.kube_reserved.extend(pairs("kube-reserved"));
        self.system_reserved.extend(pairs("system-reserved"));
        self.eviction_hard.extend(pairs("eviction-hard"));
        for (key, values) in table("node-taints") {
            let values = values.as_array().into_iter().flatten().filter_map(toml::Value::as_str);
            values.filter_map(|value| taint(&format!("{key}={value}"))).for_each(|t| self.add_taint(t));
        }
    }

    fn add_taint(&mut self, taint: Taint) {
        if !self.taints.iter().any(|t| t.key == taint.key && t.effect == taint.effect) {
            self.taints.push(taint);
        }
    }
}

/// The parts of a MIME message, or the whole when it is none.
fn parts(user_data: &str) -> Vec<&str> {
    let header = user_data.split_once("boundary=").map(|(_, rest)| rest.lines().next().unwrap_or_default());
    match header.map(|h| h.trim().trim_matches('"')).filter(|_| user_data.contains("multipart/mixed")) {
        // A part begins with headers of its own, up to an empty line.
        Some(boundary) => user_data
            .split(&format!("--{boundary}"))
            .skip(1)
            .map(|part| part.split_once("\n\n").or_else(|| part.split_once("\r\n\r\n")).map_or(part, |(_, body)| body))
            .collect(),
        None => vec![user_data],
    }
}

/// `key=value:Effect`, `key:Effect`.
fn taint(text: &str) -> Option<Taint> {
    let (head, effect) = text.trim().rsplit_once(':')?;
    let (key, value) = head.split_once('=').unwrap_or((head, ""));
    let value = Some(value.to_owned()).filter(|v| !v.is_empty());
    Some(Taint { key: key.to_owned(), value, effect: effect.to_owned(), time_added: None })
}

fn pairs(text: &str, by: char) -> impl Iterator<Item = (String, String)> {
    text.split(',').filter_map(move |pair| {
        let (key, value) = pair.split_once(by)?;
        Some((key.trim().to_owned(), value.trim().to_owned()))
    })
}

/// The words of a shell line: quotes group, and are taken off where they enclose.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut open) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => word.push(c),
            None if c == '"' || c == '\'' => (quote, open) = (Some(c), true),
            None if c.is_whitespace() => {
                if open || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                open = false;
            }
            None => word.push(c),
        }
    }
    if open || !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use dovetail_api::names::taints::UNREGISTERED;

    use super::*;

    fn check(config: &NodeConfig, family: AmiFamily) {
        assert_eq!((config.family, config.cluster.as_deref()), (family, Some("demo")));
        assert_eq!(config.labels.get("karpenter.sh/nodepool").map(String::as_str), Some("default"));
        let taint = config.taints.iter().find(|t| t.key == UNREGISTERED).unwrap();
        assert_eq!((taint.effect.as_str(), taint.value.as_deref()), ("NoExecute", None));
        assert_eq!(config.max_pods, Some(29));
    }

    #[test]
    fn the_arguments_of_bootstrap_sh_are_read() {
        let text = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\
            Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/bash -xe\n\
            /etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://x' --b64-cluster-ca 'Y2E=' \\\n\
            --use-max-pods false --kubelet-extra-args '--node-labels=\"karpenter.sh/nodepool=default,a=b\" \
            --register-with-taints=\"karpenter.sh/unregistered=:NoExecute,team=x:NoSchedule\" --max-pods=29'\n--//--\n";
        let config = NodeConfig::from_user_data(text);
        check(&config, AmiFamily::Al2);
        assert_eq!((config.taints.len(), config.labels.len()), (2, 2));
    }

    #[test]
    fn the_last_node_config_wins_over_the_user_s_own() {
        let own = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n    name: other\n  kubelet:\n    config:\n      maxPods: 5\n";
        let generated = "# Karpenter Generated NodeConfig\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n    name: demo\n\
            \x20 instance:\n    localStorage:\n      strategy: RAID0\n  kubelet:\n    config:\n      maxPods: 29\n      registerWithTaints:\n\
            \x20     - effect: NoExecute\n        key: karpenter.sh/unregistered\n    flags:\n    - --node-labels=\"karpenter.sh/nodepool=default\"\n";
        let part = |text: &str| format!("--BOUNDARY\nContent-Type: application/node.eks.aws\n\n{text}\n");
        let text = format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"BOUNDARY\"\n\n{}{}--BOUNDARY--\n",
            part(own),
            part(generated)
        );
        let config = NodeConfig::from_user_data(&text);
        check(&config, AmiFamily::Al2023);
        assert!(config.raid0);
    }

    #[test]
    fn bottlerocket_s_settings_are_read() {
        let text = "[settings.kubernetes]\ncluster-name = \"demo\"\nmax-pods = 29\n[settings.kubernetes.node-labels]\n\
            \"karpenter.sh/nodepool\" = \"default\"\n[settings.kubernetes.node-taints]\n\
            \"karpenter.sh/unregistered\" = [\":NoExecute\"]\n[settings.kubernetes.kube-reserved]\ncpu = \"70m\"\n";
        let config = NodeConfig::from_user_data(text);
        check(&config, AmiFamily::Bottlerocket);
        assert_eq!(config.kube_reserved.get("cpu").map(String::as_str), Some("70m"));
    }

    #[test]
    fn user_data_that_names_no_cluster_joins_none() {
        assert_eq!(NodeConfig::from_user_data("").cluster, None);
        assert_eq!(NodeConfig::from_user_data("#!/bin/sh\necho hello\n").cluster, None);
    }
}
