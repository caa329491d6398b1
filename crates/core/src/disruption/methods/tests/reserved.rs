//! Moves into capacity reservations.

use std::sync::Arc;

use super::*;

const RESERVATION: &str = "karpenter.k8s.aws/capacity-reservation-id";

/// An offering of a reservation of `left` instances, as the catalogue has it.
fn offering(id: &str, zone: &str, left: Option<u32>) -> crate::Offering {
    let mut offering = json!({"zone": zone, "capacityType": "reserved", "price": 1e-8, "available": true,
        "requirements": [{"key": RESERVATION, "operator": "In", "values": [id]}]});
    if let Some(left) = left {
        offering["reservationCapacity"] = json!(left);
    }
    serde_json::from_value(offering).unwrap()
}

/// Reservations by id: the cpus of their type, and the instances left.
fn reserved(nodes: &[Value], reservations: &[(&str, i64, Option<u32>)]) -> ClusterView {
    ClusterView::of_workload(with_reservations(problem(&["on-demand", "reserved"], 1, nodes), reservations))
}

fn with_reservations(mut problem: Problem, reservations: &[(&str, i64, Option<u32>)]) -> Problem {
    problem.well_known_labels.push(RESERVATION.into());
    for (id, cpus, left) in reservations {
        let name = format!("k0.{cpus}");
        let own = problem.instance_types.iter_mut().find(|one| one.name == name).unwrap();
        Arc::make_mut(own).offerings.push(offering(id, "a", *left));
    }
    problem
}

fn pins(command: &ConsolidationCommand) -> Vec<&str> {
    command.replacements.iter().flat_map(crate::pack::PlannedClaim::reservations).collect()
}

#[test]
fn on_demand_and_spot_nodes_move_into_a_free_reservation() {
    for kind in ["on-demand", "spot"] {
        // Full, and of the cheapest type that there is: nothing but a reservation costs less.
        let cluster = reserved(&[node("a", 2, kind, &[1900])], &[("cr-1", 2, Some(1))]);
        let command = command(&cluster).unwrap();
        assert_eq!((command.method, command.candidates.as_slice()), ("reserved", &[0][..]), "{kind}");
        assert_eq!((pins(&command), command.replacements[0].pods.as_slice()), (vec!["cr-1"], &[0][..]));
        assert!(command.price_after < 1e-6 && command.takes_reserved(), "{}", command.price_after);
    }
}

#[test]
fn a_reservation_without_a_free_instance_moves_nobody() {
    let nodes = [node("a", 2, "on-demand", &[1900])];
    assert_eq!(command(&reserved(&nodes, &[("cr-1", 2, Some(0))])), None);
    assert_eq!(command(&reserved(&nodes, &[])), None);
}

#[test]
fn a_pool_without_reserved_capacity_or_policy_to_move_stays() {
    let nodes = [node("a", 2, "on-demand", &[1900])];
    let bought = with_reservations(problem(&["on-demand"], 1, &nodes), &[("cr-1", 2, Some(1))]);
    assert_eq!(command(&ClusterView::of_workload(bought)), None);
    let mut cluster = reserved(&nodes, &[("cr-1", 2, Some(1))]);
    cluster.pools[0].policy = ConsolidationPolicy::WhenEmpty;
    assert_eq!(command(&cluster), None);
    cluster.pools[0].policy = ConsolidationPolicy::WhenEmptyOrUnderutilized;
    cluster.pools[0].underutilized = Some(0);
    assert_eq!(command(&cluster), None);
}

#[test]
fn reserved_nodes_stay_in_their_reservation() {
    let own = node("a", 2, "reserved", &[1900]);
    assert_eq!(command(&reserved(&[own], &[("cr-1", 2, Some(3))])), None);
}

