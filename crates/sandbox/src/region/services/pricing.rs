//! The Pricing API's GetProducts: the on-demand price list, for EC2 in this region.

use std::borrow::Cow;
use std::collections::BTreeMap;

use dovetail_cloud::info::InstanceTypeInfo;
use serde::Serialize;
use serde_json::{Value, json};

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
            let (key, entry) = (format!("{}/{tenancy}", info.name), Entry { info, region, tenancy, price });
            if !page.is_past(&key) && entry.passes(&filters) {
                chosen.push((key, entry));
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
        let dimension = Dimension {
            unit: "Hrs",
            begin_range: "0",
            end_range: "Inf",
            rate_code: &rate,
            description: format!("${price:.6} per On Demand Linux {} Instance Hour", info.name),
            applies_to: [],
            price_per_unit: [(currency, format!("{price:.10}"))].into(),
        };
        let on_demand = OfferTerm {
            sku: &sku,
            offer_term_code: ON_DEMAND,
            effective_date: "2026-07-01T00:00:00Z",
            term_attributes: BTreeMap::new(),
            price_dimensions: [(rate.as_str(), dimension)].into(),
        };
        let attributes = ATTRIBUTES.iter().filter_map(|name| Some((*name, self.attribute(name)?))).collect();
        let listed = Listed {
            product: Product { product_family: family_of(info), attributes, sku: &sku },
            service_code: "AmazonEC2",
            terms: Terms { on_demand: [(term.as_str(), on_demand)].into() },
            version: "20260701000000",
            publication_date: "2026-07-01T00:00:00Z",
        };
        // Strings and maps of strings can always be written.
        serde_json::to_string(&listed).unwrap_or_default()
    }
}

/// A product as the list has it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    product: Product<'a>,
    service_code: &'a str,
    terms: Terms<'a>,
    version: &'a str,
    publication_date: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Product<'a> {
    product_family: &'a str,
    attributes: BTreeMap<&'a str, Cow<'a, str>>,
    sku: &'a str,
}

/// Terms by their codes.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Terms<'a> {
    on_demand: BTreeMap<&'a str, OfferTerm<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfferTerm<'a> {
    sku: &'a str,
    offer_term_code: &'a str,
    effective_date: &'a str,
    term_attributes: BTreeMap<&'a str, &'a str>,
    /// By rate code.
    price_dimensions: BTreeMap<&'a str, Dimension<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Dimension<'a> {
    unit: &'a str,
    begin_range: &'a str,
    end_range: &'a str,
    rate_code: &'a str,
    description: String,
    applies_to: [&'a str; 0],
    /// By currency.
    price_per_unit: BTreeMap<&'a str, String>,
}
