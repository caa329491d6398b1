//! `plan` on the posts' manifests, our own examples and the workload files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use common::{arg, dovetail, json, post, python, scratch, stderr, stdout, workload, write};
use serde_json::Value;

fn claims(answer: &Value) -> &Vec<Value> {
    answer["nodeClaims"].as_array().expect("claims")
}

/// `plan --json` on seeds, in a region, with the cluster's name filled in.
fn plan_seeds(region: &str, files: &[&str], status: i32) -> Value {
    let paths: Vec<String> = files.iter().map(|file| arg(&post(file)).to_owned()).collect();
    let mut args = vec!["plan", "--json", "--region", region, "--env", "CLUSTER_NAME=demo"];
    args.extend(["--env", "ARM_AMI_ID=ami-0a", "--env", "AMD_AMI_ID=ami-0b"]);
    for path in &paths {
        args.extend(["-f", path]);
    }
    json(&dovetail(&args), status)
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
        let answer = plan_seeds("eu-west-1", &["003-provisioner-spot.yaml", file], 0);
        assert_eq!(answer["scheduledPods"], pods, "{file}");
        for claim in claims(&answer) {
            assert_eq!(claim["cheapestCapacityType"], "spot");
            assert!(claim["cheapestZone"].as_str().unwrap().starts_with("eu-west-1"));
            let options = claim["instanceTypeOptions"].as_array().unwrap().len();
            assert!(
                options >= 15 || claim["tooDear"].as_u64().unwrap() > 0,
                "{file}: the price alone narrows the choice"
            );
            assert!(options >= 2, "{file}: spot needs room to choose");
        }
    }
}

#[test]
fn introduction_posts_ten_pods_go_on_the_two_allowed_types() {
    let answer = plan_seeds("us-east-1", &["000-provisioner.yaml"], 0);
    assert_eq!(answer["scheduledPods"], 10);
    for claim in claims(&answer) {
        for option in claim["instanceTypeOptions"].as_array().unwrap() {
            assert!(["m5.large", "m5.2xlarge"].contains(&option.as_str().unwrap()), "{option}");
        }
        assert!(["us-east-1a", "us-east-1b"].contains(&claim["cheapestZone"].as_str().unwrap()));
    }
}

#[test]
fn two_exclusive_pools_take_their_pods_and_a_third_is_told_why() {
    let answer = plan_seeds("us-east-1", &["003-two-pools.yaml"], 1);
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
    let answer = plan_seeds("us-west-2", &["003-provisioner-constrained.yaml", "003-inflate-tolerating.yaml"], 0);
    assert_eq!(answer["scheduledPods"], 6);
    for claim in claims(&answer) {
        assert_eq!(in_set(claim, "billing-team"), ["my-team"]);
    }
    let answer = plan_seeds("us-west-2", &["003-provisioner-constrained.yaml", "003-inflate-10.yaml"], 1);
    let reason = answer["unscheduled"].as_object().unwrap().values().next().unwrap().as_str().unwrap();
    assert!(reason.contains("example.com/special-taint"), "{reason}");
}

