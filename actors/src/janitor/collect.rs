//! The janitor's effects: lists everything, the cloud first, and ends what the decision names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::{TERMINATION_FINALIZER, annotations, instance_id, labels, tags};
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::{CloudError, Instance, MadeKind, MadeResource};
use dovetail_core::cluster_state::{Unreadable, WatchedKind};
use dovetail_core::collection::{InstanceOwner, MadeThing, SeenClaim, SeenInstance, SeenNode, Survey, is_released};
use dovetail_core::disruption::drift::{InstanceNetwork, Networks};
use dovetail_core::ownership::{self, Maker, NotOwned};
use dovetail_core::{lifecycle, ownership::token_on};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::ResourceExt;
use kube::api::{DeleteParams, Preconditions};

use crate::cloud::end_once::{TOGETHER, end_once};
use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::janitor::JanitorLinks;
use crate::kube::calls::CallError;
use crate::kube::claims::NodeClaimApi;
use crate::kube::nodes::Nodes;
use crate::messages::{TakeSnapshot, UnclaimedInstances};
use crate::reading::{LenientApi, ObjectPage};
use crate::telemetry::log_event::LogEvent;

/// Pause between two removals of what was made for node classes: EC2 counts them together with launches, at five a second.
const REMOVALS_APART: Duration = Duration::from_secs(1);
/// Attempts of one pass to end instances.
const ATTEMPTS: u32 = 4;
/// Instances that are asked for one by one in a pass.
const MOST_ASKED: usize = 200;

/// Environment of a collection pass.
pub struct GarbageCollection {
    pub env: Env,
    pub links: JanitorLinks,
}

pub struct CollectionPass {
    /// Claims, Nodes and instances, and what they are judged by.
    pub survey: Survey,
    /// Network addresses of the instances.
    pub networks: Arc<Networks>,
    /// Living instances of ours that neither a NodeClaim nor a Node has.
    pub unclaimed: Vec<UnclaimedInstances>,
    /// Time until which the brakes are released, as written.
    pub until: String,
    /// Error of the written release, if it is invalid.
    pub release: Result<(), String>,
}

/// Outcome of the request to end instances.
#[derive(Default)]
pub struct Ending {
    /// Instances whose end was requested and may have been accepted, with the time of the request.
    pub asked: BTreeMap<String, Duration>,
    /// Errors of instances that will not be ended.
    pub refused: Vec<CloudError>,
}

fn networks(instances: &[Instance]) -> Arc<Networks> {
    let living = instances.iter().filter(|one| !one.is_terminating());
    let network = |one: &Instance| InstanceNetwork {
        subnet: one.subnet_id.clone(),
        security_groups: one.security_group_ids.iter().filter(|id| !id.is_empty()).cloned().collect(),
    };
    Arc::new(living.map(|one| (one.id.clone(), network(one))).collect())
}

/// A pass failed; the failed call has been reported.
type Listed<T> = Option<T>;

impl GarbageCollection {
    /// Lists the cloud, then claims and Nodes; nothing where a part of it cannot be had. One that looks back shows
    /// what has ended of late too.
    pub async fn list(&self, looks_back: bool) -> Listed<CollectionPass> {
        let at = self.env.now();
        let instances = self.links.cloud.instances_by_name(looks_back).await.ok()?;
        let claims = NodeClaimApi::new(self.links.calls.clone()).list().await.ok()?;
        let nodes = self.links.cluster.send(TakeSnapshot).await.ok()??;
        let annotation = self.annotation().await.ok()?;
        let (released, release) = match is_released(&annotation, self.env.wall()) {
            _ if annotation.is_empty() => (false, Ok(())),
            Ok(released) => (released, Ok(())),
            Err(why) => (false, Err(why)),
        };
        let mut survey = Survey {
            at,
            instances: instances.iter().filter(|one| !one.is_terminating()).map(|one| self.instance(one)).collect(),
            claims: seen_claims(&claims, &instances),
            nodes: nodes.nodes.values().filter_map(|entry| node(entry)).collect(),
            ended: instances.iter().filter(|one| one.is_terminating()).map(|one| self.ended_ago(one)).collect(),
            released,
        };
        survey.ended.extend(self.ended(&survey).await);
        let unclaimed = self.unclaimed(&instances, &Claimed::by(&claims), &survey);
        Some(CollectionPass { survey, networks: networks(&instances), unclaimed, until: annotation, release })
    }

