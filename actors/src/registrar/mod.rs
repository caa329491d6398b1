//! Takes claims from Launched to Registered to Initialized as their Nodes appear, gives up those that take too long, and
//! tells when the last pod of a plan is bound. What to do is decided by `dovetail_core::lifecycle`; here it is done.
//!
//! At the mailbox's bound: a claim is worked on by one effect at a time; what changes meanwhile is looked at afterwards.

mod kept_places;
mod look;
mod plans;
mod register;
mod tags;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::CloudInstances;
use dovetail_core::cluster_state::{NominationTarget, is_older};
use dovetail_core::lifecycle::nodeless::Nodeless;
use dovetail_core::lifecycle::{self, ClaimStage};
use dovetail_core::say_once::SayOnce;
use k8s_openapi::api::core::v1::Node;
use kube::{Resource, ResourceExt};

use crate::context::alarms::{Alarmed, Alarms};
use crate::context::brakes::Brakes;
use crate::context::env::Env;
use crate::kube::calls::Calls;
use crate::links::{ToClusterWatcher, ToLauncher, ToPacker, ToRecorder};
use crate::messages::{
    ClaimChanged, ClaimGone, InstanceKnown, NodeChanged, NodeGone, Observe, Planned, PodBound, PodGone, RegistrarState,
};
use crate::owner::owned::{self, Instances};
use kept_places::KeptPlaces;
use plans::PlanState;
use tags::AfterRegistration;

/// Time-outs are looked for this often.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Addresses that the registrar sends to.
#[derive(Clone)]
pub struct RegistrarLinks {
    /// For read-your-writes.
    pub cluster: ToClusterWatcher,
    /// For pods whose claim is given up.
    pub packer: ToPacker,
    /// For nodes that did not register.
    pub launcher: ToLauncher,
    /// For events.
    pub recorder: ToRecorder,
    /// For claims and Nodes.
    pub calls: Calls,
    /// For the tags of instances.
    pub cloud: Arc<dyn CloudInstances>,
}

/// Follows claims from launched to initialized, and gives up those whose Nodes do not come.
pub struct Registrar {
    env: Env,
    links: RegistrarLinks,
    claims: BTreeMap<String, Arc<NodeClaim>>,
    nodes: BTreeMap<String, Arc<Node>>,
    /// Names of Nodes by provider id.
    by_provider: BTreeMap<String, BTreeSet<String>>,
    /// Names of claims by provider id.
    claim_of: BTreeMap<String, String>,
    busy: BTreeSet<String>,
    /// Ownership of the claims' instances.
    instances: Instances,
    /// Claims that have registered and have no Node.
    nodeless: Nodeless,
    /// Claims that changed while they were worked on.
    again: BTreeSet<String>,
    /// Claims, by uid, whose writes the API server refuses.
    refused: Brakes,
    /// Alarms for the next check of claims after a failed write, by name.
    alarms: Alarms,
    /// Claims, by uid, of which it was told that they are given up, and that are there yet.
    gave_up: SayOnce<String>,
    /// Pods that each target waits for, how many it got, and the plan's trace.
    plans: BTreeMap<NominationTarget, PlanState>,
    /// Pods that are nominated to their nodes.
    kept: KeptPlaces,
    /// Work at the cloud that follows registration.
    after: AfterRegistration,
    passed: BTreeMap<&'static str, u64>,
}

impl Registrar {
    /// A registrar that knows no claim.
    pub fn new(env: &Env, links: RegistrarLinks) -> Self {
        let env = env.for_actor("registrar");
        Self {
            after: AfterRegistration::new(env.rng("tags")),
            env,
            links,
            claims: BTreeMap::new(),
            nodes: BTreeMap::new(),
            by_provider: BTreeMap::new(),
            claim_of: BTreeMap::new(),
            busy: BTreeSet::new(),
            instances: Instances::default(),
            nodeless: Nodeless::default(),
            again: BTreeSet::new(),
            refused: Brakes::default(),
            alarms: Alarms::default(),
            gave_up: SayOnce::default(),
            plans: BTreeMap::new(),
            kept: KeptPlaces::default(),
            passed: BTreeMap::new(),
        }
    }
}

impl Actor for Registrar {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(CHECK_INTERVAL, |registrar, ctx| {
            let unfinished = |claim: &NodeClaim| {
                lifecycle::stage(claim) != Some(ClaimStage::Initialized) || registrar.nodes_of(claim).is_empty()
            };
            let names: Vec<_> =
                registrar.claims.iter().filter(|(_, claim)| unfinished(claim)).map(|(name, _)| name.clone()).collect();
            names.iter().for_each(|name| registrar.take_next_step(name, ctx));
            registrar.look_at_kept_places(ctx);
            registrar.look_after_registered(ctx);
        });
    }
}

impl Alarmed for Registrar {
    fn alarms(&mut self) -> &mut Alarms {
        &mut self.alarms
    }
}

impl Handler<ClaimChanged> for Registrar {
    type Result = ();

