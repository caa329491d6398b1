//! Names that nobody can read: each is the same wherever it stands, so that selectors still select.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Domains whose labels, taints and values mean something to decisions; they stay as they are.
const KNOWN_DOMAINS: [&str; 6] =
    ["kubernetes.io", "k8s.io", "karpenter.sh", "k8s.aws", "dovetail.dev", "amazonaws.com"];
/// Known labels whose values are names of objects.
const NAMES_OF_OBJECTS: [&str; 3] =
    ["karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass", "kubernetes.io/hostname"];
/// Names that are the same in every cluster.
const COMMON: [&str; 3] = ["default", "kube-system", ""];
/// Fields that hold a name, or a list of them.
const NAMES: [&str; 8] = [
    "claimName",
    "namespace",
    "namespaces",
    "priorityClassName",
    "runtimeClassName",
    "serviceName",
    "storageClassName",
    "volumeName",
];

/// Hashes names with a salt that is nowhere written.
pub(super) struct NameHasher {
    salt: [u8; 16],
}

impl NameHasher {
    pub(super) fn new() -> Self {
        Self { salt: fastrand::u128(..).to_le_bytes() }
    }

    /// A name, hashed.
    pub(super) fn name(&self, name: &str) -> String {
        if COMMON.contains(&name) || name.starts_with("system-") {
            return name.to_owned();
        }
        let digest = Sha256::new().chain_update(self.salt).chain_update(name).finalize();
        let hex: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
        format!("n{hex}")
    }

    /// An object with all names in it hashed.
    pub(super) fn hashed(&self, object: &Value) -> Value {
        let mut out = object.clone();
        self.walk(&mut out, "");
        out
    }

    fn walk(&self, value: &mut Value, of: &str) {
        match value {
            Value::Array(all) => all.iter_mut().for_each(|one| self.walk(one, of)),
            Value::Object(fields) if matches!(of, "labels" | "matchLabels" | "nodeSelector") => self.labels(fields),
            Value::Object(fields) => {
                if let Some(key) = fields.get("key").and_then(Value::as_str).map(str::to_owned) {
                    self.keyed(fields, &key);
                }
                for (name, value) in fields.iter_mut() {
                    match value {
                        Value::String(text) if name == "topologyKey" => *text = self.key(text),
                        Value::String(text) if NAMES.contains(&name.as_str()) => *text = self.name(text),
                        Value::String(text) if name == "name" && matches!(of, "metadata" | "nodeClassRef") => {
                            *text = self.name(text);
                        }
                        Value::Array(all) if NAMES.contains(&name.as_str()) => self.names(all),
                        value => self.walk(value, name),
                    }
                }
            }
            _ => {}
        }
    }

    fn names(&self, all: &mut [Value]) {
        for one in all {
            if let Value::String(text) = one {
                *text = self.name(text);
            }
        }
    }

    /// A label's key: one of a domain that means something stays.
    fn key(&self, key: &str) -> String {
        if is_known(key) { key.to_owned() } else { self.name(key) }
    }

    fn has_names(key: &str) -> bool {
        !is_known(key) || NAMES_OF_OBJECTS.contains(&key)
    }

    fn labels(&self, fields: &mut Map<String, Value>) {
        let all = std::mem::take(fields);
        for (key, mut value) in all {
            if let Value::String(text) = &mut value
                && Self::has_names(&key)
            {
                *text = self.name(text);
            }
            fields.insert(self.key(&key), value);
        }
    }

    /// A requirement, a toleration or a taint.
    fn keyed(&self, fields: &mut Map<String, Value>, key: &str) {
        fields.insert("key".to_owned(), self.key(key).into());
        if !Self::has_names(key) {
            return;
        }
        if let Some(Value::String(text)) = fields.get_mut("value") {
            *text = self.name(text);
        }
        if let Some(Value::Array(all)) = fields.get_mut("values") {
            self.names(all);
        }
    }
}

fn is_known(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    KNOWN_DOMAINS.iter().any(|known| domain == *known || domain.ends_with(&format!(".{known}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_the_same_everywhere_and_what_is_known_stays() {
        let hasher = NameHasher::new();
        let hashed = hasher.hashed(&json!({"metadata": {"name": "shop", "namespace": "default", "labels": {"app": "shop", "kubernetes.io/os": "linux"}},
            "spec": {"selector": {"matchLabels": {"app": "shop"}}, "nodeSelector": {"karpenter.sh/nodepool": "gold", "node.kubernetes.io/instance-type": "m5.large"},
                "tolerations": [{"key": "team", "value": "blue", "operator": "Equal"}],
                "containers": [{"name": "c0", "resources": {"requests": {"cpu": "1"}}}],
                "requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]}]}}));
        let text = hashed.to_string();
        for name in ["shop", "gold", "blue", "team", "app"] {
            assert!(!text.contains(&format!("\"{name}\"")), "{name}: {text}");
        }
        for kept in ["default", "linux", "m5.large", "us-east-1a", "kubernetes.io/os", "c0"] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        assert_eq!(hashed["metadata"]["labels"], {
            let mut both = hashed["spec"]["selector"]["matchLabels"].clone();
            both["kubernetes.io/os"] = "linux".into();
            both
        });
        assert_ne!(NameHasher::new().name("shop"), hasher.name("shop"), "the salt differs");
    }
}
