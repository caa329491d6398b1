//! Replacement of drifted nodes.

use super::drift::Drifting;
use super::*;

/// Nodes with a pod each that have drifted, and are known to.
fn drifted(disruption: Value, names: &[&str]) -> Drifting {
    let mut all = Drifting::new(disruption);
    for name in names {
        all.node(name, |_| ());
        all.world.pod(&format!("pod-{name}"), name, |_| ());
    }
    all.change_pool(|pool| pool["spec"]["template"]["metadata"] = json!({"labels": {"release": "two"}}));
    all.look(1.0);
    all
}

fn begun(decision: &DisruptionDecision) -> Vec<&str> {
    decision.drift.begin.iter().map(|disrupted| disrupted.node.as_str()).collect()
}

impl Drifting {
    /// A look whose orders are carried out: nodes are marked and unmarked.
    fn act(&mut self, seconds: f64) -> DisruptionDecision {
        let decision = self.look(seconds);
        let begin: Vec<String> = decision.drift.begin.iter().map(|disrupted| disrupted.claim.clone()).collect();
        let stay: Vec<String> = decision.drift.stay.iter().map(|one| one.disrupted.claim.clone()).collect();
        self.world.state.mark_deleting(begin.iter().map(String::as_str), true);
        self.world.state.mark_deleting(stay.iter().map(String::as_str), false);
        decision
    }

    /// Every pod of a node gets a place on another.
    fn place(&mut self, node: &str, other: &str) {
        let until = Duration::from_secs_f64(self.world.seconds + 1000.0);
        let uids: Vec<String> = self.world.state.snapshot().loads[node].pods.keys().cloned().collect();
        for uid in uids {
            self.world.state.nominate([uid.as_str()], &NominationTarget::Node(other.to_owned()), until);
        }
    }

    fn free(&mut self, name: &str) {
        self.node(name, |_| ());
    }
}

#[test]
fn a_node_goes_when_its_pods_have_places_and_no_sooner() {
    let mut all = drifted(json!({"consolidateAfter": "Never"}), &["a"]);
    all.free("free");
    assert_eq!(begun(&all.act(2.0)), ["a"]);
    assert_eq!(gone(&all.act(3.0)), [""; 0]);
    all.place("a", "free");
    let decision = all.act(4.0);
    assert_eq!((gone(&decision), decision.removals[0].cause), (vec!["a"], DisruptionCause::Drifted));
    assert_eq!(gone(&all.act(5.0)), [""; 0], "asked once");
}

#[test]
fn budgets_for_drifted_bound_how_many_are_being_replaced() {
    let names = ["a", "b", "c", "d", "e"];
    let mut all = drifted(
        json!({"consolidateAfter": "Never", "budgets": [{"nodes": "40%"}, {"nodes": "0", "reasons": ["Empty"]}]}),
        &names,
    );
    assert_eq!(begun(&all.act(2.0)), ["a", "b"]);
    assert_eq!(begun(&all.act(3.0)), [""; 0]);
    let mut none =
        drifted(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0", "reasons": ["Drifted"]}]}), &names);
    let decision = none.act(2.0);
    assert_eq!((begun(&decision), decision.exhausted.len(), decision.exhausted[0].nodes), (vec![], 1, 5));
    assert!(!none.act(3.0).exhausted[0].news, "it is news once");
}

#[test]
fn without_a_limit_a_tenth_or_ten_nodes_are_replaced_at_a_time() {
    let names: Vec<String> = (0..30).map(|n| format!("n{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut all = drifted(json!({"consolidateAfter": "Never", "budgets": []}), &names);
    assert_eq!(begun(&all.act(2.0)).len(), 10);
    let names: Vec<String> = (0..120).map(|n| format!("n{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut all = drifted(json!({"consolidateAfter": "Never", "budgets": []}), &names);
    assert_eq!(begun(&all.act(2.0)).len(), 12);
}

#[test]
fn node_with_ready_places_waits_ten_minutes_for_the_budget() {
    let mut all = drifted(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]}), &["a", "b"]);
    all.free("free");
    assert_eq!(begun(&all.act(2.0)), ["a"]);
    all.place("a", "free");
    // Another is unwell: it takes the budget.
    all.world.machine("b", |_, node| node["status"]["conditions"][0]["status"] = json!("False"));
    for seconds in [3.0, 300.0, 600.0] {
        all.place("a", "free");
        let decision = all.act(seconds);
        assert_eq!((gone(&decision), decision.drift.stay.len()), (vec![], 0), "{seconds}");
        assert!(decision.again.is_some_and(|again| again > at(seconds)), "{seconds}");
    }
    all.place("a", "free");
    let decision = all.act(603.0);
    assert_eq!((gone(&decision), decision.drift.stay.len()), (vec![], 1));
    assert_eq!(decision.drift.stay[0].pause, None, "no replacement has failed");
}

#[test]
fn nodes_without_pods_go_first_and_at_once() {
    let mut all = Drifting::new(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "1"}]}));
    for name in ["a", "b"] {
        all.node(name, |_| ());
    }
    all.world.pod("p", "a", |_| ());
    all.change_pool(|pool| pool["spec"]["template"]["metadata"] = json!({"labels": {"release": "two"}}));
    all.act(1.0);
    let decision = all.act(2.0);
    assert_eq!((gone(&decision), begun(&decision)), (vec!["b"], vec![]));
}

