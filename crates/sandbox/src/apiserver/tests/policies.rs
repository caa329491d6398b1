//! Admission policies: the fence, as the chart has it.
use super::*;
use crate::apiserver::{Gvr, LEASES};

const POLICY: &str = include_str!("../../../../../deploy/helm/dovetail/files/fence.yaml");
const CLAIMS: Gvr = Gvr::from_static("karpenter.sh", "v1", "nodeclaims");

/// A server with the fence, and a Lease in this term if there is one.
fn fenced(term: Option<u64>) -> ApiServer {
    let server = test_server();
    let crds = Gvr::from_static("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    for crd in dovetail_api::crds::crds() {
        let mut value = serde_json::to_value(&crd).unwrap();
        value["apiVersion"] = json!("apiextensions.k8s.io/v1");
        value["kind"] = json!("CustomResourceDefinition");
        server.create(&crds, "", value).unwrap();
    }
    let spec: Value = serde_saphyr::from_str(POLICY).unwrap();
    let group = |plural| Gvr::new("admissionregistration.k8s.io", "v1", plural);
    let policy = json!({"metadata": {"name": "fence"}, "spec": spec});
    server.create(&group("validatingadmissionpolicies"), "", policy).unwrap();
    let binding = json!({"metadata": {"name": "fence"}, "spec": {
        "policyName": "fence", "validationActions": ["Deny"],
        "paramRef": {"name": "leader", "namespace": "kube-system", "parameterNotFoundAction": "Allow"}}});
    server.create(&group("validatingadmissionpolicybindings"), "", binding).unwrap();
    if let Some(term) = term {
        let lease = json!({"metadata": {"name": "leader"}, "spec": {"leaseTransitions": term, "holderIdentity": "a"}});
        server.create(&LEASES, "kube-system", lease).unwrap();
    }
    server
}

fn claim(name: &str, annotations: Value) -> Value {
    json!({"metadata": {"name": name, "annotations": annotations}, "spec": {"expireAfter": "Never", "requirements": [],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}})
}

fn of_term(term: &str) -> Value {
    json!({"dovetail.dev/term": term})
}

#[test]
fn claim_of_the_leases_term_passes_and_other_terms_are_refused() {
    let server = fenced(Some(4));
    server.create(&CLAIMS, "", claim("now", of_term("4"))).unwrap();
    for other in ["3", "5", ""] {
        let refused = server.create(&CLAIMS, "", claim("other", of_term(other))).unwrap_err();
        assert_eq!((refused.code(), refused.reason()), (403, "Forbidden"));
        let said = refused.to_string();
        assert!(said.ends_with(&format!("dovetail.dev/term is {other}, the Lease's is 4")), "{said}");
        assert!(said.contains("ValidatingAdmissionPolicy 'fence' with binding 'fence' denied request"), "{said}");
    }
    server.create(&CLAIMS, "", claim("nobody-s", json!({}))).unwrap();
}

#[test]
fn successor_takes_claim_over_and_old_leader_cannot_launch_it() {
    let server = fenced(Some(1));
    let with = |term: &str, token: &str| {
        json!({"metadata": {"annotations":
        {"dovetail.dev/term": term, "dovetail.dev/launch-token": token}}})
    };
    server.create(&CLAIMS, "", claim("one", of_term("1"))).unwrap();
    server.patch(&CLAIMS, "", "one", &with("1", "a-1")).unwrap();
    server.patch(&LEASES, "kube-system", "leader", &json!({"spec": {"leaseTransitions": 2}})).unwrap();
    assert_eq!(
        server.patch(&CLAIMS, "", "one", &with("1", "a-2")).unwrap_err().code(),
        403,
        "a new token, an old term"
    );
    server.patch(&CLAIMS, "", "one", &json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
    server.patch(&CLAIMS, "", "one", &with("2", "a-2")).unwrap();
    assert_eq!(server.patch(&CLAIMS, "", "one", &with("1", "a-2")).unwrap_err().code(), 403, "back to the old term");
    server.patch_status(&CLAIMS, "", "one", &json!({"status": {"nodeName": "n"}})).unwrap();
    server.delete(&CLAIMS, "", "one", &super::super::DeleteOptions::default()).unwrap();
}

#[test]
fn without_a_lease_or_a_binding_nothing_is_refused() {
    fenced(None).create(&CLAIMS, "", claim("one", of_term("9"))).unwrap();
    let server = fenced(Some(4));
    let bindings = Gvr::from_static("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings");
    server.delete(&bindings, "", "fence", &super::super::DeleteOptions::default()).unwrap();
    server.create(&CLAIMS, "", claim("one", of_term("9"))).unwrap();
}
