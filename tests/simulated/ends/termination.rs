//! Nodes go as gracefully as they come, whoever deletes what: each scenario is run by the binary, and its report is
//! checked against its events by the audit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use crate::played;

use std::sync::atomic::{AtomicU32, Ordering};

use common::{arg, root, write};
use played::{Played, at, play_with};
use serde_json::Value;

/// Plays a scenario file with steps appended to it.
#[track_caller]
fn play_steps(name: &str, steps: &[String], status: i32) -> Played {
    play_steps_with(name, steps, status, &[])
}

#[track_caller]
fn play_steps_with(name: &str, steps: &[String], status: i32, more: &[&str]) -> Played {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let folder = root().join("tests/simulation/scenarios");
    let mut text = std::fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap();
    // The scenario is played from another folder.
    for before in ["[", ", "] {
        text = text.replace(&format!("{before}../"), &format!("{before}{}/../", arg(&folder)));
    }
    if !steps.is_empty() {
        text.push_str("steps:\n");
        steps.iter().for_each(|step| text.push_str(&format!("  - {step}\n")));
    }
    let run = format!("termination-{}-{name}", RUNS.fetch_add(1, Ordering::Relaxed));
    let played = play_with(&run, &write(&format!("{run}.yaml"), &text), more, &[status]);
    played.violates_nothing();
    played
}

impl Played {
    /// Kubernetes events with this reason.
    fn recorded(&self, reason: &str) -> Vec<&Value> {
        let all = self.seen("api", &[("resource", "events"), ("verb", "create")]);
        all.into_iter().filter(|event| event["sent"]["reason"] == reason).collect()
    }

    fn nodes(&self) -> &[Value] {
        self.report["nodes"].as_array().unwrap()
    }

    /// Every pod that had to go was missed for no longer than its successor took to start on a node that was there: one to three
    /// seconds, and one for the controller and kube-scheduler.
    fn places_came_first(&self, pods: u64) {
        let missed = self.report["downtime"]["podSeconds"].as_f64().unwrap();
        assert!(missed > 0.0 && missed <= 4.0 * pods as f64, "{pods} pods were missed for {missed} s together");
    }

    /// Every pod is bound, on nodes of that pool alone.
    fn all_bound(&self, count: u64, pool: &str) {
        assert_eq!((&self.report["pods"]["bound"], &self.report["pods"]["total"]), (&count.into(), &count.into()));
        assert!(!self.nodes().is_empty());
        for node in self.nodes() {
            assert_eq!(node["labels"]["karpenter.sh/nodepool"], pool, "{node}");
        }
    }
}

/// The scenario without further steps, to learn how what it makes is called.
fn names() -> (String, String) {
    let run = play_steps("web", &[], 0);
    let name = run.nodes()[0]["name"].as_str().unwrap().to_owned();
    let registered = run.log_events("registered").into_iter().find(|line| line["node"] == name.as_str()).unwrap();
    (name, registered["node_claim"].as_str().unwrap().to_owned())
}

/// Asserts what must hold of a run in which one node was deleted, in whichever way.
fn one_node_went(run: &Played, node: &str, claim: &str, asked: &str) {
    run.all_bound(12, "a");
    assert!(run.nodes().iter().all(|left| left["name"] != node), "the node is still there");
    assert_eq!(run.number("terminated"), 1);
    let order = [
        "deletion_asked",
        "cordoned",
        "draining",
        "awaiting_places",
        "evicted",
        "drained",
        "terminated",
        "node_deleted",
    ];
    let times: Vec<f64> = order
        .iter()
        .map(|event| {
            let told = run.log_events(event);
            assert!(!told.is_empty() && told.iter().all(|line| line["node"] == node), "{event}: {told:?}");
            at(told[0])
        })
        .collect();
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{order:?} at {times:?}");
    for event in ["deletion_asked", "cordoned", "draining"] {
        let reason = run.log_events(event)[0]["reason"].as_str().unwrap().to_owned();
        assert!(reason == format!("the deletion of {asked} was asked for"), "{event}: {reason}");
    }
    assert!(!run.recorded("TerminatingOnDeletion").is_empty() && !run.recorded("AwaitingReplacement").is_empty());
    let deleted = run.log_events("nodeclaim_deleted");
    assert!(deleted.len() == 1 && deleted[0]["node_claim"] == claim, "{deleted:?}");
    // Nothing of the instance is left when the finalizers go.
    let ended = run.seen("instance", &[("change", "terminated")]);
    assert!(ended.len() == 1 && at(ended[0]) <= times[7], "{ended:?}");
    let evicted = run.seen("pod", &[("change", "evicted")]);
    assert!(!evicted.is_empty() && run.report["downtime"]["evicted"] == evicted.len());
    run.places_came_first(evicted.len() as u64);
    assert_eq!(run.recorded("Evicted").len(), evicted.len());
    for sent in run.seen("api", &[("subresource", "eviction")]) {
        let uid = &sent["sent"]["deleteOptions"]["preconditions"]["uid"];
        assert!(uid.is_string(), "an eviction without the pod's uid: {sent}");
    }
    let ends = run.seen("aws", &[("action", "TerminateInstances"), ("code", "OK")]);
    assert_eq!(ends.len(), 1, "{ends:?}");
}

