//! DescribeInstances, DescribeInstanceStatus, RebootInstances, TerminateInstances.

use crate::region::actions::filters::{Filterable, Filters, maybe, one};
use crate::region::actions::paging::ResultPage;
use crate::region::config::ACCOUNT;
use crate::region::instance::{CapacityType, InstanceState, RegionInstance};
use crate::region::lifecycle::{BY_USER, EndReason};
use crate::region::wire::error::AwsError;
use crate::region::wire::form::FormNode;
use crate::region::wire::xml::Xml;
use crate::region::{Cx, stamp};

impl Filterable for RegionInstance {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        let here = self.state != InstanceState::Terminated;
        match filter {
            "instance-id" => one(&self.id),
            "instance-state-name" => one(self.state.name()),
            "instance-state-code" => one(self.state.code()),
            "instance-type" => one(&self.instance_type),
            "client-token" => maybe(self.client_token.as_ref()),
            "instance-lifecycle" => maybe((self.capacity_type == CapacityType::Spot).then_some("spot")),
            "spot-instance-request-id" => maybe(self.spot_request.as_ref()),
            "availability-zone" => one(&self.zone),
            "availability-zone-id" => one(&self.zone_id),
            "subnet-id" | "network-interface.subnet-id" => maybe(here.then_some(&self.subnet_id)),
            "private-ip-address" | "network-interface.addresses.private-ip-address" => {
                maybe(here.then_some(self.private_ip))
            }
            "private-dns-name" => maybe(here.then_some(&self.hostname)),
            "image-id" => one(&self.image_id),
            "architecture" => one(&self.architecture),
            "reservation-id" => one(&self.reservation),
            "owner-id" => one(ACCOUNT),
            "tenancy" => one(&self.tenancy),
            "placement-group-name" => maybe(self.place.group.as_ref().map(|(_, name)| name)),
            "placement-partition-number" => maybe(self.place.partition),
            "launch-time" => one(stamp(self.launched)),
            "instance.group-id" | "group-id" => Some(self.security_groups.clone()),
            "root-device-type" => one("ebs"),
            "virtualization-type" => one("hvm"),
            _ => None,
        }
    }
}

impl Cx<'_> {
    /// The instance of that id, if describes see it yet.
    pub fn visible(&self, id: &str) -> Result<&RegionInstance, AwsError> {
        if !well_formed(id) {
            let message = format!("Invalid id: \"{id}\" (expecting \"i-...\")");
            return Err(AwsError::new("InvalidInstanceID.Malformed", message));
        }
        let missing =
            || AwsError::new("InvalidInstanceID.NotFound", format_args!("The instance ID '{id}' does not exist"));
        self.state.instances.get(id).filter(|i| i.visible_from <= self.now).ok_or_else(missing)
    }

    /// The visible instances among the ids (all, if none are given) that pass the filters.
    fn chosen(&self, form: &FormNode) -> Result<Vec<&RegionInstance>, AwsError> {
        let ids = form.strings("InstanceId");
        for id in &ids {
            self.visible(id)?;
        }
        let filters = Filters::from_form(form)?;
        let mut chosen = Vec::new();
        if ids.is_empty() && self.faults.settings().ec2.empty_lists {
            return Ok(chosen);
        }
        for (id, instance) in &self.state.instances {
            let asked = instance.visible_from <= self.now && (ids.is_empty() || ids.contains(id));
            if asked && filters.pass(instance, Some(&instance.tags))? {
                chosen.push(instance);
            }
        }
        Ok(chosen)
    }
}

fn well_formed(id: &str) -> bool {
    id.strip_prefix("i-").is_some_and(|hex| matches!(hex.len(), 8 | 17) && hex.chars().all(|c| c.is_ascii_hexdigit()))
}

