#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::fmt::Debug;

use dovetail_api::v1::{EC2NodeClass, NodeClaim, NodePool};
use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use kube::core::{ObjectList, WatchEvent};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const FOREVER: &str = "9999-12-31T23:59:59Z";

fn meta(name: &str) -> Value {
    json!({"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "7", "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"}, "annotations": {"note": "x"},
        "managedFields": [{"manager": "m", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}}}]})
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta(name),
        "spec": {"nodeName": "n", "priority": 5, "containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}],
            "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

fn claim(name: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": meta(name),
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [{"key": "a", "operator": "In", "values": ["b"], "minValues": 1}],
            "resources": {"requests": {"cpu": "1"}}, "expireAfter": "720h", "terminationGracePeriod": "1h"},
        "status": {"providerID": "aws:///a/i-1", "nodeName": "n", "capacity": {"cpu": "4"}, "conditions": [
            {"type": "Ready", "status": "True", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

fn pool(name: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": meta(name),
        "spec": {"weight": 5, "limits": {"cpu": 100}, "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "10%"}]},
            "template": {"spec": {"expireAfter": "720h", "requirements": [{"key": "a", "operator": "Exists"}],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}}})
}

fn read_value<K: Resource<DynamicType = ()> + DeserializeOwned>(value: &Value) -> ReadObject<K> {
    read_object(&value.to_string())
}

fn readable<K: Resource<DynamicType = ()> + DeserializeOwned>(value: &Value) -> K {
    read_value(value).object().unwrap_or_else(|unread| panic!("{}", unread.why))
}

#[test]
fn managed_fields_of_any_time_and_depth_never_prevent_reading() {
    for depth in [1, 130, 100_000] {
        let deep = format!("{}{{}}{}", "{\"f:a\":".repeat(depth), "}".repeat(depth));
        let mut text = pod("deep");
        text["metadata"]["managedFields"] = json!("HERE");
        let entry = format!("[{{\"manager\":\"evil\",\"time\":\"{FOREVER}\",\"fieldsV1\":{deep}}}]");
        let text = text.to_string().replace("\"HERE\"", &entry);
        let pod: Pod = read_object(&text).object().unwrap();
        assert!(pod.metadata.name.as_deref() == Some("deep") && pod.metadata.managed_fields.is_none());
    }
}

#[test]
fn times_beyond_range_become_latest_in_any_field() {
    let mut value = pod("late");
    value["metadata"]["creationTimestamp"] = json!(FOREVER);
    value["metadata"]["deletionTimestamp"] = json!(FOREVER);
    value["status"]["startTime"] = json!(FOREVER);
    value["status"]["conditions"][0]["lastTransitionTime"] = json!(FOREVER);
    let pod: Pod = readable(&value);
    assert_eq!(pod.metadata.deletion_timestamp.unwrap().0.to_string(), "9999-12-30T22:00:00Z");
    let mut node =
        json!({"metadata": meta("n"), "spec": {"taints": [{"key": "k", "effect": "NoExecute", "timeAdded": FOREVER}]}});
    node["status"]["conditions"] = json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": FOREVER}]);
    assert!(readable::<Node>(&node).spec.unwrap().taints.unwrap()[0].time_added.is_some());
    let lease = json!({"metadata": meta("l"), "spec": {"renewTime": "9999-12-31T23:59:59.000000Z"}});
    assert!(readable::<Lease>(&lease).spec.unwrap().renew_time.is_some());
}

#[test]
fn unambiguous_durations_numbers_and_nulls_are_read() {
    let mut value = pool("p");
    value["spec"]["template"]["spec"]["expireAfter"] = json!("9999999999h");
    value["spec"]["weight"] = json!(5.0);
    value["spec"]["template"]["spec"]["taints"] = Value::Null;
    value["spec"]["disruption"]["budgets"] = json!([null, {"nodes": "1", "schedule": null}]);
    let pool: NodePool = readable(&value);
    assert_eq!(pool.spec.weight, Some(5));
    assert_eq!(pool.spec.disruption.budgets.len(), 1);
    assert_eq!(pool.spec.template.spec.expire_after.get(), Some(dovetail_api::v1::LONGEST));
}

#[test]
fn managed_fields_of_template_are_cut_off_where_refused() {
    let template = json!({"metadata": {"labels": {"a": "b"}, "managedFields": [{"time": "never"}]},
        "spec": {"containers": []}});
    let set = json!({"metadata": meta("d"), "spec": {"selector": {}, "template": template}});
    assert!(readable::<DaemonSet>(&set).spec.is_some());
}

#[test]
fn unreadable_object_is_told_with_metadata_and_asked_facts() {
    let mut value = pod("odd");
    value["spec"]["containers"] = json!("none");
    value["metadata"]["annotations"] = json!({"kept": "x", "odd": {}});
    let unread = read_value::<Pod>(&value).object().unwrap_err();
    assert_eq!((unread.kind.as_str(), unread.api_version.as_str()), ("Pod", "v1"));
    assert_eq!(unread.full_name(), "default/odd");
    assert_eq!(unread.metadata.uid.as_deref(), Some("uid-odd"));
    assert_eq!(unread.metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(unread.metadata.annotations.as_ref().unwrap().len(), 1);
    assert_eq!((unread.facts.node_name.as_str(), unread.facts.phase.as_str()), ("n", "Running"));
    assert!(!unread.why.is_empty() && !unread.why.contains(" at line "), "{}", unread.why);
}

#[test]
fn a_claim_as_v1beta1_has_it_is_known_by_name_and_instance() {
    let mut value = claim("old");
    value["spec"]["nodeClassRef"] = json!({"name": "default"});
    let unread = read_value::<NodeClaim>(&value).object().unwrap_err();
    assert_eq!((unread.full_name().as_str(), unread.facts.provider_id.as_str()), ("default/old", "aws:///a/i-1"));
    assert_eq!(unread.facts.node_class, "default");
    assert!(unread.why.contains("group"), "{}", unread.why);
}

#[test]
fn what_is_nested_too_deeply_elsewhere_is_there_and_not_read() {
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let text = pod("deep").to_string().replace("\"i\"", &deep);
    assert_eq!(read_object::<Pod>(&text).object().unwrap_err().full_name(), "default/deep");
    // Within its metadata as well.
    let text = pod("deep").to_string().replace("\"x\"", &deep);
    let unread = read_object::<Pod>(&text).object().unwrap_err();
    assert_eq!((unread.full_name().as_str(), unread.facts.node_name.as_str()), ("default/deep", "n"));
}

#[test]
fn deletion_at_nonsense_time_still_counts_as_deletion() {
    let mut value = pod("going");
    value["metadata"]["deletionTimestamp"] = json!("soon");
    assert!(read_value::<Pod>(&value).object().unwrap_err().metadata.deletion_timestamp.is_some());
}

/// Values that tests put in place of valid ones.
fn hostile() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!(-1)),
        Just(json!(5.0)),
        Just(json!(5.5)),
        Just(json!(1e300)),
        Just(json!(u64::MAX)),
        Just(json!("")),
        Just(json!(FOREVER)),
        Just(json!("0000-00-00T00:00:00Z")),
        Just(json!("99999999999999999999h")),
        Just(json!("10P")),
        Just(json!("-1")),
        Just(json!([])),
        Just(json!({})),
        Just(json!([null, {"a": [1]}])),
        Just((0..120).fold(json!({}), |inner, _| json!({"x": inner}))),
        ".{0,12}".prop_map(Value::String),
    ]
}

/// Puts something at a place of a value, or under a name of its own.
fn mutate(value: &mut Value, at: &mut dyn Iterator<Item = usize>, new: Value, name: &str) {
    let Some(step) = at.next() else {
        *value = new;
        return;
    };
    match value {
        Value::Object(members) if !members.is_empty() => {
            let step = step % (members.len() + 1);
            match members.keys().nth(step).cloned() {
                Some(key) => mutate(&mut members[&key], at, new, name),
                None => drop(members.insert(name.to_owned(), new)),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let step = step % items.len();
            mutate(&mut items[step], at, new, name);
        }
        other => *other = new,
    }
}

/// The changed object between two others, in a list and in a watch.
fn harms_nobody<K>(good: &dyn Fn(&str) -> Value, changed: &Value)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "9"},
        "items": [good("before"), changed, good("after")]});
    let list: ObjectList<ReadObject<K>> = serde_json::from_str(&list.to_string()).expect("a list is read");
    assert_eq!(list.items.len(), 3);
    for at in [0, 2] {
        assert!(matches!(list.items[at], ReadObject::Object(_)), "{changed}");
    }
    // As API servers write it: first the type.
    let line = format!("{{\"type\":\"MODIFIED\",\"object\":{changed}}}");
    let event: WatchEvent<ReadObject<K>> = serde_json::from_str(&line).expect("an event is read");
    let WatchEvent::Modified(read) = event else { panic!("{line}") };
    if let Some(name) = changed["metadata"]["name"].as_str() {
        assert_eq!(read.meta().name.as_deref(), Some(name), "{changed}");
    }
    if let Some(version) = changed["metadata"]["resourceVersion"].as_str() {
        assert_eq!(read.meta().resource_version.as_deref(), Some(version), "{changed}");
    }
}

