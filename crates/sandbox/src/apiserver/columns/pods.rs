//! Pods: what a person wants to know of one is spread over its phase, its conditions and its containers.
use super::words::{age, name, text_or};
use super::{Printer, since};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) fn printer(group: &str, kind: &str) -> Option<Printer> {
    (group.is_empty() && kind == "Pod").then_some(Printer {
        columns: &[
            ("Name", "string", false),
            ("Ready", "string", false),
            ("Status", "string", false),
            ("Restarts", "string", false),
            ("Age", "string", false),
            ("IP", "string", true),
            ("Node", "string", true),
            ("Nominated Node", "string", true),
            ("Readiness Gates", "string", true),
        ],
        cells,
    })
}

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let statuses = list(&pod["status"]["containerStatuses"]);
    let ready = statuses.iter().filter(|s| s["ready"] == true && s["state"]["running"].is_object()).count();
    let all = list(&pod["spec"]["containers"]).len();
    vec![
        name(pod),
        json!(format!("{ready}/{all}")),
        json!(status(pod)),
        json!(restarts(pod, now)),
        age(pod, now),
        text_or(pod, "/status/podIP", "<none>"),
        text_or(pod, "/spec/nodeName", "<none>"),
        text_or(pod, "/status/nominatedNodeName", "<none>"),
        gates(pod),
    ]
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The one word that says how the pod is.
fn status(pod: &Value) -> String {
    let status = &pod["status"];
    let phase = status["phase"].as_str().unwrap_or("Unknown");
    let over = matches!(phase, "Succeeded" | "Failed");
    if pod["metadata"]["deletionTimestamp"].is_string() && !over {
        return if status["reason"] == "NodeLost" { "Unknown" } else { "Terminating" }.to_owned();
    }
    let own = status["reason"].as_str().filter(|r| !r.is_empty()).unwrap_or(phase);
    if let Some(word) = initializing(pod) {
        return word;
    }
    let gated = list(&status["conditions"]).iter().any(|c| c["reason"] == "SchedulingGated");
    if gated {
        return "SchedulingGated".to_owned();
    }
    let (mut word, mut running) = (own.to_owned(), false);
    for container in list(&status["containerStatuses"]).iter().rev() {
        running |= container["ready"] == true && container["state"]["running"].is_object();
        if let Some(reason) = reason(&container["state"]) {
            word = reason;
        }
    }
    if word == "Completed" && running {
        let ready = list(&status["conditions"]).iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
        word = if ready { "Running" } else { "NotReady" }.to_owned();
    }
    word
}

/// The reason for which a container does not run.
fn reason(state: &Value) -> Option<String> {
    let waiting = state["waiting"]["reason"].as_str().filter(|r| !r.is_empty());
    if let Some(reason) = waiting {
        return Some(reason.to_owned());
    }
    let ended = state["terminated"].as_object()?;
    let number = |field: &str| ended.get(field).and_then(Value::as_i64).unwrap_or_default();
    match ended.get("reason").and_then(Value::as_str).filter(|r| !r.is_empty()) {
        Some(reason) => Some(reason.to_owned()),
        None if number("signal") != 0 => Some(format!("Signal:{}", number("signal"))),
        None => Some(format!("ExitCode:{}", number("exitCode"))),
    }
}

/// `Init:1/2` or what goes wrong while init containers have not all ended well.
fn initializing(pod: &Value) -> Option<String> {
    let specs = list(&pod["spec"]["initContainers"]);
    for (index, container) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
        let state = &container["state"];
        let sidecar = specs.iter().any(|s| s["name"] == container["name"] && s["restartPolicy"] == "Always");
        let ended_well = state["terminated"].is_object() && state["terminated"]["exitCode"] == 0;
        if ended_well || (sidecar && container["started"] == true) {
            continue;
        }
        return Some(match reason(state).filter(|r| r != "PodInitializing") {
            Some(why) => format!("Init:{why}"),
            None => format!("Init:{index}/{}", specs.len()),
        });
    }
    None
}

fn restarts(pod: &Value, now: Timestamp) -> String {
    let statuses = list(&pod["status"]["containerStatuses"]);
    let count: i64 = statuses.iter().filter_map(|s| s["restartCount"].as_i64()).sum();
    let last = statuses.iter().filter_map(|s| s["lastState"]["terminated"]["finishedAt"].as_str()).max();
    match last.filter(|_| count > 0) {
        Some(last) => format!("{count} ({} ago)", since(last, now)),
        None => count.to_string(),
    }
}

fn gates(pod: &Value) -> Value {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return json!("<none>");
    }
    let conditions = list(&pod["status"]["conditions"]);
    let open = |gate: &&Value| conditions.iter().any(|c| c["type"] == gate["conditionType"] && c["status"] == "True");
    json!(format!("{}/{}", gates.iter().filter(open).count(), gates.len()))
}
