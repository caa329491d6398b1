//! The region without its wire protocols: what a cloud behind the seam of `dovetail_cloud` needs that is not EC2's API.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::launch::Placement;
use super::network::VpcSubnet;
use super::{Cx, Region, RegionError, RegionInstance};

/// A message of the interruption queue, as it is received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    pub body: String,
    /// Handle by which it is deleted.
    pub receipt: String,
    pub sent: Timestamp,
}

impl Region {
    /// Launches an instance under a token, where EC2 would: not what is sold out or in a zone that is down. The same token
    /// is the same instance.
    ///
    /// # Errors
    /// EC2 would refuse it, and why.
    pub fn launch(&self, token: &str, wanted: &Placement) -> Result<RegionInstance, RegionError> {
        self.with(|cx| {
            let of_token = |one: &&RegionInstance| one.client_token.as_deref() == Some(token);
            if let Some(there) = cx.state.instances.values().find(of_token) {
                return Ok(there.clone());
            }
            cx.launch_directly(token, wanted).map_err(|error| RegionError::CannotPlace {
                instance_type: wanted.instance_type.clone(),
                zone: wanted.zone.clone(),
                reason: error.to_string(),
            })
        })
    }

    /// Puts tags on an instance.
    ///
    /// # Errors
    /// There is no such instance.
    pub fn tag(&self, id: &str, tags: &BTreeMap<String, String>) -> Result<(), RegionError> {
        self.with(|cx| {
            if !cx.state.instances.contains_key(id) {
                return Err(RegionError::NoSuchInstance(id.to_owned()));
            }
            tags.iter().for_each(|(key, value)| cx.apply_tag(id, key, Some(value.clone())));
            Ok(())
        })
    }

    /// The cluster's subnets: id, zone, and the zone's id.
    pub fn subnets(&self) -> Vec<(String, String, String)> {
        let of = |one: &VpcSubnet| (one.id.clone(), one.zone.clone(), one.zone_id.clone());
        self.with(|cx| cx.state.network.subnets.values().map(of).collect())
    }

    /// Ids of the cluster's security groups.
    pub fn security_groups(&self) -> Vec<String> {
        self.with(|cx| cx.state.network.groups.keys().cloned().collect())
    }

    /// Takes up to so many messages of the interruption queue, and hides them for so long.
    pub fn receive(&self, most: usize, hide: Duration) -> Vec<ReceivedMessage> {
        self.with(|cx| {
            let (now, wall, name) = (cx.now, cx.wall, cx.config.queue_name());
            let messages = cx.state.queues.get_mut(&name).map(|queue| queue.receive(most, hide, now, wall));
            let received = messages.into_iter().flatten();
            received.map(|one| ReceivedMessage { body: one.body, receipt: one.receipt, sent: one.sent }).collect()
        })
    }

    /// Takes a message out of the interruption queue; a receipt that never was is `false`.
    pub fn delete_message(&self, receipt: &str) -> bool {
        self.with(|cx| {
            let name = cx.config.queue_name();
            cx.state.queues.get_mut(&name).is_some_and(|queue| queue.delete(receipt))
        })
    }
}

impl Cx<'_> {
    fn launch_directly(
        &mut self,
        token: &str,
        wanted: &Placement,
    ) -> Result<RegionInstance, super::wire::error::AwsError> {
        let (mut spec, _) = self.placed(wanted)?;
        // All of the cluster's groups, as a class that selects them has it: fewer would be drift.
        spec.security_groups = self.state.network.groups.keys().cloned().collect();
        let ready = self.check(&spec)?;
        let launched = self.launch(&spec, &ready, Some(token), 1).into_iter().next();
        let there = launched.and_then(|id| self.state.instances.get(&id).cloned());
        there
            .ok_or_else(|| super::wire::error::AwsError::new("InsufficientFreeAddressesInSubnet", "no address is free"))
    }
}
