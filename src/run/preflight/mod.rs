//! What has to be so before anything is done: the API server answers, our CRDs are there, nobody else provisions. Each
//! refusal is one message that says what to do.

pub mod ask;
pub mod aws;
pub mod named;
pub mod older_crds;
mod others;

use std::collections::BTreeSet;

use dovetail_actors::reading::{LenientApi, kinds_served};
use dovetail_actors::{KubernetesVersion, Settings};
use dovetail_input::Failure;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Client;
use kube::api::ListParams;

use ask::{Asker, NoAnswer};
use others::{Others, Own, find_others};

/// What has to be mapped: API version, kind, and the CRD's name.
pub const NEEDED: [(&str, &str, &str); 3] = [
    ("karpenter.sh/v1", "NodePool", "nodepools.karpenter.sh"),
    ("karpenter.sh/v1", "NodeClaim", "nodeclaims.karpenter.sh"),
    ("karpenter.k8s.aws/v1", "EC2NodeClass", "ec2nodeclasses.karpenter.k8s.aws"),
];
/// API versions and kinds that were before v1, and what to do where they are served.
type Older = (&'static [(&'static str, &'static [&'static str])], &'static str);
const OLDER: [Older; 1] = [(
    &[("karpenter.sh/v1beta1", &["NodePool", "NodeClaim"]), ("karpenter.k8s.aws/v1beta1", &["EC2NodeClass"])],
    "the installed CRDs serve them and nothing here converts them: an object that is written so cannot be used; set \
     WEBHOOK_ENABLED (the chart: webhook.enabled), or install our CRDs, which serve v1 alone (dovetail crds | kubectl \
     apply -f -), and apply such manifests as v1",
)];
/// Objects a page.
const PAGE: u32 = 500;

/// The cluster as its API server tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreflightFacts {
    /// `1.33`.
    pub version: String,
    /// UID of the namespace kube-system: by it the cluster is told from another of its name.
    pub uid: String,
    /// Address of the service kube-dns.
    pub dns: Option<String>,
    /// Addresses of services.
    pub service_cidr: Option<String>,
}

/// Asks the API server who it is. It is waited for. What only nodes need is left out.
pub async fn identity(asker: &Asker, client: &Client) -> Result<PreflightFacts, Failure> {
    let version = asker.api("GET /version", || client.apiserver_version()).await?;
    let namespaces: LenientApi<Namespace> = LenientApi::all(client.clone());
    let system = asker.api("namespace kube-system", || namespaces.get("kube-system")).await?;
    Ok(PreflightFacts {
        version: version_of(&version).unwrap_or_default(),
        uid: system.metadata.uid.unwrap_or_default(),
        dns: None,
        service_cidr: None,
    })
}

/// Asks the API server who it is, and what nodes need to know of it. It is waited for.
pub async fn facts(asker: &Asker, client: &Client) -> Result<PreflightFacts, Failure> {
    let identity = identity(asker, client).await?;
    // These help nodes to start, and not every cluster has them.
    let services: LenientApi<Service> = LenientApi::namespaced(client.clone(), "kube-system");
    let dns = asker.api("service kube-dns", || services.get_opt("kube-dns")).await.ok().flatten();
    let cidrs: LenientApi<ServiceCIDR> = LenientApi::all(client.clone());
    let cidr = asker.api("servicecidr kubernetes", || cidrs.get_opt("kubernetes")).await.ok().flatten();
    Ok(PreflightFacts {
        dns: dns.and_then(|service| service.spec?.cluster_ip).filter(|address| address != "None"),
        service_cidr: cidr.and_then(|cidr| cidr.spec?.cidrs?.into_iter().next()),
        ..identity
    })
}

/// Major and minor version as `1.33`, of an answer such as `1` and `33+`.
pub fn version_of(answer: &Info) -> Option<String> {
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let (major, minor) = (digits(&answer.major), digits(&answer.minor));
    (!major.is_empty() && !minor.is_empty()).then(|| format!("{major}.{minor}"))
}

/// The API server is as new as the setting `KUBERNETES_MIN_VERSION` asks for.
pub fn new_enough(version: &str, least: KubernetesVersion) -> Result<(), Failure> {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) else { return Ok(()) };
    if (KubernetesVersion { major, minor }) >= least {
        return Ok(());
    }
    Err(Failure::System(format!(
        "the API server is Kubernetes {version}, and KUBERNETES_MIN_VERSION (--kubernetes-min-version) is {least}"
    )))
}

