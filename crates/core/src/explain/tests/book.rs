//! docs/reasons.md: every reason, made in a cluster, with its sentence and its remedy. `UPDATE=1` writes the page anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::*;
use crate::cluster_state::NominationTarget;
use crate::expendable::ExpendableCutoff;
use crate::explain::remedies::REMEDIES;
use crate::pack::{PoolReason, Reason};
use crate::quotas::WrittenQuota;

/// A reason as it was made.
struct Row {
    /// The rule or the method.
    by: String,
    sentence: String,
    remedy: String,
}

/// A pod that waits in this world.
fn pod_row(by: &str, answer: &PodAnswer) -> Row {
    assert_eq!(answer.verdict, PodVerdict::Unschedulable, "{by}: {answer:#?}");
    if let Some(pool) = answer.pools.first() {
        assert_eq!(pool.rule.name(), by, "{answer:#?}");
    }
    Row { by: by.to_owned(), sentence: answer.sentence.clone(), remedy: answer.remedy.clone() }
}

fn waits(by: &str, pool: impl FnOnce(&mut Value), pod: impl FnOnce(&mut Value)) -> Row {
    let mut world = World::with_pool(pool);
    let pod = world.pending("web", pod);
    pod_row(by, &world.of_pod(&pod))
}

fn request(resource: &str, amount: &str) -> impl FnOnce(&mut Value) {
    let (resource, amount) = (resource.to_owned(), amount.to_owned());
    move |pod| pod["spec"]["containers"][0]["resources"]["requests"][resource] = json!(amount)
}

/// A DaemonSet of every node, changed.
fn daemon(world: &mut World, change: impl FnOnce(&mut Value)) {
    let template = json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "agent", "image": "agent",
        "resources": {"requests": {"cpu": "100m"}}}]}});
    let mut set = json!({"metadata": {"name": "agent", "namespace": "kube-system", "uid": "uid-agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template}});
    change(&mut set["spec"]["template"]["spec"]);
    world.state.apply_daemon_set(serde_json::from_value(set).unwrap());
}

fn waits_beside_daemon(daemon_spec: impl FnOnce(&mut Value), pod: impl FnOnce(&mut Value)) -> Row {
    let mut world = World::with_pool(|_| ());
    daemon(&mut world, daemon_spec);
    let pod = world.pending("web", pod);
    pod_row("resources", &world.of_pod(&pod))
}

fn by_pool() -> Vec<Row> {
    let mut rows = vec![
        waits("pool", |pool| pool["status"] = json!({"conditions": []}), |_| ()),
        waits("pool", |pool| requires(pool, "node.kubernetes.io/instance-type", &["z9.huge"]), |_| ()),
        waits("pool", |pool| pool["metadata"]["deletionTimestamp"] = json!(at(0)), |_| ()),
        waits(
            "taints",
            |pool| {
                pool["spec"]["template"]["spec"]["taints"] =
                    json!([{"key": "dedicated", "value": "db", "effect": "NoSchedule"}])
            },
            |_| (),
        ),
        waits("undefined label", |_| (), |pod| pod["spec"]["nodeSelector"] = json!({"team": "blue"})),
        waits(
            "requirements",
            |pool| requires(pool, "karpenter.sh/capacity-type", &["spot"]),
            |pod| pod["spec"]["nodeSelector"] = json!({"karpenter.sh/capacity-type": "on-demand"}),
        ),
        waits(
            "instance types",
            |_| (),
            |pod| pod["spec"]["nodeSelector"] = json!({"node.kubernetes.io/instance-type": "z9.huge"}),
        ),
    ];
    let mut world = World::with_pool(|pool| requires(pool, "topology.kubernetes.io/zone", &["a"]));
    world.volume("data", "b");
    let pod = world.pending("db", |pod| {
        pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    });
    rows.push(pod_row("volumes", &world.of_pod(&pod)));
    let mut world = World::with_pool(|pool| requires(pool, "karpenter.sh/capacity-type", &["spot"]));
    world.types = vec![kind("m5.large", 2, 0.096, false)];
    let pod = world.pending("web", |_| ());
    rows.push(pod_row("offerings", &world.of_pod(&pod)));
    rows
}

fn by_size() -> Vec<Row> {
    let port = |pod: &mut Value| pod["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "agent"}}, "namespaces": ["kube-system"]}]}});
    let mut rows = vec![
        waits("resources", |_| (), request("cpu", "400")),
        waits(
            "resources",
            |_| (),
            |pod| {
                pod["spec"]["containers"][0]["resources"]["requests"] =
                    json!({"cpu": "3", "memory": "15Gi", "nvidia.com/gpu": "1"});
            },
        ),
        waits_beside_daemon(|_| (), request("cpu", "3950m")),
        waits_beside_daemon(port, |pod| port(&mut pod["spec"])),
        waits_beside_daemon(|_| (), |pod| pod["spec"]["affinity"] = apart),
    ];
    let mut world = World::with_pool(|_| ());
    let mut lean = kind("c5.large", 8, 0.2, true);
    lean["capacity"]["memory"] = json!("2Gi");
    world.types.push(lean);
    let pod = world.pending("web", |pod| {
        pod["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": "7", "memory": "12Gi"});
    });
    rows.push(pod_row("resources", &world.of_pod(&pod)));
    rows
}

fn waits_under_quota() -> Row {
    let mut world = World::with_pool(|_| ());
    let quota = json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityQuota", "metadata": {"name": "all"},
        "spec": {"limits": {"resources": {"cpu": "1"}}}});
    world.state.apply_quota(WrittenQuota::new(serde_json::from_value(quota).unwrap()));
    let pod = world.pending("web", |_| ());
    pod_row("quota", &world.of_pod(&pod))
}

