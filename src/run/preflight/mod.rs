//! Conditions for a start: the API server answers, our CRDs are there. Each refusal is one message that says what to do. Others
//! that may provision are reported; a start is refused only where that is proven.

pub mod ask;
pub mod aws;
mod look;
pub mod named;
pub mod older_crds;
mod others;
mod standing;

use std::collections::{BTreeMap, BTreeSet};

use dovetail_actors::reading::{LenientApi, kinds_served};
use dovetail_actors::{KubernetesVersion, Settings};
use dovetail_api::names::provider::Provider;
use dovetail_input::Failure;
use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::ListParams;
use kube::{Client, ResourceExt};

use ask::{Asker, Attempt, NoAnswer};
use look::each_page;
use others::{KeptDeployments, Others, Own, USUAL_NAMESPACES, find_others, held_leases, lease_names};

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
pub async fn version_now(client: &Client) -> Attempt<String> {
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

/// First version of Kubernetes that makes streams of lists unless it is told not to; then it refuses them, and lists come by pages.
const STREAMS_LISTS: KubernetesVersion = KubernetesVersion { major: 1, minor: 32 };

/// True if an API server of this version makes streams of lists.
pub fn streams_lists(version: &str) -> bool {
    numbers_of(version).is_some_and(|version| version >= STREAMS_LISTS)
}

fn numbers_of(version: &str) -> Option<KubernetesVersion> {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    Some(KubernetesVersion { major: numbers.next()??, minor: numbers.next()?? })
}

/// The API server is as new as the setting `KUBERNETES_MIN_VERSION` asks for.
pub fn new_enough(version: &str, least: KubernetesVersion) -> Result<(), Failure> {
    if numbers_of(version).is_none_or(|version| version >= least) {
        return Ok(());
    }
    Err(Failure::System(format!(
        "the API server is Kubernetes {version}, and KUBERNETES_MIN_VERSION (--kubernetes-min-version) is {least}"
    )))
}

/// Our kinds are served, with EC2's class.
pub async fn crds(asker: &Asker, client: &Client) -> Result<(), Failure> {
    crds_of(asker, client, Provider::Ec2).await
}

/// Our kinds are served, with a provider's class.
pub async fn crds_of(asker: &Asker, client: &Client, provider: Provider) -> Result<(), Failure> {
    let (mut missing, class) = (Vec::new(), provider.class());
    let class = (class.api_version(), class.kind, format!("{}.{}", class.plural, class.group));
    let shared = NEEDED.iter().filter(|(version, ..)| version.starts_with("karpenter.sh/"));
    let shared = shared.map(|(version, kind, name)| ((*version).to_owned(), *kind, (*name).to_owned()));
    let needed: Vec<(String, &str, String)> = shared.chain([class]).collect();
    for version in needed.iter().map(|(version, ..)| version).collect::<BTreeSet<_>>() {
        let known = kinds_of(asker, client, version).await?;
        let wanted = needed.iter().filter(|(of, kind, _)| of == version && !known.contains(*kind));
        missing.extend(wanted.map(|(version, _, name)| format!("{name} ({version})")));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let what = missing.join(", ");
    let of_provider =
        if provider == Provider::Ec2 { String::new() } else { format!(" --provider {}", provider.name()) };
    Err(Failure::System(format!(
        "CRDs are missing: {what}; install them with: dovetail crds{of_provider} | kubectl apply -f -"
    )))
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

/// Looks for others that provision, in a time of its own. What is found is told by `warn`; nothing of it is a reason to end, as
/// anybody may write such objects in a namespace. Answers the Leases that are to be watched ([`stand_by`]).
pub async fn find_rivals(
    asker: &Asker,
    client: &Client,
    settings: &Settings,
    now: jiff::Timestamp,
    warn: impl Fn(&str),
) -> Vec<SuspectLease> {
    let deployments = deployments(asker, client, &warn).await;
    let leases = leases(asker, client, &deployments, now, &warn).await;
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

/// Says that the cluster is seen in part.
fn warn_unseen(warn: &impl Fn(&str), why: &NoAnswer) {
    warn(&format!(
        "whether a Karpenter or a Cluster Autoscaler runs here cannot be seen in full: {why}; what was read until then counts"
    ));
}

/// The Deployments that are of interest, as far as they can be read. That there are more than are looked at is told by `warn`.
async fn deployments(asker: &Asker, client: &Client, warn: &impl Fn(&str)) -> Vec<Deployment> {
    let (asker, all) = (&asker.afresh(), &LenientApi::<Deployment>::all(client.clone()));
    let list = |page: ListParams| async move { asker.api("the cluster's Deployments", || all.list(&page)).await };
    let mut kept = KeptDeployments::default();
    let ended = each_page(ListParams::default().limit(PAGE), list, |found| {
        kept.keep_of_interest(found);
        true
    });
    if let Err(why) = ended.await {
        warn_unseen(warn, &why);
    }
    let KeptDeployments { kept, left_out, .. } = kept;
    if left_out > 0 {
        warn(&format!(
            "{left_out} more Deployments look like a Karpenter or a Cluster Autoscaler, and are not looked at"
        ));
    }
    kept
}

/// The Leases that are of interest, as far as they can be read. That there are more than are looked at is told by `warn`.
async fn leases(
    asker: &Asker,
    client: &Client,
    deployments: &[Deployment],
    now: jiff::Timestamp,
    warn: &impl Fn(&str),
) -> Vec<Lease> {
    let asker = asker.afresh();
    let mut names = vec![dovetail_api::names::LEASE_NAME.to_owned(), "cluster-autoscaler".to_owned()];
    let others = lease_names(deployments);
    if others.len() > MOST_LEASE_NAMES {
        let more = others.len() - MOST_LEASE_NAMES;
        warn(&format!("{more} more name(s) of Leases by which what looks like a Karpenter leads are not looked for"));
    }
    names.extend(others.into_iter().take(MOST_LEASE_NAMES));
    let place = |lease: Lease| ((lease.namespace(), lease.name_any()), lease);
    let mut leases: BTreeMap<_, _> = usual_leases(&asker, client, &names, now).await.into_iter().map(place).collect();
    let mut unseen = None;
    for name in &names {
        let (found, failed) = leases_named(&asker, client, name, now, warn).await;
        leases.extend(found.into_iter().map(place));
        let out_of_time = matches!(failed, Some(NoAnswer::InTime(_)));
        unseen = unseen.or(failed);
        if out_of_time {
            break;
        }
    }
    if let Some(why) = unseen {
        warn_unseen(warn, &why);
    }
    leases.into_values().collect()
}

/// The Leases of these names in the namespaces where a Karpenter usually runs, as far as they can be read: those that anybody
/// makes elsewhere, which are listed after them, take nothing of their time.
async fn usual_leases(asker: &Asker, client: &Client, names: &[String], now: jiff::Timestamp) -> Vec<Lease> {
    let places = USUAL_NAMESPACES.into_iter().flat_map(|namespace| names.iter().map(move |name| (namespace, name)));
    let found = places.map(|(namespace, name)| async move {
        let (own, page) = (LenientApi::<Lease>::namespaced(client.clone(), namespace), look::named(name));
        asker.api("a Lease", || own.list(&page)).await
    });
    join_all(found).await.into_iter().flatten().flat_map(|page| held_leases(page.items, now)).collect()
}

/// The Leases of a name that may be somebody's, and the error that kept more from being read. That there are more than are read
/// is told by `warn`.
async fn leases_named(
    asker: &Asker,
    client: &Client,
    name: &str,
    now: jiff::Timestamp,
    warn: &impl Fn(&str),
) -> (Vec<Lease>, Option<NoAnswer>) {
    let all = &LenientApi::<Lease>::all(client.clone());
    let list = |page: ListParams| async move { asker.api("the cluster's Leases", || all.list(&page)).await };
    let (mut leases, mut read) = (Vec::new(), 0);
    let ended = each_page(look::named(name).limit(PAGE), list, |found| {
        read += found.len();
        leases.extend(held_leases(found, now));
        read < MOST_LEASES
    });
    let ended = ended.await;
    if matches!(ended, Ok(false)) {
        warn(&format!("more than {MOST_LEASES} Leases are called {name}: the others are not looked at"));
    }
    (leases, ended.err())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::RefCell;
    use std::convert::Infallible;
    use std::future::Future;
    use std::time::Duration;

    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// A client of an API server that answers a path with its query by a status and a body.
    pub fn client<F>(answer: impl Fn(String) -> F + Send + 'static) -> Client
    where
        F: Future<Output = (u16, Value)> + Send + 'static,
    {
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let answer = answer(request.uri().to_string());
            async move {
                let (status, body) = answer.await;
                let mut response = http::Response::new(Body::from(body.to_string().into_bytes()));
                *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
                Ok::<_, Infallible>(response)
            }
        });
        Client::new(service, "default")
    }

    /// A page of objects, and the token of the next.
    pub fn list(items: &[Value], next: Option<&str>) -> Value {
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": next.unwrap_or_default()}, "items": items})
    }

    /// An API server's refusal.
    pub fn failure(code: u16) -> Value {
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "r", "message": "m"})
    }

    /// Lists, of which no second page can be had; none but those of all namespaces if there are `only_all`.
    fn first_pages_only(only_all: bool) -> Client {
        client(move |path| async move {
            let name = dovetail_api::names::LEASE_NAME;
            let lease = |namespace: &str| {
                json!({"metadata": {"name": name, "namespace": namespace}, "spec": {"holderIdentity": "x",
                    "leaseDurationSeconds": 15, "renewTime": "2100-01-01T00:00:00.000000Z"}})
            };
            let pod = json!({"spec": {"containers": [{"name": "c", "image": "karpenter/controller:1"}]}});
            let deployment =
                json!({"metadata": {"name": "kp", "namespace": "a"}, "spec": {"selector": {}, "template": pod}});
            match path.split('?').next().unwrap_or_default() {
                _ if path.contains("continue=") => (410, failure(410)),
                "/apis/apps/v1/deployments" => (200, list(&[deployment], Some("more"))),
                "/apis/coordination.k8s.io/v1/leases" => (200, list(&[lease("a")], Some("more"))),
                "/apis/coordination.k8s.io/v1/namespaces/karpenter/leases" if !only_all && path.contains(name) => {
                    (200, list(&[lease("karpenter")], None))
                }
                _ => (404, failure(404)),
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn search_keeps_what_was_read_and_has_its_own_time() {
        let asker = Asker::new("the API server", Duration::from_secs(2));
        tokio::time::advance(Duration::from_secs(3)).await;
        let given = [("CLUSTER_NAME".to_owned(), "demo".to_owned())];
        let settings = Settings::from_map(&given.into()).unwrap();
        for (only_all, expected) in [(true, ["a"].as_slice()), (false, ["karpenter", "a"].as_slice())] {
            let warned = RefCell::new(Vec::new());
            let warn = |text: &str| warned.borrow_mut().push(text.to_owned());
            let server = first_pages_only(only_all);
            let suspects = find_rivals(&asker, &server, &settings, jiff::Timestamp::UNIX_EPOCH, warn).await;
            let namespaces: Vec<&str> = suspects.iter().map(|one| one.namespace.as_str()).collect();
            assert_eq!(namespaces, expected);
            let said = |text: &str| warned.borrow().iter().filter(|line| line.contains(text)).count();
            assert_eq!((said("cannot be seen in full"), said("Deployment a/kp looks like")), (2, 1), "{warned:?}");
        }
    }
}
