//! Answers of consolidation on a live cluster; `queue` tests its commands afterwards.

use std::collections::{BTreeMap, BTreeSet};

use super::super::commands::{ClaimsGoingAnyway, CommandAnswer, DisruptionCommand, Question, Queue};
use super::*;
use crate::cluster_state::{PlanningInput, Snapshot};
use crate::commitments::Commitments;
use crate::instance_type::InstanceType;

/// Instance types of that many cpus, at 5 cents an hour for each.
fn types() -> Vec<Arc<InstanceType>> {
    let one = |cpus: u32| {
        let name = format!("k.{cpus}");
        json!({"name": name, "capacity": {"cpu": cpus.to_string(), "memory": format!("{}Gi", 4 * cpus), "pods": "50"},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]}],
            "offerings": [{"zone": "a", "capacityType": "on-demand", "price": 0.05 * f64::from(cpus), "available": true}]})
    };
    [2, 4, 8, 16].into_iter().map(|cpus| Arc::new(serde_json::from_value(one(cpus)).unwrap())).collect()
}

/// A pool that moves pods, with no limit to its disruptions.
pub(super) fn world() -> World {
    of_policy("WhenEmptyOrUnderutilized")
}

pub(super) fn of_policy(policy: &str) -> World {
    let budgets = json!([{"nodes": "100%"}]);
    let mut world = World::new(json!({"consolidateAfter": "0s", "consolidationPolicy": policy, "budgets": budgets}));
    let mut pool = world.pool.clone();
    pool["metadata"]["resourceVersion"] = json!(world.next().to_string());
    pool["status"] = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": at(0.0)}]});
    world.apply_pool(pool);
    world
}

impl World {
    /// Adds a machine with that many cpus, ready for pods.
    pub(super) fn sized(&mut self, name: &str, cpus: u32) {
        self.sized_as(name, cpus, (&format!("k.{cpus}"), "on-demand"));
    }

    /// Adds a machine with that many cpus, of that instance type and capacity type.
    fn sized_as(&mut self, name: &str, cpus: u32, (instance_type, capacity_type): (&str, &str)) {
        self.machine(name, |claim, node| {
            let memory = format!("{}Gi", 4 * cpus);
            let room = json!({"cpu": cpus.to_string(), "memory": memory, "pods": "50"});
            claim["status"]["capacity"] = room.clone();
            node["status"]["capacity"] = room.clone();
            node["status"]["allocatable"] = room;
            let labels = &mut node["metadata"]["labels"];
            labels["node.kubernetes.io/instance-type"] = json!(instance_type);
            labels["karpenter.sh/capacity-type"] = json!(capacity_type);
            labels["karpenter.sh/registered"] = json!("true");
            labels["karpenter.sh/initialized"] = json!("true");
        });
    }

    /// Adds a pod that asks for `milli` thousandths of a cpu, of a workload of its own.
    pub(super) fn asking(&mut self, name: &str, node: &str, milli: u32, change: impl FnOnce(&mut Value)) {
        let started = at(self.seconds);
        self.pod(name, node, |pod| {
            pod["metadata"]["labels"] = json!({"app": name});
            pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": "uid-web", "controller": true}]);
            pod["spec"]["containers"] = json!([{"name": "a", "resources": {"requests": {"cpu": format!("{milli}m")}}}]);
            pod["status"]["startTime"] = json!(started);
            change(pod);
        });
    }

    pub(super) fn question(&self, seconds: f64) -> Question {
        let now = Moment { monotonic: Duration::from_secs_f64(seconds), wall: at(seconds) };
        Question {
            reserved_lately: BTreeSet::new(),
            kept_slots: vec![],
            snapshot: self.state.snapshot(),
            input: PlanningInput {
                instance_types: [("default".to_owned(), Arc::new(types()))].into(),
                now,
                ..PlanningInput::default()
            },
            settings: methods::ConsolidationSettings::default(),
            moved: Arc::default(),
            spare: Arc::default(),
            refused: BTreeMap::new(),
            asked: ClaimsGoingAnyway::new(),
            waiting: vec![],
            only: None,
            blind: None,
            now,
        }
    }

    pub(super) fn answer(&self, seconds: f64) -> CommandAnswer {
        self.question(seconds).answer().unwrap()
    }

    /// Adds a small machine that is ready for pods.
    pub(super) fn initialize(&mut self, name: &str) {
        self.sized(name, 2);
    }
}

/// An hour: everything is old enough.
pub(super) const LATER: f64 = 3600.0;

