//! Messages, held to the source by tests/layout: a row's senders send each, its takers handle each. `replica` is the process.
//!
//! | from | message | to |
//! |---|---|---|
//! | `pod_watcher` | `PodSeen` | `cluster_watcher` |
//! | `pod_watcher` | `PodPending` | `batcher` |
//! | `pod_watcher` | `PodBound`, `PodGone` | `batcher`, `registrar` |
//! | `pod_watcher`, `cluster_watcher` (each of its own watches, first to itself) | `NotRead`, `WatchFailed`, `WatchRuns` | `pod_watcher`, `cluster_watcher` |
//! | `cluster_watcher` | `ClaimChanged`, `ClaimGone` | `launcher`, `registrar`, `terminator`, `owner` |
//! | `cluster_watcher` | `ClaimChanged` | `janitor` |
//! | `cluster_watcher` | `NodeChanged`, `NodeGone` | `registrar`, `terminator` |
//! | `cluster_watcher` (where devices are watched) | `DevicesChanged` | `registrar` |
//! | `cluster_watcher` | `PoolChanged`, `ClassChanged`, `CannotUse` | `node_class` |
//! | `cluster_watcher` (room, places taken, leaving nodes), `catalogue` | `WorldChanged` | `packer` |
//! | `cluster_watcher` | `ClusterChanged` | `disruptor`, `static_pools`, `buffers`, `gangs`, `overlays`, `quotas`, `deletion_costs` |
//! | `cluster_watcher` | `NodeUnused` | `disruptor` |
//! | `batcher` | `Batch` | `packer` |
//! | `packer` | `PlanClaims` | `cluster_watcher` |
//! | `packer` | `LaunchClaims` | `launcher` |
//! | `packer` | `Planned` | `registrar` |
//! | `launcher`, `registrar`, `interruption` | `PackNow` | `packer` |
//! | `registrar` | `NotRegistered` | `launcher` |
//! | `disruptor` | `CameToNothing` | `launcher` |
//! | `launcher` (a claim that came late or was held) | `ClaimChanged`, `LaunchFails` | `launcher` |
//! | `launcher` | `ClaimSoldOut`, `ClosedPools` | `cluster_watcher` |
//! | `catalogue` | `ZonesShifted` | `cluster_watcher` |
//! | `launcher` | `TookReserved`, `LaunchedOffering`, `FullSubnets` | `catalogue` |
//! | `interruption` | `ReservationTakenBack` | `catalogue` |
//! | `terminator` | `FreedReserved` | `catalogue` |
//! | `launcher`, `interruption` | `Refused` | `catalogue` |
//! | `launcher`, `terminator` | `InstanceKnown` | `owner` |
//! | `owner` | `InstanceKnown` | `registrar`, `terminator` |
//! | `owner` | `ClaimRefused` | `cluster_watcher` |
//! | `terminator` | `LookUp` | `owner` |
//! | `interruption` | `Interrupted` | `terminator` |
//! | `interruption` | `MarkDeleting` | `cluster_watcher` |
//! | `terminator` | `Roll` | `cluster_watcher` |
//! | `packer` (gangs given back), `disruptor`, `static_pools`, `gangs`, `janitor`, `interruption` (failed status checks), `terminator` (what is interrupted) | `Remove` | `terminator` |
//! | `launcher`, `registrar`, `terminator`, `interruption`, `node_class`, `disruptor`, `static_pools`, `overlays`, `quotas`, `control_plane` | `Wrote` | `cluster_watcher` |
//! | `launcher`, `registrar`, `terminator`, `interruption`, `node_class`, `janitor`, `translator`, `overlays`, `quotas`, `deletion_costs`, `leader`, `control_plane`, `replica` | `TakeSnapshot` | `cluster_watcher` |
//! | `packer`, `disruptor`, `launcher`, `static_pools`, `buffers`, `gangs` | `TakeObserved` | `cluster_watcher` |
//! | `packer`, `disruptor`, `launcher`, `static_pools`, `buffers`, `gangs`, `overlays`, `deletion_costs`, `replica` | `InstanceTypesFor` | `catalogue` |
//! | `packer`, `disruptor`, `replica` | `CommitmentsKnown` | `catalogue` |
//! | `cluster_watcher`, `packer`, `launcher`, `registrar`, `owner`, `terminator`, `interruption`, `node_class`, `disruptor`, `static_pools`, `buffers`, `gangs`, `overlays`, `quotas`, `deletion_costs`, `janitor`, `translator` | `Record` | `recorder` |
//! | `control_plane` (claims that the watches do not show) | `NotRead`, `TellNotSynced` | `cluster_watcher` |
//! | `disruptor` | `MarkDeleting` | `cluster_watcher` |
//! | `janitor` | `InstancesSeen` | `disruptor` |
//! | `disruptor` | `HoldClaims` | `cluster_watcher` |
//! | `disruptor`, `static_pools`, `buffers`, `gangs` | `PlanClaims` | `cluster_watcher` |
//! | `buffers` | `HoldRoom` | `cluster_watcher` |
//! | `gangs` | `BookRoom` | `cluster_watcher` |
//! | `disruptor`, `static_pools`, `buffers`, `gangs` | `LaunchClaims` | `launcher` |
//! | `leader` | `Elected`, `Deposed` | `control_plane` |
//! | `control_plane` | `Attach`, `Detach`, `Forget` | `cluster_watcher` |
//! | `control_plane` | `AttachPods`, `Detach` | `pod_watcher` |
//! | `control_plane` | `CatalogueAttach`, `Detach` | `catalogue` |
//! | `replica` | `WatchLeader` | `control_plane` |
//! | `replica` | `ReleaseLease` | `leader`, `control_plane` |
//! | `replica` | `ObserveReplica` | `control_plane` |
//! | `control_plane` | `Observe` | `pod_watcher`, `cluster_watcher`, `catalogue`, `batcher`, `packer`, `launcher`, `registrar`, `terminator`, `interruption`, `disruptor`, `janitor`, `owner`, `node_class`, `translator`, `recorder`, `leader`, `webhook`, `static_pools`, `buffers`, `gangs`, `overlays`, `quotas`, `deletion_costs` |

