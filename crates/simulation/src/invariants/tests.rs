//! Every invariant is seen to fail, each for its own reason, on events that are made by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod commands;
mod futile;
mod index;
mod replicas;
mod reserved;
mod rules;
mod unused;

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::world::Action;

const END: f64 = 1200.0;

/// A run that is told by hand: two pods, one claim, one instance, a leader that renews its Lease every five seconds.
struct Run {
    entries: Vec<ActionEntry>,
    end: End,
}

impl Run {
    fn new() -> Self {
        let mut run = Self::without_leader();
        run.leads(0, 1, 0.0, END);
        run
    }

    fn without_leader() -> Self {
        let i_1 =
            Living { id: "i-1".into(), provider_id: provider("i-1"), token: Some("tok-1".into()), beforehand: false };
        let end = End {
            t: END,
            alive: vec![i_1],
            foreign: BTreeSet::new(),
            claimed: vec![(provider("i-1"), "n1".into())],
            awaited: BTreeSet::new(),
            renew_deadline: 10.0,
        };
        let mut run = Self { entries: Vec::new(), end };
        let limits = json!({"cpu": "4", "nodes": "3"});
        run.world(
            0.0,
            "rules",
            json!({"resource": "nodepools", "name": "default", "limits": limits, "budgets": [{"nodes": "1"}]}),
        );
        run.world(
            0.0,
            "rules",
            json!({"resource": "poddisruptionbudgets", "namespace": "default", "name": "web",
            "minAvailable": 1, "covers": ["Deployment/web"]}),
        );
        run.pods(1.0, &["p1", "p2"]);
        run.claim(2.0, "1", "default", 2);
        run.launched(3.0, "1", "1");
        run.serves(30.0, "1");
        for pod in ["p1", "p2"] {
            run.pod(33.0, "bound", pod);
            run.pod(34.0, "ready", pod);
        }
        run
    }

    fn add(&mut self, t: f64, replica: Option<u32>, kind: &str, fields: Value) {
        let Value::Object(fields) = fields else { panic!("no object") };
        let (micros, fields) = ((t * 1e6).round() as u64, fields.into_iter().collect());
        self.entries.push(ActionEntry { micros, replica, term: None, kind: kind.into(), by: String::new(), fields });
    }

    fn world(&mut self, t: f64, kind: &str, fields: Value) {
        self.add(t, None, kind, fields);
    }

    fn step(&mut self, t: f64, action: &Action) {
        self.world(t, "step", json!({"action": action}));
    }

    fn lease(&mut self, t: f64, replica: u32, term: u64, holder: &str) {
        let spec = json!({"leaseTransitions": term, "holderIdentity": holder});
        self.add(
            t,
            Some(replica),
            "api",
            json!({"verb": "patch", "resource": "leases", "code": 200, "asked": t, "sent": {"spec": spec}}),
        );
    }

    fn leads(&mut self, replica: u32, term: u64, from: f64, to: f64) {
        let mut t = from;
        while t <= to {
            self.lease(t, replica, term, &format!("r{replica}"));
            t += 5.0;
        }
    }

    fn pods(&mut self, t: f64, names: &[&str]) {
        for name in names {
            let requests = json!([{"cpu": "1", "memory": "1Gi"}]);
            self.world(
                t,
                "pod",
                json!({"change": "created", "namespace": "default", "name": name, "uid": name,
                "owner": "Deployment/web", "requests": requests}),
            );
        }
    }

    fn pod(&mut self, t: f64, change: &str, name: &str) {
        self.world(
            t,
            "pod",
            json!({"change": change, "namespace": "default", "name": name, "uid": name, "node": "node-1"}),
        );
    }

    fn api(&mut self, t: f64, verb: &str, id: &str, claim: Value, sent: Value) {
        self.add(
            t,
            Some(0),
            "api",
            json!({"verb": verb, "resource": "nodeclaims", "name": format!("n{id}"),
            "uid": format!("c{id}"), "code": 200, "claim": claim, "sent": sent}),
        );
    }

    /// Claim `cN`, launch token `tok-N`.
    fn claim(&mut self, t: f64, id: &str, pool: &str, pods: u32) {
        self.claim_under(t, id, pool, pods, "1");
    }

