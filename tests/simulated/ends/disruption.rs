//! Nodes go by our own will when they are empty or old, and no sooner: each scenario is run by the binary, and its report
//! is checked against its events by the audit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::played;

use std::collections::{BTreeMap, BTreeSet};

use played::{Played, at, play_kept};
use serde_json::Value;

impl Played {
    /// Seconds at which the last pod of a workload on each node was gone, of those that went before `until`.
    fn emptied(&self, until: f64) -> BTreeMap<String, f64> {
        let mut on: BTreeMap<&str, &str> = BTreeMap::new();
        let mut last = BTreeMap::new();
        for event in self.events.iter().filter(|event| event["kind"] == "pod" && at(event) < until) {
            let owner = event["owner"].as_str().unwrap_or_default();
            let uid = event["uid"].as_str().unwrap();
            match event["change"].as_str().unwrap() {
                "bound" if !owner.starts_with("DaemonSet/") => {
                    on.insert(uid, event["node"].as_str().unwrap());
                }
                "deleted" => {
                    if let Some(node) = on.get(uid) {
                        last.insert((*node).to_owned(), at(event));
                    }
                }
                _ => {}
            }
        }
        last
    }

    /// The claim of each Node by the Node's name.
    fn claims(&self) -> BTreeMap<String, String> {
        let text = |line: &Value, field: &str| line[field].as_str().unwrap().to_owned();
        self.log_events("registered").into_iter().map(|line| (text(line, "node"), text(line, "node_claim"))).collect()
    }

    /// Everything launched is terminated, and nothing but what was there beforehand is left.
    fn all_gone(&self) {
        let left: Vec<_> =
            self.report["nodes"].as_array().unwrap().iter().filter(|node| node["beforehand"] == false).collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(self.number("launched") > 0);
        assert_eq!(self.number("launched"), self.number("terminated"));
        assert_eq!(self.seen("instance", &[("change", "terminated"), ("beforehand", "true")]).len(), 0);
    }

    /// Each of these nodes tells the posts' four lines, in their order, and goes 30 to 31 seconds after its last pod.
    fn each_went_by_its_ttl(&self, nodes: &BTreeMap<String, f64>) {
        let (claims, removed) = (self.claims(), self.removed());
        for (node, emptied) in nodes {
            let time = |event: &str| {
                let lines: Vec<_> =
                    self.log_events(event).into_iter().filter(|line| line["node"] == node.as_str()).collect();
                assert!(!lines.is_empty(), "{event} is not told of {node}");
                at(lines.last().unwrap())
            };
            let log_events = ["ttl_added", "ttl_reached", "cordoned", "node_deleted"].map(time);
            assert!(log_events.windows(2).all(|pair| pair[0] <= pair[1]), "{node}: {log_events:?}");
            let waited = removed[&claims[node]] - emptied;
            assert!((30.0..=31.0).contains(&waited), "{node} went {waited} s after its last pod");
        }
    }
}

