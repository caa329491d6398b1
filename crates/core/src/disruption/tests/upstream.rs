//! Karpenter 1.15's rules for node repair and for nodes that are terminated first, as tables: a rule, what there is, and what
//! comes of it. Where Dovetail does otherwise, the row says so. Static pools at their limit are in `succession.rs`, and how
//! reasons choose policies in `cluster_state/unwell.rs`.

use super::own_slot::{Rotation, offers, sick};
use super::repair::{MINUTE, Ward, begun, held};
use super::*;
use crate::disruption::repair::HeldRepair;

/// Half an hour: the toleration of most conditions.
const HALF: f64 = 30.0 * MINUTE;

/// Ten nodes of one pool at one moment.
struct RepairCase {
    rule: &'static str,
    /// Budgets of the pool.
    budgets: &'static str,
    /// Node, condition and its reason, and since when.
    sick: &'static [(&'static str, &'static str, &'static str, f64)],
    change: fn(&mut Ward),
    /// Moment of the look.
    at: f64,
    /// Nodes that are drained now, those for whose pods places are made first, and what is said of one that stays.
    goes: &'static [&'static str],
    begins: &'static [&'static str],
    says: &'static str,
}

const TEN_PERCENT: &str = r#"[{"nodes": "10%"}]"#;
const ALL: &str = r#"[{"nodes": "100%"}]"#;

/// One node whose storage is not ready goes after half an hour.
const ONE: RepairCase = RepairCase {
    rule: "",
    budgets: TEN_PERCENT,
    sick: &[("n1", "StorageReady", "", 0.0)],
    change: |_| (),
    at: HALF,
    goes: &["n1"],
    begins: &[],
    says: "",
};

fn with_pod(ward: &mut Ward, annotated: bool) {
    ward.all.world.pod("pod-n1", "n1", |pod| {
        if annotated {
            pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
        }
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    });
}

fn bound(ward: &mut Ward) {
    ward.all.node("n1", |claim| claim["spec"]["terminationGracePeriod"] = json!("1h"));
    ward.ails("n1", "StorageReady", "", 0.0);
}

