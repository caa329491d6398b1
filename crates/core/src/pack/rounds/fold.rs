//! Nodes that only a soft rule opens. kube-scheduler binds pods on the first node that is ready, whatever they would rather
//! have, so that a small node for the last few of them comes up and stays empty where others have room. Such a node is not
//! launched: its pods go where room is left, without what they merely prefer.
//!
//! A spread or an anti-affinity over zones and other labels has its first node in each domain all the same: that is what it is for.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::pack::limits::LimitsLeft;
use crate::pack::limits::shared::PoolLimits as _;
use crate::pack::limits::under_limits::options_of;
use crate::pack::model::classes::Amounts;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{ClassId, IndexVec, PodId, TierId};
use crate::pack::model::numbers::{count_of_amount, len_of};
use crate::pack::model::options::varied_enough;
use crate::pack::model::plan::PlannedClaim;
use crate::pack::model::reserved::Room;
use crate::pack::place::assign::{WaitingPods, item};
use crate::pack::place::planned_node::{Candidate, PlannedNode, Share};
use crate::pack::policy::cost::cheapest;
use crate::pack::rounds::solve::RoundPlan;
use crate::problem::Policy;

/// Largest number of looks at planned nodes for room: the bound on work.
const MOST_LOOKS: usize = 200_000;
/// Number of looks that are one step of work.
const LOOKS_A_STEP: usize = 16;

/// Room that is left on a planned node that has become the cheapest of its types.
struct Hole {
    price: f64,
    room: Amounts,
}

impl Hole {
    fn in_node(context: &Context<'_>, planned: &PlannedNode) -> Option<Self> {
        let (first, price) = cheapest(context, planned)?;
        let room = context.room(planned.kind(context), first).iter().zip(&planned.requests);
        Some(Self { price, room: room.map(|(have, taken)| have.saturating_sub(*taken)).collect() })
    }

    /// Number of pods with these requests that fit.
    fn holds(&self, requests: &[i64]) -> u32 {
        let each = requests.iter().zip(&self.room).filter(|(asked, _)| **asked > 0);
        let each = each.map(|(asked, have)| (have / asked).max(0)).min();
        count_of_amount(each.unwrap_or(0))
    }
}

/// Pods that move: from a share of the node that is given up to a share of another planned node.
struct Moved {
    from: Share,
    taker: usize,
    to: Share,
}

/// Planned nodes as they would be with the pods of one that is given up, and the pods that move.
#[derive(Default)]
struct Moves {
    grown: BTreeMap<usize, PlannedNode>,
    moved: Vec<Moved>,
}

