//! Objects of a cluster as a record has them: what decisions depend on, and nothing else. No command line, variable or image of a
//! container is kept, and no annotation of others.

use dovetail_api::names::labels;
use dovetail_simulation::record::identity;
use serde_json::{Map, Value, json};

use super::hashing::NameHasher;

/// Fields of a pod's spec that are kept.
const OF_PODS: [&str; 13] = [
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priorityClassName",
    "restartPolicy",
    "runtimeClassName",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "resources",
];
/// Fields of a workload's spec that are kept beside its template.
const OF_WORKLOADS: [&str; 5] = ["podManagementPolicy", "replicas", "selector", "serviceName", "volumeClaimTemplates"];
/// Fields of a class's spec that are kept; network, images and identity are the replay's own.
const OF_CLASSES: [&str; 3] = ["blockDeviceMappings", "instanceStorePolicy", "kubelet"];
/// Controllers whose pods come with them.
const CONTROLLERS: [&str; 3] = ["ReplicaSet", "StatefulSet", "DaemonSet"];
/// Scheduler of pods that are in no cluster.
const OUTSIDE: &str = "dovetail.dev/outside";
/// Name of the replay's cluster, by which its class finds its network.
pub(super) const REPLAY_CLUSTER: &str = "demo";

fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true).and_then(|owner| owner["kind"].as_str())
}

/// The object as the record has it; `None` for one that comes with another, has ended or is going.
pub(super) fn recorded(kind: &str, object: &Value, hasher: Option<&NameHasher>) -> Option<Value> {
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let spec = &object["spec"];
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let (version, spec) = match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" => ("apps/v1", workload(spec)),
        "ReplicaSet" if controller(object) == Some("Deployment") => return None,
        "ReplicaSet" => ("apps/v1", workload(spec)),
        "Pod" if !is_own_pod(object) => return None,
        "Pod" => ("v1", pod(spec)),
        "PersistentVolumeClaim" => ("v1", only(spec, &["accessModes", "resources", "storageClassName", "volumeMode"])),
        "PodDisruptionBudget" => ("policy/v1", spec.clone()),
        "NodePool" => ("karpenter.sh/v1", spec.clone()),
        "EC2NodeClass" => ("karpenter.k8s.aws/v1", class(spec)),
        "PriorityClass" if name.starts_with("system-") => return None,
        "PriorityClass" => ("scheduling.k8s.io/v1", Value::Null),
        "StorageClass" => ("storage.k8s.io/v1", Value::Null),
        _ => return None,
    };
    let mut kept = json!({"apiVersion": version, "kind": kind, "metadata": metadata(&object["metadata"])});
    if spec.is_null() {
        for field in
            ["value", "globalDefault", "preemptionPolicy", "provisioner", "volumeBindingMode", "allowedTopologies"]
        {
            if !object[field].is_null() {
                kept[field] = object[field].clone();
            }
        }
    } else {
        kept["spec"] = spec;
    }
    Some(hasher.map_or_else(|| kept.clone(), |hasher| hasher.hashed(&kept)))
}

/// True for a pod that nothing recorded makes, and that has not ended.
fn is_own_pod(pod: &Value) -> bool {
    let mirror = !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null();
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let made = controller(pod).is_some_and(|kind| CONTROLLERS.contains(&kind) || kind == "Node");
    // The sandbox shows its control plane so, which is in no node.
    let outside = pod["spec"]["schedulerName"] == OUTSIDE;
    !(mirror || ended || made || outside)
}

fn only(object: &Value, fields: &[&str]) -> Value {
    let kept = fields.iter().filter(|field| !object[**field].is_null());
    Value::Object(kept.map(|field| ((*field).to_owned(), object[*field].clone())).collect())
}

