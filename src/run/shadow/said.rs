//! Output of a shadow: a line for each decision of either side, and the report at the end.

use dovetail_actors::{Journal, JournalEntry};
use dovetail_core::shadow::{ShadowReport, Side, SideDecision};
use dovetail_simulation::shadow::ShadowEvent;

/// The replica in the copy is heard by what it decides; the rest is for who looks for a fault.
pub struct QuietJournal;

impl Journal for QuietJournal {
    fn record(&self, entry: &JournalEntry) {
        let (actor, event) = (entry.actor, entry.log_event.event());
        tracing::debug!(logger = "shadow.copy", actor, event, "{}", entry.log_event);
    }
}

/// Prints an event as one line.
pub fn print_event(event: &ShadowEvent) {
    match event {
        ShadowEvent::Note(note) => tracing::warn!(logger = "shadow", "{note}"),
        ShadowEvent::Decided(side, decision) => {
            let side_label = side.label();
            tracing::info!(logger = "shadow", side = side_label, "{}", sentence(*side, decision));
        }
    }
}

/// The report, as a person reads it, and as JSON for a program.
pub fn report(report: &ShadowReport) {
    let json = serde_json::to_string(report).unwrap_or_default();
    tracing::info!(logger = "shadow", report = json, "the report:\n{report}");
}

fn sentence(side: Side, decision: &SideDecision) -> String {
    match decision {
        SideDecision::Launch(machine) => {
            let verb = if side == Side::Active { "launched" } else { "would launch" };
            let pods = machine.pods.map_or_else(String::new, |pods| format!(" for {pods} pod(s)"));
            format!(
                "{verb} {} in {}, {}, {} for nodepool {}{pods}, one of {} type(s), as nodeclaim {}",
                machine.instance_type,
                machine.zone,
                machine.capacity_type,
                price(machine.price_per_hour),
                machine.node_pool,
                machine.options.max(1),
                machine.claim
            )
        }
        SideDecision::Remove { machine, reason } => {
            let verb = if side == Side::Active { "removed" } else { "would remove" };
            let (claim, kind) = (&machine.claim, &machine.instance_type);
            format!("{verb} nodeclaim {claim}, {kind}, {}: {reason}", price(machine.price_per_hour))
        }
    }
}

fn price(per_hour: Option<f64>) -> String {
    per_hour.map_or_else(|| "price unknown".to_owned(), |price| format!("${price:.4}/h"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dovetail_core::shadow::ShadowNode;

    #[test]
    fn what_was_done_and_what_would_have_been_done_are_told_apart() {
        let machine = ShadowNode {
            claim: "default-x".into(),
            node_pool: "default".into(),
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            capacity_type: "spot".into(),
            price_per_hour: Some(0.0384),
            pods: Some(7),
            options: 12,
            before: false,
        };
        let launch = SideDecision::Launch(machine.clone());
        let told = "would launch m5.large in us-east-1a, spot, $0.0384/h for nodepool default for 7 pod(s), one of 12 \
                    type(s), as nodeclaim default-x";
        assert_eq!(sentence(Side::Shadow, &launch), told);
        assert!(sentence(Side::Active, &launch).starts_with("launched m5.large"));
        let unknown = ShadowNode { price_per_hour: None, ..machine };
        let remove = SideDecision::Remove { machine: unknown, reason: "Empty".into() };
        let told = "would remove nodeclaim default-x, m5.large, price unknown: Empty";
        assert_eq!(sentence(Side::Shadow, &remove), told);
    }
}
