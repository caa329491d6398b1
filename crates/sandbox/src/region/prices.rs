//! Prices by the hour: on demand by the price list, spot by zone.

use std::time::Duration;

use dovetail_cloud::catalogue::RegionCatalogue;
use jiff::Timestamp;

use super::actions::filters::{Filterable, Filters, one};
use super::actions::paging::ResultPage;
use super::instance::CapacityType;
use super::wire::error::AwsError;
use super::wire::form::FormNode;
use super::wire::xml::Xml;
use super::{Cx, stamp};

const LINUX: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

/// $/h; `None` where the type is not offered or has no such price.
fn price(catalogue: &RegionCatalogue, instance_type: &str, zone: &str, capacity: CapacityType) -> Option<f64> {
    let offered = catalogue.offered.get(instance_type).is_some_and(|zones| zones.contains(zone));
    let price = match capacity {
        CapacityType::OnDemand => catalogue.on_demand.get(instance_type),
        CapacityType::Spot => catalogue.spot.get(&(instance_type.to_owned(), zone.to_owned())),
    };
    price.copied().filter(|_| offered)
}

impl Cx<'_> {
    /// $/h now; `None` where the type is not offered or has no such price.
    pub(crate) fn price(&self, instance_type: &str, zone: &str, capacity: CapacityType) -> Option<f64> {
        let price = price(self.catalogue, instance_type, zone, capacity)?;
        Some(if capacity == CapacityType::Spot { price * self.spot_factor(instance_type, zone) } else { price })
    }

    /// Spot price of a type in a zone now, as a multiple of the model's.
    fn spot_factor(&self, instance_type: &str, zone: &str) -> f64 {
        self.faults.spot_factor(instance_type, zone, Duration::from_secs_f64(self.log.seconds()))
    }
}

struct SpotView<'a> {
    instance_type: &'a str,
    zone: &'a str,
    zone_id: &'a str,
    product: &'static str,
    price: f64,
    since: Timestamp,
}

impl Filterable for SpotView<'_> {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "instance-type" => one(self.instance_type),
            "availability-zone" => one(self.zone),
            "availability-zone-id" => one(self.zone_id),
            "product-description" => one(self.product),
            "spot-price" => one(format_args!("{:.6}", self.price)),
            "timestamp" => one(stamp(self.since)),
            _ => None,
        }
    }
}

/// DescribeSpotPriceHistory: whatever the period, each pool has one price, the one in force now, since the top of the hour
/// before the request.
pub(crate) fn spot_history(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let filters = Filters::from_form(form)?;
    let (types, products) = (form.strings("InstanceType"), form.strings("ProductDescription"));
    let zone = form.text("AvailabilityZone");
    let since = Timestamp::from_second(cx.wall.as_second() / 3600 * 3600).unwrap_or(cx.wall);
    let (page, mut chosen) = (ResultPage::from_form(form, 1000)?, Vec::new());
    for ((instance_type, in_zone), price) in &cx.catalogue.spot {
        let asked = (types.is_empty() || types.contains(instance_type)) && zone.is_none_or(|zone| zone == in_zone);
        let Some(zone) = cx.catalogue.zones.iter().find(|zone| asked && zone.name == *in_zone) else { continue };
        // An account of today has VPCs only; EC2 gives those prices under the plain name, and the filter takes both.
        let product = LINUX[0];
        if !products.is_empty() && !products.iter().any(|p| LINUX.contains(&p.as_str())) {
            continue;
        }
        let key = format!("{instance_type}/{in_zone}");
        if page.is_past(&key) {
            continue;
        }
        let view = SpotView {
            instance_type,
            zone: in_zone,
            zone_id: &zone.id,
            product,
            price: *price * cx.spot_factor(instance_type, in_zone),
            since,
        };
        if filters.pass(&view, None)? {
            chosen.push((key, view));
        }
    }
    chosen.sort_by(|a, b| a.0.cmp(&b.0));
    let (page, next) = page.cut(chosen);
    let mut xml = Xml::new();
    xml.list("spotPriceHistorySet", page, |xml, view| {
        xml.text("instanceType", view.instance_type)
            .text("productDescription", view.product)
            .text("spotPrice", format_args!("{:.6}", view.price))
            .text("timestamp", stamp(view.since))
            .text("availabilityZone", view.zone)
            .text("availabilityZoneId", view.zone_id);
    });
    // EC2 writes an empty token into an answer that is complete.
    xml.text("nextToken", next.unwrap_or_default());
    Ok(xml)
}