#[test]
fn deleted_node_takes_claim_and_instance_and_its_pods_return() {
    let (node, claim) = names();
    let run = play_steps("web", &[format!("{{at: 4m, delete: {{kind: Node, name: {node}}}}}")], 0);
    one_node_went(&run, &node, &claim, &format!("node {node}"));
}

#[test]
fn a_deleted_nodeclaim_takes_its_node_and_instance_along() {
    let (node, claim) = names();
    let run = play_steps("web", &[format!("{{at: 4m, delete: {{kind: NodeClaim, name: {claim}}}}}")], 0);
    one_node_went(&run, &node, &claim, &format!("nodeclaim {claim}"));
}

#[test]
fn deleted_nodepool_takes_all_it_owns_and_its_pods_move() {
    let run = play_steps("delete-pool", &[], 0);
    run.all_bound(12, "b");
    let of_a = run.log_events("nodeclaim_created").iter().filter(|line| line["node_pool"] == "a").count();
    assert!(of_a > 0);
    assert_eq!(run.number("terminated"), of_a as u64);
    assert_eq!(run.log_events("node_deleted").len(), of_a);
    assert_eq!(run.log_events("nodeclaim_deleted").len(), of_a);
    run.places_came_first(12);
    assert!(run.log_events("draining").iter().all(|line| line["reason"] == "its nodepool a is deleted"));
}

#[test]
fn pods_that_are_spread_over_zones_have_their_places_at_home() {
    let run = play_steps("zones-go", &[], 0);
    run.all_bound(12, "b");
    run.places_came_first(12);
    let run = play_steps("zones-expire", &[], 0);
    run.all_bound(12, "a");
    run.places_came_first(run.seen("pod", &[("change", "evicted")]).len() as u64);
}

#[test]
fn pods_that_fit_nowhere_else_are_waited_for_half_a_minute() {
    let run = play_steps("web", &["{at: 4m, delete: {kind: NodePool, name: a}}".to_owned()], 1);
    let evicted = run.seen("pod", &[("change", "evicted")]);
    assert_eq!(evicted.len(), 12);
    assert!(evicted.iter().all(|pod| (270.0..273.0).contains(&at(pod))), "{evicted:?}");
    assert!(!run.log_events("places_given_up").is_empty() && !run.recorded("ReplacementGivenUp").is_empty());
}

/// Pods that had to go, though they were protected.
fn protected_went(run: &Played, forced: u64) {
    run.all_bound(run.report["pods"]["total"].as_u64().unwrap(), "going");
    assert!(run.seen("pod", &[("change", "lost")]).is_empty());
    assert!(run.seen("pod", &[("change", "evicted")]).is_empty(), "budgets and annotations are kept");
    let deleted: u64 = run.log_events("pods_deleted").iter().map(|line| line["pods"].as_u64().unwrap()).sum();
    assert_eq!(deleted, forced);
    run.places_came_first(forced);
    let held: Vec<String> = run.log_events("drain_held").iter().map(|line| line["why"].to_string()).collect();
    assert_eq!(held.len(), 6, "each once: {held:?}");
    let says = |rule: &str| held.iter().filter(|why| why.contains(rule)).count();
    assert_eq!((says("karpenter.sh/do-not-disrupt"), says("pdb default/kept")), (3, 3), "{held:?}");
}

