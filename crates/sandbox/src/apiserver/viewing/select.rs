//! Label and field selectors.
use crate::apiserver::error::{ApiError, Result};
use crate::apiserver::kinds::validate::label_value_is_good;
use crate::apiserver::registry::ResourceDef;
use serde_json::Value;

/// One requirement on labels.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Labels {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Greater(String, i64),
    Less(String, i64),
}

impl Labels {
    fn holds(&self, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"].get(key).and_then(Value::as_str);
        let number = |key: &str| label(key).and_then(|text| text.parse::<i64>().ok());
        match self {
            Labels::In(key, values) => label(key).is_some_and(|text| values.iter().any(|v| v == text)),
            Labels::NotIn(key, values) => label(key).is_none_or(|text| values.iter().all(|v| v != text)),
            Labels::Exists(key) => label(key).is_some(),
            Labels::Absent(key) => label(key).is_none(),
            Labels::Greater(key, bound) => number(key).is_some_and(|n| n > *bound),
            Labels::Less(key, bound) => number(key).is_some_and(|n| n < *bound),
        }
    }
}

/// One requirement on a field: a path, whether it has to be equal, and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    pointer: String,
    equal: bool,
    value: String,
}

impl Field {
    fn holds(&self, object: &Value) -> bool {
        // The reporter of an Event, by the older field or the newer one.
        if self.pointer == "/source" {
            let component = ["/source/component", "/reportingComponent"].map(|pointer| object.pointer(pointer));
            let said = component.into_iter().flatten().filter_map(Value::as_str).find(|text| !text.is_empty());
            return (said.unwrap_or_default() == self.value) == self.equal;
        }
        let text = match object.pointer(&self.pointer) {
            Some(Value::String(text)) => text.clone(),
            // Only unschedulable, of the fields that select, is no string; absent means false.
            None | Some(Value::Null) if self.pointer == "/spec/unschedulable" => "false".to_owned(),
            None | Some(Value::Null) => String::new(),
            Some(other) => other.to_string(),
        };
        (text == self.value) == self.equal
    }
}

/// Selectors of labels and fields that restrict a list or a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListSelector {
    labels: Vec<Labels>,
    fields: Vec<Field>,
}

impl ListSelector {
    /// Parses both selectors as they stand in a query.
    ///
    /// # Errors
    /// 400 with the part that cannot be read.
    pub fn parse(labels: Option<&str>, fields: Option<&str>) -> Result<Self> {
        let labels = split(labels.unwrap_or_default()).into_iter().map(label).collect::<Result<_>>()?;
        let fields = split(fields.unwrap_or_default()).into_iter().map(field).collect::<Result<_>>()?;
        Ok(ListSelector { labels, fields })
    }

    /// A LabelSelector object as a selector. An empty one selects everything.
    pub fn of_labels(selector: &Value) -> Self {
        let mut labels = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            labels.push(Labels::In(key.clone(), vec![value.as_str().unwrap_or_default().to_owned()]));
        }
        for e in selector["matchExpressions"].as_array().into_iter().flatten() {
            let key = e["key"].as_str().unwrap_or_default().to_owned();
            let values = crate::apiserver::meta::strings(&e["values"]).into_iter().map(str::to_owned).collect();
            match e["operator"].as_str().unwrap_or_default() {
                "In" => labels.push(Labels::In(key, values)),
                "NotIn" => labels.push(Labels::NotIn(key, values)),
                "Exists" => labels.push(Labels::Exists(key)),
                "DoesNotExist" => labels.push(Labels::Absent(key)),
                _ => {}
            }
        }
        ListSelector { labels, fields: Vec::new() }
    }

    pub fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|l| l.holds(object)) && self.fields.iter().all(|f| f.holds(object))
    }

    /// Refuses fields that objects of this kind are not selected by.
    ///
    /// # Errors
    /// 400 with the first such field.
    pub fn known(&self, def: &ResourceDef) -> Result<()> {
        let own: &[&str] = match (def.group.as_str(), def.kind.as_str()) {
            ("", "Pod") => &[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.podIPs",
                "status.nominatedNodeName",
            ],
            ("", "Node") => &["spec.unschedulable"],
            ("", "Namespace") => &["status.phase"],
            ("", "Secret") => &["type"],
            ("", "Service") => &["spec.clusterIP", "spec.type"],
            ("", "Event") => &["involvedObject.", "regarding.", "reason", "reportingComponent", "source", "type"],
            ("apps", "ReplicaSet") | ("", "ReplicationController") => &["status.replicas"],
            ("batch", "Job") => &["status.successful"],
            _ => &[],
        };
        let known = |path: &str| {
            let named = |one: &&str| path == *one || (one.ends_with('.') && path.starts_with(*one));
            matches!(path, "metadata.name" | "metadata.namespace") || own.iter().any(named)
        };
        let paths = self.fields.iter().map(|field| field.pointer.trim_start_matches('/').replace('/', "."));
        match paths.into_iter().find(|path| !known(path)) {
            Some(path) => Err(ApiError::bad_request(format!("field label not supported: {path}"))),
            None => Ok(()),
        }
    }

    /// True if it restricts nothing.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The value that the field at a JSON pointer has to have, when the selector says so.
    pub fn wanted(&self, pointer: &str) -> Option<&str> {
        self.fields.iter().find(|f| f.equal && f.pointer == pointer).map(|f| f.value.as_str())
    }
}