/// Our kinds are served.
pub async fn crds(asker: &Asker, client: &Client) -> Result<(), Failure> {
    let mut missing = Vec::new();
    for version in NEEDED.iter().map(|(version, ..)| *version).collect::<BTreeSet<_>>() {
        let known = kinds_of(asker, client, version).await?;
        let wanted = NEEDED.iter().filter(|(of, kind, _)| *of == version && !known.contains(*kind));
        missing.extend(wanted.map(|(version, _, name)| format!("{name} ({version})")));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let what = missing.join(", ");
    Err(Failure::System(format!("CRDs are missing: {what}; install them with: dovetail crds | kubectl apply -f -")))
}

/// The kinds that are served of an API version; none where it is not served.
async fn kinds_of(asker: &Asker, client: &Client, version: &str) -> Result<BTreeSet<String>, Failure> {
    let what = format!("the kinds of {version}");
    Ok(asker.api(&what, || kinds_served(client, version)).await?)
}

/// Kinds that were before v1: nothing in the cluster converts what is written in them, but v1beta1 where our webhook
/// `converts`. That they are served is told by `warn`. The alpha kinds are translated.
pub async fn older_kinds(asker: &Asker, client: &Client, converts: bool, warn: impl Fn(&str)) -> Result<(), Failure> {
    for (older, remedy) in OLDER.into_iter().skip(usize::from(converts)) {
        let mut served = Vec::new();
        for (version, kinds) in older {
            let known = kinds_of(asker, client, version).await?;
            let of_version = kinds.iter().filter(|kind| known.contains(**kind));
            served.extend(of_version.map(|kind| format!("{kind} of {version}")));
        }
        if !served.is_empty() {
            warn(&format!("{}: {remedy}", served.join(", ")));
        }
    }
    Ok(())
}

/// Nobody else provisions. What is no reason to refuse is told by `warn`.
pub async fn alone(
    asker: &Asker,
    client: &Client,
    settings: &Settings,
    now: jiff::Timestamp,
    warn: impl Fn(&str),
) -> Result<(), Failure> {
    let (deployments, leases) = match everything(asker, client).await {
        Ok(everything) => everything,
        Err(NoAnswer::Never(why)) => {
            warn(&format!("whether a Karpenter or a Cluster Autoscaler runs here cannot be seen: {why}"));
            return Ok(());
        }
        Err(no) => return Err(no.into()),
    };
    let own = Own {
        namespace: &settings.lease_namespace,
        lease: &settings.lease_name,
        elects: !settings.disable_leader_election,
    };
    let Others { rivals, sharing, autoscalers } = find_others(&own, &deployments, &leases, now);
    if !rivals.is_empty() {
        let found = rivals.join("; ");
        let remedy = "two of them would launch twice: scale it to 0, or run Dovetail in its namespace with its Lease";
        return Err(Failure::System(format!("something else provisions in this cluster: {found}; {remedy}")));
    }
    for found in sharing {
        warn(&format!("{found}: it shares our Lease, we stand by while it leads"));
    }
    if !autoscalers.is_empty() {
        let found = autoscalers.join("; ");
        warn(&format!("a Cluster Autoscaler runs here ({found}): both will answer the same pods, scale it to 0"));
    }
    Ok(())
}

async fn everything(asker: &Asker, client: &Client) -> Result<(Vec<Deployment>, Vec<Lease>), NoAnswer> {
    let all: LenientApi<Deployment> = LenientApi::all(client.clone());
    let mut deployments = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let found = asker.api("the cluster's Deployments", || all.list(&page)).await?;
        deployments.extend(found.items);
        match found.continues {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    let all: LenientApi<Lease> = LenientApi::all(client.clone());
    let mut leases = Vec::new();
    for name in [dovetail_api::names::LEASE_NAME, "cluster-autoscaler"] {
        let named = ListParams::default().fields(&format!("metadata.name={name}"));
        leases.extend(asker.api("the cluster's Leases", || all.list(&named)).await?.items);
    }
    Ok((deployments, leases))
}