#[test]
fn age_rest_pdb_and_brake_of_an_hour_hold() {
    let nodes = [node("a", 2, "on-demand", &[1900])];
    let decided = |change: &dyn Fn(&mut ClusterView)| {
        let mut cluster = reserved(&nodes, &[("cr-1", 2, Some(1))]);
        change(&mut cluster);
        command(&cluster)
    };
    assert!(decided(&|_| ()).is_some());
    assert_eq!(decided(&|cluster| cluster.nodes[0].reserved_lately = true), None);
    let young = now() - SignedDuration::from_mins(9);
    assert_eq!(decided(&|cluster| cluster.nodes[0].initialized = Some(young)), None);
    let moved = now() - SignedDuration::from_mins(59);
    assert_eq!(decided(&|cluster| cluster.nodes[0].pods[0].moved = Some(moved)), None);
    let full = |cluster: &mut ClusterView| {
        cluster.pdbs = vec![PodBudget { name: "default/web".into(), allowed: 0 }];
        cluster.nodes[0].pods[0].pdb = Some(0);
    };
    assert_eq!(decided(&full), None);
}

#[test]
fn one_instance_takes_as_many_nodes_as_fill_it() {
    let nodes = ["a", "b", "c"].map(|name| node(name, 2, "on-demand", &[1800]));
    let command = command(&reserved(&nodes, &[("cr-1", 4, Some(1))])).unwrap();
    assert_eq!((command.method, command.candidates.len(), command.replacements.len()), ("reserved", 2, 1));
}

#[test]
fn the_reservation_that_saves_most_is_taken_first() {
    let nodes = ["a", "b", "c"].map(|name| node(name, 2, "on-demand", &[1800]));
    let command = command(&reserved(&nodes, &[("cr-small", 2, Some(1)), ("cr-large", 4, Some(1))])).unwrap();
    assert_eq!(pins(&command), ["cr-large"]);
}

#[test]
fn pool_that_comes_first_takes_pods_of_one_that_comes_later() {
    let with_weights = |bought: i32, kept: i32| {
        let mut problem = problem(&["on-demand"], 1, &[node("a", 2, "on-demand", &[1900])]);
        let mut of_reservation = problem.node_pools[0].clone();
        of_reservation.name = "kept".into();
        of_reservation.requirements[0].values = vec!["reserved".into()];
        (problem.node_pools[0].weight, of_reservation.weight) = (bought, kept);
        problem.node_pools.push(of_reservation);
        command(&ClusterView::of_workload(with_reservations(problem, &[("cr-1", 2, Some(1))])))
    };
    assert_eq!(with_weights(1, 10).unwrap().replacements[0].pool, 1);
    assert_eq!(with_weights(1, 1).unwrap().replacements[0].pool, 1);
    assert_eq!(with_weights(10, 1), None);
}

#[test]
fn karpenters_packing_policy_uses_reservations_too() {
    let mut cluster = reserved(&[node("a", 2, "on-demand", &[1900])], &[("cr-1", 2, Some(1))]);
    cluster.problem.node_pools[0].policy = Policy::FewestNodes;
    assert_eq!(command(&cluster).unwrap().method, "reserved");
    cluster.problem.node_pools[0].policy = Policy::NodeGroups;
    assert_eq!(command(&cluster), None);
}

#[test]
fn settled_cluster_uses_every_slot_once_and_none_twice() {
    for (slots, full) in [(1, 1), (2, 2), (7, 5)] {
        let nodes: Vec<Value> = (0..5).map(|at| node(&format!("n{at}"), 2, "on-demand", &[1900])).collect();
        let cluster = reserved(&nodes, &[("cr-1", 2, Some(slots))]);
        let settled = settle(cluster, &ConsolidationSettings::default(), now(), &|_| 10).unwrap();
        let kinds = settled.cluster.problem.existing_nodes.iter();
        let reserved = kinds.filter(|node| node.labels["karpenter.sh/capacity-type"] == "reserved").count();
        assert_eq!((reserved, settled.launched), (full, full), "{slots} slots");
    }
}

#[test]
fn pods_without_room_in_the_reservation_go_to_nodes_that_stay() {
    // A reserved node with room is worth its price: it takes the pod that the new one has no room for.
    let nodes = [node("big", 4, "on-demand", &[1500, 1500]), node("there", 2, "reserved", &[300])];
    let command = command(&reserved(&nodes, &[("cr-1", 2, Some(1))])).unwrap();
    assert_eq!((command.method, command.candidates.as_slice()), ("reserved", &[0][..]));
    let kept: Vec<_> = command.moves.iter().map(|(_, to)| *to).collect();
    assert!(kept.contains(&Some(1)) && kept.contains(&None), "{kept:?}");
}
