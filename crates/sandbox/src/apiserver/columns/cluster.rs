//! Columns of kinds that are neither workloads nor storage: nodes, events, services, configuration and access.
use super::words::{age, condition, entries, labels, name, number, text, text_or};
use super::{Printer, since};
use serde_json::{Value, json};

pub(super) fn printer(group: &str, kind: &str) -> Option<Printer> {
    Some(match (group, kind) {
        ("", "Node") => NODE,
        ("", "Event") => EVENT,
        ("", "Namespace") => NAMESPACE,
        ("", "Service") => SERVICE,
        ("", "ConfigMap") => CONFIG_MAP,
        ("", "Secret") => SECRET,
        ("coordination.k8s.io", "Lease") => LEASE,
        ("scheduling.k8s.io", "PriorityClass") => PRIORITY_CLASS,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => DEFINITION,
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => ROLE,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => BINDING,
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => WEBHOOKS,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => POLICY,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => POLICY_BINDING,
        _ => return None,
    })
}

const NODE: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Status", "string", false),
        ("Roles", "string", false),
        ("Age", "string", false),
        ("Version", "string", false),
        ("Internal-IP", "string", true),
        ("External-IP", "string", true),
        ("OS-Image", "string", true),
        ("Kernel-Version", "string", true),
        ("Container-Runtime", "string", true),
    ],
    cells: |node, now| {
        let info = |field: &str| text(node, &format!("/status/nodeInfo/{field}"));
        let mut kernel = info("kernelVersion").unwrap_or("<unknown>").to_owned();
        if let Some(architecture) = info("architecture") {
            kernel = format!("{kernel} ({architecture})");
        }
        vec![
            name(node),
            json!(node_status(node)),
            json!(roles(node)),
            age(node, now),
            json!(info("kubeletVersion").unwrap_or_default()),
            json!(address(node, "InternalIP")),
            json!(address(node, "ExternalIP")),
            json!(info("osImage").unwrap_or("<unknown>")),
            json!(kernel),
            json!(info("containerRuntimeVersion").unwrap_or("<unknown>")),
        ]
    },
};

fn node_status(node: &Value) -> String {
    let ready = match condition(node, "Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let closed = node["spec"]["unschedulable"] == true;
    if closed { format!("{ready},SchedulingDisabled") } else { ready.to_owned() }
}

fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let mut addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    addresses.find(|a| a["type"] == kind).and_then(|a| a["address"].as_str()).unwrap_or("<none>")
}

const EVENT: Printer = Printer {
    columns: &[
        ("Last Seen", "string", false),
        ("Type", "string", false),
        ("Reason", "string", false),
        ("Object", "string", false),
        ("Subobject", "string", true),
        ("Source", "string", true),
        ("Message", "string", false),
        ("First Seen", "string", true),
        ("Count", "string", true),
        ("Name", "string", true),
    ],
    cells: |event, now| {
        let time = |pointer: &str| text(event, pointer).map(|time| since(time, now));
        let first = time("/firstTimestamp").or_else(|| time("/eventTime")).unwrap_or_else(|| "<unknown>".to_owned());
        let last = time("/series/lastObservedTime").or_else(|| time("/lastTimestamp"));
        let series = event.pointer("/series/count").and_then(Value::as_i64);
        let count = series.unwrap_or_else(|| number(event, "/count").max(1));
        vec![
            json!(last.unwrap_or_else(|| first.clone())),
            event["type"].clone(),
            event["reason"].clone(),
            json!(target(&event["involvedObject"])),
            text_or(event, "/involvedObject/fieldPath", ""),
            json!(source(event)),
            json!(event["message"].as_str().unwrap_or_default().trim()),
            json!(first),
            json!(count.to_string()),
            name(event),
        ]
    },
};

fn target(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    match object["name"].as_str().filter(|name| !name.is_empty()) {
        Some(name) => format!("{kind}/{name}"),
        None => kind,
    }
}

fn source(event: &Value) -> String {
    let component = text(event, "/source/component").or_else(|| text(event, "/reportingComponent"));
    let instance = text(event, "/source/host").or_else(|| text(event, "/reportingInstance"));
    [component, instance].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

const NAMESPACE: Printer = Printer {
    columns: &[("Name", "string", false), ("Status", "string", false), ("Age", "string", false)],
    cells: |object, now| vec![name(object), text_or(object, "/status/phase", ""), age(object, now)],
};

const SERVICE: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Type", "string", false),
        ("Cluster-IP", "string", false),
        ("External-IP", "string", false),
        ("Port(s)", "string", false),
        ("Age", "string", false),
        ("Selector", "string", true),
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        let port = |port: &Value| {
            let node = port["nodePort"].as_i64().filter(|n| *n > 0).map_or(String::new(), |n| format!(":{n}"));
            format!("{}{node}/{}", port["port"], port["protocol"].as_str().unwrap_or("TCP"))
        };
        let ports: Vec<String> = spec["ports"].as_array().into_iter().flatten().map(port).collect();
        let or_none = |text: String| if text.is_empty() { "<none>".to_owned() } else { text };
        vec![
            name(object),
            text_or(object, "/spec/type", "ClusterIP"),
            text_or(object, "/spec/clusterIP", "<none>"),
            json!(outside(object)),
            json!(or_none(ports.join(","))),
            age(object, now),
            json!(or_none(labels(&spec["selector"]))),
        ]
    },
};

