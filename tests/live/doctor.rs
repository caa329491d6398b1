//! `doctor` on a good installation, and on one in which one thing at a time is broken.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::{common, stub};

use std::net::SocketAddr;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use common::{stderr, stdout};
use serde_json::{Value, json};
use stub::{Reply, api_server, ec2_error, list, not_found, reply, serve, status};

fn condition(type_: &str, status: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": type_, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn pool(conditions: &[Value]) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default", "uid": "u"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
        "status": {"conditions": conditions}})
}

fn class(amis: &Value) -> Value {
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default", "uid": "u"}, "spec": {"subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "amiSelectorTerms": []},
        "status": {"subnets": [{"id": "subnet-1", "zone": "us-east-1a"}], "amis": amis, "conditions": []}})
}

fn amis() -> Value {
    json!([{"id": "ami-1", "name": "al2023", "requirements": []}])
}

fn lease(renewed: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system", "annotations": {"dovetail.dev/lease": "led"}},
        "spec": {"holderIdentity": "dovetail-0_00c0ffee", "leaseDurationSeconds": 15, "leaseTransitions": 3, "renewTime": renewed}})
}

fn leader(variables: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "dovetail-0", "namespace": "kube-system"},
        "spec": {"serviceAccountName": "dovetail", "containers": [{"name": "c", "env": variables}]}})
}

fn variables() -> Value {
    json!([{"name": "CLUSTER_NAME", "value": "demo"}, {"name": "INTERRUPTION_QUEUE", "value": "demo"}, {"name": "AWS_REGION", "value": "us-east-1"}])
}

fn review(allowed: bool) -> Reply {
    reply(
        201,
        &json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": {}, "status": {"allowed": allowed}}),
    )
}

/// An installation in which all is well, but for what `broken` answers.
fn cluster(broken: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static) -> SocketAddr {
    api_server(move |path| broken(path).or_else(|| good(path)))
}

fn good(path: &str) -> Option<Reply> {
    let place = path.split('?').next().unwrap_or_default();
    match place {
        "/apis/karpenter.sh/v1/nodepools" => Some(list(&[pool(&[condition("Ready", "True", "")])])),
        "/apis/karpenter.k8s.aws/v1/ec2nodeclasses" => Some(list(&[class(&amis())])),
        "/apis/coordination.k8s.io/v1/leases" => Some(list(&[lease("2100-01-01T00:00:00.000000Z")])),
        "/api/v1/namespaces/kube-system/pods/dovetail-0" => Some(reply(200, &leader(&variables()))),
        place if place.ends_with("/leases/karpenter-leader-election") => {
            Some(reply(200, &lease("2100-01-01T00:00:00.000000Z")))
        }
        place if place.contains("/leases") => Some(list(&[])),
        place if place.ends_with("accessreviews") => Some(review(true)),
        place if place.contains("validatingadmissionpolic") => {
            Some(reply(200, &json!({"metadata": {"name": "dovetail-fence"}, "spec": {}})))
        }
        _ => None,
    }
}

/// Rules of EventBridge that send to the queue, by their detail-types.
const RULES: [&str; 4] = [
    "EC2 Spot Instance Interruption Warning",
    "EC2 Instance Rebalance Recommendation",
    "EC2 Instance State-change Notification",
    "AWS Health Event",
];

/// AWS, where every request would work: SQS knows the queue, and each subnet has so many free addresses.
fn aws(free: u32) -> SocketAddr {
    account(free, |_| None)
}

/// The same, but for what `broken` answers to a body.
fn account(free: u32, broken: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static) -> SocketAddr {
    serve(move |_, body| broken(body).unwrap_or_else(|| good_account(free, body)))
}

