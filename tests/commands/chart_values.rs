//! Values files of the chart: those of the posts, those that are refused and how, the names of every setting, and the charts
//! beside the main one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Output;

use dovetail_actors::Settings;
use dovetail_actors::settings::TABLE;
use serde_json::{Value, json};

use crate::chart::{helm, helm_on, of_kind, rendered, variables};
use crate::common::{self, root};

/// Renders with arguments as they are.
fn template(more: &[&str]) -> Output {
    helm(&["template", "karpenter"], &[&["--kube-version", "1.33.0"], more].concat())
}

fn made(more: &[&str]) -> Vec<Value> {
    let output = template(more);
    assert!(output.status.success(), "{more:?}: {}", common::stderr(&output));
    serde_saphyr::from_multiple(&common::stdout(&output)).unwrap()
}

/// Helm's message on values that it refuses.
fn refusal(more: &[&str]) -> String {
    let output = template(more);
    assert!(!output.status.success(), "{more:?} is taken");
    common::stderr(&output)
}

#[test]
fn the_command_lines_of_the_posts_install_what_they_meant() {
    // 000 and 004: the endpoint comes from `aws eks describe-cluster --output json`, in quotes.
    let oldest = made(&[
        "--namespace",
        "karpenter",
        "--set",
        "serviceAccount.create=false",
        "--set",
        "serviceAccount.name=karpenter",
        "--set",
        "controller.clusterName=demo",
        "--set",
        "controller.clusterEndpoint=\"https://0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com\"",
    ]);
    let given = Settings::from_map(&variables(&oldest)).unwrap();
    let endpoint = "https://0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com";
    assert_eq!((given.cluster_name.as_str(), given.cluster_endpoint.as_str()), ("demo", endpoint));
    let deployment = of_kind(&oldest, "Deployment")[0];
    let template = &deployment["spec"]["template"];
    assert_eq!(template["spec"]["serviceAccountName"], "karpenter");
    // Their logs are asked for by `-l karpenter=controller`.
    assert_eq!(template["metadata"]["labels"]["karpenter"], "controller");
    assert!(deployment["spec"]["selector"]["matchLabels"]["karpenter"].is_null(), "selectors cannot be changed later");

    // 002, and what it adds by --reuse-values.
    let newer = made(&[
        "--namespace",
        "kube-system",
        "--set",
        "serviceAccount.annotations.eks\\.amazonaws\\.com/role-arn=arn:aws:iam::111122223333:role/demo-karpenter",
        "--set",
        "settings.clusterName=demo",
        "--set",
        "settings.interruptionQueue=demo",
        "--set",
        "controller.resources.requests.cpu=1",
        "--set",
        "controller.resources.requests.memory=1Gi",
        "--set",
        "controller.resources.limits.cpu=1",
        "--set",
        "controller.resources.limits.memory=1Gi",
        "--set",
        "settings.featureGates.spotToSpotConsolidation=true",
    ]);
    let given = Settings::from_map(&variables(&newer)).unwrap();
    assert_eq!((given.cluster_name.as_str(), given.interruption_queue.as_str()), ("demo", "demo"));
    assert!(given.gates.contains("SpotToSpotConsolidation"), "{:?}", given.gates);
    let account = of_kind(&newer, "ServiceAccount")[0];
    assert_eq!(
        account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"],
        "arn:aws:iam::111122223333:role/demo-karpenter"
    );
    let container = &of_kind(&newer, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"]["limits"], json!({"cpu": 1, "memory": "1Gi"}));
}

/// A values file of tests/deploy/values, each in the spelling of some of Karpenter's charts: what is made of it, the container's
/// variables, and what is noted.
fn of_file(version: &str) -> (Vec<Value>, BTreeMap<String, String>, String) {
    let objects = made(&["--namespace", "kube-system", "--values", &format!("tests/deploy/values/{version}.yaml")]);
    let mut given = variables(&objects);
    // Variables that are no settings of ours are the environment's: a proxy.
    given.retain(|name, _| TABLE.iter().any(|known| known.name == name));
    Settings::from_map(&given).unwrap();
    assert_eq!(given["CLUSTER_NAME"], "demo", "{version}");
    let image = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "registry.example/dovetail/controller:0.1.0", "{version}");
    let note = &of_kind(&objects, "Deployment")[0]["metadata"]["annotations"]["dovetail.dev/note"];
    let note = note.as_str().unwrap_or_default().to_owned();
    (objects, given, note)
}

