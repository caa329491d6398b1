//! Bad input: exit status 2, one line a mistake with file, line, field and what is allowed, nothing on standard output.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::{arg, dovetail, shared, stderr, write};

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
        let Some(path) = shared(&format!("seeds/{file}")) else { return };
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
fn scenarios_that_make_no_sense_are_refused_with_line_and_what_is_allowed() {
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
