//! Whole objects of every kind that is watched or listed, every field of them driven to the edge and beyond: the reader never
//! panics, the others of a list are read whatever one of them is like, and what cannot be read is named. What can be read goes
//! on into the cluster's state, which never panics either. Bounded in cases, not in time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

use dovetail_actors::reading::{ReadObject, read_object, report};
use dovetail_api::schema;
use dovetail_api::v1::{EC2NodeClass, NodeClaim, NodePool};
use dovetail_core::cluster_state::{ClusterState, KeptFacts, WatchedKind};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use kube::Resource;
use kube::core::{ObjectList, WatchEvent};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Depth limit of a sample.
const DEEPEST: usize = 12;

/// An object of a schema with a value in every field.
fn sample(schema: &Value, root: &Value, name: &str, depth: usize) -> Value {
    if let Some(path) = schema["$ref"].as_str() {
        if path.ends_with("Quantity") {
            return json!("1");
        }
        return sample(root.pointer(path.trim_start_matches('#')).unwrap_or(&Value::Null), root, name, depth);
    }
    for any in ["anyOf", "oneOf", "allOf"] {
        let one = schema[any]
            .as_array()
            .into_iter()
            .flatten()
            .find(|one| one["type"] != "null" && !one["required"].is_array());
        if let (Some(one), true) = (one, schema["properties"].is_null()) {
            return sample(one, root, name, depth);
        }
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or_default(),
        kind => kind.as_str().unwrap_or_default(),
    };
    match kind {
        "object" if depth < DEEPEST => {
            let mut all = Map::new();
            for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
                let value = sample(inner, root, name, depth + 1);
                all.extend((!value.is_null()).then(|| (name.clone(), value)));
            }
            if schema["additionalProperties"].is_object() {
                all.insert("key".to_owned(), sample(&schema["additionalProperties"], root, "", depth + 1));
            }
            Value::Object(all)
        }
        "object" => json!({}),
        "array" if depth < DEEPEST => json!([sample(&schema["items"], root, name, depth + 1)]),
        "array" => json!([]),
        "integer" | "number" => json!(1),
        "boolean" => json!(true),
        "string" => json!(text(schema, name)),
        _ => Value::Null,
    }
}

/// A text that a field takes.
fn text(schema: &Value, name: &str) -> String {
    let known = schema["enum"].as_array().and_then(|all| all.iter().filter_map(Value::as_str).next_back());
    let text = match (known, schema["format"].as_str().unwrap_or_default(), name) {
        (Some(known), ..) => known,
        (_, "date-time", _) => "2026-01-01T00:00:00Z",
        (_, "byte", _) => "eA==",
        (.., "expireAfter" | "terminationGracePeriod" | "consolidateAfter" | "duration") => "1h",
        (.., "cpuCFSQuotaPeriod" | "imageMaximumGCAge" | "imageMinimumGCAge") => "1m",
        (.., "volumeSize") => "20Gi",
        // A field of the claims that StatefulSets carry.
        (.., "apiVersion") => "v1",
        (.., "kind") => "PersistentVolumeClaim",
        _ => "x",
    };
    text.to_owned()
}

/// An object with a value in every field, of that name.
fn full<K: Resource<DynamicType = ()>>() -> Value {
    let (version, kind) = (K::api_version(&()), K::kind(&()));
    let schema = schema::written(&version, &kind).unwrap_or_else(|| panic!("{kind} has a schema"));
    let mut object = sample(&schema, &schema, "", 0);
    (object["apiVersion"], object["kind"]) = (json!(version), json!(kind));
    let labels = json!({"karpenter.sh/nodepool": "default", "app": "web"});
    let metadata = json!({"name": "changed", "namespace": "default", "uid": "uid-changed", "resourceVersion": "7",
        "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels, "annotations": {
            "karpenter.sh/do-not-disrupt": "true", "dovetail.dev/launched-for": "a:1,b", "dovetail.dev/term": "1",
            "dovetail.dev/unused-launches": "{\"version\": 1, \"workloads\": [], \"daemons\": []}",
            "dovetail.dev/observed-allocatable": "{}", "dovetail.dev/launch-token": "t"},
        "finalizers": ["karpenter.sh/termination"],
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}],
        "managedFields": [{"manager": "m", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}}}]});
    object["metadata"] = metadata;
    object
}

/// One that is as plain as can be, beside it.
fn plain(full: &Value, name: &str) -> Value {
    let mut object = full.clone();
    object["metadata"] =
        json!({"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "7"});
    object
}

/// JSON pointers to every place of a value, itself last.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(key, inner)| {
                places(inner, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            });
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, inner)| places(inner, &format!("{at}/{n}"), found))
        }
        _ => {}
    }
    found.push(at.to_owned());
}