#[test]
fn the_beta_manifests_are_understood() {
    let answer = plan_seeds("us-east-1", &["002-spot-to-spot.yaml", "002-inflate.yaml"], 0);
    assert_eq!(answer["scheduledPods"], 5);
    for option in claims(&answer)[0]["instanceTypeOptions"].as_array().unwrap() {
        let size = option.as_str().unwrap().split('.').nth(1).unwrap();
        assert!(!["nano", "micro", "small", "medium"].contains(&size), "{option}");
    }
    let answer = plan_seeds("us-east-1", &["002-nodepool.yaml", "003-inflate-100.yaml"], 0);
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

/// The README's table of node groups, by the commands that it names.
#[test]
fn node_groups_match_what_the_post_tells_of_cluster_autoscaler() {
    let readme = std::fs::read_to_string(common::root().join("README.md")).unwrap();
    for (workload, status, told) in [
        ("inflate-400", 0, "400 of 400 pods placed on 27 new nodes"),
        ("inflate-100", 0, "100 of 100 pods placed on 34 new nodes"),
        ("inflate-10", 1, "0 of 10 pods placed on 1 new node"),
    ] {
        let file = format!("deploy/examples/{workload}.yaml");
        let command = format!("dovetail plan --policy node-groups -f deploy/examples/node-group.yaml -f {file}");
        let args: Vec<&str> = command.split_whitespace().skip(1).collect();
        let output = dovetail(&args);
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        let table = stdout(&output);
        assert!(table.contains(told), "{workload}: {table}");
        assert!(status == 0 || table.contains("needs 10 CPU, a node of the group has 3.92 CPU for certain"), "{table}");
        assert!(readme.contains(&command), "{command} is not in the README");
    }
    assert!(readme.contains("| Cluster Autoscaler's way | 27, 1.44 $/h | 34, 1.81 $/h | pending forever, 0.05 $/h |"));
}

#[test]
fn a_node_group_that_makes_no_sense_is_bad_input() {
    let config = "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: demo, region: us-east-1}\n\
                  managedNodeGroups:\n  - {name: a, instanceType: m5.huge}\n  - {name: b, availabilityZones: [us-east-1z]}\n";
    let path = write("groups.yaml", config);
    let output = dovetail(&["plan", "--policy", "node-groups", "-f", &path]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    assert!(told.contains("managedNodeGroups[0].instanceTypes: \"m5.huge\""), "{told}");
    assert!(told.contains("managedNodeGroups[1].availabilityZones: \"us-east-1z\""), "{told}");
}

/// Volumes among manifests: a StatefulSet's claims, a claim that is bound, a class that nobody wrote.
#[test]
fn volumes_among_manifests_bind_their_pods() {
    let of = |claim: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {claim}}}\nspec:\n  containers: [{{name: c, image: pause}}]\n  \
             volumes: [{{name: v, persistentVolumeClaim: {{claimName: {claim}}}}}]\n"
        )
    };
    let volumes = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: p}\nspec: {requirements: []}\n---\n\
        apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], volumeName: pv, \
        storageClassName: gp3, resources: {requests: {storage: 1Gi}}}\n---\n\
        apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], \
        csi: {driver: ebs.csi.aws.com, volumeHandle: v}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: \
        [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [us-east-1b]}]}]}}}\n---\n\
        apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: new}\nspec: {accessModes: [ReadWriteOnce], \
        storageClassName: fast, resources: {requests: {storage: 1Gi}}}\n";
    let path = write("volumes.yaml", &format!("{volumes}{}{}{}", of("data"), of("new"), of("nobodys")));
    let output = dovetail(&["plan", "--json", "-f", &path]);
    let answer = json(&output, 1);
    assert!(stderr(&output).contains("StorageClass fast is not among the manifests"), "{}", stderr(&output));
    assert_eq!(answer["unscheduled"]["nobodys"], "PersistentVolumeClaim default/nobodys is not there");
    let of_data = claims(&answer).iter().find(|claim| claim["podNames"].to_string().contains("data")).unwrap();
    assert_eq!(in_set(of_data, "topology.kubernetes.io/zone"), ["us-east-1b"]);
    let reason = &answer["reasons"][0];
    assert_eq!((&reason["podNames"][0], &reason["reason"]["kind"]), (&"nobodys".into(), &"invalid".into()));
}

