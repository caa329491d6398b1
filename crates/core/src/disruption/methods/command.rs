//! Answers of consolidation.

use std::collections::{BTreeMap, BTreeSet};

use super::super::RemovalReason;
use crate::pack::PlannedClaim;

/// Nodes that go, with the places of their pods.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsolidationCommand {
    /// The reason why they go.
    pub reason: RemovalReason,
    /// Name of the method that has found it.
    pub method: &'static str,
    /// The nodes, by their index in the cluster.
    pub candidates: Vec<usize>,
    /// The nodes to launch before they go. Their pods are indices of the cluster's pods.
    pub replacements: Vec<PlannedClaim>,
    /// The pods that move, each with the node that takes it; none where that is a replacement.
    pub moves: Vec<(usize, Option<usize>)>,
    /// Drivers of the devices that pods, by index, will have on the nodes to launch.
    pub drivers: BTreeMap<usize, BTreeSet<String>>,
    /// Dollars an hour of the candidates.
    pub price_before: f64,
    /// Dollars an hour of the replacements, each at its cheapest.
    pub price_after: f64,
}

impl ConsolidationCommand {
    /// Dollars an hour that it saves.
    #[must_use]
    pub fn saving(&self) -> f64 {
        self.price_before - self.price_after
    }

    /// True if it launches into capacity reservations alone.
    #[must_use]
    pub fn takes_reserved(&self) -> bool {
        takes_reserved(&self.replacements)
    }

    /// The decision in a word, as logs and metrics name it.
    #[must_use]
    pub fn decision(&self) -> &'static str {
        if self.replacements.is_empty() { "delete" } else { "replace" }
    }
}

/// True if all nodes to launch are of capacity reservations, and there are any.
#[must_use]
pub fn takes_reserved(replacements: &[PlannedClaim]) -> bool {
    !replacements.is_empty() && replacements.iter().all(|claim| claim.reservations().next().is_some())
}

/// A node that stays, with the one reason that keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unconsolidatable {
    /// Its index in the cluster.
    pub node: usize,
    /// The reason that keeps it, as a sentence without its end.
    pub why: String,
}

/// The decision for now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsolidationDecision {
    pub command: Option<ConsolidationCommand>,
    /// The nodes that stay, with the reasons, in the order of the nodes. With a command only those that no method may take: of
    /// others it is known when nothing else is found.
    pub unconsolidatable: Vec<Unconsolidatable>,
    /// Nodes that could go, once that has paid for long enough, in the order of the nodes.
    pub spare: Vec<usize>,
    /// True if the command pays only because prices differ.
    pub price_move: bool,
    /// True if nodes were weighed by their own prices although there are commitments ([`super::decide`]).
    pub blind: bool,
}
