//! Takes claims from Launched to Registered to Initialized as their Nodes appear, gives up those that take too long, and
//! tells when the last pod of a plan is bound. What to do is decided by `dovetail_core::lifecycle`; here it is done.
//!
//! At the mailbox's bound: a claim is worked on by one effect at a time; what changes meanwhile is looked at afterwards.

mod kept_places;
mod plans;
mod register;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::names::{conditions, labels};
use dovetail_api::v1::{NodeClaim, condition};
use dovetail_core::cluster_state::{Kind, Target, Unreadable, is_older};
use dovetail_core::lifecycle::claim::from_quantities;
use dovetail_core::lifecycle::nodeless::{Nodeless, Verdict};
use dovetail_core::lifecycle::{self, Decision, Stage, Timeout, Writes};
use k8s_openapi::api::core::v1::Node;
use kube::{Resource, ResourceExt};

use crate::context::desk::Desk;
use crate::context::traces;
use crate::kube::calls::{CallError, Calls};
use crate::kube::claims::Claims;
use crate::kube::nodes::Nodes;
use crate::launcher::facts::pool_of;
use crate::links::{ToClusterWatcher, ToLauncher, ToPacker, ToRecorder};
use crate::messages::{
    ClaimChanged, ClaimGone, InstanceKnown, NodeChanged, NodeGone, NotRegistered, Observe, PackNow, Planned, PodBound,
    PodGone, Record, RegistrarState, TakeSnapshot, TraceContext, Wrote,
};
use crate::owner::owned::{self, Instances};
use crate::recorder::object;
use crate::telemetry::measure::Measure;
use crate::telemetry::story::Story;
use kept_places::{KeptPlaces, Outcome};
use plans::PlanState;

/// Time-outs are looked for this often.
const LOOK: Duration = Duration::from_secs(10);

/// Whom the registrar speaks to.
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
}

/// See the module.
pub struct Registrar {
    desk: Desk,
    links: RegistrarLinks,
    claims: BTreeMap<String, Arc<NodeClaim>>,
    nodes: BTreeMap<String, Arc<Node>>,
    /// Names of Nodes by provider id.
    by_provider: BTreeMap<String, BTreeSet<String>>,
    /// Names of claims by provider id.
    claim_of: BTreeMap<String, String>,
    busy: BTreeSet<String>,
    /// Whose the claims' instances are.
    instances: Instances,
    /// Claims that have registered and have no Node.
    nodeless: Nodeless,
    /// Claims that changed while they were worked on.
    again: BTreeSet<String>,
    /// Pods that each target waits for, how many it got, and the plan's trace.
    plans: BTreeMap<Target, PlanState>,
    /// Pods that are nominated to their nodes.
    kept: KeptPlaces,
    passed: BTreeMap<&'static str, u64>,
}

impl Registrar {
    /// A registrar that knows no claim.
    pub fn new(desk: &Desk, links: RegistrarLinks) -> Self {
        Self {
            desk: desk.of("registrar"),
            links,
            claims: BTreeMap::new(),
            nodes: BTreeMap::new(),
            by_provider: BTreeMap::new(),
            claim_of: BTreeMap::new(),
            busy: BTreeSet::new(),
            instances: Instances::default(),
            nodeless: Nodeless::default(),
            again: BTreeSet::new(),
            plans: BTreeMap::new(),
            kept: KeptPlaces::default(),
            passed: BTreeMap::new(),
        }
    }
}

impl Actor for Registrar {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(LOOK, |registrar, ctx| {
            let unfinished = |claim: &NodeClaim| {
                lifecycle::stage(claim) != Some(Stage::Initialized) || registrar.nodes_of(claim).is_empty()
            };
            let names: Vec<_> =
                registrar.claims.iter().filter(|(_, claim)| unfinished(claim)).map(|(name, _)| name.clone()).collect();
            names.iter().for_each(|name| registrar.look(name, ctx));
            registrar.look_at_kept_places(ctx);
        });
    }
}

impl Handler<ClaimChanged> for Registrar {
    type Result = ();

