//! The Pricing API's GetProducts: the on-demand price list, for EC2 in this region.

use std::borrow::Cow;

use dovetail_cloud::info::InstanceTypeInfo;
use serde_json::{Map, Value, json};

use crate::region::Cx;
use crate::region::actions::paging::ResultPage;
use crate::region::ids;
use crate::region::wire::error::AwsError;

/// The offer term code of on-demand and the rate code of an hour, the same in every entry of AWS's list.
const ON_DEMAND: &str = "JRTCKXETXF";
const HOURLY: &str = "6YS6EN2CT7";
/// Dedicated instances of the families that have them cost a tenth more than shared ones, apart from the regional fee.
const DEDICATED: f64 = 1.1;

/// Carries out an action of the Pricing API.
pub(crate) fn act(cx: &mut Cx<'_>, action: &str, body: &Value) -> Result<Value, AwsError> {
    match action {
        "GetProducts" => get_products(cx, body),
        _ => Err(AwsError::new("UnknownOperationException", format_args!("unknown operation {action}"))),
    }
}

fn get_products(cx: &mut Cx<'_>, body: &Value) -> Result<Value, AwsError> {
    if body.get("ServiceCode").and_then(Value::as_str) != Some("AmazonEC2") {
        return Err(AwsError::new("InvalidParameterException", "Invalid service code"));
    }
    let filters = read_filters(body)?;
    let token = body.get("NextToken").and_then(Value::as_str);
    let page = ResultPage::new(body.get("MaxResults").and_then(Value::as_i64), token, 100)
        .map_err(|error| AwsError::new("InvalidNextTokenException", error.message))?;
    let region = cx.config.region.as_str();
    let mut chosen = Vec::new();
    for info in &cx.catalogue.types {
        let Some(&price) = cx.catalogue.on_demand.get(&info.name) else { continue };
        // Bare metal is a dedicated machine in any case: the list has it under both, at one price.
        let dedicated = if info.bare_metal { price } else { price * DEDICATED };
        for (tenancy, price) in [("Shared", price), ("Dedicated", dedicated)] {
            let entry = Entry { info, region, tenancy, price };
            if entry.passes(&filters) {
                chosen.push((format!("{}/{tenancy}", info.name), entry));
            }
        }
    }
    chosen.sort_by(|a, b| a.0.cmp(&b.0));
    // Only this page's entries are written out: the list is read page by page, and has thousands of them.
    let (page, next) = page.cut(chosen);
    let list: Vec<String> = page.iter().map(Entry::product).collect();
    let mut answer = json!({"FormatVersion": "aws_v1", "PriceList": list});
    if let Some(next) = next {
        answer["NextToken"] = Value::from(next);
    }
    Ok(answer)
}

fn read_filters(body: &Value) -> Result<Vec<(String, String)>, AwsError> {
    let read = |filter: &Value| {
        let text = |name| filter.get(name).and_then(Value::as_str);
        match (text("Type"), text("Field"), text("Value")) {
            (Some("TERM_MATCH" | "EQUALS"), Some(field), Some(value)) => Ok((field.to_owned(), value.to_owned())),
            _ => Err(AwsError::new("InvalidParameterException", format_args!("filter not supported: {filter}"))),
        }
    };
    body.get("Filters").and_then(Value::as_array).into_iter().flatten().map(read).collect()
}

fn family_of(info: &InstanceTypeInfo) -> &'static str {
    if info.bare_metal { "Compute Instance (bare metal)" } else { "Compute Instance" }
}

/// Names of the attributes in an entry's product; [`Entry::attribute`] has the values.
const ATTRIBUTES: [&str; 20] = [
    "servicecode",
    "servicename",
    "regionCode",
    "location",
    "locationType",
    "instanceType",
    "instancesku",
    "currentGeneration",
    "vcpu",
    "memory",
    "physicalProcessor",
    "networkPerformance",
    "tenancy",
    "operatingSystem",
    "licenseModel",
    "preInstalledSw",
    "capacitystatus",
    "marketoption",
    "operation",
    "usagetype",
];

/// An entry of the list: an instance type under a tenancy.
struct Entry<'a> {
    info: &'a InstanceTypeInfo,
    region: &'a str,
    tenancy: &'static str,
    price: f64,
}

impl Entry<'_> {
    fn passes(&self, filters: &[(String, String)]) -> bool {
        filters.iter().all(|(field, wanted)| match field.as_str() {
            "productFamily" => family_of(self.info).eq_ignore_ascii_case(wanted),
            "serviceCode" | "ServiceCode" => wanted == "AmazonEC2",
            // The list's attribute of which market a price is for; the terms below are on-demand ones.
            field => self.attribute(field).is_some_and(|has| has.eq_ignore_ascii_case(wanted)),
        })
    }

    fn attribute(&self, name: &str) -> Option<Cow<'_, str>> {
        let info = self.info;
        let usage = if self.tenancy == "Shared" { "BoxUsage" } else { "DedicatedUsage" };
        Some(match name {
            "servicecode" => "AmazonEC2".into(),
            "servicename" => "Amazon Elastic Compute Cloud".into(),
            "regionCode" | "location" => self.region.into(),
            "locationType" => "AWS Region".into(),
            "instanceType" => info.name.as_str().into(),
            "instancesku" => format!("{:016X}", ids::fnv(&info.name)).into(),
            "currentGeneration" => if info.current_generation { "Yes" } else { "No" }.into(),
            "vcpu" => info.vcpus.to_string().into(),
            "memory" => format!("{} GiB", info.memory_mib as f64 / 1024.0).into(),
            "physicalProcessor" => info.cpu_manufacturer.as_deref().unwrap_or("NA").into(),
            "networkPerformance" => info.network.performance.as_str().into(),
            "tenancy" => self.tenancy.into(),
            "operatingSystem" => "Linux".into(),
            "licenseModel" => "No License required".into(),
            "preInstalledSw" => "NA".into(),
            "capacitystatus" => "Used".into(),
            "marketoption" => "OnDemand".into(),
            "operation" => "RunInstances".into(),
            "usagetype" => format!("{usage}:{}", info.name).into(),
            _ => return None,
        })
    }

    /// A JSON text within the JSON answer, as AWS has it.
    fn product(&self) -> String {
        let Self { info, region, tenancy, price } = self;
        let sku = format!("{:016X}", ids::fnv(&format!("{region}/{}/{tenancy}", info.name)));
        let term = format!("{sku}.{ON_DEMAND}");
        let rate = format!("{term}.{HOURLY}");
        let currency = if region.starts_with("cn-") { "CNY" } else { "USD" };
        let dimension = json!({
            "unit": "Hrs",
            "beginRange": "0",
            "endRange": "Inf",
            "rateCode": rate,
            "description": format!("${price:.6} per On Demand Linux {} Instance Hour", info.name),
            "appliesTo": [],
            "pricePerUnit": {currency: format!("{price:.10}")},
        });
        let on_demand = json!({
            "sku": sku,
            "offerTermCode": ON_DEMAND,
            "effectiveDate": "2026-07-01T00:00:00Z",
            "termAttributes": {},
            "priceDimensions": {rate: dimension},
        });
        let attributes: Map<String, Value> = ATTRIBUTES
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), Value::from(self.attribute(name)?))))
            .collect();
        json!({
            "product": {"productFamily": family_of(info), "attributes": attributes, "sku": sku},
            "serviceCode": "AmazonEC2",
            "terms": {"OnDemand": {term: on_demand}},
            "version": "20260701000000",
            "publicationDate": "2026-07-01T00:00:00Z",
        })
        .to_string()
    }
}
