//! Manifests of older versions written again as v1: what they mean stays, comments and order stay, every change is said.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::PathBuf;

use dovetail_api::manifest::rewrite::{Rewritten, rewrite};
use dovetail_api::manifest::{Objects, ReadOptions, read_manifests};

fn options() -> ReadOptions {
    ReadOptions { cluster_name: "demo".into(), kubernetes_minor: Some(33), ..ReadOptions::default() }
}

fn rewritten(text: &str) -> Rewritten {
    rewrite(&[("a.yaml", text)], &options()).unwrap_or_else(|errors| panic!("{errors:?}")).remove(0)
}

fn said(file: &Rewritten) -> String {
    file.changes.iter().map(|change| format!("{change}\n")).collect()
}

const ALPHA: &str = "\
# Made by the platform team.
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: default # the only one
spec:
  ttlSecondsAfterEmpty: 30 # soon
  # which machines
  requirements:
    # old and new
    - key: node.k8s.aws/instance-type # a type
      operator: In
      values: [\"m5.large\", \"m5.2xlarge\"]
    - key: karpenter.k8s.aws/instance-pods
      operator: In
      values: [\"8\"]
    - key: kubernetes.io/arch
      operator: In
      values: [arm64] # cheap
  limits:
    resources:
      cpu: 1000 # vCPUs
  provider:
    # private ones
    subnetSelector:
      karpenter.sh/discovery: demo
    instanceProfile: nodes
# the end
---
apiVersion: v1
kind: ConfigMap
metadata: {name: as-it-is,   namespace: default} # kept
data:
  text: |
    --- # no document, no comment
";

#[test]
fn comments_and_order_stay_and_unchanged_documents_are_kept() {
    let file = rewritten(ALPHA);
    let expected = "\
# Made by the platform team.
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default # the only one
  annotations:
    dovetail.dev/converted-from: karpenter.sh/v1alpha5/Provisioner/default
    dovetail.dev/ttl-seconds-after-empty: \"30\"
spec:
  template:
    spec:
      # which machines
      requirements:
        # old and new
        - key: node.kubernetes.io/instance-type # a type
          operator: In
          values: [\"m5.large\", \"m5.2xlarge\"]
        - key: kubernetes.io/arch
          operator: In
          values: [\"arm64\"] # cheap
        - key: kubernetes.io/os
          operator: In
          values: [\"linux\"]
        - key: karpenter.sh/capacity-type
          operator: In
          values: [\"on-demand\"]
      expireAfter: Never
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: default
  disruption:
    consolidateAfter: 30s # soon
    budgets:
      - nodes: 100%
    consolidationPolicy: WhenEmpty
  limits:
    cpu: \"1000\" # vCPUs
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
";
    let first = file.text.lines().zip(expected.lines()).find(|(is, should)| is != should);
    assert!(file.text.starts_with(expected), "{first:?}\n{}", file.text);
    let class = &file.text[expected.len()..];
    assert!(class.contains("  # private ones\n  subnetSelectorTerms:\n"), "{class}");
    assert!(class.contains("\n# the end\n---\n"), "{class}");
    let kept = &ALPHA[ALPHA.find("---\napiVersion: v1\n").unwrap()..];
    assert!(file.text.ends_with(kept), "{class}");
}

#[test]
fn change_is_said_with_its_line_and_what_v1_lacks_is_lost() {
    let file = rewritten(ALPHA);
    let said = said(&file);
    for line in [
        "a.yaml:2: Provisioner default: karpenter.sh/v1alpha5 becomes karpenter.sh/v1 NodePool default and karpenter.k8s.aws/v1 EC2NodeClass default",
        "a.yaml:7: Provisioner default: spec.ttlSecondsAfterEmpty is now spec.disruption.consolidateAfter of the NodePool: 30s",
        "a.yaml:11: Provisioner default: spec.requirements[0].key is now node.kubernetes.io/instance-type",
        "a.yaml:14: Provisioner default: spec.requirements[1] is left out",
        "a.yaml:21: Provisioner default: spec.limits.resources is now spec.limits of the NodePool",
        "a.yaml:27: Provisioner default: spec.provider.instanceProfile is now spec.instanceProfile of the EC2NodeClass",
        "a.yaml:2: Provisioner default: adds spec.template.spec.expireAfter of the NodePool: Never",
    ] {
        assert!(said.contains(line), "{line}\nis not in\n{said}");
    }
    assert!(said.contains("adds spec.template.spec.requirements[2] of the NodePool"), "{said}");
    let lost: Vec<String> = file.lost.iter().map(ToString::to_string).collect();
    assert_eq!(lost.len(), 1);
    assert!(lost[0].contains("spec.requirements[1]: nodes have no label karpenter.k8s.aws/instance-pods"), "{lost:?}");
}

#[test]
fn a_beta_pool_changes_only_where_v1_has_other_words() {
    let text = "\
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: default
spec:
  disruption: # how nodes go
    consolidationPolicy: WhenUnderutilized
    expireAfter: 720h # 30 * 24h = 720h
  template:
    spec:
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
      nodeClassRef:
        name: default # ours
";
    let file = rewritten(text);
    assert!(file.text.contains("      expireAfter: 720h # 30 * 24h = 720h\n"), "{}", file.text);
    assert!(file.text.contains("  disruption: # how nodes go\n"), "{}", file.text);
    assert!(file.text.contains("        name: default # ours\n"), "{}", file.text);
    assert!(!file.text.contains("annotations"), "{}", file.text);
    let said = said(&file);
    for line in [
        "a.yaml:7: NodePool default: spec.disruption.consolidationPolicy is now WhenEmptyOrUnderutilized",
        "a.yaml:8: NodePool default: spec.disruption.expireAfter is now spec.template.spec.expireAfter",
        "adds spec.disruption.consolidateAfter: 0s",
        "adds spec.template.spec.nodeClassRef.group: karpenter.k8s.aws",
    ] {
        assert!(said.contains(line), "{line}\nis not in\n{said}");
    }
}

#[test]
fn v1_stays_byte_for_byte_and_old_words_of_pods_are_named() {
    let text = "\
apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations: {karpenter.sh/do-not-evict: \"true\"}
spec:
  nodeSelector:
    karpenter.sh/provisioner-name: default
  containers: [{name: c, image: i}]
";
    let file = rewritten(text);
    assert_eq!(file.text, text);
    let said = said(&file);
    assert!(said.contains("a.yaml:5: Pod p: karpenter.sh/do-not-evict is left as it is"), "{said}");
    assert!(said.contains("a.yaml:8: Pod p: karpenter.sh/provisioner-name is left as it is"), "{said}");
}

#[test]
fn variables_stay_variables_and_a_value_that_is_given_is_filled() {
    let text = "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: t}\nspec:\n  instanceProfile: Nodes-${CLUSTER}\n  userData: \"echo $${HOME} ${GIVEN}\"\n";
    let given = ReadOptions { env: [("GIVEN".to_owned(), "x".to_owned())].into(), ..options() };
    let file = rewrite(&[("a.yaml", text)], &given).unwrap().remove(0);
    assert!(file.text.contains("instanceProfile: \"Nodes-${CLUSTER}\""), "{}", file.text);
    assert!(file.text.contains("userData: \"echo $${HOME} x\""), "{}", file.text);
}

#[test]
fn a_list_becomes_documents_where_something_in_it_changes() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n  metadata: {name: a}\n- apiVersion: karpenter.sh/v1alpha5\n  kind: Provisioner\n  metadata: {name: b}\n  spec: {}\n";
    let file = rewritten(text);
    let names: Vec<_> = read_manifests(&[("a.yaml", file.text.as_str())], &options())
        .unwrap()
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(names, ["a", "b", "b"], "{}", file.text);
}

/// Every manifest of the posts that is no bad input.
fn posts() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/posts");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let yaml = files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    yaml.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect()
}

#[test]
fn post_manifests_keep_meaning_and_second_run_changes_nothing() {
    let env = ["CLUSTER_NAME", "ARM_AMI_ID", "AMD_AMI_ID"].map(|name| (name.to_owned(), "ami-1".to_owned()));
    let options = ReadOptions { env: env.into(), ..options() };
    let mut written = 0;
    for (name, text) in posts() {
        let Ok(before) = read_manifests(&[(name.as_str(), text.as_str())], &options) else { continue };
        let file = rewrite(&[(name.as_str(), text.as_str())], &options).unwrap().remove(0);
        let after = read_manifests(&[(name.as_str(), file.text.as_str())], &options)
            .unwrap_or_else(|errors| panic!("{name}: {errors:?}\n{}", file.text));
        assert!(
            after
                .iter()
                .all(|one| !one.api_version.contains("alpha") && !one.api_version.contains("karpenter.sh/v1beta1"))
        );
        let (before, after) = (Objects::from_manifests(&before), Objects::from_manifests(&after));
        let specs = |all: &Objects| {
            let pools: Vec<_> =
                all.node_pools.iter().map(|one| (one.metadata.name.clone(), one.spec.clone())).collect();
            let classes: Vec<_> =
                all.node_classes.iter().map(|one| (one.metadata.name.clone(), one.spec.clone())).collect();
            (pools, classes)
        };
        assert_eq!(specs(&before), specs(&after), "{name}\n{}", file.text);
        let again = rewrite(&[(name.as_str(), file.text.as_str())], &options).unwrap().remove(0);
        assert_eq!(again.text, file.text, "{name}");
        for line in text.lines().filter(|line| line.trim_start().starts_with('#')) {
            assert!(file.text.contains(line.trim()), "{name}: the comment {line} is gone\n{}", file.text);
        }
        written += usize::from(file.text != text);
    }
    assert!(written >= 8, "{written} files of the posts are of older versions");
}

fn refused(text: &str) -> Vec<String> {
    rewrite(&[("a.yaml", text)], &options()).unwrap_err().iter().map(ToString::to_string).collect()
}

const BETA_CLASS: &str = "\
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiFamily: AL2023
  role: nodes
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
  blockDeviceMappings:
    - deviceName: /dev/xvda
      ebs:
        volumeSize: ${SIZE}
";

#[test]
fn what_v1_refuses_is_never_written_but_told_at_its_line() {
    for (size, becomes) in [("21474836480", "20Gi"), ("21474836481", "21Gi")] {
        let text = rewritten(&BETA_CLASS.replace("${SIZE}", size)).text;
        assert!(text.contains(&format!("volumeSize: {becomes}\n")), "{size}: {text}");
    }
    for size in ["0", "20", "104857600", "99999999999999999"] {
        let errors = refused(&BETA_CLASS.replace("${SIZE}", size));
        assert_eq!(errors.len(), 1, "{errors:?}");
        let place = "a.yaml:12: spec.blockDeviceMappings[0].ebs.volumeSize: cannot be written as v1: ";
        assert!(errors[0].starts_with(place), "{errors:?}");
    }
    let template = "\
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: default}
spec:
  subnetSelector: {aws-ids: subnet-1}
  # the old ones
  securityGroupSelector: {aws-ids: 'group-1'}
";
    let errors = refused(template);
    assert!(errors.len() == 1 && errors[0].starts_with("a.yaml:7: spec.securityGroupSelectorTerms"), "{errors:?}");
}

#[test]
fn whole_numbers_of_the_kubelet_become_texts() {
    let pool = "\
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      kubelet: {kubeReserved: {cpu: 1}, systemReserved: {memory: 100}, podsPerCore: 4}
      nodeClassRef: {name: default}
      requirements: []
";
    let text = rewritten(&format!("{pool}---\n{}", BETA_CLASS.replace("${SIZE}", "20Gi"))).text;
    assert!(text.contains("cpu: \"1\"\n") && text.contains("memory: \"100\"\n"), "{text}");
    assert!(text.contains("podsPerCore: 4\n"), "{text}");
}