fn spec(name: &str, spec: Value) -> Value {
    json!({"metadata": meta(name), "spec": spec})
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn odd_object_never_prevents_reading_others_and_is_known(
        kind in 0usize..15,
        at in prop::collection::vec(0usize..9, 0..7),
        new in hostile(),
        name in prop_oneof![Just("managedFields".to_owned()), Just("status".to_owned()), "[a-z\"\\\\]{0,6}"],
    ) {
        let selector = json!({"matchLabels": {"a": "b"}});
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}});
        let node = |name: &str| json!({"metadata": meta(name), "spec": {"providerID": "p", "taints": [{"key": "k", "effect": "e"}]},
            "status": {"allocatable": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]}});
        let class = |name: &str| spec(name, json!({"role": "r", "amiSelectorTerms": [{"alias": "a@b"}],
            "subnetSelectorTerms": [{"tags": {"a": "b"}}], "securityGroupSelectorTerms": [{"id": "sg-1"}],
            "blockDeviceMappings": [{"deviceName": "d", "ebs": {"volumeSize": "1Gi", "encrypted": true}}]}));
        let set = |name: &str| spec(name, json!({"selector": selector, "template": template, "serviceName": "s"}));
        let budget = |name: &str| spec(name, json!({"selector": selector, "maxUnavailable": 1}));
        let space = |name: &str| json!({"metadata": meta(name)});
        let volume_claim = |name: &str| spec(name, json!({"storageClassName": "s", "volumeName": "v"}));
        let volume = |name: &str| spec(name, json!({"capacity": {"storage": "1Gi"}, "csi": {"driver": "d", "volumeHandle": "h"}}));
        let storage = |name: &str| json!({"metadata": meta(name), "provisioner": "p", "allowedTopologies": [{"matchLabelExpressions": []}]});
        let csi = |name: &str| spec(name, json!({"drivers": [{"name": "d", "nodeID": "i", "allocatable": {"count": 5}}]}));
        let lease = |name: &str| spec(name, json!({"leaseTransitions": 1, "renewTime": "2026-01-01T00:00:00.000000Z"}));
        let attachment = |name: &str| spec(name, json!({"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}));
        macro_rules! one {
            ($kind:ty, $good:expr) => {{
                let good = &$good;
                let mut changed = good("changed");
                mutate(&mut changed, &mut at.iter().copied(), new.clone(), &name);
                harms_nobody::<$kind>(good, &changed);
            }};
        }
        match kind {
            0 => one!(Pod, pod),
            1 => one!(Node, node),
            2 => one!(NodeClaim, claim),
            3 => one!(NodePool, pool),
            4 => one!(EC2NodeClass, class),
            5 => one!(DaemonSet, set),
            6 => one!(PodDisruptionBudget, budget),
            7 => one!(Namespace, space),
            8 => one!(PersistentVolumeClaim, volume_claim),
            9 => one!(PersistentVolume, volume),
            10 => one!(StorageClass, storage),
            11 => one!(CSINode, csi),
            12 => one!(StatefulSet, set),
            13 => one!(Lease, lease),
            _ => one!(VolumeAttachment, attachment),
        }
    }
}

/// Kubernetes 1.36's field of a pod, which its type does not have, is kept as an annotation; other kinds have none.
#[test]
fn group_that_a_pod_names_is_kept() {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    let pod = |spec: &str| {
        let text =
            format!("{{\"metadata\": {{\"name\": \"a\", \"annotations\": {{\"b\": \"c\"}}}}, \"spec\": {spec}}}");
        let read = read_object::<Pod>(&text).object().unwrap();
        read.metadata.annotations.unwrap().remove("dovetail.dev/pod-group")
    };
    let named = r#"{"schedulingGroup": {"podGroupName": "train"}, "containers": []}"#;
    assert_eq!(pod(named).as_deref(), Some("train"));
    for other in [r#"{"containers": [{"name": "schedulingGroup"}]}"#, r#"{"schedulingGroup": {}, "containers": []}"#] {
        assert_eq!(pod(other), None, "{other}");
    }
    let map = r#"{"metadata": {"name": "a"}, "spec": {"schedulingGroup": {"podGroupName": "train"}}}"#;
    assert_eq!(read_object::<ConfigMap>(map).object().unwrap().metadata.annotations, None);
}
