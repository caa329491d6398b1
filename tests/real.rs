//! The binary as two processes on a real control plane, under the chart's account and roles, with moto as its AWS. What is
//! not there is built first (Go, Python; minutes): see tests/real/README.md.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod common;
#[path = "real/webhook.rs"]
mod webhook;

#[path = "real/charts.rs"]
mod charts;

use std::collections::BTreeSet;
use std::time::Duration;

use common::real::{self, POOL, Real};
use common::spans::the_way_up;

const INFLATE: &str = "deploy/examples/inflate-400.yaml";

/// Tests that break nothing share a cluster: each leaves nothing to the next.
#[test]
fn cluster_refuses_manifests_serves_400_pods_and_ends_what_goes() {
    let mut real = Real::start("shared", &[]);
    invalid_manifest_is_refused_by_the_rules_in_the_crds(&real);
    four_hundred_pods_get_about_fifteen_nodes_that_go_with_them(&mut real);
    deleted_node_takes_its_instance_and_deleted_pool_all_it_owns(&real);
}

/// 003: 400 pods on m5.large and m5.2xlarge with at most thirty more on one node than on another.
fn four_hundred_pods_get_about_fifteen_nodes_that_go_with_them(real: &mut Real) {
    let types = "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.2xlarge]}";
    real.ok(&["apply", "-f", &real::pool_with("inflate", types)]);
    real.two_replicas();
    real.ok(&["apply", "-f", "tests/fixtures/posts/003-inflate-400-spread.yaml"]);
    real.until("400 pods are Ready", |real| real.ready() == 400);
    let (claims, nodes) = (real.objects("nodeclaims"), real.objects("nodes"));
    assert_eq!((claims.len(), nodes.len(), real.instances()), (nodes.len(), claims.len(), nodes.len()));
    // kube-scheduler, to which the spread is a wish, may put one more on a node that came before the others.
    let planned: Vec<u32> = claims.iter().map(planned_pods).collect();
    assert!((13..=17).contains(&planned.len()) && planned.iter().all(|pods| *pods <= 30), "{planned:?}");
    let held = real.pods_by_node("inflate");
    assert!(held.values().all(|pods| *pods <= 31), "{held:?}");
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
    let said = real.said();
    let gone: Vec<_> = said.iter().filter(|line| line["event"] == "node_deleted").map(|line| &line["node"]).collect();
    let each: BTreeSet<_> = gone.iter().map(|node| node.to_string()).collect();
    assert_eq!((gone.len(), each.len()), (nodes.len(), nodes.len()), "each is told of once: {gone:?}");
    real.ok(&["delete", "deployment/inflate", "--timeout=600s"]);
}

/// Number of pods that a NodeClaim was planned for.
fn planned_pods(claim: &serde_json::Value) -> u32 {
    claim["spec"]["resources"]["requests"]["pods"].as_str().unwrap().parse().unwrap()
}

/// As behind an etcd of before 3.5: a watch is no list, and is refused when it is asked to be one.
#[test]
fn api_server_without_watch_list_is_served_by_list_and_watch() {
    let mut real = Real::gated("watch-list", "WatchList=false");
    let streamed = "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let refused = real.kubectl(&["get", "--raw", streamed]);
    assert!(common::stderr(&refused).contains("sendInitialEvents"), "{}", common::stderr(&refused));
    real.ok(&["apply", "-f", POOL]);
    real.two_replicas();
    real.ok(&["create", "deployment", "web", "--image=web:1", "--replicas=8"]);
    real.ok(&["set", "resources", "deployment/web", "--requests=cpu=1,memory=1Gi"]);
    real.ok(&["rollout", "status", "deployment/web", "--timeout=600s"]);
    real.ok(&["scale", "deployment/web", "--replicas=0"]);
    real.until_nothing_is_left();
    real.nothing_was_forbidden();
    let said = real.said();
    let pages = said.iter().filter(|line| line["event"] == "lists_by_pages");
    assert_eq!(pages.count(), 2, "each replica says once that its lists come by pages: {said:#?}");
    let watches = said.iter().filter(|line| line.to_string().contains("watching"));
    assert_eq!(watches.count(), 0, "no watch was told of as failing: {said:#?}");
}

