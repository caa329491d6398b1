//! `run` from outside: every refusal against a stub on loopback, and the way from start to end on the sandbox's API server
//! and region, served on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::{common, stub};
#[path = "run/planned.rs"]
mod planned;
#[path = "run/reviews.rs"]
mod reviews;
#[path = "run/shadow.rs"]
mod shadow;

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use common::live::LONGEST_WAIT;
use common::page::{asked, get};
use serde_json::{Value, json};
use stub::{CONSOLE_TOKEN, Ended, Run, Sandbox, api_server, ec2_error, list, not_found, reply, serve, status};

/// It ended with this status, said nothing but one message, and that holds all of these.
fn refused(ended: &Ended, code: i32, holds: &[&str]) {
    assert_eq!(ended.code, Some(code), "stdout: {}\nstderr: {}", ended.stdout, ended.stderr);
    assert_eq!(ended.stderr.trim().lines().count(), 1, "{}", ended.stderr);
    for text in holds {
        assert!(ended.stderr.contains(text), "{text:?} is not in {}", ended.stderr);
    }
}

#[test]
fn every_invalid_setting_is_named_as_given_and_nothing_starts() {
    let run = Run::new("settings", &["--batch-idle-duration", "soon", "--disable-leader-election=1"]);
    let ended = run.env("CLUSTER_NAME", "demo").env("PREFERENCE_POLICY", "respect").env("LOG_LEVEL", "loud").ended();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    let expected = [
        "--batch-idle-duration: ",
        "--disable-leader-election: it is not a boolean (given \"1\") (allowed: true, false)",
        "LOG_LEVEL: it is not one of those allowed (given \"loud\") (allowed: debug, info, error)",
        "PREFERENCE_POLICY: it is not one of those allowed (given \"respect\") (allowed: Respect, Ignore)",
    ];
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(expected) {
        assert!(line.starts_with(start), "{line}");
    }
}

#[test]
fn a_missing_cluster_name_is_refused() {
    refused(&Run::new("no-name", &[]).ended(), 2, &["CLUSTER_NAME (--cluster-name): is not given"]);
}

