//! Kinds that were before v1: v1beta1 is taken and stored as v1.

use std::time::Duration;

use super::common::live::Live;
use super::common::write;
use super::{SPOT, has};

/// Generation and resourceVersion of each.
fn versions_of(live: &Live, objects: &[&str]) -> String {
    let path =
        "jsonpath={range .items[*]}{.metadata.name} {.metadata.generation} {.metadata.resourceVersion}{'\\n'}{end}";
    live.ok(&[&["get"][..], objects, &["-o", path]].concat())
}

/// The same when it has not changed between two looks in a row: the control plane has written what it says of them.
fn at_rest(live: &Live, objects: &[&str]) -> String {
    let mut before = versions_of(live, objects);
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = versions_of(live, objects);
        if now == before {
            return now;
        }
        before = now;
    }
}

#[test]
fn v1beta1_is_applied_once_and_again_and_stored_as_v1() {
    let live = Live::start("kubectl-older", SPOT);
    live.wait_for("elected");
    let class = "nodeClassRef: {name: default}";
    let versions = live.ok(&["api-versions"]);
    assert!(has(&versions, &["karpenter.sh/v1"]) && has(&versions, &["karpenter.sh/v1beta1"]), "{versions}");

    let terms = "subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}], securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]";
    let text = format!(
        "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {{name: beta}}\nspec:\n  disruption: {{consolidationPolicy: WhenUnderutilized, expireAfter: 720h}}\n  \
         template: {{spec: {{requirements: [], {class}}}}}\n---\napiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {{name: beta}}\nspec: {{amiFamily: \
         AL2023, role: KarpenterNodeRole-demo, {terms}}}\n"
    )
    .replace("{name: default}", "{name: beta}");
    let file = write("older-beta.yaml", &text);
    live.ok(&["apply", "-f", &file]);
    let again = live.ok(&["apply", "-f", &file]);
    assert_eq!(again.matches("unchanged").count(), 2, "{again}");
    live.ok(&["apply", "--server-side", "--force-conflicts", "-f", &file]);
    live.ok(&["wait", "nodepool/beta", "--for=condition=Ready", "--timeout=60s"]);
    let policy = |kind: &str| live.ok(&["get", kind, "beta", "-o", "jsonpath={.spec.disruption.consolidationPolicy}"]);
    assert_eq!(policy("nodepools.v1beta1.karpenter.sh"), "WhenUnderutilized");
    assert_eq!(policy("nodepools.v1.karpenter.sh"), "WhenEmptyOrUnderutilized");
    // Applied once more, by either way, nothing of the objects changes: no field, no annotation, no manager.
    let kinds = ["nodepools.v1.karpenter.sh/beta", "ec2nodeclasses.v1.karpenter.k8s.aws/beta"];
    for how in [&[][..], &["--server-side", "--force-conflicts"]] {
        let again = [&["apply", "-f", file.as_str()][..], how].concat();
        // The first apply of each way takes the fields over.
        live.ok(&again);
        let before = at_rest(&live, &kinds);
        live.ok(&again);
        assert_eq!(versions_of(&live, &kinds), before, "{how:?}");
    }
    let unknown =
        write("older-unknown.yaml", &text.replace("{consolidationPolicy", "{patience: 3, consolidationPolicy"));
    assert!(live.refused(&["apply", "-f", &unknown]).contains("spec.disruption.patience"));
    let deep = text
        .replace("requirements: []", "requirements: [], hurry: true")
        .replace("role: Karp", "roles: [], role: Karp");
    let deep = write("older-unknown-deep.yaml", &deep);
    let refused = live.refused(&["apply", "-f", &deep]);
    assert!(refused.contains("spec.template.spec.hurry") && refused.contains("spec.roles"), "{refused}");
}