/// Replicas run already; their pool becomes the one of the manifests.
fn deleted_node_takes_its_instance_and_deleted_pool_all_it_owns(real: &Real) {
    real.ok(&["apply", "-f", POOL]);
    real.ok(&["create", "deployment", "web", "--image=web:1", "--replicas=6"]);
    real.ok(&["set", "resources", "deployment/web", "--requests=cpu=1500m,memory=1Gi"]);
    real.ok(&["rollout", "status", "deployment/web", "--timeout=600s"]);
    let before = real.names("nodes");
    let gone = real.ok(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.nodeName}"]);
    real.ok(&["delete", "node", &gone, "--timeout=600s"]);
    real.until("the pods of the deleted node are Ready elsewhere", |real| real.ready() == 6);
    let after = real.names("nodes");
    assert!(before.contains(&gone) && !after.contains(&gone), "{gone} of {before:?}, now {after:?}");
    real.until("its instance has ended", |real| real.instances() == real.objects("nodes").len());
    assert_eq!(real.objects("nodeclaims").len(), real.objects("nodes").len());

    real.ok(&["delete", "nodepool", "default", "--timeout=600s"]);
    real.until_nothing_is_left();
    assert_eq!(real.objects("pods").len(), 6, "the pods wait, nobody deletes them");
    real.ok(&["delete", "ec2nodeclass", "default", "--timeout=600s"]);
    real.nothing_was_forbidden();
}

