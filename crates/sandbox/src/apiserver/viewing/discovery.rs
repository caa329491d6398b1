//! Discovery of groups, versions and resources; version and health.
use crate::apiserver::ApiServer;
use crate::apiserver::error::{ApiError, Result};
use crate::apiserver::http::handler::Reply;
use crate::apiserver::http::request::ResourcePath;
use crate::apiserver::registry::{ResourceDef, ServedVersion, api_version};
use crate::apiserver::store::StoreState;
use bytes::Bytes;
use http::Method;
use http::request::Parts;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The content type of aggregated discovery, by which alone clients know it.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers a path that is no resource's.
///
/// # Errors
/// 404 for a path that nothing is served under, 405 for another verb than GET.
pub fn answer(server: &ApiServer, parts: &Parts) -> Result<Reply> {
    if parts.method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    let accept = parts.headers.get(http::header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    // Clients of before 1.30 know `v2beta1` only; they are content with the form of old.
    let aggregated = accept.split(',').any(|choice| {
        let has = |wanted: &str| choice.split(';').any(|parameter| parameter.trim() == wanted);
        has("as=APIGroupDiscoveryList") && has("v=v2")
    });
    let state = server.lock();
    let path = parts.uri.path().trim_end_matches('/');
    let body = match path {
        "" => paths(&state),
        "/openapi/v2" => return crate::apiserver::openapi::v2(&state, accept),
        _ if path == "/openapi/v3" || path.starts_with("/openapi/v3/") => {
            return crate::apiserver::openapi::v3(&state, path);
        }
        "/healthz" | "/livez" | "/readyz" => return Ok(Reply::Text("ok")),
        "/version" => version(),
        "/api" | "/apis" if aggregated => {
            return Ok(Reply::Typed(AGGREGATED, Bytes::from(all_in_one(&state, path == "/api").to_string())));
        }
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        "/apis" => {
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(&state).iter().map(|(g, v)| group(g, v)).collect::<Vec<_>>()})
        }
        _ => below(&state, path)?,
    };
    Ok(Reply::Json(200, Bytes::from(body.to_string()), Vec::new()))
}

/// The paths that there are (`kubectl get --raw /`).
fn paths(state: &StoreState) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in groups(state) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    json!({"paths": paths})
}

/// The Kubernetes version that the sandbox behaves like.
fn version() -> Value {
    json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0-dovetail", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2025-04-23T13:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": "linux/amd64"})
}

/// Versions of each group but core, the one to be preferred first.
fn groups(state: &StoreState) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (group, def) in state.registry.all().filter(|(group, _)| !group.is_empty()) {
        let versions = groups.entry(group.to_owned()).or_default();
        for version in def
            .versions
            .iter()
            .filter(|v| v.served && !versions.contains(&v.name))
            .map(|v| v.name.clone())
            .collect::<Vec<_>>()
        {
            versions.push(version);
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|v| rank(v));
    }
    groups
}

/// Stable before beta before alpha, the higher number first.
fn rank(version: &str) -> (u8, std::cmp::Reverse<u32>, std::cmp::Reverse<u32>) {
    let digits =
        |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or_default();
    let major = digits(version.trim_start_matches('v'));
    let stage = ["alpha", "beta"].iter().position(|s| version.contains(s));
    let minor = stage.and_then(|s| version.split_once(["alpha", "beta"][s])).map_or(0, |(_, rest)| digits(rest));
    let order = match stage {
        None => 0,
        Some(1) => 1,
        Some(_) => 2,
    };
    (order, std::cmp::Reverse(major), std::cmp::Reverse(minor))
}

fn group(name: &str, versions: &[String]) -> Value {
    let list: Vec<Value> =
        versions.iter().map(|v| json!({"groupVersion": api_version(name, v), "version": v})).collect();
    json!({"name": name, "versions": list, "preferredVersion": list.first()})
}

fn below(state: &StoreState, path: &str) -> Result<Value> {
    if let Some(name) = path.strip_prefix("/apis/").filter(|rest| !rest.contains('/')) {
        let groups = groups(state);
        let mut found = group(name, groups.get(name).ok_or_else(ApiError::no_such_path)?);
        found["kind"] = json!("APIGroup");
        found["apiVersion"] = json!("v1");
        return Ok(found);
    }
    let wanted = ResourcePath::parse(path).ok_or_else(ApiError::no_such_path)?;
    let mut resources = Vec::new();
    for (_, def, version) in served(state).filter(|(g, _, v)| *g == wanted.group && v.name == wanted.version) {
        resources.push(resource(def));
        resources.extend(subresources(def, version).into_iter().map(|sub| sub_resource(def, &sub)));
    }
    if resources.is_empty() {
        return Err(ApiError::no_such_path());
    }
    Ok(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(&wanted.group, &wanted.version), "resources": resources}),
    )
}

