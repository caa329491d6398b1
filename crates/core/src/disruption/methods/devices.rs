//! Nodes whose pods claim devices: each is tried by itself, its pods in the places that have their devices.
//!
//! ```text
//! node ──► the stage of packing, as if the node were gone: one existing node or one new one for each pod with claims
//!            │                                             └── none: the node stays, with the reason of the pod
//!            └──► a pass of its own over the same cluster, whose pods have the rules of the stage ──► command
//! ```
//!
//! The other methods know no devices, so such nodes are kept from them. Devices that several nodes can use do not count here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::budget::Allowance;
use super::cluster::ClusterView;
use super::command::ConsolidationCommand;
use super::delete::receivers;
use super::pass::Pass;
use super::replace::bound;
use super::settings::ConsolidationSettings;
use super::settle::{bare, shell};
use super::{RemovalReason, balanced, fleet, options};
use crate::dra::{DevicePlan, DeviceQuestion, Misfits};
use crate::pack::PackingError;
use crate::pack::fleet::launch::TrialNode;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{NodeId, PodId};
use crate::pod::Pod;
use crate::problem::{ExistingNode, Policy, Problem};

/// Most nodes of one look for whose pods devices are searched: the first in order.
const MOST_SEARCHED: usize = 64;
/// Most nodes of one look that get a pass of their own.
const MOST_TRIED: usize = 8;
/// Name of the method.
const METHOD: &str = "devices";
/// The reason that keeps a node before devices have been searched for its pods.
pub(super) const CLAIMS: &str = "devices for its pods have not been searched yet";

/// The outcome for all nodes whose pods claim devices.
#[derive(Default)]
pub(super) struct DeviceMoves {
    pub command: Option<ConsolidationCommand>,
    pub price_move: bool,
    /// Nodes that could go and have yet to pay for it, by their index in the cluster.
    pub spare: BTreeSet<usize>,
}

/// The first node whose pods have places with their devices for less. Those that stay keep the reason in the pass.
pub(super) fn find_move(pass: &mut Pass<'_, '_, '_>, now: Timestamp) -> Result<DeviceMoves, PackingError> {
    let mut moves = DeviceMoves::default();
    let Some(question) = pass.cluster.devices.clone() else { return Ok(moves) };
    let candidates: Vec<NodeId> = pass.order.iter().copied().filter(|node| pass.nodes[*node].claims).collect();
    let mut tried = 0;
    for node in candidates.into_iter().take(MOST_SEARCHED) {
        if tried >= MOST_TRIED {
            break;
        }
        match placed(pass, &question, node) {
            Err(why) => pass.nodes[node].kept = Some(why),
            Ok((cluster, drivers)) => {
                tried += 1;
                let why = attempt(&cluster, node, &drivers, (pass.settings, now), &mut moves)?;
                if moves.command.is_some() {
                    return Ok(moves);
                }
                pass.nodes[node].kept = why;
            }
        }
    }
    Ok(moves)
}

impl Pass<'_, '_, '_> {
    /// True if pods that need another node claim devices that have not been searched for them.
    pub(super) fn claims_devices(&self, node: NodeId) -> bool {
        let pods = &self.cluster.problem.existing_nodes[node].pods;
        let mut moving = pods.iter().zip(&self.cluster.nodes[node.index()].pods).filter(|(_, state)| state.moves);
        let searched = self.cluster.devices.is_none() || self.cluster.placed == Some(node);
        !searched && moving.any(|(pod, _)| pod.has_claims())
    }
}

