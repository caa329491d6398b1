//! DescribeInstanceTypes and DescribeInstanceTypeOfferings.

use dovetail_cloud::info::InstanceTypeInfo;

use crate::region::Cx;
use crate::region::actions::filters::{Filterable, Filters, maybe, one};
use crate::region::actions::paging::ResultPage;
use crate::region::actions::type_xml;
use crate::region::wire::error::AwsError;
use crate::region::wire::form::FormNode;
use crate::region::wire::xml::Xml;

struct TypeView<'a>(&'a InstanceTypeInfo);

impl Filterable for TypeView<'_> {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        let i = self.0;
        match filter {
            "instance-type" => one(&i.name),
            "current-generation" => one(i.current_generation),
            "free-tier-eligible" => one(i.free_tier),
            "bare-metal" => one(i.bare_metal),
            "burstable-performance-supported" => one(i.burstable),
            "dedicated-hosts-supported" => one(i.dedicated_hosts),
            "auto-recovery-supported" => one(i.auto_recovery),
            "hibernation-supported" => one(i.hibernation),
            "hypervisor" => maybe(i.hypervisor.as_ref()),
            "instance-storage-supported" => one(i.storage.is_some()),
            "instance-storage-info.nvme-support" => maybe(i.storage.as_ref().map(|s| &s.nvme)),
            "memory-info.size-in-mib" => one(i.memory_mib),
            "network-info.efa-supported" => one(i.network.efa),
            "network-info.ena-support" => one(&i.network.ena),
            "network-info.encryption-in-transit-supported" => one(i.network.encryption_in_transit),
            "network-info.ipv6-supported" => one(i.network.ipv6),
            "processor-info.supported-architecture" => Some(i.architectures.clone()),
            "processor-info.supported-features" => Some(i.cpu_features.clone()),
            "supported-boot-mode" => Some(i.boot_modes.clone()),
            "supported-root-device-type" => Some(i.root_devices.clone()),
            "supported-usage-class" => Some(i.usage_classes.clone()),
            "supported-virtualization-type" => Some(i.virtualization.clone()),
            "vcpu-info.default-vcpus" => one(i.vcpus),
            "vcpu-info.default-cores" => one(i.cores),
            "vcpu-info.default-threads-per-core" => one(i.threads_per_core),
            _ => None,
        }
    }
}

/// DescribeInstanceTypes: pages of a hundred at most.
pub(crate) fn types(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let asked = form.strings("InstanceType");
    // With wildcards a name may match nothing; without, it has to be a type.
    let unknown: Vec<&str> = asked
        .iter()
        .filter(|name| !name.contains(['*', '?']) && cx.catalogue.instance_type(name).is_none())
        .map(String::as_str)
        .collect();
    if !unknown.is_empty() {
        let message = format!("The following supplied instance types do not exist: [{}]", unknown.join(", "));
        return Err(AwsError::new("InvalidInstanceType", message));
    }
    let filters = Filters::from_form(form)?;
    let named = |name: &str| asked.iter().any(|pattern| crate::faults::glob_matches(pattern, name));
    let (page, mut chosen) = (ResultPage::from_form(form, 100)?, Vec::new());
    // The catalogue has them in the order of their names.
    for info in cx.catalogue.types.iter().filter(|info| !page.is_past(&info.name)) {
        if page.is_full(chosen.len()) {
            break;
        }
        if (asked.is_empty() || named(&info.name)) && filters.pass(&TypeView(info), None)? {
            chosen.push((info.name.clone(), info));
        }
    }
    let (page, next) = page.cut(chosen);
    let mut xml = Xml::new();
    xml.list("instanceTypeSet", page, |xml, info| type_xml::write(info, xml));
    xml.opt("nextToken", next);
    Ok(xml)
}

struct OfferingView<'a> {
    instance_type: &'a str,
    location: &'a str,
}

impl Filterable for OfferingView<'_> {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "instance-type" => one(self.instance_type),
            "location" => one(self.location),
            _ => None,
        }
    }
}

/// DescribeInstanceTypeOfferings, by region (the default), zone or zone id.
pub(crate) fn offerings(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let kind = form.text("LocationType").unwrap_or("region");
    let filters = Filters::from_form(form)?;
    let (page, mut chosen) = (ResultPage::from_form(form, 1000)?, Vec::new());
    for (instance_type, zones) in &cx.catalogue.offered {
        let of_zone = |zone: &&dovetail_cloud::catalogue::Zone| zones.contains(&zone.name);
        let offered = cx.catalogue.zones.iter().filter(of_zone);
        let locations: Vec<&str> = match kind {
            "region" => vec![&cx.config.region],
            "availability-zone" => offered.map(|zone| zone.name.as_str()).collect(),
            "availability-zone-id" => offered.map(|zone| zone.id.as_str()).collect(),
            other => return Err(AwsError::invalid(format_args!("Invalid location type: {other}"))),
        };
        for location in locations {
            let (key, view) = (format!("{instance_type}/{location}"), OfferingView { instance_type, location });
            if !page.is_past(&key) && filters.pass(&view, None)? {
                chosen.push((key, view));
            }
        }
    }
    // `a.large/…` sorts before `a.large-flex` as a type, after it as a key: pages need the order of the keys.
    chosen.sort_by(|a, b| a.0.cmp(&b.0));
    let (page, next) = page.cut(chosen);
    let mut xml = Xml::new();
    xml.list("instanceTypeOfferingSet", page, |xml, view| {
        xml.text("instanceType", view.instance_type).text("locationType", kind).text("location", view.location);
    });
    xml.opt("nextToken", next);
    Ok(xml)
}
