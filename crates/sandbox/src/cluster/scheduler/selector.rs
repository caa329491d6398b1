//! Label selectors and node-selector terms, compiled once and matched often.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

pub(crate) type Labels = BTreeMap<String, String>;

/// One expression over a label (or, in a term's fields, over the node's name).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Expression {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
    Gt(i64),
    Lt(i64),
    /// An operator that Kubernetes does not know: matches nothing, as kube-scheduler treats it.
    Never,
}

impl Expression {
    pub(crate) fn new(key: &str, operator: &str, values: &[String]) -> Self {
        let set = || values.iter().cloned().collect();
        let number = || values.first().and_then(|v| v.parse().ok());
        let test = match operator {
            "In" => Test::In(set()),
            "NotIn" => Test::NotIn(set()),
            "Exists" => Test::Exists,
            "DoesNotExist" => Test::DoesNotExist,
            "Gt" => number().map_or(Test::Never, Test::Gt),
            "Lt" => number().map_or(Test::Never, Test::Lt),
            _ => Test::Never,
        };
        Self { key: key.to_owned(), test }
    }

    /// The expression `key in (value)`.
    pub(crate) fn is(key: &str, value: &str) -> Self {
        Self::new(key, "In", &[value.to_owned()])
    }

    fn matches(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match &self.test {
            Test::In(set) => value.is_some_and(|v| set.contains(v)),
            Test::NotIn(set) => value.is_none_or(|v| !set.contains(v)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::Gt(bound) => number().is_some_and(|v| v > *bound),
            Test::Lt(bound) => number().is_some_and(|v| v < *bound),
            Test::Never => false,
        }
    }
}

/// A label selector. An absent one (`None` in the API) matches nothing, an empty one everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodSelector {
    expressions: Vec<Expression>,
    nothing: bool,
}

impl PodSelector {
    pub(crate) fn new(written: Option<&LabelSelector>) -> Self {
        let Some(written) = written else { return Self { nothing: true, ..Self::default() } };
        let mut expressions = Vec::new();
        for (key, value) in written.match_labels.iter().flatten() {
            expressions.push(Expression::is(key, value));
        }
        for e in written.match_expressions.iter().flatten() {
            expressions.push(Expression::new(&e.key, &e.operator, e.values.as_deref().unwrap_or_default()));
        }
        Self { expressions, nothing: false }
    }

    pub(crate) fn of_labels<'a>(labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        Self { expressions: labels.into_iter().map(|(k, v)| Expression::is(k, v)).collect(), nothing: false }
    }

    /// Narrows the selector by one more expression (`matchLabelKeys`).
    pub(crate) fn narrow(&mut self, expression: Expression) {
        self.expressions.push(expression);
    }

    /// Narrows the selector by all of another.
    pub(crate) fn narrow_by(&mut self, other: Self) {
        self.nothing |= other.nothing;
        self.expressions.extend(other.expressions);
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        !self.nothing && self.expressions.iter().all(|e| e.matches(labels.get(&e.key).map(String::as_str)))
    }

    /// True if the selector asks for nothing, so that it matches every object.
    pub(crate) fn is_everything(&self) -> bool {
        !self.nothing && self.expressions.is_empty()
    }
}

/// One of the alternatives of a required node affinity; all its expressions must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SelectorTerm {
    labels: Vec<Expression>,
    fields: Vec<Expression>,
}

impl SelectorTerm {
    pub(crate) fn new(written: &NodeSelectorTerm) -> Self {
        let compile = |list: &Option<Vec<NodeSelectorRequirement>>| {
            list.iter()
                .flatten()
                .map(|e| Expression::new(&e.key, &e.operator, e.values.as_deref().unwrap_or_default()))
                .collect()
        };
        Self { labels: compile(&written.match_expressions), fields: compile(&written.match_fields) }
    }

    /// An empty term matches no node (API documentation of `NodeSelectorTerm`).
    pub(crate) fn matches(&self, node_name: &str, labels: &Labels) -> bool {
        !(self.labels.is_empty() && self.fields.is_empty())
            && self.labels.iter().all(|e| e.matches(labels.get(&e.key).map(String::as_str)))
            && self.fields.iter().all(|e| e.key == "metadata.name" && e.matches(Some(node_name)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn absent_selector_matches_nothing_and_empty_one_everything() {
        assert!(!PodSelector::new(None).matches(&labels(&[("a", "b")])));
        assert!(PodSelector::new(Some(&LabelSelector::default())).matches(&Labels::new()));
    }

    #[test]
    fn not_in_matches_an_absent_label_and_gt_needs_a_number() {
        assert!(Expression::new("k", "NotIn", &["v".into()]).matches(None));
        assert!(Expression::new("k", "Gt", &["3".into()]).matches(Some("4")));
        assert!(!Expression::new("k", "Gt", &["3".into()]).matches(Some("x")));
    }

    #[test]
    fn an_empty_term_matches_no_node() {
        assert!(!SelectorTerm::new(&NodeSelectorTerm::default()).matches("n", &labels(&[("a", "b")])));
    }
}
