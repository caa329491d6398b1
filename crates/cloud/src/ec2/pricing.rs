//! On-demand prices of the Pricing API (karpenter-aws 3.5).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use super::services::next_page;
use crate::error::CloudError;
use crate::shipped;

const PAGE: u8 = 100;
const CALL: &str = "GetProducts";

impl Ec2Cloud {
    pub(super) async fn get_on_demand_prices(&self) -> Result<BTreeMap<String, f64>, CloudError> {
        if self.settings.isolated_vpc || self.region.starts_with("us-gov-") {
            return Ok(shipped::catalogue(&self.region).on_demand);
        }
        let shared = self.products("Shared", "Compute Instance");
        let metal = self.products("Dedicated", "Compute Instance (bare metal)");
        let (mut prices, metal) = futures::try_join!(shared, metal)?;
        if prices.is_empty() || metal.is_empty() {
            return Err(CloudError::Retryable {
                call: CALL,
                code: "Empty".into(),
                message: "the price list came back empty".into(),
            });
        }
        for (name, price) in metal {
            prices.entry(name).or_insert(price);
        }
        Ok(prices)
    }

    async fn products(&self, tenancy: &str, family: &str) -> Result<BTreeMap<String, f64>, CloudError> {
        let filters = [
            ("regionCode", self.region.as_str()),
            ("serviceCode", "AmazonEC2"),
            ("preInstalledSw", "NA"),
            ("operatingSystem", "Linux"),
            ("capacitystatus", "Used"),
            ("marketoption", "OnDemand"),
            ("tenancy", tenancy),
            ("productFamily", family),
        ];
        let currency = if self.region.starts_with("cn-") { "CNY" } else { "USD" };
        let (mut prices, mut token) = (BTreeMap::new(), None);
        loop {
            let page = self.clients.pricing.get_products(&filters, PAGE, token.as_deref()).await;
            let page = page.map_err(|e| classify(CALL, Effect::Repeatable, e))?;
            prices.extend(page.price_list.iter().flatten().filter_map(|product| price_of(product, currency)));
            match next_page(token.as_deref(), page.next_token) {
                None => return Ok(prices),
                next => token = next,
            }
        }
    }
}

/// A product of the price list, as much of it as is read.
#[derive(Deserialize)]
struct Priced {
    product: Product,
    terms: Terms,
}

#[derive(Deserialize)]
struct Product {
    attributes: Attributes,
}

#[derive(Deserialize)]
struct Attributes {
    #[serde(rename = "instanceType")]
    instance_type: String,
}

#[derive(Deserialize)]
struct Terms {
    #[serde(rename = "OnDemand")]
    on_demand: BTreeMap<String, Term>,
}

#[derive(Deserialize)]
struct Term {
    #[serde(default, rename = "priceDimensions")]
    dimensions: BTreeMap<String, Dimension>,
}

#[derive(Deserialize)]
struct Dimension {
    /// By currency.
    #[serde(default, rename = "pricePerUnit")]
    price: BTreeMap<String, String>,
}

/// Type and price of one product; `None` where it has none, or costs nothing.
fn price_of(product: &str, currency: &str) -> Option<(String, f64)> {
    let priced: Priced = serde_json::from_str(product).ok()?;
    let dimensions = priced.terms.on_demand.values().flat_map(|term| term.dimensions.values());
    let prices = dimensions.filter_map(|dimension| dimension.price.get(currency));
    let price = prices.filter_map(|price| price.parse::<f64>().ok()).find(|price| *price > 0.0)?;
    Some((priced.product.attributes.instance_type, price))
}

#[cfg(test)]
mod tests {
    use super::price_of;

    #[test]
    fn product_price_is_its_on_demand_term_and_zero_is_none() {
        let product = |usd: &str| {
            format!(
                r#"{{"product":{{"attributes":{{"instanceType":"m5.large"}}}},"terms":{{"OnDemand":{{"X":{{"priceDimensions":
                {{"Y":{{"pricePerUnit":{{"USD":"{usd}"}}}}}}}}}}}}}}"#
            )
        };
        assert_eq!(price_of(&product("0.0960000000"), "USD"), Some(("m5.large".into(), 0.096)));
        assert_eq!(price_of(&product("0.0000000000"), "USD"), None);
        assert_eq!(price_of(&product("0.096"), "CNY"), None);
        assert_eq!(price_of("no json", "USD"), None);
    }
}
