//! PodGroups in `plan`: pods of a gang get nodes together or not at all, where the feature gate is open.

use serde_json::Value;

use crate::common::{dovetail, stderr, stdout, write};
use crate::web::Web;

/// Six pods that each need a node of their own, on that many nodes at most, with this group.
fn six_pods(nodes: u32, group: &str) -> String {
    let pool = format!("  limits: {{nodes: \"{nodes}\"}}\n");
    Web { pool, types: "m5.large", replicas: 6, cpu: "1500m" }.with(group)
}

/// These pods in the group `train`.
fn manifests(nodes: u32, group: &str) -> String {
    six_pods(nodes, group).replace("{containers:", "{schedulingGroup: {podGroupName: train}, containers:")
}

fn native(version: &str, policy: &str) -> String {
    format!(
        "---\napiVersion: scheduling.k8s.io/{version}\nkind: PodGroup\nmetadata: {{name: train}}\nspec: {{schedulingPolicy: {policy}}}\n"
    )
}

/// The plan of a file with the gate open: number of nodes, and the reasons for which pods get none.
fn planned(name: &str, text: &str) -> (u64, String) {
    let file = write(&format!("plan-pod-groups/{name}.yaml"), text);
    let output = dovetail(&["plan", "--json", "-f", &file, "--feature-gates", "GangScheduling=true"]);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    assert_eq!(output.status.code(), Some(i32::from(answer["unscheduled"] != serde_json::json!({}))), "{answer}");
    (answer["numNodeClaims"].as_u64().unwrap(), answer["unscheduled"].to_string())
}

#[test]
fn plan_places_enough_members_of_a_gang_or_none_and_says_why() {
    let gang = |count: u32| format!("{{gang: {{minCount: {count}}}}}");
    for version in ["v1beta1", "v1alpha3", "v1alpha2"] {
        let (nodes, why) = planned(version, &manifests(4, &native(version, &gang(6))));
        assert_eq!(nodes, 0, "{version}: {why}");
        assert!(why.contains("PodGroup default/train: 4 of 6 members have a place: "), "{version}: {why}");
    }
    let (nodes, why) = planned("enough", &manifests(4, &native("v1alpha2", &gang(4))));
    assert_eq!(nodes, 4, "minCount have places: {why}");
    assert!(!why.contains("PodGroup"), "the others have reasons of their own: {why}");
    assert_eq!(planned("all", &manifests(6, &native("v1alpha2", &gang(6)))).0, 6);
    assert_eq!(planned("basic", &manifests(4, &native("v1alpha2", "{basic: {}}"))).0, 4);
    let (nodes, why) = planned("few", &manifests(9, &native("v1alpha2", &gang(7))));
    assert!(nodes == 0 && why.contains("PodGroup default/train waits for members: 6 of minCount 7 exist"), "{why}");
    let (nodes, why) = planned("odd", &manifests(9, &native("v1alpha2", &gang(0))));
    assert!(nodes == 0 && why.contains("minCount is 0: 1 to 5000 is allowed"), "{why}");
    let (nodes, why) = planned("none", &manifests(9, ""));
    assert!(nodes == 0 && why.contains("there is no such object of scheduling.k8s.io yet"), "{why}");
}

#[test]
fn plan_reads_groups_of_the_coscheduling_plugin_too() {
    let group = "---\napiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: train}\nspec: {minMember: 6}\n";
    let labelled = |nodes| {
        let labels = "metadata: {labels: {app: web, scheduling.x-k8s.io/pod-group: train}}";
        six_pods(nodes, group).replace("metadata: {labels: {app: web}}", labels)
    };
    assert!(labelled(4).contains("pod-group: train"), "{}", labelled(4));
    assert_eq!(planned("other", &labelled(4)).0, 0);
    assert_eq!(planned("other-all", &labelled(6)).0, 6);
}

/// With the gate closed the group is passed over, and the plan is the same to the byte.
#[test]
fn plan_with_closed_gate_is_the_same_with_groups_and_without() {
    let plan = |name: &str, text: &str| {
        let file = write(&format!("plan-pod-groups/{name}.yaml"), text);
        let output = dovetail(&["plan", "-f", &file]);
        (stdout(&output).replace(&file, "F"), stderr(&output))
    };
    let group = native("v1alpha2", "{gang: {minCount: 6}}");
    let ((with, said), (without, _)) = (plan("closed", &manifests(4, &group)), plan("plain", &manifests(4, "")));
    assert!(said.contains("skipped: 1 PodGroup"), "{said}");
    assert_eq!(with, without);
}