fn holds(note: &str, told: &[&str]) {
    for one in told {
        assert!(note.contains(one), "{one} is not in {note}");
    }
}

#[test]
fn values_of_karpenter_0_5_to_0_18_are_honoured_or_named() {
    let (objects, given, note) = of_file("0.5");
    assert_eq!(given["CLUSTER_ENDPOINT"], "https://demo.example");
    let spec = &of_kind(&objects, "Deployment")[0]["spec"];
    let pod = &spec["template"]["spec"];
    assert_eq!((&spec["replicas"], &pod["nodeSelector"]["role"]), (&json!(1), &json!("system")));
    assert_eq!(pod["tolerations"][1], json!({"key": "system", "operator": "Exists"}));
    let affinity = &pod["affinity"]["nodeAffinity"];
    assert!(affinity["preferredDuringSchedulingIgnoredDuringExecution"][0]["weight"] == 1, "{affinity}");
    assert!(affinity["requiredDuringSchedulingIgnoredDuringExecution"].is_object(), "{affinity}");
    holds(
        &note,
        &[
            "controller.replicas is read as replicas",
            "without effect: webhook.image, webhook.replicas, webhook.resources",
        ],
    );

    let (objects, given, note) = of_file("0.6");
    for (name, value) in [
        ("LOG_LEVEL", "debug"),
        ("LOG_FORMAT", "text"),
        ("BATCH_MAX_DURATION", "20s"),
        ("BATCH_IDLE_DURATION", "2s"),
        ("DEFAULT_INSTANCE_PROFILE", "nodes"),
    ] {
        assert_eq!(given[name], value, "{name}");
    }
    let spec = &of_kind(&objects, "Deployment")[0]["spec"];
    assert_eq!(spec["strategy"], json!({"type": "Recreate"}), "an API server refuses rollingUpdate beside it");
    let container = &spec["template"]["spec"]["containers"][0]["securityContext"];
    assert_eq!((&container["runAsUser"], &container["privileged"]), (&json!(1000), &json!(false)));
    let terms = &spec["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(terms["nodeSelectorTerms"][0]["matchExpressions"][1]["key"], "karpenter.sh/nodepool");
    holds(&note, &["clusterName is how Karpenter 0.6 to 0.18", "logEncoding is read as settings.logFormat"]);
    holds(&note, &["controller.batchMaxDuration is read as settings.batchMaxDuration", "webhook.logLevel"]);
}

#[test]
fn values_of_karpenter_0_19_to_1_14_are_honoured_or_named() {
    let (_, given, note) = of_file("0.19");
    for (name, value) in [("INTERRUPTION_QUEUE", "demo"), ("DEFAULT_INSTANCE_PROFILE", "nodes"), ("LOG_LEVEL", "error")]
    {
        assert_eq!(given[name], value, "{name}");
    }
    holds(&note, &["enableInterruptionHandling", "settings.aws.enablePodENI", "settings.aws.nodeNameConvention"]);

    let (objects, given, note) = of_file("0.27");
    assert!(given["FEATURE_GATES"].contains("Drift=false") && !given["FEATURE_GATES"].contains("Enabled"), "{given:?}");
    assert!(!Settings::from_map(&given).unwrap().drift());
    assert_eq!(of_kind(&objects, "ConfigMap")[0]["metadata"]["name"], "beside");
    assert!(of_kind(&objects, "NetworkPolicy")[0]["spec"]["egress"].to_string().contains("3128"));
    holds(&note, &["Drift is off", "settings.featureGates.driftEnabled is read as", "settings.assumeRoleARN"]);
    holds(&note, &["HTTPS_PROXY is used on the way to AWS, and not to the API server"]);

    let (_, given, note) = of_file("0.32");
    assert_eq!((given["LOG_LEVEL"].as_str(), given["LOG_FORMAT"].as_str()), ("error", "json"));
    let settings = Settings::from_map(&given).unwrap();
    assert!(!settings.drift() && settings.spot_to_spot());
    holds(
        &note,
        &["logConfig is read as", "without effect: postInstallHook", "webhook.metrics", "settings.assumeRoleARN (arn:"],
    );
    holds(&note, &["logConfig.logLevel.webhook", "Drift is off"]);

    let (_, given, _) = of_file("1.8");
    assert!(given["FEATURE_GATES"].contains("StaticCapacity=true") && given["FEATURE_GATES"].contains("Drift=true"));
}

#[test]
fn image_of_karpenter_is_refused_with_the_reason() {
    for image in [
        "controller.image.repository=public.ecr.aws/karpenter/controller",
        "controller.image=public.ecr.aws/karpenter/controller:v0.5.0@sha256:0123",
        "controller.image.repository=111122223333.dkr.ecr.eu-west-1.amazonaws.com/mirror/karpenter/controller",
    ] {
        let said = refusal(&["--set", "settings.clusterName=demo", "--set", image]);
        assert!(said.contains("controller.image is Karpenter's own program"), "{image}: {said}");
        assert!(said.contains("set controller.image.repository and controller.image.tag"), "{image}: {said}");
    }
}

#[test]
fn a_value_that_makes_no_sense_is_refused_by_helm_with_its_path() {
    for (value, path) in [
        ("settings.batchMaxDuration=10", "/settings/batchMaxDuration"),
        ("settings.batchMaxDuration=ten", "/settings/batchMaxDuration"),
        ("settings.packingPolicy=cheapest", "/settings/packingPolicy"),
        ("settings.vmMemoryOverheadPercent=7.5", "/settings/vmMemoryOverheadPercent"),
        ("settings.clusterEndpoint=demo.example", "/settings/clusterEndpoint"),
        ("settings.interruptionQueue=arn:aws:sns:us-east-1:1:demo", "/settings/interruptionQueue"),
        ("settings.maxCostPerHour=ten", "/settings/maxCostPerHour"),
        ("settings.maxLaunchesPerHour=0", "/settings/maxLaunchesPerHour"),
        ("settings.isolatedVPC=yes", "/settings/isolatedVPC"),
        ("settings.featureGates.nodeRepair=yes", "/settings/featureGates/nodeRepair"),
        ("settings.legacyNodeRepair=yes", "/settings/legacyNodeRepair"),
        ("settings.leaderElectionLeaseDuration=15", "/settings/leaderElectionLeaseDuration"),
        ("settings.consolePort=99999", "/settings/consolePort"),
        ("logLevel=chatty", "/logLevel"),
        ("replicas=two", "/replicas"),
        ("controller.metrics.port=0", "/controller/metrics/port"),
        ("controller.resources.requests.cpu=lots", "/controller/resources/requests/cpu"),
        ("controller.image.digest=sha256:1", "/controller/image/digest"),
        ("podDisruptionBudget.maxUnavailable=half", "/podDisruptionBudget/maxUnavailable"),
        ("fence.lease=Not_a_name", "/fence/lease"),
        ("podLabels.a=1", "/podLabels/a"),
        ("tolerations=none", "/tolerations"),
    ] {
        let said = refusal(&["--set", "settings.clusterName=demo", "--set", value]);
        assert!(said.contains(&format!("at '{path}'")), "{value}: {said}");
    }
}

#[test]
fn chart_schema_and_settings_accept_the_same_values() {
    for (value, variable, texts) in [
        ("startupTimeout", "STARTUP_TIMEOUT", ["1m30s", "500ms", "1.5h", "x", "1", "1 s"]),
        ("unscheduledPodDelay", "UNSCHEDULED_POD_DELAY", ["never", "500ms", "2s", "Never", "-1s", "5"]),
        ("initializationTimeout", "INITIALIZATION_TIMEOUT", ["never", "30m", "1h", "Never", "-1s", "5"]),
        ("spotPriceRefreshInterval", "SPOT_PRICE_REFRESH_INTERVAL", ["never", "1h", "10m", "Never", "-1s", "5"]),
        ("maxOptionPrice", "MAX_OPTION_PRICE", ["1", "1.5", "10", "0.5", "-2", "1,5"]),
        ("interruption", "INTERRUPTION", ["replace", "evict", "replace", "drain", "Evict", "none"]),
        ("minValuesPolicy", "MIN_VALUES_POLICY", ["Strict", "BestEffort", "Strict", "strict", "Best", "no"]),
        ("expendablePodsPriorityCutoff", "EXPENDABLE_PODS_PRIORITY_CUTOFF", ["-10", "0", "1000", "low", "-1.5", "--1"]),
        ("maxCostPerHour", "MAX_COST_PER_HOUR", ["12.50", "3", "0.5", "-1", "$3", "1,5"]),
        ("maxFutileLaunches", "MAX_FUTILE_LAUNCHES", ["1", "10", "never", "0", "-3", "1.5"]),
        ("maxFutileCost", "MAX_FUTILE_COST", ["12.50", "never", "0.5", "-1", "$3", "1,5"]),
        ("maxPriceRise", "MAX_PRICE_RISE", ["3", "never", "20.5", "-1", "much", "1,5"]),
        ("maxLaunchesPerHour", "MAX_LAUNCHES_PER_HOUR", ["1", "70", "100", "0", "-3", "1.5"]),
        (
            "clusterEndpoint",
            "CLUSTER_ENDPOINT",
            ["https://a:8443", "\"https://a\"", "http://a/", "a", "https://", "ftp://a"],
        ),
        (
            "interruptionQueue",
            "INTERRUPTION_QUEUE",
            ["demo", "demo.fifo", "arn:aws:sqs:r:1:q", "a b", "arn:aws:sns:r:1:q", "q/r"],
        ),
        ("consolePort", "CONSOLE_PORT", ["none", "9000", "65535", "99x", "off", "8o82"]),
        ("logFormat", "LOG_FORMAT", ["json", "text", "auto", "xml", "JSON", "pretty"]),
    ] {
        for (at, text) in texts.into_iter().enumerate() {
            let set = format!("settings.{value}={}", text.replace(',', "\\,"));
            let taken = template(&["--set", "settings.clusterName=demo", "--set-string", &set]).status.success();
            let map = BTreeMap::from([("CLUSTER_NAME".into(), "demo".into()), (variable.into(), text.to_owned())]);
            let read = Settings::from_map(&map).is_ok();
            assert_eq!((taken, read), (at < 3, at < 3), "{set}: the chart, the settings");
        }
    }
}

#[test]
fn helm_finds_nothing_to_say_about_the_charts() {
    for (chart, more) in [("dovetail", &["--set", "settings.clusterName=demo"][..]), ("dovetail-crd", &[])] {
        let output = helm_on(chart, &["lint", "--strict"], more);
        assert!(output.status.success(), "{}{}", common::stdout(&output), common::stderr(&output));
        assert!(common::stdout(&output).contains("0 chart(s) failed"));
    }
}

#[test]
fn every_setting_has_a_value_or_is_the_charts_own_business() {
    // Settings of the pod or of the chart itself: where it runs, and what it listens on.
    let own = [
        "KUBECONFIG",
        "KUBE_CONTEXT",
        "KARPENTER_SERVICE",
        // Go's garbage collector: without effect.
        "MEMORY_LIMIT",
    ];
    let values = std::fs::read_to_string(root().join("deploy/helm/dovetail/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&values).unwrap();
    let mut sets = vec!["settings.clusterName=demo".to_owned(), "console.tokenSecret.name=token".to_owned()];
    sets.extend(["moves.rollout=true", "webhook.url=https://dovetail.example:8443"].map(str::to_owned));
    for (name, rule) in schema["properties"]["settings"]["properties"].as_object().unwrap() {
        let target = rule["$ref"].as_str().unwrap_or_default().trim_start_matches("#/definitions/");
        let examples = rule["examples"].as_array().or_else(|| schema["definitions"][target]["examples"].as_array());
        let example = examples.and_then(|some| some.first()).or_else(|| rule["enum"].as_array()?.last());
        if let Some(example) = example {
            sets.push(format!(
                "settings.{name}={}",
                example.as_str().map_or_else(|| example.to_string(), str::to_owned)
            ));
        } else if rule["type"] == "string" && name != "clusterName" {
            sets.push(format!("settings.{name}=another"));
        }
    }
    let objects =
        rendered(&sets.iter().map(String::as_str).filter(|set| !set.contains("disableLeader")).collect::<Vec<_>>());
    let container = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0];
    let mut given: BTreeSet<&str> =
        container["env"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    given.extend(["DISABLE_LEADER_ELECTION"]);
    let missing: Vec<&str> = TABLE.iter().map(|known| known.name).filter(|name| !given.contains(name)).collect();
    assert_eq!(missing.into_iter().collect::<BTreeSet<_>>(), own.into_iter().collect(), "settings without a value");
}

#[test]
fn karpenter_0_19_to_0_32_values_are_heeded_or_refused_by_name() {
    let heeded = [
        ("clusterCABundle", "QUJD", "CLUSTER_CA_BUNDLE"),
        ("clusterEndpoint", "https://demo.example", "CLUSTER_ENDPOINT"),
        ("isolatedVPC", "true", "ISOLATED_VPC"),
        ("vmMemoryOverheadPercent", "0.1", "VM_MEMORY_OVERHEAD_PERCENT"),
        ("interruptionQueueName", "demo", "INTERRUPTION_QUEUE"),
        ("reservedENIs", "1", "RESERVED_ENIS"),
    ];
    for (name, value, variable) in heeded {
        let given = variables(&rendered(&["settings.aws.clusterName=demo", &format!("settings.aws.{name}={value}")]));
        assert_eq!((given["CLUSTER_NAME"].as_str(), given[variable].as_str()), ("demo", value), "{name}");
    }
    let refused = [
        ("tags.team=a", "spec.tags in each EC2NodeClass"),
        ("enableENILimitedPodDensity=false", "spec.kubelet.maxPods: 110"),
    ];
    for (set, instead) in refused {
        let said = refusal(&["--set", "settings.clusterName=demo", "--set", &format!("settings.aws.{set}")]);
        let name = set.split(['=', '.']).next().unwrap();
        assert!(said.contains(&format!("settings.aws.{name}")) && said.contains(instead), "{set}: {said}");
    }
    // Values that ask for nothing are let pass: charts were rendered with all defaults.
    rendered(&[
        "settings.aws.clusterName=demo",
        "settings.aws.enableENILimitedPodDensity=true",
        "settings.aws.assumeRoleARN=",
    ]);
}

#[test]
fn a_queue_of_another_region_is_refused_where_both_are_known() {
    for queue in ["arn:aws:sqs:eu-west-1:111122223333:demo", "https://sqs.eu-west-1.amazonaws.com/111122223333/demo"] {
        let set = format!("settings.interruptionQueue={queue}");
        let said = refusal(&["--set", "settings.clusterName=demo,settings.awsRegion=us-east-1", "--set", &set]);
        assert!(said.contains("is a queue of eu-west-1, settings.awsRegion is us-east-1"), "{said}");
        rendered(&["settings.clusterName=demo", "settings.awsRegion=eu-west-1", &set]);
        rendered(&["settings.clusterName=demo", &set]);
    }
}

#[test]
fn fargate_needs_region_and_role_and_has_no_node_constraints() {
    let fargate = ["--values", "deploy/helm/dovetail/values-fargate.yaml", "--set", "settings.clusterName=demo"];
    let region = [&fargate[..], &["--set", "settings.awsRegion=us-east-1"]].concat();
    assert!(refusal(&fargate).contains("set settings.awsRegion"));
    assert!(refusal(&region).contains("eks.amazonaws.com/role-arn"));
    let role =
        ["--set", "serviceAccount.annotations.eks\\.amazonaws\\.com/role-arn=arn:aws:iam::111122223333:role/demo"];
    let objects = made(&[&region[..], &role].concat());
    let pod = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"];
    assert_eq!(variables(&objects)["AWS_REGION"], "us-east-1");
    for none in ["nodeSelector", "tolerations", "topologySpreadConstraints"] {
        assert!(pod[none].is_null(), "{none}: {}", pod[none]);
    }
    assert!(pod["affinity"]["podAntiAffinity"].is_null() && pod["affinity"]["nodeAffinity"].is_object());
    assert!(refusal(&[&region[..], &role, &["--set", "hostNetwork=true"]].concat()).contains("hostNetwork"));
}

#[test]
fn console_with_a_token_and_traces_pass_the_network_policy() {
    let objects = rendered(&[
        "settings.clusterName=demo",
        "console.tokenSecret.name=token",
        "settings.consolePort=9082",
        "traces.endpoint=http://collector:14317",
    ]);
    let env = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["env"];
    let token = env.as_array().unwrap().iter().find(|one| one["name"] == "CONSOLE_TOKEN").unwrap();
    assert_eq!(token["valueFrom"]["secretKeyRef"], json!({"name": "token", "key": "token"}));
    assert_eq!(variables(&objects)["OTEL_EXPORTER_OTLP_ENDPOINT"], "http://collector:14317");
    let spec = of_kind(&objects, "NetworkPolicy")[0]["spec"].to_string();
    assert!(spec.contains("9082") && spec.contains("14317") && spec.contains("4318"), "{spec}");
}

#[test]
fn helm_test_asks_behind_the_service_for_a_leader_with_a_fence() {
    let test = |more: &[&str]| {
        let objects = rendered(&[&["settings.clusterName=demo"], more].concat());
        let pod = of_kind(&objects, "Pod")[0].clone();
        let service = of_kind(&objects, "Service")[0].clone();
        (pod, service)
    };
    let (pod, service) = test(&["controller.metrics.port=9090", "test.image=mirror/busybox:1"]);
    assert_eq!(pod["metadata"]["annotations"]["helm.sh/hook"], "test");
    let container = &pod["spec"]["containers"][0];
    let page = format!("http://{}.kube-system:9090/metrics", service["metadata"]["name"].as_str().unwrap());
    assert_eq!(container["env"], json!([{"name": "PAGE", "value": page}, {"name": "FENCED", "value": "true"}]));
    assert_eq!(container["image"], "mirror/busybox:1");
    let selected = service["spec"]["selector"]["app.kubernetes.io/name"].clone();
    assert_ne!(pod["metadata"]["labels"]["app.kubernetes.io/name"], selected, "it is no replica");
    for off in ["fence.enabled=false", "settings.disableLeaderElection=true"] {
        assert_eq!(test(&[off]).0["spec"]["containers"][0]["env"][1]["value"], "false", "{off}");
    }
}

/// The script of the chart's test, played by a shell with a `wget` of our own, and its messages on pages.
#[test]
fn helm_test_script_tells_a_missing_leader_and_a_missing_fence() {
    let objects = rendered(&["settings.clusterName=demo"]);
    let script = of_kind(&objects, "Pod")[0]["spec"]["containers"][0]["args"][0].as_str().unwrap().to_owned();
    let folder = common::scratch("helm-test-bin");
    std::fs::create_dir_all(&folder).unwrap();
    let play = |page: Option<&str>, fenced: &str| {
        let wget = page.map_or("exit 1".to_owned(), |page| format!("printf '%s\\n' '{page}'"));
        for (name, text) in [("wget", wget), ("sleep", ":".to_owned())] {
            let path = folder.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            let mut mode = std::fs::metadata(&path).unwrap().permissions();
            std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
            std::fs::set_permissions(&path, mode).unwrap();
        }
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut shell = std::process::Command::new("sh");
        let output = shell
            .args(["-c", &script])
            .env("PATH", path)
            .env("PAGE", "http://x")
            .env("FENCED", fenced)
            .output()
            .unwrap();
        (output.status.success(), common::stdout(&output))
    };
    let leads = "dovetail_leader 1\ndovetail_events_total{actor=\"leader\",event=\"elected\"} 1";
    let bare = "dovetail_leader 1\ndovetail_events_total{actor=\"leader\",event=\"no_fence\"} 1";
    assert_eq!(play(Some(leads), "true"), (true, "ready, and one leads\n".into()));
    assert!(play(Some(bare), "false").0);
    let (passed, said) = play(Some(bare), "true");
    assert!(!passed && said.contains("has found no fence"), "{said}");
    let (passed, said) = play(Some("dovetail_leader 0"), "true");
    assert!(!passed && said.contains("none leads"), "{said}");
    let (passed, said) = play(None, "true");
    assert!(!passed && said.contains("no replica is ready"), "{said}");
}

/// 100 is 100.0: Go writes whole numbers without a fraction.
fn without_kinds_of_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => *value = json!(number.as_f64()),
        Value::Array(all) => all.iter_mut().for_each(without_kinds_of_numbers),
        Value::Object(all) => all.values_mut().for_each(without_kinds_of_numbers),
        _ => {}
    }
}

#[test]
fn crd_chart_brings_the_same_kinds_and_keeps_them_on_uninstall() {
    let output = helm_on("dovetail-crd", &["template", "crds"], &["--set", "additionalAnnotations.team=a"]);
    assert!(output.status.success(), "{}", common::stderr(&output));
    let mut kept: Vec<Value> = serde_saphyr::from_multiple(&common::stdout(&output)).unwrap();
    let annotations = |one: &mut Value| one["metadata"].as_object_mut().unwrap().remove("annotations").unwrap();
    kept.iter_mut().for_each(without_kinds_of_numbers);
    for crd in &mut kept {
        let said = annotations(crd);
        assert_eq!((&said["helm.sh/resource-policy"], &said["team"]), (&json!("keep"), &json!("a")));
    }
    let printed = common::stdout(&common::dovetail(&["crds"]));
    let mut printed: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
    printed.iter_mut().for_each(without_kinds_of_numbers);
    for crd in &mut printed {
        crd["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    let by_name = |one: &Value| one["metadata"]["name"].as_str().unwrap().to_owned();
    kept.sort_by_key(by_name);
    printed.sort_by_key(by_name);
    assert!(kept == printed, "the CRDs differ");
    let output = helm_on("dovetail-crd", &["template", "crds"], &["--set", "additionalAnnotation.team=a"]);
    assert!(common::stderr(&output).contains("'additionalAnnotation' not allowed"));
}

/// Nodes of kwok are made by the control plane itself, and nothing converts their class.
#[test]
fn provider_kwok_brings_its_rights_and_no_webhook() {
    let rules = |sets: &[&str]| {
        let objects = rendered(sets);
        let roles: Vec<String> =
            of_kind(&objects, "ClusterRole").iter().map(|role| role["rules"].to_string()).collect();
        (variables(&objects), roles.join("\n"))
    };
    let (given, allowed) = rules(&["settings.clusterName=demo", "settings.provider=kwok"]);
    assert_eq!((given["PROVIDER"].as_str(), given["WEBHOOK_ENABLED"].as_str()), ("kwok", "false"));
    let creates = r#"{"apiGroups":[""],"resources":["nodes"],"verbs":["create"]}"#;
    assert!(allowed.contains(creates) && allowed.contains("kwoknodeclasses/status"), "{allowed}");
    let reboots = r#"{"apiGroups":[""],"resources":["nodes/status"],"verbs":["patch"]}"#;
    assert!(allowed.contains(reboots), "{allowed}");
    let (given, allowed) = rules(&["settings.clusterName=demo"]);
    assert!(!given.contains_key("PROVIDER") && !allowed.contains("kwok") && !allowed.contains(creates));
    assert!(!allowed.contains(reboots), "{allowed}");
}