    fn claim_under(&mut self, t: f64, id: &str, pool: &str, pods: u32, term: &str) {
        let requests = json!({"cpu": pods.to_string(), "memory": format!("{pods}Gi"), "pods": pods.to_string()});
        let written = |token: Value| json!({"nodePool": pool, "requests": requests, "term": term, "token": token, "providerID": null});
        self.api(t, "create", id, written(Value::Null), json!({"spec": {"expireAfter": "Never"}}));
        self.api(t + 0.1, "patch", id, written(json!(format!("tok-{id}"))), json!({}));
    }

    /// Instance `i-N` of a claim that has this token.
    fn instance(&mut self, t: f64, change: &str, id: &str, token: &str) {
        let reason = if change == "shutting-down" { "Client.UserInitiatedShutdown" } else { "" };
        self.world(
            t,
            "instance",
            json!({"change": change, "id": format!("i-{id}"), "token": format!("tok-{token}"), "reason": reason}),
        );
    }

    fn sent(&mut self, t: f64, replica: u32, term: i64) {
        self.add(
            t,
            Some(replica),
            "aws",
            json!({"action": "CreateFleet", "code": "OK", "result": {"sent": {"t": t, "term": term}}}),
        );
    }

    /// Claim `cN` of the pool that the world knows has instance `i-M`, of two CPUs.
    fn launched(&mut self, t: f64, id: &str, instance: &str) {
        self.sent(t, 0, 1);
        self.instance(t, "pending", instance, id);
        self.status(t + 1.0, id, instance, "2");
    }

    fn status(&mut self, t: f64, id: &str, instance: &str, cpu: &str) {
        let claim = json!({"nodePool": "default", "requests": {"cpu": "2", "memory": "2Gi", "pods": "2"}, "term": "1",
            "token": format!("tok-{id}"), "providerID": provider(&format!("i-{instance}"))});
        self.api(t, "patch", id, claim, json!({"status": {"capacity": {"cpu": cpu, "memory": "4Gi"}}}));
    }

    /// The Node of claim `cN` and instance `i-N` works.
    fn serves(&mut self, t: f64, id: &str) {
        let (name, instance) = (format!("node-{id}"), format!("i-{id}"));
        self.world(t, "node", json!({"change": "joined", "name": name, "instance": instance}));
        self.world(t + 1.0, "node", json!({"change": "ready", "name": name}));
        let claim = json!({"nodePool": "default", "requests": {"cpu": "2", "memory": "2Gi", "pods": "2"}, "term": "1",
            "token": format!("tok-{id}"), "providerID": provider(&instance)});
        self.api(
            t + 2.0,
            "patch",
            id,
            claim,
            json!({"status": {"conditions": [{"type": "Initialized", "status": "True"}]}}),
        );
    }

    fn gone(&mut self, t: f64, id: &str) {
        self.api(t, "patch", id, Value::Null, json!({}));
    }

    fn on_pod(&mut self, t: f64, verb: &str, subresource: Value, name: &str) {
        self.add(
            t,
            Some(0),
            "api",
            json!({"verb": verb, "resource": "pods", "subresource": subresource, "namespace": "default",
            "name": name, "uid": name, "code": 201}),
        );
    }

    /// The ids of the violated invariants.
    fn violated(mut self) -> BTreeSet<&'static str> {
        self.entries.sort_by_key(|entry| entry.micros);
        self.violated_as_it_stands()
    }

    fn violated_as_it_stands(self) -> BTreeSet<&'static str> {
        judge(&self.entries, &self.end).violations.into_iter().map(|one| one.id).collect()
    }
}

fn provider(id: &str) -> String {
    format!("aws:///us-east-1a/{id}")
}

#[track_caller]
fn assert_only(id: &str, emit: impl FnOnce(&mut Run)) {
    let mut run = Run::new();
    emit(&mut run);
    assert_eq!(run.violated(), BTreeSet::from([id]));
}

#[track_caller]
fn assert_none(emit: impl FnOnce(&mut Run)) {
    let mut run = Run::new();
    emit(&mut run);
    assert_eq!(run.violated(), BTreeSet::new());
}

