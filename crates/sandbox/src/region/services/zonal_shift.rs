//! Zonal shifts of ARC: GetManagedResource, over REST and JSON. The cluster is the one resource that is registered.

use serde_json::{Value, json};

use crate::region::Cx;
use crate::region::wire::error::AwsError;

/// Carries out an action of ARC.
pub(crate) fn act(cx: &mut Cx<'_>, action: &str, body: &Value) -> Result<Value, AwsError> {
    match action {
        "GetManagedResource" => managed_resource(cx, body.get("resource").and_then(Value::as_str).unwrap_or("")),
        _ => Err(AwsError::new("ResourceNotFoundException", "no such path").with_status(404)),
    }
}

fn managed_resource(cx: &Cx<'_>, arn: &str) -> Result<Value, AwsError> {
    let config = cx.config;
    if arn != config.cluster_arn() {
        let message = format!("the resource {arn} is not registered");
        return Err(AwsError::new("ResourceNotFoundException", message).with_status(404));
    }
    let (mut started, mut automatic) = (Vec::new(), Vec::new());
    for (zone, until) in &cx.state.shifts {
        let until = until.map(|until| until.as_second());
        if until.is_some_and(|until| until <= cx.wall.as_second()) {
            continue;
        }
        let mut shift = json!({"appliedStatus": "APPLIED", "awayFrom": zone, "resourceIdentifier": arn});
        match until {
            Some(until) => {
                shift["expiryTime"] = Value::from(until);
                started.push(shift);
            }
            None => automatic.push(shift),
        }
    }
    Ok(
        json!({"arn": arn, "name": config.cluster_name, "appliedWeights": {}, "zonalShifts": started, "autoshifts": automatic}),
    )
}
