//! Savings Plans and Reserved Instances on the console: what of them is paid for nothing.

use dovetail_actors::replica::ReplicaView;
use serde::Serialize;

use crate::state::commitments::{Unused, unused};

/// Most commitments that the page has a line for.
const MOST_LINES: usize = 10;

/// A commitment as the page shows it.
#[derive(Debug, PartialEq, Serialize)]
struct CommitmentLine {
    id: String,
    /// $/h that it costs in any case, and those of them that nothing uses.
    cost: f64,
    unused: f64,
    /// RFC 3339; `None` where it is not known.
    ends: Option<String>,
}

/// All commitments that are in force.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct CommitmentSums {
    cost: f64,
    unused: f64,
    /// The reason for which none counts in decisions; empty if they do.
    why: String,
    /// Those of which the most is unused first.
    lines: Vec<CommitmentLine>,
    /// Number of those without a line.
    others: usize,
}

/// Sums over the commitments; `None` where none is in force.
pub(super) fn commitments(view: &ReplicaView) -> Option<CommitmentSums> {
    let Unused { by_commitment, running } = unused(view)?;
    let mut lines: Vec<CommitmentLine> = by_commitment
        .iter()
        .map(|(one, unused)| CommitmentLine {
            id: one.id.clone(),
            cost: one.cost,
            unused: *unused,
            ends: one.ends.map(|end| end.to_string()),
        })
        .collect();
    lines.sort_by(|a, b| b.unused.total_cmp(&a.unused).then_with(|| a.id.cmp(&b.id)));
    let sum = |part: fn(&CommitmentLine) -> f64| lines.iter().map(part).fold(0.0, |a, b| a + b);
    let (cost, unused) = (sum(|one| one.cost), sum(|one| one.unused));
    let others = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    Some(CommitmentSums { cost, unused, why: running.mistrust().unwrap_or_default(), lines, others })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use dovetail_core::cluster_state::{ClusterState, Moment};
    use dovetail_core::commitments::{Commitments, WrittenCommitment};
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn view(count: u32) -> ReplicaView {
        let one = |at: u32| {
            json!({"id": format!("r{at:02}"), "type": "reservedInstances", "instanceType": "m5.large", "count": at + 1,
                "price": 0.5, "ends": "2030-01-01T00:00:00Z"})
        };
        let written =
            serde_json::from_value::<Vec<WrittenCommitment>>(json!((0..count).map(one).collect::<Vec<_>>())).unwrap();
        let commitments = Arc::new(Commitments::from_written(&written, 1.0).unwrap());
        let now = Moment { monotonic: Duration::ZERO, wall: Timestamp::UNIX_EPOCH };
        ReplicaView { snapshot: ClusterState::default().snapshot(), types: BTreeMap::new(), commitments, now }
    }

    #[test]
    fn the_most_unused_come_first_and_sums_are_of_all() {
        assert_eq!(commitments(&view(0)), None);
        let all = commitments(&view(12)).unwrap();
        assert_eq!((all.lines.len(), all.others, all.lines[0].id.as_str()), (MOST_LINES, 2, "r11"));
        assert_eq!((all.lines[0].unused, all.lines[0].ends.as_deref()), (6.0, Some("2030-01-01T00:00:00Z")));
        assert_eq!((all.cost, all.unused, all.why.as_str()), (39.0, 39.0, ""));
    }
}