#[test]
fn a_run_in_which_all_is_well_violates_nothing() {
    assert_none(|_| ());
}

#[test]
fn two_instances_of_a_token_or_claims_of_an_instance_are_inv_1() {
    assert_only("INV-1", |run| {
        run.end.alive.push(Living {
            id: "i-9".into(),
            provider_id: provider("i-9"),
            token: Some("tok-1".into()),
            beforehand: false,
        });
        run.end.claimed.push((provider("i-9"), "n9".into()));
    });
    assert_only("INV-1", |run| run.end.claimed.push((provider("i-1"), "n2".into())));
}

#[test]
fn a_launch_of_an_older_term_is_inv_2() {
    let mut run = Run::without_leader();
    run.leads(0, 1, 0.0, 95.0);
    run.leads(1, 2, 100.0, END);
    run.sent(101.0, 1, 2);
    run.sent(102.0, 0, 1);
    assert_eq!(run.violated(), BTreeSet::from(["INV-2"]));
}

#[test]
fn an_instance_that_no_claim_knows_at_the_end_is_inv_3() {
    assert_only("INV-3", |run| {
        run.end.alive.push(Living { id: "i-9".into(), provider_id: provider("i-9"), token: None, beforehand: false });
    });
}

/// Its claim is gone at 200 s.
fn orphan(run: &mut Run, to: f64) {
    run.pods(99.0, &["p9"]);
    run.claim(100.0, "9", "free", 1);
    run.sent(101.0, 0, 1);
    run.instance(101.0, "pending", "9", "9");
    run.gone(200.0, "9");
    run.instance(to, "shutting-down", "9", "9");
}

#[test]
fn instance_long_without_a_claim_is_inv_3_even_if_gone_later() {
    assert_only("INV-3", |run| orphan(run, 1100.0));
    assert_none(|run| orphan(run, 700.0));
}

#[test]
fn orphan_that_nobody_can_collect_is_not_inv_3() {
    assert_none(|run| {
        orphan(run, 1100.0);
        run.step(300.0, &Action::EmptyLists { duration: Some(Duration::from_secs(300)) });
    });
    assert_none(|run| {
        orphan(run, 1100.0);
        run.world(400.0, "story", json!({"event": "collection_braked", "reason": "claims_lost"}));
    });
    assert_only("INV-3", |run| {
        orphan(run, 1190.0);
        run.world(300.0, "story", json!({"event": "collection_braked", "reason": "claims_lost"}));
        run.step(400.0, &Action::AllowCollection { duration: Duration::from_secs(1800) });
    });
}

#[test]
fn pod_bound_again_is_inv_4_unless_a_restore_lost_its_binding() {
    assert_only("INV-4", |run| run.pod(50.0, "bound", "p1"));
    assert_none(|run| {
        run.step(49.0, &Action::Restore { of: Duration::from_secs(20), duration: Duration::from_secs(5) });
        run.pod(50.0, "bound", "p1");
    });
}

#[test]
fn an_entry_that_stands_too_late_is_inv_5() {
    let mut run = Run::new();
    run.entries.sort_by_key(|entry| entry.micros);
    run.world(40.0, "fault", json!({}));
    assert_eq!(run.violated_as_it_stands(), BTreeSet::from(["INV-5"]));
}

#[test]
fn what_another_cluster_made_and_we_end_is_inv_6() {
    assert_only("INV-6", |run| {
        run.end.foreign.insert("i-f".into());
        run.add(
            50.0,
            Some(0),
            "aws",
            json!({"action": "TerminateInstances", "code": "OK", "result": {"instances": ["i-f"]}}),
        );
    });
}

#[test]
fn a_claim_with_two_instances_for_long_is_inv_7() {
    assert_only("INV-7", |run| {
        // The second is some other claim's: nobody ends it.
        run.pods(19.0, &["p3"]);
        run.claim(19.0, "2", "free", 1);
        run.api(
            20.0,
            "patch",
            "1",
            json!({"nodePool": "default", "term": "1", "token": "tok-1b", "providerID": provider("i-1")}),
            json!({}),
        );
        run.sent(21.0, 0, 1);
        run.instance(21.0, "pending", "2", "1b");
        run.status(22.0, "2", "2", "2");
    });
}

