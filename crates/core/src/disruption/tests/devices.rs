//! Nodes whose pods claim devices: consolidation searches devices for them, and a claim that somebody uses who stays keeps its node.

use super::super::commands::{CommandAnswer, Question};
use super::commands::{LATER, claims, world};
use super::*;
use crate::cluster_state::PlanningInput;
use crate::dra::DeviceGates;

impl World {
    /// Publishes devices of a node.
    fn publish(&mut self, node: &str, devices: usize) {
        let devices: Vec<Value> = (0..devices).map(|at| json!({"name": format!("gpu-{at}")})).collect();
        let slice = json!({"metadata": {"name": format!("{node}-gpus")}, "spec": {"driver": "gpu.test", "nodeName": node,
            "devices": devices, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}});
        self.state.devices_mut().apply_slice(&serde_json::from_value(slice).unwrap());
        let class = json!({"metadata": {"name": "gpu"}, "spec": {"selectors": []}});
        self.state.devices_mut().apply_class(&serde_json::from_value(class).unwrap());
    }

    /// A claim on one device, which these pods use on a node.
    fn claimed(&mut self, claim: &str, (node, device): (&str, &str), pods: &[&str]) {
        let users: Vec<Value> =
            pods.iter().map(|pod| json!({"resource": "pods", "name": pod, "uid": format!("uid-{pod}")})).collect();
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let claim = json!({"metadata": {"name": claim, "namespace": "default", "uid": claim},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
            "status": {"reservedFor": users, "allocation": {
                "devices": {"results": [{"request": "r", "driver": "gpu.test", "pool": node, "device": device}]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}}});
        self.state.devices_mut().apply_claim(&serde_json::from_value(claim).unwrap());
    }

    /// A pod with that claim.
    fn claiming(&mut self, name: &str, node: &str, claim: &str) {
        let claim = json!([{"name": "gpu", "resourceClaimName": claim}]);
        self.asking(name, node, 100, |pod| pod["spec"]["resourceClaims"] = claim);
    }

    fn with_devices(&self, seconds: f64) -> Question {
        let question = self.question(seconds);
        let devices = Some(DeviceGates::default());
        Question { input: PlanningInput { devices, ..question.input.clone() }, ..question }
    }
}

/// Two machines of eight cpus with so many devices each, and a pod with a claim on each.
fn two(devices: usize) -> World {
    let mut world = world();
    for (node, pod) in [("a", "pa"), ("b", "pb")] {
        world.sized(node, 8);
        world.publish(node, devices);
        world.claimed(pod, (node, "gpu-0"), &[pod]);
        world.claiming(pod, node, pod);
    }
    world
}

fn reasons(answer: &CommandAnswer) -> Vec<&str> {
    answer.stays.iter().map(|one| one.why.as_str()).collect()
}

#[test]
fn pods_move_to_the_free_devices_of_another_node() {
    let answer = two(2).with_devices(LATER).answer().unwrap();
    let command = answer.command.unwrap();
    assert_eq!((claims(&command).len(), command.replacements.len(), command.pods.len()), (1, 0, 1));
    // Both stay if no device is free, or if these do not count.
    let answer = two(1).with_devices(LATER).answer().unwrap();
    assert!(answer.command.is_none(), "{:?}", answer.command);
    let without = two(2).question(LATER).answer().unwrap();
    assert!(without.command.is_none(), "{:?}", without.command);
}

#[test]
fn node_that_costs_less_has_the_devices_of_the_type() {
    let mut world = two(2);
    // Full, and of a cheaper type: what it publishes is what another one of its type will have.
    world.sized("c", 2);
    world.publish("c", 1);
    world.claimed("pc", ("c", "gpu-0"), &["pc"]);
    world.claiming("pc", "c", "pc");
    let question = world.with_devices(LATER);
    let answer = Question { only: Some(["uid-claim-a".to_owned()].into()), ..question }.answer().unwrap();
    let command = answer.command.unwrap();
    assert!(command.replacements.is_empty(), "b has a free one");
    world.claimed("other", ("b", "gpu-1"), &["nobody"]);
    let question = world.with_devices(LATER);
    let answer = Question { only: Some(["uid-claim-a".to_owned()].into()), ..question }.answer().unwrap();
    let command = answer.command.unwrap();
    let options = &command.replacements[0].options;
    assert_eq!(options.len(), 1, "{options:?}");
    assert_eq!(answer.planning.problem.instance_types[options[0].instance_type].name, "k.2");
    assert_eq!(command.drivers, [["gpu.test".to_owned()].into()]);
}

#[test]
fn claim_of_somebody_who_stays_keeps_its_node() {
    let mut world = two(2);
    world.daemon("watcher", "a", |_| ());
    world.claimed("pa", ("a", "gpu-0"), &["pa", "watcher"]);
    world.claimed("pb", ("b", "gpu-0"), &["pb", "unknown"]);
    let answer = world.with_devices(LATER).answer().unwrap();
    assert!(answer.command.is_none());
    assert_eq!(
        reasons(&answer),
        [
            "pod default/watcher, which stays, uses ResourceClaim default/pa too",
            "ResourceClaim default/pb is reserved for a pod that is not known"
        ]
    );
}

/// Both would wait for each other: the first that goes comes back and waits for the device, the second waits for the first.
#[test]
fn pods_that_share_a_claim_go_together_or_stay() {
    let mut world = world();
    for node in ["a", "b"] {
        world.sized(node, 8);
        world.publish(node, 2);
    }
    world.claimed("both", ("a", "gpu-0"), &["pa", "pb"]);
    world.claiming("pa", "a", "both");
    world.claiming("pb", "a", "both");
    let answer = world.with_devices(LATER).answer().unwrap();
    let command = answer.command.unwrap();
    assert_eq!((claims(&command), command.pods.len()), (vec!["claim-a"], 2));
    let budget = json!({"metadata": {"name": "one", "namespace": "default"}, "spec": {"selector": {}, "maxUnavailable": 1},
        "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    world.state.apply_budget(serde_json::from_value(budget).unwrap());
    let answer = world.with_devices(LATER).answer().unwrap();
    assert!(answer.command.as_ref().is_none_or(|command| !claims(command).contains(&"claim-a")));
    let why = "pdb default/one does not let the 2 pods go together that use ResourceClaim default/both";
    assert!(reasons(&answer).contains(&why), "{:?}", reasons(&answer));
}
