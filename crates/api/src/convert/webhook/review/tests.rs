use super::*;

fn pool(version: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("karpenter.sh/{version}"), "kind": "NodePool",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"a": "b"}}, "spec": spec})
}

/// The response to a review of objects' texts.
fn response(to: &str, objects: &[String]) -> Value {
    let review = format!(
        r#"{{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{{"uid":"u",
        "desiredAPIVersion":"karpenter.sh/{to}","objects":[{}]}}}}"#,
        objects.join(",")
    );
    let answer = reply(review.as_bytes()).unwrap();
    let mut reader = serde_json::Deserializer::from_slice(&answer);
    reader.disable_recursion_limit();
    let answer = <Value as serde::Deserialize>::deserialize(&mut reader).unwrap();
    assert_eq!((&answer["kind"], &answer["response"]["uid"]), (&json!(KIND), &json!("u")));
    answer["response"].clone()
}

fn failure(response: &Value) -> &str {
    assert_eq!((&response["result"]["status"], &response["convertedObjects"]), (&json!("Failure"), &json!([])));
    response["result"]["message"].as_str().unwrap()
}

#[test]
fn review_is_answered_by_its_uid_and_foreign_object_is_named() {
    let one = pool("v1beta1", "one", &json!({"weight": 1})).to_string();
    let answer = response("v1", std::slice::from_ref(&one));
    assert_eq!(answer["result"]["status"], "Success");
    assert_eq!(answer["convertedObjects"][0], pool("v1", "one", &json!({"weight": 1})));
    let other = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}).to_string();
    let refused = response("v1", &[one, other]);
    assert!(failure(&refused).starts_with("x: example.com/v1 Thing cannot be converted; allowed: "), "{refused}");
    assert!(failure(&response("v1", &["7".into()])).contains("cannot be converted"));
    assert!(failure(&response("v2", &[])).contains("\"karpenter.sh/v2\" is none of ours"));
    assert!(failure(&response("v1", &vec!["0".to_owned(); 10_001])).contains("10001 objects; allowed: 10000"));
}

#[test]
fn non_review_body_is_told_its_fault() {
    for (body, said) in [
        (&b"\xff{"[..], "no JSON"),
        (b"[]", "allowed: apiextensions.k8s.io/v1 ConversionReview"),
        (br#"{"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "ConversionReview"}"#, "v1beta1"),
        (br#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}"#, "request.uid"),
        (br#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": 3}"#, "request.uid"),
    ] {
        let why = reply(body).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
    let review =
        br#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"karpenter.sh/v1"}}"#;
    let answer: Value = serde_json::from_slice(&reply(review).unwrap()).unwrap();
    assert!(failure(&answer["response"]).contains("request.objects is no list"));
}

fn nested(levels: usize) -> String {
    format!("{}1{}", "{\"f:a\":".repeat(levels), "}".repeat(levels))
}

#[test]
fn deep_managed_fields_and_status_go_through_as_they_came() {
    let with = |version: &str| {
        let deep = nested(500);
        format!(
            r#"{{"apiVersion":"karpenter.sh/{version}","kind":"NodePool","metadata":{{"name":"deep","managedFields":[{deep}]}},
            "spec":{{"weight":3}},"status":{deep}}}"#
        )
    };
    for (from, to) in [("v1", "v1beta1"), ("v1beta1", "v1")] {
        let plain = pool(from, "plain", &json!({"weight": 1})).to_string();
        let answer = response(to, &[plain, with(from)]);
        assert_eq!(answer["result"]["status"], "Success");
        let deep = &answer["convertedObjects"][1];
        assert_eq!((&deep["apiVersion"], &deep["spec"]), (&json!(format!("karpenter.sh/{to}")), &json!({"weight": 3})));
        assert_eq!(deep["metadata"]["managedFields"][0].to_string(), nested(500));
        assert_eq!(deep["status"].to_string(), nested(500));
    }
}

#[test]
fn unreadable_object_of_a_list_is_answered_without_its_spec() {
    let heavy = format!("{{\"list\":[{}0]}}", "{\"\":0},".repeat(20_000));
    for (spec, said) in [(nested(130), "130 levels deep"), (heavy, "its values take")] {
        for (from, to, alone) in [("v1", "v1beta1", true), ("v1beta1", "v1", false)] {
            let plain = pool(from, "plain", &json!({"weight": 1})).to_string();
            let bad = format!(
                r#"{{"apiVersion":"karpenter.sh/{from}","kind":"NodePool",
                "metadata":{{"name":"bad","uid":"3","namespace":"x","annotations":{{"mine":"1"}}}},"spec":{spec}}}"#
            );
            let answer = response(to, &[plain.clone(), bad.clone(), plain]);
            let objects = answer["convertedObjects"].as_array().unwrap();
            assert_eq!((objects.len(), &objects[2]), (3, &pool(to, "plain", &json!({"weight": 1}))));
            let note = objects[1]["metadata"]["annotations"][annotations::NOT_CONVERTED].as_str().unwrap();
            assert!(note.starts_with("its spec cannot be converted: it") && note.contains(said), "{note}");
            let metadata =
                json!({"name": "bad", "uid": "3", "namespace": "x", "annotations": {annotations::NOT_CONVERTED: note}});
            let kept = json!({"apiVersion": format!("karpenter.sh/{to}"), "kind": "NodePool", "metadata": metadata});
            assert_eq!(objects[1], kept, "as an API server holds it against the original");
            // Alone it may be on its way into the store, where v1 is kept.
            let single = response(to, std::slice::from_ref(&bad));
            assert_eq!(single["result"]["status"] == "Success", alone, "{single}");
            assert!(alone || failure(&single).starts_with("bad: its spec cannot be converted"));
            // An object that is shown without its spec is never stored so.
            let back = response("v1", &[objects[1].to_string()]);
            assert!(!alone || failure(&back).contains("is not written in it: use v1"), "{back}");
        }
    }
}

#[test]
fn annotations_an_api_server_would_refuse_are_no_answer() {
    let labels: Map<String, Value> = (0..2_000).map(|n| (format!("label-{n}"), json!("x".repeat(120)))).collect();
    let spec =
        json!({"template": {"metadata": {"annotations": labels}}, "disruption": {"consolidationPolicy": "Balanced"}});
    let answer = response("v1beta1", &[pool("v1", "large", &spec).to_string()]);
    let note = &answer["convertedObjects"][0]["metadata"]["annotations"][annotations::NOT_CONVERTED];
    assert!(note.as_str().unwrap().contains("256 KiB"), "{note}");
}

#[test]
fn answer_is_as_large_as_promised_at_most() {
    // An original of quotes alone is escaped once more in the annotation.
    let quotes = "\\\"".repeat(50_000);
    let text = format!(
        r#"{{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{{"name":"q"}},"spec":{{"replicas":1,"template":{{"metadata":{{"annotations":{{"q":"{quotes}"}}}}}}}}}}"#
    );
    let sent = text.len();
    let answer = response("v1beta1", &[text]);
    assert!(answer.to_string().len() <= ANSWER_TIMES * sent + ANSWER_LEAST);
    assert!(answer["result"]["status"] == "Success", "{answer}");
}
