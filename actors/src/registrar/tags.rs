//! After registration: tags that instances get once their Nodes are known (aws spec 4.6, 6), and claims of capacity
//! reservations whose instances are on demand by now.
//!
//! Both look at many instances by one DescribeInstances. Each instance gets tags of its own, so each takes a CreateTags;
//! these go side by side, ten at once. Nothing waits for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::{annotations, labels, tags};
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::cloud::instance_id;
use dovetail_cloud::{CloudError, Instance};
use dovetail_core::lifecycle::{self, ClaimStage};
use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::{Registrar, RegistrarLinks};
use crate::context::backoff::Backoff;
use crate::context::brakes::Brakes;
use crate::kube::calls::CallError;
use crate::kube::claims::NodeClaimApi;
use crate::kube::nodes::Nodes;
use crate::messages::Wrote;
use crate::owner::owned::OwnershipVerdict;
use crate::telemetry::log_event::LogEvent;

/// Number of instances tagged at once.
const AT_ONCE: usize = 10;
/// Most instances of one DescribeInstances call; they are tagged before the next: EC2 allows ten CreateTags a second.
const MOST: usize = 100;
/// Pauses after a failure: from one look to the next to a quarter of an hour.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(15 * 60);
/// Interval at which reserved instances are checked (aws spec 6).
const RESERVED_INTERVAL: Duration = Duration::from_secs(60);

/// Work under way after registration, and the time of the next.
pub(super) struct AfterRegistration {
    busy: bool,
    next: Duration,
    next_reserved: Duration,
    backoff: Backoff,
    rng: fastrand::Rng,
    /// By uid of claims whose instances could not be tagged: when each is tried again. They keep no other waiting.
    undone: Brakes,
}

/// The result of a check of claims.
struct Done {
    /// The uids of those for which all is done, and of those that have to be tried again.
    done: Vec<String>,
    undone: Vec<String>,
    /// The first error of the cloud's; `whole`: it stands in the way of all.
    error: Option<CloudError>,
    whole: bool,
}

impl Done {
    fn nothing(error: CloudError) -> Self {
        Self { done: Vec::new(), undone: Vec::new(), error: Some(error), whole: true }
    }
}

impl AfterRegistration {
    /// State at the start of a term.
    pub fn new(mut rng: fastrand::Rng) -> Self {
        Self {
            busy: false,
            next: Duration::ZERO,
            next_reserved: Duration::ZERO,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, rng.fork()),
            rng,
            undone: Brakes::new(FIRST_PAUSE, LONGEST_PAUSE),
        }
    }

    /// True if the claim may be tried now.
    fn tries(&self, claim: &NodeClaim, now: Duration) -> bool {
        !self.undone.hold(uid(claim), None, now)
    }

    /// Notes the outcome: undone work waits ever longer. Returns true if an error is news.
    fn learn(&mut self, done: &Done, now: Duration) -> bool {
        self.busy = false;
        if done.whole {
            self.next = now + self.backoff.pause();
            return self.backoff.failures() == 1;
        }
        self.backoff.reset();
        for uid in &done.done {
            self.undone.forget(uid);
        }
        let mut news = false;
        for uid in &done.undone {
            news |= !self.undone.is_known(uid);
            self.undone.failed(uid, None, now, || self.rng.fork());
        }
        news
    }
}

impl Registrar {
    /// Relabels claims that are not reserved any more, once a minute, or else tags instances of claims that have registered; one
    /// of both at a time.
    pub(super) fn look_after_registered(&mut self, ctx: &mut Context<Self>) {
        let now = self.env.now();
        if self.after.busy || now < self.after.next {
            return;
        }
        if now >= self.after.next_reserved {
            self.after.next_reserved = now + RESERVED_INTERVAL;
            let there: BTreeSet<&str> = self.known.claims().map(|claim| uid(claim)).collect();
            self.after.undone.retain(|uid| there.contains(uid));
            let reserved = self.some_claims(usize::MAX, is_reserved);
            if !reserved.is_empty() {
                let node =
                    |claim: &NodeClaim| claim.status.as_ref().and_then(|own| self.known.node(&own.node_name)).cloned();
                let both = reserved.into_iter().map(|claim| (node(&claim), claim)).collect();
                let work = relabel_all(self.links.clone(), both);
                return self.do_after(work.boxed_local(), ctx);
            }
        }
        let untagged = self.some_claims(MOST, |claim| is_untagged(claim) && self.after.tries(claim, now));
        if !untagged.is_empty() {
            let work = tag_all(self.links.clone(), untagged);
            self.do_after(work.boxed_local(), ctx);
        }
    }

    /// The first claims by name that have registered, are this cluster's and stay, of those wanted.
    fn some_claims(&self, most: usize, wanted: impl Fn(&NodeClaim) -> bool) -> Vec<Arc<NodeClaim>> {
        let due = |claim: &&Arc<NodeClaim>| {
            wanted(claim)
                && claim.metadata.deletion_timestamp.is_none()
                && lifecycle::stage(claim) >= Some(ClaimStage::Registered)
                && self.instances.verdict(claim) == OwnershipVerdict::Ours
        };
        self.known.claims().filter(due).take(most).cloned().collect()
    }

