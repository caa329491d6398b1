//! The counts that are kept up agree with a count from scratch, whatever pods and nodes do.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::class::{PodClass, Surroundings};
use super::node::NodeObject;
use super::selector::Labels;
use super::spec::PodSpec;
use super::state::{ClassId, CountedPods, PlacedPod, SchedulerState};
use crate::cluster::cache::Key;

fn class(state: &mut SchedulerState, app: usize) -> ClassId {
    let labels = Labels::from([("app".to_owned(), format!("app{app}"))]);
    let spec = PodSpec::from_pod(&json!({"spec": {
        "containers": [{"resources": {"requests": {"cpu": format!("{}m", 100 * (app + 1))}}, "ports": [{"hostPort": 80 + app}]}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": format!("app{app}")}}}]}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": format!("app{app}")}}}],
    }}));
    state.class(format!("app{app}"), |names| {
        let around = Surroundings {
            namespace: "default",
            labels: &labels,
            pod_name: "p",
            default_selector: None,
            nodes_refused: Vec::new(),
            namespace_labels: &BTreeMap::new(),
        };
        PodClass::compile(&spec, around, names)
    })
}

/// An event: a node comes or goes, a pod is placed, begins to go, or is gone; somebody asks for a count.
#[derive(Clone, Debug)]
enum Step {
    Node(usize),
    NodeGone(usize),
    Place { pod: usize, app: usize, node: usize, terminating: bool },
    PodGone(usize),
    Ask(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4usize).prop_map(Step::Node),
        (0..4usize).prop_map(Step::NodeGone),
        (0..12usize, 0..3usize, 0..4usize, any::<bool>()).prop_map(|(pod, app, node, terminating)| Step::Place {
            pod,
            app,
            node,
            terminating
        }),
        (0..12usize).prop_map(Step::PodGone),
        (0..3usize).prop_map(Step::Ask),
    ]
}

fn take(state: &mut SchedulerState, step: &Step) {
    let pod = |n: &usize| Key::new("default", &format!("p{n}"));
    match step {
        Step::Node(n) => {
            let node = json!({"metadata": {"labels": {"zone": format!("z{}", n % 2)}}, "status": {"allocatable": {"cpu": "8"}}});
            state.put_node(&format!("n{n}"), NodeObject::from_node(&node));
        }
        Step::NodeGone(n) => state.drop_node(&format!("n{n}")),
        Step::Place { pod: p, app, node, terminating } => {
            let class = class(state, *app);
            if let Some(slot) = state.by_name.get(&format!("n{node}")).copied() {
                state.place(&pod(p), PlacedPod { class, slot, terminating: *terminating });
            }
        }
        Step::PodGone(p) => state.remove(&pod(p)),
        Step::Ask(app) => {
            let class = class(state, *app);
            ask(state, class);
        }
    }
}

fn ask(state: &mut SchedulerState, class: ClassId) -> (usize, usize) {
    let class = state.classes[class].class.clone();
    let spread = state.counter(CountedPods::spread(&class.hard_spread[0], "default"));
    (spread, state.counter(CountedPods::terms(&class.anti_affinity)))
}

proptest! {
    #[test]
    fn kept_counts_agree_with_a_count_from_scratch(steps in prop::collection::vec(step(), 0..60)) {
        let mut state = SchedulerState::default();
        for step in &steps {
            take(&mut state, step);
        }
        for app in 0..3 {
            let id = class(&mut state, app);
            let (spread, terms) = ask(&mut state, id);
            let slots: Vec<usize> = state.nodes().map(|(slot, _)| slot).collect();
            for slot in slots {
                let here = || state.placed.values().filter(|p| p.slot == slot && p.class == id);
                prop_assert_eq!(state.counted(spread, slot) as usize, here().filter(|p| !p.terminating).count());
                prop_assert_eq!(state.counted(terms, slot) as usize, here().count());
                prop_assert_eq!(state.classes[id].by_slot.get(&slot).copied().unwrap_or(0) as usize, here().count());
            }
        }
        for (slot, node) in state.nodes() {
            let here: Vec<&PlacedPod> = state.placed.values().filter(|p| p.slot == slot).collect();
            let cpu: i64 = here.iter().map(|p| state.classes[p.class].class.requests.get(super::resources::CPU)).sum();
            prop_assert_eq!(node.used.get(super::resources::CPU), cpu);
            prop_assert_eq!(node.ports.len(), here.len());
        }
    }
}
