//! Limits of the account: permissions, the role for spot, vCPUs within a quota, and requests within EC2's token buckets.

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_cloud::unavailable::QuotaGroup;

use super::config::ACCOUNT;
use super::instance::{CapacityType, InstanceState};
use super::launch::Spec;
use super::services::sqs;
use super::wire::call::AwsService;
use super::wire::error::AwsError;
use super::{Cx, ids};
use crate::faults::error_of_offering;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Duration,
}

/// The account's token buckets, by name; one that nobody has used is full.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestLimits(BTreeMap<&'static str, Bucket>);

/// Size and rate of a bucket, as AWS documents it ("Request throttling for the Amazon EC2 API").
#[derive(Clone, Copy, Debug)]
struct BucketLimit {
    name: &'static str,
    /// The most tokens that it holds.
    size: f64,
    /// Tokens that come back, a second.
    rate: f64,
}

/// CreateFleet takes from this one too, a token an instance.
const INSTANCES: BucketLimit = BucketLimit { name: "instances", size: 1000.0, rate: 2.0 };

fn bucket_of(action: &str) -> BucketLimit {
    let (name, size, rate) = match action {
        "RunInstances" => ("RunInstances", 5.0, 2.0),
        "TerminateInstances" => ("TerminateInstances", 100.0, 5.0),
        "CreateTags" | "DeleteTags" => ("tags", 100.0, 10.0),
        _ if action.starts_with("Describe") => ("describe", 100.0, 20.0),
        _ => ("mutate", 50.0, 5.0),
    };
    BucketLimit { name, size, rate }
}

impl RequestLimits {
    /// Takes tokens; whether there were enough.
    fn take_tokens(&mut self, limit: BucketLimit, count: f64, now: Duration) -> bool {
        let BucketLimit { name, size, rate } = limit;
        let bucket = self.0.entry(name).or_insert(Bucket { tokens: size, at: now });
        let refilled = bucket.tokens + now.saturating_sub(bucket.at).as_secs_f64() * rate;
        *bucket = Bucket { tokens: refilled.min(size), at: now };
        // Sums of fractions may be a little short.
        let enough = bucket.tokens + 1e-6 >= count;
        if enough {
            bucket.tokens -= count;
        }
        enough
    }
}

