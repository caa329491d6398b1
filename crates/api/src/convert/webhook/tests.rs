use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::{WebhookVersion, converted, merge};
use crate::names::annotations;

fn object(api_version: &str, kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, "spec": spec})
}

fn there_and_back(object: &Value) -> Value {
    let from = WebhookVersion::from_api_version(object["apiVersion"].as_str().unwrap()).unwrap();
    let other = if from == WebhookVersion::V1 { WebhookVersion::V1Beta1 } else { WebhookVersion::V1 };
    converted(&converted(object, other).unwrap(), from).unwrap()
}

/// An object of those fields that are there.
fn fields(names: &'static [&'static str], values: Vec<BoxedStrategy<Value>>) -> BoxedStrategy<Value> {
    let optional: Vec<_> = values.into_iter().map(option::of).collect();
    optional
        .prop_map(move |values| {
            let there = names.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
            Value::Object(there.collect())
        })
        .boxed()
}

fn text(of: &'static [&'static str]) -> BoxedStrategy<Value> {
    select(of).prop_map(|one| json!(one)).boxed()
}

fn list(of: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    vec(of, 0..3).prop_map(Value::Array).boxed()
}

const DURATIONS: &[&str] = &["0s", "30s", "720h", "720h0m0s", "Never"];

fn claim(version: WebhookVersion) -> BoxedStrategy<Value> {
    let requirement = fields(
        &["key", "operator", "values", "minValues"],
        vec![
            text(&["beta.kubernetes.io/arch", "kubernetes.io/arch", "team"]),
            text(&["In", "Exists", "Gt"]),
            list(text(&["amd64", "arm64", "1"])),
            (1..9).prop_map(|least| json!(least)).boxed(),
        ],
    );
    let taint = fields(&["key", "value", "effect"], vec![text(&["a"]), text(&["b"]), text(&["NoSchedule"])]);
    let kubelet = fields(
        &["maxPods", "clusterDNS", "evictionSoft"],
        vec![
            (0..250).prop_map(|most| json!(most)).boxed(),
            list(text(&["10.0.0.10"])),
            Just(json!({"memory.available": "5%"})).boxed(),
        ],
    );
    let old = fields(
        &["apiVersion", "kind", "name"],
        vec![
            text(&["karpenter.k8s.aws/v1beta1", "example.com/v1", ""]),
            text(&["EC2NodeClass", "Other", ""]),
            text(&["default"]),
        ],
    );
    let new = fields(
        &["group", "kind", "name"],
        vec![text(&["karpenter.k8s.aws", "example.com"]), text(&["EC2NodeClass", "Other"]), text(&["default"])],
    );
    let (reference, names, last): (_, &[&str], _) = match version {
        WebhookVersion::V1Beta1 => {
            (old, &["requirements", "taints", "startupTaints", "nodeClassRef", "kubelet"], kubelet)
        }
        WebhookVersion::V1 => (
            new,
            &["requirements", "taints", "startupTaints", "nodeClassRef", "expireAfter", "terminationGracePeriod"],
            text(DURATIONS),
        ),
    };
    let mut values = vec![list(requirement), list(taint.clone()), list(taint), reference, last];
    if version == WebhookVersion::V1 {
        values.push(text(&["1h", "30s"]));
    }
    fields(names, values)
}

