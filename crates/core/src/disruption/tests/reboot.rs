//! Reboots of unwell nodes, look by look.

use std::collections::BTreeMap;

use dovetail_api::names::annotations::REBOOT_ISSUED;

use super::repair::REPAIRING;
use super::*;
use crate::disruption::drift::Gates;
use crate::disruption::emptiness::PoolNodeTotals;
use crate::disruption::machines::machines;
use crate::disruption::repair::{RebootEnd, RebootOrder, RebootStep, on_claim, on_node};

const GATES: Gates = Gates { reboot_for_repair: true, ..REPAIRING };
/// Time for which the condition is tolerated.
const DUE: f64 = 600.0;
const HUNG: &str = "NvidiaXID119Error";

/// Ten nodes whose accelerators hang sooner or later; what looks want of reboots is written.
struct Racks {
    world: World,
    nodes: BTreeMap<String, Node>,
}

impl Racks {
    /// With these budgets, and these nodes sick from the first second on.
    fn new(budgets: Value, sick: &[&str]) -> Self {
        let world = World::new(json!({"consolidateAfter": "Never", "budgets": budgets}));
        let mut racks = Self { world, nodes: BTreeMap::new() };
        racks.world.memory.set_gates(GATES);
        for number in 0..10 {
            let name = format!("n{number}");
            let mut own = Value::Null;
            racks.world.machine(&name, |_, node| {
                node["status"]["nodeInfo"] = json!({"bootID": "b-1", "architecture": "", "containerRuntimeVersion": "",
                    "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "",
                    "operatingSystem": "", "osImage": "", "systemUUID": ""});
                own = node.clone();
            });
            racks.nodes.insert(name, serde_json::from_value(own).unwrap());
        }
        racks.act(0.5);
        sick.iter().for_each(|name| racks.ails(name, Some(HUNG)));
        racks
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut node = serde_json::to_value(&self.nodes[name]).unwrap();
        change(&mut node);
        node["metadata"]["resourceVersion"] = json!(self.world.next().to_string());
        let node: Node = serde_json::from_value(node).unwrap();
        self.world.state.apply_node(&node);
        self.nodes.insert(name.to_owned(), node);
    }

    fn ails(&mut self, name: &str, reason: Option<&str>) {
        let ready = json!({"type": "Ready", "status": "True"});
        let hangs = reason.map(|reason| {
            json!({"type": "AcceleratedHardwareReady", "status": "False", "reason": reason, "lastTransitionTime": at(0.0)})
        });
        let all: Vec<Value> = std::iter::once(ready).chain(hangs).collect();
        self.change(name, |node| node["status"]["conditions"] = json!(all));
    }

    /// It is down, or up again with that boot ID.
    fn is_up(&mut self, name: &str, boot: Option<&str>) {
        let status = if boot.is_some() { "True" } else { "False" };
        self.change(name, |node| {
            node["status"]["conditions"][0]["status"] = json!(status);
            if let Some(boot) = boot {
                node["status"]["nodeInfo"]["bootID"] = json!(boot);
            }
        });
    }

    /// Its claim bounds how long pods may keep the node.
    fn bound(&mut self, name: &str, grace: &str) {
        let mut claim = serde_json::to_value(self.world.claim(name)).unwrap();
        claim["metadata"]["resourceVersion"] = json!(self.world.next().to_string());
        claim["spec"]["terminationGracePeriod"] = json!(grace);
        self.world.state.apply_claim(Arc::new(serde_json::from_value(claim).unwrap()));
    }

    /// The claim says that.
    fn says(&mut self, name: &str, (condition, status): (&str, &str), reason: &str, seconds: f64) {
        let mut claim = serde_json::to_value(self.world.claim(name)).unwrap();
        claim["metadata"]["resourceVersion"] = json!(self.world.next().to_string());
        claim["status"]["conditions"].as_array_mut().unwrap().push(json!({"type": condition, "status": status,
            "reason": reason, "message": "", "lastTransitionTime": at(seconds)}));
        self.world.state.apply_claim(Arc::new(serde_json::from_value(claim).unwrap()));
    }

