//! A reading as plain text, for a pipe.

use std::fmt::Write as _;

use super::columns::{Column, NODES, POOLS, fitting};
use super::facts::Facts;
use super::figures::{age, cores, gibibytes, text};

/// Characters of a line, as far as tables go.
const WIDTH: usize = 160;
/// Decisions that are printed.
const DECISIONS: usize = 20;

pub fn render(facts: &Facts) -> String {
    let (mut out, sums) = (String::new(), &facts.totals);
    let _ = writeln!(
        out,
        "{} nodes, {} Ready, {} coming, {} spot; {} pods, {} pending; ${:.3} an hour; CPU {} of {}, memory {} of {}",
        sums.nodes,
        sums.ready,
        sums.coming,
        sums.spot,
        sums.pods,
        sums.pending,
        sums.price,
        cores(sums.cpu.used),
        cores(sums.cpu.of),
        gibibytes(sums.memory.used),
        gibibytes(sums.memory.of),
    );
    table(&mut out, &NODES, &facts.nodes, facts);
    table(&mut out, &POOLS, &facts.pools, facts);
    for row in &facts.pending {
        let pod = text(&format!("{}/{}", row.namespace, row.pod));
        let _ = writeln!(
            out,
            "pending  {} x {pod} for {}: {}",
            row.count,
            age(row.since, facts.at),
            if row.why.is_empty() { "nothing was said yet".to_owned() } else { text(&row.why) }
        );
    }
    for row in facts.decisions.iter().take(DECISIONS) {
        let ago = age(row.at, facts.at);
        let _ = writeln!(out, "{ago} ago  {}  {}  {}", text(&row.reason), text(&row.object), text(&row.message));
    }
    if !facts.missing.is_empty() {
        out.push_str("Not read, so the figures are without it:\n");
    }
    for one in &facts.missing {
        let _ = writeln!(out, "  {}: {}", text(&one.what), text(&one.why));
    }
    out
}

fn table<T>(out: &mut String, columns: &[Column<T>], rows: &[T], facts: &Facts) {
    if rows.is_empty() {
        return;
    }
    let shown = fitting(columns, WIDTH);
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| shown.iter().map(|one| (one.text)(row, facts.at)).collect()).collect();
    let width = |at: usize| {
        let widest = cells.iter().map(|row| row[at].chars().count()).max().unwrap_or_default();
        widest.max(shown[at].title.len())
    };
    let widths: Vec<usize> = (0..shown.len()).map(width).collect();
    let mut line = |texts: Vec<&str>| {
        let padded: Vec<String> = texts.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}")).collect();
        let _ = writeln!(out, "{}", padded.join("  ").trim_end());
    };
    line(shown.iter().map(|one| one.title).collect());
    cells.iter().for_each(|row| line(row.iter().map(String::as_str).collect()));
    out.push('\n');
}