#[test]
fn missing_cluster_is_refused_with_every_place_looked_at() {
    let ended = Run::new("no-cluster", &["--cluster-name", "demo"]).ended();
    refused(&ended, 2, &["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "~/.kube/config"]);
}

#[test]
fn pod_without_a_service_account_is_refused_by_missing_file() {
    if Path::new("/var/run/secrets/kubernetes.io").exists() {
        eprintln!("skipped: this is a pod");
        return;
    }
    let run = Run::new("no-account", &["--cluster-name", "demo"]).env("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    let ended = run.env("KUBERNETES_SERVICE_PORT", "443").ended();
    refused(&ended, 2, &["/var/run/secrets/kubernetes.io/serviceaccount/namespace: no such file"]);
}

#[test]
fn missing_or_broken_kubeconfig_is_refused_by_file_and_field() {
    let missing = Run::new("kc-missing", &["--cluster-name", "demo", "--kubeconfig", "/nowhere/config"]).ended();
    refused(&missing, 2, &["/nowhere/config: no such file (given by --kubeconfig)"]);
    let broken = common::write("run-kc-broken.yaml", "apiVersion: v1\nusers: [{name: u, user: {token: sesame-token]\n");
    let run = Run::new("kc-broken", &["--cluster-name", "demo"]).env("KUBECONFIG", &broken);
    refused(&run.ended(), 2, &[&broken, ":2: is not a kubeconfig"]);
    let path = stub::kubeconfig("kc-context", "http://127.0.0.1:1");
    let run = Run::new("kc-context", &["--cluster-name", "demo", "--kube-context", "y"]).env("KUBECONFIG", &path);
    refused(&run.ended(), 2, &[&path, "current-context: there is no context \"y\" (allowed: x)"]);
}

#[test]
fn absent_api_server_is_awaited_then_named_with_what_was_tried() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let begun = Instant::now();
    let ended = Run::new("away", &[]).on(gone).env("STARTUP_TIMEOUT", "2s").ended();
    let holds =
        [&format!("http://{gone}"), "cannot be reached", "GET /version was tried", "refused", "STARTUP_TIMEOUT"];
    refused(&ended, 1, &holds);
    assert!(begun.elapsed() >= Duration::from_secs(1), "it did not wait");
}

#[test]
fn what_is_no_api_server_or_does_not_take_us_is_refused() {
    let other = serve(|_, _| (200, "text/plain", "hello".into()));
    refused(&Run::new("other", &[]).on(other).ended(), 1, &["no Kubernetes API server"]);
    let strict = api_server(|path| path.starts_with("/api/v1").then(|| status(401, "Unauthorized", "Unauthorized")));
    refused(&Run::new("strict", &[]).on(strict).ended(), 1, &["does not accept the credentials", "401"]);
    let narrow =
        api_server(|path| path.starts_with("/api/v1").then(|| status(403, "Forbidden", "no namespaces for you")));
    refused(&Run::new("narrow", &[]).on(narrow).ended(), 1, &["we may not: 403 no namespaces for you"]);
}

#[test]
fn garbage_in_place_of_the_version_is_asked_for_again() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let garbage = |number: usize| match number {
        0 => Some((200, "application/json", "{\"major\":\"x\",\"minor\":\"-1\"}".to_owned())),
        1 => Some((200, "text/html", "<html>starting</html>".to_owned())),
        2 => Some(reply(200, &json!({"major": "1", "minor": "99999999999999999999"}))),
        _ => None,
    };
    let server = api_server(move |path| {
        let number = (path == "/version").then(|| asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        number.and_then(garbage)
    });
    refused(&Run::new("garbage", &[]).on(server).env("STARTUP_TIMEOUT", "20s").ended(), 2, &["AWS_REGION"]);
    let never = api_server(|path| (path == "/version").then(|| reply(200, &json!({"major": "", "minor": ""}))));
    refused(
        &Run::new("no-version", &[]).on(never).env("STARTUP_TIMEOUT", "2s").ended(),
        1,
        &["GET /version was tried", "no version of Kubernetes"],
    );
}

#[test]
fn missing_crds_are_named_with_the_command_that_installs_them() {
    let bare = api_server(|path| path.starts_with("/apis/karpenter").then(not_found));
    let ended = Run::new("bare", &[]).on(bare).ended();
    let all = ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"];
    refused(&ended, 1, &all);
    refused(&ended, 1, &["dovetail crds | kubectl apply -f -"]);
    let half = api_server(|path| {
        let pool =
            json!({"name": "nodepools", "kind": "NodePool", "namespaced": false, "singularName": "", "verbs": []});
        let only = json!({"kind": "APIResourceList", "groupVersion": "karpenter.sh/v1", "resources": [pool]});
        (path == "/apis/karpenter.sh/v1").then(|| reply(200, &only))
    });
    let ended = Run::new("half", &[]).on(half).ended();
    refused(&ended, 1, &["CRDs are missing: nodeclaims.karpenter.sh (karpenter.sh/v1); install"]);
}

#[test]
fn crds_lacking_fields_are_told_with_the_fields_and_the_command() {
    let older = api_server(|path| {
        let mark = json!([{"group": "karpenter.sh", "version": "v1", "kind": "NodePool"}]);
        let spec = json!({"properties": {"template": {"x-kubernetes-preserve-unknown-fields": true}, "weight": {}}});
        let pool = json!({"x-kubernetes-group-version-kind": mark, "properties": {"spec": spec, "status": {"x-kubernetes-preserve-unknown-fields": true}}});
        let document = json!({"openapi": "3.0.0", "components": {"schemas": {"sh.karpenter.v1.NodePool": pool}}});
        (path == "/openapi/v3/apis/karpenter.sh/v1").then(|| reply(200, &document))
    });
    let ended = Run::new("older-crds", &[]).on(older).ended();
    refused(&ended, 2, &["AWS_REGION"]);
    let told = [
        "nodepools.karpenter.sh has no spec.disruption, spec.limits, ",
        "dovetail crds | kubectl apply --server-side -f -",
    ];
    assert!(told.iter().all(|part| ended.stdout.contains(part)), "{}", ended.stdout);
    let hidden =
        api_server(|path| path.starts_with("/openapi").then(|| status(403, "Forbidden", "no documents for you")));
    let ended = Run::new("hidden-crds", &[]).on(hidden).ended();
    assert!(
        ended.stdout.contains("cannot be seen: ") && ended.stdout.contains("no documents for you"),
        "{}",
        ended.stdout
    );
}

fn deployment(namespace: &str, name: &str, image: &str) -> serde_json::Value {
    let pod = json!({"spec": {"containers": [{"name": "c", "image": image}]}});
    json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"replicas": 2, "selector": {}, "template": pod}})
}

