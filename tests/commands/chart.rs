//! The Helm chart, rendered by helm (tests/real/build.py builds it where it is not there).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};
use std::sync::OnceLock;

use common::{arg, root, scratch};
use dovetail_actors::Settings;
use dovetail_actors::settings::WebhookSettings;
use dovetail_actors::settings::{Rebalance, TABLE};
use dovetail_sandbox::apiserver::{ApiServer, CUSTOM_RESOURCE_DEFINITIONS, Gvr, LEASES, NODE_CLAIMS};
use serde_json::{Value, json};

/// Runs helm on the chart.
pub fn helm(verb: &[&str], more: &[&str]) -> Output {
    helm_on("dovetail", verb, more)
}

/// Runs helm on one of the charts.
pub fn helm_on(chart: &str, verb: &[&str], more: &[&str]) -> Output {
    static BUILT: OnceLock<String> = OnceLock::new();
    let helm = BUILT.get_or_init(|| {
        let built = common::python(&["tests/real/build.py", "helm"]);
        assert!(built.status.success(), "{}", common::stderr(&built));
        common::stdout(&built).trim().to_owned()
    });
    let chart = root().join("deploy/helm").join(chart);
    Command::new(helm).args(verb).arg(arg(&chart)).args(more).current_dir(root()).output().unwrap()
}

/// Objects that the chart makes with these values.
pub fn rendered(values: &[&str]) -> Vec<Value> {
    let mut more = vec!["--namespace", "kube-system", "--kube-version", "1.33.0"];
    values.iter().for_each(|value| more.extend(["--set", *value]));
    let output = helm(&["template", "dv"], &more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    serde_saphyr::from_multiple::<Value>(&text).unwrap()
}

pub fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// The container's variables that have a value of their own.
pub fn variables(objects: &[Value]) -> BTreeMap<String, String> {
    let deployment = of_kind(objects, "Deployment")[0];
    let env = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    env.iter().filter_map(|one| Some((text(&one["name"])?, text(&one["value"])?))).collect()
}

#[test]
fn every_chart_variable_is_a_setting_with_a_valid_value() {
    let everything = [
        "settings.clusterName=demo",
        "settings.clusterEndpoint=https://demo.example",
        "settings.clusterCABundle=QUJD",
        "settings.interruptionQueue=demo",
        "settings.packingPolicy=fewest-nodes",
        "settings.featureGates.nodeRepair=true",
        "settings.legacyNodeRepair=true",
        "controller.metrics.port=9090",
    ];
    let objects = rendered(&everything);
    let given = variables(&objects);
    let settings = Settings::from_map(&given).unwrap();
    assert_eq!((settings.cluster_name.as_str(), settings.metrics_port), ("demo", 9090));
    assert_eq!(settings.interruption_queue, "demo");
    assert!(settings.churn.legacy_node_repair);
    assert_eq!(settings.gates, ["Drift", "NodeRepair", "ReservedCapacity"].map(str::to_owned).into());
    let objects = rendered(&["settings.clusterName=demo"]);
    // The fence and the webhook have the release's name, and the chart brings the webhook.
    let defaults = Settings {
        cluster_name: "demo".into(),
        fence_name: "dv-dovetail-fence".into(),
        webhook: WebhookSettings {
            enabled: true,
            secret: "dv-dovetail-webhook".into(),
            service: "dv-dovetail-webhook".into(),
            ..WebhookSettings::default()
        },
        ..Settings::default()
    };
    assert_eq!(Settings::from_map(&variables(&objects)).unwrap(), defaults, "the chart's defaults are the settings'");
    let known = |name: &str| TABLE.iter().any(|known| known.name == name);
    let deployment = of_kind(&objects, "Deployment")[0];
    for one in deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap() {
        let name = one["name"].as_str().unwrap();
        assert!(known(name) || ["POD_NAME", "HOST_IP"].contains(&name), "{name}");
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
fn old_and_new_karpenter_chart_values_arrive_or_are_noted() {
    let values = [
        "settings.interruptionQueueName=q",
        "settings.aws.vmMemoryOverheadPercent=0.1",
        "settings.aws.isolatedVPC=true",
        "clusterName=demo",
        "logEncoding=json",
        "settings.featureGates.drifted=true",
        "settings.awsFeatureGates.nodeClassCEL=true",
    ];
    let objects = rendered(&values);
    let given = variables(&objects);
    for (name, value) in [
        ("CLUSTER_NAME", "demo"),
        ("INTERRUPTION_QUEUE", "q"),
        ("VM_MEMORY_OVERHEAD_PERCENT", "0.1"),
        ("ISOLATED_VPC", "true"),
    ] {
        assert_eq!(given[name], value, "{name}");
    }
    let note = of_kind(&objects, "Deployment")[0]["metadata"]["annotations"]["dovetail.dev/note"].as_str().unwrap();
    for told in [
        "settings.interruptionQueueName is read as settings.interruptionQueue",
        "settings.aws.vmMemoryOverheadPercent is how Karpenter 0.19 to 0.32 spelled",
        "clusterName is how Karpenter 0.6 to 0.18 spelled settings.clusterName",
        "logEncoding is read as settings.logFormat, its name of today",
        "settings.featureGates.drifted: there is no such gate",
        "not implemented: settings.awsFeatureGates.nodeClassCEL",
    ] {
        assert!(note.contains(told), "{told} is not in {note}");
    }
}

#[test]
fn a_value_of_no_chart_is_refused_by_its_name() {
    for (value, name) in [
        ("settings.clusterNam=x", "clusterNam"),
        ("settings.batchMaxDuraton=20s", "batchMaxDuraton"),
        ("replica=3", "replica"),
        ("controller.resource.limits.memory=1Gi", "resource"),
        ("fence.enable=false", "enable"),
        ("podDisruptionBudget.maxUnavailabel=2", "maxUnavailabel"),
    ] {
        let more = ["--kube-version", "1.33.0", "--set", "settings.clusterName=demo", "--set", value];
        let output = helm(&["template", "dv"], &more);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(&format!("'{name}' not allowed")), "{value}: {told}");
    }
}

/// The values of values.yaml that are no maps, or empty ones, by their paths.
fn leaves(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    match value.as_object().filter(|map| !map.is_empty()) {
        Some(map) => map.iter().for_each(|(name, below)| leaves(below, &format!("{path}.{name}"), found)),
        None => {
            found.push((path.trim_start_matches('.').replace("kubernetes.io/os", "kubernetes\\.io/os"), value.clone()))
        }
    }
}

/// The chart's schema of the value at a path, its references followed.
fn rule_of<'a>(schema: &'a Value, path: &str) -> &'a Value {
    let followed = |rule: &'a Value| match rule["$ref"].as_str() {
        Some(name) => &schema["definitions"][name.trim_start_matches("#/definitions/")],
        None => rule,
    };
    path.replace("\\.", "\u{1}").split('.').fold(schema, |rule, name| {
        let rule = followed(rule);
        followed(if rule["properties"].is_object() { &rule["properties"][name] } else { &rule["additionalProperties"] })
    })
}

