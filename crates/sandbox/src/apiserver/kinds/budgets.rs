//! Checks of PodDisruptionBudgets, and of the selectors of labels in them.
use crate::apiserver::error::StatusCause;
use crate::apiserver::kinds::validate::label_key_is_good;
use serde_json::Value;

/// All that is wrong with a budget's `spec`.
pub fn causes(spec: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        causes.push(StatusCause::invalid("spec", "Invalid value: minAvailable and maxUnavailable cannot be both set"));
    }
    for member in ["minAvailable", "maxUnavailable"] {
        causes.extend(share(&spec[member]).map(|why| StatusCause::invalid(&format!("spec.{member}"), why)));
    }
    causes.extend(selector(&spec["selector"], "spec.selector"));
    let policy = &spec["unhealthyPodEvictionPolicy"];
    if !policy.is_null() && policy != "IfHealthyBudget" && policy != "AlwaysAllow" {
        let why = format!("Unsupported value: {policy}: supported values: \"AlwaysAllow\", \"IfHealthyBudget\"");
        causes.push(StatusCause::new("FieldValueNotSupported", "spec.unhealthyPodEvictionPolicy", why));
    }
    causes
}

/// The mistake in a number of pods, or a share of them.
fn share(value: &Value) -> Option<String> {
    let why = match value {
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            "must be greater than or equal to 0"
        }
        Value::String(text) => match text.strip_suffix('%') {
            Some(number) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
                let within = number.parse::<u32>().is_ok_and(|number| number <= 100);
                return (!within).then(|| format!("Invalid value: {value}: must not be greater than 100%"));
            }
            _ => "a valid percent string must be a numeric string followed by an ending '%'",
        },
        _ => return None,
    };
    Some(format!("Invalid value: {value}: {why}"))
}

/// Mistakes in a selector's expressions.
fn selector(selector: &Value, at: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, one) in selector["matchExpressions"].as_array().into_iter().flatten().enumerate() {
        let field = format!("{at}.matchExpressions[{index}]");
        let values = one["values"].as_array().map_or(0, Vec::len);
        match one["operator"].as_str().unwrap_or_default() {
            "In" | "NotIn" if values == 0 => causes.push(StatusCause::required(&format!("{field}.values"))),
            "Exists" | "DoesNotExist" if values > 0 => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(StatusCause::forbidden(&format!("{field}.values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let why = format!("Invalid value: {other:?}: not a valid selector operator");
                causes.push(StatusCause::invalid(&format!("{field}.operator"), why));
            }
        }
        if !label_key_is_good(one["key"].as_str().unwrap_or_default()) {
            let why = format!("Invalid value: {}: name part must consist of alphanumeric characters", one["key"]);
            causes.push(StatusCause::invalid(&format!("{field}.key"), why));
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_budget_is_a_number_from_zero_or_a_share_up_to_all() {
        for good in [json!(0), json!(2_147_483_647), json!("0%"), json!("100%"), Value::Null] {
            assert_eq!(share(&good), None, "{good}");
        }
        for bad in [json!(-1), json!("101%"), json!("-1%"), json!("5.5%"), json!("5"), json!("%"), json!("")] {
            assert!(share(&bad).is_some(), "{bad}");
        }
    }
}
