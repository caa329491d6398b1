//! Lists that are maps or sets, and maps that are atomic, as strategic merge and server-side apply have to know them.
use crate::apiserver::registry::FoundResource;
use serde_json::{Value, json};

/// Merge behaviour of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// As a whole.
    Atomic,
    /// By value.
    Set,
    /// By these fields of its items; strategic merge goes by the first.
    Map(Vec<String>),
}

/// The place in a kind's schema that a value is at.
#[derive(Clone, Copy, Debug)]
pub enum SchemaPosition<'a> {
    /// A built-in kind: by kind and field name.
    Builtin(&'a str, &'a str),
    /// A custom kind: its schema here, if it has one; at the root or below.
    Schema(Option<&'a Value>, bool),
}

impl<'a> SchemaPosition<'a> {
    /// The root of a kind.
    pub fn from_resource(found: &'a FoundResource) -> Self {
        if found.def.custom {
            SchemaPosition::Schema(found.version.openapi.as_deref(), true)
        } else {
            SchemaPosition::Builtin(&found.def.kind, "")
        }
    }

    /// A field below.
    pub fn field(self, name: &'a str) -> SchemaPosition<'a> {
        match self {
            SchemaPosition::Builtin(kind, _) => SchemaPosition::Builtin(kind, name),
            SchemaPosition::Schema(_, true) if name == "metadata" => SchemaPosition::Builtin("", "metadata"),
            SchemaPosition::Schema(schema, _) => {
                let inner = schema.and_then(|s| s["properties"].get(name).or_else(|| s.get("additionalProperties")));
                SchemaPosition::Schema(inner, false)
            }
        }
    }

    /// An item of the list that is here.
    pub fn item(self) -> SchemaPosition<'a> {
        match self {
            SchemaPosition::Builtin(kind, _) => SchemaPosition::Builtin(kind, ""),
            SchemaPosition::Schema(schema, _) => SchemaPosition::Schema(schema.and_then(|s| s.get("items")), false),
        }
    }

    /// Merge behaviour of the list that is here.
    pub fn list(self) -> ListType {
        match self {
            SchemaPosition::Builtin(kind, field) => builtin_list(kind, field),
            SchemaPosition::Schema(schema, _) => match schema.and_then(|s| s["x-kubernetes-list-type"].as_str()) {
                Some("set") => ListType::Set,
                Some("map") => {
                    let keys = schema
                        .map(|s| crate::apiserver::meta::strings(&s["x-kubernetes-list-map-keys"]))
                        .unwrap_or_default();
                    ListType::Map(keys.into_iter().map(str::to_owned).collect())
                }
                _ => ListType::Atomic,
            },
        }
    }

    /// True if the map that is here has one owner as a whole.
    pub fn atomic_map(self) -> bool {
        match self {
            SchemaPosition::Builtin(_, field) => matches!(
                field,
                "selector"
                    | "nodeSelector"
                    | "labelSelector"
                    | "namespaceSelector"
                    | "fieldRef"
                    | "resourceFieldRef"
                    | "configMapKeyRef"
                    | "secretKeyRef"
                    | "secretRef"
                    | "claimRef"
                    | "involvedObject"
            ),
            SchemaPosition::Schema(schema, _) => schema.is_some_and(|s| s["x-kubernetes-map-type"] == "atomic"),
        }
    }
}

/// Merge behaviour of the list in a field of a built-in type, by the type's name (`PodSpec`); none for one that is replaced.
pub fn merge_keys(of: &str, field: &str) -> Option<ListType> {
    let kind = match of {
        "ServiceSpec" => "Service",
        "EndpointSubset" => "Endpoints",
        "NodeStatus" => "Node",
        other => other,
    };
    Some(builtin_list(kind, field)).filter(|list| *list != ListType::Atomic)
}

/// From the `patchMergeKey` and `x-kubernetes-list-map-keys` of Kubernetes' types.
fn builtin_list(kind: &str, field: &str) -> ListType {
    let keys: &[&str] = match field {
        "finalizers" => return ListType::Set,
        "ownerReferences" => &["uid"],
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "imagePullSecrets"
        | "env"
        | "schedulingGates"
        | "resourceClaims"
        | "claims"
        | "drivers" => &["name"],
        "secrets" if kind == "ServiceAccount" => &["name"],
        "ports" if kind == "Service" => &["port", "protocol"],
        "ports" if kind != "EndpointSlice" && kind != "Endpoints" => &["containerPort", "protocol"],
        "volumeMounts" => &["mountPath"],
        "volumeDevices" => &["devicePath"],
        "hostAliases" | "podIPs" | "hostIPs" => &["ip"],
        "topologySpreadConstraints" => &["topologyKey", "whenUnsatisfiable"],
        "conditions" => &["type"],
        "addresses" if kind == "Node" => &["type"],
        "webhooks" | "matchConditions" => &["name"],
        _ => return ListType::Atomic,
    };
    ListType::Map(keys.iter().map(|k| (*k).to_owned()).collect())
}

/// An item's keys as they stand in managed fields; fields that are absent have their defaults.
pub fn item_key(item: &Value, keys: &[String]) -> Value {
    let mut key = json!({});
    for name in keys {
        match &item[name] {
            Value::Null if name == "protocol" => key[name] = json!("TCP"),
            Value::Null => {}
            value => key[name] = value.clone(),
        }
    }
    key
}
