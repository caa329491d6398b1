//! `plan` of a live cluster, and what the control plane then creates there: the same, byte for byte.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::live::LONGEST_WAIT;
use crate::common::{stderr, write};
use crate::stub::{SECRET, Sandbox};

const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

/// Asks the API server until it answers so.
fn until(sandbox: &Sandbox, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let found = sandbox.object(path);
        if fits(&found) {
            return found;
        }
        assert!(begun.elapsed() < LONGEST_WAIT, "{path}: {found:#}");
        thread::sleep(Duration::from_millis(200));
    }
}

fn deployment(name: &str, replicas: u32, cpu: &str, memory: &str, spec: &Value) -> Value {
    let mut template = json!({"metadata": {"labels": {"app": name}}, "spec": {"terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}});
    for (field, value) in spec.as_object().unwrap() {
        template["spec"][field] = value.clone();
    }
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}})
}

/// Pods of many shapes: large and small ones, with a zone, a spread, an architecture, apart from each other, a team of their own.
fn workloads() -> Vec<Value> {
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "spread"}}}]});
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}}]}}});
    vec![
        deployment("web", 40, "250m", "512Mi", &json!({})),
        deployment("memory", 6, "500m", "6Gi", &json!({})),
        deployment("zoned", 5, "1", "1Gi", &json!({"nodeSelector": {"topology.kubernetes.io/zone": "us-east-1b"}})),
        deployment("arm", 4, "900m", "2Gi", &json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}})),
        deployment("spread", 7, "1500m", "1Gi", &spread),
        deployment("apart", 3, "100m", "128Mi", &apart),
        deployment("team", 4, "2", "4Gi", &json!({"nodeSelector": {"team": "data"}})),
        deployment("demand", 3, "1", "2Gi", &json!({"nodeSelector": {"karpenter.sh/capacity-type": "on-demand"}})),
    ]
}

fn pools() -> Vec<Value> {
    let pool = |name: &str, more: Value| {
        let mut requirements = vec![
            json!({"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"], "minValues": 2}),
        ];
        requirements.extend(more.as_array().unwrap().clone());
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": requirements}}}})
    };
    let both = json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]});
    let arches = json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]});
    let mut data = pool("data", json!([both]));
    data["spec"]["template"]["metadata"] = json!({"labels": {"team": "data"}});
    vec![pool("default", json!([both, arches])), data]
}

fn apply(sandbox: &Sandbox, name: &str, objects: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let applied = sandbox.apply(&write(&format!("{name}.json"), &list.to_string()));
    assert!(applied.status.success(), "{}", stderr(&applied));
}

fn plan(sandbox: &Sandbox) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
    command.args(["plan", "--json", "--offers", "ec2", "--kubeconfig", &sandbox.kubeconfig]).env_clear();
    command.env("AWS_ENDPOINT_URL", format!("http://{}", sandbox.aws)).env("AWS_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").env("AWS_SECRET_ACCESS_KEY", SECRET).env("HOME", "/nonexistent");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The claims that a plan means, as text: pool, what is requested, requirements in their order, types in theirs.
fn planned(plan: &Value) -> Vec<String> {
    let of = |claim: &Value| {
        let own = claim["requirements"].as_array().unwrap().iter();
        // The node's own name is no requirement of a claim, its types are those of the options, and its class stands in nodeClassRef.
        let elsewhere =
            ["kubernetes.io/hostname", "node.kubernetes.io/instance-type", "karpenter.k8s.aws/ec2nodeclass"];
        let open = own.filter(|one| !elsewhere.contains(&one["key"].as_str().unwrap()));
        let mut requirements: Vec<Value> = open.cloned().collect();
        let mut types = json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": claim["instanceTypeOptions"]});
        let named = claim["requirements"].as_array().unwrap().iter().find(|one| one["key"] == types["key"]);
        if let Some(least) = named.map(|one| &one["minValues"]).filter(|least| !least.is_null()) {
            types["minValues"] = least.clone();
        }
        requirements.push(types);
        text(&claim["nodePool"], &claim["requests"], requirements)
    };
    sorted(plan["nodeClaims"].as_array().unwrap().iter().map(of))
}

/// The claims that are there, the same way.
fn created(claims: &Value) -> Vec<String> {
    let of = |claim: &Value| {
        let requirements = claim["spec"]["requirements"].as_array().unwrap().clone();
        text(
            &claim["metadata"]["labels"]["karpenter.sh/nodepool"],
            &claim["spec"]["resources"]["requests"],
            requirements,
        )
    };
    sorted(claims["items"].as_array().unwrap().iter().map(of))
}

fn text(pool: &Value, requests: &Value, mut requirements: Vec<Value>) -> String {
    requirements.sort_by_key(ToString::to_string);
    let requests: BTreeMap<String, Value> = serde_json::from_value(requests.clone()).unwrap();
    format!("{pool} {requests:?} {}", Value::from(requirements))
}

fn sorted(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = all.collect();
    all.sort();
    all
}

#[test]
fn plan_of_the_live_cluster_is_what_is_created_then() {
    let sandbox = Sandbox::start("planned", &["deploy/examples/spot.yaml"]);
    // It resolves the class, and is away while the pods come: nothing depends on how long a plan takes.
    let mut before = sandbox.run("planned-before").start();
    before.event("elected");
    apply(&sandbox, "planned-pools", &pools());
    let is_ready = |pool: &Value| {
        pool["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
    };
    until(&sandbox, "/apis/karpenter.sh/v1/nodepools", |all| {
        let pools = all["items"].as_array().unwrap();
        pools.len() == 2 && pools.iter().all(is_ready)
    });
    before.signal("-TERM");
    assert_eq!(before.ended().code, Some(0));
    apply(&sandbox, "planned-pods", &workloads());
    let waits = |pod: &Value| {
        pod["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(|one| one["reason"] == "Unschedulable"))
    };
    until(&sandbox, "/api/v1/namespaces/default/pods", |all| {
        let pods = all["items"].as_array().unwrap();
        pods.len() == 72 && pods.iter().all(waits)
    });
    let plan = plan(&sandbox);
    assert_eq!(
        (&plan["scheduledPods"], sandbox.object(CLAIMS)["items"].as_array().unwrap().len()),
        (&json!(72), 0),
        "{plan:#}"
    );
    let expected = planned(&plan);
    assert!(expected.len() >= 5 && expected.iter().any(|claim| claim.starts_with("\"data\"")), "{expected:#?}");
    let mut after = sandbox.run("planned-after").start();
    after.event("launched");
    let claims = until(&sandbox, CLAIMS, |all| all["items"].as_array().unwrap().len() >= expected.len());
    let found = created(&claims);
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}