/// Texts of JSON that are put where something else stood; some of them no `Value` can hold.
#[allow(clippy::too_many_lines)] // one table, or one course from beginning to end
fn hostile() -> Vec<String> {
    let texts = [
        "",
        "x\u{0}y",
        "NoSuchValue",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59.999999999+14:00",
        "0000-00-00T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "-9999-01-01T00:00:00Z",
        "2026-02-30T25:61:61Z",
        "2562048h",
        "99999999999999999999h",
        "-1h",
        "1ns",
        "-9223372036854775808ns",
        "10P",
        "-1",
        "9223372036854775808",
        "1e999999999",
        "-1e-999999999",
        "1Zi",
        "1n",
        "0x10",
        "+.5e",
        "101%",
        "-1%",
        "99999999999999999999%",
        "/",
        "a/b/c",
        "*",
    ];
    let numbers = [
        "null",
        "true",
        "false",
        "-1",
        "0",
        "5.0",
        "5.5",
        "1e300",
        "1e400",
        "-1e400",
        "1e-400",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "99999999999999999999999999999",
        "[]",
        "{}",
        "[null]",
        "[null,{\"a\":[1]}]",
        "[[]]",
        "{\"a\":1,\"a\":2}",
        "{\"\":{}}",
        "{\"x\":null}",
        "\"\\ud800\"",
    ];
    let mut all: Vec<String> = texts.iter().map(|text| json!(text).to_string()).collect();
    all.extend(numbers.map(str::to_owned));
    all.push(json!("x".repeat(70_000)).to_string());
    for (open, close) in [("[", "]"), ("{\"x\":", "}")] {
        for depth in [100, 126, 127, 128, 129, 5000] {
            all.push(format!("{}0{}", open.repeat(depth), close.repeat(depth)));
        }
    }
    all.push(format!("[{}0]", "0,".repeat(2000)));
    all
}

/// The object's text with a text in a place of it.
fn with(object: &Value, place: &str, text: &str) -> String {
    const HERE: &str = "\u{1}here\u{1}";
    let mut object = object.clone();
    if let Some(value) = object.pointer_mut(place) {
        *value = json!(HERE);
    }
    object.to_string().replacen(&json!(HERE).to_string(), text, 1)
}

/// Metadata that identifies an object: its name, namespace and version.
const NAMES: [(&str, &str); 3] = [("name", "changed"), ("namespace", "default"), ("resourceVersion", "7")];

/// The object, changed at a place, between two others in a list, and in a watch. Answers how it was read.
fn harms_nobody<K>(plain: &dyn Fn(&str) -> Value, changed: &str, place: &str) -> ReadObject<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let shown: String = changed.chars().take(400).collect();
    let (before, after) = (plain("before"), plain("after"));
    let list = format!(
        "{{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"9\"}},\"items\":[{before},{changed},{after}]}}"
    );
    let list: ObjectList<ReadObject<K>> =
        serde_json::from_str(&list).unwrap_or_else(|why| panic!("a list is read: {why}: {shown}"));
    assert_eq!(list.items.len(), 3);
    for (at, name) in [(0, "before"), (2, "after")] {
        assert!(
            matches!(&list.items[at], ReadObject::Object(one) if one.meta().name.as_deref() == Some(name)),
            "{shown}"
        );
    }
    let line = format!("{{\"type\":\"MODIFIED\",\"object\":{changed}}}");
    let event: WatchEvent<ReadObject<K>> =
        serde_json::from_str(&line).unwrap_or_else(|why| panic!("an event is read: {why}: {shown}"));
    let WatchEvent::Modified(read) = event else { panic!("{shown}") };
    let meta = read.meta();
    let known = [&meta.name, &meta.namespace, &meta.resource_version];
    for ((name, text), known) in NAMES.iter().zip(known) {
        let other = place == "/metadata" || place.starts_with(&format!("/metadata/{name}"));
        assert!(other || known.as_deref() == Some(text), "metadata.{name} is {known:?}, with {place} changed: {shown}");
    }
    if let ReadObject::Unreadable(unread) = &read {
        assert_eq!((unread.kind.as_str(), unread.api_version.as_str()), (&*K::kind(&()), &*K::api_version(&())));
        assert!(!unread.why.is_empty() && unread.why.len() < 2000 && !unread.why.contains('\n'), "{:?}", unread.why);
        let _ = report::event(unread);
    }
    read
}

/// Takes what was read into a cluster's state beside others.
type Keep<K> = fn(&mut ClusterState, K);

/// A kind under test.
struct Tried<K> {
    full: Value,
    kind: Option<WatchedKind>,
    keep: Keep<K>,
}

