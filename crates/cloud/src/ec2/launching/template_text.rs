//! A launch template's content as text, by which it is named: one line a parameter, called as in EC2's API.
//!
//! The text is ours and not the SDK's, so that a template of an earlier Dovetail is found again whatever the SDK has become.
//! Whatever [`crate::ec2::launching::template_data`] says has to be in it: two templates that differ must not have one name.

use aws_sdk_ec2::types as sdk;

/// The lines, in a fixed order; what is not said has no line.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, path: &str, key: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            // A value's own line ends and quotes are escaped: no other content makes the same lines.
            self.0.push_str(&format!("{path}{key}=\"{}\"\n", value.to_string().escape_default()));
        }
    }
}

/// The text of a template's content.
pub(in crate::ec2) fn template_text(data: &sdk::RequestLaunchTemplateData) -> String {
    let mut lines = Lines::default();
    lines.add("", "ImageId", data.image_id());
    lines.add("", "UserData", data.user_data());
    lines.add("", "IamInstanceProfile.Name", data.iam_instance_profile().and_then(|one| one.name()));
    lines.add("", "Monitoring.Enabled", data.monitoring().and_then(sdk::LaunchTemplatesMonitoringRequest::enabled));
    lines.add("", "EnclaveOptions.Enabled", data.enclave_options().and_then(|one| one.enabled()));
    let nested = data.cpu_options().and_then(|one| one.nested_virtualization());
    lines.add("", "CpuOptions.NestedVirtualization", nested.map(sdk::NestedVirtualizationSpecification::as_str));
    if let Some(options) = data.metadata_options() {
        metadata(&mut lines, options);
    }
    if let Some(reservation) = data.capacity_reservation_specification() {
        let preference = reservation.capacity_reservation_preference().map(sdk::CapacityReservationPreference::as_str);
        lines.add("CapacityReservationSpecification.", "CapacityReservationPreference", preference);
        let target = reservation.capacity_reservation_target().and_then(|one| one.capacity_reservation_id());
        lines.add("CapacityReservationSpecification.", "CapacityReservationTarget.CapacityReservationId", target);
    }
    let market = data.instance_market_options().and_then(|one| one.market_type());
    lines.add("", "InstanceMarketOptions.MarketType", market.map(sdk::MarketType::as_str));
    if let Some(placement) = data.placement() {
        lines.add("Placement.", "GroupId", placement.group_id());
        lines.add("Placement.", "PartitionNumber", placement.partition_number());
        lines.add("Placement.", "Tenancy", placement.tenancy().map(sdk::Tenancy::as_str));
    }
    for (at, one) in (1..).zip(data.network_interfaces()) {
        interface(&mut lines, &format!("NetworkInterface.{at}."), one);
    }
    for (at, one) in (1..).zip(data.block_device_mappings()) {
        volume(&mut lines, &format!("BlockDeviceMapping.{at}."), one);
    }
    for (at, one) in (1..).zip(data.tag_specifications()) {
        let path = format!("TagSpecification.{at}.");
        lines.add(&path, "ResourceType", one.resource_type().map(sdk::ResourceType::as_str));
        for (nth, tag) in (1..).zip(one.tags()) {
            lines.add(&path, &format!("Tag.{nth}.Key"), tag.key());
            lines.add(&path, &format!("Tag.{nth}.Value"), tag.value());
        }
    }
    lines.0
}

fn metadata(lines: &mut Lines, options: &sdk::LaunchTemplateInstanceMetadataOptionsRequest) {
    let path = "MetadataOptions.";
    let endpoint = options.http_endpoint().map(sdk::LaunchTemplateInstanceMetadataEndpointState::as_str);
    lines.add(path, "HttpEndpoint", endpoint);
    let ipv6 = options.http_protocol_ipv6().map(sdk::LaunchTemplateInstanceMetadataProtocolIpv6::as_str);
    lines.add(path, "HttpProtocolIpv6", ipv6);
    lines.add(path, "HttpPutResponseHopLimit", options.http_put_response_hop_limit());
    lines.add(path, "HttpTokens", options.http_tokens().map(sdk::LaunchTemplateHttpTokensState::as_str));
    let tags = options.instance_metadata_tags().map(sdk::LaunchTemplateInstanceMetadataTagsState::as_str);
    lines.add(path, "InstanceMetadataTags", tags);
}

