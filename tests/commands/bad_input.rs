//! Bad input: exit status 2, one line a mistake with file, line, field and what is allowed, nothing on standard output.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use std::io::Write as _;

use common::{arg, dovetail, post, stderr, write};
use serde_json::Value;

/// The mistakes that the binary names, after checking that it behaves as the contract says.
fn mistakes(args: &[&str]) -> Vec<String> {
    let output = dovetail(args);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
    assert!(output.stdout.is_empty(), "{args:?}: something on standard output");
    told.lines().map(str::to_owned).collect()
}

/// One mistake a needle, each naming file and line and holding the needle.
fn names_exactly(args: &[&str], needles: &[&str]) {
    let told = mistakes(args);
    assert_eq!(told.len(), needles.len(), "{args:?}: {told:#?}");
    for needle in needles {
        assert!(told.iter().any(|line| line.contains(needle)), "{args:?}: {needle} is not in {told:#?}");
    }
}

#[test]
fn the_posts_misprints_are_each_named_once() {
    let cases: &[(&str, &[&str])] = &[
        ("000-provisioner-as-printed.yaml", &["name", "operator", "karpenter.sh/capacity-type"]),
        ("001-volume-topology-as-printed.yaml", &["---"]),
        ("002-spot-to-spot-as-printed.yaml", &["role"]),
        ("004-provisioner-as-printed.yaml", &["karpenter.sh/capacity-type"]),
    ];
    for (file, needles) in cases {
        let path = post(file);
        names_exactly(&["plan", "-f", arg(&path), "--env", "CLUSTER_NAME=demo"], needles);
    }
}

#[test]
fn manifests_that_make_no_sense_are_refused_with_line_and_field() {
    let pool = |spec: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: default\nspec:\n  template:\n    spec:\n      \
             nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}\n{spec}"
        )
    };
    let cases: &[(&str, String, &str)] = &[
        ("empty.yaml", String::new(), "empty"),
        ("unparsable.yaml", "a: [1\nb: 2\n".to_owned(), ":"),
        ("unknown-field.yaml", pool("      requirements: []\n      requirementz: []\n"), "requirementz"),
        ("operator.yaml", pool("      requirements:\n        - {key: a, operator: Inn, values: [b]}\n"), "Inn"),
        ("quantity.yaml", pool("      requirements: []\n  limits: {cpu: 10x}\n"), "10x"),
        ("unset.yaml", pool("      requirements: []\n      expireAfter: ${TTL}\n"), "TTL"),
        ("kind.yaml", "apiVersion: karpenter.sh/v1\nkind: NodePol\nmetadata: {name: a}\n".to_owned(), "NodePol"),
    ];
    for (name, text, needle) in cases {
        let path = write(&format!("bad-manifests/{name}"), text);
        let told = mistakes(&["plan", "-f", &path]);
        assert_eq!(told.len(), 1, "{name}: {told:#?}");
        assert!(told[0].starts_with(&path) && told[0].contains(needle), "{name}: {told:#?}");
    }
    let told = mistakes(&["plan", "-f", "no/such/file.yaml"]);
    assert!(told[0].contains("no such file"), "{told:?}");
}

#[test]
fn workloads_that_the_api_server_would_not_take_are_refused() {
    let deployment = |selector: &str, container: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  selector: {selector}\n  template:\n    \
             metadata: {{labels: {{app: web}}}}\n    spec: {{containers: [{{name: {container}, image: x}}]}}\n"
        )
    };
    let cases: &[(&str, String, &str)] = &[
        (
            "no-spec",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n".to_owned(),
            ":4: spec: is required",
        ),
        ("all-pods", deployment("{}", "c"), ":5: spec.selector: is empty"),
        ("null", deployment("{matchLabels: {app: }}", "c"), "has no app: , which the selector asks for"),
        (
            "expression",
            deployment("{matchExpressions: [{key: app, operator: In, values: [api]}]}", "c"),
            ":5: spec.selector.matchExpressions[0]: does not select the template's own pods by app",
        ),
        (
            "other-expression",
            deployment("{matchExpressions: [{key: app, operator: DoesNotExist}]}", "c"),
            ":5: spec.selector.matchExpressions[0]: ",
        ),
        (
            "nameless",
            deployment("{matchLabels: {app: web}}", "\"\""),
            ":8: spec.template.spec.containers[0].name: is empty",
        ),
    ];
    for (name, text, needle) in cases {
        let told = mistakes(&["plan", "-f", &write(&format!("bad-workload-objects/{name}.yaml"), text)]);
        assert!(told.len() == 1 && told[0].contains(needle), "{name}: {told:#?}");
    }
    let meets = deployment(
        "{matchExpressions: [{key: app, operator: In, values: [api, web]}, {key: x, operator: DoesNotExist}]}",
        "c",
    );
    let output = dovetail(&["plan", "-f", &write("bad-workload-objects/meets.yaml", &meets)]);
    assert_eq!(output.status.code(), Some(1), "no pool, and nothing to refuse: {}", stderr(&output));
}

