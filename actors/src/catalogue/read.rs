//! Reads the region in the background: types and zones, on-demand and spot prices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_cloud::catalogue::{RegionCatalogue as Offers, Zone};
use dovetail_cloud::{CloudError, CloudOfferings, shipped};
use futures::future::{join, join3, pending};
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::Notify;

use super::{Catalogue, doubt};
use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::telemetry::log_event::LogEvent;

/// Time that the catalogue waits for prices before it uses substitutes.
const LONGEST_PRICE_WAIT: Duration = Duration::from_secs(10);

/// Name of the reading of types in log lines.
const READING_TYPES: &str = "reading instance types";

/// Spot prices by instance type and zone, $/h.
pub(super) type SpotPrices = BTreeMap<(String, String), f64>;

/// The catalogue has been read, and which of its prices are EC2's of now.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct ReadCatalogue {
    pub offers: Offers,
    /// On-demand prices are those of the Pricing API, read just now.
    pub on_demand: bool,
    /// Spot prices are those of the price history, read just now.
    pub spot: bool,
}

/// Prices of a read that have come after all.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) enum LatePrices {
    /// By instance type.
    OnDemand(BTreeMap<String, f64>),
    /// By instance type and zone.
    Spot(SpotPrices),
}

impl LatePrices {
    /// True if there is no price at all; such an answer is ignored.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::OnDemand(prices) => prices.is_empty(),
            Self::Spot(prices) => prices.is_empty(),
        }
    }
}

impl Handler<ReadCatalogue> for Catalogue {
    type Result = ();

    fn handle(&mut self, read: ReadCatalogue, ctx: &mut Self::Context) {
        let ReadCatalogue { mut offers, mut on_demand, mut spot } = read;
        let known = self.offers.clone();
        // EC2 does not lose all that it offers, nor begin with nothing.
        match doubt::sift(&mut offers) {
            Some(why) => {
                doubt::fill(&mut offers, known.as_deref());
                if offers.spot.is_empty() {
                    offers.spot = stand_in(&offers);
                }
                self.doubt(why, known.is_some(), ctx);
            }
            None => self.believe(),
        }
        if let Some(known) = known {
            let lost = |now: bool, before: bool| now && !before;
            let (no_price, no_spot) = (offers.on_demand.is_empty(), offers.spot.is_empty());
            // Prices that have not come stay as they are known.
            if lost(no_price, known.on_demand.is_empty()) || (!on_demand && self.on_demand_read.is_some()) {
                offers.on_demand.clone_from(&known.on_demand);
                on_demand = false;
            }
            if lost(no_spot, known.spot.is_empty()) || (!spot && self.spot_read.is_some()) {
                offers.spot.clone_from(&known.spot);
                spot = false;
            }
        }
        self.learn(offers, on_demand, spot);
    }
}

impl Catalogue {
    /// Reads everything anew. An earlier read that still waits for prices is given up: this one asks for them as well.
    pub(super) fn read_anew(&mut self, ctx: &mut Context<Self>) {
        if let Some(earlier) = self.reading.take() {
            ctx.cancel_future(earlier);
        }
        // This read takes the place of the one planned after an answer that was not believed.
        if let Some(planned) = self.doubted.take() {
            ctx.cancel_future(planned);
        }
        let (this, first) = (ctx.address(), self.offers.is_none());
        let reading = read_catalogue(self.cloud.clone(), self.env.clone(), this, first).into_actor(self);
        self.reading = Some(ctx.spawn(reading));
    }

    /// An answer is not believed: another is asked for in a while. Said of the first in a row.
    fn doubt(&mut self, why: &str, known: bool, ctx: &mut Context<Self>) {
        self.doubts = self.doubts.saturating_add(1);
        if self.doubts == 1 {
            let instead = if known { "what was known" } else { "what is shipped" };
            let error =
                format!("EC2's list is no fact, as {why}: that is not believed, and {instead} counts meanwhile");
            self.env.emit(LogEvent::Retrying { what: READING_TYPES.to_owned(), error });
        }
        self.doubted = Some(ctx.run_later(doubt::pause_after(self.doubts), |catalogue, ctx| catalogue.read_anew(ctx)));
    }

    /// An answer is believed.
    fn believe(&mut self) {
        self.doubted = None;
        let doubts = std::mem::take(&mut self.doubts);
        if doubts > 0 {
            self.env.emit(LogEvent::Recovered { what: READING_TYPES.to_owned(), attempts: doubts.saturating_add(1) });
        }
    }
}