#[test]
fn four_hundred_pods_become_none_and_nodes_go_by_their_ttl() {
    let run = play_kept("ttl", &[]);
    run.all_gone();
    let (at_200, in_the_end) = (run.emptied(600.0), run.emptied(900.0));
    // A pod that the scheduler and the ReplicaSet have left on a node keeps it.
    let busy: BTreeSet<_> = run.claims().into_keys().collect();
    let removed = run.removed();
    let before: Vec<_> = removed.values().filter(|t| **t < 600.0).collect();
    assert!(before.len() < busy.len(), "nodes with pods have gone");
    assert!(!at_200.is_empty());
    run.each_went_by_its_ttl(&in_the_end);
    let waited =
        run.log_events("disrupting").iter().map(|line| line["disrupted_node_count"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(waited, run.number("launched"));
    assert_eq!(run.report["pods"]["total"], 0);
}

#[test]
fn deleted_deployment_leaves_only_nodes_there_beforehand() {
    let run = play_kept("ttl-deployment-deleted", &[]);
    run.all_gone();
    assert_eq!(run.report["nodes"].as_array().unwrap().len(), 1);
    let claims = run.claims();
    let ours = run.emptied(600.0).into_iter().filter(|(node, _)| claims.contains_key(node)).collect();
    run.each_went_by_its_ttl(&ours);
}

#[test]
fn leader_killed_within_the_ttl_does_not_make_it_longer() {
    let run = play_kept("ttl-leader-killed", &[]);
    run.all_gone();
    assert_eq!(run.log_events("elected").len(), 2);
    let emptied = run.emptied(600.0);
    run.each_went_by_its_ttl(&emptied);
    let added = run.log_events("ttl_added");
    assert_eq!(added.len(), emptied.len(), "the successor does not begin anew");
    assert!(run.log_events("ttl_reached").iter().all(|line| line["replica"] != added[0]["replica"]));
}

#[test]
fn pods_that_come_back_take_the_ttl_away() {
    let run = play_kept("ttl-taken-away", &[]);
    run.all_gone();
    assert!(!run.log_events("ttl_removed").is_empty());
    assert_eq!(run.removed().values().filter(|t| **t < 480.0).count(), 0);
    run.each_went_by_its_ttl(&run.emptied(720.0));
}

#[test]
fn empty_nodes_go_a_tenth_at_a_time() {
    let run = play_kept("budget-steps", &[]);
    run.all_gone();
    assert_eq!(run.number("launched"), 12);
    let removed = run.removed();
    let first = removed.values().copied().fold(f64::MAX, f64::min);
    assert!((310.0..325.0).contains(&first), "the first went at {first}");
    // A tenth of twelve is two, of what is left then one; each step has its own validation.
    let steps = run.log_events("disrupting");
    let counts: Vec<_> = steps.iter().map(|line| line["disrupted_node_count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    assert!(steps.windows(2).all(|pair| at(pair[1]) - at(pair[0]) >= 5.0));
    // A step is over when the instances of its nodes are on their way out.
    let ending: Vec<f64> = run.seen("instance", &[("change", "shutting-down")]).into_iter().map(at).collect();
    let mut asked = 0;
    for step in &steps {
        let under_way = asked - ending.iter().filter(|t| **t < at(step)).count();
        assert_eq!(under_way, 0, "at {}", at(step));
        asked += usize::try_from(step["disrupted_node_count"].as_u64().unwrap()).unwrap();
    }
}

#[test]
fn a_budget_of_none_keeps_every_node_and_says_so() {
    let run = play_kept("budget-none", &[]);
    assert_eq!((run.report["nodes"].as_array().unwrap().len(), run.number("terminated")), (12, 0));
    let told = run.log_events("budget_blocked");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((&told[0]["node_pool"], &told[0]["reason"]), (&"large".into(), &"Empty".into()));
}

#[test]
fn a_budget_with_a_schedule_holds_for_its_time() {
    let run = play_kept("budget-nightly", &[]);
    run.all_gone();
    let first = run.removed().values().copied().fold(f64::MAX, f64::min);
    assert!((605.0..620.0).contains(&first), "the first went at {first}");
}

#[test]
fn nothing_goes_before_consolidate_after_and_the_validation() {
    let run = play_kept("consolidate-after", &[]);
    run.all_gone();
    let (claims, removed) = (run.claims(), run.removed());
    for (node, emptied) in run.emptied(720.0) {
        let waited = removed[&claims[&node]] - emptied;
        assert!((124.0..=128.0).contains(&waited), "{node} went {waited} s after its last pod");
    }
}

#[test]
fn a_node_goes_when_its_time_is_over_and_its_pods_get_another() {
    let run = play_kept("expiry", &[]);
    assert_eq!(run.report["pods"]["bound"], 12);
    let removed = run.removed();
    assert!(removed.len() >= 12);
    let created: BTreeMap<&str, f64> = run
        .seen("api", &[("resource", "nodeclaims"), ("verb", "create")])
        .into_iter()
        .map(|event| (event["name"].as_str().unwrap(), at(event)))
        .collect();
    for (claim, t) in &removed {
        let age = t - created[claim.as_str()];
        assert!((300.0..=300.0 + 1800.0).contains(&age), "{claim} went at the age of {age} s");
    }
    let at_once = removed.iter().filter(|(claim, t)| *t - created[claim.as_str()] < 302.0).count();
    assert!(at_once >= 10, "only {at_once} went in time");
    assert!(run.log_events("disrupting").iter().all(|line| line["reason"] == "expired"));
    let (missed, evicted) =
        (run.report["downtime"]["podSeconds"].as_f64().unwrap(), run.report["downtime"]["evicted"].as_f64().unwrap());
    assert!(evicted >= 12.0 && missed <= 4.0 * evicted, "{evicted} pods were missed for {missed} s together");
    assert!(!run.log_events("awaiting_places").is_empty() && run.log_events("places_given_up").is_empty());
}

#[test]
fn observed_pool_keeps_every_node_and_says_what_would_be_done() {
    let run = play_kept("observe", &[]);
    assert_eq!((run.report["nodes"].as_array().unwrap().len(), run.number("terminated")), (12, 0));
    assert_eq!(run.removed().len(), 0);
    let nodes = |reason: &str| -> u64 {
        let told = run.log_events("would_disrupt").into_iter().filter(|line| line["reason"] == reason);
        told.map(|line| line["nodes"].as_u64().unwrap()).sum()
    };
    assert_eq!((nodes("empty"), nodes("expired")), (12, 12));
}
