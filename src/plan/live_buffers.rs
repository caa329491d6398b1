//! The CapacityBuffers of a live cluster, with the templates and workloads that they refer to: as manifests, which a plan reads as
//! those of files.

use std::collections::BTreeSet;

use dovetail_actors::reading::kinds_served;
use dovetail_api::autoscaling::VERSIONS;
use dovetail_api::manifest::{self, Manifest, ReadOptions};
use dovetail_input::{Failure, Mistake};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::live::Missing;
use crate::run::connect::plainly;

/// Objects a page.
const PAGE: u32 = 500;
/// Most buffers that are read: room is held for ten thousand pods in all.
const MOST: usize = 1000;
/// Kinds that a buffer may refer to and that are read: with their API version and plural.
const SOURCES: [(&str, &str, &str); 6] = [
    ("PodTemplate", "v1", "podtemplates"),
    ("ReplicationController", "v1", "replicationcontrollers"),
    ("Deployment", "apps/v1", "deployments"),
    ("StatefulSet", "apps/v1", "statefulsets"),
    ("ReplicaSet", "apps/v1", "replicasets"),
    ("Job", "batch/v1", "jobs"),
];

/// Reads the buffers and their sources. Those that may not be read are named in `missing`; a buffer whose source is not there says
/// so in the plan.
pub(super) async fn read_buffers(client: &Client, missing: &mut Vec<Missing>) -> Result<Vec<Manifest>, Failure> {
    let buffers = match list_buffers(client).await {
        Ok(buffers) => buffers,
        Err(error) => {
            missing.push(Missing { what: "capacitybuffers.autoscaling.x-k8s.io".to_owned(), why: plainly(&error) });
            return Ok(Vec::new());
        }
    };
    let sources: BTreeSet<(&str, String, String)> = buffers.iter().filter_map(source_named).collect();
    let mut objects = buffers;
    for (kind, namespace, name) in sources {
        match read_source(client, kind, &namespace, &name).await {
            Ok(object) => objects.extend(object),
            Err(error) => {
                let what = format!("{} {namespace}/{name}", kind.to_lowercase());
                missing.push(Missing { what, why: plainly(&error) });
            }
        }
    }
    let text: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
    let read = manifest::read_manifests(&[("the cluster", text.as_str())], &ReadOptions::default());
    read.map_err(|errors| Failure::Input(errors.into_iter().map(Mistake::from).collect()))
}

/// The buffers, in the newest version that is served; none where the kind is not.
async fn list_buffers(client: &Client) -> kube::Result<Vec<Value>> {
    for version in VERSIONS {
        if !kinds_served(client, version).await?.contains("CapacityBuffer") {
            continue;
        }
        let api: Api<DynamicObject> =
            Api::all_with(client.clone(), &resource(version, "CapacityBuffer", "capacitybuffers"));
        let (mut found, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
        loop {
            let page = api.list(&params).await?;
            found.extend(page.items.into_iter().map(|one| as_written(&one, version, "CapacityBuffer")));
            match page.metadata.continue_.filter(|token| !token.is_empty() && found.len() < MOST) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        found.truncate(MOST);
        return Ok(found);
    }
    Ok(Vec::new())
}

/// The kind, namespace and name that a buffer refers to, where it is of a kind that is read.
fn source_named(buffer: &Value) -> Option<(&'static str, String, String)> {
    let spec = &buffer["spec"];
    let (kind, name) = match spec["podTemplateRef"]["name"].as_str() {
        Some(name) => ("PodTemplate", name),
        None => (spec["scalableRef"]["kind"].as_str()?, spec["scalableRef"]["name"].as_str()?),
    };
    let (kind, ..) = SOURCES.iter().find(|(known, ..)| *known == kind)?;
    Some((kind, buffer["metadata"]["namespace"].as_str()?.to_owned(), name.to_owned()))
}

async fn read_source(client: &Client, kind: &str, namespace: &str, name: &str) -> kube::Result<Option<Value>> {
    let Some((kind, version, plural)) = SOURCES.iter().find(|(known, ..)| *known == kind) else { return Ok(None) };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource(version, kind, plural));
    Ok(api.get_opt(name).await?.map(|object| as_written(&object, version, kind)))
}

fn resource(api_version: &str, kind: &str, plural: &str) -> ApiResource {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// The object as its author would write it: without a status and what the API server adds.
fn as_written(object: &DynamicObject, api_version: &str, kind: &str) -> Value {
    let mut all = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": object.name_any(), "namespace": object.namespace()},
    });
    for (field, value) in object.data.as_object().into_iter().flatten().filter(|(field, _)| *field != "status") {
        all[field.as_str()] = value.clone();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_names_its_template_or_workload() {
        let buffer = |spec: Value| json!({"metadata": {"name": "b", "namespace": "shop"}, "spec": spec});
        let named = |spec: Value| {
            source_named(&buffer(spec)).map(|(kind, namespace, name)| format!("{kind} {namespace}/{name}"))
        };
        assert_eq!(named(json!({"podTemplateRef": {"name": "t"}})).as_deref(), Some("PodTemplate shop/t"));
        let workload = json!({"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}});
        assert_eq!(named(workload).as_deref(), Some("Deployment shop/web"));
        assert_eq!(named(json!({"scalableRef": {"kind": "Rollout", "name": "web"}})), None);
        assert_eq!(named(json!({})), None);
    }
}