fn invalid_manifest_is_refused_by_the_rules_in_the_crds(real: &Real) {
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
        // As post 002 prints it.
        ("  role: KarpenterNodeRole-demo\n", "  role: KarpenterNodeRole-demo\"\n", "spec.role"),
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

/// One replica sends by gRPC, the other by HTTP; the leader is killed after it has launched and before a node has come.
#[test]
#[allow(clippy::too_many_lines)] // one table, or one course from beginning to end
fn jaeger_finds_by_pod_name_the_whole_trace_of_two_leaders() {
    // Nodes come when another leads: what is bound while nobody does is told by nobody.
    let mut real = Real::traced("jaeger", "35");
    real.ok(&["apply", "-f", POOL]);
    // However busy the machine is, the burst is one batch.
    let one_batch = "BATCH_BY_PACE=false BATCH_IDLE_DURATION=3s";
    real.order(&format!(
        "start dovetail-0 {one_batch} OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf OTEL_EXPORTER_OTLP_ENDPOINT={}",
        real.collector("http")
    ));
    real.order(&format!("start dovetail-1 {one_batch}"));
    // The types that the plan would like best are not to be had.
    real.order("refuse c6a.*");
    // Whoever begins to lead with pods waiting opens its batch with the first of them by uid: that of both would be one.
    let first = real.leader();
    std::thread::sleep(Duration::from_secs(5));
    real.ok(&["apply", "-f", INFLATE]);
    real.until("EC2 has launched for every claim", |real| {
        let claims = real.objects("nodeclaims").len();
        claims > 0 && real.instances() == claims
    });
    assert_eq!(real.leader(), first, "the leader has changed before it was killed");
    // A span is sent within a second of its end.
    std::thread::sleep(Duration::from_secs(2));
    assert!(real.objects("nodes").is_empty(), "a node has come before the leader was killed");
    real.order(&format!("kill {first}"));
    real.until("400 pods are Ready", |real| real.ready() == 400);
    let second = real.leader();
    assert_ne!(first, second);

    let services = real.jaeger("/api/services");
    assert!(services["data"].as_array().unwrap().contains(&"dovetail".into()), "{services}");
    let pod = real.names("pods")[0].clone();
    std::thread::sleep(Duration::from_secs(2));
    let found = real.traces("k8s.pod.name", &pod);
    let bound = found.named("pod").into_iter().find(|span| span.has("k8s.pod.name") == pod).expect("the pod's span");
    let log_events = found.whole(bound);
    the_way_up(&log_events);
    log_events.lies_in("batch", "pod");
    log_events.lies_in("pack", "batch");
    log_events.lies_in("refused", "CreateFleet");
    assert_eq!(log_events.parents("pod"), BTreeSet::from(["", "nodeclaim"]));
    assert_eq!(log_events.named("pod").len(), 400);
    assert!(
        log_events.named("refused").iter().all(|span| span.error.contains("InsufficientInstanceCapacity")),
        "{log_events:#?}"
    );
    assert!(
        log_events.named("refused").iter().all(|span| span.has("dovetail.instance.type").starts_with("c6a.")),
        "{log_events:#?}"
    );
    let packing = log_events.named("pack")[0];
    // The first told until EC2 had answered, its successor from the node on: in one trace.
    for (names, replica, term) in [
        (["batch", "solve", "pack", "launch", "CreateFleet"].as_slice(), &first, packing.term()),
        (&["register", "initialize", "nodeclaim", "pod"], &second, bound.term()),
    ] {
        for name in names {
            let (by, terms) =
                (log_events.is_proportional(name), log_events.named(name).into_iter().map(|span| span.term()));
            assert!(by.iter().all(|by| by.starts_with(replica.as_str())), "{name} by {by:?}");
            assert_eq!(terms.collect::<BTreeSet<_>>(), BTreeSet::from([term]), "{name}");
        }
    }
    assert!(bound.term() > packing.term());
    // The second found the pods waiting and expects them on what the first has launched: its packing points to that trace.
    let expected = real.traces("dovetail.pods.on_existing", "400");
    let taken_over = expected.named("pack").into_iter().find(|span| span.has("dovetail.pods.on_existing") == "400");
    let taken_over = taken_over.expect("the second's packing");
    assert_eq!((taken_over.links.as_slice(), taken_over.term()), ([bound.trace.clone()].as_slice(), bound.term()));

    // All nodes are to be taken back: each announcement has a trace of its own, found by its instance; a packing that
    // moves the pods of several points to no other trace than to those (that it does: tests/simulated/traces.rs).
    real.order("refuse");
    let nodes = real.objects("nodes");
    let ids =
        nodes.iter().map(|node| node["spec"]["providerID"].as_str().unwrap().rsplit('/').next().unwrap().to_owned());
    let instances: Vec<String> = ids.collect();
    for instance in &instances {
        real.order(&format!("warn {instance}"));
    }
    let old: Vec<&str> = nodes.iter().map(|node| node["metadata"]["name"].as_str().unwrap()).collect();
    real.until("the nodes are gone", |real| !real.names("nodes").iter().any(|one| old.contains(&one.as_str())));
    real.until("their pods are Ready elsewhere", |real| real.ready() == 400);
    std::thread::sleep(Duration::from_secs(2));
    let (mut announced, mut links, mut launched) = (BTreeSet::new(), BTreeSet::new(), 0);
    for instance in &instances {
        let found = real.traces("dovetail.instance.id", instance);
        let end =
            found.whole(found.named("removal").first().unwrap_or_else(|| panic!("the end of {instance}: {found:#?}")));
        end.lies_in("interruption", "");
        end.lies_in("removal", "interruption");
        end.lies_in("drain", "removal");
        end.lies_in("terminate", "removal");
        announced.insert(end.named("interruption")[0].trace.clone());
        let packings = end.named("pack");
        if !packings.is_empty() {
            end.lies_in("pack", "interruption");
        }
        // The pods of one may all have room on what was launched for those of another.
        if !end.named("nodeclaim").is_empty() {
            the_way_up(&end);
            launched += 1;
        }
        links.extend(packings.into_iter().flat_map(|packing| packing.links.clone()));
    }
    assert_eq!(announced.len(), instances.len());
    assert!(launched > 0, "nothing was launched for pods of interrupted nodes");
    assert!(links.is_subset(&announced), "{links:?} of {announced:?}");
    real.nothing_was_forbidden();
}

/// Two API servers over one etcd. A takeover each way; `tests/real/fence.py` plays twenty.
#[test]
fn both_api_servers_refuse_an_old_term_and_launches_stay_single() {
    proves("fence.py", "4", "each launched for once");
}

/// A script of tests/real comes to its end well and says so.
fn proves(script: &str, rounds: &str, says: &str) {
    let output = real::script(&format!("real/{script}"), &[rounds]);
    let said = common::stdout(&output);
    assert!(output.status.success() && said.contains(says), "{said}{}", common::stderr(&output));
    println!("{said}");
}

/// The second provider: Nodes without machines, and replicas without credentials. `cargo xtask proof kwok` has more pods.
#[test]
fn provider_kwok_serves_pods_without_aws_and_survives_a_kill() {
    let output = real::script("real/kwok_provider.py", &["--pods", "24"]);
    let said = common::stdout(&output);
    assert!(output.status.success() && said.contains("0 claim(s) do not hold"), "{said}{}", common::stderr(&output));
}

/// SIGTERM, SIGKILL, a zombie, an API server that stands still and a Lease that is deleted: a round each. `cargo xtask proof handover` plays five of each.
#[test]
fn leader_ending_in_mid_burst_doubles_or_loses_no_instance() {
    proves("handover.py", "1", "5 of 5 rounds");
}

/// Karpenter's own Lease in somebody else's hands, a Karpenter in another namespace, a Cluster Autoscaler.
#[test]
fn who_else_may_provision_is_stood_by_for_or_warned_of() {
    const LEASE: &str = "karpenter-leader-election";
    const KARPENTER: &str = "karpenter-7d9f5c6b8d-x2x4v";
    let mut real = Real::start("others", &[]);
    real.ok(&["apply", "-f", POOL]);
    real.ok(&["create", "deployment", "web", "--image=web:1", "--replicas=3"]);
    real.ok(&["set", "resources", "deployment/web", "--requests=cpu=1500m,memory=1Gi"]);
    let held = || {
        let now = format!("{:.6}", jiff::Timestamp::now());
        serde_json::json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": "kube-system"},
            "spec": {"holderIdentity": KARPENTER, "leaseDurationSeconds": 15, "leaseTransitions": 3, "acquireTime": now,
                "renewTime": now}})
    };
    real.ok(&["create", "-f", &common::write("held-lease.json", &held().to_string())]);
    real.order("start dovetail-0");
    // It is renewed for longer than it lasts.
    for _ in 0..8 {
        std::thread::sleep(Duration::from_secs(3));
        let renewed = serde_json::json!({"spec": {"renewTime": held()["spec"]["renewTime"]}}).to_string();
        real.ok(&["-n", "kube-system", "patch", "lease", LEASE, "--type=merge", "-p", &renewed]);
        assert!(
            real.objects("nodeclaims").is_empty() && real.leader().starts_with("karpenter"),
            "{}",
            real.log("dovetail-0")
        );
    }
    let said = real.log("dovetail-0");
    assert!(said.contains(&format!("standing by, {KARPENTER} leads")), "{said}");
    assert!(said.contains("it shares our Lease, we stand by while it leads"), "{said}");
    real.until("it leads when Karpenter renews no longer, and the pods are Ready", |real| real.ready() == 3);
    assert_eq!(real.leader(), "dovetail-0");
    let term = real.ok(&["-n", "kube-system", "get", "lease", LEASE, "-o", "jsonpath={.spec.leaseTransitions}"]);
    // Karpenter created the Lease, so that its count says nothing of terms before (docs/decisions/011).
    assert!(term.parse::<u64>().expect("a term") > 4, "above Karpenter's, and any before it: {term}");

    real.ok(&["create", "namespace", "infra"]);
    let controller = "--image=public.ecr.aws/karpenter/controller:1.14.0";
    // Anybody who has a namespace may do that: it proves nothing.
    real.ok(&["-n", "infra", "create", "deployment", "karpenter", controller]);
    let autoscaler = "--image=registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0";
    real.ok(&["-n", "infra", "create", "deployment", "scaler", autoscaler]);
    real.order("start dovetail-1");
    real.until("it stands by", |real| real.log("dovetail-1").contains("standing by, dovetail-0"));
    let said = real.log("dovetail-1");
    assert!(said.contains("a Cluster Autoscaler runs here (Deployment infra/scaler)"), "{said}");
    assert!(
        said.contains("Deployment infra/karpenter looks like a Karpenter that does not wait for our Lease"),
        "{said}"
    );
    assert!(real.runs("dovetail-0") && real.runs("dovetail-1"));
    real.nothing_was_forbidden();
}