/// DescribeInstances.
pub(crate) fn describe(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    if !form.get("InstanceId").is_absent() && !form.get("MaxResults").is_absent() {
        let message = "The parameter instancesSet cannot be used with the parameter maxResults";
        return Err(AwsError::new("InvalidParameterCombination", message));
    }
    let chosen = cx.chosen(form)?.into_iter().map(|instance| (instance.id.clone(), instance));
    let (page, next) = ResultPage::from_form(form, 1000)?.cut(chosen);
    let count = page.len();
    let mut reservations: Vec<(&str, Vec<&RegionInstance>)> = Vec::new();
    for instance in page {
        match reservations.iter_mut().find(|(id, _)| *id == instance.reservation) {
            Some((_, instances)) => instances.push(instance),
            None => reservations.push((&instance.reservation, vec![instance])),
        }
    }
    let mut xml = Xml::new();
    xml.list("reservationSet", reservations, |xml, (_, instances)| reservation_xml(cx, &instances, xml));
    xml.opt("nextToken", next);
    cx.notes.push(("count", count.into()));
    Ok(xml)
}

/// A reservation as RunInstances answers it.
pub(crate) fn reservation(cx: &Cx<'_>, ids: &[String]) -> Xml {
    let instances: Vec<&RegionInstance> = ids.iter().filter_map(|id| cx.state.instances.get(id)).collect();
    let mut xml = Xml::new();
    reservation_xml(cx, &instances, &mut xml);
    xml
}

fn reservation_xml(cx: &Cx<'_>, instances: &[&RegionInstance], xml: &mut Xml) {
    xml.opt("reservationId", instances.first().map(|i| &i.reservation)).text("ownerId", ACCOUNT);
    xml.node("groupSet", |_| {});
    xml.list("instancesSet", instances, |xml, instance| instance_xml(cx, instance, xml));
}

fn state_xml(name: &str, state: InstanceState, xml: &mut Xml) {
    xml.node(name, |xml| {
        xml.text("code", state.code()).text("name", state.name());
    });
}

/// The reason for an instance's state: EC2 adds the time where a user caused it.
fn transition_reason(i: &RegionInstance, message: &str) -> String {
    match i.ended.filter(|_| i.state_reason == Some(BY_USER)) {
        Some(at) => format!("User initiated ({} GMT)", at.strftime("%Y-%m-%d %H:%M:%S")),
        None => message.to_owned(),
    }
}

fn instance_xml(cx: &Cx<'_>, i: &RegionInstance, xml: &mut Xml) {
    let here = i.state != InstanceState::Terminated;
    xml.text("instanceId", &i.id).text("imageId", &i.image_id);
    state_xml("instanceState", i.state, xml);
    xml.text("privateDnsName", if here { i.hostname.as_str() } else { "" }).text("dnsName", "");
    match i.state_reason {
        Some(EndReason { code, message }) => {
            xml.text("reason", transition_reason(i, message)).node("stateReason", |xml| {
                xml.text("code", code).text("message", message);
            });
        }
        None => drop(xml.text("reason", "")),
    }
    xml.text("amiLaunchIndex", 0)
        .text("instanceType", &i.instance_type)
        .text("launchTime", stamp(i.launched))
        .node("placement", |xml| {
            xml.text("availabilityZone", &i.zone)
                .text("availabilityZoneId", &i.zone_id)
                .text("groupName", i.place.group.as_ref().map_or("", |(_, name)| name))
                .opt("groupId", i.place.group.as_ref().map(|(id, _)| id))
                .opt("partitionNumber", i.place.partition)
                .text("tenancy", &i.tenancy);
        })
        .node("monitoring", |xml| {
            xml.text("state", if i.detailed_monitoring { "enabled" } else { "disabled" });
        });
    if here {
        xml.text("subnetId", &i.subnet_id)
            .text("vpcId", &cx.state.network.vpc.id)
            .text("privateIpAddress", i.private_ip)
            .text("sourceDestCheck", true);
        groups_xml(cx, i, xml);
    }
    xml.text("architecture", &i.architecture).text("rootDeviceType", "ebs");
    xml.opt("rootDeviceName", i.volumes.first().map(|(device, _)| device));
    devices_xml(i, here, xml);
    xml.text("virtualizationType", "hvm").text("clientToken", i.client_token.as_deref().unwrap_or_default());
    xml.tags(&i.tags).text("hypervisor", "xen");
    if let Some(request) = &i.spot_request {
        xml.text("instanceLifecycle", "spot").text("spotInstanceRequestId", request);
    }
    if let Some((arn, id)) = i.instance_profile.as_ref().and_then(|name| cx.state.iam.profile_arn(name)) {
        xml.node("iamInstanceProfile", |xml| {
            xml.text("arn", arn).text("id", id);
        });
    }
    metadata_xml(i, xml);
    xml.text("ebsOptimized", false).text("enaSupport", true);
    own_reservation_xml(cx, i, xml);
}