    fn do_after(&mut self, work: futures::future::LocalBoxFuture<'static, Done>, ctx: &mut Context<Self>) {
        self.after.busy = true;
        ctx.spawn(work.into_actor(self).map(|done, registrar, _| {
            let news = registrar.after.learn(&done, registrar.env.now());
            if let Some(error) = done.error.filter(|_| news) {
                let what = error.call().to_owned();
                registrar.env.emit(LogEvent::Retrying { what, error: error.to_string() });
            }
        }));
    }
}

/// True if the claim does not say that its instance has been tagged.
fn is_untagged(claim: &NodeClaim) -> bool {
    let says = |key: &str| claim.annotations().get(key).is_some_and(|value| value == "true");
    let named = claim.status.as_ref().is_some_and(|status| !status.node_name.is_empty());
    named && !(says(annotations::TAGGED) && says(annotations::CLUSTER_NAME_TAGGED))
}

fn is_reserved(claim: &NodeClaim) -> bool {
    claim.labels().get(labels::CAPACITY_TYPE).is_some_and(|bought| bought == labels::RESERVED)
}

fn uid(claim: &NodeClaim) -> &str {
    claim.metadata.uid.as_deref().unwrap_or_default()
}

fn id_of(claim: &NodeClaim) -> Option<&str> {
    instance_id(&claim.status.as_ref()?.provider_id)
}

/// The instances of claims by id.
async fn instances<'a>(
    links: &RegistrarLinks,
    claims: impl Iterator<Item = &'a NodeClaim>,
) -> Result<BTreeMap<String, Instance>, CloudError> {
    let ids: Vec<String> = claims.filter_map(|claim| id_of(claim).map(str::to_owned)).collect();
    let found = links.cloud.instances_of(&ids).await?;
    Ok(found.instances.into_iter().map(|instance| (instance.id.clone(), instance)).collect())
}

/// Tags the instances of claims and says so on these.
async fn tag_all(links: RegistrarLinks, claims: Vec<Arc<NodeClaim>>) -> Done {
    let found = match instances(&links, claims.iter().map(AsRef::as_ref)).await {
        Ok(found) => found,
        Err(error) => return Done::nothing(error),
    };
    let living = |claim: &NodeClaim| found.get(id_of(claim)?).filter(|instance| !instance.is_terminating()).cloned();
    let mut answers = stream::iter(&claims)
        .map(|claim| {
            let (links, instance) = (links.clone(), living(claim));
            async move {
                let Some(instance) = instance else { return (claim, Ok(false)) };
                (claim, tag(&links, claim, &instance).await)
            }
        })
        .buffer_unordered(AT_ONCE);
    let mut all = Done { done: Vec::new(), undone: Vec::new(), error: None, whole: false };
    while let Some((claim, answer)) = answers.next().await {
        let of = if matches!(answer, Ok(true)) { &mut all.done } else { &mut all.undone };
        of.push(uid(claim).to_owned());
        all.error = all.error.or(answer.err());
    }
    all
}

/// Answers whether the claim says now that its instance has its tags.
async fn tag(links: &RegistrarLinks, claim: &NodeClaim, instance: &Instance) -> Result<bool, CloudError> {
    let missing = missing(claim, &links.calls.env.settings.cluster_name, &instance.tags);
    if !missing.is_empty() {
        links.cloud.tag(&instance.id, &missing).await?;
    }
    let said = |claim: &mut NodeClaim| {
        for key in [annotations::TAGGED, annotations::CLUSTER_NAME_TAGGED] {
            claim.annotations_mut().insert(key.to_owned(), "true".to_owned());
        }
    };
    // One that is not written is looked at again: its instance has all its tags then.
    let written = NodeClaimApi::new(links.calls.clone()).change_metadata(claim.clone(), said).await.ok();
    let is_written = written.is_some();
    if let Some(claim) = written {
        links.calls.env.post(&links.cluster, Wrote::Claim(Arc::new(claim)));
    }
    Ok(is_written)
}

