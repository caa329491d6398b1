//! Devices among manifests: where they count, pods with resourceClaims are planned for, as with IGNORE_DRA_REQUESTS=false, and new
//! nodes have the devices that the catalogue knows, as with the gates DRANVIDIAGPU and DRAEFA.

use std::collections::BTreeSet;

use dovetail_api::manifest::Manifest;
use dovetail_api::resource::{API_VERSION, DeviceClass, ResourceClaim, ResourceSlice};
use dovetail_core::cluster_state::ClusterState;
use dovetail_core::dra::{Claim, DeviceBook, DeviceGates, Slice, read_class};
use dovetail_input::Mistake;
use k8s_openapi::api::core::v1::PodResourceClaimStatus;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::admitted::Admitted;
use crate::devices::Devices;

/// Kinds that are read.
const KINDS: [&str; 4] = ["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"];
/// End of the reason of a claim that makes sense, and is not planned for.
const NOT_SUPPORTED: &str = " is not supported";

/// Objects about devices, as manifests have them.
#[derive(Default)]
pub(super) struct GivenDevices {
    classes: Vec<DeviceClass>,
    slices: Vec<ResourceSlice>,
    claims: Vec<ResourceClaim>,
    templates: Vec<ClaimTemplate>,
}

/// A ResourceClaimTemplate.
struct ClaimTemplate {
    namespace: String,
    name: String,
    /// The claim that it makes, but for its name.
    claim: ResourceClaim,
}

/// Takes the objects about devices out of manifests where they count: `ignored` is `false`, or is not said and there is a
/// DeviceClass. `None` where they do not.
///
/// # Errors
/// An object that cannot be read.
pub(super) fn take_from(
    manifests: &mut Vec<Manifest>,
    ignored: Option<bool>,
) -> Result<Option<GivenDevices>, Vec<Mistake>> {
    let is_known = |one: &Manifest| one.api_version == API_VERSION && KINDS.contains(&one.kind.as_str());
    let any_class = || manifests.iter().any(|one| is_known(one) && one.kind == "DeviceClass");
    if ignored.unwrap_or_else(|| !any_class()) {
        return Ok(None);
    }
    let (mut given, mut mistakes) = (GivenDevices::default(), Vec::new());
    for manifest in manifests.iter().filter(|one| is_known(one)) {
        mistakes.extend(given.take_object(manifest).err());
    }
    manifests.retain(|one| !is_known(one));
    if mistakes.is_empty() { Ok(Some(given)) } else { Err(mistakes) }
}

impl GivenDevices {
    /// Puts them into the state, and gives pods the claims that their templates make, as the claims' controller does. Answers
    /// warnings about templates that are not among the manifests.
    pub(super) fn apply_all(&self, state: &mut ClusterState, pods: &mut [Admitted]) -> Vec<String> {
        let book = state.devices_mut();
        self.classes.iter().for_each(|class| _ = book.apply_class(class));
        self.slices.iter().for_each(|slice| _ = book.apply_slice(slice));
        self.claims.iter().for_each(|claim| _ = book.apply_claim(claim));
        let mut missing = BTreeSet::new();
        for admitted in pods {
            self.make_claims(admitted, book, &mut missing);
        }
        let warn =
            |name| format!("ResourceClaimTemplate {name} is not among the manifests; its pods wait for their claims");
        missing.into_iter().map(warn).collect()
    }

    fn take_object(&mut self, manifest: &Manifest) -> Result<(), Mistake> {
        if manifest.name.is_empty() {
            return Err(mistake(manifest, "metadata.name", "is required".to_owned()));
        }
        let refused = |why: String| mistake(manifest, "spec", why);
        match manifest.kind.as_str() {
            "DeviceClass" => {
                let class = object_of::<DeviceClass>(manifest, &manifest.object, "")?;
                read_class(&class).map_err(refused)?;
                self.classes.push(class);
            }
            "ResourceSlice" => {
                let slice = object_of::<ResourceSlice>(manifest, &manifest.object, "")?;
                Slice::from_object(&slice).fault.map_or(Ok(()), |why| Err(refused(why)))?;
                self.slices.push(slice);
            }
            "ResourceClaim" => {
                let mut claim = object_of::<ResourceClaim>(manifest, &manifest.object, "")?;
                claim.metadata.namespace = Some(namespace(manifest).to_owned());
                check_wish(&claim).map_err(refused)?;
                self.claims.push(claim);
            }
            _ => {
                let spec = &manifest.object["spec"];
                let object = json!({
                    "apiVersion": API_VERSION, "kind": "ResourceClaim", "metadata": {"namespace": namespace(manifest)},
                    "spec": spec.get("spec").unwrap_or(&Value::Null),
                });
                let claim = object_of::<ResourceClaim>(manifest, &object, "spec.")?;
                check_wish(&claim).map_err(|why| mistake(manifest, "spec.spec", why))?;
                let (namespace, name) = (namespace(manifest).to_owned(), manifest.name.clone());
                self.templates.push(ClaimTemplate { namespace, name, claim });
            }
        }
        Ok(())
    }

    /// Makes the claims of a pod's templates; one without its template is not made, and the template is `missing`.
    fn make_claims(&self, admitted: &mut Admitted, book: &mut DeviceBook, missing: &mut BTreeSet<String>) {
        let pod = &mut admitted.pod;
        let own = pod.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let pod_name = pod.metadata.name.clone().unwrap_or_default();
        let asked = pod.spec.as_ref().and_then(|spec| spec.resource_claims.clone()).unwrap_or_default();
        for claim in asked {
            let Some(template) = &claim.resource_claim_template_name else { continue };
            let Some(found) = self.templates.iter().find(|one| one.name == *template && one.namespace == own) else {
                missing.insert(format!("{own}/{template}"));
                continue;
            };
            let name = format!("{pod_name}-{}", claim.name);
            let mut made = found.claim.clone();
            made.metadata.name = Some(name.clone());
            book.apply_claim(&made);
            let status = PodResourceClaimStatus { name: claim.name, resource_claim_name: Some(name) };
            pod.status.get_or_insert_default().resource_claim_statuses.get_or_insert_default().push(status);
        }
    }
}

/// The devices of a state into which manifests' were put: new nodes have all that the catalogue knows.
pub(super) fn devices_of(state: &ClusterState) -> Devices {
    Devices { book: state.snapshot().devices, gates: DeviceGates { nvidia: true, efa: true } }
}

/// A claim that the API server would refuse is a mistake; one that only is not supported is said at its pods.
fn check_wish(claim: &ResourceClaim) -> Result<(), String> {
    match Claim::from_object(claim).wish {
        Err(why) if !why.ends_with(NOT_SUPPORTED) => Err(why),
        _ => Ok(()),
    }
}

fn namespace(manifest: &Manifest) -> &str {
    manifest.namespace.as_deref().unwrap_or("default")
}

/// Reads an object, which stands in a manifest below a field.
fn object_of<T: DeserializeOwned>(manifest: &Manifest, object: &Value, below: &str) -> Result<T, Mistake> {
    serde_path_to_error::deserialize(object).map_err(|error| {
        let (field, why) = (format!("{below}{}", error.path()), error.inner().to_string());
        mistake(manifest, &field, why)
    })
}

fn mistake(manifest: &Manifest, field: &str, what: String) -> Mistake {
    let (file, line) = (manifest.file.clone(), manifest.line);
    Mistake { file, line, field: format!("{}/{}: {field}", manifest.kind, manifest.name), what, allowed: String::new() }
}
