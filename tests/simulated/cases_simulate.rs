//! Reports of autoscalers' users, played through by `simulate`: each right value by a small input of our own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use crate::played;

use common::manifests::{Pool, among, apart, class, container, cpu, pool_of, workload, workload_in};
use common::write;
use played::{Played, play_over};
use serde_json::Value;

fn play(name: &str, manifests: &[String], scenario: &str) -> Played {
    play_over(name, &manifests.concat(), scenario)
}

/// A pool of these types whose empty nodes go after a minute, and its class.
fn tidy(types: &str, more: &str) -> String {
    let requirements = format!(
        "{}, {}",
        among("node.kubernetes.io/instance-type", types),
        among("karpenter.sh/capacity-type", "on-demand")
    );
    let spec = format!(
        "disruption: {{consolidationPolicy: WhenEmpty, consolidateAfter: 1m, budgets: [{{nodes: 100%}}]}}{more}"
    );
    Pool { spec: &spec, requirements: &requirements, template: "expireAfter: Never", ..Pool::default() }.text()
        + &class("")
}

fn launched(played: &Played) -> u64 {
    played.report["launched"].as_u64().unwrap()
}

fn bound(played: &Played) -> u64 {
    played.report["pods"]["bound"].as_u64().unwrap()
}

/// Seconds at which this change happened to pods of a workload.
fn pods(played: &Played, owner: &str, change: &str) -> Vec<f64> {
    let of = |event: &&Value| event["kind"] == "pod" && event["change"] == change;
    let mut at = std::collections::BTreeMap::new();
    for event in played.events.iter().filter(|event| event["kind"] == "pod") {
        if event["change"] == "created" {
            at.insert(event["uid"].to_string(), event["owner"] == owner);
        }
    }
    let own = |event: &&Value| at.get(&event["uid"].to_string()) == Some(&true);
    played.events.iter().filter(of).filter(own).map(|event| event["t"].as_f64().unwrap()).collect()
}

/// Seconds at which replicas deleted NodeClaims.
fn removed(played: &Played) -> Vec<f64> {
    let of =
        |event: &&Value| event["resource"] == "nodeclaims" && event["verb"] == "delete" && !event["replica"].is_null();
    played
        .events
        .iter()
        .filter(of)
        .filter(|event| event["code"] == 200)
        .map(|event| event["t"].as_f64().unwrap())
        .collect()
}

fn violations(played: &Played) -> &Vec<Value> {
    played.report["invariants"]["violations"].as_array().unwrap()
}

fn range(namespace: &str, request: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: LimitRange\nmetadata: {{name: r, namespace: {namespace}}}\nspec: {{limits: [{{type: Container, defaultRequest: {{{request}}}}}]}}\n"
    )
}

#[test]
fn launch_for_sidecars_init_and_admission_violates_nothing() {
    let sidecar = format!(
        "initContainers: [{{name: mesh, image: pause, restartPolicy: Always, resources: {{requests: {{cpu: 1300m, memory: 1Gi}}}}}}], {}",
        cpu("100m")
    );
    let init = format!(
        "initContainers: [{{name: migrate, image: pause, resources: {{requests: {{cpu: 1500m}}}}}}], {}",
        cpu("50m")
    );
    let whole = format!("resources: {{requests: {{cpu: 1400m}}}}, {}", cpu("10m"));
    let overhead = "---\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: heavy}\nhandler: heavy\noverhead: {podFixed: {cpu: 1200m}}\n";
    let bare = "containers: [{name: main, image: pause}]";
    for (name, manifests) in [
        ("rehearsed-sidecar", vec![workload("Deployment", "web", 2, &sidecar)]),
        ("rehearsed-init", vec![workload("Deployment", "web", 2, &init)]),
        ("rehearsed-whole", vec![workload("Deployment", "web", 2, &whole)]),
        ("rehearsed-limits", vec![workload("Deployment", "web", 2, &container("main", "limits: {cpu: 1300m}"))]),
        (
            "rehearsed-overhead",
            vec![overhead.to_owned(), workload("Deployment", "web", 2, &format!("runtimeClassName: heavy, {bare}"))],
        ),
        ("rehearsed-set", vec![range("default", "cpu: 1300m"), workload("StatefulSet", "db", 3, bare)]),
        (
            "rehearsed-daemon",
            vec![
                range("agents", "cpu: 900m"),
                workload_in("agents", "DaemonSet", "agent", 1, bare),
                workload("Deployment", "web", 2, &format!("{}, {}", apart("web"), cpu("800m"))),
            ],
        ),
    ] {
        let played = play(name, &[vec![pool_of("m5.large")], manifests].concat(), "until: 10m\n");
        played.came_out_well();
    }
}