    /// Living instances of ours that neither a claim nor a Node has, those that are alike together.
    fn unclaimed(&self, instances: &[Instance], claimed: &Claimed<'_>, survey: &Survey) -> Vec<UnclaimedInstances> {
        let joined: BTreeSet<&str> = survey.nodes.iter().map(|node| node.instance.as_str()).collect();
        let ours = |one: &&Instance| !one.is_terminating() && self.instance(one).owner == InstanceOwner::Ours;
        let mut alike: BTreeMap<UnclaimedInstances, usize> = BTreeMap::new();
        for one in instances.iter().filter(ours).filter(|one| !claimed.has(one) && !joined.contains(one.id.as_str())) {
            let tag = |key: &str| one.tags.get(key).cloned().unwrap_or_default();
            let kind = UnclaimedInstances {
                node_pool: tag(tags::NODE_POOL),
                node_class: tag(tags::NODE_CLASS),
                instance_type: one.instance_type.clone(),
                zone: one.zone.clone(),
                capacity_type: one.capacity_type.clone(),
                count: 0,
            };
            *alike.entry(kind).or_default() += 1;
        }
        alike.into_iter().map(|(kind, count)| UnclaimedInstances { count, ..kind }).collect()
    }

    /// Missing instances that have ended by the cloud's account, with the time since.
    async fn ended(&self, survey: &Survey) -> BTreeMap<String, Duration> {
        let mut ended = BTreeMap::new();
        let asked: Vec<&str> = survey.missing().filter(|id| !survey.ended.contains_key(*id)).take(MOST_ASKED).collect();
        for id in asked {
            if let Ok(Some(instance)) = self.links.cloud.instance(id).await
                && instance.is_terminating()
            {
                ended.extend([self.ended_ago(&instance)]);
            }
        }
        ended
    }

    fn instance(&self, one: &Instance) -> SeenInstance {
        let owner = match ownership::maker(&self.env.cluster(&*self.links.cloud), &one.tags) {
            Ok(Maker::Dovetail) => InstanceOwner::Ours,
            Err(NotOwned::OtherCluster { .. }) => InstanceOwner::Foreign,
            // An instance that Karpenter launched ends with its NodeClaim, and never because it has none.
            Ok(Maker::Karpenter) | Err(_) => InstanceOwner::Unmarked,
        };
        SeenInstance {
            id: one.id.clone(),
            owner,
            age: one.launched_at.map(|at| self.age(at)),
            token: one.tags.get(tags::LAUNCH_TOKEN).cloned(),
        }
    }

    /// An instance that has ended, and how long ago.
    fn ended_ago(&self, one: &Instance) -> (String, Duration) {
        (one.id.clone(), one.ended_at.map(|at| self.age(at)).unwrap_or_default())
    }

    fn age(&self, since: jiff::Timestamp) -> Duration {
        Duration::try_from(self.env.wall().duration_since(since)).unwrap_or(Duration::ZERO)
    }

    /// The release as an operator has written it, empty without one.
    async fn annotation(&self) -> Result<String, CallError> {
        let api: LenientApi<Namespace> = LenientApi::all(self.links.calls.client.clone());
        let namespace = self.links.calls.run("get namespace kube-system", || api.get_opt("kube-system")).await?;
        let written = namespace.and_then(|one| one.annotations().get(annotations::ALLOW_COLLECTION).cloned());
        Ok(written.unwrap_or_default())
    }

    /// Ends orphaned instances, and deletes their Nodes.
    pub async fn end_all(&self, ids: Vec<String>) -> Ending {
        let (mut due, mut ending) = (ids, Ending::default());
        let mut backoff = Backoff::cloud(self.env.rng("collection"));
        for attempt in 1..=ATTEMPTS {
            let mut again = Vec::new();
            for some in due.chunks(TOGETHER) {
                again.extend(self.end_some(some, &mut ending).await);
            }
            if again.is_empty() || attempt == ATTEMPTS || !self.links.calls.may_act() {
                break;
            }
            due = again;
            tokio::time::sleep(backoff.pause()).await;
        }
        ending
    }