    fn act(&mut self, seconds: f64) -> DisruptionDecision {
        let decision = self.world.look(seconds);
        for order in &decision.drift.reboots {
            let name = order.disrupted.node.clone();
            let mut claim = on_claim(order, &self.world.claim(&name), at(seconds));
            claim.metadata.resource_version = Some(self.world.next().to_string());
            self.world.state.apply_claim(Arc::new(claim));
            let node = on_node(order, &self.nodes[&name], at(seconds)).filter(|_| order.step.is_about_node());
            if let Some(node) = node {
                self.nodes.insert(name.clone(), node);
                self.change(&name, |_| ());
            }
        }
        decision
    }

    /// Looks until the reboot of `n1` has been noted, and EC2 is asked.
    fn until_called(&mut self) {
        // The drain lasts five seconds though nothing is to be drained.
        let steps: Vec<_> = [0.0, 1.0, 4.9, 5.0, 6.0].map(|after| steps(&self.act(DUE + after))).into();
        assert!(matches!(&steps[2][..], [("n1", RebootStep::Drain { .. })]), "{steps:?}");
        assert!(matches!(&steps[4][..], [("n1", RebootStep::Call)]), "{steps:?}");
    }
}

fn steps(decision: &DisruptionDecision) -> Vec<(&'static str, RebootStep)> {
    const NAMES: [&str; 10] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"];
    let named = |order: &RebootOrder| NAMES.into_iter().find(|name| *name == order.disrupted.node).unwrap();
    decision.drift.reboots.iter().map(|order| (named(order), order.step.clone())).collect()
}

fn requested(decision: &DisruptionDecision) -> Vec<&'static str> {
    let begins = |(_, step): &(&str, RebootStep)| matches!(step, RebootStep::Request { .. });
    steps(decision).into_iter().filter(begins).map(|(name, _)| name).collect()
}

fn end(end: RebootEnd) -> Vec<(&'static str, RebootStep)> {
    vec![("n1", RebootStep::End(end))]
}

fn exists(pod: &mut Value) {
    pod["spec"]["tolerations"] = json!([{"key": "karpenter.sh/rebooting", "operator": "Exists"}]);
}

#[test]
fn budgets_count_nodes_that_are_rebooted_until_they_are_back() {
    let mut racks = Racks::new(json!([{"nodes": "1"}]), &["n1", "n2"]);
    assert_eq!(requested(&racks.act(DUE)), ["n1"]);
    for seconds in [601.0, 602.0, 603.0, 700.0] {
        assert_eq!(requested(&racks.act(seconds)), [""; 0], "{seconds}");
    }
    let snapshot = racks.world.state.snapshot();
    let mut totals = PoolNodeTotals::default();
    let now = Moment { monotonic: Duration::from_secs(700), wall: at(700.0) };
    machines(&snapshot, now).iter().for_each(|machine| totals.count(machine, machine.deleting));
    assert_eq!((totals.nodes, totals.disrupting, totals.leaving), (10, 1, 1), "for every reason");
    racks.world.succeed(GATES);
    assert_eq!(requested(&racks.act(710.0)), [""; 0], "a later leader counts it too");
    racks.is_up("n1", None);
    let failed = racks.act(710.0 + 1200.0);
    assert_eq!(steps(&failed), end(RebootEnd::Failed));
    let decision = racks.act(1911.0);
    assert_eq!((gone(&decision), requested(&decision)), (vec!["n1"], vec![]), "until it is gone");
}

#[test]
fn what_many_share_is_rebooted_one_at_a_time() {
    let mut racks = Racks::new(json!([{"nodes": "100%"}]), &["n1", "n2", "n3", "n4"]);
    assert_eq!(requested(&racks.act(DUE)), ["n1"]);
    for seconds in [601.0, 602.0, 603.0, 700.0, 1100.0] {
        assert_eq!(requested(&racks.act(seconds)), [""; 0], "{seconds}");
    }
}