#[test]
fn daemonset_with_limits_or_namespace_defaults_costs_one_launch() {
    for (name, agent, more) in [
        ("limited", container("agent", "limits: {cpu: 600m}"), String::new()),
        ("ranged", "containers: [{name: agent, image: pause}]".to_owned(), range("agents", "cpu: 600m")),
    ] {
        let agent = workload_in("agents", "DaemonSet", "agent", 1, &agent);
        let played = play(
            name,
            &[pool_of("m5.large, m5.xlarge"), more, agent, workload("Deployment", "web", 1, &cpu("1500m"))],
            "until: 10m\n",
        );
        played.came_out_well();
        assert_eq!(launched(&played), 1, "{name}");
    }
}

#[test]
fn a_pod_that_no_node_of_the_pool_can_ever_take_costs_no_launch() {
    let port = "containers: [{name: main, image: pause, ports: [{containerPort: 9100, hostPort: 9100}]}]";
    let everywhere = format!("tolerations: [{{operator: Exists}}], {}", cpu("10m"));
    for (name, agent, web) in [
        ("hopeless-port", port.to_owned(), port.to_owned()),
        ("hopeless-apart", everywhere, format!("{}, {}", apart("agent"), cpu("100m"))),
    ] {
        let played = play(
            name,
            &[pool_of("m5.large"), workload("DaemonSet", "agent", 1, &agent), workload("Deployment", "web", 1, &web)],
            "until: 20m\n",
        );
        assert_eq!((launched(&played), played.report["pods"]["pending"].as_object().unwrap().len()), (0, 1), "{name}");
    }
}

#[test]
fn a_limit_of_nodes_is_not_overrun_by_a_burst() {
    let pods = workload("Deployment", "web", 5, &format!("{}, {}", apart("web"), cpu("100m")));
    let played = play("burst", &[tidy("m5.large", ", limits: {nodes: 3}"), pods], "until: 10m\n");
    assert_eq!((launched(&played), bound(&played)), (3, 3));
}