#[test]
fn a_reason_is_for_programs_too_with_what_each_rule_removes() {
    let answer = plan_seeds("us-east-1", &["003-two-pools.yaml"], 1);
    let reason = &answer["reasons"][0];
    assert_eq!(reason["podNames"], serde_json::json!(["web-on-spot"]));
    let pools = reason["reason"]["pools"].as_array().unwrap();
    assert_eq!(pools.len(), 2);
    for pool in pools {
        assert!(pool["rule"] == "requirements" && pool["instanceTypes"].as_u64().unwrap() > 100, "{pool}");
    }
    let big = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: p}\nspec: {requirements: []}\n---\n\
               apiVersion: v1\nkind: Pod\nmetadata: {name: big}\nspec:\n  nodeSelector: {karpenter.k8s.aws/instance-family: m5}\n  \
               containers: [{name: c, image: pause, resources: {requests: {cpu: 500}}}]\n";
    let answer = json(&dovetail(&["plan", "--json", "-f", &write("big.yaml", big)]), 1);
    let pool = &answer["reasons"][0]["reason"]["pools"][0];
    let removed = pool["removed"].as_array().unwrap();
    let rules: Vec<&str> = removed.iter().map(|one| one["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["instanceTypes", "resources"], "{pool}");
    let sum: u64 = removed.iter().map(|one| one["instanceTypes"].as_u64().unwrap()).sum();
    assert_eq!(sum, pool["instanceTypes"].as_u64().unwrap(), "every type is removed by one rule");
}

/// Reserved capacity in a workload file: used up first, never beyond what there is, and valid for the checker.
#[test]
fn reservations_in_a_workload_file_are_used_before_buying() {
    let id = |id: &str| serde_json::json!([{"key": "karpenter.k8s.aws/capacity-reservation-id", "operator": "In", "values": [id]}]);
    let reserved = |name: &str, left: u32| {
        serde_json::json!({"zone": "zone-a", "capacityType": "reserved", "price": 1e-8, "available": true, "reservationCapacity": left,
            "requirements": id(name)})
    };
    let bought = |kind: &str, price: f64| serde_json::json!({"zone": "zone-a", "capacityType": kind, "price": price, "available": true});
    let machine = |name: &str, cpu: u32, offerings: Vec<Value>| {
        serde_json::json!({"name": name, "capacity": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "100"}, "offerings": offerings,
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]}]})
    };
    let types = [
        machine("m1.small", 2, vec![bought("spot", 0.05), bought("on-demand", 0.2), reserved("cr-small", 3)]),
        machine("m1.large", 8, vec![bought("spot", 0.2), bought("on-demand", 0.8), reserved("cr-large", 2)]),
    ];
    let pods: Vec<Value> = (0..30)
        .map(|at| serde_json::json!({"name": format!("p{at}"), "uid": at.to_string(), "requests": {"cpu": "1", "memory": "1Gi"}}))
        .collect();
    for policy in ["cost", "fewest-nodes"] {
        let workload = serde_json::json!({"name": "reserved", "wellKnownLabels": ["karpenter.k8s.aws/capacity-reservation-id"],
            "nodePools": [{"name": "p", "policy": policy}], "instanceTypes": types, "pods": pods});
        let file = write(&format!("reserved-{policy}.json"), &workload.to_string());
        let output = dovetail(&["plan", "--workload", &file, "--json"]);
        let answer = json(&output, 0);
        let mut held: Vec<String> = claims(&answer)
            .iter()
            .flat_map(|claim| in_set(claim, "karpenter.k8s.aws/capacity-reservation-id"))
            .collect();
        held.sort_unstable();
        assert_eq!(held, ["cr-large", "cr-large", "cr-small", "cr-small", "cr-small"], "{policy}");
        // Two large ones and three small ones, on demand.
        assert!(
            (answer["paidForHourlyPrice"].as_f64().unwrap() - 2.2).abs() < 1e-9,
            "{}",
            answer["paidForHourlyPrice"]
        );
        let text = stdout(&dovetail(&["plan", "--workload", &file]));
        assert!(text.contains("are paid for: $2.2000 an hour on demand"), "{text}");
        let path = write(&format!("reserved-{policy}-plan.json"), &stdout(&output));
        let checked = python(&["tests/plan/check.py", &file, &path]);
        assert!(checked.status.success(), "{policy}: {}{}", stdout(&checked), stderr(&checked));
    }
}

/// Everything placed, valid for a checker that does not know the engine, with variety where a claim may be spot.
#[test]
fn workload_file_pods_are_answered_by_name_in_any_namespace() {
    let pod = |name: &str, cpu: &str| serde_json::json!({"name": name, "namespace": "team", "requests": {"cpu": cpu}});
    let offering = serde_json::json!({"zone": "a", "capacityType": "on-demand", "price": 1.0, "available": true});
    let capacity = serde_json::json!({"cpu": "8", "memory": "32Gi", "pods": "30"});
    let workload = serde_json::json!({
        "nodePools": [{"name": "default"}],
        "instanceTypes": [{"name": "m.8", "capacity": capacity, "requirements": [], "offerings": [offering]}],
        "pods": [pod("small", "1"), pod("large", "9")],
    });
    let path = write("namespaces/workload.json", &workload.to_string());
    let answer = json(&dovetail(&["plan", "--workload", &path, "--json"]), 1);
    assert_eq!(claims(&answer)[0]["podNames"], serde_json::json!(["small"]));
    assert!(answer["unscheduled"]["large"].is_string(), "{}", answer["unscheduled"]);
    assert_eq!(answer["reasons"][0]["podNames"], serde_json::json!(["large"]));
}

