//! Nodes that go: because nothing is left on them, or because somebody deletes them, their claim or their pool.

use super::common::live::Live;
use super::common::{stderr, write};
use super::{SPOT, deployment, has};

/// A sandbox with so many pods of `web`, all ready.
fn with_pods(name: &str, count: u32) -> Live {
    let live = Live::start(name, SPOT);
    live.ok(&["apply", "-f", &write(&format!("{name}.yaml"), &deployment("web", count, "nginx:1"))]);
    live.ok(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    live
}

fn names(live: &Live, kind: &str) -> Vec<String> {
    live.ok(&["get", kind, "-o", "name"]).lines().map(str::to_owned).collect()
}

/// The instances that EC2 has, or is about to have.
fn instances(live: &Live) -> u64 {
    let state: serde_json::Value = serde_json::from_str(&live.ok(&["get", "--raw", "/sandbox/state"])).expect("JSON");
    state["instances"].as_u64().expect("a count")
}

fn nothing_is_left(live: &Live) {
    let left = live.kubectl(&["get", "nodes,nodeclaims"]);
    assert!(left.status.success() && stderr(&left).contains("No resources found"), "{left:?}");
    assert_eq!(instances(live), 0);
}

#[test]
fn what_is_scaled_to_nothing_leaves_no_node_behind() {
    let live = with_pods("kubectl-scale-away", 3);
    assert!(instances(&live) > 0 && !names(&live, "nodes").is_empty());
    assert_eq!(live.ok(&["scale", "deployment", "web", "--replicas=0"]), "deployment.apps/web scaled\n");
    let gone = live.ok(&["wait", "--for=delete", "node", "--all", "--timeout=120s"]);
    assert!(gone.lines().all(|line| line.starts_with("node/") && line.ends_with("condition met")), "{gone}");
    nothing_is_left(&live);
    assert!(has(&live.ok(&["get", "nodepools"]), &["default", "default", "0", "True"]));
}

#[test]
fn deleted_node_keeps_its_pods_as_long_as_their_pdb_says() {
    let live = with_pods("kubectl-delete-node", 3);
    let node = live.ok(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.nodeName}"]);
    live.ok(&["create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=3"]);
    live.ok(&["wait", "--for=jsonpath={.status.expectedPods}=3", "pdb/web", "--timeout=60s"]);
    assert!(live.ok(&["delete", "node", &node, "--wait=false"]).starts_with(&format!("node \"{node}\" deleted")));
    let taint = "--for=jsonpath={.spec.taints[?(@.key==\"karpenter.sh/disrupted\")].effect}=NoSchedule";
    live.ok(&["wait", taint, "node", &node, "--timeout=60s"]);
    let shown = live.ok(&["get", "node", &node, "-o", "jsonpath={.metadata.deletionTimestamp} {.metadata.finalizers}"]);
    assert!(shown.contains("T") && shown.contains("karpenter.sh/termination"), "{shown}");
    assert_eq!(live.ok(&["get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}"]), "3");
    live.ok(&["delete", "poddisruptionbudget", "web"]);
    live.ok(&["wait", "--for=delete", "node", &node, "--timeout=120s"]);
    live.ok(&["wait", "--for=jsonpath={.status.readyReplicas}=3", "deployment/web", "--timeout=120s"]);
    let on = live.ok(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}"]);
    assert!(!on.contains(&node), "{on}");
    assert!(live.refused(&["get", "node", &node]).contains("not found"));
}

#[test]
fn deleted_nodeclaim_takes_its_node_and_instance_with_it() {
    let live = with_pods("kubectl-delete-claim", 3);
    let claim = names(&live, "nodeclaims").remove(0);
    let node = live.ok(&["get", &claim, "-o", "jsonpath={.status.nodeName}"]);
    let (_, name) = claim.split_once('/').expect("kind and name");
    assert_eq!(live.ok(&["delete", "nodeclaim", name]), format!("nodeclaim.karpenter.sh \"{name}\" deleted\n"));
    assert!(live.refused(&["get", "node", &node]).contains("not found"));
    live.ok(&["wait", "--for=jsonpath={.status.readyReplicas}=3", "deployment/web", "--timeout=120s"]);
    assert_eq!(names(&live, "nodeclaims").len() as u64, instances(&live));
}

#[test]
fn deleted_nodepool_takes_claims_nodes_and_instances_with_it() {
    let live = with_pods("kubectl-delete-pool", 3);
    assert_eq!(live.ok(&["delete", "nodepool", "default"]), "nodepool.karpenter.sh \"default\" deleted\n");
    live.ok(&["wait", "--for=delete", "nodeclaim", "--all", "--timeout=120s"]);
    live.ok(&["wait", "--for=delete", "node", "--all", "--timeout=120s"]);
    nothing_is_left(&live);
    // Nobody makes nodes for them any more.
    live.ok(&["wait", "--for=jsonpath={.status.phase}=Pending", "pod", "-l", "app=web", "--timeout=60s"]);
    assert_eq!(live.ok(&["delete", "ec2nodeclass", "default"]), "ec2nodeclass.karpenter.k8s.aws \"default\" deleted\n");
}
