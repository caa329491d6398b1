//! Repair as before Karpenter 1.15, with `LEGACY_NODE_REPAIR`: by force, and whatever budgets say. Where more than a fifth of a
//! pool's nodes are unwell, none is repaired.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::brake::most_unwell;
use super::diagnosis::first_due;
use super::{HeldRepair, NotRepaired};
use crate::clock::later;
use crate::disruption::cause::DisruptionCause;
use crate::disruption::look::{Look, disrupted};
use crate::disruption::machines::NodeAndClaim;

/// Time until the next look where more are unwell.
const AGAIN: SignedDuration = SignedDuration::from_mins(5);

/// Removes nodes that are unwell for too long.
pub(in crate::disruption) fn repair_by_force<'a>(look: &mut Look<'a>, machines: &[NodeAndClaim<'a>]) {
    let gates = look.memory.drift.gates;
    if !gates.node_repair || !gates.legacy_repair {
        return;
    }
    let mut pools: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for machine in machines {
        // A node of no pool is counted against the whole cluster.
        let counted = ["", machine.claim.pool.as_str()].into_iter();
        for pool in counted.take(if machine.claim.pool.is_empty() { 1 } else { 2 }) {
            let (unwell, all) = pools.entry(pool).or_default();
            *unwell += usize::from(!machine.node.unwell.is_empty());
            *all += 1;
        }
    }
    for machine in machines.iter().filter(|machine| !machine.claim.deleting && !machine.node.deleting) {
        let Some(first) = machine.node.unwell.iter().min_by_key(|one| one.until) else { continue };
        if look.memory.is_asked(&machine.claim.uid) || machine.shifted.is_some() {
            continue;
        }
        if first.until > look.now {
            look.look_again(first_due(&machine.node.unwell, None));
            continue;
        }
        let (unwell, all) = pools.get(machine.claim.pool.as_str()).copied().unwrap_or_default();
        if unwell > most_unwell(all) {
            look.look_again(Some(later(look.now, AGAIN)));
            let why = HeldRepair::TooMany;
            look.out.not_repaired.push(NotRepaired {
                node: machine.node.name.clone(),
                node_uid: machine.node.uid.clone(),
                unwell: (unwell, all),
                pool: machine.claim.pool.clone(),
                why,
                news: look.memory.not_repaired.say(&machine.node.uid, why),
            });
        } else {
            let grace = Some(SignedDuration::ZERO);
            look.go(DisruptionCause::Unhealthy { condition: first.condition, grace }, disrupted(machine));
        }
    }
}
