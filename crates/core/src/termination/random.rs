//! A node's end in a small world where anybody may delete either object first, pods are slow or stubborn, EC2 answers
//! late and leaders change: it always comes to its end, and never takes a step too early.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_api::names::TERMINATION_FINALIZER;
use dovetail_api::names::annotations::TERMINATION_TIMESTAMP;
use dovetail_api::v1::{KubeDuration, NodeClaim};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::json;

use super::claim::{self, ClaimStep};
use super::drain::Latecomers;
use super::node::{self, DeletingNode, NodeStep};
use super::{InstanceObservation, RemovalPhase, with};
use crate::cluster_state::PodEntry;
use crate::lifecycle::fixtures::{launched_claim, node as fresh_node, ready, second};
use crate::lifecycle::{LifecycleStep, registration};

/// A pod, with the seconds that it takes to end once it is deleted.
#[derive(Clone, Debug)]
struct OnePod {
    critical: bool,
    stubborn: bool,
    /// Number of evictions of it that are refused.
    refusals: u32,
    ends_in: i64,
}

#[derive(Clone, Debug)]
struct Setting {
    pods: Vec<OnePod>,
    grace: Option<u64>,
    volumes: usize,
    node_first: bool,
    ready: bool,
    /// Looks at which the leader changes, and forgets EC2's answers.
    successions: BTreeSet<i64>,
}

fn setting() -> impl Strategy<Value = Setting> {
    let pod = (any::<bool>(), any::<bool>(), 0..20_u32, 0..40_i64)
        .prop_map(|(critical, stubborn, refusals, ends_in)| OnePod { critical, stubborn, refusals, ends_in });
    let successions = proptest::collection::btree_set(0..600_i64, 0..4);
    let rest = (proptest::option::of(1..300_u64), 0..3_usize, any::<bool>(), any::<bool>(), successions);
    (proptest::collection::vec(pod, 0..6), rest).prop_map(|(pods, (grace, volumes, node_first, ready, successions))| {
        Setting { pods, grace, volumes, node_first, ready, successions }
    })
}

struct World {
    node: Option<Node>,
    claim: Option<NodeClaim>,
    /// Pods that are there, with the time at which those told to go will be gone.
    pods: Vec<(OnePod, Arc<PodEntry>, Option<i64>)>,
    volumes: BTreeSet<String>,
    seen: InstanceObservation,
    ends_at: Option<i64>,
    /// Phases of the Node and of the claim since the leader began.
    phases: [Option<RemovalPhase>; 2],
}

fn entry(number: usize, pod: &OnePod) -> Arc<PodEntry> {
    let class = if pod.critical { "system-node-critical" } else { "" };
    let asks = if pod.stubborn { "true" } else { "" };
    let object = json!({
        "metadata": {"name": format!("p{number}"), "uid": format!("u{number}"), "annotations": {"karpenter.sh/do-not-disrupt": asks}},
        "spec": {"containers": [], "nodeName": "n", "priorityClassName": class}, "status": {"phase": "Running"}});
    Arc::new(PodEntry::from_kube(&serde_json::from_value(object).unwrap()).unwrap())
}

impl World {
    fn from_setting(setting: &Setting) -> Self {
        let there = if setting.ready { ready(fresh_node("n")) } else { fresh_node("n") };
        let LifecycleStep::Write(writes) = registration::register(&launched_claim("a"), &[&there], second(10)) else {
            panic!()
        };
        let mut claim = writes.claim;
        claim.metadata.finalizers = Some(vec![TERMINATION_FINALIZER.into()]);
        claim.spec.termination_grace_period = setting.grace.map(KubeDuration::from_secs);
        let mut node = writes.node.unwrap();
        match setting.node_first {
            true => node.metadata.deletion_timestamp = Some(Time(second(100))),
            false => claim.metadata.deletion_timestamp = Some(Time(second(100))),
        }
        let pods = setting.pods.iter().enumerate().map(|(number, pod)| (pod.clone(), entry(number, pod), None));
        Self {
            pods: pods.collect(),
            node: Some(node),
            claim: Some(claim),
            volumes: (0..setting.volumes).map(|number| format!("v{number}")).collect(),
            seen: InstanceObservation::Unknown,
            ends_at: None,
            phases: [None; 2],
        }
    }

    /// Notes the phase of the Node (0) or claim (1): it never goes back while one leader is there and no pod comes.
    fn enter(&mut self, of: usize, phase: Option<RemovalPhase>) {
        assert!(phase >= self.phases[of], "{phase:?} after {:?}", self.phases[of]);
        self.phases[of] = phase;
    }

    fn instance_is_gone(&self, now: i64) -> bool {
        self.ends_at.is_some_and(|end| now >= end)
    }

    fn tell_to_go(&mut self, uid: &str, now: i64) {
        for (pod, entry, gone_at) in &mut self.pods {
            if entry.pod.uid == uid && gone_at.is_none() {
                *gone_at = Some(now + pod.ends_in);
                let own = Arc::make_mut(entry);
                own.deleting = true;
                own.drain.deletion = Some(second(now + 30));
            }
        }
    }