fn metadata(all: &Value) -> Value {
    let mut kept = only(all, &["name", "namespace", "labels"]);
    let own =
        |key: &str| key.contains("karpenter.sh/") || key.contains("dovetail.dev/") || key.contains("is-default-class");
    let annotations: Map<String, Value> = all["annotations"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| own(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !annotations.is_empty() {
        kept["annotations"] = annotations.into();
    }
    kept
}

fn workload(spec: &Value) -> Value {
    let mut kept = only(spec, &OF_WORKLOADS);
    let template = &spec["template"];
    kept["template"] = json!({"metadata": only(&metadata(&template["metadata"]), &["labels", "annotations"]), "spec": pod(&template["spec"])});
    kept
}

fn pod(spec: &Value) -> Value {
    let mut kept = only(spec, &OF_PODS);
    for list in ["containers", "initContainers"] {
        let containers: Vec<Value> = spec[list].as_array().into_iter().flatten().enumerate().map(container).collect();
        if !containers.is_empty() {
            kept[list] = containers.into();
        }
    }
    let claims = |volume: &&Value| !volume["persistentVolumeClaim"].is_null() || !volume["ephemeral"].is_null();
    let volumes: Vec<Value> = spec["volumes"].as_array().into_iter().flatten().filter(claims).cloned().collect();
    if !volumes.is_empty() {
        kept["volumes"] = volumes.into();
    }
    kept
}

fn container((at, container): (usize, &Value)) -> Value {
    let mut kept = only(container, &["resources", "restartPolicy"]);
    kept["name"] = format!("c{at}").into();
    kept["image"] = "recorded".into();
    let ports: Vec<Value> = container["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|port| !port["hostPort"].is_null())
        .map(|port| only(port, &["containerPort", "hostPort", "hostIP", "protocol"]))
        .collect();
    if !ports.is_empty() {
        kept["ports"] = ports.into();
    }
    kept
}

/// A class with the network, images and identity that the replay's cluster has.
fn class(spec: &Value) -> Value {
    let mut kept = only(spec, &OF_CLASSES);
    let alias = spec["amiSelectorTerms"].as_array().into_iter().flatten().find_map(|term| term["alias"].as_str());
    let family = alias.and_then(|alias| alias.split('@').next()).map(str::to_lowercase);
    let family = family.or_else(|| spec["amiFamily"].as_str().map(str::to_lowercase));
    let known = family.filter(|family| ["al2", "al2023", "bottlerocket"].contains(&family.as_str()));
    kept["amiSelectorTerms"] = json!([{"alias": format!("{}@latest", known.as_deref().unwrap_or("al2023"))}]);
    kept["role"] = format!("KarpenterNodeRole-{REPLAY_CLUSTER}").into();
    let tagged = json!([{"tags": {"karpenter.sh/discovery": REPLAY_CLUSTER}}]);
    kept["subnetSelectorTerms"] = tagged.clone();
    kept["securityGroupSelectorTerms"] = tagged;
    kept
}

/// The nodes that are there beforehand, as a scenario has them: those of NodePools as a Karpenter's, which are taken over.
pub(super) fn nodes_beforehand(
    nodes: &[Value],
    known: impl Fn(&str, &str) -> bool,
    hasher: Option<&NameHasher>,
) -> Vec<Value> {
    let mut groups: std::collections::BTreeMap<String, (Value, u64)> = std::collections::BTreeMap::new();
    for node in nodes {
        let label = |key: &str| node["metadata"]["labels"][key].as_str().unwrap_or_default();
        let (type_, zone) = (label(labels::INSTANCE_TYPE), label(labels::ZONE));
        if !known(type_, zone) {
            continue;
        }
        let spot = label(labels::CAPACITY_TYPE) == labels::SPOT;
        let mut group =
            json!({"instanceType": type_, "zone": zone, "capacityType": if spot { "spot" } else { "on-demand" }});
        let name = |text: &str| hasher.map_or_else(|| text.to_owned(), |hasher| hasher.name(text));
        if !label(labels::NODE_POOL).is_empty() {
            let (pool, class) = (name(label(labels::NODE_POOL)), name(label(labels::EC2_NODE_CLASS)));
            group["karpenter"] = json!({"nodePool": pool, "nodeClass": class});
        }
        groups.entry(group.to_string()).or_insert((group, 0)).1 += 1;
    }
    groups
        .into_values()
        .map(|(mut group, count)| {
            group["count"] = count.into();
            group
        })
        .collect()
}

/// The change from one state of a cluster's objects to the next.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    pub applied: Vec<Value>,
    /// Steps of a scenario.
    pub steps: Vec<Map<String, Value>>,
}

/// Compares two states, by kind, namespace and name.
pub(super) fn changes(
    before: &dovetail_simulation::record::TimedObjects,
    after: &dovetail_simulation::record::TimedObjects,
) -> Changes {
    let mut found = Changes::default();
    let step = |verb: &str, key: &[String; 3], more: Option<&Value>| {
        let mut target = json!({"kind": key[0], "namespace": key[1], "name": key[2]});
        if let Some(replicas) = more {
            target["replicas"] = replicas.clone();
        }
        Map::from_iter([(verb.to_owned(), target)])
    };
    for (key, object) in after {
        match before.get(key) {
            Some(known) if known == object => {}
            Some(known) if is_scaled(known, object) => {
                found.steps.push(step("scale", key, Some(&object["spec"]["replicas"])));
            }
            _ => found.applied.push(object.clone()),
        }
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        found.steps.push(step("delete", key, None));
    }
    found
}

/// True if nothing but the number of replicas differs, of a kind that can be scaled.
fn is_scaled(before: &Value, after: &Value) -> bool {
    let scalable = matches!(identity(after)[0].as_str(), "Deployment" | "ReplicaSet" | "StatefulSet");
    let without = |object: &Value| {
        let mut object = object.clone();
        object["spec"]["replicas"] = Value::Null;
        object
    };
    scalable && after["spec"]["replicas"].is_u64() && without(before) == without(after)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use dovetail_simulation::record::TimedObjects;

    use super::*;

    fn deployment(replicas: u64, cpu: &str) -> Value {
        json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u", "labels": {"app": "web"}, "annotations": {"secret": "x"}},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"serviceAccountName": "web", "containers": [{"name": "main", "image": "private/web", "command": ["--token=x"],
                    "env": [{"name": "PASSWORD", "value": "x"}], "resources": {"requests": {"cpu": cpu}}}]}}}})
    }

    fn state(objects: &[Value]) -> TimedObjects {
        objects.iter().map(|one| (identity(one), one.clone())).collect()
    }

    #[test]
    fn record_has_what_decides_and_no_secret() {
        let kept = recorded("Deployment", &deployment(2, "1"), None).unwrap();
        let text = kept.to_string();
        for secret in ["token", "PASSWORD", "private/web", "serviceAccountName", "secret", "uid"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        assert_eq!(kept["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
        let owned = json!({"metadata": {"name": "p", "ownerReferences": [{"kind": "ReplicaSet", "controller": true}]}, "spec": {}});
        assert!(recorded("Pod", &owned, None).is_none());
        let of_job = json!({"metadata": {"name": "p", "ownerReferences": [{"kind": "Job", "controller": true}]}, "spec": {"containers": [{}]}});
        assert!(recorded("Pod", &of_job, None).is_some());
    }

    #[test]
    fn only_what_changes_is_written() {
        let one = recorded("Deployment", &deployment(2, "1"), None).unwrap();
        let more = recorded("Deployment", &deployment(5, "1"), None).unwrap();
        let other = recorded("Deployment", &deployment(5, "2"), None).unwrap();
        assert_eq!(changes(&state(std::slice::from_ref(&one)), &state(std::slice::from_ref(&one))), Changes::default());
        let scaled = changes(&state(std::slice::from_ref(&one)), &state(std::slice::from_ref(&more)));
        assert_eq!((scaled.applied.len(), &scaled.steps[0]["scale"]["replicas"]), (0, &json!(5)));
        assert_eq!(changes(&state(&[more]), &state(std::slice::from_ref(&other))).applied, [other]);
        assert_eq!(changes(&state(&[one]), &state(&[])).steps[0]["delete"]["name"], "web");
    }
}