fn pool(version: WebhookVersion) -> BoxedStrategy<Value> {
    let metadata =
        fields(&["labels", "annotations"], vec![Just(json!({"a": "b"})).boxed(), Just(json!({"c": "d"})).boxed()]);
    let template = fields(&["metadata", "spec"], vec![metadata, claim(version)]);
    let (budget, policies): (&[&str], &[&str]) = match version {
        WebhookVersion::V1 => {
            (&["nodes", "schedule", "duration", "reasons"], &["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"])
        }
        WebhookVersion::V1Beta1 => (&["nodes", "schedule", "duration"], &["WhenEmpty", "WhenUnderutilized"]),
    };
    let mut values = vec![text(&["0", "10%"]), text(&["@daily"]), text(&["8h"])];
    if version == WebhookVersion::V1 {
        values.push(list(text(&["Empty", "Drifted"])));
    }
    let budgets = list(fields(budget, values));
    let disruption = match version {
        WebhookVersion::V1 => fields(
            &["consolidateAfter", "consolidationPolicy", "budgets"],
            vec![text(DURATIONS), text(policies), budgets],
        ),
        WebhookVersion::V1Beta1 => fields(
            &["consolidateAfter", "consolidationPolicy", "budgets", "expireAfter"],
            vec![text(DURATIONS), text(policies), budgets, text(DURATIONS)],
        ),
    };
    let weight = (1..100).prop_map(|weight| json!(weight)).boxed();
    let limits = Just(json!({"cpu": "100", "nodes": "3"})).boxed();
    let mut values = vec![template, disruption, limits, weight];
    let names: &[&str] = match version {
        WebhookVersion::V1 => {
            values.push((0..5).prop_map(|many| json!(many)).boxed());
            &["template", "disruption", "limits", "weight", "replicas"]
        }
        WebhookVersion::V1Beta1 => &["template", "disruption", "limits", "weight"],
    };
    fields(names, values)
}

fn class(version: WebhookVersion) -> BoxedStrategy<Value> {
    let id = Just(json!({"id": "ami-0123456789"})).boxed();
    let tags = Just(json!({"tags": {"team": "a"}})).boxed();
    let alias = text(&["al2@latest", "al2023@v20240807", "bottlerocket@latest", "windows2025@latest"]);
    let alias = alias.prop_map(|alias| json!({"alias": alias})).boxed();
    let ssm = Just(json!({"ssmParameter": "/my/image"})).boxed();
    let disk = Just(json!([{"deviceName": "/dev/xvda", "rootVolume": true, "ebs": {"volumeSize": "20Gi"}}])).boxed();
    let (families, term): (&[&str], _) = match version {
        WebhookVersion::V1 => {
            (&["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2022"], prop_oneof![id, tags, alias, ssm].boxed())
        }
        WebhookVersion::V1Beta1 => (
            &["AL2", "AL2023", "Bottlerocket", "Custom", "Ubuntu", "Windows2019", "Windows2022"],
            prop_oneof![id, tags].boxed(),
        ),
    };
    let subnets = Just(json!([{"tags": {"karpenter.sh/discovery": "demo"}}])).boxed();
    let hops = Just(json!({"httpPutResponseHopLimit": 2, "httpTokens": "required"})).boxed();
    let mut values = vec![text(families), list(term), subnets, disk, hops, text(&["role"]), text(&["#!/bin/sh\n"])];
    let names: &[&str] = match version {
        WebhookVersion::V1 => {
            values.push(Just(json!({"maxPods": 20})).boxed());
            &[
                "amiFamily",
                "amiSelectorTerms",
                "subnetSelectorTerms",
                "blockDeviceMappings",
                "metadataOptions",
                "role",
                "userData",
                "kubelet",
            ]
        }
        WebhookVersion::V1Beta1 => &[
            "amiFamily",
            "amiSelectorTerms",
            "subnetSelectorTerms",
            "blockDeviceMappings",
            "metadataOptions",
            "role",
            "userData",
        ],
    };
    fields(names, values)
}

/// Whole and partial objects of both versions, some with annotations that a conversion writes itself.
fn any_object() -> BoxedStrategy<Value> {
    let of = |version: WebhookVersion, name: &'static str| {
        let named = move |group: &'static str, kind: &'static str, spec: BoxedStrategy<Value>| {
            spec.prop_map(move |spec| object(&format!("{group}/{name}"), kind, &spec)).boxed()
        };
        prop_oneof![
            named("karpenter.sh", "NodePool", pool(version)),
            named("karpenter.sh", "NodeClaim", claim(version)),
            named("karpenter.k8s.aws", "EC2NodeClass", class(version)),
        ]
    };
    let annotations = prop_oneof![
        4 => Just(None),
        1 => Just(Some(json!({annotations::V1BETA1_KUBELET: "{\"maxPods\": 3}", "mine": "1"}))),
        1 => Just(Some(json!({annotations::V1BETA1_UBUNTU: "amiFamily,blockDeviceMappings"}))),
        1 => Just(Some(json!({annotations::ALIAS_VERSION: "v20240101"}))),
        1 => Just(Some(json!({annotations::V1BETA1_NODE_CLASS_REF: "no JSON"}))),
        1 => Just(Some(json!({annotations::OTHER_VERSION: "no JSON"}))),
    ];
    (prop_oneof![of(WebhookVersion::V1, "v1"), of(WebhookVersion::V1Beta1, "v1beta1")], annotations)
        .prop_map(|(mut object, annotations)| {
            if let Some(annotations) = annotations {
                object["metadata"]["annotations"] = annotations;
            }
            object
        })
        .boxed()
}