#[test]
fn a_node_is_rebooted_twice_a_day_and_not_after_a_failure() {
    let day = 24.0 * 3600.0;
    for (reason, again, seconds, may) in [
        ("RebootSucceeded", "False", DUE + DUE, true),
        ("RebootSucceeded", "True", DUE + day - 1.0, false),
        ("RebootSucceeded", "True", DUE + day, true),
        ("RebootFailed", "False", DUE + day, false),
    ] {
        let mut racks = Racks::new(json!([{"nodes": "1"}]), &["n1"]);
        racks.says("n1", ("Rebooting", "False"), reason, DUE);
        racks.says("n1", ("RebootedAgain", again), "RebootedAgain", 0.0);
        let decision = racks.act(seconds);
        let second = racks.world.state.snapshot().claims.values().any(|claim| claim.facts.rebooted_again);
        assert_eq!(second, may && seconds < DUE + day || !may && again == "True", "{reason} {seconds}");
        assert_eq!(requested(&decision).len(), usize::from(may), "{reason} {seconds}");
        assert_eq!(gone(&decision).len(), usize::from(!may), "{reason} {seconds}");
    }
    let mut unknown = Racks::new(json!([{"nodes": "1"}]), &["n1"]);
    unknown.change("n1", |node| node["status"]["nodeInfo"]["bootID"] = json!(""));
    assert_eq!(gone(&unknown.act(DUE)), ["n1"], "nothing would show that it has rebooted");
}

