//! `explain` on a cluster: it names what is in the way, and after the suggested change the pod runs or the node goes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::{common, stub};

use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::live::{LONGEST_WAIT, Live};
use common::{stderr, stdout, write};
use serde_json::{Value, json};
use stub::{api_server, list, not_found, reply, status};

const FAST: &[&str] = &["--speed", "10", "--replicas", "1", "-f", "deploy/examples/spot.yaml"];

fn explain(kubeconfig: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
    command.arg("explain").args(args).args(["--kubeconfig", kubeconfig, "--offers", "shipped"]);
    command.env_clear().env("HOME", "/nonexistent").env("AWS_REGION", "us-east-1").output().unwrap()
}

/// The answer as JSON.
fn answer(live: &Live, args: &[&str]) -> Value {
    let output = explain(live.kubeconfig(), &[args, &["--json"]].concat());
    assert!(output.status.success(), "{args:?}: {}{}", stdout(&output), stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Asks until the answer fits.
fn answer_that(live: &Live, args: &[&str], fits: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let found = answer(live, args);
        if fits(&found) {
            return found;
        }
        assert!(begun.elapsed() < LONGEST_WAIT, "{args:?}: {found:#}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// A pod that asks for a CPU unless `spec` says otherwise.
fn pod(name: &str, cpu: &str, spec: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]}});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// A pool like the example's, of that name, changed.
fn pool(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "10s"},
        "template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [{"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]}]}}}});
    change(&mut pool);
    pool
}

fn apply(live: &Live, name: &str, objects: &[Value]) {
    let file =
        write(&format!("{name}.json"), &json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
    live.ok(&["apply", "-f", &file]);
}

/// The answer about a pod that gets no node, by that rule of that pool.
fn in_the_way(live: &Live, name: &str, rule: &str) -> Value {
    // A pool that is new is not Ready for a moment, and kube-scheduler takes its time.
    let found = answer_that(live, &["pod", name], |found| {
        found["pod"]["verdict"]["kind"] == "unschedulable" && found["pod"]["pools"][0]["rule"] == rule
    });
    found["pod"].clone()
}

fn change<'a>(answer: &'a Value, kind: &str) -> &'a Value {
    let all = answer["changes"].as_array().unwrap().iter();
    let found = all.filter_map(|one| one["changes"].as_array()).find(|all| all.len() == 1 && all[0]["kind"] == kind);
    &found.unwrap_or_else(|| panic!("no {kind}: {answer:#}"))[0]
}

fn runs(live: &Live, name: &str) {
    live.ok(&["wait", "--for=condition=Ready", &format!("pod/{name}"), "--timeout=120s"]);
}

/// The pod is made anew, as changed.
fn again(live: &Live, name: &str, changed: Value) {
    live.ok(&["delete", "pod", name, "--wait=true"]);
    apply(live, name, &[changed]);
    runs(live, name);
}