#[test]
fn absent_api_server_and_restarted_aws_are_waited_for() {
    let mut real = Real::start("away", &[]);
    real.ok(&["apply", "-f", POOL]);
    real.two_replicas();
    real.ok(&["create", "deployment", "web", "--image=web:1", "--replicas=2"]);
    real.ok(&["set", "resources", "deployment/web", "--requests=cpu=1,memory=1Gi"]);
    real.ok(&["rollout", "status", "deployment/web", "--timeout=600s"]);

    // Longer than a Lease lasts: whoever led has stopped by itself.
    real.order("stop kube-apiserver");
    std::thread::sleep(Duration::from_secs(30));
    real.order("cont kube-apiserver");
    real.ok(&["scale", "deployment/web", "--replicas=12"]);
    real.until("it goes on where it was", |real| real.ready() == 12);
    let nodes = real.objects("nodes").len();
    assert_eq!((real.objects("nodeclaims").len(), real.instances()), (nodes, nodes), "nothing was launched twice");

    // An AWS that takes requests and does not answer.
    real.order("stop moto");
    real.ok(&["scale", "deployment/web", "--replicas=24"]);
    std::thread::sleep(Duration::from_secs(20));
    real.order("cont moto");
    real.until("what was asked for meanwhile comes", |real| real.ready() == 24);
    let nodes = real.objects("nodes").len();
    assert_eq!((real.objects("nodeclaims").len(), real.instances()), (nodes, nodes), "nothing was launched twice");

    // moto forgets everything when it ends, and gives its names again: so there is nothing beforehand.
    real.ok(&["scale", "deployment/web", "--replicas=0"]);
    real.until_nothing_is_left();
    real.order("kill kube-apiserver");
    real.order("start kube-apiserver");
    real.order("kill moto");
    real.ok(&["scale", "deployment/web", "--replicas=24"]);
    std::thread::sleep(Duration::from_secs(10));
    real.order("start moto");
    real.order("seed");
    let back = jiff::Timestamp::now().to_string();
    real.until("pods get nodes in the account that is new", |real| real.ready() == 24);
    real.nothing_was_forbidden_since(&back);
    // A server that was away is told of when it has been away for a while, and when it is back: once each time, by each who
    // asked.
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
fn leader_with_expired_certificate_steps_down_and_another_leads() {
    let mut real = Real::start("certificate", &[]);
    real.ok(&["apply", "-f", POOL]);
    real.order("certify dovetail-0 30");
    let config = real.file("dovetail-0.kubeconfig");
    real.order(&format!("start dovetail-0 KUBECONFIG={config}"));
    assert_eq!(real.leader(), "dovetail-0");
    real.order("start dovetail-1");
    real.until("the other leads", |real| real.leader() == "dovetail-1");
    real.ok(&["create", "deployment", "web", "--image=web:1", "--replicas=4"]);
    real.ok(&["set", "resources", "deployment/web", "--requests=cpu=1,memory=1Gi"]);
    real.ok(&["rollout", "status", "deployment/web", "--timeout=600s"]);
    std::thread::sleep(Duration::from_secs(20));
    assert!(real.runs("dovetail-0"), "it waits for better times: {}", real.log("dovetail-0"));
    // Requests of the election go before all else (the chart's FlowSchema).
    let metrics = real.ok(&["get", "--raw", "/metrics"]);
    let served = |line: &str| {
        line.starts_with("apiserver_flowcontrol_dispatched_requests_total{")
            && line.contains("flow_schema=\"dovetail-election\"")
            && line.contains("priority_level=\"leader-election\"")
    };
    let renewals: Vec<&str> = metrics.lines().filter(|line| served(line)).collect();
    assert_eq!(renewals.len(), 1, "{renewals:?}");
    // A watch that stood goes on until it is asked for anew; then it is refused, and that is told once of each kind.
    let log = real.log("dovetail-0");
    let refused = log.lines().filter(|line| line.contains("Unauthorized")).filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        Some((line["event"].as_str()?.to_owned(), line["what"].as_str().unwrap_or_default().to_owned()))
    });
    let mut told: std::collections::BTreeMap<_, usize> = std::collections::BTreeMap::new();
    refused.for_each(|line| *told.entry(line).or_default() += 1);
    assert!(told.contains_key(&("deposed".into(), String::new())), "{told:?}: {log}");
    assert!(told.keys().any(|(event, what)| event == "retrying" && what.starts_with("watching")), "{told:?}: {log}");
    assert!(told.values().all(|times| *times == 1), "{told:?}: {log}");
    assert!(log.lines().count() < 60, "{log}");
}

