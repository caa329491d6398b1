//! The conditions of a buffer: what is there, and why the rest is not.

use dovetail_api::autoscaling::{ACTIVE_CAPACITY, CapacityBufferStatus, LocalObjectRef};
use dovetail_api::names::conditions::{FALSE, TRUE};
use dovetail_api::v1::{NewCondition, set_condition};
use jiff::Timestamp;

use super::demand::{Buffer, BufferFault, MOST_CHUNKS, MOST_CHUNKS_OF_ALL};
use super::placing::ChunksNow;

/// Condition: the buffer can be held.
const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
/// Condition: all of its room is there.
const PROVISIONING: &str = "Provisioning";

/// Characters of a reason in a message; a condition's message has a bound.
const LONGEST_REASON: usize = 2_000;

/// The conditions of a buffer as they are to be: status, reason and message of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferVerdict {
    pub ready: (&'static str, &'static str, String),
    pub provisioning: (&'static str, &'static str, String),
    /// Number of chunks that are held.
    pub replicas: Option<i32>,
    /// Name and generation of the PodTemplate.
    pub template: Option<(String, Option<i64>)>,
}

/// The conditions of a buffer; `None` for one that is left to another provider. `paused` is the reason that no node is launched
/// for it now.
#[must_use]
pub fn judge_buffer(
    demand: &Result<Buffer, BufferFault>,
    now: Option<&ChunksNow>,
    paused: Option<&str>,
) -> Option<BufferVerdict> {
    let buffer = match demand {
        Err(BufferFault::OtherStrategy(_)) => return None,
        Err(BufferFault::NotReady(reason, why)) => {
            let provisioning = (FALSE, "NotReadyForProvisioning", why.clone());
            let ready = (FALSE, *reason, why.clone());
            return Some(BufferVerdict { ready, provisioning, replicas: None, template: None });
        }
        Ok(buffer) => buffer,
    };
    Some(BufferVerdict {
        ready: (TRUE, "Resolved", cuts(buffer)),
        provisioning: provisioning(buffer, now, paused),
        replicas: i32::try_from(buffer.wanted()).ok(),
        template: None,
    })
}

/// Reasons for which it holds less than it asks for.
fn cuts(buffer: &Buffer) -> String {
    let asked = buffer.asked;
    let limits = buffer.unlimited.map(|all| format!("spec.limits leave room for {asked} of {all} pods"));
    let cut = match buffer.chunks {
        chunks if chunks == asked => None,
        MOST_CHUNKS => Some(format!("cut to {MOST_CHUNKS} of {asked} pods: no buffer holds more")),
        chunks => Some(format!("cut to {chunks} of {asked} pods: all buffers together hold {MOST_CHUNKS_OF_ALL}")),
    };
    limits.into_iter().chain(cut).collect::<Vec<_>>().join("; ")
}

fn provisioning(
    buffer: &Buffer,
    now: Option<&ChunksNow>,
    paused: Option<&str>,
) -> (&'static str, &'static str, String) {
    if !buffer.in_time {
        return (FALSE, "OutOfSchedule", "its schedule holds no room now".to_owned());
    }
    let chunks = buffer.wanted();
    if chunks == 0 {
        return (FALSE, "BufferEmpty", "it asks for no room".to_owned());
    }
    let Some(now) = now else { return (FALSE, "RequiresNewCapacity", "its room is being planned".to_owned()) };
    if now.ready >= chunks {
        return (TRUE, "FitsExistingCapacity", format!("room for {chunks} of {chunks} pods is there"));
    }
    let coming = now.coming + now.new;
    let mut message = format!("room for {} of {chunks} pods is there, for {coming} on its way", now.ready);
    let why = paused.or(now.why.as_deref());
    if let Some(why) = why.filter(|_| now.left_over > 0) {
        let why: String = why.chars().take(LONGEST_REASON).collect();
        message = format!("{message}, for {} not: {why}", now.left_over);
    }
    (FALSE, "RequiresNewCapacity", message)
}

impl BufferVerdict {
    /// Writes the conditions and the numbers into a status.
    pub fn write_to(&self, status: &mut CapacityBufferStatus, generation: Option<i64>, now: Timestamp) {
        for (type_, (says, reason, message)) in
            [(READY_FOR_PROVISIONING, &self.ready), (PROVISIONING, &self.provisioning)]
        {
            let condition = NewCondition::new(type_, says).because(reason, message);
            set_condition(&mut status.conditions, condition, generation, now);
        }
        status.replicas = self.replicas;
        status.provisioning_strategy = Some(ACTIVE_CAPACITY.to_owned());
        status.pod_template_ref = self.template.as_ref().map(|(name, _)| LocalObjectRef { name: name.clone() });
        status.pod_template_generation = self.template.as_ref().and_then(|(_, generation)| *generation);
    }
}
