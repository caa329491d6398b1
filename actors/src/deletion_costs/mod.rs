//! Writes the deletion costs of pods, by which ReplicaSets that are scaled in empty the nodes that are to go. Decided in
//! `dovetail_core::deletion_costs`. While the feature gate PodDeletionCostManagement is closed it takes off what was written
//! while it was open, and ends when nothing of that is left.
//!
//! At the mailbox's bound: what comes in only says that something has changed; there is one look at a time.

mod refused;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::Snapshot;
use dovetail_core::deletion_costs::{
    CostPlan, CostWrite, ValuedNodes, WritePace, plan_deletion_costs, remove_deletion_costs,
};
use dovetail_core::disruption::OffersByClass;

use self::refused::RefusedWrites;
use crate::context::env::Env;
use crate::context::looks::{Looking, Looks};
use crate::kube::calls::Calls;
use crate::links::{ToCatalogue, ToClusterWatcher, ToRecorder};
use crate::messages::{ClusterChanged, DeletionCostsState, InstanceTypesFor, Observe, TakeSnapshot};

/// Minimum time between two looks: pods change the cluster all the time, and the order of nodes seldom.
const REST: Duration = Duration::from_secs(10);
/// Interval of the looks when nothing changes: budgets have schedules.
const POLL: Duration = Duration::from_secs(60);
/// Pause before the next look where there was no answer.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Looks without a value of ours after which a closed gate needs no more: a write of the last leader may be seen late.
const CLEAN_LOOKS: u32 = 2;

/// Addresses that it sends to.
#[derive(Clone)]
pub struct DeletionCostsLinks {
    /// For snapshots.
    pub cluster: ToClusterWatcher,
    /// For prices.
    pub catalogue: ToCatalogue,
    /// For events.
    pub recorder: ToRecorder,
    /// For the annotations.
    pub calls: Calls,
}

/// The actor `deletion_costs`.
pub struct DeletionCosts {
    env: Env,
    links: DeletionCostsLinks,
    looks: Looks,
    state: DeletionCostsState,
    /// Nodes that had values at the last look.
    valued: ValuedNodes,
    pace: WritePace,
    /// Writes that have not begun, the most urgent first; each look makes them anew.
    queue: VecDeque<CostWrite>,
    /// Pods, by uid, that are being written.
    writing: BTreeSet<String>,
    refused: RefusedWrites,
    /// Looks in a row, with the gate closed, that have found nothing of ours.
    clean: u32,
}

impl DeletionCosts {
    /// At the start of a term.
    pub fn new(env: &Env, links: DeletionCostsLinks) -> Self {
        Self {
            env: env.for_actor("deletion_costs"),
            links,
            looks: Looks::default(),
            state: DeletionCostsState::default(),
            valued: ValuedNodes::default(),
            pace: WritePace::default(),
            queue: VecDeque::new(),
            writing: BTreeSet::new(),
            refused: RefusedWrites::default(),
            clean: 0,
        }
    }
}

impl Looking for DeletionCosts {
    fn looks(&mut self) -> &mut Looks {
        &mut self.looks
    }

    fn look_clock(&self) -> Duration {
        self.env.now()
    }

    fn begin_look(&mut self, ctx: &mut Context<Self>) {
        if self.looks.under_way() || !self.links.calls.may_decide() {
            return self.look_in(POLL, ctx);
        }
        self.looks.begin();
        let looking = look_at_cluster(self.links.clone(), self.env.settings.pod_deletion_costs()).into_actor(self);
        ctx.spawn(looking.map(|seen, actor, ctx| {
            let again = seen.map_or(RETRY_DELAY, |(snapshot, offers)| actor.decide(&snapshot, offers.as_ref(), ctx));
            if actor.clean < CLEAN_LOOKS {
                actor.end_look(again, REST, ctx);
            }
        }));
    }
}

impl Actor for DeletionCosts {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.look_in(REST, ctx);
    }
}

impl Handler<ClusterChanged> for DeletionCosts {
    type Result = ();

    fn handle(&mut self, _: ClusterChanged, ctx: &mut Self::Context) {
        self.look_at_change(REST, ctx);
    }
}

impl Handler<Observe> for DeletionCosts {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.state.clone().into())
    }
}

impl DeletionCosts {
    /// Decides all values, and begins what is to be written; answers when to look again. Without `offers` the gate is closed.
    fn decide(&mut self, snapshot: &Snapshot, offers: Option<&OffersByClass>, ctx: &mut Context<Self>) -> Duration {
        let plan = match offers {
            Some(offers) => {
                let spread = &self.env.settings.default_spread;
                plan_deletion_costs(snapshot, offers, spread, &mut self.valued, self.env.moment())
            }
            None => CostPlan { writes: remove_deletion_costs(snapshot), ..CostPlan::default() },
        };
        self.clean = if offers.is_none() && plan.writes.is_empty() { self.clean + 1 } else { 0 };
        self.state.looks += 1;
        self.state.values = plan.values;
        self.state.pending = nodes_to_be_written(&plan.writes);
        self.refused.retain(|uid| snapshot.pods.contains_key(uid));
        self.queue = self.refused.put_last(plan.writes);
        self.write(ctx);
        if self.queue.is_empty() { POLL } else { REST }
    }
}

/// Number of nodes, by NodePool, with pods whose annotations are to be changed.
fn nodes_to_be_written(writes: &[CostWrite]) -> BTreeMap<String, usize> {
    let nodes: BTreeSet<(&str, &str)> = writes.iter().map(|one| (one.pool.as_str(), one.node.as_str())).collect();
    let mut all = BTreeMap::new();
    for (pool, _) in nodes {
        *all.entry(pool.to_owned()).or_default() += 1;
    }
    all
}

/// The cluster, and where the gate is open the instance types of all classes in use.
async fn look_at_cluster(links: DeletionCostsLinks, is_open: bool) -> Option<(Snapshot, Option<OffersByClass>)> {
    let snapshot = links.cluster.send(TakeSnapshot).await.ok()??;
    if !is_open {
        return Some((snapshot, None));
    }
    let classes = snapshot.used_classes();
    let offers = links.catalogue.send(InstanceTypesFor::new(classes)).await.ok()??;
    Some((snapshot, Some(offers)))
}