pub(super) fn claims(command: &DisruptionCommand) -> Vec<&str> {
    command.wanted.claims.iter().map(|claim| claim.claim.as_str()).collect()
}

fn why(answer: &CommandAnswer, node: &str) -> String {
    answer.stays.iter().find(|one| one.node.node == node).map(|one| one.why.clone()).unwrap_or_default()
}

/// Two nodes, of which the small one's pod fits on the large one.
fn two(mut world: World) -> World {
    world.sized("large", 4);
    world.sized("small", 2);
    world.asking("one", "large", 3000, |_| ());
    world.asking("two", "small", 500, |_| ());
    world
}

#[test]
fn node_whose_pods_fit_on_others_goes_and_each_has_a_place() {
    let answer = two(world()).answer(LATER);
    let command = answer.command.unwrap();
    assert_eq!(
        (claims(&command), command.decision(), command.wanted.method),
        (vec!["claim-small"], "delete", "single")
    );
    let (node, pods) = &command.on_existing[0];
    assert_eq!(
        (answer.planning.existing[*node].name.as_str(), pods.as_slice()),
        ("large", &["uid-two".to_owned()][..])
    );
}

#[test]
fn oversized_node_is_replaced_by_one_planned_for_its_pods() {
    let mut world = world();
    world.sized("large", 16);
    world.asking("one", "large", 1500, |_| ());
    let answer = world.answer(LATER);
    let command = answer.command.unwrap();
    assert_eq!((claims(&command), command.decision()), (vec!["claim-large"], "replace"));
    assert_eq!(answer.planning.problem.pods[command.replacements[0].pods[0]].uid, "uid-one");
    assert!(command.price_after < command.price_before * 0.85);
}

/// The answer where a Reserved Instance of the largest type is declared.
fn covered(world: &World, ends: f64) -> CommandAnswer {
    let mut question = world.question(LATER);
    let one = json!({"id": "r", "type": "reservedInstances", "instanceType": "k.16", "count": 1, "ends": at(ends)});
    let written = [serde_json::from_value(one).unwrap()];
    question.input.commitments = Arc::new(Commitments::from_written(&written, 1.0).unwrap());
    question.answer().unwrap()
}

#[test]
fn a_node_that_a_commitment_covers_stays_until_that_ends() {
    let mut world = world();
    world.sized("large", 16);
    world.asking("one", "large", 1500, |_| ());
    assert_eq!(covered(&world, 2.0 * LATER).command.map(|command| command.price_before), None);
    let command = covered(&world, LATER - 1.0).command.unwrap();
    assert_eq!((claims(&command), command.decision()), (vec!["claim-large"], "replace"));
    // A node whose price nobody knows may use the commitment: nothing counts.
    world.sized_as("strange", 2, ("x.9", "on-demand"));
    assert!(covered(&world, 2.0 * LATER).command.is_some());
}

#[test]
fn node_stays_for_policy_ttl_age_or_protected_pods() {
    let young = two(world()).answer(60.0);
    assert!(young.command.is_none() && why(&young, "small").is_empty(), "what passes by itself is not said");
    let empty_only = two(of_policy("WhenEmpty")).answer(LATER);
    assert!(empty_only.command.is_none() && why(&empty_only, "small").contains("WhenEmpty"));
    let mut ttl = two(world());
    ttl.annotate("dovetail.dev/ttl-seconds-after-empty", "30");
    let ttl = ttl.answer(LATER);
    assert!(ttl.command.is_none() && why(&ttl, "small").contains("consolidation.enabled"), "{}", why(&ttl, "small"));
    let mut protected = two(world());
    protected.asking("two", "small", 500, |pod| {
        pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"})
    });
    let protected = protected.answer(LATER);
    assert!(
        why(&protected, "small").contains("default/two has the annotation")
            && protected.stays.iter().any(|one| one.blocked)
    );
}

#[test]
fn moved_pod_is_not_moved_again_within_the_hour() {
    let world = two(world());
    let workload = world.state.snapshot().pods["uid-two"].workload.clone();
    let moved =
        |when: f64| Question { moved: Arc::new([(workload.clone(), vec![at(when)])].into()), ..world.question(LATER) };
    let rests =
        Question { now: Moment { monotonic: Duration::ZERO, wall: at(1200.0) }, ..moved(-1.0) }.answer().unwrap();
    assert!(rests.command.is_none() && why(&rests, "small").contains("was moved"), "{}", why(&rests, "small"));
    assert!(moved(-1.0).answer().unwrap().command.is_some(), "an hour is over");
}

