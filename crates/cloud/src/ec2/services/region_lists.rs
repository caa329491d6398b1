//! EC2's long lists (instance types, their zones, spot prices), read straight into our own types. They are most of what EC2
//! sends at a start and while nothing happens; the SDK keeps fields that nobody reads, in a crate that is not optimised.

use aws_config::SdkConfig;
use aws_smithy_runtime::client::retries::RetryPartition;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use aws_smithy_types::error::metadata::{Builder, ErrorMetadata};
use aws_smithy_xml::decode::{Document, ScopedDecoder, XmlDecodeError, try_data};

use super::endpoints::{FipsHost, Host};
use super::instance_type::read_instance_type;
use super::query::form_call;
use super::xml::{each_member, items_of, read_error, text_of};
use super::{Called, Service, ServiceClient, next_page};
use crate::info::InstanceTypeInfo;

const VERSION: &str = "2016-11-15";
const TYPES_PAGE: &str = "100";
const OFFERINGS_PAGE: &str = "1000";
const SPOT_PAGE: &str = "1000";

static EC2: Service = Service {
    id: "EC2",
    signing_name: "ec2",
    host: Host::Regional { prefix: "ec2", fips: FipsHost::NotInGov },
    error_of,
};

/// Lists of what a region has.
#[derive(Clone, Debug)]
pub(in crate::ec2) struct RegionLists(ServiceClient);

/// A page of a list.
#[derive(Debug)]
struct Page<T> {
    items: Vec<T>,
    /// The next page's name; absent or empty on the last.
    next_token: Option<String>,
}

/// An instance type that a zone has.
#[derive(Debug, Default, PartialEq)]
pub(in crate::ec2) struct Offering {
    pub instance_type: String,
    pub zone: String,
}

/// A spot price as it was from some time on.
#[derive(Debug, Default, PartialEq)]
pub(in crate::ec2) struct SpotPrice {
    pub instance_type: String,
    pub zone: String,
    /// Dollars an hour, as EC2 writes them.
    pub price: String,
    /// Seconds since 1970; 0 where EC2 says none.
    pub since: i64,
}

impl RegionLists {
    pub fn new(config: &SdkConfig, partition: RetryPartition) -> Self {
        Self(ServiceClient::new(&EC2, config, partition))
    }

    /// The instance types that run HVM images of x86_64 or arm64.
    pub async fn describe_instance_types(&self) -> Called<Vec<InstanceTypeInfo>> {
        let parameters = [
            ("Filter.1.Name", "supported-virtualization-type"),
            ("Filter.1.Value.1", "hvm"),
            ("Filter.2.Name", "processor-info.supported-architecture"),
            ("Filter.2.Value.1", "x86_64"),
            ("Filter.2.Value.2", "arm64"),
            ("MaxResults", TYPES_PAGE),
        ];
        let page_of = |body: &[u8]| page_of(body, "DescribeInstanceTypes", "instanceTypeSet", read_instance_type);
        self.all("DescribeInstanceTypes", &parameters, page_of).await
    }

    /// The instance types by zone.
    pub async fn describe_instance_type_offerings(&self) -> Called<Vec<Offering>> {
        const OPERATION: &str = "DescribeInstanceTypeOfferings";
        let parameters = [("LocationType", "availability-zone"), ("MaxResults", OFFERINGS_PAGE)];
        let page_of = |body: &[u8]| page_of(body, OPERATION, "instanceTypeOfferingSet", read_offering);
        self.all(OPERATION, &parameters, page_of).await
    }

