//! The provider of the nodes, as the settings name it: reached at the start, and what it does in the background.

use std::io::Read as _;
use std::sync::Arc;

use dovetail_actors::Settings;
use dovetail_api::names::provider::Provider;
use dovetail_cloud::kwok::catalogue::{MOST_BYTES, generic_types, read_catalogue};
use dovetail_cloud::kwok::{KwokCloud, KwokSettings};
use dovetail_cloud::{Cloud, CloudIdentity as _};
use dovetail_core::InstanceType;
use dovetail_input::{Failure, Mistake};
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kube::Client;

use super::clock::SystemClock;
use super::connect::ApiTarget;
use super::preflight::ask::Asker;
use super::preflight::{PreflightFacts, aws, named};

/// A provider that can be asked for nodes.
pub(super) struct Reached {
    /// The provider behind the seam.
    pub cloud: Arc<dyn Cloud>,
    /// Address of the API server that nodes are told.
    pub endpoint: String,
    /// Background work of the provider, which ends never.
    pub follows: LocalBoxFuture<'static, ()>,
}

/// Reaches the provider, and checks what was named for it.
pub(super) async fn reach(
    asker: &Asker,
    kube: &Client,
    settings: &Settings,
    facts: &PreflightFacts,
    target: &ApiTarget,
    seed: u64,
    warn: impl Fn(&str),
) -> Result<Reached, Failure> {
    match settings.provider {
        Provider::Ec2 => reach_ec2(asker, kube, settings, facts, target, seed, warn).await,
        Provider::Kwok => reach_kwok(kube, settings, facts, target),
    }
}

/// Settings with the authority that nodes are told: it is part of a class's hash, as in Karpenter.
pub(super) fn with_authority(settings: Settings, target: &ApiTarget) -> Settings {
    let given = settings.provider != Provider::Ec2 || !settings.cluster_ca_bundle.is_empty();
    let cluster_ca_bundle = if given { settings.cluster_ca_bundle.clone() } else { target.authority() };
    Settings { cluster_ca_bundle, ..settings }
}

async fn reach_ec2(
    asker: &Asker,
    kube: &Client,
    settings: &Settings,
    facts: &PreflightFacts,
    target: &ApiTarget,
    seed: u64,
    warn: impl Fn(&str),
) -> Result<Reached, Failure> {
    let (cloud, endpoint) = aws::reach(settings, Arc::new(SystemClock), facts, target.authority(), seed).await?;
    named::queue(settings, cloud.region())?;
    named::cluster(asker, kube, &cloud, settings, warn).await?;
    let follows = match settings.eks_control_plane {
        // EKS is asked again and again, with all else that it knows.
        true => futures::future::pending().boxed_local(),
        false => aws::follow_version(kube.clone(), cloud.clone()).boxed_local(),
    };
    Ok(Reached { cloud: Arc::new(cloud), endpoint, follows })
}

fn reach_kwok(
    kube: &Client,
    settings: &Settings,
    facts: &PreflightFacts,
    target: &ApiTarget,
) -> Result<Reached, Failure> {
    let types = kwok_types(&settings.instance_types_file)?;
    let own = KwokSettings { cluster_name: settings.cluster_name.clone(), cluster_uid: facts.uid.clone() };
    let cloud = KwokCloud::new(kube.clone(), own, types, Arc::new(SystemClock));
    tracing::info!(
        logger = "run",
        "the provider is kwok: its nodes are no machines, and have neither interruptions, images nor reservations"
    );
    Ok(Reached {
        cloud: Arc::new(cloud),
        endpoint: target.server(),
        // Its work is the leader's.
        follows: futures::future::pending().boxed_local(),
    })
}

/// The instance types of kwok's nodes, of the file that was named, or those that are built in.
fn kwok_types(path: &str) -> Result<Vec<Arc<InstanceType>>, Failure> {
    if path.is_empty() {
        return generic_types().map_err(Failure::System);
    }
    let wrong = |what: String| {
        let what = format!("{path}: {what}");
        let allowed = "a catalogue of instance types, as docs/guide/kwok.md has it";
        Failure::from(Mistake::of_file("INSTANCE_TYPES_FILE_PATH (--instance-types-file-path)", what).allowing(allowed))
    };
    let file = std::fs::File::open(path).map_err(|why| wrong(why.to_string()))?;
    let mut text = String::new();
    // A byte more, so that a file that is too long is found to be so.
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(|why| wrong(why.to_string()))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(wrong(format!("it is longer than {} MiB", MOST_BYTES >> 20)));
    }
    read_catalogue(&text).map_err(wrong)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_catalogue_that_cannot_be_read_is_a_mistake_with_its_path() {
        for path in ["/nowhere/types.json", "/dev/null"] {
            let Err(Failure::Input(mistakes)) = kwok_types(path) else { panic!("{path} is read") };
            let said = mistakes[0].to_string();
            assert!(said.starts_with("INSTANCE_TYPES_FILE_PATH") && said.contains(path), "{said}");
        }
        assert_eq!(kwok_types("").unwrap().len(), 144);
    }
}