#[test]
fn pods_run_after_the_change_that_is_suggested_to_them() {
    let live = Live::start("explain-pods", FAST);
    live.wait_for("elected");
    apply(&live, "big", &[pod("big", "400", &json!({}))]);
    let big = in_the_way(&live, "big", "resources");
    assert!(big["sentence"].as_str().unwrap().contains("needs 400 CPU"), "{big:#}");
    let lowered = change(&big, "lowerRequest")["to"].as_i64().unwrap();
    again(&live, "big", pod("big", &format!("{lowered}m"), &json!({})));

    let alone =
        json!([{"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "nobody"}}}]);
    let affinity = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": alone}}});
    apply(&live, "lonely", &[pod("lonely", "1", &affinity)]);
    let lonely = in_the_way(&live, "lonely", "topology");
    assert_eq!(change(&lonely, "dropPodAffinity")["topologyKey"], "topology.kubernetes.io/zone");
    again(&live, "lonely", pod("lonely", "1", &json!({})));

    let text = stdout(&explain(live.kubeconfig(), &["pod/lonely"]));
    assert!(text.starts_with("Pod default/lonely has a node\n") && text.contains("it is on node"), "{text}");
}

#[test]
fn pools_launch_after_the_change_that_is_suggested_for_them() {
    let live = Live::start("explain-pools", FAST);
    live.wait_for("elected");
    let of = |pool: &str| json!({"nodeSelector": {"karpenter.sh/nodepool": pool}});
    apply(
        &live,
        "pools",
        &[
            pool("tainted", |pool| {
                pool["spec"]["template"]["spec"]["taints"] =
                    json!([{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]);
            }),
            pool("full", |pool| pool["spec"]["limits"] = json!({"cpu": "500m"})),
            pool("spot-only", |pool| {
                let spot = json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]});
                pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(spot);
            }),
        ],
    );
    apply(
        &live,
        "pods",
        &[
            pod("taint", "1", &of("tainted")),
            pod("limit", "1", &of("full")),
            pod(
                "spot",
                "1",
                &json!({"nodeSelector": {"karpenter.sh/nodepool": "spot-only", "karpenter.sh/capacity-type": "on-demand"}}),
            ),
        ],
    );
    let taint = in_the_way(&live, "taint", "taints");
    let toleration = change(&taint, "tolerate");
    let mut tolerating = of("tainted");
    tolerating["tolerations"] = json!([{"key": toleration["key"], "operator": "Equal", "value": toleration["value"], "effect": toleration["effect"]}]);
    let limit = in_the_way(&live, "limit", "limits");
    let raised = change(&limit, "raiseLimit");
    assert_eq!((&raised["pool"], &raised["resource"]), (&json!("full"), &json!("cpu")));
    answer_that(&live, &["nodepool", "full"], |found| found["nodepool"]["launchesNothing"]["rule"] == "limits");
    let to = format!("{}m", raised["to"]);
    live.ok(&[
        "patch",
        "nodepool",
        "full",
        "--type=merge",
        "-p",
        &json!({"spec": {"limits": {"cpu": to}}}).to_string(),
    ]);
    let spot = in_the_way(&live, "spot", "requirements");
    let sentences = spot["changes"].to_string();
    assert!(sentences.contains("remove karpenter.sh/capacity-type from the pod's nodeSelector"), "{spot:#}");
    again(&live, "taint", pod("taint", "1", &tolerating));
    runs(&live, "limit");
    again(&live, "spot", pod("spot", "1", &of("spot-only")));
}

#[test]
fn volume_in_another_zone_is_named_and_reached_by_the_change() {
    let live = Live::start("explain-volume", FAST);
    live.wait_for("elected");
    let place = json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1b"]}]});
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "", "claimRef": {"name": "data", "namespace": "default"},
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [place]}}}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "data", "resources": {"requests": {"storage": "1Gi"}}}});
    let zoned = pool("zoned", |pool| {
        let zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]});
        pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(zone);
    });
    let of = json!({"nodeSelector": {"karpenter.sh/nodepool": "zoned"},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
    apply(&live, "volume", &[volume, claim, zoned, pod("db", "1", &of)]);
    let db = in_the_way(&live, "db", "volumes");
    let allowed = change(&db, "allowInPool");
    assert_eq!((&allowed["pool"], &allowed["values"]), (&json!("zoned"), &json!(["us-east-1b"])));
    let opened = pool("zoned", |pool| {
        let zone =
            json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a", "us-east-1b"]});
        pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(zone);
    });
    apply(&live, "opened", &[opened]);
    runs(&live, "db");
}

#[test]
fn pdb_that_blocks_a_drain_is_named_and_the_node_goes_after() {
    let live = Live::start("explain-drain", FAST);
    live.wait_for("elected");
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}});
    apply(&live, "kept", &[budget, pod("kept", "1", &json!({}))]);
    let waits = answer_that(&live, &["pod", "kept"], |found| {
        !found["pod"]["waitsFor"].is_null() || found["pod"]["verdict"]["kind"] == "bound"
    });
    if waits["pod"]["verdict"]["kind"] != "bound" {
        let claim = waits["pod"]["waitsFor"]["claim"].as_str().unwrap();
        assert!(claim.starts_with("default-") && !waits["pod"]["waitsFor"]["since"].is_null(), "{waits:#}");
    }
    runs(&live, "kept");
    let bound = answer(&live, &["pod", "kept"]);
    let node = bound["pod"]["verdict"]["node"].as_str().unwrap().to_owned();
    let found = answer(&live, &["node", &node]);
    let own = &found["node"];
    assert!(own["price"].as_f64().unwrap() > 0.0 && own["traceId"].as_str().unwrap().len() == 32, "{own:#}");
    assert_eq!(own["drain"][0]["why"], "pod default/kept is kept by pdb default/keep", "{own:#}");
    let methods: Vec<&str> =
        own["methods"].as_array().unwrap().iter().filter_map(|one| one["method"].as_str()).collect();
    assert_eq!(methods, ["drift", "expiry", "emptiness", "consolidation"]);
    let claim = own["claim"].as_str().unwrap();
    assert_eq!(answer(&live, &["nodeclaim", claim])["nodeclaim"]["stage"], "initialized");
    live.ok(&["delete", "node", &node, "--wait=false"]);
    let going = answer_that(&live, &["node", &node], |found| !found["node"]["going"].is_null());
    assert!(going["node"]["drain"][0]["remedy"].as_str().unwrap().contains("lower the pdb"), "{going:#}");
    live.ok(&["delete", "pdb", "keep"]);
    live.ok(&["wait", "--for=delete", &format!("node/{node}"), "--timeout=120s"]);
    let gone = explain(live.kubeconfig(), &["node", &node]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(stderr(&gone).contains(&format!("there is no node {node}")), "{}", stderr(&gone));
}