#[test]
fn places_of_protected_pods_are_ready_before_their_node_expires() {
    let run = play_steps("protected-expiry", &[], 0);
    protected_went(&run, 6);
    assert_eq!(run.number("launched"), 12, "no place is given up as empty and made again");
    assert!(run.log_events("cordoned").iter().all(|line| line["reason"] == "expired"));
}

#[test]
fn a_place_that_kube_scheduler_gives_to_others_is_made_anew() {
    let run = play_steps("protected-crowded", &[], 0);
    protected_went(&run, 6);
    assert_eq!(run.number("launched"), 16);
}

#[test]
fn protected_pods_on_interrupted_spot_end_in_time_with_a_place() {
    let run = play_steps("protected-spot", &[], 0);
    protected_went(&run, 6);
    let deleting = run.seen("pod", &[("change", "deleting")]);
    assert!(deleting.iter().all(|pod| (389.0..393.0).contains(&at(pod))), "their own 30 s before: {deleting:?}");
}

#[test]
fn sixty_nodes_end_together_in_few_calls() {
    let run = play_steps("delete-wide-pool", &[], 0);
    assert_eq!((run.number("launched"), run.number("terminated")), (60, 60));
    assert!(run.nodes().is_empty() && run.log_events("nodeclaim_deleted").len() == 60);
    let after = |action: &str| run.seen("aws", &[("action", action)]).iter().filter(|call| at(call) > 300.0).count();
    assert!(after("TerminateInstances") <= 3, "{}", after("TerminateInstances"));
    assert!(after("DescribeInstances") <= 30, "{}", after("DescribeInstances"));
    let last = run.log_events("terminated").iter().map(|line| at(line)).fold(0.0, f64::max);
    assert!(last <= 310.0, "the last instance is ended at {last} s");
}

#[test]
fn a_successor_goes_on_where_a_killed_leader_stopped() {
    let run = play_steps("delete-pool-takeover", &[], 0);
    run.all_bound(12, "b");
    assert!(run.log_events("elected").len() >= 3, "{:?}", run.log_events("elected"));
    let of_a = run.log_events("nodeclaim_created").iter().filter(|line| line["node_pool"] == "a").count();
    assert_eq!(run.number("terminated"), of_a as u64);
    let evicted = run.seen("pod", &[("change", "evicted")]);
    assert_eq!(evicted.len(), 12, "nobody is evicted twice");
    let deleted: std::collections::BTreeSet<&str> =
        run.log_events("node_deleted").iter().map(|line| line["node"].as_str().unwrap()).collect();
    assert_eq!(deleted.len(), of_a);
}

#[test]
fn errors_and_throttling_only_delay_termination() {
    // Seeds at which the class of `a` is ready before the first batch is packed, so that there is something to end.
    for seed in ["1", "3", "4"] {
        let run = play_steps_with("delete-pool-faults", &[], 0, &["--seed", seed]);
        run.all_bound(12, "b");
        assert_eq!(run.number("launched") - run.number("terminated"), run.nodes().len() as u64, "seed {seed}");
        assert!(run.log_events("nodeclaim_created").iter().any(|line| line["node_pool"] == "a"), "seed {seed}");
    }
}

#[test]
fn deleted_node_class_waits_for_its_claims_and_leaves_nothing() {
    let run = play_steps("delete-node-class", &[], 0);
    run.all_bound(12, "b");
    let (waits, gone) = (run.log_events("node_class_waits"), run.log_events("node_class_deleted"));
    assert!(waits.len() == 1 && gone.len() == 1, "{waits:?} {gone:?}");
    let last = run.log_events("nodeclaim_deleted").iter().map(|line| at(line)).fold(0.0, f64::max);
    assert!(at(waits[0]) < 240.0 && at(gone[0]) >= last, "{waits:?} {gone:?}");
    assert!(!run.recorded("WaitingOnNodeClaimTermination").is_empty());
    let done = |action: &str| run.seen("aws", &[("action", action), ("code", "OK")]).len();
    assert!(done("DeleteLaunchTemplate") > 0);
    assert_eq!(done("DeleteInstanceProfile"), 1);
    let left = run.seen("api", &[("resource", "ec2nodeclasses"), ("verb", "patch"), ("name", "a")]);
    let last = left.into_iter().rfind(|event| event["code"] == 200).unwrap();
    assert_eq!(last["sent"]["metadata"]["finalizers"], serde_json::json!([]));
}