const REPAIRS: &[RepairCase] = &[
    RepairCase { rule: "tolerated from lastTransitionTime on", at: HALF - 1.0, goes: &[], ..ONE },
    RepairCase { rule: "eligible at lastTransitionTime and the toleration", ..ONE },
    RepairCase { rule: "computed anew each pass: a restart loses nothing", change: |ward| ward.succeed(), ..ONE },
    RepairCase { rule: "a node that recovers is not repaired", change: |ward| ward.recovers("n1"), goes: &[], ..ONE },
    RepairCase { rule: "only listed conditions count", sick: &[("n1", "MemoryPressure", "", 0.0)], goes: &[], ..ONE },
    RepairCase {
        rule: "accelerators are tolerated for ten minutes",
        sick: &[("n1", "AcceleratedHardwareReady", "DCGMError", 0.0)],
        at: 10.0 * MINUTE,
        ..ONE
    },
    RepairCase {
        rule: "of several that are eligible the highest priority comes first",
        sick: &[("n1", "KernelReady", "", 0.0), ("n8", "Silent", "", 0.0)],
        goes: &["n8"],
        ..ONE
    },
    RepairCase {
        rule: "of one node's conditions the highest priority counts",
        sick: &[("n1", "KernelReady", "", 0.0), ("n8", "NetworkingReady", "", 0.0), ("n8", "Ready", "", 0.0)],
        goes: &["n8"],
        ..ONE
    },
    RepairCase {
        rule: "waiting past the toleration makes up for priority, so that none starves",
        sick: &[("n1", "StorageReady", "", 1860.0), ("n8", "NetworkingReady", "", 0.0)],
        at: 1860.0 + HALF,
        goes: &["n8"],
        ..ONE
    },
    RepairCase {
        rule: "ties: the lower disruption cost",
        sick: &[("n1", "StorageReady", "", 0.0), ("n2", "StorageReady", "", 0.0)],
        change: |ward| with_pod(ward, false),
        goes: &["n2"],
        ..ONE
    },
    RepairCase {
        rule: "ties: then the name",
        sick: &[("n3", "StorageReady", "", 0.0), ("n2", "StorageReady", "", 0.0)],
        goes: &["n2"],
        ..ONE
    },
    RepairCase {
        rule: "the budget of reason Unhealthy, 10 % of ten",
        sick: &[("n1", "StorageReady", "", 0.0), ("n2", "KernelReady", "", 0.0)],
        goes: &["n2"],
        ..ONE
    },
    RepairCase { rule: "a budget of none", budgets: r#"[{"nodes": "0", "reasons": ["Unhealthy"]}]"#, goes: &[], ..ONE },
    RepairCase {
        rule: "budgets of other reasons do not bound it",
        budgets: r#"[{"nodes": "0", "reasons": ["Drifted", "Empty", "Underutilized"]}]"#,
        ..ONE
    },
    RepairCase {
        rule: "nodes that are not Ready do not count against this one reason",
        sick: &[("n1", "StorageReady", "", 0.0), ("n2", "Silent", "", 60.0), ("n3", "Ready", "", 60.0)],
        ..ONE
    },
    RepairCase {
        rule: "a replacement comes before the termination",
        change: |ward| with_pod(ward, false),
        goes: &[],
        begins: &["n1"],
        ..ONE
    },
    RepairCase {
        rule: "a pod that may not be disrupted keeps its node where nothing bounds the drain",
        change: |ward| with_pod(ward, true),
        goes: &[],
        says: "no terminationGracePeriod bounds that",
        ..ONE
    },
    RepairCase {
        rule: "and so does a PodDisruptionBudget",
        change: |ward| {
            with_pod(ward, false);
            ward.protect();
        },
        goes: &[],
        says: "no terminationGracePeriod bounds that",
        ..ONE
    },
    RepairCase {
        rule: "where the claim bounds it, places are made first, also for pods whose eviction is blocked now",
        sick: &[],
        change: |ward| {
            bound(ward);
            with_pod(ward, true);
            ward.protect();
        },
        goes: &[],
        begins: &["n1"],
        ..ONE
    },
    RepairCase {
        rule: "the policy's own bound is as good",
        sick: &[("n1", "Ready", "", 0.0)],
        change: |ward| {
            with_pod(ward, true);
            ward.protect();
        },
        goes: &[],
        begins: &["n1"],
        ..ONE
    },
    RepairCase {
        rule: "the veto",
        sick: &[],
        change: |ward| {
            ward.all.node("n1", |claim| claim["metadata"]["annotations"]["karpenter.sh/do-not-repair"] = json!("true"));
            ward.ails("n1", "StorageReady", "", 0.0);
        },
        goes: &[],
        says: "karpenter.sh/do-not-repair",
        ..ONE
    },
    RepairCase {
        rule: "repair comes before drift",
        change: |ward| {
            ward.all.change_pool(|pool| pool["spec"]["template"]["metadata"] = json!({"labels": {"release": "two"}}));
            ward.act(HALF - 1.0);
        },
        ..ONE
    },
];

#[test]
fn repairs_follow_the_rules_of_karpenter() {
    for case in REPAIRS {
        let mut ward = Ward::of_ten(serde_json::from_str(case.budgets).unwrap());
        for (node, condition, reason, since) in case.sick {
            ward.ails(node, condition, reason, *since);
        }
        (case.change)(&mut ward);
        let decision = ward.act(case.at);
        assert_eq!((gone(&decision), begun(&decision)), (case.goes.to_vec(), case.begins.to_vec()), "{}", case.rule);
        let says = decision.blocked.iter().any(|one| one.why.contains(case.says));
        assert_eq!(says, !case.says.is_empty(), "{}: {:?}", case.rule, decision.blocked);
    }
}

/// Nodes with a condition that more than a fifth of ten share, and one that has another.
struct AlarmCase {
    rule: &'static str,
    shared: usize,
    broken: Option<&'static str>,
    /// Nodes that go at the first look, and the number of those that are held.
    goes: &'static [&'static str],
    held: usize,
}

