//! Metrics that show a state, written when they are asked for.

use std::fmt::Write as _;

/// A page of metrics that is being written, in the OpenMetrics format.
#[derive(Debug, Default)]
pub struct MetricsPage {
    text: String,
    series: usize,
}

impl MetricsPage {
    /// A gauge begins; its samples follow.
    pub fn gauge(&mut self, name: &str, help: &str) {
        self.begin(name, "gauge", help);
    }

    /// A counter begins; its samples follow.
    pub fn counter(&mut self, name: &str, help: &str) {
        self.begin(name, "counter", help);
    }

    pub(super) fn begin(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
    }

    /// A sample of what was begun last. Labels without a value are left out: to Prometheus that is the same.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.series += 1;
        self.text.push_str(name);
        let mut begun = false;
        for (key, text) in labels.iter().filter(|(_, text)| !text.is_empty()) {
            self.text.push(if std::mem::replace(&mut begun, true) { ',' } else { '{' });
            self.text.push_str(key);
            self.text.push_str("=\"");
            escape(text, &mut self.text);
            self.text.push('"');
        }
        if begun {
            self.text.push('}');
        }
        // Writing into a String does not fail.
        let _ = writeln!(self.text, " {value}");
    }

    /// Number of samples.
    pub fn series(&self) -> usize {
        self.series
    }

    /// All that was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn escape(text: &str, to: &mut String) {
    for letter in text.chars() {
        match letter {
            '\\' => to.push_str("\\\\"),
            '"' => to.push_str("\\\""),
            '\n' => to.push_str("\\n"),
            other => to.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_label_is_escaped() {
        let mut page = MetricsPage::default();
        page.gauge("a", "What a is");
        page.sample("a", &[("b", "x\"y\\z\n"), ("c", "")], 1.5);
        page.sample("a", &[], 2.0);
        let expected = "# HELP a What a is.\n# TYPE a gauge\na{b=\"x\\\"y\\\\z\\n\"} 1.5\na 2\n";
        assert_eq!((page.text(), page.series()), (expected, 2));
    }
}