impl Cx<'_> {
    /// True if a call, for so many instances, is one too many for the account's buckets, where they are in force.
    pub fn is_throttled(&mut self, api: AwsService, action: &str, instances: u32) -> bool {
        if api != AwsService::Ec2 || !self.faults.of_ec2(|faults| faults.request_limits) {
            return false;
        }
        let limits = &mut self.state.limits;
        let has_room = action != "CreateFleet" || limits.take_tokens(INSTANCES, f64::from(instances), self.now);
        !(limits.take_tokens(bucket_of(action), 1.0, self.now) && has_room)
    }

    /// The error that a call ends with before anything is done. A trial meets denials, and no other error.
    pub fn error_of_call(&mut self, action: &str, dry_run: bool) -> Result<(), AwsError> {
        if let Some((code, message)) = (!dry_run).then(|| self.faults.error_of_call(action)).flatten() {
            let status = match code.as_str() {
                "RequestLimitExceeded" => 503,
                "InternalError" => 500,
                _ => 400,
            };
            return Err(AwsError::new(code, message).with_status(status));
        }
        match self.faults.of_ec2(|faults| faults.unauthorized.iter().any(|denied| denied == action)) {
            true if sqs::OF_READERS.contains(&action) => Err(sqs::denied(self.config, action)),
            true if action.starts_with("DescribeSavingsPlan") => Err(AwsError::new(
                "AccessDeniedException",
                format_args!("KarpenterControllerRole is not authorized to perform: savingsplans:{action}"),
            )
            .with_status(403)),
            true if action == "GetManagedResource" => Err(AwsError::new(
                "AccessDeniedException",
                format_args!("KarpenterControllerRole is not authorized to perform: arc-zonal-shift:{action}"),
            )
            .with_status(403)),
            true => Err(self.denied(action, "*")),
            false => Ok(()),
        }
    }

    fn denied(&mut self, action: &str, resource: &str) -> AwsError {
        let partition = self.config.partition();
        let encoded = ids::hex(&mut self.state.request_ids, 64);
        let role = format!("arn:{partition}:sts::{ACCOUNT}:assumed-role/KarpenterControllerRole/dovetail");
        AwsError::new(
            "UnauthorizedOperation",
            format_args!(
                "You are not authorized to perform this operation. User: {role} is not authorized to perform: ec2:{action} on resource: arn:{partition}:ec2:{}:{ACCOUNT}:{resource} because no identity-based policy allows the ec2:{action} action. Encoded authorization failure message: {encoded}",
                self.config.region
            ),
        )
        .with_status(403)
    }

    /// Refuses a launch that the account may not have at all.
    pub fn check_account(&mut self, spec: &Spec, zone: &str) -> Result<(), AwsError> {
        let (name, capacity) = (&spec.instance_type, spec.capacity);
        if let Some((code, message)) = error_of_offering(&self.state.refused_now, name, zone, capacity.name()) {
            return Err(AwsError::new(code, message));
        }
        if self.faults.of_ec2(|faults| faults.unauthorized.iter().any(|denied| denied == "RunInstances")) {
            return Err(self.denied("RunInstances", "instance/*"));
        }
        if capacity == CapacityType::Spot && self.faults.of_ec2(|faults| faults.no_spot_role) {
            return Err(AwsError::new(
                "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
                "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.",
            ));
        }
        self.check_quota(spec)
    }

    /// The instances that the quota has room for, and the quota; all where there is none.
    fn room_in_quota(&self, spec: &Spec, planned: &[(&Spec, usize)]) -> (u32, u32) {
        let (group, capacity) = (QuotaGroup::from_instance_type(&spec.instance_type), spec.capacity);
        let key = format!("{group}/{}", capacity.name());
        let Some(quota) = self.faults.of_ec2(|faults| faults.vcpu_quotas.get(&key).copied()) else {
            return (u32::MAX, u32::MAX);
        };
        let vcpus = |name: &str| self.catalogue.instance_type(name).map_or(0, |info| info.vcpus);
        let counts = |state: InstanceState| matches!(state, InstanceState::Pending | InstanceState::Running);
        let there = self.state.instances.values().filter(|one| counts(one.state) && one.capacity_type == capacity);
        let used: u32 = there
            .filter(|one| QuotaGroup::from_instance_type(&one.instance_type) == group)
            .map(|one| vcpus(&one.instance_type))
            .sum();
        let same =
            |other: &Spec| other.capacity == capacity && QuotaGroup::from_instance_type(&other.instance_type) == group;
        let planned = planned.iter().filter(|(other, _)| same(other));
        let planned: u32 = planned
            .map(|(other, count)| vcpus(&other.instance_type).saturating_mul(u32::try_from(*count).unwrap_or(u32::MAX)))
            .sum();
        (quota.saturating_sub(used + planned) / vcpus(&spec.instance_type).max(1), quota)
    }

    fn check_quota(&self, spec: &Spec) -> Result<(), AwsError> {
        match self.room_in_quota(spec, &[]) {
            (0, quota) => Err(Self::quota_used_up(spec.capacity, quota)),
            _ => Ok(()),
        }
    }

    /// The instances that a spot pool has left beside those that are `planned`; all where its depth is not bounded.
    pub fn room_in_pool(&self, spec: &Spec, zone: &str, planned: &[(&Spec, &str, usize)]) -> usize {
        let name = &spec.instance_type;
        let is_ours = |capacity: CapacityType, other: &str| capacity == CapacityType::Spot && other == name;
        let depth = is_ours(spec.capacity, name).then(|| self.faults.spot_depth(name, zone)).flatten();
        let Some(depth) = depth else { return usize::MAX };
        let there =
            self.state.instances.values().filter(|one| {
                is_ours(one.capacity_type, &one.instance_type) && one.zone == zone && one.state.is_alive()
            });
        let zone_of = |subnet: &str| self.state.network.subnets.get(subnet).map(|one| one.zone.as_str());
        let planned = planned.iter().filter(|(other, subnet, _)| {
            is_ours(other.capacity, &other.instance_type) && zone_of(subnet) == Some(zone)
        });
        let planned: usize = planned.map(|(_, _, count)| count).sum();
        usize::try_from(depth).unwrap_or(usize::MAX).saturating_sub(there.count() + planned)
    }

    /// The instances of `wanted` that the pool, the quota and the subnet have room for beside those that are `planned`, each with
    /// its subnet, and the error where that is not all.
    pub fn room_for(
        &self,
        spec: &Spec,
        subnet: &str,
        planned: &[(&Spec, &str, usize)],
        wanted: usize,
    ) -> (usize, Option<AwsError>) {
        let taken: usize = planned.iter().filter(|(_, of, _)| *of == subnet).map(|(_, _, count)| count).sum();
        let specs: Vec<(&Spec, usize)> = planned.iter().map(|(spec, _, count)| (*spec, *count)).collect();
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let (in_quota, quota) = self.room_in_quota(spec, &specs);
        let free = self.state.network.subnets.get(subnet).map_or(0, |one| count(self.free_addresses(one)));
        let (in_quota, in_subnet) = (count(in_quota), free.saturating_sub(taken));
        let zone = self.state.network.subnets.get(subnet).map_or("", |one| one.zone.as_str());
        let in_pool = self.room_in_pool(spec, zone, planned);
        let room = wanted.min(in_quota).min(in_subnet).min(in_pool);
        let error = match wanted {
            _ if room == wanted => None,
            _ if in_pool < in_quota.min(in_subnet) => Some(Self::no_capacity(spec, zone)),
            _ if in_quota < in_subnet => Some(Self::quota_used_up(spec.capacity, quota)),
            _ => Some(Self::no_address_in(subnet)),
        };
        (room, error)
    }

    /// The error where EC2 has none left of a type in a zone.
    pub fn no_capacity(spec: &Spec, zone: &str) -> AwsError {
        let name = &spec.instance_type;
        let message = match spec.capacity {
            CapacityType::Spot => "There is no Spot capacity available that matches your request.".to_owned(),
            CapacityType::OnDemand => format!(
                "We currently do not have sufficient {name} capacity in the Availability Zone you requested ({zone}). Our system will be working on provisioning additional capacity."
            ),
        };
        AwsError::new("InsufficientInstanceCapacity", message).with_status(500)
    }

    /// The error where a subnet has fewer addresses than instances are asked for.
    pub fn no_address_in(subnet: &str) -> AwsError {
        AwsError::new(
            "InsufficientFreeAddressesInSubnet",
            format_args!(
                "There are not enough free addresses in subnet '{subnet}' to satisfy the requested number of instances."
            ),
        )
    }

    fn quota_used_up(capacity: CapacityType, quota: u32) -> AwsError {
        match capacity {
            CapacityType::Spot => AwsError::new("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"),
            CapacityType::OnDemand => AwsError::new(
                "VcpuLimitExceeded",
                format_args!(
                    "You have requested more vCPU capacity than your current vCPU limit of {quota} allows for the instance bucket that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit."
                ),
            ),
        }
    }

    /// True if the offering is one of the share that the region has nothing of: drawn from the seed, and the same each time.
    pub fn is_of_the_missing_share(&self, instance_type: &str, zone: &str, capacity_type: &str) -> bool {
        let share = self.faults.of_ec2(|faults| faults.sold_out_share);
        let name = format!("{}/{instance_type}/{zone}/{capacity_type}", self.config.seed);
        share > 0.0 && fastrand::Rng::with_seed(ids::fnv(&name)).f64() < share
    }

    /// Addresses of a subnet that may still be taken.
    pub fn free_addresses(&self, subnet: &super::network::VpcSubnet) -> u32 {
        let bound = self.faults.of_ec2(|faults| faults.subnet_addresses.get(&subnet.zone).copied());
        bound.map_or(subnet.free(), |bound| bound.saturating_sub(subnet.used()).min(subnet.free()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_its_burst_and_refills_at_its_pace() {
        let mut limits = RequestLimits::default();
        let at = Duration::from_millis;
        let sent = |limits: &mut RequestLimits, now| {
            (0..200).filter(|_| limits.take_tokens(bucket_of("CreateFleet"), 1.0, now)).count()
        };
        assert_eq!(sent(&mut limits, at(0)), 50);
        assert_eq!(sent(&mut limits, at(1000)), 5);
        assert_eq!(sent(&mut limits, at(60_000)), 50);
        assert!(limits.take_tokens(bucket_of("DescribeInstances"), 1.0, at(60_000)), "another bucket");
    }
}
