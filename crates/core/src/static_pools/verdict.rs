//! The condition of a static pool: its number of nodes, and the reason for those that are missing.

use dovetail_api::names::conditions::{FALSE, TRUE};

use crate::cluster_state::{ReplicaCount, Snapshot};

/// The reason that a static pool lacks nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// `spec.limits.nodes` leaves no room.
    AtLimit,
    /// Nothing can be launched for the pool now, with the reason.
    LeftOut(String),
    /// No offering can be had, with the reason.
    NothingFits(String),
    /// It is not known yet if the pool is Ready.
    Unsettled,
    /// Claims have come to nothing before they had an instance: the next are tried after a pause.
    Lost,
}

/// Status, reason and message of a pool's condition ReplicasReady.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaVerdict {
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

/// The condition of a pool. `lack`: the reason that no more is launched for it.
#[must_use]
pub fn judge_replicas(snapshot: &Snapshot, count: &ReplicaCount<'_>, lack: Option<&Shortfall>) -> ReplicaVerdict {
    let (ready, desired) = (count.ready(snapshot), count.desired);
    let nodes = if desired == 1 { "node" } else { "nodes" };
    let head = format!("{ready} of {desired} {nodes} ready");
    let verdict = |status, reason, message| ReplicaVerdict { status, reason, message };
    if count.surplus() > 0 {
        let more = format!("{head}; {} more than spec.replicas", count.surplus());
        return verdict(FALSE, "Overprovisioned", more);
    }
    if count.missing() == 0 {
        let coming = desired.saturating_sub(ready);
        return match (coming, count.outgoing.len()) {
            (0, 0) => verdict(TRUE, "ReplicasReady", head),
            (0, outgoing) => verdict(TRUE, "ReplicasReady", format!("{head}; {outgoing} more until successors stand")),
            _ => verdict(FALSE, "Launching", format!("{head}; {coming} not ready yet")),
        };
    }
    let missing = count.missing();
    match lack {
        Some(Shortfall::AtLimit) => {
            let limit = count.limit().unwrap_or_default();
            let going =
                if count.going > 0 { format!(", {} of them on their way out", count.going) } else { String::new() };
            let all = count.all();
            verdict(
                FALSE,
                "NodeLimit",
                format!("{head}; {missing} missing: spec.limits.nodes is {limit}, and there are {all}{going}"),
            )
        }
        Some(Shortfall::LeftOut(why)) => verdict(FALSE, "CannotLaunch", format!("{head}; {missing} missing: {why}")),
        Some(Shortfall::NothingFits(why)) => verdict(FALSE, "NoOffering", format!("{head}; {missing} missing: {why}")),
        Some(Shortfall::Lost) => {
            let why = "launches came to nothing, see the events of its NodeClaims; they are tried again";
            verdict(FALSE, "LaunchesLost", format!("{head}; {missing} missing: {why}"))
        }
        Some(Shortfall::Unsettled) => {
            verdict(FALSE, "Launching", format!("{head}; {missing} to be launched when the NodePool is Ready"))
        }
        None => verdict(FALSE, "Launching", format!("{head}; {missing} to be launched")),
    }
}