/// Addresses at which a Service is reached from outside.
fn outside(service: &Value) -> String {
    let spec = &service["spec"];
    let mut from = Vec::new();
    for point in service["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten() {
        from.extend(point["ip"].as_str().or_else(|| point["hostname"].as_str()).map(str::to_owned));
    }
    from.extend(spec["externalIPs"].as_array().into_iter().flatten().filter_map(|ip| ip.as_str().map(str::to_owned)));
    match (spec["type"].as_str(), from.is_empty()) {
        (Some("ExternalName"), _) => spec["externalName"].as_str().unwrap_or_default().to_owned(),
        (Some("LoadBalancer"), true) => "<pending>".to_owned(),
        (_, true) => "<none>".to_owned(),
        _ => from.join(","),
    }
}

const CONFIG_MAP: Printer = Printer {
    columns: &[("Name", "string", false), ("Data", "string", false), ("Age", "string", false)],
    cells: |object, now| vec![name(object), counted(object, &["data", "binaryData"]), age(object, now)],
};

const SECRET: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Type", "string", false),
        ("Data", "string", false),
        ("Age", "string", false),
    ],
    cells: |object, now| {
        vec![name(object), text_or(object, "/type", "Opaque"), counted(object, &["data"]), age(object, now)]
    },
};

fn counted(object: &Value, fields: &[&str]) -> Value {
    json!(entries(object, fields).to_string())
}

const LEASE: Printer = Printer {
    columns: &[("Name", "string", false), ("Holder", "string", false), ("Age", "string", false)],
    cells: |object, now| vec![name(object), text_or(object, "/spec/holderIdentity", ""), age(object, now)],
};

const PRIORITY_CLASS: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Value", "integer", false),
        ("Global-Default", "boolean", false),
        ("Age", "string", false),
        ("PreemptionPolicy", "string", false),
    ],
    cells: |object, now| {
        vec![
            name(object),
            object["value"].clone(),
            json!(object["globalDefault"] == true),
            age(object, now),
            text_or(object, "/preemptionPolicy", ""),
        ]
    },
};

const DEFINITION: Printer = Printer {
    columns: &[("Name", "string", false), ("Created At", "date", false)],
    cells: |object, _| vec![name(object), object["metadata"]["creationTimestamp"].clone()],
};

const ROLE: Printer = Printer {
    columns: &[("Name", "string", false), ("Created At", "date", false)],
    cells: |object, _| vec![name(object), object["metadata"]["creationTimestamp"].clone()],
};

const BINDING: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Role", "string", false),
        ("Age", "string", false),
        ("Users", "string", true),
        ("Groups", "string", true),
        ("ServiceAccounts", "string", true),
    ],
    cells: |object, now| {
        let role = |field: &str| object["roleRef"][field].as_str().unwrap_or_default();
        let mut cells = vec![name(object), json!(format!("{}/{}", role("kind"), role("name"))), age(object, now)];
        for kind in ["User", "Group", "ServiceAccount"] {
            let subjects = object["subjects"].as_array().into_iter().flatten().filter(|s| s["kind"] == kind);
            let named = subjects.map(|s| match s["namespace"].as_str().filter(|_| kind == "ServiceAccount") {
                Some(space) => format!("{space}/{}", s["name"].as_str().unwrap_or_default()),
                None => s["name"].as_str().unwrap_or_default().to_owned(),
            });
            cells.push(json!(named.collect::<Vec<_>>().join(", ")));
        }
        cells
    },
};

const WEBHOOKS: Printer = Printer {
    columns: &[("Name", "string", false), ("Webhooks", "integer", false), ("Age", "string", false)],
    cells: |object, now| vec![name(object), json!(object["webhooks"].as_array().map_or(0, Vec::len)), age(object, now)],
};

const POLICY: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Validations", "integer", false),
        ("ParamKind", "string", false),
        ("Age", "string", false),
    ],
    cells: |object, now| {
        let kind = |field: &str| text(object, &format!("/spec/paramKind/{field}"));
        let kind = kind("apiVersion").zip(kind("kind")).map(|(version, kind)| format!("{version}/{kind}"));
        let count = object["spec"]["validations"].as_array().map_or(0, Vec::len);
        vec![name(object), json!(count), json!(kind.unwrap_or_else(|| "<unset>".to_owned())), age(object, now)]
    },
};

const POLICY_BINDING: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("PolicyName", "string", false),
        ("ParamRef", "string", false),
        ("Age", "string", false),
    ],
    cells: |object, now| {
        let part = |field: &str| text(object, &format!("/spec/paramRef/{field}"));
        let param = match (part("namespace"), part("name")) {
            (Some(space), Some(name)) => format!("{space}/{name}"),
            (None, Some(name)) => name.to_owned(),
            _ => "<unset>".to_owned(),
        };
        vec![name(object), text_or(object, "/spec/policyName", ""), json!(param), age(object, now)]
    },
};