#[test]
fn objects_of_a_namespace_are_warned_of_and_end_nothing() {
    let labelled = || {
        let mut one = deployment("evil", "web", "registry.internal/web:1");
        one["metadata"]["labels"] = json!({"app": "karpenter"});
        one
    };
    let found = [deployment("karpenter", "karpenter", "public.ecr.aws/karpenter/controller:1.14.0"), labelled()];
    let by_deployment = api_server(move |path| path.contains("/deployments").then(|| list(&found)));
    let ended = Run::new("karpenter", &[]).on(by_deployment).ended();
    refused(&ended, 2, &["AWS_REGION"]);
    for name in ["Deployment karpenter/karpenter", "Deployment evil/web"] {
        assert!(ended.stdout.contains(&format!("{name} looks like a Karpenter")), "{}", ended.stdout);
    }

    let by_lease = api_server(lease_elsewhere(|| ("2100-01-01T00:00:00.000000Z".to_owned(), i32::MAX)));
    let ended = Run::new("lease", &[]).on(by_lease).ended();
    refused(&ended, 2, &["AWS_REGION"]);
    let told = "Lease karpenter/karpenter-leader-election is held by kp-1_x: this replica stands by for 60 s at most";
    assert!(ended.stdout.contains(told), "{}", ended.stdout);

    // In our own namespace the Lease is shared.
    let found = deployment("kube-system", "karpenter", "public.ecr.aws/karpenter/controller:1.14.0");
    let beside = api_server(move |path| path.contains("/deployments").then(|| list(std::slice::from_ref(&found))));
    let ended = Run::new("beside", &[]).on(beside).ended();
    refused(&ended, 2, &["AWS_REGION"]);
    assert!(ended.stdout.contains("it shares our Lease, we stand by while it leads"), "{}", ended.stdout);
    let ended = Run::new("beside", &["--disable-leader-election"]).on(beside).ended();
    refused(&ended, 2, &["AWS_REGION"]);
    assert!(ended.stdout.contains("looks like a Karpenter that does not wait for our Lease"), "{}", ended.stdout);
}

/// Answers for Leases that one elsewhere is held, renewed then and for so long, after many that somebody has made up.
fn lease_elsewhere(renewed: impl Fn() -> (String, i32)) -> impl Fn(&str) -> Option<stub::Reply> {
    move |path| {
        let made_up = |nth: usize| {
            json!({"metadata": {"name": "karpenter-leader-election", "namespace": format!("a{nth}")}, "spec":
                {"holderIdentity": "x", "leaseDurationSeconds": 1, "renewTime": "2100-01-01T00:00:00.000000Z"}})
        };
        let meta = json!({"name": "karpenter-leader-election", "namespace": "karpenter"});
        let (time, seconds) = renewed();
        let spec = json!({"holderIdentity": "kp-1_x", "leaseDurationSeconds": seconds, "renewTime": time});
        let asked = path.contains("/leases") && path.contains("karpenter-leader-election");
        let all: Vec<Value> = (0..60).map(made_up).chain([json!({"metadata": meta, "spec": spec})]).collect();
        asked.then(|| list(&all))
    }
}