fn by_others() -> Vec<Row> {
    let nobody =
        json!([{"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "nobody"}}}]);
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": nobody}});
    let key = "node.kubernetes.io/instance-type";
    let varied = json!([{"key": key, "operator": "In", "values": ["m5.large", "m5.xlarge", "c9.x"], "minValues": 3}]);
    vec![
        waits("limits", |pool| pool["spec"]["limits"] = json!({"cpu": "0"}), |_| ()),
        waits(
            "max cost",
            |pool| pool["metadata"]["annotations"]["dovetail.dev/max-cost-per-hour"] = json!("0.05"),
            |_| (),
        ),
        waits_under_quota(),
        waits("minValues", |pool| pool["spec"]["template"]["spec"]["requirements"] = varied, |_| ()),
        waits("topology", |_| (), |pod| pod["spec"]["affinity"] = affinity),
    ]
}

/// Reasons that are no pool's.
fn of_the_pod() -> Vec<Row> {
    let mut none = World::new();
    let pod = none.pending("web", |_| ());
    let unsupported = waits(
        "unsupported",
        |_| (),
        |pod| {
            pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
        },
    );
    let invalid = waits(
        "invalid",
        |_| (),
        |pod| {
            let odd = json!([{"matchExpressions": [{"key": "team", "operator": "Sometimes", "values": ["blue"]}]}]);
            pod["spec"]["affinity"] =
                json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": odd}}});
        },
    );
    let world = {
        let mut world = World::with_pool(|_| ());
        world.pending("web", |_| ());
        world
    };
    let failed = world.asked(|input| {
        let pod = input.snapshot.pods.values().next().unwrap();
        let reason = Reason::PackingFailed { error: "packing panics: a fault of the test".to_owned() };
        let planning = input.snapshot.planning(input.planning);
        Row {
            by: "packing failed".into(),
            sentence: why_not(&pod.pod, &reason, &planning),
            remedy: reason.remedy().to_owned(),
        }
    });
    let mut world = World::with_pool(|_| ());
    world.state.set_expendable(ExpendableCutoff::from_priority(-10));
    let filler = world.pending("filler", |pod| pod["spec"]["priority"] = json!(-11));
    let expendable = pod_row("expendable", &world.of_pod(&filler));
    vec![pod_row("no NodePool", &none.of_pod(&pod)), expendable, unsupported, invalid, failed]
}

/// A node of a pool, with one running pod unless it is to be empty, as one of its methods sees it.
struct NodeCase {
    world: World,
}

impl NodeCase {
    fn new(pool: impl FnOnce(&mut Value)) -> Self {
        let mut world = World::with_pool(pool);
        world.machine("n", |_, _| ());
        Self { world }
    }

    fn with_pod(pool: impl FnOnce(&mut Value), pod: impl FnOnce(&mut Value)) -> Self {
        let mut case = Self::new(pool);
        case.world.running("web", "n", pod);
        case
    }

    fn row(&self, method: &str) -> Row {
        let answer = self.world.method("n", method);
        assert_ne!(answer.verdict, MethodVerdict::Goes, "{answer:?}");
        Row { by: method.to_owned(), sentence: answer.why, remedy: answer.set }
    }
}

fn by_policy() -> Vec<Row> {
    let disruption = |field: &'static str, value: &'static str| {
        move |pool: &mut Value| pool["spec"]["disruption"][field] = json!(value)
    };
    let annotated = |key: &'static str, value: &'static str| {
        move |pool: &mut Value| pool["metadata"]["annotations"] = json!({key: value})
    };
    let mut young = NodeCase::with_pod(|_| (), |_| ());
    young.world.seconds = 120;
    let mut fewest =
        NodeCase::with_pod(annotated("dovetail.dev/packing-policy", "fewest-nodes"), request("cpu", "1500m"));
    fewest.world.types = vec![kind("m5.large", 2, 0.096, false)];
    let none = |pool: &mut Value| pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "0"}]);
    vec![
        NodeCase::with_pod(disruption("consolidateAfter", "Never"), |_| ()).row("consolidation"),
        NodeCase::with_pod(disruption("consolidationPolicy", "WhenEmpty"), |_| ()).row("consolidation"),
        NodeCase::with_pod(annotated("dovetail.dev/ttl-seconds-after-empty", "30"), |_| ()).row("consolidation"),
        NodeCase::with_pod(disruption("consolidateAfter", "2h"), |_| ()).row("consolidation"),
        young.row("consolidation"),
        NodeCase::new(none).row("emptiness"),
        NodeCase::new(annotated("dovetail.dev/disruption", "observe")).row("emptiness"),
        fewest.row("consolidation"),
    ]
}