fn good_account(free: u32, body: &str) -> Reply {
    let asked: Value = serde_json::from_str(body).unwrap_or_default();
    if asked["QueueName"].is_string() {
        return reply(200, &json!({"QueueUrl": "http://sqs/111122223333/demo"}));
    }
    if asked["TargetArn"] == "arn:aws:sqs:us-east-1:111122223333:demo" {
        return reply(200, &json!({"RuleNames": RULES}));
    }
    if let Some(rule) = asked["Name"].as_str() {
        let source = if rule.starts_with("EC2") { "aws.ec2" } else { "aws.health" };
        let pattern = json!({"source": [source], "detail-type": [rule]}).to_string();
        return reply(200, &json!({"Name": rule, "State": "ENABLED", "EventPattern": pattern}));
    }
    if asked["QuotaCode"].is_string() {
        return reply(200, &json!({"Quota": {"Value": 640.0}}));
    }
    if body.contains("Action=GetRole") {
        return (200, "text/xml", "<GetRoleResponse/>".to_owned());
    }
    if body.contains("Action=DescribeSubnets") {
        let item = format!(
            "<item><subnetId>subnet-1</subnetId><availabilityZone>us-east-1a</availabilityZone><availableIpAddressCount>{free}</availableIpAddressCount></item>"
        );
        return (
            200,
            "text/xml",
            format!(
                "<DescribeSubnetsResponse><requestId>r</requestId><subnetSet>{item}</subnetSet></DescribeSubnetsResponse>"
            ),
        );
    }
    ec2_error(412, "DryRunOperation")
}

