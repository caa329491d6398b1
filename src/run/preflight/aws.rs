//! AWS at the start: region, credentials, whether they are taken, and what EKS knows of the cluster.

use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_cloud::ec2::{Ec2Cloud, Ec2Settings, NoAws, SdkParts};
use dovetail_cloud::{CloudError, CloudIdentity as _};
use dovetail_core::clock::Clock;
use dovetail_input::{Failure, Mistake};
use kube::Client;
use tokio::time::{sleep, timeout};

use super::ask::{Asker, Attempt};
use super::{PreflightFacts, version_of};

/// Codes by which AWS says that it does not know whose request it is.
const NOT_TAKEN: [&str; 8] = [
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];

/// Interval at which the API server is asked for its version (aws spec 6), and the longest wait for its answer.
const VERSION_EVERY: Duration = Duration::from_secs(5 * 60);
const VERSION_WITHIN: Duration = Duration::from_secs(30);
/// Pause after an answer that is none, or no version.
const VERSION_AGAIN: Duration = Duration::from_secs(30);

/// Asks the API server for its version again and again, and tells the cloud of a new one: the images of an alias go by it.
/// What it does not answer leaves what is known.
pub async fn follow_version(client: Client, cloud: Ec2Cloud) {
    let mut pause = VERSION_EVERY;
    loop {
        sleep(pause).await;
        pause = VERSION_AGAIN;
        let Ok(Ok(answer)) = timeout(VERSION_WITHIN, client.apiserver_version()).await else { continue };
        let Some(version) = version_of(&answer) else { continue };
        pause = VERSION_EVERY;
        if cloud.runs_kubernetes(&version) {
            tracing::info!(logger = "run", kubernetes = version, "the API server has another version");
        }
    }
}

/// EC2 for this cluster, and the address of the API server that nodes will be told.
pub async fn reach(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    facts: &PreflightFacts,
    authority: String,
    seed: u64,
) -> Result<(Ec2Cloud, String), Failure> {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let asker = Asker::new("AWS", settings.kube_access.startup_timeout);
    let found = asker.once(SdkParts::from_environment(clock, given(&settings.aws_region))).await;
    let parts = match found {
        Some(Ok(parts)) => SdkParts { seed, ..parts },
        Some(Err(why @ NoAws::Region)) => {
            return Err(Mistake::of_file("AWS_REGION (--aws-region)", why.to_string())
                .allowing("such as us-east-1")
                .into());
        }
        Some(Err(why)) => return Err(Failure::System(why.to_string())),
        None => {
            let seconds = settings.kube_access.startup_timeout.as_secs_f64();
            return Err(Failure::System(format!("no AWS credentials were found within {seconds} s (STARTUP_TIMEOUT)")));
        }
    };
    let cloud = Ec2Cloud::new(
        parts,
        Ec2Settings {
            cluster_name: settings.cluster_name.clone(),
            cluster_uid: facts.uid.clone(),
            adopt_karpenter_instances: settings.adopt_karpenter_instances,
            cluster_endpoint: given(&settings.cluster_endpoint),
            cluster_ca_bundle: given(&settings.cluster_ca_bundle).or_else(|| given(&authority)),
            cluster_dns: facts.dns.clone(),
            service_cidr: facts.service_cidr.clone(),
            kubernetes_version: (!settings.eks_control_plane).then(|| facts.version.clone()),
            reserved_capacity: settings.reserved_capacity(),
            open_reservations: settings.open_reservations,
            isolated_vpc: settings.isolated_vpc,
            dry_runs: !settings.disable_dry_run,
            limits: settings.scale.ec2_limits.clone(),
        },
    );
    let asker = Asker::new(format!("EC2 in {}", cloud.region()), settings.kube_access.startup_timeout);
    asker.ask("a dry run of DescribeInstanceTypes", || async { judge(cloud.probe().await) }).await?;
    let endpoint = endpoint(&asker, settings, &cloud).await?;
    Ok((cloud, endpoint))
}

fn judge<T>(answer: Result<T, CloudError>) -> Attempt<T> {
    match answer {
        Ok(answer) => Attempt::Answer(answer),
        Err(error) if NOT_TAKEN.contains(&error.code()) => {
            Attempt::Never(format!("AWS does not accept the credentials ({}): {}", error.code(), error.message()))
        }
        Err(error) if error.is_not_found() => Attempt::Never(error.message().to_owned()),
        Err(error) if error.is_retryable() => Attempt::NotYet(error.to_string()),
        Err(error) => Attempt::Never(format!("AWS does not let us ({}): {}", error.code(), error.message())),
    }
}

/// The API server's address for nodes, as given, or as EKS tells it.
async fn endpoint(asker: &Asker, settings: &Settings, cloud: &Ec2Cloud) -> Result<String, Failure> {
    if !settings.cluster_endpoint.is_empty() {
        return Ok(settings.cluster_endpoint.clone());
    }
    let answer = asker.ask("EKS DescribeCluster", || async { judge(cloud.cluster().await) }).await;
    let why = match answer {
        Ok(facts) if !facts.endpoint.is_empty() => return Ok(facts.endpoint),
        Ok(_) => "EKS does not tell an endpoint".to_owned(),
        Err(no) => no.to_string(),
    };
    let name = &settings.cluster_name;
    Err(Failure::System(format!(
        "the API server's address for nodes is unknown: CLUSTER_ENDPOINT is not given, and for the cluster {name:?}: {why}"
    )))
}