    /// Ends those that live, are ours, and that no claim has. The claims are listed after the instances were looked at, and the call
    /// that rests on that is made once: what was away in between may be back, out of a backup. Answers what is to be tried again.
    async fn end_some(&self, ids: &[String], ending: &mut Ending) -> Vec<String> {
        let Ok(found) = self.links.cloud.instances_of(ids).await else { return ids.to_vec() };
        let Ok(claims) = NodeClaimApi::new(self.links.calls.clone()).list().await else { return ids.to_vec() };
        let claimed = Claimed::by(&claims);
        let is_due = |one: &Instance| {
            !one.is_terminating() && self.instance(one).owner == InstanceOwner::Ours && !claimed.has(one)
        };
        let (due, others): (Vec<Instance>, Vec<Instance>) = found.instances.into_iter().partition(is_due);
        let mut again: Vec<String> = found.failed.into_keys().collect();
        let Some(mut failed) = end_once(&*self.links.cloud, &self.links.calls, &due).await else { return again };
        let now = self.env.now();
        // An earlier attempt has ended these, but its answer was lost.
        for one in others.iter().filter(|one| one.is_terminating() && ending.asked.contains_key(&one.id)) {
            self.has_ended(&one.id).await;
        }
        for one in due {
            match failed.remove(&one.id) {
                // It stays as it is: that is no end.
                Some(error) if !error.is_retryable() => ending.refused.push(error),
                Some(_) => {
                    ending.asked.insert(one.id.clone(), now);
                    again.push(one.id);
                }
                None => {
                    ending.asked.insert(one.id.clone(), now);
                    self.has_ended(&one.id).await;
                }
            }
        }
        again
    }

    async fn has_ended(&self, id: &str) {
        self.env.emit(LogEvent::Collected { instance: id.to_owned() });
        self.remove_node(id).await;
    }

    /// The Node of an instance that was ended goes too; its pods get others.
    async fn remove_node(&self, id: &str) {
        let Some(known) = self.links.cluster.send(TakeSnapshot).await.ok().flatten() else { return };
        let found = known.nodes.values().find(|node| instance_id(&node.provider_id) == Some(id));
        let Some(node) = found else { return };
        let (calls, name) = (&self.links.calls, &node.name);
        let api: LenientApi<Node> = LenientApi::all(calls.client.clone());
        let only = Preconditions { uid: Some(node.uid.clone()), resource_version: None };
        let params = DeleteParams::default().preconditions(only);
        // One that cannot be deleted now is the cloud controller's, as its instance is gone.
        let _ = calls.run(&format!("delete node {name}"), || api.delete(name, &params)).await;
        // There is nothing left that our finalizer would wait for.
        let there = calls.run(&format!("get node {name}"), || api.get_opt(name)).await;
        if let Ok(Some(held)) = there
            && held.uid().as_deref() == Some(&node.uid)
        {
            let mut released = held.clone();
            released.finalizers_mut().retain(|one| one != TERMINATION_FINALIZER);
            let _ = Nodes::new(calls.clone()).write(&held, &released).await;
        }
    }

    /// Resources made for node classes, and the classes' uids by name.
    pub async fn list_made(&self) -> Listed<(Vec<MadeResource>, Vec<MadeThing>, BTreeMap<String, String>)> {
        let made = self.links.cloud.made().await.ok()?;
        let now = self.links.cluster.send(TakeSnapshot).await.ok()??;
        let of_classes = now.classes.values().filter_map(|class| class.status.as_ref());
        let mut used: BTreeSet<&str> = of_classes.map(|status| status.instance_profile.as_str()).collect();
        let profile = |claim: &NodeClaim| claim.annotations().get(annotations::INSTANCE_PROFILE_NAME).cloned();
        let by_claims: Vec<String> = now.claims.values().filter_map(|entry| profile(&entry.claim)).collect();
        used.extend(by_claims.iter().map(String::as_str));
        // A class that claims still use is on its way out at most: what was made for it is needed for nothing new.
        let read = now.classes.values().map(|class| (class.name_any(), class.uid().unwrap_or_default()));
        let unread = now.unreadable_of(WatchedKind::NodeClass);
        let unread = unread.map(|(name, one)| (name.to_owned(), one.metadata.uid.clone().unwrap_or_default()));
        let classes = read.chain(unread).collect();
        // A claim of an older version does not say which profile its instance has: then all of its class's stay.
        let unsaid: BTreeSet<&str> = now
            .claims
            .values()
            .filter(|entry| profile(&entry.claim).is_none())
            .map(|entry| entry.claim.spec.node_class_ref.name.as_str())
            .collect();
        let resolved: BTreeSet<String> = now
            .classes
            .values()
            .filter(|class| class.status.as_ref().is_some_and(|status| !status.instance_profile.is_empty()))
            .map(|class| class.name_any())
            .collect();
        // Its class has another one by now: that of another role.
        let superseded = |one: &MadeResource| resolved.contains(&one.class) && !unsaid.contains(one.class.as_str());
        let things = made.iter().map(|one| MadeThing {
            name: one.name.clone(),
            class: one.class.clone(),
            class_uid: one.class_uid.clone(),
            age: one.created.map(|at| self.age(at)),
            used: one.in_use || used.contains(one.name.as_str()),
            made_anew: one.kind == MadeKind::LaunchTemplate || superseded(one),
        });
        let things = things.collect();
        Some((made, things, classes))
    }

