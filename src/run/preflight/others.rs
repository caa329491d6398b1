//! Other provisioners of this cluster: a Karpenter, or another Dovetail, outside of our Lease; a Cluster Autoscaler. All of this
//! is what objects in somebody's namespace say: it is a reason to look closer (`standing.rs` here), never one to end. The finding
//! is pure; `mod.rs` here asks the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dovetail_core::lease::STRANGERS_WAIT;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

/// Longest holder of a Lease that is somebody's, in bytes: the name of a pod and a UUID are shorter.
const LONGEST_HOLDER: usize = 512;
/// Number of its durations within which a Lease that was renewed may be alive.
const ALIVE: u32 = 3;
/// Seconds that a Lease lasts which does not say so: client-go's default.
const USUAL_DURATION: i32 = 15;
/// Names a program, whatever the chart calls it.
const NAME_LABELS: [&str; 3] = ["app.kubernetes.io/name", "k8s-app", "app"];
const KARPENTER: &str = "karpenter";
/// Namespaces in which a Karpenter usually runs.
pub const USUAL_NAMESPACES: [&str; 2] = ["karpenter", "kube-system"];
/// Most Deployments that look like a Karpenter or a Cluster Autoscaler, in all and of one namespace.
const MOST_KEPT: usize = 100;
const MOST_OF_NAMESPACE: usize = 5;
const AUTOSCALER: &str = "cluster-autoscaler";

/// Our own place.
pub struct Own<'a> {
    /// The Lease's namespace.
    pub namespace: &'a str,
    /// The Lease's name.
    pub lease: &'a str,
    /// True if we heed our Lease.
    pub elects: bool,
}

/// Other provisioners found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Looks like a Karpenter that does not wait for our Lease: each as a sentence.
    pub lookalikes: Vec<String>,
    /// Shares our Lease: only one of us leads.
    pub sharing: Vec<String>,
    /// Cluster Autoscalers.
    pub autoscalers: Vec<String>,
    /// Leases by which something may lead beside us.
    pub suspects: Vec<SuspectLease>,
}

/// A Lease by which something may lead beside us, as it was seen first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuspectLease {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Holder of the Lease.
    pub holder: String,
    /// Duration of the Lease, as far as it is believed.
    pub duration: Duration,
    /// Accounts (namespace and name) of Deployments that say that they lead by it.
    pub accounts: Vec<(String, String)>,
}

/// The Deployments that are looked at: few of each namespace, as anybody may make any number of them in one.
#[derive(Debug, Default)]
pub struct KeptDeployments {
    /// These.
    pub kept: Vec<Deployment>,
    /// Number of the others that are of interest.
    pub left_out: usize,
    by_namespace: BTreeMap<String, usize>,
}

impl KeptDeployments {
    /// Keeps those of interest, as far as there is room.
    pub fn keep_of_interest(&mut self, found: Vec<Deployment>) {
        for deployment in found.into_iter().filter(is_of_interest) {
            let namespace = deployment.namespace().unwrap_or_default();
            let room = self.kept.len() < MOST_KEPT || !is_unusual(&namespace);
            let own = self.by_namespace.entry(namespace).or_default();
            *own += 1;
            if *own <= MOST_OF_NAMESPACE && room {
                self.kept.push(deployment);
            } else {
                self.left_out += 1;
            }
        }
    }
}

/// Keeps of Leases those that may be somebody's, without what is not looked at: anybody may make large ones.
pub fn held_leases(found: Vec<Lease>, now: Timestamp) -> impl Iterator<Item = Lease> {
    found.into_iter().filter(move |one| is_held(one, now)).map(stripped)
}

/// The Lease without what is not looked at.
pub fn stripped(lease: Lease) -> Lease {
    let holder_identity = holder(&lease).map(str::to_owned);
    let ObjectMeta { name, namespace, .. } = lease.metadata;
    let spec = lease.spec.map(|LeaseSpec { lease_duration_seconds, renew_time, .. }| LeaseSpec {
        holder_identity,
        lease_duration_seconds,
        renew_time,
        ..LeaseSpec::default()
    });
    Lease { metadata: ObjectMeta { name, namespace, ..ObjectMeta::default() }, spec }
}

/// True if [`find_others`] looks at the Deployment.
fn is_of_interest(deployment: &Deployment) -> bool {
    wants_to_run(deployment)
        && (is(deployment, AUTOSCALER, "cluster-autoscaler") || is(deployment, KARPENTER, "karpenter/controller"))
}

