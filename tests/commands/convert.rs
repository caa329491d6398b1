//! `dovetail convert`: what it writes means what was written, and how it says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::common;

use std::fs;
use std::path::Path;

use common::{arg, dovetail, post, root, scratch, stderr, stdout, write};

const ENV: [&str; 6] = ["--env", "CLUSTER_NAME=demo", "--env", "ARM_AMI_ID=ami-1", "--env", "AMD_AMI_ID=ami-2"];

/// What `plan` answers of these files, and its exit status, without what differs from run to run.
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
fn plan_of_what_it_writes_answers_what_plan_of_the_original_does() {
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

#[test]
fn the_diff_names_both_sides_and_bad_input_is_refused_with_file_line_and_field() {
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
