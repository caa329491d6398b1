//! Rounds: moves of both sides within a batch window of each other, side by side.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::fact::{ShadowNode, Side};

/// Number of the latest rounds that are kept.
const MOST_KEPT: usize = 500;
/// Difference in $/h below which prices count as the same.
const SAME_PRICE: f64 = 1e-6;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundMoves {
    pub launched: usize,
    /// Price of these, $/h.
    pub launched_per_hour: f64,
    /// Number of nodes of each instance type, zone left out.
    pub types: BTreeMap<String, usize>,
    /// Nodes that were told to go.
    pub removed: usize,
    /// Price of these, $/h.
    pub removed_per_hour: f64,
}

impl RoundMoves {
    /// Rise of the bill, $/h.
    fn rise(&self) -> f64 {
        self.launched_per_hour - self.removed_per_hour
    }

    fn is_none(&self) -> bool {
        self.launched == 0 && self.removed == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RoundVerdict {
    /// The same types launched, as many removed, at the same price.
    Same,
    /// Other moves, at the same price.
    Otherwise,
    /// The shadow's bill rises less, or falls further.
    Cheaper,
    /// The shadow's bill rises more, or falls less.
    Dearer,
}

/// Moves of both sides within a batch window of each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// Time at which its first node was launched or told to go.
    pub from: Timestamp,
    /// Time of its latest move.
    pub until: Timestamp,
    pub active: RoundMoves,
    pub shadow: RoundMoves,
}

impl Round {
    #[must_use]
    pub fn verdict(&self) -> RoundVerdict {
        let more = self.shadow.rise() - self.active.rise();
        let same = self.shadow.types == self.active.types && self.shadow.removed == self.active.removed;
        match (more.abs() < SAME_PRICE, same) {
            (true, true) => RoundVerdict::Same,
            (true, false) => RoundVerdict::Otherwise,
            (false, _) if more < 0.0 => RoundVerdict::Cheaper,
            (false, _) => RoundVerdict::Dearer,
        }
    }

    /// True if both sides made a move.
    #[must_use]
    pub fn is_of_both(&self) -> bool {
        !self.active.is_none() && !self.shadow.is_none()
    }
}

/// The rounds so far, the latest last.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    window: SignedDuration,
    kept: VecDeque<Round>,
    /// Verdicts on the rounds that are no longer kept.
    dropped: BTreeMap<RoundVerdict, usize>,
}

impl Rounds {
    pub fn new(window: SignedDuration) -> Self {
        Self { window, kept: VecDeque::new(), dropped: BTreeMap::new() }
    }

    pub fn window(&self) -> SignedDuration {
        self.window
    }

    pub fn kept(&self) -> impl Iterator<Item = &Round> {
        self.kept.iter()
    }

    pub fn verdicts(&self) -> BTreeMap<RoundVerdict, usize> {
        let mut all = self.dropped.clone();
        for round in &self.kept {
            *all.entry(round.verdict()).or_default() += 1;
        }
        all
    }

    pub fn launched(&mut self, side: Side, at: Timestamp, machine: &ShadowNode) {
        let moves = self.moves(side, at);
        moves.launched += 1;
        moves.launched_per_hour += machine.price_per_hour.unwrap_or_default();
        *moves.types.entry(machine.instance_type.clone()).or_default() += 1;
    }

    pub fn removed(&mut self, side: Side, at: Timestamp, machine: &ShadowNode) {
        let moves = self.moves(side, at);
        moves.removed += 1;
        moves.removed_per_hour += machine.price_per_hour.unwrap_or_default();
    }

    /// The moves of a side at that time: in the latest round, unless that has been over for longer than a window.
    fn moves(&mut self, side: Side, at: Timestamp) -> &mut RoundMoves {
        let open = self.kept.back().is_some_and(|round| at.duration_since(round.until) <= self.window);
        if !open && self.kept.len() >= MOST_KEPT {
            let oldest = self.kept.pop_front();
            oldest.into_iter().for_each(|round| *self.dropped.entry(round.verdict()).or_default() += 1);
        }
        let fresh = Round { from: at, until: at, active: RoundMoves::default(), shadow: RoundMoves::default() };
        let mut round = if open { self.kept.pop_back().unwrap_or(fresh) } else { fresh };
        round.until = round.until.max(at);
        self.kept.push_back(round);
        let last = self.kept.len() - 1;
        match side {
            Side::Active => &mut self.kept[last].active,
            Side::Shadow => &mut self.kept[last].shadow,
        }
    }
}