mod gated;
mod observed;
mod packing;

use std::sync::Arc;

use actix::prelude::*;
use dovetail_cloud::Cloud;
use kube::Client;

use crate::batcher::Batcher;
use crate::buffers::Buffers;
use crate::catalogue::{Catalogue, Keep};
use crate::cloud::metered::MeteredCloud;
use crate::cluster_watcher::ClusterWatcher;
use crate::context::env::Env;
use crate::context::identities::Identities;
use crate::context::leader_term::{LeaderTerm, Office};
use crate::context::mailbox;
use crate::context::solver::Solver;
use crate::deletion_costs::DeletionCosts;
use crate::disruptor::{Disruptor, DisruptorLinks};
use crate::gangs::Gangs;
use crate::interruption::{Interruption, InterruptionLinks};
use crate::janitor::{Janitor, JanitorLinks};
use crate::kube::calls::Calls;
use crate::launcher::{Launcher, LauncherLinks};
use crate::messages::{Attach, AttachPods, CatalogueAttach, Detach, Forget};
use crate::node_class::NodeClassActor;
use crate::overlays::Overlays;
use crate::owner::{Owner, OwnerLinks};
use crate::packer::Packer;
use crate::pod_watcher::PodWatcher;
use crate::quotas::Quotas;
use crate::recorder::Recorder;
use crate::registrar::{Registrar, RegistrarLinks};
use crate::static_pools::StaticPools;
use crate::terminator::{Terminator, TerminatorLinks};
use crate::translator::Translator;
use crate::webhook::Webhook;

/// Parts that actors are made of, beside their environment.
#[derive(Clone)]
pub struct ActorParts {
    /// The API server.
    pub kube: Client,
    /// EC2, or the region of a simulation; each actor gets it within its term.
    pub cloud: Arc<dyn Cloud>,
    /// Solver of packings, for `packer` and `disruptor`.
    pub solver: Arc<dyn Solver>,
    /// Certificates of the conversion webhook, where there is one.
    pub identities: Option<Arc<dyn Identities>>,
    /// The term in which this replica leads.
    pub office: Office,
}

