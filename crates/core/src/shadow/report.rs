//! The report on both sides, for a program and for a person.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use super::rounds::{Round, RoundVerdict, Rounds};

/// Number of the latest rounds that the text shows.
const SHOWN: usize = 20;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SideTotals {
    /// Nodes of NodePools now.
    pub nodes: usize,
    /// Their cost now, $/h.
    pub cost_per_hour: f64,
    /// Cost of nodes since the beginning, $.
    pub cost: f64,
    /// Nodes now without a known price.
    pub unpriced: usize,
    /// Number of nodes launched since the beginning.
    pub launched: usize,
    /// Nodes that were told to go, or went.
    pub removed: usize,
    pub removed_by_reason: BTreeMap<String, usize>,
    /// Pods that waited and have got a node.
    pub pods_placed: usize,
    /// Pods that wait now.
    pub pods_waiting: usize,
    /// Seconds that pods have waited, all together.
    pub pending_seconds: f64,
    /// Seconds that pods that have got a node waited until that node was launched, all together.
    pub seconds_to_launch: f64,
    /// Longest wait of one pod, seconds.
    pub longest_pending_seconds: f64,
    /// Number of pods evicted since the beginning.
    pub evictions: usize,
}

/// The difference: the shadow less the active side.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Difference of the present cost, $/h.
    pub cost_per_hour: f64,
    /// Difference of the cost since the beginning, $.
    pub cost: f64,
    /// Difference of the nodes launched.
    pub launched: i64,
    /// Difference of the nodes removed.
    pub removed: i64,
    /// Difference of the seconds for which pods have waited.
    pub pending_seconds: f64,
    /// Difference of the pods evicted.
    pub evictions: i64,
}

/// The totals of both sides, and their rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowReport {
    pub began: Timestamp,
    pub now: Timestamp,
    /// Seconds between the two.
    pub seconds: f64,
    /// Seconds within which launches and removals count as answers to the same pods.
    pub window_seconds: f64,
    pub active: SideTotals,
    pub shadow: SideTotals,
    /// The shadow less the active.
    pub difference: Difference,
    /// Number of rounds by verdict, those included that are no longer listed.
    pub verdicts: BTreeMap<RoundVerdict, usize>,
    /// The latest rounds.
    pub rounds: Vec<RoundResult>,
    /// Gaps in the report, for people.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundResult {
    /// The moves of both sides in it.
    #[serde(flatten)]
    pub round: Round,
    pub verdict: RoundVerdict,
}

impl ShadowReport {
    pub(super) fn new(
        began: Timestamp,
        now: Timestamp,
        active: SideTotals,
        shadow: SideTotals,
        rounds: &Rounds,
    ) -> Self {
        let result = |round: &Round| RoundResult { verdict: round.verdict(), round: round.clone() };
        Self {
            began,
            now,
            seconds: now.duration_since(began).as_secs_f64(),
            window_seconds: rounds.window().as_secs_f64(),
            difference: Difference::between(&shadow, &active),
            active,
            shadow,
            verdicts: rounds.verdicts(),
            rounds: rounds.kept().map(result).collect(),
            notes: Vec::new(),
        }
    }
}

impl Difference {
    fn between(shadow: &SideTotals, active: &SideTotals) -> Self {
        Self {
            cost_per_hour: shadow.cost_per_hour - active.cost_per_hour,
            cost: shadow.cost - active.cost,
            launched: less(shadow.launched, active.launched),
            removed: less(shadow.removed, active.removed),
            pending_seconds: shadow.pending_seconds - active.pending_seconds,
            evictions: less(shadow.evictions, active.evictions),
        }
    }
}

fn less(one: usize, other: usize) -> i64 {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    number(one) - number(other)
}

impl fmt::Display for ShadowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "shadow since {}, for {:.0} s", self.began, self.seconds)?;
        writeln!(f, "{:<28}{:>14}{:>14}{:>14}", "", "active", "shadow", "difference")?;
        let dollars = |own: &SideTotals| own.cost;
        self.line(f, "cost, $", 4, dollars)?;
        self.line(f, "cost now, $/h", 4, |own| own.cost_per_hour)?;
        self.line(f, "nodes now", 0, |own| count(own.nodes))?;
        self.line(f, "launched", 0, |own| count(own.launched))?;
        self.line(f, "removed", 0, |own| count(own.removed))?;
        self.line(f, "pods placed", 0, |own| count(own.pods_placed))?;
        self.line(f, "pods waiting now", 0, |own| count(own.pods_waiting))?;
        self.line(f, "pending, s", 1, |own| own.pending_seconds)?;
        self.line(f, "  until the launch, s", 1, |own| own.seconds_to_launch)?;
        self.line(f, "  longest, s", 1, |own| own.longest_pending_seconds)?;
        self.line(f, "evictions", 0, |own| count(own.evictions))?;
        let verdicts: Vec<String> = self.verdicts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
        if !verdicts.is_empty() {
            writeln!(f, "rounds, as they came out for the shadow: {}", verdicts.join(", "))?;
        }
        for round in self.rounds.iter().rev().take(SHOWN).rev() {
            writeln!(f, "{round}")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

impl ShadowReport {
    fn line(
        &self,
        f: &mut fmt::Formatter<'_>,
        what: &str,
        places: usize,
        of: impl Fn(&SideTotals) -> f64,
    ) -> fmt::Result {
        let (active, shadow) = (of(&self.active), of(&self.shadow));
        let difference = shadow - active;
        writeln!(f, "{what:<28}{active:>14.places$}{shadow:>14.places$}{difference:>+14.places$}")
    }
}

impl fmt::Display for RoundResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Round { from, active, shadow, .. } = &self.round;
        let side = |own: &super::rounds::RoundMoves| {
            let types: Vec<String> = own.types.iter().map(|(name, count)| format!("{count} {name}")).collect();
            let types = if types.is_empty() { String::new() } else { format!(" ({})", types.join(", ")) };
            format!("+{}{types} -{}", own.launched, own.removed)
        };
        write!(f, "{from:.0}  active {}, shadow {}: {}", side(active), side(shadow), self.verdict)
    }
}

impl fmt::Display for RoundVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "same",
            Self::Otherwise => "otherwise",
            Self::Cheaper => "cheaper",
            Self::Dearer => "dearer",
        })
    }
}

/// A count as a figure of a table.
fn count(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}