/// An object without what says nothing in either version.
fn without_nonsense(mut object: Value) -> Value {
    super::annotate(&mut object, |all| drop(all.remove(annotations::OTHER_VERSION)));
    object
}

proptest! {
    #[test]
    fn an_object_comes_back_from_the_other_version_as_it_was(object in any_object()) {
        prop_assert_eq!(there_and_back(&object), without_nonsense(object));
    }

    #[test]
    fn a_change_in_the_other_version_is_not_lost(object in any_object(), weight in 1..100) {
        let from = WebhookVersion::from_api_version(object["apiVersion"].as_str().unwrap()).unwrap();
        let other = if from == WebhookVersion::V1 { WebhookVersion::V1Beta1 } else { WebhookVersion::V1 };
        prop_assume!(object["kind"] == "NodePool");
        let mut there = converted(&object, other).unwrap();
        there["spec"]["weight"] = json!(weight);
        let mut back = converted(&there, from).unwrap();
        prop_assert_eq!(&back["spec"]["weight"], &json!(weight));
        // All else is as it was.
        let mut expected = without_nonsense(object);
        expected["spec"]["weight"] = json!(weight);
        super::annotate(&mut back, |all| drop(all.remove(annotations::OTHER_VERSION)));
        prop_assert_eq!(back, expected);
    }
}

/// An object of v1beta1 with the API server's defaults: it is never stored without them.
fn defaulted(mut object: Value) -> Value {
    let (api_version, kind) = (object["apiVersion"].clone(), object["kind"].clone());
    let schema = crate::schema::schema_for(api_version.as_str().unwrap(), kind.as_str().unwrap()).unwrap();
    schema.default(&mut object);
    object
}

