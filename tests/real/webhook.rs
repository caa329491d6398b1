//! v1beta1 on a live cluster: what an older Karpenter has stored, what kubectl applies, and a webhook that comes and goes.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;

use super::common::real::{POOL, Real};
use super::common::{root, write};

const CRD: &str = "nodepools.karpenter.sh";
const BETA: &str = "nodepools.v1beta1.karpenter.sh";
const BETA_CLASS: &str = "ec2nodeclasses.v1beta1.karpenter.k8s.aws";

/// The pool on moto's machines, as it was written for v1beta1, and its class: two files.
fn beta() -> [String; 2] {
    let text = std::fs::read_to_string(root().join(POOL)).unwrap();
    let text = text
        .replace("karpenter.sh/v1\n", "karpenter.sh/v1beta1\n")
        .replace("karpenter.k8s.aws/v1\n", "karpenter.k8s.aws/v1beta1\n")
        .replace("        group: karpenter.k8s.aws\n        kind: EC2NodeClass\n", "");
    assert!(text.contains("nodeClassRef:\n        name: default"));
    let (pool, class) = text.split_once("\n---\n").unwrap();
    [write("real-beta-pool.yaml", pool), write("real-beta-class.yaml", class)]
}

/// As an older Karpenter leaves a definition: v1beta1 is served, and what is stored.
fn stores(real: &Real, version: &str) {
    let beta = version == "v1beta1";
    let patch = format!(
        r#"[{{"op": "replace", "path": "/spec/versions/0/storage", "value": {}}},
            {{"op": "replace", "path": "/spec/versions/1/storage", "value": {beta}}},
            {{"op": "replace", "path": "/spec/versions/1/served", "value": {beta}}}]"#,
        !beta
    );
    real.ok(&["patch", "crd", CRD, "--type=json", "-p", &patch]);
}

fn get(real: &Real, what: &str) -> Value {
    serde_json::from_str(&real.ok(&["get", what, "default", "-o", "json"])).unwrap()
}

/// True if the API server converts, and trusts the webhook.
fn converts(real: &Real) -> bool {
    [BETA, BETA_CLASS].iter().all(|kind| real.kubectl(&["get", kind]).status.success())
}

#[test]
fn v1beta1_is_served_through_certificate_and_replica_changes() {
    let mut real = Real::start("webhook", &[]);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let webhook = format!(
        "WEBHOOK_ENABLED=true WEBHOOK_PORT={port} WEBHOOK_URL=https://127.0.0.1:{port}/conversion/karpenter.sh"
    );
    let [pool, class] = beta();
    stores(&real, "v1beta1");
    real.until("v1beta1 is served", |real| real.kubectl(&["apply", "-f", &pool]).status.success());
    stores(&real, "v1");
    let stored = ["get", "crd", CRD, "-o", "jsonpath={.status.storedVersions}"];
    assert_eq!(real.ok(&stored), r#"["v1","v1beta1"]"#);

    real.order(&format!("start dovetail-0 {webhook}"));
    real.until("v1beta1 is converted", converts);
    real.until("nothing is stored as v1beta1", |real| real.ok(&stored) == r#"["v1"]"#);
    real.ok(&["apply", "-f", &class]);
    let version = |real: &Real, kind: &str| get(real, kind)["metadata"]["generation"].clone();
    let before = (version(&real, "nodepool"), version(&real, "ec2nodeclass"));
    let said = real.ok(&["apply", "-f", &pool, "-f", &class]);
    assert_eq!(said.matches("unchanged").count(), 2, "{said}");
    let server = ["apply", "--server-side", "--force-conflicts", "-f", &pool, "-f", &class];
    real.ok(&server);
    real.ok(&server);
    assert_eq!((version(&real, "nodepool"), version(&real, "ec2nodeclass")), before);

    real.ok(&["wait", "nodepool/default", "--for=condition=Ready", "--timeout=120s"]);
    real.ok(&["create", "deployment", "web", "--image=web:1", "--replicas=3"]);
    real.ok(&["set", "resources", "deployment/web", "--requests=cpu=1,memory=1Gi"]);
    real.ok(&["rollout", "status", "deployment/web", "--timeout=600s"]);
    let claims = real.ok(&["get", "nodeclaims.v1beta1.karpenter.sh", "-o", "jsonpath={.items[*].spec.nodeClassRef}"]);
    assert!(claims.contains("karpenter.k8s.aws/v1beta1"), "{claims}");
    real.ok(&["scale", "deployment/web", "--replicas=0"]);
    real.until_nothing_is_left();
    // Its status has been written by now, whose fields both versions have to declare.
    let version = |real: &Real| get(real, "nodepool")["metadata"]["resourceVersion"].clone();
    real.ok(&server);
    real.until("applied once more by the server it stays as it is", |real| {
        let before = version(real);
        real.ok(&server);
        version(real) == before
    });

    // Its time is over: another is made, trusted and served.
    let secret = ["-n", "kube-system", "get", "secret", "dovetail-webhook", "-o", r"jsonpath={.data.tls\.crt}"];
    let first = real.ok(&secret);
    let ended = r#"{"stringData": {"until": "2020-01-01T00:00:00Z"}}"#;
    real.ok(&["-n", "kube-system", "patch", "secret", "dovetail-webhook", "--type=merge", "-p", ended]);
    real.until("another certificate is made", |real| real.ok(&secret) != first);
    real.until("v1beta1 is converted again", converts);

    // Nobody converts: v1 goes on, and nothing of it is lost.
    real.order("kill dovetail-0");
    real.ok(&["label", "nodepool", "default", "kept=yes"]);
    real.ok(&["patch", "nodepool", "default", "--type=merge", "-p", r#"{"spec": {"weight": 7}}"#]);
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(get(&real, "nodepool")["spec"]["weight"], 7);
    real.order(&format!("start dovetail-0 {webhook}"));
    real.until("v1beta1 is converted once more", converts);
    let now = get(&real, BETA);
    assert_eq!((&now["metadata"]["labels"]["kept"], &now["spec"]["weight"]), (&"yes".into(), &7.into()));
    assert_eq!(now["spec"]["template"]["spec"]["nodeClassRef"], serde_json::json!({"name": "default"}));
    real.nothing_was_forbidden();
}
