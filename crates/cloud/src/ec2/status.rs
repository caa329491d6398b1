//! EC2's status checks (karpenter-aws 5.1): three filters, as EC2 joins those of one call by "and".

use aws_sdk_ec2::types::{Filter, InstanceStatus, InstanceStatusDetails, StatusType};
use dovetail_core::interruption::InterruptionKind;
use dovetail_core::interruption::status::Trouble;
use jiff::Timestamp;

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use super::describe::filter;
use crate::error::CloudError;

const CALL: &str = "DescribeInstanceStatus";
const PAGE: i32 = 1000;
/// Codes of events that end an instance, or interrupt it.
const EVENTS: [&str; 5] =
    ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"];

impl Ec2Cloud {
    /// Ordered, and each once.
    pub(super) async fn describe_troubles(&self) -> Result<Vec<Trouble>, CloudError> {
        let mut all = Vec::new();
        for one in self.describe_statuses(filter("instance-status.status", ["impaired"])).await? {
            let details = one.instance_status.as_ref().map(|status| status.details()).unwrap_or_default();
            all.extend(failed(&one, details, InterruptionKind::InstanceStatus));
        }
        for one in self.describe_statuses(filter("system-status.status", ["impaired"])).await? {
            let details = one.system_status.as_ref().map(|status| status.details()).unwrap_or_default();
            all.extend(failed(&one, details, InterruptionKind::SystemStatus));
        }
        for one in self.describe_statuses(filter("event.code", EVENTS)).await? {
            all.extend(scheduled(&one));
        }
        all.sort();
        all.dedup();
        Ok(all)
    }

    async fn describe_statuses(&self, wanted: Filter) -> Result<Vec<InstanceStatus>, CloudError> {
        let call = self.clients.ec2.describe_instance_status().max_results(PAGE).filters(wanted);
        let mut pages = call.into_paginator().send();
        let mut all = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| classify(CALL, Effect::Repeatable, error))?;
            all.extend(page.instance_statuses.unwrap_or_default());
        }
        Ok(all)
    }
}

/// The checks that have failed; of several the one that has for longest.
fn failed(one: &InstanceStatus, details: &[InstanceStatusDetails], kind: InterruptionKind) -> Option<Trouble> {
    let failed = details.iter().filter(|detail| detail.status == Some(StatusType::Failed));
    let trouble = |detail: &InstanceStatusDetails| Trouble {
        instance: one.instance_id.clone().unwrap_or_default(),
        kind,
        time: detail.impaired_since.as_ref().and_then(moment),
        what: detail.name.as_ref().map(|name| name.as_str().to_owned()).unwrap_or_default(),
    };
    failed.map(trouble).min_by_key(|trouble| (trouble.time.is_none(), trouble.time))
}

/// The first event that is still to come; EC2 says of those that are over that they are.
fn scheduled(one: &InstanceStatus) -> Option<Trouble> {
    let due = one.events().iter().filter(|event| {
        let code = event.code.as_ref().map(|code| code.as_str()).unwrap_or_default();
        let words = event.description.as_deref().unwrap_or_default();
        EVENTS.contains(&code) && !words.starts_with("[Completed]") && !words.starts_with("[Canceled]")
    });
    let trouble = due.map(|event| Trouble {
        instance: one.instance_id.clone().unwrap_or_default(),
        kind: InterruptionKind::EventStatus,
        time: event.not_before.as_ref().and_then(moment),
        what: event.code.as_ref().map(|code| code.as_str().to_owned()).unwrap_or_default(),
    });
    trouble.min_by_key(|trouble| (trouble.time.is_none(), trouble.time))
}

fn moment(time: &aws_smithy_types::DateTime) -> Option<Timestamp> {
    Timestamp::from_second(time.secs()).ok()
}