    /// Removes launch templates and instance profiles.
    pub async fn remove_made(&self, made: Vec<MadeResource>) {
        for one in made {
            if !self.links.calls.may_act() {
                return;
            }
            if self.links.cloud.remove_made(&one).await.is_ok() {
                self.env.emit(LogEvent::ClassOrphanRemoved { name: one.name, node_class: one.class });
            }
            tokio::time::sleep(REMOVALS_APART).await;
        }
    }
}

/// Instances that claims have or wait for.
struct Claimed<'a> {
    instances: BTreeSet<&'a str>,
    /// Launch tokens of claims without an instance in their status.
    tokens: BTreeSet<String>,
    /// Claims that cannot be read: an instance that was launched for one is its own.
    unread: BTreeSet<&'a str>,
}

impl<'a> Claimed<'a> {
    fn by(claims: &'a ObjectPage<NodeClaim>) -> Self {
        let mut all = Self { instances: BTreeSet::new(), tokens: BTreeSet::new(), unread: BTreeSet::new() };
        for one in &claims.unreadable {
            all.instances.extend(instance_id(&one.facts.provider_id));
            all.tokens.extend(token_of(one).map(str::to_owned));
            all.unread.extend(one.metadata.name.as_deref());
        }
        for claim in &claims.items {
            match instance_of(claim) {
                Some(id) => all.instances.insert(id),
                None => token_on(claim).is_some_and(|token| all.tokens.insert(token)),
            };
        }
        all
    }

    fn has(&self, instance: &Instance) -> bool {
        let token = instance.tags.get(tags::LAUNCH_TOKEN);
        let name = instance.tags.get(tags::NODE_CLAIM);
        self.instances.contains(instance.id.as_str())
            || token.is_some_and(|token| self.tokens.contains(token))
            || name.is_some_and(|name| self.unread.contains(name.as_str()))
    }
}

fn instance_of(claim: &NodeClaim) -> Option<&str> {
    instance_id(&claim.status.as_ref()?.provider_id)
}

fn token_of(claim: &Unreadable) -> Option<&str> {
    claim.metadata.annotations.as_ref()?.get(annotations::LAUNCH_TOKEN).map(String::as_str)
}

/// The claims as they are judged. One that cannot be read has the instance that it names, or else those that were launched for
/// it, and counts as somebody else's: it is never collected.
fn seen_claims(claims: &ObjectPage<NodeClaim>, instances: &[Instance]) -> Vec<SeenClaim> {
    let mut all: Vec<SeenClaim> = claims.items.iter().map(claim).collect();
    for one in &claims.unreadable {
        let name = one.metadata.name.clone().unwrap_or_default();
        let seen = |instance: Option<String>| SeenClaim {
            name: name.clone(),
            uid: one.metadata.uid.clone().unwrap_or_default(),
            instance,
            token: token_of(one).map(str::to_owned),
            deleting: true,
        };
        all.push(seen(instance_id(&one.facts.provider_id).map(str::to_owned)));
        let its = instances.iter().filter(|instance| instance.tags.get(tags::NODE_CLAIM) == Some(&name));
        all.extend(its.map(|instance| seen(Some(instance.id.clone()))));
    }
    all
}

fn claim(claim: &NodeClaim) -> SeenClaim {
    SeenClaim {
        name: claim.name_any(),
        uid: claim.uid().unwrap_or_default(),
        instance: instance_of(claim).map(str::to_owned),
        token: token_on(claim),
        deleting: lifecycle::is_deleting(claim),
    }
}

fn node(entry: &dovetail_core::cluster_state::NodeEntry) -> Option<SeenNode> {
    Some(SeenNode {
        instance: instance_id(&entry.provider_id)?.to_owned(),
        ready: entry.ready,
        registered: entry.is_labelled(labels::REGISTERED),
        deleting: entry.deleting,
    })
}
