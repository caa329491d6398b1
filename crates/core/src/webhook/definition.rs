//! Changes to a CustomResourceDefinition so that v1beta1 is served and converted, and the point from which no object is
//! stored as v1beta1 any more. v1 stays the stored version: such objects are read without the webhook.

use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, ServiceReference, WebhookClientConfig, WebhookConversion,
};
use serde_json::{Value, json};

pub const STORED: &str = "v1";
/// The version that is converted.
pub const OLDER: &str = "v1beta1";
/// Path of the webhook, behind the Service.
pub const PATH: &str = "/convert";

/// The address at which an API server reaches the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAddress {
    /// By a Service, on port 443.
    Service {
        /// Namespace of the Service; an API server finds it by this and its name.
        namespace: String,
        /// Name of the Service.
        name: String,
    },
    /// By a URL, for a control plane that reaches no Services.
    Url(String),
}

impl WebhookAddress {
    /// The names that a certificate has to have.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Service { namespace, name } => vec![format!("{name}.{namespace}.svc")],
            Self::Url(url) => host(url).into_iter().map(str::to_owned).collect(),
        }
    }
}

/// The host of a URL, without brackets and port.
fn host(url: &str) -> Option<&str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split_once(']')?.0,
        None => authority.split_once(':').map_or(authority, |(host, _)| host),
    };
    Some(host).filter(|host| !host.is_empty())
}

#[derive(Clone, Debug, PartialEq)]
pub enum DefinitionVerdict {
    /// No change: it serves v1beta1, converted here, and trusts the right authorities.
    AsWanted,
    /// Apply this JSON patch.
    Patch(Value),
    /// Nothing can be done, for this reason.
    Not(String),
}

/// Compares a definition with the webhook's address and the authorities to be trusted.
pub fn judge(found: &CustomResourceDefinition, place: &WebhookAddress, bundle: &str) -> DefinitionVerdict {
    const REMEDY: &str = "install ours: dovetail crds | kubectl apply --server-side --force-conflicts -f -";
    let version = |name: &str| found.spec.versions.iter().position(|one| one.name == name);
    let stored = found.spec.versions.iter().find(|one| one.storage).map_or("none", |one| one.name.as_str());
    if stored != STORED {
        return DefinitionVerdict::Not(format!("the version that it stores is {stored}, not {STORED}; {REMEDY}"));
    }
    let Some(older) = version(OLDER) else {
        return DefinitionVerdict::Not(format!("it has no version {OLDER}; {REMEDY}"));
    };
    let wanted = conversion(place, bundle);
    let mut patch = vec![json!({
        "op": "replace", "path": "/metadata/resourceVersion", "value": found.metadata.resource_version,
    })];
    if found.spec.conversion.as_ref().map(comparable) != Some(comparable(&wanted)) {
        patch.push(json!({"op": "add", "path": "/spec/conversion", "value": wanted}));
    }
    if !found.spec.versions.get(older).is_some_and(|one| one.served) {
        let at = format!("/spec/versions/{older}");
        patch.push(json!({"op": "test", "path": format!("{at}/name"), "value": OLDER}));
        patch.push(json!({"op": "replace", "path": format!("{at}/served"), "value": true}));
    }
    if patch.len() == 1 { DefinitionVerdict::AsWanted } else { DefinitionVerdict::Patch(patch.into()) }
}

fn conversion(place: &WebhookAddress, bundle: &str) -> CustomResourceConversion {
    let (service, url) = match place {
        WebhookAddress::Service { namespace, name } => {
            let (path, port) = (Some(PATH.into()), Some(443));
            (Some(ServiceReference { name: name.clone(), namespace: namespace.clone(), path, port }), None)
        }
        WebhookAddress::Url(url) => (None, Some(url.clone())),
    };
    let ca_bundle = Some(ByteString(bundle.as_bytes().to_vec()));
    CustomResourceConversion {
        strategy: "Webhook".into(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig { ca_bundle, service, url }),
            conversion_review_versions: vec!["v1".into()],
        }),
    }
}

/// A conversion in a form that can be compared: an API server fills in the port.
fn comparable(one: &CustomResourceConversion) -> Value {
    let mut entry = json!(one);
    if let Some(service) = entry.pointer_mut("/webhook/clientConfig/service").and_then(Value::as_object_mut) {
        service.entry("port").or_insert(json!(443));
    }
    entry
}