/// A pod with this beside its container, a field a line.
fn pod_with(fields: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers: [{{name: c, image: x}}]\n  {fields}\n"
    )
}

/// Each manifest has one mistake, which names the field and what is allowed.
fn each_names(cases: &[(&str, String, &str, &str)]) {
    for (name, text, needle, allowed) in cases {
        let told = mistakes(&["plan", "-f", &write(&format!("bad-values/{name}.yaml"), text)]);
        assert!(told.len() == 1 && told[0].contains(needle) && told[0].contains(allowed), "{name}: {told:#?}");
    }
}

#[test]
fn pod_values_that_the_api_server_refuses_are_mistakes() {
    let spread = |more: &str| {
        pod_with(&format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, {more}}}]"
        ))
    };
    each_names(&[
        (
            "taints",
            spread("nodeTaintsPolicy: honor"),
            "spec.topologySpreadConstraints[0].nodeTaintsPolicy: \"honor\"",
            "Honor, Ignore",
        ),
        ("domains", spread("minDomains: 2"), "spec.topologySpreadConstraints[0].minDomains: ", "DoNotSchedule"),
        (
            "sidecar",
            pod_with("initContainers: [{name: i, image: x, restartPolicy: always}]"),
            "spec.initContainers[0].restartPolicy: \"always\"",
            "Always",
        ),
        (
            "seconds",
            pod_with("tolerations: [{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 5}]"),
            "spec.tolerations[0].effect: ",
            "NoExecute",
        ),
        (
            "weight",
            pod_with(
                "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1000, preference: {}}]}}",
            ),
            ".preferredDuringSchedulingIgnoredDuringExecution[0].weight: ",
            "1 to 100",
        ),
        (
            "key",
            pod_with("affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: ''}]}}"),
            ".requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: ",
            "letters",
        ),
    ]);
}

#[test]
fn storage_and_limit_values_that_are_refused_are_mistakes() {
    let object = |of: &str, spec: &str| format!("{of}\nmetadata: {{name: a}}\n{spec}\n");
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim";
    let class = "apiVersion: storage.k8s.io/v1\nkind: StorageClass";
    each_names(&[
        (
            "modes",
            object(claim, "spec: {accessModes: [ReadWriteonce]}"),
            "spec.accessModes[0]: \"ReadWriteonce\"",
            "ReadWriteOnce",
        ),
        (
            "binding",
            object(class, "provisioner: x\nvolumeBindingMode: waitForFirstConsumer"),
            "volumeBindingMode: \"waitForFirstConsumer\"",
            "WaitForFirstConsumer",
        ),
        (
            "range",
            object("apiVersion: v1\nkind: LimitRange", "spec: {limits: [{type: container}]}"),
            "spec.limits[0].type: \"container\"",
            "Container",
        ),
    ]);
}

