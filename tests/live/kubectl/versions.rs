//! kubectl of the oldest version that is looked after, three before today's.

use super::common::live::{Live, built};
use super::common::{stderr, stdout, write};
use super::{SPOT, deployment, has, heading};

#[test]
fn an_older_kubectl_is_at_home_as_well() {
    let live = Live::start("kubectl-1.33", SPOT).with_kubectl(built("kubectl-1.33"));
    live.wait_for("elected");
    let version = live.ok(&["version", "--output=json"]);
    assert!(version.contains("v1.33.13"), "{version}");
    assert!(has(&live.ok(&["api-resources"]), &["nodepools", "karpenter.sh/v1", "false", "NodePool"]));
    let (first, second) = (deployment("web", 2, "nginx:1"), deployment("web", 2, "nginx:2"));
    let (first, second) = (write("older-1.yaml", &first), write("older-2.yaml", &second));
    assert_eq!(live.ok(&["apply", "-f", &first]), "deployment.apps/web created\n");
    assert_eq!(live.ok(&["apply", "-f", &first]), "deployment.apps/web unchanged\n");
    assert!(live.ok(&["rollout", "status", "deployment/web", "--timeout=120s"]).contains("successfully rolled out"));
    let differs = live.kubectl(&["diff", "-f", &second]);
    assert_eq!(differs.status.code(), Some(1), "{}", stderr(&differs));
    assert!(has(&stdout(&differs), &["+", "image:", "nginx:2"]), "{}", stdout(&differs));
    assert_eq!(
        live.ok(&["apply", "--server-side", "--force-conflicts", "-f", &second]),
        "deployment.apps/web serverside-applied\n"
    );
    live.ok(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    let wide = live.ok(&["get", "nodes", "-o", "wide"]);
    assert!(
        heading(&wide).starts_with("NAME STATUS ROLES AGE VERSION INTERNAL-IP") && has(&wide, &["Ready", "<none>"]),
        "{wide}"
    );
    assert!(live.ok(&["get", "nodepool", "default", "-o", "yaml"]).contains("consolidateAfter: 10s"));
    assert!(live.ok(&["describe", "deployment", "web"]).contains("2 desired | 2 updated | 2 total | 2 available"));
    let typo = write(
        "older-typo.yaml",
        &deployment("other", 0, "nginx:1").replace("  replicas:", "  replica: 1\n  replicas:"),
    );
    let refused = live.refused(&["apply", "-f", &typo]);
    assert!(refused.contains("strict decoding error: unknown field \"spec.replica\""), "{refused}");
    let node = live.ok(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.nodeName}"]);
    assert_eq!(live.ok(&["cordon", &node]), format!("node/{node} cordoned\n"));
    assert!(live.ok(&["drain", &node, "--ignore-daemonsets", "--timeout=120s"]).contains("drained"));
    live.ok(&["logs", "-n", "kube-system", "-l", "karpenter=controller"]);
    live.ok(&["create", "deployment", "made", "--image=nginx:1"]);
    live.ok(&["scale", "deployment", "made", "web", "--replicas=0"]);
    live.ok(&["delete", "deployment", "made", "web"]);
}

#[test]
fn openapi_of_version_two_is_read_as_protobuf() {
    let live = Live::start("kubectl-openapi-2", SPOT).with_kubectl(built("kubectl-1.33"));
    live.wait_for("elected");
    // This form of explain reads nothing else.
    let pod = live.ok(&["explain", "pod.spec.topologySpreadConstraints.maxSkew", "--output=plaintext-openapiv2"]);
    assert!(has(&pod, &["KIND:", "Pod"]) && has(&pod, &["FIELD:", "maxSkew", "<integer>"]), "{pod}");
    let pool = live.ok(&["explain", "nodepool.spec.disruption", "--output=plaintext-openapiv2"]);
    assert!(has(&pool, &["RESOURCE:", "disruption", "<Object>"]) && pool.contains("consolidationPolicy"), "{pool}");
    let all = live.ok(&["explain", "deployment", "--recursive", "--output=plaintext-openapiv2"]);
    assert!(has(&all, &["containerPort", "<integer>"]), "{all}");
}
