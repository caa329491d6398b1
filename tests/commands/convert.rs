//! `dovetail convert`: what it writes means what was written, and how it says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::common;

use std::fs;
use std::path::Path;

use common::{arg, dovetail, post, root, scratch, stderr, stdout, write};

const ENV: [&str; 6] = ["--env", "CLUSTER_NAME=demo", "--env", "ARM_AMI_ID=ami-1", "--env", "AMD_AMI_ID=ami-2"];

/// The answer of `plan` to these files, and its exit status, without what differs from run to run.
fn planned(files: &[String]) -> (Option<i32>, String) {
    let mut args = vec!["plan", "--json"];
    args.extend(ENV);
    files.iter().for_each(|file| args.extend(["-f", file.as_str()]));
    let output = dovetail(&args);
    let mut answer: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap_or_default();
    if let Some(answer) = answer.as_object_mut() {
        // `workload` names the files.
        for key in ["solveMs", "loadMs", "wallMs", "peakRssKiB", "workload"] {
            answer.remove(key);
        }
    }
    (output.status.code(), answer.to_string())
}

/// The manifests of the posts.
fn posts() -> Vec<String> {
    let mut files: Vec<String> = fs::read_dir(root().join("tests/fixtures/posts"))
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .filter(|path| path.ends_with(".yaml"))
        .collect();
    files.sort();
    files
}

fn converted(file: &str, folder: &Path) -> Option<String> {
    let output = dovetail(&[&["convert", "-f", file], &ENV[..]].concat());
    assert!(matches!(output.status.code(), Some(0..=2)), "{file}: {}", stderr(&output));
    if output.status.code() == Some(2) {
        assert_eq!(stdout(&output), "", "{file}");
        return None;
    }
    let path = folder.join(Path::new(file).file_name().unwrap());
    fs::write(&path, stdout(&output)).unwrap();
    Some(path.to_str().unwrap().to_owned())
}

#[test]
fn converted_manifests_plan_like_the_original() {
    let folder = scratch("convert");
    fs::create_dir_all(&folder).unwrap();
    let inflate = arg(&post("003-inflate-100.yaml")).to_owned();
    let mut compared = 0;
    for file in posts() {
        let Some(new) = converted(&file, &folder) else {
            assert!(file.contains("as-printed") || file.contains("clusterconfigs"), "{file} is refused");
            continue;
        };
        // Pools alone have nothing to plan: the posts' own workload comes beside those that bring none.
        let brings = ["kind: Deployment", "kind: StatefulSet"]
            .iter()
            .any(|kind| fs::read_to_string(&file).unwrap().contains(kind));
        let beside: Vec<String> = if brings { vec![] } else { vec![inflate.clone()] };
        let of = |file: &str| planned(&[&[file.to_owned()], &beside[..]].concat());
        let (before, after) = (of(&file), of(&new));
        assert_eq!(before, after, "{file}");
        compared += usize::from(before.0 == Some(0));
    }
    assert!(compared >= 5, "{compared}");
}

/// Pools of both older generations, each with another part of what their files may hold.
const OLD_POOLS: [(&str, &str); 8] = [
    ("alpha-alone", "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: default}\nspec: {}\n"),
    (
        "alpha-pool",
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: default}\nspec:\n  weight: 10\n  labels: {team: web}\n  \
         annotations: {example.com/owner: web}\n  taints: [{key: example.com/web, value: 'yes', effect: PreferNoSchedule}]\n  \
         startupTaints: [{key: example.com/agent, effect: NoSchedule}]\n  limits: {resources: {cpu: '40', memory: 400Gi}}\n  \
         ttlSecondsAfterEmpty: 90\n  ttlSecondsUntilExpired: 86401\n  requirements:\n  \
         - {key: karpenter.k8s.aws/instance-family, operator: NotIn, values: [m5, c5]}\n  \
         - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}\n",
    ),
    (
        "alpha-kubelet",
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: default}\nspec:\n  consolidation: {enabled: true}\n  \
         kubeletConfiguration:\n    maxPods: 20\n    clusterDNS: [10.0.0.10]\n    systemReserved: {cpu: 200m, memory: 300Mi}\n    \
         kubeReserved: {cpu: 300m, memory: 500Mi}\n    evictionHard: {memory.available: 5%}\n",
    ),
    (
        "alpha-provider",
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: default}\nspec:\n  provider:\n    amiFamily: AL2\n    \
         subnetSelector: {karpenter.sh/discovery: demo}\n    securityGroupSelector: {karpenter.sh/discovery: demo}\n    \
         instanceProfile: mine\n    tags: {team: web}\n    metadataOptions: {httpTokens: required}\n    blockDeviceMappings:\n    \
         - {deviceName: /dev/xvda, ebs: {volumeSize: 200Gi, volumeType: gp3, encrypted: true}}\n",
    ),
    (
        "alpha-template",
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: default}\nspec: {providerRef: {name: web}}\n---\n\
         apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: web}\nspec:\n  amiFamily: Bottlerocket\n  \
         subnetSelector: {aws-ids: 'subnet-1,subnet-2'}\n  securityGroupSelector: {karpenter.sh/discovery: demo}\n  \
         detailedMonitoring: true\n  userData: |\n    [settings.kubernetes]\n    max-pods = 30\n",
    ),
    (
        "beta-pool",
        "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: default}\nspec:\n  weight: 5\n  limits: {cpu: 100}\n  \
         disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 45s, expireAfter: Never, budgets: [{nodes: 20%, schedule: '0 9 * * *', \
         duration: 8h}]}\n  template:\n    metadata: {labels: {team: web}, annotations: {example.com/owner: web}}\n    spec:\n      \
         taints: [{key: example.com/web, effect: PreferNoSchedule}]\n      requirements:\n      \
         - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r], minValues: 2}\n      nodeClassRef: {name: web}\n---\n\
         apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: web}\nspec:\n  amiFamily: Ubuntu\n  role: web\n  \
         subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]\n  \
         securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]\n  amiSelectorTerms: [{name: 'ubuntu-*', owner: self}]\n",
    ),
    (
        "beta-kubelet",
        "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: default}\nspec:\n  template:\n    spec:\n      \
         kubelet: {maxPods: 12, podsPerCore: 4, systemReserved: {memory: 500Mi}}\n      requirements: []\n      nodeClassRef: {name: web}\n---\n\
         apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: web}\nspec:\n  amiFamily: AL2\n  role: web\n  \
         subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]\n  \
         securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]\n",
    ),
    (
        "beta-class",
        "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: default}\nspec:\n  template:\n    spec:\n      requirements: []\n      \
         nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: web}\n---\n\
         apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: web}\nspec:\n  amiFamily: AL2023\n  \
         instanceProfile: mine\n  associatePublicIPAddress: false\n  instanceStorePolicy: RAID0\n  \
         subnetSelectorTerms: [{id: subnet-1}, {tags: {karpenter.sh/discovery: demo}}]\n  \
         securityGroupSelectorTerms: [{name: nodes}]\n  blockDeviceMappings:\n  - {deviceName: /dev/xvda, ebs: {volumeSize: 80Gi}}\n",
    ),
];