#[test]
fn lease_renewed_elsewhere_ends_us_where_its_account_may_launch() {
    let aws = serve(|_, _| ec2_error(412, "DryRunOperation"));
    let cluster = |allowed: bool| {
        let begun = Instant::now();
        let renewed = move || (format!("2100-01-01T00:00:{:02}.000000Z", begun.elapsed().as_secs().min(59)), 15);
        let leases = lease_elsewhere(renewed);
        api_server(move |path| {
            let pod = json!({"metadata": {"name": "kp-1", "namespace": "karpenter"},
                "spec": {"serviceAccountName": "kp", "containers": []}});
            let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
                "spec": {}, "status": {"allowed": allowed}});
            match path.split('?').next().unwrap_or_default() {
                "/api/v1/namespaces/karpenter/pods" => Some(list(&[pod])),
                "/apis/authorization.k8s.io/v1/subjectaccessreviews" => Some(reply(201, &review)),
                _ => leases(path),
            }
        })
    };
    let endpoint = ["--cluster-endpoint", "https://demo.example"];
    let harmless = Run::new("renewed-harmless", &endpoint).on(cluster(false)).aws(aws).start();
    let ended = Run::new("renewed", &endpoint).on(cluster(true)).aws(aws).ended();
    let account = "system:serviceaccount:karpenter:kp and may create NodeClaims";
    let holds = ["something else provisions", "Lease karpenter/karpenter-leader-election is held by kp-1_x", account];
    refused(&ended, 1, &[holds.as_slice(), &["scale it to 0"]].concat());
    let mut harmless = harmless;
    let told = |line: &Value| {
        let said = line["message"].as_str().unwrap_or_default();
        said.contains("whose ServiceAccount may not create NodeClaims (system:serviceaccount:karpenter:kp)")
    };
    harmless.line(told);
    harmless.event("starting");
}

#[test]
fn cluster_autoscaler_or_being_unable_to_look_is_warned_of() {
    let found = deployment("kube-system", "ca", "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0");
    let beside = api_server(move |path| path.contains("/deployments").then(|| list(std::slice::from_ref(&found))));
    let ended = Run::new("autoscaler", &[]).on(beside).ended();
    refused(&ended, 2, &["AWS_REGION"]);
    assert!(ended.stdout.contains("a Cluster Autoscaler runs here (Deployment kube-system/ca)"), "{}", ended.stdout);
    let narrow =
        api_server(|path| path.contains("/deployments").then(|| status(403, "Forbidden", "no deployments for you")));
    let ended = Run::new("blind", &[]).on(narrow).ended();
    refused(&ended, 2, &["AWS_REGION"]);
    assert!(
        ended.stdout.contains("cannot be seen") && ended.stdout.contains("no deployments for you"),
        "{}",
        ended.stdout
    );
}

#[test]
fn settings_without_effect_are_warned_of_once_at_the_start() {
    let server = api_server(|_| None);
    let run = Run::new("in-vain", &["--enable-profiling"]).on(server).env("FEATURE_GATES", "Drfit=true");
    let ended = run.env("IGNORE_DRA_REQUESTS", "true").env("MEMORY_LIMIT", "-1").ended();
    let told: Vec<&str> = ended.stdout.lines().filter(|line| line.contains("without effect: ")).collect();
    assert_eq!(told.len(), 2, "{told:#?}");
    for (line, what) in told.iter().zip(["ENABLE_PROFILING=true", "FEATURE_GATES Drfit"]) {
        assert!(line.contains(what) && line.contains("WARN"), "{line}");
    }
}

#[test]
fn an_api_server_that_is_older_than_is_asked_for_is_refused() {
    let server = api_server(|_| None);
    let ended = Run::new("too-old", &[]).on(server).env("KUBERNETES_MIN_VERSION", "1.99.0-0").ended();
    refused(
        &ended,
        1,
        &["the API server is Kubernetes 1.", "KUBERNETES_MIN_VERSION (--kubernetes-min-version) is 1.99"],
    );
}