#[test]
fn what_a_restart_of_its_deployment_brings_has_come_by_the_move() {
    let of_set = |hash: &'static str| {
        move |pod: &mut Value| {
            pod["metadata"]["annotations"] = json!({"dovetail.dev/move": "rollout"});
            pod["metadata"]["labels"]["pod-template-hash"] = json!(hash);
            pod["metadata"]["ownerReferences"][0]["name"] = json!(format!("web-{hash}"));
            pod["metadata"]["ownerReferences"][0]["uid"] = json!(format!("uid-web-{hash}"));
        }
    };
    let mut world = two(world());
    world.state.delete_pod("uid-two");
    world.asking("three", "small", 500, of_set("a"));
    let answer = world.answer(LATER);
    let (mut queue, command) = (Queue::default(), answer.command.unwrap());
    queue.begin(&command, vec![], &answer.snapshot, at(LATER));
    world.state.delete_pod("uid-three");
    world.at(LATER + 10.0);
    world.asking("four", "small", 500, of_set("b"));
    let after = Question { moved: queue.moved(), ..world.question(LATER + 900.0) }.answer().unwrap();
    assert!(after.command.is_none() && why(&after, "small").contains("was moved"), "{}", why(&after, "small"));
}

#[test]
fn budgets_count_what_goes_already() {
    let mut world = two(world());
    let mut pool = world.pool.clone();
    pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "1"}]);
    pool["metadata"]["resourceVersion"] = json!(world.next().to_string());
    world.apply_pool(pool);
    assert!(world.answer(LATER).command.is_some());
    world.sized("other", 2);
    world.asking("three", "other", 1900, |_| ());
    world.state.hold(["claim-other"], true);
    assert!(world.answer(LATER).command.is_none());
}

#[test]
fn pods_of_a_held_node_are_expected_only_where_command_says() {
    let mut world = two(world());
    let now = Moment { monotonic: Duration::from_secs(LATER as u64), wall: at(LATER) };
    world.state.hold(["claim-small"], true);
    let snapshot = world.state.snapshot();
    assert!(snapshot.pending(now).is_empty(), "the command has their places");
    assert!(snapshot.deleting.nodes.contains("small"));
    world.state.nominate(["uid-two"], &NominationTarget::Node("large".into()), Duration::ZERO);
    assert_eq!(world.state.snapshot().expected_on("uid-two", now), Some(&NominationTarget::Node("large".into())));
    world.state.hold(["claim-small"], false);
    let snapshot = world.state.snapshot();
    assert!(snapshot.deleting.is_empty() && snapshot.nominations.is_empty());
}

#[test]
fn pods_of_a_deleted_node_are_packed_again_without_their_places() {
    let mut world = two(world());
    world.state.hold(["claim-small"], true);
    let version = world.next().to_string();
    let mut claim = world.claim("small");
    claim.metadata.resource_version = Some(version);
    claim.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(LATER)));
    world.state.apply_claim(Arc::new(claim));
    let now = Moment { monotonic: Duration::ZERO, wall: at(LATER) };
    assert_eq!(world.state.snapshot().pending(now).len(), 1);
}

/// The cpus of a node of [`World::sized`], by its claim's capacity.
fn cpus(snapshot: &Snapshot, claim: &str) -> f64 {
    snapshot.claims[claim].claim.status.as_ref().unwrap().capacity["cpu"].0.parse().unwrap()
}