#[test]
fn limit_reached_in_mid_scale_leaves_the_rest_to_lighter_pool() {
    let requirements = format!(
        "{}, {}",
        among("node.kubernetes.io/instance-type", "m5.large"),
        among("karpenter.sh/capacity-type", "on-demand")
    );
    let spec = |own: &str| {
        format!(
            "disruption: {{consolidationPolicy: WhenEmpty, consolidateAfter: 30s, budgets: [{{nodes: 100%}}]}}, {own}"
        )
    };
    let (heavy, light) = (spec("weight: 10, limits: {cpu: 4}"), spec("weight: 1"));
    let pool = |name, spec| Pool { name, spec, requirements: &requirements, ..Pool::default() }.text();
    let steps = "steps:\n  - {at: 6m, scale: {kind: Deployment, name: web, replicas: 0}}\n  - {at: 12m, scale: {kind: Deployment, name: web, replicas: 2}}\nuntil: 18m\n";
    let played = play(
        "mid-scale",
        &[pool("heavy", &heavy), pool("light", &light), class(""), workload("Deployment", "web", 3, &cpu("1500m"))],
        steps,
    );
    played.came_out_well();
    let pools: Vec<&str> = played.report["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["labels"]["karpenter.sh/nodepool"].as_str().unwrap())
        .collect();
    assert_eq!((pools, launched(&played)), (vec!["heavy", "heavy"], 5));
}

#[test]
fn the_waves_of_a_job_run_on_the_nodes_of_the_first() {
    let job = workload("Job", "render", 6, &format!("restartPolicy: Never, {}", cpu("800m")));
    let job = job.replace("completions: 6", "completions: 18").replace(
        "metadata: {labels: {app: render}}",
        "metadata: {labels: {app: render}, annotations: {sandbox.dovetail.dev/runs-for: 2m}}",
    );
    let played = play("waves", &[tidy("m5.large", ""), job], "until: 20m\n");
    let last = played
        .events
        .iter()
        .filter(|event| event["kind"] == "instance" && event["change"] == "pending")
        .filter_map(|event| event["t"].as_f64());
    assert!(last.fold(0.0, f64::max) < 60.0, "launched after the first wave");
}

#[test]
fn completed_pods_keep_no_node() {
    let job = workload("Job", "report", 2, &format!("restartPolicy: Never, {}", cpu("500m")));
    let played = play("completed", &[tidy("m5.large", ""), job], "until: 10m\n");
    let (ended, gone) = (pods(&played, "Job/report", "succeeded"), removed(&played));
    let last = ended.iter().copied().fold(0.0, f64::max);
    assert!(
        ended.len() == 2 && gone.len() == 1 && (60.0..=80.0).contains(&(gone[0] - last)),
        "ended {ended:?}, removed {gone:?}"
    );
}

#[test]
fn a_startup_taint_that_stands_for_ever_costs_one_launch() {
    let requirements = format!(
        "{}, {}",
        among("node.kubernetes.io/instance-type", "m5.large"),
        among("karpenter.sh/capacity-type", "on-demand")
    );
    let pool = Pool {
        template: "startupTaints: [{key: example.com/agent, effect: NoSchedule}]",
        requirements: &requirements,
        ..Pool::default()
    }
    .text();
    let played = play("startup", &[pool, class(""), workload("Deployment", "web", 2, &cpu("300m"))], "until: 15m\n");
    assert_eq!((launched(&played), bound(&played)), (1, 0));
}

#[test]
fn pods_get_nodes_when_they_are_let_go_and_not_before() {
    let gated = format!("schedulingGates: [{{name: example.com/quota}}], {}", cpu("1500m"));
    let held = |suspend: bool| {
        workload("Job", "held", 1, &format!("restartPolicy: Never, {}", cpu("1500m")))
            .replace("parallelism", &format!("suspend: {suspend}, parallelism"))
    };
    write("gates/open.yaml", &held(false));
    let manifests = [
        pool_of("m5.large"),
        workload("Deployment", "gated", 1, &gated),
        held(true),
        workload("Deployment", "now", 1, &cpu("1500m")),
    ];
    let played = play("gates", &manifests, "steps:\n  - {at: 5m, apply: [open.yaml]}\nuntil: 8m\n");
    let before = played.events.iter().filter(|event| event["kind"] == "instance" && event["change"] == "pending");
    let (before, after): (Vec<&Value>, Vec<&Value>) = before.partition(|event| event["t"].as_f64().unwrap() < 300.0);
    assert_eq!((before.len(), after.len()), (1, 1));
}

#[test]
fn a_namespace_gets_no_more_nodes_than_its_quota_has_pods() {
    let quota =
        "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: team}\nspec: {hard: {pods: 2}}\n";
    let pods = workload_in("team", "Deployment", "web", 4, &format!("{}, {}", apart("web"), cpu("100m")));
    let played = play("quota", &[pool_of("m5.large"), quota.to_owned(), pods], "until: 10m\n");
    assert_eq!((launched(&played), bound(&played)), (2, 2));
}

#[test]
fn the_most_urgent_are_bound_where_a_limit_leaves_too_few_nodes() {
    let priority = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 900\n";
    let front = workload("Deployment", "front", 2, &format!("priorityClassName: urgent, {}", cpu("1500m")));
    let pools = tidy("m5.large", ", limits: {cpu: 4}");
    let played = play(
        "urgent",
        &[priority.to_owned(), pools, workload("Deployment", "plain", 3, &cpu("1500m")), front],
        "until: 10m\n",
    );
    assert_eq!((pods(&played, "Deployment/front", "bound").len(), bound(&played)), (2, 2));
}

#[test]
fn a_claim_that_one_pod_may_use_costs_one_launch() {
    let claim = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: own}\nprovisioner: ebs.csi.aws.com\nvolumeBindingMode: WaitForFirstConsumer\n\
                 ---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: once, namespace: default}\nspec: {accessModes: [ReadWriteOncePod], storageClassName: own, resources: {requests: {storage: 1Gi}}}\n";
    let pod = format!("volumes: [{{name: data, persistentVolumeClaim: {{claimName: once}}}}], {}", cpu("1500m"));
    let played =
        play("once", &[pool_of("m5.large"), claim.to_owned(), workload("Deployment", "solo", 2, &pod)], "until: 10m\n");
    assert_eq!((launched(&played), bound(&played)), (1, 1));
}