#[test]
fn node_without_places_for_its_pods_stays_and_pool_waits_longer() {
    let mut all = drifted(json!({"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}), &["a", "b"]);
    assert_eq!(begun(&all.act(2.0)).len(), 2);
    all.act(3.0);
    assert_eq!(all.act(31.0).drift.stay, []);
    let stay = all.act(33.0).drift.stay;
    assert_eq!(stay.len(), 2);
    assert!(stay[0].why.contains("no place for pod default/pod-a"), "{}", stay[0].why);
    assert_eq!((stay[0].pause, stay[1].pause), (Some(120), Some(120)));
    assert!(!all.world.state.snapshot().deleting.claims.contains("claim-a"), "it is not marked any more");
    for seconds in [40.0, 100.0, 152.0] {
        assert_eq!(begun(&all.act(seconds)), [""; 0], "{seconds}");
    }
    assert_eq!(begun(&all.act(154.0)).len(), 1, "then one at a time");
    assert_eq!(begun(&all.act(155.0)), [""; 0]);
    assert_eq!(all.act(185.0).drift.stay[0].pause, Some(240));
}

#[test]
fn a_place_that_is_on_its_way_is_waited_for_ten_minutes() {
    let mut all = drifted(json!({"consolidateAfter": "Never"}), &["a"]);
    all.node("coming", |claim| claim["status"]["conditions"] = json!([]));
    all.act(2.0);
    let target = NominationTarget::Claim("claim-coming".into());
    for seconds in [3.0, 60.0, 300.0, 590.0] {
        all.world.state.nominate(["uid-pod-a"], &target, Duration::from_secs_f64(seconds + 1000.0));
        assert_eq!(all.act(seconds).drift.stay, [], "{seconds}");
    }
    assert_eq!(all.act(603.0).drift.stay.len(), 1);
}

#[test]
fn what_holds_a_node_keeps_it_and_a_grace_period_bounds_that() {
    let hold = |pod: &mut Value| pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true");
    for (grace, ready, goes) in
        [(json!(null), "True", false), (json!("1h"), "True", true), (json!("1h"), "False", false)]
    {
        let mut all = Drifting::new(json!({"consolidateAfter": "Never"}));
        all.change_pool(|pool| {
            pool["status"] = json!({"conditions": [{"type": "Ready", "status": ready, "reason": "Ready", "message": "",
                "lastTransitionTime": at(0.0)}]});
        });
        all.node("a", |claim| claim["spec"]["terminationGracePeriod"] = grace.clone());
        all.world.pod("held", "a", hold);
        all.change_class(|class| class["spec"]["tags"]["release"] = json!("two"));
        all.act(1.0);
        let decision = all.act(2.0);
        assert_eq!(begun(&decision).len(), usize::from(!grace.is_null()), "{grace}");
        assert_eq!(decision.blocked.len(), usize::from(grace.is_null()));
        let decision = all.act(3.0);
        assert_eq!(
            gone(&decision).len(),
            usize::from(goes),
            "no place is made for a pod that may stay for now, but one has to be there: {:?}",
            decision.drift.stay
        );
    }
}

#[test]
fn drifted_nodes_of_a_shifted_zone_stay_whatever_bounds_them() {
    for grace in [json!(null), json!("1h")] {
        let mut all = Drifting::new(json!({"consolidateAfter": "Never"}));
        all.node("a", |claim| claim["spec"]["terminationGracePeriod"] = grace.clone());
        all.world.pod("pod-a", "a", |_| ());
        all.change_class(|class| class["spec"]["tags"]["release"] = json!("two"));
        all.world.state.shift_zones(shifted("a"));
        all.act(1.0);
        let decision = all.act(2.0);
        assert_eq!((begun(&decision).len(), decision.blocked.len()), (0, 1), "{grace}");
        assert!(decision.blocked[0].why.contains("shifted away from zone a"), "{}", decision.blocked[0].why);
        all.world.state.shift_zones(ShiftedZones::default());
        assert_eq!(begun(&all.act(3.0)).len(), 1, "{grace}");
    }
}

#[test]
fn what_changes_back_meanwhile_stays_without_a_pause() {
    let mut all = drifted(json!({"consolidateAfter": "Never"}), &["a"]);
    all.act(2.0);
    all.change_pool(|pool| drop(pool["spec"]["template"].as_object_mut().unwrap().remove("metadata")));
    all.act(3.0);
    let stay = all.act(4.0).drift.stay;
    assert_eq!((stay.len(), stay[0].pause), (1, None));
    let mut all = drifted(json!({"consolidateAfter": "Never"}), &["a"]);
    all.free("free");
    all.act(2.0);
    all.place("a", "free");
    all.change_pool(|pool| {
        pool["spec"]["disruption"] = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]})
    });
    let decision = all.act(3.0);
    assert_eq!((gone(&decision), decision.drift.stay.len()), (vec![], 1), "its window has closed");
}

