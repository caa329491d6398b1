//! `plan` of a live cluster whose control plane asks the account for its commitments asks for them too, and only reads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::common::{stderr, stdout};
use crate::stub::{self, Reply, api_server, ec2_error, list, reply, serve};

fn ready() -> Value {
    json!([{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}])
}

/// A pool of one instance type, spot and on demand, and a pod that waits; the leader has this in COMMITMENTS.
fn cluster(commitments: &'static str) -> SocketAddr {
    let requirement = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let requirements = [
        requirement("karpenter.sh/capacity-type", &["on-demand", "spot"]),
        requirement("node.kubernetes.io/instance-type", &["m5.large"]),
    ];
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default", "uid": "u"},
        "spec": {"template": {"spec": {"requirements": requirements,
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
        "status": {"conditions": ready()}});
    let amis =
        json!([{"id": "ami-1", "name": "al2023", "requirements": [requirement("kubernetes.io/arch", &["amd64"])]}]);
    let class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default", "uid": "c"},
        "spec": {"subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}],
            "amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "nodes"},
        "status": {"subnets": [{"id": "subnet-1", "zone": "us-east-1a"}], "securityGroups": [{"id": "sg-1"}], "amis": amis,
            "conditions": ready()}});
    let waits = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    let container = json!({"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": "1500m"}}});
    let pod = json!({"metadata": {"name": "web", "namespace": "default", "uid": "p"}, "spec": {"containers": [container]},
        "status": {"phase": "Pending", "conditions": waits}});
    let lease = json!({"metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"},
        "spec": {"holderIdentity": "dovetail-0_00c0ffee", "leaseDurationSeconds": 15, "renewTime": "2100-01-01T00:00:00.000000Z"}});
    let variables = json!([{"name": "COMMITMENTS", "value": commitments}, {"name": "CLUSTER_NAME", "value": "demo"}]);
    let leader = json!({"metadata": {"name": "dovetail-0", "namespace": "kube-system"},
        "spec": {"containers": [{"name": "c", "env": variables}]}});
    api_server(move |path| match path.split('?').next().unwrap_or_default() {
        "/apis/karpenter.sh/v1/nodepools" => Some(list(std::slice::from_ref(&pool))),
        "/apis/karpenter.k8s.aws/v1/ec2nodeclasses" => Some(list(std::slice::from_ref(&class))),
        "/api/v1/pods" => Some(list(std::slice::from_ref(&pod))),
        "/apis/coordination.k8s.io/v1/leases" => Some(list(std::slice::from_ref(&lease))),
        "/api/v1/namespaces/kube-system/pods/dovetail-0" => Some(reply(200, &leader)),
        path if path.starts_with("/api/v1/") && path.ends_with('s') => Some(list(&[])),
        path if path.starts_with("/apis/") && path.ends_with('s') => Some(list(&[])),
        _ => None,
    })
}

/// AWS with Reserved Instances of the pool's type, of which others use some. Says what it was asked.
fn account(instances: u32, used: u32, denied: &'static [&'static str]) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let xml = |action: &str, body: &str| -> Reply {
        (200, "text/xml", format!("<{action}Response><requestId>r</requestId>{body}</{action}Response>"))
    };
    let server = serve(move |path, body| {
        let action =
            body.split('&').find_map(|one| one.strip_prefix("Action=")).unwrap_or(path).trim_matches('/').to_owned();
        noted.lock().unwrap().push(action.clone());
        match action.as_str() {
            one if denied.contains(&one) && one.starts_with("Describe") && body.contains("Action=") => {
                ec2_error(403, "UnauthorizedOperation")
            }
            one if denied.contains(&one) => {
                reply(403, &json!({"__type": "AccessDeniedException", "message": "not you"}))
            }
            "DescribeReservedInstances" => xml(
                &action,
                &format!(
                    "<reservedInstancesSet><item><reservedInstancesId>ri-1</reservedInstancesId><instanceType>m5.large</instanceType>\
                     <instanceCount>{instances}</instanceCount><productDescription>Linux/UNIX</productDescription><state>active</state>\
                     <scope>Region</scope><currencyCode>USD</currencyCode></item></reservedInstancesSet>"
                ),
            ),
            "DescribeInstances" => {
                let one = "<item><instanceId>i-1</instanceId><instanceType>m5.large</instanceType>\
                     <placement><availabilityZone>us-east-1b</availabilityZone></placement></item>";
                let all = one.repeat(used as usize);
                xml(
                    &action,
                    &format!("<reservationSet><item><instancesSet>{all}</instancesSet></item></reservationSet>"),
                )
            }
            "DescribeSavingsPlans" => reply(200, &json!({"savingsPlans": []})),
            _ => ec2_error(412, "DryRunOperation"),
        }
    });
    (server, asked)
}

