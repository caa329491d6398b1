//! `plan --html`: the answer as one page that works offline. Names are whoever's who may name an object: all text is escaped, and
//! the page allows no script and no request.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dovetail_core::Problem;
use dovetail_core::pack::Packing;

use super::answer::{pod_name, waiting};
use super::difference::PlanDifference;
use super::live::{HOURS_OF_A_MONTH, LiveSummary};
use super::otherwise::Alternative;
use super::table::{OPTIONS_NAMED, rows};
use crate::live::escape::escape;

/// Most pods that a reason names.
const PODS_NAMED: usize = 20;
/// Headers of the table of nodes, by the cells of a row of the terminal's.
const HEADERS: [&str; 10] =
    ["Nodes", "Pool", "Cheapest type", "Zones", "Capacity", "Pods", "CPU", "Memory", "$/h each", "Options"];

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";

const STYLE: &str = "<style>
:root { color-scheme: light dark; --line: #8886; --bar: #3b7dd8; --bad: #c0392b; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.totals { display: flex; flex-wrap: wrap; gap: 1rem 3rem; padding: 0; list-style: none; }
.totals b { display: block; font-size: 1.4rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.bar { background: var(--bar); height: .7rem; min-width: 2px; border-radius: 2px; }
.bad { color: var(--bad); }
pre { overflow-x: auto; border: 1px solid var(--line); padding: .7rem; }
footer { margin-top: 2rem; font-size: .85rem; opacity: .8; }
</style>\n";

/// All that the page shows.
pub(super) struct Page<'a> {
    pub problem: &'a Problem,
    pub packing: &'a Packing,
    pub alternatives: &'a [Alternative],
    pub difference: Option<&'a PlanDifference>,
    pub live: Option<&'a LiveSummary>,
    pub warnings: &'a [String],
}

/// Text for HTML: without controls and turned text, and without markup.
fn safe(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for one in escape(text).chars() {
        match one {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            one => out.push(one),
        }
    }
    out
}

impl Page<'_> {
    pub(super) fn render(&self) -> String {
        let name = safe(&self.problem.name);
        let mut text = format!("{HEAD}<title>Plan: {name}</title>\n{STYLE}</head>\n<body>\n<h1>Plan: {name}</h1>\n");
        self.totals(&mut text);
        self.pending(&mut text);
        self.nodes(&mut text);
        self.otherwise(&mut text);
        if let Some(difference) = self.difference {
            let _ = writeln!(text, "<h2>Difference</h2>\n<pre>{}</pre>", safe_lines(&difference.lines()));
        }
        if !self.warnings.is_empty() {
            text.push_str("<h2>Warnings</h2>\n<ul>\n");
            for one in self.warnings {
                let _ = writeln!(text, "<li>{}</li>", safe(one));
            }
            text.push_str("</ul>\n");
        }
        text.push_str("<footer>Prices are those of each node's cheapest option. A month has 730 hours.</footer>\n");
        text.push_str("</body>\n</html>\n");
        text
    }

    fn totals(&self, text: &mut String) {
        let price: f64 = self.packing.claims.iter().map(|claim| claim.price).fold(0.0, |sum, price| sum + price);
        let (all, pending) = (waiting(self.problem), self.packing.unscheduled.len());
        let on_existing: usize = self.packing.on_existing.iter().map(|(_, pods)| pods.len()).sum();
        let mut totals = vec![
            ("new nodes", self.packing.claims.len().to_string()),
            ("of the new nodes", format!("${price:.4} an hour, ${:.0} a month", price * HOURS_OF_A_MONTH)),
            ("pods placed", format!("{} of {all}", all - pending)),
            ("of them on nodes that are there", on_existing.to_string()),
        ];
        if let Some(live) = self.live {
            totals.push(("now", live.now()));
        }
        text.push_str("<ul class=\"totals\">\n");
        for (name, value) in totals {
            let _ = writeln!(text, "<li><b>{}</b>{name}</li>", safe(&value));
        }
        text.push_str("</ul>\n");
    }

    fn pending(&self, text: &mut String) {
        let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (pod, reason) in &self.packing.unscheduled {
            let sentence = match reason.remedy() {
                "" => reason.to_string(),
                remedy => format!("{reason}. To end that, {remedy}."),
            };
            by_reason.entry(sentence).or_default().push(pod_name(self.problem, *pod));
        }
        if by_reason.is_empty() {
            return;
        }
        text.push_str("<h2 class=\"bad\">Pods that stay pending</h2>\n<div class=\"scroll\"><table>\n");
        text.push_str("<tr><th class=\"n\">Pods</th><th>Names</th><th>Reason</th></tr>\n");
        for (reason, mut pods) in by_reason {
            pods.sort_unstable();
            let count = pods.len();
            let mut names = pods.iter().take(PODS_NAMED).map(|pod| safe(pod)).collect::<Vec<_>>().join(", ");
            if count > PODS_NAMED {
                let _ = write!(names, " and {} more", count - PODS_NAMED);
            }
            let reason = safe(&reason);
            let _ = writeln!(text, "<tr><td class=\"n\">{count}</td><td>{names}</td><td>{reason}</td></tr>");
        }
        text.push_str("</table></div>\n");
    }

    fn nodes(&self, text: &mut String) {
        if self.packing.claims.is_empty() {
            return;
        }
        text.push_str("<h2>New nodes</h2>\n<div class=\"scroll\"><table>\n<tr>");
        let numeric = |at: usize| if matches!(at, 0 | 5..=8) { " class=\"n\"" } else { "" };
        for (at, name) in HEADERS.iter().enumerate() {
            let _ = write!(text, "<th{}>{name}</th>", numeric(at));
        }
        text.push_str("</tr>\n");
        for (row, count) in rows(self.problem, self.packing, OPTIONS_NAMED) {
            let _ = write!(text, "<tr><td class=\"n\">{count}</td>");
            for (at, cell) in row.iter().enumerate() {
                let _ = write!(text, "<td{}>{}</td>", numeric(at + 1), safe(cell));
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</table></div>\n");
    }

    fn otherwise(&self, text: &mut String) {
        let most = self.alternatives.iter().map(|one| one.hourly_price).fold(0.0, f64::max);
        text.push_str("<h2>What they cost, and would cost otherwise</h2>\n<div class=\"scroll\"><table>\n");
        text.push_str("<tr><th>Way</th><th class=\"n\">Nodes</th><th class=\"n\">$ an hour</th>");
        text.push_str("<th class=\"n\">$ a month</th><th class=\"n\">Pods pending</th><th></th></tr>\n");
        for one in self.alternatives {
            let Alternative { name, nodes, hourly_price, monthly_price, pending } = one;
            let share = if most > 0.0 { hourly_price / most * 100.0 } else { 0.0 };
            let _ = writeln!(
                text,
                "<tr><td>{}</td><td class=\"n\">{nodes}</td><td class=\"n\">{hourly_price:.4}</td>\
                 <td class=\"n\">{monthly_price:.0}</td><td class=\"n\">{pending}</td>\
                 <td style=\"width:30%\"><div class=\"bar\" style=\"width:{share:.1}%\"></div></td></tr>",
                safe(name)
            );
        }
        text.push_str("</table></div>\n");
    }
}

/// Lines, each made safe.
fn safe_lines(text: &str) -> String {
    text.lines().map(|line| safe(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_never_markup() {
        assert_eq!(safe("<script>alert('x')</script>"), "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
        assert_eq!(safe("a\u{1b}[31m\"&\u{202e}"), "a\\u{1b}[31m&quot;&amp;\\u{202e}");
        assert_eq!(safe_lines("a<\nb"), "a&lt;\nb\n");
    }
}
