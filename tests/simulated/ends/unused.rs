//! Launches that nobody uses, through the binary: a plan and the cluster disagree in every way there is, for an hour, about a
//! workload of three pods. Another workload of the same pool is served meanwhile as ever.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use crate::played;

use played::{Played, play_over};

/// Launches an hour for a workload of three pods whose nodes go unused: three at first, then one at a time.
const MOST: usize = 8;

/// A pool of two types; `odd`, three pods that want a node each with what is said of them, and `fine`, which is scaled from one
/// pod on a node of its own to three after twenty minutes.
fn manifests(odd: &str, pool: &str) -> String {
    let workload = |name: &str, replicas: u32, more: &str| {
        format!(
            "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 1
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {{topologyKey: kubernetes.io/hostname, labelSelector: {{matchExpressions: [{{key: app, operator: Exists}}]}}}}
{more}"
        )
    };
    let class = played::manifests(0);
    let class = class.split_once("---\n").unwrap().0;
    let fine = on_type("m5.large", "cpu: 500m, memory: 256Mi");
    format!(
        "{class}---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  disruption: {{consolidationPolicy: WhenEmpty, consolidateAfter: 0s, budgets: [{{nodes: 100%}}]}}
  template:
    metadata: {{labels: {{team: odd}}}}
    spec:
{pool}
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
{}{}",
        workload("fine", 1, &fine),
        workload("odd", 3, odd)
    )
}

const POOL: &str = "      expireAfter: Never
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, c5.large]}";

/// Pods of that instance type, and what they request.
fn on_type(kind: &str, requests: &str) -> String {
    format!(
        "      nodeSelector: {{node.kubernetes.io/instance-type: {kind}}}
      containers: [{{name: main, image: pause, resources: {{requests: {{{requests}}}}}}}]\n"
    )
}

const GROWS: &str = "  - {at: 20m, scale: {kind: Deployment, name: fine, namespace: default, replicas: 3}}\n";

/// Plays an hour, or longer, with those faults.
fn hour(name: &str, manifests: &str, faults: &str, until: &str) -> Played {
    let faults = if faults.is_empty() { String::new() } else { format!("faults: {{nodes: {{{faults}}}}}\n") };
    play_over(name, manifests, &format!("{faults}steps:\n{GROWS}until: {until}\n"))
}

/// Seconds at which nodes of the odd workload were found not to be used.
fn unused(played: &Played) -> Vec<f64> {
    played.times("node_not_used").into_iter().filter(|t| *t < 3600.0).collect()
}

/// Launches of the first hour, the three of the other workload among them.
fn launches(played: &Played) -> usize {
    played.times("nodeclaim_created").into_iter().filter(|t| *t < 3600.0).count()
}

/// At least so many and at most eight nodes of the first hour are not used, and the other workload has been served in normal time.
fn is_braked(played: &Played, least: usize) {
    let (unused, launches) = (unused(played), launches(played));
    assert!((least..=MOST).contains(&unused.len()), "{}: {unused:?}", played.name);
    // One more is launched where a pod of the other workload has taken the place of one of these.
    assert!(launches <= MOST + 6, "{}: {launches} launches", played.name);
    let bound = played.events.iter().filter(|event| event["kind"] == "pod" && event["change"] == "bound");
    let fine: Vec<f64> = bound
        .filter(|event| event["name"].as_str().unwrap().starts_with("fine-"))
        .map(|event| event["t"].as_f64().unwrap())
        .collect();
    let grown = fine.iter().filter(|t| (1200.0..1320.0).contains(*t)).count();
    assert!(fine.len() >= 3 && grown == 2, "{}: fine was bound at {fine:?}", played.name);
    let violations = &played.report["invariants"]["violations"];
    assert!(violations.as_array().unwrap().is_empty(), "{}: {violations}", played.name);
    assert!(played.events_of("NodeNotUsed") >= 3, "{}: at pods, pool and claim", played.name);
}

fn reasons(played: &Played) -> Vec<&str> {
    let mut all: Vec<&str> =
        played.log_events("node_not_used").iter().map(|line| line["reason"].as_str().unwrap()).collect();
    all.dedup();
    all
}