fn plan(live: &Live, args: &[&str]) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
    command.args(["plan", "--json", "--kubeconfig", live.kubeconfig(), "--offers", "shipped"]).args(args);
    let output = command.env_clear().env("HOME", "/nonexistent").env("AWS_REGION", "us-east-1").output().unwrap();
    let read = serde_json::from_slice(&output.stdout);
    (output.status.code(), read.unwrap_or_else(|_| panic!("{args:?}: {}", stderr(&output))))
}

#[test]
fn plan_of_the_live_cluster_answers_what_ifs_and_writes_nothing() {
    let live = Live::start("plan-live", &[FAST, &["--feature-gates", "CapacityBuffer=true"]].concat());
    live.wait_for("elected");
    let container =
        json!({"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}}});
    let settled = |pool: &mut Value| {
        pool["spec"]["disruption"] = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"});
        let both = json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]});
        pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap().push(both);
    };
    // Nothing of it changes by itself.
    apply(&live, "settled", &[pool("default", settled)]);
    apply(&live, "web", std::slice::from_ref(&web));
    live.ok(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    let before = live.ok(&["get", "nodeclaims,nodepools,pods", "-o", "name"]);
    let (code, quiet) = plan(&live, &[]);
    assert_eq!((code, &quiet["pods"]), (Some(0), &json!(0)), "{quiet:#}");
    assert!(
        quiet["live"]["hourlyPrice"].as_f64().unwrap() > 0.0 && quiet["live"]["nodes"].as_u64().unwrap() > 0,
        "{quiet:#}"
    );
    let (code, many) = plan(&live, &["--scale", "deployment/web=200"]);
    assert_eq!((code, &many["pods"]), (Some(0), &json!(198)), "{many:#}");
    let price = |plan: &Value| plan["totalCheapestHourlyPrice"].as_f64().unwrap();
    let (_, dear) = plan(&live, &["--scale", "deployment/web=200", "--without-spot"]);
    assert!(price(&many) > 0.0 && price(&dear) > price(&many), "{} {}", price(&dear), price(&many));
    let claims = dear["nodeClaims"].as_array().unwrap();
    assert!(claims.iter().all(|claim| claim["cheapestCapacityType"] == "on-demand"), "{dear:#}");
    let small = write(
        "small.json",
        &pool("default", |pool| {
            settled(pool);
            pool["spec"]["limits"] = json!({"cpu": "4"});
        })
        .to_string(),
    );
    let (code, full) = plan(&live, &["--scale", "deployment/web=200", "--node-pool", &small]);
    assert_eq!(code, Some(1));
    assert_eq!(full["reasons"][0]["reason"]["pools"][0]["rule"], "limits", "{full:#}");
    let more = write("more.json", &pod("more", "1", &json!({})).to_string());
    assert_eq!(plan(&live, &["--with", &more]).1["pods"], 1);
    assert_eq!(live.ok(&["get", "nodeclaims,nodepools,pods", "-o", "name"]), before, "something was written");
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "room"}, "template": web["spec"]["template"]});
    let buffer = json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "room"},
        "spec": {"podTemplateRef": {"name": "room"}, "replicas": 2}});
    let lost = json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "lost"},
        "spec": {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "nobody"}, "percentage": 10}});
    apply(&live, "buffers", &[template, buffer, lost]);
    let (_, held) = plan(&live, &["--feature-gates", "CapacityBuffer=true"]);
    let rooms = held["capacityBuffers"]["buffers"].as_array().unwrap();
    let room = |name: &str| rooms.iter().find(|one| one["buffer"] == format!("default/{name}")).unwrap();
    assert_eq!(room("room")["pods"], 2, "{held:#}");
    assert!(room("lost")["missing"].as_str().unwrap().contains("nobody"), "{held:#}");
}