#[test]
fn served_older_kinds_are_warned_of_once_with_what_to_do() {
    let kinds = |all: &[&str]| {
        let one =
            |kind: &&str| json!({"name": "x", "kind": kind, "namespaced": false, "singularName": "", "verbs": []});
        let resources: Vec<_> = all.iter().map(one).collect();
        reply(200, &json!({"kind": "APIResourceList", "groupVersion": "x", "resources": resources}))
    };
    let older = api_server(move |path| match path.split('?').next().unwrap_or_default() {
        "/apis/karpenter.sh/v1beta1" => Some(kinds(&["NodePool", "NodeClaim"])),
        "/apis/karpenter.sh/v1alpha5" => Some(kinds(&["Provisioner"])),
        // NodeOverlay is of Karpenter's present versions.
        "/apis/karpenter.sh/v1alpha1" => Some(kinds(&["NodeOverlay"])),
        _ => None,
    });
    let ended = Run::new("older", &[]).on(older).ended();
    refused(&ended, 2, &["AWS_REGION"]);
    let said = |text: &str| ended.stdout.lines().filter(|line| line.contains(text)).count();
    assert_eq!(
        said("NodePool of karpenter.sh/v1beta1, NodeClaim of karpenter.sh/v1beta1: the installed CRDs serve them"),
        1
    );
    assert_eq!(said("NodeOverlay"), 0);
    let present = Run::new("present", &[]).on(api_server(|_| None)).ended();
    assert!(!present.stdout.contains("v1beta1") && !present.stdout.contains("v1alpha5"), "{}", present.stdout);
}

#[test]
fn aws_that_cannot_be_used_is_refused_by_what_is_missing() {
    let api = api_server(|_| None);
    refused(&Run::new("no-region", &[]).on(api).ended(), 2, &["AWS_REGION (--aws-region): the AWS region is unknown"]);
    let run = Run::new("no-keys", &["--aws-region", "us-east-1"]).on(api);
    refused(&run.ended(), 1, &["there are no AWS credentials", "IRSA or pod identity"]);

    let strict = serve(|_, _| ec2_error(401, "AuthFailure"));
    let ended = Run::new("bad-keys", &[]).on(api).aws(strict).ended();
    refused(&ended, 1, &["AWS does not accept the credentials (AuthFailure)", "because of AuthFailure"]);
    let narrow = serve(|_, _| ec2_error(403, "UnauthorizedOperation"));
    let ended = Run::new("few-rights", &[]).on(api).aws(narrow).ended();
    refused(&ended, 1, &["EC2 in us-east-1", "AWS does not let us (UnauthorizedOperation)"]);
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    refused(&Run::new("aws-away", &[]).on(api).aws(gone).ended(), 1, &["EC2 in us-east-1 cannot be reached"]);
}

#[test]
fn a_cluster_that_eks_does_not_know_needs_its_endpoint_given() {
    let api = api_server(|_| None);
    let no_eks = serve(|path, _| match path.starts_with("/clusters") {
        true => {
            reply(404, &json!({"__type": "ResourceNotFoundException", "message": "No cluster found for name: demo."}))
        }
        false => ec2_error(412, "DryRunOperation"),
    });
    let ended = Run::new("no-eks", &[]).on(api).aws(no_eks).ended();
    refused(&ended, 1, &["CLUSTER_ENDPOINT is not given", "\"demo\"", "No cluster found"]);
    let run = Run::new("endpoint", &["--cluster-endpoint", "https://demo.example"]).on(api).aws(no_eks);
    let mut running = run.start();
    let line = running.line(|line| line["message"] == "everything that is needed is there");
    assert_eq!((&line["endpoint"], &line["kubernetes"]), (&json!("https://demo.example"), &json!("1.33")));
}

