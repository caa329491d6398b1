//! Finding, tagging, rebooting and ending instances (karpenter-aws 4.6, 4.10).

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types::{self as sdk, Filter};
use dovetail_api::names::labels::{ON_DEMAND, RESERVED, SPOT};
use dovetail_api::names::tags;
use dovetail_core::ownership::{AskingCluster, maker};
use futures::{StreamExt, stream};
use jiff::Timestamp;

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use super::describe::filter;
use super::launching::template_data::sdk_tags;
use crate::cloud::{FoundInstances, Instance};
use crate::error::CloudError;
use crate::launch::placement::Placing;

const PAGE: i32 = 500;
/// Values that a filter takes.
const MOST_VALUES: usize = 200;
/// Ids of one TerminateInstances (karpenter-aws 4.5).
const MOST_ENDED: usize = 500;
/// Ids that are asked for one by one in one go: EC2 lets an account describe some twenty times a second.
const MOST_SINGLY: usize = 50;
const SINGLY_AT_ONCE: usize = 10;
const LIVE: [&str; 5] = ["pending", "running", "stopping", "stopped", "shutting-down"];

impl Ec2Cloud {
    pub(super) async fn list_instances(&self) -> Result<Vec<Instance>, CloudError> {
        let mut instances = self.list_by_name(false).await?;
        instances.retain(|one| !self.is_foreign(one));
        Ok(instances)
    }

    /// Foreign ones too, and those that have ended if asked for.
    pub(super) async fn list_by_name(&self, ended: bool) -> Result<Vec<Instance>, CloudError> {
        let states = LIVE.into_iter().chain(ended.then_some("terminated"));
        let cluster = &self.settings.cluster_name;
        // Karpenter before 1.0 wrote the cluster's name elsewhere; the ownership tag is on what any of them launched, and on ours.
        let of_cluster = match self.settings.adopt_karpenter_instances {
            true => filter(format!("tag:{}", tags::owned_by(cluster)), [tags::OWNED]),
            false => filter(format!("tag:{}", tags::CLUSTER_NAME), [cluster.as_str()]),
        };
        let named = vec![
            filter("tag-key", [tags::NODE_POOL]),
            filter("tag-key", [tags::NODE_CLASS]),
            of_cluster,
            filter("instance-state-name", states),
        ];
        self.describe_all(named).await
    }

    pub(super) async fn list_with_token(&self, token: &str) -> Result<Vec<Instance>, CloudError> {
        self.describe_instances(vec![filter(format!("tag:{}", tags::LAUNCH_TOKEN), [token])]).await
    }

    pub(super) async fn find_instance(&self, id: &str) -> Result<Option<Instance>, CloudError> {
        match self.clients.ec2.describe_instances().instance_ids(id).send().await {
            Ok(answer) => Ok(answer.reservations().iter().flat_map(|r| r.instances()).map(instance_of).next()),
            Err(error) => match classify("DescribeInstances", Effect::Repeatable, error) {
                error if error.is_not_found() => Ok(None),
                error => Err(error),
            },
        }
    }

    async fn describe_instances(&self, filters: Vec<Filter>) -> Result<Vec<Instance>, CloudError> {
        let mut instances = self.describe_all(filters).await?;
        instances.retain(|one| !self.is_foreign(one));
        Ok(instances)
    }

