//! Manifests as people have them: what charts and clusters print, folders, and kinds that nobody schedules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use common::live::Live;
use common::{arg, dovetail, json, root, scratch, stderr, stdout, write};

const POOL: &str = "deploy/examples/spot.yaml";

/// Three pods, and beside them what a chart brings.
const SHOP: &str = r#"---
# Source: shop/templates/web.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  managedFields:
    - {apiVersion: apps/v1, fieldsType: FieldsV1, manager: helm, operation: Update, fieldsV1: {"f:spec": {"f:replicas": {}, ".": {}}}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web, resources: {requests: {cpu: "1", memory: 1Gi}}}]
---
# Source: shop/templates/nothing.yaml
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 3, maxReplicas: 30}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, endpoints: [{port: http}]}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: web, namespace: shop}
spec: {twice: the same name is nobody's business here}
---
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: api, namespace: shop}
spec:
  replicas: 2
  template: {spec: {containers: [{name: api, image: api}]}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: shop}
spec:
  schedule: "0 3 * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}
"#;

/// The binary with something on its standard input.
fn fed(args: &[&str], text: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_dovetail"))
        .args(args)
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The lines of standard error that begin so.
fn lines(output: &Output, beginning: &str) -> Vec<String> {
    stderr(output).lines().filter(|line| line.starts_with(beginning)).map(str::to_owned).collect()
}

#[test]
fn unplanned_kinds_of_a_chart_are_skipped_with_one_line() {
    let output = fed(&["plan", "--json", "-f", POOL, "-f", "-"], SHOP);
    assert_eq!(json(&output, 0)["scheduledPods"], 3);
    let said = ["skipped: 1 Ingress, 1 Rollout (argoproj.io/v1alpha1; its pods are not counted), \
         2 ServiceMonitor (monitoring.coreos.com/v1)"];
    assert_eq!(lines(&output, "skipped: "), said);
    let warned = [
        "warning: cronjob shop/nightly: its pods are not planned for",
        "warning: horizontalpodautoscaler shop/web: deployment web is planned with its replicas, 3, not with maxReplicas 30",
    ];
    for line in warned {
        assert!(stderr(&output).contains(line), "{line} is not in {}", stderr(&output));
    }
    let plain = dovetail(&["plan", "-f", POOL, "-f", "deploy/examples/inflate-10.yaml"]);
    assert!(lines(&plain, "skipped: ").is_empty(), "{}", stderr(&plain));
}

#[test]
fn slip_in_a_kind_that_would_change_the_plan_is_a_mistake() {
    for (from, to) in [
        ("kind: Deployment\nmetadata", "kind: Deploymnet\nmetadata"),
        ("apiVersion: apps/v1\nkind", "apiVersion: extensions/v1beta1\nkind"),
        ("apiVersion: apps/v1\nkind", "apiVersion: app/v1\nkind"),
        ("apiVersion: batch/v1\nkind", "apiVersion: batch/v1beta1\nkind"),
        ("kind: Rollout", "kind: a rollout"),
    ] {
        let text = SHOP.replace(from, to);
        assert_ne!(text, SHOP);
        let output = fed(&["plan", "-f", POOL, "-f", "-"], &text);
        assert_eq!(output.status.code(), Some(2), "{to}: {}", stderr(&output));
        assert_eq!(lines(&output, "-:").len(), 1, "{to}: {}", stderr(&output));
    }
}

#[test]
fn folder_stands_for_its_own_manifest_files_not_deeper_ones() {
    write("shop/10-web.yaml", SHOP);
    write("shop/20-nothing.yml", "# Source: shop/templates/nothing.yaml\n---\n");
    write(
        "shop/30-pod.json",
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}"#,
    );
    write("shop/NOTES.txt", "kind: [of text\n");
    write("shop/charts/broken.yaml", "kind: [\n");
    let folder = scratch("shop");
    let output = dovetail(&["plan", "--json", "-f", POOL, "-f", arg(&folder)]);
    assert_eq!(json(&output, 0)["scheduledPods"], 4);
    write("shop/15-slip.yaml", "kind: [\n");
    let output = dovetail(&["plan", "-f", POOL, "-f", arg(&folder)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("shop/15-slip.yaml:"), "{}", stderr(&output));
    let empty = write("empty/README.md", "no manifest\n").replace("/README.md", "");
    let output = dovetail(&["plan", "-f", &empty]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("holds no manifest"), "{}", stderr(&output));
}

#[test]
fn lists_of_one_kind_as_an_api_server_answers_them_are_unfolded() {
    let pod = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: a, image: a}}]}}}}"
        )
    };
    let text = format!(
        "apiVersion: v1\nkind: PodList\nmetadata: {{resourceVersion: \"7\"}}\nitems: [{}, {}]\n",
        pod("a"),
        pod("b")
    );
    let output = fed(&["plan", "--json", "-f", POOL, "-f", "-"], &text);
    assert_eq!(json(&output, 0)["scheduledPods"], 2);
}

