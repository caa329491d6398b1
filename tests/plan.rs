//! `plan` on the posts' manifests, our own examples and the workload files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::{arg, dovetail, json, python, scratch, shared, stderr, stdout, write};
use serde_json::Value;

fn claims(answer: &Value) -> &Vec<Value> {
    answer["nodeClaims"].as_array().expect("claims")
}

/// `plan --json` on seeds, in a region, with the cluster's name filled in.
fn plan_seeds(region: &str, files: &[&str], status: i32) -> Option<Value> {
    let paths: Vec<String> = files
        .iter()
        .map(|file| shared(&format!("seeds/{file}")).map(|path| arg(&path).to_owned()))
        .collect::<Option<_>>()?;
    let mut args = vec!["plan", "--json", "--region", region, "--env", "CLUSTER_NAME=demo"];
    args.extend(["--env", "ARM_AMI_ID=ami-0a", "--env", "AMD_AMI_ID=ami-0b"]);
    for path in &paths {
        args.extend(["-f", path]);
    }
    Some(json(&dovetail(&args), status))
}

fn in_set(claim: &Value, key: &str) -> Vec<String> {
    let found =
        claim["requirements"].as_array().unwrap().iter().find(|one| one["key"] == key && one["operator"] == "In");
    let values = found.map(|one| one["values"].as_array().unwrap().clone()).unwrap_or_default();
    values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_examples_are_placed_whole() {
    let output =
        dovetail(&["plan", "--json", "-f", "deploy/examples/spot.yaml", "-f", "deploy/examples/inflate-400.yaml"]);
    let answer = json(&output, 0);
    assert_eq!(answer["scheduledPods"], 400);
    assert_eq!(answer["unscheduled"], serde_json::json!({}));
    let table =
        stdout(&dovetail(&["plan", "-f", "deploy/examples/spot.yaml", "-f", "deploy/examples/inflate-400.yaml"]));
    assert!(table.contains("400 of 400 pods placed"), "{table}");
}

#[test]
fn the_three_workloads_of_100_vcpus_get_spot_nodes() {
    for (file, pods) in [("003-inflate-400.yaml", 400), ("003-inflate-100.yaml", 100), ("003-inflate-10.yaml", 10)] {
        let Some(answer) = plan_seeds("eu-west-1", &["003-provisioner-spot.yaml", file], 0) else { return };
        assert_eq!(answer["scheduledPods"], pods, "{file}");
        for claim in claims(&answer) {
            assert_eq!(claim["cheapestCapacityType"], "spot");
            assert!(claim["cheapestZone"].as_str().unwrap().starts_with("eu-west-1"));
            assert!(claim["instanceTypeOptions"].as_array().unwrap().len() >= 15, "{file}: spot needs room to choose");
        }
    }
}

#[test]
fn the_introduction_posts_ten_pods_go_on_the_two_types_it_allows() {
    let Some(answer) = plan_seeds("us-east-1", &["000-provisioner.yaml"], 0) else { return };
    assert_eq!(answer["scheduledPods"], 10);
    for claim in claims(&answer) {
        for option in claim["instanceTypeOptions"].as_array().unwrap() {
            assert!(["m5.large", "m5.2xlarge"].contains(&option.as_str().unwrap()), "{option}");
        }
        assert!(["us-east-1a", "us-east-1b"].contains(&claim["cheapestZone"].as_str().unwrap()));
    }
}

#[test]
fn two_exclusive_pools_take_their_own_and_the_third_pod_is_told_why() {
    let Some(answer) = plan_seeds("us-east-1", &["003-two-pools.yaml"], 1) else { return };
    let mut pools: Vec<&str> = claims(&answer).iter().map(|claim| claim["nodePool"].as_str().unwrap()).collect();
    pools.sort_unstable();
    assert_eq!(pools, ["on-demand-only", "spot-only"]);
    let reason = answer["unscheduled"]["web-on-spot"].as_str().expect("the third pod is pending");
    for needle in ["on-demand-only", "spot-only", "karpenter.sh/capacity-type", "team"] {
        assert!(reason.contains(needle), "{needle} is not in {reason}");
    }
}

#[test]
fn a_tainted_pool_takes_only_pods_that_tolerate_it() {
    let Some(answer) = plan_seeds("us-west-2", &["003-provisioner-constrained.yaml", "003-inflate-tolerating.yaml"], 0)
    else {
        return;
    };
    assert_eq!(answer["scheduledPods"], 6);
    for claim in claims(&answer) {
        assert_eq!(in_set(claim, "billing-team"), ["my-team"]);
    }
    let Some(answer) = plan_seeds("us-west-2", &["003-provisioner-constrained.yaml", "003-inflate-10.yaml"], 1) else {
        return;
    };
    let reason = answer["unscheduled"].as_object().unwrap().values().next().unwrap().as_str().unwrap();
    assert!(reason.contains("example.com/special-taint"), "{reason}");
}

#[test]
fn the_beta_manifests_are_understood() {
    let Some(answer) = plan_seeds("us-east-1", &["002-spot-to-spot.yaml", "002-inflate.yaml"], 0) else { return };
    assert_eq!(answer["scheduledPods"], 5);
    for option in claims(&answer)[0]["instanceTypeOptions"].as_array().unwrap() {
        let size = option.as_str().unwrap().split('.').nth(1).unwrap();
        assert!(!["nano", "micro", "small", "medium"].contains(&size), "{option}");
    }
    let Some(answer) = plan_seeds("us-east-1", &["002-nodepool.yaml", "003-inflate-100.yaml"], 0) else { return };
    assert_eq!(answer["scheduledPods"], 100);
}

#[test]
fn accelerators_are_found() {
    let pool = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: gpu}\nspec:\n  requirements:\n    \
                - {key: karpenter.k8s.aws/instance-category, operator: In, values: [g, p, inf, trn]}\n---\n";
    for resource in ["nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron"] {
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n    - name: c\n      image: pause\n      \
             resources: {{requests: {{cpu: 1, {resource}: 1}}, limits: {{{resource}: 1}}}}\n"
        );
        let path = write(&format!("gpu/{}.yaml", resource.replace('/', "-")), &format!("{pool}{pod}"));
        let answer = json(&dovetail(&["plan", "--json", "-f", &path]), 0);
        assert_eq!(answer["scheduledPods"], 1, "{resource}");
    }
}