/// Actors of every replica.
#[derive(Clone)]
pub struct Warm {
    /// Watch of pods that wait, are bound, are gone.
    pub pod_watcher: Addr<PodWatcher>,
    /// The cluster state.
    pub cluster_watcher: Addr<ClusterWatcher>,
    /// Instance types, prices, what is sold out.
    pub catalogue: Addr<Catalogue>,
    /// Writer of Kubernetes' Events.
    pub recorder: Addr<Recorder>,
    /// Converts v1beta1 and v1; where WEBHOOK_ENABLED is set.
    pub webhook: Option<Addr<Webhook>>,
}

#[derive(Clone)]
pub struct Leading {
    /// Batches of pending pods.
    pub batcher: Addr<Batcher>,
    /// Planner of new nodes.
    pub packer: Addr<Packer>,
    /// Claims created, instances launched.
    pub launcher: Addr<Launcher>,
    /// Claims followed until their nodes are initialized.
    pub registrar: Addr<Registrar>,
    /// Status of EC2NodeClasses and NodePools.
    pub node_class: Addr<NodeClassActor>,
    /// Nodes drained, instances ended.
    pub terminator: Addr<Terminator>,
    /// Handler of EC2's announcements about instances.
    pub interruption: Addr<Interruption>,
    /// Nodes that go by our own decision.
    pub disruptor: Addr<Disruptor>,
    /// Collector of objects that nobody owns.
    pub janitor: Addr<Janitor>,
    /// Owners of instances.
    pub owner: Addr<Owner>,
    /// Translation of the alpha kinds to v1.
    pub translator: Addr<Translator>,
    /// Nodes of static pools, where the gate StaticCapacity is open.
    pub static_pools: Option<Addr<StaticPools>>,
    /// Room of capacity buffers, where the gate CapacityBuffer is open.
    pub buffers: Option<Addr<Buffers>>,
    /// Room for all pods of a group or none, where the gate ProvisioningRequest is open.
    pub gangs: Option<Addr<Gangs>>,
    /// Conditions of overlays, where the gate NodeOverlay is open.
    pub overlays: Option<Addr<Overlays>>,
    /// Status of quotas, where the gate CapacityQuota is open.
    pub quotas: Option<Addr<Quotas>>,
    /// Deletion costs of pods, where the gate PodDeletionCostManagement is open.
    pub deletion_costs: Option<Addr<DeletionCosts>>,
}

fn begin<A: Actor<Context = Context<A>>>(make: impl FnOnce(&mut Context<A>) -> A) -> Addr<A> {
    A::create(|ctx| {
        ctx.set_mailbox_capacity(mailbox::BOUND);
        make(ctx)
    })
}

/// Starts what every replica runs.
pub fn start_warm(env: &Env, means: &ActorParts) -> Warm {
    let watched = env.outage.for_watches(means.kube.clone());
    let recorder = begin(|_| Recorder::new(env, means.kube.clone()));
    let cluster_watcher = begin(|_| ClusterWatcher::new(env, watched.clone()).with_recorder(recorder.clone().into()));
    let offers = MeteredCloud::shared(&means.cloud, env, "catalogue");
    let identities = means.identities.clone();
    Warm {
        pod_watcher: begin(|_| PodWatcher::new(env, watched, cluster_watcher.clone().into())),
        catalogue: begin(|_| Catalogue::new(env, offers).with_listener(cluster_watcher.clone().recipient())),
        recorder,
        cluster_watcher,
        webhook: identities.map(|own| begin(|_| Webhook::new(env, means.kube.clone(), own, means.office.clone()))),
    }
}

