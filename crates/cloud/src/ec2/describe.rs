//! DescribeInstanceTypes, DescribeInstanceTypeOfferings and DescribeSpotPriceHistory (karpenter-aws 3.1, 3.5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use aws_sdk_ec2::types::{Filter, LocationType};
use aws_smithy_types::DateTime;
use futures::future::try_join_all;

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use super::instance_type::info_of;
use crate::error::CloudError;
use crate::info::InstanceTypeInfo;

const TYPES_PAGE: i32 = 100;
const OFFERINGS_PAGE: i32 = 1000;
const SPOT_PAGE: i32 = 1000;
const SPOT_PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

pub(super) fn filter<S: Into<String>>(name: impl Into<String>, values: impl IntoIterator<Item = S>) -> Filter {
    Filter::builder().name(name).set_values(Some(values.into_iter().map(Into::into).collect())).build()
}

impl Ec2Cloud {
    pub(super) async fn describe_instance_types(&self) -> Result<Vec<InstanceTypeInfo>, CloudError> {
        let call = self.clients.ec2.describe_instance_types().max_results(TYPES_PAGE).set_filters(Some(vec![
            filter("supported-virtualization-type", ["hvm"]),
            filter("processor-info.supported-architecture", ["x86_64", "arm64"]),
        ]));
        let mut pages = call.into_paginator().items().send();
        let mut types = Vec::new();
        while let Some(item) = pages.next().await {
            let item = item.map_err(|e| classify("DescribeInstanceTypes", Effect::Repeatable, e))?;
            types.push(info_of(&item));
        }
        types.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(types)
    }

    pub(super) async fn describe_offerings(&self) -> Result<BTreeMap<String, BTreeSet<String>>, CloudError> {
        let call = self.clients.ec2.describe_instance_type_offerings();
        let call = call.location_type(LocationType::AvailabilityZone).max_results(OFFERINGS_PAGE);
        let mut pages = call.into_paginator().items().send();
        let mut zones_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        while let Some(item) = pages.next().await {
            let item = item.map_err(|e| classify("DescribeInstanceTypeOfferings", Effect::Repeatable, e))?;
            if let (Some(name), Some(zone)) = (item.instance_type, item.location) {
                zones_of.entry(name.as_str().to_owned()).or_default().insert(zone);
            }
        }
        let zones = zones_of.values().flatten().cloned().collect();
        *self.memory.zones.lock().unwrap_or_else(PoisonError::into_inner) = zones;
        Ok(zones_of)
    }

    /// Spot prices of all zones. Once the zones are known a zone's pages come beside the others'; those of one follow one
    /// another, as each names the next.
    pub(super) async fn describe_spot_prices(&self) -> Result<BTreeMap<(String, String), f64>, CloudError> {
        let zones = self.memory.zones.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if zones.is_empty() {
            return self.spot_prices_in(None).await;
        }
        let of_zones = try_join_all(zones.iter().map(|zone| self.spot_prices_in(Some(zone)))).await?;
        Ok(of_zones.into_iter().flatten().collect())
    }

    async fn spot_prices_in(&self, zone: Option<&String>) -> Result<BTreeMap<(String, String), f64>, CloudError> {
        let now = DateTime::from_secs(self.clock.wall().as_second());
        let call = self.clients.ec2.describe_spot_price_history().start_time(now).max_results(SPOT_PAGE);
        let call = call.set_availability_zone(zone.cloned());
        let call = call.set_product_descriptions(Some(SPOT_PRODUCTS.map(String::from).to_vec()));
        let mut pages = call.into_paginator().items().send();
        let mut newest: BTreeMap<(String, String), (i64, f64)> = BTreeMap::new();
        while let Some(item) = pages.next().await {
            let item = item.map_err(|e| classify("DescribeSpotPriceHistory", Effect::Repeatable, e))?;
            let price = item.spot_price().and_then(|p| p.parse::<f64>().ok()).filter(|p| *p > 0.0);
            let (Some(name), Some(zone), Some(price)) = (item.instance_type(), item.availability_zone(), price) else {
                continue;
            };
            let at = item.timestamp().map_or(0, DateTime::secs);
            let entry = newest.entry((name.as_str().to_owned(), zone.to_owned())).or_insert((at, price));
            if at > entry.0 {
                *entry = (at, price);
            }
        }
        Ok(newest.into_iter().map(|(key, (_, price))| (key, price)).collect())
    }
}