fn doctor(name: &str, server: SocketAddr, aws: SocketAddr, args: &[&str]) -> Output {
    let kubeconfig = stub::kubeconfig(&format!("doctor-{name}"), &format!("http://{server}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
    let long = ["--check-timeout", "120"];
    let long = if args.contains(&"--check-timeout") { &[][..] } else { &long[..] };
    command.args(["doctor", "--kubeconfig", &kubeconfig]).args(long).args(args).env_clear();
    command.env("HOME", "/nonexistent").env("AWS_EC2_METADATA_DISABLED", "true").env("AWS_REGION", "us-east-1");
    command
        .env("AWS_ENDPOINT_URL", format!("http://{aws}"))
        .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", stub::SECRET);
    let output = command.output().unwrap();
    assert!(!stdout(&output).contains(stub::SECRET) && !stderr(&output).contains(stub::TOKEN));
    output
}

fn checks(output: &Output) -> Vec<Value> {
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}{}", stdout(output), stderr(output)));
    report["checks"].as_array().unwrap().clone()
}

/// The checks that are yellow or red.
fn complaints(output: &Output) -> Vec<(String, String)> {
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let bad = checks(output).into_iter().filter(|one| one["light"] == "yellow" || one["light"] == "red");
    bad.map(|one| (text(&one, "check"), text(&one, "light"))).collect()
}

#[test]
fn each_check_of_a_good_installation_is_green() {
    let output = doctor("good", cluster(|_| None), aws(200), &["--json"]);
    assert_eq!(complaints(&output), [], "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let all = checks(&output);
    assert_eq!(all.iter().filter(|one| one["light"] == "green").count(), 17, "{}", stdout(&output));
    let text = stdout(&doctor("good", cluster(|_| None), aws(200), &[]));
    assert!(
        text.contains("dovetail-0_00c0ffee leads, term 3") && text.contains("17 green, 0 yellow, 0 red, 0 cannot"),
        "{text}"
    );
}

/// Names of the checks that could not be asked.
fn unknown(output: &Output) -> Vec<String> {
    let all = checks(output).into_iter().filter(|one| one["light"] == "unknown");
    let named = all.map(|one| {
        assert!(!one["remedy"].as_str().unwrap().is_empty(), "{one}");
        one["check"].as_str().unwrap().to_owned()
    });
    named.collect()
}

#[test]
fn what_the_credentials_may_not_ask_of_the_account_is_said() {
    // As the role of the control plane: of the account's role, rules and quotas it may ask none.
    let denied = account(200, |body| {
        let xml = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>";
        if body.contains("Action=GetRole") {
            return Some((403, "text/xml", xml.to_owned()));
        }
        let asked = ["TargetArn", "QuotaCode"].iter().any(|field| body.contains(field));
        asked.then(|| reply(400, &json!({"__type": "AccessDeniedException", "Message": "not you"})))
    });
    let output = doctor("denied", cluster(|_| None), denied, &["--json"]);
    assert_eq!((output.status.code(), complaints(&output)), (Some(0), vec![]), "{}", stdout(&output));
    assert_eq!(unknown(&output), ["queue", "spot role", "quotas"]);
    let said = stdout(&output);
    assert!(said.contains("the queue demo is there; its rules are not known: ") && said.contains("not you"), "{said}");
    // Nor is anything lost of the other checks where AWS is silent.
    let silent = account(200, |body| {
        if ["TargetArn", "QuotaCode", "Action=GetRole"].iter().any(|field| body.contains(field)) {
            std::thread::sleep(Duration::from_secs(300));
        }
        None
    });
    let output = doctor("silent", cluster(|_| None), silent, &["--json"]);
    assert_eq!(complaints(&output), [], "{}", stdout(&output));
    assert_eq!(unknown(&output), ["queue", "spot role", "quotas"]);
}

#[test]
fn rules_roles_and_quotas_of_the_account_have_their_lights() {
    let no_role = "<ErrorResponse><Error><Code>NoSuchEntity</Code><Message>no</Message></Error></ErrorResponse>";
    let default_alone = |body: &str| {
        let first = body.contains("QuotaCode");
        first.then(|| reply(400, &json!({"__type": "NoSuchResourceException", "Message": "no"})))
    };
    type Answer = Box<dyn Fn(&str) -> Option<Reply> + Send + Sync>;
    let cases: [(&str, &str, &str, Answer); 6] = [
        ("no-rules", "queue", "red", Box::new(|body| body.contains("TargetArn").then(|| reply(200, &json!({}))))),
        (
            "a-rule",
            "queue",
            "yellow",
            Box::new(|body| body.contains("TargetArn").then(|| reply(200, &json!({"RuleNames": RULES[1..]})))),
        ),
        (
            "rules-off",
            "queue",
            "red",
            Box::new(|body| body.contains("\"Name\"").then(|| reply(200, &json!({"State": "DISABLED"})))),
        ),
        (
            "no-role",
            "spot role",
            "red",
            Box::new(move |body| body.contains("Action=GetRole").then(|| (404, "text/xml", no_role.to_owned()))),
        ),
        (
            "small-quota",
            "quotas",
            "yellow",
            Box::new(|body| body.contains("QuotaCode").then(|| reply(200, &json!({"Quota": {"Value": 5.0}})))),
        ),
        ("no-quota", "quotas", "unknown", Box::new(default_alone)),
    ];
    for (name, check, light, broken) in cases {
        let output = doctor(name, cluster(|_| None), account(200, broken), &["--json"]);
        let found = if light == "unknown" { unknown(&output) } else { vec![] };
        let lights: Vec<(String, String)> =
            complaints(&output).into_iter().chain(found.into_iter().map(|one| (one, "unknown".to_owned()))).collect();
        assert_eq!(lights, [(check.to_owned(), light.to_owned())], "{name}: {}", stdout(&output));
    }
}

/// The answer to a path that begins so.
fn at(beginning: &'static str, answer: impl Fn() -> Reply + Send + Sync + 'static) -> Broken {
    Box::new(move |path| path.starts_with(beginning).then(&answer))
}

/// An answer that is otherwise than in a good installation.
type Broken = Box<dyn Fn(&str) -> Option<Reply> + Send + Sync>;
/// Name, the check that complains, its light, and the answer that is otherwise.
type Case = (&'static str, &'static str, &'static str, Broken);

/// The pod that leads, with these variables.
fn pods(variables: Value) -> Broken {
    at("/api/v1/namespaces/kube-system/pods/", move || reply(200, &leader(&variables)))
}

/// Faults of the installation itself, and of what is beside it.
fn broken_installations() -> Vec<Case> {
    let deployment = json!({"metadata": {"name": "karpenter", "namespace": "karpenter"}, "spec": {"replicas": 2, "selector": {}, "template":
        {"spec": {"containers": [{"name": "c", "image": "public.ecr.aws/karpenter/controller:1.14.0"}]}}}});
    let older = json!({"kind": "APIResourceList", "groupVersion": "x", "resources": [{"name": "x", "kind": "NodePool", "namespaced": false, "singularName": "", "verbs": []}]});
    let hooked = json!([{"name": "CLUSTER_NAME", "value": "demo"}, {"name": "INTERRUPTION_QUEUE", "value": "demo"}, {"name": "WEBHOOK_ENABLED", "value": "true"}]);
    let broken_hook = {
        let pod = pods(hooked);
        Box::new(move |path: &str| {
            let asked = path.starts_with("/apis/karpenter.sh/v1beta1/nodepools");
            pod(path).or_else(|| asked.then(|| status(500, "InternalError", "x509: certificate has expired")))
        })
    };
    let mut foreign = lease("2100-01-01T00:00:00.000000Z");
    foreign["metadata"]["annotations"] = json!({});
    vec![
        (
            "lease",
            "Lease",
            "red",
            Box::new(|path| {
                path.contains("/leases").then(|| {
                    let old = lease("2020-01-01T00:00:00.000000Z");
                    if path.contains("/leases/") { reply(200, &old) } else { list(&[old]) }
                })
            }),
        ),
        ("fence", "fence", "yellow", at("/apis/admissionregistration", not_found)),
        ("rights", "rights", "red", at("/apis/authorization", || review(false))),
        ("crds", "CRDs", "red", at("/apis/karpenter.k8s.aws/v1", not_found)),
        ("older", "older kinds", "yellow", at("/apis/karpenter.sh/v1beta1", move || reply(200, &older))),
        ("webhook", "webhook", "red", broken_hook),
        ("rival", "others", "yellow", at("/apis/apps/v1/deployments", move || list(std::slice::from_ref(&deployment)))),
        (
            "foreign",
            "others",
            "yellow",
            Box::new(move |path| {
                path.contains("/leases").then(|| match path.contains("/leases/") {
                    true => reply(200, &foreign),
                    false => list(std::slice::from_ref(&foreign)),
                })
            }),
        ),
    ]
}

/// Faults of pools, classes, settings and the account.
fn broken_surroundings() -> Vec<Case> {
    let used_up = json!({"metadata": {"name": "dovetail-unavailable-offerings"}, "data": {"unavailable":
        json!({"what": "quota on-demand Standard", "refusals": 1, "last": "2026-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"}).to_string()}});
    let no_spot = json!({"metadata": {"name": "dovetail-unavailable-offerings"}, "data": {"unavailable":
        json!({"what": "capacity-type spot", "refusals": 1, "last": "2026-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"}).to_string()}});
    let proxied = json!([{"name": "CLUSTER_NAME", "value": "demo"}, {"name": "INTERRUPTION_QUEUE", "value": "demo"}, {"name": "HTTPS_PROXY", "value": "http://p:1"}]);
    let queueless = json!([{"name": "CLUSTER_NAME", "value": "demo"}]);
    let unheard = condition("dovetail.dev/InterruptionsHeard", "False", "ReceiveMessage fails (AccessDenied)");
    vec![
        (
            "pools",
            "NodePools",
            "red",
            at("/apis/karpenter.sh/v1/nodepools", || list(&[pool(&[condition("Ready", "False", "no subnet")])])),
        ),
        ("proxy", "proxies", "yellow", pods(proxied)),
        ("no-queue", "queue", "yellow", pods(queueless)),
        (
            "unheard",
            "queue",
            "red",
            at("/apis/karpenter.sh/v1/nodepools", move || {
                list(&[pool(&[condition("Ready", "True", ""), unheard.clone()])])
            }),
        ),
        ("quota", "quotas", "yellow", at("/api/v1/namespaces/kube-system/configmaps/", move || reply(200, &used_up))),
        ("spot", "spot role", "red", at("/api/v1/namespaces/kube-system/configmaps/", move || reply(200, &no_spot))),
        (
            "amis",
            "AMIs",
            "red",
            at("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", || {
                let mut class = class(&json!([]));
                let waits = json!({"type": "ValidationSucceeded", "status": "False", "reason": "DependenciesNotReady",
                    "message": "AMIsReady is not ready", "lastTransitionTime": "2026-01-01T00:00:00Z"});
                class["status"]["conditions"] = json!([waits]);
                list(&[class])
            }),
        ),
    ]
}

#[test]
fn each_broken_thing_alone_has_its_own_light_and_remedy() {
    let cases = broken_installations().into_iter().chain(broken_surroundings());
    for (name, check, light, broken) in cases {
        let output = doctor(name, cluster(broken), aws(200), &["--json"]);
        let found = complaints(&output);
        assert!(found.contains(&(check.to_owned(), light.to_owned())), "{name}: {found:?}\n{}", stdout(&output));
        // Without the class's kind nothing can be said of classes either.
        assert!(found.len() == 1 || name == "crds", "{name}: {found:?}");
        assert_eq!(output.status.code(), Some(if light == "red" { 2 } else { 1 }), "{name}");
        let remedies = checks(&output).into_iter().filter(|one| one["check"] == check);
        assert!(remedies.into_iter().all(|one| !one["remedy"].as_str().unwrap().is_empty()), "{name}");
        assert!(stderr(&output).is_empty(), "{name}: {}", stderr(&output));
    }
}

#[test]
fn subnets_without_addresses_and_refused_credentials_are_red() {
    let output = doctor("addresses", cluster(|_| None), aws(3), &["--json"]);
    assert_eq!(complaints(&output), [("subnets".to_owned(), "red".to_owned())], "{}", stdout(&output));
    let strict = serve(|_, _| ec2_error(401, "AuthFailure"));
    let output = doctor("credentials", cluster(|_| None), strict, &["--json"]);
    assert_eq!(complaints(&output), [("AWS".to_owned(), "red".to_owned())], "{}", stdout(&output));
}

/// The type of a body, with a header `Date` so many minutes ago behind it.
fn dated(minutes: i64) -> &'static str {
    let then = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(minutes);
    let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&then).unwrap();
    Box::leak(format!("application/json\r\ndate: {date}").into_boxed_str())
}

#[test]
fn clock_that_is_off_and_old_api_server_have_their_lights() {
    for (minutes, light) in [(1, "yellow"), (10, "red")] {
        let kind = dated(minutes);
        let server = serve(move |path, _| {
            let (status, _, body) = good(path).unwrap_or_else(|| stub::usual(path));
            (status, kind, body)
        });
        let output = doctor(&format!("clock-{minutes}"), server, aws(200), &["--json"]);
        assert_eq!(complaints(&output), [("clock".to_owned(), light.to_owned())], "{}", stdout(&output));
    }
    let mut newer = variables();
    newer.as_array_mut().unwrap().push(json!({"name": "KUBERNETES_MIN_VERSION", "value": "1.99.0-0"}));
    let output = doctor("old", cluster(pods(newer)), aws(200), &["--json"]);
    assert_eq!(complaints(&output), [("API server".to_owned(), "red".to_owned())], "{}", stdout(&output));
}

#[test]
fn a_check_that_hangs_or_may_not_ask_stops_no_other() {
    let slow = cluster(|path| {
        if path.contains("validatingadmissionpolic") {
            std::thread::sleep(Duration::from_secs(300));
        }
        path.contains("/deployments").then(|| status(403, "Forbidden", "not you"))
    });
    let begun = Instant::now();
    let output = doctor("slow", slow, aws(200), &["--json", "--check-timeout", "5"]);
    assert!(begun.elapsed() < Duration::from_secs(280), "it waited");
    let all = checks(&output);
    let of = |check: &str| all.iter().find(|one| one["check"] == check).unwrap().clone();
    assert_eq!((&of("fence")["light"], &of("others")["light"]), (&json!("unknown"), &json!("unknown")));
    assert!(of("fence")["what"].as_str().unwrap().contains("no answer within 5 s"), "{}", of("fence"));
    assert!(of("others")["remedy"].as_str().unwrap().contains("deployments"), "{}", of("others"));
    assert_eq!((&of("Lease")["light"], &of("rights")["light"]), (&json!("green"), &json!("green")));
}