#[test]
fn queue_of_another_region_and_other_cluster_name_are_refused() {
    let aws = serve(|_, _| ec2_error(412, "DryRunOperation"));
    let endpoint = ["--cluster-endpoint", "https://demo.example"];
    let queue = ["--interruption-queue", "arn:aws:sqs:eu-west-1:111122223333:demo"];
    let ended = Run::new("far-queue", &[endpoint, queue].concat()).on(api_server(|_| None)).aws(aws).ended();
    refused(
        &ended,
        2,
        &["INTERRUPTION_QUEUE", "one of eu-west-1, the cluster is in us-east-1", "a queue of us-east-1"],
    );

    // Labels of eksctl's own nodes, and of one of ours, which was made under whatever name was given.
    let nodes = |own: &'static str| {
        api_server(move |path| {
            let node = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
            let items = [
                node("a", json!({"alpha.eksctl.io/cluster-name": own})),
                node("c", json!({"alpha.eksctl.io/cluster-name": if own == "evil" { "demo" } else { own }})),
                node("b", json!({"karpenter.sh/nodepool": "default", "alpha.eksctl.io/cluster-name": "older"})),
            ];
            let list = json!({"apiVersion": "v1", "kind": "NodeList", "metadata": {}, "items": items});
            path.starts_with("/api/v1/nodes?").then(|| reply(200, &list))
        })
    };
    let ended = Run::new("other-name", &endpoint).on(nodes("prod")).aws(aws).ended();
    refused(&ended, 2, &["CLUSTER_NAME", "it is called prod, not \"demo\"", "the stack of that name"]);
    for (run, own) in [("own-name", "demo"), ("one-liar", "evil")] {
        let mut running = Run::new(run, &endpoint).on(nodes(own)).aws(aws).start();
        running.line(|line| line["message"] == "everything that is needed is there");
        assert_eq!(running.said().contains("it is called evil"), own == "evil", "{}", running.said());
    }
}

#[test]
fn a_port_that_is_taken_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let port = address.port().to_string();
    let run = || {
        Run::new("port", &["--cluster-name", "demo"]).env("KUBECONFIG", &stub::kubeconfig("port", "http://127.0.0.1:1"))
    };
    let ended = run().env("METRICS_PORT", &port).ended();
    refused(&ended, 1, &["METRICS_PORT (--metrics-port)", &format!("{address} is taken by another process")]);
    let ended = run().env("HEALTH_PROBE_PORT", &port).ended();
    refused(&ended, 1, &["HEALTH_PROBE_PORT (--health-probe-port)"]);
    let ended = run().env("BIND_ADDRESS", "192.0.2.1").ended();
    refused(&ended, 1, &["192.0.2.1:0 (BIND_ADDRESS, --bind-address) cannot be had"]);
}

#[test]
fn waiting_run_is_alive_but_not_ready_and_a_signal_ends_it() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // A console that cannot be served is no reason not to provision.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let run = Run::new("waiting", &[]).on(gone).env("STARTUP_TIMEOUT", "60s").env("CONSOLE_PORT", &port);
    let mut running = run.start();
    let warned = running.line(|line| line["level"] == "WARN");
    let why = warned["message"].as_str().unwrap();
    assert!(why.contains("there is no console: CONSOLE_PORT") && why.contains("is taken"), "{why}");
    let line = running.line(|line| !line["health"].is_null());
    let health = line["health"].as_str().unwrap();
    assert!(health.starts_with("127.0.0.1:"), "outside of a cluster nobody else can ask: {health}");
    assert_eq!(get(health, "/healthz"), (200, "ok\n".into()));
    assert_eq!(get(health, "/readyz"), (503, "it is starting\n".into()));
    assert_eq!(get(health, "/metrics").0, 404);
    running.signal("-TERM");
    assert_eq!(running.ended().code, Some(0));
}

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election";

