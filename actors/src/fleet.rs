//! A call of CreateFleet as it is told: the call, what came of it, and each offering that was refused.

use dovetail_cloud::launch::{LaunchError, LaunchedInstance, Refusal};

use crate::desk::Desk;
use crate::measure::Measure;
use crate::span::{Open, names};

/// How many refusals of one call are told of.
const MOST_REFUSALS: usize = 64;

/// Tells the call and its refusals, each of which is an error, whatever came of the call.
pub fn called(desk: &Desk, span: Open, refusals: &[Refusal], outcome: Result<&LaunchedInstance, &LaunchError>) {
    for refusal in refusals {
        let Refusal { zone, capacity_type, code, .. } = refusal;
        desk.measure(&Measure::LaunchRefused { zone, capacity_type, reason: code });
    }
    if !span.is_wanted() {
        return;
    }
    for (number, refusal) in refusals.iter().take(MOST_REFUSALS).enumerate() {
        let refused = desk.span(span.context(), "refused", &number.to_string());
        let refused = refused
            .with(names::INSTANCE_TYPE, &*refusal.instance_type)
            .with(names::ZONE, &*refusal.zone)
            .with(names::CAPACITY_TYPE, &*refusal.capacity_type);
        refused.failed(&refusal.code, format!("{}: {}", refusal.code, refusal.message)).end();
    }
    let span = span
        .with("rpc.system", "aws-api")
        .with("rpc.service", "EC2")
        .with("rpc.method", "CreateFleet")
        .with("dovetail.refusals", refusals.len());
    match outcome {
        Ok(instance) => {
            let span = span
                .with(names::INSTANCE, &*instance.id)
                .with(names::INSTANCE_TYPE, &*instance.instance_type)
                .with(names::ZONE, &*instance.zone)
                .with(names::CAPACITY_TYPE, &*instance.capacity_type);
            span.end();
        }
        Err(error) => span.failed(error.reason, &*error.message).end(),
    }
}
