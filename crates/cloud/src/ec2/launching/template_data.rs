//! Content of a launch template (karpenter-aws 4.3). Pure, from node class and group to the SDK's types.

use std::collections::BTreeMap;

use aws_sdk_ec2::types as sdk;
use dovetail_api::v1::{BlockDeviceMapping, EC2NodeClassSpec, MetadataOptions};
use dovetail_core::resources::{EPHEMERAL_STORAGE, parse_amount};

use crate::family::{AmiFamily, GIB};
use crate::launch::placement::Placing;
use crate::launch::plan::GroupKey;
use crate::launch::reserved::ReservationKind;

/// Regions where EC2 knows no IPv6 endpoint of the metadata service.
const NO_METADATA_IPV6: [&str; 6] =
    ["us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-south-1", "us-isof-east-1"];

/// All that goes into one template.
pub(in crate::ec2) struct TemplateInputs<'a> {
    pub region: &'a str,
    pub family: AmiFamily,
    pub class: &'a EC2NodeClassSpec,
    pub security_groups: Vec<String>,
    pub instance_profile: &'a str,
    pub group: &'a GroupKey,
    pub user_data: &'a str,
    pub spot: bool,
    /// Placement group, partition and tenancy.
    pub placing: &'a Placing,
    /// The kind of the reservation that the instance is to be of.
    pub market: Option<ReservationKind>,
    /// True if reservations are used at all: then a launch that is not to be of one says so, or EC2 would use open ones up.
    pub reserved_capacity: bool,
    pub ipv6: bool,
    pub enclave: bool,
    pub tags: &'a BTreeMap<String, String>,
}

pub(in crate::ec2) fn sdk_tags(tags: &BTreeMap<String, String>) -> Vec<sdk::Tag> {
    tags.iter().map(|(key, value)| sdk::Tag::builder().key(key).value(value).build()).collect()
}

pub(in crate::ec2) fn tag_specification(
    kind: sdk::ResourceType,
    tags: &BTreeMap<String, String>,
) -> sdk::TagSpecification {
    sdk::TagSpecification::builder().resource_type(kind).set_tags(Some(sdk_tags(tags))).build()
}

pub(in crate::ec2) fn template_data(inputs: &TemplateInputs<'_>) -> sdk::RequestLaunchTemplateData {
    let class = inputs.class;
    let profile = sdk::LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name(inputs.instance_profile);
    let monitoring =
        sdk::LaunchTemplatesMonitoringRequest::builder().enabled(class.detailed_monitoring.unwrap_or(false));
    let mut data = sdk::RequestLaunchTemplateData::builder()
        .image_id(&inputs.group.image)
        .iam_instance_profile(profile.build())
        .monitoring(monitoring.build())
        .metadata_options(metadata(&class.metadata_options, inputs.region))
        .set_network_interfaces(Some(interfaces(inputs)))
        .set_tag_specifications(Some(tag_specifications(inputs)));
    if !inputs.user_data.is_empty() {
        data = data.user_data(inputs.user_data);
    }
    let volumes = volumes(class, inputs.family);
    if !volumes.is_empty() {
        data = data.set_block_device_mappings(Some(volumes));
    }
    if inputs.reserved_capacity {
        data = data.capacity_reservation_specification(reservation(inputs.group.reservation.as_deref()));
    }
    if let Some(kind) = inputs.market.and_then(market_type) {
        let market = sdk::LaunchTemplateInstanceMarketOptionsRequest::builder().market_type(kind);
        data = data.instance_market_options(market.build());
    }
    if *inputs.placing != Placing::default() {
        data = data.placement(placement(inputs.placing));
    }
    if inputs.enclave || class.enables_enclaves() {
        data = data.enclave_options(sdk::LaunchTemplateEnclaveOptionsRequest::builder().enabled(true).build());
    }
    if let Some(nested) = class.cpu_options.as_ref().and_then(|o| o.nested_virtualization.as_deref()) {
        let nested = sdk::NestedVirtualizationSpecification::from(nested);
        data = data.cpu_options(sdk::LaunchTemplateCpuOptionsRequest::builder().nested_virtualization(nested).build());
    }
    data.build()
}

fn reservation(id: Option<&str>) -> sdk::LaunchTemplateCapacityReservationSpecificationRequest {
    let all = sdk::LaunchTemplateCapacityReservationSpecificationRequest::builder();
    match id {
        None => all.capacity_reservation_preference(sdk::CapacityReservationPreference::None).build(),
        Some(id) => {
            let target = sdk::CapacityReservationTarget::builder().capacity_reservation_id(id).build();
            let only = sdk::CapacityReservationPreference::CapacityReservationsOnly;
            all.capacity_reservation_preference(only).capacity_reservation_target(target).build()
        }
    }
}

/// Market type of a launch into a reservation; none for one whose instances are merely kept.
fn market_type(kind: ReservationKind) -> Option<sdk::MarketType> {
    match kind {
        ReservationKind::Default => None,
        ReservationKind::CapacityBlock => Some(sdk::MarketType::CapacityBlock),
        ReservationKind::Interruptible => Some(sdk::MarketType::InterruptibleCapacityReservation),
    }
}

/// Shared hardware is what EC2 takes by itself.
fn placement(placing: &Placing) -> sdk::LaunchTemplatePlacementRequest {
    sdk::LaunchTemplatePlacementRequest::builder()
        .set_group_id(placing.group.clone())
        .set_partition_number(placing.partition.and_then(|number| i32::try_from(number).ok()))
        .set_tenancy(placing.dedicated.then_some(sdk::Tenancy::Dedicated))
        .build()
}

