//! Message about the instances that the cloud lists.

use std::sync::Arc;

use actix::Message;
use dovetail_core::disruption::drift::Networks;

/// The instances' networks, as a complete listing of the cloud shows them. Fact, from `janitor` to `disruptor`.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct InstancesSeen(pub Arc<Networks>);