    pub(super) async fn describe_all(&self, filters: Vec<Filter>) -> Result<Vec<Instance>, CloudError> {
        let call = self.clients.ec2.describe_instances().max_results(PAGE).set_filters(Some(filters));
        let mut pages = call.into_paginator().send();
        let mut instances = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|e| classify("DescribeInstances", Effect::Repeatable, e))?;
            instances.extend(page.reservations().iter().flat_map(|r| r.instances()).map(instance_of));
        }
        instances.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(instances)
    }

    /// This cluster, as instances' tags are held against it.
    fn own_cluster(&self) -> AskingCluster {
        AskingCluster {
            name: self.settings.cluster_name.clone(),
            uid: self.settings.cluster_uid.clone(),
            adopts_karpenter_instances: self.settings.adopt_karpenter_instances,
        }
    }

    /// True for an instance of another cluster, whatever its name.
    fn is_foreign(&self, instance: &Instance) -> bool {
        let own = &self.settings.cluster_uid;
        !own.is_empty() && instance.tags.get(tags::CLUSTER_UID).is_some_and(|uid| uid != own)
    }

    async fn terminate_once(&self, ids: &[String]) -> Result<(), CloudError> {
        let call = self.clients.ec2_once.terminate_instances().set_instance_ids(Some(ids.to_vec()));
        match call.send().await {
            Ok(_) => Ok(()),
            Err(error) => match classify("TerminateInstances", Effect::Repeatable, error) {
                error if error.is_not_found() && ids.len() == 1 => Ok(()),
                error => Err(error),
            },
        }
    }

    /// By a filter: of ids that are asked for as such, one that EC2 does not know spoils the answer for all. That a
    /// filter leaves one out proves nothing; those are asked for one by one, not too many in one go.
    pub(super) async fn find_instances(&self, ids: &[String]) -> Result<FoundInstances, CloudError> {
        let mut found = FoundInstances::default();
        for some in ids.chunks(MOST_VALUES) {
            let by_id = filter("instance-id", some.iter().map(String::as_str));
            match self.describe_all(vec![by_id]).await {
                Ok(instances) => found.instances.extend(instances),
                Err(error) => found.failed.extend(some.iter().map(|id| (id.clone(), error.clone()))),
            }
        }
        let there: BTreeSet<&str> = found.instances.iter().map(|one| one.id.as_str()).collect();
        let unknown = ids.iter().filter(|id| !there.contains(id.as_str()) && !found.failed.contains_key(*id));
        let unknown: Vec<String> = unknown.take(MOST_SINGLY).cloned().collect();
        let asking = unknown.into_iter().map(|id| async move { (self.find_instance(&id).await, id) });
        for (asked, id) in stream::iter(asking).buffered(SINGLY_AT_ONCE).collect::<Vec<_>>().await {
            match asked {
                Ok(Some(instance)) => found.instances.push(instance),
                Ok(None) => found.missing.extend([id]),
                Err(error) => found.failed.extend([(id, error)]),
            }
        }
        known(found)
    }

    /// Answers what failed, by id. Whoever asks has held the tags against a NodeClaim; what no tag shows to be this cluster's is
    /// not ended in any case.
    pub(super) async fn terminate_instances(&self, found: &[Instance]) -> BTreeMap<String, CloudError> {
        let (mut failed, cluster) = (BTreeMap::new(), self.own_cluster());
        let own = found.iter().filter(|one| !one.is_terminating() && maker(&cluster, &one.tags).is_ok());
        let own: Vec<String> = own.map(|one| one.id.clone()).collect();
        for some in own.chunks(MOST_ENDED) {
            let Err(error) = self.terminate_once(some).await else { continue };
            match error {
                // One that is gone, or may not be ended, keeps the others from ending: each by itself then.
                CloudError::Final { .. } if some.len() > 1 => {
                    let ending = some.iter().cloned().map(|id| async move {
                        let ended = self.terminate_once(std::slice::from_ref(&id)).await;
                        (ended, id)
                    });
                    let ended: Vec<_> = stream::iter(ending).buffered(SINGLY_AT_ONCE).collect().await;
                    failed.extend(ended.into_iter().filter_map(|(ended, id)| Some((id, ended.err()?))));
                }
                error => failed.extend(some.iter().map(|id| (id.clone(), error.clone()))),
            }
        }
        failed
    }

    /// Whoever asks has held the tags against a NodeClaim; what no tag shows to be this cluster's is not rebooted in any case.
    pub(super) async fn reboot_instance(&self, found: &Instance) -> Result<(), CloudError> {
        if found.is_terminating() || maker(&self.own_cluster(), &found.tags).is_err() {
            let message = format!("{} is not a running instance of this cluster", found.id);
            return Err(CloudError::Final { call: "RebootInstances", code: "NotOurs".into(), message });
        }
        let call = self.clients.ec2_once.reboot_instances().instance_ids(&found.id);
        call.send().await.map(|_| ()).map_err(|e| classify("RebootInstances", Effect::Repeatable, e))
    }

    pub(super) async fn tag_instance(&self, id: &str, tags: &BTreeMap<String, String>) -> Result<(), CloudError> {
        let call = self.clients.ec2.create_tags().resources(id).set_tags(Some(sdk_tags(tags)));
        call.send().await.map(|_| ()).map_err(|e| classify("CreateTags", Effect::Repeatable, e))
    }
}