fn served(state: &StoreState) -> impl Iterator<Item = (&str, &ResourceDef, &ServedVersion)> {
    state.registry.all().flat_map(|(group, def)| {
        def.versions.iter().filter(|v| v.served).map(move |v| (group, def.as_ref(), v.as_ref()))
    })
}

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

fn verbs(def: &ResourceDef) -> &'static [&'static str] {
    if def.review { &VERBS[..1] } else { &VERBS }
}

fn resource(def: &ResourceDef) -> Value {
    let mut resource = json!({"name": def.plural, "singularName": def.singular, "namespaced": def.namespaced, "kind": def.kind, "verbs": verbs(def)});
    for (field, list) in [("shortNames", &def.short_names), ("categories", &def.categories)] {
        if !list.is_empty() {
            resource[field] = json!(list);
        }
    }
    resource
}

/// A subresource: its name, the group, version and kind of what is sent to it (none for the resource's own), its verbs.
struct Sub {
    name: &'static str,
    kind: Option<(&'static str, &'static str, &'static str)>,
    verbs: &'static [&'static str],
}

fn subresources(def: &ResourceDef, version: &ServedVersion) -> Vec<Sub> {
    let mut subs = Vec::new();
    if version.status {
        subs.push(Sub { name: "status", kind: None, verbs: &["get", "patch", "update"] });
    }
    if version.scale.is_some() {
        subs.push(Sub {
            name: "scale",
            kind: Some(("autoscaling", "v1", "Scale")),
            verbs: &["get", "patch", "update"],
        });
    }
    if def.kind == "Pod" && def.group.is_empty() {
        subs.push(Sub { name: "binding", kind: Some(("", "v1", "Binding")), verbs: &["create"] });
        subs.push(Sub { name: "eviction", kind: Some(("policy", "v1", "Eviction")), verbs: &["create"] });
        subs.push(Sub { name: "log", kind: None, verbs: &["get"] });
        subs.push(Sub { name: "resize", kind: None, verbs: &["get", "patch", "update"] });
    }
    subs
}

fn sub_resource(def: &ResourceDef, sub: &Sub) -> Value {
    let kind = sub.kind.map_or(def.kind.as_str(), |(_, _, kind)| kind);
    let mut resource = json!({"name": format!("{}/{}", def.plural, sub.name), "singularName": "", "namespaced": def.namespaced, "kind": kind, "verbs": sub.verbs});
    if let Some((group, version, _)) = sub.kind {
        resource["version"] = json!(version);
        if !group.is_empty() {
            resource["group"] = json!(group);
        }
    }
    resource
}

/// Aggregated discovery: everything in one answer.
fn all_in_one(state: &StoreState, core: bool) -> Value {
    let groups = if core { BTreeMap::from([(String::new(), vec!["v1".to_owned()])]) } else { groups(state) };
    let items: Vec<Value> = groups.iter().map(|(group, versions)| aggregated_group(state, group, versions)).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_group(state: &StoreState, group: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|wanted| {
            let resources: Vec<Value> = served(state)
                .filter(|(g, _, v)| *g == group && v.name == *wanted)
                .map(|(g, def, v)| aggregated(g, def, v))
                .collect();
            json!({"version": wanted, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() {
        json!({"creationTimestamp": null})
    } else {
        json!({"name": group, "creationTimestamp": null})
    };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated(group: &str, def: &ResourceDef, version: &ServedVersion) -> Value {
    let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let subs: Vec<Value> = subresources(def, version)
        .iter()
        .map(|sub| {
            let (g, v, k) = sub.kind.unwrap_or((group, &version.name, &def.kind));
            json!({"subresource": sub.name, "responseKind": kind(g, v, k), "verbs": sub.verbs})
        })
        .collect();
    let scope = if def.namespaced { "Namespaced" } else { "Cluster" };
    let mut resource = json!({"resource": def.plural, "responseKind": kind(group, &version.name, &def.kind), "scope": scope,
        "singularResource": def.singular, "verbs": verbs(def), "subresources": subs});
    for (field, list) in [("shortNames", &def.short_names), ("categories", &def.categories)] {
        if !list.is_empty() {
            resource[field] = json!(list);
        }
    }
    resource
}
