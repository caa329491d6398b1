//! Worth of a pod's move: deleting a node has to save enough for each of them, a pod that runs to its end is left to end, and a
//! drain may take a PodDisruptionBudget's pods one after another.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::disruption::methods::{
    ClusterView, ConsolidationSettings, NodeState, PodBudget, PodState, PoolState, decide,
};
use crate::problem::Problem;

fn now() -> Timestamp {
    "2026-03-10T12:00:00Z".parse().unwrap()
}

/// Nodes with that many cpus, 5 cents an hour each, and that many pods of half a cpu.
fn cluster(nodes: &[(i64, usize)]) -> (Problem, Vec<NodeState>) {
    let node = |(at, (cpus, pods)): (usize, &(i64, usize))| {
        let name = format!("n{at}");
        let pods: Vec<Value> = (0..*pods)
            .map(|pod| json!({"name": format!("{name}-{pod}"), "uid": format!("{name}-{pod}"), "requests": {"cpu": "500m"}}))
            .collect();
        json!({"name": name, "initialized": true, "pods": pods,
            "labels": {"node.kubernetes.io/instance-type": format!("k.{cpus}"), "topology.kubernetes.io/zone": "a",
                "karpenter.sh/capacity-type": "on-demand", "karpenter.sh/nodepool": "default"},
            "allocatable": {"cpu": cpus.to_string(), "memory": format!("{}Gi", 4 * cpus), "pods": "90"},
            "used": {"cpu": format!("{}m", 500 * pods.len()), "pods": pods.len().to_string()}})
    };
    let types: Vec<Value> = [2, 4, 8, 16]
        .iter()
        .map(|cpus| {
            json!({"name": format!("k.{cpus}"),
                "capacity": {"cpu": cpus.to_string(), "memory": format!("{}Gi", 4 * cpus), "pods": "90"},
                "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [format!("k.{cpus}")]}],
                "offerings": [{"zone": "a", "capacityType": "on-demand", "price": f64::from(*cpus) * 0.05, "available": true}]})
        })
        .collect();
    let problem: Problem = serde_json::from_value(json!({
        "nodePools": [{"name": "default", "requirements": []}], "instanceTypes": types, "pods": [],
        "existingNodes": nodes.iter().enumerate().map(node).collect::<Vec<_>>(),
    }))
    .unwrap();
    let state = |(_, pods): &(i64, usize)| NodeState {
        pool: Some(0),
        consolidatable: true,
        pods: vec![PodState::default(); *pods],
        ..NodeState::default()
    };
    (problem, nodes.iter().map(state).collect())
}

fn pool() -> Vec<PoolState> {
    vec![PoolState {
        policy: dovetail_api::v1::ConsolidationPolicy::WhenEmptyOrUnderutilized,
        consolidates: true,
        ..PoolState::default()
    }]
}

/// The nodes that go, and what keeps the first.
fn answer(
    problem: Problem,
    nodes: Vec<NodeState>,
    pdbs: Vec<PodBudget>,
    settings: &ConsolidationSettings,
) -> (Vec<usize>, String) {
    let decision = decide(&ClusterView::new(problem, nodes, pool(), pdbs), settings, now()).unwrap();
    let why = decision.unconsolidatable.iter().find(|one| one.node == 0).map(|one| one.why.clone()).unwrap_or_default();
    (decision.command.map(|command| command.candidates).unwrap_or_default(), why)
}

#[test]
fn nearly_full_node_is_not_deleted_for_room_of_others() {
    // The second has room for the four pods of the first, which is full: the price of a node of two cpus for four moves.
    let settings = |least_per_pod| ConsolidationSettings { least_per_pod, ..ConsolidationSettings::default() };
    let (problem, nodes) = cluster(&[(2, 4), (16, 28)]);
    let (goes, why) = answer(problem.clone(), nodes.clone(), vec![], &settings(2.0));
    assert_eq!((goes, why.as_str()), (vec![], "what it costs is not worth the move of so many pods"));
    assert_eq!(answer(problem, nodes, vec![], &settings(0.4)).0, [0]);
    // With one pod it is worth it.
    let (problem, nodes) = cluster(&[(2, 1), (16, 28)]);
    assert_eq!(answer(problem, nodes, vec![], &settings(2.0)).0, [0]);
}

#[test]
fn pod_running_to_its_end_keeps_node_an_hour_without_newcomers() {
    let begun = |minutes: i64| {
        let (problem, mut nodes) = cluster(&[(4, 1), (16, 28)]);
        let all = |node: &mut NodeState| node.pods[0].begun = Some(now() - SignedDuration::from_mins(minutes));
        (problem, all(&mut nodes[0]), nodes)
    };
    let (problem, (), nodes) = begun(59);
    let (goes, why) = answer(problem, nodes, vec![], &ConsolidationSettings::default());
    assert_eq!((goes, why.as_str()), (vec![], "pod default/n0-0, which runs to its end, began less than 1h ago"));
    let (problem, (), nodes) = begun(61);
    assert_eq!(answer(problem, nodes, vec![], &ConsolidationSettings::default()).0, [0]);
    // On the large node: what is moved there would keep it when the other pod is done.
    let (problem, mut nodes) = cluster(&[(4, 1), (16, 28)]);
    nodes[1].pods[0].begun = Some(now() - SignedDuration::from_mins(5));
    let (goes, _) = answer(
        problem,
        nodes,
        vec![],
        &ConsolidationSettings { least_per_move: 9.0, ..ConsolidationSettings::default() },
    );
    assert_eq!(goes, Vec::<usize>::new());
}