/// Names of the Leases by which what looks like a Karpenter leads, where they are not the default.
pub fn lease_names(deployments: &[Deployment]) -> Vec<String> {
    let of_karpenters = deployments.iter().filter(|one| is(one, KARPENTER, "karpenter/controller"));
    let named = |one: &Deployment| Some((is_unusual(&one.namespace()?), held_lease(one)?.1));
    let mut names: Vec<(bool, String)> = of_karpenters.filter_map(named).collect();
    names.retain(|(_, name)| name != dovetail_api::names::LEASE_NAME && name != AUTOSCALER);
    names.sort_unstable();
    let mut known = BTreeSet::new();
    names.into_iter().map(|(_, name)| name).filter(|name| known.insert(name.clone())).collect()
}

/// Looks through what runs in the cluster. Findings of the namespaces where a Karpenter usually runs come first.
pub fn find_others(own: &Own<'_>, deployments: &[Deployment], leases: &[Lease], now: Timestamp) -> Others {
    let mut others = Others::default();
    let mut led: Vec<((String, String), (String, String))> = Vec::new();
    for deployment in usual_first(deployments).into_iter().filter(|one| wants_to_run(one)) {
        let namespace = deployment.namespace().unwrap_or_default();
        let at = format!("Deployment {namespace}/{}", deployment.name_any());
        if is(deployment, AUTOSCALER, "cluster-autoscaler") {
            others.autoscalers.push(at);
        } else if is(deployment, KARPENTER, "karpenter/controller") {
            let lease = held_lease(deployment);
            led.extend(lease.clone().map(|lease| (lease, (namespace, account(deployment)))));
            let shares = own.elects && lease == Some((own.namespace.into(), own.lease.into()));
            if shares { others.sharing.push(at) } else { others.lookalikes.push(at) }
        }
    }
    for lease in usual_first(leases).into_iter().filter(|one| is_held(one, now)) {
        let (namespace, name) = (lease.namespace().unwrap_or_default(), lease.name_any());
        let holder = holder(lease).unwrap_or_default().to_owned();
        if name == AUTOSCALER {
            others.autoscalers.push(format!("Lease {namespace}/{name}, held by {holder}"));
        } else if own.elects && namespace == own.namespace && name == own.lease {
            others.sharing.push(format!("Lease {namespace}/{name} is held by {holder}"));
        } else {
            let place = (namespace, name);
            let accounts =
                led.iter().filter(|(lease, _)| *lease == place).map(|(_, account)| account.clone()).collect();
            let (namespace, name) = place;
            // One of another name is only asked for as some Deployment says that it leads by it, which may be elsewhere.
            let said = name == dovetail_api::names::LEASE_NAME || !Vec::is_empty(&accounts);
            let suspect = SuspectLease { namespace, name, holder, duration: believed_duration(lease), accounts };
            others.suspects.extend(Some(suspect).filter(|_| said));
        }
    }
    others
}

/// The objects, those of the usual namespaces first.
fn usual_first<K: ResourceExt>(found: &[K]) -> Vec<&K> {
    let mut found: Vec<&K> = found.iter().collect();
    found.sort_by_cached_key(|one| is_unusual(&one.namespace().unwrap_or_default()));
    found
}

/// False of a namespace where a Karpenter usually runs, in which only administrators write: its objects come first.
pub fn is_unusual(namespace: &str) -> bool {
    !USUAL_NAMESPACES.contains(&namespace)
}

/// Holder of a Lease, if it has one that is no longer than anybody's is.
pub fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| (1..=LONGEST_HOLDER).contains(&holder.len()))
}

/// Time that a Lease lasts without a renewal, as far as that is believed of whoever may write one.
pub fn believed_duration(lease: &Lease) -> Duration {
    let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or(USUAL_DURATION);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(1).max(1)).min(STRANGERS_WAIT)
}

/// The ServiceAccount of a Deployment's pods.
fn account(deployment: &Deployment) -> String {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    pod.and_then(|pod| pod.service_account_name.clone()).unwrap_or_else(|| "default".to_owned())
}

