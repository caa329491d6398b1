//! Conditions for a start: the API server answers, our CRDs are there. Each refusal is one message that says what to do. Others
//! that may provision are reported; a start is refused only where that is proven.

pub mod ask;
pub mod aws;
pub mod named;
pub mod older_crds;
mod others;
mod standing;

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

use ask::{Asker, Attempt, NoAnswer};
use others::{KeptDeployments, Others, Own, find_others, held_leases, lease_names};

pub use others::SuspectLease;
pub use standing::stand_by;

/// CRDs that have to be served: API version, kind, and the CRD's name.
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
/// Objects a page: anybody may make large ones.
const PAGE: u32 = 100;
/// Most Leases of one name that are read: who makes more of them has as many namespaces.
const MOST_LEASES: usize = 5000;
/// Most other names of Leases that are looked for.
const MOST_LEASE_NAMES: usize = 20;
/// No version of Kubernetes has numbers like this.
const MOST_NUMBER: u16 = 1000;
/// Findings that are reported one by one.
const MOST_NAMED: usize = 5;

/// The cluster as its API server tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreflightFacts {
    /// Version of the API server, such as `1.33`.
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
    let version = asker.ask("GET /version", || async { version_now(client).await }).await?;
    let namespaces: LenientApi<Namespace> = LenientApi::all(client.clone());
    let system = asker.api("namespace kube-system", || namespaces.get("kube-system")).await?;
    Ok(PreflightFacts { version, uid: system.metadata.uid.unwrap_or_default(), dns: None, service_cidr: None })
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

/// The API server's version now. An answer that is none is no reason to give up: what stands before an API server that starts
/// answers for it.
async fn version_now(client: &Client) -> Attempt<String> {
    match client.apiserver_version().await {
        Ok(answer) => version_of(&answer)
            .map_or_else(|| Attempt::NotYet("what it says is no version of Kubernetes".to_owned()), Attempt::Answer),
        Err(error) => ask::of_error(&error),
    }
}

/// Major and minor version as `1.33`, of an answer such as `1` and `33+`; none of what is no version.
pub fn version_of(answer: &Info) -> Option<String> {
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u16>().ok().filter(|number| *number < MOST_NUMBER)
    };
    let (major, minor) = (number(&answer.major)?, number(&answer.minor)?);
    (major > 0).then(|| format!("{major}.{minor}"))
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

/// Looks for others that provision. What is found is told by `warn`; nothing of it is a reason to end, as anybody may write such
/// objects in a namespace. Answers the Leases that are to be watched ([`stand_by`]).
pub async fn find_rivals(
    asker: &Asker,
    client: &Client,
    settings: &Settings,
    now: jiff::Timestamp,
    warn: impl Fn(&str),
) -> Vec<SuspectLease> {
    let (deployments, leases) = match everything(asker, client, now, &warn).await {
        Ok(everything) => everything,
        Err(NoAnswer::Never(why) | NoAnswer::InTime(why)) => {
            warn(&format!("whether a Karpenter or a Cluster Autoscaler runs here cannot be seen: {why}"));
            return Vec::new();
        }
    };
    let own = Own {
        namespace: &settings.lease_namespace,
        lease: &settings.lease_name,
        elects: !settings.disable_leader_election,
    };
    let Others { lookalikes, sharing, autoscalers, suspects } = find_others(&own, &deployments, &leases, now);
    for found in lookalikes.iter().take(MOST_NAMED) {
        warn(&format!(
            "{found} looks like a Karpenter that does not wait for our Lease: if it is one, both launch for the same pods; \
             scale it to 0, or run Dovetail in its namespace with its Lease"
        ));
    }
    if let Some(more) = unnamed(&lookalikes) {
        warn(&format!("{more} more Deployment(s) look like a Karpenter that does not wait for our Lease"));
    }
    for found in sharing.iter().take(MOST_NAMED) {
        warn(&format!("{found}: it shares our Lease, we stand by while it leads"));
    }
    if let Some(more) = unnamed(&sharing) {
        warn(&format!("{more} more share our Lease"));
    }
    if !autoscalers.is_empty() {
        let more = unnamed(&autoscalers).map(|more| format!("and {more} more"));
        let found: Vec<String> = autoscalers.into_iter().take(MOST_NAMED).chain(more).collect();
        let found = found.join("; ");
        warn(&format!("a Cluster Autoscaler runs here ({found}): both will answer the same pods, scale it to 0"));
    }
    for SuspectLease { namespace, name, holder, duration, .. } in suspects.iter().take(MOST_NAMED) {
        let seconds = duration.as_secs();
        warn(&format!(
            "Lease {namespace}/{name} is held by {holder}: this replica stands by for {seconds} s at most, to see whether a \
             Karpenter is at work there"
        ));
    }
    suspects
}

/// Number of names beyond [`MOST_NAMED`]; none if all are named.
fn unnamed(found: &[String]) -> Option<usize> {
    found.len().checked_sub(MOST_NAMED).filter(|more| *more > 0)
}

/// The Deployments and Leases that are of interest. That there are more than are looked at is told by `warn`.
async fn everything(
    asker: &Asker,
    client: &Client,
    now: jiff::Timestamp,
    warn: &impl Fn(&str),
) -> Result<(Vec<Deployment>, Vec<Lease>), NoAnswer> {
    let all: LenientApi<Deployment> = LenientApi::all(client.clone());
    let mut kept = KeptDeployments::default();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let found = asker.api("the cluster's Deployments", || all.list(&page)).await?;
        kept.keep_of_interest(found.items);
        let Some(token) = found.continues else { break };
        page = page.continue_token(&token);
    }
    let KeptDeployments { kept: deployments, left_out, .. } = kept;
    if left_out > 0 {
        warn(&format!(
            "{left_out} more Deployments look like a Karpenter or a Cluster Autoscaler, and are not looked at"
        ));
    }
    let mut names = vec![dovetail_api::names::LEASE_NAME.to_owned(), "cluster-autoscaler".to_owned()];
    let others = lease_names(&deployments);
    if others.len() > MOST_LEASE_NAMES {
        let more = others.len() - MOST_LEASE_NAMES;
        warn(&format!("{more} more name(s) of Leases by which what looks like a Karpenter leads are not looked for"));
    }
    names.extend(others.into_iter().take(MOST_LEASE_NAMES));
    let mut leases = Vec::new();
    for name in names {
        leases.extend(leases_named(asker, client, &name, now, warn).await?);
    }
    Ok((deployments, leases))
}

/// The Leases of a name that may be somebody's. That there are more than are read is told by `warn`.
async fn leases_named(
    asker: &Asker,
    client: &Client,
    name: &str,
    now: jiff::Timestamp,
    warn: &impl Fn(&str),
) -> Result<Vec<Lease>, NoAnswer> {
    let all: LenientApi<Lease> = LenientApi::all(client.clone());
    let mut page = ListParams::default().fields(&format!("metadata.name={name}")).limit(PAGE);
    let (mut leases, mut read) = (Vec::new(), 0);
    loop {
        let found = asker.api("the cluster's Leases", || all.list(&page)).await?;
        read += found.items.len();
        leases.extend(held_leases(found.items, now));
        let Some(token) = found.continues else { return Ok(leases) };
        if read >= MOST_LEASES {
            warn(&format!("more than {MOST_LEASES} Leases are called {name}: the others are not looked at"));
            return Ok(leases);
        }
        page = page.continue_token(&token);
    }
}