#[test]
fn workloads_are_placed_whole_and_valid() {
    let plain = ["seeds-400-1", "seeds-100-1", "seeds-10-1", "batch-1-5000", "shapes-40000"];
    let ruled = ["services-1-3000", "stateful-1-1500", "antiaffinity-5000", "preference-4000-respect", "diverse-500"];
    for name in plain.into_iter().chain(ruled) {
        let file = workload(name);
        let output = dovetail(&["plan", "--workload", arg(&file), "--json"]);
        let answer = json(&output, 0);
        assert_eq!(answer["scheduledPods"], answer["pods"], "{name}");
        // A fleet may take any of a claim's options: what it is expected to cost is within sight of the cheapest.
        let [expected, cheapest] =
            ["expectedHourlyPrice", "totalCheapestHourlyPrice"].map(|field| answer[field].as_f64().unwrap());
        assert!(expected <= 1.25 * cheapest, "{name}: {expected} of {cheapest}");
        let path = scratch(&format!("plan-{name}.json"));
        std::fs::write(&path, &output.stdout).unwrap();
        let checked = python(&["tests/plan/check.py", "--policy-cost", arg(&file), arg(&path)]);
        assert!(checked.status.success(), "{name}: {}{}", stdout(&checked), stderr(&checked));
    }
}

/// Little workloads, each aimed at one rule: what comes of them is what the Kubernetes documentation says.
#[test]
fn hostile_little_workloads_come_out_as_the_documentation_says() {
    let done = python(&["tests/plan/cases.py", env!("CARGO_BIN_EXE_dovetail")]);
    assert!(done.status.success(), "{}{}", stdout(&done), stderr(&done));
}

/// Workloads in which every kind of rule may come together, drawn from seeds; and those seeds that have found something.
#[test]
fn plans_for_drawn_workloads_are_valid() {
    let done = python(&["tests/plan/drawn.py", env!("CARGO_BIN_EXE_dovetail"), "1..250,found"]);
    assert!(done.status.success(), "{}{}", stdout(&done), stderr(&done));
}

/// The answer without what depends on the machine.
fn timeless(mut answer: Value) -> Value {
    for field in ["solveMs", "loadMs", "wallMs", "peakRssKiB"] {
        answer.as_object_mut().unwrap().remove(field);
    }
    answer
}

#[test]
fn same_input_gives_the_same_answer_with_shuffled_pods_too() {
    let file = workload("batch-1-5000");
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

/// A workload file of so many half-empty nodes, each with two pods, on a catalogue of four sizes.
fn half_empty(nodes: usize) -> Value {
    let types: Vec<Value> = [2, 4, 8, 16]
        .map(|cpus| {
            serde_json::json!({"name": format!("m.{cpus}"),
                "capacity": {"cpu": cpus.to_string(), "memory": format!("{}Gi", 4 * cpus), "pods": "50"},
                "offerings": [{"zone": "a", "capacityType": "on-demand", "price": 0.05 * f64::from(cpus), "available": true}]})
        })
        .into();
    let node = |at: usize| {
        let pods = [0, 1].map(|which| {
            serde_json::json!({"name": format!("p-{at}-{which}"), "uid": format!("p-{at}-{which}"), "requests": {"cpu": "1500m", "memory": "2Gi"}})
        });
        serde_json::json!({"name": format!("n-{at:03}"), "initialized": true, "pods": pods,
            "labels": {"node.kubernetes.io/instance-type": "m.8", "topology.kubernetes.io/zone": "a",
                "karpenter.sh/capacity-type": "on-demand", "karpenter.sh/nodepool": "default"},
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "50"}, "used": {"cpu": "3", "memory": "4Gi", "pods": "2"}})
    };
    let nodes: Vec<Value> = (0..nodes).map(node).collect();
    serde_json::json!({"name": "half-empty", "nodePools": [{"name": "default"}], "instanceTypes": types, "pods": [], "existingNodes": nodes})
}

