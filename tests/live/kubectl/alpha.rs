//! The posts' alpha objects, applied with kubectl to a live cluster.

use super::SPOT;
use super::common::live::Live;
use super::common::{arg, post, write};

#[test]
fn provisioner_is_translated_and_a_misprinted_one_is_refused() {
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

/// Applies a manifest of this text.
fn apply(live: &Live, name: &str, text: &str) -> String {
    live.ok(&["apply", "-f", &write(&format!("alpha-{name}.yaml"), text)])
}

/// A Provisioner of this name and spec.
fn provisioner(name: &str, spec: &str) -> String {
    format!("apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n")
}

/// Waits until an alpha object is refused; reason and message.
fn said(live: &Live, object: &str) -> String {
    live.ok(&["wait", "--for=condition=dovetail.dev/Translated=False", object, "--timeout=60s"]);
    let path = r#"jsonpath={.status.conditions[?(@.type=="dovetail.dev/Translated")]['reason','message']}"#;
    live.ok(&["get", object, "-o", path])
}

#[test]
fn untranslatable_object_says_why_and_its_pool_stays_unchanged() {
    let live = Live::start("kubectl-alpha-refused", SPOT);
    live.wait_for("elected");
    apply(&live, "before", &provisioner("blue", "weight: 7"));
    live.ok(&["wait", "--for=condition=Ready", "provisioner/blue", "--timeout=60s"]);
    let spec = |kind: &str| live.ok(&["get", kind, "blue", "-o", "jsonpath={.spec}"]);
    let before = (spec("nodepool"), spec("ec2nodeclass"));
    apply(&live, "after", &provisioner("blue", "weight: 9, provider: {launchTemplate: mine, tags: {a: b}}"));
    let why = said(&live, "provisioner/blue");
    for word in ["Invalid", "spec.provider.launchTemplate", "securityGroupSelector", "userData"] {
        assert!(why.contains(word), "{word} is not in {why}");
    }
    assert_eq!((spec("nodepool"), spec("ec2nodeclass")), before);
    let described = live.ok(&["describe", "provisioner", "blue"]);
    assert!(described.contains("NotTranslated") && described.contains("spec.provider.launchTemplate"), "{described}");

    // A field that no version knows is named before anything is stored.
    let unknown = write("alpha-unknown.yaml", &provisioner("green", "patience: 3"));
    assert!(live.refused(&["apply", "-f", &unknown]).contains("spec.patience"));
}

#[test]
fn taken_name_and_hand_made_pool_are_told_and_not_overwritten() {
    let live = Live::start("kubectl-alpha-taken", SPOT);
    live.wait_for("elected");
    let spec =
        |kind: &str, name: &str| live.ok(&["get", kind, name, "-o", "jsonpath={.spec}{.metadata.ownerReferences}"]);
    // `default`, pool and class, has been made by hand.
    let before = (spec("nodepool", "default"), spec("ec2nodeclass", "default"));
    let template = "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: mine}\nspec: {}\n";
    let reference = provisioner("default", "weight: 7, providerRef: {name: mine}");
    apply(&live, "hand", &format!("{template}---\n{reference}"));
    let why = said(&live, "provisioner/default");
    assert!(why.contains("NameTaken") && why.contains("NodePool default") && why.contains("rename"), "{why}");
    assert_eq!((spec("nodepool", "default"), spec("ec2nodeclass", "default")), before);

    // A Provisioner of its own provider makes a class of its name, which is the template's already.
    live.ok(&["wait", "--for=condition=Ready", "awsnodetemplate/mine", "--timeout=60s"]);
    let class = spec("ec2nodeclass", "mine");
    apply(&live, "twice", &provisioner("mine", "provider: {tags: {a: b}}"));
    let why = said(&live, "provisioner/mine");
    assert!(why.contains("NameTaken") && why.contains("AWSNodeTemplate mine"), "{why}");
    assert_eq!(spec("ec2nodeclass", "mine"), class);
    assert!(live.refused(&["get", "nodepool", "mine"]).contains("not found"));
}