#[test]
fn a_launch_after_the_deadline_is_inv_8() {
    let mut run = Run::without_leader();
    run.leads(0, 1, 0.0, 100.0);
    run.sent(115.0, 0, 1);
    run.leads(0, 1, 116.0, END);
    assert_eq!(run.violated(), BTreeSet::from(["INV-8"]));
}

#[test]
fn launch_on_unheard_or_released_lease_is_inv_8() {
    for (lost, holder) in [(true, "r0"), (false, "")] {
        let mut run = Run::without_leader();
        run.leads(0, 1, 0.0, 100.0);
        run.lease(110.0, 0, 1, holder);
        if lost {
            run.entries.last_mut().unwrap().fields.push(("answerLost".into(), json!(true)));
        }
        run.sent(112.0, 0, 1);
        run.leads(0, 1, 116.0, END);
        assert_eq!(run.violated(), BTreeSet::from(["INV-8"]), "{holder:?}");
    }
}

#[test]
fn a_deadline_counts_from_when_the_renewal_was_asked_for() {
    let mut run = Run::without_leader();
    run.leads(0, 1, 0.0, 100.0);
    run.lease(112.0, 0, 1, "r0");
    run.entries.last_mut().unwrap().fields.retain(|(name, _)| name != "asked");
    run.entries.last_mut().unwrap().fields.push(("asked".into(), json!(102.0)));
    run.sent(113.0, 0, 1);
    run.leads(0, 1, 116.0, END);
    assert_eq!(run.violated(), BTreeSet::from(["INV-8"]));
}

#[test]
fn a_claim_that_is_created_under_an_older_term_is_inv_9() {
    let mut run = Run::without_leader();
    run.leads(0, 1, 0.0, 95.0);
    run.leads(1, 2, 100.0, END);
    run.pods(100.0, &["p9"]);
    run.claim_under(101.0, "9", "free", 1, "1");
    assert_eq!(run.violated(), BTreeSet::from(["INV-9"]));
}

#[test]
fn lease_gone_or_restored_refuses_nothing_until_written() {
    let claimed_at = |at: f64, verb: &str, sent: Value| {
        let mut run = Run::without_leader();
        run.leads(0, 1, 0.0, 95.0);
        run.leads(1, 2, 100.0, 200.0);
        run.world(203.0, "api", json!({"verb": verb, "resource": "leases", "code": 200, "sent": sent}));
        run.lease(210.0, 1, 3, "r1");
        run.leads(1, 3, 215.0, END);
        run.pods(100.0, &["p9"]);
        run.claim_under(at, "9", "free", 1, "1");
        run.violated()
    };
    let of_term = |term: u64| json!({"spec": {"leaseTransitions": term, "holderIdentity": "r0"}});
    assert_eq!(claimed_at(205.0, "lose", Value::Null), BTreeSet::new());
    assert_eq!(claimed_at(205.0, "restore", of_term(1)), BTreeSet::new());
    assert_eq!(claimed_at(205.0, "restore", of_term(2)), BTreeSet::from(["INV-9"]));
    for at in [202.0, 211.0] {
        assert_eq!(claimed_at(at, "lose", Value::Null), BTreeSet::from(["INV-9"]), "{at}");
    }
    let deleted = |run: &mut Run, kind: &str| {
        let (namespace, name) = ("kube-system".to_owned(), "karpenter-leader-election".to_owned());
        run.step(203.0, &Action::Delete { kind: kind.to_owned(), namespace, name });
    };
    for (kind, violated) in [("Lease", BTreeSet::new()), ("Service", BTreeSet::from(["INV-9"]))] {
        let mut run = Run::without_leader();
        run.leads(0, 1, 0.0, 95.0);
        run.leads(1, 2, 100.0, 200.0);
        deleted(&mut run, kind);
        run.leads(1, 3, 210.0, END);
        run.pods(100.0, &["p9"]);
        run.claim_under(205.0, "9", "free", 1, "1");
        assert_eq!(run.violated(), violated, "{kind}");
    }
}

#[test]
fn two_holders_of_a_term_are_inv_10() {
    assert_only("INV-10", |run| run.lease(50.0, 1, 1, "r1"));
}

