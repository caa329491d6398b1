//! Today's kubectl on the sandbox: each command's output is what its users know.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::common;
#[path = "kubectl/alpha.rs"]
mod alpha;
#[path = "kubectl/leaving.rs"]
mod leaving;
#[path = "kubectl/older.rs"]
mod older;
#[path = "kubectl/versions.rs"]
mod versions;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use common::live::Live;
use common::{stderr, stdout, write};

/// Time runs fast: nodes boot in seconds. What is shown does not depend on it.
const FAST: &[&str] = &["--speed", "20"];
const SPOT: &[&str] = &["--speed", "20", "-f", "deploy/examples/spot.yaml"];

/// True if a line has these words in this order.
fn has(text: &str, words: &[&str]) -> bool {
    text.lines().any(|line| {
        let mut there = line.split_whitespace();
        words.iter().all(|word| there.any(|found| found == *word))
    })
}

fn heading(text: &str) -> String {
    text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A Deployment of pods that ask for little.
fn deployment(name: &str, replicas: u32, image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  selector: {{matchLabels: {{app: {name}}}}}\n  \
         template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      terminationGracePeriodSeconds: 0\n      containers:\n      - name: main\n        \
         image: {image}\n        resources: {{requests: {{cpu: 100m, memory: 64Mi}}}}\n"
    )
}

#[test]
fn what_is_served_is_discovered_and_explained() {
    let live = Live::start("kubectl-discovery", SPOT);
    live.wait_for("elected");
    let resources = live.ok(&["api-resources"]);
    assert_eq!(heading(&resources), "NAME SHORTNAMES APIVERSION NAMESPACED KIND");
    assert!(has(&resources, &["pods", "po", "v1", "true", "Pod"]), "{resources}");
    assert!(has(&resources, &["nodepools", "karpenter.sh/v1", "false", "NodePool"]), "{resources}");
    assert!(has(&live.ok(&["api-versions"]), &["karpenter.k8s.aws/v1"]));
    let version = live.ok(&["version", "--output=json"]);
    assert!(version.contains("v1.36.3") && version.contains("dovetail"), "{version}");
    assert!(live.ok(&["get", "--raw", "/"]).contains("/apis/karpenter.sh/v1"));
    assert_eq!(live.ok(&["get", "--raw", "/readyz"]), "ok");
    let pod = live.ok(&["explain", "pod.spec.topologySpreadConstraints.maxSkew"]);
    assert!(has(&pod, &["KIND:", "Pod"]) && has(&pod, &["FIELD:", "maxSkew", "<integer>"]), "{pod}");
    let pool = live.ok(&["explain", "nodepool.spec.disruption"]);
    assert!(has(&pool, &["GROUP:", "karpenter.sh"]) && pool.contains("consolidationPolicy"), "{pool}");
    let all = live.ok(&["explain", "deployment", "--recursive"]);
    assert!(all.contains("containerPort"), "{all}");
    assert!(live.refused(&["explain", "pod.spec.nonsense"]).contains("field \"nonsense\" does not exist"));
}

#[test]
fn kubectl_can_i_and_whoami_are_answered_and_top_is_refused() {
    let live = Live::start("kubectl-auth", FAST);
    live.wait_for("kubeconfig");
    assert_eq!(live.ok(&["auth", "can-i", "delete", "nodes"]).trim(), "yes");
    assert!(live.ok(&["auth", "can-i", "--list"]).contains("*.*"));
    assert!(live.ok(&["auth", "whoami"]).contains("system:masters"));
    assert!(live.refused(&["top", "nodes"]).contains("Metrics API not available"));
    assert!(live.refused(&["exec", "-n", "kube-system", "dovetail-0", "--", "true"]).contains("runs no containers"));
}