fn by_pods() -> Vec<Row> {
    let kept = |pod: &mut Value| pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    let mut budgets = NodeCase::with_pod(|_| (), |_| ());
    budgets.world.budget("one", "web");
    let one = budgets.row("consolidation");
    budgets.world.budget("two", "web");
    let job = |pod: &mut Value| {
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true}]);
        pod["status"]["startTime"] = json!(at(3000));
        pod["spec"]["restartPolicy"] = json!("Never");
    };
    let small = |pool: &mut Value| requires(pool, "node.kubernetes.io/instance-type", &["m5.large"]);
    let mut unlabelled = NodeCase::with_pod(|_| (), |_| ());
    unlabelled.world.machine("n", |_, node| node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(""));
    let mut left_out = NodeCase::with_pod(|_| (), |_| ());
    left_out.world.pool("default", |pool| pool["status"] = json!({"conditions": []}));
    let mut spot = NodeCase::with_pod(|_| (), |_| ());
    spot.world.machine("n", |claim, node| {
        for object in [claim, node] {
            object["metadata"]["labels"]["karpenter.sh/capacity-type"] = json!("spot");
        }
    });
    spot.world.types.push(kind("m5.medium", 1, 0.05, true));
    let mut several = NodeCase::with_pod(|_| (), |_| ());
    several.world.running("web-2", "n", |_| ());
    several.world.types = vec![kind("m5.large", 2, 0.096, false), kind("m5.medium", 1, 0.01, false)];
    let mut few = NodeCase::with_pod(|_| (), |_| ());
    few.world.running("web-2", "n", |pod| pod["metadata"]["labels"] = json!({"app": "web"}));
    let budget = json!({"metadata": {"name": "pair", "namespace": "default", "generation": 1, "resourceVersion": few.world.next()},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    few.world.state.apply_budget(serde_json::from_value(budget).unwrap());
    vec![
        few.row("consolidation"),
        several.row("consolidation"),
        NodeCase::with_pod(|_| (), kept).row("consolidation"),
        one,
        budgets.row("consolidation"),
        NodeCase::with_pod(|_| (), job).row("consolidation"),
        NodeCase::with_pod(small, |_| ()).row("consolidation"),
        unlabelled.row("consolidation"),
        left_out.row("consolidation"),
        spot.row("consolidation"),
    ]
}

fn by_state() -> Vec<Row> {
    let mut vetoed = NodeCase::new(|_| ());
    vetoed
        .world
        .machine("n", |_, node| node["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"}));
    let mut expecting = NodeCase::new(|_| ());
    expecting.world.pending("soon", |_| ());
    let (target, until) = (NominationTarget::Node("n".to_owned()), Duration::from_secs(11_000));
    expecting.world.state.nominate(["uid-soon"], &target, until);
    let mut off = NodeCase::with_pod(|_| (), |_| ());
    off.world.gates.drift_off = true;
    let repair = |repairs: bool, change: fn(&mut Value)| {
        let answer = repair_of(0, repairs, |_| (), change);
        Row { by: "repair".into(), sentence: answer.why, remedy: answer.set }
    };
    let veto: fn(&mut Value) = |node| node["metadata"]["annotations"]["karpenter.sh/do-not-repair"] = json!("true");
    vec![
        vetoed.row("emptiness"),
        expecting.row("emptiness"),
        off.row("drift"),
        NodeCase::new(|_| ()).row("expiry"),
        repair(false, |_| ()),
        repair(true, veto),
    ]
}

/// Reasons that keep a node and depend on what only a leader's memory or a whole cluster has, with the test that makes each.
const MADE_ELSEWHERE: [(&str, &str, &str); 3] = [
    ("was moved less than", "pod default/web was moved less than 1h ago", "disruption/methods/tests.rs"),
    (
        "is not worth the move of so many pods",
        "what it costs is not worth the move of so many pods",
        "disruption/tests/worth.rs",
    ),
    (
        "consolidationPolicy Balanced",
        "it would disturb more than it saves (consolidationPolicy Balanced)",
        "disruption/methods/tests.rs",
    ),
];