/// The capacity reservation that the instance runs in, while that lasts, and which ones it may take.
fn own_reservation_xml(cx: &Cx<'_>, i: &RegionInstance, xml: &mut Xml) {
    xml.opt("capacityReservationId", cx.reservation_of(i));
    xml.node("capacityReservationSpecification", |xml| {
        let Some(id) = &i.capacity_reservation else {
            xml.text("capacityReservationPreference", "open");
            return;
        };
        xml.text("capacityReservationPreference", "capacity-reservations-only");
        xml.node("capacityReservationTarget", |xml| {
            xml.text("capacityReservationId", id);
        });
    });
}

fn groups_xml(cx: &Cx<'_>, i: &RegionInstance, xml: &mut Xml) {
    let groups = || i.security_groups.iter().filter_map(|id| cx.state.network.groups.get(id));
    let write = |xml: &mut Xml, group: &crate::region::network::VpcSecurityGroup| {
        xml.text("groupId", &group.id).text("groupName", &group.name);
    };
    xml.list("groupSet", groups(), write);
    xml.list("networkInterfaceSet", [i], |xml, i| {
        xml.text("networkInterfaceId", &i.interface)
            .text("subnetId", &i.subnet_id)
            .text("vpcId", &cx.state.network.vpc.id)
            .text("ownerId", ACCOUNT)
            .text("status", "in-use")
            .text("privateIpAddress", i.private_ip)
            .text("privateDnsName", &i.hostname)
            .text("sourceDestCheck", true)
            .list("groupSet", groups(), write)
            .node("attachment", |xml| {
                xml.text("deviceIndex", 0)
                    .text("networkCardIndex", 0)
                    .text("status", "attached")
                    .text("attachTime", stamp(i.launched))
                    .text("deleteOnTermination", true);
            })
            .text("interfaceType", "interface");
    });
}

fn devices_xml(i: &RegionInstance, here: bool, xml: &mut Xml) {
    let volumes = i.volumes.iter().filter(|_| here);
    xml.list("blockDeviceMapping", volumes, |xml, (device, volume)| {
        xml.text("deviceName", device).node("ebs", |xml| {
            xml.text("volumeId", volume)
                .text("status", "attached")
                .text("attachTime", stamp(i.launched))
                .text("deleteOnTermination", true);
        });
    });
}

fn metadata_xml(i: &RegionInstance, xml: &mut Xml) {
    let option = |name: &str, default: &str| i.metadata.get(name).map_or(default, String::as_str).to_owned();
    xml.node("metadataOptions", |xml| {
        xml.text("state", "applied")
            .text("httpTokens", option("HttpTokens", "optional"))
            .text("httpPutResponseHopLimit", option("HttpPutResponseHopLimit", "1"))
            .text("httpEndpoint", option("HttpEndpoint", "enabled"))
            .text("httpProtocolIpv6", option("HttpProtocolIpv6", "disabled"))
            .text("instanceMetadataTags", option("InstanceMetadataTags", "disabled"));
    });
}

struct StatusView<'a> {
    instance: &'a RegionInstance,
    status: &'static str,
}

impl Filterable for StatusView<'_> {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "instance-status.status" | "system-status.status" => one(self.status),
            "instance-status.reachability" | "system-status.reachability" => {
                one(if self.status == "impaired" { "failed" } else { "passed" })
            }
            "event.code" | "event.description" | "event.instance-event-id" => Some(Vec::new()),
            other => self.instance.values(other),
        }
    }
}