/// Carries out a command as if it took no time; kube-scheduler binds the pods that come anew where the most cpus are free,
/// whatever was planned. Returns the number of pods that have moved.
fn done(world: &mut World, answer: &CommandAnswer, count: &mut u32) -> usize {
    let command = answer.command.as_ref().unwrap();
    let loads = |claim: &str| {
        let node = answer.snapshot.claims[claim].facts.node.clone();
        answer.snapshot.loads.get(&node).map(|load| load.pods.values().cloned().collect::<Vec<_>>()).unwrap_or_default()
    };
    let pods: Vec<_> = command.wanted.claims.iter().flat_map(|claim| loads(&claim.claim)).collect();
    for claim in &command.wanted.claims {
        pods.iter().filter(|pod| pod.node_name == claim.node).for_each(|pod| world.state.delete_pod(&pod.pod.uid));
        world.state.delete_claim(&claim.claim, None);
        world.state.delete_node(&claim.node, None);
    }
    for planned in &command.replacements {
        *count += 1;
        let kind = &answer.planning.problem.instance_types[planned.cheapest_type().unwrap()];
        let (name, cpus) = (format!("n{count:04}"), kind.capacity.get(crate::resources::CPU) / 1000);
        world.sized(&name, u32::try_from(cpus).unwrap());
    }
    for pod in &pods {
        *count += 1;
        let milli = pod.pod.requests.get(crate::resources::CPU);
        let snapshot = world.state.snapshot();
        let used = |node: &str| snapshot.loads.get(node).map_or(0, |load| load.requests.get(crate::resources::CPU));
        let free = |node: &&Arc<crate::cluster_state::NodeEntry>| {
            node.allocatable.get(crate::resources::CPU) - used(&node.name)
        };
        let node = snapshot.nodes.values().max_by_key(|node| (free(node), node.name.clone())).unwrap().name.clone();
        assert!(free(&&snapshot.nodes[&node]) >= milli, "every pod has a place");
        world.asking(&format!("p{count:04}"), &node, u32::try_from(milli).unwrap(), |_| ());
    }
    pods.len()
}

#[test]
fn half_empty_cluster_is_packed_and_then_rests_for_a_day() {
    let mut world = world();
    let mut count = 0;
    for node in 0..8 {
        world.sized(&format!("node-{node}"), 16);
        (0..12).for_each(|pod| world.asking(&format!("n{node}p{pod}"), &format!("node-{node}"), 500, |_| ()));
    }
    let (mut queue, mut moves) = (Queue::default(), Vec::new());
    for minute in (15..25 * 60).step_by(5) {
        let seconds = f64::from(minute) * 60.0;
        world.at(seconds);
        queue.next(&world.state.snapshot(), &BTreeSet::new(), at(seconds));
        let answer = Question { moved: queue.moved(), ..world.question(seconds) }.answer().unwrap();
        let Some(command) = &answer.command else { continue };
        queue.begin(command, vec![], &answer.snapshot, at(seconds));
        moves.push((minute, done(&mut world, &answer, &mut count)));
    }
    let snapshot = world.state.snapshot();
    let price: f64 = snapshot.claims.keys().map(|claim| 0.05 * cpus(&snapshot, claim)).sum();
    assert!(price <= 0.05 * 48.0 * 1.1, "48 cpus are asked for, {price} $/h: {moves:?}");
    assert!(moves.iter().all(|(minute, _)| *minute < 180), "{moves:?}");
    assert!(moves.iter().map(|(_, pods)| pods).sum::<usize>() <= 96 * 2, "{moves:?}");
}

/// Twenty types of each of two sizes, as spot capacity: all of the smaller ones are cheaper; prices in zone b are `dearer`
/// times as high.
fn spot_types(dearer: f64) -> Vec<Arc<InstanceType>> {
    let one = |family: u32, cpus: u32| {
        let name = format!("s{family}.{cpus}");
        let price = f64::from(cpus) * (0.01 + 0.0001 * f64::from(family));
        json!({"name": name, "capacity": {"cpu": cpus.to_string(), "memory": format!("{}Gi", 4 * cpus), "pods": "50"},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]}],
            "offerings": [
                {"zone": "a", "capacityType": "spot", "price": price, "available": true},
                {"zone": "b", "capacityType": "spot", "price": price * dearer, "available": true}]})
    };
    let all = (0..20).flat_map(|family| [one(family, 2), one(family, 16)]);
    all.map(|one| Arc::new(serde_json::from_value(one).unwrap())).collect()
}

#[test]
fn oversized_spot_node_is_replaced_by_fifteen_types_with_gate() {
    let mut world = world();
    world.sized_as("large", 16, ("s0.16", "spot"));
    world.asking("one", "large", 1500, |_| ());
    let asked = |open: bool, dearer: f64| {
        let mut question = world.question(LATER);
        question.input.instance_types = [("default".to_owned(), Arc::new(spot_types(dearer)))].into();
        question.settings.spot_to_spot = open;
        question.answer().unwrap()
    };
    assert!(why(&asked(false, 1.0), "large").contains("SpotToSpotConsolidation"));
    // A type that is too dear in one zone is launched in the other.
    for dearer in [1.0, 9.0] {
        let answer = asked(true, dearer);
        let command = answer.command.unwrap_or_else(|| panic!("{:?}", answer.stays));
        assert_eq!((claims(&command), command.decision()), (vec!["claim-large"], "replace"), "{dearer}");
        assert!(command.replacements[0].options.len() >= 15, "{dearer}");
    }
}
