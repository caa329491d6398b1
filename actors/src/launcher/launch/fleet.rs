//! A call of CreateFleet as it is told: the call, what came of it, and each offering that was refused.

use dovetail_api::v1::EC2NodeClass;
use dovetail_cloud::launch::{LaunchError, LaunchedInstance, OfferingRefusal};

use crate::context::env::Env;
use crate::telemetry::measure::Measure;
use crate::telemetry::span::{OpenSpan, names};

/// Most refusals of one call that become spans.
const MOST_REFUSALS: usize = 64;

/// Counts what a call was refused. The class's status says what zones are called.
pub fn count_refusals(env: &Env, class: &EC2NodeClass, refusals: &[OfferingRefusal]) {
    for refusal in refusals {
        let OfferingRefusal { zone, capacity_type, code, .. } = refusal;
        env.measure(&Measure::LaunchRefused { zone, zone_id: zone_id(class, zone), capacity_type, reason: code });
    }
}

/// Ends a claim's span of a call, with the refusals as spans of their own, each of which is an error, whatever came of the call.
/// `count` is the number of claims that the call was made for.
pub fn end_span(
    env: &Env,
    span: OpenSpan,
    count: u32,
    refusals: &[OfferingRefusal],
    outcome: Result<&LaunchedInstance, &LaunchError>,
) {
    if !span.is_wanted() {
        return;
    }
    // No more than the bound are spans: one call may be refused for hundreds of offerings.
    for (number, refusal) in refusals.iter().take(MOST_REFUSALS).enumerate() {
        let refused = env.span(span.context(), "refused", &number.to_string());
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
        .with("dovetail.nodeclaims", usize::try_from(count).unwrap_or(usize::MAX))
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

/// The id of a zone in which the class has a subnet, as `use1-az1`; empty for another.
fn zone_id<'c>(class: &'c EC2NodeClass, zone: &str) -> &'c str {
    let subnets = class.status.as_ref().map(|status| status.subnets.as_slice()).unwrap_or_default();
    subnets.iter().find(|subnet| subnet.zone == zone).map_or("", |subnet| subnet.zone_id.as_str())
}
