//! The report for a person: a line a check, the remedy below it.

use super::{Light, Report};
use crate::live::escape::escape_lines;

pub(super) fn render(report: &Report) -> String {
    let mut lines = vec![format!("Cluster {}; settings: {}", report.server, report.settings_from), String::new()];
    for one in &report.checks {
        lines.push(format!("{:<8} {:<12} {}", name(one.finding.light), one.check, one.finding.what));
        if !one.finding.remedy.is_empty() {
            lines.push(format!("{:<21} to do: {}", "", one.finding.remedy));
        }
    }
    let count = |light| report.checks.iter().filter(|one| one.finding.light == light).count();
    lines.push(String::new());
    lines.push(format!(
        "{} green, {} yellow, {} red, {} cannot be asked",
        count(Light::Green),
        count(Light::Yellow),
        count(Light::Red),
        count(Light::Unknown)
    ));
    escape_lines(&lines)
}

fn name(light: Light) -> &'static str {
    match light {
        Light::Green => "green",
        Light::Unknown => "unknown",
        Light::Yellow => "YELLOW",
        Light::Red => "RED",
    }
}
