//! Filters of kube-scheduler in their order: nodes that a pod can go to, and the reasons against the others.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::affinity::AffinityPlan;
use super::class::PodClass;
use super::devices::ClaimPlan;
use super::node::NodeInfo;
use super::resources::PODS;
use super::spread::SpreadPlan;
use super::state::{ClassId, SchedulerState, Slot};
use super::volumes::VolumePlan;
use crate::cluster::cache::Key;
use crate::globs::glob_matches;

/// The pod that a node is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    /// Its namespace and name.
    pub key: &'a Key,
    /// Its priority: room that is kept for pods of less counts as free.
    pub priority: i32,
}

/// A reason for which a node is refused. Its text is kube-scheduler's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FilterReason {
    Unschedulable,
    Plugin,
    Taint(Rc<str>),
    NodeAffinity,
    Ports,
    TooManyPods,
    Insufficient(Rc<str>),
    ClaimInUse,
    VolumeCount,
    VolumeConflict,
    NoVolume,
    SpreadLabel,
    Spread,
    Affinity,
    AntiAffinity,
    ExistingAntiAffinity,
    Devices,
}

impl fmt::Display for FilterReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taint(taint) => return write!(f, "node(s) had untolerated taint {taint}"),
            Self::Insufficient(resource) => return write!(f, "Insufficient {resource}"),
            Self::Plugin => "node(s) were refused by a scheduler plugin",
            Self::Unschedulable => "node(s) were unschedulable",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods => "Too many pods",
            Self::ClaimInUse => {
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
            }
            Self::VolumeCount => "node(s) exceed max volume count",
            Self::VolumeConflict => "node(s) had volume node affinity conflict",
            Self::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Self::SpreadLabel => "node(s) didn't match pod topology spread constraints (missing required label)",
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::Affinity => "node(s) didn't match pod affinity rules",
            Self::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::Devices => "cannot allocate all claims",
            Self::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
        })
    }
}

/// The verdict that depends on class and node alone, not on where pods are.
#[derive(Clone, Debug)]
pub(crate) struct Static {
    /// The first of the static filters that refuses the node.
    pub refused: Option<FilterReason>,
    /// nodeSelector and required node affinity hold.
    pub selected: bool,
    /// No `NoSchedule` or `NoExecute` taint is left untolerated.
    pub tolerated: bool,
    /// Preferred node affinity: the weights of the terms that hold.
    pub preferred: i64,
    /// `PreferNoSchedule` taints that are not tolerated.
    pub disliked: i64,
}

/// Numbers of refused nodes, by reason.
#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    nodes: usize,
    reasons: BTreeMap<FilterReason, usize>,
}

impl Diagnosis {
    /// The message of the pod's condition, as kube-scheduler words it.
    pub(crate) fn message(&self) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut reasons: Vec<String> = self.reasons.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        reasons.sort();
        format!("0/{} nodes are available: {}.", self.nodes, reasons.join(", "))
    }

    fn note(&mut self, reason: FilterReason) {
        *self.reasons.entry(reason).or_insert(0) += 1;
    }
}

/// The static part for a class and a node.
pub(crate) fn judge(class: &PodClass, node: &NodeInfo) -> Static {
    let taint = node.untolerated(&class.tolerations, &["NoSchedule", "NoExecute"]);
    let selected = class.selects(&node.name, &node.labels);
    let refused = if node.unschedulable && !tolerates_unschedulable(class) {
        Some(FilterReason::Unschedulable)
    } else if let Some(taint) = taint {
        Some(FilterReason::Taint(format!("{{{}: {}}}", taint.key, taint.value.as_deref().unwrap_or("")).into()))
    } else if !selected {
        Some(FilterReason::NodeAffinity)
    } else {
        class.nodes_refused.iter().any(|glob| glob_matches(glob, &node.name)).then_some(FilterReason::Plugin)
    };
    let preferred =
        class.preferred_nodes.iter().filter(|(_, t)| t.matches(&node.name, &node.labels)).map(|(w, _)| w).sum();
    let prefer = node.taints.iter().filter(|t| t.effect == "PreferNoSchedule");
    let disliked = prefer.filter(|t| !super::node::tolerates(&class.tolerations, t)).count();
    Static { refused, selected, tolerated: taint.is_none(), preferred, disliked: i64::try_from(disliked).unwrap_or(0) }
}