#[test]
fn a_null_in_a_class_is_a_field_that_is_not_there() {
    let class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: a}\nspec:\n  role: r\n  amiSelectorTerms: [{alias: al2023@latest}]\n  \
                 securityGroupSelectorTerms: [{id: sg-1}]\n  subnetSelectorTerms:\n";
    let told = mistakes(&["plan", "-f", &write("null-tags/none.yaml", &format!("{class}    - tags:\n"))]);
    assert!(
        told.len() == 1 && told[0].contains(":9: spec.subnetSelectorTerms[0]: expected at least one of"),
        "{told:#?}"
    );
    let output =
        dovetail(&["plan", "-f", &write("null-tags/id.yaml", &format!("{class}    - {{id: subnet-1, tags: }}\n"))]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn every_mistake_of_every_file_is_named_in_one_go() {
    let one = write("bad-many/one.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {container: []}\n");
    let two = write("bad-many/two.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: b}\nspec: {containers: 3}\n");
    let told = mistakes(&["plan", "-f", &one, "-f", &two]);
    assert!(told.iter().any(|line| line.starts_with(&one)), "{told:#?}");
    assert!(told.iter().any(|line| line.starts_with(&two)), "{told:#?}");
}

#[test]
fn broken_workload_files_are_refused() {
    let cases: &[(&str, &str, &str)] = &[
        ("empty.json", "", "empty"),
        ("cut.json", "{\"name\": \"a\", \"nodePools\": [", "EOF"),
        ("unknown.json", "{\"nodePoolz\": []}", "nodePoolz"),
        ("type.json", "{\"nodePools\": 3}", "sequence"),
        (
            "quantity.json",
            "{\"nodePools\": [], \"instanceTypes\": [], \"pods\": [{\"name\": \"a\", \"requests\": {\"cpu\": \"lots\"}}]}",
            "lots",
        ),
        (
            "twice.json",
            "{\"nodePools\": [], \"instanceTypes\": [], \"pods\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}",
            "a",
        ),
    ];
    for (name, text, needle) in cases {
        let path = write(&format!("bad-workloads/{name}"), text);
        let told = mistakes(&["plan", "--workload", &path]);
        assert!(told[0].starts_with(&path) && told[0].contains(needle), "{name}: {told:#?}");
    }
    let gz = common::scratch("bad-workloads/cut.json.gz");
    std::fs::write(&gz, [0x1f, 0x8b, 8, 0, 0]).unwrap();
    assert!(mistakes(&["plan", "--workload", arg(&gz)])[0].contains("gzip"));
}

#[test]
fn invalid_scenarios_are_refused_with_line_and_allowed_values() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("key.yaml", "region: us-east-1\nuntill: 5m\n", &[":2", "untill"]),
        ("file.yaml", "apply:\n  - no-such.yaml\n", &[":2", "no such file"]),
        (
            "past.yaml",
            "steps:\n  - {at: 5m, zoneDown: {zone: us-east-1a}}\n  - {at: 4m, zoneDown: {zone: us-east-1a}}\n",
            &[":3", "past"],
        ),
        ("negative.yaml", "steps:\n  - {at: -5m, zoneDown: {zone: us-east-1a}}\n", &[":2", "duration"]),
        ("type.yaml", "nodes:\n  - {instanceType: m5.lager}\n", &[":2", "m5.large"]),
        ("zone.yaml", "nodes:\n  - {instanceType: m5.large, zone: us-west-2a}\n", &[":2", "us-east-1a"]),
        ("region.yaml", "region: mars-1\n", &[":1", "us-east-1"]),
        ("two.yaml", "steps:\n  - {at: 1m, kill: {replica: 0}, pause: {replica: 0}}\n", &[":2", "exactly one"]),
        ("age.yaml", "steps:\n  - {at: 1m, restore: {age: 2m, for: 5s}}\n", &[":2", "steps[0].restore.age"]),
        ("restart.yaml", "steps:\n  - {at: 1m, restart: {for: ever}}\n", &[":2", "steps[0].restart.for", "duration"]),
        (
            "slow.yaml",
            "steps:\n  - {at: 1m, slowWatches: {by: late}}\n",
            &[":2", "steps[0].slowWatches.by", "duration"],
        ),
        (
            "hold.yaml",
            "steps:\n  - {at: 1m, holdWrites: {replica: boss, by: 30s}}\n",
            &[":2", "steps[0].holdWrites.replica", "leader"],
        ),
        ("rate.yaml", "faults:\n  apiServer: {timeoutRate: 2}\n", &[":2", "faults.apiServer.timeoutRate", "0 to 1"]),
        (
            "rate-429.yaml",
            "faults:\n  apiServer: {throttleRate: -1}\n",
            &[":2", "faults.apiServer.throttleRate", "0 to 1"],
        ),
        ("rate-ec2.yaml", "faults:\n  ec2: {timeoutRate: 1.5}\n", &[":2", "faults.ec2.timeoutRate", "0 to 1"]),
        ("lag.yaml", "faults:\n  ec2: {consistencyLag: 40}\n", &[":2", "faults.ec2.consistencyLag", "duration"]),
        ("setting.yaml", "settings: {BATCH_IDLE_DURATION: soon}\n", &[":1", "BATCH_IDLE_DURATION"]),
        ("empty.yaml", "\n", &["empty"]),
    ];
    for (name, text, needles) in cases {
        let path = write(&format!("bad-scenarios/{name}"), text);
        let told = mistakes(&["simulate", &path]);
        assert_eq!(told.len(), 1, "{name}: {told:#?}");
        for needle in *needles {
            assert!(told[0].contains(needle), "{name}: {needle} is not in {told:#?}");
        }
    }
    assert!(mistakes(&["simulate", "no-such-scenario.yaml"])[0].contains("no such file"));
}