/// The cluster with the rules that lead the pods of a node to devices elsewhere.
fn placed(
    pass: &Pass<'_, '_, '_>,
    question: &DeviceQuestion,
    node: NodeId,
) -> Result<(ClusterView, BTreeMap<usize, BTreeSet<String>>), String> {
    let cluster = pass.cluster;
    let own: Vec<PodId> = PodId::all(cluster.home.len()).filter(|pod| cluster.home[*pod].0 == node).collect();
    let (answer, plan) = places_of(pass, question, node, &own);
    if let Some((pod, why)) = answer.pods.iter().find_map(|pod| Some((pod, pod.blocked.as_ref()?))) {
        return Err(format!("pod {}/{}: {why}", pod.namespace, pod.name));
    }
    let (new, price) = plan.new_nodes();
    if new > 1 {
        return Err("the devices of its pods need more than one new node".into());
    }
    if new > 0 && price >= pass.nodes[node].price {
        return Err("nothing that is cheaper has the devices of its pods".into());
    }
    let mut all = cluster.clone();
    all.placed = Some(node);
    for (_, state) in all.nodes.iter_mut().enumerate().filter(|(at, _)| *at != node.index()) {
        state.held.get_or_insert_with(|| "another node is tried".to_owned());
    }
    let mut drivers = BTreeMap::new();
    for (at, (pod, guided)) in own.iter().zip(&answer.pods).enumerate() {
        // One new node at most is launched: what keeps pods of several new nodes apart is not needed.
        let known = &cluster.problem.pods[*pod];
        let (labels, affinity, host_ports) = (known.labels.clone(), known.affinity.clone(), known.host_ports.clone());
        let guided = Pod { labels, affinity, host_ports, ..guided.clone() };
        all.problem.existing_nodes[node.index()].pods[cluster.home[*pod].1] = Arc::new(guided.clone());
        all.problem.pods[pod.index()] = guided;
        let of_pod: BTreeSet<String> = plan.drivers_of(&[at]).into_iter().map(str::to_owned).collect();
        drivers.insert(pod.index(), of_pod);
    }
    drivers.retain(|_, of_pod| !of_pod.is_empty());
    Ok((all, drivers))
}

/// The places of a node's pods with claims as if the node were gone: the problem of these pods, with the rules for packing.
fn places_of(pass: &Pass<'_, '_, '_>, question: &DeviceQuestion, node: NodeId, own: &[PodId]) -> (Problem, DevicePlan) {
    let problem = &pass.cluster.problem;
    let there: Vec<NodeId> =
        NodeId::all(problem.existing_nodes.len()).filter(|at| *at != node && pass.nodes[*at].receives).collect();
    let with_devices = |at: &NodeId| {
        let known = &problem.existing_nodes[*at];
        let pods = known.pods.iter().filter(|pod| pod.has_claims()).cloned().collect();
        ExistingNode { pods, ..bare(known) }
    };
    let pods: Vec<Pod> = own.iter().map(|pod| problem.pods[*pod].clone()).collect();
    let mut leaving = question.leaving.clone();
    leaving.extend(pods.iter().map(|pod| pod.uid.clone()));
    let asked = DeviceQuestion {
        problem: Arc::new(Problem { pods, existing_nodes: there.iter().map(with_devices).collect(), ..shell(problem) }),
        book: question.book.clone(),
        nodes: there.iter().map(|at| question.nodes[at.index()].clone()).collect(),
        models: question.models.clone(),
        leaving,
        gates: question.gates,
        misfits: Misfits::default(),
    };
    let answer = asked.answer();
    (Arc::unwrap_or_clone(answer.problem), answer.plan)
}

/// Tries a node by itself; answers the reason that keeps it.
fn attempt(
    cluster: &ClusterView,
    node: NodeId,
    drivers: &BTreeMap<usize, BTreeSet<String>>,
    (settings, now): (&ConsolidationSettings, Timestamp),
    moves: &mut DeviceMoves,
) -> Result<Option<String>, PackingError> {
    let options = options(settings);
    let context = Context::new(&cluster.problem, &options)?;
    let mut pass = Pass::new(cluster, settings, fleet(cluster, &context), now);
    if let Some(why) = pass.nodes[node].kept.clone() {
        return Ok(Some(why));
    }
    let found = find_command(&mut pass, node);
    moves.spare.extend(pass.spare.iter().map(|node| node.index()));
    match found {
        Ok(command) => {
            moves.price_move = pass.is_price_move(&command);
            moves.command = Some(ConsolidationCommand { drivers: drivers.clone(), ..command });
            Ok(None)
        }
        Err(why) => Ok(Some(why)),
    }
}

