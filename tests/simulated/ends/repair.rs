//! Unwell nodes are replaced, places first and within budgets; what many share is no reason to replace them all. Each run's
//! report is checked against its events by the audit, PodDisruptionBudgets and NodePools' budgets among the rest.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use crate::played::{Played, at, manifests, play_over};

/// Minutes, in seconds.
const MINUTE: f64 = 60.0;

/// Ten nodes with a pod each of which one may be away at a time, in a pool with these budgets.
fn ten(budgets: &str) -> String {
    let disruption = "consolidationPolicy: WhenEmpty, consolidateAfter: Never";
    let pool = manifests(10).replace(disruption, &format!("{disruption}, budgets: {budgets}"));
    assert!(pool.contains(budgets));
    pool + "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web, namespace: default}\nspec:\n  maxUnavailable: 1\n  selector: {matchLabels: {app: web}}\n"
}

fn scenario(steps: &[&str], until: &str) -> String {
    let steps: String = steps.iter().map(|step| format!("  - {{{step}}}\n")).collect();
    format!("featureGates: {{NodeRepair: true}}\nsteps:\n{steps}until: {until}\n")
}

impl Played {
    /// Names of the Nodes that were there after five minutes, sorted.
    fn first_nodes(&self) -> Vec<&str> {
        let joined = self.seen("node", &[("change", "joined")]).into_iter().filter(|event| at(event) < 5.0 * MINUTE);
        let names: BTreeSet<&str> = joined.map(|event| event["name"].as_str().unwrap()).collect();
        names.into_iter().collect()
    }