fn tag_specifications(inputs: &TemplateInputs<'_>) -> Vec<sdk::LaunchTemplateTagSpecificationRequest> {
    let of = |kind| {
        let tags = Some(sdk_tags(inputs.tags));
        sdk::LaunchTemplateTagSpecificationRequest::builder().resource_type(kind).set_tags(tags).build()
    };
    let mut all = vec![of(sdk::ResourceType::NetworkInterface)];
    if inputs.spot {
        all.push(of(sdk::ResourceType::SpotInstancesRequest));
    }
    all
}

fn metadata(options: &MetadataOptions, region: &str) -> sdk::LaunchTemplateInstanceMetadataOptionsRequest {
    let hops = i32::try_from(options.http_put_response_hop_limit).unwrap_or(1);
    let mut all = sdk::LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .http_endpoint(options.http_endpoint.as_str().into())
        .http_put_response_hop_limit(hops)
        .http_tokens(options.http_tokens.as_str().into())
        .instance_metadata_tags(sdk::LaunchTemplateInstanceMetadataTagsState::Disabled);
    if !NO_METADATA_IPV6.contains(&region) {
        all = all.http_protocol_ipv6(options.http_protocol_ipv6.as_str().into());
    }
    all.build()
}

type Interface = sdk::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest;

/// The class's interfaces; EFA ones on as many cards when the claim asks for them; otherwise one.
fn interfaces(inputs: &TemplateInputs<'_>) -> Vec<Interface> {
    let own = &inputs.class.network_interfaces;
    if !own.is_empty() {
        let all = own.iter();
        return all.map(|n| interface(inputs, n.network_card_index, n.device_index, Some(&n.interface_type))).collect();
    }
    let efa = i32::try_from(inputs.group.efa).unwrap_or(0);
    if efa > 0 {
        return (0..efa).map(|card| interface(inputs, card, i32::from(card > 0), Some("efa"))).collect();
    }
    vec![interface(inputs, 0, 0, None)]
}

fn interface(inputs: &TemplateInputs<'_>, card: i32, device: i32, kind: Option<&str>) -> Interface {
    let mut all = Interface::builder().device_index(device).set_groups(Some(inputs.security_groups.clone()));
    if let Some(kind) = kind {
        all = all.network_card_index(card).interface_type(kind);
    }
    if let Some(tracking) = &inputs.class.connection_tracking {
        let tracking = sdk::ConnectionTrackingSpecificationRequest::builder()
            .set_tcp_established_timeout(tracking.tcp_established_timeout)
            .set_udp_stream_timeout(tracking.udp_stream_timeout)
            .set_udp_timeout(tracking.udp_timeout);
        all = all.connection_tracking_specification(tracking.build());
    }
    if card == 0 && device == 0 {
        all = all.set_associate_public_ip_address(inputs.class.associate_public_ip_address);
        all = match (inputs.class.ip_prefix_count, inputs.ipv6) {
            (Some(count), false) => all.ipv4_prefix_count(count),
            (Some(count), true) => all.ipv6_prefix_count(count),
            (None, _) => all,
        };
        if inputs.ipv6 {
            all = all.primary_ipv6(true).ipv6_address_count(1);
        }
    }
    all.build()
}

type Mapping = sdk::LaunchTemplateBlockDeviceMappingRequest;

fn volumes(class: &EC2NodeClassSpec, family: AmiFamily) -> Vec<Mapping> {
    if !class.block_device_mappings.is_empty() {
        return class.block_device_mappings.iter().map(own_volume).collect();
    }
    let volume = |v: &crate::family::DefaultVolume| {
        let ebs = sdk::LaunchTemplateEbsBlockDeviceRequest::builder()
            .encrypted(true)
            .delete_on_termination(true)
            .volume_type(sdk::VolumeType::Gp3)
            .volume_size(i32::try_from(v.gib).unwrap_or(20));
        Mapping::builder().device_name(v.device).ebs(ebs.build()).build()
    };
    family.default_volumes().iter().map(volume).collect()
}

fn own_volume(mapping: &BlockDeviceMapping) -> Mapping {
    let mut all = Mapping::builder().set_device_name(mapping.device_name.clone());
    if let Some(own) = &mapping.ebs {
        let small = |n: Option<i64>| n.and_then(|n| i32::try_from(n).ok());
        let size = own.volume_size.as_ref().and_then(|q| gib(&q.0));
        let ebs = sdk::LaunchTemplateEbsBlockDeviceRequest::builder()
            .set_delete_on_termination(own.delete_on_termination)
            .set_encrypted(own.encrypted)
            .set_iops(small(own.iops))
            .set_kms_key_id(own.kms_key_id.clone())
            .set_snapshot_id(own.snapshot_id.clone())
            .set_throughput(small(own.throughput))
            .set_volume_initialization_rate(own.volume_initialization_rate)
            .set_volume_size(size)
            .set_volume_type(own.volume_type.as_deref().map(sdk::VolumeType::from));
        all = all.ebs(ebs.build());
    }
    all.build()
}

/// Whole GiB, rounded up; the view of the class has already refused what is no quantity.
fn gib(quantity: &str) -> Option<i32> {
    let bytes = parse_amount(EPHEMERAL_STORAGE, quantity).ok()?;
    i32::try_from(bytes.div_euclid(GIB) + i64::from(bytes.rem_euclid(GIB) > 0)).ok()
}

#[cfg(test)]
mod tests {
    use super::gib;

    #[test]
    fn volumes_are_sized_in_gib_rounded_up() {
        assert_eq!((gib("20Gi"), gib("20G"), gib("1Ti"), gib("big")), (Some(20), Some(19), Some(1024), None));
    }
}
