//! The posts' alpha objects, applied with kubectl to a live cluster.

use super::SPOT;
use super::common::live::Live;
use super::common::{arg, post, write};

#[test]
fn a_provisioner_is_taken_translated_and_says_so_and_a_misprinted_one_is_refused_by_its_fields() {
    let live = Live::start("kubectl-alpha", SPOT);
    live.wait_for("elected");
    let refused = live.refused(&["apply", "-f", arg(&post("000-provisioner-as-printed.yaml"))]);
    assert!(refused.contains("name"), "{refused}");
    let text = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: blue}\nspec: {ttlSecondsAfterEmpty: 30}\n";
    let file = write("alpha-blue.yaml", text);
    live.ok(&["apply", "-f", &file]);
    live.ok(&["wait", "--for=condition=dovetail.dev/Translated", "provisioner/blue", "--timeout=60s"]);
    live.ok(&["wait", "--for=condition=Ready", "provisioner/blue", "--timeout=60s"]);
    let pool = live.ok(&["get", "nodepool", "blue", "-o", "yaml"]);
    for line in ["kind: Provisioner", "consolidateAfter: 30s", "nodes: 100%"] {
        assert!(pool.contains(line), "{line} is not in {pool}");
    }
    live.ok(&["delete", "provisioner", "blue"]);
    live.ok(&["wait", "--for=delete", "nodepool/blue", "--timeout=60s"]);
}