#[test]
fn typed_list_items_need_no_kind_and_a_list_may_be_empty() {
    let item = "{metadata: {name: web}, spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}";
    let text = format!(
        "apiVersion: apps/v1\nkind: DeploymentList\nitems: [{item}]\n---\napiVersion: v1\nkind: ServiceList\nitems: null\n---\napiVersion: v1\nkind: List\nitems: []\n"
    );
    let output = fed(&["plan", "--json", "-f", POOL, "-f", "-"], &text);
    assert_eq!(json(&output, 0)["scheduledPods"], 2);
}

#[test]
fn whole_number_may_have_a_decimal_point_in_yaml_and_json() {
    let deployment = |replicas: &str, port: &str| {
        format!(
            r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{"name": "web"}}, "spec": {{"replicas": {replicas}, "selector": {{"matchLabels": {{"a": "b"}}}},
            "template": {{"metadata": {{"labels": {{"a": "b"}}}}, "spec": {{"containers": [{{"name": "a", "image": "a", "ports": [{{"containerPort": {port}}}], "resources": {{"requests": {{"cpu": 1.0, "memory": 1e9}}}}}}]}}}}}}}}"#
        )
    };
    let pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: other}\nspec: {weight: 10.0, limits: {cpu: 100.0}, template: {spec: {nodeClassRef: \
                {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5], minValues: 1.0}]}}}\n";
    for text in [deployment("5.0", "80.0"), format!("{pool}---\n{}\n", deployment("0.5e1", "8e1"))] {
        let output = fed(&["plan", "--json", "-f", POOL, "-f", "-"], &text);
        let answer = json(&output, 0);
        assert_eq!(answer["scheduledPods"], 5, "{text}");
        for claim in answer["nodeClaims"].as_array().unwrap() {
            let pods = claim["podNames"].as_array().unwrap().len();
            assert_eq!(claim["requests"]["cpu"], pods.to_string(), "{claim}");
        }
    }
    for (replicas, port, told) in [("5.5", "80", "spec.replicas: is 5.5"), ("5", "80.5", "containerPort: is 80.5")] {
        let output = fed(&["plan", "--json", "-f", POOL, "-f", "-"], &deployment(replicas, port));
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
}

#[test]
fn comment_only_files_are_skipped_and_empty_input_is_a_mistake() {
    let comments = write("comments/comments.yaml", "# nothing is enabled\n---\n# nor here\n");
    let shop = write("comments/shop.yaml", SHOP);
    let output = dovetail(&["plan", "--json", "-f", POOL, "-f", &comments, "-f", &shop]);
    assert_eq!(json(&output, 0)["scheduledPods"], 3);
    let output = fed(&["plan", "--json", "-f", POOL, "-f", "-"], "");
    assert_eq!(output.status.code(), Some(2), "a pipe that broke");
    assert!(stderr(&output).contains("-:1: holds no object"), "{}", stderr(&output));
    let output = dovetail(&["plan", "-f", &comments]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn helm_hook_pods_and_suspended_jobs_are_named_and_not_planned() {
    let pod = |name: &str, hook: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{helm.sh/hook: \"{hook}\"}}}}\nspec: {{containers: [{{name: a, image: a}}]}}\n"
        )
    };
    let suspended = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: paused}\nspec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}\n";
    let text = [
        pod("probe", "test"),
        pod("first", "pre-install,pre-upgrade"),
        pod("last", "post-delete, pre-rollback"),
        suspended.to_owned(),
    ]
    .concat();
    let output = fed(&["plan", "--json", "-f", POOL, "-f", "-"], &text);
    assert_eq!(json(&output, 0)["scheduledPods"], 1);
    let told = stderr(&output);
    for line in [
        "warning: pod probe: a Helm hook (test) that no install runs; its pods are not planned for",
        "warning: pod last: a Helm hook (post-delete, pre-rollback) that no install runs; its pods are not planned for",
        "warning: job paused: it is suspended; its pods are not planned for",
    ] {
        assert!(told.lines().any(|one| one == line), "{line}: {told}");
    }
}

/// A scenario with the shop in it, and a step.
fn scenario(name: &str, step: &str) -> String {
    write(&format!("{name}/shop.yaml"), SHOP);
    let pool = arg(&root().join(POOL)).to_owned();
    write(
        &format!("{name}/scenario.yaml"),
        &format!("apply: [{pool}, shop.yaml]\nreplicas: 3\nuntil: 10m\nsteps:\n  - {step}\n"),
    )
}

