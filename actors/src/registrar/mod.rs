//! Takes claims from Launched to Registered to Initialized as their Nodes appear, gives up those that take too long, and
//! tells when the last pod of a plan is bound. What to do is decided by `dovetail_core::lifecycle`; here it is done.
//!
//! At the mailbox's bound: a claim is worked on by one effect at a time; what changes meanwhile is looked at afterwards.

mod binder;
mod look;
mod register;
mod tags;
mod write;

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::annotations;
use dovetail_api::v1::NodeClaim;
use dovetail_cloud::CloudInstances;
use dovetail_core::cluster_state::{NominationTarget, is_older};
use dovetail_core::dra::DeviceBook;
use dovetail_core::lifecycle::nodeless::Nodeless;
use dovetail_core::lifecycle::pace::WritePace;
use dovetail_core::lifecycle::{self, ClaimStage};
use dovetail_core::ownership::{Instances, OwnershipVerdict};
use k8s_openapi::api::core::v1::Node;
use kube::{Resource, ResourceExt};

use crate::context::alarms::{Alarmed, Alarms};
use crate::context::book::{Book, Key, Latest};
use crate::context::brakes::Brake;
use crate::context::env::Env;
use crate::kube::calls::Calls;
use crate::links::{ToClusterWatcher, ToLauncher, ToPacker, ToRecorder};
use crate::messages::{
    ClaimChanged, ClaimGone, Counts, DevicesChanged, InstanceKnown, NodeChanged, NodeGone, Observe, RegistrarState,
};
use binder::Binder;
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
    known: Book<Registration>,
    /// Ownership of the claims' instances.
    instances: Instances,
    awaited: Awaited,
    /// Alarms for the next check of claims after a failed write, by name.
    alarms: Alarms,
    binder: Binder,
    /// Work at the cloud that follows registration.
    after: AfterRegistration,
    passed: Counts,
}

/// Things outside of claims that these wait for.
struct Awaited {
    /// Claims that have registered and have no Node.
    nodeless: Nodeless,
    /// Devices that are published; `None` where none are asked for.
    devices: Option<DeviceBook>,
}

/// A claim on its way to be initialized; a Node has nothing beside it.
#[derive(Default)]
struct Registration {
    /// Pauses, while the API server refuses its writes.
    brake: Option<Brake>,
    /// It was told that it is given up.
    gave_up: bool,
    pace: WritePace,
    /// Its instance has its tags, which the claim does not say yet.
    tagged: bool,
}

impl Registrar {
    /// A registrar that knows no claim.
    pub fn new(env: &Env, links: RegistrarLinks) -> Self {
        let env = env.for_actor("registrar");
        let devices = env.settings.devices().map(|_| DeviceBook::default());
        let awaited = Awaited { nodeless: Nodeless::default(), devices };
        Self {
            after: AfterRegistration::new(env.rng("tags")),
            env,
            links,
            known: Book::default(),
            instances: Instances::default(),
            awaited,
            alarms: Alarms::default(),
            binder: Binder::default(),
            passed: Counts::new(),
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
                registrar.known.claims().filter(|claim| unfinished(claim)).map(|claim| claim.name_any()).collect();
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
        let (name, now) = (claim.name_any(), self.env.now());
        self.instances.note(&claim);
        let before = self.known.claim(&name).cloned();
        self.known.note(Latest::Claim(claim.clone()));
        if let Some(registration) = self.known.get_mut(&Key::claim(&name)) {
            registration.pace.observe(before.as_deref(), &claim, now);
        }
        self.take_next_step(&name, ctx);
    }
}

impl Handler<ClaimGone> for Registrar {
    type Result = ();

    fn handle(&mut self, gone: ClaimGone, _: &mut Self::Context) {
        if let Some(claim) = self.known.claim(&gone.name).cloned() {
            self.known.gone(&Key::Claim(gone.name.clone()));
            self.instances.forget(&claim);
        }
        self.awaited.nodeless.ends(&gone.name);
        self.finish_plan(&NominationTarget::Claim(gone.name));
    }
}

impl Handler<NodeChanged> for Registrar {
    type Result = ();

    fn handle(&mut self, NodeChanged(node): NodeChanged, ctx: &mut Self::Context) {
        self.known.note(Latest::Node(node.clone()));
        if let Some(claim) = self.claim_of(&node) {
            self.take_next_step(&claim, ctx);
        }
    }
}

impl Handler<NodeGone> for Registrar {
    type Result = ();

    fn handle(&mut self, gone: NodeGone, _: &mut Self::Context) {
        if self.known.gone(&Key::Node(gone.name.clone())).is_some() {
            self.finish_plan(&NominationTarget::Node(gone.name));
        }
    }
}

impl Handler<DevicesChanged> for Registrar {
    type Result = ();

    fn handle(&mut self, DevicesChanged(devices): DevicesChanged, ctx: &mut Self::Context) {
        self.awaited.devices = Some(devices);
        let waits = |claim: &&Arc<NodeClaim>| {
            claim.annotations().contains_key(annotations::REQUESTED_DRA_DRIVERS)
                && lifecycle::stage(claim) != Some(ClaimStage::Initialized)
        };
        let names: Vec<_> = self.known.claims().filter(waits).map(|claim| claim.name_any()).collect();
        names.iter().for_each(|name| self.take_next_step(name, ctx));
    }
}

impl Handler<InstanceKnown> for Registrar {
    type Result = ();

    fn handle(&mut self, known: InstanceKnown, ctx: &mut Self::Context) {
        if !self.instances.learn(&known.id, known.marks.clone()) {
            return;
        }
        for name in self.instances.naming(&known.id) {
            self.take_next_step(&name, ctx);
        }
    }
}

impl Handler<Observe> for Registrar {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let ((claims, nodes), busy) = (self.known.count(), self.known.busy.len());
        let (plans, passed) = (self.binder.plans(), self.passed.clone());
        MessageResult(RegistrarState { claims, nodes, busy, plans, passed }.into())
    }
}

impl Registrar {
    /// The claim whose machine a Node is: the instance's own, or else the first by name that names it.
    fn claim_of(&self, node: &Node) -> Option<String> {
        let claims = self.known.claims_of(node);
        let own = claims.iter().find(|claim| self.instances.verdict(claim) == OwnershipVerdict::Ours);
        own.or(claims.first()).map(|claim| claim.name_any())
    }

    fn claim_on(&self, node: &str) -> Option<String> {
        self.claim_of(self.known.node(node)?)
    }
}

/// True for an object that is known, in the known version or a later one.
fn is_news<K: Resource>(object: &K, known: Option<&Arc<K>>) -> bool {
    known.is_some_and(|known| object.meta().uid == known.meta().uid && !is_older(object.meta(), known.meta()))
}

fn uid_of(claim: &NodeClaim) -> &str {
    claim.metadata.uid.as_deref().unwrap_or_default()
}