impl std::fmt::Display for ListSelector {
    /// As in a query string, with the keys in order (the form of the scale subresource).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts: Vec<String> = self.labels.iter().map(written).collect();
        parts.sort();
        f.write_str(&parts.join(","))
    }
}

fn written(label: &Labels) -> String {
    match label {
        Labels::In(key, values) if values.len() == 1 => format!("{key}={}", values[0]),
        Labels::In(key, values) => format!("{key} in ({})", values.join(",")),
        Labels::NotIn(key, values) => format!("{key} notin ({})", values.join(",")),
        Labels::Exists(key) => key.clone(),
        Labels::Absent(key) => format!("!{key}"),
        Labels::Greater(key, bound) => format!("{key}>{bound}"),
        Labels::Less(key, bound) => format!("{key}<{bound}"),
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts.retain(|p| !p.is_empty());
    parts
}

fn label(part: &str) -> Result<Labels> {
    let bad = || ApiError::bad_request(format!("unable to parse requirement: {part:?}"));
    if let Some(key) = part.strip_prefix('!') {
        return Ok(Labels::Absent(checked(key).ok_or_else(bad)?));
    }
    for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((key, value)) = part.split_once(operator) {
            let values = vec![value.trim().to_owned()];
            let key = checked(key).filter(|_| label_value_is_good(&values[0])).ok_or_else(bad)?;
            return Ok(if equal { Labels::In(key, values) } else { Labels::NotIn(key, values) });
        }
    }
    if let Some((head, list)) = part.split_once('(') {
        let values = list.strip_suffix(')').ok_or_else(bad)?.split(',').map(|v| v.trim().to_owned()).collect();
        let (key, operator) = head.trim().split_once(char::is_whitespace).ok_or_else(bad)?;
        let key = checked(key).ok_or_else(bad)?;
        return match operator.trim() {
            "in" => Ok(Labels::In(key, values)),
            "notin" => Ok(Labels::NotIn(key, values)),
            _ => Err(bad()),
        };
    }
    for operator in ['>', '<'] {
        if let Some((key, bound)) = part.split_once(operator) {
            let (key, bound) = (checked(key).ok_or_else(bad)?, bound.trim().parse().map_err(|_| bad())?);
            return Ok(if operator == '>' { Labels::Greater(key, bound) } else { Labels::Less(key, bound) });
        }
    }
    Ok(Labels::Exists(checked(part).ok_or_else(bad)?))
}

fn checked(key: &str) -> Option<String> {
    let key = key.trim();
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    (!key.is_empty() && key.chars().all(good)).then(|| key.to_owned())
}

fn field(part: &str) -> Result<Field> {
    for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((path, value)) = part.split_once(operator) {
            let pointer = format!("/{}", path.trim().replace('.', "/"));
            return Ok(Field { pointer, equal, value: value.trim().to_owned() });
        }
    }
    Err(ApiError::bad_request(format!("invalid selector: {part:?}; can't understand it")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn holds(labels: &str, fields: &str) -> bool {
        let node = json!({"metadata": {"name": "n1", "labels": {"zone": "a", "arch": "arm64", "cpu": "8"}},
            "spec": {}, "status": {"phase": "Running"}});
        ListSelector::parse(Some(labels), Some(fields)).unwrap().matches(&node)
    }

    #[test]
    fn every_form_of_a_label_selector_is_understood() {
        for yes in [
            "zone=a",
            "zone==a",
            "zone!=b",
            "gone!=x",
            "zone in (a, b)",
            "zone notin (b,c)",
            "zone",
            "!gone",
            "zone in (a,b),arch=arm64,!gone",
            "cpu>4",
            "cpu<9",
            "",
        ] {
            assert!(holds(yes, ""), "{yes}");
        }
        for no in ["zone=b", "zone!=a", "zone in (b)", "zone notin (a)", "gone", "!zone", "cpu>8", "gone in (a)"] {
            assert!(!holds(no, ""), "{no}");
        }
    }

    #[test]
    fn field_selectors_take_any_path_and_absent_means_empty() {
        assert!(holds("", "metadata.name=n1,status.phase!=Pending,spec.nodeName=,spec.unschedulable=false"));
        assert!(!holds("", "metadata.name==n2"));
    }

    #[test]
    fn source_of_an_event_is_its_component_or_who_reports_it() {
        let source = ListSelector::parse(None, Some("source=karpenter")).unwrap();
        for event in [
            json!({"source": {"component": "karpenter"}, "reportingComponent": ""}),
            json!({"source": {}, "reportingComponent": "karpenter"}),
            json!({"reportingComponent": "karpenter"}),
        ] {
            assert!(source.matches(&event), "{event}");
        }
        assert!(!source.matches(&json!({"source": {"component": "kubelet"}, "reportingComponent": "karpenter"})));
        assert!(!source.matches(&json!({})));
    }

    #[test]
    fn a_selector_that_cannot_be_read_is_a_bad_request() {
        for bad in ["zone in a", "zone in (a", "a b", "=x", "cpu>many"] {
            assert_eq!(ListSelector::parse(Some(bad), None).unwrap_err().code(), 400, "{bad}");
        }
        assert_eq!(ListSelector::parse(None, Some("spec.nodeName")).unwrap_err().code(), 400);
    }

    #[test]
    fn label_selector_object_prints_as_scale_subresource_text() {
        let selector = json!({"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["x", "y"]}]});
        assert_eq!(ListSelector::of_labels(&selector).to_string(), "a=1,b=2,c in (x,y)");
    }
}