#[test]
fn nodes_pods_and_claims_are_shown_in_their_tables() {
    let live = Live::start("kubectl-tables", SPOT);
    let manifest = write("tables.yaml", &deployment("web", 3, "nginx:1"));
    assert_eq!(live.ok(&["apply", "-f", &manifest]), "deployment.apps/web created\n");
    live.ok(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    let pods = live.ok(&["get", "pods"]);
    assert_eq!(heading(&pods), "NAME READY STATUS RESTARTS AGE");
    assert!(has(&pods, &["1/1", "Running", "0"]) && pods.lines().count() == 4, "{pods}");
    let wide = live.ok(&["get", "pods", "-o", "wide"]);
    assert_eq!(heading(&wide), "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES");
    assert!(has(&wide, &["1/1", "Running", "<none>", "<none>"]), "{wide}");
    let nodes = live.ok(&["get", "nodes", "-o", "wide"]);
    assert!(heading(&nodes).starts_with("NAME STATUS ROLES AGE VERSION INTERNAL-IP EXTERNAL-IP OS-IMAGE"), "{nodes}");
    assert!(has(&nodes, &["Ready", "<none>"]), "{nodes}");
    let claims = live.ok(&["get", "nodeclaims"]);
    assert_eq!(heading(&claims), "NAME TYPE CAPACITY ZONE NODE READY AGE");
    assert!(has(&claims, &["True"]), "{claims}");
    let pools = live.ok(&["get", "nodepools"]);
    assert_eq!(heading(&pools), "NAME NODECLASS NODES READY AGE");
    assert!(has(&pools, &["default", "default", "True"]), "{pools}");
    assert!(has(&live.ok(&["get", "ec2nodeclasses"]), &["default", "True"]));
    let labels = live.ok(&["get", "nodes", "-L", "karpenter.sh/nodepool", "--no-headers"]);
    assert!(has(&labels, &["Ready", "default"]), "{labels}");
    let all = live.ok(&["get", "all"]);
    for kind in ["pod/web-", "deployment.apps/web", "replicaset.apps/web-", "service/kubernetes"] {
        assert!(all.contains(kind), "{kind}: {all}");
    }
    let deployments = live.ok(&["get", "deployments", "-o", "wide"]);
    assert_eq!(heading(&deployments), "NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR");
    assert!(has(&deployments, &["web", "3/3", "3", "3", "main", "nginx:1", "app=web"]), "{deployments}");
    let namespaces = live.ok(&["get", "namespaces", "--sort-by=.metadata.name", "-o", "name"]);
    assert_eq!(namespaces.lines().next(), Some("namespace/default"));
    let running =
        live.ok(&["get", "pods", "-A", "-l", "app=web", "--field-selector=status.phase=Running", "-o", "name"]);
    assert_eq!(running.lines().count(), 3, "{running}");
    let yaml = live.ok(&["get", "deployment", "web", "-o", "yaml"]);
    assert!(yaml.contains("readyReplicas: 3") && !yaml.contains("managedFields"), "{yaml}");
    assert!(
        live.ok(&["get", "deployment", "web", "-o", "yaml", "--show-managed-fields"])
            .contains("kubectl-client-side-apply")
    );
    assert_eq!(live.ok(&["get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}"]), "3");
    let none = live.kubectl(&["get", "pvc,pv"]);
    assert!(none.status.success() && stderr(&none).contains("No resources found"), "{}", stderr(&none));
    assert!(live.refused(&["get", "pod", "nobody"]).contains("pods \"nobody\" not found"));
}

#[test]
fn a_watch_shows_each_change_as_a_row() {
    let live = Live::start("kubectl-watch", FAST);
    live.wait_for("kubeconfig");
    let watch = live.command(&["get", "configmaps", "--watch", "--output-watch-events", "-n", "default"]);
    let mut watch = { watch }.stdout(Stdio::piped()).spawn().expect("kubectl starts");
    let mut rows = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
    live.ok(&["create", "configmap", "settings", "--from-literal=a=1"]);
    assert!(rows.any(|row| has(&row, &["ADDED", "settings", "1"])));
    live.ok(&["patch", "configmap", "settings", "-p", "{\"data\": {\"b\": \"2\"}}"]);
    assert!(rows.any(|row| has(&row, &["MODIFIED", "settings", "2"])));
    live.ok(&["delete", "configmap", "settings"]);
    assert!(rows.any(|row| has(&row, &["DELETED", "settings"])));
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn what_is_applied_again_is_merged_and_diffed() {
    let live = Live::start("kubectl-apply", FAST);
    live.wait_for("kubeconfig");
    let first = write("apply-1.yaml", &deployment("web", 0, "nginx:1"));
    let second = write("apply-2.yaml", &deployment("web", 0, "nginx:2"));
    assert_eq!(live.ok(&["apply", "-f", &first]), "deployment.apps/web created\n");
    assert_eq!(live.ok(&["apply", "-f", &first]), "deployment.apps/web unchanged\n");
    live.ok(&["set", "env", "deployment/web", "SET=elsewhere"]);
    let differs = live.kubectl(&["diff", "-f", &second]);
    assert_eq!(differs.status.code(), Some(1), "{}", stderr(&differs));
    assert!(has(&stdout(&differs), &["+", "image:", "nginx:2"]), "{}", stdout(&differs));
    assert_eq!(
        live.ok(&["apply", "-f", &second, "--dry-run=server"]),
        "deployment.apps/web configured (server dry run)\n"
    );
    assert_eq!(live.ok(&["get", "deployment", "web", "-o", "jsonpath={..image}"]), "nginx:1");
    assert_eq!(live.ok(&["apply", "-f", &second]), "deployment.apps/web configured\n");
    let container = live.ok(&["get", "deployment", "web", "-o", "jsonpath={..containers[0]}"]);
    assert!(
        container.contains("nginx:2") && container.contains("elsewhere"),
        "merged by the container's name: {container}"
    );
    assert!(live.refused(&["create", "-f", &first]).contains("deployments.apps \"web\" already exists"));
}

#[test]
fn server_side_apply_tells_whose_field_it_is() {
    let live = Live::start("kubectl-server-side", FAST);
    live.wait_for("kubeconfig");
    let mine =
        write("mine.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: mine, b: mine}\n");
    let theirs = write("theirs.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {a: theirs}\n");
    assert_eq!(
        live.ok(&["apply", "--server-side", "--field-manager=me", "-f", &mine]),
        "configmap/shared serverside-applied\n"
    );
    let conflict = live.refused(&["apply", "--server-side", "--field-manager=them", "-f", &theirs]);
    assert!(conflict.contains("Apply failed with 1 conflict: conflict with \"me\": .data.a"), "{conflict}");
    live.ok(&["apply", "--server-side", "--field-manager=them", "--force-conflicts", "-f", &theirs]);
    assert_eq!(live.ok(&["get", "configmap", "shared", "-o", "jsonpath={.data.a} {.data.b}"]), "theirs mine");
    let managers = live.ok(&[
        "get",
        "configmap",
        "shared",
        "-o",
        "jsonpath={.metadata.managedFields[*].manager}",
        "--show-managed-fields",
    ]);
    assert_eq!(managers, "me them");
    let gone = write("mine-2.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {}\n");
    live.ok(&["apply", "--server-side", "--field-manager=me", "-f", &gone]);
    assert_eq!(live.ok(&["get", "configmap", "shared", "-o", "jsonpath={.data}"]), "{\"a\":\"theirs\"}");
}

#[test]
fn a_field_that_nobody_knows_is_refused_warned_of_or_dropped() {
    let live = Live::start("kubectl-validation", SPOT);
    live.wait_for("elected");
    let typo = write(
        "typo.yaml",
        &deployment("web", 0, "nginx:1").replace("        image:", "        imag: x\n        image:"),
    );
    let refused = live.refused(&["apply", "-f", &typo]);
    assert!(
        refused.contains("cannot be handled as a Deployment: strict decoding error: unknown field \"spec.template.spec.containers[0].imag\""),
        "{refused}"
    );
    let warned = live.kubectl(&["apply", "-f", &typo, "--validate=warn"]);
    assert!(
        warned.status.success()
            && stderr(&warned).contains("Warning: unknown field \"spec.template.spec.containers[0].imag\""),
        "{}",
        stderr(&warned)
    );
    let dropped = live.kubectl(&["apply", "-f", &typo, "--validate=ignore"]);
    assert!(dropped.status.success() && !stderr(&dropped).contains("unknown field"), "{}", stderr(&dropped));
    let pool = std::fs::read_to_string(common::root().join("deploy/examples/spot.yaml")).unwrap();
    let of_pool = |from: &str, to: &str, file: &str| {
        write(file, &pool.replacen(from, to, 1).replace("name: default\nspec:", "name: other\nspec:"))
    };
    let unknown = of_pool("  disruption:", "  disrupton:", "pool-typo.yaml");
    let refused = live.refused(&["apply", "-f", &unknown]);
    assert!(refused.contains("NodePool in version \"v1\" cannot be handled as a NodePool: strict decoding error: unknown field \"spec.disrupton\""), "{refused}");
    let wrong = of_pool("consolidateAfter: 10s", "consolidateAfter: soon", "pool-wrong.yaml");
    let refused = live.refused(&["apply", "-f", &wrong]);
    assert!(refused.contains("The NodePool \"other\" is invalid: spec.disruption.consolidateAfter"), "{refused}");
    let operator = of_pool("operator: In", "operator: Is", "pool-operator.yaml");
    let refused = live.refused(&["apply", "-f", &operator]);
    assert!(refused.contains("spec.template.spec.requirements[0].operator: Unsupported value"), "{refused}");
    let text = write("replicas.yaml", &deployment("web", 0, "nginx:1").replace("replicas: 0", "replicas: many"));
    assert!(live.refused(&["apply", "-f", &text]).contains("spec.replicas"));
}

#[test]
fn workloads_are_created_scaled_rolled_out_and_deleted() {
    let live = Live::start("kubectl-workloads", SPOT);
    live.wait_for("elected");
    assert_eq!(
        live.ok(&["create", "deployment", "web", "--image=nginx:1", "--replicas=2"]),
        "deployment.apps/web created\n"
    );
    let ready = live.ok(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    assert!(ready.contains("successfully rolled out"), "{ready}");
    assert_eq!(live.ok(&["scale", "deployment/web", "--replicas=3"]), "deployment.apps/web scaled\n");
    assert_eq!(
        live.ok(&["scale", "deployment/web", "--current-replicas=3", "--replicas=4"]),
        "deployment.apps/web scaled\n"
    );
    assert!(
        live.refused(&["scale", "deployment/web", "--current-replicas=9", "--replicas=1"])
            .contains("Expected replicas to be 9, was 4")
    );
    live.ok(&["wait", "--for=jsonpath={.status.readyReplicas}=4", "deployment/web", "--timeout=120s"]);
    live.ok(&["wait", "--for=condition=Available", "deployment/web", "--timeout=120s"]);
    live.ok(&["set", "image", "deployment/web", "nginx=nginx:2"]);
    live.ok(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    assert!(has(&live.ok(&["rollout", "history", "deployment/web"]), &["2", "<none>"]));
    live.ok(&["rollout", "undo", "deployment/web"]);
    live.ok(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    assert_eq!(live.ok(&["get", "deployment", "web", "-o", "jsonpath={..image}"]), "nginx:1");
    live.ok(&["rollout", "restart", "deployment/web"]);
    live.ok(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    assert_eq!(live.ok(&["expose", "deployment", "web", "--port=80"]), "service/web exposed\n");
    assert!(has(&live.ok(&["get", "service", "web"]), &["web", "ClusterIP", "80/TCP"]));
    assert_eq!(live.ok(&["label", "deployment", "web", "team=a"]), "deployment.apps/web labeled\n");
    assert_eq!(live.ok(&["annotate", "deployment", "web", "note=b"]), "deployment.apps/web annotated\n");
    live.ok(&[
        "patch",
        "deployment",
        "web",
        "--type=json",
        "-p",
        "[{\"op\": \"replace\", \"path\": \"/spec/replicas\", \"value\": 1}]",
    ]);
    live.ok(&["patch", "deployment", "web", "--type=merge", "-p", "{\"metadata\": {\"labels\": {\"team\": null}}}"]);
    assert_eq!(live.ok(&["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}{.metadata.labels.team}"]), "1");
    assert_eq!(
        live.ok(&["delete", "deployment", "web", "--cascade=orphan"]),
        "deployment.apps \"web\" deleted from default namespace\n"
    );
    assert!(live.ok(&["get", "replicasets", "-o", "name"]).contains("replicaset.apps/web-"));
    live.ok(&["delete", "replicasets", "--all", "--cascade=foreground"]);
    live.ok(&["wait", "--for=delete", "pod", "-l", "app=web", "--timeout=120s"]);
    assert_eq!(live.ok(&["get", "pods", "-o", "name"]), "");
    live.ok(&["create", "job", "once", "--image=busybox"]);
    live.ok(&["wait", "--for=condition=Complete", "job/once", "--timeout=120s"]);
    assert!(has(&live.ok(&["get", "jobs"]), &["once", "Complete", "1/1"]));
    live.ok(&["run", "alone", "--image=nginx:1", "--restart=Never"]);
    live.ok(&["delete", "pod", "alone", "--now"]);
    live.ok(&["create", "namespace", "room"]);
    live.ok(&["create", "secret", "generic", "key", "--from-literal=a=b", "-n", "room"]);
    live.ok(&["delete", "namespace", "room"]);
    assert!(live.refused(&["get", "secret", "key", "-n", "room"]).contains("not found"));
}

#[test]
fn a_node_is_described_cordoned_and_drained() {
    let live = Live::start("kubectl-nodes", SPOT);
    let manifest = write("nodes.yaml", &deployment("web", 2, "nginx:1"));
    live.ok(&["apply", "-f", &manifest]);
    live.ok(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    let node = live.ok(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.nodeName}"]);
    let described = live.ok(&["describe", "node", &node]);
    for part in
        ["karpenter.sh/nodepool=default", "Allocatable:", "Non-terminated Pods:", "Allocated resources:", "ProviderID:"]
    {
        assert!(described.contains(part), "{part}: {described}");
    }
    let pod = live.ok(&["get", "pods", "-l", "app=web", "-o", "name"]).lines().next().unwrap().to_owned();
    let described = live.ok(&["describe", &pod]);
    for part in ["Controlled By:  ReplicaSet/web-", "Scheduled", "Successfully assigned default/web-"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    assert!(live.ok(&["describe", "deployment", "web"]).contains("2 desired | 2 updated | 2 total | 2 available"));
    assert!(live.ok(&["describe", "nodepool", "default"]).contains("Consolidation Policy"));
    let events = live.ok(&["get", "events", "--field-selector=involvedObject.kind=Pod"]);
    assert_eq!(heading(&events), "LAST SEEN TYPE REASON OBJECT MESSAGE");
    assert!(live.ok(&["events", "--for", &pod]).contains("Scheduled"));
    // Before the drain: a node that is empty goes soon.
    assert_eq!(live.ok(&["taint", "nodes", &node, "gone=soon:NoSchedule"]), format!("node/{node} tainted\n"));
    assert_eq!(live.ok(&["taint", "nodes", &node, "gone-"]), format!("node/{node} untainted\n"));
    assert_eq!(live.ok(&["cordon", &node]), format!("node/{node} cordoned\n"));
    assert!(has(&live.ok(&["get", "node", &node]), &["Ready,SchedulingDisabled"]));
    assert_eq!(live.ok(&["uncordon", &node]), format!("node/{node} uncordoned\n"));
    let drained = live.ok(&["drain", &node, "--ignore-daemonsets", "--timeout=120s"]);
    assert!(
        drained.contains("evicting pod default/web-") && drained.contains(&format!("node/{node} drained")),
        "{drained}"
    );
    live.ok(&["wait", "--for=jsonpath={.status.readyReplicas}=2", "deployment/web", "--timeout=120s"]);
    let left =
        live.ok(&["get", "pods", "-l", "app=web", "--field-selector", &format!("spec.nodeName={node}"), "-o", "name"]);
    assert_eq!(left, "");
}

#[test]
fn volumes_classes_and_claims_are_shown() {
    let live = Live::start("kubectl-volumes", SPOT);
    let manifest = write(
        "volumes.yaml",
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: gp3, annotations: {storageclass.kubernetes.io/is-default-class: \"true\"}}\n\
         provisioner: ebs.csi.aws.com\nvolumeBindingMode: WaitForFirstConsumer\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n\
         spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 4Gi}}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: db}\n\
         spec:\n  containers: [{name: db, image: db:1, volumeMounts: [{name: data, mountPath: /data}]}]\n  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n",
    );
    live.ok(&["apply", "-f", &manifest]);
    live.ok(&["wait", "--for=condition=Ready", "pod/db", "--timeout=120s"]);
    let shown = live.ok(&["get", "sc,pvc,pv"]);
    assert!(
        has(
            &shown,
            &[
                "storageclass.storage.k8s.io/gp3",
                "(default)",
                "ebs.csi.aws.com",
                "Delete",
                "WaitForFirstConsumer",
                "false"
            ]
        ),
        "{shown}"
    );
    assert!(has(&shown, &["persistentvolumeclaim/data", "Bound", "4Gi", "RWO", "gp3", "<unset>"]), "{shown}");
    assert!(has(&shown, &["4Gi", "RWO", "Delete", "Bound", "default/data", "gp3"]), "{shown}");
    assert!(live.ok(&["describe", "pvc", "data"]).contains("Used By:       db"));
}

#[test]
fn the_control_plane_s_pods_have_its_story_as_their_log() {
    let live = Live::start("kubectl-logs", SPOT);
    let leader = live.wait_for("elected by lease");
    let leads = if leader.contains("  0  ") { "dovetail-0" } else { "dovetail-1" };
    let pods = live.ok(&["get", "pods", "-n", "kube-system", "-l", "karpenter=controller"]);
    assert!(has(&pods, &["dovetail-0", "1/1", "Running"]) && has(&pods, &["dovetail-1", "1/1", "Running"]), "{pods}");
    let log = live.ok(&["logs", "-n", "kube-system", leads]);
    assert!(log.contains("elected by lease"), "{log}");
    let tail = live.ok(&["logs", "-n", "kube-system", leads, "--tail=1", "--timestamps"]);
    assert_eq!(tail.lines().count(), 1, "{tail}");
    assert!(
        live.ok(&["logs", "-n", "kube-system", "-l", "karpenter=controller", "--prefix"])
            .contains("[pod/dovetail-1/controller]")
    );
    let follow = live.command(&["logs", "-f", "-n", "kube-system", leads, "--tail=0"]);
    let mut follow = { follow }.stdout(Stdio::piped()).spawn().expect("kubectl starts");
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map_while(Result::ok);
    live.ok(&["apply", "-f", &write("logs.yaml", &deployment("web", 2, "nginx:1"))]);
    assert!(lines.any(|line| line.contains("batched 2 pods")));
    follow.kill().unwrap();
    follow.wait().unwrap();
    assert!(
        live.refused(&["logs", "-n", "kube-system", leads, "-c", "other"]).contains("container other is not valid")
    );
    assert!(
        live.refused(&["logs", "-n", "kube-system", leads, "--previous"]).contains("previous terminated container")
    );
    live.ok(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    let pod = live.ok(&["get", "pods", "-l", "app=web", "-o", "name"]).lines().next().unwrap().to_owned();
    assert_eq!(live.ok(&["logs", &pod]), "");
}

#[test]
fn deleted_leader_pod_restarts_its_replica_and_the_other_leads() {
    let live = Live::start("kubectl-takeover", SPOT);
    let first = live.wait_for("elected by lease");
    let (leads, other) = if first.contains("  0  ") { ("dovetail-0", "  1  ") } else { ("dovetail-1", "  0  ") };
    live.ok(&["delete", "pod", "-n", "kube-system", leads]);
    live.wait_for(&format!("{other}leader          elected"));
    // The other may lead before the restarted one is there again.
    for what in ["create", "condition=Ready"] {
        let (what, pod) = (format!("--for={what}"), format!("pod/{leads}"));
        live.ok(&["wait", &what, "-n", "kube-system", &pod, "--timeout=60s"]);
    }
    live.ok(&["apply", "-f", &write("takeover.yaml", &deployment("web", 2, "nginx:1"))]);
    live.ok(&["rollout", "status", "deployment/web", "--timeout=120s"]);
}