fn tolerates_unschedulable(class: &PodClass) -> bool {
    let taint = k8s_openapi::api::core::v1::Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        effect: "NoSchedule".into(),
        ..Default::default()
    };
    super::node::tolerates(&class.tolerations, &taint)
}

/// Rules that are worked out once for a pod before the nodes are looked at.
#[derive(Debug)]
pub(crate) struct FilterPlan {
    pub class: Rc<PodClass>,
    pub volumes: VolumePlan,
    pub claims: ClaimPlan,
    spread: SpreadPlan,
    affinity: AffinityPlan,
}

impl FilterPlan {
    pub(crate) fn new(state: &mut SchedulerState, id: ClassId, volumes: VolumePlan, claims: ClaimPlan) -> Self {
        state.judge_all(id);
        let class = state.classes[id].class.clone();
        let spread = SpreadPlan::new(state, id, &class);
        let affinity = AffinityPlan::new(state, &class);
        Self { class, volumes, claims, spread, affinity }
    }

    /// The nodes that pass every filter for a pod of this priority; when there is none, why.
    pub(crate) fn feasible(
        &self,
        state: &SchedulerState,
        id: ClassId,
        pod: Asking<'_>,
    ) -> Result<Vec<Slot>, Diagnosis> {
        let (mut found, mut diagnosis) = (Vec::new(), Diagnosis::default());
        for (slot, node) in state.nodes() {
            diagnosis.nodes += 1;
            if self.passes(state, id, slot, node, pod, &mut diagnosis) {
                found.push(slot);
            }
        }
        if found.is_empty() { Err(diagnosis) } else { Ok(found) }
    }

    /// True if one node passes every filter.
    pub(crate) fn is_feasible(&self, state: &SchedulerState, id: ClassId, slot: Slot, pod: Asking<'_>) -> bool {
        let node = state.nodes[slot].as_ref();
        node.is_some_and(|node| self.passes(state, id, slot, node, pod, &mut Diagnosis::default()))
    }

    fn passes(
        &self,
        state: &SchedulerState,
        id: ClassId,
        slot: Slot,
        node: &NodeInfo,
        pod: Asking<'_>,
        diagnosis: &mut Diagnosis,
    ) -> bool {
        if let Some(reason) = state.verdict(id, slot).and_then(|v| v.refused.as_ref()) {
            diagnosis.note(reason.clone());
            return false;
        }
        let kept = state.kept_room(node, pod.key, pod.priority);
        let ports = kept.as_ref().map_or(&node.ports, |kept| &kept.ports);
        if ports.iter().any(|taken| self.class.host_ports.iter().any(|p| p.conflicts(taken))) {
            diagnosis.note(FilterReason::Ports);
            return false;
        }
        let mut fits = true;
        let used = kept.as_ref().map_or(&node.used, |kept| &kept.used);
        for column in self.class.requests.lacking(used, &node.allocatable) {
            fits = false;
            diagnosis.note(match column {
                PODS => FilterReason::TooManyPods,
                _ => FilterReason::Insufficient(state.names.name(column).into()),
            });
        }
        let nominated = || kept.as_ref().and_then(|kept| kept.refuses(node, &self.class));
        let refusal = || {
            let own = self.volumes.judge(node).or_else(|| self.spread.judge(node));
            own.or_else(|| self.affinity.judge(node)).or_else(nominated).or_else(|| self.claims.judge(node))
        };
        match fits.then(refusal) {
            None => false,
            Some(None) => true,
            Some(Some(reason)) => {
                diagnosis.note(reason);
                false
            }
        }
    }
}

impl SchedulerState {
    /// Brings the class's static verdicts up to date.
    pub(crate) fn judge_all(&mut self, id: ClassId) {
        let entry = &mut self.classes[id];
        entry.verdicts.resize(self.nodes.len(), None);
        for (verdict, node) in entry.verdicts.iter_mut().zip(&self.nodes) {
            let Some(node) = node else { continue };
            if verdict.as_ref().is_none_or(|(version, _)| *version != node.version) {
                *verdict = Some((node.version, judge(&entry.class, node)));
            }
        }
    }

    /// The static verdict on a node, if it has been worked out.
    pub(crate) fn verdict(&self, id: ClassId, slot: Slot) -> Option<&Static> {
        self.classes[id].verdicts.get(slot)?.as_ref().map(|(_, verdict)| verdict)
    }
}