/// Runs the binary and measures it: status, standard output and error, peak resident MiB and seconds.
const MEASURED: &str = "
import json, resource, subprocess, sys, time
begun = time.monotonic()
ran = subprocess.run(sys.argv[1:], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
print(json.dumps({'code': ran.returncode, 'out': ran.stdout, 'err': ran.stderr[:100000], 'mib': peak, 's': time.monotonic() - begun}))
";

/// Refuses it with exit status 2, file and line, in little memory and time, whoever else is busy on the machine.
fn is_refused_cheaply(name: &str, args: &[&str], place: &str, needle: &str) {
    let command = [&["-c", MEASURED, env!("CARGO_BIN_EXE_dovetail")], args].concat();
    let output = common::python(&command);
    assert!(output.status.success(), "{name}: {}", stderr(&output));
    let ran: Value = serde_json::from_slice(&output.stdout).unwrap();
    let told = ran["err"].as_str().unwrap();
    assert_eq!((ran["code"].as_i64(), ran["out"].as_str()), (Some(2), Some("")), "{name}: {told}");
    assert!(ran["mib"].as_u64().unwrap() < 300, "{name}: {} MiB", ran["mib"]);
    assert!(ran["s"].as_f64().unwrap() < 30.0, "{name}: {} s", ran["s"]);
    let first = told.lines().next().unwrap_or_default();
    assert!(first.starts_with(place) && first.contains(needle), "{name}: {first:.300}");
    assert!(first[place.len()..].starts_with(|letter: char| letter.is_ascii_digit()), "{name}: no line: {first:.300}");
}

fn workload(replicas: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\nspec:\n  replicas: {replicas}\n  selector: {{matchLabels: {{a: b}}}}\n  \
         template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: d}}]}}}}\n"
    )
}

/// A list of ten of the one before, nine times; each is an anchor.
fn laughs(first: &str) -> String {
    let mut text = format!("a0: &a0 {first}\n");
    for level in 1..10 {
        let ten = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{ten}]\n"));
    }
    text
}

#[test]
fn manifests_unfolding_to_gigabytes_are_refused_cheaply() {
    let many = |text: &str, count: usize| text.repeat(count);
    let megabyte = "x".repeat(1 << 20);
    let keys: String = (0..60_000).map(|n| format!("  k{n}: 1\n")).collect();
    let long_keys: String = (0..90).map(|n| format!("{}k{}:\n", " ".repeat(n), "k".repeat(1000))).collect();
    let cases = [
        ("laughs.yaml", laughs("[x, x, x, x, x, x, x, x, x, x]"), "unfold"),
        ("text.yaml", format!("a: &a {megabyte}\nb: [{}]\n", many("*a, ", 1_000)), "unfold"),
        ("merged.yaml", format!("a: &a\n{keys}b:\n  <<: *a\nc:\n  <<: [*a, *a]\n"), "unfold"),
        ("keys.yaml", format!("{long_keys}{}", many(&format!("{}k: 1\n", " ".repeat(91)), 50_000)), ""),
        ("key.yaml", format!("{}: 1\n", "k".repeat(4 << 20)), ""),
        ("deep.yaml", many("[", 4 << 20), ""),
        ("deep-maps.yaml", many("{a: ", 1 << 20), ""),
        ("deep-lists.yaml", many("- ", 1 << 20), "nested too deeply"),
        ("long.yaml", format!("a: {}\n", "y".repeat(7 << 20)), "apiVersion"),
        ("large.yaml", many("# nothing\n", 1 << 20), "8 MiB"),
        ("documents.yaml", many("---\na: b\n", 400_000), "too many values"),
        ("values.yaml", format!("a: [{}]\n", many("1,", 3 << 20)), "too many values"),
        ("wrong.yaml", many("---\na: b\n", 100_000), "apiVersion"),
        ("variables.yaml", format!("a: [{}]\n", many("${A},", 1 << 20)), "variables"),
        ("indented.yaml", (0..3000).map(|n| format!("{}a:\n", " ".repeat(n))).collect(), "nested too deeply"),
    ];
    for (name, text, needle) in cases {
        let path = write(&format!("hostile-manifests/{name}"), &text);
        is_refused_cheaply(name, &["plan", "-f", &path], &format!("{path}:"), needle);
    }
    let (path, variables) = (
        write("hostile-manifests/filled.yaml", &format!("a: [{}]\n", many("${A},", 10_000))),
        write("hostile-manifests/filled.env", &format!("A={megabyte}\n")),
    );
    is_refused_cheaply("filled", &["plan", "-f", &path, "--env-file", &variables], &format!("{path}:"), "unfold");
    is_refused_cheaply("endless", &["plan", "-f", "/dev/zero"], "/dev/zero:", "8 MiB");
}

