//! Kinds of v1beta1: a cluster does not take them, and says so.

use super::common::live::Live;
use super::common::write;
use super::{SPOT, has};

#[test]
fn kinds_of_v1beta1_are_refused_as_kinds_that_are_not_there() {
    let live = Live::start("kubectl-older", SPOT);
    live.wait_for("elected");
    let class = "nodeClassRef: {name: default}";
    for (version, kind, spec) in [
        ("karpenter.sh/v1beta1", "NodePool", format!("{{template: {{spec: {{requirements: [], {class}}}}}}}")),
        ("karpenter.sh/v1beta1", "NodeClaim", format!("{{requirements: [], {class}}}")),
        ("karpenter.k8s.aws/v1beta1", "EC2NodeClass", "{amiFamily: AL2, role: r}".to_owned()),
    ] {
        let text = format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: old}}\nspec: {spec}\n");
        let refused = live.refused(&["apply", "-f", &write(&format!("older-{kind}.yaml"), &text)]);
        assert!(refused.contains(&format!("no matches for kind \"{kind}\" in version \"{version}\"")), "{refused}");
    }
    let versions = live.ok(&["api-versions"]);
    assert!(has(&versions, &["karpenter.sh/v1"]), "{versions}");
    assert!(!versions.contains("karpenter.sh/v1beta1"), "{versions}");
}
