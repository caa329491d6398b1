//! Pools that cannot serve, from outside: `plan` says why, and in a simulation nothing is made for them while their pods go to
//! the pools that can.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use crate::played;

use common::{dovetail, json, stderr, write};
use played::{Played, manifests, play_over};
use serde_json::Value;

/// Changes of a pool that make it hopeless, each with the field that is named.
const HOPELESS: [(&str, &str, &str); 6] = [
    ("expired", "expireAfter: 720h", "spec.template.spec.expireAfter"),
    ("foreign", "group: karpenter.k8s.aws, kind: EC2NodeClass", "spec.template.spec.nodeClassRef"),
    ("limits", "limits: {cpu: 1000}", "spec.limits.cpu"),
    ("against", "values: [on-demand]", "spec.template.spec.requirements[1]"),
    ("plan9", "labels: {t: a}", "spec.template.metadata.labels[kubernetes.io/os]"),
    ("a-name-that-is-by-far-too-long-to-be-the-value-of-a-label-of-anything", "", "metadata.name"),
];

/// The pool with its fault.
fn pool(name: &str, fault: &str) -> String {
    let whole = format!(
        "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}}}
spec:
  weight: 100
  limits: {{cpu: 1000}}
  disruption: {{consolidationPolicy: WhenEmpty, consolidateAfter: Never}}
  template:
    metadata: {{labels: {{t: a}}}}
    spec:
      expireAfter: 720h
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements:
        - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
        - {{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m6i.large]}}
"
    );
    let instead = match name {
        "expired" => "expireAfter: 4m".to_owned(),
        "foreign" => "group: other.io, kind: Foo".to_owned(),
        "limits" => "limits: {cpu: -1}".to_owned(),
        "against" => {
            "values: [on-demand]}\n        - {key: karpenter.sh/capacity-type, operator: In, values: [spot]".to_owned()
        }
        "plan9" => "labels: {kubernetes.io/os: plan9}".to_owned(),
        _ => return whole,
    };
    assert!(whole.contains(fault), "{fault}");
    whole.replace(fault, &instead)
}

/// The pool of Windows nodes of a class for Linux, which is valid by itself.
fn windows() -> String {
    pool("windows", "").replace("labels: {t: a}", "labels: {kubernetes.io/os: windows}")
}

fn made(played: &Played) -> Vec<&Value> {
    let created =
        |event: &&Value| event["resource"] == "nodeclaims" && event["verb"] == "create" && event["code"] == 201;
    played.events.iter().filter(created).map(|event| &event["claim"]["nodePool"]).collect()
}

#[test]
fn invalid_pools_get_no_nodes_and_take_no_pods_from_others() {
    let bad: Vec<String> = HOPELESS.iter().map(|(name, fault, _)| pool(name, fault)).chain([windows()]).collect();
    let all = format!("{}---\n{}", bad.join("---\n"), manifests(3));
    let played = play_over("pools-not-valid", &all, "until: 10m\n");
    played.came_out_well();
    let pools = made(&played);
    assert!(pools.len() == 3 && pools.iter().all(|pool| **pool == "default"), "{pools:?}");
    assert_eq!((played.calls("CreateFleet").len(), &played.report["launched"]), (1, &3.into()), "all that are equal");
    for (name, _, field) in HOPELESS {
        let said = played.log_events("pool_skipped");
        let said =
            said.iter().find(|line| line["node_pool"] == name).unwrap_or_else(|| panic!("{name} is not told of"));
        assert!(said["why"].as_str().unwrap().contains(field), "{said}");
    }
    assert!(played.events_of("NodePoolValidationFailed") >= HOPELESS.len());
}

#[test]
fn pods_of_invalid_pools_only_launch_nothing_in_ten_minutes() {
    for (name, fault, field) in HOPELESS {
        let (_, rest) =
            manifests(2).split_once("---\n").map(|(class, rest)| (class.to_owned(), rest.to_owned())).unwrap();
        let (_, workload) = rest.split_once("---\n").unwrap();
        let class = manifests(2).split_once("---\n").unwrap().0.to_owned();
        let all = format!("{}---\n{class}---\n{workload}", pool(name, fault));
        let played = play_over(&format!("only-{}", &name[..5]), &all, "until: 10m\n");
        assert_eq!((made(&played).len(), played.calls("CreateFleet").len()), (0, 0), "{name}");
        let pending = played.report["pods"]["pending"].as_object().unwrap();
        assert!(pending.len() == 2 && played.report["pods"]["bound"] == 0, "{name}: {pending:?}");
        assert!(pending.values().all(|why| why.as_str().unwrap().contains(field)), "{name}: {pending:?}");
    }
}

#[test]
fn plan_leaves_them_out_and_says_which_field_is_why() {
    for (name, fault, field) in HOPELESS {
        let path = write(&format!("plan-{}.yaml", &name[..5]), &format!("{}---\n{}", pool(name, fault), manifests(2)));
        let output = dovetail(&["plan", "--json", "-f", &path]);
        let answer = json(&output, 0);
        let pools: Vec<&Value> =
            answer["nodeClaims"].as_array().unwrap().iter().map(|claim| &claim["nodePool"]).collect();
        assert!(!pools.is_empty() && pools.iter().all(|pool| **pool == "default"), "{name}: {pools:?}");
        let warnings = format!("{}{}", answer["warnings"], stderr(&output));
        assert!(warnings.contains(name) && warnings.contains(field), "{name}: {warnings}");
    }
}

#[test]
fn plan_names_a_budget_that_cannot_be_read_and_plans_on() {
    let budget =
        "disruption: {budgets: [{nodes: \"10%\", schedule: \"99 99 * * *\", duration: 1h}], consolidateAfter: Never}";
    let all = manifests(1).replace("disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}", budget);
    assert!(all.contains("99 99"));
    let output = dovetail(&["plan", "--json", "-f", &write("plan-budget.yaml", &all)]);
    let answer = json(&output, 0);
    let warnings = format!("{}{}", answer["warnings"], stderr(&output));
    assert!(warnings.contains("spec.disruption.budgets[0]") && warnings.contains("99 99 * * *"), "{warnings}");
    assert_eq!(answer["scheduledPods"], 1);
}
