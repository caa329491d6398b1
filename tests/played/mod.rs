//! A scenario of a test's own: so many pods, each on a node of its own, and what happens to them.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;

use crate::common::{arg, dovetail, python, scratch, stderr, stdout, write};

/// What a run came to.
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
    let (events, saved) = (scratch(&format!("{name}.jsonl")), scratch(&format!("{name}.report.json")));
    let output = dovetail(&["simulate", path, "--json", "--events", arg(&events)]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{name}: {}", stderr(&output));
    std::fs::write(&saved, &output.stdout).unwrap();
    let audit = python(&["tests/simulation/audit.py", arg(&events), arg(&saved)]);
    assert!(audit.status.success(), "{name}: {}{}", stdout(&audit), stderr(&audit));
    let lines = std::fs::read_to_string(&events).unwrap();
    let events = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Played { name: name.into(), report: serde_json::from_slice(&output.stdout).unwrap(), events }
}

impl Played {
    /// The lines of the timeline of that event.
    pub fn story(&self, event: &str) -> Vec<&Value> {
        self.report["timeline"].as_array().unwrap().iter().filter(|line| line["event"] == event).collect()
    }

    /// Their times.
    pub fn times(&self, event: &str) -> Vec<f64> {
        self.story(event).iter().map(|line| line["t"].as_f64().unwrap()).collect()
    }

    /// When it was said that the collection stands still for that reason.
    pub fn braked(&self, reason: &str) -> Vec<f64> {
        let lines = self.story("collection_braked").into_iter().filter(|line| line["reason"] == reason);
        lines.map(|line| line["t"].as_f64().unwrap()).collect()
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

    /// How many instances replicas have ended.
    pub fn terminated_by_replicas(&self) -> usize {
        self.calls("TerminateInstances").len()
    }

    /// Nothing is pending and no invariant is violated.
    pub fn came_out_well(&self) {
        let (pending, violations) = (&self.report["pods"]["pending"], &self.report["invariants"]["violations"]);
        assert!(pending.as_object().unwrap().is_empty(), "{}: {pending}", self.name);
        assert!(violations.as_array().unwrap().is_empty(), "{}: {violations}", self.name);
    }
}
