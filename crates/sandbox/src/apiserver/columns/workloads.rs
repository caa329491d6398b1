//! Columns of kinds that make pods: Deployments and the like, Jobs, and the budgets that protect them.
use super::words::{age, containers, name, number, selector, template, text, written_or};
use super::{Printer, age as ages, since};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) fn printer(group: &str, kind: &str) -> Option<Printer> {
    Some(match (group, kind) {
        ("apps", "Deployment") => DEPLOYMENT,
        ("apps", "ReplicaSet") | ("", "ReplicationController") => REPLICA_SET,
        ("apps", "StatefulSet") => STATEFUL_SET,
        ("apps", "DaemonSet") => DAEMON_SET,
        ("apps", "ControllerRevision") => REVISION,
        ("batch", "Job") => JOB,
        ("batch", "CronJob") => CRON_JOB,
        ("policy", "PodDisruptionBudget") => BUDGET,
        _ => return None,
    })
}

const DEPLOYMENT: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Ready", "string", false),
        ("Up-to-date", "string", false),
        ("Available", "string", false),
        ("Age", "string", false),
        ("Containers", "string", true),
        ("Images", "string", true),
        ("Selector", "string", true),
    ],
    cells: |object, now| {
        let ready = format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
        let mut cells = vec![
            name(object),
            json!(ready),
            json!(number(object, "/status/updatedReplicas").to_string()),
            json!(number(object, "/status/availableReplicas").to_string()),
            age(object, now),
        ];
        cells.extend(template(object));
        cells
    },
};

const REPLICA_SET: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Desired", "integer", false),
        ("Current", "integer", false),
        ("Ready", "integer", false),
        ("Age", "string", false),
        ("Containers", "string", true),
        ("Images", "string", true),
        ("Selector", "string", true),
    ],
    cells: |object, now| {
        let mut cells = vec![name(object)];
        for pointer in ["/spec/replicas", "/status/replicas", "/status/readyReplicas"] {
            cells.push(json!(number(object, pointer)));
        }
        cells.push(age(object, now));
        cells.extend(template(object));
        cells
    },
};

const STATEFUL_SET: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Ready", "string", false),
        ("Age", "string", false),
        ("Containers", "string", true),
        ("Images", "string", true),
    ],
    cells: |object, now| {
        let ready = format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
        let mut cells = vec![name(object), json!(ready), age(object, now)];
        cells.extend(containers(&object["spec"]["template"]["spec"]));
        cells
    },
};

const DAEMON_SET: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Desired", "integer", false),
        ("Current", "integer", false),
        ("Ready", "integer", false),
        ("Up-to-date", "integer", false),
        ("Available", "integer", false),
        ("Node Selector", "string", false),
        ("Age", "string", false),
        ("Containers", "string", true),
        ("Images", "string", true),
        ("Selector", "string", true),
    ],
    cells: |object, now| {
        let mut cells = vec![name(object)];
        for field in [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ] {
            cells.push(json!(number(object, &format!("/status/{field}"))));
        }
        cells.push(json!(selector(&object["spec"]["template"]["spec"]["nodeSelector"])));
        cells.push(age(object, now));
        cells.extend(template(object));
        cells
    },
};

const REVISION: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Controller", "string", false),
        ("Revision", "string", false),
        ("Age", "string", false),
    ],
    cells: |object, now| {
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let owner = owners.filter(|o| o["controller"] == true).find_map(|o| {
            let group = o["apiVersion"].as_str()?.split_once('/').map_or("", |(group, _)| group);
            let kind = o["kind"].as_str()?.to_lowercase();
            let kind = if group.is_empty() { kind } else { format!("{kind}.{group}") };
            Some(format!("{kind}/{}", o["name"].as_str()?))
        });
        let owner = owner.unwrap_or_else(|| "<none>".to_owned());
        vec![name(object), json!(owner), json!(object["revision"].to_string()), age(object, now)]
    },
};

const JOB: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Status", "string", false),
        ("Completions", "string", false),
        ("Duration", "string", false),
        ("Age", "string", false),
        ("Containers", "string", true),
        ("Images", "string", true),
        ("Selector", "string", true),
    ],
    cells: |object, now| {
        let done = number(object, "/status/succeeded");
        let parallel = number(object, "/spec/parallelism");
        let completions = match object["spec"]["completions"].as_i64() {
            Some(all) => format!("{done}/{all}"),
            None if parallel > 1 => format!("{done}/1 of {parallel}"),
            None => format!("{done}/1"),
        };
        let mut cells =
            vec![name(object), json!(job_status(object)), json!(completions), job_time(object, now), age(object, now)];
        cells.extend(template(object));
        cells
    },
};

fn job_status(job: &Value) -> &'static str {
    let is = |kind: &str| super::words::condition(job, kind) == Some("True");
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if job["metadata"]["deletionTimestamp"].is_string() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn job_time(job: &Value, now: Timestamp) -> Value {
    let time = |pointer: &str| text(job, pointer).and_then(|t| t.parse::<Timestamp>().ok());
    match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => json!(""),
        (Some(start), end) => json!(ages::human(end.unwrap_or(now).duration_since(start))),
    }
}

const CRON_JOB: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Schedule", "string", false),
        ("Timezone", "string", false),
        ("Suspend", "boolean", false),
        ("Active", "integer", false),
        ("Last Schedule", "string", false),
        ("Age", "string", false),
        ("Containers", "string", true),
        ("Images", "string", true),
        ("Selector", "string", true),
    ],
    cells: |object, now| {
        let last = text(object, "/status/lastScheduleTime").map_or("<none>".to_owned(), |time| since(time, now));
        let job = &object["spec"]["jobTemplate"]["spec"];
        let mut cells = vec![
            name(object),
            object["spec"]["schedule"].clone(),
            written_or(object, "/spec/timeZone", "<none>"),
            json!(object["spec"]["suspend"] == true),
            json!(object["status"]["active"].as_array().map_or(0, Vec::len)),
            json!(last),
            age(object, now),
        ];
        cells.extend(containers(&job["template"]["spec"]));
        cells.push(json!(selector(&job["selector"])));
        cells
    },
};

const BUDGET: Printer = Printer {
    columns: &[
        ("Name", "string", false),
        ("Min Available", "string", false),
        ("Max Unavailable", "string", false),
        ("Allowed Disruptions", "integer", false),
        ("Age", "string", false),
    ],
    cells: |object, now| {
        vec![
            name(object),
            written_or(object, "/spec/minAvailable", "N/A"),
            written_or(object, "/spec/maxUnavailable", "N/A"),
            json!(number(object, "/status/disruptionsAllowed")),
            age(object, now),
        ]
    },
};
