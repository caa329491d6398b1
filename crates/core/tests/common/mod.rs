//! A naive check of a packing against its problem: every rule, for every pod, on every node that a claim could become.
#![allow(dead_code)]

mod between;

use std::collections::{BTreeMap, BTreeSet};

use dovetail_core::labels::stable;
use dovetail_core::pack::{Packing, PlannedClaim};
use dovetail_core::{InstanceType, NodeSelectorRequirement, Offering, Operator, Pod, Problem, Resources};

/// Everything that is wrong with a packing.
pub fn violations(problem: &Problem, packing: &Packing) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen = vec![0; problem.pods.len()];
    let planned = packing.claims.iter().flat_map(|claim| &claim.pods);
    let placed = packing.on_existing.iter().flat_map(|(_, pods)| pods);
    for pod in planned.chain(placed).chain(packing.unscheduled.iter().map(|(pod, _)| pod)) {
        seen[*pod] += 1;
    }
    wrong.extend(
        seen.iter().enumerate().filter(|(_, n)| **n != 1).map(|(at, n)| format!("pod {at} answered {n} times")),
    );
    for (at, claim) in packing.claims.iter().enumerate() {
        check_claim(problem, claim, &mut |what| wrong.push(format!("claim {at}: {what}")));
    }
    check_existing(problem, packing, &mut wrong);
    check_reservations(problem, packing, &mut wrong);
    wrong.extend(between::violations(problem, packing));
    wrong
}

fn check_claim(problem: &Problem, claim: &PlannedClaim, wrong: &mut dyn FnMut(String)) {
    if claim.pods.is_empty() || claim.options.is_empty() {
        return wrong("nothing on it, or nothing it can be".into());
    }
    let pool = &problem.node_pools[claim.pool];
    let mut requested = Resources::new();
    for pod in &claim.pods {
        requested.add(&problem.pods[*pod].requests);
    }
    add_shared(&mut requested, problem, &claim.pods, &BTreeSet::new());
    requested.set("pods", claim.pods.len() as i64);
    for pod in claim.pods.iter().map(|pod| &problem.pods[*pod]) {
        let hard = pool.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule");
        for taint in hard.filter(|taint| !tolerates(pod, taint)) {
            wrong(format!("pod {} does not tolerate {}", pod.name, taint.key));
        }
    }
    let mut cheapest = f64::INFINITY;
    for option in &claim.options {
        let one = &problem.instance_types[option.instance_type];
        let allocatable = one.allocatable();
        let mut requested = requested.clone();
        for daemon in &problem.daemon_pods {
            let said = BTreeMap::from([("kubernetes.io/arch".to_owned(), arch_of(one))]);
            let here = daemon.node_selector.iter().all(|(key, value)| said.get(key).is_none_or(|own| own == value));
            if here && pool.taints.iter().all(|taint| tolerates(daemon, taint)) {
                requested.add(&daemon.requests);
                requested.set("pods", requested.get("pods") + 1);
            }
        }
        take_attachments_out(&mut requested, &one.attachments, &mut |what| wrong(format!("{}: {what}", one.name)));
        if !requested.fits_in(&allocatable) {
            wrong(format!("{requested} do not fit on {}", one.name));
        }
        let mut least = f64::INFINITY;
        for offering in one.offerings.iter().filter(|offering| offering.available) {
            let Some(node) = node(claim, one, offering, pool) else { continue };
            least = least.min(offering.price);
            let mut pods: Vec<&Pod> = claim.pods.iter().map(|pod| &problem.pods[*pod]).collect();
            pods.dedup_by(|a, b| a.node_selector == b.node_selector && a.affinity == b.affinity);
            for pod in pods {
                if !wants(pod, &node) {
                    wrong(format!("pod {} cannot be on {} in {}", pod.name, one.name, offering.zone));
                }
            }
        }
        if least != option.price {
            wrong(format!("{} costs {least}, not {}", one.name, option.price));
        }
        cheapest = cheapest.min(least);
    }
    if cheapest != claim.price {
        wrong(format!("costs {cheapest}, not {}", claim.price));
    }
}