fn plan(name: &str, cluster: SocketAddr, aws: SocketAddr, args: &[&str]) -> (Value, Output) {
    let kubeconfig = stub::kubeconfig(&format!("account-{name}"), &format!("http://{cluster}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
    command.args(["plan", "--json", "--kubeconfig", &kubeconfig]).args(args).env_clear();
    command.env("HOME", "/nonexistent").env("AWS_EC2_METADATA_DISABLED", "true").env("AWS_REGION", "us-east-1");
    command.env("AWS_ENDPOINT_URL", format!("http://{aws}"));
    command.env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").env("AWS_SECRET_ACCESS_KEY", stub::SECRET);
    let output = command.output().unwrap();
    let read =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}{}", stdout(&output), stderr(&output)));
    (read, output)
}

/// Capacity type of the one node that is planned.
fn bought(plan: &Value) -> &str {
    plan["nodeClaims"][0]["cheapestCapacityType"].as_str().unwrap_or_else(|| panic!("{plan:#}"))
}

#[test]
fn plan_live_counts_what_the_account_has_and_writes_nothing() {
    let (aws, asked) = account(1, 0, &[]);
    let (planned, output) = plan("counts", cluster("account"), aws, &[]);
    assert_eq!(bought(&planned), "on-demand", "{planned:#}{}", stderr(&output));
    let asked = asked.lock().unwrap().clone();
    for action in ["DescribeReservedInstances", "DescribeSavingsPlans", "DescribeInstances"] {
        assert!(asked.iter().any(|one| one == action), "{action}: {asked:?}");
    }
    assert!(
        asked.iter().all(|one| one.starts_with("Describe") || one.starts_with("Get") || one.is_empty()),
        "{asked:?}"
    );
}

#[test]
fn plan_live_leaves_what_others_use_and_asks_only_if_it_is_set() {
    let (aws, _) = account(1, 1, &[]);
    assert_eq!(bought(&plan("used", cluster("account"), aws, &[]).0), "spot");
    let (aws, asked) = account(1, 0, &[]);
    assert_eq!(bought(&plan("unset", cluster(""), aws, &[]).0), "spot");
    assert!(asked.lock().unwrap().iter().all(|one| one != "DescribeReservedInstances"));
    let (planned, output) = plan("shipped", cluster("account"), aws, &["--offers", "shipped"]);
    assert_eq!(bought(&planned), "spot");
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert_eq!(said.matches("AWS is not asked with --offers shipped").count(), 1, "{said}");
}

#[test]
fn plan_live_says_once_what_it_may_not_ask() {
    let (aws, asked) = account(1, 0, &["DescribeReservedInstances", "DescribeSavingsPlans"]);
    let (planned, output) = plan("denied", cluster("account"), aws, &[]);
    assert_eq!(bought(&planned), "spot");
    let said = format!("{}{}", stdout(&output), stderr(&output));
    for action in ["ec2:DescribeReservedInstances", "savingsplans:DescribeSavingsPlans"] {
        assert_eq!(said.matches(action).count(), 1, "{action}: {said}");
    }
    let tries = asked.lock().unwrap().iter().filter(|one| *one == "DescribeReservedInstances").count();
    assert_eq!(tries, 1, "a refusal for good is not asked again");
}