/// True if objects may still be stored as another version than v1.
pub fn stores_older(found: &CustomResourceDefinition) -> bool {
    let stored = found.status.as_ref().and_then(|status| status.stored_versions.as_ref());
    stored.into_iter().flatten().any(|version| version != STORED)
}

/// The patch of the status once every object is stored as v1. It is refused if the definition has changed since `found` was read.
pub fn trimmed(found: &CustomResourceDefinition) -> Value {
    json!({
        "metadata": {"resourceVersion": found.metadata.resource_version},
        "status": {"storedVersions": [STORED]},
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn service() -> WebhookAddress {
        WebhookAddress::Service { namespace: "kube-system".into(), name: "dovetail-webhook".into() }
    }

    fn ours() -> CustomResourceDefinition {
        let mut crd = dovetail_api::crds::crds().remove(0);
        crd.metadata.resource_version = Some("7".into());
        crd
    }

    fn patched(crd: &CustomResourceDefinition, place: &WebhookAddress, bundle: &str) -> CustomResourceDefinition {
        let DefinitionVerdict::Patch(patch) = judge(crd, place, bundle) else { panic!("no patch") };
        let mut crd = crd.clone();
        for op in patch.as_array().unwrap() {
            let value = op["value"].clone();
            match op["path"].as_str().unwrap() {
                "/metadata/resourceVersion" => assert_eq!(value, "7"),
                "/spec/conversion" => crd.spec.conversion = Some(serde_json::from_value(value).unwrap()),
                "/spec/versions/1/name" => assert_eq!(crd.spec.versions[1].name, value.as_str().unwrap()),
                "/spec/versions/1/served" => crd.spec.versions[1].served = value.as_bool().unwrap(),
                other => panic!("{other}"),
            }
        }
        crd
    }

    #[test]
    fn v1beta1_is_served_once_conversion_is_set_and_then_is_settled() {
        let crd = patched(&ours(), &service(), "ca");
        let conversion = json!(crd.spec.conversion);
        assert_eq!(conversion["webhook"]["clientConfig"]["caBundle"], "Y2E=");
        assert_eq!(conversion["webhook"]["clientConfig"]["service"]["path"], "/convert");
        assert!(crd.spec.versions.iter().all(|one| one.served) && crd.spec.versions[0].storage);
        assert_eq!(judge(&crd, &service(), "ca"), DefinitionVerdict::AsWanted);
        let rotated = patched(&crd, &service(), "next\nca\n");
        assert_eq!(judge(&rotated, &service(), "next\nca\n"), DefinitionVerdict::AsWanted);
        let url = WebhookAddress::Url("https://10.0.0.1:9443/convert".into());
        let elsewhere = patched(&rotated, &url, "ca");
        assert_eq!(json!(elsewhere.spec.conversion)["webhook"]["clientConfig"]["url"], "https://10.0.0.1:9443/convert");
        assert_eq!(json!(elsewhere.spec.conversion)["webhook"]["clientConfig"].get("service"), None);
    }

    #[test]
    fn crd_storing_or_lacking_v1beta1_is_left_alone_with_a_remedy() {
        let mut stores = ours();
        stores.spec.versions[0].storage = false;
        stores.spec.versions[1].storage = true;
        let mut lacks = ours();
        lacks.spec.versions.pop();
        for (crd, said) in [(stores, "it stores is v1beta1"), (lacks, "no version v1beta1")] {
            let DefinitionVerdict::Not(why) = judge(&crd, &service(), "ca") else { panic!("{said}") };
            assert!(why.contains(said) && why.contains("dovetail crds"), "{why}");
        }
    }

    #[test]
    fn certificates_are_for_the_service_or_for_the_url_s_host() {
        assert_eq!(service().names(), ["dovetail-webhook.kube-system.svc"]);
        for (url, host) in [
            ("https://a.example/x", "a.example"),
            ("https://a.example:9443/x", "a.example"),
            ("https://127.0.0.1:9443", "127.0.0.1"),
            ("https://[::1]:9443/convert", "::1"),
        ] {
            assert_eq!(WebhookAddress::Url(url.into()).names(), [host]);
        }
    }

    #[test]
    fn a_definition_says_itself_whether_older_objects_are_stored() {
        let mut crd = ours();
        assert!(!stores_older(&crd));
        crd.status = serde_json::from_value(json!({"storedVersions": ["v1beta1", "v1"]})).unwrap();
        assert!(stores_older(&crd));
        assert_eq!(trimmed(&crd)["metadata"]["resourceVersion"], "7");
    }
}
