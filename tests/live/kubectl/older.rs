//! Kinds that were before v1: v1beta1 is taken and stored as v1.

use super::common::live::Live;
use super::common::write;
use super::{SPOT, has};

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
    let unknown =
        write("older-unknown.yaml", &text.replace("{consolidationPolicy", "{patience: 3, consolidationPolicy"));
    assert!(live.refused(&["apply", "-f", &unknown]).contains("spec.disruption.patience"));
}
