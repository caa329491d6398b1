//! Page of metrics in Prometheus' older text format, for whoever does not ask for OpenMetrics: counters have their sample's name,
//! and there are no exemplars, units or end.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Content type for a client that asks for nothing else.
pub const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Content type for a client that asks for OpenMetrics.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Endings that the text format keeps for counters, histograms and summaries. Karpenter has gauges that end so.
const RESERVED: [&str; 4] = ["_total", "_count", "_sum", "_bucket"];

/// True if an `Accept` header asks for OpenMetrics rather than for text.
#[must_use]
pub fn asks_open_metrics(accept: &str) -> bool {
    let quality = |kind: &str| {
        let ranges = accept.split(',').map(|range| range.split(';').map(str::trim).collect::<Vec<_>>());
        let own = ranges.filter(|parts| parts.first().is_some_and(|name| name.eq_ignore_ascii_case(kind)));
        let stated = own.map(|parts| {
            let said = parts.iter().skip(1).find_map(|part| part.strip_prefix("q="));
            said.map_or(1.0, |said| said.parse::<f64>().unwrap_or(0.0))
        });
        stated.fold(0.0, f64::max)
    };
    let open = quality("application/openmetrics-text");
    open > 0.0 && open >= quality("text/plain")
}

/// A page as [`Metrics::text`](super::Metrics::text) has it, in Prometheus' text format.
#[must_use]
pub fn text_format(open: &str) -> String {
    let kinds = || open.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let counters: BTreeSet<&str> = kinds().filter(|(_, kind)| *kind == "counter").map(|(name, _)| name).collect();
    let mut text = String::with_capacity(open.len());
    for line in open.lines() {
        // Writing into a String does not fail.
        let _ = match line.strip_prefix("# ") {
            None => writeln!(text, "{}", without_exemplar(line)),
            Some(about) => match about.split_once(' ').and_then(|(what, rest)| Some((what, rest.split_once(' ')?))) {
                Some((what @ ("HELP" | "TYPE"), (name, rest))) => {
                    let counted = if counters.contains(name) && !name.ends_with("_total") { "_total" } else { "" };
                    let rest = if what == "TYPE" { kind_of(name, rest) } else { rest };
                    writeln!(text, "# {what} {name}{counted} {rest}")
                }
                _ => Ok(()),
            },
        };
    }
    text
}

/// A kind as the text format has it.
fn kind_of<'a>(name: &str, kind: &'a str) -> &'a str {
    let reserved = RESERVED.iter().any(|ending| name.ends_with(ending));
    match kind {
        "gauge" if reserved => "untyped",
        "unknown" => "untyped",
        "info" | "stateset" => "gauge",
        other => other,
    }
}

/// A sample without what follows its value. A label's value may hold anything.
fn without_exemplar(line: &str) -> &str {
    let (mut quoted, mut escaped) = (false, false);
    for (at, letter) in line.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '#' if !quoted => return line[..at].trim_end(),
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_page_is_told_as_text() {
        let open = "# HELP a_seconds Time.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
                    a_seconds_total{b=\"# {x=\\\"1\\\"} 2\"} 1.5 # {trace_id=\"ab\"} 0.3\n\
                    # HELP c_total Cost.\n# TYPE c_total gauge\nc_total 2\n\
                    # HELP n_count Number.\n# TYPE n_count gauge\nn_count 3\n\
                    # HELP u What.\n# TYPE u unknown\nu 1\n# EOF\n";
        let text = "# HELP a_seconds_total Time.\n# TYPE a_seconds_total counter\n\
                    a_seconds_total{b=\"# {x=\\\"1\\\"} 2\"} 1.5\n\
                    # HELP c_total Cost.\n# TYPE c_total untyped\nc_total 2\n\
                    # HELP n_count Number.\n# TYPE n_count untyped\nn_count 3\n\
                    # HELP u What.\n# TYPE u untyped\nu 1\n";
        assert_eq!(text_format(open), text);
    }

    #[test]
    fn open_metrics_is_for_who_asks_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for accept in [prometheus, "application/openmetrics-text", "text/html, Application/OpenMetrics-Text; q=0.9"] {
            assert!(asks_open_metrics(accept), "{accept}");
        }
        for accept in [
            "",
            "*/*",
            "text/plain",
            "text/plain,application/openmetrics-text;q=0.5",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=x",
        ] {
            assert!(!asks_open_metrics(accept), "{accept}");
        }
    }
}
