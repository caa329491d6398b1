//! After registration: tags that instances get once their Nodes are known (aws spec 4.6, 6), and claims of capacity
//! reservations whose instances are on demand by now.
//!
//! Both look at many instances by one DescribeInstances. Each instance gets tags of its own, so each takes a CreateTags;
//! these go side by side, ten at once. Nothing waits for them. A claim says that its instance is tagged once it is initialized: in a
//! burst it costs no write between creation and that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::labels;
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::cloud::instance_id;
use dovetail_cloud::{CloudError, Instance};
use dovetail_core::lifecycle::tagging::{self, is_initialized, is_reserved, is_untagged, missing_tags, relabel};
use dovetail_core::lifecycle::{self, ClaimStage};
use dovetail_core::ownership::OwnershipVerdict;
use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::{Registrar, RegistrarLinks};
use crate::context::backoff::Backoff;
use crate::context::book::Key;
use crate::context::brakes::Brakes;
use crate::kube::calls::CallError;
use crate::kube::claims::NodeClaimApi;
use crate::kube::nodes::Nodes;
use crate::messages::{Record, Wrote};
use crate::recorder::object;
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
#[derive(Default)]
struct Done {
    /// The uids of those for which all is done, and of those that have to be tried again.
    done: Vec<String>,
    undone: Vec<String>,
    /// Those whose instances have their tags, and that are to say so once they are initialized.
    tagged: Vec<Arc<NodeClaim>>,
    /// The first error of the cloud's; `whole`: it stands in the way of all.
    error: Option<CloudError>,
    whole: bool,
}

impl Done {
    fn nothing(error: CloudError) -> Self {
        Self { error: Some(error), whole: true, ..Self::default() }
    }
}

/// The outcome of tagging one instance.
#[derive(Clone, Copy, PartialEq)]
enum Tagging {
    /// It has its tags, and its claim says so.
    Said,
    /// It has its tags, and its claim is to say so later.
    Unsaid,
    /// To be tried again.
    Undone,
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
        for uid in done.done.iter().map(String::as_str).chain(done.tagged.iter().map(|claim| uid(claim))) {
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
        let own = |claim: &NodeClaim| self.known.get(&Key::claim(&claim.name_any()));
        let due = |claim: &NodeClaim| is_untagged(claim) && self.after.tries(claim, now);
        let is_tagged = |claim: &NodeClaim| own(claim).is_some_and(|own| own.tagged);
        let may_say = |claim: &NodeClaim| is_initialized(claim) && own(claim).is_some_and(|own| own.pace.is_quiet(now));
        let unsaid = self.some_claims(MOST, |claim| due(claim) && is_tagged(claim) && may_say(claim));
        let untagged = self.some_claims(MOST, |claim| due(claim) && !is_tagged(claim));
        if !(unsaid.is_empty() && untagged.is_empty()) {
            let work = tag_all(self.links.clone(), untagged, unsaid);
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
            for claim in &done.tagged {
                let name = claim.name_any();
                let same = registrar.known.claim(&name).is_some_and(|known| known.metadata.uid == claim.metadata.uid);
                if let Some(own) = registrar.known.get_mut(&Key::Claim(name)).filter(|_| same) {
                    own.tagged = true;
                }
            }
            if let Some(error) = done.error.filter(|_| news) {
                let what = error.call().to_owned();
                registrar.env.emit(LogEvent::Retrying { what, error: error.to_string() });
            }
        }));
    }
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

/// Tags the instances of claims, and says so on those that are initialized; of the `unsaid` that is all that is left.
async fn tag_all(links: RegistrarLinks, claims: Vec<Arc<NodeClaim>>, unsaid: Vec<Arc<NodeClaim>>) -> Done {
    let found = match claims.is_empty() {
        true => Ok(BTreeMap::new()),
        false => instances(&links, claims.iter().map(AsRef::as_ref)).await,
    };
    let found = match found {
        Ok(found) => found,
        Err(error) => return Done::nothing(error),
    };
    let living = |claim: &NodeClaim| found.get(id_of(claim)?).filter(|instance| !instance.is_terminating()).cloned();
    // Those first that were seen to be left alone.
    let all = unsaid.iter().map(|claim| (claim, true)).chain(claims.iter().map(|claim| (claim, false)));
    let mut answers = stream::iter(all)
        .map(|(claim, is_tagged)| {
            let (links, instance) = (links.clone(), living(claim));
            async move {
                match instance {
                    _ if is_tagged => (claim, Ok(say_tagged(&links, claim).await)),
                    Some(instance) => (claim, tag(&links, claim, &instance).await),
                    None => (claim, Ok(Tagging::Undone)),
                }
            }
        })
        .buffer_unordered(AT_ONCE);
    let mut all = Done::default();
    while let Some((claim, answer)) = answers.next().await {
        match answer {
            Ok(Tagging::Said) => all.done.push(uid(claim).to_owned()),
            Ok(Tagging::Unsaid) => all.tagged.push(claim.clone()),
            Ok(Tagging::Undone) | Err(_) => all.undone.push(uid(claim).to_owned()),
        }
        all.error = all.error.or(answer.err());
    }
    all
}

async fn tag(links: &RegistrarLinks, claim: &NodeClaim, instance: &Instance) -> Result<Tagging, CloudError> {
    let missing = missing_tags(claim, &links.calls.env.settings.cluster_name, &instance.tags);
    if !missing.is_empty() {
        links.cloud.tag(&instance.id, &missing).await?;
    }
    Ok(if is_initialized(claim) { say_tagged(links, claim).await } else { Tagging::Unsaid })
}

/// Says on a claim that its instance has its tags. If that is not written, it is looked at again.
async fn say_tagged(links: &RegistrarLinks, claim: &NodeClaim) -> Tagging {
    let claims = NodeClaimApi::new(links.calls.clone());
    let Ok(claim) = claims.annotate(claim, &tagging::SAID.map(|key| (key, "true"))).await else {
        return Tagging::Undone;
    };
    links.calls.env.post(&links.cluster, Wrote::Claim(Arc::new(claim)));
    Tagging::Said
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
        if let Ok(written) = NodeClaimApi::new(links.calls.clone()).leave_reservation(&claim, &bought).await {
            let record = Record::warning(object::claim(&claim), "ReservationEnded", tagging::RESERVATION_ENDED);
            links.calls.env.post(&links.recorder, record);
            links.calls.env.post(&links.cluster, Wrote::Claim(Arc::new(written)));
        }
    }
    Done::default()
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
    fn untaggable_instance_is_retried_less_and_delays_no_other() {
        let mut after = AfterRegistration::new(fastrand::Rng::with_seed(1));
        let (mut one, mut other) = (claim(), claim());
        (one.metadata.uid, other.metadata.uid) = (Some("one".into()), Some("other".into()));
        let failed = || Done { undone: vec!["one".into()], ..Done::default() };
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
        after.learn(&Done { done: vec!["one".into()], ..Done::default() }, now);
        assert!(after.tries(&one, now) && !after.undone.is_known("one"));
    }
}