#[test]
fn run_launches_nodes_reports_its_health_and_hands_over_at_once() {
    let sandbox = Sandbox::start("sandbox", &["deploy/examples/spot.yaml", "deploy/examples/inflate-400.yaml"]);
    let mut first = sandbox.run("first").env("INTERRUPTION_QUEUE", "nowhere").start();
    let serving = first.line(|line| !line["health"].is_null());
    let elected = first.event("elected");
    assert_eq!(elected["lease"], "karpenter-leader-election");
    let mut second = sandbox.run("second").env("CONSOLE_TOKEN", CONSOLE_TOKEN).start();
    let holder = second.event("standby")["holder"].as_str().unwrap().to_owned();
    assert_eq!(sandbox.object(LEASE)["spec"]["holderIdentity"], holder.as_str());

    assert_eq!(first.event("batched")["level"], "INFO");
    first.event("launched");
    let (health, metrics) = (serving["health"].as_str().unwrap(), serving["metrics"].as_str().unwrap());
    let begun = Instant::now();
    while get(health, "/readyz").0 != 200 {
        assert!(begun.elapsed() < LONGEST_WAIT, "{:?}", get(health, "/readyz"));
        std::thread::sleep(Duration::from_millis(200));
    }
    let (_, text) = get(metrics, "/metrics");
    let has = |line: &str| text.lines().any(|found| found == line);
    assert!(has("dovetail_leader 1") && has("karpenter_cluster_state_synced 1"), "{text}");
    assert!(text.contains("karpenter_nodeclaims_created_total{reason=\"provisioned\",nodepool=\""), "{text}");
    metrics_come_in_both_formats(metrics, &text);
    the_missing_queue_is_said(&mut first, &sandbox, metrics);

    the_console_shows_it(&console_of(&mut first), &elected);
    only_who_carries_the_token_sees(&console_of(&mut second));

    first.signal("-TERM");
    let ended = first.ended();
    let lease = sandbox.object(LEASE);
    assert_ne!(lease["spec"]["holderIdentity"], holder.as_str(), "it is given back and need not run out");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("deposed: shutting down") && ended.stderr.is_empty(), "{}", ended.stderr);
    assert!(!ended.stdout.contains("installed CRDs"), "its own CRDs lack nothing: {}", ended.stdout);
    assert_eq!(second.event("elected")["term"], elected["term"].as_u64().unwrap() + 1);
    second.signal("-INT");
    assert_eq!(second.ended().code, Some(0));
    assert_eq!(sandbox.object(LEASE)["spec"]["holderIdentity"], "");
}

/// A page of metrics without an `Accept` is Prometheus' text format; OpenMetrics is for who asks.
fn metrics_come_in_both_formats(metrics: &str, text: &str) {
    assert!(!text.contains("# EOF") && !text.contains("=\"\""), "{text}");
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert_eq!(name.ends_with("_total") && kind != "untyped", kind == "counter", "{line}");
    }
    let header = format!("host: {metrics}\r\naccept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    let (_, open) = asked(metrics, "/metrics", &header);
    assert!(open.ends_with("# EOF\n"), "{open}");
}