#[test]
fn volumes_made_for_pods_are_counted_as_ec2_attaches_them() {
    let class = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: own}\nprovisioner: ebs.csi.aws.com\nvolumeBindingMode: WaitForFirstConsumer\n";
    let pod = format!(
        "volumes: [{{name: scratch, ephemeral: {{volumeClaimTemplate: {{spec: {{accessModes: [ReadWriteOnce], storageClassName: own, resources: {{requests: {{storage: 1Gi}}}}}}}}}}}}], {}",
        cpu("10m")
    );
    let played = play(
        "attached",
        &[pool_of("m5.2xlarge"), class.to_owned(), workload("Deployment", "db", 30, &pod)],
        "until: 12m\n",
    );
    played.came_out_well();
    let most = played.report["nodes"].as_array().unwrap().iter().map(|node| node["pods"].as_u64().unwrap()).max();
    assert!(bound(&played) == 30 && most <= Some(26), "{most:?}");
}

#[test]
fn work_that_arrives_as_an_empty_node_goes_loses_no_pod() {
    let early = workload("Deployment", "early", 1, &cpu("1"));
    write("race/late.yaml", &workload("Deployment", "late", 1, &cpu("1")));
    for at in ["359s", "360500ms", "361s", "362s"] {
        let steps = format!(
            "steps:\n  - {{at: 5m, scale: {{kind: Deployment, name: early, replicas: 0}}}}\n  - {{at: {at}, apply: [late.yaml]}}\nuntil: 10m\n"
        );
        let played = play("race", &[tidy("m5.large", ""), early.clone()], &steps);
        played.came_out_well();
        for change in ["lost", "evicted", "deleting"] {
            assert!(pods(&played, "Deployment/late", change).is_empty(), "{at}: {change}");
        }
    }
}

#[test]
fn unreadable_budget_schedule_keeps_the_nodes_and_is_named() {
    let mut pool = tidy("m5.large", "");
    pool = pool.replace(
        "budgets: [{nodes: 100%}]",
        "budgets: [{nodes: 100%}, {nodes: \"0\", schedule: \"0 0 * * sat-sun\", duration: 24h}]",
    );
    let steps = "steps:\n  - {at: 3m, scale: {kind: Deployment, name: web, replicas: 0}}\nuntil: 10m\n";
    let played = play("schedule", &[pool, workload("Deployment", "web", 1, &cpu("1"))], steps);
    let told = played.log_events("pool_mistaken");
    assert!(told.iter().any(|line| line["error"].as_str().unwrap().contains("budgets[1]")), "{told:?}");
    assert!(removed(&played).is_empty());
}