#[test]
fn leader_with_forgotten_connections_sees_news_in_two_minutes() {
    let mut real = Real::start("way", &[]);
    real.ok(&["apply", "-f", POOL]);
    real.order("start way");
    let config = real.file("way.kubeconfig");
    real.order(&format!("start dovetail-0 KUBECONFIG={config}"));
    assert_eq!(real.leader(), "dovetail-0");
    real.ok(&["create", "deployment", "web", "--image=web:1", "--replicas=4"]);
    real.ok(&["set", "resources", "deployment/web", "--requests=cpu=1,memory=1Gi"]);
    real.ok(&["rollout", "status", "deployment/web", "--timeout=600s"]);
    real.order("forget way");
    let forgotten = std::time::Instant::now();
    real.ok(&["scale", "deployment/web", "--replicas=24"]);
    real.until("what is new is seen", |real| real.ready() == 24);
    // Nobody closes such a connection: by kube-runtime's own figures a watch is given up after five minutes.
    assert!(
        forgotten.elapsed() < Duration::from_secs(120),
        "after {:?}: {}",
        forgotten.elapsed(),
        real.log("dovetail-0")
    );
    assert!(real.runs("dovetail-0"), "{}", real.log("dovetail-0"));
}

#[test]
fn stateful_set_gets_its_volumes_and_nodes_in_their_zone() {
    let mut real = Real::start("volumes", &[]);
    // Pods that start in order need a node each where nodes are small: of these, each holds some.
    let larger = "{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: [\"3\"]}";
    real.ok(&["apply", "-f", &real::pool_with("volumes", larger)]);
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

/// 40: what no eviction could move, with no second in which it is not there. About a minute, once everything is built.
#[test]
fn single_pod_under_a_pdb_of_one_moves_by_rollout_unmissed() {
    let mut real = Real::charted("rollout", "moves.rollout=true");
    real.ok(&["apply", "-f", POOL]);
    real.two_replicas();
    real.ok(&["apply", "-f", "tests/real/manifests/alone.yaml"]);
    real.until("the pod is Ready", |real| real.ready() == 1);
    let node = real.names("nodes").remove(0);
    let seen = real.follow_ready("deployment/alone");
    real.ok(&["delete", "node", &node, "--timeout=300s"]);
    real.until("it is Ready on another node", |real| real.ready() == 1 && !real.names("nodes").contains(&node));
    let counts = seen();
    assert!(counts.len() > 1 && counts.iter().all(|count| *count >= 1), "Ready pods: {counts:?}");
    let restarted = real.said().iter().filter(|line| line["event"] == "deployment_restarted").count();
    assert_eq!(restarted, 1);
    real.nothing_was_forbidden();
}