    fn handle(&mut self, ClaimChanged(claim): ClaimChanged, ctx: &mut Self::Context) {
        let name = claim.name_any();
        self.claims.insert(name.clone(), claim.clone());
        self.instances.note(&claim);
        self.index(&claim);
        self.look(&name, ctx);
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
        }
        self.nodeless.ends(&gone.name);
        self.again.remove(&gone.name);
        self.finish(&Target::Claim(gone.name));
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
            self.look(&claim, ctx);
        }
    }
}

impl Handler<NodeGone> for Registrar {
    type Result = ();

    fn handle(&mut self, gone: NodeGone, _: &mut Self::Context) {
        let Some(node) = self.nodes.remove(&gone.name) else { return };
        self.forget_provider(&node, "");
        self.finish(&Target::Node(gone.name));
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
            self.look(&name, ctx);
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
            owned::Verdict::NotOurs(_) => {}
            owned::Verdict::Ours => drop(self.claim_of.insert(status.provider_id.clone(), claim.name_any())),
            _ if free => drop(self.claim_of.insert(status.provider_id.clone(), claim.name_any())),
            _ => {}
        }
    }

    fn claim_on(&self, node: &str) -> Option<String> {
        self.claim_of.get(&provider_id(self.nodes.get(node)?)).cloned()
    }

    /// Decides a claim's next step and does it.
    fn look(&mut self, name: &str, ctx: &mut Context<Self>) {
        if self.busy.contains(name) {
            self.again.insert(name.to_owned());
            return;
        }
        let Some(claim) = self.claims.get(name).cloned() else { return };
        let nodes = self.nodes_of(&claim);
        let refs: Vec<&Node> = nodes.iter().map(AsRef::as_ref).collect();
        let nodeless = self.nodeless_for(&claim, nodes.is_empty());
        // Nothing is written on a Node whose instance is not known to be the claim's.
        if !nodes.is_empty() && self.instances.verdict(&claim) != owned::Verdict::Ours {
            if let Some(timeout) = self.expired(&claim, nodeless) {
                self.give_up(&claim, timeout, ctx);
            }
            return;
        }
        match lifecycle::next(&claim, &refs, nodeless, self.desk.wall()) {
            Decision::Write(writes) => self.write(name, *writes, ctx),
            Decision::GiveUp(Timeout::NodeGone) => self.look_for_node(&claim, ctx),
            Decision::GiveUp(timeout) => self.give_up_unless_unread(&claim, timeout, ctx),
            Decision::Wait(_) | Decision::Leaving | Decision::Settled => {}
        }
    }

    /// The time that a claim has had, if it is not being deleted.
    fn expired(&self, claim: &NodeClaim, nodeless: Duration) -> Option<Timeout> {
        let stays = claim.metadata.deletion_timestamp.is_none();
        stays.then(|| lifecycle::liveness::expired(claim, nodeless, self.desk.wall())).flatten()
    }

    /// For how long a claim that has registered, and is not being deleted, has had no Node.
    fn nodeless_for(&mut self, claim: &NodeClaim, none: bool) -> Duration {
        let name = claim.name_any();
        let goes = claim.metadata.deletion_timestamp.is_some();
        if !none || goes || lifecycle::stage(claim) < Some(Stage::Registered) {
            self.nodeless.ends(&name);
            return Duration::ZERO;
        }
        self.nodeless.lasts(&name, self.desk.now())
    }

    /// Gives a claim up whose Node is gone, once the API server says so itself.
    fn look_for_node(&mut self, claim: &Arc<NodeClaim>, ctx: &mut Context<Self>) {
        let name = claim.name_any();
        match self.nodeless.judge(&name, self.claims.len(), self.desk.now()) {
            Verdict::GiveUp => {}
            Verdict::Wait => return,
            Verdict::TooMany { claims, bound } => {
                return self.desk.tell(Story::NodesGone { node_claims: claims, bound });
            }
        }
        self.busy.insert(name.clone());
        let (nodes, claim) = (Nodes::new(self.links.calls.clone()), claim.clone());
        let status = claim.status.clone().unwrap_or_default();
        let looking = async move { nodes.get(&status.node_name).await }.into_actor(self);
        ctx.spawn(looking.map(move |found, registrar, ctx| {
            registrar.busy.remove(&name);
            let gone = match found {
                Err(CallError::NotFound(_)) => true,
                // Without one it may be this machine's yet.
                Ok(node) if !matches!(provider_id(&node), id if id.is_empty() || id == status.provider_id) => true,
                Ok(node) => {
                    registrar.desk.post(&registrar.links.cluster, Wrote::Node(Arc::new(node)));
                    false
                }
                Err(_) => false,
            };
            let changed = registrar.again.remove(&name);
            if gone && !changed {
                return registrar.give_up(&claim, Timeout::NodeGone, ctx);
            }
            registrar.nodeless.kept(&name);
            if changed {
                registrar.look(&name, ctx);
            }
        }));
    }

    /// Gives a claim up, unless its Node is there and cannot be read: pods may be on it.
    fn give_up_unless_unread(&mut self, claim: &Arc<NodeClaim>, timeout: Timeout, ctx: &mut Context<Self>) {
        let name = claim.name_any();
        self.busy.insert(name.clone());
        let claim = claim.clone();
        let asked = self.links.cluster.send(TakeSnapshot).into_actor(self);
        ctx.spawn(asked.map(move |known, registrar, ctx| {
            registrar.busy.remove(&name);
            let changed = registrar.again.remove(&name);
            let provider_id = claim.status.as_ref().map_or("", |status| status.provider_id.as_str());
            let its = |node: &Unreadable| !provider_id.is_empty() && node.facts.provider_id == provider_id;
            match known {
                Ok(Some(known)) if known.unreadable_of(Kind::Node).any(|(_, node)| its(node)) => {}
                Ok(Some(_)) if !changed => registrar.give_up(&claim, timeout, ctx),
                _ if changed => registrar.look(&name, ctx),
                _ => {}
            }
        }));
    }

    fn nodes_of(&self, claim: &NodeClaim) -> Vec<Arc<Node>> {
        let provider_id = claim.status.as_ref().map_or("", |status| status.provider_id.as_str());
        let names = self.by_provider.get(provider_id).filter(|_| !provider_id.is_empty());
        let nodes = names.into_iter().flatten().filter_map(|name| self.nodes.get(name).cloned()).collect();
        self.instances.own_nodes(claim, nodes)
    }

    fn write(&mut self, name: &str, writes: Writes, ctx: &mut Context<Self>) {
        self.busy.insert(name.to_owned());
        let name = name.to_owned();
        // From then on kube-scheduler may put pods there.
        let lets_in = writes.passes == Some(Stage::Registered) && self.keeps_places();
        let (links, wanted, claim) = (self.links.clone(), writes.clone(), name.clone());
        let writing = async move {
            let kept = if lets_in { kept_places::keep(links.clone(), claim).await } else { Outcome::default() };
            (kept, register::write(links, wanted).await)
        };
        ctx.spawn(writing.into_actor(self).map(move |(kept, written), registrar, ctx| {
            registrar.kept(kept);
            registrar.busy.remove(&name);
            match written {
                Ok((node, claim)) => {
                    registrar.written(node, claim, &writes);
                    // Only now is it known that the claim is registered.
                    if lets_in {
                        registrar.look_at_kept_places(ctx);
                    }
                }
                Err(CallError::Deposed) => return,
                // What is there now, or that it is gone, comes as a change; looked at at once it would be as it was.
                Err(_) => {
                    let later = move |registrar: &mut Self, ctx: &mut Context<Self>| {
                        registrar.again.remove(&name);
                        registrar.look(&name, ctx);
                    };
                    ctx.run_later(Duration::from_secs(1), later);
                    return;
                }
            }
            registrar.again.remove(&name);
            registrar.look(&name, ctx);
        }));
    }

    fn written(&mut self, node: Option<Arc<Node>>, claim: Arc<NodeClaim>, writes: &Writes) {
        // Before the answer came the watch may have shown what has become of them since, or that they are gone.
        if let Some(node) = node.filter(|node| is_news(node.as_ref(), self.nodes.get(&node.name_any()))) {
            self.nodes.insert(node.name_any(), node);
        }
        if is_news(claim.as_ref(), self.claims.get(&claim.name_any())) {
            self.claims.insert(claim.name_any(), claim.clone());
        }
        self.tell(&claim, writes);
    }

    fn tell(&mut self, claim: &NodeClaim, writes: &Writes) {
        let trace = traces::of_packing(claim);
        let (node_claim, status) = (claim.name_any(), claim.status.clone().unwrap_or_default());
        let node = status.node_name.clone();
        if writes.guard_missing {
            let message = format!("Node {node} joined without the taint karpenter.sh/unregistered:NoExecute");
            self.desk
                .post(&self.links.recorder, Record::warning(object::claim(claim), "UnregisteredTaintMissing", message));
            self.desk.tell_in(Story::GuardMissing { node_claim: node_claim.clone(), node: node.clone() }, trace);
        }
        match writes.passes {
            Some(Stage::Registered) => {
                *self.passed.entry("registered").or_default() += 1;
                self.tell_stage(claim, "register", conditions::LAUNCHED);
                let (pool, zone) = (pool_of(claim), claim.labels().get(labels::ZONE).cloned().unwrap_or_default());
                self.desk.measure(&Measure::NodeCreated { pool: &pool, zone: &zone });
                let provider_id = status.provider_id;
                self.desk.tell_in(Story::Registered { node_claim, node, provider_id }, trace);
            }
            Some(Stage::Initialized) => {
                *self.passed.entry("initialized").or_default() += 1;
                self.tell_stage(claim, "initialize", conditions::REGISTERED);
                traces::claim_ended(&self.desk, claim, None);
                let allocatable = from_quantities(&status.allocatable).to_string();
                self.desk.tell_in(Story::Initialized { node_claim, node, allocatable }, trace);
            }
            Some(Stage::Launched) | None => {}
        }
    }

    /// Tells a stage as a span: it began when the stage before was reached.
    fn tell_stage(&self, claim: &NodeClaim, name: &'static str, before: &str) {
        let Some(packing) = traces::of_packing(claim) else { return };
        let own = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let begun = condition(own, before).map(|one| one.last_transition_time.0);
        let span = self.desk.span(traces::of_claim(packing, &claim.name_any()), name, "").since_some(begun);
        span.with_all(|| traces::attributes(claim)).end();
    }

    /// Deletes a claim that has had its time; its instance, if it has one, is the terminator's. Its pods are free.
    fn give_up(&mut self, claim: &Arc<NodeClaim>, timeout: Timeout, ctx: &mut Context<Self>) {
        let name = claim.name_any();
        self.busy.insert(name.clone());
        let (node_claim, reason) = (name.clone(), timeout.reason().to_owned());
        let why = match timeout {
            Timeout::NodeGone => "its Node is gone",
            Timeout::LaunchTimeout | Timeout::RegistrationTimeout => "its node did not come up in time",
        };
        traces::claim_ended(&self.desk, claim, Some((timeout.reason(), why)));
        self.desk.tell_in(Story::GaveUp { node_claim, reason }, traces::of_packing(claim));
        // A claim that names an instance of somebody else says nothing of its pool's nodes.
        if timeout == Timeout::RegistrationTimeout
            && !matches!(self.instances.verdict(claim), owned::Verdict::NotOurs(_))
        {
            self.desk.post(&self.links.launcher, NotRegistered { claim: claim.clone() });
        }
        let packing = traces::of_packing(claim);
        let (claims, claim, uid) = (Claims::new(self.links.calls.clone()), NodeClaim::clone(claim), claim.uid());
        let ending = async move { claims.remove(claim).await }.into_actor(self);
        ctx.spawn(ending.map(move |ended, registrar, _| {
            registrar.busy.remove(&name);
            match ended {
                Ok(claim) => registrar.desk.post(&registrar.links.cluster, Wrote::Claim(Arc::new(claim))),
                Err(CallError::NotFound(_)) => {
                    registrar.desk.post(&registrar.links.cluster, Wrote::ClaimGone(name, uid));
                }
                Err(_) => return,
            }
            let trace = packing.unwrap_or_else(|| TraceContext::root(&mut registrar.desk.rng("give up")));
            registrar.desk.post(&registrar.links.packer, PackNow::after(registrar.desk.term, trace));
        }));
    }
}

/// Whether this is an object that is known, and not from before what is known of it.
fn is_news<K: Resource>(object: &K, known: Option<&Arc<K>>) -> bool {
    known.is_some_and(|known| object.meta().uid == known.meta().uid && !is_older(object.meta(), known.meta()))
}

fn provider_id(node: &Node) -> String {
    node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default()
}
