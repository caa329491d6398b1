//! Label selectors of rules between pods.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::requirements::Operator;

/// A label selector with everything merged that narrows it. Without a selector a rule matches no pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct Selector {
    nothing: bool,
    expressions: Vec<(String, Operator, Vec<String>)>,
}

impl Selector {
    /// The selector that matches no pod.
    pub fn none() -> Self {
        Self { nothing: true, expressions: vec![] }
    }

    /// Reads a selector.
    ///
    /// # Errors
    /// Names the unknown operator, as a sentence.
    pub fn parse(written: Option<&LabelSelector>) -> Result<Self, String> {
        let Some(written) = written else { return Ok(Self::none()) };
        let mut selector = Self::default();
        for (key, value) in written.match_labels.iter().flatten() {
            selector.narrow(key, Operator::In, vec![value.clone()]);
        }
        for one in written.match_expressions.iter().flatten() {
            let operator = match Operator::named(&one.operator) {
                Some(operator @ (Operator::In | Operator::NotIn | Operator::Exists | Operator::DoesNotExist)) => {
                    operator
                }
                _ => {
                    return Err(format!(
                        "label selector on {}: unknown operator {:?} (allowed: In, NotIn, Exists, DoesNotExist)",
                        one.key, one.operator
                    ));
                }
            };
            selector.narrow(&one.key, operator, one.values.clone().unwrap_or_default());
        }
        selector.expressions.sort();
        Ok(selector)
    }

    /// Adds what `matchLabelKeys` (`In`) and `mismatchLabelKeys` (`NotIn`) mean for a pod with these labels.
    pub fn keyed(mut self, keys: Option<&Vec<String>>, operator: Operator, labels: &BTreeMap<String, String>) -> Self {
        for key in keys.into_iter().flatten() {
            if let Some(value) = labels.get(key) {
                self.narrow(key, operator, vec![value.clone()]);
            }
        }
        self.expressions.sort();
        self
    }

    fn narrow(&mut self, key: &str, operator: Operator, mut values: Vec<String>) {
        values.sort();
        self.expressions.push((key.to_owned(), operator, values));
    }

    /// A label that every pod meant has, and the values that will do.
    pub fn certain(&self) -> Option<(&str, &[String])> {
        let certain = self.expressions.iter().find(|(_, operator, _)| *operator == Operator::In);
        certain.map(|(key, _, values)| (key.as_str(), values.as_slice()))
    }

    /// The label keys that it asks for.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.expressions.iter().map(|(key, _, _)| key.as_str())
    }

    /// True if a pod with these labels is meant.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.nothing
            && self.expressions.iter().all(|(key, operator, values)| {
                let listed = |value: &String| values.contains(value);
                match (operator, labels.get(key)) {
                    (Operator::In, value) => value.is_some_and(listed),
                    (Operator::NotIn, value) => !value.is_some_and(listed),
                    (Operator::Exists, value) => value.is_some(),
                    (_, value) => value.is_none(),
                }
            })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn matches(selector: serde_json::Value, labels: &[(&str, &str)]) -> bool {
        let selector: Option<LabelSelector> = serde_json::from_value(selector).unwrap();
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Selector::parse(selector.as_ref()).unwrap().matches(&labels)
    }

    #[test]
    fn no_selector_matches_nothing_and_an_empty_one_everything() {
        assert!(!matches(serde_json::Value::Null, &[("a", "b")]));
        assert!(matches(serde_json::json!({}), &[]));
    }

    #[test]
    fn all_expressions_have_to_hold() {
        let selector = serde_json::json!({"matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["test"]}]});
        assert!(matches(selector.clone(), &[("app", "web")]));
        assert!(!matches(selector.clone(), &[("app", "web"), ("tier", "test")]));
        assert!(!matches(selector, &[("tier", "prod")]));
    }
}