    /// Times at which claims were removed, in order.
    fn removals(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.removed().into_values().collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// Before each removal one more node stood than there are pods and earlier removals.
    fn successors_stand_first(&self) {
        let initialized = self.times("initialized");
        for (earlier, removed) in self.removals().iter().enumerate() {
            let stood = initialized.iter().filter(|t| *t <= removed).count();
            assert!(stood > 10 + earlier, "at {removed} s {stood} nodes had come to stand: {initialized:?}");
        }
    }
}

#[test]
fn successors_of_two_sick_nodes_stand_before_their_pods_go() {
    let sick = scenario(&["at: 5m, unwell: {condition: StorageReady, count: 2}"], "50m");
    let run = play_over("repair-two", &ten("[{nodes: '1', reasons: [Unhealthy]}]"), &sick);
    run.came_out_well();
    assert_eq!((run.number("terminated"), run.number("launched")), (2, 12));
    let removals = run.removals();
    assert!(removals[0] > 35.0 * MINUTE, "{removals:?}");
    run.successors_stand_first();
    // As in Karpenter, a node whose instance is ending has no part in a budget any more.
    let ending = run.seen("instance", &[("change", "shutting-down")]);
    assert!(at(ending[0]) <= removals[1], "one at a time: {removals:?}");
    assert_eq!(run.report["downtime"]["evicted"], 2, "they are drained");
    assert!(run.log_events("disrupting").iter().all(|line| line["reason"] == "unhealthy"));
}

#[test]
fn six_sick_nodes_of_ten_are_repaired_slowly() {
    let sick = scenario(&["at: 5m, unwell: {condition: StorageReady, count: 6}"], "100m");
    let run = play_over("repair-six", &ten("[{nodes: 100%}]"), &sick);
    run.came_out_well();
    let removals = run.removals();
    assert_eq!(removals.len(), 6, "{removals:?}");
    assert!(removals.windows(2).all(|two| two[1] - two[0] > 8.0 * MINUTE), "{removals:?}");
    run.successors_stand_first();
    assert!(!run.log_events("node_repair_blocked").is_empty() && run.events_of("NodeRepairBlocked") > 0);
}

#[test]
fn the_broken_node_is_repaired_before_those_of_a_false_alarm() {
    let steps = [
        "at: 5m, unwell: {condition: StorageReady, count: 6}",
        "at: 5m, unwell: {condition: NetworkingReady, count: 1, skip: 3}",
    ];
    let run = play_over("repair-broken-one", &ten("[{nodes: '1'}]"), &scenario(&steps, "37m"));
    run.violates_nothing();
    let first = run.log_events("replacing")[0]["nodes"]["named"][0].as_str().unwrap();
    assert_eq!(first, run.first_nodes()[3], "though its condition has the lower priority");
}

#[test]
fn nodes_that_recover_one_by_one_are_left_alone() {
    let steps: Vec<String> = (0..6)
        .map(|n| format!("at: 5m, unwell: {{condition: StorageReady, count: 1, skip: {n}, for: {}m}}", 28 + n))
        .collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let run = play_over("repair-alarm-ends", &ten("[{nodes: 100%}]"), &scenario(&steps, "60m"));
    run.came_out_well();
    assert_eq!(run.removals(), [0.0; 0]);
    assert!(run.log_events("node_repair_blocked").iter().any(|line| line["why"].to_string().contains("recover")));
}

#[test]
fn nodes_with_the_veto_are_not_repaired() {
    let pool = ten("[{nodes: 100%}]");
    let vetoed = pool.replacen(
        "  template:\n    spec:\n      expireAfter",
        "  template:\n    metadata: {annotations: {karpenter.sh/do-not-repair: 'true'}}\n    spec:\n      expireAfter",
        1,
    );
    assert_ne!(pool, vetoed);
    let sick = scenario(&["at: 5m, unwell: {condition: StorageReady, count: 1}"], "50m");
    let run = play_over("repair-veto", &vetoed, &sick);
    run.came_out_well();
    assert_eq!(run.removals(), [0.0; 0]);
    let said = run.log_events("disruption_blocked");
    assert_eq!(said.len(), 1, "said once");
    assert!(said[0]["why"].to_string().contains("karpenter.sh/do-not-repair"), "{}", said[0]);
}

#[test]
fn a_pool_whose_successors_fall_sick_backs_off() {
    let steps = [
        "at: 5m, unwell: {condition: StorageReady, count: 2}",
        // All nodes, the two successors among them.
        "at: 42m, unwell: {condition: AcceleratedHardwareReady}",
    ];
    let run = play_over("repair-backs-off", &ten("[{nodes: '1'}]"), &scenario(&steps, "75m"));
    run.came_out_well();
    let removals = run.removals();
    let early = removals.iter().filter(|t| **t < 42.0 * MINUTE).count();
    assert_eq!(early, 2, "{removals:?}");
    // Due at 52, but from 47 on that is held against the pool for twenty minutes.
    let meanwhile = removals.iter().filter(|t| (42.0 * MINUTE..67.0 * MINUTE).contains(*t)).count();
    assert_eq!(meanwhile, 0, "{removals:?}");
    assert!(removals.len() > 2, "then it goes on: {removals:?}");
    let said = |line: &&serde_json::Value| line["why"].to_string().contains("replacements have fallen sick");
    assert!(run.log_events("node_repair_blocked").iter().any(said));
}

#[test]
fn legacy_repair_removes_both_at_once_without_successors() {
    let sick = scenario(&["at: 5m, unwell: {condition: StorageReady, count: 2}"], "50m");
    let legacy = format!("settings: {{LEGACY_NODE_REPAIR: 'true'}}\n{sick}");
    let run = play_over("repair-legacy", &ten("[{nodes: '1'}]"), &legacy);
    run.came_out_well();
    let removals = run.removals();
    assert_eq!(removals.len(), 2);
    assert!(removals[1] - removals[0] < 5.0, "{removals:?}");
    let stood = run.times("initialized").into_iter().filter(|t| *t <= removals[0]).count();
    assert_eq!(stood, 10);
}

/// The same with the gate RebootForRepair.
fn rebooting(steps: &[&str], until: &str) -> String {
    scenario(steps, until).replace("{NodeRepair: true}", "{NodeRepair: true, RebootForRepair: true}")
}

const HUNG: &str = "at: 5m, unwell: {condition: AcceleratedHardwareReady, reason: NvidiaXID119Error, count: 1";

/// Number of reboots that EC2 has made.
fn reboots(run: &Played) -> usize {
    run.seen("instance", &[("change", "rebooted")]).len()
}

#[test]
fn a_node_that_a_reboot_mends_keeps_its_instance() {
    let sick = rebooting(&[&format!("{HUNG}, untilReboot: true}}")], "60m");
    let run = play_over("reboot-mends", &ten("[{nodes: '1'}]"), &sick);
    run.came_out_well();
    assert_eq!((reboots(&run), run.number("launched"), run.number("terminated")), (1, 10, 0));
    assert_eq!(run.removals(), [0.0; 0]);
    assert_eq!(run.report["pods"]["bound"], 10, "its pod has come back to it");
    for (event, count) in [("node_rebooting", 1), ("node_rebooted", 1), ("node_reboot_failed", 0)] {
        assert_eq!(run.log_events(event).len(), count, "{event}");
    }
    assert!(run.events_of("NodeRebooted") >= 1);
}

#[test]
fn reboots_that_do_not_help_end_in_a_replacement() {
    let sick = rebooting(&[&format!("{HUNG}}}")], "80m");
    let run = play_over("reboot-in-vain", &ten("[{nodes: '1'}]"), &sick);
    run.came_out_well();
    assert_eq!((reboots(&run), run.number("launched"), run.number("terminated")), (2, 11, 1));
    let rebooted: Vec<f64> = run.seen("instance", &[("change", "rebooted")]).into_iter().map(at).collect();
    let removed = run.removals()[0];
    for (before, after) in [(rebooted[0], rebooted[1]), (rebooted[1], removed)] {
        assert!(after > before + 10.0 * MINUTE, "it is tolerated anew: {rebooted:?} {removed}");
    }
    run.successors_stand_first();
}

#[test]
fn a_reboot_that_ec2_refuses_is_a_replacement_and_is_said() {
    let refused = "faults: {ec2: {unauthorized: [RebootInstances]}}\n";
    let sick = rebooting(&[&format!("{HUNG}, untilReboot: true}}")], "60m");
    let run = play_over("reboot-refused", &ten("[{nodes: '1'}]"), &format!("{refused}{sick}"));
    run.came_out_well();
    assert_eq!((reboots(&run), run.number("launched"), run.number("terminated")), (0, 11, 1));
    // Its pods have left for the reboot, so nothing holds it until its successor stands.
    let said: Vec<String> = run.log_events("node_reboot_failed").iter().map(|one| one["why"].to_string()).collect();
    assert!(said.len() == 2 && said[0].contains("until the next leader") && said[1].contains("replaced"), "{said:?}");
}

#[test]
fn a_reboot_is_gone_on_with_by_a_later_leader() {
    let kill = |minute: &str| format!("at: {minute}, kill: {{replica: leader, for: 20s}}");
    // The first is before EC2 is asked: a leader that dies between the call and its note has the next one ask again (decision 069).
    let kills: Vec<String> = ["900300ms", "15m25s", "15m50s", "16m15s"].iter().map(|at| kill(at)).collect();
    let first = format!("{HUNG}, untilReboot: true}}");
    let steps: Vec<&str> = std::iter::once(first.as_str()).chain(kills.iter().map(String::as_str)).collect();
    let run = play_over("reboot-killed", &ten("[{nodes: '1'}]"), &format!("replicas: 3\n{}", rebooting(&steps, "60m")));
    run.came_out_well();
    assert_eq!((reboots(&run), run.number("launched"), run.number("terminated")), (1, 10, 0));
}

#[test]
fn without_the_gate_or_for_another_reason_it_is_replaced() {
    let other = format!("{}}}", HUNG.replace("XID119", "XID79"));
    let gateless = format!("{HUNG}, untilReboot: true}}");
    for (name, steps) in
        [("reboot-gateless", scenario(&[&gateless], "40m")), ("reboot-broken", rebooting(&[&other], "40m"))]
    {
        let run = play_over(name, &ten("[{nodes: '1'}]"), &steps);
        run.came_out_well();
        assert_eq!((reboots(&run), run.number("launched"), run.number("terminated")), (0, 11, 1), "{name}");
    }
}
