//! The fence in the embedded API server: the policy that the Helm chart makes, bound to the Lease of this world's replicas.

use std::collections::BTreeMap;

use dovetail_input::Failure;
use dovetail_sandbox::apiserver::{ApiServer, Gvr};
use serde_json::{Value, json};

const GROUP: &str = "admissionregistration.k8s.io";
const NAME: &str = "dovetail-fence";
/// The chart's.
const POLICY: &str = include_str!("../../../../deploy/helm/dovetail/files/fence.yaml");

/// Creates policy and binding; `settings` are the replicas'.
pub fn install(api: &ApiServer, settings: &BTreeMap<String, String>) -> Result<(), Failure> {
    if settings.get("DISABLE_LEADER_ELECTION").is_some_and(|text| text == "true") {
        return Ok(());
    }
    let setting = |names: &[&str], otherwise: &str| {
        let given = names.iter().find_map(|name| settings.get(*name).filter(|text| !text.is_empty()));
        given.cloned().unwrap_or_else(|| otherwise.to_owned())
    };
    let system = |why: String| Failure::System(format!("the fence: {why}"));
    let spec: Value = serde_saphyr::from_str(POLICY).map_err(|why| system(why.to_string()))?;
    let binding = json!({
        "policyName": NAME,
        "validationActions": ["Deny"],
        "paramRef": {
            "name": setting(&["LEADER_ELECTION_NAME"], dovetail_api::names::LEASE_NAME),
            "namespace": setting(&["LEADER_ELECTION_NAMESPACE", "SYSTEM_NAMESPACE"], "kube-system"),
            "parameterNotFoundAction": "Allow",
        },
    });
    for (plural, spec) in [("validatingadmissionpolicies", spec), ("validatingadmissionpolicybindings", binding)] {
        let object = json!({"metadata": {"name": NAME}, "spec": spec});
        api.create(&Gvr::new(GROUP, "v1", plural), "", object).map_err(|why| system(why.to_string()))?;
    }
    Ok(())
}