/// Something else than the value that its schema allows.
fn another(rule: &Value, value: &Value) -> Value {
    let choices = rule["enum"].as_array().or_else(|| rule["examples"].as_array()).into_iter().flatten();
    if let Some(choice) = choices.rev().find(|choice| *choice != value) {
        return choice.clone();
    }
    match value {
        Value::Bool(on) => json!(!on),
        Value::Number(number) => json!(number.as_u64().unwrap_or_default() + 1),
        Value::Array(_) => json!([{"name": "another", "value": "other"}]),
        Value::Object(_) => json!({"another": "other"}),
        Value::Null => json!(7),
        Value::String(_) => json!("another"),
    }
}

/// A role by IRSA.
const ROLE: &str =
    "serviceAccount.annotations={\"eks.amazonaws.com/role-arn\":\"arn:aws:iam::111122223333:role/demo\"}";

#[test]
fn every_value_changes_what_is_made() {
    let values = std::fs::read_to_string(root().join("deploy/helm/dovetail/values.yaml")).unwrap();
    let mut found = Vec::new();
    leaves(&serde_saphyr::from_str(&values).unwrap(), "", &mut found);
    let schema = std::fs::read_to_string(root().join("deploy/helm/dovetail/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert!(found.len() > 90, "{} values", found.len());
    let made = |more: &[&str]| {
        let base = [
            "--kube-version",
            "1.33.0",
            "--api-versions",
            "monitoring.coreos.com/v1",
            "--set-json",
            "settings.clusterName=\"demo\"",
        ];
        let output = helm(&["template", "dv"], &[&base[..], more].concat());
        assert!(output.status.success(), "{more:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for (path, value) in found {
        // Values that take effect only beside another.
        let base: &[&str] = match path.as_str() {
            "controller.sidecarVolumeMounts" => &["--set-json", "controller.sidecarContainer=[{\"name\":\"beside\"}]"],
            path if path.starts_with("serviceMonitor.") && path != "serviceMonitor.enabled" => {
                &["--set-json", "serviceMonitor.enabled=true"]
            }
            "console.tokenSecret.key" => &["--set-json", "console.tokenSecret.name=\"token\""],
            "fargate" => &["--set-json", "settings.awsRegion=\"us-east-1\"", "--set-json", ROLE],
            _ => &[],
        };
        let set = format!("{path}={}", another(rule_of(&schema, &path), &value));
        let changed = made(&[base, &["--set-json", &set]].concat());
        assert_ne!(changed, made(base), "{set} changes nothing");
    }
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

#[test]
fn chart_memory_limit_may_be_raised_or_removed_by_values() {
    let resources = |more: &[&str]| {
        let objects = rendered(&[&["settings.clusterName=demo"], more].concat());
        of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["resources"].clone()
    };
    assert_eq!(resources(&[])["limits"], json!({"memory": "1Gi"}), "and none of cpu: packing may take what there is");
    assert_eq!(resources(&[])["requests"]["memory"], "512Mi");
    assert_eq!(resources(&["controller.resources.limits.memory=4Gi"])["limits"], json!({"memory": "4Gi"}));
    assert!(resources(&["controller.resources.limits.memory=null"])["limits"]["memory"].is_null());
}

/// The ports that a rule of the policy names, in text.
fn ports(rules: &Value) -> Vec<Vec<String>> {
    let of = |rule: &Value| rule["ports"].as_array().unwrap().iter().map(|one| one["port"].to_string()).collect();
    rules.as_array().unwrap().iter().map(of).collect()
}

#[test]
fn network_policy_admits_probes_and_lets_out_dns_api_and_aws() {
    let objects = rendered(&["settings.clusterName=demo"]);
    let policies = of_kind(&objects, "NetworkPolicy");
    assert_eq!(policies.len(), 1);
    let spec = &policies[0]["spec"];
    let deployment = of_kind(&objects, "Deployment")[0];
    assert_eq!(spec["podSelector"]["matchLabels"], deployment["spec"]["selector"]["matchLabels"]);
    assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
    // By the names that the container's ports have, and from anywhere.
    let named = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
    let named: BTreeSet<String> = named.as_array().unwrap().iter().map(|one| one["name"].to_string()).collect();
    let let_in: BTreeSet<String> = ports(&spec["ingress"]).concat().into_iter().collect();
    assert_eq!(let_in, named);
    assert!(spec["ingress"].as_array().unwrap().iter().all(|rule| rule["from"].is_null()), "{spec}");
    assert_eq!(ports(&spec["egress"]), [vec!["53", "53"], vec!["443", "6443"], vec!["80"]]);
    let credentials = spec["egress"][2]["to"].as_array().unwrap();
    assert!(credentials.iter().any(|to| to["ipBlock"]["cidr"] == "169.254.170.23/32"), "{credentials:?}");
}

#[test]
fn network_policy_admits_what_values_ask_for_and_is_optional() {
    let [name, value] = env(0, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
    let [token, secret] = env(1, "CONSOLE_TOKEN", "sixteen-letters-!");
    let objects = rendered(&[
        "settings.clusterName=demo",
        "settings.clusterEndpoint=https://10.0.0.1:8443",
        &name,
        &value,
        &token,
        &secret,
        "networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus",
        "networkPolicy.webhookFrom[0].ipBlock.cidr=10.0.100.0/28",
        "networkPolicy.egress[0].ports[0].port=3128",
    ]);
    let spec = &of_kind(&objects, "NetworkPolicy")[0]["spec"];
    let out = ports(&spec["egress"]);
    assert_eq!(out[1], ["443", "6443", "8443"], "{out:?}");
    assert_eq!(out[3..], [vec!["4317", "4318"], vec!["3128"]], "{out:?}");
    assert_eq!(ports(&spec["ingress"])[1], ["\"http-metrics\"", "8082"]);
    let from = json!([{"podSelector": {"matchLabels": {"app": "prometheus"}}}]);
    assert_eq!(
        (&spec["ingress"][1]["from"], &spec["ingress"][0]["from"]),
        (&from, &Value::Null),
        "probes are not kept out"
    );
    assert_eq!(spec["ingress"][2]["from"], json!([{"ipBlock": {"cidr": "10.0.100.0/28"}}]));
    for off in ["networkPolicy.enabled=false", "hostNetwork=true"] {
        assert!(of_kind(&rendered(&["settings.clusterName=demo", off]), "NetworkPolicy").is_empty(), "{off}");
    }
}

/// True if the rules of the chart's roles allow a write.
fn allowed(objects: &[Value], verb: &str, resource: &str) -> bool {
    let has = |list: &Value, wanted: &str| list.as_array().unwrap().iter().any(|one| one == wanted || one == "*");
    let roles = [of_kind(objects, "ClusterRole"), of_kind(objects, "Role")].concat();
    let own = roles.iter().filter(|role| !role["metadata"]["name"].as_str().unwrap().ends_with("-admin"));
    own.flat_map(|role| role["rules"].as_array().unwrap())
        .any(|rule| has(&rule["resources"], resource) && has(&rule["verbs"], verb))
}

/// True if the role that is aggregated to `admin` allows something.
fn allowed_to_admins(objects: &[Value], verb: &str, resource: &str) -> bool {
    let has = |list: &Value, wanted: &str| list.as_array().unwrap().iter().any(|one| one == wanted || one == "*");
    let roles = of_kind(objects, "ClusterRole");
    let own = roles.iter().filter(|role| role["metadata"]["name"].as_str().unwrap().ends_with("-admin"));
    own.flat_map(|role| role["rules"].as_array().unwrap())
        .any(|rule| has(&rule["resources"], resource) && has(&rule["verbs"], verb))
}

#[test]
fn admins_delete_nodeclaims_and_write_none() {
    let objects = rendered(&["settings.clusterName=demo"]);
    for verb in ["get", "list", "watch", "delete"] {
        assert!(allowed_to_admins(&objects, verb, "nodeclaims"), "{verb}");
    }
    for resource in ["nodeclaims", "nodeclaims/status"] {
        for verb in ["create", "update", "patch", "deletecollection", "*"] {
            assert!(!allowed_to_admins(&objects, verb, resource), "{verb} {resource}");
        }
    }
    assert!(allowed_to_admins(&objects, "create", "nodepools"), "pools are theirs");
}

#[test]
fn karpenters_instances_are_adopted_where_the_chart_says_so() {
    let given = |sets: &[&str]| variables(&rendered(sets)).get("ADOPT_KARPENTER_INSTANCES").cloned();
    assert_eq!(given(&["settings.clusterName=demo"]).as_deref(), Some("false"));
    let set = given(&["settings.clusterName=demo", "settings.adoptKarpenterInstances=true"]);
    assert_eq!(set.as_deref(), Some("true"));
}

#[test]
fn chart_allows_patching_deployments_only_with_moves_rollout() {
    let by_default = rendered(&["settings.clusterName=demo"]);
    let opted_in = rendered(&["settings.clusterName=demo", "moves.rollout=true"]);
    for verb in ["create", "update", "delete", "patch", "*"] {
        assert!(!allowed(&by_default, verb, "deployments"), "{verb}");
        assert_eq!(allowed(&opted_in, verb, "deployments"), verb == "patch", "{verb}");
    }
    assert!(!Settings::from_map(&variables(&by_default)).unwrap().moves_rollout);
    assert!(Settings::from_map(&variables(&opted_in)).unwrap().moves_rollout);
}

#[test]
fn chart_allows_reading_devices_only_where_they_count() {
    let with = |more: &[&str]| rendered(&[&["settings.clusterName=demo"], more].concat());
    let (by_default, ignored) = (with(&[]), with(&["settings.ignoreDRARequests=true"]));
    let asked_for = with(&["settings.ignoreDRARequests=false"]);
    for resource in ["deviceclasses", "resourceclaims", "resourceslices"] {
        for verb in ["get", "list", "watch", "create", "update", "patch", "delete", "*"] {
            assert!(!allowed(&by_default, verb, resource) && !allowed(&ignored, verb, resource), "{verb} {resource}");
            assert_eq!(allowed(&asked_for, verb, resource), ["list", "watch"].contains(&verb), "{verb} {resource}");
        }
    }
    assert!(!by_default.iter().chain(&ignored).any(|one| one.to_string().contains("resource.k8s.io")));
    assert!(Settings::from_map(&variables(&by_default)).unwrap().devices().is_none());
    assert!(Settings::from_map(&variables(&asked_for)).unwrap().devices().is_some());
}

#[test]
fn what_consolidation_keeps_to_is_what_the_chart_says() {
    let objects =
        rendered(&["settings.clusterName=demo", "settings.consolidationRest=3h", "settings.rebalance=replace"]);
    let settings = Settings::from_map(&variables(&objects)).unwrap();
    assert_eq!((settings.churn.rest.as_secs(), settings.rebalance), (3 * 3600, Rebalance::Replace));
}

#[test]
fn roles_allow_every_write_of_a_run_and_nothing_in_secrets() {
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
    let rules_of = |roles: &[&str], resource: &str| -> Vec<Value> {
        let all = roles.iter().flat_map(|kind| of_kind(&objects, kind));
        let rules = all.flat_map(|role| role["rules"].as_array().unwrap().clone());
        rules.filter(|rule| rule["resources"].as_array().unwrap().iter().any(|one| one == resource)).collect()
    };
    let secrets = rules_of(&["ClusterRole", "Role"], "secrets");
    let own = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["dv-dovetail-webhook"], "verbs": ["get", "update"]});
    assert_eq!(secrets, [own], "but for the webhook's own");
    // The settings of an old Karpenter are read, and what EC2 has refused is kept: by name, but for its creation, which has none.
    let maps = |names: &[&str], verbs: &[&str]| {
        let mut rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs});
        if !names.is_empty() {
            rule["resourceNames"] = json!(names);
        }
        rule
    };
    let wanted = [
        maps(&["karpenter-global-settings"], &["get"]),
        maps(&["dovetail-unavailable-offerings"], &["get", "patch"]),
        maps(&[], &["create"]),
    ];
    assert_eq!(rules_of(&["Role"], "configmaps"), wanted);
    assert_eq!(rules_of(&["ClusterRole"], "configmaps"), [] as [Value; 0]);
    let objects = rendered(&["settings.clusterName=demo", "webhook.enabled=false"]);
    for forbidden in ["secrets", "customresourcedefinitions", "*"] {
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
    assert_eq!((printed.len(), crds(&String::from_utf8(output.stdout).unwrap())), (7, printed.clone()));
}

#[test]
fn webhook_objects_share_one_name_and_vanish_when_it_is_off() {
    let objects =
        rendered(&["settings.clusterName=demo", "webhook.port=9443", "webhook.url=https://a.example/convert"]);
    let named = |objects: &[Value]| -> Vec<String> {
        let own = objects.iter().filter(|one| one["metadata"]["name"] == "dv-dovetail-webhook");
        own.map(|one| one["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(named(&objects), ["Secret", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service"]);
    let given = variables(&objects);
    for (name, value) in [
        ("WEBHOOK_ENABLED", "true"),
        ("WEBHOOK_PORT", "9443"),
        ("WEBHOOK_SECRET", "dv-dovetail-webhook"),
        ("WEBHOOK_SERVICE", "dv-dovetail-webhook"),
        ("WEBHOOK_URL", "https://a.example/convert"),
    ] {
        assert_eq!(given[name], value, "{name}");
    }
    let service =
        objects.iter().find(|one| one["kind"] == "Service" && one["metadata"]["name"] == "dv-dovetail-webhook");
    let service = &service.unwrap()["spec"];
    assert_eq!((&service["ports"][0]["port"], &service["publishNotReadyAddresses"]), (&json!(443), &json!(true)));
    let port = json!({"name": "https-webhook", "containerPort": 9443, "protocol": "TCP"});
    let container = of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0].clone();
    assert!(container["ports"].as_array().unwrap().contains(&port), "{container}");
    let secret = of_kind(&objects, "Secret")[0];
    assert!(secret["data"].is_null(), "an upgrade would write over what the leader keeps there");

    let off = rendered(&["settings.clusterName=demo", "webhook.enabled=false"]);
    assert_eq!((named(&off), variables(&off)["WEBHOOK_ENABLED"].as_str()), (vec![], "false"));
    assert!(!off.iter().any(|one| one.to_string().contains("https-webhook")));
}

/// The Lease as everything that the chart makes names it: the environment, the role, and the fence.
fn leases_of(objects: &[Value]) -> [(String, String); 3] {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let given = variables(objects);
    let named = |kind: &str| {
        let own = |one: &&Value| one["metadata"]["name"] == "dv-dovetail";
        of_kind(objects, kind).into_iter().find(own).unwrap()
    };
    let (role, binding) = (named("Role"), named("RoleBinding"));
    assert_eq!(role["metadata"]["namespace"], binding["metadata"]["namespace"]);
    let named = |rule: &&Value| rule["resourceNames"].is_array() && rule["resources"][0] == "leases";
    let write = role["rules"].as_array().unwrap().iter().find(named).unwrap();
    assert_eq!(write["resourceNames"].as_array().unwrap().len(), 1, "{write}");
    let by = &of_kind(objects, "ValidatingAdmissionPolicyBinding")[0]["spec"]["paramRef"];
    [
        (given["LEADER_ELECTION_NAMESPACE"].clone(), given["LEADER_ELECTION_NAME"].clone()),
        (text(&role["metadata"]["namespace"]), text(&write["resourceNames"][0])),
        (text(&by["namespace"]), text(&by["name"])),
    ]
}

/// controller.env with one variable more.
fn env(number: usize, name: &str, value: &str) -> [String; 2] {
    [format!("controller.env[{number}].name={name}"), format!("controller.env[{number}].value={value}")]
}

#[test]
fn lease_is_named_alike_in_environment_role_and_fence() {
    let [name, value] = env(0, "LEADER_ELECTION_NAME", "own");
    let [other, its] = env(1, "LEADER_ELECTION_NAMESPACE", "leases");
    let by_env = [name.as_str(), &value, &other, &its];
    let by_values = ["fence.lease=own", "fence.leaseNamespace=leases"];
    let cases: [(Vec<&str>, (&str, &str)); 5] = [
        (vec![], ("kube-system", "karpenter-leader-election")),
        (by_values.to_vec(), ("leases", "own")),
        (by_env.to_vec(), ("leases", "own")),
        ([by_values.as_slice(), &by_env].concat(), ("leases", "own")),
        (vec!["fence.lease=own"], ("kube-system", "own")),
    ];
    for (more, (namespace, lease)) in cases {
        let objects = rendered(&[vec!["settings.clusterName=demo"], more.clone()].concat());
        for found in leases_of(&objects) {
            assert_eq!(found, (namespace.to_owned(), lease.to_owned()), "{more:?}");
        }
        let container = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0];
        let names: Vec<&str> =
            container["env"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    }
}

#[test]
fn lease_named_twice_differently_is_refused_with_both_names() {
    let refusal = |values: &[&str]| {
        let mut more = vec!["--kube-version", "1.33.0", "--set", "settings.clusterName=demo"];
        values.iter().for_each(|value| more.extend(["--set", *value]));
        let output = helm(&["template", "dv"], &more);
        assert!(!output.status.success(), "{values:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (variable, value) in
        [("LEADER_ELECTION_NAME", "fence.lease"), ("LEADER_ELECTION_NAMESPACE", "fence.leaseNamespace")]
    {
        let [name, theirs] = env(0, variable, "theirs");
        let said = refusal(&[&name, &theirs, &format!("{value}=ours")]);
        let told = format!("{value} is \"ours\", {variable} in controller.env is \"theirs\"");
        assert!(said.contains(&told), "{said}");
        let elsewhere = "controller.env[0].valueFrom.fieldRef.fieldPath=metadata.name";
        let said = refusal(&[&name, elsewhere]);
        assert!(said.contains(&format!("controller.env takes {variable} from elsewhere")), "{said}");
    }
}

#[test]
fn a_leader_may_look_at_its_own_fence_and_at_no_other_admission() {
    let objects = rendered(&["settings.clusterName=demo"]);
    let name = variables(&objects)["FENCE_NAME"].clone();
    for kind in ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"] {
        let made: Vec<_> = of_kind(&objects, kind).into_iter().map(|one| one["metadata"]["name"].clone()).collect();
        assert_eq!(made, [json!(name)], "{kind}");
    }
    let mut admission = Vec::new();
    for role in of_kind(&objects, "ClusterRole") {
        let rules = role["rules"].as_array().unwrap().iter();
        admission.extend(rules.filter(|rule| rule["apiGroups"] == json!(["admissionregistration.k8s.io"])));
    }
    let kinds = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"];
    let (groups, verbs) = (["admissionregistration.k8s.io"], ["get"]);
    assert_eq!(admission, [&json!({"apiGroups": groups, "resources": kinds, "resourceNames": [name], "verbs": verbs})]);
}

/// Kinds by which the API server refuses what others ask of it.
fn refuses(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap();
    kind.starts_with("Validating") || kind.starts_with("Mutating")
}

#[test]
fn fence_goes_with_the_release_and_needs_a_lease_to_refuse() {
    for more in [vec![], vec!["fence.exclusive=true"]] {
        let objects = rendered(&[vec!["settings.clusterName=demo"], more].concat());
        let refusing: Vec<_> = objects.iter().filter(|object| refuses(object)).collect();
        let kinds: Vec<_> = refusing.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]);
        for object in refusing {
            // Hooks and what is kept are no part of what `helm uninstall` takes away.
            let annotations = object["metadata"]["annotations"].as_object().into_iter().flatten();
            assert!(annotations.clone().all(|(key, _)| !key.starts_with("helm.sh/")), "{object}");
        }
        let binding = of_kind(&objects, "ValidatingAdmissionPolicyBinding")[0];
        assert_eq!(binding["spec"]["paramRef"]["parameterNotFoundAction"], "Allow");
    }
    // CRDs stay after an uninstall: none of them asks a webhook that has gone.
    let more = ["--include-crds", "--kube-version", "1.33.0", "--set", "settings.clusterName=demo"];
    let all: Vec<Value> = serde_saphyr::from_multiple(&common::stdout(&helm(&["template", "dv"], &more))).unwrap();
    for crd in of_kind(&all, "CustomResourceDefinition") {
        assert_ne!(crd["spec"]["conversion"]["strategy"], "Webhook", "{}", crd["metadata"]["name"]);
    }
}

#[test]
fn flow_schema_gives_lease_requests_leader_election_priority() {
    for (more, namespace) in [(vec![], "kube-system"), (vec!["fence.leaseNamespace=leases"], "leases")] {
        let objects = rendered(&[vec!["settings.clusterName=demo"], more].concat());
        let flow = of_kind(&objects, "FlowSchema");
        assert_eq!(flow.len(), 1);
        let (spec, account) = (&flow[0]["spec"], &of_kind(&objects, "ServiceAccount")[0]["metadata"]["name"]);
        assert_eq!(spec["priorityLevelConfiguration"], json!({"name": "leader-election"}));
        let account = json!({"name": account, "namespace": "kube-system"});
        assert_eq!(spec["rules"][0]["subjects"], json!([{"kind": "ServiceAccount", "serviceAccount": account}]));
        let rule = &spec["rules"][0]["resourceRules"][0];
        assert_eq!((&rule["resources"], &rule["namespaces"]), (&json!(["leases"]), &json!([namespace])));
        // All that the role lets it do there.
        let of_leases = |role: &Value| {
            let rules = role["rules"].as_array().into_iter().flatten().cloned().collect::<Vec<_>>();
            rules.into_iter().filter(|rule| rule["resources"] == json!(["leases"])).collect::<Vec<_>>()
        };
        let verbs = |rule: &Value| rule["verbs"].as_array().cloned().unwrap_or_default();
        let may: BTreeSet<String> = of_kind(&objects, "Role")
            .into_iter()
            .flat_map(of_leases)
            .flat_map(|rule| verbs(&rule))
            .map(|v| v.to_string())
            .collect();
        assert_eq!(verbs(rule).iter().map(Value::to_string).collect::<BTreeSet<_>>(), may);
    }
}

#[test]
fn no_fence_without_a_lease_or_policies_or_when_switched_off() {
    let [name, value] = env(0, "DISABLE_LEADER_ELECTION", "true");
    let off: [&[&str]; 2] = [&["fence.enabled=false"], &[&name, &value]];
    for more in off {
        let objects = rendered(&[&["settings.clusterName=demo"], more].concat());
        assert!(!objects.iter().any(refuses), "{more:?}");
        assert_eq!(of_kind(&objects, "FlowSchema").len(), usize::from(more[0].starts_with("fence")), "{more:?}");
    }
    let output = helm(&["template", "dv"], &["--kube-version", "1.29.0", "--set", "settings.clusterName=demo"]);
    let objects: Vec<Value> = serde_saphyr::from_multiple(&common::stdout(&output)).unwrap();
    assert!(output.status.success() && !objects.iter().any(refuses));
}

/// An API server with the fence that the chart makes with these values, and a Lease of term 4.
fn fenced(more: &[&str]) -> ApiServer {
    let clock = std::sync::Arc::new(dovetail_sandbox::clock::VirtualClock::new(dovetail_sandbox::clock::DEFAULT_START));
    let server = ApiServer::with(clock, dovetail_sandbox::apiserver::ServerSettings::default());
    for crd in dovetail_api::crds::crds() {
        server.create(&CUSTOM_RESOURCE_DEFINITIONS, "", serde_json::to_value(crd).unwrap()).unwrap();
    }
    let objects = rendered(&[&["settings.clusterName=demo"], more].concat());
    for (kind, plural) in [
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    ] {
        let object = of_kind(&objects, kind)[0].clone();
        server.create(&Gvr::new("admissionregistration.k8s.io", "v1", plural), "", object).unwrap();
    }
    let lease = json!({"metadata": {"name": "karpenter-leader-election"}, "spec": {"leaseTransitions": 4}});
    server.create(&LEASES, "kube-system", lease).unwrap();
    server
}

fn claim(name: &str, annotations: &Value) -> Value {
    json!({"metadata": {"name": name, "annotations": annotations}, "spec": {"expireAfter": "Never", "requirements": [],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}})
}

#[test]
fn exclusive_fence_refuses_only_new_nodeclaims_of_others() {
    let (ours, theirs) = (json!({"dovetail.dev/term": "4"}), json!({}));
    let open = fenced(&[]);
    open.create(&NODE_CLAIMS, "", claim("ours", &ours)).unwrap();
    open.create(&NODE_CLAIMS, "", claim("theirs", &theirs)).unwrap();
    let exclusive = fenced(&["fence.exclusive=true"]);
    exclusive.create(&NODE_CLAIMS, "", claim("ours", &ours)).unwrap();
    let refused = exclusive.create(&NODE_CLAIMS, "", claim("theirs", &theirs)).unwrap_err();
    let said = refused.to_string();
    assert_eq!((refused.code(), refused.reason()), (403, "Forbidden"));
    assert!(said.contains("NodeClaims are created by Dovetail alone here (fence.exclusive)"), "{said}");
    let refused = exclusive.create(&NODE_CLAIMS, "", claim("late", &json!({"dovetail.dev/term": "3"}))).unwrap_err();
    assert!(refused.to_string().contains("the Lease's is 4"), "{refused}");
    // Made before the fence stood: it may still be worked on, and go.
    let bindings = Gvr::new("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings");
    let binding = exclusive.get(&bindings, "", "dv-dovetail-fence").unwrap();
    let none = dovetail_sandbox::apiserver::DeleteOptions::default;
    exclusive.delete(&bindings, "", "dv-dovetail-fence", &none()).unwrap();
    exclusive.create(&NODE_CLAIMS, "", claim("theirs", &theirs)).unwrap();
    let again = json!({"metadata": {"name": "dv-dovetail-fence"}, "spec": binding["spec"]});
    exclusive.create(&bindings, "", again).unwrap();
    exclusive.patch(&NODE_CLAIMS, "", "theirs", &json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
    exclusive.delete(&NODE_CLAIMS, "", "theirs", &none()).unwrap();
}