fn on(name: &str, server: SocketAddr) -> String {
    stub::kubeconfig(name, &format!("http://{server}"))
}

fn ready_pool() -> Value {
    let mut ready = pool("default", |_| ());
    ready["metadata"]["uid"] = json!("u");
    ready["status"] = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    ready
}

#[test]
fn half_the_permissions_show_the_rest_and_name_what_is_missing() {
    let server = api_server(|path| match path.split('?').next().unwrap_or_default() {
        "/apis/karpenter.sh/v1/nodepools" => Some(list(&[ready_pool()])),
        "/api/v1/pods" | "/api/v1/nodes" => Some(status(403, "Forbidden", "not you")),
        path if path.contains("/configmaps/") || path.contains("/leases") => Some(status(403, "Forbidden", "not you")),
        path if path.starts_with("/apis/karpenter") && path.ends_with('s') => Some(list(&[])),
        _ => None,
    });
    let output = explain(&on("explain-half", server), &["nodepool", "default", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["nodepool"]["pool"], "default");
    let missing = found["missing"].to_string();
    for part in ["pods", "nodes", "allow the verb list on pods", "settings of the control plane"] {
        assert!(missing.contains(part), "{part}: {missing}");
    }
    let text = stdout(&explain(&on("explain-half", server), &["nodepool", "default"]));
    assert!(text.contains("Not read, so the answer is without it:"), "{text}");
    let node = explain(&on("explain-half", server), &["node", "n"]);
    assert!(stderr(&node).contains("nodes could not be read"), "{}", stderr(&node));
}

#[test]
fn missing_crds_and_refused_credentials_have_their_remedies() {
    let bare = api_server(|path| path.starts_with("/apis/karpenter").then(not_found));
    let output = explain(&on("explain-bare", bare), &["nodepool", "default"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    assert!(stderr(&output).contains("dovetail crds | kubectl apply -f -"), "{}", stderr(&output));
    let strict = api_server(|path| path.starts_with("/version").then(|| status(401, "Unauthorized", "Unauthorized")));
    let output = explain(&on("explain-strict", strict), &["nodepool", "default"]);
    assert!(stderr(&output).contains("does not accept the credentials"), "{}", stderr(&output));
    assert!(!stderr(&output).contains(stub::TOKEN), "a secret is written");
}

#[test]
fn five_thousand_nodes_are_read_by_pages() {
    let (pages, largest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, seen) = (pages.clone(), largest.clone());
    let server = api_server(move |path| {
        let (place, query) = path.split_once('?').unwrap_or((path, ""));
        let number = |name: &str| {
            let value = query.split('&').find_map(|part| part.strip_prefix(name));
            value.and_then(|text| text.parse::<usize>().ok())
        };
        match place {
            "/api/v1/nodes" => {
                let (from, limit) = (number("continue=").unwrap_or(0), number("limit=").unwrap_or(5_000));
                counted.fetch_add(1, Ordering::Relaxed);
                seen.fetch_max(limit, Ordering::Relaxed);
                let until = (from + limit).min(5_000);
                let items: Vec<Value> = (from..until)
                    .map(|nth| json!({"metadata": {"name": format!("n{nth}"), "uid": format!("u{nth}")}}))
                    .collect();
                let metadata = if until < 5_000 { json!({"continue": until.to_string()}) } else { json!({}) };
                Some(reply(200, &json!({"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": items})))
            }
            "/apis/karpenter.sh/v1/nodepools" => Some(list(&[ready_pool()])),
            path if path.starts_with("/apis/karpenter") && path.ends_with('s') => Some(list(&[])),
            _ => None,
        }
    });
    let output = explain(&on("explain-pages", server), &["node", "n4999", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["node"]["node"], "n4999");
    assert_eq!((pages.load(Ordering::Relaxed), largest.load(Ordering::Relaxed)), (10, 500));
}
