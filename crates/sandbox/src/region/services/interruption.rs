//! The events that EventBridge puts into the interruption queue.

use serde_json::{Value, json};

use crate::faults::QueueLoss;
use crate::region::config::ACCOUNT;
use crate::region::{Cx, ids};

/// `detail-type` of a spot interruption's warning.
pub(crate) const SPOT_WARNING: &str = "EC2 Spot Instance Interruption Warning";
/// `detail-type` of a rebalance recommendation.
pub(crate) const REBALANCE: &str = "EC2 Instance Rebalance Recommendation";
/// `detail-type` of a change of state.
pub(crate) const STATE_CHANGE: &str = "EC2 Instance State-change Notification";

/// Sends an event about an instance to the cluster's queue, as the rules of Karpenter's CloudFormation template do for
/// every instance of the account.
pub(crate) fn announce(cx: &mut Cx<'_>, instance: &str, detail_type: &str, detail: Value) {
    // The warning names the zone where the others name the account: so do the events of AWS.
    let resource = match (detail_type, cx.state.instances.get(instance)) {
        (SPOT_WARNING | REBALANCE, Some(i)) => {
            format!("arn:{}:ec2:{}:instance/{instance}", cx.config.partition(), i.zone)
        }
        _ => cx.arn("instance", instance),
    };
    let body = json!({
        "version": "0",
        "id": ids::uuid(&mut cx.state.queues.ids),
        "detail-type": detail_type,
        "source": "aws.ec2",
        "account": ACCOUNT,
        "time": format!("{:.0}", cx.wall),
        "region": cx.config.region,
        "resources": [resource],
        "detail": detail,
    });
    deliver(cx, &body.to_string());
}

/// Puts an event into the queue, twice if the faults say so.
pub(crate) fn deliver(cx: &mut Cx<'_>, body: &str) {
    let copies = if cx.faults.duplicates_message() { 2 } else { 1 };
    let name = cx.config.queue_name();
    if cx.faults.queue_lost() == Some(QueueLoss::Deleted) {
        return cx.state.queues.empty(&name);
    }
    for _ in 0..copies {
        if let Some(queue) = cx.state.queues.get_mut(&name) {
            queue.send(body.to_owned(), cx.now, cx.wall);
        }
    }
}