#[test]
fn a_budget_holds_a_node_until_it_allows() {
    let run = play_steps("budget", &[], 0);
    run.all_bound(12, "b");
    let evicted = run.seen("pod", &[("change", "evicted")]);
    assert_eq!(evicted.len(), 12);
    assert!(at(evicted[0]) >= 480.0, "before the budget allowed it: {}", evicted[0]);
    assert!(!run.recorded("FailedDraining").is_empty());
    assert!(!run.log_events("eviction_refused").is_empty());
    // Two at a time: of any three in a row the first is back before the third goes.
    let ready = run.seen("pod", &[("change", "ready")]);
    for three in evicted.windows(3) {
        let back = ready.iter().filter(|pod| at(pod) > 480.0 && at(pod) <= at(three[2])).count();
        let before = evicted.iter().filter(|pod| at(pod) < at(three[2])).count();
        assert!(before - back.min(before) <= 2, "{three:?}");
    }
    assert_eq!(run.number("terminated") + run.nodes().len() as u64, run.number("launched"));
}

#[test]
fn a_budget_that_is_deleted_holds_nothing() {
    let run = play_steps("budget-deleted", &[], 0);
    run.all_bound(12, "b");
    let evicted = run.seen("pod", &[("change", "evicted")]);
    assert!(evicted.len() == 12 && at(evicted[0]) >= 480.0);
    // A place was not made before, as nobody knew whether it would ever be needed: now a node comes for them, in about a minute. A
    // refusal is followed by pauses of at most ten seconds.
    assert!(at(evicted[11]) <= 560.0, "{}", evicted[11]);
}

#[test]
fn a_refused_eviction_is_tried_again_ever_more_slowly() {
    let run = play_steps("budget-deleted", &[], 0);
    let tries = run.seen("api", &[("subresource", "eviction")]);
    let refused: Vec<_> =
        tries.iter().filter(|event| event["code"] == 429 && event["name"] == tries[0]["name"]).collect();
    let pauses: Vec<f64> = refused.windows(2).map(|pair| at(pair[1]) - at(pair[0])).collect();
    assert!(pauses.len() > 20 && pauses[0] < 0.3, "{pauses:?}");
    let longest = pauses.iter().copied().fold(0.0, f64::max);
    assert!(longest > 5.0 && longest < 11.2, "{longest}");
}

#[test]
fn pods_that_ask_to_be_left_alone_are_waited_for() {
    let run = play_steps("left-alone", &[], 0);
    assert!(run.seen("api", &[("subresource", "eviction")]).is_empty());
    assert_eq!(run.report["downtime"]["evicted"], 0);
    assert!(run.seen("instance", &[("change", "shutting-down")]).iter().all(|event| at(event) > 480.0));
    assert_eq!(run.number("launched"), run.number("terminated"), "everything is gone");
    assert!(run.nodes().is_empty());
    let held = run.log_events("drain_held");
    let nodes: std::collections::BTreeSet<&str> = held.iter().map(|line| line["node"].as_str().unwrap()).collect();
    assert_eq!((held.len(), nodes.len() as u64), (nodes.len(), run.number("terminated")), "once for each node");
    assert!(held.iter().all(|line| line["why"].to_string().contains("do-not-disrupt, and nothing ends that")));
}

#[test]
fn a_grace_period_ends_what_budgets_and_pods_ask_for() {
    let run = play_steps("grace", &[], 0);
    run.all_bound(12, "b");
    assert!(run.seen("pod", &[("change", "evicted")]).is_empty());
    let deletions = run.seen("api", &[("resource", "pods"), ("verb", "delete")]);
    let ours: Vec<_> = deletions.into_iter().filter(|event| event["replica"].is_number()).collect();
    assert_eq!(ours.len(), 12);
    for deletion in &ours {
        // 30 s before the two minutes are over: the pods' own grace.
        assert!((269.0..=273.0).contains(&at(deletion)), "{deletion}");
        assert!(deletion["sent"]["preconditions"]["uid"].is_string(), "{deletion}");
        assert!((27..=30).contains(&deletion["sent"]["gracePeriodSeconds"].as_u64().unwrap()), "{deletion}");
    }
    assert_eq!(run.recorded("Disrupted").len(), 12);
    assert!(!run.recorded("TerminationGracePeriodExpiring").is_empty());
    run.places_came_first(12);
    assert_eq!(run.log_events("node_deleted").len() as u64, run.number("terminated"));
}