/// An error where nothing at all is known.
fn known(found: FoundInstances) -> Result<FoundInstances, CloudError> {
    match found.failed.first_key_value() {
        Some((_, error)) if found.instances.is_empty() && found.missing.is_empty() => Err(error.clone()),
        _ => Ok(found),
    }
}

fn instance_of(i: &sdk::Instance) -> Instance {
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    let spot = i.spot_instance_request_id().is_some_and(|id| !id.is_empty())
        || i.instance_lifecycle() == Some(&sdk::InstanceLifecycleType::Spot);
    // One that merely came to be in an open reservation is on demand for us.
    let only = i.capacity_reservation_specification().and_then(|own| own.capacity_reservation_preference())
        == Some(&sdk::CapacityReservationPreference::CapacityReservationsOnly);
    let reservation_id = i.capacity_reservation_id().filter(|id| only && !id.is_empty()).map(str::to_owned);
    let capacity_type = match (&reservation_id, spot) {
        (Some(_), _) => RESERVED,
        (None, true) => SPOT,
        (None, false) => ON_DEMAND,
    };
    let tag = |t: &sdk::Tag| Some((t.key()?.to_owned(), t.value().unwrap_or_default().to_owned()));
    Instance {
        id: text(i.instance_id()),
        state: i.state().and_then(|s| s.name()).map(|n| n.as_str().to_owned()).unwrap_or_default(),
        instance_type: i.instance_type().map(|t| t.as_str().to_owned()).unwrap_or_default(),
        zone: text(i.placement().and_then(|p| p.availability_zone())),
        capacity_type: capacity_type.to_owned(),
        reservation_id,
        placing: placing_of(i.placement()),
        image_id: text(i.image_id()),
        subnet_id: text(i.subnet_id()),
        security_group_ids: i.security_groups().iter().map(|g| text(g.group_id())).collect(),
        private_dns_name: text(i.private_dns_name()),
        launched_at: i.launch_time().and_then(|t| Timestamp::new(t.secs(), t.subsec_nanos().cast_signed()).ok()),
        ended_at: i.state_transition_reason().and_then(transition_time),
        tags: i.tags().iter().filter_map(tag).collect(),
    }
}

fn placing_of(placement: Option<&sdk::Placement>) -> Placing {
    let group = placement.and_then(|one| one.group_id()).filter(|id| !id.is_empty());
    let partition = placement.and_then(|one| one.partition_number()).and_then(|number| u32::try_from(number).ok());
    Placing {
        group: group.map(str::to_owned),
        partition: partition.filter(|number| *number > 0),
        dedicated: placement.and_then(|one| one.tenancy()) == Some(&sdk::Tenancy::Dedicated),
    }
}

/// The time in the reason of an instance's last transition: `User initiated (2026-01-31 12:34:56 GMT)`. Not all have one.
fn transition_time(reason: &str) -> Option<Timestamp> {
    let (_, time) = reason.strip_suffix(" GMT)")?.rsplit_once('(')?;
    let time = jiff::civil::DateTime::strptime("%Y-%m-%d %H:%M:%S", time).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::transition_time;

    #[test]
    fn the_time_of_a_transition_is_read_from_its_reason() {
        let read = |reason| transition_time(reason).map(|time| time.to_string());
        assert_eq!(read("User initiated (2026-01-31 12:34:56 GMT)").as_deref(), Some("2026-01-31T12:34:56Z"));
        for other in ["", "User initiated", "Server.SpotInstanceTermination", "User initiated (yesterday GMT)", "(GMT)"]
        {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