/// The tags that the instance of a claim lacks; what is there stays, a `Name` of the class's own among them.
fn missing(claim: &NodeClaim, cluster: &str, there: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let node = claim.status.as_ref().map(|status| status.node_name.clone()).unwrap_or_default();
    let wanted = [(tags::NAME, node), (tags::NODE_CLAIM, claim.name_any()), (tags::CLUSTER_NAME, cluster.to_owned())];
    let lacks = |(key, _): &(&str, String)| !there.contains_key(*key);
    wanted.into_iter().filter(lacks).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Relabels claims and Nodes of reserved capacity whose instances are on demand now: their reservation has ended.
async fn relabel_all(links: RegistrarLinks, both: Vec<(Option<Arc<Node>>, Arc<NodeClaim>)>) -> Done {
    let found = match instances(&links, both.iter().map(|(_, claim)| claim.as_ref())).await {
        Ok(found) => found,
        Err(error) => return Done::nothing(error),
    };
    for (node, claim) in both {
        let instance = id_of(&claim).and_then(|id| found.get(id));
        let Some(bought) = instance.filter(|one| !one.is_terminating()).map(|one| one.capacity_type.clone()) else {
            continue;
        };
        if bought == labels::RESERVED {
            continue;
        }
        // The Node first: once its claim is not reserved any more, nobody looks at either again.
        if let Some(node) = node {
            let change = |node: &Node| {
                let mut wanted = node.clone();
                relabel(wanted.labels_mut(), &bought);
                (wanted.metadata.labels != node.metadata.labels).then_some(wanted)
            };
            match Nodes::new(links.calls.clone()).change(Node::clone(&node), change).await {
                Ok(node) => links.calls.env.post(&links.cluster, Wrote::Node(Arc::new(node))),
                Err(CallError::NotFound(_)) => {}
                Err(_) => continue,
            }
        }
        let change = |claim: &mut NodeClaim| relabel(claim.labels_mut(), &bought);
        if let Ok(claim) =
            NodeClaimApi::new(links.calls.clone()).change_metadata(NodeClaim::clone(&claim), change).await
        {
            links.calls.env.post(&links.cluster, Wrote::Claim(Arc::new(claim)));
        }
    }
    Done { done: Vec::new(), undone: Vec::new(), error: None, whole: false }
}

/// Labels of an instance that is bought in this way, and is of no reservation.
fn relabel(own: &mut BTreeMap<String, String>, bought: &str) {
    own.insert(labels::CAPACITY_TYPE.to_owned(), bought.to_owned());
    labels::OF_RESERVATIONS.iter().for_each(|key| drop(own.remove(*key)));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn claim() -> NodeClaim {
        let mut claim = NodeClaim::new("default-a", dovetail_api::v1::NodeClaimSpec::default());
        claim.status.get_or_insert_default().node_name = "ip-10-0-0-1".into();
        claim
    }

    #[test]
    fn instance_gets_missing_tags_and_keeps_name_of_its_class() {
        let of = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let lacks = |there: &[(&str, &str)]| missing(&claim(), "demo", &of(there));
        assert_eq!(
            lacks(&[]),
            of(&[("Name", "ip-10-0-0-1"), ("karpenter.sh/nodeclaim", "default-a"), ("eks:eks-cluster-name", "demo")])
        );
        let named = [("Name", "mine"), ("eks:eks-cluster-name", "demo")];
        assert_eq!(lacks(&named), of(&[("karpenter.sh/nodeclaim", "default-a")]));
        let all = [("Name", "mine"), ("karpenter.sh/nodeclaim", "x"), ("eks:eks-cluster-name", "demo")];
        assert_eq!(lacks(&all), of(&[]));
    }

    #[test]
    fn untaggable_instance_is_retried_less_and_delays_no_other() {
        let mut after = AfterRegistration::new(fastrand::Rng::with_seed(1));
        let (mut one, mut other) = (claim(), claim());
        (one.metadata.uid, other.metadata.uid) = (Some("one".into()), Some("other".into()));
        let failed = || Done { done: vec![], undone: vec!["one".into()], error: None, whole: false };
        let (mut now, mut pauses) = (Duration::ZERO, Vec::new());
        for round in 0..10 {
            assert_eq!(after.learn(&failed(), now), round == 0, "said once");
            assert!(!after.tries(&one, now) && after.tries(&other, now) && after.next <= now);
            let begun = now;
            while !after.tries(&one, now) {
                now += Duration::from_secs(1);
            }
            pauses.push((now - begun).as_secs());
        }
        assert!((5..=10).contains(&pauses[0]) && (450..=900).contains(&pauses[9]), "{pauses:?}");
        after.learn(&Done { done: vec!["one".into()], undone: vec![], error: None, whole: false }, now);
        assert!(after.tries(&one, now) && !after.undone.is_known("one"));
    }

    #[test]
    fn a_claim_is_tagged_once_both_annotations_say_so() {
        let mut claim = claim();
        assert!(is_untagged(&claim));
        claim.annotations_mut().insert(annotations::TAGGED.into(), "true".into());
        assert!(is_untagged(&claim), "Karpenter before 1.0 did not tag the cluster's name");
        claim.annotations_mut().insert(annotations::CLUSTER_NAME_TAGGED.into(), "true".into());
        assert!(!is_untagged(&claim));
        claim.annotations_mut().clear();
        claim.status = None;
        assert!(!is_untagged(&claim), "it has no node yet");
    }

    #[test]
    fn what_is_not_reserved_any_more_loses_its_reservation() {
        let mut own = BTreeMap::from(
            [
                (labels::CAPACITY_TYPE, labels::RESERVED),
                (labels::CAPACITY_RESERVATION_ID, "cr-1"),
                (labels::CAPACITY_RESERVATION_TYPE, "default"),
                ("team", "a"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        relabel(&mut own, labels::ON_DEMAND);
        let left = [(labels::CAPACITY_TYPE, labels::ON_DEMAND), ("team", "a")];
        assert_eq!(own, BTreeMap::from(left.map(|(key, value)| (key.to_owned(), value.to_owned()))));
    }
}