#[test]
fn the_drain_before_a_reboot_is_the_terminators() {
    let mut racks = Racks::new(json!([{"nodes": "1"}]), &["n1"]);
    racks.act(DUE);
    let created = |pod: &mut Value, seconds: f64| pod["metadata"]["creationTimestamp"] = json!(at(seconds));
    racks.world.pod("plain", "n1", |pod| created(pod, 0.0));
    racks.world.pod("stays", "n1", |pod| {
        created(pod, 0.0);
        pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true");
    });
    racks.world.pod("vital", "n1", |pod| {
        created(pod, 0.0);
        pod["spec"]["priorityClassName"] = json!("system-cluster-critical");
    });
    racks.world.pod("late", "n1", |pod| {
        created(pod, DUE + 2.0);
        exists(pod);
    });
    let evicts = |decision: &DisruptionDecision| match &steps(decision)[..] {
        [(_, RebootStep::Drain { evict })] => evict.iter().map(|pod| pod.pod.name.clone()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let decision = racks.act(DUE + 3.0);
    assert_eq!(evicts(&decision), ["plain"]);
    assert!(decision.blocked.iter().any(|one| one.why.contains("do-not-disrupt")), "{:?}", decision.blocked);
    racks.world.gone("plain");
    assert_eq!(evicts(&racks.act(DUE + 4.0)), [""; 0], "its group is not gone");
    racks.world.gone("stays");
    assert_eq!(evicts(&racks.act(DUE + 5.0)), ["vital"]);
    racks.world.gone("vital");
    assert_eq!(steps(&racks.act(DUE + 6.0)), [("n1", RebootStep::Note)], "the one that came late is not chased");
}

#[test]
fn a_drain_that_does_not_end_is_called_off_for_a_replacement() {
    let mut racks = Racks::new(json!([{"nodes": "1"}]), &["n1"]);
    racks.act(DUE);
    racks.world.pod("stays", "n1", |pod| {
        pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true");
    });
    assert!(matches!(steps(&racks.act(DUE + 599.0))[..], [(_, RebootStep::Drain { .. })]));
    assert_eq!(steps(&racks.act(DUE + 600.0)), end(RebootEnd::Undrained));
    assert!(racks.nodes["n1"].spec.as_ref().unwrap().taints.iter().flatten().next().is_none());
    racks.world.gone("stays");
    let decision = racks.act(DUE + 601.0);
    assert_eq!((gone(&decision), steps(&decision)), (vec!["n1"], vec![]));
}

#[test]
fn a_reboot_that_has_begun_is_carried_out_though_the_fault_goes() {
    let mut racks = Racks::new(json!([{"nodes": "1"}]), &["n1"]);
    racks.world.pod("stays", "n1", |pod| {
        pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true");
    });
    racks.bound("n1", "90s");
    racks.act(DUE);
    racks.ails("n1", None);
    assert!(matches!(steps(&racks.act(DUE + 89.0))[..], [(_, RebootStep::Drain { .. })]));
    assert_eq!(steps(&racks.act(DUE + 90.0)), [("n1", RebootStep::Note)], "the pod stays on it");
    assert_eq!(steps(&racks.act(DUE + 91.0)), [("n1", RebootStep::Call)]);
    racks.is_up("n1", Some("b-2"));
    assert_eq!(steps(&racks.act(DUE + 95.0)), end(RebootEnd::Succeeded));
}

#[test]
fn a_veto_calls_a_reboot_off_until_ec2_is_asked() {
    let mut racks = Racks::new(json!([{"nodes": "1"}]), &["n1"]);
    racks.act(DUE);
    racks.change("n1", |node| node["metadata"]["annotations"]["karpenter.sh/do-not-repair"] = json!("true"));
    assert_eq!(steps(&racks.act(DUE + 1.0)), end(RebootEnd::CalledOff));
    assert!(racks.nodes["n1"].spec.as_ref().unwrap().taints.iter().flatten().next().is_none());
}

#[test]
fn what_ec2_refuses_for_good_is_replaced() {
    let mut racks = Racks::new(json!([{"nodes": "1"}]), &["n1", "n2"]);
    racks.until_called();
    let called = racks.act(DUE + 7.0).drift.reboots;
    assert_eq!(called, [], "EC2 has taken it");
    // The same, but for the answer.
    let mut racks = Racks::new(json!([{"nodes": "2"}]), &["n1"]);
    let order = racks.act(DUE).drift.reboots.remove(0);
    assert_eq!(steps(&racks.act(DUE + 5.0)), [("n1", RebootStep::Note)]);
    racks.world.memory.refuse_reboot(&order.disrupted, true);
    assert_eq!(steps(&racks.act(DUE + 7.0)), end(RebootEnd::Refused));
    assert_eq!(gone(&racks.act(DUE + 8.0)), ["n1"]);
    racks.ails("n2", Some(HUNG));
    let decision = racks.act(DUE + 9.0);
    assert_eq!((gone(&decision), requested(&decision)), (vec!["n2"], vec![]), "none is rebooted in this term");
}

#[test]
fn a_reboot_that_failed_replaces_no_node_that_is_back() {
    for (case, boot, reason, veto) in [
        ("late", Some("b-2"), Some(HUNG), false),
        ("well", Some("b-1"), None, false),
        ("vetoed", None, Some(HUNG), true),
        ("lost", None, Some(HUNG), false),
    ] {
        let mut racks = Racks::new(json!([{"nodes": "1"}]), &["n1"]);
        racks.until_called();
        racks.is_up("n1", None);
        assert_eq!(steps(&racks.act(DUE + 1300.0)), end(RebootEnd::Failed), "{case}");
        if boot.is_some() {
            racks.ails("n1", reason);
        }
        racks.is_up("n1", boot);
        racks.change("n1", |node| {
            if veto {
                node["metadata"]["annotations"]["karpenter.sh/do-not-repair"] = json!("true");
            }
        });
        let decision = racks.act(DUE + 1301.0);
        let expected = match case {
            "late" => end(RebootEnd::Succeeded),
            "well" => vec![("n1", RebootStep::Tidy)],
            _ => vec![],
        };
        assert_eq!(steps(&decision), expected, "{case}");
        assert_eq!(gone(&decision).len(), usize::from(case == "lost"), "{case}");
        assert_eq!(decision.blocked.len(), usize::from(case == "vetoed"), "{case}");
    }
}

#[test]
fn an_end_that_is_only_on_the_claim_is_no_second_reboot() {
    let mut racks = Racks::new(json!([{"nodes": "1"}]), &["n1"]);
    racks.until_called();
    racks.is_up("n1", Some("b-2"));
    let decision = racks.world.look(DUE + 60.0);
    let order = &decision.drift.reboots[0];
    assert_eq!(order.step, RebootStep::End(RebootEnd::Succeeded));
    // The leader dies between the two writes.
    let mut claim = on_claim(order, &racks.world.claim("n1"), at(DUE + 60.0));
    claim.metadata.resource_version = Some(racks.world.next().to_string());
    racks.world.state.apply_claim(Arc::new(claim));
    racks.world.succeed(GATES);
    assert_eq!(steps(&racks.act(DUE + 61.0)), [("n1", RebootStep::Tidy)]);
    assert!(!racks.nodes["n1"].metadata.annotations.as_ref().unwrap().contains_key(REBOOT_ISSUED));
    assert_eq!(steps(&racks.act(DUE + 62.0)), []);
}