#[test]
fn volumes_are_detached_before_node_end_and_attached_elsewhere() {
    let run = play_steps("001-volumes", &[], 0);
    assert_eq!(run.report["pods"]["bound"], 20);
    assert!(run.nodes().iter().all(|node| node["zone"] == "eu-west-1a"));
    assert_eq!(run.number("launched") - run.number("terminated"), run.nodes().len() as u64);
    assert!(run.number("terminated") > 0);
    let evicted = run.seen("pod", &[("change", "evicted")]);
    assert!(evicted.len() >= 20, "{}", evicted.len());
    // Pods start in order, one after the other, the first time.
    let ready: Vec<&str> =
        run.seen("pod", &[("change", "ready")]).iter().take(20).map(|pod| pod["name"].as_str().unwrap()).collect();
    let wanted: Vec<String> = (0..20).map(|ordinal| format!("express-nodejs-{ordinal}")).collect();
    assert_eq!(ready, wanted);
    // No instance ends while a volume is attached to its node.
    let mut attached: std::collections::BTreeMap<&str, &str> = std::collections::BTreeMap::new();
    let mut node_of: std::collections::BTreeMap<&str, &str> = std::collections::BTreeMap::new();
    let (mut ends, mut attachments) = (0, 0);
    for event in &run.events {
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        match (text("kind"), text("resource"), text("verb"), text("change")) {
            ("node", ..) if text("change") == "joined" => drop(node_of.insert(text("instance"), text("name"))),
            ("volume", ..) if text("change") == "attaching" => {
                attachments += 1;
                attached.insert(text("name"), text("node"));
            }
            ("volume", ..) if text("change") == "detached" => drop(attached.remove(text("name"))),
            ("instance", .., "shutting-down") => {
                ends += 1;
                let node = node_of[text("id")];
                let held: Vec<_> = attached.iter().filter(|(_, on)| **on == node).collect();
                assert!(held.is_empty(), "{node} ends with {held:?}");
            }
            _ => {}
        }
    }
    assert!(ends > 0 && attachments >= 40, "{ends} {attachments}");
    assert!(!run.log_events("awaiting_volumes").is_empty());
}

/// Pods that tolerate every taint, as operators of network plugins do, are drained like others: against their budget none goes, their
/// places come first, and they are not chased where kube-scheduler puts them back.
#[test]
fn pods_that_tolerate_everything_move_by_their_budget_and_once() {
    let budget = "---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
";
    for (name, kind, budget) in
        [("small", "[m5.large]", budget), ("roomy", "[m5.2xlarge]", budget), ("no-budget", "[m5.2xlarge]", "")]
    {
        let name = format!("tolerates-{name}");
        let tolerant = played::manifests(2)
            .replace(
                "      terminationGracePeriodSeconds: 1\n",
                "      terminationGracePeriodSeconds: 20\n      tolerations: [{operator: Exists}]\n",
            )
            .replace("consolidateAfter: Never}", "consolidateAfter: Never, budgets: [{nodes: '1'}]}")
            .replace("[m5.large, m6i.large]", kind);
        let class = tolerant.split("---\n").next().unwrap().replace("spec:\n", "spec:\n  tags: {release: two}\n");
        write(&format!("{name}/changed.yaml"), &class);
        let steps = "steps: [{at: 5m, apply: [changed.yaml]}]\nuntil: 30m\n";
        let run = played::play_over(&name, &format!("{tolerant}{budget}"), steps);
        run.violates_nothing();
        assert_eq!(run.number("terminated"), 2, "{name}: both nodes go");
        let made = run.seen("pod", &[("change", "created"), ("owner", "Deployment/web")]).len();
        assert!(made <= 8, "{name}: {made} pods were made");
        let evicted = run.report["downtime"]["evicted"].as_u64().unwrap();
        assert!((2..=4).contains(&evicted), "{name}: {evicted} evictions");
        run.came_out_well();
    }
}
