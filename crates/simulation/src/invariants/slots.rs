//! Free instances of capacity reservations are used where they can be: judged only where a bought machine is their very like, and
//! nothing else is under way.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_sandbox::apiserver::{DAEMON_SETS, Gvr, PODS};
use dovetail_sandbox::faults::FaultSettings;
use dovetail_sandbox::log::ActionEntry;
use dovetail_sandbox::region::AccountCapacityReservation;
use serde_json::{Value, json};

use super::Checker;
use super::disruption::CLOCK_OFF;
use super::history::{Claim, ClusterRecord, accepted, seconds};
use super::windows::lasts;
use crate::scenario::parse_duration;
use crate::world::{Action, World, step};

/// Longest time that a free instance may stand empty: ten minutes, and what it takes to hear of it and to decide.
const LONGEST_EMPTY: f64 = 600.0 + 150.0;
/// A node is left alone until it is so old.
const LEAST_AGE: f64 = 600.0 + CLOCK_OFF;
/// A pod or node that has moved rests for so long.
const REST: f64 = 3600.0 + CLOCK_OFF;
/// Longest `consolidateAfter` that is surely over within the slack.
const LONGEST_AFTER: f64 = 60.0;
/// Settings that change nothing of consolidation.
const HARMLESS: [&str; 4] =
    ["INTERRUPTION_QUEUE", "BATCH_IDLE_DURATION", "BATCH_MAX_DURATION", "SPOT_PRICE_REFRESH_INTERVAL"];
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Instances of a capacity reservation that the machines of a pool could be of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PaidSlots {
    id: String,
    instance_type: String,
    zone: String,
    count: usize,
}

impl PaidSlots {
    pub fn from_json(value: &Value) -> Self {
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let count = value["count"].as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        Self { id: text("id"), instance_type: text("instanceType"), zone: text("zone"), count }
    }
}

/// The reservations that any machine of the pool, of their type and zone, could be of without a difference to its pods; none
/// where that cannot be said of all pods.
pub(super) fn of_pool(world: &World, pool: &Value) -> Vec<Value> {
    let config = world.config();
    let plain =
        |one: &&AccountCapacityReservation| !one.open && !one.block && !one.interruptible && one.ends_after.is_none();
    let reservations: Vec<_> = config.reservations.iter().filter(plain).collect();
    let undisturbed = config.faults == FaultSettings::default()
        && config.panics_for.is_empty()
        && config.claims_deleted.is_none()
        && config.clocks.is_empty()
        && config.settings.keys().all(|name| HARMLESS.contains(&name.as_str()));
    if reservations.is_empty() || !undisturbed || !is_consolidated(pool) || !moves_all(world) {
        return vec![];
    }
    let class = pool["spec"]["template"]["spec"]["nodeClassRef"]["name"].as_str().unwrap_or_default();
    let classes = world.api.list(&Gvr::new("karpenter.k8s.aws", "v1", "ec2nodeclasses"));
    let class = classes.iter().find(|one| one["metadata"]["name"] == class);
    let terms = class.and_then(|one| one["spec"]["capacityReservationSelectorTerms"].as_array().cloned());
    let selected = |one: &&AccountCapacityReservation| terms.iter().flatten().any(|term| selects(term, one));
    let pools = world.api.list(&Gvr::new("karpenter.sh", "v1", "nodepools"));
    let comes_first = |one: &AccountCapacityReservation| !pools.iter().any(|other| goes_before(other, pool, one));
    let found = reservations.into_iter().filter(selected).filter(|one| allows(pool, one) && comes_first(one));
    let slots =
        found.map(|one| json!({"id": one.id, "instanceType": one.instance_type, "zone": one.zone, "count": one.count}));
    slots.collect()
}

/// A term by tags that the reservation has.
fn selects(term: &Value, one: &AccountCapacityReservation) -> bool {
    let only_tags = term.as_object().is_some_and(|fields| fields.keys().all(|name| name == "tags"));
    let has = |(key, value): (&String, &Value)| one.tags.get(key).is_some_and(|own| value == own.as_str());
    only_tags && term["tags"].as_object().is_some_and(|tags| !tags.is_empty() && tags.iter().all(has))
}

