//! NodeOverlays in `plan`: their prices decide, and both prices are shown, where the feature gate is open.

use serde_json::Value;

use crate::common::{dovetail, stderr, stdout, write};
use crate::web::Web;

/// Two pods, a pool of two types, and these overlays.
fn manifests(overlays: &str) -> String {
    Web { pool: String::new(), types: "m5.large, r5.large", replicas: 2, cpu: "500m" }.with(overlays)
}

fn overlay(name: &str, spec: &str) -> String {
    format!("---\napiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n")
}

const OF_R5: &str = "requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [r5.large]}]";

#[test]
fn plan_goes_by_overlays_and_shows_both_prices() {
    let overlays = [
        overlay("cheap", &format!("{OF_R5}, price: \"0.05\"")),
        overlay("a-rival", &format!("{OF_R5}, price: \"7\"")),
        overlay("bad", &format!("{OF_R5}, price: \"1\", capacity: {{cpu: \"9\"}}, weight: 3")),
    ];
    let file = write("plan-overlays/all.yaml", &manifests(&overlays.concat()));
    let plan =
        |more: &[&str]| dovetail(&[&["plan", "-f", &file, "--feature-gates", "NodeOverlay=true"], more].concat());
    let output = plan(&["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let claim = &answer["nodeClaims"][0];
    assert_eq!((claim["cheapestType"].as_str(), claim["price"].as_f64()), (Some("r5.large"), Some(0.05)), "{answer}");
    assert!((claim["listPrice"].as_f64().unwrap() - 0.126).abs() < 1e-9, "{claim}");
    assert_eq!(
        (&claim["listPrice"], &claim["price"]),
        (&answer["listHourlyPrice"], &answer["totalCheapestHourlyPrice"])
    );
    let reasons: Vec<&str> =
        answer["overlays"].as_array().unwrap().iter().map(|one| one["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["Conflict", "RuntimeValidation", "ValidationSucceeded"]);
    let text = stdout(&plan(&[]));
    for line in [
        "prices are those of nodeoverlays; at list prices these nodes cost $0.1260 an hour",
        "nodeoverlay cheap: it selects 1 instance type(s)",
        "nodeoverlay a-rival is left out: conflict with another overlay: cheap",
        "nodeoverlay bad is left out: spec.capacity[cpu]: ",
    ] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
}

/// Gate closed: the same plan byte for byte as without overlays, but for the times.
#[test]
fn plan_with_the_gate_closed_reads_no_overlay() {
    let with = write("plan-overlays/with.yaml", &manifests(&overlay("cheap", &format!("{OF_R5}, price: \"0.05\""))));
    let without = write("plan-overlays/without.yaml", &manifests(""));
    let plan = |file: &str, more: &[&str]| {
        let output = dovetail(&[&["plan", "-f", file], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(plan(&with, &[]), plan(&without, &[]));
    let gate = ["--feature-gates", "NodeOverlay=true"];
    assert_eq!(plan(&without, &gate), plan(&without, &[]), "without overlays the gate changes nothing");
}