/// Starts what the leader runs, within the leadership, and lets the watchers speak to it.
///
/// Actors that are linked in a circle have their addresses before they run: `launcher`, `registrar` and `owner`. Each of
/// the others is started when those that it is linked to are.
pub fn start_leading(env: &Env, means: &ActorParts, warm: &Warm, leader_term: &LeaderTerm) -> Leading {
    let env = &env.in_term(leader_term.term());
    let term = TermParts { env, means, warm, leader_term };
    let (launcher_ctx, registrar_ctx) = (Context::<Launcher>::new(), Context::<Registrar>::new());
    let owner_ctx = Context::<Owner>::new();
    let (launcher, registrar, owner) = (launcher_ctx.address(), registrar_ctx.address(), owner_ctx.address());
    let terminator = begin(|_| Terminator::new(env, term.terminator(&owner)));
    let links = term.packer(&launcher, &registrar, &terminator);
    let packer = begin(|_| Packer::new(env, links, means.solver.clone()));
    let disruptor = begin(|_| Disruptor::new(env, term.disruptor(&terminator, &launcher), means.solver.clone()));
    let leading = Leading {
        static_pools: env.settings.static_capacity().then(|| {
            let links = term.static_pools(&launcher, &terminator);
            begin(|_| StaticPools::new(env, links, means.solver.clone()))
        }),
        buffers: env.settings.capacity_buffers().then(|| {
            let links = term.buffers(&launcher);
            begin(|_| Buffers::new(env, links, means.solver.clone()))
        }),
        gangs: term.begin_gangs(&launcher, &terminator),
        overlays: env.settings.node_overlays().then(|| begin(|_| Overlays::new(env, term.overlays()))),
        quotas: env.settings.capacity_quotas().then(|| begin(|_| Quotas::new(env, term.quotas()))),
        deletion_costs: term.begin_deletion_costs(),
        owner: owner_ctx.run(Owner::new(env, term.owner(&registrar, &terminator))),
        interruption: begin(|_| Interruption::new(env, term.interruption(&packer, &terminator))),
        janitor: begin(|_| Janitor::new(env, term.janitor(&disruptor, &terminator))),
        batcher: begin(|_| Batcher::new(env, packer.clone().recipient())),
        launcher: launcher_ctx.run(Launcher::new(env, term.launcher(&packer, &owner))),
        registrar: registrar_ctx.run(Registrar::new(env, term.registrar(&packer, &launcher))),
        node_class: begin(|_| {
            let (cluster, recorder) = (warm.cluster_watcher.clone().into(), warm.recorder.clone().into());
            NodeClassActor::new(env, term.cloud("node_class"), term.calls("node_class"), cluster, recorder)
        }),
        translator: begin(|_| {
            let (cluster, recorder) = (warm.cluster_watcher.clone().into(), warm.recorder.clone().into());
            Translator::new(env, term.cloud("translator"), term.calls("translator"), cluster, recorder)
        }),
        terminator,
        disruptor,
        packer,
    };
    if let Some(work) = term.cloud("provider").work_of_leader() {
        tokio::task::spawn_local(work);
    }
    attach(warm, &leading);
    warm.catalogue.do_send(Keep(term.calls("catalogue")));
    leading
}

/// Builder of the links of a term's actors: a method for each actor, given the others of the term that it speaks to.
#[derive(Clone, Copy)]
struct TermParts<'a> {
    env: &'a Env,
    means: &'a ActorParts,
    warm: &'a Warm,
    leader_term: &'a LeaderTerm,
}