/// Namespace and name of the Lease by which a Karpenter leads; none where it heeds none, or that cannot be told.
///
/// By default that is in its Deployment's namespace, and has Karpenter's own name.
fn held_lease(deployment: &Deployment) -> Option<(String, String)> {
    const DEFAULT: &str = dovetail_api::names::LEASE_NAME;
    let own = deployment.namespace().unwrap_or_default();
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let said = |name: &str| pod.containers.iter().map(|one| setting(one, name)).find(|said| *said != Said::Nothing);
    let leaderless = match said("DISABLE_LEADER_ELECTION") {
        Some(Said::Text(text)) => text.is_empty() || text == "true",
        other => other == Some(Said::Elsewhere),
    };
    // As it was said before Karpenter 1.0.
    let unelected = match said("LEADER_ELECT") {
        Some(Said::Text(text)) => text == "false",
        other => other == Some(Said::Elsewhere),
    };
    let text = |name: &str, unless: &str| match said(name) {
        Some(Said::Elsewhere) => None,
        Some(Said::Text(text)) if !text.is_empty() => Some(text),
        Some(_) | None => Some(unless.to_owned()),
    };
    let lease = Some((text("LEADER_ELECTION_NAMESPACE", &own)?, text("LEADER_ELECTION_NAME", DEFAULT)?));
    lease.filter(|_| !leaderless && !unelected)
}

/// The value that a container has for a setting.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    Text(String),
    /// By a ConfigMap, a Secret or a field of the pod, which is not looked up.
    Elsewhere,
}

/// By its flag, which wins, or by its variable.
fn setting(container: &Container, name: &str) -> Said {
    let flag = format!("--{}", name.to_ascii_lowercase().replace('_', "-"));
    let words: Vec<&String> = container.command.iter().chain(&container.args).flatten().collect();
    for (at, word) in words.iter().enumerate() {
        match word.split_once('=') {
            Some((key, value)) if key == flag => return Said::Text(value.to_owned()),
            None if **word == flag => {
                let next = words.get(at + 1).filter(|next| !next.starts_with('-'));
                return Said::Text(next.map_or_else(String::new, |next| (*next).clone()));
            }
            _ => {}
        }
    }
    match container.env.iter().flatten().find(|one| one.name == name) {
        None => Said::Nothing,
        Some(one) if one.value_from.is_some() => Said::Elsewhere,
        Some(one) => one.value.clone().map_or(Said::Nothing, Said::Text),
    }
}

fn wants_to_run(deployment: &Deployment) -> bool {
    deployment.spec.as_ref().is_some_and(|spec| spec.replicas.unwrap_or(1) > 0)
        && deployment.metadata.deletion_timestamp.is_none()
}

/// By its containers' images; by its labels only where no image says that it is ours.
fn is(deployment: &Deployment, name: &str, image: &str) -> bool {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let images: Vec<&str> =
        pod.iter().flat_map(|pod| &pod.containers).filter_map(|container| container.image.as_deref()).collect();
    let labelled = NAME_LABELS.iter().any(|label| deployment.labels().get(*label).is_some_and(|value| value == name));
    let ours = images.iter().any(|image| image.contains("dovetail"));
    images.iter().any(|found| found.contains(image)) || (labelled && !ours)
}

