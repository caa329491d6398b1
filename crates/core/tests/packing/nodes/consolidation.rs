//! Consolidation on clusters of many kinds, held to packing's own checker.
#![allow(clippy::unwrap_used, clippy::panic, clippy::float_cmp)]

use crate::support;

use crate::common;

use dovetail_core::disruption::methods::{ClusterView, ConsolidationSettings, Settled, decide, settle};
use dovetail_core::pack::{Options, PlannedClaim, solve};
use dovetail_core::problem::Policy;
use dovetail_core::{NodeSelectorRequirement, Problem};
use jiff::{SignedDuration, Timestamp};
use support::Kind;

const KINDS: [Kind; 6] = [Kind::Shapes, Kind::Services, Kind::Apart, Kind::Diverse, Kind::Even, Kind::Databases];
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn settings(cluster: &ClusterView) -> ConsolidationSettings {
    ConsolidationSettings {
        price_moves: ConsolidationSettings::price_moves_of(cluster.nodes().len()),
        ..ConsolidationSettings::default()
    }
}

/// The nodes that pods of a kind were packed on when each of them asked for two and a half times as much.
fn half_empty(kind: Kind, pods: usize, seed: u64, policy: Policy) -> ClusterView {
    let mut problem = support::generated(kind, pods, seed);
    for pool in &mut problem.node_pools {
        pool.policy = policy;
        if seed.is_multiple_of(2) {
            pool.requirements.push(NodeSelectorRequirement::one_of("karpenter.sh/capacity-type", ["on-demand"]));
        }
    }
    let mut asked = problem.clone();
    for pod in &mut asked.pods {
        let own = pod.requests.clone();
        pod.requests.add(&own);
        pod.requests.add(&own.iter().map(|(name, amount)| (name.to_owned(), amount / 2)).collect());
    }
    ClusterView::of_packing(&problem, &solve(&asked, &Options::default()))
}

fn packed(kind: Kind, pods: usize, seed: u64) -> ClusterView {
    let problem = support::generated(kind, pods, seed);
    ClusterView::of_packing(&problem, &solve(&problem, &Options::default()))
}

fn settled(cluster: ClusterView) -> Settled {
    let settings = settings(&cluster);
    settle(cluster, &settings, NOW, &|nodes| nodes).unwrap()
}

fn all() -> impl Iterator<Item = (Kind, u64)> {
    KINDS.into_iter().flat_map(|kind| (1..5).map(move |seed| (kind, seed)))
}

#[test]
fn what_was_just_packed_is_left_alone_and_never_replaced_later() {
    for (kind, seed) in all() {
        let cluster = packed(kind, 300, seed);
        let decision = decide(&cluster, &settings(&cluster), NOW).unwrap();
        let replaced = decision.command.as_ref().is_some_and(|command| !command.replacements.is_empty());
        assert!(!replaced, "{kind:?} {seed}: {:?}", decision.command);
        let mut nodes = cluster.nodes().to_vec();
        nodes.iter_mut().for_each(|node| node.initialized = Some(NOW));
        let pools = cluster.pools().to_vec();
        let young = ClusterView::new(cluster.problem().clone(), nodes, pools, vec![]);
        let decision = decide(&young, &settings(&young), NOW + SignedDuration::from_mins(9)).unwrap();
        assert_eq!(decision.command, None, "{kind:?} {seed}");
    }
}

/// Checks the rules that every command has to keep to, done one after the other.
fn check(start: &ClusterView, end: &Settled, what: &str) {
    let mut price = end.price.0;
    for command in &end.commands {
        assert!(command.saving() >= 0.0, "{what}: {command:?}");
        price -= command.saving();
        let dearest = |claim: &PlannedClaim| claim.options.iter().map(|one| one.price).fold(0.0, f64::max);
        let after: f64 = command.replacements.iter().map(dearest).sum();
        assert!(after < command.price_before, "{what}: {after} $/h at worst");
    }
    assert!((price - end.price.1).abs() < 1e-6 * (1.0 + price), "{what}: {price} is not {}", end.price.1);
    let names = |cluster: &ClusterView| {
        let mut all: Vec<String> = cluster.problem().pods.iter().map(|pod| pod.name.clone()).collect();
        all.sort();
        all
    };
    assert_eq!(names(start), names(&end.cluster), "{what}");
    // Indices of pods are those of a round, so what has moved is told by the pods themselves.
    let moves: usize = end.commands.iter().map(|command| command.moves.len()).sum();
    let moved = end.cluster.nodes().iter().flat_map(|node| &node.pods).filter(|pod| pod.moved.is_some()).count();
    assert_eq!(moved, moves, "{what}: a pod moved twice");
}