#[test]
fn consolidation_of_a_workload_file_ends_near_a_fresh_packing() {
    let problem = half_empty(30);
    let file = write("consolidate/half.json", &problem.to_string());
    let out = scratch("consolidate/plan.json");
    let args = ["plan", "--workload", &file, "--consolidate", "--json", "--plan-out", arg(&out)];
    let answer = json(&dovetail(&args), 0);
    assert_eq!((&answer["workload"], &answer["nodesBefore"]), (&"half-empty".into(), &30.into()));
    let count = |key: &str| answer[key].as_u64().unwrap_or_else(|| panic!("{key}: {answer}"));
    assert_eq!(count("nodesAfter"), 30 + count("nodesLaunched") - count("nodesRemoved"));
    assert!(count("podsMoved") <= 60 && count("commands") > 0 && count("rounds") > 1, "{answer}");
    assert!(answer["solveMs"].as_f64().unwrap() > 0.0);

    let plan: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(
        (plan["scheduledPods"].as_u64(), plan["numNodeClaims"].as_u64()),
        (Some(60), answer["nodesAfter"].as_u64())
    );
    let mut named: Vec<&str> = Vec::new();
    for claim in claims(&plan) {
        assert_eq!(claim["instanceTypeOptions"].as_array().unwrap().len(), 1);
        named.extend(claim["podNames"].as_array().unwrap().iter().filter_map(Value::as_str));
    }
    named.sort_unstable();
    named.dedup();
    assert_eq!(named.len(), 60);
    let price = answer["priceAfter"].as_f64().unwrap();
    assert!((plan["totalCheapestHourlyPrice"].as_f64().unwrap() - price).abs() < 1e-9);

    let mut fresh = problem.clone();
    let nodes = fresh["existingNodes"].take();
    fresh["existingNodes"] = serde_json::json!([]);
    let pods = nodes.as_array().unwrap().iter().flat_map(|node| node["pods"].as_array().unwrap());
    fresh["pods"] = pods.cloned().collect();
    let fresh = write("consolidate/fresh.json", &fresh.to_string());
    let packed = json(&dovetail(&["plan", "--workload", &fresh, "--json"]), 0);
    assert!(price <= 1.10 * packed["totalCheapestHourlyPrice"].as_f64().unwrap(), "{price} against {packed}");
    assert!(
        stdout(&dovetail(&["plan", "--workload", &file, "--consolidate"]))
            .starts_with("30 nodes, $12.0000 an hour, become ")
    );
}

#[test]
fn budget_bounds_consolidation_and_nonsense_is_bad_input() {
    let file = write("consolidate/budget.json", &half_empty(10).to_string());
    let none = json(&dovetail(&["plan", "--workload", &file, "--consolidate", "--budget", "0", "--json"]), 0);
    assert_eq!((&none["commands"], &none["nodesAfter"]), (&0.into(), &10.into()));
    let one = json(&dovetail(&["plan", "--workload", &file, "--consolidate", "--budget", "10%", "--json"]), 0);
    assert!(one["commands"].as_u64() >= one["nodesRemoved"].as_u64(), "{one}");
    let mut empty = half_empty(1);
    empty["existingNodes"] = serde_json::json!([]);
    let empty = write("consolidate/empty.json", &empty.to_string());
    for (args, what) in [
        (vec!["--workload", &file, "--consolidate", "--budget", "101%"], "a percentage up to 100%"),
        (vec!["--workload", &empty, "--consolidate"], "has no node to consolidate"),
        (vec!["--workload", &file, "--budget", "10%"], "--consolidate"),
    ] {
        let output = dovetail(&[vec!["plan"], args].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{}", stderr(&output));
        assert!(stderr(&output).contains(what), "{}", stderr(&output));
    }
}
