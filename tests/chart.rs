//! The Helm chart, rendered by helm (tests/real/build.py builds it where it is not there).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};
use std::sync::OnceLock;

use common::{arg, root, scratch};
use dovetail_actors::Settings;
use dovetail_actors::settings::TABLE;
use serde_json::{Value, json};

/// Runs helm on the chart.
fn helm(verb: &[&str], more: &[&str]) -> Output {
    static BUILT: OnceLock<String> = OnceLock::new();
    let helm = BUILT.get_or_init(|| {
        let built = common::python(&["tests/real/build.py", "helm"]);
        assert!(built.status.success(), "{}", common::stderr(&built));
        common::stdout(&built).trim().to_owned()
    });
    let chart = root().join("deploy/helm/dovetail");
    Command::new(helm).args(verb).arg(arg(&chart)).args(more).output().unwrap()
}

/// What the chart makes with these values.
fn rendered(values: &[&str]) -> Vec<Value> {
    let mut more = vec!["--namespace", "kube-system", "--kube-version", "1.33.0"];
    values.iter().for_each(|value| more.extend(["--set", *value]));
    let output = helm(&["template", "dv"], &more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_saphyr::from_multiple::<Value>(&text).unwrap()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// The container's variables that have a value of their own.
fn variables(objects: &[Value]) -> BTreeMap<String, String> {
    let deployment = of_kind(objects, "Deployment")[0];
    let env = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    env.iter().filter_map(|one| Some((text(&one["name"])?, text(&one["value"])?))).collect()
}

#[test]
fn every_variable_that_the_chart_sets_is_a_setting_with_a_value_that_it_takes() {
    let everything = [
        "settings.clusterName=demo",
        "settings.clusterEndpoint=https://demo.example",
        "settings.clusterCABundle=QUJD",
        "settings.interruptionQueue=demo",
        "settings.packingPolicy=fewest-nodes",
        "settings.featureGates.nodeRepair=true",
        "controller.metrics.port=9090",
    ];
    let objects = rendered(&everything);
    let given = variables(&objects);
    let settings = Settings::from_map(&given).unwrap();
    assert_eq!((settings.cluster_name.as_str(), settings.metrics_port), ("demo", 9090));
    assert_eq!(settings.interruption_queue, "demo");
    assert_eq!(settings.gates, BTreeSet::from(["NodeRepair".to_owned(), "ReservedCapacity".to_owned()]));
    let objects = rendered(&["settings.clusterName=demo"]);
    let defaults = Settings { cluster_name: "demo".into(), ..Settings::default() };
    assert_eq!(Settings::from_map(&variables(&objects)).unwrap(), defaults, "the chart's defaults are the settings'");
    let known = |name: &str| TABLE.iter().any(|known| known.name == name);
    let deployment = of_kind(&objects, "Deployment")[0];
    for one in deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap() {
        let name = one["name"].as_str().unwrap();
        assert!(known(name) || name == "POD_NAME", "{name}");
    }
}

#[test]
fn without_a_cluster_name_nothing_is_rendered() {
    let output = helm(&["template", "dv"], &["--kube-version", "1.33.0"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("settings.clusterName is required"));
}

#[test]
fn spellings_of_older_charts_are_accepted_and_noted() {
    let old = ["controller.clusterName=\"demo\"", "controller.clusterEndpoint=\"https://demo.example\""];
    let objects = rendered(&old);
    let given = variables(&objects);
    assert_eq!((given["CLUSTER_NAME"].as_str(), given["CLUSTER_ENDPOINT"].as_str()), ("demo", "https://demo.example"));
    let objects = rendered(&["settings.aws.clusterName=demo", "settings.aws.interruptionQueueName=q"]);
    let given = variables(&objects);
    assert_eq!((given["CLUSTER_NAME"].as_str(), given["INTERRUPTION_QUEUE"].as_str()), ("demo", "q"));
    let note = of_kind(&objects, "Deployment")[0]["metadata"]["annotations"]["dovetail.dev/note"].as_str().unwrap();
    assert!(
        note.contains("settings.aws.clusterName is how Karpenter 0.19 to 0.32 spelled settings.clusterName"),
        "{note}"
    );
    let objects = rendered(&["settings.clusterName=demo"]);
    assert!(of_kind(&objects, "Deployment")[0]["metadata"]["annotations"].is_null(), "nothing to note");
}

#[test]
fn two_replicas_stand_apart_and_run_as_nobody() {
    let objects = rendered(&["settings.clusterName=demo"]);
    let deployment = of_kind(&objects, "Deployment")[0];
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(deployment["spec"]["replicas"], 2);
    let selector = &deployment["spec"]["selector"]["matchLabels"];
    let apart = &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(
        (&apart["labelSelector"]["matchLabels"], &apart["topologyKey"]),
        (selector, &json!("kubernetes.io/hostname"))
    );
    assert_eq!(&pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"], selector);
    let terms = &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    assert_eq!(terms[0]["matchExpressions"][0], json!({"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}));
    let context = &pod["containers"][0]["securityContext"];
    assert_eq!((&context["runAsUser"], &context["readOnlyRootFilesystem"]), (&json!(65532), &json!(true)));
    let budget = of_kind(&objects, "PodDisruptionBudget")[0];
    assert_eq!((&budget["spec"]["maxUnavailable"], &budget["spec"]["selector"]["matchLabels"]), (&json!(1), selector));
    let service = of_kind(&objects, "Service")[0];
    assert_eq!((&service["spec"]["selector"], &service["spec"]["ports"][0]["port"]), (selector, &json!(8080)));
}

/// Whether the rules of the chart's roles allow a write.
fn allowed(objects: &[Value], verb: &str, resource: &str) -> bool {
    let has = |list: &Value, wanted: &str| list.as_array().unwrap().iter().any(|one| one == wanted || one == "*");
    let roles = [of_kind(objects, "ClusterRole"), of_kind(objects, "Role")].concat();
    let own = roles.iter().filter(|role| !role["metadata"]["name"].as_str().unwrap().ends_with("-admin"));
    own.flat_map(|role| role["rules"].as_array().unwrap())
        .any(|rule| has(&rule["resources"], resource) && has(&rule["verbs"], verb))
}

#[test]
fn the_roles_allow_every_write_that_a_run_makes_and_nothing_in_secrets() {
    let objects = rendered(&["settings.clusterName=demo"]);
    let events = scratch("chart-events.jsonl");
    let output = common::dovetail(&["simulate", "deploy/examples/scenario.yaml", "--json", "--events", arg(&events)]);
    assert_eq!(output.status.code(), Some(0), "{}", common::stderr(&output));
    let mut writes = BTreeSet::new();
    for line in std::fs::read_to_string(&events).unwrap().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["kind"] == "api" && !event["replica"].is_null() {
            let text = |field: &str| event[field].as_str().map(str::to_owned);
            let resource = [text("resource"), text("subresource")].into_iter().flatten().collect::<Vec<_>>().join("/");
            writes.insert((text("verb").unwrap(), resource));
        }
    }
    assert!(writes.contains(&("create".into(), "nodeclaims".into())), "{writes:?}");
    for (verb, resource) in &writes {
        let verb = if verb == "apply" { "patch" } else { verb };
        assert!(allowed(&objects, verb, resource), "{verb} {resource} is not allowed: {writes:?}");
    }
    for forbidden in ["secrets", "configmaps", "*"] {
        for verb in ["get", "list", "create", "patch", "*"] {
            assert!(!allowed(&objects, verb, forbidden), "{verb} {forbidden}");
        }
    }
}

#[test]
fn the_chart_brings_the_crds_that_the_binary_prints() {
    let more = ["--include-crds", "--kube-version", "1.33.0", "--set", "settings.clusterName=demo"];
    let output = helm(&["template", "dv"], &more);
    let crds = |text: &str| -> BTreeSet<String> {
        let all: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
        let names = of_kind(&all, "CustomResourceDefinition").into_iter().map(|one| one["metadata"]["name"].as_str());
        names.flatten().map(str::to_owned).collect()
    };
    let printed = crds(&common::stdout(&common::dovetail(&["crds"])));
    assert_eq!((printed.len(), crds(&String::from_utf8(output.stdout).unwrap())), (5, printed.clone()));
}
