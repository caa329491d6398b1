//! Fields of Kubernetes' own kinds that have one of a few values. kube-apiserver refuses all others; here they would count
//! as if nothing were written.

use serde_json::Value;

use super::{Findings, ObjectIdentity};
use crate::schema::FieldPath;

/// A field, `[]` for each item of a list, and what it may be.
type Enum = (&'static str, &'static [&'static str]);

const RESTARTS: &[&str] = &["Always", "OnFailure", "Never"];
const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];
const PREEMPTION: &[&str] = &["PreemptLowerPriority", "Never"];
const ACCESS_MODES: &[&str] = &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
const VOLUME_MODES: &[&str] = &["Filesystem", "Block"];
const HONOR: &[&str] = &["Honor", "Ignore"];
const UPDATES: &[&str] = &["RollingUpdate", "OnDelete"];

/// Those of a pod's spec.
const OF_PODS: &[Enum] = &[
    ("restartPolicy", RESTARTS),
    ("preemptionPolicy", PREEMPTION),
    ("dnsPolicy", &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]),
    ("os.name", &["linux", "windows"]),
    ("initContainers[].restartPolicy", RESTARTS),
    ("initContainers[].ports[].protocol", PROTOCOLS),
    ("containers[].ports[].protocol", PROTOCOLS),
    ("topologySpreadConstraints[].nodeAffinityPolicy", HONOR),
    ("topologySpreadConstraints[].nodeTaintsPolicy", HONOR),
    ("volumes[].ephemeral.volumeClaimTemplate.spec.accessModes[]", ACCESS_MODES),
    ("volumes[].ephemeral.volumeClaimTemplate.spec.volumeMode", VOLUME_MODES),
];

/// Those of an object beside its pods'.
fn of_kind(kind: &str) -> &'static [Enum] {
    match kind {
        "Deployment" => &[("spec.strategy.type", &["RollingUpdate", "Recreate"])],
        "DaemonSet" => &[("spec.updateStrategy.type", UPDATES)],
        "StatefulSet" => &[
            ("spec.podManagementPolicy", &["OrderedReady", "Parallel"]),
            ("spec.updateStrategy.type", UPDATES),
            ("spec.volumeClaimTemplates[].spec.accessModes[]", ACCESS_MODES),
            ("spec.volumeClaimTemplates[].spec.volumeMode", VOLUME_MODES),
        ],
        "Job" => &[("spec.completionMode", &["NonIndexed", "Indexed"])],
        "PersistentVolumeClaim" => &[("spec.accessModes[]", ACCESS_MODES), ("spec.volumeMode", VOLUME_MODES)],
        "PersistentVolume" => &[
            ("spec.accessModes[]", ACCESS_MODES),
            ("spec.volumeMode", VOLUME_MODES),
            ("spec.persistentVolumeReclaimPolicy", &["Retain", "Delete", "Recycle"]),
        ],
        "StorageClass" => {
            &[("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]), ("reclaimPolicy", &["Delete", "Retain"])]
        }
        "PriorityClass" => &[("preemptionPolicy", PREEMPTION)],
        "PodDisruptionBudget" => &[("spec.unhealthyPodEvictionPolicy", &["IfHealthyBudget", "AlwaysAllow"])],
        "LimitRange" => &[("spec.limits[].type", &["Container", "Pod", "PersistentVolumeClaim"])],
        "ResourceQuota" => &[(
            "spec.scopes[]",
            &[
                "BestEffort",
                "NotBestEffort",
                "Terminating",
                "NotTerminating",
                "PriorityClass",
                "CrossNamespacePodAffinity",
                "VolumeAttributesClass",
            ],
        )],
        _ => &[],
    }
}

/// Checks an object of one of these kinds; what its pods are is for [`pod_spec`].
pub(super) fn check(object: &Value, identity: &ObjectIdentity, findings: &mut Findings) {
    all(object, of_kind(&identity.kind), &FieldPath::root(), findings);
}

/// Checks a pod's spec.
pub(super) fn pod_spec(pod: &Value, path: &FieldPath, findings: &mut Findings) {
    all(pod, OF_PODS, path, findings);
}

fn all(object: &Value, enums: &[Enum], path: &FieldPath, findings: &mut Findings) {
    for (field, allowed) in enums {
        let steps: Vec<&str> = field.split('.').collect();
        one(object, &steps, allowed, path, findings);
    }
}

fn one(value: &Value, steps: &[&str], allowed: &[&str], path: &FieldPath, findings: &mut Findings) {
    let Some((step, rest)) = steps.split_first() else {
        // An empty text counts as not given.
        if let Some(text) = value.as_str().filter(|text| !text.is_empty() && !allowed.contains(text)) {
            findings.add(path.clone(), format!("{text:?} is not supported"), allowed.join(", "));
        }
        return;
    };
    let Some(name) = step.strip_suffix("[]") else {
        if let Some(inner) = value.get(step) {
            one(inner, rest, allowed, &path.key(step), findings);
        }
        return;
    };
    for (index, item) in value.get(name).and_then(Value::as_array).into_iter().flatten().enumerate() {
        one(item, rest, allowed, &path.key(name).index(index), findings);
    }
}
