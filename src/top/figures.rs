//! Figures as short text. Text of the cluster is made harmless for a terminal.

use dovetail_api::names::labels;
use jiff::Timestamp;

use super::facts::Share;
use crate::live::escape::escape;

/// A bar of so many cells with its percentage behind it: `███░░░  50%`.
pub fn bar(share: Share, cells: usize) -> String {
    let Some(ratio) = share.ratio() else { return format!("{:<cells$}    -", "") };
    let percent = (ratio * 100.0).round().min(999.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let full = ((ratio * cells as f64).round() as usize).min(cells);
    format!("{}{} {percent:>3}%", "█".repeat(full), "░".repeat(cells - full))
}

/// Dollars an hour; `-` where they are not known.
pub fn dollars(price: Option<f64>) -> String {
    match price {
        None => "-".to_owned(),
        Some(price) if price < 100.0 => format!("{price:.3}"),
        Some(price) => format!("{price:.1}"),
    }
}

/// Time since then in its two largest units; `-` where it is not known.
pub fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else { return "-".to_owned() };
    match now.duration_since(since).as_secs().max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m{:02}", seconds / 60, seconds % 60),
        seconds @ 7_200..172_800 => format!("{}h{:02}", seconds / 3_600, seconds % 3_600 / 60),
        seconds => format!("{}d{:02}", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Thousandths of a core as cores.
#[allow(clippy::cast_precision_loss)]
pub fn cores(milli: i64) -> String {
    let cores = milli as f64 / 1_000.0;
    if cores < 100.0 { format!("{cores:.1}") } else { format!("{cores:.0}") }
}

/// Bytes as Gi.
#[allow(clippy::cast_precision_loss)]
pub fn gibibytes(bytes: i64) -> String {
    let gibi = bytes as f64 / f64::from(1 << 30);
    if gibi < 100.0 { format!("{gibi:.1}Gi") } else { format!("{gibi:.0}Gi") }
}

/// The first label of a host's name, which tells nodes of EC2 apart.
pub fn host(name: &str) -> String {
    escape(name.split('.').next().unwrap_or(name))
}

/// Capacity type of a node; `-` where it is not known.
pub fn bought(capacity_type: &str) -> &str {
    match capacity_type {
        labels::ON_DEMAND => "on-demand",
        labels::SPOT => "spot",
        "" => "-",
        other => other,
    }
}

/// Text of the cluster, and `-` for none.
pub fn text(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { escape(text) }
}