/// Karpenter repairs none of a pool if more than a fifth of it is unwell; so one that is broken for certain stays too.
const ALARMS: &[AlarmCase] = &[
    AlarmCase { rule: "a fifth is no alarm", shared: 2, broken: None, goes: &["n0", "n1"], held: 0 },
    AlarmCase { rule: "Karpenter: none; here one at a time", shared: 3, broken: None, goes: &["n0"], held: 2 },
    AlarmCase { rule: "Karpenter: none; here one at a time", shared: 10, broken: None, goes: &["n0"], held: 9 },
    AlarmCase {
        rule: "Karpenter: none; here the broken one first",
        shared: 6,
        broken: Some("n9"),
        goes: &["n9"],
        held: 6,
    },
    AlarmCase { rule: "also where it shares the alarm", shared: 6, broken: Some("n3"), goes: &["n3"], held: 5 },
];

#[test]
fn an_alarm_is_braked_as_the_table_says() {
    for case in ALARMS {
        let mut ward = Ward::of_ten(serde_json::from_str(ALL).unwrap());
        (0..case.shared).for_each(|n| ward.ails(&format!("n{n}"), "StorageReady", "", 0.0));
        case.broken.iter().for_each(|broken| ward.ails(broken, "KernelReady", "", 0.0));
        let decision = ward.act(HALF);
        assert_eq!(gone(&decision), case.goes, "{} {}", case.rule, case.shared);
        assert_eq!(held(&decision).len(), case.held, "{} {}: {:?}", case.rule, case.shared, held(&decision));
        assert!(held(&decision).iter().all(|why| *why != HeldRepair::TooMany), "{}", case.rule);
    }
}

/// A reserved node, which has drifted or is sick, of a pool of these capacity types.
struct TerminateFirstCase {
    rule: &'static str,
    capacity_types: &'static [&'static str],
    /// Free instances of the reservation; and on demand where it is offered, true if EC2 has it.
    left: u32,
    on_demand: Option<bool>,
    change: fn(&mut Rotation),
    first: bool,
}

const RESERVED: TerminateFirstCase = TerminateFirstCase {
    rule: "the only place is the candidate's own slot: terminate first",
    capacity_types: &["reserved"],
    left: 0,
    on_demand: None,
    change: |_| (),
    first: true,
};

const TERMINATE_FIRST: &[TerminateFirstCase] = &[
    RESERVED,
    TerminateFirstCase {
        rule: "no other capacity type is offered where it could be",
        capacity_types: &["reserved", "on-demand"],
        ..RESERVED
    },
    TerminateFirstCase {
        rule: "anything else fits, on-demand too: replace first",
        capacity_types: &["reserved", "on-demand"],
        on_demand: Some(true),
        first: false,
        ..RESERVED
    },
    TerminateFirstCase {
        rule: "what EC2 refuses just now fits as well: a launch failure is no reason",
        capacity_types: &["reserved", "on-demand"],
        on_demand: Some(false),
        first: false,
        ..RESERVED
    },
    TerminateFirstCase { rule: "a free slot: replace first", left: 1, first: false, ..RESERVED },
    TerminateFirstCase {
        rule: "pods that would not come back into the slot keep it",
        capacity_types: &["spot"],
        first: false,
        ..RESERVED
    },
    TerminateFirstCase {
        rule: "budgets pace it",
        change: |rotation| {
            rotation.all.change_pool(|pool| pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "0"}]))
        },
        first: false,
        ..RESERVED
    },
];

#[test]
fn nodes_are_terminated_first_as_the_table_says() {
    for case in TERMINATE_FIRST {
        for repaired in [false, true] {
            let offers = offers(case.left, case.on_demand);
            let (mut rotation, from) = match repaired {
                true => (sick(case.capacity_types, &["a"], offers), 1800),
                false => (Rotation::new(case.capacity_types, &["a"], offers), 2),
            };
            (case.change)(&mut rotation);
            let first = rotation.until_gone(from, from + 300);
            assert_eq!(first.is_some(), case.first, "{}, repaired: {repaired}", case.rule);
            let noted = first.map_or(0, |(_, decision)| decision.drift.first.len());
            assert_eq!(noted, usize::from(case.first), "{}: the event names the mode", case.rule);
        }
    }
}