    fn handle(&mut self, ClaimChanged(claim): ClaimChanged, ctx: &mut Self::Context) {
        let name = claim.name_any();
        self.claims.insert(name.clone(), claim.clone());
        self.instances.note(&claim);
        self.index(&claim);
        self.take_next_step(&name, ctx);
    }
}

impl Handler<ClaimGone> for Registrar {
    type Result = ();

    fn handle(&mut self, gone: ClaimGone, _: &mut Self::Context) {
        if let Some(claim) = self.claims.remove(&gone.name) {
            let provider_id = claim.status.as_ref().map_or("", |status| status.provider_id.as_str());
            if self.claim_of.get(provider_id) == Some(&gone.name) {
                self.claim_of.remove(provider_id);
            }
            self.instances.forget(&claim);
            self.refused.forget(uid_of(&claim));
            self.gave_up.gone(uid_of(&claim));
        }
        self.nodeless.ends(&gone.name);
        self.again.remove(&gone.name);
        self.finish(&NominationTarget::Claim(gone.name));
    }
}

impl Handler<NodeChanged> for Registrar {
    type Result = ();

    fn handle(&mut self, NodeChanged(node): NodeChanged, ctx: &mut Self::Context) {
        let (name, provider_id) = (node.name_any(), provider_id(&node));
        if let Some(before) = self.nodes.insert(name.clone(), node) {
            self.forget_provider(&before, &provider_id);
        }
        if provider_id.is_empty() {
            return;
        }
        self.by_provider.entry(provider_id.clone()).or_default().insert(name);
        if let Some(claim) = self.claim_of.get(&provider_id).cloned() {
            self.take_next_step(&claim, ctx);
        }
    }
}

impl Handler<NodeGone> for Registrar {
    type Result = ();

    fn handle(&mut self, gone: NodeGone, _: &mut Self::Context) {
        let Some(node) = self.nodes.remove(&gone.name) else { return };
        self.forget_provider(&node, "");
        self.finish(&NominationTarget::Node(gone.name));
    }
}

impl Handler<InstanceKnown> for Registrar {
    type Result = ();

    fn handle(&mut self, known: InstanceKnown, ctx: &mut Self::Context) {
        if !self.instances.learn(&known) {
            return;
        }
        for name in self.instances.naming(&known.id) {
            if let Some(claim) = self.claims.get(&name).cloned() {
                self.index(&claim);
            }
            self.take_next_step(&name, ctx);
        }
    }
}

impl Handler<Planned> for Registrar {
    type Result = ();

    fn handle(&mut self, planned: Planned, _: &mut Self::Context) {
        self.plan(planned);
    }
}

impl Handler<PodBound> for Registrar {
    type Result = ();

    fn handle(&mut self, pod: PodBound, _: &mut Self::Context) {
        self.settle(&pod.uid, Some(&pod));
    }
}

impl Handler<PodGone> for Registrar {
    type Result = ();

    fn handle(&mut self, pod: PodGone, _: &mut Self::Context) {
        self.settle(&pod.uid, None);
    }
}

impl Handler<Observe> for Registrar {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let (claims, nodes, busy) = (self.claims.len(), self.nodes.len(), self.busy.len());
        let (plans, passed) = (self.plans.len(), self.passed.clone());
        MessageResult(RegistrarState { claims, nodes, busy, plans, passed }.into())
    }
}

impl Registrar {
    /// A Node is not there any more, or has another provider id now.
    fn forget_provider(&mut self, node: &Node, now: &str) {
        let before = provider_id(node);
        if before != now
            && let Some(names) = self.by_provider.get_mut(&before)
        {
            names.remove(&node.name_any());
            if names.is_empty() {
                self.by_provider.remove(&before);
            }
        }
    }

    /// Remembers whose a provider ID is; a claim that only names it takes it from no other.
    fn index(&mut self, claim: &NodeClaim) {
        let Some(status) = claim.status.as_ref().filter(|status| !status.provider_id.is_empty()) else { return };
        let free = !self.claim_of.contains_key(&status.provider_id);
        match self.instances.verdict(claim) {
            owned::OwnershipVerdict::NotOurs(_) => {}
            owned::OwnershipVerdict::Ours => drop(self.claim_of.insert(status.provider_id.clone(), claim.name_any())),
            _ if free => drop(self.claim_of.insert(status.provider_id.clone(), claim.name_any())),
            _ => {}
        }
    }

    fn claim_on(&self, node: &str) -> Option<String> {
        self.claim_of.get(&provider_id(self.nodes.get(node)?)).cloned()
    }
}

/// True for an object that is known, in the known version or a later one.
fn is_news<K: Resource>(object: &K, known: Option<&Arc<K>>) -> bool {
    known.is_some_and(|known| object.meta().uid == known.meta().uid && !is_older(object.meta(), known.meta()))
}

fn uid_of(claim: &NodeClaim) -> &str {
    claim.metadata.uid.as_deref().unwrap_or_default()
}

fn provider_id(node: &Node) -> String {
    node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default()
}