    /// The prices that hold at that time and later ones, for each of the products, of all zones or of one.
    pub async fn describe_spot_price_history(
        &self,
        start: DateTime,
        zone: Option<&str>,
        products: [&str; 2],
    ) -> Called<Vec<SpotPrice>> {
        // A time that cannot be written is left out: EC2 then lists all prices, of which the newest counts.
        let start = start.fmt(Format::DateTime).ok();
        let mut parameters = vec![("MaxResults", SPOT_PAGE)];
        parameters.extend(start.as_deref().map(|start| ("StartTime", start)));
        parameters.extend([("ProductDescription.1", products[0]), ("ProductDescription.2", products[1])]);
        parameters.extend(zone.map(|zone| ("AvailabilityZone", zone)));
        let page_of = |body: &[u8]| page_of(body, "DescribeSpotPriceHistory", "spotPriceHistorySet", read_spot_price);
        self.all("DescribeSpotPriceHistory", &parameters, page_of).await
    }

    /// The items of all pages.
    async fn all<T>(
        &self,
        operation: &'static str,
        parameters: &[(&str, &str)],
        page_of: fn(&[u8]) -> Result<Page<T>, BoxError>,
    ) -> Called<Vec<T>>
    where
        T: std::fmt::Debug + Send + Sync + 'static,
    {
        let (mut items, mut token) = (Vec::new(), None::<String>);
        loop {
            let named = token.as_deref().map(|token| ("NextToken", token));
            let asked: Vec<(&str, &str)> = parameters.iter().copied().chain(named).collect();
            let page = self.0.send(form_call(VERSION, operation, &asked), page_of).await?;
            items.extend(page.items);
            token = next_page(token.as_deref(), page.next_token);
            if token.is_none() {
                return Ok(items);
            }
        }
    }
}

/// Code and message in `<Response><Errors><Error>`.
fn error_of(_: &HttpResponse, body: &[u8]) -> Result<Builder, BoxError> {
    let mut document = Document::try_from(body)?;
    let mut root = document.root_element()?;
    let mut meta = ErrorMetadata::builder();
    each_member(&mut root, |name, errors| {
        if name != "Errors" {
            return Ok(());
        }
        each_member(errors, |_, error| read_error(error, &mut meta))
    })?;
    Ok(meta)
}

/// Reads the answer to an operation, whose list is named `list`.
///
/// # Errors
/// The answer is another one, ends too soon, or has a member that cannot be read.
fn page_of<T>(
    body: &[u8],
    operation: &str,
    list: &str,
    read_item: fn(&mut ScopedDecoder<'_, '_>) -> Result<T, XmlDecodeError>,
) -> Result<Page<T>, BoxError> {
    let mut document = Document::try_from(body)?;
    let mut root = document.root_element()?;
    let answer = format!("{operation}Response");
    if !root.start_el().matches(&answer) {
        return Err(format!("the answer is no {answer}").into());
    }
    let mut page = Page { items: Vec::new(), next_token: None };
    each_member(&mut root, |name, member| {
        if name == list {
            page.items = items_of(member, read_item)?;
        } else if name == "nextToken" {
            page.next_token = Some(text_of(member)?);
        }
        Ok(())
    })?;
    // The reader takes an answer that is cut off for one that is over: its list would look whole.
    let end = [b"</", answer.as_bytes(), b">"].concat();
    if !body.trim_ascii_end().ends_with(&end) {
        return Err(format!("the {answer} ends too soon").into());
    }
    Ok(page)
}

fn read_offering(item: &mut ScopedDecoder<'_, '_>) -> Result<Offering, XmlDecodeError> {
    let mut offering = Offering::default();
    each_member(item, |name, member| {
        match name {
            "instanceType" => offering.instance_type = text_of(member)?,
            "location" => offering.zone = text_of(member)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(offering)
}

fn read_spot_price(item: &mut ScopedDecoder<'_, '_>) -> Result<SpotPrice, XmlDecodeError> {
    let mut found = SpotPrice::default();
    each_member(item, |name, member| {
        match name {
            "instanceType" => found.instance_type = text_of(member)?,
            "availabilityZone" => found.zone = text_of(member)?,
            "spotPrice" => found.price = text_of(member)?,
            "timestamp" => {
                let since = DateTime::from_str(&try_data(member)?, Format::DateTimeWithOffset);
                found.since = since.map_err(XmlDecodeError::unhandled)?.secs();
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(found)
}
