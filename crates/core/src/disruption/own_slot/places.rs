//! The places that a node's pods have without it: elsewhere, in its own slot of a reservation, or none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::names::labels::{CAPACITY_RESERVATION_ID, CAPACITY_TYPE, RESERVED};

use crate::cluster_state::{Load, PlanningInput, PodEntry, Snapshot};
use crate::disruption::look::Look;
use crate::disruption::machines::NodeAndClaim;
use crate::disruption::pools::DisruptionPool;
use crate::instance_type::{InstanceType, Offering};
use crate::lifecycle::claim::packing_requirements;
use crate::pack::{Options, PlannedClaim, solve};
use crate::problem::Problem;
use crate::requirements::Requirements;

/// The instance of a reservation that a node is in, where its pods have no other place.
pub(in crate::disruption) struct OwnSlot {
    /// Id of the reservation, whose full count only this node's end lowers.
    pub reservation: String,
    /// The reason that its end would not give its pods the instance.
    pub held: Option<String>,
    /// The reason that its drain would never end, if nothing bounds it ([`endless_drain`]).
    pub endless: Option<String>,
}

/// A node's own slot. `None` where its pods have or may have another place, or would not fit into it again.
pub(super) fn own_slot(machine: &NodeAndClaim<'_>, snapshot: &Snapshot, input: &PlanningInput) -> Option<OwnSlot> {
    let own = reservation_of(machine)?;
    let pods = pods_of(machine);
    let failed = !snapshot.closed_pools.is_empty() || pods.iter().any(|pod| is_sold_out(pod, snapshot));
    if pods.is_empty() || failed {
        return None;
    }
    let elsewhere = without(machine, snapshot, input, &pods);
    let all = elsewhere.instance_types.iter().flat_map(|one| &one.offerings);
    let of_own: Vec<&Offering> = all.filter(|one| one.reservation() == Some(own)).collect();
    if of_own.is_empty() || of_own.iter().any(|one| is_usable(one) && !is_used_up(one)) {
        return None;
    }
    let usable = of_own.into_iter().any(is_usable);
    let stranded = unplaced(with_offerings(elsewhere, |one| one.available |= !has_none(one)), (snapshot, input), &pods);
    if stranded.is_empty() {
        return None;
    }
    let slot = |held: Option<String>| {
        Some(OwnSlot { reservation: own.to_owned(), held, endless: endless_drain(snapshot, &stranded) })
    };
    if !usable {
        return slot(Some(format!("nothing can be launched into its reservation {own} now")));
    }
    // A zone where most are sick is the last choice, and here there is no other.
    let anywhere = PlanningInput { into_sick_zones: true, ..input.clone() };
    let sick = if machine.claim.repaired { snapshot.sick_zones() } else { Vec::new() };
    let returns = |all: &[&Arc<PodEntry>]| {
        let well = with_offerings(without(machine, snapshot, &anywhere, all), |one| {
            one.available &= !sick.contains(&one.zone);
        });
        unplaced(with_one_free(well, own), (snapshot, &anywhere), &pods).is_empty()
    };
    if !returns(&pods) {
        return None;
    }
    // Pods that wait already come first, but for a node that has to go anyway.
    let mut all = pods.clone();
    if !machine.claim.repaired {
        let rivals = snapshot.to_pack(&anywhere).into_iter();
        all.extend(rivals.filter(|pod| pod.node_name != machine.node.name));
    }
    let rivalled = all.len() > pods.len() && !returns(&all);
    slot(rivalled.then(|| format!("pods that wait already would get its instance of reservation {own}")))
}

/// True if pods that wait would be placed on an instance of a reservation, if one were free.
pub(in crate::disruption) fn is_wanted(look: &Look<'_>, reservation: &str) -> bool {
    let input = input_of(look);
    let waiting = look.snapshot.to_pack(&input);
    if waiting.is_empty() {
        return false;
    }
    let problem = Arc::unwrap_or_clone(look.snapshot.planning_for(&input, &waiting).problem);
    let plan = solve(&with_one_free(problem, reservation), &Options::default());
    plan.claims.iter().flat_map(PlannedClaim::reservations).any(|id| id == reservation)
}

/// The capacity reservation that a node is in.
pub(in crate::disruption) fn reservation_of<'a>(machine: &NodeAndClaim<'a>) -> Option<&'a str> {
    let label = |key: &str| machine.node.labels.get(key).map(String::as_str);
    label(CAPACITY_RESERVATION_ID).filter(|_| label(CAPACITY_TYPE) == Some(RESERVED))
}

/// Pods that want a place when their node goes, protected or not.
pub(in crate::disruption) fn movable(load: &Load) -> impl Iterator<Item = &Arc<PodEntry>> {
    load.pods.values().filter(|pod| pod.is_active() && pod.reschedulable())
}

/// Those of a node.
pub(in crate::disruption) fn pods_of<'a>(machine: &NodeAndClaim<'a>) -> Vec<&'a Arc<PodEntry>> {
    machine.load.into_iter().flat_map(movable).collect()
}

/// The problem of these pods without a node.
fn without(machine: &NodeAndClaim<'_>, snapshot: &Snapshot, input: &PlanningInput, pods: &[&Arc<PodEntry>]) -> Problem {
    let mut problem = Arc::unwrap_or_clone(snapshot.planning_for(input, pods).problem);
    problem.existing_nodes.retain(|node| node.name != machine.node.name);
    problem
}