    fn ask(&mut self, now: i64, end: bool) {
        if end && self.ends_at.is_none() {
            self.ends_at = Some(now + 30);
        }
        self.seen = match self.ends_at {
            None => InstanceObservation::Alive,
            Some(end) if now < end => InstanceObservation::Ending,
            Some(_) => InstanceObservation::Terminated,
        };
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.claim.as_ref().and_then(super::deadline::carried_deadline)
    }

    fn look_at_node(&mut self, now: i64) {
        let Some(node) = self.node.clone() else { return };
        let claims: Vec<&NodeClaim> = self.claim.iter().collect();
        let known = DeletingNode {
            claims: &claims,
            pods: self.pods.iter().map(|(_, entry, _)| entry.clone()).collect(),
            late: Latecomers::default(),
            volumes: Some(self.volumes.clone()),
            seen: self.seen,
            asked: second(now),
        };
        let step = node::next_step(&node, &known, second(now));
        self.enter(0, RemovalPhase::of_node(&step));
        match step {
            NodeStep::NotOurs | NodeStep::Settle | NodeStep::AwaitVolumes(_) => {}
            NodeStep::DeleteClaim => self.claim.as_mut().unwrap().metadata.deletion_timestamp = Some(Time(second(now))),
            NodeStep::Ask => self.ask(now, false),
            NodeStep::Cordon(node) => self.node = Some(*node),
            NodeStep::Say(said) => self.claim = self.claim.as_ref().map(|claim| with(claim, &said, second(now))),
            NodeStep::Drain(drain) => {
                for pod in drain.evict {
                    let of_pod = self.pods.iter_mut().find(|(_, entry, _)| entry.pod.uid == pod.pod.uid).unwrap();
                    assert!(!of_pod.0.stubborn, "a pod that asks to be left alone is evicted");
                    let others =
                        |critical: bool| self.pods.iter().filter(move |one| one.0.critical == critical).count();
                    assert!(!pod.drain.critical || others(false) == 0, "a critical pod goes before the others");
                    let of_pod = self.pods.iter_mut().find(|(_, entry, _)| entry.pod.uid == pod.pod.uid).unwrap();
                    match of_pod.0.refusals {
                        0 => self.tell_to_go(&pod.pod.uid, now),
                        _ => of_pod.0.refusals -= 1,
                    }
                }
                for (pod, _) in drain.delete {
                    let deadline = self.deadline().expect("nobody's time is up without a deadline");
                    assert!(deadline.duration_since(second(now)) <= SignedDuration::from_secs(30));
                    self.tell_to_go(&pod.pod.uid, now);
                }
            }
            NodeStep::Terminate => {
                let expired = self.deadline().is_some_and(|deadline| second(now) > deadline);
                assert!(self.pods.is_empty() || expired, "an instance ends under its pods");
                assert!(self.volumes.is_empty() || expired, "an instance ends with its volumes");
                self.ask(now, true);
            }
            NodeStep::Release => {
                assert!(self.instance_is_gone(now), "the Node goes before its instance");
                self.node = None;
            }
        }
    }

    fn look_at_claim(&mut self, now: i64) {
        let Some(claim) = self.claim.clone() else { return };
        let nodes: Vec<&Node> = self.node.iter().collect();
        let step = claim::next_step(&claim, &nodes, self.seen, second(now));
        self.enter(1, RemovalPhase::of_claim(&step));
        match step {
            ClaimStep::NotOurs | ClaimStep::AwaitNodes => {}
            ClaimStep::SetDeadline(deadline) => {
                let annotations = self.claim.as_mut().unwrap().metadata.annotations.get_or_insert_default();
                annotations.insert(TERMINATION_TIMESTAMP.into(), deadline.to_string());
            }
            ClaimStep::DeleteNodes(_) => {
                self.node.as_mut().unwrap().metadata.deletion_timestamp = Some(Time(second(now)))
            }
            ClaimStep::Terminate => {
                assert!(self.node.is_none(), "an instance ends under its Node");
                self.ask(now, true);
            }
            ClaimStep::Say(said) => self.claim = Some(with(&claim, &said, second(now))),
            ClaimStep::Release => {
                assert!(self.node.is_none() && self.instance_is_gone(now), "the claim goes before its instance");
                self.claim = None;
            }
        }
    }

    /// Changes that happen without the terminator.
    fn pass(&mut self, now: i64) {
        self.pods.retain(|(_, _, gone_at)| gone_at.is_none_or(|gone| now < gone));
        if self.pods.is_empty() {
            self.volumes.clear();
        }
    }
}

proptest! {
    #[test]
    fn every_node_comes_to_its_end_and_takes_no_step_too_early(setting in setting()) {
        let mut world = World::from_setting(&setting);
        for now in 100..1200 {
            if setting.successions.contains(&(now - 100)) {
                (world.seen, world.phases) = (InstanceObservation::Unknown, [None; 2]);
            }
            world.look_at_node(now);
            world.look_at_claim(now);
            world.pass(now);
        }
        // Only a pod that asks to be left alone, on a node without a deadline, may hold it for ever.
        let held = setting.grace.is_none() && setting.pods.iter().any(|pod| pod.stubborn);
        prop_assert_eq!(world.node.is_some(), held);
        prop_assert_eq!(world.claim.is_some(), held);
    }
}
