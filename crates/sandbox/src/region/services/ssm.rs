//! SSM's public parameters, over JSON 1.1.

use serde_json::{Value, json};

use crate::region::Cx;
use crate::region::wire::error::AwsError;

/// Carries out an action of SSM.
pub(crate) fn act(cx: &mut Cx<'_>, action: &str, body: &Value) -> Result<Value, AwsError> {
    match action {
        "GetParameter" => {
            let name = body.get("Name").and_then(Value::as_str).ok_or_else(|| AwsError::missing("Name"))?;
            let missing = || AwsError::new("ParameterNotFound", format_args!("Parameter {name} not found."));
            Ok(json!({"Parameter": parameter(cx, name).ok_or_else(missing)?}))
        }
        "GetParameters" => {
            let names: Vec<&str> =
                body.get("Names").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
            if names.is_empty() || names.len() > 10 {
                let message = "1 validation error detected: Member must have length between 1 and 10";
                return Err(AwsError::new("ValidationException", message));
            }
            let looked_up: Vec<(&str, Option<Value>)> = names.into_iter().map(|n| (n, parameter(cx, n))).collect();
            let found: Vec<&Value> = looked_up.iter().filter_map(|(_, value)| value.as_ref()).collect();
            let invalid: Vec<&str> = looked_up.iter().filter(|(_, v)| v.is_none()).map(|(name, _)| *name).collect();
            Ok(json!({"Parameters": found, "InvalidParameters": invalid}))
        }
        _ => Err(AwsError::new("UnknownOperationException", format_args!("unknown operation {action}"))),
    }
}

/// By name or by ARN (`arn:aws:ssm:us-east-1::parameter/aws/service/…`).
fn parameter(cx: &mut Cx<'_>, asked: &str) -> Option<Value> {
    let name = match asked.split_once(":parameter") {
        Some((arn, name)) if arn.starts_with("arn:") => name,
        _ => asked,
    };
    let value = cx.state.images.parameter(name)?;
    let modified = cx.state.images.get(&value).and_then(|image| image.created.parse::<jiff::Timestamp>().ok());
    Some(json!({
        "Name": name,
        "Type": "String",
        "Value": value,
        "Version": 1,
        "LastModifiedDate": modified.map_or(0, jiff::Timestamp::as_second),
        "ARN": format!("arn:{}:ssm:{}::parameter{name}", cx.config.partition(), cx.config.region),
        "DataType": "text",
    }))
}
