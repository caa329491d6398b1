//! Pods that hold up a drain, each with its rule.

use std::fmt;

use jiff::Timestamp;

use super::drain::{Drain, DrainGroup};
use super::places::{Awaiting, SuccessorPlace};
use crate::cluster_state::{DoNotDisrupt, NominationTarget, PodEntry, Snapshot, forced_from};

/// A pod that a node still waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPod {
    /// Namespace and name, with a slash between.
    pub pod: String,
    /// The reason that it is still there.
    pub rule: HoldReason,
    /// Time at which it is deleted whatever the rule says, if its node has an end.
    pub forced: Option<Timestamp>,
}

/// The reason that a pod is still on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// It asks to be left alone, by this annotation, until that time if there is one.
    DoNotDisrupt(&'static str, Option<Timestamp>),
    /// These PodDisruptionBudgets, by namespace and name, do not let it go now.
    Budgets(Vec<String>),
    /// The place for its successor is not ready; it goes then all the same.
    Place(SuccessorPlace, Timestamp),
    /// It goes by a restart of its Deployment; the text is the progress of that.
    Rollout(String),
    /// It is ending, and is to be gone by that time.
    Ending(Option<Timestamp>),
    /// It goes after all others that are no part of the system.
    Later,
    /// Its eviction has not been answered; nothing else holds it.
    Asked,
}

impl HoldReason {
    /// True if it holds by itself: a wait that ends, or is for others only, does not.
    #[must_use]
    pub fn holds(&self) -> bool {
        matches!(self, Self::DoNotDisrupt(..) | Self::Budgets(_))
    }

    /// The remedy for the pod's owner, if the hold does not end by itself.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::DoNotDisrupt(_, None) => {
                Some("take the annotation off the pod, or give its nodepool a terminationGracePeriod")
            }
            Self::Budgets(names) if names.len() > 1 => Some("let one pdb alone select the pod"),
            Self::Budgets(_) => Some(
                "add replicas or lower the pdb, or annotate a Deployment's pods dovetail.dev/move: rollout and set MOVES_ROLLOUT",
            ),
            _ => None,
        }
    }
}

/// The reason for each pod that a drain still waits for, in the drain's order.
#[must_use]
pub fn held(
    drain: &Drain,
    awaiting: &[Awaiting],
    snapshot: &Snapshot,
    ends: Option<Timestamp>,
    now: Timestamp,
) -> Vec<HeldPod> {
    let first = drain.waiting.iter().map(|pod| DrainGroup::from_pod(pod)).min();
    let of = |pod: &PodEntry| {
        let place = awaiting.iter().find(|one| one.pod.pod.uid == pod.pod.uid);
        let budgets = || budgets(snapshot, pod);
        match place {
            _ if pod.deleting => HoldReason::Ending(pod.drain.deletion),
            Some(one) => HoldReason::Place(one.place.clone(), one.until),
            None if pod.do_not_disrupt.holds(now) => {
                let until = match pod.do_not_disrupt {
                    DoNotDisrupt::Until(end) => Some(end),
                    _ => None,
                };
                HoldReason::DoNotDisrupt(pod.asks_by, until)
            }
            None if Some(DrainGroup::from_pod(pod)) != first => HoldReason::Later,
            None => Some(budgets()).filter(|all| !all.is_empty()).map_or(HoldReason::Asked, HoldReason::Budgets),
        }
    };
    let one = |pod: &PodEntry| HeldPod {
        pod: format!("{}/{}", pod.pod.namespace, pod.pod.name),
        rule: of(pod),
        forced: ends.map(|ends| forced_from(ends, pod)),
    };
    drain.waiting.iter().map(|pod| one(pod)).collect()
}

/// The budgets that refuse a pod's eviction now.
fn budgets(snapshot: &Snapshot, pod: &PodEntry) -> Vec<String> {
    let covering: Vec<_> = snapshot.budgets_of(&pod.pod).collect();
    let refuses = covering.len() > 1 || covering.iter().any(|one| one.refuses_now(pod.ready));
    if refuses { covering.into_iter().map(|one| one.name()).collect() } else { Vec::new() }
}

/// The text for people. The same rule reads the same at every look.
impl fmt::Display for HeldPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {} ", self.pod)?;
        match &self.rule {
            HoldReason::DoNotDisrupt(annotation, None) => write!(f, "has the annotation {annotation}")?,
            HoldReason::DoNotDisrupt(annotation, Some(end)) => {
                write!(f, "has the annotation {annotation} until {end}")?
            }
            HoldReason::Budgets(names) if names.len() > 1 => {
                write!(f, "is under more than one pdb, which the API server refuses: {}", names.join(", "))?;
            }
            HoldReason::Budgets(names) => write!(f, "is kept by pdb {}", names.join(", "))?,
            HoldReason::Place(place, until) => {
                match place {
                    SuccessorPlace::Coming(NominationTarget::Claim(claim)) => {
                        write!(f, "waits for its place on nodeclaim {claim}")?
                    }
                    SuccessorPlace::Coming(NominationTarget::Node(node)) => {
                        write!(f, "waits for its place on node {node}")?
                    }
                    SuccessorPlace::Later => f.write_str("waits for a place, launches for it are refused")?,
                    SuccessorPlace::Ready | SuccessorPlace::None => {
                        f.write_str("waits for a place, there is none yet")?
                    }
                }
                return write!(f, ", until {until} at the latest");
            }
            HoldReason::Rollout(how) => return write!(f, "goes by a rollout of its Deployment: {how}"),
            HoldReason::Ending(Some(by)) => return write!(f, "is ending, and is to be gone by {by}"),
            HoldReason::Ending(None) => return f.write_str("is ending"),
            HoldReason::Later => return f.write_str("goes after the others"),
            HoldReason::Asked => return f.write_str("is being evicted"),
        }
        match (self.forced, &self.rule) {
            (Some(at), _) => write!(f, ", and is deleted at {at} at the latest"),
            (None, HoldReason::DoNotDisrupt(_, None)) => f.write_str(", and nothing ends that"),
            (None, _) => Ok(()),
        }
    }
}