impl<'c> RoundPlan<'c, '_> {
    /// Gives up the planned nodes that only soft rules opened and whose pods have room on others, the cheapest first.
    pub(in crate::pack) fn fold(&mut self) {
        let mut open: Vec<usize> = (0..self.claims.len()).filter(|node| self.is_opened_softly(*node)).collect();
        if open.is_empty() || self.claims.len() < 2 {
            return;
        }
        // The cheapest first: small nodes are the likelier to find room, and their pods need the least.
        open.sort_by(|a, b| self.claims[*a].price.total_cmp(&self.claims[*b].price).then(a.cmp(b)));
        let takes =
            |node: usize| self.may_take(node).then(|| Hole::in_node(self.context, &self.planned_nodes[node])).flatten();
        let mut holes: Vec<Option<Hole>> = (0..self.claims.len()).map(takes).collect();
        let mut looks = MOST_LOOKS;
        // Nodes are removed at the end, as they are named by their places until then.
        let mut given_up = Vec::new();
        for node in open {
            if self.keeps_a_domain(node) {
                continue;
            }
            // A node must not take its own pods.
            let own = holes[node].take();
            let claims = self.moves(node, &holes, &mut looks).and_then(|moves| Some((self.written(&moves)?, moves)));
            let Some((claims, moves)) = claims else {
                holes[node] = own;
                continue;
            };
            for taker in moves.grown.keys() {
                // The taker has less room now, and may have become another type.
                holes[*taker] = Hole::in_node(self.context, &moves.grown[taker]);
            }
            self.carry_out(node, moves, claims);
            given_up.push(node);
        }
        given_up.sort_unstable();
        // From the end on, so that places before it stay what they are.
        for node in given_up.into_iter().rev() {
            let (claim, planned) = (self.claims.remove(node), self.planned_nodes.remove(node));
            self.limits.return_node(planned.pool, self.context, options_of(&claim, &planned));
        }
    }

    /// True if a planned node is of a pool that looks for the lowest price, and bought.
    fn may_take(&self, node: usize) -> bool {
        let planned = &self.planned_nodes[node];
        self.policy(planned.pool) == Policy::Cost && planned.offering_bits & self.context.offers.reserved == 0
    }

    /// True if all its pods could be elsewhere as far as rules go, and one of them is there by what it merely prefers.
    fn is_opened_softly(&self, node: usize) -> bool {
        let shares = &self.planned_nodes[node].shares;
        self.may_take(node)
            && shares.iter().any(|share| self.is_placed_softly(share))
            && shares.iter().all(|share| self.is_movable(share.class))
    }

    fn is_placed_softly(&self, share: &Share) -> bool {
        let class = &self.context.classes[share.class];
        // A pod is where it is softly if none of its hard alternatives has the set, or the tier, that it was placed
        // by.
        let hard = |tier: &TierId| match share.candidate {
            Candidate::ANYWHERE => class.alternatives[*tier].set == share.set,
            candidate => candidate.tier == *tier,
        };
        !class.hard.is_empty() && !class.hard.iter().any(hard)
    }

    /// True if a class has soft rules, and nothing binds its pods' domains: neither its own hard rules nor those of others.
    fn is_movable(&self, class: ClassId) -> bool {
        let part = &self.context.topology.of_class[class];
        !self.context.classes[class].hard.is_empty()
            && part.pod_affinity.is_empty()
            && part.hard().states.is_empty()
            && part.meant.iter().all(|group| !self.domains.is_stated(*group))
    }

    /// True if it is the only node in a domain over which its pods would rather be spread.
    fn keeps_a_domain(&self, node: usize) -> bool {
        let topology = &self.context.topology;
        let shares = &self.planned_nodes[node].shares;
        shares.iter().filter(|share| share.candidate != Candidate::ANYWHERE).any(|share| {
            let states = &topology.of_class[share.class].tier(share.candidate.tier).states;
            states.iter().filter(|group| topology.parts(**group)).any(|group| {
                // If as many pods of the group are in the domain as are on this node, it is the only one there.
                let meant = |one: &&Share| topology.of_class[one.class].meant.contains(group);
                let here: u32 = shares.iter().filter(meant).map(|one| one.count).sum();
                self.domains.held_in(*group, share.class, share.candidate.bin) <= here
            })
        })
    }

    /// The moves by which all pods of a node find room; `None` if any does not.
    fn moves(&self, node: usize, holes: &[Option<Hole>], looks: &mut usize) -> Option<Moves> {
        let own = &self.planned_nodes[node];
        let weight = self.context.weight(own.pool);
        let takers = holes.iter().enumerate().filter_map(|(at, hole)| Some((at, hole.as_ref()?)));
        let mut takers: Vec<(usize, f64)> = takers
            .filter(|(at, _)| self.context.weight(self.planned_nodes[*at].pool) >= weight)
            .map(|(at, hole)| (at, hole.price))
            .collect();
        // Those of the same kind of capacity first, then the dearest: the largest has room for longest.
        let is_other_capacity = |at: usize| self.planned_nodes[at].offering_bits & own.offering_bits == 0;
        // Say nodes of $0.40 and $0.20 both have room for 3 pods of a node of $0.05: the larger one is asked first,
        // and keeps room for the next node that is given up.
        takers.sort_by(|a, b| {
            is_other_capacity(a.0).cmp(&is_other_capacity(b.0)).then(b.1.total_cmp(&a.1)).then(a.0.cmp(&b.0))
        });
        let mut moves = Moves::default();
        for share in &own.shares {
            let mut left = share.count;
            let requests = &self.context.classes[share.class].requests;
            for (taker, _) in &takers {
                if left == 0 {
                    break;
                }
                *looks = looks.checked_sub(1)?;
                if looks.is_multiple_of(LOOKS_A_STEP) && !self.context.work(1) {
                    return None;
                }
                let before = holes[*taker].as_ref()?;
                // A taker that has got pods of this node already has less room than its hole says.
                let hole = moves.grown.get(taker).and_then(|planned| Hole::in_node(self.context, planned));
                let most = hole.as_ref().unwrap_or(before).holds(requests).min(left);
                if most > 0 {
                    left -= self.move_some(share, most, *taker, before.price, &mut moves);
                }
            }
            if left > 0 {
                return None;
            }
        }
        Some(moves)
    }

    /// Moves as many pods of a share to a planned node as it takes without becoming dearer or losing types that it needs.
    fn move_some(&self, share: &Share, most: u32, taker: usize, price: f64, moves: &mut Moves) -> u32 {
        let context = self.context;
        let planned = moves.grown.get(&taker).unwrap_or(&self.planned_nodes[taker]);
        let class = &context.classes[share.class];
        // The node that takes them counts already; the one that goes gives its share back.
        let unlimited = IndexVec::from_elem(LimitsLeft::none(), self.limits.len());
        let room = Room { limits: &unlimited, open: !context.offers.reserved };
        let bins = context.bins.for_keys(context.topology.of_class[share.class].keys);
        for tier in &class.hard {
            let alternative = class.alternatives[*tier];
            // A taint that only prefers is no reason to move a pod onto it.
            if alternative.forgiving {
                continue;
            }
            let there = bins.ids().filter(|at| bins[*at].mask & planned.offering_bits != 0);
            let mut candidates: Vec<Candidate> = there.map(|bin| Candidate { tier: *tier, bin }).collect();
            if bins.is_empty() {
                candidates.push(Candidate::ANYWHERE);
            }
            for candidate in candidates {
                let waiting = WaitingPods { class: share.class, candidate, count: most };
                let Some((item, _)) = item(context, waiting, alternative, planned.pool, room) else { continue };
                let mut count = planned.tally.allows(context.node_rules(item.class), most);
                while count > 0 {
                    let mut grown = planned.clone();
                    let good = grown.add(context, &item, count)
                        && cheapest(context, &grown).is_some_and(|(_, after)| after <= price)
                        && (varied_enough(context, &grown.types, grown.offering_bits)
                            || !varied_enough(context, &planned.types, planned.offering_bits));
                    if good {
                        let new = Share { set: item.set, candidate, count, ..*share };
                        moves.moved.push(Moved { from: *share, taker, to: new });
                        moves.grown.insert(taker, grown);
                        return count;
                    }
                    // Fewer may fit where all of them would make it dearer.
                    count /= 2;
                }
            }
        }
        0
    }

    /// The claims of the nodes as they would be.
    fn written(&mut self, moves: &Moves) -> Option<Vec<PlannedClaim>> {
        moves.grown.values().map(|planned| self.claim(planned, Policy::Cost)).collect()
    }

    /// Puts the pods of a node on others.
    fn carry_out(&mut self, node: usize, moves: Moves, claims: Vec<PlannedClaim>) {
        let mut pods: FxHashMap<ClassId, Vec<usize>> = FxHashMap::default();
        for pod in std::mem::take(&mut self.claims[node].pods) {
            pods.entry(self.class_of(node, pod)).or_default().push(pod);
        }
        for ((taker, planned), claim) in moves.grown.into_iter().zip(claims) {
            self.replace(taker, claim, Some(planned));
        }
        for Moved { from: old, taker, to: new } in moves.moved {
            let own = pods.entry(old.class).or_default();
            // The first `count` of the share move, in the order of the class.
            let rest = own.split_off(own.len().min(len_of(new.count)));
            self.claims[taker].pods.extend(std::mem::replace(own, rest));
            if old.candidate != Candidate::ANYWHERE {
                for _ in 0..new.count {
                    self.domains.forget(old.class, old.candidate.bin);
                    self.domains.put(old.class, new.candidate.bin);
                }
            }
        }
    }

    /// The class of a pod on a planned node.
    fn class_of(&self, node: usize, pod: usize) -> ClassId {
        let shares = &self.planned_nodes[node].shares;
        if shares.iter().all(|share| share.class == shares[0].class) {
            return shares[0].class;
        }
        let mut classes = shares.iter().map(|share| share.class);
        let own = |class: &ClassId| self.context.classes[*class].pods.contains(&PodId::from(pod));
        classes.find(own).unwrap_or(ClassId::FIRST)
    }
}