const RESERVATION: &str = "karpenter.k8s.aws/capacity-reservation-id";

/// No reservation has to give more instances than it has left, whichever of those that a claim names it gets.
fn check_reservations(problem: &Problem, packing: &Packing, wrong: &mut Vec<String>) {
    let mut left: BTreeMap<&str, i64> = BTreeMap::new();
    for offering in problem.instance_types.iter().flat_map(|one| &one.offerings) {
        let id = offering.requirements.iter().find(|said| said.key == RESERVATION);
        if let (Some(id), Some(capacity)) = (id, offering.reservation_capacity) {
            let slot = left.entry(&id.values[0]).or_insert(i64::from(capacity));
            *slot = (*slot).min(i64::from(capacity));
        }
    }
    for claim in &packing.claims {
        let said = |key: &str| claim.requirements.iter().find(|said| said.key == key);
        let reserved = claim.cheapest_capacity_type == "reserved";
        let capacity_types = said("karpenter.sh/capacity-type").map(|said| said.values.clone()).unwrap_or_default();
        if capacity_types.iter().any(|one| one == "reserved") && capacity_types != ["reserved"] {
            wrong.push(format!("a claim is reserved or {capacity_types:?}"));
        }
        for id in said(RESERVATION).filter(|_| reserved).iter().flat_map(|said| &said.values) {
            if let Some(left) = left.get_mut(id.as_str()) {
                *left -= 1;
            }
        }
    }
    let overdrawn = left.iter().filter(|(_, left)| **left < 0);
    wrong.extend(overdrawn.map(|(id, left)| format!("reservation {id} lacks {} instances", -left)));
}

/// Volumes that pods share count once, unless they are there.
fn add_shared(requested: &mut Resources, problem: &Problem, pods: &[usize], there: &BTreeSet<String>) {
    let shared: BTreeMap<_, _> = pods.iter().flat_map(|pod| &problem.pods[*pod].shared_volumes).collect();
    for (_, resource) in shared.into_iter().filter(|(name, _)| !there.contains(*name)) {
        requested.set(resource.clone(), requested.get(resource) + 1);
    }
}

/// Attachments have a bound only where one is named.
fn take_attachments_out(requested: &mut Resources, bounds: &Resources, wrong: &mut dyn FnMut(String)) {
    let attached: Vec<(String, i64)> = requested.iter().map(|(name, amount)| (name.to_owned(), amount)).collect();
    for (name, amount) in attached.into_iter().filter(|(name, _)| name.starts_with("attachable-volumes-csi-")) {
        if bounds.find(&name).is_some_and(|most| amount > most) {
            wrong(format!("{amount} volumes are too many"));
        }
        requested.remove(&name);
    }
}

fn arch_of(one: &InstanceType) -> String {
    let said = one.requirements.iter().find(|said| said.key == "kubernetes.io/arch");
    said.map(|said| said.values[0].clone()).unwrap_or_default()
}

fn tolerates(pod: &Pod, taint: &k8s_openapi::api::core::v1::Taint) -> bool {
    pod.tolerations.iter().any(|toleration| {
        let effect = toleration.effect.as_deref().is_none_or(|effect| effect == taint.effect);
        let exists = toleration.operator.as_deref() == Some("Exists");
        let key = toleration.key.as_ref().map_or(exists, |key| *key == taint.key);
        effect && key && (exists || toleration.value == taint.value)
    })
}

/// The values each label of the node may have, if the claim allows such a node at all.
type Labels = BTreeMap<String, BTreeSet<String>>;