impl TermParts<'_> {
    /// The cloud for an actor: its calls are counted by its name, and refused once the term is over.
    fn cloud(&self, actor: &'static str) -> Arc<dyn Cloud> {
        MeteredCloud::within(self.leader_term, &self.means.cloud, self.env, actor)
    }

    /// The API server for an actor, within the term too.
    fn calls(&self, actor: &'static str) -> Calls {
        Calls::new(self.means.kube.clone(), self.env.for_actor(actor), Some(self.leader_term.clone()))
    }

    fn launcher(&self, packer: &Addr<Packer>, owner: &Addr<Owner>) -> LauncherLinks {
        LauncherLinks {
            cluster: self.warm.cluster_watcher.clone().into(),
            catalogue: self.warm.catalogue.clone().into(),
            packer: packer.clone().into(),
            recorder: self.warm.recorder.clone().into(),
            owner: owner.clone().into(),
            cloud: self.cloud("launcher"),
            calls: self.calls("launcher"),
        }
    }

    fn registrar(&self, packer: &Addr<Packer>, launcher: &Addr<Launcher>) -> RegistrarLinks {
        RegistrarLinks {
            cluster: self.warm.cluster_watcher.clone().into(),
            packer: packer.clone().into(),
            launcher: launcher.clone().into(),
            recorder: self.warm.recorder.clone().into(),
            calls: self.calls("registrar"),
            cloud: self.cloud("registrar"),
        }
    }

    fn terminator(&self, owner: &Addr<Owner>) -> TerminatorLinks {
        TerminatorLinks {
            cluster: self.warm.cluster_watcher.clone().into(),
            recorder: self.warm.recorder.clone().into(),
            owner: owner.clone().into(),
            catalogue: self.warm.catalogue.clone().into(),
            cloud: self.cloud("terminator"),
            calls: self.calls("terminator"),
        }
    }

    fn interruption(&self, packer: &Addr<Packer>, terminator: &Addr<Terminator>) -> InterruptionLinks {
        InterruptionLinks {
            cluster: self.warm.cluster_watcher.clone().into(),
            catalogue: self.warm.catalogue.clone().into(),
            packer: packer.clone().into(),
            terminator: terminator.clone().into(),
            recorder: self.warm.recorder.clone().into(),
            cloud: self.cloud("interruption"),
            calls: self.calls("interruption"),
            leader_term: self.leader_term.clone(),
        }
    }

    fn disruptor(&self, terminator: &Addr<Terminator>, launcher: &Addr<Launcher>) -> DisruptorLinks {
        DisruptorLinks {
            cluster: self.warm.cluster_watcher.clone().into(),
            catalogue: self.warm.catalogue.clone().into(),
            terminator: terminator.clone().into(),
            recorder: self.warm.recorder.clone().into(),
            launcher: launcher.clone().into(),
            cloud: self.cloud("disruptor"),
            calls: self.calls("disruptor"),
        }
    }

    fn janitor(&self, disruptor: &Addr<Disruptor>, terminator: &Addr<Terminator>) -> JanitorLinks {
        JanitorLinks {
            disruptor: disruptor.clone().into(),
            cluster: self.warm.cluster_watcher.clone().into(),
            terminator: terminator.clone().into(),
            recorder: self.warm.recorder.clone().into(),
            cloud: self.cloud("janitor"),
            calls: self.calls("janitor"),
        }
    }

    /// The owner tells these two what it learns of instances.
    fn owner(&self, registrar: &Addr<Registrar>, terminator: &Addr<Terminator>) -> OwnerLinks {
        OwnerLinks {
            cluster: self.warm.cluster_watcher.clone().into(),
            recorder: self.warm.recorder.clone().into(),
            cloud: self.cloud("owner"),
            listeners: vec![registrar.clone().recipient(), terminator.clone().recipient()],
        }
    }
}

/// Tells the watchers the leader's actors. Such orders go into a mailbox even if it is full.
fn attach(warm: &Warm, leading: &Leading) {
    let Leading { batcher, packer, launcher, registrar, node_class, terminator, janitor, disruptor, owner, .. } =
        leading.clone();
    warm.catalogue.do_send(CatalogueAttach(packer.clone().recipient()));
    warm.cluster_watcher.do_send(Attach {
        claims: vec![
            launcher.clone().recipient(),
            registrar.clone().recipient(),
            terminator.clone().recipient(),
            janitor.recipient(),
            owner.clone().recipient(),
        ],
        claims_gone: vec![
            launcher.recipient(),
            registrar.clone().recipient(),
            terminator.clone().recipient(),
            owner.recipient(),
        ],
        devices: registrar.clone().recipient(),
        nodes: vec![registrar.clone().recipient(), terminator.clone().recipient()],
        nodes_gone: vec![registrar.clone().recipient(), terminator.recipient()],
        pools: node_class.clone().recipient(),
        classes: node_class.clone().recipient(),
        unusable: node_class.recipient(),
        world: packer.recipient(),
        disruption: [disruptor.clone().recipient()].into_iter().chain(leading.gated_listeners()).collect(),
        unused: disruptor.recipient(),
    });
    warm.pod_watcher.do_send(AttachPods {
        pending: batcher.clone().recipient(),
        bound: vec![batcher.clone().recipient(), registrar.clone().recipient()],
        gone: vec![batcher.recipient(), registrar.recipient()],
    });
}

/// The term is over: the watchers fall silent, plans are void.
pub fn detach(warm: &Warm) {
    warm.pod_watcher.do_send(Detach);
    warm.cluster_watcher.do_send(Detach);
    warm.cluster_watcher.do_send(Forget);
    warm.catalogue.do_send(Detach);
}