#[test]
fn scenario_makes_missing_namespaces_and_logs_steps_in_timeline() {
    let path = scenario("steps", "{at: 3m, scale: {kind: Deployment, namespace: shop, name: web, replicas: 5}}");
    let events = scratch("steps/events.jsonl");
    let output = dovetail(&["simulate", &path, "--json", "--events", arg(&events)]);
    let report = json(&output, 0);
    assert_eq!(report["pods"]["bound"], 5);
    assert_eq!(lines(&output, "skipped: ").len(), 1, "{}", stderr(&output));
    assert_eq!(lines(&output, "made namespaces"), ["made namespaces: shop"]);
    let idle = "stored, and nothing acts on it here: 1 CronJob";
    assert_eq!(lines(&output, "stored"), [idle]);
    let timeline = report["timeline"].as_array().unwrap();
    let steps: Vec<_> = timeline.iter().filter(|line| line["event"] == "step").collect();
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0]["actor"], "operator");
    assert_eq!(steps[0]["t"], 180.0);
    assert_eq!(steps[0]["what"], "scale Deployment shop/web to 5");
    let saved = scratch("steps/report.json");
    std::fs::write(&saved, &output.stdout).unwrap();
    let audit = common::python(&["tests/simulation/audit.py", arg(&events), arg(&saved)]);
    assert!(audit.status.success(), "{}{}", stdout(&audit), stderr(&audit));
    let told = stdout(&dovetail(&["simulate", &path]));
    assert!(told.contains("180.000s  -  operator        scale Deployment shop/web to 5"), "{told}");
}

#[test]
fn step_naming_an_impossible_object_is_found_before_the_run() {
    for (step, field, allowed) in [
        ("{at: 1m, kill: {replica: 7}}", "steps[0].kill.replica", "0 to 2, or leader"),
        ("{at: 1m, pause: {replica: 3, for: 1m}}", "steps[0].pause.replica", "0 to 2, or leader"),
        ("{at: 1m, partition: {replica: 4, for: 1m}}", "steps[0].partition.replica", "0 to 2, or leader"),
        ("{at: 1m, holdWrites: {replica: 9, by: 1s}}", "steps[0].holdWrites.replica", "0 to 2, or leader"),
        ("{at: 1m, scale: {kind: Deployment, name: web, replicas: 1}}", "steps[0].scale.name", "shop/web"),
        ("{at: 1m, scale: {kind: StatefulSet, name: web, replicas: 1}}", "steps[0].scale.name", "StatefulSet"),
        ("{at: 1m, delete: {kind: NodePool, name: defualt}}", "steps[0].delete.name", "default"),
        ("{at: 1m, delete: {kind: Node, name: node-1}}", "steps[0].delete.name", "ip-192-168-0-10.ec2.internal"),
        ("{at: 1m, delete: {kind: NodeClaim, name: other-x7k2p}}", "steps[0].delete.name", "NodeClaim"),
        ("{at: 1m, interrupt: {node: worker}}", "steps[0].interrupt.node", "ip-192-168-0-10.ec2.internal"),
        ("{at: 11m, interrupt: {spot: 5%}}", "steps[0].at", "`until`"),
        (
            "{at: 1m, delete: {kind: Deployment, namespace: shop, name: web}}\n  \
             - {at: 2m, scale: {kind: Deployment, namespace: shop, name: web, replicas: 2}}",
            "steps[1].scale.name",
            "Deployment",
        ),
    ] {
        let path = scenario("names", step);
        let output = dovetail(&["simulate", &path]);
        assert_eq!(output.status.code(), Some(2), "{step}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{step}: {}", stdout(&output));
        let line = if field.contains('1') { 6 } else { 5 };
        let told = lines(&output, &format!("{path}:{line}: {field}: "));
        assert!(told.len() == 1 && told[0].contains(allowed), "{step}: {}", stderr(&output));
    }
}

#[test]
fn step_may_name_a_controllers_pod_and_says_when_it_meets_none() {
    let path = scenario("late", "{at: 1m, delete: {kind: Pod, namespace: shop, name: web-0}}");
    let output = dovetail(&["simulate", &path, "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("{path}:5: steps[0]: Pod web-0: ")), "{}", stderr(&output));
}

#[test]
fn sandbox_makes_missing_namespaces_and_skips_unserved_kinds() {
    let shop = write("sandbox/shop.yaml", SHOP);
    let live = Live::start("files", &["-f", POOL, "-f", &shop, "--speed", "20"]);
    live.wait_for("initialized node");
    let text = std::fs::read_to_string(live.kubeconfig()).unwrap();
    let address = text.split_once("http://").unwrap().1.split('"').next().unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    let path = "/apis/apps/v1/namespaces/shop/deployments/web";
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