#[test]
fn a_beta_pool_keeps_its_times_and_its_kubelet() {
    let pool = "---\napiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: default}\nspec: {disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 3m, expireAfter: Never, \
                budgets: [{nodes: 100%}]}, template: {spec: {nodeClassRef: {name: default}, kubelet: {maxPods: 12}, requirements: [\
                {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}}\n";
    let class = class("")
        .replace("karpenter.k8s.aws/v1", "karpenter.k8s.aws/v1beta1")
        .replace("amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: AL2023");
    let steps = "steps:\n  - {at: 4m, scale: {kind: Deployment, name: web, replicas: 0}}\nuntil: 10m\n";
    let played = play("beta", &[pool.to_owned(), class, workload("Deployment", "web", 2, &cpu("100m"))], steps);
    let (gone, last) = (removed(&played), pods(&played, "Deployment/web", "deleted").into_iter().fold(0.0, f64::max));
    assert!(gone.len() == 1 && (180.0..=240.0).contains(&(gone[0] - last)), "gone {gone:?}, empty since {last}");
    assert!(
        played.log_events("launched").iter().all(|line| line["allocatable"].as_str().unwrap().contains("pods: 12,")),
        "{:?}",
        played.log_events("launched")
    );
}

#[test]
fn a_volume_in_a_zone_without_nodes_brings_one_node_there() {
    let zone = "ca-west-1b";
    let volume = format!(
        "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: pv}}\nspec: {{capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], storageClassName: gp3, csi: {{driver: ebs.csi.aws.com, volumeHandle: vol-1}}, \
         claimRef: {{namespace: default, name: data}}, nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{}]}}]}}}}}}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data, namespace: default}}\n\
         spec: {{accessModes: [ReadWriteOnce], storageClassName: gp3, volumeName: pv, resources: {{requests: {{storage: 1Gi}}}}}}\n",
        among("topology.kubernetes.io/zone", zone)
    );
    let pod = format!("volumes: [{{name: data, persistentVolumeClaim: {{claimName: data}}}}], {}", cpu("200m"));
    let nodes = "nodes: [{instanceType: m5.large, zone: ca-west-1a, count: 2}]\nuntil: 8m\n";
    let played = play("empty-zone", &[pool_of("m5.large"), volume, workload("StatefulSet", "db", 1, &pod)], nodes);
    played.came_out_well();
    let own: Vec<&Value> =
        played.report["nodes"].as_array().unwrap().iter().filter(|node| node["beforehand"] == false).collect();
    assert!(launched(&played) == 1 && own.len() == 1 && own[0]["zone"] == zone, "{own:?}");
}

#[test]
fn a_rollout_of_spread_pods_misses_nobody_and_ends_as_it_began() {
    let web = |image: &str| {
        let pod = format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [pod-template-hash], labelSelector: {{matchLabels: {{app: web}}}}}}], \
             {}, containers: [{{name: main, image: \"{image}\", resources: {{requests: {{cpu: 500m}}}}}}]",
            apart("web")
        );
        workload("Deployment", "web", 3, &pod)
            .replace("replicas: 3", "replicas: 3, strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}")
    };
    write("rollout/next.yaml", &web("pause:2"));
    let played = play(
        "rollout",
        &[tidy("m5.large", ""), web("pause:1")],
        "steps:\n  - {at: 4m, apply: [next.yaml]}\nuntil: 20m\n",
    );
    played.came_out_well();
    let mut zones: Vec<&str> =
        played.report["nodes"].as_array().unwrap().iter().map(|node| node["zone"].as_str().unwrap()).collect();
    zones.sort_unstable();
    zones.dedup();
    assert_eq!((zones.len(), &played.report["downtime"]["podSeconds"], bound(&played)), (3, &Value::from(0.0), 3));
    assert!(launched(&played) <= 6, "{}", launched(&played));
}

#[test]
fn pods_waiting_for_a_class_are_told_what_it_lacks() {
    let pool = pool_of("m5.large").replacen("karpenter.sh/discovery: demo", "karpenter.sh/discovery: other", 1);
    let web = workload("Deployment", "web", 5, &cpu("1"));
    let played = play("class-lacks", &[pool.clone(), web.clone()], "until: 2m\n");
    let reasons = played.report["pods"]["pending"].to_string();
    let why = "it is not Ready: EC2NodeClass default: UnhealthyDependents: SubnetsReady=False (spec.subnetSelectorTerms matches no subnet: [0] tag karpenter.sh/discovery=\\\"other\\\")";
    assert_eq!(launched(&played), 0);
    assert_eq!(reasons.matches(why).count(), 5, "{reasons}");
    write("class-lacks-told/all.yaml", &[pool, web].concat());
    let path = write("class-lacks-told/scenario.yaml", "apply: [all.yaml]\nuntil: 2m\n");
    let told = common::stdout(&common::dovetail(&["simulate", &path]));
    let pending: Vec<&str> = told.lines().filter(|line| line.starts_with("  pending: ")).collect();
    assert!(pending.len() == 1 && pending[0].starts_with("  pending: 5 pods, such as default/web-"), "{pending:?}");
}

