//! Karpenter's own methods, in pools that are packed by `fewest-nodes` (core spec 5.7): the largest prefix of the candidates
//! that works together, then single ones in turn.

use super::budget::Allowance;
use super::command::ConsolidationCommand;
use super::pass::Pass;
use super::replace::bound;
use super::{Method, RemovalReason, balanced};
use crate::pack::PlannedClaim;
use crate::pack::fleet::launch::TrialNode;
use crate::pack::model::ids::{NodeId, PodId};
use crate::problem::Policy;

/// Consolidation of many nodes at once.
pub(super) struct Multi;

/// Consolidation of one node.
pub(super) struct Single;

impl Method for Multi {
    fn name(&self) -> &'static str {
        "multi"
    }

    fn propose(&self, pass: &mut Pass<'_, '_, '_>) -> Option<ConsolidationCommand> {
        let candidates = within_budgets(pass);
        let (mut low, mut high, mut best) = (2, candidates.len(), None);
        while low <= high {
            let middle = low.midpoint(high);
            match attempt(pass, &candidates[..middle], self.name()) {
                Ok(command) => {
                    best = Some(command);
                    low = middle + 1;
                }
                Err(_) => high = middle - 1,
            }
        }
        best
    }
}

impl Method for Single {
    fn name(&self) -> &'static str {
        "single"
    }

    fn propose(&self, pass: &mut Pass<'_, '_, '_>) -> Option<ConsolidationCommand> {
        for node in in_turn(pass) {
            let mut allowance = Allowance::left_in(pass, RemovalReason::Underutilized, 1);
            if let Err(why) = allowance.take_node(pass, node) {
                pass.bar(node, why);
                continue;
            }
            match attempt(pass, &[node], self.name()) {
                Ok(command) => return Some(command),
                Err(why) => pass.note(node, why),
            }
        }
        None
    }
}

/// The candidates that budgets allow together, in order.
fn within_budgets(pass: &mut Pass<'_, '_, '_>) -> Vec<NodeId> {
    let mut allowance = Allowance::left_in(pass, RemovalReason::Underutilized, pass.settings.most_candidates);
    let candidates = pass.candidates(|policy| policy == Policy::FewestNodes);
    candidates.into_iter().filter(|node| allowance.take_node(pass, *node).is_ok()).collect()
}

/// The candidates of each pool in order, the pools in turn.
fn in_turn(pass: &Pass<'_, '_, '_>) -> Vec<NodeId> {
    let mut turns = vec![0; pass.cluster.problem.node_pools.len()];
    let mut all: Vec<(usize, NodeId)> = Vec::new();
    for node in pass.candidates(|policy| policy == Policy::FewestNodes) {
        let Some(pool) = pass.nodes[node].pool else { continue };
        all.push((turns[pool], node));
        turns[pool] += 1;
    }
    all.sort_by_key(|(turn, _)| *turn);
    all.into_iter().map(|(_, node)| node).collect()
}

/// Removes nodes for trial: the command if their pods have places elsewhere, with one cheaper new node at most; else the reason
/// against it.
fn attempt(
    pass: &mut Pass<'_, '_, '_>,
    nodes: &[NodeId],
    method: &'static str,
) -> Result<ConsolidationCommand, String> {
    let start = pass.fleet.mark();
    let mut launch: Option<TrialNode> = None;
    let placed = place(pass, nodes, &mut launch);
    let found = placed.and_then(|()| finish(pass, nodes, launch.as_ref(), method));
    if let Some(launch) = &mut launch {
        pass.fleet.abandon(launch);
    }
    pass.fleet.rollback(start);
    let found = found.and_then(|command| match pass.lowers_bill(&command) {
        true => Ok(command),
        false => Err("the bill would be no lower with what commitments cover".into()),
    });
    found.and_then(|command| match balanced::approves(pass, &command) {
        true => Ok(command),
        false => Err("it would disturb more than it saves (consolidationPolicy Balanced)".into()),
    })
}