/// The pool's requirements are lists of values, in which the reservation is.
fn allows(pool: &Value, one: &AccountCapacityReservation) -> bool {
    let all = pool["spec"]["template"]["spec"]["requirements"].as_array().cloned().unwrap_or_default();
    let mut reserved = false;
    let fits = all.iter().all(|own| {
        let has = |value: &str| own["values"].as_array().into_iter().flatten().any(|one| one == value);
        own["operator"] == "In"
            && own["minValues"].is_null()
            && match own["key"].as_str().unwrap_or_default() {
                CAPACITY_TYPE => {
                    reserved = has("reserved");
                    reserved
                }
                INSTANCE_TYPE => has(&one.instance_type),
                ZONE => has(&one.zone),
                _ => false,
            }
    });
    fits && reserved
}

/// A heavier pool, which packing tries first, may not have the reservation.
fn goes_before(other: &Value, pool: &Value, one: &AccountCapacityReservation) -> bool {
    let weight = |pool: &Value| pool["spec"]["weight"].as_i64().unwrap_or_default();
    weight(other) > weight(pool) && !allows(other, one)
}

/// The pool is consolidated, by budgets that always allow one node.
fn is_consolidated(pool: &Value) -> bool {
    let (spec, disruption) = (&pool["spec"], &pool["spec"]["disruption"]);
    let policy = disruption["consolidationPolicy"].as_str().unwrap_or("WhenEmptyOrUnderutilized");
    let after = disruption["consolidateAfter"].as_str().and_then(parse_duration);
    let template = &spec["template"]["spec"];
    let own_annotations = pool["metadata"]["annotations"].as_object().into_iter().flatten();
    spec["replicas"].is_null()
        && spec["limits"].is_null()
        && spec["template"]["metadata"]["annotations"].is_null()
        && template["terminationGracePeriod"].is_null()
        && (template["expireAfter"].is_null() || template["expireAfter"] == "Never")
        && (disruption["budgets"].is_null() || disruption["budgets"] == json!([{"nodes": "10%"}]))
        && policy == "WhenEmptyOrUnderutilized"
        && after.is_some_and(|after| after.as_secs_f64() <= LONGEST_AFTER)
        && own_annotations.into_iter().all(|(name, _)| name.starts_with("karpenter.sh/nodepool-hash"))
}