#[test]
fn a_pod_that_asks_to_be_left_alone_meanwhile_keeps_its_node() {
    let mut all = drifted(json!({"consolidateAfter": "Never"}), &["a"]);
    all.act(2.0);
    all.world.pod("pod-a", "a", |pod| pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true"));
    let decision = all.act(3.0);
    assert_eq!((gone(&decision), decision.drift.stay.len()), (vec![], 1));
    assert_eq!(begun(&all.act(4.0)), [""; 0]);
}

#[test]
fn observed_pool_names_nodes_that_would_go_and_begins_none() {
    let mut all = drifted(json!({"consolidateAfter": "Never"}), &["a"]);
    all.world.annotate("dovetail.dev/disruption", "observe");
    let decision = all.act(2.0);
    assert_eq!((begun(&decision), decision.observed.len()), (vec![], 1));
    assert_eq!(all.act(3.0).observed, []);
}

#[test]
fn nothing_is_replaced_while_its_class_could_not_launch_another() {
    let mut all = drifted(json!({"consolidateAfter": "Never"}), &["a"]);
    all.change_class(|class| class["status"]["conditions"][0]["status"] = json!("False"));
    assert_eq!(begun(&all.act(2.0)), [""; 0]);
    all.change_class(|class| class["status"]["conditions"][0]["status"] = json!("True"));
    assert_eq!(begun(&all.act(3.0)), ["a"]);
}

#[test]
fn a_successor_begins_anew_from_what_the_claims_say() {
    let mut all = drifted(json!({"consolidateAfter": "Never"}), &["a"]);
    all.act(2.0);
    all.world.memory = Memory::new();
    all.world.state.mark_deleting(["claim-a"], false);
    all.hear();
    assert_eq!(begun(&all.act(3.0)), ["a"]);
}
