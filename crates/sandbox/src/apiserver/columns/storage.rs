//! Volumes, claims and classes.
use super::Printer;
use super::words::{age, name, text, text_or};
use serde_json::{Value, json};

pub(super) fn printer(group: &str, kind: &str) -> Option<Printer> {
    Some(match (group, kind) {
        ("", "PersistentVolumeClaim") => CLAIM,
        ("", "PersistentVolume") => VOLUME,
        ("storage.k8s.io", "StorageClass") => CLASS,
        ("storage.k8s.io", "VolumeAttachment") => ATTACHMENT,
        ("storage.k8s.io", "CSINode") => CSI_NODE,
        ("storage.k8s.io", "CSIDriver") => CSI_DRIVER,
        _ => return None,
    })
}

const CLAIM: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Status", "string", false),
        ("Volume", "string", false),
        ("Capacity", "string", false),
        ("Access Modes", "string", false),
        ("StorageClass", "string", false),
        ("VolumeAttributesClass", "string", false),
        ("Age", "string", false),
        ("VolumeMode", "string", true),
    ],
    cells: |object, now| {
        let bound = text(object, "/spec/volumeName").is_some();
        let of_bound = |value: Value| if bound { value } else { json!("") };
        vec![
            name(object),
            phase(object),
            text_or(object, "/spec/volumeName", ""),
            of_bound(text_or(object, "/status/capacity/storage", "0")),
            of_bound(json!(modes(&object["status"]["accessModes"]))),
            text_or(object, "/spec/storageClassName", ""),
            text_or(object, "/spec/volumeAttributesClassName", "<unset>"),
            age(object, now),
            text_or(object, "/spec/volumeMode", "<unset>"),
        ]
    },
};

const VOLUME: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Capacity", "string", false),
        ("Access Modes", "string", false),
        ("Reclaim Policy", "string", false),
        ("Status", "string", false),
        ("Claim", "string", false),
        ("StorageClass", "string", false),
        ("VolumeAttributesClass", "string", false),
        ("Reason", "string", false),
        ("Age", "string", false),
        ("VolumeMode", "string", true),
    ],
    cells: |object, now| {
        let claim = &object["spec"]["claimRef"];
        let part = |field: &str| claim[field].as_str().unwrap_or_default();
        let claim = if claim.is_object() { format!("{}/{}", part("namespace"), part("name")) } else { String::new() };
        vec![
            name(object),
            text_or(object, "/spec/capacity/storage", "0"),
            json!(modes(&object["spec"]["accessModes"])),
            text_or(object, "/spec/persistentVolumeReclaimPolicy", ""),
            phase(object),
            json!(claim),
            text_or(object, "/spec/storageClassName", ""),
            text_or(object, "/spec/volumeAttributesClassName", "<unset>"),
            text_or(object, "/status/reason", ""),
            age(object, now),
            text_or(object, "/spec/volumeMode", "<unset>"),
        ]
    },
};

fn phase(object: &Value) -> Value {
    match object["metadata"]["deletionTimestamp"].is_string() {
        true => json!("Terminating"),
        false => text_or(object, "/status/phase", ""),
    }
}

/// `RWO,ROX`, in the order in which Kubernetes names them.
fn modes(list: &Value) -> String {
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let there = |mode: &str| list.as_array().is_some_and(|list| list.iter().any(|m| m == mode));
    known.iter().filter(|(mode, _)| there(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

const CLASS: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Provisioner", "string", false),
        ("ReclaimPolicy", "string", false),
        ("VolumeBindingMode", "string", false),
        ("AllowVolumeExpansion", "string", false),
        ("Age", "string", false),
    ],
    cells: |object, now| {
        let default = object["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true";
        let named = object["metadata"]["name"].as_str().unwrap_or_default();
        vec![
            json!(if default { format!("{named} (default)") } else { named.to_owned() }),
            text_or(object, "/provisioner", ""),
            text_or(object, "/reclaimPolicy", "Delete"),
            text_or(object, "/volumeBindingMode", "<unset>"),
            json!((object["allowVolumeExpansion"] == true).to_string()),
            age(object, now),
        ]
    },
};

const ATTACHMENT: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Attacher", "string", false),
        ("PV", "string", false),
        ("Node", "string", false),
        ("Attached", "boolean", false),
        ("Age", "string", false),
    ],
    cells: |object, now| {
        vec![
            name(object),
            text_or(object, "/spec/attacher", ""),
            text_or(object, "/spec/source/persistentVolumeName", ""),
            text_or(object, "/spec/nodeName", ""),
            json!(object["status"]["attached"] == true),
            age(object, now),
        ]
    },
};

const CSI_NODE: Printer = Printer {
    columns: &[("Name", "string", false), ("Drivers", "integer", false), ("Age", "string", false)],
    cells: |object, now| {
        vec![name(object), json!(object["spec"]["drivers"].as_array().map_or(0, Vec::len)), age(object, now)]
    },
};

const CSI_DRIVER: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("AttachRequired", "boolean", false),
        ("PodInfoOnMount", "boolean", false),
        ("StorageCapacity", "boolean", false),
        ("TokenRequests", "string", false),
        ("RequiresRepublish", "boolean", false),
        ("Modes", "string", false),
        ("Age", "string", false),
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        let words = |field: &str, part: &str| -> Vec<String> {
            let list = spec[field].as_array().into_iter().flatten();
            list.filter_map(|item| if part.is_empty() { item.as_str() } else { item[part].as_str() })
                .map(str::to_owned)
                .collect()
        };
        let tokens = words("tokenRequests", "audience");
        let modes = words("volumeLifecycleModes", "");
        vec![
            name(object),
            json!(spec["attachRequired"] != false),
            json!(spec["podInfoOnMount"] == true),
            json!(spec["storageCapacity"] == true),
            json!(if tokens.is_empty() { "<unset>".to_owned() } else { tokens.join(",") }),
            json!(spec["requiresRepublish"] == true),
            json!(if modes.is_empty() { "Persistent".to_owned() } else { modes.join(",") }),
            age(object, now),
        ]
    },
};
