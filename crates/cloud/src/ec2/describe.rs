//! DescribeInstanceTypes, DescribeInstanceTypeOfferings and DescribeSpotPriceHistory (karpenter-aws 3.1, 3.5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use aws_sdk_ec2::types::Filter;
use aws_smithy_types::DateTime;
use futures::future::try_join_all;

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use crate::error::CloudError;
use crate::info::InstanceTypeInfo;

const SPOT_PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];

pub(super) fn filter<S: Into<String>>(name: impl Into<String>, values: impl IntoIterator<Item = S>) -> Filter {
    Filter::builder().name(name).set_values(Some(values.into_iter().map(Into::into).collect())).build()
}

impl Ec2Cloud {
    pub(super) async fn describe_instance_types(&self) -> Result<Vec<InstanceTypeInfo>, CloudError> {
        let types = self.clients.region_lists.describe_instance_types().await;
        let mut types = types.map_err(|e| classify("DescribeInstanceTypes", Effect::Repeatable, e))?;
        types.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(types)
    }

    pub(super) async fn describe_offerings(&self) -> Result<BTreeMap<String, BTreeSet<String>>, CloudError> {
        let offered = self.clients.region_lists.describe_instance_type_offerings().await;
        let offered = offered.map_err(|e| classify("DescribeInstanceTypeOfferings", Effect::Repeatable, e))?;
        let mut zones_of: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for one in offered.into_iter().filter(|one| !one.instance_type.is_empty() && !one.zone.is_empty()) {
            zones_of.entry(one.instance_type).or_default().insert(one.zone);
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
        let (now, zone) = (DateTime::from_secs(self.clock.wall().as_second()), zone.map(String::as_str));
        let prices = self.clients.region_lists.describe_spot_price_history(now, zone, SPOT_PRODUCTS).await;
        let prices = prices.map_err(|e| classify("DescribeSpotPriceHistory", Effect::Repeatable, e))?;
        let mut newest: BTreeMap<(String, String), (i64, f64)> = BTreeMap::new();
        for one in prices {
            let price = one.price.parse::<f64>().ok().filter(|price| *price > 0.0);
            let (false, false, Some(price)) = (one.instance_type.is_empty(), one.zone.is_empty(), price) else {
                continue;
            };
            let entry = newest.entry((one.instance_type, one.zone)).or_insert((one.since, price));
            if one.since > entry.0 {
                *entry = (one.since, price);
            }
        }
        Ok(newest.into_iter().map(|(key, (_, price))| (key, price)).collect())
    }
}
