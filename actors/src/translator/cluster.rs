//! Questions to the cluster before anything can be translated: the alpha kinds that it serves, and its properties.

use std::collections::BTreeSet;

use dovetail_api::convert::ConversionContext as Meaning;
use dovetail_api::names::tags;
use dovetail_cloud::CloudNodeClasses;

use super::VERSIONS;
use crate::context::env::Env;
use crate::kube::calls::Calls;
use crate::reading::kinds_served;

/// The alpha kinds that the API server serves; `None` where it does not say so of all of them: what is known of some alone
/// would be taken for all there is.
pub async fn served(calls: Calls) -> Option<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for version in VERSIONS {
        all.extend(calls.once(kinds_served(&calls.client, version)).await.ok()?);
    }
    Some(all)
}

/// Properties of the cluster: its version, and the tag by which its subnets are known.
///
/// # Errors
/// The term is over, or one of the two cannot be asked, in words: it is asked again at the next look.
pub async fn meaning_of(calls: &Calls, cloud: &dyn CloudNodeClasses, env: &Env) -> Result<Meaning, String> {
    let version = calls.run("GET /version", || calls.client.apiserver_version()).await;
    let version = version.map_err(|error| error.to_string())?;
    let digits: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    let cluster_name = env.settings.cluster_name.clone();
    let cluster_tagged = cloud.subnet_has_tag(&tags::owned_by(&cluster_name)).await;
    let cluster_tagged = cluster_tagged.map_err(|error| error.to_string())?;
    let profile = env.settings.default_instance_profile.clone();
    Ok(Meaning {
        cluster_name,
        kubernetes_minor: digits.parse().ok(),
        default_instance_profile: Some(profile).filter(|profile| !profile.is_empty()),
        cluster_tagged,
    })
}