fn node(claim: &PlannedClaim, one: &InstanceType, offering: &Offering, pool: &dovetail_core::Pool) -> Option<Labels> {
    let mut labels = Labels::new();
    let mut narrow = |key: &str, values: BTreeSet<String>| {
        let slot = labels.entry(key.to_owned()).or_insert_with(|| values.clone());
        *slot = slot.intersection(&values).cloned().collect();
        !slot.is_empty()
    };
    let set = |values: &[String]| values.iter().cloned().collect::<BTreeSet<_>>();
    let mut good = narrow("topology.kubernetes.io/zone", BTreeSet::from([offering.zone.clone()]));
    good &= narrow("karpenter.sh/capacity-type", BTreeSet::from([offering.capacity_type.clone()]));
    let listed = one.requirements.iter().chain(&offering.requirements);
    for said in listed.filter(|said| said.operator == Operator::In) {
        good &= narrow(&said.key, set(&said.values));
    }
    for (key, value) in &pool.labels {
        good &= narrow(key, BTreeSet::from([value.clone()]));
    }
    for said in &claim.requirements {
        match (said.operator, labels.get_mut(&said.key)) {
            (Operator::In, None) => {
                labels.insert(said.key.clone(), set(&said.values));
            }
            (_, Some(values)) => {
                values.retain(|value| meets(said, Some(value)));
                good &= !values.is_empty();
            }
            _ => {}
        }
    }
    good.then_some(labels)
}

fn wants(pod: &Pod, labels: &Labels) -> bool {
    let every = |said: &NodeSelectorRequirement| match labels.get(&said.key) {
        Some(values) => values.iter().all(|value| meets(said, Some(value))),
        None => meets(said, None),
    };
    let selector = pod.node_selector.iter();
    let selected = selector.map(|(key, value)| NodeSelectorRequirement::one_of(key, [value])).all(|said| every(&said));
    let affinity = pod.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let places = &pod.volume_topology;
    let no_spot = NodeSelectorRequirement::new("karpenter.sh/capacity-type", Operator::NotIn, ["spot"]);
    selected
        && (!pod.off_spot || every(&no_spot))
        && (places.is_empty() || places.iter().any(|place| place.iter().map(stably).all(|said| every(&said))))
        && required.is_none_or(|required| {
            required.node_selector_terms.iter().any(|term| {
                let said = term.match_expressions.iter().flatten();
                said.map(|said| NodeSelectorRequirement::from_kube(said).unwrap()).all(|said| every(&said))
            })
        })
}

fn stably(said: &NodeSelectorRequirement) -> NodeSelectorRequirement {
    NodeSelectorRequirement { key: stable(&said.key).to_owned(), ..said.clone() }
}

fn meets(said: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let number = |text: &String| text.parse::<i64>().ok();
    let bound = said.values.first().and_then(number);
    let compare =
        |holds: fn(i64, i64) -> bool| matches!((value.and_then(number), bound), (Some(a), Some(b)) if holds(a, b));
    match said.operator {
        Operator::In => value.is_some_and(|value| said.values.contains(value)),
        Operator::NotIn => value.is_none_or(|value| !said.values.contains(value)),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Gt => compare(|a, b| a > b),
        Operator::Lt => compare(|a, b| a < b),
        Operator::Gte => compare(|a, b| a >= b),
        Operator::Lte => compare(|a, b| a <= b),
    }
}

fn check_existing(problem: &Problem, packing: &Packing, wrong: &mut Vec<String>) {
    for (at, pods) in &packing.on_existing {
        let node = &problem.existing_nodes[*at];
        let mut used = node.used.clone();
        used.add(&node.daemon_requests);
        let labels: Labels =
            node.labels.iter().map(|(key, value)| (stable(key).to_owned(), BTreeSet::from([value.clone()]))).collect();
        for pod in pods {
            used.add(&problem.pods[*pod].requests);
            used.set("pods", used.get("pods") + 1);
            if !wants(&problem.pods[*pod], &labels) {
                wrong.push(format!("pod {pod} does not want node {}", node.name));
            }
        }
        add_shared(&mut used, problem, pods, &node.volumes);
        take_attachments_out(&mut used, &node.allocatable, &mut |what| {
            wrong.push(format!("node {}: {what}", node.name))
        });
        if !used.fits_in(&node.allocatable) {
            wrong.push(format!("node {} is overfull: {used}", node.name));
        }
    }
}
