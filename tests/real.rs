//! The binary as two processes on a real control plane, under the chart's account and roles, with moto as its AWS. What is
//! not there is built first (Go, Python; minutes): see tests/real/README.md.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod common;

use common::real::{self, Real};

const POOL: &str = "tests/real/manifests/pool.yaml";
const INFLATE: &str = "deploy/examples/inflate-400.yaml";

#[test]
fn four_hundred_pods_get_nodes_and_when_they_go_the_nodes_and_instances_go() {
    let mut real = Real::start("inflate", &[]);
    real.ok(&["apply", "-f", POOL]);
    real.two_replicas();
    real.ok(&["apply", "-f", INFLATE]);
    real.until("400 pods are Ready", |real| real.ready() == 400);
    let (claims, nodes) = (real.objects("nodeclaims"), real.objects("nodes"));
    assert_eq!((claims.len(), nodes.len(), real.instances()), (nodes.len(), claims.len(), nodes.len()));
    for claim in &claims {
        let of = |kind: &str| {
            let conditions = claim["status"]["conditions"].as_array().unwrap();
            conditions.iter().find(|one| one["type"] == kind).map(|one| one["status"].clone())
        };
        for kind in ["Launched", "Registered", "Initialized", "Ready"] {
            assert_eq!(of(kind), Some("True".into()), "{kind} of {claim}");
        }
    }
    real.ok(&["scale", "deployment/inflate", "--replicas=0"]);
    real.until_nothing_is_left();
    real.nothing_was_forbidden();
}

#[test]
fn a_deleted_node_takes_its_instance_along_and_a_deleted_pool_all_of_its_own() {
    let mut real = Real::start("deletions", &[]);
    real.ok(&["apply", "-f", POOL]);
    real.two_replicas();
    real.ok(&["create", "deployment", "web", "--image=web:1", "--replicas=6"]);
    real.ok(&["set", "resources", "deployment/web", "--requests=cpu=1500m,memory=1Gi"]);
    real.ok(&["rollout", "status", "deployment/web", "--timeout=600s"]);
    let before: Vec<String> = names(&real.objects("nodes"));
    let gone = real.ok(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.nodeName}"]);
    real.ok(&["delete", "node", &gone, "--timeout=600s"]);
    real.until("the pods of the deleted node are Ready elsewhere", |real| real.ready() == 6);
    let after = names(&real.objects("nodes"));
    assert!(before.contains(&gone) && !after.contains(&gone), "{gone} of {before:?}, now {after:?}");
    real.until("its instance has ended", |real| real.instances() == real.objects("nodes").len());
    assert_eq!(real.objects("nodeclaims").len(), real.objects("nodes").len());

    real.ok(&["delete", "nodepool", "default", "--timeout=600s"]);
    real.until_nothing_is_left();
    assert_eq!(real.objects("pods").len(), 6, "the pods wait, nobody deletes them");
    real.ok(&["delete", "ec2nodeclass", "default", "--timeout=600s"]);
    real.nothing_was_forbidden();
}

