//! Moves that nobody feels: a Deployment whose pods ask for it is restarted where their eviction would be refused or would leave
//! none, and what blocks a drain otherwise is named with the remedy.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::played::{Played, at, manifests, play_over};

/// One pod on a node of its own, under a budget that asks for it, with these annotations.
fn one_pod(annotations: &str) -> String {
    let budget = "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web, namespace: default}\nspec:\n  minAvailable: 1\n  selector: {matchLabels: {app: web}}\n";
    let labels = "metadata: {labels: {app: web}}";
    let all =
        manifests(1).replace(labels, &format!("metadata: {{labels: {{app: web}}, annotations: {{{annotations}}}}}"));
    assert!(annotations.is_empty() || all.contains(annotations));
    all + budget
}

const ROLLOUT: &str = "dovetail.dev/move: rollout";
/// The pod's node is deleted when it has run for a while.
const DELETED: &str =
    "settings: {MOVES_ROLLOUT: 'true'}\nsteps:\n  - {at: 5m, deleteSome: {kind: NodeClaim, count: 1}}\nuntil: 12m\n";

impl Played {
    /// The seconds after `from` in which no pod of Deployments was Ready.
    fn without_a_pod(&self, from: f64) -> f64 {
        let (mut ready, mut since, mut missed) = (std::collections::BTreeSet::new(), None::<f64>, 0.0);
        for event in self.events.iter().filter(|event| event["kind"] == "pod") {
            let uid = event["uid"].as_str().unwrap_or_default().to_owned();
            match event["change"].as_str().unwrap() {
                "ready" => drop(ready.insert(uid)),
                "evicted" | "deleting" | "lost" | "deleted" => drop(ready.remove(&uid)),
                _ => {}
            }
            match (ready.is_empty(), since) {
                (true, None) => since = Some(at(event)),
                (false, Some(begun)) => {
                    missed += (at(event) - begun.max(from)).max(0.0);
                    since = None;
                }
                _ => {}
            }
        }
        let end = self.report["virtualSeconds"].as_f64().unwrap();
        missed + since.map_or(0.0, |begun| end - begun.max(from))
    }

    fn restarts(&self) -> usize {
        let patches = self.seen("api", &[("resource", "deployments"), ("verb", "patch")]);
        patches.into_iter().filter(|patch| patch["sent"].to_string().contains("restartedAt")).count()
    }
}

#[test]
fn single_pod_under_a_pdb_of_one_moves_without_a_gap() {
    let run = play_over("moves-rollout", &one_pod(ROLLOUT), DELETED);
    run.came_out_well();
    assert_eq!((run.number("terminated"), run.number("launched")), (1, 2), "one node for another");
    assert_eq!((run.restarts(), run.log_events("deployment_restarted").len()), (1, 1));
    assert!(run.without_a_pod(299.0) < 0.001, "{} s without a pod", run.without_a_pod(299.0));
    assert_eq!(run.report["downtime"]["evicted"], 0, "nothing is evicted");
    let restarted = run.times("deployment_restarted")[0];
    let initialized = run.times("initialized");
    assert!(
        initialized.iter().filter(|t| **t <= restarted).count() == 2,
        "its place is ready: {initialized:?}, {restarted}"
    );
}

#[test]
fn a_single_pod_without_a_budget_moves_the_same_way() {
    let manifests = one_pod(ROLLOUT);
    let (without, _) = manifests.rsplit_once("---\n").unwrap();
    let run = play_over("moves-alone", without, DELETED);
    run.came_out_well();
    assert_eq!(run.restarts(), 1);
    assert!(run.without_a_pod(299.0) < 0.001, "{} s without a pod", run.without_a_pod(299.0));
}

#[test]
fn unasked_deployment_is_not_restarted_and_its_pdb_is_named() {
    for (name, annotations, settings) in [
        ("moves-unasked", "", DELETED),
        ("moves-off", ROLLOUT, "steps:\n  - {at: 5m, deleteSome: {kind: NodeClaim, count: 1}}\nuntil: 12m\n"),
    ] {
        let run = play_over(name, &one_pod(annotations), settings);
        assert_eq!((run.restarts(), run.number("terminated")), (0, 0), "{name}");
        let blocked = run.log_events("drain_blocked");
        assert_eq!(blocked.len(), 1, "{name}: said once");
        assert!((360.0..375.0).contains(&at(blocked[0])), "{name}: {}", blocked[0]);
        let (why, remedy) = (blocked[0]["why"].to_string(), blocked[0]["remedy"].to_string());
        assert!(why.contains("pdb default/web") && remedy.contains("dovetail.dev/move: rollout"), "{}", blocked[0]);
        assert!(run.events_of("FailedDraining") > 0, "{name}");
    }
}

#[test]
fn deployment_without_surge_is_not_restarted_and_holds_its_node() {
    let stays = one_pod(ROLLOUT).replacen(
        "  replicas: 1\n",
        "  replicas: 1\n  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}\n",
        1,
    );
    let run = play_over("moves-no-surge", &stays, DELETED);
    assert_eq!((run.restarts(), run.number("terminated")), (0, 0));
    assert_eq!(run.log_events("not_restarted").len(), 1);
    assert_eq!(run.log_events("drain_blocked").len(), 1);
}

#[test]
fn restart_without_an_available_pod_is_given_up_in_ten_minutes() {
    let slow = one_pod(ROLLOUT).replacen("  replicas: 1\n", "  replicas: 1\n  minReadySeconds: 1200\n", 1);
    let scenario = "settings: {MOVES_ROLLOUT: 'true'}\nsteps:\n  - {at: 25m, deleteSome: {kind: NodeClaim, count: 1}}\nuntil: 40m\n";
    let run = play_over("moves-slow", &slow, scenario);
    assert_eq!(run.restarts(), 1);
    let (restarted, given_up) = (run.times("deployment_restarted")[0], run.times("not_restarted"));
    assert_eq!(given_up.len(), 1, "said once");
    let waited = given_up[0] - restarted;
    assert!((600.0..620.0).contains(&waited), "given up after {waited} s");
    assert!(run.log_events("not_restarted")[0]["why"].to_string().contains("did not come within 10 minutes"));
    assert!(run.events_of("NotMovedByRollout") > 0);
    assert!(run.without_a_pod(1499.0) < 0.001, "its budget keeps it");
}