impl<K> Tried<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    fn new(kind: Option<WatchedKind>, keep: Keep<K>) -> Self {
        let full = full::<K>();
        let whole = read_object::<K>(&full.to_string())
            .object()
            .unwrap_or_else(|unread| panic!("{}: {}", unread.kind, unread.why));
        keep(&mut ClusterState::new(), whole);
        Self { full, kind, keep }
    }

    fn places(&self) -> Vec<String> {
        let mut found = Vec::new();
        places(&self.full, "", &mut found);
        found.retain(|place| !place.is_empty());
        found
    }

    fn try_one(&self, place: &str, text: &str) {
        let changed = with(&self.full, place, text);
        let read = harms_nobody::<K>(&|name| plain(&self.full, name), &changed, place);
        let mut state = ClusterState::new();
        match (read, self.kind) {
            (ReadObject::Object(object), _) => (self.keep)(&mut state, object),
            (ReadObject::Unreadable(unread), Some(kind)) => drop(state.apply_unreadable(kind, *unread)),
            (ReadObject::Unreadable(_), None) => {}
        }
        let _ = state.snapshot();
    }
}

/// Nothing of it is kept.
fn nothing<K>(_: &mut ClusterState, _: K) {}

fn stored<K: KeptFacts>(state: &mut ClusterState, object: K) {
    state.apply(&object);
}

macro_rules! every_kind {
    ($do:ident) => {
        $do! {
            Pod: Some(WatchedKind::Pod), |state, pod| { let _ = state.apply_pod(&pod); };
            Node: Some(WatchedKind::Node), |state, node| { let _ = state.apply_node(&node); };
            NodeClaim: Some(WatchedKind::NodeClaim), |state, claim| { let _ = state.apply_claim(Arc::new(claim)); };
            NodePool: Some(WatchedKind::NodePool), |state, pool| { let _ = state.apply_pool(pool); };
            EC2NodeClass: Some(WatchedKind::NodeClass), |state, class| { let _ = state.apply_class(class); };
            DaemonSet: Some(WatchedKind::DaemonSet), |state, set| state.apply_daemon_set(set);
            PodDisruptionBudget: Some(WatchedKind::PodDisruptionBudget), |state, budget| state.apply_budget(budget);
            Namespace: Some(WatchedKind::Namespace), stored;
            PersistentVolumeClaim: Some(WatchedKind::PersistentVolumeClaim), stored;
            PersistentVolume: Some(WatchedKind::PersistentVolume), stored;
            StorageClass: Some(WatchedKind::StorageClass), stored;
            CSINode: Some(WatchedKind::CsiNode), stored;
            StatefulSet: Some(WatchedKind::StatefulSet), stored;
            LimitRange: Some(WatchedKind::LimitRange), stored;
            RuntimeClass: Some(WatchedKind::RuntimeClass), stored;
            Service: Some(WatchedKind::Service), stored;
            ReplicaSet: Some(WatchedKind::ReplicaSet), stored;
            ReplicationController: Some(WatchedKind::ReplicationController), stored;
            Lease: None, nothing;
            VolumeAttachment: None, nothing;
            Deployment: None, nothing;
        }
    };
}

/// Templates of pods are what pods are: they are swept once.
const TEMPLATE: &str = "/spec/template/spec/";

#[test]
fn field_at_the_edge_of_any_kind_costs_nobody_else_anything() {
    let hostile = hostile();
    let mut turn = 0;
    macro_rules! sweep {
        ($($kind:ty: $of:expr, $keep:expr;)*) => {$(
            let tried = Tried::<$kind>::new($of, $keep);
            let places = tried.places();
            assert!(places.len() > 12, "{}", places.len());
            for place in places.iter().filter(|place| !place.starts_with(TEMPLATE)) {
                // One after the other: a field gets three of them, and all are had many times over.
                for _ in 0..3 {
                    tried.try_one(place, &hostile[turn % hostile.len()]);
                    turn += 1;
                }
            }
        )*};
    }
    every_kind!(sweep);
    assert!(turn > 5000, "{turn}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Draws a kind, a place in it or in its template, and a value to put there.
    #[test]
    fn whatever_stands_anywhere_in_an_object_the_others_are_read(place in any::<prop::sample::Index>(), of in any::<prop::sample::Index>(),
        other in prop_oneof![3 => Just(String::new()), 1 => "\\PC{0,20}"]) {
        let hostile = hostile();
        let text = if other.is_empty() { hostile[of.index(hostile.len())].clone() } else { json!(other).to_string() };
        macro_rules! draw {
            ($($kind:ty: $of:expr, $keep:expr;)*) => {$({
                static TRIED: LazyLock<(Tried<$kind>, Vec<String>)> = LazyLock::new(|| {
                    let tried = Tried::<$kind>::new($of, $keep);
                    let places = tried.places();
                    (tried, places)
                });
                let (tried, places) = &*TRIED;
                tried.try_one(&places[place.index(places.len())], &text);
            })*};
        }
        every_kind!(draw);
    }
}