/// Those of these pods of a node that have no place without it now.
pub(in crate::disruption) fn stranded<'a>(
    look: &Look<'a>,
    machine: &NodeAndClaim<'a>,
    pods: &[&'a Arc<PodEntry>],
) -> Vec<&'a Arc<PodEntry>> {
    let input = input_of(look);
    unplaced(without(machine, look.snapshot, &input, pods), (look.snapshot, &input), pods)
}

/// The reason that a drain without a bound would never end: a PodDisruptionBudget lets fewer of these pods go than there are, and
/// those that have gone get no place before the node ends.
pub(in crate::disruption) fn endless_drain(snapshot: &Snapshot, stranded: &[&Arc<PodEntry>]) -> Option<String> {
    let mut of_budget: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for pod in stranded.iter().filter(|pod| pod.ready && !snapshot.moves_by_rollout(pod)) {
        for budget in snapshot.budgets_of(&pod.pod) {
            let allowed = usize::try_from(budget.allowed()).unwrap_or(0);
            of_budget.entry(budget.name()).or_insert((0, allowed)).0 += 1;
        }
    }
    let (name, (pods, allowed)) = of_budget.into_iter().find(|(_, (pods, allowed))| pods > allowed)?;
    Some(format!(
        "pdb {name} lets {allowed} of its {pods} pods there go at once, and they have no other place: the drain would not end"
    ))
}

/// True if a node's pods have no place but an instance of that reservation, free or not, which the node is in itself.
pub(in crate::disruption) fn needs_slot(look: &Look<'_>, machine: &NodeAndClaim<'_>, reservation: &str) -> bool {
    if reservation_of(machine) != Some(reservation) {
        return false;
    }
    let pods = pods_of(machine);
    let input = input_of(look);
    let problem = without(machine, look.snapshot, &input, &pods);
    let elsewhere = with_offerings(problem, |one| {
        one.available = one.reservation() != Some(reservation) && (one.available || !has_none(one));
    });
    !unplaced(elsewhere, (look.snapshot, &input), &pods).is_empty()
}

/// Reservations, by id, that are used up, where all that a static pool may launch is of reservations that have nothing; `None` where
/// anything else is offered to it, be it that EC2 refuses it now, or nothing is known.
pub(in crate::disruption) fn full_reservations(look: &Look<'_>, view: &DisruptionPool<'_>) -> Option<BTreeSet<String>> {
    let template = &view.pool.spec.template.spec;
    let types = look.offers.get(template.node_class_ref.known_name()?)?;
    let wanted = packing_requirements(&template.requirements).ok()?;
    let fits = |one: &InstanceType| {
        Requirements::from_written(&one.requirements).is_ok_and(|own| own.intersects(&wanted).is_ok())
    };
    let (mut full, mut any) = (BTreeSet::new(), false);
    for one in types.iter() {
        // Few types have an offering that a pool of reservations allows: the others need not be read.
        let offered: Vec<&Offering> = one.offerings.iter().filter(|one| one.agrees(&wanted)).collect();
        if offered.is_empty() || !fits(one) {
            continue;
        }
        if !offered.iter().all(|one| has_none(one)) {
            return None;
        }
        any = true;
        let used_up = offered.into_iter().filter(|one| is_used_up(one));
        full.extend(used_up.filter_map(Offering::reservation).map(str::to_owned));
    }
    any.then_some(full)
}

/// True if it is of a reservation that has nothing, as it is used up or as nothing can be launched into it.
fn has_none(one: &Offering) -> bool {
    one.reservation().is_some() && one.reservation_capacity.is_none_or(|left| left == 0)
}

/// True unless something else than its count keeps launches out of its reservation.
pub(super) fn is_usable(one: &Offering) -> bool {
    one.reservation_capacity.is_some()
}

/// True if it is of a reservation of which nothing is left.
fn is_used_up(one: &Offering) -> bool {
    one.reservation().is_some() && one.reservation_capacity == Some(0)
}

fn is_sold_out(pod: &PodEntry, snapshot: &Snapshot) -> bool {
    snapshot.sold_out.contains_key(&pod.pod.uid)
}

fn with_offerings(mut problem: Problem, change: impl Fn(&mut Offering)) -> Problem {
    for one in &mut problem.instance_types {
        Arc::make_mut(one).offerings.iter_mut().for_each(&change);
    }
    problem
}

/// The problem if one instance of a reservation were free, where anything can be launched into it.
fn with_one_free(problem: Problem, reservation: &str) -> Problem {
    with_offerings(problem, |one| {
        if one.reservation() == Some(reservation) && is_usable(one) {
            (one.available, one.reservation_capacity) = (true, Some(1));
        }
    })
}

/// Those of these pods that have no place.
fn unplaced<'a>(
    problem: Problem,
    (snapshot, input): (&Snapshot, &PlanningInput),
    pods: &[&'a Arc<PodEntry>],
) -> Vec<&'a Arc<PodEntry>> {
    let pack = |problem: &Arc<Problem>| solve(problem, &Options::default());
    let (problem, plan) = snapshot.pack_with_devices(Arc::new(problem), input, pack);
    let left: BTreeSet<&str> = plan.unscheduled.iter().map(|(at, _)| problem.pods[*at].base_uid()).collect();
    pods.iter().copied().filter(|pod| left.contains(pod.pod.uid.as_str())).collect()
}

/// The reservation whose instance a node has to give up first ([`own_slot`]).
pub(in crate::disruption) fn find_own_slot(look: &Look<'_>, machine: &NodeAndClaim<'_>) -> Option<OwnSlot> {
    own_slot(machine, look.snapshot, &input_of(look))
}

fn input_of(look: &Look<'_>) -> PlanningInput {
    let known = look.memory.planning.clone();
    PlanningInput { instance_types: look.offers.clone(), now: look.moment, only: None, ..known }
}
