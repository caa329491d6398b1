//! `plan`'s what-ifs and the forms of its answer, without a cluster: prices, policies, differences, the page, a picture of a cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use common::{arg, dovetail, json, root, scratch, stderr, stdout, write};
use serde_json::{Value, json as value};

const SPOT: [&str; 4] = ["-f", "deploy/examples/spot.yaml", "-f", "deploy/examples/inflate-400.yaml"];

fn plan(args: &[&str]) -> Value {
    json(&dovetail(&[&["plan", "--json"], args].concat()), 0)
}

fn price(plan: &Value) -> f64 {
    plan["totalCheapestHourlyPrice"].as_f64().unwrap()
}

/// The instance type of most nodes of a plan.
fn usual_type(plan: &Value) -> String {
    plan["nodeClaims"][0]["cheapestType"].as_str().unwrap().to_owned()
}

#[test]
fn price_of_a_type_moves_the_choice() {
    let before = plan(&SPOT);
    let usual = usual_type(&before);
    let dear = plan(&[&SPOT[..], &["--price", &format!("{usual}=99")]].concat());
    assert_ne!(usual_type(&dear), usual, "{dear:#}");
    assert!(price(&dear) > price(&before));
    let wrong = dovetail(&[&["plan"], &SPOT[..], &["--price", "m5.larg=1"]].concat());
    assert_eq!((wrong.status.code(), stdout(&wrong).as_str()), (Some(2), ""));
    assert!(stderr(&wrong).contains("did you mean m5.large?"), "{}", stderr(&wrong));
}

#[test]
fn plan_is_compared_with_a_file_and_without_its_what_ifs() {
    let before = dovetail(&[&["plan", "--json"], &SPOT[..]].concat());
    let file = write("before.json", &stdout(&before));
    let diff = format!("--diff={file}");
    let same = stdout(&dovetail(&[&["plan"], &SPOT[..], &[&diff]].concat()));
    assert!(same.contains("the same new nodes") && same.contains("$0.0000 an hour more"), "{same}");
    let args = [&SPOT[..], &["--policy", "fewest-nodes", "--diff"]].concat();
    let (text, answer) = (stdout(&dovetail(&[&["plan"], &args[..]].concat())), plan(&args));
    assert!(text.contains("compared with the plan without what-ifs:"), "{text}");
    let difference = &answer["difference"];
    assert_eq!(difference["hourlyPriceBefore"], before_price(&file), "{difference:#}");
    assert_eq!(difference["hourlyPriceAfter"].as_f64().unwrap(), price(&answer));
    assert!(!difference["nodes"].as_array().unwrap().is_empty(), "{difference:#}");
    // A plan that is cut short is no plan.
    let whole = stdout(&before);
    let short = write("short.json", &whole[..whole.len() / 2]);
    let refused = dovetail(&[&["plan"], &SPOT[..], &[&format!("--diff={short}")]].concat());
    assert_eq!((refused.status.code(), stdout(&refused).as_str()), (Some(2), ""));
    assert!(stderr(&refused).contains("the whole answer of plan --json"), "{}", stderr(&refused));
}

fn before_price(file: &str) -> Value {
    let plan: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    plan["totalCheapestHourlyPrice"].clone()
}

#[test]
fn plan_says_what_it_would_have_cost_otherwise() {
    let answer = plan(&[&SPOT[..], &["--otherwise"]].concat());
    let ways = answer["otherwise"].as_array().unwrap();
    let of = |name: &str| ways.iter().find(|one| one["name"].as_str().unwrap().contains(name)).unwrap();
    assert_eq!(of("as planned")["hourlyPrice"].as_f64().unwrap(), price(&answer));
    let dollars = |way: &Value| way["hourlyPrice"].as_f64().unwrap();
    assert!(dollars(of("Karpenter's rules")) >= price(&answer), "{ways:#?}");
    assert!(dollars(of("without spot")) > price(&answer), "{ways:#?}");
    let text = stdout(&dovetail(&[&["plan"], &SPOT[..], &["--otherwise", "--without-spot"]].concat()));
    assert!(text.contains("what the new nodes cost, and would cost otherwise:") && text.contains("a month"), "{text}");
    assert!(!text.contains("without spot "), "{text}");
    assert!(answer.get("difference").is_none() && plan(&SPOT).get("otherwise").is_none());
}