/// True if a Lease may be somebody's: held, and renewed of late by its own time.
fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let Some(renewed) = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()) else { return false };
    let age = Duration::try_from(now.duration_since(renewed.0));
    // One that was renewed in what is the future to us may be of a machine whose clock is ahead.
    holder(lease).is_some() && age.map_or(true, |age| age <= believed_duration(lease) * ALIVE)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);
    const OWN: Own<'_> = Own { namespace: "kube-system", lease: "karpenter-leader-election", elects: true };

    fn deployment(namespace: &str, name: &str, image: &str, replicas: i32, label: &str) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": label}},
            "spec": {"replicas": replicas, "selector": {}, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}},
        }))
        .unwrap()
    }

    fn lease(namespace: &str, name: &str, holder: &str, age: i64) -> Lease {
        let renewed = NOW - jiff::SignedDuration::from_secs(age);
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": format!("{renewed:.6}")},
        }))
        .unwrap()
    }

    const IMAGE: &str = "public.ecr.aws/karpenter/controller:1.14.0";

    #[test]
    fn karpenter_in_another_namespace_only_looks_like_one() {
        let by_image = deployment("karpenter", "kp", IMAGE, 2, "whatever");
        let by_label = deployment("infra", "kp", "registry.internal/mirror@sha256:00", 1, "karpenter");
        let found = find_others(&OWN, &[by_image, by_label], &[], NOW);
        assert_eq!(found.lookalikes, ["Deployment karpenter/kp", "Deployment infra/kp"]);
        assert!(found.sharing.is_empty() && found.suspects.is_empty());
    }

    #[test]
    fn karpenter_scaled_down_or_sharing_our_lease_does_not() {
        let down = deployment("karpenter", "karpenter", IMAGE, 0, "karpenter");
        let beside = deployment("kube-system", "karpenter", IMAGE, 2, "karpenter");
        let found = find_others(&OWN, &[down, beside.clone()], &[], NOW);
        assert_eq!((found.lookalikes.len(), found.sharing.len()), (0, 1));
        for own in [Own { elects: false, ..OWN }, Own { lease: "another", ..OWN }] {
            assert_eq!(find_others(&own, std::slice::from_ref(&beside), &[], NOW).lookalikes.len(), 1);
        }
    }

    #[test]
    fn karpenter_of_another_lease_is_told_from_one_that_waits() {
        let told = |namespace: &str, container: serde_json::Value| {
            let mut one = deployment(namespace, "karpenter", IMAGE, 1, "karpenter");
            let pod = one.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()).unwrap();
            let mut whole = serde_json::to_value(&pod.containers[0]).unwrap();
            whole.as_object_mut().unwrap().extend(container.as_object().cloned().unwrap());
            pod.containers[0] = serde_json::from_value(whole).unwrap();
            let found = find_others(&OWN, &[one], &[], NOW);
            (found.lookalikes.len(), found.sharing.len())
        };
        let env = |name: &str, value: &str| json!({"env": [{"name": name, "value": value}]});
        for rival in [
            env("LEADER_ELECTION_NAME", "another"),
            env("LEADER_ELECTION_NAMESPACE", "karpenter"),
            env("DISABLE_LEADER_ELECTION", "true"),
            env("LEADER_ELECT", "false"),
            json!({"args": ["--leader-election-name=another"]}),
            json!({"args": ["--leader-election-name", "another"]}),
            json!({"args": ["--disable-leader-election"]}),
            json!({"env": [{"name": "LEADER_ELECTION_NAME", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]}),
        ] {
            assert_eq!(told("kube-system", rival.clone()), (1, 0), "{rival}");
        }
        for sharing in [
            env("LEADER_ELECTION_NAME", "karpenter-leader-election"),
            env("LEADER_ELECTION_NAME", ""),
            env("DISABLE_LEADER_ELECTION", "false"),
            env("LEADER_ELECT", "true"),
            json!({"args": ["--disable-leader-election=false", "--log-level", "debug"]}),
        ] {
            assert_eq!(told("kube-system", sharing.clone()), (0, 1), "{sharing}");
        }
        assert_eq!(
            told("karpenter", env("LEADER_ELECTION_NAMESPACE", "kube-system")),
            (0, 1),
            "it waits for our Lease"
        );
    }

    #[test]
    fn our_own_deployment_is_nobody_else_whatever_its_name() {
        let own = deployment("elsewhere", "karpenter", "registry.internal/dovetail:0.1.0", 2, "karpenter");
        assert_eq!(find_others(&OWN, &[own], &[], NOW), Others::default());
    }

    #[test]
    fn lease_renewed_elsewhere_is_watched_and_an_expired_one_is_not() {
        let name = "karpenter-leader-election";
        let found =
            find_others(&OWN, &[], &[lease("karpenter", name, "kp-1", 2), lease("old", name, "kp-0", 300)], NOW);
        let duration = Duration::from_secs(15);
        let (namespace, holder) = ("karpenter".to_owned(), "kp-1".to_owned());
        let expected = SuspectLease { namespace, name: name.to_owned(), holder, duration, accounts: vec![] };
        assert_eq!(found.suspects, [expected]);
        let ahead = find_others(&OWN, &[], &[lease("karpenter", name, "kp-1", -2_000_000_000)], NOW);
        assert_eq!(ahead.suspects.len(), 1, "a clock that is ahead hides nobody");
        let given_back = find_others(&OWN, &[], &[lease("karpenter", name, "", 2)], NOW);
        assert_eq!(given_back, Others::default());
        let ours = find_others(&OWN, &[], &[lease("kube-system", name, "kp-1", 2)], NOW);
        assert_eq!((ours.sharing.len(), ours.suspects.len()), (1, 0));
    }

    #[test]
    fn holder_longer_than_any_pod_s_is_nobody() {
        let held = |length: usize| lease("a", "karpenter-leader-election", &"x".repeat(length), 2);
        assert_eq!(held_leases(vec![held(LONGEST_HOLDER), held(LONGEST_HOLDER + 1)], NOW).count(), 1);
        assert_eq!(stripped(held(LONGEST_HOLDER + 1)).spec.unwrap().holder_identity, None);
    }

    #[test]
    fn a_stranger_s_duration_is_bounded() {
        let lasting = |seconds: i32| {
            let mut one = lease("a", "karpenter-leader-election", "x", 200);
            one.spec.as_mut().unwrap().lease_duration_seconds = Some(seconds);
            one
        };
        for (seconds, believed) in [(i32::MAX, 60), (61, 60), (15, 15), (0, 1), (i32::MIN, 1)] {
            assert_eq!(believed_duration(&lasting(seconds)).as_secs(), believed, "{seconds}");
        }
        assert!(
            find_others(&OWN, &[], &[lasting(i32::MAX)], NOW - jiff::SignedDuration::from_secs(21)).suspects.len() == 1
        );
        assert!(find_others(&OWN, &[], &[lasting(i32::MAX)], NOW).suspects.is_empty(), "renewed 200 seconds ago");
    }

    #[test]
    fn lease_of_another_name_is_watched_if_a_deployment_leads_by_it() {
        let mut karpenter = deployment("karpenter", "karpenter", IMAGE, 1, "karpenter");
        let pod = karpenter.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()).unwrap();
        pod.service_account_name = Some("kp".to_owned());
        pod.containers[0].args = Some(vec!["--leader-election-name=mine".to_owned()]);
        assert_eq!(lease_names(std::slice::from_ref(&karpenter)), ["mine"]);
        let leases = [lease("karpenter", "mine", "kp-1", 2), lease("evil", "mine", "kp-1", 2)];
        let found = find_others(&OWN, &[karpenter], &leases, NOW);
        let accounts: Vec<_> =
            found.suspects.iter().map(|one| (one.namespace.as_str(), one.accounts.clone())).collect();
        assert_eq!(accounts, [("karpenter", vec![("karpenter".to_owned(), "kp".to_owned())])]);
    }

    #[test]
    fn made_up_deployments_and_leases_hide_no_others() {
        let mut kept = KeptDeployments::default();
        let named = |name: &str| {
            let mut one = deployment("aaa", name, IMAGE, 1, "karpenter");
            let pod = one.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()).unwrap();
            pod.containers[0].args = Some(vec![format!("--leader-election-name={name}")]);
            one
        };
        kept.keep_of_interest((0..300).map(|nth| named(&format!("a{nth}"))).collect());
        let elsewhere = |nth: usize| deployment(&format!("b{nth}"), "kp", IMAGE, 1, "karpenter");
        kept.keep_of_interest((0..100).map(elsewhere).collect());
        let mut real = named("mine");
        real.metadata.namespace = Some("karpenter".to_owned());
        kept.keep_of_interest(vec![real]);
        assert_eq!((kept.kept.len(), kept.left_out), (101, 300));
        assert_eq!(lease_names(&kept.kept)[0], "mine", "names of a usual namespace come first");
        let mut leases: Vec<Lease> =
            (0..300).map(|nth| lease(&format!("a{nth}"), "karpenter-leader-election", "x", 2)).collect();
        leases.push(lease("karpenter", "karpenter-leader-election", "kp-1", 2));
        leases[0].metadata.annotations = Some([("large".to_owned(), "x".repeat(1000))].into());
        let leases: Vec<Lease> = held_leases(leases, NOW).collect();
        assert!(leases[0].metadata.annotations.is_none());
        let found = find_others(&OWN, &kept.kept, &leases, NOW);
        assert_eq!(found.lookalikes[0], "Deployment karpenter/mine", "it is named, not only counted");
        assert_eq!((found.suspects.len(), found.suspects[0].namespace.as_str()), (301, "karpenter"));
    }

    #[test]
    fn a_cluster_autoscaler_is_told_apart() {
        let image = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0";
        let found = find_others(
            &OWN,
            &[deployment("kube-system", "ca", image, 1, "aws-cluster-autoscaler")],
            &[lease("kube-system", "cluster-autoscaler", "ca-1", 1)],
            NOW,
        );
        assert_eq!((found.autoscalers.len(), found.lookalikes.len()), (2, 0));
    }
}