#[test]
fn settling_saves_keeps_every_rule_and_comes_to_rest() {
    let mut sum = (0.0, 0.0);
    for (kind, seed) in all() {
        for policy in [Policy::Cost, Policy::FewestNodes] {
            let what = format!("{kind:?} {seed} {policy:?}");
            let start = half_empty(kind, 400, seed, policy);
            let end = settled(start.clone());
            let (problem, packing) = end.cluster.as_plan();
            let mut wrong = common::violations(&problem, &packing);
            if matches!(kind, Kind::Diverse) {
                // Here pods are spread by the labels of others, which have moved since: nobody holds them to that afterwards.
                wrong.retain(|what| !what.ends_with("at the least"));
            }
            assert!(wrong.is_empty(), "{what}: {wrong:?}");
            if policy == Policy::Cost {
                check(&start, &end, &what);
            }
            let again = settled(end.cluster.clone());
            assert_eq!(again.commands.len(), 0, "{what}");
            let fresh = solve(&Problem { existing_nodes: vec![], ..start.problem().clone() }, &Options::default());
            println!(
                "{what}: {} -> {} nodes, {:.3} -> {:.3} $/h, {:.3} of fresh, {} moves, {} commands",
                start.nodes().len(),
                end.cluster.nodes().len(),
                end.price.0,
                end.price.1,
                end.price.1 / fresh.total_price,
                end.moved,
                end.commands.len(),
            );
            if policy == Policy::Cost && seed.is_multiple_of(2) {
                // Together, not each: some are a handful of nodes, and with every pod moved once at most one that stays half full is
                // a large part of them (Even 4 ends at 1.74 times).
                (sum.0, sum.1) = (sum.0 + end.price.1, sum.1 + fresh.total_price);
            }
        }
    }
    assert!(sum.0 <= 1.3 * sum.1, "{sum:?}");
}

#[test]
fn a_cluster_comes_to_rest_within_hours() {
    for (kind, seed) in all() {
        let mut cluster = half_empty(kind, 300, seed, Policy::Cost);
        let mut commands = Vec::new();
        for hour in 0..6 {
            let settings = settings(&cluster);
            let now = NOW + SignedDuration::from_mins(61 * hour);
            let end = settle(cluster, &settings, now, &|nodes| nodes).unwrap();
            commands.push(end.commands.len());
            cluster = end.cluster;
        }
        println!("{kind:?} {seed}: {commands:?}");
        assert_eq!(commands[5], 0, "{kind:?} {seed}: {commands:?}");
    }
}

#[test]
fn many_to_many_consolidation_keeps_rules_and_costs_no_more() {
    let (mut with, mut without, mut packed) = (0.0, 0.0, 0.0);
    for (kind, seed) in all().filter(|(_, seed)| seed.is_multiple_of(2)) {
        let what = format!("{kind:?} {seed}");
        let start = half_empty(kind, 400, seed, Policy::Cost);
        let settings = ConsolidationSettings { many_to_many: true, ..settings(&start) };
        let end = settle(start.clone(), &settings, NOW, &|nodes| nodes.div_ceil(10)).unwrap();
        let (problem, packing) = end.cluster.as_plan();
        let mut wrong = common::violations(&problem, &packing);
        if matches!(kind, Kind::Diverse) {
            wrong.retain(|what| !what.ends_with("at the least"));
        }
        assert!(wrong.is_empty(), "{what}: {wrong:?}");
        check(&start, &end, &what);
        for command in &end.commands {
            let least = settings.least_saving * command.price_before;
            let pays = command.replacements.is_empty() || command.saving() >= least - 1e-9;
            assert!(pays, "{what}: each step pays by itself: {command:?}");
        }
        let fresh = solve(&Problem { existing_nodes: vec![], ..start.problem().clone() }, &Options::default());
        let one =
            settle(start, &ConsolidationSettings { many_to_many: false, ..settings }, NOW, &|nodes| nodes.div_ceil(10))
                .unwrap();
        println!(
            "{what}: {:.3} of fresh, {:.3} without, {} and {} moves",
            end.price.1 / fresh.total_price,
            one.price.1 / fresh.total_price,
            end.moved,
            one.moved
        );
        (with, without, packed) = (with + end.price.1, without + one.price.1, packed + fresh.total_price);
    }
    println!("{with} $/h with the gate, {without} without, {packed} afresh");
    assert!(with <= without, "{with} $/h with the gate, {without} without, {packed} afresh");
}
