//! Kinds that an API server serves.

use std::collections::BTreeSet;

use kube::Client;

/// The kinds that are served of an API version, as `NodePool`; none where it is not served.
///
/// # Errors
/// The API server has not answered, or has refused it.
pub async fn kinds_served(client: &Client, version: &str) -> kube::Result<BTreeSet<String>> {
    match client.list_api_group_resources(version).await {
        Ok(known) => Ok(known.resources.into_iter().map(|resource| resource.kind).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}
