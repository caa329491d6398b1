//! Bodies as kubectl's typed clients write them.
#![allow(clippy::unwrap_used)]
use super::*;

/// A field with bytes: a text or a message.
fn with(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    field.extend_from_slice(bytes);
    field
}

fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn body(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [with(1, version.as_bytes()), with(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), with(1, &meta), with(2, raw), with(3, b""), with(4, b"")].concat()
}

#[test]
fn a_deployment_is_read_as_its_json_would_be() {
    let requests = with(2, &[with(1, b"cpu"), with(2, &with(1, b"250m"))].concat());
    let port = [with(1, b"web"), number(2, 0), number(3, 80), with(4, b"TCP"), with(5, b"")].concat();
    let container = [with(1, b"main"), with(2, b"nginx"), with(6, &port), with(8, &requests)].concat();
    let volume = [with(1, b"tmp"), with(2, &with(2, &with(1, b"")))].concat();
    let pod = [with(1, &volume), with(2, &container), number(4, 0)].concat();
    let labels = with(11, &[with(1, b"app"), with(2, b"web")].concat());
    let template = [with(1, &[with(1, b""), with(8, b""), labels].concat()), with(2, &pod)].concat();
    let spec = [number(1, 0), with(3, &template), with(4, &with(1, b"")), number(5, 0)].concat();
    let raw = [with(1, &with(1, b"web")), with(2, &spec), with(3, b"")].concat();
    let read = decode_body(&body("apps/v1", "Deployment", &raw)).unwrap();
    let expected = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "status": {},
        "spec": {"replicas": 0, "strategy": {}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
            "terminationGracePeriodSeconds": 0, "volumes": [{"name": "tmp", "emptyDir": {}}],
            "containers": [{"name": "main", "image": "nginx", "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "250m"}}}]}}}});
    assert_eq!(read, expected);
}

#[test]
fn what_is_broken_off_or_unknown_is_refused() {
    let good = body("v1", "ConfigMap", &with(1, &with(1, b"a")));
    assert_eq!(decode_body(&good).unwrap()["metadata"]["name"], "a");
    for end in 1..good.len() - 4 {
        // Cut anywhere it is refused or, between two fields, shorter; it never panics.
        let _ = decode_body(&good[..end]);
    }
    assert_eq!(decode_body(b"k8s\0\xff").unwrap_err().code(), 400);
    assert_eq!(decode_body(b"{}").unwrap_err().code(), 400);
    assert_eq!(decode_body(&body("example.com/v1", "Thing", b"")).unwrap_err().code(), 415);
    let deep = (0..100).fold(Vec::new(), |inner, _| with(4, &inner[inner.len().saturating_sub(60)..]));
    let _ = decode_body(&body("apiextensions.k8s.io/v1", "JSONSchemaProps", &deep));
}

#[test]
fn every_type_that_a_field_names_is_there() {
    let scalars = ["bool", "bytes", "double", "int32", "int64", "string", "uint32", "uint64"];
    let missing: Vec<&str> = MESSAGES
        .values()
        .flat_map(BTreeMap::values)
        .map(|field| field.kind)
        .filter(|kind| !scalars.contains(kind) && !MESSAGES.contains_key(kind))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
