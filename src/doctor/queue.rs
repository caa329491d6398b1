//! The interruption queue, and the rules of EventBridge that send to it.

use dovetail_api::names::conditions::{INTERRUPTIONS_HEARD, TRUE};
use dovetail_api::v1::condition;
use dovetail_cloud::ec2::account_facts::SentEvents;
use dovetail_cloud::{CloudIdentity as _, CloudQueue as _};
use tokio::time::timeout;

use super::account::NO_AWS;
use super::{ASKED_WITHIN, Finding, Installation};
use crate::live::describe;
use crate::run::preflight::named;

/// Events that have to come, by source and detail-type (deploy/cloudformation has their rules).
const EVENTS: [(&str, &str); 5] = [
    ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    ("aws.ec2", "EC2 Instance State-change Notification"),
    ("aws.ec2", OF_RESERVATIONS),
    ("aws.health", "AWS Health Event"),
];
/// The event that only classes with capacity reservations need.
const OF_RESERVATIONS: &str = "EC2 Capacity Reservation Instance Interruption Warning";
/// Remedy where the rules cannot be asked for.
const SEE_RULES: &str = "look for its rules: aws events list-rule-names-by-target --target-arn QUEUE";

/// The queue. It is not received from: that would hide messages from the control plane.
pub(super) async fn queue(installation: &Installation) -> Finding {
    let name = installation.settings.interruption_queue.as_str();
    let unheard = installation.pools.iter().flatten().find_map(|pool| {
        let known = &pool.status.as_ref()?.conditions;
        condition(known, INTERRUPTIONS_HEARD).filter(|one| one.status != TRUE).map(|one| one.message.clone())
    });
    if let Some(why) = unheard {
        return Finding::red(why, "allow sqs:GetQueueUrl, ReceiveMessage and DeleteMessage, or deploy the stack again");
    }
    if name.is_empty() {
        let what = "no INTERRUPTION_QUEUE is set: spot nodes end without a warning to their pods";
        return Finding::yellow(what, "deploy the stack, and set INTERRUPTION_QUEUE (settings.interruptionQueue)");
    }
    let cloud = match &installation.cloud {
        Ok(cloud) => cloud,
        Err(why) => return Finding::unknown(format!("the queue {name} cannot be asked for: {why}"), NO_AWS),
    };
    if let Err(why) = named::queue(&installation.settings, cloud.region()) {
        return Finding::red(describe(&why), "set the queue of the cluster's own region");
    }
    let url = match cloud.queue_url(name).await {
        Ok(url) => url,
        Err(why) => {
            return Finding::red(
                format!("the queue {name}: {why}"),
                "deploy the stack again, or set INTERRUPTION_QUEUE",
            );
        }
    };
    let has_reservations = installation.classes.iter().flatten().any(|class| {
        let status = class.status.as_ref();
        status.is_some_and(|status| !status.capacity_reservations.is_empty())
    });
    match timeout(ASKED_WITHIN, cloud.events_sent_to(&url)).await {
        Ok(Ok(sent)) => judge(name, &sent, has_reservations),
        Ok(Err(why)) => {
            Finding::unknown(format!("the queue {name} is there; its rules are not known: {why}"), SEE_RULES)
        }
        Err(_) => Finding::unknown(format!("the queue {name} is there; EventBridge does not answer"), SEE_RULES),
    }
}

fn judge(name: &str, sent: &SentEvents, has_reservations: bool) -> Finding {
    let needed = EVENTS.iter().filter(|(_, kind)| has_reservations || *kind != OF_RESERVATIONS);
    let missing: Vec<&str> = needed.filter(|(source, kind)| !sent.has(source, kind)).map(|(_, kind)| *kind).collect();
    match (missing.as_slice(), sent.count()) {
        ([], count) => {
            Finding::green(format!("the queue {name} is there, and {count} rules of EventBridge send to it"))
        }
        (_, 0) => Finding::red(
            format!("the queue {name} is there, and no rule of EventBridge sends to it"),
            "deploy the stack again: its rules send to the queue",
        ),
        (missing, _) => Finding::yellow(
            format!("no rule of EventBridge sends to the queue {name}: {}", missing.join(", ")),
            "deploy the stack again: its rules send to the queue",
        ),
    }
}
