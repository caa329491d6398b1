//! Settings of the control plane that leads: read off its pod, which the Lease names. Decisions depend on them.

use std::collections::BTreeMap;

use dovetail_actors::Settings;
use dovetail_actors::reading::LenientApi;
use dovetail_actors::settings::{KubeAccess, TABLE};
use dovetail_api::names::LEASE_NAME;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;

use super::{ClusterArgs, Connection, Missing};
use crate::run::connect::plainly;

/// The control plane that leads, as its pod shows it.
#[derive(Clone)]
pub struct Leader {
    pub settings: Settings,
    /// Source of the settings, for people.
    pub from: String,
    /// Namespace of the Lease.
    pub namespace: String,
    pub pod: Option<Pod>,
}

/// The settings of the leader; the defaults where it is not found or may not be read, which `from` says.
pub async fn settings(
    connection: &Connection,
    args: &ClusterArgs,
    missing: &mut Vec<Missing>,
) -> (Settings, String, BTreeMap<String, String>) {
    match find_leader(connection, args).await {
        Ok(found) => {
            let given = found.pod.as_ref().map(settings_of_pod).unwrap_or_default();
            (found.settings, found.from, given)
        }
        Err(why) => {
            missing.push(Missing { what: "settings of the control plane".to_owned(), why });
            (args.settings(), "defaults".to_owned(), BTreeMap::new())
        }
    }
}

/// The replica that leads, by the Lease.
///
/// # Errors
/// None leads, or its pod may not be read: the reason, as a sentence.
pub async fn find_leader(connection: &Connection, args: &ClusterArgs) -> Result<Leader, String> {
    let lease = find_lease(connection, args.system_namespace.as_deref()).await?;
    let namespace = lease.namespace().unwrap_or_default();
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
    if holder.is_empty() {
        return Err(format!(
            "the Lease {namespace}/{LEASE_NAME} has no holder: no control plane leads; the defaults count"
        ));
    }
    // A replica's identity is its pod's name with a suffix for each of its starts.
    let name = holder.rsplit_once('_').map_or(holder.as_str(), |(name, _)| name);
    let pods: LenientApi<Pod> = LenientApi::namespaced(connection.client.clone(), &namespace);
    let pod =
        pods.get_opt(name).await.map_err(|why| format!("pod {namespace}/{name} cannot be read: {}", plainly(&why)))?;
    let pod =
        pod.ok_or_else(|| format!("{holder} leads, and there is no pod {namespace}/{name}; the defaults count"))?;
    let given = settings_of_pod(&pod);
    let mut settings = Settings::from_map(&given)
        .map_err(|_| format!("the settings of pod {namespace}/{name} cannot be read; the defaults count"))?;
    // Our own settings say how the API server is asked; the version below which the leader refuses to work is the leader's.
    settings.kube_access = KubeAccess { oldest: settings.kube_access.oldest, ..args.settings().kube_access };
    settings.lease_namespace.clone_from(&namespace);
    let from = format!("pod {namespace}/{name}, which leads");
    Ok(Leader { settings, from, namespace, pod: Some(pod) })
}

/// The Lease of the control plane, in the namespace that is given or wherever it is.
pub async fn find_lease(connection: &Connection, namespace: Option<&str>) -> Result<Lease, String> {
    let client = connection.client.clone();
    if let Some(namespace) = namespace {
        let own: LenientApi<Lease> = LenientApi::namespaced(client, namespace);
        let found =
            own.get_opt(LEASE_NAME).await.map_err(|why| format!("its Lease cannot be read: {}", plainly(&why)))?;
        return found
            .ok_or_else(|| format!("there is no Lease {namespace}/{LEASE_NAME}: no control plane has led yet"));
    }
    let by_name = ListParams::default().fields(&format!("metadata.name={LEASE_NAME}")).limit(50);
    let all: LenientApi<Lease> = LenientApi::all(client);
    let found = all.list(&by_name).await.map_err(|why| format!("its Lease cannot be found: {}", plainly(&why)))?.items;
    let held = |lease: &Lease| lease.spec.as_ref().is_some_and(|spec| spec.holder_identity.is_some());
    let renewed = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
    let newest =
        found.into_iter().filter(|lease| lease.name_any() == LEASE_NAME).max_by_key(|one| (held(one), renewed(one)));
    newest.ok_or_else(|| format!("there is no Lease {LEASE_NAME}: no control plane has led yet; the defaults count"))
}

/// The settings that a pod's containers have in their environment.
fn settings_of_pod(pod: &Pod) -> BTreeMap<String, String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let variables = containers.flat_map(|container| container.env.iter().flatten());
    let known = variables.filter(|one| TABLE.iter().any(|known| known.name == one.name));
    let given = known.filter_map(|one| Some((one.name.clone(), one.value.clone()?)));
    given.filter(|(_, value)| !value.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_those_of_the_pods_environment() {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": {"containers": [{"name": "c", "env": [
            {"name": "PREFERENCE_POLICY", "value": "Ignore"}, {"name": "OTHER", "value": "x"},
            {"name": "CLUSTER_NAME", "value": "demo"}, {"name": "LOG_LEVEL", "value": ""},
            {"name": "CONSOLE_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]}}))
            .unwrap();
        let found: Vec<(String, String)> = settings_of_pod(&pod).into_iter().collect();
        let expected = [("CLUSTER_NAME", "demo"), ("PREFERENCE_POLICY", "Ignore")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