fn names(objects: &[serde_json::Value]) -> Vec<String> {
    objects.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_manifest_that_makes_no_sense_is_refused_by_the_rules_in_the_crds() {
    let real = Real::start("manifests", &[]);
    let pool = std::fs::read_to_string(common::root().join(POOL)).unwrap();
    let cases = [
        (
            "operator: Gt\n          values: [\"2\"]",
            "operator: Gt\n          values: [\"two\"]",
            "spec.template.spec.requirements[3]",
        ),
        (
            "operator: In\n          values: [\"amd64\"]",
            "operator: Is\n          values: [\"amd64\"]",
            "Unsupported value",
        ),
        ("consolidateAfter: 5s", "consolidateAfter: soon", "consolidateAfter"),
        ("nodes: \"100%\"", "nodes: many", "nodes"),
        ("kubernetes.io/arch", "kubernetes.io/hostname", "hostname"),
        ("  amiFamily: AL2023", "  amiFamily: Gentoo", "amiFamily"),
        ("  amiFamily: AL2023\n", "", "must specify amiFamily"),
        ("  role: KarpenterNodeRole-demo\n", "", "role"),
        ("  disruption:\n", "  weight: 101\n  disruption:\n", "weight"),
    ];
    let taken = cases.iter().enumerate().filter_map(|(number, (from, to, said))| {
        assert!(pool.contains(from), "{from}");
        let file = common::write(&format!("real-manifest-{number}.yaml"), &pool.replacen(from, to, 1));
        let output = real.kubectl(&["apply", "--dry-run=server", "-f", &file]);
        let text = common::stderr(&output);
        let refused = !output.status.success() && text.contains(said);
        (!refused).then(|| format!("{to:?} without {said:?}: {text}"))
    });
    let taken: Vec<String> = taken.collect();
    assert!(taken.is_empty(), "{taken:#?}");
    real.ok(&["apply", "--dry-run=server", "-f", POOL]);
}

/// SIGTERM, SIGKILL, a zombie and an API server that stands still: a round each. `cargo xtask proof handover` plays twenty.
#[test]
fn however_a_leader_ends_in_mid_burst_no_instance_is_doubled_or_lost() {
    let output = real::script("handover.py", &["1"]);
    let said = common::stdout(&output);
    assert!(output.status.success() && said.contains("4 of 4 rounds"), "{said}{}", common::stderr(&output));
    println!("{said}");
}

#[test]
#[ignore = "its steps were tried by hand; it has not been seen to pass as a whole"]
fn an_api_server_that_is_away_and_an_aws_that_is_restarted_are_waited_for() {
    let mut real = Real::start("away", &[]);
    real.ok(&["apply", "-f", POOL]);
    real.two_replicas();
    real.ok(&["create", "deployment", "web", "--image=web:1", "--replicas=2"]);
    real.ok(&["set", "resources", "deployment/web", "--requests=cpu=1,memory=1Gi"]);
    real.ok(&["rollout", "status", "deployment/web", "--timeout=600s"]);

    // Longer than a Lease lasts: whoever led has stopped by itself.
    real.order("stop kube-apiserver");
    std::thread::sleep(std::time::Duration::from_secs(30));
    real.order("cont kube-apiserver");
    real.ok(&["scale", "deployment/web", "--replicas=12"]);
    real.until("it goes on where it was", |real| real.ready() == 12);
    let nodes = real.objects("nodes").len();
    assert_eq!((real.objects("nodeclaims").len(), real.instances()), (nodes, nodes), "nothing was launched twice");

    real.order("kill kube-apiserver");
    real.order("start kube-apiserver");
    real.order("kill moto");
    real.ok(&["scale", "deployment/web", "--replicas=60"]);
    std::thread::sleep(std::time::Duration::from_secs(10));
    real.order("start moto");
    real.order("seed");
    // moto has forgotten everything: the machines of before are no more, the new ones come all the same.
    real.until("pods get nodes in the account that is new", |real| real.instances() > 0 && real.ready() >= 48);
    real.nothing_was_forbidden();
    // What was away is told when it has been away for a while, and when it is back: once each time, by each who asked.
    for replica in ["dovetail-0", "dovetail-1"] {
        let log = real.log(replica);
        for kind in ["pods", "nodes", "nodepools", "nodeclaims"] {
            let told = log.lines().filter(|line| line.contains(&format!("watching {kind} succeeded"))).count();
            assert!(told <= 2, "the API server was away twice, {kind} told of its return {told} times: {log}");
        }
        let attempts = log.lines().filter(|line| line.contains("kube_client")).count();
        assert_eq!(attempts, 0, "single attempts are told of: {log}");
    }
}

#[test]
#[ignore = "its steps were tried by hand; it has not been seen to pass as a whole"]
fn a_stateful_set_gets_its_volumes_and_every_node_lies_in_their_zone() {
    let mut real = Real::start("volumes", &[]);
    // Pods that start in order need a node each where nodes are small: of these, each holds some.
    let pool = std::fs::read_to_string(common::root().join(POOL)).unwrap();
    let category = "        - key: karpenter.k8s.aws/instance-category\n";
    let larger = "        - key: karpenter.k8s.aws/instance-cpu\n          operator: Gt\n          values: [\"3\"]\n";
    assert!(pool.contains(category));
    let pool = pool.replacen(category, &[larger, category].concat(), 1);
    real.ok(&["apply", "-f", &common::write("real-volumes-pool.yaml", &pool)]);
    real.two_replicas();
    real.ok(&["apply", "-f", "tests/real/manifests/stateful.yaml"]);
    real.until("twenty pods are Ready, one after another", |real| real.ready() == 20);
    let claims = real.objects("persistentvolumeclaims");
    let bound = claims.iter().filter(|claim| claim["status"]["phase"] == "Bound").count();
    assert_eq!((claims.len(), bound), (20, 20));
    for node in real.objects("nodes") {
        assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "eu-west-1a", "{node}");
    }
    let attached = |real: &Real| {
        let attached = |one: &&serde_json::Value| one["status"]["attached"] == true;
        real.objects("volumeattachments").iter().filter(attached).count()
    };
    real.until("every volume is attached", |real| attached(real) == 20);
    let first = real.ok(&["get", "pod", "express-nodejs-0", "-o", "jsonpath={.spec.nodeName}"]);
    real.ok(&["delete", "node", &first, "--timeout=600s"]);
    real.until("its pods are Ready elsewhere, with their volumes", |real| real.ready() == 20 && attached(real) == 20);
    real.nothing_was_forbidden();
}