#[test]
fn too_many_pods_are_refused_with_the_line_that_asks_for_them() {
    let many: String = (0..3)
        .map(|n| format!("---\n{}", workload("100000").replace("{name: a}", &format!("{{name: a{n}}}"))))
        .collect();
    let job = workload("1").replace("apps/v1", "batch/v1").replace("Deployment", "Job");
    let job = job.replace("  replicas: 1\n  selector: {matchLabels: {a: b}}\n", "  parallelism: 2147483647\n");
    let job = job.replace("containers:", "restartPolicy: Never, containers:");
    let stateful = workload("2147483647")
        .replace("Deployment", "StatefulSet")
        .replace("  selector:", "  serviceName: a\n  selector:");
    let cases = [
        ("replicas.yaml", workload("2147483647"), 5, "200000 pods"),
        ("stateful.yaml", stateful, 5, "200000 pods"),
        ("job.yaml", job, 5, "200000 pods"),
        ("together.yaml", many, 22, "200000 pods"),
        ("huge.yaml", workload("99999999999999999999"), 5, ""),
        ("hex.yaml", workload("0x7fffffff"), 5, "200000 pods"),
        ("float.yaml", workload("1e300"), 5, ""),
    ];
    for (name, text, line, needle) in cases {
        let path = write(&format!("hostile-pods/{name}"), &text);
        for command in ["plan", "sandbox"] {
            is_refused_cheaply(name, &[command, "-f", &path], &format!("{path}:"), needle);
        }
        let scenario = write(&format!("hostile-pods/{name}-scenario.yaml"), &format!("apply: [{name}]\n"));
        let told = mistakes(&["simulate", &scenario]);
        assert!(told[0].contains(&format!("{name}:{line}: ")), "{name}: {told:#?}");
    }
    let steps = "until: 5m\nsteps:\n  - {at: 1m, scale: {kind: Deployment, name: a, replicas: 4294967295}}\n";
    let others = "steps:\n  - {at: 1m, foreignInstances: 4000000000}\n";
    let nodes = "nodes:\n  - {instanceType: m5.large, count: 4294967295}\n";
    for (name, text, field) in
        [("scale", steps, "replicas"), ("foreign", others, "foreignInstances"), ("nodes", nodes, "count")]
    {
        let path = write(&format!("hostile-pods/{name}-steps.yaml"), text);
        is_refused_cheaply(name, &["simulate", &path], &format!("{path}:"), field);
    }
}

/// Gzipped.
fn packed(name: &str, parts: &[(&str, usize)]) -> String {
    let path = common::scratch(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut packer = flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
    for (text, count) in parts {
        let many = text.repeat(1 + (1 << 20) / text.len());
        let mut left = text.len() * count;
        while left > 0 {
            let now = left.min(many.len() / text.len() * text.len());
            packer.write_all(&many.as_bytes()[..now]).unwrap();
            left -= now;
        }
    }
    packer.finish().unwrap();
    arg(&path).to_owned()
}

#[test]
fn workload_files_unpacking_to_gigabytes_are_refused_cheaply() {
    let cases: [(&str, &[(&str, usize)], &str); 5] = [
        ("zeros.json.gz", &[("\0", 1 << 30)], "64 MiB"),
        ("pods.json.gz", &[("{\"pods\": [", 1), ("{\"name\":\"a\"},", 4_000_000)], "200000 pods"),
        ("labels.json.gz", &[("{\"pods\": [{\"labels\": {", 1), ("\"a\":\"\",", 8_000_000)], "values"),
        ("lists.json.gz", &[("{\"instanceTypes\": [", 1), ("[],", 16_000_000)], "values"),
        ("deep.json.gz", &[("{\"pods\": ", 1), ("[", 30_000_000)], "recursion"),
    ];
    for (name, parts, needle) in cases {
        let path = packed(&format!("hostile-workloads/{name}"), parts);
        is_refused_cheaply(name, &["plan", "--workload", &path], &format!("{path}:"), needle);
    }
    is_refused_cheaply("endless", &["plan", "--workload", "/dev/zero"], "/dev/zero:", "64 MiB");
}