#[test]
fn missing_instance_profile_is_named_before_any_launch() {
    let pool = pool_of("m5.large").replacen("role: KarpenterNodeRole-demo", "instanceProfile: nope", 1);
    let played = play("no-profile", &[pool, workload("Deployment", "web", 1, &cpu("1"))], "until: 2m\n");
    let told = played.report["timeline"].to_string();
    let words = r#"InstanceProfileNotFound (spec.instanceProfile \"nope\": there is no such instance profile)"#;
    assert!(launched(&played) == 0 && told.contains(words), "{told}");
    assert_eq!(played.calls("CreateFleet").len(), 0);
}

#[test]
fn pool_with_a_missing_class_is_named_and_serves_once_it_comes() {
    let pool = pool_of("m5.large").replace(&class(""), "");
    let web = workload("Deployment", "web", 1, &cpu("1"));
    let missing = play("class-missing", &[pool.clone(), web.clone()], "until: 5m\n");
    let reasons = missing.report["pods"]["pending"].to_string();
    assert!(
        launched(&missing) == 0 && reasons.contains("default") && !reasons.contains("no NodePool exists"),
        "{reasons}"
    );
    write("class-late/class.yaml", &class(""));
    let late = play("class-late", &[pool, web], "steps:\n  - {at: 3m, apply: [class.yaml]}\nuntil: 8m\n");
    late.came_out_well();
    assert!(violations(&late).is_empty() && pods(&late, "Deployment/web", "bound")[0] < 300.0);
}

/// Each node is made for one large pod and some of the small ones, of which those at the head of kube-scheduler's queue would fill
/// the first node that is ready.
#[test]
fn large_pods_find_their_room_on_nodes_coming_one_by_one() {
    let amounts = |cpu: &str, memory: &str| container("main", &format!("requests: {{cpu: {cpu}, memory: {memory}}}"));
    let played = play(
        "crowded-out",
        &[
            pool_of("m6i.2xlarge"),
            workload("Deployment", "web", 24, &amounts("300m", "1000Mi")),
            workload("Deployment", "db", 5, &amounts("5500m", "20000Mi")),
        ],
        "until: 5m\n",
    );
    played.came_out_well();
    let planned: u64 = played.log_events("packing_computed").iter().map(|line| line["nodes"].as_u64().unwrap()).sum();
    assert_eq!((planned, launched(&played), bound(&played)), (5, 5, 29));
    let last = pods(&played, "Deployment/db", "bound").into_iter().fold(0.0, f64::max);
    assert!(last < 70.0, "no pod waits for a second node: {last} s");
    let nominated =
        |event: &&Value| event["resource"] == "pods" && event["subresource"] == "status" && !event["replica"].is_null();
    let writes: Vec<_> = played.events.iter().filter(nominated).collect();
    assert!(writes.iter().all(|event| event["verb"] == "patch" && event["code"] == 200));
    // Those of the last node have nobody to keep their places from; some are written again.
    assert!((1..4 * 29).contains(&writes.len()), "{}", writes.len());
}

#[test]
fn pods_that_are_all_alike_are_not_nominated() {
    let played = play("alike", &[pool_of("m6i.large"), workload("Deployment", "web", 20, &cpu("400m"))], "until: 4m\n");
    played.came_out_well();
    let written =
        played.events.iter().filter(|event| event["resource"] == "pods" && !event["replica"].is_null()).count();
    assert_eq!((written, bound(&played)), (0, 20));
}
