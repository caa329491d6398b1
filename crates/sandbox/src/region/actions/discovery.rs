//! Actions that a node class is resolved by: zones, subnets, security groups, VPCs, images.

use dovetail_cloud::catalogue::Zone;

use crate::region::Cx;
use crate::region::actions::filters::{Filterable, Filters, Tags, one};
use crate::region::actions::paging::ResultPage;
use crate::region::config::ACCOUNT;
use crate::region::images::Image;
use crate::region::network::{VpcSecurityGroup, VpcSubnet};
use crate::region::wire::error::AwsError;
use crate::region::wire::form::FormNode;
use crate::region::wire::xml::Xml;

struct ZoneView<'a> {
    zone: &'a Zone,
    region: &'a str,
    state: &'static str,
}

impl Filterable for ZoneView<'_> {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "zone-name" => one(&self.zone.name),
            "zone-id" => one(&self.zone.id),
            "region-name" => one(self.region),
            "state" => one(self.state),
            "zone-type" => one("availability-zone"),
            "opt-in-status" => one("opt-in-not-required"),
            "group-name" => one(format_args!("{}-zg-1", self.region)),
            _ => None,
        }
    }
}

/// DescribeAvailabilityZones: all zones of the region, whether or not the cluster has a subnet there.
pub(crate) fn zones(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let filters = Filters::from_form(form)?;
    let (names, ids) = (form.strings("ZoneName"), form.strings("ZoneId"));
    let known = |name: &String| cx.catalogue.zones.iter().any(|zone| zone.name == *name || zone.id == *name);
    if let Some(unknown) = names.iter().chain(&ids).find(|name| !known(name)) {
        return Err(AwsError::invalid(format_args!("Invalid availability zone: [{unknown}]")));
    }
    let mut chosen = Vec::new();
    for zone in &cx.catalogue.zones {
        let state = if cx.faults.zone_is_down(&zone.name) { "impaired" } else { "available" };
        let view = ZoneView { zone, region: &cx.config.region, state };
        let asked = (names.is_empty() || names.contains(&zone.name)) && (ids.is_empty() || ids.contains(&zone.id));
        if asked && filters.pass(&view, None)? {
            chosen.push(view);
        }
    }
    let mut xml = Xml::new();
    xml.list("availabilityZoneInfo", chosen, |xml, view| {
        xml.text("zoneName", &view.zone.name)
            .text("zoneId", &view.zone.id)
            .text("zoneState", view.state)
            .text("regionName", view.region)
            .text("groupName", format_args!("{}-zg-1", view.region))
            .text("networkBorderGroup", view.region)
            .text("zoneType", "availability-zone")
            .text("optInStatus", "opt-in-not-required");
        xml.node("messageSet", |_| {});
    });
    Ok(xml)
}

/// Those of `all` that have one of the ids (if ids are given) and pass the filters; a missing id is refused with `code`.
pub(in crate::region) fn choose<'a, T: Filterable + 'a>(
    all: impl Iterator<Item = (&'a String, &'a T)> + Clone,
    form: &FormNode,
    ids: &[String],
    code: &str,
    tags: &'a std::collections::BTreeMap<String, Tags>,
) -> Result<Vec<(String, &'a T)>, AwsError> {
    if let Some(missing) = ids.iter().find(|id| !all.clone().any(|(known, _)| known == *id)) {
        return Err(AwsError::new(code, format_args!("The ID '{missing}' does not exist")));
    }
    let filters = Filters::from_form(form)?;
    let mut chosen = Vec::new();
    for (id, resource) in all {
        if (ids.is_empty() || ids.contains(id)) && filters.pass(resource, tags.get(id))? {
            chosen.push((id.clone(), resource));
        }
    }
    Ok(chosen)
}

/// DescribeSubnets.
pub(crate) fn subnets(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let (state, ids) = (&*cx.state, form.strings("SubnetId"));
    let chosen = choose(state.network.subnets.iter(), form, &ids, "InvalidSubnetID.NotFound", &state.tags)?;
    let (page, next) = ResultPage::from_form(form, 1000)?.cut(chosen);
    let mut xml = Xml::new();
    xml.list("subnetSet", page, |xml, subnet| subnet_xml(cx, subnet, xml));
    xml.opt("nextToken", next);
    Ok(xml)
}

fn subnet_xml(cx: &Cx<'_>, subnet: &VpcSubnet, xml: &mut Xml) {
    xml.text("subnetId", &subnet.id)
        .text("subnetArn", cx.arn("subnet", &subnet.id))
        .text("state", "available")
        .text("ownerId", ACCOUNT)
        .text("vpcId", &subnet.vpc_id)
        .text("cidrBlock", subnet.cidr())
        .text("availableIpAddressCount", cx.free_addresses(subnet))
        .text("availabilityZone", &subnet.zone)
        .text("availabilityZoneId", &subnet.zone_id)
        .text("defaultForAz", false)
        .text("mapPublicIpOnLaunch", false)
        .text("assignIpv6AddressOnCreation", false)
        .text("ipv6Native", false)
        .tags(cx.state.tags.get(&subnet.id).into_iter().flatten());
}