fn interface(lines: &mut Lines, path: &str, one: &sdk::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest) {
    lines.add(path, "DeviceIndex", one.device_index());
    lines.add(path, "NetworkCardIndex", one.network_card_index());
    lines.add(path, "InterfaceType", one.interface_type());
    lines.add(path, "AssociatePublicIpAddress", one.associate_public_ip_address());
    lines.add(path, "Ipv4PrefixCount", one.ipv4_prefix_count());
    lines.add(path, "Ipv6PrefixCount", one.ipv6_prefix_count());
    lines.add(path, "Ipv6AddressCount", one.ipv6_address_count());
    lines.add(path, "PrimaryIpv6", one.primary_ipv6());
    for (at, group) in (1..).zip(one.groups()) {
        lines.add(path, &format!("SecurityGroupId.{at}"), Some(group));
    }
    if let Some(tracking) = one.connection_tracking_specification() {
        let path = format!("{path}ConnectionTrackingSpecification.");
        lines.add(&path, "TcpEstablishedTimeout", tracking.tcp_established_timeout());
        lines.add(&path, "UdpStreamTimeout", tracking.udp_stream_timeout());
        lines.add(&path, "UdpTimeout", tracking.udp_timeout());
    }
}

fn volume(lines: &mut Lines, path: &str, one: &sdk::LaunchTemplateBlockDeviceMappingRequest) {
    lines.add(path, "DeviceName", one.device_name());
    let Some(ebs) = one.ebs() else { return };
    let path = format!("{path}Ebs.");
    lines.add(&path, "DeleteOnTermination", ebs.delete_on_termination());
    lines.add(&path, "Encrypted", ebs.encrypted());
    lines.add(&path, "Iops", ebs.iops());
    lines.add(&path, "KmsKeyId", ebs.kms_key_id());
    lines.add(&path, "SnapshotId", ebs.snapshot_id());
    lines.add(&path, "Throughput", ebs.throughput());
    lines.add(&path, "VolumeInitializationRate", ebs.volume_initialization_rate());
    lines.add(&path, "VolumeSize", ebs.volume_size());
    lines.add(&path, "VolumeType", ebs.volume_type().map(sdk::VolumeType::as_str));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use dovetail_api::v1::{
        BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, EC2NodeClassSpec, NetworkInterface,
    };
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use serde_json::{Value, json};

    use super::template_text;
    use crate::ec2::launching::template::template_name;
    use crate::ec2::launching::template_data::{TemplateInputs, template_data};
    use crate::family::AmiFamily;
    use crate::launch::placement::Placing;
    use crate::launch::plan::GroupKey;
    use crate::launch::reserved::ReservationKind;

    /// A class that says much of what a template can say. What it does not say is tried field by field below.
    fn class() -> EC2NodeClassSpec {
        let ebs = BlockDevice {
            delete_on_termination: Some(true),
            encrypted: Some(true),
            iops: Some(3000),
            kms_key_id: Some("key".into()),
            snapshot_id: Some("snap-1".into()),
            throughput: Some(125),
            volume_initialization_rate: Some(100),
            volume_size: Some(Quantity("20Gi".into())),
            volume_type: Some("gp3".into()),
        };
        let volume = BlockDeviceMapping { device_name: Some("/dev/xvda".into()), ebs: Some(ebs), ..Default::default() };
        let tracking = ConnectionTracking {
            tcp_established_timeout: Some(60),
            udp_stream_timeout: Some(61),
            udp_timeout: Some(62),
        };
        EC2NodeClassSpec {
            associate_public_ip_address: Some(true),
            ip_prefix_count: Some(2),
            detailed_monitoring: Some(true),
            block_device_mappings: vec![volume],
            connection_tracking: Some(tracking),
            cpu_options: Some(CpuOptions { nested_virtualization: Some("enabled".into()) }),
            ..Default::default()
        }
    }

    fn data(class: &EC2NodeClassSpec, ipv6: bool, reservation: Option<&str>) -> super::sdk::RequestLaunchTemplateData {
        placed(class, ipv6, reservation, (&Placing::default(), ReservationKind::Default))
    }

    fn placed(
        class: &EC2NodeClassSpec,
        ipv6: bool,
        reservation: Option<&str>,
        (placing, kind): (&Placing, ReservationKind),
    ) -> super::sdk::RequestLaunchTemplateData {
        let group = GroupKey {
            image: "ami-1".into(),
            image_name: String::new(),
            max_pods: 110,
            efa: 0,
            reservation: reservation.map(str::to_owned),
        };
        template_data(&TemplateInputs {
            region: "us-east-1",
            family: AmiFamily::Al2023,
            class,
            security_groups: vec!["sg-1".into(), "sg-2".into()],
            instance_profile: "profile",
            group: &group,
            user_data: "IyEvYmluL3NoCg==",
            spot: true,
            placing,
            market: reservation.map(|_| kind),
            reserved_capacity: true,
            ipv6,
            enclave: true,
            tags: &BTreeMap::from([("Name".to_owned(), "a \"b\"\nc".to_owned())]),
        })
    }

    /// Number of values that the SDK shows of a template's content; its user data, which it hides, is one.
    fn values(data: &super::sdk::RequestLaunchTemplateData) -> usize {
        let text = format!("{data:?}");
        let own = text.split("Some(").skip(1).map(|rest| {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap();
            match rest.strip_prefix('[') {
                Some(list) if list.starts_with('"') => list.split(']').next().unwrap().split("\", \"").count(),
                Some(_) => 0,
                None => usize::from(!rest[word..].starts_with(" {")),
            }
        });
        own.sum::<usize>() + 1
    }

    #[test]
    fn template_text_and_name_are_the_same_in_every_version() {
        let data = data(&class(), true, Some("cr-1"));
        assert_eq!(template_text(&data), include_str!("template.golden.txt"));
        assert_eq!(template_name("demo", "default", &data), "karpenter.k8s.aws/13504282197483843914");
    }

    #[test]
    fn every_value_of_a_template_is_in_its_text() {
        let interface = |card, kind: &str| NetworkInterface {
            network_card_index: card,
            device_index: 0,
            interface_type: kind.into(),
        };
        let several = EC2NodeClassSpec {
            network_interfaces: vec![interface(0, "interface"), interface(1, "efa-only")],
            ..class()
        };
        for class in [class(), several, EC2NodeClassSpec::default()] {
            for (ipv6, reservation) in [(false, None), (true, Some("cr-1"))] {
                let data = data(&class, ipv6, reservation);
                assert_eq!(template_text(&data).lines().count(), values(&data), "{data:?}\n{}", template_text(&data));
            }
        }
    }

    /// The fields of a schema that hold no others, by their paths; `0` is the first of a list.
    fn leaves(schema: &Value, path: &str, found: &mut Vec<(String, Value)>) {
        if let Some(properties) = schema["properties"].as_object() {
            properties.iter().for_each(|(name, field)| leaves(field, &format!("{path}/{name}"), found));
        } else if schema["items"]["properties"].is_object() {
            leaves(&schema["items"], &format!("{path}/0"), found);
        } else {
            found.push((path.to_owned(), schema.clone()));
        }
    }

    /// Values that a field may have.
    fn candidates(field: &Value) -> Vec<Value> {
        if let Some(known) = field["enum"].as_array() {
            return known.clone();
        }
        match field["type"].as_str() {
            Some("boolean") => vec![json!(false), json!(true)],
            Some("integer") => vec![json!(1), json!(2)],
            Some("array") => vec![json!(["a"]), json!(["b"])],
            Some("object") => vec![json!({}), json!({"a": "b"})],
            // Quantities are texts, too.
            _ => vec![json!("7Gi"), json!("8Gi")],
        }
    }

    /// The class with another value at a path; what is missing on the way there is made.
    fn with(class: &EC2NodeClassSpec, path: &str, value: Value) -> EC2NodeClassSpec {
        let mut all = json!(class);
        let mut at = &mut all;
        for step in path.split('/').skip(1) {
            at = match step {
                "0" => {
                    if at.as_array().is_none_or(Vec::is_empty) {
                        *at = json!([{}]);
                    }
                    &mut at[0]
                }
                name => &mut at[name],
            };
        }
        *at = value;
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn no_field_of_a_class_makes_two_templates_of_one_text() {
        let schema = dovetail_api::crds::schema_of("karpenter.k8s.aws/v1", "EC2NodeClass").unwrap();
        let mut fields = Vec::new();
        leaves(&schema["properties"]["spec"], "", &mut fields);
        assert!(fields.len() > 40, "{fields:?}");
        let card = NetworkInterface { network_card_index: 0, device_index: 0, interface_type: "interface".into() };
        let base = EC2NodeClassSpec { network_interfaces: vec![card], ..class() };
        let mut said = 0;
        for (path, field) in &fields {
            let made: Vec<_> =
                candidates(field).into_iter().map(|value| data(&with(&base, path, value), false, None)).collect();
            // The SDK shows all but user data, which is of no field alone.
            let shown: std::collections::BTreeSet<String> = made.iter().map(|data| format!("{data:?}")).collect();
            let told: std::collections::BTreeSet<String> = made.iter().map(template_text).collect();
            assert_eq!(told.len(), shown.len(), "{path} is in the template and not in its text: {made:?}");
            said += usize::from(shown.len() > 1);
        }
        assert!(said > 20, "{said} fields are in a template");
    }

    #[test]
    fn group_partition_tenancy_and_market_are_in_text_and_name() {
        let plain = Placing::default();
        let placing = Placing { group: Some("pg-1".into()), partition: Some(2), dedicated: true };
        let mut names = std::collections::BTreeSet::new();
        for (placing, kind) in [
            (&plain, ReservationKind::Default),
            (&placing, ReservationKind::Default),
            (&plain, ReservationKind::CapacityBlock),
            (&plain, ReservationKind::Interruptible),
        ] {
            let data = placed(&class(), false, Some("cr-1"), (placing, kind));
            assert_eq!(template_text(&data).lines().count(), values(&data), "{data:?}");
            assert!(names.insert(template_name("demo", "default", &data)));
        }
        let text = template_text(&placed(&class(), false, Some("cr-1"), (&placing, ReservationKind::CapacityBlock)));
        let own = "InstanceMarketOptions.MarketType=\"capacity-block\"\nPlacement.GroupId=\"pg-1\"\n\
                   Placement.PartitionNumber=\"2\"\nPlacement.Tenancy=\"dedicated\"\n";
        assert!(text.contains(own), "{text}");
    }

    #[test]
    fn templates_that_differ_in_one_value_have_two_names() {
        let name = |data| template_name("demo", "default", &data);
        let other = EC2NodeClassSpec { detailed_monitoring: None, ..class() };
        assert_ne!(name(data(&class(), false, None)), name(data(&other, false, None)));
        assert_ne!(name(data(&class(), false, None)), name(data(&class(), false, Some("cr-1"))));
        assert_ne!(
            template_name("a", "bc", &data(&other, false, None)),
            template_name("ab", "c", &data(&other, false, None))
        );
    }
}