/// Reads everything, however long it takes. Where prices do not come soon what is read has those shipped on demand, and for spot
/// those on demand: never a model's; those that come later are posted by themselves. On-demand prices, which change once in
/// months, are given up as soon as they are refused: a cluster without a way to the Pricing API does not wait for it.
///
/// With `SPOT_PRICE_REFRESH_INTERVAL=never` spot prices are read once only.
pub(super) async fn read_catalogue(cloud: Arc<dyn CloudOfferings>, env: Env, to: Addr<Catalogue>, first: bool) {
    let spot_again = first || env.settings.spot_price_refresh.is_some();
    let types = patiently(&env, || cloud.instance_types(), || {});
    let offered = patiently(&env, || cloud.offerings(), || {});
    let refused = Notify::new();
    let mut on_demand = Box::pin(patiently(&env, || cloud.on_demand_prices(), || refused.notify_one()));
    let mut spot = Box::pin(patiently(&env, || cloud.spot_prices(), || {}));
    let spot_soon = async { if spot_again { soon(&mut spot, pending()).await } else { None } };
    let soon = join(soon(&mut on_demand, refused.notified()), spot_soon);
    let (types, offered, (on_demand_soon, spot_soon)) = join3(types, offered, soon).await;
    let zones: BTreeSet<_> = offered.values().flatten().cloned().collect();
    let mut offers = Offers {
        region: cloud.region().to_owned(),
        zones: zones.into_iter().map(|name| Zone { name, id: String::new() }).collect(),
        types: types.into_iter().map(Arc::new).collect(),
        offered,
        ..Offers::default()
    };
    let (on_demand_came, spot_came) = (on_demand_soon.is_some(), spot_soon.is_some());
    offers.on_demand = on_demand_soon.unwrap_or_else(|| shipped::catalogue(cloud.region()).on_demand);
    offers.spot = spot_soon.unwrap_or_else(|| stand_in(&offers));
    env.post(&to, ReadCatalogue { offers, on_demand: on_demand_came, spot: spot_came });
    let mut late = FuturesUnordered::new();
    if !on_demand_came {
        late.push(on_demand.map(LatePrices::OnDemand).boxed_local());
    }
    if spot_again && !spot_came {
        late.push(spot.map(LatePrices::Spot).boxed_local());
    }
    while let Some(prices) = late.next().await {
        env.post(&to, prices);
    }
}

/// Reads the spot prices, however long it takes.
pub(super) async fn read_spot(cloud: Arc<dyn CloudOfferings>, env: Env) -> SpotPrices {
    patiently(&env, || cloud.spot_prices(), || {}).await
}

/// Spot prices while none has been read: those on demand, which no spot instance exceeds for long.
pub fn stand_in(offers: &Offers) -> SpotPrices {
    let priced = offers.on_demand.iter().filter_map(|(name, price)| Some((name, *price, offers.offered.get(name)?)));
    let each =
        priced.flat_map(|(name, price, zones)| zones.iter().map(move |zone| ((name.clone(), zone.clone()), price)));
    each.collect()
}

/// Returns the answer, or nothing if `given_up` or [`LONGEST_PRICE_WAIT`] comes first.
async fn soon<T>(call: &mut (impl Future<Output = T> + Unpin), given_up: impl Future<Output = ()>) -> Option<T> {
    tokio::select! {
        biased;
        answer = call => Some(answer),
        () = given_up => None,
        () = tokio::time::sleep(LONGEST_PRICE_WAIT) => None,
    }
}

/// Repeats a read until it succeeds; said once. `refused` hears of the first failure.
async fn patiently<T, F>(env: &Env, mut call: impl FnMut() -> F, refused: impl Fn()) -> T
where
    F: Future<Output = Result<T, CloudError>>,
{
    let mut backoff = Backoff::cloud(env.rng("read"));
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => {
                let pause = backoff.pause();
                if backoff.failures() == 1 {
                    env.emit(LogEvent::Retrying { what: error.call().to_owned(), error: error.to_string() });
                    refused();
                }
                tokio::time::sleep(pause).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_spot_price_is_on_demand_price_where_type_is_offered() {
        let offers = Offers {
            on_demand: [("m5.large".to_owned(), 0.096), ("c5.large".to_owned(), 0.085)].into(),
            offered: [
                ("m5.large".to_owned(), ["a", "b"].map(String::from).into()),
                ("x9.large".to_owned(), ["a".to_owned()].into()),
            ]
            .into(),
            ..Offers::default()
        };
        let spot = stand_in(&offers);
        let expected: SpotPrices =
            [(("m5.large".to_owned(), "a".to_owned()), 0.096), (("m5.large".to_owned(), "b".to_owned()), 0.096)].into();
        assert_eq!(spot, expected);
    }
}
