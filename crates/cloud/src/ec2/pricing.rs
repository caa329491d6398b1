//! On-demand prices of the Pricing API (karpenter-aws 3.5).

use std::collections::BTreeMap;

use serde_json::Value;

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

/// Type and price of one product; `None` where it has none, or costs nothing.
fn price_of(product: &str, currency: &str) -> Option<(String, f64)> {
    let product: Value = serde_json::from_str(product).ok()?;
    let name = product.pointer("/product/attributes/instanceType")?.as_str()?;
    let terms = product.pointer("/terms/OnDemand")?.as_object()?;
    let dimensions = terms.values().filter_map(|term| term.get("priceDimensions")?.as_object());
    let prices = dimensions.flat_map(|d| d.values()).filter_map(|d| d.get("pricePerUnit")?.get(currency)?.as_str());
    let price = prices.filter_map(|p| p.parse::<f64>().ok()).find(|p| *p > 0.0)?;
    Some((name.to_owned(), price))
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