/// The pod has an owner, which makes another where it goes.
fn is_owned(pod: &Value) -> bool {
    pod["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty())
}

/// The DaemonSet has a pod on every node.
fn is_everywhere(daemons: &Value) -> bool {
    let spec = &daemons["spec"]["template"]["spec"];
    spec["nodeSelector"].is_null() && spec["affinity"].is_null()
}

/// Nothing that any workload says is another for a machine of the same type and zone, or holds its pods.
fn moves_all(world: &World) -> bool {
    let none = |group: &str, version: &str, plural: &str| world.api.list(&Gvr::new(group, version, plural)).is_empty();
    let others = none("policy", "v1", "poddisruptionbudgets")
        && none("apps", "v1", "statefulsets")
        && none("batch", "v1", "jobs")
        && none("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers")
        && none("autoscaling.x-k8s.io", "v1", "provisioningrequests")
        && none("karpenter.sh", "v1alpha1", "nodeoverlays")
        && world.api.list(&PODS).iter().all(|pod| is_owned(pod))
        && world.api.list(&DAEMON_SETS).iter().all(|set| is_everywhere(set));
    let sets = ["deployments", "replicasets"].map(|plural| world.api.list(&Gvr::new("apps", "v1", plural)));
    others
        && sets.iter().flatten().all(|set| {
            let (template, spec) = (&set["spec"]["template"], &set["spec"]["template"]["spec"]);
            let same_host = |term: &Value| term["topologyKey"] == "kubernetes.io/hostname";
            let affinity = spec["affinity"].as_object().into_iter().flatten();
            let apart = |rules: &Value| {
                let kinds = rules.as_object().into_iter().flatten();
                kinds.into_iter().all(|(kind, terms)| {
                    kind.starts_with("required") && terms.as_array().into_iter().flatten().all(same_host)
                })
            };
            template["metadata"]["annotations"].is_null()
                && ["nodeSelector", "volumes", "topologySpreadConstraints", "priorityClassName", "resourceClaims"]
                    .iter()
                    .all(|field| spec[*field].is_null())
                && affinity.into_iter().all(|(kind, rules)| kind == "podAntiAffinity" && apart(rules))
        })
}

/// A machine as the region's events tell of it.
struct Machine {
    instance_type: String,
    zone: String,
    bought: bool,
}

/// Machines that live, and those of each reservation.
#[derive(Default)]
struct Fleet {
    machines: BTreeMap<String, Machine>,
    reserved: BTreeMap<String, BTreeSet<String>>,
    /// Reservations of which others take, or that have been resized.
    shared: BTreeSet<String>,
}

impl Fleet {
    fn apply(&mut self, entry: &ActionEntry) {
        match entry.kind.as_str() {
            "instance" => {
                let (id, reservation) = (entry.text("id"), entry.text("reservation"));
                if matches!(entry.text("change"), "shutting-down" | "terminated") {
                    self.machines.remove(id);
                    self.reserved.values_mut().for_each(|all| _ = all.remove(id));
                    return;
                }
                if !reservation.is_empty() {
                    self.reserved.entry(reservation.to_owned()).or_default().insert(id.to_owned());
                }
                let (instance_type, zone) = (entry.text("instanceType").to_owned(), entry.text("zone").to_owned());
                self.machines.insert(id.to_owned(), Machine { instance_type, zone, bought: reservation.is_empty() });
            }
            "step" => {
                if let Some(Action::TakeReserved { id, .. } | Action::ResizeReserved { id, .. }) = step(entry) {
                    self.shared.insert(id);
                }
            }
            _ => {}
        }
    }

    fn free(&self, slots: &PaidSlots) -> usize {
        slots.count.saturating_sub(self.reserved.get(&slots.id).map_or(0, BTreeSet::len))
    }
}

/// True if something happens in the cluster, or goes wrong: what follows from it is waited for.
fn disturbs(entry: &ActionEntry) -> bool {
    match entry.kind.as_str() {
        "step" | "fault" | "rules" | "instance" | "pod" => true,
        "node" => entry.text("change") != "labelled",
        "aws" => entry.text("code") != "OK",
        "api" => entry.text("resource") == "nodeclaims" || !accepted(entry),
        "story" => matches!(entry.text("event"), "consolidation_failed" | "packing_failed"),
        _ => false,
    }
}

/// True if a step may make other pools or classes without their being noted: nothing is judged until they are.
fn changes_pools(action: &Action) -> bool {
    match action {
        Action::Delete { kind, .. }
        | Action::DeleteSome { kind, .. }
        | Action::Lose { kind, .. }
        | Action::Spoil { kind, .. } => matches!(kind.as_str(), "NodePool" | "EC2NodeClass"),
        Action::Restore { .. } => true,
        _ => false,
    }
}

impl Checker {
    /// INV-26: no instance of a capacity reservation stands empty for more than ten minutes while a bought machine of the same
    /// type and zone, in a pool that may have it, runs pods that may move, and nothing else is under way.
    pub(super) fn paid_slots(&mut self, entries: &[ActionEntry], end: f64) {
        if !entries.iter().any(|entry| entry.kind == "rules" && entry.field("paidSlots").is_some()) {
            return;
        }
        let (mut state, mut fleet) = (ClusterRecord::default(), Fleet::default());
        // Beginning of the quiet, and of the time in which nothing has moved.
        let (mut quiet, mut rested, mut term) = (0.0_f64, 0.0_f64, None);
        for entry in entries {
            let at = seconds(entry);
            let led_anew = entry.term.is_some() && entry.term != term;
            if disturbs(entry) || led_anew {
                self.stand_empty(&state, &fleet, quiet.max(rested), at);
                let until = step(entry).map_or(at, |action| at + lasts(&action));
                quiet = quiet.max(until);
            }
            term = entry.term.or(term);
            state.apply(entry);
            fleet.apply(entry);
            if step(entry).is_some_and(|action| changes_pools(&action)) {
                state.rules.pools.values_mut().for_each(|pool| pool.slots.clear());
            }
            let of_claim = entry.kind == "api" && entry.text("resource") == "nodeclaims" && entry.replica.is_some();
            let is_held = || state.claims.get(entry.text("uid")).is_some_and(|claim| claim.held.is_some());
            if of_claim && (entry.text("verb") == "delete" || is_held()) {
                rested = at + REST;
            }
        }
        self.stand_empty(&state, &fleet, quiet.max(rested), end);
    }

    /// Judges a time in which nothing happened.
    fn stand_empty(&mut self, state: &ClusterRecord, fleet: &Fleet, since: f64, until: f64) {
        if until - since <= LONGEST_EMPTY {
            return;
        }
        let waits = state.pods.values().any(|pod| pod.node.is_empty() && !pod.ended);
        for (name, pool) in state.rules.pools.iter().filter(|(_, pool)| !pool.slots.is_empty() && !waits) {
            let own: Vec<&Claim> = state.living_claims().filter(|claim| claim.pool == *name).collect();
            let stays =
                |claim: &&Claim| claim.initialized && claim.moves.is_none_or(f64::is_finite) && state.stays(claim);
            if !own.iter().all(stays) {
                continue;
            }
            for slots in &pool.slots {
                if fleet.shared.contains(&slots.id) || fleet.free(slots) == 0 {
                    continue;
                }
                let like = own.iter().find(|claim| {
                    let begun = claim.initialized_at.map_or(f64::INFINITY, |at| since.max(at + LEAST_AGE));
                    until - begun > LONGEST_EMPTY && fleet.is_like(claim, slots) && has_pods(state, claim)
                });
                self.expect("INV-26", until, like.is_none(), || {
                    let one = like.map(|claim| claim.name.as_str()).unwrap_or_default();
                    format!(
                        "{} instance(s) of {} stood empty from {since} s on, and {one} with pods was bought beside it",
                        fleet.free(slots),
                        slots.id
                    )
                });
            }
        }
    }
}

impl Fleet {
    /// True if a claim's machine is bought, and of the type and zone of these.
    fn is_like(&self, claim: &Claim, slots: &PaidSlots) -> bool {
        let machine = self.machines.get(&claim.instance);
        machine.is_some_and(|one| one.bought && one.instance_type == slots.instance_type && one.zone == slots.zone)
    }
}

/// True if pods that are none of a DaemonSet's run on a claim's node.
fn has_pods(state: &ClusterRecord, claim: &Claim) -> bool {
    let names = state.index.nodes_of(&claim.instance);
    let uids = names.filter_map(|name| state.index.pods_by_node().get(name)).flatten();
    uids.filter_map(|uid| state.pods.get(uid)).any(|pod| pod.ready && !pod.owner.starts_with("DaemonSet/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(weight: Value, capacity_type: &str) -> Value {
        let requirements = json!([{"key": CAPACITY_TYPE, "operator": "In", "values": [capacity_type, "on-demand"]}]);
        let template = json!({"spec": {"requirements": requirements}});
        json!({"spec": {"weight": weight, "template": template, "disruption": {"consolidateAfter": "30s"}}})
    }

    #[test]
    fn pools_whose_nodes_are_not_disrupted_are_not_judged() {
        let mut own = pool(Value::Null, "reserved");
        assert!(is_consolidated(&own));
        own["spec"]["template"]["metadata"] = json!({"annotations": {"karpenter.sh/do-not-disrupt": "true"}});
        assert!(!is_consolidated(&own));
    }

    #[test]
    fn a_heavier_pool_without_the_reservation_goes_before() {
        let (own, slot) = (pool(json!(5), "reserved"), AccountCapacityReservation::default());
        for (weight, capacity_type, before) in
            [(json!(6), "spot", true), (json!(6), "reserved", false), (json!(5), "spot", false)]
        {
            assert_eq!(goes_before(&pool(weight.clone(), capacity_type), &own, &slot), before, "{weight}");
        }
        assert!(!goes_before(&pool(Value::Null, "spot"), &own, &slot));
    }

    #[test]
    fn pods_of_nobody_and_daemons_of_some_nodes_are_not_alike() {
        let owned = |owners: Value| is_owned(&json!({"metadata": {"ownerReferences": owners}}));
        assert!(owned(json!([{"kind": "ReplicaSet"}])) && !owned(Value::Null) && !owned(json!([])));
        let daemons = |spec: Value| is_everywhere(&json!({"spec": {"template": {"spec": spec}}}));
        assert!(daemons(json!({})) && !daemons(json!({"nodeSelector": {"a": "b"}})));
        assert!(!daemons(json!({"affinity": {"nodeAffinity": {}}})));
    }
}
