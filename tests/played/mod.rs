//! A scenario of a test's own: so many pods, each on a node of its own, and what happens to them.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;

use crate::common::{arg, dovetail, python, root, scratch, stderr, stdout, write};

/// A scenario's run: its report and its events.
#[derive(Clone)]
pub struct Played {
    pub name: String,
    pub report: Value,
    pub events: Vec<Value>,
}

/// Pools and a workload of `pods` pods that each need a node of their own.
pub fn manifests(pods: u32) -> String {
    format!(
        "apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: default}}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{{alias: al2023@latest}}]
  subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]
  securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  disruption: {{consolidationPolicy: WhenEmpty, consolidateAfter: Never}}
  template:
    spec:
      expireAfter: Never
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements:
        - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
        - {{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m6i.large]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: default}}
spec:
  replicas: {pods}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 1
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: web}}}}}}
      containers: [{{name: main, image: pause, resources: {{requests: {{cpu: 500m, memory: 256Mi}}}}}}]
"
    )
}

/// Plays `scenario` (its end: `steps`, `faults`, `until`) over that workload.
#[track_caller]
pub fn play(name: &str, pods: u32, scenario: &str) -> Played {
    play_over(name, &manifests(pods), scenario)
}

/// Plays it over manifests of the test's own.
#[track_caller]
pub fn play_over(name: &str, manifests: &str, scenario: &str) -> Played {
    write(&format!("{name}/workload.yaml"), manifests);
    // A region of few instance types, so that a replica starts quickly.
    let text = format!("region: ca-west-1\nseed: 1\napply: [workload.yaml]\n{scenario}");
    play_file(name, &write(&format!("{name}/scenario.yaml"), &text))
}

/// Plays a scenario file; its report is checked by the audit.
#[track_caller]
pub fn play_file(name: &str, path: &str) -> Played {
    play_with(name, path, &[], &[0, 1])
}

/// Plays a kept scenario by its name: it comes out well, and no invariant is violated. Tests that ask for the same run share
/// one.
#[track_caller]
pub fn play_kept(name: &str, more: &[&str]) -> Played {
    static RUNS: Mutex<BTreeMap<String, Arc<OnceLock<Played>>>> = Mutex::new(BTreeMap::new());
    let scenario = root().join(format!("tests/simulation/scenarios/{name}.yaml"));
    let name = format!("{name}{}", more.join(""));
    let run = RUNS.lock().unwrap_or_else(PoisonError::into_inner).entry(name.clone()).or_default().clone();
    let played = run.get_or_init(|| play_with(&name, arg(&scenario), more, &[0])).clone();
    played.violates_nothing();
    played
}

/// Plays a scenario file with more arguments; it ends with one of these statuses, and its report is checked by the audit.
#[track_caller]
pub fn play_with(name: &str, path: &str, more: &[&str], statuses: &[i32]) -> Played {
    let (events, saved) = (scratch(&format!("{name}.jsonl")), scratch(&format!("{name}.report.json")));
    let output = dovetail(&[&["simulate", path, "--json", "--events", arg(&events)], more].concat());
    let status = output.status.code();
    assert!(status.is_some_and(|status| statuses.contains(&status)), "{name}: {status:?}, {}", stderr(&output));
    std::fs::write(&saved, &output.stdout).unwrap();
    let audit = python(&["tests/simulation/audit.py", arg(&events), arg(&saved)]);
    assert!(audit.status.success(), "{name}: {}{}", stdout(&audit), stderr(&audit));
    let lines = std::fs::read_to_string(&events).unwrap();
    let events = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Played { name: name.into(), report: serde_json::from_slice(&output.stdout).unwrap(), events }
}

/// Time of a line or an event, in seconds.
pub fn at(line: &Value) -> f64 {
    line["t"].as_f64().unwrap()
}

impl Played {
    /// The lines of the timeline of that event.
    pub fn log_events(&self, event: &str) -> Vec<&Value> {
        self.report["timeline"].as_array().unwrap().iter().filter(|line| line["event"] == event).collect()
    }

    /// Their times.
    pub fn times(&self, event: &str) -> Vec<f64> {
        self.log_events(event).into_iter().map(at).collect()
    }

    /// Events of a kind with these fields.
    pub fn seen(&self, kind: &str, fields: &[(&str, &str)]) -> Vec<&Value> {
        let has = |event: &Value| fields.iter().all(|(name, value)| event[*name] == *value);
        self.events.iter().filter(|event| event["kind"] == kind && has(event)).collect()
    }

    /// A count of the report.
    pub fn number(&self, field: &str) -> u64 {
        self.report[field].as_u64().unwrap()
    }

    /// Deletions of NodeClaims by name: when each was first accepted.
    pub fn removed(&self) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        for event in self.seen("api", &[("resource", "nodeclaims"), ("verb", "delete")]) {
            if event["code"] == 200 {
                all.entry(event["name"].as_str().unwrap().to_owned()).or_insert(at(event));
            }
        }
        all
    }

    /// Times at which the collection said that it stands still for that reason, in seconds.
    pub fn braked(&self, reason: &str) -> Vec<f64> {
        let lines = self.log_events("collection_braked").into_iter().filter(|line| line["reason"] == reason);
        lines.map(at).collect()
    }

    /// Kubernetes events of that reason that were written.
    pub fn events_of(&self, reason: &str) -> usize {
        let written =
            |event: &&Value| event["kind"] == "api" && event["resource"] == "events" && event["verb"] == "create";
        self.events.iter().filter(written).filter(|event| event.to_string().contains(reason)).count()
    }

    /// Calls to the region of that action by replicas, carried out.
    pub fn calls(&self, action: &str) -> Vec<&Value> {
        let of = |event: &&Value| event["kind"] == "aws" && event["action"] == action && event["code"] == "OK";
        self.events.iter().filter(of).filter(|event| !event["replica"].is_null()).collect()
    }

    /// Number of calls by which replicas ended instances.
    pub fn terminated_by_replicas(&self) -> usize {
        self.calls("TerminateInstances").len()
    }

    /// Nothing is pending and no invariant is violated.
    pub fn came_out_well(&self) {
        let pending = &self.report["pods"]["pending"];
        assert!(pending.as_object().unwrap().is_empty(), "{}: {pending}", self.name);
        self.violates_nothing();
    }

    /// No invariant is violated.
    pub fn violates_nothing(&self) {
        let violations = &self.report["invariants"]["violations"];
        assert!(violations.as_array().unwrap().is_empty(), "{}: {violations}", self.name);
    }
}