/// The queue that INTERRUPTION_QUEUE names is not there: log, event, condition and metrics have the service's own word for it.
fn the_missing_queue_is_said(first: &mut stub::Running, sandbox: &Sandbox, metrics: &str) {
    let code = first.event("spot_unheard")["code"].as_str().unwrap().to_owned();
    assert!(["NonExistentQueue", "QueueDoesNotExist"].contains(&code.as_str()), "{code}");
    let calls = "{controller=\"interruption\",method=\"GetQueueUrl\",provider=\"aws\",error=";
    let counted = format!("karpenter_cloudprovider_errors_total{calls}\"{code}\"}}");
    let begun = Instant::now();
    loop {
        let (_, text) = get(metrics, "/metrics");
        let has = |line: &str| text.lines().any(|found| found.starts_with(line));
        let events = sandbox.object("/api/v1/events?fieldSelector=source%3Dkarpenter");
        let told = events["items"].as_array().unwrap().iter().any(|event| event["reason"] == "InterruptionsNotHeard");
        let pools = sandbox.object("/apis/karpenter.sh/v1/nodepools");
        let of_pool = |pool: &Value| pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let heard = |one: Value| one["type"] == "dovetail.dev/InterruptionsHeard" && one["reason"] == code.as_str();
        let condition = pools["items"].as_array().unwrap().iter().flat_map(of_pool).any(heard);
        if told && condition && has("dovetail_interruption_queue_heard 0") && has(&counted) {
            return;
        }
        assert!(begun.elapsed() < LONGEST_WAIT, "{events}\n{pools}\n{text}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn console_of(running: &mut stub::Running) -> String {
    running.line(|line| !line["console"].is_null())["console"].as_str().unwrap().to_owned()
}

fn the_console_shows_it(console: &str, elected: &Value) {
    assert!(console.starts_with("127.0.0.1:"), "without a token nobody else can ask: {console}");
    let (status, page) = get(console, "/");
    assert!(status == 200 && page.contains("<title>Dovetail</title>") && !page.contains("https://"));
    let begun = Instant::now();
    let state = loop {
        let (status, text) = get(console, "/console/state");
        assert_eq!(status, 200);
        let state: Value = serde_json::from_str(&text).unwrap();
        if state["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty()) {
            break state;
        }
        assert!(begun.elapsed() < LONGEST_WAIT, "no node is shown");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!((&state["cluster"], &state["term"]), (&Value::from("demo"), &elected["term"]));
    let told: Vec<&str> =
        state["timeline"].as_array().unwrap().iter().filter_map(|line| line["event"].as_str()).collect();
    assert!(told.contains(&"elected") && told.contains(&"launched"), "{told:?}");
    the_console_has_its_kubernetes_events(console);
    let pool = explained(console, "kind=nodepool&name=default");
    assert!(pool["lines"][0].as_str().is_some_and(|line| line.starts_with("NodePool default")), "{pool}");
    assert_eq!(explained(console, "kind=node&name=none")["why"], "it is not there any more");
    assert_eq!(get(console, "/nowhere").0, 404);
    assert_eq!(asked(console, "/console/state", "host: evil.example").0, 403, "by a name that points here");
    assert_eq!(asked(console, "/", &format!("host: {console}\r\norigin: https://evil.example")).0, 403);
}

/// Events of Dovetail that `kubectl get events` has are on the page, too.
fn the_console_has_its_kubernetes_events(console: &str) {
    let begun = Instant::now();
    loop {
        let state: Value = serde_json::from_str(&get(console, "/console/state").1).unwrap();
        let events = state["events"].as_array().unwrap();
        let nominated = |one: &&Value| one["reason"] == "Nominated" && one["kind"] == "Pod" && one["written"] == true;
        if let Some(event) = events.iter().find(nominated) {
            assert!(event["message"].as_str().unwrap().contains("should schedule on"), "{event}");
            return;
        }
        assert!(begun.elapsed() < LONGEST_WAIT, "{events:#?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The console's answer to a question, once it is worked out.
fn explained(console: &str, query: &str) -> Value {
    for _ in 0..100 {
        let (status, text) = get(console, &format!("/console/explain?{query}"));
        let answer: Value = serde_json::from_str(&text).unwrap();
        if status != 200 || !matches!(answer["state"].as_str(), Some("computing" | "busy")) {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Value::Null
}

fn only_who_carries_the_token_sees(console: &str) {
    let with = |header: &str| asked(console, "/console/state", &format!("host: a.example\r\n{header}"));
    assert_eq!(with("accept: */*").0, 401);
    assert_eq!(with("authorization: Bearer another token at all").0, 401);
    assert_eq!(with(&format!("authorization: Bearer {CONSOLE_TOKEN}")).0, 200);
}

#[test]
fn the_help_has_every_setting_once() {
    let output = common::dovetail(&["run", "--help"]);
    let text = common::stdout(&output);
    for known in dovetail_actors::settings::TABLE {
        assert_eq!(text.matches(&format!("[{}]", known.name)).count(), 1, "{}", known.name);
    }
    assert_eq!(output.status.code(), Some(0));
}