fn table(rows: &[Row], head: [&str; 3]) -> String {
    let mut text = format!("| {} |\n|---|---|---|\n", head.join(" | "));
    let cell = |text: &str| text.replace('|', "\\|");
    for row in rows {
        let remedy = if row.remedy.is_empty() { "" } else { &row.remedy };
        let _ = writeln!(text, "| {} | {} | {} |", cell(&row.by), cell(&row.sentence), cell(remedy));
    }
    text
}

/// The whole page.
fn page(of_pods: &[Row], of_nodes: &[Row]) -> String {
    let elsewhere: Vec<Row> = MADE_ELSEWHERE
        .iter()
        .map(|(part, sentence, test)| {
            let remedy = REMEDIES.iter().find(|(known, _)| known == part).unwrap().1;
            Row { by: (*sentence).to_owned(), sentence: remedy.to_owned(), remedy: format!("`{test}`") }
        })
        .collect();
    format!(
        "# Reasons, and what ends them\n\n\
         A test makes each of these in a small cluster, reads the sentence, and writes this page\n\
         (`crates/core/src/explain/tests/book.rs`); it fails where the page says something else.\n\
         `dovetail explain` also tries changes, and names those that help ([explain](guide/explain.md)).\n\n\
         ## A pod gets no node\n\n\
         The event `FailedScheduling`, the log, `plan` and `explain` have the same sentence. With several\n\
         pools there is one for each, the nearest first. No case is known that makes the rule\n\
         `{}`: it is left where each rule leaves instance types and packing uses none.\n\n{}\n\
         ## A node stays\n\n\
         `dovetail explain node` has a line for each method.\n\n{}\n\
         These need what only a leader's memory or a larger cluster has.\nThe tests named make them; that of Balanced does not read the sentence.\n\n{}",
        Rule::Together.name(),
        table(of_pods, ["rule", "sentence", "to end that"]),
        table(of_nodes, ["method", "sentence", "to change that"]),
        table(&elsewhere, ["sentence", "to change that", "made by"]),
    )
}

/// Every rule but [`Rule::Together`]; one that is added does not compile without a line here.
fn is_made(rule: Rule, rows: &[Row]) -> bool {
    match rule {
        Rule::Together => true,
        Rule::Pool
        | Rule::Taints
        | Rule::UndefinedLabel
        | Rule::Requirements
        | Rule::InstanceTypes
        | Rule::Volumes
        | Rule::Offerings
        | Rule::Resources
        | Rule::Limits
        | Rule::MaxCost
        | Rule::Quota
        | Rule::MinValues
        | Rule::Topology => rows.iter().any(|row| row.by == rule.name()),
    }
}

#[test]
fn every_reason_is_made_and_stands_in_the_book() {
    let of_pods = [of_the_pod(), by_pool(), by_size(), by_others()].concat_rows();
    let of_nodes = [by_policy(), by_pods(), by_state()].concat_rows();
    let all = [
        Rule::Pool,
        Rule::Taints,
        Rule::UndefinedLabel,
        Rule::Requirements,
        Rule::InstanceTypes,
        Rule::Volumes,
        Rule::Offerings,
        Rule::Resources,
        Rule::Limits,
        Rule::MaxCost,
        Rule::Quota,
        Rule::MinValues,
        Rule::Topology,
        Rule::Together,
    ];
    for rule in all {
        assert!(is_made(rule, &of_pods), "{rule:?} is not made");
        let pools = vec![PoolReason { pool: "p".into(), rule, detail: "d".into(), instance_types: 0, removed: vec![] }];
        assert!(!Reason::NoPoolFits { pools }.remedy().is_empty(), "{rule:?} has no remedy");
    }
    let said: BTreeSet<&str> = of_nodes.iter().map(|row| row.sentence.as_str()).collect();
    assert_eq!(said.len(), of_nodes.len(), "each case makes another sentence: {said:#?}");
    let missing: Vec<&str> = REMEDIES
        .iter()
        .map(|(part, _)| *part)
        .filter(|part| !said.iter().any(|sentence| sentence.contains(part)))
        .filter(|part| !MADE_ELSEWHERE.iter().any(|(known, ..)| known == part))
        .collect();
    assert!(missing.is_empty(), "no case makes {missing:#?} of {said:#?}");
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reasons.md");
    let page = page(&of_pods, &of_nodes);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == page, "docs/reasons.md is not true any more: run with UPDATE=1 and read the difference\n{page}");
}

/// Joins lists of rows.
trait ConcatRows {
    fn concat_rows(self) -> Vec<Row>;
}

impl<const N: usize> ConcatRows for [Vec<Row>; N] {
    fn concat_rows(self) -> Vec<Row> {
        self.into_iter().flatten().collect()
    }
}