fn place(pass: &mut Pass<'_, '_, '_>, nodes: &[NodeId], launch: &mut Option<TrialNode>) -> Result<(), String> {
    let receivers = by_name(pass);
    nodes.iter().for_each(|node| pass.fleet.clear(*node));
    let mut pods: Vec<PodId> = nodes.iter().flat_map(|node| pass.fleet.nodes[*node].pods.clone()).collect();
    pods.sort_by_key(|pod| (pass.fleet.class_of(*pod), *pod));
    for pod in pods {
        if pass.fleet.put(pod, &receivers) {
            continue;
        }
        let loaded = match launch {
            Some(launch) => pass.fleet.load(launch, pod),
            None => {
                *launch = open(pass, pod);
                launch.is_some()
            }
        };
        if !loaded {
            let name = pass.pod_name(pod);
            return Err(match launch {
                Some(_) => "its pods need more than one new node".to_owned(),
                None => format!("pod {name} fits on no other node, and no NodePool has one for it"),
            });
        }
    }
    Ok(())
}

/// Nodes to which pods may come, in the order in which packing fills them: by name.
fn by_name(pass: &Pass<'_, '_, '_>) -> Vec<NodeId> {
    let open = |node: &NodeId| pass.nodes[*node].receives && !pass.fleet.nodes[*node].gone;
    let mut all: Vec<NodeId> = pass.nodes.ids().filter(open).collect();
    all.sort_by(|a, b| {
        let name = |node: &NodeId| pass.fleet.nodes[*node].node().name.as_str();
        name(a).cmp(name(b))
    });
    all
}

/// A new node of the first pool that has one for a pod.
fn open(pass: &mut Pass<'_, '_, '_>, pod: PodId) -> Option<TrialNode> {
    pass.fleet.context.pools.ids().find_map(|pool| {
        let mut launch = pass.fleet.launch(pool, None)?;
        pass.fleet.load(&mut launch, pod).then_some(launch)
    })
}

fn finish(
    pass: &mut Pass<'_, '_, '_>,
    nodes: &[NodeId],
    launch: Option<&TrialNode>,
    method: &'static str,
) -> Result<ConsolidationCommand, String> {
    let Some(launch) = launch else {
        return Ok(pass.command(RemovalReason::Underutilized, method, nodes.to_vec(), vec![]));
    };
    let price: f64 = nodes.iter().map(|node| pass.nodes[*node].price).sum();
    let bound = bound(pass, launch, nodes, price)
        .ok_or("a spot node is not replaced by a spot node: SpotToSpotConsolidation is off")?;
    let claim = pass.fleet.claim(launch, bound).ok_or("it cannot be replaced by a cheaper node")?;
    let claim = match nodes.len() > 1 && names_a_type_of(pass, &claim, nodes) {
        true => {
            let bound = crate::pack::fleet::launch::Bound { price: cheapest_of_kept(pass, &claim, nodes), ..bound };
            pass.fleet.claim(launch, bound).ok_or("it would be replaced by its own kind")?
        }
        false => claim,
    };
    Ok(pass.command(RemovalReason::Underutilized, method, nodes.to_vec(), vec![claim]))
}

fn names_a_type_of(pass: &Pass<'_, '_, '_>, claim: &PlannedClaim, nodes: &[NodeId]) -> bool {
    nodes.iter().any(|node| is_option(pass, claim, *node))
}

fn is_option(pass: &Pass<'_, '_, '_>, claim: &PlannedClaim, node: NodeId) -> bool {
    let own = pass.nodes[node].instance_type;
    claim.options.iter().any(|option| Some(option.instance_type) == own)
}

/// Price of the cheapest of the nodes whose type the claim names: a replacement has to be cheaper.
fn cheapest_of_kept(pass: &Pass<'_, '_, '_>, claim: &PlannedClaim, nodes: &[NodeId]) -> f64 {
    let own = nodes.iter().filter(|node| is_option(pass, claim, **node)).map(|node| pass.nodes[*node].price);
    own.fold(f64::INFINITY, f64::min)
}