#[test]
fn no_pool_at_all_is_said_so() {
    let output = dovetail(&["plan", "-f", "deploy/examples/inflate-400.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("no NodePool"), "{}", stdout(&output));
}

#[test]
fn overlapping_pools_without_weights_are_warned_of() {
    let two = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\nspec: {requirements: []}\n---\n\
               apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: b}\nspec: {requirements: []}\n---\n\
               apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: pause}]}\n";
    let output = dovetail(&["plan", "-f", &write("overlap.yaml", two)]);
    assert!(stderr(&output).contains("weight"), "{}", stderr(&output));
}

/// Everything placed, valid for a checker that does not know the engine, with variety where a claim may be spot.
#[test]
fn workloads_are_placed_whole_and_valid() {
    let plain = ["seeds-400-1", "seeds-100-1", "seeds-10-1", "batch-1-5000", "shapes-40000"];
    let ruled = ["services-1-3000", "stateful-1-1500", "antiaffinity-5000", "preference-4000-respect", "diverse-500"];
    for name in plain.into_iter().chain(ruled) {
        let Some(file) = shared(&format!("workloads/{name}.json.gz")) else { return };
        let output = dovetail(&["plan", "--workload", arg(&file), "--json"]);
        let answer = json(&output, 0);
        assert_eq!(answer["scheduledPods"], answer["pods"], "{name}");
        let path = scratch(&format!("plan-{name}.json"));
        std::fs::write(&path, &output.stdout).unwrap();
        let checked = python(&["tests/plan/check.py", "--policy-cost", arg(&file), arg(&path)]);
        assert!(checked.status.success(), "{name}: {}{}", stdout(&checked), stderr(&checked));
    }
}

/// The answer without what depends on the machine.
fn timeless(mut answer: Value) -> Value {
    for field in ["solveMs", "loadMs", "wallMs", "peakRssKiB"] {
        answer.as_object_mut().unwrap().remove(field);
    }
    answer
}

#[test]
fn the_same_input_gives_the_same_answer_with_the_pods_shuffled_too() {
    let Some(file) = shared("workloads/batch-1-5000.json.gz") else { return };
    let unpacked =
        python(&["-c", "import gzip,sys; sys.stdout.buffer.write(gzip.open(sys.argv[1]).read())", arg(&file)]);
    let mut workload: Value = serde_json::from_slice(&unpacked.stdout).unwrap();
    let plain = write("shuffle/plain.json", &workload.to_string());
    let pods = workload["pods"].as_array_mut().unwrap();
    // A fixed permutation: 7919 is prime and does not divide the number of pods.
    let count = pods.len();
    *pods = (0..count).map(|index| pods[index * 7919 % count].clone()).collect();
    let shuffled = write("shuffle/shuffled.json", &workload.to_string());
    let answers =
        [&plain, &plain, &shuffled].map(|path| timeless(json(&dovetail(&["plan", "--workload", path, "--json"]), 0)));
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
    let tables = [&plain, &shuffled].map(|path| dovetail(&["plan", "--workload", path]).stdout);
    assert!(tables[0] == tables[1], "the tables differ");
}