/// DescribeInstanceStatus: of running instances, or of all with `IncludeAllInstances`. In a zone that is down both
/// checks fail; there are no scheduled events.
pub(crate) fn status(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let ids = form.strings("InstanceId");
    for id in &ids {
        cx.visible(id)?;
    }
    let filters = Filters::from_form(form)?;
    let mut chosen = Vec::new();
    for instance in cx.state.instances.values().filter(|i| i.visible_from <= cx.now) {
        let asked = (ids.is_empty() || ids.contains(&instance.id))
            && (form.flag("IncludeAllInstances") || instance.state == InstanceState::Running);
        let status = match instance.state {
            InstanceState::Pending => "initializing",
            InstanceState::Running if cx.faults.zone_is_down(&instance.zone) => "impaired",
            InstanceState::Running => "ok",
            _ => "not-applicable",
        };
        let view = StatusView { instance, status };
        if asked && filters.pass(&view, None)? {
            chosen.push((instance.id.clone(), view));
        }
    }
    let (page, next) = ResultPage::from_form(form, 1000)?.cut(chosen);
    let mut xml = Xml::new();
    xml.list("instanceStatusSet", page, |xml, view| status_xml(cx, &view, xml));
    xml.opt("nextToken", next);
    Ok(xml)
}

fn status_xml(cx: &Cx<'_>, view: &StatusView<'_>, xml: &mut Xml) {
    xml.text("instanceId", &view.instance.id)
        .text("availabilityZone", &view.instance.zone)
        .text("availabilityZoneId", &view.instance.zone_id);
    state_xml("instanceState", view.instance.state, xml);
    let since = cx.state.zones_down_since.get(&view.instance.zone).filter(|_| view.status == "impaired");
    for check in ["systemStatus", "instanceStatus"] {
        xml.node(check, |xml| {
            xml.text("status", view.status).list("details", [()], |xml, ()| {
                let detail = match view.status {
                    "impaired" => "failed",
                    "ok" => "passed",
                    other => other,
                };
                xml.text("name", "reachability")
                    .text("status", detail)
                    .opt("impairedSince", since.map(|at| stamp(*at)));
            });
        });
    }
}

/// RebootInstances: all of them, or with one unknown id none. EC2 queues the request; what does not run is not rebooted.
pub(crate) fn reboot(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let ids = form.strings("InstanceId");
    if ids.is_empty() {
        return Err(AwsError::missing("InstanceId"));
    }
    for id in &ids {
        let state = cx.visible(id)?.state;
        if state != InstanceState::Running {
            let message =
                format!("The instance '{id}' is not in a state from which it can be rebooted: {}", state.name());
            return Err(AwsError::new("IncorrectState", message));
        }
    }
    if form.flag("DryRun") {
        return Err(AwsError::dry_run());
    }
    cx.notes.push(("instances", ids.iter().map(|id| serde_json::Value::from(&**id)).collect()));
    ids.iter().for_each(|id| cx.reboot(id));
    let mut xml = Xml::new();
    xml.text("return", "true");
    Ok(xml)
}

/// TerminateInstances: all of them, or with one unknown id none.
pub(crate) fn terminate(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let ids = form.strings("InstanceId");
    if ids.is_empty() {
        return Err(AwsError::missing("InstanceId"));
    }
    for id in &ids {
        cx.visible(id)?;
    }
    if form.flag("DryRun") {
        return Err(AwsError::dry_run());
    }
    cx.notes.push(("instances", ids.iter().map(|id| serde_json::Value::from(&**id)).collect()));
    let mut changes = Vec::new();
    for id in &ids {
        let before = cx.visible(id)?.state;
        if before.is_alive() {
            cx.shut_down(id, BY_USER);
        }
        changes.push((id, before, cx.visible(id)?.state));
    }
    let mut xml = Xml::new();
    xml.list("instancesSet", changes, |xml, (id, before, now)| {
        xml.text("instanceId", id);
        state_xml("currentState", now, xml);
        state_xml("previousState", before, xml);
    });
    Ok(xml)
}