fn messages(played: &Played) -> String {
    let lines = played.log_events("node_not_used");
    lines.iter().map(|line| line["message"].as_str().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_taint_on_joining_costs_eight_launches_an_hour_at_most() {
    let odd = manifests(&on_type("c5.large", "cpu: 500m, memory: 256Mi"), POOL);
    let played = hour("unused-taint", &odd, "taintOnJoin: {types: [c5.large], key: odd, value: 'yes'}", "60m");
    // Each of these is waited for, five minutes long.
    is_braked(&played, 3);
    assert_eq!(reasons(&played), ["scheduler"]);
    assert!(messages(&played).contains("taint odd=yes:NoSchedule is not tolerated"), "{}", messages(&played));
}

#[test]
fn pods_get_nodes_within_the_back_off_once_the_taint_is_gone() {
    let odd = manifests(&on_type("c5.large", "cpu: 500m, memory: 256Mi"), POOL);
    let faults = "taintOnJoin: {types: [c5.large], key: odd, value: 'yes'}, for: 15m";
    let played = hour("unused-taint-mended", &odd, faults, "50m");
    assert_eq!(played.report["pods"]["bound"], 6, "{}", played.report["pods"]);
    played.came_out_well();
}

#[test]
fn a_cordon_on_joining_costs_eight_launches_an_hour_at_most() {
    let odd = manifests(&on_type("c5.large", "cpu: 500m, memory: 256Mi"), POOL);
    let played = hour("unused-cordon", &odd, "cordonOnJoin: {types: [c5.large]}", "60m");
    is_braked(&played, 5);
    assert!(
        messages(&played).contains("taint node.kubernetes.io/unschedulable:NoSchedule is not tolerated"),
        "{}",
        messages(&played)
    );
}

#[test]
fn removed_label_costs_at_most_eight_launches_an_hour() {
    let odd = "      nodeSelector: {team: odd}\n      containers: [{name: main, image: pause, resources: {requests: {cpu: 500m, memory: 256Mi}}}]\n";
    let played = hour("unused-label", &manifests(odd, POOL), "labelTakenOff: {key: team}", "60m");
    is_braked(&played, 5);
    assert!(messages(&played).contains("label team=odd is not on it"), "{}", messages(&played));
}

/// The pod fits the larger type, which is bought as soon as the smaller one is known.
#[test]
fn what_nodes_really_have_is_learnt_from_the_first_of_its_type() {
    let pool = POOL.replace("[m5.large, c5.large]", "[m5.large, m5.xlarge, c5.large]");
    let odd = "      containers: [{name: main, image: pause, resources: {requests: {cpu: 500m, memory: 6500Mi}}}]\n";
    let faults = "allocatable: {types: [m5.large], less: 20%}";
    let played = hour("unused-allocatable", &manifests(odd, &pool), faults, "60m");
    assert_eq!(played.report["pods"]["bound"], 6, "{}", played.report["pods"]);
    assert!(launches(&played) <= 3 + 6, "{}", launches(&played));
    played.came_out_well();
}

#[test]
fn less_room_than_foreseen_costs_at_most_eight_launches_an_hour() {
    let odd = manifests(&on_type("m5.large", "cpu: 500m, memory: 6500Mi"), POOL);
    let played = hour("unused-no-room", &odd, "allocatable: {less: 20%}", "60m");
    assert!(unused(&played).len() <= MOST && launches(&played) <= MOST + 6, "{:?}", unused(&played));
    assert_eq!(reasons(&played), ["no_room"]);
    assert!(played.report["invariants"]["violations"].as_array().unwrap().is_empty());
}

/// It comes with the label that a node gets once it is there: no plan knows of it, until a node has shown it.
#[test]
fn a_daemon_set_that_comes_to_nodes_labelled_later_is_learnt() {
    let pool = POOL.replace("[m5.large, c5.large]", "[m5.large, m5.xlarge, c5.large]");
    let odd = "      containers: [{name: main, image: pause, resources: {requests: {cpu: 500m, memory: 5000Mi}}}]\n";
    let agent = "---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: default}
spec:
  selector: {matchLabels: {agent: large}}
  template:
    metadata: {labels: {agent: large}}
    spec:
      priorityClassName: system-node-critical
      nodeSelector: {found: 'yes'}
      containers: [{name: main, image: pause, resources: {requests: {cpu: 100m, memory: 2Gi}}}]
";
    let manifests = format!("{}{agent}", manifests(odd, &pool));
    let played = hour("unused-daemon", &manifests, "labelPutOn: {key: found, value: 'yes'}", "60m");
    assert!(launches(&played) <= MOST + 6, "{}", launches(&played));
    played.came_out_well();
}

#[test]
fn expiry_before_readiness_costs_at_most_eight_launches_an_hour() {
    let odd = manifests(&on_type("c5.large", "cpu: 500m, memory: 256Mi"), &POOL.replace("Never", "6m"));
    let played = hour("unused-expired", &odd, "joinsLate: {types: [c5.large], by: 8m}", "60m");
    assert!((5..=MOST).contains(&unused(&played).len()), "{:?}", unused(&played));
    assert_eq!(reasons(&played), ["expired"]);
    assert!(played.report["invariants"]["violations"].as_array().unwrap().is_empty());
}

#[test]
fn a_kubelet_that_says_no_costs_eight_launches_an_hour_at_most() {
    let odd = manifests(&on_type("c5.large", "cpu: 500m, memory: 256Mi"), POOL);
    let played = hour("unused-kubelet", &odd, "kubeletRefuses: {types: [c5.large], pods: {app: odd}}", "25m");
    assert!(launches(&played) <= MOST + 6, "{}", launches(&played));
    assert!(reasons(&played) == ["kubelet"] && messages(&played).contains("OutOfcpu"), "{}", messages(&played));
}

#[test]
fn a_new_leader_goes_on_with_the_pauses() {
    let odd = manifests(&on_type("c5.large", "cpu: 500m, memory: 256Mi"), POOL);
    let faults = "faults: {nodes: {taintOnJoin: {types: [c5.large], key: odd, value: 'yes'}}}\n";
    let kills = ["8m", "14m", "25m", "40m"].map(|at| format!("  - {{at: {at}, kill: {{replica: leader, for: 1m}}}}\n"));
    let (before, after) = kills.split_at(2);
    let steps = format!("{}{GROWS}{}", before.concat(), after.concat());
    let played = play_over("unused-new-leaders", &odd, &format!("replicas: 2\n{faults}steps:\n{steps}until: 60m\n"));
    assert!(played.log_events("elected").len() >= 4, "others lead");
    // Each may launch once more as it has not heard of the node that stood when its predecessor went.
    assert!(unused(&played).len() <= MOST + 4, "{:?}", unused(&played));
    let failures: Vec<u64> =
        played.log_events("node_not_used").iter().map(|line| line["failures"].as_u64().unwrap()).collect();
    assert!(failures.iter().max().unwrap() >= &4, "{failures:?}");
}

/// Storms of scaling leave nodes empty whose pods are gone: nothing is held back for that.
#[test]
fn scaling_up_and_down_in_storms_holds_nobody_back() {
    let workload = played::manifests(5).replace("consolidateAfter: Never", "consolidateAfter: 0s");
    let scale = |second: u32, replicas: u32| {
        format!(
            "  - {{at: {second}s, scale: {{kind: Deployment, name: web, namespace: default, replicas: {replicas}}}}}\n"
        )
    };
    let steps: String = (0..30).map(|n| scale(120 + 45 * n, if n % 2 == 0 { 0 } else { 5 })).collect();
    let played = play_over("unused-storms", &workload, &format!("steps:\n{steps}until: 40m\n"));
    assert!(played.log_events("node_not_used").is_empty(), "{:?}", played.log_events("node_not_used"));
    played.came_out_well();
}

#[test]
fn an_unknown_fault_of_nodes_is_bad_input() {
    let path = common::write(
        "unused-bad/scenario.yaml",
        "region: ca-west-1\nfaults: {nodes: {allocatable: {less: lots}}}\nuntil: 1m\n",
    );
    let output = common::dovetail(&["simulate", &path]);
    assert_eq!(output.status.code(), Some(2));
    let text = common::stderr(&output);
    assert!(text.contains("faults.nodes.allocatable.less") && text.contains("0% to 100%"), "{text}");
    let path = common::write("unused-bad/unknown.yaml", "region: ca-west-1\nfaults: {nodes: {rust: {}}}\nuntil: 1m\n");
    assert_eq!(common::dovetail(&["simulate", &path]).status.code(), Some(2));
}

/// An agent takes a taint off that no pool declares, so long after each node is ready: its pods wait for that, on the nodes that
/// were launched for them, which are not empty meanwhile.
#[test]
fn taint_that_goes_within_minutes_costs_no_further_launch() {
    for (name, off, empty_after) in [("40s", "40s", "30s"), ("4m", "4m", "0s")] {
        let manifests =
            played::manifests(6).replace("consolidateAfter: Never", &format!("consolidateAfter: {empty_after}"));
        let faults = format!(
            "faults: {{nodes: {{taintOnJoin: {{key: agent.example.com/not-ready, effect: NoSchedule, takenOff: {off}}}}}}}\n"
        );
        let played = play_over(&format!("taint-goes-{name}"), &manifests, &format!("{faults}until: 10m\n"));
        assert_eq!(played.number("launched"), 6, "{name}");
        assert_eq!(played.report["pods"]["bound"], 6, "{name}: {}", played.report["pods"]);
        assert!(played.log_events("node_not_used").is_empty(), "{:?}", played.log_events("node_not_used"));
        let told = played.log_events("taint_awaited");
        assert!(!told.is_empty() && told[0]["taint"] == "agent.example.com/not-ready:NoSchedule", "{told:?}");
        assert!(played.events_of("AwaitingTaint") >= 3, "{}: at pods, pool and claim", played.name);
        played.came_out_well();
    }
}
