//! Manifests on their way into the sandbox's API server.

use dovetail_actors::Settings;
use dovetail_api::manifest::Manifest;
use dovetail_input::manifests::{by_kind, passed_over};
use dovetail_input::{Failure, Mistake};
use dovetail_sandbox::apiserver::{ApiServer, Gvr};
use serde_json::{Value, json};

/// Kinds that others need to be there first, in this order; the rest follows as written.
const FIRST: &[&str] =
    &["CustomResourceDefinition", "Namespace", "PriorityClass", "StorageClass", "EC2NodeClass", "NodePool"];

/// Kinds that make, change or refuse pods in a cluster, and that are stored here and nothing more.
const IDLE: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io/", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/", "ValidatingWebhookConfiguration"),
    ("batch/", "CronJob"),
    ("v1", "ReplicationController"),
];

/// The API versions of the alpha kinds.
const ALPHA: [&str; 2] = ["karpenter.sh/v1alpha5", "karpenter.k8s.aws/v1alpha1"];

/// Creates our CRDs, with those of kinds that feature gates have read. Where the cluster converts v1beta1, it is served, too.
pub fn install_crds(api: &ApiServer, converts: bool, settings: &Settings) -> Result<(), Failure> {
    let gvr = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let own = dovetail_api::crds::crds().into_iter().chain(dovetail_api::crds::alpha_crds());
    let buffers = settings.capacity_buffers().then(dovetail_api::crds::buffer_crd);
    let overlays = settings.node_overlays().then(dovetail_api::crds::overlay_crd);
    let quotas = settings.capacity_quotas().then(dovetail_api::crds::quota_crd);
    let requests = settings.provisioning_requests().then(dovetail_api::crds::request_crd);
    let vertical = settings.recommendations().then(dovetail_api::crds::vertical_crd);
    for mut crd in own.chain(buffers).chain(overlays).chain(quotas).chain(requests).chain(vertical) {
        crd.spec.versions.iter_mut().for_each(|version| version.served |= converts);
        let mut value = serde_json::to_value(&crd).map_err(|why| Failure::System(why.to_string()))?;
        typed(&mut value, "apiextensions.k8s.io/v1", "CustomResourceDefinition");
        api.create(&gvr, "", value)
            .map_err(|why| Failure::System(format!("the sandbox refuses our own CRD: {why}")))?;
    }
    Ok(())
}

fn typed(value: &mut Value, api_version: &str, kind: &str) {
    value["apiVersion"] = json!(api_version);
    value["kind"] = json!(kind);
}

/// Manifests that were passed over or that nothing acts on, and namespaces that were made for others.
#[derive(Debug, Default)]
pub struct AppliedObjects {
    /// Manifests of kinds that it does not serve.
    pub passed_over: Vec<Manifest>,
    /// Namespaces that objects are in, that no manifest makes, and that were made therefore.
    pub namespaces: Vec<String>,
    /// Manifests that are stored, and that no controller of the sandbox acts on.
    pub idle: Vec<Manifest>,
}

impl AppliedObjects {
    /// Lines about them for standard error.
    pub fn lines(&self) -> Vec<String> {
        let made = (!self.namespaces.is_empty()).then(|| format!("made namespaces: {}", self.namespaces.join(", ")));
        let idle = by_kind(&self.idle).map(|kinds| format!("stored, and nothing acts on it here: {kinds}"));
        passed_over(&self.passed_over).into_iter().chain(idle).chain(made).collect()
    }
}

/// Creates or updates what manifests say, alpha and beta kinds as what they mean in v1; the alpha kinds as they are written
/// where `alpha_as_written`.
pub fn apply(api: &ApiServer, manifests: &[Manifest], alpha_as_written: bool) -> Result<AppliedObjects, Vec<Mistake>> {
    let mut objects: Vec<(usize, &Manifest, Value)> = Vec::new();
    let mut applied = AppliedObjects::default();
    for manifest in manifests {
        for object in stored(manifest, alpha_as_written) {
            let kind = object["kind"].as_str().unwrap_or_default();
            let rank = FIRST.iter().position(|first| *first == kind).unwrap_or(FIRST.len());
            objects.push((rank, manifest, object));
        }
    }
    objects.sort_by_key(|(rank, ..)| *rank);
    let mut mistakes = Vec::new();
    for (_, manifest, object) in objects {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        // Definitions come first, so that a kind may be served by now.
        if api.resource_of(text("apiVersion"), text("kind")).is_err() {
            applied.passed_over.push(manifest.clone());
            continue;
        }
        if IDLE.iter().any(|(group, kind)| manifest.api_version.starts_with(group) && manifest.kind == *kind) {
            applied.idle.push(manifest.clone());
        }
        let made = make_namespace(api, &object, manifests);
        applied.namespaces.extend(made);
        if let Err(what) = apply_one(api, object) {
            mistakes.push(Mistake {
                file: manifest.file.clone(),
                line: manifest.line,
                field: format!("{}/{}", manifest.kind, manifest.name),
                what,
                allowed: String::new(),
            });
        }
    }
    if mistakes.is_empty() { Ok(applied) } else { Err(mistakes) }
}

/// Makes the namespace that an object is in where there is none, as `kubectl create namespace` would. Answers its name.
fn make_namespace(api: &ApiServer, object: &Value, manifests: &[Manifest]) -> Option<String> {
    let namespaces = Gvr::new("", "v1", "namespaces");
    let name = object["metadata"]["namespace"].as_str().filter(|name| !name.is_empty())?;
    let own = |one: &Manifest| one.kind == "Namespace" && one.api_version == "v1" && one.name == name;
    if api.get(&namespaces, "", name).is_some() || manifests.iter().any(own) {
        return None;
    }
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    // An invalid name is reported with the object.
    api.create(&namespaces, "", object).ok().map(|_| name.to_owned())
}

/// Objects that are stored for a manifest: their meaning in v1 for Karpenter's kinds, and the object as written for all others.
fn stored(manifest: &Manifest, alpha_as_written: bool) -> Vec<Value> {
    let as_written = alpha_as_written && ALPHA.contains(&manifest.api_version.as_str());
    let Some(v1) = manifest.v1.as_ref().filter(|_| !as_written) else { return vec![manifest.object.clone()] };
    let class = v1.node_class.as_ref().map(serde_json::to_value);
    let pool = v1.node_pool.as_ref().map(serde_json::to_value);
    let claim = v1.node_claim.as_ref().map(serde_json::to_value);
    // Types with string keys always become JSON.
    [class, pool, claim].into_iter().flatten().filter_map(Result::ok).collect()
}

fn apply_one(api: &ApiServer, object: Value) -> Result<(), String> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (gvr, namespaced) = api.resource_of(&text("apiVersion"), &text("kind")).map_err(|why| why.to_string())?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let namespace = match (namespaced, object["metadata"]["namespace"].as_str()) {
        (false, _) => String::new(),
        (true, given) => given.unwrap_or("default").to_owned(),
    };
    let done = if api.get(&gvr, &namespace, &name).is_some() {
        api.patch(&gvr, &namespace, &name, &object)
    } else {
        api.create(&gvr, &namespace, object)
    };
    done.map(drop).map_err(|why| why.to_string())
}