#[test]
fn unheard_earlier_write_of_a_restored_lease_begins_no_term() {
    let written = |writes: &[(u64, &str, f64, bool)]| {
        let mut run = Run::without_leader();
        run.leads(0, 1, 0.0, 95.0);
        run.leads(1, 2, 100.0, 200.0);
        let spec = json!({"leaseTransitions": 1, "holderIdentity": "r0"});
        run.world(203.0, "api", json!({"verb": "restore", "resource": "leases", "code": 200, "sent": {"spec": spec}}));
        for (at, (term, who, asked, lost)) in (204_u32..).zip(writes) {
            let spec = json!({"leaseTransitions": term, "holderIdentity": who});
            let fields = json!({"verb": "patch", "resource": "leases", "code": 200, "asked": asked, "answerLost": lost,
                "sent": {"spec": spec}});
            run.add(f64::from(at), Some(0), "api", fields);
        }
        run.leads(1, 3, 215.0, END);
        run.violated()
    };
    assert_eq!(written(&[(1, "r0", 190.0, true)]), BTreeSet::new());
    assert_eq!(written(&[(2, "r0", 190.0, true)]), BTreeSet::new(), "it was to be taken");
    for writes in [
        &[(1, "r0", 190.0, false)][..],
        &[(1, "r0", 203.5, true)],
        &[(1, "r0", 190.0, true), (1, "r0", 190.0, true)],
        &[(0, "", 190.0, true), (1, "r0", 190.0, true)],
        &[(2, "r1", 203.5, false), (1, "r0", 190.0, true)],
    ] {
        assert_eq!(written(writes), BTreeSet::from(["INV-10"]), "{writes:?}");
    }
}

#[test]
fn an_instance_whose_token_no_claim_had_is_inv_11() {
    assert_only("INV-11", |run| {
        run.instance(50.0, "pending", "9", "of-nobody");
        run.instance(80.0, "shutting-down", "9", "of-nobody");
    });
}

/// A second instance of the claim at 100 s, gone soon.
fn again(run: &mut Run) {
    run.api(
        99.0,
        "patch",
        "1",
        json!({"nodePool": "default", "term": "1", "token": "tok-1b", "providerID": provider("i-1")}),
        json!({}),
    );
    run.instance(100.0, "pending", "2", "1b");
    run.instance(105.0, "shutting-down", "2", "1b");
}

#[test]
fn second_instance_for_a_claim_with_findable_one_is_inv_12() {
    assert_only("INV-12", again);
    assert_none(|run| {
        again(run);
        run.step(20.0, &Action::EmptyLists { duration: Some(Duration::from_secs(60)) });
    });
    let mut later = again_at_600();
    later.step(20.0, &Action::EmptyLists { duration: Some(Duration::from_secs(60)) });
    assert_eq!(later.violated(), BTreeSet::from(["INV-12"]), "long after lists were empty");
}

fn again_at_600() -> Run {
    let mut run = Run::new();
    run.api(
        599.0,
        "patch",
        "1",
        json!({"nodePool": "default", "term": "1", "token": "tok-1b", "providerID": provider("i-1")}),
        json!({}),
    );
    run.instance(600.0, "pending", "2", "1b");
    run.instance(605.0, "shutting-down", "2", "1b");
    run
}

/// So many instances whose claims are gone at 300 s are ended at 500 s.
fn collected(run: &mut Run, count: usize) {
    let ids: Vec<String> = (10..10 + count).map(|number| number.to_string()).collect();
    for id in &ids {
        run.pods(49.0, &[&format!("p{id}")]);
        run.claim(50.0, id, "free", 1);
        run.instance(51.0, "pending", id, id);
        run.gone(300.0, id);
        run.instance(500.0, "shutting-down", id, id);
    }
}

#[test]
fn over_five_collected_in_ten_minutes_unreleased_are_inv_13() {
    assert_none(|run| collected(run, 5));
    assert_only("INV-13", |run| collected(run, 6));
    let released = |at: f64| {
        move |run: &mut Run| {
            run.step(at, &Action::AllowCollection { duration: Duration::from_secs(200) });
            collected(run, 6);
        }
    };
    assert_none(released(400.0));
    assert_only("INV-13", released(100.0));
}