proptest! {
    /// Manifests are converted on their way into `plan` by one piece, objects of a cluster by the other.
    #[test]
    fn a_manifest_means_what_the_stored_object_means(pool in pool(WebhookVersion::V1Beta1), class in class(WebhookVersion::V1Beta1)) {
        let context = crate::convert::ConversionContext { kubernetes_minor: Some(31), ..crate::convert::ConversionContext::new("demo") };
        let mut pool = defaulted(object("karpenter.sh/v1beta1", "NodePool", &pool));
        pool["spec"]["template"]["spec"]["nodeClassRef"] = json!({"apiVersion": "karpenter.k8s.aws/v1beta1", "name": "default"});
        let arch = json!([{"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
        pool["spec"]["template"]["spec"]["requirements"] = arch;
        let disruption = &pool["spec"]["disruption"];
        // v1beta1 refuses it.
        prop_assume!(disruption["consolidationPolicy"] != "WhenEmpty" || !disruption["consolidateAfter"].is_null());
        let read = crate::convert::to_v1(&pool, &context).unwrap().unwrap().node_pool.unwrap();
        let stored: crate::v1::NodePool = serde_json::from_value(converted(&pool, WebhookVersion::V1).unwrap()).unwrap();
        prop_assert_eq!(read.spec, stored.spec);
        let mut class = defaulted(object("karpenter.k8s.aws/v1beta1", "EC2NodeClass", &class));
        // The API server stores no class without these.
        let needed = [
            ("amiFamily", json!("AL2023")),
            ("subnetSelectorTerms", json!([{"id": "subnet-1"}])),
            ("securityGroupSelectorTerms", json!([{"id": "sg-1"}])),
        ];
        for (field, value) in needed {
            if class["spec"][field].is_null() {
                class["spec"][field] = value;
            }
        }
        let read = crate::convert::to_v1(&class, &context).unwrap().unwrap().node_class.unwrap();
        let stored: crate::v1::EC2NodeClass = serde_json::from_value(converted(&class, WebhookVersion::V1).unwrap()).unwrap();
        prop_assert_eq!(read.spec, stored.spec);
    }
}

#[test]
fn what_v1_cannot_hold_is_written_as_karpenter_webhook_does() {
    let spec = json!({"template": {"spec": {
        "kubelet": {"maxPods": 20},
        "nodeClassRef": {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "default"},
    }}});
    let new = converted(&object("karpenter.sh/v1beta1", "NodePool", &spec), WebhookVersion::V1).unwrap();
    let notes = &new["metadata"]["annotations"];
    assert_eq!(notes[annotations::V1BETA1_KUBELET], r#"{"maxPods":20}"#);
    assert_eq!(
        new["spec"]["template"]["spec"]["nodeClassRef"],
        json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"})
    );
    assert_eq!(notes.get(annotations::OTHER_VERSION), None, "nothing else is lost");
}

#[test]
fn an_alias_is_a_family_and_its_version_is_kept() {
    let spec = json!({"amiSelectorTerms": [{"alias": "al2023@v20240807"}]});
    let old = converted(&object("karpenter.k8s.aws/v1", "EC2NodeClass", &spec), WebhookVersion::V1Beta1).unwrap();
    assert_eq!(old["spec"], json!({"amiFamily": "AL2023"}));
    assert_eq!(old["metadata"]["annotations"][annotations::ALIAS_VERSION], "v20240807");
}

#[test]
fn policy_v1beta1_lacks_survives_an_apply_of_what_it_sees() {
    let spec = json!({"disruption": {"consolidationPolicy": "Balanced", "consolidateAfter": "30s"}});
    let stored = object("karpenter.sh/v1", "NodePool", &spec);
    let seen = converted(&stored, WebhookVersion::V1Beta1).unwrap();
    assert_eq!(seen["spec"]["disruption"], json!({"consolidationPolicy": "WhenUnderutilized"}));
    assert_eq!(converted(&seen, WebhookVersion::V1).unwrap(), stored);
    let mut changed = seen;
    changed["spec"]["disruption"] = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m"});
    let now = converted(&changed, WebhookVersion::V1).unwrap();
    assert_eq!(now["spec"]["disruption"], json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m"}));
}

#[test]
fn merged_keeps_what_neither_side_has_touched() {
    let theirs = json!({"a": 1});
    assert_eq!(merge::merged(None, None, Some(&theirs)), Some(theirs));
}

/// The fields of a schema that hold no others, each as an object that has it alone.
fn alone(schema: &Value, wrap: &dyn Fn(Value) -> Value, found: &mut Vec<Value>) {
    if let Some(properties) = schema["properties"].as_object() {
        for (name, field) in properties {
            alone(field, &|value| wrap(json!({ name.as_str(): value })), found);
        }
        return;
    }
    let value = match (schema["enum"].get(0), schema["type"].as_str()) {
        (Some(known), _) => known.clone(),
        (None, Some("boolean")) => json!(true),
        (None, Some("integer")) => json!(7),
        (None, Some("array")) if schema["items"]["properties"].is_object() => {
            return alone(&schema["items"], &|item| wrap(json!([item])), found);
        }
        (None, Some("array")) => json!(["a"]),
        (None, Some("object")) => json!({"a": "b"}),
        (None, _) => json!("7"),
    };
    found.push(wrap(value));
}

/// Drawn from the schemas, so that a field that is new is tried without a generator of its own.
#[test]
fn each_field_that_a_version_has_comes_back_from_the_other() {
    let mut tried = 0;
    for (group, kind) in
        [("karpenter.sh", "NodePool"), ("karpenter.sh", "NodeClaim"), ("karpenter.k8s.aws", "EC2NodeClass")]
    {
        for version in ["v1", "v1beta1"] {
            let api_version = format!("{group}/{version}");
            let mut specs = Vec::new();
            let schema = crate::crds::schema_of(&api_version, kind).unwrap();
            alone(&schema["properties"]["spec"], &|value| value, &mut specs);
            for spec in specs {
                tried += 1;
                let object = object(&api_version, kind, &spec);
                assert_eq!(there_and_back(&object), object);
            }
        }
    }
    assert!(tried > 150, "{tried}");
}