/// DescribeSecurityGroups.
pub(crate) fn security_groups(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let (state, ids, names) = (&*cx.state, form.strings("GroupId"), form.strings("GroupName"));
    let chosen = choose(state.network.groups.iter(), form, &ids, "InvalidGroup.NotFound", &state.tags)?;
    let chosen = chosen.into_iter().filter(|(_, group)| names.is_empty() || names.contains(&group.name));
    let (page, next) = ResultPage::from_form(form, 1000)?.cut(chosen);
    let mut xml = Xml::new();
    xml.list("securityGroupInfo", page, |xml, group| group_xml(cx, group, xml));
    xml.opt("nextToken", next);
    Ok(xml)
}

fn group_xml(cx: &Cx<'_>, group: &VpcSecurityGroup, xml: &mut Xml) {
    xml.text("groupId", &group.id)
        .text("groupName", &group.name)
        .text("groupDescription", &group.description)
        .text("ownerId", ACCOUNT)
        .text("vpcId", &group.vpc_id)
        .text("securityGroupArn", cx.arn("security-group", &group.id));
    xml.list("ipPermissions", [()], |xml, ()| {
        xml.text("ipProtocol", "-1").list("groups", [()], |xml, ()| {
            xml.text("groupId", &group.id).text("userId", ACCOUNT);
        });
    });
    xml.list("ipPermissionsEgress", [()], |xml, ()| {
        xml.text("ipProtocol", "-1").list("ipRanges", [()], |xml, ()| {
            xml.text("cidrIp", "0.0.0.0/0");
        });
    });
    xml.tags(cx.state.tags.get(&group.id).into_iter().flatten());
}

/// DescribeVpcs.
pub(crate) fn vpcs(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let (state, ids) = (&*cx.state, form.strings("VpcId"));
    let vpc = &state.network.vpc;
    let chosen = choose(std::iter::once((&vpc.id, vpc)), form, &ids, "InvalidVpcID.NotFound", &state.tags)?;
    let mut xml = Xml::new();
    xml.list("vpcSet", chosen, |xml, (_, vpc)| {
        xml.text("vpcId", &vpc.id)
            .text("ownerId", ACCOUNT)
            .text("state", "available")
            .text("cidrBlock", &vpc.cidr)
            .text("isDefault", false)
            .text("instanceTenancy", "default")
            .tags(state.tags.get(&vpc.id).into_iter().flatten());
    });
    Ok(xml)
}

/// DescribeImages.
pub(crate) fn images(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let ids = form.strings("ImageId");
    let (state, owners) = (&*cx.state, form.strings("Owner"));
    let missing: Vec<&str> = ids.iter().filter(|id| state.images.get(id).is_none()).map(String::as_str).collect();
    let formed = |id: &str| {
        let hex = id.strip_prefix("ami-").unwrap_or_default();
        matches!(hex.len(), 8 | 17) && hex.chars().all(|c| c.is_ascii_hexdigit())
    };
    if let Some(odd) = missing.iter().find(|id| !formed(id)) {
        let message = format!("Invalid id: \"{odd}\" (expecting \"ami-...\")");
        return Err(AwsError::new("InvalidAMIID.Malformed", message));
    }
    if !missing.is_empty() {
        let (code, message) = match &missing[..] {
            [one] => ("InvalidAMIID.NotFound", format!("The image id '[{one}]' does not exist")),
            more => ("InvalidAMIID.NotFound", format!("The image ids '[{}]' do not exist", more.join(", "))),
        };
        return Err(AwsError::new(code, message));
    }
    let filters = Filters::from_form(form)?;
    let mut chosen = Vec::new();
    for image in state.images.all() {
        let owned = owners.is_empty() || owners.iter().any(|owner| owner == "amazon" || owner == image.owner);
        if owned && (ids.is_empty() || ids.contains(&image.id)) && filters.pass(image, state.tags.get(&image.id))? {
            chosen.push((image.id.clone(), image));
        }
    }
    let (page, next) = ResultPage::from_form(form, 1000)?.cut(chosen);
    let mut xml = Xml::new();
    xml.list("imagesSet", page, |xml, image| {
        image_xml(image, xml);
        xml.tags(state.tags.get(&image.id).into_iter().flatten());
    });
    xml.opt("nextToken", next);
    Ok(xml)
}

fn image_xml(image: &Image, xml: &mut Xml) {
    xml.text("imageId", &image.id)
        .text("imageLocation", format_args!("amazon/{}", image.name))
        .text("imageState", "available")
        .text("imageOwnerId", image.owner)
        .text("imageOwnerAlias", "amazon")
        .text("creationDate", &image.created)
        .text("isPublic", true)
        .text("architecture", image.architecture)
        .text("imageType", "machine")
        .opt("platform", image.windows.then_some("windows"))
        .text("platformDetails", if image.windows { "Windows" } else { "Linux/UNIX" })
        .text("name", &image.name)
        .text("description", &image.description)
        .text("rootDeviceType", "ebs")
        .opt("rootDeviceName", image.devices.first().map(|(name, _)| name));
    xml.list("blockDeviceMapping", image.devices, |xml, (device, size)| {
        xml.text("deviceName", device).node("ebs", |xml| {
            xml.text("volumeSize", size).text("volumeType", "gp3").text("deleteOnTermination", true);
        });
    });
    xml.text("virtualizationType", "hvm").text("hypervisor", "xen").text("enaSupport", true);
}