/// The command that takes a node away, its pods to others or to one new node that costs less.
fn find_command(pass: &mut Pass<'_, '_, '_>, node: NodeId) -> Result<ConsolidationCommand, String> {
    Allowance::left_in(pass, RemovalReason::Underutilized, 1).take_node(pass, node)?;
    let start = pass.fleet.mark();
    let mut launch: Option<TrialNode> = None;
    let found = take_away(pass, node, &mut launch).and_then(|()| finish(pass, node, launch.as_ref()));
    if let Some(launch) = &mut launch {
        pass.fleet.abandon(launch);
    }
    pass.fleet.rollback(start);
    let command = found?;
    if !pass.lowers_bill(&command) {
        return Err("the bill would be no lower with what commitments cover".into());
    }
    if !balanced::approves(pass, &command) {
        return Err("it would disturb more than it saves (consolidationPolicy Balanced)".into());
    }
    let by_price = pass.nodes[node].pool.is_some_and(|pool| pass.cluster.packing(pool) == Policy::Cost);
    if by_price && !pass.within_price_moves(&command) {
        return Err("enough nodes have been replaced for their prices alone within the hour".into());
    }
    if by_price && !pass.has_paid(&[node], command.saving()) {
        return Err("it has not been to spare for long enough to pay for the moves of its pods".into());
    }
    Ok(command)
}

/// Takes a node away and gives each of its pods another, or the new one.
fn take_away(pass: &mut Pass<'_, '_, '_>, node: NodeId, launch: &mut Option<TrialNode>) -> Result<(), String> {
    let receivers = receivers(pass, false);
    pass.fleet.clear(node);
    for pod in pass.fleet.nodes[node].pods.clone() {
        if pass.fleet.put(pod, &receivers) {
            continue;
        }
        let loaded = match launch {
            Some(launch) => pass.fleet.load(launch, pod),
            None => {
                *launch = pass.fleet.context.pools.ids().find_map(|pool| {
                    let mut launch = pass.fleet.launch(pool, None)?;
                    pass.fleet.load(&mut launch, pod).then_some(launch)
                });
                launch.is_some()
            }
        };
        if !loaded {
            return Err(format!("pod {} fits on no other node with its devices", pass.pod_name(pod)));
        }
    }
    Ok(())
}

/// The command, if it saves enough.
fn finish(pass: &Pass<'_, '_, '_>, node: NodeId, launch: Option<&TrialNode>) -> Result<ConsolidationCommand, String> {
    let command = |claims| pass.command(RemovalReason::Underutilized, METHOD, vec![node], claims);
    let pool = pass.nodes[node].pool.ok_or("no NodePool manages it")?;
    let by_price = pass.cluster.packing(pool) == Policy::Cost;
    let Some(launch) = launch else {
        let is_worth = !by_price || pass.is_worth_deleting(node, pass.nodes[node].price);
        return is_worth.then(|| command(vec![])).ok_or("what it costs is not worth the move of so many pods".into());
    };
    let (price, less) = pass.at_most(pool, &[node]);
    let bound = bound(pass, launch, &[node], if by_price { less } else { price })
        .ok_or("a spot node is not replaced by a spot node: SpotToSpotConsolidation is off")?;
    let claim = pass.fleet.claim(launch, bound).or_else(|| pass.fleet.claim_in_one_zone(launch, bound));
    let claim = claim.ok_or("nothing that is cheaper by enough has the devices of its pods")?;
    Ok(command(vec![claim]))
}