#[test]
fn pools_of_older_versions_mean_the_same_field_by_field() {
    let folder = scratch("convert-old");
    fs::create_dir_all(&folder).unwrap();
    let inflate = arg(&post("003-inflate-100.yaml")).to_owned();
    for (name, text) in OLD_POOLS {
        let file = write(&format!("convert-old-{name}.yaml"), text);
        let new = converted(&file, &folder).unwrap_or_else(|| panic!("{name} is refused"));
        let versions = fs::read_to_string(&new).unwrap();
        let mut versions = versions.lines().filter(|line| line.starts_with("apiVersion: "));
        assert!(versions.all(|line| line.ends_with("/v1")), "{name}");
        let (before, after) = (planned(&[file, inflate.clone()]), planned(&[new, inflate.clone()]));
        assert_eq!(before, after, "{name}");
        assert!(before.1.contains("nodeClaims"), "{name}: {}", before.1);
    }
}

/// The other manifests of the repository, of whatever version they are.
fn of_the_repository() -> Vec<String> {
    let folders = ["deploy/examples", "tests/simulation/manifests"];
    let mut files: Vec<String> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .filter(|path| path.ends_with(".yaml"))
        // One with variables is a scenario's to fill.
        .filter(|path| {
            fs::read_to_string(path).is_ok_and(|text| text.contains("kind: NodePool") && !text.contains("${"))
        })
        .collect();
    files.sort();
    files
}

#[test]
fn manifests_of_the_repository_plan_as_before() {
    let folder = scratch("convert-repository");
    fs::create_dir_all(&folder).unwrap();
    let files = of_the_repository();
    assert!(files.len() >= 10, "{files:?}");
    for file in files {
        let new = converted(&file, &folder).unwrap_or_else(|| panic!("{file} is refused"));
        assert_eq!(planned(std::slice::from_ref(&file)), planned(&[new]), "{file}");
    }
}

#[test]
fn convert_diff_names_both_sides_and_bad_input_is_refused() {
    let file = write(
        "convert-diff.yaml",
        "# pools\napiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata:\n  name: default\nspec: {}\n",
    );
    let output = dovetail(&["convert", "-f", &file, "--diff", "--to", "v1"]);
    assert_eq!(output.status.code(), Some(0));
    let diff = stdout(&output);
    assert!(diff.starts_with(&format!("--- {file}\n+++ {file} (v1)\n@@ ")), "{diff}");
    assert!(diff.contains("\n # pools\n-apiVersion: karpenter.sh/v1alpha5\n"), "{diff}");
    assert!(stderr(&output).contains(&format!("{file}:2: Provisioner default: ")), "{}", stderr(&output));

    let bad = write(
        "convert-bad.yaml",
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata:\n  name: default\nspec:\n  provider:\n    launchTemplate: mine\n",
    );
    let output = dovetail(&["convert", "-f", &bad]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""));
    assert!(stderr(&output).contains(&format!("{bad}:7: spec.provider.launchTemplate: ")), "{}", stderr(&output));

    let lost = write(
        "convert-lost.yaml",
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata:\n  name: default\nspec:\n  requirements:\n  - {key: karpenter.k8s.aws/instance-pods, operator: In, values: [\"8\"]}\n",
    );
    let output = dovetail(&["convert", "-f", &lost]);
    assert_eq!(output.status.code(), Some(1), "something is to be written by hand");
    assert!(stderr(&output).contains("(to be written by hand)"), "{}", stderr(&output));
}