#[test]
fn page_works_offline_and_takes_names_as_text() {
    let pool = std::fs::read_to_string(root().join("deploy/examples/spot.yaml")).unwrap();
    let pod = value!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "big"}, "spec": {"containers": [
        {"name": "c", "image": "x", "resources": {"requests": {"cpu": "4k"}}}], "nodeSelector": {"team": "blue"}}});
    let file = write("<b>&.yaml", &format!("{pool}\n---\n{pod}\n"));
    let page = scratch("page.html");
    let output = dovetail(&["plan", "-f", &file, "--html", arg(&page)]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("&lt;b&gt;&amp;.yaml") && !text.contains("<b>&"), "{text}");
    assert!(text.contains("Pods that stay pending") && text.contains("default-src 'none'"), "{text}");
    for outside in ["http:", "https:", "<script", "src=", "url("] {
        assert!(!text.contains(outside), "{outside}");
    }
    assert!(text.trim_end().ends_with("</html>"));
    let nowhere = dovetail(&[&["plan"], &SPOT[..], &["--html", "/nonexistent/page.html"]].concat());
    assert_eq!((nowhere.status.code(), stdout(&nowhere).as_str()), (Some(1), ""));
}

/// The output of `kubectl get nodes,pods,deployments -A -o yaml` for a cluster with a node, a running pod and a waiting one.
fn picture(waiting_cpu: &str) -> Value {
    let labels = value!({"karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default",
        "node.kubernetes.io/instance-type": "m5.xlarge", "topology.kubernetes.io/zone": "eu-west-1a", "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64", "topology.kubernetes.io/region": "eu-west-1", "karpenter.sh/capacity-type": "on-demand"});
    let room = value!({"cpu": "3900m", "memory": "14Gi", "pods": "58"});
    let node = value!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-1", "uid": "u-n", "resourceVersion": "5", "labels": labels,
        "creationTimestamp": "2026-03-10T12:00:00Z"}, "spec": {"providerID": "aws:///eu-west-1a/i-1"},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True",
            "lastHeartbeatTime": "2026-03-10T12:30:00Z", "lastTransitionTime": "2026-03-10T12:01:00Z"}]}});
    let pod = |name: &str, cpu: &str| {
        value!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": format!("u-{name}"),
            "resourceVersion": "7", "labels": {"app": "web"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "name": "web-1", "uid": "u-rs", "controller": true}]}, "spec": {"containers": [{"name": "c", "image": "x",
            "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]}})
    };
    let mut runs = pod("runs", "2");
    runs["spec"]["nodeName"] = value!("n-1");
    runs["status"] = value!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let mut waits = pod("waits", waiting_cpu);
    waits["status"] = value!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]});
    let template = value!({"metadata": {"labels": {"app": "web"}}, "spec": pod("x", "2")["spec"]});
    let web = value!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default", "uid": "u-d"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    value!({"apiVersion": "v1", "kind": "List", "items": [node, runs, waits, web]})
}

#[test]
fn picture_of_a_cluster_counts_its_nodes_and_its_pods_once() {
    let pool = "deploy/examples/spot.yaml";
    let fits = write("fits.json", &picture("1500m").to_string());
    let answer = plan(&["-f", pool, "-f", &fits]);
    assert_eq!((&answer["pods"], &answer["numNodeClaims"]), (&value!(1), &value!(0)), "{answer:#}");
    assert_eq!(answer["existingNodes"], value!([{"name": "n-1", "podNames": ["waits"]}]));
    assert_eq!(answer["live"]["nodes"], 1);
    // The running pod leaves 1.9 processors. The region is the node's.
    let large = write("large.json", &picture("2500m").to_string());
    let answer = plan(&["-f", pool, "-f", &large]);
    assert_eq!((&answer["pods"], &answer["numNodeClaims"]), (&value!(1), &value!(1)), "{answer:#}");
    assert!(answer["nodeClaims"][0]["cheapestZone"].as_str().unwrap().starts_with("eu-west-1"), "{answer:#}");
    // A new workload beside the picture is a what-if.
    let more = [&["-f", pool, "-f", &fits, "-f", "deploy/examples/inflate-400.yaml", "--diff"][..]].concat();
    let answer = plan(&more);
    assert_eq!(answer["pods"], 401);
    assert_eq!(answer["difference"]["hourlyPriceBefore"], 0.0, "{}", answer["difference"]);
}
