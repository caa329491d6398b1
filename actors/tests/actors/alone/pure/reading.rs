//! Objects from the API server, read one by one: texts that users write, of any depth and any kind.

use dovetail_actors::kube::failure::{FailureKind, KubeFailure};
use dovetail_actors::reading::{ReadObject, read_object, without_managed_fields};
use dovetail_api::v1::NodePool;
use k8s_openapi::api::core::v1::Pod;
use kube::core::Status;
use proptest::prelude::*;
use serde_json::{Value, json};

fn pod(more: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "uid": "1"},
        "spec": {"containers": [{"name": "main", "image": "pause"}]}});
    pod.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    pod
}

#[test]
fn managed_fields_are_cut_off_however_deep_and_nothing_else() {
    let before = pod(&json!({"status": {"message": "\"managedFields\": [1] stays in a text"}}));
    for depth in [0, 1, 200, 20_000] {
        let deep = format!("{}{{}}{}", "{\"f:a\":".repeat(depth), "}".repeat(depth));
        let text = before.to_string().replacen(
            "\"metadata\":{",
            &format!("\"metadata\":{{\"managedFields\":[{{\"fieldsV1\":{deep}}}],"),
            1,
        );
        let cut: Value = serde_json::from_str(&without_managed_fields(&text)).unwrap();
        assert!(cut["metadata"]["managedFields"].is_null() || cut["metadata"]["managedFields"] == json!([]), "{depth}");
        assert_eq!((&cut["status"], &cut["metadata"]["name"]), (&before["status"], &before["metadata"]["name"]));
    }
}

#[test]
fn object_refused_by_its_type_is_known_by_name_uid_and_reason() {
    for more in [
        json!({"spec": 5}),
        json!({"spec": {"containers": "none"}}),
        json!({"spec": {"containers": [], "priority": "high"}}),
        json!({"status": {"conditions": {"Ready": true}}}),
    ] {
        let ReadObject::Unreadable(odd) = read_object::<Pod>(&pod(&more).to_string()) else { panic!("{more} is read") };
        assert_eq!((odd.metadata.name.as_deref(), odd.metadata.uid.as_deref()), (Some("web"), Some("1")), "{more}");
        assert!(!odd.why.is_empty() && odd.why.len() < 2000, "{more}: {}", odd.why);
    }
}

#[test]
fn texts_that_are_no_objects_are_no_objects() {
    for text in ["", "null", "[]", "5", "\"a\"", "{", "{\"metadata\": 7}", "{\"metadata\": {\"name\": 5}}", "nonsense"]
    {
        assert!(matches!(read_object::<Pod>(text), ReadObject::Unreadable(_) | ReadObject::Object(_)), "{text}");
        let _ = without_managed_fields(text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A user may write any JSON anywhere in a custom resource that a CRD lets through.
    #[test]
    fn any_value_in_any_field_is_read_or_told(field in "(spec|status|metadata|kind|apiVersion|x)", value in any_json()) {
        let mut pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default", "uid": "1"},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}}});
        pool[field] = value;
        match read_object::<NodePool>(&pool.to_string()) {
            ReadObject::Object(_) => {}
            ReadObject::Unreadable(odd) => prop_assert!(!odd.why.is_empty()),
        }
    }

    /// To cut is to leave an object that was sound as it was.
    #[test]
    fn cutting_changes_no_object_without_them(value in any_json()) {
        let object = json!({"metadata": {"name": "a"}, "spec": value});
        let cut: Value = serde_json::from_str(&without_managed_fields(&object.to_string())).unwrap();
        prop_assert_eq!(cut, object);
    }

    #[test]
    fn no_text_makes_cutting_panic(text in "[{}\\[\\]\":,a-z0-9\\\\ ]{0,120}") {
        let _ = without_managed_fields(&text);
    }

    /// Every answer of an API server has a kind; nothing that is a fault of the server is the object's.
    #[test]
    fn every_status_is_classified(code in 100_u16..1100, reason in "[A-Za-z]{0,16}", message in "\\PC{0,60}") {
        let failure = KubeFailure::from(kube::Error::Api(Box::new(Status::failure(&message, &reason).with_code(code))));
        if code >= 500 && !message.contains("PodDisruptionBudget") {
            prop_assert_eq!(failure.kind, FailureKind::Away);
        }
        if failure.kind == FailureKind::Missing {
            prop_assert!(code == 404 || code == 410);
        }
        if failure.kind == FailureKind::Succeeded {
            prop_assert!(code == 403);
        }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z]{1,8}", inner, 0..4).prop_map(Value::from_iter),
        ]
    })
}
